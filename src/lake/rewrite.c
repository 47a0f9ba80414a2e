#include "rewrite.h"
#include <inttypes.h>
#include <string.h>
#include "policy.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"

#define ROW_ID 2147483540  /* Iceberg's reserved field ids of row lineage (spec, v3) */
#define ROW_SEQ 2147483539
#define GROUP_ROWS 122880  /* of a row group, unless its memory ends it before */
#define PASS_SINKS 64      /* partitions of one pass over the inputs, and more while their rows fit into memory; files that are open at once */
#define ROW_FACTOR 5       /* memory of a row for its bytes in a file: before any was seen */

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

static bool keep_tuple(wr_rewrite_input *in, const wr_ice_file *f) {
    in->spec_id = f->spec_id;
    if (!f->tuple_n) return true;
    if (!(in->tuple = wr_malloc(f->tuple_n))) return false;
    memcpy(in->tuple, f->tuple, f->tuple_n);
    return in->tuple_n = f->tuple_n, true;
}

static wr_code pin_file(wr_rewrite *w, uint32_t no, wr_err *err) {
    const wr_data_file *f = &w->t->files[no];
    wr_rewrite_input *in = &w->in[w->nin++];
    *in = (wr_rewrite_input){.no = no, .uri = wr_strdup(f->ice->path), .first_row_id = -1, .sequence = -1};
    if (!in->uri || !keep_tuple(in, f->ice)) return wr_nomem(err, "compaction", 256);
    w->scattered |= w->how.spec->n && in->spec_id != w->how.spec->id;
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
    WR_TRY(wr_spread_init(&w->how, t->how.spec, t->schema, err));
    WR_TRY(wr_key_plan_new(w->schema, &w->plan, err));
    WR_TRY(widen(w, err));
    if (w->wide != w->schema) WR_TRY(wr_ice_manifest_list(t->ice, wr_ice_ref(t->ice, WR_ICE_MAIN), &w->list, err));
    for (int i = 0; i < n; i++) WR_TRY(pin_file(w, nos[i], err));
    return w->scattered ? wr_remap_scatter(&w->map, err) : WR_OK;
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
    for (int i = 0; i < w->nin; i++) wr_free(w->in[i].uri), wr_free(w->in[i].tuple);
    wr_spread_clear(&w->how);
    wr_free(w->in), wr_free(w->out), wr_free(w->list), wr_free(w->run_path), wr_free(w->ns), wr_free(w->name);
    wr_remap_clear(&w->map);
    if (w->wide != w->schema) wr_schema_unref(w->wide);
    wr_schema_unref(w->schema);
    wr_key_plan_free(w->plan);
    wr_free(w);
}

/* ------------------------------------------------------------------ worker: one output */
typedef struct sink { /* rows of one partition on their way to a file */
    wr_slice tuple;
    wr_batch *batch;
    wr_parquet_writer *writer;
    char *uri, *path;      /* of the output under way, and the file that becomes it */
    wr_run_entry *entries; /* its rows */
    uint32_t n, cap;
    int out;               /* its number, once there is a row */
} sink;

typedef struct work {
    wr_rewrite *w;
    int at;                /* input under way */
    uint64_t seen, rank;   /* rows of it; live rows so far, of all inputs */
    sink *sinks;
    uint32_t nsinks;
    wr_value *vals;
    wr_buf row, wide_row;
    /* scattered: */
    wr_tuples tuples;
    uint32_t *part;        /* [live] number of a row's partition, by rank */
    uint64_t *rows;        /* [tuples.n] */
    uint32_t first;        /* partition of the first sink */
    uint64_t held;         /* memory of all sinks' batches */
    int open;              /* writers */
    uint64_t seen_bytes, seen_rows; /* memory of the rows so far */
} work;

static void sink_clear(sink *s) {
    wr_batch_free(s->batch);
    wr_parquet_writer_abandon(s->writer); /* the journal has it */
    wr_free(s->uri), wr_free(s->path), wr_free(s->entries);
    *s = (sink){0};
}

