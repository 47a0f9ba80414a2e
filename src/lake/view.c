/* Reading a catalog that somebody else writes. */
#include <roaring/roaring.h>
#include <stdlib.h>
#include "iceberg/ice.h"
#include "weir/base/mem.h"
#include "weir/lake.h"

struct wr_lake_view {
    wr_ice_catalog *catalog;
    wr_engine *engine; /* only for v2 position deletes */
    wr_sql_table *tables;
    wr_table_health *health;
    int n, cap;
};

wr_code wr_lake_view_open(const char *catalog_path, wr_lake_view **ret_view, wr_err *err) {
    wr_lake_view *v = wr_calloc(1, sizeof *v);
    if (!v) return wr_nomem(err, "lake view", sizeof *v);
    wr_code rc = wr_ice_catalog_open(catalog_path, true, &v->catalog, err);
    if (rc == WR_OK) rc = wr_engine_open(NULL, &v->engine, err);
    if (rc != WR_OK) return wr_lake_view_close(v), rc;
    *ret_view = v;
    return WR_OK;
}

static void free_table(wr_sql_table *t) {
    for (int i = 0; t->files && i < t->nfiles; i++) {
        wr_free((char *)t->files[i].path);
        wr_free((uint32_t *)t->files[i].deleted);
    }
    wr_free((wr_sql_file *)t->files);
    wr_free((char *)t->ns), wr_free((char *)t->name);
    wr_schema_unref((wr_schema *)t->schema);
}

void wr_lake_view_close(wr_lake_view *v) {
    if (!v) return;
    for (int i = 0; i < v->n; i++) free_table(&v->tables[i]);
    wr_free(v->tables), wr_free(v->health);
    wr_engine_close(v->engine);
    wr_ice_catalog_close(v->catalog);
    wr_free(v);
}

static wr_code positions(roaring_bitmap_t *bm, wr_sql_file *f, wr_err *err) {
    f->ndeleted = roaring_bitmap_get_cardinality(bm);
    uint32_t *d = wr_malloc(f->ndeleted * sizeof *d + 1);
    if (!d) return wr_nomem(err, "deleted positions", f->ndeleted * sizeof *d);
    roaring_bitmap_to_uint32_array(bm, d);
    f->deleted = d;
    return WR_OK;
}

static wr_code fill_files(wr_lake_view *v, wr_sql_table *t, wr_table_health *h, wr_ice_file **files, int n, wr_err *err) {
    wr_sql_file *out = wr_calloc((size_t)n + 1, sizeof *out);
    if (!out) return wr_nomem(err, "file list", (size_t)n * sizeof *out);
    t->files = out;
    for (int i = 0; i < n; i++) {
        if (files[i]->content != WR_ICE_DATA) {
            h->delete_files++;
            continue;
        }
        wr_sql_file *f = &out[t->nfiles++];
        char *local;
        WR_TRY(wr_ice_local_path(files[i]->path, &local, err));
        f->path = local;
        roaring_bitmap_t *dead = NULL;
        wr_code rc = WR_OK;
        for (int d = 0; rc == WR_OK && d < n; d++) {
            if (files[d]->content == WR_ICE_DATA || (files[d]->referenced && strcmp(files[d]->referenced, files[i]->path))) continue;
            void *bm = NULL;
            if (files[d]->content == WR_ICE_EQ_DELETES)
                rc = wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "%s.%s has equality deletes, which Weir never writes; read it with another engine", t->ns, t->name);
            else rc = wr_ice_read_deletes(v->engine, files[d], files[i]->path, &bm, err);
            if (rc != WR_OK) break;
            if (dead) roaring_bitmap_or_inplace(dead, bm), roaring_bitmap_free(bm);
            else dead = bm;
        }
        if (rc == WR_OK && dead) rc = positions(dead, f, err);
        if (dead) roaring_bitmap_free(dead);
        WR_TRY(rc);
        h->data_files++, h->data_bytes += files[i]->bytes;
        h->rows += files[i]->records - f->ndeleted, h->deleted_rows += f->ndeleted;
    }
    return WR_OK;
}

static wr_code add_table(void *ctx, const char *ns, const char *name, const char *metadata_location, wr_err *err) {
    wr_lake_view *v = ctx;
    if (v->n == v->cap) {
        int cap = v->cap ? v->cap * 2 : 16;
        wr_sql_table *t = wr_realloc(v->tables, (size_t)cap * sizeof *t);
        if (t) v->tables = t;
        wr_table_health *h = t ? wr_realloc(v->health, (size_t)cap * sizeof *h) : NULL;
        if (!h) return wr_nomem(err, "table list", (size_t)cap * sizeof *h);
        v->health = h, v->cap = cap;
    }
    wr_ice_table *ice;
    WR_TRY(wr_ice_load_file(metadata_location, &ice, err));
    wr_sql_table *t = &v->tables[v->n];
    wr_table_health *h = &v->health[v->n];
    memset(t, 0, sizeof *t), memset(h, 0, sizeof *h);
    v->n++;
    t->ns = wr_strdup(ns), t->name = wr_strdup(name);
    h->ns = t->ns, h->name = t->name;
    h->format_version = wr_ice_format_version(ice);
    h->snapshots = (uint64_t)wr_ice_snapshot_count(ice);
    h->loading = wr_ice_ref(ice, WR_ICE_LOAD) >= 0;
    int64_t head = wr_ice_ref(ice, WR_ICE_MAIN);
    if (head >= 0) h->committed_us = wr_ice_snapshot_time_us(ice, head);
    wr_schema *s = NULL;
    wr_ice_file **files = NULL;
    int n = 0;
    wr_code rc = t->ns && t->name ? wr_ice_schema(ice, &s, err) : wr_nomem(err, "table name", 64);
    t->schema = s;
    if (rc == WR_OK && head >= 0) rc = wr_ice_live_files(ice, head, &files, &n, err);
    if (rc == WR_OK) rc = fill_files(v, t, h, files, n, err);
    for (int i = 0; i < n; i++) wr_ice_file_free(files[i]);
    wr_free(files);
    wr_ice_table_free(ice);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "lake table %s.%s", ns, name);
}

wr_code wr_lake_view_tables(wr_lake_view *v, const wr_sql_table **ret_tables, const wr_table_health **ret_health, int *ret_n, wr_err *err) {
    if (!v->n) WR_TRY(wr_ice_catalog_each(v->catalog, add_table, v, err));
    *ret_tables = v->tables, *ret_health = v->health, *ret_n = v->n;
    return WR_OK;
}
