#include "partition.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define GROUP_BYTES (8u << 20) /* rows of one partition in memory beside their batch */
#define GROUP_ROWS 122880
#define THIN_FILES 16          /* so many files of a chunk of a load are never too many; of more each must be worth it: */
#define THIN_BYTES (1u << 20)  /* rows of one partition in memory */

/* ------------------------------------------------------------------ spec and schema */
wr_code wr_spread_init(wr_spread *s, const wr_spec *spec, const wr_schema *schema, wr_err *err) {
    int *cols = wr_calloc((size_t)spec->n + 1, sizeof *cols);
    if (!cols) return wr_nomem(err, "partition", (size_t)spec->n * sizeof *cols);
    for (int i = 0; i < spec->n; i++) cols[i] = spec->fields[i].kind == WR_TERM_VOID ? -1 : wr_schema_find_id(schema, spec->fields[i].source_id);
    *s = (wr_spread){wr_spec_ref(spec), wr_schema_ref(schema), cols};
    return WR_OK;
}

void wr_spread_clear(wr_spread *s) {
    wr_spec_unref(s->spec);
    wr_schema_unref(s->schema);
    wr_free(s->cols);
    *s = (wr_spread){0};
}

static wr_code add_term(wr_term *terms, int *n, const wr_term *t, wr_err *err) {
    char *column = wr_strdup(t->column);
    if (!column) return wr_nomem(err, "partition", 64);
    terms[*n] = *t, terms[(*n)++].column = column;
    return WR_OK;
}

/* The table's default spec in terms of the schema; what is void, or of a column that is gone, is left out. */
static wr_code default_terms(const wr_table *t, const wr_schema *schema, wr_term **ret, int *ret_n, wr_err *err) {
    WR_CLEANUP(wr_specs_clear) wr_specs all = {0};
    WR_TRY(wr_ice_specs(t->ice, &all, err));
    const wr_spec *s = wr_specs_find(&all, wr_ice_default_spec(t->ice));
    if (!s) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "the default partition spec %d is not among the table's", wr_ice_default_spec(t->ice));
    if (s->why_not) {
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "somebody gave %s.%s a partition spec that Weir cannot write: %s", t->ns, t->name, s->why_not);
        return wr_err_cure(err, "say with lake.layout how the table is partitioned; partition: [] for not at all");
    }
    if (!(*ret = wr_calloc((size_t)s->n + 1, sizeof **ret))) return wr_nomem(err, "partition", 64);
    for (int i = 0; i < s->n; i++) {
        int c = wr_schema_find_id(schema, s->fields[i].source_id);
        if (c < 0 || s->fields[i].kind == WR_TERM_VOID) continue;
        WR_TRY(add_term(*ret, ret_n, &(wr_term){s->fields[i].kind, s->fields[i].width, schema->cols[c].name}, err));
    }
    return WR_OK;
}

/* What the rule says, as far as it fits. A column that was renamed is still meant by its old name. */
static wr_code rule_terms(const wr_table *t, const wr_layout_rule *rule, const wr_schema *schema, wr_spec_reason reason, wr_term **ret, int *ret_n, wr_err *err) {
    if (!(*ret = wr_calloc((size_t)rule->npartition + 1, sizeof **ret))) return wr_nomem(err, "partition", 64);
    for (int i = 0; i < rule->npartition; i++) {
        wr_err why = WR_ERR_INIT;
        wr_term term = rule->partition[i];
        int c = wr_schema_find(schema, term.column);
        if (c < 0 && reason != WR_SPEC_CREATE) c = wr_ice_renamed_column(t->ice, term.column, schema);
        if (c >= 0) term.column = schema->cols[c].name;
        if (c >= 0 && wr_term_takes(&term, schema->cols[c].type)) {
            WR_TRY(add_term(*ret, ret_n, &term, err));
            continue;
        }
        wr_code rc = wr_layouts_check_term(t->lake->layouts, rule, i, t->ns, t->name, schema, &why);
        if (rc != WR_E_CONFIG || reason == WR_SPEC_CREATE || ((reason == WR_SPEC_OPEN || reason == WR_SPEC_RENAME) && !wr_ice_had_column(t->ice, rule->partition[i].column))) return *err = why, rc;
        else wr_log(WR_LOG_WARN, "%s; the table goes on without", why.msg);
    }
    return WR_OK;
}

