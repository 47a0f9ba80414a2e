/* weir repair: rows that differ are read again from the source and go into the lake in order with the stream.
 *
 * A request is a file, home/repair/<id>.asked.json. The applying thread takes it up when it has caught up with the queue: it reads the rows by their keys, deletes these
 * keys in the lake and puts in what was read. What was read is newer than the stream by moments. So the changes up to the source's position behind the reading are applied
 * to these tables as upserts, and nothing is committed before the stream is there: no reader sees a row go back in time. Then the file becomes home/repair/<id>.json, the
 * record of what was done. A process that dies before that commit has done nothing, and the next one finds the request. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "impl.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define LOOK_EVERY_US 500000
#define CAUGHT_UP 1000          /* transactions that may wait in the queue when a repair begins */
#define REQUEST_MAX (UINT64_C(1) << 30)
#define POLL_MS 100
#define TIMEOUT_S 600
static const char asked[] = ".asked.json";

struct repair {
    char *path;   /* of the request */
    cJSON *doc;
    wr_pos until; /* the source's end behind the reading; "" = nothing was read, nothing to wait for */
};

/* ------------------------------------------------------------------ files */
static bool is_request(const char *name) {
    size_t n = strlen(name), k = sizeof asked - 1;
    return n > k && !strcmp(name + n - k, asked);
}

static wr_code take_oldest(void *ctx, const char *name, wr_err *err) { /* names are dates, and come in order */
    char **oldest = ctx;
    if (*oldest || !is_request(name)) return WR_OK;
    return (*oldest = wr_strdup(name)) ? WR_OK : wr_nomem(err, "file name", strlen(name));
}

static wr_code read_json(const char *path, cJSON **ret, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    WR_TRY(wr_file_get(path, REQUEST_MAX, &b, err));
    const char *text = wr_buf_cstr(&b);
    *ret = text ? cJSON_Parse(text) : NULL;
    return *ret ? WR_OK : wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "%s is not JSON", path);
}

static wr_code write_json(const char *path, const cJSON *doc, wr_err *err) {
    char *text = cJSON_PrintUnformatted(doc);
    if (!text) return wr_nomem(err, "record of a repair", 4096);
    wr_code rc = wr_file_put(path, wr_slice_str(text), err);
    cJSON_free(text);
    return rc;
}

static const char *text_of(const cJSON *o, const char *key) {
    const char *t = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    return t ? t : "";
}

/* ------------------------------------------------------------------ doing it */
static void note(cJSON *table, const char *state, const char *text) {
    cJSON_DeleteItemFromObject(table, "state"), cJSON_DeleteItemFromObject(table, "reason");
    cJSON_AddStringToObject(table, "state", state);
    if (text) cJSON_AddStringToObject(table, "reason", text);
}

static void undo(cJSON *table) {
    static const char *const what[] = {"state", "reason", "keys_repaired", "rows_in_source", "keys_of_no_shard"};
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) cJSON_DeleteItemFromObject(table, what[i]);
}

static target *find(const wr_pipeline *p, const cJSON *o) {
    for (int i = 0; i < p->ntargets; i++)
        if (!strcmp(p->targets[i]->ns, text_of(o, "namespace")) && !strcmp(p->targets[i]->name, text_of(o, "name"))) return p->targets[i];
    return NULL;
}

/* A member's keys: texts, and the same as rows of the lake table of which only the key is known. */
typedef struct keys {
    const char **texts;
    wr_buf rows;
    size_t *ends;
    int n, columns;
} keys;

static void keys_clear(keys *k) {
    wr_free(k->texts), wr_free(k->ends);
    wr_buf_free(&k->rows);
}

/* Key columns of the lake that say which shard a row is from. */
static int shard_columns(const target *t) { return t->merged ? 2 : 0; }

static bool is_members(const target *t, const member *m, const cJSON *key) {
    if (!t->merged) return true;
    const char *db = cJSON_GetStringValue(cJSON_GetArrayItem(key, 0)), *name = cJSON_GetStringValue(cJSON_GetArrayItem(key, 1));
    return db && name && !strcmp(db, m->db) && !strcmp(name, m->name);
}

