#include "ddl_edit.h"
#include "fk.h"

#include <stdlib.h>
#include <strings.h>

#include "weir/base/mem.h"

/* A column on its way. */
typedef struct ecol {
    wr_my_col c;
    bool taken;     /* changed by this statement already: a second name for the same old column does not match again */
} ecol;

typedef struct edit {
    const wr_my_table *old;
    const wr_edit_context *cx;
    wr_my_table *t;     /* everything but the columns */
    ecol *cols;
    int n, cap;
    wr_edit_flags f;
    bool no_primary;      /* the statement drops the old primary key by name */
    bool first_timestamp; /* a TIMESTAMP column without a default was seen: only the first one is automatic */
    wr_err *err;
} edit;

static wr_code no_column(edit *e, const char *name) {
    return wr_fail(e->err, WR_E_SCHEMA, WR_RETRY_NO, "there is no column \"%s\"", name);
}

static int find(const edit *e, const char *name) {
    for (int i = 0; i < e->n; i++)
        if (wr_my_name_eq(e->cols[i].c.name, name)) return i;
    return -1;
}

static void edit_free(edit *e) {
    for (int i = 0; i < e->n; i++) wr_my_col_clear(&e->cols[i].c);
    wr_free(e->cols);
    wr_my_table_free(e->t);
}

static bool set_text(char **dst, const char *src) {
    char *s = src ? wr_strdup(src) : NULL;
    if (src && !s) return false;
    wr_free(*dst);
    *dst = s;
    return true;
}

/* Room at place `at`, zeroed. */
static ecol *insert(edit *e, int at) {
    if (e->n == e->cap) {
        int cap = e->cap ? e->cap * 2 : 16;
        ecol *cols = wr_realloc(e->cols, (size_t)cap * sizeof *cols);
        if (!cols) return NULL;
        e->cols = cols;
        e->cap = cap;
    }
    memmove(&e->cols[at + 1], &e->cols[at], (size_t)(e->n - at) * sizeof *e->cols);
    e->n++;
    e->cols[at] = (ecol){0};
    return &e->cols[at];
}

static void remove_at(edit *e, int at) {
    wr_my_col_clear(&e->cols[at].c);
    memmove(&e->cols[at], &e->cols[at + 1], (size_t)(e->n - at - 1) * sizeof *e->cols);
    e->n--;
}

/* Where a column without FIRST or AFTER goes: in front of the period columns that the server adds itself. */
static int behind_last(const edit *e) {
    int at = e->n;
    while (at > 0 && e->cols[at - 1].c.hidden && !e->cols[at - 1].c.generated) at--;
    return at;
}

/* ------------------------------------------------------------------ character sets */
/* A table's default after "CHARACTER SET x COLLATE y", one of which may be missing. */
static wr_code pick_default(edit *e, const char *charset, const char *collation) {
    char buf[64];
    if (charset && strcasecmp(charset, "default") == 0) charset = e->cx->db_charset, collation = collation ? collation : e->cx->db_collation;
    if (collation && strcasecmp(collation, "default") == 0) collation = NULL;
    if (collation && strncasecmp(collation, "uca1400_", 8) == 0) {
        const char *base = charset ? charset : e->t->charset ? e->t->charset : "utf8mb4";
        WR_AUTO char *full = wr_asprintf("%s_%s", wr_my_charset_alias(base), collation);
        if (!full || !set_text(&e->t->collation, full) || !set_text(&e->t->charset, wr_my_charset_alias(base))) return wr_nomem(e->err, "table", 64);
        return WR_OK;
    }
    if (!charset && collation) charset = wr_my_charset_of(collation, buf);
    if (!charset) return WR_OK;
    WR_AUTO char *cs = wr_strdup(wr_my_charset_alias(charset));
    if (!collation) collation = wr_my_default_collation(charset, &e->cx->se.sv);
    if (!cs || !set_text(&e->t->charset, cs) || !set_text(&e->t->collation, collation)) return wr_nomem(e->err, "table", 64);
    for (char *s = e->t->charset; *s; s++)
        if (*s >= 'A' && *s <= 'Z') *s = (char)(*s + 32);
    return WR_OK;
}

