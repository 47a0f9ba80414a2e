/* Parquet by DuckDB: COPY from a table function that serves the batch's live rows. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "duck.h"
#include "stats.h"
#include "weir/base/mem.h"

typedef struct feed {
    const wr_batch *b;
    uint32_t chunk;
    wr_dense dense;
} feed;

static duckdb_logical_type duck_type(wr_type t) {
    static const duckdb_type ids[] = {
        [WR_BOOL] = DUCKDB_TYPE_BOOLEAN,      [WR_INT] = DUCKDB_TYPE_INTEGER,   [WR_LONG] = DUCKDB_TYPE_BIGINT,
        [WR_FLOAT] = DUCKDB_TYPE_FLOAT,       [WR_DOUBLE] = DUCKDB_TYPE_DOUBLE, [WR_DATE] = DUCKDB_TYPE_DATE,
        [WR_TIMESTAMP] = DUCKDB_TYPE_TIMESTAMP, [WR_TIMESTAMPTZ] = DUCKDB_TYPE_TIMESTAMP_TZ,
        [WR_STRING] = DUCKDB_TYPE_VARCHAR,    [WR_BINARY] = DUCKDB_TYPE_BLOB,
    };
    if (t.kind == WR_DECIMAL) return duckdb_create_decimal_type(t.precision, t.scale);
    if (t.kind != WR_FLOATS) return duckdb_create_logical_type(ids[t.kind]);
    duckdb_logical_type f = duckdb_create_logical_type(DUCKDB_TYPE_FLOAT), l = duckdb_create_list_type(f);
    duckdb_destroy_logical_type(&f);
    return l;
}

static void feed_bind(duckdb_bind_info info) {
    duckdb_value v = duckdb_bind_get_parameter(info, 0);
    const wr_batch *b = (const wr_batch *)(uintptr_t)duckdb_get_uint64(v);
    duckdb_destroy_value(&v);
    for (int i = 0; i < b->schema->ncols; i++) {
        duckdb_logical_type t = duck_type(b->schema->cols[i].type);
        duckdb_bind_add_result_column(info, b->schema->cols[i].name, t);
        duckdb_destroy_logical_type(&t);
    }
    duckdb_bind_set_cardinality(info, wr_batch_live_rows(b), true);
    duckdb_bind_set_bind_data(info, (void *)b, NULL);
}

static void feed_init(duckdb_init_info info) {
    feed *f = wr_calloc(1, sizeof *f);
    if (!f) {
        duckdb_init_set_error(info, "Out of Memory Error: batch feed");
        return;
    }
    f->b = duckdb_init_get_bind_data(info);
    duckdb_init_set_init_data(info, f, wr_free);
    duckdb_init_set_max_threads(info, 1);
}

/* Slot of live row k, or -1 when it is null. Calls in rising order of k. */
static void fill(duckdb_vector vec, wr_type t, uint8_t w, const wr_dense *d) {
    uint8_t *out = duckdb_vector_get_data(vec);
    uint64_t *valid = NULL;
    if (d->n != d->rows) {
        duckdb_vector_ensure_validity_writable(vec);
        valid = duckdb_vector_get_validity(vec);
        memcpy(valid, d->valid, ((size_t)d->rows + 63) / 64 * 8);
    }
    bool i16 = t.kind == WR_DECIMAL && t.precision <= 4;
    if (w && !valid && !i16) {
        memcpy(out, d->data, (size_t)d->n * w);
        return;
    }
    if (t.kind == WR_FLOATS) {
        size_t total = 0;
        for (uint32_t k = 0; k < d->n; k++) total += wr_dense_bytes(d, k).n / 4;
        duckdb_list_vector_reserve(vec, total);
        duckdb_list_vector_set_size(vec, total);
    }
    size_t at = 0;
    for (uint32_t row = 0, k = 0; row < d->rows; row++) {
        if (valid && !wr_bit(valid, row)) continue;
        if (w) {
            memcpy(out + (size_t)row * (i16 ? 2 : w), d->data + (size_t)k * w, i16 ? 2 : w);
        } else if (t.kind == WR_FLOATS) {
            wr_slice s = wr_dense_bytes(d, k);
            duckdb_list_entry e = {at, s.n / 4};
            memcpy(out + (size_t)row * sizeof e, &e, sizeof e);
            if (s.n) memcpy((float *)duckdb_vector_get_data(duckdb_list_vector_get_child(vec)) + at, s.p, s.n);
            at += s.n / 4;
        } else {
            wr_slice s = wr_dense_bytes(d, k);
            duckdb_string_t str;
            memset(&str, 0, sizeof str);
            if (s.n <= 12) {
                str.value.inlined.length = (uint32_t)s.n;
                if (s.n) memcpy(str.value.inlined.inlined, s.p, s.n);
            } else {
                str.value.pointer.length = (uint32_t)s.n;
                memcpy(str.value.pointer.prefix, s.p, 4);
                str.value.pointer.ptr = (char *)s.p; /* the batch outlives the query */
            }
            memcpy(out + (size_t)row * sizeof str, &str, sizeof str);
        }
        k++;
    }
}

