#include "catalogue_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include "ddl_type.h"
#include "weir/base/mem.h"

/* ------------------------------------------------------------------ names */
#define KEY_MAX 1024

/* Lower case, code point by code point; what does not fit or is no UTF-8 stays as it is. */
static size_t fold(const char *s, char *out, size_t cap) {
    size_t n = strlen(s), i = 0, at = 0;
    while (i < n) {
        size_t from = i;
        UChar32 u;
        U8_NEXT((const uint8_t *)s, i, n, u);
        uint8_t lower[U8_MAX_LENGTH];
        size_t len = 0;
        if (u >= 0) {
            u = u_tolower(u);
            U8_APPEND_UNSAFE(lower, len, u);
        }
        const void *p = u >= 0 ? (const void *)lower : s + from;
        if (u < 0) len = i - from;
        if (at + len >= cap) break;
        memcpy(out + at, p, len);
        at += len;
    }
    out[at] = 0;
    return at;
}

char *wr_catalogue_fold_(const wr_catalogue *c, const char *name) {
    if (!wr_capture_lower_case(c->capture)) return wr_strdup(name);
    size_t cap = strlen(name) * U8_MAX_LENGTH + 1;
    char *s = wr_malloc(cap);
    if (s) fold(name, s, cap);
    return s;
}

/* "db\0name" in buf; a slice of it, empty when the names are too long to be any table's. */
static wr_slice key_of(const wr_catalogue *c, const char *db, const char *name, char buf[KEY_MAX]) {
    size_t nd = strlen(db), nn = strlen(name);
    if (nd + nn + 2 > KEY_MAX / 2) return wr_slice_of(buf, 0);
    if (wr_capture_lower_case(c->capture)) {
        nd = fold(db, buf, KEY_MAX / 2);
        nn = fold(name, buf + nd + 1, KEY_MAX / 2 - 1);
    } else {
        memcpy(buf, db, nd + 1);
        memcpy(buf + nd + 1, name, nn);
    }
    return wr_slice_of(buf, nd + 1 + nn);
}

/* ------------------------------------------------------------------ entries */
static void entry_unref(wr_entry *e) {
    if (!e || --e->refs > 0) return;
    wr_my_table_free(e->t);
    wr_free(e);
}

static void entries_free(wr_entries *l) {
    for (int i = 0; i < l->n; i++) entry_unref(l->e[i]);
    wr_free(l->e);
    *l = (wr_entries){0};
}

wr_code wr_catalogue_touch_(wr_catalogue *c, wr_err *err) {
    if (c->touched) return WR_OK;
    wr_entry **e = wr_malloc(((size_t)c->now.n + 1) * sizeof *e);
    if (!e) return wr_nomem(err, "catalogue", (size_t)c->now.n * sizeof *e);
    for (int i = 0; i < c->now.n; i++) e[i] = c->now.e[i], e[i]->refs++;
    c->saved = (wr_entries){.e = e, .n = c->now.n, .cap = c->now.n};
    c->saved_next_id = c->next_id;
    c->touched = true;
    return WR_OK;
}

void wr_catalogue_commit(wr_catalogue *c) {
    if (!c->touched) return;
    entries_free(&c->saved);
    c->touched = false;
}

static bool index_all(wr_catalogue *c) {
    wr_map *m = wr_map_new();
    if (!m) return false;
    for (int i = 0; i < c->now.n; i++) {
        char buf[KEY_MAX];
        wr_entry *e = c->now.e[i];
        if (!wr_map_put(m, key_of(c, e->t->db, e->t->name, buf), e)) {
            wr_map_free(m, NULL);
            return false;
        }
    }
    wr_map_free(c->by_name, NULL);
    c->by_name = m;
    return true;
}

void wr_catalogue_rollback(wr_catalogue *c) {
    if (!c->touched) return;
    entries_free(&c->now);
    c->now = c->saved;
    c->saved = (wr_entries){0};
    c->next_id = c->saved_next_id;
    c->generation++;
    c->touched = false;
    c->stale = !index_all(c); /* without memory for the index, names are looked up one by one */
}

static int index_of_id(const wr_catalogue *c, uint32_t id) {
    for (int i = 0; i < c->now.n; i++)
        if (c->now.e[i]->t->id == id) return i;
    return -1;
}

wr_entry *wr_catalogue_by_id_(const wr_catalogue *c, uint32_t id) {
    int i = index_of_id(c, id);
    return i < 0 ? NULL : c->now.e[i];
}

