/* SQL for people: one SELECT over lake tables, in an instance of its own that can open nothing but the tables' files.
 *
 * A table is a view over read_parquet of its files by field id. Deleted positions are left out by a scalar function,
 * weir_live(table, file, row), that searches the caller's sorted arrays: nothing is copied into DuckDB, and filters on
 * columns still reach the scan and its row-group statistics.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "duck.h"
#include "weir/base/mem.h"

typedef struct deletes {
    const uint32_t *pos; /* ascending */
    uint64_t n;
    uint32_t *owned; /* pos, when it had to be sorted */
} deletes;

typedef struct session {
    duckdb_database db;
    duckdb_connection con;
    const wr_sql_table *tables;
    int ntables;
    wr_sql_opener opener;
    char ***paths;     /* per table NULL (not used) or per file */
    deletes **deletes; /* per table NULL (nothing deleted) or per file */
} session;

static void session_close(session *s) {
    if (s->con) duckdb_disconnect(&s->con);
    if (s->db) duckdb_close(&s->db);
    for (int i = 0; s->deletes && i < s->ntables; i++) {
        for (int k = 0; s->deletes[i] && k < s->tables[i].nfiles; k++) wr_free(s->deletes[i][k].owned);
        wr_free(s->deletes[i]);
    }
    for (int i = 0; s->paths && i < s->ntables; i++) {
        for (int k = 0; s->paths[i] && k < s->tables[i].nfiles; k++) wr_free(s->paths[i][k]);
        wr_free(s->paths[i]);
    }
    wr_free(s->deletes), wr_free(s->paths);
}

/* ------------------------------------------------------------------ deleted positions */

