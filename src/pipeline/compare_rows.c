/* Rows of either side of a comparison as records of the sieve, and differing records as rows again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "compare_impl.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"

#define CHUNK_ROWS 10000
#define SHOWN_DEFAULT 100000
#define SHOWN_LEAST 20
#define SHOWN_BYTES (UINT64_C(96) << 20) /* of all tables, both sides */
#define SHOWN_ROW (1u << 20)             /* a row above this is shown without ... */
#define SHOWN_VALUE 4096                 /* ... more than this of a value */
#define IMAGES_BUFFER (1u << 20)
#define WAITING_MAX (WR_TRANSFORM_ROWS / 2)
#define WAITING_BYTES (16u << 20)

wr_code wr_side_rows_open(round *r, side_table *t, uint64_t expected, wr_err *err) {
    t->report->hash = t->md5 ? "md5" : "xxh3";
    t->images_path = wr_asprintf("%s/images-%p", r->dir, (void *)t);
    if (!t->images_path) return wr_nomem(err, "path", 256);
    return wr_sieve_new(&(wr_sieve_options){.dir = r->dir, .rows = expected, .keyed = t->nkey > 0}, &t->sieve, err);
}

/* ------------------------------------------------------------------ one row */
typedef struct hashed { bool there; wr_h128 key; uint64_t row; } hashed;

static int64_t time_us(wr_type t, const wr_value *v) { return t.kind == WR_DATE ? (int64_t)v->i32 * 86400000000 : v->i64; }

/* The same for both sides, so that a row is outside the filter or the sample on both or on neither. */
static bool is_wanted(const round *r, const side_table *t, const wr_value *vals, wr_h128 key) {
    const wr_value *v = t->time_column >= 0 ? &vals[t->time_column] : NULL;
    int64_t at = v && !v->null ? time_us(t->common->cols[t->time_column].type, v) : 0;
    if (v && (v->null || at < r->what->since_us || at >= r->what->until_us)) return false;
    if (r->what->sample <= 0 || r->what->sample >= 1) return true;
    return (double)(wr_hash64(&key, sizeof key, r->what->seed) >> 11) < r->what->sample * (double)(UINT64_C(1) << 53);
}

static wr_code hash_of(const side_table *t, wr_slice s, wr_h128 *ret, wr_err *err) {
    if (t->md5) return wr_md5_of(t->md5, s, ret, err);
    *ret = wr_hash128(s.p, s.n);
    return WR_OK;
}

/* row: of t->common. */
static wr_code hash_row(const round *r, side_table *t, wr_slice row, hashed *ret, wr_err *err) {
    const wr_schema *s = t->common;
    hashed h = {0};
    wr_h128 whole;
    t->nhashed++, t->hashed_bytes += row.n;
    bool values = t->nkey || t->time_column >= 0;
    if (values) WR_TRY(wr_row_read(s, row, t->vals, err));
    if (t->nkey) {
        wr_buf_clear(&t->key_row);
        size_t at = wr_row_begin(&t->key_row, t->nkey);
        for (int i = 0; i < t->nkey; i++) wr_row_put(&t->key_row, at, i, s->cols[t->key[i]].type, &t->vals[t->key[i]]);
        WR_TRY(wr_buf_check(&t->key_row, "key", err));
        WR_TRY(hash_of(t, wr_buf_view(&t->key_row), &h.key, err));
        if (t->md5) WR_TRY(hash_of(t, row, &whole, err));
        h.row = t->md5 ? whole.hi : wr_hash64(row.p, row.n, 0);
    } else {
        WR_TRY(hash_of(t, row, &h.key, err));
    }
    h.there = is_wanted(r, t, t->vals, h.key);
    *ret = h;
    return WR_OK;
}

/* A row of m->shape as one of the common columns, valid until the next. */
static wr_code to_common(side_member *m, wr_slice *row, wr_err *err) {
    if (!m->convert) return WR_OK;
    wr_buf_rest(&m->table->row);
    WR_TRY(wr_convert_row(m->convert, *row, &m->table->row, err));
    *row = wr_buf_view(&m->table->row);
    return WR_OK;
}

/* ------------------------------------------------------------------ the lake's side */
typedef struct lake_reader { round *r; side_table *t; uint64_t file; } lake_reader;

static wr_code take_lake_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    lake_reader *l = ctx;
    hashed h;
    if (l->t->summed) return wr_side_sum_lake_row(l->t, row, err);
    WR_TRY(hash_row(l->r, l->t, row, &h, err));
    return h.there ? wr_sieve_add(l->t->sieve, WR_SIDE_LAKE, false, h.key, h.row, l->file << 32 | pos, err) : WR_OK;
}

