/* Cursors of the snapshot: their literal forms and the conditions of a chunk. See snapshot.h. */
#include "snapshot.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include "weir/base/mem.h"

enum {
    LABELS_STEP = 500,        /* labels in an IN list; longer ones cost the optimiser more than another statement */
    NO_LABEL = 65536,         /* above the number of any label */
};

static bool all_of(wr_slice v, const char *set) {
    if (v.n == 0) return false;
    for (size_t i = 0; i < v.n; i++)
        if (!v.p[i] || !strchr(set, v.p[i])) return false;
    return true;
}

static bool is_hex(wr_slice v) {
    if (v.n < 1 || v.p[0] != 'x' || v.n % 2 == 0) return false;
    for (size_t i = 1; i < v.n; i++)
        if (!isxdigit(v.p[i])) return false;
    return true;
}

static bool is_number(wr_slice v, bool fraction) {
    size_t i = v.n && v.p[0] == '-' ? 1 : 0, digits = 0, dots = 0;
    for (; i < v.n; i++) {
        if (isdigit(v.p[i]))
            digits++;
        else if (v.p[i] == '.' && fraction)
            dots++;
        else
            return false;
    }
    return digits > 0 && dots <= 1;
}

static bool has_digit(wr_slice v) {
    for (size_t i = 0; i < v.n; i++)
        if (isxdigit(v.p[i])) return true;
    return false;
}

static bool is_real(wr_slice v) { /* -d.ddde+dd, nothing that strtod would take beyond it (nan, hex) */
    return all_of(v, "0123456789.-+e") && isdigit(v.p[v.n - 1]);
}

wr_code wr_my_key_literal(const wr_my_col *c, wr_slice v, wr_buf *sql, wr_err *err) {
    bool ok = false;
    switch (c->kind) {
    case MY_TINYINT:
    case MY_SMALLINT:
    case MY_MEDIUMINT:
    case MY_INT:
    case MY_BIGINT:
    case MY_YEAR:
    case MY_BIT:
    case MY_ENUM:
    case MY_SET:
        if ((ok = is_number(v, false))) wr_buf_put(sql, v.p, v.n);
        break;
    case MY_DECIMAL:
        if ((ok = is_number(v, true))) wr_buf_put(sql, v.p, v.n);
        break;
    case MY_FLOAT:
    case MY_DOUBLE:
        if ((ok = is_real(v))) wr_buf_put(sql, v.p, v.n);
        break;
    case MY_DATE:
    case MY_DATETIME:
    case MY_TIMESTAMP:
    case MY_TIME:
        if ((ok = all_of(v, "0123456789-:. ") && has_digit(v)))
            wr_buf_printf(sql, "'%.*s'", (int)v.n, (const char *)v.p);
        break;
    case MY_UUID:
    case MY_INET4:
    case MY_INET6:
        if ((ok = all_of(v, c->kind == MY_UUID ? "0123456789abcdefABCDEF-" : "0123456789abcdefABCDEF:.") &&
                  (c->kind != MY_UUID || has_digit(v))))
            wr_buf_printf(sql, "'%.*s'", (int)v.n, (const char *)v.p);
        break;
    case MY_CHAR:
    case MY_VARCHAR:
    case MY_TEXT:
        if (!(ok = is_hex(v) && c->charset)) break;
        wr_buf_printf(sql, "_%s x'%.*s'", c->charset, (int)v.n - 1, (const char *)v.p + 1);
        if (c->collation) wr_buf_printf(sql, " COLLATE %s", c->collation);
        break;
    case MY_BINARY:
    case MY_VARBINARY:
    case MY_BLOB:
    case MY_GEOMETRY:
    case MY_VECTOR:
        if ((ok = is_hex(v))) wr_buf_printf(sql, "x'%.*s'", (int)v.n - 1, (const char *)v.p + 1);
        break;
    case MY_JSON:
        break; /* cannot be a key */
    }
    if (!ok)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "snapshot cursor: '%.*s' is no value of key column %s (%s)",
                       v.n > 60 ? 60 : (int)v.n, (const char *)v.p, c->name, c->column_type ? c->column_type : "?");
    return WR_OK;
}

typedef struct tuple {
    int n;
    wr_slice v[WR_KEY_PARTS_MAX];
} tuple;

