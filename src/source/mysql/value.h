/* Values on their way from the server's forms to row encoding: shared by snapshot reader and binlog decoder, so that both give the same bytes.
 * @thread wr_charset objects are immutable and shared */
#ifndef WEIR_SOURCE_MYSQL_VALUE_H
#define WEIR_SOURCE_MYSQL_VALUE_H

#include "def.h"

/* Text in one of the server's character sets to UTF-8 (iconv/ICU; utf8, utf8mb4, ascii copied after validation). */
typedef struct wr_charset wr_charset;
wr_code wr_charset_get(const char *name, const wr_charset **ret_charset, wr_err *err); /* process-wide cache; WR_E_UNSUPPORTED names it */
/* Appends UTF-8 to out. Bytes that the charset does not define: WR_E_DECODE. */
wr_code wr_charset_decode(const wr_charset *cs, wr_slice in, wr_buf *out, wr_err *err);
bool wr_charset_has(const wr_charset *cs, uint32_t c); /* whether the set has this Unicode character; a search, for names and labels only */
/* Bytes of well-formed UTF-8 at the start: in.n when all of it is. */
size_t wr_utf8_prefix(wr_slice in);
/* Charset of a collation id as TABLE_MAP metadata has it; NULL when unknown. 63 = "binary". */
const char *wr_charset_of_collation(unsigned collation_id);

/* Parts of a date/time; zero or partial dates follow the zero_date policy. Sets *ret (null, date, timestamp, or string). */
wr_code wr_my_put_date(const wr_my_col *c, wr_my_types t, int year, int month, int day, wr_value *ret, wr_buf *scratch, wr_err *err);
wr_code wr_my_put_datetime(const wr_my_col *c, wr_my_types t, int year, int month, int day, int h, int m, int s, int us, wr_value *ret, wr_buf *scratch, wr_err *err);
/* micros signed; by time_as a long or "-838:59:59.000000" with the column's fsp. */
wr_code wr_my_put_time(const wr_my_col *c, wr_my_types t, int64_t us, wr_value *ret, wr_buf *scratch, wr_err *err);

#endif
