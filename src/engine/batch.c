/* Rows into columns and back. See batch.h for the layout. */
#include "batch.h"

#include <string.h>
#include "weir/base/large.h"
#include "weir/base/mem.h"

#define FIRST_ROWS 8
#define FIRST_HEAP 64
#define HEAP_FORESIGHT (1u << 20)

uint8_t wr_batch_width(wr_type t) {
    switch ((wr_kind)t.kind) {
    case WR_BOOL:
        return 1;
    case WR_INT:
    case WR_DATE:
    case WR_FLOAT:
        return 4;
    case WR_LONG:
    case WR_DOUBLE:
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ:
        return 8;
    case WR_DECIMAL:
        return t.precision <= 9 ? 4 : t.precision <= 18 ? 8 : 16;
    case WR_STRING:
    case WR_BINARY:
    case WR_FLOATS:
        return 0;
    }
    return 0;
}

/* ------------------------------------------------------------------ memory */

static size_t align8(size_t n) { return (n + 7) & ~(size_t)7; }

static size_t block_size(const wr_batch *b, uint32_t cap) {
    size_t bits = ((size_t)cap + 63) / 64 * 8, n = bits;
    for (int i = 0; i < b->schema->ncols; i++) {
        size_t w = b->widths[i];
        n += bits + align8(w ? w * cap : sizeof(uint32_t) * ((size_t)cap + 1));
    }
    return n;
}

/* The words of a bitmap in the new block, old ones kept, new ones set to `fill`. */
static uint64_t *bits_move(uint8_t **p, const uint64_t *old, uint32_t old_cap, uint32_t cap, int fill) {
    size_t words = ((size_t)cap + 63) / 64, have = ((size_t)old_cap + 63) / 64;
    uint64_t *bits = (uint64_t *)*p;
    if (have) memcpy(bits, old, have * 8);
    memset(bits + have, fill, (words - have) * 8);
    *p += words * 8;
    return bits;
}

/* Gives the chunk room for cap rows, keeping what is in it. The chunk stays as it was when memory is out. */
static wr_code chunk_resize(wr_batch *b, wr_chunk *c, uint32_t cap, wr_err *err) {
    size_t size = block_size(b, cap);
    uint8_t *block = wr_malloc(size);
    if (!block) return wr_nomem(err, "batch", size);
    uint8_t *p = block;
    c->dead = bits_move(&p, c->dead, c->cap, cap, 0);
    for (int i = 0; i < b->schema->ncols; i++) {
        wr_vec *v = &c->vecs[i];
        size_t w = b->widths[i];
        if (w) {
            if (c->rows) memcpy(p, v->data, w * c->rows);
            v->data = p;
            p += align8(w * cap);
        } else {
            uint32_t *offs = (uint32_t *)p;
            if (c->rows)
                memcpy(offs, v->offs, sizeof *offs * (c->rows + 1));
            else
                offs[0] = 0;
            v->offs = offs;
            p += align8(sizeof *offs * ((size_t)cap + 1));
        }
        v->valid = bits_move(&p, v->valid, c->cap, cap, 0xff);
    }
    wr_free(c->block);
    b->bytes += size - c->block_bytes;
    c->block = block, c->block_bytes = size, c->cap = cap;
    return WR_OK;
}

static size_t chunk_header_bytes(const wr_batch *b) {
    return sizeof(wr_chunk) + sizeof(wr_vec) * (size_t)b->schema->ncols;
}

/* What a heap keeps beyond its content is not needed once the chunk is full. */
static void chunk_seal(wr_batch *b, wr_chunk *c) {
    for (int i = 0; i < b->schema->ncols; i++) {
        wr_vec *v = &c->vecs[i];
        if (!v->offs || !v->heap || v->lent) continue;
        uint32_t used = v->offs[c->rows];
        if (v->heap_cap - used < v->heap_cap / 8) continue;
        uint8_t *heap = wr_realloc(v->heap, used ? used : 1);
        if (!heap) continue; /* keeping too much is no failure */
        b->bytes -= v->heap_cap - (used ? used : 1);
        v->heap = heap, v->heap_cap = used ? used : 1;
    }
}

