#include "cascade.h"

#include <stdlib.h>

#include "catalogue_impl.h"
#include "fk.h"
#include "weir/base/mem.h"

typedef struct edge {
    wr_cascade_table *child;
    uint8_t on_delete, on_update;
    int *cols; int ncols; /* of the parent's schema; none = not known, any update counts */
    bool told;            /* updates */
} edge;

struct wr_cascade_table {
    char *db, *name;
    uint32_t id;          /* captured: its table id, else 0 */
    wr_schema *schema;    /* captured */
    edge *edges; int nedges;
    bool told;            /* that its own rows are stale */
    bool deleted, updated; /* went on from here, for whole rows and for any column */
};

struct wr_cascades {
    wr_catalogue *c;
    wr_cascade_table **t; int n;
    wr_map *by_name;
    wr_u64map *by_id;
    wr_value *before, *after; int nvalues;
    bool dirty;
};

static void table_free(wr_cascade_table *t) {
    for (int i = 0; i < t->nedges; i++) wr_free(t->edges[i].cols);
    wr_free(t->edges);
    wr_schema_unref(t->schema);
    wr_free(t->db), wr_free(t->name);
    wr_free(t);
}

void wr_cascades_free(wr_cascades *g) {
    if (!g) return;
    for (int i = 0; i < g->n; i++) table_free(g->t[i]);
    wr_free(g->t);
    if (g->by_name) wr_map_free(g->by_name, NULL);
    if (g->by_id) wr_u64map_free(g->by_id, NULL);
    wr_free(g->before), wr_free(g->after);
    wr_free(g);
}

const char *wr_cascade_table_db(const wr_cascade_table *t) { return t->db; }
const char *wr_cascade_table_name(const wr_cascade_table *t) { return t->name; }

/* "db\0name" as names compare; free p. */
static wr_slice key_of(const wr_catalogue *c, const char *db, const char *name) {
    WR_AUTO char *d = wr_catalogue_fold_(c, db), *n = wr_catalogue_fold_(c, name);
    size_t nd = d ? strlen(d) : 0, nn = n ? strlen(n) : 0;
    uint8_t *k = d && n ? wr_malloc(nd + nn + 1) : NULL;
    if (!k) return wr_slice_of(NULL, 0);
    memcpy(k, d, nd + 1);
    memcpy(k + nd + 1, n, nn);
    return wr_slice_of(k, nd + nn + 1);
}

wr_cascade_table *wr_cascades_of_name(const wr_cascades *g, const char *db, const char *name) {
    if (!g->n) return NULL;
    wr_slice key = key_of(g->c, db, name);
    wr_cascade_table *t = key.n ? wr_map_get(g->by_name, key) : NULL;
    wr_free((void *)(uintptr_t)key.p);
    return t && t->nedges ? t : NULL;
}

wr_cascade_table *wr_cascades_of_id(const wr_cascades *g, uint32_t table) { return g->n ? wr_u64map_get(g->by_id, table) : NULL; }

/* ------------------------------------------------------------------ building */
static wr_cascade_table *table_of(wr_cascades *g, const char *db, const char *name) {
    wr_slice key = key_of(g->c, db, name);
    wr_cascade_table *t = key.n ? wr_map_get(g->by_name, key) : NULL;
    if (key.n && !t && (t = wr_calloc(1, sizeof *t))) {
        wr_cascade_table **l = wr_realloc(g->t, ((size_t)g->n + 1) * sizeof *l);
        if (l) g->t = l;
        const wr_entry *e = wr_catalogue_entry_(g->c, db, name);
        if (e && e->t->away_of) e = wr_catalogue_by_id_(g->c, e->t->away_of);
        const wr_my_table *def = e && e->t->captured ? e->t : NULL;
        if (def) t->id = def->id, t->schema = def->schema ? wr_schema_ref(def->schema) : NULL;
        t->db = wr_strdup(db), t->name = wr_strdup(name);
        if (!l || !t->db || !t->name || !wr_map_put(g->by_name, key, t)) table_free(t), t = NULL;
        else g->t[g->n++] = t;
    }
    wr_free((void *)(uintptr_t)key.p);
    return t;
}

static wr_code add_edge(wr_cascades *g, const wr_my_table *child, const wr_my_fk *f, wr_err *err) {
    wr_cascade_table *p = table_of(g, f->db, f->parent), *c = table_of(g, child->db, child->name);
    edge *l = p && c ? wr_realloc(p->edges, ((size_t)p->nedges + 1) * sizeof *l) : NULL;
    if (!l) return wr_nomem(err, "foreign keys", sizeof *l);
    p->edges = l;
    edge *e = &l[p->nedges++];
    *e = (edge){.child = c, .on_delete = f->on_delete, .on_update = f->on_update};
    if (!p->schema || !f->ncols) return WR_OK;
    if (!(e->cols = wr_calloc((size_t)f->ncols, sizeof *e->cols))) return wr_nomem(err, "foreign keys", sizeof *l);
    for (int i = 0; i < f->ncols; i++) {
        int at = -1;
        for (int k = 0; k < p->schema->ncols; k++)
            if (wr_my_name_eq(p->schema->cols[k].name, f->cols[i])) at = k;
        if (at < 0) return e->ncols = 0, WR_OK;
        e->cols[e->ncols++] = at;
    }
    return WR_OK;
}

