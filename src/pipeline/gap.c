/* Gaps of the source's log: told, and the ways on (weir resume).
 *
 * A position that the server does not have, or that is one of another history, ends the sync: nothing is skipped. The way on is asked for by a file, home/repair/<id>.asked-resume.json. The next run
 * takes it up before it streams: it looks for a position like a first start, reads the catalogue anew, and puts one transaction into the queue at that position, that begins with the request (WR_REC_GAP) and has what
 * became of the tables. From there on capture goes on. The request becomes home/repair/<id>.resume.json, the record, when that transaction is durable; a run that dies before has done nothing.
 *
 * The applying thread comes to that transaction when all in front of it is in the lake. The commit that passes it begins the loads of the tables that are read again, and marks all others unproven, in the state: until a
 * comparison (prove.c) or a load has shown that they are what the source has, the status says so, and their changes are upserts.
 *
 * Positions behind a reset are smaller than those in front of it. So nothing may compare positions of both sides: all that is held at the gap's transaction and has a position of before it is begun anew. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "impl.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define NAMES_SHOWN 4
#define REQUEST_MAX (1u << 20)
static const char asked[] = ".asked-resume.json", record[] = ".resume.json";

static const char *text_of(const cJSON *o, const char *key) {
    const char *t = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    return t ? t : "";
}

static void set_text(cJSON *o, const char *key, const char *text) {
    cJSON_DeleteItemFromObjectCaseSensitive(o, key);
    cJSON_AddStringToObject(o, key, text);
}

/* ------------------------------------------------------------------ telling */
typedef struct names { wr_buf text; int n; } names;

static wr_code add_name(void *ctx, const wr_ddl *d, wr_err *err) {
    names *x = ctx;
    if (d->kind != WR_DDL_CREATE) return WR_OK;
    if (x->n++ < NAMES_SHOWN) wr_buf_printf(&x->text, "%s%.64s.%.64s", x->n > 1 ? ", " : "", d->db, d->name);
    return WR_OK;
}

/* @thread stream */
void wr_gap_describe(wr_pipeline *p, const wr_pos *missing, wr_err *err) {
    char where[512], first[512] = "unknown", more[32] = "";
    wr_source_logs l = {0};
    wr_err why = *err, ignored = WR_ERR_INIT;
    names x = {.text = WR_BUF_INIT};
    if (wr_source_get_logs(p->source, missing, &l, &ignored) == WR_OK && l.first.file[0]) wr_pos_print(&l.first, first);
    wr_err_clear(&ignored);
    wr_source_each_table(p->source, add_name, &x, &ignored);
    if (x.n > NAMES_SHOWN) snprintf(more, sizeof more, " and %d more", x.n - NAMES_SHOWN);
    wr_fail(err, WR_E_GAP, WR_RETRY_NO, "%.360s; first missing: what is behind %.160s; first available: %.80s; tables concerned: %.300s%s", why.msg, wr_pos_print(missing, where), first,
            wr_buf_cstr(&x.text) && x.n ? (char *)x.text.p : "none", more);
    wr_err_cure(err, "weir resume -c FILE says what each way on costs: --resnapshot reads tables again, --compare-and-repair finds what differs and puts it right");
    wr_source_logs_clear(&l);
    wr_buf_free(&x.text);
}

/* ------------------------------------------------------------------ the request. @thread applying, before capture begins */
typedef struct oldest { const char *end; char *name; } oldest;

static wr_code take_oldest(void *ctx, const char *name, wr_err *err) { /* names are dates, and come in order */
    oldest *o = ctx;
    size_t n = strlen(name), k = strlen(o->end);
    if (o->name || n <= k || strcmp(name + n - k, o->end)) return WR_OK;
    return (o->name = wr_strdup(name)) ? WR_OK : wr_nomem(err, "file name", n);
}

