#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "weir/base/buf.h"
#include "weir/base/mem.h"

static void what_is_written_reads_back(void **st) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_buf_u8(&b, 0xab);
    wr_buf_u16(&b, 0x1234);
    wr_buf_u32(&b, 0xdeadbeef);
    wr_buf_u64(&b, 0x0123456789abcdefULL);
    wr_buf_slice(&b, wr_slice_str("text"));
    wr_buf_str(&b, NULL);
    wr_buf_printf(&b, "%d-%s", 42, "x");
    wr_rd r = wr_rd_of(b.p, b.n);
    assert_int_equal(wr_rd_u8(&r), 0xab);
    assert_int_equal(wr_rd_u16(&r), 0x1234);
    assert_int_equal(wr_rd_u32(&r), 0xdeadbeef);
    assert_true(wr_rd_u64(&r) == 0x0123456789abcdefULL);
    assert_true(wr_slice_eq(wr_rd_slice(&r), wr_slice_str("text")));
    assert_int_equal(wr_rd_slice(&r).n, 0);
    assert_true(wr_slice_eq(wr_rd_bytes(&r, 4), wr_slice_str("42-x")));
    assert_false(r.bad);
    assert_int_equal(wr_rd_left(&r), 0);
}

static void varints_round_trip_at_every_width(void **st) {
    for (int bit = 0; bit <= 64; bit++)
        for (int d = -1; d <= 1; d++) {
            uint64_t v = (bit == 64 ? 0 : 1ULL << bit) + (uint64_t)(int64_t)d;
            WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
            wr_buf_varint(&b, v);
            wr_rd r = wr_rd_of(b.p, b.n);
            assert_true(wr_rd_varint(&r) == v);
            assert_false(r.bad);
            assert_int_equal(wr_rd_left(&r), 0);
            for (size_t n = 0; n < b.n; n++) {
                r = wr_rd_of(b.p, n);
                assert_int_equal(wr_rd_varint(&r), 0);
                assert_true(r.bad);
            }
        }
}

static void a_varint_beyond_64_bits_is_bad(void **st) {
    const uint8_t eleven[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
    const uint8_t sixty_five[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2};
    wr_rd r = wr_rd_of(eleven, sizeof eleven);
    assert_int_equal(wr_rd_varint(&r), 0);
    assert_true(r.bad);
    r = wr_rd_of(sixty_five, sizeof sixty_five);
    assert_int_equal(wr_rd_varint(&r), 0);
    assert_true(r.bad);
}

static void a_read_past_the_end_gives_zeroes_for_ever(void **st) {
    const uint8_t three[] = {1, 2, 3};
    wr_rd r = wr_rd_of(three, 3);
    assert_int_equal(wr_rd_u32(&r), 0);
    assert_true(r.bad);
    assert_int_equal(wr_rd_u8(&r), 0);
    assert_null(wr_rd_take(&r, 0));
    r = wr_rd_of(NULL, 0);
    assert_int_equal(wr_rd_bytes(&r, 0).n, 0);
    assert_false(r.bad);
    assert_int_equal(wr_rd_u8(&r), 0);
    assert_true(r.bad);
}

static void a_length_larger_than_what_follows_is_bad(void **st) {
    const uint8_t lies[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 'x'};
    wr_rd r = wr_rd_of(lies, sizeof lies);
    assert_int_equal(wr_rd_slice(&r).n, 0);
    assert_true(r.bad);
}

static void odd_widths_read_in_both_orders(void **st) {
    const uint8_t p[] = {1, 2, 3};
    wr_rd r = wr_rd_of(p, 3);
    assert_int_equal(wr_rd_uint(&r, 3), 0x030201);
    r = wr_rd_of(p, 3);
    assert_int_equal(wr_rd_uint_be(&r, 3), 0x010203);
}

static void a_failed_allocation_sticks_and_is_reported_once(void **st) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_err e = WR_ERR_INIT;
    wr_buf_u8(&b, 1);
    wr_mem_fail_after(1);
    for (int i = 0; i < 100; i++) wr_buf_u64(&b, 7);
    assert_int_equal(wr_mem_fail_after(0), 0);
    size_t n = b.n;
    wr_buf_u8(&b, 1);
    wr_buf_printf(&b, "more");
    wr_buf_varint(&b, 300);
    assert_int_equal(b.n, n);
    assert_null(wr_buf_cstr(&b));
    assert_int_equal(wr_buf_check(&b, "test", &e), WR_E_NOMEM);
    wr_buf_clear(&b);
    wr_buf_u8(&b, 9);
    assert_int_equal(wr_buf_check(&b, "test", &e), WR_OK);
    assert_int_equal(b.n, 1);
}

static void a_size_that_cannot_exist_fails_cleanly(void **st) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_buf_u8(&b, 1);
    assert_null(wr_buf_room(&b, SIZE_MAX - 1));
    assert_true(b.failed);
}

static void printf_of_any_length_fits(void **st) {
    char text[1000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (size_t n = 0; n < sizeof text; n += 61) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        wr_buf_printf(&b, "%.*s", (int)n, text);
        assert_int_equal(b.n, n);
        assert_int_equal(strlen(wr_buf_cstr(&b)), n);
    }
}

static void memory_helpers_copy_and_fail_like_malloc(void **st) {
    WR_AUTO char *a = wr_strdup("abc"), *b = wr_strndup("abcdef", 3), *c = wr_asprintf("%s/%d", "abc", 5);
    assert_string_equal(a, b);
    assert_string_equal(c, "abc/5");
    wr_mem_fail_after(2);
    WR_AUTO void *ok = wr_malloc(1);
    assert_non_null(ok);
    assert_null(wr_malloc(1));
    WR_AUTO void *again = wr_malloc(0);
    assert_non_null(again);
    wr_mem_fail_after(5);
    assert_int_equal(wr_mem_fail_after(0), 5);
    char *mine = wr_strdup("x"), *taken = WR_STEAL(mine);
    assert_null(mine);
    wr_free(taken);
    wr_buf_free(NULL);
}

int main(void) {
    const struct CMUnitTest t[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(varints_round_trip_at_every_width),
        cmocka_unit_test(a_varint_beyond_64_bits_is_bad),
        cmocka_unit_test(a_read_past_the_end_gives_zeroes_for_ever),
        cmocka_unit_test(a_length_larger_than_what_follows_is_bad),
        cmocka_unit_test(odd_widths_read_in_both_orders),
        cmocka_unit_test(a_failed_allocation_sticks_and_is_reported_once),
        cmocka_unit_test(a_size_that_cannot_exist_fails_cleanly),
        cmocka_unit_test(printf_of_any_length_fits),
        cmocka_unit_test(memory_helpers_copy_and_fail_like_malloc),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
