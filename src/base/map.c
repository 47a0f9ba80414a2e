/* Both maps are one structure: entries in insertion order, and an open-addressing table of indexes into them. A deleted
 * entry stays as a hole until the next rehash; its slot stays taken so that probe sequences through it hold. */
#include "weir/base/map.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

typedef struct entry {
    uint64_t h;  /* hash of the bytes, or the integer key itself */
    uint8_t *kp; /* owned; NULL for integer keys and empty byte keys */
    size_t kn;
    void *value;
    bool live;
} entry;

typedef struct core {
    entry *e;
    uint32_t n, cap; /* entries used (holes included) and allocated */
    uint32_t live;
    uint32_t *slot; /* index + 1 into e, 0 = empty; mask + 1 slots, always more than 4/3 n */
    uint32_t mask;
} core;

struct wr_map {
    core c;
};
struct wr_u64map {
    core c;
};

#define NONE UINT32_MAX
#define ENTRIES_MAX (1u << 30)

/* Integer keys are often small and consecutive: the finaliser of MurmurHash3 spreads them. */
static inline uint32_t spread(uint64_t h) {
    h ^= h >> 33, h *= 0xff51afd7ed558ccdULL, h ^= h >> 33;
    return (uint32_t)h;
}

static inline uint32_t find(const core *c, uint64_t h, const uint8_t *kp, size_t kn) {
    if (!c->slot) return NONE;
    for (uint32_t i = spread(h) & c->mask;; i = (i + 1) & c->mask) {
        uint32_t at = c->slot[i];
        if (at == 0) return NONE;
        const entry *e = &c->e[at - 1];
        if (e->live && e->h == h && e->kn == kn && (kn == 0 || memcmp(e->kp, kp, kn) == 0)) return at - 1;
    }
}

/* Room for one more entry: closes the holes, and doubles when there were few. */
static bool reserve(core *c) {
    if (c->n < c->cap) return true;
    uint32_t cap = c->live + 1 > c->cap / 2 ? (c->cap ? c->cap * 2 : 12) : c->cap;
    if (cap > ENTRIES_MAX) return false;
    uint32_t slots = 16;
    while (slots / 4 * 3 < cap) slots *= 2;
    entry *e = wr_malloc(cap * sizeof *e);
    uint32_t *slot = wr_calloc(slots, sizeof *slot);
    if (!e || !slot) {
        wr_free(e);
        wr_free(slot);
        return false;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (!c->e[i].live) continue;
        e[n] = c->e[i];
        uint32_t at = spread(e[n].h) & (slots - 1);
        while (slot[at]) at = (at + 1) & (slots - 1);
        slot[at] = ++n;
    }
    wr_free(c->e);
    wr_free(c->slot);
    *c = (core){.e = e, .n = n, .cap = cap, .live = n, .slot = slot, .mask = slots - 1};
    return true;
}

static bool put(core *c, uint64_t h, const uint8_t *kp, size_t kn, void *value) {
    uint32_t i = find(c, h, kp, kn);
    if (i != NONE) {
        c->e[i].value = value;
        return true;
    }
    if (!reserve(c)) return false;
    uint8_t *key = NULL;
    if (kn) {
        key = wr_malloc(kn);
        if (!key) return false;
        memcpy(key, kp, kn);
    }
    uint32_t at = spread(h) & c->mask;
    while (c->slot[at]) at = (at + 1) & c->mask;
    c->e[c->n] = (entry){.h = h, .kp = key, .kn = kn, .value = value, .live = true};
    c->slot[at] = ++c->n;
    c->live++;
    return true;
}

static void *del(core *c, uint64_t h, const uint8_t *kp, size_t kn) {
    uint32_t i = find(c, h, kp, kn);
    if (i == NONE) return NULL;
    void *value = c->e[i].value;
    wr_free(c->e[i].kp);
    c->e[i].kp = NULL;
    c->e[i].live = false;
    c->live--;
    return value;
}

static void clear(core *c, void (*free_value)(void *)) {
    for (uint32_t i = 0; i < c->n; i++) {
        if (!c->e[i].live) continue;
        if (free_value) free_value(c->e[i].value);
        wr_free(c->e[i].kp);
    }
    wr_free(c->e);
    wr_free(c->slot);
}

wr_map *wr_map_new(void) { return wr_calloc(1, sizeof(wr_map)); }

void wr_map_free(wr_map *m, void (*free_value)(void *)) {
    if (!m) return;
    clear(&m->c, free_value);
    wr_free(m);
}

void *wr_map_get(const wr_map *m, wr_slice key) {
    uint32_t i = find(&m->c, wr_hash64(key.p, key.n, 0), key.p, key.n);
    return i == NONE ? NULL : m->c.e[i].value;
}

bool wr_map_put(wr_map *m, wr_slice key, void *value) {
    return put(&m->c, wr_hash64(key.p, key.n, 0), key.p, key.n, value);
}

void *wr_map_del(wr_map *m, wr_slice key) { return del(&m->c, wr_hash64(key.p, key.n, 0), key.p, key.n); }

size_t wr_map_len(const wr_map *m) { return m->c.live; }

void wr_map_each(const wr_map *m, void (*fn)(void *ctx, wr_slice key, void *value), void *ctx) {
    for (uint32_t i = 0; i < m->c.n; i++)
        if (m->c.e[i].live) fn(ctx, wr_slice_of(m->c.e[i].kp, m->c.e[i].kn), m->c.e[i].value);
}

wr_u64map *wr_u64map_new(void) { return wr_calloc(1, sizeof(wr_u64map)); }

void wr_u64map_free(wr_u64map *m, void (*free_value)(void *)) {
    if (!m) return;
    clear(&m->c, free_value);
    wr_free(m);
}

void *wr_u64map_get(const wr_u64map *m, uint64_t key) {
    uint32_t i = find(&m->c, key, NULL, 0);
    return i == NONE ? NULL : m->c.e[i].value;
}

bool wr_u64map_put(wr_u64map *m, uint64_t key, void *value) { return put(&m->c, key, NULL, 0, value); }
void *wr_u64map_del(wr_u64map *m, uint64_t key) { return del(&m->c, key, NULL, 0); }
size_t wr_u64map_len(const wr_u64map *m) { return m->c.live; }

void wr_u64map_each(const wr_u64map *m, void (*fn)(void *ctx, uint64_t key, void *value), void *ctx) {
    for (uint32_t i = 0; i < m->c.n; i++)
        if (m->c.e[i].live) fn(ctx, m->c.e[i].h, m->c.e[i].value);
}
