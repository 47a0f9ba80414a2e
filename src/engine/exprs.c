/* Scalar SQL over rows: a prepared SELECT over weir_rows(number), a table function that hands the caller's values to DuckDB.
 *
 * Only the columns that expressions read are handed over (projection pushdown), only what they compute comes back. A batch
 * in which something fails is halved until the failing rows stand alone; then each expression is asked by itself.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "space.h"
#include "weir/base/mem.h"

struct wr_exprs {
    wr_sql_space *space;
    duckdb_connection con;
    int number;
    wr_schema *in;
    int n;
    wr_type *types;
    bool filtered;
    duckdb_prepared_statement all, *one; /* one[0]: the filter, one[1 + i]: expression i */
    /* the run under way */
    const wr_value *vals;
    uint32_t begin, end, at;        /* weir_rows gives [begin, end) */
    wr_value *out;                  /* cap * n */
    bool *keep;
    uint32_t cap;
    duckdb_result *results; int nresults, results_cap;
    duckdb_data_chunk *chunks; int nchunks, chunks_cap;
    wr_expr_fault *faults; int nfaults, faults_cap;
};

/* ------------------------------------------------------------------ weir_rows */

static void rows_bind(duckdb_bind_info info) {
    wr_sql_space *s = duckdb_bind_get_extra_info(info);
    duckdb_value v = duckdb_bind_get_parameter(info, 0);
    int64_t number = duckdb_get_int64(v);
    duckdb_destroy_value(&v);
    pthread_mutex_lock(&s->lock);
    wr_exprs *x = number >= 0 && number < s->nopen ? s->open[number] : NULL;
    pthread_mutex_unlock(&s->lock);
    if (!x) {
        duckdb_bind_set_error(info, "no such rows");
        return;
    }
    for (int i = 0; i <= x->in->ncols; i++) {
        wr_type t = i < x->in->ncols ? x->in->cols[i].type : (wr_type){.kind = WR_INT};
        static const duckdb_type ids[] = {
            [WR_BOOL] = DUCKDB_TYPE_BOOLEAN,     [WR_INT] = DUCKDB_TYPE_INTEGER,           [WR_LONG] = DUCKDB_TYPE_BIGINT,
            [WR_FLOAT] = DUCKDB_TYPE_FLOAT,      [WR_DOUBLE] = DUCKDB_TYPE_DOUBLE,         [WR_DATE] = DUCKDB_TYPE_DATE,
            [WR_TIMESTAMP] = DUCKDB_TYPE_TIMESTAMP, [WR_TIMESTAMPTZ] = DUCKDB_TYPE_TIMESTAMP_TZ, [WR_STRING] = DUCKDB_TYPE_VARCHAR,
            [WR_BINARY] = DUCKDB_TYPE_BLOB,      [WR_FLOATS] = DUCKDB_TYPE_FLOAT,
        };
        duckdb_logical_type lt = t.kind == WR_DECIMAL ? duckdb_create_decimal_type(t.precision, t.scale) : duckdb_create_logical_type(ids[t.kind]);
        if (t.kind == WR_FLOATS) {
            duckdb_logical_type list = duckdb_create_list_type(lt);
            duckdb_destroy_logical_type(&lt);
            lt = list;
        }
        duckdb_bind_add_result_column(info, i < x->in->ncols ? x->in->cols[i].name : WR_ROW_COLUMN, lt);
        duckdb_destroy_logical_type(&lt);
    }
    duckdb_bind_set_bind_data(info, x, NULL);
}

typedef struct scan { wr_exprs *x; idx_t n, cols[]; } scan;

static void rows_init(duckdb_init_info info) {
    wr_exprs *x = duckdb_init_get_bind_data(info);
    idx_t n = duckdb_init_get_column_count(info);
    scan *s = wr_malloc(sizeof *s + n * sizeof *s->cols);
    if (!s) {
        duckdb_init_set_error(info, "out of memory");
        return;
    }
    s->x = x, s->n = n;
    for (idx_t i = 0; i < n; i++) s->cols[i] = duckdb_init_get_column_index(info, i);
    x->at = x->begin;
    duckdb_init_set_max_threads(info, 1);
    duckdb_init_set_init_data(info, s, wr_free);
}

