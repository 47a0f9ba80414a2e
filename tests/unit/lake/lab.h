/* One lake in a folder, with tables of (id long, name string), for tests that say what they do. */
#ifndef TESTS_LAKE_LAB_H
#define TESTS_LAKE_LAB_H
#include "world.h"

typedef struct lab {
    wr_state *state;
    wr_engine *engine;
    wr_lake *lake;
    int version;
    uint64_t file_bytes, pending_bytes, offset;
    const wr_layout_rule *layout; /* one rule, NULL = none */
} lab;

static const wr_rest_options *lab_rest; /* where the tables are, if not in catalog.db */

static inline wr_code lab_try_open(lab *l, wr_err *err) {
    static char catalog[300], warehouse[300], index[300], state[300];
    snprintf(catalog, sizeof catalog, "%s/catalog.db", dir);
    snprintf(warehouse, sizeof warehouse, "%s/warehouse", dir);
    snprintf(index, sizeof index, "%s/index", dir);
    snprintf(state, sizeof state, "%s/state.db", dir);
    WR_TRY(wr_state_open(state, &l->state, err));
    wr_engine_options eo = {.threads = 1};
    WR_TRY(wr_engine_open(&eo, &l->engine, err));
    wr_lake_options o = {.pipeline = "p",
                         .catalog_path = catalog,
                         .rest = lab_rest,
                         .warehouse = warehouse,
                         .index_dir = index,
                         .format_version = l->version,
                         .layout = l->layout,
                         .nlayout = l->layout != NULL,
                         .file_bytes = l->file_bytes,
                         .pending_bytes = l->pending_bytes};
    return wr_lake_open(&o, l->state, l->engine, &l->lake, err);
}
static inline void lab_open(lab *l) { assert_ok(lab_try_open(l, err)); }
static inline void lab_close(lab *l) {
    wr_lake_close(l->lake);
    wr_engine_close(l->engine);
    wr_state_close(l->state);
    l->lake = NULL, l->engine = NULL, l->state = NULL;
}
static inline void lab_reopen(lab *l) { lab_close(l), lab_open(l); }

/* (id, name), with more text columns behind; the first nkey are the key */
static inline wr_schema *lab_schema(int ncols, int nkey, uint32_t version) {
    static const char *const names[4] = {"id", "name", "more", "most"};
    wr_column c[4] = {0};
    for (int i = 0; i < ncols; i++)
        c[i] = (wr_column){.name = (char *)(uintptr_t)names[i],
                           .id = i + 1,
                           .type = {.kind = i ? WR_STRING : WR_LONG},
                           .nullable = i >= nkey,
                           .key_ord = i < nkey ? i + 1 : 0};
    wr_schema *s = NULL;
    assert_ok(wr_schema_new(c, ncols, version, &s, err));
    return s;
}
static inline void lab_row(const wr_schema *s, int64_t id, const char *name, wr_buf *b) {
    wr_buf_clear(b);
    size_t at = wr_row_begin(b, s->ncols);
    for (int i = 0; i < s->ncols; i++) {
        wr_value v = {.null = i > 0 && (i > 1 || !name)};
        if (i == 0)
            v.i64 = id;
        else if (!v.null && name)
            v.s = wr_slice_str(name);
        wr_row_put(b, at, i, s->cols[i].type, &v);
    }
}
static inline wr_table *lab_create(lab *l, uint32_t id, const char *name, int nkey) {
    wr_schema *s = lab_schema(2, nkey, 1);
    wr_table *t = NULL;
    assert_ok(wr_lake_create(l->lake, id, "db", name, s, &t, err));
    wr_schema_unref(s);
    return t;
}
static inline wr_code lab_apply(wr_table *t, wr_op op, int64_t id, const char *before, const char *after, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT, a = WR_BUF_INIT;
    lab_row(wr_table_schema(t), id, before, &b);
    lab_row(wr_table_schema(t), id, after, &a);
    wr_slice none = {0};
    return wr_table_apply(t, 0, WR_APPLY_STRICT, op, op == WR_OP_INSERT ? none : wr_buf_view(&b),
                          op == WR_OP_DELETE ? none : wr_buf_view(&a), err);
}
static inline void lab_put(wr_table *t, int64_t id, const char *name) {
    assert_ok(lab_apply(t, WR_OP_INSERT, id, NULL, name, err));
}
static inline void lab_set(wr_table *t, int64_t id, const char *old, const char *name) {
    assert_ok(lab_apply(t, WR_OP_UPDATE, id, old, name, err));
}
static inline void lab_del(wr_table *t, int64_t id, const char *name) {
    assert_ok(lab_apply(t, WR_OP_DELETE, id, name, NULL, err));
}
static inline void lab_fill(wr_table *t, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) lab_put(t, i, "some row");
}
static inline wr_code lab_try_commit(lab *l, wr_err *err) {
    wr_pos pos = {.file = "binlog.000001", .offset = l->offset + 1};
    WR_TRY(wr_lake_commit(l->lake, l->offset + 1, &pos, 0, err));
    l->offset++;
    return WR_OK;
}
static inline void lab_commit(lab *l) { assert_ok(lab_try_commit(l, err)); }

