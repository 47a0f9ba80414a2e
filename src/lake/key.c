#include "key.h"

#include <stdlib.h>
#include "weir/base/mem.h"

#define MAX_KEY_COLS 64

static size_t fixed_width(uint8_t kind) {
    switch (kind) {
    case WR_BOOL:
        return 1;
    case WR_INT:
    case WR_DATE:
    case WR_FLOAT:
        return 4;
    case WR_LONG:
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ:
    case WR_DOUBLE:
        return 8;
    case WR_DECIMAL:
        return 16;
    default:
        return 0;
    }
}

/* A key of one column behind nothing but fixed-width columns sits at the same place in every row without nulls before
 * it. */
static void find_shortcut(wr_key_plan *p) {
    size_t at = ((size_t)p->ncols + 7) / 8;
    if (p->form != WR_KEY_U64 || p->last >= 64) return;
    for (int i = 0; i < p->last; i++) {
        if (!fixed_width(p->kinds[i])) return;
        at += fixed_width(p->kinds[i]);
    }
    p->at = (uint32_t)at;
    p->at_width = (uint8_t)fixed_width(p->kinds[p->last]);
    p->null_bytes = (uint8_t)(p->last / 8 + 1);
    p->null_mask = p->last == 63 ? UINT64_MAX : (UINT64_C(2) << p->last) - 1;
}

wr_code wr_key_plan_new(const wr_schema *s, wr_key_plan **ret_plan, wr_err *err) {
    if (s->nkey > MAX_KEY_COLS)
        return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a key of %d columns (limit %d)", s->nkey, MAX_KEY_COLS);
    wr_key_plan *p = wr_calloc(1, sizeof *p);
    if (!p) return wr_nomem(err, "key plan", sizeof *p);
    p->ncols = s->ncols;
    p->nkey = s->nkey;
    p->last = -1;
    p->kinds = wr_calloc((size_t)s->ncols + 1, 1);
    p->ord = wr_calloc((size_t)s->ncols + 1, sizeof *p->ord);
    if (!p->kinds || !p->ord) {
        wr_key_plan_free(p);
        return wr_nomem(err, "key plan", (size_t)s->ncols * sizeof(int));
    }
    size_t width = 0;
    bool fixed = true;
    for (int i = 0; i < s->ncols; i++) p->kinds[i] = s->cols[i].type.kind, p->ord[i] = -1;
    for (int k = 0; k < s->nkey; k++) {
        int c = s->key[k];
        size_t w = fixed_width(p->kinds[c]);
        p->ord[c] = k;
        if (c > p->last) p->last = c;
        width += w;
        /* a key column that may be null cannot be told from a zero by its bytes alone */
        if (!w || s->cols[c].nullable) fixed = false;
    }
    p->form = !s->nkey                              ? WR_KEY_ROW
              : fixed && s->nkey == 1 && width <= 8 ? WR_KEY_U64
              : fixed && width <= 16                ? WR_KEY_FIXED
                                                    : WR_KEY_HASH;
    uint32_t form = p->form;
    uint64_t f = wr_hash64(&form, sizeof form, 1);
    if (p->form == WR_KEY_ROW)
        for (int i = 0; i < s->ncols; i++) f = wr_hash64(&s->cols[i].id, sizeof s->cols[i].id, f ^ p->kinds[i]);
    for (int k = 0; k < s->nkey; k++) f = wr_hash64(&s->cols[s->key[k]].id, sizeof(int32_t), f ^ p->kinds[s->key[k]]);
    p->fingerprint = f;
    find_shortcut(p);
    *ret_plan = p;
    return WR_OK;
}

void wr_key_plan_free(wr_key_plan *p) {
    if (!p) return;
    wr_free(p->kinds);
    wr_free(p->ord);
    wr_free(p);
}

static wr_code short_row(wr_err *err) {
    return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "a row is shorter than its schema says");
}

static wr_code exact_key(const wr_key_plan *p, const wr_slice *part, const bool *null, wr_key *ret_key, wr_err *err) {
    uint8_t b[16] = {0};
    size_t at = 0;
    for (int k = 0; k < p->nkey; k++) {
        if (null[k] || at + part[k].n > sizeof b)
            return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "null in key column %d of a row", k + 1);
        memcpy(b + at, part[k].p, part[k].n);
        at += part[k].n;
    }
    memcpy(&ret_key->lo, b, 8);
    memcpy(&ret_key->hi, b + 8, 8);
    return WR_OK;
}

static wr_code hashed_key(const wr_key_plan *p, const wr_slice *part, const bool *null, wr_key *ret_key, wr_err *err) {
    uint8_t small[512];
    size_t need = 0, at = 0;
    for (int k = 0; k < p->nkey; k++) need += 5 + part[k].n;
    uint8_t *b = need <= sizeof small ? small : wr_malloc(need);
    if (!b) return wr_nomem(err, "key", need);
    b[0] = 0;
    for (int k = 0; k < p->nkey; k++) {
        uint32_t n = (uint32_t)part[k].n;
        b[at++] = null[k];
        memcpy(b + at, &n, 4), at += 4;
        if (n) memcpy(b + at, part[k].p, n), at += n;
    }
    wr_h128 h = wr_hash128(b, at);
    if (b != small) wr_free(b);
    *ret_key = (wr_key){h.hi, h.lo};
    return WR_OK;
}

wr_code wr_key_of(const wr_key_plan *p, wr_slice row, wr_key *ret_key, wr_err *err) {
    if (p->form == WR_KEY_ROW) {
        wr_h128 h = wr_hash128(row.p, row.n);
        *ret_key = (wr_key){h.hi, h.lo};
        return WR_OK;
    }
    if (p->at && row.n >= (size_t)p->at + p->at_width) {
        uint64_t nulls = 0, v = 0;
        memcpy(&nulls, row.p, p->null_bytes);
        if (!(nulls & p->null_mask)) {
            memcpy(&v, row.p + p->at, p->at_width);
            *ret_key = (wr_key){0, v};
            return WR_OK;
        }
    }
    size_t nb = ((size_t)p->ncols + 7) / 8;
    if (row.n < nb) return short_row(err);
    const uint8_t *nulls = row.p, *q = row.p + nb, *end = row.p + row.n;
    wr_slice part[MAX_KEY_COLS];
    bool null[MAX_KEY_COLS];
    for (int i = 0; i <= p->last; i++) {
        bool is_null = nulls[i / 8] >> (i % 8) & 1;
        size_t w = is_null ? 0 : fixed_width(p->kinds[i]);
        if (!is_null && !w) {
            uint32_t n;
            if ((size_t)(end - q) < 4) return short_row(err);
            memcpy(&n, q, 4), q += 4;
            w = n;
        }
        if ((size_t)(end - q) < w) return short_row(err);
        if (p->ord[i] >= 0) part[p->ord[i]] = wr_slice_of(q, w), null[p->ord[i]] = is_null;
        q += w;
    }
    return p->form == WR_KEY_HASH ? hashed_key(p, part, null, ret_key, err) : exact_key(p, part, null, ret_key, err);
}

wr_code wr_keys_room(wr_key **keys, uint32_t *cap, uint32_t at, wr_err *err) {
    if (at < *cap) return WR_OK;
    uint32_t more = *cap ? *cap * 2 : 1024;
    wr_key *k = wr_realloc(*keys, (size_t)more * sizeof *k);
    if (!k) return wr_nomem(err, "keys", (size_t)more * sizeof *k);
    *keys = k, *cap = more;
    return WR_OK;
}
