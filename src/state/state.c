/* One connection behind one mutex. Statements are prepared at their first use and kept. docs/formats/state.md. */
#include "weir/state.h"
#include "weir/sqlite.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "migrate.h"

#include <pthread.h>
#include <stdio.h>

#define BUSY_TIMEOUT_MS 10000

typedef enum stmt_id {
    ST_BEGIN,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_FACT_SET,
    ST_FACT_GET,
    ST_SCHEMA_ADD,
    ST_SCHEMA_USED,
    ST_SCHEMA_TRUNCATE,
    ST_SCHEMA_LOAD,
    ST_SCHEMA_VERSION,
    ST_SCHEMA_MAX,
    ST_FILE_ADD,
    ST_FILE_DONE,
    ST_FILE_EACH,
    ST_COUNT,
} stmt_id;

static const char *const sql_of[ST_COUNT] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_FACT_SET] =
        "INSERT INTO fact (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    [ST_FACT_GET] = "SELECT value FROM fact WHERE key = ?1",
    [ST_SCHEMA_ADD] = /* one text. NOLINTNEXTLINE(bugprone-suspicious-missing-comma) */
        "INSERT INTO schema_event (table_id, \"offset\", seq, version, kind, ddl) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        " ON CONFLICT (table_id, \"offset\", seq)"
        " DO UPDATE SET version = excluded.version, kind = excluded.kind, ddl = excluded.ddl",
    [ST_SCHEMA_USED] = "UPDATE table_id_used SET highest = max(highest, ?1)",
    [ST_SCHEMA_TRUNCATE] = "DELETE FROM schema_event WHERE \"offset\" > ?1",
    [ST_SCHEMA_LOAD] = "SELECT (SELECT e.ddl FROM schema_event e WHERE e.table_id = t.table_id AND e.\"offset\" <= ?1"
                       " ORDER BY e.\"offset\" DESC, e.seq DESC LIMIT 1) AS ddl"
                       " FROM (SELECT DISTINCT table_id FROM schema_event) t WHERE ddl IS NOT NULL ORDER BY t.table_id",
    [ST_SCHEMA_VERSION] =
        "SELECT ddl FROM schema_event WHERE table_id = ?1 AND version = ?2 ORDER BY \"offset\" DESC, seq DESC LIMIT 1",
    [ST_SCHEMA_MAX] = "SELECT highest FROM table_id_used",
    [ST_FILE_ADD] = "INSERT INTO file_journal (path, created_us) VALUES (?1, ?2) ON CONFLICT (path) DO NOTHING",
    [ST_FILE_DONE] = "DELETE FROM file_journal WHERE path = ?1",
    [ST_FILE_EACH] = "SELECT path, created_us FROM file_journal ORDER BY path",
};

struct wr_state {
    pthread_mutex_t lock;
    sqlite3 *db;                  /* lock */
    sqlite3_stmt *stmt[ST_COUNT]; /* lock */
};

/* ------------------------------------------------------------------ opening */
wr_code wr_state_open(const char *path, wr_state **ret_state, wr_err *err) {
    WR_TRY(wr_sqlite_create(path, err));
    wr_state *s = wr_calloc(1, sizeof *s);
    if (!s) return wr_nomem(err, "state", sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    /* Our mutex stands in front of the connection, SQLite need not have one. */
    int rc = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    wr_code code = rc == SQLITE_OK ? WR_OK : wr_state_fail_(err, s->db, "open");
    if (code == WR_OK) {
        sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MS);
        code = wr_state_migrate_(s->db, err);
    }
    if (code != WR_OK) {
        wr_state_close(s);
        return wr_err_in(err, "%s", path);
    }
    *ret_state = s;
    return WR_OK;
}

void wr_state_close(wr_state *s) {
    if (!s) return;
    for (int i = 0; i < ST_COUNT; i++) sqlite3_finalize(s->stmt[i]);
    sqlite3_close(s->db);
    pthread_mutex_destroy(&s->lock);
    wr_free(s);
}

/* ------------------------------------------------------------------ statements, all under the lock */
static void lock(wr_state *s) { pthread_mutex_lock(&s->lock); }
static void unlock_p(wr_state **s) { pthread_mutex_unlock(&(*s)->lock); }
#define WITH_LOCK(s)                                                                                                   \
    WR_CLEANUP(unlock_p) wr_state *locked_ = (s);                                                                      \
    lock(locked_)

