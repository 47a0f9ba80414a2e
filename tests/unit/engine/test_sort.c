#include "rows.h"
#include "batch.h"

/* Iceberg's order, told in the plainest way there is. */
static int cmp_value(wr_type t, const wr_value *a, const wr_value *b) {
    uint64_t x = 0, y = 0;
    uint32_t p, q;
    int d;
    switch (t.kind) {
    case WR_BOOL: return a->b - b->b;
    case WR_INT:
    case WR_DATE: return a->i32 < b->i32 ? -1 : a->i32 > b->i32;
    case WR_LONG:
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ: return a->i64 < b->i64 ? -1 : a->i64 > b->i64;
    case WR_DECIMAL: return a->dec < b->dec ? -1 : a->dec > b->dec;
    case WR_FLOAT: /* IEEE totalOrder */
        memcpy(&p, &a->f32, 4), memcpy(&q, &b->f32, 4);
        if (p >> 31 != q >> 31) return p >> 31 ? -1 : 1;
        return p == q ? 0 : (p < q) != (p >> 31) ? -1 : 1;
    case WR_DOUBLE:
        memcpy(&x, &a->f64, 8), memcpy(&y, &b->f64, 8);
        if (x >> 63 != y >> 63) return x >> 63 ? -1 : 1;
        return x == y ? 0 : (x < y) != (x >> 63) ? -1 : 1;
    default:
        d = memcmp(a->s.p ? a->s.p : (const uint8_t *)"", b->s.p ? b->s.p : (const uint8_t *)"", a->s.n < b->s.n ? a->s.n : b->s.n);
        return d ? d : a->s.n < b->s.n ? -1 : a->s.n > b->s.n;
    }
}

static int cmp_rows(const wr_schema *s, const wr_sort_key *k, int n, const wr_value *a, const wr_value *b) {
    for (int i = 0; i < n; i++) {
        const wr_value *x = &a[k[i].col], *y = &b[k[i].col];
        int d = x->null || y->null ? (x->null == y->null ? 0 : x->null != k[i].nulls_last ? -1 : 1) : cmp_value(s->cols[k[i].col].type, x, y) * (k[i].descending ? -1 : 1);
        if (d) return d;
    }
    return 0;
}

/* Sorted, every live row once, and equal ones as they came. */
static void assert_order(const wr_batch *b, const wr_schema *s, const wr_sort_key *k, int n, const uint32_t *rows) {
    WR_AUTO_BUF wr_buf before = WR_BUF_INIT, now = WR_BUF_INIT;
    wr_value x[NKINDS], y[NKINDS];
    uint32_t live = wr_batch_live_rows(b), at = 0;
    WR_AUTO bool *seen = wr_calloc(wr_batch_rows(b) + 1, 1);
    uint32_t last = 0;
    for (uint32_t i = 0; i < live; i++) {
        uint32_t row = at;
        if (rows) row = rows[i];
        else
            while (wr_batch_dead(b, row)) row++;
        at = row + 1;
        assert_true(row < wr_batch_rows(b) && !wr_batch_dead(b, row) && !seen[row]);
        seen[row] = true;
        wr_buf_clear(&now);
        assert_ok(wr_batch_row(b, row, &now, err));
        assert_ok(wr_row_read(s, wr_buf_view(&now), y, err));
        if (i) {
            assert_ok(wr_row_read(s, wr_buf_view(&before), x, err));
            int d = cmp_rows(s, k, n, x, y);
            if (d > 0 || (d == 0 && last > row)) fail_msg("row %u does not come before row %u", last, row);
        }
        last = row;
        wr_buf_clear(&before);
        wr_buf_put(&before, now.p, now.n);
    }
}

static wr_batch *random_batch(wr_schema *s, uint64_t seed, int n, unsigned null_in) {
    wr_batch *b = NULL;
    assert_ok(wr_batch_new(s, &b, err));
    for (int i = 0; i < n; i++) {
        wr_value v[NKINDS];
        uint8_t room[256];
        random_values(v, &seed, null_in, room);
        if (i % 7 == 0) v[3].f32 = i % 2 ? 0.0f : -0.0f, v[4].f64 = i % 2 ? -0.0 : (double)NAN, v[13].s = vstr(i % 3 ? "a" : "a\x01").s, v[14].s = wr_slice_of("\0\0", (size_t)(i % 3));
        add(b, s, v);
        if (i % 5 == 0) wr_batch_kill(b, (uint32_t)i);
    }
    return b;
}

