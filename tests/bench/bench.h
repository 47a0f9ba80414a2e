/* What the lake's bench programs share. */
#ifndef WEIR_TESTS_BENCH_H
#define WEIR_TESTS_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "weir/base/err.h"

static inline double wall_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static inline void must(wr_code rc, const wr_err *err) {
    if (rc == WR_OK) return;
    fprintf(stderr, "%s: %s\n", wr_code_name(rc), err->msg);
    exit(1);
}
static inline uint64_t rnd(uint64_t *x) {
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x;
}

#endif
