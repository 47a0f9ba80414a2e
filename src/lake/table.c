/* One table: rows in, files and deletion marks out. */
#include "partition.h"
#include "policy.h"

#include <inttypes.h>
#include <stdlib.h>
#include "weir/base/large.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

uint32_t wr_table_id(const wr_table *t) { return t->id; }
bool wr_table_is_ahead(const wr_table *t) { return t->held > t->lake->offset; }
const char *wr_table_ns(const wr_table *t) { return t->ns; }
const char *wr_table_name(const wr_table *t) { return t->name; }
const wr_schema *wr_table_schema(const wr_table *t) { return t->schema; }

char *wr_table_index_dir(const wr_table *t) { return wr_asprintf("%s/%s", t->lake->index_dir, wr_ice_uuid(t->ice)); }

/* ------------------------------------------------------------------ memory */
static void free_file(wr_data_file *f) {
    wr_ice_file_free(f->ice);
    wr_ice_file_free(f->deletes);
    if (f->dead) roaring_bitmap_free(f->dead);
    wr_free(f->bits);
    memset(f, 0, sizeof *f);
}

/* Keeps the lake's sum of waiting bytes true, whatever happened to this table's. */
static inline void recount(wr_table *t) {
    size_t now = (t->batch ? wr_batch_bytes(t->batch) : 0) + (t->pending ? wr_pending_bytes(t->pending) : 0);
    t->lake->pending_total += now - t->counted;
    t->counted = now;
}

void wr_table_drop_batch(wr_table *t) {
    wr_batch_free(t->batch);
    t->batch = NULL;
    if (t->pending) wr_pending_clear(t->pending);
    recount(t);
}

void wr_table_forget_content(wr_table *t) {
    wr_table_drop_batch(t);
    for (uint32_t i = 0; i < t->nfiles; i++) free_file(&t->files[i]);
    wr_free(t->files);
    t->files = NULL, t->nfiles = t->files_cap = t->nfree = 0;
    for (uint32_t i = 0; i < t->ngone; i++) wr_ice_file_free(t->gone[i]);
    t->ngone = t->nstray = 0;
    wr_map_free(t->by_path, NULL);
    t->by_path = NULL;
    wr_index_free(t->index);
    t->index = NULL;
    t->opened = false;
    wr_fresh_forget(t);
}

void wr_table_free(wr_table *t) {
    if (!t) return;
    wr_job_cancel(t->lake, t);
    wr_table_forget_content(t);
    wr_free(t->gone);
    for (uint32_t i = 0; i < t->nsealed; i++) wr_pack_clear(&t->sealed[i]);
    wr_free(t->sealed);
    wr_spread_clear(&t->how);
    wr_pending_free(t->pending);
    wr_fresh_clear(t);
    wr_free(t->fresh.row_sums);
    wr_key_plan_free(t->plan);
    wr_order_free(t->order);
    wr_schema_unref(t->schema);
    wr_ice_table_free(t->ice);
    wr_free(t->load_info);
    wr_free(t->ns);
    wr_free(t->name);
    pthread_mutex_destroy(&t->load_lock);
    wr_free(t);
}

/* The column that a rule means, by its old name too; NULL: it is gone, or of a type that cannot be sorted by. */
static const char *meant_column(const wr_table *t, const char *column, bool lists, const wr_schema *s, wr_spec_reason reason) {
    int c = wr_schema_find(s, column);
    if (c < 0 && reason != WR_SPEC_CREATE) c = wr_ice_renamed_column(t->ice, column, s);
    return c >= 0 && (lists || s->cols[c].type.kind != WR_FLOATS) ? s->cols[c].name : NULL;
}

/* Whether the rule goes on without that column, for the reason that is in err. */
static bool goes_without(const wr_table *t, const char *column, wr_spec_reason reason, wr_err *err) {
    if (err->code != WR_E_CONFIG || reason == WR_SPEC_CREATE) return false;
    if ((reason == WR_SPEC_OPEN || reason == WR_SPEC_RENAME) && !wr_ice_had_column(t->ice, column)) return false;
    wr_log(WR_LOG_WARN, "%s; the table goes on without", err->msg);
    *err = (wr_err)WR_ERR_INIT;
    return true;
}

