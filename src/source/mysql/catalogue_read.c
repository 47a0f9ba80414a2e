/* Table definitions out of information_schema. One list of tables, then three queries per database that has captured ones: on MariaDB only
 * "TABLE_SCHEMA = constant" is looked up without opening every table of the server. */
#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#include "catalogue.h"
#include "fk.h"
#include "weir/base/map.h"
#include "weir/base/mem.h"

typedef struct listed { wr_my_table **t; int n, cap; } listed;

typedef struct reading {
    const wr_capture *capture;
    wr_ddl_server sv;
    listed all;
    wr_map *by_name;   /* of the database being read: name -> wr_my_table */
    bool everything;   /* one table was asked for by name */
} reading;

static void tables_free(wr_my_table **t, int n) {
    for (int i = 0; i < n; i++) wr_my_table_free(t[i]);
    wr_free(t);
}

static bool set_text(char **dst, const char *src) {
    char *s = src ? wr_strdup(src) : NULL;
    if (src && !s) return false;
    wr_free(*dst);
    *dst = s;
    return true;
}

static void put_literal(MYSQL *m, wr_buf *b, const char *s) {
    size_t n = strlen(s);
    char *room = (char *)wr_buf_room(b, n * 2 + 3);
    if (!room) return;
    room[0] = '\'';
    size_t len = mysql_real_escape_string(m, room + 1, s, n);
    room[len + 1] = '\'';
    b->n += len + 2;
}

/* ------------------------------------------------------------------ tables */
static wr_code on_table(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    reading *r = ctx;
    if (!row[0] || !row[1] || !row[2]) return WR_OK;
    bool sequence = strcmp(row[2], "SEQUENCE") == 0;
    if (strcmp(row[2], "BASE TABLE") != 0 && strcmp(row[2], "SYSTEM VERSIONED") != 0 && !sequence) return WR_OK;
    if (!r->everything && !wr_capture_matches(r->capture, row[0], row[1])) return WR_OK;
    if (r->all.n == r->all.cap) {
        int cap = r->all.cap ? r->all.cap * 2 : 64;
        wr_my_table **t = wr_realloc(r->all.t, (size_t)cap * sizeof *t);
        if (!t) return wr_nomem(err, "tables", (size_t)cap * sizeof *t);
        r->all.t = t;
        r->all.cap = cap;
    }
    wr_my_table *t = wr_calloc(1, sizeof *t);
    if (!t) return wr_nomem(err, "table definition", sizeof *t);
    r->all.t[r->all.n++] = t;
    char buf[64];
    bool ok = set_text(&t->db, row[0]) && set_text(&t->name, row[1]) && set_text(&t->engine, row[3]);
    if (row[4]) ok = ok && set_text(&t->collation, row[4]) && set_text(&t->charset, wr_my_charset_of(row[4], buf));
    t->versioned = strcmp(row[2], "SYSTEM VERSIONED") == 0;
    t->captured = !sequence && wr_capture_matches(r->capture, row[0], row[1]);
    t->away_of = sequence; /* until the columns are read */
    return ok ? WR_OK : wr_nomem(err, "table definition", 256);
}

/* ------------------------------------------------------------------ columns */
static bool has_word(const char *extra, const char *word) { return extra && strcasestr(extra, word); }

/* 'it''s \\ quoted' as MariaDB shows literals -> text; false when it is more than one literal (an expression). */
static bool unquote(const char *s, wr_buf *b) {
    for (s++; *s; s++) {
        if (*s == '\'') {
            if (s[1] != '\'') return s[1] == 0;
            wr_buf_u8(b, *s++);
        } else if (*s == '\\' && s[1]) {
            char c = *++s;
            wr_buf_u8(b, (uint8_t)(c == '0' ? 0 : c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c == 'b' ? '\b' : c == 'Z' ? 26 : c));
        } else wr_buf_u8(b, (uint8_t)*s);
    }
    return false;
}

static bool is_number(const char *s) {
    char *end;
    if (!*s || strspn(s, "0123456789+-.eE") != strlen(s)) return false;
    strtod(s, &end);
    return *end == 0;
}

