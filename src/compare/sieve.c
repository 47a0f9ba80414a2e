/* Records by hash of their key into partitions, blocks of which go to one unnamed file; then partition by partition into memory, sorted, and compared. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <stdio.h>
#include "weir/base/mem.h"
#include "weir/compare.h"
#include "weir/io.h"

typedef struct record {
    wr_h128 key;
    uint64_t row;
    uint64_t where; /* side << 62 | where << 1 | absent: sorted, a side's changes are in the order of the stream */
} record;

#define BLOCK_RECORDS 512 /* 16 kB */
#define WHERE_MASK ((UINT64_C(1) << 61) - 1)
#define SIDE(r) ((wr_side)((r)->where >> 62))
#define WHERE(r) ((r)->where >> 1 & WHERE_MASK)
#define IS_ABSENT(r) ((r)->where & 1)

typedef struct part {
    record *tail; /* [BLOCK_RECORDS], NULL until needed */
    uint32_t n;
    uint64_t *blocks; /* where in the file */
    uint64_t nblocks, cap;
} part;

struct wr_sieve {
    part *parts;
    int bits; /* 2^bits of them */
    bool keyed;
    uint64_t load_records; /* that may be in memory at once */
    wr_file *file;
    char *path;
    uint64_t end;
};

wr_code wr_sieve_new(const wr_sieve_options *o, wr_sieve **ret, wr_err *err) {
    uint64_t memory = o->memory_bytes ? o->memory_bytes : UINT64_C(48) << 20;
    wr_sieve *s = wr_calloc(1, sizeof *s);
    if (!s) return wr_nomem(err, "comparison", sizeof *s);
    s->keyed = o->keyed;
    s->load_records = memory / 2 / sizeof(record);
    /* A partition's records should fill a quarter of the memory: estimates are rough. More than 2^12 partitions would fill it with their last blocks. */
    while (s->bits < 12 && (o->rows * sizeof(record)) >> s->bits > memory / 4 && ((uint64_t)BLOCK_RECORDS * sizeof(record)) << (s->bits + 1) <= memory) s->bits++;
    s->parts = wr_calloc((size_t)1 << s->bits, sizeof *s->parts);
    s->path = wr_asprintf("%s/sieve-%d-%p", o->dir, (int)getpid(), (void *)s);
    if (!s->parts || !s->path) {
        size_t bytes = ((size_t)1 << s->bits) * sizeof *s->parts;
        wr_sieve_free(s);
        return wr_nomem(err, "comparison", bytes);
    }
    *ret = s;
    return WR_OK;
}

uint64_t wr_sieve_memory(const wr_sieve *s) { return (sizeof(part) + BLOCK_RECORDS * sizeof(record)) << s->bits; }

void wr_sieve_free(wr_sieve *s) {
    if (!s) return;
    for (size_t i = 0; s->parts && i < (size_t)1 << s->bits; i++) wr_free(s->parts[i].tail), wr_free(s->parts[i].blocks);
    if (s->file) wr_file_close(s->file);
    wr_free(s->parts), wr_free(s->path);
    wr_free(s);
}

/* The file goes with the process, however that ends. */
static wr_code open_file(wr_sieve *s, wr_err *err) {
    WR_TRY(wr_file_open(s->path, WR_OPEN_CREATE, &s->file, err));
    return wr_file_remove(s->path, err);
}

static wr_code spill(wr_sieve *s, part *p, wr_err *err) {
    if (!s->file) WR_TRY(open_file(s, err));
    if (p->nblocks == p->cap) {
        uint64_t cap = p->cap ? p->cap * 2 : 16;
        uint64_t *b = wr_realloc(p->blocks, cap * sizeof *b);
        if (!b) return wr_nomem(err, "comparison", cap * sizeof *b);
        p->blocks = b, p->cap = cap;
    }
    WR_TRY(wr_file_pwrite(s->file, s->end, wr_slice_of(p->tail, BLOCK_RECORDS * sizeof(record)), err));
    p->blocks[p->nblocks++] = s->end;
    s->end += BLOCK_RECORDS * sizeof(record);
    p->n = 0;
    return WR_OK;
}

static wr_code put(wr_sieve *s, part *p, record r, wr_err *err) {
    if (!p->tail && !(p->tail = wr_malloc(BLOCK_RECORDS * sizeof(record)))) return wr_nomem(err, "comparison", BLOCK_RECORDS * sizeof(record));
    if (p->n == BLOCK_RECORDS) WR_TRY(spill(s, p, err));
    p->tail[p->n++] = r;
    return WR_OK;
}

wr_code wr_sieve_add(wr_sieve *s, wr_side side, bool absent, wr_h128 key, uint64_t row, uint64_t where, wr_err *err) {
    return put(s, &s->parts[s->bits ? key.hi >> (64 - s->bits) : 0], (record){key, row, (uint64_t)side << 62 | (where & WHERE_MASK) << 1 | absent}, err);
}

