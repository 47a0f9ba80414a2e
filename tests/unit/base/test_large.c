#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include <pthread.h>
#include "weir/base/large.h"

static size_t resident_pages(void) {
    size_t all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%zu %zu", &all, &resident), 2);
    fclose(f);
    return resident;
}

/* The copy is whole, what is around the original stays, and both together never take more than one of them. */
static void what_is_moved_is_there_once(void **state) {
    enum { N = (96 << 20) + 12345, AT = 4711 };
    char *from = malloc(N + 2 * AT), *to = malloc(N);
    assert_true(from && to);
    for (size_t i = 0; i < N + 2 * AT; i++) from[i] = (char)(i * 131 >> 5 | 1);
    size_t before = resident_pages();
    wr_large_move(to, from + AT, N);
    assert_true(resident_pages() < before + (8u << 20) / (size_t)sysconf(_SC_PAGESIZE));
    for (size_t i = 0; i < N; i++)
        if (to[i] != (char)((i + AT) * 131 >> 5 | 1)) fail_msg("byte %zu", i);
    for (size_t i = 0; i < AT; i++) assert_int_equal(from[i], (char)(i * 131 >> 5 | 1));
    for (size_t i = N + AT; i < N + 2 * AT; i++) assert_int_equal(from[i], (char)(i * 131 >> 5 | 1));
    free(from), free(to);
}

static int inside, most;

static void *come_and_go(void *arg) {
    for (int i = 0; i < 200; i++) {
        bool held = false;
        wr_large_hold(&held);
        wr_large_hold(&held);
        wr_large_enter(); /* again, by the same thread */
        int now = __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
        if (now > most) most = now;
        usleep(10);
        __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
        wr_large_leave();
        wr_large_let_go(&held);
        wr_large_let_go(&held);
        assert_false(held);
    }
    return NULL;
}

static void one_thread_is_inside_at_a_time(void **state) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, come_and_go, NULL), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_int_equal(most, 1);
}

int main(void) {
    const struct CMUnitTest t[] = {cmocka_unit_test(what_is_moved_is_there_once), cmocka_unit_test(one_thread_is_inside_at_a_time)};
    return cmocka_run_group_tests(t, NULL, NULL);
}
