/* Rules between queue or snapshot and lake: rows are gathered, since SQL is cheap for many and dear for one, and what becomes of each is settled
 * here: into the table, kept out by the filter, or refused into the table of dead letters. */
#include <stdio.h>
#include "impl.h"
#include "weir/base/mem.h"

#define GATHERED_CHANGES (WR_TRANSFORM_ROWS / 2) /* of one member: a change is up to two rows */
#define GATHERED_BYTES (16u << 20)               /* of all members together */
#define KEPT_BYTES (64u << 10)                   /* of one member between its batches */
#define DEAD_LETTER_ID 0x80000001u               /* no source's and no merged table's */
#define DEAD_LETTER_NS "_weir"
#define DEAD_LETTER_NAME "dead_letter"

/* A change that waits for its transform. */
struct gathered { uint8_t op, mode; uint64_t offset; size_t at, nbefore, nafter; };

/* ------------------------------------------------------------------ a member's shape */
static void mark_key(const member *m, char key[32]) { snprintf(key, 32, "rules.%u", m->id); }

wr_code wr_member_shape(wr_pipeline *p, member *m, wr_err *err) {
    wr_transform *t;
    WR_TRY(wr_transform_new(p->rules, m->db, m->name, m->schema, &t, err));
    wr_transform_free(m->transform);
    m->transform = t;
    wr_schema *s = wr_schema_ref(t ? wr_transform_schema(t) : m->schema);
    wr_schema_unref(m->shape);
    m->shape = s;
    wr_rules_mark(p->rules, m->db, m->name, m->mark);
    m->mark_dirty = true;
    return WR_OK;
}

void wr_member_unshape(member *m) {
    wr_transform_free(m->transform);
    wr_schema_unref(m->shape);
    wr_buf_free(&m->gathered_rows);
    wr_free(m->gathered);
}

static wr_code note_marks(wr_pipeline *p, bool known_now, wr_err *err) {
    int n = 0, most = 0;
    for (int i = 0; i < p->ntargets; i++)
        for (int k = 0; k < p->targets[i]->nmembers; k++) most += p->targets[i]->members[k]->mark_dirty;
    if (!most) return WR_OK;
    WR_AUTO wr_fact *facts = wr_malloc((size_t)most * sizeof *facts);
    if (!facts) return wr_nomem(err, "marks of rules", (size_t)most * sizeof *facts);
    for (int i = 0; i < p->ntargets; i++)
        for (int k = 0; k < p->targets[i]->nmembers; k++) {
            member *m = p->targets[i]->members[k];
            if (!m->mark_dirty) continue;
            WR_AUTO char *known = NULL;
            wr_fact *f = &facts[n];
            mark_key(m, f->key);
            WR_TRY(wr_state_get(p->state, f->key, &known, err));
            if (!strcmp(known ? known : "", m->mark)) m->mark_dirty = false;
            else snprintf(f->value, sizeof f->value, "%s", known_now ? m->mark : "?"), n++;
            m->mark_dirty &= !known_now;
        }
    return wr_state_set_all(p->state, facts, n, err);
}

wr_code wr_shape_disown(wr_pipeline *p, wr_err *err) { return note_marks(p, false, err); }
wr_code wr_shape_remember(wr_pipeline *p, wr_err *err) { return note_marks(p, true, err); }

wr_code wr_shape_is_new(wr_pipeline *p, const member *m, bool *ret_new, wr_err *err) {
    char key[32], mark[17];
    WR_AUTO char *known = NULL;
    mark_key(m, key);
    WR_TRY(wr_state_get(p->state, key, &known, err));
    wr_rules_mark(p->rules, m->db, m->name, mark);
    *ret_new = strcmp(known ? known : "", mark) != 0;
    return WR_OK;
}

/* ------------------------------------------------------------------ dead letters */
wr_table *wr_shape_dead_letters(wr_pipeline *p) {
    if (!p->dead_letters) p->dead_letters = wr_lake_table(p->lake, DEAD_LETTER_ID);
    return p->dead_letters;
}

static wr_code dead_letters(wr_pipeline *p, wr_err *err) {
    if (wr_shape_dead_letters(p)) return WR_OK;
    wr_schema *s;
    WR_TRY(wr_dead_letter_schema(&s, err));
    wr_code rc = wr_lake_create(p->lake, DEAD_LETTER_ID, DEAD_LETTER_NS, DEAD_LETTER_NAME, s, &p->dead_letters, err);
    wr_schema_unref(s);
    return rc;
}

/* tx: the transaction whose change it is, 0 for rows of a load; at: the offset that the letter tells. */
static wr_code refuse(wr_pipeline *p, const member *m, wr_slice row, const wr_outcome *o, uint64_t tx, uint64_t at, wr_err *err) {
    WR_TRY(dead_letters(p, err));
    wr_buf_clear(&p->row);
    WR_TRY(wr_dead_letter_row(m->transform, row, o, at, &p->row, err));
    /* rows without a key are told apart by nothing: each is a dead letter of its own */
    return wr_table_apply(p->dead_letters, tx, m->schema->nkey ? WR_APPLY_REPLAY : WR_APPLY_ADD, WR_OP_INSERT, (wr_slice){0}, wr_buf_view(&p->row), err);
}

