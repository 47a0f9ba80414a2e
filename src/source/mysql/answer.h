/* Answers of the server to statements, read packet by packet with limits of ours: libmariadb would keep as many columns and rows as the server likes to send,
 * believe its counts, and read past the end of a row that is cut. A request for a local file (LOAD DATA LOCAL) is an error, whatever was asked.
 * An answer that makes no sense is WR_E_DECODE, no retry, and the connection is cut: what comes behind it would be read as something else.
 * Client protocol: MySQL internals manual, "Text Resultset", "COM_STMT_PREPARE Response", "Binary Protocol Resultset".
 * @thread one at a time, that of the connection */
#ifndef WEIR_SOURCE_MYSQL_ANSWER_H
#define WEIR_SOURCE_MYSQL_ANSWER_H

#include <mysql.h>
#include "weir/base/arena.h"
#include "weir/base/buf.h"
#include "weir/base/err.h"

/* 4096 columns are the servers' own limit; keys of ENUM and SET are asked for twice. */
#define WR_MY_COLUMNS_MAX 8192
/* Rows of one answer that is kept as a whole: definitions of a database's tables, lists of files. */
#define WR_MY_ANSWER_MAX ((size_t)256 << 20)
/* One packet on connections that read neither rows of tables nor the binlog, and while a connection is made. */
#define WR_MY_PACKET_MAX ((size_t)64 << 20)

/* What a result set's columns are. */
typedef struct wr_my_fields {
    unsigned n;
    MYSQL_FIELD *v;     /* type, flags, length, decimals, charsetnr and name are set */
    char (*names)[64];  /* cut when longer */
} wr_my_fields;
void wr_my_fields_clear(wr_my_fields *f);

/* Sends a statement and reads up to the first row; ret->n = 0: there are none to come. */
wr_code wr_my_ask(MYSQL *m, const char *sql, wr_my_fields *ret, wr_err *err);
/* The same with rows in the binary protocol. *ret_id is to be given to wr_my_forget once the last row was read. */
wr_code wr_my_ask_binary(MYSQL *m, const char *sql, uint32_t *ret_id, wr_my_fields *ret, wr_err *err);
void wr_my_forget(MYSQL *m, uint32_t id);
/* The next row's packet, valid until the next call; *ret_n = 0: there are no more. `doing` is for errors. */
wr_code wr_my_next_row(MYSQL *m, const char *doing, uint8_t **ret_p, size_t *ret_n, wr_err *err);

/* Cuts a row of the text protocol of n bytes into values in place; packet[n] must be writable. Values end with a NUL, a null is NULL. */
wr_code wr_my_text_row(uint8_t *packet, size_t n, unsigned ncols, char **ret_row, unsigned long *ret_lengths, wr_err *err);
/* One column's definition. */
wr_code wr_my_column_parse(wr_slice packet, MYSQL_FIELD *ret, char name[64], wr_err *err);

#endif
