/* One table: rows in, files and deletion marks out. */
#include "table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/io.h"

uint32_t wr_table_id(const wr_table *t) { return t->id; }
const char *wr_table_ns(const wr_table *t) { return t->ns; }
const char *wr_table_name(const wr_table *t) { return t->name; }
const wr_schema *wr_table_schema(const wr_table *t) { return t->schema; }

size_t wr_table_pending_bytes(const wr_table *t) {
    return (t->batch ? wr_batch_bytes(t->batch) : 0) + (t->pending ? wr_pending_bytes(t->pending) : 0);
}

char *wr_table_new_path(wr_table *t, const char *suffix) {
    uint64_t r = 0;
    WR_AUTO char *loc = NULL;
    wr_err e = WR_ERR_INIT;
    if (wr_ice_local_path(wr_ice_location(t->ice), &loc, &e) != WR_OK) return NULL;
    if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r) r = (uint64_t)wr_mono_us() * 0x9E3779B97F4A7C15ull;
    return wr_asprintf("%s/data/%013" PRIx64 "-%016" PRIx64 "%s", loc, (uint64_t)wr_now_us(), r, suffix);
}

/* ------------------------------------------------------------------ memory */
static void free_file(wr_data_file *f) {
    wr_ice_file_free(f->ice);
    wr_ice_file_free(f->deletes);
    if (f->dead) roaring_bitmap_free(f->dead);
    memset(f, 0, sizeof *f);
}

static void drop_batch(wr_table *t) {
    size_t was = wr_table_pending_bytes(t);
    wr_batch_free(t->batch);
    t->batch = NULL;
    if (t->pending) wr_pending_clear(t->pending);
    t->lake->pending_total -= was;
    t->lake->pending_total += wr_table_pending_bytes(t);
}

void wr_table_forget_content(wr_table *t) {
    drop_batch(t);
    for (uint32_t i = 0; i < t->nfiles; i++) free_file(&t->files[i]);
    wr_free(t->files);
    t->files = NULL, t->nfiles = t->files_cap = 0;
    wr_map_free(t->by_path, NULL);
    t->by_path = NULL;
    wr_index_free(t->index);
    t->index = NULL;
    t->opened = false;
}

void wr_table_free(wr_table *t) {
    if (!t) return;
    wr_table_forget_content(t);
    for (uint32_t i = 0; i < t->ngone; i++) wr_ice_file_free(t->gone[i]);
    wr_free(t->gone);
    for (uint32_t i = 0; i < t->nsealed; i++) wr_ice_file_free(t->sealed[i].file), wr_run_free(t->sealed[i].run, true);
    wr_free(t->sealed);
    wr_pending_free(t->pending);
    wr_key_plan_free(t->plan);
    wr_schema_unref(t->schema);
    wr_ice_table_free(t->ice);
    wr_free(t->load_info);
    wr_free(t->ns);
    wr_free(t->name);
    pthread_mutex_destroy(&t->load_lock);
    wr_free(t);
}

wr_code wr_table_set_schema(wr_table *t, const wr_schema *s, wr_err *err) {
    wr_key_plan *plan;
    WR_TRY(wr_key_plan_new(s, &plan, err));
    wr_key_plan_free(t->plan);
    t->plan = plan;
    wr_schema *ref = wr_schema_ref(s);
    wr_schema_unref(t->schema);
    t->schema = ref;
    return WR_OK;
}

/* ------------------------------------------------------------------ files */
wr_code wr_table_add_file(wr_table *t, wr_ice_file *file, bool committed, uint32_t *ret_no, wr_err *err) {
    if (t->nfiles == t->files_cap) {
        uint32_t cap = t->files_cap ? t->files_cap * 2 : 16;
        wr_data_file *f = wr_realloc(t->files, (size_t)cap * sizeof *f);
        if (!f) return wr_ice_file_free(file), wr_nomem(err, "file list", (size_t)cap * sizeof *f);
        t->files = f, t->files_cap = cap;
    }
    uint32_t no = t->nfiles;
    if (!wr_map_put(t->by_path, wr_slice_str(file->path), (void *)((uintptr_t)no + 1)))
        return wr_ice_file_free(file), wr_nomem(err, "file list", 64);
    t->files[t->nfiles++] = (wr_data_file){.ice = file, .committed = committed};
    *ret_no = no;
    return WR_OK;
}

