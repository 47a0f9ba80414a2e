/* Runs a history of commits against src/lake/iceberg, as JSON lines from standard input: the C half of
 * tests/integration/test_iceberg_bytes.py, which makes up the history and judges the result with readers that are not
 * ours.
 *
 *   ice_driver CATALOG WAREHOUSE STATE [REST-URI [CREDENTIAL]] < commands
 *
 * One object per line, one answer per line ({"ok":true,...} or {"error":code,"message":...}):
 *   {"op":"commit","edits":[EDIT...],"progress":{"pipeline":"p","offset":7}}
 *   {"op":"live","ns":..,"name":..,"ref":"main"}   ->
 * {"files":[{"path","records","sequence","first_row_id","deleted":[..]}], "schema":{..}}
 *   {"op":"forget"}                                 all table objects are loaded again from the catalog
 *   {"op":"fault","spec":"ice.sql:1:fail"}
 *   {"op":"tables"}   -> {"tables":[[ns,name]...]}      {"op":"settle"} -> {"settled":true}
 * EDIT: ns, name; create + version + schema (schema JSON); ref; restart; publish; set_current; drop; rename [ns,name];
 * props {k:v}; summary {k:v}; schema; insert [[row...]...] one data file each; delete {"<file number>":[positions]}
 * added to those deleted before; remove [file numbers]; no_snapshot; expire <snapshots to keep>. Files are numbered per
 * table from 0 in the order of insertion.
 */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <roaring/roaring.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>

#include "iceberg/ice.h"
#include "weir/lake.h"
#include "weir/base/fault.h"
#include "weir/base/map.h"
#include "weir/base/mem.h"
#include "weir/io.h"

typedef struct data_file {
    char *path;
    roaring_bitmap_t *dead;
    char **delete_paths;
    int ndeletes;
    bool gone;
} data_file;
typedef struct table {
    char *ns, *name;
    wr_ice_table *ice;
    wr_schema *schema;
    data_file *files;
    int nfiles;
} table;
typedef struct driver {
    const char *warehouse;
    wr_ice_catalog *catalog;
    wr_state *state;
    wr_engine *engine;
    table **tables;
    int ntables;
} driver;

static void die(const char *what) {
    fprintf(stderr, "ice_driver: %s\n", what);
    exit(2);
}
static void *must(void *p) {
    if (!p) die("out of memory");
    return p;
}
static const cJSON *get(const cJSON *o, const char *key) { return cJSON_GetObjectItemCaseSensitive(o, key); }
static const char *text(const cJSON *o, const char *key, const char *absent) {
    const cJSON *v = get(o, key);
    return cJSON_IsString(v) ? v->valuestring : absent;
}
static bool flag(const cJSON *o, const char *key) { return cJSON_IsTrue(get(o, key)); }

/* ------------------------------------------------------------------ rows */
static void parse_value(wr_type t, const cJSON *j, wr_value *v, wr_buf *scratch) {
    wr_err err = WR_ERR_INIT;
    *v = (wr_value){.null = cJSON_IsNull(j)};
    if (v->null) return;
    const char *s = cJSON_IsString(j) ? j->valuestring : NULL;
    switch ((wr_kind)t.kind) {
    case WR_BOOL:
        v->b = cJSON_IsTrue(j);
        break;
    case WR_INT:
    case WR_DATE:
        v->i32 = s ? (int32_t)strtol(s, NULL, 10) : (int32_t)j->valuedouble;
        break;
    case WR_LONG:
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ:
        v->i64 = s ? strtoll(s, NULL, 10) : (int64_t)j->valuedouble;
        break;
    case WR_FLOAT:
        v->f32 = s ? strtof(s, NULL) : (float)j->valuedouble;
        break;
    case WR_DOUBLE:
        v->f64 = s ? strtod(s, NULL) : j->valuedouble;
        break;
    case WR_DECIMAL:
        if (!s || wr_decimal_parse(s, strlen(s), t, &v->dec, &err) != WR_OK) die("decimal");
        break;
    case WR_STRING:
        v->s = wr_slice_str(s ? s : "");
        break;
    case WR_BINARY:
        v->s = wr_slice_str(s ? s : "");
        break;
    case WR_FLOATS: {
        size_t at = scratch->n;
        const cJSON *e;
        cJSON_ArrayForEach(e, j) {
            float f = (float)e->valuedouble;
            wr_buf_put(scratch, &f, 4);
        }
        v->s = wr_slice_of(scratch->p + at, scratch->n - at);
        break;
    }
    }
}