static wr_code fit_sort(const wr_table *t, const wr_layout_rule *r, const wr_schema *s, wr_spec_reason reason, wr_layout_rule *fit, wr_err *err) {
    for (int i = 0; r->sort && i < r->nsort; i++) {
        wr_sort_term term = r->sort[i];
        const char *name = meant_column(t, term.column, false, s, reason);
        bool twice = false;
        for (int k = 0; name && k < fit->nsort; k++) twice |= !strcmp(fit->sort[k].column, name);
        if (name && !twice) term.column = (char *)(uintptr_t)name, fit->sort[fit->nsort++] = term;
        else if (!name && wr_layouts_check_sort(t->lake->layouts, r, i, t->ns, t->name, s, err) != WR_OK && !goes_without(t, term.column, reason, err)) return err->code;
    }
    return WR_OK;
}

static wr_code fit_bloom(const wr_table *t, const wr_layout_rule *r, const wr_schema *s, wr_spec_reason reason, wr_layout_rule *fit, wr_err *err) {
    for (int i = 0; r->bloom && i < r->nbloom; i++) {
        const char *name = meant_column(t, r->bloom[i], true, s, reason);
        if (name) fit->bloom[fit->nbloom++] = (char *)(uintptr_t)name;
        else if (wr_layouts_check_bloom(t->lake->layouts, r, i, t->ns, t->name, s, err) != WR_OK && !goes_without(t, r->bloom[i], reason, err)) return err->code;
    }
    return WR_OK;
}

wr_code wr_table_new_order(const wr_table *t, const wr_schema *s, wr_spec_reason reason, wr_order **ret_order, wr_err *err) {
    const wr_layout_rule *r = wr_layouts_find(t->lake->layouts, t->ns, t->name);
    if (!r) return wr_order_new(NULL, s, ret_order, err);
    WR_AUTO wr_sort_term *sort = wr_calloc((size_t)r->nsort + 1, sizeof *sort);
    WR_AUTO char **bloom = wr_calloc((size_t)r->nbloom + 1, sizeof *bloom);
    if (!sort || !bloom) return wr_nomem(err, "order", 256);
    wr_layout_rule fit = {.sort = r->sort ? sort : NULL, .bloom = r->bloom ? bloom : NULL, .target_file_bytes = r->target_file_bytes}; /* by the names of now */
    WR_TRY(fit_sort(t, r, s, reason, &fit, err));
    WR_TRY(fit_bloom(t, r, s, reason, &fit, err));
    return wr_order_new(&fit, s, ret_order, err);
}

wr_code wr_table_settle_order(wr_table *t, const wr_schema *s, wr_spec_reason reason, wr_err *err) {
    wr_order *order;
    WR_TRY(wr_table_new_order(t, s, reason, &order, err));
    wr_order_free(t->order);
    t->order = order;
    return WR_OK;
}

uint64_t wr_table_target_bytes(const wr_table *t) { return t->order && t->order->target_file_bytes ? t->order->target_file_bytes : t->lake->target_file_bytes; }

wr_code wr_table_set_schema(wr_table *t, const wr_schema *s, wr_spec_reason reason, wr_err *err) {
    wr_key_plan *plan;
    WR_TRY(wr_key_plan_new(s, &plan, err));
    wr_code rc = wr_table_settle_order(t, s, reason, err);
    if (rc != WR_OK) return wr_key_plan_free(plan), rc;
    wr_key_plan_free(t->plan);
    t->plan = plan;
    wr_schema *ref = wr_schema_ref(s);
    wr_schema_unref(t->schema);
    t->schema = ref;
    return WR_OK;
}

/* ------------------------------------------------------------------ files */
static uint32_t free_number(wr_table *t) {
    for (uint32_t i = 0; t->nfree && i < t->nfiles; i++)
        if (!t->files[i].ice) return t->nfree--, i; /* no run refers to it any more */
    return t->nfiles++;
}

