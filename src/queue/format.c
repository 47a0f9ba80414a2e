#include "format.h"

#include <lz4.h>
#include "weir/base/mem.h"
#include "weir/base/sum.h"

static const uint8_t seg_magic[8] = {'W', 'E', 'I', 'R', 'Q', 'S', 'E', 'G'};
static const uint8_t block_magic[4] = {'W', 'Q', 'B', 'K'};

static void put32(uint8_t *p, uint32_t v) { memcpy(p, &v, 4); }
static void put64(uint8_t *p, uint64_t v) { memcpy(p, &v, 8); }
static uint32_t get32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
static uint64_t get64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* CRC of p[0..n) with the 4 bytes at `hole` counted as 0. */
static uint32_t crc_around(const uint8_t *p, size_t n, size_t hole) {
    static const uint8_t zero[4];
    uint32_t c = wr_crc32c(0, p, hole);
    c = wr_crc32c(c, zero, 4);
    return wr_crc32c(c, p + hole + 4, n - hole - 4);
}

/* ------------------------------------------------------------------ segment header */
wr_code seg_hdr_encode(seg_hdr *h, const wr_pos *pos, wr_buf *b, wr_err *err) {
    size_t at = b->n;
    static const uint8_t zero[SEG_HDR_MIN];
    wr_buf_put(b, zero, SEG_HDR_MIN);
    wr_pos_encode(b, pos);
    size_t pos_bytes = b->n - at - SEG_HDR_MIN;
    wr_buf_put(b, zero, ALIGN64(b->n - at) - (b->n - at));
    WR_TRY(wr_buf_check(b, "queue segment header", err));
    size_t n = b->n - at;
    if (n > SEG_HDR_MAX)
        return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO,
                       "the source position takes %zu bytes, a queue segment's header at most %u", n, SEG_HDR_MAX);
    h->hdr_bytes = (uint32_t)n;
    uint8_t *p = b->p + at;
    memcpy(p, seg_magic, 8);
    put32(p + 8, SEG_VERSION);
    put64(p + 16, h->id);
    put64(p + 24, h->prev_id);
    put64(p + 32, h->first);
    put64(p + 40, h->prev_bytes);
    put32(p + 48, h->hdr_bytes);
    put32(p + 52, (uint32_t)pos_bytes);
    put64(p + 56, (uint64_t)h->made_us);
    put32(p + 12, crc_around(p, n, 12));
    return WR_OK;
}

wr_code seg_hdr_decode(wr_slice bytes, seg_hdr *ret_h, wr_pos *ret_pos, size_t *ret_need, wr_err *err) {
    const uint8_t *p = bytes.p;
    *ret_need = SEG_HDR_MIN;
    if (bytes.n < SEG_HDR_MIN)
        return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "segment header cut off at %zu bytes", bytes.n);
    if (memcmp(p, seg_magic, 8) != 0) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "not a queue segment (bad magic)");
    uint32_t n = get32(p + 48), pos_bytes = get32(p + 52);
    if (n < SEG_HDR_MIN || n > SEG_HDR_MAX || n % 64 || pos_bytes > n - SEG_HDR_MIN)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "segment header with impossible sizes %u and %u", n, pos_bytes);
    *ret_need = n;
    if (bytes.n < n)
        return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "segment header cut off at %zu of %u bytes", bytes.n, n);
    if (crc_around(p, n, 12) != get32(p + 12))
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "segment header does not match its checksum");
    uint32_t version = get32(p + 8);
    if (version != SEG_VERSION) {
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "queue segment of version %u, this program knows %u", version,
                SEG_VERSION);
        return wr_err_cure(err, "use the program that wrote it");
    }
    seg_hdr h = {.id = get64(p + 16),
                 .prev_id = get64(p + 24),
                 .first = get64(p + 32),
                 .prev_bytes = get64(p + 40),
                 .hdr_bytes = n,
                 .made_us = (int64_t)get64(p + 56)};
    if (h.id == 0 || h.first == 0)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "segment header without id or first offset");
    wr_rd rd = wr_rd_of(p + SEG_HDR_MIN, pos_bytes);
    wr_pos pos = {0};
    wr_code rc = wr_pos_decode(&rd, &pos, err);
    if (rc == WR_OK && (rd.bad || wr_rd_left(&rd)))
        rc = wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "segment header with a malformed position");
    if (rc != WR_OK) {
        wr_pos_clear(&pos);
        return rc == WR_E_NOMEM ? rc : (err->code = WR_E_CORRUPT);
    }
    *ret_h = h;
    *ret_pos = pos;
    return WR_OK;
}