/* A decimal's array in DuckDB is as wide as its precision asks. */
static void put_decimal(void *data, uint32_t at, int precision, __int128 v) {
    if (precision <= 4) ((int16_t *)data)[at] = (int16_t)v;
    else if (precision <= 9) ((int32_t *)data)[at] = (int32_t)v;
    else if (precision <= 18) ((int64_t *)data)[at] = (int64_t)v;
    else memcpy((uint8_t *)data + 16 * (size_t)at, &v, 16);
}

static void put(duckdb_vector vec, void *data, uint32_t at, wr_type t, const wr_value *v) {
    switch ((wr_kind)t.kind) {
    case WR_BOOL: ((bool *)data)[at] = v->b; break;
    case WR_INT:
    case WR_DATE: ((int32_t *)data)[at] = v->i32; break;
    case WR_LONG:
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ: ((int64_t *)data)[at] = v->i64; break;
    case WR_FLOAT: ((float *)data)[at] = v->f32; break;
    case WR_DOUBLE: ((double *)data)[at] = v->f64; break;
    case WR_DECIMAL: put_decimal(data, at, t.precision, v->dec); break;
    case WR_STRING:
    case WR_BINARY: duckdb_vector_assign_string_element_len(vec, at, (const char *)v->s.p, v->s.n); break;
    case WR_FLOATS: {
        idx_t old = duckdb_list_vector_get_size(vec), n = v->s.n / 4;
        duckdb_list_vector_reserve(vec, old + n);
        duckdb_list_vector_set_size(vec, old + n);
        float *to = duckdb_vector_get_data(duckdb_list_vector_get_child(vec));
        if (n) memcpy(to + old, v->s.p, v->s.n);
        ((duckdb_list_entry *)data)[at] = (duckdb_list_entry){old, n};
        break;
    }
    }
}

static void rows_next(duckdb_function_info info, duckdb_data_chunk out) {
    scan *s = duckdb_function_get_init_data(info);
    wr_exprs *x = s->x;
    uint32_t n = x->end - x->at, max = (uint32_t)duckdb_vector_size();
    if (n > max) n = max;
    int ncols = x->in->ncols;
    for (idx_t k = 0; k < s->n; k++) {
        duckdb_vector vec = duckdb_data_chunk_get_vector(out, k);
        void *data = duckdb_vector_get_data(vec);
        if (s->cols[k] >= (idx_t)ncols) {
            for (uint32_t i = 0; i < n; i++) ((int32_t *)data)[i] = (int32_t)(x->at + i);
            continue;
        }
        wr_type t = x->in->cols[s->cols[k]].type;
        const wr_value *v = x->vals + (size_t)x->at * (size_t)ncols + s->cols[k];
        uint64_t *valid = NULL;
        for (uint32_t i = 0; i < n; i++, v += ncols) {
            if (!v->null) {
                put(vec, data, i, t, v);
                continue;
            }
            if (!valid) {
                duckdb_vector_ensure_validity_writable(vec);
                valid = duckdb_vector_get_validity(vec);
            }
            valid[i / 64] &= ~(UINT64_C(1) << (i % 64));
            if (t.kind == WR_FLOATS) ((duckdb_list_entry *)data)[i] = (duckdb_list_entry){0, 0};
        }
    }
    x->at += n;
    duckdb_data_chunk_set_size(out, n);
}

wr_code wr_rows_register(wr_sql_space *s, wr_err *err) {
    duckdb_table_function f = duckdb_create_table_function();
    duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);
    duckdb_table_function_set_name(f, "weir_rows");
    duckdb_table_function_add_parameter(f, number);
    duckdb_destroy_logical_type(&number);
    duckdb_table_function_set_extra_info(f, s, NULL);
    duckdb_table_function_set_bind(f, rows_bind);
    duckdb_table_function_set_init(f, rows_init);
    duckdb_table_function_set_function(f, rows_next);
    duckdb_table_function_supports_projection_pushdown(f, true);
    duckdb_state st = duckdb_register_table_function(s->con, f);
    duckdb_destroy_table_function(&f);
    return st == DuckDBSuccess ? WR_OK : wr_fail(err, WR_E_NOMEM, WR_RETRY_SOON, "cannot register weir_rows");
}

