/* The lake of one pipeline: opening, tables by id, creating and dropping, and the read-only view. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "policy.h"
#include "table.h"
#include "upkeep.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"
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
    wr_code rc = wr_table_set_schema(t, s, err);
    wr_schema_unref(s);
    return rc;
}

static bool owned_by(const wr_lake *l, const wr_ice_table *ice) {
    const char *owner = wr_ice_property(ice, "weir.pipeline");
    return owner && !strcmp(owner, l->pipeline);
}

bool wr_lake_has(const wr_lake *l, const char *uri) {
    WR_AUTO char *local = NULL;
    wr_err e = WR_ERR_INIT;
    size_t n = strlen(l->warehouse);
    return wr_ice_local_path(uri, &local, &e) == WR_OK && !strncmp(local, l->warehouse, n) && local[n] == '/';
}

/* Its content is loaded when it is first needed. */
static wr_code add_ours(wr_lake *l, const char *ns, const char *name, wr_ice_table *ice, uint32_t id, wr_err *err) {
    wr_table *t = new_table(l, id, ns, name);
    if (!t) return wr_ice_table_free(ice), wr_nomem(err, "table", sizeof *t);
    t->ice = ice;
    wr_upkeep_parse(wr_ice_property(ice, WR_UPKEEP_PROPERTY), &t->upkeep);
    int64_t head = wr_ice_ref(ice, WR_ICE_LOAD);
    const char *info = head >= 0 ? wr_ice_summary(ice, head, "weir.load") : NULL;
    t->loading = head >= 0;
    t->shown = t->loading && (wr_ice_ref(ice, WR_ICE_MAIN) < 0 || wr_ice_ref(ice, WR_ICE_MAIN) == head);
    wr_code rc = WR_OK;
    if (t->loading && !(t->load_info = wr_strdup(info ? info : "{}"))) rc = wr_nomem(err, "load info", 64);
    if (rc == WR_OK && wr_u64map_get(l->by_id, id)) {
        rc = wr_fail(err, WR_E_EXISTS, WR_RETRY_NO, "the catalog has two tables for source table %u of pipeline %s", id,
                     l->pipeline);
        wr_err_cure(err, "remove the copy from the catalog");
    }
    if (rc == WR_OK) rc = load_schema(t, err);
    if (rc == WR_OK) rc = add_table(l, t, err);
    if (rc != WR_OK) return wr_table_free(t), rc;
    return WR_OK;
}

static wr_code open_table(void *ctx, const char *ns, const char *name, const char *metadata_location, wr_err *err) {
    wr_lake *l = ctx;
    wr_ice_table *ice;
    wr_err e = WR_ERR_INIT;
    if (wr_ice_load_file(metadata_location, &ice, &e) != WR_OK) {
        if (!wr_lake_has(l, metadata_location)) return WR_OK; /* not our business */
        *err = e;
        wr_err_in(err, "lake table %s.%s", ns, name);
        return wr_err_cure(err,
                           "restore %s from a backup, or remove the table from the catalog so that it is loaded again",
                           metadata_location);
    }
    const char *id = wr_ice_property(ice, "weir.table-id");
    if (!owned_by(l, ice) || !id || wr_ice_property(ice, "weir.dropped")) return wr_ice_table_free(ice), WR_OK;
    wr_code rc = add_ours(l, ns, name, ice, (uint32_t)strtoul(id, NULL, 10), err);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "lake table %s.%s", ns, name);
}

/* ------------------------------------------------------------------ the file journal after a crash */
typedef struct sweep {
    wr_lake *l;
    wr_map *reachable;
    char **done;
    int ndone, cap;
} sweep;

static void sweep_clear(sweep *s) {
    for (int i = 0; i < s->ndone; i++) wr_free(s->done[i]);
    wr_free(s->done);
    wr_map_free(s->reachable, NULL);
}

static wr_code mark(void *ctx, const char *path, wr_err *err) {
    WR_AUTO char *local = NULL;
    WR_TRY(wr_ice_local_path(path, &local, err));
    return wr_map_put(ctx, wr_slice_str(local), ctx) ? WR_OK : wr_nomem(err, "reachable files", 64);
}

