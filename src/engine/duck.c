/* The instance, its limits, and DuckDB's errors in our words. */
#include "duck.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "weir/base/mem.h"

#define MEMORY_DEFAULT (UINT64_C(160) << 20)

wr_code wr_duck_fail(wr_err *err, wr_code other, const char *text) {
    static const struct {
        const char *has;
        wr_code code;
        wr_retry retry;
    } known[] = {
        {"No space left on device", WR_E_NOSPC, WR_RETRY_SOON},
        {"No files found that match", WR_E_NOTFOUND, WR_RETRY_NO},
        {"No such file or directory", WR_E_NOTFOUND, WR_RETRY_NO},
        {"Out of Memory Error", WR_E_LIMIT, WR_RETRY_SOON},
        {"INTERRUPT", WR_E_CANCELLED, WR_RETRY_NO},
        {"Could not read enough bytes", WR_E_DECODE, WR_RETRY_NO}, /* shorter than its footer says */
        {"IO Error: Cannot open file", WR_E_IO, WR_RETRY_SOON},
        {"IO Error: Could not read", WR_E_IO, WR_RETRY_SOON},
        {"IO Error: Could not write", WR_E_IO, WR_RETRY_SOON},
    };
    if (!text || !*text) text = "unknown error of the SQL engine";
    wr_code code = other;
    wr_retry retry = WR_RETRY_NO;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(text, known[i].has)) {
            code = known[i].code, retry = known[i].retry;
            break;
        }
    /* the position marker and the stack behind it are for terminals */
    char line[768];
    size_t n = 0;
    bool space = false;
    for (const char *p = text; *p && n < sizeof line - 2; p++) {
        if (p[0] == '\n' &&
            (!strncmp(p + 1, "LINE ", 5) || !strncmp(p + 1, "\nLINE ", 6) || !strncmp(p + 1, "\nStack Trace", 12)))
            break;
        if ((unsigned char)*p < 0x20 || *p == ' ') {
            space = n > 0;
            continue;
        }
        if (space) line[n++] = ' ', space = false;
        line[n++] = *p;
    }
    line[n] = 0;
    return wr_fail(err, code, retry, "%s", line);
}

void wr_sql_literal(wr_buf *b, const char *s) {
    wr_buf_u8(b, '\'');
    for (; *s; s++) {
        if (*s == '\'') wr_buf_u8(b, '\'');
        wr_buf_u8(b, (uint8_t)*s);
    }
    wr_buf_u8(b, '\'');
}

void wr_sql_ident(wr_buf *b, const char *s) {
    wr_buf_u8(b, '"');
    for (; *s; s++) {
        if (*s == '"') wr_buf_u8(b, '"');
        wr_buf_u8(b, (uint8_t)*s);
    }
    wr_buf_u8(b, '"');
}

void wr_sql_path(wr_buf *b, const char *path) {
    wr_buf_u8(b, '\'');
    for (const char *s = path; *s; s++) {
        bool glob = *s == '*' || *s == '?' || *s == '[';
        if (glob) wr_buf_u8(b, '[');
        if (*s == '\'') wr_buf_u8(b, '\'');
        wr_buf_u8(b, (uint8_t)*s);
        if (glob) wr_buf_u8(b, ']');
    }
    wr_buf_u8(b, '\'');
}

void wr_sql_type(wr_buf *b, wr_type t) {
    static const char *const names[] = {
        [WR_BOOL] = "BOOLEAN",   [WR_INT] = "INTEGER",         [WR_LONG] = "BIGINT",
        [WR_FLOAT] = "FLOAT",    [WR_DOUBLE] = "DOUBLE",       [WR_DATE] = "DATE",
        [WR_STRING] = "VARCHAR", [WR_TIMESTAMP] = "TIMESTAMP", [WR_TIMESTAMPTZ] = "TIMESTAMP WITH TIME ZONE",
        [WR_BINARY] = "BLOB",    [WR_FLOATS] = "FLOAT[]",
    };
    if (t.kind == WR_DECIMAL)
        wr_buf_printf(b, "DECIMAL(%u,%u)", t.precision, t.scale);
    else
        wr_buf_printf(b, "%s", names[t.kind]);
}

wr_code wr_duck_exec(duckdb_connection con, const char *sql, wr_err *err) {
    WR_CLEANUP(wr_duck_result_free) duckdb_result res = {0};
    if (duckdb_query(con, sql, &res) == DuckDBError) return wr_duck_fail(err, WR_E_INVAL, duckdb_result_error(&res));
    return WR_OK;
}

bool wr_duck_stream(duckdb_connection con, const char *sql, duckdb_prepared_statement *ret_stmt, duckdb_result *ret_res,
                    char ret_text[1024]) {
    const char *text = NULL;
    duckdb_pending_result pending = NULL;
    bool ok = false;
    if (duckdb_prepare(con, sql, ret_stmt) == DuckDBError)
        text = duckdb_prepare_error(*ret_stmt);
    else if (duckdb_pending_prepared_streaming(*ret_stmt, &pending) == DuckDBError)
        text = duckdb_pending_error(pending);
    else if (duckdb_execute_pending(pending, ret_res) == DuckDBError)
        text = duckdb_result_error(ret_res);
    else
        ok = true;
    if (!ok) snprintf(ret_text, 1024, "%s", text ? text : "");
    if (pending) duckdb_destroy_pending(&pending);
    return ok;
}

wr_code wr_duck_connect(duckdb_database db, duckdb_connection *ret_con, wr_err *err) {
    if (duckdb_connect(db, ret_con) == DuckDBError)
        return wr_fail(err, WR_E_NOMEM, WR_RETRY_SOON, "cannot connect to the SQL engine");
    return WR_OK;
}

