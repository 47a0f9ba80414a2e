/* A commit through a REST catalog, which moves one table at a time, may not answer, and knows nothing of our progress. What makes it safe: each request
 * says what it expects to find, is recognised by a uuid of its own, and is repeated until its outcome is known. README.md, "A REST commit". */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "iceberg/metadata.h"
#include "iceberg/rest_call.h"
#include "iceberg/rest_diff.h"
#include "iceberg/uuid.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define COMMIT_PROPERTY "weir.commit"
#define PENDING_FACT "rest.pending"

/* One table's way through the commit. */
typedef struct move {
    wr_plan *plan;
    const char *ns, *name;       /* where it is now */
    const char *to_ns, *to_name; /* and when all is done */
    char parked[64];             /* its name while another table takes its own; "" = it keeps it till it moves */
    char commit[WR_UUID_TEXT];   /* "" = its metadata does not change */
    wr_buf change;               /* "requirements":[..],"updates":[..] */
    bool namespace_made;
    bool late;                   /* a request got no answer and may come through yet */
    bool done;
} move;

typedef struct rest_commit {
    wr_rest *r;
    wr_state *state;
    move *m;
    int n;
    bool announced;
    bool changed;     /* something has, or still may */
    int64_t until_us; /* of the step under way */
} rest_commit;

static void commit_clear(rest_commit *c) {
    for (int i = 0; c->m && i < c->n; i++) wr_buf_free(&c->m[i].change);
    wr_free(c->m);
}

static bool creates(const move *m) { return m->plan->edit->create; }
static bool drops(const move *m) { return m->plan->edit->drop; }
static bool is_at(const move *m, const char *ns, const char *name) { return strcmp(m->ns, ns) == 0 && strcmp(m->name, name) == 0; }
static bool moves(const move *m) { return !creates(m) && !is_at(m, m->to_ns, m->to_name); }
static bool in_time(const rest_commit *c, int64_t more_us) { return wr_mono_us() + more_us < c->until_us; }

static void begin_step(rest_commit *c) { c->until_us = wr_mono_us() + c->r->patience_us; }

static wr_code in_table(const move *m, wr_err *err) { return wr_err_in(err, "table %s.%s", m->to_ns, m->to_name); }

/* The new snapshot of this edit, -1 = it makes none. */
static int64_t snapshot_of(const move *m) {
    const wr_ice_edit *e = m->plan->edit;
    if (e->no_snapshot || !m->plan->doc) return -1;
    return wr_meta_ref(m->plan->doc, e->publish ? WR_ICE_MAIN : e->ref);
}

/* ------------------------------------------------------------------ before anything is sent */
static wr_code put_change(move *m, wr_err *err) {
    wr_plan *p = m->plan;
    wr_rest_change c = {0};
    cJSON *props = wr_json_object(p->doc, "properties");
    if (!wr_uuid_new(m->commit)) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "getrandom gave no uuid");
    if (!props || !wr_json_set_str(props, COMMIT_PROPERTY, m->commit)) return wr_nomem(err, "properties", 100);
    WR_TRY(wr_rest_diff(creates(m) ? NULL : p->table->doc, p->doc, &c, err));
    wr_buf_printf(&m->change, "\"requirements\":");
    wr_code rc = wr_json_print(c.requirements, &m->change, err);
    wr_buf_printf(&m->change, ",\"updates\":");
    if (rc == WR_OK) rc = wr_json_print(c.updates, &m->change, err);
    wr_rest_change_clear(&c);
    return rc == WR_OK ? wr_buf_check(&m->change, "commit request", err) : rc;
}

/* A name that another table of this commit takes is given up first. */
static void plan_parking(rest_commit *c) {
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->n; k++) {
            move *m = &c->m[i];
            if (k == i || creates(m) || drops(&c->m[k]) || !is_at(m, c->m[k].to_ns, c->m[k].to_name)) continue;
            snprintf(m->parked, sizeof m->parked, "weir-moving-%.36s", wr_ice_uuid(m->plan->table));
        }
}

