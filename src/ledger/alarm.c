/* Alarms from outside the process that counts: raised by who compares, acknowledged by who has looked into them. SQLite keeps the writers apart. */
#include <stdio.h>
#include <string.h>
#include "store.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

void wr_ledger_alarm_id(const char *hop, const char *subject, int64_t minute, char ret_id[WR_ALARM_ID]) {
    char text[1200];
    int n = snprintf(text, sizeof text, "%.200s\n%.900s\n%lld", hop, subject, (long long)minute);
    snprintf(ret_id, WR_ALARM_ID, "%08x", (unsigned)(wr_hash64(text, (size_t)n, 0) >> 32));
}

/* For writing. A new one is begun by the process that counts. */
static wr_code open_existing(const char *path, wr_ledger_store **ret, wr_err *err) {
    WR_TRY(wr_ledger_store_open(path, true, ret, err));
    wr_ledger_store_close(*ret);
    return wr_ledger_store_open(path, false, ret, err);
}

typedef struct open_alarm { const char *hop, *subject; int64_t minute; } open_alarm;

static wr_code find_open(void *ctx, const wr_ledger_row *r, wr_err *err) {
    (void)err;
    open_alarm *a = ctx;
    if (r->t[1] && r->t[2] && !strcmp(r->t[1], a->hop) && !strcmp(r->t[2], a->subject)) a->minute = r->v[0];
    return WR_OK;
}

wr_code wr_ledger_raise_in(const char *path, const char *hop, const char *subject, int64_t minute, const char *text, wr_err *err) {
    wr_ledger_store *db;
    int64_t now = wr_now_us();
    open_alarm a = {hop, subject, minute};
    WR_TRY(open_existing(path, &db, err));
    wr_code rc = wr_ledger_store_each(db, "SELECT minute, hop, subject FROM alarm WHERE acknowledged_us IS NULL", NULL, 0, find_open, &a, err);
    if (rc == WR_OK) rc = wr_ledger_store_run(db, LQ_ALARM, (int64_t[]){a.minute, now, now}, 3, (const char *[]){hop, subject, text}, 3, err);
    wr_ledger_store_close(db);
    return rc;
}

/* ------------------------------------------------------------------ acknowledging */
typedef struct chosen { int64_t minute; char *hop, *subject; } chosen;
typedef struct choice { const char *which; chosen *list; int n; } choice;

static void choice_clear(choice *c) {
    for (int i = 0; i < c->n; i++) wr_free(c->list[i].hop), wr_free(c->list[i].subject);
    wr_free(c->list);
}

static bool is_meant(const char *which, const char *hop, const char *subject, int64_t minute) {
    char id[WR_ALARM_ID];
    wr_ledger_alarm_id(hop, subject, minute, id);
    return !strcmp(which, "all") || !strcmp(which, id) || !strcmp(which, hop) || !strcmp(which, subject);
}

static wr_code choose(void *ctx, const wr_ledger_row *r, wr_err *err) { /* minute, hop, subject */
    choice *c = ctx;
    if (!r->t[1] || !r->t[2] || !is_meant(c->which, r->t[1], r->t[2], r->v[0])) return WR_OK;
    chosen *list = wr_realloc(c->list, ((size_t)c->n + 1) * sizeof *list);
    if (!list) return wr_nomem(err, "alarms", sizeof *list);
    c->list = list;
    list[c->n++] = (chosen){r->v[0], wr_strdup(r->t[1]), wr_strdup(r->t[2])};
    return list[c->n - 1].hop && list[c->n - 1].subject ? WR_OK : wr_nomem(err, "alarms", 64);
}

static wr_code acknowledge(wr_ledger_store *db, choice *c, const char *by, const char *why, wr_err *err) {
    int64_t now = wr_now_us();
    WR_TRY(wr_ledger_store_each(db, "SELECT minute, hop, subject FROM alarm WHERE acknowledged_us IS NULL", NULL, 0, choose, c, err));
    for (int i = 0; i < c->n; i++) WR_TRY(wr_ledger_store_run(db, LQ_ACKNOWLEDGE, (int64_t[]){now, c->list[i].minute}, 2, (const char *[]){by, why, c->list[i].hop, c->list[i].subject}, 4, err));
    return WR_OK;
}

wr_code wr_ledger_acknowledge(const char *path, const char *which, const char *by, const char *why, int *ret_n, wr_err *err) {
    wr_ledger_store *db;
    WR_CLEANUP(choice_clear) choice c = {.which = which};
    WR_TRY(open_existing(path, &db, err));
    wr_code rc = wr_ledger_store_begin(db, err);
    if (rc == WR_OK) rc = wr_ledger_store_end(db, acknowledge(db, &c, by, why, err), err);
    wr_ledger_store_close(db);
    if (rc == WR_OK) *ret_n = c.n;
    return rc;
}
