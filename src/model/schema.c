#include "weir/base/mem.h"
#include "value.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>

static bool is_bytes(uint8_t kind) { return kind == WR_STRING || kind == WR_BINARY || kind == WR_FLOATS; }

static void schema_free(wr_schema *s) {
    for (int i = 0; s->cols && i < s->ncols; i++) {
        wr_column *c = &s->cols[i];
        wr_free(c->name);
        wr_free(c->doc);
        if (c->has_initial && is_bytes(c->type.kind)) wr_free((void *)(uintptr_t)c->initial.s.p);
    }
    wr_free(s->cols);
    wr_free(s->key);
    wr_free(s);
}

static void schema_free_p(wr_schema **s) {
    if (*s) schema_free(*s);
}

wr_schema *wr_schema_ref(const wr_schema *s) {
    wr_schema *t = (wr_schema *)(uintptr_t)s;
    __atomic_fetch_add(&t->refs, 1, __ATOMIC_RELAXED);
    return t;
}

void wr_schema_unref(wr_schema *s) {
    if (!s) return;
    int before = __atomic_fetch_sub(&s->refs, 1, __ATOMIC_ACQ_REL);
    assert(before > 0);
    if (before == 1) schema_free(s);
}

/* doc is for people only, so a wrong byte in it becomes U+FFFD rather than an error. */
static char *copy_doc(const char *doc) {
    size_t n = strlen(doc), at = 0;
    char *d = n > SIZE_MAX / 4 ? NULL : wr_malloc(n * 3 + 1);
    if (!d) return NULL;
    for (size_t i = 0; i < n;) {
        size_t len = wr_utf8_next_((const uint8_t *)doc + i, n - i);
        memcpy(d + at, len ? doc + i : "\xef\xbf\xbd", len ? len : 3);
        at += len ? len : 3;
        i += len ? len : 1;
    }
    d[at] = 0;
    return d;
}

static wr_code check_type(const wr_column *c, wr_err *err) {
    wr_type t = c->type;
    bool ok = t.kind >= WR_BOOL && t.kind <= WR_FLOATS;
    if (t.kind == WR_DECIMAL)
        ok = t.precision >= 1 && t.precision <= 38 && t.scale <= t.precision;
    else
        ok = ok && t.precision == 0 && t.scale == 0;
    if (ok) return WR_OK;
    return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "column \"%s\" has no valid type: kind %u, precision %u, scale %u",
                   c->name, t.kind, t.precision, t.scale);
}

static wr_code check_column(const wr_column *c, int at, wr_err *err) {
    if (!c->name || !c->name[0] || !wr_utf8_valid_(wr_slice_str(c->name)))
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "column %d has no valid UTF-8 name", at);
    if (c->id <= 0) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "column \"%s\" has id %d", c->name, c->id);
    WR_TRY(check_type(c, err));
    if (!c->has_initial || c->initial.null) return WR_OK;
    const wr_value *v = &c->initial;
    if (c->type.kind == WR_DECIMAL) {
        unsigned __int128 u = v->dec < 0 ? -(unsigned __int128)v->dec : (unsigned __int128)v->dec;
        if (u >= wr_pow10_(c->type.precision))
            return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "initial value of column \"%s\" has more than %u digits",
                           c->name, c->type.precision);
    }
    if (is_bytes(c->type.kind) && (v->s.n > UINT32_MAX || (c->type.kind == WR_FLOATS && v->s.n % 4)))
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "initial value of column \"%s\" has %zu bytes", c->name, v->s.n);
    return WR_OK;
}