static wr_code prepare(rest_commit *c, wr_plan *plans, wr_err *err) {
    c->m = wr_calloc((size_t)c->n, sizeof *c->m);
    if (!c->m) return wr_nomem(err, "commit", (size_t)c->n * sizeof *c->m);
    for (int i = 0; i < c->n; i++) {
        const wr_ice_edit *e = plans[i].edit;
        const wr_ice_table *t = plans[i].table;
        move *m = &c->m[i];
        *m = (move){.plan = &plans[i], .ns = t->ns, .name = t->name, .to_ns = e->new_ns ? e->new_ns : t->ns, .to_name = e->new_name ? e->new_name : t->name};
        if (plans[i].doc && put_change(m, err) != WR_OK) return in_table(m, err);
    }
    plan_parking(c);
    return WR_OK;
}

/* ------------------------------------------------------------------ pending entries */
static cJSON *entry_of(const move *m) {
    const wr_plan *p = m->plan;
    const cJSON *before = creates(m) ? NULL : p->table->doc;
    cJSON *e = cJSON_CreateObject();
    bool ok = e && wr_json_set_str(e, "ns", m->to_ns) && wr_json_set_str(e, "name", m->to_name) && wr_json_set_str(e, "uuid", wr_ice_uuid(p->table)) &&
              wr_json_set(e, "create", cJSON_CreateBool(creates(m))) && wr_json_set_num(e, "main", before ? wr_meta_ref(before, WR_ICE_MAIN) : -1) &&
              wr_json_set_num(e, "load", before ? wr_meta_ref(before, WR_ICE_LOAD) : -1) && wr_json_set_num(e, "snapshot", snapshot_of(m)) &&
              wr_json_set_str(e, "commit", m->commit);
    if (!ok) cJSON_Delete(e), e = NULL;
    return e;
}

static wr_code keep_pending(wr_state *state, const cJSON *entries, wr_err *err) {
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    WR_TRY(wr_json_print(entries, &text, err));
    const char *s = wr_buf_cstr(&text);
    return s ? wr_state_set(state, PENDING_FACT, s, err) : wr_nomem(err, "pending commits", text.n);
}

/* Those of earlier processes that are still open, and ours: all, or those that may still come through. NULL when memory is out. */
static cJSON *entries_of(const rest_commit *c, bool all) {
    cJSON *list = c->r->open ? cJSON_Duplicate(c->r->open, 1) : cJSON_CreateArray();
    bool ok = list;
    for (int i = 0; ok && i < c->n; i++) {
        const move *m = &c->m[i];
        if (m->commit[0] && (all || (m->late && !m->done))) ok = wr_json_push(list, entry_of(m));
    }
    if (!ok) cJSON_Delete(list), list = NULL;
    return list;
}

/* Before anything is sent: a process that dies now may have sent it. */
static wr_code announce(rest_commit *c, wr_err *err) {
    for (int i = 0; i < c->n; i++) c->announced = c->announced || (c->state && c->m[i].commit[0]);
    if (!c->announced) return WR_OK;
    WR_AUTO_JSON cJSON *list = entries_of(c, true);
    return list ? keep_pending(c->state, list, err) : wr_nomem(err, "pending commits", 1024);
}

/* What cannot be cleared is looked at again at the next start. */
static void clear_known(rest_commit *c) {
    wr_err err = WR_ERR_INIT;
    if (!c->announced) return;
    cJSON *list = entries_of(c, false);
    wr_code rc = list ? keep_pending(c->state, list, &err) : wr_nomem(&err, "pending commits", 1024);
    if (rc != WR_OK) wr_log(WR_LOG_DEBUG, "pending commits stay noted: %s", err.msg);
    if (!list) return;
    cJSON_Delete(c->r->open);
    c->r->open = list;
}

/* ------------------------------------------------------------------ what a table says */
typedef enum seen {
    SEEN_OURS,  /* the commit is in it */
    SEEN_BASE,  /* it is not, and the branches and the columns are what they were */
    SEEN_MOVED, /* somebody else changed them: it cannot come any more */
    SEEN_OTHER, /* another table has the name */
    SEEN_NONE,
} seen;

static bool has_commit(const wr_ice_table *t, const char *commit, int64_t snapshot_id) {
    const char *c = wr_meta_property(t->doc, COMMIT_PROPERTY);
    return (c && strcmp(c, commit) == 0) || (snapshot_id >= 0 && wr_meta_snapshot(t->doc, snapshot_id));
}

static bool untouched(const cJSON *now, const cJSON *doc) { return wr_meta_same_heads(now, doc) && wr_meta_same_current_schema(now, doc); }

