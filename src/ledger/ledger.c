/* Epochs: counting, comparing, settling. */
#include "weir/ledger.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "store.h"
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/map.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

#define EPOCH_US 1000000
#define EPOCHS_MAX 4096      /* a backlog of more makes them longer, not more */
#define MINUTE_US INT64_C(60000000)
#define AGE_EVERY_US (INT64_C(3600) * 1000000)
#define HOURS_AFTER_MIN (7 * 1440)   /* minutes that are older become hours */
#define DAYS_AFTER_MIN (90 * 1440)   /* hours that are older become days */

typedef struct epoch {
    uint64_t first, last;        /* last 0: open */
    int64_t opened_us;           /* monotonic */
    wr_tally at[WR_COUNTED];     /* consumed: committed */
    wr_tally fresh;              /* consumed since the last commit */
    bool kept;                   /* captured and queued are in the file */
    bool compared[2];            /* captured with queued, queued with consumed */
    bool unknown;                /* something of it was not counted: nothing is compared */
} epoch;

typedef struct minute_run { uint64_t first; int64_t minute; } minute_run; /* transactions from here on are of this minute */

struct wr_ledger {
    /* of the points' threads, each its own */
    struct { wr_tally tx; uint64_t seq; wr_hasher *hasher; wr_cell *cell; /* of a change in pieces; NULL: none is under way */ } point[WR_COUNTED];
    wr_tally tx_passed;          /* of the open transaction */

    pthread_mutex_t lock;        /* everything down to db */
    epoch **epochs;
    size_t n, cap;
    uint64_t from;               /* what is up to here was there before the ledger */
    uint64_t through[WR_COUNTED]; /* the last transaction that ended at each point */
    uint64_t committed, kept;
    wr_tally passed;             /* since the last commit */
    minute_run *runs;            /* of transactions consumed since the last commit */
    size_t nruns, runs_cap;
    uint64_t missing;

    pthread_mutex_t db_lock;     /* never taken with `lock` held */
    wr_ledger_store *db;
    int64_t aged_us;             /* monotonic */
    uint64_t forgotten;          /* settled commits up to here are forgotten */
    uint64_t alarms;             /* atomic */
    bool doubt;                  /* atomic */
};

static uint64_t mix(uint64_t x) {
    x ^= x >> 30, x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27, x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* ------------------------------------------------------------------ epochs. Lock held */
static void epoch_free(epoch *e) {
    if (!e) return;
    for (int i = 0; i < WR_COUNTED; i++) wr_tally_free(&e->at[i]);
    wr_tally_free(&e->fresh);
    wr_free(e);
}

/* The one with this offset, NULL when it is behind the last or in front of the first. */
static epoch *find(const wr_ledger *l, uint64_t offset) {
    size_t lo = 0, hi = l->n; /* the last one with first <= offset */
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (l->epochs[mid]->first <= offset) lo = mid;
        else hi = mid;
    }
    epoch *e = l->n ? l->epochs[lo] : NULL;
    return e && e->first <= offset && (!e->last || offset <= e->last) ? e : NULL;
}

static wr_code add_epoch(wr_ledger *l, uint64_t first, uint64_t last, epoch **ret, wr_err *err) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        epoch **list = wr_realloc(l->epochs, cap * sizeof *list);
        if (!list) return wr_nomem(err, "ledger", cap * sizeof *list);
        l->epochs = list, l->cap = cap;
    }
    epoch *e = wr_calloc(1, sizeof *e);
    if (!e) return wr_nomem(err, "ledger", sizeof *e);
    e->first = first, e->last = last, e->opened_us = wr_mono_us();
    l->epochs[l->n++] = e;
    *ret = e;
    return WR_OK;
}

static uint64_t furthest(const wr_ledger *l) {
    uint64_t m = 0;
    for (int i = 0; i < WR_COUNTED; i++) m = l->through[i] > m ? l->through[i] : m;
    return m;
}

/* Whoever has gone furthest decides where an epoch ends: nobody has gone beyond. */
static void close_epoch(wr_ledger *l, int64_t now_us, bool at_once) {
    epoch *e = l->n ? l->epochs[l->n - 1] : NULL;
    if (e && !e->last && (at_once || now_us - e->opened_us >= EPOCH_US) && l->n < EPOCHS_MAX && furthest(l) >= e->first) e->last = furthest(l);
}

static wr_code epoch_of(wr_ledger *l, uint64_t offset, epoch **ret, wr_err *err) {
    *ret = find(l, offset);
    if (*ret || offset <= l->from || (l->n && offset < l->epochs[0]->first)) return WR_OK;
    if (!l->n && offset <= l->kept) return WR_OK; /* settled */
    return add_epoch(l, l->n ? l->epochs[l->n - 1]->last + 1 : l->kept + 1, 0, ret, err);
}

/* ------------------------------------------------------------------ counting */
void wr_ledger_doubt(wr_ledger *l) {
    if (l) __atomic_store_n(&l->doubt, true, __ATOMIC_RELAXED);
}

/* Of a change's beginning; NULL: it cannot be counted. */
static wr_cell *cell_of_change(wr_ledger *l, wr_point at, wr_slice change) {
    wr_rd rd = wr_rd_of(change.p, change.n);
    uint8_t op = wr_rd_u8(&rd);
    uint32_t table = (uint32_t)wr_rd_varint(&rd);
    return rd.bad || !op || op > 3 ? NULL : wr_tally_at(&l->point[at].tx, wr_cell_key(table, op, 0));
}

static void count(wr_ledger *l, wr_point at, wr_cell *c, uint64_t hash) {
    c->rows++;
    c->sum += mix(hash + ++l->point[at].seq * UINT64_C(0x9e3779b97f4a7c15));
}

void wr_ledger_note(wr_ledger *l, wr_point at, wr_slice change) {
    if (!l) return;
    wr_cell *c = cell_of_change(l, at, change);
    if (!c) return wr_ledger_doubt(l);
    count(l, at, c, wr_hash64(change.p, change.n, 0));
}

