/* Statements of the binlog applied to the catalogue. The rules for helpers of online schema changes and for renames are in README.md. */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unicode/utf8.h>

#include "catalogue_impl.h"
#include "ddl_edit.h"
#include "fk.h"
#include "value.h"
#include "weir/base/mem.h"

#define STATEMENT_SHOWN 400               /* bytes of a statement in messages */
#define ARENA_LIMIT (256u << 20)          /* names and literals of one statement */

typedef wr_code emit_fn(void *ctx, const wr_ddl *d, wr_err *err);

#define ASK_TRIES 5 /* for a definition that does not change while the position is read */

typedef struct apply {
    wr_catalogue *c;
    const wr_statement *st;
    wr_parser *p;
    MYSQL *m;
    emit_fn *emit;
    void *emit_ctx;
    const char *text;  /* beginning of the statement, UTF-8 */
} apply;

static void table_free_p(wr_my_table **t) { wr_my_table_free(*t); }
#define AUTO_TABLE WR_CLEANUP(table_free_p)

static bool set_text(char **dst, const char *src) {
    char *s = src ? wr_strdup(src) : NULL;
    if (src && !s) return false;
    wr_free(*dst);
    *dst = s;
    return true;
}

static bool same_name(const apply *ap, const char *a, const char *b) {
    return wr_capture_lower_case(ap->c->capture) ? wr_my_name_eq(a, b) : strcmp(a, b) == 0;
}

/* The name as the server keeps it. */
static bool set_names(const apply *ap, wr_my_table *t, const char *db, const char *name) {
    if (!wr_my_fks_follow_table(t, name)) return false;
    if (wr_capture_lower_case(ap->c->capture) != 1) return set_text(&t->db, db) && set_text(&t->name, name);
    WR_AUTO char *d = wr_catalogue_fold_(ap->c, db), *n = wr_catalogue_fold_(ap->c, name);
    return d && n && set_text(&t->db, d) && set_text(&t->name, n);
}

/* ------------------------------------------------------------------ events */
static wr_code send(apply *ap, const wr_my_table *t, wr_ddl_kind kind, wr_ddl_rows rows, const char *old_db, const char *old_name, wr_err *err) {
    wr_ddl d;
    WR_TRY(wr_my_table_ddl(t, kind, rows, ap->text, &d, err));
    if (old_name && (!set_text(&d.old_db, old_db) || !set_text(&d.old_name, old_name))) {
        wr_ddl_clear(&d);
        return wr_nomem(err, "schema event", 64);
    }
    wr_code rc = ap->emit(ap->emit_ctx, &d, err);
    wr_ddl_clear(&d);
    return rc;
}

/* Takes t over: into the catalogue, and out as an event. */
static wr_code put_and_send(apply *ap, wr_my_table *t, wr_ddl_kind kind, wr_ddl_rows rows, const bool *initial, const char *old_db, const char *old_name, wr_err *err) {
    wr_code rc = t->ncols ? wr_my_table_finish(t, ap->c->types, initial, err) : WR_OK;
    if (rc == WR_OK) rc = send(ap, t, kind, rows, old_db, old_name, err);
    if (rc == WR_OK && initial) rc = wr_my_table_finish(t, ap->c->types, NULL, err); /* initial values belong to this one event */
    if (rc != WR_OK) {
        wr_my_table_free(t);
        return rc;
    }
    return wr_catalogue_put_(ap->c, t, false, err);
}

static wr_code drop_and_send(apply *ap, const wr_my_table *t, wr_err *err) {
    uint32_t id = t->id;
    WR_TRY(send(ap, t, WR_DDL_DROP, WR_ROWS_KEEP, NULL, NULL, err));
    wr_catalogue_remove_(ap->c, id);
    return WR_OK;
}

static void number_columns(wr_my_table *t) {
    if (t->next_col_id < 1) t->next_col_id = 1;
    for (int i = 0; i < t->ncols; i++)
        if (t->cols[i].id == 0) t->cols[i].id = t->next_col_id++;
}

static void renumber_columns(wr_my_table *t) {
    for (int i = 0; i < t->ncols; i++) t->cols[i].id = i + 1;
    t->next_col_id = t->ncols + 1;
}

/* ------------------------------------------------------------------ asking the server */
static wr_code ask_once(apply *ap, const char *db, const char *name, wr_my_table **ret, wr_err *err) {
    *ret = NULL;
    wr_my_table **t = NULL;
    int n = 0;
    WR_TRY(wr_catalogue_read_server(ap->m, ap->c->capture, ap->c->types, ap->c->flavor, db, name, &t, &n, err));
    if (n > 0 && t[0]->ncols) *ret = t[0]; /* a sequence has none */
    for (int i = *ret ? 1 : 0; i < n; i++) wr_my_table_free(t[i]);
    wr_free(t);
    return WR_OK;
}

typedef struct place { char *file; uint64_t offset; } place;

static wr_code on_place(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    place *p = ctx;
    if (p->file || ncols < 2 || !row[0] || !row[1]) return WR_OK;
    p->offset = strtoull(row[1], NULL, 10);
    return (p->file = wr_strdup(row[0])) ? WR_OK : wr_nomem(err, "binlog position", 64);
}

/* NULL when the server does not tell. */
static wr_code binlog_end(apply *ap, char **ret_file, uint64_t *ret_offset, wr_err *err) {
    bool by_new_name = ap->c->flavor == WR_MYSQL && mysql_get_server_version(ap->m) >= 80200;
    place p = {0};
    wr_code rc = wr_my_query(ap->m, on_place, &p, err, "%s", by_new_name ? "SHOW BINARY LOG STATUS" : "SHOW MASTER STATUS");
    if (rc != WR_OK) wr_free(p.file), p = (place){0};
    if (rc == WR_E_AUTH) wr_err_clear(err), rc = WR_OK;
    if (rc != WR_OK) return rc;
    *ret_file = p.file, *ret_offset = p.offset;
    return WR_OK;
}

/* The definition the server has now, or NULL when it has no such table (any more). The stream may be behind it: TABLE_MAP is checked against
 * what comes of this, and rows are read again. With the end of the binlog at which the server had it, when that can be told. */
static wr_code ask(apply *ap, const char *db, const char *name, wr_my_table **ret, wr_err *err) {
    *ret = NULL;
    if (!ap->m) return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "the definition of %s.%s is not known, and there is no connection to ask for it", db, name);
    AUTO_TABLE wr_my_table *t = NULL;
    WR_TRY(ask_once(ap, db, name, &t, err));
    for (int i = 0; t && i < ASK_TRIES; i++) {
        WR_AUTO char *file = NULL;
        uint64_t offset = 0;
        WR_TRY(binlog_end(ap, &file, &offset, err));
        if (!file) break;
        AUTO_TABLE wr_my_table *again = NULL;
        WR_TRY(ask_once(ap, db, name, &again, err));
        char why[8];
        bool same = again && wr_my_table_same(t, again, why, sizeof why);
        wr_my_table_free(t);
        t = WR_STEAL(again);
        if (!same) continue;
        t->doubt_file = WR_STEAL(file);
        t->doubt_offset = offset;
        t->doubt_epoch = ap->st->epoch;
        break;
    }
    *ret = WR_STEAL(t);
    return WR_OK;
}

/* The definition came from the server when this statement had been executed there already. */
static bool ahead(const apply *ap, const wr_my_table *t) { return wr_my_table_ahead(t, ap->st->epoch, ap->st->file, ap->st->offset); }

void wr_catalogue_ids_by_name_(wr_my_table *t, const wr_my_table *like, wr_my_types types) {
    t->next_col_id = like->next_col_id > 1 ? like->next_col_id : 1;
    for (int i = 0; i < t->ncols; i++) {
        const wr_my_col *old = wr_my_table_find_col(like, t->cols[i].name);
        t->cols[i].id = old && wr_ddl_same_id(old, &t->cols[i], types) ? old->id : 0;
    }
    number_columns(t);
}

static wr_my_table *placeholder(apply *ap, const char *db, const char *name) {
    wr_my_table *t = wr_calloc(1, sizeof *t);
    if (!t) return NULL;
    t->version = 1;
    t->next_col_id = 1;
    if (set_names(ap, t, db, name)) return t;
    wr_my_table_free(t);
    return NULL;
}

/* A new table under a captured name, from the server. Gone there already: its rows are passed over. */
static wr_code create_from_server(apply *ap, const char *db, const char *name, wr_err *err) {
    wr_my_table *t;
    WR_TRY(ask(ap, db, name, &t, err));
    bool there = t != NULL;
    if (!there && !(t = placeholder(ap, db, name))) return wr_nomem(err, "table", sizeof *t);
    t->id = ap->c->next_id++;
    t->version = 1;
    t->captured = there;
    if (there) renumber_columns(t), t->doubt = WR_MY_DOUBT_RESHAPED;
    return put_and_send(ap, t, there ? WR_DDL_CREATE : WR_DDL_HIDDEN, there ? WR_ROWS_RELOAD : WR_ROWS_KEEP, NULL, NULL, NULL, err);
}

