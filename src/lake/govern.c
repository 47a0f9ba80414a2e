/* What a lake does beside applying: compaction, and the end of old snapshots. One job at a time in the whole lake, on a worker of its own, at most a
 * third of the time, counted over some of them; every table in turn, and one whose job failed is left alone for a while. A job's input is bounded
 * (policy.h), so that no table waits long for another's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "compact.h"
#include "upkeep.h"
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define SHARE 3            /* of the time that passes, the part that jobs may take */
#define SAVED_US 20000000  /* of that time, what is not lost when no job used it: jobs start between two commits only, seldom the moment they may */
#define PAUSE_US 600000000 /* before a table is looked at again whose job failed */

typedef enum job_kind { JOB_COMPACT, JOB_EXPIRE /* which files */, JOB_DELETE /* those files */ } job_kind;

struct wr_job {
    job_kind kind;
    wr_table *t; /* NULL: of no table any more */
    wr_lake *l;
    pthread_t thread;
    bool started, done; /* done: atomic */
    wr_code rc;
    wr_err err;
    int64_t began_us, took_us;
    wr_choice choice;
    wr_rewrite *rewrite;
    wr_ice_expiry *expiry;
};

static void *work(void *arg) {
    wr_job *j = arg;
    if (j->kind == JOB_COMPACT) j->rc = wr_rewrite_run(j->rewrite, &j->err);
    else if (j->kind == JOB_EXPIRE) j->rc = wr_ice_expiry_find(j->expiry, &j->err);
    else j->rc = wr_ice_expiry_delete(j->expiry, j->l->state, &j->err);
    j->took_us = wr_mono_us() - j->began_us;
    __atomic_store_n(&j->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static void job_join(wr_job *j) {
    if (j->started) pthread_join(j->thread, NULL);
    j->started = false;
}

static void job_free(wr_job *j) {
    if (!j) return;
    job_join(j);
    wr_rewrite_free(j->rewrite);
    wr_ice_expiry_free(j->expiry);
    wr_free(j);
}

void wr_job_cancel(wr_lake *l, const wr_table *t) {
    wr_job *j = l->job;
    if (!j || (t && j->t != t)) return;
    if (j->rewrite) __atomic_store_n(&j->rewrite->stop, true, __ATOMIC_RELAXED);
    job_free(j);
    l->job = NULL;
}

/* Takes the job over. */
static wr_code start(wr_lake *l, wr_job *j, wr_err *err) {
    j->l = l, j->began_us = wr_mono_us();
    if (pthread_create(&j->thread, NULL, work, j) != 0) return job_free(j), wr_fail(err, WR_E_NOMEM, WR_RETRY_SOON, "no thread for the lake's upkeep");
    j->started = true;
    l->job = j;
    return WR_OK;
}

static wr_job *job_new(job_kind kind, wr_table *t) {
    wr_job *j = wr_calloc(1, sizeof *j);
    if (j) j->kind = kind, j->t = t;
    return j;
}

/* ------------------------------------------------------------------ old snapshots */
static int expire_step(const wr_lake *l) {
    int step = (l->snapshots_max - l->snapshots_min) / 6;
    return step < 1 ? 1 : step;
}

/* ret NULL: nothing to do. catalog_lock held. */
static wr_code plan_expiry(wr_table *t, wr_job **ret, wr_err *err) {
    const wr_lake *l = t->lake;
    int n = wr_ice_snapshot_count(t->ice);
    if (t->create || n <= l->snapshots_min || n < t->expire_at) return WR_OK;
    bool more;
    t->expire_at = n + expire_step(l);
    WR_TRY(wr_ice_refresh(l->catalog, t->ice, &more, err));
    wr_ice_expire_options o = {.older_than_us = n > l->snapshots_max ? INT64_MAX : wr_now_us() - l->snapshot_age_us, .keep = l->snapshots_min, .at_least = expire_step(l)};
    wr_ice_expiry *x;
    WR_TRY(wr_ice_expiry_new(t->ice, &o, &x, err));
    if (!x) return WR_OK;
    if (!(*ret = job_new(JOB_EXPIRE, t))) return wr_ice_expiry_free(x), wr_nomem(err, "expiry", sizeof **ret);
    (*ret)->expiry = x;
    return WR_OK;
}

static wr_upkeep_action expire_action(const wr_job *j) {
    wr_upkeep_action a = {.at_us = wr_now_us(), .what = "expire", .snapshots = (uint64_t)wr_ice_expiry_snapshots(j->expiry), .files_in = (uint64_t)wr_ice_expiry_files(j->expiry), .ms = (uint64_t)j->took_us / 1000};
    snprintf(a.why, sizeof a.why, "%d snapshots", wr_ice_snapshot_count(j->t->ice));
    return a;
}

/* A commit of the table's own, with nothing but this: cheap, for what leaves is known. What others refer to since it was chosen may need what was found dead:
 * then it is chosen anew, and if they were quicker than this commit, the files stay for the audit (*ret_alone false). */
static wr_code commit_expiry(wr_job *j, bool *ret_alone, wr_err *err) {
    wr_table *t = j->t;
    wr_lake *l = t->lake;
    bool more;
    WR_TRY(wr_ice_refresh(l->catalog, t->ice, &more, err));
    if (more) return wr_fail(err, WR_E_BUSY, WR_RETRY_SOON, "others made tags or branches meanwhile");
    int before = wr_ice_snapshot_count(t->ice);
    WR_AUTO wr_upkeep *u = wr_malloc(sizeof *u);
    if (!u) return wr_nomem(err, "upkeep", sizeof *u);
    wr_upkeep_action a = expire_action(j);
    *u = t->upkeep;
    wr_upkeep_add(u, &a);
    WR_AUTO char *text = wr_upkeep_print(u);
    if (!text) return wr_nomem(err, "upkeep", 4096);
    const char *key = WR_UPKEEP_PROPERTY, *val = text;
    wr_ice_edit edit = {.table = t->ice, .ref = WR_ICE_MAIN, .no_snapshot = true, .expire = j->expiry, .prop_keys = &key, .prop_vals = &val, .nprops = 1};
    WR_TRY(wr_lake_note_unknown(l, wr_ice_commit(l->catalog, l->state, &edit, 1, NULL, err), err));
    *ret_alone = wr_ice_snapshot_count(t->ice) == before - wr_ice_expiry_snapshots(j->expiry);
    t->upkeep = *u;
    t->expire_at = wr_ice_snapshot_count(t->ice) + expire_step(l);
    return WR_OK;
}

/* Nothing depends on it: what fails is looked at again later. */
static wr_code finish_expiry(wr_job *j, wr_err *err) {
    wr_lake *l = j->l;
    pthread_mutex_lock(&l->catalog_lock);
    bool alone = false;
    wr_code rc = commit_expiry(j, &alone, err);
    pthread_mutex_unlock(&l->catalog_lock);
    WR_TRY(rc);
    if (!alone) return WR_OK;
    wr_job *d = job_new(JOB_DELETE, NULL);
    if (!d) return wr_nomem(err, "expiry", sizeof *d);
    d->expiry = WR_STEAL(j->expiry);
    return start(l, d, err);
}

/* ------------------------------------------------------------------ compaction */
static bool is_idle(const wr_table *t) { return t->opened && !t->loading && !t->create && !t->touched && wr_mono_us() >= t->upkeep_after_us; }

static wr_code plan_compaction(wr_table *t, bool all, wr_job **ret, wr_err *err) {
    wr_job *j = job_new(JOB_COMPACT, t);
    if (!j) return wr_nomem(err, "compaction", sizeof *j);
    wr_code rc = wr_compact_choose(t, all, &j->choice, err);
    if (rc == WR_OK && j->choice.work != WR_WORK_NONE) rc = wr_compact_begin(t, &j->choice, &j->rewrite, err);
    if (rc != WR_OK || !j->rewrite) return job_free(j), rc;
    *ret = j;
    return WR_OK;
}

/* ------------------------------------------------------------------ in turn */
static void note_failure(wr_job *j, const wr_err *err) {
    static const char *const names[] = {"compaction", "expiry", "expiry"};
    if (j->kind != JOB_COMPACT) {
        wr_log(WR_LOG_DEBUG, "%s: %s; what is old stays for now", names[j->kind], err->msg);
        return;
    }
    wr_log(WR_LOG_WARN, "compaction of %s.%s: %s; its files stay as they are", j->t->ns, j->t->name, err->msg);
    j->t->upkeep_after_us = wr_mono_us() + PAUSE_US;
}

static wr_code finish(wr_lake *l, bool *ret_changed, wr_err *err) {
    wr_job *j = l->job;
    wr_code rc = WR_OK;
    job_join(j);
    l->job = NULL;
    if (j->kind != JOB_DELETE) l->next_job_us += j->took_us * SHARE;
    if (j->rc != WR_OK) note_failure(j, &j->err);
    else if (j->kind == JOB_EXPIRE) {
        wr_err why = WR_ERR_INIT;
        if (finish_expiry(j, &why) != WR_OK) note_failure(j, &why);
    } else if (j->kind == JOB_COMPACT && wr_compact_fits(j->t, j->rewrite)) {
        rc = wr_compact_take(j->t, j->rewrite, &j->choice, j->took_us, err);
        *ret_changed = rc == WR_OK;
    }
    job_free(j);
    return rc;
}

/* The next job of this table, if there is one. catalog_lock held. */
static wr_code plan(wr_table *t, wr_job **ret, wr_err *err) {
    if (t->settled) return WR_OK;
    WR_TRY(plan_expiry(t, ret, err));
    if (*ret) return WR_OK;
    if (is_idle(t)) WR_TRY(plan_compaction(t, false, ret, err));
    t->settled = !*ret && (!t->opened || (is_idle(t) && wr_mono_us() >= t->patient_until_us && !wr_compact_is_settling(t)));
    return WR_OK;
}

static void start_next(wr_lake *l) {
    for (int k = 0; k < l->ntables && !l->job; k++) {
        int i = (l->job_from + k) % l->ntables; /* every table in turn */
        wr_table *t = l->tables[i];
        wr_job *j = NULL;
        wr_err why = WR_ERR_INIT;
        wr_code rc = plan(t, &j, &why);
        if (rc == WR_OK && j) {
            l->job_from = i + 1;
            rc = start(l, j, &why);
        }
        if (rc == WR_OK) continue;
        wr_log(WR_LOG_WARN, "upkeep of %s.%s: %s; it stays as it is", t->ns, t->name, why.msg);
        t->upkeep_after_us = wr_mono_us() + PAUSE_US;
    }
}

wr_code wr_lake_govern(wr_lake *l, bool wait, bool *ret_changed, wr_err *err) {
    *ret_changed = false;
    while (l->job && (wait || __atomic_load_n(&l->job->done, __ATOMIC_ACQUIRE))) WR_TRY(finish(l, ret_changed, err));
    int64_t now = wr_mono_us();
    if (l->job || *ret_changed || l->unknown || now < l->next_job_us) return WR_OK;
    if (l->next_job_us < now - SAVED_US) l->next_job_us = now - SAVED_US;
    pthread_mutex_lock(&l->catalog_lock);
    start_next(l);
    pthread_mutex_unlock(&l->catalog_lock);
    return WR_OK;
}

/* ------------------------------------------------------------------ by hand */
static wr_code one_job(wr_table *t, bool all, bool *ret_changed, bool *ret_any, wr_err *err) {
    wr_lake *l = t->lake;
    wr_job *j = NULL;
    pthread_mutex_lock(&l->catalog_lock);
    wr_code rc = plan_expiry(t, &j, err);
    pthread_mutex_unlock(&l->catalog_lock);
    if (rc == WR_OK && !j) rc = plan_compaction(t, all, &j, err);
    if (rc != WR_OK || !j) return rc;
    *ret_any = true;
    WR_TRY(start(l, j, err));
    job_join(j);
    if (j->rc != WR_OK) *err = j->err, rc = j->rc;
    while (rc == WR_OK && l->job) rc = finish(l, ret_changed, err);
    if (rc != WR_OK) wr_job_cancel(l, NULL);
    return rc;
}

wr_code wr_table_optimize(wr_table *t, bool all, wr_err *err) {
    wr_lake *l = t->lake;
    uint64_t offset;
    int64_t event_us;
    wr_pos pos = {0};
    if (t->loading) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s.%s is being loaded: the sync goes on with that first", t->ns, t->name);
    WR_TRY(wr_table_open_files(t, err));
    WR_TRY(wr_lake_progress(l, &offset, &pos, &event_us, err));
    wr_code rc = WR_OK;
    for (bool any = true; rc == WR_OK && any;) {
        bool changed = any = false;
        rc = one_job(t, all, &changed, &any, err);
        if (rc == WR_OK && changed) rc = wr_lake_commit(l, offset, &pos, event_us, err);
    }
    wr_pos_clear(&pos);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "optimizing %s.%s", t->ns, t->name);
}
