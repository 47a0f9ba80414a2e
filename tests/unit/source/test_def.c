#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "mysql/ddl_default.h"
#include "mysql/ddl_type.h"
#include "mysql/def.h"
#include "weir/base/mem.h"

static const wr_ddl_server maria = {.is_mariadb = true, .version = 101119}, oracle = {.version = 90704};

static wr_my_col column(const char *type, const wr_ddl_server *sv) {
    wr_my_col c = {0};
    wr_err e = WR_ERR_INIT;
    c.name = wr_strdup("c");
    bool text = strstr(type, "char") || strstr(type, "text") || strstr(type, "enum") || strstr(type, "set");
    assert_int_equal(wr_ddl_type_from_server(type, text ? "utf8mb4" : NULL, text ? "utf8mb4_general_ci" : NULL, sv, &c, &e), WR_OK);
    return c;
}

static void lake_types_follow_the_policy(void **state) {
    static const struct { const char *source, *lake; } cases[] = {
        {"tinyint(4)", "int"}, {"smallint(5) unsigned", "int"}, {"mediumint(8) unsigned", "int"}, {"int(11)", "int"}, {"int(10) unsigned", "long"}, {"bigint(20)", "long"},
        {"bigint(20) unsigned zerofill", "decimal(20,0)"}, {"year(4)", "int"}, {"bit(1)", "boolean"}, {"bit(2)", "long"}, {"bit(63)", "long"}, {"bit(64)", "decimal(20,0)"},
        {"decimal(38,30)", "decimal(38,30)"}, {"decimal(39,1)", "string"}, {"decimal(10,0) unsigned", "decimal(10,0)"}, {"float", "float"}, {"double(9,2)", "double"}, {"char(5)", "string"},
        {"varchar(5)", "string"}, {"longtext", "string"}, {"enum('a','b')", "string"}, {"set('a','b')", "string"}, {"binary(4)", "binary"}, {"varbinary(4)", "binary"}, {"longblob", "binary"},
        {"date", "date"}, {"datetime(3)", "timestamp"}, {"timestamp(6)", "timestamptz"}, {"time(2)", "long"}, {"point", "binary"}, {"geometrycollection", "binary"},
    };
    wr_my_types types = {0};
    char name[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wr_my_col c = column(cases[i].source, &maria);
        if (strcmp(wr_type_name(wr_my_lake_type(&c, types), name), cases[i].lake) != 0) fail_msg("%s: %s", cases[i].source, name);
        assert_string_equal(c.column_type, cases[i].source);
        wr_my_col_clear(&c);
    }
    static const struct { const char *source, *lake; bool mariadb; } more[] = {
        {"json", "string", false}, {"vector(3)", "list<float>", false}, {"geomcollection", "binary", false}, {"int", "int", false}, {"uuid", "string", true}, {"inet4", "string", true}, {"inet6", "string", true}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        wr_my_col c = column(more[i].source, more[i].mariadb ? &maria : &oracle);
        assert_string_equal(wr_type_name(wr_my_lake_type(&c, types), name), more[i].lake);
        wr_my_col_clear(&c);
    }
    types = (wr_my_types){.zero_date = WR_ZERO_STRING, .time_as = WR_TIME_STRING};
    static const char *const strings[] = {"date", "datetime", "timestamp", "time"};
    for (size_t i = 0; i < 4; i++) {
        wr_my_col c = column(strings[i], &maria);
        assert_int_equal(wr_my_lake_type(&c, types).kind, WR_STRING);
        wr_my_col_clear(&c);
    }
}

static wr_my_table *table(int ncols) {
    wr_my_table *t = wr_calloc(1, sizeof *t);
    t->id = 4, t->version = 2, t->next_col_id = ncols + 1, t->captured = true;
    t->db = wr_strdup("d"), t->name = wr_strdup("t \"q\" \n"), t->charset = wr_strdup("utf8mb4"), t->engine = wr_strdup("InnoDB");
    t->cols = wr_calloc((size_t)ncols, sizeof *t->cols);
    t->ncols = ncols;
    return t;
}

