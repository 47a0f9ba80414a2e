/* Parquet's split-block Bloom filter of one column of one row group. Source: apache/parquet-format, BloomFilter.md.
 *
 * It begins with room for as many different values as there may be and is folded to half its size for as long as it
 * stays as selective as it should be, so that it is as large as the values that came in need. Sizes are powers of two,
 * which some readers insist on. */
#ifndef WEIR_ENGINE_BLOOM_H
#define WEIR_ENGINE_BLOOM_H

#include "encode.h"

typedef struct wr_bloom {
    uint32_t *words; /* 8 a block */
    uint32_t blocks, cap;
} wr_bloom;

/* Types whose equal values have equal bytes: not floating point (two zeroes), lists, or a bool, of which a filter tells nothing. And not binaries: DuckDB up to
 * 1.5.5 looks for them by their escaped text, finds nothing, and leaves rows out silently. */
bool wr_bloom_suits(wr_type t);
/* Empties it; room for so many different values. false: no memory. */
bool wr_bloom_reset(wr_bloom *b, uint64_t values);
void wr_bloom_add(wr_bloom *b, wr_type t, const wr_dense *v);
void wr_bloom_add_dict(wr_bloom *b, wr_type t, const wr_dict *d);
void wr_bloom_fold(wr_bloom *b);
/* Header and bits, as they are in the file; appended. */
void wr_bloom_put(const wr_bloom *b, wr_buf *out);
void wr_bloom_free(wr_bloom *b);

#endif
