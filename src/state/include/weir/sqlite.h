/* For every database of a home (state, ledger, catalog): how its file is made, and what SQLite says, as an error: one reading of its result codes.
 * Source: sqlite.org/rescode.html. */
#ifndef WEIR_SQLITE_H
#define WEIR_SQLITE_H

#include <sqlite3.h>
#include "weir/base/err.h"

/* "<what>: <SQLite's words> (SQLite <rc>)". rc: the extended result code of the call that failed; db: its connection, or NULL when there is none.
 * A full disk is WR_E_NOSPC however SQLite met it: its shared memory is a file too, which every start writes. NOSPC, NOMEM and BUSY pass (WR_RETRY_SOON), others do not. @thread the connection's */
wr_code wr_sqlite_fail(wr_err *err, sqlite3 *db, int rc, const char *what);

/* The file is there afterwards, empty if it was not, and then for its owner alone (SQLite makes new ones 0644); the folder is made to remember its name. */
wr_code wr_sqlite_create(const char *path, wr_err *err);

#endif