static wr_code take_back(wr_pipeline *p, const member *m, wr_slice row, uint64_t offset, wr_err *err) {
    if (!wr_shape_dead_letters(p)) return WR_OK;
    wr_buf_clear(&p->row);
    WR_TRY(wr_dead_letter_row(m->transform, row, NULL, 0, &p->row, err));
    return wr_table_apply(p->dead_letters, offset, WR_APPLY_REPLAY, WR_OP_DELETE, wr_buf_view(&p->row), (wr_slice){0}, err);
}

wr_code wr_shape_forget_refused(wr_pipeline *p, const member *m, wr_err *err) {
    if (!wr_shape_dead_letters(p)) return WR_OK;
    const char *source[2] = {m->db, m->name};
    return wr_table_delete_prefix(p->dead_letters, source, 2, err);
}

/* ------------------------------------------------------------------ changes */
static wr_code convert(const member *m, wr_slice *row, wr_buf *scratch, wr_err *err) {
    if (!m->convert) return WR_OK;
    wr_buf_rest(scratch);
    WR_TRY(wr_convert_row(m->convert, *row, scratch, err));
    *row = wr_buf_view(scratch);
    return WR_OK;
}

/* before and after: rows of m->shape, empty where there is none. */
static wr_code apply(wr_pipeline *p, member *m, uint64_t offset, wr_apply_mode mode, wr_op op, wr_slice before, wr_slice after, wr_err *err) {
    if (op != WR_OP_INSERT) WR_TRY(convert(m, &before, &p->row, err));
    if (op != WR_OP_DELETE) WR_TRY(convert(m, &after, &p->row2, err));
    return wr_table_apply(m->target->table, offset, mode, op, before, after, err);
}

/* One change of which it is known what became of both its rows. */
static wr_code settle(wr_pipeline *p, member *m, const struct gathered *g, wr_slice source_before, wr_slice source_after, const wr_outcome *before, const wr_outcome *after, wr_err *err) {
    bool was = before && before->fate == WR_FATE_PASS, is = after && after->fate == WR_FATE_PASS;
    if (before && before->fate == WR_FATE_REFUSED) WR_TRY(take_back(p, m, source_before, g->offset, err));
    if (after && after->fate == WR_FATE_REFUSED) WR_TRY(refuse(p, m, source_after, after, g->offset, g->offset, err));
    if (!was && !is) return wr_ledger_pass(p->ledger, g->offset, g->op, m->id), WR_OK;
    return apply(p, m, g->offset, (wr_apply_mode)g->mode, was && is ? WR_OP_UPDATE : is ? WR_OP_INSERT : WR_OP_DELETE, was ? before->row : (wr_slice){0}, is ? after->row : (wr_slice){0}, err);
}

static wr_code flush_member(wr_pipeline *p, member *m, wr_err *err) {
    wr_slice rows[WR_TRANSFORM_ROWS];
    const wr_outcome *out;
    uint32_t n = 0, at = 0;
    for (uint32_t i = 0; i < m->ngathered; i++) {
        const struct gathered *g = &m->gathered[i];
        const uint8_t *b = m->gathered_rows.p + g->at;
        if (g->op != WR_OP_INSERT) rows[n++] = wr_slice_of(b, g->nbefore);
        if (g->op != WR_OP_DELETE) rows[n++] = wr_slice_of(b + g->nbefore, g->nafter);
    }
    WR_TRY(wr_transform_run(m->transform, rows, n, &out, err));
    for (uint32_t i = 0; i < m->ngathered; i++) {
        const struct gathered *g = &m->gathered[i];
        uint32_t b = at, a = at + (g->op == WR_OP_UPDATE);
        bool has_b = g->op != WR_OP_INSERT, has_a = g->op != WR_OP_DELETE;
        WR_TRY(settle(p, m, g, has_b ? rows[b] : (wr_slice){0}, has_a ? rows[a] : (wr_slice){0}, has_b ? &out[b] : NULL, has_a ? &out[a] : NULL, err));
        at = (has_a ? a : b) + 1;
    }
    p->gathered_bytes -= m->gathered_rows.n;
    m->ngathered = 0;
    wr_buf_clear(&m->gathered_rows);
    /* there may be thousands of tables: none keeps more than a little */
    if (m->gathered_rows.cap > KEPT_BYTES) wr_buf_free(&m->gathered_rows);
    wr_free(m->gathered);
    m->gathered = NULL, m->gathered_cap = 0;
    wr_transform_rest(m->transform);
    return WR_OK;
}

wr_code wr_shape_flush(wr_pipeline *p, wr_err *err) {
    for (int i = 0; p->gathered_bytes && i < p->ntargets; i++)
        for (int k = 0; k < p->targets[i]->nmembers; k++)
            if (p->targets[i]->members[k]->ngathered) WR_TRY(flush_member(p, p->targets[i]->members[k], err));
    return WR_OK;
}

