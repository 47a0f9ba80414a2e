#include "fk.h"

#include <stdlib.h>
#include <strings.h>

#include "weir/base/mem.h"

#define ARENA_LIMIT (64u << 20)

wr_my_fk *wr_my_fk_new(wr_my_table *t) {
    wr_my_fk *l = wr_realloc(t->fks, ((size_t)t->nfks + 1) * sizeof *l);
    if (!l) return NULL;
    t->fks = l;
    l[t->nfks] = (wr_my_fk){0};
    return &l[t->nfks++];
}

bool wr_my_fk_add_col(wr_my_fk *f, const char *name) {
    char **cols = wr_realloc(f->cols, ((size_t)f->ncols + 1) * sizeof *cols);
    if (!cols) return false;
    f->cols = cols;
    return (cols[f->ncols] = wr_strdup(name)) && ++f->ncols;
}

static void clear_cols(wr_my_fk *f) {
    for (int i = 0; i < f->ncols; i++) wr_free(f->cols[i]);
    wr_free(f->cols);
    f->cols = NULL, f->ncols = 0;
}

static void fk_clear(wr_my_fk *f) {
    clear_cols(f);
    wr_free(f->name), wr_free(f->db), wr_free(f->parent);
}

void wr_my_fks_clear(wr_my_table *t) {
    for (int i = 0; i < t->nfks; i++) fk_clear(&t->fks[i]);
    wr_free(t->fks);
    t->fks = NULL, t->nfks = 0;
}

bool wr_my_fks_copy(wr_my_table *dst, const wr_my_table *src) {
    for (int i = 0; i < src->nfks; i++) {
        const wr_my_fk *s = &src->fks[i];
        wr_my_fk *f = wr_my_fk_new(dst);
        if (!f) return false;
        f->on_delete = s->on_delete, f->on_update = s->on_update;
        if (!(f->db = wr_strdup(s->db)) || !(f->parent = wr_strdup(s->parent)) || (s->name && !(f->name = wr_strdup(s->name)))) return false;
        for (int k = 0; k < s->ncols; k++)
            if (!wr_my_fk_add_col(f, s->cols[k])) return false;
    }
    return true;
}

bool wr_my_fks_change_rows(const wr_my_table *t) {
    for (int i = 0; i < t->nfks; i++)
        if (wr_my_fk_changes_rows(&t->fks[i])) return true;
    return false;
}

static bool fk_same(const wr_my_fk *a, const wr_my_fk *b) {
    bool same = a->ncols == b->ncols && a->on_delete == b->on_delete && a->on_update == b->on_update && strcmp(a->db, b->db) == 0 &&
                strcmp(a->parent, b->parent) == 0 && strcmp(a->name ? a->name : "", b->name ? b->name : "") == 0;
    for (int i = 0; same && i < a->ncols; i++) same = strcmp(a->cols[i], b->cols[i]) == 0;
    return same;
}

bool wr_my_fks_same(const wr_my_table *a, const wr_my_table *b) {
    if (a->nfks != b->nfks) return false;
    for (int i = 0; i < a->nfks; i++)
        if (!fk_same(&a->fks[i], &b->fks[i])) return false;
    return true;
}

/* ------------------------------------------------------------------ names */
/* The n of <table>_ibfk_n, 0 when the name is of another form. */
static unsigned made_number(const char *table, const char *name) {
    size_t n = strlen(table);
    if (!name || strncasecmp(name, table, n) != 0 || strncmp(name + n, "_ibfk_", 6) != 0) return 0;
    return (unsigned)strtoul(name + n + 6, NULL, 10);
}

bool wr_my_fks_follow_table(wr_my_table *t, const char *name) {
    for (int i = 0; t->name && i < t->nfks; i++) {
        unsigned n = made_number(t->name, t->fks[i].name);
        char *now = n ? wr_asprintf("%s_ibfk_%u", name, n) : NULL;
        if (n && !now) return false;
        if (n) wr_free(t->fks[i].name), t->fks[i].name = now;
    }
    return true;
}

static int find_name(const wr_my_table *t, const char *name) {
    for (int i = 0; i < t->nfks; i++)
        if (t->fks[i].name && wr_my_name_eq(t->fks[i].name, name)) return i;
    return -1;
}

static void drop_one(wr_my_table *t, const char *name, bool surely) {
    int at = find_name(t, name), unknown = 0;
    for (int i = 0; at < 0 && surely && i < t->nfks; i++)
        if (!t->fks[i].name) unknown++;
    for (int i = 0; unknown == 1 && at < 0; i++)
        if (!t->fks[i].name) at = i;
    if (at < 0) return;
    fk_clear(&t->fks[at]);
    memmove(&t->fks[at], &t->fks[at + 1], (size_t)(t->nfks - at - 1) * sizeof *t->fks);
    t->nfks--;
}

