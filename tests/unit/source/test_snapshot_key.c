/* Cursors and the conditions made from them. SQLite stands in for the server: its integers compare as MySQL's do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <sqlite3.h>
#include "mysql/snapshot.h"
#include "weir/base/mem.h"

static wr_my_col column(const char *name, wr_my_kind kind) {
    return (wr_my_col){.name = (char *)name, .kind = kind, .column_type = (char *)"?"};
}

static void expect_literal(wr_my_col c, const char *value, const char *sql) {
    wr_err err = WR_ERR_INIT;
    wr_buf b = WR_BUF_INIT;
    assert_int_equal(wr_my_key_literal(&c, wr_slice_str(value), &b, &err), WR_OK);
    assert_string_equal(wr_buf_cstr(&b), sql);
    wr_buf_free(&b);
}

static void refuse_literal(wr_my_col c, const char *value) {
    wr_err err = WR_ERR_INIT;
    wr_buf b = WR_BUF_INIT;
    assert_int_equal(wr_my_key_literal(&c, wr_slice_str(value), &b, &err), WR_E_CORRUPT);
    assert_non_null(strstr(err.msg, "cursor"));
    wr_buf_free(&b);
}

static void each_kind_has_its_literal(void **state) {
    expect_literal(column("a", MY_BIGINT), "-9223372036854775808", "-9223372036854775808");
    expect_literal(column("a", MY_BIGINT), "18446744073709551615", "18446744073709551615");
    expect_literal(column("a", MY_BIT), "18446744073709551615", "18446744073709551615");
    expect_literal(column("a", MY_DECIMAL), "-12.340000", "-12.340000");
    expect_literal(column("a", MY_DOUBLE), "-4.9406564584124654e-324", "-4.9406564584124654e-324");
    expect_literal(column("a", MY_DATETIME), "2024-02-30 23:59:59.000001", "'2024-02-30 23:59:59.000001'");
    expect_literal(column("a", MY_TIME), "-838:59:59", "'-838:59:59'");
    expect_literal(column("a", MY_BINARY), "x0001ff", "x'0001ff'");
    expect_literal(column("a", MY_VARBINARY), "x", "x''");
    expect_literal(column("a", MY_INET6), "::ffff:1.2.3.4", "'::ffff:1.2.3.4'");
    wr_my_col t = column("a", MY_VARCHAR);
    t.charset = (char *)"gbk";
    t.collation = (char *)"gbk_chinese_ci";
    expect_literal(t, "xd6d0", "_gbk x'd6d0' COLLATE gbk_chinese_ci");
}

static void what_is_no_value_never_becomes_sql(void **state) {
    static const char *const bad[] = {"",   "1 OR 1=1", "'",   "x'00'", "1;",  "x0",  "xzz",
                                      "\\", "0x10",     "nan", "--",    "`a`", "(1)", "1/*"};
    for (int k = MY_TINYINT; k <= MY_VECTOR; k++) {
        wr_my_col c = column("a", (wr_my_kind)k);
        c.charset = (char *)"utf8mb4";
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuse_literal(c, bad[i]);
    }
    refuse_literal(column("a", MY_INT), "1.5");
    refuse_literal(column("a", MY_DECIMAL), "1.5.1");
    refuse_literal(column("a", MY_VARCHAR), "x61"); /* no character set to say it in */
}

static int conditions(const wr_my_key *k, const char *after, const char *upto, char ***ret) {
    wr_err err = WR_ERR_INIT;
    int n = -1;
    assert_int_equal(wr_my_key_conditions(k, after, upto, ret, &n, &err), WR_OK);
    return n;
}

