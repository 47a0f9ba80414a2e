#include "queue_impl.h"

#include <assert.h>
#include <errno.h>
#include <lz4.h>
#include <time.h>
#include "weir/base/clock.h"
#include "weir/base/mem.h"

/* ------------------------------------------------------------------ blocks */
static void block_free(block *b) {
    wr_buf_free(&b->pos);
    wr_free(b->data);
    wr_free(b);
}

block *block_new(wr_queue *q, size_t cap) {
    if (cap == q->opts.block_bytes && q->nfree > 0) {
        block *b = q->free_blocks[--q->nfree];
        uint8_t *data = b->data;
        wr_buf_free(&b->pos);
        *b = (block){.refs = 1, .cap = cap, .data = data};
        return b;
    }
    block *b = wr_calloc(1, sizeof *b);
    if (!b) return NULL;
    b->data = wr_malloc(BLOCK_HDR + cap + 64);
    if (!b->data) {
        wr_free(b);
        return NULL;
    }
    b->refs = 1;
    b->cap = cap;
    return b;
}

void block_unref(wr_queue *q, block *b) {
    if (!b || --b->refs > 0) return;
    if (b->cap == q->opts.block_bytes && q->nfree < (int)(sizeof q->free_blocks / sizeof *q->free_blocks))
        q->free_blocks[q->nfree++] = b;
    else
        block_free(b);
}

void queue_evict(wr_queue *q) {
    while (q->lo < q->next &&
           (q->ring_bytes > (size_t)CACHE_BLOCKS * q->opts.block_bytes || q->hi - q->lo > RING / 2)) {
        block *b = q->ring[q->lo++ % RING];
        q->ring_bytes -= b->cap;
        block_unref(q, b);
    }
}

/* ------------------------------------------------------------------ small things */
bool queue_wait(wr_queue *q, pthread_cond_t *c, int64_t deadline_us) {
    if (deadline_us < 0) {
        pthread_cond_wait(c, &q->lock);
        return true;
    }
    struct timespec ts = {.tv_sec = deadline_us / 1000000, .tv_nsec = deadline_us % 1000000 * 1000};
    return pthread_cond_timedwait(c, &q->lock, &ts) != ETIMEDOUT;
}

wr_code queue_failed(wr_queue *q, wr_err *err) {
    *err = q->failed;
    return err->code;
}

static wr_code cancelled(wr_err *err) { return wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "the queue was stopped"); }

segment *segment_of(wr_queue *q, uint64_t offset) {
    size_t lo = 0, hi = q->nsegs; /* the last one with first <= offset */
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (q->segs[mid]->hdr.first <= offset)
            lo = mid;
        else
            hi = mid;
    }
    return q->segs[lo]->hdr.first <= offset ? q->segs[lo] : NULL;
}

void queue_segment_unref(segment *seg) {
    if (seg && --seg->refs == 0) segment_free(seg);
}

void queue_count_pending(wr_queue *q) {
    uint64_t sum = 0;
    for (size_t i = 0; i < q->nsegs; i++) {
        segment *seg = q->segs[i];
        if (seg->last <= q->released_offset) continue;
        sum += !seg->sealed && q->part_at ? q->part_at : seg->bytes;
    }
    q->pending_bytes = sum;
}

