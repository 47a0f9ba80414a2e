#include "weir/base/sum.h"

#include "sum_private.h"

#include <stdbool.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_X86 1
#else
#define HAVE_X86 0
#endif

#define POLY_IEEE 0xedb88320u
#define POLY_CASTAGNOLI 0x82f63b78u

/* ---------------------------------------------------------------- by table, eight bytes a step ("slicing by 8") */
static uint32_t tab_ieee[8][256], tab_cast[8][256];

static void make_table(uint32_t poly, uint32_t t[8][256]) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ poly : c >> 1;
        t[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++) t[k][i] = t[k - 1][i] >> 8 ^ t[0][t[k - 1][i] & 0xff];
}

static uint32_t by_table(uint32_t c, const uint8_t *p, size_t n, uint32_t t[8][256]) {
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        v ^= c;
        c = t[7][v & 0xff] ^ t[6][v >> 8 & 0xff] ^ t[5][v >> 16 & 0xff] ^ t[4][v >> 24 & 0xff] ^ t[3][v >> 32 & 0xff] ^
            t[2][v >> 40 & 0xff] ^ t[1][v >> 48 & 0xff] ^ t[0][v >> 56];
    }
    while (n--) c = c >> 8 ^ t[0][(c ^ *p++) & 0xff];
    return c;
}

#if HAVE_X86
static bool have_pclmul, have_sse42; /* set once by the constructor */

/* ---------------------------------------------------------------- IEEE by carry-less multiplication
 * V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009), in its
 * bit-reflected form. The constants are x^(512+64), x^512, x^(128+64), x^128, x^96 modulo P, then P and its Barrett
 * inverse. n is a multiple of 16 and at least 64. */
#define FOLD(x, k, next)                                                                                               \
    _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)), next)

__attribute__((target("pclmul,sse4.1"))) static inline __m128i load16(const uint8_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

__attribute__((target("pclmul,sse4.1"))) static uint32_t ieee_pclmul(uint32_t c, const uint8_t *p, size_t n) {
    const __m128i k12 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i k34 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i k5 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i pu = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    const __m128i low32 = _mm_setr_epi32(~0, 0, ~0, 0);

    __m128i x1 = _mm_xor_si128(load16(p), _mm_cvtsi32_si128((int)c));
    __m128i x2 = load16(p + 16), x3 = load16(p + 32), x4 = load16(p + 48);
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
        x1 = FOLD(x1, k12, load16(p));
        x2 = FOLD(x2, k12, load16(p + 16));
        x3 = FOLD(x3, k12, load16(p + 32));
        x4 = FOLD(x4, k12, load16(p + 48));
    }
    x1 = FOLD(x1, k34, x2);
    x1 = FOLD(x1, k34, x3);
    x1 = FOLD(x1, k34, x4);
    for (; n >= 16; p += 16, n -= 16) x1 = FOLD(x1, k34, load16(p));

    /* 128 bits to 64, then Barrett's reduction to 32 */
    x1 = _mm_xor_si128(_mm_srli_si128(x1, 8), _mm_clmulepi64_si128(x1, k34, 0x10));
    x1 = _mm_xor_si128(_mm_srli_si128(x1, 4), _mm_clmulepi64_si128(_mm_and_si128(x1, low32), k5, 0x00));
    __m128i q = _mm_clmulepi64_si128(_mm_and_si128(x1, low32), pu, 0x10);
    q = _mm_clmulepi64_si128(_mm_and_si128(q, low32), pu, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x1, q), 1);
}

/* ---------------------------------------------------------------- Castagnoli by the crc32 instruction
 * The instruction takes three cycles but one can start each cycle, so three blocks run side by side; `shift` moves a
 * sum over the zeros of the blocks behind it (after M. Adler's crc32c.c). */
#define LANE_LONG 4096u
#define LANE_SHORT 256u
static uint32_t shift_long[4][256], shift_short[4][256];

