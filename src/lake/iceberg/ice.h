/* Iceberg's bytes and the catalog, below the table logic: what a table's metadata says, which files are live, and how a
 * set of edits to several tables becomes one catalog transaction. Private to lake. Sources: the Iceberg table spec (v2,
 * v3), Puffin spec, JDBC catalog.
 * @thread one at a time per object; wr_ice_uuid and wr_ice_location also beside a commit */
#ifndef WEIR_LAKE_ICE_H
#define WEIR_LAKE_ICE_H

#include <sqlite3.h>
#include "iceberg/spec.h"
#include "weir/base/buf.h"
#include "weir/base/err.h"
#include "weir/io.h"
#include "weir/engine.h"
#include "weir/model.h"
#include "weir/state.h"
#include "weir/store.h"

#define WR_ICE_MAIN "main"
#define WR_ICE_LOAD "weir-load"

/* In wr_column_stats of files that others wrote: the manifest does not say. Not written. */
#define WR_STAT_UNKNOWN UINT64_MAX

/* One content file as a manifest entry describes it. Callers make theirs with wr_ice_file_new. */
typedef enum wr_ice_content {
    WR_ICE_DATA = 0,
    WR_ICE_POS_DELETES = 1 /* a v2 position-delete file, or a v3 deletion vector in Puffin */,
    WR_ICE_EQ_DELETES = 2
} wr_ice_content;
typedef struct wr_ice_file {
    uint8_t content;
    char *path;   /* as in the manifest (we write plain absolute paths with file:// left out unless the table's location
                     has it) */
    char *format; /* "PARQUET" | "PUFFIN" */
    uint64_t records, bytes;
    wr_column_stats *stats;
    int nstats;
    int64_t snapshot_id;             /* that added it; 0 = not yet committed */
    int64_t sequence, file_sequence; /* -1 = inherit (new) */
    int64_t first_row_id;            /* data files, v3; -1 = inherit/none */
    int32_t spec_id;                 /* partition spec, and the values that all its rows have in common (spec.h) */
    uint8_t *tuple;
    uint32_t tuple_n;
    uint64_t sorted_by;              /* of a new data file: wr_ice_sorted_by of the order that its rows are in, 0 = none */
    int32_t sort_order_id;           /* -1 = none; given by the commit that adds the file */
    /* deletes: */
    char *referenced;                     /* data file path, NULL when not file-scoped */
    int64_t content_offset, content_size; /* deletion vector blob in the Puffin file; -1 otherwise */
    struct wr_ice_extra *extra;           /* private: what a rewritten entry keeps; NULL in files of ours */
} wr_ice_file;
/* A new file: content and a copy of path; everything else absent (-1, NULL, 0). NULL when memory is out. */
wr_ice_file *wr_ice_file_new(wr_ice_content content, const char *path);
void wr_ice_file_free(wr_ice_file *f);
static inline wr_slice wr_ice_file_tuple(const wr_ice_file *f) { return wr_slice_of(f->tuple, f->tuple_n); }
wr_code wr_ice_file_set_partition(wr_ice_file *f, int32_t spec_id, wr_slice tuple, wr_err *err);
bool wr_ice_file_same_partition(const wr_ice_file *a, const wr_ice_file *b);

typedef struct wr_ice_table
    wr_ice_table; /* metadata of one table as loaded; unknown JSON members are kept through rewrites */

/* Where the tables' names and metadata are: in a SQLite file, or in a REST catalog. Progress is in the SQLite file in either case. */
typedef struct wr_ice_catalog wr_ice_catalog;
struct wr_rest_options;
typedef struct wr_ice_catalog_options {
    const char *path; /* of the SQLite file; its tables iceberg_tables, iceberg_namespace_properties (V1) and weir_progress(pipeline, queue_offset, position,
                         event_time_us, committed_us) are created when missing. WAL, synchronous=FULL, busy timeout */
    bool read_only;
    bool progress; /* of interest although read_only and the tables are in a REST catalog */
    const struct wr_rest_options *rest; /* NULL: the tables are in the SQLite file too */
    const wr_lock *lock;                /* wr_lake_options.lock */
    wr_store *store;                    /* where files are; borrowed by every table loaded through the catalog, and lent the credentials that a REST catalog hands out */
} wr_ice_catalog_options;
wr_code wr_ice_catalog_open(const wr_ice_catalog_options *opts, wr_ice_catalog **ret, wr_err *err);
void wr_ice_catalog_close(wr_ice_catalog *c);
/* After a crash: *ret_settled is false while a request of an earlier process may still change a table, so that none of the files in the journal may be removed.
 * Always true for a SQLite catalog. */
