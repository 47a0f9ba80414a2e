/* Behind a gap of the source's log: tables that were not read again are compared with the source, by this thread, until they are equal. What differs is asked for as a repair (repair.c), which the applying
 * thread does; so what is written is always its. Nothing is kept here: after a restart the state says what is still to be proven.
 * @thread prove, where nothing else is said */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "impl.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define POLL_MS 200
#define AGAIN_MS 3000
#define ROUNDS 3         /* with differences; then what still differs is read again */
#define PATIENCE_S 60

static void names_free(char **names, int n) {
    for (int i = 0; i < n; i++) wr_free(names[i]);
    wr_free(names);
}

/* ------------------------------------------------------------------ between the threads */
/* @thread applying */
void wr_prove_tell(wr_pipeline *p) {
    int n = 0;
    char **names = wr_calloc((size_t)p->ntargets + 1, sizeof *names);
    for (int i = 0; names && i < p->ntargets; i++) {
        const target *t = p->targets[i];
        if (t->unproven && t->phase == PHASE_STREAM && !t->due && (names[n] = wr_asprintf("%s.%s", t->ns, t->name))) n++;
    }
    pthread_mutex_lock(&p->lock_mu);
    names_free(p->unproven, p->nunproven);
    p->unproven = names, p->nunproven = n;
    if (n) pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock_mu);
}

static target *find(const wr_pipeline *p, const char *full) {
    for (int i = 0; i < p->ntargets; i++) {
        const target *t = p->targets[i];
        size_t n = strlen(t->ns);
        if (!strncmp(full, t->ns, n) && full[n] == '.' && !strcmp(full + n + 1, t->name)) return p->targets[i];
    }
    return NULL;
}

/* @thread applying */
void wr_prove_anew(wr_pipeline *p) {
    pthread_mutex_lock(&p->lock_mu);
    p->gaps_crossed++;
    names_free(p->proven, p->nproven);
    p->proven = NULL, p->nproven = 0;
    pthread_mutex_unlock(&p->lock_mu);
}

/* @thread applying */
wr_code wr_prove_take(wr_pipeline *p, wr_err *err) {
    pthread_mutex_lock(&p->lock_mu);
    char **names = p->proven;
    int n = p->nproven;
    p->proven = NULL, p->nproven = 0;
    pthread_mutex_unlock(&p->lock_mu);
    wr_code rc = WR_OK;
    for (int i = 0; i < n; i++) {
        target *t = find(p, names[i]);
        if (t) t->unproven = false;
    }
    names_free(names, n);
    if (!n) return WR_OK;
    rc = wr_apply_proven(p, err);
    wr_status_tables(p);
    wr_prove_tell(p);
    return rc == WR_OK ? wr_gap_settle(p, err) : rc;
}

static wr_code add_proven(wr_pipeline *p, uint32_t gaps, const wr_table_report *t, wr_err *err) {
    char *full = wr_asprintf("%s.%s", t->ns, t->name);
    pthread_mutex_lock(&p->lock_mu);
    if (gaps != p->gaps_crossed) return pthread_mutex_unlock(&p->lock_mu), wr_free(full), WR_OK;
    char **list = full ? wr_realloc(p->proven, ((size_t)p->nproven + 1) * sizeof *list) : NULL;
    if (list) p->proven = list, list[p->nproven++] = full;
    pthread_mutex_unlock(&p->lock_mu);
    if (!list) return wr_free(full), wr_nomem(err, "table name", 64);
    return WR_OK;
}

static bool pause_ms(wr_pipeline *p, int64_t ms) {
    int64_t until = wr_mono_us() + ms * 1000;
    pthread_mutex_lock(&p->lock_mu);
    while (!p->prove_stop && !p->stop && wr_mono_us() < until) {
        struct timespec ts = wr_cond_until(POLL_MS);
        pthread_cond_timedwait(&p->wake, &p->lock_mu, &ts);
    }
    bool end = p->prove_stop || p->stop;
    pthread_mutex_unlock(&p->lock_mu);
    return !end;
}

static bool gave_up(void *ctx) {
    wr_pipeline *p = ctx;
    pthread_mutex_lock(&p->lock_mu);
    bool end = p->prove_stop || p->stop;
    pthread_mutex_unlock(&p->lock_mu);
    return end;
}

/* So that whoever ends this thread need not wait for the server's answers. */
static void note_source(void *ctx, wr_source *s) {
    wr_pipeline *p = ctx;
    pthread_mutex_lock(&p->lock_mu);
    p->prove_source = s;
    if (s && (p->stop || p->prove_stop)) wr_source_cut(s);
    pthread_mutex_unlock(&p->lock_mu);
}

/* ------------------------------------------------------------------ one round */
static char *pattern_of(const char *name) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    for (const char *s = name; *s; s++) wr_buf_printf(&b, strchr("\\.^$|()[]{}*+?", *s) ? "\\%c" : "%c", *s);
    return wr_buf_cstr(&b) ? wr_strdup((char *)b.p) : NULL;
}

/* What is to be proven now, as patterns; n 0: nothing. */
typedef struct work { char **patterns; int n; uint32_t gaps; } work;

