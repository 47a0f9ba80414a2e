#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "weir/base/arena.h"
#include "weir/base/mem.h"

static void allocations_are_aligned_and_do_not_overlap(void **st) {
    enum { N = 4000 };
    static uint8_t *p[N];
    static size_t n[N];
    wr_arena *a = wr_arena_new(0);
    srand(3);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            n[i] = (size_t)(rand() % 100 == 0 ? rand() % 200000 : rand() % 300);
            p[i] = wr_arena_alloc(a, n[i]);
            assert_non_null(p[i]);
            assert_int_equal((uintptr_t)p[i] % 16, 0);
            memset(p[i], i & 0xff, n[i]);
        }
        for (int i = 0; i < N; i++)
            for (size_t k = 0; k < n[i]; k += 7) assert_int_equal(p[i][k], i & 0xff);
        wr_arena_reset(a);
        assert_int_equal(wr_arena_used(a), 0);
    }
    wr_arena_free(a);
    wr_arena_free(NULL);
}

static void the_limit_refuses_and_reset_gives_room_again(void **st) {
    wr_arena *a = wr_arena_new(1000);
    assert_null(wr_arena_alloc(a, 1001));
    assert_non_null(wr_arena_alloc(a, 900));
    assert_null(wr_arena_alloc(a, 100));
    assert_non_null(wr_arena_alloc(a, 80));
    assert_int_equal(wr_arena_used(a), 912 + 80);
    wr_arena_reset(a);
    assert_non_null(wr_arena_alloc(a, 900));
    assert_null(wr_arena_alloc(a, SIZE_MAX));
    assert_null(wr_arena_alloc(a, SIZE_MAX - 20));
    wr_arena_free(a);
}

static void copies_are_exact(void **st) {
    wr_arena *a = wr_arena_new(0);
    char *s = wr_arena_strndup(a, "abcdef", 3);
    assert_string_equal(s, "abc");
    assert_string_equal(wr_arena_strndup(a, NULL, 0), "");
    wr_slice d = wr_arena_dup(a, wr_slice_of("x\0y", 3));
    assert_true(wr_slice_eq(d, wr_slice_of("x\0y", 3)));
    assert_int_equal(wr_arena_dup(a, (wr_slice){0}).n, 0);
    uint8_t *z = wr_arena_zalloc(a, 500);
    for (int i = 0; i < 500; i++) assert_int_equal(z[i], 0);
    wr_arena_free(a);
}

static void no_memory_is_an_answer(void **st) {
    wr_mem_fail_after(1);
    assert_null(wr_arena_new(0));
    wr_arena *a = wr_arena_new(0);
    wr_mem_fail_after(1);
    assert_null(wr_arena_alloc(a, 10));
    assert_int_equal(wr_arena_used(a), 0);
    assert_non_null(wr_arena_alloc(a, 10));
    wr_mem_fail_after(1);
    assert_null(wr_arena_dup(a, wr_slice_of((uint8_t[70000]){0}, 70000)).p);
    wr_mem_fail_after(0);
    wr_arena_free(a);
}

int main(void) {
    const struct CMUnitTest t[] = {
        cmocka_unit_test(allocations_are_aligned_and_do_not_overlap),
        cmocka_unit_test(the_limit_refuses_and_reset_gives_room_again),
        cmocka_unit_test(copies_are_exact),
        cmocka_unit_test(no_memory_is_an_answer),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
