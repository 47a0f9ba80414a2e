/* A database server as the pipeline sees it: preflight, table definitions, snapshot reading, change stream.
 * The only implementation is src/source/mysql (MySQL 8+/9, MariaDB 10.4+).
 *
 * @thread wr_source is shared and immutable after open apart from its catalogue of tables, which belongs to the stream thread
 * (functions marked @stream). Each snapshot reader and each stream has a connection of its own and is used by one thread.
 */
#ifndef WEIR_SOURCE_H
#define WEIR_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"
#include "weir/model.h"

typedef struct wr_source wr_source;

/* AUTO is PREFERRED for a server on this machine (a socket, localhost, a loopback address) and VERIFY for any other. */
typedef enum wr_tls { WR_TLS_AUTO = 0, WR_TLS_DISABLED, WR_TLS_PREFERRED, WR_TLS_REQUIRED, WR_TLS_VERIFY } wr_tls;
typedef enum wr_zero_date { WR_ZERO_NULL = 0, WR_ZERO_EPOCH, WR_ZERO_STRING, WR_ZERO_ERROR } wr_zero_date;
typedef enum wr_time_as { WR_TIME_MICROS = 0, WR_TIME_STRING } wr_time_as;

typedef enum wr_prefer { WR_PREFER_REPLICA = 0, WR_PREFER_PRIMARY, WR_PREFER_ANY } wr_prefer;

/* What a pipeline that has run before remembers of its server. */
typedef struct wr_source_known {
    const char *identity;              /* wr_source_identity */
    uint32_t epoch;                    /* of positions taken there */
    const char *gtid_set;              /* everything captured; NULL = nothing, or without GTIDs */
    bool only;                         /* no other server will do: a process beside the sync, which is to see what the sync sees */
} wr_source_known;

typedef struct wr_source_options { /* strings are borrowed during open only */
    const char *host, *user, *password; /* password never appears in messages */
    int port;
    const char *const *hosts; int nhosts; /* more servers of the cluster, "host" or "host:port"; account and TLS are the same everywhere */
    const char *const *topology_command; int ntopology_command; /* or a service that names them: a command and its arguments, */
    const char *topology_url;          /* or an address that is read; asked at every choice. docs/operate/failover.md has its answer */
    wr_prefer prefer;                  /* among several */
    const char *zone;                  /* where this process is; NULL = no matter */
    const wr_source_known *known;      /* NULL: nothing yet, every server will do */
    bool behind_gap;                   /* where no server has what comes behind `known` any more, one that has it all will do: the stream is begun anew there */
    wr_tls tls;
    const char *tls_ca;                /* PEM file, NULL = system's */
    const char *const *capture; int ncapture;  /* anchored POSIX extended regular expressions on "db.table" */
    const char *const *exclude; int nexclude;
    wr_zero_date zero_date;
    wr_time_as time_as;
    uint32_t server_id;                /* as a replica; 0 = derived from the pipeline's name and host */
    const char *pipeline_name;         /* for server_id and the replica's visible name */
    uint64_t snapshot_rows_per_second; /* 0 = no limit; over all readers of this source */
    int max_readers;                   /* statements that read tables at once, likewise; 0 = no limit, at most 64 */
    const char *budget_path;           /* file through which all processes share these two (docs/formats/budget.md); NULL = this one alone */
    int max_threads_running, max_replica_lag_s; /* wr_source_wait_until_calm; 0 = no limit */
    size_t packet_max;                 /* largest row or event that is taken; 0 = 1 GiB, what servers send at most, or the memory that there is without 128 MiB */
    const char *spool_dir;             /* for prepared XA transactions; created when needed */
} wr_source_options;

/* More than one address: there may be another server to go on at. */
static inline bool wr_source_is_several(const wr_source_options *o) { return o->nhosts > 0 || o->ntopology_command > 0 || o->topology_url; }

typedef enum wr_flavor { WR_MARIADB = 1, WR_MYSQL = 2 } wr_flavor;

