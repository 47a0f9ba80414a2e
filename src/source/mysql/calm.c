/* Leaving the server alone while it has enough to do. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "session.h"
#include "source_impl.h"
#include "weir/base/clock.h"
#include "weir/base/log.h"

#define ASK_EVERY_US 1000000
#define POLL_MS 200

typedef struct load { long running, lag_s; } load;

static wr_code take_running(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    if (ncols >= 2 && row[1]) ((load *)ctx)->running = atol(row[1]);
    return WR_OK;
}

/* Seconds_Behind_Source is one of some sixty columns whose names depend on the server. */
static void take_lag(void *ctx, const char *name, const char *value) {
    load *l = ctx;
    if (strncmp(name, "Seconds_Behind_", 15) == 0 && value && atol(value) > l->lag_s) l->lag_s = atol(value);
}

static wr_code ask_lag(MYSQL *m, wr_flavor flavor, load *l, wr_err *err) {
    return wr_my_query_named(m, take_lag, l, flavor == WR_MARIADB ? "SHOW SLAVE STATUS" : "SHOW REPLICA STATUS", err);
}

static wr_code ask(wr_source *s, MYSQL *m, bool lag_too, load *ret, wr_err *err) {
    load l = {0};
    WR_TRY(wr_my_query(m, take_running, &l, err, "SHOW GLOBAL STATUS LIKE 'Threads_running'"));
    l.running -= 1 + wr_budget_reading(s->budget); /* the question itself, and Weir's own readers */
    if (l.running < 0) l.running = 0;
    if (lag_too) WR_TRY(ask_lag(m, s->flavor, &l, err));
    *ret = l;
    return WR_OK;
}

/* Whether it is this caller that asks; else the last answer stands. */
static bool is_time(wr_source *s, bool *ret_last) {
    pthread_mutex_lock(&s->calm_lock);
    bool yes = wr_mono_us() - s->calm_at_us >= ASK_EVERY_US;
    if (yes) s->calm_at_us = wr_mono_us();
    *ret_last = !s->busy;
    pthread_mutex_unlock(&s->calm_lock);
    return yes;
}

wr_code wr_source_is_calm(wr_source *s, bool *ret_calm, wr_err *err) {
    load l = {0};
    *ret_calm = true;
    if ((!s->max_threads_running && !s->max_replica_lag_s) || !is_time(s, ret_calm)) return WR_OK;
    MYSQL *m;
    WR_TRY(wr_my_session(s, &m, err));
    wr_code rc = ask(s, m, s->max_replica_lag_s > 0, &l, err);
    wr_my_session_end(s, m, rc);
    WR_TRY(rc);
    bool calm = (!s->max_threads_running || l.running <= s->max_threads_running) && (!s->max_replica_lag_s || l.lag_s <= s->max_replica_lag_s);
    pthread_mutex_lock(&s->calm_lock);
    bool news = s->busy == calm;
    s->busy = !calm;
    pthread_mutex_unlock(&s->calm_lock);
    if (news && !calm) wr_log(WR_LOG_WARN, "the source has %ld statements under way and is %ld s behind: reading of tables waits until that is less", l.running, l.lag_s);
    if (news && calm) wr_log(WR_LOG_INFO, "the source has little to do again: reading of tables goes on");
    *ret_calm = calm;
    return WR_OK;
}

wr_code wr_source_wait_until_calm(wr_source *s, bool (*gave_up)(void *ctx), void *ctx, wr_err *err) {
    for (bool calm = false; !gave_up || !gave_up(ctx);) {
        WR_TRY(wr_source_is_calm(s, &calm, err));
        if (calm) return WR_OK;
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000l}, NULL);
    }
    return WR_OK;
}