/* A file that is not there is a loss, unless the table needs it no more: then somebody's expiry was quicker than we. */
static wr_code judge_missing(round *r, side_table *t, const char *path, wr_err *err) {
    WR_AUTO char *catalog = wr_path_join(r->o->home, "catalog.db");
    wr_lake_view *v = NULL;
    const wr_sql_table *tables;
    const wr_table_health *health;
    int n;
    bool needed = false;
    wr_err why = *err;
    if (!catalog) return wr_nomem(err, "path", 256);
    wr_err_clear(err);
    wr_code rc = wr_lake_view_open(&(wr_lake_view_options){.catalog_path = catalog, .store = r->store, .rest = r->o->rest}, &v, err);
    if (rc == WR_OK) rc = wr_lake_view_tables(v, &tables, &health, &n, err);
    for (int i = 0; rc == WR_OK && i < n; i++)
        for (int k = 0; !strcmp(tables[i].ns, t->ns) && !strcmp(tables[i].name, t->name) && k < tables[i].nfiles; k++) needed |= !strcmp(tables[i].files[k].path, path);
    if (rc == WR_OK && needed) rc = wr_table_report_find(t->report, why.code == WR_E_NOTFOUND ? "file-missing" : "file-unreadable", path, NULL, why.msg, err);
    else if (rc == WR_OK) rc = wr_side_moved(t, err, "a data file of the snapshot that was compared has left the lake since (%.400s)", path);
    wr_lake_view_close(v);
    return rc;
}

