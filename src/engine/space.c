/* The instance that expressions live in: functions of the user's, and the judgement of what is a pure scalar expression.
 *
 * An expression is judged by its syntax tree, which DuckDB gives as JSON: what could make its value depend on anything
 * but the row is refused by kind of node and by the stability that DuckDB's own list of functions states.
 */
#include "space.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "weir/base/mem.h"

/* ------------------------------------------------------------------ syntax trees */

static wr_code one_text(duckdb_connection con, const char *sql, const char *arg, char **ret, wr_err *err) {
    duckdb_prepared_statement st = NULL;
    WR_CLEANUP(wr_duck_result_free) duckdb_result res = {0};
    wr_code rc = WR_OK;
    *ret = NULL;
    if (duckdb_prepare(con, sql, &st) == DuckDBError)
        rc = wr_duck_fail(err, WR_E_INVAL, duckdb_prepare_error(st));
    else if (arg && duckdb_bind_varchar(st, 1, arg) == DuckDBError)
        rc = wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "the text is not UTF-8");
    else if (duckdb_execute_prepared(st, &res) == DuckDBError)
        rc = wr_duck_fail(err, WR_E_INVAL, duckdb_result_error(&res));
    if (rc == WR_OK) {
        WR_CLEANUP(wr_duck_chunk_free) duckdb_data_chunk chunk = duckdb_fetch_chunk(res);
        duckdb_vector v = chunk && duckdb_data_chunk_get_size(chunk) ? duckdb_data_chunk_get_vector(chunk, 0) : NULL;
        const uint64_t *valid = v ? duckdb_vector_get_validity(v) : NULL;
        if (v && (!valid || (valid[0] & 1))) {
            duckdb_string_t *t = duckdb_vector_get_data(v);
            *ret = wr_strndup(duckdb_string_t_data(t), duckdb_string_t_length(*t));
            if (!*ret) rc = wr_nomem(err, "SQL", duckdb_string_t_length(*t));
        }
    }
    if (st) duckdb_destroy_prepare(&st);
    return rc;
}

/* Names that mean a function when no column has them. */
static bool is_clock(const char *name) {
    static const char *const names[] = {"current_date", "current_time",    "current_timestamp", "localtime",
                                        "localtimestamp", "current_user",  "session_user",      "user",
                                        "current_role", "current_catalog", "current_schema"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(name, names[i])) return true;
    return false;
}

/* Functions that DuckDB calls consistent and that are not, and those that give more than one row. */
static bool is_known_impure(const char *name, int nargs) {
    static const char *const names[] = {"current_localtime", "current_localtimestamp", "current_setting", "getvariable",
                                        "unnest",            "unlist",                 "generate_subscripts", "getenv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(name, names[i])) return true;
    return !strcasecmp(name, "age") && nargs < 2; /* since today */
}

typedef struct judge {
    wr_sql_space *space;
    duckdb_connection con;
    const wr_schema *in;
    const char *const *params; /* of a function: names that stand for arguments */
    int nparams;
} judge;

static bool is_column(const judge *j, const char *name) {
    for (int i = 0; j->in && i < j->in->ncols; i++)
        if (!strcasecmp(j->in->cols[i].name, name)) return true;
    for (int i = 0; i < j->nparams; i++)
        if (!strcasecmp(j->params[i], name)) return true;
    return false;
}

static bool is_known_pure(wr_sql_space *s, const char *name) {
    bool known = false;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->npure && !known; i++) known = !strcasecmp(s->pure[i], name);
    pthread_mutex_unlock(&s->lock);
    return known;
}

static void remember_pure(wr_sql_space *s, const char *name) {
    pthread_mutex_lock(&s->lock);
    char **list = wr_realloc(s->pure, ((size_t)s->npure + 1) * sizeof *list), *copy = wr_strdup(name);
    if (list) s->pure = list;
    if (list && copy) s->pure[s->npure++] = copy;
    else wr_free(copy);
    pthread_mutex_unlock(&s->lock);
}

static wr_code judge_function(const judge *j, const char *name, int nargs, wr_err *err) {
    if (!strcasecmp(name, "error")) return WR_OK; /* how a user refuses a row */
    if (is_known_impure(name, nargs))
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s() does not give one value that depends on the row alone", name);
    if (is_known_pure(j->space, name)) return WR_OK;
    WR_AUTO char *why = NULL;
    WR_TRY(one_text(j->con,
                    "SELECT CASE WHEN bool_or(stability IN ('VOLATILE', 'CONSISTENT_WITHIN_QUERY')) THEN 'time, chance or "
                    "session' WHEN bool_or(function_type = 'aggregate') THEN 'other rows' END FROM duckdb_functions() "
                    "WHERE lower(function_name) = lower($1)",
                    name, &why, err));
    if (!why) return remember_pure(j->space, name), WR_OK;
    wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "the value of %s() depends on %s", name, why);
    return wr_err_cure(err, "an expression must give the same value whenever it sees the same row: when a row is read "
                            "again, and when its old version must be found");
}

