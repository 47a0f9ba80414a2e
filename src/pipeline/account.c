/* The ledger of a pipeline: what is counted where; a thread that compares and looks whether anything moves, and one that reads back what was committed. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include "impl.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define TICK_MS 250
#define LOOK_EVERY_US INT64_C(20000000) /* at the source's position, while nothing comes from it */
#define QUIET_BYTES 65536       /* more than heartbeats bring */
#define BLOCKED_AFTER_US INT64_C(60000000) /* and at least three commits */
#define READ_SOON_US INT64_C(60000000)  /* a file that is gone sooner after its commit was not expired */
#define LAST_READINGS_US INT64_C(2000000) /* when asked to stop; the next start goes on */

/* ------------------------------------------------------------------ the queue's bytes. @thread the queue's writer */
static wr_ledger *ledger_of(void *ctx) { return __atomic_load_n(&((wr_pipeline *)ctx)->ledger, __ATOMIC_ACQUIRE); }
static void on_queued(void *ctx, wr_slice piece, bool more) { wr_ledger_note_piece(ledger_of(ctx), WR_QUEUED, piece, more); }
static void on_queued_end(void *ctx, uint64_t offset, int64_t event_us) { wr_ledger_end(ledger_of(ctx), WR_QUEUED, offset, event_us); }
static void on_queued_abort(void *ctx) { wr_ledger_abort(ledger_of(ctx), WR_QUEUED); }
static void on_queued_failed(void *ctx, const wr_err *err) { (void)err, wr_ledger_doubt(ledger_of(ctx)); }

wr_queue_tap wr_account_tap(wr_pipeline *p) { return (wr_queue_tap){p, on_queued, on_queued_end, on_queued_abort, on_queued_failed}; }

/* ------------------------------------------------------------------ before a commit. @thread applying */
static target *target_of(const wr_pipeline *p, uint32_t table) {
    for (int i = 0; i < p->ntargets; i++)
        if (p->targets[i]->id == table) return p->targets[i];
    return NULL;
}

typedef struct receipts {
    wr_receipt *list;
    wr_receipt_file *files;
    uint32_t *sources;
    char **schemas;
    int n;
} receipts;

static void receipts_clear(receipts *r) {
    for (int i = 0; r->schemas && i < r->n; i++) wr_free(r->schemas[i]);
    wr_free(r->list), wr_free(r->files), wr_free(r->sources), wr_free(r->schemas);
}

static wr_code receipts_room(const wr_pipeline *p, const wr_addition *list, int n, receipts *r, wr_err *err) {
    size_t nfiles = 1, nsources = 1;
    for (int i = 0; i < n; i++) nfiles += (size_t)list[i].nfiles;
    for (int i = 0; i < p->ntargets; i++) nsources += (size_t)p->targets[i]->nmembers;
    r->list = wr_calloc((size_t)n + 1, sizeof *r->list);
    r->files = wr_calloc(nfiles, sizeof *r->files);
    r->sources = wr_calloc(nsources, sizeof *r->sources);
    r->schemas = wr_calloc((size_t)n + 1, sizeof *r->schemas);
    return r->list && r->files && r->sources && r->schemas ? WR_OK : wr_nomem(err, "receipts", nfiles * sizeof *r->files);
}

static wr_code schema_text(const wr_schema *s, char **ret, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    WR_TRY(wr_schema_to_json(s, &b, err));
    *ret = wr_buf_cstr(&b) ? wr_strdup((char *)b.p) : NULL;
    return *ret ? WR_OK : wr_nomem(err, "schema", b.n);
}

static wr_code before_commit(void *ctx, uint64_t offset, const wr_addition *list, int n, wr_err *err) {
    wr_pipeline *p = ctx;
    if (!p->ledger) return WR_OK;
    WR_CLEANUP(receipts_clear) receipts r = {0};
    WR_TRY(receipts_room(p, list, n, &r, err));
    int nf = 0, ns = 0;
    for (int i = 0; i < n; i++) {
        const wr_addition *a = &list[i];
        const target *t = target_of(p, a->table);
        if (!t) continue; /* dead letters; a table that leaves */
        WR_TRY(schema_text(a->schema, &r.schemas[r.n], err));
        wr_receipt *o = &r.list[r.n];
        *o = (wr_receipt){.ns = a->ns, .name = a->name, .schema = r.schemas[r.n], .sources = r.sources + ns, .nsources = t->nmembers, .applied = t->uneven ? UINT64_MAX : a->applied, .rows = a->rows, .sum = a->sum,
                          .unread = a->unread, .files = r.files + nf, .nfiles = a->nfiles};
        r.n++;
        for (int k = 0; k < t->nmembers; k++) r.sources[ns++] = t->members[k]->id;
        for (int k = 0; k < a->nfiles; k++) {
            const wr_addition_file *f = &a->files[k];
            r.files[nf++] = (wr_receipt_file){.path = (char *)f->path, .rows = f->rows, .referenced = (char *)f->referenced, .at = f->at, .bytes = f->bytes};
        }
    }
    return wr_ledger_prepare(p->ledger, offset, r.list, r.n, err);
}

