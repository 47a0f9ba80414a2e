/* Filling a table from a snapshot: several writers beside each other, commits to the load branch. */
#include "partition.h"
#include "weir/base/clock.h"
#include "weir/base/large.h"
#include "weir/base/mem.h"

struct wr_load_writer {
    wr_table *t;
    wr_batch *batch;
    wr_key *keys;
    uint32_t cap;
    wr_pack *packs; /* written, not handed over */
    uint32_t npacks;
};

static bool has_changes(const wr_table *t) {
    if (t->batch || t->ngone > t->nstray) return true;
    for (uint32_t i = 0; i < t->nfiles; i++)
        if (t->files[i].ice && (!t->files[i].committed || t->files[i].dirty)) return true;
    return false;
}

/* Files that workers sealed and no commit took: they stay in the journal and are removed from there. */
static void drop_sealed(wr_table *t) {
    for (uint32_t i = 0; i < t->nsealed; i++) wr_pack_clear(&t->sealed[i]);
    t->nsealed = 0;
}

/* What a load begins with, made before the table is touched. */
typedef struct beginning {
    char *info, *dir;
    wr_index *index;
    wr_map *by_path;
    wr_key_plan *plan;
    wr_order *order;
    wr_pending *pending;
} beginning;

static void beginning_clear(beginning *b) {
    wr_free(b->info), wr_free(b->dir);
    wr_index_free(b->index);
    wr_map_free(b->by_path, NULL);
    wr_key_plan_free(b->plan);
    wr_order_free(b->order);
    wr_pending_free(b->pending);
}

static wr_code prepare(const wr_table *t, const wr_schema *schema, const char *info, beginning *b, wr_err *err) {
    b->info = wr_strdup(info), b->dir = wr_table_index_dir(t);
    b->by_path = wr_map_new(), b->pending = wr_pending_new();
    if (!b->info || !b->dir || !b->by_path || !b->pending) return wr_nomem(err, "load", strlen(info));
    WR_TRY(wr_key_plan_new(schema, &b->plan, err));
    WR_TRY(wr_table_new_order(t, schema, WR_SPEC_LOAD, &b->order, err));
    return wr_index_new(b->plan, b->dir, &b->index, err);
}

void wr_table_discard(wr_table *t) {
    if (t->create || t->loading || !has_changes(t)) return;
    wr_table_forget_content(t);
    wr_pending_free(t->pending);
    t->pending = NULL;
}

wr_code wr_table_load_begin(wr_table *t, const wr_schema *schema, const char *info, wr_err *err) {
    /* Changes to a branch, or to a table that is not there yet, go with the content that they changed. */
    if (has_changes(t) && !t->create && !t->loading)
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO,
                       "%s.%s: a load begins in a transaction that has changed the table", t->ns, t->name);
    bool shown = t->create || wr_ice_ref(t->ice, WR_ICE_MAIN) < 0 || (t->loading && t->shown);
    WR_CLEANUP(beginning_clear) beginning b = {0};
    WR_TRY(prepare(t, schema, info, &b, err));
    WR_TRY(wr_table_settle_spec(t, schema, WR_SPEC_LOAD, err));
    wr_schema *ref = wr_schema_ref(schema);
    wr_table_forget_content(t);
    pthread_mutex_lock(&t->load_lock);
    drop_sealed(t);
    pthread_mutex_unlock(&t->load_lock);
    wr_free(t->load_info);
    wr_schema_unref(t->schema);
    wr_key_plan_free(t->plan);
    wr_order_free(t->order);
    wr_pending_free(t->pending);
    t->load_info = WR_STEAL(b.info), t->schema = ref, t->plan = WR_STEAL(b.plan), t->order = WR_STEAL(b.order);
    t->pending = WR_STEAL(b.pending), t->by_path = WR_STEAL(b.by_path), t->index = WR_STEAL(b.index);
    t->loading = t->restart = t->load_dirty = t->touched = t->schema_dirty = true;
    t->publish = t->replace = false;
    t->shown = shown;
    t->opened_us = wr_mono_us();
    t->opened = true; /* empty by definition: nothing to read from the catalog */
    return WR_OK;
}

const char *wr_table_load_info(const wr_table *t) { return t->loading ? t->load_info : NULL; }

wr_code wr_table_load_set_info(wr_table *t, const char *info, wr_err *err) {
    if (!t->loading) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s.%s: no load is under way", t->ns, t->name);
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
    return wr_table_settle_spec(t, t->schema, WR_SPEC_PUBLISH, err);
}

