/* One connection to the server through libmariadb: connecting, authentication, TLS, simple queries.
 * @thread one at a time */
#ifndef WEIR_SOURCE_MYSQL_CONN_H
#define WEIR_SOURCE_MYSQL_CONN_H

#include <mysql.h>
#include "lines.h"
#include "weir/source.h"

enum { WR_MY_CONNECT_TIMEOUT_S = 10 };

typedef struct wr_my_conn_options { /* kept by wr_source */
    char *host, *user, *password;
    int port;
    wr_tls tls;      /* not WR_TLS_AUTO when connecting */
    bool tls_chosen; /* by the user: else verify is only what follows from the server being elsewhere */
    char *tls_ca;
    size_t packet_max; /* for rows and events, see wr_my_take_large */
    wr_my_lines *lines;         /* that the connection belongs to; NULL = none */
    int timeout_s;              /* for connecting and for each answer; 0 = the usual ones */
} wr_my_conn_options;

/* What there is to be when o's server is `host`: the user's choice, or what follows from where it is. */
wr_tls wr_my_tls_for(const wr_my_conn_options *o, const char *host);
/* Connects; session: utf8mb4, time_zone +00:00, sql_mode '', autocommit, net timeouts, LOCAL INFILE off. Errors: WR_E_AUTH (1045, 1698, 1044, ...),
 * WR_E_NET retry soon (2002, 2003, 2005, 2006, 2013, ...), each with host:port, user, reason and cure. */
wr_code wr_my_connect(const wr_my_conn_options *o, MYSQL **ret_mysql, wr_err *err);
/* Ends its transaction and its locks. From now on a server that does not answer is found out as soon as when connecting. */
wr_code wr_my_rest(MYSQL *m, wr_err *err);
/* After a rest: the session is as it was at first, whatever was set in it. */
wr_code wr_my_renew(const wr_my_conn_options *o, MYSQL *m, wr_err *err);
void wr_my_answer_within(MYSQL *m, int seconds); /* else WR_E_NET */
void wr_my_disconnect(MYSQL *m);
/* From now on packets up to o->packet_max are taken, not only those that answers about tables and settings need. */
void wr_my_take_large(const wr_my_conn_options *o, MYSQL *m);
/* Whether the packet that comes next is of 16 MB or more. False when that cannot be seen (over TLS, between the library's own reads). */
bool wr_my_large_ahead(MYSQL *m);
/* The last packet is not needed any more: what it took of memory goes back. */
void wr_my_give_back(MYSQL *m);
/* Closes at once by cutting the socket, for a connection in the middle of a result: an orderly close would first read all of it. */
void wr_my_abandon(MYSQL *m);
/* Fills err from the connection's last error: number, SQLSTATE, message, retry class. `doing` says what was tried. */
wr_code wr_my_fail(MYSQL *m, wr_err *err, const char *doing);
/* Runs a statement without result. */
wr_code wr_my_exec(MYSQL *m, wr_err *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Runs a query, calls fn per row (text protocol; NULL for null). */
wr_code wr_my_query(MYSQL *m, wr_code (*fn)(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err), void *ctx, wr_err *err,
                    const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Calls fn for every value of every row with its column's name. */
wr_code wr_my_query_named(MYSQL *m, void (*fn)(void *ctx, const char *name, const char *value), void *ctx, const char *sql, wr_err *err);
/* First column of the first row, owned; NULL when there is no row or it is null. */
wr_code wr_my_scalar(MYSQL *m, char **ret_text, wr_err *err, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* `name` -> `na``me` appended to b. */
void wr_my_quote_name(wr_buf *b, const char *name);
/* it's -> 'it\'s' appended to b; right in sessions of wr_my_connect only (sql_mode ''). */
void wr_my_quote_text(wr_buf *b, const char *s);

#endif
