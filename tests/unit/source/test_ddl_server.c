/* Runs all DDL of the acceptance cases and random DDL on real servers and compares the tracked definitions with information_schema after every statement, the
 * verdict about rows with the rows, and the recorded events with the catalogue they must restore.
 *   WEIR_TEST_MARIADB, WEIR_TEST_MYSQL  host:port:user:password; without them the tests are skipped
 *   WEIR_TEST_CASES                     folder of the cases (default: the repository's)
 *   WEIR_TEST_SEED, WEIR_TEST_ROUNDS    random DDL; the seed is printed
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "ddl_server.h"
#include "weir/base/mem.h"

/* ------------------------------------------------------------------ server */
static void disagree(server *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void disagree(server *s, const char *fmt, ...) {
    size_t n = strlen(s->failure);
    if (n + 200 > sizeof s->failure) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->failure + n, sizeof s->failure - n, fmt, ap);
    va_end(ap);
    strncat(s->failure, "\n", sizeof s->failure - strlen(s->failure) - 1);
}

static char *ask(MYSQL *m, const char *sql) {
    char *text = NULL;
    wr_err e = WR_ERR_INIT;
    wr_my_scalar(m, &text, &e, "%s", sql);
    return text ? text : wr_strdup("");
}

static wr_code on_status(void *ctx, MYSQL_ROW row, unsigned long *len, unsigned n, wr_err *err) {
    server *s = ctx;
    snprintf(s->file, sizeof s->file, "%s", row[0]);
    s->pos = strtoull(row[1], NULL, 10);
    return WR_OK;
}

static void at_end(server *s) {
    wr_err e = WR_ERR_INIT;
    wr_my_query(s->admin, on_status, s, &e, "%s", s->is_mariadb ? "SHOW MASTER STATUS" : "SHOW BINARY LOG STATUS");
}

bool server_quiet(server *s, const char *fmt, ...) {
    char sql[4000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sql, sizeof sql, fmt, ap);
    va_end(ap);
    wr_err e = WR_ERR_INIT;
    return wr_my_exec(s->admin, &e, "%s", sql) == WR_OK;
}

static MYSQL *connect_to(server *s) {
    MYSQL *m = NULL;
    wr_err e = WR_ERR_INIT;
    if (wr_my_connect(&s->conn, &m, &e) != WR_OK) print_message("%s\n", e.msg);
    return m;
}

bool server_open(server *s, const char *where, const char *capture) {
    static char host[200], user[200], password[200];
    *s = (server){0};
    int port;
    if (sscanf(where, "%199[^:]:%d:%199[^:]:%199s", host, &port, user, password) != 4) return false;
    s->conn = (wr_my_conn_options){.host = host, .user = user, .password = password, .port = port, .tls = WR_TLS_PREFERRED};
    if (!(s->m = connect_to(s)) || !(s->admin = connect_to(s))) return false;
    WR_AUTO char *version = ask(s->admin, "SELECT VERSION()");
    unsigned a = 0, b = 0, c = 0;
    sscanf(version, "%u.%u.%u", &a, &b, &c);
    s->version = a * 10000 + b * 100 + c;
    s->is_mariadb = strcasestr(version, "mariadb");
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_capture_new(&capture, 1, NULL, 0, &s->capture, &e), WR_OK);
    strcpy(s->names, "utf8mb4");
    wr_my_exec(s->m, &e, "SET sql_mode = DEFAULT");
    return true;
}

void server_close(server *s) {
    wr_catalogue_free(s->cat);
    wr_capture_free(s->capture);
    if (s->m) wr_my_disconnect(s->m);
    if (s->admin) wr_my_disconnect(s->admin);
    for (int i = 0; i < s->ndefs; i++) wr_free(s->defs[i]);
    wr_free(s->defs);
}

/* ------------------------------------------------------------------ recorded events */
static void record(server *s, uint32_t id, const char *def) {
    if ((int)id >= s->ndefs) {
        s->defs = wr_realloc(s->defs, (id + 64) * sizeof *s->defs);
        for (int i = s->ndefs; i < (int)id + 64; i++) s->defs[i] = NULL;
        s->ndefs = (int)id + 64;
    }
    wr_free(s->defs[id]);
    s->defs[id] = def ? wr_strdup(def) : NULL;
}