/* `why` has said why the statement cannot be followed: take the definition from the server and read the rows again. */
static wr_code alter_from_server(apply *ap, const wr_my_table *old, const wr_err *why, wr_err *err) {
    if (!ap->m) {
        *err = *why;
        wr_err_in(err, "table %s.%s: this statement cannot be followed: %s", old->db, old->name, ap->text);
        err->code = WR_E_UNSUPPORTED;
        return err->code;
    }
    wr_my_table *t;
    WR_TRY(ask(ap, old->db, old->name, &t, err));
    if (!t) { /* renamed or dropped since: its rows until then are nobody's */
        if (!(t = placeholder(ap, old->db, old->name))) return wr_nomem(err, "table", sizeof *t);
        t->id = ap->c->next_id++;
        WR_TRY(drop_and_send(ap, old, err));
        return put_and_send(ap, t, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, NULL, err);
    }
    t->id = old->id;
    t->version = old->version + 1;
    t->captured = old->captured;
    t->away_of = old->away_of;
    t->doubt = WR_MY_DOUBT_RESHAPED;
    wr_catalogue_ids_by_name_(t, old, ap->c->types);
    return put_and_send(ap, t, old->captured ? WR_DDL_ALTER : WR_DDL_HIDDEN, old->captured ? WR_ROWS_RELOAD : WR_ROWS_KEEP, NULL, NULL, NULL, err);
}

/* ------------------------------------------------------------------ temporary tables */
/* "session db\0name"; empty when the session is not known. */
static wr_slice temporary_key(const apply *ap, const wr_ddl_name *n, char buf[1200]) {
    WR_AUTO char *db = wr_catalogue_fold_(ap->c, n->db), *name = wr_catalogue_fold_(ap->c, n->name);
    if (!ap->st->session || !db || !name) return wr_slice_of(buf, 0);
    int len = snprintf(buf, 1200, "%llu %s", (unsigned long long)ap->st->session, db);
    size_t nn = strlen(name);
    if (len < 0 || (size_t)len + nn + 2 > 1200) return wr_slice_of(buf, 0);
    memcpy(buf + len + 1, name, nn);
    return wr_slice_of(buf, (size_t)len + 1 + nn);
}

static bool is_temporary(const apply *ap, const wr_ddl_name *n) {
    char buf[1200];
    if (wr_map_len(ap->c->temporary) == 0) return false;
    wr_slice key = temporary_key(ap, n, buf);
    return key.n && wr_map_get(ap->c->temporary, key);
}

static void forget_temporary(apply *ap, const wr_ddl_name *n) {
    char buf[1200];
    wr_slice key = temporary_key(ap, n, buf);
    if (key.n) wr_map_del(ap->c->temporary, key);
}

static wr_code note_temporary(apply *ap, const wr_ddl_name *n, wr_err *err) {
    char buf[1200];
    wr_slice key = temporary_key(ap, n, buf);
    if (key.n && !wr_map_put(ap->c->temporary, key, ap->c)) return wr_nomem(err, "temporary tables", key.n);
    return WR_OK;
}

void wr_catalogue_server_started(wr_catalogue *c) {
    wr_map *fresh = wr_map_new();
    if (!fresh) return; /* names that are gone hide nothing but statements of their own dead sessions */
    wr_map_free(c->temporary, NULL);
    c->temporary = fresh;
}

/* ------------------------------------------------------------------ which tables matter */
static wr_entry *entry_of(const apply *ap, const wr_ddl_name *n) { return *n->name ? wr_catalogue_entry_(ap->c, n->db, n->name) : NULL; }

static bool matters(const apply *ap, const wr_ddl_name *n) {
    if (!*n->db || !*n->name || is_temporary(ap, n)) return false;
    return entry_of(ap, n) || wr_capture_matches(ap->c->capture, n->db, n->name) || wr_catalogue_base_(ap->c, n->db, n->name);
}

static bool any_matters(const apply *ap, const wr_sql *s) {
    for (int i = 0; i < s->nnames; i++)
        if (matters(ap, &s->names[i])) return true;
    return false;
}

static wr_edit_context edit_context(apply *ap, const wr_my_table *database) {
    const wr_statement *st = ap->st;
    bool utf8 = !st->charset || strncasecmp(st->charset, "utf8", 4) == 0;
    int automatic = st->explicit_timestamp;
    if (automatic < 0) automatic = !st->is_mariadb || st->server_version >= 101000;
    return (wr_edit_context){
        .se = {.sv = {.is_mariadb = st->is_mariadb, .version = st->server_version, .sql_mode = st->sql_mode}, .time_zone = st->time_zone, .utf8_client = utf8},
        .types = ap->c->types, .explicit_timestamp = automatic,
        .db_charset = database ? database->charset : NULL, .db_collation = database ? database->collation : NULL};
}

/* The database's defaults; when nobody knows them, the server's own. */
static wr_code database_of(apply *ap, const char *db, wr_my_table *scratch, const wr_my_table **ret, char buf[64], wr_err *err) {
    wr_entry *e = wr_catalogue_entry_(ap->c, db, "");
    if (e) return *ret = e->t, WR_OK;
    WR_TRY(wr_catalogue_database_(ap->c, ap->m, db, ret, err));
    if (*ret) return send(ap, *ret, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, err);
    if (!ap->st->collation_server) return WR_OK;
    scratch->collation = (char *)(uintptr_t)ap->st->collation_server;
    scratch->charset = (char *)(uintptr_t)wr_my_charset_of(ap->st->collation_server, buf);
    *ret = scratch;
    return WR_OK;
}

/* ------------------------------------------------------------------ helpers of online schema changes */
static bool has_suffix(const char *name, const char *suffix) {
    size_t n = strlen(name), k = strlen(suffix);
    return n >= k && strcmp(name + n - k, suffix) == 0;
}

/* gh-ost's changelog and its sentry never become the table. */
static bool never_swapped(const char *name) { return has_suffix(name, "_ghc") || has_suffix(name, "_del"); }

/* t, just made and without column ids, appears as a helper of base. */
static void become_helper(apply *ap, wr_my_table *t, const wr_my_table *base) {
    char why[8];
    t->captured = false;
    t->doubt = has_suffix(t->name, "_gho") ? 0 : WR_MY_DOUBT_TOOL;
    bool same = wr_my_table_same(t, base, why, sizeof why);
    if (!same) {
        wr_catalogue_ids_by_name_(t, base, ap->c->types);
        t->doubt |= WR_MY_DOUBT_RESHAPED;
        return;
    }
    for (int i = 0; i < t->ncols; i++) t->cols[i].id = base->cols[i].id;
    t->next_col_id = t->like_next = base->next_col_id;
    t->like_of = base->id;
}

/* The table in the middle of a swap under whose helper's name it is now. */
static wr_entry *away_record(const apply *ap, uint32_t id) {
    for (int i = 0; i < ap->c->now.n; i++)
        if (ap->c->now.e[i]->t->away_of == id) return ap->c->now.e[i];
    return NULL;
}

/* t's definition is kept under its new, not captured name: it may come back, and then its rows must be read again unless it comes back as `away`. */
static wr_code remember(apply *ap, const wr_my_table *t, const char *db, const char *name, bool away, wr_err *err) {
    wr_my_table *r = wr_my_table_clone(t);
    if (!r || !set_names(ap, r, db, name)) {
        wr_my_table_free(r);
        return wr_nomem(err, "table definition", sizeof *r);
    }
    r->id = ap->c->next_id++;
    r->version = 1; /* and no other: it was not changed under its new name */
    r->captured = false;
    r->like_of = away ? t->id : 0;
    r->like_next = t->next_col_id;
    r->away_of = away ? t->id : 0;
    r->doubt = away ? 0 : WR_MY_DOUBT_RESHAPED;
    return put_and_send(ap, r, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, NULL, err);
}

/* The definition of helper s (NULL: the server's) becomes that of captured table t, which keeps id and name. */
static wr_code swap_in(apply *ap, const wr_my_table *t, const wr_my_table *s, wr_err *err) {
    AUTO_TABLE wr_my_table *n = NULL;
    if (s && s->ncols) n = wr_my_table_clone(s);
    else WR_TRY(ask(ap, t->db, t->name, &n, err));
    if (!n && s && s->ncols) return wr_nomem(err, "table definition", sizeof *n);
    if (!n) { /* not there any more */
        wr_my_table *p = placeholder(ap, t->db, t->name);
        if (!p) return wr_nomem(err, "table", sizeof *p);
        p->id = ap->c->next_id++;
        wr_code rc = drop_and_send(ap, t, err);
        if (rc != WR_OK) return wr_my_table_free(p), rc;
        return put_and_send(ap, p, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, NULL, err);
    }
    bool copied = s && s->ncols && s->like_of == t->id && s->like_next == t->next_col_id && s->doubt == 0;
    if (!copied) wr_catalogue_ids_by_name_(n, t, ap->c->types);
    if (n->next_col_id < t->next_col_id) n->next_col_id = t->next_col_id;
    wr_edit_flags f = {.swapped = true, .rows_lost = !copied};
    WR_AUTO bool *initial = wr_calloc((size_t)n->ncols, sizeof *initial);
    if (!initial || !wr_my_fks_follow_table(n, t->name) || !set_text(&n->db, t->db) || !set_text(&n->name, t->name)) return wr_nomem(err, "table definition", (size_t)n->ncols);
    for (int i = 0; i < n->ncols && copied; i++) { /* a generated column's expression is not kept, so it cannot be compared */
        const wr_my_col *old = wr_my_table_find_col(t, n->cols[i].name);
        if (n->cols[i].generated && (!old || old->id != n->cols[i].id)) f.rows_lost = true;
        if (old && old->id == n->cols[i].id && strcmp(old->column_type, n->cols[i].column_type) != 0) f.touched = true;
    }
    n->id = t->id;
    n->version = t->version + 1;
    n->captured = true;
    n->like_of = n->away_of = 0;
    n->like_next = 0;
    n->doubt = s && s->ncols ? 0 : WR_MY_DOUBT_RESHAPED;
    wr_ddl_rows rows = wr_ddl_judge(t, n, &f, ap->c->types, initial);
    return put_and_send(ap, WR_STEAL(n), WR_DDL_ALTER, rows, initial, NULL, NULL, err);
}