static void conditions_are_plain_index_ranges(void **state) {
    wr_my_col c[3] = {column("a", MY_INT), column("b", MY_INT), column("c", MY_INT)};
    wr_my_key k = {.n = 3, .col = {&c[0], &c[1], &c[2]}};
    char **v = NULL;
    assert_int_equal(conditions(&k, NULL, "", &v), 1);
    assert_string_equal(v[0], "");
    wr_my_conditions_free(v, 1);
    assert_int_equal(conditions(&k, "1,2,3", NULL, &v), 3);
    assert_string_equal(v[0], "`a` = 1 AND `b` = 2 AND `c` > 3");
    assert_string_equal(v[1], "`a` = 1 AND `b` > 2");
    assert_string_equal(v[2], "`a` > 1");
    wr_my_conditions_free(v, 3);
    assert_int_equal(conditions(&k, "1,2,3", "1,7", &v), 2);
    assert_string_equal(v[0], "`a` = 1 AND `b` = 2 AND `c` > 3");
    assert_string_equal(v[1], "`a` = 1 AND `b` > 2 AND `b` <= 7");
    wr_my_conditions_free(v, 2);
    assert_int_equal(conditions(&k, "1,7", "1,7", &v), 0);
    wr_my_conditions_free(v, 0);
}

static void enum_keys_go_by_number(void **state) {
    char *labels[] = {(char *)"z", (char *)"a", (char *)"m"};
    wr_my_col c = column("e", MY_ENUM);
    c.labels = labels, c.nlabels = 3, c.charset = (char *)"utf8mb4";
    wr_my_key k = {.n = 1, .col = {&c}};
    char **v = NULL;
    assert_int_equal(conditions(&k, "1", NULL, &v), 1);
    assert_string_equal(v[0], "`e` IN (2, 3, 65536)");
    wr_my_conditions_free(v, 1);
    assert_int_equal(conditions(&k, "3", NULL, &v), 0);
    wr_my_conditions_free(v, 0);
    assert_int_equal(conditions(&k, NULL, "2", &v), 1); /* number 0, the invalid value, is in it */
    assert_string_equal(v[0], "`e` IN (0, 1, 2, 65536)");
    wr_my_conditions_free(v, 1);
    labels[2] = (char *)""; /* equals what number 0 shows */
    assert_int_equal(conditions(&k, "1", NULL, &v), 1);
    assert_string_equal(v[0], "`e` IN (2, 3, 65536)");
    wr_my_conditions_free(v, 1);
}

static void an_enum_in_front_goes_by_label_unless_one_is_empty(void **state) {
    char *labels[] = {(char *)"z", (char *)"a", (char *)"m"};
    wr_my_col c[2] = {column("e", MY_ENUM), column("id", MY_INT)};
    c[0].labels = labels, c[0].nlabels = 3, c[0].charset = (char *)"utf8mb4";
    wr_my_key k = {.n = 2, .col = {&c[0], &c[1]}};
    char **v = NULL;
    assert_int_equal(conditions(&k, "2,7", NULL, &v), 2);
    assert_string_equal(v[0], "`e` = _utf8mb4 x'61' AND `id` > 7");
    assert_string_equal(v[1], "`e` IN (3, 65536)");
    wr_my_conditions_free(v, 2);
    labels[0] = (char *)""; /* equals what number 0 shows */
    assert_int_equal(conditions(&k, "1,7", "3,9", &v), 3);
    assert_string_equal(v[0], "`e` IN (1, 65536) AND `id` > 7");
    assert_string_equal(v[1], "`e` IN (2, 65536)");
    assert_string_equal(v[2], "`e` IN (3, 65536) AND `id` <= 9");
    wr_my_conditions_free(v, 3);
}

