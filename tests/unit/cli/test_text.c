#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cli.h"

static void ages_have_a_unit(void **st) {
    assert_int_equal(wr_cli_age("3d"), INT64_C(3) * 86400 * 1000000);
    assert_int_equal(wr_cli_age("1.5h"), INT64_C(5400) * 1000000);
    assert_int_equal(wr_cli_age("30m"), INT64_C(1800) * 1000000);
    assert_int_equal(wr_cli_age("0s"), 0);
    static const char *const none[] = {"", "3", "d", "-3d", "3dd", "3 d", " 3d", "3w", "inf", "nand", "99999999d", "1e9d"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_int_equal(wr_cli_age(none[i]), -1);
}

static void minutes_are_times_or_ages(void **st) {
    wr_err err = WR_ERR_INIT;
    int64_t at, now;
    assert_int_equal(wr_cli_minute("--to", "1970-01-02", &at, &err), WR_OK);
    assert_int_equal(at, 1440);
    assert_int_equal(wr_cli_minute("--to", "1970-01-02T01:30Z", &at, &err), WR_OK);
    assert_int_equal(at, 1530);
    assert_int_equal(wr_cli_minute("--to", "0s", &now, &err), WR_OK);
    assert_int_equal(wr_cli_minute("--to", "2h", &at, &err), WR_OK);
    assert_true(now - at == 120 || now - at == 119);
    static const char *const none[] = {"", "soon", "2026-13-01", "2026-01-01T", "2026-01-01T10", "2026-01-01T10:00:00", "2026-01-01T10:00+01"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_int_equal(wr_cli_minute("--to", none[i], &at, &err), WR_E_INVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ages_have_a_unit), cmocka_unit_test(minutes_are_times_or_ages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
