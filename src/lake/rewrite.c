#include "rewrite.h"
#include <inttypes.h>
#include <string.h>
#include "policy.h"
#include "shuffle.h"
#include "weir/base/fault.h"
#include "weir/base/large.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define ROW_ID 2147483540  /* Iceberg's reserved field ids of row lineage (spec, v3) */
#define ROW_SEQ 2147483539
#define GROUP_ROWS 122880  /* of a row group, unless its memory ends it before */
#define PARTS_NAMED 256    /* partitions whose first files are announced at once: each announcement is made durable */

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
    WR_TRY(wr_order_copy(t->order, &w->order, err));
    WR_TRY(widen(w, err));
    WR_TRY(wr_key_plan_new(w->wide, &w->wide_plan, err));
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
    for (int i = 0; i < w->nin; i++) wr_free(w->in[i].uri), wr_free(w->in[i].tuple);
    wr_spread_clear(&w->how);
    wr_free(w->in), wr_free(w->out), wr_free(w->list), wr_free(w->run_path), wr_free(w->ns), wr_free(w->name);
    wr_remap_clear(&w->map);
    if (w->wide != w->schema) wr_schema_unref(w->wide);
    wr_schema_unref(w->schema);
    wr_key_plan_free(w->plan), wr_key_plan_free(w->wide_plan);
    wr_order_free(w->order);
    wr_free(w);
}

/* ------------------------------------------------------------------ worker: one output */
typedef struct part { /* the outputs' rows of one partition */
    wr_slice tuple;
    uint64_t rows, end; /* place behind the last one */
    char *uri;          /* of its first file, once it is announced */
} part;

typedef struct work {
    wr_rewrite *w;
    int at;                /* input under way */
    uint64_t seen, rank;   /* rows of it; live rows of all inputs, while it is worked out where they go */
    uint64_t place;        /* rows of the outputs so far */
    part *parts;
    uint32_t nparts, part, named; /* the one under way; whose first files are announced */
    wr_tuples tuples;      /* scattered: of the parts */
    uint32_t *part_of;     /* [live] by rank; NULL = all rows are of one part */
    wr_shuffle *shuffle;   /* NULL = rows are given on as they come */
    wr_batch *batch;
    wr_parquet_writer *writer;
    char *uri, *path;      /* of the output under way, and the file that becomes it */
    wr_run_entry *entries; /* its rows */
    uint32_t n, cap;
    wr_buf row;
} work;

static void work_clear(work *k) {
    wr_batch_free(k->batch);
    wr_parquet_writer_abandon(k->writer); /* the journal has it */
    for (uint32_t i = 0; k->parts && i < k->nparts; i++) wr_free(k->parts[i].uri);
    wr_free(k->parts), wr_free(k->part_of);
    wr_tuples_clear(&k->tuples);
    wr_free(k->uri), wr_free(k->path);
    wr_free(k->entries);
    wr_shuffle_free(k->shuffle);
    wr_buf_free(&k->row);
}

static wr_code name_parts(work *k, wr_err *err) {
    const wr_rewrite *w = k->w;
    const char *uris[PARTS_NAMED];
    int n = 0;
    for (; k->named < k->nparts && n < PARTS_NAMED; k->named++) {
        part *p = &k->parts[k->named];
        if (!p->rows) continue;
        WR_TRY(wr_table_new_data_uri(w->t, w->how.spec, p->tuple, &p->uri, err));
        uris[n++] = p->uri;
    }
    return wr_ice_announce(w->t->lake->state, uris, n, err);
}

static wr_code name_output(work *k, wr_err *err) {
    const wr_rewrite *w = k->w;
    part *p = &k->parts[k->part];
    if (k->part >= k->named) WR_TRY(name_parts(k, err));
    if (p->uri) return k->uri = WR_STEAL(p->uri), WR_OK;
    WR_TRY(wr_table_new_data_uri(w->t, w->how.spec, p->tuple, &k->uri, err));
    return wr_ice_announce(w->t->lake->state, (const char *const *)&k->uri, 1, err);
}

