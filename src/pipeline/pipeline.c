/* Opening, running and closing a pipeline. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "impl.h"
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define COMMIT_EVERY_US 10000000
#define COMMIT_BYTES (128u << 20)
#define RELOAD_ATTEMPTS 12
#define LOCK_PATIENCE_US 3000000
#define FLUSH_US 1000000

static wr_code no_such(wr_err *err, const char *what) { return wr_nomem(err, what, 256); }

/* ------------------------------------------------------------------ the server that is followed */
wr_code wr_followed_read(wr_state *state, wr_followed *ret, wr_err *err) {
    WR_AUTO char *epoch = NULL;
    *ret = (wr_followed){0};
    WR_TRY(wr_state_get(state, "source.epoch", &epoch, err));
    WR_TRY(wr_state_get(state, "source.identity", &ret->identity, err));
    ret->known = (wr_source_known){.identity = ret->identity, .epoch = epoch ? (uint32_t)strtoul(epoch, NULL, 10) : 0};
    return WR_OK;
}

void wr_followed_clear(wr_followed *f) {
    wr_free(f->identity);
    wr_pos_clear(&f->last);
    *f = (wr_followed){0};
}

/* Before anything of the new server is taken: an epoch that is too high only has the stream begin by GTID. What is known of binlog files is another server's. */
static wr_code remember_server(wr_pipeline *p, const wr_followed *f, const wr_source *s, wr_err *err) {
    const char *now = wr_source_identity(s);
    if (f->identity && !strcmp(f->identity, now)) return WR_OK;
    if (f->known.epoch != wr_source_epoch(s)) {
        wr_fact facts[] = {{.key = "source.epoch"}, {.key = "source.binlog"}, {.key = "source.binlog.before"}};
        snprintf(facts[0].value, sizeof facts[0].value, "%u", wr_source_epoch(s));
        WR_TRY(wr_state_set_all(p->state, facts, (int)(sizeof facts / sizeof *facts), err));
        wr_log(WR_LOG_WARN, "the source is now %s at %s; it was %s", now, wr_source_address(s), f->identity);
    }
    return wr_state_set(p->state, "source.identity", now, err);
}

/* The queue's positions mean something in one cluster's history only, and its files and offsets on one server. */
static wr_code open_source(wr_pipeline *p, wr_queue *q, const char *xa, wr_source **ret, wr_err *err) {
    wr_source_options o = p->o.source;
    wr_followed f = {0};
    wr_source *s = NULL;
    uint64_t off;
    bool asked = false;
    wr_code rc = wr_followed_read(p->state, &f, err);
    if (rc == WR_OK) rc = wr_queue_last(q, &off, &f.last, err);
    f.known.gtid_set = f.last.gtid_set;
    o.known = f.identity && (f.last.file[0] || !wr_source_is_several(&o)) ? &f.known : NULL; /* nothing captured: any server will do */
    o.spool_dir = xa;
    if (rc == WR_OK) rc = wr_gap_asked(p->home, &asked, err);
    o.behind_gap |= asked;
    if (rc == WR_OK) rc = wr_source_open(&o, &s, err);
    if (rc == WR_OK) rc = remember_server(p, &f, s, err);
    wr_followed_clear(&f);
    if (rc != WR_OK) return wr_source_close(s), rc;
    *ret = s;
    return WR_OK;
}

/* Servers that do not answer take their time: those who only look see none until there is one. */
static wr_code open_followed(wr_pipeline *p, wr_err *err) {
    WR_AUTO char *queue = wr_path_join(p->home, "queue"), *xa = wr_path_join(p->home, "xa");
    wr_queue *q = NULL;
    wr_source *s = NULL;
    if (!queue || !xa) return no_such(err, "pipeline");
    WR_TRY(wr_queue_open(queue, &p->o.queue, &q, err));
    wr_code rc = open_source(p, q, xa, &s, err);
    if (rc != WR_OK) return wr_queue_close(q), rc;
    pthread_mutex_lock(&p->open_lock);
    p->queue = q, p->source = s;
    pthread_mutex_unlock(&p->open_lock);
    return WR_OK;
}

static void close_followed(wr_pipeline *p) {
    pthread_mutex_lock(&p->open_lock);
    wr_apply_close(p);
    wr_queue_close(p->queue);
    wr_account_close(p);
    wr_source_close(p->source);
    p->queue = NULL, p->source = NULL;
    pthread_mutex_unlock(&p->open_lock);
}