/* ------------------------------------------------------------------ the open block */
wr_code queue_seal(wr_queue *q, wr_err *err) {
    block *cur = q->cur;
    bool whole = q->cut > 0;
    size_t n = whole ? q->cut : cur->n, rest = cur->n - n;
    queue_evict(q);
    assert(n > 0 && q->hi - q->lo < RING);
    /* A block that closes early (group commit on a quiet source) is copied out to its true size, so that the cache
     * holds bytes and not room. */
    bool copy = cur->cap == q->opts.block_bytes && n <= cur->cap / 4;
    block *other = block_new(q, copy ? n : q->opts.block_bytes);
    if (!other) return wr_nomem(err, "queue block", copy ? n : q->opts.block_bytes);
    WR_AUTO_BUF wr_buf pos = WR_BUF_INIT;
    if (whole) {
        wr_pos_encode(&pos, &q->last.pos);
        wr_code rc = wr_buf_check(&pos, "source position", err);
        if (rc != WR_OK) {
            block_unref(q, other);
            return rc;
        }
    }
    uint32_t records = whole ? q->cut_records : cur->records, rest_records = cur->records - records;
    block *sealed = copy ? other : cur;
    sealed->ends = cur->ends;
    sealed->first = whole ? q->last_offset + 1 - cur->ends : q->last_offset + 1;
    sealed->flags = (uint8_t)((q->cur_inside ? 0 : BLOCK_FIRST) | (whole ? BLOCK_LAST : 0));
    if (copy) {
        memcpy(sealed->data + BLOCK_HDR, cur->data + BLOCK_HDR, n);
        memmove(cur->data + BLOCK_HDR, cur->data + BLOCK_HDR + n, rest);
    } else {
        memcpy(other->data + BLOCK_HDR, cur->data + BLOCK_HDR + n, rest);
        q->cur = other;
    }
    sealed->n = n;
    sealed->records = records;
    sealed->pos = pos;
    pos = (wr_buf)WR_BUF_INIT;
    q->cur->n = rest;
    q->cur->records = rest_records;
    q->cur->ends = 0;
    q->cut = 0;
    q->cut_records = 0;
    q->cur_inside = !whole;
    if (!whole) q->open_parts++;
    q->last.base = false;
    q->ring[q->hi++ % RING] = sealed;
    q->ring_bytes += sealed->cap;
    q->inflight_bytes += sealed->cap;
    pthread_cond_signal(&q->work);
    return WR_OK;
}

/* Fails when the queue has failed, or when the writer, tried once more, still cannot go on (disk full). Lock held; may
 * wait. */
static wr_code writer_fine(wr_queue *q, wr_err *err) {
    if (q->failed.code) return queue_failed(q, err);
    if (q->soft.code == WR_OK) return WR_OK;
    uint64_t before = q->attempts;
    q->retry_now = true;
    pthread_cond_signal(&q->work);
    while (q->attempts == before && q->soft.code && !q->failed.code) queue_wait(q, &q->progress, -1);
    if (q->failed.code) return queue_failed(q, err);
    if (q->soft.code) *err = q->soft;
    return q->soft.code;
}

/* Seals, or waits for room among the unwritten blocks: then nothing is sealed and the caller looks again. */
static wr_code seal_or_wait(wr_queue *q, wr_err *err) {
    WR_TRY(writer_fine(q, err));
    if (q->inflight_bytes < (size_t)INFLIGHT_BLOCKS * q->opts.block_bytes && q->hi - q->next < RING / 2)
        return queue_seal(q, err);
    if (q->stopped) return cancelled(err);
    queue_wait(q, &q->progress, -1);
    return WR_OK;
}

static size_t room(const wr_queue *q) { return q->cur->n < q->opts.block_bytes ? q->opts.block_bytes - q->cur->n : 0; }

/* Bytes from `from` on of what lies in several places. */
static void copy_parts(uint8_t *d, const wr_slice *parts, size_t from, size_t n) {
    for (; n; parts++) {
        if (from >= parts->n) {
            from -= parts->n;
            continue;
        }
        size_t m = parts->n - from < n ? parts->n - from : n;
        memcpy(d, parts->p + from, m);
        d += m, n -= m, from = 0;
    }
}

static void put(wr_queue *q, uint8_t tag, const wr_slice *parts, size_t from, size_t n) {
    uint8_t *d = q->cur->data + BLOCK_HDR + q->cur->n;
    uint8_t *start = d;
    *d++ = tag;
    d = varint_put(d, n);
    copy_parts(d, parts, from, n);
    q->cur->n += (size_t)(d - start) + n;
    q->cur->records++;
}

wr_code wr_queue_append(wr_queue *q, wr_record_kind kind, wr_slice payload, wr_err *err) { return wr_queue_append_parts(q, kind, &payload, 1, err); }

