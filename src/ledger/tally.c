#include "tally.h"
#include <string.h>
#include "weir/base/mem.h"

#define KEPT_CELLS 64

static size_t slot_of(const wr_tally *t, uint64_t key) {
    uint64_t h = key * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(h >> 32) & (t->cap - 1);
    while (t->cells[i].key && t->cells[i].key != key) i = (i + 1) & (t->cap - 1);
    return i;
}

static bool grow(wr_tally *t, size_t want) {
    size_t cap = t->cap ? t->cap : 16;
    while (want * 2 > cap) cap *= 2;
    if (cap == t->cap) return true;
    wr_tally big = {.cells = wr_calloc(cap, sizeof *big.cells), .n = t->n, .cap = cap};
    if (!big.cells) return false;
    for (size_t i = 0; i < t->cap; i++)
        if (t->cells[i].key) big.cells[slot_of(&big, t->cells[i].key)] = t->cells[i];
    wr_free(t->cells);
    *t = big;
    return true;
}

bool wr_tally_reserve(wr_tally *t, size_t more) { return grow(t, t->n + more); }

wr_cell *wr_tally_at(wr_tally *t, uint64_t key) {
    size_t *last = &t->last[wr_cell_op(key) & 3];
    if (t->cap && t->cells[*last].key == key) return &t->cells[*last];
    if (t->cap) {
        size_t i = slot_of(t, key);
        if (t->cells[i].key) return *last = i, &t->cells[i];
    }
    if (!grow(t, t->n + 1)) return NULL;
    size_t i = slot_of(t, key);
    t->cells[i].key = key;
    t->n++;
    return *last = i, &t->cells[i];
}

const wr_cell *wr_tally_get(const wr_tally *t, uint64_t key) {
    if (!t->cap) return NULL;
    const wr_cell *c = &t->cells[slot_of(t, key)];
    return c->key ? c : NULL;
}

static void add_to(wr_cell *to, const wr_cell *c) {
    if (!to->rows || c->at_ms_min < to->at_ms_min) to->at_ms_min = c->at_ms_min;
    to->rows += c->rows, to->sum += c->sum, to->delay_ms += c->delay_ms, to->at_ms += c->at_ms;
    if (c->delay_ms_max > to->delay_ms_max) to->delay_ms_max = c->delay_ms_max;
}

bool wr_tally_add(wr_tally *t, const wr_cell *c) {
    wr_cell *to = wr_tally_at(t, c->key);
    if (to) add_to(to, c);
    return to;
}

bool wr_tally_merge(wr_tally *t, const wr_tally *from) {
    if (!from->n) return true;
    if (!grow(t, t->n + from->n)) return false;
    for (size_t i = 0; i < from->cap; i++)
        if (from->cells[i].key) wr_tally_add(t, &from->cells[i]);
    return true;
}

void wr_tally_clear(wr_tally *t) {
    if (t->cap > KEPT_CELLS) wr_tally_free(t);
    else if (t->n) memset(t->cells, 0, t->cap * sizeof *t->cells);
    t->n = 0;
}

void wr_tally_free(wr_tally *t) {
    wr_free(t->cells);
    *t = (wr_tally){0};
}
