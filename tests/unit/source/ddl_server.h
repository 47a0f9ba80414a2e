/* The DDL tracker against a real server: runs a statement, feeds the catalogue with what the server wrote into its binlog, and compares. */
#ifndef TEST_SOURCE_DDL_SERVER_H
#define TEST_SOURCE_DDL_SERVER_H

#include "mysql/source_impl.h"

typedef struct server {
    wr_my_conn_options conn;
    MYSQL *m;              /* the session statements run in */
    MYSQL *admin;          /* looks at the binlog and at information_schema; asked by the tracker */
    bool is_mariadb;
    uint32_t version;
    wr_capture *capture;
    wr_my_types types;
    wr_catalogue *cat;
    char **defs; int ndefs; /* by table id: the last event's definition, as wr_state keeps it; NULL = dropped or never there */
    char file[256];
    unsigned long long pos;
    char names[32];         /* character set of the session's statements */
    int ddl, compared, rows_checked, reloads, fills, keeps, asked;
    bool may_ask;           /* whether the tracker gets a connection for what it cannot follow */
    char failure[40000];     /* what does not agree; "" = everything does */
} server;

/* "host:port:user:password". False when there is no such server. */
bool server_open(server *s, const char *where, const char *capture);
void server_close(server *s);
/* Drops what the tracker knows and reads the definitions anew: as a pipeline begins. */
bool server_begin(server *s);
/* Runs one statement and checks everything it caused. Its own error is no failure: returns the server's error number, 0 = fine. */
unsigned server_run(server *s, const char *sql);
bool server_quiet(server *s, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* admin, not tracked */

#endif
