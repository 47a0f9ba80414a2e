/* Snapshots: reading source tables into the load branch of their lake table, in parallel and resumably.
 *
 * A worker reads chunks of a key range into a writer of its own, which writes data files now and then. What a commit says about progress
 * must be exactly what its files hold, so files are handed over and the range's cursor moves in one step under progress_lock, and a commit
 * holds it too.
 */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "impl.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define SEAL_BYTES (32u << 20)       /* rows waiting in one worker's memory */
#define CHUNK_BYTES (8u << 20)       /* aim of one SELECT */
#define CHUNK_US 1000000             /* and where rows come slowly, e.g. because they are asked to (snapshot.rows_per_second) */
#define CHUNK_ROWS_MIN 2000
#define CHUNK_ROWS_MAX 200000
#define SPLIT_ROWS 100000            /* smaller tables are one range */
#define MAX_ATTEMPTS 8

/* ------------------------------------------------------------------ load info: what a load's commits say of its progress */
static void add_pos(cJSON *o, const char *key, const wr_pos *pos) {
    if (!pos->file[0]) return;
    cJSON *c = cJSON_AddObjectToObject(o, key);
    char n[24];
    snprintf(n, sizeof n, "%" PRIu64, pos->offset);
    cJSON_AddStringToObject(c, "file", pos->file);
    cJSON_AddStringToObject(c, "offset", n);
    if (pos->epoch) cJSON_AddNumberToObject(c, "epoch", pos->epoch);
}

static void get_pos(const cJSON *o, const char *key, wr_pos *pos) {
    const cJSON *c = cJSON_GetObjectItemCaseSensitive(o, key);
    const char *f = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(c, "file")), *n = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(c, "offset"));
    if (!f || !n) return;
    snprintf(pos->file, sizeof pos->file, "%s", f);
    pos->offset = strtoull(n, NULL, 10);
    const cJSON *epoch = cJSON_GetObjectItemCaseSensitive(c, "epoch");
    if (cJSON_IsNumber(epoch)) pos->epoch = (uint32_t)epoch->valuedouble;
}

static const char *const phase_names[] = {[PHASE_STREAM] = "stream", [PHASE_LOAD] = "load", [PHASE_REPLAY] = "replay", [PHASE_WAIT] = "wait"};

wr_code wr_load_info(const target *t, char **ret_json, wr_err *err) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "phase", phase_names[t->phase]);
    if (t->epoch) cJSON_AddNumberToObject(o, "epoch", t->epoch);
    add_pos(o, "from", &t->from);
    cJSON *ms = cJSON_AddArrayToObject(o, "members");
    for (int i = 0; i < t->nmembers; i++) {
        const member *m = t->members[i];
        cJSON *c = cJSON_CreateObject();
        cJSON_AddNumberToObject(c, "table", m->id);
        cJSON_AddBoolToObject(c, "exact", m->exact);
        bool secret = m->transform && wr_transform_hides_key(m->transform); /* this text is in the lake for all to read: no masked keys in it, so such a load cannot go on from its middle either */
        if ((m->load_refused || (secret && m->nranges)) && t->phase == PHASE_LOAD) cJSON_AddBoolToObject(c, "refused", true);
        cJSON_AddNumberToObject(c, "rows", (double)__atomic_load_n(&m->rows_loaded, __ATOMIC_RELAXED));
        add_pos(c, "until", &m->until);
        cJSON *rs = cJSON_AddArrayToObject(c, "ranges");
        for (int k = 0; !secret && k < m->nranges; k++) {
            cJSON *r = cJSON_CreateObject();
            if (m->ranges[k].after) cJSON_AddStringToObject(r, "after", m->ranges[k].after);
            if (m->ranges[k].upto) cJSON_AddStringToObject(r, "upto", m->ranges[k].upto);
            cJSON_AddBoolToObject(r, "done", m->ranges[k].done);
            cJSON_AddItemToArray(rs, r);
        }
        cJSON_AddItemToArray(ms, c);
    }
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    char *copy = text ? wr_strdup(text) : NULL;
    cJSON_free(text);
    if (!copy) return wr_nomem(err, "load info", 4096);
    *ret_json = copy;
    return WR_OK;
}

