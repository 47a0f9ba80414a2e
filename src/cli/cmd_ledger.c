/* weir ledger: what was counted where, and what did not fit. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "weir/alarm.h"
#include "json.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/io.h"
#include "weir/ledger.h"

#define MINUTE_US INT64_C(60000000)
#define HEAT_COLUMNS 60
static const char *const points[WR_POINTS] = {"captured", "queued", "consumed", "passed", "written"};

typedef enum form { FORM_TEXT, FORM_JSON, FORM_PROMETHEUS } form;

/* Of one table, over the whole range. */
typedef struct total {
    char name[600];
    uint64_t rows[WR_POINTS], ops[3];
    int64_t last_minute, delay_ms_max[WR_POINTS];
    double delay_ms[WR_POINTS];             /* of all rows together */
    double heat_want[HEAT_COLUMNS], heat_have[HEAT_COLUMNS];
} total;

typedef struct report {
    form form;
    const char *pipeline, *home;
    bool by_minute, colour;
    int64_t from, to;                       /* minutes of the heat map */
    total *totals; int n;
    cJSON *alarms;                          /* texts of FORM_TEXT and objects of FORM_JSON */
    int nalarms;
} report;

/* ------------------------------------------------------------------ gathering */
static void minute_text(int64_t minute, char buf[32]) { wr_iso_time(minute * MINUTE_US, buf)[16] = 0; }

static uint64_t accounted(const uint64_t rows[WR_POINTS]) { return rows[WR_WRITTEN] + rows[WR_PASSED]; }
/* What was captured in the last second may not be in the file yet, although it is in the lake. */
static double percent(const uint64_t rows[WR_POINTS]) { return accounted(rows) < rows[WR_CAPTURED] ? 100.0 * (double)accounted(rows) / (double)rows[WR_CAPTURED] : 100; }

static cJSON *line_json(const wr_ledger_line *l) {
    char iso[32], full[600];
    cJSON *o = cJSON_CreateObject(), *d = NULL;
    snprintf(full, sizeof full, "%s.%s", l->db, l->name);
    cJSON_AddStringToObject(o, "table", full);
    cJSON_AddStringToObject(o, "minute", wr_iso_time(l->minute * MINUTE_US, iso));
    cJSON_AddNumberToObject(o, "minutes", l->span);
    for (int i = 0; i < WR_POINTS; i++) cJSON_AddNumberToObject(o, points[i], (double)l->rows[i]);
    cJSON_AddNumberToObject(o, "inserts", (double)l->ops[0]), cJSON_AddNumberToObject(o, "updates", (double)l->ops[1]), cJSON_AddNumberToObject(o, "deletes", (double)l->ops[2]);
    d = cJSON_AddObjectToObject(o, "delay_ms");
    for (int i = 0; i < WR_POINTS; i++) {
        if (i == WR_PASSED || l->delay_ms_max[i] < 0) continue;
        cJSON *p = cJSON_AddObjectToObject(d, points[i]);
        cJSON_AddNumberToObject(p, "mean", (double)l->delay_ms_mean[i]), cJSON_AddNumberToObject(p, "max", (double)l->delay_ms_max[i]);
    }
    return o;
}

static void print_minute(const wr_ledger_line *l) {
    char m[32], w[32] = "-";
    minute_text(l->minute, m);
    if (l->delay_ms_max[WR_WRITTEN] >= 0) snprintf(w, sizeof w, "%.1f s", (double)l->delay_ms_max[WR_WRITTEN] / 1000);
    printf("%-16s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %8.2f %% %9s%s\n", m, l->rows[WR_CAPTURED], l->rows[WR_QUEUED], l->rows[WR_CONSUMED], l->rows[WR_PASSED], l->rows[WR_WRITTEN], percent(l->rows), w,
           l->span == 1 ? "" : l->span == 60 ? "  (hour)" : "  (day)");
}