static wr_code push_gone(wr_table *t, wr_ice_file *f, wr_err *err) {
    if (!f) return WR_OK;
    if (t->ngone == t->gone_cap) {
        uint32_t cap = t->gone_cap ? t->gone_cap * 2 : 16;
        wr_ice_file **g = wr_realloc(t->gone, (size_t)cap * sizeof *g);
        if (!g) return wr_nomem(err, "list of removed files", (size_t)cap * sizeof *g);
        t->gone = g, t->gone_cap = cap;
    }
    t->gone[t->ngone++] = f;
    return WR_OK;
}

wr_code wr_table_remove_file(wr_table *t, uint32_t no, wr_err *err) {
    wr_data_file *f = &t->files[no];
    if (!f->ice) return WR_OK;
    wr_map_del(t->by_path, wr_slice_str(f->ice->path));
    wr_index_drop_file(t->index, no);
    if (f->committed) { /* a file that no commit has seen simply stays in the journal and is cleaned from there */
        WR_TRY(push_gone(t, f->ice, err));
        f->ice = NULL;
        WR_TRY(push_gone(t, f->deletes, err));
        f->deletes = NULL;
    }
    free_file(f);
    t->touched = true;
    return WR_OK;
}

wr_code wr_table_kill(wr_table *t, uint32_t no, uint32_t row, wr_err *err) {
    wr_data_file *f = &t->files[no];
    if (!f->dead && !(f->dead = roaring_bitmap_create())) return wr_nomem(err, "deletion vector", 64);
    if (!roaring_bitmap_add_checked(f->dead, row)) return WR_OK;
    f->ndead++;
    f->dirty = true;
    t->touched = true;
    return WR_OK;
}

static wr_code ice_file_of(const char *path, wr_parquet_file *pf, wr_ice_file **ret, wr_err *err) {
    wr_ice_file *f = wr_calloc(1, sizeof *f);
    if (f) f->path = wr_strdup(path), f->format = wr_strdup("PARQUET");
    if (!f || !f->path || !f->format) return wr_ice_file_free(f), wr_nomem(err, "file entry", 256);
    f->content = WR_ICE_DATA;
    f->records = pf->rows, f->bytes = pf->bytes;
    f->stats = WR_STEAL(pf->cols), f->nstats = pf->ncols;
    f->sequence = f->file_sequence = f->first_row_id = -1;
    f->content_offset = f->content_size = -1;
    *ret = f;
    return WR_OK;
}

/* @thread any */
wr_code wr_table_write_batch(wr_table *t, wr_batch *batch, wr_ice_file **ret_file, wr_err *err) {
    WR_AUTO char *path = wr_table_new_path(t, ".parquet");
    if (!path) return wr_nomem(err, "file name", 256);
    WR_TRY(wr_state_file_add(t->lake->state, path, err));
    if (WR_FAULT("lake.before_data_file")) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "injected: writing %s", path);
    wr_parquet_file pf = {0};
    wr_code rc = wr_parquet_write(t->lake->engine, batch, path, NULL, &pf, err);
    if (rc == WR_OK) rc = wr_fsync_parent(path, err);
    if (rc == WR_OK) rc = ice_file_of(path, &pf, ret_file, err);
    wr_parquet_file_clear(&pf);
    if (rc != WR_OK) return wr_err_in(err, "writing a data file of %s.%s", t->ns, t->name);
    return WR_OK;
}