static void free_terms(wr_term *terms, int n) {
    for (int i = 0; i < n; i++) wr_free(terms[i].column);
    wr_free(terms);
}

/* Only columns that the current schema has: a catalog takes no spec over others. */
static wr_code confine(const wr_table *t, const wr_schema *schema, wr_term *terms, int *n, wr_err *err) {
    wr_schema *now = NULL;
    int kept = 0;
    WR_TRY(wr_ice_schema(t->ice, &now, err));
    for (int i = 0; i < *n; i++) {
        if (wr_schema_find_id(now, schema->cols[wr_schema_find(schema, terms[i].column)].id) >= 0) terms[kept++] = terms[i];
        else wr_free(terms[i].column);
    }
    *n = kept;
    wr_schema_unref(now);
    return WR_OK;
}

/* A catalog that owns the metadata gives a new spec the number behind the largest it has. Publishing takes clashing specs away, and one of those may be the largest: so the
 * load is written by a spec of its own behind them, made unlike all others by fields that are void, and no number is given twice. */
static wr_code reserve(const wr_table *t, const wr_schema *schema, wr_term **terms, int *n, wr_err *err) {
    WR_CLEANUP(wr_specs_clear) wr_specs all = {0};
    wr_schema *now = NULL;
    int c = 0;
    WR_TRY(wr_ice_specs(t->ice, &all, err));
    WR_TRY(wr_ice_schema(t->ice, &now, err));
    while (c < schema->ncols && wr_schema_find_id(now, schema->cols[c].id) < 0) c++;
    wr_schema_unref(now);
    if (c == schema->ncols) return WR_OK;
    wr_term *more = wr_realloc(*terms, (size_t)(*n + all.n + 1) * sizeof *more);
    if (!more) return wr_nomem(err, "partition", 64);
    *terms = more;
    for (int i = 0; i < all.n; i++) WR_TRY(add_term(more, n, &(wr_term){.kind = WR_TERM_VOID, .column = schema->cols[c].name}, err));
    return WR_OK;
}

/* Whether the spec in force is among the table's, so that another one does not get its number. */
static wr_code is_told(const wr_table *t, bool *ret, wr_err *err) {
    WR_CLEANUP(wr_specs_clear) wr_specs all = {0};
    WR_TRY(wr_ice_specs(t->ice, &all, err));
    const wr_spec *s = wr_specs_find(&all, t->how.spec->id);
    *ret = s && wr_spec_same(s, t->how.spec);
    return WR_OK;
}

static wr_code wanted_terms(const wr_table *t, const wr_schema *schema, wr_spec_reason reason, wr_term **terms, int *n, wr_err *err) {
    const wr_layout_rule *rule = wr_layouts_find(t->lake->layouts, t->ns, t->name);
    WR_TRY(rule && rule->partition ? rule_terms(t, rule, schema, reason, terms, n, err) : default_terms(t, schema, terms, n, err));
    bool confined = reason == WR_SPEC_LOAD || (t->loading && reason != WR_SPEC_PUBLISH);
    if (confined) WR_TRY(confine(t, schema, *terms, n, err));
    return reason == WR_SPEC_LOAD && t->lake->writer && wr_ice_would_clash(t->ice, schema) ? reserve(t, schema, terms, n, err) : WR_OK;
}

static wr_code take_spec(wr_table *t, const wr_term *terms, int n, const wr_schema *schema, wr_err *err) {
    wr_spec *spec;
    wr_spread how;
    WR_TRY(wr_ice_choose_spec(t->ice, terms, n, schema, &spec, err));
    wr_code rc = wr_spread_init(&how, spec, schema, err);
    if (rc == WR_OK) {
        t->spec_dirty = spec->id != wr_ice_default_spec(t->ice);
        wr_spread_clear(&t->how);
        t->how = how;
    }
    wr_spec_unref(spec);
    return rc;
}

