#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "weir/base/mem.h"
#include "samples.h"

static void a_schema_owns_copies_and_knows_its_key(void **st) {
    char name[] = "abc", doc[] = "int", text[] = "xyz";
    wr_column c[2] = {{.name = name, .id = 7, .type = {WR_STRING}, .key_ord = 2, .has_initial = true, .doc = doc},
                      {.name = (char[]){"b"}, .id = 3, .type = {WR_INT}, .key_ord = 1}};
    c[0].initial.s = wr_slice_str(text);
    wr_schema *s;
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_schema_new(c, 2, 5, &s, &e), WR_OK);
    memset(name, '?', 3), memset(doc, '?', 3), memset(text, '?', 3);
    assert_string_equal(s->cols[0].name, "abc");
    assert_string_equal(s->cols[0].doc, "int");
    assert_true(wr_slice_eq(s->cols[0].initial.s, wr_slice_str("xyz")));
    assert_int_equal(s->nkey, 2);
    assert_int_equal(s->key[0], 1);
    assert_int_equal(s->key[1], 0);
    assert_int_equal(wr_schema_find(s, "b"), 1);
    assert_int_equal(wr_schema_find(s, "B"), -1);
    assert_int_equal(wr_schema_find_id(s, 7), 0);
    assert_int_equal(wr_schema_find_id(s, 1), -1);
    wr_schema *again = wr_schema_ref(s);
    assert_ptr_equal(again, s);
    wr_schema_unref(s);
    assert_string_equal(again->cols[1].name, "b");
    wr_schema_unref(again);
    wr_schema_unref(NULL);
}

static void refuse(const wr_column *c, int n) {
    wr_err e = WR_ERR_INIT;
    wr_schema *s = (wr_schema *)&e;
    assert_int_equal(wr_schema_new(c, n, 1, &s, &e), WR_E_INVAL);
    assert_ptr_equal(s, &e);
    assert_true(strlen(e.msg) > 0);
}

static void shapes_that_cannot_be_are_refused(void **st) {
    const wr_column ok[3] = {{.name = (char[]){"a"}, .id = 1, .type = {WR_INT}},
                             {.name = (char[]){"b"}, .id = 2, .type = {WR_STRING}},
                             {.name = (char[]){"c"}, .id = 3, .type = {WR_DECIMAL, 3, 1}}};
    wr_column c[3];
    char latin1[] = "gr\xf6\xdf";
#define WITH(change) memcpy(c, ok, sizeof c), change, refuse(c, 3)
    refuse(ok, 0);
    WITH(c[0].name = NULL);
    WITH(c[0].name = c[1].name);
    WITH(c[0].name = (char[]){""});
    WITH(c[0].name = latin1);
    WITH(c[0].id = 0);
    WITH(c[0].id = 3);
    WITH(c[0].type.kind = 0);
    WITH(c[0].type.kind = WR_FLOATS + 1);
    WITH(c[0].type.precision = 1);
    WITH(c[2].type.precision = 0);
    WITH(c[2].type.precision = 39);
    WITH(c[2].type.scale = 4);
    WITH(c[0].key_ord = 2);
    WITH(c[0].key_ord = -1);
    WITH((c[0].key_ord = 1, c[1].key_ord = 1));
    WITH((c[0].key_ord = 1, c[1].key_ord = 3));
    WITH((c[2].has_initial = true, c[2].initial.dec = 1000));
    WITH((c[1].type.kind = WR_FLOATS, c[1].has_initial = true, c[1].initial.s = wr_slice_of("abc", 3)));
}

static void a_doc_in_the_wrong_charset_is_mended(void **st) {
    char doc[] = "enum('gr\xf6\xdf')";
    wr_column c = {.name = (char[]){"a"}, .id = 1, .type = {WR_STRING}, .doc = doc};
    wr_schema *s;
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_schema_new(&c, 1, 1, &s, &e), WR_OK);
    assert_string_equal(s->cols[0].doc, "enum('gr\xef\xbf\xbd\xef\xbf\xbd')");
    wr_schema_unref(s);
}

static void an_initial_null_is_no_initial(void **st) {
    wr_column c = {.name = (char[]){"a"}, .id = 1, .type = {WR_STRING}, .has_initial = true, .initial.null = true};
    wr_schema *s;
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_schema_new(&c, 1, 1, &s, &e), WR_OK);
    assert_false(s->cols[0].has_initial);
    wr_schema_unref(s);
}

static wr_schema *through_json(const wr_schema *s) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT, again = WR_BUF_INIT;
    wr_err e = WR_ERR_INIT;
    wr_schema *t = NULL;
    assert_int_equal(wr_schema_to_json(s, &b, &e), WR_OK);
    if (wr_schema_from_json(wr_buf_view(&b), &t, &e) != WR_OK) fail_msg("%s: %s", e.msg, wr_buf_cstr(&b));
    assert_int_equal(wr_schema_to_json(t, &again, &e), WR_OK);
    assert_true(wr_slice_eq(wr_buf_view(&b), wr_buf_view(&again)));
    return t;
}

