/* The book with its lock, its file and its two threads. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "book.h"
#include "deliver.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/io.h"

#define RECOVERY_US 30000000
#define LOOK_EVERY_US 1000000        /* at acknowledgements, escalations, recoveries */
#define KEEP_COUNTS_EVERY_US 10000000
#define LAST_NOTICES_US 5000000
#define FLUSH_LOOK_US 20000
#define FILE_MAX (UINT64_C(64) << 20)

struct wr_alarms {
    char *path, *aside, *requests; /* home/alarms.json; where a damaged one goes; home/acknowledge */
    const char *pipeline;
    pthread_mutex_t lock;          /* guards everything below; held for memory only */
    pthread_cond_t changed;
    wr_book book;
    uint64_t kept;                 /* notices up to here are in the file, or it could not be written: told after that, so that a later start knows what was */
    bool stop, delivery_over;
    bool keeping;                  /* the file is being written */
    int64_t stop_us;               /* monotonic */
    pthread_t keeper, deliverer;
    int threads;
};

/* ------------------------------------------------------------------ acknowledgements: home/acknowledge/<id>, an empty file */
typedef struct id_list { uint64_t ids[64]; int n; } id_list;

static wr_code take_id(void *ctx, const char *name, wr_err *err) {
    id_list *l = ctx;
    char *end;
    uint64_t id = strtoull(name, &end, 10);
    (void)err;
    if (*name >= '1' && *name <= '9' && !*end && l->n < 64) l->ids[l->n++] = id;
    return WR_OK;
}

static void asked_for(const char *folder, id_list *ret) {
    wr_err e = WR_ERR_INIT;
    ret->n = 0;
    if (wr_file_exists(folder)) wr_dir_list(folder, take_id, ret, &e);
}

static void forget_requests(const wr_alarms *a, const id_list *l) {
    for (int i = 0; i < l->n; i++) {
        wr_err e = WR_ERR_INIT;
        WR_AUTO char *path = wr_asprintf("%s/%" PRIu64, a->requests, l->ids[i]);
        if (path) wr_file_remove(path, &e);
    }
}

/* ------------------------------------------------------------------ keeping. @thread keeper */
static void pause_us(wr_alarms *a, int64_t us) { /* lock held */
    struct timespec ts = wr_cond_until(us / 1000);
    pthread_cond_timedwait(&a->changed, &a->lock, &ts);
}

/* What has happened since is kept the next time. Without room on the disk it is tried again and again: notices go out anyway. */
static bool keep(wr_alarms *a) { /* lock held; let go meanwhile */
    WR_AUTO char *text = wr_book_text(&a->book);
    wr_err e = WR_ERR_INIT;
    uint64_t last = a->book.last_notice;
    a->book.dirty = a->book.counted = false;
    a->keeping = true;
    pthread_mutex_unlock(&a->lock);
    bool ok = text && wr_file_put(a->path, wr_slice_str(text), &e) == WR_OK;
    pthread_mutex_lock(&a->lock);
    a->book.dirty |= !ok;
    a->keeping = false;
    a->kept = last;
    pthread_cond_broadcast(&a->changed);
    return ok;
}

