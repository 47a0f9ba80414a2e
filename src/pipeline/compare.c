/* weir compare: source and lake side by side.
 *
 * In time. The lake's tables are looked at once; each then stands for one position of the source, L. The source is read while it goes on changing, between two positions
 * B (before the first row, not before L) and E (after the last). Then the binlog from L to E, with the definitions that the pipeline had at L, says what changed around the reading, and with it the source's rows at exactly
 * L are known (weir/compare.h): no waiting for the lake, no moment at which everything must be quiet, and no row that is too hot. A change that is behind L is not in the lake
 * yet and is not expected there; one that is at or before L and is missing in the lake is lost.
 *
 * What breaks this is not decided but tried again: a table that is altered, loaded or due for a load meanwhile. */
#include <inttypes.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "compare_impl.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/base/pattern.h"

#define PATIENCE_S 30
#define AGAIN_MS 2000
#define BEGIN_TRIES 50
#define MEMORY (UINT64_C(96) << 20) /* of all tables of a round, one table more or less */
#define TABLE_MEMORY 32768
#define ROUND_ROWS 20000000 /* 1.3 GB of disk, one table more or less */
#define DEAD_LETTER_NS "_weir"

/* ------------------------------------------------------------------ clearing */
static void member_free(side_member *m) {
    if (!m) return;
    wr_convert_free(m->convert);
    wr_schema_unref(m->shape), wr_schema_unref(m->schema);
    wr_transform_free(m->transform);
    for (uint64_t i = 0; i < m->ncursors; i++) wr_free(m->cursors[i]);
    wr_free(m->cursors), wr_free(m->db), wr_free(m->name), wr_free(m->def);
    wr_pos_clear(&m->read_at), wr_pos_clear(&m->kept_from);
    wr_kept_close(m->kept);
    wr_snap_close(m->snap);
    wr_buf_free(&m->waiting);
    wr_free(m->seqs), wr_free(m->ends);
    wr_free(m);
}

static void table_done(side_table *t) {
    wr_sieve_free(t->sieve);
    t->sieve = NULL;
    if (t->images) wr_file_close(t->images);
    t->images = NULL;
    wr_buf_free(&t->images_tail);
}

static void table_free(side_table *t) {
    if (!t) return;
    table_done(t);
    for (int i = 0; i < t->nmembers; i++) member_free(t->members[i]);
    wr_schema_unref(t->common);
    wr_buf_free(&t->row), wr_buf_free(&t->key_row);
    wr_md5_free(t->md5);
    wr_free(t->members), wr_free(t->columns), wr_free(t->key), wr_free(t->vals), wr_free(t->images_path), wr_free(t->ns), wr_free(t->name);
    wr_free(t);
}

static void round_clear(round *r) {
    for (int i = 0; i < r->ntables; i++) table_free(r->tables[i]);
    for (int i = 0; i < r->npoints; i++) wr_pos_clear(&r->points[i].pos);
    wr_free(r->tables), wr_free(r->points), wr_free(r->void_from), wr_free(r->void_to);
    wr_u64map_free(r->members, NULL);
    wr_lake_view_close(r->view);
    wr_pos_clear(&r->begin), wr_pos_clear(&r->end);
    r->tables = NULL, r->points = NULL, r->void_from = r->void_to = NULL, r->members = NULL, r->view = NULL;
    r->touched = NULL, r->any_surplus = false;
    r->ntables = r->npoints = r->nvoid = 0;
    r->seq = r->seq_committed = 0;
}

/* ------------------------------------------------------------------ which tables */
static wr_code matches(const wr_compare *what, const char *ns, const char *name, bool *ret, wr_err *err) {
    WR_AUTO char *full = wr_asprintf("%s.%s", ns, name);
    if (!full) return wr_nomem(err, "table name", 64);
    *ret = what->ntables == 0;
    for (int i = 0; i < what->ntables && !*ret; i++) {
        regex_t re;
        char why[128];
        if (wr_pattern_compile(&re, what->tables[i], why, err) != WR_OK) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "the pattern %s is wrong: %s", what->tables[i], why);
        *ret = regexec(&re, full, 0, NULL, 0) == 0 || !strcmp(full, what->tables[i]);
        regfree(&re);
    }
    return WR_OK;
}

