#include "weir/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t us_of(clockid_t id) {
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t wr_mono_us(void) { return us_of(CLOCK_MONOTONIC); }

/* By how much WEIR_CLOCK shifts the wall clock. Threads may read the file side by side: each of them gets what is in it. */
static int64_t shift_us(void) {
    static _Atomic int known; /* 1 = no file, 2 = a file */
    static _Atomic int64_t shift, look_at;
    if (known == 1) return 0;
    const char *path = getenv("WEIR_CLOCK");
    known = path ? 2 : 1;
    if (!path || wr_mono_us() < look_at) return shift;
    look_at = wr_mono_us() + 50000;
    FILE *f = fopen(path, "re");
    double seconds;
    if (f && fscanf(f, "%lf", &seconds) == 1) shift = (int64_t)(seconds * 1e6);
    if (f) fclose(f);
    return shift;
}

int64_t wr_now_us(void) { return us_of(CLOCK_REALTIME) + shift_us(); }

void wr_cond_init(pthread_cond_t *c) {
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(c, &a);
    pthread_condattr_destroy(&a);
}

struct timespec wr_cond_until(int64_t ms) {
    int64_t us = wr_mono_us() + ms * 1000;
    return (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
}

char *wr_iso_time(int64_t us, char buf[32]) {
    int64_t frac = us % 1000000;
    time_t sec = us / 1000000;
    if (frac < 0) frac += 1000000, sec--;
    struct tm tm;
    /* gmtime_r cannot fail here: 2^63 microseconds are 292,271 years, far below tm_year's range. */
    memset(&tm, 0, sizeof tm);
    gmtime_r(&sec, &tm);
    snprintf(buf, 32, "%04ld-%02u-%02uT%02u:%02u:%02u.%03uZ", (long)tm.tm_year + 1900, (unsigned)(tm.tm_mon + 1) % 100,
             (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
             (unsigned)tm.tm_sec % 100, (unsigned)(frac / 1000) % 1000);
    return buf;
}
