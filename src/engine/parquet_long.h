/* Long columns of our own files, value by value.
 *
 * DuckDB has a page of a column in memory twice, and up to 2048 values of it. That is nothing for what is written in row groups of some megabytes; a value of hundreds of megabytes
 * needs several times its size. So texts and binaries of which a row group holds more than that are not asked of DuckDB: they come from here, each straight into
 * the row it belongs to. Only files that Weir has written are read so: their pages are of one kind (parquet_write.c).
 * @thread one at a time
 */
#ifndef WEIR_ENGINE_PARQUET_LONG_H
#define WEIR_ENGINE_PARQUET_LONG_H

#include "weir/base/buf.h"

typedef struct wr_long wr_long;
/* Opens those of the columns (by field id; texts and binaries) that are long in this file: ret[i] is NULL for the others. */
wr_code wr_long_open(const char *path, const int32_t *ids, int n, wr_long **ret, wr_err *err);
void wr_long_free(wr_long *l); /* NULL is fine */
/* The length of the next row's value, which is then to be taken. WR_E_DECODE for damage. */
wr_code wr_long_next(wr_long *l, bool *ret_null, uint32_t *ret_n, wr_err *err);
wr_code wr_long_take(wr_long *l, uint8_t *to, wr_err *err);

#endif