wr_code wr_table_settle_spec(wr_table *t, const wr_schema *schema, wr_spec_reason reason, wr_err *err) {
    wr_term *terms = NULL;
    int n = 0;
    bool told = true;
    wr_code rc = reason == WR_SPEC_RENAME || reason == WR_SPEC_PUBLISH ? is_told(t, &told, err) : WR_OK;
    if (rc == WR_OK && !told) return WR_OK; /* the next opening sees to it */
    if (rc == WR_OK) rc = wanted_terms(t, schema, reason, &terms, &n, err);
    if (rc == WR_OK) rc = take_spec(t, terms, n, schema, err);
    free_terms(terms, n);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "partitions of lake table %s.%s", t->ns, t->name);
}

/* ------------------------------------------------------------------ tuples */
void wr_tuples_clear(wr_tuples *t) {
    wr_map_free(t->by_tuple, NULL);
    wr_buf_free(&t->bytes);
    wr_free(t->v);
    *t = (wr_tuples){0};
}

wr_code wr_tuples_number(wr_tuples *t, wr_slice tuple, uint32_t *ret, wr_err *err) {
    if (t->n && wr_slice_eq(wr_tuples_get(t, t->last), tuple)) return *ret = t->last, WR_OK;
    if (!t->by_tuple && !(t->by_tuple = wr_map_new())) return wr_nomem(err, "partitions", 64);
    uintptr_t known = (uintptr_t)wr_map_get(t->by_tuple, tuple);
    if (known) return *ret = t->last = (uint32_t)(known - 1), WR_OK;
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 16;
        void *v = wr_realloc(t->v, (size_t)cap * sizeof *t->v);
        if (!v) return wr_nomem(err, "partitions", (size_t)cap * sizeof *t->v);
        t->v = v, t->cap = cap;
    }
    t->v[t->n].at = t->bytes.n, t->v[t->n].n = (uint32_t)tuple.n;
    wr_buf_put(&t->bytes, tuple.p, tuple.n);
    if (t->bytes.failed || !wr_map_put(t->by_tuple, tuple, (void *)((uintptr_t)t->n + 1))) return wr_nomem(err, "partitions", tuple.n);
    *ret = t->last = t->n++;
    return WR_OK;
}

wr_code wr_tuples_of_file(wr_tuples *t, const wr_ice_file *f, uint32_t *ret_no, wr_err *err) {
    WR_AUTO_BUF wr_buf key = WR_BUF_INIT;
    wr_buf_put(&key, &f->spec_id, sizeof f->spec_id);
    wr_buf_put(&key, f->tuple, f->tuple_n);
    WR_TRY(wr_buf_check(&key, "partition", err));
    return wr_tuples_number(t, wr_buf_view(&key), ret_no, err);
}

/* ------------------------------------------------------------------ places */
wr_code wr_table_new_data_uri(const wr_table *t, const wr_spec *spec, wr_slice tuple, char **ret_uri, wr_err *err) {
    uint64_t r = 0;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "getrandom gave no file name");
    wr_buf_printf(&b, "%s/data/", wr_ice_location(t->ice));
    WR_TRY(wr_spec_folder(spec, tuple, &b, err));
    wr_buf_printf(&b, "%s%013" PRIx64 "-%016" PRIx64 ".parquet", spec->n ? "/" : "", (uint64_t)wr_now_us(), r);
    const char *text = wr_buf_cstr(&b);
    return text && (*ret_uri = wr_strdup(text)) ? WR_OK : wr_nomem(err, "file name", 256);
}

/* ------------------------------------------------------------------ packs */
void wr_pack_clear(wr_pack *p) {
    for (uint32_t i = 0; i < p->n; i++) wr_ice_file_free(p->files[i]);
    wr_free(p->files);
    wr_run_free(p->run, true);
    *p = (wr_pack){0};
}

/* Which row goes where. */
typedef struct split {
    wr_tuples tuples;
    uint32_t *order; /* live rows of the batch by number of their partition, in each as the table's files are sorted */
    bool moved;      /* not as they are in the batch */
    uint32_t *ends;  /* [tuples.n] */
    uint32_t live;
} split;

static void split_clear(split *s) {
    wr_tuples_clear(&s->tuples);
    wr_free(s->order), wr_free(s->ends);
}

