/* Filling a table from a snapshot: several writers beside each other, commits to the load branch. */
#include "table.h"
#include "weir/base/mem.h"

struct wr_load_writer {
    wr_table *t;
    wr_batch *batch;
    wr_key *keys;
    uint32_t cap;
    struct wr_sealed *files; /* written, not handed over */
    uint32_t nfiles;
};

static bool has_changes(const wr_table *t) {
    if (t->batch || t->ngone) return true;
    for (uint32_t i = 0; i < t->nfiles; i++)
        if (t->files[i].ice && (!t->files[i].committed || t->files[i].dirty)) return true;
    return false;
}

/* Files that workers sealed and no commit took: they stay in the journal and are removed from there. */
static void drop_sealed(wr_table *t) {
    for (uint32_t i = 0; i < t->nsealed; i++) wr_ice_file_free(t->sealed[i].file), wr_run_free(t->sealed[i].run, true);
    t->nsealed = 0;
}

wr_code wr_table_load_begin(wr_table *t, const wr_schema *schema, const char *info, wr_err *err) {
    if (has_changes(t) && !t->create && !t->restart)
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "%s.%s: a load begins in a transaction that has changed the table", t->ns, t->name);
    char *copy = wr_strdup(info);
    if (!copy) return wr_nomem(err, "load info", strlen(info));
    wr_table_forget_content(t);
    drop_sealed(t);
    wr_free(t->load_info);
    t->load_info = copy;
    WR_TRY(wr_table_set_schema(t, schema, err));
    t->loading = t->restart = t->load_dirty = t->touched = t->schema_dirty = true;
    t->publish = false;
    /* its content is empty by definition: nothing to read from the catalog */
    if (!t->pending && !(t->pending = wr_pending_new())) return wr_nomem(err, "pending keys", 64);
    if (!(t->by_path = wr_map_new())) return wr_nomem(err, "file list", 64);
    WR_AUTO char *dir = wr_asprintf("%s/%s", t->lake->index_dir, wr_ice_uuid(t->ice));
    if (!dir) return wr_nomem(err, "index folder", 64);
    WR_TRY(wr_index_new(t->plan, dir, &t->index, err));
    t->opened = true;
    return WR_OK;
}

const char *wr_table_load_info(const wr_table *t) { return t->loading ? t->load_info : NULL; }

wr_code wr_table_load_set_info(wr_table *t, const char *info, wr_err *err) {
    char *copy = wr_strdup(info);
    if (!copy) return wr_nomem(err, "load info", strlen(info));
    wr_free(t->load_info);
    t->load_info = copy;
    t->load_dirty = t->touched = true;
    return WR_OK;
}

wr_code wr_table_publish(wr_table *t, wr_err *err) {
    if (!t->loading) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s.%s: no load to publish", t->ns, t->name);
    t->publish = t->touched = true;
    return WR_OK;
}

wr_code wr_load_writer_new(wr_table *t, wr_load_writer **ret_writer, wr_err *err) {
    wr_load_writer *w = wr_calloc(1, sizeof *w);
    if (!w) return wr_nomem(err, "load writer", sizeof *w);
    w->t = t;
    *ret_writer = w;
    return WR_OK;
}

static void reset(wr_load_writer *w) {
    wr_batch_free(w->batch);
    wr_free(w->keys);
    w->batch = NULL, w->keys = NULL, w->cap = 0;
}

void wr_load_writer_free(wr_load_writer *w) {
    if (!w) return;
    reset(w);
    for (uint32_t i = 0; i < w->nfiles; i++) wr_ice_file_free(w->files[i].file), wr_run_free(w->files[i].run, true);
    wr_free(w->files);
    wr_free(w);
}

