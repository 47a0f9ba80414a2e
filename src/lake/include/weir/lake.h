/* Lake tables of one pipeline: changes in, Iceberg snapshots out.
 *
 * A table keeps a key -> (file, row) index, so an update or delete marks the old row in a deletion vector (v3) or a file-scoped
 * position delete (v2), never an equality delete. Everything applied since the last commit becomes visible in one catalog
 * transaction over all tables together with the queue offset it covers; after a crash the catalog alone says where to go on.
 *
 * @thread one applying thread owns wr_lake and its tables; wr_load_writer objects are used by one thread each, beside it.
 * Functions marked @any lock what they need.
 */
#ifndef WEIR_LAKE_H
#define WEIR_LAKE_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"
#include "weir/engine.h"
#include "weir/layout.h"
#include "weir/io.h"
#include "weir/model.h"
#include "weir/state.h"
#include "weir/store.h"

typedef struct wr_lake wr_lake;
typedef struct wr_table wr_table;

typedef struct wr_rest_options { /* of an Iceberg REST catalog; NULL = not said */
    const char *uri;               /* http[s]://host[:port][/base], without the v1 */
    const char *warehouse;         /* sent with the request for its configuration */
    const char *token;             /* bearer, or: */
    const char *credential;        /* OAuth2 client credentials, "id:secret" or "secret" */
    const char *oauth2_server_uri; /* <uri>/v1/oauth/tokens */
    const char *scope;             /* "catalog" */
    const char *ca_file;
    int stall_timeout_ms;          /* 30,000 */
} wr_rest_options;

/* What a commit adds to one table by changes, told before it is made so that it can be read back after it. Files of loads and of upkeep are not in it. */
typedef struct wr_addition_file {
    const char *path;
    uint64_t rows;          /* of a file of deletes: rows that it marks; else 0 */
    const char *referenced; /* the data file they are in; NULL = a data file */
    int64_t at, bytes;      /* a deletion vector's place in its file, -1 = a file of positions */
} wr_addition_file;
typedef struct wr_addition {
    uint32_t table;
    const char *ns, *name;
    const wr_schema *schema; /* of the rows */
    uint64_t applied;        /* calls of wr_table_apply since the last commit */
    uint64_t rows, sum;      /* of the data files together: rows, and wr_hash64(row, 0) of each, added up */
    bool unread;             /* what is in the files is not known: some were made anew within this commit */
    const wr_addition_file *files; int nfiles;
} wr_addition;
typedef struct wr_lake_witness {
    wr_code (*before)(void *ctx, uint64_t offset, const wr_addition *list, int n, wr_err *err); /* NULL = nobody. An error ends the commit before it has begun */
    void *ctx;
} wr_lake_witness;

typedef struct wr_lake_options { /* zero means default */
    const char *pipeline;      /* name, kept in table properties */
    const char *catalog_path;  /* SQLite file with the JDBC catalog schema V1; catalog name "weir" */
    const char *warehouse;     /* absolute folder or s3://bucket[/prefix]; table files under <warehouse>/<ns>/<name-uuid>/ */
    wr_store *store;           /* where files are; borrowed. NULL: local files only */
    const wr_rest_options *rest; /* the catalog, NULL = the SQLite file, which otherwise holds the pipeline's progress alone */
    const char *index_dir;     /* key index runs: a cache */
    int format_version;        /* 3 (default) or 2; per table at creation */
    const wr_layout_rule *layout; int nlayout; /* borrowed until close */
    bool show_loads;           /* a table whose main never had content shows what its load has so far */
    uint64_t file_bytes;       /* a pending batch above this size (memory) is written out before the commit: 48 MiB */
    uint64_t pending_bytes;    /* the same over all tables together: 96 MiB, largest first */
    uint64_t target_file_bytes;/* a data file of this size on disk is not merged any more: 128 MiB */
    uint64_t compact_bytes;    /* memory of the rows of one compaction that are not on disk yet: 32 MiB */
    int compact_files;         /* files that are worth merging: 8 */
    /* Snapshots leave a table, and with them the files that only they needed, when they are older than snapshot_age_us and not among the newest
     * snapshots_min; with more than snapshots_max also the young ones, for each makes every commit dearer. */
    int snapshots_min;         /* 300 */
    int snapshots_max;         /* 900 */
    int64_t snapshot_age_us;   /* 1 h */
    wr_lake_witness witness;
    const wr_lock *lock;       /* borrowed; nothing is committed once it does not keep others out any more. NULL: nobody else can be there */
} wr_lake_options;

/* Opens or creates catalog and folders; loads every table that belongs to the pipeline (lazily where it can). Removes files that the
 * journal announced and no commit references. */
