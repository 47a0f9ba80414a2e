#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include "weir/base/mem.h"
#include "weir/io.h"
#include "tmpdir.h"

/* A child that holds the lock until it is killed; returns when it has it. */
static pid_t holder(const char *path) {
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        wr_err e = WR_ERR_INIT;
        wr_lock *l;
        if (wr_lock_take(path, &l, &e) != WR_OK || write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    return pid;
}

static void another_process_holds_it_until_it_dies(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_lock *l = NULL;
    char text[32];
    int who = -5;
    pid_t pid = holder(in_dir("lock"));
    assert_int_equal(wr_lock_take(in_dir("lock"), &l, &e), WR_E_BUSY);
    assert_null(l);
    snprintf(text, sizeof text, "process %d", (int)pid);
    assert_non_null(strstr(e.msg, text));
    assert_int_equal(wr_lock_holder(in_dir("lock"), &who, &e), WR_OK);
    assert_int_equal(who, pid);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(wr_lock_holder(in_dir("lock"), &who, &e), WR_OK);
    assert_int_equal(who, 0);
    assert_int_equal(wr_lock_take(in_dir("lock"), &l, &e), WR_OK);
    wr_lock_release(l);
}

static void this_process_cannot_take_it_twice_and_asking_does_not_drop_it(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_lock *l, *m;
    int who;
    assert_int_equal(wr_lock_take(in_dir("lock"), &l, &e), WR_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wr_lock_take(in_dir("lock"), &m, &e), WR_E_BUSY);
        assert_int_equal(wr_lock_holder(in_dir("lock"), &who, &e), WR_OK);
        assert_int_equal(who, getpid());
    }
    wr_lock_release(l);
    assert_int_equal(wr_lock_take(in_dir("lock"), &l, &e), WR_OK);
    wr_lock_release(l);
    wr_lock_release(NULL);
}

static void a_lock_nobody_ever_took_has_no_holder(void **st) {
    wr_err e = WR_ERR_INIT;
    int who = 9;
    assert_int_equal(wr_lock_holder(in_dir("lock"), &who, &e), WR_OK);
    assert_int_equal(who, 0);
    assert_false(wr_file_exists(in_dir("lock")));
}

static void a_failure_to_take_it_leaves_it_free(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_lock *l;
    int who;
    wr_mem_fail_after(1);
    assert_int_equal(wr_lock_take(in_dir("lock"), &l, &e), WR_E_NOMEM);
    assert_int_equal(wr_lock_holder(in_dir("lock"), &who, &e), WR_OK);
    assert_int_equal(who, 0);
    assert_int_equal(wr_lock_take(in_dir("no/lock"), &l, &e), WR_E_NOTFOUND);
}

static void a_lock_whose_file_was_replaced_keeps_nobody_out(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_lock *ours = NULL, *theirs = NULL;
    assert_int_equal(wr_lock_take(in_dir("fence"), &ours, &e), WR_OK);
    assert_int_equal(wr_lock_check(ours, &e), WR_OK);
    assert_int_equal(remove(in_dir("fence")), 0);
    assert_int_equal(wr_lock_check(ours, &e), WR_E_BUSY);
    assert_int_equal(e.retry, WR_RETRY_NO);
    assert_int_equal(wr_lock_take(in_dir("fence"), &theirs, &e), WR_OK);
    assert_int_equal(wr_lock_check(ours, &e), WR_E_BUSY);
    assert_int_equal(wr_lock_check(theirs, &e), WR_OK);
    wr_lock_release(ours), wr_lock_release(theirs);
}

int main(void) {
    const struct CMUnitTest t[] = {
        IN_DIR(another_process_holds_it_until_it_dies),
        IN_DIR(this_process_cannot_take_it_twice_and_asking_does_not_drop_it),
        IN_DIR(a_lock_nobody_ever_took_has_no_holder),
        IN_DIR(a_failure_to_take_it_leaves_it_free),
        IN_DIR(a_lock_whose_file_was_replaced_keeps_nobody_out),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
