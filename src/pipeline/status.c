/* home/status.json: docs/formats/status.md. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "impl.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"

#define STATUS_EVERY_MS 250
#define STALE_MS 5000
#define SILENT_US INT64_C(10000000) /* heartbeats come each second */
#define STATUS_MAX_BYTES (64u << 20)

static const char *state_text(const target *t) {
    switch (t->phase) {
    case PHASE_LOAD: return "loading";
    case PHASE_REPLAY: return "replaying";
    case PHASE_WAIT: return "waiting";
    default: return t->due ? "due" : t->unproven ? "unproven" : "streaming";
    }
}

static void add_u64(cJSON *o, const char *key, uint64_t v) { cJSON_AddNumberToObject(o, key, (double)v); }

static void add_pos(cJSON *o, const char *key, const wr_pos *p) {
    cJSON *c = cJSON_AddObjectToObject(o, key);
    cJSON_AddStringToObject(c, "file", p->file);
    add_u64(c, "offset", p->offset);
    if (p->epoch) add_u64(c, "epoch", p->epoch);
    cJSON_AddStringToObject(c, "gtid", p->gtid_set ? p->gtid_set : "");
}

void wr_status_tables(wr_pipeline *p) {
    cJSON *list = cJSON_CreateArray();
    uint64_t anomalies = 0;
    for (int i = 0; i < p->ntargets; i++) {
        const target *t = p->targets[i];
        wr_table_health h = {0};
        wr_err e = WR_ERR_INIT;
        wr_table_get_health(t->table, &h, &e);
        cJSON *o = cJSON_CreateObject();
        cJSON *src = cJSON_AddArrayToObject(o, "source");
        for (int k = 0; k < t->nmembers; k++) {
            WR_AUTO char *n = wr_asprintf("%s.%s", t->members[k]->db, t->members[k]->name);
            if (n) cJSON_AddItemToArray(src, cJSON_CreateString(n));
        }
        WR_AUTO char *lake = wr_asprintf("%s.%s", t->ns, t->name);
        cJSON_AddStringToObject(o, "table", lake ? lake : t->name);
        cJSON_AddStringToObject(o, "state", state_text(t));
        add_u64(o, "rows", h.rows), add_u64(o, "files", h.data_files), add_u64(o, "bytes", h.data_bytes), add_u64(o, "deleted_rows", h.deleted_rows);
        add_u64(o, "inserts", h.inserts), add_u64(o, "updates", h.updates), add_u64(o, "deletes", h.deletes), add_u64(o, "anomalies", h.anomalies);
        add_u64(o, "compactions", h.compactions), add_u64(o, "compacted_bytes", h.compacted_bytes);
        if (!t->merged && t->nmembers && !t->members[0]->schema->nkey) cJSON_AddBoolToObject(o, "no_key", true);
        uint64_t nulled = 0;
        for (int k = 0; k < t->nmembers; k++) {
            const member *m = t->members[k];
            nulled += __atomic_load_n(&m->nulled, __ATOMIC_RELAXED) + (m->transform ? wr_transform_nulled(m->transform) : 0);
        }
        if (nulled) add_u64(o, "nulled", nulled);
        bool hides = false;
        for (int k = 0; k < t->nmembers; k++) hides |= t->members[k]->hides_changes;
        if (hides) cJSON_AddBoolToObject(o, "no_cascade_events", true);
        int64_t left = t->next_load_us - wr_mono_us();
        if (t->due && t->phase == PHASE_STREAM) add_u64(o, "load_in_ms", left > 0 ? (uint64_t)left / 1000 : 0);
        anomalies += h.anomalies;
        cJSON_AddItemToArray(list, o);
    }
    wr_table_health dead = {0};
    wr_err ignored = WR_ERR_INIT;
    wr_table *letters = wr_shape_dead_letters(p);
    if (letters) wr_table_get_health(letters, &dead, &ignored);
    char *text = cJSON_PrintUnformatted(list);
    cJSON_Delete(list);
    char *copy = text ? wr_strdup(text) : NULL;
    cJSON_free(text);
    if (!copy) return;
    pthread_mutex_lock(&p->lock_mu);
    wr_free(p->tables_json);
    p->tables_json = copy;
    p->anomalies = anomalies;
    p->dead_letter_rows = dead.rows;
    pthread_mutex_unlock(&p->lock_mu);
}