/* ------------------------------------------------------------------ bringing together */
static int by_key(const void *a, const void *b) {
    const record *x = a, *y = b;
    if (x->key.hi != y->key.hi) return x->key.hi < y->key.hi ? -1 : 1;
    if (x->key.lo != y->key.lo) return x->key.lo < y->key.lo ? -1 : 1;
    return x->where < y->where ? -1 : x->where > y->where;
}

#define FEW 24

static void sort_few(record *r, uint64_t n) {
    if (n > FEW) {
        qsort(r, n, sizeof *r, by_key);
        return;
    }
    for (uint64_t i = 1; i < n; i++) {
        record x = r[i];
        uint64_t k = i;
        for (; k && by_key(&r[k - 1], &x) > 0; k--) r[k] = r[k - 1];
        r[k] = x;
    }
}

/* Hashes are spread evenly: dealt out by their next bits, each heap is small. Three times as quick as qsort. */
static wr_code sort(record **r, uint64_t n, int used_bits, wr_err *err) {
    int bits = 1;
    while (bits < 20 && n >> bits > 4) bits++;
    WR_AUTO uint32_t *at = wr_calloc(((size_t)1 << bits) + 1, sizeof *at);
    record *to = wr_malloc(n * sizeof *to + 1);
    if (!at || !to) return wr_free(to), wr_nomem(err, "comparison", n * sizeof *to);
    for (uint64_t i = 0; i < n; i++) at[((*r)[i].key.hi << used_bits >> (64 - bits)) + 1]++;
    for (size_t k = 1; k <= (size_t)1 << bits; k++) at[k] += at[k - 1];
    for (uint64_t i = 0; i < n; i++) to[at[(*r)[i].key.hi << used_bits >> (64 - bits)]++] = (*r)[i];
    for (size_t k = 0, from = 0; k < (size_t)1 << bits; from = at[k++]) sort_few(to + from, at[k] - from);
    wr_free(*r);
    *r = to;
    return WR_OK;
}

static wr_code read_block(wr_sieve *s, uint64_t at, record *r, wr_err *err) {
    size_t got;
    WR_TRY(wr_file_pread(s->file, at, r, BLOCK_RECORDS * sizeof *r, &got, err));
    return got == BLOCK_RECORDS * sizeof *r ? WR_OK : wr_fail(err, WR_E_IO, WR_RETRY_NO, "the comparison's own file is cut short");
}

static wr_code load(wr_sieve *s, part *p, int used_bits, record **ret, uint64_t *ret_n, wr_err *err) {
    uint64_t n = p->nblocks * BLOCK_RECORDS + p->n;
    if (n > UINT32_MAX) return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "the comparison met more than 2^32 records where a few hundred thousand were expected");
    WR_AUTO record *r = wr_malloc(n * sizeof *r + 1);
    if (!r) return wr_nomem(err, "comparison", n * sizeof *r);
    for (uint64_t i = 0; i < p->nblocks; i++) WR_TRY(read_block(s, p->blocks[i], r + i * BLOCK_RECORDS, err));
    if (p->n) memcpy(r + p->nblocks * BLOCK_RECORDS, p->tail, p->n * sizeof *r);
    WR_TRY(sort(&r, n, used_bits, err));
    *ret = WR_STEAL(r), *ret_n = n;
    return WR_OK;
}

static bool is_void(const wr_sieve_bounds *b, uint64_t seq) {
    for (int i = 0; i < b->nvoid; i++)
        if (seq >= b->void_from[i] && seq <= b->void_to[i]) return true;
    return false;
}

typedef struct joiner {
    const wr_sieve_bounds *b;
    wr_code (*fn)(void *ctx, const wr_difference *d, wr_err *err);
    void *ctx;
    wr_sieve_totals t;
} joiner;

static wr_code tell(joiner *j, const wr_difference *d, wr_err *err) {
    *(d->kind == WR_ROW_MISSING ? &j->t.missing : d->kind == WR_ROW_SURPLUS ? &j->t.surplus : &j->t.different) += 1;
    return j->fn(j->ctx, d, err);
}

static void say_source(wr_difference *d, const record *s) { d->source_side = (uint8_t)SIDE(s), d->source_where = WHERE(s), d->source_row = s->row; }

/* All records of one key, sorted by side and then by where. */
static wr_code join_key(joiner *j, const record *r, uint64_t n, wr_err *err) {
    const record *read = NULL, *after = NULL, *before = NULL, *wrong = NULL;
    uint64_t lake = 0;
    bool met = false;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t seq = WHERE(&r[i]);
        switch (SIDE(&r[i])) {
        case WR_SIDE_READ: read = &r[i]; break;
        case WR_SIDE_AFTER: if (seq <= j->b->lake_seq && !is_void(j->b, seq)) after = &r[i]; break;
        case WR_SIDE_BEFORE: if (seq > j->b->lake_seq && !before && !is_void(j->b, seq)) before = &r[i]; break;
        case WR_SIDE_LAKE: lake++; break;
        }
    }
    const record *s = after ? after : before ? before : read;
    if (s && IS_ABSENT(s)) s = NULL;
    for (uint64_t i = n - lake; i < n; i++) { /* they are the last ones */
        if (s && r[i].row == s->row && !met) met = true;
        else wrong = &r[i];
    }
    j->t.source_rows += s != NULL, j->t.lake_rows += lake;
    if (!wrong && (met || !s)) return WR_OK;
    wr_difference d = {.key = r->key, .in_source = s != NULL, .in_lake = lake};
    d.kind = !lake ? WR_ROW_MISSING : !s || met ? WR_ROW_SURPLUS : WR_ROW_DIFFERENT;
    if (s) say_source(&d, s);
    if (wrong) d.lake_where = WHERE(wrong);
    return tell(j, &d, err);
}

