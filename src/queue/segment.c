#include "segment.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

#define SCAN_BYTES (256u << 10)

void segment_name(uint64_t first, char buf[SEG_NAME_BYTES]) {
    snprintf(buf, SEG_NAME_BYTES, "%020llu.wq", (unsigned long long)first);
}

uint64_t segment_name_parse(const char *name) {
    if (strlen(name) != 23 || strcmp(name + 20, ".wq") != 0) return 0;
    uint64_t v = 0;
    for (int i = 0; i < 20; i++) {
        if (name[i] < '0' || name[i] > '9') return 0;
        if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (unsigned)(name[i] - '0'), &v)) return 0;
    }
    return v;
}

void segment_free(segment *seg) {
    if (!seg) return;
    wr_free(seg->path);
    wr_free(seg);
}

static void file_close_p(wr_file **f) { wr_file_close(*f); }

static wr_code new_id(uint64_t *ret_id, wr_err *err) {
    do {
        if (getrandom(ret_id, sizeof *ret_id, 0) != (ssize_t)sizeof *ret_id)
            return wr_fail(err, WR_E_IO, WR_RETRY_NO, "no random bytes for a segment id: %s", strerror(errno));
    } while (*ret_id == 0);
    return WR_OK;
}

wr_code segment_make(const char *dir, const seg_hdr *hdr, const wr_pos *pos, const char *spare_path, segment **ret_seg,
                     wr_file **ret_file, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    WR_CLEANUP(file_close_p) wr_file *f = NULL;
    char name[SEG_NAME_BYTES];
    segment_name(hdr->first, name);
    WR_AUTO char *path = wr_path_join(dir, name);
    segment *seg = path ? wr_calloc(1, sizeof *seg) : NULL;
    if (!seg) return wr_nomem(err, "queue segment", sizeof *seg);
    seg->hdr = *hdr;
    wr_code rc = new_id(&seg->hdr.id, err);
    seg->hdr.made_us = wr_now_us();
    if (rc == WR_OK) rc = seg_hdr_encode(&seg->hdr, pos, &b, err);
    if (rc == WR_OK && WR_FAULT("queue.segment.make"))
        rc = wr_fail(err, WR_E_NOSPC, WR_RETRY_SOON, "%s: fault point queue.segment.make", path);
    seg->file_bytes = b.n;
    if (rc == WR_OK && spare_path) {
        /* Header first, name after: under its name a segment is always whole. */
        rc = wr_file_open(spare_path, WR_OPEN_RDWR, &f, err);
        if (rc == WR_OK) rc = wr_file_pwrite(f, 0, wr_buf_view(&b), err);
        if (rc == WR_OK) rc = wr_file_sync(f, err);
        if (rc == WR_OK) rc = wr_file_length(f, &seg->file_bytes, err);
        if (rc == WR_OK && WR_FAULT("queue.segment.rename"))
            rc = wr_fail(err, WR_E_IO, WR_RETRY_NO, "%s: fault point queue.segment.rename", path);
        if (rc == WR_OK && rename(spare_path, path) != 0)
            rc = wr_fail(err, errno == ENOSPC || errno == EDQUOT ? WR_E_NOSPC : WR_E_IO,
                         errno == ENOSPC || errno == EDQUOT ? WR_RETRY_SOON : WR_RETRY_NO, "%s: rename to %s: %s",
                         spare_path, path, strerror(errno));
        if (rc == WR_OK) rc = wr_fsync_parent(path, err);
    } else if (rc == WR_OK) {
        rc = wr_file_put(path, wr_buf_view(&b), err);
        if (rc == WR_OK) rc = wr_file_open(path, WR_OPEN_RDWR, &f, err);
    }
    if (rc != WR_OK) {
        segment_free(seg);
        return rc;
    }
    if (WR_FAULT("queue.segment.made")) {
        segment_free(seg);
        return wr_fail(err, WR_E_IO, WR_RETRY_NO, "%s: fault point queue.segment.made", path);
    }
    seg->path = WR_STEAL(path);
    seg->refs = 1;
    seg->bytes = seg->synced = seg->hdr.hdr_bytes;
    seg->last = seg->hdr.first - 1;
    *ret_seg = seg;
    *ret_file = WR_STEAL(f);
    return WR_OK;
}