wr_code wr_ice_settle(wr_ice_catalog *c, wr_state *state, bool *ret_settled, wr_err *err);
wr_code wr_ice_catalog_progress(wr_ice_catalog *c, const char *pipeline, uint64_t *ret_offset, wr_pos *ret_pos,
                                int64_t *ret_event_time_us, wr_err *err);
/* metadata_location is NULL in a REST catalog, which does not list it. */
wr_code wr_ice_catalog_each(wr_ice_catalog *c,
                            wr_code (*fn)(void *ctx, const char *ns, const char *name, const char *metadata_location,
                                          wr_err *err),
                            void *ctx, wr_err *err);

/* Before files of the table are read or written: a REST catalog lends its store new credentials when those of the table run out in the next minutes. Else, and in a
 * SQLite catalog, nothing. Credentials for a table that is not created yet must be the user's own. */
wr_code wr_ice_borrow(wr_ice_catalog *c, wr_ice_table *t, wr_err *err);

/* Loads metadata JSON. WR_E_NOTFOUND. */
/* Takes in what others changed in a REST catalog beside Weir's branches: tags, branches of theirs, properties. *ret_more: there are snapshots or refs that were not
 * there before. WR_E_CONFLICT (retry after reload) when they moved a branch of Weir's. Nothing in a SQLite catalog, where any change meets the next commit. */
wr_code wr_ice_refresh(wr_ice_catalog *c, wr_ice_table *t, bool *ret_more, wr_err *err);
wr_code wr_ice_load(wr_ice_catalog *c, const char *ns, const char *name, wr_ice_table **ret_table, wr_err *err);
wr_code wr_ice_load_file(wr_store *store, const char *metadata_location, wr_ice_table **ret_table, wr_err *err);
/* A table that does not exist yet: fresh uuid, location, first schema; its metadata is first written by wr_ice_commit.
 * Properties as in the design (merge-on-read modes, gc.enabled=false, write.metadata.previous-versions-max,
 * weir.pipeline, weir.table-id). */
wr_code wr_ice_new(wr_store *store, const char *ns, const char *name, const char *location, int format_version, const wr_schema *schema,
                   wr_ice_table **ret_table, wr_err *err);
void wr_ice_table_free(wr_ice_table *t);
/* A location for a new table: <warehouse>/<ns>/<name>-<8 hex digits>, escaped so that any name is a safe path (~XX, see
 * metadata.c). */
wr_code wr_ice_new_location(const char *warehouse, const char *ns, const char *name, char **ret_location, wr_err *err);

const char *wr_ice_uuid(const wr_ice_table *t);
const char *wr_ice_location(const wr_ice_table *t);
const char *wr_ice_metadata_location(const wr_ice_table *t); /* NULL before the first commit */
wr_code wr_ice_metadata_bytes(const wr_ice_table *t, uint64_t *ret_bytes, wr_err *err); /* of the metadata as JSON */
int wr_ice_format_version(const wr_ice_table *t);
const char *wr_ice_property(const wr_ice_table *t, const char *key); /* NULL when absent */
int64_t wr_ice_ref(const wr_ice_table *t, const char *ref);          /* snapshot id, -1 = no such ref */
const char *wr_ice_summary(const wr_ice_table *t, int64_t snapshot_id, const char *key);
/* Snapshots whose summary has the key. */
int wr_ice_summary_count(const wr_ice_table *t, const char *key);
#define WR_ICE_MERGED "weir.manifests-merged" /* in the summary of a commit that merged manifests: how many */
int64_t wr_ice_snapshot_time_us(const wr_ice_table *t, int64_t snapshot_id);
int wr_ice_snapshot_count(const wr_ice_table *t);
/* The newest snapshot of all branches that Weir made, -1 = none. */
int64_t wr_ice_newest_own(const wr_ice_table *t);
/* The same when neither of Weir's branches descends from it any more: somebody moved main back. -1 when one does, or when nobody can tell because
 * others expired what lies between. */
int64_t wr_ice_lost_snapshot(const wr_ice_table *t);
/* The table's current schema as Weir's (nested/unsupported types: WR_E_UNSUPPORTED naming the column). key columns from
 * identifier-field-ids or, when we wrote it, property weir.schema (our schema JSON, exact). */
