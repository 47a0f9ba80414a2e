/* Rules against schemas: what each conversion and mask gives, which columns come out, and which rules are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "weir/base/mem.h"
#include "weir/transform.h"

static wr_engine *engine;

static int open_engine(void **state) {
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_engine_open(NULL, &engine, &err), WR_OK);
    return 0;
}

static int close_engine(void **state) {
    wr_engine_close(engine);
    return 0;
}

static wr_schema *schema_of(const wr_column *c, int n) {
    wr_schema *s;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_schema_new(c, n, 7, &s, &err), WR_OK);
    return s;
}

static wr_rules *rules_of(const wr_rule *r, int n, const char *key) {
    wr_rules *rules;
    wr_err err = WR_ERR_INIT;
    wr_rules_options o = {.rules = r, .nrules = n, .mask_key = key};
    if (wr_rules_new(engine, &o, &rules, &err) != WR_OK) fail_msg("%s", err.msg);
    return rules;
}

/* One column `c` of one value through one rule: what comes out, as text. */
static char *through(wr_rule rule, wr_type t, wr_value v, char out[128], wr_type *ret_type) {
    rule.table = "d\\.t";
    wr_column c = {.name = (char *)"c", .id = 1, .type = t, .nullable = true};
    wr_schema *s = schema_of(&c, 1);
    wr_rules *rules = rules_of(&rule, 1, NULL);
    wr_transform *tr;
    wr_err err = WR_ERR_INIT;
    if (wr_transform_new(rules, "d", "t", s, &tr, &err) != WR_OK) fail_msg("%s", err.msg);
    WR_AUTO_BUF wr_buf row = WR_BUF_INIT, text = WR_BUF_INIT;
    size_t at = wr_row_begin(&row, 1);
    wr_row_put(&row, at, 0, t, &v);
    wr_slice rows[1] = {wr_buf_view(&row)};
    const wr_outcome *o;
    if (wr_transform_run(tr, rows, 1, &o, &err) != WR_OK) fail_msg("%s", err.msg);
    assert_int_equal(o->fate, WR_FATE_PASS);
    const wr_schema *made = wr_transform_schema(tr);
    wr_value got;
    assert_int_equal(wr_row_read(made, o->row, &got, &err), WR_OK);
    wr_value_print(&text, made->cols[0].type, &got);
    snprintf(out, 128, "%s", wr_buf_cstr(&text));
    if (ret_type) *ret_type = made->cols[0].type;
    assert_true(made->cols[0].id >= WR_COMPUTED_ID_BASE && made->cols[0].id < WR_ELEMENT_ID_BASE);
    wr_transform_free(tr);
    wr_rules_free(rules);
    wr_schema_unref(s);
    return out;
}

