#include "world.h"
#include "key.h"

static wr_schema *schema_of(const wr_column *cols, int n) {
    wr_schema *s;
    assert_ok(wr_schema_new(cols, n, 1, &s, err));
    return s;
}
static wr_column col(const char *name, int id, uint8_t kind, bool nullable, int key) {
    wr_column c = {
        .name = (char *)(uintptr_t)name, .id = id, .type = {.kind = kind}, .nullable = nullable, .key_ord = key};
    if (kind == WR_DECIMAL) c.type.precision = 20, c.type.scale = 2;
    return c;
}
static wr_key_plan *plan_of(const wr_schema *s) {
    wr_key_plan *p;
    assert_ok(wr_key_plan_new(s, &p, err));
    return p;
}
static void row_of(const wr_schema *s, const wr_value *v, wr_buf *b) {
    wr_buf_clear(b);
    size_t at = wr_row_begin(b, s->ncols);
    for (int i = 0; i < s->ncols; i++) wr_row_put(b, at, i, s->cols[i].type, &v[i]);
}
static wr_key key_of(const wr_key_plan *p, const wr_schema *s, const wr_value *v) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_key k;
    row_of(s, v, &b);
    assert_ok(wr_key_of(p, wr_buf_view(&b), &k, err));
    return k;
}

static wr_key_form form_of(const wr_column *cols, int n) {
    wr_schema *s = schema_of(cols, n);
    wr_key_plan *p = plan_of(s);
    wr_key_form f = p->form;
    wr_key_plan_free(p), wr_schema_unref(s);
    return f;
}

static void the_form_is_exact_where_the_key_fits(void **st) {
    (void)st;
    wr_column c[3] = {col("a", 1, WR_LONG, false, 1), col("b", 2, WR_INT, true, 0), col("c", 3, WR_STRING, true, 0)};
    assert_int_equal(form_of(c, 3), WR_KEY_U64);
    c[0].type.kind = WR_DATE;
    assert_int_equal(form_of(c, 3), WR_KEY_U64);
    c[0].nullable = true; /* null is no zero */
    assert_int_equal(form_of(c, 3), WR_KEY_HASH);
    c[0] = col("a", 1, WR_DECIMAL, false, 1);
    assert_int_equal(form_of(c, 3), WR_KEY_FIXED);
    c[1].key_ord = 2, c[1].nullable = false;
    assert_int_equal(form_of(c, 3), WR_KEY_HASH); /* 16 + 4 bytes */
    c[0] = col("a", 1, WR_TIMESTAMP, false, 1);
    assert_int_equal(form_of(c, 3), WR_KEY_FIXED);
    c[2].key_ord = 3;
    assert_int_equal(form_of(c, 3), WR_KEY_HASH);
    for (int i = 0; i < 3; i++) c[i].key_ord = 0;
    assert_int_equal(form_of(c, 3), WR_KEY_ROW);
}

static void the_key_is_the_same_however_the_columns_around_it_are(void **st) {
    (void)st;
    for (int front = 0; front < 3; front++) { /* nothing, fixed-width or text before the key */
        wr_column c[3] = {col("x", 9, front == 1 ? WR_INT : WR_STRING, true, 0), col("k", 1, WR_LONG, false, 1),
                          col("z", 3, WR_STRING, true, 0)};
        wr_schema *s = schema_of(front ? c : c + 1, front ? 3 : 2);
        wr_key_plan *p = plan_of(s);
        const int64_t keys[] = {0, 1, -1, INT64_MIN, INT64_MAX, 4711};
        for (size_t i = 0; i < 6; i++)
            for (int null = 0; null < 2; null++) {
                wr_value v[3] = {{.null = null}, {.i64 = keys[i]}, {.s = wr_slice_str("tail")}};
                if (!null && front == 1) v[0].i32 = 7;
                if (!null && front == 2) v[0].s = wr_slice_str("some text of any length");
                wr_key k = key_of(p, s, front ? v : v + 1);
                assert_true(k.hi == 0 && k.lo == (uint64_t)keys[i]);
            }
        wr_key_plan_free(p), wr_schema_unref(s);
    }
}

static void many_columns_before_the_key_and_nulls_among_them_are_passed_over(void **st) {
    (void)st;
    wr_column c[80];
    char names[80][16];
    wr_value v[80] = {0};
    for (int n = 1; n <= 80; n += 13) {
        for (int i = 0; i < n; i++) {
            snprintf(names[i], sizeof names[i], "c%d", i);
            c[i] = col(names[i], i + 1, i % 3 ? WR_INT : WR_BOOL, i < n - 1, i == n - 1);
            v[i] = (wr_value){.i32 = 1};
        }
        c[n - 1].type.kind = WR_INT, v[n - 1].i32 = -5;
        wr_schema *s = schema_of(c, n);
        wr_key_plan *p = plan_of(s);
        for (int null = -1; null < n - 1; null++) {
            if (null >= 0) v[null].null = true;
            wr_key k = key_of(p, s, v);
            assert_true(k.hi == 0 && k.lo == UINT32_MAX - 4u);
            if (null >= 0) v[null].null = false;
        }
        wr_key_plan_free(p), wr_schema_unref(s);
    }
}