static wr_table_report *report_of(const wr_compare_report *r, const char *ns, const char *name) {
    for (int i = 0; i < r->ntables; i++)
        if (!strcmp(r->tables[i].ns, ns) && !strcmp(r->tables[i].name, name)) return &r->tables[i];
    return NULL;
}

static wr_code new_report(wr_compare_report *r, const char *ns, const char *name, wr_table_report **ret, wr_err *err) {
    wr_table_report *t = wr_realloc(r->tables, ((size_t)r->ntables + 1) * sizeof *t);
    if (!t) return wr_nomem(err, "report", sizeof *t);
    r->tables = t;
    t[r->ntables] = (wr_table_report){.ns = wr_strdup(ns), .name = wr_strdup(name), .snapshot = -1, .method = "rows"};
    *ret = &t[r->ntables++];
    return (*ret)->ns && (*ret)->name ? WR_OK : wr_nomem(err, "report", 64);
}

/* The table's report, empty. */
static wr_code fresh_report(wr_compare_report *r, const char *ns, const char *name, wr_table_report **ret, wr_err *err) {
    wr_table_report *t = report_of(r, ns, name);
    if (!t) return new_report(r, ns, name, ret, err);
    wr_table_report fresh = {.ns = WR_STEAL(t->ns), .name = WR_STEAL(t->name), .snapshot = -1, .method = "rows"};
    wr_table_report_clear(t);
    *t = fresh;
    return *ret = t, WR_OK;
}

/* In the second round only what the first could not decide. */
static bool is_open(const wr_table_report *t) { return t->verdict == 0 || t->verdict == WR_UNDECIDED; }

static wr_code add_source(wr_table_report *rep, const side_member *m, wr_err *err) {
    WR_AUTO char *full = wr_asprintf("%s.%s", m->db, m->name);
    char **s = full ? wr_realloc(rep->sources, ((size_t)rep->nsources + 1) * sizeof *s) : NULL;
    if (!s) return wr_nomem(err, "report", 64);
    rep->sources = s;
    s[rep->nsources++] = WR_STEAL(full);
    return WR_OK;
}

static wr_code table_of(round *r, wr_route route, side_table **ret, wr_err *err) {
    for (int i = 0; i < r->ntables; i++)
        if (!strcmp(r->tables[i]->ns, route.ns) && !strcmp(r->tables[i]->name, route.name)) return *ret = r->tables[i], WR_OK;
    side_table **list = wr_realloc(r->tables, ((size_t)r->ntables + 1) * sizeof *list), *t = NULL;
    if (list) r->tables = list, t = wr_calloc(1, sizeof *t);
    if (!t) return wr_nomem(err, "table", sizeof **list);
    r->tables[r->ntables++] = t;
    t->ns = wr_strdup(route.ns), t->name = wr_strdup(route.name), t->merged = route.merged, t->lake = -1, t->time_column = -1;
    *ret = t;
    return t->ns && t->name ? WR_OK : wr_nomem(err, "table", 64);
}

static wr_code add_member(void *ctx, const wr_ddl *d, wr_err *err) {
    round *r = ctx;
    if (d->kind == WR_DDL_HIDDEN || !d->schema) return WR_OK;
    wr_route route = wr_routes_find(r->routes, d->db, d->name);
    bool wanted;
    side_table *t = NULL;
    WR_TRY(matches(r->what, route.ns, route.name, &wanted, err));
    const wr_table_report *rep = report_of(r->report, route.ns, route.name);
    if (!wanted || (rep && !is_open(rep))) return WR_OK;
    WR_TRY(table_of(r, route, &t, err));
    side_member **list = wr_realloc(t->members, ((size_t)t->nmembers + 1) * sizeof *list), *m = NULL;
    if (list) t->members = list, m = wr_calloc(1, sizeof *m);
    if (!m) return wr_nomem(err, "table", sizeof *m);
    m->no = t->nmembers;
    t->members[t->nmembers++] = m;
    m->table = t;
    m->db = wr_strdup(d->db), m->name = wr_strdup(d->name), m->def = wr_strdup(d->def ? d->def : "");
    m->schema = wr_schema_ref(d->schema);
    return m->db && m->name && m->def ? WR_OK : wr_nomem(err, "table", sizeof *m);
}

