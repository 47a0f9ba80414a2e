/* Column types as written in SQL and as information_schema shows them.
 * @thread one at a time */
#ifndef WEIR_SOURCE_MYSQL_DDL_TYPE_H
#define WEIR_SOURCE_MYSQL_DDL_TYPE_H

#include "ddl_lexer.h"
#include "def.h"

/* Tokens with one of look-ahead; the first fault sticks and ends the text. */
typedef struct wr_parser {
    wr_lexer lx;
    wr_tok t;            /* the current token */
    size_t last_end;     /* where the token before it ended */
    uint64_t sql_mode;
    bool is_mariadb;
    uint32_t version;
    bool lossy;          /* the statement had bytes its character set does not define (now U+FFFD) */
    const char *bad;     /* what was expected, NULL = fine so far */
    size_t bad_at;
} wr_parser;

void wr_parser_init(wr_parser *p, wr_slice sql, uint64_t sql_mode, bool is_mariadb, uint32_t version, wr_arena *arena);
void wr_parser_next(wr_parser *p);
wr_tok wr_parser_peek(const wr_parser *p); /* the token behind the current one */
bool wr_parser_word(wr_parser *p, const char *upper);  /* takes the keyword when it stands here */
bool wr_parser_punct(wr_parser *p, char ch);
void wr_parser_fail(wr_parser *p, const char *expected);
void wr_parser_need_word(wr_parser *p, const char *upper);
void wr_parser_need_punct(wr_parser *p, char ch);
void wr_parser_skip_parens(wr_parser *p); /* at "(": behind the matching ")" */

/* A type as written. Strings live in the parser's arena. */
typedef struct wr_ddl_type {
    wr_my_kind kind;
    const char *geometry;      /* "point", ...; GEOMETRY only */
    bool is_unsigned, zerofill, is_bool, serial, national, compressed;
    bool has_length, has_scale;
    uint32_t length, scale;    /* as written: length, display width, precision, fractional seconds */
    uint8_t blob_bytes;        /* TEXT, BLOB: 1..4 by the keyword; 0 = BLOB(n), TEXT(n) decide by length */
    const char *charset, *collation;
    bool binary;               /* the BINARY attribute: the character set's _bin collation */
    const char **labels;
    size_t *label_lens;
    int nlabels;
} wr_ddl_type;

/* Reads type keyword, size, UNSIGNED/ZEROFILL, character set words. False (nothing read) when no type stands here. */
bool wr_ddl_type_parse(wr_parser *p, wr_ddl_type *ret_type);
/* Character set and collation words at this place ("CHARACTER SET x", "COLLATE y", ASCII, BINARY, ...). False when none is here. */
bool wr_ddl_charset_parse(wr_parser *p, wr_ddl_type *ty);

typedef struct wr_ddl_server { bool is_mariadb; uint32_t version; uint64_t sql_mode; } wr_ddl_server;

/* Fills kind, is_unsigned, length, scale, charset, collation, labels, compressed, column_type of c (the rest is left alone).
 * charset and collation are the table's defaults. WR_E_UNSUPPORTED for what cannot be told. */
wr_code wr_ddl_type_resolve(const wr_ddl_type *ty, const wr_ddl_server *sv, const char *charset, const char *collation, wr_my_col *c, wr_err *err);
/* The same from information_schema's COLUMN_TYPE, CHARACTER_SET_NAME and COLLATION_NAME. */
wr_code wr_ddl_type_from_server(const char *column_type, const char *charset, const char *collation, const wr_ddl_server *sv, wr_my_col *c, wr_err *err);
/* Converts a text column as CONVERT TO CHARACTER SET does. */
wr_code wr_ddl_type_convert(wr_my_col *c, const wr_ddl_server *sv, const char *charset, const char *collation, wr_err *err);

/* row_start or row_end of a table WITH SYSTEM VERSIONING that names no period columns: hidden, the last two in the binlog whatever is added later (measured, MariaDB
 * 10.11). Not `generated`, which tells them from period columns with names of their own. c is zero before. */
wr_code wr_my_period_column(wr_my_col *c, bool end, const wr_ddl_server *sv, wr_err *err);

int wr_my_charset_maxlen(const char *charset);              /* bytes per character; 1 when unknown */
const char *wr_my_charset_alias(const char *charset);       /* lower case; utf8 -> utf8mb3; static or the argument */
const char *wr_my_default_collation(const char *charset, const wr_ddl_server *sv); /* NULL when unknown */
/* "utf8mb4" of "utf8mb4_bin"; in buf. */
const char *wr_my_charset_of(const char *collation, char buf[64]);

#endif
