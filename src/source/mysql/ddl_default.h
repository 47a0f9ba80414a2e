/* Literal defaults: from SQL to the canonical text of wr_my_col.default_text, and from there to the value that old rows get.
 * The rule of both steps: exactly what the server does, or "not certain", never a guess. */
#ifndef WEIR_SOURCE_MYSQL_DDL_DEFAULT_H
#define WEIR_SOURCE_MYSQL_DDL_DEFAULT_H

#include "ddl_type.h"

typedef enum wr_lit_kind { WR_LIT_NULL = 1, WR_LIT_STRING, WR_LIT_NUMBER, WR_LIT_HEX /* 0x41 */, WR_LIT_XHEX /* x'41' */, WR_LIT_BIN } wr_lit_kind;
typedef struct wr_ddl_lit {
    wr_lit_kind kind;
    const char *text;  /* STRING: UTF-8; NUMBER: with sign, as written; others: digits */
    size_t n;
    bool odd;          /* an introducer or bytes that are no text: not certain */
} wr_ddl_lit;

typedef struct wr_ddl_session {
    wr_ddl_server sv;
    const char *time_zone; /* NULL = unknown */
    bool utf8_client;      /* the statement came in utf8mb4, so that a string's bytes are what they look like */
} wr_ddl_session;

/* Sets has_default, default_text, default_expr of c, whose type is final, to the literal. False when memory is out. */
bool wr_ddl_default_set(wr_my_col *c, const wr_ddl_lit *lit, const wr_ddl_session *se);

#endif
