/* Parquet files of anyone as rows: DuckDB decodes, we check the types and put vectors into row encoding.
 *
 * Columns are matched by field id through read_parquet's `schema`, under names of our own (c0, c1, ...), so that no
 * name in the file can get in the way. What the file says its columns are is asked first: a column the file lacks is
 * filled in here, and a change that Iceberg does not allow is refused rather than cast.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <unistd.h>
#include "duck.h"
#include "parquet_long.h"
#include "weir/base/large.h"
#include "weir/base/mem.h"

typedef struct source {
    const wr_column *col;
    bool there;        /* the file has it */
    int vec;           /* its vector in a chunk */
    uint32_t constant; /* else: its bytes in `constants`, none = null */
    uint32_t constant_n;
    const wr_inherit *inherit; /* NULL: nulls are nulls */
    wr_long *far;      /* read by ourselves, NULL: by DuckDB */
    /* of the chunk under way */
    const uint8_t *data, *child;
    const uint64_t *valid, *child_valid;
} source;

typedef struct reader {
    wr_duck_use use;
    const char *path;
    int ncols;
    source *cols;
    wr_buf constants;
    wr_buf row;
    bool large; /* it is, and comes alone */
} reader;

static void reader_close(reader *r) {
    wr_duck_use_close(&r->use);
    for (int i = 0; r->cols && i < r->ncols; i++) wr_long_free(r->cols[i].far);
    wr_buf_free(&r->row);
    wr_large_let_go(&r->large);
    wr_free(r->cols);
    wr_buf_free(&r->constants);
}

/* ------------------------------------------------------------------ what the file has */

static bool one_of(const char *s, const char *const *list) {
    for (; *list; list++)
        if (!strcmp(s, *list)) return true;
    return false;
}

/* Whether values of DuckDB's type `have`, physically `physical`, read as `want` without loss (Iceberg's promotions, and
 * integers that other writers annotate as narrower). */
static bool type_fits(wr_type want, const char *have, const char *physical) {
    static const char *const ints[] = {"INTEGER", "SMALLINT", "TINYINT", "USMALLINT", "UTINYINT", NULL};
    static const char *const stamps[] = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", NULL};
    unsigned p, s;
    switch ((wr_kind)want.kind) {
    case WR_BOOL:
        return !strcmp(have, "BOOLEAN");
    case WR_INT:
        return one_of(have, ints);
    case WR_LONG:
        return !strcmp(have, "BIGINT") || !strcmp(have, "UINTEGER") || one_of(have, ints);
    case WR_FLOAT:
    case WR_FLOATS:
        return !strcmp(have, "FLOAT");
    case WR_DOUBLE:
        return !strcmp(have, "DOUBLE") || !strcmp(have, "FLOAT");
    case WR_DECIMAL:
        return sscanf(have, "DECIMAL(%u,%u)", &p, &s) == 2 && s == want.scale && p <= want.precision;
    case WR_DATE:
        return !strcmp(have, "DATE");
    case WR_TIMESTAMP:
        return one_of(have, stamps);
    /* INT96 is an instant by convention, and carries no annotation */
    case WR_TIMESTAMPTZ:
        return !strncmp(have, "TIMESTAMP WITH TIME ZONE", 24) || (!strcmp(physical, "INT96") && one_of(have, stamps));
    case WR_STRING:
        return !strcmp(have, "VARCHAR") || !strcmp(have, "JSON");
    case WR_BINARY:
        return !strcmp(have, "BLOB");
    }
    return false;
}

/* A node of the file's schema, depth first. */
typedef struct node {
    char name[64], physical[32], type[64], repetition[16];
    int64_t children, id; /* id: -1 = none */
} node;

static void text_of(duckdb_vector v, idx_t row, char *out, size_t room) {
    const uint64_t *valid = duckdb_vector_get_validity(v);
    out[0] = 0;
    if (valid && !(valid[row / 64] >> (row % 64) & 1)) return;
    duckdb_string_t *s = (duckdb_string_t *)duckdb_vector_get_data(v) + row;
    size_t n = duckdb_string_t_length(*s);
    if (n >= room) n = room - 1;
    memcpy(out, duckdb_string_t_data(s), n);
    out[n] = 0;
}