static member *member_of(target *t, double id) {
    for (int i = 0; i < t->nmembers; i++)
        if ((double)t->members[i]->id == id) return t->members[i];
    return NULL;
}

wr_code wr_load_parse(target *t, const char *json, wr_err *err) {
    cJSON *o = cJSON_Parse(json);
    const char *ph = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "phase"));
    t->phase = PHASE_LOAD;
    for (unsigned i = 0; ph && i < sizeof phase_names / sizeof *phase_names; i++)
        if (!strcmp(ph, phase_names[i])) t->phase = (phase)i;
    const cJSON *c;
    get_pos(o, "from", &t->from);
    c = cJSON_GetObjectItemCaseSensitive(o, "epoch");
    t->epoch = cJSON_IsNumber(c) ? (uint32_t)c->valuedouble : 0;
    cJSON_ArrayForEach(c, cJSON_GetObjectItemCaseSensitive(o, "members")) {
        member *m = member_of(t, cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(c, "table")));
        if (!m) continue;
        const cJSON *rs = cJSON_GetObjectItemCaseSensitive(c, "ranges"), *r;
        m->exact = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(c, "exact"));
        m->load_refused = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(c, "refused"));
        m->rows_loaded = (uint64_t)cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(c, "rows"));
        get_pos(c, "until", &m->until);
        m->ranges = wr_calloc((size_t)cJSON_GetArraySize(rs) + 1, sizeof *m->ranges);
        if (!m->ranges) return cJSON_Delete(o), wr_nomem(err, "load info", 4096);
        cJSON_ArrayForEach(r, rs) {
            const char *a = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(r, "after")), *u = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(r, "upto"));
            m->ranges[m->nranges++] = (range){a ? wr_strdup(a) : NULL, u ? wr_strdup(u) : NULL, cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(r, "done"))};
        }
    }
    if (!o) wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "lake table %s.%s: property weir.load of its load branch is not JSON", t->ns, t->name);
    cJSON_Delete(o);
    return o ? WR_OK : err->code;
}

void wr_member_reset_load(member *m) {
    for (int i = 0; i < m->nranges; i++) wr_free(m->ranges[i].after), wr_free(m->ranges[i].upto);
    wr_free(m->ranges);
    m->ranges = NULL, m->nranges = 0;
    m->rows_loaded = m->rows_estimated = 0;
    m->exact = m->load_refused = false;
    wr_pos_clear(&m->until);
}

/* ------------------------------------------------------------------ workers */
typedef struct job { member *m; int range; /* -1 = plan the member first, and take one of its ranges */ } job;

typedef struct crew {
    wr_pipeline *p;
    pthread_mutex_t lock;   /* guards everything below */
    pthread_cond_t more;
    job *jobs; int njobs, cap;
    int working;
    wr_err err;             /* the first failure that ends the whole load */
    bool failed;
    target **mismatched; int nmismatched; /* their definition is not the queue's: PHASE_WAIT */
} crew;

static bool gave_up(void *ctx) {
    crew *c = ctx;
    pthread_mutex_lock(&c->lock);
    bool f = c->failed;
    pthread_mutex_unlock(&c->lock);
    return f || c->p->stop;
}

static bool is_mismatched(crew *c, const target *t) {
    bool hit = false;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < c->nmismatched; i++) hit |= c->mismatched[i] == t;
    pthread_mutex_unlock(&c->lock);
    return hit;
}

static bool push_job(crew *c, job j) {
    pthread_mutex_lock(&c->lock);
    bool ok = true;
    if (c->njobs == c->cap) {
        int cap = c->cap ? c->cap * 2 : 64;
        job *n = wr_realloc(c->jobs, (size_t)cap * sizeof *n);
        if (n) c->jobs = n, c->cap = cap;
        else ok = false;
    }
    if (ok) c->jobs[c->njobs++] = j;
    pthread_cond_signal(&c->more);
    pthread_mutex_unlock(&c->lock);
    return ok;
}

/* Jobs come from the end, so that a table once begun is finished before the next is planned. */
static bool pop_job(crew *c, job *ret) {
    pthread_mutex_lock(&c->lock);
    while (!c->njobs && c->working && !c->failed && !c->p->stop) pthread_cond_wait(&c->more, &c->lock);
    bool ok = c->njobs && !c->failed && !c->p->stop;
    if (ok) *ret = c->jobs[--c->njobs], c->working++;
    pthread_mutex_unlock(&c->lock);
    return ok;
}