static void forget_piece(wr_ledger *l, wr_point at) {
    if (l->point[at].cell) wr_hasher_end(l->point[at].hasher);
    l->point[at].cell = NULL;
}

void wr_ledger_note_piece(wr_ledger *l, wr_point at, wr_slice piece, bool more) {
    if (!l) return;
    if (!l->point[at].cell && !more) return wr_ledger_note(l, at, piece);
    if (!l->point[at].hasher) l->point[at].hasher = wr_hasher_new();
    if (!l->point[at].cell && l->point[at].hasher) l->point[at].cell = cell_of_change(l, at, piece);
    wr_cell *c = l->point[at].cell;
    if (!c) return wr_ledger_doubt(l);
    wr_hasher_add(l->point[at].hasher, piece.p, piece.n);
    if (more) return;
    count(l, at, c, wr_hasher_end(l->point[at].hasher));
    l->point[at].cell = NULL;
}

void wr_ledger_abort(wr_ledger *l, wr_point at) {
    if (!l) return;
    forget_piece(l, at);
    wr_tally_clear(&l->point[at].tx);
    l->point[at].seq = 0;
}

static void put(wr_tally *to, const wr_tally *tx, uint64_t factor, int64_t event_us, int64_t now_us) {
    int64_t minute = event_us / MINUTE_US;
    uint64_t delay_ms = now_us > event_us ? (uint64_t)(now_us - event_us) / 1000 : 0, at_ms = (uint64_t)(event_us - minute * MINUTE_US) / 1000;
    for (size_t i = 0; i < tx->cap; i++) {
        const wr_cell *c = &tx->cells[i];
        if (!c->key) continue;
        wr_cell add = {.key = c->key | ((uint64_t)minute & 0xfffffff), .rows = c->rows, .sum = c->sum * factor, .delay_ms = delay_ms * c->rows, .delay_ms_max = (uint32_t)(delay_ms > UINT32_MAX ? UINT32_MAX : delay_ms),
                       .at_ms = at_ms * c->rows, .at_ms_min = (uint32_t)at_ms};
        wr_tally_add(to, &add);
    }
}

static wr_code note_minute(wr_ledger *l, uint64_t offset, int64_t minute, wr_err *err) {
    if (l->nruns && l->runs[l->nruns - 1].minute == minute) return WR_OK;
    if (l->nruns == l->runs_cap) {
        size_t cap = l->runs_cap ? l->runs_cap * 2 : 16;
        minute_run *r = wr_realloc(l->runs, cap * sizeof *r);
        if (!r) return wr_nomem(err, "ledger", cap * sizeof *r);
        l->runs = r, l->runs_cap = cap;
    }
    l->runs[l->nruns++] = (minute_run){offset, minute};
    return WR_OK;
}

static wr_code fold(wr_ledger *l, wr_point at, uint64_t offset, int64_t event_us, int64_t now_us, wr_err *err) {
    epoch *e;
    wr_tally *tx = &l->point[at].tx;
    WR_TRY(epoch_of(l, offset, &e, err));
    wr_tally *to = !e ? NULL : at == WR_CONSUMED ? &e->fresh : &e->at[at];
    if (to && !wr_tally_reserve(to, tx->n)) return wr_nomem(err, "ledger", tx->n * sizeof(wr_cell));
    if (at == WR_CONSUMED) {
        WR_TRY(note_minute(l, offset, event_us / MINUTE_US, err));
        if (!wr_tally_reserve(&l->passed, l->tx_passed.n)) return wr_nomem(err, "ledger", l->tx_passed.n * sizeof(wr_cell));
        if (e) put(&l->passed, &l->tx_passed, 0, event_us, now_us);
    }
    if (to) put(to, tx, mix(offset) | 1, event_us, now_us);
    return WR_OK;
}

void wr_ledger_end(wr_ledger *l, wr_point at, uint64_t offset, int64_t event_us) {
    if (!l) return;
    int64_t now_us = wr_now_us();
    wr_err err = WR_ERR_INIT;
    pthread_mutex_lock(&l->lock);
    if (fold(l, at, offset, event_us < 0 ? 0 : event_us, now_us, &err) != WR_OK) wr_ledger_doubt(l);
    l->through[at] = offset;
    if (at == WR_CAPTURED) close_epoch(l, wr_mono_us(), false);
    pthread_mutex_unlock(&l->lock);
    wr_ledger_abort(l, at);
    if (at == WR_CONSUMED) wr_tally_clear(&l->tx_passed);
}

static bool known_minute(const wr_ledger *l, uint64_t offset, int64_t *ret_minute) {
    for (size_t i = l->nruns; i-- > 0;)
        if (l->runs[i].first <= offset) return *ret_minute = l->runs[i].minute, true;
    return false;
}

void wr_ledger_pass(wr_ledger *l, uint64_t offset, uint8_t op, uint32_t table) {
    if (!l) return;
    wr_cell c = {.key = wr_cell_key(table, op, 0), .rows = 1};
    bool ok = true;
    if (offset > l->through[WR_CONSUMED]) ok = wr_tally_add(&l->tx_passed, &c); /* through[CONSUMED] is written by this very thread */
    else {
        int64_t minute;
        pthread_mutex_lock(&l->lock);
        if (known_minute(l, offset, &minute)) c.key = wr_cell_key(table, op, minute), ok = wr_tally_add(&l->passed, &c);
        pthread_mutex_unlock(&l->lock);
    }
    if (!ok) wr_ledger_doubt(l);
}

