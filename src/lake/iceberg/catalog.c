#include "iceberg/catalog.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "iceberg/metadata.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/sqlite.h"

#define BUSY_MS 10000

/* Source: JdbcUtil of Iceberg Java, V1. */
static const char ddl[] =
    "CREATE TABLE IF NOT EXISTS iceberg_tables("
    "catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL, "
    "metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5), "
    "PRIMARY KEY (catalog_name, table_namespace, table_name));"
    "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties("
    "catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value "
    "VARCHAR(1000), "
    "PRIMARY KEY (catalog_name, namespace, property_key));"
    "CREATE TABLE IF NOT EXISTS weir_progress("
    "pipeline TEXT NOT NULL PRIMARY KEY, queue_offset INTEGER NOT NULL, position BLOB, event_time_us INTEGER NOT NULL, "
    "committed_us INTEGER NOT NULL);";

/* ------------------------------------------------------------------ SQLite */
static wr_code sql_fail(wr_ice_catalog *c, int rc, const char *what, wr_err *err) {
    char text[160];
    snprintf(text, sizeof text, "catalog %.120s: %s", c->path, what);
    wr_code code = wr_sqlite_fail(err, c->db, rc, text);
    if (code == WR_E_IO) err->retry = WR_RETRY_SOON; /* others have it open too */
    return code;
}

static wr_code exec(wr_ice_catalog *c, const char *sql, const char *what, wr_err *err) {
    int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? WR_OK : sql_fail(c, rc, what, err);
}

typedef struct stmt {
    wr_ice_catalog *c;
    sqlite3_stmt *s;
    int narg, rc;
} stmt;

static wr_code prepare(wr_ice_catalog *c, const char *sql, stmt *ret, wr_err *err) {
    *ret = (stmt){.c = c};
    int rc = sqlite3_prepare_v2(c->db, sql, -1, &ret->s, NULL);
    return rc == SQLITE_OK ? WR_OK : sql_fail(c, rc, "prepare", err);
}
static void finish(stmt *s) { sqlite3_finalize(s->s), s->s = NULL; }
#define AUTO_STMT WR_CLEANUP(finish)

static void bind_text(stmt *s, const char *v) { /* NULL binds null; borrowed until the step */
    int rc = v ? sqlite3_bind_text(s->s, ++s->narg, v, -1, SQLITE_STATIC) : sqlite3_bind_null(s->s, ++s->narg);
    if (rc != SQLITE_OK) s->rc = rc;
}
static void bind_i64(stmt *s, int64_t v) {
    int rc = sqlite3_bind_int64(s->s, ++s->narg, v);
    if (rc != SQLITE_OK) s->rc = rc;
}
static wr_code step(stmt *s, bool *ret_row, wr_err *err) {
    int rc = s->rc != SQLITE_OK ? s->rc : sqlite3_step(s->s);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) return sql_fail(s->c, rc, "step", err);
    if (ret_row) *ret_row = rc == SQLITE_ROW;
    return WR_OK;
}

static bool has_column(wr_ice_catalog *c, const char *table, const char *column) {
    return sqlite3_table_column_metadata(c->db, NULL, table, column, NULL, NULL, NULL, NULL, NULL) == SQLITE_OK;
}

/* ------------------------------------------------------------------ opening */
static wr_code set_up(wr_ice_catalog *c, wr_err *err) {
    sqlite3_busy_timeout(c->db, BUSY_MS);
    sqlite3_extended_result_codes(c->db, 1);
    if (!c->read_only) {
        WR_TRY(exec(c, "PRAGMA journal_mode=WAL", "journal mode", err));
        WR_TRY(exec(c, "PRAGMA synchronous=FULL", "synchronous", err));
        WR_TRY(exec(c, ddl, "create tables", err));
        if (!has_column(c, "iceberg_tables",
                        "iceberg_type")) /* V0, as Java makes it by default: taken to V1 as Java does */
            WR_TRY(exec(c, "ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)", "upgrade to V1", err));
    } else {
        WR_TRY(exec(c, "SELECT count(*) FROM sqlite_master", "read", err)); /* not a database: say so now */
    }
    c->has_type = has_column(c, "iceberg_tables", "iceberg_type");
    c->has_progress = has_column(c, "weir_progress", "queue_offset");
    return WR_OK;
}