static seen judge(const move *m, const wr_ice_table *t) {
    if (strcmp(wr_ice_uuid(t), wr_ice_uuid(m->plan->table)) != 0) return SEEN_OTHER;
    if (m->commit[0] && has_commit(t, m->commit, snapshot_of(m))) return SEEN_OURS;
    return creates(m) || untouched(t->doc, m->plan->table->doc) ? SEEN_BASE : SEEN_MOVED;
}

/* Until the catalog says. ret_table may be NULL. */
static wr_code look(const rest_commit *c, const move *m, const char *ns, const char *name, seen *ret_seen, wr_ice_table **ret_table, wr_err *err) {
    wr_ice_table *t = NULL;
    wr_code rc = wr_rest_load_until(c->r, ns, name, c->until_us, &t, err);
    if (rc == WR_E_NOTFOUND) return wr_err_clear(err), *ret_seen = SEEN_NONE, WR_OK;
    WR_TRY(rc);
    *ret_seen = judge(m, t);
    if (ret_table)
        *ret_table = t;
    else
        wr_ice_table_free(t);
    return WR_OK;
}

/* ------------------------------------------------------------------ done */
/* A new snapshot names its schema by number, and the numbers are the catalog's. */
static wr_code check_schema(const move *m, const wr_ice_table *t, wr_err *err) {
    const cJSON *s = snapshot_of(m) >= 0 ? wr_meta_snapshot(t->doc, snapshot_of(m)) : NULL;
    if (!s) return WR_OK;
    int64_t id = wr_meta_num(s, "schema-id", -1);
    const cJSON *ours = wr_meta_schema(m->plan->doc, id), *theirs = wr_meta_schema(t->doc, id);
    if (!ours || (theirs && wr_meta_same_schema(ours, theirs))) return WR_OK;
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "the catalog did not give the new schema the number %" PRId64 " that the new snapshot names", id);
    return wr_err_cure(err, "the catalog must reuse an equal schema and number others one by one, as Iceberg's own does");
}

/* The plan takes the catalog's metadata; when others have changed branches or columns since, it stays as we made it, so that the next commit meets the conflict. */
static wr_code adopt(rest_commit *c, move *m, wr_ice_table *t, wr_err *err) {
    wr_plan *p = m->plan;
    m->done = c->changed = true;
    wr_code rc = check_schema(m, t, err);
    wr_free(p->metadata_uri);
    p->metadata_uri = WR_STEAL(t->location_of_meta);
    if (untouched(t->doc, p->doc)) {
        cJSON_Delete(p->doc);
        p->doc = t->doc, t->doc = NULL;
    }
    wr_ice_table_free(t);
    return rc == WR_OK ? WR_OK : in_table(m, err);
}

/* ------------------------------------------------------------------ names */
static wr_code rename_body(const move *m, const char *ns, const char *name, wr_buf *body, wr_err *err) {
    WR_AUTO_JSON cJSON *o = cJSON_CreateObject();
    if (!o || !wr_json_set(o, "source", wr_rest_identifier(m->ns, m->name)) || !wr_json_set(o, "destination", wr_rest_identifier(ns, name)))
        return wr_nomem(err, "rename", 200);
    return wr_json_print(o, body, err);
}

static wr_code gone(const move *m, wr_err *err) {
    return wr_fail(err, WR_E_CONFLICT, WR_RETRY_AFTER_RELOAD, "it is not at %s.%s any more: somebody else renamed or dropped it", m->ns, m->name);
}

