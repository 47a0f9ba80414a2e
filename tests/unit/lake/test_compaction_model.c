/* Compaction against a model: what is alive in a table after random deletes, updates and inserts before, while and after its files are rewritten.
 *
 * Twice. "memory": the table, its index, its deletion marks and the taking of a result are Weir's own; only the files are lists of rows in memory instead of
 * Parquet, the worker is a loop that runs at a random moment between two changes, and a commit is a copy. So a million interleavings take minutes.
 * "files": everything is real (Parquet, catalog, threads, faults, opening anew), and one interleaving costs milliseconds; a fiftieth as many are run.
 * WEIR_MODEL_INTERLEAVINGS and WEIR_MODEL_SEED change how many and which. */
#include "compact.h"
#include "lab.h"
#include <pthread.h>

static uint64_t env_number(const char *name, uint64_t otherwise) {
    const char *s = getenv(name);
    return s && *s ? strtoull(s, NULL, 10) : otherwise;
}
static uint64_t interleavings(void) { return env_number("WEIR_MODEL_INTERLEAVINGS", 20000); }

#define IDS 96 /* keys of a table */

typedef struct model { int version[IDS]; /* 0 = not there */ int next; } model;
static int model_count(const model *m) {
    int n = 0;
    for (int i = 0; i < IDS; i++) n += m->version[i] > 0;
    return n;
}

/* ================================================================== memory */
typedef struct mem_row { int id, version; } mem_row;
typedef struct mem_file { char path[32]; int n; mem_row row[4 * IDS]; } mem_file;
typedef struct mem_kept { int file; roaring_bitmap_t *dead; } mem_kept;

typedef struct mem {
    world w; /* for its random numbers */
    wr_lake lake;
    wr_table *t;
    wr_schema *schema;
    model now, committed;
    mem_file *files; int nfiles, cap; /* every file that was ever made, until the table is opened anew */
    mem_kept kept[256]; int nkept;    /* as committed */
    wr_rewrite *job;
    wr_choice choice;
    bool ran;
    uint64_t takes, lost, reopened, splits, vanished, sorted;
} mem;

static mem_file *mem_find(mem *m, const char *path) { return &m->files[atoi(path + 1)]; }

static mem_file *mem_new_file(mem *m) {
    if (m->nfiles == m->cap) m->files = realloc(m->files, sizeof *m->files * (size_t)(m->cap = m->cap * 2 + 64));
    mem_file *f = &m->files[m->nfiles];
    snprintf(f->path, sizeof f->path, "f%d", m->nfiles++);
    f->n = 0;
    return f;
}

static wr_key mem_key(const mem *m, int id) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_key k;
    lab_row(m->schema, id, NULL, &b);
    assert_ok(wr_key_of(m->t->plan, wr_buf_view(&b), &k, err));
    return k;
}

static wr_sealed mem_seal(mem *m, const mem_file *f) {
    wr_run_entry e[4 * IDS];
    for (int i = 0; i < f->n; i++) e[i] = (wr_run_entry){mem_key(m, f->row[i].id), 0, (uint32_t)i};
    wr_sealed s = {.file = wr_ice_file_new(WR_ICE_DATA, f->path)};
    s.file->records = (uint64_t)f->n, s.file->bytes = (uint64_t)f->n * 100;
    const char *paths[1] = {f->path};
    assert_ok(wr_run_build(m->t->plan, e, (uint64_t)f->n, paths, 1, NULL, &s.run, err));
    return s;
}

static uint32_t mem_add(mem *m, const mem_file *f, bool committed) {
    wr_sealed s = mem_seal(m, f);
    uint32_t no;
    assert_ok(wr_index_reserve(m->t->index, err));
    assert_ok(wr_table_add_file(m->t, s.file, committed, &no, err));
    wr_run_bind(s.run, 0, no);
    wr_index_add(m->t->index, s.run);
    return no;
}

