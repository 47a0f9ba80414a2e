/* Grammar: MySQL 9.x reference manual, "SQL Statements"; MariaDB knowledge base, "SQL Statements"; and the servers themselves. */
#include "ddl_parse.h"

#include <stdlib.h>
#include <strings.h>

/* ------------------------------------------------------------------ small things */
static void out_of_memory(wr_parser *p) {
    p->lx.full = true;
    wr_parser_fail(p, "less text");
}

static bool name_in(wr_parser *p, const char **ret) {
    if (p->t.kind != WR_TOK_WORD && p->t.kind != WR_TOK_NAME) {
        wr_parser_fail(p, "a name");
        *ret = "";
        return false;
    }
    *ret = p->t.text;
    wr_parser_next(p);
    return true;
}

/* [db.]name */
static bool table_in(wr_parser *p, const char *default_db, wr_ddl_name *ret) {
    *ret = (wr_ddl_name){.db = default_db, .name = ""};
    const char *first;
    if (wr_parser_punct(p, '.')) return name_in(p, &ret->name); /* ODBC's ".t" */
    if (!name_in(p, &first)) return false;
    ret->name = first;
    if (!wr_parser_punct(p, '.')) return true;
    ret->db = first;
    return name_in(p, &ret->name);
}

static void *grow(wr_parser *p, void *old, int n, int *cap, size_t size) {
    if (n < *cap) return old;
    int more = *cap ? *cap * 2 : 8;
    void *a = wr_arena_alloc(p->lx.arena, (size_t)more * size);
    if (!a) {
        out_of_memory(p);
        return NULL;
    }
    if (n) memcpy(a, old, (size_t)n * size);
    *cap = more;
    return a;
}

static void add_name(wr_parser *p, wr_sql *s, wr_ddl_name n) {
    wr_ddl_name *a = grow(p, s->names, s->nnames, &s->names_cap, sizeof *a);
    if (!a) return;
    s->names = a;
    a[s->nnames++] = n;
}

static bool table_into(wr_parser *p, const char *default_db, wr_sql *s) {
    wr_ddl_name n;
    if (!table_in(p, default_db, &n)) return false;
    add_name(p, s, n);
    return true;
}

static bool if_not_exists(wr_parser *p) {
    if (!wr_tok_word(&p->t, "IF")) return false;
    wr_tok next = wr_parser_peek(p);
    if (!wr_tok_word(&next, "NOT")) return false;
    wr_parser_next(p);
    wr_parser_next(p);
    wr_parser_need_word(p, "EXISTS");
    return true;
}

static bool if_exists(wr_parser *p) {
    if (!wr_tok_word(&p->t, "IF")) return false;
    wr_tok next = wr_parser_peek(p);
    if (!wr_tok_word(&next, "EXISTS")) return false;
    wr_parser_next(p);
    wr_parser_next(p);
    return true;
}

static void wait_option(wr_parser *p) {
    if (wr_parser_word(p, "NOWAIT")) return;
    if (wr_parser_word(p, "WAIT")) wr_parser_next(p);
}

static bool word_follows(const wr_parser *p, const char *upper) {
    wr_tok next = wr_parser_peek(p);
    return wr_tok_word(&next, upper);
}

/* ------------------------------------------------------------------ heads */
static void head_transaction(wr_parser *p, wr_sql *s) {
    if (wr_parser_word(p, "BEGIN")) s->kind = p->t.kind == WR_TOK_END || wr_tok_word(&p->t, "WORK") || wr_tok_is(&p->t, ';') ? WR_SQL_BEGIN : WR_SQL_OTHER;
    else if (wr_parser_word(p, "START")) s->kind = wr_tok_word(&p->t, "TRANSACTION") ? WR_SQL_BEGIN : WR_SQL_OTHER;
    else if (wr_parser_word(p, "COMMIT")) s->kind = WR_SQL_COMMIT;
    else if (wr_parser_word(p, "SAVEPOINT")) s->kind = WR_SQL_SAVEPOINT;
    else if (wr_parser_word(p, "ROLLBACK")) {
        wr_parser_word(p, "WORK");
        s->kind = wr_tok_word(&p->t, "TO") ? WR_SQL_ROLLBACK_TO : WR_SQL_ROLLBACK;
    } else if (wr_parser_word(p, "XA")) {
        static const struct { const char *word; wr_sql_kind kind; } verbs[] = {
            {"START", WR_SQL_XA_START}, {"BEGIN", WR_SQL_XA_START}, {"END", WR_SQL_XA_END}, {"PREPARE", WR_SQL_XA_PREPARE},
            {"COMMIT", WR_SQL_XA_COMMIT}, {"ROLLBACK", WR_SQL_XA_ROLLBACK}};
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
            if (wr_tok_word(&p->t, verbs[i].word)) s->kind = verbs[i].kind;
    }
}

static void head_create(wr_parser *p, const char *db, wr_sql *s) {
    wr_parser_next(p);
    if (wr_tok_word(&p->t, "OR") && word_follows(p, "REPLACE")) {
        wr_parser_next(p);
        wr_parser_next(p);
        s->or_replace = true;
    }
    s->temporary = wr_parser_word(p, "TEMPORARY");
    if (wr_parser_word(p, "TABLE")) {
        s->if_not_exists = if_not_exists(p);
        if (table_into(p, db, s)) s->kind = WR_SQL_CREATE_TABLE;
        return;
    }
    if (wr_parser_word(p, "SEQUENCE")) {
        s->if_not_exists = if_not_exists(p);
        if (table_into(p, db, s)) s->kind = WR_SQL_CREATE_SEQUENCE;
        return;
    }
    if (wr_parser_word(p, "DATABASE") || wr_parser_word(p, "SCHEMA")) {
        s->if_not_exists = if_not_exists(p);
        wr_ddl_name n = {.name = ""};
        if (!name_in(p, &n.db)) return;
        add_name(p, s, n);
        s->kind = WR_SQL_CREATE_DATABASE;
        return;
    }
    if (!wr_parser_word(p, "ONLINE")) wr_parser_word(p, "OFFLINE");
    if (wr_parser_word(p, "UNIQUE")) s->unique = true;
    else if (!wr_parser_word(p, "FULLTEXT") && !wr_parser_word(p, "SPATIAL")) wr_parser_word(p, "VECTOR");
    if (wr_parser_word(p, "INDEX")) {
        if_not_exists(p);
        name_in(p, &s->object);
        while (!p->bad && p->t.kind != WR_TOK_END && !wr_tok_word(&p->t, "ON")) wr_parser_next(p); /* USING BTREE, WAIT */
        wr_parser_need_word(p, "ON");
        if (!p->bad && table_into(p, db, s)) s->kind = WR_SQL_CREATE_INDEX;
        return;
    }
    /* DEFINER = `a`@`b` TRIGGER t BEFORE INSERT ON x */
    for (int i = 0; i < 16 && p->t.kind != WR_TOK_END && !wr_tok_word(&p->t, "TRIGGER"); i++) {
        if (wr_tok_word(&p->t, "VIEW") || wr_tok_word(&p->t, "PROCEDURE") || wr_tok_word(&p->t, "FUNCTION") || wr_tok_word(&p->t, "EVENT")) return;
        wr_parser_next(p);
    }
    if (!wr_parser_word(p, "TRIGGER")) return;
    if_not_exists(p);
    wr_ddl_name trigger;
    if (!table_in(p, db, &trigger)) return;
    s->object = trigger.name;
    for (int i = 0; i < 8 && p->t.kind != WR_TOK_END && !wr_tok_word(&p->t, "ON"); i++) wr_parser_next(p);
    if (wr_parser_word(p, "ON") && table_into(p, trigger.db, s)) s->kind = WR_SQL_CREATE_TRIGGER;
}