/* ------------------------------------------------------------------ preparing */

static bool lake_type(duckdb_logical_type lt, wr_type *ret) {
    *ret = (wr_type){0};
    switch (duckdb_get_type_id(lt)) {
    case DUCKDB_TYPE_BOOLEAN: ret->kind = WR_BOOL; break;
    case DUCKDB_TYPE_TINYINT:
    case DUCKDB_TYPE_SMALLINT:
    case DUCKDB_TYPE_UTINYINT:
    case DUCKDB_TYPE_USMALLINT:
    case DUCKDB_TYPE_INTEGER: ret->kind = WR_INT; break;
    case DUCKDB_TYPE_UINTEGER:
    case DUCKDB_TYPE_BIGINT: ret->kind = WR_LONG; break;
    case DUCKDB_TYPE_UBIGINT: *ret = (wr_type){WR_DECIMAL, 20, 0}; break;
    case DUCKDB_TYPE_HUGEINT: *ret = (wr_type){WR_DECIMAL, 38, 0}; break;
    case DUCKDB_TYPE_FLOAT: ret->kind = WR_FLOAT; break;
    case DUCKDB_TYPE_DOUBLE: ret->kind = WR_DOUBLE; break;
    case DUCKDB_TYPE_DECIMAL: *ret = (wr_type){WR_DECIMAL, duckdb_decimal_width(lt), duckdb_decimal_scale(lt)}; break;
    case DUCKDB_TYPE_DATE: ret->kind = WR_DATE; break;
    case DUCKDB_TYPE_TIMESTAMP: ret->kind = WR_TIMESTAMP; break;
    case DUCKDB_TYPE_TIMESTAMP_TZ: ret->kind = WR_TIMESTAMPTZ; break;
    case DUCKDB_TYPE_VARCHAR: ret->kind = WR_STRING; break;
    case DUCKDB_TYPE_BLOB: ret->kind = WR_BINARY; break;
    case DUCKDB_TYPE_LIST: {
        duckdb_logical_type child = duckdb_list_type_child_type(lt);
        if (duckdb_get_type_id(child) == DUCKDB_TYPE_FLOAT) ret->kind = WR_FLOATS;
        duckdb_destroy_logical_type(&child);
        break;
    }
    default: break;
    }
    return ret->kind != 0;
}

static wr_code prepare(wr_exprs *x, const wr_buf *sql, duckdb_prepared_statement *ret, wr_err *err) {
    if (!wr_buf_cstr((wr_buf *)sql)) return wr_nomem(err, "SQL", sql->cap);
    if (duckdb_prepare(x->con, (const char *)sql->p, ret) == DuckDBSuccess) return WR_OK;
    wr_duck_fail(err, WR_E_INVAL, duckdb_prepare_error(*ret));
    duckdb_destroy_prepare(ret);
    *ret = NULL;
    return err->code;
}

/* One expression by itself, judged; ret_type NULL: it is the filter. */
static wr_code prepare_one(wr_exprs *x, const char *text, duckdb_prepared_statement *ret, wr_type *ret_type, wr_err *err) {
    WR_TRY(wr_sql_judge(x->space, x->con, x->in, text, err));
    WR_AUTO_BUF wr_buf sql = WR_BUF_INIT;
    wr_buf_printf(&sql, "SELECT " WR_ROW_COLUMN ", (%s\n) FROM weir_rows(%d)", text, x->number);
    WR_TRY(prepare(x, &sql, ret, err));
    if (duckdb_prepared_statement_column_count(*ret) != 2) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "not one value");
    if (!ret_type) {
        if (duckdb_prepared_statement_column_type(*ret, 1) == DUCKDB_TYPE_BOOLEAN) return WR_OK;
        wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "its value is neither true nor false");
        return wr_err_cure(err, "compare: a number is true as 'column <> 0'");
    }
    duckdb_logical_type lt = duckdb_prepared_statement_column_logical_type(*ret, 1);
    bool ok = lake_type(lt, ret_type);
    duckdb_destroy_logical_type(&lt);
    if (ok) return WR_OK;
    wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "its value is of a type that no lake column holds");
    return wr_err_cure(err, "cast it: CAST(... AS VARCHAR), for instance");
}

