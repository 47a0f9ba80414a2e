#include "weir/layout.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "weir/base/mem.h"
#include "weir/base/pattern.h"

/* Iceberg table spec, "Partition Transforms": what each takes. */
#define BIT(k) (1u << (k))
#define WHOLE (BIT(WR_INT) | BIT(WR_LONG) | BIT(WR_DECIMAL))
#define TEXTS (BIT(WR_STRING) | BIT(WR_BINARY))
#define INSTANTS (BIT(WR_TIMESTAMP) | BIT(WR_TIMESTAMPTZ))
static const struct transform {
    const char *name;
    uint32_t takes; /* bit of each wr_kind */
    bool wide;      /* has a number before the column */
    const char *types;
} transforms[] = {
    /* Doubles could be: but PyIceberg 0.12 reads them rounded from a manifest, and then finds no row of a filter. */
    [WR_TERM_IDENTITY] = {"identity", ~(BIT(WR_FLOATS) | BIT(WR_DOUBLE)), false, "everything but double (which PyIceberg 0.12 misses rows by) and lists"},
    [WR_TERM_BUCKET] = {"bucket", WHOLE | TEXTS | INSTANTS | BIT(WR_DATE), true, "int, long, decimal, date, timestamp, timestamptz, string and binary"},
    [WR_TERM_TRUNCATE] = {"truncate", WHOLE | TEXTS, true, "int, long, decimal, string and binary"},
    [WR_TERM_YEAR] = {"year", INSTANTS | BIT(WR_DATE), false, "date, timestamp and timestamptz"},
    [WR_TERM_MONTH] = {"month", INSTANTS | BIT(WR_DATE), false, "date, timestamp and timestamptz"},
    [WR_TERM_DAY] = {"day", INSTANTS | BIT(WR_DATE), false, "date, timestamp and timestamptz"},
    [WR_TERM_HOUR] = {"hour", INSTANTS, false, "timestamp and timestamptz"},
};
#define NTRANSFORMS (sizeof transforms / sizeof *transforms)

struct wr_layouts {
    const wr_layout_rule *rules;
    regex_t *re;
    int n;
};

/* ------------------------------------------------------------------ terms */
static wr_code bad(wr_err *err, const char *text, const char *why) {
    wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "'%.120s': %s", text, why);
    return wr_err_cure(err, "a column, or one of identity(column), bucket(N, column), truncate(W, column), year(column), month(column), day(column), hour(column); a column whose name "
                            "looks like one of these is written identity(name)");
}

static char *trimmed(const char *s, size_t n) {
    while (n && isspace((unsigned char)*s)) s++, n--;
    while (n && isspace((unsigned char)s[n - 1])) n--;
    return wr_strndup(s, n);
}

static int transform_of(const char *name, size_t n) {
    for (size_t i = 0; i < NTRANSFORMS; i++)
        if (strlen(transforms[i].name) == n && !strncasecmp(transforms[i].name, name, n)) return (int)i;
    return -1;
}

/* The number before the comma; *inner moves behind it. */
static wr_code take_width(const char *text, const char **inner, uint32_t *ret, wr_err *err) {
    const char *s = *inner;
    while (isspace((unsigned char)*s)) s++;
    char *end = (char *)(uintptr_t)s;
    unsigned long long v = isdigit((unsigned char)*s) ? strtoull(s, &end, 10) : 0;
    if (v < 1 || v > INT32_MAX) return bad(err, text, "needs a whole number from 1 to 2147483647 before the column");
    while (isspace((unsigned char)*end)) end++;
    if (*end != ',') return bad(err, text, "needs a comma between the number and the column");
    *inner = end + 1;
    *ret = (uint32_t)v;
    return WR_OK;
}

wr_code wr_term_parse(const char *text, wr_term *ret, wr_err *err) {
    WR_AUTO char *t = trimmed(text, strlen(text));
    if (!t) return wr_nomem(err, "partition", strlen(text));
    size_t n = strlen(t), open = strcspn(t, "(");
    wr_term term = {.kind = WR_TERM_IDENTITY};
    const char *inner = t, *end = t + n;
    if (open < n) {
        size_t word = open;
        while (word && isspace((unsigned char)t[word - 1])) word--;
        int kind = transform_of(t, word);
        if (kind < 0) return bad(err, text, "no such transform");
        if (t[n - 1] != ')') return bad(err, text, "has no closing parenthesis at its end");
        term.kind = (uint8_t)kind;
        inner = t + open + 1, end = t + n - 1;
        if (transforms[kind].wide) WR_TRY(take_width(text, &inner, &term.width, err));
    }
    WR_AUTO char *column = trimmed(inner, inner < end ? (size_t)(end - inner) : 0);
    if (!column) return wr_nomem(err, "partition", n);
    if (!*column) return bad(err, text, "names no column");
    term.column = WR_STEAL(column);
    *ret = term;
    return WR_OK;
}

