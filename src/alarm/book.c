#include "book.h"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include "weir/base/mem.h"

#define KEPT 200           /* records of alarms that have recovered */
#define NOTICES_MAX 1000
#define PAUSE_MAX_S 300

const char *wr_event_name(wr_event e) { return (const char *const[]){"opened", "worsened", "escalated", "recovered", "test"}[e]; }

void wr_book_free(wr_book *b) {
    wr_free(b->alarms), wr_free(b->notices);
    b->alarms = NULL, b->notices = NULL, b->n = b->nnotices = 0;
}

/* Cuts at a character's beginning. */
static void copy(char *to, size_t size, const char *from) {
    size_t n = strlen(from);
    if (n >= size)
        for (n = size - 1; n && ((unsigned char)from[n] & 0xc0) == 0x80;) n--;
    memcpy(to, from, n);
    to[n] = 0;
}

/* ------------------------------------------------------------------ notices */
static void drop_notice(wr_book *b, int i) {
    memmove(&b->notices[i], &b->notices[i + 1], (size_t)(b->nnotices - i - 1) * sizeof *b->notices);
    b->nnotices--;
    b->dirty = true;
}

/* The level of a sink: how many different times lie before its own. */
static int level_of(const wr_book *b, const wr_alarm_sink *s) {
    int level = 0;
    for (int i = 0; i < b->nsinks; i++) {
        bool first = b->sinks[i].after_us > 0 && b->sinks[i].after_us <= s->after_us;
        for (int k = 0; k < i && first; k++) first = b->sinks[k].after_us != b->sinks[i].after_us;
        level += first;
    }
    return level;
}

static void tell(wr_book *b, const wr_alarm *a, wr_event event, int from_level, int64_t now_us) {
    for (int i = 0; i < b->nsinks; i++) {
        const wr_alarm_sink *s = &b->sinks[i];
        int level = level_of(b, s);
        if (level < from_level || level > a->level || a->severity < s->min_severity) continue;
        if (b->nnotices >= NOTICES_MAX) drop_notice(b, 0), b->dropped++;
        wr_notice *more = wr_realloc(b->notices, ((size_t)b->nnotices + 1) * sizeof *more);
        if (!more) {
            b->dropped++;
            continue;
        }
        b->notices = more;
        wr_notice *n = &more[b->nnotices++];
        *n = (wr_notice){.id = ++b->last_notice, .alarm = a->id, .event = event, .level = level, .at_us = now_us};
        copy(n->sink, sizeof n->sink, s->name);
    }
    b->dirty = true;
}

static const wr_alarm_sink *sink_named(const wr_book *b, const char *name) {
    for (int i = 0; i < b->nsinks; i++)
        if (!strcmp(b->sinks[i].name, name)) return &b->sinks[i];
    return NULL;
}

static bool is_first_of_sink(const wr_book *b, int i) {
    for (int k = 0; k < i; k++)
        if (!strcmp(b->notices[k].sink, b->notices[i].sink)) return false;
    return true;
}

static const wr_alarm *alarm_with(const wr_book *b, uint64_t id) {
    for (int i = 0; i < b->n; i++)
        if (b->alarms[i].id == id) return &b->alarms[i];
    return NULL;
}

bool wr_book_due(const wr_book *b, uint64_t upto, int64_t mono_us, wr_notice *ret_notice, wr_alarm *ret_alarm) {
    int best = -1;
    for (int i = 0; i < b->nnotices; i++) /* who was tried longest ago: a sink that does not answer holds up no other */
        if (b->notices[i].id <= upto && b->notices[i].next_us <= mono_us && (best < 0 || b->notices[i].next_us < b->notices[best].next_us) && is_first_of_sink(b, i)) best = i;
    if (best < 0) return false;
    *ret_notice = b->notices[best];
    *ret_alarm = *alarm_with(b, ret_notice->alarm);
    return true;
}

void wr_book_delivered(wr_book *b, uint64_t notice) {
    for (int i = 0; i < b->nnotices; i++)
        if (b->notices[i].id == notice) return drop_notice(b, i);
}