static int u32_cmp(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static wr_code deletes_of(const wr_sql_file *f, deletes *ret, wr_err *err) {
    deletes d = {.pos = f->deleted, .n = f->ndeleted};
    bool sorted = true;
    for (uint64_t i = 1; i < d.n && sorted; i++) sorted = d.pos[i - 1] <= d.pos[i];
    if (!sorted) {
        d.owned = wr_malloc(d.n * sizeof *d.owned);
        if (!d.owned) return wr_nomem(err, "deleted positions", d.n * sizeof *d.owned);
        memcpy(d.owned, f->deleted, d.n * sizeof *d.owned);
        qsort(d.owned, d.n, sizeof *d.owned, u32_cmp);
        d.pos = d.owned;
    }
    *ret = d;
    return WR_OK;
}

/* First index from `from` on whose position is not below pos; gallops, as rows come in rising order. */
static uint64_t seek(const deletes *d, uint64_t from, uint64_t pos) {
    uint64_t lo = from, step = 1;
    while (lo < d->n && d->pos[lo] < pos) {
        from = lo + 1;
        lo += step;
        step *= 2;
    }
    uint64_t hi = lo < d->n ? lo : d->n;
    lo = from;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (d->pos[mid] < pos)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Consecutive rows of one file, as a scan gives them: then only those that are deleted need be looked at. */
static bool is_run(const int32_t *table, const uint64_t *file, const int64_t *row, idx_t n) {
    uint64_t odd = n == 0 || row[0] < 0;
    for (idx_t k = 0; k < n; k++) odd |= (uint64_t)(table[k] ^ table[0]) | (file[k] ^ file[0]) | ((uint64_t)row[k] - (uint64_t)row[0] - k);
    return !odd;
}

/* weir_live(table INTEGER, file UBIGINT, row BIGINT) -> BOOLEAN */
static void live(duckdb_function_info info, duckdb_data_chunk in, duckdb_vector out) {
    const session *s = duckdb_scalar_function_get_extra_info(info);
    idx_t n = duckdb_data_chunk_get_size(in);
    duckdb_vector v[3];
    for (idx_t i = 0; i < 3; i++) {
        v[i] = duckdb_data_chunk_get_vector(in, i);
        const uint64_t *valid = duckdb_vector_get_validity(v[i]);
        for (idx_t k = 0; valid && k < n; k++)
            if (!(valid[k / 64] >> (k % 64) & 1)) {
                duckdb_scalar_function_set_error(info, "weir_live: an argument is null");
                return;
            }
    }
    const int32_t *table = duckdb_vector_get_data(v[0]);
    const uint64_t *file = duckdb_vector_get_data(v[1]);
    const int64_t *row = duckdb_vector_get_data(v[2]);
    bool *ret = duckdb_vector_get_data(out);
    uint64_t at = 0;
    if (is_run(table, file, row, n) && table[0] >= 0 && table[0] < s->ntables && s->deletes[table[0]] && file[0] < (uint64_t)s->tables[table[0]].nfiles) {
        const deletes *d = &s->deletes[table[0]][file[0]];
        memset(ret, true, n);
        for (at = seek(d, 0, (uint64_t)row[0]); at < d->n && d->pos[at] - (uint64_t)row[0] < n; at++) ret[d->pos[at] - (uint64_t)row[0]] = false;
        return;
    }
    for (idx_t k = 0; k < n; k++) {
        int32_t t = table[k];
        if (t < 0 || t >= s->ntables || !s->deletes[t] || file[k] >= (uint64_t)s->tables[t].nfiles) {
            duckdb_scalar_function_set_error(info, "weir_live: no such table or file"); /* called by hand */
            return;
        }
        const deletes *d = &s->deletes[t][file[k]];
        if (!k || t != table[k - 1] || file[k] != file[k - 1] || row[k] < row[k - 1]) at = 0;
        at = seek(d, at, (uint64_t)row[k]);
        ret[k] = at == d->n || d->pos[at] != (uint64_t)row[k];
    }
}

static wr_code live_register(session *s, wr_err *err) {
    const duckdb_type in[] = {DUCKDB_TYPE_INTEGER, DUCKDB_TYPE_UBIGINT, DUCKDB_TYPE_BIGINT};
    duckdb_scalar_function fn = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(fn, "weir_live");
    for (int i = 0; i < 3; i++) {
        duckdb_logical_type t = duckdb_create_logical_type(in[i]);
        duckdb_scalar_function_add_parameter(fn, t);
        duckdb_destroy_logical_type(&t);
    }
    duckdb_logical_type ret = duckdb_create_logical_type(DUCKDB_TYPE_BOOLEAN);
    duckdb_scalar_function_set_return_type(fn, ret);
    duckdb_destroy_logical_type(&ret);
    duckdb_scalar_function_set_extra_info(fn, s, NULL);
    duckdb_scalar_function_set_function(fn, live);
    duckdb_state st = duckdb_register_scalar_function(s->con, fn);
    duckdb_destroy_scalar_function(&fn);
    return st == DuckDBSuccess ? WR_OK : wr_fail(err, WR_E_NOMEM, WR_RETRY_SOON, "cannot register weir_live");
}

/* ------------------------------------------------------------------ views */

static void hex_sql(wr_buf *b, wr_slice s) {
    wr_buf_u8(b, '\'');
    for (size_t i = 0; i < s.n; i++) wr_buf_printf(b, "\\x%02X", s.p[i]);
    wr_buf_u8(b, '\'');
}

/* A value as SQL of type VARCHAR that casts to the column's type exactly. */
static void value_sql(wr_buf *b, wr_type t, const wr_value *v) {
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    if (t.kind == WR_BINARY) {
        hex_sql(b, v->s);
    } else if (t.kind == WR_STRING && v->s.n && memchr(v->s.p, 0, v->s.n)) {
        wr_buf_printf(b, "decode("); /* a NUL cannot stand in SQL text */
        hex_sql(b, v->s);
        wr_buf_printf(b, "::BLOB)");
    } else {
        wr_value_print(&text, t, v);
        const char *s = wr_buf_cstr(&text);
        if (s)
            wr_sql_literal(b, s);
        else
            b->failed = true;
    }
}

static void view_sql(wr_buf *b, const session *s, int table) {
    const wr_sql_table *t = &s->tables[table];
    wr_buf_printf(b, "CREATE VIEW ");
    wr_sql_ident(b, t->ns);
    wr_buf_u8(b, '.');
    wr_sql_ident(b, t->name);
    wr_buf_printf(b, " AS SELECT ");
    for (int i = 0; i < t->schema->ncols; i++) {
        const wr_column *c = &t->schema->cols[i];
        wr_buf_printf(b, "%s", i ? ", " : "");
        if (t->nfiles) {
            wr_buf_printf(b, "c%d", i);
        } else {
            wr_buf_printf(b, "NULL::");
            wr_sql_type(b, c->type);
        }
        wr_buf_printf(b, " AS ");
        wr_sql_ident(b, c->name);
    }
    if (!t->nfiles) {
        wr_buf_printf(b, " WHERE false");
        return;
    }
    wr_buf_printf(b, " FROM read_parquet([");
    for (int i = 0; i < t->nfiles; i++) {
        if (i) wr_buf_u8(b, ',');
        wr_sql_path(b, s->paths[table][i]);
    }
    wr_buf_printf(b, "], schema = MAP {");
    for (int i = 0; i < t->schema->ncols; i++) {
        const wr_column *c = &t->schema->cols[i];
        wr_buf_printf(b, "%s%d: {name: 'c%d', type: '", i ? ", " : "", c->id, i);
        wr_sql_type(b, c->type);
        wr_buf_printf(b, "', default_value: ");
        if (c->has_initial && !c->initial.null)
            value_sql(b, c->type, &c->initial);
        else
            wr_buf_printf(b, "NULL");
        wr_buf_u8(b, '}');
    }
    wr_buf_printf(b, "})");
    if (s->deletes[table]) wr_buf_printf(b, " WHERE weir_live(%d, file_index, file_row_number)", table);
}

static bool word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80); }