static int64_t int_of(duckdb_vector v, idx_t row) {
    const uint64_t *valid = duckdb_vector_get_validity(v);
    return valid && !(valid[row / 64] >> (row % 64) & 1) ? -1 : ((int64_t *)duckdb_vector_get_data(v))[row];
}

static wr_code nodes_read(reader *r, wr_buf *nodes, wr_err *err) {
    WR_AUTO_BUF wr_buf sql = WR_BUF_INIT;
    wr_buf_printf(&sql, "SELECT name, coalesce(type,''), coalesce(duckdb_type,''), coalesce(repetition_type,''), "
                        "coalesce(num_children,0)::BIGINT, field_id::BIGINT FROM parquet_schema(");
    wr_sql_path(&sql, r->path);
    wr_buf_u8(&sql, ')');
    if (!wr_buf_cstr(&sql)) return wr_nomem(err, "SQL", sql.cap);
    WR_CLEANUP(wr_duck_result_free) duckdb_result res = {0};
    if (duckdb_query(r->use.con, (char *)sql.p, &res) == DuckDBError)
        return wr_duck_use_fail(&r->use, err, WR_E_DECODE, duckdb_result_error(&res));
    for (;;) {
        WR_CLEANUP(wr_duck_chunk_free) duckdb_data_chunk chunk = duckdb_fetch_chunk(res);
        idx_t n = chunk ? duckdb_data_chunk_get_size(chunk) : 0;
        if (n == 0) break;
        duckdb_vector v[6];
        for (idx_t i = 0; i < 6; i++) v[i] = duckdb_data_chunk_get_vector(chunk, i);
        for (idx_t row = 0; row < n; row++) {
            node x;
            text_of(v[0], row, x.name, sizeof x.name);
            text_of(v[1], row, x.physical, sizeof x.physical);
            text_of(v[2], row, x.type, sizeof x.type);
            text_of(v[3], row, x.repetition, sizeof x.repetition);
            x.children = int_of(v[4], row);
            x.id = int_of(v[5], row);
            wr_buf_put(nodes, &x, sizeof x);
        }
    }
    return wr_buf_check(nodes, "Parquet schema", err);
}

static size_t subtree(const node *x, size_t n, size_t at) {
    size_t end = at + 1;
    for (int64_t left = x[at].children; left > 0 && end < n; left += x[end].children - 1, end++) {
    }
    return end;
}

static wr_code bad_type(const reader *r, const wr_column *c, const char *have, wr_err *err) {
    char name[32];
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "column %s (id %d) is %s in the file, which does not read as %s",
                   c->name, c->id, have, wr_type_name(c->type, name));
}

static wr_code node_fits(const reader *r, const wr_column *c, const node *x, size_t n, wr_err *err) {
    if (c->type.kind != WR_FLOATS) {
        if (x->children || !type_fits(c->type, x->type, x->physical))
            return bad_type(r, c, *x->type ? x->type : "a group", err);
        return WR_OK;
    }
    bool list = n == 3 && x[0].children == 1 && x[1].children == 1 && !strcmp(x[1].repetition, "REPEATED");
    if (!list || !type_fits(c->type, x[2].type, x[2].physical)) return bad_type(r, c, "another kind of group", err);
    return WR_OK;
}

static bool of_duck(const source *s) { return s->there && !s->far; }