static wr_code chunk_add(wr_batch *b, wr_chunk **ret_chunk, wr_err *err) {
    if (b->nchunks == b->chunks_cap) {
        uint32_t cap = b->chunks_cap ? b->chunks_cap * 2 : 1;
        wr_chunk **chunks = wr_realloc(b->chunks, cap * sizeof *chunks);
        if (!chunks) return wr_nomem(err, "batch", cap * sizeof *chunks);
        b->bytes += (cap - b->chunks_cap) * sizeof *chunks;
        b->chunks = chunks, b->chunks_cap = cap;
    }
    wr_chunk *c = wr_calloc(1, chunk_header_bytes(b));
    if (!c) return wr_nomem(err, "batch", chunk_header_bytes(b));
    c->first = b->rows;
    wr_code rc = chunk_resize(b, c, b->nchunks ? WR_CHUNK_ROWS : FIRST_ROWS, err);
    if (rc != WR_OK) {
        wr_free(c);
        return rc;
    }
    b->bytes += chunk_header_bytes(b);
    b->chunks[b->nchunks++] = c;
    *ret_chunk = c;
    return WR_OK;
}

static void chunk_free(const wr_batch *b, wr_chunk *c) {
    for (int i = 0; i < b->schema->ncols; i++)
        if (!c->vecs[i].lent) wr_free(c->vecs[i].heap);
    wr_free(c->block);
    wr_free(c);
}

wr_code wr_batch_new(const wr_schema *schema, wr_batch **ret_batch, wr_err *err) {
    size_t n = sizeof(wr_batch) + (size_t)schema->ncols;
    wr_batch *b = wr_calloc(1, n);
    if (!b) return wr_nomem(err, "batch", n);
    b->widths = (uint8_t *)(b + 1);
    for (int i = 0; i < schema->ncols; i++) b->widths[i] = wr_batch_width(schema->cols[i].type);
    b->schema = wr_schema_ref(schema);
    b->bytes = n;
    *ret_batch = b;
    return WR_OK;
}

void wr_batch_free(wr_batch *b) {
    if (!b) return;
    for (uint32_t i = 0; i < b->nchunks; i++) chunk_free(b, b->chunks[i]);
    wr_free(b->chunks);
    wr_schema_unref(b->schema);
    wr_free(b);
}

/* ------------------------------------------------------------------ rows in */

static wr_code bad_row(const wr_batch *b, int col, size_t row_bytes, wr_err *err) {
    return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "row of %zu bytes does not fit its schema version %u at column %s",
                   row_bytes, b->schema->version, col < b->schema->ncols ? b->schema->cols[col].name : "(end)");
}

/* Later chunks start with what the one before came to, so that they rarely have to grow. */
static uint32_t heap_first_bytes(const wr_batch *b, int col) {
    if (b->nchunks < 2) return FIRST_HEAP;
    uint32_t before = b->chunks[b->nchunks - 2]->vecs[col].heap_cap;
    return before < FIRST_HEAP ? FIRST_HEAP : before < HEAP_FORESIGHT ? before + before / 16 : HEAP_FORESIGHT;
}

static wr_code heap_put(wr_batch *b, wr_chunk *c, int col, uint32_t row, const uint8_t *p, uint32_t n, wr_err *err) {
    wr_vec *v = &c->vecs[col];
    uint32_t at = v->offs[row];
    if (!v->heap || v->heap_cap - at < n) { /* even an empty value wants an address */
        uint32_t cap = v->heap_cap ? v->heap_cap + v->heap_cap / 2 : heap_first_bytes(b, col);
        if (cap - at < n) cap = at + n;
        uint8_t *heap = wr_realloc(v->heap, cap);
        if (!heap) return wr_nomem(err, "batch strings", cap);
        b->bytes += cap - v->heap_cap;
        v->heap = heap, v->heap_cap = cap;
    }
    if (n) memcpy(v->heap + at, p, n);
    v->offs[row + 1] = at + n;
    c->full |= at + n >= WR_CHUNK_HEAP_BYTES;
    return WR_OK;
}

