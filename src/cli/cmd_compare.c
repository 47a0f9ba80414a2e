/* weir compare */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "json.h"
#include "schedule.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/io.h"
#include "weir/ledger.h"

#define SHOWN_TEXT 20
#define SHOWN_HTML 1000
#define NAMED 100 /* tables in home/compared.json */
#define KEPT 100 /* reports in home/compare */

static void on_progress(void *ctx, const char *table, uint64_t rows, uint64_t estimated) {
    static int64_t next_us;
    if (wr_mono_us() < next_us) return;
    next_us = wr_mono_us() + 1000000;
    fprintf(stderr, "\r\033[K%s: %" PRIu64 " of about %" PRIu64 " rows", table, rows, estimated > rows ? estimated : rows);
    fflush(stderr);
}

static wr_code write_html(const wr_compare_report *r, const char *path, wr_err *err) {
    FILE *f = fopen(path, "w");
    bool ok = f && wr_report_html(r, f, SHOWN_HTML);
    if (f && fclose(f) != 0) ok = false;
    return ok ? WR_OK : wr_fail(err, WR_E_IO, WR_RETRY_NO, "the report cannot be written to %s", path);
}

typedef struct history { char *oldest; int n; } history;

static wr_code count_report(void *ctx, const char *name, wr_err *err) {
    history *h = ctx;
    size_t n = strlen(name);
    if (n < 5 || strcmp(name + n - 5, ".json")) return WR_OK;
    if (!h->n++ && !(h->oldest = wr_strdup(name))) return wr_nomem(err, "report", n);
    return WR_OK;
}

/* As a whole or not at all: weir repair takes the newest, and half a report would keep it from working. */
static wr_code put_report(const wr_compare_report *r, const char *path, wr_err *err) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    bool ok = f && wr_report_json(r, f);
    if (f && fclose(f) != 0) ok = false;
    wr_code rc = ok ? WR_OK : wr_nomem(err, "report", n);
    if (rc == WR_OK && WR_FAULT("compare.report")) rc = wr_fail(err, WR_E_IO, WR_RETRY_NO, "%s: fault compare.report", path);
    if (rc == WR_OK) rc = wr_file_put(path, wr_slice_of(text, n), err);
    free(text); /* the C library's */
    if (rc == WR_OK) (void)WR_FAULT("compare.reported"); /* for kill: the interrupted comparison is still on record */
    return rc;
}

/* home/compare/<time>.json; names sort by time. */
static wr_code keep(const wr_compare_report *r, const char *home, wr_err *err) {
    char iso[32];
    WR_AUTO char *dir = wr_path_join(home, "compare");
    wr_iso_time(r->began_us, iso);
    for (char *p = iso; *p; p++)
        if (*p == ':') *p = '-';
    WR_AUTO char *path = dir ? wr_asprintf("%s/%s-%d.json", dir, iso, (int)getpid()) : NULL;
    if (!path) return wr_nomem(err, "path", 256);
    WR_TRY(put_report(r, path, err));
    history h = {0};
    wr_code rc = wr_dir_list(dir, count_report, &h, err);
    WR_AUTO char *oldest = h.oldest && h.n > KEPT ? wr_path_join(dir, h.oldest) : NULL;
    wr_free(h.oldest);
    return rc == WR_OK && oldest ? wr_file_remove(oldest, err) : rc;
}

/* ------------------------------------------------------------------ going on after an interruption */
/* home/compare/unfinished: what was found equal so far, and with which options. */
typedef struct session {
    char *path, *options;
    const wr_compare *what;
    cJSON *doc;               /* of an interrupted run; what `done` points at */
    wr_compared *done; int ndone;
} session;

static void session_clear(session *s) {
    wr_free(s->path), wr_free(s->options), wr_free(s->done);
    cJSON_Delete(s->doc);
}

/* Ages are the user's; the times that they became stand beside. */
static wr_code session_open(session *s, const wr_args *a, const char *home, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    const char *const words[] = {a->level ? a->level : "content", a->method ? a->method : "rows", a->hash ? a->hash : "fast", a->columns, a->time_column, a->from, a->to};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) wr_buf_printf(&b, "%s%s", i ? " " : "", words[i] ? words[i] : "-");
    wr_buf_printf(&b, " %" PRId64 " %.9g", a->last_us, a->sample);
    a->has_seed ? wr_buf_printf(&b, " %" PRIu64, a->seed) : wr_buf_printf(&b, " -");
    for (int i = 0; i < a->nwords; i++) wr_buf_printf(&b, " %s", a->words[i]);
    WR_AUTO char *dir = wr_path_join(home, "compare");
    s->path = dir ? wr_path_join(dir, "unfinished") : NULL;
    s->options = wr_buf_cstr(&b) ? wr_strdup((char *)b.p) : NULL;
    if (!s->path || !s->options) return wr_nomem(err, "path", 256);
    return wr_file_exists(home) ? wr_mkdirs(dir, err) : WR_OK; /* the pipeline says what is missing */
}

