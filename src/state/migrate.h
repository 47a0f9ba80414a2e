/* Private to state: whose file it is, and bringing it up to this program's version. */
#ifndef WEIR_STATE_MIGRATE_H
#define WEIR_STATE_MIGRATE_H
#include <sqlite3.h>
#include "weir/base/err.h"

#define WR_STATE_APPLICATION_ID 0x57656972 /* "Weir" */
#define WR_STATE_VERSION 1

/* "state: cannot <what>: <SQLite's words>" with the code that fits the connection's last error. */
wr_code wr_state_fail_(wr_err *err, sqlite3 *db, const char *what);
/* Nothing is written before the file is known to be ours or empty. */
wr_code wr_state_migrate_(sqlite3 *db, wr_err *err);

#endif
