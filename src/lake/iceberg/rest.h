/* An Iceberg REST catalog. Private to lake. Source: Iceberg REST catalog specification (rest-catalog-open-api.yaml).
 * @thread one at a time per object */
#ifndef WEIR_LAKE_REST_H
#define WEIR_LAKE_REST_H

#include "iceberg/ice.h"
#include "iceberg/snapshot.h"
#include "weir/lake.h"
#include "weir/store.h"

typedef struct wr_rest wr_rest;
/* Asks for a token when there is a credential, then GET v1/config. Credentials that the catalog vends for a table are lent to the store (NULL: to nobody). */
wr_code wr_rest_open(const wr_rest_options *opts, wr_store *store, wr_rest **ret_rest, wr_err *err);
void wr_rest_close(wr_rest *r);

/* Every table of every namespace. Levels of a namespace are joined by "."; a level that has one itself is passed over. */
wr_code wr_rest_each(wr_rest *r, wr_code (*fn)(void *ctx, const char *ns, const char *name, wr_err *err), void *ctx, wr_err *err);
/* WR_E_NOTFOUND. The table's doc is the server's metadata, location_of_meta its metadata-location. */
wr_code wr_rest_load(wr_rest *r, const char *ns, const char *name, wr_ice_table **ret_table, wr_err *err);

/* As wr_ice_borrow. */
wr_code wr_rest_borrow(wr_rest *r, wr_ice_table *t, wr_err *err);

/* Carries out the planned edits: renames first (through parking names where a name is still taken), then creates, then changes (transactions/commit where
 * the server offers it and there are several, else one by one), drops last. Updates are the difference between the table's doc and the plan's, and property
 * weir.commit with a fresh uuid. Afterwards plan->doc and plan->metadata_uri are the server's, unless somebody moved a branch since: then the doc stays ours,
 * and the next commit meets the conflict.
 *
 * What is sent is kept in the state first (fact "rest.pending"), until its outcome is known. An answer that did not come, or says that the server does not know:
 * looks at the table until the server says whether the commit is in it, and sends the same again if not; its requirements make a late first one harmless.
 *
 * On an error *ret_changed says whether something has changed, or may still change: then nothing may be taken back, and the retry class is after reload. Else
 * everything is as before: WR_E_CONFLICT (retry after reload): somebody else changed the table. WR_E_EXISTS: the name is taken (by a table: retry after reload, for an earlier process of ours may have made it). WR_E_NET and WR_E_SERVER (retry soon). */
wr_code wr_rest_commit(wr_rest *r, wr_state *state, wr_plan *plans, int n, bool *ret_changed, wr_err *err);

/* Looks at what the fact of an earlier process names. *ret_settled: nothing of it can still change a table. */
wr_code wr_rest_settle(wr_rest *r, wr_state *state, bool *ret_settled, wr_err *err);

#endif
