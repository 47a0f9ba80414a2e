#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "iceberg/metadata.h"
#include "lake/ice_helper.h"

/* As Java writes it: ids above 2^53, members nobody here knows, numbers that a double would spell otherwise. */
static const char foreign[] =
    "{\"format-version\":3,\"table-uuid\":\"9c12d441-03fe-4693-9a96-a0705ddf69c1\",\"location\":\"file:/w/"
    "t\",\"last-sequence-number\":34,"
    "\"last-updated-ms\":1602638573590,\"last-column-id\":3,\"current-schema-id\":1,\"schemas\":[{\"type\":\"struct\","
    "\"schema-id\":0,\"fields\":["
    "{\"id\":1,\"name\":\"x\",\"required\":true,\"type\":\"long\"}]},{\"type\":\"struct\",\"schema-id\":1,\"identifier-"
    "field-ids\":[1],\"fields\":["
    "{\"id\":1,\"name\":\"x\",\"required\":true,\"type\":\"long\",\"initial-default\":9223372036854775807},"
    "{\"id\":2,\"name\":\"p\",\"required\":false,\"type\":\"decimal(9, 2)\",\"doc\":\"price "
    "\\\"net\\\"\",\"write-default\":\"14.20\"},"
    "{\"id\":3,\"name\":\"d\",\"required\":false,\"type\":\"double\",\"initial-default\":1.10E-2}]}],\"default-spec-"
    "id\":0,\"partition-specs\":[{\"spec-id\":0,\"fields\":[]}],"
    "\"last-partition-id\":999,\"default-sort-order-id\":0,\"sort-orders\":[],\"properties\":{\"a\":\"1 2 3 "
    "[4,5]\",\"b\":\"\\\\\\\"-7\"},\"current-snapshot-id\":3055729675574597004,"
    "\"next-row-id\":9223372036854775000,\"snapshots\":[{\"snapshot-id\":3055729675574597004,\"timestamp-ms\":"
    "1555100955770,\"sequence-number\":1,\"summary\":{\"operation\":\"append\"},"
    "\"manifest-list\":\"file:/w/t/"
    "s.avro\",\"schema-id\":1,\"first-row-id\":0,\"added-rows\":0,\"key-id\":null,\"unheard-of\":[-0,1e400,{\"deep\":["
    "9007199254740993]}]}],"
    "\"refs\":{\"main\":{\"snapshot-id\":3055729675574597004,\"type\":\"branch\",\"max-ref-age-ms\":"
    "9223372036854775807}},\"encryption-keys\":[],\"from-the-future\":true}";

static void foreign_numbers_and_members_survive_exactly(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t;
    wr_buf out = WR_BUF_INIT;
    OK(wr_meta_parse(wr_slice_str(foreign), "m.json", &t, &err));
    assert_true(wr_ice_ref(t, WR_ICE_MAIN) == 3055729675574597004);
    assert_true(wr_meta_num(t->doc, "next-row-id", -1) == 9223372036854775000);
    assert_int_equal(wr_ice_snapshot_time_us(t, 3055729675574597004), 1555100955770000);
    assert_string_equal(wr_ice_summary(t, 3055729675574597004, "operation"), "append");
    assert_null(wr_ice_summary(t, 3055729675574597005, "operation"));
    assert_string_equal(wr_ice_property(t, "b"), "\\\"-7");
    OK(wr_json_print(t->doc, &out, &err));
    assert_string_equal(wr_buf_cstr(&out), foreign);
    wr_buf_free(&out), wr_ice_table_free(t);
}

static void foreign_schemas_are_understood(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t;
    wr_schema *s;
    OK(wr_meta_parse(wr_slice_str(foreign), "m.json", &t, &err));
    OK(wr_ice_schema(t, &s, &err));
    assert_int_equal(s->ncols, 3), assert_int_equal(s->nkey, 1), assert_int_equal(s->key[0], 0);
    assert_false(s->cols[0].nullable);
    assert_int_equal(s->cols[1].type.kind, WR_DECIMAL), assert_int_equal(s->cols[1].type.precision, 9);
    assert_string_equal(s->cols[1].doc, "price \"net\"");
    wr_schema_unref(s), wr_ice_table_free(t);
}

/* The text with one piece replaced. */
static char *changed(const char *from, const char *to) {
    const char *at = strstr(foreign, from);
    assert_non_null(at);
    char *s = malloc(strlen(foreign) + strlen(to) + 1);
    sprintf(s, "%.*s%s%s", (int)(at - foreign), foreign, to, at + strlen(from));
    return s;
}