static wr_code total_of(report *r, const wr_ledger_line *l, total **ret, wr_err *err) {
    char full[600];
    snprintf(full, sizeof full, "%s.%s", l->db, l->name);
    if (!r->n || strcmp(r->totals[r->n - 1].name, full)) {
        total *more = wr_realloc(r->totals, ((size_t)r->n + 1) * sizeof *more);
        if (!more) return wr_nomem(err, "ledger", ((size_t)r->n + 1) * sizeof *more);
        r->totals = more;
        memset(&more[r->n], 0, sizeof *more);
        snprintf(more[r->n].name, sizeof more[r->n].name, "%s", full);
        for (int i = 0; i < WR_POINTS; i++) more[r->n].delay_ms_max[i] = -1;
        r->n++;
    }
    *ret = &r->totals[r->n - 1];
    return WR_OK;
}

static wr_code on_line(void *ctx, const wr_ledger_line *l, wr_err *err) {
    report *r = ctx;
    total *t;
    if (r->form == FORM_JSON) return wr_cli_json_print(line_json(l)), WR_OK;
    if (r->by_minute && r->form == FORM_TEXT) print_minute(l);
    WR_TRY(total_of(r, l, &t, err));
    for (int i = 0; i < WR_POINTS; i++) {
        t->rows[i] += l->rows[i];
        if (l->delay_ms_max[i] > t->delay_ms_max[i]) t->delay_ms_max[i] = l->delay_ms_max[i];
        if (l->delay_ms_mean[i] > 0) t->delay_ms[i] += (double)l->delay_ms_mean[i] * (double)l->rows[i];
    }
    for (int i = 0; i < 3; i++) t->ops[i] += l->ops[i];
    if (l->minute > t->last_minute) t->last_minute = l->minute;
    int64_t width = (r->to - r->from + HEAT_COLUMNS - 1) / HEAT_COLUMNS, at = width > 0 ? (l->minute - r->from) / width : -1;
    if (at >= 0 && at < HEAT_COLUMNS) t->heat_want[at] += (double)l->rows[WR_CAPTURED], t->heat_have[at] += (double)accounted(l->rows);
    return WR_OK;
}

static wr_code on_alarm(void *ctx, const wr_ledger_alarm *a, wr_err *err) {
    (void)err;
    report *r = ctx;
    char iso[32], m[32];
    if (!a->acknowledged_us) r->nalarms++;
    minute_text(a->minute, m);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "alarm", a->hop);
    cJSON_AddStringToObject(o, "id", a->id);
    cJSON_AddStringToObject(o, "table", a->table);
    cJSON_AddStringToObject(o, "minute", m);
    cJSON_AddStringToObject(o, "text", a->text);
    cJSON_AddStringToObject(o, "first", wr_iso_time(a->first_us, iso));
    cJSON_AddStringToObject(o, "last", wr_iso_time(a->last_us, iso));
    if (a->acknowledged_us) {
        cJSON_AddStringToObject(o, "acknowledged", wr_iso_time(a->acknowledged_us, iso));
        cJSON_AddStringToObject(o, "acknowledged_by", a->by ? a->by : "?");
        if (a->why) cJSON_AddStringToObject(o, "why", a->why);
    }
    cJSON_AddItemToArray(r->alarms, o);
    return WR_OK;
}

/* ------------------------------------------------------------------ printing */
static const char *seconds(double ms, char buf[16]) {
    if (ms < 0) return "-";
    snprintf(buf, 16, "%.1f s", ms / 1000);
    return buf;
}

static void print_totals(const report *r) {
    char a[16], b[16], m[32];
    printf("%9s %9s %9s %9s %9s %10s %16s  %-16s  %s\n", "CAPTURED", "QUEUED", "CONSUMED", "PASSED", "WRITTEN", "COMPLETE", "DELAY mean, max", "LAST CHANGE", "TABLE");
    for (int i = 0; i < r->n; i++) {
        const total *t = &r->totals[i];
        char delay[40];
        minute_text(t->last_minute, m);
        snprintf(delay, sizeof delay, "%s, %s", seconds(t->rows[WR_WRITTEN] ? t->delay_ms[WR_WRITTEN] / (double)t->rows[WR_WRITTEN] : -1, a), seconds((double)t->delay_ms_max[WR_WRITTEN], b));
        printf("%9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %8.2f %% %16s  %-16s  %s\n", t->rows[WR_CAPTURED], t->rows[WR_QUEUED], t->rows[WR_CONSUMED], t->rows[WR_PASSED], t->rows[WR_WRITTEN],
               percent(t->rows), delay, m, t->name);
    }
}