wr_code wr_table_flush(wr_table *t, wr_err *err) {
    if (!t->batch) return WR_OK;
    uint32_t rows = wr_batch_rows(t->batch), live = wr_batch_live_rows(t->batch);
    if (!live) return drop_batch(t), WR_OK;
    wr_ice_file *file;
    WR_TRY(wr_table_write_batch(t, t->batch, &file, err));
    WR_AUTO wr_run_entry *entries = wr_malloc(live * sizeof *entries);
    WR_AUTO char *run_path = wr_index_run_path(t->index);
    if (!entries || !run_path) return wr_ice_file_free(file), wr_nomem(err, "index run", live * sizeof *entries);
    uint32_t n = 0;
    for (uint32_t i = 0; i < rows; i++)
        if (!wr_batch_dead(t->batch, i)) entries[n] = (wr_run_entry){wr_pending_key(t->pending, i), 0, n}, n++;
    wr_run *run;
    const char *paths[1] = {file->path};
    wr_code rc = wr_run_build(t->plan, entries, n, paths, 1, run_path, &run, err);
    if (rc != WR_OK) return wr_ice_file_free(file), rc;
    uint32_t no;
    rc = wr_table_add_file(t, file, false, &no, err);
    if (rc != WR_OK) return wr_run_free(run, true), rc;
    wr_run_bind(run, 0, no);
    drop_batch(t);
    t->touched = true;
    return wr_index_add(t->index, run, err);
}

/* ------------------------------------------------------------------ opening */
typedef struct rebuild { wr_table *t; wr_run_entry *e; uint64_t n, cap; const wr_key_plan *plan; } rebuild;

static wr_code rebuild_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    rebuild *b = ctx;
    if (b->n == b->cap) {
        uint64_t cap = b->cap ? b->cap * 2 : 1024;
        wr_run_entry *e = wr_realloc(b->e, cap * sizeof *e);
        if (!e) return wr_nomem(err, "index rebuild", cap * sizeof *e);
        b->e = e, b->cap = cap;
    }
    if (pos > UINT32_MAX) return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a data file of more than 2^32 rows");
    b->e[b->n].file = 0, b->e[b->n].row = (uint32_t)pos;
    return wr_key_of(b->plan, row, &b->e[b->n++].key, err);
}

/* Reads a file's key columns (all columns when there is no key) and makes its run. */
static wr_code rebuild_file(wr_table *t, uint32_t no, wr_err *err) {
    const wr_schema *s = t->schema;
    WR_AUTO char *local = NULL;
    WR_AUTO char *run_path = wr_index_run_path(t->index);
    if (!run_path) return wr_nomem(err, "index run path", 64);
    WR_TRY(wr_ice_local_path(t->files[no].ice->path, &local, err));
    rebuild b = {.t = t};
    wr_schema *ks = NULL;
    wr_key_plan *kp = NULL;
    wr_code rc = WR_OK;
    wr_parquet_read_options o = {.fill_initial = true};
    if (s->nkey) { /* rows of the key columns alone, in key order, keyed the same way */
        wr_column *cols = wr_calloc((size_t)s->nkey, sizeof *cols);
        if (!cols) return wr_nomem(err, "key columns", (size_t)s->nkey * sizeof *cols);
        for (int k = 0; k < s->nkey; k++) cols[k] = s->cols[s->key[k]], cols[k].key_ord = k + 1;
        rc = wr_schema_new(cols, s->nkey, s->version, &ks, err);
        wr_free(cols);
        if (rc == WR_OK) rc = wr_key_plan_new(ks, &kp, err);
        o.columns = s->key, o.ncolumns = s->nkey;
    }
    b.plan = kp ? kp : t->plan;
    if (rc == WR_OK) rc = wr_parquet_read(t->lake->engine, local, s, &o, rebuild_row, &b, err);
    wr_run *run = NULL;
    if (rc == WR_OK) {
        const char *paths[1] = {t->files[no].ice->path};
        rc = wr_run_build(t->plan, b.e, b.n, paths, 1, run_path, &run, err);
    }
    wr_free(b.e);
    wr_key_plan_free(kp);
    wr_schema_unref(ks);
    if (rc != WR_OK) return wr_err_in(err, "indexing %s of %s.%s", local, t->ns, t->name);
    wr_run_bind(run, 0, no);
    return wr_index_add(t->index, run, err);
}

typedef struct run_scan { wr_table *t; bool *covered; } run_scan;