static void fixed_keys_are_their_bytes_in_key_order(void **st) {
    (void)st;
    wr_column c[3] = {col("a", 1, WR_INT, false, 2), col("b", 2, WR_STRING, true, 0), col("c", 3, WR_LONG, false, 1)};
    wr_schema *s = schema_of(c, 3);
    wr_key_plan *p = plan_of(s);
    wr_value v[3] = {{.i32 = 0x01020304}, {.null = true}, {.i64 = 0x1122334455667788}};
    wr_key k = key_of(p, s, v);
    assert_true(k.lo == 0x1122334455667788 && k.hi == 0x01020304);
    wr_key_plan_free(p), wr_schema_unref(s);
}

static void hashed_keys_do_not_run_into_each_other(void **st) {
    (void)st;
    wr_column c[2] = {col("a", 1, WR_STRING, true, 1), col("b", 2, WR_STRING, true, 2)};
    wr_schema *s = schema_of(c, 2);
    wr_key_plan *p = plan_of(s);
    wr_value v[6][2] = {
        {{.s = wr_slice_str("ab")}, {.s = wr_slice_str("c")}}, {{.s = wr_slice_str("a")}, {.s = wr_slice_str("bc")}},
        {{.s = wr_slice_str("abc")}, {.s = wr_slice_str("")}}, {{.s = wr_slice_str("abc")}, {.null = true}},
        {{.null = true}, {.s = wr_slice_str("abc")}},          {{.s = wr_slice_str("")}, {.s = wr_slice_str("abc")}}};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) assert_int_equal(wr_key_eq(key_of(p, s, v[i]), key_of(p, s, v[j])), i == j);
    static char big[5000];
    memset(big, 'x', sizeof big - 1);
    wr_value w[2] = {{.s = wr_slice_str(big)}, {.s = wr_slice_str("c")}},
             x[2] = {{.s = wr_slice_of(big, 4998)}, {.s = wr_slice_str("c")}};
    assert_true(wr_key_eq(key_of(p, s, w), key_of(p, s, w)));
    assert_false(wr_key_eq(key_of(p, s, w), key_of(p, s, x)));
    wr_key_plan_free(p), wr_schema_unref(s);
}

/* What the index rebuilds from a file's key columns must be what it had from whole rows. */
static void key_columns_alone_in_key_order_have_the_same_key(void **st) {
    (void)st;
    static const uint8_t kinds[] = {WR_BOOL, WR_INT, WR_LONG, WR_DECIMAL, WR_DATE, WR_STRING, WR_BINARY, WR_DOUBLE};
    world w = {.rng = 5};
    for (int round = 0; round < 2000; round++) {
        wr_column c[6];
        wr_value v[6] = {0};
        char names[6][16], text[6][20];
        int n = 2 + w_below(&w, 5), nkey = 1 + w_below(&w, n > 3 ? 3 : n), order[6];
        for (int i = 0; i < n; i++) order[i] = i;
        for (int i = n - 1; i > 0; i--) {
            int j = w_below(&w, i + 1), o = order[i];
            order[i] = order[j], order[j] = o;
        }
        for (int i = 0; i < n; i++) {
            snprintf(names[i], 16, "c%d", i);
            c[i] = col(names[i], i + 1, kinds[w_below(&w, 8)], w_below(&w, 3) == 0, 0);
            if (c[i].type.kind == WR_STRING || c[i].type.kind == WR_BINARY)
                v[i].s = wr_slice_of(text[i], (size_t)snprintf(text[i], 20, "%d", w_below(&w, 100)));
            else if (c[i].type.kind == WR_BOOL)
                v[i].b = w_below(&w, 2);
            else
                v[i].dec = w_below(&w, 1000) - 500;
            v[i].null = c[i].nullable && w_below(&w, 2);
        }
        for (int k = 0; k < nkey; k++) c[order[k]].key_ord = k + 1;
        wr_schema *s = schema_of(c, n);
        wr_column kc[6];
        wr_value kv[6];
        for (int k = 0; k < nkey; k++) kc[k] = c[order[k]], kv[k] = v[order[k]];
        wr_schema *ks = schema_of(kc, nkey);
        wr_key_plan *p = plan_of(s), *kp = plan_of(ks);
        assert_int_equal(p->form, kp->form);
        assert_true(p->fingerprint == kp->fingerprint);
        assert_true(wr_key_eq(key_of(p, s, v), key_of(kp, ks, kv)));
        wr_key_plan_free(p), wr_key_plan_free(kp), wr_schema_unref(s), wr_schema_unref(ks);
    }
}