void wr_book_refused(wr_book *b, uint64_t notice, const char *why, int64_t mono_us) {
    for (int i = 0; i < b->nnotices; i++) {
        wr_notice *n = &b->notices[i];
        if (n->id != notice) continue;
        int64_t pause_s = n->attempts < 8 ? INT64_C(1) << n->attempts : PAUSE_MAX_S;
        n->attempts++;
        n->next_us = mono_us + pause_s * 1000000;
        copy(n->error, sizeof n->error, why);
        b->counted = true;
    }
}

/* ------------------------------------------------------------------ records */
static wr_alarm *open_alarm(wr_book *b, const char *kind, const char *subject) {
    for (int i = 0; i < b->n; i++)
        if (b->alarms[i].state != WR_ALARM_RECOVERED && !strcmp(b->alarms[i].kind, kind) && !strncmp(b->alarms[i].subject, subject, sizeof b->alarms[i].subject - 1)) return &b->alarms[i];
    return NULL;
}

static wr_alarm *new_alarm(wr_book *b, const char *kind, const char *subject, wr_alarm_severity severity, int64_t now_us) {
    wr_alarm *more = wr_realloc(b->alarms, ((size_t)b->n + 1) * sizeof *more);
    if (!more) return NULL;
    b->alarms = more;
    wr_alarm *a = &more[b->n++];
    *a = (wr_alarm){.id = ++b->last_id, .severity = severity, .first_us = now_us};
    copy(a->kind, sizeof a->kind, kind);
    copy(a->subject, sizeof a->subject, subject);
    return a;
}

bool wr_book_raise(wr_book *b, bool holds, const char *kind, wr_alarm_severity severity, const char *subject, const char *text, const char *cure, int64_t now_us) {
    wr_alarm *a = open_alarm(b, kind, subject);
    bool fresh = !a, worse = a && severity > a->severity;
    if (fresh && !(a = new_alarm(b, kind, subject, severity, now_us))) return false;
    a->count += fresh || a->quiet_us || !holds;
    a->last_us = now_us;
    a->quiet_us = 0;
    b->counted = true;
    if (!worse && severity < a->severity) return true; /* the text is that of the worst */
    copy(a->text, sizeof a->text, text);
    copy(a->cure, sizeof a->cure, cure);
    if (worse) a->severity = severity, a->state = WR_ALARM_OPEN, a->acknowledged_us = 0;
    if (fresh || worse) tell(b, a, fresh ? WR_EVENT_OPENED : WR_EVENT_WORSENED, 0, now_us);
    return true;
}

void wr_book_clear(wr_book *b, const char *kind, const char *subject, int64_t now_us) {
    wr_alarm *a = open_alarm(b, kind, subject);
    if (a && !a->quiet_us) a->quiet_us = now_us, b->dirty = true;
}

bool wr_book_acknowledge(wr_book *b, uint64_t id, int64_t now_us) {
    wr_alarm *a = (wr_alarm *)alarm_with(b, id);
    if (!a || a->state == WR_ALARM_RECOVERED) return false;
    if (a->state == WR_ALARM_OPEN) a->state = WR_ALARM_ACKNOWLEDGED, a->acknowledged_us = now_us, b->dirty = true;
    return true;
}

/* A clock that is set back or forth while this process runs makes no alarm younger or older. One from before is as old as the clock says. */
static void date(wr_alarm *a, int64_t now_us, int64_t mono_us) {
    if (!a->dated) a->began_us = mono_us - (now_us > a->first_us ? now_us - a->first_us : 0);
    a->dated = true;
}

static void escalate(wr_book *b, wr_alarm *a, int64_t now_us, int64_t mono_us) {
    int level = a->level;
    for (int i = 0; i < b->nsinks; i++) {
        int l = level_of(b, &b->sinks[i]);
        if (l > level && mono_us - a->began_us >= b->sinks[i].after_us) level = l;
    }
    if (level == a->level) return;
    int from = a->level + 1;
    a->level = level;
    tell(b, a, WR_EVENT_ESCALATED, from, now_us);
}

