/* One rule against one schema: SQL for masks and conversions, the columns that come out, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include "rules.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

#define MAX_COLS 4096

/* A column by name: exactly spelled, else in any case, as the source itself would find it. */
static int find(const wr_schema *s, const char *name, size_t n) {
    for (int i = 0; i < s->ncols; i++)
        if (strlen(s->cols[i].name) == n && !memcmp(s->cols[i].name, name, n)) return i;
    for (int i = 0; i < s->ncols; i++)
        if (strlen(s->cols[i].name) == n && !strncasecmp(s->cols[i].name, name, n)) return i;
    return -1;
}

/* The column that a rule names; -1 and WR_OK: it may be missing, and is. */
static wr_code column(const stage *s, const char *what, const char *name, int *ret, wr_err *err) {
    size_t n = strlen(name);
    bool optional = n > 1 && name[n - 1] == '?';
    *ret = find(s->in, name, optional ? n - 1 : n);
    if (*ret >= 0 || optional) return WR_OK;
    wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "transform.rules[%d].%s: there is no column %s", s->rule->number, what, name);
    return wr_err_cure(err, "correct the rule; or, when not every table it matches has the column, write '%s?'", name);
}

/* ------------------------------------------------------------------ masks */
static wr_code mask_sql(const wr_rules *rules, const stage *s, const wr_column *c, const char *kind, wr_buf *b, wr_err *err) {
    if (!strcmp(kind, "null")) {
        wr_buf_printf(b, "CAST(NULL AS "), wr_sql_type(b, c->type), wr_buf_u8(b, ')');
        return WR_OK;
    }
    bool bytes = c->type.kind == WR_STRING || c->type.kind == WR_BINARY;
    if (!strcmp(kind, "hash")) { /* keyed: sha256(key || sha256(key || text)), so that lists of likely values cannot be hashed by anyone */
        wr_buf_printf(b, rules->mask_key ? "sha256(" : "");
        bool blob = c->type.kind == WR_BINARY; /* encode: a cast would read escapes in the key */
        if (rules->mask_key) wr_sql_literal(b, rules->mask_key), wr_buf_printf(b, blob ? " || sha256(encode(" : " || sha256("), wr_sql_literal(b, rules->mask_key), wr_buf_printf(b, blob ? ") || " : " || ");
        else wr_buf_printf(b, "sha256(");
        if (!bytes) wr_buf_printf(b, "CAST(");
        wr_sql_ident(b, c->name);
        wr_buf_printf(b, "%s%s)", bytes ? "" : " AS VARCHAR)", rules->mask_key ? ")" : "");
        return WR_OK;
    }
    if (!strcmp(kind, "partial")) {
        if (c->type.kind != WR_STRING)
            return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "transform.rules[%d].mask.%s: partial is for texts; use hash or null", s->rule->number, c->name);
        WR_AUTO_BUF wr_buf q = WR_BUF_INIT;
        wr_sql_ident(&q, c->name);
        const char *n = wr_buf_cstr(&q);
        if (!n) return wr_nomem(err, "SQL", 256);
        wr_buf_printf(b,
                      "CASE WHEN length(%s) < 4 THEN repeat('*', length(%s)) ELSE left(%s, least(4, length(%s) // 4)) || repeat('*', length(%s) - 2 * least(4, length(%s) // 4)) || "
                      "right(%s, least(4, length(%s) // 4)) END",
                      n, n, n, n, n, n, n, n);
        return WR_OK;
    }
    return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "transform.rules[%d].mask.%s: '%s' is none of hash, partial, null", s->rule->number, c->name, kind);
}

/* ------------------------------------------------------------------ conversions */
static const struct { const char *name; int64_t micros; } units[] = {{"seconds", 1000000}, {"millis", 1000}, {"micros", 1}};

static int64_t unit_of(const char *s, size_t n) {
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i].name) == n && !memcmp(units[i].name, s, n)) return units[i].micros;
    return 0;
}