/* All records of one row of a table without a key. */
static wr_code join_row(joiner *j, const record *r, uint64_t n, wr_err *err) {
    int64_t source = 0;
    uint64_t lake = 0;
    const record *sample = NULL, *there = NULL;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t seq = WHERE(&r[i]);
        bool absent = IS_ABSENT(&r[i]);
        wr_side side = SIDE(&r[i]);
        if (side == WR_SIDE_READ) source++, sample = &r[i];
        else if (side == WR_SIDE_LAKE) lake++, there = &r[i];
        else {
            uint64_t at = j->b->read_at[r[i].row];
            if (is_void(j->b, seq)) continue;
            /* AFTER tells what a change does, going on from what was read; BEFORE what undoes it. */
            if (side == WR_SIDE_AFTER && !(seq > at && seq <= j->b->lake_seq)) continue;
            if (side == WR_SIDE_BEFORE && !(seq <= at && seq > j->b->lake_seq)) continue;
            source += absent ? -1 : 1;
            if (!absent && !sample) sample = &r[i];
        }
    }
    uint64_t in_source = source > 0 ? (uint64_t)source : 0;
    j->t.source_rows += in_source, j->t.lake_rows += lake;
    if (in_source == lake) return WR_OK;
    wr_difference d = {.kind = in_source > lake ? WR_ROW_MISSING : WR_ROW_SURPLUS, .key = r->key, .in_source = in_source, .in_lake = lake};
    if (sample) say_source(&d, sample);
    if (there) d.lake_where = WHERE(there);
    return tell(j, &d, err);
}

static void part_clear(part *p) {
    wr_free(p->tail), wr_free(p->blocks);
    *p = (part){0};
}

static wr_code join_loaded(wr_sieve *s, joiner *j, part *p, int used_bits, wr_err *err) {
    WR_AUTO record *r = NULL;
    uint64_t n = 0;
    WR_TRY(load(s, p, used_bits, &r, &n, err));
    part_clear(p);
    for (uint64_t a = 0, z; a < n; a = z) {
        for (z = a + 1; z < n && r[z].key.hi == r[a].key.hi && r[z].key.lo == r[a].key.lo; z++) {}
        WR_TRY(s->keyed ? join_key(j, r + a, z - a, err) : join_row(j, r + a, z - a, err));
    }
    return WR_OK;
}

#define SPLIT_BITS 5
#define SPLIT_MOST 45 /* bits of the hash: what is together by then is one row many times */

/* The same by the next bits of the hash. */
static wr_code split(wr_sieve *s, part *p, int used_bits, part *into, wr_err *err) {
    WR_AUTO record *r = wr_malloc(BLOCK_RECORDS * sizeof *r);
    if (!r) return wr_nomem(err, "comparison", BLOCK_RECORDS * sizeof *r);
    for (uint64_t b = 0; b <= p->nblocks; b++) {
        uint32_t n = b < p->nblocks ? BLOCK_RECORDS : p->n;
        if (b < p->nblocks) WR_TRY(read_block(s, p->blocks[b], r, err));
        else if (n) memcpy(r, p->tail, n * sizeof *r);
        for (uint32_t i = 0; i < n; i++) WR_TRY(put(s, &into[r[i].key.hi << used_bits >> (64 - SPLIT_BITS)], r[i], err));
    }
    part_clear(p);
    return WR_OK;
}

/* More than was expected came: in as many steps as it takes. */
static wr_code join_part(wr_sieve *s, joiner *j, part *p, int used_bits, wr_err *err) {
    if (p->nblocks * BLOCK_RECORDS + p->n <= s->load_records || used_bits > SPLIT_MOST) return join_loaded(s, j, p, used_bits, err);
    part into[1 << SPLIT_BITS] = {{0}};
    wr_code rc = split(s, p, used_bits, into, err);
    for (int i = 0; rc == WR_OK && i < 1 << SPLIT_BITS; i++) rc = join_part(s, j, &into[i], used_bits + SPLIT_BITS, err);
    for (int i = 0; i < 1 << SPLIT_BITS; i++) part_clear(&into[i]);
    return rc;
}

wr_code wr_sieve_join(wr_sieve *s, const wr_sieve_bounds *b, wr_code (*fn)(void *ctx, const wr_difference *d, wr_err *err), void *ctx, wr_sieve_totals *ret, wr_err *err) {
    joiner j = {.b = b, .fn = fn, .ctx = ctx};
    for (size_t p = 0; p < (size_t)1 << s->bits; p++) WR_TRY(join_part(s, &j, &s->parts[p], s->bits, err));
    *ret = j.t;
    return WR_OK;
}
