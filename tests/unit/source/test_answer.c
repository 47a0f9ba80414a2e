/* Columns and rows of the server's answers: what they may not do. (Limits of whole answers: tests/integration/test_hostile_server.py.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "mysql/answer.h"

static const char definition[] = "\3def\4shop\1o\6orders\2id\2id\x0c\x2d\x00\x0b\0\0\0\x03\x03\x42\0\0\0";
enum { DEFINITION = sizeof definition - 1 };

static void a_definition_says_type_and_name(void **state) {
    wr_err err = WR_ERR_INIT;
    MYSQL_FIELD f;
    char name[64];
    assert_int_equal(wr_my_column_parse(wr_slice_of(definition, DEFINITION), &f, name, &err), WR_OK);
    assert_string_equal(f.name, "id");
    assert_int_equal(f.type, MYSQL_TYPE_LONG);
    assert_int_equal(f.flags, 0x4203);
    assert_int_equal(f.length, 11);
}

static void a_cut_definition_is_an_error(void **state) {
    for (size_t n = 0; n < DEFINITION - 3; n++) { /* two bytes of filler at the end, and decimals read as 0 never */
        uint8_t *copy = malloc(n + 1);
        memcpy(copy, definition, n);
        wr_err err = WR_ERR_INIT;
        MYSQL_FIELD f;
        char name[64];
        assert_int_equal(wr_my_column_parse(wr_slice_of(copy, n), &f, name, &err), WR_E_DECODE);
        free(copy);
    }
}

static void values_end_with_a_zero_byte(void **state) {
    uint8_t packet[] = "\3abc\xfb\0\xfc\2\0xy";
    char *row[4];
    unsigned long n[4];
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_my_text_row(packet, sizeof packet - 1, 4, row, n, &err), WR_OK);
    assert_string_equal(row[0], "abc");
    assert_null(row[1]);
    assert_string_equal(row[2], "");
    assert_string_equal(row[3], "xy");
    assert_int_equal(n[3], 2);
}

static void a_row_must_be_exactly_its_columns(void **state) {
    static const struct { const char *p; size_t n; unsigned ncols; } bad[] = {
        {"\3ab", 3, 1}, {"\1a", 2, 2}, {"\1a\1b", 4, 1}, {"", 0, 1}, {"\xfe\xff\xff\xff\xff\xff\xff\xff\xff", 9, 1}, {"\xff", 1, 1}, {"\xfc\1", 2, 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint8_t *copy = malloc(bad[i].n + 1);
        memcpy(copy, bad[i].p, bad[i].n);
        char *row[2];
        unsigned long n[2];
        wr_err err = WR_ERR_INIT;
        assert_int_equal(wr_my_text_row(copy, bad[i].n, bad[i].ncols, row, n, &err), WR_E_DECODE);
        free(copy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_definition_says_type_and_name),
        cmocka_unit_test(a_cut_definition_is_an_error),
        cmocka_unit_test(values_end_with_a_zero_byte),
        cmocka_unit_test(a_row_must_be_exactly_its_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