static wr_code append_row(wr_batch *b, const wr_schema *s, const cJSON *row, wr_err *err) {
    WR_AUTO_BUF wr_buf out = WR_BUF_INIT, scratch = WR_BUF_INIT;
    must(wr_buf_room(&scratch, 1 << 16));
    if (cJSON_GetArraySize(row) != s->ncols) die("a row has another number of columns than its schema");
    size_t at = wr_row_begin(&out, s->ncols);
    const cJSON *j;
    int i = 0;
    cJSON_ArrayForEach(j, row) {
        wr_value v;
        parse_value(s->cols[i].type, j, &v, &scratch);
        if (v.null)
            wr_row_put_null(&out, at, i);
        else
            wr_row_put(&out, at, i, s->cols[i].type, &v);
        i++;
    }
    return wr_batch_append(b, wr_buf_view(&out), err);
}

/* ------------------------------------------------------------------ tables */
static table *find_table(driver *d, const char *ns, const char *name) {
    for (int i = 0; i < d->ntables; i++)
        if (strcmp(d->tables[i]->ns, ns) == 0 && strcmp(d->tables[i]->name, name) == 0) return d->tables[i];
    return NULL;
}

static void add_file(table *t, const char *path) {
    t->files = must(wr_realloc(t->files, (size_t)(t->nfiles + 1) * sizeof *t->files));
    t->files[t->nfiles++] = (data_file){.path = must(wr_strdup(path)), .dead = must(roaring_bitmap_create())};
}

static void table_free(table *t) {
    for (int i = 0; i < t->nfiles; i++) {
        wr_free(t->files[i].path);
        roaring_bitmap_free(t->files[i].dead);
        for (int j = 0; j < t->files[i].ndeletes; j++) wr_free(t->files[i].delete_paths[j]);
        wr_free(t->files[i].delete_paths);
    }
    wr_free(t->files);
    wr_schema_unref(t->schema);
    wr_ice_table_free(t->ice);
    wr_free(t->ns);
    wr_free(t->name);
    wr_free(t);
}

static void note_delete(data_file *f, const char *path) {
    f->delete_paths = must(wr_realloc(f->delete_paths, (size_t)(f->ndeletes + 1) * sizeof *f->delete_paths));
    f->delete_paths[f->ndeletes++] = must(wr_strdup(path));
}