static void a_plan_of_other_columns_types_or_order_has_another_fingerprint(void **st) {
    (void)st;
    wr_column base[3] = {col("a", 1, WR_INT, false, 1), col("b", 2, WR_INT, false, 2), col("c", 3, WR_STRING, true, 0)};
    uint64_t seen[6];
    for (int i = 0; i < 6; i++) {
        wr_column c[3] = {base[0], base[1], base[2]};
        if (i == 1) c[0].key_ord = 2, c[1].key_ord = 1;
        if (i == 2) c[0].type.kind = WR_LONG;
        if (i == 3) c[1].key_ord = 0;
        if (i == 4) c[0].key_ord = c[1].key_ord = 0;
        if (i == 5) c[0].nullable = true;
        wr_schema *s = schema_of(c, 3);
        wr_key_plan *p = plan_of(s);
        seen[i] = p->fingerprint;
        for (int j = 0; j < i; j++) assert_true(seen[j] != seen[i]);
        wr_key_plan_free(p), wr_schema_unref(s);
    }
    wr_column c[3] = {base[0], base[1], base[2]}; /* what the key does not depend on */
    c[0].name = (char *)(uintptr_t) "renamed", c[2].type.kind = WR_LONG;
    wr_schema *s = schema_of(c, 3);
    wr_key_plan *p = plan_of(s);
    assert_true(p->fingerprint == seen[0]);
    wr_key_plan_free(p), wr_schema_unref(s);
}

static void short_rows_and_nulls_in_the_key_are_corrupt_at_every_length(void **st) {
    (void)st;
    for (int front = 0; front < 2; front++) {
        wr_column c[3] = {col("x", 9, front ? WR_STRING : WR_INT, true, 0), col("k", 1, WR_LONG, false, 1),
                          col("z", 3, WR_STRING, true, 0)};
        wr_schema *s = schema_of(c, 3);
        wr_key_plan *p = plan_of(s);
        wr_value v[3] = {{.i32 = 7}, {.i64 = 5}, {.s = wr_slice_str("tail")}};
        if (front) v[0].s = wr_slice_str("front");
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        row_of(s, v, &b);
        size_t need = 1 + (front ? 9 : 4) + 8;
        for (size_t n = 0; n <= b.n; n++) {
            uint8_t *exact = malloc(n);
            memcpy(exact, b.p, n);
            wr_key k;
            wr_err e = WR_ERR_INIT;
            assert_int_equal(wr_key_of(p, wr_slice_of(exact, n), &k, &e), n < need ? WR_E_CORRUPT : WR_OK);
            free(exact);
        }
        v[1].null = true;
        row_of(s, v, &b);
        wr_key k;
        wr_err e = WR_ERR_INIT;
        assert_int_equal(wr_key_of(p, wr_buf_view(&b), &k, &e), WR_E_CORRUPT);
        wr_key_plan_free(p), wr_schema_unref(s);
    }
}

static void a_failed_allocation_is_said(void **st) {
    (void)st;
    wr_column c[2] = {col("a", 1, WR_STRING, true, 1), col("b", 2, WR_STRING, true, 2)};
    wr_schema *s = schema_of(c, 2);
    for (uint64_t n = 1;; n++) {
        wr_key_plan *p = NULL;
        wr_err e = WR_ERR_INIT;
        wr_mem_fail_after(n);
        wr_code rc = wr_key_plan_new(s, &p, &e);
        if (wr_mem_fail_after(0)) {
            assert_int_equal(rc, WR_OK);
            wr_key_plan_free(p);
            break;
        }
        assert_int_equal(rc, WR_E_NOMEM);
    }
    wr_schema_unref(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_form_is_exact_where_the_key_fits),
        cmocka_unit_test(the_key_is_the_same_however_the_columns_around_it_are),
        cmocka_unit_test(many_columns_before_the_key_and_nulls_among_them_are_passed_over),
        cmocka_unit_test(fixed_keys_are_their_bytes_in_key_order),
        cmocka_unit_test(hashed_keys_do_not_run_into_each_other),
        cmocka_unit_test(key_columns_alone_in_key_order_have_the_same_key),
        cmocka_unit_test(a_plan_of_other_columns_types_or_order_has_another_fingerprint),
        cmocka_unit_test(short_rows_and_nulls_in_the_key_are_corrupt_at_every_length),
        cmocka_unit_test(a_failed_allocation_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
