/* Columnar batches in, Parquet files out; Parquet files in, rows out; SQL over lake tables for people.
 *
 * Writing is our own code, reading and SQL are DuckDB's, behind this header: no other module includes duckdb.h.
 * @thread an engine may be used by any thread; each call uses a connection of its own. A batch belongs to one thread
 *         while rows are added; afterwards any number may read or write it out.
 */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"
#include "weir/model.h"

typedef struct wr_engine wr_engine;
typedef struct wr_engine_options { /* zero means default */
    uint64_t memory_bytes; /* 160 MB; of DuckDB, for reading and once more for each wr_engine_sql under way */
    int threads;           /* 1: the caller's thread does the work */
    const char *temp_dir;  /* NULL: no spilling */
} wr_engine_options;
wr_code wr_engine_open(const wr_engine_options *opts, wr_engine **ret_engine, wr_err *err);
void wr_engine_close(wr_engine *e);
const char *wr_engine_version(void); /* of DuckDB, "v1.5.5"; static */

/* ------------------------------------------------------------------ columnar batches */
/* Rows of one schema, held by column. A batch of one row costs about 1.5 KB (12 columns), a full one as much as its rows. */
typedef struct wr_batch wr_batch;
wr_code wr_batch_new(const wr_schema *schema, wr_batch **ret_batch, wr_err *err);
void wr_batch_free(wr_batch *b);
/* Appends a row in row encoding (model.h). Its position is the number of rows before. A failure leaves the batch as it was:
 * WR_E_CORRUPT for bytes that do not fit the schema, WR_E_INVAL for a decimal with more digits than its column,
 * WR_E_LIMIT for a value above 1 GB, WR_E_NOMEM. */
wr_code wr_batch_append(wr_batch *b, wr_slice row, wr_err *err);
/* The same, but large texts and binaries (base/large.h) stay where they are: the batch is written or freed before the row goes. */
wr_code wr_batch_append_loan(wr_batch *b, wr_slice row, wr_err *err);
/* Rows marked dead are left out when the batch is written; later rows move up. Twice is once, a row that is not there none. */
void wr_batch_kill(wr_batch *b, uint32_t row);
uint32_t wr_batch_rows(const wr_batch *b);      /* dead ones included */
uint32_t wr_batch_live_rows(const wr_batch *b);
size_t wr_batch_bytes(const wr_batch *b);       /* memory in use */
bool wr_batch_dead(const wr_batch *b, uint32_t row);
/* The row back in row encoding (appended to out). */
wr_code wr_batch_row(const wr_batch *b, uint32_t row, wr_buf *out, wr_err *err);

/* ------------------------------------------------------------------ order */
/* By Iceberg's rules: texts and binaries by their bytes, -0 before 0, NaN at the ends. */
typedef struct wr_sort_key {
    int col; /* of the schema */
    bool descending, nulls_last;
} wr_sort_key;
bool wr_sort_suits(wr_type t); /* not lists */
/* The live rows in the order of the keys, equal ones as they came; owned. NULL: they are in that order. @thread any */
wr_code wr_batch_order(const wr_batch *b, const wr_sort_key *keys, int nkeys, uint32_t **ret_rows, wr_err *err);
/* The same for rows that are not kept: add each in turn, finish says which of them comes first, second, ... (NULL: as they came). 32 bytes a row, and what a key has
 * beyond 8 bytes; WR_E_LIMIT when that makes more than bytes_max. @thread one at a time */
typedef struct wr_sorter wr_sorter;
wr_code wr_sorter_new(const wr_schema *schema, const wr_sort_key *keys, int nkeys, uint64_t bytes_max, wr_sorter **ret_sorter, wr_err *err);
void wr_sorter_free(wr_sorter *s);
wr_code wr_sorter_add(wr_sorter *s, wr_slice row, wr_err *err);
wr_code wr_sorter_finish(wr_sorter *s, uint32_t **ret_rows, uint64_t *ret_n, wr_err *err);

/* ------------------------------------------------------------------ Parquet files */
/* Statistics of one column over the live rows of a written file. Bounds are Iceberg single-value binaries, exact or, for
 * strings and binaries, truncated to 16 code points/bytes (upper rounded up; absent when it cannot be). */
typedef struct wr_column_stats {
    int32_t field_id;
    uint64_t values, nulls, nans;
    uint64_t bytes;                 /* column size in the file, 0 when unknown */
    bool has_lower, has_upper;
    uint8_t lower[80], upper[80];
    uint8_t lower_n, upper_n;
} wr_column_stats;