static wr_code check_pipeline(wr_pipeline *p, wr_err *err) {
    WR_AUTO char *known = NULL;
    WR_TRY(wr_state_get(p->state, "pipeline.name", &known, err));
    if (!known) return wr_state_set(p->state, "pipeline.name", p->o.name, err);
    if (!strcmp(known, p->o.name)) return WR_OK;
    wr_fail(err, WR_E_CONFLICT, WR_RETRY_NO, "%s belongs to pipeline '%s', not to '%s'", p->home, known, p->o.name);
    return wr_err_cure(err, "set name: %s, or another home", known);
}

/* A process that was just killed may still be dying: its lock goes with it. There is no event to wait for but the lock itself. */
static wr_code take_lock(const char *path, wr_lock **ret_lock, wr_err *err) {
    int64_t until = wr_mono_us() + LOCK_PATIENCE_US;
    for (;;) {
        wr_code rc = wr_lock_take(path, ret_lock, err);
        if (rc != WR_E_BUSY) return rc;
        if (wr_mono_us() > until) return wr_err_cure(err, "stop that process, or wait for it: one pipeline has one writer");
        wr_err_clear(err);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
}

wr_code wr_pipeline_store(const wr_pipeline_options *o, wr_store **ret_store, wr_err *err) {
    WR_AUTO char *cache = wr_path_join(o->home, "cache");
    return cache ? wr_store_open(&(wr_store_options){.s3 = o->s3, .cache_dir = cache, .cache_bytes = o->cache_bytes}, ret_store, err) : no_such(err, "store");
}

wr_code wr_pipeline_new(const wr_pipeline_options *o, wr_pipeline **ret, wr_err *err) {
    wr_pipeline *p = wr_calloc(1, sizeof *p);
    if (!p) return no_such(err, "pipeline");
    p->o = *o;
    if (!p->o.snapshot_parallel) p->o.snapshot_parallel = 2;
    if (!p->o.commit_every_us) p->o.commit_every_us = COMMIT_EVERY_US;
    if (!p->o.commit_bytes) p->o.commit_bytes = COMMIT_BYTES;
    pthread_mutex_init(&p->lock_mu, NULL);
    pthread_mutex_init(&p->progress_lock, NULL);
    pthread_mutex_init(&p->status_lock, NULL);
    pthread_mutexattr_t again;
    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&p->open_lock, &again);
    pthread_mutexattr_destroy(&again);
    wr_cond_init(&p->wake);
    p->run_state = "starting";
    p->home = wr_strdup(o->home);
    p->warehouse = o->warehouse ? wr_strdup(o->warehouse) : wr_path_join(o->home, "warehouse");
    p->o.queue.tap = wr_account_tap(p);
    if (!p->home || !p->warehouse) return wr_pipeline_close(p), no_such(err, "pipeline");
    *ret = p;
    return WR_OK;
}

/* From here on it is this process that says what becomes of the pipeline. */
static wr_code take_home(wr_pipeline *p, wr_open_purpose what_for, wr_err *err) {
    WR_AUTO char *path = wr_path_join(p->home, "lock");
    wr_lock *lock;
    if (!path) return no_such(err, "pipeline");
    WR_TRY(wr_mkdirs(p->home, err));
    WR_TRY(take_lock(path, &lock, err));
    pthread_mutex_lock(&p->lock_mu);
    p->lock = lock;
    if (what_for == WR_OPEN_TO_RUN && !p->asked) wr_watch_open(p);
    pthread_mutex_unlock(&p->lock_mu);
    return WR_OK;
}

static wr_code open_rest(wr_pipeline *p, wr_err *err) {
    const wr_pipeline_options *o = &p->o;
    WR_AUTO char *state = wr_path_join(p->home, "state.db");
    if (!state) return no_such(err, "pipeline");
    WR_TRY(wr_routes_new(o->merge, o->nmerge, &p->routes, err));
    WR_TRY(wr_state_open(state, &p->state, err));
    WR_TRY(check_pipeline(p, err));
    WR_TRY(wr_decisions_open(p, err));
    WR_TRY(open_followed(p, err));
    WR_TRY(wr_engine_open(NULL, &p->engine, err));
    WR_TRY(wr_pipeline_store(o, &p->store, err));
    return o->transform.nrules ? wr_rules_new(p->engine, &o->transform, &p->rules, err) : WR_OK;
}

