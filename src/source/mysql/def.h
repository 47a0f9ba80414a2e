/* A table as MySQL/MariaDB define it: what the row decoder, the snapshot reader and the DDL tracker agree on.
 * Private to source. Persisted as JSON in wr_ddl.def (docs/formats/mysql-def.md). */
#ifndef WEIR_SOURCE_MYSQL_DEF_H
#define WEIR_SOURCE_MYSQL_DEF_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/model.h"
#include "weir/source.h"

/* The declared kind, finer than the binlog's type byte. */
typedef enum wr_my_kind {
    MY_TINYINT = 1, MY_SMALLINT, MY_MEDIUMINT, MY_INT, MY_BIGINT, MY_YEAR, MY_BIT, MY_DECIMAL, MY_FLOAT, MY_DOUBLE,
    MY_CHAR, MY_VARCHAR, MY_TEXT, MY_ENUM, MY_SET, MY_BINARY, MY_VARBINARY, MY_BLOB, MY_JSON /* MySQL's; MariaDB's is MY_TEXT */,
    MY_DATE, MY_DATETIME, MY_TIMESTAMP, MY_TIME, MY_GEOMETRY, MY_UUID, MY_INET4, MY_INET6, MY_VECTOR,
} wr_my_kind;

typedef struct wr_my_col {
    char *name;
    int32_t id;               /* lake identity, see wr_column.id */
    wr_my_kind kind;
    char *column_type;        /* as information_schema shows it, lower case: "bigint(20) unsigned" */
    bool is_unsigned;
    uint32_t length;          /* CHAR/VARCHAR characters, BINARY/VARBINARY bytes, BIT bits, DECIMAL precision, TEXT/BLOB prefix bytes 1..4, VECTOR dimension */
    uint8_t scale;            /* DECIMAL scale, fractional seconds of TIME/DATETIME/TIMESTAMP */
    char *charset;            /* text, ENUM, SET: "utf8mb4", "gbk", ...; else NULL */
    char *collation;
    char **labels; int nlabels; /* ENUM, SET: UTF-8 */
    bool not_null, auto_increment, generated, stored /* generated STORED/PERSISTENT */, invisible;
    bool compressed;          /* MariaDB COMPRESSED column */
    bool hidden;              /* exists in the binlog, not in the lake: period columns of system versioning */
    bool has_default;         /* a literal default, in default_text (NULL text = DEFAULT NULL) */
    char *default_text;       /* canonical text of the literal, UTF-8 (docs/formats/mysql-def.md): numbers as digits, BIT as its number, bytes as 0x..., TIMESTAMP in UTC */
    bool default_expr;        /* not a literal (CURRENT_TIMESTAMP, uuid(), ...), or one whose stored value is not certain */
    int key_ord;              /* 1.. in the PRIMARY KEY */
} wr_my_col;

typedef enum wr_my_rule { MY_RULE_NONE = 0 /* RESTRICT, NO ACTION */, MY_RULE_CASCADE, MY_RULE_SET /* NULL or DEFAULT */ } wr_my_rule;

/* A foreign key of the table. Those that change no rows are kept as well: the server numbers the names it makes over all of them. */
typedef struct wr_my_fk {
    char *name;               /* of the constraint; NULL = made by the server, and not known */
    char *db, *parent;        /* the table it refers to */
    char **cols; int ncols;   /* that table's columns; none = not known */
    uint8_t on_delete, on_update; /* wr_my_rule */
} wr_my_fk;

typedef enum wr_my_doubt {
    WR_MY_DOUBT_TOOL = 1,     /* nothing shows that a known tool copies the rows */
    WR_MY_DOUBT_RESHAPED = 2, /* keys, partitions, checks: a tool's INSERT IGNORE may have left rows out. Captured: the definition is the server's, maybe of later */
} wr_my_doubt;