static wr_code session_resume(session *s, wr_compare *w, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    if (!wr_file_exists(s->path)) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "there is no interrupted comparison: %s does not exist", s->path);
    WR_TRY(wr_file_get(s->path, 64u << 20, &b, err));
    if (!wr_buf_cstr(&b) || !(s->doc = cJSON_Parse((char *)b.p))) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "%s cannot be read", s->path);
    if (strcmp(wr_cli_json_text(s->doc, "options"), s->options)) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "the interrupted comparison had other options: '%s', not '%s'", wr_cli_json_text(s->doc, "options"), s->options);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(s->doc, "equal"), *o;
    w->since_us = strtoll(wr_cli_json_text(s->doc, "since_us"), NULL, 10), w->until_us = strtoll(wr_cli_json_text(s->doc, "until_us"), NULL, 10), w->seed = strtoull(wr_cli_json_text(s->doc, "seed"), NULL, 10);
    if (!(s->done = wr_calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *s->done))) return wr_nomem(err, "tables", 4096);
    cJSON_ArrayForEach(o, list)
        s->done[s->ndone++] = (wr_compared){.ns = wr_cli_json_text(o, "namespace"), .name = wr_cli_json_text(o, "name"), .position = wr_cli_json_text(o, "position"), .method = wr_cli_json_text(o, "method"), .source_rows = strtoull(wr_cli_json_text(o, "source_rows"), NULL, 10),
                                            .lake_rows = strtoull(wr_cli_json_text(o, "lake_rows"), NULL, 10), .offset = strtoull(wr_cli_json_text(o, "offset"), NULL, 10), .snapshot = strtoll(wr_cli_json_text(o, "snapshot"), NULL, 10)};
    w->done = s->done, w->ndone = s->ndone, w->resume = true;
    return WR_OK;
}

static void add_number(cJSON *o, const char *key, int64_t n) {
    char t[24];
    snprintf(t, sizeof t, "%" PRId64, n);
    cJSON_AddStringToObject(o, key, t); /* a JSON number has only 53 bits */
}

/* r: NULL = nothing is decided yet. What cannot be kept is no reason to end the comparison. */
static void on_checkpoint(void *ctx, const wr_compare_report *r) {
    const session *s = ctx;
    wr_err err = WR_ERR_INIT;
    cJSON *doc = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(doc, "equal");
    cJSON_AddStringToObject(doc, "options", s->options);
    add_number(doc, "since_us", s->what->since_us), add_number(doc, "until_us", s->what->until_us), add_number(doc, "seed", (int64_t)s->what->seed);
    for (int i = 0; r && i < r->ntables; i++) {
        const wr_table_report *t = &r->tables[i];
        if (t->verdict != WR_EQUAL) continue;
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "namespace", t->ns), cJSON_AddStringToObject(o, "name", t->name), cJSON_AddStringToObject(o, "position", t->position), cJSON_AddStringToObject(o, "method", t->method);
        add_number(o, "source_rows", (int64_t)t->rows.source_rows), add_number(o, "lake_rows", (int64_t)t->rows.lake_rows), add_number(o, "offset", (int64_t)t->offset), add_number(o, "snapshot", t->snapshot);
        cJSON_AddItemToArray(list, o);
    }
    char *text = cJSON_PrintUnformatted(doc);
    (void)WR_FAULT("compare.checkpoint"); /* for kill */
    if (text && wr_file_put(s->path, wr_slice_str(text), &err) != WR_OK) fprintf(stderr, "weir: %s\n", err.msg);
    cJSON_free(text);
    cJSON_Delete(doc);
}

/* ------------------------------------------------------------------ */
static wr_code understand_times(const wr_args *a, wr_compare *w, wr_err *err) {
    bool any = a->last_us >= 0 || a->from || a->to;
    int64_t minute;
    w->since_us = INT64_MIN, w->until_us = INT64_MAX;
    if (any != (a->time_column != NULL)) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--time-column and --last (or --from, --to) belong together");
    if (a->last_us >= 0 && a->from) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--last or --from, not both");
    w->time_column = a->time_column;
    if (a->last_us >= 0) w->since_us = wr_now_us() - a->last_us;
    if (a->from) {
        WR_TRY(wr_cli_minute("--from", a->from, &minute, err));
        w->since_us = minute * 60000000;
    }
    if (a->to) {
        WR_TRY(wr_cli_minute("--to", a->to, &minute, err));
        w->until_us = minute * 60000000;
    }
    return w->since_us < w->until_us ? WR_OK : wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--from is not before --to");
}