wr_code wr_lake_open(const wr_lake_options *opts, wr_state *state, wr_engine *engine, wr_lake **ret_lake, wr_err *err);
void wr_lake_close(wr_lake *l); /* what was not committed is forgotten */

/* What the last commit covered; offset 0 and position none before the first. Caller clears the position. */
wr_code wr_lake_progress(wr_lake *l, uint64_t *ret_offset, wr_pos *ret_pos, int64_t *ret_event_time_us, wr_err *err);

/* ------------------------------------------------------------------ tables */
/* The table that takes the rows of a source table (or of a merge rule: the pipeline chooses the id), or NULL. */
wr_table *wr_lake_table(wr_lake *l, uint32_t table_id);
wr_code wr_lake_each(wr_lake *l, wr_code (*fn)(void *ctx, wr_table *t, wr_err *err), void *ctx, wr_err *err);
/* A new empty table, in the catalog with the next commit. A table of that name which is not ours, or of another pipeline: WR_E_EXISTS with
 * the way out. A dropped-and-kept table of ours with that name is moved aside to "<name>__dropped_<UTC time>" in the same commit. */
wr_code wr_lake_create(wr_lake *l, uint32_t table_id, const char *ns, const char *name, const wr_schema *schema, wr_table **ret_table, wr_err *err);

bool wr_table_is_ahead(const wr_table *t); /* has what wr_lake_progress does not tell yet: see wr_table_apply */
uint32_t wr_table_id(const wr_table *t);
const char *wr_table_ns(const wr_table *t);
const char *wr_table_name(const wr_table *t);
const wr_schema *wr_table_schema(const wr_table *t); /* the rows it takes now */

/* How a change meets a row that should not be there, or misses one that should. */
typedef enum wr_apply_mode {
    WR_APPLY_STRICT, /* counted as anomaly: insert replaces, missing old rows are passed over */
    WR_APPLY_REPLAY, /* expected: the snapshot may already hold it */
    WR_APPLY_ADD,    /* INSERT only: beside rows of the same key, which a delete takes away one by one */
} wr_apply_mode;
/* offset: of the queue's transaction; a table that holds it already passes the change over, for in a REST catalog the tables of a commit may
 * move one by one, and some may be ahead of wr_lake_progress after a crash. 0: of no transaction, always applied.
 * before/after are rows of wr_table_schema. Writes files when limits are reached, never commits. After an error of this or another function
 * that changes a table, what the table gathered since the last commit is not defined: close and open the lake. Exceptions: WR_E_INVAL,
 * WR_E_EXISTS and WR_E_UNSUPPORTED are found before anything has changed. */
wr_code wr_table_apply(wr_table *t, uint64_t offset, wr_apply_mode mode, wr_op op, wr_slice before, wr_slice after, wr_err *err);

/* Takes away one row with the key of `row`, which need not be one of the table's but for its key columns. *ret_found: there was one. Counted nowhere. Not for tables without a key. */
wr_code wr_table_remove_row(wr_table *t, wr_slice row, bool *ret_found, wr_err *err);

/* New schema for what follows; columns are matched by id. fill: old rows get `initial` of the columns that are new (their files are
 * rewritten in this commit). A changed key rebuilds the index. Types must be equal or promote; else WR_E_UNSUPPORTED (reload instead). */
wr_code wr_table_alter(wr_table *t, const wr_schema *schema, bool fill, wr_err *err);
wr_code wr_table_truncate(wr_table *t, wr_err *err);
/* Deletes every row whose first `n` columns (WR_STRING) equal vals: a shard leaving a merged table. */
wr_code wr_table_delete_prefix(wr_table *t, const char *const *vals, int n, wr_err *err);
/* In the catalog with the next commit. Names may be swapped among tables within one commit. A kept table is moved aside as for wr_lake_create. */
wr_code wr_table_rename(wr_table *t, const char *ns, const char *name, wr_err *err);
typedef enum wr_drop_mode { WR_DROP_KEEP /* table stays readable, takes no more changes */, WR_DROP_MIRROR /* leaves the catalog */ } wr_drop_mode;
wr_code wr_table_drop(wr_table *t, wr_drop_mode mode, wr_err *err); /* t is gone after the next commit; not usable after this call */

/* ------------------------------------------------------------------ loads: filling a table from a snapshot, beside its main branch */
/* Until published, the table's commits go to branch "weir-load" and main keeps what it has (nothing, for a new table). `info` is the
 * pipeline's own text (JSON), kept in each branch commit's summary: what was loaded so far travels with the data. */