/* ------------------------------------------------------------------ before a row is read */
/* A table whose rows changed without row events is right again only after its next load. The pipeline notes that before the commit that passes the cause, and takes it back once
 * the load has begun. Looked at behind the lake: a load that begins just in between is met by is_doubtful. */
static wr_code is_due(round *r, const side_table *t, bool *ret, wr_err *err) {
    char key[32];
    WR_AUTO char *due = NULL;
    snprintf(key, sizeof key, "due.%u", t->at.table_id);
    WR_TRY(wr_state_get(r->state, key, &due, err));
    *ret = due && *due;
    return WR_OK;
}

/* Rows made with other rules than those of weir.yaml are read again when the next sync begins. */
static wr_code has_other_rules(round *r, const side_member *m, bool *ret, wr_err *err) {
    char key[32], mark[17];
    WR_AUTO char *full = wr_asprintf("%s.%s", m->db, m->name), *known = NULL;
    uintptr_t id = full ? (uintptr_t)wr_map_get(r->ids, wr_slice_str(full)) : 0;
    *ret = false;
    if (!id) return full ? WR_OK : wr_nomem(err, "table name", 64);
    snprintf(key, sizeof key, "rules.%u", (unsigned)id);
    WR_TRY(wr_state_get(r->state, key, &known, err));
    wr_rules_mark(r->rules, m->db, m->name, mark);
    *ret = strcmp(known ? known : "", mark) != 0;
    return WR_OK;
}

static int find_lake(const wr_sql_table *tables, int n, const char *ns, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(tables[i].ns, ns) && !strcmp(tables[i].name, name)) return i;
    return -1;
}

static wr_code judge_lake(round *r, side_table *t, const wr_table_health *h, wr_err *err) {
    bool due = false;
    if (t->at.pos.file[0] == 0) return wr_side_moved(t, err, "nothing of it has been committed to the lake yet");
    if (h->loading) return wr_side_moved(t, err, "it is being loaded");
    WR_TRY(is_due(r, t, &due, err));
    for (int i = 0; i < t->nmembers; i++) {
        bool other;
        WR_TRY(has_other_rules(r, t->members[i], &other, err));
        if (other) return wr_side_moved(t, err, "the lake's rows were made with other rules than those of weir.yaml; the next sync reads them again");
    }
    if (due) return wr_side_moved(t, err, "rows of it changed without being in the binlog, and it has not been read again yet");
    snprintf(t->report->position, sizeof t->report->position, "%s:%" PRIu64, t->at.pos.file, t->at.pos.offset);
    t->report->snapshot = t->at.snapshot, t->report->offset = t->at.offset;
    return WR_OK;
}

/* Unless the stream says that it came after the lake's position. */
static wr_code judge_absent(side_table *t, wr_err *err) {
    WR_TRY(wr_table_report_find(t->report, "table-missing", NULL, NULL, NULL, err));
    return wr_side_reason(t, WR_DIFFERENT, err, "it is in the source and not in the lake");
}

static bool is_source(const round *r, const char *ns, const char *name) {
    for (int i = 0; i < r->ntables; i++)
        if (!strcmp(r->tables[i]->ns, ns) && !strcmp(r->tables[i]->name, name)) return true;
    return false;
}

/* What was undecided and is in neither side any more. */
static void drop_vanished(round *r, const wr_sql_table *tables, int n) {
    int kept = 0;
    for (int i = 0; i < r->report->ntables; i++) {
        wr_table_report *t = &r->report->tables[i];
        if (is_open(t) && !is_source(r, t->ns, t->name) && find_lake(tables, n, t->ns, t->name) < 0) wr_table_report_clear(t);
        else r->report->tables[kept++] = *t;
    }
    r->report->ntables = kept;
}