/* What of some tables goes to the lake with the next commit: each table's to its tally in `to` (by table id). Lock held. */
static bool share_out(const wr_ledger *l, const wr_u64map *to) {
    bool ok = true;
    for (size_t i = 0; i < l->n; i++) {
        const wr_tally *t = &l->epochs[i]->fresh;
        for (size_t k = 0; t->n && k < t->cap; k++) {
            wr_tally *out = t->cells[k].key ? wr_u64map_get(to, wr_cell_table(t->cells[k].key)) : NULL;
            if (out) ok &= wr_tally_add(out, &t->cells[k]);
        }
    }
    for (size_t k = 0; ok && l->passed.n && k < l->passed.cap; k++) {
        const wr_cell *p = &l->passed.cells[k];
        wr_tally *out = p->key ? wr_u64map_get(to, wr_cell_table(p->key)) : NULL;
        if (!out || !wr_tally_get(out, p->key)) continue;
        wr_cell *c = wr_tally_at(out, p->key);
        uint64_t left = c->rows > p->rows ? c->rows - p->rows : 0;
        c->at_ms = c->rows ? c->at_ms / c->rows * left : 0, c->rows = left;
    }
    return ok;
}

void wr_ledger_pass_all(wr_ledger *l, uint32_t table) {
    if (!l) return;
    wr_tally rest = {0};
    wr_u64map *only = wr_u64map_new();
    bool ok = only && wr_u64map_put(only, table, &rest);
    pthread_mutex_lock(&l->lock);
    ok = ok && share_out(l, only) && wr_tally_reserve(&l->passed, rest.n);
    for (size_t i = 0; ok && i < rest.cap; i++)
        if (rest.cells[i].key) wr_tally_add(&l->passed, &(wr_cell){.key = rest.cells[i].key, .rows = rest.cells[i].rows});
    pthread_mutex_unlock(&l->lock);
    for (size_t i = 0; ok && i < l->point[WR_CONSUMED].tx.cap; i++) { /* and of the open transaction */
        const wr_cell *c = &l->point[WR_CONSUMED].tx.cells[i];
        if (!c->key || wr_cell_table(c->key) != table) continue;
        wr_cell *p = wr_tally_at(&l->tx_passed, c->key);
        if (p) p->rows = c->rows;
        ok = p;
    }
    wr_tally_free(&rest);
    wr_u64map_free(only, NULL);
    if (!ok) wr_ledger_doubt(l);
}

wr_code wr_ledger_name(wr_ledger *l, uint32_t table, const char *db, const char *name, wr_err *err) {
    pthread_mutex_lock(&l->db_lock);
    wr_code rc = wr_ledger_store_run(l->db, LQ_NAME, (int64_t[]){table}, 1, (const char *[]){db, name}, 2, err);
    pthread_mutex_unlock(&l->db_lock);
    return rc;
}

/* ------------------------------------------------------------------ alarms. db_lock held */
static wr_code count_alarms(wr_ledger *l, wr_err *err) {
    int64_t n;
    WR_TRY(wr_ledger_store_number(l->db, "SELECT count(*) FROM alarm WHERE acknowledged_us IS NULL", &n, err));
    __atomic_store_n(&l->alarms, (uint64_t)n, __ATOMIC_RELAXED);
    return WR_OK;
}

static wr_code raise(wr_ledger *l, const char *hop, const char *subject, int64_t minute, const char *text, wr_err *err) {
    int64_t now = wr_now_us();
    wr_log(WR_LOG_ERROR, "ledger: %s: %s: %s", hop, subject, text);
    WR_TRY(wr_ledger_store_run(l->db, LQ_ALARM, (int64_t[]){minute, now, now}, 3, (const char *[]){hop, subject, text}, 3, err));
    return count_alarms(l, err);
}

wr_code wr_ledger_raise(wr_ledger *l, const char *hop, const char *subject, int64_t minute, const char *text, wr_err *err) {
    pthread_mutex_lock(&l->db_lock);
    wr_code rc = raise(l, hop, subject, minute, text, err);
    pthread_mutex_unlock(&l->db_lock);
    return rc;
}

uint64_t wr_ledger_alarms(wr_ledger *l) { return l ? __atomic_load_n(&l->alarms, __ATOMIC_RELAXED) : 0; }

typedef struct found_name { char *buf; size_t n; } found_name;
static wr_code take_name(void *ctx, const wr_ledger_row *r, wr_err *err) {
    (void)err;
    found_name *f = ctx;
    snprintf(f->buf, f->n, "%s.%s", r->t[0] ? r->t[0] : "?", r->t[1] ? r->t[1] : "?");
    return WR_OK;
}

static wr_code name_of(wr_ledger *l, uint32_t table, char *buf, size_t n, wr_err *err) {
    snprintf(buf, n, "table %u", table);
    found_name f = {buf, n};
    return wr_ledger_store_each(l->db, "SELECT db, name FROM name WHERE table_id = ?1", (int64_t[]){table}, 1, take_name, &f, err);
}

static wr_code note_gap(wr_ledger *l, const char *why, uint64_t first, uint64_t last, wr_err *err) {
    char text[256];
    snprintf(text, sizeof text, "transactions %" PRIu64 " to %" PRIu64 " of the queue were not counted: %s", first, last, why);
    return raise(l, "not-counted", "every table", wr_now_us() / MINUTE_US, text, err);
}

/* ------------------------------------------------------------------ comparing. db_lock held; the two tallies do not change any more */
static const char *const ops[] = {"?", "inserts", "updates", "deletes"};

static wr_code differs(wr_ledger *l, const epoch *e, const char *hop, uint64_t key, const wr_cell *a, const wr_cell *b, wr_err *err) {
    char table[320], text[512];
    uint64_t ra = a ? a->rows : 0, rb = b ? b->rows : 0;
    WR_TRY(name_of(l, wr_cell_table(key), table, sizeof table, err));
    const char *what = ra > rb ? "are missing" : ra < rb ? "are too many" : "are not the same, or not in the same order";
    uint64_t n = ra > rb ? ra - rb : ra < rb ? rb - ra : ra;
    snprintf(text, sizeof text, "%" PRIu64 " %s %s: %" PRIu64 " of %" PRIu64 " passed, in transactions %" PRIu64 " to %" PRIu64 " of the queue", n, ops[wr_cell_op(key) & 3], what, rb, ra, e->first, e->last);
    return raise(l, hop, table, wr_cell_minute(key), text, err);
}

