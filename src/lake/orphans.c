/* Files that lie in a table's folder and that nothing names: left by a crash between a commit and the journal, or by other writers. */
#include <stdlib.h>
#include "table.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"

typedef struct audit {
    wr_lake *l;
    wr_map *named;  /* canonical URIs: snapshots, metadata, journal, of every table in the catalog */
    char **folders; /* of tables of this pipeline */
    int n, cap;
    int64_t before_us;
    wr_orphan_sink *fn;
    void *ctx;
} audit;

static void audit_clear(audit *a) {
    for (int i = 0; i < a->n; i++) wr_free(a->folders[i]);
    wr_free(a->folders);
    wr_map_free(a->named, NULL);
}

/* ------------------------------------------------------------------ what is named */
static wr_code name_place(audit *a, const char *place, wr_err *err) { return wr_map_put(a->named, wr_slice_str(place), a) ? WR_OK : wr_nomem(err, "named files", 64); }

static wr_code name_uri(void *ctx, const char *uri, wr_err *err) {
    WR_AUTO char *place = NULL;
    wr_err elsewhere = WR_ERR_INIT;
    return wr_uri_canonical(uri, &place, &elsewhere) == WR_OK ? name_place(ctx, place, err) : WR_OK;
}

static wr_code name_journaled(void *ctx, const char *path, int64_t created_us, wr_err *err) { return name_place(ctx, path, err); }

static wr_code add_folder(audit *a, const char *location, wr_err *err) {
    if (a->n == a->cap) {
        int cap = a->cap ? a->cap * 2 : 16;
        char **f = wr_realloc(a->folders, (size_t)cap * sizeof *f);
        if (!f) return wr_nomem(err, "table folders", (size_t)cap * sizeof *f);
        a->folders = f, a->cap = cap;
    }
    WR_AUTO char *place = NULL;
    WR_TRY(wr_uri_canonical(location, &place, err));
    if (!(a->folders[a->n] = wr_asprintf("%s/", place))) return wr_nomem(err, "table folders", 256);
    a->n++;
    return WR_OK;
}

/* A table that cannot be read may name anything: then nothing can be said of any file. */
static wr_code name_table(void *ctx, const char *ns, const char *name, const char *metadata_location, wr_err *err) {
    audit *a = ctx;
    wr_ice_table *ice = NULL;
    if (metadata_location && !wr_lake_has(a->l, metadata_location)) return WR_OK;
    wr_code gone = wr_ice_load(a->l->catalog, ns, name, &ice, err);
    if (gone == WR_E_NOTFOUND) return wr_err_clear(err), WR_OK;
    WR_TRY(gone);
    const char *owner = wr_ice_property(ice, "weir.pipeline");
    wr_code rc = wr_ice_each_reference(ice, name_uri, a, err);
    if (rc == WR_OK && owner && !strcmp(owner, a->l->pipeline)) rc = add_folder(a, wr_ice_location(ice), err);
    wr_ice_table_free(ice);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "lake table %s.%s", ns, name);
}

/* ------------------------------------------------------------------ what is there */
static wr_code look_at(void *ctx, const char *uri, uint64_t bytes, int64_t modified_us, wr_err *err) {
    const audit *a = ctx;
    if (modified_us > a->before_us || wr_map_get(a->named, wr_slice_str(uri))) return WR_OK;
    return a->fn(a->ctx, uri, bytes, modified_us, err);
}

wr_code wr_lake_orphans(wr_lake *l, int64_t age_us, wr_orphan_sink *fn, void *ctx, wr_err *err) {
    WR_CLEANUP(audit_clear) audit a = {.l = l, .named = wr_map_new(), .before_us = wr_now_us() - age_us, .fn = fn, .ctx = ctx};
    if (!a.named) return wr_nomem(err, "named files", 64);
    WR_TRY(wr_ice_catalog_each(l->catalog, name_table, &a, err));
    WR_TRY(wr_state_file_each(l->state, name_journaled, &a, err));
    for (int i = 0; i < a.n; i++) WR_TRY(wr_store_list(l->store, a.folders[i], look_at, &a, err));
    return WR_OK;
}
