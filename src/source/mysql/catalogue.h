/* The tables of the source as they are at the stream's position: found once in information_schema, then kept current by the
 * DDL in the binlog. Knows every table whose schema could become a captured one's (shadow tables included).
 * @thread stream */
#ifndef WEIR_SOURCE_MYSQL_CATALOGUE_H
#define WEIR_SOURCE_MYSQL_CATALOGUE_H

#include "conn.h"
#include "def.h"

typedef struct wr_catalogue wr_catalogue;

/* Which tables are captured: anchored patterns on "db.table"; server schemas (mysql, information_schema, performance_schema, sys) never. */
typedef struct wr_capture wr_capture;
wr_code wr_capture_new(const char *const *capture, int ncapture, const char *const *exclude, int nexclude, wr_capture **ret, wr_err *err);
void wr_capture_free(wr_capture *c);
/* lower_case_table_names of the server: 0 = names of databases and tables compare exactly (the default), 1 and 2 = without case. */
void wr_capture_set_lower_case(wr_capture *c, int lower_case_table_names);
int wr_capture_lower_case(const wr_capture *c);
bool wr_capture_matches(const wr_capture *c, const char *db, const char *name);
/* The capture patterns one by one, for `weir check`: how many, the text as written, and whether one alone (exclusions aside) matches. */
int wr_capture_patterns(const wr_capture *c);
const char *wr_capture_pattern(const wr_capture *c, int i);
bool wr_capture_pattern_matches(const wr_capture *c, int i, const char *db, const char *name);
/* True when a capture pattern names this very table (no metacharacters in it): then it is meant, whatever its name looks like. */
bool wr_capture_names(const wr_capture *c, const char *db, const char *name);
/* gh-ost's and pt-osc's helper tables: _t_gho, _t_ghc, _t_del, _t_new, _t_old (also numbered and shortened forms). On yes, ret_base gets "t"; NULL allowed.
 * A table with such a name is a helper, and not captured, when its base is a captured table at the moment the helper appears, unless wr_capture_names it. */
bool wr_is_shadow_name(const char *name, char *ret_base, size_t base_cap);
bool wr_is_shadow_of(const char *name, const char *base); /* the forms that have more than one possible base included */

wr_code wr_catalogue_new(const wr_capture *capture, wr_my_types types, wr_flavor flavor, wr_catalogue **ret, wr_err *err);
void wr_catalogue_free(wr_catalogue *c);

/* Reads definitions from information_schema: all captured tables (db = NULL), or one table. Every BASE TABLE, views and sequences left out. *ret_tables: owned array of
 * owned tables, finished, without a table id, columns numbered from 1; helpers of online schema changes have captured = false, and so have MariaDB's sequences, which have no
 * columns here: their rows are in the binlog and must be passed over. With a name: also a table that is not captured; *ret_n = 0 when there is
 * no such table. Needs only SELECT on the tables concerned. */
wr_code wr_catalogue_read_server(MYSQL *m, const wr_capture *capture, wr_my_types types, wr_flavor flavor, const char *db, const char *name,
                                 wr_my_table ***ret_tables, int *ret_n, wr_err *err);
/* Adds to the tables of read_server those that are not captured and whose changes reach a captured one by foreign keys, possibly through others: without columns,
 * not captured, with their own foreign keys. */
wr_code wr_catalogue_read_parents(MYSQL *m, const wr_capture *capture, wr_flavor flavor, wr_my_table ***tables, int *n, wr_err *err);
/* The foreign keys of t (db, name) as the server has them now; none when it is not there or not to be seen. */
wr_code wr_catalogue_read_fks(MYSQL *m, wr_flavor flavor, wr_my_table *t, wr_err *err);
/* Same columns, types, charsets, labels, key, in the same order (ids and versions aside). On no, why (may be NULL) names the first difference. */
bool wr_my_table_same(const wr_my_table *a, const wr_my_table *b, char *why, size_t why_cap);

/* Takes the table over; gives it id, version 1 and column ids when it has none. */
wr_code wr_catalogue_add(wr_catalogue *c, wr_my_table *t, wr_err *err);
/* A transaction of the stream was handed over (commit) or will be read again (rollback): what its DDL did to the catalogue stays or is undone.
 * The stream calls commit after every sink.commit that succeeded, and rollback before sink.abort and whenever it starts. */