static wr_code bit_default(wr_my_col *c, const char *s, wr_err *err) {
    unsigned long long v = strtoull(s + 2, NULL, 2);
    c->has_default = true;
    c->default_text = wr_asprintf("%llu", v);
    return c->default_text ? WR_OK : wr_nomem(err, "column default", 24);
}

static wr_code literal_default(wr_my_col *c, const char *s, size_t n, wr_err *err) {
    /* information_schema cuts and replaces bytes that are no text, and shows FLOAT with six digits: not certain. */
    if (c->kind == MY_BINARY || c->kind == MY_VARBINARY || c->kind == MY_BLOB || c->kind == MY_FLOAT || strlen(s) != n) {
        c->default_expr = true;
        return WR_OK;
    }
    if (c->kind == MY_BIT && strncmp(s, "b'", 2) == 0) return bit_default(c, s, err);
    c->has_default = true;
    c->default_text = wr_strndup(s, n);
    return c->default_text ? WR_OK : wr_nomem(err, "column default", n);
}

static wr_code server_default(wr_my_col *c, const wr_ddl_server *sv, const char *text, const char *extra, wr_err *err) {
    if (c->generated || c->auto_increment) return WR_OK;
    if (!text) {
        if (!sv->is_mariadb && !c->not_null) c->has_default = true; /* DEFAULT NULL */
        return WR_OK;
    }
    if (!sv->is_mariadb) {
        if (has_word(extra, "DEFAULT_GENERATED") || strncasecmp(text, "CURRENT_TIMESTAMP", 17) == 0) return c->default_expr = true, WR_OK;
        return literal_default(c, text, strlen(text), err);
    }
    if (strcmp(text, "NULL") == 0) return c->has_default = true, WR_OK;
    if (*text == '\'') {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        if (!unquote(text, &b)) return c->default_expr = true, WR_OK;
        const char *s = wr_buf_cstr(&b);
        return s ? literal_default(c, s, b.n, err) : wr_nomem(err, "column default", strlen(text));
    }
    if (c->kind == MY_BIT && strncmp(text, "b'", 2) == 0) return bit_default(c, text, err);
    if (is_number(text)) return literal_default(c, text, strlen(text), err);
    c->default_expr = true;
    return WR_OK;
}

enum { C_TABLE, C_NAME, C_DEFAULT, C_NULLABLE, C_CHARSET, C_COLLATION, C_TYPE, C_EXTRA, C_GENERATION };
#define COLUMN_FIELDS "TABLE_NAME, COLUMN_NAME, COLUMN_DEFAULT, IS_NULLABLE, CHARACTER_SET_NAME, COLLATION_NAME, COLUMN_TYPE, EXTRA, GENERATION_EXPRESSION"

static wr_my_col *add_col(wr_my_table *t) {
    if ((t->ncols & (t->ncols - 1)) == 0) { /* room is always the next power of two */
        wr_my_col *cols = wr_realloc(t->cols, (size_t)(t->ncols ? t->ncols * 2 : 1) * sizeof *cols);
        if (!cols) return NULL;
        t->cols = cols;
    }
    wr_my_col *c = &t->cols[t->ncols++];
    *c = (wr_my_col){.kind = MY_INT};
    return c;
}