/* Connects, finds out what it is, closes again on failure. WR_E_AUTH, WR_E_NET (retry soon), WR_E_UNSUPPORTED. With `known` it is the server that is known, or, where that does
 * not answer or is not fit any more, another one of the cluster which has everything that was captured: then positions are of the next epoch. No other server is ever opened: WR_E_CONFLICT
 * names the transactions that exist only in what was captured, or says that the servers are of another cluster; WR_E_SERVER (retry soon): a replica is still behind; WR_E_GAP: those that have all
 * of it have purged what comes behind. */
wr_code wr_source_open(const wr_source_options *opts, wr_source **ret_source, wr_err *err);
void wr_source_close(wr_source *s);
/* Ends every connection of s and lets it make no other: whoever waits for a server that has frozen gets an error. What is left to do is to close it. @thread any */
void wr_source_cut(wr_source *s);
/* Ends the connection of wr_source_stream, which then need not wait for the rest of an event. @thread any */
void wr_source_cut_stream(wr_source *s);
wr_flavor wr_source_flavor(const wr_source *s);
const char *wr_source_version(const wr_source *s);
/* What tells this server's history from any other's: MySQL "uuid", MariaDB "domain/server id + first binlog's identity" as far as it has one. Stable text. */
const char *wr_source_identity(const wr_source *s);
uint32_t wr_source_epoch(const wr_source *s);      /* of its positions */
const char *wr_source_address(const wr_source *s); /* "host:port" */
/* Whether the pipeline that follows s, and has captured gtid_set, should go on at another server now. leave: s has failed. Asks every server; an error says why there is none to go to.
 * opts: those of wr_source_open. @thread any */
wr_code wr_source_look_elsewhere(const wr_source *s, const wr_source_options *opts, const char *gtid_set, bool leave, bool *ret_better, wr_err *err);
bool wr_source_captures(const wr_source *s, const char *db, const char *name);

/* ------------------------------------------------------------------ preflight */
typedef enum wr_severity { WR_FINDING_STOPS = 1, WR_FINDING_WARNS, WR_FINDING_NOTES } wr_severity;
typedef struct wr_finding {
    wr_severity severity;
    const char *id;                 /* stable, e.g. "binlog-format" */
    char what[512], consequence[512], cure[512];
} wr_finding;
/* Looks at everything that can go wrong; calls finding for each, the worst first within a topic, and table (may be NULL) for every captured table as it is now, so that the
 * caller can look for more. */
typedef struct wr_check_sink {
    void *ctx;
    void (*finding)(void *ctx, const wr_finding *f);
    wr_code (*table)(void *ctx, const wr_ddl *ddl, wr_err *err);
} wr_check_sink;
wr_code wr_source_check(wr_source *s, const wr_check_sink *sink, wr_err *err);

/* The same kind of findings while a pipeline runs: whether the server is still the one that is believed, its replication and the other servers, how long binlog files are kept. */
typedef struct wr_inspection {
    void *ctx;
    const wr_pos *captured;            /* the end of what is captured */
    int64_t behind_us;                 /* how old the newest captured change is while there are newer ones, else 0 */
    void (*finding)(void *ctx, const wr_finding *f);
    wr_code (*table)(void *ctx, const char *db, const char *name, wr_err *err); /* each table there that the patterns name; helpers of online schema changes left out. NULL = not wanted */
} wr_inspection;
/* *ret_better: it should go on at another server, as in wr_source_look_elsewhere. opts: those of wr_source_open. @thread any */
wr_code wr_source_inspect(const wr_source *s, const wr_source_options *opts, const wr_inspection *in, bool *ret_better, wr_err *err);