static void many_labels_are_taken_in_steps(void **state) {
    enum { N = 1700 };
    static char text[N][8];
    static char *labels[N];
    for (int i = 0; i < N; i++) snprintf(text[i], sizeof text[i], "l%d", i), labels[i] = text[i];
    wr_my_col c = column("e", MY_ENUM);
    c.labels = labels, c.nlabels = N, c.charset = (char *)"utf8mb4";
    wr_my_key k = {.n = 1, .col = {&c}};
    char **v = NULL;
    assert_int_equal(conditions(&k, "699", NULL, &v), 3); /* 700..1199, 1200..1699, 1700 */
    assert_int_equal(strncmp(v[0], "`e` IN (700, 701,", 17), 0);
    assert_non_null(strstr(v[0], ", 1199, 65536)"));
    assert_int_equal(strncmp(v[1], "`e` IN (1200, 1201,", 19), 0);
    assert_string_equal(v[2], "`e` IN (1700, 65536)");
    wr_my_conditions_free(v, 3);
    assert_int_equal(conditions(&k, "1699", "1700", &v), 1);
    assert_string_equal(v[0], "`e` IN (1700, 65536)");
    wr_my_conditions_free(v, 1);
    assert_int_equal(conditions(&k, "1700", NULL, &v), 0);
    wr_my_conditions_free(v, 0);
}

static void a_text_that_equals_the_end_is_not_read_twice(void **state) {
    wr_my_col c[2] = {column("a", MY_VARCHAR), column("b", MY_INT)};
    c[0].charset = (char *)"utf8mb4";
    wr_my_key k = {.n = 2, .col = {&c[0], &c[1]}};
    char **v = NULL;
    int n = conditions(&k, "x61,1", "x41,5", &v); /* 'a' and 'A' may be the same to the server */
    assert_int_equal(n, 3);
    assert_non_null(strstr(v[0], "`b` <= 5"));
    assert_non_null(strstr(v[2], "`a` > _utf8mb4 x'61'"));
    wr_my_conditions_free(v, n);
}

/* ------------------------------------------------------------------ against SQLite */
static uint64_t seed = 88172645463325252ull;
static unsigned rnd(unsigned n) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (unsigned)(seed >> 33) % n;
}

static void random_cursor(char *buf, size_t cap, int depth) {
    size_t at = 0;
    buf[0] = 0;
    for (int i = 0; i < depth; i++) at += (size_t)snprintf(buf + at, cap - at, "%s%d", i ? "," : "", (int)rnd(5) - 1);
}