/* The captured table is not going to come back to its place: what was its record is an ordinary remembered table now. */
static wr_code settle_away(apply *ap, uint32_t id, wr_err *err) {
    wr_entry *r = away_record(ap, id);
    if (!r) return WR_OK;
    wr_my_table *t = wr_my_table_clone(r->t);
    if (!t) return wr_nomem(err, "table definition", sizeof *t);
    t->away_of = t->like_of = 0;
    t->doubt |= WR_MY_DOUBT_RESHAPED;
    t->version++;
    return put_and_send(ap, t, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, NULL, err);
}

/* ------------------------------------------------------------------ DROP */
/* The table of this entry is gone. */
static wr_code gone(apply *ap, wr_entry *e, wr_err *err) {
    if (e->away) {
        uint32_t id = e->t->id;
        WR_TRY(settle_away(ap, id, err));
        e = wr_catalogue_by_id_(ap->c, id);
    }
    wr_entry *away = e->t->away_of ? wr_catalogue_by_id_(ap->c, e->t->away_of) : NULL;
    if (away) { /* the captured table itself, under a helper's name */
        WR_TRY(drop_and_send(ap, away->t, err));
    }
    return drop_and_send(ap, e->t, err);
}

static wr_code apply_drop(apply *ap, const wr_sql *s, wr_err *err) {
    for (int i = 0; i < s->nnames; i++) {
        const wr_ddl_name *n = &s->names[i];
        if (s->temporary || is_temporary(ap, n)) {
            forget_temporary(ap, n);
            continue;
        }
        wr_entry *e = entry_of(ap, n);
        if (e && !e->away) WR_TRY(gone(ap, e, err));
    }
    return WR_OK;
}

static wr_code apply_drop_database(apply *ap, const wr_sql *s, wr_err *err) {
    for (int i = ap->c->now.n - 1; i >= 0; i--) {
        if (i >= ap->c->now.n) continue;
        const wr_my_table *t = ap->c->now.e[i]->t;
        if (same_name(ap, t->db, s->names[0].db)) WR_TRY(drop_and_send(ap, t, err));
    }
    return WR_OK;
}

static wr_code apply_truncate(apply *ap, const wr_ddl_name *n, wr_err *err) {
    wr_entry *e = entry_of(ap, n);
    if (!e || e->away) return WR_OK;
    if (e->t->captured) return send(ap, e->t, WR_DDL_TRUNCATE, WR_ROWS_KEEP, NULL, NULL, err);
    if (!e->t->ncols || (e->t->doubt & WR_MY_DOUBT_RESHAPED)) return WR_OK;
    wr_my_table *t = wr_my_table_clone(e->t);
    if (!t) return wr_nomem(err, "table definition", sizeof *t);
    t->version++;
    t->doubt |= WR_MY_DOUBT_RESHAPED;
    return put_and_send(ap, t, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, NULL, err);
}

/* ------------------------------------------------------------------ databases */
static wr_code put_database(apply *ap, const char *db, const char *charset, const char *collation, wr_err *err) {
    char buf[64];
    wr_edit_context cx = edit_context(ap, NULL);
    if (charset && strcasecmp(charset, "default") == 0) charset = NULL;
    if (collation && strcasecmp(collation, "default") == 0) collation = NULL;
    if (!charset && !collation) collation = ap->st->collation_server;
    if (!charset && !collation) { /* not known: asked for when it is needed */
        wr_entry *old = wr_catalogue_entry_(ap->c, db, "");
        return old ? drop_and_send(ap, old->t, err) : WR_OK;
    }
    wr_entry *e = wr_catalogue_entry_(ap->c, db, "");
    AUTO_TABLE wr_my_table *t = e ? wr_my_table_clone(e->t) : placeholder(ap, db, "");
    if (!t) return wr_nomem(err, "database", sizeof *t);
    if (e) t->version++;
    else t->id = ap->c->next_id++;
    if (!charset) charset = wr_my_charset_of(collation, buf);
    charset = wr_my_charset_alias(charset);
    if (!collation) collation = wr_my_default_collation(charset, &cx.se.sv);
    if (!set_text(&t->charset, charset) || !set_text(&t->collation, collation)) return wr_nomem(err, "database", 64);
    return put_and_send(ap, WR_STEAL(t), WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, NULL, err);
}

static bool server_schema(const char *db) { return strcasecmp(db, "mysql") == 0 || strcasecmp(db, "sys") == 0 || strcasecmp(db, "performance_schema") == 0 || strcasecmp(db, "information_schema") == 0; }

static wr_code apply_database(apply *ap, const wr_sql *s, wr_err *err) {
    const char *db = s->names[0].db;
    wr_ddl_body b;
    wr_ddl_parse_database(ap->p, &b);
    if (!*db || server_schema(db)) return WR_OK;
    if (s->kind == WR_SQL_CREATE_DATABASE) {
        if (s->if_not_exists && wr_catalogue_entry_(ap->c, db, "")) return WR_OK;
        if (s->or_replace) WR_TRY(apply_drop_database(ap, s, err));
        return put_database(ap, db, b.charset, b.collation, err);
    }
    if (!b.charset && !b.collation) return WR_OK;
    return put_database(ap, db, b.charset, b.collation, err);
}

/* ------------------------------------------------------------------ CREATE TABLE */
/* What the parser or the editor could not follow, as an error. */
static wr_code not_understood(apply *ap, wr_err *err) {
    return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "expected %s at byte %zu", ap->p->bad ? ap->p->bad : "less text", ap->p->bad_at);
}

/* The new table's definition without ids, from the statement. */
static wr_code created(apply *ap, const wr_ddl_name *n, const wr_ddl_body *b, wr_my_table **ret, wr_err *err) {
    char buf[64];
    wr_my_table scratch = {0};
    const wr_my_table *database = NULL;
    WR_TRY(database_of(ap, n->db, &scratch, &database, buf, err));
    AUTO_TABLE wr_my_table *empty = placeholder(ap, n->db, n->name);
    if (!empty || (database && (!set_text(&empty->charset, database->charset) || !set_text(&empty->collation, database->collation))))
        return wr_nomem(err, "table", sizeof *empty);
    wr_edit_context cx = edit_context(ap, database);
    wr_edit_flags f;
    return wr_ddl_edit(empty, b, &cx, ret, &f, err);
}

/* CREATE TABLE ... LIKE: the same columns, no foreign keys. */
static wr_code created_like(apply *ap, const wr_ddl_name *n, const wr_ddl_body *b, wr_my_table **ret, wr_err *err) {
    wr_entry *src = entry_of(ap, &b->like_table);
    wr_my_table *t = NULL;
    bool known = src && src->t->ncols && !ahead(ap, src->t);
    if (known) {
        if (!(t = wr_my_table_clone(src->t))) return wr_nomem(err, "table definition", sizeof *t);
        wr_free(t->lake_col);
        t->lake_col = NULL;
    } else {
        WR_TRY(ask(ap, n->db, n->name, &t, err));
        if (!t) return *ret = NULL, WR_OK;
    }
    t->like_of = t->away_of = 0;
    t->like_next = 0;
    t->doubt = known ? 0 : WR_MY_DOUBT_RESHAPED;
    wr_my_fks_clear(t);
    t->version = 1;
    if (!set_names(ap, t, n->db, n->name)) {
        wr_my_table_free(t);
        return wr_nomem(err, "table definition", sizeof *t);
    }
    *ret = t;
    return WR_OK;
}

/* The name is taken by something the server does not have there any more. */
static wr_code make_way(apply *ap, const wr_ddl_name *n, wr_err *err) {
    wr_entry *e = entry_of(ap, n);
    return e ? gone(ap, e, err) : WR_OK;
}

/* MariaDB writes what a sequence gives as rows of its table: to be passed over. */
static wr_code apply_sequence(apply *ap, const wr_sql *s, wr_err *err) {
    const wr_ddl_name *n = &s->names[0];
    if (s->temporary || (entry_of(ap, n) && s->if_not_exists && !s->or_replace)) return WR_OK;
    WR_TRY(make_way(ap, n, err));
    wr_my_table *t = placeholder(ap, n->db, n->name);
    if (!t) return wr_nomem(err, "table", sizeof *t);
    t->id = ap->c->next_id++;
    return put_and_send(ap, t, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, NULL, err);
}

/* A table that is not captured, under a name from which changes reached a captured one: it is a parent again when keys still refer to it. */
static wr_code create_parent(apply *ap, const wr_ddl_name *n, wr_err *err) {
    wr_ddl_body b;
    wr_ddl_parse_create(ap->p, ap->st->default_db ? ap->st->default_db : "", &b);
    wr_my_table *t = placeholder(ap, n->db, n->name);
    if (!t) return wr_nomem(err, "table definition", sizeof *t);
    t->id = ap->c->next_id++;
    wr_edit_context cx = edit_context(ap, NULL);
    wr_code rc = WR_OK;
    if (b.engine && !set_text(&t->engine, b.engine)) rc = wr_nomem(err, "table definition", 32);
    else if (!ap->p->bad) rc = wr_my_fks_edit(t, &b, &cx.se.sv, err);
    else if (ap->m) rc = wr_catalogue_read_fks(ap->m, ap->c->flavor, t, err);
    if (rc != WR_OK) return wr_my_table_free(t), rc;
    return put_and_send(ap, t, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, NULL, err);
}

