#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "iceberg/rest_diff.h"
#include "lake/ice_helper.h"

#define BASE \
    "{\"format-version\":3,\"table-uuid\":\"u-1\",\"location\":\"s3://b/t\",\"last-column-id\":2,\"current-schema-id\":0," \
    "\"schemas\":[{\"type\":\"struct\",\"schema-id\":0,\"fields\":[]}],\"default-spec-id\":0,\"partition-specs\":[{\"spec-id\":0,\"fields\":[]}]," \
    "\"last-partition-id\":999,\"default-sort-order-id\":0,\"sort-orders\":[{\"order-id\":0,\"fields\":[]}],\"properties\":{\"a\":\"1\",\"b\":\"2\"}," \
    "\"current-snapshot-id\":9007199254740993,\"snapshots\":[{\"snapshot-id\":5,\"timestamp-ms\":1},{\"snapshot-id\":9007199254740993,\"timestamp-ms\":2}]," \
    "\"refs\":{\"main\":{\"snapshot-id\":9007199254740993,\"type\":\"branch\"},\"kept\":{\"snapshot-id\":5,\"type\":\"tag\",\"max-ref-age-ms\":7}}," \
    "\"statistics\":[{\"snapshot-id\":5,\"x\":1}]}"
#define UUID "{\"type\":\"assert-table-uuid\",\"uuid\":\"u-1\"}"
#define MAIN "{\"type\":\"assert-ref-snapshot-id\",\"ref\":\"main\",\"snapshot-id\":9007199254740993}"
#define SCHEMA ",{\"type\":\"assert-current-schema-id\",\"current-schema-id\":0}"
#define NO_LOAD "{\"type\":\"assert-ref-snapshot-id\",\"ref\":\"weir-load\",\"snapshot-id\":null}" SCHEMA

static cJSON *parse(const char *text) {
    wr_err err = WR_ERR_INIT;
    cJSON *doc = NULL;
    OK(wr_json_parse(wr_slice_str(text), "doc", &doc, &err));
    return doc;
}

/* `after` is BASE with a member replaced by each pair of key and JSON text; a NULL text takes it away. */
static cJSON *changed(const char *const *pairs, int n) {
    cJSON *doc = parse(BASE);
    for (int i = 0; i < n; i += 2) {
        if (pairs[i + 1])
            assert_true(wr_json_set(doc, pairs[i], parse(pairs[i + 1])));
        else
            cJSON_DeleteItemFromObjectCaseSensitive(doc, pairs[i]);
    }
    return doc;
}

static void expect(const cJSON *before, cJSON *after, const char *updates, const char *requirements) {
    wr_err err = WR_ERR_INIT;
    wr_rest_change c;
    wr_buf out = WR_BUF_INIT;
    OK(wr_rest_diff(before, after, &c, &err));
    OK(wr_json_print(c.updates, &out, &err));
    assert_string_equal(wr_buf_cstr(&out), updates);
    wr_buf_clear(&out);
    OK(wr_json_print(c.requirements, &out, &err));
    assert_string_equal(wr_buf_cstr(&out), requirements);
    wr_buf_free(&out), wr_rest_change_clear(&c), cJSON_Delete(after);
}
#define EXPECT(updates, requirements, ...) \
    do { \
        const char *const pairs_[] = {__VA_ARGS__}; \
        cJSON *before_ = parse(BASE); \
        expect(before_, changed(pairs_, sizeof pairs_ / sizeof *pairs_), updates, requirements); \
        cJSON_Delete(before_); \
    } while (0)