static void mem_open(mem *m) {
    wr_table *t = m->t = wr_calloc(1, sizeof *t);
    t->lake = &m->lake, t->id = 1, t->ns = wr_strdup("db"), t->name = wr_strdup("t");
    pthread_mutex_init(&t->load_lock, NULL);
    assert_ok(wr_table_set_schema(t, m->schema, WR_SPEC_ALTER, err));
    assert_ok(wr_ice_new(NULL, "db", "t", in_dir("t"), 2, m->schema, &t->ice, err));
    assert_ok(wr_table_settle_spec(t, m->schema, WR_SPEC_CREATE, err));
    t->pending = wr_pending_new(), t->by_path = wr_map_new(), t->opened = true;
    assert_ok(wr_index_new(t->plan, in_dir("index"), &t->index, err));
}

static void mem_drop_job(mem *m) {
    if (!m->job) return;
    for (int i = 0; i < m->job->nout; i++)
        if (m->job->out[i].file) wr_ice_file_free(m->job->out[i].file), wr_run_free(m->job->out[i].run, true), m->job->out[i].file = NULL;
    wr_rewrite_free(m->job);
    m->job = NULL, m->ran = false;
}

/* What a commit does to a table: files without live rows leave, the rest is committed. */
static void mem_commit(mem *m) {
    wr_table *t = m->t;
    for (uint32_t i = 0; i < t->nfiles; i++)
        if (t->files[i].ice && t->files[i].ndead && t->files[i].ndead >= t->files[i].ice->records) assert_ok(wr_table_remove_file(t, i, err));
    for (uint32_t i = 0; i < t->ngone; i++) wr_ice_file_free(t->gone[i]);
    t->ngone = 0;
    for (int i = 0; i < m->nkept; i++)
        if (m->kept[i].dead) roaring_bitmap_free(m->kept[i].dead);
    m->nkept = 0;
    for (uint32_t i = 0; i < t->nfiles; i++) {
        wr_data_file *f = &t->files[i];
        if (!f->ice) continue;
        f->committed = true, f->dirty = false;
        m->kept[m->nkept++] = (mem_kept){(int)(mem_find(m, f->ice->path) - m->files), f->dead ? roaring_bitmap_copy(f->dead) : NULL};
    }
    t->touched = t->replace = t->has_action = false;
    m->committed = m->now;
}

/* The table as the last commit left it. */
static void mem_reopen(mem *m) {
    mem_drop_job(m);
    wr_table_free(m->t);
    mem_file *old = m->files;
    m->files = NULL, m->nfiles = m->cap = 0;
    mem_open(m);
    for (int i = 0; i < m->nkept; i++) {
        mem_file *f = mem_new_file(m);
        f->n = old[m->kept[i].file].n;
        memcpy(f->row, old[m->kept[i].file].row, sizeof f->row[0] * (size_t)f->n);
        m->kept[i].file = m->nfiles - 1;
        uint32_t no = mem_add(m, f, true);
        if (m->kept[i].dead) assert_ok(wr_table_kill_all(m->t, no, m->kept[i].dead, err));
    }
    free(old);
    m->now = m->committed;
    m->reopened++;
}

static void mem_delete(mem *m, int id) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    uint64_t odd = m->t->anomalies;
    lab_row(m->schema, id, NULL, &b);
    assert_ok(wr_table_apply(m->t, 0, WR_APPLY_STRICT, WR_OP_DELETE, wr_buf_view(&b), (wr_slice){0}, err));
    if (m->t->anomalies - odd != (m->now.version[id] == 0)) fail_msg("seed %llu: key %d is %sin the index", (unsigned long long)m->w.seed, id, m->now.version[id] ? "not " : "still ");
    m->now.version[id] = 0;
}

/* A file of new rows and of new versions of old ones. */
static void mem_insert(mem *m, int n) {
    mem_file *f = mem_new_file(m);
    for (int i = 0; i < n; i++) {
        int id = w_below(&m->w, IDS);
        bool again = false;
        for (int k = 0; k < f->n; k++) again |= f->row[k].id == id;
        if (again) continue;
        if (m->now.version[id]) mem_delete(m, id);
        m->now.version[id] = ++m->now.next;
        f->row[f->n++] = (mem_row){id, m->now.version[id]};
    }
    mem_add(m, f, false);
}

static void mem_change(mem *m, int most) {
    for (int n = w_below(&m->w, most + 1); n > 0; n--) {
        int what = w_below(&m->w, 16);
        if (what == 0) mem_insert(m, 1 + w_below(&m->w, 10));
        else if (what == 1) mem_commit(m);
        else mem_delete(m, w_below(&m->w, IDS));
    }
}

