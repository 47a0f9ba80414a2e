#include "index.h"
#include "weir/base/mem.h"

struct wr_pending {
    wr_key *keys;      /* [cap] by row */
    uint32_t *older;   /* [cap] the row with the same key before this one, WR_NO_ROW */
    uint32_t n, cap;
    uint32_t *slots;   /* [mask + 1] newest row of a key, WR_NO_ROW = free, GONE = all its rows were popped */
    uint32_t mask, used;
};
#define GONE (UINT32_MAX - 1)

static uint64_t mix(wr_key k) {
    uint64_t h = (k.lo ^ (k.hi * 0x9E3779B97F4A7C15ull)) * 0xD6E8FEB86659FD93ull;
    return h ^ h >> 32;
}

wr_pending *wr_pending_new(void) { return wr_calloc(1, sizeof(wr_pending)); }

void wr_pending_free(wr_pending *p) {
    if (!p) return;
    wr_free(p->keys);
    wr_free(p->older);
    wr_free(p->slots);
    wr_free(p);
}

void wr_pending_clear(wr_pending *p) {
    wr_free(p->keys);
    wr_free(p->older);
    wr_free(p->slots);
    memset(p, 0, sizeof *p);
}

/* The slot that holds the key, or the one where it belongs. GONE slots keep the way to keys behind them; they are reused for a new key that
 * passes them, and dropped when the table is laid out anew. */
static uint32_t slot_of(const wr_pending *p, wr_key key, bool *found) {
    uint32_t i = (uint32_t)mix(key) & p->mask, free_slot = UINT32_MAX;
    for (;; i = (i + 1) & p->mask) {
        uint32_t row = p->slots[i];
        if (row == WR_NO_ROW) return *found = false, free_slot != UINT32_MAX ? free_slot : i;
        if (row == GONE) {
            if (free_slot == UINT32_MAX) free_slot = i;
            continue;
        }
        if (wr_key_eq(p->keys[row], key)) return *found = true, i;
    }
}

static bool rehash(wr_pending *p, uint32_t size) {
    uint32_t *old = p->slots, old_n = p->slots ? p->mask + 1 : 0;
    uint32_t *slots = wr_malloc((size_t)size * sizeof *slots);
    if (!slots) return false;
    memset(slots, 0xff, (size_t)size * sizeof *slots);
    p->slots = slots, p->mask = size - 1, p->used = 0;
    for (uint32_t i = 0; i < old_n; i++) {
        if (old[i] >= GONE) continue;
        bool found;
        p->slots[slot_of(p, p->keys[old[i]], &found)] = old[i];
        p->used++;
    }
    wr_free(old);
    return true;
}

bool wr_pending_add(wr_pending *p, wr_key key, uint32_t row) {
    if (row >= p->cap) {
        uint32_t cap = p->cap ? p->cap : 64;
        while (cap <= row) cap *= 2; /* rows whose add failed are passed over */
        wr_key *k = wr_realloc(p->keys, (size_t)cap * sizeof *k);
        if (!k) return false;
        p->keys = k;
        uint32_t *o = wr_realloc(p->older, (size_t)cap * sizeof *o);
        if (!o) return false;
        p->older = o;
        p->cap = cap;
    }
    if (!p->slots || (uint64_t)(p->used + 1) * 4 > (uint64_t)(p->mask + 1) * 3) {
        uint32_t live = 0;
        for (uint32_t i = 0; p->slots && i <= p->mask; i++) live += p->slots[i] < GONE;
        uint32_t size = 128;
        while (size < (live + 1) * 2) size *= 2;
        if (!rehash(p, size)) return false;
    }
    bool found;
    uint32_t s = slot_of(p, key, &found);
    p->keys[row] = key;
    p->older[row] = found ? p->slots[s] : WR_NO_ROW;
    if (!found && p->slots[s] == WR_NO_ROW) p->used++;
    p->slots[s] = row;
    p->n = row + 1;
    return true;
}

uint32_t wr_pending_find(const wr_pending *p, wr_key key) {
    if (!p->slots) return WR_NO_ROW;
    bool found;
    uint32_t s = slot_of(p, key, &found);
    return found ? p->slots[s] : WR_NO_ROW;
}

uint32_t wr_pending_pop(wr_pending *p, wr_key key) {
    if (!p->slots) return WR_NO_ROW;
    bool found;
    uint32_t s = slot_of(p, key, &found);
    if (!found) return WR_NO_ROW;
    uint32_t row = p->slots[s], older = p->older[row];
    p->slots[s] = older == WR_NO_ROW ? GONE : older;
    return row;
}

const wr_key *wr_pending_keys(const wr_pending *p) { return p->keys; }

size_t wr_pending_bytes(const wr_pending *p) {
    return (size_t)p->cap * (sizeof(wr_key) + sizeof(uint32_t)) + (p->slots ? ((size_t)p->mask + 1) * sizeof(uint32_t) : 0);
}