wr_code wr_queue_append_parts(wr_queue *q, wr_record_kind kind, const wr_slice *parts, int nparts, wr_err *err) {
    size_t total = 0;
    for (int i = 0; i < nparts; i++) total += parts[i].n;
    if (kind < WR_REC_CHANGE || kind > WR_REC_GAP)
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "record kind %d", (int)kind);
    if (total > UINT32_MAX)
        return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a record of %zu bytes; at most 4 GiB", total);
    wr_code rc = WR_OK;
    pthread_mutex_lock(&q->lock);
    if (__builtin_expect(q->failed.code || q->soft.code, 0)) rc = writer_fine(q, err);
    if (rc == WR_OK && q->piece_done > total)
        rc = wr_fail(err, WR_E_INVAL, WR_RETRY_NO,
                     "the append before failed; it must be repeated with the same record, or the transaction aborted");
    while (rc == WR_OK) {
        size_t left = total - q->piece_done, need = 1 + varint_bytes(left) + left, have = room(q);
        if (need <= have) {
            put(q, (uint8_t)kind, parts, q->piece_done, left);
            q->piece_done = 0;
            q->bytes_in += total;
            break;
        }
        bool cut_up = q->piece_done > 0 || need > q->opts.block_bytes;
        if (cut_up && q->cut == 0 && have > 64) { /* rule 1: its blocks hold nothing but this transaction */
            size_t n = have - REC_HDR_MAX;
            put(q, (uint8_t)kind | REC_MORE, parts, q->piece_done, n);
            q->piece_done += n;
        }
        rc = seal_or_wait(q, err);
    }
    pthread_mutex_unlock(&q->lock);
    return rc;
}

/* Back-pressure. With everything ended released it never waits, so a reader that keeps up can always free it. */
static wr_code wait_below_max(wr_queue *q, wr_err *err) {
    for (;;) {
        WR_TRY(writer_fine(q, err));
        if (q->pending_bytes <= q->opts.max_bytes || q->released_offset >= q->last_offset) return WR_OK;
        if (q->stopped) return cancelled(err);
        queue_wait(q, &q->progress, -1);
    }
}

static wr_code put_end(wr_queue *q, const wr_pos *pos, int64_t time_us, wr_err *err) {
    WR_TRY(pos_state_reserve(&q->last, pos, err));
    for (;;) {
        wr_buf_clear(&q->end_buf);
        end_encode(&q->end_buf, &q->last, pos, time_us); /* again after a seal: the base is gone then */
        WR_TRY(wr_buf_check(&q->end_buf, "source position", err));
        size_t n = q->end_buf.n, need = 1 + varint_bytes(n) + n;
        if (need > BLOCK_RAW_MAX)
            return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a source position of %zu bytes; at most %u", n,
                           BLOCK_RAW_MAX);
        if (q->cur->n == 0 && need > q->cur->cap) {
            block *b = block_new(q, need);
            if (!b) return wr_nomem(err, "queue block", need);
            block_unref(q, q->cur);
            q->cur = b;
        }
        if (need <= room(q) || q->cur->n == 0) {
            put(q, REC_END, &(wr_slice){q->end_buf.p, n}, 0, n);
            return WR_OK;
        }
        WR_TRY(seal_or_wait(q, err));
    }
}

wr_code wr_queue_end(wr_queue *q, const wr_pos *pos, int64_t event_time_us, uint64_t *ret_offset, wr_err *err) {
    if (!memchr(pos->file, 0, sizeof pos->file))
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "binlog file name without end");
    wr_code rc = WR_OK;
    pthread_mutex_lock(&q->lock);
    if (q->piece_done)
        rc = wr_fail(err, WR_E_INVAL, WR_RETRY_NO,
                     "the append before failed; it must be repeated with the same record, or the transaction aborted");
    if (rc == WR_OK) rc = wait_below_max(q, err);
    if (rc == WR_OK) rc = put_end(q, pos, event_time_us, err);
    if (rc == WR_OK) {
        pos_state_set(&q->last, pos, event_time_us);
        q->last_offset++;
        q->cur->ends++;
        q->cut = q->cur->n;
        q->cut_records = q->cur->records;
        q->open_parts = 0;
        *ret_offset = q->last_offset;
        if (q->idle) pthread_cond_signal(&q->work);
    }
    pthread_mutex_unlock(&q->lock);
    return rc;
}

