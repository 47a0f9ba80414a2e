#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "mysql/catalogue.h"

static wr_capture *capture(const char *in, const char *out) {
    wr_capture *c;
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_capture_new(&in, 1, &out, out ? 1 : 0, &c, &e), WR_OK);
    return c;
}

static void patterns_are_anchored_on_the_whole_name(void **state) {
    wr_capture *c = capture("shop\\.(a|b.*)", "shop\\.b_tmp.*");
    assert_true(wr_capture_matches(c, "shop", "a"));
    assert_true(wr_capture_matches(c, "shop", "b2"));
    assert_false(wr_capture_matches(c, "shop", "aa"));
    assert_false(wr_capture_matches(c, "myshop", "a"));
    assert_false(wr_capture_matches(c, "shop", "b_tmp1"));
    wr_capture_free(c);
}

static void classes_and_plain_groups_are_understood(void **state) {
    wr_capture *c = capture("db\\d\\.(?:o_\\d+|[\\w.]+x)", "db\\d\\.o_\\d\\d");
    assert_true(wr_capture_matches(c, "db1", "o_7"));
    assert_false(wr_capture_matches(c, "db1", "o_77"));
    assert_true(wr_capture_matches(c, "db1", "o_777"));
    assert_true(wr_capture_matches(c, "db1", "a.bx"));
    assert_false(wr_capture_matches(c, "dbd", "o_7"));
    assert_false(wr_capture_names(c, "dbd", "o_7"));
    wr_capture_free(c);
    c = capture("d\\.t\\d", NULL);
    assert_false(wr_capture_names(c, "d", "td"));
    wr_capture_free(c);
}

static void the_servers_own_databases_never_match(void **state) {
    wr_capture *c = capture(".*", NULL);
    assert_true(wr_capture_matches(c, "w odd.db", "订单.表"));
    assert_false(wr_capture_matches(c, "mysql", "user"));
    assert_false(wr_capture_matches(c, "sys", "x"));
    assert_false(wr_capture_matches(c, "INFORMATION_SCHEMA", "tables"));
    assert_false(wr_capture_matches(c, "performance_schema", "x"));
    wr_capture_free(c);
}

static void a_wrong_pattern_is_named(void **state) {
    const char *bad = "shop\\.(a";
    wr_capture *c;
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_capture_new(&bad, 1, NULL, 0, &c, &e), WR_E_CONFIG);
    assert_non_null(strstr(e.msg, bad));
}

static void a_pattern_without_metacharacters_names_a_table(void **state) {
    wr_capture *c = capture("d\\._t_new", NULL);
    assert_true(wr_capture_names(c, "d", "_t_new"));
    wr_capture_free(c);
    c = capture("d\\..*", NULL);
    assert_false(wr_capture_names(c, "d", "_t_new"));
    wr_capture_free(c);
}

static void helper_names_are_known(void **state) {
    char base[64];
    assert_true(wr_is_shadow_name("_t_gho", base, sizeof base));
    assert_string_equal(base, "t");
    assert_true(wr_is_shadow_name("__order_items_new", base, sizeof base));
    assert_string_equal(base, "order_items");
    assert_true(wr_is_shadow_name("_t_20240131235959_del", base, sizeof base));
    assert_string_equal(base, "t");
    assert_true(wr_is_shadow_name("_t_ghc", NULL, 0));
    assert_true(wr_is_shadow_name("_t_old", NULL, 0));
    assert_false(wr_is_shadow_name("t_new", NULL, 0));
    assert_false(wr_is_shadow_name("_new", NULL, 0));
    assert_false(wr_is_shadow_name("__old", NULL, 0));
    assert_false(wr_is_shadow_name("_t_ghost", NULL, 0));
    assert_false(wr_is_shadow_name("", NULL, 0));
    assert_true(wr_is_shadow_of("__t_gho", "_t"));
    assert_true(wr_is_shadow_of("__t_gho", "t"));
    assert_true(wr_is_shadow_of("_t_20240131235959_del", "t_20240131235959"));
    assert_false(wr_is_shadow_of("_t_gho", "u"));
    /* cut to 64 */
    assert_true(wr_is_shadow_of("_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_gho", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_are_anchored_on_the_whole_name), cmocka_unit_test(classes_and_plain_groups_are_understood), cmocka_unit_test(the_servers_own_databases_never_match), cmocka_unit_test(a_wrong_pattern_is_named),
        cmocka_unit_test(a_pattern_without_metacharacters_names_a_table), cmocka_unit_test(helper_names_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
