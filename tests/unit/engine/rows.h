/* Schemas and rows for the engine's tests. */
#ifndef WEIR_TESTS_ENGINE_ROWS_H
#define WEIR_TESTS_ENGINE_ROWS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <math.h>
#include "weir/base/mem.h"
#include "weir/engine.h"

#define T(k) ((wr_type){.kind = (k)})
#define DEC(p, s) ((wr_type){.kind = WR_DECIMAL, .precision = (p), .scale = (s)})

#define assert_ok(expr)                                                                                                \
    do {                                                                                                               \
        wr_err e_ = WR_ERR_INIT, *err = &e_;                                                                           \
        wr_code rc_ = (expr);                                                                                          \
        if (rc_ != WR_OK) fail_msg("%s: %s: %s", #expr, wr_code_name(rc_), err->msg);                                  \
    } while (0)

/* Columns "c0", "c1", ... of the types, nullable, with ids 1, 2, ... */
static inline wr_schema *schema_of(const wr_type *types, int n) {
    wr_column cols[64] = {0};
    char names[64][16];
    for (int i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "c%d", i);
        cols[i] = (wr_column){.name = names[i], .id = i + 1, .type = types[i], .nullable = true};
    }
    wr_schema *s = NULL;
    assert_ok(wr_schema_new(cols, n, 1, &s, err));
    return s;
}

static inline wr_value vnull(void) { return (wr_value){.null = true}; }
static inline wr_value vint(int32_t x) { return (wr_value){.i32 = x}; }
static inline wr_value vlong(int64_t x) { return (wr_value){.i64 = x}; }
static inline wr_value vf32(float x) { return (wr_value){.f32 = x}; }
static inline wr_value vf64(double x) { return (wr_value){.f64 = x}; }
static inline wr_value vdec(__int128 x) { return (wr_value){.dec = x}; }
static inline wr_value vbytes(const void *p, size_t n) { return (wr_value){.s = wr_slice_of(p, n)}; }
static inline wr_value vstr(const char *s) { return (wr_value){.s = wr_slice_str(s)}; }
static inline wr_value vbool(bool x) { return (wr_value){.b = x}; }

static inline void row_of(wr_buf *b, const wr_schema *s, const wr_value *vals) {
    size_t at = wr_row_begin(b, s->ncols);
    for (int i = 0; i < s->ncols; i++) wr_row_put(b, at, i, s->cols[i].type, &vals[i]);
    assert_false(b->failed);
}
static inline void add(wr_batch *b, const wr_schema *s, const wr_value *vals) {
    WR_AUTO_BUF wr_buf row = WR_BUF_INIT;
    row_of(&row, s, vals);
    assert_ok(wr_batch_append(b, wr_buf_view(&row), err));
}

static const wr_type all_kinds[] = {
    {WR_BOOL},          {WR_INT},           {WR_LONG},           {WR_FLOAT},           {WR_DOUBLE},
    {WR_DECIMAL, 4, 2}, {WR_DECIMAL, 9, 0}, {WR_DECIMAL, 18, 6}, {WR_DECIMAL, 38, 10}, {WR_DECIMAL, 20, 2},
    {WR_DATE},          {WR_TIMESTAMP},     {WR_TIMESTAMPTZ},    {WR_STRING},          {WR_BINARY},
    {WR_FLOATS},
};
enum { NKINDS = sizeof all_kinds / sizeof *all_kinds };

static inline uint64_t rnd(uint64_t *x) {
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x;
}

/* A row of all kinds; one value in null_in is null (0 = none). Text goes to room. */
static inline void random_values(wr_value v[NKINDS], uint64_t *seed, unsigned null_in, uint8_t room[256]) {
    static const __int128 limit[] = {[5] = 9999, [6] = 999999999, [7] = 999999999999999999, [8] = 0, [9] = 0};
    for (int i = 0; i < NKINDS; i++) {
        uint64_t r = rnd(seed);
        v[i] = (wr_value){0};
        if (null_in && rnd(seed) % null_in == 0) {
            v[i].null = true;
            continue;
        }
        switch (all_kinds[i].kind) {
        case WR_BOOL:
            v[i].b = r & 1;
            break;
        case WR_INT:
            v[i].i32 = (int32_t)r;
            break;
        case WR_LONG:
            v[i].i64 = (int64_t)r;
            break;
        case WR_FLOAT:
            v[i].f32 = r % 20 == 0 ? NAN : (float)(int64_t)r / 1e9f;
            break;
        case WR_DOUBLE:
            v[i].f64 = r % 20 == 0 ? NAN : (double)(int64_t)r / 1e9;
            break;
        case WR_DECIMAL:
            if (limit[i])
                v[i].dec = (int64_t)r % (int64_t)limit[i];
            else
                v[i].dec = i == 8 ? (__int128)(int64_t)r * 1000000000000000000 : (__int128)(int64_t)r * 7;
            break;
        case WR_DATE:
            v[i].i32 = (int32_t)(r % 40000) - 10000;
            break;
        case WR_TIMESTAMP:
        case WR_TIMESTAMPTZ:
            v[i].i64 = (int64_t)(r % 4000000000000000) - 1000000000000000;
            break;
        case WR_STRING: {
            int n = snprintf((char *)room, 128, "%.*s%llu \xc3\xa9", (int)(r % 40),
                             "the quick brown fox jumps over the lazy dog", (unsigned long long)r % 1000);
            v[i].s = wr_slice_of(room, r % 10 == 0 ? 0 : (size_t)n);
            break;
        }
        case WR_BINARY:
            for (int k = 0; k < 20; k++) room[128 + k] = (uint8_t)rnd(seed);
            v[i].s = wr_slice_of(room + 128, r % 21);
            break;
        case WR_FLOATS:
            for (int k = 0; k < 5; k++) {
                float f = (float)(rnd(seed) % 1000) / 8;
                memcpy(room + 200 + 4 * k, &f, 4);
            }
            v[i].s = wr_slice_of(room + 200, r % 6 * 4);
            break;
        default:
            abort();
        }
    }
}

/* A path below a folder of this process that the test removes with rm_tmp. */
static inline const char *tmp_path(char out[128], const char *name) {
    snprintf(out, 128, "/tmp/weir-engine-%d-%s", (int)getpid(), name);
    unlink(out);
    return out;
}

#endif