static wr_code open_file(wr_ice_catalog *c, wr_err *err) {
    int flags = c->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int s = sqlite3_open_v2(c->path, &c->db, flags, NULL);
    if (s == SQLITE_CANTOPEN && c->read_only)
        return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "catalog %s: cannot be opened", c->path);
    return s == SQLITE_OK ? set_up(c, err) : sql_fail(c, s, "open", err);
}

wr_code wr_ice_catalog_open(const wr_ice_catalog_options *opts, wr_ice_catalog **ret, wr_err *err) {
    wr_ice_catalog *c = wr_calloc(1, sizeof *c);
    if (!c) return wr_nomem(err, "catalog", sizeof *c);
    c->read_only = opts->read_only;
    c->store = opts->store;
    c->lock = opts->lock;
    c->path = wr_strdup(opts->path);
    wr_code rc = c->path ? WR_OK : wr_nomem(err, "catalog", strlen(opts->path));
    if (rc == WR_OK && (!(opts->rest && opts->read_only) || opts->progress)) rc = open_file(c, err); /* who looks at tables in a REST catalog needs no progress */
    if (rc == WR_OK && opts->rest) rc = wr_rest_open(opts->rest, opts->store, &c->rest, err);
    if (rc != WR_OK) return wr_ice_catalog_close(c), rc;
    *ret = c;
    return WR_OK;
}

void wr_catalog_forget_untold(wr_ice_catalog *c) {
    for (int i = 0; i < c->nuntold; i++) wr_free(c->untold[i]);
    wr_free(c->untold);
    c->untold = NULL, c->nuntold = 0;
}

void wr_ice_catalog_close(wr_ice_catalog *c) {
    if (!c) return;
    wr_catalog_forget_untold(c);
    sqlite3_close_v2(c->db);
    wr_rest_close(c->rest);
    wr_free(c->path);
    wr_free(c);
}

wr_code wr_ice_settle(wr_ice_catalog *c, wr_state *state, bool *ret_settled, wr_err *err) {
    if (!c->rest) return *ret_settled = true, WR_OK;
    return wr_rest_settle(c->rest, state, ret_settled, err);
}

wr_code wr_ice_borrow(wr_ice_catalog *c, wr_ice_table *t, wr_err *err) { return c->rest ? wr_rest_borrow(c->rest, t, err) : WR_OK; }

/* ------------------------------------------------------------------ reading */
wr_code wr_ice_catalog_progress(wr_ice_catalog *c, const char *pipeline, uint64_t *ret_offset, wr_pos *ret_pos,
                                int64_t *ret_event_time_us, wr_err *err) {
    uint64_t offset = 0;
    int64_t event_time_us = 0;
    wr_pos pos = {0};
    if (c->has_progress) {
        AUTO_STMT stmt s;
        bool row = false;
        WR_TRY(
            prepare(c, "SELECT queue_offset, position, event_time_us FROM weir_progress WHERE pipeline = ?", &s, err));
        bind_text(&s, pipeline);
        WR_TRY(step(&s, &row, err));
        if (row) {
            offset = (uint64_t)sqlite3_column_int64(s.s, 0);
            event_time_us = sqlite3_column_int64(s.s, 2);
            int n = sqlite3_column_bytes(s.s, 1);
            wr_rd rd = wr_rd_of(sqlite3_column_blob(s.s, 1), (size_t)n);
            if (n > 0 && wr_pos_decode(&rd, &pos, err) != WR_OK)
                return wr_err_in(err, "catalog %s: position of pipeline %s", c->path, pipeline);
        }
    }
    *ret_offset = offset, *ret_pos = pos, *ret_event_time_us = event_time_us;
    return WR_OK;
}

