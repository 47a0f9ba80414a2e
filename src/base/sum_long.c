/* Of long input, with the vector instructions that this processor has: libxxhash chooses them when it runs, which the inlined copy in sum.c cannot. */
#include <stdlib.h>
#include "sum_private.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"
#if defined(__x86_64__)
#define XXH_DISPATCH_DISABLE_REPLACE
#include <xxh_x86dispatch.h>
#define LONG(function) function##_dispatch
#else
#include <xxhash.h>
#define LONG(function) function
#endif

uint64_t wr_hash64_long_(const void *p, size_t n, uint64_t seed) { return LONG(XXH3_64bits_withSeed)(p, n, seed); }

struct wr_hasher {
    XXH3_state_t *state;
};

wr_hasher *wr_hasher_new(void) {
    wr_hasher *h = wr_malloc(sizeof *h);
    if (!h) return NULL;
    if (!(h->state = XXH3_createState())) return wr_free(h), NULL;
    XXH3_64bits_reset(h->state);
    return h;
}

void wr_hasher_free(wr_hasher *h) {
    if (!h) return;
    XXH3_freeState(h->state);
    wr_free(h);
}

void wr_hasher_add(wr_hasher *h, const void *p, size_t n) {
    if (n) (void)LONG(XXH3_64bits_update)(h->state, p, n);
}

uint64_t wr_hasher_end(wr_hasher *h) {
    uint64_t sum = XXH3_64bits_digest(h->state);
    XXH3_64bits_reset(h->state);
    return sum;
}
