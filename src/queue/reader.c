/* Reading: from the block cache near the tail, else from the segment files. Only whole, durable transactions are handed
 * out. */
#include "queue_impl.h"

#include <stdio.h>
#include "weir/base/clock.h"
#include "weir/base/large.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

struct wr_queue_reader {
    wr_queue *q;
    uint64_t next; /* the transaction the next record belongs to */
    uint64_t skip; /* transactions up to here are passed over */
    bool only_ends;
    segment *seg;  /* holds a reference */
    uint64_t at;   /* where in it the next block is */
    wr_file *f;    /* of `seg`; NULL until something is read from the file */
    uint64_t hint; /* where in the ring the next block probably is */

    block *blk;            /* the block being read, from the cache; holds a reference. NULL: it is in `raw` */
    uint8_t *stored, *raw; /* owned */
    size_t stored_cap, raw_cap;
    wr_rd rd;           /* what is left of the block */
    uint64_t block_at;  /* where it is in `seg`, for messages */
    uint32_t ends_left; /* in the block */
    bool inside;        /* the block before ended inside a transaction */
    bool any;           /* a block was read: `inside` is known */

    wr_buf whole;       /* a record put together from pieces */
    bool large;         /* a change, and so large that others wait with theirs */
    uint8_t piece_kind; /* of the record in `whole` while more is to come, else 0 */
    pos_state pos;
};

static wr_code damaged(wr_queue_reader *r, const char *why, wr_err *err) {
    return segment_corrupt(r->seg, r->block_at, r->next - 1, r->pos.pos.file[0] ? &r->pos.pos : NULL, why, err);
}

/* ------------------------------------------------------------------ finding the next block */
/* The cached block at (r->seg, r->at). Lock held. */
static block *cached(wr_queue_reader *r) {
    wr_queue *q = r->q;
    if (r->hint >= q->lo && r->hint < q->next) {
        block *b = q->ring[r->hint % RING];
        if (b->seg_id == r->seg->hdr.id && b->at == r->at) return b;
    }
    uint64_t lo = q->lo, hi = q->next; /* in order of (first offset of the segment, at) */
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        block *b = q->ring[mid % RING];
        if (b->seg_id == r->seg->hdr.id && b->at == r->at) {
            r->hint = mid;
            return b;
        }
        bool before = b->seg_id == r->seg->hdr.id ? b->at < r->at : b->first < r->next;
        if (before)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static wr_code gone(const wr_queue_reader *r, wr_err *err) {
    return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "transaction %llu has been released from the queue",
                   (unsigned long long)r->next);
}

static wr_code grow(uint8_t **p, size_t *cap, size_t n, wr_err *err) {
    if (n <= *cap) return WR_OK;
    uint8_t *d = wr_realloc(*p, n);
    if (!d) return wr_nomem(err, "queue reader", n);
    *p = d;
    *cap = n;
    return WR_OK;
}

static wr_code open_file(wr_queue_reader *r, wr_err *err) {
    if (r->f) return WR_OK;
    wr_code rc = wr_file_open(r->seg->path, WR_OPEN_READ, &r->f, err);
    return rc == WR_E_NOTFOUND ? gone(r, err) : rc;
}

/* The header of the block at r->at, which is known to be durable. */
static wr_code file_header(wr_queue_reader *r, block_hdr *ret_h, wr_err *err) {
    uint8_t bytes[BLOCK_HDR];
    size_t n;
    WR_TRY(open_file(r, err));
    WR_TRY(wr_file_pread(r->f, r->at, bytes, sizeof bytes, &n, err));
    r->block_at = r->at;
    if (n < sizeof bytes || !block_hdr_decode(bytes, r->seg->hdr.id, ret_h)) return damaged(r, "no sound block", err);
    return WR_OK;
}

static wr_code file_block(wr_queue_reader *r, block_hdr *ret_h, wr_err *err) {
    size_t n;
    WR_TRY(file_header(r, ret_h, err));
    bool packed = ret_h->codec != CODEC_NONE;
    WR_TRY(grow(&r->raw, &r->raw_cap, ret_h->raw, err));
    if (packed) WR_TRY(grow(&r->stored, &r->stored_cap, ret_h->stored, err));
    uint8_t *d = packed ? r->stored : r->raw;
    WR_TRY(wr_file_pread(r->f, r->at + BLOCK_HDR, d, ret_h->stored, &n, err));
    if (n < ret_h->stored || wr_crc32c(0, d, n) != ret_h->crc)
        return damaged(r, "the block does not match its checksum", err);
    if (packed && !block_unpack(ret_h, d, r->raw)) return damaged(r, "the block cannot be unpacked", err);
    return WR_OK;
}

