/* The servers of a source: what each says of itself, and at which of them a pipeline goes on. README.md, "Several servers".
 * @thread any; nothing is shared */
#ifndef WEIR_SOURCE_MYSQL_TOPOLOGY_H
#define WEIR_SOURCE_MYSQL_TOPOLOGY_H

#include "conn.h"
#include "source_impl.h"

typedef enum wr_role { WR_ROLE_UNKNOWN = 0, WR_ROLE_PRIMARY, WR_ROLE_REPLICA } wr_role;

/* An address, and what the server there says. */
typedef struct wr_my_server {
    char *host; int port;
    char *zone;              /* of the topology service, or NULL */
    int weight;              /* 0 to 1000, of the topology service; more is better, 0 = not to be used */
    wr_role told;            /* by the topology service */
    bool answers;            /* everything below is known */
    wr_err why;              /* when not */
    wr_flavor flavor;
    char *identity;
    char *executed;          /* as wr_gtid_missing takes it; "" = nothing, or no GTIDs */
    char *purged;            /* what is in no binlog file any more (MariaDB: the state in front of the first file); NULL = not known */
    bool gtid, binlog, log_updates, read_only;
    wr_role role;
    bool threads_known;      /* the account may ask for */
    bool io_running, sql_running; /* a replica's threads */
    int64_t lag_s;           /* -1 = not known */
    char *filters;           /* what keeps changes out of its binlog, of which its GTIDs say nothing; NULL = none */
    char *oldest;            /* first binlog file */
} wr_my_server;

typedef struct wr_my_servers { wr_my_server *at; int n; } wr_my_servers;
void wr_my_servers_clear(wr_my_servers *all);
void wr_my_server_forget(wr_my_server *sv); /* all that it said */

/* The addresses that source.topology names right now, or those of the configuration. In topology_ask.c. */
wr_code wr_my_servers_list(const wr_source_options *o, wr_my_servers *ret, wr_err *err);
/* Nobody but the one that s is. */
bool wr_my_servers_only(const wr_my_servers *all, const wr_source *s);
/* Asks each, on a connection of its own with short time-outs. A server that does not answer is no error. */
void wr_my_servers_ask(const wr_my_conn_options *conn, wr_my_servers *all);
/* What one connection's server says of itself. */
wr_code wr_my_server_ask(MYSQL *m, wr_my_server *sv, wr_err *err);

typedef struct wr_my_choice {
    const wr_source_known *known; /* NULL: any that can be captured */
    wr_prefer prefer;
    const char *zone;             /* NULL = no matter */
    const char *leave;            /* identity of a server that does not come into question, NULL = none */
    bool behind_gap;              /* what comes behind `known` may be gone */
    bool starting;                /* nothing is under way: a preference alone is reason enough to move */
} wr_my_choice;
/* At which server to go on: the known one when it is there and fits, or one of whose history `known` is a part, and which has all that comes behind it. Errors say of each server why not:
 * WR_RETRY_SOON where waiting may help; WR_RETRY_NO where what was captured exists nowhere (the transactions are named) or the servers are another cluster's. */
wr_code wr_my_servers_choose(const wr_my_servers *all, const wr_my_choice *c, int *ret_index, wr_err *err);
/* Whether it still has what comes behind the captured transactions. Not known counts as yes: the server says so itself when it is asked for them. */
bool wr_my_server_reaches_back(const wr_my_server *sv, const char *captured);
/* What `to` has executed is nothing that sv knows of: they are of different clusters, as far as GTIDs tell. Both answer. */
bool wr_my_server_foreign(const wr_my_server *sv, const wr_my_server *to);
/* Transactions that `sv` has and the primary of its cluster among `all` has not, "" = none or not known. A replica must have been asked before the primary. */
wr_code wr_my_server_errant(const wr_my_servers *all, const wr_my_server *sv, wr_buf *ret_names, wr_err *err);

#endif
