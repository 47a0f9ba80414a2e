#include "rewrite.h"
#include <inttypes.h>
#include <string.h>
#include "policy.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"

#define ROW_ID 2147483540  /* Iceberg's reserved field ids of row lineage (spec, v3) */
#define ROW_SEQ 2147483539
#define GROUP_ROWS 122880  /* of a row group, unless its memory ends it before */

/* ------------------------------------------------------------------ pinning */
static wr_code widen(wr_rewrite *w, wr_err *err) {
    int n = w->schema->ncols;
    w->wide = w->schema;
    if (wr_ice_format_version(w->t->ice) < 3) return WR_OK;
    WR_AUTO wr_column *cols = wr_calloc((size_t)n + 2, sizeof *cols);
    if (!cols) return wr_nomem(err, "schema", (size_t)n * sizeof *cols);
    memcpy(cols, w->schema->cols, (size_t)n * sizeof *cols);
    cols[n] = (wr_column){.name = (char *)"_row_id", .id = ROW_ID, .type = {.kind = WR_LONG}, .nullable = true};
    cols[n + 1] = (wr_column){.name = (char *)"_last_updated_sequence_number", .id = ROW_SEQ, .type = {.kind = WR_LONG}, .nullable = true};
    wr_schema *wide;
    WR_TRY(wr_schema_new(cols, n + 2, w->schema->version, &wide, err));
    w->wide = wide;
    return WR_OK;
}

static wr_code pin_file(wr_rewrite *w, uint32_t no, wr_err *err) {
    const wr_data_file *f = &w->t->files[no];
    wr_rewrite_input *in = &w->in[w->nin++];
    *in = (wr_rewrite_input){.no = no, .uri = wr_strdup(f->ice->path), .first_row_id = -1, .sequence = -1};
    if (!in->uri) return wr_nomem(err, "compaction", 256);
    w->bytes_in += f->ice->bytes;
    return wr_remap_add_input(&w->map, f->ice->records, f->dead, err);
}

static wr_code pin(wr_rewrite *w, const uint32_t *nos, int n, wr_err *err) {
    wr_table *t = w->t;
    w->schema = w->wide = wr_schema_ref(t->schema);
    w->in = wr_calloc((size_t)n + 1, sizeof *w->in);
    w->ns = wr_strdup(t->ns), w->name = wr_strdup(t->name);
    w->run_path = wr_index_run_path(t->index);
    if (!w->in || !w->ns || !w->name || !w->run_path) return wr_nomem(err, "compaction", 4096);
    w->group_bytes = t->lake->compact_bytes;
    WR_TRY(wr_key_plan_new(w->schema, &w->plan, err));
    WR_TRY(widen(w, err));
    if (w->wide != w->schema) WR_TRY(wr_ice_manifest_list(t->ice, wr_ice_ref(t->ice, WR_ICE_MAIN), &w->list, err));
    for (int i = 0; i < n; i++) WR_TRY(pin_file(w, nos[i], err));
    return WR_OK;
}

wr_code wr_rewrite_new(wr_table *t, const uint32_t *nos, int n, uint64_t output_bytes, wr_rewrite **ret_rewrite, wr_err *err) {
    wr_rewrite *w = wr_calloc(1, sizeof *w);
    if (!w) return wr_nomem(err, "compaction", sizeof *w);
    w->t = t, w->output_bytes = output_bytes;
    wr_code rc = pin(w, nos, n, err);
    if (rc != WR_OK) return wr_rewrite_free(w), rc;
    *ret_rewrite = w;
    return WR_OK;
}

/* It stays in the journal when it cannot be removed now. */
static void remove_output(wr_rewrite *w, wr_sealed *s) {
    WR_AUTO char *name = NULL;
    wr_err e = WR_ERR_INIT;
    if (wr_uri_canonical(s->file->path, &name, &e) == WR_OK && wr_store_remove(w->t->lake->store, (const char *const *)&name, 1, &e) == WR_OK)
        wr_state_file_done(w->t->lake->state, (const char *const *)&name, 1, &e);
    wr_ice_file_free(s->file);
    wr_run_free(s->run, true);
}

void wr_rewrite_free(wr_rewrite *w) {
    if (!w) return;
    for (int i = 0; i < w->nout; i++)
        if (w->out[i].file) remove_output(w, &w->out[i]);
    for (int i = 0; i < w->nin; i++) wr_free(w->in[i].uri);
    wr_free(w->in), wr_free(w->out), wr_free(w->list), wr_free(w->run_path), wr_free(w->ns), wr_free(w->name);
    wr_remap_clear(&w->map);
    if (w->wide != w->schema) wr_schema_unref(w->wide);
    wr_schema_unref(w->schema);
    wr_key_plan_free(w->plan);
    wr_free(w);
}

