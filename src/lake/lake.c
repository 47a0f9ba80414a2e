/* The lake of one pipeline: opening, tables by id, creating and dropping, and the read-only view. */
#include <stdlib.h>
#include <time.h>
#include "table.h"
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
    const char *load = t->loading ? wr_ice_property(t->ice, "weir.load-schema") : NULL;
    if (load) WR_TRY(wr_schema_from_json(wr_slice_str(load), &s, err));
    else WR_TRY(wr_ice_schema(t->ice, &s, err));
    wr_code rc = wr_table_set_schema(t, s, err);
    wr_schema_unref(s);
    return rc;
}

static wr_code open_table(void *ctx, const char *ns, const char *name, const char *metadata_location, wr_err *err) {
    wr_lake *l = ctx;
    wr_ice_table *ice;
    wr_err e = WR_ERR_INIT;
    if (wr_ice_load_file(metadata_location, &ice, &e) != WR_OK) {
        /* a foreign table that cannot be read is not our business; one of ours is found missing by the pipeline */
        WR_AUTO char *local = NULL;
        wr_err e2 = WR_ERR_INIT;
        bool ours = wr_ice_local_path(metadata_location, &local, &e2) == WR_OK && !strncmp(local, l->warehouse, strlen(l->warehouse));
        if (!ours) return WR_OK;
        *err = e;
        wr_err_in(err, "lake table %s.%s", ns, name);
        return wr_err_cure(err, "restore %s from a backup, or remove the table from the catalog so that it is loaded again", metadata_location);
    }
    const char *owner = wr_ice_property(ice, "weir.pipeline"), *id = wr_ice_property(ice, "weir.table-id");
    if (!owner || !id || strcmp(owner, l->pipeline) || wr_ice_property(ice, "weir.dropped")) return wr_ice_table_free(ice), WR_OK;
    wr_table *t = new_table(l, (uint32_t)strtoul(id, NULL, 10), ns, name);
    if (!t) return wr_ice_table_free(ice), wr_nomem(err, "table", sizeof *t);
    t->ice = ice;
    int64_t head = wr_ice_ref(ice, WR_ICE_LOAD);
    const char *info = head >= 0 ? wr_ice_summary(ice, head, "weir.load") : NULL;
    t->loading = head >= 0;
    wr_code rc = WR_OK;
    if (t->loading && !(t->load_info = wr_strdup(info ? info : "{}"))) rc = wr_nomem(err, "load info", 64);
    if (rc == WR_OK) rc = load_schema(t, err);
    if (rc == WR_OK) rc = add_table(l, t, err);
    if (rc != WR_OK) return wr_table_free(t), wr_err_in(err, "lake table %s.%s", ns, name);
    return WR_OK;
}

/* ------------------------------------------------------------------ the file journal after a crash */
typedef struct sweep { wr_lake *l; wr_map *reachable; const char **done; int ndone, cap; } sweep;

static wr_code mark(void *ctx, const char *path, wr_err *err) {
    WR_AUTO char *local = NULL;
    WR_TRY(wr_ice_local_path(path, &local, err));
    return wr_map_put(ctx, wr_slice_str(local), ctx) ? WR_OK : wr_nomem(err, "reachable files", 64);
}

static wr_code count_entry(void *ctx, const char *path, int64_t created_us, wr_err *err) { return ++*(int *)ctx, WR_OK; }

static wr_code sweep_entry(void *ctx, const char *path, int64_t created_us, wr_err *err) {
    sweep *s = ctx;
    if (!wr_map_get(s->reachable, wr_slice_str(path))) WR_TRY(wr_file_remove(path, err));
    if (s->ndone == s->cap) {
        int cap = s->cap ? s->cap * 2 : 64;
        const char **d = wr_realloc(s->done, (size_t)cap * sizeof *d);
        if (!d) return wr_nomem(err, "file journal", (size_t)cap * sizeof *d);
        s->done = d, s->cap = cap;
    }
    return (s->done[s->ndone++] = wr_strdup(path)) ? WR_OK : wr_nomem(err, "file journal", 64);
}