/* Lock held, writer not writing. */
static wr_code drop_parts(wr_queue *q, wr_err *err) {
    while (q->hi > q->lo) {
        block *b = q->ring[(q->hi - 1) % RING];
        if ((b->flags & BLOCK_LAST) || b->first != q->last_offset + 1) break;
        q->ring_bytes -= b->cap;
        if (q->next == q->hi)
            q->next--;
        else
            q->inflight_bytes -= b->cap;
        q->hi--;
        block_unref(q, b);
    }
    q->cur->n = q->cut = 0;
    q->cur->records = q->cut_records = 0;
    q->cur_inside = false;
    q->open_parts = 0;
    if (!q->part_at || q->part_offset != q->last_offset + 1) return WR_OK;
    uint64_t at = q->part_at;
    q->part_at = 0;
    wr_code rc = segment_cut(q->segs[q->nsegs - 1], q->active, at, err);
    if (rc == WR_OK) return WR_OK;
    /* What is left behind the tail must not be written over: opening again sorts it out. */
    wr_err_in(err, "giving up a transaction");
    err->retry = WR_RETRY_NO;
    q->failed = *err;
    pthread_cond_broadcast(&q->progress);
    pthread_cond_broadcast(&q->readable);
    pthread_cond_signal(&q->work);
    return rc;
}

wr_code wr_queue_abort(wr_queue *q, wr_err *err) {
    wr_code rc = WR_OK;
    pthread_mutex_lock(&q->lock);
    while (q->open_parts && q->writing) queue_wait(q, &q->progress, -1);
    q->piece_done = 0;
    if (q->failed.code) {
        rc = queue_failed(q, err);
    } else if (q->open_parts) {
        rc = drop_parts(q, err);
    } else {
        q->cur->n = q->cut;
        q->cur->records = q->cut_records;
    }
    pthread_mutex_unlock(&q->lock);
    return rc;
}

wr_code wr_queue_sync(wr_queue *q, wr_err *err) {
    wr_code rc = WR_OK;
    pthread_mutex_lock(&q->lock);
    uint64_t target = q->last_offset;
    while (q->durable_offset < target) {
        if ((rc = writer_fine(q, err)) != WR_OK) break;
        if (q->durable_offset >= target) break;
        if (q->stopped) {
            rc = cancelled(err);
            break;
        }
        if (q->sync_target < target) q->sync_target = target;
        pthread_cond_signal(&q->work);
        queue_wait(q, &q->progress, -1);
    }
    pthread_mutex_unlock(&q->lock);
    return rc;
}

wr_code wr_queue_last(wr_queue *q, uint64_t *ret_offset, wr_pos *ret_pos, wr_err *err) {
    pthread_mutex_lock(&q->lock);
    wr_code rc = wr_pos_copy(ret_pos, &q->last.pos, err);
    if (rc == WR_OK) *ret_offset = q->last_offset;
    pthread_mutex_unlock(&q->lock);
    return rc;
}

uint64_t wr_queue_next_offset(wr_queue *q) {
    pthread_mutex_lock(&q->lock);
    uint64_t offset = q->last_offset + 1;
    pthread_mutex_unlock(&q->lock);
    return offset;
}

void wr_queue_stop(wr_queue *q) {
    pthread_mutex_lock(&q->lock);
    q->stopped = true;
    pthread_cond_broadcast(&q->progress);
    pthread_cond_broadcast(&q->readable);
    pthread_mutex_unlock(&q->lock);
}

void wr_queue_get_stats(wr_queue *q, wr_queue_stats *ret_stats) {
    pthread_mutex_lock(&q->lock);
    wr_queue_stats st = {.first_offset = q->segs[0]->hdr.first,
                         .last_offset = q->last_offset,
                         .durable_offset = q->durable_offset,
                         .released_offset = q->released_offset,
                         .bytes = q->spare_bytes,
                         .bytes_in = q->bytes_in,
                         .syncs = q->syncs};
    for (size_t i = 0; i < q->nsegs; i++) st.bytes += q->segs[i]->file_bytes;
    pthread_mutex_unlock(&q->lock);
    *ret_stats = st;
}

/* ------------------------------------------------------------------ opening */
static void queue_free(wr_queue *q) {
    if (q->cur) block_free(q->cur);
    while (q->lo < q->hi) block_free(q->ring[q->lo++ % RING]);
    while (q->nfree > 0) block_free(q->free_blocks[--q->nfree]);
    queue_segment_unref(q->durable_seg);
    for (size_t i = 0; i < q->nsegs; i++) segment_free(q->segs[i]);
    wr_free(q->segs);
    wr_file_close(q->active);
    for (int i = 0; i < q->nspares; i++) wr_free(q->spares[i]);
    wr_buf_free(&q->end_buf);
    pos_state_free(&q->last);
    pos_state_free(&q->tap.pos);
    wr_pos_clear(&q->written_pos);
    wr_free(q->pack);
    wr_free(q->lz4_state);
    wr_lock_release(q->dir_lock);
    wr_free(q->dir);
    pthread_cond_destroy(&q->work);
    pthread_cond_destroy(&q->progress);
    pthread_cond_destroy(&q->readable);
    pthread_mutex_destroy(&q->lock);
    pthread_mutex_destroy(&q->release_lock);
    wr_free(q);
}

