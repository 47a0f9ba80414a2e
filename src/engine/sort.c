/* The order of rows by some of their columns: each row's key as bytes that compare as the row should, of which the first eight
 * are sorted by radix, and rows that agree in those by what follows. */
#include <inttypes.h>
#include <string.h>
#include "batch.h"
#include "weir/base/mem.h"

typedef struct entry {
    uint64_t head; /* the first bytes of the key, big-endian */
    uint32_t row;
    uint32_t rest; /* where in `rests` the bytes behind them are, their number before them */
} entry;

struct wr_sorter {
    wr_schema *schema;
    wr_sort_key *keys;
    int nkeys;
    bool whole; /* head is all there is: no key has more than eight bytes */
    wr_kind number; /* the one key column is this and never null: most tables'; else 0 */
    entry *e;
    uint64_t n, cap, bytes_max;
    wr_buf key, rests;
    wr_value *vals;
};

static bool is_fixed(wr_type t) { return wr_batch_width(t) != 0; }

bool wr_sort_suits(wr_type t) { return t.kind != WR_FLOATS; }

wr_code wr_sorter_new(const wr_schema *schema, const wr_sort_key *keys, int nkeys, uint64_t bytes_max, wr_sorter **ret_sorter, wr_err *err) {
    wr_sorter *s = wr_calloc(1, sizeof *s);
    if (s) s->keys = wr_calloc((size_t)nkeys + 1, sizeof *keys);
    if (s) s->vals = wr_calloc((size_t)schema->ncols + 1, sizeof *s->vals);
    if (!s || !s->keys || !s->vals) return wr_sorter_free(s), wr_nomem(err, "sort", sizeof *s);
    size_t width = 0;
    s->whole = true;
    for (int i = 0; i < nkeys; i++) {
        const wr_column *c = &schema->cols[keys[i].col];
        s->keys[i] = keys[i];
        s->whole = s->whole && is_fixed(c->type);
        width += wr_batch_width(c->type) + c->nullable;
    }
    s->whole = s->whole && width <= 8;
    const wr_column *first = nkeys ? &schema->cols[keys[0].col] : NULL;
    bool simple = nkeys == 1 && !first->nullable && !keys[0].descending;
    if (simple && (first->type.kind == WR_INT || first->type.kind == WR_LONG)) s->number = (wr_kind)first->type.kind;
    s->nkeys = nkeys, s->bytes_max = bytes_max;
    s->schema = wr_schema_ref(schema);
    *ret_sorter = s;
    return WR_OK;
}

void wr_sorter_free(wr_sorter *s) {
    if (!s) return;
    wr_free(s->keys), wr_free(s->vals), wr_free(s->e);
    wr_buf_free(&s->key), wr_buf_free(&s->rests);
    wr_schema_unref(s->schema);
    wr_free(s);
}

/* ------------------------------------------------------------------ keys as bytes */
static void put_be(wr_buf *b, unsigned __int128 v, unsigned width) {
    uint8_t be[16];
    for (unsigned i = 0; i < width; i++) be[i] = (uint8_t)(v >> 8 * (width - 1 - i));
    wr_buf_put(b, be, width);
}

/* Iceberg, "Sorting": -NaN, -Infinity, ..., -0, 0, ..., Infinity, NaN. */
static uint64_t of_float(uint64_t bits, unsigned width) {
    uint64_t sign = UINT64_C(1) << (8 * width - 1);
    return bits & sign ? ~bits : bits | sign;
}

/* Ends with 0 0, a zero within is 0 255: what is longer comes behind what it begins with. */
static void put_bytes(wr_buf *b, wr_slice s) {
    const uint8_t *p = s.p, *end = p + s.n;
    while (p < end) {
        const uint8_t *z = memchr(p, 0, (size_t)(end - p));
        if (!z) break;
        wr_buf_put(b, p, (size_t)(z + 1 - p));
        wr_buf_u8(b, 255);
        p = z + 1;
    }
    if (p < end) wr_buf_put(b, p, (size_t)(end - p));
    wr_buf_put(b, "\0", 2);
}