static wr_code read_json(const char *path, cJSON **ret, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    WR_TRY(wr_file_get(path, REQUEST_MAX, &b, err));
    *ret = wr_buf_cstr(&b) ? cJSON_Parse((char *)b.p) : NULL;
    return *ret ? WR_OK : wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "%s is not JSON", path);
}

static wr_code write_json(const char *path, const cJSON *doc, wr_err *err) {
    char *text = cJSON_PrintUnformatted(doc);
    if (!text) return wr_nomem(err, "record of a gap", 4096);
    wr_code rc = wr_file_put(path, wr_slice_str(text), err);
    cJSON_free(text);
    return rc;
}

/* *ret_path NULL: nobody asked. */
static wr_code find_request(const char *home, char **ret_path, wr_err *err) {
    WR_AUTO char *dir = wr_path_join(home, "repair");
    oldest o = {.end = asked};
    *ret_path = NULL;
    if (!dir) return wr_nomem(err, "path", 64);
    if (access(dir, F_OK) != 0) return WR_OK;
    WR_TRY(wr_dir_list(dir, take_oldest, &o, err));
    *ret_path = o.name ? wr_path_join(dir, o.name) : NULL;
    bool ok = !o.name || *ret_path;
    wr_free(o.name);
    return ok ? WR_OK : wr_nomem(err, "path", 256);
}

wr_code wr_gap_asked(const char *home, bool *ret, wr_err *err) {
    WR_AUTO char *path = NULL;
    WR_TRY(find_request(home, &path, err));
    *ret = path != NULL;
    return WR_OK;
}

static char *record_path(const wr_pipeline *p, const char *id) { return wr_asprintf("%s/repair/%s%s", p->home, id, record); }

/* Of the last one: offset in the queue, and id. */
static wr_code last_gap(wr_pipeline *p, uint64_t *ret_offset, char **ret_id, wr_err *err) {
    WR_AUTO char *text = NULL;
    char *id = NULL;
    WR_TRY(wr_state_get(p->state, "gap", &text, err));
    *ret_offset = text ? strtoull(text, &id, 10) : 0;
    *ret_id = wr_strdup(id && *id == ' ' ? id + 1 : "");
    return *ret_id ? WR_OK : wr_nomem(err, "gap", 64);
}

wr_code wr_gap_open(wr_pipeline *p, uint64_t queue_last, wr_err *err) {
    WR_AUTO char *id = NULL, *open = NULL;
    WR_TRY(last_gap(p, &p->gap_offset, &id, err));
    if (p->gap_offset > queue_last) { /* the queue never got it: the request is still there */
        p->gap_offset = 0;
        WR_TRY(wr_state_set(p->state, "gap", "", err));
    }
    WR_TRY(wr_state_get(p->state, "gap.open", &open, err));
    p->gap_open = p->gap_offset && open && *open;
    return WR_OK;
}

static wr_code keep_record(wr_pipeline *p, const char *request, cJSON *doc, wr_err *err) {
    WR_AUTO char *path = record_path(p, text_of(doc, "id"));
    if (!path) return wr_nomem(err, "path", 256);
    WR_TRY(write_json(path, doc, err));
    return wr_file_remove(request, err);
}

static wr_code take_up(wr_pipeline *p, const char *path, cJSON *doc, const wr_pos *last, wr_err *err) {
    char where[512], iso[32];
    wr_pos at = {0};
    wr_source_logs l = {0};
    uint64_t offset = wr_queue_next_offset(p->queue);
    WR_TRY(wr_source_get_logs(p->source, last, &l, err));
    set_text(doc, "missing_from", wr_pos_print(last, where));
    set_text(doc, "available_from", wr_pos_print(&l.first, where));
    wr_source_logs_clear(&l);
    WR_TRY(wr_capture_rebase(p, doc, &at, err));
    wr_log(WR_LOG_WARN, "resume %s: capture goes on from %s", text_of(doc, "id"), wr_pos_print(&at, where));
    set_text(doc, "position", where);
    set_text(doc, "taken_up_at", wr_iso_time(wr_now_us(), iso));
    cJSON_DeleteItemFromObjectCaseSensitive(doc, "offset");
    cJSON_AddNumberToObject(doc, "offset", (double)offset);
    wr_pos_clear(&at);
    if (WR_FAULT("gap.in_queue")) return wr_fail(err, WR_E_IO, WR_RETRY_NO, "injected: gap in the queue");
    return keep_record(p, path, doc, err);
}