static bool is_whole(wr_type t) { return t.kind == WR_INT || t.kind == WR_LONG || (t.kind == WR_DECIMAL && !t.scale); }
static bool is_time(wr_type t) { return t.kind == WR_TIMESTAMP || t.kind == WR_TIMESTAMPTZ || t.kind == WR_DATE; }

static wr_code bad_conversion(const stage *s, const wr_column *c, const char *text, const char *why, wr_err *err) {
    char t[32];
    wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "transform.rules[%d].convert.%s: '%s' %s (the column is %s)", s->rule->number, c->name, text, why, wr_type_name(c->type, t));
    return wr_err_cure(err, "'timestamptz', 'date in Asia/Shanghai', 'millis to timestamptz', 'seconds', 'decimal(12,2)' are conversions; anything else can be said with set");
}

/* The column as an instant in `z` for the ways that need one. */
static void instant(wr_buf *b, const wr_column *c, int64_t unit, const char *zone) {
    if (unit) wr_buf_printf(b, "make_timestamptz(CAST("), wr_sql_ident(b, c->name), wr_buf_printf(b, " AS BIGINT) * %lld)", (long long)unit);
    else if (c->type.kind == WR_TIMESTAMPTZ) wr_sql_ident(b, c->name);
    else wr_buf_printf(b, "timezone("), wr_sql_literal(b, zone), wr_buf_printf(b, ", CAST("), wr_sql_ident(b, c->name), wr_buf_printf(b, " AS TIMESTAMP))");
}

/* DuckDB would look a zone up with the first row only. */
static wr_code check_zone(const wr_rules *rules, const stage *s, const wr_column *c, const char *text, const char *zone, wr_err *err) {
    WR_AUTO_BUF wr_buf sql = WR_BUF_INIT;
    wr_buf_printf(&sql, "CAST(timezone("), wr_sql_literal(&sql, zone), wr_buf_printf(&sql, ", make_timestamptz(0)) AS VARCHAR)");
    const char *e = wr_buf_cstr(&sql);
    WR_AUTO wr_value *v = wr_calloc((size_t)s->in->ncols, sizeof *v);
    wr_exprs *x;
    int bad, nfaults = 0;
    if (!e || !v) return wr_nomem(err, "SQL", 256);
    for (int i = 0; i < s->in->ncols; i++) v[i].null = true;
    wr_code rc = wr_exprs_new(rules->space, s->in, NULL, &e, 1, &x, &bad, err);
    if (rc == WR_OK) {
        rc = wr_exprs_run(x, v, 1, err);
        wr_exprs_faults(x, &nfaults);
        wr_exprs_free(x);
    }
    if (rc != WR_OK && rc != WR_E_INVAL) return rc;
    if (rc == WR_OK && !nfaults) return WR_OK;
    wr_err_clear(err);
    return bad_conversion(s, c, text, "names no time zone", err);
}

