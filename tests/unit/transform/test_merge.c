/* Merge rules and merged tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "weir/transform.h"

static wr_schema *schema(wr_column *c, int n) {
    wr_schema *s;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_schema_new(c, n, 1, &s, &err), WR_OK);
    return s;
}

#define COL(n, i, k, key) {.name = (char *)(n), .id = (i), .type = {.kind = (k)}, .nullable = !(key), .key_ord = (key)}

static void a_rule_catches_shards_and_nothing_like_them(void **state) {
    wr_merge_rule r[] = {{"shop_\\d+\\.orders_\\d+", "shop.orders"}, {"a[\\d_]\\.t", "b.t.u"}};
    wr_routes *routes;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_routes_new(r, 2, &routes, &err), WR_OK);
    wr_route x = wr_routes_find(routes, "shop_01", "orders_7");
    assert_true(x.merged);
    assert_string_equal(x.ns, "shop");
    assert_string_equal(x.name, "orders");
    assert_false(wr_routes_find(routes, "shop_01", "orders_7_old").merged);
    assert_false(wr_routes_find(routes, "xshop_01", "orders_7").merged);
    assert_string_equal(wr_routes_find(routes, "a_", "t").name, "t.u");
    assert_string_equal(wr_routes_find(routes, "shop", "x").ns, "shop");
    wr_routes_free(routes);
    wr_merge_rule bad[] = {{"(", "a.b"}};
    assert_int_equal(wr_routes_new(bad, 1, &routes, &err), WR_E_CONFIG);
    wr_merge_rule nodot[] = {{"x", "ab"}};
    assert_int_equal(wr_routes_new(nodot, 1, &routes, &err), WR_E_CONFIG);
}

static void shapes_are_widened_to_a_union_and_ids_stay(void **state) {
    wr_column a[] = {COL("id", 1, WR_INT, 1), COL("v", 2, WR_STRING, 0)};
    wr_column b[] = {COL("w", 5, WR_DOUBLE, 0), COL("id", 7, WR_LONG, 1), COL("v", 9, WR_INT, 0)};
    wr_schema *m[2] = {schema(a, 2), schema(b, 3)}, *u, *again;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_merge_schema((const wr_schema *const *)m, 1, NULL, &u, &err), WR_OK);
    assert_int_equal(u->ncols, 4);
    assert_int_equal(u->nkey, 3);
    assert_int_equal(wr_merge_schema((const wr_schema *const *)m, 2, u, &again, &err), WR_OK);
    assert_int_equal(again->ncols, 5);
    assert_int_equal(again->cols[2].type.kind, WR_LONG);
    assert_int_equal(again->cols[2].id, u->cols[2].id);            /* int to long promotes */
    assert_int_equal(again->cols[3].type.kind, WR_STRING);         /* text and int meet in text */
    assert_int_equal(again->cols[3].id, u->cols[3].id);
    assert_true(again->cols[4].nullable);
    wr_schema_unref(u), wr_schema_unref(again), wr_schema_unref(m[0]), wr_schema_unref(m[1]);
}

static void a_shards_row_becomes_a_row_of_the_union(void **state) {
    wr_column a[] = {COL("id", 1, WR_INT, 1), COL("v", 2, WR_INT, 0)};
    wr_column b[] = {COL("id", 1, WR_LONG, 1), COL("w", 3, WR_STRING, 0), COL("v", 2, WR_STRING, 0)};
    wr_schema *m[2] = {schema(a, 2), schema(b, 3)}, *u;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_merge_schema((const wr_schema *const *)m, 2, NULL, &u, &err), WR_OK);
    wr_convert *c;
    assert_int_equal(wr_convert_new(m[0], u, "db1", "t1", &c, &err), WR_OK);
    WR_AUTO_BUF wr_buf row = WR_BUF_INIT, out = WR_BUF_INIT;
    size_t at = wr_row_begin(&row, 2);
    wr_value id = {.i32 = -5}, v = {.i32 = 42}, got[5];
    wr_row_put(&row, at, 0, a[0].type, &id);
    wr_row_put(&row, at, 1, a[1].type, &v);
    assert_int_equal(wr_convert_row(c, wr_buf_view(&row), &out, &err), WR_OK);
    assert_int_equal(wr_row_read(u, wr_buf_view(&out), got, &err), WR_OK);
    assert_true(wr_slice_eq(got[0].s, wr_slice_str("db1")));
    assert_true(wr_slice_eq(got[1].s, wr_slice_str("t1")));
    assert_int_equal(got[2].i64, -5);
    int iv = wr_schema_find(u, "v"), iw = wr_schema_find(u, "w");
    assert_true(wr_slice_eq(got[iv].s, wr_slice_str("42")));
    assert_true(got[iw].null);
    wr_buf_clear(&row), wr_buf_clear(&out); /* a null stays one, whatever the type */
    at = wr_row_begin(&row, 2);
    v.null = true;
    wr_row_put(&row, at, 0, a[0].type, &id);
    wr_row_put(&row, at, 1, a[1].type, &v);
    assert_int_equal(wr_convert_row(c, wr_buf_view(&row), &out, &err), WR_OK);
    assert_int_equal(wr_row_read(u, wr_buf_view(&out), got, &err), WR_OK);
    assert_true(got[iv].null);
    for (size_t n = 0; n < row.n; n++) {
        wr_buf_clear(&out);
        assert_int_not_equal(wr_convert_row(c, wr_slice_of(row.p, n), &out, &err), WR_OK);
    }
    wr_convert_free(c);
    wr_schema_unref(u), wr_schema_unref(m[0]), wr_schema_unref(m[1]);
}

static void a_column_named_like_a_shard_column_is_refused(void **state) {
    wr_column a[] = {COL("id", 1, WR_INT, 1), COL("tb_name", 2, WR_STRING, 0)};
    wr_schema *m[1] = {schema(a, 2)}, *u;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_merge_schema((const wr_schema *const *)m, 1, NULL, &u, &err), WR_E_UNSUPPORTED);
    wr_schema_unref(m[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_catches_shards_and_nothing_like_them), cmocka_unit_test(shapes_are_widened_to_a_union_and_ids_stay),
        cmocka_unit_test(a_shards_row_becomes_a_row_of_the_union), cmocka_unit_test(a_column_named_like_a_shard_column_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