void wr_pipeline_get_status(wr_pipeline *p, wr_pipeline_status *ret) {
    wr_queue_stats qs = {0};
    wr_stream_stats ss = {0};
    pthread_mutex_lock(&p->open_lock);
    if (p->queue) wr_queue_get_stats(p->queue, &qs);
    if (p->source) wr_source_stream_stats(p->source, &ss);
    pthread_mutex_unlock(&p->open_lock);
    wr_pipeline_status s = {.queue_last = qs.last_offset, .bytes_captured = ss.bytes, .rows_applied = __atomic_load_n(&p->rows_applied, __ATOMIC_RELAXED)};
    pthread_mutex_lock(&p->lock_mu);
    s.state = p->run_state;
    s.queue_committed = p->committed_offset;
    s.committed_us = p->committed_at_us;
    s.anomalies = p->anomalies;
    if (p->reconnecting) s.state = "reconnecting";
    if (qs.last_offset > p->committed_offset && p->committed_event_us) s.lag_us = wr_now_us() - p->committed_event_us;
    const char *q = p->tables_json;
    for (; q && (q = strstr(q, "\"state\":\"")); q += 9) {
        s.tables++;
        s.tables_loading += !strncmp(q + 9, "loading", 7) || !strncmp(q + 9, "replaying", 9) || !strncmp(q + 9, "due\"", 4);
        s.tables_waiting += !strncmp(q + 9, "waiting", 7);
    }
    s.rows_loaded = __atomic_load_n(&p->load_rows, __ATOMIC_RELAXED);
    s.rows_estimated = __atomic_load_n(&p->load_estimate, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&p->lock_mu);
    if (ss.waiting_us && wr_mono_us() - ss.waiting_us > SILENT_US) s.silent_us = wr_mono_us() - ss.waiting_us;
    if (s.silent_us && !strcmp(s.state, "streaming")) s.state = "silent";
    if (s.tables_loading && !strcmp(s.state, "streaming")) s.state = "loading";
    *ret = s;
}

static void add_error(cJSON *o, const wr_err *why) {
    cJSON *x = cJSON_AddObjectToObject(o, "error");
    cJSON_AddStringToObject(x, "code", wr_code_name(why->code));
    cJSON_AddStringToObject(x, "message", why->msg);
    cJSON_AddStringToObject(x, "cure", why->cure);
}

/* lock_mu is held. NULL: all is well. */
static const wr_err *what_is_wrong(const wr_pipeline *p) { return p->apply_err.code ? &p->apply_err : p->capture_err.code ? &p->capture_err : NULL; }

/* What an earlier one says, of this run or of another; NULL: nothing that can be read. */
static cJSON *last_status(const char *path) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_err e = WR_ERR_INIT;
    cJSON *o = wr_file_get(path, STATUS_MAX_BYTES, &b, &e) == WR_OK && wr_buf_cstr(&b) ? cJSON_Parse((char *)b.p) : NULL;
    if (cJSON_IsObject(o)) return o;
    return cJSON_Delete(o), NULL;
}

/* Without a server (on the way to another one, or none was reached): what was known last stays. Only this process writes the file. */
static char *render_again(wr_pipeline *p, const char *path) {
    char iso[32];
    cJSON *o = last_status(path);
    if (!o) o = cJSON_CreateObject();
    static const char *const anew[] = {"format", "pipeline", "pid", "state", "updated", "error"};
    for (size_t i = 0; i < sizeof anew / sizeof *anew; i++) cJSON_DeleteItemFromObjectCaseSensitive(o, anew[i]);
    cJSON *src = cJSON_GetObjectItemCaseSensitive(o, "source");
    if (!src) src = cJSON_AddObjectToObject(o, "source");
    cJSON_DeleteItemFromObjectCaseSensitive(src, "answers");
    cJSON_AddBoolToObject(src, "answers", false);
    cJSON_AddNumberToObject(o, "format", 1);
    cJSON_AddStringToObject(o, "pipeline", p->o.name);
    cJSON_AddNumberToObject(o, "pid", getpid());
    cJSON_AddStringToObject(o, "updated", wr_iso_time(wr_now_us(), iso));
    pthread_mutex_lock(&p->lock_mu);
    cJSON_AddStringToObject(o, "state", p->run_state);
    if (what_is_wrong(p)) add_error(o, what_is_wrong(p));
    pthread_mutex_unlock(&p->lock_mu);
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    return text;
}