static wr_code convert_sql(const wr_rules *rules, const stage *s, const wr_column *c, const char *text, wr_buf *b, wr_err *err) {
    char type[64], zone[64] = "UTC";
    const char *p = text, *to = strstr(text, " to "), *in = strstr(text, " in ");
    int64_t unit = to ? unit_of(text, (size_t)(to - text)) : 0;
    if (to && !unit) return bad_conversion(s, c, text, "does not begin with seconds, millis or micros", err);
    if (to) p = to + 4;
    if (in) {
        snprintf(zone, sizeof zone, "%s", in + 4);
        WR_TRY(check_zone(rules, s, c, text, zone, err));
    }
    snprintf(type, sizeof type, "%.*s", in ? (int)(in - p) : (int)strlen(p), p);
    if (unit && !is_whole(c->type)) return bad_conversion(s, c, text, "counts from 1970 in a column that is no whole number", err);
    int64_t per = unit_of(type, strlen(type));
    if (per) { /* rounded down, before 1970 too */
        if (!is_time(c->type)) return bad_conversion(s, c, text, "counts a column that is no time", err);
        WR_AUTO_BUF wr_buf us = WR_BUF_INIT;
        wr_buf_printf(&us, "epoch_us("), instant(&us, c, 0, zone), wr_buf_printf(&us, ")");
        const char *u = wr_buf_cstr(&us);
        if (!u) return wr_nomem(err, "SQL", 256);
        wr_buf_printf(b, "(%s - ((%s %% %lld) + %lld) %% %lld) // %lld", u, u, (long long)per, (long long)per, (long long)per, (long long)per);
        return WR_OK;
    }
    wr_type t;
    if (wr_type_parse(type, &t, err) != WR_OK) return wr_err_clear(err), bad_conversion(s, c, text, "names no lake type", err);
    bool from_time = unit || is_time(c->type);
    if (is_time(t) && is_whole(c->type) && !unit) return bad_conversion(s, c, text, "needs the unit: 'seconds to ...', 'millis to ...' or 'micros to ...'", err);
    if (from_time && t.kind == WR_TIMESTAMPTZ) return instant(b, c, unit, zone), WR_OK;
    bool zoned = unit || c->type.kind == WR_TIMESTAMPTZ; /* an instant, to be read off a clock on a wall */
    if (from_time && (is_time(t) || t.kind == WR_STRING)) {
        wr_buf_printf(b, "CAST(");
        if (zoned) wr_buf_printf(b, "timezone("), wr_sql_literal(b, zone), wr_buf_printf(b, ", "), instant(b, c, unit, zone), wr_buf_u8(b, ')');
        else wr_sql_ident(b, c->name);
        wr_buf_printf(b, " AS "), wr_sql_type(b, t), wr_buf_u8(b, ')');
        return WR_OK;
    }
    if (from_time || in) return bad_conversion(s, c, text, "is no conversion of this column", err);
    wr_buf_printf(b, "CAST("), wr_sql_ident(b, c->name), wr_buf_printf(b, " AS "), wr_sql_type(b, t), wr_buf_u8(b, ')');
    return WR_OK;
}

/* ------------------------------------------------------------------ assembling */
typedef struct draft { /* of one column that comes out */
    int from;          /* as in stage */
    const char *name;  /* borrowed, or set by rename */
    bool by_rule;      /* some part of the rule has spoken of it */
    bool dropped;
    bool keeps_key;    /* different values stay different */
} draft;

static wr_code add_expr(stage *s, draft *d, wr_buf *sql, const char *shown, wr_err *err) {
    int at = s->nexprs++; /* there is room: draft_columns */
    s->expr_sql[at] = wr_buf_cstr(sql) ? wr_strdup((char *)sql->p) : NULL;
    s->expr_shown[at] = wr_strdup(shown);
    d->from = -1 - at;
    return s->expr_sql[at] && s->expr_shown[at] ? WR_OK : wr_nomem(err, "SQL", sql->n);
}

static wr_code speak(const stage *s, draft *d, const char *what, wr_err *err) {
    if (d->by_rule) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "transform.rules[%d].%s: column %s has more than one of set, mask, convert and drop", s->rule->number, what, d->name);
    d->by_rule = true;
    return WR_OK;
}

/* Whether a conversion leaves different values different. No clock on a wall does: it shows an hour twice a year. */
static bool keeps_apart(wr_type from, const char *text) {
    wr_type t;
    wr_err none = WR_ERR_INIT;
    const char *to = strstr(text, " to ");
    if (!is_whole(from)) return false;
    if (to) return !strcmp(to, " to timestamptz") || !strcmp(to, " to timestamp");
    return wr_type_parse(text, &t, &none) == WR_OK && (is_whole(t) || t.kind == WR_STRING);
}