static wr_code compare(wr_ledger *l, const epoch *e, const char *hop, const wr_tally *a, const wr_tally *b, wr_err *err) {
    for (size_t i = 0; i < a->cap; i++) {
        const wr_cell *c = &a->cells[i], *d = c->key ? wr_tally_get(b, c->key) : NULL;
        if (c->key && (!d || d->rows != c->rows || d->sum != c->sum)) WR_TRY(differs(l, e, hop, c->key, c, d, err));
    }
    for (size_t i = 0; i < b->cap; i++)
        if (b->cells[i].key && !wr_tally_get(a, b->cells[i].key)) WR_TRY(differs(l, e, hop, b->cells[i].key, NULL, &b->cells[i], err));
    return WR_OK;
}

/* ------------------------------------------------------------------ ticking */
static wr_code put_tally(wr_ledger *l, wr_ledger_sql q, const int64_t *v, int nv, const wr_tally *t, wr_err *err) {
    for (size_t i = 0; t->n && i < t->cap; i++)
        if (t->cells[i].key) WR_TRY(wr_ledger_store_cell(l->db, q, v, nv, &t->cells[i], err));
    return WR_OK;
}

static wr_code keep(wr_ledger *l, const epoch *e, wr_err *err) {
    WR_TRY(wr_ledger_store_run(l->db, LQ_EPOCH, (int64_t[]){(int64_t)e->first, (int64_t)e->last}, 2, NULL, 0, err));
    for (int at = WR_CAPTURED; at <= WR_QUEUED; at++) WR_TRY(put_tally(l, LQ_EPOCH_ROW, (int64_t[]){(int64_t)e->first, at}, 2, &e->at[at], err));
    return WR_OK;
}

static wr_code settle(wr_ledger *l, const epoch *e, wr_err *err) {
    int64_t first = (int64_t)e->first, last = (int64_t)e->last;
    for (int at = 0; at < WR_COUNTED; at++) WR_TRY(put_tally(l, LQ_MINUTE, (int64_t[]){at}, 1, &e->at[at], err));
    WR_TRY(wr_ledger_store_run(l->db, LQ_SETTLE_COMMIT_ROWS, &last, 1, NULL, 0, err));
    WR_TRY(wr_ledger_store_run(l->db, LQ_META_SET, &last, 1, (const char *[]){"settled"}, 1, err));
    if (!e->kept) return WR_OK;
    WR_TRY(wr_ledger_store_run(l->db, LQ_SETTLE_EPOCH, &first, 1, NULL, 0, err));
    return wr_ledger_store_run(l->db, LQ_SETTLE_EPOCH_ROWS, &first, 1, NULL, 0, err);
}

typedef enum due { DUE_KEEP = 1, DUE_COMPARE_QUEUED = 2, DUE_COMPARE_CONSUMED = 4, DUE_SETTLE = 8 } due;

/* Lock held. */
static unsigned due_of(const wr_ledger *l, const epoch *e) {
    if (!e->last) return 0;
    bool captured = l->through[WR_CAPTURED] >= e->last, queued = l->through[WR_QUEUED] >= e->last, consumed = l->committed >= e->last;
    unsigned d = 0;
    if (captured && queued && !e->compared[0]) d |= DUE_COMPARE_QUEUED;
    if (queued && consumed && !e->compared[1]) d |= DUE_COMPARE_CONSUMED;
    if (captured && queued && consumed) d |= DUE_SETTLE;
    else if (captured && queued && !e->kept) d |= DUE_KEEP;
    return d;
}

static wr_code work_on(wr_ledger *l, epoch *e, unsigned d, wr_err *err) {
    if (d & DUE_COMPARE_QUEUED && !e->unknown) WR_TRY(compare(l, e, "captured-queued", &e->at[WR_CAPTURED], &e->at[WR_QUEUED], err));
    if (d & DUE_COMPARE_CONSUMED && !e->unknown) WR_TRY(compare(l, e, "queued-consumed", &e->at[WR_QUEUED], &e->at[WR_CONSUMED], err));
    if (d & DUE_KEEP) WR_TRY(keep(l, e, err));
    return d & DUE_SETTLE ? settle(l, e, err) : WR_OK;
}

/* Lock held. What was worked on is at the front, or will be looked at again. */
static void take_over(wr_ledger *l, epoch *const *list, const unsigned *d, size_t n) {
    size_t settled = 0;
    for (size_t i = 0; i < n; i++) {
        epoch *e = list[i];
        if (d[i] & DUE_COMPARE_QUEUED) e->compared[0] = true;
        if (d[i] & DUE_COMPARE_CONSUMED) e->compared[1] = true;
        if (d[i] & DUE_KEEP) e->kept = true;
        if (d[i] & (DUE_KEEP | DUE_SETTLE) && e->last > l->kept) l->kept = e->last;
        settled += d[i] & DUE_SETTLE ? 1 : 0;
    }
    for (size_t i = 0; i < settled; i++) epoch_free(l->epochs[i]);
    if (settled) memmove(l->epochs, l->epochs + settled, (l->n - settled) * sizeof *l->epochs);
    l->n -= settled;
}