/* Lake tables of the pipeline that no source table belongs to. */
static wr_code judge_surplus(round *r, const wr_sql_table *tables, int n, wr_err *err) {
    for (int i = 0; i < n; i++) {
        wr_lake_point p;
        bool wanted;
        wr_table_report *rep = report_of(r->report, tables[i].ns, tables[i].name);
        wr_lake_view_point(r->view, i, &p);
        WR_TRY(matches(r->what, tables[i].ns, tables[i].name, &wanted, err));
        if (!p.ours || !wanted || !strcmp(tables[i].ns, DEAD_LETTER_NS) || (rep && !is_open(rep)) || is_source(r, tables[i].ns, tables[i].name)) continue;
        WR_TRY(fresh_report(r->report, tables[i].ns, tables[i].name, &rep, err));
        side_table t = {.report = rep};
        if (p.dropped) WR_TRY(wr_side_reason(&t, WR_NOT_COMPARED, err, "it was dropped in the source, or is not captured any more, and is kept in the lake"));
        else {
            r->any_surplus = true;
            WR_TRY(wr_table_report_find(rep, "table-surplus", NULL, NULL, NULL, err));
            WR_TRY(wr_side_reason(&t, WR_DIFFERENT, err, "it is in the lake and not in the source"));
        }
    }
    return WR_OK;
}

static wr_code open_table(round *r, side_table *t, const wr_table_health *health, wr_err *err) {
    if (t->lake < 0 || !t->at.ours) return judge_absent(t, err);
    WR_TRY(judge_lake(r, t, &health[t->lake], err));
    if (t->again) return WR_OK;
    WR_TRY(wr_side_shape(r, t, err));
    if (t->report->verdict || !t->common || r->what->level == WR_COMPARE_STRUCTURE) return t->report->method = "structure", WR_OK;
    if (r->what->hash == WR_COMPARE_MD5 && r->what->level == WR_COMPARE_CONTENT) WR_TRY(wr_md5_new(&t->md5, err));
    t->lake_rows = r->what->level == WR_COMPARE_COUNTS ? health[t->lake].rows : 0;
    WR_TRY(wr_side_sums_open(r, t, err));
    return t->summed || t->again ? WR_OK : wr_side_rows_open(r, t, 2 * health[t->lake].rows, err);
}

static bool was_tried(const round *r, const side_table *t) {
    WR_AUTO char *full = wr_asprintf("%s.%s", t->ns, t->name);
    return full && wr_map_get(r->tried, wr_slice_str(full));
}

static wr_code note_tried(round *r, const side_table *t, wr_err *err) {
    WR_AUTO char *full = wr_asprintf("%s.%s", t->ns, t->name);
    return full && wr_map_put(r->tried, wr_slice_str(full), r) ? WR_OK : wr_nomem(err, "tables", 64);
}

/* Tables for this round: as many as fit in memory together, first those that had none yet. */
static wr_code bind_tables(round *r, wr_err *err) {
    const wr_sql_table *tables;
    const wr_table_health *health;
    int n, kept = 0, untried = 0;
    uint64_t memory = 0, rows = 0;
    wr_table_report *rep;
    WR_TRY(wr_lake_view_tables(r->view, &tables, &health, &n, err));
    drop_vanished(r, tables, n);
    WR_TRY(judge_surplus(r, tables, n, err));
    for (int i = 0; i < r->ntables; i++) untried += !was_tried(r, r->tables[i]);
    for (int i = 0; i < r->ntables; i++) {
        side_table *t = r->tables[i];
        bool now = memory < MEMORY && rows < ROUND_ROWS && (!untried || !was_tried(r, t));
        r->tables[i] = NULL;
        if (now) {
            r->tables[kept++] = t;
            WR_TRY(fresh_report(r->report, t->ns, t->name, &rep, err));
            t->report = rep; /* until the next one; found again below */
            for (int k = 0; k < t->nmembers; k++) WR_TRY(add_source(rep, t->members[k], err));
            if ((t->lake = find_lake(tables, n, t->ns, t->name)) >= 0) wr_lake_view_point(r->view, t->lake, &t->at);
            WR_TRY(open_table(r, t, health, err));
            WR_TRY(note_tried(r, t, err));
            rows += t->lake >= 0 ? health[t->lake].rows : 0;
            memory += t->sieve ? wr_sieve_memory(t->sieve) : TABLE_MEMORY;
            continue;
        }
        r->at_once |= untried > 0;
        table_free(t);
    }
    r->ntables = kept;
    for (int i = 0; i < r->ntables; i++) r->tables[i]->report = report_of(r->report, r->tables[i]->ns, r->tables[i]->name);
    return WR_OK;
}

