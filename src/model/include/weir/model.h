/* The words everyone shares: type, value, row, column, schema, source position, change, DDL event.
 *
 * Rows travel as bytes in one encoding from the source to the lake ("row" below), so that each hop copies and
 * never interprets. Two rows of one schema version are equal exactly when their bytes are equal.
 */
#ifndef WEIR_MODEL_H
#define WEIR_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"

/* ------------------------------------------------------------------ types */
/* The lake's types (Iceberg names); sources map theirs onto these by the type policy in docs/types.md. */
typedef enum wr_kind {
    WR_BOOL = 1,
    WR_INT,  /* 32 bit */
    WR_LONG, /* 64 bit */
    WR_FLOAT,
    WR_DOUBLE,
    WR_DECIMAL,     /* precision 1..38, scale 0..precision */
    WR_DATE,        /* days since 1970-01-01, proleptic Gregorian */
    WR_TIMESTAMP,   /* wall clock, microseconds since 1970-01-01T00:00:00 */
    WR_TIMESTAMPTZ, /* instant, microseconds since 1970-01-01T00:00:00Z */
    WR_STRING,      /* UTF-8 */
    WR_BINARY,
    WR_FLOATS, /* list<float> */
} wr_kind;

typedef struct wr_type {
    uint8_t kind;             /* wr_kind */
    uint8_t precision, scale; /* WR_DECIMAL only, else 0 */
} wr_type;

static inline bool wr_type_eq(wr_type a, wr_type b) {
    return a.kind == b.kind && a.precision == b.precision && a.scale == b.scale;
}
/* Iceberg's spelling: "int", "decimal(10,2)", "list<float>"; returns buf. */
char *wr_type_name(wr_type t, char buf[32]);
wr_code wr_type_parse(const char *s, wr_type *ret_type, wr_err *err);
/* Whether a column may change from a to b without touching data files (Iceberg v2 promotions). */
bool wr_type_promotes(wr_type a, wr_type b);

/* ------------------------------------------------------------------ values and rows */
typedef struct wr_value {
    bool null;
    union {
        bool b;
        int32_t i32; /* WR_INT, WR_DATE */
        int64_t i64; /* WR_LONG, WR_TIMESTAMP, WR_TIMESTAMPTZ */
        float f32;
        double f64;
        __int128 dec; /* unscaled */
        wr_slice s;   /* WR_STRING, WR_BINARY; WR_FLOATS: 4-byte IEEE values, s.n a multiple of 4 */
    };
} wr_value;

/* Row encoding: a null bitmap of (n+7)/8 bytes (bit i of byte i/8 set = column i is null), then the non-null values in
 * column order, unaligned, little-endian: BOOL 1 byte; INT, DATE, FLOAT 4; LONG, TIMESTAMP, TIMESTAMPTZ, DOUBLE 8;
 * DECIMAL 16 (two's complement); STRING, BINARY, FLOATS: u32 number of bytes, then the bytes. */
typedef struct wr_schema wr_schema;

/* Writing: begin, then one put per column in order, then end.
 *   size_t at = wr_row_begin(buf, ncols); wr_row_put(buf, at, i, type, &v) ...  */
static inline size_t wr_row_begin(wr_buf *b, int ncols) {
    size_t at = b->n, nb = ((size_t)ncols + 7) / 8;
    uint8_t *d = wr_buf_room(b, nb);
    if (d) memset(d, 0, nb), b->n += nb;
    return at;
}
static inline void wr_row_put_null(wr_buf *b, size_t at, int col) {
    if (!b->failed) b->p[at + (size_t)col / 8] |= (uint8_t)(1u << (col % 8));
}
void wr_row_put(wr_buf *b, size_t at, int col, wr_type t, const wr_value *v);
/* Reading: fills vals[0..ncols) with values that borrow from the row. WR_E_CORRUPT when the bytes do not fit the schema
 * exactly (trailing bytes count as not fitting). Nullability, UTF-8 and decimal digits are the writer's business. */
wr_code wr_row_read(const wr_schema *s, wr_slice row, wr_value *vals, wr_err *err);

