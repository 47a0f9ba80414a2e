/* The lake of one pipeline: opening, tables by id, creating and dropping, and the read-only view. */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "partition.h"
#include "policy.h"
#include "upkeep.h"
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"
#include "iceberg/uuid.h"
#include "weir/io.h"

static wr_code add_table(wr_lake *l, wr_table *t, wr_err *err) {
    if (l->ntables == l->tables_cap) {
        int cap = l->tables_cap ? l->tables_cap * 2 : 16;
        wr_table **a = wr_realloc(l->tables, (size_t)cap * sizeof *a);
        if (!a) return wr_nomem(err, "table list", (size_t)cap * sizeof *a);
        l->tables = a, l->tables_cap = cap;
    }
    if (!wr_u64map_put(l->by_id, t->id, t)) return wr_nomem(err, "table list", 64);
    l->tables[l->ntables++] = t;
    return WR_OK;
}

static bool is_named(const wr_table *t, const char *ns, const char *name) {
    return !strcmp(t->ns, ns) && !strcmp(t->name, name);
}

static wr_table *new_table(wr_lake *l, uint32_t id, const char *ns, const char *name) {
    wr_table *t = wr_calloc(1, sizeof *t);
    if (!t) return NULL;
    pthread_mutex_init(&t->load_lock, NULL);
    t->lake = l, t->id = id;
    t->ns = wr_strdup(ns), t->name = wr_strdup(name);
    if (!t->ns || !t->name) return wr_table_free(t), NULL;
    return t;
}

static wr_code load_schema(wr_table *t, wr_err *err) {
    wr_schema *s = NULL;
    WR_TRY(wr_ice_ref_schema(t->ice, t->loading ? WR_ICE_LOAD : WR_ICE_MAIN, &s, err));
    wr_code rc = wr_table_set_schema(t, s, WR_SPEC_OPEN, err);
    wr_schema_unref(s);
    return rc;
}

static bool owned_by(const wr_lake *l, const wr_ice_table *ice) {
    const char *owner = wr_ice_property(ice, "weir.pipeline");
    return owner && !strcmp(owner, l->pipeline);
}

bool wr_lake_has(const wr_lake *l, const char *uri) {
    WR_AUTO char *place = NULL;
    wr_err e = WR_ERR_INIT;
    size_t n = strlen(l->warehouse);
    return wr_uri_canonical(uri, &place, &e) == WR_OK && !strncmp(place, l->warehouse, n) && place[n] == '/';
}

/* What main held and holds no more would never come again: the queue has passed it. */
static wr_code check_head(const wr_ice_table *ice, wr_err *err) {
    int64_t lost = wr_ice_lost_snapshot(ice);
    if (lost < 0) return WR_OK;
    const char *offset = wr_ice_summary(ice, lost, "weir.offset");
    wr_fail(err, WR_E_CONFLICT, WR_RETRY_NO, "somebody else moved branch main from snapshot %" PRId64 ", which holds the changes up to queue offset %s, to %" PRId64 ", which does not", lost,
            offset ? offset : "?", wr_ice_ref(ice, WR_ICE_MAIN));
    return wr_err_cure(err, "move it to that snapshot again, with Spark: CALL <catalog>.system.set_current_snapshot('<namespace>.<table>', %" PRId64 ")", lost);
}

/* Its content is loaded when it is first needed. */
static wr_code add_ours(wr_lake *l, const char *ns, const char *name, wr_ice_table *ice, uint32_t id, wr_err *err) {
    wr_table *t = new_table(l, id, ns, name);
    if (!t) return wr_ice_table_free(ice), wr_nomem(err, "table", sizeof *t);
    t->ice = ice;
    const char *held = wr_ice_property(ice, "weir.offset");
    t->held = held ? strtoull(held, NULL, 10) : 0;
    wr_upkeep_parse(wr_ice_property(ice, WR_UPKEEP_PROPERTY), &t->upkeep);
    int64_t head = wr_ice_ref(ice, WR_ICE_LOAD);
    const char *info = head >= 0 ? wr_ice_summary(ice, head, "weir.load") : NULL;
    t->loading = head >= 0;
    t->shown = t->loading && (wr_ice_ref(ice, WR_ICE_MAIN) < 0 || wr_ice_ref(ice, WR_ICE_MAIN) == head);
    wr_code rc = check_head(ice, err);
    if (rc == WR_OK && t->loading && !(t->load_info = wr_strdup(info ? info : "{}"))) rc = wr_nomem(err, "load info", 64);
    if (rc == WR_OK && wr_u64map_get(l->by_id, id)) {
        rc = wr_fail(err, WR_E_EXISTS, WR_RETRY_NO, "the catalog has two tables for source table %u of pipeline %s", id,
                     l->pipeline);
        wr_err_cure(err, "remove the copy from the catalog");
    }
    if (rc == WR_OK) rc = load_schema(t, err);
    if (rc == WR_OK) rc = wr_table_settle_spec(t, t->schema, WR_SPEC_OPEN, err);
    t->touched = t->spec_dirty && !t->loading && !wr_table_is_ahead(t); /* the next commit of the lake tells it */
    if (rc == WR_OK) rc = add_table(l, t, err);
    if (rc != WR_OK) return wr_table_free(t), rc;
    return WR_OK;
}

