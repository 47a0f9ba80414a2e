#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "weir/base/map.h"
#include "weir/base/mem.h"

static wr_slice key_of(char buf[32], int i) { return wr_slice_of(buf, (size_t)snprintf(buf, 32, "key %d", i)); }

static void a_map_agrees_with_an_array_under_random_use(void **st) {
    enum { N = 3000 };
    static int have[N], value[N];
    char buf[32];
    wr_map *m = wr_map_new();
    wr_u64map *u = wr_u64map_new();
    size_t n = 0;
    srand(1);
    memset(have, 0, sizeof have);
    for (int round = 0; round < 200000; round++) {
        int i = rand() % N;
        void *want = have[i] ? &value[have[i] - 1] : NULL;
        uint64_t id = (uint64_t)i << 40 | (uint64_t)i; /* the high bits count too */
        switch (rand() % 3) {
        case 0:
            n += !have[i];
            have[i] = rand() % N + 1;
            assert_true(wr_map_put(m, key_of(buf, i), &value[have[i] - 1]));
            assert_true(wr_u64map_put(u, id, &value[have[i] - 1]));
            break;
        case 1:
            assert_ptr_equal(wr_map_del(m, key_of(buf, i)), want);
            assert_ptr_equal(wr_u64map_del(u, id), want);
            n -= have[i] != 0;
            have[i] = 0;
            break;
        default:
            assert_ptr_equal(wr_map_get(m, key_of(buf, i)), want);
            assert_ptr_equal(wr_u64map_get(u, id), want);
        }
        assert_int_equal(wr_map_len(m), n);
        assert_int_equal(wr_u64map_len(u), n);
    }
    wr_map_free(m, NULL);
    wr_u64map_free(u, NULL);
}

typedef struct seen {
    wr_map *m;
    char text[64];
} seen;

static void note(void *ctx, wr_slice key, void *value) {
    seen *s = ctx;
    memcpy(s->text + strlen(s->text), key.p, key.n);
    strcat(s->text, ",");
    if (key.n == 1 && key.p[0] == 'b') wr_map_del(s->m, wr_slice_str("c"));
}

static void entries_come_in_insertion_order_and_deleted_ones_are_passed_over(void **st) {
    seen s = {.m = wr_map_new()};
    int v;
    for (const char *k = "dabce"; *k; k++) assert_true(wr_map_put(s.m, wr_slice_of(k, 1), &v));
    wr_map_del(s.m, wr_slice_str("d"));
    wr_map_put(s.m, wr_slice_str("a"), &s); /* replacing keeps the place */
    wr_map_each(s.m, note, &s);
    assert_string_equal(s.text, "a,b,e,");
    wr_map_free(s.m, NULL);
}

static void add_up(void *ctx, uint64_t key, void *value) { *(uint64_t *)ctx = *(uint64_t *)ctx * 10 + key; }

static void integer_entries_come_in_insertion_order(void **st) {
    wr_u64map *m = wr_u64map_new();
    uint64_t sum = 0;
    for (uint64_t k = 3; k > 0; k--) wr_u64map_put(m, k, m);
    wr_u64map_del(m, 2);
    wr_u64map_each(m, add_up, &sum);
    assert_int_equal(sum, 31);
    wr_u64map_free(m, NULL);
}

static void keys_are_bytes_and_copied(void **st) {
    char k[] = {'a', 0, 'b'};
    int one, two, none;
    wr_map *m = wr_map_new();
    wr_map_put(m, wr_slice_of(k, 3), &one);
    wr_map_put(m, wr_slice_of(k, 2), &two);
    wr_map_put(m, (wr_slice){0}, &none);
    memset(k, 'z', 3);
    assert_ptr_equal(wr_map_get(m, wr_slice_of("a\0b", 3)), &one);
    assert_ptr_equal(wr_map_get(m, wr_slice_of("a\0", 2)), &two);
    assert_ptr_equal(wr_map_get(m, wr_slice_str("")), &none);
    assert_null(wr_map_get(m, wr_slice_str("zzz")));
    wr_map_free(m, NULL);
    wr_map_free(NULL, NULL);
    wr_u64map_free(NULL, NULL);
}

static void values_are_freed_with_the_map(void **st) {
    char buf[32];
    wr_map *m = wr_map_new();
    for (int i = 0; i < 100; i++) wr_map_put(m, key_of(buf, i), wr_malloc(10));
    wr_free(wr_map_del(m, key_of(buf, 50)));
    wr_map_free(m, wr_free);
}

static void each_failed_allocation_leaves_the_map_as_it_was(void **st) {
    char buf[32];
    int v;
    for (uint64_t fail = 1;; fail++) {
        wr_mem_fail_after(fail);
        wr_map *m = wr_map_new();
        size_t n = 0;
        for (int i = 0; m && i < 60; i++) {
            bool ok = wr_map_put(m, key_of(buf, i), &v);
            n += ok;
            assert_int_equal(wr_map_len(m), n);
            assert_int_equal(wr_map_get(m, key_of(buf, i)) != NULL, ok);
        }
        bool over = wr_mem_fail_after(0) > 0;
        if (m) assert_int_equal(n, over ? 60 : 59);
        wr_map_free(m, NULL);
        if (over) break;
    }
}

int main(void) {
    const struct CMUnitTest t[] = {
        cmocka_unit_test(a_map_agrees_with_an_array_under_random_use),
        cmocka_unit_test(entries_come_in_insertion_order_and_deleted_ones_are_passed_over),
        cmocka_unit_test(integer_entries_come_in_insertion_order),
        cmocka_unit_test(keys_are_bytes_and_copied),
        cmocka_unit_test(values_are_freed_with_the_map),
        cmocka_unit_test(each_failed_allocation_leaves_the_map_as_it_was),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