static wr_code number_rows(const wr_spread *how, const wr_batch *batch, uint32_t *no, split *s, wr_err *err) {
    WR_AUTO wr_value *vals = wr_calloc((size_t)how->schema->ncols + 1, sizeof *vals);
    WR_AUTO_BUF wr_buf row = WR_BUF_INIT, tuple = WR_BUF_INIT;
    if (!vals) return wr_nomem(err, "row", 256);
    for (uint32_t i = 0; i < wr_batch_rows(batch); i++) {
        if (wr_batch_dead(batch, i)) continue;
        wr_buf_clear(&row), wr_buf_clear(&tuple);
        WR_TRY(wr_batch_row(batch, i, &row, err));
        WR_TRY(wr_row_read(how->schema, wr_buf_view(&row), vals, err));
        WR_TRY(wr_spec_tuple(how->spec, how->cols, vals, &tuple, err));
        WR_TRY(wr_tuples_number(&s->tuples, wr_buf_view(&tuple), &no[i], err));
    }
    return WR_OK;
}

static wr_code split_rows(const wr_spread *how, const wr_order *by, const wr_batch *batch, split *s, wr_err *err) {
    uint32_t rows = wr_batch_rows(batch), none;
    WR_AUTO uint32_t *no = wr_calloc((size_t)rows + 1, sizeof *no);
    WR_AUTO uint32_t *sorted = NULL;
    s->live = wr_batch_live_rows(batch);
    s->order = wr_malloc(((size_t)s->live + 1) * sizeof *s->order);
    if (!no || !s->order) return wr_nomem(err, "partitions", (size_t)rows * sizeof *no);
    if (how->spec->n) WR_TRY(number_rows(how, batch, no, s, err));
    else WR_TRY(wr_tuples_number(&s->tuples, (wr_slice){0}, &none, err));
    if (by->nkeys) WR_TRY(wr_batch_order(batch, by->keys, by->nkeys, &sorted, err)); /* NULL: they are */
    s->moved = sorted != NULL;
    uint32_t n = s->tuples.n, at = 0;
    if (!(s->ends = wr_calloc((size_t)n + 1, sizeof *s->ends))) return wr_nomem(err, "partitions", (size_t)n * sizeof *s->ends);
    for (uint32_t i = 0; i < rows; i++)
        if (!wr_batch_dead(batch, i)) s->ends[no[i]]++;
    for (uint32_t p = 0; p < n; p++) at += s->ends[p], s->ends[p] = at - s->ends[p]; /* where it begins ... */
    for (uint32_t k = 0; sorted && k < s->live; k++) s->order[s->ends[no[sorted[k]]]++] = sorted[k]; /* ... and, at last, ends */
    for (uint32_t i = 0; !sorted && i < rows; i++)
        if (!wr_batch_dead(batch, i)) s->order[s->ends[no[i]]++] = i;
    return WR_OK;
}

static wr_code write_whole(wr_table *t, const wr_batch *batch, const wr_parquet_options *opts, const char *path, wr_parquet_file *pf, wr_err *err) {
    if (WR_FAULT("lake.before_data_file")) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "injected: writing %s", path);
    return wr_parquet_write(t->lake->engine, batch, path, opts, pf, err);
}

/* Some rows of a batch, by way of small ones. */
static wr_code add_rows(wr_parquet_writer *w, const wr_schema *schema, const wr_batch *batch, const uint32_t *rows, uint32_t n, wr_err *err) {
    WR_AUTO_BUF wr_buf row = WR_BUF_INIT;
    wr_batch *group = NULL;
    wr_code rc = WR_OK;
    for (uint32_t i = 0; rc == WR_OK && i < n; i++) {
        if (!group) rc = wr_batch_new(schema, &group, err);
        wr_buf_clear(&row);
        if (rc == WR_OK) rc = wr_batch_row(batch, rows[i], &row, err);
        if (rc == WR_OK) rc = wr_batch_append(group, wr_buf_view(&row), err);
        if (rc != WR_OK || (i + 1 < n && wr_batch_rows(group) < GROUP_ROWS && wr_batch_bytes(group) < GROUP_BYTES)) continue;
        rc = wr_parquet_writer_add(w, group, err);
        wr_batch_free(group);
        group = NULL;
    }
    wr_batch_free(group);
    return rc;
}