/* ------------------------------------------------------------------ positions */
/* The end of the binlog now: everything committed before the call is at or before it. */
wr_code wr_source_now(wr_source *s, wr_pos *ret_pos, wr_err *err);
/* The same of the whole source, where that has several servers and s is a replica: waits until s has what the primary had at the call. opts: those of wr_source_open. WR_E_TIMEOUT. */
wr_code wr_source_current(wr_source *s, const wr_source_options *opts, wr_pos *ret_pos, wr_err *err);
/* A position to start streaming from such that every row state a later SELECT can see, and which is not in the stream from
 * there on, was committed before it (MariaDB: consistent snapshot; MySQL: gtid_executed, or a moment of FLUSH TABLES WITH READ LOCK
 * without GTID). The tables' definitions of that moment become the source's catalogue; tables get ids from first_table_id on. @stream */
wr_code wr_source_begin(wr_source *s, uint32_t first_table_id, wr_pos *ret_pos, wr_err *err);

/* A position for which the same holds without definitions: everything at or before it is visible to a SELECT that starts after the call. */
wr_code wr_source_settled(wr_source *s, wr_pos *ret_pos, wr_err *err);

/* ------------------------------------------------------------------ gaps */
/* What the server has of its binlog. */
typedef struct wr_source_logs {
    wr_pos first, end;        /* the first position available (without a GTID set), and the last */
    bool there;               /* the position that was asked about is in one of its files (of another server's log: what comes behind its GTID set is); whether it is the same history only the stream finds out */
    uint64_t bytes_behind;    /* from there to the end; 0 when it is not there, or its place in this server's log is not known */
    uint64_t bytes, keep_bytes; /* of all files; above keep_bytes the oldest are purged, 0 = no such limit */
    int64_t keep_s;           /* files are purged at this age, 0 = never */
} wr_source_logs;
wr_code wr_source_get_logs(wr_source *s, const wr_pos *at, wr_source_logs *ret_logs, wr_err *err); /* @any */
void wr_source_logs_clear(wr_source_logs *l);
/* What lies between the catalogue's position and *ret_pos, a position as wr_source_begin gives one, is not to be had from the stream. The catalogue becomes that of *ret_pos; a captured table that
 * was there under the same name keeps its id, and each of its columns too where the lake can follow. fn gets, in this order: WR_DDL_DROP of tables that are gone (WR_ROWS_LEFT: not named by the patterns
 * any more); WR_DDL_ALTER of those that were changed (WR_ROWS_RELOAD: not only in what the source alone remembers), WR_DDL_CREATE with WR_ROWS_RELOAD of new ones, and WR_DDL_HIDDEN. What was prepared before it and is
 * not in the binlogs any more is waited for, then refused. @stream */
wr_code wr_source_rebase(wr_source *s, wr_code (*fn)(void *ctx, const wr_ddl *ddl, wr_err *err), void *ctx, wr_pos *ret_pos, wr_err *err);

/* ------------------------------------------------------------------ catalogue */
/* Forgets every table; ids go on from next_table_id. Before putting back what was recorded. @stream */
wr_code wr_source_forget(wr_source *s, uint32_t next_table_id, wr_err *err);
/* Puts back what was recorded (restart): every event of wr_state_schema_load. @stream */
wr_code wr_source_restore(wr_source *s, const wr_ddl *ddl, wr_err *err);
/* The captured and hidden tables of the catalogue as WR_DDL_CREATE (rows RELOAD for captured ones) and WR_DDL_HIDDEN. @stream */
wr_code wr_source_each_table(wr_source *s, wr_code (*fn)(void *ctx, const wr_ddl *ddl, wr_err *err), void *ctx, wr_err *err);

/* The patterns are not those with which the catalogue was made. Captured tables that match no longer leave it: fn gets WR_DDL_DROP with WR_ROWS_LEFT. Those that
 * match now join at *ret_at, a position as wr_source_begin gives one: the stream tells exactly this position, and wr_source_join is for then; until then their rows are
 * passed over (fn gets WR_DDL_HIDDEN) unless they are created in the stream. *ret_at "none": nobody joins. Without a stream, or in its sink.commit. @stream */
