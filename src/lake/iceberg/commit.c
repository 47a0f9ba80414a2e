/* Edits of several tables as one catalog transaction. The order of steps is what makes it safe against a crash;
 * README.md, "A commit". */
#include <stdio.h>
#include <string.h>

#include "iceberg/catalog.h"
#include "iceberg/metadata.h"
#include "iceberg/snapshot.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

typedef struct commit {
    wr_ice_catalog *c;
    wr_store *store;
    wr_state *state;
    wr_ice_edit *edits;
    wr_plan *plans;
    int n;
    const char **uris; /* borrowed from the plans */
    int nuris;         /* of all files to write; behind them: */
    int nobsolete;     /* metadata files to remove once it is done */
    char **settled;    /* all that leaves the journal with the commit, by its names there, the obsolete ones last */
    int nsettled;
    int nwritten; /* of them, in order */
} commit;

static void commit_clear(commit *m) {
    for (int i = 0; i < m->n && m->plans; i++) wr_plan_clear(&m->plans[i]);
    wr_free(m->plans);
    wr_free(m->uris);
    for (int i = 0; i < m->nsettled; i++) wr_free(m->settled[i]);
    wr_free(m->settled);
}

/* A table that was loaded by file gets its name from the catalog. */
static wr_code name_table(commit *m, wr_ice_table *t, wr_err *err) {
    WR_AUTO char *ns = NULL, *name = NULL;
    if (t->ns || !t->location_of_meta) return WR_OK;
    WR_TRY(wr_catalog_name_of(m->c, t->location_of_meta, &ns, &name, err));
    return wr_meta_set_name(t, ns, name, err);
}

static wr_code plan_all(commit *m, wr_err *err) {
    m->plans = wr_calloc((size_t)m->n, sizeof *m->plans);
    if (!m->plans) return wr_nomem(err, "commit", (size_t)m->n * sizeof *m->plans);
    for (int i = 0; i < m->n; i++) {
        for (int j = 0; j < i; j++)
            if (m->edits[j].table == m->edits[i].table)
                return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "table %s.%s has two edits in one commit",
                               m->edits[i].table->ns, m->edits[i].table->name);
        WR_TRY(name_table(m, m->edits[i].table, err));
        if (!m->edits[i].drop) WR_TRY(wr_ice_borrow(m->c, m->edits[i].table, err));
        WR_TRY(wr_plan_edit(&m->edits[i], m->c->rest ? WR_PLAN_METADATA_SENT : WR_PLAN_METADATA_FILE, &m->plans[i], err));
        m->nuris += m->plans[i].nfiles, m->nobsolete += m->plans[i].nobsolete;
    }
    m->uris = wr_calloc((size_t)m->nuris + (size_t)m->nobsolete, sizeof *m->uris);
    if (!m->uris) return wr_nomem(err, "commit", (size_t)m->nuris * sizeof *m->uris);
    int k = 0;
    for (int i = 0; i < m->n; i++)
        for (int j = 0; j < m->plans[i].nfiles; j++) m->uris[k++] = m->plans[i].files[j].uri;
    for (int i = 0; i < m->n; i++)
        for (int j = 0; j < m->plans[i].nobsolete; j++) m->uris[k++] = m->plans[i].obsolete[j];
    return WR_OK;
}

/* ------------------------------------------------------------------ writing */
/* The journal knows files by the one spelling of their place. */
static wr_code journal(wr_state *state, const char *const *uris, int n, wr_code (*fn)(wr_state *, const char *const *, int, wr_err *), wr_err *err) {
    char **names = wr_calloc((size_t)n + 1, sizeof *names);
    wr_code rc = names ? WR_OK : wr_nomem(err, "journal", (size_t)n * sizeof *names);
    for (int i = 0; rc == WR_OK && i < n; i++) rc = wr_uri_canonical(uris[i], &names[i], err);
    if (rc == WR_OK) rc = fn(state, (const char *const *)names, n, err);
    for (int i = 0; names && i < n; i++) wr_free(names[i]);
    wr_free(names);
    return rc;
}

