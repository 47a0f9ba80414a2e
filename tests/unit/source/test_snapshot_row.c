/* Rows of the binary protocol to row encoding: values, and what a packet may not do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "mysql/snapshot_impl.h"
#include "weir/base/mem.h"

typedef struct fixture {
    wr_my_table *t;
    wr_my_key key;
    wr_snap_plan *plan;
    MYSQL_FIELD fields[16];
    int n;
} fixture;

typedef struct spec {
    const char *name, *type, *charset;
    wr_my_kind kind;
    int wire;
    bool is_unsigned;
    uint32_t length;
    uint8_t scale;
    int key_ord;
} spec;

static const spec columns[] = {
    {"id", "bigint", NULL, MY_BIGINT, MYSQL_TYPE_LONGLONG, false, 0, 0, 1},
    {"u", "bigint unsigned", NULL, MY_BIGINT, MYSQL_TYPE_LONGLONG, true, 0, 0, 0},
    {"t", "tinyint", NULL, MY_TINYINT, MYSQL_TYPE_TINY, false, 0, 0, 0},
    {"d", "decimal(12,2)", NULL, MY_DECIMAL, MYSQL_TYPE_NEWDECIMAL, false, 12, 2, 0},
    {"s", "varchar(40)", "utf8mb4", MY_VARCHAR, MYSQL_TYPE_VAR_STRING, false, 40, 0, 2},
    {"dt", "datetime(6)", NULL, MY_DATETIME, MYSQL_TYPE_DATETIME, false, 0, 6, 0},
    {"tm", "time(6)", NULL, MY_TIME, MYSQL_TYPE_TIME, false, 0, 6, 0},
    {"b", "bit(9)", NULL, MY_BIT, MYSQL_TYPE_BIT, false, 9, 0, 0},
    {"f", "double", NULL, MY_DOUBLE, MYSQL_TYPE_DOUBLE, false, 0, 0, 0},
    {"g", "point", NULL, MY_GEOMETRY, MYSQL_TYPE_GEOMETRY, false, 0, 0, 0},
};
enum { NCOLS = sizeof columns / sizeof *columns };

static int setup(void **state) {
    fixture *fx = calloc(1, sizeof *fx);
    wr_err err = WR_ERR_INIT;
    wr_my_table *t = wr_calloc(1, sizeof *t);
    t->db = wr_strdup("d"), t->name = wr_strdup("t"), t->id = 1, t->version = 1;
    t->cols = wr_calloc(NCOLS, sizeof *t->cols);
    t->ncols = NCOLS;
    for (int i = 0; i < NCOLS; i++) {
        const spec *s = &columns[i];
        wr_my_col *c = &t->cols[i];
        c->name = wr_strdup(s->name), c->column_type = wr_strdup(s->type), c->id = i + 1, c->kind = s->kind;
        c->is_unsigned = s->is_unsigned, c->length = s->length, c->scale = s->scale, c->key_ord = s->key_ord,
        c->not_null = s->key_ord > 0;
        if (s->charset) c->charset = wr_strdup(s->charset), c->collation = wr_strdup("utf8mb4_general_ci");
        fx->fields[i] =
            (MYSQL_FIELD){.type = (enum enum_field_types)s->wire, .flags = s->is_unsigned ? UNSIGNED_FLAG : 0};
    }
    assert_int_equal(wr_my_table_finish(t, (wr_my_types){0}, NULL, &err), WR_OK);
    fx->t = t;
    fx->key = (wr_my_key){.n = 2, .col = {&t->cols[0], &t->cols[4]}};
    assert_int_equal(wr_snap_plan_new(t, (wr_my_types){0}, &fx->key, false, &fx->plan, &err), WR_OK);
    assert_int_equal(wr_snap_plan_wire(fx->plan, fx->fields, NCOLS, &err), WR_OK);
    *state = fx;
    return 0;
}

static int teardown(void **state) {
    fixture *fx = *state;
    wr_snap_plan_free(fx->plan);
    wr_my_table_free(fx->t);
    free(fx);
    return 0;
}

static void good_packet(wr_buf *b) {
    static const uint8_t wkb[] = {0xe6, 0x10, 0, 0, 1, 1, 0, 0, 0};
    int64_t id = -5;
    uint64_t u = UINT64_MAX;
    double f = 0.1;
    wr_buf_u8(b, 0);
    wr_buf_put(b, "\0\0", 2); /* no nulls: (10 + 9) / 8 bytes */
    wr_buf_put(b, &id, 8);
    wr_buf_put(b, &u, 8);
    wr_buf_u8(b, 0x80);
    wr_buf_put(b,
               "\x06"
               "-12.34",
               7);
    wr_buf_put(b,
               "\x05"
               "ab\xc3\xa9!",
               6);
    wr_buf_put(b, "\x0b\xe8\x07\x02\x1d\x17\x3b\x3a\x40\x42\x0f\x00", 8);
    uint32_t us = 999999;
    wr_buf_put(b, &us, 4);
    wr_buf_put(b, "\x08\x01\x22\0\0\0\x16\x3b\x3b", 9);
    wr_buf_put(b, "\x02\x01\xff", 3);
    wr_buf_put(b, &f, 8);
    wr_buf_u8(b, sizeof wkb);
    wr_buf_put(b, wkb, sizeof wkb);
}