static void a_new_table_says_everything_in_the_order_of_iceberg_s_own_client(void **state) {
    expect(NULL, parse(BASE),
           "[{\"action\":\"assign-uuid\",\"uuid\":\"u-1\"},{\"action\":\"upgrade-format-version\",\"format-version\":3},"
           "{\"action\":\"add-schema\",\"schema\":{\"type\":\"struct\",\"schema-id\":0,\"fields\":[]},\"last-column-id\":2},"
           "{\"action\":\"set-current-schema\",\"schema-id\":-1},{\"action\":\"add-spec\",\"spec\":{\"spec-id\":0,\"fields\":[]}},"
           "{\"action\":\"set-default-spec\",\"spec-id\":-1},{\"action\":\"add-sort-order\",\"sort-order\":{\"order-id\":0,\"fields\":[]}},"
           "{\"action\":\"set-default-sort-order\",\"sort-order-id\":-1},{\"action\":\"set-location\",\"location\":\"s3://b/t\"},"
           "{\"action\":\"add-snapshot\",\"snapshot\":{\"snapshot-id\":5,\"timestamp-ms\":1}},"
           "{\"action\":\"add-snapshot\",\"snapshot\":{\"snapshot-id\":9007199254740993,\"timestamp-ms\":2}},"
           "{\"action\":\"set-snapshot-ref\",\"ref-name\":\"main\",\"snapshot-id\":9007199254740993,\"type\":\"branch\"},"
           "{\"action\":\"set-snapshot-ref\",\"ref-name\":\"kept\",\"snapshot-id\":5,\"type\":\"tag\",\"max-ref-age-ms\":7},"
           "{\"action\":\"set-properties\",\"updates\":{\"a\":\"1\",\"b\":\"2\"}}]",
           "[{\"type\":\"assert-create\"}]");
}

static void nothing_changed_is_no_update(void **state) { EXPECT("[]", "[" UUID "," MAIN "," NO_LOAD "]", "last-updated-ms", "77"); }

static void a_new_snapshot_moves_its_branch_and_expects_both_heads(void **state) {
    EXPECT("[{\"action\":\"add-snapshot\",\"snapshot\":{\"snapshot-id\":9223372036854775807}},"
           "{\"action\":\"set-snapshot-ref\",\"ref-name\":\"weir-load\",\"snapshot-id\":9223372036854775807,\"type\":\"branch\"}]",
           "[" UUID "," MAIN "," NO_LOAD "]", "snapshots", "[{\"snapshot-id\":5},{\"snapshot-id\":9007199254740993},{\"snapshot-id\":9223372036854775807}]", "refs",
           "{\"main\":{\"snapshot-id\":9007199254740993,\"type\":\"branch\"},\"kept\":{\"snapshot-id\":5,\"type\":\"tag\",\"max-ref-age-ms\":7},"
           "\"weir-load\":{\"snapshot-id\":9223372036854775807,\"type\":\"branch\"}}");
}

static void a_branch_that_is_published_goes(void **state) {
    cJSON *before = parse(BASE), *after = parse(BASE);
    assert_true(wr_json_set(wr_json_get(before, "refs"), "weir-load", parse("{\"snapshot-id\":5,\"type\":\"branch\"}")));
    assert_true(wr_json_set(wr_json_get(after, "refs"), "main", parse("{\"snapshot-id\":5,\"type\":\"branch\"}")));
    expect(before, after,
           "[{\"action\":\"set-snapshot-ref\",\"ref-name\":\"main\",\"snapshot-id\":5,\"type\":\"branch\"},"
           "{\"action\":\"remove-snapshot-ref\",\"ref-name\":\"weir-load\"}]",
           "[" UUID "," MAIN ",{\"type\":\"assert-ref-snapshot-id\",\"ref\":\"weir-load\",\"snapshot-id\":5}" SCHEMA "]");
    cJSON_Delete(before);
}

#define SCHEMAS "[{\"schema-id\":0,\"fields\":[]},{\"schema-id\":1,\"fields\":[1]}]"
#define NUMBERED_SCHEMA ",{\"type\":\"assert-last-assigned-field-id\",\"last-assigned-field-id\":2}]"
static void a_new_schema_is_numbered_by_the_catalog(void **state) {
    EXPECT("[{\"action\":\"add-schema\",\"schema\":{\"schema-id\":1,\"fields\":[1]},\"last-column-id\":4},{\"action\":\"set-current-schema\",\"schema-id\":-1}]",
           "[" UUID "," MAIN "," NO_LOAD NUMBERED_SCHEMA, "schemas", SCHEMAS, "current-schema-id", "1", "last-column-id", "4");
    EXPECT("[{\"action\":\"add-schema\",\"schema\":{\"schema-id\":1,\"fields\":[1]},\"last-column-id\":4}]", "[" UUID "," MAIN "," NO_LOAD NUMBERED_SCHEMA, "schemas",
           SCHEMAS, "last-column-id", "4");
}