wr_code wr_side_read_lake(round *r, side_table *t, wr_err *err) {
    const wr_sql_table *tables;
    const wr_table_health *health;
    int n;
    WR_TRY(wr_lake_view_tables(r->view, &tables, &health, &n, err));
    const wr_sql_table *lake = &tables[t->lake];
    for (int i = 0; i < lake->nfiles && !t->again; i++) {
        lake_reader l = {r, t, (uint64_t)i};
        WR_TRY(wr_side_gave_up(r, err));
        wr_code rc = wr_lake_view_rows(r->view, t->lake, i, t->columns, t->common->ncols, take_lake_row, &l, err);
        if (rc == WR_E_NOTFOUND || rc == WR_E_DECODE) rc = judge_missing(r, t, lake->files[i].path, err);
        WR_TRY(rc);
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ changes */
/* Rows of changes are kept: they cannot be read from the source again. */
typedef struct image_head { uint64_t seq; wr_h128 key; uint32_t side, bytes; } image_head;

static wr_code keep_image(side_table *t, wr_side side, wr_h128 key, uint64_t seq, wr_slice row, wr_err *err) {
    image_head h = {seq, key, side, (uint32_t)row.n};
    wr_buf_put(&t->images_tail, &h, sizeof h);
    wr_buf_put(&t->images_tail, row.p, row.n);
    WR_TRY(wr_buf_check(&t->images_tail, "changed rows", err));
    if (t->images_tail.n < IMAGES_BUFFER) return WR_OK;
    if (!t->images) {
        WR_TRY(wr_file_open(t->images_path, WR_OPEN_CREATE, &t->images, err));
        WR_TRY(wr_file_remove(t->images_path, err));
    }
    WR_TRY(wr_file_pwrite(t->images, t->images_end, wr_buf_view(&t->images_tail), err));
    t->images_end += t->images_tail.n;
    wr_buf_rest(&t->images_tail);
    return WR_OK;
}

static wr_code add_image(side_member *m, wr_side side, bool absent, const hashed *h, uint64_t seq, wr_slice row, wr_err *err) {
    side_table *t = m->table;
    WR_TRY(wr_sieve_add(t->sieve, side, absent, h->key, t->nkey ? h->row : (uint64_t)m->no, seq, err));
    return absent ? WR_OK : keep_image(t, side, h->key, seq, row, err);
}

/* before and after: rows of m->shape, empty where there is none. Both for going on from what was read and for going back. */
static wr_code add_change(round *r, side_member *m, uint64_t seq, wr_slice before, wr_slice after, wr_err *err) {
    side_table *t = m->table;
    hashed b = {0}, a = {0};
    WR_AUTO_BUF wr_buf kept = WR_BUF_INIT;
    if (before.n) {
        WR_TRY(to_common(m, &before, err));
        WR_TRY(hash_row(r, t, before, &b, err));
        if (m->convert && after.n) { /* the scratch is the next row's */
            wr_buf_put(&kept, before.p, before.n);
            WR_TRY(wr_buf_check(&kept, "changed row", err));
            before = wr_buf_view(&kept);
        }
    }
    if (after.n) {
        WR_TRY(to_common(m, &after, err));
        WR_TRY(hash_row(r, t, after, &a, err));
    }
    bool same_key = t->nkey && a.there && b.there && a.key.hi == b.key.hi && a.key.lo == b.key.lo;
    if (b.there && !same_key) WR_TRY(add_image(m, WR_SIDE_AFTER, true, &b, seq, before, err));
    if (a.there) WR_TRY(add_image(m, WR_SIDE_AFTER, false, &a, seq, after, err));
    if (a.there && !same_key) WR_TRY(add_image(m, WR_SIDE_BEFORE, true, &a, seq, after, err));
    if (b.there) WR_TRY(add_image(m, WR_SIDE_BEFORE, false, &b, seq, before, err));
    return WR_OK;
}

static wr_code flush_changes(round *r, side_member *m, wr_err *err) {
    wr_slice rows[WR_TRANSFORM_ROWS];
    const wr_outcome *out;
    uint32_t n = 0, at = 0;
    if (!m->nwaiting) return WR_OK;
    for (uint32_t i = 0; i < 2 * m->nwaiting; i++) {
        size_t from = i ? m->ends[i - 1] : 0;
        if (m->ends[i] > from) rows[n++] = wr_slice_of(m->waiting.p + from, m->ends[i] - from);
    }
    WR_TRY(wr_transform_run(m->transform, rows, n, &out, err));
    for (uint32_t i = 0; i < m->nwaiting; i++) {
        wr_slice row[2] = {{0}, {0}};
        for (uint32_t k = 0; k < 2; k++) {
            size_t from = 2 * i + k ? m->ends[2 * i + k - 1] : 0;
            if (m->ends[2 * i + k] == from) continue;
            if (out[at].fate == WR_FATE_PASS) row[k] = out[at].row;
            at++;
        }
        WR_TRY(add_change(r, m, m->seqs[i], row[0], row[1], err));
    }
    m->nwaiting = 0;
    wr_buf_clear(&m->waiting);
    wr_transform_rest(m->transform);
    return WR_OK;
}

static wr_code wait_for_transform(round *r, side_member *m, const wr_change *c, wr_err *err) {
    if (!m->seqs) {
        m->seqs = wr_malloc(WAITING_MAX * sizeof *m->seqs), m->ends = wr_malloc(2 * WAITING_MAX * sizeof *m->ends);
        if (!m->seqs || !m->ends) return wr_nomem(err, "changes", WAITING_MAX * sizeof *m->seqs);
    }
    wr_buf_put(&m->waiting, c->before.p, c->before.n);
    m->ends[2 * m->nwaiting] = m->waiting.n;
    wr_buf_put(&m->waiting, c->after.p, c->after.n);
    WR_TRY(wr_buf_check(&m->waiting, "changes", err));
    m->ends[2 * m->nwaiting + 1] = m->waiting.n;
    m->seqs[m->nwaiting++] = r->seq;
    return m->nwaiting == WAITING_MAX || m->waiting.n > WAITING_BYTES ? flush_changes(r, m, err) : WR_OK;
}

/* ------------------------------------------------------------------ the stream */
static wr_code on_change(void *ctx, const wr_change *c, wr_err *err) {
    round *r = ctx;
    side_member *m = wr_u64map_get(r->members, c->table);
    r->seq++;
    if (!m || (!m->table->sieve && !m->table->summed) || m->table->again) return WR_OK;
    if (m->odd || c->schema_version != m->version) return wr_side_moved(m->table, err, "%s.%s was altered meanwhile", m->db, m->name);
    if (m->table->summed) return wr_side_sum_change(r, m, c, err);
    if (m->transform) return wait_for_transform(r, m, c, err);
    return add_change(r, m, r->seq, c->before, c->after, err);
}

/* A table of the lake that was not in the source when the round began came into it since. */
static wr_code take_surplus_back(round *r, const wr_ddl *d, wr_err *err) {
    wr_route route = wr_routes_find(r->routes, d->db, d->name);
    for (int i = 0; r->any_surplus && i < r->report->ntables; i++) {
        wr_table_report *rep = &r->report->tables[i];
        side_table t = {.report = rep};
        if (rep->nsources || strcmp(rep->ns, route.ns) || strcmp(rep->name, route.name) || rep->verdict != WR_DIFFERENT) continue;
        WR_TRY(wr_side_moved(&t, err, "%s.%s was created or altered meanwhile", d->db, d->name));
        wr_table_report_forget(rep);
    }
    return WR_OK;
}

static wr_code on_ddl(void *ctx, const wr_ddl *d, wr_err *err) {
    round *r = ctx;
    WR_TRY(take_surplus_back(r, d, err));
    for (int i = 0; i < r->ntables; i++)
        for (int k = 0; k < r->tables[i]->nmembers; k++) {
            side_member *m = r->tables[i]->members[k];
            bool same_name = (!strcmp(d->db, m->db) && !strcmp(d->name, m->name)) || (d->old_name && !strcmp(d->old_db, m->db) && !strcmp(d->old_name, m->name));
            if (same_name || (m->id && d->table == m->id)) WR_TRY(wr_side_moved(m->table, err, "%s.%s was altered meanwhile%s%.300s", m->db, m->name, d->why ? ": " : "", d->why ? d->why : ""));
        }
    return WR_OK;
}

static wr_code on_stale(void *ctx, uint32_t table, const char *why, wr_err *err) {
    round *r = ctx;
    side_member *m = wr_u64map_get(r->members, table);
    return m ? wr_side_moved(m->table, err, "rows of %s.%s changed meanwhile without being in the binlog: %.300s", m->db, m->name, why) : WR_OK;
}

static wr_code on_commit(void *ctx, const wr_pos *pos, int64_t event_time_us, wr_err *err) {
    round *r = ctx;
    r->seq_committed = r->seq;
    wr_side_sum_end(r, pos);
    for (int i = 0; i < r->npoints; i++)
        if (wr_pos_cmp(pos, &r->points[i].pos) <= 0) r->points[i].seq = r->seq;
    return wr_pos_cmp(pos, &r->end) >= 0 ? wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "all has been read") : WR_OK;
}

static wr_code on_abort(void *ctx, wr_err *err) {
    round *r = ctx;
    wr_side_sum_end(r, NULL);
    if (r->seq == r->seq_committed) return WR_OK;
    size_t n = (size_t)r->nvoid + 1;
    uint64_t *a = wr_realloc(r->void_from, n * sizeof *a);
    if (a) r->void_from = a;
    uint64_t *z = a ? wr_realloc(r->void_to, n * sizeof *z) : NULL;
    if (!z) return wr_nomem(err, "changes", n * sizeof *z);
    r->void_to = z;
    r->void_from[r->nvoid] = r->seq_committed + 1, r->void_to[r->nvoid++] = r->seq;
    return WR_OK;
}

/* The number of the last change up to a position: known when the stream has passed it. */
static wr_code point_of(round *r, const wr_pos *pos, int *ret, wr_err *err) {
    for (int i = 0; i < r->npoints; i++)
        if (wr_pos_cmp(&r->points[i].pos, pos) == 0) return *ret = i, WR_OK;
    seq_point *p = wr_realloc(r->points, ((size_t)r->npoints + 1) * sizeof *p);
    if (!p) return wr_nomem(err, "positions", sizeof *p);
    r->points = p;
    p[r->npoints] = (seq_point){0};
    WR_TRY(wr_pos_copy(&p[r->npoints].pos, pos, err));
    *ret = r->npoints++;
    return WR_OK;
}

/* Definitions that differ may do so because one of the two is from another time. */
bool wr_side_follows(const side_table *t) { return t->sieve || t->summed || t->report->nfindings; }

static bool same_columns(const wr_schema *a, const wr_schema *b) {
    if (a->ncols != b->ncols) return false;
    for (int i = 0; i < a->ncols; i++)
        if (strcmp(a->cols[i].name, b->cols[i].name) || !wr_type_eq(a->cols[i].type, b->cols[i].type)) return false;
    return true;
}

static wr_code restore_table(void *ctx, const wr_ddl *d, wr_err *err) {
    round *r = ctx;
    WR_TRY(wr_source_restore(r->source, d, err));
    for (int i = 0; d->schema && i < r->ntables; i++)
        for (int k = 0; k < r->tables[i]->nmembers; k++) {
            side_member *m = r->tables[i]->members[k];
            if (strcmp(d->db, m->db) || strcmp(d->name, m->name)) continue;
            m->id = d->table, m->version = d->schema->version, m->odd = !same_columns(d->schema, m->schema);
            if (!wr_u64map_put(r->members, m->id, m)) return wr_nomem(err, "table", 64);
        }
    return WR_OK;
}

/* The catalogue as the pipeline had it at the lake's position: with the present one a statement that changed a table since would seem to change nothing. */
static wr_code restore_catalogue(round *r, uint64_t offset, wr_err *err) {
    uint32_t max;
    WR_TRY(wr_state_schema_max_table(r->state, &max, err));
    WR_TRY(wr_source_forget(r->source, max + 1, err));
    WR_TRY(wr_state_schema_load(r->state, offset, restore_table, r, err));
    for (int i = 0; i < r->ntables; i++)
        for (int k = 0; k < r->tables[i]->nmembers; k++) {
            const side_member *m = r->tables[i]->members[k];
            if (!m->id && (m->table->sieve || m->table->summed)) WR_TRY(wr_side_moved(m->table, err, "%s.%s was not known yet at the lake's position", m->db, m->name));
        }
    return WR_OK;
}

wr_code wr_side_stream(round *r, wr_err *err) {
    const wr_stream_sink sink = {.ctx = r, .change = on_change, .ddl = on_ddl, .commit = on_commit, .abort = on_abort, .stale = on_stale};
    uint64_t offset;
    const wr_pos *from = wr_lake_view_progress(r->view, &offset);
    bool any = r->any_surplus;
    int ignored;
    for (int i = 0; i < r->ntables; i++)
        for (int k = 0; k < r->tables[i]->nmembers; k++) {
            const side_member *m = r->tables[i]->members[k];
            if (m->kept_any && wr_pos_cmp(&m->kept_from, from) < 0) from = &m->kept_from, offset = m->kept_offset;
        }
    for (int i = 0; i < r->ntables; i++) {
        side_table *t = r->tables[i];
        if (!wr_side_follows(t) || t->again) continue;
        any = true;
        if (!t->at.pos.file[0]) continue; /* missing */
        WR_TRY(point_of(r, &t->at.pos, &t->point, err));
        for (int k = 0; k < t->nmembers; k++)
            if (t->members[k]->exact) WR_TRY(point_of(r, &t->members[k]->read_at, &ignored, err));
    }
    if (!any) return WR_OK;
    WR_TRY(restore_catalogue(r, offset, err));
    if (wr_pos_cmp(from, &r->end) >= 0) return WR_OK;
    WR_TRY(wr_source_stream(r->source, from, &sink, err));
    for (int i = 0; i < r->ntables; i++)
        for (int k = 0; k < r->tables[i]->nmembers; k++) WR_TRY(flush_changes(r, r->tables[i]->members[k], err));
    return WR_OK;
}

/* ------------------------------------------------------------------ the source's side */
typedef struct source_reader {
    round *r;
    side_member *m;
    uint64_t chunk, rows_read;
    /* of a second reading, for the report: */
    wr_code (*again)(void *ctx, const hashed *h, wr_slice row, wr_err *err);
    void *ctx;
    wr_buf rows; size_t ends[WR_TRANSFORM_ROWS]; uint32_t n;
} source_reader;

static wr_code settle_row(source_reader *s, wr_slice row, wr_err *err) {
    hashed h;
    WR_TRY(to_common(s->m, &row, err));
    WR_TRY(hash_row(s->r, s->m->table, row, &h, err));
    if (s->again) return s->again(s->ctx, &h, row, err);
    s->rows_read++;
    if (h.there && s->m->kept) wr_kept_row(s->m->kept, h.key, h.row);
    return h.there ? wr_sieve_add(s->m->table->sieve, WR_SIDE_READ, false, h.key, s->m->table->nkey ? h.row : (uint64_t)s->m->no, (uint64_t)s->m->no << 40 | s->chunk, err) : WR_OK;
}

static wr_code flush_rows(source_reader *s, wr_err *err) {
    wr_slice rows[WR_TRANSFORM_ROWS];
    const wr_outcome *out;
    if (!s->n) return WR_OK;
    for (uint32_t i = 0; i < s->n; i++) rows[i] = wr_slice_of(s->rows.p + (i ? s->ends[i - 1] : 0), s->ends[i] - (i ? s->ends[i - 1] : 0));
    WR_TRY(wr_transform_run(s->m->transform, rows, s->n, &out, err));
    for (uint32_t i = 0; i < s->n; i++)
        if (out[i].fate == WR_FATE_PASS) WR_TRY(settle_row(s, out[i].row, err));
    s->n = 0;
    wr_buf_clear(&s->rows);
    return WR_OK;
}

static wr_code take_source_row(void *ctx, wr_slice row, wr_err *err) {
    source_reader *s = ctx;
    if (!s->m->transform) return settle_row(s, row, err);
    wr_buf_put(&s->rows, row.p, row.n);
    WR_TRY(wr_buf_check(&s->rows, "rows", err));
    s->ends[s->n++] = s->rows.n;
    return s->n == WR_TRANSFORM_ROWS || s->rows.n > WAITING_BYTES ? flush_rows(s, err) : WR_OK;
}

wr_code wr_side_cursor(side_member *m, char *cursor, wr_err *err) {
    if (m->ncursors == m->cap) {
        uint64_t cap = m->cap ? m->cap * 2 : 16;
        char **c = wr_realloc(m->cursors, cap * sizeof *c);
        if (!c) return wr_free(cursor), wr_nomem(err, "chunks", cap * sizeof *c);
        m->cursors = c, m->cap = cap;
    }
    m->cursors[m->ncursors++] = cursor;
    return WR_OK;
}

static wr_code read_chunks(source_reader *s, wr_snap *sn, wr_err *err) {
    round *r = s->r;
    side_member *m = s->m;
    WR_AUTO char *label = wr_asprintf("%s.%s", m->db, m->name);
    bool done;
    WR_TRY(wr_side_cursor(m, NULL, err));
    WR_TRY(wr_kept_open(r, m, &m->kept, &done, err));
    while (!done) {
        char *next = NULL;
        s->chunk = m->ncursors - 1;
        WR_TRY(wr_snap_chunk(sn, &(wr_key_range){.after = m->cursors[s->chunk]}, CHUNK_ROWS, take_source_row, s, &next, err));
        if (m->transform) WR_TRY(flush_rows(s, err)); /* they are this chunk's */
        wr_code rc = wr_kept_chunk(m->kept, r, m, next, err);
        if (rc != WR_OK) return wr_free(next), rc;
        if (!next) break;
        WR_TRY(wr_side_cursor(m, next, err));
        pthread_mutex_lock(&r->lock);
        if (r->what->progress && label) r->what->progress(r->what->ctx, label, s->rows_read, wr_snap_estimate(sn));
        pthread_mutex_unlock(&r->lock);
        WR_TRY(wr_source_wait_until_calm(r->source, r->what->gave_up, r->what->ctx, err));
        WR_TRY(wr_side_gave_up(r, err));
    }
    return WR_OK;
}

wr_code wr_side_read_source(round *r, side_member *m, wr_err *err) {
    wr_snap *sn;
    source_reader *s = wr_calloc(1, sizeof *s);
    if (!s) return wr_nomem(err, "reader", sizeof *s);
    s->r = r, s->m = m;
    m->exact = m->schema->nkey == 0 || m->table->nkey == 0;
    wr_code rc = wr_snap_open(r->source, m->def, &sn, err);
    if (rc == WR_OK) {
        if (m->exact) rc = wr_snap_read_all(sn, take_source_row, s, &m->read_at, err);
        else rc = read_chunks(s, sn, err);
        if (rc == WR_OK && m->transform) rc = flush_rows(s, err);
        wr_snap_close(sn);
    }
    wr_buf_free(&s->rows);
    wr_free(s);
    if (rc != WR_E_SCHEMA && rc != WR_E_NOTFOUND) return rc;
    wr_err why = *err;
    wr_err_clear(err);
    return wr_side_moved(m->table, err, "%s", why.msg);
}

/* ------------------------------------------------------------------ differences */
typedef struct collector {
    round *r;
    side_table *t;
    wr_difference *d;
    uint64_t n, cap, most;
} collector;

static wr_code collect(void *ctx, const wr_difference *d, wr_err *err) {
    collector *c = ctx;
    if (c->n == c->most) return c->t->report->left_out++, WR_OK;
    if (c->n == c->cap) {
        uint64_t cap = c->cap ? c->cap * 2 : 64;
        wr_difference *p = wr_realloc(c->d, cap * sizeof *p);
        if (!p) return wr_nomem(err, "differences", cap * sizeof *p);
        c->d = p, c->cap = cap;
    }
    c->d[c->n++] = *d;
    return WR_OK;
}

static wr_h128 sort_key(const wr_difference *d) { return d->key; }

static int by_key(const void *a, const void *b) {
    wr_h128 x = sort_key(a), y = sort_key(b);
    if (x.hi != y.hi) return x.hi < y.hi ? -1 : 1;
    return x.lo < y.lo ? -1 : x.lo > y.lo;
}

static wr_difference *find_key(const collector *c, wr_h128 key) {
    wr_difference k = {.key = key};
    return c->n ? bsearch(&k, c->d, c->n, sizeof k, by_key) : NULL;
}

/* Of a row of megabytes, the beginnings of its long values, with what tells the rest of them apart. Keys are never so long. */
static wr_code put_shown(const side_table *t, wr_slice row, wr_buf *out, wr_err *err) {
    const wr_schema *s = t->common;
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    if (row.n <= SHOWN_ROW) return wr_buf_put(out, row.p, row.n), wr_buf_check(out, "row", err);
    WR_TRY(wr_row_read(s, row, t->vals, err));
    size_t at = wr_row_begin(out, s->ncols);
    for (int i = 0; i < s->ncols; i++) {
        wr_value v = t->vals[i];
        wr_type type = s->cols[i].type;
        if (!v.null && (type.kind == WR_STRING || type.kind == WR_BINARY) && v.s.n > SHOWN_VALUE) {
            size_t n = SHOWN_VALUE;
            while (n && (v.s.p[n] & 0xC0) == 0x80) n--; /* not within a character */
            wr_buf_clear(&text);
            wr_buf_put(&text, v.s.p, n);
            wr_buf_printf(&text, "... (%zu bytes, XXH3 %016" PRIx64 ")", v.s.n, wr_hash64(v.s.p, v.s.n, 0));
            WR_TRY(wr_buf_check(&text, "row", err));
            v.s = wr_buf_view(&text);
        }
        wr_row_put(out, at, i, type, &v);
    }
    return wr_buf_check(out, "row", err);
}

static wr_code take_again(void *ctx, const hashed *h, wr_slice row, wr_err *err) {
    const collector *c = ctx;
    const wr_difference *d = h->there ? find_key(c, h->key) : NULL;
    if (!d || !d->in_source || d->source_side != WR_SIDE_READ) return WR_OK;
    wr_difference_shown *shown = &c->t->report->shown[d - c->d];
    if (shown->source.n || (c->t->nkey && h->row != d->source_row)) return WR_OK;
    return put_shown(c->t, row, &shown->source, err);
}

static int by_u64(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The chunks with differing rows once more. A row that has changed since is not shown: its hash does not match. */
static wr_code read_again(collector *c, wr_err *err) {
    uint64_t n = 0;
    WR_AUTO uint64_t *chunks = wr_malloc(c->n * sizeof *chunks + 1);
    source_reader *s = chunks ? wr_calloc(1, sizeof *s) : NULL;
    if (!s) return wr_nomem(err, "differences", c->n * sizeof *chunks);
    for (uint64_t i = 0; i < c->n; i++)
        if (c->d[i].in_source && c->d[i].source_side == WR_SIDE_READ) chunks[n++] = c->d[i].source_where;
    qsort(chunks, n, sizeof *chunks, by_u64);
    wr_code rc = WR_OK;
    wr_snap *sn = NULL;
    s->r = c->r, s->again = take_again, s->ctx = c;
    for (uint64_t i = 0; rc == WR_OK && i < n; i++) {
        if (i && chunks[i] == chunks[i - 1]) continue;
        side_member *m = c->t->members[chunks[i] >> 40];
        if (!sn || s->m != m) {
            wr_snap_close(sn);
            sn = NULL, s->m = m;
            if ((rc = wr_snap_open(c->r->source, m->def, &sn, err)) != WR_OK) break;
        }
        char *next = NULL;
        wr_pos at = {0};
        if (m->schema->nkey && !m->exact) rc = wr_snap_chunk(sn, &(wr_key_range){.after = m->cursors[chunks[i] & ((UINT64_C(1) << 40) - 1)]}, CHUNK_ROWS, take_source_row, s, &next, err);
        else rc = wr_snap_read_all(sn, take_source_row, s, &at, err);
        if (rc == WR_OK && m->transform) rc = flush_rows(s, err);
        wr_pos_clear(&at);
        wr_free(next);
    }
    wr_snap_close(sn);
    wr_buf_free(&s->rows);
    wr_free(s);
    if (rc != WR_E_SCHEMA && rc != WR_E_NOTFOUND) return rc;
    return wr_err_clear(err), WR_OK; /* altered since: those rows are shown as gone */
}

static wr_code take_images(const collector *c, wr_slice bytes, size_t *ret_used, wr_err *err) {
    size_t at = 0;
    while (bytes.n - at >= sizeof(image_head)) {
        image_head h;
        memcpy(&h, bytes.p + at, sizeof h);
        if (bytes.n - at - sizeof h < h.bytes) break;
        const wr_difference *d = find_key(c, h.key);
        if (d && d->in_source && d->source_side == h.side && d->source_where == h.seq) {
            wr_buf *b = &c->t->report->shown[d - c->d].source;
            wr_buf_clear(b);
            WR_TRY(put_shown(c->t, wr_slice_of(bytes.p + at + sizeof h, h.bytes), b, err));
        }
        at += sizeof h + h.bytes;
    }
    *ret_used = at;
    return WR_OK;
}

static wr_code read_images(const collector *c, wr_err *err) {
    side_table *t = c->t;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    size_t used, got;
    for (uint64_t at = 0; at < t->images_end; at += got) {
        uint8_t *room = wr_buf_room(&b, IMAGES_BUFFER);
        if (!room) return wr_nomem(err, "changed rows", IMAGES_BUFFER);
        WR_TRY(wr_file_pread(t->images, at, room, IMAGES_BUFFER, &got, err));
        if (!got) break;
        b.n += got;
        WR_TRY(take_images(c, wr_buf_view(&b), &used, err));
        memmove(b.p, b.p + used, b.n - used);
        b.n -= used;
    }
    wr_buf_put(&b, t->images_tail.p, t->images_tail.n);
    WR_TRY(wr_buf_check(&b, "changed rows", err));
    return take_images(c, wr_buf_view(&b), &used, err);
}

typedef struct lake_again { const collector *c; uint64_t file; } lake_again;

static wr_code take_lake_again(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    lake_again *l = ctx;
    hashed h;
    WR_TRY(hash_row(l->c->r, l->c->t, row, &h, err));
    const wr_difference *d = find_key(l->c, h.key);
    if (!d || !d->in_lake || d->lake_where != (l->file << 32 | pos)) return WR_OK;
    wr_buf *b = &l->c->t->report->shown[d - l->c->d].lake;
    return put_shown(l->c->t, row, b, err);
}

static wr_code read_lake_again(collector *c, wr_err *err) {
    uint64_t n = 0;
    WR_AUTO uint64_t *files = wr_malloc(c->n * sizeof *files + 1);
    if (!files) return wr_nomem(err, "differences", c->n * sizeof *files);
    for (uint64_t i = 0; i < c->n; i++)
        if (c->d[i].in_lake) files[n++] = c->d[i].lake_where >> 32;
    qsort(files, n, sizeof *files, by_u64);
    for (uint64_t i = 0; i < n; i++) {
        if (i && files[i] == files[i - 1]) continue;
        lake_again l = {c, files[i]};
        wr_code rc = wr_lake_view_rows(c->r->view, c->t->lake, (int)files[i], c->t->columns, c->t->common->ncols, take_lake_again, &l, err);
        if (rc == WR_E_NOTFOUND) rc = WR_OK, wr_err_clear(err); /* expired since it was compared: not shown */
        WR_TRY(rc);
    }
    return WR_OK;
}

static wr_code show(collector *c, wr_err *err) {
    wr_table_report *rep = c->t->report;
    if (!c->n) return WR_OK;
    qsort(c->d, c->n, sizeof *c->d, by_key);
    if (!(rep->shown = wr_calloc(c->n, sizeof *rep->shown))) return wr_nomem(err, "differences", c->n * sizeof *rep->shown);
    rep->nshown = c->n;
    for (uint64_t i = 0; i < c->n; i++) rep->shown[i].kind = c->d[i].kind, rep->shown[i].in_source = c->d[i].in_source, rep->shown[i].in_lake = c->d[i].in_lake;
    WR_TRY(read_images(c, err));
    WR_TRY(read_again(c, err));
    WR_TRY(read_lake_again(c, err));
    for (uint64_t i = 0; i < c->n; i++) {
        wr_difference_shown *d = &rep->shown[i];
        d->source_gone = d->in_source && !d->source.n;
        c->r->shown_bytes += sizeof *d + d->source.cap + d->lake.cap;
    }
    return WR_OK;
}

/* As many as the memory that is left takes. */
static uint64_t most_shown(const round *r, const side_table *t) {
    uint64_t most = r->what->rows_shown ? r->what->rows_shown : SHOWN_DEFAULT, left = r->shown_bytes < SHOWN_BYTES ? SHOWN_BYTES - r->shown_bytes : 0;
    uint64_t bytes = 2 * (t->nhashed ? t->hashed_bytes / t->nhashed : 0) + sizeof(wr_difference_shown) + sizeof(wr_difference), fit = left / bytes;
    if (fit < SHOWN_LEAST) fit = SHOWN_LEAST;
    return most < fit ? most : fit;
}

wr_code wr_side_settle(round *r, side_table *t, wr_err *err) {
    collector c = {.r = r, .t = t, .most = most_shown(r, t)};
    WR_AUTO uint64_t *read_at = wr_calloc((size_t)t->nmembers, sizeof *read_at);
    if (!read_at) return wr_nomem(err, "positions", (size_t)t->nmembers * sizeof *read_at);
    for (int i = 0; i < t->nmembers; i++)
        for (int k = 0; t->members[i]->exact && k < r->npoints; k++)
            if (wr_pos_cmp(&r->points[k].pos, &t->members[i]->read_at) == 0) read_at[i] = r->points[k].seq;
    wr_sieve_bounds b = {.lake_seq = r->points[t->point].seq, .read_at = read_at, .void_from = r->void_from, .void_to = r->void_to, .nvoid = r->nvoid};
    wr_code rc = wr_sieve_join(t->sieve, &b, collect, &c, &t->report->rows, err);
    t->report->counted = rc == WR_OK;
    if (rc == WR_OK) rc = show(&c, err);
    wr_free(c.d);
    return rc;
}