static int by_sequence(const void *a, const void *b) {
    const wr_ice_file *x = *(wr_ice_file *const *)a, *y = *(wr_ice_file *const *)b;
    if (x->sequence != y->sequence) return x->sequence < y->sequence ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* Files and deletions as the catalog says, numbered anew by sequence. */
static wr_code load_table(driver *d, const char *ns, const char *name, const char *ref, table **ret, wr_err *err) {
    table *t = must(wr_calloc(1, sizeof *t));
    t->ns = must(wr_strdup(ns)), t->name = must(wr_strdup(name));
    wr_ice_file **files = NULL;
    int n = 0;
    wr_code rc = wr_ice_load(d->catalog, ns, name, &t->ice, err);
    if (rc == WR_OK) rc = wr_ice_schema(t->ice, &t->schema, err);
    int64_t head = rc == WR_OK ? wr_ice_ref(t->ice, ref) : -1;
    if (rc == WR_OK && head >= 0) rc = wr_ice_live_files(t->ice, head, &files, &n, err);
    if (n) qsort(files, (size_t)n, sizeof *files, by_sequence);
    for (int i = 0; rc == WR_OK && i < n; i++)
        if (files[i]->content == WR_ICE_DATA) add_file(t, files[i]->path);
    for (int i = 0; rc == WR_OK && i < n; i++) {
        for (int k = 0; rc == WR_OK && files[i]->content != WR_ICE_DATA && k < t->nfiles; k++) {
            if (files[i]->referenced && strcmp(files[i]->referenced, t->files[k].path) != 0) continue;
            void *bitmap = NULL;
            rc = wr_ice_read_deletes(d->engine, NULL, files[i], t->files[k].path, &bitmap, err);
            if (rc != WR_OK) break;
            roaring_bitmap_or_inplace(t->files[k].dead, bitmap);
            roaring_bitmap_free(bitmap);
            note_delete(&t->files[k], files[i]->path);
        }
    }
    for (int i = 0; i < n; i++) wr_ice_file_free(files[i]);
    wr_free(files);
    if (rc != WR_OK) return table_free(t), rc;
    *ret = t;
    return WR_OK;
}

static void put_table(driver *d, table *t) {
    d->tables = must(wr_realloc(d->tables, (size_t)(d->ntables + 1) * sizeof *d->tables));
    d->tables[d->ntables++] = t;
}

static wr_code need_table(driver *d, const cJSON *e, table **ret, wr_err *err) {
    const char *ns = text(e, "ns", ""), *name = text(e, "name", "");
    *ret = find_table(d, ns, name);
    if (*ret) return WR_OK;
    if (!flag(e, "create")) {
        WR_TRY(load_table(d, ns, name, text(e, "ref", WR_ICE_MAIN), ret, err));
        return put_table(d, *ret), WR_OK;
    }
    table *t = must(wr_calloc(1, sizeof *t));
    t->ns = must(wr_strdup(ns)), t->name = must(wr_strdup(name));
    WR_AUTO char *location = NULL, *schema = must(cJSON_PrintUnformatted(get(e, "schema")));
    const cJSON *version = get(e, "version");
    wr_code rc = wr_schema_from_json(wr_slice_str(schema), &t->schema, err);
    if (rc == WR_OK) rc = wr_ice_new_location(d->warehouse, ns, name, &location, err);
    if (rc == WR_OK && flag(e, "uri")) {
        char *uri = must(wr_asprintf("file://%s", location));
        wr_free(location);
        location = uri;
    }
    if (rc == WR_OK) rc = wr_ice_new(NULL, ns, name, location, version ? version->valueint : 3, t->schema, &t->ice, err);
    if (rc != WR_OK) return table_free(t), rc;
    put_table(d, t);
    *ret = t;
    return WR_OK;
}

/* ------------------------------------------------------------------ edits */
typedef struct work {
    table *t;
    wr_ice_edit e;
    const char **sk, **sv, **pk, **pv;
    wr_ice_dv *dvs;
    int ndvs;
    wr_schema *schema;
    int first_new;
    wr_ice_expiry *expire;
} work;

static void pairs(const cJSON *o, const char ***keys, const char ***vals, int *n) {
    int size = cJSON_GetArraySize(o);
    *keys = must(wr_calloc((size_t)size, sizeof **keys)), *vals = must(wr_calloc((size_t)size, sizeof **vals)), *n = 0;
    const cJSON *v;
    cJSON_ArrayForEach(v, o)(*keys)[*n] = v->string, (*vals)[(*n)++] = v->valuestring;
}

static wr_code write_data(driver *d, table *t, const wr_schema *s, const cJSON *rows, wr_ice_file **ret, wr_err *err) {
    wr_batch *b = NULL;
    wr_parquet_file pf = {0};
    static int number;
    WR_AUTO char *uri = must(wr_asprintf("%s/data/%08d-%d.parquet", wr_ice_location(t->ice), number++, (int)getpid())),
                 *local = NULL;
    WR_TRY(wr_uri_canonical(uri, &local, err));
    WR_AUTO char *folder = must(wr_strndup(local, (size_t)(strrchr(local, '/') - local)));
    WR_TRY(wr_mkdirs(folder, err));
    WR_TRY(wr_state_file_add(d->state, local, err));
    wr_code rc = wr_batch_new(s, &b, err);
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) if (rc == WR_OK) rc = append_row(b, s, row, err);
    if (rc == WR_OK) rc = wr_parquet_write(d->engine, b, local, NULL, &pf, err);
    wr_batch_free(b);
    if (rc != WR_OK) return rc;
    wr_ice_file *f = must(wr_ice_file_new(WR_ICE_DATA, uri));
    f->format = must(wr_strdup("PARQUET")), f->records = pf.rows, f->bytes = pf.bytes;
    f->stats = pf.cols, f->nstats = pf.ncols, pf.cols = NULL, pf.ncols = 0;
    wr_parquet_file_clear(&pf);
    *ret = f;
    return WR_OK;
}