static void *keeper_main(void *arg) {
    wr_alarms *a = arg;
    int64_t kept = 0, looked = 0;
    id_list asked;
    pthread_mutex_lock(&a->lock);
    for (;;) {
        bool last = a->delivery_over;
        if (wr_mono_us() - looked >= LOOK_EVERY_US || last) {
            looked = wr_mono_us();
            pthread_mutex_unlock(&a->lock);
            asked_for(a->requests, &asked);
            pthread_mutex_lock(&a->lock);
            for (int i = 0; i < asked.n; i++) wr_book_acknowledge(&a->book, asked.ids[i], wr_now_us());
            wr_book_tick(&a->book, wr_now_us(), wr_mono_us());
        } else asked.n = 0;
        bool due = a->book.dirty || (a->book.counted && (wr_mono_us() - kept > KEEP_COUNTS_EVERY_US || last));
        if (due && keep(a)) kept = wr_mono_us();
        else if (due && !last) pause_us(a, LOOK_EVERY_US); /* a full disk */
        if (asked.n && !a->book.dirty) {
            pthread_mutex_unlock(&a->lock);
            forget_requests(a, &asked);
            pthread_mutex_lock(&a->lock);
        }
        if (last) break;
        if (!a->book.dirty && !a->delivery_over) pause_us(a, LOOK_EVERY_US);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* ------------------------------------------------------------------ delivering. @thread deliverer */
static const wr_alarm_sink *sink_of(const wr_alarms *a, const wr_notice *n) {
    for (int i = 0; i < a->book.nsinks; i++)
        if (!strcmp(a->book.sinks[i].name, n->sink)) return &a->book.sinks[i];
    return NULL;
}

static void deliver(wr_alarms *a, const wr_notice *n, const wr_alarm *alarm) { /* lock held; let go meanwhile */
    const wr_alarm_sink *s = sink_of(a, n);
    wr_err e = WR_ERR_INIT;
    pthread_mutex_unlock(&a->lock);
    wr_code rc = WR_FAULT("alarm.deliver") ? wr_fail(&e, WR_E_NET, WR_RETRY_SOON, "injected: delivery") : s ? wr_alarm_deliver(s, a->pipeline, n, alarm, &e) : WR_OK;
    (void)WR_FAULT("alarm.delivered"); /* taken, and not known to be */
    pthread_mutex_lock(&a->lock);
    if (rc == WR_OK) wr_book_delivered(&a->book, n->id);
    else wr_book_refused(&a->book, n->id, e.msg, wr_mono_us());
    pthread_cond_broadcast(&a->changed);
}

static void *deliverer_main(void *arg) {
    wr_alarms *a = arg;
    wr_notice n;
    wr_alarm alarm;
    pthread_mutex_lock(&a->lock);
    while (!a->stop || wr_mono_us() - a->stop_us < LAST_NOTICES_US) {
        if (wr_book_due(&a->book, a->kept, wr_mono_us(), &n, &alarm)) deliver(a, &n, &alarm);
        else if (a->stop && a->kept >= a->book.last_notice) break;
        else pause_us(a, LOOK_EVERY_US);
    }
    a->delivery_over = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* ------------------------------------------------------------------ opening */
static wr_code read_book(const char *path, wr_book *b, wr_err *err) {
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    WR_TRY(wr_file_get(path, FILE_MAX, &text, err));
    if (!wr_buf_cstr(&text)) return wr_nomem(err, "alarms", text.n);
    return wr_book_parse(b, (const char *)text.p, err);
}

static wr_code take_up(wr_alarms *a, wr_err *err) {
    wr_err why = WR_ERR_INIT;
    wr_code rc = wr_file_exists(a->path) ? read_book(a->path, &a->book, &why) : WR_OK;
    if (rc == WR_E_NOMEM) return *err = why, rc;
    if (rc != WR_OK) rename(a->path, a->aside);
    if (a->book.running) wr_book_failed_run(&a->book, wr_now_us());
    a->book.running = a->book.dirty = true;
    return WR_OK;
}

static void alarms_free(wr_alarms *a) {
    wr_book_free(&a->book);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->changed);
    wr_free(a->path), wr_free(a->aside), wr_free(a->requests);
    wr_free(a);
}

static void end_threads(wr_alarms *a) {
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    a->stop_us = wr_mono_us();
    a->delivery_over = a->threads < 2;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (a->threads > 1) pthread_join(a->deliverer, NULL);
    if (a->threads > 0) pthread_join(a->keeper, NULL);
}

wr_code wr_alarms_open(const wr_alarms_options *o, wr_alarms **ret, wr_err *err) {
    static const wr_alarm_sink nobody;
    wr_alarms *a = wr_calloc(1, sizeof *a);
    if (!a) return wr_nomem(err, "alarms", sizeof *a);
    pthread_mutex_init(&a->lock, NULL);
    wr_cond_init(&a->changed);
    a->pipeline = o->pipeline;
    a->book = (wr_book){.sinks = o->nsinks ? o->sinks : &nobody, .nsinks = o->nsinks, .recovery_us = o->recovery_us ? o->recovery_us : RECOVERY_US};
    a->path = wr_path_join(o->home, "alarms.json"), a->aside = wr_path_join(o->home, "alarms.json.damaged"), a->requests = wr_path_join(o->home, "acknowledge");
    wr_code rc = a->path && a->aside && a->requests ? take_up(a, err) : wr_nomem(err, "alarms", 256);
    if (rc == WR_OK && (pthread_create(&a->keeper, NULL, keeper_main, a) != 0 || !++a->threads || pthread_create(&a->deliverer, NULL, deliverer_main, a) != 0 || !++a->threads))
        rc = wr_fail(err, WR_E_NOMEM, WR_RETRY_NO, "no thread for alarms");
    if (rc != WR_OK) {
        if (a->threads) end_threads(a);
        return alarms_free(a), rc;
    }
    *ret = a;
    return WR_OK;
}

void wr_alarms_flush(wr_alarms *a, int64_t within_us) {
    if (!a) return;
    int64_t until = wr_mono_us() + within_us;
    pthread_mutex_lock(&a->lock);
    pthread_cond_broadcast(&a->changed);
    while ((a->book.dirty || a->keeping) && wr_mono_us() < until) pause_us(a, FLUSH_LOOK_US);
    pthread_mutex_unlock(&a->lock);
}

void wr_alarms_close(wr_alarms *a) {
    if (!a) return;
    end_threads(a);
    alarms_free(a);
}

/* ------------------------------------------------------------------ raising */
static void unlock_and_tell(wr_alarms *a) {
    bool wake = a->book.dirty;
    pthread_mutex_unlock(&a->lock);
    if (wake) pthread_cond_broadcast(&a->changed);
}

static void raise_it(wr_alarms *a, bool holds, wr_alarm_kind kind, wr_alarm_severity severity, const char *subject, const char *text, const char *cure) {
    if (!a) return;
    const wr_alarm_kind_info *k = wr_alarm_kind_of(kind);
    pthread_mutex_lock(&a->lock);
    wr_book_raise(&a->book, holds, k->name, severity, subject, text, cure && *cure ? cure : k->cure, wr_now_us());
    unlock_and_tell(a);
}

void wr_alarm_raise(wr_alarms *a, wr_alarm_kind kind, const char *subject, const char *text, const char *cure) { raise_it(a, false, kind, wr_alarm_kind_of(kind)->severity, subject, text, cure); }
void wr_alarm_hold(wr_alarms *a, wr_alarm_kind kind, wr_alarm_severity severity, const char *subject, const char *text, const char *cure) { raise_it(a, true, kind, severity, subject, text, cure); }

void wr_alarm_clear(wr_alarms *a, wr_alarm_kind kind, const char *subject) {
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    wr_book_clear(&a->book, wr_alarm_kind_of(kind)->name, subject, wr_now_us());
    unlock_and_tell(a);
}

void wr_alarm_clear_others(wr_alarms *a, wr_alarm_kind kind, bool (*wanted)(void *ctx, const char *subject), void *ctx) {
    if (!a) return;
    const char *name = wr_alarm_kind_of(kind)->name;
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->book.n; i++) {
        const wr_alarm *x = &a->book.alarms[i];
        if (x->state != WR_ALARM_RECOVERED && !strcmp(x->kind, name) && !(wanted && wanted(ctx, x->subject))) wr_book_clear(&a->book, name, x->subject, wr_now_us());
    }
    unlock_and_tell(a);
}

void wr_alarms_run_ended(wr_alarms *a, bool failed) {
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    if (failed) wr_book_failed_run(&a->book, wr_now_us());
    a->book.running = false;
    a->book.dirty = true;
    unlock_and_tell(a);
}

int wr_alarms_failures(wr_alarms *a, int64_t within_us) {
    if (!a) return 0;
    int n = 0;
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->book.nfailures; i++) n += wr_now_us() - a->book.failures[i] <= within_us;
    pthread_mutex_unlock(&a->lock);
    return n;
}