/* What the table is found under decides, whatever the answer was. */
static wr_code rename_once(rest_commit *c, move *m, const char *ns, const char *name, wr_slice body, int attempt, bool *ret_done, wr_err *err) {
    WR_AUTO_ANSWER wr_rest_answer a = {0};
    wr_err why = WR_ERR_INIT;
    seen there, here;
    wr_code rc = wr_rest_call(c->r, "POST", "/tables/rename", body, attempt, &a, err);
    c->changed = c->changed || rc == WR_OK || a.unknown;
    *ret_done = rc == WR_OK;
    if (rc == WR_OK || rc == WR_E_AUTH || (a.status == 0 && !a.unknown)) return rc;
    WR_TRY(look(c, m, ns, name, &there, NULL, &why) == WR_OK ? WR_OK : (*err = why, why.code));
    if (there == SEEN_OURS || there == SEEN_BASE || there == SEEN_MOVED) return wr_err_clear(err), *ret_done = true, c->changed = true, WR_OK;
    if (there == SEEN_OTHER) return wr_fail(err, WR_E_EXISTS, WR_RETRY_NO, "the catalog already has a table %s.%s", ns, name);
    WR_TRY(look(c, m, m->ns, m->name, &here, NULL, &why) == WR_OK ? WR_OK : (*err = why, why.code));
    if (here == SEEN_NONE || here == SEEN_OTHER) return gone(m, err);
    if (a.status == 404 && !m->namespace_made) return m->namespace_made = true, wr_rest_make_namespace(c->r, ns, c->until_us, err);
    if (!a.unknown || !in_time(c, a.backoff_us)) return rc;
    wr_err_clear(err);
    wr_rest_wait(a.backoff_us);
    return WR_OK;
}

static wr_code rename_to(rest_commit *c, move *m, const char *ns, const char *name, wr_err *err) {
    WR_AUTO_BUF wr_buf body = WR_BUF_INIT;
    bool done = false;
    begin_step(c);
    wr_code rc = rename_body(m, ns, name, &body, err);
    for (int i = 0; rc == WR_OK && !done; i++) {
        wr_err_clear(err);
        rc = rename_once(c, m, ns, name, wr_buf_view(&body), i, &done, err);
    }
    if (rc != WR_OK) return wr_err_in(err, "renaming table %s.%s to %s.%s", m->ns, m->name, ns, name);
    m->ns = ns, m->name = name;
    return WR_OK;
}

static wr_code rename_all(rest_commit *c, wr_err *err) {
    for (int i = 0; i < c->n; i++)
        if (c->m[i].parked[0]) WR_TRY(rename_to(c, &c->m[i], c->m[i].ns, c->m[i].parked, err));
    for (int i = 0; i < c->n; i++)
        if (!drops(&c->m[i]) && moves(&c->m[i])) WR_TRY(rename_to(c, &c->m[i], c->m[i].to_ns, c->m[i].to_name, err));
    return WR_OK;
}

/* ------------------------------------------------------------------ one table's metadata */
static wr_code refused(const move *m, seen s, wr_err *err) {
    if (creates(m) && s == SEEN_OTHER) /* made by an earlier process of ours, whose request came late, perhaps: opening anew tells */
        return wr_fail(err, WR_E_EXISTS, WR_RETRY_AFTER_RELOAD, "the catalog already has a table %s.%s", m->to_ns, m->to_name);
    if (creates(m)) {
        if (err->code == WR_E_CONFLICT) err->code = WR_E_EXISTS, err->retry = WR_RETRY_NO; /* a view, perhaps */
        return err->code;
    }
    if (s == SEEN_NONE || s == SEEN_OTHER) return gone(m, err);
    char said[200];
    snprintf(said, sizeof said, "%.199s", err->msg);
    if (s == SEEN_MOVED)
        return wr_fail(err, WR_E_CONFLICT, WR_RETRY_AFTER_RELOAD, "somebody else committed to it (the catalog says: %s)", said);
    return err->code;
}

/* Snapshots of all branches share the numbers: a commit to a branch of somebody else's makes ours too small, for which catalogs have no word of their own. */
static bool is_outrun(const move *m, const wr_ice_table *t) {
    return !creates(m) && wr_meta_num(t->doc, "last-sequence-number", 0) != wr_meta_num(m->plan->table->doc, "last-sequence-number", 0);
}

