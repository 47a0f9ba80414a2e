/* Which tables a change of another one changes without row events, through foreign keys with CASCADE and SET NULL. Looked up while rows are decoded: the
 * source says so once a transaction and table (wr_stream_sink.stale), at the place of the cause, and the pipeline reads the table again. It is done here and not
 * with the changes in the pipeline because a table that is not captured may be the cause, or be between cause and effect.
 * @thread stream */
#ifndef WEIR_SOURCE_MYSQL_CASCADE_H
#define WEIR_SOURCE_MYSQL_CASCADE_H

#include "catalogue.h"

typedef struct wr_cascades wr_cascades;
typedef struct wr_cascade_table wr_cascade_table;

/* As the catalogue is now. */
wr_code wr_cascades_new(wr_catalogue *c, wr_cascades **ret, wr_err *err);
void wr_cascades_free(wr_cascades *g);
/* A table whose changes reach others, or NULL. */
wr_cascade_table *wr_cascades_of_id(const wr_cascades *g, uint32_t table);
wr_cascade_table *wr_cascades_of_name(const wr_cascades *g, const char *db, const char *name);

typedef wr_code wr_stale_fn(void *ctx, uint32_t table, const wr_cascade_table *cause, wr_op op, wr_err *err);
/* Rows of t were deleted or updated; before and after are empty when they were not decoded. fn gets each captured table that may have changed, once a
 * transaction. */
wr_code wr_cascades_rows(wr_cascades *g, wr_cascade_table *t, wr_op op, wr_slice before, wr_slice after, wr_stale_fn *fn, void *ctx, wr_err *err);
/* A transaction whose rows were not seen: all that tables which are not captured may have changed. */
wr_code wr_cascades_unseen(wr_cascades *g, wr_stale_fn *fn, void *ctx, wr_err *err);
void wr_cascades_next(wr_cascades *g); /* transaction */
const char *wr_cascade_table_db(const wr_cascade_table *t);
const char *wr_cascade_table_name(const wr_cascade_table *t);

#endif