/* ------------------------------------------------------------------ from any process */
static void give_list(wr_book *b, wr_alarm_list *ret) {
    *ret = (wr_alarm_list){.list = b->alarms, .n = b->n, .undelivered = b->nnotices, .dropped = b->dropped};
    for (int i = 0; i < b->n; i++) ret->open += b->alarms[i].state == WR_ALARM_OPEN;
    for (int i = 0; i < b->nnotices && !ret->error[0]; i++) snprintf(ret->error, sizeof ret->error, "%s", b->notices[i].error);
    b->alarms = NULL, b->n = 0;
}

wr_code wr_alarms_read(const char *home, wr_alarm_list *ret, wr_err *err) {
    WR_AUTO char *path = wr_path_join(home, "alarms.json"), *requests = wr_path_join(home, "acknowledge");
    if (!path || !requests) return wr_nomem(err, "alarms", 256);
    wr_book b = {0};
    if (!wr_file_exists(path)) return give_list(&b, ret), WR_OK;
    if (read_book(path, &b, err) != WR_OK) return wr_err_in(err, "%s", path);
    id_list asked;
    asked_for(requests, &asked);
    for (int i = 0; i < asked.n; i++) wr_book_acknowledge(&b, asked.ids[i], wr_now_us());
    give_list(&b, ret);
    wr_book_free(&b);
    return WR_OK;
}

void wr_alarm_list_clear(wr_alarm_list *l) {
    wr_free(l->list);
    *l = (wr_alarm_list){0};
}

wr_code wr_alarms_acknowledge(const char *home, uint64_t id, wr_err *err) {
    wr_alarm_list l;
    WR_TRY(wr_alarms_read(home, &l, err));
    bool open = false;
    for (int i = 0; i < l.n; i++) open |= l.list[i].id == id && l.list[i].state != WR_ALARM_RECOVERED;
    wr_alarm_list_clear(&l);
    if (!open) {
        wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "no open alarm has the number %" PRIu64, id);
        return wr_err_cure(err, "weir alarms lists them");
    }
    WR_AUTO char *folder = wr_path_join(home, "acknowledge"), *path = wr_asprintf("%s/acknowledge/%" PRIu64, home, id);
    if (!folder || !path) return wr_nomem(err, "path", 256);
    WR_TRY(wr_mkdirs(folder, err));
    return wr_file_put(path, wr_slice_str(""), err);
}
