#include "weir/base/arena.h"
#include "weir/base/mem.h"

#define ALIGN 16u
#define BLOCK_MIN (16u << 10)
#define BLOCK_MAX (1u << 20)

typedef struct block {
    struct block *next; /* older */
    size_t cap;
    _Alignas(ALIGN) uint8_t data[];
} block;

struct wr_arena {
    block *top;         /* the one we cut from; oversized blocks go below it */
    uint8_t *at, *end;  /* free part of top */
    size_t used, limit; /* what was handed out, rounded up; 0 = no limit */
    size_t block_bytes; /* size of the next ordinary block */
};

wr_arena *wr_arena_new(size_t limit_bytes) {
    wr_arena *a = wr_calloc(1, sizeof *a);
    if (!a) return NULL;
    a->limit = limit_bytes;
    a->block_bytes = BLOCK_MIN;
    return a;
}

static void free_blocks(block *b) {
    while (b) {
        block *next = b->next;
        wr_free(b);
        b = next;
    }
}

void wr_arena_free(wr_arena *a) {
    if (!a) return;
    free_blocks(a->top);
    wr_free(a);
}

void wr_arena_reset(wr_arena *a) {
    a->used = 0;
    block *keep = a->top;
    if (!keep) return;
    /* The ordinary block on top is the largest one; the first would be too small for what this arena turned out to
     * hold. */
    free_blocks(keep->next);
    keep->next = NULL;
    a->at = keep->data;
    a->end = keep->data + keep->cap;
}

static void *alloc_slow(wr_arena *a, size_t n) {
    bool own = n > a->block_bytes / 4; /* would waste what is left of top */
    size_t cap = own && a->top ? n : a->block_bytes > n ? a->block_bytes : n;
    block *b = wr_malloc(sizeof *b + cap);
    if (!b) return NULL;
    b->cap = cap;
    if (own && a->top) {
        b->next = a->top->next;
        a->top->next = b;
        return b->data;
    }
    b->next = a->top;
    a->top = b;
    a->at = b->data + n;
    a->end = b->data + cap;
    if (a->block_bytes < BLOCK_MAX) a->block_bytes *= 2;
    return b->data;
}

void *wr_arena_alloc(wr_arena *a, size_t n) {
    if (__builtin_expect(n > SIZE_MAX / 4, 0)) return NULL;
    n = n ? (n + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    if (__builtin_expect(a->limit && n > a->limit - a->used, 0)) return NULL;
    void *p;
    if (__builtin_expect((size_t)(a->end - a->at) >= n, 1)) {
        p = a->at;
        a->at += n;
    } else {
        p = alloc_slow(a, n);
        if (!p) return NULL;
    }
    a->used += n;
    return p;
}

void *wr_arena_zalloc(wr_arena *a, size_t n) {
    void *p = wr_arena_alloc(a, n);
    if (p && n) memset(p, 0, n);
    return p;
}

char *wr_arena_strndup(wr_arena *a, const char *s, size_t n) {
    char *d = n < SIZE_MAX ? wr_arena_alloc(a, n + 1) : NULL;
    if (!d) return NULL;
    if (n) memcpy(d, s, n);
    d[n] = 0;
    return d;
}

wr_slice wr_arena_dup(wr_arena *a, wr_slice s) {
    if (s.n == 0) return (wr_slice){0};
    uint8_t *d = wr_arena_alloc(a, s.n);
    if (!d) return (wr_slice){0};
    memcpy(d, s.p, s.n);
    return (wr_slice){d, s.n};
}

size_t wr_arena_used(const wr_arena *a) { return a->used; }
