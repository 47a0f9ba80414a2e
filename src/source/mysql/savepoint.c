#include "savepoint.h"
#include <ctype.h>
#include <strings.h>
#include "weir/base/mem.h"

/* Of each name the first and the last SAVEPOINT of it. Those between cannot be what a ROLLBACK TO means unless triggers are nested, and then the doubt covers them. */
typedef struct savepoint {
    char *name;
    size_t n;
    bool first;
    wr_place at;
    uint64_t changes;
} savepoint;

typedef struct range { wr_place from, upto; } range; /* behind `from`, up to `upto` */

struct wr_savepoints {
    savepoint *set; int nset, cap_set;       /* in the order of the log */
    range *undone; int nundone, cap_undone;  /* in order, apart */
    bool any, doubt;
    range doubtful;                          /* one that covers all */
};

wr_savepoints *wr_savepoints_new(void) { return wr_calloc(1, sizeof(wr_savepoints)); }

static void forget_from(wr_savepoints *s, int i) {
    for (int k = i; k < s->nset; k++) wr_free(s->set[k].name);
    s->nset = i;
}

void wr_savepoints_clear(wr_savepoints *s) {
    forget_from(s, 0);
    s->nundone = 0;
    s->any = s->doubt = false;
}

void wr_savepoints_free(wr_savepoints *s) {
    if (!s) return;
    wr_savepoints_clear(s);
    wr_free(s->set);
    wr_free(s->undone);
    wr_free(s);
}

/* ------------------------------------------------------------------ the statement */
static bool word(wr_slice *s, const char *w) {
    size_t n = strlen(w);
    if (s->n <= n || strncasecmp((const char *)s->p, w, n) != 0 || s->p[n] != ' ') return false;
    *s = wr_slice_of(s->p + n + 1, s->n - n - 1);
    return true;
}

wr_savepoint_word wr_savepoint_parse(wr_slice sql, wr_buf *name) {
    wr_savepoint_word w = WR_SP_SET;
    if (!word(&sql, "SAVEPOINT")) {
        if (!word(&sql, "ROLLBACK")) return WR_SP_NONE;
        word(&sql, "WORK");
        if (!word(&sql, "TO")) return WR_SP_NONE;
        word(&sql, "SAVEPOINT");
        w = WR_SP_ROLLBACK_TO;
    }
    uint8_t quote = sql.p[0] == '`' || sql.p[0] == '"' ? sql.p[0] : 0;
    size_t i = quote ? 1 : 0, from = name->n;
    for (; i < sql.n; i++) {
        if (quote && sql.p[i] == quote) {
            if (i + 1 == sql.n || sql.p[i + 1] != quote) break;
            i++;
        } else if (!quote && !isalnum(sql.p[i]) && sql.p[i] != '_' && sql.p[i] != '$' && sql.p[i] < 0x80) return WR_SP_NONE;
        wr_buf_u8(name, sql.p[i]);
    }
    return name->n > from && i + (quote ? 1 : 0) == sql.n ? w : WR_SP_NONE;
}

/* ------------------------------------------------------------------ names */
static bool is_ascii(wr_slice s) {
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] >= 0x80) return false;
    return true;
}

/* Without case, as far as ASCII goes. */
static bool plainly_same(const savepoint *sp, wr_slice name) { return sp->n == name.n && strncasecmp(sp->name, (const char *)name.p, name.n) == 0; }

/* Names are compared by the collation utf8mb3_general_ci: `é` is `E`. */
static wr_code is_same(const savepoint *sp, wr_slice name, wr_savepoint_same_fn *same, void *ctx, bool *ret, wr_err *err) {
    wr_slice other = wr_slice_of(sp->name, sp->n);
    *ret = plainly_same(sp, name);
    if (*ret || (is_ascii(name) && is_ascii(other))) return WR_OK;
    if (same) return same(ctx, other, name, ret, err);
    return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "whether savepoint %.*s is %.*s for the server cannot be asked", (int)name.n, (const char *)name.p, (int)other.n, sp->name);
}

