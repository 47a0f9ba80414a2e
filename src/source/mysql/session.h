/* Connections to the server that a source follows. */
#ifndef WEIR_SOURCE_MYSQL_SESSION_H
#define WEIR_SOURCE_MYSQL_SESSION_H

#include <pthread.h>
#include "conn.h"

/* What tells the server of m from any other, owned: MySQL "uuid", MariaDB "mariadb-domain-server_id". MySQL's server_uuid lives in the data folder and goes with it. MariaDB has nothing of
 * the kind (@@server_uid follows the machine's network card): domain and server_id are what its GTIDs are made of, so they tell histories apart as far as GTIDs do. */
wr_code wr_my_identity(MYSQL *m, char **ret_identity, wr_err *err);

/* Connects to s's server. An address may lead to another server by now, whose rows and positions are of another history: WR_E_SERVER, retry soon. @thread any */
wr_code wr_my_follow(const wr_source *s, MYSQL **ret_mysql, wr_err *err);

/* The same for a few statements: one that was given back, if there is one, since a new one costs a handshake, with TLS 100 ms of CPU. Its settings are those of wr_my_connect.
 * @thread any */
wr_code wr_my_session(wr_source *s, MYSQL **ret_mysql, wr_err *err);
/* Gives it back, between statements; its transaction and its locks end. rc: of what it was used for; after an error it is closed. NULL = none. @thread any */
void wr_my_session_end(wr_source *s, MYSQL *m, wr_code rc);

/* Those given back, of one source. */
enum { WR_MY_SESSIONS_KEPT = 8 };
typedef struct wr_my_sessions {
    pthread_mutex_t lock; /* guards everything below */
    struct { MYSQL *m; int64_t since_us; } at[WR_MY_SESSIONS_KEPT]; /* the last one given back is the last */
    int n;
} wr_my_sessions;
void wr_my_sessions_init(wr_my_sessions *k);
void wr_my_sessions_close(wr_my_sessions *k); /* when no session is out */

#endif
