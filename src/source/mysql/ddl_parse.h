/* Statements of the binlog to what they do to tables. Two steps: the head says what kind of statement it is and which tables it names, which is
 * enough to pass over nearly everything; the body is read only for tables that matter.
 * Strings live in the parser's arena.
 * @thread one at a time */
#ifndef WEIR_SOURCE_MYSQL_DDL_PARSE_H
#define WEIR_SOURCE_MYSQL_DDL_PARSE_H

#include "ddl_default.h"
#include "ddl_type.h"

typedef enum wr_sql_kind {
    WR_SQL_OTHER = 0,
    WR_SQL_BEGIN, WR_SQL_COMMIT, WR_SQL_ROLLBACK, WR_SQL_SAVEPOINT, WR_SQL_ROLLBACK_TO,
    WR_SQL_XA_START, WR_SQL_XA_END, WR_SQL_XA_PREPARE, WR_SQL_XA_COMMIT, WR_SQL_XA_ROLLBACK,
    WR_SQL_CREATE_TABLE, WR_SQL_CREATE_SEQUENCE, WR_SQL_ALTER_TABLE, WR_SQL_DROP_TABLE, WR_SQL_RENAME_TABLE, WR_SQL_TRUNCATE, WR_SQL_REPAIR,
    WR_SQL_CREATE_DATABASE, WR_SQL_ALTER_DATABASE, WR_SQL_DROP_DATABASE,
    WR_SQL_CREATE_INDEX, WR_SQL_DROP_INDEX, WR_SQL_CREATE_TRIGGER,
    WR_SQL_DML,      /* names: every table it may write */
    WR_SQL_ROUTINE,  /* CALL, SELECT f(), DO: in the binlog only when it changed something; names[0].db is the database it is in */
} wr_sql_kind;

typedef struct wr_ddl_name { const char *db, *name; } wr_ddl_name; /* db "" = none was given and there is no default */

typedef struct wr_sql {
    wr_sql_kind kind;
    wr_ddl_name *names; int nnames, names_cap;   /* RENAME: from, to, from, to, ... */
    const char *object;      /* index of CREATE/DROP INDEX, name of a trigger; NULL = none */
    bool temporary, if_exists, if_not_exists, or_replace, ignore, unique;
    bool deletes_all;        /* DELETE of one table without conditions */
} wr_sql;

/* Reads the head and leaves the parser in front of the body. Unknown syntax is WR_SQL_OTHER. */
void wr_sql_head(wr_parser *p, const char *default_db, wr_sql *ret_sql);

typedef enum wr_action_kind {
    WR_ACT_ADD_COLUMN = 1, /* col */
    WR_ACT_CHANGE_COLUMN,  /* CHANGE and MODIFY: name = the old name, col */
    WR_ACT_DROP_COLUMN,    /* name */
    WR_ACT_RENAME_COLUMN,  /* name, to */
    WR_ACT_SET_DEFAULT,    /* name, has_lit + lit; without: an expression */
    WR_ACT_DROP_DEFAULT,   /* name */
    WR_ACT_SET_VISIBLE,    /* name, flag = visible */
    WR_ACT_ADD_PRIMARY,    /* parts */
    WR_ACT_DROP_PRIMARY,
    WR_ACT_DROP_KEY,       /* name: an index, or (flag) a constraint of any kind; the primary key when its name is PRIMARY */
    WR_ACT_ADD_UNIQUE, WR_ACT_ADD_INDEX, WR_ACT_ADD_CHECK,
    WR_ACT_FOREIGN_KEY,    /* fk */
    WR_ACT_DROP_FOREIGN_KEY, /* name */
    WR_ACT_RENAME_TABLE,   /* table */
    WR_ACT_CONVERT,        /* charset (NULL = the database's default), collation */
    WR_ACT_CHARSET,        /* the table's default: charset, collation */
    WR_ACT_ENGINE,         /* name */
    WR_ACT_PARTITION,      /* partitioning changes; flag = rows may go away */
    WR_ACT_EXCHANGE,       /* table: rows are swapped with it */
    WR_ACT_PARTITION_TO_TABLE, WR_ACT_TABLE_TO_PARTITION, /* table */
    WR_ACT_IMPORT,         /* the rows are others now */
    WR_ACT_VERSIONING,     /* flag: added, else dropped */
    WR_ACT_PERIOD,         /* PERIOD FOR SYSTEM_TIME(name, to) */
    WR_ACT_APPLICATION_PERIOD, /* PERIOD FOR x(parts): they become NOT NULL */
    WR_ACT_NOTHING,        /* known, and of no consequence */
} wr_action_kind;

typedef struct wr_ddl_fk {
    const char *name;        /* of the constraint, NULL = the server makes one */
    wr_ddl_name parent;      /* db "" = that of the table itself */
    const char **parts; int nparts;
    bool inlined;            /* in a column definition */
    uint8_t on_delete, on_update; /* wr_my_rule */
} wr_ddl_fk;

typedef struct wr_ddl_column {
    const char *name;
    bool first;
    const char *after;
    wr_ddl_type type;
    int null_attr;           /* 0 not said, 1 NULL, 2 NOT NULL */
    bool has_default, default_expr;
    wr_ddl_lit lit;
    bool on_update, auto_increment, primary, unique, check;
    const wr_ddl_fk *references; /* NULL = none */
    bool generated, stored, invisible, row_start, row_end, with_versioning;
} wr_ddl_column;

typedef struct wr_ddl_action {
    wr_action_kind kind;
    bool if_exists;          /* IF EXISTS or IF NOT EXISTS */
    bool flag, has_lit;
    const wr_ddl_column *col;
    const char *name, *to;
    const char **parts; int nparts; /* key columns; NULL = an expression */
    wr_ddl_name table;
    const char *charset, *collation;
    wr_ddl_lit lit;
    const wr_ddl_fk *fk;
} wr_ddl_action;

typedef struct wr_ddl_body {
    wr_ddl_action *a; int n, cap;
    bool like; wr_ddl_name like_table;
    bool as_select;
    const char *charset, *collation, *engine; /* CREATE's table options and those of CREATE/ALTER DATABASE */
} wr_ddl_body;

/* The rest of CREATE TABLE and ALTER TABLE behind the head. p->bad says what was not understood. */
void wr_ddl_parse_create(wr_parser *p, const char *default_db, wr_ddl_body *ret_body);
void wr_ddl_parse_alter(wr_parser *p, const char *default_db, wr_ddl_body *ret_body);
void wr_ddl_parse_database(wr_parser *p, wr_ddl_body *ret_body);
/* Tables that an ALTER TABLE names besides its own (RENAME TO, EXCHANGE, CONVERT); tolerant: for tables that do not matter. */
void wr_ddl_scan_alter(wr_parser *p, const char *default_db, wr_sql *sql);

#endif