static wr_code collect(void *ctx, const wr_my_table *t, wr_err *err) {
    wr_buf *b = ctx;
    wr_code rc = wr_my_table_to_json(t, b, err);
    wr_buf_u8(b, '\n');
    return rc;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* All definitions, one a line, in order. */
static char *dump(wr_catalogue *c) {
    wr_buf b = WR_BUF_INIT;
    wr_err e = WR_ERR_INIT;
    wr_catalogue_each(c, collect, &b, &e);
    char *lines[4000];
    int n = 0;
    char *all = wr_strdup(b.n ? wr_buf_cstr(&b) : "");
    for (char *l = strtok(all, "\n"); l && n < 4000; l = strtok(NULL, "\n")) lines[n++] = l;
    qsort(lines, (size_t)n, sizeof *lines, by_text);
    wr_buf_clear(&b);
    for (int i = 0; i < n; i++) wr_buf_printf(&b, "%s\n", lines[i]);
    char *out = wr_strdup(b.n ? wr_buf_cstr(&b) : "");
    wr_free(all);
    wr_buf_free(&b);
    return out;
}

static wr_code take_table(void *ctx, const wr_my_table *t, wr_err *err) {
    server *s = ctx;
    wr_buf b = WR_BUF_INIT;
    wr_code rc = wr_my_table_to_json(t, &b, err);
    record(s, t->id, wr_buf_cstr(&b));
    wr_buf_free(&b);
    return rc;
}

bool server_begin(server *s) {
    wr_err e = WR_ERR_INIT;
    wr_catalogue_free(s->cat);
    s->cat = NULL;
    for (int i = 0; i < s->ndefs; i++) wr_free(s->defs[i]), s->defs[i] = NULL;
    assert_int_equal(wr_catalogue_new(s->capture, s->types, s->is_mariadb ? WR_MARIADB : WR_MYSQL, &s->cat, &e), WR_OK);
    wr_my_table **t;
    int n;
    if (wr_catalogue_read_server(s->admin, s->capture, s->types, s->is_mariadb ? WR_MARIADB : WR_MYSQL, NULL, NULL, &t, &n, &e) != WR_OK) {
        disagree(s, "%s", e.msg);
        return false;
    }
    for (int i = 0; i < n; i++) assert_int_equal(wr_catalogue_add(s->cat, t[i], &e), WR_OK);
    wr_free(t);
    wr_catalogue_each(s->cat, take_table, s, &e);
    at_end(s);
    return true;
}

/* A restart: the catalogue made of the recorded events is the one at hand. */
static void check_restore(server *s) {
    wr_catalogue *c;
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_catalogue_new(s->capture, s->types, s->is_mariadb ? WR_MARIADB : WR_MYSQL, &c, &e), WR_OK);
    for (int i = 0; i < s->ndefs; i++) {
        if (!s->defs[i]) continue;
        wr_ddl d = {.kind = WR_DDL_HIDDEN, .table = (uint32_t)i, .def = s->defs[i]};
        if (wr_catalogue_restore(c, &d, &e) != WR_OK) disagree(s, "restore: %s", e.msg);
    }
    WR_AUTO char *x = dump(s->cat);
    WR_AUTO char *y = dump(c);
    if (strcmp(x, y) != 0) {
        size_t i = 0;
        while (x[i] == y[i]) i++;
        disagree(s, "restored catalogue differs: ...%.200s\n  and ...%.200s", x + (i > 60 ? i - 60 : 0), y + (i > 60 ? i - 60 : 0));
    }
    wr_catalogue_free(c);
}

/* ------------------------------------------------------------------ rows before and after */
typedef struct rows {
    char db[300], name[300];
    wr_my_table *def;
    char **cells; /* NULL = null; row by row */
    int nrows, ncols;
} rows;

static wr_code on_row(void *ctx, MYSQL_ROW row, unsigned long *len, unsigned n, wr_err *err) {
    rows *r = ctx;
    if ((int)n != r->ncols) return WR_OK;
    r->cells = wr_realloc(r->cells, (size_t)(r->nrows + 1) * n * sizeof *r->cells);
    for (unsigned i = 0; i < n; i++) r->cells[(size_t)r->nrows * n + i] = row[i] ? wr_strndup(row[i], len[i]) : NULL;
    r->nrows++;
    return WR_OK;
}

static void rows_clear(rows *r) {
    for (int i = 0; i < r->nrows * r->ncols; i++) wr_free(r->cells[i]);
    wr_free(r->cells);
    wr_my_table_free(r->def);
    *r = (rows){0};
}

/* What the lake would hold: texts in UTF-8, bytes in hex, numbers exactly. */
static void put_expression(wr_buf *b, const wr_my_col *c, const char *alias) {
    WR_AUTO_BUF wr_buf q = WR_BUF_INIT;
    wr_my_quote_name(&q, c->name);
    const char *n = wr_buf_cstr(&q);
    switch (c->kind) {
    case MY_BINARY:
    case MY_VARBINARY:
    case MY_BLOB:
    case MY_GEOMETRY:
    case MY_VECTOR: wr_buf_printf(b, "HEX(%s)", n); break;
    case MY_BIT: wr_buf_printf(b, "%s+0", n); break;
    case MY_FLOAT:
    case MY_DOUBLE: wr_buf_printf(b, "FORMAT(%s+0e0,30)", n); break;
    case MY_DATE: wr_buf_printf(b, "IF(MONTH(%s)=0 OR DAYOFMONTH(%s)=0, NULL, %s)", n, n, n); break;
    case MY_DATETIME:
    case MY_TIMESTAMP: wr_buf_printf(b, "IF(MONTH(%s)=0 OR DAYOFMONTH(%s)=0, NULL, CAST(%s AS DATETIME(6)))", n, n, n); break;
    case MY_TIME: wr_buf_printf(b, "CAST(%s AS TIME(6))", n); break;
    case MY_CHAR:
    case MY_VARCHAR:
    case MY_TEXT:
    case MY_ENUM:
    case MY_SET: wr_buf_printf(b, "HEX(CONVERT(%s USING utf8mb4))", n); break;
    case MY_INT:
    case MY_BIGINT:
    case MY_SMALLINT:
    case MY_MEDIUMINT:
    case MY_TINYINT:
    case MY_YEAR: wr_buf_printf(b, "%s+0", n); break; /* without ZEROFILL's zeroes */
    default: wr_buf_printf(b, "%s", n); break;
    }
}