static char *render(wr_pipeline *p) {
    wr_pipeline_status s;
    wr_pipeline_get_status(p, &s);
    wr_queue_stats qs;
    wr_stream_stats ss;
    wr_queue_get_stats(p->queue, &qs);
    wr_source_stream_stats(p->source, &ss);
    wr_pos last = {0};
    wr_err e = WR_ERR_INIT;
    uint64_t off;
    wr_queue_last(p->queue, &off, &last, &e);
    char iso[32];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "format", 1);
    cJSON_AddStringToObject(o, "pipeline", p->o.name);
    cJSON_AddNumberToObject(o, "pid", getpid());
    cJSON_AddStringToObject(o, "state", s.state);
    cJSON_AddStringToObject(o, "updated", wr_iso_time(wr_now_us(), iso));
    cJSON *src = cJSON_AddObjectToObject(o, "source");
    cJSON_AddStringToObject(src, "version", wr_source_version(p->source));
    cJSON_AddStringToObject(src, "identity", wr_source_identity(p->source));
    cJSON_AddStringToObject(src, "address", wr_source_address(p->source));
    if (wr_source_epoch(p->source)) add_u64(src, "epoch", wr_source_epoch(p->source));
    add_u64(src, "replaced_dates", ss.replaced_dates), add_u64(src, "events", ss.events), add_u64(src, "rows", ss.rows), add_u64(src, "bytes", ss.bytes), add_u64(src, "transactions", ss.transactions);
    cJSON_AddBoolToObject(src, "answers", !s.silent_us && strcmp(s.state, "reconnecting"));
    add_u64(src, "silent_ms", (uint64_t)(s.silent_us / 1000));
    if (ss.last_packet_us) cJSON_AddStringToObject(src, "last_packet", wr_iso_time(ss.last_packet_us, iso));
    if (ss.last_event_us) cJSON_AddStringToObject(src, "last_event", wr_iso_time(ss.last_event_us, iso));
    add_pos(o, "captured", &last);
    cJSON *q = cJSON_AddObjectToObject(o, "queue");
    add_u64(q, "first_offset", qs.first_offset), add_u64(q, "last_offset", qs.last_offset), add_u64(q, "committed_offset", s.queue_committed), add_u64(q, "bytes", qs.bytes);
    cJSON *load = cJSON_AddObjectToObject(o, "load");
    add_u64(load, "rows", s.rows_loaded), add_u64(load, "rows_estimated", s.rows_estimated);
    cJSON_AddNumberToObject(o, "lag_ms", (double)(s.lag_us / 1000));
    cJSON_AddNumberToObject(o, "lag_transactions", (double)(qs.last_offset - s.queue_committed));
    add_u64(o, "ledger_alarms", wr_ledger_alarms(__atomic_load_n(&p->ledger, __ATOMIC_ACQUIRE)));
    add_u64(o, "rows_applied", s.rows_applied), add_u64(o, "anomalies", s.anomalies);
    wr_retention_json(p, o);
    pthread_mutex_lock(&p->lock_mu);
    add_u64(o, "dead_letters", p->dead_letter_rows);
    add_pos(o, "committed", &p->committed);
    if (p->committed_at_us) cJSON_AddStringToObject(o, "committed_at", wr_iso_time(p->committed_at_us, iso));
    if (p->committed_event_us) cJSON_AddStringToObject(o, "committed_event_time", wr_iso_time(p->committed_event_us, iso));
    if (what_is_wrong(p)) add_error(o, what_is_wrong(p));
    cJSON_AddItemToObject(src, "findings", cJSON_CreateRaw(p->findings_json ? p->findings_json : "[]"));
    cJSON_AddItemToObject(o, "decisions", cJSON_CreateRaw(p->decisions_json && *p->decisions_json ? p->decisions_json : "[]"));
    cJSON_AddItemToObject(o, "tables", cJSON_CreateRaw(p->tables_json ? p->tables_json : "[]"));
    pthread_mutex_unlock(&p->lock_mu);
    wr_pos_clear(&last);
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    return text;
}

