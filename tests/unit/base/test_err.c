#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "weir/base/err.h"

static void a_failure_carries_code_retry_and_text(void **st) {
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_fail(&e, WR_E_IO, WR_RETRY_SOON, "byte %d of %s", 7, "f"), WR_E_IO);
    assert_int_equal(e.code, WR_E_IO);
    assert_int_equal(e.retry, WR_RETRY_SOON);
    assert_string_equal(e.msg, "byte 7 of f");
    assert_string_equal(e.cure, "");
}

static void places_are_put_in_front_of_the_message(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_fail(&e, WR_E_DECODE, WR_RETRY_NO, "bad byte");
    assert_int_equal(wr_err_in(&e, "event %d", 4), WR_E_DECODE);
    wr_err_in(&e, "binlog.000001");
    assert_string_equal(e.msg, "binlog.000001: event 4: bad byte");
}

static void a_new_failure_forgets_the_old_cure(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_fail(&e, WR_E_IO, WR_RETRY_NO, "one");
    assert_int_equal(wr_err_cure(&e, "do %s", "that"), WR_E_IO);
    assert_string_equal(e.cure, "do that");
    wr_fail(&e, WR_E_IO, WR_RETRY_NO, "two");
    assert_string_equal(e.cure, "");
    wr_err_clear(&e);
    assert_int_equal(e.code, WR_OK);
    assert_string_equal(e.msg, "");
}

static void a_message_may_quote_the_one_it_replaces(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_fail(&e, WR_E_IO, WR_RETRY_NO, "inner");
    wr_fail(&e, WR_E_NET, WR_RETRY_NO, "outer (%s)", e.msg);
    assert_string_equal(e.msg, "outer (inner)");
}

static void messages_are_one_line(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_fail(&e, WR_E_SERVER, WR_RETRY_NO, "a\nb\tc\r");
    assert_string_equal(e.msg, "a b c ");
}

static void a_long_message_is_cut_between_characters(void **st) {
    char text[4000];
    for (int shift = 0; shift < 4; shift++) {
        wr_err e = WR_ERR_INIT;
        size_t n = (size_t)shift;
        memset(text, 'x', n);
        while (n + 4 < sizeof text) memcpy(text + n, "\xf0\x9f\x8c\x8a", 4), n += 4;
        text[n] = 0;
        wr_fail(&e, WR_E_IO, WR_RETRY_NO, "%s", text);
        assert_true(strlen(e.msg) >= sizeof e.msg - 4);
        assert_int_equal((strlen(e.msg) - (size_t)shift) % 4, 0);
        wr_err_in(&e, "%s", text);
        assert_true(strlen(e.msg) < sizeof e.msg);
        wr_fail(&e, WR_E_IO, WR_RETRY_NO, "inner");
        for (int i = 0; i < 300; i++) wr_err_in(&e, "place %d", i);
        assert_true(strlen(e.msg) < sizeof e.msg);
    }
}

static void every_code_has_its_own_name(void **st) {
    for (int i = 0; i <= WR_E_GAP; i++) {
        assert_string_not_equal(wr_code_name((wr_code)i), "unknown");
        for (int k = 0; k < i; k++) assert_string_not_equal(wr_code_name((wr_code)i), wr_code_name((wr_code)k));
    }
    assert_string_equal(wr_code_name((wr_code)999), "unknown");
}

int main(void) {
    const struct CMUnitTest t[] = {
        cmocka_unit_test(a_failure_carries_code_retry_and_text),
        cmocka_unit_test(places_are_put_in_front_of_the_message),
        cmocka_unit_test(a_new_failure_forgets_the_old_cure),
        cmocka_unit_test(a_message_may_quote_the_one_it_replaces),
        cmocka_unit_test(messages_are_one_line),
        cmocka_unit_test(a_long_message_is_cut_between_characters),
        cmocka_unit_test(every_code_has_its_own_name),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