/* A view costs a look at the first file, and tables whose names differ in case alone cannot stand side by side: only
 * the tables that the statement can mean get one. */
static bool mentioned(const char *sql, const wr_sql_table *t) {
    static const char *const catalog[] = {"show", "describe", "information_schema", "duckdb_", "pg_"};
    for (size_t i = 0; i < sizeof catalog / sizeof *catalog; i++)
        if (strcasestr(sql, catalog[i])) return true;
    char name[256];
    size_t n = strcspn(t->name, "\""); /* quotes are doubled in SQL */
    if (n >= sizeof name) n = sizeof name - 1;
    memcpy(name, t->name, n);
    name[n] = 0;
    for (const char *p = sql; (p = strcasestr(p, name)) != NULL; p++) {
        bool whole = (p == sql || !word(p[-1])) && (!word(p[n]) || t->name[n]);
        if (whole || n == 0) return true;
    }
    return false;
}

static wr_code run(session *s, wr_buf *sql, wr_err *err) {
    const char *text = wr_buf_cstr(sql);
    return text ? wr_duck_exec(s->con, text, err) : wr_nomem(err, "SQL", sql->cap);
}

static wr_code open_files(session *s, int i, wr_err *err) {
    const wr_sql_table *t = &s->tables[i];
    s->paths[i] = wr_calloc((size_t)t->nfiles + 1, sizeof **s->paths);
    if (!s->paths[i]) return wr_nomem(err, "paths", (size_t)t->nfiles * sizeof **s->paths);
    for (int k = 0; k < t->nfiles; k++) {
        if (s->opener.open)
            WR_TRY(s->opener.open(s->opener.ctx, t->files[k].path, &s->paths[i][k], err));
        else if (!(s->paths[i][k] = wr_strdup(t->files[k].path)))
            return wr_nomem(err, "path", strlen(t->files[k].path));
    }
    return WR_OK;
}

