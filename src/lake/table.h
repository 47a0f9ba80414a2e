/* What lake.c, table.c, load.c and commit.c share: the two structs. Private to lake. */
#ifndef WEIR_LAKE_TABLE_H
#define WEIR_LAKE_TABLE_H

#include <pthread.h>
#include <roaring/roaring.h>
#include "iceberg/ice.h"
#include "index.h"
#include "weir/base/map.h"
#include "weir/lake.h"

typedef struct wr_data_file {
    wr_ice_file *ice;         /* NULL = number not in use any more */
    roaring_bitmap_t *dead;   /* rows deleted, committed or not; NULL = none */
    uint64_t ndead;
    bool committed;           /* in the head snapshot */
    bool dirty;               /* dead has grown since the last commit */
    wr_ice_file *deletes;     /* the committed delete file or vector of it, NULL = none */
} wr_data_file;

struct wr_table {
    wr_lake *lake;
    uint32_t id;
    char *ns, *name;
    wr_ice_table *ice;
    wr_schema *schema;        /* of the rows it takes now */
    wr_key_plan *plan;
    bool opened;              /* files and index are loaded */

    /* live content: @thread applying thread; during a load also load_commit under load_lock */
    wr_data_file *files;      /* by file number */
    uint32_t nfiles, files_cap;
    wr_map *by_path;          /* path -> file number + 1 */
    wr_index *index;
    wr_batch *batch;          /* rows not yet in a file, NULL = none */
    wr_pending *pending;      /* their keys */

    /* what the next commit does beside new files and new deletes */
    wr_ice_file **gone; uint32_t ngone, gone_cap; /* committed data and delete files to remove; owned */
    bool create;              /* not in the catalog yet */
    bool schema_dirty, rename_dirty, restart, publish;
    bool touched;             /* any change since the last commit */

    /* load */
    bool loading;
    bool load_dirty;          /* info changed */
    char *load_info;
    pthread_mutex_t load_lock; /* guards sealed, nsealed */
    struct wr_sealed { wr_ice_file *file; wr_run *run; } *sealed;
    uint32_t nsealed, sealed_cap;

    uint64_t anomalies, inserts, updates, deletes;
};

typedef struct wr_dropped { wr_table *table; wr_drop_mode mode; } wr_dropped;

struct wr_lake {
    char *pipeline, *warehouse, *index_dir;
    int format_version;
    uint64_t file_bytes, pending_bytes;
    wr_state *state;
    wr_engine *engine;
    wr_ice_catalog *catalog;
    pthread_mutex_t catalog_lock; /* load commits come from other threads */
    wr_table **tables; int ntables, tables_cap;
    wr_u64map *by_id;
    wr_dropped *dropped; int ndropped; /* until the next commit */
    uint64_t offset;           /* of the last commit */
    uint64_t pending_total;    /* bytes waiting in all batches */
};

/* table.c */
wr_code wr_table_open_files(wr_table *t, wr_err *err);        /* loads live files, deletes and the index, once */
wr_code wr_table_flush(wr_table *t, wr_err *err);             /* the pending batch becomes a data file */
wr_code wr_table_write_batch(wr_table *t, wr_batch *batch, wr_ice_file **ret_file, wr_err *err);
wr_code wr_table_add_file(wr_table *t, wr_ice_file *file, bool committed, uint32_t *ret_no, wr_err *err); /* takes file over */
wr_code wr_table_remove_file(wr_table *t, uint32_t no, wr_err *err);
wr_code wr_table_kill(wr_table *t, uint32_t no, uint32_t row, wr_err *err);
void wr_table_forget_content(wr_table *t);                    /* drops files, index, batch from memory */
wr_code wr_table_set_schema(wr_table *t, const wr_schema *s, wr_err *err); /* schema and key plan only */
void wr_table_free(wr_table *t);
size_t wr_table_pending_bytes(const wr_table *t);
char *wr_table_new_path(wr_table *t, const char *suffix);     /* <location>/data/<time>-<random><suffix> */
/* load.c */
wr_code wr_table_take_sealed(wr_table *t, wr_err *err);
/* commit.c */
typedef struct wr_table_edit wr_table_edit;

#endif