/* What DuckDB would need too much memory for. */
static wr_code long_open(reader *r, wr_err *err) {
    WR_AUTO int32_t *ids = wr_malloc(((size_t)r->ncols + 1) * sizeof *ids);
    WR_AUTO int *at = wr_malloc(((size_t)r->ncols + 1) * sizeof *at);
    WR_AUTO wr_long **far = wr_calloc((size_t)r->ncols + 1, sizeof *far);
    int n = 0;
    if (!ids || !at || !far) return wr_nomem(err, "Parquet reader", (size_t)r->ncols * 16);
    for (int i = 0; i < r->ncols; i++) {
        const source *s = &r->cols[i];
        if (s->there && (s->col->type.kind == WR_STRING || s->col->type.kind == WR_BINARY)) ids[n] = s->col->id, at[n++] = i;
    }
    if (!n) return WR_OK;
    WR_TRY(wr_long_open(r->path, ids, n, far, err));
    for (int i = 0; i < n; i++) r->cols[at[i]].far = far[i];
    return WR_OK;
}

/* Says for each column whether the file has it, and refuses what cannot be read as it. */
static wr_code file_match(reader *r, wr_err *err) {
    WR_AUTO_BUF wr_buf nodes = WR_BUF_INIT;
    WR_TRY(nodes_read(r, &nodes, err));
    const node *x = (const node *)nodes.p;
    size_t n = nodes.n / sizeof *x;
    bool any_id = n <= 1;
    int vec = 0;
    for (size_t at = 1; at < n; at = subtree(x, n, at)) {
        any_id |= x[at].id >= 0;
        for (int i = 0; i < r->ncols; i++) {
            source *s = &r->cols[i];
            if (s->there || x[at].id != s->col->id) continue;
            WR_TRY(node_fits(r, s->col, x + at, subtree(x, n, at) - at, err));
            s->there = true;
        }
    }
    /* without ids every column would count as missing, and the rows would come out null */
    if (!any_id)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "the file has no field ids, so its columns cannot be told");
    WR_TRY(long_open(r, err));
    for (int i = 0; i < r->ncols; i++)
        if (of_duck(&r->cols[i])) r->cols[i].vec = vec++;
    return WR_OK;
}

/* ------------------------------------------------------------------ rows */

static wr_code constants_fill(reader *r, bool fill_initial, wr_err *err) {
    for (int i = 0; i < r->ncols; i++) {
        source *s = &r->cols[i];
        if (s->there || !fill_initial || !s->col->has_initial || s->col->initial.null) continue;
        /* a row of this one column, whose bitmap we do not want */
        WR_AUTO_BUF wr_buf one = WR_BUF_INIT;
        size_t at = wr_row_begin(&one, 1);
        wr_row_put(&one, at, 0, s->col->type, &s->col->initial);
        WR_TRY(wr_buf_check(&one, "initial value", err));
        s->constant = (uint32_t)r->constants.n, s->constant_n = (uint32_t)one.n - 1;
        wr_buf_put(&r->constants, one.p + 1, one.n - 1);
    }
    return wr_buf_check(&r->constants, "initial values", err);
}

static void read_sql(const reader *r, wr_buf *sql) {
    int n = 0;
    wr_buf_printf(sql, "SELECT ");
    for (int i = 0; i < r->ncols; i++)
        if (of_duck(&r->cols[i])) wr_buf_printf(sql, "c%d, ", i);
    wr_buf_printf(sql, "file_row_number::BIGINT FROM read_parquet(");
    wr_sql_path(sql, r->path);
    for (int i = 0; i < r->ncols; i++) {
        if (!of_duck(&r->cols[i])) continue;
        wr_buf_printf(sql, "%s%d: {name: 'c%d', type: '", n++ ? ", " : ", schema = MAP {", r->cols[i].col->id, i);
        wr_sql_type(sql, r->cols[i].col->type);
        wr_buf_printf(sql, "', default_value: NULL}");
    }
    wr_buf_printf(sql, n ? "})" : ")");
}

static void chunk_begin(reader *r, duckdb_data_chunk chunk) {
    for (int i = 0; i < r->ncols; i++) {
        source *s = &r->cols[i];
        if (!of_duck(s)) continue;
        duckdb_vector v = duckdb_data_chunk_get_vector(chunk, (idx_t)s->vec);
        s->data = duckdb_vector_get_data(v);
        s->valid = duckdb_vector_get_validity(v);
        if (s->col->type.kind != WR_FLOATS) continue;
        duckdb_vector child = duckdb_list_vector_get_child(v);
        s->child = duckdb_vector_get_data(child);
        s->child_valid = duckdb_vector_get_validity(child);
    }
}

