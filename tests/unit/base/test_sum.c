#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "weir/base/sum.h"
#include "sum_private.h"

static void known_crc32_values_are_met(void **st) {
    static const uint8_t zeros[32], ones[32] = {[0 ... 31] = 0xff};
    uint8_t up[32];
    for (int i = 0; i < 32; i++) up[i] = (uint8_t)i;
    assert_int_equal(wr_crc32(0, "", 0), 0);
    assert_int_equal(wr_crc32(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(wr_crc32(0, "The quick brown fox jumps over the lazy dog", 43), 0x414fa339);
    /* RFC 3720, B.4 */
    assert_int_equal(wr_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(wr_crc32c(0, zeros, 32), 0x8a9136aa);
    assert_int_equal(wr_crc32c(0, ones, 32), 0x62a8ab43);
    assert_int_equal(wr_crc32c(0, up, 32), 0x46dd794e);
}

static void instructions_and_tables_agree_at_every_length_and_alignment(void **st) {
    static uint8_t b[40000];
    srand(5);
    for (size_t i = 0; i < sizeof b; i++) b[i] = (uint8_t)rand();
    for (size_t n = 0; n < sizeof b - 16; n += n < 1700 ? 1 : 211)
        for (size_t at = 0; at < 16; at += 5) {
            assert_int_equal(wr_crc32(77, b + at, n), wr_crc32_by_table_(77, b + at, n));
            assert_int_equal(wr_crc32c(77, b + at, n), wr_crc32c_by_table_(77, b + at, n));
        }
}

static void a_sum_can_be_taken_in_pieces(void **st) {
    static uint8_t b[9000];
    for (size_t i = 0; i < sizeof b; i++) b[i] = (uint8_t)(i * 31 >> 3);
    for (size_t cut = 0; cut <= sizeof b; cut += 97) {
        assert_int_equal(wr_crc32(wr_crc32(0, b, cut), b + cut, sizeof b - cut), wr_crc32(0, b, sizeof b));
        assert_int_equal(wr_crc32c(wr_crc32c(0, b, cut), b + cut, sizeof b - cut), wr_crc32c(0, b, sizeof b));
    }
}

static void known_xxh3_values_are_met(void **st) {
    assert_true(wr_hash64(NULL, 0, 0) == 0x2d06800538d394c2ULL);
    assert_true(wr_xxh64(NULL, 0) == 0xef46db3751d8e999ULL);
    assert_true(wr_xxh64("abc", 3) == 0x44bc2cf5ad770999ULL);
    wr_h128 h = wr_hash128(NULL, 0);
    assert_true(h.hi == 0x99aa06d3014798d8ULL && h.lo == 0x6001c324468d497fULL);
    assert_true(wr_hash64("abc", 3, 0) != wr_hash64("abc", 3, 1));
    uint8_t b[1000]; /* long enough for the processor's vector instructions */
    for (int i = 0; i < 1000; i++) b[i] = (uint8_t)(i * 131 >> 3);
    assert_true(wr_hash64(b, 1000, 0) == 0x9f911236d1a02bd7ULL && wr_hash64(b, 1000, 7) == 0xc0d3780a7226df58ULL && wr_hash64(b, 241, 0) == 0x2de42aed8d7c80d8ULL);
}

static void a_hash_in_pieces_is_that_of_the_whole(void **st) {
    static uint8_t b[5000];
    wr_hasher *h = wr_hasher_new();
    assert_non_null(h);
    for (size_t i = 0; i < sizeof b; i++) b[i] = (uint8_t)(i * 131 >> 3);
    for (size_t n = 0; n <= sizeof b; n += n < 300 ? 1 : 127)
        for (size_t step = 1; step < n + 2; step = step * 3 + 1) {
            for (size_t at = 0; at < n; at += step) wr_hasher_add(h, b + at, n - at < step ? n - at : step);
            assert_true(wr_hasher_end(h) == wr_hash64(b, n, 0));
        }
    wr_hasher_free(h);
    wr_hasher_free(NULL);
}

int main(void) {
    const struct CMUnitTest t[] = {
        cmocka_unit_test(known_crc32_values_are_met),
        cmocka_unit_test(instructions_and_tables_agree_at_every_length_and_alignment),
        cmocka_unit_test(a_sum_can_be_taken_in_pieces),
        cmocka_unit_test(known_xxh3_values_are_met),
        cmocka_unit_test(a_hash_in_pieces_is_that_of_the_whole),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
