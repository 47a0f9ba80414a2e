/* Private to model: text of decimals and bytes, UTF-8. */
#ifndef WEIR_MODEL_VALUE_H
#define WEIR_MODEL_VALUE_H
#include "weir/model.h"

unsigned __int128 wr_pow10_(unsigned n); /* n <= 38 */
void wr_decimal_print_(wr_buf *b, unsigned scale, __int128 unscaled);
void wr_hex_print_(wr_buf *b, wr_slice s); /* lower case, nothing in front */
/* Number of bytes of the well-formed UTF-8 character at p (n > 0), 0 when there is none (Unicode 15, table 3-7). */
size_t wr_utf8_next_(const uint8_t *p, size_t n);
bool wr_utf8_valid_(wr_slice s);

#endif
