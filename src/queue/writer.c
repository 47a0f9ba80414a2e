/* The writer thread: packs sealed blocks, writes them, syncs by time, rolls segments. The only one that moves
 * durable_offset. */
#include "queue_impl.h"

#include <lz4.h>
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

#define PACK_MIN (16u << 10) /* smaller blocks are not worth compressing */

static segment *active(wr_queue *q) { return q->segs[q->nsegs - 1]; }

static void wake_all(wr_queue *q) {
    pthread_cond_broadcast(&q->progress);
    pthread_cond_broadcast(&q->readable);
}

static void fail_for_good(wr_queue *q, const wr_err *err) {
    q->failed = *err;
    q->failed.retry = WR_RETRY_NO;
    wake_all(q);
}

/* Disk full or memory out: tells whoever waits, and pauses until somebody asks again or some time has passed. */
static void fail_for_now(wr_queue *q, const wr_err *err) {
    q->soft = *err;
    q->soft.retry = WR_RETRY_SOON;
    q->attempts++;
    wake_all(q);
    int64_t until = wr_mono_us() + RETRY_US;
    while (!q->retry_now && !q->closing && queue_wait(q, &q->work, until)) {
    }
    q->retry_now = false;
}

/* Makes everything written so far durable. Lock held; let go meanwhile. */
static wr_code sync_written(wr_queue *q, wr_err *err) {
    segment *seg = active(q);
    uint64_t bytes = seg->bytes, offset = q->written_offset, at = q->written_at;
    int64_t began = wr_mono_us();
    q->writing = true;
    pthread_mutex_unlock(&q->lock);
    wr_code rc = WR_OK;
    if (WR_FAULT("queue.sync")) rc = wr_fail(err, WR_E_IO, WR_RETRY_NO, "fault point queue.sync");
    if (rc == WR_OK) rc = wr_file_sync(q->active, err);
    if (rc == WR_OK && WR_FAULT("queue.sync.done"))
        rc = wr_fail(err, WR_E_IO, WR_RETRY_NO, "fault point queue.sync.done");
    pthread_mutex_lock(&q->lock);
    q->writing = false;
    if (rc != WR_OK) {
        /* Whatever the reason was: the kernel may have dropped what it could not write, and the next call would report
         * success. */
        err->code = WR_E_IO;
        wr_err_in(err, "the queue could not be made durable");
        wr_err_cure(err, "see to the disk and start Weir again; it goes on from what is durable");
        return WR_E_IO;
    }
    q->syncs++;
    seg->synced = bytes;
    q->sync_due_us = began + q->opts.sync_every_us;
    if (offset > q->durable_offset) {
        q->durable_offset = offset;
        q->durable_at = at;
        if (q->durable_seg != seg) {
            queue_segment_unref(q->durable_seg);
            q->durable_seg = seg;
            seg->refs++;
        }
    }
    if (q->durable_offset >= q->round) q->round = 0;
    wake_all(q);
    return WR_OK;
}

/* A new active segment that begins with transaction `first`. Lock held; let go meanwhile. */
static wr_code roll(wr_queue *q, uint64_t first, wr_err *err) {
    segment *old = active(q);
    if (old->synced < old->bytes) WR_TRY(sync_written(q, err));
    if (q->nsegs == q->segs_cap) {
        segment **p = wr_realloc(q->segs, q->segs_cap * 2 * sizeof *p);
        if (!p) return wr_nomem(err, "segment list", q->segs_cap * 2 * sizeof *p);
        q->segs = p;
        q->segs_cap *= 2;
    }
    WR_AUTO char *spare = q->nspares ? q->spares[--q->nspares] : NULL;
    seg_hdr h = {.prev_id = old->hdr.id, .prev_bytes = old->bytes, .first = first};
    q->writing = true;
    pthread_mutex_unlock(&q->lock);
    segment *seg = NULL;
    wr_file *f = NULL;
    wr_code rc = segment_make(q->dir, &h, &q->written_pos, spare, &seg, &f, err);
    if (spare && rc == WR_E_NOTFOUND) rc = segment_make(q->dir, &h, &q->written_pos, NULL, &seg, &f, err);
    pthread_mutex_lock(&q->lock);
    q->writing = false;
    if (rc != WR_OK) {
        if (spare && q->nspares < SPARES_MAX) q->spares[q->nspares++] = WR_STEAL(spare);
        return rc;
    }
    if (spare) q->spare_bytes -= q->spare_bytes < seg->file_bytes ? q->spare_bytes : seg->file_bytes;
    wr_file_close(q->active);
    q->active = f;
    old->sealed = true;
    q->segs[q->nsegs++] = seg;
    return WR_OK;
}

