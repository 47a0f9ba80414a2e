/* SQL text to tokens, as MySQL and MariaDB read it: quotes by sql_mode, comments, executable comments by flavour and version.
 * Never fails: what it does not know becomes a punctuation token, an unclosed quote or comment ends the text.
 * @thread one at a time */
#ifndef WEIR_SOURCE_MYSQL_DDL_LEXER_H
#define WEIR_SOURCE_MYSQL_DDL_LEXER_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/base/arena.h"
#include "weir/base/buf.h"

typedef enum wr_tok_kind {
    WR_TOK_END = 0,
    WR_TOK_WORD,   /* unquoted identifier or keyword */
    WR_TOK_NAME,   /* quoted identifier, unquoted here */
    WR_TOK_STRING, /* quoted string, unescaped here; also N'...' */
    WR_TOK_NUMBER, /* digits as written */
    WR_TOK_HEX,    /* 0x41 or x'41': text is the digits */
    WR_TOK_BIN,    /* 0b1 or b'1': text is the digits */
    WR_TOK_PUNCT,  /* one character */
} wr_tok_kind;

typedef struct wr_tok {
    uint8_t kind;     /* wr_tok_kind */
    char ch;          /* PUNCT; HEX and BIN: 'x' for the quoted form, '0' for the other; STRING: 'n' for national */
    const char *text; /* NUL-terminated copy in the arena ("" when the arena was full) */
    size_t n;
    size_t at, end;   /* byte offsets in the statement */
} wr_tok;

typedef struct wr_lexer { /* may be copied to look ahead */
    const uint8_t *sql;
    size_t n, at;
    bool ansi_quotes, no_backslash_escapes;
    bool is_mariadb;
    uint32_t version;      /* 101119, 90704; 0 = execute every executable comment */
    bool in_executable;    /* inside a comment whose text counts */
    bool after_dot;        /* name. was just read: what follows is a name whatever it looks like */
    wr_arena *arena;
    bool full;             /* the arena's limit or memory was reached: tokens are not to be trusted */
} wr_lexer;

void wr_lexer_init(wr_lexer *lx, wr_slice sql, uint64_t sql_mode, bool is_mariadb, uint32_t version, wr_arena *arena);
void wr_lexer_next(wr_lexer *lx, wr_tok *ret_tok);

static inline bool wr_tok_is(const wr_tok *t, char punct) { return t->kind == WR_TOK_PUNCT && t->ch == punct; }
bool wr_tok_word(const wr_tok *t, const char *upper); /* keyword, without case */
/* One of several keywords: index or -1. */
int wr_tok_words(const wr_tok *t, const char *const *upper, int n);

#define WR_MODE_REAL_AS_FLOAT (1ull << 0)
#define WR_MODE_ANSI_QUOTES (1ull << 2)
#define WR_MODE_ORACLE (1ull << 9)         /* MariaDB */
#define WR_MODE_MAXDB (1ull << 12)         /* MariaDB */
#define WR_MODE_NO_BACKSLASH (1ull << 20)
#define WR_MODE_STRICT (3ull << 21)        /* STRICT_TRANS_TABLES, STRICT_ALL_TABLES */

#endif