static wr_code adopt_run(void *ctx, const char *name, wr_err *err) {
    run_scan *s = ctx;
    wr_table *t = s->t;
    WR_AUTO char *dir = wr_asprintf("%s/%s", t->lake->index_dir, wr_ice_uuid(t->ice));
    WR_AUTO char *path = dir ? wr_path_join(dir, name) : NULL;
    if (!path) return wr_nomem(err, "index run path", 64);
    wr_err e = WR_ERR_INIT;
    wr_run *run = NULL;
    wr_code rc = wr_run_load(t->plan, path, &run, &e);
    bool useful = false;
    for (uint32_t i = 0; rc == WR_OK && i < wr_run_npaths(run); i++) {
        uintptr_t no = (uintptr_t)wr_map_get(t->by_path, wr_slice_str(wr_run_path(run, i)));
        if (!no || s->covered[no - 1]) continue;
        wr_run_bind(run, i, (uint32_t)no - 1);
        s->covered[no - 1] = useful = true;
    }
    if (rc != WR_OK || !useful) { /* a cache: anything that does not fit is made anew */
        if (run) wr_run_free(run, true);
        else wr_file_remove(path, &e);
        return WR_OK;
    }
    return wr_index_add(t->index, run, err);
}

static wr_code open_index(wr_table *t, wr_err *err) {
    WR_AUTO char *dir = wr_asprintf("%s/%s", t->lake->index_dir, wr_ice_uuid(t->ice));
    if (!dir) return wr_nomem(err, "index folder", 64);
    WR_TRY(wr_index_new(t->plan, dir, &t->index, err));
    WR_AUTO bool *covered = wr_calloc((size_t)t->nfiles + 1, sizeof *covered);
    if (!covered) return wr_nomem(err, "index", t->nfiles);
    run_scan s = {t, covered};
    WR_TRY(wr_dir_list(dir, adopt_run, &s, err));
    for (uint32_t i = 0; i < t->nfiles; i++)
        if (t->files[i].ice && !covered[i]) WR_TRY(rebuild_file(t, i, err));
    return WR_OK;
}

static wr_code load_deletes(wr_table *t, wr_ice_file *del, wr_err *err) {
    if (del->content == WR_ICE_EQ_DELETES)
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "another writer left equality deletes (%s); rewrite the table's files with that writer first", del->path);
    for (uint32_t i = 0; i < t->nfiles; i++) {
        wr_data_file *f = &t->files[i];
        if (del->referenced && strcmp(del->referenced, f->ice->path)) continue;
        void *bm = NULL;
        WR_TRY(wr_ice_read_deletes(t->lake->engine, del, f->ice->path, &bm, err));
        if (f->dead) roaring_bitmap_or_inplace(f->dead, bm), roaring_bitmap_free(bm);
        else f->dead = bm;
        f->ndead = roaring_bitmap_get_cardinality(f->dead);
        if (del->referenced) {
            wr_ice_file_free(f->deletes);
            f->deletes = del;
            return WR_OK;
        }
    }
    wr_ice_file_free(del);
    return WR_OK;
}

wr_code wr_table_open_files(wr_table *t, wr_err *err) {
    if (t->opened) return WR_OK;
    if (!t->pending && !(t->pending = wr_pending_new())) return wr_nomem(err, "pending keys", 64);
    if (!(t->by_path = wr_map_new())) return wr_nomem(err, "file list", 64);
    int64_t head = wr_ice_ref(t->ice, t->loading ? WR_ICE_LOAD : WR_ICE_MAIN);
    wr_ice_file **files = NULL;
    int n = 0;
    wr_code rc = t->create || head < 0 ? WR_OK : wr_ice_live_files(t->ice, head, &files, &n, err);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++) {
            if (!files[i] || (files[i]->content == WR_ICE_DATA) != (pass == 0)) continue;
            wr_ice_file *f = files[i];
            uint32_t no;
            files[i] = NULL;
            if (rc != WR_OK) wr_ice_file_free(f);
            else rc = pass == 0 ? wr_table_add_file(t, f, true, &no, err) : load_deletes(t, f, err);
        }
    wr_free(files);
    if (rc == WR_OK) rc = open_index(t, err);
    if (rc != WR_OK) {
        wr_table_forget_content(t);
        return wr_err_in(err, "opening lake table %s.%s", t->ns, t->name);
    }
    t->opened = true;
    return WR_OK;
}