static wr_code walk(const judge *j, const cJSON *node, wr_err *err) {
    const char *class = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(node, "class"));
    if (class) {
        static const char *const refused[][2] = {{"SUBQUERY", "a subquery"}, {"WINDOW", "a window function"}, {"STAR", "*"},
                                                 {"PARAMETER", "a parameter"}, {"POSITIONAL_REFERENCE", "a column by number"}};
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
            if (!strcmp(class, refused[i][0]))
                return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s has no place in an expression over one row", refused[i][1]);
        const cJSON *names = cJSON_GetObjectItemCaseSensitive(node, "column_names");
        const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(names, 0));
        if (!strcmp(class, "COLUMN_REF") && cJSON_GetArraySize(names) == 1 && name && is_clock(name) && !is_column(j, name))
            return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "the value of %s depends on time or session", name);
        for (int i = 0; !strcmp(class, "COLUMN_REF") && i < cJSON_GetArraySize(names); i++) {
            const char *part = cJSON_GetStringValue(cJSON_GetArrayItem(names, i));
            if (part && (!strcasecmp(part, WR_ROW_COLUMN) || !strcasecmp(part, "rowid") || !strcasecmp(part, "weir_rows")) && !is_column(j, part))
                return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "there is no column %s", part);
        }
        const char *fn = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(node, "function_name"));
        if (!strcmp(class, "FUNCTION") && fn && !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(node, "is_operator")))
            WR_TRY(judge_function(j, fn, cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(node, "children")), err));
    }
    const cJSON *child;
    cJSON_ArrayForEach(child, node) {
        if (cJSON_IsObject(child) || cJSON_IsArray(child)) WR_TRY(walk(j, child, err));
    }
    return WR_OK;
}

/* SELECT (text) must be one expression and nothing else. */
static wr_code judge_text(const judge *j, const char *text, wr_err *err) {
    WR_AUTO char *sql = wr_asprintf("SELECT (%s\n)", text), *json = NULL;
    if (!sql) return wr_nomem(err, "SQL", strlen(text));
    WR_TRY(one_text(j->con, "SELECT json_serialize_sql(CAST($1 AS VARCHAR))::VARCHAR", sql, &json, err));
    cJSON *doc = json ? cJSON_Parse(json) : NULL;
    const cJSON *statements = cJSON_GetObjectItemCaseSensitive(doc, "statements");
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(statements, 0), "node");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(node, "select_list");
    const char *from = cJSON_GetStringValue(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(node, "from_table"), "type"));
    const char *message = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(doc, "error_message"));
    wr_code rc = WR_OK;
    if (message)
        rc = wr_duck_fail(err, WR_E_INVAL, message);
    else if (cJSON_GetArraySize(statements) != 1 || cJSON_GetArraySize(list) != 1 || !from || strcmp(from, "EMPTY") ||
             !cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(node, "where_clause")) ||
             cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(node, "modifiers")))
        rc = wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "not one SQL expression");
    else
        rc = walk(j, list, err);
    cJSON_Delete(doc);
    return rc;
}

wr_code wr_sql_judge(wr_sql_space *s, duckdb_connection con, const wr_schema *in, const char *text, wr_err *err) {
    const judge j = {.space = s, .con = con, .in = in};
    return judge_text(&j, text, err);
}

/* ------------------------------------------------------------------ functions of the user's */

/* A default is evaluated with the call, not with the row, and no list of DuckDB's shows it: what can be called with fewer arguments has one. */
static wr_code refuse_defaults(const judge *base, const cJSON *all, const char *name, int nparams, wr_err *err) {
    for (int n = 0; n < nparams; n++) {
        const cJSON *o;
        bool overload = false;
        cJSON_ArrayForEach(o, all) {
            const char *other = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "name"));
            overload |= other && !strcasecmp(other, name) && cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(o, "params")) == n;
        }
        if (overload) continue;
        WR_AUTO_BUF wr_buf sql = WR_BUF_INIT;
        wr_buf_printf(&sql, "SELECT ");
        wr_sql_ident(&sql, name);
        for (int i = 0; i < n; i++) wr_buf_printf(&sql, i ? ", NULL" : "(NULL");
        wr_buf_printf(&sql, n ? ")" : "()");
        const char *text = wr_buf_cstr(&sql);
        duckdb_prepared_statement st = NULL;
        if (!text) return wr_nomem(err, "SQL", 256);
        bool works = duckdb_prepare(base->con, text, &st) == DuckDBSuccess;
        if (st) duckdb_destroy_prepare(&st);
        if (works) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "function %s: arguments with a default are not known; name every argument", name);
    }
    return WR_OK;
}