wr_lake_witness wr_account_witness(wr_pipeline *p) { return (wr_lake_witness){before_commit, p}; }

void wr_account_committed(wr_pipeline *p) {
    wr_ledger_committed(p->ledger, p->offset);
    for (int i = 0; i < p->ntargets; i++) p->targets[i]->uneven = false;
}

void wr_account_leave(wr_pipeline *p, member *m) {
    wr_ledger_pass_all(p->ledger, m->id);
    m->target->uneven = true;
}

/* What the lake does not need of the queue any more, and the ledger neither. */
uint64_t wr_account_released(wr_pipeline *p) {
    uint64_t kept = p->ledger ? wr_ledger_kept(p->ledger) : UINT64_MAX;
    return kept < p->committed_offset ? kept : p->committed_offset;
}

/* ------------------------------------------------------------------ opening. @thread applying, before capture begins */
static wr_code count_again(wr_pipeline *p, uint64_t first, uint64_t last, wr_err *err) {
    wr_queue_reader *r;
    wr_code rc = wr_queue_reader_new(p->queue, first - 1, &r, err);
    if (rc == WR_E_NOTFOUND) return wr_err_clear(err), wr_ledger_give_up_missing(p->ledger, err);
    WR_TRY(rc);
    for (wr_queue_record rec = {0}; rc == WR_OK && rec.offset <= last && !(rec.offset == last && !rec.kind);) {
        rc = wr_queue_read(r, 0, &rec, err);
        for (int at = WR_CAPTURED; rc == WR_OK && at <= WR_QUEUED; at++)
            if (rec.kind == WR_REC_CHANGE) wr_ledger_note(p->ledger, (wr_point)at, rec.payload);
            else if (!rec.kind) wr_ledger_end(p->ledger, (wr_point)at, rec.offset, rec.event_time_us);
    }
    wr_queue_reader_free(r);
    return rc;
}

static wr_code name_members(wr_pipeline *p, wr_err *err) {
    for (int i = 0; i < p->ntargets; i++)
        for (int k = 0; k < p->targets[i]->nmembers; k++) {
            const member *m = p->targets[i]->members[k];
            WR_TRY(wr_ledger_name(p->ledger, m->id, m->db, m->name, err));
        }
    return WR_OK;
}

/* A commit that failed may have been one of the last offset again (a rewrite): its files leave while the lake is opened, and its receipt names them. So nothing is missed meanwhile, nor of what was
 * prepared up to there. */
void wr_account_going_back(wr_pipeline *p) { __atomic_store_n(&p->account_from, UINT64_MAX, __ATOMIC_RELAXED); }

wr_code wr_account_went_back(wr_pipeline *p, wr_err *err) {
    WR_TRY(p->ledger ? wr_ledger_rewind(p->ledger, p->offset, err) : WR_OK);
    __atomic_store_n(&p->account_from, p->offset, __ATOMIC_RELAXED);
    return WR_OK;
}

wr_code wr_account_open(wr_pipeline *p, uint64_t queue_last, wr_err *err) {
    WR_AUTO char *path = wr_path_join(p->home, "ledger.db");
    if (!path) return wr_nomem(err, "path", 256);
    wr_ledger *l;
    WR_TRY(wr_ledger_open(path, p->offset, queue_last, &l, err));
    __atomic_store_n(&p->ledger, l, __ATOMIC_RELEASE);
    WR_TRY(name_members(p, err));
    uint64_t missing = wr_ledger_missing(l);
    return missing ? count_again(p, missing, queue_last, err) : WR_OK;
}

/* ------------------------------------------------------------------ the ledger's threads */
static wr_code read_one(wr_pipeline *p, const wr_reading *r, bool *ret_same, char why[256], wr_err *err) {
    WR_AUTO wr_addition_file *files = wr_calloc((size_t)r->nfiles + 1, sizeof *files);
    if (!files) return wr_nomem(err, "receipt", 256);
    for (int i = 0; i < r->nfiles; i++)
        files[i] = (wr_addition_file){.path = r->files[i].path, .rows = r->files[i].rows, .referenced = r->files[i].referenced, .at = r->files[i].at, .bytes = r->files[i].bytes};
    wr_schema *s;
    WR_TRY(wr_schema_from_json(wr_slice_str(r->schema), &s, err));
    wr_addition a = {.ns = r->ns, .name = r->name, .schema = s, .rows = r->rows, .sum = r->sum, .unread = r->unread, .files = files, .nfiles = r->nfiles};
    wr_code rc = wr_lake_read_back(p->engine, p->store, &a, ret_same, why, err);
    wr_schema_unref(s);
    return rc;
}

