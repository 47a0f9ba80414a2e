/* What the files of this folder share: the two structs. Private to lake. */
#ifndef WEIR_LAKE_TABLE_H
#define WEIR_LAKE_TABLE_H

#include <pthread.h>
#include <roaring/roaring.h>
#include "iceberg/ice.h"
#include "index.h"
#include "order.h"
#include "weir/base/map.h"
#include "weir/lake.h"

typedef struct wr_data_file {
    wr_ice_file *ice;       /* NULL = number not in use */
    roaring_bitmap_t *dead; /* rows deleted, committed or not; NULL = none */
    uint64_t *bits;         /* the same, one bit a row: asked for every change. NULL with dead */
    uint64_t ndead;
    uint64_t ndead_opened; /* when the table was opened */
    bool committed;       /* in the head snapshot */
    bool dirty;           /* dead has grown since the last commit */
    bool fresh;           /* of changes, and not committed yet: counted in the table's `fresh` */
    bool rewritten;       /* holds rows that were in a file before; since the lake was opened */
    wr_ice_file *deletes; /* the committed delete file or vector of it, NULL = none */
} wr_data_file;

typedef struct wr_sealed {
    wr_ice_file *file;
    wr_run *run;
} wr_sealed; /* a written data file with its run, both owned */

/* What changes have added since the last commit; sums only when somebody witnesses commits. witness.c */
typedef struct wr_fresh {
    uint64_t applied;
    uint64_t *row_sums; /* of the batch's rows */
    uint32_t cap;
    uint64_t rows, sum; /* of files that are written */
    const wr_schema *schema; /* theirs; a reference */
    bool unread;
} wr_fresh;

/* Files that were written together, with one index run over them; owned. */
typedef struct wr_pack {
    wr_ice_file **files;
    uint32_t n;
    wr_run *run;
} wr_pack;

/* How rows become partitions: a spec over a schema. Both pinned. */
typedef struct wr_spread {
    wr_spec *spec;
    wr_schema *schema; /* of the rows; columns behind it (row lineage) may follow */
    int *cols;         /* [spec->n] where the source columns are among them, -1 = void */
} wr_spread;

/* Why a table's layout is settled anew. */
typedef enum wr_spec_reason {
    WR_SPEC_CREATE,
    WR_SPEC_OPEN,
    WR_SPEC_ALTER,
    WR_SPEC_LOAD,   /* columns that the current schema does not have come at publishing */
    WR_SPEC_RENAME, /* and PUBLISH: no other spec when files were written by a spec that no commit has told yet */
    WR_SPEC_PUBLISH
} wr_spec_reason;

struct wr_table {
    wr_lake *lake;
    uint32_t id;
    char *ns, *name;   /* as they will be with the next commit */
    wr_ice_table *ice; /* as the catalog has it */
    wr_schema *schema; /* of the rows it takes now */
    wr_key_plan *plan;
    wr_spread how;         /* partitions of the files that are written (partition.h) */
    bool spec_dirty;       /* its spec is not the table's default one yet */
    wr_order *order;   /* of the files it writes now */
    bool opened; /* files and index are loaded */
    int64_t opened_us; /* monotonic */
    uint64_t held; /* queue offset that it had when the lake was opened: what it holds is not applied again */

    /* live content: @thread applying thread; while a load runs, under catalog_lock (opening: load_lock) */
    wr_data_file *files; /* by file number */
    uint32_t nfiles, files_cap, nfree;
    wr_map *by_path; /* path -> file number + 1 */
    wr_index *index;
    wr_batch *batch;     /* rows not yet in a file, NULL = none */
    wr_pending *pending; /* their keys */
    size_t counted;      /* bytes of both, as counted in lake->pending_total */

    /* what the next commit does beside new files and new deletes */
    wr_ice_file **gone;
    uint32_t ngone, gone_cap; /* committed data and delete files to remove; owned */
    uint32_t nstray;          /* the first of them: deletes that somebody else left without a data file, which go with the next commit and are no change of their own */
    bool create;              /* not in the catalog yet */
    bool schema_dirty, rename_dirty, restart, publish;
    bool touched;  /* any change since the last commit */
    int expire_at; /* number of snapshots at which expiry is looked at again */

    /* load */
    bool loading;
    bool shown; /* main never had anything but what this load and its forerunners have so far */
    bool load_dirty; /* info changed */
    char *load_info;
    pthread_mutex_t load_lock; /* guards sealed, nsealed, and opening for writers */
    wr_pack *sealed;
    uint32_t nsealed, sealed_cap;

    uint64_t anomalies, inserts, updates, deletes;

    wr_fresh fresh;

    /* upkeep */
    bool replace;              /* what the next commit does is only to put files in the place of others */
    bool settled;              /* nothing is due until the next commit of this table */
    int64_t upkeep_after_us;   /* monotonic; no compaction before */
    int64_t patient_until_us;  /* monotonic; a little that is deleted waits */
    uint64_t compactions, compacted_bytes;
    wr_upkeep upkeep;          /* as the catalog has it */
    wr_upkeep_action action;   /* what the next commit adds to it */
    bool has_action;
};

/* Tables that leave with the next commit. ASIDE: a kept table makes room for its name; the wr_table is a shell with ice
 * and names only. */
typedef enum wr_leave { WR_LEAVE_KEEP, WR_LEAVE_MIRROR, WR_LEAVE_ASIDE } wr_leave;
typedef struct wr_dropped {
    wr_table *table;
    wr_leave how;
} wr_dropped;

/* Data files that are written and are no objects of the store yet: many go to it together sooner than one after the other. */
typedef struct wr_outbox {
    wr_store_file *v; /* owned */
    int n, cap;
} wr_outbox;