wr_code wr_load_writer_append(wr_load_writer *w, wr_slice row, wr_err *err) {
    if (!w->batch) WR_TRY(wr_batch_new(w->t->schema, &w->batch, err));
    uint32_t at = wr_batch_rows(w->batch);
    if (at == w->cap) {
        uint32_t cap = w->cap ? w->cap * 2 : 1024;
        wr_key *k = wr_realloc(w->keys, (size_t)cap * sizeof *k);
        if (!k) return wr_nomem(err, "keys of a load", (size_t)cap * sizeof *k);
        w->keys = k, w->cap = cap;
    }
    WR_TRY(wr_key_of(w->t->plan, row, &w->keys[at], err));
    return wr_batch_append(w->batch, row, err);
}

uint64_t wr_load_writer_bytes(const wr_load_writer *w) { return (w->batch ? wr_batch_bytes(w->batch) : 0) + (uint64_t)w->cap * sizeof(wr_key); }

wr_code wr_load_writer_seal(wr_load_writer *w, wr_err *err) {
    wr_table *t = w->t;
    if (!w->batch) return WR_OK;
    uint32_t n = wr_batch_rows(w->batch);
    wr_ice_file *file;
    WR_TRY(wr_table_write_batch(t, w->batch, &file, err));
    wr_batch_free(w->batch);
    w->batch = NULL;
    WR_AUTO wr_run_entry *entries = wr_malloc((size_t)n * sizeof *entries);
    WR_AUTO char *run_path = wr_index_run_path(t->index);
    if (!entries || !run_path) return wr_ice_file_free(file), wr_nomem(err, "index run", (size_t)n * sizeof *entries);
    for (uint32_t i = 0; i < n; i++) entries[i] = (wr_run_entry){w->keys[i], 0, i};
    reset(w);
    const char *paths[1] = {file->path};
    wr_run *run;
    wr_code rc = wr_run_build(t->plan, entries, n, paths, 1, run_path, &run, err);
    if (rc != WR_OK) return wr_ice_file_free(file), rc;
    struct wr_sealed *more = wr_realloc(w->files, ((size_t)w->nfiles + 1) * sizeof *more);
    if (!more) return wr_ice_file_free(file), wr_run_free(run, true), wr_nomem(err, "sealed files", (w->nfiles + 1) * sizeof *more);
    w->files = more;
    w->files[w->nfiles++] = (struct wr_sealed){file, run};
    return WR_OK;
}

wr_code wr_load_writer_hand_over(wr_load_writer *w, wr_err *err) {
    WR_TRY(wr_load_writer_seal(w, err));
    wr_table *t = w->t;
    wr_code rc = WR_OK;
    pthread_mutex_lock(&t->load_lock);
    uint32_t need = t->nsealed + w->nfiles;
    if (need > t->sealed_cap) {
        struct wr_sealed *s = wr_realloc(t->sealed, (size_t)need * 2 * sizeof *s);
        if (s) t->sealed = s, t->sealed_cap = need * 2;
        else rc = wr_nomem(err, "sealed files", (size_t)need * 2 * sizeof *s);
    }
    if (rc == WR_OK && w->nfiles) {
        memcpy(t->sealed + t->nsealed, w->files, w->nfiles * sizeof *w->files);
        t->nsealed = need, w->nfiles = 0;
    }
    pthread_mutex_unlock(&t->load_lock);
    return rc;
}

/* Moves sealed files among the table's own. Lock held by the caller. */
wr_code wr_table_take_sealed(wr_table *t, wr_err *err) {
    wr_code rc = WR_OK;
    for (uint32_t i = 0; i < t->nsealed; i++) {
        uint32_t no;
        struct wr_sealed s = t->sealed[i];
        if (rc == WR_OK) rc = wr_table_add_file(t, s.file, false, &no, err);
        else wr_ice_file_free(s.file);
        if (rc == WR_OK) wr_run_bind(s.run, 0, no), rc = wr_index_add(t->index, s.run, err), t->touched = true;
        else wr_run_free(s.run, true);
    }
    t->nsealed = 0;
    return rc;
}