/* Unless a stop has told it already. */
static void tell_end(wr_pipeline *p, wr_code rc, const wr_err *err) {
    pthread_mutex_lock(&p->lock_mu);
    bool told = p->left;
    if (!told && rc != WR_OK) p->apply_err = *err;
    if (!told) p->run_state = rc == WR_OK ? "stopped" : "failed";
    pthread_mutex_unlock(&p->lock_mu);
    if (told) return;
    if (rc != WR_OK) wr_watch_failed(p, err);
    wr_status_write(p);
}

wr_code wr_pipeline_open(wr_pipeline *p, wr_open_purpose what_for, wr_err *err) {
    WR_TRY(take_home(p, what_for, err));
    wr_code rc = open_rest(p, err);
    if (rc != WR_OK && what_for == WR_OPEN_TO_RUN) tell_end(p, rc, err);
    return rc;
}

/* ------------------------------------------------------------------ looking before the first row is read */
typedef struct preview {
    const wr_check_sink *sink;
    wr_rules *rules;
    const wr_routes *routes;
    const wr_layouts *layouts;
} preview;

static void pass_on(void *ctx, const wr_finding *f) {
    const preview *v = ctx;
    v->sink->finding(v->sink->ctx, f);
}

/* What the configuration says and the table cannot do. */
static void refuse(const preview *v, const char *id, const char *consequence, wr_err *err) {
    wr_finding f = {.severity = WR_FINDING_STOPS, .id = id};
    snprintf(f.what, sizeof f.what, "%.*s", (int)sizeof f.what - 1, err->msg);
    snprintf(f.consequence, sizeof f.consequence, "%s", consequence);
    snprintf(f.cure, sizeof f.cure, "%s", err->cure[0] ? err->cure : "correct the rule; docs/transforms.md says what it can be");
    wr_err_clear(err);
    v->sink->finding(v->sink->ctx, &f);
}

/* A member of a merged table stands for all of them. */
static wr_code try_layout(const preview *v, const wr_ddl *d, const wr_schema *shape, wr_err *err) {
    wr_route to = wr_routes_find(v->routes, d->db, d->name);
    wr_schema *merged = NULL;
    if (to.merged) WR_TRY(wr_merge_schema(&shape, 1, NULL, &merged, err));
    wr_code rc = wr_layouts_check(v->layouts, to.ns, to.name, merged ? merged : shape, err);
    wr_schema_unref(merged);
    if (rc != WR_E_CONFIG) return rc;
    return refuse(v, "layout", "the sync stops when it comes to this table", err), WR_OK;
}

static wr_code try_table(void *ctx, const wr_ddl *d, wr_err *err) {
    const preview *v = ctx;
    wr_transform *t = NULL;
    wr_code rc = v->rules ? wr_transform_new(v->rules, d->db, d->name, d->schema, &t, err) : WR_OK;
    if (rc == WR_E_CONFIG) return refuse(v, "transform", "no row of the table can become a row of the lake", err), WR_OK;
    if (rc == WR_OK) rc = try_layout(v, d, t ? wr_transform_schema(t) : d->schema, err);
    wr_transform_free(t);
    return rc;
}

static wr_code look(wr_source *s, preview *v, wr_err *err) {
    return wr_source_check(s, &(wr_check_sink){.ctx = v, .finding = pass_on, .table = try_table}, err);
}

/* The server that is spoken of: the one that the sync follows; when none runs, or it has just lost that one, the one where it would go on. */
static wr_code open_checked(const wr_pipeline_options *o, wr_source **ret, wr_err *err) {
    wr_source_options so = o->source;
    wr_status_file st = {0};
    WR_AUTO char *identity = NULL;
    wr_source_known known = {0};
    wr_err e = WR_ERR_INIT; /* it has never run */
    if (wr_status_read(o->home, &st, &e) == WR_OK && wr_status_followed(&st, &identity, &known.epoch, &e) == WR_OK && st.captured.file[0]) {
        known.identity = identity, known.gtid_set = st.captured.gtid_set, known.only = st.running;
        so.known = &known;
    }
    wr_code rc = wr_source_open(&so, ret, err);
    if (rc != WR_OK && known.only) {
        known.only = false;
        wr_err_clear(err);
        rc = wr_source_open(&so, ret, err);
    }
    wr_status_clear(&st);
    return rc;
}