static wr_code build(wr_cascades *g, wr_err *err) {
    for (int i = 0; i < g->c->now.n; i++) {
        const wr_my_table *t = g->c->now.e[i]->t;
        for (int k = 0; k < t->nfks; k++)
            if (wr_my_fk_changes_rows(&t->fks[k])) WR_TRY(add_edge(g, t, &t->fks[k], err));
    }
    int widest = 0;
    for (int i = 0; i < g->n; i++) {
        wr_cascade_table *t = g->t[i];
        if (!t->id || !t->nedges) continue;
        if (!wr_u64map_put(g->by_id, t->id, t)) return wr_nomem(err, "foreign keys", 64);
        if (t->schema && t->schema->ncols > widest) widest = t->schema->ncols;
    }
    g->nvalues = widest;
    g->before = wr_calloc((size_t)widest + 1, sizeof *g->before);
    g->after = wr_calloc((size_t)widest + 1, sizeof *g->after);
    return g->before && g->after ? WR_OK : wr_nomem(err, "foreign keys", (size_t)widest * sizeof *g->before);
}

wr_code wr_cascades_new(wr_catalogue *c, wr_cascades **ret, wr_err *err) {
    wr_cascades *g = wr_calloc(1, sizeof *g);
    if (!g) return wr_nomem(err, "foreign keys", sizeof *g);
    g->c = c;
    g->by_name = wr_map_new();
    g->by_id = wr_u64map_new();
    wr_code rc = g->by_name && g->by_id ? build(g, err) : wr_nomem(err, "foreign keys", 64);
    if (rc != WR_OK) return wr_cascades_free(g), rc;
    *ret = g;
    return WR_OK;
}

/* ------------------------------------------------------------------ rows */
typedef struct walk {
    wr_cascades *g;
    const wr_cascade_table *cause;
    wr_op op;
    wr_stale_fn *fn;
    void *ctx;
} walk;

static wr_code reach(walk *w, wr_cascade_table *t, bool deleted, wr_err *err);

static wr_code along(walk *w, edge *e, bool deleted, wr_err *err) {
    wr_cascade_table *c = e->child;
    if (c->id && !c->told) {
        c->told = true;
        WR_TRY(w->fn(w->ctx, c->id, w->cause, w->op, err));
    }
    return reach(w, c, deleted && e->on_delete == MY_RULE_CASCADE, err);
}

/* What follows when rows of t are deleted, or any of their columns change. */
static wr_code reach(walk *w, wr_cascade_table *t, bool deleted, wr_err *err) {
    bool *done = deleted ? &t->deleted : &t->updated;
    if (*done) return WR_OK;
    *done = w->g->dirty = true;
    for (int i = 0; i < t->nedges; i++)
        if (deleted ? t->edges[i].on_delete : t->edges[i].on_update) WR_TRY(along(w, &t->edges[i], deleted, err));
    return WR_OK;
}

static bool same_value(wr_type t, const wr_value *a, const wr_value *b) {
    if (a->null || b->null) return a->null && b->null;
    switch (t.kind) {
    case WR_BOOL: return a->b == b->b;
    case WR_INT: case WR_DATE: return a->i32 == b->i32;
    case WR_LONG: case WR_TIMESTAMP: case WR_TIMESTAMPTZ: return a->i64 == b->i64;
    case WR_FLOAT: return memcmp(&a->f32, &b->f32, sizeof a->f32) == 0; /* bit by bit, as the row has them. NOLINT(bugprone-suspicious-memory-comparison,cert-*) */
    case WR_DOUBLE: return memcmp(&a->f64, &b->f64, sizeof a->f64) == 0; /* NOLINT(bugprone-suspicious-memory-comparison,cert-*) */
    case WR_DECIMAL: return a->dec == b->dec;
    default: return wr_slice_eq(a->s, b->s);
    }
}

static bool key_changed(const wr_cascades *g, const wr_cascade_table *t, const edge *e) {
    for (int i = 0; i < e->ncols; i++)
        if (!same_value(t->schema->cols[e->cols[i]].type, &g->before[e->cols[i]], &g->after[e->cols[i]])) return true;
    return e->ncols == 0;
}

wr_code wr_cascades_rows(wr_cascades *g, wr_cascade_table *t, wr_op op, wr_slice before, wr_slice after, wr_stale_fn *fn, void *ctx, wr_err *err) {
    walk w = {.g = g, .cause = t, .op = op, .fn = fn, .ctx = ctx};
    if (op == WR_OP_INSERT) return WR_OK;
    if (op == WR_OP_DELETE) return reach(&w, t, true, err);
    bool read = false;
    for (int i = 0; i < t->nedges && !t->updated; i++) {
        edge *e = &t->edges[i];
        if (!e->on_update || e->told) continue;
        if (!read && before.n && t->schema) {
            WR_TRY(wr_row_read(t->schema, before, g->before, err));
            WR_TRY(wr_row_read(t->schema, after, g->after, err));
            read = true;
        }
        if (read && !key_changed(g, t, e)) continue;
        e->told = g->dirty = true;
        WR_TRY(along(&w, e, false, err));
    }
    return WR_OK;
}

wr_code wr_cascades_unseen(wr_cascades *g, wr_stale_fn *fn, void *ctx, wr_err *err) {
    for (int i = 0; i < g->n; i++) {
        wr_cascade_table *t = g->t[i];
        if (t->id || !t->nedges) continue;
        walk w = {.g = g, .cause = t, .op = WR_OP_DELETE, .fn = fn, .ctx = ctx};
        WR_TRY(reach(&w, t, true, err));
        WR_TRY(reach(&w, t, false, err));
    }
    return WR_OK;
}

void wr_cascades_next(wr_cascades *g) {
    if (!g->dirty) return;
    g->dirty = false;
    for (int i = 0; i < g->n; i++) {
        wr_cascade_table *t = g->t[i];
        t->told = t->deleted = t->updated = false;
        for (int k = 0; k < t->nedges; k++) t->edges[k].told = false;
    }
}