/* Header, stored bytes and padding of a block as they go to disk. */
static wr_slice pack(wr_queue *q, block *b, const segment *seg) {
    block_hdr h = {.seg_id = seg->hdr.id,
                   .raw = (uint32_t)b->n,
                   .stored = (uint32_t)b->n,
                   .flags = b->flags,
                   .first = b->first,
                   .ends = b->ends,
                   .records = b->records,
                   .synced = seg->synced};
    uint8_t *d = b->data;
    if (q->opts.codec == WR_QUEUE_LZ4 && b->n >= PACK_MIN && b->n <= q->opts.block_bytes) {
        int room = (int)(b->n - b->n / 8);
        int n = LZ4_compress_fast_extState(q->lz4_state, (const char *)b->data + BLOCK_HDR, (char *)q->pack + BLOCK_HDR,
                                           (int)b->n, room, 1);
        if (n > 0) h.codec = CODEC_LZ4, h.stored = (uint32_t)n, d = q->pack;
    }
    h.crc = wr_crc32c(0, d + BLOCK_HDR, h.stored);
    block_hdr_encode(&h, d);
    size_t n = (size_t)block_disk_bytes(&h);
    memset(d + BLOCK_HDR + h.stored, 0, n - BLOCK_HDR - h.stored);
    return wr_slice_of(d, n);
}

static wr_code write_bytes(wr_queue *q, uint64_t at, wr_slice bytes, wr_err *err) {
    if (WR_FAULT("queue.write")) return wr_fail(err, WR_E_NOSPC, WR_RETRY_SOON, "fault point queue.write");
    if (WR_FAULT("queue.write.half")) {
        wr_file_pwrite(q->active, at, wr_slice_of(bytes.p, bytes.n / 2), err);
        return wr_fail(err, WR_E_IO, WR_RETRY_NO, "fault point queue.write.half");
    }
    WR_TRY(wr_lock_check(q->dir_lock, err));
    WR_TRY(wr_file_pwrite(q->active, at, bytes, err));
    if (WR_FAULT("queue.write.done")) return wr_fail(err, WR_E_IO, WR_RETRY_NO, "fault point queue.write.done");
    return WR_OK;
}

static wr_code tap_record(wr_queue *q, uint8_t tag, wr_slice body, uint64_t *offset, wr_err *err) {
    if ((tag & REC_KIND) == REC_END) {
        WR_TRY(end_decode(&q->tap.pos, body, err));
        q->tap.open = false;
        q->opts.tap.end(q->opts.tap.ctx, (*offset)++, q->tap.pos.time_us);
        return WR_OK;
    }
    q->tap.open = true;
    if ((tag & REC_KIND) == WR_REC_CHANGE) q->opts.tap.change(q->opts.tap.ctx, body, tag & REC_MORE);
    return WR_OK;
}

static void show(wr_queue *q, const block *b) {
    if (!q->opts.tap.change) return;
    if (b->flags & BLOCK_FIRST && q->tap.open) q->opts.tap.abort(q->opts.tap.ctx); /* what came before was aborted */
    q->tap.pos.base = false;
    wr_err err = WR_ERR_INIT;
    wr_rd rd = wr_rd_of(b->data + BLOCK_HDR, b->n);
    uint64_t offset = b->first;
    uint8_t tag;
    wr_slice body;
    while (wr_rd_left(&rd) && rec_next(&rd, &tag, &body))
        if (tap_record(q, tag, body, &offset, &err) != WR_OK) {
            q->opts.tap.failed(q->opts.tap.ctx, &err);
            return;
        }
}

