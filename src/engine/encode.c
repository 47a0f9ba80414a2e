/* See encode.h. */
#include "encode.h"

#include <string.h>
#include "weir/base/mem.h"
#include "weir/base/sum.h"

/* ------------------------------------------------------------------ PLAIN */

uint8_t wr_decimal_fixed(uint8_t precision) {
    /* smallest n with 2^(8n-1) > 10^precision */
    static const uint8_t bytes[39] = {
        [19] = 9,  [20] = 9,  [21] = 9,  [22] = 10, [23] = 10, [24] = 11, [25] = 11, [26] = 11, [27] = 12, [28] = 12,
        [29] = 13, [30] = 13, [31] = 13, [32] = 14, [33] = 14, [34] = 15, [35] = 15, [36] = 16, [37] = 16, [38] = 16};
    return bytes[precision];
}

static void plain_bytes(wr_buf *out, const wr_dense *d, uint32_t from, uint32_t to) {
    size_t total = 0;
    for (uint32_t i = from; i < to; i++) total += 4 + wr_dense_bytes(d, i).n;
    uint8_t *p = wr_buf_room(out, total);
    if (!p) return;
    for (uint32_t i = from; i < to; i++) {
        wr_slice s = wr_dense_bytes(d, i);
        uint32_t n = (uint32_t)s.n;
        memcpy(p, &n, 4);
        if (n) memcpy(p + 4, s.p, n);
        p += 4 + n;
    }
    out->n += total;
}

void wr_bits_pack(wr_buf *b, size_t from) {
    if (b->failed) return;
    size_t n = b->n - from;
    uint8_t *p = b->p + from;
    for (size_t i = 0; i < n; i += 8) {
        uint8_t byte = 0;
        for (size_t k = 0; k < 8 && i + k < n; k++) byte |= (uint8_t)(p[i + k] << k);
        p[i / 8] = byte;
    }
    b->n = from + (n + 7) / 8;
}

static void plain_wide(wr_buf *out, unsigned fixed, const wr_dense *d, uint32_t from, uint32_t to) {
    uint8_t *p = wr_buf_room(out, (size_t)fixed * (to - from));
    if (!p) return;
    for (uint32_t i = from; i < to; i++, p += fixed)
        for (unsigned k = 0; k < fixed; k++) p[k] = d->data[(size_t)i * 16 + fixed - 1 - k];
    out->n += (size_t)fixed * (to - from);
}

void wr_plain(wr_buf *out, wr_type t, const wr_dense *d, uint32_t from, uint32_t to) {
    uint32_t w = wr_batch_width(t);
    if (from == to) return;
    if (w == 0)
        plain_bytes(out, d, from, to);
    else if (w == 16)
        plain_wide(out, wr_decimal_fixed(t.precision), d, from, to);
    else
        wr_buf_put(out, d->data + (size_t)from * w, (size_t)w * (to - from));
}

/* ------------------------------------------------------------------ hybrid */

unsigned wr_width_of(uint32_t max) { return max ? 32 - (unsigned)__builtin_clz(max) : 1; }

static void hybrid_run(wr_buf *out, uint16_t v, size_t n, unsigned width) {
    wr_buf_varint(out, (uint64_t)n << 1);
    wr_buf_put(out, &v, width > 8 ? 2 : 1);
}

/* Groups of eight; the last one may be short and is filled up with zeroes. */
static void hybrid_packed(wr_buf *out, const uint16_t *v, size_t n, unsigned width) {
    if (n == 0) return;
    size_t groups = (n + 7) / 8;
    wr_buf_varint(out, (uint64_t)groups << 1 | 1);
    uint8_t *p = wr_buf_room(out, groups * width + 16); /* 16 are written for each group */
    if (!p) return;
    for (size_t g = 0; g < groups; g++, v += 8, p += width) {
        uint16_t tail[8] = {0};
        const uint16_t *x = v;
        if (n - g * 8 < 8) memcpy(tail, v, (n - g * 8) * sizeof *v), x = tail;
        unsigned w = width;
        uint64_t lo = x[0] | (uint64_t)x[1] << w | (uint64_t)x[2] << 2 * w | (uint64_t)x[3] << 3 * w;
        uint64_t hi = x[4] | (uint64_t)x[5] << w | (uint64_t)x[6] << 2 * w | (uint64_t)x[7] << 3 * w;
        unsigned __int128 all = lo | (unsigned __int128)hi << 4 * w;
        memcpy(p, &all, 16);
    }
    out->n += groups * width;
}