wr_code segment_load(const char *path, segment **ret_seg, wr_pos *ret_pos, wr_err *err) {
    WR_CLEANUP(file_close_p) wr_file *f = NULL;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    WR_TRY(wr_file_open(path, WR_OPEN_READ, &f, err));
    segment *seg = wr_calloc(1, sizeof *seg);
    if (!seg) return wr_nomem(err, "queue segment", sizeof *seg);
    size_t need = SEG_HDR_MIN, got = 0;
    wr_code rc;
    do { /* once for the fixed part, once for all of it */
        size_t want = need;
        uint8_t *p = wr_buf_room(&b, want);
        rc = p ? wr_file_pread(f, 0, p, want, &got, err) : wr_nomem(err, "segment header", want);
        if (rc == WR_OK) rc = seg_hdr_decode(wr_slice_of(p, got), &seg->hdr, ret_pos, &need, err);
        if (rc == WR_E_LIMIT && got < want) rc = err->code = WR_E_CORRUPT;
    } while (rc == WR_E_LIMIT);
    if (rc == WR_OK) wr_err_clear(err); /* of the first look */
    if (rc == WR_OK) rc = wr_file_length(f, &seg->file_bytes, err);
    seg->path = wr_strdup(path);
    if (rc == WR_OK && !seg->path) {
        wr_pos_clear(ret_pos);
        rc = wr_nomem(err, "segment path", strlen(path));
    }
    if (rc != WR_OK) {
        segment_free(seg);
        wr_err_in(err, "%s", path);
        if (rc == WR_E_CORRUPT)
            wr_err_cure(err, "bring the file back from a copy; or move it and the later segments away: the queue then "
                             "ends before it and capture "
                             "goes on from there if the source still has that binlog");
        return rc;
    }
    seg->refs = 1;
    seg->bytes = seg->synced = seg->hdr.hdr_bytes;
    seg->last = seg->hdr.first - 1;
    *ret_seg = seg;
    return WR_OK;
}

wr_code segment_corrupt(const segment *seg, uint64_t at, uint64_t last_good, const wr_pos *pos, const char *why,
                        wr_err *err) {
    char text[512];
    wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO,
            "%s: damaged at byte %llu%s%s; the last good transaction before it is %llu%s%s", seg->path,
            (unsigned long long)at, *why ? ": " : "", why, (unsigned long long)last_good, pos ? ", at " : "",
            pos ? wr_pos_print(pos, text) : "");
    return wr_err_cure(err,
                       "bring the file back from a copy; or stop Weir, run truncate -s %llu on it and move later "
                       "segments away: the queue then "
                       "ends before the damage, capture goes on from there if the source still has that binlog, and "
                       "what the lake has beyond "
                       "must be compared",
                       (unsigned long long)at);
}

wr_code segment_cut(segment *seg, wr_file *f, uint64_t at, wr_err *err) {
    if (WR_FAULT("queue.cut")) return wr_fail(err, WR_E_IO, WR_RETRY_NO, "%s: fault point queue.cut", seg->path);
    WR_TRY(wr_file_truncate(f, at, err));
    WR_TRY(wr_fsync_path(seg->path, err)); /* not fdatasync: the size is the point */
    if (WR_FAULT("queue.cut.done"))
        return wr_fail(err, WR_E_IO, WR_RETRY_NO, "%s: fault point queue.cut.done", seg->path);
    seg->file_bytes = seg->bytes = at;
    if (seg->synced > at) seg->synced = at;
    return WR_OK;
}

/* ------------------------------------------------------------------ recovery */

/* Whether a block behind byte `bad` proves that `bad` was durable once. */
static wr_code scan_for_proof(const segment *seg, wr_file *f, uint64_t bad, uint64_t *ret_at, wr_err *err) {
    *ret_at = 0;
    WR_AUTO uint8_t *buf = wr_malloc(SCAN_BYTES);
    if (!buf) return wr_nomem(err, "queue recovery", SCAN_BYTES);
    for (uint64_t at = bad + BLOCK_HDR;;) {
        size_t n;
        WR_TRY(wr_file_pread(f, at, buf, SCAN_BYTES, &n, err));
        for (size_t i = 0; i + BLOCK_HDR <= n; i += BLOCK_HDR) {
            block_hdr h;
            if (block_hdr_decode(buf + i, seg->hdr.id, &h) && h.synced > bad) {
                *ret_at = at + i;
                return WR_OK;
            }
        }
        if (n < SCAN_BYTES) return WR_OK;
        at += n;
    }
}

typedef struct recovery {
    segment *seg;
    wr_file *f;
    wr_buf stored, raw;  /* room for the block at hand */
    uint64_t at;         /* the next block */
    uint64_t tail;       /* behind the last block that ends at a boundary */
    uint64_t last;       /* its last transaction */
    bool inside;         /* the last block read ended inside a transaction */
    uint64_t last_block; /* where the last block with an end begins; 0 = none */
} recovery;

