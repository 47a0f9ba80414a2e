#include "world.h"
#include "index.h"

typedef struct entry {
    wr_key key;
    uint32_t row;
} entry;

static int newest(const entry *e, int n, wr_key key) {
    for (int i = n - 1; i >= 0; i--)
        if (wr_key_eq(e[i].key, key)) return i;
    return -1;
}

static void compare_with_model(uint64_t seed, int ops, uint64_t nkeys, bool hashes) {
    world w = {.rng = seed};
    entry *model = calloc((size_t)ops, sizeof *model);
    int n = 0;
    uint32_t rows = 0;
    wr_pending *p = wr_pending_new();
    for (int i = 0; i < ops; i++) {
        uint64_t k = w_rnd(&w) % nkeys;
        wr_key key = hashes ? (wr_key){k * 0x9E3779B97F4A7C15ull, k} : (wr_key){0, k << w_below(&w, 1)};
        int what = w_below(&w, 10), at = newest(model, n, key);
        if (what < 5) {
            rows += w_below(&w, 20) == 0; /* a row that was never added */
            assert_true(wr_pending_add(p, key, rows));
            assert_true(wr_key_eq(wr_pending_keys(p)[rows], key));
            model[n++] = (entry){key, rows++};
        } else if (what < 9) {
            uint32_t got = wr_pending_pop(p, key);
            assert_int_equal(got, at < 0 ? WR_NO_ROW : model[at].row);
            if (at >= 0) memmove(model + at, model + at + 1, sizeof *model * (size_t)(--n - at));
        } else {
            assert_int_equal(wr_pending_find(p, key), at < 0 ? WR_NO_ROW : model[at].row);
        }
        if (w_below(&w, 3000) == 0) wr_pending_clear(p), n = 0, rows = 0;
    }
    wr_pending_free(p);
    free(model);
}

static void it_agrees_with_a_list_for_few_and_many_keys(void **st) {
    (void)st;
    const uint64_t nkeys[] = {1, 2, 7, 50, 700, 100000};
    for (uint64_t seed = 1; seed <= 4; seed++)
        for (int i = 0; i < 6; i++) compare_with_model(seed * 77 + (uint64_t)i, 8000, nkeys[i], i % 2);
}

static void keys_that_come_and_go_do_not_make_it_grow(void **st) {
    (void)st;
    wr_pending *p = wr_pending_new();
    size_t bytes = 0;
    for (uint32_t i = 0; i < 300000; i++) {
        assert_true(wr_pending_add(p, (wr_key){0, i}, i % 1000)); /* rows stay low: only slots could grow */
        assert_int_equal(wr_pending_pop(p, (wr_key){0, i}), i % 1000);
        if (i == 2000) bytes = wr_pending_bytes(p);
    }
    assert_int_equal(wr_pending_bytes(p), bytes);
    wr_pending_free(p);
}

static void a_failed_allocation_leaves_it_as_it_was(void **st) {
    (void)st;
    wr_pending *p = wr_pending_new();
    uint32_t row = 0, added[400];
    int n = 0;
    for (int i = 0; i < 400; i++, row++) {
        wr_mem_fail_after(1 + (uint64_t)i % 3);
        bool ok = wr_pending_add(p, (wr_key){1, (uint64_t)i}, row);
        wr_mem_fail_after(0);
        added[i] = ok ? row : WR_NO_ROW;
        n += ok;
        for (int j = 0; j <= i; j++) assert_int_equal(wr_pending_find(p, (wr_key){1, (uint64_t)j}), added[j]);
    }
    assert_true(n > 300 && n < 400);
    wr_pending_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_a_list_for_few_and_many_keys),
        cmocka_unit_test(keys_that_come_and_go_do_not_make_it_grow),
        cmocka_unit_test(a_failed_allocation_leaves_it_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