/* ------------------------------------------------------------------ one round */
/* A position of the source that is not before the lake's: a transaction that the lake has may be about to become visible. */
static wr_code begin_behind_lake(round *r, const wr_pos *lake, wr_err *err) {
    if (lake->epoch != wr_source_epoch(r->source)) return wr_fail(err, WR_E_SERVER, WR_RETRY_SOON, "the sync has gone on at another server, and has not committed anything from there yet");
    for (int i = 0; i < BEGIN_TRIES; i++) {
        WR_TRY(wr_source_begin(r->source, 1, &r->begin, err));
        if (wr_pos_cmp(&r->begin, lake) >= 0) return WR_OK;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    char a[512], b[512];
    return wr_fail(err, WR_E_SERVER, WR_RETRY_SOON, "the source is at %.200s, the lake at %.200s: is it the same server, with the same history?", wr_pos_print(&r->begin, a), wr_pos_print(lake, b));
}

static wr_code open_round(round *r, wr_err *err) {
    WR_AUTO char *catalog = wr_path_join(r->o->home, "catalog.db");
    const wr_sql_table *tables;
    const wr_table_health *health;
    int n;
    uint64_t offset;
    if (!catalog || !(r->members = wr_u64map_new())) return wr_nomem(err, "comparison", 256);
    WR_TRY(wr_lake_view_open(&(wr_lake_view_options){.catalog_path = catalog, .store = r->store, .rest = r->o->rest, .pipeline = r->o->name}, &r->view, err));
    WR_TRY(wr_lake_view_tables(r->view, &tables, &health, &n, err));
    const wr_pos *lake = wr_lake_view_progress(r->view, &offset);
    if (!lake->file[0]) {
        wr_fail(err, WR_E_NOTFOUND, WR_RETRY_SOON, "nothing has been committed to the lake yet");
        return wr_err_cure(err, "let the sync make its first commit: weir sync -c FILE");
    }
    WR_TRY(begin_behind_lake(r, lake, err));
    WR_TRY(wr_source_each_table(r->source, add_member, r, err));
    return bind_tables(r, err);
}

static wr_code read_sides(round *r, side_table *t, wr_err *err) {
    if (t->summed) return wr_side_sum_both(r, t, err);
    WR_TRY(wr_side_read_lake(r, t, err));
    for (int k = 0; k < t->nmembers && !t->again; k++) WR_TRY(wr_side_read_source(r, t->members[k], err));
    return WR_OK;
}

static wr_code read_table(round *r, side_table *t, wr_err *err) {
    int64_t at = wr_mono_us();
    if ((!t->sieve && !t->summed) || t->again) return WR_OK;
    wr_code rc = read_sides(r, t, err);
    t->report->ms = (wr_mono_us() - at) / 1000;
    return rc;
}

/* Tables side by side: each is one reader's. */
typedef struct readers { round *r; pthread_mutex_t lock; int next; wr_code rc; wr_err err; /* lock */ } readers;

static void *read_tables(void *arg) {
    readers *rs = arg;
    for (;;) {
        wr_err err = WR_ERR_INIT;
        pthread_mutex_lock(&rs->lock);
        int i = rs->rc == WR_OK ? rs->next++ : rs->r->ntables;
        pthread_mutex_unlock(&rs->lock);
        if (i >= rs->r->ntables) return NULL;
        wr_code rc = read_table(rs->r, rs->r->tables[i], &err);
        pthread_mutex_lock(&rs->lock);
        if (rc != WR_OK && rs->rc == WR_OK) rs->rc = rc, rs->err = err;
        pthread_mutex_unlock(&rs->lock);
    }
}

#define PARALLEL_MAX 64

static wr_code read_all(round *r, wr_err *err) {
    readers rs = {.r = r};
    pthread_t th[PARALLEL_MAX];
    int n = 0, most = r->what->parallel < r->ntables ? r->what->parallel : r->ntables;
    pthread_mutex_init(&rs.lock, NULL);
    for (; n < most - 1 && n < PARALLEL_MAX; n++) /* this thread is one of them */
        if (pthread_create(&th[n], NULL, read_tables, &rs) != 0) break;
    read_tables(&rs);
    for (int i = 0; i < n; i++) pthread_join(th[i], NULL);
    pthread_mutex_destroy(&rs.lock);
    if (rs.rc != WR_OK) *err = rs.err;
    return rs.rc;
}

/* Differences of a table whose rows may change without row events: they count when the next round finds some as well. */
static wr_code is_doubtful(round *r, const side_table *t, bool *ret, wr_err *err) {
    WR_AUTO char *full = wr_asprintf("%s.%s", t->ns, t->name);
    bool hides = false;
    if (!full) return wr_nomem(err, "table name", 64);
    for (int i = 0; i < t->nmembers; i++) hides |= wr_source_hides_changes(r->source, t->members[i]->def);
    *ret = hides && wr_status_running(r->o->home) && !wr_map_get(r->doubted, wr_slice_str(full));
    return !*ret || wr_map_put(r->doubted, wr_slice_str(full), r) ? WR_OK : wr_nomem(err, "tables", 64);
}

/* Decided or not: what was read of it is not needed any more. */
static wr_code forget_kept(round *r, const side_table *t, wr_err *err) {
    for (int i = 0; i < t->nmembers; i++) {
        WR_TRY(wr_kept_remove(t->members[i]->kept, err));
        r->at_once |= t->again && t->members[i]->kept_any; /* what was read long ago cannot be brought up to date: once more, from the beginning */
    }
    return WR_OK;
}

static wr_code settle_table(round *r, side_table *t, wr_err *err) {
    wr_table_report *rep = t->report;
    WR_TRY(forget_kept(r, t, err));
    if (t->again) return wr_table_report_forget(rep), WR_OK;
    if (t->summed) WR_TRY(wr_side_sum_settle(r, t, err));
    else if (t->sieve) WR_TRY(wr_side_settle(r, t, err));
    table_done(t);
    if (rep->verdict) return WR_OK;
    const wr_sieve_totals *d = &rep->rows;
    bool doubtful = false;
    if (d->missing + d->surplus + d->different) {
        WR_TRY(is_doubtful(r, t, &doubtful, err));
        if (doubtful) return wr_side_moved(t, err, "it differs, and rows of it may change without being in the binlog");
        return wr_side_reason(t, WR_DIFFERENT, err, "%" PRIu64 " rows are missing in the lake, %" PRIu64 " are there and should not be, %" PRIu64 " differ", d->missing, d->surplus, d->different);
    }
    if (rep->nfindings) return wr_side_reason(t, WR_DIFFERENT, err, "%s", rep->counted ? "the rows are equal in the columns that both sides have" : "the definitions differ");
    rep->verdict = WR_EQUAL;
    return WR_OK;
}

/* Binlogs that are needed and gone, or cannot be followed: without them nothing can be said. */
static wr_code follow(round *r, wr_err *err) {
    wr_code rc = wr_side_stream(r, err);
    if (rc == WR_OK || err->retry == WR_RETRY_SOON || rc == WR_E_NOMEM || rc == WR_E_IO || rc == WR_E_NOSPC || rc == WR_E_AUTH) return rc;
    wr_err why = *err;
    wr_err_clear(err);
    for (int i = 0; i < r->ntables; i++)
        if (wr_side_follows(r->tables[i])) WR_TRY(wr_side_moved(r->tables[i], err, "the binlog between the lake's position and the source's cannot be followed: %s", why.msg));
    return WR_OK;
}

wr_code wr_side_gave_up(const round *r, wr_err *err) {
    return r->what->gave_up && r->what->gave_up(r->what->ctx) ? wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "stopped") : WR_OK;
}

