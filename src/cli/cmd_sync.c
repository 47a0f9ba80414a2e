/* weir sync */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "schedule.h"
#include "weir/base/clock.h"
#include "weir/base/log.h"

static wr_pipeline *running; /* for the signal handler; set before the handler is installed */

static void on_signal(int sig) { wr_pipeline_stop(running); }

static void log_line(void *ctx, wr_log_level level, const char *line) {
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char iso[32];
    fprintf(stderr, "%s%s %s: %s\n", wr_cli_colour(2) ? "\r\033[K" : "", wr_iso_time(wr_now_us(), iso), names[level], line);
}

/* ------------------------------------------------------------------ progress */
typedef struct progress {
    wr_pipeline *p;
    pthread_mutex_t lock; /* guards end */
    pthread_cond_t wake;
    bool end;
} progress;

static void print_terminal(const wr_pipeline_status *s, double rows_s, double bytes_s) {
    char b[32];
    if (s->tables_loading) {
        double left = rows_s > 0 && s->rows_estimated > s->rows_loaded ? (double)(s->rows_estimated - s->rows_loaded) / rows_s : 0;
        fprintf(stderr, "\r\033[Kloading %d of %d tables: %" PRIu64 " rows, %.0f rows/s, about %.0f s left", s->tables_loading, s->tables, s->rows_loaded, rows_s, left);
    } else {
        fprintf(stderr, "\r\033[K%s: %d tables, %" PRIu64 " changes applied, %.0f/s, %s/s captured, lag %.1f s", s->state, s->tables, s->rows_applied, rows_s, wr_cli_bytes(bytes_s, b), (double)s->lag_us / 1e6);
    }
    fflush(stderr);
}

static void print_json(const wr_pipeline_status *s, double rows_s, double bytes_s) {
    char iso[32];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "time", wr_iso_time(wr_now_us(), iso));
    cJSON_AddStringToObject(o, "state", s->state);
    cJSON_AddNumberToObject(o, "tables", s->tables);
    cJSON_AddNumberToObject(o, "tables_loading", s->tables_loading);
    cJSON_AddNumberToObject(o, "tables_waiting", s->tables_waiting);
    cJSON_AddNumberToObject(o, "rows_loaded", (double)s->rows_loaded);
    cJSON_AddNumberToObject(o, "rows_estimated", (double)s->rows_estimated);
    cJSON_AddNumberToObject(o, "changes_applied", (double)s->rows_applied);
    cJSON_AddNumberToObject(o, "rows_per_second", (double)(int64_t)rows_s);
    cJSON_AddNumberToObject(o, "bytes_per_second", (double)(int64_t)bytes_s);
    cJSON_AddNumberToObject(o, "lag_ms", (double)(s->lag_us / 1000));
    cJSON_AddNumberToObject(o, "anomalies", (double)s->anomalies);
    char *text = cJSON_PrintUnformatted(o);
    if (text) fprintf(stderr, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(o);
}

static void *progress_main(void *arg) {
    progress *g = arg;
    bool terminal = isatty(2);
    int every_s = terminal ? 1 : 10;
    uint64_t rows = 0, bytes = 0;
    int64_t at = wr_mono_us();
    for (;;) {
        struct timespec ts = wr_cond_until(every_s * 1000);
        pthread_mutex_lock(&g->lock);
        while (!g->end && pthread_cond_timedwait(&g->wake, &g->lock, &ts) == 0) {}
        bool end = g->end;
        pthread_mutex_unlock(&g->lock);
        if (end) break;
        wr_pipeline_status s;
        wr_pipeline_get_status(g->p, &s);
        int64_t now = wr_mono_us();
        double dt = (double)(now - at) / 1e6;
        uint64_t r = s.tables_loading ? s.rows_loaded : s.rows_applied;
        double rows_s = r > rows ? (double)(r - rows) / dt : 0, bytes_s = s.bytes_captured > bytes ? (double)(s.bytes_captured - bytes) / dt : 0;
        rows = r, bytes = s.bytes_captured, at = now;
        if (terminal) print_terminal(&s, rows_s, bytes_s);
        else print_json(&s, rows_s, bytes_s);
    }
    if (terminal) fprintf(stderr, "\r\033[K");
    return NULL;
}

int wr_cmd_sync(const wr_args *a) {
    wr_err err = WR_ERR_INIT;
    wr_config *c;
    if (wr_config_load(a->config, WR_NEED_ALL | WR_NEED_ALARMS, &c, &err) != WR_OK) return wr_cli_fail(&err);
    wr_log_set(log_line, NULL, a->verbose ? WR_LOG_DEBUG : WR_LOG_WARN);
    char exposed[512];
    for (int i = 0; i < WR_CONFIG_SECRETS; i++)
        if (wr_config_exposed(c, i, exposed)) wr_log(WR_LOG_WARN, "%s; chmod 600", exposed);
    wr_pipeline *p;
    if (wr_pipeline_open(wr_config_options(c), &p, &err) != WR_OK) {
        wr_config_free(c);
        return wr_cli_fail(&err);
    }
    running = p;
    struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    progress g = {.p = p};
    pthread_t th;
    pthread_mutex_init(&g.lock, NULL);
    wr_cond_init(&g.wake);
    bool shown = pthread_create(&th, NULL, progress_main, &g) == 0;
    wr_schedule_runner *schedule = NULL;
    wr_code rc = a->until_current ? WR_OK : wr_schedule_start(c, a->config, p, &schedule, &err);
    if (rc == WR_OK) rc = wr_pipeline_run(p, a->until_current ? WR_RUN_UNTIL_CURRENT : WR_RUN_FOREVER, &err);
    wr_schedule_stop(schedule);
    if (shown) {
        pthread_mutex_lock(&g.lock);
        g.end = true;
        pthread_cond_signal(&g.wake);
        pthread_mutex_unlock(&g.lock);
        pthread_join(th, NULL);
    }
    signal(SIGTERM, SIG_DFL), signal(SIGINT, SIG_DFL);
    wr_pipeline_close(p);
    wr_config_free(c);
    return rc == WR_OK ? EXIT_FINE : (wr_cli_fail(&err), EXIT_FAILED);
}
