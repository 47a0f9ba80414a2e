/* The stages of one table, run over rows. */
#include <stdio.h>
#include <string.h>
#include "rules.h"
#include "weir/base/mem.h"

/* ------------------------------------------------------------------ life */
wr_code wr_transform_new(wr_rules *r, const char *db, const char *name, const wr_schema *in, wr_transform **ret_transform, wr_err *err) {
    *ret_transform = NULL;
    WR_AUTO char *full = r && r->n ? wr_asprintf("%s.%s", db, name) : NULL;
    if (!r || !r->n) return WR_OK;
    if (!full) return wr_nomem(err, "table name", 64);
    wr_transform *t = NULL;
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i < r->n; i++) {
        if (regexec(&r->rules[i].re, full, 0, NULL, 0)) continue;
        if (!t) {
            t = wr_calloc(1, sizeof *t);
            if (t) t->stages = wr_calloc((size_t)r->n, sizeof *t->stages), t->db = wr_strdup(db), t->name = wr_strdup(name);
            if (!t || !t->stages || !t->db || !t->name) {
                rc = wr_nomem(err, "transform", sizeof *t);
                break;
            }
            t->rules = r;
        }
        rc = wr_stage_new(r, &r->rules[i], t->nstages ? t->stages[t->nstages - 1].out : in, &t->stages[t->nstages], err);
        if (rc == WR_OK) t->nstages++;
        else rc = wr_err_in(err, "table %s", full);
    }
    if (rc != WR_OK) return wr_transform_free(t), rc;
    for (int k = 0; t && k < t->nstages; k++)
        for (int i = 0; i < t->stages[k].in->ncols; i++) t->hides |= t->stages[k].hidden[i];
    *ret_transform = t;
    return WR_OK;
}

void wr_transform_rest(wr_transform *t) {
    wr_free(t->rows), wr_free(t->outcomes);
    t->rows = NULL, t->outcomes = NULL, t->cap = 0;
    for (int i = 0; i < t->nstages; i++) {
        stage *s = &t->stages[i];
        if (s->exprs) wr_exprs_forget(s->exprs);
        wr_free(s->vals);
        s->vals = NULL, s->vals_cap = 0;
        wr_buf_free(&s->rows);
    }
}

void wr_transform_free(wr_transform *t) {
    if (!t) return;
    for (int i = 0; i < t->nstages; i++) wr_stage_clear(&t->stages[i]);
    wr_free(t->stages), wr_free(t->db), wr_free(t->name), wr_free(t->rows), wr_free(t->outcomes);
    wr_free(t);
}

const wr_schema *wr_transform_schema(const wr_transform *t) { return t->stages[t->nstages - 1].out; }
uint64_t wr_transform_nulled(const wr_transform *t) { return __atomic_load_n(&t->nulled, __ATOMIC_RELAXED); }

bool wr_transform_has_dead_letters(const wr_transform *t) {
    for (int i = 0; i < t->nstages; i++)
        if (t->stages[i].rule->r.on_fault == WR_ON_FAULT_DEAD_LETTER) return true;
    return false;
}

bool wr_transform_hides(const wr_transform *t, int col) {
    for (int k = 0; col >= 0 && k < t->nstages; k++) {
        if (t->stages[k].hidden[col]) return true;
        col = t->stages[k].to[col];
    }
    return false;
}

bool wr_transform_hides_key(const wr_transform *t) {
    const wr_schema *s = t->stages[0].in;
    for (int i = 0; i < s->nkey; i++)
        if (wr_transform_hides(t, s->key[i])) return true;
    return false;
}

/* A column that is new and computed, not passed: its old rows hold what is made of its initial value. */
static bool fills_computed(const wr_transform *t, const wr_schema *was) {
    const wr_schema *now = t->stages[0].in;
    for (int i = 0; i < now->ncols; i++) {
        if (!now->cols[i].has_initial || wr_schema_find_id(was, now->cols[i].id) >= 0) continue;
        int col = i;
        for (int k = 0; k < t->nstages && col >= 0; k++) {
            col = t->stages[k].to[col];
            if (col >= 0 && t->stages[k].from[col] < 0) return true;
        }
    }
    return false;
}

