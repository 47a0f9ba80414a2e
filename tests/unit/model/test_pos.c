#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "weir/base/mem.h"
#include "weir/model.h"

static wr_pos at(const char *file, uint64_t offset) {
    wr_pos p = {.offset = offset};
    snprintf(p.file, sizeof p.file, "%s", file);
    return p;
}

static int cmp(const char *fa, uint64_t a, const char *fb, uint64_t b) {
    wr_pos x = at(fa, a), y = at(fb, b);
    int c = wr_pos_cmp(&x, &y);
    assert_int_equal(wr_pos_cmp(&y, &x), -c);
    return c;
}

static void positions_order_by_file_number_then_offset(void **st) {
    assert_int_equal(cmp("b.000001", 500, "b.000002", 4), -1);
    assert_int_equal(cmp("b.000001", 500, "b.000001", 500), 0);
    assert_int_equal(cmp("b.000001", 501, "b.000001", 500), 1);
    assert_int_equal(cmp("b.999999", 4, "b.1000000", 4), -1); /* text order would say otherwise */
    assert_int_equal(cmp("my.host-bin.000009", 4, "my.host-bin.000010", 4), -1);
    assert_int_equal(cmp("", 0, "b.000001", 0), -1);
    assert_int_equal(cmp("", 0, "", 0), 0);
}

static void a_later_epoch_is_later_whatever_the_file_says(void **st) {
    wr_pos old = at("b.000009", 500), new = at("b.000001", 4), none = {0};
    new.epoch = 1;
    assert_int_equal(wr_pos_cmp(&old, &new), -1);
    assert_int_equal(wr_pos_cmp(&new, &old), 1);
    none.epoch = 1;
    assert_int_equal(wr_pos_cmp(&none, &old), -1);
    char b[512];
    assert_string_equal(wr_pos_print(&new, b), "b.000001:4 epoch 1");
    new.gtid_set = "0-1-5";
    assert_string_equal(wr_pos_print(&new, b), "b.000001:4 epoch 1 gtid 0-1-5");
}

static void copies_are_independent(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_pos a = at("b.000001", 7), b = {0};
    a.gtid_set = wr_strdup("0-1-5");
    assert_int_equal(wr_pos_copy(&b, &a, &e), WR_OK);
    assert_int_equal(wr_pos_copy(&b, &a, &e), WR_OK);
    assert_int_equal(wr_pos_copy(&b, &b, &e), WR_OK);
    wr_mem_fail_after(1);
    assert_int_equal(wr_pos_copy(&b, &a, &e), WR_E_NOMEM);
    wr_pos_clear(&a);
    assert_string_equal(a.file, "");
    assert_string_equal(b.gtid_set, "0-1-5");
    wr_pos_clear(&b);
}

static void encodings_round_trip_and_no_truncation_does(void **st) {
    const char *sets[] = {NULL, "", "0-1-5,1-2-7", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7"};
    for (size_t i = 0; i < 4; i++) {
        wr_err e = WR_ERR_INIT;
        wr_pos a = at(i ? "binlog.000012" : "", 1ULL << (16 * i)), b;
        a.gtid_set = (char *)(uintptr_t)sets[i];
        a.epoch = (uint32_t)(i & 1 ? i : 0);
        WR_AUTO_BUF wr_buf buf = WR_BUF_INIT;
        wr_pos_encode(&buf, &a);
        wr_rd r = wr_rd_of(buf.p, buf.n);
        assert_int_equal(wr_pos_decode(&r, &b, &e), WR_OK);
        assert_int_equal(wr_rd_left(&r), 0);
        assert_string_equal(b.file, a.file);
        assert_true(b.offset == a.offset);
        assert_int_equal(b.epoch, a.epoch);
        if (sets[i])
            assert_string_equal(b.gtid_set, sets[i]);
        else
            assert_null(b.gtid_set);
        wr_pos_clear(&b);
        for (size_t n = 0; n < buf.n; n++) {
            r = wr_rd_of(buf.p, n);
            assert_int_equal(wr_pos_decode(&r, &b, &e), WR_E_CORRUPT);
        }
        if (!sets[i]) continue;
        wr_mem_fail_after(1);
        r = wr_rd_of(buf.p, buf.n);
        assert_int_equal(wr_pos_decode(&r, &b, &e), WR_E_NOMEM);
    }
}

static void names_that_do_not_fit_are_corrupt(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_pos p;
    for (int i = 0; i < 4; i++) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        char name[WR_POS_FILE_MAX];
        memset(name, 'a', sizeof name);
        if (i == 1) name[3] = 0;
        wr_buf_u8(&b, i == 2 ? 0x81 : 1);
        wr_buf_slice(&b, wr_slice_of(name, i == 0 ? sizeof name : 10));
        wr_buf_u64(&b, 1);
        wr_buf_slice(&b, wr_slice_of(i == 3 ? "a\0b" : "abc", 3));
        wr_rd r = wr_rd_of(b.p, b.n);
        assert_int_equal(wr_pos_decode(&r, &p, &e), WR_E_CORRUPT);
    }
}

static void positions_print_with_the_set_cut_when_long(void **st) {
    char b[512], set[2000];
    wr_pos p = at("binlog.000012", 4711);
    assert_string_equal(wr_pos_print(&p, b), "binlog.000012:4711");
    p.gtid_set = (char[]){"0-1-5"};
    assert_string_equal(wr_pos_print(&p, b), "binlog.000012:4711 gtid 0-1-5");
    for (size_t n = 400; n < 600; n++) {
        memset(set, '1', n);
        set[n] = 0;
        p.gtid_set = set;
        memset(b, 'x', sizeof b);
        wr_pos_print(&p, b);
        assert_true(strlen(b) < 512);
        assert_int_equal(strcmp(b + strlen(b) - 3, "...") == 0, strlen("binlog.000012:4711 gtid ") + n > 511);
    }
    p.gtid_set = (char[]){"0-1-5"};
    p.file[0] = 0;
    assert_string_equal(wr_pos_print(&p, b), "gtid 0-1-5");
    p.gtid_set = NULL;
    assert_string_equal(wr_pos_print(&p, b), "none");
    memset(p.file, 'f', sizeof p.file - 1);
    p.gtid_set = set;
    assert_true(strlen(wr_pos_print(&p, b)) == 511);
}

int main(void) {
    const struct CMUnitTest t[] = {
        cmocka_unit_test(positions_order_by_file_number_then_offset),
        cmocka_unit_test(a_later_epoch_is_later_whatever_the_file_says),
        cmocka_unit_test(copies_are_independent),
        cmocka_unit_test(encodings_round_trip_and_no_truncation_does),
        cmocka_unit_test(names_that_do_not_fit_are_corrupt),
        cmocka_unit_test(positions_print_with_the_set_cut_when_long),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
