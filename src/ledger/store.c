#include "store.h"
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/sqlite.h"

#define APPLICATION_ID 0x5765694c /* "WeiL" */
#define VERSION 2
#define BUSY_TIMEOUT_MS 10000
#define COLUMNS_MAX 24

#define CELL_COLUMNS "table_id INTEGER NOT NULL, op INTEGER NOT NULL, minute INTEGER NOT NULL, rows INTEGER NOT NULL, sum INTEGER NOT NULL, delay_ms INTEGER NOT NULL, delay_ms_max INTEGER NOT NULL"

static const char schema[] =
    "CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE name (table_id INTEGER PRIMARY KEY, db TEXT NOT NULL, name TEXT NOT NULL);"
    "CREATE TABLE epoch (first INTEGER PRIMARY KEY, last INTEGER NOT NULL);"
    "CREATE TABLE epoch_row (first INTEGER NOT NULL, point INTEGER NOT NULL, " CELL_COLUMNS ", PRIMARY KEY (first, point, table_id, op, minute)) WITHOUT ROWID;"
    "CREATE TABLE committed (\"offset\" INTEGER PRIMARY KEY);"
    "CREATE TABLE commit_row (\"offset\" INTEGER NOT NULL, first INTEGER NOT NULL, point INTEGER NOT NULL, " CELL_COLUMNS
    ", PRIMARY KEY (\"offset\", first, point, table_id, op, minute)) WITHOUT ROWID;"
    "CREATE TABLE receipt (id INTEGER PRIMARY KEY AUTOINCREMENT, \"offset\" INTEGER NOT NULL, rows INTEGER NOT NULL, sum INTEGER NOT NULL, unread INTEGER NOT NULL, prepared_us INTEGER NOT NULL, ns TEXT NOT NULL, name TEXT NOT NULL, schema TEXT NOT NULL);"
    "CREATE TABLE receipt_file (id INTEGER NOT NULL, seq INTEGER NOT NULL, rows INTEGER NOT NULL, at INTEGER NOT NULL, bytes INTEGER NOT NULL, path TEXT NOT NULL, referenced TEXT, PRIMARY KEY (id, seq)) WITHOUT ROWID;"
    "CREATE TABLE receipt_row (id INTEGER NOT NULL, " CELL_COLUMNS ", PRIMARY KEY (id, table_id, op, minute)) WITHOUT ROWID;"
    "CREATE TABLE minute (point INTEGER NOT NULL, " CELL_COLUMNS ", span INTEGER NOT NULL DEFAULT 1, PRIMARY KEY (table_id, minute, span, op, point)) WITHOUT ROWID;"
    "CREATE TABLE alarm (minute INTEGER NOT NULL, first_us INTEGER NOT NULL, last_us INTEGER NOT NULL, hop TEXT NOT NULL, subject TEXT NOT NULL, text TEXT NOT NULL, acknowledged_us INTEGER, acknowledged_by TEXT, why TEXT, PRIMARY KEY (hop, subject, minute)) WITHOUT ROWID;";

/* Statements that bring a file of an earlier version to the next one. */
static const char *const migrations[VERSION] = {
    [1] = "ALTER TABLE alarm ADD COLUMN acknowledged_us INTEGER; ALTER TABLE alarm ADD COLUMN acknowledged_by TEXT; ALTER TABLE alarm ADD COLUMN why TEXT",
};

#define ADD_MINUTE \
    " ON CONFLICT (table_id, minute, span, op, point) DO UPDATE SET rows = rows + excluded.rows, sum = sum + excluded.sum, delay_ms = delay_ms + excluded.delay_ms, delay_ms_max = max(delay_ms_max, excluded.delay_ms_max)"
#define CELL "table_id, op, minute, rows, sum, delay_ms, delay_ms_max"