/* ------------------------------------------------------------------ applying */
typedef struct find_live { wr_table *t; uint32_t file, row; } find_live;

static bool is_live(void *ctx, uint32_t file, uint32_t row) {
    find_live *f = ctx;
    const wr_data_file *d = &f->t->files[file];
    if (!d->ice || (d->dead && roaring_bitmap_contains(d->dead, row))) return false;
    f->file = file, f->row = row;
    return true;
}

/* Marks one live row of this key as deleted. */
static wr_code kill_key(wr_table *t, wr_key key, bool *ret_found, wr_err *err) {
    uint32_t row = wr_pending_find(t->pending, key);
    *ret_found = true;
    if (row != WR_NO_ROW) {
        wr_batch_kill(t->batch, row);
        wr_pending_pop(t->pending, key);
        t->touched = true;
        return WR_OK;
    }
    find_live f = {.t = t};
    if (wr_index_find(t->index, key, is_live, &f)) return wr_table_kill(t, f.file, f.row, err);
    *ret_found = false;
    return WR_OK;
}

static wr_code append(wr_table *t, wr_key key, wr_slice row, wr_err *err) {
    if (!t->batch) WR_TRY(wr_batch_new(t->schema, &t->batch, err));
    uint32_t at = wr_batch_rows(t->batch);
    WR_TRY(wr_batch_append(t->batch, row, err));
    if (!wr_pending_add(t->pending, key, at)) return wr_nomem(err, "pending keys", 64);
    t->touched = true;
    return WR_OK;
}

static wr_code largest_flush(wr_lake *l, wr_err *err) {
    wr_table *big = NULL;
    for (int i = 0; i < l->ntables; i++)
        if (l->tables[i]->batch && (!big || wr_table_pending_bytes(l->tables[i]) > wr_table_pending_bytes(big))) big = l->tables[i];
    return big ? wr_table_flush(big, err) : WR_OK;
}

wr_code wr_table_apply(wr_table *t, wr_apply_mode mode, wr_op op, wr_slice before, wr_slice after, wr_err *err) {
    if (!t->opened) WR_TRY(wr_table_open_files(t, err));
    size_t was = wr_table_pending_bytes(t);
    bool keyed = t->schema->nkey > 0, found = false;
    wr_key kb = {0}, ka = {0};
    wr_code rc = WR_OK;
    if (op != WR_OP_INSERT) rc = wr_key_of(t->plan, before, &kb, err);
    if (rc == WR_OK && op != WR_OP_DELETE) rc = wr_key_of(t->plan, after, &ka, err);
    if (rc == WR_OK && op != WR_OP_INSERT) {
        rc = kill_key(t, kb, &found, err);
        if (!found && mode == WR_APPLY_STRICT) t->anomalies++;
    }
    if (rc == WR_OK && op != WR_OP_DELETE) {
        if (keyed && (op == WR_OP_INSERT || !wr_key_eq(ka, kb))) {
            rc = kill_key(t, ka, &found, err);
            if (found && mode == WR_APPLY_STRICT) t->anomalies++;
        }
        if (rc == WR_OK) rc = append(t, ka, after, err);
    }
    if (rc != WR_OK) return wr_err_in(err, "lake table %s.%s", t->ns, t->name);
    if (op == WR_OP_INSERT) t->inserts++;
    else if (op == WR_OP_UPDATE) t->updates++;
    else t->deletes++;
    size_t now = wr_table_pending_bytes(t);
    t->lake->pending_total += now - was;
    if (now > t->lake->file_bytes) return wr_table_flush(t, err);
    if (t->lake->pending_total > t->lake->pending_bytes) return largest_flush(t->lake, err);
    return WR_OK;
}

/* ------------------------------------------------------------------ schema, truncate, prefix */
typedef struct rewrite { wr_table *t; const roaring_bitmap_t *dead; wr_batch *batch; wr_ice_file **out; int nout; uint64_t limit; } rewrite;

