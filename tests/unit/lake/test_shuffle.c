#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "shuffle.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"

#define assert_ok(expr)                                                                                                \
    do {                                                                                                               \
        wr_err e_ = WR_ERR_INIT, *err = &e_;                                                                           \
        if ((expr) != WR_OK) fail_msg("%s: %s", #expr, err->msg);                                                      \
    } while (0)

static uint64_t rnd(uint64_t *x) { return *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17; }

static uint32_t *random_places(uint64_t n, uint64_t seed) {
    uint32_t *p = wr_malloc((n + 1) * sizeof *p);
    for (uint64_t i = 0; i < n; i++) p[i] = (uint32_t)i;
    for (uint64_t i = n; i > 1; i--) {
        uint64_t k = rnd(&seed) % i;
        uint32_t x = p[i - 1];
        p[i - 1] = p[k], p[k] = x;
    }
    return p;
}

/* A row says its place, and has a length and content that follow from it. */
static size_t length_of(uint32_t place, size_t most) { return 4 + (place * 2654435761u >> 8) % most; }

typedef struct check { uint32_t next; size_t most; } check;
static wr_code next_row(void *ctx, wr_slice row, wr_err *err) {
    check *c = ctx;
    uint32_t place;
    memcpy(&place, row.p, 4);
    assert_int_equal(place, c->next++);
    assert_int_equal(row.n, length_of(place, c->most));
    for (size_t i = 4; i < row.n; i++) assert_int_equal(row.p[i], (uint8_t)(place + i));
    return WR_OK;
}

static wr_code put_all(wr_shuffle *s, const uint32_t *place, uint64_t n, size_t most, wr_err *err) {
    uint8_t *row = malloc(most + 4);
    wr_code rc = WR_OK;
    for (uint64_t i = 0; i < n && rc == WR_OK; i++) {
        size_t len = length_of(place[i], most);
        memcpy(row, &place[i], 4);
        for (size_t k = 4; k < len; k++) row[k] = (uint8_t)(place[i] + k);
        rc = wr_shuffle_put(s, wr_slice_of(row, len), err);
    }
    free(row);
    return rc;
}

static void rows_come_out_by_place(void **state) {
    static const struct { uint64_t n, memory; size_t most; } c[] = {
        {0, 1 << 20, 10},  {1, 1 << 20, 10}, {8192, 1 << 20, 10}, {30000, 1 << 24, 40}, /* in memory */
        {30000, 1 << 18, 40}, {100000, 1 << 20, 100},                                  /* in pieces */
        {9000, 1 << 16, 3000},                                                         /* parts that do not fit */
    };
    for (size_t k = 0; k < sizeof c / sizeof *c; k++) {
        WR_AUTO uint32_t *place = random_places(c[k].n, 77 + k);
        wr_shuffle *s = NULL;
        assert_ok(wr_shuffle_new(place, c[k].n, c[k].memory, "/tmp", &s, err));
        assert_ok(put_all(s, place, c[k].n, c[k].most, err));
        check x = {.most = c[k].most};
        assert_ok(wr_shuffle_each(s, next_row, &x, err));
        assert_int_equal(x.next, c[k].n);
        wr_shuffle_free(s);
    }
}

static void rows_that_are_missing_or_too_many_are_told(void **state) {
    uint32_t place[2] = {1, 0};
    wr_shuffle *s = NULL;
    wr_err e = WR_ERR_INIT;
    check x = {.most = 10};
    assert_ok(wr_shuffle_new(place, 2, 1 << 20, "/tmp", &s, err));
    assert_ok(put_all(s, place, 1, 10, err));
    assert_int_equal(wr_shuffle_each(s, next_row, &x, &e), WR_E_INVAL);
    assert_ok(wr_shuffle_put(s, wr_slice_of("\0\0\0\0", 4), err));
    assert_int_equal(wr_shuffle_put(s, wr_slice_of("\0\0\0\0", 4), &e), WR_E_INVAL);
    wr_shuffle_free(s);
}

static void a_full_disk_and_failing_allocations_are_told(void **state) {
    WR_AUTO uint32_t *place = random_places(20000, 4);
    wr_shuffle *s = NULL;
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_shuffle_new(place, 20000, 1 << 16, "/tmp/there/is/no/such/folder", &s, &e), WR_OK);
    assert_int_equal(put_all(s, place, 20000, 40, &e), WR_E_IO);
    assert_non_null(strstr(e.msg, "/tmp/there/is/no"));
    wr_shuffle_free(s);
    for (uint64_t at = 1;; at += 1 + at / 4) {
        check x = {.most = 40};
        s = NULL;
        wr_mem_fail_after(at);
        wr_code rc = wr_shuffle_new(place, 20000, 1 << 17, "/tmp", &s, &e);
        if (rc == WR_OK) rc = put_all(s, place, 20000, 40, &e);
        if (rc == WR_OK) rc = wr_shuffle_each(s, next_row, &x, &e);
        bool happened = wr_mem_fail_after(0) == 0;
        wr_shuffle_free(s);
        assert_int_equal(rc, happened ? WR_E_NOMEM : WR_OK);
        if (!happened) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_out_by_place),
        cmocka_unit_test(rows_that_are_missing_or_too_many_are_told),
        cmocka_unit_test(a_full_disk_and_failing_allocations_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
