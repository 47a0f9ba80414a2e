#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>
#include "weir/model.h"
#include "value.h"

static void civil_dates_agree_with_a_walk_through_the_calendar(void **st) {
    static const int len[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int32_t days = wr_days_from_civil(-400, 1, 1);
    assert_int_equal(wr_days_from_civil(1970, 1, 1), 0);
    assert_int_equal(wr_days_from_civil(2000, 3, 1), 11017);
    for (int y = -400; y <= 3000; y++)
        for (int m = 1; m <= 12; m++) {
            bool leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
            for (int d = 1; d <= len[m - 1] + (m == 2 && leap); d++, days++) {
                int yy, mm, dd;
                wr_civil_from_days(days, &yy, &mm, &dd);
                if (wr_days_from_civil(y, m, d) != days || yy != y || mm != m || dd != d) fail_msg("%d-%d-%d", y, m, d);
            }
        }
}

static void the_ends_of_int32_do_not_overflow(void **st) {
    int y, m, d;
    wr_civil_from_days(INT32_MAX, &y, &m, &d);
    assert_int_equal(wr_days_from_civil(y, m, d), INT32_MAX);
    wr_civil_from_days(INT32_MIN, &y, &m, &d);
    assert_int_equal(wr_days_from_civil(y, m, d), INT32_MIN);
}

static void prints(wr_type t, wr_value v, const char *want) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_value_print(&b, t, &v);
    assert_string_equal(wr_buf_cstr(&b), want);
    if (v.null || t.kind == WR_FLOATS) return;
    WR_AUTO_BUF wr_buf bytes = WR_BUF_INIT, again = WR_BUF_INIT; /* and what is printed reads back */
    wr_err err = WR_ERR_INIT;
    wr_value back;
    if (wr_value_parse(wr_buf_view(&b), t, &bytes, &back, &err) != WR_OK) fail_msg("%s", err.msg);
    wr_value_print(&again, t, &back);
    assert_string_equal(wr_buf_cstr(&again), want);
}

static void refuses(wr_type t, const char *text) {
    WR_AUTO_BUF wr_buf bytes = WR_BUF_INIT;
    wr_err err = WR_ERR_INIT;
    wr_value v;
    if (wr_value_parse(wr_slice_str(text), t, &bytes, &v, &err) != WR_E_INVAL) fail_msg("'%s' was taken", text);
}

static void texts_that_no_value_prints_are_refused(void **st) {
    static const char *const bad_times[] = {"", "294247-01-10T04:00:54.775808Z", "-290308-12-21T19:59:05.224191Z", "2000000-01-01T00:00:00.000000Z", "2024-01-01", "2024-01-01T00:00:00.000000Z ", "2024-13-01T00:00:00.000000Z", "x"};
    refuses((wr_type){WR_INT}, ""), refuses((wr_type){WR_INT}, "2147483648"), refuses((wr_type){WR_INT}, "1 "), refuses((wr_type){WR_INT}, " 1"), refuses((wr_type){WR_INT}, "+1"), refuses((wr_type){WR_INT}, "0x1");
    refuses((wr_type){WR_LONG}, "9223372036854775808"), refuses((wr_type){WR_LONG}, "-");
    refuses((wr_type){WR_BOOL}, "1"), refuses((wr_type){WR_DOUBLE}, "nan"), refuses((wr_type){WR_DOUBLE}, "0x1p3"), refuses((wr_type){WR_DOUBLE}, ""), refuses((wr_type){WR_FLOAT}, "1.5f");
    refuses((wr_type){WR_DECIMAL, 4, 2}, "123.45"), refuses((wr_type){WR_DECIMAL, 4, 2}, "1.234");
    refuses((wr_type){WR_DATE}, "2024-02"), refuses((wr_type){WR_DATE}, "2024-02-29T"), refuses((wr_type){WR_BINARY}, "0x123"), refuses((wr_type){WR_BINARY}, "0xzz"), refuses((wr_type){WR_FLOATS}, "[1]");
    for (size_t i = 0; i < sizeof bad_times / sizeof *bad_times; i++) refuses((wr_type){WR_TIMESTAMPTZ}, bad_times[i]);
}

