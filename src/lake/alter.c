/* Changes to a table as a whole: its schema, all its rows, the rows of one shard. */
#include "partition.h"
#include "weir/base/mem.h"

/* ------------------------------------------------------------------ rewriting */
typedef struct rewrite {
    wr_table *t;
    const wr_schema *schema;
    const wr_key_plan *plan;
    const wr_order *order;
    wr_index *index;          /* of the new files */
    const wr_data_file *file; /* that is read */
    wr_batch *batch;
    wr_key *keys;
    uint32_t cap;
    wr_pack *out;
    uint32_t nout;
} rewrite;

static void rewrite_clear(rewrite *w) {
    for (uint32_t i = 0; i < w->nout; i++) wr_pack_clear(&w->out[i]);
    wr_free(w->out);
    wr_batch_free(w->batch);
    wr_free(w->keys);
    wr_index_free(w->index);
}

static wr_code spill(rewrite *w, wr_err *err) {
    if (!w->batch || !wr_batch_rows(w->batch)) return WR_OK;
    wr_pack *o = wr_realloc(w->out, ((size_t)w->nout + 1) * sizeof *o);
    if (!o) return wr_nomem(err, "list of rewritten files", ((size_t)w->nout + 1) * sizeof *o);
    w->out = o;
    WR_AUTO char *run_path = wr_index_run_path(w->index);
    if (!run_path) return wr_nomem(err, "index run path", 64);
    WR_TRY(wr_table_write_rows(w->t, w->plan, &w->t->how, w->order, WR_WRITE_THIN, w->batch, w->keys, run_path, NULL, &w->out[w->nout], err));
    w->nout++;
    wr_batch_free(w->batch);
    w->batch = NULL;
    return WR_OK;
}

static wr_code rewrite_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    rewrite *w = ctx;
    if (pos < w->file->ice->records && wr_file_dead(w->file, (uint32_t)pos)) return WR_OK;
    if (!w->batch) WR_TRY(wr_batch_new(w->schema, &w->batch, err));
    uint32_t at = wr_batch_rows(w->batch);
    WR_TRY(wr_keys_room(&w->keys, &w->cap, at, err));
    WR_TRY(wr_key_of(w->plan, row, &w->keys[at], err));
    WR_TRY(wr_batch_append(w->batch, row, err));
    return wr_batch_bytes(w->batch) + (size_t)w->cap * sizeof(wr_key) > w->t->lake->file_bytes ? spill(w, err) : WR_OK;
}

/* Every live row of every file is written anew; columns that a file lacks get their initial value. */
static wr_code rewrite_files(rewrite *w, wr_err *err) {
    wr_table *t = w->t;
    for (uint32_t i = 0; i < t->nfiles; i++) {
        if (!t->files[i].ice) continue;
        wr_parquet_read_options o = {.fill_initial = true};
        w->file = &t->files[i];
        WR_TRY(wr_table_read_file(t, t->files[i].ice->path, w->schema, &o, rewrite_row, w, err));
    }
    return spill(w, err);
}

/* ------------------------------------------------------------------ schema */
static void take_schema(wr_table *t, const wr_schema *schema, wr_key_plan *plan, wr_order *order) {
    wr_key_plan_free(t->plan);
    wr_order_free(t->order);
    t->plan = plan, t->order = order;
    wr_schema *ref = wr_schema_ref(schema);
    wr_schema_unref(t->schema);
    t->schema = ref;
    t->schema_dirty = t->touched = true;
}

/* Takes the new files in place of the old ones. */
static wr_code swap_files(rewrite *w, wr_err *err) {
    wr_table *t = w->t;
    WR_TRY(wr_table_reserve_gone(t, t->nfiles * 2, err));
    for (uint32_t i = 0; i < t->nfiles; i++) WR_TRY(wr_table_remove_file(t, i, err));
    wr_index_free(t->index);
    t->index = WR_STEAL(w->index);
    for (uint32_t i = 0; i < w->nout; i++) WR_TRY(wr_table_take_pack(t, &w->out[i], WR_ORIGIN_REWRITE, err));
    return WR_OK;
}

static wr_code fill(wr_table *t, const wr_schema *schema, wr_key_plan *plan, const wr_order *order, wr_err *err) {
    WR_CLEANUP(rewrite_clear) rewrite w = {.t = t, .schema = schema, .plan = plan, .order = order};
    WR_AUTO char *dir = wr_table_index_dir(t);
    if (!dir) return wr_nomem(err, "index folder", 64);
    WR_TRY(wr_index_new(plan, dir, &w.index, err));
    WR_TRY(rewrite_files(&w, err));
    return swap_files(&w, err);
}

static bool has_rows(const wr_table *t) { return t->nfiles > t->nfree || (t->batch && wr_batch_live_rows(t->batch)); }

/* What cannot be done by metadata and rewriting; said before anything has changed, for the caller may load the table
 * anew instead. */
static wr_code check_alter(const wr_table *t, const wr_schema *s, bool fills, wr_err *err) {
    char a[32], b[32];
    if (t->lake->writer && !t->loading && wr_ice_would_clash(t->ice, s)) /* the catalog would take neither the schema nor another name for the field */
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "lake table %s.%s: a column has the name of a field of its partitions", t->ns, t->name);
    for (int i = 0; i < s->ncols; i++) {
        const wr_column *c = &s->cols[i];
        int j = wr_schema_find_id(t->schema, c->id);
        const wr_column *old = j < 0 ? NULL : &t->schema->cols[j];
        if (old && !wr_type_eq(old->type, c->type) && !wr_type_promotes(old->type, c->type))
            return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO,
                           "lake table %s.%s: column %s cannot change from %s to %s without reading the table again",
                           t->ns, t->name, c->name, wr_type_name(old->type, a), wr_type_name(c->type, b));
        if (!old && c->key_ord && has_rows(t) && !(fills && (c->has_initial || c->nullable)))
            return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO,
                           "lake table %s.%s: old rows have no value of the new key column %s", t->ns, t->name,
                           c->name);
    }
    return WR_OK;
}

