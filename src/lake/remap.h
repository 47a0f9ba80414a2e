/* Where rows are after several files were rewritten to several others: a row's rank among the rows that were alive when the
 * rewriting began, or the place that partitions and sorting gave that rank, says in which of the new files it is, and where. Private to lake.
 * @thread one at a time */
#ifndef WEIR_LAKE_REMAP_H
#define WEIR_LAKE_REMAP_H

#include <roaring/roaring.h>
#include <stdint.h>
#include "weir/base/err.h"

typedef struct wr_remap_input {
    uint64_t records, base; /* rows; live rows of the inputs before this one */
    roaring_bitmap_t *dead; /* pinned; owned; NULL = none */
} wr_remap_input;
typedef struct wr_remap {
    wr_remap_input *in;
    int nin, in_cap;
    uint64_t *first; /* [nout] place of an output's first row; the last one has the rest */
    int nout, out_cap;
    uint64_t live; /* rows of all inputs */
    uint32_t *place; /* [live] of each rank; owned; NULL = its own */
} wr_remap;

void wr_remap_clear(wr_remap *m);
/* The next input; dead is copied. */
wr_code wr_remap_add_input(wr_remap *m, uint64_t records, const roaring_bitmap_t *dead, wr_err *err);
/* The next output begins at this place; the first one at 0. */
wr_code wr_remap_add_output(wr_remap *m, uint64_t first, wr_err *err);
/* Calls kill for each row of the outputs whose row of the input was deleted since: `now` is all that is deleted in it; `gone`: all of it is. */
typedef wr_code wr_remap_kill(void *ctx, int output, uint32_t row, wr_err *err);
wr_code wr_remap_since(const wr_remap *m, int input, const roaring_bitmap_t *now, bool gone, wr_remap_kill *kill, void *ctx, wr_err *err);

#endif
