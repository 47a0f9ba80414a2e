/* Dense values, ranges and bounds. See stats.h. */
#include "stats.h"

#include <math.h>
#include <string.h>

#define TRUNCATE 16 /* code points or bytes, Iceberg's default metrics mode truncate(16) */

/* ------------------------------------------------------------------ dense values */

#define COMPACT(type)                                                                                                  \
    do {                                                                                                               \
        const type *src = (const type *)v->data;                                                                       \
        type *dst = (type *)d->room;                                                                                   \
        for (uint32_t k = 0; k < d->n; k++) dst[k] = src[d->sel[k]];                                                   \
    } while (0)

void wr_dense_of(const wr_batch *b, const wr_chunk *c, int col, wr_dense *d) {
    const wr_vec *v = &c->vecs[col];
    uint32_t w = b->widths[col];
    d->vec = v;
    d->rows = c->rows - c->ndead;
    d->all = !c->ndead && !v->has_null;
    if (d->all) {
        d->n = c->rows;
        d->data = v->data;
        return;
    }
    uint32_t n = 0, live = 0;
    memset(d->valid, 0, sizeof d->valid);
    for (uint32_t i = 0; i < c->rows; i++) {
        uint64_t ok = v->valid[i >> 6] >> (i & 63) & 1, alive = ~c->dead[i >> 6] >> (i & 63) & 1;
        d->valid[live >> 6] |= (ok & alive) << (live & 63);
        d->sel[n] = (uint16_t)i;
        n += (uint32_t)(ok & alive);
        live += (uint32_t)alive;
        if (live == WR_CHUNK_ROWS) break;
    }
    d->n = n;
    d->data = d->room;
    switch (w) {
    case 1:
        COMPACT(uint8_t);
        break;
    case 4:
        COMPACT(uint32_t);
        break;
    case 8:
        COMPACT(uint64_t);
        break;
    case 16: {
        for (uint32_t k = 0; k < n; k++) memcpy(d->room + (size_t)k * 16, v->data + (size_t)d->sel[k] * 16, 16);
        break;
    }
    default:
        break;
    }
}

/* ------------------------------------------------------------------ ranges */

static void range_ints(wr_range *r, int64_t lo, int64_t hi) {
    if (!r->any || lo < r->imin) r->imin = lo;
    if (!r->any || hi > r->imax) r->imax = hi;
    r->any = true;
}

/* IEEE bits in an order in which -0.0 < +0.0; NaN must have been left out. */
static bool float_less(double a, double b) { return a < b || (a == b && signbit(a) && !signbit(b)); }

static void range_floats(wr_range *r, double lo, double hi) {
    if (!r->any || float_less(lo, r->fmin)) r->fmin = lo;
    if (!r->any || float_less(r->fmax, hi)) r->fmax = hi;
    r->any = true;
}

