/* wr_slice: borrowed bytes. wr_buf: a growable byte buffer whose failure is sticky: appends after a failed
 * allocation do nothing, and the one wr_buf_check at the end says so. wr_rd: a bounded reader with the same idea:
 * a read past the end gives zeroes, sets `bad`, and is asked about once.
 * @thread one at a time */
#ifndef WEIR_BASE_BUF_H
#define WEIR_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "weir/base/err.h"

typedef struct wr_slice {
    const uint8_t *p;
    size_t n;
} wr_slice;

static inline wr_slice wr_slice_of(const void *p, size_t n) { return (wr_slice){(const uint8_t *)p, n}; }
static inline wr_slice wr_slice_str(const char *s) { return (wr_slice){(const uint8_t *)s, strlen(s)}; }
static inline bool wr_slice_eq(wr_slice a, wr_slice b) {
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

typedef struct wr_buf {
    uint8_t *p;
    size_t n, cap;
    bool failed; /* an allocation failed; everything after it was dropped */
} wr_buf;

#define WR_BUF_INIT                                                                                                    \
    { 0 }
void wr_buf_free(wr_buf *b); /* frees the memory and resets; NULL is fine */
static inline void wr_buf_clear(wr_buf *b) { b->n = 0, b->failed = false; }
/* Clears a buffer that is used again and again. What one row of many megabytes has made of it is given back. */
#define WR_BUF_KEPT ((size_t)4 << 20)
static inline void wr_buf_rest(wr_buf *b) {
    if (__builtin_expect(b->cap > WR_BUF_KEPT, 0)) wr_buf_free(b);
    else wr_buf_clear(b);
}
bool wr_buf_grow_(wr_buf *b, size_t more);
/* Room for `more` bytes at b->p + b->n, or NULL when memory is out. Does not move n. */
static inline uint8_t *wr_buf_room(wr_buf *b, size_t more) {
    if (__builtin_expect(b->cap - b->n < more || !b->p, 0) && !wr_buf_grow_(b, more)) return NULL;
    return b->failed ? NULL : b->p + b->n;
}
static inline void wr_buf_put(wr_buf *b, const void *src, size_t n) {
    if (n == 0) return; /* src may be NULL then */
    uint8_t *d = wr_buf_room(b, n);
    if (d) memcpy(d, src, n), b->n += n;
}
/* little-endian */
static inline void wr_buf_u8(wr_buf *b, uint8_t v) { wr_buf_put(b, &v, 1); }
static inline void wr_buf_u16(wr_buf *b, uint16_t v) { wr_buf_put(b, &v, 2); }
static inline void wr_buf_u32(wr_buf *b, uint32_t v) { wr_buf_put(b, &v, 4); }
static inline void wr_buf_u64(wr_buf *b, uint64_t v) { wr_buf_put(b, &v, 8); }
void wr_buf_varint(wr_buf *b, uint64_t v); /* LEB128 */
void wr_buf_slice(wr_buf *b, wr_slice s);  /* varint length, then the bytes */
void wr_buf_str(wr_buf *b, const char *s); /* the same for a C string (NULL counts as "") */
void wr_buf_printf(wr_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts a NUL behind the content (not counted) and returns it as a C string, NULL when memory is out. */
char *wr_buf_cstr(wr_buf *b);
wr_code wr_buf_check(const wr_buf *b, const char *what, wr_err *err);
static inline wr_slice wr_buf_view(const wr_buf *b) { return (wr_slice){b->p, b->n}; }
#define WR_AUTO_BUF __attribute__((cleanup(wr_buf_free)))

typedef struct wr_rd {
    const uint8_t *p, *end;
    bool bad;
} wr_rd;

static inline wr_rd wr_rd_of(const void *p, size_t n) {
    return (wr_rd){(const uint8_t *)p, n ? (const uint8_t *)p + n : (const uint8_t *)p, false};
}
static inline size_t wr_rd_left(const wr_rd *r) { return (size_t)(r->end - r->p); }
static inline const uint8_t *wr_rd_take(wr_rd *r, size_t n) { /* NULL when too short */
    if (__builtin_expect(r->bad || (size_t)(r->end - r->p) < n, 0)) return r->bad = true, NULL;
    const uint8_t *q = r->p;
    if (n) r->p += n; /* an empty reader may sit on NULL */
    return q;
}
static inline uint8_t wr_rd_u8(wr_rd *r) {
    const uint8_t *q = wr_rd_take(r, 1);
    return q ? *q : 0;
}
static inline uint16_t wr_rd_u16(wr_rd *r) {
    uint16_t v = 0;
    const uint8_t *q = wr_rd_take(r, 2);
    if (q) memcpy(&v, q, 2);
    return v;
}
static inline uint32_t wr_rd_u32(wr_rd *r) {
    uint32_t v = 0;
    const uint8_t *q = wr_rd_take(r, 4);
    if (q) memcpy(&v, q, 4);
    return v;
}
static inline uint64_t wr_rd_u64(wr_rd *r) {
    uint64_t v = 0;
    const uint8_t *q = wr_rd_take(r, 8);
    if (q) memcpy(&v, q, 8);
    return v;
}
static inline uint64_t wr_rd_uint(wr_rd *r, unsigned bytes) { /* little-endian, 1..8 bytes */
    uint64_t v = 0;
    const uint8_t *q = wr_rd_take(r, bytes);
    if (q) memcpy(&v, q, bytes);
    return v;
}
static inline uint64_t wr_rd_uint_be(wr_rd *r, unsigned bytes) {
    uint64_t v = 0;
    const uint8_t *q = wr_rd_take(r, bytes);
    if (q)
        for (unsigned i = 0; i < bytes; i++) v = v << 8 | q[i];
    return v;
}
uint64_t wr_rd_varint(wr_rd *r); /* LEB128; more than 10 bytes is bad */
wr_slice wr_rd_slice(wr_rd *r);  /* varint length, then the bytes (borrowed) */
static inline wr_slice wr_rd_bytes(wr_rd *r, size_t n) {
    const uint8_t *q = wr_rd_take(r, n);
    return (wr_slice){q, q ? n : 0};
}

#endif