#define IS_TABLE(c) ((c)->has_type ? " AND (iceberg_type IS NULL OR iceberg_type = 'TABLE')" : "")

typedef struct listing {
    char **v;
    int n, cap;
} listing; /* ns, name, location, ns, ... */
static void listing_clear(listing *l) {
    for (int i = 0; i < l->n; i++) wr_free(l->v[i]);
    wr_free(l->v);
}
static wr_code listing_add(listing *l, const unsigned char *text, wr_err *err) {
    if (l->n == l->cap) {
        int cap = l->cap ? l->cap * 2 : 48;
        char **v = wr_realloc(l->v, (size_t)cap * sizeof *v);
        if (!v) return wr_nomem(err, "catalog listing", (size_t)cap * sizeof *v);
        l->v = v, l->cap = cap;
    }
    char *copy = wr_strdup(text ? (const char *)text : "");
    if (!copy) return wr_nomem(err, "catalog listing", 1);
    l->v[l->n++] = copy;
    return WR_OK;
}

typedef struct each_name {
    wr_code (*fn)(void *ctx, const char *ns, const char *name, const char *metadata_location, wr_err *err);
    void *ctx;
} each_name;
static wr_code visit_name(void *ctx, const char *ns, const char *name, wr_err *err) {
    const each_name *e = ctx;
    return e->fn(e->ctx, ns, name, NULL, err);
}

wr_code wr_ice_catalog_each(wr_ice_catalog *c,
                            wr_code (*fn)(void *ctx, const char *ns, const char *name, const char *metadata_location,
                                          wr_err *err),
                            void *ctx, wr_err *err) {
    if (c->rest) return wr_rest_each(c->rest, visit_name, &(each_name){fn, ctx}, err);
    if (!has_column(c, "iceberg_tables", "metadata_location"))
        return WR_OK; /* a catalog that nobody has written to yet */
    WR_CLEANUP(listing_clear) listing l = {0};
    {
        AUTO_STMT stmt s;
        char sql[300];
        bool row = false;
        snprintf(sql, sizeof sql,
                 "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables WHERE catalog_name = "
                 "'" WR_CATALOG_NAME "'%s ORDER BY 1, 2",
                 IS_TABLE(c));
        WR_TRY(prepare(c, sql, &s, err));
        for (;;) {
            WR_TRY(step(&s, &row, err));
            if (!row) break;
            for (int i = 0; i < 3; i++) WR_TRY(listing_add(&l, sqlite3_column_text(s.s, i), err));
        }
    } /* the statement is over: fn may write */
    for (int i = 0; i < l.n; i += 3) WR_TRY(fn(ctx, l.v[i], l.v[i + 1], l.v[i + 2], err));
    return WR_OK;
}

static wr_code location_of(wr_ice_catalog *c, const char *ns, const char *name, char **ret_location,
                           wr_err *err) { /* NULL: no such row */
    *ret_location = NULL;
    if (!has_column(c, "iceberg_tables", "metadata_location")) return WR_OK;
    AUTO_STMT stmt s;
    char sql[300];
    bool row = false;
    snprintf(sql, sizeof sql,
             "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = '" WR_CATALOG_NAME
             "' AND table_namespace = ? AND table_name = ?%s",
             IS_TABLE(c));
    WR_TRY(prepare(c, sql, &s, err));
    bind_text(&s, ns);
    bind_text(&s, name);
    WR_TRY(step(&s, &row, err));
    if (!row) return WR_OK;
    const char *text = (const char *)sqlite3_column_text(s.s, 0);
    *ret_location = wr_strdup(text ? text : "");
    return *ret_location ? WR_OK : wr_nomem(err, "metadata location", 1);
}