/* *ret_ice NULL: it went meanwhile, or is somebody else's and cannot be read. metadata_location: NULL when the catalog does not list it. */
static wr_code load_named(wr_lake *l, const char *ns, const char *name, const char *metadata_location, wr_ice_table **ret_ice, wr_err *err) {
    wr_ice_table *ice = NULL;
    wr_code rc = wr_ice_load(l->catalog, ns, name, &ice, err);
    /* A catalog that does not say where a table is may be full of others' tables, some of which we may not even look at. */
    bool theirs = metadata_location ? !wr_lake_has(l, metadata_location) : rc == WR_E_UNSUPPORTED || rc == WR_E_AUTH;
    if (rc == WR_E_NOTFOUND || (rc != WR_OK && theirs)) return wr_err_clear(err), *ret_ice = NULL, WR_OK;
    if (rc == WR_OK) return *ret_ice = ice, WR_OK;
    if (err->retry != WR_RETRY_NO) return rc;
    return wr_err_cure(err, "restore %s from a backup, or remove the table from the catalog so that it is loaded again",
                       metadata_location ? metadata_location : "its metadata");
}

/* Two homes with pipelines of one name would both write a catalog that they share. */
static wr_code check_writer(const wr_lake *l, const wr_ice_table *ice, const char *ns, const char *name, wr_err *err) {
    const char *writer = wr_ice_property(ice, "weir.writer");
    if (!l->writer || !writer || !strcmp(writer, l->writer)) return WR_OK;
    wr_fail(err, WR_E_EXISTS, WR_RETRY_NO, "lake table %s.%s belongs to another home's pipeline %s", ns, name, l->pipeline);
    return wr_err_cure(err, "give this pipeline a name of its own; or, when that home is lost, drop its tables from the catalog so that they are loaded again");
}

static wr_code add_leaving(wr_lake *l, wr_ice_table *ice, wr_err *err) {
    wr_ice_table **v = wr_realloc(l->leaving, ((size_t)l->nleaving + 1) * sizeof *v);
    if (!v) return wr_ice_table_free(ice), wr_nomem(err, "dropped tables", 64);
    l->leaving = v;
    v[l->nleaving++] = ice;
    return WR_OK;
}

static wr_code open_table(void *ctx, const char *ns, const char *name, const char *metadata_location, wr_err *err) {
    wr_lake *l = ctx;
    wr_ice_table *ice = NULL;
    if (load_named(l, ns, name, metadata_location, &ice, err) != WR_OK) return wr_err_in(err, "lake table %s.%s", ns, name);
    if (!ice) return WR_OK;
    const char *id = wr_ice_property(ice, "weir.table-id"), *dropped = wr_ice_property(ice, "weir.dropped");
    if (!owned_by(l, ice) || !id) return wr_ice_table_free(ice), WR_OK;
    wr_code rc = check_writer(l, ice, ns, name, err);
    if (rc != WR_OK) return wr_ice_table_free(ice), rc;
    if (dropped && strtoull(dropped, NULL, 10) <= l->offset) /* else the commit that dropped it was not completed, and comes again */
        return wr_ice_property(ice, "weir.leaves") ? add_leaving(l, ice, err) : (wr_ice_table_free(ice), WR_OK);
    rc = add_ours(l, ns, name, ice, (uint32_t)strtoul(id, NULL, 10), err);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "lake table %s.%s", ns, name);
}