static void damaged_metadata_says_what_is_wrong(void **state) {
    static const struct {
        const char *from, *to, *says;
        wr_code code;
    } cases[] = {
        {"\"format-version\":3", "\"format-version\":4", "format-version 4", WR_E_UNSUPPORTED},
        {"\"format-version\":3,", "", "no format-version", WR_E_DECODE},
        {"\"last-sequence-number\":34", "\"last-sequence-number\":\"34\"", "last-sequence-number", WR_E_DECODE},
        {"\"last-updated-ms\":1602638573590", "\"last-updated-ms\":1.5", "last-updated-ms", WR_E_DECODE},
        {"\"last-updated-ms\":1602638573590", "\"last-updated-ms\":9223372036854775807", "last-updated-ms", WR_E_DECODE},
        {"\"timestamp-ms\":1555100955770", "\"timestamp-ms\":1795967795967552021", "timestamp-ms", WR_E_DECODE},
        {"\"current-schema-id\":1", "\"current-schema-id\":7", "current-schema-id", WR_E_DECODE},
        {"\"next-row-id\":9223372036854775000", "\"next-row-id\":92233720368547750000", "next-row-id", WR_E_DECODE},
        {"\"current-snapshot-id\":3055729675574597004", "\"current-snapshot-id\":3055729675574597005",
         "3055729675574597005", WR_E_DECODE},
        {"\"main\":{\"snapshot-id\":3055729675574597004", "\"main\":{\"snapshot-id\":3055729675574597003", "main",
         WR_E_DECODE},
        {"\"manifest-list\":\"file:/w/t/s.avro\",", "", "manifest-list", WR_E_DECODE},
        {"\"location\":\"file:/w/t\"", "\"location\":null", "no location", WR_E_DECODE},
        {"\"last-column-id\":3", "\"last-column-id\":03", "byte", WR_E_DECODE},
        {"\"properties\":{", "\"properties\":[{},{", "JSON", WR_E_DECODE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wr_err err = WR_ERR_INIT;
        wr_ice_table *t = NULL;
        char *text = changed(cases[i].from, cases[i].to);
        assert_int_equal(wr_meta_parse(wr_slice_str(text), "/w/t/m.json", &t, &err), cases[i].code);
        assert_null(t);
        if (!strstr(err.msg, cases[i].says) || !strstr(err.msg, "/w/t/m.json"))
            fail_msg("\"%s\" does not say %s", err.msg, cases[i].says);
        free(text);
    }
}

static void unsupported_columns_are_named(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t;
    wr_schema *s;
    char *text = changed("\"type\":\"decimal(9, 2)\"", "\"type\":{\"type\":\"map\",\"key-id\":4}");
    OK(wr_meta_parse(wr_slice_str(text), "m.json", &t, &err));
    assert_int_equal(wr_ice_schema(t, &s, &err), WR_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "column p"));
    wr_ice_table_free(t), free(text);
    text = changed("\"type\":\"decimal(9, 2)\"", "\"type\":\"uuid\"");
    OK(wr_meta_parse(wr_slice_str(text), "m.json", &t, &err));
    assert_int_equal(wr_ice_schema(t, &s, &err), WR_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "uuid"));
    wr_ice_table_free(t), free(text);
}

static void parse(wr_slice bytes) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t;
    wr_schema *s;
    if (wr_meta_parse(bytes, "m.json", &t, &err) != WR_OK) return;
    if (wr_ice_schema(t, &s, &err) == WR_OK) wr_schema_unref(s);
    wr_ice_table_free(t);
}
static void damage_never_crashes(void **state) { damage(wr_slice_str(foreign), parse); }

/* ------------------------------------------------------------------ our own */
static wr_schema *sample(uint32_t version, bool wide) {
    wr_err err = WR_ERR_INIT;
    wr_schema *s;
    wr_column cols[] = {
        {.name = "id", .id = 1, .type = {.kind = wide ? WR_LONG : WR_INT}, .key_ord = 1, .doc = "int(11)"},
        {.name = "名",
         .id = 2,
         .type = {.kind = WR_STRING},
         .nullable = true,
         .has_initial = true,
         .initial = {.s = wr_slice_str("x\0y")}},
        {.name = "v", .id = 9, .type = {.kind = WR_FLOATS}, .nullable = true},
        {.name = "d", .id = 4, .type = {.kind = WR_DECIMAL, .precision = 10, .scale = 2}, .nullable = true}};
    OK(wr_schema_new(cols, 4, version, &s, &err));
    return s;
}

static void our_schema_comes_back_exactly(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t, *again;
    wr_schema *s = sample(7, false), *got;
    wr_buf text = WR_BUF_INIT, a = WR_BUF_INIT, b = WR_BUF_INIT;
    OK(wr_ice_new(NULL, "ns", "t", "/w/ns/t/", 3, s, &t, &err));
    assert_string_equal(wr_ice_location(t), "/w/ns/t");
    assert_null(wr_ice_metadata_location(t));
    assert_int_equal(wr_ice_ref(t, WR_ICE_MAIN), -1);
    assert_string_equal(wr_ice_property(t, "gc.enabled"), "false");
    assert_true(wr_meta_num(t->doc, "last-column-id", 0) == WR_ELEMENT_ID_BASE + 9);
    OK(wr_json_print(t->doc, &text, &err));
    OK(wr_meta_parse(wr_buf_view(&text), "m.json", &again, &err));
    OK(wr_ice_schema(again, &got, &err));
    OK(wr_schema_to_json(s, &a, &err));
    OK(wr_schema_to_json(got, &b, &err));
    assert_true(wr_slice_eq(wr_buf_view(&a), wr_buf_view(&b)));
    wr_buf_free(&text), wr_buf_free(&a), wr_buf_free(&b);
    wr_schema_unref(s), wr_schema_unref(got), wr_ice_table_free(t), wr_ice_table_free(again);
}