wr_entry *wr_catalogue_entry_(const wr_catalogue *c, const char *db, const char *name) {
    char buf[KEY_MAX], other[KEY_MAX];
    wr_slice key = key_of(c, db, name, buf);
    if (key.n == 0) return NULL;
    if (!c->stale) return wr_map_get(c->by_name, key);
    for (int i = 0; i < c->now.n; i++)
        if (wr_slice_eq(key, key_of(c, c->now.e[i]->t->db, c->now.e[i]->t->name, other))) return c->now.e[i];
    return NULL;
}

static void unindex(wr_catalogue *c, wr_entry *e) {
    char buf[KEY_MAX];
    wr_slice key = key_of(c, e->t->db, e->t->name, buf);
    if (!c->stale && wr_map_get(c->by_name, key) == e) wr_map_del(c->by_name, key);
}

wr_code wr_catalogue_put_(wr_catalogue *c, wr_my_table *t, bool away, wr_err *err) {
    wr_entry *e = wr_malloc(sizeof *e);
    char buf[KEY_MAX];
    wr_slice key = key_of(c, t->db, t->name, buf);
    bool ok = e && key.n && c->now.n < INT32_MAX / 2;
    if (ok && c->now.n == c->now.cap) {
        int cap = c->now.cap ? c->now.cap * 2 : 64;
        wr_entry **l = wr_realloc(c->now.e, (size_t)cap * sizeof *l);
        if ((ok = l != NULL)) c->now.e = l, c->now.cap = cap;
    }
    int at = index_of_id(c, t->id);
    if (ok && at >= 0) unindex(c, c->now.e[at]);
    if (ok && !c->stale) ok = wr_map_put(c->by_name, key, e);
    if (!ok) {
        wr_free(e);
        wr_my_table_free(t);
        return wr_nomem(err, "catalogue", sizeof *e);
    }
    *e = (wr_entry){.t = t, .away = away, .refs = 1};
    if (at >= 0) {
        entry_unref(c->now.e[at]);
        c->now.e[at] = e;
    } else c->now.e[c->now.n++] = e;
    if (t->id >= c->next_id) c->next_id = t->id + 1;
    c->generation++;
    return WR_OK;
}

void wr_catalogue_remove_(wr_catalogue *c, uint32_t id) {
    int at = index_of_id(c, id);
    if (at < 0) return;
    wr_entry *e = c->now.e[at];
    unindex(c, e);
    c->generation++;
    memmove(&c->now.e[at], &c->now.e[at + 1], (size_t)(c->now.n - at - 1) * sizeof *c->now.e);
    c->now.n--;
    entry_unref(e);
}

/* ------------------------------------------------------------------ life */
wr_code wr_catalogue_new(const wr_capture *capture, wr_my_types types, wr_flavor flavor, wr_catalogue **ret, wr_err *err) {
    wr_catalogue *c = wr_calloc(1, sizeof *c);
    if (!c) return wr_nomem(err, "catalogue", sizeof *c);
    *c = (wr_catalogue){.capture = capture, .types = types, .flavor = flavor, .next_id = 1};
    c->by_name = wr_map_new();
    c->temporary = wr_map_new();
    if (!c->by_name || !c->temporary) {
        wr_catalogue_free(c);
        return wr_nomem(err, "catalogue", sizeof *c);
    }
    *ret = c;
    return WR_OK;
}

void wr_catalogue_free(wr_catalogue *c) {
    if (!c) return;
    entries_free(&c->now);
    entries_free(&c->saved);
    if (c->by_name) wr_map_free(c->by_name, NULL);
    if (c->temporary) wr_map_free(c->temporary, NULL);
    wr_free(c);
}

bool wr_catalogue_has(const wr_catalogue *c, uint32_t id) {
    int i = index_of_id(c, id);
    return i >= 0 && c->now.e[i]->t->captured;
}

uint64_t wr_catalogue_generation(const wr_catalogue *c) { return c->generation; }

void wr_catalogue_set_next_id(wr_catalogue *c, uint32_t next_table_id) {
    if (next_table_id > c->next_id) c->next_id = next_table_id;
}

static wr_code put_database(wr_catalogue *c, const char *db, const char *collation, wr_err *err);

