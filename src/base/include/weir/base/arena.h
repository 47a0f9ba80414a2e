/* Memory that dies together: with a transaction, a batch or a request. The byte limit is the back-pressure.
 * @thread one at a time */
#ifndef WEIR_BASE_ARENA_H
#define WEIR_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>
#include "weir/base/buf.h"

typedef struct wr_arena wr_arena;

wr_arena *wr_arena_new(size_t limit_bytes); /* 0 = no limit; NULL when memory is out */
void wr_arena_free(wr_arena *a);
void wr_arena_reset(wr_arena *a);            /* frees everything in it, keeps one block */
void *wr_arena_alloc(wr_arena *a, size_t n); /* 16-byte aligned, uninitialised; NULL at the limit or without memory */
void *wr_arena_zalloc(wr_arena *a, size_t n);
char *wr_arena_strndup(wr_arena *a, const char *s, size_t n); /* exactly n bytes and a NUL */
wr_slice wr_arena_dup(wr_arena *a, wr_slice s);               /* .p NULL on failure when s.n > 0 */
size_t wr_arena_used(const wr_arena *a);                      /* bytes handed out, each rounded up to 16 */

#endif
