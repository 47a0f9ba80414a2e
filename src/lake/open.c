/* Opening a table's content: live files, what is deleted in them, and the index. */
#include "table.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/io.h"

wr_code wr_table_read_file(const wr_table *t, const char *uri, const wr_schema *schema, const wr_parquet_read_options *opts,
                           wr_code (*fn)(void *ctx, uint64_t pos, wr_slice row, wr_err *err), void *ctx, wr_err *err) {
    WR_AUTO char *path = NULL;
    WR_TRY(wr_store_pin(t->lake->store, uri, &path, err));
    wr_code rc = wr_parquet_read(t->lake->engine, path, schema, opts, fn, ctx, err);
    wr_store_unpin(t->lake->store, uri);
    return rc;
}

/* ------------------------------------------------------------------ index */
typedef struct key_scan {
    wr_run_entry *e;
    uint64_t n, cap;
    const wr_key_plan *plan;
} key_scan;

static wr_code scan_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    key_scan *b = ctx;
    if (b->n == b->cap) {
        uint64_t cap = b->cap ? b->cap * 2 : 1024;
        wr_run_entry *e = wr_realloc(b->e, cap * sizeof *e);
        if (!e) return wr_nomem(err, "index rebuild", cap * sizeof *e);
        b->e = e, b->cap = cap;
    }
    if (pos > UINT32_MAX) return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a data file of more than 2^32 rows");
    b->e[b->n].file = 0, b->e[b->n].row = (uint32_t)pos;
    WR_TRY(wr_key_of(b->plan, row, &b->e[b->n].key, err));
    b->n++;
    return WR_OK;
}

/* The key columns alone, in key order: their rows have the same keys. */
static wr_code key_schema(const wr_schema *s, wr_schema **ret, wr_err *err) {
    WR_AUTO wr_column *cols = wr_calloc((size_t)s->nkey, sizeof *cols);
    if (!cols) return wr_nomem(err, "key columns", (size_t)s->nkey * sizeof *cols);
    for (int k = 0; k < s->nkey; k++) cols[k] = s->cols[s->key[k]], cols[k].key_ord = k + 1;
    return wr_schema_new(cols, s->nkey, s->version, ret, err);
}

static wr_code scan_file(wr_table *t, const char *uri, const wr_schema *s, const wr_key_plan *plan, key_scan *b,
                         wr_err *err) {
    wr_parquet_read_options o = {.fill_initial = true};
    b->plan = plan;
    if (!s->nkey) return wr_table_read_file(t, uri, s, &o, scan_row, b, err);
    wr_schema *ks = NULL;
    wr_key_plan *kp = NULL;
    o.columns = s->key, o.ncolumns = s->nkey;
    wr_code rc = key_schema(s, &ks, err);
    if (rc == WR_OK) rc = wr_key_plan_new(ks, &kp, err);
    b->plan = kp;
    if (rc == WR_OK) rc = wr_table_read_file(t, uri, s, &o, scan_row, b, err);
    wr_key_plan_free(kp);
    wr_schema_unref(ks);
    return rc;
}

/* Reads a file's key columns (all columns when there is no key) and makes its run. */
static wr_code index_file(wr_table *t, uint32_t no, const wr_schema *s, const wr_key_plan *plan, wr_index *ix,
                          wr_err *err) {
    WR_AUTO char *run_path = wr_index_run_path(ix);
    key_scan b = {0};
    wr_run *run = NULL;
    if (!run_path) return wr_nomem(err, "index run path", 64);
    WR_TRY(wr_index_reserve(ix, err));
    wr_code rc = scan_file(t, t->files[no].ice->path, s, plan, &b, err);
    const char *paths[1] = {t->files[no].ice->path};
    if (rc == WR_OK) rc = wr_run_build(plan, b.e, b.n, paths, 1, run_path, &run, err);
    wr_free(b.e);
    if (rc != WR_OK) return wr_err_in(err, "indexing %s of %s.%s", t->files[no].ice->path, t->ns, t->name);
    wr_run_bind(run, 0, no);
    wr_index_add(ix, run);
    return WR_OK;
}