static wr_code write_some(const wr_schema *schema, const wr_batch *batch, const wr_parquet_options *opts, const char *path, const uint32_t *rows, uint32_t n, wr_parquet_file *pf, wr_err *err) {
    wr_parquet_writer *w;
    if (WR_FAULT("lake.before_data_file")) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "injected: writing %s", path);
    WR_TRY(wr_parquet_writer_open(schema, path, opts, &w, err));
    wr_code rc = add_rows(w, schema, batch, rows, n, err);
    if (rc == WR_OK) return wr_parquet_writer_close(w, pf, err);
    wr_parquet_writer_abandon(w);
    return rc;
}

/* Takes path over on success. */
static wr_code outbox_add(wr_outbox *o, const char *uri, const char *path, wr_err *err) {
    if (o->n == o->cap) {
        int cap = o->cap ? o->cap * 2 : 8;
        wr_store_file *v = wr_realloc(o->v, (size_t)cap * sizeof *v);
        if (!v) return wr_nomem(err, "new files", (size_t)cap * sizeof *v);
        o->v = v, o->cap = cap;
    }
    char *copy = wr_strdup(uri);
    if (!copy) return wr_nomem(err, "new files", strlen(uri));
    o->v[o->n++] = (wr_store_file){copy, path};
    return WR_OK;
}

static void outbox_forget(wr_outbox *o) {
    for (int i = 0; i < o->n; i++) wr_free((char *)o->v[i].uri), wr_free((char *)o->v[i].path);
    wr_free(o->v);
    *o = (wr_outbox){0};
}

void wr_outbox_clear(wr_outbox *o) {
    for (int i = 0; i < o->n; i++) wr_store_discard(o->v[i].path);
    outbox_forget(o);
}

wr_code wr_outbox_send(wr_outbox *o, wr_store *store, wr_err *err) {
    WR_TRY(wr_store_publish(store, o->v, o->n, err));
    return outbox_forget(o), WR_OK;
}

static wr_code write_file(wr_table *t, const wr_spread *how, const wr_order *by, const wr_batch *batch, const split *s, uint32_t p, wr_ice_file *f, wr_outbox *out, wr_err *err) {
    WR_AUTO char *path = NULL;
    WR_CLEANUP(wr_parquet_file_clear) wr_parquet_file pf = {0};
    wr_parquet_options opts = wr_order_options(by);
    uint32_t from = p ? s->ends[p - 1] : 0;
    WR_TRY(wr_store_stage(t->lake->store, f->path, &path, err));
    if (s->tuples.n == 1) {
        opts.rows = s->moved ? s->order : NULL;
        WR_TRY(write_whole(t, batch, &opts, path, &pf, err));
    } else WR_TRY(write_some(how->schema, batch, &opts, path, s->order + from, s->ends[p] - from, &pf, err));
    wr_code rc = outbox_add(out, f->path, path, err);
    if (rc != WR_OK) return wr_store_discard(path), rc;
    path = NULL;
    f->records = pf.rows, f->bytes = pf.bytes;
    f->stats = WR_STEAL(pf.cols), f->nstats = pf.ncols;
    f->sorted_by = wr_ice_sorted_by(&by->sort);
    return WR_OK;
}

/* One announcement for all: it is durable. */
static wr_code name_files(wr_table *t, const wr_spread *how, const split *s, wr_pack *pack, wr_err *err) {
    WR_AUTO const char **uris = wr_calloc((size_t)s->tuples.n + 1, sizeof *uris);
    pack->files = wr_calloc((size_t)s->tuples.n + 1, sizeof *pack->files);
    if (!uris || !pack->files) return wr_nomem(err, "file entries", (size_t)s->tuples.n * sizeof *uris);
    for (uint32_t p = 0; p < s->tuples.n; p++) {
        WR_AUTO char *uri = NULL;
        wr_slice tuple = wr_tuples_get(&s->tuples, p);
        WR_TRY(wr_table_new_data_uri(t, how->spec, tuple, &uri, err));
        wr_ice_file *f = pack->files[p] = wr_ice_file_new(WR_ICE_DATA, uri);
        if (!f) return wr_nomem(err, "file entry", 256);
        pack->n = p + 1;
        if (!(f->format = wr_strdup("PARQUET"))) return wr_nomem(err, "file entry", 256);
        WR_TRY(wr_ice_file_set_partition(f, how->spec->id, tuple, err));
        uris[p] = f->path;
    }
    return wr_ice_announce(t->lake->state, uris, (int)pack->n, err);
}