/* Nothing depends on it any more; what fails is tried again at the next open. */
void wr_lake_unlist(wr_lake *l, wr_ice_table *ice) {
    wr_err e = WR_ERR_INIT;
    wr_ice_edit edit = {.table = ice, .ref = WR_ICE_MAIN, .drop = true};
    if (wr_ice_commit(l->catalog, l->state, &edit, 1, NULL, &e) != WR_OK) wr_log(WR_LOG_WARN, "a dropped table stays in the catalog for now: %s", e.msg);
}

/* ------------------------------------------------------------------ the file journal after a crash */
typedef struct sweep {
    wr_lake *l;
    wr_map *reachable;
    char **announced;
    int n, cap;
} sweep;

static void sweep_clear(sweep *s) {
    for (int i = 0; i < s->n; i++) wr_free(s->announced[i]);
    wr_free(s->announced);
    wr_map_free(s->reachable, NULL);
}

static wr_code mark(void *ctx, const char *path, wr_err *err) {
    WR_AUTO char *place = NULL;
    WR_TRY(wr_uri_canonical(path, &place, err));
    return wr_map_put(ctx, wr_slice_str(place), ctx) ? WR_OK : wr_nomem(err, "reachable files", 64);
}

/* A place that is none of a store's is none of the journal's either. */
static wr_code mark_metadata(void *ctx, const char *path, wr_err *err) {
    wr_code rc = mark(ctx, path, err);
    return rc == WR_OK || rc == WR_E_NOMEM ? rc : (wr_err_clear(err), WR_OK);
}

/* Any table of the catalog may be one of ours that takes no more changes (kept after its source was dropped). */
static wr_code mark_all(sweep *s, const wr_ice_table *ice, wr_err *err) {
    static const char *const refs[2] = {WR_ICE_MAIN, WR_ICE_LOAD};
    wr_code rc = wr_ice_each_metadata(ice, mark_metadata, s->reachable, err); /* the earlier ones too: those that a commit drops are announced before it */
    int64_t own = wr_ice_newest_own(ice); /* the last attempt's, when others have put files in the place of its files since */
    for (int r = 0; rc == WR_OK && r < 2; r++) {
        int64_t head = wr_ice_ref(ice, refs[r]);
        if (head == own) own = -1;
        if (head >= 0) rc = wr_ice_each_path(ice, head, mark, s->reachable, err);
    }
    return rc == WR_OK && own >= 0 ? wr_ice_each_path(ice, own, mark, s->reachable, err) : rc;
}

static wr_code mark_table(void *ctx, const char *ns, const char *name, const char *metadata_location, wr_err *err) {
    sweep *s = ctx;
    wr_ice_table *ice = NULL;
    for (int i = 0; i < s->l->ntables; i++)
        if (is_named(s->l->tables[i], ns, name)) return mark_all(s, s->l->tables[i]->ice, err);
    WR_TRY(load_named(s->l, ns, name, metadata_location, &ice, err));
    wr_code rc = ice ? mark_all(s, ice, err) : WR_OK;
    wr_ice_table_free(ice);
    return rc;
}

static wr_code collect(void *ctx, const char *path, int64_t created_us, wr_err *err) {
    sweep *s = ctx;
    if (s->n == s->cap) {
        int cap = s->cap ? s->cap * 2 : 64;
        char **d = wr_realloc(s->announced, (size_t)cap * sizeof *d);
        if (!d) return wr_nomem(err, "file journal", (size_t)cap * sizeof *d);
        s->announced = d, s->cap = cap;
    }
    char *copy = wr_strdup(path);
    if (!copy) return wr_nomem(err, "file journal", 64);
    s->announced[s->n++] = copy;
    return WR_OK;
}

/* What cannot be removed stays announced. */
static wr_code remove_unreachable(sweep *s, wr_err *err) {
    WR_AUTO const char **dead = wr_calloc((size_t)s->n + 1, sizeof *dead);
    int n = 0;
    if (!dead) return wr_nomem(err, "file journal", (size_t)s->n * sizeof *dead);
    for (int i = 0; i < s->n; i++)
        if (!wr_map_get(s->reachable, wr_slice_str(s->announced[i]))) dead[n++] = s->announced[i];
    wr_err e = WR_ERR_INIT;
    if (wr_store_remove(s->l->store, dead, n, &e) == WR_OK) return wr_state_file_done(s->l->state, (const char *const *)s->announced, s->n, err);
    wr_log(WR_LOG_WARN, "files of an unfinished commit stay for now: %s", e.msg);
    return WR_OK;
}