static wr_code split(const wr_my_key *k, const char *text, tuple *ret, wr_err *err) {
    ret->n = 0;
    if (!text || !*text) return WR_OK;
    for (const char *p = text;;) {
        size_t n = strcspn(p, ",");
        if (ret->n >= k->n)
            return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO,
                           "snapshot cursor '%.100s' has more values than the key's %d columns", text, k->n);
        ret->v[ret->n++] = wr_slice_of(p, n);
        if (!p[n]) return WR_OK;
        p += n + 1;
    }
}

static void put_name(wr_buf *b, const wr_my_col *c) { wr_my_quote_name(b, c->name); }

static uint64_t number_of(wr_slice v) {
    char t[32];
    snprintf(t, sizeof t, "%.*s", (int)v.n, (const char *)v.p);
    return strtoull(t, NULL, 10);
}

/* The literal to compare ENUM column c with label number i (1..). */
static void put_label(wr_buf *b, const wr_my_col *c, int i) {
    const char *t = c->labels[i - 1];
    wr_buf_printf(b, "_utf8mb4 x'");
    for (; *t; t++) wr_buf_printf(b, "%02x", (unsigned char)*t);
    wr_buf_printf(b, "'");
}

/* ENUM's order is that of its numbers. An index finds numbers by = and IN, but not by < and >, which compare texts for all the server knows. Where one number is the only
 * one the optimiser takes the column for a constant, drops it from ORDER BY and then sorts, after having read all rows of that number; NO_LABEL as a second one keeps
 * it from that. By its label an = has no such fault; but not where a label may equal the '' that an invalid value (number 0) shows: the condition would find those
 * rows again. */
static bool by_label(const wr_my_col *c) {
    if (c->kind != MY_ENUM || c->nlabels == 0 || (c->charset && strcmp(c->charset, "binary") == 0)) return false;
    for (int i = 0; i < c->nlabels; i++)
        if ((unsigned char)c->labels[i][0] <= ' ') return false;
    return true;
}

static void put_numbers(wr_buf *b, const wr_my_col *c, uint64_t from, uint64_t to) {
    put_name(b, c);
    wr_buf_printf(b, " IN (");
    for (uint64_t i = from; i <= to; i++) wr_buf_printf(b, "%llu, ", (unsigned long long)i);
    wr_buf_printf(b, "%d)", NO_LABEL);
}

static wr_code put_eq(wr_buf *b, const wr_my_col *c, wr_slice v, wr_err *err) {
    if (c->kind == MY_ENUM || c->kind == MY_SET) {
        WR_AUTO_BUF wr_buf check = WR_BUF_INIT;
        WR_TRY(wr_my_key_literal(c, v, &check, err));
        uint64_t i = number_of(v);
        if (c->kind == MY_ENUM && c->nlabels > 0 && !(by_label(c) && i >= 1 && i <= (uint64_t)c->nlabels)) return put_numbers(b, c, i, i), WR_OK;
        put_name(b, c);
        if (c->kind == MY_ENUM && c->nlabels > 0) {
            wr_buf_printf(b, " = ");
            put_label(b, c, (int)i);
        } else wr_buf_printf(b, " + 0 = %llu", (unsigned long long)i);
        return WR_OK;
    }
    put_name(b, c);
    wr_buf_printf(b, " = ");
    return wr_my_key_literal(c, v, b, err);
}

/* The numbers between two values of an ENUM or SET. False: none. */
static wr_code numbers(const wr_my_col *c, wr_slice lo, wr_slice hi, bool hi_too, uint64_t *from, uint64_t *to, bool *ret_any, wr_err *err) {
    WR_AUTO_BUF wr_buf check = WR_BUF_INIT;
    if (lo.p) WR_TRY(wr_my_key_literal(c, lo, &check, err));
    if (hi.p) WR_TRY(wr_my_key_literal(c, hi, &check, err));
    *from = lo.p ? number_of(lo) + 1 : 0;
    *to = hi.p ? number_of(hi) - (hi_too ? 0 : 1) : UINT64_MAX;
    *ret_any = !(*from > *to || (hi.p && !hi_too && number_of(hi) == 0) || (lo.p && *from == 0));
    return WR_OK;
}