static wr_code stmt_get(wr_state *s, stmt_id id, sqlite3_stmt **ret_stmt, wr_err *err) {
    if (!s->stmt[id] &&
        sqlite3_prepare_v3(s->db, sql_of[id], -1, SQLITE_PREPARE_PERSISTENT, &s->stmt[id], NULL) != SQLITE_OK)
        return wr_state_fail_(err, s->db, "prepare");
    *ret_stmt = s->stmt[id];
    return WR_OK;
}

/* Statements must be reset at every exit: one that stands on a row keeps its read transaction open. */
static void done_p(sqlite3_stmt **st) {
    if (!*st) return;
    sqlite3_reset(*st);
    sqlite3_clear_bindings(*st);
}
#define AUTO_STMT WR_CLEANUP(done_p) sqlite3_stmt

/* Steps a statement that gives no rows. */
static wr_code run(wr_state *s, sqlite3_stmt *st, const char *what, wr_err *err) {
    int rc = sqlite3_step(st);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? WR_OK : wr_state_fail_(err, s->db, what);
}

static wr_code run_plain(wr_state *s, stmt_id id, wr_err *err) {
    AUTO_STMT *st = NULL;
    WR_TRY(stmt_get(s, id, &st, err));
    return run(s, st, sql_of[id], err);
}

/* Ends a transaction: commits when `rc` is WR_OK, else rolls back and keeps the first error. */
static wr_code end(wr_state *s, wr_code rc, wr_err *err) {
    if (rc == WR_OK && WR_FAULT("state.commit"))
        rc = wr_fail(err, WR_E_IO, WR_RETRY_NO, "state: cannot commit: injected");
    if (rc == WR_OK) rc = run_plain(s, ST_COMMIT, err);
    if (rc == WR_OK) (void)WR_FAULT("state.committed"); /* for kill: nobody has acted on it yet */
    if (rc != WR_OK && !sqlite3_get_autocommit(s->db)) {
        wr_err ignored = WR_ERR_INIT;
        run_plain(s, ST_ROLLBACK, &ignored); /* fails only where SQLite has rolled back by itself */
    }
    return rc;
}

static wr_code bind_text(wr_state *s, sqlite3_stmt *st, int at, const char *text, wr_err *err) {
    return sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC) == SQLITE_OK ? WR_OK
                                                                           : wr_state_fail_(err, s->db, "bind");
}

/* Offsets are unsigned, SQLite's integers are not. No real offset is that large; "up to UINT64_MAX" means all. */
static sqlite3_int64 sql_offset(uint64_t offset) { return offset > INT64_MAX ? INT64_MAX : (sqlite3_int64)offset; }

/* ------------------------------------------------------------------ facts */
wr_code wr_state_set(wr_state *s, const char *key, const char *value, wr_err *err) {
    WITH_LOCK(s);
    AUTO_STMT *st = NULL;
    WR_TRY(run_plain(s, ST_BEGIN, err));
    wr_code rc = stmt_get(s, ST_FACT_SET, &st, err);
    if (rc == WR_OK) rc = bind_text(s, st, 1, key, err);
    if (rc == WR_OK) rc = bind_text(s, st, 2, value, err);
    if (rc == WR_OK) rc = run(s, st, "set a fact", err);
    if (st) sqlite3_reset(st);
    return end(s, rc, err);
}

wr_code wr_state_set_all(wr_state *s, const wr_fact *facts, int n, wr_err *err) {
    if (!n) return WR_OK;
    WITH_LOCK(s);
    AUTO_STMT *st = NULL;
    WR_TRY(run_plain(s, ST_BEGIN, err));
    wr_code rc = stmt_get(s, ST_FACT_SET, &st, err);
    for (int i = 0; rc == WR_OK && i < n; i++) {
        rc = bind_text(s, st, 1, facts[i].key, err);
        if (rc == WR_OK) rc = bind_text(s, st, 2, facts[i].value, err);
        if (rc == WR_OK) rc = run(s, st, "set a fact", err);
        sqlite3_reset(st);
    }
    return end(s, rc, err);
}

wr_code wr_state_get(wr_state *s, const char *key, char **ret_value, wr_err *err) {
    WITH_LOCK(s);
    AUTO_STMT *st = NULL;
    WR_TRY(stmt_get(s, ST_FACT_GET, &st, err));
    WR_TRY(bind_text(s, st, 1, key, err));
    int rc = sqlite3_step(st);
    char *value = NULL;
    if (rc == SQLITE_ROW) {
        const unsigned char *text = sqlite3_column_text(st, 0);
        value = text ? wr_strdup((const char *)text) : NULL;
        if (!value) return wr_nomem(err, "fact", (unsigned long long)sqlite3_column_bytes(st, 0) + 1);
    } else if (rc != SQLITE_DONE) {
        return wr_state_fail_(err, s->db, "get a fact");
    }
    *ret_value = value;
    return WR_OK;
}