wr_code wr_gap_resume(wr_pipeline *p, const wr_pos *last, wr_err *err) {
    WR_AUTO char *path = NULL;
    cJSON *doc = NULL;
    WR_TRY(find_request(p->home, &path, err));
    if (!path) return WR_OK;
    WR_AUTO char *known = NULL;
    uint64_t ignored;
    WR_TRY(last_gap(p, &ignored, &known, err));
    WR_TRY(read_json(path, &doc, err));
    bool in_queue = p->gap_offset && !strcmp(known, text_of(doc, "id"));
    wr_code rc = in_queue ? keep_record(p, path, doc, err) : take_up(p, path, doc, last, err);
    cJSON_Delete(doc);
    return rc == WR_OK ? rc : wr_err_in(err, "resuming behind a gap");
}

/* The state first: what it says of an offset that the queue does not get is void. */
wr_code wr_gap_note(wr_pipeline *p, const cJSON *doc, uint64_t offset, wr_err *err) {
    /* births of files of before: those that come now are of another history, or so far away that they say nothing */
    const wr_fact f[] = {{.key = "gap.open", .value = "1"}, {.key = "source.binlog"}, {.key = "source.binlog.before"}};
    WR_AUTO char *text = wr_asprintf("%" PRIu64 " %s", offset, text_of(doc, "id"));
    if (!text) return wr_nomem(err, "gap", 64);
    WR_TRY(wr_state_set_all(p->state, f, (int)(sizeof f / sizeof *f), err));
    WR_TRY(wr_state_set(p->state, "gap", text, err));
    p->gap_offset = offset;
    p->gap_open = true;
    return WR_OK;
}

/* ------------------------------------------------------------------ in the queue. @thread applying */
wr_code wr_gap_enter(wr_pipeline *p, wr_slice payload, wr_err *err) {
    cJSON_Delete(p->gap);
    p->gap = cJSON_ParseWithLength((const char *)payload.p, payload.n);
    return p->gap ? WR_OK : wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "the record of a gap in the queue is not JSON");
}

void wr_gap_forget(wr_pipeline *p) {
    cJSON_Delete(p->gap);
    p->gap = NULL;
}

static bool is_listed(const cJSON *list, const target *t) {
    WR_AUTO char *full = wr_asprintf("%s.%s", t->ns, t->name);
    const cJSON *o;
    cJSON_ArrayForEach(o, list)
        if (full && cJSON_GetStringValue(o) && !strcmp(cJSON_GetStringValue(o), full)) return true;
    return !full;
}

bool wr_gap_must_load(const target *t) {
    if (t->phase != PHASE_STREAM || t->due || !wr_table_schema(t->table)->nkey) return true;
    for (int i = 0; i < t->nmembers; i++) {
        const wr_transform *x = t->members[i]->transform;
        if (x && (wr_transform_hides_key(x) || wr_transform_has_dead_letters(x))) return true;
    }
    return false;
}

bool wr_gap_loads(const wr_pipeline *p, const target *t) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(p->gap, "tables");
    if (wr_gap_must_load(t)) return true;
    return !strcmp(text_of(p->gap, "way"), "resnapshot") && (!cJSON_GetArraySize(list) || is_listed(list, t));
}