static wr_code on_column(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    reading *r = ctx;
    wr_my_table *t = row[C_TABLE] ? wr_map_get(r->by_name, wr_slice_str(row[C_TABLE])) : NULL;
    if (!t || t->away_of || !row[C_NAME] || !row[C_TYPE]) return WR_OK;
    wr_my_col *c = add_col(t);
    if (!c || !(c->name = wr_strdup(row[C_NAME]))) return wr_nomem(err, "column definition", sizeof *c);
    wr_code rc = wr_ddl_type_from_server(row[C_TYPE], row[C_CHARSET], row[C_COLLATION], &r->sv, c, err);
    if (rc != WR_OK) return wr_err_in(err, "table %s.%s", t->db, t->name);
    const char *extra = row[C_EXTRA], *generation = row[C_GENERATION];
    c->not_null = row[C_NULLABLE] && strcmp(row[C_NULLABLE], "NO") == 0;
    c->auto_increment = has_word(extra, "auto_increment");
    c->stored = has_word(extra, "STORED GENERATED") || has_word(extra, "PERSISTENT");
    c->generated = c->stored || has_word(extra, "VIRTUAL GENERATED") || (has_word(extra, "VIRTUAL") && r->sv.is_mariadb);
    c->invisible = has_word(extra, "INVISIBLE");
    if (t->versioned && generation && (strcasecmp(generation, "ROW START") == 0 || strcasecmp(generation, "ROW END") == 0)) c->hidden = true;
    return server_default(c, &r->sv, row[C_DEFAULT], extra, err);
}