/* ------------------------------------------------------------------ block */
void block_hdr_encode(const block_hdr *h, uint8_t dst[BLOCK_HDR]) {
    memset(dst, 0, BLOCK_HDR);
    memcpy(dst, block_magic, 4);
    put64(dst + 8, h->seg_id);
    put32(dst + 16, h->crc);
    put32(dst + 20, h->stored);
    put32(dst + 24, h->raw);
    dst[28] = h->codec;
    dst[29] = h->flags;
    put64(dst + 32, h->first);
    put32(dst + 40, h->ends);
    put32(dst + 44, h->records);
    put64(dst + 48, h->synced);
    put32(dst + 4, crc_around(dst, BLOCK_HDR, 4));
}

bool block_hdr_decode(const uint8_t src[BLOCK_HDR], uint64_t seg_id, block_hdr *ret_h) {
    if (memcmp(src, block_magic, 4) != 0 || get64(src + 8) != seg_id || crc_around(src, BLOCK_HDR, 4) != get32(src + 4))
        return false;
    block_hdr h = {.seg_id = seg_id,
                   .crc = get32(src + 16),
                   .stored = get32(src + 20),
                   .raw = get32(src + 24),
                   .codec = src[28],
                   .flags = src[29],
                   .first = get64(src + 32),
                   .ends = get32(src + 40),
                   .records = get32(src + 44),
                   .synced = get64(src + 48)};
    if (h.raw == 0 || h.raw > BLOCK_RAW_MAX || h.stored == 0 || h.stored > h.raw || h.codec > CODEC_LZ4 || h.flags > 3)
        return false;
    if (h.codec == CODEC_NONE && h.stored != h.raw) return false;
    if (h.first == 0 || h.first + h.ends < h.first || h.records < h.ends || h.records == 0) return false;
    if (((h.flags & BLOCK_LAST) != 0) != (h.ends > 0)) return false;
    *ret_h = h;
    return true;
}

bool block_unpack(const block_hdr *h, const uint8_t *stored, uint8_t *raw) {
    if (h->codec == CODEC_NONE) {
        memcpy(raw, stored, h->raw);
        return true;
    }
    return LZ4_decompress_safe((const char *)stored, (char *)raw, (int)h->stored, (int)h->raw) == (int)h->raw;
}

/* ------------------------------------------------------------------ end of transaction */
#define END_FILE 1u
#define END_GTID 2u
#define END_DIFF 4u
#define END_EPOCH 8u

static uint64_t zigzag(int64_t v) { return (uint64_t)v << 1 ^ (uint64_t)(v >> 63); }
static int64_t unzigzag(uint64_t v) { return (int64_t)(v >> 1 ^ -(v & 1)); }

void pos_state_free(pos_state *st) {
    wr_free(st->set);
    *st = (pos_state){0};
}

static wr_code set_room(pos_state *st, size_t n, wr_err *err) {
    if (n < st->set_cap) return WR_OK;
    size_t cap = n + n / 4 + 64;
    char *p = wr_realloc(st->set, cap);
    if (!p) return wr_nomem(err, "GTID set", cap);
    if (st->pos.gtid_set) st->pos.gtid_set = p;
    st->set = p;
    st->set_cap = cap;
    return WR_OK;
}

wr_code pos_state_reserve(pos_state *st, const wr_pos *pos, wr_err *err) {
    return pos->gtid_set ? set_room(st, strlen(pos->gtid_set), err) : WR_OK;
}

void pos_state_set(pos_state *st, const wr_pos *pos, int64_t time_us) {
    if (strcmp(st->pos.file, pos->file) != 0) memcpy(st->pos.file, pos->file, sizeof st->pos.file);
    st->pos.offset = pos->offset;
    st->pos.epoch = pos->epoch;
    if (pos->gtid_set) {
        st->set_n = strlen(pos->gtid_set);
        memcpy(st->set, pos->gtid_set, st->set_n + 1);
    }
    st->pos.gtid_set = pos->gtid_set ? st->set : NULL;
    st->time_us = time_us;
    st->base = true;
}

static size_t common_prefix(const uint8_t *a, const uint8_t *b, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t d = get64(a + i) ^ get64(b + i);
        if (d) return i + (size_t)__builtin_ctzll(d) / 8;
    }
    while (i < n && a[i] == b[i]) i++;
    return i;
}