/* "a,b,c" into *ret_list, which points into *copy. */
static wr_code understand_columns(const char *text, char **ret_copy, const char ***ret_list, int *ret_n, wr_err *err) {
    int n = 1;
    for (const char *p = text; *p; p++) n += *p == ',';
    char *copy = wr_strdup(text), *save = NULL;
    const char **list = wr_calloc((size_t)n, sizeof *list);
    if (!copy || !list) return wr_free(copy), wr_free(list), wr_nomem(err, "columns", 64);
    n = 0;
    for (char *p = strtok_r(copy, ", ", &save); p; p = strtok_r(NULL, ", ", &save)) list[n++] = p;
    *ret_copy = copy, *ret_list = list, *ret_n = n;
    return n ? WR_OK : wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--columns takes names such as price,status, not '%s'", text);
}

/* What is compared of the rows, for the report; "" = all of all. */
static void filter_text(const wr_args *a, const wr_compare *w, char out[600]) {
    char iso[32];
    int n = 0;
    out[0] = 0;
    if (a->columns) n = snprintf(out, 600, "columns %.300s", a->columns);
    if (!a->time_column) return;
    n += snprintf(out + n, 600 - (size_t)n, "%s%.150s", n ? "; " : "", a->time_column);
    if (w->since_us > INT64_MIN) n += snprintf(out + n, 600 - (size_t)n, " since %s", wr_iso_time(w->since_us, iso));
    if (w->until_us < INT64_MAX) snprintf(out + n, 600 - (size_t)n, " before %s", wr_iso_time(w->until_us, iso));
}

static const char *const no_columns[1];

static wr_code understand(const wr_args *a, wr_compare *w, wr_err *err) {
    if (a->method && !strcmp(a->method, "pushed")) w->method = WR_COMPARE_PUSHED;
    else if (a->method && strcmp(a->method, "rows")) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--method takes rows or pushed, not '%s'", a->method);
    if (a->hash && !strcmp(a->hash, "md5")) w->hash = WR_COMPARE_MD5;
    else if (a->hash && strcmp(a->hash, "fast")) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--hash takes fast or md5, not '%s'", a->hash);
    if (a->level && !strcmp(a->level, "structure")) w->level = WR_COMPARE_STRUCTURE;
    else if (a->level && !strcmp(a->level, "counts")) w->level = WR_COMPARE_COUNTS;
    else if (a->level && !strcmp(a->level, "keys")) w->columns = no_columns;
    else if (a->level && strcmp(a->level, "content")) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--level takes structure, counts, keys or content, not '%s'", a->level);
    if (a->columns && a->level && strcmp(a->level, "content")) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--columns goes with --level content");
    w->sample = a->sample;
    w->seed = a->has_seed ? a->seed : (uint64_t)wr_now_us() % 1000000;
    w->parallel = a->parallel;
    return understand_times(a, w, err);
}

/* home/compared.json: what the last comparison found, for weir status. error: it failed. */
static wr_code note_verdict(const wr_compare_report *r, const char *error, const char *home, wr_err *err) {
    char iso[32];
    int n[WR_NOT_COMPARED + 1] = {0};
    cJSON *o = cJSON_CreateObject(), *different = cJSON_CreateArray();
    for (int i = 0; r && i < r->ntables; i++) {
        WR_AUTO char *full = wr_asprintf("%s.%s", r->tables[i].ns, r->tables[i].name);
        n[r->tables[i].verdict]++;
        if (full && r->tables[i].verdict == WR_DIFFERENT && cJSON_GetArraySize(different) < NAMED) cJSON_AddItemToArray(different, cJSON_CreateString(full));
    }
    cJSON_AddNumberToObject(o, "format", 1);
    cJSON_AddStringToObject(o, "at", wr_iso_time(r ? r->began_us : wr_now_us(), iso));
    cJSON_AddStringToObject(o, "verdict", r ? wr_verdict_name(wr_compare_verdict(r)) : "FAILED");
    if (error) cJSON_AddStringToObject(o, "error", error);
    if (r) cJSON_AddStringToObject(o, "level", r->level);
    if (r && r->filter) cJSON_AddStringToObject(o, "filter", r->filter);
    for (int v = WR_EQUAL; r && v <= WR_NOT_COMPARED; v++) {
        static const char *const keys[] = {NULL, "equal", "different", "undecided", "not_compared"};
        cJSON_AddNumberToObject(o, keys[v], n[v]);
    }
    cJSON_AddItemToObject(o, "tables", different);
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    WR_AUTO char *path = wr_path_join(home, "compared.json");
    wr_code rc = text && path ? wr_file_put(path, wr_slice_str(text), err) : wr_nomem(err, "report", 4096);
    cJSON_free(text);
    return rc;
}