/* Text of a value for people and JSON-free uses (decimal point set by scale, timestamps ISO). Appends to b. */
void wr_value_print(wr_buf *b, wr_type t, const wr_value *v);
/* The inverse for everything but WR_FLOATS; binaries with or without the 0x. What is not text of the value itself (bytes of binaries) is kept in `bytes`, which is cleared first.
 * WR_E_INVAL for a text that wr_value_print does not write for this type. */
wr_code wr_value_parse(wr_slice text, wr_type t, wr_buf *bytes, wr_value *ret_value, wr_err *err);
/* Inverse of the decimal part: "-12.340" with the type's scale. WR_E_INVAL when it does not fit exactly. */
wr_code wr_decimal_parse(const char *s, size_t n, wr_type t, __int128 *ret_unscaled, wr_err *err);

/* Civil date to days since 1970-01-01 (proleptic Gregorian); no range checks beyond int32. */
int32_t wr_days_from_civil(int year, int month, int day);
void wr_civil_from_days(int32_t days, int *ret_year, int *ret_month, int *ret_day);

/* ------------------------------------------------------------------ schema */
typedef struct wr_column {
    char *name;
    int32_t id; /* identity through renames and moves, unique within the table for ever, > 0; the lake's field id */
    wr_type type;
    bool nullable;    /* may hold null in the lake (zero dates make NOT NULL source columns nullable) */
    int key_ord;      /* 1.. = position in the primary key, 0 = not part of it */
    bool has_initial; /* rows older than the column hold `initial`, else null */
    wr_value initial; /* owned copy when it is bytes */
    char *doc;        /* the source's own type, e.g. "bigint(20) unsigned"; may be NULL */
} wr_column;

/* Immutable once shared; reference counted. @thread any */
struct wr_schema {
    int ncols;
    wr_column *cols;
    int nkey;         /* 0 = no key: the whole row is the key */
    int *key;         /* column indexes in key order, nkey of them */
    uint32_t version; /* per table, rising with every DDL */
    int refs;         /* atomic; use wr_schema_ref/unref */
};
/* Takes copies. WR_E_INVAL unless there is a column, names are UTF-8 and unique, ids > 0 and unique, types and initial
 * values valid, and key_ord is 1..nkey without gaps. A doc that is not UTF-8 is mended; an initial null is dropped. */
wr_code wr_schema_new(const wr_column *cols, int ncols, uint32_t version, wr_schema **ret_schema, wr_err *err);
wr_schema *wr_schema_ref(const wr_schema *s);
void wr_schema_unref(wr_schema *s);                       /* NULL is fine */
int wr_schema_find(const wr_schema *s, const char *name); /* index or -1; exact spelling */
int wr_schema_find_id(const wr_schema *s, int32_t id);
/* JSON form, stable: docs/formats/schema.md. Appends text to b. */
wr_code wr_schema_to_json(const wr_schema *s, wr_buf *b, wr_err *err);
wr_code wr_schema_from_json(wr_slice json, wr_schema **ret_schema, wr_err *err);

/* ------------------------------------------------------------------ source position */
#define WR_POS_FILE_MAX 256
/* A place in a server's binlog: the end of a transaction. file+offset order positions of one server, the epoch those of a pipeline that
 * went on at another server; the GTID set says the same to any server of the cluster. */
typedef struct wr_pos {
    char file[WR_POS_FILE_MAX]; /* "binlog.000012"; "" = none */
    uint64_t offset;
    uint32_t epoch; /* how often the pipeline has gone on at another server before */
    char *gtid_set; /* everything executed up to here; MariaDB "0-1-5,1-2-7" or MySQL set; owned, may be NULL */
} wr_pos;
void wr_pos_clear(wr_pos *p); /* frees, becomes "none" */
wr_code wr_pos_copy(wr_pos *dst, const wr_pos *src, wr_err *err);
/* <0, 0, >0 by epoch, then file number (digits behind the last dot), then offset. Across epochs it is the order in which a pipeline has met them: a position
 * of an earlier server that the pipeline had not come to when it left that server may hold what a later one's does not. */