static wr_code prepare(driver *d, const cJSON *j, work *w, wr_err *err) {
    WR_TRY(need_table(d, j, &w->t, err));
    table *t = w->t;
    wr_ice_edit *e = &w->e;
    const cJSON *schema = get(j, "schema"), *x, *rename = get(j, "rename"), *del = get(j, "delete");
    if (schema) {
        WR_AUTO char *s = must(cJSON_PrintUnformatted(schema));
        WR_TRY(wr_schema_from_json(wr_slice_str(s), &w->schema, err));
    }
    *e = (wr_ice_edit){.table = t->ice,
                       .ref = text(j, "ref", WR_ICE_MAIN),
                       .restart_ref = flag(j, "restart"),
                       .schema = w->schema,
                       .set_current_schema = flag(j, "set_current"),
                       .publish = flag(j, "publish"),
                       .no_snapshot = flag(j, "no_snapshot"),
                       .create = flag(j, "create"),
                       .drop = flag(j, "drop"),
                       .new_ns = rename ? cJSON_GetArrayItem(rename, 0)->valuestring : NULL,
                       .new_name = rename ? cJSON_GetArrayItem(rename, 1)->valuestring : NULL};
    if (e->restart_ref)
        for (int i = 0; i < t->nfiles; i++) t->files[i].gone = true;
    const cJSON *expire = get(j, "expire");
    if (expire) {
        bool more;
        wr_ice_expire_options o = {.older_than_us = INT64_MAX, .keep = expire->valueint};
        WR_TRY(wr_ice_refresh(d->catalog, t->ice, &more, err));
        WR_TRY(wr_ice_expiry_new(t->ice, &o, &w->expire, err));
        if (w->expire) WR_TRY(wr_ice_expiry_find(w->expire, err));
        e->expire = w->expire;
    }
    pairs(get(j, "summary"), &w->sk, &w->sv, &e->nsummary);
    pairs(get(j, "props"), &w->pk, &w->pv, &e->nprops);
    e->summary_keys = w->sk, e->summary_vals = w->sv, e->prop_keys = w->pk, e->prop_vals = w->pv;
    int nins = cJSON_GetArraySize(get(j, "insert")), ndel = cJSON_GetArraySize(del),
        nrem = cJSON_GetArraySize(get(j, "remove"));
    int total_deletes = 0;
    for (int i = 0; i < t->nfiles; i++) total_deletes += t->files[i].ndeletes;
    e->added = must(wr_calloc((size_t)(nins + ndel) + 1, sizeof *e->added));
    e->removed = must(wr_calloc((size_t)(nrem + total_deletes) + 1, sizeof *e->removed));
    e->removed_refs = must(wr_calloc((size_t)(nrem + total_deletes) + 1, sizeof *e->removed_refs));
    w->first_new = t->nfiles;
    cJSON_ArrayForEach(x, get(j, "insert")) {
        WR_TRY(write_data(d, t, w->schema ? w->schema : t->schema, x, &e->added[e->nadded], err));
        add_file(t, e->added[e->nadded++]->path);
    }
    cJSON_ArrayForEach(x, get(j, "remove")) {
        data_file *f = &t->files[x->valueint];
        f->gone = true;
        ((const char **)e->removed)[e->nremoved++] = f->path; /* its deletes go by themselves */
    }
    w->dvs = must(wr_calloc((size_t)ndel + 1, sizeof *w->dvs));
    cJSON_ArrayForEach(x, del) {
        data_file *f = &t->files[atoi(x->string)];
        const cJSON *pos;
        cJSON_ArrayForEach(pos, x) roaring_bitmap_add(f->dead, (uint32_t)pos->valueint);
        w->dvs[w->ndvs++] = (wr_ice_dv){.referenced = f->path, .bitmap = f->dead};
        for (int i = 0; i < f->ndeletes; i++) {
            ((const char **)e->removed)[e->nremoved] = f->delete_paths[i];
            ((const char **)e->removed_refs)[e->nremoved++] = f->path;
        }
    }
    if (w->ndvs == 0) return WR_OK;
    wr_ice_file **files;
    WR_TRY(wr_ice_write_deletes(d->engine, d->state, t->ice, w->dvs, w->ndvs, &files, err));
    for (int i = 0; i < w->ndvs; i++) e->added[e->nadded++] = files[i];
    wr_free(files);
    return WR_OK;
}

