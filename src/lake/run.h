/* Inside of a run, for index.c. */
#ifndef WEIR_LAKE_RUN_H
#define WEIR_LAKE_RUN_H

#include "index.h"

struct wr_run {
    uint64_t fingerprint, n;
    size_t es;              /* bytes per entry */
    const uint8_t *entries; /* sorted by key */
    const uint64_t *bloom;
    uint64_t bloom_blocks;
    uint64_t *samples; /* first half of every 32nd key: lo of 16-byte entries, else hi */
    uint64_t nsamples;
    uint64_t first, last; /* the same of the first and the last key */
    double per_value;     /* samples per key value between them: where to begin a search */
    char **paths;
    uint32_t npaths;
    uint32_t *bind; /* [npaths] table file number or WR_NO_FILE */
    char *path;     /* its own file, NULL = memory only */
    uint8_t *heap;  /* filter and entries when there is no file */
    uint8_t *map;
    size_t map_bytes;
};

/* First entry with that key or above. */
uint64_t wr_run_seek(const wr_run *r, wr_key key);

/* A key as the Bloom filters want it: which block of a filter (its hash, scaled by the number of blocks), and which
 * bits there, one in each of 8 32-bit words. The same for all runs, so that a look-up works it out once. */
typedef struct wr_probe {
    wr_key key;
    uint64_t hash, bits[4];
} wr_probe;
static inline wr_probe wr_run_probe(wr_key k) {
    uint64_t h = (k.lo ^ k.hi * 0x9E3779B97F4A7C15ull);
    h ^= h >> 31, h *= 0x7fb5d329728ea185ull, h ^= h >> 27, h *= 0x81dadef4bc2dd44dull, h ^= h >> 33;
    uint64_t m = h * 0xd6e8feb86659fd93ull; /* five bits of it for each word */
    wr_probe p = {.key = k, .hash = h};
    for (int i = 0; i < 4; i++)
        p.bits[i] = UINT64_C(1) << (m >> (24 + 10 * i) & 31) | UINT64_C(1) << (32 + (m >> (29 + 10 * i) & 31));
    return p;
}

static inline const uint64_t *wr_run_block(const wr_run *r, uint64_t hash) {
    return r->bloom + (uint64_t)((__uint128_t)hash * r->bloom_blocks >> 64) * 4;
}
static inline bool wr_run_spans(const wr_run *r, wr_key key) {
    uint64_t v = r->es == 16 ? key.lo : key.hi;
    return v >= r->first && v <= r->last;
}
/* Whether the key may be in it: by its place between first and last key, then by the filter. */
static inline bool wr_run_may_have(const wr_run *r, const wr_probe *p) {
    if (!wr_run_spans(r, p->key)) return false;
    const uint64_t *b = wr_run_block(r, p->hash);
    return !((~b[0] & p->bits[0]) | (~b[1] & p->bits[1]) | (~b[2] & p->bits[2]) | (~b[3] & p->bits[3]));
}

/* One run of the live entries of several. The sources stay as they are. */
wr_code wr_run_merge(const wr_key_plan *plan, wr_run **runs, int nruns, const char *path, wr_run **ret_run,
                     wr_err *err);

#endif