static wr_code put_floats(const source *s, idx_t row, wr_buf *b, wr_err *err) {
    duckdb_list_entry e;
    memcpy(&e, s->data + row * sizeof e, sizeof e);
    if (e.length > (UINT32_MAX - 3) / 4)
        return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "column %s: list of %" PRIu64 " values", s->col->name,
                       (uint64_t)e.length);
    for (idx_t i = e.offset; s->child_valid && i < e.offset + e.length; i++)
        if (!(s->child_valid[i / 64] >> (i % 64) & 1))
            return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO,
                           "column %s: a list holds a null, which rows cannot carry", s->col->name);
    wr_buf_u32(b, (uint32_t)(e.length * 4));
    if (e.length) wr_buf_put(b, s->child + e.offset * 4, e.length * 4);
    return WR_OK;
}

static void put_decimal(const source *s, idx_t row, wr_buf *b) {
    unsigned p = s->col->type.precision;
    __int128 v;
    if (p <= 4)
        v = ((const int16_t *)s->data)[row];
    else if (p <= 9)
        v = ((const int32_t *)s->data)[row];
    else if (p <= 18)
        v = ((const int64_t *)s->data)[row];
    else
        memcpy(&v, s->data + row * 16, 16);
    wr_buf_put(b, &v, 16);
}

/* Straight from the file into the row. */
static wr_code put_long(reader *r, source *s, int i, size_t at, wr_err *err) {
    bool null;
    uint32_t n;
    wr_code rc = wr_long_next(s->far, &null, &n, err);
    if (rc == WR_OK && null) return wr_row_put_null(&r->row, at, i), WR_OK;
    if (rc == WR_OK && n >= WR_LARGE_BYTES) wr_large_hold(&r->large);
    if (rc == WR_OK) {
        wr_buf_u32(&r->row, n);
        uint8_t *to = wr_buf_room(&r->row, n + (size_t)1);
        rc = to ? wr_long_take(s->far, to, err) : wr_nomem(err, "row", n);
        r->row.n += rc == WR_OK ? n : 0;
    }
    return rc == WR_OK ? WR_OK : wr_err_in(err, "column %s", s->col->name);
}

static void put_null(const source *s, int i, size_t at, uint64_t pos, wr_buf *b) {
    const wr_inherit *h = s->inherit;
    int64_t v = h ? h->base + (h->by_row ? (int64_t)pos : 0) : 0;
    if (h && h->base >= 0) wr_buf_put(b, &v, 8);
    else wr_row_put_null(b, at, i);
}

static wr_code row_put(reader *r, idx_t row, uint64_t pos, wr_err *err) {
    wr_buf *b = &r->row;
    wr_buf_clear(b);
    size_t at = wr_row_begin(b, r->ncols);
    for (int i = 0; i < r->ncols; i++) {
        source *s = &r->cols[i];
        if (!s->there) {
            if (s->constant_n)
                wr_buf_put(b, r->constants.p + s->constant, s->constant_n);
            else
                put_null(s, i, at, pos, b);
            continue;
        }
        if (s->far) {
            WR_TRY(put_long(r, s, i, at, err));
            continue;
        }
        if (s->valid && !(s->valid[row / 64] >> (row % 64) & 1)) {
            put_null(s, i, at, pos, b);
            continue;
        }
        switch ((wr_kind)s->col->type.kind) {
        case WR_BOOL:
            wr_buf_u8(b, s->data[row] != 0);
            break;
        case WR_INT:
        case WR_DATE:
        case WR_FLOAT:
            wr_buf_put(b, s->data + row * 4, 4);
            break;
        case WR_LONG:
        case WR_DOUBLE:
        case WR_TIMESTAMP:
        case WR_TIMESTAMPTZ:
            wr_buf_put(b, s->data + row * 8, 8);
            break;
        case WR_DECIMAL:
            put_decimal(s, row, b);
            break;
        case WR_STRING:
        case WR_BINARY: {
            duckdb_string_t *str = (duckdb_string_t *)s->data + row;
            uint32_t n = duckdb_string_t_length(*str);
            wr_buf_u32(b, n);
            if (n) wr_buf_put(b, duckdb_string_t_data(str), n);
            break;
        }
        case WR_FLOATS:
            WR_TRY(put_floats(s, row, b, err));
            break;
        }
    }
    return wr_buf_check(b, "row", err);
}