/* Of the only row of a chunk. */
static void heap_borrow(wr_chunk *c, int col, const uint8_t *p, uint32_t n) {
    wr_vec *v = &c->vecs[col];
    v->heap = (uint8_t *)(uintptr_t)p, v->lent = true;
    v->offs[1] = n;
    c->full = true;
}

static void heaps_give_back(const wr_batch *b, wr_chunk *c) {
    for (int i = 0; i < b->schema->ncols; i++)
        if (c->vecs[i].lent) c->vecs[i].heap = NULL, c->vecs[i].lent = false;
}

static __int128 pow10_of(unsigned n) {
    static const int64_t small[19] = {1,
                                      10,
                                      100,
                                      1000,
                                      10000,
                                      100000,
                                      1000000,
                                      10000000,
                                      100000000,
                                      1000000000,
                                      10000000000,
                                      100000000000,
                                      1000000000000,
                                      10000000000000,
                                      100000000000000,
                                      1000000000000000,
                                      10000000000000000,
                                      100000000000000000,
                                      1000000000000000000};
    return n < 19   ? small[n]
           : n < 37 ? (__int128)small[18] * small[n - 18]
                    : (__int128)small[18] * small[18] * small[n - 36];
}

/* A value of more digits than the column has would change silently on its way through narrower integers and readers. */
static wr_code decimal_put(const wr_column *col, uint8_t width, uint8_t *dst, const uint8_t *src, wr_err *err) {
    __int128 v, limit = pow10_of(col->type.precision);
    memcpy(&v, src, 16);
    if (v <= -limit || v >= limit)
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "column %s: value has more digits than decimal(%u,%u)", col->name,
                       col->type.precision, col->type.scale);
    memcpy(dst, src, width); /* little-endian two's complement: the low bytes are the narrower integer */
    return WR_OK;
}

/* Puts the row into slot `at`, which counts only once chunk->rows is raised: a failure half way leaves nothing behind
 * but null bits, which the caller puts back. */
static wr_code slot_fill(wr_batch *b, wr_chunk *c, uint32_t at, wr_slice row, bool loan, wr_err *err) {
    const wr_schema *s = b->schema;
    int ncols = s->ncols;
    size_t nb = ((size_t)ncols + 7) / 8;
    if (row.n < nb) return bad_row(b, 0, row.n, err);
    const uint8_t *nulls = row.p, *p = row.p + nb, *end = row.p + row.n;
    for (int i = 0; i < ncols; i++) {
        wr_vec *v = &c->vecs[i];
        uint32_t w = b->widths[i];
        if (nulls[i >> 3] >> (i & 7) & 1) {
            v->valid[at >> 6] &= ~(UINT64_C(1) << (at & 63));
            v->has_null = true;
            if (w)
                memset(v->data + (size_t)w * at, 0, w);
            else
                v->offs[at + 1] = v->offs[at];
            continue;
        }
        size_t left = (size_t)(end - p);
        switch (w) {
        case 0: {
            uint32_t n;
            if (left < 4) return bad_row(b, i, row.n, err);
            memcpy(&n, p, 4);
            if (left - 4 < n) return bad_row(b, i, row.n, err);
            if (n > WR_VALUE_BYTES_MAX)
                return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "column %s: value of %u bytes is above the limit of %u",
                               s->cols[i].name, n, WR_VALUE_BYTES_MAX);
            if (s->cols[i].type.kind == WR_FLOATS && n % 4) return bad_row(b, i, row.n, err);
            if (loan && n >= WR_LARGE_BYTES) heap_borrow(c, i, p + 4, n);
            else WR_TRY(heap_put(b, c, i, at, p + 4, n, err));
            p += 4 + (size_t)n;
            continue;
        }
        case 1:
            if (left < 1) return bad_row(b, i, row.n, err);
            v->data[at] = *p != 0;
            p += 1;
            continue;
        default:
            break;
        }
        if (s->cols[i].type.kind == WR_DECIMAL) {
            if (left < 16) return bad_row(b, i, row.n, err);
            WR_TRY(decimal_put(&s->cols[i], (uint8_t)w, v->data + (size_t)w * at, p, err));
            p += 16;
        } else if (w == 4) {
            if (left < 4) return bad_row(b, i, row.n, err);
            memcpy(v->data + (size_t)4 * at, p, 4);
            p += 4;
        } else {
            if (left < 8) return bad_row(b, i, row.n, err);
            memcpy(v->data + (size_t)8 * at, p, 8);
            p += 8;
        }
    }
    return p == end ? WR_OK : bad_row(b, ncols, row.n, err);
}

