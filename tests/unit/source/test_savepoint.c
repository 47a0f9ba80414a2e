#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "mysql/savepoint.h"

static wr_place at(uint64_t n) { return (wr_place){.offset = n}; }

static void is_read(const char *sql, wr_savepoint_word word, const char *name) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    assert_int_equal(wr_savepoint_parse(wr_slice_str(sql), &b), word);
    if (word != WR_SP_NONE) assert_string_equal(wr_buf_cstr(&b), name);
}

static void names_are_read_as_servers_write_them(void **s) {
    is_read("SAVEPOINT `a`", WR_SP_SET, "a");
    is_read("SAVEPOINT abc", WR_SP_SET, "abc");
    is_read("savepoint \"a\"\"b\"", WR_SP_SET, "a\"b");
    is_read("SAVEPOINT `a``b; ROLLBACK TO x`", WR_SP_SET, "a`b; ROLLBACK TO x");
    is_read("ROLLBACK TO `a`", WR_SP_ROLLBACK_TO, "a");
    is_read("ROLLBACK WORK TO SAVEPOINT `\xc3\xa9 \"`", WR_SP_ROLLBACK_TO, "\xc3\xa9 \"");
    is_read("ROLLBACK TO SAVEPOINT x", WR_SP_ROLLBACK_TO, "x");
    is_read("ROLLBACK TO savepoint", WR_SP_ROLLBACK_TO, "savepoint");
    is_read("ROLLBACK", WR_SP_NONE, NULL);
    is_read("ROLLBACK TO ", WR_SP_NONE, NULL);
    is_read("SAVEPOINT", WR_SP_NONE, NULL);
    is_read("SAVEPOINT ", WR_SP_NONE, NULL);
    is_read("SAVEPOINT `a", WR_SP_NONE, NULL);
    is_read("SAVEPOINT ``", WR_SP_NONE, NULL);
    is_read("SAVEPOINT `a` x", WR_SP_NONE, NULL);
    is_read("SAVEPOINT a b", WR_SP_NONE, NULL);
    is_read("RELEASE SAVEPOINT a", WR_SP_NONE, NULL);
}

static void set(wr_savepoints *sp, const char *name, uint64_t place, uint64_t changes) {
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_savepoints_set(sp, wr_slice_str(name), at(place), changes, &err), WR_OK);
}

static void back(wr_savepoints *sp, const char *name, uint64_t place, uint64_t changes) {
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_savepoints_rollback_to(sp, wr_slice_str(name), at(place), changes, NULL, NULL, &err), WR_OK);
}

static void what_is_between_savepoint_and_rollback_was_undone(void **s) {
    wr_savepoints *sp = wr_savepoints_new();
    set(sp, "a", 100, 1);
    assert_false(wr_savepoints_any(sp));
    back(sp, "A", 300, 3);
    assert_true(wr_savepoints_any(sp));
    for (uint64_t n = 90; n < 310; n += 10) assert_int_equal(wr_savepoints_undone(sp, at(n)), n > 100 && n <= 300);
    assert_true(wr_savepoints_undone(sp, (wr_place){100, 1}));
    assert_false(wr_savepoints_undone(sp, (wr_place){300, 1}));
    back(sp, "a", 500, 4); /* it is still there */
    assert_true(wr_savepoints_undone(sp, at(450)));
    assert_false(wr_savepoints_undone(sp, at(501)));
    assert_false(wr_savepoints_doubtful(sp, at(200)));
    wr_savepoints_clear(sp);
    assert_false(wr_savepoints_any(sp));
    assert_false(wr_savepoints_undone(sp, at(200)));
    wr_savepoints_free(sp);
}

static void nothing_between_is_nothing_undone(void **s) {
    wr_savepoints *sp = wr_savepoints_new();
    set(sp, "a", 100, 5);
    set(sp, "a", 200, 5);
    back(sp, "a", 300, 5);
    assert_false(wr_savepoints_any(sp));
    wr_savepoints_free(sp);
}

