/* The parts of a comparison among themselves. Private to compare*.c. */
#ifndef WEIR_PIPELINE_COMPARE_IMPL_H
#define WEIR_PIPELINE_COMPARE_IMPL_H

#include <pthread.h>
#include "followed.h"
#include "weir/base/map.h"
#include "weir/io.h"
#include "weir/pipeline.h"
#include "weir/state.h"

typedef struct kept_chunks kept_chunks; /* compare_kept.c */

/* A source table under comparison. */
typedef struct side_member {
    uint32_t id;               /* in the pipeline's catalogue at the lake's position, 0 = not there */
    uint32_t version;          /* of its schema there */
    bool odd;                  /* its columns there are others than those of now */
    int no;                    /* in its table */
    char *db, *name, *def;
    wr_schema *schema;         /* of the source's rows */
    wr_transform *transform;   /* NULL: no rule matches */
    wr_schema *shape;          /* of what rules make of them, with the lake's column ids */
    wr_convert *convert;       /* of shape to the table's common columns; NULL: they are the same */
    struct side_table *table;
    char **cursors; uint64_t ncursors, cap; /* where its chunks begin; NULL = at the beginning */
    kept_chunks *kept;         /* what was read, for after an interruption; NULL: it is not kept */
    bool kept_any;             /* some of it was read before an interruption, when the lake had this position: */
    wr_pos kept_from; uint64_t kept_offset;
    bool exact;                /* read as of exactly read_at */
    wr_pos read_at;
    /* of what is summed up: compare_sums.c */
    wr_snap *snap;
    uint64_t rows, sum;        /* of the source, when all has been added at the lake's position; modulo 2^64 */
    uint64_t open_rows, open_sum; /* what the transaction under way adds */
    bool touched; struct side_member *next_touched;
    /* changes that wait for the transform */
    wr_buf waiting; uint64_t *seqs; size_t *ends; uint32_t nwaiting; /* [2 * nwaiting] ends: before, after */
} side_member;

/* A lake table and the source tables whose rows it has. */
typedef struct side_table {
    char *ns, *name;
    bool merged;
    side_member **members; int nmembers;
    int lake;                  /* in the view, -1 = not there */
    wr_lake_point at;
    int point;                 /* in round.points: the seq of `at` */
    wr_schema *common;         /* the columns that are compared */
    int *columns;              /* of the lake's schema, common->ncols of them */
    int *key, nkey;            /* columns of common; 0 = whole rows are counted */
    int time_column;           /* of common, -1 = no filter */
    wr_sieve *sieve;           /* NULL: its rows are not compared (any more) */
    wr_file *images; char *images_path; uint64_t images_end; wr_buf images_tail; /* rows of changes */
    wr_table_report *report;
    bool summed;               /* instead of a sieve */
    uint64_t lake_rows, lake_sum;
    bool again;                /* what was found does not count: something moved */
    uint64_t nhashed, hashed_bytes; /* rows of either side: how large they are */
    wr_md5 *md5;               /* NULL: XXH3, CRC32 */
    wr_value *vals;            /* scratch, for common or shape, whichever is wider */
    wr_buf row, key_row;
    int64_t began_us;
} side_table;

/* A position in the stream and the number of the last change at or before it. */
typedef struct seq_point { wr_pos pos; uint64_t seq; } seq_point;

typedef struct to_read { char *ns, *name; const char *why; } to_read;

/* One pass over all tables that are not decided. */
typedef struct round {
    const wr_pipeline_options *o;
    const wr_compare *what;
    wr_source *source;
    wr_engine *engine;
    wr_store *store;
    wr_routes *routes;
    wr_rules *rules;
    wr_state *state;
    wr_lake_view *view;
    char *dir;                 /* of files of the comparison */
    wr_compare_report *report;
    side_table **tables; int ntables;
    wr_u64map *members;        /* by id */
    wr_pos begin, end;         /* of the reading */
    seq_point *points; int npoints;
    uint64_t seq, seq_committed;
    uint64_t *void_from, *void_to; int nvoid;
    side_member *touched;      /* by the transaction under way, of those that are summed up */
    to_read *read; int nread;  /* tables of which sums are not enough: for all rounds */
    bool any_surplus;          /* a table of the lake that the source did not have at `begin` was found */
    wr_map *doubted;           /* "ns.name" of tables whose differences did not count yet; for all rounds */
    wr_map *ids;               /* "db.name" -> the pipeline's id of the source table */
    uint64_t shown_bytes;      /* of differing rows that reports hold */
    wr_map *tried;             /* "ns.name" of tables that had a round, so that those that cannot be decided are not in front of the others; for all rounds */
    bool use_kept;             /* an interrupted round's chunks are not read again */
    bool at_once;              /* the next round need not wait for anything */
    pthread_mutex_t lock;      /* guards read, at_once and what->progress while tables are read side by side */
} round;

wr_code wr_side_gave_up(const round *r, wr_err *err); /* WR_E_CANCELLED: nobody waits for the answer any more */

/* compare_rows.c: rows of either side to records */
wr_code wr_side_rows_open(round *r, side_table *t, uint64_t expected, wr_err *err);
wr_code wr_side_read_lake(round *r, side_table *t, wr_err *err);
wr_code wr_side_read_source(round *r, side_member *m, wr_err *err);
bool wr_side_follows(const side_table *t); /* what the stream says decides about it */
wr_code wr_side_stream(round *r, wr_err *err); /* from the earliest position of a table to the end of the reading */
wr_code wr_side_settle(round *r, side_table *t, wr_err *err); /* differences to the report */

wr_code wr_side_cursor(side_member *m, char *cursor /* taken */, wr_err *err); /* where its next chunk begins */

/* compare_kept.c: chunks that were read, on disk until their table is decided */
wr_code wr_kept_remove_all(const char *dir, wr_err *err);
/* The member's cursors and its table's sieve get what was kept of an interrupted round. *ret_done: that is all of it. */
wr_code wr_kept_open(const round *r, side_member *m, kept_chunks **ret_kept, bool *ret_done, wr_err *err);
void wr_kept_close(kept_chunks *k);
wr_code wr_kept_remove(kept_chunks *k, wr_err *err);
void wr_kept_row(kept_chunks *k, wr_h128 key, uint64_t row); /* of the chunk that is being read */
wr_code wr_kept_chunk(kept_chunks *k, const round *r, side_member *m, const char *next, wr_err *err); /* it was read; next: NULL = it was the last one */

/* compare_sums.c: counts and sums instead of rows. Opens t->summed, or the report says why not */
wr_code wr_side_sums_open(round *r, side_table *t, wr_err *err);
wr_code wr_side_sum_lake_row(side_table *t, wr_slice row, wr_err *err);
wr_code wr_side_sum_both(round *r, side_table *t, wr_err *err);
wr_code wr_side_sum_change(round *r, side_member *m, const wr_change *c, wr_err *err);
void wr_side_sum_end(round *r, const wr_pos *pos); /* of a transaction; NULL: it does not count */
wr_code wr_side_read_rows(round *r, side_table *t, const char *why, wr_err *err); /* in the next round */
wr_code wr_side_sum_settle(round *r, side_table *t, wr_err *err);

/* compare_shape.c: columns of either side */
wr_code wr_side_shape(round *r, side_table *t, wr_err *err);
/* Not decided: why, unless it was said before. Its rows do not count. */
wr_code wr_side_moved(side_table *t, wr_err *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
wr_code wr_side_reason(side_table *t, wr_verdict v, wr_err *err, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