wr_code wr_duck_open(const wr_engine *e, duckdb_database *ret_db, wr_err *err) {
    char memory[32], threads[16];
    snprintf(memory, sizeof memory, "%" PRIu64 "B", e->memory_bytes);
    snprintf(threads, sizeof threads, "%d", e->threads);
    const struct {
        const char *key, *value;
    } set[] = {
        {"memory_limit", memory},
        {"threads", threads},
        {"temp_directory", e->temp_dir ? e->temp_dir : ""},
        {"preserve_insertion_order", "true"}, /* positions in files depend on it */
        {"autoinstall_known_extensions", "false"},
        {"autoload_known_extensions", "false"},
        {"allow_community_extensions", "false"},
        {"allow_unsigned_extensions", "false"},
        {"allocator_flush_threshold", "16MB"}, /* hand freed memory back after a query of this size */
        {"allocator_bulk_deallocation_flush_threshold", "16MB"},
        {"enable_external_file_cache", "false"}, /* files are read once, and the cache counts against the limit */
        {"default_secret_storage", "memory"},
    };
    duckdb_config cfg;
    if (duckdb_create_config(&cfg) == DuckDBError) return wr_nomem(err, "SQL engine", 0);
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        if (duckdb_set_config(cfg, set[i].key, set[i].value) == DuckDBError) {
            duckdb_destroy_config(&cfg);
            return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "the SQL engine refuses %s = %s", set[i].key, set[i].value);
        }
    char *text = NULL;
    duckdb_state st = duckdb_open_ext(":memory:", ret_db, cfg, &text);
    duckdb_destroy_config(&cfg);
    if (st == DuckDBError) wr_duck_fail(err, WR_E_INVAL, text);
    if (text) duckdb_free(text);
    return st == DuckDBError ? err->code : WR_OK;
}

/* ------------------------------------------------------------------ the shared instance */

static void duck_unref(wr_engine *e, wr_duck *d) {
    pthread_mutex_lock(&e->lock);
    bool last = --d->refs == 0;
    pthread_mutex_unlock(&e->lock);
    if (!last) return;
    duckdb_close(&d->db);
    wr_free(d);
}

/* Takes a use of the instance, opening one where there is none. */
static wr_code duck_ref(wr_engine *e, wr_duck **ret_duck, wr_err *err) {
    wr_code rc = WR_OK;
    pthread_mutex_lock(&e->lock);
    if (!e->duck) {
        wr_duck *d = wr_calloc(1, sizeof *d);
        rc = d ? wr_duck_open(e, &d->db, err) : wr_nomem(err, "SQL engine", sizeof *d);
        if (rc == WR_OK)
            d->refs = 1, e->duck = d;
        else
            wr_free(d);
    }
    if (rc == WR_OK) e->duck->refs++, *ret_duck = e->duck;
    pthread_mutex_unlock(&e->lock);
    return rc;
}

wr_code wr_duck_use_open(wr_engine *e, wr_duck_use *ret_use, wr_err *err) {
    wr_duck_use u = {.e = e};
    WR_TRY(duck_ref(e, &u.duck, err));
    wr_code rc = wr_duck_connect(u.duck->db, &u.con, err);
    if (rc != WR_OK) {
        duck_unref(e, u.duck);
        return rc;
    }
    *ret_use = u;
    return WR_OK;
}

void wr_duck_use_close(wr_duck_use *u) {
    if (!u->duck) return;
    bool drop = false;
    duckdb_disconnect(&u->con);
    pthread_mutex_lock(&u->e->lock);
    if (u->broken && u->e->duck == u->duck) u->e->duck = NULL, drop = true;
    pthread_mutex_unlock(&u->e->lock);
    if (drop) duck_unref(u->e, u->duck);
    duck_unref(u->e, u->duck);
    *u = (wr_duck_use){0};
}

wr_code wr_duck_use_fail(wr_duck_use *u, wr_err *err, wr_code other, const char *text) {
    if (text && (strstr(text, "INTERNAL Error") || strstr(text, "FATAL Error"))) u->broken = true;
    return wr_duck_fail(err, other, text);
}

/* ------------------------------------------------------------------ the engine */

const char *wr_engine_version(void) { return duckdb_library_version(); }

wr_code wr_engine_open(const wr_engine_options *opts, wr_engine **ret_engine, wr_err *err) {
    wr_engine *e = wr_calloc(1, sizeof *e);
    if (!e) return wr_nomem(err, "engine", sizeof *e);
    e->memory_bytes = opts && opts->memory_bytes ? opts->memory_bytes : MEMORY_DEFAULT;
    e->threads = opts && opts->threads > 0 ? opts->threads : 1;
    pthread_mutex_init(&e->lock, NULL);
    wr_code rc = WR_OK;
    wr_duck *probe; /* wrong options are found here, not by the first reader */
    if (opts && opts->temp_dir && !(e->temp_dir = wr_strdup(opts->temp_dir)))
        rc = wr_nomem(err, "engine", strlen(opts->temp_dir));
    if (rc == WR_OK) rc = duck_ref(e, &probe, err);
    if (rc != WR_OK) {
        wr_engine_close(e);
        return wr_err_in(err, "SQL engine");
    }
    duck_unref(e, probe);
    *ret_engine = e;
    return WR_OK;
}

void wr_engine_close(wr_engine *e) {
    if (!e) return;
    if (e->duck) duck_unref(e, e->duck);
    pthread_mutex_destroy(&e->lock);
    wr_free(e->temp_dir);
    wr_free(e);
}