/* One line a table, one mark for each part of the range: nothing changed, all of it is in the lake, some of it is not. */
static void print_heat(const report *r) {
    char a[32], b[32];
    minute_text(r->from, a), minute_text(r->to, b);
    printf("\n%s%*s\n", a, HEAT_COLUMNS - 16 + 1, b);
    for (int i = 0; i < r->n; i++) {
        const total *t = &r->totals[i];
        for (int k = 0; k < HEAT_COLUMNS; k++) {
            double want = t->heat_want[k], have = t->heat_have[k];
            const char *mark = want == 0 ? "." : have >= want ? "#" : have > 0 ? "+" : "-";
            if (r->colour && want) printf("\033[%dm%s\033[0m", have >= want ? 32 : have > 0 ? 33 : 31, mark);
            else fputs(mark, stdout);
        }
        printf("  %s\n", t->name);
    }
    printf("# all written and read back   + some of it   - none yet   . no change\n");
}

/* Whether anything moves: an idle source is told from a blocked one. */
static void print_state(const wr_status_file *s, const cJSON *o) {
    const cJSON *src = cJSON_GetObjectItemCaseSensitive(o, "source");
    const char *packet = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(src, "last_packet")), *event = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(src, "last_event"));
    const cJSON *lag = cJSON_GetObjectItemCaseSensitive(o, "lag_transactions");
    double waiting = cJSON_IsNumber(lag) ? lag->valuedouble : 0;
    if (!s->running) printf("sync        none is running (%s)\n", s->state);
    else if (!strcmp(s->state, "reconnecting")) printf("source      cannot be reached: %s\n", s->error);
    else printf("source      %s; answered last at %.19s, its newest event is of %.19s\n", waiting == 0 ? "idle" : "moves", packet ? packet : "-", event ? event : "-");
    printf("queue       %.0f transactions wait for the next commit\n", waiting);
}

static void escape_label(const char *s, wr_buf *b) {
    for (; *s; s++) {
        if (*s == '\\' || *s == '"') wr_buf_u8(b, '\\'), wr_buf_u8(b, (uint8_t)*s);
        else if (*s == '\n') wr_buf_put(b, "\\n", 2);
        else wr_buf_u8(b, (uint8_t)*s);
    }
}

static void print_prometheus_alarms(const char *pipeline, const char *home) {
    wr_alarm_list l;
    wr_err err = WR_ERR_INIT;
    if (wr_alarms_read(home, &l, &err) != WR_OK) {
        wr_cli_fail(&err);
        return;
    }
    printf("# HELP weir_alarm Alarms that have not recovered; 1 = open, 0 = acknowledged.\n# TYPE weir_alarm gauge\n");
    for (int i = 0; i < l.n; i++) {
        WR_AUTO_BUF wr_buf subject = WR_BUF_INIT;
        const wr_alarm *a = &l.list[i];
        escape_label(a->subject, &subject);
        const char *s = wr_buf_cstr(&subject);
        if (s && a->state != WR_ALARM_RECOVERED) printf("weir_alarm{pipeline=\"%s\",kind=\"%s\",subject=\"%s\",severity=\"%s\"} %d\n", pipeline, a->kind, s, wr_alarm_severity_name(a->severity), a->state == WR_ALARM_OPEN);
    }
    printf("# HELP weir_notices_undelivered Notices of alarms that wait for who is to be told.\n# TYPE weir_notices_undelivered gauge\nweir_notices_undelivered{pipeline=\"%s\"} %d\n", pipeline, l.undelivered);
    wr_alarm_list_clear(&l);
}