static wr_code table_add(session *s, int i, wr_err *err) {
    const wr_sql_table *t = &s->tables[i];
    bool any = false;
    WR_TRY(open_files(s, i, err));
    for (int k = 0; k < t->nfiles; k++) any |= t->files[k].ndeleted > 0;
    if (any) {
        s->deletes[i] = wr_calloc((size_t)t->nfiles, sizeof **s->deletes);
        if (!s->deletes[i]) return wr_nomem(err, "deleted positions", (size_t)t->nfiles * sizeof **s->deletes);
        for (int k = 0; k < t->nfiles; k++) WR_TRY(deletes_of(&t->files[k], &s->deletes[i][k], err));
    }
    WR_AUTO_BUF wr_buf schema = WR_BUF_INIT, view = WR_BUF_INIT;
    wr_buf_printf(&schema, "CREATE SCHEMA IF NOT EXISTS ");
    wr_sql_ident(&schema, t->ns);
    WR_TRY(run(s, &schema, err));
    view_sql(&view, s, i);
    return run(s, &view, err);
}

/* From here on the instance opens the tables' files and nothing else, and no setting can be changed. */
static wr_code lock_down(session *s, const bool *used, wr_err *err) {
    WR_AUTO_BUF wr_buf sql = WR_BUF_INIT;
    int n = 0;
    wr_buf_printf(&sql, "SET allowed_paths = [");
    for (int i = 0; i < s->ntables; i++)
        for (int k = 0; used[i] && k < s->tables[i].nfiles; k++) {
            if (n++) wr_buf_u8(&sql, ',');
            const char *path = s->paths[i][k];
            wr_sql_literal(&sql, path);
            if (!strpbrk(path, "*?[")) continue;
            wr_buf_u8(&sql, ','); /* the escaped form is what the view asks for */
            wr_sql_path(&sql, path);
        }
    wr_buf_printf(&sql, "]::VARCHAR[]");
    if (n) WR_TRY(run(s, &sql, err));
    return wr_duck_exec(s->con, "SET enable_external_access = false; SET lock_configuration = true", err);
}

static wr_code session_open(wr_engine *e, session *s, const char *sql, wr_err *err) {
    WR_TRY(wr_duck_open(e, &s->db, err));
    WR_TRY(wr_duck_connect(s->db, &s->con, err));
    s->deletes = wr_calloc(s->ntables ? (size_t)s->ntables : 1, sizeof *s->deletes);
    WR_AUTO bool *used = wr_calloc(s->ntables ? (size_t)s->ntables : 1, sizeof *used);
    s->paths = wr_calloc(s->ntables ? (size_t)s->ntables : 1, sizeof *s->paths);
    if (!s->deletes || !used || !s->paths) return wr_nomem(err, "SQL tables", (size_t)s->ntables * sizeof *s->deletes);
    WR_TRY(live_register(s, err));
    WR_TRY(wr_duck_exec(s->con, "SET TimeZone = 'UTC'", err));
    for (int i = 0; i < s->ntables; i++) {
        if (!(used[i] = mentioned(sql, &s->tables[i]))) continue;
        if (table_add(s, i, err) != WR_OK) return wr_err_in(err, "table %s.%s", s->tables[i].ns, s->tables[i].name);
    }
    return lock_down(s, used, err);
}

/* ------------------------------------------------------------------ the statement */

static wr_code check_select(session *s, const char *sql, duckdb_prepared_statement *ret_stmt, wr_err *err) {
    duckdb_extracted_statements all = NULL;
    idx_t n = duckdb_extract_statements(s->con, sql, &all);
    wr_code rc = WR_OK;
    if (n == 0) {
        const char *text = duckdb_extract_statements_error(all);
        rc = text && *text ? wr_duck_fail(err, WR_E_INVAL, text)
                           : wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "there is no statement");
    } else if (n > 1) {
        rc = wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "one statement at a time, here are %" PRIu64, (uint64_t)n);
    } else if (duckdb_prepare_extracted_statement(s->con, all, 0, ret_stmt) == DuckDBError) {
        rc = wr_duck_fail(err, WR_E_INVAL, duckdb_prepare_error(*ret_stmt));
    } else if (duckdb_prepared_statement_type(*ret_stmt) != DUCKDB_STATEMENT_TYPE_SELECT) {
        rc = wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "only SELECT can be run here: lake tables are read-only for SQL");
    } else if (duckdb_nparams(*ret_stmt) > 0) {
        rc = wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "the statement has parameters, and there is nothing to put in them");
    }
    duckdb_destroy_extracted(&all);
    return rc;
}