struct wr_lake {
    char *pipeline, *warehouse, *index_dir;
    char *writer; /* this home's uuid, in tables of a REST catalog; NULL = a catalog of our own */
    int format_version;
    wr_layouts *layouts;
    bool show_loads;
    uint64_t file_bytes, pending_bytes;
    int snapshots_min, snapshots_max;
    int64_t snapshot_age_us;
    wr_state *state;
    wr_engine *engine;
    wr_store *store; /* NULL: local files only */
    wr_ice_catalog *catalog;
    pthread_mutex_t catalog_lock; /* load commits come from other threads; before any load_lock */
    wr_table **tables;
    int ntables, tables_cap;
    wr_u64map *by_id;
    wr_dropped *dropped;
    int ndropped;           /* until the next commit */
    wr_ice_table **leaving; /* found at open: a commit has dropped them, and they are in the catalog yet */
    int nleaving;
    uint64_t offset;        /* of the last commit */
    uint64_t pending_total; /* bytes waiting in all batches */
    wr_outbox outbox;       /* of the commit under way, or of one that failed */
    struct wr_job *job;        /* under way; NULL = none */
    uint64_t compact_bytes, target_file_bytes;
    int compact_files;
    int64_t next_job_us;       /* monotonic; none is begun before: the time that jobs have had, times their share */
    int job_from;              /* table to look at first */
    wr_lake_witness witness;
    bool unknown;           /* the outcome of a commit is not known: only opening anew tells */
};

/* lake.c */
bool wr_lake_has(const wr_lake *l, const char *uri); /* below its warehouse */
void wr_lake_unlist(wr_lake *l, wr_ice_table *ice); /* takes a dropped table out of the catalog */

/* table.c */
void wr_table_free(wr_table *t);
void wr_table_forget_content(wr_table *t); /* drops files, index, batch, removals from memory */
wr_code wr_table_set_schema(wr_table *t, const wr_schema *s, wr_spec_reason reason, wr_err *err); /* schema, key plan and order only */
/* By what lake.layout says of this table. At creation all of the rule must fit (WR_E_CONFIG); later, what names a column that the table once had is left out, and logged. */
wr_code wr_table_new_order(const wr_table *t, const wr_schema *s, wr_spec_reason reason, wr_order **ret_order, wr_err *err);
wr_code wr_table_settle_order(wr_table *t, const wr_schema *s, wr_spec_reason reason, wr_err *err);
void wr_table_drop_batch(wr_table *t);
wr_code wr_table_flush(wr_table *t, wr_outbox *later, wr_err *err); /* the pending batch becomes a data file; later: see wr_table_write_rows */
wr_code wr_table_add_file(wr_table *t, wr_ice_file *file, bool committed, uint32_t *ret_no,
                          wr_err *err); /* takes file over on success */
wr_code wr_table_reserve_gone(wr_table *t, uint32_t more,
                              wr_err *err); /* so that as many wr_table_remove_file / 2 cannot fail */
wr_code wr_table_remove_file(wr_table *t, uint32_t no, wr_err *err);
wr_code wr_table_kill(wr_table *t, uint32_t no, uint32_t row, wr_err *err);
wr_code wr_table_kill_all(wr_table *t, uint32_t no, const roaring_bitmap_t *rows, wr_err *err); /* committed deletes */
static inline bool wr_file_dead(const wr_data_file *f, uint32_t row) {
    return f->bits && f->bits[row / 64] >> (row % 64) & 1;
}
void wr_table_give_back(wr_table *t, uint32_t no); /* takes a file that was just added out again; it is the caller's */
uint64_t wr_table_target_bytes(const wr_table *t); /* of a full data file */
char *wr_table_index_dir(const wr_table *t); /* owned; NULL = no memory */

/* witness.c */
wr_code wr_fresh_room(wr_table *t, uint32_t row, wr_err *err); /* so that this row's sum can be noted */
void wr_fresh_flushed(wr_table *t);                           /* the batch's live rows are in files, which are marked fresh */
void wr_fresh_forget(wr_table *t);                            /* what was written since the last commit is gone */
void wr_fresh_clear(wr_table *t);                             /* it is committed */
typedef struct wr_written { wr_table *t; wr_ice_file **deletes; int ndeletes; } wr_written; /* a table of a commit, and its new delete files */
wr_code wr_lake_show(wr_lake *l, uint64_t offset, const wr_written *list, int n, wr_err *err); /* to the witness */

/* open.c */
/* wr_parquet_read of a data file, wherever it is. @thread any */
wr_code wr_table_read_file(const wr_table *t, const char *uri, const wr_schema *schema, const wr_parquet_read_options *opts,
                           wr_code (*fn)(void *ctx, uint64_t pos, wr_slice row, wr_err *err), void *ctx, wr_err *err);
wr_code wr_table_open_files(wr_table *t, wr_err *err); /* loads live files, deletes and the index, once */
/* An index of all live files under this schema: from runs on disk that fit, the rest from the files' key columns. */
wr_code wr_table_build_index(wr_table *t, const wr_schema *schema, const wr_key_plan *plan, wr_index **ret_index,
                             wr_err *err);

/* govern.c */
typedef struct wr_job wr_job;
void wr_job_cancel(wr_lake *l, const wr_table *t); /* waits for the worker; t NULL = whosever it is */

/* commit.c */
wr_code wr_lake_note_unknown(wr_lake *l, wr_code rc, const wr_err *err); /* of every wr_ice_commit; returns rc */

/* load.c */
wr_code wr_table_take_sealed(wr_table *t, wr_err *err); /* load_lock held by the caller */

#endif