wr_code wr_catalogue_add(wr_catalogue *c, wr_my_table *t, wr_err *err) {
    wr_entry *old = wr_catalogue_entry_(c, t->db, t->name);
    wr_code rc = WR_OK;
    if (t->db_collation && *t->name && !wr_catalogue_entry_(c, t->db, "") && (rc = put_database(c, t->db, t->db_collation, err)) != WR_OK) {
        wr_my_table_free(t);
        return rc;
    }
    if (old && old->t->id != t->id) wr_catalogue_remove_(c, old->t->id);
    if (t->id == 0) t->id = c->next_id;
    if (t->version == 0) t->version = 1;
    if (t->next_col_id < 1) t->next_col_id = 1;
    for (int i = 0; i < t->ncols; i++)
        if (t->cols[i].id >= t->next_col_id) t->next_col_id = t->cols[i].id + 1;
    for (int i = 0; i < t->ncols; i++)
        if (t->cols[i].id == 0) t->cols[i].id = t->next_col_id++;
    if (t->ncols && (rc = wr_my_table_finish(t, c->types, NULL, err)) != WR_OK) {
        wr_my_table_free(t);
        return rc;
    }
    return wr_catalogue_put_(c, t, false, err);
}

wr_code wr_catalogue_restore(wr_catalogue *c, const wr_ddl *ddl, wr_err *err) {
    if (ddl->table >= c->next_id) c->next_id = ddl->table + 1;
    if (ddl->kind == WR_DDL_DROP || !ddl->def) {
        wr_catalogue_remove_(c, ddl->table);
        return WR_OK;
    }
    wr_my_table *t;
    wr_code rc = wr_my_table_from_json(wr_slice_str(ddl->def), c->types, &t, err);
    if (rc != WR_OK) return wr_err_in(err, "recorded definition of %s.%s", ddl->db ? ddl->db : "?", ddl->name ? ddl->name : "?");
    if (t->id != ddl->table) {
        wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "recorded definition of %s.%s: it says table %u, the event %u", t->db, t->name, t->id, ddl->table);
        wr_my_table_free(t);
        return err->code;
    }
    bool away = false;
    for (int i = 0; i < c->now.n; i++) away = away || c->now.e[i]->t->away_of == t->id;
    uint32_t away_of = t->away_of;
    WR_TRY(wr_catalogue_put_(c, t, away, err));
    wr_entry *base = away_of ? wr_catalogue_by_id_(c, away_of) : NULL;
    if (base) base->away = true;
    return WR_OK;
}

wr_code wr_catalogue_each(wr_catalogue *c, wr_code (*fn)(void *ctx, const wr_my_table *t, wr_err *err), void *ctx, wr_err *err) {
    for (int i = 0; i < c->now.n; i++) WR_TRY(fn(ctx, c->now.e[i]->t, err));
    return WR_OK;
}

/* ------------------------------------------------------------------ questions */
/* In the middle of a swap a captured table is there under a helper's name, and its rows are still its rows: the captured table whose record r is,
 * unchanged since, or NULL. */
static wr_entry *away_table(const wr_catalogue *c, const wr_entry *r) { return r->t->away_of && !r->t->doubt && r->t->version == 1 ? wr_catalogue_by_id_(c, r->t->away_of) : NULL; }

const wr_my_table *wr_catalogue_find(const wr_catalogue *c, const char *db, const char *name) {
    wr_entry *e = wr_catalogue_entry_(c, db, name);
    if (e && (e = away_table(c, e))) return e->written = true, e->t;
    e = wr_catalogue_entry_(c, db, name);
    return e && e->t->captured && !e->away ? e->t : NULL;
}

wr_entry *wr_catalogue_base_(const wr_catalogue *c, const char *db, const char *name) {
    char base[256];
    if (!wr_is_shadow_name(name, base, sizeof base)) return NULL;
    wr_entry *e = wr_catalogue_entry_(c, db, base);
    if (e && e->t->captured) return e;
    for (int i = 0; i < c->now.n; i++) {
        e = c->now.e[i];
        if (e->t->captured && strcmp(e->t->db, db) == 0 && wr_is_shadow_of(name, e->t->name)) return e;
    }
    return NULL;
}

bool wr_catalogue_wants_(const wr_catalogue *c, const char *db, const char *name) {
    if (!wr_capture_matches(c->capture, db, name)) return false;
    return wr_capture_names(c->capture, db, name) || !wr_catalogue_base_(c, db, name);
}

