#include "remap.h"
#include "weir/base/mem.h"

void wr_remap_clear(wr_remap *m) {
    for (int i = 0; i < m->nin; i++)
        if (m->in[i].dead) roaring_bitmap_free(m->in[i].dead);
    wr_free(m->in), wr_free(m->first), wr_free(m->place);
    *m = (wr_remap){0};
}

wr_code wr_remap_add_input(wr_remap *m, uint64_t records, const roaring_bitmap_t *dead, wr_err *err) {
    if (m->nin == m->in_cap) {
        int cap = m->in_cap ? m->in_cap * 2 : 16;
        wr_remap_input *in = wr_realloc(m->in, (size_t)cap * sizeof *in);
        if (!in) return wr_nomem(err, "rewritten files", (size_t)cap * sizeof *in);
        m->in = in, m->in_cap = cap;
    }
    wr_remap_input in = {.records = records, .base = m->live};
    if (dead && !(in.dead = roaring_bitmap_copy(dead))) return wr_nomem(err, "deleted rows", 4096);
    m->live += records - (dead ? roaring_bitmap_get_cardinality(dead) : 0);
    m->in[m->nin++] = in;
    return WR_OK;
}

wr_code wr_remap_add_output(wr_remap *m, uint64_t first, wr_err *err) {
    if (m->nout == m->out_cap) {
        int cap = m->out_cap ? m->out_cap * 2 : 4;
        uint64_t *f = wr_realloc(m->first, (size_t)cap * sizeof *f);
        if (!f) return wr_nomem(err, "new files", (size_t)cap * sizeof *f);
        m->first = f, m->out_cap = cap;
    }
    m->first[m->nout++] = first;
    return WR_OK;
}

static wr_code kill_rank(const wr_remap *m, uint64_t rank, wr_remap_kill *kill, void *ctx, wr_err *err) {
    uint64_t at = m->place ? m->place[rank] : rank;
    int low = 0, high = m->nout; /* the one that holds it */
    while (low + 1 < high) {
        int mid = low + (high - low) / 2;
        if (m->first[mid] <= at) low = mid;
        else high = mid;
    }
    return kill(ctx, low, (uint32_t)(at - m->first[low]), err);
}

static wr_code kill_range(const wr_remap *m, uint64_t rank, uint64_t end, wr_remap_kill *kill, void *ctx, wr_err *err) {
    for (; rank < end; rank++) WR_TRY(kill_rank(m, rank, kill, ctx, err));
    return WR_OK;
}

wr_code wr_remap_since(const wr_remap *m, int input, const roaring_bitmap_t *now, bool gone, wr_remap_kill *kill, void *ctx, wr_err *err) {
    const wr_remap_input *in = &m->in[input];
    uint64_t end = input + 1 < m->nin ? m->in[input + 1].base : m->live;
    if (gone) return kill_range(m, in->base, end, kill, ctx, err);
    if (!now) return WR_OK;
    roaring_bitmap_t *since = in->dead ? roaring_bitmap_andnot(now, in->dead) : roaring_bitmap_copy(now);
    if (!since) return wr_nomem(err, "deleted rows", 4096);
    wr_code rc = WR_OK;
    roaring_uint32_iterator_t *it = roaring_create_iterator(since);
    if (!it) rc = wr_nomem(err, "deleted rows", 64);
    for (; rc == WR_OK && it->has_value; roaring_advance_uint32_iterator(it)) {
        uint32_t row = it->current_value;
        uint64_t rank = in->base + row - (in->dead ? roaring_bitmap_rank(in->dead, row) : 0);
        rc = kill_rank(m, rank, kill, ctx, err);
    }
    if (it) roaring_free_uint32_iterator(it);
    roaring_bitmap_free(since);
    return rc;
}