static void json_keeps_every_kind_exactly(void **st) {
    wr_schema *s = sample_schema(), *t = through_json(s);
    assert_true(schema_eq(s, t));
    wr_schema_unref(s);
    wr_schema_unref(t);
}

static void json_keeps_odd_initial_values_exactly(void **st) {
    const uint64_t doubles[] = {
        0, 1, 0x8000000000000000, 0x7ff0000000000000, 0x7ff8000000000001, 0xfff8dead00000000, 0x7fefffffffffffff};
    const wr_slice strings[] = {wr_slice_of("", 0),
                                wr_slice_of("\0", 1),
                                wr_slice_of("a\0b", 3),
                                wr_slice_of("\xff\xfe", 2),
                                wr_slice_of("{\"hex\":\"00\"}", 12),
                                wr_slice_of("\x01\x1f\x7f", 3)};
    wr_column c = {.name = (char[]){"a"}, .id = 1, .has_initial = true};
    wr_err e = WR_ERR_INIT;
    for (size_t i = 0; i < 7 + 6 * 2; i++) {
        wr_schema *s, *t;
        c.type.kind = i < 7 ? WR_DOUBLE : i < 13 ? WR_STRING : WR_BINARY;
        if (i < 7)
            memcpy(&c.initial.f64, &doubles[i], 8);
        else
            c.initial.s = strings[(i - 7) % 6];
        assert_int_equal(wr_schema_new(&c, 1, 1, &s, &e), WR_OK);
        t = through_json(s);
        assert_true(schema_eq(s, t));
        wr_schema_unref(s);
        wr_schema_unref(t);
    }
}

static void the_json_is_that_of_the_format_page(void **st) {
    wr_column c[2] = {
        {.name = (char[]){"id"}, .id = 1, .type = {WR_LONG}, .key_ord = 1, .doc = (char[]){"bigint(20)"}},
        {.name = (char[]){"price"}, .id = 2, .type = {WR_DECIMAL, 10, 2}, .nullable = true, .has_initial = true}};
    c[1].initial.dec = 1250;
    wr_schema *s;
    wr_err e = WR_ERR_INIT;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    assert_int_equal(wr_schema_new(c, 2, 3, &s, &e), WR_OK);
    assert_int_equal(wr_schema_to_json(s, &b, &e), WR_OK);
    assert_string_equal(
        wr_buf_cstr(&b),
        "{\"version\":3,\"columns\":[{\"name\":\"id\",\"id\":1,\"type\":\"long\",\"nullable\":false,\"key\":1,\"doc\":"
        "\"bigint(20)\"},"
        "{\"name\":\"price\",\"id\":2,\"type\":\"decimal(10,2)\",\"nullable\":true,\"key\":0,\"initial\":\"12.50\"}]}");
    wr_schema_unref(s);
}

static void unknown_keys_and_spaces_are_passed_over(void **st) {
    const char *j = " {\"later\":[1], "
                    "\"version\":0,\"columns\":[{\"x\":null,\"name\":\"a\",\"id\":1,\"type\":\"int\",\"nullable\":true,"
                    "\"key\":0}]} \n";
    wr_schema *s;
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_schema_from_json(wr_slice_str(j), &s, &e), WR_OK);
    assert_int_equal(s->version, 0);
    wr_schema_unref(s);
}

static void refuse_column(const char *column) {
    WR_AUTO char *j = wr_asprintf("{\"version\":1,\"columns\":[%s]}", column);
    wr_err e = WR_ERR_INIT;
    wr_schema *s = NULL;
    if (wr_schema_from_json(wr_slice_str(j), &s, &e) != WR_E_CORRUPT) fail_msg("%s", j);
    assert_null(s);
    assert_int_equal(e.code, WR_E_CORRUPT);
}

static void json_of_another_shape_is_corrupt(void **st) {
    const char *bad[] = {"",
                         "x",
                         "{}",
                         "[]",
                         "null",
                         "{\"version\":1}",
                         "{\"version\":-1,\"columns\":[]}",
                         "{\"version\":4294967296,\"columns\":[]}",
                         "{\"version\":1,\"columns\":[]}",
                         "{\"version\":1,\"columns\":{}}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wr_err e = WR_ERR_INIT;
        wr_schema *s;
        assert_int_equal(wr_schema_from_json(wr_slice_str(bad[i]), &s, &e), WR_E_CORRUPT);
    }
    refuse_column("1");
    refuse_column("{}");
#define COL(type, rest) "{\"name\":\"a\",\"id\":1,\"nullable\":true,\"key\":0,\"type\":\"" type "\"" rest "}"
    refuse_column(COL("nothing", ""));
    refuse_column(COL("int", "},{\"name\":\"a\",\"id\":2,\"nullable\":true,\"key\":0,\"type\":\"int\""));
    refuse_column(COL("int", ",\"initial\":\"2147483648\""));
    refuse_column(COL("int", ",\"initial\":5"));
    refuse_column(COL("int", ",\"initial\":\"\""));
    refuse_column(COL("int", ",\"initial\":\" 5\""));
    refuse_column(COL("int", ",\"initial\":\"5x\""));
    refuse_column(COL("long", ",\"initial\":\"9223372036854775808\""));
    refuse_column(COL("boolean", ",\"initial\":\"true\""));
    refuse_column(COL("double", ",\"initial\":\"0.5\""));
    refuse_column(COL("double", ",\"initial\":\"0x3f800000\""));
    refuse_column(COL("float", ",\"initial\":\"0x3F800000\""));
    refuse_column(COL("decimal(4,2)", ",\"initial\":\"123.00\""));
    refuse_column(COL("binary", ",\"initial\":\"abc\""));
    refuse_column(COL("binary", ",\"initial\":{\"hex\":\"ab\"}"));
    refuse_column(COL("list<float>", ",\"initial\":\"abcd\""));
    refuse_column(COL("string", ",\"initial\":{\"hex\":\"a\"}"));
    refuse_column(COL("string", ",\"initial\":{}"));
    refuse_column(COL("string", ",\"initial\":null"));
    refuse_column(COL("string", ",\"doc\":1"));
    refuse_column("{\"name\":\"a\",\"id\":1.5,\"nullable\":true,\"key\":0,\"type\":\"int\"}");
    refuse_column("{\"name\":\"a\",\"id\":1,\"nullable\":1,\"key\":0,\"type\":\"int\"}");
    refuse_column("{\"name\":\"a\",\"id\":1,\"nullable\":true,\"key\":2,\"type\":\"int\"}");
}

