/* Encodings of Parquet column data: PLAIN values, the RLE/bit-packed hybrid, and dictionaries.
 * Source: apache/parquet-format, Encodings.md. */
#ifndef WEIR_ENGINE_ENCODE_H
#define WEIR_ENGINE_ENCODE_H

#include "stats.h"

/* PLAIN values from..to of the dense ones. Booleans come out as a byte each: wr_bits_pack makes bits of them once the
 * page is complete, because a page's bits go on from chunk to chunk. */
void wr_plain(wr_buf *out, wr_type t, const wr_dense *d, uint32_t from, uint32_t to);
void wr_bits_pack(wr_buf *b, size_t from); /* b's bytes from `from` on, in place */
/* Bytes of a decimal of more than 18 digits as FIXED_LEN_BYTE_ARRAY. */
uint8_t wr_decimal_fixed(uint8_t precision);

/* RLE/bit-packed hybrid of n values below 2^width, width 1..16. */
void wr_hybrid(wr_buf *out, const uint16_t *v, size_t n, unsigned width);
/* The same for bits that are already packed, lowest first; `bits` is padded with zeroes to whole words. */
void wr_hybrid_bits(wr_buf *out, const uint64_t *bits, size_t n, size_t ones);
unsigned wr_width_of(uint32_t max); /* bits to hold max, at least 1 */

/* A dictionary under construction: values as PLAIN bytes in order of appearance, and the index of each value seen. */
#define WR_DICT_ENTRIES_MAX 16384
#define WR_DICT_BYTES_MAX (1u << 20)
typedef struct wr_dict {
    uint32_t *slots; /* index + 1, 0 = free */
    uint32_t slots_n;
    uint64_t *keys; /* per entry: the value (fixed kinds), or offset of its bytes in `plain` and their number */
    uint32_t entries, entries_cap;
    wr_buf plain; /* the dictionary page's body */
    uint16_t *indexes;
    size_t n, cap; /* of indexes */
} wr_dict;
typedef enum wr_dict_verdict { WR_DICT_GOOD, WR_DICT_POOR, WR_DICT_NOMEM } wr_dict_verdict;
/* Makes room for up to `values` indexes and forgets what was in it. */
bool wr_dict_reset(wr_dict *d, size_t values);
/* POOR: too many different values; PLAIN will be smaller or not much larger, and cheaper. */
wr_dict_verdict wr_dict_add(wr_dict *d, wr_type t, uint8_t width, const wr_dense *v);
void wr_dict_free(wr_dict *d);
static inline bool wr_dict_suits(wr_type t) {
    return t.kind == WR_INT || t.kind == WR_LONG || t.kind == WR_DATE || t.kind == WR_TIMESTAMP ||
           t.kind == WR_TIMESTAMPTZ || t.kind == WR_STRING || t.kind == WR_BINARY ||
           (t.kind == WR_DECIMAL && t.precision <= 18);
}

#endif
