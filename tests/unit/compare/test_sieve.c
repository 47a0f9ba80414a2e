/* The sieve against a model: a table that changes while it is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "weir/base/mem.h"
#include "weir/compare.h"

static uint64_t seed = 88172645463325252ull;
static uint64_t rnd(uint64_t n) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed % n;
}

static wr_h128 key_of(uint64_t k) { return wr_hash128(&k, sizeof k); }

static const char *dir(void) { return getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp"; }

static wr_sieve *new_sieve(bool keyed, uint64_t memory) {
    wr_err err = WR_ERR_INIT;
    wr_sieve *s;
    assert_int_equal(wr_sieve_new(&(wr_sieve_options){.dir = dir(), .rows = 100000, .keyed = keyed, .memory_bytes = memory}, &s, &err), WR_OK);
    return s;
}

static void add(wr_sieve *s, wr_side side, bool absent, uint64_t key, uint64_t row, uint64_t where) {
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_sieve_add(s, side, absent, key_of(key), row, where, &err), WR_OK);
}

typedef struct seen { wr_difference d[2000]; int n; } seen;
static wr_code take(void *ctx, const wr_difference *d, wr_err *err) {
    seen *s = ctx;
    assert_true(s->n < 2000);
    s->d[s->n++] = *d;
    return WR_OK;
}

static wr_sieve_totals join(wr_sieve *s, const wr_sieve_bounds *b, seen *out) {
    wr_err err = WR_ERR_INIT;
    wr_sieve_totals t;
    assert_int_equal(wr_sieve_join(s, b, take, out, &t, &err), WR_OK);
    wr_sieve_free(s);
    return t;
}

/* A change of the model as pipeline/compare_rows.c tells it. */
static void tell_change(wr_sieve *s, uint64_t key, uint64_t was, uint64_t is, uint64_t seq) {
    if (is) add(s, WR_SIDE_AFTER, false, key, is, seq);
    else add(s, WR_SIDE_AFTER, true, key, 0, seq);
    if (was) add(s, WR_SIDE_BEFORE, false, key, was, seq);
    else add(s, WR_SIDE_BEFORE, true, key, 0, seq);
}

enum { KEYS = 400, CHANGES = 3000 };

/* The table is read key by key while changes go on; the lake is what the table was after `lake_at` changes, before, within or behind the reading. */
static void play(uint64_t lake_at, uint64_t from, uint64_t to, int damage, uint64_t memory) {
    uint64_t now[KEYS], lake[KEYS];
    wr_sieve *s = new_sieve(true, memory);
    int next = 0;
    uint64_t first = lake_at < from ? lake_at : from;
    for (int k = 0; k < KEYS; k++) now[k] = rnd(3) ? 1 + rnd(1000) : 0;
    for (uint64_t seq = 0; seq <= CHANGES; seq++) {
        if (seq) {
            uint64_t k = rnd(KEYS), was = now[k], is = rnd(3) ? 1 + rnd(1000) : 0;
            if (was || is) {
                now[k] = is;
                if (seq > first && (seq <= to || seq <= lake_at)) tell_change(s, k, was, is, seq);
            }
        }
        if (seq == lake_at) memcpy(lake, now, sizeof lake);
        for (; seq >= from && next < KEYS && (uint64_t)next <= (seq - from) * KEYS / (to - from ? to - from : 1); next++)
            if (now[next]) add(s, WR_SIDE_READ, false, (uint64_t)next, now[next], (uint64_t)next);
    }
    int missing = 0, surplus = 0, different = 0;
    for (int k = 0; k < KEYS; k++) {
        if (k < damage && lake[k] && k % 3 == 0) lake[k] = 0, missing++;
        else if (k < damage && lake[k]) lake[k] += 5000, different++;
        else if (k < damage) lake[k] = 7, surplus++;
        if (lake[k]) add(s, WR_SIDE_LAKE, false, (uint64_t)k, lake[k], (uint64_t)k);
    }
    seen out = {.n = 0};
    wr_sieve_totals t = join(s, &(wr_sieve_bounds){.lake_seq = lake_at}, &out);
    assert_int_equal(t.missing, missing);
    assert_int_equal(t.surplus, surplus);
    assert_int_equal(t.different, different);
    assert_int_equal(out.n, missing + surplus + different);
    for (int i = 0; i < out.n; i++)
        if (out.d[i].in_lake) assert_true(out.d[i].lake_where < (uint64_t)damage);
}