static wr_code finish_record(wr_pipeline *p, wr_err *err) {
    WR_AUTO char *id = NULL;
    char iso[32], where[512];
    uint64_t ignored;
    cJSON *doc = NULL;
    WR_TRY(last_gap(p, &ignored, &id, err));
    WR_AUTO char *path = record_path(p, id);
    if (!path) return wr_nomem(err, "path", 256);
    if (!wr_file_exists(path)) return WR_OK; /* somebody removed it */
    WR_TRY(read_json(path, &doc, err));
    set_text(doc, "done_at", wr_iso_time(wr_now_us(), iso));
    set_text(doc, "done_position", wr_pos_print(&p->pos, where));
    wr_code rc = write_json(path, doc, err);
    cJSON_Delete(doc);
    return rc;
}

/* Everything that the gap touched has been loaded or compared. */
wr_code wr_gap_settle(wr_pipeline *p, wr_err *err) {
    if (!p->gap_open || p->committed_offset < p->gap_offset) return WR_OK;
    for (int i = 0; i < p->ntargets; i++)
        if (p->targets[i]->phase != PHASE_STREAM || p->targets[i]->unproven || p->targets[i]->due) return WR_OK;
    WR_TRY(finish_record(p, err));
    WR_TRY(wr_state_set(p->state, "gap.open", "", err));
    p->gap_open = false;
    wr_log(WR_LOG_WARN, "resumed behind the gap: every table is what the source has");
    return WR_OK;
}

/* ------------------------------------------------------------------ looking, from outside */
typedef struct looking { wr_pipeline *p; wr_gap_report *r; } looking;

static wr_code look_at_table(void *ctx, const wr_ddl *d, wr_err *err) {
    looking *k = ctx;
    if (d->kind != WR_DDL_CREATE) return WR_OK;
    wr_gap_report *r = k->r;
    wr_gap_table *t = wr_realloc(r->tables, ((size_t)r->ntables + 1) * sizeof *t);
    if (!t) return wr_nomem(err, "tables", sizeof *t);
    r->tables = t;
    t += r->ntables++;
    wr_route to = wr_routes_find(k->p->routes, d->db, d->name);
    *t = (wr_gap_table){.source = wr_asprintf("%s.%s", d->db, d->name), .lake = wr_asprintf("%s.%s", to.ns, to.name), .keyed = d->schema && d->schema->nkey > 0};
    if (!t->source || !t->lake) return wr_nomem(err, "tables", 64);
    wr_snap *sn;
    wr_code rc = wr_snap_open(k->p->source, d->def, &sn, err);
    t->changed = rc == WR_E_SCHEMA, t->gone = rc == WR_E_NOTFOUND;
    if (t->changed || t->gone) return wr_err_clear(err), WR_OK;
    WR_TRY(rc);
    t->rows = wr_snap_estimate(sn);
    wr_snap_close(sn);
    return WR_OK;
}

/* What the last run ended with, when it was something that waiting does not cure and that is no gap: reading anew may be the way past it. */
static wr_code last_failure(const char *home, wr_gap_report *r, wr_err *err) {
    wr_status_file s = {0};
    wr_code rc = wr_status_read(home, &s, err);
    if (rc == WR_E_NOTFOUND) return wr_err_clear(err), WR_OK;
    WR_TRY(rc);
    if (!strcmp(s.state, "failed") && s.error[0]) r->failed = true, snprintf(r->why, sizeof r->why, "%s", s.error);
    wr_status_clear(&s);
    return WR_OK;
}

static wr_code look(wr_pipeline *p, wr_gap_report *r, wr_err *err) {
    uint64_t last;
    WR_TRY(wr_queue_last(p->queue, &last, &r->missing, err));
    if (!r->missing.file[0]) return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "'%s' has captured nothing yet: there is nothing to resume", p->o.name);
    WR_TRY(wr_gap_open(p, last, err));
    r->under_way = p->gap_open;
    WR_AUTO char *request = NULL, *id = NULL;
    uint64_t ignored;
    WR_TRY(last_gap(p, &ignored, &id, err));
    snprintf(r->id, sizeof r->id, "%s", id);
    WR_TRY(find_request(p->home, &request, err));
    r->asked = request != NULL;
    WR_TRY(wr_capture_restore(p, last, err));
    WR_TRY(wr_source_get_logs(p->source, &r->missing, &r->logs, err));
    WR_TRY(wr_source_each_table(p->source, look_at_table, &(looking){p, r}, err));
    wr_code rc = wr_capture_probe(p, &r->missing, err);
    if (rc != WR_E_GAP) return rc;
    r->gap = true, r->failed = false;
    snprintf(r->why, sizeof r->why, "%s", err->msg);
    return wr_err_clear(err), WR_OK;
}