bool wr_transform_keeps(const wr_transform *t, const wr_schema *was) {
    const wr_schema *now = t->stages[0].in;
    if (fills_computed(t, was)) return false;
    if (!now->nkey && wr_transform_has_dead_letters(t)) { /* a refused row is known by all its columns */
        if (was->ncols != now->ncols) return false;
        for (int i = 0; i < was->ncols; i++)
            if (was->cols[i].id != now->cols[i].id) return false;
    }
    for (int i = 0; i < was->ncols; i++) {
        const wr_column *c = &was->cols[i];
        int id = wr_schema_find_id(now, c->id), name = wr_schema_find(now, c->name);
        if (id < 0 && name < 0) continue;
        if (id != name || !wr_type_eq(now->cols[id].type, c->type) || now->cols[id].key_ord != c->key_ord) return false;
    }
    return was->nkey == now->nkey;
}

/* ------------------------------------------------------------------ running */
/* DuckDB's messages quote values; where some rule of the table masks or drops a column, only their kind is told. */
static void cut_message(const wr_transform *t, char *message) {
    char *colon = t->hides ? strchr(message, ':') : NULL;
    if (colon) *colon = 0;
}

static wr_code stopped(const wr_transform *t, const stage *s, wr_slice row, const wr_expr_fault *f, wr_err *err) {
    WR_AUTO_BUF wr_buf key = WR_BUF_INIT;
    WR_TRY(wr_transform_print_key(t, row, &key, err));
    cut_message(t, f->message);
    const char *k = wr_buf_cstr(&key);
    wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "transform.rules[%d], table %s.%s, row %.200s: %s %.200s: %.300s", s->rule->number, t->db, t->name, k ? k : "?", f->expr < 0 ? "the filter" : "column",
            f->expr < 0 ? s->rule->r.filter : s->expr_column[f->expr], f->message);
    if (f->limit) return wr_err_cure(err, "no on_error is an answer to a lack of memory: let the expression make less of the row");
    if (s->rule->r.on_fault == WR_ON_FAULT_NULL) return wr_err_cure(err, "on_error: null knows no answer for a filter or a key column: correct the expression, or set on_error: dead-letter");
    return wr_err_cure(err, "correct the expression (try(...) and try_cast(...) give null where it fails), or set on_error: null or dead-letter for the rule");
}

static wr_code encode(stage *s, const wr_value *in, const wr_value *computed, wr_err *err) {
    wr_buf *b = &s->rows;
    size_t at = wr_row_begin(b, s->out->ncols);
    for (int i = 0; i < s->out->ncols; i++) wr_row_put(b, at, i, s->out->cols[i].type, s->from[i] >= 0 ? &in[s->from[i]] : &computed[-1 - s->from[i]]);
    return wr_buf_check(b, "transformed rows", err);
}

/* What the faults of one row lead to: true = it goes on with nulls. */
static wr_code settle(wr_transform *t, stage *s, uint32_t i, wr_slice source, const wr_expr_fault *f, int n, bool *ret_goes_on, wr_err *err) {
    wr_on_fault how = s->rule->r.on_fault;
    *ret_goes_on = false;
    for (int k = 0; k < n; k++)
        if (f[k].limit) return stopped(t, s, source, &f[k], err);
    if (how == WR_ON_FAULT_DEAD_LETTER) {
        cut_message(t, f->message);
        bool filter = f->expr < 0;
        t->outcomes[i] = (wr_outcome){.fate = WR_FATE_REFUSED, .column = filter ? NULL : s->expr_column[f->expr], .expression = filter ? s->rule->r.filter : s->expr_shown[f->expr], .message = f->message};
        return WR_OK;
    }
    for (int k = 0; k < n; k++) {
        bool key = false;
        for (int c = 0; c < s->out->ncols; c++) key |= s->from[c] == -1 - f[k].expr && f[k].expr >= 0 && s->out->cols[c].key_ord;
        if (how == WR_ON_FAULT_STOP || f[k].expr < 0 || key) return stopped(t, s, source, &f[k], err);
    }
    __atomic_add_fetch(&t->nulled, (uint64_t)n, __ATOMIC_RELAXED);
    *ret_goes_on = true;
    return WR_OK;
}