static void forget_old(wr_book *b) {
    int recovered = 0;
    for (int i = 0; i < b->n; i++) recovered += b->alarms[i].state == WR_ALARM_RECOVERED;
    for (int i = 0; i < b->n && recovered > KEPT; i++) {
        bool waits = b->alarms[i].state != WR_ALARM_RECOVERED;
        for (int k = 0; k < b->nnotices && !waits; k++) waits = b->notices[k].alarm == b->alarms[i].id;
        if (waits) continue;
        memmove(&b->alarms[i], &b->alarms[i + 1], (size_t)(b->n - i - 1) * sizeof *b->alarms);
        b->n--, i--, recovered--, b->dirty = true;
    }
}

void wr_book_tick(wr_book *b, int64_t now_us, int64_t mono_us) {
    for (int i = 0; i < b->n; i++) {
        wr_alarm *a = &b->alarms[i];
        if (a->state == WR_ALARM_RECOVERED) continue;
        date(a, now_us, mono_us);
        if (a->quiet_us > now_us) a->quiet_us = now_us; /* the clock was set back */
        if (a->quiet_us && now_us - a->quiet_us >= b->recovery_us) {
            a->state = WR_ALARM_RECOVERED, a->recovered_us = a->quiet_us;
            tell(b, a, WR_EVENT_RECOVERED, 0, now_us);
        } else if (a->state == WR_ALARM_OPEN && !a->quiet_us) escalate(b, a, now_us, mono_us);
    }
    forget_old(b);
}

void wr_book_failed_run(wr_book *b, int64_t now_us) {
    if (b->nfailures == WR_FAILURES_KEPT) memmove(b->failures, b->failures + 1, sizeof *b->failures * (size_t)--b->nfailures);
    b->failures[b->nfailures++] = now_us;
    b->dirty = true;
}

/* ------------------------------------------------------------------ as text: docs/formats/alarms.md */
#define FORMAT 1

static void add(cJSON *o, const char *key, int64_t v) { cJSON_AddNumberToObject(o, key, (double)v); }

static void add_alarm(cJSON *list, const wr_alarm *a) {
    cJSON *o = cJSON_CreateObject();
    add(o, "id", (int64_t)a->id), add(o, "severity", a->severity), add(o, "state", a->state), add(o, "level", a->level), add(o, "count", (int64_t)a->count);
    add(o, "first_us", a->first_us), add(o, "last_us", a->last_us), add(o, "quiet_us", a->quiet_us), add(o, "acknowledged_us", a->acknowledged_us), add(o, "recovered_us", a->recovered_us);
    cJSON_AddStringToObject(o, "kind", a->kind), cJSON_AddStringToObject(o, "subject", a->subject), cJSON_AddStringToObject(o, "text", a->text), cJSON_AddStringToObject(o, "cure", a->cure);
    cJSON_AddItemToArray(list, o);
}

static void add_notice(cJSON *list, const wr_notice *n) {
    cJSON *o = cJSON_CreateObject();
    add(o, "id", (int64_t)n->id), add(o, "alarm", (int64_t)n->alarm), add(o, "event", n->event), add(o, "level", n->level), add(o, "at_us", n->at_us), add(o, "attempts", n->attempts);
    cJSON_AddStringToObject(o, "sink", n->sink), cJSON_AddStringToObject(o, "error", n->error);
    cJSON_AddItemToArray(list, o);
}

char *wr_book_text(const wr_book *b) {
    cJSON *o = cJSON_CreateObject();
    add(o, "format", FORMAT), add(o, "last_id", (int64_t)b->last_id), add(o, "last_notice", (int64_t)b->last_notice), add(o, "dropped", (int64_t)b->dropped);
    cJSON_AddBoolToObject(o, "running", b->running);
    cJSON *failures = cJSON_AddArrayToObject(o, "failures_us"), *alarms = cJSON_AddArrayToObject(o, "alarms"), *notices = cJSON_AddArrayToObject(o, "notices");
    for (int i = 0; i < b->nfailures; i++) cJSON_AddItemToArray(failures, cJSON_CreateNumber((double)b->failures[i]));
    for (int i = 0; i < b->n; i++) add_alarm(alarms, &b->alarms[i]);
    for (int i = 0; i < b->nnotices; i++) add_notice(notices, &b->notices[i]);
    char *text = cJSON_PrintUnformatted(o), *own = text ? wr_strdup(text) : NULL;
    cJSON_free(text);
    cJSON_Delete(o);
    return own;
}