static void work_clear(work *k) {
    for (uint32_t i = 0; i < k->nsinks; i++) sink_clear(&k->sinks[i]);
    wr_free(k->sinks), wr_free(k->vals), wr_free(k->part), wr_free(k->rows);
    wr_tuples_clear(&k->tuples);
    wr_buf_free(&k->row), wr_buf_free(&k->wide_row);
}

static wr_code begin_output(work *k, sink *s, wr_err *err) {
    wr_rewrite *w = k->w;
    if (!s->uri) {
        WR_TRY(wr_table_new_data_uri(w->t, w->how.spec, s->tuple, &s->uri, err));
        WR_TRY(wr_ice_announce(w->t->lake->state, (const char *const *)&s->uri, 1, err));
    }
    WR_TRY(wr_store_stage(w->t->lake->store, s->uri, &s->path, err));
    WR_TRY(wr_parquet_writer_open(w->wide, s->path, NULL, &s->writer, err));
    k->open++;
    return WR_OK;
}

static wr_code end_group(work *k, sink *s, wr_err *err) {
    if (!s->batch) return WR_OK;
    if (!s->writer) WR_TRY(begin_output(k, s, err));
    WR_TRY(wr_parquet_writer_add(s->writer, s->batch, err));
    k->held -= wr_batch_bytes(s->batch);
    wr_batch_free(s->batch);
    s->batch = NULL;
    return WR_OK;
}

static wr_code new_output(work *k, sink *s, wr_err *err) {
    wr_rewrite *w = k->w;
    if (w->nout == w->out_cap) {
        int cap = w->out_cap ? w->out_cap * 2 : 4;
        wr_sealed *o = wr_realloc(w->out, (size_t)cap * sizeof *o);
        if (!o) return wr_nomem(err, "new files", (size_t)cap * sizeof *o);
        w->out = o, w->out_cap = cap;
    }
    if (!w->scattered) WR_TRY(wr_remap_add_output(&w->map, k->rank, err));
    s->out = w->nout;
    w->out[w->nout++] = (wr_sealed){0};
    return WR_OK;
}

static wr_code close_file(work *k, sink *s, wr_sealed *ret, wr_err *err) {
    wr_rewrite *w = k->w;
    wr_parquet_file pf = {0};
    wr_ice_file *f = ret->file = wr_ice_file_new(WR_ICE_DATA, s->uri);
    if (!f || !(f->format = wr_strdup("PARQUET"))) return wr_nomem(err, "file entry", 256);
    WR_TRY(wr_ice_file_set_partition(f, w->how.spec->id, s->tuple, err));
    k->open--;
    WR_TRY(wr_parquet_writer_close(WR_STEAL(s->writer), &pf, err));
    f->records = pf.rows, f->bytes = pf.bytes;
    f->stats = WR_STEAL(pf.cols), f->nstats = pf.ncols;
    wr_parquet_file_clear(&pf);
    if (w->wide != w->schema) f->nstats -= 2; /* readers plan by columns, not by lineage */
    return wr_store_publish(w->t->lake->store, s->uri, s->path, err);
}

static wr_code build_run(const work *k, sink *s, wr_sealed *ret, wr_err *err) {
    const wr_rewrite *w = k->w;
    const char *paths[1] = {ret->file->path};
    size_t stem = strlen(w->run_path) - strlen(".run");
    WR_AUTO char *path = wr_asprintf("%.*s-%d.run", (int)stem, w->run_path, s->out);
    if (!path) return wr_nomem(err, "index run path", 64);
    return wr_run_build(w->plan, s->entries, s->n, paths, 1, path, &ret->run, err);
}

static wr_code end_output(work *k, sink *s, wr_err *err) {
    wr_rewrite *w = k->w;
    WR_TRY(end_group(k, s, err));
    if (!s->writer) return WR_OK;
    wr_sealed sealed = {0};
    wr_code rc = close_file(k, s, &sealed, err);
    if (rc == WR_OK && WR_FAULT("lake.compact")) rc = wr_fail(err, WR_E_IO, WR_RETRY_SOON, "injected: compaction");
    if (rc == WR_OK) rc = build_run(k, s, &sealed, err);
    if (rc != WR_OK) return sealed.file ? remove_output(w, &sealed) : (void)0, rc;
    w->bytes_out += sealed.file->bytes;
    w->out[s->out] = sealed;
    wr_free(s->uri), wr_free(s->path);
    s->uri = s->path = NULL, s->n = 0;
    return WR_OK;
}