static wr_code age(wr_ledger *l, wr_err *err) {
    int64_t now = wr_mono_us();
    if (l->aged_us && now - l->aged_us < AGE_EVERY_US) return WR_OK;
    int64_t minute = wr_now_us() / MINUTE_US;
    static const struct { int64_t span, after; } steps[] = {{60, HOURS_AFTER_MIN}, {1440, DAYS_AFTER_MIN}};
    for (int i = 0; i < 2; i++) {
        int64_t v[2] = {steps[i].span, (minute - steps[i].after) / steps[i].span * steps[i].span};
        WR_TRY(wr_ledger_store_run(l->db, LQ_AGE, v, 2, NULL, 0, err));
        WR_TRY(wr_ledger_store_run(l->db, LQ_AGED, v, 2, NULL, 0, err));
    }
    l->aged_us = now;
    return WR_OK;
}

static wr_code write_all(wr_ledger *l, epoch *const *list, const unsigned *d, size_t n, uint64_t committed, wr_err *err) {
    int64_t c = (int64_t)committed;
    for (size_t i = 0; i < n; i++)
        if (d[i]) WR_TRY(work_on(l, list[i], d[i], err));
    if (committed > l->forgotten) {
        WR_TRY(wr_ledger_store_run(l->db, LQ_SETTLE_PASSED, &c, 1, NULL, 0, err));
        WR_TRY(wr_ledger_store_run(l->db, LQ_FORGET_PASSED, &c, 1, NULL, 0, err));
        WR_TRY(wr_ledger_store_run(l->db, LQ_FORGET_COMMITS, &c, 1, NULL, 0, err));
    }
    return age(l, err);
}

static void settle_doubt(wr_ledger *l) { /* lock held */
    for (size_t i = 0; i < l->n; i++) l->epochs[i]->unknown = true;
}

wr_code wr_ledger_tick(wr_ledger *l, bool last, wr_err *err) {
    bool doubt = __atomic_exchange_n(&l->doubt, false, __ATOMIC_RELAXED);
    pthread_mutex_lock(&l->lock);
    close_epoch(l, wr_mono_us(), last);
    if (doubt) settle_doubt(l);
    uint64_t from = l->n ? l->epochs[0]->first : 0, to = furthest(l);
    size_t n = l->n, any = 0;
    WR_AUTO epoch **list = wr_malloc((n + 1) * sizeof *list);
    WR_AUTO unsigned *d = wr_malloc((n + 1) * sizeof *d);
    for (size_t i = 0; list && d && i < n; i++) list[i] = l->epochs[i], d[i] = due_of(l, list[i]), any += d[i] != 0;
    uint64_t committed = l->committed;
    pthread_mutex_unlock(&l->lock);
    if (!list || !d) return wr_nomem(err, "ledger", n * sizeof *list);
    if (doubt) {
        pthread_mutex_lock(&l->db_lock);
        wr_code rc = note_gap(l, "memory was out", from, to, err);
        pthread_mutex_unlock(&l->db_lock);
        WR_TRY(rc);
    }
    pthread_mutex_lock(&l->db_lock);
    wr_code rc = count_alarms(l, err); /* other processes raise and acknowledge some */
    if (rc != WR_OK || (!any && committed <= l->forgotten && l->aged_us)) return pthread_mutex_unlock(&l->db_lock), rc;
    rc = wr_ledger_store_begin(l->db, err);
    if (rc == WR_OK) rc = wr_ledger_store_end(l->db, write_all(l, list, d, n, committed, err), err);
    if (rc == WR_OK) l->forgotten = committed;
    pthread_mutex_unlock(&l->db_lock);
    WR_TRY(rc);
    pthread_mutex_lock(&l->lock);
    take_over(l, list, d, n);
    pthread_mutex_unlock(&l->lock);
    return WR_OK;
}

uint64_t wr_ledger_kept(wr_ledger *l) {
    pthread_mutex_lock(&l->lock);
    uint64_t kept = l->kept;
    pthread_mutex_unlock(&l->lock);
    return kept;
}

/* ------------------------------------------------------------------ commits */
/* The mean and the longest way from event to commit, from where in its minute the event was. */
static void written_delay(wr_cell *c, int64_t now_us) {
    int64_t into_ms = now_us / 1000 - wr_cell_minute(c->key) * 60000;
    int64_t sum = into_ms * (int64_t)c->rows - (int64_t)c->at_ms, max = into_ms - c->at_ms_min;
    c->delay_ms = sum > 0 ? (uint64_t)sum : 0;
    c->delay_ms_max = max <= 0 ? 0 : max > UINT32_MAX ? UINT32_MAX : (uint32_t)max;
    c->sum = 0;
}

static wr_code put_files(wr_ledger *l, int64_t id, const wr_receipt *r, wr_err *err) {
    for (int i = 0; i < r->nfiles; i++) {
        const wr_receipt_file *f = &r->files[i];
        WR_TRY(wr_ledger_store_run(l->db, LQ_RECEIPT_FILE, (int64_t[]){id, i, (int64_t)f->rows, f->at, f->bytes}, 5, (const char *[]){f->path, f->referenced}, 2, err));
    }
    return WR_OK;
}

static wr_code put_receipt(wr_ledger *l, uint64_t offset, const wr_receipt *r, wr_tally *rows, int64_t now_us, wr_err *err) {
    uint64_t n = 0;
    int64_t newest = 0;
    for (size_t i = 0; i < rows->cap; i++) {
        wr_cell *c = &rows->cells[i];
        if (!c->key) continue;
        n += c->rows, written_delay(c, now_us);
        if (wr_cell_minute(c->key) > newest) newest = wr_cell_minute(c->key);
    }
    if (r->applied != UINT64_MAX && n != r->applied) {
        char table[600], text[256];
        snprintf(table, sizeof table, "%s.%s", r->ns, r->name);
        snprintf(text, sizeof text, "%" PRIu64 " changes were consumed for the table since the last commit, and it has taken %" PRIu64 " (commit at queue offset %" PRIu64 ")", n, r->applied, offset);
        WR_TRY(raise(l, "consumed-written", table, newest, text, err));
    }
    if (!n && !r->nfiles) return WR_OK;
    WR_TRY(wr_ledger_store_run(l->db, LQ_RECEIPT, (int64_t[]){(int64_t)offset, (int64_t)r->rows, (int64_t)r->sum, r->unread, now_us}, 5, (const char *[]){r->ns, r->name, r->schema}, 3, err));
    int64_t id = wr_ledger_store_id(l->db);
    WR_TRY(put_tally(l, LQ_RECEIPT_ROW, &id, 1, rows, err));
    return put_files(l, id, r, err);
}

