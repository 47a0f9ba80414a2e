/* Thrift's compact protocol: what a Parquet footer and page headers need.
 * Source: thrift-compact-protocol.md of Apache Thrift. Failure is the buffer's, or the reader's (sticky). */
#ifndef WEIR_ENGINE_THRIFT_H
#define WEIR_ENGINE_THRIFT_H

#include <string.h>
#include "weir/base/buf.h"

enum {
    WR_TH_TRUE = 1,
    WR_TH_FALSE = 2,
    WR_TH_BYTE = 3,
    WR_TH_I16 = 4,
    WR_TH_I32 = 5,
    WR_TH_I64 = 6,
    WR_TH_BINARY = 8,
    WR_TH_LIST = 9,
    WR_TH_STRUCT = 12
};

/* A struct being written: begin, fields in rising order of id, end. */
typedef struct wr_th {
    wr_buf *b;
    int last; /* id of the field before */
} wr_th;

static inline uint64_t wr_th_zigzag(int64_t v) { return (uint64_t)v << 1 ^ (uint64_t)(v >> 63); }

static inline void wr_th_field(wr_th *t, int id, uint8_t type) {
    int delta = id - t->last;
    if (delta > 0 && delta < 16) {
        wr_buf_u8(t->b, (uint8_t)(delta << 4 | type));
    } else {
        wr_buf_u8(t->b, type);
        wr_buf_varint(t->b, wr_th_zigzag(id));
    }
    t->last = id;
}
static inline void wr_th_i32(wr_th *t, int id, int32_t v) {
    wr_th_field(t, id, WR_TH_I32), wr_buf_varint(t->b, wr_th_zigzag(v));
}
static inline void wr_th_i64(wr_th *t, int id, int64_t v) {
    wr_th_field(t, id, WR_TH_I64), wr_buf_varint(t->b, wr_th_zigzag(v));
}
static inline void wr_th_i16(wr_th *t, int id, int16_t v) {
    wr_th_field(t, id, WR_TH_I16), wr_buf_varint(t->b, wr_th_zigzag(v));
}
static inline void wr_th_bool(wr_th *t, int id, bool v) { wr_th_field(t, id, v ? WR_TH_TRUE : WR_TH_FALSE); }
static inline void wr_th_binary(wr_th *t, int id, wr_slice s) {
    wr_th_field(t, id, WR_TH_BINARY), wr_buf_slice(t->b, s);
}
static inline void wr_th_str(wr_th *t, int id, const char *s) { wr_th_binary(t, id, wr_slice_str(s)); }
/* A struct as a field: `wr_th inner = wr_th_struct(&outer, 5); ... wr_th_end(&inner);` */
static inline wr_th wr_th_struct(wr_th *t, int id) { return wr_th_field(t, id, WR_TH_STRUCT), (wr_th){t->b, 0}; }
static inline void wr_th_end(wr_th *t) { wr_buf_u8(t->b, 0); }
/* The head of a list; its n elements follow, structs each as `(wr_th){b, 0}` ... wr_th_end. */
static inline void wr_th_list(wr_th *t, int id, uint8_t type, size_t n) {
    wr_th_field(t, id, WR_TH_LIST);
    if (n < 15) {
        wr_buf_u8(t->b, (uint8_t)(n << 4 | type));
    } else {
        wr_buf_u8(t->b, (uint8_t)(0xf0 | type));
        wr_buf_varint(t->b, n);
    }
}

/* ------------------------------------------------------------------ reading */
static inline int64_t wr_th_int(wr_rd *r) {
    uint64_t v = wr_rd_varint(r);
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}
/* The next field of a struct: its type, 0 at the end. *id: 0 before the first. */
static inline uint8_t wr_th_next(wr_rd *r, int *id) {
    uint8_t b = wr_rd_u8(r);
    if (r->bad || !(b & 15)) return 0;
    *id = b >> 4 ? *id + (b >> 4) : (int)wr_th_int(r);
    return b & 15;
}
/* The head of a list: how many elements of which type. */
static inline size_t wr_th_elements(wr_rd *r, uint8_t *ret_type) {
    uint8_t b = wr_rd_u8(r);
    *ret_type = b & 15;
    uint64_t n = b >> 4 == 15 ? wr_rd_varint(r) : b >> 4;
    if (n > wr_rd_left(r)) r->bad = true; /* an element has a byte at least */
    return r->bad ? 0 : (size_t)n;
}

#endif