/* ------------------------------------------------------------------ worker: rows */
static wr_code entry_room(sink *s, wr_err *err) {
    if (s->n < s->cap) return WR_OK;
    uint32_t cap = s->cap ? s->cap * 2 : 16;
    wr_run_entry *e = wr_realloc(s->entries, (size_t)cap * sizeof *e);
    if (!e) return wr_nomem(err, "index run", (size_t)cap * sizeof *e);
    s->entries = e, s->cap = cap;
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
static wr_code append(work *k, sink *s, uint64_t pos, wr_slice row, wr_err *err) {
    const wr_rewrite *w = k->w;
    const wr_rewrite_input *in = &w->in[k->at];
    int n = w->schema->ncols;
    if (w->wide == w->schema) return wr_batch_append(s->batch, row, err);
    if (k->vals[n].null && in->first_row_id >= 0) k->vals[n] = (wr_value){.i64 = in->first_row_id + (int64_t)pos};
    if (k->vals[n + 1].null && in->sequence >= 0) k->vals[n + 1] = (wr_value){.i64 = in->sequence};
    wr_buf_clear(&k->wide_row);
    size_t r = wr_row_begin(&k->wide_row, n + 2);
    for (int i = 0; i < n + 2; i++) wr_row_put(&k->wide_row, r, i, w->wide->cols[i].type, &k->vals[i]);
    WR_TRY(wr_buf_check(&k->wide_row, "row", err));
    return wr_batch_append(s->batch, wr_buf_view(&k->wide_row), err);
}

static wr_code into(work *k, sink *s, uint64_t pos, wr_slice row, wr_err *err) {
    if (!s->n) WR_TRY(new_output(k, s, err));
    if (!s->batch) {
        WR_TRY(wr_batch_new(k->w->wide, &s->batch, err));
        k->held += wr_batch_bytes(s->batch);
    }
    size_t before = wr_batch_bytes(s->batch);
    WR_TRY(entry_room(s, err));
    wr_run_entry *e = &s->entries[s->n];
    *e = (wr_run_entry){.row = s->n};
    WR_TRY(key_of(k, row, &e->key, err));
    WR_TRY(append(k, s, pos, row, err));
    if (k->w->scattered) k->w->map.to[k->rank] = (uint64_t)s->out << 32 | s->n;
    s->n++;
    k->held += wr_batch_bytes(s->batch) - before;
    k->seen_bytes += wr_batch_bytes(s->batch) - before, k->seen_rows++;
    return WR_OK;
}

static wr_code settle(work *k, sink *s, wr_err *err) {
    const wr_rewrite *w = k->w;
    if (s->batch && (wr_batch_rows(s->batch) >= GROUP_ROWS || wr_batch_bytes(s->batch) >= w->group_bytes)) WR_TRY(end_group(k, s, err));
    bool full = s->n >= WR_POLICY_ROWS || (s->writer && !s->batch && wr_parquet_writer_bytes(s->writer) >= w->output_bytes);
    return full ? end_output(k, s, err) : WR_OK;
}

/* More rows than was thought: the largest batch goes to its file. */
static wr_code relieve(work *k, wr_err *err) {
    sink *big = NULL;
    if (k->held <= 2 * k->w->group_bytes) return WR_OK;
    for (uint32_t i = 0; i < k->nsinks; i++) {
        sink *s = &k->sinks[i];
        if (s->batch && (!big || wr_batch_bytes(s->batch) > wr_batch_bytes(big->batch))) big = s;
    }
    if (!big) return WR_OK;
    return big->writer || k->open < PASS_SINKS ? end_group(k, big, err) : end_output(k, big, err);
}

/* *ret_live: it is one of those that are rewritten. */
static wr_code meet_row(work *k, uint64_t pos, bool *ret_live, wr_err *err) {
    const wr_rewrite *w = k->w;
    const roaring_bitmap_t *dead = w->map.in[k->at].dead;
    if (pos != k->seen++) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "row %" PRIu64 " of %s comes as row %" PRIu64, pos, w->in[k->at].uri, k->seen - 1);
    if (__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) return wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "compaction is not wanted any more");
    *ret_live = !dead || !roaring_bitmap_contains(dead, (uint32_t)pos);
    return WR_OK;
}