/* A name that a captured table may have: not that of a helper of a captured table, moved ones included. */
static bool wanted(apply *ap, const wr_ddl_name *n) {
    wr_entry *e = wr_catalogue_entry_(ap->c, n->db, n->name);
    if (e && e->t->captured) return true;
    return wr_catalogue_wants_(ap->c, n->db, n->name);
}

/* IF NOT EXISTS where something without columns is known: a sequence, a view that was renamed, a table that had gone before its definition could be asked for. MariaDB logs the
 * statement only if it made the table, MySQL in any case. */
static wr_code create_over(apply *ap, const wr_ddl_name *n, wr_err *err) {
    wr_my_table *t = NULL;
    if (!ap->m) return WR_OK;
    WR_TRY(ask(ap, n->db, n->name, &t, err));
    if (!t) return WR_OK;
    wr_my_table_free(t);
    WR_TRY(make_way(ap, n, err));
    return create_from_server(ap, n->db, n->name, err);
}

static wr_code take_type(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    char **type = ctx;
    if (*type || ncols < 2 || !row[0]) return WR_OK;
    type[0] = wr_strdup(row[0]);
    type[1] = row[1] ? wr_strdup(row[1]) : NULL;
    return type[0] && (type[1] || !row[1]) ? WR_OK : wr_nomem(err, "a table's type", lengths[0]);
}

/* MySQL logs CREATE TABLE IF NOT EXISTS as well when there is a view of that name. It made a table if the engine committed it; what an engine that cannot do that has done is asked for. */
static wr_code made_nothing(apply *ap, const wr_ddl_name *n, const char *engine, bool *ret, wr_err *err) {
    *ret = ap->st->maybe_nothing && (!engine || strcasecmp(engine, "InnoDB") == 0);
    if (!ap->st->maybe_nothing || !ap->m || (engine && *ret)) return WR_OK;
    char *type[2] = {NULL, NULL};
    WR_AUTO_BUF wr_buf q = WR_BUF_INIT;
    wr_buf_printf(&q, "SELECT TABLE_TYPE, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = ");
    wr_my_quote_text(&q, n->db);
    wr_buf_printf(&q, " AND TABLE_NAME = ");
    wr_my_quote_text(&q, n->name);
    wr_code rc = wr_buf_check(&q, "a query", err);
    if (rc == WR_OK) rc = wr_my_query(ap->m, take_type, type, err, "%s", wr_buf_cstr(&q));
    if (rc == WR_OK && type[0]) *ret = strcmp(type[0], "BASE TABLE") != 0 || (!engine && type[1] && strcasecmp(type[1], "InnoDB") == 0);
    wr_free(type[0]);
    wr_free(type[1]);
    return rc;
}

static wr_code apply_create(apply *ap, const wr_sql *s, wr_err *err) {
    const wr_ddl_name *n = &s->names[0];
    if (s->temporary) return matters(ap, n) ? note_temporary(ap, n, err) : WR_OK;
    wr_entry *old = entry_of(ap, n);
    if (old && !old->away && s->if_not_exists && !s->or_replace)
        return old->t->captured || old->t->ncols || !wanted(ap, n) ? WR_OK : create_over(ap, n, err);
    wr_entry *base = wr_capture_names(ap->c->capture, n->db, n->name) ? NULL : wr_catalogue_base_(ap->c, n->db, n->name);
    if (!base && !wr_capture_matches(ap->c->capture, n->db, n->name)) {
        if (!old) return WR_OK;
        WR_TRY(make_way(ap, n, err));
        return create_parent(ap, n, err);
    }
    AUTO_TABLE wr_my_table *t = NULL;
    wr_ddl_rows rows = WR_ROWS_KEEP;
    if (base && never_swapped(n->name)) {
        if (!(t = placeholder(ap, n->db, n->name))) return wr_nomem(err, "table", sizeof *t);
    } else {
        wr_ddl_body b;
        wr_ddl_parse_create(ap->p, ap->st->default_db ? ap->st->default_db : "", &b);
        if (s->if_not_exists && !old) {
            wr_entry *like = b.like ? entry_of(ap, &b.like_table) : NULL;
            bool nothing;
            WR_TRY(made_nothing(ap, n, like ? like->t->engine : b.engine, &nothing, err));
            if (nothing) return WR_OK;
        }
        wr_err why = WR_ERR_INIT;
        wr_code rc = ap->p->bad ? not_understood(ap, &why) : WR_OK;
        if (rc == WR_OK && b.like) rc = created_like(ap, n, &b, &t, &why);
        else if (rc == WR_OK && b.as_select) rc = wr_fail(&why, WR_E_UNSUPPORTED, WR_RETRY_NO, "its columns come from a SELECT");
        else if (rc == WR_OK) rc = created(ap, n, &b, &t, &why);
        if (rc == WR_E_NOMEM) return *err = why, rc;
        if (rc == WR_OK && b.like && t && t->doubt) rows = WR_ROWS_RELOAD;
        if (rc != WR_OK && !ap->m) {
            *err = why;
            err->code = WR_E_UNSUPPORTED;
            return wr_err_in(err, "table %s.%s: this statement cannot be followed: %s", n->db, n->name, ap->text);
        }
        if (rc != WR_OK) {
            WR_TRY(ask(ap, n->db, n->name, &t, err));
            rows = WR_ROWS_RELOAD;
        }
    }
    uint32_t base_id = base ? base->t->id : 0;
    WR_TRY(make_way(ap, n, err));
    base = base_id ? wr_catalogue_by_id_(ap->c, base_id) : NULL;
    if (!t && !(t = placeholder(ap, n->db, n->name))) return wr_nomem(err, "table", sizeof *t);
    t->id = ap->c->next_id++;
    t->version = 1;
    t->captured = t->ncols > 0 && !base_id;
    if (base && t->ncols) become_helper(ap, t, base->t);
    else renumber_columns(t);
    if (rows == WR_ROWS_RELOAD || rows == WR_ROWS_RETYPED) t->doubt |= WR_MY_DOUBT_RESHAPED;
    bool captured = t->captured;
    if (captured) t->doubt &= WR_MY_DOUBT_RESHAPED;
    return put_and_send(ap, WR_STEAL(t), captured ? WR_DDL_CREATE : WR_DDL_HIDDEN, captured ? rows : WR_ROWS_KEEP, NULL, NULL, NULL, err);
}

/* ------------------------------------------------------------------ RENAME */
typedef enum fate { FATE_NONE = 0, FATE_SWAP, FATE_BACK, FATE_RENAME, FATE_AWAY, FATE_DROP, FATE_CREATE, FATE_HIDDEN, FATE_NOTE } fate;

/* A table on its way through the pairs of one RENAME. */
typedef struct mover {
    wr_ddl_name from, to;
    uint32_t id;          /* 0 = not in the catalogue */
    fate fate;
    uint32_t target;      /* SWAP, BACK: the captured table whose place it takes */
    wr_my_table *def;     /* owned: its definition before */
    wr_ddl_rows rows;     /* RENAME by ALTER: what the other actions ask for */
    bool altered;
    bool *initial;
} mover;

static mover *mover_at(apply *ap, mover *m, int n, const wr_ddl_name *name) {
    for (int i = 0; i < n; i++)
        if (same_name(ap, m[i].to.db, name->db) && same_name(ap, m[i].to.name, name->name)) return &m[i];
    return NULL;
}

static mover *mover_of(mover *m, int n, uint32_t id) {
    for (int i = 0; i < n; i++)
        if (m[i].id == id) return &m[i];
    return NULL;
}

static bool helper_of(const apply *ap, const char *db, const char *name, const wr_my_table *base) {
    return same_name(ap, db, base->db) && wr_is_shadow_of(name, base->name) && !wr_capture_names(ap->c->capture, db, name);
}

static void decide(apply *ap, mover *m, int n, mover *x) {
    wr_entry *e = x->id ? wr_catalogue_by_id_(ap->c, x->id) : NULL;
    wr_entry *at = wr_catalogue_entry_(ap->c, x->to.db, x->to.name);
    if (at && at->t->id == x->id) return; /* there and back */
    bool captured = e && e->t->captured;
    if (captured) {
        mover *heir = mover_at(ap, m, n, &x->from);
        bool heir_is_captured = heir && heir->id && wr_catalogue_by_id_(ap->c, heir->id)->t->captured;
        if (wanted(ap, &x->to) && !helper_of(ap, x->to.db, x->to.name, e->t)) x->fate = FATE_RENAME;
        else if (heir && !heir_is_captured) x->fate = FATE_HIDDEN; /* the heir takes its id and name */
        else if (!heir && helper_of(ap, x->to.db, x->to.name, e->t)) x->fate = FATE_AWAY;
        else x->fate = FATE_DROP;
        return;
    }
    if (e && e->t->away_of && at && at->t->id == e->t->away_of) {
        x->fate = FATE_BACK;
        x->target = at->t->id;
        return;
    }
    if (at && at->t->captured) {
        mover *before = mover_of(m, n, at->t->id);
        bool kept = before && wanted(ap, &before->to) && !helper_of(ap, before->to.db, before->to.name, at->t);
        x->fate = kept ? FATE_CREATE : FATE_SWAP;
        x->target = at->t->id;
        return;
    }
    if (wanted(ap, &x->to)) x->fate = FATE_CREATE;
    else if (e) x->fate = FATE_HIDDEN;
    else if (wr_catalogue_base_(ap->c, x->to.db, x->to.name)) x->fate = FATE_NOTE;
}