/* Starts a load: the table's new content begins empty, with this schema. WR_E_UNSUPPORTED when the table has changes of rows that were not committed
 * to main. Committed (with other tables, at that offset) by the next wr_lake_commit. */
wr_code wr_table_load_begin(wr_table *t, const wr_schema *schema, const char *info, wr_err *err);
/* Forgets the changes of rows since the last commit, for a load that begins next and reads what they led to. */
void wr_table_discard(wr_table *t);
const char *wr_table_load_info(const wr_table *t); /* of the branch head; NULL = no load under way */
/* Changes the info kept by later commits of the load. */
wr_code wr_table_load_set_info(wr_table *t, const char *info, wr_err *err);

typedef struct wr_load_writer wr_load_writer;
wr_code wr_load_writer_new(wr_table *t, wr_load_writer **ret_writer, wr_err *err); /* @any */
void wr_load_writer_free(wr_load_writer *w);                                        /* rows and files not handed over are dropped */
wr_code wr_load_writer_append(wr_load_writer *w, wr_slice row, wr_err *err);
uint64_t wr_load_writer_bytes(const wr_load_writer *w);     /* memory waiting in it */
/* Writes what waits to a data file (parquet, fsync, index run), which stays the writer's. */
wr_code wr_load_writer_seal(wr_load_writer *w, wr_err *err);
/* Seals the rest and hands all files to the table: they join its next wr_table_load_commit. @any */
wr_code wr_load_writer_hand_over(wr_load_writer *w, wr_err *err);
/* Commits the files handed over to this table alone to its branch, with info; the pipeline's offset does not move. @any: serialised inside;
 * the applying thread must not apply to this table meanwhile. */
wr_code wr_table_load_commit(wr_table *t, const char *info, wr_err *err);
/* The next wr_lake_commit moves main to the table's content and ends the load. */
wr_code wr_table_publish(wr_table *t, wr_err *err);

/* ------------------------------------------------------------------ commit */
/* Makes everything applied so far visible: one catalog transaction for all tables touched. An error leaves catalog and lake as before the
 * call, so that it can be tried again; with WR_RETRY_AFTER_RELOAD (WR_E_CONFLICT: a foreign commit; else: the outcome is unknown) only after
 * closing and opening the lake, whose progress then says from where to apply again. Opening takes in what others committed. Nothing to write
 * and the same offset: does nothing. Nothing to write and a new offset: only progress moves (cheap). */
wr_code wr_lake_commit(wr_lake *l, uint64_t offset, const wr_pos *pos, int64_t event_time_us, wr_err *err);
/* Small files, and files of which much is deleted, become few, and old snapshots leave with the files that only they needed, beside the applying thread: takes the
 * result of what was begun before (wait: even if that takes a while), else begins the next job when there is one. changed: commit again, at the same offset, before
 * anything else is applied. Right after a commit. An error is one of the applying thread's, as in wr_table_apply; a failed job is only logged. */
wr_code wr_lake_govern(wr_lake *l, bool wait, bool *ret_changed, wr_err *err);
/* The same at once until nothing is due for this table, with commits at the offset where the lake is. all: also what is not due, that is every file below full size
 * or with a deleted row, once. The lake has no other changes meanwhile. WR_E_INVAL while the table is being loaded. */
wr_code wr_table_optimize(wr_table *t, bool all, wr_err *err);
/* Files below the folders of this pipeline's tables that were last changed longer ago than age_us and that no snapshot, metadata file or journal entry names. fn may
 * remove them. With a table in the catalog that cannot be read nothing is said at all. */
typedef wr_code wr_orphan_sink(void *ctx, const char *uri, uint64_t bytes, int64_t modified_us, wr_err *err);
wr_code wr_lake_orphans(wr_lake *l, int64_t age_us, wr_orphan_sink *fn, void *ctx, wr_err *err);
bool wr_lake_dirty(const wr_lake *l);         /* something would be written */
uint64_t wr_lake_pending_bytes(const wr_lake *l);

/* Reads what an addition (its schema, rows, sum and files) says was written. *ret_same false: why says what was found instead. WR_E_NOTFOUND: a file is not there. @thread any */
wr_code wr_lake_read_back(wr_engine *e, wr_store *store, const wr_addition *a, bool *ret_same, char why[256], wr_err *err);