static wr_code take_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    work *k = ctx;
    bool live;
    WR_TRY(meet_row(k, pos, &live, err));
    if (!live) return WR_OK;
    uint32_t to = k->w->scattered ? k->part[k->rank] - k->first : 0;
    if (to >= k->nsinks) return k->rank++, WR_OK; /* another pass takes it */
    WR_TRY(into(k, &k->sinks[to], pos, row, err));
    k->rank++;
    WR_TRY(settle(k, &k->sinks[to], err));
    return k->w->scattered ? relieve(k, err) : WR_OK;
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

static wr_code read_input(work *k, const wr_parquet_read_options *o, const wr_schema *schema, wr_code (*fn)(void *, uint64_t, wr_slice, wr_err *), void *ctx, wr_err *err) {
    wr_rewrite *w = k->w;
    const wr_remap_input *in = &w->map.in[k->at];
    const char *uri = w->in[k->at].uri;
    k->seen = 0;
    WR_TRY(wr_table_read_file(w->t, uri, schema, o, fn, ctx, err));
    if (k->seen == in->records) return WR_OK;
    return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "%s has %" PRIu64 " rows, not the %" PRIu64 " that the table's metadata says", uri, k->seen, in->records);
}

static wr_code read_rows(work *k, wr_err *err) {
    return read_input(k, &(wr_parquet_read_options){.fill_initial = true}, k->w->wide, take_row, k, err);
}

/* In order: a partition's inputs stand together. */
static wr_code run_in_order(work *k, wr_err *err) {
    const wr_rewrite *w = k->w;
    sink *s = &k->sinks[0];
    for (k->at = 0; k->at < w->nin; k->at++) {
        const wr_rewrite_input *in = &w->in[k->at];
        wr_slice tuple = w->how.spec->n ? wr_slice_of(in->tuple, in->tuple_n) : (wr_slice){0};
        if (!wr_slice_eq(tuple, s->tuple)) WR_TRY(end_output(k, s, err));
        s->tuple = tuple;
        WR_TRY(read_rows(k, err));
    }
    return end_output(k, s, err);
}

/* ------------------------------------------------------------------ worker: scattered */
typedef struct census { /* of the columns that partitions are made from */
    work *k;
    wr_schema *schema;
    wr_spread how;
    wr_value *vals;
    wr_buf tuple;
} census;

static void census_clear(census *c) {
    wr_spread_clear(&c->how);
    wr_schema_unref(c->schema);
    wr_free(c->vals);
    wr_buf_free(&c->tuple);
}

static wr_code count_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    census *c = ctx;
    work *k = c->k;
    bool live;
    WR_TRY(meet_row(k, pos, &live, err));
    if (!live) return WR_OK;
    wr_buf_clear(&c->tuple);
    WR_TRY(wr_row_read(c->schema, row, c->vals, err));
    WR_TRY(wr_spec_tuple(c->how.spec, c->how.cols, c->vals, &c->tuple, err));
    return wr_tuples_number(&k->tuples, wr_buf_view(&c->tuple), &k->part[k->rank++], err);
}

static wr_code source_columns(const wr_rewrite *w, census *c, int *cols, int *ret_n, wr_err *err) {
    WR_AUTO wr_column *defs = wr_calloc((size_t)w->how.spec->n + 1, sizeof *defs);
    int n = 0;
    if (!defs) return wr_nomem(err, "partition columns", 64);
    for (int i = 0; i < w->how.spec->n; i++) {
        int at = w->how.cols[i], k = 0;
        while (k < n && cols[k] != at) k++;
        if (at < 0 || k < n) continue;
        defs[n] = w->schema->cols[at], defs[n].key_ord = 0;
        cols[n++] = at;
    }
    *ret_n = n;
    WR_TRY(wr_schema_new(defs, n, w->schema->version, &c->schema, err));
    c->vals = wr_calloc((size_t)n + 1, sizeof *c->vals);
    return c->vals ? wr_spread_init(&c->how, w->how.spec, c->schema, err) : wr_nomem(err, "partition columns", 64);
}