static wr_code draft_columns(const wr_rules *rules, stage *s, draft *d, int *n, wr_err *err) {
    const wr_rule *r = &s->rule->r;
    int at;
    *n = s->in->ncols;
    size_t most = (size_t)(r->nmask + r->nconvert + r->nset) + 1;
    s->expr_sql = wr_calloc(most, sizeof *s->expr_sql), s->expr_shown = wr_calloc(most, sizeof *s->expr_shown), s->expr_column = wr_calloc(most, sizeof *s->expr_column);
    if (!s->expr_sql || !s->expr_shown || !s->expr_column) return wr_nomem(err, "expressions", most * sizeof *s->expr_sql);
    for (int i = 0; i < *n; i++) d[i] = (draft){.from = i, .name = s->in->cols[i].name};
    for (int i = 0; i < r->nmask + r->nconvert; i++) {
        bool mask = i < r->nmask;
        const wr_pair *p = mask ? &r->mask[i] : &r->convert[i - r->nmask];
        WR_AUTO_BUF wr_buf sql = WR_BUF_INIT;
        WR_TRY(column(s, mask ? "mask" : "convert", p->name, &at, err));
        if (at < 0) continue;
        const wr_column *c = &s->in->cols[at];
        WR_TRY(speak(s, &d[at], mask ? "mask" : "convert", err));
        WR_TRY(mask ? mask_sql(rules, s, c, p->value, &sql, err) : convert_sql(rules, s, c, p->value, &sql, err));
        WR_TRY(add_expr(s, &d[at], &sql, p->value, err));
        d[at].keeps_key = mask ? !strcmp(p->value, "hash") : keeps_apart(c->type, p->value);
        s->hidden[at] |= mask;
    }
    for (int i = 0; i < r->ndrop; i++) {
        WR_TRY(column(s, "drop", r->drop[i], &at, err));
        if (at < 0) continue;
        WR_TRY(speak(s, &d[at], "drop", err));
        d[at].dropped = s->hidden[at] = true;
    }
    for (int i = 0; i < r->nset; i++) {
        at = find(s->in, r->set[i].name, strlen(r->set[i].name));
        if (at < 0) at = (*n)++, d[at] = (draft){.name = r->set[i].name};
        WR_TRY(speak(s, &d[at], "set", err));
        WR_AUTO_BUF wr_buf sql = WR_BUF_INIT;
        wr_buf_printf(&sql, "%s", r->set[i].value);
        WR_TRY(add_expr(s, &d[at], &sql, r->set[i].value, err));
    }
    for (int i = 0; i < r->nrename; i++) {
        WR_TRY(column(s, "rename", r->rename[i].name, &at, err));
        if (at < 0) continue;
        if (d[at].dropped) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "transform.rules[%d].rename: column %s is dropped", s->rule->number, r->rename[i].name);
        d[at].name = r->rename[i].value;
    }
    return WR_OK;
}

/* A computed column is known by what it is called and what it holds. */
static int32_t computed_id(const char *name, wr_type t) {
    char type[32];
    wr_type_name(t, type);
    return WR_COMPUTED_ID_BASE + (int32_t)(wr_hash64(name, strlen(name), wr_hash64(type, strlen(type), 0)) % (WR_ELEMENT_ID_BASE - WR_COMPUTED_ID_BASE));
}

static wr_code check_key(const stage *s, const draft *d, int n, wr_err *err) {
    for (int i = 0; i < n; i++) {
        bool key = i < s->in->ncols && s->in->cols[i].key_ord;
        if (!key || (!d[i].dropped && (d[i].from >= 0 || d[i].keeps_key))) continue;
        wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "transform.rules[%d]: column %s is part of the key, and different keys must stay different", s->rule->number, s->in->cols[i].name);
        return wr_err_cure(err, "a key column can be renamed, hashed, or converted from one whole number to another");
    }
    return WR_OK;
}

