/* The watchdog: what should be an alarm and is not an error that somebody sees. It asks nobody: everything it looks at is counted anyway. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include "impl.h"
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"
#include "weir/store.h"

#define LOOK_EVERY_US 1000000
#define MINUTE_US INT64_C(60000000)
#define QUEUE_MAX_BYTES (UINT64_C(16) << 30) /* the queue's own default */
#define LAKE_PEACE_US INT64_C(30000000) /* without an error: it works again; attempts come more often than that */

typedef struct moving { uint64_t at; int64_t since_us; } moving; /* monotonic */
typedef struct watch {
    moving thread[BEATS], flusher;
    int64_t began_us, heard_us;          /* wall clock; of the source's newest packet */
    char address[300];                   /* of the source, as the alarm of its silence names it */
    int64_t lake_since_us, lake_last_us; /* monotonic; when the lake began to fail, and did last. 0 = it does not */
    uint64_t ledger_alarms;
    bool ledger_seen;
} watch;

static const char *seconds(int64_t us, char buf[32]) {
    int64_t s = us / 1000000;
    if (s < 120) snprintf(buf, 32, "%" PRId64 " s", s);
    else if (s < 7200) snprintf(buf, 32, "%" PRId64 " min", s / 60);
    else snprintf(buf, 32, "%" PRId64 " h", s / 3600);
    return buf;
}

/* ------------------------------------------------------------------ threads */
static void look_at_thread(wr_pipeline *p, const char *name, moving *m, uint64_t at, bool excused) {
    int64_t now = wr_mono_us();
    char text[256], t[32];
    if (!m->since_us || m->at != at || excused) *m = (moving){at, now};
    if (now - m->since_us < p->o.watch.stalled_us) return wr_alarm_clear(p->alarms, WR_ALARM_THREAD_STALLED, name);
    snprintf(text, sizeof text, "thread '%s' has not moved for %s", name, seconds(now - m->since_us, t));
    wr_alarm_hold(p->alarms, WR_ALARM_THREAD_STALLED, WR_ALARM_CRITICAL, name, text, NULL);
}

/* Then capture waits for room, and reads nothing. */
static bool queue_full(const wr_pipeline *p, const wr_queue_stats *q) { return q->bytes > (p->o.queue.max_bytes ? p->o.queue.max_bytes : QUEUE_MAX_BYTES) / 4 * 3; }

/* Applying waits while tables are loaded. */
/* Between two servers of the source nobody has anything to do. */
static void look_at_threads(wr_pipeline *p, watch *w, const wr_pipeline_status *s) {
    static const char *const names[BEATS] = {"capture", "applying", "ledger"};
    wr_queue_stats q = {0};
    bool between = !p->source;
    if (p->queue) wr_queue_get_stats(p->queue, &q);
    pthread_mutex_lock(&p->lock_mu);
    bool capture_over = p->capture_ended;
    pthread_mutex_unlock(&p->lock_mu);
    bool excused[BEATS] = {capture_over || between || queue_full(p, &q), between || s->tables_loading > 0, between};
    for (int i = 0; i < BEATS; i++) look_at_thread(p, names[i], &w->thread[i], __atomic_load_n(&p->beats[i], __ATOMIC_RELAXED), excused[i]);
    look_at_thread(p, "queue", &w->flusher, q.durable_offset, q.durable_offset >= q.last_offset);
}

/* ------------------------------------------------------------------ the source */
static void look_at_source(wr_pipeline *p, watch *w) {
    char text[1200], why[900] = "", t[32];
    wr_queue_stats q = {0};
    wr_stream_stats ss = {0};
    if (p->queue) wr_queue_get_stats(p->queue, &q);
    if (p->source) wr_source_stream_stats(p->source, &ss);
    if (p->source && strcmp(w->address, wr_source_address(p->source))) {
        wr_alarm_clear_others(p->alarms, WR_ALARM_SOURCE_SILENT, NULL, NULL);
        snprintf(w->address, sizeof w->address, "%s", wr_source_address(p->source));
    }
    if (ss.last_packet_us > w->heard_us) w->heard_us = ss.last_packet_us;
    int64_t silent = wr_now_us() - w->heard_us;
    pthread_mutex_lock(&p->lock_mu);
    bool over = p->capture_ended && !p->moving;
    if (p->capture_err.code) snprintf(why, sizeof why, ": %.880s", p->capture_err.msg);
    pthread_mutex_unlock(&p->lock_mu);
    if (over || (queue_full(p, &q) && !why[0]) || silent < p->o.watch.silent_us) return wr_alarm_clear_others(p->alarms, WR_ALARM_SOURCE_SILENT, NULL, NULL);
    snprintf(text, sizeof text, "nothing has come from the source for %s, not even a heartbeat%s", seconds(silent, t), why);
    wr_alarm_hold(p->alarms, WR_ALARM_SOURCE_SILENT, WR_ALARM_CRITICAL, w->address, text, NULL);
}