int wr_pos_cmp(const wr_pos *a, const wr_pos *b);
void wr_pos_encode(wr_buf *b, const wr_pos *p);
wr_code wr_pos_decode(wr_rd *r, wr_pos *ret_pos, wr_err *err); /* *ret_pos is overwritten, not freed */
char *wr_pos_print(const wr_pos *p, char buf[512]);            /* "binlog.000012:4711 epoch 1 gtid 0-1-5"; no epoch when 0, set cut when long */

/* ------------------------------------------------------------------ changes */
typedef enum wr_op { WR_OP_INSERT = 1, WR_OP_UPDATE = 2, WR_OP_DELETE = 3 } wr_op;

typedef struct wr_change {
    uint8_t op;              /* wr_op */
    uint32_t table;          /* the source's table id (wr_ddl.table) */
    uint32_t schema_version; /* of that table */
    wr_slice before;         /* row; empty for INSERT */
    wr_slice after;          /* row; empty for DELETE */
} wr_change;
void wr_change_encode(wr_buf *b, const wr_change *c);
/* The same bytes in n parts, of which the images are not copied. */
typedef struct wr_change_parts {
    wr_slice part[4];
    int n;
    uint8_t head[2][24];
} wr_change_parts;
void wr_change_split(const wr_change *c, wr_change_parts *ret_parts /* borrows from c, and from itself */);
wr_code wr_change_decode(wr_rd *r, wr_change *ret_change, wr_err *err); /* borrows from r */

/* A schema event, in order with the changes. It carries the whole new state of one table, so that a reader needs no
 * earlier event. `def` is the source's private definition (types, charsets, labels), opaque to everyone else. */
typedef enum wr_ddl_kind {
    WR_DDL_CREATE = 1, /* new table; it is empty unless `reload` says otherwise */
    WR_DDL_ALTER,      /* new schema for the rows that follow */
    WR_DDL_RENAME,     /* new name, maybe a new schema too (a swap by an online schema change) */
    WR_DDL_DROP,
    WR_DDL_TRUNCATE, /* all rows gone */
    WR_DDL_HIDDEN,   /* a table that is not captured (a shadow table): to be remembered, not to be shown */
} wr_ddl_kind;

/* What old rows need so that the lake equals the source after the event. */
typedef enum wr_ddl_rows {
    WR_ROWS_KEEP = 0, /* nothing: metadata only */
    WR_ROWS_FILL,     /* added columns have `initial` values: old rows get them by rewriting */
    WR_ROWS_RELOAD,   /* the source must be read again: its rows changed without row events */
    WR_ROWS_LEFT,     /* WR_DDL_DROP only: the table is still there and not captured any more; what the lake has of it stays */
    WR_ROWS_RETYPED,  /* WR_ROWS_RELOAD, for this one reason: columns have new ids under their old names, because the lake cannot follow their new types */
} wr_ddl_rows;

typedef struct wr_ddl {
    uint8_t kind;            /* wr_ddl_kind */
    uint8_t rows;            /* wr_ddl_rows */
    uint32_t table;          /* the source's id of the table, for ever the same */
    char *db, *name;         /* name after the event */
    char *old_db, *old_name; /* WR_DDL_RENAME only, else NULL */
    wr_schema *schema;       /* after the event; NULL for DROP and HIDDEN. Owned reference */
    char *def;               /* source-private JSON; NULL for DROP */
    char *why;               /* the statement or the reason, for logs and errors; may be NULL */
} wr_ddl;
void wr_ddl_clear(wr_ddl *d); /* NULL is fine */
/* WR_E_INVAL without db and name, without a schema (or with one for DROP and HIDDEN), or without old names for RENAME
 * (or with some for another kind). */
wr_code wr_ddl_encode(wr_buf *b, const wr_ddl *d, wr_err *err);
/* Owned copies; wr_ddl_clear frees. *ret_ddl is overwritten, not freed. */
wr_code wr_ddl_decode(wr_rd *r, wr_ddl *ret_ddl, wr_err *err);

#endif
