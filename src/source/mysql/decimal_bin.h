/* The servers' packed DECIMAL: groups of nine digits in four bytes, big-endian, the first bit inverted, negative numbers complemented
 * (MySQL strings/decimal.cc, decimal2bin). @thread any */
#ifndef WEIR_SOURCE_MYSQL_DECIMAL_BIN_H
#define WEIR_SOURCE_MYSQL_DECIMAL_BIN_H

#include <stdbool.h>
#include "weir/base/buf.h"

/* Bytes of DECIMAL(precision, scale); 0 when there is no such value (precision 1..81, scale 0..30). Columns have at most 65 digits; MySQL's JSON counts the
 * first group of a long number as nine digits, however few it has. */
unsigned wr_decimal_bin_size(unsigned precision, unsigned scale);
/* Unscaled value; precision at most 38. False when the bytes are no decimal. */
bool wr_decimal_bin_read(const uint8_t *p, unsigned precision, unsigned scale, __int128 *ret);
/* Appends the text with exactly `scale` fraction digits. False when the bytes are no decimal. */
bool wr_decimal_bin_print(const uint8_t *p, unsigned precision, unsigned scale, wr_buf *out);

#endif