static void a_row_has_every_value(void **state) {
    fixture *fx = *state;
    wr_err err = WR_ERR_INIT;
    wr_buf p = WR_BUF_INIT, row = WR_BUF_INIT;
    good_packet(&p);
    assert_int_equal(wr_snap_plan_row(fx->plan, p.p, p.n, &row, &err), WR_OK);
    wr_value v[NCOLS];
    assert_int_equal(wr_row_read(fx->t->schema, wr_buf_view(&row), v, &err), WR_OK);
    assert_true(v[0].i64 == -5);
    assert_true(v[1].dec == (__int128)UINT64_MAX);
    assert_int_equal(v[2].i32, -128);
    assert_true(v[3].dec == -1234);
    assert_true(wr_slice_eq(v[4].s, wr_slice_str("ab\xc3\xa9!")));
    assert_true(v[5].i64 == 1709251198999999); /* 2024-02-29 23:59:58.999999 */
    assert_true(v[6].i64 == -(((34 * 24 + 22) * 60 + 59) * 60 + 59) * 1000000ll);
    assert_true(v[7].i64 == 511);
    assert_true(v[8].f64 == 0.1);
    assert_int_equal(v[9].s.n, 5); /* without the SRID */
    char *cursor = NULL;
    assert_int_equal(wr_snap_plan_cursor(fx->plan, p.p, p.n, &cursor, &err), WR_OK);
    assert_string_equal(cursor, "-5,x6162c3a921");
    wr_free(cursor);
    wr_buf_free(&p);
    wr_buf_free(&row);
}

static void nulls_and_zero_dates_are_null(void **state) {
    fixture *fx = *state;
    wr_err err = WR_ERR_INIT;
    wr_buf p = WR_BUF_INIT, row = WR_BUF_INIT;
    int64_t id = 1;
    wr_buf_u8(&p, 0);
    wr_buf_put(&p, "\xb8\x0f", 2); /* all but id, s (bit 6) and the rest by bits 3..11 */
    p.p[1] = 0x38, p.p[2] = 0x0f;
    wr_buf_put(&p, &id, 8);
    wr_buf_put(&p, "\x00", 1); /* s = '' */
    wr_buf_put(&p, "\x00", 1); /* dt = 0000-00-00 00:00:00 */
    assert_int_equal(wr_snap_plan_row(fx->plan, p.p, p.n, &row, &err), WR_OK);
    wr_value v[NCOLS];
    assert_int_equal(wr_row_read(fx->t->schema, wr_buf_view(&row), v, &err), WR_OK);
    for (int i = 0; i < NCOLS; i++) assert_int_equal(v[i].null, i != 0 && i != 4);
    wr_buf_free(&p);
    wr_buf_free(&row);
}