/* A table nobody knows takes a helper's name: that it is there is all that is kept. */
static wr_code note(apply *ap, const mover *x, wr_err *err) {
    wr_my_table *t = placeholder(ap, x->to.db, x->to.name);
    if (!t) return wr_nomem(err, "table", sizeof *t);
    t->id = ap->c->next_id++;
    return put_and_send(ap, t, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, NULL, err);
}

/* The definition is that of another table, which had the old name later: this one's is asked for. */
static wr_code ask_renamed(apply *ap, mover *x, wr_err *err) {
    AUTO_TABLE wr_my_table *t = NULL;
    WR_TRY(ask(ap, x->to.db, x->to.name, &t, err));
    if (!t) return WR_OK; /* on its way to yet another name, or to its end */
    t->id = x->def->id;
    t->version = x->def->version;
    t->captured = true;
    t->doubt = WR_MY_DOUBT_RESHAPED;
    wr_catalogue_ids_by_name_(t, x->def, ap->c->types);
    wr_my_table_free(x->def);
    x->def = WR_STEAL(t);
    x->rows = WR_ROWS_RELOAD;
    wr_free(x->initial);
    x->initial = NULL;
    return WR_OK;
}

static wr_code rename_captured(apply *ap, mover *x, wr_err *err) {
    if (ap->m && ahead(ap, x->def)) WR_TRY(ask_renamed(ap, x, err));
    wr_my_table *t = WR_STEAL(x->def);
    if (!set_names(ap, t, x->to.db, x->to.name)) {
        wr_my_table_free(t);
        return wr_nomem(err, "table definition", 64);
    }
    t->version++;
    return put_and_send(ap, t, WR_DDL_RENAME, x->rows, x->initial, x->from.db, x->from.name, err);
}

static wr_code hide(apply *ap, mover *x, wr_err *err) {
    if (x->def->captured) return remember(ap, x->def, x->to.db, x->to.name, false, err); /* swapped out */
    wr_my_table *t = WR_STEAL(x->def);
    uint32_t away_of = t->away_of;
    wr_entry *away = away_of ? wr_catalogue_by_id_(ap->c, away_of) : NULL;
    wr_code rc = WR_OK;
    if (!set_names(ap, t, x->to.db, x->to.name)) rc = wr_nomem(err, "table definition", 64);
    else if (away && !helper_of(ap, t->db, t->name, away->t)) { /* it did leave after all */
        rc = drop_and_send(ap, away->t, err);
        t->away_of = t->like_of = 0;
        t->doubt |= WR_MY_DOUBT_RESHAPED;
    }
    if (rc != WR_OK) return wr_my_table_free(t), rc;
    t->version++;
    return put_and_send(ap, t, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, NULL, err);
}

static wr_code take_place(apply *ap, mover *x, wr_err *err) {
    wr_entry *target = wr_catalogue_by_id_(ap->c, x->target);
    AUTO_TABLE wr_my_table *t = target ? wr_my_table_clone(target->t) : NULL;
    if (!t) return wr_nomem(err, "table definition", sizeof *t);
    if (x->def && target->written) x->def->doubt |= WR_MY_DOUBT_RESHAPED; /* its old rows went on changing after it had left its place */
    WR_TRY(settle_away(ap, x->target, err));
    if (x->id) {
        wr_entry *e = wr_catalogue_by_id_(ap->c, x->id);
        if (e) WR_TRY(drop_and_send(ap, e->t, err));
    }
    return swap_in(ap, t, x->def, err);
}

/* A table comes back from a helper's name to its own, maybe changed meanwhile. */
static wr_code come_back(apply *ap, mover *x, wr_err *err) {
    wr_entry *target = wr_catalogue_by_id_(ap->c, x->target), *e = wr_catalogue_by_id_(ap->c, x->id);
    AUTO_TABLE wr_my_table *t = wr_my_table_clone(target->t);
    if (!t) return wr_nomem(err, "table definition", sizeof *t);
    char why[8];
    bool same = wr_my_table_same(t, x->def, why, sizeof why) && x->def->doubt == 0;
    WR_TRY(drop_and_send(ap, e->t, err));
    if (!same) x->def->doubt |= WR_MY_DOUBT_RESHAPED; /* and its rows passed by since */
    if (!same) return swap_in(ap, t, x->def, err);
    return wr_catalogue_put_(ap->c, WR_STEAL(t), false, err); /* not away any more */
}

static wr_code leave(apply *ap, mover *x, wr_err *err) {
    if (x->fate == FATE_DROP) {
        bool unknown = ahead(ap, x->def);
        WR_TRY(drop_and_send(ap, wr_catalogue_by_id_(ap->c, x->id)->t, err));
        if (unknown) return note(ap, x, err);
        return remember(ap, x->def, x->to.db, x->to.name, false, err);
    }
    WR_TRY(remember(ap, x->def, x->to.db, x->to.name, true, err));
    wr_my_table *t = wr_my_table_clone(x->def);
    if (!t) return wr_nomem(err, "table definition", sizeof *t);
    return wr_catalogue_put_(ap->c, t, true, err);
}

/* Renamed into the captured names. */
static wr_code arrive(apply *ap, mover *x, wr_err *err) {
    wr_entry *e = x->id ? wr_catalogue_by_id_(ap->c, x->id) : NULL;
    wr_entry *away = x->def && x->def->away_of ? wr_catalogue_by_id_(ap->c, x->def->away_of) : NULL;
    if (away) { /* a captured table after all, under another name: its rows were always ours */
        AUTO_TABLE wr_my_table *t = wr_my_table_clone(away->t);
        char why[8];
        if (!t || !set_names(ap, t, x->to.db, x->to.name)) return wr_nomem(err, "table definition", sizeof *t);
        bool same = wr_my_table_same(t, x->def, why, sizeof why) && x->def->doubt == 0;
        wr_ddl_name from = {.db = away->t->db, .name = away->t->name};
        WR_AUTO char *old_db = wr_strdup(from.db), *old_name = wr_strdup(from.name);
        if (!old_db || !old_name) return wr_nomem(err, "table definition", 64);
        if (e) WR_TRY(drop_and_send(ap, e->t, err));
        t->version++;
        if (!same) {
            wr_my_table *n = wr_my_table_clone(x->def);
            if (!n || !set_names(ap, n, t->db, t->name)) return wr_my_table_free(n), wr_nomem(err, "table definition", sizeof *n);
            n->id = t->id;
            n->version = t->version;
            n->captured = true;
            n->like_of = n->away_of = 0;
            n->like_next = 0;
            n->doubt = 0;
            return put_and_send(ap, n, WR_DDL_RENAME, WR_ROWS_RELOAD, NULL, old_db, old_name, err);
        }
        return put_and_send(ap, WR_STEAL(t), WR_DDL_RENAME, WR_ROWS_KEEP, NULL, old_db, old_name, err);
    }
    AUTO_TABLE wr_my_table *t = x->def && x->def->ncols ? wr_my_table_clone(x->def) : NULL;
    if (e) WR_TRY(drop_and_send(ap, e->t, err));
    if (!t) return create_from_server(ap, x->to.db, x->to.name, err);
    if (!set_names(ap, t, x->to.db, x->to.name)) return wr_nomem(err, "table definition", sizeof *t);
    t->id = ap->c->next_id++;
    t->version = 1;
    t->captured = true;
    t->like_of = t->away_of = 0;
    t->like_next = 0;
    t->doubt = 0;
    renumber_columns(t);
    return put_and_send(ap, WR_STEAL(t), WR_DDL_CREATE, WR_ROWS_RELOAD, NULL, NULL, NULL, err);
}

/* A stale entry at a target that nobody moved away: the server says it is not there. */
static wr_code clear_target(apply *ap, mover *m, int n, mover *x, wr_err *err) {
    wr_entry *at = wr_catalogue_entry_(ap->c, x->to.db, x->to.name);
    if (!at || at->t->captured || mover_of(m, n, at->t->id)) return WR_OK;
    return drop_and_send(ap, at->t, err);
}

static wr_code move_all(apply *ap, mover *m, int n, wr_err *err) {
    for (int i = 0; i < n; i++) decide(ap, m, n, &m[i]);
    for (int i = 0; i < n; i++)
        if (m[i].fate) WR_TRY(clear_target(ap, m, n, &m[i], err));
    /* those who leave first, those who arrive last */
    for (int i = 0; i < n; i++)
        if (m[i].fate == FATE_DROP || m[i].fate == FATE_AWAY) WR_TRY(leave(ap, &m[i], err));
    for (int i = 0; i < n; i++)
        if (m[i].fate == FATE_RENAME) WR_TRY(rename_captured(ap, &m[i], err));
    for (int i = 0; i < n; i++) {
        if (m[i].fate == FATE_SWAP) WR_TRY(take_place(ap, &m[i], err));
        if (m[i].fate == FATE_BACK) WR_TRY(come_back(ap, &m[i], err));
    }
    for (int i = 0; i < n; i++) {
        if (m[i].fate == FATE_CREATE) WR_TRY(arrive(ap, &m[i], err));
        if (m[i].fate == FATE_HIDDEN) WR_TRY(hide(ap, &m[i], err));
        if (m[i].fate == FATE_NOTE) WR_TRY(note(ap, &m[i], err));
    }
    return WR_OK;
}

static void movers_free(mover *m, int n) {
    for (int i = 0; m && i < n; i++) {
        wr_my_table_free(m[i].def);
        wr_free(m[i].initial);
    }
    wr_free(m);
}