/* Not durable on purpose: a reader trusts it only while the lock is held, and a crash frees the lock. */
void wr_status_write(wr_pipeline *p) {
    WR_AUTO char *path = wr_path_join(p->home, "status.json"), *tmp = wr_path_join(p->home, "status.json.tmp");
    pthread_mutex_lock(&p->status_lock);
    pthread_mutex_lock(&p->open_lock);
    char *text = p->source ? render(p) : path ? render_again(p, path) : NULL;
    pthread_mutex_unlock(&p->open_lock);
    FILE *f = text && path && tmp ? fopen(tmp, "we") : NULL;
    if (f) {
        bool ok = fputs(text, f) >= 0;
        ok &= fclose(f) == 0;
        if (ok) rename(tmp, path);
    }
    pthread_mutex_unlock(&p->status_lock);
    cJSON_free(text);
}

static void *status_main(void *arg) {
    wr_pipeline *p = arg;
    for (;;) {
        struct timespec ts = wr_cond_until(STATUS_EVERY_MS);
        pthread_mutex_lock(&p->lock_mu);
        while (!p->status_stop && pthread_cond_timedwait(&p->wake, &p->lock_mu, &ts) == 0) {}
        bool end = p->status_stop;
        pthread_mutex_unlock(&p->lock_mu);
        if (end) return NULL;
        wr_status_write(p);
    }
}

wr_code wr_status_start(wr_pipeline *p, wr_err *err) {
    wr_status_write(p);
    if (pthread_create(&p->status_thread, NULL, status_main, p) != 0) return wr_fail(err, WR_E_NOMEM, WR_RETRY_NO, "no thread for status");
    p->status_started = true;
    return WR_OK;
}

void wr_status_stop(wr_pipeline *p) { wr_pipeline_join(p, p->status_thread, &p->status_started, &p->status_stop); }

/* ------------------------------------------------------------------ reading it */
void wr_status_clear(wr_status_file *s) {
    wr_free(s->json);
    wr_pos_clear(&s->committed), wr_pos_clear(&s->captured);
    memset(s, 0, sizeof *s);
}

/* A running sync writes its status several times a second; on a full disk it cannot even say so. */
static void judge_age(const char *home, const char *path, wr_status_file *s) {
    struct stat st;
    struct statvfs fs;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); /* as the file system's */
    if (!s->running || stat(path, &st) != 0) return;
    int64_t age_ms = (now.tv_sec - st.st_mtim.tv_sec) * 1000 + (now.tv_nsec - st.st_mtim.tv_nsec) / 1000000;
    if (age_ms < STALE_MS) return;
    s->stale_ms = age_ms;
    bool full = statvfs(home, &fs) == 0 && fs.f_bavail == 0;
    snprintf(s->error, sizeof s->error, "the sync runs and has not written its status for %" PRId64 " s%s%.500s%s", age_ms / 1000, full ? ": no space left on the device of " : "", full ? home : "", full ? "" : ": is it stopped, or its disk not answering?");
    snprintf(s->cure, sizeof s->cure, "%s", full ? "free some space there: the sync goes on by itself, and nothing is lost" : "");
}