static void a_table_that_changes_while_it_is_read_is_equal_at_the_lakes_position(void **state) {
    for (int i = 0; i < 60; i++) {
        uint64_t from = rnd(CHANGES), to = from + rnd(CHANGES - from + 1);
        play(rnd(CHANGES + 1), from, to, 0, i % 2 ? 0 : 65536);
        play(from, from, to, 0, 0);
        play(to, from, to, 0, 0);
    }
}

static void every_damage_is_found_whatever_changes(void **state) {
    for (int i = 0; i < 60; i++) {
        uint64_t from = rnd(CHANGES), to = from + rnd(CHANGES - from + 1);
        play(rnd(CHANGES + 1), from, to, (int)rnd(50), i % 2 ? 0 : 65536);
    }
}

static void a_key_twice_in_the_lake_is_surplus(void **state) {
    wr_sieve *s = new_sieve(true, 0);
    seen out = {.n = 0};
    add(s, WR_SIDE_READ, false, 1, 10, 0);
    add(s, WR_SIDE_LAKE, false, 1, 10, 100), add(s, WR_SIDE_LAKE, false, 1, 10, 101);
    add(s, WR_SIDE_READ, false, 2, 20, 0);
    add(s, WR_SIDE_LAKE, false, 2, 21, 200), add(s, WR_SIDE_LAKE, false, 2, 20, 201);
    wr_sieve_totals t = join(s, &(wr_sieve_bounds){0}, &out);
    assert_int_equal(t.surplus, 2);
    assert_int_equal(t.source_rows, 2);
    assert_int_equal(t.lake_rows, 4);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(out.d[i].in_lake, 2);
        if (out.d[i].lake_where >= 200) assert_int_equal(out.d[i].lake_where, 200); /* the wrong one */
    }
}

static void changes_that_came_twice_count_once(void **state) {
    wr_sieve *s = new_sieve(true, 0);
    seen out = {.n = 0};
    const uint64_t from[] = {2}, to[] = {3};
    add(s, WR_SIDE_READ, false, 1, 10, 0);
    tell_change(s, 1, 10, 11, 2); /* taken back with its transaction, which then came without it */
    tell_change(s, 2, 0, 5, 3);
    tell_change(s, 2, 0, 5, 4);
    add(s, WR_SIDE_LAKE, false, 1, 10, 0), add(s, WR_SIDE_LAKE, false, 2, 5, 0);
    join(s, &(wr_sieve_bounds){.lake_seq = 4, .void_from = from, .void_to = to, .nvoid = 1}, &out);
    assert_int_equal(out.n, 0);
}

static void far_more_rows_than_were_expected_are_split_further(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_sieve *s;
    seen out = {.n = 0};
    assert_int_equal(wr_sieve_new(&(wr_sieve_options){.dir = dir(), .rows = 1, .keyed = true, .memory_bytes = 32768}, &s, &err), WR_OK);
    uint64_t memory = wr_sieve_memory(s);
    assert_true(memory < 32768);
    for (uint64_t k = 0; k < 200000; k++) {
        add(s, WR_SIDE_READ, false, k, k + 1, k);
        if (k % 20011 != 7) add(s, WR_SIDE_LAKE, false, k, k + 1 + (k % 30011 == 9), k);
    }
    wr_sieve_totals t = join(s, &(wr_sieve_bounds){0}, &out);
    assert_int_equal(t.source_rows, 200000);
    assert_int_equal(t.missing, 10);
    assert_int_equal(t.different, 7);
}