static int64_t number(const cJSON *o, const char *key) {
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble < 9e15 ? (int64_t)v->valuedouble : 0;
}
static int bounded(const cJSON *o, const char *key, int max) {
    int64_t v = number(o, key);
    return v <= max ? (int)v : max;
}
static void text_of(const cJSON *o, const char *key, char *to, size_t size) {
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    copy(to, size, s ? s : "");
}

static void take_alarm(const cJSON *o, wr_alarm *a) {
    *a = (wr_alarm){.id = (uint64_t)number(o, "id"), .severity = (wr_alarm_severity)bounded(o, "severity", WR_ALARM_CRITICAL), .state = (wr_alarm_state)bounded(o, "state", WR_ALARM_RECOVERED), .level = bounded(o, "level", 1000),
                    .count = (uint64_t)number(o, "count"), .first_us = number(o, "first_us"), .last_us = number(o, "last_us"), .quiet_us = number(o, "quiet_us"), .acknowledged_us = number(o, "acknowledged_us"), .recovered_us = number(o, "recovered_us")};
    text_of(o, "kind", a->kind, sizeof a->kind), text_of(o, "subject", a->subject, sizeof a->subject), text_of(o, "text", a->text, sizeof a->text), text_of(o, "cure", a->cure, sizeof a->cure);
}

static void take_notice(const cJSON *o, wr_notice *n) {
    *n = (wr_notice){.id = (uint64_t)number(o, "id"), .alarm = (uint64_t)number(o, "alarm"), .event = (wr_event)bounded(o, "event", WR_EVENT_TEST), .level = bounded(o, "level", 1000), .at_us = number(o, "at_us"), .attempts = bounded(o, "attempts", 1000000)};
    text_of(o, "sink", n->sink, sizeof n->sink), text_of(o, "error", n->error, sizeof n->error);
}

static wr_code take(wr_book *b, const cJSON *o, wr_err *err) {
    const cJSON *alarms = cJSON_GetObjectItemCaseSensitive(o, "alarms"), *notices = cJSON_GetObjectItemCaseSensitive(o, "notices"), *x;
    if (number(o, "format") != FORMAT || !cJSON_IsArray(alarms) || !cJSON_IsArray(notices)) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "not the alarms of a pipeline, format %d", FORMAT);
    b->last_id = (uint64_t)number(o, "last_id"), b->last_notice = (uint64_t)number(o, "last_notice"), b->dropped = (uint64_t)number(o, "dropped");
    b->running = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "running"));
    b->alarms = wr_calloc((size_t)cJSON_GetArraySize(alarms) + 1, sizeof *b->alarms);
    b->notices = wr_calloc((size_t)cJSON_GetArraySize(notices) + 1, sizeof *b->notices);
    if (!b->alarms || !b->notices) return wr_nomem(err, "alarms", 4096);
    cJSON_ArrayForEach(x, alarms) take_alarm(x, &b->alarms[b->n++]);
    cJSON_ArrayForEach(x, cJSON_GetObjectItemCaseSensitive(o, "failures_us"))
        if (cJSON_IsNumber(x) && b->nfailures < WR_FAILURES_KEPT) b->failures[b->nfailures++] = (int64_t)x->valuedouble;
    cJSON_ArrayForEach(x, notices) {
        wr_notice *n = &b->notices[b->nnotices];
        take_notice(x, n);
        /* a sink that is not configured any more takes none */
        if (alarm_with(b, n->alarm) && (!b->sinks || sink_named(b, n->sink))) b->nnotices++;
    }
    return WR_OK;
}

wr_code wr_book_parse(wr_book *b, const char *text, wr_err *err) {
    cJSON *o = cJSON_Parse(text);
    wr_code rc = o ? take(b, o, err) : wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "not JSON");
    cJSON_Delete(o);
    if (rc != WR_OK) wr_book_free(b);
    return rc;
}