static void job_done(crew *c) {
    pthread_mutex_lock(&c->lock);
    c->working--;
    pthread_cond_broadcast(&c->more);
    pthread_mutex_unlock(&c->lock);
}

typedef struct reading { crew *c; member *m; wr_load_writer *w; wr_shaper shaper; uint64_t rows, bytes; /* of the source */ int64_t sealed_us; } reading;

static wr_code take_row(void *ctx, wr_slice row, wr_err *err) {
    reading *r = ctx;
    if (r->c->p->stop) return wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "stopped");
    r->rows++, r->bytes += row.n;
    __atomic_add_fetch(&r->m->rows_loaded, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&r->c->p->load_rows, 1, __ATOMIC_RELAXED);
    return wr_shaper_row(&r->shaper, row, err);
}

/* A keyless table comes in one piece, and a chunk's first rows may be longer than all before: files are written on the way and handed over when the last row is there. */
static wr_code take_row_sealing(void *ctx, wr_slice row, wr_err *err) {
    reading *r = ctx;
    WR_TRY(take_row(ctx, row, err));
    return wr_load_writer_bytes(r->w) > SEAL_BYTES ? wr_load_writer_seal(r->w, err) : WR_OK;
}

static wr_code commit_progress(wr_pipeline *p, target *t, wr_err *err) {
    WR_AUTO char *info = NULL;
    pthread_mutex_lock(&p->progress_lock);
    wr_code rc = wr_load_info(t, &info, err);
    if (rc == WR_OK) rc = wr_table_load_commit(t->table, info, err);
    t->load_committed_us = wr_mono_us();
    pthread_mutex_unlock(&p->progress_lock);
    return rc;
}

/* Seals what was read up to `after` (NULL = the range's end) and moves the range there. */
static wr_code seal_range(wr_pipeline *p, reading *r, range *g, const char *after, wr_err *err) {
    char *copy = after ? wr_strdup(after) : NULL;
    if (after && !copy) return wr_nomem(err, "key", strlen(after));
    wr_code rc = wr_load_writer_seal(r->w, err);
    pthread_mutex_lock(&p->progress_lock);
    if (rc == WR_OK) rc = wr_load_writer_hand_over(r->w, err);
    if (rc == WR_OK) {
        wr_free(g->after);
        g->after = copy;
        g->done = !after;
        copy = NULL;
    }
    bool due = wr_mono_us() - r->m->target->load_committed_us > p->o.commit_every_us;
    pthread_mutex_unlock(&p->progress_lock);
    wr_free(copy);
    if (rc == WR_OK && due) rc = commit_progress(p, r->m->target, err);
    if (rc == WR_OK && WR_FAULT("load.after_seal")) rc = wr_fail(err, WR_E_IO, WR_RETRY_SOON, "injected: after sealing");
    return rc;
}

/* Rows of the next SELECT, after one of so many rows and bytes that took so long: what is read when Weir dies within one is read again. */
static uint64_t next_chunk(uint64_t chunk, uint64_t rows, uint64_t bytes, int64_t took_us) {
    uint64_t fit = CHUNK_BYTES / (bytes / rows + 1) + 1, in_time = took_us > 0 ? rows * CHUNK_US / (uint64_t)took_us + 1 : fit;
    if (in_time < fit) fit = in_time < CHUNK_ROWS_MIN ? CHUNK_ROWS_MIN : in_time;
    if (fit > chunk * 8) fit = chunk * 8;
    return fit < CHUNK_ROWS_MAX ? fit : CHUNK_ROWS_MAX;
}