static void an_old_schema_is_chosen_by_its_number(void **state) {
    cJSON *before = parse(BASE), *after = parse(BASE);
    assert_true(wr_json_set(before, "schemas", parse(SCHEMAS)) && wr_json_set(after, "schemas", parse(SCHEMAS)) && wr_json_set_num(after, "current-schema-id", 1));
    expect(before, after, "[{\"action\":\"set-current-schema\",\"schema-id\":1}]", "[" UUID "," MAIN "," NO_LOAD NUMBERED_SCHEMA);
    cJSON_Delete(before);
}

static void specs_and_sort_orders_say_what_they_were_numbered_after(void **state) {
    EXPECT("[{\"action\":\"add-spec\",\"spec\":{\"spec-id\":1,\"fields\":[]}},{\"action\":\"set-default-spec\",\"spec-id\":-1},"
           "{\"action\":\"add-sort-order\",\"sort-order\":{\"order-id\":1,\"fields\":[]}}]",
           "[" UUID "," MAIN "," NO_LOAD ",{\"type\":\"assert-last-assigned-partition-id\",\"last-assigned-partition-id\":999},"
           "{\"type\":\"assert-default-spec-id\",\"default-spec-id\":0},{\"type\":\"assert-default-sort-order-id\",\"default-sort-order-id\":0}]",
           "partition-specs", "[{\"spec-id\":0,\"fields\":[]},{\"spec-id\":1,\"fields\":[]}]", "default-spec-id", "1", "sort-orders",
           "[{\"order-id\":0,\"fields\":[]},{\"order-id\":1,\"fields\":[]}]");
}

static void a_spec_that_clashes_with_the_new_schema_leaves_before_it(void **state) {
    const char *const was[] = {"partition-specs", "[{\"spec-id\":0,\"fields\":[]},{\"spec-id\":1,\"fields\":[]}]", "default-spec-id", "1"};
    const char *const is[] = {"partition-specs", "[{\"spec-id\":0,\"fields\":[]},{\"spec-id\":2,\"fields\":[]}]", "default-spec-id", "2"};
    cJSON *before = changed(was, 4);
    expect(before, changed(is, 4),
           "[{\"action\":\"set-default-spec\",\"spec-id\":0},{\"action\":\"remove-partition-specs\",\"spec-ids\":[1]},{\"action\":\"add-spec\",\"spec\":{\"spec-id\":2,\"fields\":[]}},"
           "{\"action\":\"set-default-spec\",\"spec-id\":-1}]",
           "[" UUID "," MAIN "," NO_LOAD ",{\"type\":\"assert-last-assigned-partition-id\",\"last-assigned-partition-id\":999},{\"type\":\"assert-default-spec-id\",\"default-spec-id\":1}]");
    cJSON_Delete(before);
}

static void snapshots_that_go_expect_every_branch_and_tag(void **state) {
    EXPECT("[{\"action\":\"remove-snapshot-ref\",\"ref-name\":\"kept\"},{\"action\":\"remove-statistics\",\"snapshot-id\":5},"
           "{\"action\":\"remove-snapshots\",\"snapshot-ids\":[5]}]",
           "[" UUID "," MAIN "," NO_LOAD ",{\"type\":\"assert-ref-snapshot-id\",\"ref\":\"kept\",\"snapshot-id\":5}]", "snapshots",
           "[{\"snapshot-id\":9007199254740993}]", "refs", "{\"main\":{\"snapshot-id\":9007199254740993,\"type\":\"branch\"}}", "statistics", "[]");
}