static wr_code run_round(round *r, wr_err *err) {
    WR_TRY(wr_side_gave_up(r, err));
    WR_TRY(open_round(r, err));
    WR_TRY(read_all(r, err));
    /* The definitions, too, are those of `begin`; what moved until `end` is in the stream. */
    WR_TRY(wr_source_now(r->source, &r->end, err));
    WR_TRY(follow(r, err));
    for (int i = 0; i < r->ntables; i++) WR_TRY(settle_table(r, r->tables[i], err));
    return WR_OK;
}

/* ------------------------------------------------------------------ all of it */
static bool any_open(const wr_compare_report *r) {
    for (int i = 0; i < r->ntables; i++)
        if (is_open(&r->tables[i])) return true;
    return false;
}

static bool any_decided(const wr_compare_report *r) {
    for (int i = 0; i < r->ntables; i++)
        if (!is_open(&r->tables[i])) return true;
    return false;
}

static wr_code take_done(wr_compare_report *r, const wr_compare *what, wr_err *err) {
    for (int i = 0; i < what->ndone; i++) {
        const wr_compared *d = &what->done[i];
        wr_table_report *t;
        WR_TRY(new_report(r, d->ns, d->name, &t, err));
        t->verdict = WR_EQUAL, t->counted = true, t->snapshot = d->snapshot, t->offset = d->offset;
        t->rows = (wr_sieve_totals){.source_rows = d->source_rows, .lake_rows = d->lake_rows};
        t->method = !strcmp(d->method, "pushed") ? "pushed" : !strcmp(d->method, "counts") ? "counts" : !strcmp(d->method, "structure") ? "structure" : "rows";
        t->counted = strcmp(t->method, "structure") != 0;
        snprintf(t->position, sizeof t->position, "%s", d->position);
        if (!(t->reason = wr_strdup("compared before the interruption"))) return wr_nomem(err, "report", 64);
    }
    return WR_OK;
}