static wr_code copy_column(const wr_column *c, wr_column *d, wr_err *err) {
    /* Field by field, so that a failure half-way leaves nothing borrowed for schema_free. */
    d->id = c->id;
    d->type = c->type;
    d->nullable = c->nullable;
    d->key_ord = c->key_ord;
    d->name = wr_strdup(c->name);
    if (!d->name) return wr_nomem(err, "column name", strlen(c->name) + 1);
    if (c->doc) {
        d->doc = copy_doc(c->doc);
        if (!d->doc) return wr_nomem(err, "column doc", strlen(c->doc) + 1);
    }
    if (!c->has_initial || c->initial.null) return WR_OK; /* an initial null is what columns without one have */
    if (!is_bytes(c->type.kind)) {
        d->initial = c->initial;
    } else if (c->initial.s.n > 0) {
        uint8_t *p = wr_malloc(c->initial.s.n);
        if (!p) return wr_nomem(err, "initial value", c->initial.s.n);
        memcpy(p, c->initial.s.p, c->initial.s.n);
        d->initial.s = wr_slice_of(p, c->initial.s.n);
    }
    d->has_initial = true;
    return WR_OK;
}

static wr_code set_key(wr_schema *s, wr_err *err) {
    for (int i = 0; i < s->ncols; i++) s->nkey += s->cols[i].key_ord != 0;
    if (s->nkey == 0) return WR_OK;
    s->key = wr_malloc((size_t)s->nkey * sizeof *s->key);
    if (!s->key) return wr_nomem(err, "schema key", (size_t)s->nkey * sizeof *s->key);
    for (int k = 0; k < s->nkey; k++) s->key[k] = -1;
    for (int i = 0; i < s->ncols; i++) {
        int ord = s->cols[i].key_ord;
        if (ord == 0) continue;
        if (ord < 0 || ord > s->nkey || s->key[ord - 1] >= 0)
            return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "column \"%s\" has place %d in a key of %d columns",
                           s->cols[i].name, ord, s->nkey);
        s->key[ord - 1] = i;
    }
    return WR_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const wr_column *const *)a)->name, (*(const wr_column *const *)b)->name);
}

static int by_id(const void *a, const void *b) {
    int32_t x = (*(const wr_column *const *)a)->id, y = (*(const wr_column *const *)b)->id;
    return (x > y) - (x < y);
}

static wr_code check_unique(const wr_schema *s, wr_err *err) {
    size_t n = (size_t)s->ncols;
    WR_AUTO const wr_column **c = wr_malloc(n * sizeof *c);
    if (!c) return wr_nomem(err, "schema check", n * sizeof *c);
    for (size_t i = 0; i < n; i++) c[i] = &s->cols[i];
    qsort(c, n, sizeof *c, by_name);
    for (size_t i = 1; i < n; i++)
        if (by_name(&c[i - 1], &c[i]) == 0)
            return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "two columns are named \"%s\"", c[i]->name);
    qsort(c, n, sizeof *c, by_id);
    for (size_t i = 1; i < n; i++)
        if (c[i - 1]->id == c[i]->id)
            return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "columns \"%s\" and \"%s\" both have id %d", c[i - 1]->name,
                           c[i]->name, c[i]->id);
    return WR_OK;
}

wr_code wr_schema_new(const wr_column *cols, int ncols, uint32_t version, wr_schema **ret_schema, wr_err *err) {
    if (ncols < 1) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "a schema of %d columns", ncols);
    for (int i = 0; i < ncols; i++) WR_TRY(check_column(&cols[i], i, err));
    WR_CLEANUP(schema_free_p) wr_schema *s = wr_calloc(1, sizeof *s);
    if (!s) return wr_nomem(err, "schema", sizeof *s);
    s->version = version;
    s->refs = 1;
    s->cols = wr_calloc((size_t)ncols, sizeof *s->cols);
    if (!s->cols) return wr_nomem(err, "schema columns", (size_t)ncols * sizeof *s->cols);
    s->ncols = ncols;
    for (int i = 0; i < ncols; i++) WR_TRY(copy_column(&cols[i], &s->cols[i], err));
    WR_TRY(set_key(s, err));
    WR_TRY(check_unique(s, err));
    *ret_schema = WR_STEAL(s);
    return WR_OK;
}

int wr_schema_find(const wr_schema *s, const char *name) {
    for (int i = 0; i < s->ncols; i++)
        if (strcmp(s->cols[i].name, name) == 0) return i;
    return -1;
}

int wr_schema_find_id(const wr_schema *s, int32_t id) {
    for (int i = 0; i < s->ncols; i++)
        if (s->cols[i].id == id) return i;
    return -1;
}
