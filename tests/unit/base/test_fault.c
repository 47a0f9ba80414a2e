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
#include <unistd.h>
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"

static void nothing_fails_unless_asked(void **st) {
    assert_true(wr_fault_set(NULL));
    assert_false(WR_FAULT("a"));
}

static void the_nth_pass_of_the_named_point_fails(void **st) {
    assert_true(wr_fault_set("a:2:fail,b:1:fail,a:4:fail"));
    assert_false(WR_FAULT("a"));
    assert_true(WR_FAULT("a"));
    assert_true(WR_FAULT("b"));
    assert_false(WR_FAULT("b"));
    assert_false(WR_FAULT("a"));
    assert_true(WR_FAULT("a"));
    assert_false(WR_FAULT("a"));
    assert_false(WR_FAULT("c"));
    wr_fault_set(NULL);
}

static void a_stall_takes_its_time_and_goes_on(void **st) {
    assert_true(wr_fault_set("a:1:stall=30"));
    int64_t t = wr_mono_us();
    assert_false(WR_FAULT("a"));
    assert_true(wr_mono_us() - t >= 30000);
    wr_fault_set(NULL);
}

static void kill_ends_the_process_with_sigkill(void **st) {
    pid_t pid = fork();
    if (pid == 0) {
        wr_fault_set("a:1:kill");
        _exit(WR_FAULT("a") ? 1 : 2);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void malformed_text_is_refused_and_nothing_is_armed(void **st) {
    const char *bad[] = {"a",        "a:1",        ":1:fail",     "a:0:fail",           "a:x:fail",
                         "a:1:boom", "a:1:stall=", "a:1:stall=x", "a:1:fail,,b:1:fail", "a:-1:fail"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(wr_fault_set(bad[i]));
        assert_false(WR_FAULT("a"));
    }
}

static void the_variable_is_read_at_start(void **st) {
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    const char *spec[] = {"self:1:fail", "self:1:bad"};
    int want[] = {42, 2};
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (i == 1 && !freopen("/dev/null", "w", stderr)) _exit(1);
            setenv("WEIR_FAULT", spec[i], 1);
            execl(self, self, "child", (char *)NULL);
            _exit(1);
        }
        int status;
        waitpid(pid, &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), want[i]);
    }
}

/* What a child says on `fd` when WEIR_FAULT is `spec`. */
static char *said(const char *spec, int fd, char out[static 4096]) {
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    int pipes[2], status;
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], fd);
        setenv("WEIR_FAULT", spec, 1);
        execl(self, self, "child", (char *)NULL);
        _exit(1);
    }
    close(pipes[1]);
    size_t have = 0;
    while ((n = read(pipes[0], out + have, 4095 - have)) > 0) have += (size_t)n;
    out[have] = 0;
    close(pipes[0]);
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    return out;
}

static void all_points_are_listed_and_those_passed_are_counted(void **st) {
    char out[4096];
    assert_string_equal(said("list", 1, out), "a\nb\nc\nself\n");
    assert_string_equal(said("count", 2, out), "fault point self: 1\n");
}

static void keep_line(void *ctx, wr_log_level level, const char *line) { snprintf(ctx, 64, "%d %s", level, line); }

static void log_lines_reach_the_sink_up_to_its_level(void **st) {
    char got[64] = "";
    wr_log(WR_LOG_ERROR, "nobody listens");
    wr_log_set(keep_line, got, WR_LOG_INFO);
    wr_log(WR_LOG_DEBUG, "too fine");
    assert_string_equal(got, "");
    wr_log(WR_LOG_INFO, "a\n%d", 5);
    assert_string_equal(got, "2 a 5");
    wr_log_set(NULL, NULL, WR_LOG_ERROR);
}

static void times_print_as_iso_8601(void **st) {
    char b[32];
    assert_string_equal(wr_iso_time(0, b), "1970-01-01T00:00:00.000Z");
    assert_string_equal(wr_iso_time(1795960800123456, b), "2026-11-29T14:00:00.123Z");
    assert_string_equal(wr_iso_time(-1, b), "1969-12-31T23:59:59.999Z");
    wr_iso_time(INT64_MAX, b);
    wr_iso_time(INT64_MIN, b);
    assert_true(wr_now_us() > 1700000000000000);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "child") == 0) return WR_FAULT("self") ? 42 : 0;
    const struct CMUnitTest t[] = {
        cmocka_unit_test(nothing_fails_unless_asked),
        cmocka_unit_test(the_nth_pass_of_the_named_point_fails),
        cmocka_unit_test(a_stall_takes_its_time_and_goes_on),
        cmocka_unit_test(kill_ends_the_process_with_sigkill),
        cmocka_unit_test(malformed_text_is_refused_and_nothing_is_armed),
        cmocka_unit_test(the_variable_is_read_at_start),
        cmocka_unit_test(all_points_are_listed_and_those_passed_are_counted),
        cmocka_unit_test(log_lines_reach_the_sink_up_to_its_level),
        cmocka_unit_test(times_print_as_iso_8601),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