static wr_code begin_output(work *k, wr_err *err) {
    wr_rewrite *w = k->w;
    WR_TRY(name_output(k, err));
    WR_TRY(wr_store_stage(w->t->lake->store, k->uri, &k->path, err));
    wr_parquet_options opts = wr_order_options(w->order);
    return wr_parquet_writer_open(w->wide, k->path, &opts, &k->writer, err);
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
    WR_TRY(wr_ice_file_set_partition(s->file, w->how.spec->id, k->parts[k->part].tuple, err));
    WR_TRY(wr_parquet_writer_close(WR_STEAL(k->writer), &pf, err));
    s->file->records = pf.rows, s->file->bytes = pf.bytes;
    s->file->stats = WR_STEAL(pf.cols), s->file->nstats = pf.ncols;
    s->file->sorted_by = w->sorted ? wr_ice_sorted_by(&w->order->sort) : 0;
    wr_parquet_file_clear(&pf);
    if (w->wide != w->schema) s->file->nstats -= 2; /* readers plan by columns, not by lineage */
    return wr_store_publish(w->t->lake->store, &(wr_store_file){k->uri, k->path}, 1, err);
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
    WR_TRY(wr_remap_add_output(&w->map, k->place - k->n, err));
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

/* The key is in the row with its lineage where it is without; a row that is its own key is hashed without. */
static wr_code key_of(work *k, wr_slice row, wr_key *ret_key, wr_err *err) {
    const wr_rewrite *w = k->w;
    int n = w->schema->ncols;
    if (w->wide == w->schema || w->plan->form != WR_KEY_ROW) return wr_key_of(w->wide_plan, row, ret_key, err);
    size_t nulls = ((size_t)n + 7) / 8, wide_nulls = ((size_t)n + 9) / 8, tail = 0;
    if (row.n < wide_nulls) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "a row of %zu bytes", row.n);
    for (int i = n; i < n + 2; i++) tail += row.p[i / 8] >> (i % 8) & 1 ? 0 : 8;
    if (row.n < wide_nulls + tail) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "a row of %zu bytes", row.n);
    wr_buf_clear(&k->row);
    wr_buf_put(&k->row, row.p, nulls);
    if (n % 8 && !k->row.failed) k->row.p[nulls - 1] &= (uint8_t)((1u << n % 8) - 1);
    wr_buf_put(&k->row, row.p + wide_nulls, row.n - wide_nulls - tail);
    WR_TRY(wr_buf_check(&k->row, "row", err));
    return wr_key_of(w->plan, wr_buf_view(&k->row), ret_key, err);
}

/* On to the partition of the next row. */
static wr_code next_part(work *k, wr_err *err) {
    WR_TRY(end_output(k, err));
    while (k->place == k->parts[k->part].end) k->part++;
    return WR_OK;
}

/* The next row of the outputs. */
static wr_code put_row(void *ctx, wr_slice row, wr_err *err) {
    work *k = ctx;
    wr_rewrite *w = k->w;
    if (__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) return wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "compaction is not wanted any more");
    if (k->place == k->parts[k->part].end) WR_TRY(next_part(k, err));
    if (row.n >= WR_LARGE_BYTES) WR_TRY(end_group(k, err));
    if (!k->batch) WR_TRY(wr_batch_new(w->wide, &k->batch, err));
    WR_TRY(entry_room(k, err));
    wr_run_entry *e = &k->entries[k->n];
    *e = (wr_run_entry){.row = k->n};
    WR_TRY(key_of(k, row, &e->key, err));
    WR_TRY(wr_batch_append_loan(k->batch, row, err));
    k->n++, k->place++;
    if (row.n >= WR_LARGE_BYTES || wr_batch_rows(k->batch) >= GROUP_ROWS || wr_batch_bytes(k->batch) >= w->group_bytes) WR_TRY(end_group(k, err));
    bool full = k->n >= WR_POLICY_ROWS || (k->writer && !k->batch && wr_parquet_writer_bytes(k->writer) >= w->output_bytes);
    return full ? end_output(k, err) : WR_OK;
}

/* Whether the next row of the input under way is to be left out. */
static wr_code pass(work *k, uint64_t pos, bool *ret_dead, wr_err *err) {
    const wr_rewrite *w = k->w;
    const roaring_bitmap_t *dead = w->map.in[k->at].dead;
    if (pos != k->seen++) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "row %" PRIu64 " of %s comes as row %" PRIu64, pos, w->in[k->at].uri, k->seen - 1);
    *ret_dead = dead && roaring_bitmap_contains(dead, (uint32_t)pos);
    if (__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) return wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "compaction is not wanted any more");
    return WR_OK;
}

static wr_code take_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    work *k = ctx;
    bool dead;
    WR_TRY(pass(k, pos, &dead, err));
    if (dead) return WR_OK;
    return k->shuffle ? wr_shuffle_put(k->shuffle, row, err) : put_row(k, row, err);
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

