/* How long the source keeps its log, against how far behind capture is: a gap is told before it comes.
 *
 * Two limits: age (a file is purged when it is older) and size of all files. Half of either used up by what has not been captured yet is a warning, nine tenths another. The age of what comes next is not known, so that of what was
 * captured last stands for it; without a backlog there is no age. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include "impl.h"
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define LOOK_EVERY_US INT64_C(10000000)
#define NO_BACKLOG 65536 /* bytes that are on their way */

/* Share of the limit that is used up, in percent. */
static int used(double part, double limit) { return limit > 0 ? (int)(100 * part / limit) : 0; }

static int level_of(int percent) { return percent >= 90 ? 2 : percent >= 50 ? 1 : 0; }

/* *ret_percent: of the limit that comes first. text: what there is to say of it. */
static void judge(const wr_source_logs *l, int64_t behind_s, int *ret_percent, char text[300]) {
    int by_age = l->bytes_behind ? used((double)behind_s, (double)l->keep_s) : 0, by_size = used((double)l->bytes_behind, (double)l->keep_bytes);
    *ret_percent = by_age > by_size ? by_age : by_size;
    text[0] = 0;
    if (!level_of(*ret_percent)) return;
    if (by_age >= by_size)
        snprintf(text, 300, "the source keeps its binlog for %.1f h, and capture is %.1f h behind: %.1f h are left before changes are lost", (double)l->keep_s / 3600, (double)behind_s / 3600,
                 (double)(l->keep_s > behind_s ? l->keep_s - behind_s : 0) / 3600);
    else snprintf(text, 300, "the source keeps %.1f MB of binlog, and %.1f MB of it are not captured yet", (double)l->keep_bytes / 1e6, (double)l->bytes_behind / 1e6);
}

/* What lies behind the position may be nothing but events that touch no table. */
static void forget_crumbs(wr_source_logs *l) {
    if (l->bytes_behind < NO_BACKLOG && !l->keep_bytes) l->bytes_behind = 0;
}

/* ------------------------------------------------------------------ while a sync runs */
static int64_t captured_time(wr_pipeline *p) {
    wr_stream_stats ss;
    wr_source_stream_stats(p->source, &ss);
    if (ss.last_event_us) return ss.last_event_us;
    pthread_mutex_lock(&p->lock_mu);
    int64_t us = p->committed_event_us;
    pthread_mutex_unlock(&p->lock_mu);
    return us;
}

static void warn(wr_pipeline *p, int percent, const char *text) {
    int level = level_of(percent);
    if (level > p->retention_level) wr_log(WR_LOG_WARN, "%s; keep it longer, or see why the sync is behind (weir status)", text);
    p->retention_level = level;
    if (!level) return wr_alarm_clear(p->alarms, WR_ALARM_SOURCE_RETENTION, p->o.name);
    wr_alarm_hold(p->alarms, WR_ALARM_SOURCE_RETENTION, level > 1 ? WR_ALARM_CRITICAL : WR_ALARM_WARNING, p->o.name, text, NULL);
}

void wr_retention_look(wr_pipeline *p) {
    int64_t now = wr_mono_us(), at_us;
    wr_source_logs l = {0};
    wr_pos here = {0};
    uint64_t off;
    wr_pipeline_status s;
    wr_err e = WR_ERR_INIT; /* a server that does not answer is capture's to tell */
    if (now < p->retention_at_us) return;
    p->retention_at_us = now + LOOK_EVERY_US;
    wr_pipeline_get_status(p, &s);
    if (s.silent_us || !strcmp(s.state, "reconnecting")) return;
    if (wr_queue_last(p->queue, &off, &here, &e) == WR_OK && here.epoch == wr_source_epoch(p->source) && wr_source_get_logs(p->source, &here, &l, &e) == WR_OK && l.there) {
        forget_crumbs(&l);
        struct retention r = {.keep_s = l.keep_s, .keep_bytes = l.keep_bytes, .bytes = l.bytes, .behind_bytes = l.bytes_behind};
        at_us = captured_time(p);
        if (!l.bytes_behind) at_us = wr_now_us();
        r.behind_s = at_us ? (wr_now_us() - at_us) / 1000000 : 0;
        if (r.behind_s < 0) r.behind_s = 0;
        r.captured_us = at_us;
        int percent;
        judge(&l, r.behind_s, &percent, r.warning);
        warn(p, percent, r.warning);
        pthread_mutex_lock(&p->lock_mu);
        p->retention = r;
        pthread_mutex_unlock(&p->lock_mu);
    }
    wr_pos_clear(&here);
    wr_source_logs_clear(&l);
}