/* Lock held. To the segment behind the one that is read to its end. */
static wr_code next_segment(wr_queue_reader *r, wr_err *err) {
    segment *seg = segment_of(r->q, r->next);
    if (!seg) return gone(r, err);
    if (seg->hdr.first != r->next) return damaged(r, "the segment ends inside a transaction", err);
    seg->refs++;
    queue_segment_unref(r->seg);
    r->seg = seg;
    r->at = seg->hdr.hdr_bytes;
    wr_file_close(r->f);
    r->f = NULL;
    return WR_OK;
}

/* Lock held: waits until transaction r->next is durable. */
static wr_code wait_durable(wr_queue_reader *r, int timeout_ms, wr_err *err) {
    wr_queue *q = r->q;
    int64_t deadline = -1;
    while (r->next > q->durable_offset) {
        if (q->stopped) return wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "the queue was stopped");
        if (q->failed.code) return queue_failed(q, err);
        if (timeout_ms >= 0 && deadline < 0) deadline = wr_mono_us() + (int64_t)timeout_ms * 1000;
        if (timeout_ms == 0 || (deadline >= 0 && wr_mono_us() >= deadline))
            return wr_fail(err, WR_E_TIMEOUT, WR_RETRY_SOON, "no transaction in the queue within %d ms", timeout_ms);
        queue_wait(q, &q->readable, deadline);
    }
    return WR_OK;
}

/* Brings the next block. On failure the reader stands where it stood. */
static wr_code next_block(wr_queue_reader *r, int timeout_ms, wr_err *err) {
    wr_queue *q = r->q;
    block_hdr h;
    wr_rd rd;
    pthread_mutex_lock(&q->lock);
    block_unref(q, r->blk);
    r->blk = NULL;
    wr_code rc = wait_durable(r, timeout_ms, err);
    if (rc == WR_OK && r->seg->sealed && r->at >= r->seg->bytes) rc = next_segment(r, err);
    block *b = rc == WR_OK ? cached(r) : NULL;
    if (b) {
        b->refs++;
        h = (block_hdr){.flags = b->flags, .first = b->first, .ends = b->ends};
        rd = wr_rd_of(b->data + BLOCK_HDR, b->n);
    }
    uint64_t behind = b ? r->at + b->disk_bytes : 0;
    pthread_mutex_unlock(&q->lock);
    WR_TRY(rc);
    if (b) {
        r->blk = b;
        r->hint++;
    } else {
        WR_TRY(file_block(r, &h, err));
        rd = wr_rd_of(r->raw, h.raw);
        behind = r->at + block_disk_bytes(&h);
    }
    r->block_at = r->at;
    if (h.first != r->next || (r->any && ((h.flags & BLOCK_FIRST) != 0) == r->inside))
        return damaged(r, "a block that does not follow the one before it", err);
    r->at = behind;
    r->rd = rd;
    r->ends_left = h.ends;
    r->inside = !(h.flags & BLOCK_LAST);
    r->any = true;
    r->pos.base = false;
    return WR_OK;
}

/* ------------------------------------------------------------------ records */
/* A piece of a record, or its last one. *ret_whole: the record is complete in r->whole. */
static wr_code take_piece(wr_queue_reader *r, uint8_t tag, wr_slice body, bool *ret_whole, wr_err *err) {
    uint8_t kind = tag & REC_KIND;
    if (r->piece_kind && r->piece_kind != kind) return damaged(r, "pieces of different records", err);
    if (r->next > r->skip && !r->only_ends) {
        size_t n = r->whole.n;
        /* whoever takes a schema event may have to wait for others before the next record */
        if (kind == WR_REC_CHANGE && n + body.n >= WR_LARGE_BYTES) wr_large_hold(&r->large);
        wr_buf_put(&r->whole, body.p, body.n);
        if (r->whole.failed) {
            r->whole.failed = false;
            r->whole.n = n;
            return wr_nomem(err, "queue record", n + body.n);
        }
    }
    *ret_whole = !(tag & REC_MORE);
    r->piece_kind = *ret_whole ? 0 : kind;
    return WR_OK;
}

static wr_code take_end(wr_queue_reader *r, wr_slice body, wr_err *err) {
    if (r->piece_kind || r->ends_left == 0) return damaged(r, "an end of transaction where none can be", err);
    wr_code rc = end_decode(&r->pos, body, err);
    if (rc == WR_E_CORRUPT) {
        WR_AUTO char *why = wr_strdup(err->msg);
        return damaged(r, why ? why : "malformed end", err);
    }
    if (rc != WR_OK) return rc;
    r->ends_left--;
    r->next++;
    return WR_OK;
}

void wr_queue_reader_only_ends(wr_queue_reader *r) { r->only_ends = true; }