/* ------------------------------------------------------------------ what readers see */
typedef struct lab_seen {
    char *text;
    const uint32_t *deleted;
    uint64_t ndeleted, at;
    const wr_schema *s;
    char **rows;
    int n;
} lab_seen;
static inline wr_code lab_see(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    lab_seen *s = ctx;
    while (s->at < s->ndeleted && s->deleted[s->at] < pos) s->at++;
    if (s->at < s->ndeleted && s->deleted[s->at] == pos) return WR_OK;
    wr_value v[4];
    WR_TRY(wr_row_read(s->s, row, v, err));
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    for (int i = 0; i < s->s->ncols; i++) {
        if (i) wr_buf_u8(&b, ':');
        if (!v[i].null) wr_value_print(&b, s->s->cols[i].type, &v[i]);
    }
    s->rows = realloc(s->rows, sizeof *s->rows * (size_t)(s->n + 1));
    s->rows[s->n++] = strdup(wr_buf_cstr(&b));
    return WR_OK;
}
static inline int lab_by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* "1:a 2:b" of a table, sorted; "-" = no such table, "N rows" when there are more than 20. Static. */
static inline const char *lab_content(const lab *l, const char *name) {
    static char out[4][2048];
    static int turn;
    char *o = out[turn = (turn + 1) % 4], catalog[300];
    snprintf(catalog, sizeof catalog, "%s/catalog.db", dir);
    wr_lake_view *v;
    const wr_sql_table *t;
    const wr_table_health *h;
    int n;
    assert_ok(wr_lake_view_open(&(wr_lake_view_options){.catalog_path = catalog, .rest = lab_rest}, &v, err));
    assert_ok(wr_lake_view_tables(v, &t, &h, &n, err));
    strcpy(o, "-");
    for (int i = 0; i < n; i++) {
        if (strcmp(t[i].name, name)) continue;
        lab_seen s = {.s = t[i].schema};
        for (int f = 0; f < t[i].nfiles; f++) {
            wr_parquet_read_options ro = {0};
            s.deleted = t[i].files[f].deleted, s.ndeleted = t[i].files[f].ndeleted, s.at = 0;
            assert_ok(wr_parquet_read(l->engine, t[i].files[f].path, t[i].schema, &ro, lab_see, &s, err));
        }
        assert_int_equal(h[i].rows, s.n);
        if (s.n) qsort(s.rows, (size_t)s.n, sizeof *s.rows, lab_by_text);
        o[0] = 0;
        if (s.n > 20) snprintf(o, 2048, "%d rows", s.n);
        for (int r = 0; r < s.n; r++) {
            if (s.n <= 20) snprintf(o + strlen(o), 2048 - strlen(o), "%s%s", r ? " " : "", s.rows[r]);
            free(s.rows[r]);
        }
        free(s.rows);
    }
    wr_lake_view_close(v);
    return o;
}
#define assert_content(l, name, want) assert_string_equal(lab_content(l, name), want)

/* Names of all tables, sorted, between blanks. Static. */
static inline const char *lab_tables(void) {
    static char o[1024];
    char catalog[300];
    snprintf(catalog, sizeof catalog, "%s/catalog.db", dir);
    wr_lake_view *v;
    const wr_sql_table *t;
    const wr_table_health *h;
    int n;
    assert_ok(wr_lake_view_open(&(wr_lake_view_options){.catalog_path = catalog, .rest = lab_rest}, &v, err));
    assert_ok(wr_lake_view_tables(v, &t, &h, &n, err));
    o[0] = 0;
    const char *names[64];
    for (int i = 0; i < n; i++) names[i] = t[i].name;
    qsort(names, (size_t)n, sizeof *names, lab_by_text);
    for (int i = 0; i < n; i++) snprintf(o + strlen(o), sizeof o - strlen(o), "%s%s", i ? " " : "", names[i]);
    wr_lake_view_close(v);
    return o;
}
static inline wr_table_health lab_health(wr_table *t) {
    wr_table_health h;
    assert_ok(wr_table_get_health(t, &h, err));
    return h;
}
static inline wr_code lab_count(void *ctx, const char *name, wr_err *err) { return ++*(int *)ctx, WR_OK; }
static inline wr_code lab_count_journal(void *ctx, const char *path, int64_t us, wr_err *err) {
    return ++*(int *)ctx, WR_OK;
}
static inline int lab_journal(const lab *l) {
    int n = 0;
    assert_ok(wr_state_file_each(l->state, lab_count_journal, &n, err));
    return n;
}
#endif
