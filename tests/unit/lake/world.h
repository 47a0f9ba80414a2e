/* A small world of tables that changes at random, kept twice: in the lake, and as plain values in memory. What is done
 * is decided by the seed and the plain values alone, so that a second world with the same seed and no lake goes through
 * the same states.
 *
 * A value is null or a number; each column kind shows the number in its own way, so that promotions keep it. */
#ifndef TESTS_LAKE_WORLD_H
#define TESTS_LAKE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "table.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/io.h"
#include "weir/lake.h"
#include "io/tmpdir.h"

#define assert_ok(expr)                                                                                                \
    do {                                                                                                               \
        wr_err e_ = WR_ERR_INIT, *err = &e_;                                                                           \
        wr_code rc_ = (expr);                                                                                          \
        if (rc_ != WR_OK) fail_msg("%s: %s: %s", #expr, wr_code_name(rc_), err->msg);                                  \
    } while (0)

static inline void w_not_all_use(void) { (void)in_dir, (void)dir_make, (void)dir_remove; }

/* Thousands of syncs: on a memory file system unless TMPDIR says otherwise. Processes are killed here, not machines. */
static inline void w_fast_folder(void) {
    if (!getenv("TMPDIR") && access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 0);
}

#define W_TABLES 5
#define W_COLS 10

typedef struct w_col {
    int32_t id;
    wr_type type;
    bool nullable, has_initial;
    int64_t initial;
    int key_ord;
    char name[24];
} w_col;
typedef struct w_val {
    bool null;
    int64_t v;
} w_val;
typedef struct w_row {
    w_val v[W_COLS];
} w_row;

typedef struct w_content { /* copied at each commit */
    bool there;
    uint32_t id;
    char name[40];
    int ncols;
    w_col cols[W_COLS];
    uint32_t version;
    int32_t next_id;
    int nrows, cap;
    w_row *rows;
} w_content;

typedef struct w_table {
    int form;                       /* of the key: 0 long, 1 int+string, 2 none, 3 int+long, 4 string */
    w_content now, committed, main; /* main: what readers see while a load is under way */
    bool loading, loading_committed, publish;
    int load_got,
        load_of;        /* rows that the load has brought so far, and all of them: from then on changes are replayed */
    uint64_t anomalies; /* expected */
    wr_table *lake;
} w_table;

typedef struct world {
    uint64_t rng, seed, ops;
    int compactions;
    uint64_t offset, attempt; /* of the last commit; of the one that was tried last */
    uint64_t *shared;         /* where a child tells its parent `offset`, NULL = nobody */
    uint64_t stop_at;         /* a world without a lake: commits after this offset are not made; 0 = all are */
    int version;              /* Iceberg format */
    bool faults, failed;      /* errors of the lake are expected; there was one */
    w_table t[W_TABLES];
    uint32_t next_table;
    /* the lake, NULL in a world of plain values only */
    char home[160];
    wr_state *state;
    wr_engine *engine;
    wr_lake *lake;
} world;

static inline uint64_t w_rnd(world *w) {
    uint64_t z = w->rng += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}
static inline int w_below(world *w, int n) { return (int)(w_rnd(w) % (uint64_t)n); }

/* ------------------------------------------------------------------ contents */
static inline void w_copy(w_content *to, const w_content *from) {
    w_row *rows = to->rows;
    int cap = to->cap;
    *to = *from;
    if (cap < from->nrows) rows = realloc(rows, sizeof *rows * (size_t)(cap = from->nrows + 16));
    to->rows = rows, to->cap = cap;
    if (from->nrows) memcpy(rows, from->rows, sizeof *rows * (size_t)from->nrows);
}
static inline void w_add(w_content *c, const w_row *r) {
    if (c->nrows == c->cap) c->rows = realloc(c->rows, sizeof *c->rows * (size_t)(c->cap = c->cap * 2 + 16));
    c->rows[c->nrows++] = *r;
}

static inline wr_value w_value(const w_col *c, w_val v, char text[32]) {
    wr_value x = {.null = v.null};
    if (v.null) return x;
    switch (c->type.kind) {
    case WR_INT:
        x.i32 = (int32_t)v.v;
        break;
    case WR_LONG:
        x.i64 = v.v;
        break;
    case WR_FLOAT:
        x.f32 = (float)v.v / 4;
        break;
    case WR_DOUBLE:
        x.f64 = (double)v.v / 4;
        break;
    case WR_DECIMAL:
        x.dec = v.v;
        break;
    default:
        x.s = wr_slice_of(text, (size_t)snprintf(text, 32, "s%lld", (long long)v.v));
    }
    return x;
}

static inline wr_schema *w_schema(const w_content *c) {
    wr_column cols[W_COLS] = {0};
    static char texts[W_COLS][32];
    for (int i = 0; i < c->ncols; i++) {
        const w_col *m = &c->cols[i];
        cols[i] = (wr_column){.name = (char *)(uintptr_t)m->name,
                              .id = m->id,
                              .type = m->type,
                              .nullable = m->nullable,
                              .key_ord = m->key_ord,
                              .has_initial = m->has_initial};
        if (m->has_initial) cols[i].initial = w_value(m, (w_val){.v = m->initial}, texts[i]);
    }
    wr_schema *s = NULL;
    assert_ok(wr_schema_new(cols, c->ncols, c->version, &s, err));
    return s;
}

static inline void w_encode(const w_content *c, const w_row *r, wr_buf *b) {
    char text[32];
    size_t at = wr_row_begin(b, c->ncols);
    for (int i = 0; i < c->ncols; i++) {
        wr_value v = w_value(&c->cols[i], r->v[i], text);
        wr_row_put(b, at, i, c->cols[i].type, &v);
    }
    assert_false(b->failed);
}

/* ------------------------------------------------------------------ the lake of a world */
static inline void w_open(world *w) {
    char path[256], catalog[256], warehouse[256], index[256];
    snprintf(path, sizeof path, "%s/state.db", w->home);
    assert_ok(wr_state_open(path, &w->state, err));
    wr_engine_options eo = {.threads = 1};
    assert_ok(wr_engine_open(&eo, &w->engine, err));
    snprintf(catalog, sizeof catalog, "%s/catalog.db", w->home);
    snprintf(warehouse, sizeof warehouse, "%s/warehouse", w->home);
    snprintf(index, sizeof index, "%s/index", w->home);
    wr_lake_options o = {.pipeline = "p",
                         .catalog_path = catalog,
                         .warehouse = warehouse,
                         .index_dir = index,
                         .format_version = w->version,
                         .file_bytes = 40000,
                         .pending_bytes = 90000,
                         .compact_files = 2,
                         .compact_bytes = 20000,
                         .target_file_bytes = 16000,
                         .snapshots_min = 5,
                         .snapshots_max = 9};
    assert_ok(wr_lake_open(&o, w->state, w->engine, &w->lake, err));
    for (int i = 0; i < W_TABLES; i++) w->t[i].lake = w->t[i].now.there ? wr_lake_table(w->lake, w->t[i].now.id) : NULL;
}
static inline void w_close(world *w) {
    wr_lake_close(w->lake);
    wr_engine_close(w->engine);
    wr_state_close(w->state);
    w->lake = NULL, w->engine = NULL, w->state = NULL;
    for (int i = 0; i < W_TABLES; i++) w->t[i].lake = NULL;
}
static inline void w_free(world *w) {
    for (int i = 0; i < W_TABLES; i++) free(w->t[i].now.rows), free(w->t[i].committed.rows), free(w->t[i].main.rows);
}

/* ------------------------------------------------------------------ comparing with what readers see */
typedef struct w_bytes {
    uint8_t *p;
    size_t n;
} w_bytes;
typedef struct w_bag {
    w_bytes *v;
    int n, cap;
    const uint32_t *deleted;
    uint64_t ndeleted, at;
} w_bag;
static inline void w_put(w_bag *b, wr_slice s) {
    if (b->n == b->cap) b->v = realloc(b->v, sizeof *b->v * (size_t)(b->cap = b->cap * 2 + 64));
    b->v[b->n].p = malloc(s.n + 1);
    memcpy(b->v[b->n].p, s.p, s.n);
    b->v[b->n++].n = s.n;
}
static inline int w_cmp(const void *a, const void *b) {
    const w_bytes *x = a, *y = b;
    int c = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return c ? c : x->n < y->n ? -1 : x->n > y->n;
}
static inline wr_code w_take(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    w_bag *b = ctx;
    while (b->at < b->ndeleted && b->deleted[b->at] < pos) b->at++;
    if (b->at < b->ndeleted && b->deleted[b->at] == pos) return WR_OK;
    w_put(b, row);
    return WR_OK;
}
static inline void w_bag_free(w_bag *b) {
    for (int i = 0; i < b->n; i++) free(b->v[i].p);
    free(b->v);
}

static inline void w_same_rows(const world *w, const w_content *c, const wr_sql_table *t) {
    w_bag want = {0}, got = {0};
    WR_AUTO_BUF wr_buf row = WR_BUF_INIT;
    for (int i = 0; i < c->nrows; i++) {
        wr_buf_clear(&row);
        w_encode(c, &c->rows[i], &row);
        w_put(&want, wr_buf_view(&row));
    }
    for (int i = 0; i < t->nfiles; i++) {
        wr_parquet_read_options o = {0};
        got.deleted = t->files[i].deleted, got.ndeleted = t->files[i].ndeleted, got.at = 0;
        assert_ok(wr_parquet_read(w->engine, t->files[i].path, t->schema, &o, w_take, &got, err));
    }
    if (want.n) qsort(want.v, (size_t)want.n, sizeof *want.v, w_cmp);
    if (got.n) qsort(got.v, (size_t)got.n, sizeof *got.v, w_cmp);
    if (want.n != got.n)
        fail_msg("seed %llu op %llu: table %s has %d rows, not %d", (unsigned long long)w->seed,
                 (unsigned long long)w->ops, c->name, got.n, want.n);
    for (int i = 0; i < want.n; i++)
        if (w_cmp(&want.v[i], &got.v[i]))
            fail_msg("seed %llu op %llu: table %s: row %d in order differs", (unsigned long long)w->seed,
                     (unsigned long long)w->ops, c->name, i);
    w_bag_free(&want), w_bag_free(&got);
}

static inline const w_content *w_visible(const w_table *t) { return t->loading_committed ? &t->main : &t->committed; }

/* Everything that readers see is what was committed. */
static inline void w_compare(const world *w) {
    char catalog[256];
    snprintf(catalog, sizeof catalog, "%s/catalog.db", w->home);
    wr_lake_view *v;
    const wr_sql_table *t;
    const wr_table_health *h;
    int n, there = 0;
    assert_ok(wr_lake_view_open(&(wr_lake_view_options){.catalog_path = catalog}, &v, err));
    assert_ok(wr_lake_view_tables(v, &t, &h, &n, err));
    for (int i = 0; i < W_TABLES; i++) {
        if (!w->t[i].committed.there) continue;
        const w_content *c = w_visible(&w->t[i]);
        there++;
        int k = 0;
        while (k < n && strcmp(t[k].name, w->t[i].committed.name)) k++;
        if (k == n)
            fail_msg("seed %llu op %llu: table %s is missing", (unsigned long long)w->seed, (unsigned long long)w->ops,
                     w->t[i].committed.name);
        assert_string_equal(t[k].ns, "db");
        w_same_rows(w, c, &t[k]);
        assert_int_equal(h[k].rows, c->nrows);
    }
    assert_int_equal(n, there);
    wr_lake_view_close(v);
}

static inline bool w_reading(const w_table *t) { return t->loading && t->load_got < t->load_of; }

/* The lake's own sums, and what it counted as odd. */
static inline void w_check_health(const world *w) {
    for (int i = 0; i < W_TABLES; i++) {
        wr_table_health h;
        if (!w->t[i].lake) continue;
        assert_ok(wr_table_get_health(w->t[i].lake, &h, err));
        int want = w_reading(&w->t[i]) ? w->t[i].load_got : w->t[i].now.nrows;
        if ((int)h.rows != want)
            fail_msg("seed %llu op %llu: %s: health says %d rows, not %d", (unsigned long long)w->seed,
                     (unsigned long long)w->ops, w->t[i].now.name, (int)h.rows, want);
        assert_int_equal(h.anomalies, w->t[i].anomalies);
    }
}

/* ------------------------------------------------------------------ going back and forward */
#define LAKE(w, expr)                                                                                                  \
    do {                                                                                                               \
        if ((w)->lake && !(w)->failed) {                                                                               \
            wr_err e_ = WR_ERR_INIT, *err = &e_;                                                                       \
            if ((expr) != WR_OK) {                                                                                     \
                if ((w)->shared)                                                                                       \
                    fprintf(stderr, "child, seed %llu op %llu: %s: %s\n", (unsigned long long)(w)->seed,               \
                            (unsigned long long)(w)->ops, #expr, err->msg),                                            \
                        _exit(3);                                                                                      \
                if (!(w)->faults)                                                                                      \
                    fail_msg("seed %llu op %llu: %s: %s", (unsigned long long)(w)->seed, (unsigned long long)(w)->ops, \
                             #expr, err->msg);                                                                         \
                (w)->failed = true;                                                                                    \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

static inline void w_adopt(world *w) {
    w->offset = w->attempt;
    for (int i = 0; i < W_TABLES; i++) {
        w_table *t = &w->t[i];
        if (t->publish) t->loading = t->publish = false;
        if (t->loading && !t->loading_committed) w_copy(&t->main, &t->committed);
        t->loading_committed = t->loading;
        w_copy(&t->committed, &t->now);
    }
    if (w->shared) *w->shared = w->offset;
}

static inline void w_commit(world *w) {
    if (w->stop_at && w->offset == w->stop_at) w->failed = true;
    if (w->failed) return;
    w->attempt = w->offset + 1;
    wr_pos pos = {.file = "binlog.000001", .offset = w->attempt};
    LAKE(w, wr_lake_commit(w->lake, w->attempt, &pos, 1700000000000000, err));
    if (w->failed && w_below(w, 2)) { /* once more, without going back */
        wr_err e = WR_ERR_INIT;
        if (wr_lake_commit(w->lake, w->attempt, &pos, 1700000000000000, &e) == WR_OK) w->failed = false;
    }
    if (w->failed) return;
    w_adopt(w);
    bool wait = w_below(w, 3) == 0, changed = false;
    if (w->lake) w->lake->next_job_us = 0; /* time passes quickly here */
    for (int k = 0; k < (wait ? 2 : 1) && !changed; k++) LAKE(w, wr_lake_govern(w->lake, wait, &changed, err)); /* begun, and ended */
    if (!changed || w->failed) return;
    w->compactions++;
    LAKE(w, wr_lake_commit(w->lake, w->offset, &pos, 1700000000000000, err));
}

/* What the catalog says is where it goes on. The lake is open; `now` is of the time of the attempt. */
static inline void w_back(world *w) {
    uint64_t offset;
    wr_pos pos;
    int64_t us;
    assert_ok(wr_lake_progress(w->lake, &offset, &pos, &us, err));
    if (offset) assert_int_equal(pos.offset, offset);
    wr_pos_clear(&pos);
    if (offset == w->attempt && offset != w->offset) w_adopt(w);
    if (offset != w->offset)
        fail_msg("seed %llu op %llu: the lake is at %llu, not %llu", (unsigned long long)w->seed,
                 (unsigned long long)w->ops, (unsigned long long)offset, (unsigned long long)w->offset);
    w->failed = false;
    for (int i = 0; i < W_TABLES; i++) {
        w_table *t = &w->t[i];
        w_copy(&t->now, &t->committed);
        t->loading = t->loading_committed, t->publish = false, t->anomalies = 0;
        t->lake = t->now.there ? wr_lake_table(w->lake, t->now.id) : NULL;
        assert_int_equal(t->lake != NULL, t->now.there);
        if (!t->lake) continue;
        const char *info = wr_table_load_info(t->lake);
        assert_int_equal(info != NULL, t->loading);
        if (info) assert_int_equal(sscanf(info, "{\"got\":%d,\"of\":%d}", &t->load_got, &t->load_of), 2);
        wr_schema *s = w_schema(&t->now);
        assert_int_equal(wr_table_schema(t->lake)->version, s->version);
        wr_schema_unref(s);
    }
}

static inline void w_reopen(world *w) {
    w_close(w);
    w_open(w);
    w_back(w);
}

/* ------------------------------------------------------------------ changes */
static inline int w_nkey(const w_content *c) {
    int n = 0;
    for (int i = 0; i < c->ncols; i++) n += c->cols[i].key_ord > 0;
    return n;
}
static inline w_col *w_add_col(w_content *c, const char *name, wr_type type, int key_ord) {
    w_col *m = &c->cols[c->ncols++];
    *m = (w_col){.id = ++c->next_id, .type = type, .nullable = !key_ord, .key_ord = key_ord};
    snprintf(m->name, sizeof m->name, "%s%d", name, m->id);
    return m;
}

static inline void w_new_table(world *w, w_table *t, int slot) {
    static const wr_type LONG = {.kind = WR_LONG}, INT = {.kind = WR_INT}, STR = {.kind = WR_STRING},
                         DEC = {.kind = WR_DECIMAL, .precision = 10, .scale = 2}, FLT = {.kind = WR_FLOAT};
    w_row *rows = t->now.rows;
    int cap = t->now.cap;
    t->now = (w_content){.there = true, .id = ++w->next_table, .rows = rows, .cap = cap, .version = 1};
    w_content *c = &t->now;
    snprintf(c->name, sizeof c->name, "t%d", slot);
    bool first = t->form % 2 == 0; /* the key in front, or behind text */
    if (!first) w_add_col(c, "a", STR, 0);
    switch (t->form) {
    case 0:
        w_add_col(c, "k", LONG, 1);
        break;
    case 1:
        w_add_col(c, "k", INT, 1), w_add_col(c, "l", STR, 2);
        break;
    case 2:
        w_add_col(c, "k", INT, 0);
        break;
    case 3:
        w_add_col(c, "k", INT, 2), w_add_col(c, "l", LONG, 1);
        break;
    default:
        w_add_col(c, "k", STR, 1);
    }
    w_add_col(c, "s", STR, 0);
    w_add_col(c, "d", DEC, 0);
    w_add_col(c, "f", FLT, 0);
    t->loading = t->publish = false;
    t->anomalies = 0;
    wr_schema *s = w_schema(c);
    LAKE(w, wr_lake_create(w->lake, c->id, "db", c->name, s, &t->lake, err));
    wr_schema_unref(s);
}

static inline int64_t w_key(const w_content *c, const w_row *r) {
    for (int i = 0; i < c->ncols; i++)
        if (c->cols[i].key_ord) return r->v[i].v;
    return 0;
}
static inline int w_find(const w_content *c, int64_t key) {
    int k = 0;
    while (k < c->ncols && !c->cols[k].key_ord) k++;
    for (int i = 0; i < c->nrows; i++)
        if (c->rows[i].v[k].v == key) return i;
    return -1;
}
static inline w_row w_random_row(world *w, const w_content *c, int64_t key) {
    w_row r = {0};
    bool keyless = !w_nkey(c);
    for (int i = 0; i < c->ncols; i++) {
        if (c->cols[i].key_ord)
            r.v[i].v = key;
        else if (c->cols[i].nullable && w_below(w, 8) == 0)
            r.v[i].null = true;
        else
            r.v[i].v = keyless ? w_below(w, 3) : w_below(w, 1000) - 500;
    }
    return r;
}

static inline void w_apply(world *w, w_table *t, wr_op op, const w_row *before, const w_row *after) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT, a = WR_BUF_INIT;
    if (before) w_encode(&t->now, before, &b);
    if (after) w_encode(&t->now, after, &a);
    w->ops++;
    LAKE(w, wr_table_apply(t->lake, 0, t->loading ? WR_APPLY_REPLAY : WR_APPLY_STRICT, op, wr_buf_view(&b),
                           wr_buf_view(&a), err));
}
static inline void w_take_out(w_content *c, int i) { c->rows[i] = c->rows[--c->nrows]; }

static inline void w_change_keyless(world *w, w_table *t) {
    w_content *c = &t->now;
    int i = c->nrows ? w_below(w, c->nrows) : -1, what = w_below(w, 10);
    w_row old = i < 0 ? (w_row){0} : c->rows[i], r = w_random_row(w, c, 0);
    if (i < 0 || what < 4) {
        if (i >= 0 && what == 0) r = old; /* a double */
        w_apply(w, t, WR_OP_INSERT, NULL, &r);
        w_add(c, &r);
    } else if (what < 7) {
        w_apply(w, t, WR_OP_UPDATE, &old, &r);
        c->rows[i] = r;
    } else if (what < 9 || t->loading) {
        w_apply(w, t, WR_OP_DELETE, &old, NULL);
        w_take_out(c, i);
    } else { /* one that is not there */
        for (int k = 0; k < c->ncols; k++) r.v[k] = (w_val){.v = 77};
        for (int j = 0; j < c->nrows; j++)
            if (!memcmp(&c->rows[j], &r, sizeof r)) return;
        w_apply(w, t, WR_OP_DELETE, &r, NULL);
        t->anomalies++;
    }
}

static inline void w_change_keyed(world *w, w_table *t, int64_t key) {
    w_content *c = &t->now;
    int i = w_find(c, key), what = w_below(w, 20), j;
    w_row r = w_random_row(w, c, key), other;
    if (i < 0 && what < 18) {
        w_apply(w, t, WR_OP_INSERT, NULL, &r);
        w_add(c, &r);
    } else if (i < 0) { /* odd outside a replay: a change of a row that is not there */
        w_apply(w, t, what == 18 ? WR_OP_UPDATE : WR_OP_DELETE, &r, what == 18 ? &r : NULL);
        if (what == 18) w_add(c, &r);
        t->anomalies += !t->loading;
    } else if (what < 10) {
        w_row old = c->rows[i];
        w_apply(w, t, WR_OP_UPDATE, &old, &r);
        c->rows[i] = r;
    } else if (what < 14) { /* to another key */
        w_row old = c->rows[i];
        int64_t to = w_below(w, 400);
        other = w_random_row(w, c, to);
        j = w_find(c, to);
        if (j >= 0 && j != i && what < 13) return;
        w_apply(w, t, WR_OP_UPDATE, &old, &other);
        if (j >= 0 && j != i) t->anomalies += !t->loading; /* onto a row that should not be there: it is replaced */
        c->rows[i] = other;
        if (j >= 0 && j != i) w_take_out(c, j);
    } else if (what < 18) {
        w_row old = c->rows[i];
        w_apply(w, t, WR_OP_DELETE, &old, NULL);
        w_take_out(c, i);
    } else { /* inserted again */
        w_apply(w, t, WR_OP_INSERT, NULL, &r);
        c->rows[i] = r;
        t->anomalies += !t->loading;
    }
}

static inline void w_change(world *w, w_table *t) {
    if (w_nkey(&t->now))
        w_change_keyed(w, t, w_below(w, 400));
    else
        w_change_keyless(w, t);
}

/* Enough rows at once for index runs that go to disk. */
static inline void w_bulk(world *w, w_table *t) {
    int n = 1100 + w_below(w, 600);
    bool keyed = w_nkey(&t->now) > 0;
    for (int i = 0; i < n; i++) {
        if (keyed && w_find(&t->now, 1000 + i) >= 0) continue;
        w_row r = w_random_row(w, &t->now, 1000 + i);
        w_apply(w, t, WR_OP_INSERT, NULL, &r);
        w_add(&t->now, &r);
    }
}

static inline void w_alter_lake(world *w, w_table *t, bool fill) {
    t->now.version++;
    wr_schema *s = w_schema(&t->now);
    LAKE(w, wr_table_alter(t->lake, s, fill, err));
    wr_schema_unref(s);
}

static inline void w_alter(world *w, w_table *t) {
    static const wr_type kinds[] = {{.kind = WR_INT},
                                    {.kind = WR_LONG},
                                    {.kind = WR_STRING},
                                    {.kind = WR_FLOAT},
                                    {.kind = WR_DECIMAL, .precision = 8, .scale = 1}};
    w_content *c = &t->now;
    int what = w_below(w, 6), i = w_below(w, c->ncols);
    w_col *m = &c->cols[i];
    bool fill = what < 2;
    if (what < 3) { /* add */
        if (c->ncols == W_COLS) return;
        m = w_add_col(c, "x", kinds[w_below(w, 5)], 0);
        w_val v = {.null = true};
        if (what == 1) {
            m->has_initial = true, m->initial = w_below(w, 100), m->nullable = w_below(w, 2);
            v = (w_val){.v = m->initial};
        }
        for (int k = 0; k < c->nrows; k++) c->rows[k].v[c->ncols - 1] = v;
    } else if (what == 3) { /* drop */
        if (m->key_ord || c->ncols < 5) return;
        memmove(m, m + 1, sizeof *m * (size_t)(c->ncols - i - 1));
        for (int k = 0; k < c->nrows; k++) {
            w_row *r = &c->rows[k];
            memmove(r->v + i, r->v + i + 1, sizeof *r->v * (size_t)(c->ncols - i - 1));
            r->v[c->ncols - 1] = (w_val){0};
        }
        c->ncols--;
    } else if (what == 4) { /* promote */
        if (m->type.kind == WR_INT)
            m->type.kind = WR_LONG;
        else if (m->type.kind == WR_FLOAT)
            m->type.kind = WR_DOUBLE;
        else if (m->type.kind == WR_DECIMAL && m->type.precision < 30)
            m->type.precision += 5;
        else
            snprintf(m->name, sizeof m->name, "n%d_%u", m->id, c->version);
    } else { /* the key: from two columns to one and back, or to none and back */
        int k = 0, l = -1;
        while (k < c->ncols && strncmp(c->cols[k].name, "k", 1) && c->cols[k].id != (t->form % 2 ? 2 : 1)) k++;
        for (int x = 0; x < c->ncols; x++)
            if (c->cols[x].id == 3 && t->form % 2) l = x;
        if (k == c->ncols || t->form == 2) return;
        if (w_nkey(c) == 2)
            c->cols[k].key_ord = 1, c->cols[l].key_ord = 0;
        else if (w_nkey(c) == 1 && l >= 0 && c->cols[k].key_ord && !c->cols[l].nullable && w_below(w, 3)) {
            for (int x = 0; x < c->nrows; x++)
                if (c->rows[x].v[l].null || c->rows[x].v[l].v != c->rows[x].v[k].v) return;
            c->cols[l].key_ord = 2;
        } else
            return;
    }
    w_alter_lake(w, t, fill);
}

static inline void w_rename(world *w, w_table *t) {
    char name[40], swap[40];
    int other = w_below(w, W_TABLES);
    w_table *o = &w->t[other];
    if (o != t && o->now.there && w_below(w, 2)) {
        snprintf(swap, sizeof swap, "%s", o->now.name);
        snprintf(name, sizeof name, "%s", t->now.name);
        snprintf(t->now.name, sizeof t->now.name, "%s", swap);
        snprintf(o->now.name, sizeof o->now.name, "%s", name);
        LAKE(w, wr_table_rename(t->lake, "db", t->now.name, err));
        LAKE(w, wr_table_rename(o->lake, "db", o->now.name, err));
        return;
    }
    snprintf(name, sizeof name, "r%d", w_below(w, 50));
    for (int i = 0; i < W_TABLES; i++)
        if (w->t[i].now.there && !strcmp(w->t[i].now.name, name)) return;
    snprintf(t->now.name, sizeof t->now.name, "%s", name);
    LAKE(w, wr_table_rename(t->lake, "db", name, err));
}

static inline void w_drop(world *w, w_table *t) {
    LAKE(w, wr_table_drop(t->lake, WR_DROP_MIRROR, err));
    t->now.there = false, t->now.nrows = 0;
    t->loading = t->publish = false;
    t->lake = NULL;
}

static inline void w_create(world *w, w_table *t, int slot) {
    char name[40];
    snprintf(name, sizeof name, "t%d", slot);
    for (int i = 0; i < W_TABLES; i++)
        if (w->t[i].now.there && !strcmp(w->t[i].now.name, name)) return;
    w_new_table(w, t, slot);
}

/* ------------------------------------------------------------------ loads */
static inline void w_load_info(const w_table *t, char info[64]) {
    snprintf(info, 64, "{\"got\":%d,\"of\":%d}", t->load_got, t->load_of);
}

static inline void w_load_begin(world *w, w_table *t) {
    char info[64];
    w_commit(w);
    if (w->failed || !t->now.there) return;
    t->loading = true, t->publish = false;
    t->load_got = 0, t->load_of = t->now.nrows;
    w_load_info(t, info);
    wr_schema *s = w_schema(&t->now);
    LAKE(w, wr_table_load_begin(t->lake, s, info, err));
    wr_schema_unref(s);
    w_commit(w);
}

static inline void w_load_piece(world *w, w_table *t) {
    int n = 1 + w_below(w, 300), got = t->load_got;
    if (got + n > t->load_of) n = t->load_of - got;
    char info[64];
    t->load_got += n;
    w_load_info(t, info);
    t->load_got -= n;
    wr_load_writer *lw = NULL;
    LAKE(w, wr_load_writer_new(t->lake, &lw, err));
    for (int i = 0; i < n; i++) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        w_encode(&t->now, &t->now.rows[got + i], &b);
        LAKE(w, wr_load_writer_append(lw, wr_buf_view(&b), err));
        if (i % 90 == 89) LAKE(w, wr_load_writer_seal(lw, err));
        w->ops++;
    }
    LAKE(w, wr_load_writer_hand_over(lw, err));
    wr_load_writer_free(lw);
    LAKE(w, wr_table_load_commit(t->lake, info, err));
    if (!w->failed) t->load_got += n;
}

/* ------------------------------------------------------------------ one step */
static inline void w_step(world *w) {
    int slot = w_below(w, W_TABLES), what = w_below(w, 1000);
    w_table *t = &w->t[slot];
    w->ops++;
    if (!t->now.there) {
        if (what < 100) w_create(w, t, slot);
        return;
    }
    bool reading = w_reading(t);
    if (what < 1)
        w_drop(w, t);
    else if (what < 4)
        w_rename(w, t);
    else if (what < 7 && (!t->loading || what == 5))
        w_load_begin(w, t);
    else if (reading) {
        if (what < 100) w_load_piece(w, t);
    } else if (what < 30 && t->loading) {
        t->publish = true;
        LAKE(w, wr_table_publish(t->lake, err));
    } else if (t->publish && what < 40)
        return;
    else if (what < 40 && what >= 34)
        w_alter(w, t);
    else if (what == 40 || what == 41) {
        t->now.nrows = 0;
        LAKE(w, wr_table_truncate(t->lake, err));
    } else if (what == 42 && w_below(w, 4) == 0)
        w_bulk(w, t);
    else
        w_change(w, t);
}
#endif
