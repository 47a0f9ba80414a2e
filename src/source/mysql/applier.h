/* The life of transactions: events in binlog order go in, changes, DDL, commits and aborts come out at the sink. Knows no connection:
 * fed by the stream, and by tests and benchmarks from files.
 * @thread stream */
#ifndef WEIR_SOURCE_MYSQL_APPLIER_H
#define WEIR_SOURCE_MYSQL_APPLIER_H

#include "catalogue.h"
#include "event.h"
#include "gtid.h"
#include "xa_spool.h"

typedef struct wr_applier wr_applier;

typedef struct wr_applier_env {
    const wr_stream_sink *sink;
    wr_catalogue *catalogue;
    wr_my_types types;
    wr_flavor flavor;
    bool gtid;                   /* positions carry a GTID set when the start has one */
    bool native_fk;              /* MySQL since 9.6 with innodb_native_foreign_keys: cascades are not logged, as before */
    size_t event_max;            /* what a compressed event may become; 0 = WR_EVENT_MAX */
    wr_xa_spool *spool;          /* NULL: an XA transaction is an error */
    const wr_pos *join_at;       /* a position that must be told, "" or NULL = none (wr_source_repattern) */
    wr_stream_stats *stats;      /* may be NULL */
    void *ctx;                   /* of those below */
    /* A connection for definitions; NULL = there is none. */
    wr_code (*connection)(void *ctx, MYSQL **ret_mysql, wr_err *err);
    /* An XA COMMIT came whose prepare was not seen since the start: fetch it into the spool. NULL = cannot. */
    wr_code (*hunt)(void *ctx, const wr_xid *xid, wr_err *err);
    /* The transaction that has just ended was undone in part (savepoint.h): feed the events from `at` on, where it begins, a second time. What was given of it
     * is taken back (sink.abort). NULL = cannot; such a transaction is an error. */
    wr_code (*again)(void *ctx, const wr_pos *at, wr_err *err);
    /* A search only, may be NULL: every XA PREPARE, and every XA COMMIT and XA ROLLBACK of what was prepared. */
    void (*xa_word)(void *ctx, const wr_xid *xid, bool prepared);
} wr_applier_env;

/* `from`: what has been delivered; without a file, the stream begins by its GTID set at a server of another epoch, and no position is told before one is known
 * (the first transaction's, or wr_applier_place). env is copied. */
wr_code wr_applier_new(const wr_applier_env *env, const wr_pos *from, wr_applier **ret_applier, wr_err *err);
void wr_applier_free(wr_applier *a);

/* One event's bytes. Errors of the binlog name file, offset and event type; those of the sink come back as they are. */
wr_code wr_applier_feed(wr_applier *a, wr_slice event, wr_err *err);
/* Nothing more is there to read now: hands over a position that is still to be told. */
wr_code wr_applier_idle(wr_applier *a, wr_err *err);
/* Begun by GTID: no transaction is on its way, and `at` (a file's name and an offset) is behind exactly what `from` covered. */
bool wr_applier_unplaced(const wr_applier *a);
void wr_applier_place(wr_applier *a, const wr_pos *at);
bool wr_applier_in_transaction(const wr_applier *a);
/* The stream ends here, for whatever reason: abort to the sink when a transaction was begun there. */
wr_code wr_applier_cut(wr_applier *a, wr_err *err);
/* Where it stands: behind the last event. Borrowed. */
const char *wr_applier_file(const wr_applier *a);
uint64_t wr_applier_offset(const wr_applier *a);

/* For a search: takes nothing but the XA transaction `xid`, whose rows go into the spool when its prepare is met. */
void wr_applier_search(wr_applier *a, const wr_xid *xid);
bool wr_applier_found(const wr_applier *a);

#endif
