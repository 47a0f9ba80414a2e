#include "schedule.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"
#include "weir/base/spawn.h"
#include "weir/io.h"
#include "weir/ledger.h"

#define DAY_US INT64_C(86400000000)
#define MINUTE_US INT64_C(60000000)
#define NICE 10
#define LOOK_US 500000

/* ------------------------------------------------------------------ when */
static bool parse_daily(const char *text, wr_schedule *ret) {
    int h, m, n = 0, oh = 0, om = 0;
    char sign = '+';
    if (sscanf(text, "daily at %2d:%2d%n", &h, &m, &n) != 2 || h < 0 || h > 23 || m < 0 || m > 59) return false;
    const char *rest = text + n;
    n = 0;
    if (*rest && strcmp(rest, " UTC") && (sscanf(rest, " %c%2d:%2d%n", &sign, &oh, &om, &n) != 3 || rest[n] || (sign != '+' && sign != '-') || oh < 0 || oh > 14 || om < 0 || om > 59)) return false;
    int64_t at = (h * 60 + m - (sign == '-' ? -1 : 1) * (oh * 60 + om)) * MINUTE_US;
    *ret = (wr_schedule){DAY_US, (at + DAY_US) % DAY_US};
    return true;
}

wr_code wr_schedule_parse(const char *text, wr_schedule *ret, wr_err *err) {
    if (parse_daily(text, ret)) return WR_OK;
    int64_t every = !strncmp(text, "every ", 6) ? wr_cli_age(text + 6) : -1;
    if (every >= 1000000) return *ret = (wr_schedule){every, 0}, WR_OK;
    wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "'%s' is no schedule", text);
    return wr_err_cure(err, "'daily at 03:00' (UTC), 'daily at 03:00 +02:00', or 'every 6h' (d, h, m, s)");
}

int64_t wr_schedule_next(const wr_schedule *s, int64_t after_us) {
    int64_t n = (after_us - s->at_us) / s->every_us, at = n * s->every_us + s->at_us;
    return at > after_us ? at : at + s->every_us;
}

/* ------------------------------------------------------------------ running it */
struct wr_schedule_runner {
    const wr_config_compare *what;
    const char *config;
    wr_pipeline *pipeline;
    wr_schedule schedule;
    char *mark;           /* file with the time at which the last one that came to its end was begun */
    char *ledger;
    pthread_t thread;
    pthread_mutex_t lock; /* guards end */
    pthread_cond_t wake;
    bool end;
};

static int64_t last_begun(const wr_schedule_runner *r) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_err err = WR_ERR_INIT;
    if (wr_file_get(r->mark, 64, &b, &err) != WR_OK || !wr_buf_cstr(&b)) return 0;
    return strtoll((char *)b.p, NULL, 10);
}

static void note_begun(const wr_schedule_runner *r, int64_t at_us) {
    char text[24];
    wr_err err = WR_ERR_INIT;
    snprintf(text, sizeof text, "%lld", (long long)at_us);
    if (wr_file_put(r->mark, wr_slice_str(text), &err) != WR_OK) wr_log(WR_LOG_WARN, "scheduled comparison: %s", err.msg);
}

/* Until then, or until the sync ends: true. */
static bool sleep_until(wr_schedule_runner *r, int64_t at_us) {
    struct timespec ts = {at_us / 1000000, at_us % 1000000 * 1000};
    pthread_mutex_lock(&r->lock);
    while (!r->end && pthread_cond_timedwait(&r->wake, &r->lock, &ts) != ETIMEDOUT) {}
    bool end = r->end;
    pthread_mutex_unlock(&r->lock);
    return end;
}

#define SCHEDULED_BY "WEIR_SCHEDULED_BY"

void wr_schedule_child(void) {
    const char *by = getenv(SCHEDULED_BY);
    if (!by) return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != (pid_t)strtol(by, NULL, 10)) _exit(127); /* it died in between */
    if (nice(NICE) == -1) {} /* then at the usual priority */
}

/* This program once more, with nothing of the sync's open but standard error. -> 0, or an errno */
static int start(const char *const *argv, pid_t *ret_pid) {
    size_t n = 0;
    while (environ[n]) n++;
    WR_AUTO char **env = wr_calloc(n + 2, sizeof *env);
    char by[40];
    posix_spawn_file_actions_t files;
    if (!env) return ENOMEM;
    snprintf(by, sizeof by, SCHEDULED_BY "=%d", (int)getpid());
    memcpy(env, environ, n * sizeof *env);
    env[n] = by;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);
    int no = wr_spawn("/proc/self/exe", argv, env, &files, false, ret_pid);
    posix_spawn_file_actions_destroy(&files);
    return no;
}