static wr_code queue_new(const char *dir, const wr_queue_options *opts, wr_queue **ret_queue, wr_err *err) {
    wr_queue *q = wr_calloc(1, sizeof *q);
    if (!q) return wr_nomem(err, "queue", sizeof *q);
    if (opts) q->opts = *opts;
    wr_queue_options *o = &q->opts;
    if (!o->segment_bytes) o->segment_bytes = 128u << 20;
    if (!o->max_bytes) o->max_bytes = 16ull << 30;
    if (!o->block_bytes) o->block_bytes = 256u << 10;
    if (!o->sync_every_us) o->sync_every_us = 5000;
    if (o->block_bytes < BLOCK_RAW_MIN) o->block_bytes = BLOCK_RAW_MIN;
    if (o->block_bytes > BLOCK_RAW_MAX) o->block_bytes = BLOCK_RAW_MAX;
    if (o->segment_bytes > o->max_bytes / 4)
        o->segment_bytes = o->max_bytes / 4; /* only whole segments can be released */
    pthread_condattr_t mono;
    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    pthread_cond_init(&q->work, &mono);
    pthread_cond_init(&q->progress, &mono);
    pthread_cond_init(&q->readable, &mono);
    pthread_condattr_destroy(&mono);
    pthread_mutex_init(&q->lock, NULL);
    pthread_mutex_init(&q->release_lock, NULL);
    q->pack_bytes = BLOCK_HDR + (size_t)LZ4_compressBound((int)o->block_bytes) + 64;
    size_t bytes = q->pack_bytes + o->block_bytes;
    q->dir = wr_strdup(dir);
    q->pack = wr_malloc(q->pack_bytes);
    q->lz4_state = wr_malloc((size_t)LZ4_sizeofState());
    q->cur = block_new(q, o->block_bytes);
    if (!q->dir || !q->pack || !q->lz4_state || !q->cur) {
        queue_free(q);
        return wr_nomem(err, "queue buffers", bytes);
    }
    *ret_queue = q;
    return WR_OK;
}

typedef struct listing {
    wr_queue *q;
    wr_pos pos; /* of the header read last */
} listing;

static wr_code add_segment(wr_queue *q, segment *seg, wr_err *err) {
    if (q->nsegs == q->segs_cap) {
        size_t cap = q->segs_cap ? q->segs_cap * 2 : 16;
        segment **p = wr_realloc(q->segs, cap * sizeof *p);
        if (!p) return wr_nomem(err, "segment list", cap * sizeof *p);
        q->segs = p;
        q->segs_cap = cap;
    }
    q->segs[q->nsegs++] = seg;
    return WR_OK;
}

static wr_code chain_broken(const segment *prev, const segment *seg, wr_err *err) {
    wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO,
            "%s does not follow %s: segments with transactions between %llu and %llu are missing", seg->path,
            prev->path, (unsigned long long)prev->hdr.first, (unsigned long long)seg->hdr.first - 1);
    return wr_err_cure(err,
                       "bring the missing files back; or move %s and later segments away: the queue then ends before "
                       "them and capture goes "
                       "on from there if the source still has that binlog",
                       seg->path);
}

static wr_code found_segment(listing *l, const char *path, uint64_t first, wr_err *err) {
    segment *seg;
    wr_pos pos = {0};
    WR_TRY(segment_load(path, &seg, &pos, err));
    wr_pos_clear(&l->pos);
    l->pos = pos;
    wr_queue *q = l->q;
    wr_code rc = WR_OK;
    if (seg->hdr.first != first)
        rc = segment_corrupt(seg, 0, seg->hdr.first - 1, NULL, "its header belongs to another file name", err);
    segment *prev = q->nsegs ? q->segs[q->nsegs - 1] : NULL;
    if (rc == WR_OK && prev) {
        if (seg->hdr.prev_id != prev->hdr.id || seg->hdr.first <= prev->hdr.first)
            rc = chain_broken(prev, seg, err);
        else if (prev->file_bytes < seg->hdr.prev_bytes)
            rc = segment_corrupt(prev, prev->file_bytes, prev->hdr.first - 1, NULL, "the file is shorter than it was",
                                 err);
        prev->sealed = true;
        prev->bytes = prev->synced = seg->hdr.prev_bytes;
        prev->last = seg->hdr.first - 1;
    }
    if (rc == WR_OK) rc = add_segment(q, seg, err);
    if (rc != WR_OK) segment_free(seg);
    return rc;
}

