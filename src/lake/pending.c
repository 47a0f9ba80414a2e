#include "index.h"
#include "weir/base/mem.h"

struct wr_pending {
    wr_key *keys;    /* [cap] by row */
    uint32_t *older; /* [cap] the row with the same key before this one, WR_NO_ROW */
    uint32_t n, cap;
    uint64_t *slots; /* [mask + 1] half of the key's hash, then the newest row of the key; FREE; GONE: all its rows were
                        popped */
    uint32_t mask, used;
};
#define FREE UINT64_MAX
#define GONE (UINT64_MAX - 1)

static inline uint64_t mix(wr_key k) {
    uint64_t h = (k.lo ^ (k.hi * 0x9E3779B97F4A7C15ull)) * 0xD6E8FEB86659FD93ull;
    h ^= h >> 32;
    return h * 0xD6E8FEB86659FD93ull;
}

static inline uint32_t row_of(uint64_t slot) { return (uint32_t)slot; }

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

/* The slot that holds the key, or the one where it belongs. GONE slots keep the way to keys behind them; they are
 * reused for a new key that passes them, and dropped when the table is laid out anew. */
static uint32_t slot_of(const wr_pending *p, wr_key key, uint64_t h, bool *found) {
    uint32_t i = (uint32_t)(h >> 32) & p->mask, free_slot = UINT32_MAX;
    for (;; i = (i + 1) & p->mask) {
        uint64_t slot = p->slots[i];
        if (slot == FREE) return *found = false, free_slot != UINT32_MAX ? free_slot : i;
        if (slot == GONE) {
            if (free_slot == UINT32_MAX) free_slot = i;
            continue;
        }
        if (slot >> 32 == (h & UINT32_MAX) && wr_key_eq(p->keys[row_of(slot)], key)) return *found = true, i;
    }
}

static inline uint64_t slot_with(uint64_t h, uint32_t row) { return h << 32 | row; }

static bool lay_out(wr_pending *p, uint32_t size) {
    uint64_t *old = p->slots, *slots = wr_malloc((size_t)size * sizeof *slots);
    uint32_t old_n = old ? p->mask + 1 : 0;
    if (!slots) return false;
    memset(slots, 0xff, (size_t)size * sizeof *slots);
    p->slots = slots, p->mask = size - 1, p->used = 0;
    for (uint32_t i = 0; i < old_n; i++) {
        if (old[i] >= GONE) continue;
        bool found;
        wr_key key = p->keys[row_of(old[i])];
        p->slots[slot_of(p, key, mix(key), &found)] = old[i];
        p->used++;
    }
    wr_free(old);
    return true;
}

static bool make_room(wr_pending *p, uint32_t row) {
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
    if (p->slots && (uint64_t)(p->used + 1) * 4 <= (uint64_t)(p->mask + 1) * 3) return true;
    uint32_t live = 0, size = 128;
    for (uint32_t i = 0; p->slots && i <= p->mask; i++) live += p->slots[i] < GONE;
    while (size < (live + 1) * 2) size *= 2;
    return lay_out(p, size);
}

bool wr_pending_add(wr_pending *p, wr_key key, uint32_t row) {
    if (!make_room(p, row)) return false;
    bool found;
    uint64_t h = mix(key);
    uint32_t s = slot_of(p, key, h, &found);
    p->keys[row] = key;
    p->older[row] = found ? row_of(p->slots[s]) : WR_NO_ROW;
    if (!found && p->slots[s] == FREE) p->used++;
    p->slots[s] = slot_with(h, row);
    p->n = row + 1;
    return true;
}

uint32_t wr_pending_find(const wr_pending *p, wr_key key) {
    if (!p->slots) return WR_NO_ROW;
    bool found;
    uint32_t s = slot_of(p, key, mix(key), &found);
    return found ? row_of(p->slots[s]) : WR_NO_ROW;
}

uint32_t wr_pending_pop(wr_pending *p, wr_key key) {
    if (!p->slots) return WR_NO_ROW;
    bool found;
    uint64_t h = mix(key);
    uint32_t s = slot_of(p, key, h, &found);
    if (!found) return WR_NO_ROW;
    uint32_t row = row_of(p->slots[s]), older = p->older[row];
    p->slots[s] = older == WR_NO_ROW ? GONE : slot_with(h, older);
    return row;
}

const wr_key *wr_pending_keys(const wr_pending *p) { return p->keys; }

size_t wr_pending_bytes(const wr_pending *p) {
    return (size_t)p->cap * (sizeof(wr_key) + sizeof(uint32_t)) +
           (p->slots ? ((size_t)p->mask + 1) * sizeof *p->slots : 0);
}