wr_code wr_table_add_file(wr_table *t, wr_ice_file *file, bool committed, uint32_t *ret_no, wr_err *err) {
    if (t->nfiles == t->files_cap) {
        uint32_t cap = t->files_cap ? t->files_cap * 2 : 16;
        wr_data_file *f = wr_realloc(t->files, (size_t)cap * sizeof *f);
        if (!f) return wr_nomem(err, "file list", (size_t)cap * sizeof *f);
        t->files = f, t->files_cap = cap;
    }
    uint32_t nfiles = t->nfiles, nfree = t->nfree, no = free_number(t);
    if (!wr_map_put(t->by_path, wr_slice_str(file->path), (void *)((uintptr_t)no + 1))) {
        t->nfiles = nfiles, t->nfree = nfree;
        return wr_nomem(err, "file list", 64);
    }
    t->files[no] = (wr_data_file){.ice = file, .committed = committed};
    *ret_no = no;
    return WR_OK;
}

void wr_table_give_back(wr_table *t, uint32_t no) {
    wr_map_del(t->by_path, wr_slice_str(t->files[no].ice->path));
    t->files[no].ice = NULL;
    t->nfree++;
}

wr_code wr_table_reserve_gone(wr_table *t, uint32_t more, wr_err *err) {
    if (t->gone_cap - t->ngone >= more) return WR_OK;
    uint32_t cap = t->gone_cap * 2 > t->ngone + more ? t->gone_cap * 2 : t->ngone + more;
    wr_ice_file **g = wr_realloc(t->gone, (size_t)cap * sizeof *g);
    if (!g) return wr_nomem(err, "list of removed files", (size_t)cap * sizeof *g);
    t->gone = g, t->gone_cap = cap;
    return WR_OK;
}

wr_code wr_table_remove_file(wr_table *t, uint32_t no, wr_err *err) {
    wr_data_file *f = &t->files[no];
    if (!f->ice) return WR_OK;
    WR_TRY(wr_table_reserve_gone(t, 2, err));
    wr_map_del(t->by_path, wr_slice_str(f->ice->path));
    if (t->index) wr_index_drop_file(t->index, no);
    if (f->committed) { /* a file that no commit has seen stays in the journal and is removed from there at the next
                           start */
        t->gone[t->ngone++] = WR_STEAL(f->ice);
        if (f->deletes) t->gone[t->ngone++] = WR_STEAL(f->deletes);
    }
    t->fresh.unread |= f->fresh;
    free_file(f);
    t->nfree++;
    t->touched = true;
    return WR_OK;
}

static wr_code dead_room(wr_data_file *f, wr_err *err) {
    if (f->dead && f->bits) return WR_OK;
    size_t bytes = (size_t)(f->ice->records / 64 + 1) * 8;
    if (!f->bits && !(f->bits = wr_calloc(1, bytes))) return wr_nomem(err, "deleted rows", bytes);
    if (!f->dead && !(f->dead = roaring_bitmap_create())) return wr_nomem(err, "deletion vector", 64);
    return WR_OK;
}

wr_code wr_table_kill(wr_table *t, uint32_t no, uint32_t row, wr_err *err) {
    wr_data_file *f = &t->files[no];
    if (row >= f->ice->records)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "row %u of %s, which has %" PRIu64, row, f->ice->path,
                       f->ice->records);
    WR_TRY(dead_room(f, err));
    if (wr_file_dead(f, row)) return WR_OK;
    f->bits[row / 64] |= UINT64_C(1) << (row % 64);
    roaring_bitmap_add(f->dead, row);
    f->ndead++;
    f->dirty = true;
    t->touched = true;
    return WR_OK;
}

static bool set_bit(uint32_t row, void *bits) {
    return ((uint64_t *)bits)[row / 64] |= UINT64_C(1) << (row % 64), true;
}

wr_code wr_table_kill_all(wr_table *t, uint32_t no, const roaring_bitmap_t *rows, wr_err *err) {
    wr_data_file *f = &t->files[no];
    if (roaring_bitmap_is_empty(rows)) return WR_OK;
    uint32_t last = roaring_bitmap_maximum(rows);
    if (last >= f->ice->records)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "row %u of %s is deleted, which has %" PRIu64, last, f->ice->path,
                       f->ice->records);
    WR_TRY(dead_room(f, err));
    roaring_bitmap_or_inplace(f->dead, rows);
    roaring_iterate(rows, set_bit, f->bits);
    f->ndead = roaring_bitmap_get_cardinality(f->dead);
    return WR_OK;
}