wr_code wr_catalog_name_of(wr_ice_catalog *c, const char *location, char **ret_ns, char **ret_name, wr_err *err) {
    AUTO_STMT stmt s;
    bool row = false;
    WR_TRY(prepare(c,
                   "SELECT table_namespace, table_name FROM iceberg_tables WHERE catalog_name = '" WR_CATALOG_NAME
                   "' AND metadata_location = ?",
                   &s, err));
    bind_text(&s, location);
    WR_TRY(step(&s, &row, err));
    if (!row)
        return wr_fail(err, WR_E_CONFLICT, WR_RETRY_AFTER_RELOAD,
                       "no table is at %s any more: somebody else committed to it or dropped it", location);
    char *ns = wr_strdup((const char *)sqlite3_column_text(s.s, 0)),
         *name = wr_strdup((const char *)sqlite3_column_text(s.s, 1));
    if (!ns || !name) return wr_free(ns), wr_free(name), wr_nomem(err, "table name", 1);
    *ret_ns = ns, *ret_name = name;
    return WR_OK;
}

/* Whether `now` has a snapshot or a ref that `before` has not. */
static bool has_more(const cJSON *now, const cJSON *before) {
    const cJSON *x;
    cJSON_ArrayForEach(x, wr_json_get(now, "snapshots"))
        if (!wr_meta_snapshot(before, wr_meta_num(x, "snapshot-id", -1))) return true;
    cJSON_ArrayForEach(x, wr_json_get(now, "refs"))
        if (wr_meta_ref(before, x->string) != wr_meta_num(x, "snapshot-id", -1)) return true;
    return false;
}

wr_code wr_ice_refresh(wr_ice_catalog *c, wr_ice_table *t, bool *ret_more, wr_err *err) {
    wr_ice_table *now = NULL;
    *ret_more = false;
    if (!c->rest) return WR_OK;
    WR_TRY(wr_rest_load(c->rest, t->ns, t->name, &now, err));
    bool ours = strcmp(now->uuid, t->uuid) == 0 && wr_meta_same_heads(now->doc, t->doc);
    if (ours) {
        *ret_more = has_more(now->doc, t->doc);
        cJSON_Delete(t->doc);
        wr_free(t->location_of_meta);
        t->doc = WR_STEAL(now->doc), t->location_of_meta = WR_STEAL(now->location_of_meta);
    }
    wr_ice_table_free(now);
    return ours ? WR_OK : wr_fail(err, WR_E_CONFLICT, WR_RETRY_AFTER_RELOAD, "somebody else committed to %s.%s", t->ns, t->name);
}

wr_code wr_ice_load(wr_ice_catalog *c, const char *ns, const char *name, wr_ice_table **ret_table, wr_err *err) {
    WR_AUTO char *last = NULL;
    if (c->rest) return wr_rest_load(c->rest, ns, name, ret_table, err);
    for (;;) {
        WR_AUTO char *location = NULL;
        WR_TRY(location_of(c, ns, name, &location, err));
        if (!location)
            return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "table %s.%s is not in catalog %s", ns, name, c->path);
        wr_ice_table *t = NULL;
        wr_code rc = wr_ice_load_file(c->store, location, &t, err);
        /* A writer may have moved on and removed the file between the two reads. */
        if (rc == WR_E_NOTFOUND && !(last && strcmp(last, location) == 0)) {
            wr_free(last);
            last = WR_STEAL(location);
            continue;
        }
        if (rc == WR_E_NOTFOUND)
            return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "table %s.%s: its metadata file %s is missing", ns, name,
                           location);
        if (rc == WR_OK) rc = wr_meta_set_name(t, ns, name, err);
        if (rc != WR_OK) return wr_ice_table_free(t), wr_err_in(err, "table %s.%s", ns, name);
        *ret_table = t;
        return WR_OK;
    }
}

/* ------------------------------------------------------------------ moving */
#define ROW_KEY "catalog_name = '" WR_CATALOG_NAME "' AND table_namespace = ? AND table_name = ?"

static bool renames(const wr_row_move *m) {
    return m->new_location && m->old_location && (strcmp(m->ns, m->new_ns) != 0 || strcmp(m->name, m->new_name) != 0);
}

static void parking_name(int i, char text[40]) { snprintf(text, 40, "\001weir-rename-%d", i); }