static wr_code judge_macro(const judge *base, const cJSON *all, const cJSON *m, wr_err *err) {
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, "name"));
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, "kind"));
    const char *body = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, "body"));
    const cJSON *params = cJSON_GetObjectItemCaseSensitive(m, "params"), *p;
    if (!name || !kind || !body || strcmp(kind, "macro"))
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s: only functions that give one value are known", name ? name : "a function");
    WR_AUTO char *known = NULL;
    WR_TRY(one_text(base->con, "SELECT function_name FROM duckdb_functions() WHERE internal AND lower(function_name) = lower($1) LIMIT 1", name, &known, err));
    if (known) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s is a function of DuckDB's, and masks may rest on it: give yours another name", name);
    WR_TRY(refuse_defaults(base, all, name, cJSON_GetArraySize(params), err));
    const char *names[64];
    judge j = *base;
    j.params = names;
    cJSON_ArrayForEach(p, params) {
        if (j.nparams < 64 && cJSON_GetStringValue(p)) names[j.nparams++] = cJSON_GetStringValue(p);
    }
    wr_code rc = judge_text(&j, body, err);
    return rc == WR_OK ? rc : wr_err_in(err, "function %s", name);
}

static wr_code judge_macros(wr_sql_space *s, duckdb_connection con, wr_err *err) {
    WR_AUTO char *json = NULL, *other = NULL;
    WR_TRY(one_text(con,
                    "SELECT string_agg(name, ', ') FROM (SELECT table_name AS name FROM duckdb_tables() UNION ALL SELECT "
                    "view_name FROM duckdb_views() WHERE NOT internal UNION ALL SELECT sequence_name FROM duckdb_sequences() "
                    "UNION ALL SELECT type_name FROM duckdb_types() WHERE NOT internal AND type_name IS NOT NULL)",
                    NULL, &other, err));
    if (other) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s is no function: only CREATE MACRO and CREATE FUNCTION are known", other);
    WR_TRY(one_text(con,
                    "SELECT to_json(list({'name': function_name, 'kind': function_type, 'body': macro_definition, 'params': "
                    "parameters}))::VARCHAR FROM duckdb_functions() WHERE NOT internal",
                    NULL, &json, err));
    cJSON *doc = json ? cJSON_Parse(json) : NULL;
    const cJSON *m;
    const judge j = {.space = s, .con = con};
    wr_code rc = WR_OK;
    cJSON_ArrayForEach(m, doc) {
        if (rc == WR_OK) rc = judge_macro(&j, doc, m, err);
    }
    cJSON_Delete(doc);
    return rc;
}

static wr_code load_functions(duckdb_connection con, const char *text, wr_err *err) {
    duckdb_extracted_statements list = NULL;
    idx_t n = duckdb_extract_statements(con, text, &list);
    wr_code rc = WR_OK;
    const char *why = duckdb_extract_statements_error(list);
    if (n == 0 && why) rc = wr_duck_fail(err, WR_E_INVAL, why);
    for (idx_t i = 0; rc == WR_OK && i < n; i++) {
        duckdb_prepared_statement st = NULL;
        WR_CLEANUP(wr_duck_result_free) duckdb_result res = {0};
        if (duckdb_prepare_extracted_statement(con, list, i, &st) == DuckDBError)
            rc = wr_duck_fail(err, WR_E_INVAL, duckdb_prepare_error(st));
        else if (duckdb_prepared_statement_type(st) != DUCKDB_STATEMENT_TYPE_CREATE)
            rc = wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "only CREATE MACRO and CREATE FUNCTION are known");
        else if (duckdb_execute_prepared(st, &res) == DuckDBError)
            rc = wr_duck_fail(err, WR_E_INVAL, duckdb_result_error(&res));
        if (st) duckdb_destroy_prepare(&st);
        if (rc != WR_OK) wr_err_in(err, "statement %llu", (unsigned long long)i + 1);
    }
    if (list) duckdb_destroy_extracted(&list);
    return rc;
}

/* ------------------------------------------------------------------ the space */

wr_code wr_sql_space_open(const wr_engine *e, const char *functions, wr_sql_space **ret_space, wr_err *err) {
    wr_sql_space *s = wr_calloc(1, sizeof *s);
    if (!s) return wr_nomem(err, "SQL engine", sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    wr_code rc = wr_duck_open(e, &s->db, err);
    if (rc == WR_OK) rc = wr_duck_connect(s->db, &s->con, err);
    if (rc == WR_OK) rc = wr_duck_exec(s->con, "SET enable_external_access = false; SET TimeZone = 'UTC'", err);
    if (rc == WR_OK && functions) rc = load_functions(s->con, functions, err);
    if (rc == WR_OK && functions) rc = judge_macros(s, s->con, err);
    if (rc == WR_OK) rc = wr_rows_register(s, err);
    if (rc == WR_OK) rc = wr_duck_exec(s->con, "SET lock_configuration = true", err);
    if (rc != WR_OK) return wr_sql_space_close(s), rc;
    *ret_space = s;
    return WR_OK;
}

void wr_sql_space_close(wr_sql_space *s) {
    if (!s) return;
    if (s->con) duckdb_disconnect(&s->con);
    if (s->db) duckdb_close(&s->db);
    pthread_mutex_destroy(&s->lock);
    wr_free(s->open);
    for (int i = 0; i < s->npure; i++) wr_free(s->pure[i]);
    wr_free(s->pure);
    wr_free(s);
}