wr_code wr_table_flush(wr_table *t, wr_outbox *later, wr_err *err) {
    if (!t->batch) return WR_OK;
    if (!wr_batch_live_rows(t->batch)) return wr_table_drop_batch(t), WR_OK;
    WR_CLEANUP(wr_pack_clear) wr_pack pack = {0};
    WR_AUTO char *run_path = wr_index_run_path(t->index);
    if (!run_path) return wr_nomem(err, "index run path", 64);
    WR_TRY(wr_table_write_rows(t, t->plan, &t->how, t->order, WR_WRITE_EXACT, t->batch, wr_pending_keys(t->pending), run_path, later, &pack, err));
    WR_TRY(wr_table_take_pack(t, &pack, WR_ORIGIN_CHANGES, err));
    wr_fresh_flushed(t);
    wr_table_drop_batch(t);
    return WR_OK;
}

/* ------------------------------------------------------------------ applying */
typedef struct find_live {
    wr_table *t;
    uint32_t file, row;
} find_live;

static bool is_live(void *ctx, uint32_t file, uint32_t row) {
    find_live *f = ctx;
    const wr_data_file *d = &f->t->files[file];
    if (wr_file_dead(d, row)) return false;
    f->file = file, f->row = row;
    return true;
}

/* Marks one live row of this key as deleted. */
static wr_code kill_key(wr_table *t, wr_key key, bool *ret_found, wr_err *err) {
    uint32_t row = wr_pending_pop(t->pending, key);
    *ret_found = true;
    if (row != WR_NO_ROW) {
        wr_batch_kill(t->batch, row);
        t->touched = true;
        return WR_OK;
    }
    find_live f = {.t = t};
    if (wr_index_find(t->index, key, is_live, &f)) return wr_table_kill(t, f.file, f.row, err);
    *ret_found = false;
    return WR_OK;
}

static wr_code largest_flush(wr_lake *l, wr_err *err) {
    wr_table *big = NULL;
    for (int i = 0; i < l->ntables; i++)
        if (l->tables[i]->batch && (!big || l->tables[i]->counted > big->counted)) big = l->tables[i];
    return big ? wr_table_flush(big, NULL, err) : WR_OK;
}

/* A large row is alone in memory: what waits goes out before it, and it at once. */
static wr_code make_room(wr_lake *l, wr_err *err) {
    for (int i = 0; i < l->ntables; i++)
        if (l->tables[i]->batch) WR_TRY(wr_table_flush(l->tables[i], NULL, err));
    return WR_OK;
}

/* The new row goes into the batch first: should it not fit its schema, nothing has happened yet. Its key follows when
 * the old rows are gone. */
static wr_code replace_rows(wr_table *t, wr_apply_mode mode, wr_op op, wr_slice before, wr_slice after, wr_err *err) {
    bool found = false;
    wr_key kb = {0}, ka = {0};
    uint32_t at = 0;
    if (op != WR_OP_INSERT) WR_TRY(wr_key_of(t->plan, before, &kb, err));
    if (op != WR_OP_DELETE) {
        WR_TRY(wr_key_of(t->plan, after, &ka, err));
        if (!t->batch) WR_TRY(wr_batch_new(t->schema, &t->batch, err));
        at = wr_batch_rows(t->batch);
        WR_TRY(wr_fresh_room(t, at, err));
        WR_TRY(wr_batch_append_loan(t->batch, after, err)); /* a large one is written before it goes: wr_table_apply */
        if (t->fresh.row_sums) t->fresh.row_sums[at] = wr_hash64(after.p, after.n, 0);
    }
    wr_code rc = WR_OK;
    if (op != WR_OP_INSERT) {
        rc = kill_key(t, kb, &found, err);
        if (!found && mode == WR_APPLY_STRICT) t->anomalies++;
    }
    if (op == WR_OP_DELETE) return rc;
    if (rc == WR_OK && t->plan->form != WR_KEY_ROW && mode != WR_APPLY_ADD && (op == WR_OP_INSERT || !wr_key_eq(ka, kb))) {
        rc = kill_key(t, ka, &found, err);
        if (found && mode == WR_APPLY_STRICT) t->anomalies++;
    }
    if (rc == WR_OK && !wr_pending_add(t->pending, ka, at)) rc = wr_nomem(err, "pending keys", 64);
    if (rc != WR_OK) wr_batch_kill(t->batch, at);
    t->touched = true;
    return rc;
}