static wr_code register_rows(wr_exprs *x, wr_err *err) {
    wr_sql_space *s = x->space;
    pthread_mutex_lock(&s->lock);
    int at = 0;
    while (at < s->nopen && s->open[at]) at++;
    wr_exprs **list = at < s->nopen ? s->open : wr_realloc(s->open, ((size_t)s->nopen + 1) * sizeof *list);
    if (list) {
        s->open = list;
        if (at == s->nopen) s->nopen++;
        s->open[at] = x;
        x->number = at;
    }
    pthread_mutex_unlock(&s->lock);
    return list ? WR_OK : wr_nomem(err, "expressions", 64);
}

wr_code wr_exprs_new(wr_sql_space *s, const wr_schema *in, const char *filter, const char *const *exprs, int n, wr_exprs **ret_exprs, int *ret_bad,
                     wr_err *err) {
    *ret_bad = -1;
    for (int i = 0; i < in->ncols; i++)
        if (!strcasecmp(in->cols[i].name, WR_ROW_COLUMN)) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "a column called %s stands in the way", WR_ROW_COLUMN);
    wr_exprs *x = wr_calloc(1, sizeof *x);
    if (!x) return wr_nomem(err, "expressions", sizeof *x);
    x->space = s, x->number = -1, x->n = n, x->filtered = filter != NULL;
    x->in = wr_schema_ref(in);
    x->types = wr_calloc((size_t)n + 1, sizeof *x->types);
    x->one = wr_calloc((size_t)n + 1, sizeof *x->one);
    WR_AUTO_BUF wr_buf sql = WR_BUF_INIT;
    wr_code rc = x->types && x->one ? register_rows(x, err) : wr_nomem(err, "expressions", 64);
    if (rc == WR_OK) rc = wr_duck_connect(s->db, &x->con, err);
    if (rc == WR_OK && filter) rc = prepare_one(x, filter, &x->one[0], NULL, err);
    wr_buf_printf(&sql, "SELECT " WR_ROW_COLUMN);
    for (int i = 0; rc == WR_OK && i < n; i++) {
        *ret_bad = i;
        rc = prepare_one(x, exprs[i], &x->one[1 + i], &x->types[i], err);
        wr_buf_printf(&sql, ", (%s\n)", exprs[i]);
    }
    wr_buf_printf(&sql, " FROM weir_rows(%d)", x->number);
    if (filter) wr_buf_printf(&sql, " WHERE (%s\n)", filter);
    if (rc == WR_OK) rc = prepare(x, &sql, &x->all, err);
    if (rc != WR_OK) return wr_exprs_free(x), rc;
    *ret_exprs = x;
    return WR_OK;
}

static void forget_run(wr_exprs *x) {
    for (int i = 0; i < x->nchunks; i++) duckdb_destroy_data_chunk(&x->chunks[i]);
    for (int i = 0; i < x->nresults; i++) duckdb_destroy_result(&x->results[i]);
    for (int i = 0; i < x->nfaults; i++) wr_free(x->faults[i].message);
    x->nchunks = x->nresults = x->nfaults = 0;
}

void wr_exprs_free(wr_exprs *x) {
    if (!x) return;
    forget_run(x);
    if (x->all) duckdb_destroy_prepare(&x->all);
    for (int i = 0; x->one && i <= x->n; i++)
        if (x->one[i]) duckdb_destroy_prepare(&x->one[i]);
    if (x->con) duckdb_disconnect(&x->con);
    if (x->number >= 0) {
        pthread_mutex_lock(&x->space->lock);
        x->space->open[x->number] = NULL;
        pthread_mutex_unlock(&x->space->lock);
    }
    wr_schema_unref(x->in);
    wr_free(x->types), wr_free(x->one), wr_free(x->out), wr_free(x->keep);
    wr_free(x->results), wr_free(x->chunks), wr_free(x->faults);
    wr_free(x);
}

wr_type wr_exprs_type(const wr_exprs *x, int i) { return x->types[i]; }

/* ------------------------------------------------------------------ running */