static wr_code read_range(crew *c, wr_snap *sn, reading *r, range *g, wr_err *err) {
    wr_pipeline *p = c->p;
    WR_AUTO char *after = g->after ? wr_strdup(g->after) : NULL;
    uint64_t chunk = CHUNK_ROWS_MIN;
    if (g->done) return WR_OK; /* the commit behind its last row has failed, and another one will hold it */
    r->sealed_us = wr_mono_us();
    for (;;) {
        WR_TRY(wr_source_wait_until_calm(c->p->source, gave_up, c, err));
        if (gave_up(c)) return wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "stopped");
        wr_key_range kr = {after, g->upto};
        char *next = NULL;
        uint64_t rows = r->rows, bytes = r->bytes;
        int64_t began_us = wr_mono_us();
        WR_TRY(wr_snap_chunk(sn, &kr, chunk, take_row_sealing, r, &next, err));
        WR_TRY(wr_shaper_flush(&r->shaper, err));
        wr_free(after);
        after = next;
        rows = r->rows - rows;
        bytes = r->bytes - bytes; /* not what is left of them: rules may pass few rows, or little of each */
        int64_t now_us = wr_mono_us();
        if (rows && bytes) chunk = next_chunk(chunk, rows, bytes, now_us - began_us);
        if (!after || now_us - r->sealed_us > p->o.commit_every_us || wr_load_writer_bytes(r->w) + CHUNK_BYTES > SEAL_BYTES) {
            WR_TRY(seal_range(p, r, g, after, err));
            r->sealed_us = wr_mono_us();
        }
        if (!after) return WR_OK;
    }
}

static wr_code plan(crew *c, member *m, wr_snap *sn, wr_err *err) {
    int parts = c->p->o.snapshot_parallel, n = 0;
    m->rows_estimated = wr_snap_estimate(sn);
    __atomic_add_fetch(&c->p->load_estimate, m->rows_estimated, __ATOMIC_RELAXED);
    if (m->rows_estimated < SPLIT_ROWS) parts = 1;
    WR_AUTO wr_key_range *kr = wr_calloc((size_t)parts, sizeof *kr);
    range *g = wr_calloc((size_t)parts, sizeof *g);
    if (!kr || !g) return wr_free(g), wr_nomem(err, "key ranges", 256);
    wr_code rc = wr_snap_split(sn, parts, kr, &n, err);
    if (rc != WR_OK) return wr_free(g), rc;
    for (int i = 0; i < n; i++) g[i] = (range){kr[i].after, kr[i].upto, false};
    pthread_mutex_lock(&c->p->progress_lock);
    wr_free(m->ranges);
    m->ranges = g, m->nranges = n;
    pthread_mutex_unlock(&c->p->progress_lock);
    return WR_OK;
}

/* One table without a key, or of a merged table without one: as of one exact position. */
static wr_code read_exact(crew *c, wr_snap *sn, reading *r, wr_err *err) {
    wr_pos at = {0};
    WR_TRY(wr_shaper_again(&r->shaper, err));
    WR_TRY(wr_snap_read_all(sn, take_row_sealing, r, &at, err));
    range *g = wr_calloc(1, sizeof *g);
    if (!g) return wr_pos_clear(&at), wr_nomem(err, "key range", sizeof *g);
    wr_code rc = wr_shaper_flush(&r->shaper, err);
    if (rc == WR_OK) rc = wr_load_writer_seal(r->w, err);
    pthread_mutex_lock(&c->p->progress_lock);
    if (rc == WR_OK) rc = wr_load_writer_hand_over(r->w, err);
    if (rc == WR_OK) {
        g->done = true;
        wr_free(r->m->ranges);
        r->m->ranges = g, r->m->nranges = 1;
        r->m->until = at;
        r->m->exact = true;
    } else wr_free(g), wr_pos_clear(&at);
    pthread_mutex_unlock(&c->p->progress_lock);
    return rc;
}

/* The member's open ranges: one becomes this job's, the others are jobs of their own. From then on it is only about its range, also when it is tried again. */
static wr_code share_out(crew *c, job *j, wr_err *err) {
    member *m = j->m;
    for (int i = m->nranges - 1; i >= 0; i--) {
        if (m->ranges[i].done) continue;
        if (j->range >= 0 && !push_job(c, *j)) return wr_nomem(err, "job", sizeof *j);
        j->range = i;
    }
    return WR_OK;
}

