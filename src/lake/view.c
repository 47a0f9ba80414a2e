/* Reading a catalog that somebody else writes. */
#include <roaring/roaring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "partition.h"
#include "policy.h"
#include "upkeep.h"
#include "weir/base/map.h"
#include "weir/base/mem.h"
#include "weir/io.h"
#include "weir/lake.h"

struct wr_lake_view {
    wr_ice_catalog *catalog;
    wr_engine *engine; /* only for v2 position deletes */
    wr_store *store;
    wr_sql_table *tables;
    wr_table_health *health;
    wr_upkeep **upkeep; /* [n] what health points at */
    wr_lake_point *points;
    int n, cap;
    bool listed;
    char *pipeline;
    uint64_t offset; /* the pipeline's progress */
    wr_pos pos;
};

wr_code wr_lake_view_open(const wr_lake_view_options *o, wr_lake_view **ret_view, wr_err *err) {
    wr_lake_view *v = wr_calloc(1, sizeof *v);
    if (!v) return wr_nomem(err, "lake view", sizeof *v);
    v->store = o->store;
    if (o->pipeline && !(v->pipeline = wr_strdup(o->pipeline))) return wr_lake_view_close(v), wr_nomem(err, "lake view", 64);
    wr_code rc = wr_ice_catalog_open(&(wr_ice_catalog_options){.path = o->catalog_path, .read_only = true, .progress = o->pipeline != NULL, .store = o->store, .rest = o->rest}, &v->catalog, err);
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

static void clear(wr_lake_view *v) {
    for (int i = 0; i < v->n; i++) free_table(&v->tables[i]), wr_free(v->upkeep[i]), wr_pos_clear(&v->points[i].pos);
    v->n = 0;
    wr_pos_clear(&v->pos);
}

void wr_lake_view_close(wr_lake_view *v) {
    if (!v) return;
    clear(v);
    wr_free(v->tables), wr_free(v->health), wr_free(v->upkeep), wr_free(v->points), wr_free(v->pipeline);
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

/* ------------------------------------------------------------------ the files of one table */
typedef struct file_set {
    wr_lake_view *v;
    wr_ice_file **files;
    int n;
    roaring_bitmap_t **dead; /* [n] by data file */
    wr_map *by_path;         /* data file -> index + 1 */
} file_set;

static void file_set_clear(file_set *s) {
    for (int i = 0; i < s->n; i++) {
        wr_ice_file_free(s->files[i]);
        if (s->dead && s->dead[i]) roaring_bitmap_free(s->dead[i]);
    }
    wr_free(s->files), wr_free(s->dead);
    wr_map_free(s->by_path, NULL);
}

static wr_code add_deletes(file_set *s, const wr_ice_file *del, int data, wr_err *err) {
    void *bm = NULL;
    WR_TRY(wr_ice_read_deletes(s->v->engine, s->v->store, del, s->files[data]->path, &bm, err));
    if (s->dead[data])
        roaring_bitmap_or_inplace(s->dead[data], bm), roaring_bitmap_free(bm);
    else
        s->dead[data] = bm;
    return WR_OK;
}

static wr_code collect_deletes(file_set *s, wr_err *err) {
    s->dead = wr_calloc((size_t)s->n + 1, sizeof *s->dead);
    s->by_path = wr_map_new();
    if (!s->dead || !s->by_path) return wr_nomem(err, "file list", (size_t)s->n * sizeof *s->dead);
    for (int i = 0; i < s->n; i++)
        if (s->files[i]->content == WR_ICE_DATA &&
            !wr_map_put(s->by_path, wr_slice_str(s->files[i]->path), (void *)((uintptr_t)i + 1)))
            return wr_nomem(err, "file list", 64);
    for (int d = 0; d < s->n; d++) {
        const wr_ice_file *del = s->files[d];
        if (del->content == WR_ICE_DATA) continue;
        if (del->content == WR_ICE_EQ_DELETES)
            return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO,
                           "it has equality deletes, which Weir never writes; read it with another engine");
        uintptr_t one = del->referenced ? (uintptr_t)wr_map_get(s->by_path, wr_slice_str(del->referenced)) : 0;
        if (one) WR_TRY(add_deletes(s, del, (int)one - 1, err));
        for (int i = 0; !del->referenced && i < s->n; i++)
            if (s->files[i]->content == WR_ICE_DATA) WR_TRY(add_deletes(s, del, i, err));
    }
    return WR_OK;
}

static wr_code fill_files(file_set *s, wr_sql_table *t, wr_table_health *h, wr_err *err) {
    WR_TRY(collect_deletes(s, err));
    wr_sql_file *out = wr_calloc((size_t)s->n + 1, sizeof *out);
    if (!out) return wr_nomem(err, "file list", (size_t)s->n * sizeof *out);
    t->files = out;
    for (int i = 0; i < s->n; i++) {
        if (s->files[i]->content != WR_ICE_DATA) {
            h->delete_files++;
            continue;
        }
        char *uri;
        wr_sql_file *f = &out[t->nfiles];
        WR_TRY(wr_uri_canonical(s->files[i]->path, &uri, err));
        f->path = uri;
        t->nfiles++;
        if (s->dead[i]) WR_TRY(positions(s->dead[i], f, err));
        h->data_files++, h->data_bytes += s->files[i]->bytes;
        h->rows += s->files[i]->records - f->ndeleted, h->deleted_rows += f->ndeleted;
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ what is done about them */
static wr_code fill_upkeep(const wr_ice_table *ice, wr_upkeep **ret, wr_table_health *h, wr_err *err) {
    wr_upkeep *u = *ret = wr_malloc(sizeof *u);
    if (!u) return wr_nomem(err, "upkeep", sizeof *u);
    wr_upkeep_parse(wr_ice_property(ice, WR_UPKEEP_PROPERTY), u);
    h->upkeep = u;
    h->manifest_merges = (uint64_t)wr_ice_summary_count(ice, WR_ICE_MERGED);
    return wr_ice_metadata_bytes(ice, &h->metadata_bytes, err);
}

/* ------------------------------------------------------------------ partitions */
static void copy_text(char *to, size_t n, const wr_buf *b) { snprintf(to, n, "%.*s", (int)b->n, (const char *)b->p); }

/* files: by group. */
static wr_code judge_partitions(const wr_spec *spec, const wr_schema *schema, const file_set *s, const wr_policy_file *files, const uint32_t *at, uint32_t n, wr_partition_health *h, wr_err *err) {
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    WR_TRY(wr_spec_print(spec, schema, &text, err));
    copy_text(h->spec, sizeof h->spec, &text);
    for (uint32_t from = 0, end; from < n; from = end) {
        uint64_t bytes = 0;
        for (end = from; end < n && files[end].group == files[from].group; end++) bytes += files[end].bytes;
        if (files[from].old) {
            h->other_files += end - from;
            continue;
        }
        bool most = end - from > h->files_most, largest = bytes > h->bytes_most;
        h->partitions++;
        if (!most && !largest) continue;
        wr_buf_clear(&text);
        WR_TRY(wr_spec_text(spec, wr_ice_file_tuple(s->files[at[files[from].no]]), &text, err));
        if (most) h->files_most = end - from, copy_text(h->most, sizeof h->most, &text);
        if (largest) h->bytes_most = bytes, copy_text(h->largest, sizeof h->largest, &text);
    }
    return WR_OK;
}

static wr_code judge_files(const wr_ice_table *ice, const file_set *s, const wr_schema *schema, wr_table_health *h, wr_err *err) {
    WR_CLEANUP(wr_tuples_clear) wr_tuples groups = {0};
    WR_CLEANUP(wr_specs_clear) wr_specs specs = {0};
    WR_AUTO uint32_t *at = wr_calloc((size_t)s->n + 1, sizeof *at);
    WR_AUTO wr_policy_file *files = wr_calloc((size_t)s->n + 1, sizeof *files);
    wr_policy p = wr_policy_of(WR_TARGET_FILE_BYTES, WR_COMPACT_FILES, h->upkeep);
    wr_choice choice;
    uint32_t n = 0;
    if (!files || !at) return wr_nomem(err, "file list", (size_t)s->n * sizeof *files);
    for (int i = 0; i < s->n; i++) {
        const wr_ice_file *f = s->files[i];
        at[n] = (uint32_t)i;
        if (f->content != WR_ICE_DATA) continue;
        files[n] = (wr_policy_file){.no = n, .bytes = f->bytes, .records = f->records, .dead = s->dead[i] ? roaring_bitmap_get_cardinality(s->dead[i]) : 0, .old = f->spec_id != wr_ice_default_spec(ice)};
        WR_TRY(wr_tuples_of_file(&groups, f, &files[n].group, err));
        h->files_at[wr_policy_level(&p, &files[n++])]++;
    }
    if (groups.n > 1) qsort(files, n, sizeof *files, wr_policy_by_group);
    wr_policy_choose(&p, files, n, &choice);
    if (choice.work != WR_WORK_NONE && !h->loading) memcpy(h->due, choice.why, sizeof h->due);
    WR_TRY(wr_ice_specs(ice, &specs, err));
    const wr_spec *spec = wr_specs_find(&specs, wr_ice_default_spec(ice));
    return spec && !spec->why_not ? judge_partitions(spec, schema, s, files, at, n, &h->partition, err) : WR_OK;
}

/* ------------------------------------------------------------------ tables */
static wr_code more_room(wr_lake_view *v, wr_err *err) {
    if (v->n < v->cap) return WR_OK;
    int cap = v->cap ? v->cap * 2 : 16;
    wr_sql_table *t = wr_realloc(v->tables, (size_t)cap * sizeof *t);
    if (t) v->tables = t;
    wr_table_health *h = t ? wr_realloc(v->health, (size_t)cap * sizeof *h) : NULL;
    if (h) v->health = h;
    wr_upkeep **u = h ? wr_realloc(v->upkeep, (size_t)cap * sizeof *u) : NULL;
    if (u) v->upkeep = u;
    wr_lake_point *p = u ? wr_realloc(v->points, (size_t)cap * sizeof *p) : NULL;
    if (!p) return wr_nomem(err, "table list", (size_t)cap * sizeof *h);
    v->points = p, v->cap = cap;
    return WR_OK;
}

static wr_code read_table(wr_lake_view *v, const wr_ice_table *ice, const char *ns, const char *name, wr_sql_table *t,
                          wr_table_health *h, wr_upkeep **ret_upkeep, wr_err *err) {
    t->ns = wr_strdup(ns), t->name = wr_strdup(name);
    if (!t->ns || !t->name) return wr_nomem(err, "table name", 64);
    *h = (wr_table_health){.ns = t->ns,
                           .name = t->name,
                           .format_version = wr_ice_format_version(ice),
                           .snapshots = (uint64_t)wr_ice_snapshot_count(ice),
                           .loading = wr_ice_ref(ice, WR_ICE_LOAD) >= 0};
    wr_schema *s = NULL;
    WR_TRY(fill_upkeep(ice, ret_upkeep, h, err));
    WR_TRY(wr_ice_schema(ice, &s, err));
    t->schema = s;
    int64_t head = wr_ice_ref(ice, WR_ICE_MAIN);
    if (head < 0) return WR_OK;
    h->committed_us = wr_ice_snapshot_time_us(ice, head);
    WR_CLEANUP(file_set_clear) file_set files = {.v = v};
    WR_TRY(wr_ice_live_files(ice, head, &files.files, &files.n, err));
    WR_TRY(fill_files(&files, t, h, err));
    return judge_files(ice, &files, t->schema, h, err);
}

/* "binlog.000012:4711 epoch 1 gtid ..." as a commit wrote it (wr_pos_print). */
static bool parse_place(const char *text, wr_pos *ret) {
    const char *end = text ? strchr(text, ' ') : NULL, *colon = NULL;
    if (text && !end) end = text + strlen(text);
    for (const char *p = text; p && p < end; p++)
        if (*p == ':') colon = p;
    if (!colon || colon == text || colon - text >= WR_POS_FILE_MAX) return false;
    *ret = (wr_pos){.offset = strtoull(colon + 1, NULL, 10)};
    memcpy(ret->file, text, (size_t)(colon - text));
    if (!strncmp(end, " epoch ", 7)) ret->epoch = (uint32_t)strtoul(end + 7, NULL, 10);
    return true;
}

/* The pipeline's progress was read before: whatever the table's head is, it holds that much. */
static wr_code read_point(const wr_lake_view *v, const wr_ice_table *ice, wr_lake_point *p, wr_err *err) {
    const char *owner = wr_ice_property(ice, "weir.pipeline"), *id = wr_ice_property(ice, "weir.table-id"), *offset = wr_ice_property(ice, "weir.offset"), *dropped = wr_ice_property(ice, "weir.dropped");
    wr_pos own;
    *p = (wr_lake_point){.ours = v->pipeline && owner && !strcmp(owner, v->pipeline), .table_id = id ? (uint32_t)strtoul(id, NULL, 10) : 0, .snapshot = wr_ice_ref(ice, WR_ICE_MAIN), .offset = v->offset};
    if (!p->ours) return WR_OK;
    if (offset && strtoull(offset, NULL, 10) > p->offset) p->offset = strtoull(offset, NULL, 10);
    p->dropped = dropped && strtoull(dropped, NULL, 10) <= p->offset;
    /* by offsets: a position behind a reset of the source's log is smaller than one before */
    if (parse_place(wr_ice_property(ice, "weir.position"), &own) && (!v->pos.file[0] || p->offset > v->offset)) return p->pos = own, WR_OK;
    return wr_pos_copy(&p->pos, &v->pos, err);
}

/* A table of others that we do not understand is left out: it must not hide ours. One that went meanwhile is no table
 * any more. */
static wr_code add_table(void *ctx, const char *ns, const char *name, const char *metadata_location, wr_err *err) {
    wr_lake_view *v = ctx;
    wr_ice_table *ice = NULL;
    wr_err e = WR_ERR_INIT;
    WR_TRY(more_room(v, err));
    wr_code rc = wr_ice_load(v->catalog, ns, name, &ice, &e);
    if (rc == WR_E_NOTFOUND) return WR_OK;
    bool ours = rc == WR_OK && wr_ice_property(ice, "weir.pipeline");
    wr_sql_table t = {0};
    wr_table_health h = {0};
    wr_upkeep *u = NULL;
    if (rc == WR_OK) rc = read_table(v, ice, ns, name, &t, &h, &u, &e);
    if (rc == WR_OK) rc = read_point(v, ice, &v->points[v->n], &e);
    wr_ice_table_free(ice);
    if (rc == WR_OK) return v->tables[v->n] = t, v->upkeep[v->n] = u, v->health[v->n++] = h, WR_OK;
    free_table(&t), wr_free(u);
    if (!ours && rc == WR_E_UNSUPPORTED) return WR_OK;
    *err = e;
    return wr_err_in(err, "lake table %s.%s", ns, name);
}

static wr_code pin(void *view, const char *uri, char **ret_path, wr_err *err) { return wr_store_pin(((wr_lake_view *)view)->store, uri, ret_path, err); }

wr_sql_opener wr_lake_view_opener(wr_lake_view *v) { return (wr_sql_opener){pin, v}; }

wr_code wr_lake_view_tables(wr_lake_view *v, const wr_sql_table **ret_tables, const wr_table_health **ret_health,
                            int *ret_n, wr_err *err) {
    if (!v->listed) {
        int64_t event_time_us;
        clear(v); /* of an attempt that failed */
        if (v->pipeline) WR_TRY(wr_ice_catalog_progress(v->catalog, v->pipeline, &v->offset, &v->pos, &event_time_us, err));
        WR_TRY(wr_ice_catalog_each(v->catalog, add_table, v, err));
        v->listed = true;
    }
    *ret_tables = v->tables, *ret_health = v->health, *ret_n = v->n;
    return WR_OK;
}

/* ------------------------------------------------------------------ rows */
void wr_lake_view_point(const wr_lake_view *v, int table, wr_lake_point *ret_point) { *ret_point = v->points[table]; }

const wr_pos *wr_lake_view_progress(const wr_lake_view *v, uint64_t *ret_offset) { return *ret_offset = v->offset, &v->pos; }

typedef struct live_rows {
    const wr_sql_file *f;
    uint64_t at; /* in f->deleted: the first that is not below the row read next */
    wr_code (*fn)(void *ctx, uint64_t pos, wr_slice row, wr_err *err);
    void *ctx;
} live_rows;

static wr_code live_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    live_rows *r = ctx;
    while (r->at < r->f->ndeleted && r->f->deleted[r->at] < pos) r->at++;
    if (r->at < r->f->ndeleted && r->f->deleted[r->at] == pos) return WR_OK;
    return r->fn(r->ctx, pos, row, err);
}

wr_code wr_lake_view_rows(wr_lake_view *v, int table, int file, const int *columns, int ncolumns, wr_code (*fn)(void *ctx, uint64_t pos, wr_slice row, wr_err *err), void *ctx, wr_err *err) {
    const wr_sql_table *t = &v->tables[table];
    live_rows r = {.f = &t->files[file], .fn = fn, .ctx = ctx};
    WR_AUTO char *path = NULL;
    if (v->store) WR_TRY(wr_store_pin(v->store, t->files[file].path, &path, err));
    else if (!(path = wr_strdup(t->files[file].path))) return wr_nomem(err, "path", 256);
    wr_code rc = wr_parquet_read(v->engine, path, t->schema, &(wr_parquet_read_options){.columns = columns, .ncolumns = ncolumns, .fill_initial = true}, live_row, &r, err);
    if (v->store) wr_store_unpin(v->store, t->files[file].path);
    return rc;
}