typedef struct prepared { wr_tally *fresh; uint64_t *first; size_t n; wr_tally passed; wr_tally *of; int nof; wr_u64map *takes; /* source table -> one of `of` */ } prepared;

static void prepared_clear(prepared *p) {
    for (size_t i = 0; p->fresh && i < p->n; i++) wr_tally_free(&p->fresh[i]);
    for (int i = 0; p->of && i < p->nof; i++) wr_tally_free(&p->of[i]);
    wr_free(p->fresh), wr_free(p->first), wr_free(p->of);
    wr_u64map_free(p->takes, NULL);
    wr_tally_free(&p->passed);
}

static bool map_sources(const wr_receipt *list, int nlist, prepared *p) {
    p->nof = nlist;
    p->of = wr_calloc((size_t)nlist + 1, sizeof *p->of);
    p->takes = wr_u64map_new();
    bool ok = p->of && p->takes;
    for (int i = 0; ok && i < nlist; i++)
        for (int k = 0; ok && k < list[i].nsources; k++) ok = wr_u64map_put(p->takes, list[i].sources[k], &p->of[i]);
    return ok;
}

/* Lock held: copies, so that nobody waits for the file. */
static bool copy_fresh(const wr_ledger *l, prepared *p) {
    p->n = l->n;
    p->fresh = wr_calloc(l->n + 1, sizeof *p->fresh);
    p->first = wr_calloc(l->n + 1, sizeof *p->first);
    bool ok = p->fresh && p->first && wr_tally_merge(&p->passed, &l->passed);
    for (size_t i = 0; ok && i < l->n; i++) p->first[i] = l->epochs[i]->first, ok = wr_tally_merge(&p->fresh[i], &l->epochs[i]->fresh);
    return ok && share_out(l, p->takes);
}

static wr_code write_prepared(wr_ledger *l, uint64_t offset, const wr_receipt *list, prepared *p, wr_err *err) {
    int64_t off = (int64_t)offset, now_us = wr_now_us();
    WR_TRY(wr_ledger_store_run(l->db, LQ_COMMIT, &off, 1, NULL, 0, err));
    for (size_t i = 0; i < p->n; i++) WR_TRY(put_tally(l, LQ_COMMIT_ROW, (int64_t[]){off, (int64_t)p->first[i], WR_CONSUMED}, 3, &p->fresh[i], err));
    WR_TRY(put_tally(l, LQ_COMMIT_ROW, (int64_t[]){off, 0, WR_PASSED}, 3, &p->passed, err));
    for (int i = 0; i < p->nof; i++) WR_TRY(put_receipt(l, offset, &list[i], &p->of[i], now_us, err));
    return WR_OK;
}

wr_code wr_ledger_prepare(wr_ledger *l, uint64_t offset, const wr_receipt *list, int n, wr_err *err) {
    WR_CLEANUP(prepared_clear) prepared p = {0};
    bool ok = map_sources(list, n, &p);
    pthread_mutex_lock(&l->lock);
    ok = ok && copy_fresh(l, &p);
    pthread_mutex_unlock(&l->lock);
    if (!ok) return wr_nomem(err, "ledger", 4096);
    pthread_mutex_lock(&l->db_lock);
    wr_code rc = wr_ledger_store_begin(l->db, err);
    if (rc == WR_OK) rc = wr_ledger_store_end(l->db, write_prepared(l, offset, list, &p, err), err);
    pthread_mutex_unlock(&l->db_lock);
    return rc;
}

void wr_ledger_committed(wr_ledger *l, uint64_t offset) {
    if (!l) return;
    bool ok = true;
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < l->n; i++) {
        epoch *e = l->epochs[i];
        ok &= wr_tally_merge(&e->at[WR_CONSUMED], &e->fresh);
        wr_tally_clear(&e->fresh);
    }
    wr_tally_clear(&l->passed);
    if (l->nruns) l->runs[0] = l->runs[l->nruns - 1], l->nruns = 1;
    if (offset > l->committed) l->committed = offset;
    pthread_mutex_unlock(&l->lock);
    if (!ok) wr_ledger_doubt(l);
}

static wr_code drop_beyond(wr_ledger_store *db, uint64_t offset, wr_err *err) {
    int64_t c = (int64_t)offset;
    for (int q = LQ_BACK_ROWS; q <= LQ_BACK_RECEIPTS; q++) WR_TRY(wr_ledger_store_run(db, (wr_ledger_sql)q, &c, 1, NULL, 0, err));
    return WR_OK;
}

wr_code wr_ledger_rewind(wr_ledger *l, uint64_t offset, wr_err *err) {
    wr_ledger_abort(l, WR_CONSUMED);
    wr_tally_clear(&l->tx_passed);
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < l->n; i++) wr_tally_clear(&l->epochs[i]->fresh);
    wr_tally_clear(&l->passed);
    l->nruns = 0;
    l->through[WR_CONSUMED] = offset;
    pthread_mutex_unlock(&l->lock);
    pthread_mutex_lock(&l->db_lock);
    wr_code rc = wr_ledger_store_begin(l->db, err);
    if (rc == WR_OK) rc = wr_ledger_store_end(l->db, drop_beyond(l->db, offset, err), err);
    pthread_mutex_unlock(&l->db_lock);
    return rc;
}