/* A load takes as long as it takes: only a very long one is told, and not as critical. */
static void look_at_lag(wr_pipeline *p, const wr_pipeline_status *s) {
    const wr_watch_options *o = &p->o.watch;
    char text[300], t[32];
    if (s->lag_us < (s->tables_loading ? o->lag_critical_us : o->lag_warning_us)) return wr_alarm_clear(p->alarms, WR_ALARM_SOURCE_LAG, p->o.name);
    snprintf(text, sizeof text, "the lake is %s behind: %" PRIu64 " transactions are captured and not committed%s", seconds(s->lag_us, t), s->queue_last - s->queue_committed, s->tables_loading ? "; tables are being loaded" : "");
    wr_alarm_hold(p->alarms, WR_ALARM_SOURCE_LAG, s->lag_us >= o->lag_critical_us && !s->tables_loading ? WR_ALARM_CRITICAL : WR_ALARM_WARNING, p->o.name, text, NULL);
}

/* ------------------------------------------------------------------ disks and the lake */
static void look_at_disk(wr_pipeline *p, const char *path) {
    const wr_watch_options *o = &p->o.watch;
    struct statvfs v;
    char text[300];
    if (statvfs(path, &v) != 0) return;
    uint64_t left = (uint64_t)v.f_bavail * v.f_frsize, all = (uint64_t)v.f_blocks * v.f_frsize;
    if (left >= o->disk_warning_bytes) return wr_alarm_clear(p->alarms, WR_ALARM_DISK_LOW, path);
    snprintf(text, sizeof text, "%" PRIu64 " MB of %" PRIu64 " MB are free", left / 1000000, all / 1000000);
    wr_alarm_hold(p->alarms, WR_ALARM_DISK_LOW, left < o->disk_critical_bytes ? WR_ALARM_CRITICAL : WR_ALARM_WARNING, path, text, NULL);
}

static void look_at_disks(wr_pipeline *p) {
    struct stat home, warehouse;
    look_at_disk(p, p->home);
    if (wr_uri_is_local(p->warehouse) && stat(p->warehouse, &warehouse) == 0 && stat(p->home, &home) == 0 && home.st_dev != warehouse.st_dev) look_at_disk(p, p->warehouse);
}

/* The run goes on by itself: it is an alarm when that does not help for a while. Between two attempts there is no error for moments. */
static void look_at_lake(wr_pipeline *p, watch *w) {
    wr_err why = WR_ERR_INIT;
    int64_t now = wr_mono_us();
    pthread_mutex_lock(&p->lock_mu);
    if (p->apply_err.code) why = p->apply_err;
    pthread_mutex_unlock(&p->lock_mu);
    if (why.code) w->lake_last_us = now, w->lake_since_us = w->lake_since_us ? w->lake_since_us : now;
    if (w->lake_since_us && now - w->lake_last_us > LAKE_PEACE_US) w->lake_since_us = 0;
    if (!w->lake_since_us) return wr_alarm_clear(p->alarms, WR_ALARM_LAKE_FAILING, p->warehouse);
    if (why.code && now - w->lake_since_us >= p->o.watch.silent_us) wr_alarm_hold(p->alarms, WR_ALARM_LAKE_FAILING, WR_ALARM_WARNING, p->warehouse, why.msg, why.cure);
}

/* ------------------------------------------------------------------ the ledger's alarms */
typedef struct found { wr_pipeline *p; char (*keys)[700]; int n; wr_alarm_kind kind; } found;

static void key_of(wr_alarm_kind kind, const char *subject, char out[700]) { snprintf(out, 700, "%d %s", (int)kind, subject); }

static wr_code on_ledger_alarm(void *ctx, const wr_ledger_alarm *a, wr_err *err) {
    found *f = ctx;
    char name[64], text[1000];
    wr_alarm_kind kind;
    snprintf(name, sizeof name, "ledger.%s", a->hop);
    if (!wr_alarm_kind_named(name, &kind)) return WR_OK;
    void *more = wr_realloc(f->keys, (size_t)(f->n + 1) * sizeof *f->keys);
    if (!more) return wr_nomem(err, "alarms", sizeof *f->keys);
    f->keys = more;
    key_of(kind, a->table, f->keys[f->n++]);
    char iso[32];
    wr_iso_time(a->minute * MINUTE_US, iso)[16] = 0;
    snprintf(text, sizeof text, "minute %s: %.900s", iso, a->text);
    wr_alarm_hold(f->p->alarms, kind, wr_alarm_kind_of(kind)->severity, a->table, text, NULL);
    return WR_OK;
}

static wr_code no_line(void *ctx, const wr_ledger_line *l, wr_err *err) { return (void)ctx, (void)l, (void)err, WR_OK; }

static bool is_found(void *ctx, const char *subject) {
    const found *f = ctx;
    char key[700];
    key_of(f->kind, subject, key);
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->keys[i], key)) return true;
    return false;
}

