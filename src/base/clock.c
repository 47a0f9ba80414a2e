#include "weir/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t us_of(clockid_t id) {
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t wr_now_us(void) { return us_of(CLOCK_REALTIME); }
int64_t wr_mono_us(void) { return us_of(CLOCK_MONOTONIC); }

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
