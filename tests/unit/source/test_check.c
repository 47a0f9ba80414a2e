/* The parts of `weir check` that need no server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "mysql/check.h"
#include "mysql/position.h"

static void grants_are_read_with_their_objects(void **state) {
    const char *g = "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `w`@`%`\n"
                    "GRANT LOCK TABLES ON `shop\\_%`.* TO `w`@`%`\n"
                    "GRANT LOCK TABLES (x), INSERT (a, b), DELETE ON `o``dd`.`t.t` TO `w`@`%`\n"
                    "GRANT `role`@`%` TO `w`@`%`\n";
    assert_true(wr_check_granted(g, "REPLICATION SLAVE", NULL, NULL));
    assert_true(wr_check_granted(g, "SELECT", "any", "table"));
    assert_false(wr_check_granted(g, "RELOAD", NULL, NULL));
    assert_false(wr_check_granted(g, "REPLICATION", NULL, NULL));
    assert_true(wr_check_granted(g, "LOCK TABLES", "shop_1", NULL));
    assert_false(wr_check_granted(g, "LOCK TABLES", "shopx1", NULL));
    assert_false(wr_check_granted(g, "LOCK TABLES", NULL, NULL));
    assert_true(wr_check_granted(g, "DELETE", "o`dd", "t.t"));
    assert_false(wr_check_granted(g, "DELETE", "o`dd", "t"));
    assert_false(wr_check_granted(g, "INSERT", "o`dd", "t.t")); /* on some columns only */
    assert_true(wr_check_granted("GRANT ALL PRIVILEGES ON `a`.* TO `w`@`%`", "LOCK TABLES", "a", NULL));
    assert_true(wr_check_granted("GRANT ALL PRIVILEGES ON *.* TO `w`@`%` WITH GRANT OPTION", "RELOAD", NULL, NULL));
    assert_false(wr_check_granted("", "RELOAD", NULL, NULL));
    assert_false(wr_check_granted("GRANT", "RELOAD", NULL, NULL));
}

static void distance_counts_edits(void **state) {
    assert_int_equal(wr_check_distance("shop.orders", "shop.orders", 99), 0);
    assert_int_equal(wr_check_distance("shop.order", "shop.orders", 99), 1);
    assert_int_equal(wr_check_distance("shop.oders", "shop.orders", 99), 1);
    assert_int_equal(wr_check_distance("", "abc", 99), 3);
    assert_int_equal(wr_check_distance("abcdef", "uvwxyz", 4), 4);
}

static void owned_gtids_are_listed_one_by_one(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_buf b = WR_BUF_INIT;
    assert_int_equal(wr_my_parse_owned("", &b, &err), WR_OK);
    assert_int_equal(b.n, 0);
    assert_int_equal(
        wr_my_parse_owned(
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:7#12:9#14,\n4e11fa47-71ca-11e1-9e33-c80aa9429562:tag:3#15:other:8#2",
            &b, &err),
        WR_OK);
    assert_string_equal(wr_buf_cstr(&b), "3e11fa47-71ca-11e1-9e33-c80aa9429562:7\n"
                                         "3e11fa47-71ca-11e1-9e33-c80aa9429562:9\n"
                                         "4e11fa47-71ca-11e1-9e33-c80aa9429562:tag:3\n"
                                         "4e11fa47-71ca-11e1-9e33-c80aa9429562:other:8\n");
    wr_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_are_read_with_their_objects),
        cmocka_unit_test(distance_counts_edits),
        cmocka_unit_test(owned_gtids_are_listed_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