static wr_code add_key(const target *t, const cJSON *key, keys *k, wr_err *err) {
    const wr_schema *s = wr_table_schema(t->table);
    if (cJSON_GetArraySize(key) != s->nkey) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "a key of %d values; the table's has %d", cJSON_GetArraySize(key), s->nkey);
    WR_AUTO const char **text = wr_calloc((size_t)s->ncols, sizeof *text);
    WR_AUTO_BUF wr_buf bytes = WR_BUF_INIT;
    if (!text) return wr_nomem(err, "key", 64);
    for (int i = 0; i < s->nkey; i++)
        if (!(text[s->key[i]] = cJSON_GetStringValue(cJSON_GetArrayItem(key, i)))) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "a key without a value of %s", s->cols[s->key[i]].name);
    for (int i = shard_columns(t); i < s->nkey; i++) k->texts[k->n * k->columns + i - shard_columns(t)] = text[s->key[i]];
    size_t at = wr_row_begin(&k->rows, s->ncols);
    for (int i = 0; i < s->ncols; i++) {
        wr_value v = {.null = true};
        if (text[i]) WR_TRY(wr_value_parse(wr_slice_str(text[i]), s->cols[i].type, &bytes, &v, err));
        if (text[i]) wr_row_put(&k->rows, at, i, s->cols[i].type, &v);
        else wr_row_put_null(&k->rows, at, i);
    }
    k->ends[k->n++] = k->rows.n;
    return wr_buf_check(&k->rows, "keys", err);
}

static wr_code keys_of(const target *t, const member *m, const cJSON *list, keys *k, wr_err *err) {
    size_t most = (size_t)cJSON_GetArraySize(list) + 1;
    k->columns = wr_table_schema(t->table)->nkey - shard_columns(t);
    k->texts = wr_calloc(most * (size_t)(k->columns > 0 ? k->columns : 1), sizeof *k->texts);
    k->ends = wr_calloc(most, sizeof *k->ends);
    if (!k->texts || !k->ends) return wr_nomem(err, "keys", most * 16);
    const cJSON *key;
    cJSON_ArrayForEach(key, list)
        if (is_members(t, m, key)) WR_TRY(add_key(t, key, k, err));
    return WR_OK;
}

typedef struct putting { wr_pipeline *p; member *m; uint64_t rows; } putting;

static wr_code put_row(void *ctx, wr_slice row, wr_err *err) {
    putting *w = ctx;
    w->rows++;
    wr_change c = {.op = WR_OP_INSERT, .table = w->m->id, .schema_version = w->m->schema->version, .after = row};
    return wr_shape_change(w->p, w->m, WR_APPLY_REPLAY, &c, 0, err);
}

/* However often a key is in the lake, none of it stays. */
static wr_code delete_keys(target *t, const keys *k, wr_err *err) {
    for (int i = 0; i < k->n; i++) {
        size_t from = i ? k->ends[i - 1] : 0;
        bool more = true;
        while (more) WR_TRY(wr_table_remove_row(t->table, wr_slice_of(k->rows.p + from, k->ends[i] - from), &more, err));
    }
    return WR_OK;
}

static wr_code repair_member(wr_pipeline *p, target *t, member *m, const cJSON *list, uint64_t *keys_done, uint64_t *rows_found, wr_err *err) {
    WR_CLEANUP(keys_clear) keys k = {0};
    WR_TRY(keys_of(t, m, list, &k, err));
    if (!k.n) return WR_OK;
    wr_snap *sn;
    WR_TRY(wr_snap_open(p->source, m->def, &sn, err));
    putting w = {p, m, 0};
    wr_code rc = wr_snap_key_columns(sn) == k.columns ? WR_OK : wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "the source's key has %d columns, the lake's %d", wr_snap_key_columns(sn), k.columns);
    if (rc == WR_OK) rc = delete_keys(t, &k, err);
    if (rc == WR_OK) rc = wr_snap_find(sn, k.texts, k.n, put_row, &w, err);
    if (rc == WR_OK) rc = wr_shape_flush(p, err);
    wr_snap_close(sn);
    *keys_done += (uint64_t)k.n, *rows_found += w.rows;
    return rc;
}

/* Why rows of this table cannot be put right one by one; NULL = they can. */
static const char *refusal(const wr_pipeline *p, const target *t, bool reload) {
    if (!t) return "the pipeline has no such table";
    if (t->phase != PHASE_STREAM || t->due) return "it is being loaded, or will be: that puts right what is wrong with it";
    if (reload) return NULL;
    if (!wr_table_schema(t->table)->nkey) return "it has no key to find rows by: read it again with --reload";
    for (int i = 0; i < t->nmembers; i++)
        if (t->members[i]->transform && wr_transform_hides_key(t->members[i]->transform)) return "a rule masks its key: read it again with --reload";
    return NULL;
}