/* ------------------------------------------------------------------ schema history */
static wr_code schema_insert(wr_state *s, uint64_t offset, uint32_t seq, const wr_ddl *ddl, wr_slice bytes,
                             wr_err *err) {
    AUTO_STMT *add = NULL;
    AUTO_STMT *used = NULL;
    WR_TRY(stmt_get(s, ST_SCHEMA_ADD, &add, err));
    sqlite3_bind_int64(add, 1, ddl->table);
    sqlite3_bind_int64(add, 2, (sqlite3_int64)offset);
    sqlite3_bind_int64(add, 3, seq);
    if (ddl->schema) sqlite3_bind_int64(add, 4, ddl->schema->version);
    sqlite3_bind_int(add, 5, ddl->kind);
    if (sqlite3_bind_blob64(add, 6, bytes.p, bytes.n, SQLITE_STATIC) != SQLITE_OK)
        return wr_state_fail_(err, s->db, "bind");
    WR_TRY(run(s, add, "add a schema event", err));
    WR_TRY(stmt_get(s, ST_SCHEMA_USED, &used, err));
    sqlite3_bind_int64(used, 1, ddl->table);
    return run(s, used, "add a schema event", err);
}

wr_code wr_state_schema_add(wr_state *s, uint64_t offset, uint32_t seq, const wr_ddl *ddl, wr_err *err) {
    if (offset > INT64_MAX)
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "state: queue offset %llu is too large",
                       (unsigned long long)offset);
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    WR_TRY(wr_ddl_encode(&b, ddl, err));
    WITH_LOCK(s);
    WR_TRY(run_plain(s, ST_BEGIN, err));
    return end(s, schema_insert(s, offset, seq, ddl, wr_buf_view(&b), err), err);
}

wr_code wr_state_schema_truncate(wr_state *s, uint64_t last_offset, wr_err *err) {
    WITH_LOCK(s);
    AUTO_STMT *st = NULL;
    WR_TRY(run_plain(s, ST_BEGIN, err));
    wr_code rc = stmt_get(s, ST_SCHEMA_TRUNCATE, &st, err);
    if (rc == WR_OK) {
        sqlite3_bind_int64(st, 1, sql_offset(last_offset));
        rc = run(s, st, "forget schema events", err);
        sqlite3_reset(st);
    }
    return end(s, rc, err);
}

static wr_code decode_event(wr_slice bytes, wr_ddl *ret_ddl, wr_err *err) {
    wr_rd r = wr_rd_of(bytes.p, bytes.n);
    wr_ddl d;
    wr_code rc = wr_ddl_decode(&r, &d, err);
    if (rc == WR_OK && wr_rd_left(&r) > 0) {
        wr_ddl_clear(&d);
        rc = wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "%zu bytes follow a schema event", wr_rd_left(&r));
    }
    if (rc != WR_OK) return wr_err_in(err, "state");
    *ret_ddl = d;
    return WR_OK;
}

static wr_slice column_bytes(sqlite3_stmt *st, int col) {
    const void *p = sqlite3_column_blob(st, col);
    return wr_slice_of(p, (size_t)sqlite3_column_bytes(st, col));
}

/* Events as length-prefixed bytes, so that callbacks run without the lock. */
static wr_code schema_collect(wr_state *s, uint64_t at_offset, wr_buf *events, wr_err *err) {
    WITH_LOCK(s);
    AUTO_STMT *st = NULL;
    WR_TRY(stmt_get(s, ST_SCHEMA_LOAD, &st, err));
    sqlite3_bind_int64(st, 1, sql_offset(at_offset));
    int rc;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) wr_buf_slice(events, column_bytes(st, 0));
    if (rc != SQLITE_DONE) return wr_state_fail_(err, s->db, "load the schema history");
    return wr_buf_check(events, "schema history", err);
}

wr_code wr_state_schema_load(wr_state *s, uint64_t at_offset, wr_code (*fn)(void *ctx, const wr_ddl *ddl, wr_err *err),
                             void *ctx, wr_err *err) {
    WR_AUTO_BUF wr_buf events = WR_BUF_INIT;
    WR_TRY(schema_collect(s, at_offset, &events, err));
    wr_rd r = wr_rd_of(events.p, events.n);
    while (wr_rd_left(&r) > 0) {
        WR_CLEANUP(wr_ddl_clear) wr_ddl d = {0};
        WR_TRY(decode_event(wr_rd_slice(&r), &d, err));
        if (d.kind != WR_DDL_DROP) WR_TRY(fn(ctx, &d, err));
    }
    return WR_OK;
}

