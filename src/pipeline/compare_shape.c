/* Columns, types, nullability and keys of either side of a comparison, and how a source's row becomes one of the columns that both have. */
#include <stdio.h>
#include <string.h>
#include "compare_impl.h"
#include "weir/base/mem.h"

wr_code wr_side_reason(side_table *t, wr_verdict v, wr_err *err, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    char *copy = wr_strdup(text);
    if (!copy) return wr_nomem(err, "report", sizeof text);
    wr_free(t->report->reason);
    t->report->reason = copy, t->report->verdict = v;
    return WR_OK;
}

wr_code wr_side_moved(side_table *t, wr_err *err, const char *fmt, ...) {
    if (t->again) return WR_OK;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    t->again = true;
    return wr_side_reason(t, WR_UNDECIDED, err, "%s", text);
}

static bool is_kept(const wr_column *c) { return c->doc && !strncmp(c->doc, "kept by policy", 14); }

/* The lake's column for one of the source's: that of its name, or, where policy.type_change: lenient kept an earlier one of that name, name__type. */
static int counterpart(const wr_schema *lake, const wr_column *c) {
    int i = wr_schema_find(lake, c->name);
    if (i >= 0 && !is_kept(&lake->cols[i])) return i;
    size_t n = strlen(c->name);
    for (i = 0; i < lake->ncols; i++) {
        const wr_column *l = &lake->cols[i];
        if (!is_kept(l) && !strncmp(l->name, c->name, n) && !strncmp(l->name + n, "__", 2) && wr_type_eq(l->type, c->type)) return i;
    }
    return -1;
}

/* Whether a merged table's column of type b takes values of type a: wr_merge_schema. */
static bool widens(wr_type a, wr_type b) {
    bool number = a.kind == WR_BOOL || a.kind == WR_INT || a.kind == WR_LONG;
    return wr_type_eq(a, b) || wr_type_promotes(a, b) || b.kind == WR_STRING || (number && (b.kind == WR_LONG || b.kind == WR_INT || b.kind == WR_DECIMAL)) || (a.kind == WR_DECIMAL && b.kind == WR_DECIMAL);
}

static wr_code find_column(side_table *t, const char *what, const wr_column *source, const wr_column *lake, wr_err *err) {
    char s[32], l[32];
    /* cppcheck-suppress nullPointerRedundantCheck ; one of the two is there */
    return wr_table_report_find(t->report, what, source ? source->name : lake->name, source ? wr_type_name(source->type, s) : NULL, lake ? wr_type_name(lake->type, l) : NULL, err);
}

/* Marks in use[] the lake's columns that the member's rows have. */
static wr_code compare_columns(side_table *t, const wr_schema *shape, const wr_schema *lake, bool *use, bool *wrong, wr_err *err) {
    for (int i = 0; i < shape->ncols; i++) {
        const wr_column *c = &shape->cols[i];
        int at = counterpart(lake, c);
        if (at < 0) {
            WR_TRY(find_column(t, "column-missing", c, NULL, err));
            continue;
        }
        const wr_column *l = &lake->cols[at];
        use[at] = true;
        if (!(t->merged ? widens(c->type, l->type) : wr_type_eq(c->type, l->type) || wr_type_promotes(c->type, l->type))) {
            wrong[at] = true;
            WR_TRY(find_column(t, "type", c, l, err));
        }
        if (c->nullable && !l->nullable) WR_TRY(wr_table_report_find(t->report, "nullability", c->name, "nullable", "required", err));
    }
    return WR_OK;
}

static void key_text(const wr_schema *s, bool merged, char out[512]) {
    size_t n = 0;
    out[0] = 0;
    for (int i = merged ? 2 : 0; i < s->nkey && n < 500; i++) n += (size_t)snprintf(out + n, 512 - n, "%s%.*s", n ? ", " : "", 120, s->cols[s->key[i]].name);
    if (!s->nkey) snprintf(out, 512, "none");
}

static wr_code compare_keys(side_table *t, const wr_schema *lake, wr_err *err) {
    char a[512], b[512];
    const wr_schema *s = t->members[0]->transform ? wr_transform_schema(t->members[0]->transform) : t->members[0]->schema;
    bool same = true;
    key_text(lake, t->merged, b);
    key_text(s, false, a);
    for (int i = 1; t->merged && i < t->nmembers; i++) {
        char other[512];
        key_text(t->members[i]->transform ? wr_transform_schema(t->members[i]->transform) : t->members[i]->schema, false, other);
        same &= !strcmp(a, other);
    }
    if (!same) strcpy(a, "none"); /* shards with different keys have none together */
    if (!lake->nkey) strcpy(b, "none");
    if (t->members[0]->schema->nkey == 0) strcpy(a, "none");
    return strcmp(a, b) ? wr_table_report_find(t->report, "key", NULL, a, b, err) : WR_OK;
}

static wr_code with_lake_ids(const wr_schema *shape, const wr_schema *lake, wr_schema **ret, wr_err *err) {
    WR_AUTO wr_column *c = wr_calloc((size_t)shape->ncols, sizeof *c);
    int32_t none = INT32_MAX; /* of columns that the lake lacks */
    if (!c) return wr_nomem(err, "schema", (size_t)shape->ncols * sizeof *c);
    for (int i = 0; i < shape->ncols; i++) {
        int at = counterpart(lake, &shape->cols[i]);
        c[i] = shape->cols[i];
        c[i].id = at >= 0 ? lake->cols[at].id : none--;
    }
    return wr_schema_new(c, shape->ncols, shape->version, ret, err);
}