wr_code wr_status_read(const char *home, wr_status_file *ret, wr_err *err) {
    WR_AUTO char *path = wr_path_join(home, "status.json"), *lock = wr_path_join(home, "lock");
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    if (!path || !lock) return wr_nomem(err, "status", 256);
    int pid = 0;
    if (wr_lock_holder(lock, &pid, err) != WR_OK) wr_err_clear(err);
    WR_TRY(wr_file_get(path, STATUS_MAX_BYTES, &b, err));
    if (!wr_buf_cstr(&b)) return wr_nomem(err, "status", b.n);
    cJSON *o = cJSON_Parse((char *)b.p);
    if (!o) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_SOON, "%s is not JSON", path);
    wr_status_file s = {.running = pid != 0};
    const cJSON *c = cJSON_GetObjectItemCaseSensitive(o, "committed"), *e = cJSON_GetObjectItemCaseSensitive(o, "error"), *t;
    const char *v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "state"));
    snprintf(s.state, sizeof s.state, "%s", v ? v : "");
    /* a status left behind by another run says nothing about the present one */
    const cJSON *who = cJSON_GetObjectItemCaseSensitive(o, "pid");
    if (s.running && cJSON_IsNumber(who) && (int)who->valuedouble != pid) snprintf(s.state, sizeof s.state, "starting");
    if ((v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(c, "file")))) snprintf(s.committed.file, sizeof s.committed.file, "%s", v);
    t = cJSON_GetObjectItemCaseSensitive(c, "offset");
    if (cJSON_IsNumber(t)) s.committed.offset = (uint64_t)t->valuedouble;
    t = cJSON_GetObjectItemCaseSensitive(c, "epoch");
    if (cJSON_IsNumber(t)) s.committed.epoch = (uint32_t)t->valuedouble;
    if ((v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(c, "gtid")))) s.committed.gtid_set = wr_strdup(v);
    c = cJSON_GetObjectItemCaseSensitive(o, "captured");
    if ((v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(c, "file")))) snprintf(s.captured.file, sizeof s.captured.file, "%s", v);
    t = cJSON_GetObjectItemCaseSensitive(c, "offset");
    if (cJSON_IsNumber(t)) s.captured.offset = (uint64_t)t->valuedouble;
    t = cJSON_GetObjectItemCaseSensitive(c, "epoch");
    if (cJSON_IsNumber(t)) s.captured.epoch = (uint32_t)t->valuedouble;
    if ((v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(c, "gtid")))) s.captured.gtid_set = wr_strdup(v);
    t = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(o, "retention"), "captured_us");
    if (cJSON_IsNumber(t)) s.captured_us = (int64_t)t->valuedouble;
    cJSON_ArrayForEach(t, cJSON_GetObjectItemCaseSensitive(o, "tables")) {
        v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(t, "state"));
        s.busy_tables += v && strcmp(v, "streaming");
    }
    if ((v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(e, "message")))) snprintf(s.error, sizeof s.error, "%s", v);
    if ((v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(e, "cure")))) snprintf(s.cure, sizeof s.cure, "%s", v);
    cJSON_Delete(o);
    judge_age(home, path, &s);
    s.json = (char *)WR_STEAL(b.p);
    *ret = s;
    return WR_OK;
}

wr_code wr_status_followed(const wr_status_file *s, char **ret_identity, uint32_t *ret_epoch, wr_err *err) {
    cJSON *o = s->json ? cJSON_Parse(s->json) : NULL;
    const cJSON *src = cJSON_GetObjectItemCaseSensitive(o, "source"), *epoch = cJSON_GetObjectItemCaseSensitive(src, "epoch");
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(src, "identity"));
    char *copy = id ? wr_strdup(id) : NULL;
    uint32_t n = cJSON_IsNumber(epoch) ? (uint32_t)epoch->valuedouble : 0;
    cJSON_Delete(o);
    if (!copy) return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_SOON, "the status does not say which server is followed");
    *ret_identity = copy, *ret_epoch = n;
    return WR_OK;
}

bool wr_status_running(const char *home) {
    WR_AUTO char *lock = wr_path_join(home, "lock");
    wr_err err = WR_ERR_INIT;
    int pid = 0;
    return lock && wr_lock_holder(lock, &pid, &err) == WR_OK && pid != 0;
}
