#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <errno.h>
#include <cmocka.h>

#include "weir/base/clock.h"

static char path[] = "/tmp/weir-clock-XXXXXX";

static void shift(const char *seconds) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(seconds, f);
    fclose(f);
    usleep(60000);
}

static void the_wall_clock_steps_and_the_other_one_does_not(void **st) {
    int64_t real = (int64_t)time(NULL) * 1000000, mono = wr_mono_us();
    shift("-7200");
    assert_in_range(real - wr_now_us(), INT64_C(7190000000), INT64_C(7210000000));
    shift("86400");
    assert_in_range(wr_now_us() - real, INT64_C(86390000000), INT64_C(86410000000));
    assert_in_range(wr_mono_us() - mono, 0, 10000000);
}

static void a_wait_ends_by_the_clock_that_does_not_step(void **st) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t c;
    wr_cond_init(&c);
    int64_t began = wr_mono_us();
    struct timespec ts = wr_cond_until(50);
    shift("-7200");
    pthread_mutex_lock(&m);
    int rc;
    do rc = pthread_cond_timedwait(&c, &m, &ts);
    while (rc == 0);
    pthread_mutex_unlock(&m);
    assert_int_equal(rc, ETIMEDOUT);
    assert_in_range(wr_mono_us() - began, 50000, 5000000);
    pthread_cond_destroy(&c);
}

int main(void) {
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, "0", 1) != 1) return 1;
    close(fd);
    setenv("WEIR_CLOCK", path, 1);
    const struct CMUnitTest t[] = {cmocka_unit_test(the_wall_clock_steps_and_the_other_one_does_not), cmocka_unit_test(a_wait_ends_by_the_clock_that_does_not_step)};
    int rc = cmocka_run_group_tests(t, NULL, NULL);
    unlink(path);
    return rc;
}