static size_t common_suffix(const uint8_t *a_end, const uint8_t *b_end, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t d = get64(a_end - i - 8) ^ get64(b_end - i - 8);
        if (d) return i + (size_t)__builtin_clzll(d) / 8;
    }
    while (i < n && a_end[-1 - (ptrdiff_t)i] == b_end[-1 - (ptrdiff_t)i]) i++;
    return i;
}

void end_encode(wr_buf *b, const pos_state *st, const wr_pos *pos, int64_t time_us) {
    bool file = !st->base || strcmp(st->pos.file, pos->file) != 0;
    bool diff = pos->gtid_set && st->base && st->pos.gtid_set, epoch = pos->epoch != (st->base ? st->pos.epoch : 0);
    wr_buf_u8(b, (uint8_t)((file ? END_FILE : 0) | (pos->gtid_set ? END_GTID : 0) | (diff ? END_DIFF : 0) | (epoch ? END_EPOCH : 0)));
    wr_buf_varint(b, zigzag((int64_t)((uint64_t)time_us - (st->base ? (uint64_t)st->time_us : 0))));
    wr_buf_varint(b, pos->offset);
    if (file) wr_buf_str(b, pos->file);
    if (epoch) wr_buf_varint(b, pos->epoch);
    if (!pos->gtid_set) return;
    size_t n = strlen(pos->gtid_set);
    const uint8_t *set = (const uint8_t *)pos->gtid_set;
    if (!diff) {
        wr_buf_slice(b, wr_slice_of(set, n));
        return;
    }
    const uint8_t *old = (const uint8_t *)st->pos.gtid_set;
    size_t least = n < st->set_n ? n : st->set_n;
    size_t prefix = common_prefix(old, set, least);
    size_t suffix = common_suffix(old + st->set_n, set + n, least - prefix);
    wr_buf_varint(b, prefix);
    wr_buf_varint(b, suffix);
    wr_buf_slice(b, wr_slice_of(set + prefix, n - prefix - suffix));
}

wr_code end_decode(pos_state *st, wr_slice body, wr_err *err) {
    wr_rd rd = wr_rd_of(body.p, body.n);
    uint8_t flags = wr_rd_u8(&rd);
    int64_t time_us = unzigzag(wr_rd_varint(&rd));
    uint64_t offset = wr_rd_varint(&rd);
    wr_slice file = {0}, mid = {0};
    uint64_t prefix = 0, suffix = 0;
    if (flags & END_FILE) file = wr_rd_slice(&rd);
    uint64_t epoch = flags & END_EPOCH ? wr_rd_varint(&rd) : st->base ? st->pos.epoch : 0;
    if (flags & END_DIFF) prefix = wr_rd_varint(&rd), suffix = wr_rd_varint(&rd);
    if (flags & END_GTID) mid = wr_rd_slice(&rd);
    bool refers = !(flags & END_FILE) || (flags & END_DIFF);
    if (rd.bad || wr_rd_left(&rd) || flags > 15 || epoch > UINT32_MAX || (flags & (END_GTID | END_DIFF)) == END_DIFF ||
        file.n >= WR_POS_FILE_MAX || (refers && !st->base) || ((flags & END_DIFF) && !st->pos.gtid_set) ||
        prefix > st->set_n || suffix > st->set_n - prefix)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "malformed end of transaction (%zu bytes)", body.n);
    if (flags & END_GTID) {
        size_t n = (size_t)(prefix + mid.n + suffix);
        WR_TRY(set_room(st, n, err));
        char *set = st->set;
        if (suffix) memmove(set + prefix + mid.n, set + st->set_n - suffix, suffix);
        if (mid.n) memcpy(set + prefix, mid.p, mid.n);
        set[n] = 0;
        st->set_n = n;
    }
    st->pos.gtid_set = flags & END_GTID ? st->set : NULL;
    if (flags & END_FILE) {
        memset(st->pos.file, 0, sizeof st->pos.file);
        if (file.n) memcpy(st->pos.file, file.p, file.n);
    }
    st->pos.offset = offset;
    st->pos.epoch = (uint32_t)epoch;
    st->time_us = (int64_t)((uint64_t)time_us + (st->base ? (uint64_t)st->time_us : 0));
    st->base = true;
    return WR_OK;
}