static void head_alter(wr_parser *p, const char *db, wr_sql *s) {
    wr_parser_next(p);
    if (wr_parser_word(p, "DATABASE") || wr_parser_word(p, "SCHEMA")) {
        static const char *const options[] = {"CHARACTER", "CHARSET", "COLLATE", "DEFAULT", "ENCRYPTION", "READ", "COMMENT", "UPGRADE"};
        wr_ddl_name n = {.db = db, .name = ""};
        if (wr_tok_words(&p->t, options, 8) < 0 && !name_in(p, &n.db)) return;
        add_name(p, s, n);
        s->kind = WR_SQL_ALTER_DATABASE;
        return;
    }
    for (;;) {
        if (wr_parser_word(p, "ONLINE") || wr_parser_word(p, "OFFLINE")) continue;
        if (!wr_parser_word(p, "IGNORE")) break;
        s->ignore = true;
    }
    if (!wr_parser_word(p, "TABLE")) return;
    s->if_exists = if_exists(p);
    if (!table_into(p, db, s)) return;
    wait_option(p);
    s->kind = WR_SQL_ALTER_TABLE;
}

static void head_drop(wr_parser *p, const char *db, wr_sql *s) {
    wr_parser_next(p);
    s->temporary = wr_parser_word(p, "TEMPORARY");
    if (wr_parser_word(p, "TABLE") || wr_parser_word(p, "TABLES") || wr_parser_word(p, "SEQUENCE")) {
        s->if_exists = if_exists(p);
        do {
            if (!table_into(p, db, s)) return;
        } while (wr_parser_punct(p, ','));
        s->kind = WR_SQL_DROP_TABLE;
    } else if (wr_parser_word(p, "DATABASE") || wr_parser_word(p, "SCHEMA")) {
        s->if_exists = if_exists(p);
        wr_ddl_name n = {.name = ""};
        if (!name_in(p, &n.db)) return;
        add_name(p, s, n);
        s->kind = WR_SQL_DROP_DATABASE;
    } else {
        if (!wr_parser_word(p, "ONLINE")) wr_parser_word(p, "OFFLINE");
        if (!wr_parser_word(p, "INDEX")) return;
        s->if_exists = if_exists(p);
        if (!name_in(p, &s->object)) return;
        wr_parser_need_word(p, "ON");
        if (!p->bad && table_into(p, db, s)) s->kind = WR_SQL_DROP_INDEX;
    }
}

static void head_rename(wr_parser *p, const char *db, wr_sql *s) {
    wr_parser_next(p);
    if (!wr_parser_word(p, "TABLE") && !wr_parser_word(p, "TABLES")) return;
    s->if_exists = if_exists(p);
    do {
        if (!table_into(p, db, s)) return;
        wait_option(p);
        wr_parser_need_word(p, "TO");
        if (p->bad || !table_into(p, db, s)) return;
    } while (wr_parser_punct(p, ','));
    s->kind = WR_SQL_RENAME_TABLE;
}

/* Every table a list of table references may name: what stands behind a comma, JOIN, "(" or at the front, up to one of the stop words. */
static void table_references(wr_parser *p, const char *db, wr_sql *s, const char *const *stop, int nstop) {
    bool expect = true;
    int depth = 0;
    while (p->t.kind != WR_TOK_END && (depth > 0 || wr_tok_words(&p->t, stop, nstop) < 0)) {
        if (wr_tok_is(&p->t, '(')) depth++, expect = true, wr_parser_next(p);
        else if (wr_tok_is(&p->t, ')')) depth--, expect = false, wr_parser_next(p);
        else if (wr_tok_is(&p->t, ',')) expect = true, wr_parser_next(p);
        else if (wr_tok_word(&p->t, "JOIN") || wr_tok_word(&p->t, "STRAIGHT_JOIN") || wr_tok_word(&p->t, "FROM")) expect = true, wr_parser_next(p);
        else if (expect && (p->t.kind == WR_TOK_WORD || p->t.kind == WR_TOK_NAME)) {
            expect = false;
            if (p->t.kind == WR_TOK_WORD && (wr_tok_word(&p->t, "SELECT") || wr_tok_word(&p->t, "LATERAL"))) wr_parser_next(p);
            else if (!table_into(p, db, s)) return;
            if (wr_parser_punct(p, '.')) wr_parser_next(p); /* t1.* of DELETE t1.*, or db.t.* */
        } else expect = false, wr_parser_next(p);
    }
}

static void head_dml(wr_parser *p, const char *db, wr_sql *s) {
    static const char *const set[] = {"SET"};
    static const char *const where[] = {"WHERE", "ORDER", "LIMIT", "RETURNING"};
    static const char *const modifiers[] = {"LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE"};
    bool update = wr_tok_word(&p->t, "UPDATE"), del = wr_tok_word(&p->t, "DELETE");
    wr_parser_next(p);
    while (wr_tok_words(&p->t, modifiers, 5) >= 0) wr_parser_next(p);
    if (update) {
        table_references(p, db, s, set, 1);
        s->kind = WR_SQL_DML;
        return;
    }
    if (!del) { /* INSERT, REPLACE */
        wr_parser_word(p, "INTO");
        if (table_into(p, db, s)) s->kind = WR_SQL_DML;
        return;
    }
    if (wr_tok_word(&p->t, "HISTORY") && word_follows(p, "FROM")) return; /* removes old versions, which the lake does not have */
    table_references(p, db, s, where, 4);
    s->deletes_all = s->nnames == 1 && (p->t.kind == WR_TOK_END || wr_tok_is(&p->t, ';'));
    s->kind = WR_SQL_DML;
}

static void head_load(wr_parser *p, const char *db, wr_sql *s) {
    wr_parser_next(p);
    if (!wr_tok_word(&p->t, "DATA") && !wr_tok_word(&p->t, "XML") && !wr_tok_word(&p->t, "FROM")) return;
    while (p->t.kind != WR_TOK_END && !(wr_tok_word(&p->t, "INTO") && word_follows(p, "TABLE"))) wr_parser_next(p);
    wr_parser_next(p);
    if (wr_parser_word(p, "TABLE") && table_into(p, db, s)) s->kind = WR_SQL_DML;
}