static void mem_check(mem *m) {
    int live = 0;
    for (uint32_t i = 0; i < m->t->nfiles; i++) {
        const wr_data_file *f = &m->t->files[i];
        if (!f->ice) continue;
        const mem_file *mf = mem_find(m, f->ice->path);
        uint64_t dead = 0;
        for (int r = 0; r < mf->n; r++) {
            bool in_bitmap = f->dead && roaring_bitmap_contains(f->dead, (uint32_t)r);
            dead += in_bitmap;
            if (wr_file_dead(f, (uint32_t)r) != in_bitmap) fail_msg("seed %llu: the two marks of a row disagree", (unsigned long long)m->w.seed);
            if (in_bitmap) continue;
            live++;
            if (m->now.version[mf->row[r].id] != mf->row[r].version)
                fail_msg("seed %llu: row %d version %d is alive, the model has version %d", (unsigned long long)m->w.seed, mf->row[r].id, mf->row[r].version, m->now.version[mf->row[r].id]);
        }
        assert_int_equal(dead, f->ndead);
    }
    if (live != model_count(&m->now)) fail_msg("seed %llu: %d rows are alive, not %d", (unsigned long long)m->w.seed, live, model_count(&m->now));
}

static bool mem_begin(mem *m) {
    wr_table *t = m->t;
    wr_choice *c = &m->choice;
    *c = (wr_choice){.work = WR_WORK_MERGE};
    if (w_below(&m->w, 3) == 0) assert_ok(wr_compact_choose(t, w_below(&m->w, 2), c, err));
    else
        for (uint32_t i = 0; i < t->nfiles; i++)
            if (t->files[i].ice && t->files[i].committed && w_below(&m->w, 3)) c->no[c->n++] = i;
    if (!c->n) return false;
    assert_ok(wr_compact_begin(t, c, &m->job, err));
    m->ran = false;
    return true;
}

/* In the worker's place: live rows as they were pinned, or in any other order, to files that end anywhere. */
static void mem_run(mem *m) {
    wr_rewrite *j = m->job;
    uint64_t live = j->map.live, rank = 0;
    mem_row *rows = calloc(live + 1, sizeof *rows);
    if (w_below(&m->w, 3) && live) {
        uint32_t *place = j->map.place = wr_malloc(live * sizeof *place);
        for (uint32_t i = 0; i < live; i++) {
            uint32_t k = (uint32_t)w_below(&m->w, (int)i + 1);
            place[i] = place[k], place[k] = i;
        }
        m->sorted++;
    }
    for (int i = 0; i < j->nin; i++) {
        const mem_file *from = mem_find(m, j->in[i].uri);
        for (int r = 0; r < from->n; r++) {
            if (j->map.in[i].dead && roaring_bitmap_contains(j->map.in[i].dead, (uint32_t)r)) continue;
            assert_true(rank < live);
            rows[j->map.place ? j->map.place[rank] : rank] = from->row[r];
            rank++;
        }
    }
    assert_int_equal(rank, live);
    int out = -1, limit = 1 + w_below(&m->w, IDS);
    for (uint64_t i = 0; i < live; i++) {
        if (out < 0 || m->files[out].n == limit) {
            out = (int)(mem_new_file(m) - m->files);
            assert_ok(wr_remap_add_output(&j->map, i, err));
            limit = 1 + w_below(&m->w, IDS);
        }
        m->files[out].row[m->files[out].n++] = rows[i];
    }
    free(rows);
    j->out = wr_calloc((size_t)j->map.nout + 1, sizeof *j->out);
    for (; j->nout < j->map.nout; j->nout++) j->out[j->nout] = mem_seal(m, &m->files[m->nfiles - j->map.nout + j->nout]);
    m->splits += j->nout > 1;
    m->ran = true;
}

static void mem_overtake(mem *m) {
    wr_table *t = m->t;
    if (w_below(&m->w, 2)) { /* TRUNCATE */
        for (uint32_t i = 0; i < t->nfiles; i++) assert_ok(wr_table_remove_file(t, i, err));
        memset(m->now.version, 0, sizeof m->now.version);
        mem_commit(m);
    } else { /* ALTER: the same columns, another schema */
        wr_schema_unref(m->schema);
        m->schema = lab_schema(2, 1, t->schema->version + 1);
        assert_ok(wr_table_set_schema(t, m->schema, WR_SPEC_ALTER, err));
        assert_false(wr_compact_fits(t, m->job));
    }
}