/* ------------------------------------------------------------------ statements */
static wr_code add_one(wr_my_table *t, const wr_ddl_fk *d, const wr_ddl_server *sv, bool certain, wr_err *err) {
    if (d->inlined && sv->version && sv->version < (sv->is_mariadb ? 100500u : 90000u)) return WR_OK;
    if (d->name && find_name(t, d->name) >= 0) return WR_OK; /* IF NOT EXISTS */
    unsigned last = 0;
    certain = certain && !(sv->is_mariadb && sv->version >= 120100); /* those make other names */
    for (int i = 0; i < t->nfks; i++) {
        certain = certain && t->fks[i].name;
        unsigned n = made_number(t->name, t->fks[i].name);
        if (n > last) last = n;
    }
    wr_my_fk *f = wr_my_fk_new(t);
    if (!f) return wr_nomem(err, "foreign key", sizeof *f);
    bool ok = (f->db = wr_strdup(*d->parent.db ? d->parent.db : t->db)) && (f->parent = wr_strdup(d->parent.name));
    if (ok && d->name) ok = (f->name = wr_strdup(d->name));
    else if (ok && certain) ok = (f->name = wr_asprintf("%s_ibfk_%u", t->name, last + 1));
    for (int i = 0; ok && i < d->nparts; i++) ok = wr_my_fk_add_col(f, d->parts[i]);
    f->on_delete = d->on_delete, f->on_update = d->on_update;
    return ok ? WR_OK : wr_nomem(err, "foreign key", 64);
}

wr_code wr_my_fks_edit(wr_my_table *t, const wr_ddl_body *b, const wr_ddl_server *sv, wr_err *err) {
    bool dropped = false;
    for (int i = 0; i < b->n; i++) {
        const wr_ddl_action *a = &b->a[i];
        if (a->kind != WR_ACT_DROP_FOREIGN_KEY && !(a->kind == WR_ACT_DROP_KEY && a->flag)) continue;
        drop_one(t, a->name, a->kind == WR_ACT_DROP_FOREIGN_KEY);
        dropped = true;
    }
    for (int i = 0; i < b->n; i++) {
        const wr_ddl_action *a = &b->a[i];
        bool column = a->kind == WR_ACT_ADD_COLUMN || a->kind == WR_ACT_CHANGE_COLUMN;
        const wr_ddl_fk *f = a->kind == WR_ACT_FOREIGN_KEY ? a->fk : column && a->col ? a->col->references : NULL;
        if (f) WR_TRY(add_one(t, f, sv, !dropped, err));
    }
    if (t->engine && strcasecmp(t->engine, "InnoDB") != 0) wr_my_fks_clear(t); /* read, and forgotten */
    return WR_OK;
}

/* Each constraint has a line of its own there, and no literal has a line break: the servers write \n in them. */
wr_code wr_my_fks_from_create(wr_my_table *t, const char *text, const wr_ddl_server *sv, wr_err *err) {
    WR_AUTO_BUF wr_buf sql = WR_BUF_INIT;
    wr_my_fks_clear(t);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        size_t n = strcspn(line, "\n");
        if (strncmp(line, "  CONSTRAINT ", 13) != 0) continue;
        while (n && (line[n - 1] == ',' || line[n - 1] == '\r')) n--;
        wr_buf_printf(&sql, sql.n ? ", ADD " : "ALTER TABLE t ADD ");
        wr_buf_put(&sql, line, n);
    }
    WR_TRY(wr_buf_check(&sql, "SHOW CREATE TABLE", err));
    if (!sql.n) return WR_OK;
    wr_arena *arena = wr_arena_new(ARENA_LIMIT);
    if (!arena) return wr_nomem(err, "SHOW CREATE TABLE", sql.n);
    wr_parser p;
    wr_sql s;
    wr_ddl_body b;
    wr_parser_init(&p, wr_buf_view(&sql), 0, sv->is_mariadb, sv->version, arena);
    wr_sql_head(&p, t->db, &s);
    wr_ddl_parse_alter(&p, t->db, &b);
    wr_code rc = p.bad ? wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "the constraints of %s.%s in SHOW CREATE TABLE cannot be read: expected %s at byte %zu of: %.400s", t->db, t->name,
                                 p.bad, p.bad_at, (const char *)sql.p)
                       : wr_my_fks_edit(t, &b, sv, err);
    wr_arena_free(arena);
    return rc;
}

wr_code wr_my_fks_rename_cols(wr_my_table *t, const wr_my_table *before, const wr_my_table *after, bool *ret_any, wr_err *err) {
    for (int i = 0; i < t->nfks; i++) {
        wr_my_fk *f = &t->fks[i];
        if (!wr_my_name_eq(f->db, before->db) || !wr_my_name_eq(f->parent, before->name)) continue;
        for (int k = 0; k < f->ncols; k++) {
            const wr_my_col *old = wr_my_table_find_col(before, f->cols[k]), *now = NULL;
            for (int j = 0; old && j < after->ncols; j++)
                if (after->cols[j].id == old->id) now = &after->cols[j];
            if (now && strcmp(now->name, f->cols[k]) == 0) continue;
            *ret_any = true;
            if (!now) { /* from here on every update counts */
                clear_cols(f);
                break;
            }
            char *name = wr_strdup(now->name);
            if (!name) return wr_nomem(err, "foreign key", 64);
            wr_free(f->cols[k]);
            f->cols[k] = name;
        }
    }
    return WR_OK;
}