/* The compare-and-swap: the row must still say what the table object says. */
static wr_code swap_row(wr_ice_catalog *c, const wr_row_move *m, int i, wr_err *err) {
    AUTO_STMT stmt s;
    char parked[40];
    if (!m->new_location) {
        WR_TRY(prepare(c, "DELETE FROM iceberg_tables WHERE " ROW_KEY " AND metadata_location = ?", &s, err));
    } else {
        /* Names go through a parking name, so that tables can swap theirs without meeting at the primary key. */
        parking_name(i, parked);
        WR_TRY(prepare(c,
                       "UPDATE iceberg_tables SET previous_metadata_location = CASE WHEN metadata_location = ?1 THEN "
                       "previous_metadata_location ELSE metadata_location END, "
                       "metadata_location = ?1, table_name = ?2 WHERE catalog_name = '" WR_CATALOG_NAME
                       "' AND table_namespace = ?3 AND table_name = ?4 AND metadata_location = ?5",
                       &s, err));
        bind_text(&s, m->new_location);
        bind_text(&s, renames(m) ? parked : m->name);
    }
    bind_text(&s, m->ns);
    bind_text(&s, m->name);
    bind_text(&s, m->old_location);
    WR_TRY(step(&s, NULL, err));
    if (sqlite3_changes(c->db) == 1) return WR_OK;
    wr_fail(err, WR_E_CONFLICT, WR_RETRY_AFTER_RELOAD,
            "table %s.%s is no longer at %s: somebody else committed to it, renamed or dropped it", m->ns, m->name,
            m->old_location);
    return err->code;
}

static wr_code place_row(wr_ice_catalog *c, const wr_row_move *m, int i, wr_err *err) {
    AUTO_STMT stmt s;
    char parked[40];
    if (!m->old_location) {
        WR_TRY(prepare(c,
                       "INSERT OR IGNORE INTO iceberg_tables(catalog_name, table_namespace, table_name, "
                       "metadata_location, previous_metadata_location, iceberg_type) "
                       "VALUES('" WR_CATALOG_NAME "', ?, ?, ?, NULL, 'TABLE')",
                       &s, err));
        bind_text(&s, m->new_ns);
        bind_text(&s, m->new_name);
        bind_text(&s, m->new_location);
    } else {
        parking_name(i, parked);
        WR_TRY(prepare(c, "UPDATE OR IGNORE iceberg_tables SET table_namespace = ?, table_name = ? WHERE " ROW_KEY, &s,
                       err));
        bind_text(&s, m->new_ns);
        bind_text(&s, m->new_name);
        bind_text(&s, m->ns);
        bind_text(&s, parked);
    }
    WR_TRY(step(&s, NULL, err));
    if (sqlite3_changes(c->db) == 1) return WR_OK;
    return wr_fail(err, WR_E_EXISTS, WR_RETRY_NO, "catalog %s already has a table or view %s.%s", c->path, m->new_ns,
                   m->new_name);
}

static wr_code ensure_namespace(wr_ice_catalog *c, const char *ns, wr_err *err) {
    AUTO_STMT stmt s;
    WR_TRY(prepare(c,
                   "INSERT OR IGNORE INTO iceberg_namespace_properties(catalog_name, namespace, property_key, "
                   "property_value) VALUES('" WR_CATALOG_NAME "', ?, 'exists', 'true')",
                   &s, err));
    bind_text(&s, ns);
    return step(&s, NULL, err);
}

static wr_code put_progress(wr_ice_catalog *c, const wr_ice_progress *p, wr_err *err) {
    WR_AUTO_BUF wr_buf pos = WR_BUF_INIT;
    if (p->pos) wr_pos_encode(&pos, p->pos);
    WR_TRY(wr_buf_check(&pos, "position", err));
    AUTO_STMT stmt s;
    WR_TRY(prepare(
        c,
        "INSERT INTO weir_progress(pipeline, queue_offset, position, event_time_us, committed_us) VALUES(?1, ?2, ?3, "
        "?4, ?5) "
        "ON CONFLICT(pipeline) DO UPDATE SET queue_offset = ?2, position = ?3, event_time_us = ?4, committed_us = ?5",
        &s, err));
    bind_text(&s, p->pipeline);
    bind_i64(&s, (int64_t)p->offset);
    int rc =
        pos.n ? sqlite3_bind_blob(s.s, ++s.narg, pos.p, (int)pos.n, SQLITE_STATIC) : sqlite3_bind_null(s.s, ++s.narg);
    if (rc != SQLITE_OK) s.rc = rc;
    bind_i64(&s, p->event_time_us);
    bind_i64(&s, wr_now_us());
    return step(&s, NULL, err);
}