/* lo < c and c < hi (c <= hi); either may be missing (p NULL). *ret_empty: no value can match. For ENUM and SET right but without index: see add_piece. */
static wr_code put_between(wr_buf *b, const wr_my_col *c, wr_slice lo, wr_slice hi, bool hi_too, bool *ret_empty,
                           wr_err *err) {
    *ret_empty = false;
    if (c->kind == MY_ENUM || c->kind == MY_SET) {
        uint64_t from, to;
        bool any;
        WR_TRY(numbers(c, lo, hi, hi_too, &from, &to, &any, err));
        if (!any) return *ret_empty = true, WR_OK;
        if (lo.p) put_name(b, c), wr_buf_printf(b, " + 0 >= %llu", (unsigned long long)from);
        if (lo.p && hi.p) wr_buf_printf(b, " AND ");
        if (hi.p) put_name(b, c), wr_buf_printf(b, " + 0 <= %llu", (unsigned long long)to);
        return WR_OK;
    }
    if (lo.p) {
        put_name(b, c);
        wr_buf_printf(b, " > ");
        WR_TRY(wr_my_key_literal(c, lo, b, err));
    }
    if (lo.p && hi.p) wr_buf_printf(b, " AND ");
    if (hi.p) {
        put_name(b, c);
        wr_buf_printf(b, hi_too ? " <= " : " < ");
        WR_TRY(wr_my_key_literal(c, hi, b, err));
    }
    return WR_OK;
}

/* Two texts may differ as bytes and be equal for the server. */
static bool is_fuzzy(const wr_my_col *c) {
    return c->kind == MY_CHAR || c->kind == MY_VARCHAR || c->kind == MY_TEXT || c->kind == MY_FLOAT ||
           c->kind == MY_DOUBLE || c->kind == MY_BINARY;
}

/* after > upto: nobody makes such a range, but it must not yield rows either. Told for integers only; the order of
 * other kinds is the server's business. */
static bool is_backwards(const wr_my_col *c, wr_slice a, wr_slice u) {
    if (c->kind < MY_TINYINT || c->kind > MY_BIT || !is_number(a, false) || !is_number(u, false) || a.n > 22 ||
        u.n > 22)
        return false;
    bool na = a.p[0] == '-', nu = u.p[0] == '-';
    if (na != nu) return nu;
    wr_slice x = wr_slice_of(a.p + na, a.n - na), y = wr_slice_of(u.p + nu, u.n - nu);
    uint64_t vx = number_of(x), vy = number_of(y);
    return na ? vx < vy : vx > vy;
}

typedef struct cond_list {
    char **v;
    int n, cap;
} cond_list;

static wr_code add_cond(cond_list *l, wr_buf *b, wr_err *err) {
    const char *text = wr_buf_cstr(b);
    if (!text) return wr_nomem(err, "a chunk's condition", b->n);
    if (l->n == l->cap) {
        int cap = l->cap ? l->cap * 2 : 8;
        char **v = wr_realloc(l->v, (size_t)cap * sizeof *v);
        if (!v) return wr_nomem(err, "a chunk's conditions", (size_t)cap * sizeof *v);
        l->v = v;
        l->cap = cap;
    }
    if (!(l->v[l->n] = wr_strdup(text))) return wr_nomem(err, "a chunk's condition", b->n);
    l->n++;
    return WR_OK;
}

static wr_code put_prefix(wr_buf *b, const wr_my_key *k, const tuple *t, int n, wr_err *err) {
    for (int i = 0; i < n; i++) {
        WR_TRY(put_eq(b, k->col[i], t->v[i], err));
        wr_buf_printf(b, " AND ");
    }
    return WR_OK;
}

/* key <= u as one condition, for the fuzzy case. */
static wr_code put_upto(wr_buf *b, const wr_my_key *k, const tuple *u, int from, wr_err *err) {
    static const wr_slice none = {0};
    bool empty;
    int depth = 0;
    for (int i = from; i < u->n; i++) {
        bool last = i == u->n - 1;
        wr_buf_printf(b, "(");
        size_t at = b->n;
        WR_TRY(put_between(b, k->col[i], none, u->v[i], last, &empty, err));
        if (empty || b->n == at) wr_buf_printf(b, empty ? "FALSE" : "TRUE");
        if (last)
            wr_buf_printf(b, ")");
        else {
            wr_buf_printf(b, " OR (");
            WR_TRY(put_eq(b, k->col[i], u->v[i], err));
            wr_buf_printf(b, " AND ");
            depth++;
        }
    }
    for (int i = 0; i < depth; i++) wr_buf_printf(b, "))");
    return WR_OK;
}

/* The rows whose first n key columns are those of `t` and whose next one is between lo and hi, with `also` (NULL = nothing) as a further condition. ENUM: step by step in the order
 * of the numbers, so that no list grows long. */