void wr_retention_forget(wr_pipeline *p) {
    p->retention_at_us = 0;
    warn(p, 0, "");
    pthread_mutex_lock(&p->lock_mu);
    p->retention = (struct retention){0};
    pthread_mutex_unlock(&p->lock_mu);
}

void wr_retention_json(wr_pipeline *p, cJSON *status) {
    pthread_mutex_lock(&p->lock_mu);
    struct retention r = p->retention;
    pthread_mutex_unlock(&p->lock_mu);
    if (!r.bytes) return;
    cJSON *o = cJSON_AddObjectToObject(status, "retention");
    cJSON_AddNumberToObject(o, "keep_s", (double)r.keep_s), cJSON_AddNumberToObject(o, "keep_bytes", (double)r.keep_bytes), cJSON_AddNumberToObject(o, "bytes", (double)r.bytes);
    cJSON_AddNumberToObject(o, "behind_s", (double)r.behind_s), cJSON_AddNumberToObject(o, "behind_bytes", (double)r.behind_bytes), cJSON_AddNumberToObject(o, "captured_us", (double)r.captured_us);
    if (r.warning[0]) cJSON_AddStringToObject(o, "warning", r.warning);
}

/* ------------------------------------------------------------------ weir check */
static bool is_followed(const wr_status_file *st, const wr_source *s, wr_err *err) {
    WR_AUTO char *followed = NULL;
    uint32_t epoch = 0;
    return wr_status_followed(st, &followed, &epoch, err) == WR_OK && !strcmp(followed, wr_source_identity(s));
}

void wr_retention_find(wr_source *s, const char *home, void (*fn)(void *ctx, const wr_finding *f), void *ctx, wr_err *err) {
    wr_status_file st = {0};
    wr_source_logs l = {0};
    wr_finding f = {.severity = WR_FINDING_WARNS, .id = "binlog-left"};
    int percent = 0;
    char text[300] = "", place[512];
    /* none has run yet; it follows another server; or the server refuses to say, which is another finding */
    if (wr_status_read(home, &st, err) != WR_OK || !st.captured.file[0] || !is_followed(&st, s, err) || wr_source_get_logs(s, &st.captured, &l, err) != WR_OK) {
        wr_err_clear(err);
        wr_status_clear(&st);
        return;
    }
    forget_crumbs(&l);
    int64_t behind_s = st.captured_us && l.bytes_behind ? (wr_now_us() - st.captured_us) / 1000000 : 0;
    judge(&l, behind_s, &percent, text);
    if (!l.there) {
        f.severity = WR_FINDING_STOPS, f.id = "binlog-gap";
        snprintf(f.what, sizeof f.what, "the source has no binlog at %s any more, where the sync would go on", wr_pos_print(&st.captured, place));
        size_t n = strlen(f.what);
        snprintf(f.what + n, sizeof f.what - n, "; the first position available is %s", wr_pos_print(&l.first, place));
        snprintf(f.consequence, sizeof f.consequence, "changes are lost to the stream; the sync ends");
        snprintf(f.cure, sizeof f.cure, "weir resume -c FILE tells the ways on");
        fn(ctx, &f);
    } else if (level_of(percent)) {
        snprintf(f.what, sizeof f.what, "%s", text);
        snprintf(f.consequence, sizeof f.consequence, "when the source purges what has not been captured, tables must be read again or compared (weir resume)");
        snprintf(f.cure, sizeof f.cure, "start the sync, or see why it is behind (weir status); keep binlogs longer meanwhile (binlog_expire_logs_seconds, expire_logs_days, max_binlog_total_size)");
        fn(ctx, &f);
    }
    wr_source_logs_clear(&l);
    wr_status_clear(&st);
}