/* Which partition each row is of, and how many rows each has. */
static wr_code take_census(work *k, wr_err *err) {
    const wr_rewrite *w = k->w;
    WR_CLEANUP(census_clear) census c = {.k = k};
    WR_AUTO int *cols = wr_calloc((size_t)w->how.spec->n + 1, sizeof *cols);
    wr_parquet_read_options o = {.columns = cols, .fill_initial = true};
    k->part = wr_malloc(((size_t)w->map.live + 1) * sizeof *k->part);
    if (!cols || !k->part) return wr_nomem(err, "partitions", w->map.live * sizeof *k->part);
    WR_TRY(source_columns(w, &c, cols, &o.ncolumns, err));
    for (k->at = 0; k->at < w->nin; k->at++) WR_TRY(read_input(k, &o, w->schema, count_row, &c, err));
    k->rows = wr_calloc((size_t)k->tuples.n + 1, sizeof *k->rows);
    if (!k->rows) return wr_nomem(err, "partitions", (size_t)k->tuples.n * sizeof *k->rows);
    for (uint64_t i = 0; i < k->rank; i++) k->rows[k->part[i]]++;
    return WR_OK;
}

/* Partitions from k->first on whose rows are taken in the next pass. */
static uint32_t next_pass(const work *k) {
    const wr_rewrite *w = k->w;
    uint64_t row = k->seen_rows ? k->seen_bytes / k->seen_rows + 1 : w->bytes_in * ROW_FACTOR / (w->map.live + 1) + 16, bytes = 0;
    uint32_t n = 0;
    for (; k->first + n < k->tuples.n; n++) {
        bytes += k->rows[k->first + n] * row;
        if (n >= PASS_SINKS && bytes > w->group_bytes) break;
    }
    return n;
}

/* All files of a pass are announced at once. */
static wr_code begin_pass(work *k, uint32_t n, wr_err *err) {
    const wr_rewrite *w = k->w;
    WR_AUTO const char **uris = wr_calloc((size_t)n + 1, sizeof *uris);
    sink *sinks = wr_realloc(k->sinks, ((size_t)n + 1) * sizeof *sinks);
    if (sinks) k->sinks = sinks;
    if (!sinks || !uris) return wr_nomem(err, "new files", (size_t)n * sizeof *sinks);
    for (k->nsinks = 0; k->nsinks < n; k->nsinks++) {
        sink *s = &sinks[k->nsinks];
        *s = (sink){.tuple = wr_tuples_get(&k->tuples, k->first + k->nsinks)};
        WR_TRY(wr_table_new_data_uri(w->t, w->how.spec, s->tuple, &s->uri, err));
        uris[k->nsinks] = s->uri;
    }
    return wr_ice_announce(w->t->lake->state, uris, (int)n, err);
}

static wr_code run_scattered(work *k, wr_err *err) {
    const wr_rewrite *w = k->w;
    k->nsinks = 0;
    WR_TRY(take_census(k, err));
    for (uint32_t n; (n = next_pass(k)) > 0; k->first += n) {
        WR_TRY(begin_pass(k, n, err));
        k->rank = 0;
        for (k->at = 0; k->at < w->nin; k->at++) WR_TRY(read_rows(k, err));
        for (uint32_t i = 0; i < n; i++) {
            WR_TRY(end_output(k, &k->sinks[i], err));
            sink_clear(&k->sinks[i]);
        }
        k->nsinks = 0;
    }
    return WR_OK;
}

wr_code wr_rewrite_run(wr_rewrite *w, wr_err *err) {
    WR_CLEANUP(work_clear) work k = {.w = w, .nsinks = 1, .sinks = wr_calloc(1, sizeof *k.sinks), .vals = wr_calloc((size_t)w->wide->ncols + 1, sizeof *k.vals)};
    if (!k.vals || !k.sinks) return k.nsinks = 0, wr_nomem(err, "row", (size_t)w->wide->ncols * sizeof *k.vals);
    WR_TRY(read_lineage(w, err));
    return w->scattered ? run_scattered(&k, err) : run_in_order(&k, err);
}