static void feed_next(duckdb_function_info info, duckdb_data_chunk out) {
    feed *f = duckdb_function_get_init_data(info);
    const wr_batch *b = f->b;
    while (f->chunk < b->nchunks && b->chunks[f->chunk]->rows == b->chunks[f->chunk]->ndead) f->chunk++;
    if (f->chunk == b->nchunks) {
        duckdb_data_chunk_set_size(out, 0);
        return;
    }
    const wr_chunk *c = b->chunks[f->chunk++];
    for (int i = 0; i < b->schema->ncols; i++) {
        wr_dense_of(b, c, i, &f->dense);
        fill(duckdb_data_chunk_get_vector(out, (idx_t)i), b->schema->cols[i].type, b->widths[i], &f->dense);
    }
    duckdb_data_chunk_set_size(out, c->rows - c->ndead);
}

wr_code wr_parquet_duck_register(duckdb_connection con, wr_err *err) {
    duckdb_table_function tf = duckdb_create_table_function();
    duckdb_logical_type t = duckdb_create_logical_type(DUCKDB_TYPE_UBIGINT);
    duckdb_table_function_set_name(tf, "weir_batch");
    duckdb_table_function_add_parameter(tf, t);
    duckdb_table_function_set_bind(tf, feed_bind);
    duckdb_table_function_set_init(tf, feed_init);
    duckdb_table_function_set_function(tf, feed_next);
    duckdb_state st = duckdb_register_table_function(con, tf);
    duckdb_destroy_logical_type(&t);
    duckdb_destroy_table_function(&tf);
    return st == DuckDBSuccess ? WR_OK : wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "cannot register the batch function");
}

static wr_code sync_file(const char *path, uint64_t *ret_bytes, wr_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) || fsync(fd)) {
        int e = errno;
        if (fd >= 0) close(fd);
        return wr_fail(err, e == ENOSPC ? WR_E_NOSPC : WR_E_IO, WR_RETRY_SOON, "%s: %s", path, strerror(e));
    }
    close(fd);
    *ret_bytes = (uint64_t)st.st_size;
    return WR_OK;
}

static void copy_sql(wr_buf *sql, const wr_batch *b, const char *path, const wr_parquet_options *o) {
    wr_buf_printf(sql, "COPY (SELECT * FROM weir_batch(%llu::UBIGINT)) TO ", (unsigned long long)(uintptr_t)b);
    wr_sql_literal(sql, path);
    wr_buf_printf(sql, " (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL %d, PARQUET_VERSION v1, ROW_GROUP_SIZE %llu, FIELD_IDS {",
                  o && o->zstd_level ? o->zstd_level : 1, (unsigned long long)(o && o->row_group_rows ? o->row_group_rows : 122880));
    for (int i = 0; i < b->schema->ncols; i++) {
        const wr_column *c = &b->schema->cols[i];
        if (i) wr_buf_u8(sql, ',');
        wr_sql_ident(sql, c->name);
        if (c->type.kind == WR_FLOATS) wr_buf_printf(sql, ":{__duckdb_field_id:%d,element:%d}", c->id, WR_ELEMENT_ID_BASE + c->id);
        else wr_buf_printf(sql, ":%d", c->id);
    }
    wr_buf_put(sql, "}", 1);
    if (o && o->metadata) {
        wr_buf_printf(sql, ", KV_METADATA {\"iceberg.schema\":");
        wr_sql_literal(sql, o->metadata);
        wr_buf_put(sql, "}", 1);
    }
    wr_buf_put(sql, ")", 1);
}

wr_code wr_parquet_write(wr_engine *e, const wr_batch *b, const char *path, const wr_parquet_options *opts,
                         wr_parquet_file *ret_file, wr_err *err) {
    int ncols = b->schema->ncols;
    if (access(path, F_OK) == 0) return wr_fail(err, WR_E_EXISTS, WR_RETRY_NO, "%s: exists already", path);
    wr_column_stats *cols = wr_calloc((size_t)ncols, sizeof *cols);
    wr_dense *d = wr_malloc(sizeof *d);
    WR_CLEANUP(wr_duck_use_close) wr_duck_use use = {0};
    wr_code rc = cols && d ? WR_OK : wr_nomem(err, "statistics", sizeof *cols * (size_t)ncols + sizeof *d);
    for (int i = 0; rc == WR_OK && i < ncols; i++) {
        wr_range r = {0};
        for (uint32_t k = 0; k < b->nchunks; k++) {
            wr_dense_of(b, b->chunks[k], i, d);
            wr_range_add(&r, b->schema->cols[i].type, d);
        }
        wr_range_stats(&r, b->schema->cols[i].type, &cols[i]);
        cols[i].field_id = b->schema->cols[i].id + (b->schema->cols[i].type.kind == WR_FLOATS ? WR_ELEMENT_ID_BASE : 0);
    }
    WR_AUTO_BUF wr_buf sql = WR_BUF_INIT;
    uint64_t bytes = 0;
    if (rc == WR_OK) {
        copy_sql(&sql, b, path, opts);
        if (!wr_buf_cstr(&sql)) rc = wr_nomem(err, "COPY statement", sql.cap);
    }
    if (rc == WR_OK) rc = wr_duck_use_open(e, &use, err);
    if (rc == WR_OK) rc = wr_duck_exec(use.con, (char *)sql.p, err);
    if (rc == WR_OK) rc = sync_file(path, &bytes, err);
    wr_free(d);
    if (rc != WR_OK) {
        unlink(path);
        wr_free(cols);
        return wr_err_in(err, "write %s", path);
    }
    *ret_file = (wr_parquet_file){.rows = wr_batch_live_rows(b), .bytes = bytes, .ncols = ncols, .cols = cols};
    return WR_OK;
}

void wr_parquet_file_clear(wr_parquet_file *f) {
    wr_free(f->cols);
    *f = (wr_parquet_file){0};
}
