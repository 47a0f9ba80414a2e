/* What the parts of the MySQL source share: wr_source itself. */
#ifndef WEIR_SOURCE_MYSQL_SOURCE_IMPL_H
#define WEIR_SOURCE_MYSQL_SOURCE_IMPL_H

#include <pthread.h>
#include "budget.h"
#include "catalogue.h"
#include "conn.h"
#include "def.h"
#include "session.h"
#include "value.h"

struct wr_source {
    wr_my_conn_options conn;      /* owned strings */
    wr_flavor flavor;
    uint32_t version_num;         /* 101119, 90704 */
    char *version;
    char *address;                /* "host:port" */
    char *identity;
    bool native_fk;               /* MySQL since 9.6: innodb_native_foreign_keys=ON, so cascades are not logged */
    bool gtid;                    /* MySQL: gtid_mode=ON; MariaDB: always */
    uint32_t epoch;               /* of every position taken here */
    uint32_t server_id;
    char *pipeline_name;
    char *spool_dir;
    wr_my_types types;
    wr_capture *capture;
    wr_my_table **join; int njoin; /* @thread stream: tables that join at join_at; entries taken over are NULL */
    wr_pos join_at;               /* "" = nobody */
    wr_my_sessions sessions;
    wr_catalogue *catalogue;      /* @thread stream */
    wr_budget *budget;            /* of reading tables */
    pthread_mutex_t calm_lock;    /* guards the next two */
    int64_t calm_at_us;           /* the server was asked how busy it is */
    bool busy;                    /* its answer */
    int max_threads_running, max_replica_lag_s; /* 0 = no limit */
    pthread_mutex_t view_lock;    /* one exact view at a time: opening one may read the binlog, and as a replica a source is there once */
    wr_stream_stats stats;        /* atomics */
    MYSQL *_Atomic stream;        /* its connection, for whoever ends it; NULL = none */
};

#endif
