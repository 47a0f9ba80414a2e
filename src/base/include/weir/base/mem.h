/* Heap. All of Weir's own allocations come through here, so that tests can make each fail in turn.
 * @thread any */
#ifndef WEIR_BASE_MEM_H
#define WEIR_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

void *wr_malloc(size_t n); /* NULL on failure, like malloc; n == 0 gives a unique pointer */
void *wr_calloc(size_t n, size_t size);
void *wr_realloc(void *p, size_t n);
void wr_free(void *p);
char *wr_strdup(const char *s);
char *wr_strndup(const char *s, size_t n); /* at most n bytes, ends at a NUL before that */
char *wr_asprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Test hook: the n-th allocation from now on this thread fails, once (1 = next); 0 switches it off.
 * Returns what was left of the last call: 0 = it has happened (or was off), else that many allocations were not made.
 */
uint64_t wr_mem_fail_after(uint64_t n);

static inline void wr_free_p_(void *pp) { wr_free(*(void **)pp); }
/* `WR_AUTO char *s = ...;` frees s at the end of the scope. */
#define WR_AUTO __attribute__((cleanup(wr_free_p_)))
/* `return WR_STEAL(s)` gives an owned local away. */
#define WR_STEAL(p)                                                                                                    \
    ({                                                                                                                 \
        __typeof__(p) wr_steal_ = (p);                                                                                 \
        (p) = NULL;                                                                                                    \
        wr_steal_;                                                                                                     \
    })
#define WR_CLEANUP(fn) __attribute__((cleanup(fn)))

#endif
