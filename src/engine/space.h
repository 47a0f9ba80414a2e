/* Where expressions over rows live: an instance of its own, and the table function through which they see rows. */
#ifndef WEIR_ENGINE_SPACE_H
#define WEIR_ENGINE_SPACE_H

#include <cjson/cJSON.h>
#include "duck.h"

#define WR_ROW_COLUMN "_weir_row" /* number of a row within a run: no expression may read it */

struct wr_sql_space {
    duckdb_database db;
    duckdb_connection con;
    pthread_mutex_t lock;
    wr_exprs **open; /* lock; by number, NULL = closed: what weir_rows(number) reads */
    int nopen;
    char **pure; /* lock; functions that were looked up and found pure: to look one up takes milliseconds, and there may be thousands of tables */
    int npure;
};

/* WR_E_INVAL unless text is one expression whose value depends on the row alone. */
wr_code wr_sql_judge(wr_sql_space *s, duckdb_connection con, const wr_schema *in, const char *text, wr_err *err);
/* Registers weir_rows(number). */
wr_code wr_rows_register(wr_sql_space *s, wr_err *err);

#endif