static void settle(work *w) { /* after a successful commit */
    table *t = w->t;
    for (int i = 0; i < w->e.nadded; i++) {
        const wr_ice_file *f = w->e.added[i];
        for (int k = 0; f->content != WR_ICE_DATA && k < t->nfiles; k++) {
            if (strcmp(t->files[k].path, f->referenced) != 0) continue;
            for (int m = 0; m < t->files[k].ndeletes; m++) wr_free(t->files[k].delete_paths[m]);
            t->files[k].ndeletes = 0;
            note_delete(&t->files[k], f->path);
        }
    }
    if (w->schema) {
        wr_schema_unref(t->schema);
        t->schema = wr_schema_ref(w->schema);
    }
    if (w->e.new_ns) {
        wr_free(t->ns);
        wr_free(t->name);
        t->ns = must(wr_strdup(w->e.new_ns)), t->name = must(wr_strdup(w->e.new_name));
    }
}

static void work_clear(work *w) {
    wr_ice_expiry_free(w->expire);
    for (int i = 0; i < w->e.nadded; i++) wr_ice_file_free(w->e.added[i]);
    wr_free(w->e.added);
    wr_free((void *)(uintptr_t)w->e.removed);
    wr_free((void *)(uintptr_t)w->e.removed_refs);
    wr_free(w->sk), wr_free(w->sv), wr_free(w->pk), wr_free(w->pv), wr_free(w->dvs);
    wr_schema_unref(w->schema);
}

static void forget(driver *d) {
    for (int i = 0; i < d->ntables; i++) table_free(d->tables[i]);
    d->ntables = 0;
}