char *wr_term_print(const wr_term *t, char buf[256]) {
    if (t->kind == WR_TERM_IDENTITY) snprintf(buf, 256, "%s", t->column);
    else if (t->kind == WR_TERM_VOID) snprintf(buf, 256, "void(%s)", t->column);
    else if (transforms[t->kind].wide) snprintf(buf, 256, "%s(%u, %s)", transforms[t->kind].name, t->width, t->column);
    else snprintf(buf, 256, "%s(%s)", transforms[t->kind].name, t->column);
    return buf;
}

bool wr_term_takes(const wr_term *t, wr_type type) { return t->kind == WR_TERM_VOID || transforms[t->kind].takes & BIT(type.kind); }
/* Takes a word off the end, if it is that one. */
static bool take_word(const char *text, size_t *n, const char *word) {
    size_t k = strlen(word), end = *n;
    while (end && isspace((unsigned char)text[end - 1])) end--;
    if (end <= k || strncasecmp(text + end - k, word, k) || !isspace((unsigned char)text[end - k - 1])) return false;
    return *n = end - k, true;
}

wr_code wr_sort_term_parse(const char *text, wr_sort_term *ret, wr_err *err) {
    size_t n = strlen(text);
    bool last = take_word(text, &n, "last");
    bool nulls = (last || take_word(text, &n, "first")) && take_word(text, &n, "nulls");
    if (!nulls) n = strlen(text); /* a column of that name */
    wr_sort_term t = {.descending = take_word(text, &n, "desc")};
    if (!t.descending) take_word(text, &n, "asc");
    t.nulls_last = nulls ? last : t.descending;
    if (!(t.column = trimmed(text, n))) return wr_nomem(err, "sort", n);
    if (!*t.column) {
        wr_free(t.column);
        wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "'%.120s' names no column", text);
        return wr_err_cure(err, "a column, then asc or desc, then nulls first or nulls last, if the column's order is not to be rising with nulls first, or falling with nulls last");
    }
    *ret = t;
    return WR_OK;
}

/* ------------------------------------------------------------------ rules */
/* Iceberg takes a column twice only where one value does not follow from the other: two buckets, yes; month and day, no. */
static bool is_time(uint8_t kind) { return kind >= WR_TERM_YEAR && kind <= WR_TERM_HOUR; }
static wr_code check_rule(const wr_layout_rule *r, int i, wr_err *err) {
    char a[256], b[256];
    for (int k = 0; k < r->nsort; k++)
        for (int j = 0; j < k; j++)
            if (!strcmp(r->sort[j].column, r->sort[k].column)) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "lake.layout[%d].sort: column %s stands twice", i, r->sort[k].column);
    for (int k = 0; k < r->npartition; k++)
        for (int j = 0; j < k; j++) {
            const wr_term *x = &r->partition[j], *y = &r->partition[k];
            bool same = x->kind == y->kind && x->width == y->width, times = is_time(x->kind) && is_time(y->kind);
            if (strcmp(x->column, y->column) != 0 || (!same && !times)) continue;
            wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "lake.layout[%d].partition: %s stands beside %s: %s", i, wr_term_print(y, b), wr_term_print(x, a), same ? "they are the same" : "one follows from the other");
            return wr_err_cure(err, same ? "take one of them out" : "keep the finer one: readers find a month by its days");
        }
    return WR_OK;
}

wr_code wr_layouts_new(const wr_layout_rule *rules, int n, wr_layouts **ret, wr_err *err) {
    wr_layouts *l = wr_calloc(1, sizeof *l);
    if (!l || !(l->re = wr_calloc((size_t)n + 1, sizeof *l->re))) return wr_layouts_free(l), wr_nomem(err, "lake.layout", (size_t)n * sizeof(regex_t));
    l->rules = rules;
    for (int i = 0; i < n; i++) {
        char why[128];
        wr_code rc = check_rule(&rules[i], i, err);
        if (rc == WR_OK && (rc = wr_pattern_compile(&l->re[i], rules[i].match, why, err)) == WR_E_CONFIG)
            wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "lake.layout[%d].match: '%s' is not a regular expression: %s", i, rules[i].match, why);
        if (rc != WR_OK) return wr_layouts_free(l), rc;
        l->n++;
    }
    *ret = l;
    return WR_OK;
}