/* Files of a spec that readers would refuse under this schema: a source column is gone. */
static wr_code find_unreadable(const wr_table *t, const wr_spec *was, const wr_schema *schema, bool *found, wr_err *err) {
    WR_CLEANUP(wr_specs_clear) wr_specs all = {0};
    WR_TRY(wr_ice_specs(t->ice, &all, err));
    for (uint32_t i = 0; i < t->nfiles && !*found; i++) {
        int32_t id = t->files[i].ice ? t->files[i].ice->spec_id : WR_PLAIN_SPEC;
        const wr_spec *s = id == was->id ? was : wr_specs_find(&all, id);
        *found = s && !wr_spec_fits(s, schema);
    }
    return WR_OK;
}

/* *fills turns true when all files must be written anew for their partitions' sake. */
static wr_code settle_spec(wr_table *t, const wr_schema *schema, bool *fills, wr_err *err) {
    wr_spec *was = wr_spec_ref(t->how.spec);
    bool told = !t->spec_dirty;
    wr_code rc = wr_table_settle_spec(t, schema, WR_SPEC_ALTER, err);
    if (rc == WR_OK && !told && !wr_spec_same(was, t->how.spec)) *fills = true; /* the new one may get the number of the old one, which no commit has told */
    if (rc == WR_OK && !*fills) rc = find_unreadable(t, was, schema, fills, err);
    wr_spec_unref(was);
    return rc;
}

wr_code wr_table_alter(wr_table *t, const wr_schema *schema, bool fills, wr_err *err) {
    t->replace = false;
    WR_TRY(wr_table_open_files(t, err));
    WR_TRY(check_alter(t, schema, fills, err));
    wr_key_plan *plan;
    wr_order *order = NULL;
    WR_TRY(wr_key_plan_new(schema, &plan, err));
    wr_code rc = wr_table_new_order(t, schema, WR_SPEC_ALTER, &order, err);
    if (rc == WR_OK) rc = wr_table_flush(t, NULL, err);
    if (rc == WR_OK) rc = settle_spec(t, schema, &fills, err);
    if (rc == WR_OK && fills) {
        rc = fill(t, schema, plan, order, err);
    } else if (rc == WR_OK && plan->fingerprint != t->plan->fingerprint) {
        wr_index *ix;
        rc = wr_table_build_index(t, schema, plan, &ix, err);
        if (rc == WR_OK) wr_index_free(t->index), t->index = ix;
    }
    if (rc == WR_E_CORRUPT) err->code = WR_E_UNSUPPORTED; /* old rows have null in a new key column */
    if (rc != WR_OK) return wr_key_plan_free(plan), wr_order_free(order), wr_err_in(err, "new schema of lake table %s.%s", t->ns, t->name);
    take_schema(t, schema, plan, order);
    return WR_OK;
}

/* ------------------------------------------------------------------ rows */
wr_code wr_table_truncate(wr_table *t, wr_err *err) {
    t->replace = false;
    WR_TRY(wr_table_open_files(t, err));
    WR_TRY(wr_table_reserve_gone(t, t->nfiles * 2, err));
    wr_table_drop_batch(t);
    for (uint32_t i = 0; i < t->nfiles; i++) WR_TRY(wr_table_remove_file(t, i, err));
    t->touched = true;
    return WR_OK;
}

#define PREFIX_MAX 8
typedef struct prefix {
    wr_table *t;
    uint32_t no;
    const char *const *vals;
    int n;
    const wr_schema *s;
} prefix;

static wr_code prefix_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    prefix *p = ctx;
    wr_value v[PREFIX_MAX];
    WR_TRY(wr_row_read(p->s, row, v, err));
    for (int i = 0; i < p->n; i++)
        if (v[i].null || !wr_slice_eq(v[i].s, wr_slice_str(p->vals[i]))) return WR_OK;
    return wr_table_kill(p->t, p->no, (uint32_t)pos, err);
}

wr_code wr_table_delete_prefix(wr_table *t, const char *const *vals, int n, wr_err *err) {
    if (n < 1 || n > PREFIX_MAX || n > t->schema->ncols)
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "a prefix of %d columns", n);
    t->replace = false;
    int cols[PREFIX_MAX];
    wr_column pc[PREFIX_MAX];
    for (int i = 0; i < n; i++) {
        cols[i] = i, pc[i] = t->schema->cols[i], pc[i].key_ord = 0;
        if (pc[i].type.kind != WR_STRING)
            return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "column %s of %s.%s is no text", pc[i].name, t->ns, t->name);
    }
    WR_TRY(wr_table_open_files(t, err));
    WR_TRY(wr_table_flush(t, NULL, err));
    wr_schema *s;
    WR_TRY(wr_schema_new(pc, n, 1, &s, err));
    wr_code rc = WR_OK;
    for (uint32_t i = 0; rc == WR_OK && i < t->nfiles; i++) {
        if (!t->files[i].ice) continue;
        prefix p = {t, i, vals, n, s};
        wr_parquet_read_options o = {.columns = cols, .ncolumns = n, .fill_initial = true};
        rc = wr_table_read_file(t, t->files[i].ice->path, t->schema, &o, prefix_row, &p, err);
    }
    wr_schema_unref(s);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "deleting rows of %s from %s.%s", vals[n - 1], t->ns, t->name);
}
