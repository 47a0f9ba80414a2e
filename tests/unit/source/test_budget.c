/* The budget that processes share: limits hold for all together, and nobody who dies keeps anything. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "mysql/budget.h"
#include "weir/base/clock.h"

#define PROCESSES 3

typedef struct shared { uint64_t rows; int reading, reading_most; } shared;

static char dir[] = "/tmp/weir-budget-XXXXXX", path[64];

static int set_up(void **state) {
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/budget", dir);
    return 0;
}

static int tear_down(void **state) { return unlink(path) | rmdir(dir); }

static wr_budget *budget(const char *at, uint64_t rate, int readers) {
    wr_err err = WR_ERR_INIT;
    wr_budget *b;
    assert_int_equal(wr_budget_new(at, rate, readers, &b, &err), WR_OK);
    return b;
}

static shared *share(void) {
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s, MAP_FAILED);
    return memset(s, 0, sizeof *s);
}

static void read_rows(shared *s, uint64_t rate, int step, int64_t until) {
    wr_budget *b = budget(path, rate, 0);
    while (wr_mono_us() < until) {
        wr_budget_rows(b, step + 20);
        wr_budget_rows(b, -20); /* there were not so many */
        if (wr_mono_us() < until) __atomic_add_fetch(&s->rows, (uint64_t)step, __ATOMIC_RELAXED);
    }
    _exit(0);
}

static void rows_of_all_processes_stay_within_the_rate(void **state) {
    unlink(path);
    shared *s = share();
    int64_t began = wr_mono_us(), until = began + 2000000;
    pid_t pid[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        if (!(pid[i] = fork())) read_rows(s, 2000, 50, until);
    usleep(700000);
    kill(pid[0], SIGKILL);
    for (int i = 0; i < PROCESSES; i++) waitpid(pid[i], NULL, 0);
    double rate = (double)s->rows / 2.0;
    if (rate > 2100 || rate < 1000) fail_msg("%.0f rows a second", rate);
    munmap(s, sizeof *s);
}

static void who_was_idle_has_one_second_and_no_more(void **state) {
    unlink(path);
    wr_budget *b = budget(path, 1000, 0), *other = budget(path, 1000, 0);
    wr_budget_rows(b, 10);
    usleep(1500000);
    int64_t at = wr_mono_us();
    wr_budget_rows(other, 900); /* what b did not take */
    assert_true(wr_mono_us() - at < 300000);
    wr_budget_rows(b, 400);
    assert_true(wr_mono_us() - at > 200000);
    wr_budget_free(b), wr_budget_free(other);
}

static void a_file_of_another_boot_or_of_nonsense_begins_anew(void **state) {
    static const char *const contents[] = {"", "nonsense of some length, whatever it is", "WEIRBDG1\1\1\1\1\1\1\1\1\377\377\377\377\377\377\377\177"};
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        FILE *f = fopen(path, "w");
        fputs(contents[i], f);
        fclose(f);
        wr_budget *b = budget(path, 1000, 0);
        int64_t at = wr_mono_us();
        wr_budget_rows(b, 50);
        assert_in_range(wr_mono_us() - at, 40000, 1000000);
        wr_budget_free(b);
    }
}

static void read_statements(shared *s, int64_t until) {
    wr_budget *b = budget(path, 0, 2);
    while (wr_mono_us() < until) {
        wr_budget_slot slot;
        wr_budget_enter(b, &slot);
        int n = __atomic_add_fetch(&s->reading, 1, __ATOMIC_SEQ_CST), most = __atomic_load_n(&s->reading_most, __ATOMIC_SEQ_CST);
        while (n > most && !__atomic_compare_exchange_n(&s->reading_most, &most, n, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
        __atomic_add_fetch(&s->rows, 1, __ATOMIC_RELAXED);
        usleep(20000);
        __atomic_sub_fetch(&s->reading, 1, __ATOMIC_SEQ_CST);
        wr_budget_leave(b, &slot);
    }
    _exit(0);
}

static void statements_of_all_processes_are_limited_and_counted(void **state) {
    shared *s = share();
    int64_t until = wr_mono_us() + 1000000;
    for (int i = 0; i < PROCESSES; i++)
        if (!fork()) read_statements(s, until);
    while (wait(NULL) > 0) {}
    assert_int_equal(s->reading_most, 2);
    assert_true(s->rows > 20);
    wr_budget *b = budget(path, 0, 2);
    wr_budget_slot one, two;
    assert_int_equal(wr_budget_reading(b), 0);
    wr_budget_enter(b, &one);
    pid_t pid = fork();
    if (!pid) {
        wr_budget *mine = budget(path, 0, 2);
        wr_budget_enter(mine, &two);
        pause();
    }
    while (wr_budget_reading(b) < 2) usleep(1000);
    kill(pid, SIGKILL); /* its slot is free with that */
    waitpid(pid, NULL, 0);
    assert_int_equal(wr_budget_reading(b), 1);
    wr_budget_enter(b, &two);
    wr_budget_leave(b, &one), wr_budget_leave(b, &two);
    assert_int_equal(wr_budget_reading(b), 0);
    wr_budget_free(b);
    munmap(s, sizeof *s);
}

static void without_a_file_a_process_keeps_its_own_limits(void **state) {
    const char *const paths[] = {NULL, "/nonexistent/budget"};
    for (int i = 0; i < 2; i++) {
        wr_budget *b = budget(paths[i], 1000, 1);
        wr_budget_slot slot;
        int64_t at = wr_mono_us();
        wr_budget_rows(b, 100);
        wr_budget_rows(b, 100);
        assert_in_range(wr_mono_us() - at, 190000, 2000000);
        wr_budget_enter(b, &slot);
        assert_int_equal(wr_budget_reading(b), 1);
        wr_budget_leave(b, &slot);
        assert_int_equal(wr_budget_reading(b), 0);
        wr_budget_free(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_all_processes_stay_within_the_rate), cmocka_unit_test(who_was_idle_has_one_second_and_no_more), cmocka_unit_test(a_file_of_another_boot_or_of_nonsense_begins_anew),
        cmocka_unit_test(statements_of_all_processes_are_limited_and_counted), cmocka_unit_test(without_a_file_a_process_keeps_its_own_limits),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