static bool rows_read(server *s, const wr_my_table *t, rows *r) {
    *r = (rows){.ncols = 0};
    snprintf(r->db, sizeof r->db, "%s", t->db);
    snprintf(r->name, sizeof r->name, "%s", t->name);
    r->def = wr_my_table_clone(t);
    wr_buf q = WR_BUF_INIT;
    for (int i = 0; i < t->ncols; i++) {
        if (t->cols[i].hidden) continue;
        if (r->ncols++) wr_buf_printf(&q, ", ");
        put_expression(&q, &t->cols[i], NULL);
    }
    wr_buf from = WR_BUF_INIT;
    wr_my_quote_name(&from, t->db);
    wr_buf_printf(&from, ".");
    wr_my_quote_name(&from, t->name);
    wr_err e = WR_ERR_INIT;
    wr_code rc = wr_my_query(s->admin, on_row, r, &e, "SELECT %s FROM %s LIMIT 3000", wr_buf_cstr(&q), wr_buf_cstr(&from));
    wr_buf_free(&q);
    wr_buf_free(&from);
    if (rc == WR_OK) return true;
    rows_clear(r);
    return false;
}

/* What the lake column shows for `initial`, in the form of put_expression. */
static void put_initial(wr_buf *b, const wr_my_col *c, const wr_column *l) {
    const wr_value *v = &l->initial;
    switch (l->type.kind) {
    case WR_BOOL: wr_buf_printf(b, "%d", v->b); return;
    case WR_STRING:
        if (c->charset || c->kind == MY_JSON) {
            for (size_t i = 0; i < v->s.n; i++) wr_buf_printf(b, "%02X", v->s.p[i]);
            return;
        }
        wr_buf_put(b, v->s.p, v->s.n);
        return;
    case WR_BINARY:
        for (size_t i = 0; i < v->s.n; i++) wr_buf_printf(b, "%02X", v->s.p[i]);
        return;
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ: {
        int64_t us = v->i64 % 86400000000ll, days = v->i64 / 86400000000ll;
        if (us < 0) us += 86400000000ll, days--;
        int y, m, d;
        wr_civil_from_days((int32_t)days, &y, &m, &d);
        wr_buf_printf(b, "%04d-%02d-%02d %02d:%02d:%02d.%06d", y, m, d, (int)(us / 3600000000ll), (int)(us / 60000000 % 60), (int)(us / 1000000 % 60), (int)(us % 1000000));
        return;
    }
    case WR_LONG:
        if (c->kind == MY_TIME) {
            int64_t us = v->i64 < 0 ? -v->i64 : v->i64;
            wr_buf_printf(b, "%s%02d:%02d:%02d.%06d", v->i64 < 0 ? "-" : "", (int)(us / 3600000000ll), (int)(us / 60000000 % 60), (int)(us / 1000000 % 60), (int)(us % 1000000));
            return;
        }
        break;
    default: break;
    }
    wr_value_print(b, l->type, v);
}

static bool is_float(const wr_my_col *c) { return c->kind == MY_FLOAT || c->kind == MY_DOUBLE; }

static int visible_index(const wr_my_table *t, int col) {
    int n = 0;
    for (int i = 0; i < col; i++) n += !t->cols[i].hidden;
    return n;
}

/* One line per row: the columns that both definitions have; added ones as they must be. */
static char **project(const rows *r, const wr_my_table *before, const wr_my_table *after, bool is_after, const wr_schema *schema) {
    char **lines = wr_calloc((size_t)r->nrows + 1, sizeof *lines);
    for (int k = 0; k < r->nrows; k++) {
        wr_buf b = WR_BUF_INIT;
        for (int i = 0; i < after->ncols; i++) {
            const wr_my_col *c = &after->cols[i];
            if (c->hidden) continue;
            int old = -1;
            for (int j = 0; j < before->ncols; j++)
                if (before->cols[j].id == c->id) old = j;
            const char *cell = NULL;
            wr_buf init = WR_BUF_INIT;
            if (is_after) cell = r->cells[k * r->ncols + visible_index(after, i)];
            else if (old >= 0) cell = r->cells[k * r->ncols + visible_index(before, old)];
            else if (schema->cols[after->lake_col[i]].has_initial) {
                const wr_column *l = &schema->cols[after->lake_col[i]];
                put_initial(&init, c, l);
                cell = init.n ? wr_buf_cstr(&init) : "";
                if (is_float(c)) cell = "0";
            }
            if (is_float(c) && old < 0 && cell) cell = "0"; /* compared elsewhere */
            wr_buf_printf(&b, "%s|", cell ? cell : "NULL");
            wr_buf_free(&init);
        }
        lines[k] = wr_strdup(b.n ? wr_buf_cstr(&b) : "");
        wr_buf_free(&b);
    }
    qsort(lines, (size_t)r->nrows, sizeof *lines, by_text);
    return lines;
}

static void lines_free(char **l, int n) {
    for (int i = 0; i < n; i++) wr_free(l[i]);
    wr_free(l);
}