/* One block at rc->at. *ret_ok false: no sound block there. */
static wr_code read_block(recovery *r, block_hdr *ret_h, bool *ret_ok, wr_err *err) {
    uint8_t bytes[BLOCK_HDR];
    size_t n;
    *ret_ok = false;
    WR_TRY(wr_file_pread(r->f, r->at, bytes, sizeof bytes, &n, err));
    if (n < sizeof bytes || !block_hdr_decode(bytes, r->seg->hdr.id, ret_h)) return WR_OK;
    uint8_t *d = wr_buf_room(&r->stored, ret_h->stored);
    if (!d) return wr_nomem(err, "queue recovery", ret_h->stored);
    WR_TRY(wr_file_pread(r->f, r->at + BLOCK_HDR, d, ret_h->stored, &n, err));
    *ret_ok = n == ret_h->stored && wr_crc32c(0, d, n) == ret_h->crc;
    return WR_OK;
}

/* The last position: that of the last end in the last block that has one. */
static wr_code last_position(recovery *r, pos_state *pos, wr_err *err) {
    if (!r->last_block) return WR_OK;
    block_hdr h;
    bool ok;
    r->at = r->last_block;
    WR_TRY(read_block(r, &h, &ok, err));
    uint8_t *raw = ok ? wr_buf_room(&r->raw, h.raw) : NULL;
    if (ok && !raw) return wr_nomem(err, "queue recovery", h.raw);
    if (!raw || !block_unpack(&h, r->stored.p, raw))
        return segment_corrupt(r->seg, r->last_block, h.first - 1, NULL, "cannot be unpacked", err);
    wr_rd rd = wr_rd_of(raw, h.raw);
    pos->base = false;
    while (wr_rd_left(&rd)) {
        uint8_t tag;
        wr_slice body;
        if (!rec_next(&rd, &tag, &body))
            return segment_corrupt(r->seg, r->last_block, h.first - 1, NULL, "malformed record", err);
        if ((tag & REC_KIND) != REC_END) continue;
        wr_code rc = end_decode(pos, body, err);
        if (rc == WR_E_NOMEM) return rc;
        if (rc != WR_OK)
            return segment_corrupt(r->seg, r->last_block, h.first - 1, NULL, "malformed end of transaction", err);
    }
    pos->base = false;
    return WR_OK;
}

static void recovery_free(recovery *r) {
    wr_buf_free(&r->stored);
    wr_buf_free(&r->raw);
}

wr_code segment_recover(segment *seg, wr_file *f, pos_state *pos, wr_err *err) {
    WR_CLEANUP(recovery_free)
    recovery r = {.seg = seg, .f = f, .at = seg->hdr.hdr_bytes, .tail = seg->hdr.hdr_bytes, .last = seg->hdr.first - 1};
    for (;;) {
        block_hdr h;
        bool ok;
        WR_TRY(read_block(&r, &h, &ok, err));
        if (!ok) break;
        if (((h.flags & BLOCK_FIRST) != 0) == r.inside || h.first != r.last + 1)
            return segment_corrupt(seg, r.at, r.last, NULL, "a block that does not follow the one before it", err);
        r.inside = !(h.flags & BLOCK_LAST);
        if (!r.inside) r.last_block = r.at, r.last = h.first + h.ends - 1;
        r.at += block_disk_bytes(&h);
        if (!r.inside) r.tail = r.at;
    }
    uint64_t bad = r.at, tail = r.tail, proof;
    WR_TRY(last_position(&r, pos, err));
    WR_TRY(scan_for_proof(seg, f, bad, &proof, err));
    if (proof) {
        char why[96];
        snprintf(why, sizeof why, "a sound block follows at byte %llu", (unsigned long long)proof);
        return segment_corrupt(seg, bad, r.last, &pos->pos, why, err);
    }
    uint64_t length;
    WR_TRY(wr_file_length(f, &length, err));
    /* The process before this one may have died between write and sync: cutting syncs as well. The last block's padding
     * may be missing: then this makes the file longer. */
    WR_TRY(segment_cut(seg, f, tail, err));
    seg->synced = seg->bytes;
    seg->last = r.last;
    wr_log(WR_LOG_DEBUG, "queue: %s ends at byte %llu with transaction %llu; %llu bytes behind it cut", seg->path,
           (unsigned long long)seg->bytes, (unsigned long long)seg->last,
           (unsigned long long)(length > tail ? length - tail : 0));
    return WR_OK;
}