static wr_code do_job(crew *c, job *j, wr_err *err) {
    member *m = j->m;
    wr_snap *sn;
    WR_TRY(wr_snap_open(c->p->source, m->def, &sn, err));
    reading r = {.c = c, .m = m};
    wr_code rc = wr_load_writer_new(m->target->table, &r.w, err);
    if (rc == WR_OK) rc = wr_shaper_init(&r.shaper, c->p, m, r.w, err);
    bool exact = wr_table_schema(m->target->table)->nkey == 0;
    if (rc == WR_OK && exact) rc = read_exact(c, sn, &r, err);
    else if (rc == WR_OK) {
        if (j->range < 0 && !m->nranges) rc = plan(c, m, sn, err);
        if (rc == WR_OK && j->range < 0) rc = share_out(c, j, err);
        if (rc == WR_OK && j->range >= 0) rc = read_range(c, sn, &r, &m->ranges[j->range], err);
    }
    wr_load_writer_free(r.w);
    wr_shaper_clear(&r.shaper);
    wr_snap_close(sn);
    return rc;
}

static void note_failure(crew *c, member *m, const wr_err *err) {
    pthread_mutex_lock(&c->lock);
    if (err->code == WR_E_SCHEMA || err->code == WR_E_NOTFOUND) {
        wr_log(WR_LOG_INFO, "load of %s.%s: %s; waiting for the schema change in the stream", m->db, m->name, err->msg);
        target **t = wr_realloc(c->mismatched, ((size_t)c->nmismatched + 1) * sizeof *t);
        if (t) c->mismatched = t, c->mismatched[c->nmismatched++] = m->target, snprintf(m->target->awaited, sizeof m->target->awaited, "%.250s", err->msg);
        else if (!c->failed) c->failed = true, wr_nomem(&c->err, "load", 64);
    } else if (!c->failed) {
        c->failed = true;
        c->err = *err;
        wr_err_in(&c->err, "loading %s.%s", m->db, m->name);
    }
    pthread_cond_broadcast(&c->more);
    pthread_mutex_unlock(&c->lock);
}

static bool retries(crew *c, member *m, const wr_err *err, int attempt) {
    if (err->retry != WR_RETRY_SOON || attempt >= MAX_ATTEMPTS || gave_up(c)) return false;
    wr_log(WR_LOG_WARN, "loading %s.%s: %s; trying again", m->db, m->name, err->msg);
    int64_t until = wr_mono_us() + (200000ll << (attempt < 5 ? attempt : 5));
    struct timespec ts = wr_cond_until((until - wr_mono_us()) / 1000 + 1);
    pthread_mutex_lock(&c->lock);
    while (!c->failed && !c->p->stop && wr_mono_us() < until && pthread_cond_timedwait(&c->more, &c->lock, &ts) == 0) {}
    pthread_mutex_unlock(&c->lock);
    return !gave_up(c);
}

static void *worker(void *arg) {
    crew *c = arg;
    job j;
    while (pop_job(c, &j)) {
        for (int attempt = 0; !is_mismatched(c, j.m->target); attempt++) {
            wr_err err = WR_ERR_INIT;
            int64_t began = wr_mono_us();
            wr_code rc = do_job(c, &j, &err);
            __atomic_add_fetch(&j.m->load_us, wr_mono_us() - began, __ATOMIC_RELAXED);
            if (rc == WR_OK || err.code == WR_E_CANCELLED) break;
            if (retries(c, j.m, &err, attempt)) continue;
            note_failure(c, j.m, &err);
            break;
        }
        job_done(c);
    }
    return NULL;
}

/* ------------------------------------------------------------------ the whole load */
static wr_code finish_target(wr_pipeline *p, crew *c, target *t, wr_err *err) {
    if (is_mismatched(c, t)) {
        wr_schema *s = wr_schema_ref(wr_table_schema(t->table));
        wr_code rc = wr_load_begin(p, t, s, PHASE_WAIT, err);
        wr_schema_unref(s);
        if (rc == WR_OK) rc = wr_source_now(p->source, &t->overdue, err);
        return rc == WR_OK ? commit_progress(p, t, err) : rc;
    }
    for (int i = 0; i < t->nmembers; i++) {
        const member *m = t->members[i];
        bool whole = m->nranges > 0;
        for (int k = 0; k < m->nranges; k++) whole &= m->ranges[k].done;
        if (!whole) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "the load of %s.%s ended before its last row", m->db, m->name);
    }
    wr_pos now = {0};
    WR_TRY(wr_source_now(p->source, &now, err));
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i < t->nmembers; i++)
        if (!t->members[i]->exact) rc = wr_pos_copy(&t->members[i]->until, &now, err);
    wr_pos_clear(&now);
    if (rc != WR_OK) return rc;
    t->phase = PHASE_REPLAY;
    return commit_progress(p, t, err);
}