static wr_code rewrite_spill(rewrite *w, wr_err *err) {
    if (!w->batch || !wr_batch_rows(w->batch)) return WR_OK;
    wr_ice_file *f;
    WR_TRY(wr_table_write_batch(w->t, w->batch, &f, err));
    wr_batch_free(w->batch);
    w->batch = NULL;
    wr_ice_file **o = wr_realloc(w->out, ((size_t)w->nout + 1) * sizeof *o);
    if (!o) return wr_ice_file_free(f), wr_nomem(err, "list of rewritten files", 64);
    w->out = o;
    w->out[w->nout++] = f;
    return WR_OK;
}

static wr_code rewrite_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    rewrite *w = ctx;
    if (w->dead && roaring_bitmap_contains(w->dead, (uint32_t)pos)) return WR_OK;
    if (!w->batch) WR_TRY(wr_batch_new(w->t->schema, &w->batch, err));
    WR_TRY(wr_batch_append(w->batch, row, err));
    return wr_batch_bytes(w->batch) > w->limit ? rewrite_spill(w, err) : WR_OK;
}

/* Every live row of every file is written anew under the present schema; columns a file lacks get their initial value. */
static wr_code rewrite_all(wr_table *t, wr_err *err) {
    rewrite w = {.t = t, .limit = t->lake->file_bytes};
    uint32_t n = t->nfiles;
    wr_code rc = WR_OK;
    for (uint32_t i = 0; rc == WR_OK && i < n; i++) {
        if (!t->files[i].ice) continue;
        WR_AUTO char *local = NULL;
        wr_parquet_read_options o = {.fill_initial = true};
        w.dead = t->files[i].dead;
        rc = wr_ice_local_path(t->files[i].ice->path, &local, err);
        if (rc == WR_OK) rc = wr_parquet_read(t->lake->engine, local, t->schema, &o, rewrite_row, &w, err);
    }
    if (rc == WR_OK) rc = rewrite_spill(&w, err);
    for (uint32_t i = 0; rc == WR_OK && i < n; i++)
        if (t->files[i].ice) rc = wr_table_remove_file(t, i, err);
    for (int i = 0; i < w.nout; i++) {
        uint32_t no;
        if (rc == WR_OK) rc = wr_table_add_file(t, w.out[i], false, &no, err);
        else wr_ice_file_free(w.out[i]);
        if (rc == WR_OK) rc = rebuild_file(t, no, err);
    }
    wr_batch_free(w.batch);
    wr_free(w.out);
    return rc;
}

wr_code wr_table_alter(wr_table *t, const wr_schema *schema, bool fill, wr_err *err) {
    char a[32], b[32];
    for (int i = 0; i < schema->ncols; i++) {
        int j = wr_schema_find_id(t->schema, schema->cols[i].id);
        if (j < 0 || wr_type_eq(t->schema->cols[j].type, schema->cols[i].type) || wr_type_promotes(t->schema->cols[j].type, schema->cols[i].type)) continue;
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "lake table %s.%s: column %s cannot change from %s to %s without reading the table again", t->ns, t->name,
                       schema->cols[i].name, wr_type_name(t->schema->cols[j].type, a), wr_type_name(schema->cols[i].type, b));
    }
    WR_TRY(wr_table_open_files(t, err));
    WR_TRY(wr_table_flush(t, err));
    uint64_t fp = t->plan->fingerprint;
    wr_key_plan *old = t->plan;
    t->plan = NULL;
    wr_code rc = wr_table_set_schema(t, schema, err);
    if (rc != WR_OK) return t->plan = old, rc;
    t->schema_dirty = t->touched = true;
    bool same_key = t->plan->fingerprint == fp;
    if (!same_key || fill) { /* the index refers to the plan, and fill replaces every file */
        wr_index_free(t->index);
        t->index = NULL;
    }
    if (same_key && !fill) { /* same bits: keep the plan the index points to */
        wr_key_plan *fresh = t->plan;
        wr_key_plan swap = *old;
        *old = *fresh, *fresh = swap;
        t->plan = old;
        wr_key_plan_free(fresh);
        return WR_OK;
    }
    wr_key_plan_free(old);
    if (!fill) return open_index(t, err);
    WR_AUTO char *dir = wr_asprintf("%s/%s", t->lake->index_dir, wr_ice_uuid(t->ice));
    if (!dir) return wr_nomem(err, "index folder", 64);
    WR_TRY(wr_index_new(t->plan, dir, &t->index, err));
    rc = rewrite_all(t, err);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "filling an added column of %s.%s", t->ns, t->name);
}

