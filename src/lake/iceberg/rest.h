/* An Iceberg REST catalog. Private to lake. Source: Iceberg REST catalog specification (rest-catalog-open-api.yaml).
 * @thread one at a time per object */
#ifndef WEIR_LAKE_REST_H
#define WEIR_LAKE_REST_H

#include "iceberg/ice.h"
#include "iceberg/snapshot.h"
#include "weir/lake.h"
#include "weir/store.h"

typedef struct wr_rest wr_rest;
/* Asks for a token when there is a credential, then GET v1/config. Credentials that the catalog vends for a table are lent to the store. */
wr_code wr_rest_open(const wr_rest_options *opts, wr_store *store, wr_rest **ret_rest, wr_err *err);
void wr_rest_close(wr_rest *r);

/* Every table of every namespace. Levels of a namespace are joined by "."; a level that has one itself is passed over. */
wr_code wr_rest_each(wr_rest *r, wr_code (*fn)(void *ctx, const char *ns, const char *name, wr_err *err), void *ctx, wr_err *err);
/* WR_E_NOTFOUND. The table's doc is the server's metadata, location_of_meta its metadata-location. */
wr_code wr_rest_load(wr_rest *r, const char *ns, const char *name, wr_ice_table **ret_table, wr_err *err);

/* How far a commit of several tables came: a REST catalog moves tables one by one unless it has transactions/commit. */
typedef enum wr_rest_outcome { WR_REST_NOT_DONE, WR_REST_DONE, WR_REST_UNKNOWN } wr_rest_outcome;
/* Carries out the planned edits: renames first (through parking names where they swap), then creates and commits (transactions/commit where the server offers
 * it and there are several), drops last. Updates are the difference between the table's doc and the plan's. Tables that came through have the server's new
 * metadata in plan->doc and plan->metadata_uri. WR_E_CONFLICT (retry after reload): somebody else moved a branch. WR_E_EXISTS. An answer that did not come: looks for what
 * the edit would have done (its snapshot, or property weir.commit) until the server says, and sends again; gives up as WR_REST_UNKNOWN with retry after reload. */
wr_code wr_rest_commit(wr_rest *r, wr_plan *plans, int n, wr_rest_outcome *outcomes, wr_err *err);

#endif
