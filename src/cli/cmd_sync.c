/* weir sync */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "schedule.h"
#include "weir/base/clock.h"
#include "weir/base/log.h"

static void log_line(void *ctx, wr_log_level level, const char *line) {
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char iso[32];
    fprintf(stderr, "%s%s %s: %s\n", wr_cli_colour(2) ? "\r\033[K" : "", wr_iso_time(wr_now_us(), iso), names[level], line);
}

/* ------------------------------------------------------------------ SIGTERM, SIGINT */
static sem_t signalled;

static void on_signal(int sig) { sem_post(&signalled); }

typedef struct stopper {
    pthread_mutex_t lock; /* guards the rest */
    wr_pipeline *p;       /* NULL: not begun yet */
    bool over;            /* it ends by itself */
} stopper;

/* Nothing that can be waited for need be waited for before there is a commit in hand: a server, a catalog, a name. */
static void *stopper_main(void *arg) {
    stopper *t = arg;
    for (;;) {
        while (sem_wait(&signalled) != 0) {}
        pthread_mutex_lock(&t->lock);
        if (!t->over && (!t->p || !wr_pipeline_stop(t->p))) _exit(EXIT_FINE);
        pthread_mutex_unlock(&t->lock);
    }
    return NULL;
}

static wr_code stopper_start(stopper *t, wr_err *err) {
    pthread_t th;
    struct sigaction sa = {.sa_handler = on_signal};
    sem_init(&signalled, 0, 0);
    pthread_mutex_init(&t->lock, NULL);
    if (pthread_create(&th, NULL, stopper_main, t) != 0) return wr_fail(err, WR_E_NOMEM, WR_RETRY_NO, "no thread that waits for signals");
    pthread_detach(th); /* goes with the process */
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    return WR_OK;
}

static void stopper_set(stopper *t, wr_pipeline *p, bool over) {
    pthread_mutex_lock(&t->lock);
    t->p = p, t->over = over;
    pthread_mutex_unlock(&t->lock);
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

static wr_code run(const wr_args *a, const wr_config *c, wr_pipeline *p, wr_err *err) {
    progress g = {.p = p};
    pthread_t th;
    pthread_mutex_init(&g.lock, NULL);
    wr_cond_init(&g.wake);
    bool shown = pthread_create(&th, NULL, progress_main, &g) == 0;
    wr_schedule_runner *schedule = NULL;
    wr_code rc = a->until_current ? WR_OK : wr_schedule_start(c, a->config, p, &schedule, err);
    if (rc == WR_OK) rc = wr_pipeline_run(p, a->until_current ? WR_RUN_UNTIL_CURRENT : WR_RUN_FOREVER, err);
    wr_schedule_stop(schedule);
    if (shown) {
        pthread_mutex_lock(&g.lock);
        g.end = true;
        pthread_cond_signal(&g.wake);
        pthread_mutex_unlock(&g.lock);
        pthread_join(th, NULL);
    }
    return rc;
}

int wr_cmd_sync(const wr_args *a) {
    static stopper t;
    wr_err err = WR_ERR_INIT;
    wr_config *c;
    wr_pipeline *p;
    if (stopper_start(&t, &err) != WR_OK) return wr_cli_fail(&err);
    if (wr_config_load(a->config, WR_NEED_ALL | WR_NEED_ALARMS, &c, &err) != WR_OK) return wr_cli_fail(&err);
    wr_log_set(log_line, NULL, a->verbose ? WR_LOG_DEBUG : WR_LOG_WARN);
    char exposed[512];
    for (int i = 0; i < WR_CONFIG_SECRETS; i++)
        if (wr_config_exposed(c, i, exposed)) wr_log(WR_LOG_WARN, "%s; chmod 600", exposed);
    if (wr_pipeline_new(wr_config_options(c), &p, &err) != WR_OK) return wr_config_free(c), wr_cli_fail(&err);
    stopper_set(&t, p, false);
    int ret = wr_pipeline_open(p, WR_OPEN_TO_RUN, &err) == WR_OK ? EXIT_FINE : wr_cli_fail(&err);
    if (ret == EXIT_FINE && run(a, c, p, &err) != WR_OK) ret = (wr_cli_fail(&err), EXIT_FAILED);
    stopper_set(&t, NULL, true);
    wr_pipeline_close(p);
    wr_config_free(c);
    return ret;
}
