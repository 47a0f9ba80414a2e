#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "mysql/gtid.h"
#include "weir/base/mem.h"

static const uint8_t uuid_a[16] = {0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55};
#define A "11111111-2222-3333-4444-555555555555"
#define B "99999999-2222-3333-4444-555555555555"

static void same(wr_gtid_set *s, const char *want) {
    wr_buf b = WR_BUF_INIT;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_gtid_set_print(s, &b, &err), WR_OK);
    assert_string_equal(wr_buf_cstr(&b), want);
    wr_buf_free(&b);
}

static wr_gtid_set *parsed(wr_flavor f, const char *text) {
    wr_gtid_set *s = NULL;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_gtid_set_parse(f, text, &s, &err), WR_OK);
    return s;
}

static void text_becomes_canonical(void **state) {
    static const struct { wr_flavor f; const char *in, *out; } t[] = {
        {WR_MYSQL, "", ""},
        {WR_MYSQL, A ":5", A ":5"},
        {WR_MYSQL, "11111111222233334444555555555555:1-3:5:4", A ":1-5"},
        {WR_MYSQL, B ":1,\n" A ":7-9:1-2", A ":1-2:7-9," B ":1"},
        {WR_MYSQL, A ":1-5:My_Tag:1-2:5, " A ":zz:9", A ":1-5:my_tag:1-2:5:zz:9"},
        {WR_MYSQL, A ":t:3", A ":t:3"},
        {WR_MARIADB, "0-1-5, 1-2-7 ", "0-1-5,1-2-7"},
        {WR_MARIADB, "7-99-1,0-1-3,7-98-4", "0-1-3,7-98-4"},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        wr_gtid_set *s = parsed(t[i].f, t[i].in);
        same(s, t[i].out);
        wr_gtid_set_free(s);
    }
}

static void what_is_no_set_is_refused(void **state) {
    static const char *const bad[] = {"x", A, A ":", A ":0", A ":5-3", A ":1-", A ":1;2", A ":18446744073709551616", "1111:1", A ":1 2",
                                      A ":a_tag_of_more_than_thirty_two_characters:1"};
    static const char *const bad_maria[] = {"0", "0-1", "0-1-", "a-1-2", "0-1-2-3", "4294967296-1-1", "0-1-99999999999999999999"};
    wr_gtid_set *s;
    wr_err err = WR_ERR_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_int_equal(wr_gtid_set_parse(WR_MYSQL, bad[i], &s, &err), WR_E_DECODE);
    for (size_t i = 0; i < sizeof bad_maria / sizeof bad_maria[0]; i++) assert_int_equal(wr_gtid_set_parse(WR_MARIADB, bad_maria[i], &s, &err), WR_E_DECODE);
}

static void gaps_are_kept_and_closed(void **state) {
    wr_gtid_set *s = parsed(WR_MYSQL, "");
    wr_err err = WR_ERR_INIT;
    static const uint64_t n[] = {5, 1, 3, 2, 9, 8, 4, 20, 1, 6};
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++) assert_int_equal(wr_gtid_set_add_mysql(s, uuid_a, "", n[i], &err), WR_OK);
    same(s, A ":1-6:8-9:20");
    assert_int_equal(wr_gtid_set_add_mysql(s, uuid_a, "", 7, &err), WR_OK);
    assert_int_equal(wr_gtid_set_add_mysql(s, uuid_a, "tag", 7, &err), WR_OK);
    same(s, A ":1-9:20:tag:7");
    assert_true(wr_gtid_set_has(s, uuid_a, "", 9));
    assert_false(wr_gtid_set_has(s, uuid_a, "", 10));
    assert_true(wr_gtid_set_has(s, uuid_a, "", 20));
    assert_false(wr_gtid_set_has(s, uuid_a, "tag", 20));
    wr_gtid_set_free(s);
}

static void bytes_and_text_agree(void **state) {
    static const char *const t[] = {"", A ":1-5:9", A ":1-5:tag:1:3-4," B ":2", A ":only_tag:7"};
    wr_err err = WR_ERR_INIT;
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        wr_gtid_set *s = parsed(WR_MYSQL, t[i]), *back = NULL;
        wr_buf b = WR_BUF_INIT;
        assert_int_equal(wr_gtid_set_encode(s, &b, &err), WR_OK);
        assert_int_equal(wr_gtid_set_decode(wr_buf_view(&b), &back, &err), WR_OK);
        same(back, t[i]);
        for (size_t n = 0; n < b.n; n++) { /* every truncation, at the end of the heap block */
            uint8_t *cut = wr_malloc(n);
            memcpy(cut, b.p, n);
            wr_gtid_set *none = NULL;
            assert_int_equal(wr_gtid_set_decode(wr_slice_of(cut, n), &none, &err), WR_E_DECODE);
            wr_free(cut);
        }
        wr_buf_free(&b);
        wr_gtid_set_free(s), wr_gtid_set_free(back);
    }
}