/* The answer to an attempt is an error, or cannot be read: the table is asked. WR_OK and not done: once more. */
static wr_code find_out(rest_commit *c, move *m, const wr_rest_answer *a, wr_err *err) {
    wr_err why = WR_ERR_INIT;
    wr_ice_table *t = NULL;
    seen s = SEEN_BASE;
    m->late = m->late || a->unknown;
    c->changed = c->changed || a->unknown;
    if (err->code == WR_E_CONFLICT) err->retry = WR_RETRY_AFTER_RELOAD;
    if (!m->late && (a->status == 0 || err->code == WR_E_AUTH)) return err->code; /* never got there */
    wr_code rc = look(c, m, m->to_ns, m->to_name, &s, &t, &why);
    if (rc != WR_OK) return m->late ? (*err = why, rc) : err->code;
    if (s == SEEN_OURS) return wr_err_clear(err), adopt(c, m, t, err);
    bool outrun = s == SEEN_BASE && is_outrun(m, t);
    wr_ice_table_free(t);
    if (s == SEEN_MOVED || s == SEEN_OTHER || (s == SEEN_NONE && !creates(m))) m->late = false; /* nothing of ours can come any more */
    if (creates(m) && s == SEEN_NONE && a->status == 404 && !m->namespace_made)
        return m->namespace_made = true, wr_err_clear(err), wr_rest_make_namespace(c->r, m->to_ns, c->until_us, err);
    bool open = s == SEEN_BASE || (s == SEEN_NONE && creates(m));
    if (!a->unknown || !open || !in_time(c, a->backoff_us)) return refused(m, outrun ? SEEN_MOVED : s, err);
    wr_err_clear(err);
    wr_rest_wait(a->backoff_us);
    return WR_OK;
}

static wr_code take_answer(rest_commit *c, move *m, wr_rest_answer *a, wr_err *err) {
    wr_ice_table *t = NULL;
    WR_TRY(wr_rest_read_loaded(c->r, a, m->to_ns, m->to_name, &t, err));
    if (judge(m, t) == SEEN_OURS) return adopt(c, m, t, err);
    wr_ice_table_free(t);
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "the catalog answered a commit with metadata that lacks it");
}