wr_code wr_state_schema_version(wr_state *s, uint32_t table, uint32_t version, wr_schema **ret_schema, wr_err *err) {
    WR_CLEANUP(wr_ddl_clear) wr_ddl d = {0};
    WITH_LOCK(s);
    AUTO_STMT *st = NULL;
    WR_TRY(stmt_get(s, ST_SCHEMA_VERSION, &st, err));
    sqlite3_bind_int64(st, 1, table);
    sqlite3_bind_int64(st, 2, version);
    int rc = sqlite3_step(st);
    if (rc == SQLITE_DONE)
        return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "state: version %u of table %u is not in the schema history",
                       version, table);
    if (rc != SQLITE_ROW) return wr_state_fail_(err, s->db, "look up a schema");
    WR_TRY(decode_event(column_bytes(st, 0), &d, err));
    if (!d.schema || d.schema->version != version)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "state: schema event of table %u does not hold version %u",
                       table, version);
    *ret_schema = WR_STEAL(d.schema);
    return WR_OK;
}

wr_code wr_state_schema_max_table(wr_state *s, uint32_t *ret_table, wr_err *err) {
    WITH_LOCK(s);
    AUTO_STMT *st = NULL;
    WR_TRY(stmt_get(s, ST_SCHEMA_MAX, &st, err));
    int rc = sqlite3_step(st);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) return wr_state_fail_(err, s->db, "look up the highest table id");
    sqlite3_int64 v = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;
    if (v < 0 || v > UINT32_MAX)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "state: highest table id is %lld", (long long)v);
    *ret_table = (uint32_t)v;
    return WR_OK;
}

/* ------------------------------------------------------------------ file journal */
/* One statement per path, one transaction for all. `created_us` < 0: the statement takes the path alone. */
static wr_code for_paths(wr_state *s, stmt_id id, const char *const *paths, int n, int64_t created_us, wr_err *err) {
    if (n <= 0) return WR_OK;
    WITH_LOCK(s);
    AUTO_STMT *st = NULL;
    WR_TRY(run_plain(s, ST_BEGIN, err));
    wr_code rc = stmt_get(s, id, &st, err);
    for (int i = 0; i < n && rc == WR_OK; i++) {
        rc = bind_text(s, st, 1, paths[i], err);
        if (created_us >= 0) sqlite3_bind_int64(st, 2, created_us);
        if (rc == WR_OK) rc = run(s, st, "write the file journal", err);
        sqlite3_reset(st);
    }
    return end(s, rc, err);
}

wr_code wr_state_file_add(wr_state *s, const char *path, wr_err *err) {
    return wr_state_file_add_many(s, &path, 1, err);
}

wr_code wr_state_file_add_many(wr_state *s, const char *const *paths, int n, wr_err *err) {
    int64_t now = wr_now_us();
    return for_paths(s, ST_FILE_ADD, paths, n, now < 0 ? 0 : now, err);
}

wr_code wr_state_file_done(wr_state *s, const char *const *paths, int n, wr_err *err) {
    return for_paths(s, ST_FILE_DONE, paths, n, -1, err);
}

static wr_code file_collect(wr_state *s, wr_buf *files, wr_err *err) {
    WITH_LOCK(s);
    AUTO_STMT *st = NULL;
    WR_TRY(stmt_get(s, ST_FILE_EACH, &st, err));
    int rc;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        const unsigned char *path = sqlite3_column_text(st, 0);
        if (!path) return wr_nomem(err, "file journal", 0);
        wr_buf_put(files, path, strlen((const char *)path) + 1); /* with its NUL */
        wr_buf_u64(files, (uint64_t)sqlite3_column_int64(st, 1));
    }
    if (rc != SQLITE_DONE) return wr_state_fail_(err, s->db, "read the file journal");
    return wr_buf_check(files, "file journal", err);
}

wr_code wr_state_file_each(wr_state *s, wr_code (*fn)(void *ctx, const char *path, int64_t created_us, wr_err *err),
                           void *ctx, wr_err *err) {
    WR_AUTO_BUF wr_buf files = WR_BUF_INIT;
    WR_TRY(file_collect(s, &files, err));
    wr_rd r = wr_rd_of(files.p, files.n);
    while (wr_rd_left(&r) > 0) {
        const char *path = (const char *)wr_rd_take(&r, strlen((const char *)r.p) + 1);
        int64_t created_us = (int64_t)wr_rd_u64(&r);
        WR_TRY(fn(ctx, path, created_us, err));
    }
    return WR_OK;
}