typedef struct wr_parquet_file {
    uint64_t rows, bytes;
    int ncols;                      /* the schema's, in its order; a list's entry is that of its element, without bounds */
    wr_column_stats *cols;
    int nsplits;                    /* row groups */
    int64_t *splits;                /* where each begins: Iceberg's split_offsets */
} wr_parquet_file;
void wr_parquet_file_clear(wr_parquet_file *f);

/* Writes the live rows to a new Parquet file (zstd level 1, v1 pages, field ids = column ids; the element of column id's list
 * has field id WR_ELEMENT_ID_BASE + id) and fsyncs it; the folder is the caller's to fsync, once for all its files. Memory
 * beside the batch is about 2.5 MB. A column is required in the file when the schema says so and no row disagrees.
 * Fails with WR_E_EXISTS rather than write over a file; any other failure leaves none behind. `e` is not used yet and may
 * be NULL. Fault point: parquet_write. */
typedef struct wr_parquet_options { /* zero means default */
    int zstd_level;         /* 1 */
    uint64_t row_group_rows; /* 122880; a group ends with the chunk of 2048 rows that reaches it */
    const char *metadata;   /* "iceberg.schema" key of the footer; NULL = leave out */
    const uint32_t *rows;   /* wr_parquet_write: all live rows of the batch in the order in which they are written; NULL = as they are. Costs the memory of one column of a row group */
    const int *bloom; int nbloom; /* columns that get a Bloom filter in each row group of 2048 rows or more, sized by their different values, with which one look-up
                                   * in a hundred is wrong: about a byte a value. Not those of bool, float, double, binary and lists */
} wr_parquet_options;
#define WR_ELEMENT_ID_BASE 1000000
wr_code wr_parquet_write(wr_engine *e, const wr_batch *b, const char *path, const wr_parquet_options *opts,
                         wr_parquet_file *ret_file, wr_err *err);
/* The same for a file that is larger than a batch may be: each batch (of this schema) becomes row groups of its own, and is the
 * caller's again. Memory stays that of one batch; of each group that is written only its footer. Of the columns only those of
 * the key are required in the file, and a batch with a null there is WR_E_INVAL. After a failed add only abandon remains. Close
 * ends the file as wr_parquet_write does, and the writer, whatever it returns; abandon (NULL is fine) leaves no file. */
typedef struct wr_parquet_writer wr_parquet_writer;
wr_code wr_parquet_writer_open(const wr_schema *schema, const char *path, const wr_parquet_options *opts, wr_parquet_writer **ret_writer, wr_err *err);
wr_code wr_parquet_writer_add(wr_parquet_writer *w, const wr_batch *b, wr_err *err);
uint64_t wr_parquet_writer_bytes(const wr_parquet_writer *w); /* of the file so far */
wr_code wr_parquet_writer_close(wr_parquet_writer *w, wr_parquet_file *ret_file, wr_err *err);
void wr_parquet_writer_abandon(wr_parquet_writer *w);

/* Reads a file written by anyone, row by row in file order, as rows of `schema`: columns are matched by field id; a column
 * that the file lacks is null, or its `initial` when it has one and `fill_initial`; int->long, float->double and decimal
 * widening are applied. `columns` (indexes into schema, NULL = all) limits what is read: then rows are rows of a schema
 * with only those columns, in that order. fn gets the position in the file, and ends the reading by returning an error.
 * WR_E_NOTFOUND; WR_E_DECODE for damage, for a column that is of another type in the file and for a file without field ids;
 * WR_E_UNSUPPORTED for a null within a list; WR_E_LIMIT when memory_bytes do not suffice, which cannot be with a file of
 * ours: texts and binaries that are long in it are read past DuckDB, and a row costs its own size. A large row (base/large.h) comes alone. */
typedef struct wr_inherit { /* what nulls of a long column are, and all its values where the file lacks it: base, and the row's position more; below 0: they are null */
    int column; /* of those that are read */
    int64_t base;
    bool by_row;
} wr_inherit;
typedef struct wr_parquet_read_options {
    const int *columns; int ncolumns;
    bool fill_initial;
    const wr_inherit *inherit; int ninherit;
} wr_parquet_read_options;
wr_code wr_parquet_read(wr_engine *e, const char *path, const wr_schema *schema, const wr_parquet_read_options *opts,
                        wr_code (*fn)(void *ctx, uint64_t pos, wr_slice row, wr_err *err), void *ctx, wr_err *err);