static void print_prometheus(const report *r, const wr_ledger_totals *totals) {
    WR_AUTO_BUF wr_buf pipeline = WR_BUF_INIT;
    escape_label(r->pipeline, &pipeline);
    const char *p = wr_buf_cstr(&pipeline);
    if (!p) return;
    printf("# HELP weir_ledger_changes Row changes counted at a point, within the range asked for.\n# TYPE weir_ledger_changes gauge\n");
    for (int i = 0; i < r->n; i++) {
        WR_AUTO_BUF wr_buf name = WR_BUF_INIT;
        escape_label(r->totals[i].name, &name);
        const char *t = wr_buf_cstr(&name);
        for (int k = 0; t && k < WR_POINTS; k++) printf("weir_ledger_changes{pipeline=\"%s\",table=\"%s\",point=\"%s\"} %" PRIu64 "\n", p, t, points[k], r->totals[i].rows[k]);
    }
    printf("# HELP weir_ledger_delay_seconds_max Longest time from event to point.\n# TYPE weir_ledger_delay_seconds_max gauge\n");
    for (int i = 0; i < r->n; i++) {
        WR_AUTO_BUF wr_buf name = WR_BUF_INIT;
        escape_label(r->totals[i].name, &name);
        const char *t = wr_buf_cstr(&name);
        for (int k = 0; t && k < WR_POINTS; k++)
            if (k != WR_PASSED && r->totals[i].delay_ms_max[k] >= 0) printf("weir_ledger_delay_seconds_max{pipeline=\"%s\",table=\"%s\",point=\"%s\"} %.3f\n", p, t, points[k], (double)r->totals[i].delay_ms_max[k] / 1000);
    }
    printf("# HELP weir_ledger_alarms Alarms within the range.\n# TYPE weir_ledger_alarms gauge\nweir_ledger_alarms{pipeline=\"%s\"} %d\n", p, r->nalarms);
    printf("# HELP weir_ledger_pending_changes Changes in commits that are still to be read back.\n# TYPE weir_ledger_pending_changes gauge\nweir_ledger_pending_changes{pipeline=\"%s\"} %" PRIu64 "\n", p, totals->pending);
    printf("# HELP weir_ledger_unread_changes Changes whose files had left before they were read back.\n# TYPE weir_ledger_unread_changes gauge\nweir_ledger_unread_changes{pipeline=\"%s\"} %" PRIu64 "\n", p, totals->unread);
    print_prometheus_alarms(p, r->home);
}

static void print_alarms(const report *r) {
    printf("\nalarms      %s\n", r->nalarms ? "" : "none");
    const cJSON *a;
    cJSON_ArrayForEach(a, r->alarms) {
        printf("  %s  %s  %s  %s: %s\n", wr_cli_json_text(a, "id"), wr_cli_json_text(a, "minute"), wr_cli_json_text(a, "alarm"), wr_cli_json_text(a, "table"), wr_cli_json_text(a, "text"));
        const char *why = wr_cli_json_text(a, "why");
        if (cJSON_HasObjectItem(a, "acknowledged")) printf("            acknowledged %.19s by %s%s%s\n", wr_cli_json_text(a, "acknowledged"), wr_cli_json_text(a, "acknowledged_by"), *why ? ": " : "", why);
    }
    if (r->nalarms) printf("when they have been looked into: weir ledger -c FILE --acknowledge ID --why TEXT\n");
}

static void print_text(const report *r, const wr_pipeline_options *o, const wr_ledger_totals *totals) {
    wr_status_file s = {0};
    wr_err e = WR_ERR_INIT;
    if (r->by_minute) putchar('\n');
    if (r->n) print_totals(r), print_heat(r), putchar('\n');
    else printf("no row was changed in this range\n\n");
    if (wr_status_read(o->home, &s, &e) == WR_OK) {
        cJSON *j = cJSON_Parse(s.json);
        print_state(&s, j);
        cJSON_Delete(j);
    }
    wr_status_clear(&s);
    printf("read back   %" PRIu64 " changes are still to be read back", totals->pending);
    if (totals->unread) printf("; of %" PRIu64 " the files had left before that (expiry, or a process that died)", totals->unread);
    print_alarms(r);
}

