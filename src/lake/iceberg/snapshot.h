/* Planning of one table's commit, all in memory: from an edit and the table's metadata to the files and the document
 * that the commit will write. Nothing here touches a disk except reading manifests.
 * @thread one at a time per table */
#ifndef WEIR_LAKE_SNAPSHOT_H
#define WEIR_LAKE_SNAPSHOT_H

#include "iceberg/ice.h"
#include "iceberg/json.h"

typedef struct wr_plan_file {
    char *uri;
    wr_buf content;
} wr_plan_file;

typedef struct wr_plan {
    const wr_ice_edit *edit;
    wr_ice_table *table;
    cJSON *doc;         /* the new metadata; NULL: only the catalog row changes */
    char *metadata_uri; /* where it goes (the last of files); NULL with doc */
    wr_plan_file *files;
    int nfiles, cap;
    char **obsolete;
    int nobsolete; /* old metadata files to delete after the commit */
} wr_plan;

typedef enum wr_plan_metadata {
    WR_PLAN_METADATA_FILE, /* the document is one of the files */
    WR_PLAN_METADATA_SENT  /* the catalog writes the document itself: metadata_uri stays NULL */
} wr_plan_metadata;
wr_code wr_plan_edit(const wr_ice_edit *edit, wr_plan_metadata metadata, wr_plan *ret_plan, wr_err *err);
void wr_plan_clear(wr_plan *p);

wr_code wr_plan_expire(wr_plan *p, wr_err *err); /* edit->expire: takes the snapshots out of doc */

/* For the snapshot builder: a file to write. Takes content when it succeeds. */
wr_code wr_plan_add_file(wr_plan *p, char *uri, wr_buf *content, wr_err *err); /* takes uri always */

/* Adds the edit's snapshot (manifests, manifest list, snapshot member) to the plan; doc's schema is already in place.
 */
typedef struct wr_snapshot_place {
    int64_t parent_id /* -1 */, timestamp_ms;
    int64_t schema_id;
} wr_snapshot_place;
wr_code wr_snapshot_build(wr_plan *p, const wr_snapshot_place *place, int64_t *ret_snapshot_id, wr_err *err);

/* A manifest list or manifest. */
wr_code wr_snapshot_read_file(wr_store *store, const char *uri, wr_buf *out, wr_err *err);

#endif
