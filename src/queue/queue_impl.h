/* What the queue's own files share. One lock for everything; no file is touched with it held, except that an abort cuts the
 * active segment (rare, and nobody else may go on meanwhile).
 *
 *   producer ──cur──▶ ring: sealed, unwritten ──writer thread──▶ ring: written (block cache) ──▶ readers
 *                                                    │ pwrite, fdatasync                           ▲
 *                                                    └──────────▶ segment files ──────pread────────┘
 */
#ifndef WEIR_QUEUE_IMPL_H
#define WEIR_QUEUE_IMPL_H

#include <pthread.h>
#include "segment.h"
#include "weir/queue.h"

#define RING 1024u              /* blocks in memory at most; a power of two */
#define INFLIGHT_BLOCKS 16u     /* x block_bytes: sealed and not yet written; full = the producer waits */
#define CACHE_BLOCKS 32u        /* x block_bytes: all blocks in the ring */
#define SPARES_MAX 2
#define SYNC_BYTES (32u << 20)  /* inside one transaction: sync after this much, so that its end is not slow */
#define RETRY_US 200000         /* after a full disk the writer tries again by itself */

/* A block in memory. Immutable once in the ring, apart from where it is on disk. data[BLOCK_HDR ..) are the raw bytes;
 * the room in front is for the header, behind for padding, so that an uncompressed block is written as it lies. */
typedef struct block {
    int refs;               /* lock: queue.lock */
    uint8_t flags;
    uint32_t ends, records;
    uint64_t first;
    size_t n, cap;          /* raw bytes */
    wr_buf pos;             /* encoded position behind the last end; empty without one */
    uint64_t seg_id, at, disk_bytes; /* 0 until written. lock: queue.lock */
    uint8_t *data;
} block;

struct wr_queue {
    wr_queue_options opts;  /* with defaults filled in */
    char *dir;
    wr_lock *dir_lock;
    pthread_t thread;
    bool thread_on;

    pthread_mutex_t lock;   /* everything below */
    pthread_cond_t work;     /* for the writer */
    pthread_cond_t progress; /* for the producer and whoever waits for sync */
    pthread_cond_t readable; /* for readers */

    /* the open block: [0, cut) whole transactions, [cut, n) the open one */
    block *cur;
    size_t cut;
    uint32_t cut_records;
    bool cur_inside;        /* the block before it ended inside a transaction */
    uint64_t open_parts;    /* blocks of the open transaction already in the ring or written */
    size_t piece_done;      /* bytes of the record that a failed append has already handed over */
    wr_buf end_buf;         /* an encoded end */
    pos_state last;         /* last ended position; base: refers to an end in cur */
    uint64_t last_offset;   /* last ended */

    /* blocks lo <= seq < hi are in ring[seq % RING]; those below `next` are written */
    block *ring[RING];
    uint64_t lo, next, hi;
    size_t ring_bytes, inflight_bytes;
    block *free_blocks[4];
    int nfree;

    struct { pos_state pos; bool open; } tap; /* writer's: positions, and whether changes wait for their end */

    segment **segs;         /* in order; the last is the active one */
    size_t nsegs, segs_cap;
    wr_file *active;        /* the active segment's; used by the writer, or by abort while !writing */
    bool writing;           /* the writer does I/O without the lock */
    uint64_t part_at;       /* where the first part of an unfinished transaction is in the active segment; 0 = none written */
    uint64_t part_offset;   /* the transaction it belongs to: the open one, or one whose end is not written yet */
    wr_pos written_pos;     /* position behind the last written end: goes into the next segment's header */
    uint64_t written_offset, durable_offset;
    uint64_t written_at;    /* behind the block with written_offset, in the active segment */
    segment *durable_seg;   /* with durable_at: where a reader that has everything stands. Holds a reference */
    uint64_t durable_at;
    uint64_t pending_bytes; /* of segments that hold anything ended and not released */
    uint64_t released_offset;
    char *spares[SPARES_MAX]; /* paths, owned */
    int nspares;
    uint64_t spare_bytes;   /* of the spares together */

    /* writer's schedule */
    bool idle;              /* the writer waits without a deadline: an end must wake it */
    uint64_t round;         /* sync once this offset is written; 0 = none asked */
    int64_t sync_due_us;    /* monotonic */
    uint64_t sync_target;   /* somebody waits for this offset */
    bool closing, stopped;
    bool retry_now;
    uint64_t attempts;      /* of a soft failure */
    wr_err soft;            /* disk full or memory out: the writer keeps trying; code WR_OK = fine */
    wr_err failed;          /* for good; code WR_OK = fine */
    uint64_t bytes_in, syncs;

    /* writer's own */
    uint8_t *pack;          /* header, compressed bytes, padding */
    size_t pack_bytes;
    void *lz4_state;
    pthread_mutex_t release_lock; /* one release at a time; taken before `lock` */
};

/* queue.c */
block *block_new(wr_queue *q, size_t cap);      /* from the free list when cap is the usual; lock held */
void block_unref(wr_queue *q, block *b);        /* lock held */
void queue_evict(wr_queue *q);                  /* written blocks beyond the cache's limits. Lock held */
/* Puts [0, cut) of cur into the ring when it has ends, else all of it as a part. Lock held. Changes nothing on failure. */
wr_code queue_seal(wr_queue *q, wr_err *err);
void queue_count_pending(wr_queue *q);          /* lock held */
segment *segment_of(wr_queue *q, uint64_t offset); /* holds or will hold this offset; NULL when released. Lock held */
void queue_segment_unref(segment *seg);         /* lock held */
wr_code queue_failed(wr_queue *q, wr_err *err); /* copies q->failed. Lock held */
/* Waits on c until deadline_us (monotonic; -1 = for ever). false when it has passed. Lock held. */
bool queue_wait(wr_queue *q, pthread_cond_t *c, int64_t deadline_us);

/* writer.c */
void *queue_writer(void *q);

#endif