/* Whatever the journal announced belongs to the last attempt to commit: either it became the head of a branch, or nobody needs it. */
static wr_code sweep_journal(wr_lake *l, wr_err *err) {
    int n = 0;
    WR_TRY(wr_state_file_each(l->state, count_entry, &n, err));
    if (!n) return WR_OK;
    sweep s = {.l = l, .reachable = wr_map_new()};
    if (!s.reachable) return wr_nomem(err, "reachable files", 64);
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i < l->ntables; i++) {
        const char *refs[2] = {WR_ICE_MAIN, WR_ICE_LOAD};
        for (int r = 0; rc == WR_OK && r < 2; r++) {
            int64_t head = wr_ice_ref(l->tables[i]->ice, refs[r]);
            if (head >= 0) rc = wr_ice_each_path(l->tables[i]->ice, head, mark, s.reachable, err);
        }
        if (rc == WR_OK && wr_ice_metadata_location(l->tables[i]->ice)) rc = mark(s.reachable, wr_ice_metadata_location(l->tables[i]->ice), err);
    }
    if (rc == WR_OK) rc = wr_state_file_each(l->state, sweep_entry, &s, err);
    if (rc == WR_OK) rc = wr_state_file_done(l->state, s.done, s.ndone, err);
    for (int i = 0; i < s.ndone; i++) wr_free((char *)s.done[i]);
    wr_free(s.done);
    wr_map_free(s.reachable, NULL);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "removing files of an unfinished commit");
}

/* ------------------------------------------------------------------ open, close */
wr_code wr_lake_open(const wr_lake_options *o, wr_state *state, wr_engine *engine, wr_lake **ret_lake, wr_err *err) {
    wr_lake *l = wr_calloc(1, sizeof *l);
    if (!l) return wr_nomem(err, "lake", sizeof *l);
    pthread_mutex_init(&l->catalog_lock, NULL);
    l->pipeline = wr_strdup(o->pipeline), l->warehouse = wr_strdup(o->warehouse), l->index_dir = wr_strdup(o->index_dir);
    l->format_version = o->format_version ? o->format_version : 3;
    l->file_bytes = o->file_bytes ? o->file_bytes : 48u << 20;
    l->pending_bytes = o->pending_bytes ? o->pending_bytes : 96u << 20;
    l->state = state, l->engine = engine;
    l->by_id = wr_u64map_new();
    wr_code rc = l->pipeline && l->warehouse && l->index_dir && l->by_id ? WR_OK : wr_nomem(err, "lake", 256);
    if (rc == WR_OK) rc = wr_mkdirs(l->warehouse, err);
    if (rc == WR_OK) rc = wr_mkdirs(l->index_dir, err);
    if (rc == WR_OK) rc = wr_ice_catalog_open(o->catalog_path, false, &l->catalog, err);
    if (rc == WR_OK) rc = wr_ice_catalog_each(l->catalog, open_table, l, err);
    if (rc == WR_OK) rc = sweep_journal(l, err);
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

/* ------------------------------------------------------------------ create, drop */
/* What stands in the catalog under this name, unless one of this commit's own edits frees it. */
static wr_code name_taken(wr_lake *l, const char *ns, const char *name, wr_ice_table **ret, wr_err *err) {
    *ret = NULL;
    for (int i = 0; i < l->ntables; i++)
        if (!strcmp(l->tables[i]->ns, ns) && !strcmp(l->tables[i]->name, name))
            return wr_fail(err, WR_E_EXISTS, WR_RETRY_NO, "lake table %s.%s takes the rows of another source table", ns, name);
    for (int i = 0; i < l->ndropped; i++)
        if (l->dropped[i].mode == WR_DROP_MIRROR && !strcmp(l->dropped[i].table->ns, ns) && !strcmp(l->dropped[i].table->name, name)) return WR_OK;
    wr_err e = WR_ERR_INIT;
    wr_code rc = wr_ice_load(l->catalog, ns, name, ret, &e);
    if (rc == WR_E_NOTFOUND) return WR_OK;
    if (rc != WR_OK) return *err = e, rc;
    return WR_OK;
}

static bool renamed_away(wr_lake *l, const wr_ice_table *ice) {
    for (int i = 0; i < l->ntables; i++)
        if (l->tables[i]->rename_dirty && !strcmp(wr_ice_uuid(l->tables[i]->ice), wr_ice_uuid(ice))) return true;
    return false;
}

/* A table kept after its source was dropped makes room for a new one of that name. */
static wr_code move_aside(wr_lake *l, wr_ice_table *ice, const char *ns, const char *name, wr_err *err) {
    char stamp[32];
    time_t now = (time_t)(wr_now_us() / 1000000);
    struct tm tm;
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
    WR_AUTO char *aside = wr_asprintf("%s__dropped_%s", name, stamp);
    if (!aside) return wr_nomem(err, "table name", 64);
    wr_ice_edit e = {.table = ice, .ref = WR_ICE_MAIN, .no_snapshot = true, .new_ns = ns, .new_name = aside};
    return wr_ice_commit(l->catalog, l->state, &e, 1, NULL, err);
}

/* Folder names that any file system and reader takes: everything but letters, digits, _ and - as %XX. */
static wr_code put_escaped(wr_buf *b, const char *s) {
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-') wr_buf_u8(b, c);
        else wr_buf_printf(b, "_%02X", c);
    }
    return WR_OK;
}

