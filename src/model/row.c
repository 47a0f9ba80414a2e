/* The hot path: every row of every table passes here several times. docs/formats/row.md. */
#include "weir/model.h"

static inline void put_bytes(wr_buf *b, wr_slice s) {
    if (__builtin_expect(s.n > UINT32_MAX, 0)) {
        b->failed = true;
        return;
    }
    uint8_t *d = wr_buf_room(b, 4 + s.n);
    if (__builtin_expect(!d, 0)) return;
    uint32_t n = (uint32_t)s.n;
    memcpy(d, &n, 4);
    if (n) memcpy(d + 4, s.p, n);
    b->n += 4 + s.n;
}

#define PUT_FIXED(b, src, size)                                                                                        \
    do {                                                                                                               \
        uint8_t *d_ = wr_buf_room(b, size);                                                                            \
        if (__builtin_expect(d_ != NULL, 1)) memcpy(d_, src, size), (b)->n += (size);                                  \
    } while (0)

void wr_row_put(wr_buf *b, size_t at, int col, wr_type t, const wr_value *v) {
    if (v->null) {
        wr_row_put_null(b, at, col);
        return;
    }
    switch ((wr_kind)t.kind) {
    case WR_BOOL:
        wr_buf_u8(b, v->b ? 1 : 0);
        break;
    case WR_INT:
    case WR_DATE:
        PUT_FIXED(b, &v->i32, 4);
        break;
    case WR_FLOAT:
        PUT_FIXED(b, &v->f32, 4);
        break;
    case WR_LONG:
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ:
        PUT_FIXED(b, &v->i64, 8);
        break;
    case WR_DOUBLE:
        PUT_FIXED(b, &v->f64, 8);
        break;
    case WR_DECIMAL:
        PUT_FIXED(b, &v->dec, 16);
        break;
    case WR_STRING:
    case WR_BINARY:
    case WR_FLOATS:
        put_bytes(b, v->s);
        break;
    }
}

__attribute__((cold, noinline)) static wr_code unfit(const wr_schema *s, wr_slice row, int col, const char *what,
                                                     wr_err *err) {
    return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO,
                   "row of %zu bytes does not fit schema version %u of %d columns: %s at column %d", row.n, s->version,
                   s->ncols, what, col);
}

wr_code wr_row_read(const wr_schema *s, wr_slice row, wr_value *vals, wr_err *err) {
    int ncols = s->ncols;
    size_t nb = ((size_t)ncols + 7) / 8;
    if (row.n < nb) return unfit(s, row, 0, "short null bitmap", err);
    /* Bits behind the last column are zero, else two equal rows could differ in bytes. */
    if (ncols % 8 && row.p[nb - 1] >> (ncols % 8)) return unfit(s, row, ncols, "null bit", err);
    const uint8_t *p = row.p + nb, *end = row.p + row.n;
    const wr_column *c = s->cols;
    int i = 0;

#define NEED(size)                                                                                                     \
    if (__builtin_expect((size_t)(end - p) < (size_t)(size), 0)) goto too_short
    for (; i < ncols; i++, c++) {
        wr_value *v = &vals[i];
        if (row.p[i >> 3] >> (i & 7) & 1) {
            v->null = true;
            continue;
        }
        v->null = false;
        switch ((wr_kind)c->type.kind) {
        case WR_BOOL:
            NEED(1);
            if (*p > 1) return unfit(s, row, i, "boolean that is neither 0 nor 1", err);
            v->b = *p++;
            break;
        case WR_INT:
        case WR_DATE:
        case WR_FLOAT:
            NEED(4);
            memcpy(&v->i32, p, 4);
            p += 4;
            break;
        case WR_LONG:
        case WR_TIMESTAMP:
        case WR_TIMESTAMPTZ:
        case WR_DOUBLE:
            NEED(8);
            memcpy(&v->i64, p, 8);
            p += 8;
            break;
        case WR_DECIMAL:
            NEED(16);
            memcpy(&v->dec, p, 16);
            p += 16;
            break;
        case WR_STRING:
        case WR_BINARY:
        case WR_FLOATS: {
            uint32_t n;
            NEED(4);
            memcpy(&n, p, 4);
            p += 4;
            NEED(n);
            if (c->type.kind == WR_FLOATS && n % 4) return unfit(s, row, i, "list<float> of uneven length", err);
            v->s = (wr_slice){p, n};
            p += n;
            break;
        }
        default:
            return unfit(s, row, i, "unknown type", err);
        }
    }
#undef NEED
    if (p != end) return unfit(s, row, ncols, "trailing bytes", err);
    return WR_OK;
too_short:
    return unfit(s, row, i, "too few bytes", err);
}