static void one_row_very_often_is_counted(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_sieve *s;
    seen out = {.n = 0};
    const uint64_t at[] = {0};
    assert_int_equal(wr_sieve_new(&(wr_sieve_options){.dir = dir(), .memory_bytes = 32768}, &s, &err), WR_OK);
    for (int i = 0; i < 20000; i++) add(s, WR_SIDE_READ, false, 1, 0, 0);
    for (int i = 0; i < 20001; i++) add(s, WR_SIDE_LAKE, false, 1, 0, 0);
    join(s, &(wr_sieve_bounds){.read_at = at}, &out);
    assert_int_equal(out.n, 1);
    assert_int_equal(out.d[0].in_source, 20000);
    assert_int_equal(out.d[0].in_lake, 20001);
}

/* Rows without a key are counted: read as of one place, the lake before or behind it. */
static void play_counts(uint64_t lake_at, uint64_t read_at, uint64_t member, bool damage) {
    uint64_t count[20] = {0}, lake[20] = {0}, read[20] = {0};
    const uint64_t at[] = {0, read_at};
    wr_sieve *s = new_sieve(false, 0);
    for (uint64_t seq = 0; seq <= 300; seq++) {
        if (seq) {
            uint64_t k = rnd(20);
            bool gone = count[k] && rnd(2);
            gone ? count[k]-- : count[k]++;
            add(s, WR_SIDE_AFTER, gone, k, member, seq);
            add(s, WR_SIDE_BEFORE, !gone, k, member, seq);
        }
        if (seq == lake_at) memcpy(lake, count, sizeof lake);
        if (seq == read_at) memcpy(read, count, sizeof read);
    }
    if (damage) lake[3] += 2;
    for (uint64_t k = 0; k < 20; k++) {
        for (uint64_t i = 0; i < read[k]; i++) add(s, WR_SIDE_READ, false, k, member, 0);
        for (uint64_t i = 0; i < lake[k]; i++) add(s, WR_SIDE_LAKE, false, k, 0, i);
    }
    seen out = {.n = 0};
    wr_sieve_totals t = join(s, &(wr_sieve_bounds){.lake_seq = lake_at, .read_at = at}, &out);
    assert_int_equal(out.n, damage);
    if (damage) assert_int_equal(out.d[0].in_lake - out.d[0].in_source, 2), assert_int_equal(t.surplus, 1);
}

static void rows_without_a_key_are_counted_at_the_lakes_position(void **state) {
    for (int i = 0; i < 200; i++) play_counts(rnd(301), rnd(301), 1, i % 2);
}

static void no_allocation_may_fail_unnoticed(void **state) {
    for (uint64_t n = 1;; n++) {
        wr_err err = WR_ERR_INIT;
        wr_sieve *s = NULL;
        seen out = {.n = 0};
        wr_sieve_totals t;
        wr_mem_fail_after(n);
        wr_code rc = wr_sieve_new(&(wr_sieve_options){.dir = dir(), .rows = 10, .keyed = true}, &s, &err);
        for (uint64_t k = 0; rc == WR_OK && k < 1200; k++) rc = wr_sieve_add(s, WR_SIDE_READ, false, key_of(k), k, k, &err);
        if (rc == WR_OK) rc = wr_sieve_join(s, &(wr_sieve_bounds){0}, take, &out, &t, &err);
        bool failed = wr_mem_fail_after(0) == 0;
        wr_sieve_free(s);
        if (!failed) break;
        assert_int_equal(rc, WR_E_NOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_that_changes_while_it_is_read_is_equal_at_the_lakes_position),
        cmocka_unit_test(every_damage_is_found_whatever_changes),
        cmocka_unit_test(a_key_twice_in_the_lake_is_surplus),
        cmocka_unit_test(changes_that_came_twice_count_once),
        cmocka_unit_test(far_more_rows_than_were_expected_are_split_further),
        cmocka_unit_test(one_row_very_often_is_counted),
        cmocka_unit_test(rows_without_a_key_are_counted_at_the_lakes_position),
        cmocka_unit_test(no_allocation_may_fail_unnoticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