/* Of several servers. */
static void tell_server(const wr_source *s, void (*fn)(void *ctx, const wr_finding *f), void *ctx) {
    wr_finding f = {.severity = WR_FINDING_NOTES, .id = "server"};
    snprintf(f.what, sizeof f.what, "what is found is that of %s (%s)", wr_source_address(s), wr_source_identity(s));
    snprintf(f.consequence, sizeof f.consequence, "it is the one that is followed, or would be by a sync that starts now");
    snprintf(f.cure, sizeof f.cure, "nothing to do");
    fn(ctx, &f);
}

wr_code wr_pipeline_check(const wr_pipeline_options *o, void (*fn)(void *ctx, const wr_finding *f), void *ctx, wr_err *err) {
    const wr_check_sink sink = {.ctx = ctx, .finding = fn};
    wr_source *s = NULL;
    wr_engine *e = NULL;
    wr_rules *rules = NULL;
    wr_routes *routes = NULL;
    wr_layouts *layouts = NULL;
    wr_code rc = wr_engine_open(NULL, &e, err);
    if (rc == WR_OK && o->transform.nrules) rc = wr_rules_new(e, &o->transform, &rules, err);
    if (rc == WR_OK) rc = wr_routes_new(o->merge, o->nmerge, &routes, err);
    if (rc == WR_OK) rc = wr_layouts_new(o->layout, o->nlayout, &layouts, err);
    if (rc == WR_OK) rc = open_checked(o, &s, err);
    if (rc == WR_OK && wr_source_is_several(&o->source)) tell_server(s, fn, ctx);
    if (rc == WR_OK) rc = look(s, &(preview){&sink, rules, routes, layouts}, err);
    if (rc == WR_OK) wr_retention_find(s, o->home, fn, ctx, err);
    wr_source_close(s);
    wr_layouts_free(layouts);
    wr_routes_free(routes);
    wr_rules_free(rules);
    wr_engine_close(e);
    return rc;
}

static void first_stop(void *ctx, const wr_finding *f) {
    wr_err *err = ctx;
    if (f->severity != WR_FINDING_STOPS || err->code) return;
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "%.480s: %.500s", f->what, f->consequence);
    wr_err_cure(err, "%s", f->cure);
}

/* What `weir check` would say stops a sync does stop it, before the first row is read. Later the stream itself finds out. */
static wr_code preflight(wr_pipeline *p, wr_err *err) {
    wr_err found = WR_ERR_INIT;
    const wr_check_sink sink = {.ctx = &found, .finding = first_stop};
    wr_layouts *layouts;
    WR_TRY(wr_layouts_new(p->o.layout, p->o.nlayout, &layouts, err));
    wr_code rc = look(p->source, &(preview){&sink, p->rules, p->routes, layouts}, err);
    wr_layouts_free(layouts);
    WR_TRY(rc);
    if (found.code) *err = found;
    return found.code;
}

void wr_pipeline_close(wr_pipeline *p) {
    if (!p) return;
    close_followed(p);
    wr_state_close(p->state);
    wr_rules_free(p->rules);
    wr_engine_close(p->engine);
    wr_store_close(p->store);
    wr_routes_free(p->routes);
    wr_watch_close(p);
    wr_lock_release(p->lock);
    wr_buf_free(&p->row), wr_buf_free(&p->row2), wr_buf_free(&p->enc);
    wr_pos_clear(&p->committed), wr_pos_clear(&p->join_at);
    wr_free(p->tables_json), wr_free(p->findings_json);
    wr_decisions_close(p);
    wr_free(p->home), wr_free(p->warehouse);
    pthread_mutex_destroy(&p->lock_mu);
    pthread_mutex_destroy(&p->progress_lock);
    pthread_mutex_destroy(&p->status_lock);
    pthread_mutex_destroy(&p->open_lock);
    pthread_cond_destroy(&p->wake);
    wr_free(p);
}

/* Who is in the middle of an event, or of a chunk of a load, does not wait for the rest of it. */
static void hurry(wr_pipeline *p, bool loading) {
    pthread_mutex_lock(&p->open_lock);
    if (p->source) (loading ? wr_source_cut : wr_source_cut_stream)(p->source);
    pthread_mutex_unlock(&p->open_lock);
}

bool wr_pipeline_stop(wr_pipeline *p) {
    pthread_mutex_lock(&p->lock_mu);
    p->asked = p->stop = true;
    bool wait = p->at_work, loading = p->loading, ours = p->lock;
    if (!wait) {
        p->left = true;
        p->run_state = "stopped";
        wr_alarms_run_ended(p->alarms, false);
    }
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock_mu);
    if (wait) return hurry(p, loading), true;
    if (ours) wr_status_write(p);
    wr_alarms_flush(p->alarms, FLUSH_US);
    return false;
}

