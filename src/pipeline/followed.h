/* The server that a pipeline follows, as its state knows it. In pipeline.c. */
#ifndef WEIR_PIPELINE_FOLLOWED_H
#define WEIR_PIPELINE_FOLLOWED_H

#include "weir/source.h"
#include "weir/state.h"

typedef struct wr_followed {
    char *identity;        /* NULL: none yet */
    wr_pos last;           /* the queue's end, filled in by who has the queue open */
    wr_source_known known; /* borrows from the others */
} wr_followed;
wr_code wr_followed_read(wr_state *state, wr_followed *ret, wr_err *err);
void wr_followed_clear(wr_followed *f);

#endif