wr_code wr_table_apply(wr_table *t, uint64_t offset, wr_apply_mode mode, wr_op op, wr_slice before, wr_slice after, wr_err *err) {
    t->fresh.applied++;
    if (offset && offset <= t->held) return t->fresh.unread = true, WR_OK; /* what was told of its files left with the process that wrote them */
    if (!t->opened) WR_TRY(wr_table_open_files(t, err));
    t->replace = false;
    bool large = after.n >= WR_LARGE_BYTES;
    if (large) WR_TRY(make_room(t->lake, err));
    wr_code rc = replace_rows(t, mode, op, before, after, err);
    if (rc == WR_OK && large) rc = wr_table_flush(t, NULL, err);
    if (rc != WR_OK && large) wr_table_drop_batch(t), t->lake->unknown = true; /* it cannot be written later: only the last commit is good */
    recount(t);
    if (rc != WR_OK) return wr_err_in(err, "lake table %s.%s", t->ns, t->name);
    if (op == WR_OP_INSERT)
        t->inserts++;
    else if (op == WR_OP_UPDATE)
        t->updates++;
    else
        t->deletes++;
    if (t->counted > t->lake->file_bytes) return wr_table_flush(t, NULL, err);
    if (t->lake->pending_total > t->lake->pending_bytes) return largest_flush(t->lake, err);
    return WR_OK;
}

wr_code wr_table_remove_row(wr_table *t, wr_slice row, bool *ret_found, wr_err *err) {
    wr_key key;
    if (!t->opened) WR_TRY(wr_table_open_files(t, err));
    WR_TRY(wr_key_of(t->plan, row, &key, err));
    t->replace = false;
    wr_code rc = kill_key(t, key, ret_found, err);
    recount(t);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "lake table %s.%s", t->ns, t->name);
}

/* ------------------------------------------------------------------ health */
static uint64_t total(const wr_table *t, int64_t snapshot, const char *key) {
    const char *s = wr_ice_summary(t->ice, snapshot, key);
    return s ? strtoull(s, NULL, 10) : 0;
}

wr_code wr_table_get_health(wr_table *t, wr_table_health *ret, wr_err *err) {
    wr_table_health h = {.ns = t->ns,
                         .name = t->name,
                         .format_version = wr_ice_format_version(t->ice),
                         .snapshots = (uint64_t)wr_ice_snapshot_count(t->ice),
                         .anomalies = t->anomalies,
                         .inserts = t->inserts,
                         .updates = t->updates,
                         .deletes = t->deletes,
                         .compactions = t->compactions,
                         .compacted_bytes = t->compacted_bytes,
                         .upkeep = &t->upkeep,
                         .loading = t->loading};
    int64_t head = wr_ice_ref(t->ice, WR_ICE_MAIN), content = t->loading ? wr_ice_ref(t->ice, WR_ICE_LOAD) : head;
    if (head >= 0) h.committed_us = wr_ice_snapshot_time_us(t->ice, head);
    if (!t->opened && content >= 0) { /* not needed so far: the snapshot's own sums say the same */
        h.data_files = total(t, content, "total-data-files"), h.data_bytes = total(t, content, "total-files-size");
        h.delete_files = total(t, content, "total-delete-files"),
        h.deleted_rows = total(t, content, "total-position-deletes");
        h.rows = total(t, content, "total-records");
        h.rows -= h.deleted_rows < h.rows ? h.deleted_rows : h.rows;
    }
    for (uint32_t i = 0; i < t->nfiles; i++) {
        const wr_data_file *f = &t->files[i];
        if (!f->ice) continue;
        h.rows += f->ice->records - f->ndead, h.deleted_rows += f->ndead;
        h.data_files++, h.data_bytes += f->ice->bytes;
        h.delete_files += f->deletes != NULL;
        wr_policy p = {.target_bytes = wr_table_target_bytes(t)};
        h.files_at[wr_policy_level(&p, &(wr_policy_file){.bytes = f->ice->bytes, .records = f->ice->records})]++;
    }
    if (t->batch) h.rows += wr_batch_live_rows(t->batch);
    *ret = h;
    return WR_OK;
}