static void put_text(duckdb_vector v, idx_t row, wr_buf *b) {
    duckdb_string_t *s = (duckdb_string_t *)duckdb_vector_get_data(v) + row;
    const char *p = duckdb_string_t_data(s);
    uint32_t n = duckdb_string_t_length(*s);
    while (n) { /* a NUL within text is shown as its symbol: the caller takes C strings */
        const char *nul = memchr(p, 0, n);
        uint32_t part = nul ? (uint32_t)(nul - p) : n;
        wr_buf_put(b, p, part);
        if (nul) wr_buf_put(b, "\xe2\x90\x80", 3), part++;
        p += part, n -= part;
    }
    wr_buf_u8(b, 0);
}

/* Calls fn for every row of a query whose columns are all VARCHAR. */
static wr_code text_rows(duckdb_connection con, const char *sql,
                         wr_code (*fn)(void *ctx, int n, const char *const *values, wr_err *err), void *ctx,
                         wr_err *err) {
    WR_CLEANUP(wr_duck_prepared_free) duckdb_prepared_statement stmt = NULL;
    WR_CLEANUP(wr_duck_result_free) duckdb_result res = {0};
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    char reason[1024];
    if (!wr_duck_stream(con, sql, &stmt, &res, reason)) return wr_duck_fail(err, WR_E_INVAL, reason);
    int ncols = (int)duckdb_column_count(&res);
    WR_AUTO const char **values = wr_calloc((size_t)ncols + 1, sizeof *values);
    WR_AUTO size_t *at = wr_calloc((size_t)ncols + 1, sizeof *at);
    if (!values || !at) return wr_nomem(err, "SQL row", (size_t)ncols * sizeof *values);
    for (;;) {
        WR_CLEANUP(wr_duck_chunk_free) duckdb_data_chunk chunk = duckdb_fetch_chunk(res);
        idx_t n = chunk ? duckdb_data_chunk_get_size(chunk) : 0;
        if (n == 0) break;
        for (idx_t row = 0; row < n; row++) {
            wr_buf_clear(&text);
            for (int i = 0; i < ncols; i++) {
                duckdb_vector v = duckdb_data_chunk_get_vector(chunk, (idx_t)i);
                uint64_t *valid = duckdb_vector_get_validity(v);
                at[i] = valid && !(valid[row / 64] >> (row % 64) & 1) ? SIZE_MAX : text.n;
                if (at[i] != SIZE_MAX) put_text(v, row, &text);
            }
            WR_TRY(wr_buf_check(&text, "SQL row", err));
            for (int i = 0; i < ncols; i++) values[i] = at[i] == SIZE_MAX ? NULL : (const char *)text.p + at[i];
            WR_TRY(fn(ctx, ncols, values, err));
        }
    }
    const char *failed = duckdb_result_error(&res);
    return failed && *failed ? wr_duck_fail(err, WR_E_INVAL, failed) : WR_OK;
}

typedef struct described {
    wr_buf *exprs; /* of the outer SELECT */
    char **types;
    int n, room;
} described;

static void expr_sql(wr_buf *b, int col, const char *type) {
    if (!strcmp(type, "BLOB"))
        wr_buf_printf(b, "'\\x' || lower(hex(c%d))", col);
    else if (!strcmp(type, "TIMESTAMP"))
        wr_buf_printf(b, "strftime(c%d, '%%Y-%%m-%%dT%%H:%%M:%%S.%%f')", col);
    else if (!strcmp(type, "TIMESTAMP WITH TIME ZONE"))
        wr_buf_printf(b, "strftime(c%d, '%%Y-%%m-%%dT%%H:%%M:%%S.%%fZ')", col);
    else
        wr_buf_printf(b, "c%d::VARCHAR", col);
}