/* Any table of the catalog may be one of ours that takes no more changes (kept after its source was dropped). */
static wr_code mark_table(void *ctx, const char *ns, const char *name, const char *metadata_location, wr_err *err) {
    sweep *s = ctx;
    static const char *const refs[2] = {WR_ICE_MAIN, WR_ICE_LOAD};
    wr_ice_table *ice;
    wr_err e = WR_ERR_INIT;
    if (wr_ice_load_file(metadata_location, &ice, &e) != WR_OK) {
        if (!wr_lake_has(s->l, metadata_location)) return WR_OK;
        return *err = e, e.code;
    }
    wr_code rc = mark(s->reachable, metadata_location, err);
    for (int r = 0; rc == WR_OK && r < 2; r++) {
        int64_t head = wr_ice_ref(ice, refs[r]);
        if (head >= 0) rc = wr_ice_each_path(ice, head, mark, s->reachable, err);
    }
    wr_ice_table_free(ice);
    return rc;
}

static wr_code count_entry(void *ctx, const char *path, int64_t created_us, wr_err *err) {
    return ++*(int *)ctx, WR_OK;
}

static wr_code sweep_entry(void *ctx, const char *path, int64_t created_us, wr_err *err) {
    sweep *s = ctx;
    wr_err e = WR_ERR_INIT;
    if (!wr_map_get(s->reachable, wr_slice_str(path)) && wr_file_remove(path, &e) != WR_OK)
        return WR_OK; /* stays announced */
    if (s->ndone == s->cap) {
        int cap = s->cap ? s->cap * 2 : 64;
        char **d = wr_realloc(s->done, (size_t)cap * sizeof *d);
        if (!d) return wr_nomem(err, "file journal", (size_t)cap * sizeof *d);
        s->done = d, s->cap = cap;
    }
    char *copy = wr_strdup(path);
    if (!copy) return wr_nomem(err, "file journal", 64);
    s->done[s->ndone++] = copy;
    return WR_OK;
}

/* Whatever the journal announced belongs to the last attempt to commit: either it became the head of a branch, or
 * nobody needs it. */
