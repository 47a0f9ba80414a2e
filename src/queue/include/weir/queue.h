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

typedef enum wr_queue_codec {
    WR_QUEUE_LZ4 = 0, /* blocks of 16 KiB and more, when it saves an eighth: half the disk for 0.6 CPU seconds per million rows of 400 bytes */
    WR_QUEUE_PLAIN,
} wr_queue_codec;

/* Sees what has just been written to the segment file, decoded from the very bytes. @thread the queue's writer; must not call the queue */
typedef struct wr_queue_tap {
    void *ctx;
    void (*change)(void *ctx, wr_slice piece, bool more); /* a long payload comes in pieces of some kilobytes and up, `more` with all but the last; the first has 32 bytes or more */
    void (*end)(void *ctx, uint64_t offset, int64_t event_time_us); /* the changes before it belong to this transaction */
    void (*abort)(void *ctx);                                      /* the changes since the last end do not count */
    void (*failed)(void *ctx, const wr_err *err);                   /* memory is out: some of it could not be looked at */
} wr_queue_tap;

typedef struct wr_queue_options { /* zero means default */
    uint64_t segment_bytes;  /* 128 MiB; at most max_bytes / 4, since only whole segments can be released */
    uint64_t max_bytes;      /* 16 GiB: above it `end` waits for release; one transaction may be larger */
    uint32_t block_bytes;    /* 256 KiB: records are framed, checksummed and compressed in blocks of about this size. 4 KiB to 8 MiB.
                              * The queue keeps at most some 40 blocks in memory (10 MiB), and one for each reader */
    uint32_t sync_every_us;  /* 5000: group commit: the sync that makes a transaction durable begins at most this long after its
                              * end, and at once when there was none for this long */
    wr_queue_codec codec;
    wr_queue_tap tap;        /* change NULL: nobody looks */
} wr_queue_options;

typedef enum wr_record_kind { WR_REC_CHANGE = 1, WR_REC_DDL = 2, WR_REC_STALE = 3 /* u32 table, slice why: it changed without row events */,
                              WR_REC_GAP = 4 /* the first of its transaction: the source's log has a gap in front of it; JSON, docs/formats/repair.md */ } wr_record_kind;

/* Opens or creates the folder. A torn tail (unfinished block or transaction) is cut off; damage in the middle is
 * WR_E_CORRUPT and names segment file, byte and the way out. */
wr_code wr_queue_open(const char *dir, const wr_queue_options *opts, wr_queue **ret_queue, wr_err *err);
void wr_queue_close(wr_queue *q); /* syncs what has ended; drops an open transaction */

/* ---- producer
 *
 * Failures. After WR_E_NOSPC and WR_E_NOMEM (retry soon; the writer tries again by itself, and once for each of these calls) the
 * queue and the open transaction are as before the call: repeat the same call with the same arguments, or abort. Only a record larger
 * than a block may be half inside then: until its append has been repeated, nothing but that or an abort is accepted
 * (WR_E_INVAL; with another record that cannot be told apart, and is a programming error). The same holds after WR_E_CANCELLED.
 * After WR_E_IO (a failed write or fdatasync) the queue accepts nothing more: what is durable can be read to its end, then close
 * and open it again. fdatasync is never repeated as if nothing had happened. */
/* Adds a record to the open transaction; opens one when none is. Returns when it is in memory or written, not when durable: it
 * waits only while 16 blocks are on their way to the disk. At most 4 GiB; the reader puts it together in memory. */
wr_code wr_queue_append(wr_queue *q, wr_record_kind kind, wr_slice payload, wr_err *err);
/* The same for a payload that lies in several places. */
wr_code wr_queue_append_parts(wr_queue *q, wr_record_kind kind, const wr_slice *parts, int nparts, wr_err *err);
/* Closes the open transaction (an empty one is fine: it only moves the position) at source position `pos`, committed at
 * event_time_us. *ret_offset is its offset. Waits while the segments that hold anything unreleased are over max_bytes, unless
 * everything ended has been released (WR_E_CANCELLED after wr_queue_stop: the transaction is still open then). Who reads
 * must therefore release what it has at the latest when a read times out. */
wr_code wr_queue_end(wr_queue *q, const wr_pos *pos, int64_t event_time_us, uint64_t *ret_offset, wr_err *err);
/* Drops the open transaction, as if it had never been appended. What of it is in the file already is cut off, durably; when that
 * fails the queue has failed (WR_E_IO, as above). */
wr_code wr_queue_abort(wr_queue *q, wr_err *err);
/* Waits until everything ended so far is durable. WR_E_NOSPC while the disk stays full: ask again. */
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
    wr_slice payload;       /* borrowed until the next read. A large one (base/large.h): the reader has entered, and leaves with the next read */
    const wr_pos *pos;      /* end of transaction only; borrowed until the next read */
    int64_t event_time_us;  /* end of transaction only */
} wr_queue_record;

/* Starts behind transaction `after` (0 = from the first one). WR_E_NOTFOUND when that part has been released; WR_E_CORRUPT when
 * the queue ends before `after`: it has lost its end (damage in the last blocks before a crash cannot be told from a torn write),
 * or is not the queue that was read before. */
wr_code wr_queue_reader_new(wr_queue *q, uint64_t after, wr_queue_reader **ret_reader, wr_err *err);
void wr_queue_reader_free(wr_queue_reader *r);
void wr_queue_reader_only_ends(wr_queue_reader *r); /* it gives no other records from now on */
/* Next record of a whole, durable transaction. WR_E_TIMEOUT when none came within timeout_ms (0 = only look, -1 = for ever): only
 * ever between two transactions. WR_E_CANCELLED after wr_queue_stop, and the error of a failed queue, come when everything durable
 * has been read. WR_E_CORRUPT names segment file, byte, the last good transaction and the way out; WR_E_NOTFOUND: released under
 * the reader's feet. After an error the reader stands where it stood. */
wr_code wr_queue_read(wr_queue_reader *r, int timeout_ms, wr_queue_record *ret_record, wr_err *err);

/* ---- retention */
/* Everything up to and including `offset` is in the lake: whole segments below it may go, the last one never. WR_E_INVAL beyond
 * what is durable. Not remembered itself: after opening again the queue may begin before it. */
wr_code wr_queue_release(wr_queue *q, uint64_t offset, wr_err *err);

typedef struct wr_queue_stats {
    uint64_t first_offset, last_offset, durable_offset, released_offset;
    uint64_t bytes;            /* on disk */
    uint64_t bytes_in, syncs;  /* since open: payload bytes appended, fdatasync calls */
} wr_queue_stats;
void wr_queue_get_stats(wr_queue *q, wr_queue_stats *ret_stats);

#endif
