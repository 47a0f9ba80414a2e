/* Source to queue. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include "impl.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define LONG_CHANGE (64u << 10) /* bytes: larger ones are worth more calls */
#define PROBE_US 2000000 /* after that much silence from a position, the server can go on from it */
/* Failed attempts before other servers are asked, and before it is final that none of them will do: some 1.5 and 12 seconds. A server that is just restarted is back by then. */
enum { LOOK_AFTER = 3, GIVE_UP_AFTER = 6 };

/* Everything here: @thread capture */

/* The fault points are what a queue that does not keep its promises would do; test_ledger.py. */
static wr_code append(wr_pipeline *p, wr_err *err) {
    static wr_buf held; /* a change that comes behind the next */
    wr_slice change = wr_buf_view(&p->enc);
    if (WR_FAULT("capture.lose")) return WR_OK;
    if (WR_FAULT("capture.swap")) return wr_buf_put(&held, change.p, change.n), WR_OK;
    WR_TRY(wr_queue_append(p->queue, WR_REC_CHANGE, change, err));
    if (WR_FAULT("capture.double")) WR_TRY(wr_queue_append(p->queue, WR_REC_CHANGE, change, err));
    if (__builtin_expect(held.n > 0, 0)) {
        WR_TRY(wr_queue_append(p->queue, WR_REC_CHANGE, wr_buf_view(&held), err));
        wr_buf_free(&held);
    }
    return WR_OK;
}

/* As it lies, instead of by way of a copy. */
static wr_code on_long_change(wr_pipeline *p, const wr_change *c, wr_err *err) {
    wr_change_parts parts;
    wr_change_split(c, &parts);
    for (int i = 0; i < parts.n; i++) wr_ledger_note_piece(p->ledger, WR_CAPTURED, parts.part[i], i + 1 < parts.n);
    return wr_queue_append_parts(p->queue, WR_REC_CHANGE, parts.part, parts.n, err);
}

static wr_code on_change(void *ctx, const wr_change *c, wr_err *err) {
    wr_pipeline *p = ctx;
    if (c->before.n + c->after.n > LONG_CHANGE) return on_long_change(p, c, err);
    wr_buf_clear(&p->enc);
    wr_change_encode(&p->enc, c);
    WR_TRY(wr_buf_check(&p->enc, "change", err));
    wr_ledger_note(p->ledger, WR_CAPTURED, wr_buf_view(&p->enc));
    return append(p, err);
}

/* The state's copy first: rows tagged with an offset the queue never gets are dropped at the next start, so only this order is safe. */
static wr_code on_ddl(void *ctx, const wr_ddl *d, wr_err *err) {
    wr_pipeline *p = ctx;
    WR_TRY(wr_lock_check(p->lock, err));
    WR_TRY(wr_state_schema_add(p->state, wr_queue_next_offset(p->queue), p->ddl_seq++, d, err));
    wr_buf_clear(&p->enc);
    WR_TRY(wr_ddl_encode(&p->enc, d, err));
    return wr_queue_append(p->queue, WR_REC_DDL, wr_buf_view(&p->enc), err);
}

static wr_code on_stale(void *ctx, uint32_t table, const char *why, wr_err *err) {
    wr_pipeline *p = ctx;
    wr_buf_clear(&p->enc);
    wr_buf_u32(&p->enc, table);
    wr_buf_slice(&p->enc, wr_slice_str(why));
    WR_TRY(wr_buf_check(&p->enc, "change", err));
    return wr_queue_append(p->queue, WR_REC_STALE, wr_buf_view(&p->enc), err);
}

/* ------------------------------------------------------------------ other patterns */
static char *patterns_text(const wr_pipeline *p) {
    wr_buf b = WR_BUF_INIT;
    const wr_source_options *o = &p->o.source;
    for (int i = 0; i < o->ncapture; i++) wr_buf_printf(&b, "+%s\n", o->capture[i]);
    for (int i = 0; i < o->nexclude; i++) wr_buf_printf(&b, "-%s\n", o->exclude[i]);
    char *text = wr_buf_cstr(&b) ? wr_strdup((char *)b.p) : NULL;
    wr_buf_free(&b);
    return text;
}

