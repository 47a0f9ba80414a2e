/* What the pipeline believes of its source against what the servers say: once a minute. A finding is shown by the status and logged when it is new; a better server is gone to. */
#include "impl.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define INSPECT_EVERY_US 60000000
#define AGAIN_US 5000000 /* a server that is better twice in a row is */
enum { TABLES_SHOWN = 20 };

typedef struct inspection {
    wr_pipeline *p;
    cJSON *found;              /* of this round */
    wr_map *believed;          /* "db.table" -> any; what the server has as well is taken out */
    wr_map *odd, *odd_before;  /* tables that one side has only, now and the last time -> &unknown or &gone. before NULL: not looked yet */
    wr_pos looked_at;          /* where the server was the last time, before its tables were read */
} inspection;

static char unknown, gone;

static void on_finding(void *ctx, const wr_finding *f) {
    inspection *x = ctx;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "id", f->id);
    cJSON_AddStringToObject(o, "what", f->what);
    cJSON_AddStringToObject(o, "consequence", f->consequence);
    cJSON_AddStringToObject(o, "cure", f->cure);
    cJSON_AddItemToArray(x->found, o);
}

/* ------------------------------------------------------------------ tables */
static wr_code believe(void *ctx, const wr_ddl *d, wr_err *err) {
    inspection *x = ctx;
    if (d->kind == WR_DDL_HIDDEN || d->kind == WR_DDL_DROP) return WR_OK;
    WR_AUTO char *full = wr_asprintf("%s.%s", d->db, d->name);
    return full && wr_map_put(x->believed, wr_slice_str(full), x) ? WR_OK : wr_nomem(err, "tables", 256);
}

static wr_code on_table(void *ctx, const char *db, const char *name, wr_err *err) {
    inspection *x = ctx;
    WR_AUTO char *full = wr_asprintf("%s.%s", db, name);
    if (!full) return wr_nomem(err, "tables", 256);
    if (wr_map_del(x->believed, wr_slice_str(full))) return WR_OK;
    return wr_map_put(x->odd, wr_slice_str(full), &unknown) ? WR_OK : wr_nomem(err, "tables", 256);
}

static void note_gone(void *ctx, wr_slice key, void *value) { wr_map_put(((inspection *)ctx)->odd, key, &gone); /* without memory it is not told */ }

typedef struct telling { const inspection *x; const char *kind; int n; wr_buf names; } telling;

static void name_odd(void *ctx, wr_slice key, void *value) {
    telling *t = ctx;
    if (value != t->kind || wr_map_get(t->x->odd_before, key) != value || t->n++ >= TABLES_SHOWN) return;
    wr_buf_printf(&t->names, "%s%.*s", t->n > 1 ? ", " : "", (int)key.n, (const char *)key.p);
}

static void tell_odd(inspection *x, const char *kind, const char *id, const char *what, const char *consequence, const char *cure) {
    telling t = {.x = x, .kind = kind};
    wr_map_each(x->odd, name_odd, &t);
    wr_finding f = {.severity = WR_FINDING_WARNS, .id = id};
    if (t.n && wr_buf_cstr(&t.names)) {
        snprintf(f.what, sizeof f.what, "%s: %.380s%s", what, (char *)t.names.p, t.n > TABLES_SHOWN ? ", ..." : "");
        snprintf(f.consequence, sizeof f.consequence, "%s", consequence);
        snprintf(f.cure, sizeof f.cure, "%s", cure);
        on_finding(x, &f);
    }
    wr_buf_free(&t.names);
}

/* DDL may be on its way in the stream. What was odd the last time, and is after everything up to then has been captured, is odd. */
static void judge_tables(inspection *x, const wr_pos *captured) {
    wr_map_each(x->believed, note_gone, x);
    if (!x->odd_before || wr_pos_cmp(captured, &x->looked_at) < 0) return;
    tell_odd(x, &unknown, "table-unknown", "the binlog did not tell of tables that match source.capture", "their rows are not captured, or stop the sync",
             "were they made with sql_log_bin=0? Exclude them, start, and take them in again");
    tell_odd(x, &gone, "table-gone", "the binlog did not tell why captured tables are not on the server any more", "the lake keeps rows that the source has not", "were they dropped with sql_log_bin=0? Exclude them");
}

/* ------------------------------------------------------------------ a round */
static wr_code look_now(inspection *x, const wr_pos *captured, uint64_t last, const wr_pos *there, bool *ret_better, wr_err *err) {
    wr_pipeline *p = x->p;
    wr_stream_stats ss;
    wr_source_stream_stats(p->source, &ss);
    pthread_mutex_lock(&p->lock_mu);
    bool joining = p->joining;
    pthread_mutex_unlock(&p->lock_mu);
    wr_inspection in = {.ctx = x, .captured = captured, .finding = on_finding, .table = joining ? NULL : on_table};
    if (ss.last_event_us && there->file[0] && wr_pos_cmp(captured, there) < 0) in.behind_us = wr_now_us() - ss.last_event_us;
    if (!joining) WR_TRY(wr_state_schema_load(p->state, last, believe, x, err));
    WR_TRY(wr_source_inspect(p->source, &p->o.source, &in, ret_better, err));
    if (!joining && there->file[0]) judge_tables(x, captured);
    return WR_OK;
}