/* Whatever the journal announced belongs to the last attempt to commit: either it became the head of a branch, or
 * nobody needs it. */
static wr_code sweep_journal(wr_lake *l, wr_err *err) {
    WR_CLEANUP(sweep_clear) sweep s = {.l = l, .reachable = wr_map_new()};
    if (!s.reachable) return wr_nomem(err, "reachable files", 64);
    bool settled;
    WR_TRY(wr_ice_settle(l->catalog, l->state, &settled, err));
    if (!settled) return wr_log(WR_LOG_INFO, "a request of an earlier process may still reach the catalog; files stay announced until that is known"), WR_OK;
    WR_TRY(wr_state_file_each(l->state, collect, &s, err));
    if (!s.n) return WR_OK;
    wr_code rc = wr_ice_catalog_each(l->catalog, mark_table, &s, err);
    if (rc == WR_OK) rc = remove_unreachable(&s, err);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "removing files of an unfinished commit");
}

/* ------------------------------------------------------------------ index folders of tables that left */
static wr_code remove_run(void *ctx, const char *name, wr_err *err) {
    WR_AUTO char *path = wr_path_join(ctx, name);
    wr_err e = WR_ERR_INIT;
    if (path) wr_file_remove(path, &e);
    return WR_OK;
}

static wr_code clean_index_folder(void *ctx, const char *name, wr_err *err) {
    wr_lake *l = ctx;
    for (int i = 0; i < l->ntables; i++)
        if (!strcmp(name, wr_ice_uuid(l->tables[i]->ice))) return WR_OK;
    WR_AUTO char *dir = wr_path_join(l->index_dir, name);
    wr_err e = WR_ERR_INIT;
    if (dir && strlen(name) == 36 && wr_dir_list(dir, remove_run, dir, &e) == WR_OK) rmdir(dir);
    return WR_OK;
}

/* ------------------------------------------------------------------ open, close */
static wr_code open_warehouse(wr_lake *l, const char *uri, wr_err *err) {
    WR_TRY(wr_uri_canonical(uri, &l->warehouse, err));
    size_t n = strlen(l->warehouse);
    while (n > 1 && l->warehouse[n - 1] == '/') l->warehouse[--n] = 0;
    return wr_uri_is_local(l->warehouse) ? wr_mkdirs(l->warehouse, err) : WR_OK;
}

/* Names this home in a catalog that others write as well. */
static wr_code open_writer(wr_lake *l, wr_err *err) {
    char uuid[WR_UUID_TEXT];
    WR_TRY(wr_state_get(l->state, "writer", &l->writer, err));
    if (l->writer) return WR_OK;
    if (!wr_uuid_new(uuid)) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "getrandom gave no uuid");
    WR_TRY(wr_state_set(l->state, "writer", uuid, err));
    return (l->writer = wr_strdup(uuid)) ? WR_OK : wr_nomem(err, "writer", sizeof uuid);
}

static wr_code open_tables(wr_lake *l, wr_err *err) {
    wr_pos pos = {0};
    int64_t ts;
    WR_TRY(wr_ice_catalog_progress(l->catalog, l->pipeline, &l->offset, &pos, &ts, err));
    wr_pos_clear(&pos);
    WR_TRY(wr_ice_catalog_each(l->catalog, open_table, l, err));
    WR_TRY(sweep_journal(l, err));
    for (int i = 0; i < l->nleaving; i++) wr_lake_unlist(l, l->leaving[i]);
    return wr_dir_list(l->index_dir, clean_index_folder, l, err);
}