static wr_code convert_all(edit *e, const wr_ddl_body *b, const wr_ddl_action *a) {
    /* Beside another default or columns with texts and bytes the servers do things of their own (measured): not worth following. */
    for (int i = 0; i < b->n; i++) {
        const wr_ddl_action *x = &b->a[i];
        bool odd = x->kind == WR_ACT_CHARSET;
        if (x->kind == WR_ACT_ADD_COLUMN || x->kind == WR_ACT_CHANGE_COLUMN) odd = x->col->type.kind >= MY_CHAR && x->col->type.kind <= MY_JSON;
        if (odd) return wr_fail(e->err, WR_E_UNSUPPORTED, WR_RETRY_NO, "CONVERT TO CHARACTER SET beside other changes of character sets or texts");
    }
    const char *charset = a->charset ? a->charset : a->collation ? NULL : e->cx->db_charset;
    if (!charset && !a->collation) return wr_fail(e->err, WR_E_UNSUPPORTED, WR_RETRY_NO, "the database's default character set is not known");
    WR_TRY(pick_default(e, charset, a->collation));
    for (int i = 0; i < e->n; i++) {
        wr_my_col *c = &e->cols[i].c;
        if (!c->charset || strcmp(c->charset, "binary") == 0) continue;
        WR_TRY(wr_ddl_type_convert(c, &e->cx->se.sv, e->t->charset, e->t->collation, e->err));
        e->f.touched = true;
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ one column */
/* Without explicit_defaults_for_timestamp TIMESTAMP columns are NOT NULL, and the first one without a default is kept current. */
static void implicit_timestamp(edit *e, const wr_ddl_column *d, wr_my_col *c) {
    if (c->kind != MY_TIMESTAMP || e->cx->explicit_timestamp || d->row_start || d->row_end || d->generated) return;
    if (d->null_attr == 0) c->not_null = true;
    bool defaulted = d->has_default || d->on_update;
    if (!c->not_null || defaulted) return;
    if (!e->first_timestamp) c->default_expr = true;
    else c->has_default = (c->default_text = wr_strdup("0000-00-00 00:00:00")) != NULL;
    e->first_timestamp = true;
}

/* Fills c (zero, or the old column with its id and key place) from its new text. */
static wr_code define(edit *e, const wr_ddl_column *d, wr_my_col *c) {
    if (!set_text(&c->name, d->name)) return wr_nomem(e->err, "column", 64);
    WR_TRY(wr_ddl_type_resolve(&d->type, &e->cx->se.sv, e->t->charset ? e->t->charset : e->cx->db_charset,
                               e->t->charset ? e->t->collation : e->cx->db_collation, c, e->err));
    c->not_null = d->null_attr == 2 || d->auto_increment || d->primary || c->key_ord > 0 || d->row_start || d->row_end;
    c->auto_increment = d->auto_increment;
    c->hidden = d->row_start || d->row_end;
    c->generated = d->generated || c->hidden;
    c->stored = d->stored || c->hidden;
    c->invisible = d->invisible;
    wr_free(c->default_text);
    c->default_text = NULL;
    c->has_default = c->default_expr = false;
    implicit_timestamp(e, d, c);
    if (!d->has_default) {
        if (d->on_update && !c->not_null) c->has_default = true;
    } else if (d->default_expr) c->default_expr = true;
    else wr_ddl_default_set(c, &d->lit, &e->cx->se);
    if (!c->not_null && !c->has_default && !c->default_expr && !c->generated) c->has_default = true; /* DEFAULT NULL */
    /* of these types not every value is valid (MariaDB's JSON is a CHECK), and they have no value of their own for NOT NULL */
    bool picky = d->type.kind == MY_JSON || d->type.kind == MY_GEOMETRY || d->type.kind == MY_VECTOR;
    if (d->check || d->unique || d->primary || picky) e->f.reshaped = true;
    if (d->with_versioning) e->t->versioned = true;
    return WR_OK;
}

/* MySQL's generated invisible primary key stays in front of everything, FIRST included. */
static bool hidden_key_first(const edit *e) {
    if (e->cx->se.sv.is_mariadb || e->n == 0) return false;
    const wr_my_col *c = &e->cols[0].c;
    return strcmp(c->name, "my_row_id") == 0 && c->kind == MY_BIGINT && c->is_unsigned && c->auto_increment && c->invisible && c->key_ord == 1;
}

static wr_code place_of(edit *e, const wr_ddl_column *d, int *ret_at) {
    if (d->first) return *ret_at = hidden_key_first(e), WR_OK;
    if (!d->after) return *ret_at = behind_last(e), WR_OK;
    int at = find(e, d->after);
    if (at < 0) return no_column(e, d->after);
    *ret_at = at + 1;
    return WR_OK;
}

/* Keys are of names: a column that is dropped and added again by one statement is where the old one was in the primary key. */
static int inherited_key(const edit *e, const char *name) {
    int ord = 0;
    for (int i = 0; !e->no_primary && !ord && i < e->old->ncols; i++)
        if (wr_my_name_eq(e->old->cols[i].name, name)) ord = e->old->cols[i].key_ord;
    for (int i = 0; ord && i < e->n; i++)
        if (e->cols[i].c.key_ord == ord) ord = 0; /* only renamed */
    return ord;
}

static wr_code add_column(edit *e, const wr_ddl_action *a) {
    const wr_ddl_column *d = a->col;
    if (find(e, d->name) >= 0) {
        if (a->if_exists) return WR_OK;
        return wr_fail(e->err, WR_E_SCHEMA, WR_RETRY_NO, "there is a column \"%s\" already", d->name);
    }
    int at, key_ord = inherited_key(e, d->name);
    WR_TRY(place_of(e, d, &at));
    ecol *x = insert(e, at);
    if (!x) return wr_nomem(e->err, "columns", sizeof *x);
    x->c.kind = MY_INT;
    x->c.key_ord = key_ord;
    x->taken = true;
    WR_TRY(define(e, d, &x->c));
    x->c.id = e->t->next_col_id++;
    return WR_OK;
}

/* CHANGE and MODIFY in place; a new place comes later. The old column is looked for under its old name among those not changed yet. */
static wr_code change_column(edit *e, const wr_ddl_action *a, int *ret_at) {
    int at = -1;
    for (int i = 0; at < 0 && i < e->n; i++)
        if (!e->cols[i].taken && wr_my_name_eq(e->cols[i].c.name, a->name)) at = i;
    *ret_at = at;
    if (at < 0) return a->if_exists ? WR_OK : no_column(e, a->name);
    ecol *x = &e->cols[at];
    wr_my_col before;
    if (!wr_my_col_copy(&before, &x->c)) return wr_nomem(e->err, "column", sizeof before);
    x->taken = true;
    e->f.touched = true;
    wr_code rc = define(e, a->col, &x->c);
    if (rc == WR_OK) {
        if (before.generated || x->c.generated) e->f.stored_again = true;
        /* a kind that the lake cannot follow: a new column */
        if (!wr_ddl_same_id(&before, &x->c, e->cx->types)) x->c.id = e->t->next_col_id++, e->f.retyped = true;
    }
    wr_my_col_clear(&before);
    return rc;
}

static wr_code move_column(edit *e, int from, const wr_ddl_column *d) {
    ecol x = e->cols[from];
    memmove(&e->cols[from], &e->cols[from + 1], (size_t)(e->n - from - 1) * sizeof *e->cols);
    e->n--;
    int at;
    wr_code rc = place_of(e, d, &at);
    if (rc != WR_OK) at = from; /* the list stays whole */
    memmove(&e->cols[at + 1], &e->cols[at], (size_t)(e->n - at) * sizeof *e->cols);
    e->n++;
    e->cols[at] = x;
    return rc;
}

/* ------------------------------------------------------------------ keys */
static void drop_primary(edit *e) {
    for (int i = 0; i < e->n; i++) e->cols[i].c.key_ord = 0;
    e->no_primary = e->f.reshaped = true;
}

/* A dropped key column leaves a gap. */
static void renumber_key(edit *e) {
    int next = 0;
    for (int want = 1; want <= e->n + 64; want++)
        for (int i = 0; i < e->n; i++)
            if (e->cols[i].c.key_ord == want) {
                e->cols[i].c.key_ord = -++next;
                break;
            }
    for (int i = 0; i < e->n; i++)
        if (e->cols[i].c.key_ord < 0) e->cols[i].c.key_ord = -e->cols[i].c.key_ord;
}

static bool has_primary(const edit *e) {
    for (int i = 0; i < e->n; i++)
        if (e->cols[i].c.key_ord) return true;
    return false;
}

static wr_code add_primary(edit *e, const wr_ddl_action *a) {
    if (has_primary(e)) {
        if (a->if_exists) return WR_OK;
        return wr_fail(e->err, WR_E_SCHEMA, WR_RETRY_NO, "there is a primary key already");
    }
    e->f.reshaped = true;
    int ord = 0;
    for (int i = 0; i < a->nparts; i++) {
        if (!a->parts[i]) return wr_fail(e->err, WR_E_UNSUPPORTED, WR_RETRY_NO, "an expression in the primary key");
        int at = find(e, a->parts[i]);
        if (at < 0) return no_column(e, a->parts[i]);
        if (e->cols[at].c.hidden) continue;
        e->cols[at].c.key_ord = ++ord;
        e->cols[at].c.not_null = true;
        if (e->cols[at].c.has_default && !e->cols[at].c.default_text) e->cols[at].c.has_default = false;
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ versioning */
static wr_code add_versioning(edit *e) {
    e->t->versioned = true;
    return WR_OK;
}

static wr_code finish_versioning(edit *e) {
    bool named = false, implicit = false;
    for (int i = 0; i < e->n; i++) {
        named = named || (e->cols[i].c.hidden && e->cols[i].c.generated);
        implicit = implicit || (e->cols[i].c.hidden && !e->cols[i].c.generated);
    }
    if (e->t->versioned && !named && !implicit)
        for (int k = 0; k < 2; k++) {
            ecol *x = insert(e, e->n);
            if (!x) return wr_nomem(e->err, "columns", sizeof *x);
            x->c.kind = MY_INT;
            WR_TRY(wr_my_period_column(&x->c, k == 1, &e->cx->se.sv, e->err));
            x->c.id = e->t->next_col_id++;
        }
    for (int i = e->n - 1; i >= 0; i--)
        if (e->cols[i].c.hidden && !e->cols[i].c.generated && (!e->t->versioned || named)) remove_at(e, i);
    return WR_OK;
}

/* ------------------------------------------------------------------ all actions */
static wr_code set_default(edit *e, const wr_ddl_action *a) {
    int at = find(e, a->name);
    if (at < 0) return a->if_exists ? WR_OK : no_column(e, a->name);
    wr_my_col *c = &e->cols[at].c;
    wr_free(c->default_text);
    c->default_text = NULL;
    c->has_default = c->default_expr = false;
    if (a->kind == WR_ACT_DROP_DEFAULT) return WR_OK;
    if (!a->has_lit) c->default_expr = true;
    else wr_ddl_default_set(c, &a->lit, &e->cx->se);
    return WR_OK;
}

/* What the server does to the columns that are there, before it adds any. */
static wr_code first_pass(edit *e, const wr_ddl_body *b) {
    for (int i = 0; i < b->n; i++) {
        const wr_ddl_action *a = &b->a[i];
        int at;
        if (a->kind == WR_ACT_CHARSET) WR_TRY(pick_default(e, a->charset, a->collation));
        if (a->kind == WR_ACT_CONVERT) WR_TRY(convert_all(e, b, a));
        if (a->kind != WR_ACT_DROP_COLUMN) continue;
        if ((at = find(e, a->name)) < 0) {
            if (!a->if_exists) return no_column(e, a->name);
            continue;
        }
        remove_at(e, at);
    }
    /* Names on both sides of RENAME and CHANGE are the old ones: a and b may change places. */
    for (int i = 0; i < b->n; i++) {
        const wr_ddl_action *a = &b->a[i];
        int at;
        if (a->kind == WR_ACT_CHANGE_COLUMN) WR_TRY(change_column(e, a, &at));
        if (a->kind != WR_ACT_RENAME_COLUMN) continue;
        at = -1;
        for (int k = 0; at < 0 && k < e->n; k++)
            if (!e->cols[k].taken && wr_my_name_eq(e->cols[k].c.name, a->name)) at = k;
        if (at < 0) {
            if (!a->if_exists) return no_column(e, a->name);
            continue;
        }
        e->cols[at].taken = true;
        if (!set_text(&e->cols[at].c.name, a->to)) return wr_nomem(e->err, "column", 64);
    }
    for (int i = 0; i < e->n; i++) e->cols[i].taken = false;
    return WR_OK;
}

static wr_code second_pass(edit *e, const wr_ddl_body *b) {
    for (int i = 0; i < b->n; i++) {
        const wr_ddl_action *a = &b->a[i];
        if (a->kind == WR_ACT_ADD_COLUMN) WR_TRY(add_column(e, a));
        else if (a->kind == WR_ACT_CHANGE_COLUMN && (a->col->first || a->col->after)) {
            int at = find(e, a->col->name);
            if (at >= 0) WR_TRY(move_column(e, at, a->col));
        }
    }
    return WR_OK;
}

static wr_code other_action(edit *e, const wr_ddl_action *a) {
    int at;
    switch (a->kind) {
    case WR_ACT_SET_DEFAULT:
    case WR_ACT_DROP_DEFAULT: return set_default(e, a);
    case WR_ACT_SET_VISIBLE:
        if ((at = find(e, a->name)) < 0) return no_column(e, a->name);
        e->cols[at].c.invisible = !a->flag;
        return WR_OK;
    case WR_ACT_ADD_UNIQUE:
    case WR_ACT_ADD_CHECK: e->f.reshaped = true; return WR_OK;
    case WR_ACT_FOREIGN_KEY:
        e->f.reshaped = true;
        return WR_OK;
    case WR_ACT_ENGINE: return set_text(&e->t->engine, a->name) ? WR_OK : wr_nomem(e->err, "table", 32);
    case WR_ACT_PARTITION:
        e->f.reshaped = true;
        e->f.rows_lost = e->f.rows_lost || a->flag;
        return WR_OK;
    case WR_ACT_EXCHANGE:
    case WR_ACT_PARTITION_TO_TABLE:
    case WR_ACT_TABLE_TO_PARTITION:
    case WR_ACT_IMPORT: e->f.rows_lost = true; return WR_OK;
    case WR_ACT_VERSIONING:
        e->f.reshaped = true;
        if (a->flag) return add_versioning(e);
        e->t->versioned = false;
        return WR_OK;
    case WR_ACT_APPLICATION_PERIOD:
        e->f.reshaped = true;
        for (int i = 0; i < a->nparts; i++)
            if (a->parts[i] && (at = find(e, a->parts[i])) >= 0) e->cols[at].c.not_null = true;
        return WR_OK;
    default: return WR_OK;
    }
}

static wr_code all_keys(edit *e, const wr_ddl_body *b) {
    renumber_key(e);
    for (int i = 0; i < b->n; i++) {
        const wr_ddl_action *a = &b->a[i];
        if (a->kind == WR_ACT_ADD_PRIMARY) WR_TRY(add_primary(e, a));
        bool column = a->kind == WR_ACT_ADD_COLUMN || a->kind == WR_ACT_CHANGE_COLUMN;
        if (!column || !a->col->primary) continue;
        const char *name = a->col->name;
        wr_ddl_action own = {.kind = WR_ACT_ADD_PRIMARY, .parts = &name, .nparts = 1};
        if (find(e, name) >= 0) WR_TRY(add_primary(e, &own));
    }
    return WR_OK;
}

static wr_code run(edit *e, const wr_ddl_body *b) {
    /* first: a key that stays makes its columns NOT NULL when they are stated anew, one that goes does not */
    for (int i = 0; i < b->n; i++) {
        const wr_ddl_action *a = &b->a[i];
        if (a->kind == WR_ACT_DROP_PRIMARY || (a->kind == WR_ACT_DROP_KEY && strcasecmp(a->name, "PRIMARY") == 0)) drop_primary(e);
    }
    WR_TRY(first_pass(e, b));
    WR_TRY(second_pass(e, b));
    for (int i = 0; i < b->n; i++) WR_TRY(other_action(e, &b->a[i]));
    WR_TRY(all_keys(e, b));
    WR_TRY(finish_versioning(e));
    WR_TRY(wr_my_fks_edit(e->t, b, &e->cx->se.sv, e->err));
    if (e->n == 0) return wr_fail(e->err, WR_E_SCHEMA, WR_RETRY_NO, "no column is left");
    for (int i = 0; i < e->n; i++)
        for (int k = i + 1; k < e->n; k++)
            if (wr_my_name_eq(e->cols[i].c.name, e->cols[k].c.name)) return wr_fail(e->err, WR_E_SCHEMA, WR_RETRY_NO, "two columns are called \"%s\"", e->cols[i].c.name);
    return WR_OK;
}

wr_code wr_ddl_edit(const wr_my_table *old, const wr_ddl_body *b, const wr_edit_context *cx, wr_my_table **ret_table, wr_edit_flags *ret_flags, wr_err *err) {
    edit e = {.old = old, .cx = cx, .err = err, .f.strict = cx->se.sv.sql_mode & WR_MODE_STRICT};
    wr_my_table *copy = wr_my_table_clone(old);
    if (!copy) return wr_nomem(err, "table definition", sizeof *copy);
    e.t = copy;
    wr_code rc = WR_OK;
    if (b->charset || b->collation) rc = pick_default(&e, b->charset, b->collation);
    if (rc == WR_OK && b->engine && !set_text(&e.t->engine, b->engine)) rc = wr_nomem(err, "table", 32);
    for (int i = 0; rc == WR_OK && i < copy->ncols; i++) {
        ecol *x = insert(&e, e.n);
        if (!x) rc = wr_nomem(err, "columns", sizeof *x);
        else x->c = copy->cols[i], copy->cols[i] = (wr_my_col){0};
    }
    if (rc == WR_OK) rc = run(&e, b);
    wr_my_col *cols = NULL;
    if (rc == WR_OK && !(cols = wr_calloc((size_t)e.n, sizeof *cols))) rc = wr_nomem(err, "columns", (size_t)e.n * sizeof *cols);
    if (rc != WR_OK) {
        edit_free(&e);
        return rc;
    }
    for (int i = 0; i < e.n; i++) cols[i] = e.cols[i].c;
    wr_free(e.cols);
    for (int i = 0; i < copy->ncols; i++) wr_my_col_clear(&copy->cols[i]);
    wr_free(copy->cols);
    wr_free(copy->lake_col); /* of the old columns */
    copy->lake_col = NULL;
    copy->cols = cols;
    copy->ncols = e.n;
    *ret_table = copy;
    *ret_flags = e.f;
    return WR_OK;
}