static wr_code load_mover(apply *ap, mover *x, wr_err *err) {
    wr_entry *e = wr_catalogue_entry_(ap->c, x->from.db, x->from.name);
    if (e && e->away) { /* the captured table cannot be there: take what stands there as unknown */
        e = NULL;
    }
    if (!e) return WR_OK;
    x->id = e->t->id;
    x->def = wr_my_table_clone(e->t);
    return x->def ? WR_OK : wr_nomem(err, "table definition", sizeof *x->def);
}

static wr_code apply_rename(apply *ap, const wr_sql *s, wr_err *err) {
    int n = 0;
    mover *m = wr_calloc((size_t)s->nnames / 2 + 1, sizeof *m);
    if (!m) return wr_nomem(err, "RENAME", (size_t)s->nnames * sizeof *m);
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i + 1 < s->nnames; i += 2) {
        const wr_ddl_name *from = &s->names[i], *to = &s->names[i + 1];
        if (is_temporary(ap, from)) {
            forget_temporary(ap, from);
            rc = note_temporary(ap, to, err);
            continue;
        }
        mover *x = mover_at(ap, m, n, from);
        if (!x) {
            /* IF EXISTS, and it certainly does not: a captured table would be known */
            if (s->if_exists && !entry_of(ap, from) && wanted(ap, from)) continue;
            x = &m[n++];
            x->from = *from;
            rc = load_mover(ap, x, err);
        }
        x->to = *to;
    }
    if (rc == WR_OK) rc = move_all(ap, m, n, err);
    movers_free(m, n);
    return rc;
}

/* ------------------------------------------------------------------ foreign keys */
/* The entry's definition with changed keys; away and written stay as they are. Takes t over. */
static wr_code put_keys(apply *ap, const wr_entry *e, wr_my_table *t, wr_err *err) {
    bool away = e->away, written = e->written;
    uint32_t id = t->id;
    if (!t->away_of) t->version++; /* else: the record of a swap says by its version that nothing happened to the table */
    wr_code rc = t->ncols ? wr_my_table_finish(t, ap->c->types, NULL, err) : WR_OK;
    if (rc == WR_OK) rc = send(ap, t, t->captured ? WR_DDL_ALTER : WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, err);
    if (rc != WR_OK) return wr_my_table_free(t), rc;
    WR_TRY(wr_catalogue_put_(ap->c, t, away, err));
    wr_catalogue_by_id_(ap->c, id)->written = written;
    return WR_OK;
}

/* Keys follow their parents: pairs of names, from and to. */
static wr_code keys_follow_rename(apply *ap, const wr_ddl_name *names, int n, wr_err *err) {
    for (int i = 0; i < ap->c->now.n; i++) {
        const wr_entry *e = ap->c->now.e[i];
        AUTO_TABLE wr_my_table *t = NULL;
        for (int k = 0; k < e->t->nfks; k++) {
            const char *db = e->t->fks[k].db, *name = e->t->fks[k].parent;
            bool moved = false;
            for (int j = 0; j + 1 < n; j += 2)
                if (same_name(ap, db, names[j].db) && same_name(ap, name, names[j].name)) db = names[j + 1].db, name = names[j + 1].name, moved = true;
            if (!moved) continue;
            if (!t && !(t = wr_my_table_clone(e->t))) return wr_nomem(err, "table definition", sizeof *t);
            if (!set_text(&t->fks[k].db, db) || !set_text(&t->fks[k].parent, name)) return wr_nomem(err, "foreign key", 64);
        }
        if (t) WR_TRY(put_keys(ap, e, WR_STEAL(t), err));
    }
    return WR_OK;
}

static wr_code keys_follow_columns(apply *ap, const wr_my_table *before, const wr_my_table *after, wr_err *err) {
    bool renamed = false;
    for (int i = 0; i < before->ncols; i++) {
        const wr_my_col *c = wr_my_table_find_col(after, before->cols[i].name);
        renamed = renamed || !c || c->id != before->cols[i].id;
    }
    for (int i = 0; renamed && i < ap->c->now.n; i++) {
        const wr_entry *e = ap->c->now.e[i];
        if (!e->t->nfks) continue;
        AUTO_TABLE wr_my_table *t = wr_my_table_clone(e->t);
        bool any = false;
        if (!t) return wr_nomem(err, "table definition", sizeof *t);
        WR_TRY(wr_my_fks_rename_cols(t, before, after, &any, err));
        if (any) WR_TRY(put_keys(ap, e, WR_STEAL(t), err));
    }
    return WR_OK;
}

/* Every table from which changes reach a captured one is known: those that are not captured as an entry without columns. */
static wr_code note_parents(apply *ap, wr_err *err) {
    for (int i = 0; i < ap->c->now.n; i++)
        for (int k = 0; k < ap->c->now.e[i]->t->nfks; k++) {
            const wr_my_fk *f = &ap->c->now.e[i]->t->fks[k];
            if (!wr_my_fk_changes_rows(f) || wr_catalogue_entry_(ap->c, f->db, f->parent) || wr_catalogue_wants_(ap->c, f->db, f->parent)) continue;
            wr_my_table *t = placeholder(ap, f->db, f->parent);
            if (!t) return wr_nomem(err, "table definition", sizeof *t);
            t->id = ap->c->next_id++;
            wr_code rc = ap->m ? wr_catalogue_read_fks(ap->m, ap->c->flavor, t, err) : WR_OK;
            if (rc != WR_OK) return wr_my_table_free(t), rc;
            WR_TRY(put_and_send(ap, t, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, NULL, err));
        }
    return WR_OK;
}

/* CREATE or ALTER of such a table. */
static wr_code edit_keys(apply *ap, const wr_entry *e, const wr_ddl_body *b, wr_err *err) {
    AUTO_TABLE wr_my_table *t = wr_my_table_clone(e->t);
    if (!t) return wr_nomem(err, "table definition", sizeof *t);
    wr_edit_context cx = edit_context(ap, NULL);
    if (!ap->p->bad) WR_TRY(wr_my_fks_edit(t, b, &cx.se.sv, err));
    else if (ap->m) WR_TRY(wr_catalogue_read_fks(ap->m, ap->c->flavor, t, err));
    return wr_my_fks_same(t, e->t) ? WR_OK : put_keys(ap, e, WR_STEAL(t), err);
}

/* ------------------------------------------------------------------ ALTER TABLE */
/* Whether anything that is recorded has changed. */
static wr_code changed(const wr_my_table *a, const wr_my_table *b, bool *ret, wr_err *err) {
    WR_AUTO_BUF wr_buf x = WR_BUF_INIT;
    WR_AUTO_BUF wr_buf y = WR_BUF_INIT;
    WR_TRY(wr_my_table_to_json(a, &x, err));
    WR_TRY(wr_my_table_to_json(b, &y, err));
    *ret = !wr_slice_eq(wr_buf_view(&x), wr_buf_view(&y));
    return WR_OK;
}

static const wr_ddl_action *action_of(const wr_ddl_body *b, wr_action_kind kind) {
    for (int i = 0; i < b->n; i++)
        if (b->a[i].kind == kind) return &b->a[i];
    return NULL;
}

/* ALTER TABLE on a table that is not in the catalogue, or the other table of one: EXCHANGE PARTITION, CONVERT ... TABLE. */
static wr_code other_table(apply *ap, const wr_ddl_action *a, const wr_my_table *t, wr_err *err) {
    wr_entry *e = entry_of(ap, &a->table);
    if (a->kind == WR_ACT_TABLE_TO_PARTITION) return e && !e->away ? gone(ap, e, err) : WR_OK;
    if (a->kind == WR_ACT_PARTITION_TO_TABLE) {
        if (!wanted(ap, &a->table)) return WR_OK;
        WR_TRY(make_way(ap, &a->table, err));
        return create_from_server(ap, a->table.db, a->table.name, err);
    }
    if (!e || e->away || !e->t->ncols) return WR_OK;
    wr_my_table *o = wr_my_table_clone(e->t);
    if (!o) return wr_nomem(err, "table definition", sizeof *o);
    o->version++;
    if (!o->captured) o->doubt |= WR_MY_DOUBT_RESHAPED;
    return put_and_send(ap, o, o->captured ? WR_DDL_ALTER : WR_DDL_HIDDEN, o->captured ? WR_ROWS_RELOAD : WR_ROWS_KEEP, NULL, NULL, NULL, err);
}

/* The altered definition goes in, with an event when there is something to say. */
static wr_code put_altered(apply *ap, const wr_my_table *old, wr_my_table *t, wr_ddl_rows rows, const bool *initial, wr_err *err) {
    bool differs = false;
    wr_code rc = changed(old, t, &differs, err);
    if (rc != WR_OK || (!differs && rows == WR_ROWS_KEEP)) return wr_my_table_free(t), rc;
    t->version++;
    if (t->captured) return put_and_send(ap, t, WR_DDL_ALTER, rows, initial, NULL, NULL, err);
    return put_and_send(ap, t, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, NULL, err);
}