static void rows_of_every_kind_come_in_order(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    wr_batch *b = random_batch(s, 3, 5000, 6);
    for (int col = 0; col < NKINDS; col++) {
        if (!wr_sort_suits(all_kinds[col])) continue;
        for (int how = 0; how < 8; how++) {
            wr_sort_key k[2] = {{col, how & 1, how & 2}, {(col + 5) % (NKINDS - 1), how & 2, how & 1}};
            uint32_t *rows = NULL;
            int n = how & 4 ? 2 : 1;
            assert_ok(wr_batch_order(b, k, n, &rows, err));
            assert_order(b, s, k, n, rows);
            wr_free(rows);
        }
    }
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void rows_that_are_in_order_are_said_to_be(void **state) {
    wr_column cols[] = {{.name = (char *)"id", .id = 1, .type = T(WR_LONG), .key_ord = 1}, {.name = (char *)"t", .id = 2, .type = T(WR_STRING), .nullable = true}};
    wr_schema *s = NULL;
    wr_batch *b = NULL;
    uint32_t *rows = NULL;
    assert_ok(wr_schema_new(cols, 2, 1, &s, err));
    assert_ok(wr_batch_new(s, &b, err));
    assert_ok(wr_batch_order(b, &(wr_sort_key){.col = 0}, 1, &rows, err));
    assert_null(rows);
    for (int i = 0; i < 5000; i++) add(b, s, (wr_value[]){vlong(i / 2 - 1000), vstr("x")});
    assert_ok(wr_batch_order(b, &(wr_sort_key){.col = 0}, 1, &rows, err));
    assert_null(rows);
    assert_ok(wr_batch_order(b, &(wr_sort_key){.col = 1}, 1, &rows, err));
    assert_null(rows);
    add(b, s, (wr_value[]){vlong(-1000), vstr("x")});
    assert_ok(wr_batch_order(b, &(wr_sort_key){.col = 0}, 1, &rows, err));
    assert_non_null(rows);
    assert_int_equal(rows[2], 5000); /* behind the two that are equal */
    wr_free(rows);
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void picked_values_are_those_of_the_rows(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    wr_batch *b = random_batch(s, 11, 6000, 4);
    WR_AUTO_BUF wr_buf x = WR_BUF_INIT, y = WR_BUF_INIT;
    WR_AUTO uint32_t *rows = wr_malloc(9000 * sizeof *rows);
    uint64_t seed = 5;
    for (int i = 0; i < 9000; i++) rows[i] = (uint32_t)(rnd(&seed) % 6000);
    for (int col = 0; col < NKINDS; col++) {
        wr_batch *p = NULL;
        assert_ok(wr_batch_pick(b, col, rows, 9000, &p, err));
        assert_int_equal(wr_batch_rows(p), 9000);
        for (uint32_t i = 0; i < 9000; i++) {
            wr_value v[NKINDS];
            wr_buf_clear(&x), wr_buf_clear(&y);
            assert_ok(wr_batch_row(b, rows[i], &x, err));
            assert_ok(wr_row_read(s, wr_buf_view(&x), v, err));
            WR_AUTO_BUF wr_buf want = WR_BUF_INIT;
            size_t at = wr_row_begin(&want, 1);
            wr_row_put(&want, at, 0, all_kinds[col], &v[col]);
            assert_ok(wr_batch_row(p, i, &y, err));
            assert_int_equal(want.n, y.n);
            assert_memory_equal(want.p, y.p, y.n);
        }
        wr_batch_free(p);
    }
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void a_sorter_has_a_limit_and_every_failing_allocation_is_told(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    wr_batch *b = random_batch(s, 8, 300, 4);
    const wr_sort_key k[2] = {{.col = 13}, {.col = 2, .descending = true}};
    wr_sorter *so = NULL;
    wr_err e = WR_ERR_INIT;
    WR_AUTO_BUF wr_buf row = WR_BUF_INIT;
    assert_ok(wr_batch_row(b, 1, &row, err));
    assert_ok(wr_sorter_new(s, k, 2, 32 * 100, &so, err));
    wr_code rc = WR_OK;
    int n = 0;
    for (; n < 200 && rc == WR_OK; n++) rc = wr_sorter_add(so, wr_buf_view(&row), &e);
    assert_int_equal(rc, WR_E_LIMIT);
    assert_true(n > 20 && n <= 100);
    wr_sorter_free(so);
    for (uint64_t at = 1;; at++) {
        uint32_t *rows = NULL;
        wr_mem_fail_after(at);
        rc = wr_batch_order(b, k, 2, &rows, &e);
        bool happened = wr_mem_fail_after(0) == 0;
        if (!happened) {
            assert_int_equal(rc, WR_OK);
            wr_free(rows);
            break;
        }
        assert_int_equal(rc, WR_E_NOMEM);
        assert_null(rows);
    }
    wr_batch_free(b);
    wr_schema_unref(s);
}

typedef struct expect {
    const wr_batch *b;
    const uint32_t *rows;
    uint64_t n;
} expect;
static wr_code next_row(void *ctx, uint64_t pos, wr_slice row, wr_err *error) {
    expect *x = ctx;
    WR_AUTO_BUF wr_buf want = WR_BUF_INIT;
    assert_int_equal(pos, x->n);
    assert_ok(wr_batch_row(x->b, x->rows[x->n++], &want, err));
    assert_int_equal(want.n, row.n);
    assert_memory_equal(want.p, row.p, row.n);
    return WR_OK;
}

static void a_file_has_the_rows_in_the_order_that_was_asked_for(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    wr_batch *b = random_batch(s, 21, 9000, 5);
    wr_engine *eng = NULL;
    uint32_t *rows = NULL;
    char path[128];
    assert_ok(wr_engine_open(NULL, &eng, err));
    for (int col = 2; col < NKINDS; col += 11) { /* by a number, by a text */
        wr_parquet_file f = {0};
        assert_ok(wr_batch_order(b, &(wr_sort_key){.col = col, .descending = true}, 1, &rows, err));
        wr_parquet_options o = {.rows = rows, .row_group_rows = 2048, .bloom = (int[]){2, 13}, .nbloom = 2};
        assert_ok(wr_parquet_write(eng, b, tmp_path(path, "order.parquet"), &o, &f, err));
        assert_int_equal(f.nsplits, 4);
        expect x = {b, rows, 0};
        assert_ok(wr_parquet_read(eng, path, s, NULL, next_row, &x, err));
        assert_int_equal(x.n, wr_batch_live_rows(b));
        wr_parquet_file plain = {0};
        unlink(path);
        assert_ok(wr_parquet_write(eng, b, path, NULL, &plain, err));
        for (int i = 0; i < NKINDS; i++) { /* whatever the order, the same is told of them */
            assert_int_equal(f.cols[i].values, plain.cols[i].values), assert_int_equal(f.cols[i].nulls, plain.cols[i].nulls), assert_int_equal(f.cols[i].nans, plain.cols[i].nans);
            assert_int_equal(f.cols[i].lower_n, plain.cols[i].lower_n), assert_int_equal(f.cols[i].upper_n, plain.cols[i].upper_n);
            assert_memory_equal(f.cols[i].lower, plain.cols[i].lower, plain.cols[i].lower_n), assert_memory_equal(f.cols[i].upper, plain.cols[i].upper, plain.cols[i].upper_n);
        }
        wr_parquet_file_clear(&f), wr_parquet_file_clear(&plain);
        wr_free(rows);
        unlink(path);
    }
    wr_batch_free(b);
    wr_schema_unref(s);
    wr_engine_close(eng);
}

static wr_code next_key(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    int64_t key; /* behind the byte of nulls */
    memcpy(&key, row.p + 1, 8);
    assert_true(key >= *(int64_t *)ctx);
    *(int64_t *)ctx = key;
    return WR_OK;
}

static void a_sorted_file_has_row_groups_that_do_not_overlap(void **state) {
    wr_column cols[] = {{.name = (char *)"id", .id = 1, .type = T(WR_LONG), .key_ord = 1}};
    wr_schema *s = NULL;
    wr_batch *b = NULL;
    wr_engine *eng = NULL;
    wr_parquet_file f = {0};
    uint32_t *rows = NULL;
    char path[128];
    int64_t last = INT64_MIN;
    assert_ok(wr_engine_open(NULL, &eng, err));
    assert_ok(wr_schema_new(cols, 1, 1, &s, err));
    assert_ok(wr_batch_new(s, &b, err));
    for (int i = 0; i < 20000; i++) add(b, s, (wr_value[]){vlong((int64_t)i * 7919 % 20000)});
    for (uint32_t i = 0; i < 20000; i += 3) wr_batch_kill(b, i);
    assert_ok(wr_batch_order(b, &(wr_sort_key){.col = 0}, 1, &rows, err));
    wr_parquet_options o = {.rows = rows, .row_group_rows = 4096, .bloom = (int[]){0}, .nbloom = 1};
    assert_ok(wr_parquet_write(eng, b, tmp_path(path, "sorted.parquet"), &o, &f, err));
    assert_int_equal(f.nsplits, 4);
    assert_int_equal(f.rows, wr_batch_live_rows(b));
    assert_ok(wr_parquet_read(eng, path, s, NULL, next_key, &last, err));
    wr_parquet_file_clear(&f);
    unlink(path);
    wr_free(rows);
    wr_batch_free(b);
    wr_schema_unref(s);
    wr_engine_close(eng);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_every_kind_come_in_order),
        cmocka_unit_test(rows_that_are_in_order_are_said_to_be),
        cmocka_unit_test(picked_values_are_those_of_the_rows),
        cmocka_unit_test(a_sorter_has_a_limit_and_every_failing_allocation_is_told),
        cmocka_unit_test(a_file_has_the_rows_in_the_order_that_was_asked_for),
        cmocka_unit_test(a_sorted_file_has_row_groups_that_do_not_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