/* ------------------------------------------------------------------ SQL for people */
/* A lake table as SQL sees it: live data files with the positions deleted in each (borrowed; ascending is fastest). Columns
 * a file lacks are their `initial` or null. */
typedef struct wr_sql_file { const char *path /* or what the opener makes one of */; const uint32_t *deleted; uint64_t ndeleted; } wr_sql_file;
typedef struct wr_sql_table {
    const char *ns, *name;          /* queryable as "ns"."name" */
    const wr_schema *schema;
    const wr_sql_file *files; int nfiles;
} wr_sql_table;
/* Gives the local path of a file that a statement needs (owned); files of tables that it does not mention are not asked for. */
typedef struct wr_sql_opener {
    wr_code (*open)(void *ctx, const char *path, char **ret_path, wr_err *err); /* NULL: paths are what they are */
    void *ctx;
} wr_sql_opener;
/* Runs one SELECT (or SHOW, DESCRIBE, SUMMARIZE, VALUES) over the tables. Calls columns() once with names and DuckDB's type
 * names, then row() with text values (NULL for null): timestamps like 2026-11-29T14:00:00.000000 (Z when they are
 * instants), binaries like \x00ff. The statement can open the tables' files and nothing else. Names are matched without
 * regard to case; two mentioned tables that differ in case alone are an error. WR_E_INVAL for what is wrong with the
 * statement. An error of columns() or row() ends the query and is returned. */
wr_code wr_engine_sql(wr_engine *e, const wr_sql_table *tables, int ntables, wr_sql_opener opener, const char *sql,
                      wr_code (*columns)(void *ctx, int n, const char *const *names, const char *const *types, wr_err *err),
                      wr_code (*row)(void *ctx, int n, const char *const *values, wr_err *err), void *ctx, wr_err *err);

/* ------------------------------------------------------------------ scalar SQL over rows on their way */
/* SQL text, appended: 'it''s', "a ""b""", and DuckDB's spelling of a lake type. */
void wr_sql_literal(wr_buf *b, const char *s);
void wr_sql_ident(wr_buf *b, const char *s);
void wr_sql_type(wr_buf *b, wr_type t);

/* An instance that evaluates expressions and can do nothing else: no files, no network, no settings, no tables; its time
 * zone is UTC. `functions`: CREATE MACRO or CREATE FUNCTION statements, NULL = none; WR_E_INVAL for anything else and for
 * a function that is not pure. @thread any; closed after its expressions */
typedef struct wr_sql_space wr_sql_space;
wr_code wr_sql_space_open(const wr_engine *e, const char *functions, wr_sql_space **ret_space, wr_err *err);
void wr_sql_space_close(wr_sql_space *s);

/* Expressions over the columns of one schema, and at most one filter. Each gives one value a row and the same value
 * whenever it sees the same row: WR_E_INVAL for aggregates, windows, subqueries and whatever depends on time, chance or
 * session, for a result that no lake type holds and for what DuckDB refuses; ret_bad then says which it was (-1 = the
 * filter). @thread one at a time */
typedef struct wr_exprs wr_exprs;
wr_code wr_exprs_new(wr_sql_space *s, const wr_schema *in, const char *filter, const char *const *exprs, int n,
                     wr_exprs **ret_exprs, int *ret_bad, wr_err *err);
void wr_exprs_free(wr_exprs *x);
wr_type wr_exprs_type(const wr_exprs *x, int i);
/* vals: n rows of in->ncols values, borrowed until the next run. Results live as long. An expression that fails for a row
 * is no error but a fault; errors are of memory and the like. 2048 rows at a time are cheapest. */
wr_code wr_exprs_run(wr_exprs *x, const wr_value *vals, uint32_t n, wr_err *err);
void wr_exprs_forget(wr_exprs *x); /* the results and the memory they are in; the next run takes it again */
/* The values of a row's expressions; NULL when the filter is not true for it. Those with a fault are null. */
const wr_value *wr_exprs_row(const wr_exprs *x, uint32_t row);
typedef struct wr_expr_fault {
    uint32_t row;
    int expr; /* -1 = the filter: then no expression was evaluated, and wr_exprs_row is NULL */
    char *message;
    bool limit; /* it asked for more memory than there is: nothing is said about the row, which may have a value at another time */
} wr_expr_fault;
const wr_expr_fault *wr_exprs_faults(const wr_exprs *x, int *ret_n); /* by row, then expression */

#endif
