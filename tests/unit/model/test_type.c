#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "weir/model.h"

static void every_name_parses_back(void **st) {
    char b[32];
    wr_err e = WR_ERR_INIT;
    for (uint8_t k = WR_BOOL; k <= WR_FLOATS; k++)
        for (uint8_t p = 1; p <= (k == WR_DECIMAL ? 38 : 1); p++)
            for (uint8_t s = 0; s <= (k == WR_DECIMAL ? p : 0); s++) {
                wr_type t = k == WR_DECIMAL ? (wr_type){k, p, s} : (wr_type){k, 0, 0}, got = {0};
                assert_int_equal(wr_type_parse(wr_type_name(t, b), &got, &e), WR_OK);
                assert_true(wr_type_eq(t, got));
            }
    assert_string_equal(wr_type_name((wr_type){WR_DECIMAL, 10, 2}, b), "decimal(10,2)");
    assert_string_equal(wr_type_name((wr_type){WR_FLOATS, 0, 0}, b), "list<float>");
}

static void spaces_in_a_decimal_are_fine(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_type t;
    assert_int_equal(wr_type_parse("decimal(9, 2)", &t, &e), WR_OK);
    assert_true(wr_type_eq(t, (wr_type){WR_DECIMAL, 9, 2}));
}

static void what_is_no_type_is_refused(void **st) {
    const char *bad[] = {"",
                         "Int",
                         "int ",
                         "decimal",
                         "decimal(39,0)",
                         "decimal(0,0)",
                         "decimal(5,6)",
                         "decimal(5)",
                         "decimal(5,2",
                         "decimal(5,2)x",
                         "decimal(005,2)",
                         "decimal(-1,0)",
                         "unknown(0)",
                         "list<float",
                         "timestamp_ns"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wr_err e = WR_ERR_INIT;
        wr_type t = {99, 9, 9};
        assert_int_equal(wr_type_parse(bad[i], &t, &e), WR_E_INVAL);
        assert_int_equal(t.kind, 99);
    }
    char b[32];
    assert_string_equal(wr_type_name((wr_type){0}, b), "unknown(0)");
    assert_string_equal(wr_type_name((wr_type){255, 0, 0}, b), "unknown(255)");
}

static void only_iceberg_promotions_keep_files(void **st) {
    wr_type i = {WR_INT}, l = {WR_LONG}, f = {WR_FLOAT}, d = {WR_DOUBLE}, s = {WR_STRING};
    assert_true(wr_type_promotes(i, l) && wr_type_promotes(f, d) && wr_type_promotes(s, s));
    assert_false(wr_type_promotes(l, i) || wr_type_promotes(d, f) || wr_type_promotes(i, d) || wr_type_promotes(i, s));
    assert_true(wr_type_promotes((wr_type){WR_DECIMAL, 5, 2}, (wr_type){WR_DECIMAL, 9, 2}));
    assert_false(wr_type_promotes((wr_type){WR_DECIMAL, 9, 2}, (wr_type){WR_DECIMAL, 5, 2}));
    assert_false(wr_type_promotes((wr_type){WR_DECIMAL, 5, 2}, (wr_type){WR_DECIMAL, 9, 3}));
}

int main(void) {
    const struct CMUnitTest t[] = {
        cmocka_unit_test(every_name_parses_back),
        cmocka_unit_test(spaces_in_a_decimal_are_fine),
        cmocka_unit_test(what_is_no_type_is_refused),
        cmocka_unit_test(only_iceberg_promotions_keep_files),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
