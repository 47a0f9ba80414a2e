#include "weir/base/mem.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local uint64_t fail_in; /* 0 = off, n = the n-th allocation from here fails */

uint64_t wr_mem_fail_after(uint64_t n) {
    uint64_t left = fail_in;
    fail_in = n;
    return left;
}

static inline bool must_fail(void) { return __builtin_expect(fail_in != 0, 0) && --fail_in == 0; }

void *wr_malloc(size_t n) { return must_fail() ? NULL : malloc(n ? n : 1); }

void *wr_calloc(size_t n, size_t size) {
    if (must_fail()) return NULL;
    return n && size ? calloc(n, size) : calloc(1, 1);
}

void *wr_realloc(void *p, size_t n) { return must_fail() ? NULL : realloc(p, n ? n : 1); }

void wr_free(void *p) { free(p); }

static char *dup_bytes(const char *s, size_t len) {
    char *d = wr_malloc(len + 1);
    if (!d) return NULL;
    memcpy(d, s, len);
    d[len] = 0;
    return d;
}

char *wr_strndup(const char *s, size_t n) { return dup_bytes(s, strnlen(s, n)); }
char *wr_strdup(const char *s) { return dup_bytes(s, strlen(s)); }

char *wr_asprintf(const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *s = n < 0 ? NULL : wr_malloc((size_t)n + 1);
    if (s) vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}