/* Runs one stage over the first *n of t->rows; leaves those that go on there. */
static wr_code run_stage(wr_transform *t, stage *s, const wr_slice *source, uint32_t *n, wr_err *err) {
    size_t cols = (size_t)s->in->ncols;
    int nfaults = 0, at = 0;
    uint32_t out = 0;
    const wr_expr_fault *faults = NULL;
    if (*n > s->vals_cap) {
        wr_value *v = wr_realloc(s->vals, *n * cols * sizeof *v);
        if (!v) return wr_nomem(err, "transform", *n * cols * sizeof *v);
        s->vals = v, s->vals_cap = *n;
    }
    for (uint32_t k = 0; k < *n; k++) WR_TRY(wr_row_read(s->in, t->rows[k].slice, s->vals + k * cols, err));
    if (s->exprs) {
        WR_TRY(wr_exprs_run(s->exprs, s->vals, *n, err));
        faults = wr_exprs_faults(s->exprs, &nfaults);
    }
    wr_buf_clear(&s->rows);
    for (uint32_t k = 0; k < *n; k++) {
        uint32_t i = t->rows[k].live;
        const wr_value *in = s->vals + k * cols, *computed = s->exprs ? wr_exprs_row(s->exprs, k) : in;
        int first = at;
        bool goes_on = true;
        while (faults && at < nfaults && faults[at].row == k) at++;
        if (at > first) WR_TRY(settle(t, s, i, source[i], &faults[first], at - first, &goes_on, err));
        if (!goes_on) continue;
        if (!computed) {
            t->outcomes[i].fate = WR_FATE_FILTERED;
            continue;
        }
        WR_TRY(encode(s, in, computed, err));
        t->rows[out].end = s->rows.n;
        t->rows[out++].live = i;
    }
    for (uint32_t k = 0; k < out; k++) { /* the buffer has stopped moving */
        size_t begin = k ? t->rows[k - 1].end : 0;
        t->rows[k].slice = wr_slice_of(s->rows.p + begin, t->rows[k].end - begin);
    }
    *n = out;
    return WR_OK;
}

static wr_code reserve(wr_transform *t, uint32_t n, wr_err *err) {
    if (n <= t->cap) return WR_OK;
    passing *r = wr_realloc(t->rows, n * sizeof *r);
    if (r) t->rows = r;
    wr_outcome *o = wr_realloc(t->outcomes, n * sizeof *o);
    if (o) t->outcomes = o;
    if (!r || !o) return wr_nomem(err, "transform", n * sizeof *o);
    t->cap = n;
    return WR_OK;
}

wr_code wr_transform_run(wr_transform *t, const wr_slice *rows, uint32_t n, const wr_outcome **ret_outcomes, wr_err *err) {
    if (n > WR_TRANSFORM_ROWS) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%u rows in one call (limit %d)", n, WR_TRANSFORM_ROWS);
    WR_TRY(reserve(t, n, err));
    for (uint32_t i = 0; i < n; i++) {
        t->outcomes[i] = (wr_outcome){.fate = WR_FATE_PASS};
        t->rows[i] = (passing){.live = i, .slice = rows[i]};
    }
    for (int k = 0; k < t->nstages; k++) WR_TRY(run_stage(t, &t->stages[k], rows, &n, err));
    for (uint32_t k = 0; k < n; k++) t->outcomes[t->rows[k].live].row = t->rows[k].slice;
    *ret_outcomes = t->outcomes;
    return WR_OK;
}