/* One receipt. *ret_more: there was one, and its answer is written down. */
static wr_code read_next(wr_pipeline *p, bool *ret_more, wr_err *err) {
    wr_reading r;
    bool same = true;
    char why[256];
    *ret_more = false;
    wr_code rc = wr_ledger_next_reading(p->ledger, &r, err);
    if (rc == WR_E_NOTFOUND) return wr_err_clear(err), WR_OK;
    WR_TRY(rc);
    if (WR_FAULT("ledger.read")) rc = wr_fail(err, WR_E_IO, WR_RETRY_SOON, "injected: reading back");
    if (rc == WR_OK) rc = read_one(p, &r, &same, why, err);
    wr_read_result result = rc == WR_E_NOTFOUND ? WR_READ_GONE : !same ? WR_READ_DIFFERS : r.unread ? WR_READ_GONE : WR_READ_SAME;
    if (rc == WR_E_NOTFOUND) {
        bool soon = r.offset > __atomic_load_n(&p->account_from, __ATOMIC_RELAXED) && wr_now_us() - r.prepared_us < READ_SOON_US;
        snprintf(why, sizeof why, "%.250s", err->msg);
        if (soon) result = WR_READ_DIFFERS;
        wr_err_clear(err), rc = WR_OK;
    }
    if (rc == WR_OK) rc = wr_ledger_read(p->ledger, &r, result, why, err);
    wr_reading_clear(&r);
    *ret_more = rc == WR_OK;
    return rc;
}

typedef struct moves {
    uint64_t queue_last, committed, bytes;
    int64_t queue_us, committed_us, looked_us; /* monotonic: since when they are what they are; when the source was asked */
    wr_pos behind;                             /* where the source was ahead of the queue when it was asked last; "" = it was not */
} moves;

/* The source moves and nothing is captured of it: seen twice with nothing in between. */
static wr_code look_at_source(wr_pipeline *p, moves *m, int64_t now, wr_err *err) {
    if (now - m->queue_us < LOOK_EVERY_US) return wr_pos_clear(&m->behind), WR_OK;
    if (now - m->looked_us < LOOK_EVERY_US) return WR_OK;
    m->looked_us = now;
    wr_pos there = {0}, here = {0};
    uint64_t off = 0;
    wr_err e = WR_ERR_INIT; /* a server that does not answer is capture's to tell */
    wr_code rc = wr_source_now(p->source, &there, &e);
    if (rc == WR_OK) rc = wr_queue_last(p->queue, &off, &here, &e);
    bool ahead = rc == WR_OK && off == m->queue_last && wr_pos_cmp(&there, &here) > 0;
    if (ahead && m->behind.file[0] && wr_pos_cmp(&here, &m->behind) < 0) {
        char a[512], b[512], text[1200];
        snprintf(text, sizeof text, "the server is at %s and was at least at %s:%" PRIu64 " a while ago; captured is what is before %s, for %" PRId64 " s", wr_pos_print(&there, a), m->behind.file, m->behind.offset,
                 wr_pos_print(&here, b), (now - m->queue_us) / 1000000);
        rc = wr_ledger_raise(p->ledger, "source-captured", "every table", (wr_now_us() - (now - m->queue_us)) / 60000000, text, err);
    } else rc = WR_OK;
    wr_pos_clear(&m->behind);
    if (ahead) m->behind = there, there = (wr_pos){0};
    wr_pos_clear(&there), wr_pos_clear(&here);
    return rc;
}

/* Transactions wait in the queue, and none of them gets to the lake. */
static wr_code look_at_lake(wr_pipeline *p, const moves *m, int64_t now, wr_err *err) {
    int64_t patience = p->o.commit_every_us * 3 > BLOCKED_AFTER_US ? p->o.commit_every_us * 3 : BLOCKED_AFTER_US;
    wr_pipeline_status s;
    if (m->queue_last <= m->committed || now - m->committed_us < patience) return WR_OK;
    wr_pipeline_get_status(p, &s);
    if (s.tables_loading) return WR_OK;
    char text[256];
    snprintf(text, sizeof text, "transactions %" PRIu64 " to %" PRIu64 " wait in the queue, and the lake has committed nothing for %" PRId64 " s", m->committed + 1, m->queue_last, (now - m->committed_us) / 1000000);
    return wr_ledger_raise(p->ledger, "queued-written", "every table", (wr_now_us() - (now - m->committed_us)) / 60000000, text, err);
}

