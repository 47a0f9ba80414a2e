#include "bloom.h"

#include <string.h>
#include "thrift.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

#define BLOCK_BYTES 32
#define BITS_PER_VALUE 10      /* one look-up in a hundred finds what is not there */
#define WRONG_AT_MOST 0.015    /* of look-ups, after folding */
#define BYTES_MAX (16u << 20)

bool wr_bloom_suits(wr_type t) {
    return t.kind != WR_BOOL && t.kind != WR_FLOAT && t.kind != WR_DOUBLE && t.kind != WR_FLOATS && t.kind != WR_BINARY;
}

bool wr_bloom_reset(wr_bloom *b, uint64_t values) {
    uint64_t bytes = BLOCK_BYTES;
    /* the power of two that is nearest: half as much again or less of a value's bits matters little, twice its bytes do */
    while (bytes < BYTES_MAX && bytes * 3 / 2 < values * BITS_PER_VALUE / 8) bytes *= 2;
    uint32_t blocks = (uint32_t)(bytes / BLOCK_BYTES);
    if (blocks > b->cap) {
        wr_free(b->words);
        b->cap = 0;
        if (!(b->words = wr_malloc(bytes))) return false;
        b->cap = blocks;
    }
    b->blocks = blocks;
    memset(b->words, 0, bytes);
    return true;
}

static inline void add(wr_bloom *b, const void *p, size_t n) {
    static const uint32_t salt[8] = {0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31};
    uint64_t h = wr_xxh64(p, n);
    uint32_t *block = b->words + ((h >> 32) * b->blocks >> 32) * 8, key = (uint32_t)h;
    for (int i = 0; i < 8; i++) block[i] |= UINT32_C(1) << (key * salt[i] >> 27);
}

/* Fixed values are hashed as PLAIN has them: wide decimals turned round to the file's FIXED_LEN_BYTE_ARRAY. */
void wr_bloom_add(wr_bloom *b, wr_type t, const wr_dense *v) {
    unsigned width = wr_batch_width(t);
    if (width == 0) {
        for (uint32_t i = 0; i < v->n; i++) {
            wr_slice s = wr_dense_bytes(v, i);
            add(b, s.p, s.n);
        }
    } else if (width == 16) {
        unsigned fixed = wr_decimal_fixed(t.precision);
        for (uint32_t i = 0; i < v->n; i++) {
            uint8_t be[16];
            for (unsigned k = 0; k < fixed; k++) be[k] = v->data[(size_t)i * 16 + fixed - 1 - k];
            add(b, be, fixed);
        }
    } else {
        for (uint32_t i = 0; i < v->n; i++) add(b, v->data + (size_t)i * width, width);
    }
}

void wr_bloom_add_dict(wr_bloom *b, wr_type t, const wr_dict *d) {
    unsigned width = wr_batch_width(t);
    for (uint32_t i = 0; i < d->entries; i++) {
        uint64_t k = d->keys[i]; /* the value, or where its bytes are */
        if (width) add(b, &k, width);
        else add(b, d->plain.p + (k >> 32), (uint32_t)k);
    }
}

/* A value is taken for one that is there when all eight words of its block have its bit. */
static double wrong(const uint32_t *words, uint32_t blocks) {
    double sum = 0;
    for (uint32_t i = 0; i < blocks; i++) {
        double p = 1;
        for (int k = 0; k < 8; k++) p *= __builtin_popcount(words[i * 8 + (uint32_t)k]) / 32.0;
        sum += p;
    }
    return sum / blocks;
}

/* The block of a hash is the upper part of its number, so neighbours become one. */
void wr_bloom_fold(wr_bloom *b) {
    uint32_t half[8];
    while (b->blocks > 1) {
        double sum = 0;
        for (uint32_t i = 0; i < b->blocks; i += 2) {
            for (uint32_t k = 0; k < 8; k++) half[k] = b->words[i * 8 + k] | b->words[i * 8 + 8 + k];
            sum += wrong(half, 1);
        }
        if (sum / (b->blocks / 2) > WRONG_AT_MOST) return;
        for (uint32_t i = 0; i < b->blocks / 2; i++)
            for (uint32_t k = 0; k < 8; k++) b->words[i * 8 + k] = b->words[i * 16 + k] | b->words[i * 16 + 8 + k];
        b->blocks /= 2;
    }
}

static void choice(wr_th *t, int id) { /* a union of empty structs, its first member */
    wr_th u = wr_th_struct(t, id), s = wr_th_struct(&u, 1);
    wr_th_end(&s), wr_th_end(&u);
}

void wr_bloom_put(const wr_bloom *b, wr_buf *out) {
    wr_th h = {out, 0};
    wr_th_i32(&h, 1, (int32_t)(b->blocks * BLOCK_BYTES));
    choice(&h, 2); /* BLOCK */
    choice(&h, 3); /* XXHASH */
    choice(&h, 4); /* UNCOMPRESSED */
    wr_th_end(&h);
    wr_buf_put(out, b->words, (size_t)b->blocks * BLOCK_BYTES);
}

void wr_bloom_free(wr_bloom *b) {
    wr_free(b->words);
    *b = (wr_bloom){0};
}