static wr_code rounds(round *r, wr_err *err) {
    int64_t patience_us = (r->what->patience_s ? r->what->patience_s : PATIENCE_S) * INT64_C(1000000), until = wr_mono_us() + patience_us;
    for (;;) {
        r->at_once = false;
        wr_code rc = run_round(r, err);
        round_clear(r);
        if (rc == WR_OK && r->what->checkpoint && any_decided(r->report)) r->what->checkpoint(r->what->ctx, r->report);
        if (rc == WR_OK && WR_FAULT("compare.round")) rc = wr_fail(err, WR_E_IO, WR_RETRY_NO, "injected: comparison");
        if (rc == WR_OK && r->at_once) {
            until = wr_mono_us() + patience_us; /* of those that are left at the end */
            continue;
        }
        bool soon = rc != WR_OK && err->retry == WR_RETRY_SOON;
        r->use_kept |= rc != WR_OK;
        if ((rc != WR_OK && !soon) || (rc == WR_OK && !any_open(r->report))) return rc;
        /* Without a sync nothing will move any more but what the source does. */
        if (wr_mono_us() > until || (rc == WR_OK && !wr_status_running(r->o->home))) return rc;
        wr_err_clear(err);
        nanosleep(&(struct timespec){.tv_sec = AGAIN_MS / 1000, .tv_nsec = AGAIN_MS % 1000 * 1000000}, NULL);
    }
}

/* The server that the sync follows, and no other: what the lake holds is what that one had at a position of its own. */
static wr_code open_source(round *r, wr_source_options *so, wr_err *err) {
    wr_followed f;
    wr_code rc = wr_followed_read(r->state, &f, err);
    f.known.only = true;
    so->known = f.identity ? &f.known : NULL;
    if (rc == WR_OK) rc = wr_source_open(so, &r->source, err);
    wr_followed_clear(&f);
    if (rc == WR_OK && r->what->source) r->what->source(r->what->ctx, r->source);
    return rc;
}

static wr_code note_id(void *ctx, const wr_ddl *d, wr_err *err) {
    round *r = ctx;
    WR_AUTO char *full = wr_asprintf("%s.%s", d->db, d->name);
    return full && wr_map_put(r->ids, wr_slice_str(full), (void *)(uintptr_t)d->table) ? WR_OK : wr_nomem(err, "tables", 64);
}