/* A float default, exactly: equal as a double. */
static void check_floats(server *s, const wr_my_table *t, const wr_schema *schema) {
    for (int i = 0; i < t->ncols; i++) {
        if (t->lake_col[i] < 0 || !is_float(&t->cols[i])) continue;
        const wr_column *l = &schema->cols[t->lake_col[i]];
        if (!l->has_initial) continue;
        wr_buf q = WR_BUF_INIT;
        wr_buf_printf(&q, "SELECT COUNT(*) FROM ");
        wr_my_quote_name(&q, t->db);
        wr_buf_printf(&q, ".");
        wr_my_quote_name(&q, t->name);
        wr_buf_printf(&q, " WHERE NOT (");
        wr_my_quote_name(&q, t->cols[i].name);
        wr_buf_printf(&q, "+0e0 <=> %.17ge0)", l->type.kind == WR_FLOAT ? (double)l->initial.f32 : l->initial.f64);
        WR_AUTO char *n = ask(s->admin, wr_buf_cstr(&q));
        if (strcmp(n, "0") != 0) disagree(s, "%s.%s.%s: the added column's value is not %.17g in %s rows", t->db, t->name, t->cols[i].name, l->type.kind == WR_FLOAT ? (double)l->initial.f32 : l->initial.f64, n);
        wr_buf_free(&q);
    }
}

/* KEEP and FILL say that old rows are what they were, with the added columns' values. */
static void check_rows(server *s, rows *before, const wr_my_table *t, const wr_schema *schema) {
    rows after;
    if (!rows_read(s, t, &after)) return;
    s->rows_checked += after.nrows;
    if (after.nrows != before->nrows) disagree(s, "%s.%s: %d rows before and %d after a change said to keep them", t->db, t->name, before->nrows, after.nrows);
    else {
        char **x = project(before, before->def, t, false, schema), **y = project(&after, before->def, t, true, schema);
        for (int i = 0; i < after.nrows; i++)
            if (strcmp(x[i], y[i]) != 0) {
                disagree(s, "%s.%s: rows are not what the verdict says: %s expected, %s found", t->db, t->name, x[i], y[i]);
                break;
            }
        lines_free(x, before->nrows);
        lines_free(y, after.nrows);
    }
    check_floats(s, t, schema);
    rows_clear(&after);
}

/* ------------------------------------------------------------------ one statement */
typedef struct seen { uint8_t kind, rows; uint32_t table; wr_schema *schema; } seen;
typedef struct feeding {
    server *s;
    seen ev[64];
    int n;
    bool dry;
} feeding;

static wr_code on_ddl(void *ctx, const wr_ddl *d, wr_err *err) {
    feeding *f = ctx;
    if (f->dry) return WR_OK;
    if (!d->db || !d->name) disagree(f->s, "an event without names");
    if ((d->kind == WR_DDL_DROP) != (d->def == NULL)) disagree(f->s, "event kind %d and its definition", d->kind);
    if ((d->kind == WR_DDL_RENAME) != (d->old_name != NULL)) disagree(f->s, "event kind %d and its old name", d->kind);
    if (d->schema && d->schema->version < 1) disagree(f->s, "schema version 0");
    record(f->s, d->table, d->def);
    if (f->n < 64) f->ev[f->n++] = (seen){d->kind, d->rows, d->table, d->schema ? wr_schema_ref(d->schema) : NULL};
    return WR_OK;
}

static uint64_t mode_bits(const char *names) {
    uint64_t m = 0;
    if (strstr(names, "ANSI_QUOTES")) m |= 4;
    if (strstr(names, "REAL_AS_FLOAT")) m |= 1;
    if (strstr(names, "NO_BACKSLASH_ESCAPES")) m |= 0x100000;
    if (strstr(names, "STRICT_TRANS_TABLES")) m |= 1u << 21;
    if (strstr(names, "STRICT_ALL_TABLES")) m |= 1u << 22;
    if (strstr(names, "ORACLE")) m |= 512;
    if (strstr(names, "MAXDB")) m |= 4096;
    return m;
}

typedef struct session { char *mode, *zone, *collation, *explicit_ts, *id, *db; } session;

static session session_of(server *s) {
    return (session){ask(s->m, "SELECT @@sql_mode"), ask(s->m, "SELECT @@time_zone"), ask(s->m, "SELECT @@collation_server"),
                     ask(s->m, "SELECT @@explicit_defaults_for_timestamp"), ask(s->m, "SELECT CONNECTION_ID()"), ask(s->m, "SELECT DATABASE()")};
}

static void session_free(session *x) {
    wr_free(x->mode), wr_free(x->zone), wr_free(x->collation), wr_free(x->explicit_ts), wr_free(x->id), wr_free(x->db);
}