static wr_code build_run(const wr_key_plan *plan, const split *s, const wr_key *keys, const char *run_path, wr_pack *pack, wr_err *err) {
    WR_AUTO wr_run_entry *entries = wr_malloc(((size_t)s->live + 1) * sizeof *entries);
    WR_AUTO const char **paths = wr_calloc((size_t)pack->n + 1, sizeof *paths);
    if (!entries || !paths) return wr_nomem(err, "index run", (size_t)s->live * sizeof *entries);
    uint32_t n = 0;
    for (uint32_t p = 0; p < pack->n; p++) {
        uint32_t from = n;
        paths[p] = pack->files[p]->path;
        for (; n < s->ends[p]; n++) entries[n] = (wr_run_entry){keys[s->order[n]], p, n - from};
    }
    return wr_run_build(plan, entries, n, paths, pack->n, run_path, &pack->run, err);
}

static wr_code write_pack(wr_table *t, const wr_key_plan *plan, const wr_spread *how, const wr_order *by, wr_batch *batch, const split *s, const wr_key *keys, const char *run_path, wr_outbox *later, wr_pack *pack, wr_err *err) {
    WR_CLEANUP(wr_outbox_clear) wr_outbox now = {0};
    WR_TRY(name_files(t, how, s, pack, err));
    for (uint32_t p = 0; p < pack->n; p++) WR_TRY(write_file(t, how, by, batch, s, p, pack->files[p], later ? later : &now, err));
    WR_TRY(wr_outbox_send(&now, t->lake->store, err));
    return build_run(plan, s, keys, run_path, pack, err);
}

static bool is_thin(const wr_batch *batch, const split *s) { return s->tuples.n > THIN_FILES && wr_batch_bytes(batch) / s->tuples.n < THIN_BYTES; }

static wr_code write_plain(wr_table *t, const wr_key_plan *plan, const wr_spread *how, const wr_order *by, wr_batch *batch, const wr_key *keys, const char *run_path, wr_outbox *later, wr_pack *pack, wr_err *err) {
    WR_CLEANUP(split_clear) split s = {0};
    wr_spread plain = {.spec = &(wr_spec){.id = WR_PLAIN_SPEC}, .schema = how->schema};
    WR_TRY(split_rows(&plain, by, batch, &s, err));
    return write_pack(t, plan, &plain, by, batch, &s, keys, run_path, later, pack, err);
}

wr_code wr_table_write_rows(wr_table *t, const wr_key_plan *plan, const wr_spread *how, const wr_order *order, wr_write_mode mode, wr_batch *batch, const wr_key *keys, const char *run_path, wr_outbox *later, wr_pack *ret, wr_err *err) {
    WR_CLEANUP(split_clear) split s = {0};
    wr_pack pack = {0};
    WR_TRY(split_rows(how, order, batch, &s, err));
    wr_code rc = mode == WR_WRITE_THIN && is_thin(batch, &s) ? write_plain(t, plan, how, order, batch, keys, run_path, later, &pack, err) : write_pack(t, plan, how, order, batch, &s, keys, run_path, later, &pack, err);
    if (rc != WR_OK) return wr_pack_clear(&pack), wr_err_in(err, "writing data files of %s.%s", t->ns, t->name);
    *ret = pack;
    return WR_OK;
}

wr_code wr_table_take_pack(wr_table *t, wr_pack *p, wr_origin origin, wr_err *err) {
    WR_AUTO uint32_t *no = wr_calloc((size_t)p->n + 1, sizeof *no);
    if (!no) return wr_nomem(err, "new files", (size_t)p->n * sizeof *no);
    WR_TRY(wr_index_reserve(t->index, err));
    for (uint32_t i = 0; i < p->n; i++) {
        wr_code rc = wr_table_add_file(t, p->files[i], false, &no[i], err);
        if (rc == WR_OK) continue;
        while (i--) wr_table_give_back(t, no[i]);
        return rc;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        t->files[no[i]].rewritten = origin == WR_ORIGIN_REWRITE;
        t->files[no[i]].fresh = origin == WR_ORIGIN_CHANGES;
        wr_run_bind(p->run, i, no[i]);
    }
    wr_index_add(t->index, WR_STEAL(p->run));
    wr_free(p->files);
    *p = (wr_pack){0};
    t->touched = true;
    return WR_OK;
}