static wr_code open_all(round *r, const char *replica, const char *xa, wr_err *err) {
    WR_AUTO char *catalog = wr_path_join(r->o->home, "catalog.db"), *state = wr_path_join(r->o->home, "state.db");
    if (!catalog || !state) return wr_nomem(err, "path", 256);
    if (!wr_file_exists(catalog) || !wr_file_exists(state)) {
        wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "there is no lake yet: %s does not exist", wr_file_exists(catalog) ? state : catalog);
        return wr_err_cure(err, "start the pipeline: weir sync -c FILE");
    }
    wr_source_options so = r->o->source;
    so.pipeline_name = replica, so.server_id = 0, so.spool_dir = xa; /* a replica beside the sync's */
    WR_TRY(wr_mkdirs(r->dir, err));
    WR_TRY(wr_routes_new(r->o->merge, r->o->nmerge, &r->routes, err));
    WR_TRY(wr_state_open(state, &r->state, err));
    WR_TRY(wr_state_schema_load(r->state, INT64_MAX, note_id, r, err));
    WR_TRY(open_source(r, &so, err));
    if (r->what->hash == WR_COMPARE_MD5 && r->what->method == WR_COMPARE_PUSHED && r->what->level == WR_COMPARE_CONTENT) WR_TRY(wr_source_check_md5(r->source, err));
    WR_TRY(wr_engine_open(NULL, &r->engine, err));
    WR_TRY(wr_pipeline_store(r->o, &r->store, err));
    return r->o->transform.nrules ? wr_rules_new(r->engine, &r->o->transform, &r->rules, err) : WR_OK;
}

wr_code wr_pipeline_compare(const wr_pipeline_options *o, const wr_compare *what, wr_compare_report *ret, wr_err *err) {
    static const char *const levels[] = {"content", "counts", "structure"};
    wr_compare_report rep = {.pipeline = o->name, .level = what->columns && !what->ncolumns ? "keys" : levels[what->level], .began_us = wr_now_us(), .sample = what->sample, .seed = what->seed};
    round r = {.o = o, .what = what, .report = &rep, .use_kept = what->resume, .lock = PTHREAD_MUTEX_INITIALIZER};
    WR_AUTO char *dir = wr_path_join(o->home, "compare"), *replica = wr_asprintf("%s compare %d", o->name, (int)getpid()), *xa = wr_asprintf("%s/compare/xa-%d", o->home, (int)getpid());
    wr_code rc = dir && replica && xa ? WR_OK : wr_nomem(err, "path", 256);
    r.dir = dir;
    if (rc == WR_OK && (!(r.tried = wr_map_new()) || !(r.ids = wr_map_new()) || !(r.doubted = wr_map_new()))) rc = wr_nomem(err, "tables", 256);
    if (rc == WR_OK) rc = open_all(&r, replica, xa, err);
    if (rc == WR_OK && !what->resume) rc = wr_kept_remove_all(dir, err);
    if (rc == WR_OK) rc = take_done(&rep, what, err);
    if (rc == WR_OK) rc = rounds(&r, err);
    if (rc == WR_OK && !rep.ntables && what->ntables) rc = wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "neither source nor lake has a table that %s names", what->tables[0]);
    for (int i = 0; i < r.nread; i++) wr_free(r.read[i].ns), wr_free(r.read[i].name);
    wr_free(r.read);
    wr_map_free(r.tried, NULL), wr_map_free(r.ids, NULL), wr_map_free(r.doubted, NULL);
    wr_rules_free(r.rules);
    wr_store_close(r.store);
    wr_engine_close(r.engine);
    if (what->source) what->source(what->ctx, NULL);
    wr_source_close(r.source);
    wr_state_close(r.state);
    wr_routes_free(r.routes);
    if (xa) rmdir(xa);
    rep.ended_us = wr_now_us();
    if (rc == WR_OK) return *ret = rep, WR_OK;
    for (int i = 0; i < rep.ntables; i++) wr_table_report_clear(&rep.tables[i]);
    wr_free(rep.tables);
    return rc;
}