static void feed_text(server *s, feeding *f, const session *x, const char *db, const char *sql) {
    wr_statement st = {.default_db = db, .sql = wr_slice_str(sql), .charset = s->names, .collation_server = x->collation, .time_zone = x->zone,
                       .session = strtoull(x->id, NULL, 10), .explicit_timestamp = atoi(x->explicit_ts), .sql_mode = mode_bits(x->mode),
                       .is_mariadb = s->is_mariadb, .server_version = s->version};
    wr_err e = WR_ERR_INIT;
    wr_statement_kind kind;
    /* once for nothing: a rollback must leave no trace */
    WR_AUTO char *x1 = dump(s->cat);
    f->dry = true;
    wr_code dry = wr_catalogue_statement(s->cat, &st, NULL, on_ddl, f, &kind, &e);
    if (dry != WR_OK && s->may_ask) {
        s->asked++;
        if (getenv("WEIR_TEST_VERBOSE")) print_message("asked: %s\n", e.msg);
        dry = WR_OK;
    }
    wr_catalogue_rollback(s->cat);
    f->dry = false;
    WR_AUTO char *x2 = dump(s->cat);
    if (strcmp(x1, x2) != 0) disagree(s, "a rollback left traces: %s", sql);
    wr_code rc = wr_catalogue_statement(s->cat, &st, s->may_ask ? s->admin : NULL, on_ddl, f, &kind, &e);
    if (rc != dry) disagree(s, "once more after a rollback: %s", e.msg);
    if (rc != WR_OK) disagree(s, "%.300s: %s", sql, e.msg);
    wr_catalogue_commit(s->cat);
}

typedef struct events { server *s; char *sql[64], *db[64]; int n; } events;

/* "use `a``b`; ALTER ..." */
static wr_code on_event(void *ctx, MYSQL_ROW row, unsigned long *len, unsigned n, wr_err *err) {
    events *v = ctx;
    if (!row[2] || strcasecmp(row[2], "Query") != 0 || !row[5] || v->n == 64) return WR_OK;
    if (strcmp(row[5], "BEGIN") == 0 || strcmp(row[5], "COMMIT") == 0) return WR_OK;
    char *db = wr_strdup(""), *text = row[5];
    if (strncmp(text, "use `", 5) == 0) {
        char *o = db = wr_realloc(db, len[5] + 1);
        for (text += 5; *text; text++) {
            if (*text == '`' && *++text != '`') break;
            *o++ = *text;
        }
        *o = 0;
        if (strncmp(text, "; ", 2) == 0) text += 2;
        char *told = strncasecmp(text, "set foreign_key_checks=", 23) == 0 ? strstr(text, "; ") : NULL; /* of the event's flags, on MariaDB */
        if (told) text = told + 2;
    }
    v->db[v->n] = db;
    v->sql[v->n++] = wr_strdup(text);
    return WR_OK;
}

typedef struct counting { server *s; int n; } counting;
static wr_code count_known(void *ctx, const wr_my_table *t, wr_err *err) {
    counting *k = ctx;
    if (t->captured && !wr_is_shadow_name(t->name, NULL, 0) && wr_catalogue_find(k->s->cat, t->db, t->name)) k->n++;
    return WR_OK;
}

/* Remembered tables must be right too: they may be swapped in. */
static wr_code check_remembered(void *ctx, const wr_my_table *t, wr_err *err) {
    server *s = ctx;
    char why[300];
    wr_my_table **now;
    int n;
    if (t->captured || !t->ncols || wr_catalogue_read_server(s->admin, s->capture, s->types, s->is_mariadb ? WR_MARIADB : WR_MYSQL, t->db, t->name, &now, &n, err) != WR_OK) return WR_OK;
    if (n == 0) disagree(s, "%s.%s is remembered, and gone", t->db, t->name);
    else if (!wr_my_table_same(t, now[0], why, sizeof why)) disagree(s, "%s.%s (remembered): %s (tracked, server)", t->db, t->name, why);
    for (int i = 0; i < n; i++) wr_my_table_free(now[i]);
    wr_free(now);
    return WR_OK;
}

/* Foreign keys in any order; names that the server made may have followed the table's. */
static bool keys_same(const wr_my_table *a, const wr_my_table *b) {
    bool same = a->nfks == b->nfks;
    for (int i = 0; same && i < a->nfks; i++) {
        const wr_my_fk *x = &a->fks[i];
        bool found = false;
        for (int k = 0; k < b->nfks && !found; k++) {
            const wr_my_fk *y = &b->fks[k];
            const char *made_x = x->name ? strstr(x->name, "_ibfk_") : NULL, *made_y = strstr(y->name, "_ibfk_");
            found = strcmp(x->db, y->db) == 0 && strcmp(x->parent, y->parent) == 0 && x->on_delete == y->on_delete && x->on_update == y->on_update &&
                    (!x->name || strcmp(x->name, y->name) == 0 || (made_x && made_y && strcmp(made_x, made_y) == 0)) && (x->ncols == y->ncols || x->ncols == 0);
            for (int c = 0; found && c < x->ncols; c++) found = wr_my_name_eq(x->cols[c], y->cols[c]);
        }
        same = found;
    }
    return same;
}