static wr_code repair_rows(wr_pipeline *p, target *t, cJSON *o, wr_err *err) {
    uint64_t nkeys = 0, rows = 0;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, "keys");
    for (int i = 0; i < t->nmembers; i++) WR_TRY(repair_member(p, t, t->members[i], list, &nkeys, &rows, err));
    t->repaired = t->uneven = true;
    cJSON_AddNumberToObject(o, "keys_repaired", (double)nkeys);
    cJSON_AddNumberToObject(o, "rows_in_source", (double)rows);
    cJSON_AddNumberToObject(o, "keys_of_no_shard", (double)cJSON_GetArraySize(list) - (double)nkeys);
    note(o, "done", NULL);
    return WR_OK;
}

/* A row that cannot be looked up is this table's answer; a connection that is lost, or a full disk, lets the whole repair be tried again. */
static bool is_answer(const wr_err *err) { return err->code == WR_E_INVAL || err->code == WR_E_UNSUPPORTED || err->code == WR_E_SCHEMA || err->code == WR_E_NOTFOUND; }

/* WR_E_SCHEMA, WR_E_NOTFOUND: the source's table is not the one that the log tells of, and a load could only wait for a schema change. */
static wr_code compare_definitions(wr_pipeline *p, const target *t, wr_err *err) {
    for (int i = 0; i < t->nmembers; i++) {
        wr_snap *sn;
        WR_TRY(wr_snap_open(p->source, t->members[i]->def, &sn, err));
        wr_snap_close(sn);
    }
    return WR_OK;
}

static wr_code read_again(wr_pipeline *p, target *t, cJSON *o, wr_err *err) {
    char why[1400];
    wr_code rc = compare_definitions(p, t, err);
    if (rc == WR_E_SCHEMA || rc == WR_E_NOTFOUND) {
        snprintf(why, sizeof why, "%s. If that change is on its way in the binlog, repair again; if it never was there (sql_log_bin=0), stop the sync: weir resume --resnapshot %s.%s takes the table as it is now", err->msg, t->ns, t->name);
        note(o, "refused", why);
        return wr_err_clear(err), WR_OK;
    }
    WR_TRY(rc);
    WR_TRY(wr_apply_due(p, t, err));
    return note(o, "done", "it is read again"), WR_OK;
}

static wr_code repair_one(wr_pipeline *p, cJSON *o, bool *ret_rows, wr_err *err) {
    bool reload = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "reload"));
    target *t = find(p, o);
    const char *why = refusal(p, t, reload);
    if (why) return note(o, "refused", why), WR_OK;
    if (reload) return read_again(p, t, o, err);
    wr_code rc = repair_rows(p, t, o, err);
    if (rc == WR_OK) return *ret_rows = true, WR_OK;
    if (!is_answer(err)) return rc;
    /* keys may be deleted already: back to the last commit, and this table is left alone when the request is met again. What was done for others is undone with that */
    cJSON *other;
    cJSON_ArrayForEach(other, cJSON_GetObjectItemCaseSensitive(p->repair->doc, "tables"))
        if (!strcmp(text_of(other, "state"), "done")) undo(other);
    note(o, "refused", err->msg);
    wr_err e = WR_ERR_INIT;
    if (write_json(p->repair->path, p->repair->doc, &e) != WR_OK) return *err = e, e.code;
    err->retry = WR_RETRY_AFTER_RELOAD;
    return rc;
}

static void record_end(wr_pipeline *p, cJSON *doc) {
    char iso[32], place[512];
    cJSON_AddStringToObject(doc, "done_at", wr_iso_time(wr_now_us(), iso));
    cJSON_AddNumberToObject(doc, "offset", (double)p->offset);
    cJSON_AddStringToObject(doc, "position", wr_pos_print(&p->pos, place));
}

static void repair_free(struct repair *r) {
    if (!r) return;
    cJSON_Delete(r->doc);
    wr_pos_clear(&r->until);
    wr_free(r->path);
    wr_free(r);
}

void wr_repair_forget(wr_pipeline *p) {
    repair_free(p->repair);
    p->repair = NULL;
    p->repair_look_us = 0;
}

void wr_repair_gap(wr_pipeline *p) {
    if (p->repair) wr_pos_clear(&p->repair->until);
}

static wr_code run(wr_pipeline *p, wr_err *err) {
    struct repair *r = p->repair;
    bool rows = false;
    cJSON *o;
    WR_TRY(wr_shape_flush(p, err));
    cJSON_ArrayForEach(o, cJSON_GetObjectItemCaseSensitive(r->doc, "tables"))
        if (!*text_of(o, "state")) WR_TRY(repair_one(p, o, &rows, err));
    if (rows) WR_TRY(wr_source_now(p->source, &r->until, err));
    if (WR_FAULT("repair.read")) return wr_fail(err, WR_E_IO, WR_RETRY_AFTER_RELOAD, "injected: repair");
    return WR_OK;
}

