/* Compaction: small files, and files of which much is deleted, become one file, beside the applying thread.
 *
 * The applying thread picks files, pins what is deleted in them, and starts a worker that writes their live rows in order to a
 * new file. Meanwhile it goes on applying and committing. When the worker is done, what was deleted since is deleted in the
 * new file as well: rows keep their order, so the new position of a row is its rank among the pinned live rows. The new
 * file takes the place of the old ones in a commit of its own, whose content is that of the commit before. Nothing
 * else ever writes the table, so nothing can be in the way; an ALTER, TRUNCATE, load or drop in between makes the result worthless,
 * and it is thrown away.
 *
 * One job at a time in the whole lake, at most a third of the time.
 */
#include <inttypes.h>
#include <stdio.h>
#include "table.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define ROW_ID 2147483540  /* Iceberg's reserved field ids of row lineage (spec, v3) */
#define ROW_SEQ 2147483539
#define MAX_INPUTS 64
#define DEAD_PERCENT 30    /* deleted rows of a file that are worth a job */
#define REST 2             /* times as long as a job took, before the next */
#define PAUSE_US 600000000 /* before a table is looked at again whose job failed or was not worth it */
#define COMPRESSION 4      /* memory of a file's rows per byte on disk, guessed */

typedef struct input {
    uint32_t no;
    char *uri;
    uint64_t records;
    uint64_t base;            /* live rows of the inputs before this one */
    roaring_bitmap_t *dead;   /* pinned; NULL = none */
    int64_t first_row_id, sequence;
} input;

struct wr_compaction {
    wr_table *t;
    wr_schema *schema, *wide; /* pinned; with the columns of row lineage behind (v3), else the same */
    wr_key_plan *plan;
    input in[MAX_INPUTS];
    int n, taken;             /* inputs; those whose rows are in the new file */
    char *run_path;
    pthread_t thread;
    bool started, done;       /* done: atomic */
    wr_sealed out;            /* file NULL: nothing was alive */
    wr_code rc;
    wr_err err;
    int64_t began_us, took_us;
    /* worker */
    wr_batch *batch;
    wr_key *keys; uint32_t keys_cap;
    wr_value *vals;
    wr_buf row, wide_row;
    int at;                   /* input under way */
};

/* ------------------------------------------------------------------ worker */
static wr_code take_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    wr_compaction *c = ctx;
    const input *in = &c->in[c->at];
    if (in->dead && roaring_bitmap_contains(in->dead, (uint32_t)pos)) return WR_OK;
    int n = c->schema->ncols;
    uint32_t at = wr_batch_rows(c->batch);
    WR_TRY(wr_keys_room(&c->keys, &c->keys_cap, at, err));
    WR_TRY(wr_row_read(c->wide, row, c->vals, err));
    wr_buf_clear(&c->row);
    size_t r = wr_row_begin(&c->row, n);
    for (int i = 0; i < n; i++) wr_row_put(&c->row, r, i, c->schema->cols[i].type, &c->vals[i]);
    WR_TRY(wr_buf_check(&c->row, "row", err));
    WR_TRY(wr_key_of(c->plan, wr_buf_view(&c->row), &c->keys[at], err));
    if (c->wide == c->schema) return wr_batch_append(c->batch, row, err);
    if (c->vals[n].null && in->first_row_id >= 0) c->vals[n] = (wr_value){.i64 = in->first_row_id + (int64_t)pos};
    if (c->vals[n + 1].null && in->sequence >= 0) c->vals[n + 1] = (wr_value){.i64 = in->sequence};
    wr_buf_clear(&c->wide_row);
    r = wr_row_begin(&c->wide_row, n + 2);
    for (int i = 0; i < n + 2; i++) wr_row_put(&c->wide_row, r, i, c->wide->cols[i].type, &c->vals[i]);
    WR_TRY(wr_buf_check(&c->wide_row, "row", err));
    return wr_batch_append(c->batch, wr_buf_view(&c->wide_row), err);
}