void wr_hybrid(wr_buf *out, const uint16_t *v, size_t n, unsigned width) {
    size_t packed = 0, i = 0; /* [packed, i) waits to be packed */
    while (i < n) {
        size_t run = 1;
        while (i + run < n && v[i + run] == v[i]) run++;
        size_t odd = (i - packed) % 8;
        if (run < 8 + (odd ? 8 - odd : 0)) { /* too short for a run of its own */
            i += run;
            continue;
        }
        if (odd) i += 8 - odd, run -= 8 - odd; /* only whole groups may stand before it */
        hybrid_packed(out, v + packed, i - packed, width);
        hybrid_run(out, v[i], run, width);
        i += run;
        packed = i;
    }
    hybrid_packed(out, v + packed, n - packed, width);
}

void wr_hybrid_bits(wr_buf *out, const uint64_t *bits, size_t n, size_t ones) {
    if (n == 0) return;
    if (ones == 0 || ones == n) {
        hybrid_run(out, ones != 0, n, 1);
        return;
    }
    wr_buf_varint(out, (uint64_t)((n + 7) / 8) << 1 | 1);
    wr_buf_put(out, bits, (n + 7) / 8);
}

/* ------------------------------------------------------------------ dictionaries */

bool wr_dict_reset(wr_dict *d, size_t values) {
    uint32_t slots = 64;
    while (slots < 2 * values && slots < 2 * WR_DICT_ENTRIES_MAX) slots *= 2;
    if (slots != d->slots_n) {
        wr_free(d->slots);
        wr_free(d->keys);
        d->slots = wr_malloc(slots * sizeof *d->slots);
        d->keys = wr_malloc(slots / 2 * sizeof *d->keys);
        d->slots_n = d->slots && d->keys ? slots : 0;
        d->entries_cap = d->slots_n / 2;
    }
    if (values > d->cap) {
        wr_free(d->indexes);
        d->indexes = wr_malloc(values * sizeof *d->indexes);
        d->cap = d->indexes ? values : 0;
    }
    if (!d->slots_n || values > d->cap) return false;
    memset(d->slots, 0, slots * sizeof *d->slots);
    d->entries = 0, d->n = 0;
    wr_buf_clear(&d->plain);
    return true;
}

void wr_dict_free(wr_dict *d) {
    wr_free(d->slots);
    wr_free(d->keys);
    wr_free(d->indexes);
    wr_buf_free(&d->plain);
}

static inline uint32_t int_slot(uint64_t v, uint32_t mask) {
    return (uint32_t)((v * UINT64_C(0x9e3779b97f4a7c15)) >> 40) & mask;
}

static bool add_int(wr_dict *d, uint64_t v, uint8_t width) {
    uint32_t mask = d->slots_n - 1, at = int_slot(v, mask);
    while (d->slots[at] && d->keys[d->slots[at] - 1] != v) at = (at + 1) & mask;
    if (!d->slots[at]) {
        if (d->entries == d->entries_cap) return false;
        d->keys[d->entries++] = v;
        d->slots[at] = d->entries;
        wr_buf_put(&d->plain, &v, width);
    }
    d->indexes[d->n++] = (uint16_t)(d->slots[at] - 1);
    return true;
}

static bool add_bytes(wr_dict *d, wr_slice s) {
    uint32_t mask = d->slots_n - 1, at = (uint32_t)wr_hash64(s.p, s.n, 0) & mask;
    for (; d->slots[at]; at = (at + 1) & mask) {
        uint64_t key = d->keys[d->slots[at] - 1]; /* offset << 32 | length */
        if ((uint32_t)key == s.n && (s.n == 0 || memcmp(d->plain.p + (key >> 32), s.p, s.n) == 0)) break;
    }
    if (!d->slots[at]) {
        if (d->entries == d->entries_cap || d->plain.n + s.n + 4 > WR_DICT_BYTES_MAX) return false;
        d->keys[d->entries++] = (uint64_t)(d->plain.n + 4) << 32 | s.n;
        d->slots[at] = d->entries;
        wr_buf_u32(&d->plain, (uint32_t)s.n);
        if (s.n) wr_buf_put(&d->plain, s.p, s.n);
        if (d->plain.failed) return false;
    }
    d->indexes[d->n++] = (uint16_t)(d->slots[at] - 1);
    return true;
}

wr_dict_verdict wr_dict_add(wr_dict *d, wr_type t, uint8_t width, const wr_dense *v) {
    bool ok = true;
    if (width == 4) {
        const uint32_t *x = (const uint32_t *)v->data;
        for (uint32_t i = 0; i < v->n && ok; i++) ok = add_int(d, x[i], 4);
    } else if (width == 8) {
        const uint64_t *x = (const uint64_t *)v->data;
        for (uint32_t i = 0; i < v->n && ok; i++) ok = add_int(d, x[i], 8);
    } else {
        for (uint32_t i = 0; i < v->n && ok; i++) ok = add_bytes(d, wr_dense_bytes(v, i));
    }
    if (d->plain.failed) return WR_DICT_NOMEM;
    /* below three uses of each value the indexes and the hashing cost more than the copies */
    return ok && (uint64_t)d->entries * 3 <= d->n ? WR_DICT_GOOD : WR_DICT_POOR;
}