wr_code wr_lake_open(const wr_lake_options *o, wr_state *state, wr_engine *engine, wr_lake **ret_lake, wr_err *err) {
    wr_lake *l = wr_calloc(1, sizeof *l);
    if (!l) return wr_nomem(err, "lake", sizeof *l);
    pthread_mutex_init(&l->catalog_lock, NULL);
    l->pipeline = wr_strdup(o->pipeline), l->index_dir = wr_strdup(o->index_dir);
    l->format_version = o->format_version ? o->format_version : 3;
    l->show_loads = o->show_loads;
    l->compact_bytes = o->compact_bytes ? o->compact_bytes : 32u << 20;
    l->compact_files = o->compact_files ? o->compact_files : WR_COMPACT_FILES;
    l->target_file_bytes = o->target_file_bytes ? o->target_file_bytes : WR_TARGET_FILE_BYTES;
    l->file_bytes = o->file_bytes ? o->file_bytes : 48u << 20;
    l->pending_bytes = o->pending_bytes ? o->pending_bytes : 96u << 20;
    l->snapshots_min = o->snapshots_min ? o->snapshots_min : 300;
    l->witness = o->witness;
    l->snapshots_max = o->snapshots_max ? o->snapshots_max : 900;
    l->snapshot_age_us = o->snapshot_age_us ? o->snapshot_age_us : INT64_C(3600000000);
    l->state = state, l->engine = engine, l->store = o->store;
    l->by_id = wr_u64map_new();
    wr_code rc = l->pipeline && l->index_dir && l->by_id ? WR_OK : wr_nomem(err, "lake", 256);
    if (rc == WR_OK) rc = wr_layouts_new(o->layout, o->nlayout, &l->layouts, err);
    if (rc == WR_OK) rc = open_warehouse(l, o->warehouse, err);
    if (rc == WR_OK) rc = wr_mkdirs(l->index_dir, err);
    if (rc == WR_OK) rc = wr_ice_catalog_open(&(wr_ice_catalog_options){.path = o->catalog_path, .store = o->store, .rest = o->rest, .lock = o->lock}, &l->catalog, err);
    if (rc == WR_OK && o->rest) rc = open_writer(l, err);
    if (rc == WR_OK) rc = open_tables(l, err);
    if (rc != WR_OK) return wr_lake_close(l), rc;
    *ret_lake = l;
    return WR_OK;
}

void wr_lake_close(wr_lake *l) {
    if (!l) return;
    wr_job_cancel(l, NULL);
    for (int i = 0; i < l->ntables; i++) wr_table_free(l->tables[i]);
    for (int i = 0; i < l->ndropped; i++) wr_table_free(l->dropped[i].table);
    for (int i = 0; i < l->nleaving; i++) wr_ice_table_free(l->leaving[i]);
    wr_free(l->tables), wr_free(l->dropped), wr_free(l->leaving), wr_free(l->writer);
    wr_u64map_free(l->by_id, NULL);
    wr_ice_catalog_close(l->catalog);
    wr_outbox_clear(&l->outbox);
    wr_layouts_free(l->layouts);
    wr_free(l->pipeline), wr_free(l->warehouse), wr_free(l->index_dir);
    pthread_mutex_destroy(&l->catalog_lock);
    wr_free(l);
}

wr_code wr_lake_progress(wr_lake *l, uint64_t *ret_offset, wr_pos *ret_pos, int64_t *ret_event_time_us, wr_err *err) {
    return wr_ice_catalog_progress(l->catalog, l->pipeline, ret_offset, ret_pos, ret_event_time_us, err);
}

wr_table *wr_lake_table(wr_lake *l, uint32_t table_id) { return wr_u64map_get(l->by_id, table_id); }

wr_code wr_lake_each(wr_lake *l, wr_code (*fn)(void *ctx, wr_table *t, wr_err *err), void *ctx, wr_err *err) {
    for (int i = 0; i < l->ntables; i++) WR_TRY(fn(ctx, l->tables[i], err));
    return WR_OK;
}

/* ------------------------------------------------------------------ names */
static wr_code aside_name(wr_lake *l, const char *ns, const char *name, char **ret, wr_err *err) {
    char stamp[32];
    time_t now = (time_t)(wr_now_us() / 1000000);
    struct tm tm;
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
    for (int i = 1;; i++) {
        WR_AUTO char *aside =
            i == 1 ? wr_asprintf("%s__dropped_%s", name, stamp) : wr_asprintf("%s__dropped_%s_%d", name, stamp, i);
        if (!aside) return wr_nomem(err, "table name", 64);
        wr_ice_table *other;
        wr_err e = WR_ERR_INIT;
        bool taken = false;
        for (int d = 0; d < l->ndropped; d++) taken |= is_named(l->dropped[d].table, ns, aside);
        wr_code rc = wr_ice_load(l->catalog, ns, aside, &other, &e);
        if (rc == WR_OK) wr_ice_table_free(other);
        if (rc == WR_E_NOTFOUND && !taken) return *ret = WR_STEAL(aside), WR_OK;
        if (rc != WR_OK && rc != WR_E_NOTFOUND) return *err = e, rc;
    }
}

