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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ages_have_a_unit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
