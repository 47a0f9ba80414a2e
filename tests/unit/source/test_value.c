#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include "mysql/decimal_bin.h"
#include "mysql/value.h"

static const wr_my_col col = {.name = (char *)"c", .scale = 3};

static wr_value date(wr_zero_date z, int y, int m, int d, wr_code want) {
    wr_value v = {.i32 = -1};
    wr_buf b = WR_BUF_INIT;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_my_put_date(&col, (wr_my_types){.zero_date = z}, y, m, d, &v, &b, &err), want);
    wr_buf_free(&b);
    return v;
}

static void dates_follow_the_policy(void **state) {
    assert_int_equal(date(WR_ZERO_NULL, 1970, 1, 1, WR_OK).i32, 0);
    assert_int_equal(date(WR_ZERO_NULL, 2024, 2, 29, WR_OK).i32, 19782);
    assert_int_equal(date(WR_ZERO_ERROR, 1, 1, 1, WR_OK).i32, -719162);
    static const int odd[][3] = {{0, 0, 0}, {2023, 0, 15}, {2023, 5, 0}, {2023, 2, 29}, {2023, 4, 31}, {0, 1, 1}, {2023, 13, 1}, {10000, 1, 1}};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        assert_true(date(WR_ZERO_NULL, odd[i][0], odd[i][1], odd[i][2], WR_OK).null);
        wr_value e = date(WR_ZERO_EPOCH, odd[i][0], odd[i][1], odd[i][2], WR_OK);
        assert_false(e.null);
        assert_int_equal(e.i32, 0);
        date(WR_ZERO_ERROR, odd[i][0], odd[i][1], odd[i][2], WR_E_DECODE);
    }
}

static void texts_show_every_part(void **state) {
    wr_value v;
    wr_buf b = WR_BUF_INIT;
    wr_err err = WR_ERR_INIT;
    wr_my_types t = {.zero_date = WR_ZERO_STRING, .time_as = WR_TIME_STRING};
    assert_int_equal(wr_my_put_date(&col, t, 2023, 0, 15, &v, &b, &err), WR_OK);
    assert_memory_equal(v.s.p, "2023-00-15", v.s.n);
    wr_buf_clear(&b);
    assert_int_equal(wr_my_put_datetime(&col, t, 2023, 0, 15, 1, 2, 3, 4000, &v, &b, &err), WR_OK);
    assert_int_equal(v.s.n, 23);
    assert_memory_equal(v.s.p, "2023-00-15 01:02:03.004", v.s.n);
    wr_buf_clear(&b);
    assert_int_equal(wr_my_put_time(&col, t, -3020399999000ll, &v, &b, &err), WR_OK);
    assert_int_equal(v.s.n, 14);
    assert_memory_equal(v.s.p, "-838:59:59.999", v.s.n);
    wr_buf_free(&b);
}

static void instants_count_microseconds(void **state) {
    wr_value v;
    wr_buf b = WR_BUF_INIT;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_my_put_datetime(&col, (wr_my_types){0}, 2024, 1, 2, 3, 4, 5, 678901, &v, &b, &err), WR_OK);
    assert_int_equal(v.i64, 1704164645678901ll);
    assert_int_equal(wr_my_put_datetime(&col, (wr_my_types){0}, 1, 1, 1, 0, 0, 0, 1, &v, &b, &err), WR_OK);
    assert_int_equal(v.i64, -62135596799999999ll);
    wr_buf_free(&b);
}

static void packed_decimals_are_read(void **state) {
    /* 1234567890.1234 and its negative, from the servers' documentation */
    static const uint8_t pos[] = {0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2}, neg[] = {0x7e, 0xf2, 0x04, 0xc7, 0x2d, 0xfb, 0x2d};
    __int128 v;
    wr_buf b = WR_BUF_INIT;
    assert_int_equal(wr_decimal_bin_size(14, 4), 7);
    assert_true(wr_decimal_bin_read(pos, 14, 4, &v));
    assert_true(v == 12345678901234ll);
    assert_true(wr_decimal_bin_read(neg, 14, 4, &v));
    assert_true(v == -12345678901234ll);
    assert_true(wr_decimal_bin_print(neg, 14, 4, &b));
    assert_string_equal(wr_buf_cstr(&b), "-1234567890.1234");
    wr_buf_clear(&b);
    static const uint8_t small[] = {0x80, 0x05}; /* DECIMAL(4,2) 0.05 */
    assert_true(wr_decimal_bin_print(small, 4, 2, &b));
    assert_string_equal(wr_buf_cstr(&b), "0.05");
    static const uint8_t nonsense[] = {0xff, 0xff, 0xff, 0xff}; /* a group of nine digits above 999,999,999 */
    assert_false(wr_decimal_bin_read(nonsense, 9, 0, &v));
    assert_int_equal(wr_decimal_bin_size(82, 0), 0);
    assert_int_equal(wr_decimal_bin_size(5, 6), 0);
    wr_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_follow_the_policy),
        cmocka_unit_test(texts_show_every_part),
        cmocka_unit_test(instants_count_microseconds),
        cmocka_unit_test(packed_decimals_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