static wr_code out_schema(stage *s, const draft *d, int n, wr_err *err) {
    WR_AUTO wr_column *c = wr_calloc((size_t)n + 1, sizeof *c);
    s->from = wr_calloc((size_t)n + 1, sizeof *s->from);
    s->to = wr_calloc((size_t)n + 1, sizeof *s->to);
    if (!c || !s->from || !s->to) return wr_nomem(err, "schema", (size_t)n * sizeof *c);
    int out = 0;
    for (int i = 0; i < n; i++) {
        if (i < s->in->ncols) s->to[i] = d[i].dropped ? -1 : out;
        if (d[i].dropped) continue;
        for (int k = 0; k < out; k++)
            if (!strcasecmp(c[k].name, d[i].name))
                return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "transform.rules[%d]: two columns are called %s", s->rule->number, d[i].name);
        wr_column *o = &c[out];
        s->from[out] = d[i].from;
        if (i < s->in->ncols) *o = s->in->cols[i];
        if (d[i].from < 0) {
            int e = -1 - d[i].from;
            wr_type t = wr_exprs_type(s->exprs, e);
            *o = (wr_column){.id = computed_id(d[i].name, t), .type = t, .nullable = !o->key_ord, .key_ord = o->key_ord};
            for (int k = 0; k < out; k++)
                if (c[k].id == o->id) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "transform.rules[%d]: columns %s and %s happen to get the same number; call one of them otherwise", s->rule->number, c[k].name, d[i].name);
            if (!(s->expr_column[e] = wr_strdup(d[i].name))) return wr_nomem(err, "column name", 64);
        }
        o->name = (char *)d[i].name;
        out++;
    }
    if (!out) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "transform.rules[%d] leaves no column", s->rule->number);
    wr_code rc = wr_schema_new(c, out, s->in->version, &s->out, err);
    if (rc == WR_E_INVAL) err->code = WR_E_CONFIG;
    return rc == WR_OK ? rc : wr_err_in(err, "transform.rules[%d]", s->rule->number);
}

wr_code wr_stage_new(const wr_rules *rules, const rule *u, const wr_schema *in, stage *ret, wr_err *err) {
    stage s = {.rule = u};
    int n = in->ncols, bad;
    if (n + u->r.nset > MAX_COLS) return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a table of %d columns (limit %d)", n, MAX_COLS);
    s.in = wr_schema_ref(in);
    s.hidden = wr_calloc((size_t)n, sizeof *s.hidden);
    WR_AUTO draft *d = wr_calloc((size_t)n + (size_t)u->r.nset, sizeof *d);
    wr_code rc = s.hidden && d ? draft_columns(rules, &s, d, &n, err) : wr_nomem(err, "transform", 1024);
    if (rc == WR_OK) rc = check_key(&s, d, n, err);
    if (rc == WR_OK && (s.nexprs || u->r.filter)) {
        rc = wr_exprs_new(rules->space, in, u->r.filter, (const char *const *)s.expr_sql, s.nexprs, &s.exprs, &bad, err);
        if (rc == WR_E_INVAL) {
            const char *name = "";
            for (int i = 0; bad >= 0 && i < n; i++)
                if (d[i].from == -1 - bad) name = d[i].name;
            err->code = WR_E_CONFIG;
            rc = bad < 0 ? wr_err_in(err, "transform.rules[%d].filter", u->number) : wr_err_in(err, "transform.rules[%d], column %s", u->number, name);
        }
    }
    if (rc == WR_OK) rc = out_schema(&s, d, n, err);
    if (rc != WR_OK) return wr_stage_clear(&s), rc;
    *ret = s;
    return WR_OK;
}

void wr_stage_clear(stage *s) {
    for (int i = 0; i < s->nexprs; i++) wr_free(s->expr_sql[i]), wr_free(s->expr_shown[i]), wr_free(s->expr_column[i]);
    wr_free(s->expr_sql), wr_free(s->expr_shown), wr_free(s->expr_column);
    wr_exprs_free(s->exprs);
    wr_schema_unref(s->in), wr_schema_unref(s->out);
    wr_free(s->from), wr_free(s->to), wr_free(s->hidden), wr_free(s->vals);
    wr_buf_free(&s->rows);
    *s = (stage){0};
}