wr_code wr_lake_create(wr_lake *l, uint32_t table_id, const char *ns, const char *name, const wr_schema *schema, wr_table **ret_table, wr_err *err) {
    if (wr_u64map_get(l->by_id, table_id)) return wr_fail(err, WR_E_EXISTS, WR_RETRY_NO, "lake table for source table %u exists", table_id);
    wr_ice_table *other;
    WR_TRY(name_taken(l, ns, name, &other, err));
    if (other) {
        const char *owner = wr_ice_property(other, "weir.pipeline");
        bool ours = owner && !strcmp(owner, l->pipeline);
        wr_code rc = WR_OK;
        if (ours && renamed_away(l, other)) rc = WR_OK;
        else if (ours && wr_ice_property(other, "weir.dropped")) rc = move_aside(l, other, ns, name, err);
        else {
            wr_fail(err, WR_E_EXISTS, WR_RETRY_NO, "the catalog already has a table %s.%s, %s%s; it is left as it is", ns, name,
                    owner ? "written by pipeline " : "not written by Weir", owner ? owner : "");
            rc = wr_err_cure(err, "rename or drop that table in the catalog, or exclude %s.%s from this pipeline, or give the pipeline a home of its own", ns, name);
        }
        wr_ice_table_free(other);
        WR_TRY(rc);
    }
    wr_table *t = new_table(l, table_id, ns, name);
    if (!t) return wr_nomem(err, "table", sizeof *t);
    WR_AUTO_BUF wr_buf loc = WR_BUF_INIT;
    wr_buf_printf(&loc, "%s/", l->warehouse);
    put_escaped(&loc, ns);
    wr_buf_u8(&loc, '/');
    put_escaped(&loc, name);
    wr_buf_printf(&loc, "-%08x", (unsigned)((uint64_t)wr_now_us() * 2654435761u ^ table_id));
    wr_code rc = wr_buf_cstr(&loc) ? WR_OK : wr_nomem(err, "location", loc.n);
    if (rc == WR_OK) rc = wr_ice_new(ns, name, (char *)loc.p, l->format_version, schema, &t->ice, err);
    if (rc == WR_OK) rc = wr_table_set_schema(t, schema, err);
    WR_AUTO char *data = wr_asprintf("%s/data", (char *)loc.p);
    if (rc == WR_OK) rc = data ? wr_mkdirs(data, err) : wr_nomem(err, "location", loc.n);
    if (rc == WR_OK) {
        t->create = true;
        rc = wr_table_open_files(t, err);
    }
    if (rc == WR_OK) rc = add_table(l, t, err);
    if (rc != WR_OK) return wr_table_free(t), rc;
    *ret_table = t;
    return WR_OK;
}

wr_code wr_table_drop(wr_table *t, wr_drop_mode mode, wr_err *err) {
    wr_lake *l = t->lake;
    wr_dropped *d = wr_realloc(l->dropped, ((size_t)l->ndropped + 1) * sizeof *d);
    if (!d) return wr_nomem(err, "dropped tables", 64);
    l->dropped = d;
    if (mode == WR_DROP_MIRROR) wr_table_forget_content(t);
    l->dropped[l->ndropped++] = (wr_dropped){t, mode};
    wr_u64map_del(l->by_id, t->id);
    for (int i = 0; i < l->ntables; i++)
        if (l->tables[i] == t) {
            memmove(l->tables + i, l->tables + i + 1, (size_t)(l->ntables - i - 1) * sizeof *l->tables);
            l->ntables--;
            break;
        }
    return WR_OK;
}