static wr_code found(void *ctx, const char *name, wr_err *err) {
    listing *l = ctx;
    wr_queue *q = l->q;
    size_t n = strlen(name);
    WR_AUTO char *path = wr_path_join(q->dir, name);
    if (!path) return wr_nomem(err, "path", n);
    uint64_t first = segment_name_parse(name), bytes;
    if (first) return found_segment(l, path, first, err);
    bool spare = strncmp(name, "spare-", 6) == 0;
    if (spare && q->nspares < SPARES_MAX) {
        WR_TRY(wr_file_size(path, &bytes, err));
        q->spare_bytes += bytes;
        q->spares[q->nspares++] = WR_STEAL(path);
        return WR_OK;
    }
    if (spare || (n > 4 && strcmp(name + n - 4, ".tmp") == 0)) return wr_file_remove(path, err);
    return WR_OK; /* not ours: let it be */
}

static wr_code recover(wr_queue *q, wr_err *err) {
    listing l = {.q = q};
    wr_code rc = wr_dir_list(q->dir, found, &l, err);
    if (rc == WR_OK && q->nsegs == 0) { /* a new queue */
        segment *seg;
        rc = segment_make(q->dir, &(seg_hdr){.first = 1}, &l.pos, NULL, &seg, &q->active, err);
        if (rc == WR_OK && (rc = add_segment(q, seg, err)) != WR_OK) segment_free(seg);
    } else if (rc == WR_OK) {
        segment *seg = q->segs[q->nsegs - 1];
        rc = wr_file_open(seg->path, WR_OPEN_RDWR, &q->active, err);
        if (rc == WR_OK) rc = pos_state_reserve(&q->last, &l.pos, err);
        if (rc == WR_OK) {
            pos_state_set(&q->last, &l.pos, 0);
            rc = segment_recover(seg, q->active, &q->last, err);
        }
    }
    wr_pos_clear(&l.pos);
    WR_TRY(rc);
    segment *seg = q->segs[q->nsegs - 1];
    q->last.base = false;
    q->last_offset = q->written_offset = q->durable_offset = seg->last;
    q->written_at = q->durable_at = seg->bytes;
    q->durable_seg = seg;
    seg->refs++;
    q->released_offset = q->segs[0]->hdr.first - 1;
    queue_count_pending(q);
    return wr_pos_copy(&q->written_pos, &q->last.pos, err);
}

wr_code wr_queue_open(const char *dir, const wr_queue_options *opts, wr_queue **ret_queue, wr_err *err) {
    WR_TRY(wr_mkdirs(dir, err));
    WR_AUTO char *lock_path = wr_path_join(dir, "lock");
    if (!lock_path) return wr_nomem(err, "path", strlen(dir) + 6);
    wr_queue *q = NULL;
    WR_TRY(queue_new(dir, opts, &q, err));
    wr_code rc = wr_lock_take(lock_path, &q->dir_lock, err);
    if (rc == WR_OK) rc = recover(q, err);
    if (rc == WR_OK) {
        int e = pthread_create(&q->thread, NULL, queue_writer, q);
        if (e)
            rc = wr_fail(err, WR_E_IO, WR_RETRY_SOON, "cannot start the queue's writer thread: %s", strerror(e));
        else
            q->thread_on = true;
    }
    if (rc != WR_OK) {
        queue_free(q);
        return rc;
    }
    *ret_queue = q;
    return WR_OK;
}

void wr_queue_close(wr_queue *q) {
    if (!q) return;
    wr_err ignored = WR_ERR_INIT; /* a failed queue is found out when it is opened again */
    wr_queue_abort(q, &ignored);
    pthread_mutex_lock(&q->lock);
    q->closing = true;
    pthread_cond_broadcast(&q->work);
    pthread_mutex_unlock(&q->lock);
    if (q->thread_on) pthread_join(q->thread, NULL);
    queue_free(q);
}
