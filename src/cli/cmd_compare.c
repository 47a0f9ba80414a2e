/* weir compare */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/io.h"

#define SHOWN_TEXT 20
#define SHOWN_HTML 1000
#define KEPT 100 /* reports in home/compare */

static void on_progress(void *ctx, const char *table, uint64_t rows, uint64_t estimated) {
    static int64_t next_us;
    if (wr_mono_us() < next_us) return;
    next_us = wr_mono_us() + 1000000;
    fprintf(stderr, "\r\033[K%s: %" PRIu64 " of about %" PRIu64 " rows", table, rows, estimated > rows ? estimated : rows);
    fflush(stderr);
}

static wr_code write_file(const wr_compare_report *r, const char *path, bool html, wr_err *err) {
    FILE *f = fopen(path, "w");
    bool ok = f && (html ? wr_report_html(r, f, SHOWN_HTML) : wr_report_json(r, f));
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

/* home/compare/<time>.json; names sort by time. */
static wr_code keep(const wr_compare_report *r, const char *home, wr_err *err) {
    char iso[32];
    WR_AUTO char *dir = wr_path_join(home, "compare");
    wr_iso_time(r->began_us, iso);
    for (char *p = iso; *p; p++)
        if (*p == ':') *p = '-';
    WR_AUTO char *path = dir ? wr_asprintf("%s/%s-%d.json", dir, iso, (int)getpid()) : NULL;
    if (!path) return wr_nomem(err, "path", 256);
    WR_TRY(write_file(r, path, false, err));
    history h = {0};
    wr_code rc = wr_dir_list(dir, count_report, &h, err);
    WR_AUTO char *oldest = h.oldest && h.n > KEPT ? wr_path_join(dir, h.oldest) : NULL;
    wr_free(h.oldest);
    return rc == WR_OK && oldest ? wr_file_remove(oldest, err) : rc;
}

static wr_code understand(const wr_args *a, wr_compare *w, wr_err *err) {
    if (a->method && !strcmp(a->method, "pushed")) w->method = WR_COMPARE_PUSHED;
    else if (a->method && strcmp(a->method, "rows")) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--method takes rows or pushed, not '%s'", a->method);
    if (a->level && !strcmp(a->level, "structure")) w->level = WR_COMPARE_STRUCTURE;
    else if (a->level && !strcmp(a->level, "counts")) w->level = WR_COMPARE_COUNTS;
    else if (a->level && strcmp(a->level, "content")) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--level takes structure, counts or content, not '%s'", a->level);
    if ((a->last_us >= 0) != (a->time_column != NULL)) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--last and --time-column belong together");
    if (a->time_column) w->time_column = a->time_column, w->since_us = wr_now_us() - a->last_us;
    w->sample = a->sample;
    w->seed = a->has_seed ? a->seed : (uint64_t)wr_now_us() % 1000000;
    w->max_threads_running = a->max_threads_running, w->max_replica_lag_s = a->max_replica_lag_s;
    return WR_OK;
}

int wr_cmd_compare(const wr_args *a) {
    wr_err err = WR_ERR_INIT;
    wr_config *c = NULL;
    wr_compare w = {.tables = a->words, .ntables = a->nwords, .progress = isatty(2) ? on_progress : NULL};
    wr_compare_report r = {0};
    char filter[300];
    wr_code rc = understand(a, &w, &err);
    if (rc == WR_OK) rc = wr_config_load(a->config, WR_NEED_ALL, &c, &err);
    if (rc == WR_OK) {
        wr_pipeline_options o = *wr_config_options(c);
        if (a->rows_per_second) o.source.snapshot_rows_per_second = a->rows_per_second;
        rc = wr_pipeline_compare(&o, &w, &r, &err);
        if (w.progress) fprintf(stderr, "\r\033[K");
        r.keys_only = a->keys_only;
        if (a->time_column) {
            char iso[32];
            snprintf(filter, sizeof filter, "%.200s since %s", a->time_column, wr_iso_time(w.since_us, iso));
            r.filter = filter;
        }
        if (rc == WR_OK) {
            if (!(a->json ? wr_report_json(&r, stdout) : wr_report_text(&r, stdout, SHOWN_TEXT, wr_cli_colour(1)))) rc = wr_fail(&err, WR_E_IO, WR_RETRY_NO, "the report cannot be written");
            if (rc == WR_OK && a->html) rc = write_file(&r, a->html, true, &err);
            if (rc == WR_OK) rc = keep(&r, o.home, &err);
        }
    }
    wr_verdict v = rc == WR_OK ? wr_compare_verdict(&r) : WR_UNDECIDED;
    for (int i = 0; i < r.ntables; i++) wr_table_report_clear(&r.tables[i]);
    wr_free(r.tables);
    wr_config_free(c);
    if (rc != WR_OK) return wr_cli_fail(&err);
    return v == WR_EQUAL ? EXIT_FINE : v == WR_DIFFERENT ? EXIT_FAILED : EXIT_UNDECIDED;
}