static int bytes_cmp(wr_slice a, wr_slice b) {
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static void range_bytes(wr_range *r, wr_slice lo, wr_slice hi) {
    if (!r->any || bytes_cmp(lo, r->smin) < 0) r->smin = lo;
    if (!r->any || bytes_cmp(hi, r->smax) > 0) r->smax = hi;
    r->any = true;
}

static void range_wide(wr_range *r, __int128 lo, __int128 hi) {
    if (!r->any || lo < r->dmin) r->dmin = lo;
    if (!r->any || hi > r->dmax) r->dmax = hi;
    r->any = true;
}

#define MINMAX(type)                                                                                                   \
    do {                                                                                                               \
        const type *x = (const type *)d->data;                                                                         \
        type lo = x[0], hi = x[0];                                                                                     \
        for (uint32_t i = 1; i < d->n; i++) {                                                                          \
            lo = x[i] < lo ? x[i] : lo;                                                                                \
            hi = x[i] > hi ? x[i] : hi;                                                                                \
        }                                                                                                              \
        range_ints(r, lo, hi);                                                                                         \
    } while (0)

#define MINMAX_FLOAT(type)                                                                                             \
    do {                                                                                                               \
        const type *x = (const type *)d->data;                                                                         \
        type lo = 0, hi = 0;                                                                                           \
        bool any = false;                                                                                              \
        for (uint32_t i = 0; i < d->n; i++) {                                                                          \
            if (isnan(x[i])) {                                                                                         \
                r->nans++;                                                                                             \
            } else if (!any) {                                                                                         \
                lo = hi = x[i], any = true;                                                                            \
            } else {                                                                                                   \
                if (float_less(x[i], lo)) lo = x[i];                                                                   \
                if (float_less(hi, x[i])) hi = x[i];                                                                   \
            }                                                                                                          \
        }                                                                                                              \
        if (any) range_floats(r, lo, hi);                                                                              \
    } while (0)

static uint64_t prefix8(wr_slice s) {
    uint64_t v = 0;
    memcpy(&v, s.p, s.n < 8 ? s.n : 8);
    return __builtin_bswap64(v);
}

static void minmax_bytes(wr_range *r, const wr_dense *d) {
    wr_slice lo = r->any ? r->smin : wr_dense_bytes(d, 0), hi = r->any ? r->smax : lo;
    uint64_t lo8 = prefix8(lo), hi8 = prefix8(hi);
    for (uint32_t i = 0; i < d->n; i++) {
        wr_slice s = wr_dense_bytes(d, i);
        uint64_t s8 = prefix8(s); /* decides nearly always */
        if (s8 <= lo8 && bytes_cmp(s, lo) < 0) lo = s, lo8 = s8;
        if (s8 >= hi8 && bytes_cmp(s, hi) > 0) hi = s, hi8 = s8;
    }
    range_bytes(r, lo, hi);
}

static void count_lists(wr_range *r, const wr_dense *d) {
    for (uint32_t i = 0; i < d->n; i++) {
        wr_slice s = wr_dense_bytes(d, i);
        for (size_t at = 0; at < s.n; at += 4) {
            float f;
            memcpy(&f, s.p + at, 4);
            r->nans += isnan(f) != 0;
        }
        /* an empty list takes an entry in the column, as a null does */
        r->values += s.n ? s.n / 4 : 1;
        r->nulls += s.n == 0;
    }
    r->values += d->rows - d->n;
    r->nulls += d->rows - d->n;
}

void wr_range_add(wr_range *r, wr_type t, const wr_dense *d) {
    if (t.kind == WR_FLOATS) {
        count_lists(r, d);
        return;
    }
    r->values += d->rows;
    r->nulls += d->rows - d->n;
    if (d->n == 0) return;
    switch ((wr_kind)t.kind) {
    case WR_BOOL:
        MINMAX(uint8_t);
        break;
    case WR_INT:
    case WR_DATE:
        MINMAX(int32_t);
        break;
    case WR_LONG:
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ:
        MINMAX(int64_t);
        break;
    case WR_FLOAT:
        /* cppcheck-suppress invalidPointerCast ; the batch keeps a fixed-width column as an array of its type */
        MINMAX_FLOAT(float);
        break;
    case WR_DOUBLE:
        /* cppcheck-suppress invalidPointerCast ; the same */
        MINMAX_FLOAT(double);
        break;
    case WR_DECIMAL:
        if (t.precision <= 9) {
            MINMAX(int32_t);
        } else if (t.precision <= 18) {
            MINMAX(int64_t);
        } else {
            for (uint32_t i = 0; i < d->n; i++) {
                __int128 v;
                memcpy(&v, d->data + (size_t)i * 16, 16);
                range_wide(r, v, v);
            }
        }
        break;
    case WR_STRING:
    case WR_BINARY:
        minmax_bytes(r, d);
        break;
    case WR_FLOATS:
        break;
    }
}

void wr_range_merge(wr_range *r, wr_type t, const wr_range *o) {
    r->values += o->values, r->nulls += o->nulls, r->nans += o->nans;
    if (!o->any) return;
    if (t.kind == WR_STRING || t.kind == WR_BINARY)
        range_bytes(r, o->smin, o->smax);
    else if (t.kind == WR_FLOAT || t.kind == WR_DOUBLE)
        range_floats(r, o->fmin, o->fmax);
    else if (t.kind == WR_DECIMAL && t.precision > 18)
        range_wide(r, o->dmin, o->dmax);
    else
        range_ints(r, o->imin, o->imax);
}

/* ------------------------------------------------------------------ bounds */

static size_t utf8_len(uint8_t lead) { return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4; }

/* Bytes of the first 16 code points. Text that is no UTF-8 gives some prefix, never more than 64 bytes. */
static size_t prefix_bytes(wr_type t, wr_slice s) {
    if (t.kind == WR_BINARY) return s.n < TRUNCATE ? s.n : TRUNCATE;
    size_t at = 0;
    for (int i = 0; i < TRUNCATE && at < s.n; i++) at += utf8_len(s.p[at]);
    return at < s.n ? at : s.n;
}

void wr_truncate_lower(wr_type t, wr_slice s, uint8_t out[64], uint8_t *ret_n) {
    size_t n = prefix_bytes(t, s);
    if (n) memcpy(out, s.p, n);
    *ret_n = (uint8_t)n;
}

/* Raises the code point in the last `len` bytes at p by one, in place. False when it is the last one of all or no code
 * point. */
static bool code_point_next(uint8_t *p, size_t len, size_t *ret_len) {
    uint32_t cp;
    switch (len) {
    case 1:
        cp = p[0];
        break;
    case 2:
        cp = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
        break;
    case 3:
        cp = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
        break;
    default:
        cp = (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
        break;
    }
    if (++cp == 0xd800) cp = 0xe000; /* surrogates are no characters */
    if (cp > 0x10ffff) return false;
    if (cp < 0x80) {
        p[0] = (uint8_t)cp, *ret_len = 1;
    } else if (cp < 0x800) {
        p[0] = (uint8_t)(0xc0 | cp >> 6), p[1] = (uint8_t)(0x80 | (cp & 0x3f)), *ret_len = 2;
    } else if (cp < 0x10000) {
        p[0] = (uint8_t)(0xe0 | cp >> 12), p[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3f)),
        p[2] = (uint8_t)(0x80 | (cp & 0x3f)), *ret_len = 3;
    } else {
        p[0] = (uint8_t)(0xf0 | cp >> 18), p[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3f)),
        p[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
        p[3] = (uint8_t)(0x80 | (cp & 0x3f)), *ret_len = 4;
    }
    return true;
}

bool wr_truncate_upper(wr_type t, wr_slice s, uint8_t out[64], uint8_t *ret_n) {
    size_t n = prefix_bytes(t, s);
    uint8_t work[68]; /* a raised code point may be one byte longer */
    if (n) memcpy(work, s.p, n);
    if (n == s.n) {
        if (n) memcpy(out, work, n);
        *ret_n = (uint8_t)n;
        return true;
    }
    /* raise the last code point (byte) that can be raised and drop what is behind it */
    while (n > 0) {
        if (t.kind == WR_BINARY) {
            if (work[n - 1] != 0xff) {
                work[n - 1]++;
                break;
            }
            n--;
            continue;
        }
        size_t at = n - 1, len;
        while (at > 0 && (work[at] & 0xc0) == 0x80) at--;
        if (n - at == utf8_len(work[at]) && code_point_next(work + at, n - at, &len)) {
            n = at + len;
            break;
        }
        n = at;
    }
    /* bytes that are no UTF-8 may have become smaller: no bound is better than a wrong one */
    if (n == 0 || n > 64 || bytes_cmp((wr_slice){work, n}, s) < 0) return false;
    memcpy(out, work, n);
    *ret_n = (uint8_t)n;
    return true;
}

/* Shortest big-endian two's complement. */
static uint8_t decimal_bytes(__int128 v, uint8_t *out) {
    uint8_t be[16];
    for (int i = 0; i < 16; i++) be[15 - i] = (uint8_t)((unsigned __int128)v >> (8 * i));
    int skip = 0;
    while (skip < 15 && ((be[skip] == 0 && !(be[skip + 1] & 0x80)) || (be[skip] == 0xff && (be[skip + 1] & 0x80))))
        skip++;
    memcpy(out, be + skip, (size_t)(16 - skip));
    return (uint8_t)(16 - skip);
}

static uint8_t int_bytes(int64_t v, uint8_t n, uint8_t *out) {
    memcpy(out, &v, n); /* little-endian */
    return n;
}

static uint8_t float_bytes(wr_type t, double v, uint8_t *out) {
    if (t.kind == WR_DOUBLE) return memcpy(out, &v, 8), 8;
    float f = (float)v; /* exact: it was one */
    return memcpy(out, &f, 4), 4;
}

void wr_range_stats(const wr_range *r, wr_type t, wr_column_stats *s) {
    s->values = r->values, s->nulls = r->nulls, s->nans = r->nans;
    s->has_lower = s->has_upper = r->any;
    if (!r->any) return;
    switch ((wr_kind)t.kind) {
    case WR_BOOL:
    case WR_INT:
    case WR_DATE:
    case WR_LONG:
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ: {
        uint8_t n = t.kind == WR_BOOL ? 1 : t.kind == WR_INT || t.kind == WR_DATE ? 4 : 8;
        s->lower_n = int_bytes(r->imin, n, s->lower);
        s->upper_n = int_bytes(r->imax, n, s->upper);
        break;
    }
    case WR_FLOAT:
    case WR_DOUBLE:
        s->lower_n = float_bytes(t, r->fmin, s->lower);
        s->upper_n = float_bytes(t, r->fmax, s->upper);
        break;
    case WR_DECIMAL:
        s->lower_n = decimal_bytes(t.precision > 18 ? r->dmin : r->imin, s->lower);
        s->upper_n = decimal_bytes(t.precision > 18 ? r->dmax : r->imax, s->upper);
        break;
    case WR_STRING:
    case WR_BINARY:
        wr_truncate_lower(t, r->smin, s->lower, &s->lower_n);
        s->has_upper = wr_truncate_upper(t, r->smax, s->upper, &s->upper_n);
        break;
    case WR_FLOATS:
        break;
    }
}