static wr_code add_piece(cond_list *l, const wr_my_key *k, const tuple *t, int n, wr_slice lo, wr_slice hi, bool hi_too, const char *also, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    const wr_my_col *c = k->col[n];
    bool empty = false, listed = c->kind == MY_ENUM && c->nlabels > 0;
    uint64_t from = 0, to = 0;
    if (listed) {
        bool any;
        WR_TRY(numbers(c, lo, hi, hi_too, &from, &to, &any, err));
        if (to > (uint64_t)c->nlabels) to = (uint64_t)c->nlabels;
        empty = !any || from > to;
    }
    while (!empty) {
        wr_buf_clear(&b);
        WR_TRY(put_prefix(&b, k, t, n, err));
        uint64_t step = listed && to - from >= LABELS_STEP ? from + LABELS_STEP - 1 : to;
        if (listed) put_numbers(&b, c, from, step);
        else WR_TRY(put_between(&b, c, lo, hi, hi_too, &empty, err));
        if (empty) break;
        if (also) wr_buf_printf(&b, " AND %s", also);
        WR_TRY(add_cond(l, &b, err));
        if (step == to) break;
        from = step + 1;
    }
    return WR_OK;
}

static wr_code conditions(const wr_my_key *k, const tuple *a, const tuple *u, cond_list *l, wr_err *err) {
    static const wr_slice none = {0};
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    bool empty;
    if (a->n == 0 && u->n == 0) return add_cond(l, &b, err);
    int p = 0; /* leading values in common */
    while (p < a->n && p < u->n && wr_slice_eq(a->v[p], u->v[p])) p++;
    if (u->n > 0 && p == a->n && a->n > 0) return WR_OK; /* upto is at or under after's prefix */
    /* p == u->n: the range lies within upto's prefix, the rest of `after` is the only bound. */
    bool open = p == u->n;
    if (!open && p < a->n && is_backwards(k->col[p], a->v[p], u->v[p])) return WR_OK;
    bool fuzzy = !open && p < a->n && is_fuzzy(k->col[p]);
    const char *also = NULL;
    if (fuzzy) {
        WR_TRY(put_upto(&b, k, u, p, err));
        if (!(also = wr_buf_cstr(&b))) return wr_nomem(err, "a chunk's condition", b.n);
    }
    for (int i = a->n - 1; i > p || (open && i == p && i >= 0); i--) /* after's own neighbourhood, innermost first */
        WR_TRY(add_piece(l, k, a, i, a->v[i], none, false, also, err));
    if (open) return WR_OK;
    wr_slice lo = p < a->n ? a->v[p] : none;
    WR_TRY(add_piece(l, k, u, p, lo, u->v[p], p == u->n - 1, NULL, err)); /* between the two */
    also = NULL;
    if (fuzzy) { /* equal for the server after all: these rows belong to after's neighbourhood, where they were */
        wr_buf_clear(&b);
        WR_TRY(put_between(&b, k->col[p], lo, none, false, &empty, err));
        if (!(also = wr_buf_cstr(&b))) return wr_nomem(err, "a chunk's condition", b.n);
    }
    for (int i = p + 1; i < u->n; i++) /* upto's neighbourhood, outermost first */
        WR_TRY(add_piece(l, k, u, i, none, u->v[i], i == u->n - 1, also, err));
    return WR_OK;
}

wr_code wr_my_key_conditions(const wr_my_key *k, const char *after, const char *upto, char ***ret_conds, int *ret_n,
                             wr_err *err) {
    tuple a, u;
    WR_TRY(split(k, after, &a, err));
    WR_TRY(split(k, upto, &u, err));
    cond_list l = {0};
    wr_code rc = conditions(k, &a, &u, &l, err);
    if (rc != WR_OK) {
        wr_my_conditions_free(l.v, l.n);
        return rc;
    }
    *ret_conds = l.v;
    *ret_n = l.n;
    return WR_OK;
}

void wr_my_conditions_free(char **conds, int n) {
    for (int i = 0; i < n; i++) wr_free(conds[i]);
    wr_free(conds);
}

void wr_key_range_clear(wr_key_range *r) {
    wr_free(r->after);
    wr_free(r->upto);
    *r = (wr_key_range){0};
}

void wr_my_create_normalise(char *text) {
    /* It stands among the table options, behind the last closing parenthesis at the start of a line; names and comments
     * cannot hold an unquoted newline there. */
    char *options = NULL;
    for (char *p = text; (p = strstr(p, "\n)")) != NULL; p++) options = p;
    char *at = options ? strstr(options, " AUTO_INCREMENT=") : NULL;
    if (!at) return;
    char *end = at + strlen(" AUTO_INCREMENT=");
    while (isdigit((unsigned char)*end)) end++;
    memmove(at, end, strlen(end) + 1);
}