typedef struct run_scan {
    wr_table *t;
    const char *dir;
    const wr_key_plan *plan;
    wr_index *ix;
    bool *covered;
} run_scan;

/* No entry may name a row that its data file does not have. */
static bool rows_fit(const wr_table *t, const wr_run *run) {
    WR_AUTO uint64_t *records = wr_calloc((size_t)wr_run_npaths(run) + 1, sizeof *records);
    if (!records) return false;
    for (uint32_t i = 0; i < wr_run_npaths(run); i++) {
        uintptr_t no = (uintptr_t)wr_map_get(t->by_path, wr_slice_str(wr_run_path(run, i)));
        records[i] = no ? t->files[no - 1].ice->records : UINT64_MAX;
    }
    for (uint64_t i = 0; i < wr_run_count(run); i++) {
        wr_run_entry e = wr_run_get(run, i);
        if (e.row >= records[e.file]) return false;
    }
    return true;
}

/* A cache: anything that does not fit is removed and made anew. */
static wr_code adopt_run(void *ctx, const char *name, wr_err *err) {
    run_scan *s = ctx;
    WR_AUTO char *path = wr_path_join(s->dir, name);
    wr_err e = WR_ERR_INIT;
    wr_run *run = NULL;
    bool useful = false;
    if (!path) return wr_nomem(err, "index run path", 64);
    WR_TRY(wr_index_reserve(s->ix, err));
    wr_code rc = wr_run_load(s->plan, path, &run, &e);
    if (rc == WR_E_NOMEM) return *err = e, rc;
    if (rc == WR_OK && !rows_fit(s->t, run)) rc = WR_E_CORRUPT;
    for (uint32_t i = 0; rc == WR_OK && i < wr_run_npaths(run); i++) {
        uintptr_t no = (uintptr_t)wr_map_get(s->t->by_path, wr_slice_str(wr_run_path(run, i)));
        if (!no || s->covered[no - 1]) continue;
        wr_run_bind(run, i, (uint32_t)no - 1);
        s->covered[no - 1] = useful = true;
    }
    if (useful)
        wr_index_add(s->ix, run);
    else if (run)
        wr_run_free(run, true);
    else
        wr_file_remove(path, &e);
    return WR_OK;
}

wr_code wr_table_build_index(wr_table *t, const wr_schema *schema, const wr_key_plan *plan, wr_index **ret_index,
                             wr_err *err) {
    WR_AUTO char *dir = wr_table_index_dir(t);
    WR_AUTO bool *covered = wr_calloc((size_t)t->nfiles + 1, sizeof *covered);
    wr_index *ix = NULL;
    if (!dir || !covered) return wr_nomem(err, "index", t->nfiles);
    WR_TRY(wr_index_new(plan, dir, &ix, err));
    run_scan s = {t, dir, plan, ix, covered};
    wr_code rc = wr_dir_list(dir, adopt_run, &s, err);
    for (uint32_t i = 0; rc == WR_OK && i < t->nfiles; i++)
        if (t->files[i].ice && !covered[i]) rc = index_file(t, i, schema, plan, ix, err);
    if (rc != WR_OK) return wr_index_free(ix), rc;
    *ret_index = ix;
    return WR_OK;
}

/* ------------------------------------------------------------------ deletes */
static wr_code add_deletes(wr_table *t, uint32_t no, const wr_ice_file *del, wr_err *err) {
    void *bm = NULL;
    WR_TRY(wr_ice_read_deletes(t->lake->engine, t->lake->store, del, t->files[no].ice->path, &bm, err));
    wr_code rc = wr_table_kill_all(t, no, bm, err);
    roaring_bitmap_free(bm);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "%s", del->path);
}