static wr_code rewrite(wr_compaction *c, wr_err *err) {
    WR_TRY(wr_batch_new(c->wide, &c->batch, err));
    for (c->at = 0; c->at < c->n; c->at++) {
        wr_parquet_read_options o = {.fill_initial = true};
        c->in[c->at].base = wr_batch_rows(c->batch);
        WR_TRY(wr_table_read_file(c->t, c->in[c->at].uri, c->wide, &o, take_row, c, err));
        c->taken = c->at + 1;
        if (wr_batch_bytes(c->batch) > c->t->lake->compact_bytes) break;
    }
    if (WR_FAULT("lake.compact")) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "injected: compaction");
    if (!wr_batch_rows(c->batch)) return WR_OK;
    WR_TRY(wr_table_write_rows(c->t, c->plan, c->batch, c->keys, c->run_path, &c->out, err));
    if (c->wide != c->schema) c->out.file->nstats -= 2; /* readers plan by columns, not by lineage */
    return WR_OK;
}

static void *work(void *arg) {
    wr_compaction *c = arg;
    c->rc = rewrite(c, &c->err);
    wr_batch_free(c->batch);
    c->batch = NULL;
    c->took_us = wr_mono_us() - c->began_us;
    __atomic_store_n(&c->done, true, __ATOMIC_RELEASE);
    return NULL;
}

/* ------------------------------------------------------------------ life */
static void compaction_free(wr_compaction *c) {
    if (!c) return;
    if (c->started) pthread_join(c->thread, NULL);
    for (int i = 0; i < c->n; i++) {
        wr_free(c->in[i].uri);
        if (c->in[i].dead) roaring_bitmap_free(c->in[i].dead);
    }
    if (c->out.file) { /* it stays in the journal when it cannot be removed now */
        const char *uri = c->out.file->path;
        wr_err e = WR_ERR_INIT;
        if (wr_store_remove(c->t->lake->store, &uri, 1, &e) != WR_OK) wr_log(WR_LOG_DEBUG, "%s stays announced: %s", uri, e.msg);
        wr_ice_file_free(c->out.file);
        wr_run_free(c->out.run, true);
    }
    if (c->wide != c->schema) wr_schema_unref(c->wide);
    wr_schema_unref(c->schema);
    wr_key_plan_free(c->plan);
    wr_batch_free(c->batch);
    wr_free(c->keys), wr_free(c->vals), wr_free(c->run_path);
    wr_buf_free(&c->row), wr_buf_free(&c->wide_row);
    wr_free(c);
}

void wr_compaction_cancel(wr_lake *l, const wr_table *t) {
    if (!l->compaction || (t && l->compaction->t != t)) return;
    compaction_free(l->compaction);
    l->compaction = NULL;
}

/* ------------------------------------------------------------------ picking */
static const uint64_t classes[] = {64 << 10, 512 << 10, 4 << 20}; /* bytes, upper ends */
#define NCLASSES ((int)(sizeof classes / sizeof *classes))

static int class_of(const wr_data_file *f) {
    for (int i = 0; i < NCLASSES; i++)
        if (f->ice->bytes < classes[i]) return i;
    return NCLASSES;
}

static bool mostly_dead(const wr_data_file *f) { return f->ndead * 100 >= f->ice->records * DEAD_PERCENT; }

/* The files of a table that should become one; 0 = none. */
static int pick(const wr_table *t, uint32_t nos[MAX_INPUTS]) {
    int count[NCLASSES + 1] = {0}, class = -1, n = 0;
    bool dead = false;
    for (uint32_t i = 0; i < t->nfiles; i++) {
        const wr_data_file *f = &t->files[i];
        if (!f->ice || !f->committed) continue;
        count[class_of(f)]++;
        dead |= mostly_dead(f);
    }
    for (int k = NCLASSES - 1; k >= 0; k--)
        if (count[k] >= t->lake->compact_files) class = k;
    if (class < 0 && !dead) return 0;
    uint64_t bytes = 0, most = t->lake->compact_bytes / COMPRESSION;
    for (uint32_t i = 0; i < t->nfiles && n < MAX_INPUTS; i++) {
        const wr_data_file *f = &t->files[i];
        if (!f->ice || !f->committed) continue;
        if (class >= 0 ? class_of(f) != class : !mostly_dead(f)) continue;
        if (n && bytes + f->ice->bytes > most) break;
        bytes += f->ice->bytes;
        nos[n++] = i;
    }
    return class >= 0 && n < 2 ? 0 : n;
}