static void look_at_ledger(wr_pipeline *p, watch *w) {
    wr_ledger *l = __atomic_load_n(&p->ledger, __ATOMIC_ACQUIRE);
    uint64_t n = wr_ledger_alarms(l);
    if (!l || (w->ledger_seen && n == w->ledger_alarms)) return;
    WR_AUTO char *path = wr_path_join(p->home, "ledger.db");
    found f = {.p = p};
    wr_err err = WR_ERR_INIT;
    wr_ledger_totals totals;
    wr_code rc = !path ? WR_E_NOMEM : n ? wr_ledger_view(path, &(wr_ledger_filter){0}, &(wr_ledger_look){&f, no_line, on_ledger_alarm}, &totals, &err) : WR_OK;
    for (int k = WR_ALARM_LEDGER_SOURCE_CAPTURED; rc == WR_OK && k <= WR_ALARM_LEDGER_NOT_COUNTED; k++) f.kind = (wr_alarm_kind)k, wr_alarm_clear_others(p->alarms, f.kind, is_found, &f);
    if (rc == WR_OK) w->ledger_seen = true, w->ledger_alarms = n;
    wr_free(f.keys);
}

/* ------------------------------------------------------------------ runs */
static void look_at_restarts(wr_pipeline *p) {
    const wr_watch_options *o = &p->o.watch;
    int n = wr_alarms_failures(p->alarms, o->restarts_within_us);
    char text[200], t[32];
    if (n < o->restarts) return wr_alarm_clear(p->alarms, WR_ALARM_SYNC_RESTARTS, p->o.name);
    snprintf(text, sizeof text, "%d runs have ended by failure or a kill within %s", n, seconds(o->restarts_within_us, t));
    wr_alarm_hold(p->alarms, WR_ALARM_SYNC_RESTARTS, WR_ALARM_CRITICAL, p->o.name, text, NULL);
}

void wr_watch_failed(wr_pipeline *p, const wr_err *why) {
    p->failed = true;
    wr_alarms_run_ended(p->alarms, true);
    wr_alarm_raise(p->alarms, WR_ALARM_SYNC_FAILED, p->o.name, why->msg, why->cure);
    if (p->alarms) look_at_restarts(p);
}

/* It runs when the source answers; that it goes on running is for the pause before a recovery. */
static void look_at_run(wr_pipeline *p, const watch *w) {
    if (w->heard_us > w->began_us) wr_alarm_clear(p->alarms, WR_ALARM_SYNC_FAILED, p->o.name);
    look_at_restarts(p);
}

/* ------------------------------------------------------------------ the thread */
static bool watch_pause(wr_pipeline *p) {
    struct timespec ts = wr_cond_until(LOOK_EVERY_US / 1000);
    pthread_mutex_lock(&p->lock_mu);
    while (!p->watch_stop && pthread_cond_timedwait(&p->wake, &p->lock_mu, &ts) == 0) {}
    bool on = !p->watch_stop;
    pthread_mutex_unlock(&p->lock_mu);
    return on;
}

static void *watch_main(void *arg) {
    wr_pipeline *p = arg;
    watch w = {.began_us = wr_now_us()};
    w.heard_us = w.began_us;
    while (watch_pause(p)) {
        wr_pipeline_status s;
        wr_pipeline_get_status(p, &s);
        pthread_mutex_lock(&p->open_lock);
        if (!p->stop) look_at_threads(p, &w, &s), look_at_source(p, &w), look_at_lag(p, &s), look_at_run(p, &w);
        look_at_ledger(p, &w);
        pthread_mutex_unlock(&p->open_lock);
        look_at_disks(p), look_at_lake(p, &w);
    }
    look_at_ledger(p, &w); /* what the last readings have found; nothing moves any more */
    return NULL;
}

static int64_t or_default(int64_t v, int64_t usual) { return v ? v : usual; }

void wr_watch_open(wr_pipeline *p) {
    wr_watch_options *o = &p->o.watch;
    wr_err err = WR_ERR_INIT;
    o->stalled_us = or_default(o->stalled_us, 5 * MINUTE_US), o->silent_us = or_default(o->silent_us, MINUTE_US);
    o->lag_warning_us = or_default(o->lag_warning_us, 5 * MINUTE_US), o->lag_critical_us = or_default(o->lag_critical_us, 60 * MINUTE_US);
    if (!o->disk_warning_bytes) o->disk_warning_bytes = UINT64_C(5000000000);
    if (!o->disk_critical_bytes) o->disk_critical_bytes = UINT64_C(1000000000);
    if (!o->restarts) o->restarts = 3;
    o->restarts_within_us = or_default(o->restarts_within_us, 10 * MINUTE_US);
    const wr_alarms_options ao = {.home = p->home, .pipeline = p->o.name, .sinks = o->sinks, .nsinks = o->nsinks, .recovery_us = o->recovery_us};
    if (wr_alarms_open(&ao, &p->alarms, &err) != WR_OK) wr_log(WR_LOG_WARN, "no alarms will be told: %s", err.msg);
}

void wr_watch_start(wr_pipeline *p) {
    if (!p->alarms || p->watch_started || pthread_create(&p->watch_thread, NULL, watch_main, p) != 0) return;
    p->watch_started = true;
}

void wr_watch_stop(wr_pipeline *p) { wr_pipeline_join(p, p->watch_thread, &p->watch_started, &p->watch_stop); }

void wr_watch_close(wr_pipeline *p) {
    if (!p->failed) wr_alarms_run_ended(p->alarms, false);
    wr_alarms_close(p->alarms);
}