static wr_code begin(wr_pipeline *p, const char *dir, const char *name, wr_err *err) {
    struct repair *r = p->repair = wr_calloc(1, sizeof *r);
    if (!r || !(r->path = wr_path_join(dir, name))) return wr_repair_forget(p), wr_nomem(err, "repair", 256);
    wr_code rc = read_json(r->path, &r->doc, err);
    if (rc == WR_E_CORRUPT) { /* nobody waits for an answer that could be written into it */
        wr_log(WR_LOG_WARN, "repair: %s; it is left alone", err->msg);
        WR_AUTO char *aside = wr_asprintf("%s.unreadable", r->path);
        if (aside) rename(r->path, aside);
        wr_err_clear(err);
        return wr_repair_forget(p), WR_OK;
    }
    WR_TRY(rc);
    wr_log(WR_LOG_INFO, "repair %s begins", name);
    return run(p, err);
}

static bool caught_up(wr_pipeline *p) {
    wr_queue_stats qs;
    wr_queue_get_stats(p->queue, &qs);
    return qs.last_offset - p->offset < CAUGHT_UP;
}

static bool is_stopped(void *ctx) { return ((wr_pipeline *)ctx)->stop; }

wr_code wr_repair_look(wr_pipeline *p, bool at_once, wr_err *err) {
    int64_t now = wr_mono_us();
    if (!at_once && now < p->repair_look_us) return WR_OK;
    p->repair_look_us = now + LOOK_EVERY_US;
    WR_AUTO char *dir = wr_path_join(p->home, "repair");
    if (!dir) return wr_nomem(err, "path", 64);
    if (access(dir, F_OK) != 0 || !caught_up(p)) return WR_OK;
    WR_AUTO char *name = NULL;
    wr_code rc = wr_dir_list(dir, take_oldest, &name, err);
    bool calm = true;
    if (rc == WR_OK && name) rc = at_once ? wr_source_wait_until_calm(p->source, is_stopped, p, err) : wr_source_is_calm(p->source, &calm, err);
    if (rc == WR_OK && !calm) return WR_OK; /* later: the stream does not wait for it */
    if (rc == WR_OK && name && p->offset != p->committed_offset) rc = wr_apply_commit(p, err); /* what is taken back with a repair is only the repair */
    return rc == WR_OK && name ? begin(p, dir, name, err) : rc;
}

bool wr_repair_holds(const wr_pipeline *p) { return p->repair && p->repair->until.file[0] && wr_pos_cmp(&p->pos, &p->repair->until) < 0; }

wr_code wr_repair_committed(wr_pipeline *p, wr_err *err) {
    struct repair *r = p->repair;
    if (!r || !r->doc || wr_repair_holds(p)) return WR_OK;
    for (int i = 0; i < p->ntargets; i++) p->targets[i]->repaired = false;
    WR_AUTO char *done = wr_strndup(r->path, strlen(r->path) - (sizeof asked - 1));
    WR_AUTO char *path = done ? wr_asprintf("%s.json", done) : NULL;
    if (!path) return wr_nomem(err, "path", 256);
    record_end(p, r->doc);
    if (WR_FAULT("repair.record")) return wr_fail(err, WR_E_IO, WR_RETRY_AFTER_RELOAD, "injected: record of a repair");
    WR_TRY(write_json(path, r->doc, err));
    (void)WR_FAULT("repair.recorded"); /* for kill: the request is still there */
    WR_TRY(wr_file_remove(r->path, err));
    wr_log(WR_LOG_INFO, "repair %s is done", path);
    wr_repair_forget(p);
    return WR_OK;
}

/* ------------------------------------------------------------------ asking for it */
static cJSON *table_json(const wr_repair_table *t) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "namespace", t->ns), cJSON_AddStringToObject(o, "name", t->name);
    cJSON_AddBoolToObject(o, "reload", t->reload);
    if (t->reload) return o;
    cJSON *list = cJSON_AddArrayToObject(o, "keys");
    for (int i = 0; i < t->nkeys; i++) cJSON_AddItemToArray(list, cJSON_CreateStringArray(t->keys + i * t->ncolumns, t->ncolumns));
    return o;
}

void wr_request_id(char id[64]) {
    wr_iso_time(wr_now_us(), id);
    for (char *c = id; *c; c++)
        if (*c == ':') *c = '-';
    snprintf(id + strlen(id), 64 - strlen(id), "-%d", (int)getpid());
}

