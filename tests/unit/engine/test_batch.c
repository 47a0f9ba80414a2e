#include "rows.h"
#include "batch.h"

static void rows_come_back_byte_for_byte(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    wr_batch *b = NULL;
    assert_ok(wr_batch_new(s, &b, err));
    uint64_t seed = 7;
    WR_AUTO_BUF wr_buf rows = WR_BUF_INIT, out = WR_BUF_INIT;
    size_t at[5001];
    for (int i = 0; i < 5000; i++) {
        wr_value v[NKINDS];
        uint8_t room[256];
        random_values(v, &seed, 4, room);
        at[i] = rows.n;
        row_of(&rows, s, v);
        assert_ok(wr_batch_append(b, wr_slice_of(rows.p + at[i], rows.n - at[i]), err));
    }
    at[5000] = rows.n;
    assert_int_equal(wr_batch_rows(b), 5000);
    for (int i = 0; i < 5000; i++) {
        wr_buf_clear(&out);
        assert_ok(wr_batch_row(b, (uint32_t)i, &out, err));
        assert_int_equal(out.n, at[i + 1] - at[i]);
        assert_memory_equal(out.p, rows.p + at[i], out.n);
    }
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void killed_rows_are_dead_and_counted_once(void **state) {
    wr_schema *s = schema_of((wr_type[]){T(WR_INT)}, 1);
    wr_batch *b = NULL;
    assert_ok(wr_batch_new(s, &b, err));
    for (int i = 0; i < 3000; i++) add(b, s, (wr_value[]){vint(i)});
    wr_batch_kill(b, 0);
    wr_batch_kill(b, 2999);
    wr_batch_kill(b, 2999);
    wr_batch_kill(b, 3000); /* no such row */
    assert_int_equal(wr_batch_live_rows(b), 2998);
    assert_true(wr_batch_dead(b, 0));
    assert_false(wr_batch_dead(b, 1));
    assert_true(wr_batch_dead(b, 2999));
    /* dead marks survive the growth of the chunk they are in */
    for (int i = 0; i < 3000; i++) add(b, s, (wr_value[]){vint(i)});
    assert_true(wr_batch_dead(b, 2999));
    assert_false(wr_batch_dead(b, 3001));
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void a_batch_of_one_row_is_small_and_every_byte_is_counted(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    wr_batch *b = NULL;
    assert_ok(wr_batch_new(s, &b, err));
    wr_value v[NKINDS];
    uint8_t room[256];
    uint64_t seed = 3;
    random_values(v, &seed, 0, room);
    add(b, s, v);
    assert_true(wr_batch_bytes(b) < 4096);
    for (int i = 0; i < 10000; i++) {
        random_values(v, &seed, 5, room);
        add(b, s, v);
        size_t n = sizeof(wr_batch) + NKINDS + b->chunks_cap * sizeof(wr_chunk *);
        for (uint32_t k = 0; k < b->nchunks; k++) {
            n += sizeof(wr_chunk) + NKINDS * sizeof(wr_vec) + b->chunks[k]->block_bytes;
            for (int c = 0; c < NKINDS; c++) n += b->chunks[k]->vecs[c].heap_cap;
        }
        assert_int_equal(wr_batch_bytes(b), n);
    }
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void a_row_that_does_not_fit_is_refused_and_leaves_no_trace(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    wr_batch *b = NULL;
    assert_ok(wr_batch_new(s, &b, err));
    uint64_t seed = 11;
    uint8_t room[256];
    wr_value v[NKINDS];
    WR_AUTO_BUF wr_buf row = WR_BUF_INIT, nulls = WR_BUF_INIT, out = WR_BUF_INIT;
    random_values(v, &seed, 0, room);
    v[13] = vstr("0123456789");
    v[15] = vbytes("abcdefgh", 8);
    row_of(&row, s, v);
    for (int i = 0; i < NKINDS - 1; i++) v[i].null = true;
    v[15] = vbytes("abcdefgh", 7);
    wr_row_begin(&nulls, NKINDS);
    nulls.p[0] = 0xff, nulls.p[1] = 0x7f;
    wr_buf_u32(&nulls, 7), wr_buf_put(&nulls, "abcdefg", 7); /* floats of seven bytes */
    wr_err e = WR_ERR_INIT;
    for (int round = 0; round < 20; round++) {
        for (size_t n = 0; n < row.n; n++) {
            uint8_t *copy = malloc(n ? n : 1); /* so that a sanitizer sees every read past the end */
            memcpy(copy, row.p, n);
            assert_int_equal(wr_batch_append(b, wr_slice_of(copy, n), &e), WR_E_CORRUPT);
            free(copy);
        }
        assert_int_equal(wr_batch_append(b, wr_buf_view(&nulls), &e), WR_E_CORRUPT);
        wr_buf_u8(&row, 0);
        assert_int_equal(wr_batch_append(b, wr_buf_view(&row), &e), WR_E_CORRUPT);
        row.n--;
        assert_ok(wr_batch_append(b, wr_buf_view(&row), err));
    }
    assert_int_equal(wr_batch_rows(b), 20);
    for (uint32_t i = 0; i < 20; i++) {
        wr_buf_clear(&out);
        assert_ok(wr_batch_row(b, i, &out, err));
        assert_int_equal(out.n, row.n);
        assert_memory_equal(out.p, row.p, row.n);
    }
    assert_int_equal(wr_batch_row(b, 20, &out, &e), WR_E_INVAL);
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void a_decimal_with_too_many_digits_is_refused(void **state) {
    wr_schema *s = schema_of((wr_type[]){DEC(4, 2), DEC(18, 0), DEC(38, 0)}, 3);
    wr_batch *b = NULL;
    assert_ok(wr_batch_new(s, &b, err));
    __int128 p38 = (__int128)1000000000000000000 * 1000000000000000000 * 100;
    add(b, s, (wr_value[]){vdec(-9999), vdec(999999999999999999), vdec(p38 - 1)});
    wr_value bad[][3] = {{vdec(10000), vdec(0), vdec(0)},
                         {vdec(0), vdec(-1000000000000000000), vdec(0)},
                         {vdec(0), vdec(0), vdec(-p38)}};
    for (int i = 0; i < 3; i++) {
        WR_AUTO_BUF wr_buf row = WR_BUF_INIT;
        wr_err e = WR_ERR_INIT;
        row_of(&row, s, bad[i]);
        assert_int_equal(wr_batch_append(b, wr_buf_view(&row), &e), WR_E_INVAL);
    }
    assert_int_equal(wr_batch_rows(b), 1);
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void large_values_end_a_chunk_early_and_rows_are_still_found(void **state) {
    wr_schema *s = schema_of((wr_type[]){T(WR_INT), T(WR_BINARY)}, 2);
    wr_batch *b = NULL;
    assert_ok(wr_batch_new(s, &b, err));
    size_t n = 24u << 20;
    uint8_t *big = malloc(n);
    memset(big, 'x', n);
    for (int i = 0; i < 3000; i++) add(b, s, (wr_value[]){vint(i), i < 8 ? vbytes(big, n) : vbytes("y", 1)});
    assert_true(b->nchunks > 3);
    for (uint32_t i = 0; i < 3000; i++) {
        const wr_chunk *c = wr_batch_chunk(b, i);
        assert_int_equal(((int32_t *)c->vecs[0].data)[i - c->first], i);
    }
    free(big);
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void each_failed_allocation_is_reported_and_loses_nothing(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    for (uint64_t nth = 1; nth < 40; nth++) {
        wr_batch *b = NULL;
        wr_err e = WR_ERR_INIT;
        uint64_t seed = 5;
        uint32_t added = 0;
        WR_AUTO_BUF wr_buf row = WR_BUF_INIT;
        wr_buf_room(&row, 4096);
        bool armed = false;
        for (int i = 0; i < 4200; i++) {
            wr_value v[NKINDS];
            uint8_t room[256];
            random_values(v, &seed, 5, room);
            wr_buf_clear(&row);
            row_of(&row, s, v);
            if (!armed) wr_mem_fail_after(nth), armed = true;
            if (!b && wr_batch_new(s, &b, &e) != WR_OK) {
                assert_int_equal(e.code, WR_E_NOMEM);
                assert_ok(wr_batch_new(s, &b, err));
            }
            wr_code rc = wr_batch_append(b, wr_buf_view(&row), &e);
            if (rc != WR_OK) {
                assert_int_equal(rc, WR_E_NOMEM);
                assert_ok(wr_batch_append(b, wr_buf_view(&row), err));
            }
            added++;
        }
        wr_mem_fail_after(0);
        assert_int_equal(wr_batch_rows(b), added);
        wr_batch_free(b);
    }
    wr_schema_unref(s);
}

/* Written from where it lies; rows before and behind it are the batch's own. */
static void a_large_value_on_loan_is_written_without_a_copy(void **state) {
    enum { LARGE = 17 << 20 };
    wr_schema *s = schema_of((wr_type[]){T(WR_INT), T(WR_BINARY), T(WR_STRING)}, 3);
    wr_batch *b = NULL;
    WR_AUTO_BUF wr_buf row = WR_BUF_INIT, back = WR_BUF_INIT;
    char *big = malloc(LARGE);
    memset(big, 'x', LARGE);
    assert_ok(wr_batch_new(s, &b, err));
    for (int i = 0; i < 3; i++) add(b, s, (wr_value[]){vint(i), vstr("small"), vnull()});
    row_of(&row, s, (wr_value[]){vint(7), vbytes(big, LARGE), vstr("beside")});
    size_t bytes = wr_batch_bytes(b);
    assert_ok(wr_batch_append_loan(b, wr_buf_view(&row), err));
    assert_true(wr_batch_bytes(b) < bytes + (1 << 20));
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_batch_append_loan(b, wr_slice_of(row.p, row.n - 1), &e), WR_E_CORRUPT); /* leaves nothing of it behind */
    add(b, s, (wr_value[]){vint(8), vstr("small"), vnull()});
    assert_int_equal(wr_batch_rows(b), 5);
    assert_ok(wr_batch_row(b, 3, &back, err));
    assert_true(back.n == row.n && !memcmp(back.p, row.p, row.n));
    wr_buf_clear(&back);
    assert_ok(wr_batch_row(b, 4, &back, err));
    assert_int_equal(back.n, 1 + 4 + 4 + 5);
    wr_batch_free(b);
    wr_schema_unref(s);
    free(big);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back_byte_for_byte),
        cmocka_unit_test(killed_rows_are_dead_and_counted_once),
        cmocka_unit_test(a_batch_of_one_row_is_small_and_every_byte_is_counted),
        cmocka_unit_test(a_row_that_does_not_fit_is_refused_and_leaves_no_trace),
        cmocka_unit_test(a_decimal_with_too_many_digits_is_refused),
        cmocka_unit_test(large_values_end_a_chunk_early_and_rows_are_still_found),
        cmocka_unit_test(each_failed_allocation_is_reported_and_loses_nothing),
        cmocka_unit_test(a_large_value_on_loan_is_written_without_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
