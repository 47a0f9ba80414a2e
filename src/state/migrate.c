#include "migrate.h"
#include "weir/base/fault.h"
#include "weir/sqlite.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The step at index v leads from version v to v + 1. A step that has been released never changes. */
static const char *const steps[WR_STATE_VERSION] = {
    "CREATE TABLE fact (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE schema_event ("
    "  table_id INTEGER NOT NULL, \"offset\" INTEGER NOT NULL, seq INTEGER NOT NULL,"
    "  version INTEGER, kind INTEGER NOT NULL, ddl BLOB NOT NULL,"
    "  PRIMARY KEY (table_id, \"offset\", seq));"
    "CREATE INDEX schema_event_version ON schema_event (table_id, version);"
    "CREATE INDEX schema_event_offset ON schema_event (\"offset\");"
    "CREATE TABLE table_id_used (one INTEGER PRIMARY KEY CHECK (one = 1), highest INTEGER NOT NULL);"
    "INSERT INTO table_id_used VALUES (1, 0);"
    "CREATE TABLE file_journal (path TEXT NOT NULL PRIMARY KEY, created_us INTEGER NOT NULL) WITHOUT ROWID;",
};

wr_code wr_state_fail_(wr_err *err, sqlite3 *db, const char *what) {
    char text[200];
    snprintf(text, sizeof text, "state: cannot %s", what);
    return wr_sqlite_fail(err, db, db ? sqlite3_extended_errcode(db) : SQLITE_NOMEM, text);
}

static wr_code get_number(sqlite3 *db, const char *sql, sqlite3_int64 *ret_v, wr_err *err) {
    sqlite3_stmt *st = NULL;
    wr_code code = WR_OK;
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW)
        code = wr_state_fail_(err, db, sql);
    else
        *ret_v = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return code;
}

static wr_code exec(sqlite3 *db, const char *sql, wr_err *err) {
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? WR_OK
                                                                : wr_state_fail_(err, db, "set up the database");
}

/* *ret_version 0 for an empty file. */
static wr_code check_ours(sqlite3 *db, int *ret_version, wr_err *err) {
    sqlite3_int64 id = 0, version = 0, objects = 0;
    WR_TRY(get_number(db, "PRAGMA application_id", &id, err));
    WR_TRY(get_number(db, "PRAGMA user_version", &version, err));
    WR_TRY(get_number(db, "SELECT count(*) FROM sqlite_master", &objects, err));
    bool empty = id == 0 && version == 0 && objects == 0;
    if (!empty && (id & 0xffffffff) != WR_STATE_APPLICATION_ID)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "a SQLite database that is not Weir's (application id 0x%08llx)",
                       (unsigned long long)id & 0xffffffff);
    if (!empty && version < 1)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "state has version %lld", (long long)version);
    if (version > WR_STATE_VERSION) {
        wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "state has version %lld, this program knows %d", (long long)version,
                WR_STATE_VERSION);
        return wr_err_cure(err, "use the newer weir that wrote it");
    }
    *ret_version = (int)version;
    return WR_OK;
}

/* In one transaction that reads the version again: another process may have been faster. */
static wr_code upgrade(sqlite3 *db, wr_err *err) {
    char stamp[96];
    int version = 0;
    WR_TRY(exec(db, "BEGIN IMMEDIATE", err));
    wr_code rc = check_ours(db, &version, err);
    for (; rc == WR_OK && version < WR_STATE_VERSION; version++) rc = exec(db, steps[version], err);
    snprintf(stamp, sizeof stamp, "PRAGMA application_id = %d; PRAGMA user_version = %d", WR_STATE_APPLICATION_ID,
             WR_STATE_VERSION);
    if (rc == WR_OK) rc = exec(db, stamp, err);
    if (rc == WR_OK && WR_FAULT("state.migrate"))
        rc = wr_fail(err, WR_E_IO, WR_RETRY_NO, "state: cannot migrate: injected");
    if (rc == WR_OK) rc = exec(db, "COMMIT", err);
    if (rc == WR_OK) (void)WR_FAULT("state.migrated"); /* for kill */
    if (!sqlite3_get_autocommit(db)) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

wr_code wr_state_migrate_(sqlite3 *db, wr_err *err) {
    int version = 0;
    WR_TRY(check_ours(db, &version, err));
    WR_TRY(exec(
        db,
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF",
        err));
    return version == WR_STATE_VERSION ? WR_OK : upgrade(db, err);
}