static wr_code commit_one(rest_commit *c, move *m, wr_err *err) {
    WR_AUTO char *path = wr_rest_table_path(c->r, m->to_ns, m->to_name);
    WR_AUTO_BUF wr_buf body = WR_BUF_INIT;
    begin_step(c);
    wr_buf_u8(&body, '{'), wr_buf_put(&body, m->change.p, m->change.n), wr_buf_u8(&body, '}');
    if (!path) return wr_nomem(err, "request", 64);
    WR_TRY(wr_buf_check(&body, "commit request", err));
    for (int i = 0; !m->done; i++) {
        WR_AUTO_ANSWER wr_rest_answer a = {0};
        wr_code rc = wr_rest_call(c->r, "POST", path, wr_buf_view(&body), i, &a, err);
        (void)WR_FAULT("rest.committed"); /* for kill: the catalog has it, and nobody here knows */
        if (rc == WR_OK) rc = take_answer(c, m, &a, err), a.unknown = rc != WR_OK;
        if (m->done) return rc;
        WR_TRY(find_out(c, m, &a, err));
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ several at once */
static bool goes_together(const move *m) { return m->commit[0] && !creates(m) && !m->done; }

static wr_code together_body(const rest_commit *c, wr_buf *body, wr_err *err) {
    bool first = true;
    wr_buf_printf(body, "{\"table-changes\":[");
    for (int i = 0; i < c->n; i++) {
        const move *m = &c->m[i];
        if (!goes_together(m)) continue;
        WR_AUTO_JSON cJSON *id = wr_rest_identifier(m->to_ns, m->to_name);
        if (!id) return wr_nomem(err, "commit request", 100);
        wr_buf_printf(body, "%s{\"identifier\":", first ? "" : ",");
        WR_TRY(wr_json_print(id, body, err));
        wr_buf_u8(body, ','), wr_buf_put(body, m->change.p, m->change.n), wr_buf_u8(body, '}');
        first = false;
    }
    wr_buf_printf(body, "]}");
    return wr_buf_check(body, "commit request", err);
}

/* After the request, whatever its answer: a catalog may have moved some tables only, or say that it moved them and be wrong. */
static wr_code look_at_all(rest_commit *c, int *ret_open, move **ret_refused, seen *ret_why, wr_err *err) {
    *ret_open = 0, *ret_refused = NULL;
    for (int i = 0; i < c->n; i++) {
        move *m = &c->m[i];
        wr_ice_table *t = NULL;
        seen s;
        if (!goes_together(m)) continue;
        WR_TRY(look(c, m, m->to_ns, m->to_name, &s, &t, err));
        if (s == SEEN_OURS) {
            WR_TRY(adopt(c, m, t, err));
            continue;
        }
        wr_ice_table_free(t);
        if (s == SEEN_BASE) {
            ++*ret_open;
        } else {
            m->late = false;
            if (!*ret_refused) *ret_refused = m, *ret_why = s;
        }
    }
    return WR_OK;
}

static bool not_offered(const wr_rest_answer *a) {
    return a->status == 405 || a->status == 406 || a->status == 501 || (a->status == 404 && strncmp(a->type, "NoSuch", 6) != 0);
}

/* How many there are, and how many of them may come through yet. */
static int count_together(rest_commit *c, bool late, int *ret_late) {
    int n = 0;
    *ret_late = 0;
    for (int i = 0; i < c->n; i++) {
        move *m = &c->m[i];
        if (!goes_together(m)) continue;
        m->late = m->late || late;
        n++, *ret_late += m->late;
    }
    return n;
}

/* One attempt. *ret_again: its outcome is open and it is worth another. WR_OK otherwise: tables that are not done go one by one. */
static wr_code together_once(rest_commit *c, wr_slice body, int attempt, bool *ret_again, wr_err *err) {
    WR_AUTO_ANSWER wr_rest_answer a = {0};
    wr_err why = WR_ERR_INIT;
    int open, late;
    move *lost;
    seen how;
    wr_code rc = wr_rest_call(c->r, "POST", "/transactions/commit", body, attempt, &a, err);
    (void)WR_FAULT("rest.committed");
    c->changed = c->changed || rc == WR_OK || a.unknown;
    int n = count_together(c, rc == WR_OK || a.unknown, &late);
    if (rc != WR_OK && not_offered(&a)) return c->r->transactions = WR_REST_NOT_OFFERED, wr_err_clear(err), WR_OK;
    if (!late && (a.status == 0 || rc == WR_E_AUTH)) return rc;
    if (look_at_all(c, &open, &lost, &how, &why) != WR_OK) return late ? (*err = why, why.code) : rc;
    if (lost) return refused(lost, how, err), in_table(lost, err);
    bool refused_as_such = rc == WR_E_SERVER && !a.unknown; /* too many for it, perhaps */
    if (rc == WR_OK || open == 0 || (a.unknown && open < n) || refused_as_such) return wr_err_clear(err), WR_OK;
    if (rc == WR_E_CONFLICT) err->retry = WR_RETRY_AFTER_RELOAD;
    if (!a.unknown || !in_time(c, a.backoff_us)) return rc;
    wr_err_clear(err);
    wr_rest_wait(a.backoff_us);
    return *ret_again = true, WR_OK;
}

static wr_code commit_together(rest_commit *c, wr_err *err) {
    WR_AUTO_BUF wr_buf body = WR_BUF_INIT;
    bool again = true;
    begin_step(c);
    WR_TRY(together_body(c, &body, err));
    for (int i = 0; again; i++) {
        again = false;
        WR_TRY(together_once(c, wr_buf_view(&body), i, &again, err));
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ drops */
/* A request to drop has no requirement: that it is still our table is looked at first. */
static wr_code drop_one(rest_commit *c, move *m, wr_err *err) {
    WR_AUTO char *table = wr_rest_table_path(c->r, m->ns, m->name), *path = table ? wr_asprintf("%s?purgeRequested=false", table) : NULL;
    if (!path) return wr_nomem(err, "request", 64);
    begin_step(c);
    for (int i = 0;; i++) {
        WR_AUTO_ANSWER wr_rest_answer a = {0};
        seen s;
        WR_TRY(look(c, m, m->ns, m->name, &s, NULL, err));
        if (s == SEEN_NONE || s == SEEN_OTHER) return m->done = true, WR_OK;
        wr_code rc = wr_rest_call(c->r, "DELETE", path, (wr_slice){0}, i, &a, err);
        c->changed = c->changed || rc == WR_OK || a.unknown;
        if (rc == WR_OK) return m->done = true, WR_OK;
        if (rc != WR_E_NOTFOUND && (!a.unknown || !in_time(c, a.backoff_us))) return wr_err_in(err, "dropping table %s.%s", m->ns, m->name);
        wr_err_clear(err);
        if (rc != WR_E_NOTFOUND) wr_rest_wait(a.backoff_us);
    }
}

/* ------------------------------------------------------------------ all of it */
static wr_code run(rest_commit *c, wr_err *err) {
    int together = 0;
    WR_TRY(rename_all(c, err));
    for (int i = 0; i < c->n; i++) {
        move *m = &c->m[i];
        if (m->commit[0] && creates(m) && commit_one(c, m, err) != WR_OK) return in_table(m, err);
        together += goes_together(m);
    }
    if (together > 1 && c->r->transactions != WR_REST_NOT_OFFERED) WR_TRY(commit_together(c, err));
    for (int i = 0; i < c->n; i++) {
        move *m = &c->m[i];
        if (goes_together(m) && commit_one(c, m, err) != WR_OK) return in_table(m, err);
    }
    for (int i = 0; i < c->n; i++)
        if (drops(&c->m[i])) WR_TRY(drop_one(c, &c->m[i], err));
    return WR_OK;
}

wr_code wr_rest_commit(wr_rest *r, wr_state *state, wr_plan *plans, int n, bool *ret_changed, wr_err *err) {
    rest_commit c = {.r = r, .state = state, .n = n};
    bool late = false;
    wr_code rc = prepare(&c, plans, err);
    if (rc == WR_OK) rc = announce(&c, err);
    if (rc == WR_OK) rc = WR_FAULT("rest.announced") ? wr_fail(err, WR_E_IO, WR_RETRY_SOON, "fault rest.announced") : run(&c, err);
    for (int i = 0; c.m && i < n; i++) late = late || (c.m[i].late && !c.m[i].done);
    if (c.m) clear_known(&c);
    if (rc != WR_OK && c.changed) {
        err->retry = err->code == WR_E_UNSUPPORTED ? WR_RETRY_NO : WR_RETRY_AFTER_RELOAD;
        if (late) wr_err_in(err, "the outcome of the commit is unknown");
    }
    *ret_changed = c.changed;
    commit_clear(&c);
    return rc;
}

/* ------------------------------------------------------------------ after a start */
/* It is in the table, or its requirements hold no more, or it had none to meet. */
static wr_code entry_settled(wr_rest *r, const cJSON *e, bool *ret_settled, wr_err *err) {
    const char *ns = wr_json_str(e, "ns"), *name = wr_json_str(e, "name"), *uuid = wr_json_str(e, "uuid"), *commit = wr_json_str(e, "commit");
    int64_t main_head, load_head, snapshot;
    wr_ice_table *t = NULL;
    if (!ns || !name || !uuid || !commit || !wr_json_i64(e, "main", &main_head) || !wr_json_i64(e, "load", &load_head) || !wr_json_i64(e, "snapshot", &snapshot))
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "fact " PENDING_FACT " of state.db is damaged");
    wr_code rc = wr_rest_load(r, ns, name, &t, err);
    if (rc == WR_E_NOTFOUND) return wr_err_clear(err), *ret_settled = !cJSON_IsTrue(wr_json_get(e, "create")), WR_OK;
    WR_TRY(rc);
    *ret_settled = strcmp(wr_ice_uuid(t), uuid) != 0 || has_commit(t, commit, snapshot) || wr_meta_ref(t->doc, WR_ICE_MAIN) != main_head ||
                   wr_meta_ref(t->doc, WR_ICE_LOAD) != load_head;
    wr_ice_table_free(t);
    return WR_OK;
}

wr_code wr_rest_settle(wr_rest *r, wr_state *state, bool *ret_settled, wr_err *err) {
    WR_AUTO char *text = NULL;
    WR_AUTO_JSON cJSON *list = NULL, *open = cJSON_CreateArray();
    if (!open) return wr_nomem(err, "pending commits", 64);
    WR_TRY(wr_state_get(state, PENDING_FACT, &text, err));
    if (text) WR_TRY(wr_json_parse(wr_slice_str(text), "fact " PENDING_FACT " of state.db", &list, err));
    for (cJSON *e = list ? list->child : NULL, *next; e; e = next) {
        bool settled = false;
        next = e->next;
        if (entry_settled(r, e, &settled, err) != WR_OK) return wr_err_in(err, "looking for an unfinished commit");
        if (!settled && !wr_json_push(open, cJSON_DetachItemViaPointer(list, e))) return wr_nomem(err, "pending commits", 256);
    }
    if (list && list->child) WR_TRY(keep_pending(state, open, err)); /* some are settled */
    *ret_settled = !open->child;
    cJSON_Delete(r->open);
    r->open = WR_STEAL(open);
    return WR_OK;
}