static void forget_record(wr_queue_reader *r) {
    wr_buf_rest(&r->whole);
    wr_large_let_go(&r->large);
}

wr_code wr_queue_read(wr_queue_reader *r, int timeout_ms, wr_queue_record *ret_record, wr_err *err) {
    if (!r->piece_kind) forget_record(r); /* else an error came in the middle of it */
    for (;;) {
        if (wr_rd_left(&r->rd) == 0) {
            if (r->ends_left) return damaged(r, "fewer ends of transactions than announced", err);
            WR_TRY(next_block(r, timeout_ms, err));
        }
        wr_rd rd = r->rd; /* consumed only when all went well */
        uint8_t tag;
        wr_slice body;
        if (!rec_next(&rd, &tag, &body)) return damaged(r, "malformed record", err);
        if ((tag & REC_KIND) == REC_END) {
            WR_TRY(take_end(r, body, err));
            r->rd = rd;
            if (r->next - 1 <= r->skip) continue;
            *ret_record = (wr_queue_record){
                .offset = r->next - 1, .kind = 0, .pos = &r->pos.pos, .event_time_us = r->pos.time_us};
            return WR_OK;
        }
        if (r->ends_left == 0 && !r->inside) return damaged(r, "a record behind the last end", err);
        if (__builtin_expect((tag & REC_MORE) || r->piece_kind, 0)) {
            bool whole = false;
            WR_TRY(take_piece(r, tag, body, &whole, err));
            r->rd = rd;
            if (!whole) continue;
            body = wr_buf_view(&r->whole);
        }
        r->rd = rd;
        if (r->next <= r->skip || r->only_ends) continue;
        *ret_record = (wr_queue_record){.offset = r->next, .kind = tag & REC_KIND, .payload = body};
        return WR_OK;
    }
}

/* ------------------------------------------------------------------ starting */
/* Walks the headers of r->seg to the block in which transaction r->skip + 1 begins. It is durable. */
static wr_code walk(wr_queue_reader *r, wr_err *err) {
    for (;;) {
        block_hdr h;
        WR_TRY(file_header(r, &h, err));
        if (h.first > r->skip + 1) return damaged(r, "a block that does not follow the one before it", err);
        r->next = h.first;
        if (h.first + h.ends > r->skip + 1 || h.first == r->skip + 1) return WR_OK;
        r->at += block_disk_bytes(&h);
        r->next = h.first + h.ends;
        /* A transaction that begins in the very next block: the walk ends there, in the next segment if need be. */
        if (r->next == r->skip + 1 && (h.flags & BLOCK_LAST)) return WR_OK;
    }
}

wr_code wr_queue_reader_new(wr_queue *q, uint64_t after, wr_queue_reader **ret_reader, wr_err *err) {
    wr_queue_reader *r = wr_calloc(1, sizeof *r);
    if (!r) return wr_nomem(err, "queue reader", sizeof *r);
    r->q = q;
    r->skip = after;
    pthread_mutex_lock(&q->lock);
    wr_code rc = WR_OK;
    bool to_walk = after < q->durable_offset;
    if (after > q->last_offset) {
        rc = wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO,
                     "%s: to be read behind transaction %llu, but the queue ends at %llu: it has lost its end, or is "
                     "another queue",
                     q->dir, (unsigned long long)after, (unsigned long long)q->last_offset);
        wr_err_cure(err, "bring the queue's folder back from a copy, or compare and repair what was fed from it");
    } else if (to_walk) {
        r->seg = segment_of(q, after + 1);
        r->next = after + 1;
        if (!r->seg)
            rc = gone(r, err);
        else
            r->at = r->seg->hdr.hdr_bytes;
    } else {
        r->seg = q->durable_seg;
        r->at = q->durable_at;
        r->next = q->durable_offset + 1;
    }
    if (r->seg) r->seg->refs++;
    pthread_mutex_unlock(&q->lock);
    if (to_walk && r->seg) {
        r->next = r->seg->hdr.first;
        rc = walk(r, err);
    }
    if (rc != WR_OK) {
        wr_queue_reader_free(r);
        return rc;
    }
    *ret_reader = r;
    return WR_OK;
}

void wr_queue_reader_free(wr_queue_reader *r) {
    if (!r) return;
    pthread_mutex_lock(&r->q->lock);
    block_unref(r->q, r->blk);
    queue_segment_unref(r->seg);
    pthread_mutex_unlock(&r->q->lock);
    wr_file_close(r->f);
    wr_free(r->stored);
    wr_free(r->raw);
    wr_buf_free(&r->whole);
    wr_large_let_go(&r->large);
    pos_state_free(&r->pos);
    wr_free(r);
}