static wr_code describe_row(void *ctx, int n, const char *const *values, wr_err *err) {
    described *d = ctx;
    if (d->n == d->room) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "the statement changed its columns");
    const char *type = values[0] ? values[0] : "";
    if (d->n) wr_buf_printf(d->exprs, ", ");
    expr_sql(d->exprs, d->n, type);
    d->types[d->n] = wr_strdup(type);
    return d->types[d->n++] ? WR_OK : wr_nomem(err, "SQL columns", strlen(type));
}

static void names_free(char ***names) {
    for (char **p = *names; p && *p; p++) wr_free(*p);
    wr_free(*names);
}

static wr_code
select_run(session *s, const char *sql, duckdb_prepared_statement stmt,
           wr_code (*columns)(void *ctx, int n, const char *const *names, const char *const *types, wr_err *err),
           wr_code (*row)(void *ctx, int n, const char *const *values, wr_err *err), void *ctx, wr_err *err) {
    int n = (int)duckdb_prepared_statement_column_count(stmt);
    WR_AUTO_BUF wr_buf query = WR_BUF_INIT, exprs = WR_BUF_INIT;
    WR_CLEANUP(names_free) char **names = wr_calloc((size_t)n + 1, sizeof *names);
    WR_CLEANUP(names_free) char **types = wr_calloc((size_t)n + 1, sizeof *types);
    if (!names || !types) return wr_nomem(err, "SQL columns", (size_t)n * sizeof *names);
    for (int i = 0; i < n; i++) {
        const char *name = duckdb_prepared_statement_column_name(stmt, (idx_t)i);
        names[i] = wr_strdup(name ? name : "");
        if (name) duckdb_free((void *)name);
        if (!names[i]) return wr_nomem(err, "SQL columns", 0);
    }
    described d = {.exprs = &exprs, .types = types, .room = n};
    wr_buf_printf(&query, "SELECT column_type FROM (DESCRIBE FROM query(");
    wr_sql_literal(&query, sql);
    wr_buf_printf(&query, "))");
    if (!wr_buf_cstr(&query)) return wr_nomem(err, "SQL", query.cap);
    WR_TRY(text_rows(s->con, (char *)query.p, describe_row, &d, err));
    if (d.n != n || !wr_buf_cstr(&exprs)) return wr_nomem(err, "SQL columns", exprs.cap);

    wr_buf_clear(&query);
    wr_buf_printf(&query, "SELECT %s FROM query(", (char *)exprs.p);
    wr_sql_literal(&query, sql);
    wr_buf_printf(&query, ") AS t(");
    for (int i = 0; i < n; i++) wr_buf_printf(&query, "%sc%d", i ? ", " : "", i);
    wr_buf_printf(&query, ")");
    if (!wr_buf_cstr(&query)) return wr_nomem(err, "SQL", query.cap);
    WR_TRY(columns(ctx, n, (const char *const *)names, (const char *const *)types, err));
    return text_rows(s->con, (char *)query.p, row, ctx, err);
}

wr_code
wr_engine_sql(wr_engine *e, const wr_sql_table *tables, int ntables, wr_sql_opener opener, const char *sql,
              wr_code (*columns)(void *ctx, int n, const char *const *names, const char *const *types, wr_err *err),
              wr_code (*row)(void *ctx, int n, const char *const *values, wr_err *err), void *ctx, wr_err *err) {
    WR_CLEANUP(session_close) session s = {.tables = tables, .ntables = ntables, .opener = opener};
    WR_CLEANUP(wr_duck_prepared_free) duckdb_prepared_statement stmt = NULL;
    WR_TRY(session_open(e, &s, sql, err));
    wr_code rc = check_select(&s, sql, &stmt, err);
    if (rc == WR_OK) rc = select_run(&s, sql, stmt, columns, row, ctx, err);
    if (stmt) duckdb_destroy_prepare(&stmt); /* before its connection goes */
    return rc;
}
