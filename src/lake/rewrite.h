/* Rewriting: the live rows of some data files of a table to new files of the table's present partitions, sorted as its files are, with bounded memory. Private to lake.
 *
 * Files of the present spec keep their partition. When one is of another spec, each row goes where the present spec has it ("scattered"), and the columns that partitions are made from are
 * read first. Then the sort columns are read, and where each row goes is worked out: partition after partition, in each by the order. Then all columns, and rows that are not at their place
 * yet wait (shuffle.h). Rows that are in order already go straight on; those with more keys than fit (WR_REWRITE_KEY_BYTES), or of a table without an order, are brought to their
 * partitions only. */
#ifndef WEIR_LAKE_REWRITE_H
#define WEIR_LAKE_REWRITE_H

#include "partition.h"
#include "remap.h"

#define WR_REWRITE_KEY_BYTES (UINT64_C(128) << 20) /* memory of the sort keys of a job's rows: WR_POLICY_JOB_ROWS numbers */

typedef struct wr_rewrite_input {
    uint32_t no;
    char *uri;
    int64_t first_row_id, sequence; /* which rows without their own inherit; -1 = none */
    int32_t spec_id;
    uint8_t *tuple;
    uint32_t tuple_n;
} wr_rewrite_input;

typedef struct wr_rewrite wr_rewrite;
struct wr_rewrite {
    wr_table *t;              /* the worker uses of it what never changes: lake, location */
    char *ns, *name;
    wr_schema *schema, *wide; /* pinned; with the columns of row lineage behind (v3), else the same */
    wr_key_plan *plan, *wide_plan;
    wr_spread how;            /* partitions of the new files */
    bool scattered;
    wr_order *order;
    bool sorted;              /* what comes out is in that order */
    char *list;               /* manifest list of the pinned snapshot; NULL: no lineage */
    char *run_path;           /* index runs are named after it */
    uint64_t output_bytes, group_bytes; /* where a file ends; memory of the rows of a row group */
    wr_rewrite_input *in;
    int nin;
    wr_remap map;
    wr_sealed *out;           /* owned until they are taken; file NULL = taken */
    int nout, out_cap;
    uint64_t bytes_in, bytes_out;
    bool stop;                /* atomic: what comes out is not wanted any more */
};

/* Pins files of the table by number. */
wr_code wr_rewrite_new(wr_table *t, const uint32_t *nos, int n, uint64_t output_bytes, wr_rewrite **ret_rewrite, wr_err *err);
/* Removes the files that were not taken. */
void wr_rewrite_free(wr_rewrite *w);
/* Writes the outputs and their index runs. @thread worker */
wr_code wr_rewrite_run(wr_rewrite *w, wr_err *err);

#endif