/* ------------------------------------------------------------------ worker: whose partition rows are of */
/* A partition's inputs stand together. */
static wr_code parts_of_inputs(work *k, wr_err *err) {
    const wr_rewrite *w = k->w;
    const wr_remap *m = &w->map;
    k->parts = wr_calloc((size_t)w->nin + 1, sizeof *k->parts);
    if (!k->parts) return wr_nomem(err, "partitions", (size_t)w->nin * sizeof *k->parts);
    for (int i = 0; i < w->nin; i++) {
        wr_slice tuple = w->how.spec->n ? wr_slice_of(w->in[i].tuple, w->in[i].tuple_n) : (wr_slice){0};
        if (!k->nparts || !wr_slice_eq(k->parts[k->nparts - 1].tuple, tuple)) k->parts[k->nparts++].tuple = tuple;
        k->parts[k->nparts - 1].rows += (i + 1 < w->nin ? m->in[i + 1].base : m->live) - m->in[i].base;
    }
    if (k->nparts < 2 || !w->order->nkeys) return WR_OK;
    if (!(k->part_of = wr_malloc((m->live + 1) * sizeof *k->part_of))) return wr_nomem(err, "partitions", m->live * sizeof *k->part_of);
    uint64_t rank = 0;
    for (uint32_t p = 0; p < k->nparts; p++)
        for (uint64_t n = k->parts[p].rows; n; n--) k->part_of[rank++] = p;
    return WR_OK;
}

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
    bool dead;
    WR_TRY(pass(k, pos, &dead, err));
    if (dead) return WR_OK;
    wr_buf_clear(&c->tuple);
    WR_TRY(wr_row_read(c->schema, row, c->vals, err));
    WR_TRY(wr_spec_tuple(c->how.spec, c->how.cols, c->vals, &c->tuple, err));
    return wr_tuples_number(&k->tuples, wr_buf_view(&c->tuple), &k->part_of[k->rank++], err);
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

/* Scattered: each row is of the partition that the present spec has it in. */
static wr_code parts_of_rows(work *k, wr_err *err) {
    const wr_rewrite *w = k->w;
    WR_CLEANUP(census_clear) census c = {.k = k};
    WR_AUTO int *cols = wr_calloc((size_t)w->how.spec->n + 1, sizeof *cols);
    wr_parquet_read_options o = {.columns = cols, .fill_initial = true};
    k->part_of = wr_malloc(((size_t)w->map.live + 1) * sizeof *k->part_of);
    if (!cols || !k->part_of) return wr_nomem(err, "partitions", w->map.live * sizeof *k->part_of);
    WR_TRY(source_columns(w, &c, cols, &o.ncolumns, err));
    for (k->at = 0; k->at < w->nin; k->at++) WR_TRY(read_input(k, &o, w->schema, count_row, &c, err));
    k->parts = wr_calloc((size_t)k->tuples.n + 1, sizeof *k->parts);
    if (!k->parts) return wr_nomem(err, "partitions", (size_t)k->tuples.n * sizeof *k->parts);
    k->nparts = k->tuples.n;
    for (uint32_t i = 0; i < k->nparts; i++) k->parts[i].tuple = wr_tuples_get(&k->tuples, i);
    for (uint64_t i = 0; i < k->rank; i++) k->parts[k->part_of[i]].rows++;
    return WR_OK;
}

/* ------------------------------------------------------------------ worker: where rows go */
typedef struct sorting {
    work *k;
    wr_schema *schema; /* of the sort columns, in the order's order */
    wr_sort_key *keys;
    int *columns;
    wr_sorter *sorter;
} sorting;

static void sorting_clear(sorting *x) {
    wr_sorter_free(x->sorter);
    wr_schema_unref(x->schema);
    wr_free(x->keys), wr_free(x->columns);
}

static wr_code sort_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    sorting *x = ctx;
    bool dead;
    WR_TRY(pass(x->k, pos, &dead, err));
    return dead ? WR_OK : wr_sorter_add(x->sorter, row, err);
}

static wr_code sorting_begin(sorting *x, const wr_rewrite *w, wr_err *err) {
    const wr_order *o = w->order;
    size_t n = (size_t)o->nkeys;
    WR_AUTO wr_column *cols = wr_calloc(n, sizeof *cols);
    x->keys = wr_calloc(n, sizeof *x->keys), x->columns = wr_calloc(n, sizeof *x->columns);
    if (!cols || !x->keys || !x->columns) return wr_nomem(err, "sort", n * sizeof *cols);
    for (int i = 0; i < o->nkeys; i++) {
        cols[i] = w->schema->cols[o->keys[i].col], cols[i].key_ord = 0;
        x->columns[i] = o->keys[i].col;
        x->keys[i] = o->keys[i], x->keys[i].col = i;
    }
    WR_TRY(wr_schema_new(cols, o->nkeys, 1, &x->schema, err));
    return wr_sorter_new(x->schema, x->keys, o->nkeys, WR_REWRITE_KEY_BYTES, &x->sorter, err);
}