static const char *const sql_of[LQ_COUNT] = {
    [LQ_META_SET] = "INSERT INTO meta (value, key) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    [LQ_NAME] = "INSERT INTO name VALUES (?1, ?2, ?3) ON CONFLICT (table_id) DO UPDATE SET db = excluded.db, name = excluded.name",
    [LQ_EPOCH] = "INSERT INTO epoch VALUES (?1, ?2)",
    [LQ_EPOCH_ROW] = "INSERT INTO epoch_row (first, point, " CELL ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    [LQ_COMMIT] = "INSERT OR IGNORE INTO committed VALUES (?1)",
    [LQ_COMMIT_ROW] = "INSERT INTO commit_row (\"offset\", first, point, " CELL ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    [LQ_MINUTE] = "INSERT INTO minute (point, " CELL ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)" ADD_MINUTE,
    [LQ_SETTLE_EPOCH] = "DELETE FROM epoch WHERE first = ?1",
    [LQ_SETTLE_EPOCH_ROWS] = "DELETE FROM epoch_row WHERE first = ?1",
    [LQ_SETTLE_COMMIT_ROWS] = "DELETE FROM commit_row WHERE point = 2 AND first <= ?1",
    [LQ_SETTLE_PASSED] = "INSERT INTO minute (point, " CELL ") SELECT point, " CELL " FROM commit_row WHERE point = 3 AND \"offset\" <= ?1" ADD_MINUTE,
    [LQ_FORGET_PASSED] = "DELETE FROM commit_row WHERE point = 3 AND \"offset\" <= ?1",
    [LQ_FORGET_COMMITS] = "DELETE FROM committed WHERE \"offset\" < ?1",
    [LQ_BACK_ROWS] = "DELETE FROM commit_row WHERE \"offset\" > ?1",
    [LQ_BACK_COMMITS] = "DELETE FROM committed WHERE \"offset\" > ?1",
    [LQ_BACK_FILES] = "DELETE FROM receipt_file WHERE id IN (SELECT id FROM receipt WHERE \"offset\" > ?1)",
    [LQ_BACK_RECEIPT_ROWS] = "DELETE FROM receipt_row WHERE id IN (SELECT id FROM receipt WHERE \"offset\" > ?1)",
    [LQ_BACK_RECEIPTS] = "DELETE FROM receipt WHERE \"offset\" > ?1",
    [LQ_RECEIPT] = "INSERT INTO receipt (\"offset\", rows, sum, unread, prepared_us, ns, name, schema) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [LQ_RECEIPT_FILE] = "INSERT INTO receipt_file (id, seq, rows, at, bytes, path, referenced) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [LQ_RECEIPT_ROW] = "INSERT INTO receipt_row (id, " CELL ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [LQ_RECEIPT_MINUTES] = "INSERT INTO minute (point, " CELL ") SELECT 4, " CELL " FROM receipt_row WHERE id = ?1" ADD_MINUTE,
    [LQ_RECEIPT_ROWS_GONE] = "DELETE FROM receipt_row WHERE id = ?1",
    [LQ_RECEIPT_FILES_GONE] = "DELETE FROM receipt_file WHERE id = ?1",
    [LQ_RECEIPT_GONE] = "DELETE FROM receipt WHERE id = ?1",
    [LQ_ALARM] = "INSERT INTO alarm (minute, first_us, last_us, hop, subject, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
                 " ON CONFLICT (hop, subject, minute) DO UPDATE SET last_us = excluded.last_us, text = excluded.text, acknowledged_us = NULL, acknowledged_by = NULL, why = NULL",
    [LQ_ACKNOWLEDGE] = "UPDATE alarm SET acknowledged_us = ?1, acknowledged_by = ?3, why = ?4 WHERE minute = ?2 AND hop = ?5 AND subject = ?6",
    [LQ_AGE] = "INSERT INTO minute (point, " CELL ", span) SELECT point, table_id, op, minute / ?1 * ?1, rows, sum, delay_ms, delay_ms_max, ?1 FROM minute WHERE span < ?1 AND minute < ?2" ADD_MINUTE,
    [LQ_AGED] = "DELETE FROM minute WHERE span < ?1 AND minute < ?2",
    [LQ_RESET_1] = "DELETE FROM epoch",
    [LQ_RESET_2] = "DELETE FROM epoch_row",
    [LQ_RESET_3] = "DELETE FROM committed",
    [LQ_RESET_4] = "DELETE FROM commit_row",
    [LQ_RESET_5] = "DELETE FROM receipt",
    [LQ_RESET_6] = "DELETE FROM receipt_file",
    [LQ_RESET_7] = "DELETE FROM receipt_row",
};