#define HOP "compared"

static wr_code raise_alarms(const wr_compare_report *r, const char *home, wr_err *err) {
    WR_AUTO char *path = wr_path_join(home, "ledger.db");
    if (!path) return wr_nomem(err, "path", 256);
    for (int i = 0; i < r->ntables; i++) {
        const wr_table_report *t = &r->tables[i];
        WR_AUTO char *full = wr_asprintf("%s.%s", t->ns, t->name);
        if (!full) return wr_nomem(err, "table name", 64);
        if (t->verdict == WR_DIFFERENT) WR_TRY(wr_ledger_raise_in(path, HOP, full, r->began_us / 60000000, t->reason ? t->reason : "it differs", err));
    }
    return WR_OK;
}

/* Nobody looks: what went wrong must be found later. */
static void note_failure(const wr_config *c, const wr_err *why) {
    const char *home = wr_config_options(c)->home;
    wr_err err = WR_ERR_INIT;
    WR_AUTO char *path = wr_path_join(home, "ledger.db"), *text = wr_asprintf("the comparison failed: %s", why->msg);
    if (!path || !text || !wr_file_exists(home)) return;
    if (note_verdict(NULL, why->msg, home, &err) != WR_OK || wr_ledger_raise_in(path, HOP, "every table", wr_now_us() / 60000000, text, &err) != WR_OK) fprintf(stderr, "weir: %s\n", err.msg);
}

static wr_code say(const wr_args *a, const wr_compare_report *r, const char *home, wr_err *err) {
    bool ok = a->json ? wr_report_json(r, stdout) : wr_report_text(r, stdout, SHOWN_TEXT, wr_cli_colour(1));
    if (!ok) return wr_fail(err, WR_E_IO, WR_RETRY_NO, "the report cannot be written");
    if (a->html) WR_TRY(write_html(r, a->html, err));
    WR_TRY(keep(r, home, err));
    if (a->alarm) WR_TRY(raise_alarms(r, home, err));
    return note_verdict(r, NULL, home, err);
}

static wr_code compare(const wr_args *a, const wr_config *c, wr_verdict *ret, wr_err *err) {
    WR_CLEANUP(session_clear) session s = {0};
    wr_pipeline_options o = *wr_config_options(c);
    wr_compare w = {.tables = a->words, .ntables = a->nwords, .progress = isatty(2) ? on_progress : NULL, .checkpoint = on_checkpoint, .ctx = &s};
    wr_compare_report r = {0};
    char filter[600];
    WR_AUTO char *columns = NULL;
    WR_AUTO const char **list = NULL;
    WR_TRY(understand(a, &w, err));
    if (a->columns) WR_TRY(understand_columns(a->columns, &columns, &list, &w.ncolumns, err));
    if (a->columns) w.columns = list;
    WR_TRY(session_open(&s, a, o.home, err));
    s.what = &w;
    if (a->resume) WR_TRY(session_resume(&s, &w, err));
    else if (wr_file_exists(o.home)) on_checkpoint(&s, NULL);
    if (a->rows_per_second) o.source.snapshot_rows_per_second = a->rows_per_second;
    if (a->max_threads_running) o.source.max_threads_running = a->max_threads_running;
    if (a->max_replica_lag_s) o.source.max_replica_lag_s = a->max_replica_lag_s;
    wr_code rc = wr_pipeline_compare(&o, &w, &r, err);
    if (w.progress) fprintf(stderr, "\r\033[K");
    WR_TRY(rc);
    r.keys_only = a->keys_only;
    filter_text(a, &w, filter);
    r.filter = filter[0] ? filter : NULL;
    *ret = wr_compare_verdict(&r);
    rc = say(a, &r, o.home, err);
    for (int i = 0; i < r.ntables; i++) wr_table_report_clear(&r.tables[i]);
    wr_free(r.tables);
    return rc == WR_OK ? wr_file_remove(s.path, err) : rc;
}

int wr_cmd_compare(const wr_args *a) {
    wr_err err = WR_ERR_INIT;
    wr_config *c = NULL;
    wr_verdict v = WR_UNDECIDED;
    wr_schedule_child();
    wr_code rc = wr_config_load(a->config, WR_NEED_ALL, &c, &err);
    if (rc == WR_OK) rc = compare(a, c, &v, &err);
    if (rc != WR_OK && c && a->alarm) note_failure(c, &err);
    wr_config_free(c);
    if (rc != WR_OK) return wr_cli_fail(&err);
    return v == WR_EQUAL ? EXIT_FINE : v == WR_DIFFERENT ? EXIT_FAILED : EXIT_UNDECIDED;
}