static void a_set_covers_its_parts_only(void **state) {
    static const struct { wr_flavor f; const char *whole, *part; bool covers; } t[] = {
        {WR_MYSQL, A ":1-10", A ":1-10", true},     {WR_MYSQL, A ":1-10", A ":3:5-7", true}, {WR_MYSQL, A ":1-10", A ":3-11", false},
        {WR_MYSQL, A ":1-4:6-9", A ":4-6", false},  {WR_MYSQL, A ":1-4", B ":1", false},     {WR_MYSQL, A ":1-4", A ":x:1", false},
        {WR_MYSQL, A ":1-4", "", true},             {WR_MARIADB, "0-1-5", "0-1-5", true},    {WR_MARIADB, "0-1-5", "0-9-4", true},
        {WR_MARIADB, "0-1-5", "0-1-6", false},      {WR_MARIADB, "0-1-5", "1-1-1", false},   {WR_MARIADB, "0-1-5,1-1-1", "1-1-1", true},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        wr_gtid_set *w = parsed(t[i].f, t[i].whole), *p = parsed(t[i].f, t[i].part);
        assert_int_equal(wr_gtid_set_covers(w, p), t[i].covers);
        wr_gtid_set_free(w), wr_gtid_set_free(p);
    }
}

static void a_failed_allocation_is_an_error(void **state) {
    wr_err err = WR_ERR_INIT;
    for (uint64_t n = 1; n < 20; n++) {
        wr_gtid_set *s = NULL;
        wr_mem_fail_after(n);
        wr_code rc = wr_gtid_set_parse(WR_MYSQL, A ":1:3:5:7," B ":1:tag:3", &s, &err);
        wr_mem_fail_after(0);
        if (rc == WR_OK) {
            wr_gtid_set_free(s);
            return;
        }
        assert_int_equal(rc, WR_E_NOMEM);
    }
    fail();
}

static void missing_is(wr_flavor flavor, const char *whole, const char *part, const char *want, bool related) {
    wr_err err = WR_ERR_INIT;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    bool is = !related;
    assert_int_equal(wr_gtid_missing(flavor, whole, part, &b, &is, &err), WR_OK);
    assert_string_equal(b.n ? (char *)wr_buf_cstr(&b) : "", want);
    assert_int_equal(is, related);
}

static void what_a_server_lacks_is_told_transaction_by_transaction(void **state) {
    missing_is(WR_MYSQL, A ":1-100", A ":1-100", "", true);
    missing_is(WR_MYSQL, A ":1-100", A ":1-103", A ":101-103", true);
    missing_is(WR_MYSQL, A ":1-5:8-9:12-20", A ":1-20", A ":6-7:10-11", true);
    missing_is(WR_MYSQL, A ":3-5:8", A ":1-9", A ":1-2:6-7:9", true);
    missing_is(WR_MYSQL, A ":1-20", A ":2-3:7:9-11", "", true);
    missing_is(WR_MYSQL, A ":1-4:6-20", A ":2-3:5:9-11:21", A ":5:21", true); /* gaps on both sides */
    missing_is(WR_MYSQL, A ":1-100," B ":1-7", A ":1-100," B ":1-9", B ":8-9", true);
    missing_is(WR_MYSQL, B ":1-900", A ":1-5", A ":1-5", false);
    missing_is(WR_MYSQL, "", A ":1-5", A ":1-5", false);
    missing_is(WR_MYSQL, A ":1-5", "", "", false);
    missing_is(WR_MYSQL, A ":1-9:x:1-3", A ":1-5:x:2-4", A ":x:4", true); /* a tag is a source of its own */
    missing_is(WR_MYSQL, A ":1-9", A ":x:1", A ":x:1", false);
}

static void a_number_of_mariadb_counts_for_the_server_that_gave_it(void **state) {
    missing_is(WR_MARIADB, "0-1-500,0-2-700", "0-1-500", "", true);
    missing_is(WR_MARIADB, "0-1-500,0-2-700", "0-1-503", "0-1-501 to 0-1-503", true); /* although 700 is more than 503 */
    missing_is(WR_MARIADB, "0-1-500", "0-1-501", "0-1-501", true);
    missing_is(WR_MARIADB, "0-7-900", "0-1-500", "0-1-500 and what server 1 wrote before", false);
    missing_is(WR_MARIADB, "1-1-900", "0-1-500,1-1-3", "0-1-500 and what server 1 wrote before", true);
    missing_is(WR_MARIADB, "0-1-400,0-2-450,0-1-500", "0-1-450,0-2-450", "", true);
    missing_is(WR_MARIADB, ",0-1-5", "0-1-5,", "", true);
    missing_is(WR_MARIADB, "", "", "", false);
    wr_err err = WR_ERR_INIT;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    bool related;
    assert_int_equal(wr_gtid_missing(WR_MARIADB, "0-1-5", A ":1-5", &b, &related, &err), WR_E_DECODE);
    assert_int_equal(wr_gtid_missing(WR_MYSQL, A ":1-5", "0-1-5", &b, &related, &err), WR_E_DECODE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_becomes_canonical),      cmocka_unit_test(what_is_no_set_is_refused),
        cmocka_unit_test(gaps_are_kept_and_closed),    cmocka_unit_test(bytes_and_text_agree),
        cmocka_unit_test(a_set_covers_its_parts_only), cmocka_unit_test(what_a_server_lacks_is_told_transaction_by_transaction),
        cmocka_unit_test(a_number_of_mariadb_counts_for_the_server_that_gave_it),
        cmocka_unit_test(a_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