struct wr_ledger_store {
    sqlite3 *db;
    sqlite3_stmt *stmt[LQ_COUNT];
};

static wr_code sql_fail(wr_ledger_store *s, const char *what, wr_err *err) {
    char text[100];
    snprintf(text, sizeof text, "ledger: %.80s", what);
    wr_code code = wr_sqlite_fail(err, s->db, s->db ? sqlite3_extended_errcode(s->db) : SQLITE_NOMEM, text);
    if (code == WR_E_CORRUPT) wr_err_cure(err, "move ledger.db away: it holds evidence of the past and nothing that the sync needs; a new one begins with the next start");
    return code;
}

static wr_code exec(wr_ledger_store *s, const char *sql, wr_err *err) { return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? WR_OK : sql_fail(s, sql, err); }

static wr_code check_ours(wr_ledger_store *s, int64_t *ret_version, wr_err *err) {
    int64_t id, version, objects;
    WR_TRY(wr_ledger_store_number(s, "PRAGMA application_id", &id, err));
    WR_TRY(wr_ledger_store_number(s, "PRAGMA user_version", &version, err));
    WR_TRY(wr_ledger_store_number(s, "SELECT count(*) FROM sqlite_master", &objects, err));
    if (objects && id != APPLICATION_ID) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "ledger: a SQLite database that is not Weir's");
    if (version > VERSION) {
        wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "ledger: version %lld, this program knows %d", (long long)version, VERSION);
        return wr_err_cure(err, "use the newer weir that wrote it");
    }
    *ret_version = version;
    return WR_OK;
}