static void schemas_are_added_once_and_only_widen(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t;
    wr_schema *narrow = sample(1, false), *wide = sample(2, true);
    int64_t id;
    OK(wr_ice_new(NULL, "ns", "t", "/w", 2, narrow, &t, &err));
    OK(wr_meta_add_schema(t->doc, narrow, WR_SCHEMA_EVOLVES, 0, &id, &err));
    assert_int_equal(id, 0);
    OK(wr_meta_add_schema(t->doc, wide, WR_SCHEMA_EVOLVES, 0, &id, &err));
    assert_int_equal(id, 1);
    OK(wr_meta_add_schema(t->doc, wide, WR_SCHEMA_EVOLVES, 1, &id, &err));
    assert_int_equal(id, 1);
    assert_int_equal(wr_meta_add_schema(t->doc, narrow, WR_SCHEMA_EVOLVES, 1, &id, &err), WR_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "column id cannot go from long to int"));
    OK(wr_meta_add_schema(t->doc, narrow, WR_SCHEMA_RESTARTS, 1, &id, &err)); /* a load begins anew */
    assert_int_equal(id, 0);
    wr_schema_unref(narrow), wr_schema_unref(wide), wr_ice_table_free(t);
}

static void a_foreign_schema_change_outweighs_our_memory(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t;
    wr_schema *s = sample(1, false), *got;
    OK(wr_ice_new(NULL, "ns", "t", "/w", 2, s, &t, &err));
    cJSON *js = cJSON_Duplicate(wr_meta_schema(t->doc, 0), 1);
    assert_true(wr_json_set_num(js, "schema-id", 5));
    cJSON_DeleteItemFromArray(wr_json_get(js, "fields"), 3);
    assert_true(wr_json_push(wr_json_get(t->doc, "schemas"), js) && wr_json_set_num(t->doc, "current-schema-id", 5));
    OK(wr_ice_schema(t, &got, &err));
    assert_int_equal(got->ncols, 3);
    wr_schema_unref(got), wr_schema_unref(s), wr_ice_table_free(t);
}

static void locations_are_safe_for_any_name(void **state) {
    static const struct {
        const char *ns, *name, *want;
    } cases[] = {{"shop", "orders", "/w/shop/orders-"},
                 {"w odd.db", "a/b", "/w/w~20odd.db/a~2Fb-"},
                 {"..", ".", "/w/~2E./~2E-"},
                 {"库", "~%", "/w/~E5~BA~93/~7E~25-"}};
    wr_err err = WR_ERR_INIT;
    char *a, *b;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(wr_ice_new_location("/w/", cases[i].ns, cases[i].name, &a, &err));
        OK(wr_ice_new_location("/w", cases[i].ns, cases[i].name, &b, &err));
        assert_memory_equal(a, cases[i].want, strlen(cases[i].want));
        assert_int_equal(strlen(a), strlen(cases[i].want) + 8);
        assert_string_not_equal(a, b);
        wr_free(a), wr_free(b);
    }
    char name[1000];
    memset(name, 0xe5, sizeof name - 1), name[sizeof name - 1] = 0;
    OK(wr_ice_new_location("/w", name, name, &a, &err));
    assert_true(strlen(a) < 300); /* a folder name has at most 255 bytes */
    wr_free(a);
}

static void each_failed_allocation_is_reported(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_schema *s = sample(1, false);
    for (uint64_t n = 1;; n++) {
        wr_ice_table *t = NULL, *u = NULL;
        wr_schema *got = NULL;
        wr_mem_fail_after(n);
        wr_code rc = wr_ice_new(NULL, "ns", "t", "/w", 3, s, &t, &err);
        if (rc == WR_OK) rc = wr_ice_schema(t, &got, &err);
        wr_schema_unref(got);
        if (rc == WR_OK) rc = wr_meta_parse(wr_slice_str(foreign), "m.json", &u, &err);
        if (rc == WR_OK) rc = wr_ice_schema(u, &got, &err);
        wr_mem_fail_after(0);
        if (rc == WR_OK) wr_schema_unref(got);
        wr_ice_table_free(t), wr_ice_table_free(u);
        if (rc == WR_OK) break;
        assert_true(n < 10000);
    }
    wr_schema_unref(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_numbers_and_members_survive_exactly),
        cmocka_unit_test(foreign_schemas_are_understood),
        cmocka_unit_test(damaged_metadata_says_what_is_wrong),
        cmocka_unit_test(unsupported_columns_are_named),
        cmocka_unit_test(damage_never_crashes),
        cmocka_unit_test(our_schema_comes_back_exactly),
        cmocka_unit_test(schemas_are_added_once_and_only_widen),
        cmocka_unit_test(a_foreign_schema_change_outweighs_our_memory),
        cmocka_unit_test(locations_are_safe_for_any_name),
        cmocka_unit_test(each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