static wr_code remember_patterns(wr_pipeline *p, wr_err *err) {
    WR_AUTO char *text = patterns_text(p);
    return text ? wr_state_set(p->state, "source.patterns", text, err) : wr_nomem(err, "patterns", 256);
}

static wr_code first_table(void *ctx, const wr_ddl *d, wr_err *err) { return on_ddl(ctx, d, err); }

/* The events so far become a transaction of their own at `pos`. */
static wr_code end_events(wr_pipeline *p, const wr_pos *pos, wr_err *err) {
    uint64_t offset;
    if (!p->ddl_seq) return WR_OK;
    int64_t now_us = wr_now_us();
    WR_TRY(wr_queue_end(p->queue, pos, now_us, &offset, err));
    wr_ledger_end(p->ledger, WR_CAPTURED, offset, now_us);
    p->ddl_seq = 0;
    pthread_mutex_lock(&p->lock_mu);
    p->join_offset = offset;
    pthread_mutex_unlock(&p->lock_mu);
    return WR_OK;
}

/* Who leaves does so at `pos`, who joins does so where the stream comes to join_at. The patterns count as remembered when all of that is durable: until then the next
 * start does it again, and finds done what is done. */
static wr_code repattern(wr_pipeline *p, const wr_pos *pos, wr_err *err) {
    WR_TRY(wr_source_repattern(p->source, first_table, p, &p->join_at, err));
    return end_events(p, pos, err);
}

static wr_code join(wr_pipeline *p, const wr_pos *pos, wr_err *err) {
    WR_TRY(wr_source_join(p->source, first_table, p, err));
    WR_TRY(end_events(p, pos, err));
    wr_pos_clear(&p->join_at);
    return WR_OK;
}

static wr_code settle_patterns(wr_pipeline *p, wr_err *err) {
    WR_TRY(remember_patterns(p, err));
    pthread_mutex_lock(&p->lock_mu);
    p->joining = false;
    pthread_mutex_unlock(&p->lock_mu);
    return WR_OK;
}

/* At a position of the queue: joins exactly where that is right; a position that was missed is looked for again. */
static wr_code join_at(wr_pipeline *p, const wr_pos *pos, wr_err *err) {
    while (p->join_at.file[0] && wr_pos_cmp(pos, &p->join_at) >= 0) WR_TRY(wr_pos_cmp(pos, &p->join_at) == 0 ? join(p, pos, err) : repattern(p, pos, err));
    if (p->join_at.file[0]) return WR_OK;
    WR_TRY(wr_queue_sync(p->queue, err));
    return settle_patterns(p, err);
}

static wr_code check_patterns(wr_pipeline *p, const wr_pos *last, wr_err *err) {
    if (p->patterns_checked) return WR_OK;
    WR_AUTO char *known = NULL;
    WR_AUTO char *now = patterns_text(p);
    if (!now) return wr_nomem(err, "patterns", 256);
    WR_TRY(wr_state_get(p->state, "source.patterns", &known, err));
    if (!known || !strcmp(known, now)) WR_TRY(settle_patterns(p, err));
    else {
        wr_log(WR_LOG_INFO, "source.capture or source.exclude is not what it was");
        WR_TRY(repattern(p, last, err));
        WR_TRY(join_at(p, last, err));
    }
    p->patterns_checked = true;
    return WR_OK;
}

static wr_code on_commit(void *ctx, const wr_pos *pos, int64_t event_time_us, wr_err *err) {
    wr_pipeline *p = ctx;
    uint64_t offset;
    if (WR_FAULT("capture.commit")) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "injected: end of a captured transaction");
    WR_TRY(wr_queue_end(p->queue, pos, event_time_us, &offset, err));
    wr_ledger_end(p->ledger, WR_CAPTURED, offset, event_time_us);
    p->ddl_seq = 0;
    if (p->reconnecting || !p->verified) {
        pthread_mutex_lock(&p->lock_mu);
        p->reconnecting = false;
        p->verified = true;
        wr_err_clear(&p->capture_err);
        pthread_mutex_unlock(&p->lock_mu);
    }
    return p->join_at.file[0] && wr_pos_cmp(pos, &p->join_at) >= 0 ? join_at(p, pos, err) : WR_OK;
}