static wr_code sweep_journal(wr_lake *l, wr_err *err) {
    int n = 0;
    WR_TRY(wr_state_file_each(l->state, count_entry, &n, err));
    if (!n) return WR_OK;
    WR_CLEANUP(sweep_clear) sweep s = {.l = l, .reachable = wr_map_new()};
    wr_code rc = s.reachable ? WR_OK : wr_nomem(err, "reachable files", 64);
    if (rc == WR_OK) rc = wr_ice_catalog_each(l->catalog, mark_table, &s, err);
    if (rc == WR_OK) rc = wr_state_file_each(l->state, sweep_entry, &s, err);
    if (rc == WR_OK && s.ndone) rc = wr_state_file_done(l->state, (const char *const *)s.done, s.ndone, err);
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
wr_code wr_lake_open(const wr_lake_options *o, wr_state *state, wr_engine *engine, wr_lake **ret_lake, wr_err *err) {
    wr_lake *l = wr_calloc(1, sizeof *l);
    if (!l) return wr_nomem(err, "lake", sizeof *l);
    pthread_mutex_init(&l->catalog_lock, NULL);
    size_t n = strlen(o->warehouse);
    while (n > 1 && o->warehouse[n - 1] == '/') n--;
    l->pipeline = wr_strdup(o->pipeline), l->warehouse = wr_strndup(o->warehouse, n),
    l->index_dir = wr_strdup(o->index_dir);
    l->format_version = o->format_version ? o->format_version : 3;
    l->show_loads = o->show_loads;
    l->compact_bytes = o->compact_bytes ? o->compact_bytes : 32u << 20;
    l->compact_files = o->compact_files ? o->compact_files : WR_COMPACT_FILES;
    l->target_file_bytes = o->target_file_bytes ? o->target_file_bytes : WR_TARGET_FILE_BYTES;
    l->file_bytes = o->file_bytes ? o->file_bytes : 48u << 20;
    l->pending_bytes = o->pending_bytes ? o->pending_bytes : 96u << 20;
    l->snapshots_min = o->snapshots_min ? o->snapshots_min : 300;
    l->snapshots_max = o->snapshots_max ? o->snapshots_max : 900;
    l->snapshot_age_us = o->snapshot_age_us ? o->snapshot_age_us : INT64_C(3600000000);
    l->state = state, l->engine = engine;
    l->by_id = wr_u64map_new();
    wr_code rc = l->pipeline && l->warehouse && l->index_dir && l->by_id ? WR_OK : wr_nomem(err, "lake", 256);
    if (rc == WR_OK) rc = wr_mkdirs(l->warehouse, err);
    if (rc == WR_OK) rc = wr_mkdirs(l->index_dir, err);
    if (rc == WR_OK) rc = wr_ice_catalog_open(o->catalog_path, false, &l->catalog, err);
    if (rc == WR_OK) rc = wr_ice_catalog_each(l->catalog, open_table, l, err);
    if (rc == WR_OK) rc = sweep_journal(l, err);
    if (rc == WR_OK) rc = wr_dir_list(l->index_dir, clean_index_folder, l, err);
    wr_pos pos = {0};
    int64_t ts;
    if (rc == WR_OK) rc = wr_ice_catalog_progress(l->catalog, l->pipeline, &l->offset, &pos, &ts, err);
    wr_pos_clear(&pos);
    if (rc != WR_OK) return wr_lake_close(l), rc;
    *ret_lake = l;
    return WR_OK;
}

void wr_lake_close(wr_lake *l) {
    if (!l) return;
    wr_job_cancel(l, NULL);
    for (int i = 0; i < l->ntables; i++) wr_table_free(l->tables[i]);
    for (int i = 0; i < l->ndropped; i++) wr_table_free(l->dropped[i].table);
    wr_free(l->tables), wr_free(l->dropped);
    wr_u64map_free(l->by_id, NULL);
    wr_ice_catalog_close(l->catalog);
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
static bool is_named(const wr_table *t, const char *ns, const char *name) {
    return !strcmp(t->ns, ns) && !strcmp(t->name, name);
}

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

/* The name is free, or becomes so with the next commit. A name that an active table of ours has in the catalog counts
 * as free: whether it moves is settled by the edits of the commit. */
static wr_code claim_name(wr_lake *l, const char *ns, const char *name, wr_err *err) {
    for (int i = 0; i < l->ndropped; i++)
        if (l->dropped[i].how == WR_LEAVE_KEEP && is_named(l->dropped[i].table, ns, name))
            WR_TRY(rename_kept(l, l->dropped[i].table, err));
    wr_ice_table *other = NULL;
    wr_err e = WR_ERR_INIT;
    wr_code rc = wr_ice_load(l->catalog, ns, name, &other, &e);
    if (rc == WR_E_NOTFOUND) return WR_OK;
    if (rc != WR_OK) return *err = e, rc;
    if (is_moving(l, other)) return wr_ice_table_free(other), WR_OK;
    if (owned_by(l, other) && wr_ice_property(other, "weir.dropped")) return move_aside(l, other, ns, name, err);
    const char *owner = wr_ice_property(other, "weir.pipeline");
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
    WR_AUTO char *location = NULL, *data = NULL, *local = NULL;
    WR_TRY(wr_ice_new_location(t->lake->warehouse, t->ns, t->name, &location, err));
    WR_TRY(wr_ice_new(t->ns, t->name, location, t->lake->format_version, schema, &t->ice, err));
    WR_TRY(wr_table_set_schema(t, schema, err));
    if (!(data = wr_asprintf("%s/data", location))) return wr_nomem(err, "location", 64);
    WR_TRY(wr_ice_local_path(data, &local, err));
    WR_TRY(wr_mkdirs(local, err));
    t->create = true;
    return wr_table_open_files(t, err);
}

wr_code wr_lake_create(wr_lake *l, uint32_t table_id, const char *ns, const char *name, const wr_schema *schema,
                       wr_table **ret_table, wr_err *err) {
    if (wr_u64map_get(l->by_id, table_id))
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
    return WR_OK;
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