static wr_code op_commit(driver *d, const cJSON *j, wr_err *err) {
    int n = cJSON_GetArraySize(get(j, "edits")), i = 0;
    work *w = must(wr_calloc((size_t)n + 1, sizeof *w));
    wr_ice_edit *edits = must(wr_calloc((size_t)n + 1, sizeof *edits));
    wr_code rc = WR_OK;
    const cJSON *e, *p = get(j, "progress");
    cJSON_ArrayForEach(e, get(j, "edits")) {
        if (rc != WR_OK) break;
        rc = prepare(d, e, &w[i], err);
        edits[i] = w[i].e;
        i++;
    }
    wr_pos pos = {.file = "binlog.000001", .offset = 4711};
    wr_ice_progress progress = {.pipeline = text(p, "pipeline", NULL),
                                .offset = p ? (uint64_t)get(p, "offset")->valuedouble : 0,
                                .pos = &pos,
                                .event_time_us = 5};
    if (rc == WR_OK) rc = wr_ice_commit(d->catalog, d->state, edits, n, p ? &progress : NULL, err);
    for (int k = 0; k < i && rc == WR_OK; k++) settle(&w[k]);
    for (int k = 0; rc == WR_OK && k < i; k++)
        if (w[k].expire) rc = wr_ice_expiry_delete(w[k].expire, d->state, err);
    for (int k = 0; k < i; k++) work_clear(&w[k]);
    for (int k = 0; k < d->ntables && rc == WR_OK; k++) {
        if (wr_ice_metadata_location(d->tables[k]->ice)) continue;
        table_free(d->tables[k]); /* dropped */
        d->tables[k--] = d->tables[--d->ntables];
    }
    if (rc != WR_OK) forget(d);
    wr_free(edits);
    wr_free(w);
    return rc;
}

static wr_code op_live(driver *d, const cJSON *j, cJSON *answer, wr_err *err) {
    const char *ref = text(j, "ref", WR_ICE_MAIN);
    wr_ice_table *t = NULL;
    wr_ice_file **files = NULL;
    wr_schema *s = NULL;
    int n = 0;
    WR_TRY(wr_ice_load(d->catalog, text(j, "ns", ""), text(j, "name", ""), &t, err));
    wr_code rc = wr_ice_ref(t, ref) < 0 ? WR_OK : wr_ice_live_files(t, wr_ice_ref(t, ref), &files, &n, err);
    cJSON *list = cJSON_AddArrayToObject(answer, "files");
    for (int i = 0; i < n; i++) {
        cJSON *f = cJSON_CreateObject();
        cJSON_AddItemToArray(list, f);
        cJSON_AddStringToObject(f, "path", files[i]->path);
        cJSON_AddNumberToObject(f, "content", files[i]->content);
        cJSON_AddNumberToObject(f, "records", (double)files[i]->records);
        cJSON_AddNumberToObject(f, "sequence", (double)files[i]->sequence);
        cJSON_AddNumberToObject(f, "first_row_id", (double)files[i]->first_row_id);
        cJSON_AddNumberToObject(f, "nstats", files[i]->nstats);
        if (files[i]->referenced) cJSON_AddStringToObject(f, "referenced", files[i]->referenced);
        void *bitmap = NULL;
        if (rc == WR_OK && files[i]->content == WR_ICE_POS_DELETES && files[i]->referenced) {
            rc = wr_ice_read_deletes(d->engine, NULL, files[i], files[i]->referenced, &bitmap, err);
            if (rc == WR_OK) cJSON_AddNumberToObject(f, "deleted", (double)roaring_bitmap_get_cardinality(bitmap));
            if (rc == WR_OK) roaring_bitmap_free(bitmap);
        }
    }
    for (int i = 0; i < n; i++) wr_ice_file_free(files[i]);
    wr_free(files);
    if (rc == WR_OK) rc = wr_ice_schema(t, &s, err);
    if (rc == WR_OK) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        rc = wr_schema_to_json(s, &b, err);
        if (rc == WR_OK) cJSON_AddItemToObject(answer, "schema", cJSON_Parse(wr_buf_cstr(&b)));
    }
    cJSON_AddNumberToObject(answer, "snapshots", wr_ice_snapshot_count(t));
    wr_schema_unref(s);
    wr_ice_table_free(t);
    return rc;
}

static wr_code count_file(void *ctx, const char *path, int64_t created_us, wr_err *err) { return ++*(int *)ctx, WR_OK; }

