/* Looking after the lake by hand, while no sync runs: weir optimize. */
#include <stdio.h>
#include <string.h>
#include "impl.h"
#include "weir/base/mem.h"

typedef struct workshop {
    wr_lock *lock;
    wr_state *state;
    wr_engine *engine;
    wr_store *store;
    wr_lake *lake;
    const wr_optimize *what;
    int met; /* of the tables that were named */
} workshop;

static void workshop_close(workshop *w) {
    wr_lake_close(w->lake);
    wr_store_close(w->store);
    wr_engine_close(w->engine);
    wr_state_close(w->state);
    wr_lock_release(w->lock);
}

static wr_code take_lock(const char *home, const char *lock, wr_lock **ret, wr_err *err) {
    wr_code rc = wr_lock_take(lock, ret, err);
    return rc == WR_E_BUSY ? wr_err_cure(err, "nothing has to be done: the sync that runs in %s looks after its tables by itself; to do it by hand, stop it first", home) : rc;
}

static wr_code open_lake(workshop *w, const wr_pipeline_options *o, wr_err *err) {
    WR_AUTO char *lock = wr_path_join(o->home, "lock"), *state = wr_path_join(o->home, "state.db"), *catalog = wr_path_join(o->home, "catalog.db"), *index = wr_path_join(o->home, "index"),
                 *warehouse = o->warehouse ? wr_strdup(o->warehouse) : wr_path_join(o->home, "warehouse");
    if (!lock || !state || !catalog || !index || !warehouse) return wr_nomem(err, "path", 256);
    if (!wr_file_exists(catalog)) {
        wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "there is no lake yet: %s does not exist", catalog);
        return wr_err_cure(err, "start the pipeline: weir sync -c FILE");
    }
    WR_TRY(take_lock(o->home, lock, &w->lock, err));
    WR_TRY(wr_state_open(state, &w->state, err));
    WR_TRY(wr_engine_open(NULL, &w->engine, err));
    WR_TRY(wr_pipeline_store(o, &w->store, err));
    wr_lake_options lo = {.store = w->store, .rest = o->rest, .pipeline = o->name, .catalog_path = catalog, .warehouse = warehouse, .index_dir = index, .format_version = o->format_version, .layout = o->layout, .nlayout = o->nlayout};
    return wr_lake_open(&lo, w->state, w->engine, &w->lake, err);
}

static bool is_meant(workshop *w, const wr_table *t) {
    bool meant = !w->what->ntables;
    for (int i = 0; i < w->what->ntables; i++) {
        const char *want = w->what->tables[i], *ns = wr_table_ns(t), *name = wr_table_name(t);
        size_t n = strlen(ns);
        bool full = !strncmp(want, ns, n) && want[n] == '.' && !strcmp(want + n + 1, name);
        if (full || !strcmp(want, name)) meant = true;
    }
    w->met += meant;
    return meant;
}

static wr_code optimize_table(void *ctx, wr_table *t, wr_err *err) {
    workshop *w = ctx;
    wr_table_health before, after;
    if (!is_meant(w, t)) return WR_OK;
    WR_TRY(wr_table_get_health(t, &before, err));
    uint64_t merges = before.upkeep->merges, rewrites = before.upkeep->rewrites, expiries = before.upkeep->expiries;
    if (!before.loading) WR_TRY(wr_table_optimize(t, w->what->all, err));
    else if (w->what->ntables) return wr_table_optimize(t, w->what->all, err); /* says why not */
    WR_TRY(wr_table_get_health(t, &after, err));
    const wr_upkeep *u = after.upkeep;
    w->what->table(w->what->ctx, &before, &after, (int)(u->merges - merges + u->rewrites - rewrites), (int)(u->expiries - expiries));
    return WR_OK;
}

static wr_code orphan(void *ctx, const char *uri, uint64_t bytes, int64_t modified_us, wr_err *err) {
    const workshop *w = ctx;
    if (w->what->remove) WR_TRY(wr_store_remove(w->store, &uri, 1, err));
    w->what->orphan(w->what->ctx, uri, bytes, modified_us);
    return WR_OK;
}

wr_code wr_pipeline_optimize(const wr_pipeline_options *o, const wr_optimize *what, wr_err *err) {
    WR_CLEANUP(workshop_close) workshop w = {.what = what};
    WR_TRY(open_lake(&w, o, err));
    if (what->orphans) return wr_lake_orphans(w.lake, what->older_than_us, orphan, &w, err);
    WR_TRY(wr_lake_each(w.lake, optimize_table, &w, err));
    if (w.met >= what->ntables) return WR_OK;
    wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "%d of the %d tables that were named are none of this pipeline's", what->ntables - w.met, what->ntables);
    return wr_err_cure(err, "weir tables -c FILE lists them");
}