static void head_with(wr_parser *p, const char *db, wr_sql *s) {
    static const char *const verbs[] = {"UPDATE", "DELETE", "INSERT", "REPLACE", "SELECT", "TABLE", "VALUES"};
    int depth = 0, verb = -1;
    while (p->t.kind != WR_TOK_END && (depth > 0 || (verb = wr_tok_words(&p->t, verbs, 7)) < 0)) {
        if (wr_tok_is(&p->t, '(')) depth++;
        if (wr_tok_is(&p->t, ')')) depth--;
        wr_parser_next(p);
    }
    if (verb >= 0 && verb < 4) head_dml(p, db, s);
}

/* "SELECT `db`.`f`(1)": a stored function that changed something, in STATEMENT format. */
static void head_routine(wr_parser *p, const char *db, wr_sql *s) {
    wr_parser_next(p);
    wr_ddl_name n = {.db = db, .name = ""};
    if ((p->t.kind == WR_TOK_WORD || p->t.kind == WR_TOK_NAME) && !table_in(p, db, &n)) return;
    add_name(p, s, n);
    s->kind = WR_SQL_ROUTINE;
}

void wr_sql_head(wr_parser *p, const char *db, wr_sql *s) {
    *s = (wr_sql){.kind = WR_SQL_OTHER};
    while (wr_parser_punct(p, ';') || wr_parser_punct(p, '(')) {}
    /* SET STATEMENT max_statement_time=1 FOR ALTER TABLE ... */
    if (wr_tok_word(&p->t, "SET") && word_follows(p, "STATEMENT")) {
        while (p->t.kind != WR_TOK_END && !wr_tok_word(&p->t, "FOR")) {
            if (wr_tok_is(&p->t, '(')) wr_parser_skip_parens(p);
            else wr_parser_next(p);
        }
        wr_parser_next(p);
    }
    static const char *const transaction[] = {"BEGIN", "START", "COMMIT", "SAVEPOINT", "ROLLBACK", "XA"};
    static const char *const dml[] = {"INSERT", "REPLACE", "UPDATE", "DELETE"};
    static const char *const routine[] = {"CALL", "SELECT", "DO"};
    if (wr_tok_words(&p->t, transaction, 6) >= 0) head_transaction(p, s);
    else if (wr_tok_word(&p->t, "CREATE")) head_create(p, db, s);
    else if (wr_tok_word(&p->t, "ALTER")) head_alter(p, db, s);
    else if (wr_tok_word(&p->t, "DROP")) head_drop(p, db, s);
    else if (wr_tok_word(&p->t, "RENAME")) head_rename(p, db, s);
    else if (wr_tok_word(&p->t, "TRUNCATE")) {
        wr_parser_next(p);
        wr_parser_word(p, "TABLE");
        if (table_into(p, db, s)) s->kind = WR_SQL_TRUNCATE;
    } else if (wr_tok_word(&p->t, "REPAIR")) {
        wr_parser_next(p);
        if (!wr_parser_word(p, "NO_WRITE_TO_BINLOG")) wr_parser_word(p, "LOCAL");
        if (!wr_parser_word(p, "TABLE") && !wr_parser_word(p, "TABLES")) return;
        do {
            if (!table_into(p, db, s)) return;
        } while (wr_parser_punct(p, ','));
        s->kind = WR_SQL_REPAIR;
    } else if (wr_tok_words(&p->t, dml, 4) >= 0) head_dml(p, db, s);
    else if (wr_tok_word(&p->t, "LOAD")) head_load(p, db, s);
    else if (wr_tok_word(&p->t, "WITH")) head_with(p, db, s);
    else if (wr_tok_words(&p->t, routine, 3) >= 0) head_routine(p, db, s);
}

void wr_ddl_scan_alter(wr_parser *p, const char *db, wr_sql *s) {
    int depth = 0;
    while (p->t.kind != WR_TOK_END && !p->bad) {
        if (wr_tok_is(&p->t, '(')) depth++;
        if (wr_tok_is(&p->t, ')')) depth--;
        if (depth > 0 || p->t.kind != WR_TOK_WORD) {
            wr_parser_next(p);
            continue;
        }
        if (wr_parser_word(p, "RENAME")) {
            static const char *const others[] = {"COLUMN", "INDEX", "KEY"};
            if (wr_tok_words(&p->t, others, 3) >= 0) continue;
            if (!wr_parser_word(p, "TO") && !wr_parser_word(p, "AS")) wr_parser_punct(p, '=');
            table_into(p, db, s);
        } else if (wr_tok_word(&p->t, "TABLE")) { /* EXCHANGE ... WITH TABLE, CONVERT ... TABLE */
            wr_parser_next(p);
            table_into(p, db, s);
        } else wr_parser_next(p);
    }
}

/* ------------------------------------------------------------------ columns */
/* A literal, with adjacent strings joined. False (nothing read) when what stands here is none. */
static bool literal_in(wr_parser *p, wr_ddl_lit *lit) {
    *lit = (wr_ddl_lit){.text = "", .odd = p->lossy};
    if (wr_parser_word(p, "NULL")) return lit->kind = WR_LIT_NULL, true;
    if (wr_tok_word(&p->t, "TRUE") || wr_tok_word(&p->t, "FALSE")) {
        lit->kind = WR_LIT_NUMBER;
        lit->text = wr_tok_word(&p->t, "TRUE") ? "1" : "0";
        lit->n = 1;
        wr_parser_next(p);
        return true;
    }
    static const char *const typed[] = {"DATE", "TIME", "TIMESTAMP"};
    if (p->t.kind == WR_TOK_WORD && (wr_tok_words(&p->t, typed, 3) >= 0 || p->t.text[0] == '_')) {
        wr_tok next = wr_parser_peek(p);
        if (next.kind != WR_TOK_STRING && !(p->t.text[0] == '_' && (next.kind == WR_TOK_HEX || next.kind == WR_TOK_BIN))) return false;
        lit->odd = lit->odd || (p->t.text[0] == '_' && strcasecmp(p->t.text, "_utf8mb4") != 0 && strcasecmp(p->t.text, "_utf8") != 0 && strcasecmp(p->t.text, "_utf8mb3") != 0);
        if (next.kind != WR_TOK_STRING) lit->odd = true;
        wr_parser_next(p);
    }
    bool minus = wr_tok_is(&p->t, '-');
    if (minus || wr_tok_is(&p->t, '+')) {
        wr_tok next = wr_parser_peek(p);
        if (next.kind != WR_TOK_NUMBER) return false;
        wr_parser_next(p);
    }
    switch (p->t.kind) {
    case WR_TOK_NUMBER: lit->kind = WR_LIT_NUMBER; break;
    case WR_TOK_STRING: lit->kind = WR_LIT_STRING; break;
    case WR_TOK_HEX: lit->kind = p->t.ch == '0' ? WR_LIT_HEX : WR_LIT_XHEX; break;
    case WR_TOK_BIN: lit->kind = WR_LIT_BIN; break;
    default: return false;
    }
    lit->text = p->t.text;
    lit->n = p->t.n;
    wr_parser_next(p);
    while (lit->kind == WR_LIT_STRING && p->t.kind == WR_TOK_STRING) {
        char *s = wr_arena_alloc(p->lx.arena, lit->n + p->t.n + 1);
        if (!s) {
            out_of_memory(p);
            return true;
        }
        memcpy(s, lit->text, lit->n);
        memcpy(s + lit->n, p->t.text, p->t.n + 1);
        lit->text = s;
        lit->n += p->t.n;
        wr_parser_next(p);
    }
    if (minus) {
        char *s = wr_arena_alloc(p->lx.arena, lit->n + 2);
        if (!s) {
            out_of_memory(p);
            return true;
        }
        s[0] = '-';
        memcpy(s + 1, lit->text, lit->n + 1);
        lit->text = s;
        lit->n++;
    }
    return true;
}