static wr_code drop_open(wr_pipeline *p, wr_err *err) {
    wr_ledger_abort(p->ledger, WR_CAPTURED);
    WR_TRY(wr_queue_abort(p->queue, err));
    if (p->ddl_seq) WR_TRY(wr_state_schema_truncate(p->state, wr_queue_next_offset(p->queue) - 1, err));
    p->ddl_seq = 0;
    return WR_OK;
}

static wr_code on_abort(void *ctx, wr_err *err) { return drop_open(ctx, err); }

/* fact: "file birth" */
static bool is_before(const char *file, const char *fact) {
    wr_pos a = {0}, b = {0};
    snprintf(a.file, sizeof a.file, "%s", file);
    snprintf(b.file, sizeof b.file, "%.*s", (int)strcspn(fact, " "), fact);
    return b.file[0] && wr_pos_cmp(&a, &b) < 0;
}

/* Each binlog file's time of birth, for the present and the last file: the queue ends in one of them. */
static wr_code on_binlog(void *ctx, const char *file, uint32_t created_s, wr_err *err) {
    wr_pipeline *p = ctx;
    static const char *const keys[2] = {"source.binlog", "source.binlog.before"};
    WR_AUTO char *now = wr_asprintf("%s %" PRIu32, file, created_s);
    char *known[2] = {NULL, NULL};
    if (!now) return wr_nomem(err, "binlog file", 64);
    size_t n = strlen(file);
    wr_code rc = wr_state_get(p->state, keys[0], &known[0], err);
    if (rc == WR_OK) rc = wr_state_get(p->state, keys[1], &known[1], err);
    bool same = false;
    for (int i = 0; rc == WR_OK && i < 2; i++) {
        if (!known[i] || strncmp(known[i], file, n) || known[i][n] != ' ') continue;
        same = !strcmp(known[i], now);
        if (same) break;
        rc = wr_fail(err, WR_E_GAP, WR_RETRY_NO, "the source's history changed: the server began %s at %" PRIu32 ", the one this pipeline has read was begun at %s (RESET MASTER, or a server set up anew)", file,
                     created_s, known[i] + n + 1);
        break;
    }
    if (rc == WR_OK && !same && known[0] && is_before(file, known[0]))
        rc = wr_fail(err, WR_E_GAP, WR_RETRY_NO, "the source's history changed: the server is back at %s, begun at %" PRIu32 ", and this pipeline has read %s (RESET MASTER, RESET BINARY LOGS AND GTIDS)", file, created_s, known[0]);
    if (rc == WR_OK && !same) {
        if (known[0]) rc = wr_state_set(p->state, keys[1], known[0], err);
        if (rc == WR_OK) rc = wr_state_set(p->state, keys[0], now, err);
    }
    wr_free(known[0]), wr_free(known[1]);
    if (rc == WR_OK && !p->verified) {
        pthread_mutex_lock(&p->lock_mu);
        p->verified = true;
        pthread_mutex_unlock(&p->lock_mu);
    }
    return rc;
}

static bool stopping(void *ctx) {
    wr_pipeline *p = ctx;
    wr_beat(p, BEAT_CAPTURE);
    return p->stop;
}

static wr_code restore_one(void *ctx, const wr_ddl *d, wr_err *err) { return wr_source_restore(ctx, d, err); }

wr_code wr_capture_restore(wr_pipeline *p, uint64_t last, wr_err *err) {
    uint32_t max;
    WR_TRY(wr_state_schema_max_table(p->state, &max, err));
    WR_TRY(wr_source_forget(p->source, max + 1, err));
    return wr_state_schema_load(p->state, last, restore_one, p->source, err);
}

/* Waits before trying again; true when asked to stop meanwhile. */
static bool pause_ms(wr_pipeline *p, int ms) {
    struct timespec ts = wr_cond_until(ms);
    pthread_mutex_lock(&p->lock_mu);
    while (!p->stop && pthread_cond_timedwait(&p->wake, &p->lock_mu, &ts) == 0) {}
    pthread_mutex_unlock(&p->lock_mu);
    return p->stop;
}