/* Equality deletes say nothing to files of their own commit and of later ones; rewriting the files before leaves them without effect. */
static wr_code refuse_equality(const wr_table *t, const wr_ice_file *del, wr_err *err) {
    for (uint32_t i = 0; i < t->nfiles; i++) {
        if (!t->files[i].ice || t->files[i].ice->sequence >= del->sequence) continue;
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "another writer left equality deletes (%s), which Weir does not apply", del->path);
        return wr_err_cure(err, "rewrite the files that they delete from, with Spark: CALL <catalog>.system.rewrite_data_files(table => '<namespace>.<table>', options => map('rewrite-all', 'true', "
                                "'remove-dangling-deletes', 'true')); "
                                "and have that writer write position deletes");
    }
    return WR_OK;
}

/* A delete file that deletes nothing any more: its data files were rewritten by somebody who left it. */
static wr_code add_stray(wr_table *t, wr_ice_file **del, wr_err *err) {
    WR_TRY(wr_table_reserve_gone(t, 1, err));
    t->gone[t->ngone++] = WR_STEAL(*del);
    t->nstray = t->ngone;
    return WR_OK;
}

/* Takes del over. A delete file that tells its data file is replaced with the next delete of that file; others (of
 * other writers, v2) stay, and what they delete is repeated in ours. */
static wr_code load_deletes(wr_table *t, wr_ice_file *del, wr_err *err) {
    wr_code rc = WR_OK;
    if (del->content == WR_ICE_EQ_DELETES) {
        rc = refuse_equality(t, del, err);
        if (rc == WR_OK) rc = add_stray(t, &del, err);
    } else if (del->referenced) {
        uintptr_t no = (uintptr_t)wr_map_get(t->by_path, wr_slice_str(del->referenced));
        rc = no ? add_deletes(t, (uint32_t)no - 1, del, err) : add_stray(t, &del, err);
        if (no && rc == WR_OK) {
            wr_ice_file_free(t->files[no - 1].deletes);
            t->files[no - 1].deletes = WR_STEAL(del);
        }
    } else {
        for (uint32_t i = 0; rc == WR_OK && i < t->nfiles; i++)
            if (t->files[i].ice) rc = add_deletes(t, i, del, err);
    }
    wr_ice_file_free(del);
    return rc;
}

/* ------------------------------------------------------------------ opening */
static wr_code take_live_files(wr_table *t, wr_err *err) {
    int64_t head = wr_ice_ref(t->ice, t->loading ? WR_ICE_LOAD : WR_ICE_MAIN);
    wr_ice_file **files = NULL;
    int n = 0;
    if (t->create || head < 0) return WR_OK;
    wr_code rc = wr_ice_live_files(t->ice, head, &files, &n, err);
    for (int pass = 0; pass < 2; pass++) /* data files first: deletes name them */
        for (int i = 0; i < n; i++) {
            if (!files[i] || (files[i]->content == WR_ICE_DATA) != (pass == 0)) continue;
            wr_ice_file *f = WR_STEAL(files[i]);
            uint32_t no;
            if (rc != WR_OK)
                wr_ice_file_free(f);
            else if (pass == 1)
                rc = load_deletes(t, f, err);
            else if ((rc = wr_table_add_file(t, f, true, &no, err)) != WR_OK)
                wr_ice_file_free(f);
        }
    wr_free(files);
    return rc;
}

wr_code wr_table_open_files(wr_table *t, wr_err *err) {
    if (t->opened) return WR_OK;
    wr_code rc = WR_OK;
    if (!t->pending && !(t->pending = wr_pending_new())) rc = wr_nomem(err, "pending keys", 64);
    if (rc == WR_OK && !(t->by_path = wr_map_new())) rc = wr_nomem(err, "file list", 64);
    if (rc == WR_OK) rc = take_live_files(t, err);
    if (rc == WR_OK) rc = wr_table_build_index(t, t->schema, t->plan, &t->index, err);
    if (rc != WR_OK) {
        wr_table_forget_content(t);
        return wr_err_in(err, "opening lake table %s.%s", t->ns, t->name);
    }
    for (uint32_t i = 0; i < t->nfiles; i++) t->files[i].ndead_opened = t->files[i].ndead;
    t->opened = true, t->opened_us = wr_mono_us();
    return WR_OK;
}