static void mem_finish(mem *m) {
    wr_rewrite *j = m->job;
    if (!m->ran) mem_run(m);
    if (w_below(&m->w, 20) == 0) mem_overtake(m);
    if (w_below(&m->w, 4)) mem_commit(m);
    bool fits = wr_compact_fits(m->t, j) && w_below(&m->w, 20); /* or the job has failed */
    for (int i = 0; fits && i < j->nin; i++) m->vanished += !wr_map_get(m->t->by_path, wr_slice_str(j->in[i].uri));
    if (fits) assert_ok(wr_compact_take(m->t, j, &m->choice, 1, err));
    m->takes += fits, m->lost += !fits;
    mem_drop_job(m);
    mem_check(m);
}

static void mem_interleaving(mem *m) {
    if (m->t->nfiles - m->t->nfree < 2 || w_below(&m->w, 2)) mem_insert(m, 1 + w_below(&m->w, 24));
    mem_change(m, 6);
    if (w_below(&m->w, 4)) mem_commit(m);
    if (!mem_begin(m)) return;
    mem_change(m, 8);
    if (w_below(&m->w, 2)) mem_run(m);
    mem_change(m, 30);
    mem_finish(m);
    mem_change(m, 4);
    if (w_below(&m->w, 8)) mem_commit(m);
    else mem_reopen(m);
    if (m->nfiles > 400 || m->nkept > 60) mem_reopen(m);
    mem_check(m);
}

static void deletes_survive_any_interleaving_with_a_rewrite_in_memory(void **st) {
    uint64_t n = interleavings(), seed = env_number("WEIR_MODEL_SEED", 20261129);
    mem *m = calloc(1, sizeof *m);
    m->w = (world){.rng = seed, .seed = seed};
    m->lake = (wr_lake){.target_file_bytes = 4000, .compact_files = 3, .compact_bytes = 1 << 20, .file_bytes = 1 << 30, .pending_bytes = 1 << 30};
    m->schema = lab_schema(2, 1, 1);
    mem_open(m);
    mem_commit(m);
    for (uint64_t i = 0; i < n; i++) mem_interleaving(m);
    print_message("%llu interleavings in memory, seed %llu: %llu results taken (%llu of several files, %llu inputs had left), %llu thrown away, %llu times opened anew\n", (unsigned long long)n,
                  (unsigned long long)seed, (unsigned long long)m->takes, (unsigned long long)m->splits, (unsigned long long)m->vanished, (unsigned long long)m->lost, (unsigned long long)m->reopened);
    assert_true(n < 1000 || (m->takes > n / 2 && m->lost && m->reopened && m->splits && m->vanished && m->sorted));
    mem_reopen(m);
    wr_table_free(m->t);
    for (int i = 0; i < m->nkept; i++)
        if (m->kept[i].dead) roaring_bitmap_free(m->kept[i].dead);
    wr_schema_unref(m->schema);
    free(m->files), free(m);
}

/* ================================================================== files */
typedef struct real {
    world w;
    lab l;
    wr_table *t;
    model now, committed;
    bool failed;
    uint64_t takes, lost, reopened, splits, scattered, sorted;
} real;

#define REAL(r, expr)                                                                                                                                          \
    do {                                                                                                                                                       \
        wr_err e_ = WR_ERR_INIT, *err = &e_;                                                                                                                   \
        if (!(r)->failed && (expr) != WR_OK) (r)->failed = true;                                                                                               \
    } while (0)

