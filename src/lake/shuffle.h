/* Rows put into another order than they come in, with bounded memory: what does not fit waits in a file that has no name. Private to lake.
 * @thread one at a time */
#ifndef WEIR_LAKE_SHUFFLE_H
#define WEIR_LAKE_SHUFFLE_H

#include <stdint.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"

typedef struct wr_shuffle wr_shuffle;
/* place[i]: where the i-th row that is put goes, 0..n-1 each once; borrowed. bytes: memory for rows; dir: where the file would be. */
wr_code wr_shuffle_new(const uint32_t *place, uint64_t n, uint64_t bytes, const char *dir, wr_shuffle **ret_shuffle, wr_err *err);
void wr_shuffle_free(wr_shuffle *s);
wr_code wr_shuffle_put(wr_shuffle *s, wr_slice row, wr_err *err);
/* All rows that were put, by place. Once. WR_E_INVAL when there are not n of them. */
wr_code wr_shuffle_each(wr_shuffle *s, wr_code (*fn)(void *ctx, wr_slice row, wr_err *err), void *ctx, wr_err *err);

#endif