/* A table WITH SYSTEM VERSIONING that names no period columns has two that information_schema does not show and the binlog does. */
static wr_code add_period(wr_my_table *t, const wr_ddl_server *sv, wr_err *err) {
    if (!t->versioned) return WR_OK;
    for (int i = 0; i < t->ncols; i++)
        if (t->cols[i].hidden) return WR_OK;
    for (int i = 0; i < 2; i++) {
        wr_my_col *c = add_col(t);
        if (!c) return wr_nomem(err, "column definition", sizeof *c);
        WR_TRY(wr_my_period_column(c, i == 1, sv, err));
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ keys */
static wr_code on_key(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    reading *r = ctx;
    wr_my_table *t = row[0] ? wr_map_get(r->by_name, wr_slice_str(row[0])) : NULL;
    if (!t || !row[1] || !row[2]) return WR_OK;
    wr_my_col *c = wr_my_table_find_col(t, row[2]);
    if (!c) return wr_fail(err, WR_E_SCHEMA, WR_RETRY_SOON, "table %s.%s: its key names column \"%s\", which it does not have: it is being changed", t->db, t->name, row[2]);
    if (!c->hidden) c->key_ord = atoi(row[1]);
    return WR_OK;
}

/* ------------------------------------------------------------------ foreign keys */
/* Who may only SELECT sees no rules in information_schema on MariaDB: which tables have foreign keys is asked there, the rest is in SHOW CREATE TABLE. */
static wr_code on_fk(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    reading *r = ctx;
    wr_my_table *t = row[0] ? wr_map_get(r->by_name, wr_slice_str(row[0])) : NULL;
    if (t) t->fk_cascade_child = true; /* that it has any: until wr_my_table_finish */
    return WR_OK;
}

typedef struct shown { wr_my_table *t; const wr_ddl_server *sv; } shown;

static wr_code on_create(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    shown *s = ctx;
    return ncols > 1 && row[1] ? wr_my_fks_from_create(s->t, row[1], s->sv, err) : WR_OK;
}

/* A table that is gone, or that we may not see, has none. */
static wr_code read_fks(MYSQL *m, const wr_ddl_server *sv, wr_my_table *t, wr_err *err) {
    shown s = {.t = t, .sv = sv};
    WR_AUTO_BUF wr_buf name = WR_BUF_INIT;
    wr_my_quote_name(&name, t->db);
    wr_buf_u8(&name, '.');
    wr_my_quote_name(&name, t->name);
    const char *text = wr_buf_cstr(&name);
    if (!text) return wr_nomem(err, "query", 256);
    wr_code rc = wr_my_query(m, on_create, &s, err, "SHOW CREATE TABLE %s", text);
    unsigned no = rc == WR_OK ? 0 : mysql_errno(m);
    if (no == 1146 || no == 1049 || no == 1142 || no == 1044 || no == 1347) wr_err_clear(err), rc = WR_OK;
    return rc;
}

/* ------------------------------------------------------------------ one database */
static wr_code on_schema(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    wr_my_table *t = ctx;
    return set_text(&t->db_collation, row[0]) ? WR_OK : wr_nomem(err, "table definition", 64);
}

static wr_code read_database(reading *r, MYSQL *m, int from, int upto, const char *only, wr_err *err) {
    WR_AUTO_BUF wr_buf where = WR_BUF_INIT;
    put_literal(m, &where, r->all.t[from]->db);
    WR_AUTO_BUF wr_buf and = WR_BUF_INIT;
    if (only) {
        wr_buf_printf(&and, " AND TABLE_NAME = ");
        put_literal(m, &and, only);
    }
    const char *db = wr_buf_cstr(&where), *name = wr_buf_cstr(&and);
    if (!db || !name) return wr_nomem(err, "query", 256);
    wr_map *map = wr_map_new();
    if (!map) return wr_nomem(err, "tables", 256);
    r->by_name = map;
    wr_code rc = WR_OK;
    for (int i = from; rc == WR_OK && i < upto; i++)
        if (!wr_map_put(map, wr_slice_str(r->all.t[i]->name), r->all.t[i])) rc = wr_nomem(err, "tables", 64);
    if (rc == WR_OK)
        rc = wr_my_query(m, on_column, r, err, "SELECT " COLUMN_FIELDS " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s%s ORDER BY TABLE_NAME, ORDINAL_POSITION", db, name);
    if (rc == WR_OK)
        rc = wr_my_query(m, on_schema, r->all.t[from], err, "SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s", db);
    for (int i = from; rc == WR_OK && i < upto; i++) rc = add_period(r->all.t[i], &r->sv, err);
    if (rc == WR_OK)
        rc = wr_my_query(m, on_key, r, err, "SELECT TABLE_NAME, SEQ_IN_INDEX, COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s%s AND INDEX_NAME = 'PRIMARY'", db, name);
    if (rc == WR_OK)
        rc = wr_my_query(m, on_fk, r, err, "SELECT DISTINCT TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = %s%s AND REFERENCED_TABLE_NAME IS NOT NULL", db, name);
    for (int i = from; rc == WR_OK && i < upto; i++)
        if (r->all.t[i]->fk_cascade_child) rc = read_fks(m, &r->sv, r->all.t[i], err);
    wr_map_free(map, NULL);
    r->by_name = NULL;
    return rc;
}

/* Helpers of online schema changes: their names say so and their base is there. ORDER BY of the list keeps a database together. */
static void mark_helpers(reading *r, int from, int upto) {
    for (int i = from; i < upto; i++) {
        wr_my_table *t = r->all.t[i];
        char base[256];
        if (!t->captured || !wr_is_shadow_name(t->name, base, sizeof base) || wr_capture_names(r->capture, t->db, t->name)) continue;
        for (int k = from; k < upto && t->captured; k++)
            if (k != i && r->all.t[k]->captured && wr_is_shadow_of(t->name, r->all.t[k]->name)) t->captured = false;
    }
}

static wr_code on_base(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    reading *r = ctx;
    wr_my_table *t = r->all.t[0];
    if (row[0] && wr_capture_matches(r->capture, t->db, row[0]) && wr_is_shadow_of(t->name, row[0])) t->captured = false;
    return WR_OK;
}

/* One table by name: is the base of its helper-like name there? */
static wr_code mark_one_helper(reading *r, MYSQL *m, wr_err *err) {
    wr_my_table *t = r->all.t[0];
    char base[256];
    if (!t->captured || !wr_is_shadow_name(t->name, base, sizeof base) || wr_capture_names(r->capture, t->db, t->name)) return WR_OK;
    WR_AUTO_BUF wr_buf db = WR_BUF_INIT;
    put_literal(m, &db, t->db);
    const char *d = wr_buf_cstr(&db);
    if (!d) return wr_nomem(err, "query", 256);
    return wr_my_query(m, on_base, r, err, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", d);
}

wr_code wr_catalogue_read_server(MYSQL *m, const wr_capture *capture, wr_my_types types, wr_flavor flavor, const char *db, const char *name,
                                 wr_my_table ***ret_tables, int *ret_n, wr_err *err) {
    unsigned long v = mysql_get_server_version(m);
    reading r = {.capture = capture, .sv = {.is_mariadb = flavor == WR_MARIADB, .version = (uint32_t)v}, .everything = name != NULL};
    WR_AUTO_BUF wr_buf where = WR_BUF_INIT;
    if (db) {
        wr_buf_printf(&where, "TABLE_SCHEMA = ");
        put_literal(m, &where, db);
        if (name) {
            wr_buf_printf(&where, " AND TABLE_NAME = ");
            put_literal(m, &where, name);
        }
    } else wr_buf_printf(&where, "TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')");
    const char *w = wr_buf_cstr(&where);
    if (!w) return wr_nomem(err, "query", 256);
    wr_code rc = wr_my_query(m, on_table, &r, err,
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_COLLATION FROM information_schema.TABLES WHERE %s ORDER BY TABLE_SCHEMA, TABLE_NAME", w);
    for (int from = 0; rc == WR_OK && from < r.all.n;) {
        int upto = from + 1;
        while (upto < r.all.n && strcmp(r.all.t[upto]->db, r.all.t[from]->db) == 0) upto++;
        rc = read_database(&r, m, from, upto, name, err);
        if (rc == WR_OK && !name) mark_helpers(&r, from, upto);
        from = upto;
    }
    if (rc == WR_OK && name && r.all.n) rc = mark_one_helper(&r, m, err);
    for (int i = 0; rc == WR_OK && i < r.all.n; i++) {
        wr_my_table *t = r.all.t[i];
        bool sequence = t->away_of;
        t->away_of = 0;
        t->version = 1;
        t->next_col_id = 1;
        if (sequence) continue;
        if (t->ncols == 0) rc = wr_fail(err, WR_E_SCHEMA, WR_RETRY_SOON, "table %s.%s: information_schema shows no columns: it is being changed, or cannot be opened", t->db, t->name);
        for (int k = 0; k < t->ncols; k++) t->cols[k].id = k + 1;
        t->next_col_id = t->ncols + 1;
        if (rc == WR_OK) rc = wr_my_table_finish(t, types, NULL, err);
    }
    if (rc != WR_OK) {
        tables_free(r.all.t, r.all.n);
        return wr_err_in(err, "reading table definitions");
    }
    *ret_tables = r.all.t;
    *ret_n = r.all.n;
    return WR_OK;
}

/* ------------------------------------------------------------------ tables between */
wr_code wr_catalogue_read_fks(MYSQL *m, wr_flavor flavor, wr_my_table *t, wr_err *err) {
    wr_ddl_server sv = {.is_mariadb = flavor == WR_MARIADB, .version = (uint32_t)mysql_get_server_version(m)};
    return read_fks(m, &sv, t, err);
}

static bool listed_name(wr_my_table *const *t, int n, const wr_my_fk *f) {
    for (int i = 0; i < n; i++)
        if (wr_my_name_eq(t[i]->db, f->db) && wr_my_name_eq(t[i]->name, f->parent)) return true;
    return false;
}

wr_code wr_catalogue_read_parents(MYSQL *m, const wr_capture *capture, wr_flavor flavor, wr_my_table ***tables, int *n, wr_err *err) {
    for (int i = 0; i < *n; i++)
        for (int k = 0; k < (*tables)[i]->nfks; k++) {
            const wr_my_fk *f = &(*tables)[i]->fks[k];
            if (!wr_my_fk_changes_rows(f) || wr_capture_matches(capture, f->db, f->parent) || listed_name(*tables, *n, f)) continue;
            wr_my_table **l = wr_realloc(*tables, ((size_t)*n + 1) * sizeof *l), *t = wr_calloc(1, sizeof *t);
            if (l) *tables = l;
            if (!l || !t) return wr_free(t), wr_nomem(err, "tables", (size_t)*n * sizeof *l);
            l[(*n)++] = t;
            t->version = 1, t->next_col_id = 1;
            if (!set_text(&t->db, f->db) || !set_text(&t->name, f->parent)) return wr_nomem(err, "table definition", 256);
            WR_TRY(wr_catalogue_read_fks(m, flavor, t, err));
        }
    return WR_OK;
}