/* ------------------------------------------------------------------ the range */
static wr_code look(const wr_args *a, const wr_pipeline_options *o, report *r, wr_ledger_totals *totals, wr_err *err) {
    wr_ledger_filter f = {.table = a->nwords ? a->words[0] : NULL, .acknowledged = a->all};
    if (a->from) WR_TRY(wr_cli_minute("--from", a->from, &f.from_minute, err));
    if (a->to) WR_TRY(wr_cli_minute("--to", a->to, &f.to_minute, err));
    r->to = f.to_minute ? f.to_minute : wr_now_us() / MINUTE_US + 1;
    r->from = a->from ? f.from_minute : r->to - HEAT_COLUMNS;
    if (r->from >= r->to) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--from is not before --to");
    WR_AUTO char *path = wr_path_join(o->home, "ledger.db");
    if (!path) return wr_nomem(err, "path", 256);
    if (r->by_minute && r->form == FORM_TEXT) printf("%-16s %9s %9s %9s %9s %9s %10s %9s\n", "MINUTE (UTC)", "CAPTURED", "QUEUED", "CONSUMED", "PASSED", "WRITTEN", "COMPLETE", "MAX DELAY");
    const wr_ledger_look l = {r, on_line, on_alarm};
    wr_code rc = wr_ledger_view(path, &f, &l, totals, err);
    if (rc == WR_E_NOTFOUND) wr_err_cure(err, "start the pipeline: weir sync -c FILE");
    return rc;
}

static wr_code acknowledge(const wr_args *a, const wr_pipeline_options *o, wr_err *err) {
    char who[512];
    int n = 0;
    WR_AUTO char *path = wr_path_join(o->home, "ledger.db");
    if (!path) return wr_nomem(err, "path", 256);
    WR_TRY(wr_ledger_acknowledge(path, a->acknowledge, wr_pipeline_who(who), a->why, &n, err));
    if (!n) {
        wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "no open alarm has the id, table or kind '%s'", a->acknowledge);
        return wr_err_cure(err, "weir ledger lists them");
    }
    printf("%d acknowledged\n", n);
    return WR_OK;
}

int wr_cmd_ledger(const wr_args *a) {
    wr_err err = WR_ERR_INIT;
    wr_config *c;
    if (a->acknowledge && (a->json || a->prometheus || a->nwords || a->from || a->to || a->all)) wr_fail(&err, WR_E_INVAL, WR_RETRY_NO, "--acknowledge goes with --why and nothing else");
    else if (a->why && !a->acknowledge) wr_fail(&err, WR_E_INVAL, WR_RETRY_NO, "--why goes with --acknowledge");
    else if (a->json && a->prometheus) wr_fail(&err, WR_E_INVAL, WR_RETRY_NO, "--json or --prometheus, not both");
    if (err.code || wr_config_load(a->config, WR_NEED_NOTHING, &c, &err) != WR_OK) return wr_cli_fail(&err);
    const wr_pipeline_options *o = wr_config_options(c);
    if (a->acknowledge) {
        wr_code rc = acknowledge(a, o, &err);
        wr_config_free(c);
        return rc == WR_OK ? EXIT_FINE : wr_cli_fail(&err);
    }
    report r = {.form = a->json ? FORM_JSON : a->prometheus ? FORM_PROMETHEUS : FORM_TEXT, .pipeline = o->name, .home = o->home, .by_minute = a->nwords, .colour = wr_cli_colour(STDOUT_FILENO), .alarms = cJSON_CreateArray()};
    wr_ledger_totals totals = {0};
    int ret = EXIT_FINE;
    if (look(a, o, &r, &totals, &err) != WR_OK) ret = wr_cli_fail(&err);
    else {
        if (r.form == FORM_PROMETHEUS) print_prometheus(&r, &totals);
        else if (r.form == FORM_TEXT) print_text(&r, o, &totals);
        else {
            for (cJSON *x; (x = cJSON_DetachItemFromArray(r.alarms, 0));) wr_cli_json_print(x);
            cJSON *t = cJSON_CreateObject();
            cJSON_AddNumberToObject(t, "alarms", r.nalarms), cJSON_AddNumberToObject(t, "pending", (double)totals.pending), cJSON_AddNumberToObject(t, "unread", (double)totals.unread);
            wr_cli_json_print(t);
        }
        if (r.nalarms) ret = EXIT_FAILED;
    }
    cJSON_Delete(r.alarms);
    wr_free(r.totals);
    wr_config_free(c);
    return ret;
}