/* Three places must agree: the queue may be ahead of the lake, never behind it, and the state is cut to what the queue holds. */
static wr_code reconcile(wr_pipeline *p, wr_pos *ret_last, wr_err *err) {
    uint64_t last, lake_offset;
    wr_pos lake_pos = {0};
    int64_t ts;
    WR_TRY(wr_queue_last(p->queue, &last, ret_last, err));
    WR_TRY(wr_state_schema_truncate(p->state, last, err));
    WR_TRY(wr_apply_open(p, err));
    WR_TRY(wr_lake_progress(p->lake, &lake_offset, &lake_pos, &ts, err));
    wr_pos_clear(&lake_pos);
    if (lake_offset > last) {
        wr_fail(err, WR_E_CONFLICT, WR_RETRY_NO, "the lake holds transactions up to %" PRIu64 ", but the queue in %s/queue ends at %" PRIu64 ": the queue was lost or replaced", lake_offset, p->home, last);
        return wr_err_cure(err, "restore the queue folder; or move %s and the warehouse away and load everything again", p->home);
    }
    WR_TRY(wr_gap_open(p, last, err));
    return wr_account_open(p, last, err);
}

/* Waits attempt-dependent time; false when asked to stop. */
static bool back_off(wr_pipeline *p, int attempt) {
    int64_t until = wr_mono_us() + (100000ll << (attempt < 6 ? attempt : 6));
    while (!p->stop && wr_mono_us() < until) {
        wr_beat(p, BEAT_APPLY);
        struct timespec ts = wr_cond_until(100);
        pthread_mutex_lock(&p->lock_mu);
        pthread_cond_timedwait(&p->wake, &p->lock_mu, &ts);
        pthread_mutex_unlock(&p->lock_mu);
    }
    return !p->stop;
}

/* Asked to stop, and the last commit was not made. A foreign commit that came first is no failure: nothing is lost, and the next start takes it in. What needs somebody's hand (a full disk) is one. */
static wr_code leave_uncommitted(const wr_pipeline *p, wr_code rc, wr_err *err) {
    if (!p->asked || rc != WR_E_CONFLICT) return rc;
    wr_log(WR_LOG_WARN, "lake: %s; stopping without this commit: the next start goes on from the last one (offset %" PRIu64 ")", err->msg, p->committed_offset);
    wr_err_clear(err);
    return WR_OK;
}

/* Applies until done; a fault of the lake that may pass (disk full, a foreign commit) is met by going back to the last commit. */
static wr_code apply_with_reload(wr_pipeline *p, const wr_pos *until, wr_err *err) {
    uint64_t stuck_at = 0;
    for (int attempt = 0;; attempt++) {
        wr_code rc = wr_apply_run(p, until, err);
        if (rc == WR_OK || err->retry == WR_RETRY_NO) return rc;
        if (p->stop) return leave_uncommitted(p, rc, err);
        if (p->committed_offset != stuck_at) attempt = 0, stuck_at = p->committed_offset;
        if (until && attempt >= RELOAD_ATTEMPTS) return rc;
        wr_log(WR_LOG_WARN, "lake: %s; going back to the last commit (offset %" PRIu64 ")", err->msg, p->committed_offset);
        pthread_mutex_lock(&p->lock_mu);
        p->apply_err = *err;
        pthread_mutex_unlock(&p->lock_mu);
        for (;;) {
            wr_apply_close(p);
            if (!back_off(p, attempt)) return leave_uncommitted(p, rc, err);
            wr_err again = WR_ERR_INIT;
            if (wr_apply_open(p, &again) == WR_OK) break;
            if (again.retry == WR_RETRY_NO) return *err = again, again.code;
            if (until && ++attempt >= RELOAD_ATTEMPTS) return *err = again, again.code;
        }
        pthread_mutex_lock(&p->lock_mu);
        wr_err_clear(&p->apply_err);
        pthread_mutex_unlock(&p->lock_mu);
        wr_err_clear(err);
    }
}

/* Wakes who waits here, and if `cut` who waits for a server. */
static void leave_servers(wr_pipeline *p, bool cut) {
    if (cut) wr_source_cut(p->source);
    pthread_mutex_lock(&p->lock_mu);
    if (cut && p->prove_source) wr_source_cut(p->prove_source);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock_mu);
}