static void conversions_of_time_give_what_clocks_say(void **state) {
    const wr_type whole = {.kind = WR_LONG}, wide = {WR_DECIMAL, 20, 0}, ts = {.kind = WR_TIMESTAMP}, tz = {.kind = WR_TIMESTAMPTZ}, date = {.kind = WR_DATE}, text = {.kind = WR_STRING};
    const struct { wr_type t; wr_value v; const char *how, *want; uint8_t kind; } cases[] = {
        {whole, {.i64 = 1700000000}, "seconds to timestamptz", "2023-11-14T22:13:20.000000Z", WR_TIMESTAMPTZ},
        {whole, {.i64 = 1700000000123}, "millis to timestamptz", "2023-11-14T22:13:20.123000Z", WR_TIMESTAMPTZ},
        {whole, {.i64 = -1}, "micros to timestamptz", "1969-12-31T23:59:59.999999Z", WR_TIMESTAMPTZ},
        {wide, {.dec = 1700000000}, "seconds to timestamp", "2023-11-14T22:13:20.000000", WR_TIMESTAMP},
        {whole, {.i64 = 1700000000}, "seconds to timestamp in Asia/Shanghai", "2023-11-15T06:13:20.000000", WR_TIMESTAMP},
        {whole, {.i64 = 1700000000}, "seconds to date in Asia/Shanghai", "2023-11-15", WR_DATE},
        {whole, {.i64 = 1700000000}, "seconds to date", "2023-11-14", WR_DATE},
        {tz, {.i64 = 1700000000000000}, "timestamp in America/New_York", "2023-11-14T17:13:20.000000", WR_TIMESTAMP},
        {tz, {.i64 = 1700000000000000}, "date in Asia/Shanghai", "2023-11-15", WR_DATE},
        {tz, {.i64 = 1700000000000000}, "string in Asia/Shanghai", "2023-11-15 06:13:20", WR_STRING},
        {ts, {.i64 = 1700000000000000}, "timestamptz in Asia/Shanghai", "2023-11-14T14:13:20.000000Z", WR_TIMESTAMPTZ},
        {ts, {.i64 = 1700000000000000}, "timestamptz", "2023-11-14T22:13:20.000000Z", WR_TIMESTAMPTZ},
        {ts, {.i64 = 1700000000000000}, "date", "2023-11-14", WR_DATE},
        {date, {.i32 = 19675}, "timestamp", "2023-11-14T00:00:00.000000", WR_TIMESTAMP},
        {date, {.i32 = 19675}, "timestamptz in Asia/Shanghai", "2023-11-13T16:00:00.000000Z", WR_TIMESTAMPTZ},
        {tz, {.i64 = 1700000000999999}, "seconds", "1700000000", WR_LONG},
        {tz, {.i64 = -1}, "seconds", "-1", WR_LONG},
        {tz, {.i64 = -1500}, "millis", "-2", WR_LONG},
        {ts, {.i64 = -1000000}, "seconds", "-1", WR_LONG},
        {date, {.i32 = -1}, "seconds", "-86400", WR_LONG},
        {text, {.s = {(const uint8_t *)"12.345", 6}}, "decimal(12,2)", "12.35", WR_DECIMAL},
        {whole, {.i64 = 42}, "string", "42", WR_STRING},
        {text, {.s = {(const uint8_t *)"2024-02-29", 10}}, "date", "2024-02-29", WR_DATE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char got[128];
        wr_type made;
        through((wr_rule){.convert = &(wr_pair){"c", cases[i].how}, .nconvert = 1}, cases[i].t, cases[i].v, got, &made);
        if (strcmp(got, cases[i].want) || made.kind != cases[i].kind) fail_msg("%s: %s, not %s", cases[i].how, got, cases[i].want);
        through((wr_rule){.convert = &(wr_pair){"c", cases[i].how}, .nconvert = 1}, cases[i].t, (wr_value){.null = true}, got, &made);
        assert_string_equal(got, "null");
    }
}

static void masks_hide(void **state) {
    static const struct { const char *in, *partial; } cases[] = {{"", ""}, {"a", "*"}, {"abc", "***"}, {"abcd", "a**d"}, {"13812345678", "13*******78"}, {"4111111111111111", "4111********1111"}, {"\xC3\xA4\xC3\xB6\xC3\xBC\xC3\x9F", "\xC3\xA4**\xC3\x9F"}};
    char got[128];
    wr_type made;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(through((wr_rule){.mask = &(wr_pair){"c", "partial"}, .nmask = 1}, (wr_type){.kind = WR_STRING}, (wr_value){.s = wr_slice_str(cases[i].in)}, got, NULL), cases[i].partial);
    const char *sha_of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_string_equal(through((wr_rule){.mask = &(wr_pair){"c", "hash"}, .nmask = 1}, (wr_type){.kind = WR_STRING}, (wr_value){.s = wr_slice_str("abc")}, got, NULL), sha_of_abc);
    assert_string_equal(through((wr_rule){.mask = &(wr_pair){"c", "hash"}, .nmask = 1}, (wr_type){.kind = WR_BINARY}, (wr_value){.s = wr_slice_str("abc")}, got, NULL), sha_of_abc);
    through((wr_rule){.mask = &(wr_pair){"C", "null"}, .nmask = 1}, (wr_type){WR_DECIMAL, 10, 2}, (wr_value){.dec = 5}, got, &made);
    assert_string_equal(got, "null");
    assert_true(wr_type_eq(made, (wr_type){WR_DECIMAL, 10, 2}));
}

static void columns_keep_their_place_and_number(void **state) {
    const wr_column c[] = {{.name = (char *)"id", .id = 3, .type = {.kind = WR_INT}, .key_ord = 1}, {.name = (char *)"a", .id = 9, .type = {.kind = WR_INT}, .nullable = true},
                           {.name = (char *)"b", .id = 4, .type = {.kind = WR_STRING}, .nullable = true}};
    const wr_rule r = {.table = "d\\..*", .set = (wr_pair[]){{"a", "a + 1"}, {"sum", "a + id"}}, .nset = 2, .rename = (wr_pair[]){{"id", "key"}, {"sum", "total"}}, .nrename = 1, .drop = (const char *const[]){"b", "nowhere?"}, .ndrop = 2};
    wr_schema *s = schema_of(c, 3);
    wr_rules *rules = rules_of(&r, 1, NULL), *others = rules_of(&(wr_rule){.table = "d\\..*", .filter = "a > 1"}, 1, NULL);
    wr_transform *t, *none;
    wr_err err = WR_ERR_INIT;
    char m1[17], m2[17], m3[17];
    assert_int_equal(wr_transform_new(rules, "d", "t", s, &t, &err), WR_OK);
    const wr_schema *out = wr_transform_schema(t);
    assert_int_equal(out->ncols, 3);
    assert_int_equal(out->version, 7);
    assert_string_equal(out->cols[0].name, "key"), assert_int_equal(out->cols[0].id, 3), assert_int_equal(out->cols[0].key_ord, 1);
    assert_string_equal(out->cols[1].name, "a"), assert_true(out->cols[1].id >= WR_COMPUTED_ID_BASE);
    assert_string_equal(out->cols[2].name, "sum"), assert_true(out->cols[2].nullable);
    assert_int_equal(wr_transform_new(rules, "e", "t", s, &none, &err), WR_OK);
    assert_null(none);
    wr_rules_mark(rules, "d", "t", m1), wr_rules_mark(rules, "e", "t", m2), wr_rules_mark(others, "d", "t", m3);
    assert_string_equal(m2, "");
    assert_string_not_equal(m1, m3);
    wr_transform_free(t);
    wr_rules_free(rules), wr_rules_free(others);
    wr_schema_unref(s);
}

static bool keeps(wr_rules *rules, const wr_schema *was, const wr_schema *now) {
    wr_transform *t;
    wr_err err = WR_ERR_INIT;
    if (wr_transform_new(rules, "d", "t", now, &t, &err) != WR_OK) fail_msg("%s", err.msg);
    bool yes = wr_transform_keeps(t, was);
    wr_transform_free(t);
    return yes;
}

static void schema_changes_keep_rows_when_columns_only_come_and_go(void **state) {
    wr_column c[] = {{.name = (char *)"id", .id = 1, .type = {.kind = WR_INT}, .key_ord = 1}, {.name = (char *)"a", .id = 2, .type = {.kind = WR_INT}, .nullable = true}, {.name = (char *)"b", .id = 3, .type = {.kind = WR_INT}, .nullable = true}};
    wr_rules *rules = rules_of(&(wr_rule){.table = "d\\.t", .set = &(wr_pair){"x", "id + 1"}, .nset = 1, .mask = &(wr_pair){"b?", "hash"}, .nmask = 1}, 1, NULL);
    wr_schema *two = schema_of(c, 2), *three = schema_of(c, 3);
    assert_true(keeps(rules, two, three)), assert_true(keeps(rules, three, two)), assert_true(keeps(rules, two, two));
    c[2].has_initial = true, c[2].initial = (wr_value){.i32 = 5};
    wr_schema *filled = schema_of(c, 3); /* old rows have a value of the new column, which a rule masks */
    c[1].type.kind = WR_LONG;
    wr_schema *wider = schema_of(c, 2);
    c[1].type.kind = WR_INT, c[1].name = (char *)"z";
    wr_schema *renamed = schema_of(c, 2);
    c[1].name = (char *)"a", c[1].id = 8;
    wr_schema *another = schema_of(c, 2);
    assert_false(keeps(rules, two, filled)), assert_false(keeps(rules, two, wider)), assert_false(keeps(rules, two, renamed)), assert_false(keeps(rules, two, another));
    wr_rules_free(rules);
    wr_schema_unref(two), wr_schema_unref(three), wr_schema_unref(filled), wr_schema_unref(wider), wr_schema_unref(renamed), wr_schema_unref(another);
}

static void a_kept_column_has_its_name_and_the_new_one_another(void **state) {
    const wr_column before[] = {{.name = (char *)"id", .id = 1, .type = {.kind = WR_INT}, .key_ord = 1}, {.name = (char *)"v", .id = 2, .type = {.kind = WR_INT}}};
    const wr_column after[] = {{.name = (char *)"id", .id = 1, .type = {.kind = WR_INT}, .key_ord = 1}, {.name = (char *)"v", .id = 3, .type = {WR_DECIMAL, 10, 2}}};
    const wr_column again[] = {{.name = (char *)"id", .id = 1, .type = {.kind = WR_INT}, .key_ord = 1}, {.name = (char *)"v", .id = 4, .type = {WR_DECIMAL, 10, 2}}};
    wr_schema *a = schema_of(before, 2), *b = schema_of(after, 2), *c = schema_of(again, 2), *lake, *lake2, *lake3;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_keep_schema(a, a, b, &lake, &err), WR_OK);
    assert_int_equal(lake->ncols, 3);
    assert_string_equal(lake->cols[1].name, "v__decimal_10_2"), assert_int_equal(lake->cols[1].id, 3), assert_true(lake->cols[1].nullable);
    assert_string_equal(lake->cols[2].name, "v"), assert_int_equal(lake->cols[2].id, 2), assert_true(lake->cols[2].nullable);
    assert_true(wr_schema_keeps(lake)), assert_false(wr_schema_keeps(a));
    assert_int_equal(wr_keep_schema(lake, b, c, &lake2, &err), WR_OK); /* the same type once more, after another in between */
    assert_int_equal(lake2->ncols, 4);
    assert_string_equal(lake2->cols[1].name, "v__decimal_10_2_2"), assert_int_equal(lake2->cols[1].id, 4);
    assert_int_equal(wr_keep_schema(lake2, NULL, c, &lake3, &err), WR_OK); /* nothing new: nothing changes */
    assert_int_equal(lake3->ncols, 4);
    for (int i = 0; i < 4; i++) assert_string_equal(lake3->cols[i].name, lake2->cols[i].name), assert_int_equal(lake3->cols[i].id, lake2->cols[i].id);
    wr_schema_unref(a), wr_schema_unref(b), wr_schema_unref(c), wr_schema_unref(lake), wr_schema_unref(lake2), wr_schema_unref(lake3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(conversions_of_time_give_what_clocks_say), cmocka_unit_test(masks_hide), cmocka_unit_test(columns_keep_their_place_and_number),
                                       cmocka_unit_test(schema_changes_keep_rows_when_columns_only_come_and_go), cmocka_unit_test(a_kept_column_has_its_name_and_the_new_one_another)};
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