/* ------------------------------------------------------------------ worker: one output */
typedef struct work {
    wr_rewrite *w;
    int at;                /* input under way */
    uint64_t seen, rank;   /* rows of it; live rows so far */
    wr_batch *batch;
    wr_parquet_writer *writer;
    char *uri, *path;      /* of the output under way, and the file that becomes it */
    wr_run_entry *entries; /* its rows */
    uint32_t n, cap;
    wr_value *vals;
    wr_buf row, wide_row;
} work;

static void work_clear(work *k) {
    wr_batch_free(k->batch);
    wr_parquet_writer_abandon(k->writer); /* the journal has it */
    wr_free(k->uri), wr_free(k->path);
    wr_free(k->entries), wr_free(k->vals);
    wr_buf_free(&k->row), wr_buf_free(&k->wide_row);
}

static wr_code begin_output(work *k, wr_err *err) {
    wr_rewrite *w = k->w;
    WR_TRY(wr_table_new_data_uri(w->t, &k->uri, err));
    WR_TRY(wr_ice_announce(w->t->lake->state, (const char *const *)&k->uri, 1, err));
    WR_TRY(wr_store_stage(w->t->lake->store, k->uri, &k->path, err));
    return wr_parquet_writer_open(w->wide, k->path, NULL, &k->writer, err);
}

static wr_code end_group(work *k, wr_err *err) {
    if (!k->batch) return WR_OK;
    if (!k->writer) WR_TRY(begin_output(k, err));
    WR_TRY(wr_parquet_writer_add(k->writer, k->batch, err));
    wr_batch_free(k->batch);
    k->batch = NULL;
    return WR_OK;
}

static wr_code out_room(wr_rewrite *w, wr_err *err) {
    if (w->nout < w->out_cap) return WR_OK;
    int cap = w->out_cap ? w->out_cap * 2 : 4;
    wr_sealed *o = wr_realloc(w->out, (size_t)cap * sizeof *o);
    if (!o) return wr_nomem(err, "new files", (size_t)cap * sizeof *o);
    w->out = o, w->out_cap = cap;
    return WR_OK;
}

static wr_code close_file(work *k, wr_sealed *s, wr_err *err) {
    wr_rewrite *w = k->w;
    wr_parquet_file pf = {0};
    s->file = wr_ice_file_new(WR_ICE_DATA, k->uri);
    if (!s->file || !(s->file->format = wr_strdup("PARQUET"))) return wr_nomem(err, "file entry", 256);
    WR_TRY(wr_parquet_writer_close(WR_STEAL(k->writer), &pf, err));
    s->file->records = pf.rows, s->file->bytes = pf.bytes;
    s->file->stats = WR_STEAL(pf.cols), s->file->nstats = pf.ncols;
    wr_parquet_file_clear(&pf);
    if (w->wide != w->schema) s->file->nstats -= 2; /* readers plan by columns, not by lineage */
    return wr_store_publish(w->t->lake->store, k->uri, k->path, err);
}

static wr_code build_run(work *k, wr_sealed *s, wr_err *err) {
    wr_rewrite *w = k->w;
    const char *paths[1] = {s->file->path};
    size_t stem = strlen(w->run_path) - strlen(".run");
    WR_AUTO char *path = wr_asprintf("%.*s-%d.run", (int)stem, w->run_path, w->nout);
    if (!path) return wr_nomem(err, "index run path", 64);
    return wr_run_build(w->plan, k->entries, k->n, paths, 1, path, &s->run, err);
}

static wr_code end_output(work *k, wr_err *err) {
    wr_rewrite *w = k->w;
    WR_TRY(end_group(k, err));
    if (!k->writer) return WR_OK;
    WR_TRY(out_room(w, err));
    WR_TRY(wr_remap_add_output(&w->map, k->rank - k->n, err));
    wr_sealed s = {0};
    wr_code rc = close_file(k, &s, err);
    if (rc == WR_OK && WR_FAULT("lake.compact")) rc = wr_fail(err, WR_E_IO, WR_RETRY_SOON, "injected: compaction");
    if (rc == WR_OK) rc = build_run(k, &s, err);
    if (rc != WR_OK) return s.file ? remove_output(w, &s) : (void)0, rc;
    w->bytes_out += s.file->bytes;
    w->out[w->nout++] = s;
    wr_free(k->uri), wr_free(k->path);
    k->uri = k->path = NULL, k->n = 0;
    return WR_OK;
}

/* ------------------------------------------------------------------ worker: rows */
static wr_code entry_room(work *k, wr_err *err) {
    if (k->n < k->cap) return WR_OK;
    uint32_t cap = k->cap ? k->cap * 2 : 1024;
    wr_run_entry *e = wr_realloc(k->entries, (size_t)cap * sizeof *e);
    if (!e) return wr_nomem(err, "index run", (size_t)cap * sizeof *e);
    k->entries = e, k->cap = cap;
    return WR_OK;
}