static wr_code append(wr_batch *b, wr_slice row, bool loan, wr_err *err) {
    wr_chunk *c = b->nchunks ? b->chunks[b->nchunks - 1] : NULL;
    if (!c || c->full || c->rows == WR_CHUNK_ROWS || (loan && c->rows)) {
        if (b->rows == UINT32_MAX - 1)
            return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a batch holds at most %u rows", b->rows);
        if (c) chunk_seal(b, c);
        WR_TRY(chunk_add(b, &c, err));
    } else if (c->rows == c->cap) {
        WR_TRY(chunk_resize(b, c, c->cap * 2, err));
    }
    uint32_t at = c->rows;
    wr_code rc = slot_fill(b, c, at, row, loan, err);
    if (rc != WR_OK) {
        for (int i = 0; i < b->schema->ncols; i++) c->vecs[i].valid[at >> 6] |= UINT64_C(1) << (at & 63);
        if (loan) heaps_give_back(b, c);
        return rc;
    }
    c->rows++;
    b->rows++;
    return WR_OK;
}

wr_code wr_batch_append(wr_batch *b, wr_slice row, wr_err *err) { return append(b, row, false, err); }
wr_code wr_batch_append_loan(wr_batch *b, wr_slice row, wr_err *err) { return append(b, row, row.n >= WR_LARGE_BYTES, err); }

/* ------------------------------------------------------------------ rows of another batch */
typedef struct place {
    const wr_chunk *c;
    uint32_t at;
} place;

#define PICK(type)                                                                                                     \
    for (uint32_t i = 0; i < n; i++) ((type *)to->data)[i] = ((const type *)from[i].c->vecs[col].data)[from[i].at]

static void pick_fixed(wr_vec *to, int col, const place *from, uint32_t n, uint32_t width) {
    if (width == 8) PICK(uint64_t);
    else if (width == 4) PICK(uint32_t);
    else if (width == 1) PICK(uint8_t);
    else
        for (uint32_t i = 0; i < n; i++) memcpy(to->data + (size_t)i * 16, from[i].c->vecs[col].data + (size_t)from[i].at * 16, 16);
}

static wr_code pick_bytes(wr_batch *b, wr_chunk *c, int col, const place *from, uint32_t n, wr_err *err) {
    for (uint32_t i = 0; i < n; i++) {
        const wr_vec *v = &from[i].c->vecs[col];
        uint32_t off = v->offs[from[i].at];
        WR_TRY(heap_put(b, c, 0, i, v->heap + off, v->offs[from[i].at + 1] - off, err));
    }
    return WR_OK;
}

static wr_code pick_chunk(wr_batch *b, int col, const place *from, uint32_t n, wr_err *err) {
    wr_chunk *c;
    if (b->nchunks) chunk_seal(b, b->chunks[b->nchunks - 1]);
    WR_TRY(chunk_add(b, &c, err));
    if (c->cap < n) WR_TRY(chunk_resize(b, c, n, err));
    wr_vec *v = &c->vecs[0];
    if (b->widths[0]) pick_fixed(v, col, from, n, b->widths[0]);
    else WR_TRY(pick_bytes(b, c, col, from, n, err));
    for (uint32_t k = 0; k < n; k++) {
        const wr_vec *o = &from[k].c->vecs[col];
        if (!o->has_null || wr_bit(o->valid, from[k].at)) continue;
        v->valid[k >> 6] &= ~(UINT64_C(1) << (k & 63));
        v->has_null = true;
    }
    c->rows = n;
    b->rows += n;
    return WR_OK;
}