wr_code wr_table_truncate(wr_table *t, wr_err *err) {
    WR_TRY(wr_table_open_files(t, err));
    drop_batch(t);
    for (uint32_t i = 0; i < t->nfiles; i++) WR_TRY(wr_table_remove_file(t, i, err));
    t->touched = true;
    return WR_OK;
}

typedef struct prefix { wr_table *t; uint32_t no; const char *const *vals; int n; const wr_schema *s; } prefix;

static bool prefix_matches(const wr_value *v, const prefix *p) {
    for (int i = 0; i < p->n; i++)
        if (v[i].null || !wr_slice_eq(v[i].s, wr_slice_str(p->vals[i]))) return false;
    return true;
}

static wr_code prefix_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    prefix *p = ctx;
    wr_value v[8];
    WR_TRY(wr_row_read(p->s, row, v, err));
    return prefix_matches(v, p) ? wr_table_kill(p->t, p->no, (uint32_t)pos, err) : WR_OK;
}

wr_code wr_table_delete_prefix(wr_table *t, const char *const *vals, int n, wr_err *err) {
    if (n < 1 || n > 8 || n > t->schema->ncols) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "a prefix of %d columns", n);
    WR_TRY(wr_table_open_files(t, err));
    WR_TRY(wr_table_flush(t, err));
    int cols[8];
    wr_column pc[8];
    for (int i = 0; i < n; i++) cols[i] = i, pc[i] = t->schema->cols[i], pc[i].key_ord = 0;
    wr_schema *s;
    WR_TRY(wr_schema_new(pc, n, 1, &s, err));
    wr_code rc = WR_OK;
    for (uint32_t i = 0; rc == WR_OK && i < t->nfiles; i++) {
        if (!t->files[i].ice) continue;
        WR_AUTO char *local = NULL;
        prefix p = {t, i, vals, n, s};
        wr_parquet_read_options o = {.columns = cols, .ncolumns = n};
        rc = wr_ice_local_path(t->files[i].ice->path, &local, err);
        if (rc == WR_OK) rc = wr_parquet_read(t->lake->engine, local, t->schema, &o, prefix_row, &p, err);
    }
    wr_schema_unref(s);
    return rc;
}

wr_code wr_table_rename(wr_table *t, const char *ns, const char *name, wr_err *err) {
    char *a = wr_strdup(ns), *b = wr_strdup(name);
    if (!a || !b) return wr_free(a), wr_free(b), wr_nomem(err, "table name", 64);
    wr_free(t->ns), wr_free(t->name);
    t->ns = a, t->name = b;
    t->rename_dirty = t->touched = true;
    return WR_OK;
}

wr_code wr_table_get_health(wr_table *t, wr_table_health *ret, wr_err *err) {
    wr_table_health h = {.ns = t->ns, .name = t->name, .format_version = wr_ice_format_version(t->ice), .snapshots = (uint64_t)wr_ice_snapshot_count(t->ice),
                         .anomalies = t->anomalies, .inserts = t->inserts, .updates = t->updates, .deletes = t->deletes, .loading = t->loading};
    int64_t head = wr_ice_ref(t->ice, WR_ICE_MAIN);
    if (head >= 0) h.committed_us = wr_ice_snapshot_time_us(t->ice, head);
    for (uint32_t i = 0; i < t->nfiles; i++) {
        const wr_data_file *f = &t->files[i];
        if (!f->ice) continue;
        h.rows += f->ice->records - f->ndead, h.deleted_rows += f->ndead;
        h.data_files++, h.data_bytes += f->ice->bytes;
        h.delete_files += f->deletes != NULL;
    }
    if (t->batch) h.rows += wr_batch_live_rows(t->batch);
    *ret = h;
    return WR_OK;
}
