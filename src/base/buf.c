#include "weir/base/buf.h"
#include "weir/base/mem.h"

#include <stdio.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "formats are little-endian and copied as they are in memory");

void wr_buf_free(wr_buf *b) {
    if (!b) return;
    wr_free(b->p);
    *b = (wr_buf)WR_BUF_INIT;
}

bool wr_buf_grow_(wr_buf *b, size_t more) {
    if (b->failed) return false;
    size_t cap = b->cap < 32 ? 64 : b->cap < SIZE_MAX / 2 ? b->cap * 2 : SIZE_MAX;
    if (more > SIZE_MAX / 2 - b->n) return b->failed = true, false;
    if (cap < b->n + more) cap = b->n + more;
    uint8_t *p = wr_realloc(b->p, cap);
    if (!p) return b->failed = true, false;
    b->p = p;
    b->cap = cap;
    return true;
}

void wr_buf_varint(wr_buf *b, uint64_t v) {
    uint8_t *d = wr_buf_room(b, 10);
    if (!d) return;
    size_t i = 0;
    for (; v >= 0x80; v >>= 7) d[i++] = (uint8_t)(v | 0x80);
    d[i++] = (uint8_t)v;
    b->n += i;
}

void wr_buf_slice(wr_buf *b, wr_slice s) {
    wr_buf_varint(b, s.n);
    wr_buf_put(b, s.p, s.n);
}

void wr_buf_str(wr_buf *b, const char *s) { wr_buf_slice(b, s ? wr_slice_str(s) : (wr_slice){0}); }

void wr_buf_printf(wr_buf *b, const char *fmt, ...) {
    size_t room = 128;
    for (;;) {
        uint8_t *d = wr_buf_room(b, room);
        if (!d) return;
        va_list ap;
        va_start(ap, fmt);
        int n = vsnprintf((char *)d, room, fmt, ap);
        va_end(ap);
        if (n < 0) {
            b->failed = true;
            return;
        }
        if ((size_t)n < room) {
            b->n += (size_t)n;
            return;
        }
        room = (size_t)n + 1;
    }
}

char *wr_buf_cstr(wr_buf *b) {
    uint8_t *d = wr_buf_room(b, 1);
    if (!d) return NULL;
    *d = 0;
    return (char *)b->p;
}

wr_code wr_buf_check(const wr_buf *b, const char *what, wr_err *err) {
    return b->failed ? wr_nomem(err, what, b->n) : WR_OK;
}

uint64_t wr_rd_varint(wr_rd *r) {
    uint64_t v = 0;
    for (unsigned i = 0; i < 10; i++) {
        uint8_t c = wr_rd_u8(r);
        if (r->bad) return 0;
        if (i == 9 && c > 1) break; /* more than 64 bits */
        v |= (uint64_t)(c & 0x7f) << (7 * i);
        if (!(c & 0x80)) return v;
    }
    r->bad = true;
    return 0;
}

wr_slice wr_rd_slice(wr_rd *r) {
    uint64_t n = wr_rd_varint(r);
    if (n > wr_rd_left(r)) r->bad = true;
    return r->bad ? (wr_slice){0} : wr_rd_bytes(r, (size_t)n);
}