static wr_code rename_after(apply *ap, const wr_ddl_name *from, const wr_ddl_name *to, const wr_my_table *t, wr_ddl_rows rows, const bool *initial, wr_err *err) {
    mover m = {.from = *from, .to = *to, .id = t->id, .rows = rows};
    decide(ap, &m, 1, &m);
    bool together = m.fate == FATE_RENAME; /* one event for both */
    if (!together) {
        wr_my_table *copy = wr_my_table_clone(t);
        wr_entry *old = wr_catalogue_by_id_(ap->c, t->id);
        if (!copy) return wr_nomem(err, "table definition", sizeof *copy);
        AUTO_TABLE wr_my_table *before = wr_my_table_clone(old->t);
        if (!before) return wr_my_table_free(copy), wr_nomem(err, "table definition", sizeof *before);
        WR_TRY(put_altered(ap, before, copy, rows, initial, err));
        m = (mover){.from = *from, .to = *to};
        WR_TRY(load_mover(ap, &m, err));
    } else {
        if (!(m.def = wr_my_table_clone(t))) return wr_nomem(err, "table definition", sizeof *m.def);
        m.initial = wr_malloc((size_t)t->ncols + 1);
        if (!m.initial) return wr_my_table_free(m.def), wr_nomem(err, "table definition", (size_t)t->ncols);
        memcpy(m.initial, initial, (size_t)t->ncols);
    }
    m.fate = FATE_NONE;
    wr_code rc = move_all(ap, &m, 1, err);
    wr_my_table_free(m.def);
    wr_free(m.initial);
    return rc;
}

static wr_code alter_known(apply *ap, const wr_sql *s, wr_entry *e, const wr_ddl_body *b, wr_err *err) {
    AUTO_TABLE wr_my_table *old = wr_my_table_clone(e->t);
    AUTO_TABLE wr_my_table *t = NULL;
    if (!old) return wr_nomem(err, "table definition", sizeof *old);
    char buf[64];
    wr_my_table scratch = {0};
    const wr_my_table *database = NULL;
    if (action_of(b, WR_ACT_CONVERT) || action_of(b, WR_ACT_CHARSET) || !old->charset) WR_TRY(database_of(ap, old->db, &scratch, &database, buf, err));
    wr_edit_context cx = edit_context(ap, database);
    wr_edit_flags f = {0};
    wr_err why = WR_ERR_INIT;
    const wr_ddl_action *rename = action_of(b, WR_ACT_RENAME_TABLE);
    if (ahead(ap, old)) { /* the statement is in the definition; rows until now may have been read with it */
        wr_my_table *copy = rename ? NULL : wr_my_table_clone(old);
        if (!rename) return copy ? put_altered(ap, old, copy, WR_ROWS_RELOAD, NULL, err) : wr_nomem(err, "table definition", sizeof *copy);
        mover m = {.from = s->names[0], .to = rename->table};
        WR_TRY(load_mover(ap, &m, err));
        wr_code rc = move_all(ap, &m, 1, err);
        wr_my_table_free(m.def);
        wr_free(m.initial);
        return rc;
    }
    wr_code rc = ap->p->bad ? not_understood(ap, &why) : wr_ddl_edit(old, b, &cx, &t, &f, &why);
    if (rc == WR_E_NOMEM) return *err = why, rc;
    if (rc != WR_OK || !t) { /* there is none when it has failed */
        WR_TRY(alter_from_server(ap, old, &why, err));
        if (!rename) return WR_OK;
        mover m = {.from = s->names[0], .to = rename->table};
        WR_TRY(load_mover(ap, &m, err));
        rc = move_all(ap, &m, 1, err);
        wr_my_table_free(m.def);
        return rc;
    }
    f.rows_lost = f.rows_lost || s->ignore;
    WR_AUTO bool *initial = wr_calloc((size_t)t->ncols, sizeof *initial);
    if (!initial) return wr_nomem(err, "table definition", (size_t)t->ncols);
    /* a definition that came from the server, who knows when, may have had this statement in it already: rows until now were read with it */
    bool dated = old->doubt_file && ap->st->file;
    f.rows_lost = f.rows_lost || (old->captured && (old->doubt & WR_MY_DOUBT_RESHAPED) && !dated);
    if (old->captured && dated) { /* that was before: all is known again */
        t->doubt = 0;
        wr_free(t->doubt_file);
        t->doubt_file = NULL;
    }
    wr_ddl_rows rows = old->captured ? wr_ddl_judge(old, t, &f, ap->c->types, initial) : WR_ROWS_KEEP;
    if (!old->captured && (f.reshaped || f.rows_lost || f.stored_again)) t->doubt |= WR_MY_DOUBT_RESHAPED;
    AUTO_TABLE wr_my_table *after = wr_my_table_clone(t);
    if (!after) return wr_nomem(err, "table definition", sizeof *after);
    if (rename) WR_TRY(rename_after(ap, &s->names[0], &rename->table, t, rows, initial, err));
    else WR_TRY(put_altered(ap, old, WR_STEAL(t), rows, initial, err));
    return keys_follow_columns(ap, old, after, err);
}

static wr_code apply_alter(apply *ap, const wr_sql *s, wr_err *err) {
    const wr_ddl_name *n = &s->names[0];
    const char *db = ap->st->default_db ? ap->st->default_db : "";
    wr_entry *e = entry_of(ap, n);
    wr_ddl_body b;
    wr_ddl_parse_alter(ap->p, db, &b);
    const wr_ddl_action *rename = action_of(&b, WR_ACT_RENAME_TABLE);
    if (e && e->away) e = NULL;
    if (e && !e->t->ncols) {
        WR_TRY(edit_keys(ap, e, &b, err));
        e = entry_of(ap, n);
    }
    if (e && e->t->ncols) WR_TRY(alter_known(ap, s, e, &b, err));
    else if (rename) {
        mover m = {.from = *n, .to = rename->table};
        WR_TRY(load_mover(ap, &m, err));
        wr_code rc = move_all(ap, &m, 1, err);
        wr_my_table_free(m.def);
        WR_TRY(rc);
    } else if (!e && wanted(ap, n) && !s->if_exists) {
        /* a captured name that the catalogue does not know: it has come to be in a way that was not seen */
        WR_TRY(create_from_server(ap, n->db, n->name, err));
    }
    for (int i = 0; i < b.n; i++)
        if (b.a[i].kind == WR_ACT_EXCHANGE || b.a[i].kind == WR_ACT_PARTITION_TO_TABLE || b.a[i].kind == WR_ACT_TABLE_TO_PARTITION)
            WR_TRY(other_table(ap, &b.a[i], e ? e->t : NULL, err));
    wr_ddl_name pair[2] = {*n};
    if (rename) pair[1] = rename->table;
    return rename ? keys_follow_rename(ap, pair, 2, err) : WR_OK;
}

/* An action on a table from outside ALTER TABLE: CREATE INDEX, DROP INDEX, REPAIR TABLE. */
static wr_code apply_one(apply *ap, const wr_sql *s, const wr_ddl_name *n, const wr_ddl_action *a, wr_err *err) {
    wr_entry *e = entry_of(ap, n);
    if (!e || e->away || !e->t->ncols) return WR_OK;
    wr_ddl_body b = {.a = (wr_ddl_action *)(uintptr_t)a, .n = 1};
    return alter_known(ap, s, e, &b, err);
}

static wr_code apply_index(apply *ap, const wr_sql *s, wr_err *err) {
    wr_ddl_action a = {.kind = s->kind == WR_SQL_DROP_INDEX ? WR_ACT_DROP_KEY : s->unique ? WR_ACT_ADD_UNIQUE : WR_ACT_ADD_INDEX, .name = s->object};
    wr_sql plain = {.kind = WR_SQL_ALTER_TABLE, .names = s->names, .nnames = 1};
    return apply_one(ap, &plain, &s->names[0], &a, err);
}

/* Repairing a table of an engine without transactions may throw rows away. */
static wr_code apply_repair(apply *ap, const wr_sql *s, wr_err *err) {
    for (int i = 0; i < s->nnames; i++) {
        wr_entry *e = entry_of(ap, &s->names[i]);
        if (!e || (e->t->engine && strcasecmp(e->t->engine, "InnoDB") == 0)) continue;
        wr_ddl_action a = {.kind = WR_ACT_IMPORT};
        wr_sql plain = {.kind = WR_SQL_ALTER_TABLE, .names = &s->names[i], .nnames = 1};
        WR_TRY(apply_one(ap, &plain, &s->names[i], &a, err));
    }
    return WR_OK;
}

/* pt-osc's triggers are the sign that it is pt-osc who copies the rows into _t_new. */
static wr_code apply_trigger(apply *ap, const wr_sql *s, wr_err *err) {
    wr_entry *base = entry_of(ap, &s->names[0]);
    if (!base || !base->t->captured || strncasecmp(s->object, "pt_osc_", 7) != 0) return WR_OK;
    uint32_t id = base->t->id;
    for (int i = 0; i < ap->c->now.n; i++) {
        const wr_my_table *h = ap->c->now.e[i]->t;
        if (h->like_of != id || h->away_of || !(h->doubt & WR_MY_DOUBT_TOOL)) continue;
        wr_my_table *t = wr_my_table_clone(h);
        if (!t) return wr_nomem(err, "table definition", sizeof *t);
        t->doubt &= (uint8_t)~WR_MY_DOUBT_TOOL;
        t->version++;
        WR_TRY(put_and_send(ap, t, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, NULL, NULL, err));
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ rows by statement */
static wr_code refuse(apply *ap, const char *db, const char *name, wr_err *err) {
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "rows of captured table %s.%s were changed by a statement, not by row events (binlog_format is not ROW): %s", db, name, ap->text);
    return wr_err_cure(err, "set binlog_format=ROW for that session (and globally); the table must be read again: its changes from here on cannot be known");
}

static wr_code apply_dml(apply *ap, const wr_sql *s, wr_err *err) {
    for (int i = 0; i < s->nnames; i++) {
        const wr_ddl_name *n = &s->names[i];
        if (is_temporary(ap, n) || !*n->db) continue;
        wr_entry *e = entry_of(ap, n);
        bool captured = e ? e->t->captured && !e->away : wr_catalogue_wants_(ap->c, n->db, n->name);
        if (!captured && !(e && e->t->away_of)) continue;
        /* what the server writes when it finds a MEMORY table empty after a restart */
        bool memory = e && e->t->engine && strcasecmp(e->t->engine, "MEMORY") == 0;
        if (memory && s->nnames == 1 && s->deletes_all) return apply_truncate(ap, n, err);
        if (e && wr_my_table_by_transaction(e->t)) {
            wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "captured table %s.%s is system-versioned by transaction number, so the server logged a change of it as a statement: %s", n->db, n->name, ap->text);
            return wr_err_cure(err, "version it by time (TIMESTAMP(6) periods) and load it again, or exclude it");
        }
        return refuse(ap, n->db, n->name, err);
    }
    return WR_OK;
}