static wr_code fault(wr_exprs *x, uint32_t row, int expr, const char *message, wr_err *err) {
    if (x->nfaults == x->faults_cap) {
        int cap = x->faults_cap ? x->faults_cap * 2 : 16;
        wr_expr_fault *f = wr_realloc(x->faults, (size_t)cap * sizeof *f);
        if (!f) return wr_nomem(err, "list of faults", (size_t)cap * sizeof *f);
        x->faults = f, x->faults_cap = cap;
    }
    char *copy = wr_strdup(message);
    if (!copy) return wr_nomem(err, "message", strlen(message));
    x->faults[x->nfaults++] = (wr_expr_fault){.row = row, .expr = expr, .message = copy};
    return WR_OK;
}

/* A value out of DuckDB. False: it is none that the lake can hold. */
static bool take(duckdb_type id, wr_type t, const void *data, duckdb_vector vec, idx_t at, wr_value *v) {
    static const __int128 digits38 = (__int128)10000000000000000000ull * (__int128)10000000000000000000ull;
    switch (id) {
    case DUCKDB_TYPE_BOOLEAN: v->b = ((const bool *)data)[at]; break;
    case DUCKDB_TYPE_TINYINT: v->i32 = ((const int8_t *)data)[at]; break;
    case DUCKDB_TYPE_UTINYINT: v->i32 = ((const uint8_t *)data)[at]; break;
    case DUCKDB_TYPE_SMALLINT: v->i32 = ((const int16_t *)data)[at]; break;
    case DUCKDB_TYPE_USMALLINT: v->i32 = ((const uint16_t *)data)[at]; break;
    case DUCKDB_TYPE_INTEGER: v->i32 = ((const int32_t *)data)[at]; break;
    case DUCKDB_TYPE_UINTEGER: v->i64 = ((const uint32_t *)data)[at]; break;
    case DUCKDB_TYPE_BIGINT: v->i64 = ((const int64_t *)data)[at]; break;
    case DUCKDB_TYPE_UBIGINT: v->dec = ((const uint64_t *)data)[at]; break;
    case DUCKDB_TYPE_HUGEINT:
        memcpy(&v->dec, (const uint8_t *)data + 16 * at, 16);
        return v->dec > -digits38 && v->dec < digits38;
    case DUCKDB_TYPE_FLOAT: v->f32 = ((const float *)data)[at]; break;
    case DUCKDB_TYPE_DOUBLE: v->f64 = ((const double *)data)[at]; break;
    case DUCKDB_TYPE_DECIMAL:
        if (t.precision <= 4) v->dec = ((const int16_t *)data)[at];
        else if (t.precision <= 9) v->dec = ((const int32_t *)data)[at];
        else if (t.precision <= 18) v->dec = ((const int64_t *)data)[at];
        else memcpy(&v->dec, (const uint8_t *)data + 16 * at, 16);
        break;
    case DUCKDB_TYPE_DATE: /* the ends are infinity */
        v->i32 = ((const int32_t *)data)[at];
        return v->i32 != INT32_MAX && v->i32 != -INT32_MAX;
    case DUCKDB_TYPE_TIMESTAMP:
    case DUCKDB_TYPE_TIMESTAMP_TZ:
        v->i64 = ((const int64_t *)data)[at];
        return v->i64 != INT64_MAX && v->i64 != -INT64_MAX;
    case DUCKDB_TYPE_VARCHAR:
    case DUCKDB_TYPE_BLOB: {
        duckdb_string_t *s = (duckdb_string_t *)data + at;
        v->s = (wr_slice){(const uint8_t *)duckdb_string_t_data(s), duckdb_string_t_length(*s)};
        break;
    }
    default: { /* list of float */
        duckdb_list_entry e = ((const duckdb_list_entry *)data)[at];
        duckdb_vector child = duckdb_list_vector_get_child(vec);
        const uint64_t *valid = duckdb_vector_get_validity(child);
        for (idx_t i = 0; valid && i < e.length; i++)
            if (!(valid[(e.offset + i) / 64] >> ((e.offset + i) % 64) & 1)) return false;
        v->s = (wr_slice){(const uint8_t *)((const float *)duckdb_vector_get_data(child) + e.offset), e.length * 4};
    }
    }
    return true;
}