static void check_all(server *s) {
    wr_my_table **t;
    int n;
    wr_err e = WR_ERR_INIT;
    if (wr_catalogue_read_server(s->admin, s->capture, s->types, s->is_mariadb ? WR_MARIADB : WR_MYSQL, NULL, NULL, &t, &n, &e) != WR_OK) {
        disagree(s, "%s", e.msg);
        return;
    }
    int there = 0;
    counting known = {.s = s};
    for (int i = 0; i < n; i++) {
        char why[300] = "";
        const wr_my_table *mine = wr_catalogue_find(s->cat, t[i]->db, t[i]->name);
        /* whether such a table is a helper was decided when it appeared, and cannot be told from what is there now */
        if (wr_is_shadow_name(t[i]->name, NULL, 0)) {
        } else if (t[i]->captured) {
            there++;
            if (!mine) disagree(s, "%s.%s is not known", t[i]->db, t[i]->name);
            else if (!keys_same(mine, t[i])) disagree(s, "%s.%s: other foreign keys", t[i]->db, t[i]->name);
            else if (!wr_my_table_same(mine, t[i], why, sizeof why)) disagree(s, "%s.%s: %s (tracked, server)", t[i]->db, t[i]->name, why);
            else {
                s->compared++;
                for (int k = 0; k < mine->ncols; k++)
                    if (strcmp(mine->cols[k].column_type, t[i]->cols[k].column_type) != 0)
                        disagree(s, "%s.%s.%s: type text %s (tracked), %s (server)", mine->db, mine->name, mine->cols[k].name, mine->cols[k].column_type, t[i]->cols[k].column_type);
                if (mine->charset && t[i]->charset && strcmp(mine->charset, t[i]->charset) != 0) disagree(s, "%s.%s: default character set %s (tracked), %s (server)", mine->db, mine->name, mine->charset, t[i]->charset);
            }
        } else if (wr_catalogue_captured(s->cat, t[i]->db, t[i]->name)) {
            if (!mine) disagree(s, "%s.%s is captured here, and no table to be captured there", t[i]->db, t[i]->name);
        }
        wr_my_table_free(t[i]);
    }
    wr_free(t);
    wr_catalogue_each(s->cat, count_known, &known, &e);
    wr_catalogue_each(s->cat, check_remembered, s, &e);
    if (known.n != there) disagree(s, "%d captured tables tracked, %d on the server", known.n, there);
}

typedef struct all_rows { server *s; rows r[256]; int n; } all_rows;

static wr_code read_one(void *ctx, const wr_my_table *t, wr_err *err) {
    all_rows *a = ctx;
    if (t->captured && a->n < 256 && rows_read(a->s, t, &a->r[a->n])) a->n++;
    return WR_OK;
}

static bool is_ddl(const char *sql) {
    while (*sql == ' ' || *sql == '\n' || *sql == '\t') sql++;
    return strncasecmp(sql, "insert", 6) != 0 && strncasecmp(sql, "update", 6) != 0 && strncasecmp(sql, "delete", 6) != 0 &&
           strncasecmp(sql, "replace", 7) != 0 && strncasecmp(sql, "set ", 4) != 0 && strncasecmp(sql, "select", 6) != 0;
}

static const wr_my_table *by_id(server *s, uint32_t id, wr_my_table **ret) {
    wr_err e = WR_ERR_INIT;
    *ret = NULL;
    if ((int)id >= s->ndefs || !s->defs[id]) return NULL;
    return wr_my_table_from_json(wr_slice_str(s->defs[id]), s->types, ret, &e) == WR_OK ? *ret : NULL;
}

unsigned server_run(server *s, const char *sql) {
    all_rows *before = wr_calloc(1, sizeof *before);
    before->s = s;
    wr_err e = WR_ERR_INIT;
    bool ddl = is_ddl(sql);
    if (ddl && s->cat) wr_catalogue_each(s->cat, read_one, before, &e);
    session x = session_of(s);
    unsigned error = mysql_real_query(s->m, sql, strlen(sql)) ? mysql_errno(s->m) : 0;
    do {
        MYSQL_RES *res = mysql_store_result(s->m);
        if (res) mysql_free_result(res);
    } while (mysql_next_result(s->m) == 0);
    if (!s->cat || !ddl) goto out;
    /* what a DROP TABLE says and does when it fails half-way is in the binlog all the same */
    events v = {.s = s};
    char file[256];
    unsigned long long pos = s->pos;
    snprintf(file, sizeof file, "%s", s->file);
    if (wr_my_query(s->admin, on_event, &v, &e, "SHOW BINLOG EVENTS IN '%s' FROM %llu", file, pos) != WR_OK) disagree(s, "%s", e.msg);
    at_end(s);
    feeding f = {.s = s};
    bool binlog = strcmp(s->names, "utf8mb4") == 0;
    for (int i = 0; i < v.n; i++) {
        if (binlog) feed_text(s, &f, &x, v.db[i], v.sql[i]);
        wr_free(v.sql[i]);
        wr_free(v.db[i]);
    }
    if (!binlog && error == 0) feed_text(s, &f, &x, x.db, sql);
    if (v.n) {
        s->ddl++;
        check_all(s);
        check_restore(s);
    }
    for (int i = 0; i < f.n; i++) {
        if (f.ev[i].kind == WR_DDL_ALTER || f.ev[i].kind == WR_DDL_RENAME) {
            if (f.ev[i].rows == WR_ROWS_RELOAD || f.ev[i].rows == WR_ROWS_RETYPED) s->reloads++;
            if (f.ev[i].rows == WR_ROWS_FILL) s->fills++;
            if (f.ev[i].rows == WR_ROWS_KEEP) s->keeps++;
        }
        bool checkable = (f.ev[i].kind == WR_DDL_ALTER || f.ev[i].kind == WR_DDL_RENAME) && f.ev[i].rows != WR_ROWS_RELOAD && f.ev[i].rows != WR_ROWS_RETYPED && f.n == 1;
        wr_my_table *t = NULL;
        if (checkable && by_id(s, f.ev[i].table, &t))
            for (int k = 0; k < before->n; k++)
                if (before->r[k].def->id == t->id) check_rows(s, &before->r[k], t, f.ev[i].schema);
        wr_my_table_free(t);
        wr_schema_unref(f.ev[i].schema);
    }
    if (f.n == 0 && v.n) /* nothing was said: every captured table is as it was */
        for (int k = 0; k < before->n; k++) {
            const wr_my_table *t = wr_catalogue_find(s->cat, before->r[k].db, before->r[k].name);
            if (t) check_rows(s, &before->r[k], t, t->schema);
        }
out:
    for (int k = 0; k < before->n; k++) rows_clear(&before->r[k]);
    wr_free(before);
    session_free(&x);
    return error;
}

