/* DuckDB inside this module: an in-memory instance for reading files, a connection per call. */
#ifndef WEIR_ENGINE_DUCK_H
#define WEIR_ENGINE_DUCK_H

#include <duckdb.h>
#include <pthread.h>
#include "weir/engine.h"

/* An instance and who uses it. DuckDB refuses everything after an internal error, which a garbled file can cause: the
 * instance is then replaced, and the last call that still uses it closes it. */
typedef struct wr_duck {
    duckdb_database db;
    int refs; /* calls under way, and 1 for the engine; engine's lock */
} wr_duck;

struct wr_engine {
    uint64_t memory_bytes;
    int threads;
    char *temp_dir;
    pthread_mutex_t lock;
    wr_duck *duck; /* lock; NULL until the first call and after a broken one */
};

/* Opens an in-memory instance with the engine's limits. The caller closes it. */
wr_code wr_duck_open(const wr_engine *e, duckdb_database *ret_db, wr_err *err);
wr_code wr_duck_connect(duckdb_database db, duckdb_connection *ret_con, wr_err *err);

/* The shared instance with a connection of its own. Always closed. */
typedef struct wr_duck_use {
    wr_engine *e;
    wr_duck *duck;
    duckdb_connection con;
    bool broken; /* set by wr_duck_use_fail */
} wr_duck_use;
wr_code wr_duck_use_open(wr_engine *e, wr_duck_use *ret_use, wr_err *err);
void wr_duck_use_close(wr_duck_use *u);
/* wr_duck_fail, and notices when the instance is beyond use. */
wr_code wr_duck_use_fail(wr_duck_use *u, wr_err *err, wr_code other, const char *text);

/* Runs a statement whose result does not matter. */
wr_code wr_duck_exec(duckdb_connection con, const char *sql, wr_err *err);
/* Starts a query whose chunks come from duckdb_fetch_chunk as they are made. False on failure, with
 * its reason in ret_text; the statement and the result are freed by the caller either way. */
bool wr_duck_stream(duckdb_connection con, const char *sql, duckdb_prepared_statement *ret_stmt, duckdb_result *ret_res,
                    char ret_text[1024]);
/* Fills err from DuckDB's text: one line, and a code by its prefix; `other` where the prefix says nothing special. */
wr_code wr_duck_fail(wr_err *err, wr_code other, const char *text);

/* A file's path as a literal in which *, ? and [ mean themselves. */
void wr_sql_path(wr_buf *b, const char *path);

static inline void wr_duck_result_free(duckdb_result *r) { duckdb_destroy_result(r); }
static inline void wr_duck_prepared_free(duckdb_prepared_statement *p) {
    if (*p) duckdb_destroy_prepare(p);
}
static inline void wr_duck_chunk_free(duckdb_data_chunk *c) {
    if (*c) duckdb_destroy_data_chunk(c);
}

#endif