wr_code wr_ice_schema(const wr_ice_table *t, wr_schema **ret_schema, wr_err *err);
/* Schema of a branch's head: what a load under way takes. WR_E_NOTFOUND when there is no such branch. */
wr_code wr_ice_ref_schema(const wr_ice_table *t, const char *ref, wr_schema **ret_schema, wr_err *err);
/* Partition specs (spec.h). All of them, with the types of the current schema's columns. */
wr_code wr_ice_specs(const wr_ice_table *t, wr_specs *ret_specs, wr_err *err);
int32_t wr_ice_default_spec(const wr_ice_table *t);
/* wr_spec_choose on the table's metadata. */
wr_code wr_ice_choose_spec(const wr_ice_table *t, const wr_term *terms, int n, const wr_schema *schema, wr_spec **ret_spec, wr_err *err);
bool wr_ice_would_clash(const wr_ice_table *t, const wr_schema *schema); /* wr_meta_would_clash */
bool wr_ice_had_column(const wr_ice_table *t, const char *name); /* in any of its schemas */
int wr_ice_renamed_column(const wr_ice_table *t, const char *name, const wr_schema *schema); /* the column of `schema` that had this name at last; -1 = none */
/* Live files of a snapshot, by reading manifest list and manifests: data and deletes. Owned array. */
wr_code wr_ice_live_files(const wr_ice_table *t, int64_t snapshot_id, wr_ice_file ***ret_files, int *ret_n,
                          wr_err *err);
/* The same in two steps, so that the second can be done beside commits: the snapshot's manifest list (owned), and the
 * files that a manifest list names, without their partitions. @thread of wr_ice_listed_files any */
wr_code wr_ice_manifest_list(const wr_ice_table *t, int64_t snapshot_id, char **ret_uri, wr_err *err);
wr_code wr_ice_listed_files(wr_store *store, const char *list_uri, wr_ice_file ***ret_files, int *ret_n, wr_err *err);
/* Every path a snapshot needs: the table's present metadata file, the manifest list, its manifests, live data and
 * delete files. */
wr_code wr_ice_each_path(const wr_ice_table *t, int64_t snapshot_id,
                         wr_code (*fn)(void *ctx, const char *path, wr_err *err), void *ctx, wr_err *err);
/* The table's metadata files: the present one and those of its log. */
wr_code wr_ice_each_metadata(const wr_ice_table *t, wr_code (*fn)(void *ctx, const char *path, wr_err *err), void *ctx, wr_err *err);
/* Every path that any snapshot of the table needs, and its metadata files, the present one and those of its log; some
 * more than once. */
wr_code wr_ice_each_reference(const wr_ice_table *t, wr_code (*fn)(void *ctx, const char *path, wr_err *err), void *ctx,
                              wr_err *err);

/* ---- deletion vectors and position deletes */
/* One deletion vector: positions of `referenced`; offset and size of its blob are filled when it is written. */
typedef struct wr_ice_dv {
    const char *referenced;
    const void *bitmap /* const roaring_bitmap_t * of 32-bit positions */;
    int64_t offset, size;
    uint64_t cardinality;
} wr_ice_dv;
/* Reads a delete file's positions (Puffin DV, or v2 Parquet position deletes through the engine), only those of
 * `data_path`. ret is roaring_bitmap_t*, owned. */
wr_code wr_ice_read_deletes(wr_engine *e, wr_store *store, const wr_ice_file *del, const char *data_path, void **ret_bitmap,
                            wr_err *err);

/* Deletes of a table in its format: v3 deletion vectors (Puffin) or v2 position deletes (Parquet; e is used for
 * these only), one file for each data file. Files go to
 * <location>/data, announced in the journal first, durable on return. (*ret_files)[i] belongs to dvs[i],
 * ready for wr_ice_edit.added. n > 0. Owned array and files. */
wr_code wr_ice_write_deletes(wr_engine *e, wr_state *state, const wr_ice_table *t, wr_ice_dv *dvs, int n,
                             wr_ice_file ***ret_files, wr_err *err);

/* Files that are about to be made enter the journal. Durable on return. */
wr_code wr_ice_announce(wr_state *state, const char *const *uris, int n, wr_err *err);

/* ---- sort orders */
typedef struct wr_ice_sort_field {
    int32_t field_id;
    bool descending, nulls_last;
} wr_ice_sort_field;
typedef struct wr_ice_sort_order {
    wr_ice_sort_field *fields;
    int n; /* 0 = as rows come */
} wr_ice_sort_order;
uint64_t wr_ice_sorted_by(const wr_ice_sort_order *o); /* the same for the same order; 0 = not sorted */