static bool same_layout(const wr_schema *a, const wr_schema *b) {
    if (a->ncols != b->ncols) return false;
    for (int i = 0; i < a->ncols; i++)
        if (a->cols[i].id != b->cols[i].id || !wr_type_eq(a->cols[i].type, b->cols[i].type)) return false;
    return true;
}

/* Of the columns that both sides have. */
static bool is_chosen(const round *r, const wr_column *c) {
    if (!r->what->columns || c->key_ord || (r->what->time_column && !strcmp(c->name, r->what->time_column))) return true;
    for (int i = 0; i < r->what->ncolumns; i++)
        if (!strcmp(c->name, r->what->columns[i])) return true;
    return false;
}

/* Columns that were asked for and are not there, and keys of a table that has none. */
static wr_code check_chosen(const round *r, side_table *t, const wr_schema *lake, wr_err *err) {
    for (int i = 0; i < r->what->ncolumns; i++)
        if (wr_schema_find(lake, r->what->columns[i]) < 0) return wr_side_reason(t, WR_NOT_COMPARED, err, "it has no column %s", r->what->columns[i]);
    if (r->what->columns && !r->what->ncolumns && !t->nkey) return wr_side_reason(t, WR_NOT_COMPARED, err, "it has no key");
    return WR_OK;
}

static wr_code common_columns(const round *r, side_table *t, const wr_schema *lake, const bool *use, const bool *wrong, wr_err *err) {
    WR_AUTO wr_column *c = wr_calloc((size_t)lake->ncols, sizeof *c);
    int n = 0;
    t->columns = wr_calloc((size_t)lake->ncols, sizeof *t->columns);
    t->key = wr_calloc((size_t)lake->ncols, sizeof *t->key);
    if (!c || !t->columns || !t->key) return wr_nomem(err, "schema", (size_t)lake->ncols * sizeof *c);
    bool keyed = lake->nkey > 0;
    for (int i = 0; i < lake->nkey; i++) keyed &= (t->merged && lake->key[i] < 2) || (use[lake->key[i]] && !wrong[lake->key[i]]);
    for (int i = 0; i < lake->ncols; i++) {
        bool place = t->merged && i < 2;
        if (!place && (!use[i] || wrong[i] || !is_chosen(r, &lake->cols[i]))) continue;
        t->columns[n] = i;
        c[n] = lake->cols[i];
        if (!keyed) c[n].key_ord = 0;
        n++;
    }
    if (!n) return WR_OK; /* nothing in common: the findings say so */
    WR_TRY(wr_schema_new(c, n, lake->version, &t->common, err));
    t->nkey = t->common->nkey;
    if (t->nkey) memcpy(t->key, t->common->key, (size_t)t->nkey * sizeof *t->key);
    t->report->schema = wr_schema_ref(t->common);
    return WR_OK;
}

static wr_code bind_member(round *r, side_member *m, const wr_schema *lake, wr_err *err) {
    side_table *t = m->table;
    const wr_schema *shape = m->transform ? wr_transform_schema(m->transform) : m->schema;
    WR_TRY(with_lake_ids(shape, lake, &m->shape, err));
    if (t->merged) return wr_convert_new(m->shape, t->common, m->db, m->name, &m->convert, err);
    return same_layout(m->shape, t->common) ? WR_OK : wr_convert_new(m->shape, t->common, NULL, NULL, &m->convert, err);
}

static wr_code find_time_column(const round *r, side_table *t, wr_err *err) {
    t->time_column = -1;
    if (!r->what->time_column) return WR_OK;
    int i = t->common ? wr_schema_find(t->common, r->what->time_column) : -1;
    uint8_t k = i >= 0 ? t->common->cols[i].type.kind : 0;
    if (k == WR_DATE || k == WR_TIMESTAMP || k == WR_TIMESTAMPTZ) return t->time_column = i, WR_OK;
    wr_schema_unref(t->common);
    t->common = NULL;
    return wr_side_reason(t, WR_NOT_COMPARED, err, i < 0 ? "it has no column %s" : "its column %s is no date or timestamp", r->what->time_column);
}

wr_code wr_side_shape(round *r, side_table *t, wr_err *err) {
    const wr_sql_table *tables;
    const wr_table_health *health;
    int n, widest = 1;
    WR_TRY(wr_lake_view_tables(r->view, &tables, &health, &n, err));
    const wr_schema *lake = tables[t->lake].schema;
    WR_AUTO bool *use = wr_calloc((size_t)lake->ncols * 2, sizeof *use);
    if (!use) return wr_nomem(err, "schema", (size_t)lake->ncols);
    bool *wrong = use + lake->ncols;
    for (int i = 0; i < t->nmembers; i++) {
        side_member *m = t->members[i];
        if (r->rules) WR_TRY(wr_transform_new(r->rules, m->db, m->name, m->schema, &m->transform, err));
        const wr_schema *shape = m->transform ? wr_transform_schema(m->transform) : m->schema;
        if (shape->ncols > widest) widest = shape->ncols;
        WR_TRY(compare_columns(t, shape, lake, use, wrong, err));
    }
    for (int i = t->merged ? 2 : 0; i < lake->ncols; i++)
        if (!use[i] && !is_kept(&lake->cols[i])) WR_TRY(find_column(t, "column-surplus", NULL, &lake->cols[i], err));
    WR_TRY(compare_keys(t, lake, err));
    WR_TRY(common_columns(r, t, lake, use, wrong, err));
    WR_TRY(check_chosen(r, t, lake, err));
    for (int i = 0; t->common && i < t->nmembers; i++) WR_TRY(bind_member(r, t->members[i], lake, err));
    t->vals = wr_calloc((size_t)(lake->ncols > widest ? lake->ncols : widest), sizeof *t->vals);
    return t->vals ? find_time_column(r, t, err) : wr_nomem(err, "row", 4096);
}