/* An attempt to go on has failed. Whether that is the end here because another server of the source is to be gone on with (one address may lead to another one, too), or because none can be: then *err says why. */
static bool looks_elsewhere(wr_pipeline *p, const wr_pos *last, int failures, wr_err *err) {
    bool soon = err->retry == WR_RETRY_SOON, better = false;
    if (soon ? failures < LOOK_AFTER : !wr_source_is_several(&p->o.source) || (err->code != WR_E_SERVER && err->code != WR_E_GAP)) return false;
    wr_err e = WR_ERR_INIT;
    wr_code rc = wr_source_look_elsewhere(p->source, &p->o.source, last->gtid_set, !soon, &better, &e);
    if (rc == WR_OK && better) {
        wr_log(WR_LOG_WARN, "capture: %s; going on at another server", err->msg);
        wr_pipeline_move(p);
        wr_err_clear(err);
        return true;
    }
    if (rc == WR_OK || !soon) return false;
    bool hopeless = e.retry == WR_RETRY_NO && failures >= GIVE_UP_AFTER;
    *err = e;
    if (!hopeless) err->retry = WR_RETRY_SOON;
    return hopeless;
}

static void *capture_main(void *arg) {
    wr_pipeline *p = arg;
    const wr_stream_sink sink = {.ctx = p, .change = on_change, .ddl = on_ddl, .commit = on_commit, .abort = on_abort,
                                 .binlog = on_binlog, .stopping = stopping, .stale = on_stale};
    wr_err err = WR_ERR_INIT;
    int delay = 200, failures = 0;
    uint64_t last_before = 0;
    for (;;) {
        wr_beat(p, BEAT_CAPTURE);
        wr_pos from = {0};
        uint64_t last;
        wr_err_clear(&err);
        wr_code rc = wr_queue_last(p->queue, &last, &from, &err);
        int64_t began = wr_mono_us();
        if (rc == WR_OK) rc = check_patterns(p, &from, &err);
        if (rc == WR_OK) rc = wr_source_stream(p->source, &from, &sink, &err);
        wr_pos_clear(&from);
        if (rc == WR_E_GAP && wr_queue_last(p->queue, &last, &from, &err) == WR_OK) wr_gap_describe(p, &from, &err);
        wr_pos_clear(&from);
        wr_err drop = WR_ERR_INIT;
        if (drop_open(p, &drop) != WR_OK && rc == WR_OK) err = drop, rc = drop.code;
        if (rc == WR_OK || p->stop) {
            wr_err_clear(&err);
            break;
        }
        bool final = err.retry == WR_RETRY_NO || rc == WR_E_CANCELLED;
        failures = last != last_before || wr_mono_us() - began > 30000000 ? 1 : failures + 1;
        last_before = last;
        if (wr_queue_last(p->queue, &last, &from, &drop) == WR_OK && looks_elsewhere(p, &from, failures, &err)) final = true;
        wr_pos_clear(&from);
        wr_err_clear(&drop);
        if (final) break;
        /* whatever the failed attempt taught the source's catalogue is taken back: the state knows what the queue knows */
        rc = wr_queue_last(p->queue, &last, &from, &drop);
        wr_pos_clear(&from);
        if (rc == WR_OK) rc = wr_capture_restore(p, last, &drop);
        if (rc != WR_OK) {
            err = drop;
            break;
        }
        if (wr_mono_us() - began > 30000000) delay = 200;
        wr_log(WR_LOG_WARN, "capture: %s; trying again in %d ms", err.msg, delay);
        pthread_mutex_lock(&p->lock_mu);
        p->capture_err = err;
        p->reconnecting = true;
        pthread_mutex_unlock(&p->lock_mu);
        if (pause_ms(p, delay)) {
            wr_err_clear(&err);
            break;
        }
        if (delay < 5000) delay *= 2;
    }
    pthread_mutex_lock(&p->lock_mu);
    p->capture_err = err;
    p->capture_ended = true;
    p->reconnecting = false;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock_mu);
    return NULL;
}

/* A queue that never held anything begins with one transaction: every table's definition, at the position where streaming starts. */
static wr_code begin(wr_pipeline *p, wr_err *err) {
    wr_pos pos = {0};
    uint32_t max;
    uint64_t offset = 0;
    int64_t now_us = wr_now_us();
    wr_code rc = remember_patterns(p, err);
    if (rc == WR_OK) rc = wr_state_schema_max_table(p->state, &max, err);
    if (rc == WR_OK) rc = wr_source_begin(p->source, max + 1, &pos, err);
    if (rc == WR_OK) rc = wr_source_each_table(p->source, first_table, p, err);
    if (rc == WR_OK) rc = wr_queue_end(p->queue, &pos, now_us, &offset, err);
    if (rc == WR_OK) wr_ledger_end(p->ledger, WR_CAPTURED, offset, now_us);
    p->ddl_seq = 0;
    if (rc == WR_OK) rc = wr_queue_sync(p->queue, err);
    wr_pos_clear(&pos);
    return rc;
}