static wr_code add_dropped(wr_lake *l, wr_table *t, wr_leave how, wr_err *err) {
    wr_dropped *d = wr_realloc(l->dropped, ((size_t)l->ndropped + 1) * sizeof *d);
    if (!d) return wr_nomem(err, "dropped tables", ((size_t)l->ndropped + 1) * sizeof *d);
    l->dropped = d;
    l->dropped[l->ndropped++] = (wr_dropped){t, how};
    return WR_OK;
}

/* Whether a commit that is being gathered takes the table's row away from its present name, or another edit of it
 * decides. */
static bool is_moving(const wr_lake *l, const wr_ice_table *ice) {
    const char *uuid = wr_ice_uuid(ice);
    for (int i = 0; i < l->ntables; i++)
        if (!strcmp(wr_ice_uuid(l->tables[i]->ice), uuid)) return true;
    for (int i = 0; i < l->ndropped; i++) {
        const wr_dropped *d = &l->dropped[i];
        if (!strcmp(wr_ice_uuid(d->table->ice), uuid)) return d->how == WR_LEAVE_MIRROR || d->table->rename_dirty;
    }
    return false;
}

/* A table kept after its source was dropped makes room for a new one of that name, in the same commit. */
static wr_code rename_kept(wr_lake *l, wr_table *kept, wr_err *err) {
    char *aside;
    WR_TRY(aside_name(l, kept->ns, kept->name, &aside, err));
    wr_free(kept->name);
    kept->name = aside;
    kept->rename_dirty = true;
    return WR_OK;
}

static wr_code move_aside(wr_lake *l, wr_ice_table *ice, const char *ns, const char *name, wr_err *err) {
    wr_table *shell = new_table(l, 0, ns, name);
    if (!shell) return wr_ice_table_free(ice), wr_nomem(err, "table", sizeof *shell);
    shell->ice = ice;
    wr_code rc = rename_kept(l, shell, err);
    if (rc == WR_OK) rc = add_dropped(l, shell, WR_LEAVE_ASIDE, err);
    if (rc != WR_OK) wr_table_free(shell);
    return rc;
}

/* A drop is no part of a REST catalog's commit: the table is there until the commit is done. */
static bool is_in_the_way(const wr_lake *l, const wr_dropped *d) {
    return d->how == WR_LEAVE_KEEP || (d->how == WR_LEAVE_MIRROR && l->writer && !d->table->create);
}

/* The name is free, or becomes so with the next commit. A name that an active table of ours has in the catalog counts
 * as free: whether it moves is settled by the edits of the commit. */
static wr_code claim_name(wr_lake *l, const char *ns, const char *name, wr_err *err) {
    for (int i = 0; i < l->ndropped; i++)
        if (is_in_the_way(l, &l->dropped[i]) && is_named(l->dropped[i].table, ns, name)) WR_TRY(rename_kept(l, l->dropped[i].table, err));
    wr_ice_table *other = NULL;
    wr_err e = WR_ERR_INIT;
    wr_code rc = wr_ice_load(l->catalog, ns, name, &other, &e);
    if (rc == WR_E_NOTFOUND) return WR_OK;
    if (rc != WR_OK) return *err = e, rc;
    if (is_moving(l, other)) return wr_ice_table_free(other), WR_OK;
    if (owned_by(l, other) && wr_ice_property(other, "weir.dropped")) return move_aside(l, other, ns, name, err);
    const char *owner = wr_ice_property(other, "weir.pipeline"), *writer = wr_ice_property(other, "weir.writer");
    if (owned_by(l, other) && l->writer && writer && !strcmp(writer, l->writer)) {
        wr_ice_table_free(other);
        return wr_fail(err, WR_E_CONFLICT, WR_RETRY_AFTER_RELOAD, "a request of an earlier process has made table %s.%s meanwhile", ns, name);
    }
    wr_fail(err, WR_E_EXISTS, WR_RETRY_NO, "the catalog already has a table %s.%s, %s%s; it is left as it is", ns, name,
            owner ? "written by pipeline " : "not written by Weir", owner ? owner : "");
    wr_ice_table_free(other);
    return wr_err_cure(err,
                       "rename or drop that table in the catalog, or exclude %s.%s from this pipeline, or give the "
                       "pipeline a home of its own",
                       ns, name);
}