bool wr_catalogue_captured(const wr_catalogue *c, const char *db, const char *name) {
    const wr_entry *e = wr_catalogue_entry_(c, db, name);
    return e ? e->t->captured || away_table(c, e) : wr_catalogue_wants_(c, db, name);
}

/* ------------------------------------------------------------------ databases */

static wr_code put_database(wr_catalogue *c, const char *db, const char *collation, wr_err *err) {
    wr_my_table *t = wr_calloc(1, sizeof *t);
    if (!t) return wr_nomem(err, "database", sizeof *t);
    char buf[64];
    t->db = wr_strdup(db);
    t->name = wr_strdup("");
    t->collation = wr_strdup(collation);
    t->charset = wr_strdup(wr_my_charset_of(collation, buf));
    t->version = 1;
    if (!t->db || !t->name || !t->collation || !t->charset) {
        wr_my_table_free(t);
        return wr_nomem(err, "database", 64);
    }
    return wr_catalogue_add(c, t, err);
}

static wr_code on_database(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    wr_catalogue *c = ctx;
    if (!row[0] || !row[1] || wr_catalogue_entry_(c, row[0], "")) return WR_OK;
    return put_database(c, row[0], row[1], err);
}

wr_code wr_catalogue_database_(wr_catalogue *c, MYSQL *m, const char *db, const wr_my_table **ret, wr_err *err) {
    const wr_entry *e = wr_catalogue_entry_(c, db, "");
    if (!e && m) {
        WR_AUTO char *quoted = wr_malloc(strlen(db) * 2 + 1);
        if (!quoted) return wr_nomem(err, "query", strlen(db));
        mysql_real_escape_string(m, quoted, db, strlen(db));
        WR_TRY(wr_my_query(m, on_database, c, err,
            "SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = '%s'", quoted));
        e = wr_catalogue_entry_(c, db, "");
    }
    *ret = e ? e->t : NULL;
    return WR_OK;
}

/* ------------------------------------------------------------------ comparison */
static bool differs(char *why, size_t cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool differs(char *why, size_t cap, const char *fmt, ...) {
    if (!why || cap == 0) return false;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, cap, fmt, ap);
    va_end(ap);
    return false;
}

static bool str_same(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static bool col_same(const wr_my_col *a, const wr_my_col *b, int i, char *why, size_t cap) {
    if (strcmp(a->name, b->name) != 0) return differs(why, cap, "column %d is \"%s\" here and \"%s\" there", i + 1, a->name, b->name);
    if (a->kind != b->kind || a->is_unsigned != b->is_unsigned || a->length != b->length || a->scale != b->scale || a->compressed != b->compressed)
        return differs(why, cap, "column \"%s\" is %s here and %s there", a->name, a->column_type, b->column_type);
    if (!str_same(a->charset, b->charset))
        return differs(why, cap, "column \"%s\" has character set %s here and %s there", a->name, a->charset ? a->charset : "none", b->charset ? b->charset : "none");
    bool labels = a->nlabels == b->nlabels;
    for (int k = 0; labels && k < a->nlabels; k++) labels = strcmp(a->labels[k], b->labels[k]) == 0;
    if (!labels) return differs(why, cap, "column \"%s\" has other labels: %s here, %s there", a->name, a->column_type, b->column_type);
    if (a->not_null != b->not_null) return differs(why, cap, "column \"%s\" is %s here and %s there", a->name, a->not_null ? "NOT NULL" : "NULL", b->not_null ? "NOT NULL" : "NULL");
    if (a->hidden != b->hidden || (!a->hidden && (a->generated != b->generated || a->stored != b->stored)))
        return differs(why, cap, "column \"%s\" is generated on one side only, or stored on one", a->name);
    if (a->key_ord != b->key_ord && !a->hidden) return differs(why, cap, "column \"%s\" has place %d in the primary key here and %d there", a->name, a->key_ord, b->key_ord);
    return true;
}

bool wr_my_table_same(const wr_my_table *a, const wr_my_table *b, char *why, size_t why_cap) {
    for (int i = 0; i < a->ncols && i < b->ncols; i++)
        if (!col_same(&a->cols[i], &b->cols[i], i, why, why_cap)) return false;
    if (a->ncols != b->ncols) return differs(why, why_cap, "%d columns here and %d there", a->ncols, b->ncols);
    if (a->versioned != b->versioned) return differs(why, why_cap, "system versioning on one side only");
    return true;
}