static void properties_are_set_and_removed(void **state) {
    EXPECT("[{\"action\":\"set-properties\",\"updates\":{\"a\":\"3\",\"c\":\"\"}},{\"action\":\"remove-properties\",\"removals\":[\"b\"]}]",
           "[" UUID "," MAIN "," NO_LOAD "]", "properties", "{\"a\":\"3\",\"c\":\"\"}");
    EXPECT("[{\"action\":\"remove-properties\",\"removals\":[\"a\",\"b\"]}]", "[" UUID "," MAIN "," NO_LOAD "]", "properties", NULL);
}

static void a_table_is_moved_and_lifted_to_a_newer_format(void **state) {
    EXPECT("[{\"action\":\"upgrade-format-version\",\"format-version\":4},{\"action\":\"set-location\",\"location\":\"s3://b/u\"}]",
           "[" UUID "," MAIN "," NO_LOAD "]", "location", "\"s3://b/u\"", "format-version", "4");
}

static void a_table_without_branches_expects_none(void **state) {
    cJSON *before = parse(BASE);
    cJSON_DeleteItemFromObjectCaseSensitive(before, "refs");
    assert_true(wr_json_set_num(before, "current-snapshot-id", -1));
    expect(before, cJSON_Duplicate(before, 1), "[]", "[" UUID ",{\"type\":\"assert-ref-snapshot-id\",\"ref\":\"main\",\"snapshot-id\":null}," NO_LOAD "]");
    cJSON_Delete(before);
}

static void another_table_or_an_older_format_is_refused(void **state) {
    static const char *const cases[][2] = {{"table-uuid", "\"u-2\""}, {"table-uuid", NULL}, {"location", NULL}, {"format-version", "2"}};
    cJSON *before = parse(BASE);
    for (size_t i = 0; i < 4; i++) {
        wr_err err = WR_ERR_INIT;
        wr_rest_change c;
        cJSON *after = changed(cases[i], 2);
        assert_int_equal(wr_rest_diff(before, after, &c, &err), WR_E_INVAL);
        cJSON_Delete(after);
    }
    cJSON_Delete(before);
}

static void memory_may_run_out_anywhere(void **state) {
    static const char *const pairs[] = {"snapshots", "[{\"snapshot-id\":6}]", "refs", "{\"main\":{\"snapshot-id\":6}}", "properties", "{\"z\":\"1\"}",
                                        "schemas", SCHEMAS, "current-schema-id", "1"};
    cJSON *before = parse(BASE), *after = changed(pairs, 10);
    int failed = 0;
    for (uint64_t n = 1;; n++) {
        wr_err err = WR_ERR_INIT;
        wr_rest_change c;
        wr_mem_fail_after(n);
        wr_code rc = wr_rest_diff(before, after, &c, &err);
        bool happened = wr_mem_fail_after(0) == 0;
        assert_int_equal(rc, happened ? WR_E_NOMEM : WR_OK);
        if (rc == WR_OK) wr_rest_change_clear(&c);
        if (!happened) break;
        failed++;
    }
    assert_true(failed > 40);
    cJSON_Delete(before), cJSON_Delete(after);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_table_says_everything_in_the_order_of_iceberg_s_own_client),
        cmocka_unit_test(nothing_changed_is_no_update),
        cmocka_unit_test(a_new_snapshot_moves_its_branch_and_expects_both_heads),
        cmocka_unit_test(a_branch_that_is_published_goes),
        cmocka_unit_test(a_new_schema_is_numbered_by_the_catalog),
        cmocka_unit_test(an_old_schema_is_chosen_by_its_number),
        cmocka_unit_test(a_spec_that_clashes_with_the_new_schema_leaves_before_it),
        cmocka_unit_test(specs_and_sort_orders_say_what_they_were_numbered_after),
        cmocka_unit_test(snapshots_that_go_expect_every_branch_and_tag),
        cmocka_unit_test(properties_are_set_and_removed),
        cmocka_unit_test(a_table_is_moved_and_lifted_to_a_newer_format),
        cmocka_unit_test(a_table_without_branches_expects_none),
        cmocka_unit_test(another_table_or_an_older_format_is_refused),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