/* The next sealed block. Lock held; let go meanwhile. On failure everything is as before, whatever may be in the file
 * behind the last block: the same bytes are written there next time. */
static wr_code write_next(wr_queue *q, wr_err *err) {
    block *b = q->ring[q->next % RING];
    bool begins = b->flags & BLOCK_FIRST;
    if (begins && active(q)->bytes >= q->opts.segment_bytes && active(q)->last >= active(q)->hdr.first) {
        /* An abort waits while `writing`, so the block is still there afterwards. */
        WR_TRY(roll(q, b->first, err));
    }
    segment *seg = active(q);
    wr_pos pos = {0};
    uint64_t at = seg->bytes;
    q->writing = true;
    pthread_mutex_unlock(&q->lock);
    wr_code rc = WR_OK;
    wr_slice bytes = pack(q, b, seg);
    if (b->flags & BLOCK_LAST) {
        wr_rd rd = wr_rd_of(b->pos.p, b->pos.n);
        rc = wr_pos_decode(&rd, &pos, err);
    }
    if (rc == WR_OK) rc = write_bytes(q, at, bytes, err);
    if (rc == WR_OK) show(q, b);
    pthread_mutex_lock(&q->lock);
    q->writing = false;
    if (rc != WR_OK) {
        wr_pos_clear(&pos);
        return rc;
    }
    b->seg_id = seg->hdr.id;
    b->at = at;
    b->disk_bytes = bytes.n;
    q->next++;
    q->inflight_bytes -= b->cap;
    seg->bytes = at + bytes.n;
    if (seg->file_bytes < seg->bytes) seg->file_bytes = seg->bytes;
    if (b->flags & BLOCK_LAST) {
        wr_buf_free(&b->pos);
        wr_pos_clear(&q->written_pos);
        q->written_pos = pos;
        q->written_offset = seg->last = b->first + b->ends - 1;
        q->written_at = seg->bytes;
        q->part_at = 0;
    } else if (begins) {
        q->part_at = at;
        q->part_offset = b->first;
    }
    queue_evict(q);
    queue_count_pending(q);
    pthread_cond_broadcast(&q->progress);
    return WR_OK;
}

/* One step. false when there is nothing to do now. */
static bool step(wr_queue *q, wr_code *ret_rc, wr_err *err) {
    bool ends = q->last_offset > q->durable_offset;
    *ret_rc = WR_OK;
    if (ends && !q->round && (q->closing || q->sync_target > q->durable_offset || wr_mono_us() >= q->sync_due_us)) {
        if (q->cut > 0 && (*ret_rc = queue_seal(q, err)) != WR_OK) return true;
        q->round = q->last_offset;
    }
    segment *seg = active(q);
    if ((q->round && q->written_offset >= q->round) || seg->bytes - seg->synced >= SYNC_BYTES) {
        *ret_rc = sync_written(q, err);
        return true;
    }
    if (q->next == q->hi) return false;
    *ret_rc = write_next(q, err);
    return true;
}

void *queue_writer(void *arg) {
    wr_queue *q = arg;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        if (q->failed.code) {
            if (q->closing) break;
            queue_wait(q, &q->work, -1);
            continue;
        }
        wr_err err = WR_ERR_INIT;
        wr_code rc;
        bool did = step(q, &rc, &err);
        if (rc == WR_E_NOSPC || rc == WR_E_NOMEM) {
            if (q->closing) break; /* what is not durable yet is captured again */
            fail_for_now(q, &err);
            continue;
        }
        if (rc != WR_OK) {
            fail_for_good(q, &err);
            continue;
        }
        if (q->soft.code) {
            q->soft.code = WR_OK;
            pthread_cond_broadcast(&q->progress);
        }
        if (did) continue;
        if (q->closing) break;
        if (q->last_offset > q->durable_offset) {
            queue_wait(q, &q->work, q->sync_due_us);
        } else {
            q->idle = true;
            queue_wait(q, &q->work, -1);
            q->idle = false;
        }
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}