/* ------------------------------------------------------------------ looking at it */
/* What the lake did to keep a table small and quick. Kept in the table, so that anybody can look at it. */
typedef struct wr_upkeep_action {
    int64_t at_us;
    char what[12];           /* "merge": small files; "rewrite": much was deleted; "spread": of another partition spec; "expire": old snapshots, files_in went with them */
    char why[96];
    uint64_t files_in, files_out, bytes_in, bytes_out, rows_dropped, snapshots, ms;
} wr_upkeep_action;
#define WR_UPKEEP_ACTIONS 20
/* Sizes of data files: below 1/4096, 1/256 and 1/2 of target_file_bytes, and full. */
#define WR_FILE_LEVELS 4
#define WR_TARGET_FILE_BYTES (UINT64_C(128) << 20) /* unless the options say otherwise */
typedef struct wr_upkeep {
    uint64_t new_bytes, rewritten_bytes; /* of data files: with rows that came new; with rows that were there before */
    uint64_t merges, rewrites, expiries;
    wr_upkeep_action last[WR_UPKEEP_ACTIONS]; /* oldest first */
    int n;
} wr_upkeep;

/* Partitions of the table's present spec, by their data files; a view's only. */
typedef struct wr_partition_health {
    char spec[256];          /* "month(created_at), bucket(16, id)"; "" = not partitioned */
    uint64_t partitions, files_most, bytes_most;
    char most[160], largest[160]; /* the one with most files; with most bytes: "created_at_month=2026-11, id_bucket=3" */
    uint64_t other_files;    /* of other specs: compaction spreads them */
} wr_partition_health;

typedef struct wr_table_health {
    const char *ns, *name;
    int format_version;
    uint64_t rows, data_files, data_bytes, delete_files, deleted_rows, snapshots;
    uint64_t anomalies;          /* since open: rows that were missing or already there outside a replay */
    uint64_t inserts, updates, deletes; /* applied since open */
    uint64_t compactions, compacted_bytes; /* since open: jobs, and what they wrote */
    const wr_upkeep *upkeep;     /* the table's, or until the view is closed */
    uint64_t files_at[WR_FILE_LEVELS];
    wr_partition_health partition;
    uint64_t manifest_merges;    /* among the snapshots that are there: commits that merged manifests; a view's only */
    uint64_t metadata_bytes;     /* of the newest metadata.json; a view's only */
    char due[96];                /* what compaction would do next and why, "" = nothing; a view's only */
    int64_t committed_us;        /* time of the newest snapshot, 0 = none */
    bool loading;
} wr_table_health;
wr_code wr_table_get_health(wr_table *t, wr_table_health *ret_health, wr_err *err);

/* Read-only view of a catalog, from any process, while another one writes. Lists all tables of the catalog (those of other writers too). */
typedef struct wr_lake_view wr_lake_view;
typedef struct wr_lake_view_options { /* as in wr_lake_options */
    const char *catalog_path;
    wr_store *store;
    const wr_rest_options *rest;
    const char *pipeline; /* whose progress wr_lake_view_point tells; NULL: nobody's */
} wr_lake_view_options;
wr_code wr_lake_view_open(const wr_lake_view_options *opts, wr_lake_view **ret_view, wr_err *err);
void wr_lake_view_close(wr_lake_view *v);
/* Tables as SQL sees them; valid until close. */
wr_sql_opener wr_lake_view_opener(wr_lake_view *v); /* for their files; what is opened stays so until the view is closed */
wr_code wr_lake_view_tables(wr_lake_view *v, const wr_sql_table **ret_tables, const wr_table_health **ret_health, int *ret_n, wr_err *err);
/* What a table of the view stands for: everything of the source up to `pos`, and nothing behind it. That is the later one of the pipeline's progress, read before the
 * tables, and the table's own last commit. Not so while it is being loaded (wr_table_health.loading). */
typedef struct wr_lake_point {
    bool ours;           /* the pipeline's */
    bool dropped;        /* kept after the source's table was dropped: takes no more changes */
    uint32_t table_id;   /* wr_table_id */
    int64_t snapshot;    /* -1 = none yet */
    uint64_t offset;     /* of the queue */
    wr_pos pos;          /* borrowed; file "" = nothing was committed yet */
} wr_lake_point;
void wr_lake_view_point(const wr_lake_view *v, int table, wr_lake_point *ret_point);
const wr_pos *wr_lake_view_progress(const wr_lake_view *v, uint64_t *ret_offset); /* the pipeline's, as of wr_lake_view_tables: all of its tables hold that much, and no other table was made by then */
/* The live rows of one data file of a table, those of its columns that `columns` names, in that order. WR_E_NOTFOUND: the file is not there (any more). */
wr_code wr_lake_view_rows(wr_lake_view *v, int table, int file, const int *columns, int ncolumns, wr_code (*fn)(void *ctx, uint64_t pos, wr_slice row, wr_err *err), void *ctx, wr_err *err);

#endif