char *wr_pipeline_who(char buf[512]) {
    char host[256] = "", text[4096];
    struct passwd pw, *found = NULL; /* getpwuid_r: threads of a sync ask for repairs, too */
    if (getpwuid_r(getuid(), &pw, text, sizeof text, &found) != 0) found = NULL;
    gethostname(host, sizeof host - 1);
    snprintf(buf, 512, "%.200s@%s, process %d", found ? found->pw_name : "?", host, (int)getpid());
    return buf;
}

cJSON *wr_request_head(const char *id, const char *why) {
    char iso[32], who[512];
    cJSON *doc = cJSON_CreateObject();
    cJSON_AddNumberToObject(doc, "format", 1);
    cJSON_AddStringToObject(doc, "id", id);
    cJSON_AddStringToObject(doc, "asked_at", wr_iso_time(wr_now_us(), iso));
    cJSON_AddStringToObject(doc, "asked_by", wr_pipeline_who(who));
    if (why) cJSON_AddStringToObject(doc, "why", why);
    return doc;
}

static cJSON *request(const wr_repair *what, const char *id) {
    cJSON *doc = wr_request_head(id, what->why);
    if (what->report) cJSON_AddStringToObject(doc, "report", what->report);
    cJSON *list = cJSON_AddArrayToObject(doc, "tables");
    for (int i = 0; i < what->ntables; i++) cJSON_AddItemToArray(list, table_json(&what->tables[i]));
    return doc;
}

static wr_code wait_for(const char *path, const char *home, double timeout_s, wr_err *err) {
    int64_t until = wr_mono_us() + (int64_t)((timeout_s > 0 ? timeout_s : TIMEOUT_S) * 1e6);
    while (access(path, F_OK) != 0) {
        if (wr_mono_us() > until || !wr_status_running(home)) {
            wr_fail(err, WR_E_TIMEOUT, WR_RETRY_NO, "the sync in %s %s before it repaired anything", home, wr_mono_us() > until ? "took too long" : "ended");
            return wr_err_cure(err, "the request stays in %s/repair: the sync carries it out when it has caught up, at its next start at the latest", home);
        }
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000l}, NULL);
    }
    return WR_OK;
}

wr_code wr_request_run(const wr_pipeline_options *o, wr_err *err) {
    wr_pipeline *p;
    WR_TRY(wr_pipeline_new(o, &p, err));
    wr_code rc = wr_pipeline_open(p, WR_OPEN_TO_RUN, err);
    if (rc == WR_E_BUSY) wr_err_cure(err, "what was asked for stays in %s/repair: a running sync takes a repair up by itself, and a way over a gap at its next start", o->home);
    if (rc == WR_OK) rc = wr_pipeline_run(p, WR_RUN_UNTIL_CURRENT, err);
    wr_pipeline_close(p);
    return rc;
}

wr_code wr_repair_ask(const char *home, const wr_repair *what, char **ret_done, wr_err *err) {
    char id[64];
    wr_request_id(id);
    WR_AUTO char *dir = wr_path_join(home, "repair"), *want = wr_asprintf("%s/repair/%s%s", home, id, asked), *done = wr_asprintf("%s/repair/%s.json", home, id);
    if (!dir || !want || !done) return wr_nomem(err, "path", 256);
    WR_TRY(wr_mkdirs(dir, err));
    cJSON *doc = request(what, id);
    wr_code rc = write_json(want, doc, err);
    cJSON_Delete(doc);
    if (rc == WR_OK) (void)WR_FAULT("repair.asked"); /* for kill: the next sync carries it out */
    if (rc == WR_OK) *ret_done = WR_STEAL(done);
    return rc;
}

wr_code wr_pipeline_repair(const wr_pipeline_options *o, const wr_repair *what, char **ret_record, wr_err *err) {
    WR_AUTO char *catalog = wr_path_join(o->home, "catalog.db"), *done = NULL;
    if (!catalog) return wr_nomem(err, "path", 256);
    if (!wr_file_exists(catalog)) return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "there is no lake yet: %s does not exist", catalog);
    WR_TRY(wr_repair_ask(o->home, what, &done, err));
    WR_TRY(wr_status_running(o->home) ? wait_for(done, o->home, what->timeout_s, err) : wr_request_run(o, err));
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    WR_TRY(wr_file_get(done, REQUEST_MAX, &b, err));
    *ret_record = wr_buf_cstr(&b) ? wr_strdup((char *)b.p) : NULL;
    return *ret_record ? WR_OK : wr_nomem(err, "record", b.n);
}
