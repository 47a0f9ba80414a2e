/* The ordered durable queue between source and pipeline.
 *
 * Its unit is the source transaction: records are appended to the open transaction, `end` closes it and gives it the next
 * offset (1, 2, 3, ... without gaps). A transaction becomes visible to readers and acknowledged to the source only once
 * it is whole and durable. What is in the queue is the source's acknowledged position: after a crash capture goes on behind
 * wr_queue_last. A transaction of any size streams to disk as it comes; memory stays bounded by options.
 *
 * @thread one producer thread (append, end, abort, sync), any number of readers, one thread per reader; release and stats any.
 */
#ifndef WEIR_QUEUE_H
#define WEIR_QUEUE_H

#include <stdint.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"
#include "weir/model.h"

typedef struct wr_queue wr_queue;
typedef struct wr_queue_reader wr_queue_reader;

typedef struct wr_queue_options { /* zero means default */
    uint64_t segment_bytes;  /* 128 MiB */
    uint64_t max_bytes;      /* 16 GiB: above it `end` waits for release; one transaction may be larger */
    uint32_t block_bytes;    /* 256 KiB: records are framed, checksummed and compressed in blocks of about this size */
    uint32_t sync_every_us;  /* 5000: group commit: ended transactions are durable at most this long after */
} wr_queue_options;

typedef enum wr_record_kind { WR_REC_CHANGE = 1, WR_REC_DDL = 2 } wr_record_kind;

/* Opens or creates the folder. A torn tail (unfinished block or transaction) is cut off; damage in the middle is
 * WR_E_CORRUPT and names segment file, byte and the way out. */
wr_code wr_queue_open(const char *dir, const wr_queue_options *opts, wr_queue **ret_queue, wr_err *err);
void wr_queue_close(wr_queue *q); /* syncs what has ended; drops an open transaction */

/* ---- producer */
/* Adds a record to the open transaction; opens one when none is. Returns when it is in memory or written, not when durable. */
wr_code wr_queue_append(wr_queue *q, wr_record_kind kind, wr_slice payload, wr_err *err);
/* Closes the open transaction (an empty one is fine: it only moves the position) at source position `pos`, committed at
 * event_time_us. *ret_offset is its offset. Waits while the queue is over max_bytes (WR_E_CANCELLED after wr_queue_stop). */
wr_code wr_queue_end(wr_queue *q, const wr_pos *pos, int64_t event_time_us, uint64_t *ret_offset, wr_err *err);
/* Drops the open transaction, as if it had never been appended. */
wr_code wr_queue_abort(wr_queue *q, wr_err *err);
/* Waits until everything ended so far is durable. */
wr_code wr_queue_sync(wr_queue *q, wr_err *err);
/* Last ended transaction's offset and position; offset 0 and position "none" for a queue that never held one. At open these
 * are the durable ones. ret_pos must be cleared by the caller. */
wr_code wr_queue_last(wr_queue *q, uint64_t *ret_offset, wr_pos *ret_pos, wr_err *err);
uint64_t wr_queue_next_offset(wr_queue *q); /* the offset the open transaction will get */
/* Wakes every waiting call, which then return WR_E_CANCELLED; records already durable can still be read by wr_queue_read. */
void wr_queue_stop(wr_queue *q);

/* ---- readers */
typedef struct wr_queue_record {
    uint64_t offset;        /* of its transaction */
    uint8_t kind;           /* wr_record_kind, or 0: the end of the transaction, without payload */
    wr_slice payload;       /* borrowed until the next read */
    const wr_pos *pos;      /* end of transaction only; borrowed until the next read */
    int64_t event_time_us;  /* end of transaction only */
} wr_queue_record;

/* Starts behind transaction `after` (0 = from the first one). WR_E_NOTFOUND when that part has been released. */
wr_code wr_queue_reader_new(wr_queue *q, uint64_t after, wr_queue_reader **ret_reader, wr_err *err);
void wr_queue_reader_free(wr_queue_reader *r);
/* Next record of a whole, durable transaction. WR_E_TIMEOUT when none came within timeout_ms (0 = only look, -1 = for ever). */
wr_code wr_queue_read(wr_queue_reader *r, int timeout_ms, wr_queue_record *ret_record, wr_err *err);

/* ---- retention */
/* Everything up to and including `offset` is in the lake: whole segments below it may go. */
wr_code wr_queue_release(wr_queue *q, uint64_t offset, wr_err *err);

typedef struct wr_queue_stats {
    uint64_t first_offset, last_offset, released_offset;
    uint64_t bytes;            /* on disk */
    uint64_t bytes_in, syncs;  /* since open: payload bytes appended, fdatasync calls */
} wr_queue_stats;
void wr_queue_get_stats(wr_queue *q, wr_queue_stats *ret_stats);

#endif