static wr_code widen(wr_compaction *c, wr_err *err) {
    int n = c->schema->ncols;
    c->wide = c->schema;
    c->vals = wr_malloc(((size_t)n + 2) * sizeof *c->vals);
    if (!c->vals) return wr_nomem(err, "row", (size_t)n * sizeof *c->vals);
    if (wr_ice_format_version(c->t->ice) < 3) return WR_OK;
    WR_AUTO wr_column *cols = wr_calloc((size_t)n + 2, sizeof *cols);
    if (!cols) return wr_nomem(err, "schema", (size_t)n * sizeof *cols);
    memcpy(cols, c->schema->cols, (size_t)n * sizeof *cols);
    cols[n] = (wr_column){.name = (char *)"_row_id", .id = ROW_ID, .type = {.kind = WR_LONG}, .nullable = true};
    cols[n + 1] = (wr_column){.name = (char *)"_last_updated_sequence_number", .id = ROW_SEQ, .type = {.kind = WR_LONG}, .nullable = true};
    wr_schema *wide;
    WR_TRY(wr_schema_new(cols, n + 2, c->schema->version, &wide, err));
    c->wide = wide;
    return WR_OK;
}

static wr_code pin(wr_compaction *c, const uint32_t *nos, int n, wr_err *err) {
    wr_table *t = c->t;
    wr_ice_file **live = NULL;
    int nlive = 0;
    bool lineage = c->wide != c->schema;
    if (lineage) WR_TRY(wr_ice_live_files(t->ice, wr_ice_ref(t->ice, WR_ICE_MAIN), &live, &nlive, err)); /* with the ids and numbers that they inherit */
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i < n; i++) {
        const wr_data_file *f = &t->files[nos[i]];
        input *in = &c->in[c->n++];
        *in = (input){.no = nos[i], .uri = wr_strdup(f->ice->path), .records = f->ice->records, .first_row_id = -1, .sequence = -1};
        if (!in->uri || (f->dead && !(in->dead = roaring_bitmap_copy(f->dead)))) rc = wr_nomem(err, "compaction", 4096);
        for (int k = 0; k < nlive; k++)
            if (!strcmp(live[k]->path, in->uri)) in->first_row_id = live[k]->first_row_id, in->sequence = live[k]->sequence;
        if (rc == WR_OK && lineage && in->sequence < 0) rc = wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "%s is not among the table's live files", in->uri);
    }
    for (int k = 0; k < nlive; k++) wr_ice_file_free(live[k]);
    wr_free(live);
    return rc;
}

static wr_code start(wr_table *t, const uint32_t *nos, int n, wr_err *err) {
    wr_compaction *c = wr_calloc(1, sizeof *c);
    if (!c) return wr_nomem(err, "compaction", sizeof *c);
    c->t = t;
    c->schema = wr_schema_ref(t->schema);
    c->run_path = wr_index_run_path(t->index);
    wr_code rc = c->run_path ? wr_key_plan_new(c->schema, &c->plan, err) : wr_nomem(err, "index run path", 64);
    c->wide = c->schema;
    if (rc == WR_OK) rc = widen(c, err);
    if (rc == WR_OK) rc = pin(c, nos, n, err);
    c->began_us = wr_mono_us();
    if (rc == WR_OK && pthread_create(&c->thread, NULL, work, c) != 0) rc = wr_fail(err, WR_E_NOMEM, WR_RETRY_SOON, "no thread for compaction");
    if (rc != WR_OK) return compaction_free(c), rc;
    c->started = true;
    t->lake->compaction = c;
    return WR_OK;
}

/* ------------------------------------------------------------------ taking the result */
static bool still_fits(const wr_compaction *c) {
    const wr_table *t = c->t;
    if (!t->opened || t->loading || t->create || t->schema != c->schema) return false;
    for (int i = 0; i < c->taken; i++) {
        const input *in = &c->in[i];
        if (in->no >= t->nfiles || !t->files[in->no].ice || strcmp(t->files[in->no].ice->path, in->uri)) return false;
    }
    return true;
}

/* A single file without deleted rows would only be copied. */
static bool is_worth_it(const wr_compaction *c) { return c->taken > 1 || c->in[0].dead; }