static void ranges_are_nested_and_apart(void **s) {
    wr_savepoints *sp = wr_savepoints_new();
    set(sp, "a", 100, 0);
    set(sp, "b", 200, 1);
    back(sp, "b", 300, 2);
    set(sp, "c", 400, 3);
    back(sp, "c", 500, 4);
    for (uint64_t n = 50; n < 600; n += 50) assert_int_equal(wr_savepoints_undone(sp, at(n)), (n > 200 && n <= 300) || (n > 400 && n <= 500));
    back(sp, "a", 600, 5);
    for (uint64_t n = 50; n < 700; n += 50) assert_int_equal(wr_savepoints_undone(sp, at(n)), n > 100 && n <= 600);
    wr_savepoints_free(sp);
}

static void later_savepoints_go_with_a_rollback(void **s) {
    wr_err err = WR_ERR_INIT;
    wr_savepoints *sp = wr_savepoints_new();
    set(sp, "a", 100, 0);
    set(sp, "b", 200, 1);
    back(sp, "a", 300, 2);
    assert_int_equal(wr_savepoints_rollback_to(sp, wr_slice_str("b"), at(400), 3, NULL, NULL, &err), WR_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "ROLLBACK TO SAVEPOINT b"));
    wr_savepoints_free(sp);
}

static void a_name_set_twice_is_in_doubt_from_the_first_on(void **s) {
    wr_savepoints *sp = wr_savepoints_new();
    set(sp, "a", 100, 1);
    set(sp, "a", 200, 2);
    set(sp, "a", 300, 3);
    back(sp, "a", 400, 4);
    for (uint64_t n = 50; n < 500; n += 50) {
        assert_int_equal(wr_savepoints_undone(sp, at(n)), n > 300 && n <= 400);
        assert_int_equal(wr_savepoints_doubtful(sp, at(n)), n > 100 && n <= 300);
    }
    wr_savepoints_free(sp);
}

static void a_name_often_used_takes_no_more_room(void **s) {
    wr_savepoints *sp = wr_savepoints_new();
    for (uint64_t n = 0; n < 4ull * WR_SAVEPOINT_NAMES_MAX; n++) set(sp, n % 2 ? "sp1" : "sp2", n, n);
    wr_savepoints_free(sp);
}

static void many_names_do_no_harm(void **s) {
    wr_err err = WR_ERR_INIT;
    wr_savepoints *sp = wr_savepoints_new();
    char name[16];
    wr_code rc = WR_OK;
    int n = 0;
    while (rc == WR_OK && n < 4096) { /* quadratic: only that there is no harm in many */
        snprintf(name, sizeof name, "s%d", n++);
        rc = wr_savepoints_set(sp, wr_slice_str(name), at((uint64_t)n), 0, &err);
    }
    assert_int_equal(rc, WR_OK);
    wr_savepoints_free(sp);
}

static wr_code e_is_e(void *ctx, wr_slice a, wr_slice b, bool *ret, wr_err *err) {
    ++*(int *)ctx;
    *ret = wr_slice_eq(a, wr_slice_str("\xc3\xa9")) && wr_slice_eq(b, wr_slice_str("E"));
    return WR_OK;
}

static void other_letters_are_asked_for(void **s) {
    wr_err err = WR_ERR_INIT;
    int asked = 0;
    wr_savepoints *sp = wr_savepoints_new();
    set(sp, "\xc3\xa9", 100, 0);
    set(sp, "f", 200, 1);
    assert_int_equal(wr_savepoints_rollback_to(sp, wr_slice_str("E"), at(300), 2, e_is_e, &asked, &err), WR_OK);
    assert_int_equal(asked, 1);
    assert_true(wr_savepoints_undone(sp, at(150)));
    set(sp, "f", 400, 3);
    assert_int_equal(wr_savepoints_rollback_to(sp, wr_slice_str("E"), at(500), 4, NULL, NULL, &err), WR_E_UNSUPPORTED);
    wr_savepoints_free(sp);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read_as_servers_write_them),
        cmocka_unit_test(what_is_between_savepoint_and_rollback_was_undone),
        cmocka_unit_test(nothing_between_is_nothing_undone),
        cmocka_unit_test(ranges_are_nested_and_apart),
        cmocka_unit_test(later_savepoints_go_with_a_rollback),
        cmocka_unit_test(a_name_set_twice_is_in_doubt_from_the_first_on),
        cmocka_unit_test(a_name_often_used_takes_no_more_room),
        cmocka_unit_test(many_names_do_no_harm),
        cmocka_unit_test(other_letters_are_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
