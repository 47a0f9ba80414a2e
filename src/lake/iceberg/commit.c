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
#include "weir/io.h"

typedef struct commit {
    wr_ice_catalog *c;
    wr_state *state;
    wr_ice_edit *edits;
    wr_plan *plans;
    int n;
    const char **paths;
    int npaths;   /* of all files to write: borrowed from the plans */
    int nwritten; /* of them, in order */
} commit;

static void commit_clear(commit *m) {
    for (int i = 0; i < m->n && m->plans; i++) wr_plan_clear(&m->plans[i]);
    wr_free(m->plans);
    wr_free(m->paths);
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
        WR_TRY(wr_plan_edit(&m->edits[i], &m->plans[i], err));
        m->npaths += m->plans[i].nfiles;
    }
    m->paths = wr_calloc((size_t)m->npaths, sizeof *m->paths);
    if (!m->paths) return wr_nomem(err, "commit", (size_t)m->npaths * sizeof *m->paths);
    for (int i = 0, k = 0; i < m->n; i++)
        for (int j = 0; j < m->plans[i].nfiles; j++) m->paths[k++] = m->plans[i].files[j].local;
    return WR_OK;
}

/* ------------------------------------------------------------------ writing */
static void file_close_p(wr_file **f) { wr_file_close(*f); }

static wr_code write_file(const wr_plan_file *pf, wr_err *err) {
    WR_CLEANUP(file_close_p) wr_file *f = NULL;
    if (WR_FAULT("ice.write"))
        return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "cannot write %s: fault ice.write", pf->local);
    WR_TRY(wr_file_open(pf->local, WR_OPEN_CREATE, &f, err));
    WR_TRY(wr_file_pwrite(f, 0, wr_buf_view(&pf->content), err));
    return wr_file_sync(f, err);
}

/* Each file synced, then each table's metadata folder once. */
static wr_code write_all(commit *m, wr_err *err) {
    for (int i = 0; i < m->n; i++) {
        wr_plan *p = &m->plans[i];
        if (p->nfiles == 0) continue;
        WR_AUTO char *folder = NULL, *local = wr_asprintf("%s/metadata", wr_ice_location(p->table));
        if (!local) return wr_nomem(err, "path", 1);
        WR_TRY(wr_ice_local_path(local, &folder, err));
        WR_TRY(wr_mkdirs(folder, err));
        for (int j = 0; j < p->nfiles; j++) {
            m->nwritten++; /* before it is made: a half-made file is removed too */
            WR_TRY(write_file(&p->files[j], err));
        }
        WR_TRY(wr_fsync_path(folder, err));
    }
    if (WR_FAULT("ice.synced")) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "fault ice.synced");
    return WR_OK;
}

/* Nothing refers to what was written. What cannot be removed stays in the journal for later. */
static void take_back(commit *m) {
    wr_err err = WR_ERR_INIT;
    int k = 0;
    for (int i = 0; i < m->npaths; i++) {
        if (i < m->nwritten && wr_file_remove(m->paths[i], &err) != WR_OK) continue;
        m->paths[k++] = m->paths[i];
    }
    if (m->state && k > 0 && wr_state_file_done(m->state, m->paths, k, &err) != WR_OK)
        wr_log(WR_LOG_DEBUG, "journal not told of %d files taken back: %s", k, err.msg);
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

static void tell_journal(commit *m) {
    wr_err err = WR_ERR_INIT;
    int n = m->npaths, k = 0;
    for (int i = 0; i < m->n; i++) n += m->edits[i].nadded;
    if (!m->state || n == 0) return;
    char **paths = wr_calloc((size_t)n, sizeof *paths);
    wr_code rc = paths ? WR_OK : wr_nomem(&err, "journal", (size_t)n * sizeof *paths);
    for (int i = 0; rc == WR_OK && i < m->npaths; i++)
        if (!(paths[k++] = wr_strdup(m->paths[i]))) rc = wr_nomem(&err, "path", 1), k--;
    for (int i = 0; rc == WR_OK && i < m->n; i++)
        for (int j = 0; rc == WR_OK && j < m->edits[i].nadded; j++) {
            const char *uri = m->edits[i].added[j]->path;
            bool again =
                k > 0 && j > 0 && strcmp(uri, m->edits[i].added[j - 1]->path) == 0; /* vectors of one Puffin file */
            if (!again && (rc = wr_ice_local_path(uri, &paths[k], &err)) == WR_OK) k++;
        }
    if (rc == WR_OK) rc = wr_state_file_done(m->state, (const char *const *)paths, k, &err);
    if (rc != WR_OK)
        wr_log(WR_LOG_DEBUG, "journal not told of committed files (they are found live at the next start): %s",
               err.msg);
    for (int i = 0; paths && i < k; i++) wr_free(paths[i]);
    wr_free(paths);
}

static void delete_obsolete(commit *m) {
    for (int i = 0; i < m->n; i++)
        for (int j = 0; j < m->plans[i].nobsolete; j++) {
            wr_err err = WR_ERR_INIT;
            if (wr_file_remove(m->plans[i].obsolete[j], &err) != WR_OK)
                wr_log(WR_LOG_DEBUG, "old metadata file stays: %s", err.msg);
        }
}

static wr_code run(commit *m, const wr_ice_progress *progress, wr_err *err) {
    WR_TRY(plan_all(m, err));
    if (m->state && m->npaths > 0) WR_TRY(wr_state_file_add_many(m->state, m->paths, m->npaths, err));
    bool unknown = false;
    wr_code rc = WR_FAULT("ice.announced") ? wr_fail(err, WR_E_IO, WR_RETRY_SOON, "fault ice.announced") : WR_OK;
    if (rc == WR_OK) rc = write_all(m, err);
    if (rc == WR_OK) rc = move_catalog(m, progress, &unknown, err);
    if (rc != WR_OK) {
        if (!unknown) take_back(m);
        return rc;
    }
    (void)WR_FAULT("ice.committed"); /* for kill: the catalog has it, nobody else knows */
    adopt(m);
    tell_journal(m);
    (void)WR_FAULT("ice.told");
    delete_obsolete(m);
    return WR_OK;
}

wr_code wr_ice_commit(wr_ice_catalog *c, wr_state *state, wr_ice_edit *edits, int n, const wr_ice_progress *progress,
                      wr_err *err) {
    commit m = {.c = c, .state = state, .edits = edits, .n = n};
    wr_code rc = run(&m, progress, err);
    commit_clear(&m);
    return rc;
}