/* ------------------------------------------------------------------ places */
wr_code wr_savepoints_set(wr_savepoints *s, wr_slice name, wr_place at, uint64_t changes, wr_err *err) {
    int old = s->nset - 1;
    while (old >= 0 && !plainly_same(&s->set[old], name)) old--;
    bool again = old >= 0;
    if (again && !s->set[old].first) { /* neither the first nor the last any more */
        wr_free(s->set[old].name);
        memmove(&s->set[old], &s->set[old + 1], (size_t)(s->nset - old - 1) * sizeof *s->set);
        s->nset--;
    }
    if (s->nset == s->cap_set) {
        if (s->nset >= 2 * WR_SAVEPOINT_NAMES_MAX)
            return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a transaction with more than %d savepoints", WR_SAVEPOINT_NAMES_MAX);
        int cap = s->cap_set ? s->cap_set * 2 : 8;
        savepoint *v = wr_realloc(s->set, (size_t)cap * sizeof *v);
        if (!v) return wr_nomem(err, "savepoints", (size_t)cap * sizeof *v);
        s->set = v, s->cap_set = cap;
    }
    char *copy = wr_malloc(name.n + 1);
    if (!copy) return wr_nomem(err, "savepoint", name.n);
    memcpy(copy, name.p, name.n);
    copy[name.n] = 0;
    s->set[s->nset++] = (savepoint){.name = copy, .n = name.n, .first = !again, .at = at, .changes = changes};
    return WR_OK;
}

static wr_code add_undone(wr_savepoints *s, wr_place from, wr_place upto, wr_err *err) {
    s->any = true;
    while (s->nundone && wr_place_cmp(s->undone[s->nundone - 1].from, from) >= 0) s->nundone--;
    if (s->nundone && wr_place_cmp(s->undone[s->nundone - 1].upto, from) >= 0) {
        s->undone[s->nundone - 1].upto = upto;
        return WR_OK;
    }
    if (s->nundone == s->cap_undone) {
        if (s->nundone >= WR_SAVEPOINT_RANGES_MAX)
            return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a transaction with more than %d rollbacks to savepoints", WR_SAVEPOINT_RANGES_MAX);
        int cap = s->cap_undone ? s->cap_undone * 2 : 8;
        range *v = wr_realloc(s->undone, (size_t)cap * sizeof *v);
        if (!v) return wr_nomem(err, "savepoints", (size_t)cap * sizeof *v);
        s->undone = v, s->cap_undone = cap;
    }
    s->undone[s->nundone++] = (range){from, upto};
    return WR_OK;
}

static void add_doubt(wr_savepoints *s, wr_place from, wr_place upto) {
    s->any = true;
    if (!s->doubt) s->doubtful = (range){from, upto};
    s->doubt = true;
    if (wr_place_cmp(from, s->doubtful.from) < 0) s->doubtful.from = from;
    if (wr_place_cmp(upto, s->doubtful.upto) > 0) s->doubtful.upto = upto;
}

wr_code wr_savepoints_rollback_to(wr_savepoints *s, wr_slice name, wr_place at, uint64_t changes, wr_savepoint_same_fn *same, void *ctx, wr_err *err) {
    int last = -1, first = -1;
    for (int i = s->nset - 1; i >= 0; i--) {
        bool yes;
        WR_TRY(is_same(&s->set[i], name, same, ctx, &yes, err));
        if (!yes) continue;
        if (last < 0) last = i;
        first = i;
    }
    if (last < 0) {
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "a ROLLBACK TO SAVEPOINT %.*s, which this transaction has not set", (int)name.n, (const char *)name.p);
        return WR_E_UNSUPPORTED;
    }
    const savepoint *sp = &s->set[last];
    if (sp->changes != s->set[first].changes) add_doubt(s, s->set[first].at, sp->at);
    if (sp->changes != changes) WR_TRY(add_undone(s, sp->at, at, err));
    forget_from(s, last + 1); /* those set later are gone, this one stays */
    return WR_OK;
}

wr_code wr_savepoints_rollback(wr_savepoints *s, wr_place at, wr_err *err) { return add_undone(s, (wr_place){0}, at, err); }

bool wr_savepoints_any(const wr_savepoints *s) { return s->any; }

bool wr_savepoints_undone(const wr_savepoints *s, wr_place at) {
    int lo = 0, hi = s->nundone; /* the first range that ends at or behind `at` */
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (wr_place_cmp(s->undone[mid].upto, at) < 0) lo = mid + 1;
        else hi = mid;
    }
    return lo < s->nundone && wr_place_cmp(s->undone[lo].from, at) < 0;
}

bool wr_savepoints_doubtful(const wr_savepoints *s, wr_place at) {
    return s->doubt && wr_place_cmp(s->doubtful.from, at) < 0 && wr_place_cmp(at, s->doubtful.upto) <= 0;
}