/* Nobody waits any longer for the server that is left: what it was asked would be asked again elsewhere. */
void wr_pipeline_move(wr_pipeline *p) {
    p->moving = true;
    p->stop = true;
    leave_servers(p, true);
}

void wr_pipeline_join(wr_pipeline *p, pthread_t thread, bool *started, bool *stop) {
    if (!*started) return;
    pthread_mutex_lock(&p->lock_mu);
    *stop = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock_mu);
    pthread_join(thread, NULL);
    *started = *stop = false;
}

/* false: asked to stop before there was anything in hand. */
static bool begin_work(wr_pipeline *p) {
    pthread_mutex_lock(&p->lock_mu);
    p->at_work = !p->asked;
    if (p->at_work) p->run_state = "streaming";
    bool go = p->at_work;
    pthread_mutex_unlock(&p->lock_mu);
    return go;
}

/* From the last commit on, at the server that is open. */
static wr_code run_there(wr_pipeline *p, wr_run_mode mode, wr_err *err) {
    wr_pos last = {0}, until = {0};
    wr_code rc = WR_OK;
    if (mode == WR_RUN_UNTIL_CURRENT) rc = wr_source_current(p->source, &p->o.source, &until, err);
    if (rc == WR_OK) rc = reconcile(p, &last, err);
    if (rc == WR_OK) {
        uint64_t off;
        wr_pos ignored = {0};
        rc = wr_queue_last(p->queue, &off, &ignored, err);
        wr_pos_clear(&ignored);
        if (rc == WR_OK) rc = wr_capture_restore(p, off, err);
    }
    if (rc == WR_OK && !last.file[0]) rc = preflight(p, err);
    if (rc == WR_OK) rc = wr_account_start(p, err);
    if (rc == WR_OK) rc = wr_capture_start(p, &last, err);
    if (rc == WR_OK) rc = wr_prove_start(p, err);
    if (rc == WR_OK) rc = wr_inspect_start(p, err);
    wr_pos_clear(&last);
    if (rc == WR_OK && begin_work(p)) {
        wr_watch_start(p);
        rc = apply_with_reload(p, mode == WR_RUN_UNTIL_CURRENT ? &until : NULL, err);
    }
    wr_pos_clear(&until);
    p->stop = true;
    leave_servers(p, p->asked);
    wr_capture_join(p);
    wr_prove_stop(p);
    wr_inspect_stop(p);
    wr_account_stop(p, rc == WR_OK && mode == WR_RUN_UNTIL_CURRENT && !p->moving);
    return rc;
}

/* Another server of the source: everything that was made of the last one's connections and positions is put down, and taken up from what is durable, as after a restart. */
static wr_code move(wr_pipeline *p, wr_err *err) {
    pthread_mutex_lock(&p->lock_mu);
    p->at_work = false;
    p->run_state = "reconnecting";
    pthread_mutex_unlock(&p->lock_mu);
    close_followed(p);
    wr_retention_forget(p);
    wr_inspect_forget(p);
    for (int attempt = 0;; attempt++) {
        wr_err_clear(err);
        wr_code rc = open_followed(p, err);
        pthread_mutex_lock(&p->lock_mu);
        p->capture_err = *err;
        wr_err_clear(&p->apply_err);
        pthread_mutex_unlock(&p->lock_mu);
        p->stop = p->asked;
        if (rc == WR_OK || err->retry == WR_RETRY_NO || !back_off(p, attempt)) break;
    }
    wr_pos_clear(&p->join_at);
    p->patterns_checked = false, p->ddl_seq = 0;
    pthread_mutex_lock(&p->lock_mu);
    p->moving = p->capture_ended = p->reconnecting = p->verified = false;
    p->join_offset = 0;
    pthread_mutex_unlock(&p->lock_mu);
    if (p->asked) p->stop = true; /* asked in between */
    return err->code;
}

wr_code wr_pipeline_run(wr_pipeline *p, wr_run_mode mode, wr_err *err) {
    wr_code rc = wr_status_start(p, err);
    while (rc == WR_OK) {
        rc = run_there(p, mode, err);
        if (!p->moving || p->asked || (rc != WR_OK && err->retry == WR_RETRY_NO)) break;
        rc = move(p, err);
        if (p->asked) {
            rc = WR_OK;
            break;
        }
    }
    wr_watch_stop(p);
    wr_status_stop(p);
    tell_end(p, rc, err);
    return rc;
}