static wr_code pick_all(const wr_batch *b, int col, const uint32_t *rows, uint32_t n, place *from, wr_batch *out, wr_err *err) {
    for (uint32_t at = 0, k; at < n; at += k) {
        uint64_t heap = 0;
        for (k = 0; k < WR_CHUNK_ROWS && at + k < n && heap < WR_CHUNK_HEAP_BYTES; k++) {
            const wr_chunk *c = wr_batch_chunk(b, rows[at + k]);
            place p = from[k] = (place){c, rows[at + k] - c->first};
            if (!b->widths[col]) heap += c->vecs[col].offs[p.at + 1] - c->vecs[col].offs[p.at];
        }
        WR_TRY(pick_chunk(out, col, from, k, err));
    }
    return WR_OK;
}

wr_code wr_batch_pick(const wr_batch *b, int col, const uint32_t *rows, uint32_t n, wr_batch **ret_batch, wr_err *err) {
    WR_AUTO place *from = wr_malloc(WR_CHUNK_ROWS * sizeof *from);
    wr_column one = b->schema->cols[col];
    wr_schema *s;
    wr_batch *out;
    if (!from) return wr_nomem(err, "batch", WR_CHUNK_ROWS * sizeof *from);
    one.key_ord = 0;
    WR_TRY(wr_schema_new(&one, 1, b->schema->version, &s, err));
    wr_code rc = wr_batch_new(s, &out, err);
    wr_schema_unref(s);
    WR_TRY(rc);
    rc = pick_all(b, col, rows, n, from, out, err);
    if (rc != WR_OK) return wr_batch_free(out), rc;
    *ret_batch = out;
    return WR_OK;
}

/* ------------------------------------------------------------------ rows out */

const wr_chunk *wr_batch_chunk(const wr_batch *b, uint32_t row) {
    /* chunks never hold more than WR_CHUNK_ROWS, so the guess is never behind the row; it is the chunk itself unless
       some ended early */
    uint32_t i = row / WR_CHUNK_ROWS;
    while (row - b->chunks[i]->first >= b->chunks[i]->rows) i++;
    return b->chunks[i];
}

void wr_batch_kill(wr_batch *b, uint32_t row) {
    if (row >= b->rows) return;
    wr_chunk *c = (wr_chunk *)wr_batch_chunk(b, row);
    uint32_t at = row - c->first;
    if (wr_bit(c->dead, at)) return;
    c->dead[at >> 6] |= UINT64_C(1) << (at & 63);
    c->ndead++;
    b->dead++;
}

bool wr_batch_dead(const wr_batch *b, uint32_t row) {
    if (row >= b->rows) return false;
    const wr_chunk *c = wr_batch_chunk(b, row);
    return wr_bit(c->dead, row - c->first);
}

uint32_t wr_batch_rows(const wr_batch *b) { return b->rows; }
uint32_t wr_batch_live_rows(const wr_batch *b) { return b->rows - b->dead; }
size_t wr_batch_bytes(const wr_batch *b) { return b->bytes; }

wr_code wr_batch_row(const wr_batch *b, uint32_t row, wr_buf *out, wr_err *err) {
    if (row >= b->rows)
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "batch has %u rows, row %u was asked for", b->rows, row);
    const wr_chunk *c = wr_batch_chunk(b, row);
    uint32_t at = row - c->first;
    size_t start = wr_row_begin(out, b->schema->ncols);
    for (int i = 0; i < b->schema->ncols; i++) {
        const wr_vec *v = &c->vecs[i];
        uint32_t w = b->widths[i];
        if (!wr_bit(v->valid, at)) {
            wr_row_put_null(out, start, i);
        } else if (w == 0) {
            uint32_t n = v->offs[at + 1] - v->offs[at];
            wr_buf_u32(out, n);
            if (n) wr_buf_put(out, v->heap + v->offs[at], n);
        } else {
            const uint8_t *p = v->data + (size_t)w * at;
            wr_buf_put(out, p, w);
            if (w < 16 && b->schema->cols[i].type.kind == WR_DECIMAL) {
                static const uint8_t zeroes[16],
                    ones[16] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
                wr_buf_put(out, p[w - 1] & 0x80 ? ones : zeroes, 16 - w);
            }
        }
    }
    return wr_buf_check(out, "row", err);
}