static wr_code take_column(wr_exprs *x, duckdb_data_chunk chunk, idx_t col, int expr, wr_err *err) {
    duckdb_vector rows = duckdb_data_chunk_get_vector(chunk, 0), vec = duckdb_data_chunk_get_vector(chunk, col);
    const int32_t *row = duckdb_vector_get_data(rows);
    const uint64_t *valid = duckdb_vector_get_validity(vec);
    const void *data = duckdb_vector_get_data(vec);
    duckdb_logical_type lt = duckdb_vector_get_column_type(vec);
    duckdb_type id = duckdb_get_type_id(lt);
    duckdb_destroy_logical_type(&lt);
    for (idx_t i = 0, n = duckdb_data_chunk_get_size(chunk); i < n; i++) {
        wr_value *v = &x->out[(size_t)row[i] * (size_t)x->n + (size_t)expr];
        v->null = valid && !(valid[i / 64] >> (i % 64) & 1);
        if (v->null || take(id, x->types[expr], data, vec, i, v)) continue;
        v->null = true;
        WR_TRY(fault(x, (uint32_t)row[i], expr, "the value is none that a lake column can hold (infinity, a list with nulls or more than 38 digits)", err));
    }
    return WR_OK;
}

/* Keeps a chunk for as long as the run's results are looked at. */
static wr_code keep_chunk(wr_exprs *x, duckdb_data_chunk chunk, wr_err *err) {
    if (x->nchunks == x->chunks_cap) {
        int cap = x->chunks_cap ? x->chunks_cap * 2 : 8;
        duckdb_data_chunk *c = wr_realloc(x->chunks, (size_t)cap * sizeof *c);
        if (!c) {
            duckdb_destroy_data_chunk(&chunk);
            return wr_nomem(err, "chunks", (size_t)cap * sizeof *c);
        }
        x->chunks = c, x->chunks_cap = cap;
    }
    x->chunks[x->nchunks++] = chunk;
    return WR_OK;
}

static bool is_hard(const wr_err *e) { return e->code != WR_E_INVAL; }

/* What failed is told by DuckDB's kind of error alone: its text quotes values, which may say anything. */
static wr_code failed(duckdb_result *res, wr_err *err) {
    duckdb_error_type type = duckdb_result_error_type(res);
    wr_duck_fail(err, WR_E_INVAL, duckdb_result_error(res));
    switch (type) {
    case DUCKDB_ERROR_OUT_OF_MEMORY: err->code = WR_E_LIMIT, err->retry = WR_RETRY_SOON; break;
    case DUCKDB_ERROR_INTERNAL:
    case DUCKDB_ERROR_FATAL:
    case DUCKDB_ERROR_INTERRUPT:
    case DUCKDB_ERROR_IO: err->code = WR_E_IO, err->retry = WR_RETRY_NO; break;
    default: err->code = WR_E_INVAL, err->retry = WR_RETRY_NO; break;
    }
    return err->code;
}

/* Runs a statement over rows [begin, end); its result is x's last. WR_E_INVAL: something in it failed. */
static wr_code execute(wr_exprs *x, duckdb_prepared_statement st, uint32_t begin, uint32_t end, wr_err *err) {
    if (x->nresults == x->results_cap) {
        int cap = x->results_cap ? x->results_cap * 2 : 8;
        duckdb_result *r = wr_realloc(x->results, (size_t)cap * sizeof *r);
        if (!r) return wr_nomem(err, "results", (size_t)cap * sizeof *r);
        x->results = r, x->results_cap = cap;
    }
    duckdb_result *res = &x->results[x->nresults];
    *res = (duckdb_result){0};
    x->begin = begin, x->end = end;
    if (duckdb_execute_prepared(st, res) == DuckDBError) {
        wr_code rc = failed(res, err);
        duckdb_destroy_result(res);
        return rc;
    }
    x->nresults++;
    return WR_OK;
}

/* The rows that passed the filter, with their values. */
static wr_code take_all(wr_exprs *x, wr_err *err) {
    duckdb_result res = x->results[x->nresults - 1];
    for (;;) {
        duckdb_data_chunk chunk = duckdb_fetch_chunk(res);
        idx_t n = chunk ? duckdb_data_chunk_get_size(chunk) : 0;
        if (n == 0) {
            if (chunk) duckdb_destroy_data_chunk(&chunk);
            return WR_OK;
        }
        WR_TRY(keep_chunk(x, chunk, err));
        const int32_t *row = duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 0));
        for (idx_t i = 0; i < n; i++) x->keep[row[i]] = true;
        for (int e = 0; e < x->n; e++) WR_TRY(take_column(x, chunk, (idx_t)e + 1, e, err));
    }
}