void wr_layouts_free(wr_layouts *l) {
    if (!l) return;
    for (int i = 0; i < l->n; i++) regfree(&l->re[i]);
    wr_free(l->re);
    wr_free(l);
}

const wr_layout_rule *wr_layouts_find(const wr_layouts *l, const char *ns, const char *name) {
    if (!strcmp(ns, "_weir")) return NULL;
    WR_AUTO char *full = l && l->n ? wr_asprintf("%s.%s", ns, name) : NULL;
    for (int i = 0; full && i < l->n; i++)
        if (!regexec(&l->re[i], full, 0, NULL, 0)) return &l->rules[i];
    return NULL;
}

static void name_columns(const wr_schema *s, char *buf, size_t n) {
    size_t at = 0;
    buf[0] = 0;
    for (int i = 0; i < s->ncols && at + 80 < n; i++) at += (size_t)snprintf(buf + at, n - at, "%s%.60s", i ? ", " : "", s->cols[i].name);
}

wr_code wr_layouts_check_term(const wr_layouts *l, const wr_layout_rule *r, int k, const char *ns, const char *name, const wr_schema *s, wr_err *err) {
    const wr_term *t = &r->partition[k];
    int rule = (int)(r - l->rules);
    const struct transform *f = &transforms[t->kind];
    char text[256], type[32], columns[400];
    int c = wr_schema_find(s, t->column);
    if (c < 0) {
        name_columns(s, columns, sizeof columns);
        wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "lake.layout[%d].partition[%d]: %s: lake table %s.%s has no column %s", rule, k, wr_term_print(t, text), ns, name, t->column);
        return wr_err_cure(err, "its columns, as the lake has them, are: %s", columns);
    }
    if (wr_term_takes(t, s->cols[c].type)) return WR_OK;
    wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "lake.layout[%d].partition[%d]: %s: column %s of lake table %s.%s is of type %s, and %s takes %s", rule, k, wr_term_print(t, text), t->column, ns, name,
            wr_type_name(s->cols[c].type, type), f->name, f->types);
    return wr_err_cure(err, "choose another transform or column, or leave it out");
}

static wr_code check_column(const char *key, int rule, int k, const char *column, bool lists, const char *ns, const char *name, const wr_schema *s, wr_err *err) {
    char columns[400];
    int c = wr_schema_find(s, column);
    if (c >= 0 && (lists || s->cols[c].type.kind != WR_FLOATS)) return WR_OK;
    if (c >= 0) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "lake.layout[%d].%s[%d]: column %s of lake table %s.%s is a list, and lists have no order", rule, key, k, column, ns, name);
    name_columns(s, columns, sizeof columns);
    wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "lake.layout[%d].%s[%d]: lake table %s.%s has no column %s", rule, key, k, ns, name, column);
    return wr_err_cure(err, "its columns, as the lake has them, are: %s", columns);
}

wr_code wr_layouts_check_sort(const wr_layouts *l, const wr_layout_rule *r, int k, const char *ns, const char *name, const wr_schema *s, wr_err *err) {
    return check_column("sort", (int)(r - l->rules), k, r->sort[k].column, false, ns, name, s, err);
}

wr_code wr_layouts_check_bloom(const wr_layouts *l, const wr_layout_rule *r, int k, const char *ns, const char *name, const wr_schema *s, wr_err *err) {
    return check_column("bloom_filters", (int)(r - l->rules), k, r->bloom[k], true, ns, name, s, err);
}

wr_code wr_layouts_check(const wr_layouts *l, const char *ns, const char *name, const wr_schema *s, wr_err *err) {
    const wr_layout_rule *r = wr_layouts_find(l, ns, name);
    for (int k = 0; r && k < r->npartition; k++) WR_TRY(wr_layouts_check_term(l, r, k, ns, name, s, err));
    for (int k = 0; r && k < r->nsort; k++) WR_TRY(wr_layouts_check_sort(l, r, k, ns, name, s, err));
    for (int k = 0; r && k < r->nbloom; k++) WR_TRY(wr_layouts_check_bloom(l, r, k, ns, name, s, err));
    return WR_OK;
}