static void set(wr_my_table *t, int i, const char *name, const char *type, bool not_null, int key) {
    t->cols[i] = column(type, &maria);
    wr_free(t->cols[i].name);
    t->cols[i].name = wr_strdup(name);
    t->cols[i].id = i + 1;
    t->cols[i].not_null = not_null;
    t->cols[i].key_ord = key;
}

static void hidden_columns_are_left_out_and_the_key_closes_up(void **state) {
    wr_my_table *t = table(5);
    wr_err e = WR_ERR_INIT;
    wr_my_types types = {0};
    set(t, 0, "id", "int(11)", true, 1);
    set(t, 1, "start", "timestamp(6)", true, 0);
    set(t, 2, "end", "timestamp(6)", true, 2);
    set(t, 3, "day", "date", true, 3);
    set(t, 4, "a", "varchar(9)", true, 0);
    t->cols[1].hidden = t->cols[2].hidden = true;
    assert_int_equal(wr_my_table_finish(t, types, NULL, &e), WR_OK);
    assert_int_equal(t->schema->ncols, 3);
    assert_int_equal(t->schema->nkey, 2);
    assert_string_equal(t->schema->cols[t->schema->key[1]].name, "day");
    assert_int_equal(t->lake_col[2], -1);
    assert_int_equal(t->lake_col[4], 2);
    assert_false(t->schema->cols[0].nullable);
    assert_true(t->schema->cols[1].nullable); /* zero dates become null */
    assert_false(t->schema->cols[2].nullable);
    assert_string_equal(t->schema->cols[2].doc, "varchar(9)");
    types.zero_date = WR_ZERO_EPOCH;
    assert_int_equal(wr_my_table_finish(t, types, NULL, &e), WR_OK);
    assert_false(t->schema->cols[1].nullable);
    wr_my_table_free(t);
}

static wr_my_table *sample(void) {
    wr_my_table *t = table(4);
    wr_err e = WR_ERR_INIT;
    wr_my_types types = {0};
    set(t, 0, "id", "bigint(20) unsigned", true, 1);
    set(t, 1, "列", "enum('a','b''c','d,e')", false, 0);
    set(t, 2, "x", "decimal(10,2)", true, 0);
    set(t, 3, "y", "varchar(9)", false, 0);
    t->cols[0].auto_increment = true;
    t->cols[2].has_default = true, t->cols[2].default_text = wr_strdup("1.5");
    t->cols[3].has_default = true;
    assert_int_equal(wr_my_table_finish(t, types, NULL, &e), WR_OK);
    return t;
}

static void json_gives_the_same_definition_back(void **state) {
    wr_my_table *t = sample(), *u, *c = wr_my_table_clone(t);
    wr_my_types types = {0};
    wr_err e = WR_ERR_INIT;
    wr_buf a = WR_BUF_INIT, b = WR_BUF_INIT;
    assert_int_equal(wr_my_table_to_json(c, &a, &e), WR_OK);
    assert_int_equal(wr_my_table_from_json(wr_buf_view(&a), types, &u, &e), WR_OK);
    assert_int_equal(wr_my_table_to_json(u, &b, &e), WR_OK);
    assert_true(wr_slice_eq(wr_buf_view(&a), wr_buf_view(&b)));
    assert_string_equal(u->name, t->name);
    assert_string_equal(u->cols[1].labels[1], "b'c");
    assert_true(u->cols[3].has_default && !u->cols[3].default_text);
    wr_my_table_free(t), wr_my_table_free(u), wr_my_table_free(c);
    wr_buf_free(&a), wr_buf_free(&b);
}