static wr_code take_work(wr_pipeline *p, work *ret, wr_err *err) {
    pthread_mutex_lock(&p->lock_mu);
    uint32_t gaps = p->gaps_crossed;
    int n = p->nunproven, k = 0;
    char **list = wr_calloc((size_t)n + 1, sizeof *list);
    while (list && k < n && (list[k] = pattern_of(p->unproven[k]))) k++;
    pthread_mutex_unlock(&p->lock_mu);
    if (k < n || !list) return names_free(list, list ? k : 0), wr_nomem(err, "tables", 64);
    *ret = (work){list, n, gaps};
    return WR_OK;
}

/* home/compare/<id>.json, as `weir compare` keeps it. */
static wr_code keep_report(wr_pipeline *p, const wr_compare_report *r, char **ret_path, wr_err *err) {
    char id[64];
    wr_request_id(id);
    WR_AUTO char *path = wr_asprintf("%s/compare/%s.json", p->home, id);
    FILE *f = path ? fopen(path, "we") : NULL;
    bool ok = f && wr_report_json(r, f);
    if (f && fclose(f) != 0) ok = false;
    if (!ok) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "the report of a comparison cannot be written to %s", path ? path : "?");
    *ret_path = WR_STEAL(path);
    return WR_OK;
}

static wr_code ask_repair(wr_pipeline *p, const wr_compare_report *r, bool reload, wr_err *err) {
    WR_AUTO char *path = NULL, *done = NULL;
    WR_TRY(keep_report(p, r, &path, err));
    wr_repair_plan *plan;
    WR_TRY(wr_repair_plan_read(path, &plan, err));
    for (int i = 0; i < plan->n; i++) plan->tables[i].reload |= reload || plan->tables[i].left_out;
    wr_repair what = {.tables = plan->tables, .ntables = plan->n, .report = path, .why = "behind a gap of the source's log"};
    wr_code rc = plan->n ? wr_repair_ask(p->home, &what, &done, err) : WR_OK;
    wr_repair_plan_free(plan);
    while (rc == WR_OK && done && !wr_file_exists(done) && pause_ms(p, POLL_MS)) {}
    return rc;
}

/* *ret_differ: some tables were not equal; a repair has been done. */
static wr_code prove(wr_pipeline *p, const work *w, bool reload, bool *ret_differ, wr_err *err) {
    wr_compare_report r = {0};
    bool differ = false;
    wr_compare what = {.tables = (const char *const *)w->patterns, .ntables = w->n, .parallel = p->o.snapshot_parallel, .patience_s = PATIENCE_S, .gave_up = gave_up, .source = note_source, .ctx = p};
    if (WR_FAULT("prove.begin")) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "injected: proving");
    WR_TRY(wr_pipeline_compare(&p->o, &what, &r, err));
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i < r.ntables; i++) {
        const wr_table_report *t = &r.tables[i];
        if (t->verdict != WR_UNDECIDED) wr_log(WR_LOG_INFO, "behind the gap: %s.%s is %s%s%s", t->ns, t->name, wr_verdict_name(t->verdict), t->reason ? ": " : "", t->reason ? t->reason : "");
        if (t->verdict == WR_EQUAL) rc = add_proven(p, w->gaps, t, err);
        differ |= t->verdict == WR_DIFFERENT;
    }
    if (rc == WR_OK && differ && !gave_up(p)) rc = ask_repair(p, &r, reload, err);
    for (int i = 0; i < r.ntables; i++) wr_table_report_clear(&r.tables[i]);
    wr_free(r.tables);
    *ret_differ = differ;
    return rc;
}

static bool wait_for_work(wr_pipeline *p) {
    pthread_mutex_lock(&p->lock_mu);
    while (!p->prove_stop && !p->stop && (!p->nunproven || p->nproven)) pthread_cond_wait(&p->wake, &p->lock_mu);
    bool end = p->prove_stop || p->stop;
    pthread_mutex_unlock(&p->lock_mu);
    return !end;
}

static void *prove_main(void *arg) {
    wr_pipeline *p = arg;
    int rounds = 0;
    while (wait_for_work(p)) {
        wr_err err = WR_ERR_INIT;
        work w = {0};
        bool differ = false;
        wr_code rc = take_work(p, &w, &err);
        if (rc == WR_OK && w.n) rc = prove(p, &w, rounds >= ROUNDS, &differ, &err);
        names_free(w.patterns, w.n);
        rounds = differ ? rounds + 1 : 0;
        if (rc != WR_OK && rc != WR_E_CANCELLED) wr_log(WR_LOG_WARN, "comparing behind the gap: %s; trying again", err.msg);
        if ((rc != WR_OK || !differ) && !pause_ms(p, AGAIN_MS)) break;
    }
    return NULL;
}

/* @thread applying */
wr_code wr_prove_start(wr_pipeline *p, wr_err *err) {
    p->prove_stop = false;
    if (pthread_create(&p->prove_thread, NULL, prove_main, p) != 0) return wr_fail(err, WR_E_NOMEM, WR_RETRY_NO, "no thread to compare with");
    p->prove_started = true;
    return WR_OK;
}

/* @thread applying */
void wr_prove_stop(wr_pipeline *p) {
    if (p->prove_started) {
        pthread_mutex_lock(&p->lock_mu);
        p->prove_stop = true;
        if (p->prove_source) wr_source_cut(p->prove_source);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock_mu);
        pthread_join(p->prove_thread, NULL);
        p->prove_started = false;
    }
    names_free(p->unproven, p->nunproven), names_free(p->proven, p->nproven);
    p->unproven = p->proven = NULL, p->nunproven = p->nproven = 0;
}