/* ------------------------------------------------------------------ writers */
/* What was loaded before of a table without a key is read whole, and its rows may be large: that comes before the lock. */
static wr_code open_loading(wr_table *t, wr_err *err) {
    bool large = false;
    if (!t->schema->nkey) wr_large_hold(&large);
    pthread_mutex_lock(&t->load_lock);
    wr_code rc = t->loading ? wr_table_open_files(t, err)
                            : wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s.%s: no load is under way", t->ns, t->name);
    pthread_mutex_unlock(&t->load_lock);
    wr_large_let_go(&large);
    return rc;
}

wr_code wr_load_writer_new(wr_table *t, wr_load_writer **ret_writer, wr_err *err) {
    WR_TRY(open_loading(t, err));
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
    for (uint32_t i = 0; i < w->npacks; i++) wr_pack_clear(&w->packs[i]);
    wr_free(w->packs);
    wr_free(w);
}

uint64_t wr_load_writer_bytes(const wr_load_writer *w) {
    return (w->batch ? wr_batch_bytes(w->batch) : 0) + (uint64_t)w->cap * sizeof(wr_key);
}

wr_code wr_load_writer_seal(wr_load_writer *w, wr_err *err) {
    if (!w->batch || !wr_batch_rows(w->batch)) return WR_OK;
    wr_pack *more = wr_realloc(w->packs, ((size_t)w->npacks + 1) * sizeof *more);
    if (!more) return wr_nomem(err, "sealed files", (w->npacks + 1) * sizeof *more);
    w->packs = more;
    WR_AUTO char *run_path = wr_index_run_path(w->t->index);
    if (!run_path) return wr_nomem(err, "index run path", 64);
    WR_TRY(wr_table_write_rows(w->t, w->t->plan, &w->t->how, w->t->order, WR_WRITE_THIN, w->batch, w->keys, run_path, NULL, &w->packs[w->npacks], err));
    w->npacks++;
    reset(w); /* only now: a failed seal can be tried again */
    return WR_OK;
}

static wr_code append(wr_load_writer *w, wr_slice row, wr_err *err) {
    if (!w->batch) WR_TRY(wr_batch_new(w->t->schema, &w->batch, err));
    uint32_t at = wr_batch_rows(w->batch);
    WR_TRY(wr_keys_room(&w->keys, &w->cap, at, err));
    WR_TRY(wr_key_of(w->t->plan, row, &w->keys[at], err));
    return wr_batch_append_loan(w->batch, row, err);
}

/* A large row is alone in memory: what waits goes out before it, and it at once. */
wr_code wr_load_writer_append(wr_load_writer *w, wr_slice row, wr_err *err) {
    if (row.n < WR_LARGE_BYTES) return append(w, row, err);
    WR_TRY(wr_load_writer_seal(w, err));
    wr_code rc = append(w, row, err);
    if (rc == WR_OK) rc = wr_load_writer_seal(w, err);
    if (rc != WR_OK) reset(w);
    return rc;
}

wr_code wr_load_writer_hand_over(wr_load_writer *w, wr_err *err) {
    WR_TRY(wr_load_writer_seal(w, err));
    wr_table *t = w->t;
    wr_code rc = WR_OK;
    pthread_mutex_lock(&t->load_lock);
    uint32_t need = t->nsealed + w->npacks;
    if (need > t->sealed_cap) {
        wr_pack *s = wr_realloc(t->sealed, (size_t)need * 2 * sizeof *s);
        if (s)
            t->sealed = s, t->sealed_cap = need * 2;
        else
            rc = wr_nomem(err, "sealed files", (size_t)need * 2 * sizeof *s);
    }
    if (rc == WR_OK && w->npacks) {
        memcpy(t->sealed + t->nsealed, w->packs, w->npacks * sizeof *w->packs);
        t->nsealed = need, w->npacks = 0;
    }
    pthread_mutex_unlock(&t->load_lock);
    return rc;
}

/* Moves sealed files among the table's own. What could not be moved stays sealed for the next attempt. */
wr_code wr_table_take_sealed(wr_table *t, wr_err *err) {
    wr_code rc = WR_OK;
    uint32_t n = 0;
    while (n < t->nsealed && (rc = wr_table_take_pack(t, &t->sealed[n], WR_ORIGIN_LOAD, err)) == WR_OK) n++;
    if (n) memmove(t->sealed, t->sealed + n, (t->nsealed - n) * sizeof *t->sealed);
    t->nsealed -= n;
    return rc;
}