/* It could not say so itself. */
static void raise_alarm(const wr_schedule_runner *r, const char *what, int number) {
    char text[100];
    wr_err err = WR_ERR_INIT;
    snprintf(text, sizeof text, "the scheduled comparison ended without a verdict (%s %d)", what, number);
    wr_log(WR_LOG_WARN, "%s", text);
    if (wr_ledger_raise_in(r->ledger, "compared", "every table", wr_now_us() / MINUTE_US, text, &err) != WR_OK) wr_log(WR_LOG_WARN, "%s", err.msg);
}

static void run_once(wr_schedule_runner *r) {
    static const char *const levels[] = {"content", "keys", "counts", "structure"}, *const methods[] = {"rows", "pushed"}, *const hashes[] = {"fast", "md5"};
    const char *argv[13 + WR_WORDS_MAX] = {"weir", "compare", "-c", r->config, "--alarm", "--level", levels[r->what->level], "--method", methods[r->what->method], "--hash", hashes[r->what->hash], "--"};
    for (int i = 0; i < r->what->ntables; i++) argv[12 + i] = r->what->tables[i];
    int64_t began = wr_now_us();
    int status = 0;
    pid_t pid;
    int no = start(argv, &pid);
    if (no != 0) {
        wr_log(WR_LOG_WARN, "the scheduled comparison could not be started: %s", strerror(no));
        return;
    }
    wr_log(WR_LOG_INFO, "the scheduled comparison has begun, process %d", (int)pid);
    bool ended = false;
    while (!ended && waitpid(pid, &status, WNOHANG) == 0) ended = sleep_until(r, wr_now_us() + LOOK_US);
    if (ended) {
        kill(pid, SIGTERM);
        waitpid(pid, &status, 0);
        return; /* it is made up for */
    }
    note_begun(r, began);
    bool failed = !WIFEXITED(status) || WEXITSTATUS(status) == 127 || WEXITSTATUS(status) == EXIT_USAGE;
    if (failed) raise_alarm(r, WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    else wr_log(WR_LOG_INFO, "the scheduled comparison took %.1f s", (double)(wr_now_us() - began) / 1e6);
}

static bool is_loading(const wr_schedule_runner *r) {
    wr_pipeline_status s;
    wr_pipeline_get_status(r->pipeline, &s);
    return strcmp(s.state, "streaming") != 0;
}

static void *run(void *arg) {
    wr_schedule_runner *r = arg;
    int64_t last = last_begun(r), due = wr_schedule_next(&r->schedule, last ? last : wr_now_us());
    for (;;) {
        if (sleep_until(r, due)) return NULL;
        while (is_loading(r))
            if (sleep_until(r, wr_now_us() + LOOK_US)) return NULL;
        run_once(r);
        due = wr_schedule_next(&r->schedule, wr_now_us());
    }
}

wr_code wr_schedule_start(const wr_config *c, const char *config, wr_pipeline *p, wr_schedule_runner **ret, wr_err *err) {
    const wr_config_compare *what = wr_config_compare_of(c);
    *ret = NULL;
    if (!what->schedule) return WR_OK;
    wr_schedule_runner *r = wr_calloc(1, sizeof *r);
    WR_AUTO char *dir = wr_path_join(wr_config_options(c)->home, "compare");
    if (r) *r = (wr_schedule_runner){.what = what, .config = config, .pipeline = p, .mark = dir ? wr_path_join(dir, "scheduled") : NULL, .ledger = wr_path_join(wr_config_options(c)->home, "ledger.db"), .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};
    wr_code rc = r && r->mark && r->ledger ? wr_schedule_parse(what->schedule, &r->schedule, err) : wr_nomem(err, "schedule", sizeof *r);
    if (rc == WR_OK) rc = wr_mkdirs(dir, err);
    if (rc == WR_OK && pthread_create(&r->thread, NULL, run, r) != 0) rc = wr_nomem(err, "a thread", 0);
    if (rc == WR_OK) return *ret = r, WR_OK;
    if (r) wr_free(r->mark), wr_free(r->ledger);
    wr_free(r);
    return rc;
}

void wr_schedule_stop(wr_schedule_runner *r) {
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->end = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    wr_free(r->mark), wr_free(r->ledger);
    wr_free(r);
}
