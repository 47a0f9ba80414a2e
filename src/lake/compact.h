/* Compaction of one table, in steps; govern.c says when. Private to lake.
 * @thread applying thread */
#ifndef WEIR_LAKE_COMPACT_H
#define WEIR_LAKE_COMPACT_H

#include "policy.h"
#include "rewrite.h"

/* Some things may be due in a moment although nothing changes: the table was opened just now. */
bool wr_compact_is_settling(const wr_table *t);
/* What is due, or with `all` what can be done at all; work NONE = nothing. */
wr_code wr_compact_choose(const wr_table *t, bool all, wr_choice *ret, wr_err *err);
wr_code wr_compact_begin(wr_table *t, const wr_choice *choice, wr_rewrite **ret_rewrite, wr_err *err);
/* Whether the result can still take the place of what it was made from. */
bool wr_compact_fits(const wr_table *t, const wr_rewrite *w);
/* Puts it there; commit next. */
wr_code wr_compact_take(wr_table *t, wr_rewrite *w, const wr_choice *c, int64_t took_us, wr_err *err);

#endif
