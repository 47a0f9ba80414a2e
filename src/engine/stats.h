/* Statistics of one column over live rows, by Iceberg's rules, and the dense values that they and the writer work on.
 */
#ifndef WEIR_ENGINE_STATS_H
#define WEIR_ENGINE_STATS_H

#include "batch.h"

/* The live, non-null values of one column in one chunk. */
typedef struct wr_dense {
    uint32_t rows;       /* live rows */
    uint32_t n;          /* of them not null */
    bool all;            /* no row of the chunk is dead or null: values are slots 0..n */
    const uint8_t *data; /* fixed kinds: n values, in the chunk itself or in `room` */
    const wr_vec *vec;   /* other kinds: value i is slot sel[i] (or i when `all`) of this */
    uint16_t sel[WR_CHUNK_ROWS];
    uint64_t valid[WR_CHUNK_ROWS / 64]; /* one bit per live row; unset when n == rows */
    uint8_t room[WR_CHUNK_ROWS * 16] __attribute__((aligned(16)));
} wr_dense;
void wr_dense_of(const wr_batch *b, const wr_chunk *c, int col, wr_dense *ret_dense);

static inline wr_slice wr_dense_bytes(const wr_dense *d, uint32_t i) {
    uint32_t at = d->all ? i : d->sel[i];
    return (wr_slice){d->vec->heap + d->vec->offs[at], d->vec->offs[at + 1] - d->vec->offs[at]};
}

/* Minimum and maximum as they come; strings borrow from the batch. Floats leave NaN out and know -0.0 < +0.0. */
typedef struct wr_range {
    bool any; /* min and max are set */
    uint64_t values, nulls, nans;
    union {
        struct {
            int64_t imin, imax;
        }; /* BOOL, INT, DATE, LONG, TIMESTAMP*, DECIMAL up to 18 digits */
        struct {
            double fmin, fmax;
        }; /* FLOAT, DOUBLE */
        struct {
            __int128 dmin, dmax;
        }; /* DECIMAL above 18 digits */
        struct {
            wr_slice smin, smax;
        }; /* STRING, BINARY */
    };
} wr_range;
void wr_range_add(wr_range *r, wr_type t, const wr_dense *d);
void wr_range_merge(wr_range *r, wr_type t, const wr_range *other);
/* Fills bounds and counts; field_id and bytes are left alone. */
void wr_range_stats(const wr_range *r, wr_type t, wr_column_stats *s);

/* Shortest text of at most 16 code points (bytes for binary) that is <= s resp. >= s. ret_n = length in out (64 bytes);
 * the upper one is false when there is none. */
void wr_truncate_lower(wr_type t, wr_slice s, uint8_t out[64], uint8_t *ret_n);
bool wr_truncate_upper(wr_type t, wr_slice s, uint8_t out[64], uint8_t *ret_n);

#endif