/* One transaction: the request, and what became of the tables in the gap, at the position where streaming goes on. */
static wr_code rebase(wr_pipeline *p, const struct cJSON *request, const char *text, wr_pos *at, wr_err *err) {
    int64_t now_us = wr_now_us();
    uint64_t offset = wr_queue_next_offset(p->queue);
    WR_TRY(wr_queue_append(p->queue, WR_REC_GAP, wr_slice_str(text), err));
    WR_TRY(wr_source_rebase(p->source, first_table, p, at, err));
    WR_TRY(wr_gap_note(p, request, offset, err));
    if (WR_FAULT("gap.noted")) return wr_fail(err, WR_E_IO, WR_RETRY_NO, "injected: gap noted");
    WR_TRY(wr_queue_end(p->queue, at, now_us, &offset, err));
    wr_ledger_end(p->ledger, WR_CAPTURED, offset, now_us);
    p->ddl_seq = 0;
    WR_TRY(wr_queue_sync(p->queue, err));
    return remember_patterns(p, err);
}

wr_code wr_capture_rebase(wr_pipeline *p, const struct cJSON *request, wr_pos *ret_at, wr_err *err) {
    char *text = cJSON_PrintUnformatted(request);
    if (!text) return wr_nomem(err, "record of a gap", 4096);
    wr_code rc = rebase(p, request, text, ret_at, err);
    cJSON_free(text);
    wr_err drop = WR_ERR_INIT;
    if (rc != WR_OK) wr_pos_clear(ret_at), drop_open(p, &drop);
    return rc;
}

/* ------------------------------------------------------------------ whether the server can go on from a position */
typedef struct probe { wr_pipeline *p; int64_t until_us; } probe;

static wr_code enough(wr_err *err) { return wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "enough"); }
static wr_code probe_change(void *ctx, const wr_change *c, wr_err *err) { return (void)ctx, (void)c, enough(err); }
static wr_code probe_ddl(void *ctx, const wr_ddl *d, wr_err *err) { return (void)ctx, (void)d, enough(err); }
static wr_code probe_commit(void *ctx, const wr_pos *pos, int64_t event_us, wr_err *err) { return (void)ctx, (void)pos, (void)event_us, enough(err); }
static wr_code probe_abort(void *ctx, wr_err *err) { return (void)ctx, (void)err, WR_OK; }
static wr_code probe_binlog(void *ctx, const char *file, uint32_t created_s, wr_err *err) { return on_binlog(((probe *)ctx)->p, file, created_s, err); }
static bool probe_stopping(void *ctx) { return wr_mono_us() > ((probe *)ctx)->until_us; }

wr_code wr_capture_probe(wr_pipeline *p, const wr_pos *from, wr_err *err) {
    probe x = {p, wr_mono_us() + PROBE_US};
    const wr_stream_sink sink = {.ctx = &x, .change = probe_change, .ddl = probe_ddl, .commit = probe_commit, .abort = probe_abort, .binlog = probe_binlog, .stopping = probe_stopping};
    wr_code rc = wr_source_stream(p->source, from, &sink, err);
    return rc == WR_E_CANCELLED ? (wr_err_clear(err), WR_OK) : rc;
}

wr_code wr_capture_start(wr_pipeline *p, const wr_pos *from, wr_err *err) {
    WR_TRY(from->file[0] ? wr_gap_resume(p, from, err) : begin(p, err));
    p->joining = true; /* until the capture thread has looked at the patterns */
    if (pthread_create(&p->capture_thread, NULL, capture_main, p) != 0) return wr_fail(err, WR_E_NOMEM, WR_RETRY_NO, "no thread for capture");
    p->capture_started = true;
    return WR_OK;
}

void wr_capture_join(wr_pipeline *p) {
    if (!p->capture_started) return;
    wr_queue_stop(p->queue);
    pthread_join(p->capture_thread, NULL);
    p->capture_started = false;
}