wr_code wr_shape_change(wr_pipeline *p, member *m, wr_apply_mode mode, const wr_change *c, uint64_t offset, wr_err *err) {
    if (!m->transform) return apply(p, m, offset, mode, (wr_op)c->op, c->before, c->after, err);
    if (m->ngathered == m->gathered_cap) {
        uint32_t cap = m->gathered_cap ? m->gathered_cap * 2 : 16;
        struct gathered *g = wr_realloc(m->gathered, cap * sizeof *g);
        if (!g) return wr_nomem(err, "changes", cap * sizeof *g);
        m->gathered = g, m->gathered_cap = cap;
    }
    m->gathered[m->ngathered++] = (struct gathered){c->op, (uint8_t)mode, offset, m->gathered_rows.n, c->before.n, c->after.n};
    wr_buf_put(&m->gathered_rows, c->before.p, c->before.n);
    wr_buf_put(&m->gathered_rows, c->after.p, c->after.n);
    WR_TRY(wr_buf_check(&m->gathered_rows, "changes", err));
    p->gathered_bytes += c->before.n + c->after.n;
    if (p->gathered_bytes > GATHERED_BYTES) return wr_shape_flush(p, err);
    return m->ngathered == GATHERED_CHANGES ? flush_member(p, m, err) : WR_OK;
}

/* ------------------------------------------------------------------ rows of a load */
/* Each reader has a transform of its own: they work side by side. */
wr_code wr_shaper_init(wr_shaper *s, wr_pipeline *p, member *m, wr_load_writer *w, wr_err *err) {
    *s = (wr_shaper){.p = p, .m = m, .w = w};
    return m->transform ? wr_transform_new(p->rules, m->db, m->name, m->schema, &s->transform, err) : WR_OK;
}

void wr_shaper_clear(wr_shaper *s) {
    if (s->transform) __atomic_add_fetch(&s->m->nulled, wr_transform_nulled(s->transform), __ATOMIC_RELAXED);
    wr_transform_free(s->transform);
    wr_buf_free(&s->rows), wr_buf_free(&s->conv);
    wr_free(s->ends);
}

static wr_code write(wr_shaper *s, wr_slice row, wr_err *err) {
    WR_TRY(convert(s->m, &row, &s->conv, err));
    return wr_load_writer_append(s->w, row, err);
}

/* The applying thread waits for the loads; a lock stands in for it. Kept with the load's first commit that says it is complete: wr_load_run. */
static wr_code refuse_loaded(wr_shaper *s, wr_slice row, const wr_outcome *o, wr_err *err) {
    pthread_mutex_lock(&s->p->progress_lock);
    wr_code rc = refuse(s->p, s->m, row, o, 0, s->p->offset, err);
    s->m->load_refused = true;
    pthread_mutex_unlock(&s->p->progress_lock);
    return rc;
}

wr_code wr_shaper_again(wr_shaper *s, wr_err *err) {
    if (!s->m->load_refused) return WR_OK;
    pthread_mutex_lock(&s->p->progress_lock);
    wr_code rc = wr_shape_forget_refused(s->p, s->m, err);
    pthread_mutex_unlock(&s->p->progress_lock);
    return rc;
}

wr_code wr_shaper_flush(wr_shaper *s, wr_err *err) {
    if (!s->n) return WR_OK;
    wr_slice rows[WR_TRANSFORM_ROWS];
    const wr_outcome *out;
    for (uint32_t i = 0; i < s->n; i++) rows[i] = wr_slice_of(s->rows.p + (i ? s->ends[i - 1] : 0), s->ends[i] - (i ? s->ends[i - 1] : 0));
    WR_TRY(wr_transform_run(s->transform, rows, s->n, &out, err));
    for (uint32_t i = 0; i < s->n; i++) {
        if (out[i].fate == WR_FATE_PASS) WR_TRY(write(s, out[i].row, err));
        else if (out[i].fate == WR_FATE_REFUSED) WR_TRY(refuse_loaded(s, rows[i], &out[i], err));
    }
    s->n = 0;
    wr_buf_clear(&s->rows);
    return WR_OK;
}

wr_code wr_shaper_row(wr_shaper *s, wr_slice row, wr_err *err) {
    if (!s->transform) return write(s, row, err);
    if (!s->ends && !(s->ends = wr_malloc(WR_TRANSFORM_ROWS * sizeof *s->ends))) return wr_nomem(err, "rows", WR_TRANSFORM_ROWS * sizeof *s->ends);
    wr_buf_put(&s->rows, row.p, row.n);
    WR_TRY(wr_buf_check(&s->rows, "rows", err));
    s->ends[s->n++] = s->rows.n;
    return s->n == WR_TRANSFORM_ROWS || s->rows.n > GATHERED_BYTES ? wr_shaper_flush(s, err) : WR_OK;
}