static void set_loading(wr_pipeline *p, bool yes) {
    pthread_mutex_lock(&p->lock_mu);
    p->loading = yes;
    pthread_mutex_unlock(&p->lock_mu);
}

static wr_code run_crew(wr_pipeline *p, crew *c, wr_err *err) {
    int n = p->o.snapshot_parallel, started = 0;
    WR_AUTO pthread_t *th = wr_calloc((size_t)n, sizeof *th);
    if (!th) return wr_nomem(err, "load workers", (size_t)n * sizeof *th);
    set_loading(p, true);
    while (started < n && pthread_create(&th[started], NULL, worker, c) == 0) started++;
    for (int i = 0; i < started; i++) pthread_join(th[i], NULL);
    set_loading(p, false);
    if (!started) return wr_fail(err, WR_E_NOMEM, WR_RETRY_NO, "no thread to load tables with");
    if (c->failed && !p->stop) return *err = c->err, err->code;
    return WR_OK;
}

/* A change that a foreign key made is in what a load reads when its cause was visible before the first row was read. A chunk that was read may miss a later one,
 * so the end of the load says nothing about it. */
static wr_code note_from(wr_pipeline *p, wr_err *err) {
    wr_pos now = {0};
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i < p->ntargets; i++) {
        target *t = p->targets[i];
        bool hides = false, begun = t->from.file[0];
        for (int k = 0; k < t->nmembers; k++) hides |= t->members[k]->hides_changes, begun |= t->members[k]->nranges > 0;
        if (t->phase != PHASE_LOAD || !hides || begun) continue;
        if (!now.file[0]) rc = wr_source_settled(p->source, &now, err);
        if (rc == WR_OK) rc = wr_pos_copy(&t->from, &now, err);
    }
    wr_pos_clear(&now);
    return rc;
}

/* Refused rows are in the lake before any commit says that the load is complete. A load that is interrupted before begins anew: restore_target. */
static wr_code keep_refused(wr_pipeline *p, wr_err *err) {
    bool any = false;
    for (int i = 0; i < p->ntargets; i++)
        for (int k = 0; p->targets[i]->phase == PHASE_LOAD && k < p->targets[i]->nmembers; k++)
            if (p->targets[i]->members[k]->load_refused) {
                any = true;
                WR_TRY(commit_progress(p, p->targets[i], err));
                break;
            }
    return any ? wr_apply_commit(p, err) : WR_OK;
}

wr_code wr_load_run(wr_pipeline *p, wr_err *err) {
    crew c = {.p = p};
    pthread_mutex_init(&c.lock, NULL);
    wr_cond_init(&c.more);
    wr_code rc = note_from(p, err);
    for (int i = p->ntargets - 1; i >= 0; i--) {
        target *t = p->targets[i];
        if (t->phase != PHASE_LOAD) continue;
        for (int k = t->nmembers - 1; k >= 0; k--) t->members[k]->load_us = 0;
        for (int k = t->nmembers - 1; k >= 0; k--)
            if (!t->members[k]->exact && rc == WR_OK && !push_job(&c, (job){t->members[k], -1})) rc = wr_nomem(err, "job", sizeof(job));
    }
    wr_status_tables(p);
    if (rc == WR_OK) rc = run_crew(p, &c, err);
    if (rc == WR_OK && !p->stop) rc = keep_refused(p, err);
    for (int i = 0; i < p->ntargets; i++) {
        target *t = p->targets[i];
        if (t->phase != PHASE_LOAD) continue;
        if (rc == WR_OK && !p->stop) rc = finish_target(p, &c, t, err);
        else { /* keep what was read for the next start */
            wr_err e = WR_ERR_INIT;
            commit_progress(p, t, &e);
        }
    }
    wr_free(c.jobs);
    wr_free(c.mismatched);
    pthread_mutex_destroy(&c.lock);
    pthread_cond_destroy(&c.more);
    p->load_wanted = false;
    wr_status_tables(p);
    return rc;
}