/* What the table's layout may be; it changes when the lake is opened anew. */
static wr_term terms[][2] = {{{WR_TERM_BUCKET, 3, (char *)"id"}}, {{WR_TERM_TRUNCATE, 2, (char *)"name"}}, {{WR_TERM_BUCKET, 2, (char *)"id"}, {WR_TERM_TRUNCATE, 2, (char *)"name"}}, {{WR_TERM_BUCKET, 3, (char *)"name"}}};
static wr_sort_term by_name[] = {{(char *)"name", true, true}, {(char *)"id", false, false}};
static char *filters[] = {(char *)"name"};
static wr_layout_rule layouts[] = {{.match = (char *)".*", .partition = terms[0], .npartition = 1},
                                   {.match = (char *)".*", .partition = terms[1], .npartition = 1, .sort = by_name, .nsort = 2},
                                   {.match = (char *)".*", .partition = terms[2], .npartition = 2, .sort = by_name, .nsort = 1, .bloom = filters, .nbloom = 1},
                                   {.match = (char *)".*", .partition = terms[3], .npartition = 1, .sort = by_name},
                                   {.match = (char *)".*", .partition = terms[0]},
                                   {.match = (char *)".*", .sort = by_name, .nsort = 2}};
#define LAYOUTS ((int)(sizeof layouts / sizeof *layouts))

static void real_open(real *r) {
    if (w_below(&r->w, 2)) r->l.layout = w_below(&r->w, 4) ? &layouts[w_below(&r->w, LAYOUTS)] : NULL;
    lab_open(&r->l);
    r->l.lake->target_file_bytes = 6000, r->l.lake->compact_bytes = 6000;
    r->l.lake->snapshots_min = 20, r->l.lake->snapshots_max = 40;
    uint64_t offset;
    wr_pos pos = {0};
    int64_t us;
    assert_ok(wr_lake_progress(r->l.lake, &offset, &pos, &us, err));
    wr_pos_clear(&pos);
    if (offset == r->l.offset + 1) r->committed = r->now; /* it had happened, whatever was said */
    r->l.offset = offset;
    r->t = wr_lake_table(r->l.lake, 1);
    r->t->upkeep_after_us = INT64_MAX; /* what is rewritten, and when, is decided here */
    r->now = r->committed;
    r->failed = false;
}

static void real_row(const real *r, int id, int version, wr_buf *b) {
    char text[24];
    snprintf(text, sizeof text, "v%d", version);
    lab_row(wr_table_schema(r->t), id, text, b);
}

static void real_put(real *r, int id) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    bool there = r->now.version[id] > 0;
    real_row(r, id, ++r->now.next, &b);
    REAL(r, wr_table_apply(r->t, 0, WR_APPLY_STRICT, there ? WR_OP_UPDATE : WR_OP_INSERT, there ? wr_buf_view(&b) : (wr_slice){0}, wr_buf_view(&b), err));
    r->now.version[id] = r->now.next;
}

static void real_delete(real *r, int id) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    if (!r->now.version[id]) return;
    real_row(r, id, 0, &b);
    REAL(r, wr_table_apply(r->t, 0, WR_APPLY_STRICT, WR_OP_DELETE, wr_buf_view(&b), (wr_slice){0}, err));
    r->now.version[id] = 0;
}

static void real_commit(real *r) {
    wr_pos pos = {.file = "binlog.000001", .offset = r->l.offset + 1};
    REAL(r, wr_lake_commit(r->l.lake, r->l.offset + 1, &pos, 0, err));
    if (r->failed) return;
    r->l.offset++;
    r->committed = r->now;
}

static void real_change(real *r, int most) {
    for (int n = w_below(&r->w, most + 1); n > 0 && !r->failed; n--) {
        int what = w_below(&r->w, 12);
        if (what == 0) real_commit(r);
        else if (what < 5) real_put(r, w_below(&r->w, IDS));
        else real_delete(r, w_below(&r->w, IDS));
    }
}

typedef struct real_seen { real *r; const wr_data_file *f; const wr_spec *spec; int rows; wr_sorter *order; } real_seen;

/* A file's partition is that of all its rows, the deleted ones too. */
static wr_code real_check_partition(const real_seen *s, const wr_value *v, wr_err *err) {
    WR_AUTO_BUF wr_buf tuple = WR_BUF_INIT;
    int cols[4];
    for (int i = 0; i < s->spec->n; i++) cols[i] = wr_schema_find_id(wr_table_schema(s->r->t), s->spec->fields[i].source_id);
    WR_TRY(wr_spec_tuple(s->spec, cols, v, &tuple, err));
    if (!wr_slice_eq(wr_buf_view(&tuple), wr_ice_file_tuple(s->f->ice))) fail_msg("seed %llu: %s has row %lld of another partition", (unsigned long long)s->r->w.seed, s->f->ice->path, (long long)v[0].i64);
    return WR_OK;
}