/* ---- edits: one new snapshot of one table */
typedef struct wr_ice_edit {
    wr_ice_table *table;
    const char *ref;  /* WR_ICE_MAIN or WR_ICE_LOAD: the branch that moves; its head is the parent */
    bool restart_ref; /* the new snapshot has no content of the parent: only `added` is live (load begin) */
    wr_ice_file **added;
    int nadded; /* data and deletes; borrowed */
    const char *const *removed;
    int nremoved; /* paths of data files, and of delete files with their referenced file: removed from the live set. A
                     DV is removed by (puffin path, referenced) */
    const char *const *removed_refs; /* [nremoved] referenced data path for DVs, else NULL */
    const wr_schema *schema;         /* non-NULL: schema of the new snapshot (added to schemas when different) */
    bool set_current_schema;         /* and make it current (main commits); load branches do it at publish */
    const wr_spec *spec;             /* non-NULL: of added files; joins the table's specs, and is the default one from when its schema is the current one */
    const wr_ice_sort_order *sort;   /* the table's, once it shows its columns; NULL = it stays. Added files that say so are listed as sorted by it */
    const char *const *summary_keys, *const *summary_vals;
    int nsummary; /* weir.offset, weir.load, ... */
    const char *const *prop_keys, *const *prop_vals;
    int nprops;
    bool publish;                  /* after this edit main = the new head of `ref`, and the load branch is removed */
    bool replace;                  /* the new snapshot holds what its parent holds, in other files */
    bool show;                     /* main = the new head of `ref`, which stays */
    bool no_snapshot;              /* only schema/properties/refs change (publish without new files) */
    const char *new_ns, *new_name; /* rename; NULL = as it is */
    bool create, drop;             /* catalog row */
    const struct wr_ice_expiry *expire; /* with no_snapshot and nothing else but properties: see below */
} wr_ice_edit;

/* Snapshots that leave the table: on every branch all but the newest `keep` and those younger than the limit; tags
 * stay. Which, is chosen from the table's metadata; which files only they needed (by path, over all snapshots that stay)
 * takes reading the manifests of all of them, beside whatever is committed meanwhile: what is committed builds on heads,
 * and those stay. An edit with it takes the snapshots away; then, and only then, the files may be deleted. */
typedef struct wr_ice_expire_options {
    int64_t older_than_us; /* wall clock */
    int keep;              /* 0 = 100 */
    int at_least;          /* 0 = 1: fewer are not worth it */
} wr_ice_expire_options;
typedef struct wr_ice_expiry wr_ice_expiry;
/* *ret_expiry NULL: nothing to do. */
wr_code wr_ice_expiry_new(const wr_ice_table *t, const wr_ice_expire_options *opts, wr_ice_expiry **ret_expiry,
                          wr_err *err);
void wr_ice_expiry_free(wr_ice_expiry *x);
int wr_ice_expiry_snapshots(const wr_ice_expiry *x); /* how many leave, and stay */
int wr_ice_expiry_files(const wr_ice_expiry *x);     /* found */
wr_code wr_ice_expiry_find(wr_ice_expiry *x, wr_err *err); /* @thread any */
/* Announces the files in the journal, deletes them, takes them out of it. When one cannot be deleted all stay there. @thread any */
wr_code wr_ice_expiry_delete(wr_ice_expiry *x, wr_state *state, wr_err *err);

/* Writes manifests, manifest lists and (SQLite) metadata files, each announced in the state's file journal first, fsynced. Then
 * SQLite: moves all catalog rows and the pipeline's progress in ONE transaction with compare-and-swap on metadata_location.
 * REST: moves the tables as wr_rest_commit does, all or one by one, then the progress. After an error with retry after reload some tables may have moved.
 * After success every edit's table holds its new metadata and the journal is told. WR_E_CONFLICT (retry after reload) names the table that somebody else
 * changed. edits may be 0 (progress only); pipeline NULL = progress stays. */
typedef struct wr_ice_progress {
    const char *pipeline;
    uint64_t offset;
    const wr_pos *pos;
    int64_t event_time_us;
} wr_ice_progress;
wr_code wr_ice_commit(wr_ice_catalog *c, wr_state *state, wr_ice_edit *edits, int n, const wr_ice_progress *progress,
                      wr_err *err);

#endif