static wr_code write_all(commit *m, wr_err *err) {
    WR_AUTO wr_store_object *objects = wr_calloc((size_t)m->nuris + 1, sizeof *objects);
    if (!objects) return wr_nomem(err, "commit", (size_t)m->nuris * sizeof *objects);
    int n = 0;
    bool fault = false;
    for (int i = 0; i < m->n; i++)
        for (int j = 0; j < m->plans[i].nfiles && !fault; j++) {
            const wr_plan_file *f = &m->plans[i].files[j];
            if (!(fault = WR_FAULT("ice.write"))) objects[n++] = (wr_store_object){f->uri, wr_buf_view(&f->content)};
        }
    m->nwritten = n; /* before they are made: a half-made file is removed too */
    WR_TRY(wr_store_put(m->store, objects, n, err));
    if (fault) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "cannot write %s: fault ice.write", m->uris[n]);
    if (WR_FAULT("ice.synced")) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "fault ice.synced");
    return WR_OK;
}

wr_code wr_ice_announce(wr_state *state, const char *const *uris, int n, wr_err *err) {
    return journal(state, uris, n, wr_state_file_add_many, err);
}

/* Nothing refers to what was written. What cannot be removed stays in the journal for later. */
static void take_back(commit *m) {
    wr_err err = WR_ERR_INIT;
    wr_code rc = wr_store_remove(m->store, m->uris, m->nwritten, &err);
    if (rc == WR_OK && m->state && m->nuris) rc = journal(m->state, m->uris, m->nuris + m->nobsolete, wr_state_file_done, &err);
    if (rc != WR_OK) wr_log(WR_LOG_DEBUG, "%d files of a failed commit stay announced: %s", m->nuris, err.msg);
}

/* ------------------------------------------------------------------ the catalog */
static wr_code move_catalog(commit *m, const wr_ice_progress *progress, bool *ret_unknown, wr_err *err) {
    WR_AUTO wr_row_move *moves = wr_calloc((size_t)m->n, sizeof *moves);
    if (!moves) return wr_nomem(err, "commit", (size_t)m->n * sizeof *moves);
    for (int i = 0; i < m->n; i++) {
        const wr_ice_edit *e = &m->edits[i];
        const wr_ice_table *t = e->table;
        moves[i] = (wr_row_move){.ns = t->ns,
                                 .name = t->name,
                                 .new_ns = e->new_ns ? e->new_ns : t->ns,
                                 .new_name = e->new_name ? e->new_name : t->name,
                                 .old_location = t->location_of_meta,
                                 .new_location = e->drop                    ? NULL
                                                 : m->plans[i].metadata_uri ? m->plans[i].metadata_uri
                                                                            : t->location_of_meta};
    }
    return wr_catalog_move(m->c, moves, m->n, progress, ret_unknown, err);
}

/* Tables first: progress that they do not have would lose rows, and rows ahead of the progress carry their own offset. */
static wr_code move_rest(commit *m, const wr_ice_progress *progress, bool *ret_unknown, wr_err *err) {
    if (m->c->lock) WR_TRY(wr_lock_check(m->c->lock, err));
    if (m->n > 0) WR_TRY(wr_rest_commit(m->c->rest, m->state, m->plans, m->n, ret_unknown, err));
    wr_code rc = wr_catalog_move(m->c, NULL, 0, progress, ret_unknown, err);
    if (rc == WR_OK || m->n == 0) return rc;
    *ret_unknown = true;
    err->retry = WR_RETRY_AFTER_RELOAD;
    return wr_err_in(err, "the tables have moved, the progress has not");
}

/* ------------------------------------------------------------------ afterwards */
/* The commit is done; nothing here can fail it. Names that have no memory to be copied into keep the catalog in force:
 * the table object then refuses further commits (its row is not found) until it is loaded again. */
static void adopt(commit *m) {
    for (int i = 0; i < m->n; i++) {
        const wr_ice_edit *e = &m->edits[i];
        wr_ice_table *t = e->table;
        wr_plan *p = &m->plans[i];
        wr_err err = WR_ERR_INIT;
        if (p->doc) {
            cJSON_Delete(t->doc);
            t->doc = p->doc, p->doc = NULL;
            wr_free(t->location_of_meta);
            t->location_of_meta = p->metadata_uri, p->metadata_uri = NULL;
        }
        if (e->new_ns || e->new_name) {
            if (wr_meta_set_name(t, e->new_ns ? e->new_ns : t->ns, e->new_name ? e->new_name : t->name, &err) != WR_OK)
                wr_log(WR_LOG_DEBUG, "renamed table object keeps its old name: %s", err.msg);
        }
        if (e->drop) {
            wr_free(t->location_of_meta);
            t->location_of_meta = NULL;
        }
    }
}

