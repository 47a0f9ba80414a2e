/* Prepared XA transactions: the binlog holds their rows at XA PREPARE, and whether they count at XA COMMIT or XA ROLLBACK, maybe days
 * and restarts later. Until then the rows lie in one file each: docs/formats/xa-spool.md.
 *
 * Life of a file: written as <id>.xa.tmp while the rows arrive; <id>.xa from the moment the prepare is durable; <id>.<offset>.<number>.done
 * once its rows were handed over with the commit at that position; gone ten minutes later, at a start from behind that commit, or at rollback.
 * @thread stream */
#ifndef WEIR_SOURCE_MYSQL_XA_SPOOL_H
#define WEIR_SOURCE_MYSQL_XA_SPOOL_H

#include "event.h"
#include "weir/model.h"

typedef struct wr_xa_spool wr_xa_spool;

/* `from` is the acknowledged position the stream starts at: what was prepared behind it is thrown away (it will be read again), what was
 * committed behind it becomes prepared again, what was committed at or before it is deleted. WR_E_IO, WR_E_CORRUPT. */
wr_code wr_xa_spool_open(const char *dir, const wr_pos *from, wr_xa_spool **ret_spool, wr_err *err);
void wr_xa_spool_close(wr_xa_spool *s);
/* Removes every file of a spool in the folder, which need not be there. */
wr_code wr_xa_spool_wipe(const char *dir, wr_err *err);

/* One transaction is being read at a time. begin throws away an unfinished one. */
wr_code wr_xa_spool_begin(wr_xa_spool *s, const wr_xid *xid, wr_err *err);
wr_code wr_xa_spool_add(wr_xa_spool *s, const wr_change *c, wr_err *err);
void wr_xa_spool_discard(wr_xa_spool *s);
/* Makes it durable: on return the position may move to `pos`, the end of the prepare. */
wr_code wr_xa_spool_prepare(wr_xa_spool *s, const wr_pos *pos, wr_err *err);
/* Hands over what was added and forgets it: a one-phase commit. */
typedef wr_code wr_xa_change_fn(void *ctx, const wr_change *c, wr_err *err);
wr_code wr_xa_spool_one_phase(wr_xa_spool *s, wr_xa_change_fn *fn, void *ctx, uint64_t *ret_rows, wr_err *err);

bool wr_xa_spool_has(const wr_xa_spool *s, const wr_xid *xid);
/* Hands over the rows of a prepared transaction and marks its file as committed at `pos`. WR_E_NOTFOUND, WR_E_CORRUPT. */
wr_code wr_xa_spool_commit(wr_xa_spool *s, const wr_xid *xid, const wr_pos *pos, wr_xa_change_fn *fn, void *ctx, uint64_t *ret_rows, wr_err *err);
wr_code wr_xa_spool_rollback(wr_xa_spool *s, const wr_xid *xid, wr_err *err); /* an unknown one is fine */
/* Deletes the files of transactions committed more than age_us ago. What the sink took that long ago is durable by any measure; should it not
 * be, the stream still finds the rows in the binlog. wr_xa_spool_commit does it on its own with ten minutes. */
wr_code wr_xa_spool_expire(wr_xa_spool *s, int64_t age_us, wr_err *err);

#endif
