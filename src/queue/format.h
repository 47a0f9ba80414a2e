/* The bytes of a queue segment: headers, blocks, records. docs/formats/queue.md is the authority.
 * Nothing here does I/O or takes locks. @thread one at a time per object */
#ifndef WEIR_QUEUE_FORMAT_H
#define WEIR_QUEUE_FORMAT_H

#include "weir/base/buf.h"
#include "weir/model.h"

#define SEG_VERSION 1u
#define SEG_HDR_MIN 64u
#define SEG_HDR_MAX (16u << 20)
#define BLOCK_HDR 64u
#define BLOCK_RAW_MIN (4u << 10)
#define BLOCK_RAW_MAX (8u << 20)

#define ALIGN64(n) (((n) + 63) & ~(uint64_t)63)

typedef struct seg_hdr {
    uint64_t id, prev_id; /* prev_id 0: the very first segment */
    uint64_t first;       /* offset of its first transaction */
    uint64_t prev_bytes;  /* where the data of the segment before ends */
    uint32_t hdr_bytes;
    int64_t made_us;
} seg_hdr;

/* Appends the whole header to b; pos is the position in front of the first transaction. Sets h->hdr_bytes. */
wr_code seg_hdr_encode(seg_hdr *h, const wr_pos *pos, wr_buf *b, wr_err *err);
/* `bytes` begins at byte 0 of the file and may be longer than the header. With fewer bytes than the header has,
 * *ret_need says how many to bring and the result is WR_E_LIMIT. */
wr_code seg_hdr_decode(wr_slice bytes, seg_hdr *ret_h, wr_pos *ret_pos, size_t *ret_need, wr_err *err);

typedef enum block_codec { CODEC_NONE = 0, CODEC_LZ4 = 1 } block_codec;

#define BLOCK_FIRST 1u /* begins at a transaction boundary */
#define BLOCK_LAST 2u  /* ends at one */

typedef struct block_hdr {
    uint64_t seg_id;
    uint32_t crc;         /* of the stored bytes */
    uint32_t stored, raw; /* bytes */
    uint8_t codec, flags;
    uint64_t first; /* offset of the transaction of the first record */
    uint32_t ends, records;
    uint64_t synced;
} block_hdr;

void block_hdr_encode(const block_hdr *h, uint8_t dst[BLOCK_HDR]);
/* false when these 64 bytes are not a sound block header of segment seg_id. */
bool block_hdr_decode(const uint8_t src[BLOCK_HDR], uint64_t seg_id, block_hdr *ret_h);
static inline uint64_t block_disk_bytes(const block_hdr *h) { return ALIGN64(BLOCK_HDR + (uint64_t)h->stored); }
/* Unpacks verified stored bytes to raw[h->raw]. false when they do not have that size. */
bool block_unpack(const block_hdr *h, const uint8_t *stored, uint8_t *raw);

/* ---- records */
#define REC_END 0u
#define REC_KIND 0x0fu
#define REC_MORE 0x80u
#define REC_KIND_MAX 4u
#define REC_HDR_MAX 6u /* tag and a 5-byte varint */

static inline size_t varint_bytes(uint64_t v) { return v < 0x80 ? 1 : (size_t)(63 - __builtin_clzll(v)) / 7 + 1; }
static inline uint8_t *varint_put(uint8_t *p, uint64_t v) {
    while (v >= 0x80) *p++ = (uint8_t)v | 0x80, v >>= 7;
    *p++ = (uint8_t)v;
    return p;
}
/* Takes the next record; false when the bytes are not one. */
static inline bool rec_next(wr_rd *rd, uint8_t *ret_tag, wr_slice *ret_body) {
    const uint8_t *p = rd->p;
    if (__builtin_expect(rd->end - p < 2, 0)) return false;
    uint8_t tag = *p++;
    uint64_t n = *p++;
    if (n >= 0x80) {
        n &= 0x7f;
        for (unsigned shift = 7;; shift += 7) {
            if (shift > 28 || p == rd->end) return false;
            uint8_t c = *p++;
            n |= (uint64_t)(c & 0x7f) << shift;
            if (c < 0x80) break;
        }
    }
    if ((uint64_t)(rd->end - p) < n || (tag & ~(REC_KIND | REC_MORE)) || (tag & REC_KIND) > REC_KIND_MAX ||
        tag == (REC_END | REC_MORE))
        return false;
    *ret_tag = tag;
    *ret_body = (wr_slice){p, (size_t)n};
    rd->p = p + n;
    return true;
}
/* ---- end of transaction: a position told as the difference to the one before */
typedef struct pos_state {
    wr_pos pos; /* gtid_set is `set` or NULL: never clear or free it through pos */
    char *set;  /* owned */
    size_t set_n, set_cap;
    int64_t time_us;
    bool base; /* the next end in this block may refer to it */
} pos_state;

void pos_state_free(pos_state *st);
/* Makes room so that the following pos_state_set cannot fail. */
wr_code pos_state_reserve(pos_state *st, const wr_pos *pos, wr_err *err);
void pos_state_set(pos_state *st, const wr_pos *pos, int64_t time_us); /* base = true */
/* Appends the end record's payload for (pos, time_us) behind `st` (alone-standing when !st->base). */
void end_encode(wr_buf *b, const pos_state *st, const wr_pos *pos, int64_t time_us);
/* Moves st forward. WR_E_CORRUPT leaves it unusable, WR_E_NOMEM unchanged. */
wr_code end_decode(pos_state *st, wr_slice body, wr_err *err);

#endif