static void json_that_is_cut_or_changed_is_refused_or_whole(void **state) {
    wr_my_table *t = sample(), *u;
    wr_my_types types = {0};
    wr_err e = WR_ERR_INIT;
    wr_buf a = WR_BUF_INIT;
    assert_int_equal(wr_my_table_to_json(t, &a, &e), WR_OK);
    for (size_t n = 0; n < a.n; n++) assert_int_equal(wr_my_table_from_json(wr_slice_of(a.p, n), types, &u, &e), WR_E_CORRUPT);
    for (size_t i = 0; i < a.n * 8; i++) {
        a.p[i / 8] ^= (uint8_t)(1u << (i % 8));
        if (wr_my_table_from_json(wr_buf_view(&a), types, &u, &e) == WR_OK) wr_my_table_free(u);
        a.p[i / 8] ^= (uint8_t)(1u << (i % 8));
    }
    wr_my_table_free(t);
    wr_buf_free(&a);
}

static void each_allocation_may_fail(void **state) {
    wr_my_table *t = sample();
    wr_my_types types = {0};
    wr_buf a = WR_BUF_INIT;
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_my_table_to_json(t, &a, &e), WR_OK);
    for (uint64_t n = 1; n < 10000; n++) {
        wr_my_table *u = NULL, *c;
        wr_mem_fail_after(n);
        wr_code rc = wr_my_table_from_json(wr_buf_view(&a), types, &u, &e);
        c = rc == WR_OK ? wr_my_table_clone(u) : NULL;
        wr_mem_fail_after(0);
        bool done = c != NULL;
        wr_my_table_free(u), wr_my_table_free(c);
        if (done) break;
        assert_true(n < 9999);
    }
    wr_my_table_free(t);
    wr_buf_free(&a);
}

/* ------------------------------------------------------------------ literal defaults */
/* What ADD COLUMN ... DEFAULT gives old rows; "?" = not certain, "-" = null. */
static void check_default(const char *type, wr_lit_kind kind, const char *text, const char *expected) {
    wr_my_col c = column(type, &maria);
    wr_ddl_session se = {.sv = maria, .time_zone = "+05:45", .utf8_client = true};
    wr_ddl_lit lit = {.kind = kind, .text = text, .n = strlen(text)};
    wr_my_types types = {0};
    assert_true(wr_ddl_default_set(&c, &lit, &se));
    wr_value v;
    wr_buf scratch = WR_BUF_INIT, shown = WR_BUF_INIT;
    wr_my_initial got = wr_my_col_initial(&c, types, &v, &scratch);
    if (got == WR_MY_INITIAL_UNKNOWN) wr_buf_printf(&shown, "?");
    else if (got == WR_MY_INITIAL_NONE) wr_buf_printf(&shown, "-");
    else wr_value_print(&shown, wr_my_lake_type(&c, types), &v);
    if (strcmp(shown.n ? wr_buf_cstr(&shown) : "", expected) != 0) fail_msg("%s DEFAULT %s: %s, not %s", type, text, shown.n ? wr_buf_cstr(&shown) : "", expected);
    wr_buf_free(&scratch), wr_buf_free(&shown);
    wr_my_col_clear(&c);
}