static wr_code delete_since(wr_table *t, const input *in, uint32_t no, wr_err *err) {
    const roaring_bitmap_t *now = t->files[in->no].dead;
    if (!now) return WR_OK;
    roaring_bitmap_t *since = in->dead ? roaring_bitmap_andnot(now, in->dead) : roaring_bitmap_copy(now);
    if (!since) return wr_nomem(err, "deleted rows", 4096);
    wr_code rc = WR_OK;
    roaring_uint32_iterator_t *it = roaring_create_iterator(since);
    for (; rc == WR_OK && it && it->has_value; roaring_advance_uint32_iterator(it)) {
        uint64_t before = in->dead ? roaring_bitmap_rank(in->dead, it->current_value) : 0;
        rc = wr_table_kill(t, no, (uint32_t)(in->base + it->current_value - before), err);
    }
    if (!it) rc = wr_nomem(err, "deleted rows", 64);
    else roaring_free_uint32_iterator(it);
    roaring_bitmap_free(since);
    return rc;
}

static wr_code take_result(wr_compaction *c, wr_err *err) {
    wr_table *t = c->t;
    uint32_t no = 0;
    WR_TRY(wr_table_reserve_gone(t, (uint32_t)c->taken * 2, err));
    if (c->out.file) {
        WR_TRY(wr_index_reserve(t->index, err));
        WR_TRY(wr_table_add_file(t, c->out.file, false, &no, err));
        t->compacted_bytes += c->out.file->bytes;
        c->out.file = NULL;
        wr_run_bind(c->out.run, 0, no);
        wr_index_add(t->index, c->out.run);
        for (int i = 0; i < c->taken; i++) WR_TRY(delete_since(t, &c->in[i], no, err));
    }
    for (int i = 0; i < c->taken; i++) WR_TRY(wr_table_remove_file(t, c->in[i].no, err));
    t->compactions++;
    t->replace = t->touched = true;
    return WR_OK;
}

static wr_code finish(wr_lake *l, bool *ret_changed, wr_err *err) {
    wr_compaction *c = l->compaction;
    pthread_join(c->thread, NULL);
    c->started = false;
    l->compaction = NULL;
    l->compact_next_us = wr_mono_us() + c->took_us * REST;
    wr_code rc = WR_OK;
    if (c->rc != WR_OK) {
        wr_log(WR_LOG_WARN, "compaction of %s.%s: %s; its files stay as they are", c->t->ns, c->t->name, c->err.msg);
        c->t->compact_after_us = wr_mono_us() + PAUSE_US;
    } else if (still_fits(c) && is_worth_it(c)) {
        rc = take_result(c, err);
        *ret_changed = rc == WR_OK;
        if (rc == WR_OK) wr_log(WR_LOG_DEBUG, "%s.%s: %d files became one in %" PRId64 " ms", c->t->ns, c->t->name, c->taken, c->took_us / 1000);
    } else if (still_fits(c)) c->t->compact_after_us = wr_mono_us() + PAUSE_US;
    compaction_free(c);
    return rc;
}

wr_code wr_lake_govern(wr_lake *l, bool wait, bool *ret_changed, wr_err *err) {
    *ret_changed = false;
    if (l->compaction && (wait || __atomic_load_n(&l->compaction->done, __ATOMIC_ACQUIRE))) WR_TRY(finish(l, ret_changed, err));
    if (l->compaction || *ret_changed || l->unknown || wr_mono_us() < l->compact_next_us) return WR_OK;
    for (int k = 0; k < l->ntables; k++) {
        int i = (l->compact_from + k) % l->ntables; /* every table in turn */
        wr_table *t = l->tables[i];
        uint32_t nos[MAX_INPUTS];
        int n = t->opened && !t->loading && !t->create && !t->touched && wr_mono_us() >= t->compact_after_us ? pick(t, nos) : 0;
        if (!n) continue;
        l->compact_from = i + 1;
        wr_err why = WR_ERR_INIT;
        if (start(t, nos, n, &why) == WR_OK) return WR_OK;
        wr_log(WR_LOG_WARN, "compaction of %s.%s: %s; its files stay as they are", t->ns, t->name, why.msg);
        t->compact_after_us = wr_mono_us() + PAUSE_US;
    }
    return WR_OK;
}