static wr_code look_whether_it_moves(wr_pipeline *p, moves *m, wr_err *err) {
    wr_pipeline_status s;
    int64_t now = wr_mono_us();
    wr_pipeline_get_status(p, &s);
    bool reads = s.bytes_captured - m->bytes > QUIET_BYTES; /* a large transaction, of which the end has not come yet */
    if (!m->queue_us || reads || s.queue_last != m->queue_last) m->queue_last = s.queue_last, m->queue_us = now, m->bytes = s.bytes_captured;
    if (!m->committed_us || s.queue_committed != m->committed || s.queue_committed >= s.queue_last) m->committed = s.queue_committed, m->committed_us = now;
    WR_TRY(look_at_source(p, m, now, err));
    return look_at_lake(p, m, now, err);
}

/* Until the next round. false: it is over. */
static bool account_pause(wr_pipeline *p) {
    struct timespec ts = wr_cond_until(TICK_MS);
    pthread_mutex_lock(&p->lock_mu);
    if (!p->account_stop) pthread_cond_timedwait(&p->wake, &p->lock_mu, &ts);
    bool on = !p->account_stop;
    pthread_mutex_unlock(&p->lock_mu);
    return on;
}

static bool account_goes_on(wr_pipeline *p) {
    pthread_mutex_lock(&p->lock_mu);
    bool on = !p->account_stop;
    pthread_mutex_unlock(&p->lock_mu);
    return on;
}

/* The same failure is told once. */
typedef struct told { char text[1024]; } told;
static void tell(told *t, const wr_err *err) {
    if (strcmp(t->text, err->msg)) wr_log(WR_LOG_WARN, "%s", err->msg), snprintf(t->text, sizeof t->text, "%s", err->msg);
}

static void *account_main(void *arg) {
    wr_pipeline *p = arg;
    moves m = {0};
    told t = {""};
    while (account_pause(p)) {
        wr_beat(p, BEAT_LEDGER);
        wr_err err = WR_ERR_INIT;
        wr_code rc = wr_lock_check(p->lock, &err); /* somebody else's ledger, perhaps */
        if (rc == WR_OK) rc = wr_ledger_tick(p->ledger, false, &err);
        if (rc == WR_OK) rc = look_whether_it_moves(p, &m, &err);
        if (rc == WR_OK) wr_retention_look(p);
        if (rc != WR_OK) tell(&t, &err);
    }
    wr_pos_clear(&m.behind);
    return NULL;
}

/* It takes what the others leave: while there is a backlog, next to nothing. A thread of its own, so that no look at the source or the lake waits for a large file. */
static void *reading_main(void *arg) {
    wr_pipeline *p = arg;
    told t = {""};
    setpriority(PRIO_PROCESS, 0, 19); /* of this thread */
    while (account_pause(p)) {
        bool more = true;
        while (more && account_goes_on(p)) {
            wr_err err = WR_ERR_INIT;
            wr_code rc = wr_lock_check(p->lock, &err);
            if (rc == WR_OK) rc = read_next(p, &more, &err);
            if (rc != WR_OK) tell(&t, &err);
            more &= rc == WR_OK;
        }
    }
    return NULL;
}

wr_code wr_account_start(wr_pipeline *p, wr_err *err) {
    p->account_stop = false;
    void *(*const mains[])(void *) = {account_main, reading_main};
    for (int i = 0; i < 2; i++, p->account_threads++)
        if (pthread_create(&p->account_thread[i], NULL, mains[i], p) != 0) return wr_fail(err, WR_E_NOMEM, WR_RETRY_NO, "no thread for the ledger");
    return WR_OK;
}

/* to_the_end: the run is over because everything is there, so that everything is read back too. */
void wr_account_stop(wr_pipeline *p, bool to_the_end) {
    if (!p->account_threads) return;
    pthread_mutex_lock(&p->lock_mu);
    p->account_stop = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock_mu);
    for (; p->account_threads; p->account_threads--) pthread_join(p->account_thread[p->account_threads - 1], NULL);
    wr_err err = WR_ERR_INIT;
    wr_code rc = wr_lock_check(p->lock, &err);
    if (rc == WR_OK) rc = wr_ledger_tick(p->ledger, true, &err);
    int64_t until_us = to_the_end ? INT64_MAX : wr_mono_us() + LAST_READINGS_US;
    for (bool more = true; rc == WR_OK && more && wr_mono_us() < until_us;) rc = read_next(p, &more, &err);
    if (rc != WR_OK) wr_log(WR_LOG_WARN, "%s", err.msg);
}

void wr_account_close(wr_pipeline *p) {
    wr_ledger *l = p->ledger;
    __atomic_store_n(&p->ledger, NULL, __ATOMIC_RELEASE);
    wr_ledger_close(l);
}
