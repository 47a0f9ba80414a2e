/* Rows of a table to files of its partitions. Private to lake. */
#ifndef WEIR_LAKE_PARTITION_H
#define WEIR_LAKE_PARTITION_H

#include "table.h"

wr_code wr_spread_init(wr_spread *s, const wr_spec *spec, const wr_schema *schema, wr_err *err);
void wr_spread_clear(wr_spread *s);

/* The tuples met so far, numbered. */
typedef struct wr_tuples {
    wr_map *by_tuple; /* number + 1 */
    wr_buf bytes;
    struct { size_t at; uint32_t n; } *v;
    uint32_t n, cap;
    uint32_t last;    /* number of the row before: neighbours mostly share theirs */
} wr_tuples;
void wr_tuples_clear(wr_tuples *t);
wr_code wr_tuples_number(wr_tuples *t, wr_slice tuple, uint32_t *ret_no, wr_err *err);
static inline wr_slice wr_tuples_get(const wr_tuples *t, uint32_t no) { return (wr_slice){t->bytes.p + t->v[no].at, t->v[no].n}; }

void wr_pack_clear(wr_pack *p); /* the journal has the files */

/* The number of a file's partition among those met so far. */
wr_code wr_tuples_of_file(wr_tuples *t, const wr_ice_file *f, uint32_t *ret_no, wr_err *err);

wr_code wr_outbox_send(wr_outbox *o, wr_store *store, wr_err *err); /* all of them; empties it on success */
void wr_outbox_clear(wr_outbox *o);                                 /* and removes the files */

/* THIN: rather one file without a partition than many small ones; compaction spreads it when there is more. */
typedef enum wr_write_mode { WR_WRITE_EXACT, WR_WRITE_THIN } wr_write_mode;
/* The batch's live rows, each in a file of its partition, in that order, one file after the other: beside the batch the memory of a row group. keys[i] belongs to the batch's row i.
 * The run is kept at run_path. later: there the files go, which become objects when it is sent; NULL = at once. @thread any */
wr_code wr_table_write_rows(wr_table *t, const wr_key_plan *plan, const wr_spread *how, const wr_order *order, wr_write_mode mode, wr_batch *batch, const wr_key *keys, const char *run_path, wr_outbox *later, wr_pack *ret, wr_err *err);
/* Among the table's live files, not committed yet; all or nothing. Empties the pack on success. */
typedef enum wr_origin { WR_ORIGIN_CHANGES, WR_ORIGIN_LOAD, WR_ORIGIN_REWRITE } wr_origin;
wr_code wr_table_take_pack(wr_table *t, wr_pack *p, wr_origin origin, wr_err *err);

/* Settles the spec that the table is written by from now on, under this schema: what lake.layout says, else the table's default one. At creation all of the rule must fit
 * (WR_E_CONFIG); later, what names a column that the table once had is left out, and logged. */
wr_code wr_table_settle_spec(wr_table *t, const wr_schema *schema, wr_spec_reason reason, wr_err *err);

/* Where a new data file goes; both owned. @thread any */
wr_code wr_table_new_data_uri(const wr_table *t, const wr_spec *spec, wr_slice tuple, char **ret_uri, wr_err *err);

#endif