static int collect(sqlite3 *db, const char *cond, char out[][32], int n) {
    char sql[600];
    snprintf(sql, sizeof sql, "SELECT a || ',' || b || ',' || c FROM t %s%s ORDER BY a, b, c", *cond ? "WHERE " : "",
             cond);
    sqlite3_stmt *st = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    while (sqlite3_step(st) == SQLITE_ROW) snprintf(out[n++], 32, "%s", (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    return n;
}

static void put_tuple_condition(char *sql, size_t cap, const char *cursor, const char *op) {
    /* a prefix stands for all keys that begin with it: compare as many columns as it has */
    int n = 1;
    for (const char *p = cursor; *p; p++) n += *p == ',';
    snprintf(sql, cap, "(%s) %s (%s)", n == 1 ? "a" : n == 2 ? "a, b" : "a, b, c", op, cursor);
}

static void random_ranges_hold_each_row_once_and_in_order(void **state) {
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE t(a INT, b INT, c INT)", NULL, NULL, NULL), SQLITE_OK);
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            for (int c = 0; c < 3; c++)
                if (rnd(4)) {
                    char sql[80];
                    snprintf(sql, sizeof sql, "INSERT INTO t VALUES(%d, %d, %d)", a, b, c);
                    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
                }
    wr_my_col c[3] = {column("a", MY_INT), column("b", MY_INT), column("c", MY_INT)};
    wr_my_key k = {.n = 3, .col = {&c[0], &c[1], &c[2]}};
    for (int round = 0; round < 4000; round++) {
        char after[40], upto[40], lo[100] = "1", hi[100] = "1", want_sql[300];
        random_cursor(after, sizeof after, (int)rnd(4));
        random_cursor(upto, sizeof upto, (int)rnd(4));
        if (*after) put_tuple_condition(lo, sizeof lo, after, ">");
        if (*upto) put_tuple_condition(hi, sizeof hi, upto, "<=");
        static char want[64][32], got[256][32];
        snprintf(want_sql, sizeof want_sql, "%s AND %s", lo, hi);
        int nw = collect(db, want_sql, want, 0), ng = 0;
        char **v = NULL;
        int n = conditions(&k, after, upto, &v);
        for (int i = 0; i < n; i++) ng = collect(db, v[i], got, ng);
        if (ng != nw) print_message("after (%s) upto (%s): %d rows, %d expected\n", after, upto, ng, nw);
        assert_int_equal(ng, nw);
        for (int i = 0; i < nw; i++) assert_string_equal(got[i], want[i]);
        wr_my_conditions_free(v, n);
    }
    sqlite3_close(db);
}

static void a_cursor_of_another_key_is_refused(void **state) {
    wr_my_col c = column("a", MY_INT);
    wr_my_key k = {.n = 1, .col = {&c}};
    wr_err err = WR_ERR_INIT;
    char **v = NULL;
    int n = 0;
    assert_int_equal(wr_my_key_conditions(&k, "1,2", NULL, &v, &n, &err), WR_E_CORRUPT);
    assert_int_equal(wr_my_key_conditions(&k, "x61", NULL, &v, &n, &err), WR_E_CORRUPT);
    assert_int_equal(wr_my_key_conditions(&k, NULL, "1) OR (1=1", &v, &n, &err), WR_E_CORRUPT);
}

static void every_failed_allocation_is_an_error(void **state) {
    wr_my_col c[2] = {column("a", MY_INT), column("b", MY_INT)};
    wr_my_key k = {.n = 2, .col = {&c[0], &c[1]}};
    for (uint64_t i = 1; i < 30; i++) {
        wr_err err = WR_ERR_INIT;
        char **v = NULL;
        int n = 0;
        wr_mem_fail_after(i);
        wr_code rc = wr_my_key_conditions(&k, "1,2", "5,6", &v, &n, &err);
        wr_mem_fail_after(0);
        if (rc == WR_OK)
            wr_my_conditions_free(v, n);
        else
            assert_int_equal(rc, WR_E_NOMEM);
    }
}

static void auto_increment_is_no_change_of_definition(void **state) {
    char a[] = "CREATE TABLE `t` (\n  `AUTO_INCREMENT=5` int COMMENT 'x\\n) AUTO_INCREMENT=7',\n  PRIMARY KEY "
               "(`id`)\n) ENGINE=InnoDB AUTO_INCREMENT=12345 DEFAULT CHARSET=utf8mb4";
    wr_my_create_normalise(a);
    assert_string_equal(a, "CREATE TABLE `t` (\n  `AUTO_INCREMENT=5` int COMMENT 'x\\n) AUTO_INCREMENT=7',\n  PRIMARY "
                           "KEY (`id`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4");
    char b[] = "CREATE TABLE `t` (\n  `id` int\n) ENGINE=InnoDB";
    wr_my_create_normalise(b);
    assert_string_equal(b, "CREATE TABLE `t` (\n  `id` int\n) ENGINE=InnoDB");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_has_its_literal),
        cmocka_unit_test(what_is_no_value_never_becomes_sql),
        cmocka_unit_test(conditions_are_plain_index_ranges),
        cmocka_unit_test(enum_keys_go_by_number),
        cmocka_unit_test(an_enum_in_front_goes_by_label_unless_one_is_empty),
        cmocka_unit_test(many_labels_are_taken_in_steps),
        cmocka_unit_test(a_text_that_equals_the_end_is_not_read_twice),
        cmocka_unit_test(random_ranges_hold_each_row_once_and_in_order),
        cmocka_unit_test(a_cursor_of_another_key_is_refused),
        cmocka_unit_test(every_failed_allocation_is_an_error),
        cmocka_unit_test(auto_increment_is_no_change_of_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