static wr_code look(inspection *x, bool *ret_better, wr_err *err) {
    wr_pos captured = {0}, there = {0};
    uint64_t last = 0;
    x->believed = wr_map_new(), x->odd = wr_map_new();
    wr_err e = WR_ERR_INIT; /* a server that does not answer is a finding */
    if (wr_source_now(x->p->source, &there, &e) != WR_OK) wr_pos_clear(&there);
    wr_code rc = x->believed && x->odd ? wr_queue_last(x->p->queue, &last, &captured, err) : wr_nomem(err, "inspection", 256);
    if (rc == WR_OK) rc = look_now(x, &captured, last, &there, ret_better, err);
    wr_pos_clear(&captured);
    wr_map_free(x->believed, NULL), wr_map_free(x->odd_before, NULL);
    x->believed = NULL, x->odd_before = NULL;
    if (rc != WR_OK || !there.file[0]) wr_map_free(x->odd, NULL);
    else x->odd_before = x->odd;
    x->odd = NULL;
    wr_pos_clear(&x->looked_at);
    x->looked_at = there;
    return rc;
}

static const char *text_of(const cJSON *o, const char *key) { return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key)); }

static const cJSON *find(const cJSON *list, const char *id) {
    const cJSON *o;
    cJSON_ArrayForEach(o, list)
        if (!strcmp(text_of(o, "id"), id)) return o;
    return NULL;
}

/* What somebody should know at once; how long binlogs are kept is retention.c's. */
static void tell_alarms(wr_pipeline *p, const cJSON *found) {
    static const struct { const char *id; wr_alarm_kind kind; wr_alarm_severity severity; } of[] = {
        {"other-server", WR_ALARM_SOURCE_IDENTITY, WR_ALARM_CRITICAL}, {"other-cluster", WR_ALARM_SOURCE_IDENTITY, WR_ALARM_WARNING},
        {"two-primaries", WR_ALARM_SOURCE_IDENTITY, WR_ALARM_CRITICAL}, {"purged", WR_ALARM_SOURCE_RETENTION, WR_ALARM_CRITICAL}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const cJSON *o = find(found, of[i].id);
        if (o) wr_alarm_hold(p->alarms, of[i].kind, of[i].severity, of[i].id, text_of(o, "what"), text_of(o, "cure"));
        else wr_alarm_clear(p->alarms, of[i].kind, of[i].id);
    }
}

/* Takes the findings over. */
static void show(wr_pipeline *p, cJSON *found, cJSON **before) {
    const cJSON *o;
    cJSON_ArrayForEach(o, found)
        if (!find(*before, text_of(o, "id"))) wr_log(WR_LOG_WARN, "source: %s: %s", text_of(o, "what"), text_of(o, "consequence"));
    char *text = cJSON_PrintUnformatted(found), *copy = text ? wr_strdup(text) : NULL;
    cJSON_free(text);
    pthread_mutex_lock(&p->lock_mu);
    wr_free(p->findings_json);
    p->findings_json = copy;
    pthread_mutex_unlock(&p->lock_mu);
    cJSON_Delete(*before);
    *before = found;
}

static bool pause_us(wr_pipeline *p, int64_t us) {
    struct timespec ts = wr_cond_until(us / 1000);
    pthread_mutex_lock(&p->lock_mu);
    while (!p->inspect_stop && pthread_cond_timedwait(&p->wake, &p->lock_mu, &ts) == 0) {}
    bool stop = p->inspect_stop;
    pthread_mutex_unlock(&p->lock_mu);
    return stop;
}

static void *inspect_main(void *arg) {
    wr_pipeline *p = arg;
    inspection x = {.p = p};
    cJSON *before = NULL;
    int64_t every_us = p->o.inspect_every_us ? p->o.inspect_every_us : INSPECT_EVERY_US;
    bool better = false;
    while (!pause_us(p, better && every_us > AGAIN_US ? AGAIN_US : every_us)) {
        wr_err err = WR_ERR_INIT;
        bool now = false;
        x.found = cJSON_CreateArray();
        if (look(&x, &now, &err) != WR_OK) wr_log(WR_LOG_DEBUG, "inspection: %s", err.msg);
        else tell_alarms(p, x.found);
        show(p, x.found, &before);
        if (better && now) {
            wr_log(WR_LOG_WARN, "going on at another server than %s", wr_source_address(p->source));
            wr_pipeline_move(p);
            break;
        }
        better = now;
    }
    cJSON_Delete(before);
    wr_map_free(x.odd_before, NULL);
    wr_pos_clear(&x.looked_at);
    return NULL;
}

wr_code wr_inspect_start(wr_pipeline *p, wr_err *err) {
    if (pthread_create(&p->inspect_thread, NULL, inspect_main, p) != 0) return wr_fail(err, WR_E_NOMEM, WR_RETRY_NO, "no thread for inspections");
    p->inspect_started = true;
    return WR_OK;
}

void wr_inspect_stop(wr_pipeline *p) { wr_pipeline_join(p, p->inspect_thread, &p->inspect_started, &p->inspect_stop); }

void wr_inspect_forget(wr_pipeline *p) {
    pthread_mutex_lock(&p->lock_mu);
    wr_free(p->findings_json);
    p->findings_json = NULL;
    pthread_mutex_unlock(&p->lock_mu);
}
