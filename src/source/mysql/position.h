/* Positions of the server's binlog: its end, a start for a pipeline, the one of a consistent snapshot.
 * @thread one at a time per connection */
#ifndef WEIR_SOURCE_MYSQL_POSITION_H
#define WEIR_SOURCE_MYSQL_POSITION_H

#include "event.h"
#include "source_impl.h"

/* SHOW MASTER STATUS by whatever name this server has for it: end of the binlog at a transaction boundary. gtid_set:
 * MySQL's executed set, computed by the server just before it read the position, hence never more than the position
 * covers; MariaDB: NULL. WR_E_UNSUPPORTED when there is no binlog, WR_E_AUTH with the GRANT when it is not allowed. */
wr_code wr_my_binlog_end(const wr_source *s, MYSQL *m, wr_pos *ret_pos, wr_err *err);
/* The same with a GTID set on MariaDB too: all that the position covers, or, when that cannot be told, less. */
wr_code wr_my_binlog_end_gtid(const wr_source *s, MYSQL *m, wr_pos *ret_pos, wr_err *err);
/* The same again; *ret_exact: nothing is before the position that is not in the set. MySQL: with GTIDs only. */
wr_code wr_my_binlog_end_exact(wr_source *s, MYSQL *m, wr_pos *ret_pos, bool *ret_exact, wr_err *err);
/* MariaDB: START TRANSACTION WITH CONSISTENT SNAPSHOT and the position that equals it; gtid_set as above. The
 * transaction stays open on success. */
typedef enum wr_snapshot_kind {
    WR_SNAPSHOT_EXACT = 0, /* the view is that of the position */
    WR_SNAPSHOT_SETTLED,   /* what an XA COMMIT before the position commits may be missing in the view, but is visible to those after it */
    WR_SNAPSHOT_BUT_XA,    /* not even that */
} wr_snapshot_kind;
wr_code wr_my_mariadb_snapshot(wr_source *s, MYSQL *m, wr_snapshot_kind kind, wr_pos *ret_pos, wr_err *err);
/* MySQL's @@gtid_owned as a list of "uuid[:tag]:number" in *ret, one per line, sorted as the server prints them. For
 * tests. */
wr_code wr_my_parse_owned(const char *owned, wr_buf *ret, wr_err *err);

/* What the binlog says last of an XA transaction before a position. */
typedef enum wr_xa_word { WR_XA_UNKNOWN = 0, WR_XA_PREPARED, WR_XA_ENDED /* XA COMMIT or XA ROLLBACK */ } wr_xa_word;
typedef struct wr_xa_last { wr_xid xid; wr_xa_word last; bool settled; } wr_xa_last;
/* Fills in `last` of each of xa[0..n), reading the binlog files back from `before` as far as is needed. UNKNOWN: it is in none that the server still has. In stream.c. */
wr_code wr_my_xa_last(wr_source *s, const wr_pos *before, wr_xa_last *xa, int n, wr_err *err);
/* Whether there is an XA COMMIT or XA ROLLBACK behind `after`, up to `upto`, both in one file. In stream.c. */
wr_code wr_my_xa_between(wr_source *s, const wr_pos *after, const wr_pos *upto, bool *ret_any, wr_err *err);

void wr_source_join_clear(wr_source *s);

#endif