/* The catalog's connection may be in use by a load's commit. */
static wr_code claim_name_locked(wr_lake *l, const char *ns, const char *name, wr_err *err) {
    pthread_mutex_lock(&l->catalog_lock);
    wr_code rc = claim_name(l, ns, name, err);
    pthread_mutex_unlock(&l->catalog_lock);
    return rc;
}

/* ------------------------------------------------------------------ create, rename, drop */
static wr_code make_table(wr_table *t, const wr_schema *schema, wr_err *err) {
    WR_AUTO char *location = NULL;
    WR_AUTO char *warehouse = wr_asprintf("%s%s", t->lake->writer && wr_uri_is_local(t->lake->warehouse) ? "file://" : "", t->lake->warehouse);
    if (!warehouse) return wr_nomem(err, "location", 64);
    WR_TRY(wr_ice_new_location(warehouse, t->ns, t->name, &location, err));
    WR_TRY(wr_ice_new(t->lake->store, t->ns, t->name, location, t->lake->format_version, schema, &t->ice, err));
    WR_TRY(wr_table_set_schema(t, schema, WR_SPEC_CREATE, err));
    WR_TRY(wr_table_settle_spec(t, schema, WR_SPEC_CREATE, err));
    t->create = true;
    return wr_table_open_files(t, err);
}

wr_code wr_lake_create(wr_lake *l, uint32_t table_id, const char *ns, const char *name, const wr_schema *schema,
                       wr_table **ret_table, wr_err *err) {
    wr_table *there = wr_u64map_get(l->by_id, table_id);
    if (there && wr_table_is_ahead(there) && is_named(there, ns, name)) return *ret_table = there, WR_OK; /* of a commit that was not completed */
    if (there)
        return wr_fail(err, WR_E_EXISTS, WR_RETRY_NO, "lake table for source table %u exists", table_id);
    for (int i = 0; i < l->ntables; i++)
        if (is_named(l->tables[i], ns, name))
            return wr_fail(err, WR_E_EXISTS, WR_RETRY_NO, "lake table %s.%s takes the rows of another source table", ns,
                           name);
    WR_TRY(claim_name_locked(l, ns, name, err));
    wr_table *t = new_table(l, table_id, ns, name);
    if (!t) return wr_nomem(err, "table", sizeof *t);
    wr_code rc = make_table(t, schema, err);
    if (rc == WR_OK) rc = add_table(l, t, err);
    if (rc != WR_OK) return wr_table_free(t), rc;
    *ret_table = t;
    return WR_OK;
}

wr_code wr_table_rename(wr_table *t, const char *ns, const char *name, wr_err *err) {
    WR_TRY(claim_name_locked(t->lake, ns, name, err));
    char *a = wr_strdup(ns), *b = wr_strdup(name);
    if (!a || !b) return wr_free(a), wr_free(b), wr_nomem(err, "table name", 64);
    wr_free(t->ns), wr_free(t->name);
    t->ns = a, t->name = b;
    t->rename_dirty = t->touched = true;
    WR_TRY(wr_table_settle_order(t, t->schema, WR_SPEC_RENAME, err)); /* another rule of lake.layout may match now */
    return wr_table_settle_spec(t, t->schema, WR_SPEC_RENAME, err);
}

wr_code wr_table_drop(wr_table *t, wr_drop_mode mode, wr_err *err) {
    wr_lake *l = t->lake;
    WR_TRY(add_dropped(l, t, mode == WR_DROP_MIRROR ? WR_LEAVE_MIRROR : WR_LEAVE_KEEP, err));
    if (mode == WR_DROP_MIRROR) wr_table_forget_content(t);
    wr_u64map_del(l->by_id, t->id);
    for (int i = 0; i < l->ntables; i++)
        if (l->tables[i] == t) {
            memmove(l->tables + i, l->tables + i + 1, (size_t)(l->ntables - i - 1) * sizeof *l->tables);
            l->ntables--;
            break;
        }
    return WR_OK;
}