/* One row in which something fails: who, and what do the others say? */
static wr_code ask_one_by_one(wr_exprs *x, uint32_t row, wr_err *err) {
    for (int i = x->filtered ? -1 : 0; i < x->n; i++) {
        if (execute(x, x->one[1 + i], row, row + 1, err) != WR_OK) {
            bool limit = err->code == WR_E_LIMIT;
            if (is_hard(err) && !limit) return err->code;
            char why[sizeof err->msg];
            snprintf(why, sizeof why, "%s", err->msg);
            wr_err_clear(err);
            WR_TRY(fault(x, row, i, why, err));
            x->faults[x->nfaults - 1].limit = limit;
            if (i < 0) return WR_OK;
            x->out[(size_t)row * (size_t)x->n + (size_t)i].null = true;
            continue;
        }
        duckdb_data_chunk chunk = duckdb_fetch_chunk(x->results[x->nresults - 1]);
        if (!chunk || duckdb_data_chunk_get_size(chunk) != 1) {
            if (chunk) duckdb_destroy_data_chunk(&chunk);
            return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "an expression gave no value for a row");
        }
        WR_TRY(keep_chunk(x, chunk, err));
        if (i >= 0) {
            WR_TRY(take_column(x, chunk, 1, i, err));
            continue;
        }
        duckdb_vector v = duckdb_data_chunk_get_vector(chunk, 1);
        const uint64_t *valid = duckdb_vector_get_validity(v);
        if ((valid && !(valid[0] & 1)) || !*(bool *)duckdb_vector_get_data(v)) return WR_OK;
    }
    x->keep[row] = true;
    return WR_OK;
}

static wr_code run_range(wr_exprs *x, uint32_t begin, uint32_t end, wr_err *err) {
    if (execute(x, x->all, begin, end, err) == WR_OK) return take_all(x, err);
    if (is_hard(err) && err->code != WR_E_LIMIT) return err->code; /* less at a time may fit */
    wr_err_clear(err);
    if (end - begin == 1) return ask_one_by_one(x, begin, err);
    uint32_t mid = begin + (end - begin) / 2;
    WR_TRY(run_range(x, begin, mid, err));
    return run_range(x, mid, end, err);
}

static int by_row(const void *a, const void *b) {
    const wr_expr_fault *x = a, *y = b;
    return x->row != y->row ? (x->row < y->row ? -1 : 1) : (x->expr > y->expr) - (x->expr < y->expr);
}

wr_code wr_exprs_run(wr_exprs *x, const wr_value *vals, uint32_t n, wr_err *err) {
    forget_run(x);
    if (n > x->cap) {
        wr_value *out = wr_realloc(x->out, (size_t)n * ((size_t)x->n + 1) * sizeof *out);
        bool *keep = wr_realloc(x->keep, n * sizeof *keep);
        if (out) x->out = out;
        if (keep) x->keep = keep;
        if (!out || !keep) return wr_nomem(err, "expressions' values", n * sizeof *out);
        x->cap = n;
    }
    x->vals = vals;
    if (n == 0) return WR_OK;
    memset(x->keep, 0, n * sizeof *x->keep);
    WR_TRY(run_range(x, 0, n, err));
    if (x->nfaults > 1) qsort(x->faults, (size_t)x->nfaults, sizeof *x->faults, by_row); /* a column is looked at in one go */
    return WR_OK;
}

void wr_exprs_forget(wr_exprs *x) {
    forget_run(x);
    wr_free(x->out), wr_free(x->keep);
    x->out = NULL, x->keep = NULL, x->cap = 0;
}

const wr_value *wr_exprs_row(const wr_exprs *x, uint32_t row) { return x->keep[row] ? x->out + (size_t)row * (size_t)x->n : NULL; }

const wr_expr_fault *wr_exprs_faults(const wr_exprs *x, int *ret_n) {
    *ret_n = x->nfaults;
    return x->faults;
}