static wr_code apply_routine(apply *ap, const wr_sql *s, wr_err *err) {
    for (int i = 0; i < ap->c->now.n && s->nnames; i++) {
        const wr_my_table *t = ap->c->now.e[i]->t;
        if (t->captured && same_name(ap, t->db, s->names[0].db)) {
            wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "a routine in captured database %s changed rows by a statement, not by row events (binlog_format is not ROW): %s", t->db, ap->text);
            return wr_err_cure(err, "set binlog_format=ROW for that session (and globally); tables the routine changes must be read again");
        }
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ statements */
static wr_code run_statement(apply *ap, const wr_sql *s, wr_statement_kind *ret_kind, wr_err *err) {
    switch (s->kind) {
    case WR_SQL_CREATE_TABLE: return apply_create(ap, s, err);
    case WR_SQL_CREATE_SEQUENCE: return apply_sequence(ap, s, err);
    case WR_SQL_ALTER_TABLE: return apply_alter(ap, s, err);
    case WR_SQL_DROP_TABLE: return apply_drop(ap, s, err);
    case WR_SQL_RENAME_TABLE: return apply_rename(ap, s, err);
    case WR_SQL_TRUNCATE: return apply_truncate(ap, &s->names[0], err);
    case WR_SQL_REPAIR: return apply_repair(ap, s, err);
    case WR_SQL_CREATE_DATABASE:
    case WR_SQL_ALTER_DATABASE: return apply_database(ap, s, err);
    case WR_SQL_DROP_DATABASE: return apply_drop_database(ap, s, err);
    case WR_SQL_CREATE_INDEX:
    case WR_SQL_DROP_INDEX: return apply_index(ap, s, err);
    case WR_SQL_CREATE_TRIGGER: return apply_trigger(ap, s, err);
    case WR_SQL_DML: return apply_dml(ap, s, err);
    case WR_SQL_ROUTINE: return apply_routine(ap, s, err);
    default: *ret_kind = WR_STMT_IGNORED; return WR_OK;
    }
}

static wr_code dispatch(apply *ap, const wr_sql *s, wr_statement_kind *ret_kind, wr_err *err) {
    *ret_kind = WR_STMT_DDL;
    WR_TRY(wr_catalogue_touch_(ap->c, err));
    WR_TRY(run_statement(ap, s, ret_kind, err));
    if (s->kind == WR_SQL_RENAME_TABLE) WR_TRY(keys_follow_rename(ap, s->names, s->nnames, err));
    return *ret_kind == WR_STMT_DDL && s->kind != WR_SQL_DML && s->kind != WR_SQL_ROUTINE ? note_parents(ap, err) : WR_OK;
}

static wr_statement_kind transaction_kind(wr_sql_kind k) {
    switch (k) {
    case WR_SQL_BEGIN: return WR_STMT_BEGIN;
    case WR_SQL_COMMIT: return WR_STMT_COMMIT;
    case WR_SQL_ROLLBACK: return WR_STMT_ROLLBACK;
    case WR_SQL_SAVEPOINT: return WR_STMT_SAVEPOINT;
    case WR_SQL_ROLLBACK_TO: return WR_STMT_ROLLBACK_TO;
    case WR_SQL_XA_START: return WR_STMT_XA_START;
    case WR_SQL_XA_END: return WR_STMT_XA_END;
    case WR_SQL_XA_PREPARE: return WR_STMT_XA_PREPARE;
    case WR_SQL_XA_COMMIT: return WR_STMT_XA_COMMIT;
    case WR_SQL_XA_ROLLBACK: return WR_STMT_XA_ROLLBACK;
    default: return WR_STMT_IGNORED;
    }
}

/* Whether the head alone says that no table of ours is concerned. */
static bool passes(apply *ap, const wr_sql *s) {
    switch (s->kind) {
    case WR_SQL_OTHER: return true;
    case WR_SQL_CREATE_DATABASE:
    case WR_SQL_ALTER_DATABASE:
    case WR_SQL_DROP_DATABASE:
    case WR_SQL_ROUTINE: return false;
    case WR_SQL_CREATE_TABLE:
    case WR_SQL_DROP_TABLE:
        if (s->temporary) return false;
        for (int i = 0; i < s->nnames; i++)
            if (is_temporary(ap, &s->names[i])) return false;
        return !any_matters(ap, s);
    default: return !any_matters(ap, s);
    }
}

/* Length of the UTF-8 sequence at p, 0 when there is none. */
static size_t utf8_at(const uint8_t *p, size_t n) {
    size_t i = 0;
    UChar32 u;
    U8_NEXT(p, i, n, u);
    return u < 0 ? 0 : i;
}

/* Each byte that is no text in its character set becomes U+FFFD. */
static wr_code to_utf8(const wr_statement *st, wr_buf *b, wr_slice *ret, bool *ret_lossy, wr_err *err) {
    const char *cs = st->charset ? st->charset : "utf8mb4";
    bool utf8 = strncasecmp(cs, "utf8", 4) == 0 || strcasecmp(cs, "ascii") == 0 || strcasecmp(cs, "binary") == 0;
    *ret_lossy = false;
    if (!utf8) {
        const wr_charset *charset;
        wr_err ignored = WR_ERR_INIT;
        if (wr_charset_get(cs, &charset, &ignored) == WR_OK && wr_charset_decode(charset, st->sql, b, &ignored) == WR_OK) {
            *ret = wr_buf_view(b);
            return wr_buf_check(b, "statement", err);
        }
        wr_buf_clear(b);
    }
    const uint8_t *p = st->sql.p;
    size_t n = st->sql.n, i = 0, len;
    while (i < n && (utf8 || p[i] < 0x80) && (len = utf8_at(p + i, n - i)) > 0) i += len;
    if (i == n) return *ret = st->sql, WR_OK; /* nearly always */
    *ret_lossy = true;
    for (i = 0; i < n;) {
        len = utf8 || p[i] < 0x80 ? utf8_at(p + i, n - i) : 0;
        if (len) wr_buf_put(b, p + i, len);
        else wr_buf_put(b, "\xef\xbf\xbd", 3);
        i += len ? len : 1;
    }
    *ret = wr_buf_view(b);
    return wr_buf_check(b, "statement", err);
}

/* The beginning of the statement in one line. */
static void shorten(wr_slice sql, char out[STATEMENT_SHOWN + 8]) {
    size_t n = sql.n < STATEMENT_SHOWN ? sql.n : STATEMENT_SHOWN;
    while (n && n < sql.n && (sql.p[n] & 0xc0) == 0x80) n--;
    for (size_t i = 0; i < n; i++) out[i] = sql.p[i] < ' ' || sql.p[i] == 0x7f ? ' ' : (char)sql.p[i];
    snprintf(out + n, 8, "%s", n < sql.n ? " ..." : "");
}

wr_code wr_catalogue_statement(wr_catalogue *c, const wr_statement *st, MYSQL *m, emit_fn *emit, void *ctx, wr_statement_kind *ret_kind, wr_err *err) {
    WR_AUTO_BUF wr_buf utf8 = WR_BUF_INIT;
    wr_slice sql;
    bool lossy;
    WR_TRY(to_utf8(st, &utf8, &sql, &lossy, err));
    wr_arena *arena = wr_arena_new(ARENA_LIMIT);
    if (!arena) return wr_nomem(err, "statement", 0);
    char text[STATEMENT_SHOWN + 8];
    shorten(sql, text);
    wr_parser p;
    wr_sql s;
    wr_parser_init(&p, sql, st->sql_mode, st->is_mariadb, st->server_version, arena);
    p.lossy = lossy;
    apply ap = {.c = c, .st = st, .p = &p, .m = m, .emit = emit, .emit_ctx = ctx, .text = text};
    const char *db = st->default_db ? st->default_db : "";
    wr_sql_head(&p, db, &s);
    wr_statement_kind kind = transaction_kind(s.kind);
    wr_code rc = WR_OK;
    if (kind == WR_STMT_IGNORED && s.kind == WR_SQL_ALTER_TABLE && !any_matters(&ap, &s)) {
        wr_parser tail = p;
        wr_ddl_scan_alter(&tail, db, &s);
    }
    if (kind == WR_STMT_IGNORED && !passes(&ap, &s)) {
        if (p.lx.full) rc = wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a statement that may change captured tables has more than %u MB of names and literals: %s", ARENA_LIMIT >> 20, text);
        else rc = dispatch(&ap, &s, &kind, err);
    }
    wr_arena_free(arena);
    if (rc == WR_OK) *ret_kind = kind;
    return rc;
}