static void report(char *failure) {
    bool any = *failure;
    for (char *l = strtok(failure, "\n"); l; l = strtok(NULL, "\n")) print_message("%s\n", l);
    if (any) fail_msg("the tracker and the server do not agree");
}

/* ------------------------------------------------------------------ the acceptance cases */
static const char *here(void) { /* the folder of this file */
    static char dir[900];
    snprintf(dir, sizeof dir, "%s", __FILE__);
    char *slash = strrchr(dir, '/');
    if (slash) *slash = 0;
    return dir;
}

static const char *cases_folder(void) {
    const char *f = getenv("WEIR_TEST_CASES");
    static char path[1200];
    snprintf(path, sizeof path, "%s/../../cases/cases", here());
    return f ? f : path;
}

static char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    wr_buf b = WR_BUF_INIT;
    char chunk[65536];
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0) wr_buf_put(&b, chunk, n);
    fclose(f);
    char *s = wr_strdup(b.n ? wr_buf_cstr(&b) : "");
    wr_buf_free(&b);
    return s;
}

/* End of the statement at p: the delimiter outside quotes and comments. */
static char *statement_end(char *p, const char *delimiter) {
    size_t n = strlen(delimiter);
    while (*p) {
        if (strncmp(p, delimiter, n) == 0) return p;
        if (*p == '\'' || *p == '"' || *p == '`') {
            char q = *p++;
            while (*p && *p != q) p += *p == '\\' && q != '`' && p[1] ? 2 : 1;
            if (*p) p++;
        } else if (*p == '#' || (p[0] == '-' && p[1] == '-' && (p[2] == ' ' || p[2] == '\n'))) {
            while (*p && *p != '\n') p++;
        } else if (p[0] == '/' && p[1] == '*') {
            char *e = strstr(p + 2, "*/");
            p = e ? e + 2 : p + strlen(p);
        } else p++;
    }
    return p;
}

static bool skipped(const server *s, const char *only) { return only[0] && (strcmp(only, "mariadb") == 0) != s->is_mariadb; }

static void run_file(server *s, const char *path) {
    WR_AUTO char *text = read_file(path);
    if (!text) return;
    char delimiter[16] = ";", only[16] = "";
    for (char *p = text; *p;) {
        while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t') p++;
        if (!*p) break;
        if (strncmp(p, "-- @", 4) == 0 || strncasecmp(p, "DELIMITER ", 10) == 0) {
            char line[300] = "", *e = strchr(p, '\n');
            size_t n = e ? (size_t)(e - p) : strlen(p);
            snprintf(line, sizeof line, "%.*s", (int)(n < 299 ? n : 299), p);
            if (strncmp(line, "-- @only ", 9) == 0) sscanf(line + 9, "%15s", only);
            if (strncmp(line, "-- @all", 7) == 0) only[0] = 0;
            if (strncmp(line, "-- @names ", 10) == 0) sscanf(line + 10, "%31s", s->names);
            if (strncasecmp(line, "DELIMITER ", 10) == 0) sscanf(line + 10, "%15s", delimiter);
            p += n;
            continue;
        }
        char *e = statement_end(p, delimiter), keep = *e;
        *e = 0;
        if (!skipped(s, only)) {
            char *dir_mark = strstr(p, "{{CASE_DIR}}");
            size_t had = strlen(s->failure);
            unsigned error = dir_mark ? 0 : server_run(s, p);
            if (error && getenv("WEIR_TEST_VERBOSE")) print_message("%u %s: %.200s\n", error, mysql_error(s->m), p);
            if (strlen(s->failure) > had) {
                disagree(s, "  in %s, at: %.300s", path, p);
                if (s->cat) server_begin(s); /* one disagreement, one message */
            }
        }
        p = keep ? e + strlen(delimiter) : e;
    }
}

/* "databases": ["a", "b"] of case.json */
static void databases(server *s, const char *json, bool drop) {
    const char *p = strstr(json, "\"databases\""), *end = p ? strchr(p, ']') : NULL;
    for (p = p ? strchr(p, '[') : NULL; p && p < end;) {
        const char *a = strchr(p + 1, '"');
        if (!a || a > end) break;
        const char *b = strchr(a + 1, '"');
        if (drop) server_quiet(s, "DROP DATABASE IF EXISTS `%.*s`", (int)(b - a - 1), a + 1);
        p = b;
    }
}