static void literal_defaults_become_exact_values(void **state) {
    static const struct { const char *type; wr_lit_kind kind; const char *text, *expected; } cases[] = {
        {"int(11)", WR_LIT_NUMBER, "1.5", "2"}, {"int(11)", WR_LIT_STRING, "-1.5", "-2"}, {"int(11)", WR_LIT_NUMBER, "1e3", "?"}, {"tinyint(4)", WR_LIT_NUMBER, "128", "?"},
        {"int(11)", WR_LIT_HEX, "10", "16"}, {"int(11)", WR_LIT_XHEX, "10", "?"}, {"bigint(20) unsigned", WR_LIT_NUMBER, "18446744073709551615", "18446744073709551615"},
        {"decimal(10,2)", WR_LIT_STRING, "1.005", "1.01"}, {"decimal(10,2)", WR_LIT_NUMBER, "-0.004", "0.00"}, {"decimal(4,2)", WR_LIT_NUMBER, "99.995", "?"}, {"decimal(3,2)", WR_LIT_NUMBER, "9.99", "9.99"},
        {"decimal(65,30)", WR_LIT_NUMBER, "1.5", "1.500000000000000000000000000000"}, {"decimal(5,0)", WR_LIT_NUMBER, "2.5", "3"}, {"decimal(5,2) unsigned", WR_LIT_NUMBER, "-1", "?"},
        {"double", WR_LIT_NUMBER, "0.1", "0.1"}, {"float(7,3)", WR_LIT_NUMBER, "1.2345", "?"}, {"float(7,3)", WR_LIT_NUMBER, "1.5", "1.5"},
        {"bit(1)", WR_LIT_BIN, "1", "true"}, {"bit(8)", WR_LIT_BIN, "100000000", "?"}, {"bit(64)", WR_LIT_HEX, "FFFFFFFFFFFFFFFF", "18446744073709551615"}, {"bit(8)", WR_LIT_STRING, "1", "?"},
        {"char(5)", WR_LIT_STRING, "ab  ", "ab"}, {"varchar(5)", WR_LIT_STRING, "ab  ", "ab  "}, {"varchar(2)", WR_LIT_STRING, "abc", "?"}, {"varchar(9)", WR_LIT_NUMBER, "1.50", "1.50"},
        {"varchar(9)", WR_LIT_NUMBER, "007", "?"}, {"binary(4)", WR_LIT_STRING, "a", "0x61000000"}, {"varbinary(4)", WR_LIT_XHEX, "00ff", "0x00ff"}, {"enum('a','B')", WR_LIT_STRING, "b", "B"},
        {"enum('a','b')", WR_LIT_NUMBER, "1", "?"}, {"set('x','y','z')", WR_LIT_STRING, "z,x", "x,z"}, {"set('x')", WR_LIT_STRING, "", ""}, {"year(4)", WR_LIT_NUMBER, "70", "1970"}, {"year(4)", WR_LIT_STRING, "0", "?"},
        {"date", WR_LIT_STRING, "2024-02-30", "?"}, {"date", WR_LIT_NUMBER, "20240229", "2024-02-29"}, {"date", WR_LIT_STRING, "0000-00-00", "-"}, {"time", WR_LIT_STRING, "8:0", "28800000000"},
        {"time", WR_LIT_STRING, "1 02:03", "?"}, {"datetime", WR_LIT_STRING, "2024-01-02 03:04:05.9", "?"}, {"datetime(1)", WR_LIT_STRING, "2024-1-2 3:4:5.9", "2024-01-02T03:04:05.900000"},
        {"timestamp", WR_LIT_STRING, "2020-01-01 00:00:00", "2019-12-31T18:15:00.000000Z"}, {"int(11)", WR_LIT_NULL, "", "-"}, {"uuid", WR_LIT_STRING, "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
        {"inet6", WR_LIT_STRING, "::1", "::1"}, {"inet6", WR_LIT_STRING, "0:0::1", "?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_default(cases[i].type, cases[i].kind, cases[i].text, cases[i].expected);
}

static void initial_values_are_in_the_schema_when_asked_for(void **state) {
    wr_my_table *t = sample();
    wr_my_types types = {0};
    wr_err e = WR_ERR_INIT;
    bool initial[4] = {true, true, true, true};
    t->cols[0].auto_increment = false;
    t->cols[1].has_default = true, t->cols[1].default_text = wr_strdup("d,e");
    assert_int_equal(wr_my_table_finish(t, types, initial, &e), WR_OK);
    assert_true(t->schema->cols[0].has_initial); /* NOT NULL: the type's zero */
    assert_true(t->schema->cols[0].initial.dec == 0);
    assert_true(wr_slice_eq(t->schema->cols[1].initial.s, wr_slice_str("d,e")));
    assert_true(t->schema->cols[2].initial.dec == 150);
    assert_false(t->schema->cols[3].has_initial);
    wr_my_table_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lake_types_follow_the_policy),
        cmocka_unit_test(hidden_columns_are_left_out_and_the_key_closes_up),
        cmocka_unit_test(json_gives_the_same_definition_back),
        cmocka_unit_test(json_that_is_cut_or_changed_is_refused_or_whole),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(literal_defaults_become_exact_values),
        cmocka_unit_test(initial_values_are_in_the_schema_when_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