static void every_truncation_is_corrupt(void **st) {
    wr_schema *s = sample_schema();
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_schema_to_json(s, &b, &e), WR_OK);
    for (size_t n = 0; n < b.n; n++) {
        WR_AUTO uint8_t *exact = wr_malloc(n);
        wr_schema *t;
        memcpy(exact, b.p, n);
        assert_int_equal(wr_schema_from_json(wr_slice_of(exact, n), &t, &e), WR_E_CORRUPT);
    }
    wr_buf_u8(&b, 'x');
    wr_schema *t;
    assert_int_equal(wr_schema_from_json(wr_buf_view(&b), &t, &e), WR_E_CORRUPT);
    wr_schema_unref(s);
}

static void each_failed_allocation_is_reported_and_leaks_nothing(void **st) {
    wr_schema *s = sample_schema(), *t = NULL;
    wr_err e = WR_ERR_INIT;
    for (uint64_t n = 1;; n++) {
        wr_column c[SAMPLE_COLUMNS];
        sample_columns(c);
        wr_mem_fail_after(n);
        wr_code rc = wr_schema_new(c, SAMPLE_COLUMNS, 1, &t, &e);
        bool over = wr_mem_fail_after(0) > 0;
        assert_int_equal(rc, over ? WR_OK : WR_E_NOMEM);
        if (rc == WR_OK) wr_schema_unref(t);
        if (over) break;
    }
    for (uint64_t n = 1;; n++) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        wr_mem_fail_after(n);
        wr_code rc = wr_schema_to_json(s, &b, &e);
        bool over = wr_mem_fail_after(0) > 0;
        assert_int_equal(rc, over ? WR_OK : WR_E_NOMEM);
        if (over) break;
    }
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    assert_int_equal(wr_schema_to_json(s, &b, &e), WR_OK);
    for (uint64_t n = 1;; n++) {
        wr_mem_fail_after(n);
        wr_code rc = wr_schema_from_json(wr_buf_view(&b), &t, &e);
        bool over = wr_mem_fail_after(0) > 0;
        assert_int_equal(rc, over ? WR_OK : WR_E_NOMEM);
        if (rc == WR_OK) wr_schema_unref(t);
        if (over) break;
    }
    wr_schema_unref(s);
}

static void a_table_of_4096_columns_is_quick(void **st) {
    static wr_column c[4096];
    static char name[4096][16];
    wr_schema *s, *t;
    wr_err e = WR_ERR_INIT;
    for (int i = 0; i < 4096; i++) {
        snprintf(name[i], sizeof name[i], "c%d", i);
        c[i] = (wr_column){.name = name[i], .id = i + 1, .type = {WR_INT}};
    }
    assert_int_equal(wr_schema_new(c, 4096, 1, &s, &e), WR_OK);
    t = through_json(s);
    assert_true(schema_eq(s, t));
    wr_schema_unref(s);
    wr_schema_unref(t);
}

int main(void) {
    const struct CMUnitTest t[] = {
        cmocka_unit_test(a_schema_owns_copies_and_knows_its_key),
        cmocka_unit_test(shapes_that_cannot_be_are_refused),
        cmocka_unit_test(a_doc_in_the_wrong_charset_is_mended),
        cmocka_unit_test(an_initial_null_is_no_initial),
        cmocka_unit_test(json_keeps_every_kind_exactly),
        cmocka_unit_test(json_keeps_odd_initial_values_exactly),
        cmocka_unit_test(the_json_is_that_of_the_format_page),
        cmocka_unit_test(unknown_keys_and_spaces_are_passed_over),
        cmocka_unit_test(json_of_another_shape_is_corrupt),
        cmocka_unit_test(every_truncation_is_corrupt),
        cmocka_unit_test(each_failed_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(a_table_of_4096_columns_is_quick),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
