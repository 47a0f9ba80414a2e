/* lake.layout: what terms mean, which rule a table gets, and which columns a transform takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "weir/base/mem.h"
#include "weir/layout.h"

static void terms_are_read_as_people_write_them(void **state) {
    static const struct {
        const char *text, *said;
        int kind;
        uint32_t width;
        const char *column;
    } t[] = {
        {"country", "country", WR_TERM_IDENTITY, 0, "country"},
        {"  identity( country ) ", "country", WR_TERM_IDENTITY, 0, "country"},
        {"identity(a(b))", "a(b)", WR_TERM_IDENTITY, 0, "a(b)"},
        {"bucket(16,id)", "bucket(16, id)", WR_TERM_BUCKET, 16, "id"},
        {"Bucket ( 2147483647 , a, b )", "bucket(2147483647, a, b)", WR_TERM_BUCKET, INT32_MAX, "a, b"},
        {"truncate(4, name)", "truncate(4, name)", WR_TERM_TRUNCATE, 4, "name"},
        {"year(t)", "year(t)", WR_TERM_YEAR, 0, "t"},
        {"month(t)", "month(t)", WR_TERM_MONTH, 0, "t"},
        {"day(t)", "day(t)", WR_TERM_DAY, 0, "t"},
        {"hour(t)", "hour(t)", WR_TERM_HOUR, 0, "t"},
        {"\xc3\xa9tat", "\xc3\xa9tat", WR_TERM_IDENTITY, 0, "\xc3\xa9tat"},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        wr_term term;
        wr_err err = WR_ERR_INIT;
        char buf[256];
        assert_int_equal(wr_term_parse(t[i].text, &term, &err), WR_OK);
        assert_int_equal(term.kind, t[i].kind), assert_int_equal(term.width, t[i].width), assert_string_equal(term.column, t[i].column);
        assert_string_equal(wr_term_print(&term, buf), t[i].said);
        wr_free(term.column);
    }
}

static void the_first_rule_that_matches_the_whole_name_counts(void **state) {
    wr_term by_id = {.kind = WR_TERM_BUCKET, .width = 4, .column = (char *)"id"};
    const wr_layout_rule rules[] = {{(char *)"shop\\.orders_\\d+", &by_id, 1}, {(char *)"shop\\..*", NULL, 0}};
    wr_layouts *l;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_layouts_new(rules, 2, &l, &err), WR_OK);
    assert_ptr_equal(wr_layouts_find(l, "shop", "orders_12"), &rules[0]);
    assert_ptr_equal(wr_layouts_find(l, "shop", "orders_12x"), &rules[1]);
    assert_null(wr_layouts_find(l, "myshop", "orders_12"));
    assert_null(wr_layouts_find(NULL, "shop", "orders_12"));
    wr_layouts_free(l);
    const wr_layout_rule all[] = {{(char *)".*", &by_id, 1}};
    assert_int_equal(wr_layouts_new(all, 1, &l, &err), WR_OK);
    assert_ptr_equal(wr_layouts_find(l, "shop", "orders"), &all[0]);
    assert_null(wr_layouts_find(l, "_weir", "dead_letter")); /* Weir's own */
    wr_layouts_free(l);
}

/* One column of each type, and what the specification's table "Partition Transforms" lets each transform take. */
static const struct {
    wr_type type;
    const char *takes; /* letters of transforms: identity, bucket, truncate, year, month, day, hour */
} types[] = {
    {{.kind = WR_BOOL}, "i"},         {{.kind = WR_INT}, "ibt"},     {{.kind = WR_LONG}, "ibt"},
    {{.kind = WR_FLOAT}, "i"},        {{.kind = WR_DOUBLE}, ""},    {{.kind = WR_DECIMAL, .precision = 9, .scale = 2}, "ibt"},
    {{.kind = WR_DATE}, "ibymd"},     {{.kind = WR_TIMESTAMP}, "ibymdh"}, {{.kind = WR_TIMESTAMPTZ}, "ibymdh"},
    {{.kind = WR_STRING}, "ibt"},     {{.kind = WR_BINARY}, "ibt"},  {{.kind = WR_FLOATS}, ""},
};

static void each_transform_takes_the_types_of_the_specification(void **state) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int kind = WR_TERM_IDENTITY; kind <= WR_TERM_HOUR; kind++) {
            const wr_column col = {.name = (char *)"x", .id = 1, .type = types[i].type};
            wr_term term = {.kind = (uint8_t)kind, .width = 3, .column = (char *)"x"};
            const wr_layout_rule rule = {(char *)".*", &term, 1};
            wr_schema *s;
            wr_layouts *l;
            wr_err err = WR_ERR_INIT;
            assert_int_equal(wr_schema_new(&col, 1, 1, &s, &err), WR_OK);
            assert_int_equal(wr_layouts_new(&rule, 1, &l, &err), WR_OK);
            wr_code want = strchr(types[i].takes, "ibtymdh"[kind]) ? WR_OK : WR_E_CONFIG;
            assert_int_equal(wr_layouts_check(l, "a", "t", s, &err), want);
            if (want != WR_OK) assert_non_null(strstr(err.msg, "lake.layout[0].partition[0]")), assert_non_null(strstr(err.msg, "column x of lake table a.t is of type"));
            wr_layouts_free(l);
            wr_schema_unref(s);
        }
}