void wr_catalogue_commit(wr_catalogue *c);
void wr_catalogue_rollback(wr_catalogue *c);
/* The server was restarted at this place of the binlog (a format description event with a creation time): its temporary tables are gone. */
void wr_catalogue_server_started(wr_catalogue *c);
/* Whether this id is a captured table's. */
bool wr_catalogue_has(const wr_catalogue *c, uint32_t id);
/* Rises with every change of what is known: what was looked up before may be out of date. */
uint64_t wr_catalogue_generation(const wr_catalogue *c);
void wr_catalogue_set_next_id(wr_catalogue *c, uint32_t next_table_id);
wr_code wr_catalogue_restore(wr_catalogue *c, const wr_ddl *ddl, wr_err *err);
wr_code wr_catalogue_each(wr_catalogue *c, wr_code (*fn)(void *ctx, const wr_my_table *t, wr_err *err), void *ctx, wr_err *err);

/* The captured table of this name now, or NULL. Borrowed until the next statement is applied. A quick look-up by TABLE_MAP's names. */
const wr_my_table *wr_catalogue_find(const wr_catalogue *c, const char *db, const char *name);
/* True when rows of this table must be decoded (it is captured); false = pass over by table id. WR_E_SCHEMA through `find` being NULL while captured is true:
 * the stream then stops with an error that names the table and position. */
bool wr_catalogue_captured(const wr_catalogue *c, const char *db, const char *name);

typedef enum wr_statement_kind {
    WR_STMT_IGNORED = 0, /* cannot touch a captured table */
    WR_STMT_DDL,         /* applied; events were emitted (maybe none) */
    WR_STMT_BEGIN, WR_STMT_COMMIT, WR_STMT_ROLLBACK, WR_STMT_SAVEPOINT, WR_STMT_ROLLBACK_TO,
    WR_STMT_XA_START, WR_STMT_XA_END, WR_STMT_XA_PREPARE, WR_STMT_XA_COMMIT, WR_STMT_XA_ROLLBACK,
} wr_statement_kind;

/* What of the session a QUERY event carries that matters for reading its text. */
typedef struct wr_statement {
    const char *default_db;     /* "" = none */
    wr_slice sql;               /* in `charset` */
    const char *charset;        /* character_set_client of the event: "utf8mb4", "gbk", ... NULL = utf8mb4 */
    const char *collation_server; /* NULL = unknown */
    const char *time_zone;      /* of the session ("+00:00", "SYSTEM"), NULL = unknown: then literal defaults of TIMESTAMP columns are read from the server */
    uint64_t session;           /* thread id of the event: temporary tables belong to it; 0 = unknown */
    int explicit_timestamp;     /* MySQL's explicit_defaults_for_timestamp of the event: 1 on, 0 off, -1 unknown (taken as on for MySQL 8+ and MariaDB 10.10+) */
    uint64_t sql_mode;          /* ANSI_QUOTES (4), NO_BACKSLASH_ESCAPES (0x100000 MariaDB and MySQL) matter */
    const char *file; uint64_t offset; uint32_t epoch; /* where the event begins; file NULL = not known */
    bool is_mariadb;
    bool maybe_nothing;         /* MySQL: no engine committed it, so as DDL it changed nothing or was one of an engine that cannot (MyISAM) */
    uint32_t server_version;    /* 101119, 90704: decides which executable comments count */
} wr_statement;

/* Classifies a QUERY event's statement and applies DDL. emit gets one wr_ddl per table changed, in order, of captured tables and (kind HIDDEN) of
 * shadow and other remembered tables. A statement that changes rows of a captured table by SQL text (INSERT, UPDATE, DELETE, REPLACE, LOAD, CALL... in STATEMENT
 * format) is WR_E_UNSUPPORTED with a message that has the words "statement" and "binlog_format", the table and the cure. DDL on a captured table that
 * cannot be followed: WR_E_UNSUPPORTED, naming table and statement. m: a connection for definitions that are not known (may be NULL in tests). */
wr_code wr_catalogue_statement(wr_catalogue *c, const wr_statement *st, MYSQL *m,
                               wr_code (*emit)(void *ctx, const wr_ddl *d, wr_err *err), void *ctx, wr_statement_kind *ret_kind, wr_err *err);

#endif
