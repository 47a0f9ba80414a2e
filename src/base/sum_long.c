/* Of long input, with the vector instructions that this processor has: libxxhash chooses them when it runs, which the inlined copy in sum.c cannot. */
#include "sum_private.h"
#if defined(__x86_64__)
#define XXH_DISPATCH_DISABLE_REPLACE
#include <xxh_x86dispatch.h>
uint64_t wr_hash64_long_(const void *p, size_t n, uint64_t seed) { return XXH3_64bits_withSeed_dispatch(p, n, seed); }
#else
#include <xxhash.h>
uint64_t wr_hash64_long_(const void *p, size_t n, uint64_t seed) { return XXH3_64bits_withSeed(p, n, seed); }
#endif