static void run_case(server *s, const char *dir) {
    char path[2000];
    snprintf(path, sizeof path, "%s/case.json", dir);
    WR_AUTO char *json = read_file(path);
    if (!json) return;
    const char *flavors = strstr(json, "\"flavors\""), *end = flavors ? strchr(flavors, ']') : NULL;
    const char *mine = flavors ? strstr(flavors, s->is_mariadb ? "mariadb" : "mysql") : NULL;
    if (!mine || mine > end) return;
    databases(s, json, true);
    strcpy(s->names, "utf8mb4");
    wr_my_disconnect(s->m);
    s->m = connect_to(s);
    wr_err e = WR_ERR_INIT;
    wr_my_exec(s->m, &e, "SET sql_mode = DEFAULT");
    wr_catalogue_free(s->cat);
    s->cat = NULL;
    /* the tables of setup.sql are tracked too: half of the statements of the kinds are there */
    server_begin(s);
    snprintf(path, sizeof path, "%s/setup.%s.sql", dir, s->is_mariadb ? "mariadb" : "mysql");
    if (access(path, R_OK) != 0) snprintf(path, sizeof path, "%s/setup.sql", dir);
    run_file(s, path);
    snprintf(path, sizeof path, "%s/changes.%s.sql", dir, s->is_mariadb ? "mariadb" : "mysql");
    if (access(path, R_OK) != 0) snprintf(path, sizeof path, "%s/changes.sql", dir);
    run_file(s, path);
    server_quiet(s, "SET GLOBAL binlog_format = ROW");
    databases(s, json, true);
}

static void run_cases(const char *where, const char *capture) {
    static const char *const kinds[] = {"ddl", "keys", "types", "sharding"};
    server s;
    if (!where) skip();
    if (!server_open(&s, where, capture)) fail_msg("no server at %s", where);
    s.may_ask = false; /* everything in the cases can be followed from the statements alone */
    int n = 0;
    for (size_t k = 0; k < 4; k++) {
        char dir[1300];
        snprintf(dir, sizeof dir, "%s/%s", cases_folder(), kinds[k]);
        struct dirent **names;
        int count = scandir(dir, &names, NULL, alphasort);
        for (int i = 0; i < count; i++) {
            char path[1590];
            snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
            if (names[i]->d_name[0] != '.') run_case(&s, path), n++;
            free(names[i]);
        }
        if (count >= 0) free(names);
    }
    print_message("%d cases: %d DDL statements, %d definitions compared, %d rows checked; verdicts: %d keep, %d fill, %d reload\n", n, s.ddl, s.compared,
                  s.rows_checked, s.keeps, s.fills, s.reloads);
    char failure[sizeof s.failure];
    memcpy(failure, s.failure, sizeof failure);
    server_close(&s);
    report(failure);
    assert_true(n > 0);
}

static void run_statements(const char *where) {
    server s;
    char path[1200];
    if (!where) skip();
    if (!server_open(&s, where, "w[_ ].*")) fail_msg("no server at %s", where);
    static const char *const dbs[] = {"w_ddl_a", "w_ddl_b", "x_ddl_out", "w_ddl_latin", "w_ddl_c"};
    for (size_t i = 0; i < 5; i++) server_quiet(&s, "DROP DATABASE IF EXISTS %s", dbs[i]);
    s.may_ask = true;
    server_begin(&s);
    snprintf(path, sizeof path, "%s/ddl_statements.sql", here());
    run_file(&s, path);
    print_message("%d DDL statements, %d definitions compared, %d rows checked; verdicts: %d keep, %d fill, %d reload; %d had to ask the server\n", s.ddl, s.compared, s.rows_checked, s.keeps,
                  s.fills, s.reloads, s.asked);
    char failure[sizeof s.failure];
    memcpy(failure, s.failure, sizeof failure);
    server_close(&s);
    report(failure);
}

static void odd_statements_are_tracked_as_mariadb_sees_them(void **state) { run_statements(getenv("WEIR_TEST_MARIADB")); }
static void odd_statements_are_tracked_as_mysql_sees_them(void **state) { run_statements(getenv("WEIR_TEST_MYSQL")); }

static void all_tables_are_tracked_as_mariadb_sees_them(void **state) { run_cases(getenv("WEIR_TEST_MARIADB"), "w[_ ].*"); }
static void all_tables_are_tracked_as_mysql_sees_them(void **state) { run_cases(getenv("WEIR_TEST_MYSQL"), "w[_ ].*"); }

#include "ddl_random.h"

static void random_ddl_is_tracked_as_mariadb_sees_it(void **state) { run_random(getenv("WEIR_TEST_MARIADB")); }
static void random_ddl_is_tracked_as_mysql_sees_it(void **state) { run_random(getenv("WEIR_TEST_MYSQL")); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_tables_are_tracked_as_mariadb_sees_them),
        cmocka_unit_test(all_tables_are_tracked_as_mysql_sees_them),
        cmocka_unit_test(odd_statements_are_tracked_as_mariadb_sees_them),
        cmocka_unit_test(odd_statements_are_tracked_as_mysql_sees_them),
        cmocka_unit_test(random_ddl_is_tracked_as_mariadb_sees_it),
        cmocka_unit_test(random_ddl_is_tracked_as_mysql_sees_it),
    };
    if (getenv("WEIR_TEST_ONLY")) cmocka_set_test_filter(getenv("WEIR_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