/* One expression without operators at its end: name, name(...), name.name, NEXT VALUE FOR s, CASE ... END, (...). */
static void skip_expression(wr_parser *p) {
    if (wr_tok_is(&p->t, '(')) {
        wr_parser_skip_parens(p);
        return;
    }
    if (wr_parser_word(p, "CASE")) {
        while (p->t.kind != WR_TOK_END && !wr_parser_word(p, "END")) wr_parser_next(p);
        return;
    }
    if ((wr_tok_word(&p->t, "NEXT") || wr_tok_word(&p->t, "PREVIOUS")) && word_follows(p, "VALUE")) {
        wr_ddl_name n;
        wr_parser_next(p);
        wr_parser_next(p);
        wr_parser_need_word(p, "FOR");
        table_in(p, "", &n);
        return;
    }
    if (p->t.kind != WR_TOK_WORD && p->t.kind != WR_TOK_NAME) {
        wr_parser_fail(p, "a default");
        return;
    }
    wr_ddl_name n;
    table_in(p, "", &n);
    if (wr_tok_is(&p->t, '(')) wr_parser_skip_parens(p);
}

/* Behind DEFAULT. */
static void default_in(wr_parser *p, wr_ddl_column *c) {
    c->has_default = true;
    c->default_expr = false;
    if (literal_in(p, &c->lit)) return;
    c->default_expr = true;
    if (!wr_tok_is(&p->t, '(')) {
        skip_expression(p);
        return;
    }
    /* ('text') is the literal in brackets */
    wr_parser ahead = *p;
    wr_parser_next(&ahead);
    if (literal_in(&ahead, &c->lit) && wr_tok_is(&ahead.t, ')')) {
        wr_parser_next(&ahead);
        *p = ahead;
        c->default_expr = false;
        return;
    }
    wr_parser_skip_parens(p);
}

/* "(a, b)" of a foreign key. */
static void fk_parts(wr_parser *p, wr_ddl_fk *f) {
    int cap = 0;
    wr_parser_next(p);
    do {
        const char **parts = grow(p, f->parts, f->nparts, &cap, sizeof *parts);
        if (!parts || !name_in(p, &parts[f->nparts])) return;
        f->parts = parts;
        f->nparts++;
    } while (wr_parser_punct(p, ','));
    wr_parser_need_punct(p, ')');
}

/* REFERENCES t (a) MATCH x ON DELETE CASCADE ON UPDATE SET NULL, behind REFERENCES; NULL = no memory. */
static const wr_ddl_fk *references_in(wr_parser *p, const char *name) {
    wr_ddl_fk *f = wr_arena_zalloc(p->lx.arena, sizeof *f);
    if (!f) return out_of_memory(p), NULL;
    f->name = name;
    table_in(p, "", &f->parent);
    if (wr_tok_is(&p->t, '(')) fk_parts(p, f);
    for (;;) {
        if (wr_parser_word(p, "MATCH")) {
            wr_parser_next(p);
            continue;
        }
        if (!wr_tok_word(&p->t, "ON")) return f;
        wr_tok next = wr_parser_peek(p);
        if (!wr_tok_word(&next, "DELETE") && !wr_tok_word(&next, "UPDATE")) return f;
        uint8_t *rule = wr_tok_word(&next, "DELETE") ? &f->on_delete : &f->on_update;
        wr_parser_next(p);
        wr_parser_next(p);
        if (wr_parser_word(p, "CASCADE")) *rule = MY_RULE_CASCADE;
        else if (wr_parser_word(p, "SET")) wr_parser_next(p), *rule = MY_RULE_SET;
        else if (wr_parser_word(p, "NO")) wr_parser_next(p);
        else if (!wr_parser_word(p, "RESTRICT")) return f;
    }
}

/* GENERATED ALWAYS AS ... behind AS: "(expression)" or ROW START, ROW END. */
static void generated_in(wr_parser *p, wr_ddl_column *c) {
    if (wr_parser_word(p, "ROW")) {
        if (wr_parser_word(p, "START")) c->row_start = true;
        else if (wr_parser_word(p, "END")) c->row_end = true;
        else wr_parser_fail(p, "START or END");
        return;
    }
    c->generated = true;
    if (!wr_tok_is(&p->t, '(')) wr_parser_fail(p, "(");
    else wr_parser_skip_parens(p);
}