static wr_code rows_read(reader *r, wr_code (*fn)(void *ctx, uint64_t pos, wr_slice row, wr_err *err), void *ctx,
                         wr_err *err) {
    WR_AUTO_BUF wr_buf sql = WR_BUF_INIT;
    WR_CLEANUP(wr_duck_prepared_free) duckdb_prepared_statement stmt = NULL;
    WR_CLEANUP(wr_duck_result_free) duckdb_result res = {0};
    char text[1024];
    read_sql(r, &sql);
    if (!wr_buf_cstr(&sql)) return wr_nomem(err, "SQL", sql.cap);
    if (!wr_duck_stream(r->use.con, (char *)sql.p, &stmt, &res, text))
        return wr_duck_use_fail(&r->use, err, WR_E_DECODE, text);
    for (;;) {
        WR_CLEANUP(wr_duck_chunk_free) duckdb_data_chunk chunk = duckdb_fetch_chunk(res);
        if (!chunk) break;
        idx_t n = duckdb_data_chunk_get_size(chunk);
        if (n == 0) break;
        chunk_begin(r, chunk);
        const int64_t *pos =
            duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, duckdb_data_chunk_get_column_count(chunk) - 1));
        for (idx_t i = 0; i < n; i++) {
            WR_TRY(row_put(r, i, (uint64_t)pos[i], err));
            WR_TRY(fn(ctx, (uint64_t)pos[i], wr_buf_view(&r->row), err));
            wr_buf_rest(&r->row);
            wr_large_let_go(&r->large);
        }
    }
    const char *failed = duckdb_result_error(&res);
    if (failed && *failed) return wr_duck_use_fail(&r->use, err, WR_E_DECODE, failed);
    return WR_OK;
}

wr_code wr_parquet_read(wr_engine *e, const char *path, const wr_schema *schema, const wr_parquet_read_options *opts,
                        wr_code (*fn)(void *ctx, uint64_t pos, wr_slice row, wr_err *err), void *ctx, wr_err *err) {
    if (access(path, R_OK) != 0) {
        wr_fail(err, errno == ENOENT ? WR_E_NOTFOUND : WR_E_IO, WR_RETRY_NO, "data file is missing or unreadable: %s: %s", strerror(errno), path);
        return wr_err_cure(err, "restore the file from a backup; without one, remove the table from the catalog and the pipeline's home, and load again");
    }
    WR_CLEANUP(reader_close) reader r = {.path = path};
    bool some = opts && opts->columns;
    r.ncols = some ? opts->ncolumns : schema->ncols;
    r.cols = wr_calloc(r.ncols ? (size_t)r.ncols : 1, sizeof *r.cols);
    if (!r.cols) return wr_nomem(err, "Parquet reader", sizeof *r.cols * (size_t)r.ncols);
    for (int i = 0; i < r.ncols; i++) r.cols[i].col = &schema->cols[some ? opts->columns[i] : i];
    for (int i = 0; opts && i < opts->ninherit; i++) r.cols[opts->inherit[i].column].inherit = &opts->inherit[i];
    wr_code rc = wr_duck_use_open(e, &r.use, err);
    if (rc == WR_OK) rc = file_match(&r, err);
    if (rc == WR_OK) rc = constants_fill(&r, opts && opts->fill_initial, err);
    if (rc == WR_OK) rc = rows_read(&r, fn, ctx, err);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "read %s", path);
}