static void put_value(wr_buf *b, wr_type t, const wr_value *v) {
    unsigned width = wr_batch_width(t);
    uint32_t f;
    uint64_t d;
    switch ((wr_kind)t.kind) {
    case WR_BOOL:
        wr_buf_u8(b, v->b);
        break;
    case WR_INT:
    case WR_DATE:
        put_be(b, (uint32_t)v->i32 ^ UINT32_C(1) << 31, 4);
        break;
    case WR_LONG:
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ:
        put_be(b, (uint64_t)v->i64 ^ UINT64_C(1) << 63, 8);
        break;
    case WR_FLOAT:
        memcpy(&f, &v->f32, 4);
        put_be(b, (uint32_t)of_float(f, 4), 4);
        break;
    case WR_DOUBLE:
        memcpy(&d, &v->f64, 8);
        put_be(b, of_float(d, 8), 8);
        break;
    case WR_DECIMAL:
        put_be(b, (unsigned __int128)v->dec ^ (unsigned __int128)1 << (8 * width - 1), width);
        break;
    case WR_STRING:
    case WR_BINARY:
    case WR_FLOATS:
        put_bytes(b, v->s);
        break;
    }
}

static void put_key(wr_buf *b, const wr_column *c, wr_sort_key k, const wr_value *v) {
    if (c->nullable) wr_buf_u8(b, v->null == k.nulls_last);
    size_t at = b->n;
    if (!v->null) put_value(b, c->type, v);
    for (size_t i = at; k.descending && i < b->n && !b->failed; i++) b->p[i] = (uint8_t)~b->p[i];
}

/* ------------------------------------------------------------------ rows in */
static wr_code entry_room(wr_sorter *s, wr_err *err) {
    if (s->n < s->cap) return WR_OK;
    uint64_t cap = s->cap ? s->cap * 2 : 1024;
    entry *e = wr_realloc(s->e, cap * sizeof *e);
    if (!e) return wr_nomem(err, "sort", cap * sizeof *e);
    s->e = e, s->cap = cap;
    return WR_OK;
}

static wr_code within(const wr_sorter *s, wr_err *err) {
    if (s->n * 2 * sizeof *s->e + s->rests.n <= s->bytes_max && s->rests.n <= INT32_MAX) return WR_OK;
    return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "the sort keys of %" PRIu64 " rows take more than %" PRIu64 " bytes", s->n, s->bytes_max);
}

/* vals: by column of the schema; only those of the keys are looked at. */
static wr_code add(wr_sorter *s, uint32_t row, wr_err *err) {
    WR_TRY(entry_room(s, err));
    const wr_value *v = &s->vals[s->nkeys ? s->keys[0].col : 0];
    if (s->number) {
        uint64_t head = s->number == WR_LONG ? (uint64_t)v->i64 ^ UINT64_C(1) << 63 : (uint64_t)((uint32_t)v->i32 ^ UINT32_C(1) << 31) << 32;
        s->e[s->n++] = (entry){.head = head, .row = row};
        return within(s, err);
    }
    wr_buf_clear(&s->key);
    for (int i = 0; i < s->nkeys; i++) put_key(&s->key, &s->schema->cols[s->keys[i].col], s->keys[i], &s->vals[s->keys[i].col]);
    WR_TRY(wr_buf_check(&s->key, "sort key", err));
    uint8_t head[8] = {0};
    size_t n = s->key.n < 8 ? s->key.n : 8;
    memcpy(head, s->key.p, n);
    entry *e = &s->e[s->n];
    *e = (entry){.row = row};
    for (int i = 0; i < 8; i++) e->head = e->head << 8 | head[i];
    if (!s->whole) {
        e->rest = (uint32_t)s->rests.n;
        wr_buf_u32(&s->rests, (uint32_t)(s->key.n - n));
        wr_buf_put(&s->rests, s->key.p + n, s->key.n - n);
        WR_TRY(wr_buf_check(&s->rests, "sort keys", err));
    }
    s->n++;
    return within(s, err);
}

wr_code wr_sorter_add(wr_sorter *s, wr_slice row, wr_err *err) {
    WR_TRY(wr_row_read(s->schema, row, s->vals, err));
    return add(s, (uint32_t)s->n, err);
}

static wr_value value_at(const wr_batch *b, const wr_chunk *c, int col, uint32_t at) {
    const wr_vec *v = &c->vecs[col];
    uint32_t w = b->widths[col];
    wr_value x = {.null = !wr_bit(v->valid, at)};
    if (x.null) return x;
    if (!w) return x.s = wr_slice_of(v->heap + v->offs[at], v->offs[at + 1] - v->offs[at]), x;
    const uint8_t *p = v->data + (size_t)w * at;
    if (b->schema->cols[col].type.kind != WR_DECIMAL) return memcpy(&x.i64, p, w), x;
    int32_t d4;
    int64_t d8;
    if (w == 4) memcpy(&d4, p, 4), x.dec = d4;
    else if (w == 8) memcpy(&d8, p, 8), x.dec = d8;
    else memcpy(&x.dec, p, 16);
    return x;
}