wr_code wr_source_repattern(wr_source *s, wr_code (*fn)(void *ctx, const wr_ddl *ddl, wr_err *err), void *ctx, wr_pos *ret_at, wr_err *err);
/* fn gets WR_DDL_CREATE with WR_ROWS_RELOAD of each table that joins. Without a stream, or in its sink.commit, at that position. @stream */
wr_code wr_source_join(wr_source *s, wr_code (*fn)(void *ctx, const wr_ddl *ddl, wr_err *err), void *ctx, wr_err *err);
/* Whether rows of the table that `def` describes may change without row events (wr_stream_sink.stale). @any */
bool wr_source_hides_changes(const wr_source *s, const char *def);

/* ------------------------------------------------------------------ snapshot */
typedef struct wr_snap wr_snap;
/* Key tuples in the source's own literal form; opaque, printable without newlines, safe to keep in JSON after escaping. NULL or ""
 * = open end. */
typedef struct wr_key_range { char *after; char *upto; /* after < key <= upto */ } wr_key_range;
void wr_key_range_clear(wr_key_range *r);

/* Opens a reader for one table as `def` (wr_ddl.def) describes it. WR_E_SCHEMA when the server's present definition differs from
 * `def` (another DDL is on its way in the stream), WR_E_NOTFOUND when the table is gone (likewise). */
wr_code wr_snap_open(wr_source *s, const char *def, wr_snap **ret_snap, wr_err *err);
void wr_snap_close(wr_snap *sn);
const wr_schema *wr_snap_schema(const wr_snap *sn);
/* Rows the server estimates. */
uint64_t wr_snap_estimate(const wr_snap *sn);
/* Cuts the key space into at most `parts` ranges that cover it, of about equal size where that is cheap to know. Without a key: one
 * range. ret_ranges has room for `parts`. */
wr_code wr_snap_split(wr_snap *sn, int parts, wr_key_range *ret_ranges, int *ret_n, wr_err *err);
/* Reads the next at most max_rows rows of the range in key order; *ret_after (owned) is where to go on, NULL when the range is done.
 * Honours the rate limit. Every row goes through fn in row encoding. On error nothing is known of what fn has seen: throw it away.
 * WR_E_SCHEMA, WR_E_NOTFOUND as in open. Tables without a key: see wr_snap_read_all. */
typedef wr_code wr_row_fn(void *ctx, wr_slice row, wr_err *err);
wr_code wr_snap_chunk(wr_snap *sn, const wr_key_range *range, uint64_t max_rows, wr_row_fn *fn, void *ctx, char **ret_after, wr_err *err);
/* A table without a key: all rows as of exactly *ret_pos. */
wr_code wr_snap_read_all(wr_snap *sn, wr_row_fn *fn, void *ctx, wr_pos *ret_pos, wr_err *err);

/* The rows with these keys as they are now, in any order; keys that are not there give none. keys[i * columns + k]: text of the k-th key column of the i-th key, as wr_value_print
 * writes the lake's value. WR_E_UNSUPPORTED: a key column has no exact text. WR_E_INVAL: a text that is none of the column's. */
int wr_snap_key_columns(const wr_snap *sn);
wr_code wr_snap_find(wr_snap *sn, const char *const *keys, int nkeys, wr_row_fn *fn, void *ctx, wr_err *err);

/* The server counts the rows and sums up a checksum of each row's text, so that none goes over the wire, as of exactly *ret_pos. */
typedef enum wr_sum_of { WR_SUM_NOTHING /* rows are only counted */, WR_SUM_CRC32, WR_SUM_MD5 /* the first 64 bits of it */ } wr_sum_of;
typedef struct wr_snap_total { uint64_t rows, sum; wr_pos pos; /* owned */ } wr_snap_total;
wr_code wr_snap_sum(wr_snap *sn, wr_sum_of what, wr_snap_total *ret_total, wr_err *err);
/* Whether the server's MD5() is there and right. WR_E_UNSUPPORTED with the way out. @thread any */
wr_code wr_source_check_md5(wr_source *s, wr_err *err);
/* Whether every column has a text that the server and wr_snap_text write alike; why not otherwise. */
bool wr_snap_can_sum(const wr_snap *sn, char why[200]);
/* The text of a row of wr_snap_schema, appended; the sum is that of such texts' checksums, modulo 2^64. Rows that the server writes otherwise after all (dates that a
 * policy replaced) give another sum, never the same by mistake. */
