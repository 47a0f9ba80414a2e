/* The ledger as another process sees it. */
#include <stdio.h>
#include <string.h>
#include "store.h"
#include "weir/ledger.h"

typedef struct view {
    const wr_ledger_filter *f;
    const wr_ledger_look *look;
    wr_ledger_line line;
    char db[256], name[256];
    bool any;
    uint64_t delay[WR_POINTS];
} view;

static wr_code give_line(view *v, wr_err *err) {
    if (!v->any) return WR_OK;
    v->any = false;
    wr_ledger_line *l = &v->line;
    char full[600];
    snprintf(full, sizeof full, "%s.%s", v->db, v->name);
    if (v->f->table && strcmp(v->f->table, full)) return WR_OK;
    for (int i = 0; i < WR_POINTS; i++)
        if (l->rows[i]) l->delay_ms_mean[i] = (int64_t)(v->delay[i] / l->rows[i]);
    l->db = v->db, l->name = v->name;
    return v->look->line(v->look->ctx, l, err);
}

static wr_code take_row(void *ctx, const wr_ledger_row *r, wr_err *err) { /* table, db, name, minute, span, op, point, rows, delay, delay max */
    view *v = ctx;
    wr_ledger_line *l = &v->line;
    uint32_t table = (uint32_t)r->v[0];
    int64_t op = r->v[5], point = r->v[6];
    if (v->any && (l->table != table || l->minute != r->v[3] || l->span != r->v[4])) WR_TRY(give_line(v, err));
    if (!v->any) {
        *l = (wr_ledger_line){.table = table, .minute = r->v[3], .span = (int)r->v[4]};
        memset(v->delay, 0, sizeof v->delay);
        for (int i = 0; i < WR_POINTS; i++) l->delay_ms_max[i] = l->delay_ms_mean[i] = -1;
        snprintf(v->db, sizeof v->db, "%s", r->t[1] ? r->t[1] : "?");
        snprintf(v->name, sizeof v->name, "%s", r->t[2] ? r->t[2] : "?");
        v->any = true;
    }
    if (point < 0 || point >= WR_POINTS) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "ledger: point %lld", (long long)point);
    l->rows[point] += (uint64_t)r->v[7];
    if (point == WR_CAPTURED && op >= 1 && op <= 3) l->ops[op - 1] += (uint64_t)r->v[7];
    if (point == WR_PASSED) return WR_OK;
    v->delay[point] += (uint64_t)r->v[8];
    if (r->v[9] > l->delay_ms_max[point]) l->delay_ms_max[point] = r->v[9];
    return WR_OK;
}

static wr_code take_alarm(void *ctx, const wr_ledger_row *r, wr_err *err) {
    view *v = ctx;
    char id[WR_ALARM_ID];
    wr_ledger_alarm a = {.id = id, .minute = r->v[0], .first_us = r->v[1], .last_us = r->v[2], .hop = r->t[3], .table = r->t[4], .text = r->t[5], .acknowledged_us = r->v[6], .by = r->t[7], .why = r->t[8]};
    if (a.acknowledged_us && !v->f->acknowledged) return WR_OK;
    wr_ledger_alarm_id(a.hop, a.table, a.minute, id);
    return v->look->alarm(v->look->ctx, &a, err);
}

#define COLUMNS "table_id, op, minute, rows, delay_ms, delay_ms_max"
static const char lines[] =
    "SELECT r.table_id, n.db, n.name, r.minute, r.span, r.op, r.point, sum(r.rows), sum(r.delay_ms), max(r.delay_ms_max) FROM"
    " (SELECT point, span, " COLUMNS " FROM minute UNION ALL SELECT point, 1, " COLUMNS " FROM epoch_row UNION ALL SELECT point, 1, " COLUMNS " FROM commit_row) r"
    " LEFT JOIN name n ON n.table_id = r.table_id WHERE r.minute + r.span > ?1 AND r.minute < ?2"
    " GROUP BY r.table_id, r.minute, r.span, r.op, r.point ORDER BY n.db, n.name, r.table_id, r.minute, r.span";
#define ALARMS(columns) "SELECT minute, first_us, last_us, hop, subject, text, " columns " FROM alarm WHERE minute >= ?1 AND minute < ?2 ORDER BY first_us, hop, subject"

static wr_code look_at(wr_ledger_store *db, view *v, wr_ledger_totals *ret, wr_err *err) {
    int64_t range[2] = {v->f->from_minute, v->f->to_minute ? v->f->to_minute : INT64_MAX}, pending, unread, version;
    WR_TRY(wr_ledger_store_number(db, "PRAGMA user_version", &version, err)); /* no process has opened it for writing since 1 */
    WR_TRY(wr_ledger_store_each(db, lines, range, 2, take_row, v, err));
    WR_TRY(give_line(v, err));
    WR_TRY(wr_ledger_store_each(db, version > 1 ? ALARMS("acknowledged_us, acknowledged_by, why") : ALARMS("NULL, NULL, NULL"), range, 2, take_alarm, v, err));
    WR_TRY(wr_ledger_store_number(db, "SELECT coalesce(sum(rows), 0) FROM receipt_row", &pending, err));
    WR_TRY(wr_ledger_store_number(db, "SELECT value FROM meta WHERE key = 'unread'", &unread, err));
    *ret = (wr_ledger_totals){.pending = (uint64_t)pending, .unread = (uint64_t)unread};
    return WR_OK;
}

wr_code wr_ledger_view(const char *path, const wr_ledger_filter *f, const wr_ledger_look *look, wr_ledger_totals *ret_totals, wr_err *err) {
    wr_ledger_store *db;
    view v = {.f = f, .look = look};
    WR_TRY(wr_ledger_store_open(path, true, &db, err));
    wr_code rc = wr_ledger_store_begin_read(db, err); /* one moment */
    if (rc == WR_OK) rc = wr_ledger_store_end(db, look_at(db, &v, ret_totals, err), err);
    wr_ledger_store_close(db);
    return rc;
}