static wr_code add_settled(commit *m, const char *uri, wr_err *err) {
    WR_TRY(wr_uri_canonical(uri, &m->settled[m->nsettled], err));
    m->nsettled++;
    return WR_OK;
}

/* What the commit makes live or has no more use for; made before, so that it cannot fail afterwards. */
static wr_code list_settled(commit *m, wr_err *err) {
    int n = m->nuris + m->nobsolete;
    for (int i = 0; i < m->n; i++) n += m->edits[i].nadded;
    m->settled = wr_calloc((size_t)n + 1, sizeof *m->settled);
    if (!m->settled) return wr_nomem(err, "journal", (size_t)n * sizeof *m->settled);
    for (int i = 0; i < m->n; i++)
        for (int j = 0; j < m->edits[i].nadded; j++) WR_TRY(add_settled(m, m->edits[i].added[j]->path, err));
    for (int i = 0; i < m->nuris + m->nobsolete; i++) WR_TRY(add_settled(m, m->uris[i], err));
    return WR_OK;
}

/* The journal may hold nothing of an earlier commit when the next begins: at a start, what it holds and no head needs is deleted, and by then
 * the head is another one. */
static wr_code tell_untold(wr_ice_catalog *c, wr_state *state, wr_err *err) {
    if (c->nuntold) WR_TRY(wr_state_file_done(state, (const char *const *)c->untold, c->nuntold, err));
    wr_catalog_forget_untold(c);
    return WR_OK;
}

static void tell_journal(commit *m) {
    wr_err err = WR_ERR_INIT;
    if (!m->state || m->nsettled == 0) return;
    m->c->untold = WR_STEAL(m->settled), m->c->nuntold = m->nsettled;
    m->nsettled = 0;
    if (tell_untold(m->c, m->state, &err) != WR_OK) wr_log(WR_LOG_DEBUG, "journal not told of committed files yet: %s", err.msg);
}

/* What cannot be removed stays in the journal: the next start tries again. */
static void delete_obsolete(commit *m) {
    wr_err err = WR_ERR_INIT;
    if (!m->nobsolete || wr_store_remove(m->store, m->uris + m->nuris, m->nobsolete, &err) == WR_OK) return;
    wr_log(WR_LOG_DEBUG, "old metadata files stay for now: %s", err.msg);
    for (int i = 0; i < m->nobsolete; i++) wr_free(m->settled[--m->nsettled]);
}

static wr_code run(commit *m, const wr_ice_progress *progress, wr_err *err) {
    if (m->state) WR_TRY(tell_untold(m->c, m->state, err));
    WR_TRY(plan_all(m, err));
    WR_TRY(list_settled(m, err));
    if (m->state && m->nuris > 0) WR_TRY(wr_ice_announce(m->state, m->uris, m->nuris + m->nobsolete, err));
    bool unknown = false;
    wr_code rc = WR_FAULT("ice.announced") ? wr_fail(err, WR_E_IO, WR_RETRY_SOON, "fault ice.announced") : WR_OK;
    if (rc == WR_OK) rc = write_all(m, err);
    if (rc == WR_OK) rc = m->c->rest ? move_rest(m, progress, &unknown, err) : move_catalog(m, progress, &unknown, err);
    if (rc != WR_OK) {
        if (!unknown) take_back(m);
        return rc;
    }
    (void)WR_FAULT("ice.committed"); /* for kill: the catalog has it, nobody else knows */
    adopt(m);
    delete_obsolete(m);
    tell_journal(m);
    (void)WR_FAULT("ice.told");
    return WR_OK;
}

wr_code wr_ice_commit(wr_ice_catalog *c, wr_state *state, wr_ice_edit *edits, int n, const wr_ice_progress *progress,
                      wr_err *err) {
    commit m = {.c = c, .store = c->store, .state = state, .edits = edits, .n = n};
    wr_code rc = run(&m, progress, err);
    commit_clear(&m);
    return rc;
}