wr_code wr_snap_text(const wr_snap *sn, wr_slice row, wr_buf *out, wr_err *err);

/* Returns once the server has at most max_threads_running statements under way (Threads_running, ours not counted) and, where it is itself a replica, is at most max_replica_lag_s
 * behind; or once gave_up (NULL: never) says so. Who reads tables calls it before each chunk. Asks the server at most once a second; in between the last answer stands. @thread any */
wr_code wr_source_is_calm(wr_source *s, bool *ret_calm, wr_err *err); /* the same without waiting */
wr_code wr_source_wait_until_calm(wr_source *s, bool (*gave_up)(void *ctx), void *ctx, wr_err *err);

/* ------------------------------------------------------------------ stream */
/* What the stream hands over, in binlog order, on the stream's thread. Slices are borrowed during the call. A transaction is
 * changes and DDL in any order, then commit; empty ones only move the position (sent at most every 100 ms and whenever the server has nothing
 * more to send). abort: the connection was lost in the middle; forget everything since the last commit. An error from a callback
 * stops the stream with it. */
typedef struct wr_stream_sink {
    void *ctx;
    wr_code (*change)(void *ctx, const wr_change *c, wr_err *err);
    wr_code (*ddl)(void *ctx, const wr_ddl *d, wr_err *err);
    wr_code (*commit)(void *ctx, const wr_pos *pos, int64_t event_time_us, wr_err *err);
    wr_code (*abort)(void *ctx, wr_err *err);
    /* The stream reads this binlog file, which the server began at created_s (seconds since 1970). Told before anything of the file, so that a reset
     * history is noticed even where file name and offset exist again. May be NULL. */
    wr_code (*binlog)(void *ctx, const char *file, uint32_t created_s, wr_err *err);
    /* Called about every 200 ms while waiting and between transactions. true = stop. */
    bool (*stopping)(void *ctx);
    /* Rows of a captured table change in this transaction without row events: a foreign key with CASCADE or SET NULL, on a server that does not log what
     * those do; or it cannot be told whether some of its changes in this transaction were undone (ROLLBACK TO SAVEPOINT). The table must be read again; where and why is in `why`. At most once a transaction and table, in front of the change that is the cause.
     * NULL = not wanted. */
    wr_code (*stale)(void *ctx, uint32_t table, const char *why, wr_err *err);
} wr_stream_sink;

typedef struct wr_stream_stats {   /* read by any thread, each field atomically */
    uint64_t bytes, events, rows, transactions;
    uint64_t replaced_dates;       /* zero and partial dates that became null or the epoch by the policy, those of snapshots included */
    int64_t last_event_us;         /* the server's time of the newest event, 0 = none */
    int64_t waiting_us;            /* monotonic; since when the stream has been waiting for the server's next packet, 0 = it is not. A server that answers sends a heartbeat each second */
    int64_t last_packet_us;        /* our time of the newest packet, heartbeats included: the server answers */
} wr_stream_stats;

/* Streams from `from` until `stopping` (WR_OK) or an error. A `from` of an earlier epoch is gone on from by its GTID set. The caller retries WR_RETRY_SOON errors by calling again with the last
 * committed position. Refuses a position the server no longer has, or of another history: WR_E_GAP. @stream */
wr_code wr_source_stream(wr_source *s, const wr_pos *from, const wr_stream_sink *sink, wr_err *err);
void wr_source_stream_stats(const wr_source *s, wr_stream_stats *ret_stats);

#endif