/* All live rows by the order alone. *ret_rows NULL: they are in it. */
static wr_code order_rows(work *k, uint32_t **ret_rows, wr_err *err) {
    wr_rewrite *w = k->w;
    WR_CLEANUP(sorting_clear) sorting x = {.k = k};
    uint64_t n;
    WR_TRY(sorting_begin(&x, w, err));
    wr_parquet_read_options o = {.columns = x.columns, .ncolumns = w->order->nkeys, .fill_initial = true};
    for (k->at = 0; k->at < w->nin; k->at++) WR_TRY(read_input(k, &o, w->schema, sort_row, &x, err));
    return wr_sorter_finish(x.sorter, ret_rows, &n, err);
}

static wr_code sort(work *k, uint32_t **ret_rows, wr_err *err) {
    wr_rewrite *w = k->w;
    if (!w->order->nkeys) return WR_OK;
    wr_err why = WR_ERR_INIT;
    wr_code rc = order_rows(k, ret_rows, &why);
    w->sorted = rc == WR_OK;
    if (rc != WR_E_LIMIT) return rc == WR_OK ? WR_OK : (*err = why, rc);
    wr_log(WR_LOG_DEBUG, "compaction of %s.%s leaves its rows unsorted: %s", w->ns, w->name, why.msg); /* too many to sort: still worth rewriting */
    return WR_OK;
}

/* The place of each live row: partition after partition, in each by the order. The map has them afterwards, unless all rows are at theirs. */
static wr_code find_places(work *k, const uint32_t *rows, wr_err *err) {
    wr_remap *m = &k->w->map;
    uint64_t live = m->live, at = 0;
    bool moved = false;
    WR_AUTO uint64_t *next = wr_calloc((size_t)k->nparts + 1, sizeof *next);
    WR_AUTO uint32_t *place = NULL;
    if (!next) return wr_nomem(err, "partitions", (size_t)k->nparts * sizeof *next);
    for (uint32_t p = 0; p < k->nparts; p++) next[p] = at, k->parts[p].end = at += k->parts[p].rows;
    if (!rows && !k->part_of) return WR_OK;
    if (!(place = wr_malloc((live + 1) * sizeof *place))) return wr_nomem(err, "sort", live * sizeof *place);
    for (uint64_t i = 0; i < live; i++) {
        uint64_t rank = rows ? rows[i] : i, to = next[k->part_of ? k->part_of[rank] : 0]++;
        place[rank] = (uint32_t)to;
        moved |= to != rank;
    }
    if (moved) m->place = WR_STEAL(place);
    return WR_OK;
}

static wr_code arrange(work *k, wr_err *err) {
    wr_rewrite *w = k->w;
    WR_AUTO uint32_t *rows = NULL;
    WR_TRY(w->scattered ? parts_of_rows(k, err) : parts_of_inputs(k, err));
    WR_TRY(sort(k, &rows, err));
    WR_TRY(find_places(k, rows, err));
    wr_free(k->part_of);
    k->part_of = NULL;
    if (!w->map.place) return WR_OK;
    const char *slash = strrchr(w->run_path, '/');
    WR_AUTO char *dir = wr_strndup(w->run_path, (size_t)(slash - w->run_path));
    if (!dir) return wr_nomem(err, "path", 256);
    return wr_shuffle_new(w->map.place, w->map.live, w->group_bytes, dir, &k->shuffle, err);
}

/* With what rows inherit of their file written out: in the new one they would inherit something else. */
static wr_code read_rows(work *k, wr_err *err) {
    wr_rewrite *w = k->w;
    const wr_rewrite_input *in = &w->in[k->at];
    int n = w->schema->ncols;
    wr_inherit lineage[2] = {{n, in->first_row_id, true}, {n + 1, in->sequence, false}};
    wr_parquet_read_options o = {.fill_initial = true, .inherit = lineage, .ninherit = w->wide == w->schema ? 0 : 2};
    return read_input(k, &o, w->wide, take_row, k, err);
}

wr_code wr_rewrite_run(wr_rewrite *w, wr_err *err) {
    WR_CLEANUP(work_clear) work k = {.w = w};
    WR_TRY(read_lineage(w, err));
    WR_TRY(arrange(&k, err));
    for (k.at = 0; k.at < w->nin; k.at++) WR_TRY(read_rows(&k, err));
    if (k.shuffle) WR_TRY(wr_shuffle_each(k.shuffle, put_row, &k, err));
    return end_output(&k, err);
}