static wr_code list_table(void *ctx, const char *ns, const char *name, const char *metadata_location, wr_err *err) {
    cJSON *pair = cJSON_CreateArray();
    cJSON_AddItemToArray(pair, cJSON_CreateString(ns));
    cJSON_AddItemToArray(pair, cJSON_CreateString(name));
    cJSON_AddItemToArray(ctx, pair);
    return WR_OK;
}

static wr_code run(driver *d, const cJSON *j, cJSON *answer, wr_err *err) {
    const char *op = text(j, "op", "");
    if (strcmp(op, "commit") == 0) return op_commit(d, j, err);
    if (strcmp(op, "live") == 0) return op_live(d, j, answer, err);
    if (strcmp(op, "forget") == 0) return forget(d), WR_OK;
    if (strcmp(op, "fault") == 0) return wr_fault_set(text(j, "spec", NULL)) ? WR_OK : WR_E_INVAL;
    if (strcmp(op, "progress") == 0) {
        uint64_t offset;
        wr_pos pos;
        int64_t us;
        WR_TRY(wr_ice_catalog_progress(d->catalog, text(j, "pipeline", ""), &offset, &pos, &us, err));
        cJSON_AddNumberToObject(answer, "offset", (double)offset);
        cJSON_AddStringToObject(answer, "file", pos.file);
        wr_pos_clear(&pos);
        return WR_OK;
    }
    if (strcmp(op, "settle") == 0) {
        bool settled = false;
        WR_TRY(wr_ice_settle(d->catalog, d->state, &settled, err));
        cJSON_AddBoolToObject(answer, "settled", settled);
        return WR_OK;
    }
    if (strcmp(op, "tables") == 0) return wr_ice_catalog_each(d->catalog, list_table, cJSON_AddArrayToObject(answer, "tables"), err);
    if (strcmp(op, "journal") == 0) {
        int n = 0;
        WR_TRY(wr_state_file_each(d->state, count_file, &n, err));
        cJSON_AddNumberToObject(answer, "files", n);
        return WR_OK;
    }
    return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "unknown op %s", op);
}

int main(int argc, char **argv) {
    if (argc < 4 || argc > 6) die("usage: ice_driver CATALOG WAREHOUSE STATE [REST-URI [CREDENTIAL]] < commands");
    wr_rest_options rest = {.uri = argc > 4 ? argv[4] : NULL, .credential = argc > 5 ? argv[5] : NULL};
    wr_ice_catalog_options catalog = {.path = argv[1], .rest = rest.uri ? &rest : NULL};
    driver d = {.warehouse = argv[2]};
    wr_err err = WR_ERR_INIT;
    wr_engine_options opts = {0};
    if (wr_mkdirs(argv[2], &err) != WR_OK || wr_state_open(argv[3], &d.state, &err) != WR_OK ||
        wr_engine_open(&opts, &d.engine, &err) != WR_OK ||
        wr_ice_catalog_open(&catalog, &d.catalog, &err) != WR_OK)
        die(err.msg);
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, stdin) > 0) {
        cJSON *j = cJSON_Parse(line), *answer = cJSON_CreateObject();
        if (!j) die("a line that is not JSON");
        wr_err_clear(&err);
        if (run(&d, j, answer, &err) == WR_OK) {
            cJSON_AddTrueToObject(answer, "ok");
        } else {
            cJSON_AddStringToObject(answer, "error", wr_code_name(err.code));
            cJSON_AddStringToObject(answer, "message", err.msg);
        }
        char *out = cJSON_PrintUnformatted(answer);
        puts(out);
        fflush(stdout);
        cJSON_free(out);
        cJSON_Delete(answer);
        cJSON_Delete(j);
    }
    free(line);
    forget(&d);
    wr_free(d.tables);
    wr_ice_catalog_close(d.catalog);
    wr_engine_close(d.engine);
    wr_state_close(d.state);
    return 0;
}