static wr_code real_see(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    real_seen *s = ctx;
    wr_value v[4];
    char want[24];
    WR_TRY(wr_row_read(wr_table_schema(s->r->t), row, v, err));
    WR_TRY(real_check_partition(s, v, err));
    if (s->order) WR_TRY(wr_sorter_add(s->order, row, err));
    if (wr_file_dead(s->f, (uint32_t)pos)) return WR_OK;
    snprintf(want, sizeof want, "v%d", s->r->now.version[v[0].i64]);
    if (v[1].s.n != strlen(want) || memcmp(v[1].s.p, want, v[1].s.n)) fail_msg("seed %llu: row %lld is %.*s, the model has %s", (unsigned long long)s->r->w.seed, (long long)v[0].i64, (int)v[1].s.n, (const char *)v[1].s.p, want);
    s->rows++;
    return WR_OK;
}

/* Just after a commit: files and marks are all there is. */
static void real_check(real *r) {
    real_seen s = {.r = r};
    WR_CLEANUP(wr_specs_clear) wr_specs specs = {0};
    assert_ok(wr_table_open_files(r->t, err));
    assert_ok(wr_ice_specs(r->t->ice, &specs, err));
    for (uint32_t i = 0; i < r->t->nfiles; i++) {
        s.f = &r->t->files[i];
        WR_AUTO char *local = NULL;
        wr_parquet_read_options o = {.fill_initial = true};
        if (!s.f->ice) continue;
        assert_non_null(s.spec = wr_specs_find(&specs, s.f->ice->spec_id));
        assert_ok(wr_uri_canonical(s.f->ice->path, &local, err));
        const wr_order *by = r->t->order;
        uint64_t mark = wr_ice_sorted_by(&by->sort), n;
        uint32_t *moved = NULL;
        if (mark && s.f->ice->sorted_by == mark) assert_ok(wr_sorter_new(wr_table_schema(r->t), by->keys, by->nkeys, 1 << 20, &s.order, err));
        assert_ok(wr_parquet_read(r->l.engine, local, wr_table_schema(r->t), &o, real_see, &s, err));
        if (!s.order) continue;
        assert_ok(wr_sorter_finish(s.order, &moved, &n, err));
        if (moved) fail_msg("seed %llu: %s is not sorted", (unsigned long long)r->w.seed, s.f->ice->path);
        wr_sorter_free(s.order);
        s.order = NULL, r->sorted++;
    }
    if (s.rows != model_count(&r->now)) fail_msg("seed %llu: %d rows are alive, not %d", (unsigned long long)r->w.seed, s.rows, model_count(&r->now));
}

typedef struct real_job { wr_rewrite *rw; wr_code rc; wr_err err; } real_job;
static void *real_work(void *arg) {
    real_job *j = arg;
    j->rc = wr_rewrite_run(j->rw, &j->err);
    return NULL;
}

static void real_overtake(real *r) {
    if (w_below(&r->w, 2)) {
        REAL(r, wr_table_truncate(r->t, err));
        memset(r->now.version, 0, sizeof r->now.version);
        return;
    }
    wr_schema *s = lab_schema(2, 1, wr_table_schema(r->t)->version + 1);
    REAL(r, wr_table_alter(r->t, s, false, err));
    wr_schema_unref(s);
}