void wr_gap_report_clear(wr_gap_report *r) {
    wr_pos_clear(&r->missing);
    wr_source_logs_clear(&r->logs);
    for (int i = 0; i < r->ntables; i++) wr_free(r->tables[i].source), wr_free(r->tables[i].lake);
    wr_free(r->tables);
    *r = (wr_gap_report){0};
}

wr_code wr_pipeline_look_for_gap(const wr_pipeline_options *o, wr_gap_report *ret, wr_err *err) {
    wr_pipeline *p;
    wr_gap_report r = {0};
    WR_AUTO char *catalog = wr_path_join(o->home, "catalog.db");
    if (!catalog) return wr_nomem(err, "path", 64);
    if (!wr_file_exists(catalog)) return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "there is no lake yet: %s does not exist", catalog);
    WR_TRY(last_failure(o->home, &r, err)); /* before the lock is this process's: the status is another's then */
    wr_pipeline_options to_look = *o;
    to_look.source.behind_gap = true;
    WR_TRY(wr_pipeline_new(&to_look, &p, err));
    wr_code rc = wr_pipeline_open(p, WR_OPEN_TO_LOOK, err);
    if (rc == WR_OK) rc = look(p, &r, err);
    wr_pipeline_close(p);
    if (rc != WR_OK) return wr_gap_report_clear(&r), rc;
    *ret = r;
    return WR_OK;
}

/* ------------------------------------------------------------------ asking */
static wr_code ask(const wr_pipeline_options *o, const wr_resume *what, const char *id, wr_err *err) {
    WR_AUTO char *dir = wr_path_join(o->home, "repair"), *path = wr_asprintf("%s/repair/%s%s", o->home, id, asked), *before = NULL;
    if (!dir || !path) return wr_nomem(err, "path", 256);
    WR_TRY(wr_mkdirs(dir, err));
    WR_TRY(find_request(o->home, &before, err));
    cJSON *doc = wr_request_head(id, what->why), *list;
    cJSON_AddStringToObject(doc, "way", what->way == WR_RESUME_RESNAPSHOT ? "resnapshot" : "compare");
    if (what->reason) cJSON_AddStringToObject(doc, "reason", what->reason);
    list = cJSON_AddArrayToObject(doc, "tables");
    for (int i = 0; i < what->ntables; i++) cJSON_AddItemToArray(list, cJSON_CreateString(what->tables[i]));
    wr_code rc = write_json(path, doc, err);
    cJSON_Delete(doc);
    return rc == WR_OK && before ? wr_file_remove(before, err) : rc; /* it is instead of that */
}

wr_code wr_pipeline_resume(const wr_pipeline_options *o, const wr_resume *what, char **ret_record, wr_err *err) {
    char id[64];
    if (what->go_on) snprintf(id, sizeof id, "%s", what->go_on);
    else {
        wr_request_id(id);
        WR_TRY(ask(o, what, id, err));
    }
    WR_TRY(wr_request_run(o, err));
    WR_AUTO char *path = wr_asprintf("%s/repair/%s%s", o->home, id, record);
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    if (!path) return wr_nomem(err, "path", 256);
    WR_TRY(wr_file_get(path, REQUEST_MAX, &b, err));
    *ret_record = wr_buf_cstr(&b) ? wr_strdup((char *)b.p) : NULL;
    return *ret_record ? WR_OK : wr_nomem(err, "record", b.n);
}