/* One attribute behind the type. False when what stands here is none. */
static bool attribute_in(wr_parser *p, wr_ddl_column *c) {
    static const char *const with_value[] = {"COMMENT", "COLUMN_FORMAT", "STORAGE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "SRID", "REF_SYSTEM_ID"};
    if (wr_tok_word(&p->t, "NOT")) {
        wr_parser_next(p);
        if (wr_parser_word(p, "NULL")) c->null_attr = 2;
        else if (!wr_parser_word(p, "ENFORCED") && !wr_parser_word(p, "SECONDARY")) wr_parser_fail(p, "NULL");
        return true;
    }
    if (wr_parser_word(p, "NULL")) return c->null_attr = 1, true;
    if (wr_parser_word(p, "DEFAULT")) return default_in(p, c), true;
    if (wr_parser_word(p, "ON")) {
        wr_parser_need_word(p, "UPDATE");
        c->on_update = true;
        skip_expression(p);
        return true;
    }
    if (wr_parser_word(p, "AUTO_INCREMENT")) return c->auto_increment = true;
    if (wr_parser_word(p, "SERIAL")) {
        wr_parser_need_word(p, "DEFAULT");
        wr_parser_need_word(p, "VALUE");
        c->auto_increment = c->unique = true;
        c->null_attr = 2;
        return true;
    }
    if (wr_parser_word(p, "PRIMARY")) {
        wr_parser_word(p, "KEY");
        return c->primary = true;
    }
    if (wr_parser_word(p, "KEY")) return c->primary = true;
    if (wr_parser_word(p, "UNIQUE")) {
        wr_parser_word(p, "KEY");
        return c->unique = true;
    }
    if (wr_parser_word(p, "GENERATED")) {
        wr_parser_need_word(p, "ALWAYS");
        wr_parser_need_word(p, "AS");
        generated_in(p, c);
        return true;
    }
    if (wr_parser_word(p, "AS")) return generated_in(p, c), true;
    if (wr_parser_word(p, "VIRTUAL")) return true;
    if (wr_parser_word(p, "STORED") || wr_parser_word(p, "PERSISTENT")) return c->stored = true;
    if (wr_parser_word(p, "INVISIBLE")) return c->invisible = true;
    if (wr_parser_word(p, "VISIBLE") || wr_parser_word(p, "ENFORCED")) return true;
    if (wr_parser_word(p, "CONSTRAINT")) {
        if (!wr_tok_word(&p->t, "CHECK")) wr_parser_next(p);
        return true;
    }
    if (wr_parser_word(p, "CHECK")) {
        if (wr_tok_is(&p->t, '(')) wr_parser_skip_parens(p);
        return c->check = true;
    }
    if (wr_parser_word(p, "REFERENCES")) {
        wr_ddl_fk *f = (wr_ddl_fk *)(uintptr_t)references_in(p, NULL);
        if (f) f->inlined = true;
        c->references = f;
        return true;
    }
    if (wr_tok_word(&p->t, "WITH") || wr_tok_word(&p->t, "WITHOUT")) {
        wr_tok next = wr_parser_peek(p);
        if (!wr_tok_word(&next, "SYSTEM")) return false;
        bool with = wr_tok_word(&p->t, "WITH");
        wr_parser_next(p);
        wr_parser_next(p);
        wr_parser_need_word(p, "VERSIONING");
        if (with) c->with_versioning = true;
        return true;
    }
    if (wr_parser_word(p, "COMPRESSED")) {
        c->type.compressed = true;
        if (wr_parser_punct(p, '=')) wr_parser_next(p);
        return true;
    }
    if (wr_tok_words(&p->t, with_value, 7) >= 0) {
        wr_parser_next(p);
        wr_parser_punct(p, '=');
        wr_parser_next(p);
        return true;
    }
    if (wr_ddl_charset_parse(p, &c->type)) return true;
    if (p->t.kind == WR_TOK_WORD || p->t.kind == WR_TOK_NAME) { /* an engine's own attribute: name=value */
        wr_tok next = wr_parser_peek(p);
        if (wr_tok_is(&next, '=')) {
            wr_parser_next(p);
            wr_parser_next(p);
            wr_parser_next(p);
            return true;
        }
    }
    return false;
}

/* name type attributes */
static wr_ddl_column *column_in(wr_parser *p) {
    wr_ddl_column *c = wr_arena_zalloc(p->lx.arena, sizeof *c);
    if (!c) {
        out_of_memory(p);
        return NULL;
    }
    if (!name_in(p, &c->name)) return c;
    if (wr_parser_punct(p, '.')) { /* t.c, db.t.c */
        name_in(p, &c->name);
        if (wr_parser_punct(p, '.')) name_in(p, &c->name);
    }
    if (!wr_ddl_type_parse(p, &c->type)) {
        wr_parser_fail(p, "a column type");
        return c;
    }
    while (!p->bad && attribute_in(p, c)) {}
    if (c->type.serial) c->auto_increment = c->unique = true, c->null_attr = 2;
    return c;
}

/* ------------------------------------------------------------------ keys */
static wr_ddl_action *act(wr_parser *p, wr_ddl_body *b, wr_action_kind kind) {
    static _Thread_local wr_ddl_action lost; /* written and never read: p->bad is set */
    wr_ddl_action *a = grow(p, b->a, b->n, &b->cap, sizeof *a);
    if (!a) return &lost;
    b->a = a;
    a[b->n] = (wr_ddl_action){.kind = kind};
    return &a[b->n++];
}

/* To the next comma or closing bracket of this level, or the end. */
static void skip_item(wr_parser *p) {
    while (p->t.kind != WR_TOK_END && !wr_tok_is(&p->t, ',') && !wr_tok_is(&p->t, ')')) {
        if (wr_tok_is(&p->t, '(')) wr_parser_skip_parens(p);
        else wr_parser_next(p);
    }
}

/* (a, b(10) DESC, (expression)) */
static void key_parts(wr_parser *p, wr_ddl_action *a) {
    while (p->t.kind != WR_TOK_END && !wr_tok_is(&p->t, '(')) wr_parser_next(p); /* name, USING BTREE */
    wr_parser_need_punct(p, '(');
    int cap = 0;
    while (!p->bad) {
        const char *name = NULL;
        if (wr_tok_is(&p->t, '(')) wr_parser_skip_parens(p);
        else if (!name_in(p, &name)) return;
        const char **parts = grow(p, a->parts, a->nparts, &cap, sizeof *parts);
        if (!parts) return;
        a->parts = parts;
        parts[a->nparts++] = name;
        if (wr_tok_is(&p->t, '(')) wr_parser_skip_parens(p);
        if (!wr_parser_word(p, "ASC")) wr_parser_word(p, "DESC");
        if (wr_tok_word(&p->t, "WITHOUT")) {
            wr_parser_fail(p, "no WITHOUT OVERLAPS");
            return;
        }
        if (!wr_parser_punct(p, ',')) break;
    }
    wr_parser_need_punct(p, ')');
}

/* A key, constraint or period of a table. False (nothing read) when a column stands here. */
static bool key_in(wr_parser *p, wr_ddl_body *b) {
    if (p->t.kind != WR_TOK_WORD) return false;
    bool named = wr_tok_word(&p->t, "CONSTRAINT");
    const char *name = NULL;
    if (named) {
        static const char *const kinds[] = {"PRIMARY", "UNIQUE", "FOREIGN", "CHECK"};
        wr_parser_next(p);
        if_not_exists(p);
        if (wr_tok_words(&p->t, kinds, 4) < 0) name = p->t.text, wr_parser_next(p);
    }
    if (wr_tok_word(&p->t, "PRIMARY")) {
        wr_parser_next(p);
        wr_parser_need_word(p, "KEY");
        wr_ddl_action *a = act(p, b, WR_ACT_ADD_PRIMARY);
        a->if_exists = if_not_exists(p);
        key_parts(p, a);
        skip_item(p);
        return true;
    }
    if (wr_parser_word(p, "UNIQUE")) act(p, b, WR_ACT_ADD_UNIQUE);
    else if (wr_parser_word(p, "CHECK")) act(p, b, WR_ACT_ADD_CHECK);
    else if (wr_tok_word(&p->t, "FOREIGN")) {
        wr_ddl_action *a = act(p, b, WR_ACT_FOREIGN_KEY);
        wr_parser_next(p);
        wr_parser_need_word(p, "KEY");
        a->if_exists = if_not_exists(p);
        const char *index = NULL;
        if (!wr_tok_is(&p->t, '(')) name_in(p, &index);
        if (!name && p->lx.is_mariadb) name = index;
        if (wr_tok_is(&p->t, '(')) wr_parser_skip_parens(p);
        wr_parser_need_word(p, "REFERENCES");
        a->fk = p->bad ? NULL : references_in(p, name);
    } else if (wr_tok_word(&p->t, "INDEX") || wr_tok_word(&p->t, "KEY") || wr_tok_word(&p->t, "FULLTEXT") || wr_tok_word(&p->t, "SPATIAL") ||
               (wr_tok_word(&p->t, "VECTOR") && (word_follows(p, "INDEX") || word_follows(p, "KEY"))))
        act(p, b, WR_ACT_ADD_INDEX);
    else if (wr_tok_word(&p->t, "PERIOD") && word_follows(p, "FOR")) {
        wr_parser_next(p);
        wr_parser_next(p);
        if_not_exists(p);
        bool system = wr_parser_word(p, "SYSTEM_TIME");
        if (!system) wr_parser_next(p);
        wr_ddl_action *a = act(p, b, system ? WR_ACT_PERIOD : WR_ACT_APPLICATION_PERIOD);
        key_parts(p, a);
        if (system && a->nparts == 2) a->name = a->parts[0], a->to = a->parts[1];
    } else {
        if (named) wr_parser_fail(p, "a constraint");
        return named;
    }
    skip_item(p);
    return true;
}

/* ------------------------------------------------------------------ CREATE TABLE */
/* "(columns and keys)" of CREATE TABLE and ADD (...), behind the "(". */
static void definitions_in(wr_parser *p, wr_ddl_body *b, bool may_exist) {
    do {
        if (key_in(p, b)) continue;
        wr_ddl_column *c = column_in(p);
        if (p->bad) return;
        wr_ddl_action *a = act(p, b, WR_ACT_ADD_COLUMN);
        a->col = c;
        a->if_exists = may_exist;
        if (!wr_tok_is(&p->t, ',') && !wr_tok_is(&p->t, ')')) wr_parser_fail(p, "the next column");
    } while (!p->bad && wr_parser_punct(p, ','));
    wr_parser_need_punct(p, ')');
}

static const char *value_in(wr_parser *p) {
    wr_parser_punct(p, '=');
    const char *s = p->t.kind == WR_TOK_PUNCT || p->t.kind == WR_TOK_END ? "" : p->t.text;
    if (!*s) wr_parser_fail(p, "a value");
    else wr_parser_next(p);
    return s;
}

static bool charset_option(wr_parser *p, const char **charset, const char **collation) {
    if ((wr_tok_word(&p->t, "DEFAULT")) && (word_follows(p, "CHARACTER") || word_follows(p, "CHARSET") || word_follows(p, "COLLATE") || word_follows(p, "CHAR"))) wr_parser_next(p);
    if ((wr_tok_word(&p->t, "CHARACTER") || wr_tok_word(&p->t, "CHAR")) && word_follows(p, "SET")) {
        wr_parser_next(p);
        wr_parser_next(p);
        *charset = value_in(p);
        return true;
    }
    if (wr_parser_word(p, "CHARSET")) return *charset = value_in(p), true;
    if (wr_parser_word(p, "COLLATE")) return *collation = value_in(p), true;
    return false;
}

static bool select_here(const wr_parser *p) {
    static const char *const words[] = {"SELECT", "VALUES", "TABLE", "WITH"};
    return wr_tok_words(&p->t, words, 4) >= 0;
}

static void create_options(wr_parser *p, wr_ddl_body *b) {
    while (!p->bad && p->t.kind != WR_TOK_END && !wr_tok_is(&p->t, ';')) {
        if (charset_option(p, &b->charset, &b->collation)) continue;
        if (wr_parser_word(p, "ENGINE")) b->engine = value_in(p);
        else if (wr_tok_word(&p->t, "WITH") && word_follows(p, "SYSTEM")) {
            wr_parser_next(p);
            wr_parser_next(p);
            wr_parser_need_word(p, "VERSIONING");
            act(p, b, WR_ACT_VERSIONING)->flag = true;
        } else if (wr_tok_word(&p->t, "START") && word_follows(p, "TRANSACTION")) { /* MySQL logs CREATE ... SELECT so; rows follow as row events */
            wr_parser_next(p);
            wr_parser_next(p);
        } else if (wr_parser_word(p, "AS") || select_here(p)) {
            b->as_select = true;
            return;
        } else if (wr_tok_is(&p->t, '(')) {
            wr_parser ahead = *p;
            wr_parser_next(&ahead);
            if (select_here(&ahead)) {
                b->as_select = true;
                return;
            }
            wr_parser_skip_parens(p);
        } else if (p->t.kind == WR_TOK_PUNCT || p->t.kind == WR_TOK_WORD || p->t.kind == WR_TOK_NAME) {
            bool equals = wr_tok_is(&p->t, '=');
            wr_parser_next(p);
            /* the value of name=value is no option, whatever it is called */
            if (equals && !wr_tok_is(&p->t, '(') && p->t.kind != WR_TOK_END) wr_parser_next(p);
        } else wr_parser_next(p);
    }
}

void wr_ddl_parse_create(wr_parser *p, const char *db, wr_ddl_body *b) {
    *b = (wr_ddl_body){0};
    bool paren = wr_tok_is(&p->t, '(') && word_follows(p, "LIKE");
    if (paren) wr_parser_next(p);
    if (wr_parser_word(p, "LIKE")) {
        b->like = true;
        table_in(p, db, &b->like_table);
        return;
    }
    if (wr_tok_is(&p->t, '(')) {
        wr_parser ahead = *p;
        wr_parser_next(&ahead);
        if (!select_here(&ahead) && !wr_tok_is(&ahead.t, '(')) {
            *p = ahead;
            definitions_in(p, b, false);
        }
    }
    create_options(p, b);
}

void wr_ddl_parse_database(wr_parser *p, wr_ddl_body *b) {
    *b = (wr_ddl_body){0};
    while (!p->bad && p->t.kind != WR_TOK_END)
        if (!charset_option(p, &b->charset, &b->collation)) wr_parser_next(p);
}

/* ------------------------------------------------------------------ ALTER TABLE */
static void position_in(wr_parser *p, wr_ddl_column *c) {
    if (wr_parser_word(p, "FIRST")) c->first = true;
    else if (wr_parser_word(p, "AFTER")) name_in(p, &c->after);
}

static void alter_add(wr_parser *p, wr_ddl_body *b) {
    if (wr_tok_word(&p->t, "PARTITION")) {
        act(p, b, WR_ACT_PARTITION);
        while (p->t.kind != WR_TOK_END) wr_parser_next(p);
        return;
    }
    if (wr_tok_word(&p->t, "SYSTEM") && word_follows(p, "VERSIONING")) {
        wr_parser_next(p);
        wr_parser_next(p);
        act(p, b, WR_ACT_VERSIONING)->flag = true;
        return;
    }
    if (!wr_tok_word(&p->t, "COLUMN") && key_in(p, b)) return;
    wr_parser_word(p, "COLUMN");
    bool may_exist = if_not_exists(p);
    if (wr_parser_punct(p, '(')) {
        definitions_in(p, b, may_exist);
        return;
    }
    wr_ddl_column *c = column_in(p);
    if (p->bad) return;
    position_in(p, c);
    wr_ddl_action *a = act(p, b, WR_ACT_ADD_COLUMN);
    a->col = c;
    a->if_exists = may_exist;
}

static void partition_names(wr_parser *p) {
    if_exists(p);
    do wr_parser_next(p);
    while (wr_parser_punct(p, ','));
}

static void alter_drop(wr_parser *p, wr_ddl_body *b) {
    wr_ddl_action *a;
    if (wr_parser_word(p, "PRIMARY")) {
        wr_parser_word(p, "KEY");
        act(p, b, WR_ACT_DROP_PRIMARY);
    } else if (wr_parser_word(p, "PARTITION")) {
        act(p, b, WR_ACT_PARTITION)->flag = true;
        partition_names(p);
    } else if (wr_parser_word(p, "FOREIGN")) {
        wr_parser_need_word(p, "KEY");
        if_exists(p);
        a = act(p, b, WR_ACT_DROP_FOREIGN_KEY);
        name_in(p, &a->name);
    } else if (wr_tok_word(&p->t, "SYSTEM") && word_follows(p, "VERSIONING")) {
        wr_parser_next(p);
        wr_parser_next(p);
        act(p, b, WR_ACT_VERSIONING);
    } else if (wr_tok_word(&p->t, "PERIOD") && word_follows(p, "FOR")) {
        wr_parser_next(p);
        wr_parser_next(p);
        if_exists(p);
        wr_parser_next(p);
        act(p, b, WR_ACT_NOTHING);
    } else if (wr_tok_word(&p->t, "INDEX") || wr_tok_word(&p->t, "KEY") || wr_tok_word(&p->t, "CONSTRAINT") || wr_tok_word(&p->t, "CHECK")) {
        bool any = wr_tok_word(&p->t, "CONSTRAINT");
        wr_parser_next(p);
        bool may_miss = if_exists(p);
        a = act(p, b, WR_ACT_DROP_KEY);
        a->flag = any;
        a->if_exists = may_miss;
        name_in(p, &a->name);
    } else {
        wr_parser_word(p, "COLUMN");
        bool may_miss = if_exists(p);
        a = act(p, b, WR_ACT_DROP_COLUMN);
        a->if_exists = may_miss;
        name_in(p, &a->name);
        if (!wr_parser_word(p, "RESTRICT")) wr_parser_word(p, "CASCADE");
    }
}

static void alter_column(wr_parser *p, wr_ddl_body *b) {
    if (wr_parser_word(p, "INDEX") || wr_parser_word(p, "KEY") || wr_parser_word(p, "CHECK") || wr_parser_word(p, "CONSTRAINT")) {
        act(p, b, WR_ACT_NOTHING);
        skip_item(p);
        return;
    }
    wr_parser_word(p, "COLUMN");
    bool may_miss = if_exists(p);
    const char *name;
    name_in(p, &name);
    wr_ddl_action *a;
    if (wr_parser_word(p, "DROP")) {
        wr_parser_need_word(p, "DEFAULT");
        a = act(p, b, WR_ACT_DROP_DEFAULT);
    } else if (wr_parser_word(p, "SET")) {
        if (wr_tok_word(&p->t, "VISIBLE") || wr_tok_word(&p->t, "INVISIBLE")) {
            a = act(p, b, WR_ACT_SET_VISIBLE);
            a->flag = wr_tok_word(&p->t, "VISIBLE");
            wr_parser_next(p);
        } else {
            wr_parser_need_word(p, "DEFAULT");
            wr_ddl_column c = {0};
            default_in(p, &c);
            a = act(p, b, WR_ACT_SET_DEFAULT);
            a->has_lit = !c.default_expr;
            a->lit = c.lit;
        }
    } else {
        wr_parser_fail(p, "SET or DROP");
        return;
    }
    a->name = name;
    a->if_exists = may_miss;
}

static void alter_change(wr_parser *p, wr_ddl_body *b, bool rename) {
    wr_parser_word(p, "COLUMN");
    bool may_miss = if_exists(p);
    const char *old = NULL;
    if (rename) name_in(p, &old);
    wr_ddl_column *c = column_in(p);
    if (p->bad) return;
    position_in(p, c);
    wr_ddl_action *a = act(p, b, WR_ACT_CHANGE_COLUMN);
    a->name = rename ? old : c->name;
    a->col = c;
    a->if_exists = may_miss;
}

static void alter_rename(wr_parser *p, const char *db, wr_ddl_body *b) {
    wr_ddl_action *a;
    if ((wr_tok_word(&p->t, "INDEX") || wr_tok_word(&p->t, "KEY"))) {
        act(p, b, WR_ACT_NOTHING);
        skip_item(p);
    } else if (wr_parser_word(p, "COLUMN")) {
        bool may_miss = if_exists(p);
        a = act(p, b, WR_ACT_RENAME_COLUMN);
        a->if_exists = may_miss;
        name_in(p, &a->name);
        wr_parser_need_word(p, "TO");
        name_in(p, &a->to);
    } else {
        if (!wr_parser_word(p, "TO") && !wr_parser_word(p, "AS")) wr_parser_punct(p, '=');
        a = act(p, b, WR_ACT_RENAME_TABLE);
        table_in(p, db, &a->table);
    }
}

static void alter_convert(wr_parser *p, const char *db, wr_ddl_body *b) {
    wr_ddl_action *a;
    if (wr_parser_word(p, "PARTITION")) {
        const char *ignored;
        name_in(p, &ignored);
        wr_parser_need_word(p, "TO");
        wr_parser_need_word(p, "TABLE");
        a = act(p, b, WR_ACT_PARTITION_TO_TABLE);
        table_in(p, db, &a->table);
    } else if (wr_parser_word(p, "TABLE")) {
        a = act(p, b, WR_ACT_TABLE_TO_PARTITION);
        table_in(p, db, &a->table);
        while (p->t.kind != WR_TOK_END) wr_parser_next(p);
    } else {
        wr_parser_need_word(p, "TO");
        a = act(p, b, WR_ACT_CONVERT);
        const char *charset = NULL, *collation = NULL;
        while (charset_option(p, &charset, &collation)) {}
        if (charset && strcasecmp(charset, "default") == 0) charset = NULL;
        a->charset = charset;
        a->collation = collation;
    }
}

/* Words that begin a table option or a clause without consequence for columns and rows. */
static bool harmless(const wr_parser *p) {
    static const char *const words[] = {
        "ALGORITHM", "AUTOEXTEND_SIZE", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECKSUM", "COMMENT", "COMPRESSION", "CONNECTION", "DATA",
        "DELAY_KEY_WRITE", "DISABLE", "ENABLE", "ENCRYPTED", "ENCRYPTION", "ENCRYPTION_KEY_ID", "ENGINE_ATTRIBUTE", "FORCE", "IETF_QUOTES",
        "INDEX", "INSERT_METHOD", "KEY_BLOCK_SIZE", "LOCK", "MAX_ROWS", "MIN_ROWS", "NOWAIT", "PACK_KEYS", "PAGE_CHECKSUM", "PAGE_COMPRESSED",
        "PAGE_COMPRESSION_LEVEL", "PASSWORD", "ROW_FORMAT", "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE", "SECONDARY_LOAD",
        "SECONDARY_UNLOAD", "START", "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "STORAGE", "TABLESPACE",
        "TABLE_CHECKSUM", "TRANSACTIONAL", "UNION", "WAIT", "WITH", "WITHOUT"};
    if (wr_tok_words(&p->t, words, sizeof words / sizeof *words) >= 0) return true;
    if (p->t.kind != WR_TOK_WORD && p->t.kind != WR_TOK_NAME) return false;
    wr_tok next = wr_parser_peek(p);
    return wr_tok_is(&next, '='); /* an engine's own option */
}

/* Options stand side by side without commas. */
static void alter_options(wr_parser *p, wr_ddl_body *b) {
    while (!p->bad && p->t.kind != WR_TOK_END && !wr_tok_is(&p->t, ',') && !wr_tok_is(&p->t, ';')) {
        const char *charset = NULL, *collation = NULL;
        if (charset_option(p, &charset, &collation)) {
            while (charset_option(p, &charset, &collation)) {}
            wr_ddl_action *a = act(p, b, WR_ACT_CHARSET);
            a->charset = charset;
            a->collation = collation;
        } else if (wr_parser_word(p, "ENGINE")) {
            const char *engine = value_in(p);
            act(p, b, WR_ACT_ENGINE)->name = engine;
        } else if (wr_tok_word(&p->t, "WITH") && word_follows(p, "SYSTEM")) {
            wr_parser_fail(p, "ADD SYSTEM VERSIONING");
        } else if (wr_tok_word(&p->t, "REMOVE") || wr_tok_word(&p->t, "PARTITION")) {
            act(p, b, WR_ACT_PARTITION);
            while (p->t.kind != WR_TOK_END) wr_parser_next(p);
        } else if (harmless(p)) {
            wr_parser_next(p);
            wr_parser_punct(p, '=');
            if (wr_tok_is(&p->t, '(')) wr_parser_skip_parens(p);
            else if (p->t.kind != WR_TOK_END && !wr_tok_is(&p->t, ',') && !wr_tok_is(&p->t, ';')) wr_parser_next(p);
            if (b->n == 0 || b->a[b->n - 1].kind != WR_ACT_NOTHING) act(p, b, WR_ACT_NOTHING);
        } else if (p->t.kind == WR_TOK_STRING || p->t.kind == WR_TOK_NUMBER || wr_tok_word(&p->t, "DIRECTORY") || wr_tok_word(&p->t, "KEYS") ||
                   wr_tok_word(&p->t, "VALIDATION") || wr_tok_is(&p->t, '=')) wr_parser_next(p);
        else wr_parser_fail(p, "an option that is known");
    }
}

static void alter_partition(wr_parser *p, const char *db, wr_ddl_body *b) {
    static const char *const loses[] = {"TRUNCATE"};
    if (wr_parser_word(p, "EXCHANGE")) {
        const char *ignored;
        wr_parser_need_word(p, "PARTITION");
        name_in(p, &ignored);
        wr_parser_need_word(p, "WITH");
        wr_parser_need_word(p, "TABLE");
        wr_ddl_action *a = act(p, b, WR_ACT_EXCHANGE);
        table_in(p, db, &a->table);
        while (p->t.kind != WR_TOK_END) wr_parser_next(p);
        return;
    }
    act(p, b, WR_ACT_PARTITION)->flag = wr_tok_words(&p->t, loses, 1) >= 0;
    while (p->t.kind != WR_TOK_END) wr_parser_next(p);
}

static void alter_action(wr_parser *p, const char *db, wr_ddl_body *b) {
    static const char *const partition_verbs[] = {"TRUNCATE", "EXCHANGE", "REORGANIZE", "COALESCE", "REBUILD", "OPTIMIZE", "ANALYZE", "CHECK", "REPAIR", "UPGRADE"};
    if (wr_parser_word(p, "ADD")) alter_add(p, b);
    else if (wr_parser_word(p, "DROP")) alter_drop(p, b);
    else if (wr_parser_word(p, "ALTER")) alter_column(p, b);
    else if (wr_parser_word(p, "CHANGE")) alter_change(p, b, true);
    else if (wr_parser_word(p, "MODIFY")) alter_change(p, b, false);
    else if (wr_parser_word(p, "RENAME")) alter_rename(p, db, b);
    else if (wr_parser_word(p, "CONVERT")) alter_convert(p, db, b);
    else if (wr_parser_word(p, "ORDER")) {
        act(p, b, WR_ACT_NOTHING);
        while (p->t.kind != WR_TOK_END) wr_parser_next(p);
    } else if (wr_tok_words(&p->t, partition_verbs, 10) >= 0) alter_partition(p, db, b);
    else if (wr_tok_word(&p->t, "DISCARD") || wr_tok_word(&p->t, "IMPORT")) {
        act(p, b, wr_tok_word(&p->t, "IMPORT") ? WR_ACT_IMPORT : WR_ACT_NOTHING);
        while (p->t.kind != WR_TOK_END) wr_parser_next(p);
    } else alter_options(p, b);
}

void wr_ddl_parse_alter(wr_parser *p, const char *db, wr_ddl_body *b) {
    *b = (wr_ddl_body){0};
    if (p->t.kind == WR_TOK_END) return;
    do {
        wait_option(p);
        alter_action(p, db, b);
        /* "ADD c INT ENGINE=x", "DROP PARTITION p REMOVE PARTITIONING": options may follow without a comma */
        if (!p->bad && p->t.kind != WR_TOK_END && !wr_tok_is(&p->t, ',') && !wr_tok_is(&p->t, ';')) alter_options(p, b);
    } while (!p->bad && wr_parser_punct(p, ','));
    wr_parser_punct(p, ';');
    if (!p->bad && p->t.kind != WR_TOK_END) wr_parser_fail(p, "the end");
}