static void a_column_that_is_not_there_is_named_with_those_that_are(void **state) {
    const wr_column cols[] = {{.name = (char *)"id", .id = 1, .type = {.kind = WR_INT}}, {.name = (char *)"created", .id = 2, .type = {.kind = WR_DATE}}};
    wr_term term = {.kind = WR_TERM_DAY, .column = (char *)"Created"};
    const wr_layout_rule rule = {(char *)"a\\.t", &term, 1};
    wr_schema *s;
    wr_layouts *l;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_schema_new(cols, 2, 1, &s, &err), WR_OK);
    assert_int_equal(wr_layouts_new(&rule, 1, &l, &err), WR_OK);
    assert_int_equal(wr_layouts_check(l, "a", "t", s, &err), WR_E_CONFIG);
    assert_string_equal(err.msg, "lake.layout[0].partition[0]: day(Created): lake table a.t has no column Created");
    assert_string_equal(err.cure, "its columns, as the lake has them, are: id, created");
    assert_int_equal(wr_layouts_check(l, "a", "other", s, &err), WR_OK);
    wr_layouts_free(l);
    wr_schema_unref(s);
}

static void orders_are_read_as_people_write_them(void **state) {
    static const struct {
        const char *text, *column;
        bool descending, nulls_last;
    } t[] = {
        {"id", "id", false, false},
        {" created_at  DESC ", "created_at", true, true},
        {"created_at asc", "created_at", false, false},
        {"a nulls last", "a", false, true},
        {"a desc nulls first", "a", true, false},
        {"order date desc", "order date", true, true},
        {"desc", "desc", false, false},
        {"nulls first", "nulls first", false, false},
        {"x last", "x last", false, false},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        wr_sort_term term;
        wr_err err = WR_ERR_INIT;
        assert_int_equal(wr_sort_term_parse(t[i].text, &term, &err), WR_OK);
        assert_string_equal(term.column, t[i].column);
        assert_int_equal(term.descending, t[i].descending), assert_int_equal(term.nulls_last, t[i].nulls_last);
        wr_free(term.column);
    }
}

static void columns_of_sort_and_filters_must_be_there(void **state) {
    const wr_column cols[] = {{.name = (char *)"id", .id = 1, .type = {.kind = WR_INT}}, {.name = (char *)"v", .id = 2, .type = {.kind = WR_FLOATS}, .nullable = true}};
    wr_sort_term by_v = {.column = (char *)"v"}, by_x = {.column = (char *)"x"};
    char *filters[] = {(char *)"v", (char *)"y"};
    const wr_layout_rule rules[] = {{.match = (char *)"a\\.t", .sort = &by_v, .nsort = 1}, {.match = (char *)"a\\.u", .sort = &by_x, .nsort = 1}, {.match = (char *)"a\\.w", .bloom = filters, .nbloom = 2}};
    wr_schema *s;
    wr_layouts *l;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_schema_new(cols, 2, 1, &s, &err), WR_OK);
    assert_int_equal(wr_layouts_new(rules, 3, &l, &err), WR_OK);
    assert_int_equal(wr_layouts_check(l, "a", "t", s, &err), WR_E_CONFIG);
    assert_string_equal(err.msg, "lake.layout[0].sort[0]: column v of lake table a.t is a list, and lists have no order");
    assert_int_equal(wr_layouts_check(l, "a", "u", s, &err), WR_E_CONFIG);
    assert_string_equal(err.msg, "lake.layout[1].sort[0]: lake table a.u has no column x");
    assert_int_equal(wr_layouts_check(l, "a", "w", s, &err), WR_E_CONFIG);
    assert_string_equal(err.msg, "lake.layout[2].bloom_filters[1]: lake table a.w has no column y");
    assert_string_equal(err.cure, "its columns, as the lake has them, are: id, v");
    wr_layouts_free(l);
    wr_schema_unref(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms_are_read_as_people_write_them),
        cmocka_unit_test(orders_are_read_as_people_write_them),
        cmocka_unit_test(columns_of_sort_and_filters_must_be_there),
        cmocka_unit_test(the_first_rule_that_matches_the_whole_name_counts),
        cmocka_unit_test(each_transform_takes_the_types_of_the_specification),
        cmocka_unit_test(a_column_that_is_not_there_is_named_with_those_that_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
