/* Which parts of a transaction the server undid, told by its SAVEPOINT and ROLLBACK TO events. Mostly the server cuts its cache at the savepoint instead, and
 * only the SAVEPOINT is left; MariaDB leaves both statements and the changes between them when something that cannot be undone happened meanwhile (a change of a
 * MyISAM or Aria table, a temporary table made or dropped). What was undone is known when its changes have gone by, so the applier reads such a transaction
 * twice: once for the ranges, once for the changes outside them. Here are only places and names; memory is bounded by the limits below.
 * @thread stream */
#ifndef WEIR_SOURCE_MYSQL_SAVEPOINT_H
#define WEIR_SOURCE_MYSQL_SAVEPOINT_H

#include "weir/base/buf.h"

#define WR_SAVEPOINT_NAMES_MAX 65536   /* different names in a transaction */
#define WR_SAVEPOINT_RANGES_MAX 1000000

/* An event: the offset behind it, and which one it is inside a TRANSACTION_PAYLOAD. */
typedef struct wr_place { uint64_t offset; uint32_t nested; } wr_place;
static inline int wr_place_cmp(wr_place a, wr_place b) {
    return a.offset != b.offset ? (a.offset < b.offset ? -1 : 1) : (a.nested > b.nested) - (a.nested < b.nested);
}

typedef struct wr_savepoints wr_savepoints;
wr_savepoints *wr_savepoints_new(void); /* NULL when memory is out */
void wr_savepoints_free(wr_savepoints *s);
void wr_savepoints_clear(wr_savepoints *s); /* another transaction */

typedef enum wr_savepoint_word { WR_SP_NONE = 0, WR_SP_SET, WR_SP_ROLLBACK_TO } wr_savepoint_word;
/* Reads the statement as servers write it: SAVEPOINT `a``b`, ROLLBACK TO "a", ROLLBACK TO SAVEPOINT a. The name is UTF-8 whatever the session's character set
 * is; it is appended to `name`. WR_SP_NONE: another statement, or one that is not written so. */
wr_savepoint_word wr_savepoint_parse(wr_slice sql, wr_buf *name);

/* `changes` counts what has gone by of transactional captured tables, in any unit: nothing was undone where it did not move. */
wr_code wr_savepoints_set(wr_savepoints *s, wr_slice name, wr_place at, uint64_t changes, wr_err *err);
/* Whether two names that differ as bytes are one for the server. NULL = cannot be asked. */
typedef wr_code wr_savepoint_same_fn(void *ctx, wr_slice a, wr_slice b, bool *ret_same, wr_err *err);
/* Everything between the savepoint and `at` was undone. WR_E_UNSUPPORTED: no such savepoint. */
wr_code wr_savepoints_rollback_to(wr_savepoints *s, wr_slice name, wr_place at, uint64_t changes, wr_savepoint_same_fn *same, void *ctx, wr_err *err);
wr_code wr_savepoints_rollback(wr_savepoints *s, wr_place at, wr_err *err); /* everything up to `at` was undone */

/* Something of transactional tables was undone, or may have been: the transaction must be read a second time. */
bool wr_savepoints_any(const wr_savepoints *s);
bool wr_savepoints_undone(const wr_savepoints *s, wr_place at);
/* Whether the event was undone cannot be told: its savepoint's name was set twice. A second SAVEPOINT of a name deletes the first, except in a trigger or stored
 * function, which has savepoints of its own; the binlog does not say where a SAVEPOINT stood. wr_savepoints_undone answers for the ordinary case. */
bool wr_savepoints_doubtful(const wr_savepoints *s, wr_place at);

#endif
