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

static void a_row_reads_back_and_writes_the_same_bytes(void **st) {
    wr_schema *s = sample_schema();
    wr_err e = WR_ERR_INIT;
    wr_value v[SAMPLE_COLUMNS];
    for (int seed = 0; seed < 30; seed++) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT, again = WR_BUF_INIT;
        wr_buf_u8(&again, 9); /* rows need not begin at the start of a buffer */
        sample_row(s, seed, seed & 1, &b);
        assert_int_equal(wr_row_read(s, wr_buf_view(&b), v, &e), WR_OK);
        size_t at = wr_row_begin(&again, s->ncols);
        for (int i = 0; i < s->ncols; i++) {
            assert_int_equal(v[i].null, seed & 1 && (i + seed) % 3 == 0);
            wr_row_put(&again, at, i, s->cols[i].type, &v[i]);
        }
        assert_true(wr_slice_eq(wr_buf_view(&b), wr_slice_of(again.p + 1, again.n - 1)));
    }
    wr_schema_unref(s);
}

static void the_bytes_are_those_of_the_format_page(void **st) {
    wr_column c[3] = {{.name = (char[]){"a"}, .id = 1, .type = {WR_INT}, .nullable = true},
                      {.name = (char[]){"b"}, .id = 2, .type = {WR_LONG}, .nullable = true},
                      {.name = (char[]){"c"}, .id = 3, .type = {WR_STRING}, .nullable = true}};
    const uint8_t want[] = {0x02, 0x2a, 0, 0, 0, 2, 0, 0, 0, 'h', 'i'};
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    size_t at = wr_row_begin(&b, 3);
    wr_row_put(&b, at, 0, c[0].type, &(wr_value){.i32 = 42});
    wr_row_put(&b, at, 1, c[1].type, &(wr_value){.null = true});
    wr_row_put(&b, at, 2, c[2].type, &(wr_value){.s = wr_slice_str("hi")});
    assert_int_equal(b.n, sizeof want);
    assert_memory_equal(b.p, want, sizeof want);
}

static void every_truncation_and_every_extra_byte_is_corrupt(void **st) {
    wr_schema *s = sample_schema();
    wr_value v[SAMPLE_COLUMNS];
    for (int seed = 0; seed < 6; seed++) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        sample_row(s, seed, seed & 1, &b);
        for (size_t n = 0; n < b.n; n++) {
            wr_err e = WR_ERR_INIT;
            WR_AUTO uint8_t *exact = wr_malloc(n); /* so that the sanitizer sees a read past the end */
            memcpy(exact, b.p, n);
            assert_int_equal(wr_row_read(s, wr_slice_of(exact, n), v, &e), WR_E_CORRUPT);
            assert_true(strlen(e.msg) > 0);
        }
        wr_buf_u8(&b, 0);
        wr_err e = WR_ERR_INIT;
        assert_int_equal(wr_row_read(s, wr_buf_view(&b), v, &e), WR_E_CORRUPT);
    }
    wr_schema_unref(s);
}

static void bit_flips_never_read_outside_and_never_give_two_spellings(void **st) {
    wr_schema *s = sample_schema();
    wr_value v[SAMPLE_COLUMNS];
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    sample_row(s, 5, true, &b);
    for (size_t bit = 0; bit < b.n * 8; bit++) {
        wr_err e = WR_ERR_INIT;
        b.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (wr_row_read(s, wr_buf_view(&b), v, &e) == WR_OK) {
            WR_AUTO_BUF wr_buf again = WR_BUF_INIT;
            size_t at = wr_row_begin(&again, s->ncols);
            for (int i = 0; i < s->ncols; i++) wr_row_put(&again, at, i, s->cols[i].type, &v[i]);
            assert_true(wr_slice_eq(wr_buf_view(&b), wr_buf_view(&again)));
        }
        b.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    wr_schema_unref(s);
}

static void bits_behind_the_last_column_must_be_zero(void **st) {
    wr_column c[2] = {{.name = (char[]){"a"}, .id = 1, .type = {WR_BOOL}},
                      {.name = (char[]){"b"}, .id = 2, .type = {WR_BOOL}}};
    wr_schema *s;
    wr_value v[2];
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_schema_new(c, 2, 1, &s, &e), WR_OK);
    assert_int_equal(wr_row_read(s, wr_slice_of("\x03", 1), v, &e), WR_OK);
    assert_int_equal(wr_row_read(s, wr_slice_of("\x07", 1), v, &e), WR_E_CORRUPT);
    assert_int_equal(wr_row_read(s, wr_slice_of("\x00\x01\x01", 3), v, &e), WR_OK);
    assert_int_equal(wr_row_read(s, wr_slice_of("\x00\x01\x02", 3), v, &e), WR_E_CORRUPT);
    wr_schema_unref(s);
}

static void a_failed_allocation_sticks_in_the_buffer(void **st) {
    wr_schema *s = sample_schema();
    for (uint64_t n = 1;; n++) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        wr_mem_fail_after(n);
        sample_row(s, 7, true, &b);
        if (wr_mem_fail_after(0) > 0) break;
        assert_true(b.failed);
    }
    wr_schema_unref(s);
}

int main(void) {
    const struct CMUnitTest t[] = {
        cmocka_unit_test(a_row_reads_back_and_writes_the_same_bytes),
        cmocka_unit_test(the_bytes_are_those_of_the_format_page),
        cmocka_unit_test(every_truncation_and_every_extra_byte_is_corrupt),
        cmocka_unit_test(bit_flips_never_read_outside_and_never_give_two_spellings),
        cmocka_unit_test(bits_behind_the_last_column_must_be_zero),
        cmocka_unit_test(a_failed_allocation_sticks_in_the_buffer),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