static wr_code key_of(work *k, wr_slice row, wr_key *ret_key, wr_err *err) {
    const wr_rewrite *w = k->w;
    int n = w->schema->ncols;
    if (w->wide == w->schema) return wr_key_of(w->plan, row, ret_key, err);
    WR_TRY(wr_row_read(w->wide, row, k->vals, err));
    wr_buf_clear(&k->row);
    size_t r = wr_row_begin(&k->row, n);
    for (int i = 0; i < n; i++) wr_row_put(&k->row, r, i, w->schema->cols[i].type, &k->vals[i]);
    WR_TRY(wr_buf_check(&k->row, "row", err));
    return wr_key_of(w->plan, wr_buf_view(&k->row), ret_key, err);
}

/* The row with what it inherited written out: in the new file it would inherit something else. */
static wr_code append(work *k, uint64_t pos, wr_slice row, wr_err *err) {
    const wr_rewrite *w = k->w;
    const wr_rewrite_input *in = &w->in[k->at];
    int n = w->schema->ncols;
    if (w->wide == w->schema) return wr_batch_append(k->batch, row, err);
    if (k->vals[n].null && in->first_row_id >= 0) k->vals[n] = (wr_value){.i64 = in->first_row_id + (int64_t)pos};
    if (k->vals[n + 1].null && in->sequence >= 0) k->vals[n + 1] = (wr_value){.i64 = in->sequence};
    wr_buf_clear(&k->wide_row);
    size_t r = wr_row_begin(&k->wide_row, n + 2);
    for (int i = 0; i < n + 2; i++) wr_row_put(&k->wide_row, r, i, w->wide->cols[i].type, &k->vals[i]);
    WR_TRY(wr_buf_check(&k->wide_row, "row", err));
    return wr_batch_append(k->batch, wr_buf_view(&k->wide_row), err);
}

static wr_code take_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    work *k = ctx;
    wr_rewrite *w = k->w;
    const roaring_bitmap_t *dead = w->map.in[k->at].dead;
    if (pos != k->seen++) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "row %" PRIu64 " of %s comes as row %" PRIu64, pos, w->in[k->at].uri, k->seen - 1);
    if (dead && roaring_bitmap_contains(dead, (uint32_t)pos)) return WR_OK;
    if (__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) return wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "compaction is not wanted any more");
    if (!k->batch) WR_TRY(wr_batch_new(w->wide, &k->batch, err));
    WR_TRY(entry_room(k, err));
    wr_run_entry *e = &k->entries[k->n];
    *e = (wr_run_entry){.row = k->n};
    WR_TRY(key_of(k, row, &e->key, err));
    WR_TRY(append(k, pos, row, err));
    k->n++, k->rank++;
    if (wr_batch_rows(k->batch) >= GROUP_ROWS || wr_batch_bytes(k->batch) >= w->group_bytes) WR_TRY(end_group(k, err));
    bool full = k->n >= WR_POLICY_ROWS || (k->writer && !k->batch && wr_parquet_writer_bytes(k->writer) >= w->output_bytes);
    return full ? end_output(k, err) : WR_OK;
}

/* What rows without lineage of their own inherit from their file. */
static wr_code read_lineage(wr_rewrite *w, wr_err *err) {
    wr_ice_file **live = NULL;
    int n = 0;
    if (!w->list) return WR_OK;
    WR_TRY(wr_ice_listed_files(w->t->lake->store, w->list, &live, &n, err));
    for (int i = 0; i < w->nin; i++)
        for (int k = 0; k < n; k++)
            if (live[k]->content == WR_ICE_DATA && !strcmp(live[k]->path, w->in[i].uri)) {
                w->in[i].first_row_id = live[k]->first_row_id, w->in[i].sequence = live[k]->sequence;
                break;
            }
    for (int k = 0; k < n; k++) wr_ice_file_free(live[k]);
    wr_free(live);
    for (int i = 0; i < w->nin; i++)
        if (w->in[i].sequence < 0) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "%s is not among the table's live files", w->in[i].uri);
    return WR_OK;
}

static wr_code read_input(work *k, wr_err *err) {
    wr_rewrite *w = k->w;
    const wr_remap_input *in = &w->map.in[k->at];
    const char *uri = w->in[k->at].uri;
    wr_parquet_read_options o = {.fill_initial = true};
    k->seen = 0;
    WR_TRY(wr_table_read_file(w->t, uri, w->wide, &o, take_row, k, err));
    if (k->seen == in->records) return WR_OK;
    return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "%s has %" PRIu64 " rows, not the %" PRIu64 " that the table's metadata says", uri, k->seen, in->records);
}

wr_code wr_rewrite_run(wr_rewrite *w, wr_err *err) {
    WR_CLEANUP(work_clear) work k = {.w = w, .vals = wr_calloc((size_t)w->wide->ncols + 1, sizeof *k.vals)};
    if (!k.vals) return wr_nomem(err, "row", (size_t)w->wide->ncols * sizeof *k.vals);
    WR_TRY(read_lineage(w, err));
    for (k.at = 0; k.at < w->nin; k.at++) WR_TRY(read_input(&k, err));
    return end_output(&k, err);
}