static wr_code add_batch(wr_sorter *s, const wr_batch *b, wr_err *err) {
    for (uint32_t i = 0; i < b->nchunks; i++) {
        const wr_chunk *c = b->chunks[i];
        for (uint32_t at = 0; at < c->rows; at++) {
            if (wr_bit(c->dead, at)) continue;
            for (int k = 0; k < s->nkeys; k++) s->vals[s->keys[k].col] = value_at(b, c, s->keys[k].col, at);
            WR_TRY(add(s, c->first + at, err));
        }
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ sorting */
static int rest_cmp(const wr_sorter *s, const entry *x, const entry *y) {
    uint32_t nx, ny;
    memcpy(&nx, s->rests.p + x->rest, 4), memcpy(&ny, s->rests.p + y->rest, 4);
    int d = memcmp(s->rests.p + x->rest + 4, s->rests.p + y->rest + 4, nx < ny ? nx : ny);
    return d ? d : nx < ny ? -1 : nx > ny;
}

static int entry_cmp(const wr_sorter *s, const entry *x, const entry *y) {
    if (x->head != y->head) return x->head < y->head ? -1 : 1;
    return s->whole ? 0 : rest_cmp(s, x, y);
}

static bool is_sorted(const wr_sorter *s) {
    for (uint64_t i = 1; i < s->n; i++)
        if (entry_cmp(s, &s->e[i - 1], &s->e[i]) > 0) return false;
    return true;
}

/* From the lowest byte that differs to the highest; equal ones keep their order. */
static entry *radix(entry *e, entry *other, uint64_t n) {
    uint64_t differ = 0;
    for (uint64_t i = 1; i < n; i++) differ |= e[i].head ^ e[0].head;
    for (unsigned shift = 0; shift < 64; shift += 8) {
        uint64_t count[256] = {0}, at = 0;
        if (!(differ >> shift & 0xff)) continue;
        for (uint64_t i = 0; i < n; i++) count[e[i].head >> shift & 0xff]++;
        for (int k = 0; k < 256; k++) {
            uint64_t c = count[k];
            count[k] = at, at += c;
        }
        for (uint64_t i = 0; i < n; i++) other[count[e[i].head >> shift & 0xff]++] = e[i];
        entry *x = e;
        e = other, other = x;
    }
    return e;
}

static void merge_sort(const wr_sorter *s, entry *e, entry *room, uint64_t n) {
    if (n < 2) return;
    uint64_t half = n / 2, i = 0, k = half, at = 0;
    merge_sort(s, e, room, half), merge_sort(s, e + half, room, n - half);
    while (i < half && k < n) room[at++] = rest_cmp(s, &e[k], &e[i]) < 0 ? e[k++] : e[i++];
    while (i < half) room[at++] = e[i++];
    memcpy(e, room, at * sizeof *e);
}

static void sort_ties(const wr_sorter *s, entry *e, entry *room, uint64_t n) {
    for (uint64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && e[end].head == e[i].head;) end++;
        merge_sort(s, e + i, room, end - i);
    }
}

wr_code wr_sorter_finish(wr_sorter *s, uint32_t **ret_rows, uint64_t *ret_n, wr_err *err) {
    *ret_n = s->n;
    if (is_sorted(s)) return *ret_rows = NULL, WR_OK;
    WR_AUTO entry *room = wr_malloc(s->n * sizeof *room);
    if (!room) return wr_nomem(err, "sort", s->n * sizeof *room);
    entry *sorted = radix(s->e, room, s->n), *other = sorted == s->e ? room : s->e;
    if (!s->whole) sort_ties(s, sorted, other, s->n);
    uint32_t *rows = wr_malloc(s->n * sizeof *rows);
    if (!rows) return wr_nomem(err, "sort", s->n * sizeof *rows);
    for (uint64_t i = 0; i < s->n; i++) rows[i] = sorted[i].row;
    *ret_rows = rows;
    return WR_OK;
}

wr_code wr_batch_order(const wr_batch *b, const wr_sort_key *keys, int nkeys, uint32_t **ret_rows, wr_err *err) {
    wr_sorter *s;
    uint64_t n;
    WR_TRY(wr_sorter_new(b->schema, keys, nkeys, UINT64_MAX, &s, err));
    wr_code rc = add_batch(s, b, err);
    if (rc == WR_OK) rc = wr_sorter_finish(s, ret_rows, &n, err);
    wr_sorter_free(s);
    return rc;
}