/* ------------------------------------------------------------------ opening */
static wr_code restore_epoch(void *ctx, const wr_ledger_row *r, wr_err *err) {
    wr_ledger *l = ctx;
    epoch *e;
    WR_TRY(add_epoch(l, (uint64_t)r->v[0], (uint64_t)r->v[1], &e, err));
    e->kept = true;
    return WR_OK;
}

static wr_cell cell_of(const int64_t *v) {
    return (wr_cell){.key = wr_cell_key((uint32_t)v[0], (uint8_t)v[1], v[2]), .rows = (uint64_t)v[3], .sum = (uint64_t)v[4], .delay_ms = (uint64_t)v[5], .delay_ms_max = (uint32_t)v[6]};
}

static wr_code restore_row(void *ctx, const wr_ledger_row *r, wr_err *err) { /* first, point, cell */
    wr_ledger *l = ctx;
    epoch *e = find(l, (uint64_t)r->v[0]);
    wr_cell c = cell_of(r->v + 2);
    if (!e || r->v[1] < 0 || r->v[1] >= WR_COUNTED) return WR_OK;
    return wr_tally_add(&e->at[r->v[1]], &c) ? WR_OK : wr_nomem(err, "ledger", sizeof c);
}

static wr_code begin_anew(wr_ledger *l, uint64_t from, wr_err *err) {
    int64_t v = (int64_t)from;
    for (int q = LQ_RESET_1; q <= LQ_RESET_7; q++) WR_TRY(wr_ledger_store_run(l->db, (wr_ledger_sql)q, NULL, 0, NULL, 0, err));
    WR_TRY(wr_ledger_store_run(l->db, LQ_META_SET, &v, 1, (const char *[]){"from"}, 1, err));
    WR_TRY(wr_ledger_store_run(l->db, LQ_META_SET, &v, 1, (const char *[]){"settled"}, 1, err));
    return wr_ledger_store_run(l->db, LQ_COMMIT, &v, 1, NULL, 0, err);
}

static wr_code restore(wr_ledger *l, uint64_t committed, uint64_t queue_last, wr_err *err) {
    int64_t known, from, settled, last, noted;
    WR_TRY(wr_ledger_store_number(l->db, "SELECT count(*) FROM meta WHERE key = 'from'", &known, err));
    WR_TRY(wr_ledger_store_number(l->db, "SELECT max(last) FROM (SELECT last FROM epoch UNION ALL SELECT value FROM meta WHERE key = 'settled')", &last, err));
    if (known && ((uint64_t)last > queue_last)) { /* another queue, or one that lost its end: reconciling has to say what that means */
        WR_TRY(note_gap(l, "the queue ends before what was counted of it", queue_last + 1, (uint64_t)last, err));
        known = 0;
    }
    if (!known) WR_TRY(begin_anew(l, committed, err));
    WR_TRY(drop_beyond(l->db, committed, err));
    WR_TRY(wr_ledger_store_number(l->db, "SELECT value FROM meta WHERE key = 'from'", &from, err));
    WR_TRY(wr_ledger_store_number(l->db, "SELECT value FROM meta WHERE key = 'settled'", &settled, err));
    WR_TRY(wr_ledger_store_number(l->db, "SELECT max(\"offset\") FROM committed", &noted, err));
    l->from = (uint64_t)from, l->committed = committed, l->kept = (uint64_t)settled;
    l->through[WR_CONSUMED] = committed;
    WR_TRY(wr_ledger_store_each(l->db, "SELECT first, last FROM epoch ORDER BY first", NULL, 0, restore_epoch, l, err));
    if (l->n) l->kept = l->epochs[l->n - 1]->last;
    l->through[WR_CAPTURED] = l->through[WR_QUEUED] = l->kept;
    if (queue_last > l->kept) {
        epoch *e;
        WR_TRY(add_epoch(l, l->kept + 1, queue_last, &e, err));
        l->missing = l->kept + 1;
    }
    WR_TRY(wr_ledger_store_each(l->db, "SELECT first, point, table_id, op, minute, rows, sum, delay_ms, delay_ms_max FROM epoch_row", NULL, 0, restore_row, l, err));
    WR_TRY(wr_ledger_store_each(l->db, "SELECT first, point, table_id, op, minute, rows, sum, delay_ms, delay_ms_max FROM commit_row WHERE point = 2", NULL, 0, restore_row, l, err));
    WR_TRY(count_alarms(l, err));
    bool gap = (uint64_t)noted < committed; /* the machine lost its power between a commit and what was written here */
    for (size_t i = 0; gap && i < l->n; i++) l->epochs[i]->unknown |= l->epochs[i]->first <= committed;
    return gap ? note_gap(l, "the last entries of the ledger were lost", (uint64_t)noted + 1, committed, err) : WR_OK;
}

wr_code wr_ledger_open(const char *path, uint64_t committed, uint64_t queue_last, wr_ledger **ret_ledger, wr_err *err) {
    wr_ledger *l = wr_calloc(1, sizeof *l);
    if (!l) return wr_nomem(err, "ledger", sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->db_lock, NULL);
    wr_code rc = wr_ledger_store_open(path, false, &l->db, err);
    if (rc == WR_OK) rc = wr_ledger_store_begin(l->db, err);
    if (rc == WR_OK) rc = wr_ledger_store_end(l->db, restore(l, committed, queue_last, err), err);
    if (rc != WR_OK) return wr_ledger_close(l), rc;
    *ret_ledger = l;
    return WR_OK;
}

void wr_ledger_close(wr_ledger *l) {
    if (!l) return;
    for (size_t i = 0; i < l->n; i++) epoch_free(l->epochs[i]);
    for (int i = 0; i < WR_COUNTED; i++) wr_tally_free(&l->point[i].tx), wr_hasher_free(l->point[i].hasher);
    wr_tally_free(&l->tx_passed), wr_tally_free(&l->passed);
    wr_free(l->epochs), wr_free(l->runs);
    wr_ledger_store_close(l->db);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->db_lock);
    wr_free(l);
}