static void values_print_for_people(void **st) {
    const float fs[] = {1, 0.1f};
    prints((wr_type){WR_INT}, (wr_value){.null = true}, "null");
    prints((wr_type){WR_BOOL}, (wr_value){.b = true}, "true");
    prints((wr_type){WR_INT}, (wr_value){.i32 = INT32_MIN}, "-2147483648");
    prints((wr_type){WR_LONG}, (wr_value){.i64 = INT64_MIN}, "-9223372036854775808");
    prints((wr_type){WR_FLOAT}, (wr_value){.f32 = 0.1f}, "0.1");
    prints((wr_type){WR_FLOAT}, (wr_value){.f32 = 16777217.0f}, "16777216");
    prints((wr_type){WR_DOUBLE}, (wr_value){.f64 = 0.1 + 0.2}, "0.30000000000000004");
    prints((wr_type){WR_DOUBLE}, (wr_value){.f64 = -INFINITY}, "-Infinity");
    prints((wr_type){WR_DOUBLE}, (wr_value){.f64 = NAN}, "NaN");
    prints((wr_type){WR_DECIMAL, 10, 3}, (wr_value){.dec = -12340}, "-12.340");
    prints((wr_type){WR_DECIMAL, 10, 3}, (wr_value){.dec = 5}, "0.005");
    prints((wr_type){WR_DECIMAL, 3, 3}, (wr_value){.dec = 0}, "0.000");
    prints((wr_type){WR_DECIMAL, 3, 0}, (wr_value){.dec = -7}, "-7");
    prints((wr_type){WR_DATE}, (wr_value){.i32 = -1}, "1969-12-31");
    prints((wr_type){WR_DATE}, (wr_value){.i32 = -719528}, "0000-01-01");
    prints((wr_type){WR_TIMESTAMP}, (wr_value){.i64 = -1}, "1969-12-31T23:59:59.999999");
    prints((wr_type){WR_TIMESTAMPTZ}, (wr_value){.i64 = 86400000000LL + 1}, "1970-01-02T00:00:00.000001Z");
    prints((wr_type){WR_TIMESTAMP}, (wr_value){.i64 = INT64_MIN}, "-290308-12-21T19:59:05.224192");
    prints((wr_type){WR_STRING}, (wr_value){.s = wr_slice_str("a")}, "a");
    prints((wr_type){WR_BINARY}, (wr_value){.s = wr_slice_of("\0\xaf", 2)}, "0x00af");
    prints((wr_type){WR_FLOATS}, (wr_value){.s = wr_slice_of(fs, 8)}, "[1,0.1]");
}

static void decimals_parse_exactly_or_not_at_all(void **st) {
    static const struct {
        const char *text;
        uint8_t precision, scale;
        int64_t want;
        bool ok;
    } c[] = {
        {"-12.340", 5, 3, -12340, true}, {"12.34", 5, 3, 12340, true}, {"12.34000", 5, 3, 12340, true},
        {"+1", 5, 3, 1000, true},        {".5", 5, 3, 500, true},      {"5.", 5, 3, 5000, true},
        {"-0", 5, 3, 0, true},           {"00001", 1, 0, 1, true},     {"0.0000", 3, 3, 0, true},
        {"12.3401", 5, 3, 0, false},     {"100", 5, 3, 0, false},      {"", 5, 3, 0, false},
        {"-", 5, 3, 0, false},           {".", 5, 3, 0, false},        {"1e3", 9, 0, 0, false},
        {"1.2.3", 9, 5, 0, false},       {" 1", 9, 0, 0, false},       {"1 ", 9, 0, 0, false},
        {"10", 1, 0, 0, false},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        wr_err e = WR_ERR_INIT;
        __int128 v = 4242;
        wr_code rc =
            wr_decimal_parse(c[i].text, strlen(c[i].text), (wr_type){WR_DECIMAL, c[i].precision, c[i].scale}, &v, &e);
        if (rc != (c[i].ok ? WR_OK : WR_E_INVAL) || v != (c[i].ok ? c[i].want : 4242)) fail_msg("%s", c[i].text);
    }
}

static void decimals_of_38_digits_round_trip(void **st) {
    char text[64] = "-99999999999999999999999999999999999999";
    wr_err e = WR_ERR_INIT;
    for (uint8_t scale = 0; scale <= 38; scale++) {
        wr_type t = {WR_DECIMAL, 38, scale};
        __int128 v = -((__int128)wr_pow10_(38) - 1), back;
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        wr_value_print(&b, t, &(wr_value){.dec = v});
        assert_int_equal(wr_decimal_parse((char *)b.p, b.n, t, &back, &e), WR_OK);
        assert_true(back == v);
    }
    __int128 v;
    assert_int_equal(wr_decimal_parse(text, strlen(text), (wr_type){WR_DECIMAL, 38, 0}, &v, &e), WR_OK);
    strcat(text, "9");
    assert_int_equal(wr_decimal_parse(text, strlen(text), (wr_type){WR_DECIMAL, 38, 0}, &v, &e), WR_E_INVAL);
}

static void only_well_formed_utf8_is_valid(void **st) {
    const char *good[] = {"",
                          "a",
                          "\xc2\x80",
                          "\xdf\xbf",
                          "\xe0\xa0\x80",
                          "\xed\x9f\xbf",
                          "\xee\x80\x80",
                          "\xef\xbf\xbf",
                          "\xf0\x90\x80\x80",
                          "\xf4\x8f\xbf\xbf"};
    const char *bad[] = {"\x80",
                         "\xc0\x80",
                         "\xc1\xbf",
                         "\xc2",
                         "\xe0\x9f\xbf",
                         "\xed\xa0\x80",
                         "\xf0\x8f\xbf\xbf",
                         "\xf4\x90\x80\x80",
                         "\xf5\x80\x80\x80",
                         "\xff",
                         "\xe2\x82",
                         "\xf0\x9f\x8c",
                         "\xc2 ",
                         "a\x80"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(wr_utf8_valid_(wr_slice_str(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(wr_utf8_valid_(wr_slice_str(bad[i])));
}

int main(void) {
    const struct CMUnitTest t[] = {
        cmocka_unit_test(civil_dates_agree_with_a_walk_through_the_calendar),
        cmocka_unit_test(the_ends_of_int32_do_not_overflow),
        cmocka_unit_test(values_print_for_people),
        cmocka_unit_test(texts_that_no_value_prints_are_refused),
        cmocka_unit_test(decimals_parse_exactly_or_not_at_all),
        cmocka_unit_test(decimals_of_38_digits_round_trip),
        cmocka_unit_test(only_well_formed_utf8_is_valid),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