/* WAL without a sync for each commit: a killed process loses nothing, a machine without power may lose the last seconds, and wr_ledger_open sees that. */
static wr_code set_up(wr_ledger_store *s, wr_err *err) {
    int64_t version;
    WR_TRY(check_ours(s, &version, err));
    WR_TRY(exec(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF", err));
    if (version == VERSION) return WR_OK;
    WR_TRY(wr_ledger_store_begin(s, err));
    wr_code rc = check_ours(s, &version, err); /* another process may have been quicker */
    if (rc == WR_OK && !version) rc = exec(s, schema, err);
    for (int64_t v = version; rc == WR_OK && v && v < VERSION; v++) rc = exec(s, migrations[v], err);
    char stamp[96];
    snprintf(stamp, sizeof stamp, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION_ID, VERSION);
    if (rc == WR_OK) rc = exec(s, stamp, err);
    return wr_ledger_store_end(s, rc, err);
}

wr_code wr_ledger_store_open(const char *path, bool read_only, wr_ledger_store **ret, wr_err *err) {
    if (!read_only) WR_TRY(wr_sqlite_create(path, err));
    else if (access(path, F_OK) != 0) return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "there is no ledger in %s yet", path);
    wr_ledger_store *s = wr_calloc(1, sizeof *s);
    if (!s) return wr_nomem(err, "ledger", sizeof *s);
    int rc = sqlite3_open_v2(path, &s->db, (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    wr_code code = rc == SQLITE_OK ? WR_OK : sql_fail(s, "open", err);
    if (code == WR_OK) sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MS);
    int64_t version;
    if (code == WR_OK) code = read_only ? check_ours(s, &version, err) : set_up(s, err);
    if (code == WR_OK && read_only && !version) code = wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "there is no ledger in %s yet", path);
    if (code != WR_OK) return wr_ledger_store_close(s), wr_err_in(err, "%s", path);
    *ret = s;
    return WR_OK;
}

void wr_ledger_store_close(wr_ledger_store *s) {
    if (!s) return;
    for (int i = 0; i < LQ_COUNT; i++) sqlite3_finalize(s->stmt[i]);
    sqlite3_close(s->db);
    wr_free(s);
}

wr_code wr_ledger_store_begin_read(wr_ledger_store *s, wr_err *err) { return exec(s, "BEGIN", err); }
wr_code wr_ledger_store_begin(wr_ledger_store *s, wr_err *err) { return exec(s, "BEGIN IMMEDIATE", err); }

wr_code wr_ledger_store_end(wr_ledger_store *s, wr_code rc, wr_err *err) {
    if (rc == WR_OK && WR_FAULT("ledger.commit")) rc = wr_fail(err, WR_E_IO, WR_RETRY_SOON, "ledger: commit: injected");
    if (rc == WR_OK) rc = exec(s, "COMMIT", err);
    if (rc == WR_OK) (void)WR_FAULT("ledger.committed"); /* for kill */
    if (rc != WR_OK && !sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

wr_code wr_ledger_store_run(wr_ledger_store *s, wr_ledger_sql q, const int64_t *v, int nv, const char *const *t, int nt, wr_err *err) {
    sqlite3_stmt *st = s->stmt[q];
    if (!st && sqlite3_prepare_v3(s->db, sql_of[q], -1, SQLITE_PREPARE_PERSISTENT, &s->stmt[q], NULL) != SQLITE_OK) return sql_fail(s, sql_of[q], err);
    st = s->stmt[q];
    int rc = SQLITE_OK;
    for (int i = 0; i < nv && rc == SQLITE_OK; i++) rc = sqlite3_bind_int64(st, i + 1, v[i]);
    for (int i = 0; i < nt && rc == SQLITE_OK; i++) rc = t[i] ? sqlite3_bind_text(st, nv + i + 1, t[i], -1, SQLITE_STATIC) : sqlite3_bind_null(st, nv + i + 1);
    if (rc == SQLITE_OK) rc = sqlite3_step(st);
    wr_code code = rc == SQLITE_DONE ? WR_OK : sql_fail(s, sql_of[q], err);
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return code;
}

wr_code wr_ledger_store_cell(wr_ledger_store *s, wr_ledger_sql q, const int64_t *v, int nv, const wr_cell *c, wr_err *err) {
    int64_t all[12];
    for (int i = 0; i < nv; i++) all[i] = v[i];
    int64_t cell[7] = {wr_cell_table(c->key), wr_cell_op(c->key), wr_cell_minute(c->key), (int64_t)c->rows, (int64_t)c->sum, (int64_t)c->delay_ms, c->delay_ms_max};
    memcpy(all + nv, cell, sizeof cell);
    return wr_ledger_store_run(s, q, all, nv + 7, NULL, 0, err);
}

int64_t wr_ledger_store_id(wr_ledger_store *s) { return sqlite3_last_insert_rowid(s->db); }

static wr_code give(sqlite3_stmt *st, wr_code (*fn)(void *ctx, const wr_ledger_row *r, wr_err *err), void *ctx, wr_err *err) {
    int64_t v[COLUMNS_MAX];
    const char *t[COLUMNS_MAX];
    int n = sqlite3_column_count(st);
    for (int i = 0; i < n && i < COLUMNS_MAX; i++) {
        bool text = sqlite3_column_type(st, i) == SQLITE_TEXT;
        v[i] = text ? 0 : sqlite3_column_int64(st, i);
        t[i] = text ? (const char *)sqlite3_column_text(st, i) : NULL;
    }
    return fn(ctx, &(wr_ledger_row){v, t, n}, err);
}

wr_code wr_ledger_store_each(wr_ledger_store *s, const char *sql, const int64_t *p, int np, wr_code (*fn)(void *ctx, const wr_ledger_row *r, wr_err *err), void *ctx, wr_err *err) {
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK) return sql_fail(s, sql, err);
    for (int i = 0; i < np; i++) sqlite3_bind_int64(st, i + 1, p[i]);
    wr_code code = WR_OK;
    int rc;
    while (code == WR_OK && (rc = sqlite3_step(st)) != SQLITE_DONE) code = rc == SQLITE_ROW ? give(st, fn, ctx, err) : sql_fail(s, sql, err);
    sqlite3_finalize(st);
    return code;
}

static wr_code first_number(void *ctx, const wr_ledger_row *r, wr_err *err) {
    (void)err;
    *(int64_t *)ctx = r->v[0];
    return WR_OK;
}

wr_code wr_ledger_store_number(wr_ledger_store *s, const char *sql, int64_t *ret_v, wr_err *err) {
    *ret_v = 0;
    return wr_ledger_store_each(s, sql, NULL, 0, first_number, ret_v, err);
}