uint64_t wr_ledger_missing(const wr_ledger *l) { return l->missing; }

wr_code wr_ledger_give_up_missing(wr_ledger *l, wr_err *err) {
    if (!l->missing) return WR_OK;
    pthread_mutex_lock(&l->lock);
    epoch *e = find(l, l->missing);
    uint64_t last = e ? e->last : l->missing;
    if (e) e->unknown = true;
    l->through[WR_CAPTURED] = l->through[WR_QUEUED] = last;
    pthread_mutex_unlock(&l->lock);
    pthread_mutex_lock(&l->db_lock);
    wr_code rc = note_gap(l, "they have left the queue", l->missing, last, err);
    pthread_mutex_unlock(&l->db_lock);
    return rc;
}

/* ------------------------------------------------------------------ reading back */
void wr_reading_clear(wr_reading *r) {
    for (int i = 0; i < r->nfiles; i++) wr_free(r->files[i].path), wr_free(r->files[i].referenced);
    wr_free(r->files), wr_free(r->ns), wr_free(r->name), wr_free(r->schema);
    *r = (wr_reading){0};
}

static char *copy_text(const char *s, bool *ok) {
    char *c = s ? wr_strdup(s) : NULL;
    *ok &= !s || c;
    return c;
}

static wr_code take_reading(void *ctx, const wr_ledger_row *r, wr_err *err) {
    wr_reading *out = ctx;
    bool ok = true;
    *out = (wr_reading){.id = r->v[0], .offset = (uint64_t)r->v[1], .rows = (uint64_t)r->v[2], .sum = (uint64_t)r->v[3], .unread = r->v[4], .prepared_us = r->v[8]};
    out->ns = copy_text(r->t[5], &ok), out->name = copy_text(r->t[6], &ok), out->schema = copy_text(r->t[7], &ok);
    return ok ? WR_OK : wr_nomem(err, "receipt", 256);
}

static wr_code take_file(void *ctx, const wr_ledger_row *r, wr_err *err) {
    wr_reading *out = ctx;
    wr_receipt_file *more = wr_realloc(out->files, ((size_t)out->nfiles + 1) * sizeof *more);
    bool ok = more;
    if (more) out->files = more;
    wr_receipt_file f = {.rows = (uint64_t)r->v[0], .at = r->v[1], .bytes = r->v[2], .path = copy_text(r->t[3], &ok), .referenced = copy_text(r->t[4], &ok)};
    if (ok) out->files[out->nfiles++] = f;
    else wr_free(f.path), wr_free(f.referenced);
    return ok ? WR_OK : wr_nomem(err, "receipt", 256);
}

wr_code wr_ledger_next_reading(wr_ledger *l, wr_reading *ret, wr_err *err) {
    wr_reading r = {0};
    pthread_mutex_lock(&l->lock);
    int64_t committed = (int64_t)l->committed;
    pthread_mutex_unlock(&l->lock);
    pthread_mutex_lock(&l->db_lock);
    wr_code rc = wr_ledger_store_each(l->db, "SELECT id, \"offset\", rows, sum, unread, ns, name, schema, prepared_us FROM receipt WHERE \"offset\" <= ?1 ORDER BY id LIMIT 1", &committed, 1, take_reading, &r, err);
    if (rc == WR_OK && r.id) rc = wr_ledger_store_each(l->db, "SELECT rows, at, bytes, path, referenced FROM receipt_file WHERE id = ?1 ORDER BY seq", &r.id, 1, take_file, &r, err);
    pthread_mutex_unlock(&l->db_lock);
    if (rc == WR_OK && !r.id) rc = wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "every commit has been read back");
    if (rc != WR_OK) return wr_reading_clear(&r), rc;
    *ret = r;
    return WR_OK;
}

typedef struct newest { int64_t minute; uint64_t rows; } newest;
static wr_code take_newest(void *ctx, const wr_ledger_row *r, wr_err *err) {
    (void)err;
    *(newest *)ctx = (newest){r->v[0], (uint64_t)r->v[1]};
    return WR_OK;
}

static wr_code conclude(wr_ledger *l, const wr_reading *r, wr_read_result result, const char *why, wr_err *err) {
    newest n = {0};
    WR_TRY(wr_ledger_store_each(l->db, "SELECT max(minute), sum(rows) FROM receipt_row WHERE id = ?1", &r->id, 1, take_newest, &n, err));
    if (result == WR_READ_DIFFERS) {
        char table[600];
        snprintf(table, sizeof table, "%s.%s", r->ns, r->name);
        WR_TRY(raise(l, "consumed-written", table, n.minute ? n.minute : wr_now_us() / MINUTE_US, why, err));
    } else WR_TRY(wr_ledger_store_run(l->db, LQ_RECEIPT_MINUTES, &r->id, 1, NULL, 0, err));
    if (result == WR_READ_GONE) {
        int64_t before;
        WR_TRY(wr_ledger_store_number(l->db, "SELECT value FROM meta WHERE key = 'unread'", &before, err));
        before += (int64_t)n.rows;
        WR_TRY(wr_ledger_store_run(l->db, LQ_META_SET, &before, 1, (const char *[]){"unread"}, 1, err));
    }
    for (int q = LQ_RECEIPT_ROWS_GONE; q <= LQ_RECEIPT_GONE; q++) WR_TRY(wr_ledger_store_run(l->db, (wr_ledger_sql)q, &r->id, 1, NULL, 0, err));
    return WR_OK;
}

wr_code wr_ledger_read(wr_ledger *l, const wr_reading *r, wr_read_result result, const char *why, wr_err *err) {
    pthread_mutex_lock(&l->db_lock);
    wr_code rc = wr_ledger_store_begin(l->db, err);
    if (rc == WR_OK) rc = wr_ledger_store_end(l->db, conclude(l, r, result, why, err), err);
    pthread_mutex_unlock(&l->db_lock);
    return rc;
}