static void make_shift(size_t zeros, uint32_t t[4][256]) {
    /* The sum is linear, so the effect of `zeros` zero bytes on each bit tells the effect on every byte value. */
    static const uint8_t none[LANE_LONG];
    uint32_t bit[32];
    for (int i = 0; i < 32; i++) bit[i] = by_table(1u << i, none, zeros, tab_cast);
    for (int k = 0; k < 4; k++)
        for (uint32_t v = 0; v < 256; v++) {
            t[k][v] = 0;
            for (int i = 0; i < 8; i++)
                if (v >> i & 1) t[k][v] ^= bit[8 * k + i];
        }
}

static inline uint64_t shift(uint32_t t[4][256], uint64_t c) {
    return t[0][c & 0xff] ^ t[1][c >> 8 & 0xff] ^ t[2][c >> 16 & 0xff] ^ t[3][c >> 24 & 0xff];
}

static inline uint64_t load8(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

__attribute__((target("sse4.2"))) static inline uint64_t three_lanes(uint64_t c0, const uint8_t *p, size_t lane,
                                                                     uint32_t t[4][256]) {
    uint64_t c1 = 0, c2 = 0;
    for (const uint8_t *end = p + lane; p < end; p += 8) {
        c0 = _mm_crc32_u64(c0, load8(p));
        c1 = _mm_crc32_u64(c1, load8(p + lane));
        c2 = _mm_crc32_u64(c2, load8(p + 2 * lane));
    }
    return shift(t, shift(t, c0) ^ c1) ^ c2;
}

__attribute__((target("sse4.2"))) static uint32_t cast_sse42(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t c = crc;
    for (; n >= 3 * LANE_LONG; n -= 3 * LANE_LONG, p += 3 * LANE_LONG) c = three_lanes(c, p, LANE_LONG, shift_long);
    for (; n >= 3 * LANE_SHORT; n -= 3 * LANE_SHORT, p += 3 * LANE_SHORT)
        c = three_lanes(c, p, LANE_SHORT, shift_short);
    for (; n >= 8; n -= 8, p += 8) c = _mm_crc32_u64(c, load8(p));
    uint32_t r = (uint32_t)c;
    while (n--) r = _mm_crc32_u8(r, *p++);
    return r;
}
#endif

/* Before every other constructor that may want a sum. */
__attribute__((constructor(101))) static void make_tables(void) {
    make_table(POLY_IEEE, tab_ieee);
    make_table(POLY_CASTAGNOLI, tab_cast);
#if HAVE_X86
    make_shift(LANE_LONG, shift_long);
    make_shift(LANE_SHORT, shift_short);
    __builtin_cpu_init();
    have_pclmul = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    have_sse42 = __builtin_cpu_supports("sse4.2");
#endif
}

uint32_t wr_crc32c_by_table_(uint32_t crc, const void *p, size_t n) { return ~by_table(~crc, p, n, tab_cast); }
uint32_t wr_crc32_by_table_(uint32_t crc, const void *p, size_t n) { return ~by_table(~crc, p, n, tab_ieee); }

uint32_t wr_crc32c(uint32_t crc, const void *p, size_t n) {
    if (n == 0) return crc;
#if HAVE_X86
    if (have_sse42) return ~cast_sse42(~crc, p, n);
#endif
    return ~by_table(~crc, p, n, tab_cast);
}

uint32_t wr_crc32(uint32_t crc, const void *p, size_t n) {
    if (n == 0) return crc;
    const uint8_t *q = p;
    uint32_t c = ~crc;
#if HAVE_X86
    if (have_pclmul && n >= 64) {
        size_t most = n & ~(size_t)15;
        c = ieee_pclmul(c, q, most);
        q += most;
        n -= most;
    }
#endif
    return ~by_table(c, q, n, tab_ieee);
}

uint64_t wr_xxh64(const void *p, size_t n) { return XXH64(n ? p : "", n, 0); }

uint64_t wr_hash64(const void *p, size_t n, uint64_t seed) {
    if (n > XXH3_MIDSIZE_MAX) return wr_hash64_long_(p, n, seed); /* above it XXH3 works in stripes */
    return XXH3_64bits_withSeed(n ? p : "", n, seed);
}

wr_h128 wr_hash128(const void *p, size_t n) {
    XXH128_hash_t h = XXH3_128bits(n ? p : "", n);
    return (wr_h128){.hi = h.high64, .lo = h.low64};
}