static wr_code move_rows(wr_ice_catalog *c, const wr_row_move *moves, int n, const wr_ice_progress *progress,
                         wr_err *err) {
    for (int i = 0; i < n; i++)
        if (moves[i].old_location) WR_TRY(swap_row(c, &moves[i], i, err));
    for (int i = 0; i < n; i++) {
        if (!moves[i].new_location || (moves[i].old_location && !renames(&moves[i]))) continue;
        WR_TRY(place_row(c, &moves[i], i, err));
        WR_TRY(ensure_namespace(c, moves[i].new_ns, err));
    }
    return progress && progress->pipeline ? put_progress(c, progress, err) : WR_OK;
}

/* After a failed COMMIT: did it happen? *ret_known is false when that cannot be read. */
static bool happened(wr_ice_catalog *c, const wr_row_move *moves, int n, const wr_ice_progress *progress,
                     bool *ret_known) {
    wr_err err = WR_ERR_INIT;
    *ret_known = false;
    for (int i = 0; i < n; i++) {
        const wr_row_move *m = &moves[i];
        WR_AUTO char *now = NULL;
        if (location_of(c, m->new_location ? m->new_ns : m->ns, m->new_location ? m->new_name : m->name, &now, &err) !=
            WR_OK)
            return false;
        *ret_known = true;
        return m->new_location ? now && strcmp(now, m->new_location) == 0 : !now;
    }
    uint64_t offset;
    wr_pos pos = {0};
    int64_t us;
    if (!progress || !progress->pipeline ||
        wr_ice_catalog_progress(c, progress->pipeline, &offset, &pos, &us, &err) != WR_OK)
        return false;
    wr_pos_clear(&pos);
    *ret_known = true;
    return offset == progress->offset;
}

wr_code wr_catalog_move(wr_ice_catalog *c, const wr_row_move *moves, int n, const wr_ice_progress *progress,
                        bool *ret_unknown, wr_err *err) {
    *ret_unknown = false;
    if (c->read_only) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "catalog %s is open for reading only", c->path);
    WR_TRY(exec(c, "BEGIN IMMEDIATE", "begin", err));
    wr_code rc = c->lock ? wr_lock_check(c->lock, err) : WR_OK; /* within the transaction: whoever takes over waits for its end */
    if (rc == WR_OK) rc = move_rows(c, moves, n, progress, err);
    if (rc == WR_OK && WR_FAULT("ice.sql"))
        rc = wr_fail(err, WR_E_IO, WR_RETRY_SOON, "catalog %s: fault ice.sql", c->path);
    if (rc != WR_OK) {
        sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL); /* a failure means that SQLite has rolled back by itself */
        return rc;
    }
    int s = sqlite3_exec(c->db, "COMMIT", NULL, NULL, NULL);
    if (s == SQLITE_OK && WR_FAULT("ice.commit")) s = SQLITE_IOERR;
    if (s == SQLITE_OK) return WR_OK;
    sql_fail(c, s, "commit", err);
    if (!sqlite3_get_autocommit(c->db)) { /* still open: nothing was written, e.g. a reader kept us out */
        sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
        return err->code;
    }
    bool known;
    if (happened(c, moves, n, progress, &known)) return wr_err_clear(err), WR_OK;
    if (!known) {
        *ret_unknown = true;
        err->retry = WR_RETRY_AFTER_RELOAD;
        return wr_err_in(err, "the outcome of the commit is unknown");
    }
    return err->code;
}