static void a_short_packet_is_an_error_wherever_it_ends(void **state) {
    fixture *fx = *state;
    wr_buf p = WR_BUF_INIT, row = WR_BUF_INIT;
    good_packet(&p);
    for (size_t n = 0; n < p.n; n++) {
        wr_err err = WR_ERR_INIT;
        uint8_t *copy = malloc(n ? n : 1); /* exactly n bytes: a read behind them is seen by the sanitizer */
        memcpy(copy, p.p, n);
        assert_int_equal(wr_snap_plan_row(fx->plan, copy, n, &row, &err), WR_E_DECODE);
        char *cursor = NULL;
        if (wr_snap_plan_cursor(fx->plan, copy, n, &cursor, &err) == WR_OK) wr_free(cursor);
        free(copy);
    }
    wr_err err = WR_ERR_INIT;
    wr_buf_u8(&p, 0);
    assert_int_equal(wr_snap_plan_row(fx->plan, p.p, p.n, &row, &err), WR_E_DECODE); /* and one byte too many */
    wr_buf_free(&p);
    wr_buf_free(&row);
}

static void flipped_bits_never_crash(void **state) {
    fixture *fx = *state;
    wr_buf p = WR_BUF_INIT, row = WR_BUF_INIT;
    good_packet(&p);
    for (size_t bit = 0; bit < p.n * 8; bit++) {
        wr_err err = WR_ERR_INIT;
        uint8_t *copy = malloc(p.n);
        memcpy(copy, p.p, p.n);
        copy[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        wr_value v[NCOLS];
        if (wr_snap_plan_row(fx->plan, copy, p.n, &row, &err) == WR_OK)
            assert_int_equal(wr_row_read(fx->t->schema, wr_buf_view(&row), v, &err), WR_OK);
        char *cursor = NULL;
        if (wr_snap_plan_cursor(fx->plan, copy, p.n, &cursor, &err) == WR_OK) wr_free(cursor);
        free(copy);
    }
    wr_buf_free(&p);
    wr_buf_free(&row);
}

static void text_that_is_none_is_an_error(void **state) {
    fixture *fx = *state;
    wr_err err = WR_ERR_INIT;
    wr_buf p = WR_BUF_INIT, row = WR_BUF_INIT;
    good_packet(&p);
    uint8_t *at = memmem(p.p, p.n, "ab\xc3\xa9!", 5);
    at[3] = '(';
    assert_int_equal(wr_snap_plan_row(fx->plan, p.p, p.n, &row, &err), WR_E_DECODE);
    assert_non_null(strstr(err.msg, "column s"));
    wr_buf_free(&p);
    wr_buf_free(&row);
}

static void other_types_on_the_wire_are_a_schema_error(void **state) {
    fixture *fx = *state;
    wr_err err = WR_ERR_INIT;
    MYSQL_FIELD f[NCOLS];
    assert_int_equal(wr_snap_plan_wire(fx->plan, fx->fields, NCOLS - 1, &err), WR_E_SCHEMA);
    for (int i = 0; i < NCOLS; i++) {
        memcpy(f, fx->fields, sizeof f);
        f[i].type = columns[i].wire == MYSQL_TYPE_LONG ? MYSQL_TYPE_TINY : MYSQL_TYPE_LONG;
        assert_int_equal(wr_snap_plan_wire(fx->plan, f, NCOLS, &err), WR_E_SCHEMA);
    }
    memcpy(f, fx->fields, sizeof f);
    f[0].flags |= UNSIGNED_FLAG;
    assert_int_equal(wr_snap_plan_wire(fx->plan, f, NCOLS, &err), WR_E_SCHEMA);
    f[0].flags = 0, f[8].type = MYSQL_TYPE_LONGLONG;
    assert_int_equal(wr_snap_plan_wire(fx->plan, f, NCOLS, &err), WR_E_SCHEMA);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_row_has_every_value, setup, teardown),
        cmocka_unit_test_setup_teardown(nulls_and_zero_dates_are_null, setup, teardown),
        cmocka_unit_test_setup_teardown(a_short_packet_is_an_error_wherever_it_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(flipped_bits_never_crash, setup, teardown),
        cmocka_unit_test_setup_teardown(text_that_is_none_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(other_types_on_the_wire_are_a_schema_error, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