typedef struct wr_my_table {
    uint32_t id;              /* wr_ddl.table */
    uint32_t version;         /* wr_schema.version */
    int32_t next_col_id;
    char *db, *name;
    char *charset, *collation; /* defaults for new text columns */
    char *engine;             /* "InnoDB", may be NULL */
    char *db_collation;       /* the database's default when the table was read from the server, NULL = not known; not persisted */
    bool captured;            /* matches the patterns and is no shadow table */
    bool versioned;           /* MariaDB WITH SYSTEM VERSIONING */
    wr_my_col *cols; int ncols;
    wr_my_fk *fks; int nfks;  /* fk.h; also of tables without columns here: those between a captured table and one whose changes reach it */
    /* Remembered tables (captured = false), see README.md "Online schema change": */
    uint32_t like_of;         /* captured table whose column ids this one shares (CREATE ... LIKE), 0 = none */
    int32_t like_next;        /* ids below it are the shared ones */
    uint32_t away_of;         /* this is captured table `away_of` under a helper's name, in the middle of a swap; 0 = no */
    uint8_t doubt;            /* wr_my_doubt: its rows may differ from those of like_of in more than its columns, so a swap needs a reload */
    char *doubt_file; uint64_t doubt_offset; uint32_t doubt_epoch; /* captured: the end of the binlog when the server had this definition; NULL = not known */
    /* derived, made by wr_my_table_finish: */
    bool fk_cascade_child;    /* a foreign key with CASCADE/SET NULL changes its rows, without row events on some servers */
    wr_schema *schema;        /* lake schema; columns in table order without hidden ones */
    int *lake_col;            /* [ncols] index into schema or -1 */
} wr_my_table;

typedef struct wr_my_types {
    wr_zero_date zero_date;
    wr_time_as time_as;
    uint64_t *replaced; /* atomic; counts dates that became null or the epoch; NULL = nobody counts */
} wr_my_types;

wr_my_table *wr_my_table_clone(const wr_my_table *t);
/* MariaDB: its periods are transaction numbers (BIGINT UNSIGNED). The server logs changes of such a table as statements, whatever binlog_format says. */
bool wr_my_table_by_transaction(const wr_my_table *t);
void wr_my_table_free(wr_my_table *t);
/* Lake type of a column by the type policy. */
wr_type wr_my_lake_type(const wr_my_col *c, wr_my_types types);
/* Makes schema and lake_col from cols; converts literal defaults into wr_column.initial where add_initial[i] is set (may be NULL). */
wr_code wr_my_table_finish(wr_my_table *t, wr_my_types types, const bool *add_initial, wr_err *err);
/* What a row that was there before the column has in it, as the server fills it at ADD COLUMN. NONE: null, nothing to do.
 * VALUE: *ret (bytes live in scratch). UNKNOWN: depends on the server (expression, AUTO_INCREMENT, generated, a literal whose
 * conversion is not certain). */
typedef enum wr_my_initial { WR_MY_INITIAL_NONE = 0, WR_MY_INITIAL_VALUE, WR_MY_INITIAL_UNKNOWN } wr_my_initial;
wr_my_initial wr_my_col_initial(const wr_my_col *c, wr_my_types types, wr_value *ret, wr_buf *scratch);
/* A captured table's definition came from the server, which was ahead of this place in the binlog (where an event begins; file NULL = not known): what changed it until
 * then is in it already, and rows may be of an older shape. */
bool wr_my_table_ahead(const wr_my_table *t, uint32_t epoch, const char *file, uint64_t offset);
bool wr_my_name_eq(const char *a, const char *b); /* names of columns: without case */
wr_my_col *wr_my_table_find_col(const wr_my_table *t, const char *name); /* names compare without case; NULL when absent */
void wr_my_col_clear(wr_my_col *c); /* frees what it owns, zeroes it */
bool wr_my_col_copy(wr_my_col *dst, const wr_my_col *src); /* deep; false = memory is out, dst is zero */
/* An owned event (wr_ddl_clear) with the table's definition; schema and def by kind as wr_ddl says. why may be NULL. */
wr_code wr_my_table_ddl(const wr_my_table *t, wr_ddl_kind kind, wr_ddl_rows rows, const char *why, wr_ddl *ret_ddl, wr_err *err);
wr_code wr_my_table_to_json(const wr_my_table *t, wr_buf *b, wr_err *err);
wr_code wr_my_table_from_json(wr_slice json, wr_my_types types, wr_my_table **ret_table, wr_err *err);

#endif