static void real_compaction(real *r) {
    wr_choice c = {0};
    real_job j = {.err = WR_ERR_INIT};
    pthread_t th;
    if (r->t->nfiles - r->t->nfree == 0) return;
    if (w_below(&r->w, 2)) assert_ok(wr_compact_choose(r->t, false, &c, err));
    if (c.work == WR_WORK_NONE) assert_ok(wr_compact_choose(r->t, true, &c, err));
    if (c.work == WR_WORK_NONE || wr_compact_begin(r->t, &c, &j.rw, &j.err) != WR_OK) return;
    if (w_below(&r->w, 3) == 0) j.rw->group_bytes = 1 + (uint64_t)w_below(&r->w, 2500), j.rw->output_bytes = 500; /* several files */
    bool beside = w_below(&r->w, 2);
    if (beside) assert_int_equal(pthread_create(&th, NULL, real_work, &j), 0);
    real_change(r, 20);
    if (w_below(&r->w, 25) == 0) real_overtake(r);
    if (beside) pthread_join(th, NULL);
    else real_work(&j);
    if (!r->failed) real_change(r, 6);
    if (!r->failed && w_below(&r->w, 3)) real_commit(r); /* taken with other changes, or right after a commit */
    bool fits = !r->failed && j.rc == WR_OK && wr_compact_fits(r->t, j.rw);
    r->splits += fits && j.rw->nout > 1, r->scattered += fits && j.rw->scattered;
    if (fits) REAL(r, wr_compact_take(r->t, j.rw, &c, 1, err));
    wr_rewrite_free(j.rw);
    r->takes += fits, r->lost += !fits;
}

static void real_interleaving(real *r) {
    static const char *const points[] = {"lake.before_data_file", "lake.before_commit", "ice.announced", "ice.write", "ice.synced", "ice.sql", "ice.commit", "ice.puffin", "lake.compact", "lake.sort", "parquet_write", "state.commit", "lake.run", "ice.expire"};
    real_change(r, 12);
    real_put(r, w_below(&r->w, IDS));
    real_commit(r);
    if (w_below(&r->w, 12) == 0) {
        char spec[64];
        snprintf(spec, sizeof spec, "%s:%d:fail", points[w_below(&r->w, (int)(sizeof points / sizeof *points))], 1 + w_below(&r->w, 4));
        wr_fault_set(spec);
    }
    if (!r->failed) real_compaction(r);
    if (!r->failed && w_below(&r->w, 2)) real_change(r, 3);
    if (!r->failed && w_below(&r->w, 6)) real_commit(r);
    bool changed = false; /* old snapshots leave, and their files, at any moment */
    r->l.lake->next_job_us = 0;
    if (!r->failed) REAL(r, wr_lake_govern(r->l.lake, w_below(&r->w, 2), &changed, err));
    assert_false(changed);
    wr_fault_set(NULL);
    if (r->failed || w_below(&r->w, 8) == 0) {
        lab_close(&r->l), real_open(r);
        r->reopened++;
    } else
        real_commit(r);
    assert_false(r->failed);
    if (wr_ice_snapshot_count(r->t->ice) > 150) fail_msg("seed %llu: old snapshots do not leave", (unsigned long long)r->w.seed);
    real_check(r);
}

static void deletes_survive_any_interleaving_with_a_rewrite_of_files(void **st) {
    uint64_t n = interleavings() / 50, seed = env_number("WEIR_MODEL_SEED", 20261129);
    for (int version = 3; version >= 2; version--) {
        real *r = calloc(1, sizeof *r);
        r->w = (world){.rng = seed + (uint64_t)version, .seed = seed};
        r->l = (lab){.version = version};
        size_t home = strlen(dir);
        snprintf(dir + home, sizeof dir - home, "/v%d", version);
        assert_int_equal(mkdir(dir, 0700), 0);
        lab_open(&r->l);
        lab_create(&r->l, 1, "t", 1);
        lab_commit(&r->l);
        lab_close(&r->l), real_open(r);
        for (uint64_t i = 0; i < n / 2 + 1; i++) real_interleaving(r);
        print_message("%llu interleavings of files, format %d, seed %llu: %llu results taken (%llu of several files, %llu scattered), %llu thrown away, %llu times opened anew\n", (unsigned long long)n / 2 + 1, version,
                      (unsigned long long)seed, (unsigned long long)r->takes, (unsigned long long)r->splits, (unsigned long long)r->scattered, (unsigned long long)r->lost, (unsigned long long)r->reopened);
        assert_true(n < 100 || (r->takes > n / 4 && r->reopened && r->lost && r->scattered && r->sorted));
        lab_close(&r->l);
        dir[home] = 0;
        free(r);
    }
}

int main(void) {
    w_fast_folder();
    const struct CMUnitTest tests[] = {
        IN_DIR(deletes_survive_any_interleaving_with_a_rewrite_in_memory),
        IN_DIR(deletes_survive_any_interleaving_with_a_rewrite_of_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
