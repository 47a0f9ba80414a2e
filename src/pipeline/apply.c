/* Queue to lake. Everything here: @thread applying */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "impl.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

#define LOAD_REST 10 /* times as long as a load took, before rows that changed without row events are read again */

/* ------------------------------------------------------------------ members and targets */
static void member_free(member *m) {
    if (!m) return;
    wr_member_reset_load(m);
    wr_member_unshape(m);
    wr_convert_free(m->convert);
    wr_schema_unref(m->schema);
    wr_free(m->db), wr_free(m->name), wr_free(m->def);
    wr_free(m);
}

static void target_free(target *t) {
    wr_pos_clear(&t->from), wr_pos_clear(&t->due_pos), wr_pos_clear(&t->overdue);
    for (int i = 0; i < t->nmembers; i++) member_free(t->members[i]);
    wr_free(t->members);
    wr_free(t->ns), wr_free(t->name);
    wr_free(t);
}

static target *find_target(wr_pipeline *p, wr_route r) {
    for (int i = 0; i < p->ntargets; i++)
        if (!strcmp(p->targets[i]->ns, r.ns) && !strcmp(p->targets[i]->name, r.name)) return p->targets[i];
    return NULL;
}

/* A merged table's id must not meet a source table's and must be the same at every start. */
static uint32_t merged_id(wr_route r) {
    return 0x40000000u | ((uint32_t)wr_hash64(r.name, strlen(r.name), wr_hash64(r.ns, strlen(r.ns), 0)) & 0x3fffffffu);
}

static wr_code target_new(wr_pipeline *p, wr_route r, uint32_t id, target **ret, wr_err *err) {
    target *t = wr_calloc(1, sizeof *t);
    target **list = wr_realloc(p->targets, ((size_t)p->ntargets + 1) * sizeof *list);
    if (list) p->targets = list;
    if (t) t->ns = wr_strdup(r.ns), t->name = wr_strdup(r.name);
    if (!t || !list || !t->ns || !t->name) return t ? target_free(t) : (void)0, wr_nomem(err, "lake table", 256);
    t->merged = r.merged;
    t->id = id;
    p->targets[p->ntargets++] = t;
    *ret = t;
    return WR_OK;
}

static void target_remove(wr_pipeline *p, target *t) {
    for (int i = 0; i < p->ntargets; i++)
        if (p->targets[i] == t) {
            p->targets[i] = p->targets[--p->ntargets];
            break;
        }
    target_free(t);
}

/* rc: why it does not come to a target. */
static wr_code drop_member(wr_pipeline *p, member *m, wr_code rc) {
    wr_u64map_del(p->members, m->id);
    member_free(m);
    return rc;
}

static wr_code add_member(target *t, member *m, wr_err *err) {
    member **list = wr_realloc(t->members, ((size_t)t->nmembers + 1) * sizeof *list);
    if (!list) return wr_nomem(err, "lake table", 64);
    t->members = list;
    t->members[t->nmembers++] = m;
    m->target = t;
    return WR_OK;
}

/* Takes the member out of target and pipeline; the target may be left without any. */
static void remove_member(wr_pipeline *p, member *m) {
    target *t = m->target;
    for (int i = 0; i < t->nmembers; i++)
        if (t->members[i] == m) t->members[i] = t->members[--t->nmembers];
    wr_u64map_del(p->members, m->id);
    member_free(m);
}

static wr_code set_definition(wr_pipeline *p, member *m, const wr_ddl *d, wr_err *err) {
    char *db = wr_strdup(d->db), *name = wr_strdup(d->name), *def = wr_strdup(d->def);
    if (!db || !name || !def) return wr_free(db), wr_free(name), wr_free(def), wr_nomem(err, "table definition", 256);
    wr_free(m->db), wr_free(m->name), wr_free(m->def);
    m->db = db, m->name = name, m->def = def;
    wr_schema *s = wr_schema_ref(d->schema);
    wr_schema_unref(m->schema);
    m->schema = s;
    m->hides_changes = wr_source_hides_changes(p->source, def);
    return p->ledger ? wr_ledger_name(p->ledger, m->id, db, name, err) : WR_OK;
}


static wr_code member_new(wr_pipeline *p, const wr_ddl *d, member **ret, wr_err *err) {
    member *m = wr_calloc(1, sizeof *m);
    if (!m) return wr_nomem(err, "table", sizeof *m);
    m->id = d->table;
    wr_code rc = set_definition(p, m, d, err);
    if (rc == WR_OK && !wr_u64map_put(p->members, m->id, m)) rc = wr_nomem(err, "table", sizeof *m);
    if (rc != WR_OK) return member_free(m), rc;
    *ret = m;
    return WR_OK;
}

typedef struct newest { wr_pipeline *p; uint32_t table; bool fits; char *db, *name; } newest;

static wr_code try_rules(newest *n, const wr_ddl *d, wr_err *err) {
    wr_transform *t;
    n->fits = wr_transform_new(n->p->rules, d->db, d->name, d->schema, &t, err) == WR_OK;
    if (n->fits) wr_transform_free(t);
    wr_err_clear(err);
    return WR_OK;
}

/* As far as the queue goes. */
static wr_code fits_newest(void *ctx, const wr_ddl *d, wr_err *err) {
    newest *n = ctx;
    if (d->table != n->table || !d->schema) return WR_OK;
    wr_free(n->db), wr_free(n->name);
    n->db = wr_strdup(d->db), n->name = wr_strdup(d->name);
    return n->db && n->name ? try_rules(n, d, err) : wr_nomem(err, "table name", 64);
}

/* As the server has it, where the change has not been captured yet. */
static wr_code fits_present(void *ctx, const wr_ddl *d, wr_err *err) {
    newest *n = ctx;
    return strcmp(d->db, n->db) || strcmp(d->name, n->name) ? WR_OK : try_rules(n, d, err);
}

static void pass_over(void *ctx, const wr_finding *f) { (void)ctx, (void)f; }

/* Rules that were changed because of a schema change further on in the queue do not fit the schema in front of it: then the table waits for that change, which loads it.
 * So it does for a change that is not even captured yet.
 * *err: why they do not fit, and the answer when they do not fit the last one either. */
static wr_code wait_for_rules(wr_pipeline *p, member *m, wr_err *err) {
    wr_err why = *err;
    newest n = {.p = p, .table = m->id};
    wr_err_clear(err);
    wr_code rc = wr_state_schema_load(p->state, INT64_MAX, fits_newest, &n, err);
    if (rc == WR_OK && !n.fits && n.db) rc = wr_source_check(p->source, &(wr_check_sink){.ctx = &n, .finding = pass_over, .table = fits_present}, err);
    wr_free(n.db), wr_free(n.name);
    WR_TRY(rc);
    if (!n.fits) return *err = why, why.code;
    m->rules_wait = true;
    wr_transform_free(m->transform);
    m->transform = NULL;
    wr_schema *s = wr_schema_ref(m->schema);
    wr_schema_unref(m->shape);
    m->shape = s;
    return WR_OK;
}

/* Of a table that is taken up again. */
static wr_code restore_shape(wr_pipeline *p, member *m, wr_err *err) {
    WR_TRY(wr_shape_is_new(p, m, &m->rules_changed, err));
    wr_code rc = wr_member_shape(p, m, err);
    return rc == WR_E_CONFIG && m->rules_changed ? wait_for_rules(p, m, err) : rc;
}

/* Takes a schema change over. A member whose rules wait for a schema further on may not have met it yet. */
static wr_code redefine(wr_pipeline *p, member *m, const wr_ddl *d, wr_err *err) {
    WR_TRY(set_definition(p, m, d, err));
    wr_code rc = wr_member_shape(p, m, err);
    if (rc == WR_OK) return m->rules_wait = false, WR_OK;
    return m->rules_wait && rc == WR_E_CONFIG ? wait_for_rules(p, m, err) : rc;
}

/* previous: of the lake, NULL when nothing of it stays. was: the rows' schema before a change of type whose old values stay; else NULL. */
static wr_code target_schema(const target *t, const wr_schema *previous, const wr_schema *was, wr_schema **ret, wr_err *err) {
    if (!t->merged && previous && (was || wr_schema_keeps(previous))) return wr_keep_schema(previous, was, t->members[0]->shape, ret, err);
    if (!t->merged) return *ret = wr_schema_ref(t->members[0]->shape), WR_OK;
    WR_AUTO const wr_schema **list = wr_malloc((size_t)t->nmembers * sizeof *list);
    if (!list) return wr_nomem(err, "merged schema", (size_t)t->nmembers * sizeof *list);
    for (int i = 0; i < t->nmembers; i++) list[i] = t->members[i]->shape;
    wr_code rc = wr_merge_schema(list, t->nmembers, previous, ret, err);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "merging into %s.%s", t->ns, t->name);
}

wr_code wr_target_bind(wr_pipeline *p, target *t, wr_err *err) {
    const wr_schema *s = wr_table_schema(t->table);
    for (int i = 0; i < t->nmembers; i++) {
        member *m = t->members[i];
        wr_convert_free(m->convert);
        m->convert = NULL;
        if (m->rules_wait) continue; /* takes no rows */
        if (t->merged) WR_TRY(wr_convert_new(m->shape, s, m->db, m->name, &m->convert, err));
        else if (wr_schema_keeps(s)) WR_TRY(wr_convert_new(m->shape, s, NULL, NULL, &m->convert, err));
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ commit */
static wr_code mark_due(wr_pipeline *p, const target *t, bool due, wr_err *err) {
    char key[32];
    snprintf(key, sizeof key, "due.%u", t->id);
    return wr_state_set(p->state, key, due ? "1" : "", err);
}

static wr_code mark_unproven(wr_pipeline *p, target *t, bool yes, wr_err *err) {
    char key[32];
    snprintf(key, sizeof key, "unproven.%u", t->id);
    WR_TRY(wr_state_set(p->state, key, yes ? "1" : "", err));
    t->unproven_noted = yes;
    return WR_OK;
}

wr_code wr_apply_proven(wr_pipeline *p, wr_err *err) {
    for (int i = 0; i < p->ntargets; i++)
        if (p->targets[i]->unproven_noted && !p->targets[i]->unproven) WR_TRY(mark_unproven(p, p->targets[i], false, err));
    return WR_OK;
}

wr_code wr_apply_due(wr_pipeline *p, target *t, wr_err *err) {
    WR_TRY(mark_due(p, t, true, err));
    WR_TRY(wr_pos_copy(&t->due_pos, &p->pos, err));
    t->due = true;
    t->next_load_us = 0;
    return WR_OK;
}

/* Takes what a compaction has made, in a commit of its own; begins the next. */
static wr_code govern(wr_pipeline *p, bool wait, wr_err *err) {
    bool changed;
    WR_TRY(wr_lake_govern(p->lake, wait, &changed, err));
    return changed ? wr_lake_commit(p->lake, p->offset, &p->pos, p->event_us, err) : WR_OK;
}

static wr_code commit(wr_pipeline *p, wr_err *err) {
    WR_TRY(wr_shape_flush(p, err));
    if (p->offset == p->committed_offset && !wr_lake_dirty(p->lake)) {
        /* the ledger may have settled what it still held at the last commit; a full queue brings nothing for another one */
        WR_TRY(wr_queue_release(p->queue, wr_account_released(p), err));
        return govern(p, false, err);
    }
    WR_TRY(wr_shape_disown(p, err));
    WR_TRY(wr_lake_commit(p->lake, p->offset, &p->pos, p->event_us, err));
    wr_account_committed(p);
    if (WR_FAULT("pipeline.after_commit")) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "injected: after commit");
    for (int i = 0; i < p->ntargets; i++)
        if (p->targets[i]->due_begun) {
            WR_TRY(mark_due(p, p->targets[i], false, err));
            p->targets[i]->due_begun = false;
        }
    WR_TRY(wr_apply_proven(p, err));
    WR_TRY(wr_shape_remember(p, err));
    wr_pos copy = {0};
    WR_TRY(wr_pos_copy(&copy, &p->pos, err));
    wr_prove_tell(p);
    wr_status_tables(p); /* first: nobody may see the new position beside a table's old state */
    pthread_mutex_lock(&p->lock_mu);
    wr_pos_clear(&p->committed);
    p->committed = copy;
    p->committed_offset = p->offset;
    p->committed_event_us = p->event_us;
    p->committed_at_us = wr_now_us();
    pthread_mutex_unlock(&p->lock_mu);
    WR_TRY(wr_queue_release(p->queue, wr_account_released(p), err));
    return govern(p, false, err);
}

/* One that takes longer than the interval would come again after every single transaction, and no backlog ever shrink: at most half the time goes into commits. */
wr_code wr_apply_commit(wr_pipeline *p, wr_err *err) {
    int64_t began_us = wr_mono_us();
    wr_code rc = commit(p, err);
    if (rc == WR_OK) rc = wr_repair_committed(p, err);
    if (rc == WR_OK) rc = wr_gap_settle(p, err);
    int64_t now_us = wr_mono_us(), due_us = began_us + p->o.commit_every_us, rested_us = now_us + (now_us - began_us);
    p->next_commit_us = due_us > rested_us ? due_us : rested_us;
    return rc;
}

/* ------------------------------------------------------------------ changes */
/* The end position of the transaction being read, looked up ahead with a reader of its own: only tables without a key need it, and only
 * until they have passed the position at which they were loaded. */
static wr_code peek_end(wr_pipeline *p, uint64_t offset, wr_err *err) {
    if (p->peek_offset == offset) return WR_OK;
    wr_queue_reader *r;
    WR_TRY(wr_queue_reader_new(p->queue, offset - 1, &r, err));
    wr_queue_record rec;
    wr_queue_reader_only_ends(r);
    wr_code rc = wr_queue_read(r, 0, &rec, err);
    if (rc == WR_OK) wr_pos_clear(&p->peek_pos), rc = wr_pos_copy(&p->peek_pos, rec.pos, err);
    if (rc == WR_OK) p->peek_offset = offset;
    wr_queue_reader_free(r);
    return rc;
}

/* Whether a load holds what this transaction did to the member, from its first row on. A keyed load of a table that foreign keys change must know that too: an insert repeated
 * as an upsert would bring back what a cascade behind it has deleted. */
static wr_code already_loaded(wr_pipeline *p, const member *m, uint64_t offset, bool *ret_loaded, wr_err *err) {
    *ret_loaded = false;
    const wr_pos *seen = m->exact ? &m->until : &m->target->from;
    if (m->target->phase != PHASE_REPLAY || wr_pos_cmp(&p->pos, seen) >= 0) return WR_OK;
    WR_TRY(peek_end(p, offset, err));
    *ret_loaded = wr_pos_cmp(&p->peek_pos, seen) <= 0;
    return WR_OK;
}

/* Nothing of it goes to the lake: a load brings it. */
static wr_code pass(wr_pipeline *p, const wr_queue_record *rec, const wr_change *c) { return wr_ledger_pass(p->ledger, rec->offset, c->op, c->table), WR_OK; }

static wr_code on_change(wr_pipeline *p, const wr_queue_record *rec, wr_err *err) {
    wr_change c;
    wr_rd rd = wr_rd_of(rec->payload.p, rec->payload.n);
    WR_TRY(wr_change_decode(&rd, &c, err));
    member *m = wr_u64map_get(p->members, c.table);
    if (!m) return wr_fail(err, WR_E_SCHEMA, WR_RETRY_NO, "queue transaction %" PRIu64 " changes table %u, which no earlier record defines", rec->offset, c.table);
    target *t = m->target;
    p->in_tx = true;
    wr_ledger_note(p->ledger, WR_CONSUMED, rec->payload);
    if (t->phase == PHASE_WAIT) return pass(p, rec, &c);
    if (c.schema_version != m->schema->version)
        return wr_fail(err, WR_E_SCHEMA, WR_RETRY_NO, "queue transaction %" PRIu64 ": a row of %s.%s has schema version %u, the table is at %u", rec->offset, m->db, m->name,
                       c.schema_version, m->schema->version);
    bool loaded;
    WR_TRY(already_loaded(p, m, rec->offset, &loaded, err));
    if (loaded) return pass(p, rec, &c);
    if (t->phase == PHASE_LOAD && !wr_table_schema(t->table)->nkey) return pass(p, rec, &c); /* of the very transaction that asks for the load: read by it, at a position behind */
    if (t->due && !wr_table_schema(t->table)->nkey) return pass(p, rec, &c); /* old rows can only be found by all their values, and those are not known: the load brings them */
    __atomic_add_fetch(&p->rows_applied, 1, __ATOMIC_RELAXED);
    return wr_shape_change(p, m, t->due || t->repaired || t->unproven || (t->phase == PHASE_REPLAY && !m->exact) ? WR_APPLY_REPLAY : WR_APPLY_STRICT, &c, rec->offset, err);
}

/* Rows changed without row events; never more than a mark here: all that happens until the load begins is one load. */
static wr_code on_stale(wr_pipeline *p, const wr_queue_record *rec, wr_err *err) {
    wr_rd rd = wr_rd_of(rec->payload.p, rec->payload.n);
    uint32_t id = wr_rd_u32(&rd);
    wr_slice why = wr_rd_slice(&rd);
    if (rd.bad) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "queue transaction %" PRIu64 ": a record of changes without row events is cut short", rec->offset);
    member *m = wr_u64map_get(p->members, id);
    if (!m) return wr_fail(err, WR_E_SCHEMA, WR_RETRY_NO, "queue transaction %" PRIu64 " changes table %u, which no earlier record defines", rec->offset, id);
    target *t = m->target;
    if (t->due || t->phase == PHASE_LOAD || t->phase == PHASE_WAIT) return WR_OK; /* a load that has not begun yet */
    WR_TRY(wr_shape_flush(p, err));
    bool loaded;
    WR_TRY(already_loaded(p, m, rec->offset, &loaded, err));
    if (loaded) return WR_OK;
    if (p->o.on_rowless == WR_ON_ROWLESS_STOP) {
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "%s.%s changed without row events: %.*s", m->db, m->name, (int)why.n, (const char *)why.p);
        return wr_err_cure(err, "set policy.rowless_change: resnapshot to read the table again, or delete and update its rows in SQL instead of by foreign key");
    }
    WR_TRY(mark_due(p, t, true, err));
    WR_TRY(wr_decide_stale(p, m->db, m->name, why, err));
    WR_TRY(wr_pos_copy(&t->due_pos, &p->pos, err));
    t->due = true;
    wr_log(WR_LOG_INFO, "%s.%s: %.*s; it will be read again", m->db, m->name, (int)why.n, (const char *)why.p);
    return WR_OK;
}

/* ------------------------------------------------------------------ schema events */
wr_code wr_load_begin(wr_pipeline *p, target *t, const wr_schema *schema, phase to, wr_err *err) {
    for (int i = 0; i < t->nmembers; i++) {
        wr_member_reset_load(t->members[i]);
        WR_TRY(wr_shape_forget_refused(p, t->members[i], err));
    }
    t->phase = to;
    t->epoch = wr_source_epoch(p->source);
    t->load_committed_us = 0;
    wr_pos_clear(&t->from), wr_pos_clear(&t->overdue);
    if (to == PHASE_LOAD) {
        p->load_wanted = true;
        t->due_begun |= t->due; /* whatever was the reason, this load reads it */
        t->due = t->unproven = false;
    }
    WR_AUTO char *info = NULL;
    WR_TRY(wr_load_info(t, &info, err));
    wr_table_discard(t->table); /* this transaction's: the rows of a shard that left before, maybe */
    WR_TRY(wr_table_load_begin(t->table, schema, info, err));
    return wr_target_bind(p, t, err);
}

/* What main shows stays until a schema change in the queue brings a load. */
static wr_code await(wr_pipeline *p, target *t, wr_err *err) {
    wr_schema *s = wr_schema_ref(wr_table_schema(t->table));
    wr_code rc = wr_load_begin(p, t, s, PHASE_WAIT, err);
    wr_schema_unref(s);
    return rc;
}

/* The table's rows must be read again: under its present schema, beside what main shows. */
static wr_code reload(wr_pipeline *p, target *t, wr_err *err) {
    wr_schema *s;
    for (int i = 0; i < t->nmembers; i++)
        if (t->members[i]->rules_wait) return await(p, t, err); /* no row is read without its rules */
    WR_TRY(target_schema(t, t->merged ? wr_table_schema(t->table) : NULL, NULL, &s, err));
    wr_code rc = wr_load_begin(p, t, s, PHASE_LOAD, err);
    wr_schema_unref(s);
    return rc;
}

/* Takes the target's new schema over without reading rows, or reloads when that is not enough. was: as in target_schema. */
static wr_code evolve(wr_pipeline *p, target *t, bool fill, const wr_schema *was, wr_err *err) {
    wr_schema *s;
    const wr_schema *now = wr_table_schema(t->table);
    WR_TRY(target_schema(t, now, was, &s, err));
    bool lost = false; /* a merged table: a column that vanished or changed identity somewhere needs that shard's rows anew */
    for (int i = 0; t->merged && i < now->ncols; i++) lost |= wr_schema_find_id(s, now->cols[i].id) < 0;
    if (t->merged) lost |= s->nkey != now->nkey;
    wr_code rc = t->merged && (fill || lost) ? WR_E_UNSUPPORTED : wr_table_alter(t->table, s, fill, err);
    if (rc == WR_E_UNSUPPORTED) wr_err_clear(err), rc = wr_load_begin(p, t, s, PHASE_LOAD, err);
    else if (rc == WR_OK) rc = wr_target_bind(p, t, err);
    wr_schema_unref(s);
    return rc;
}

static wr_code on_create(wr_pipeline *p, const wr_ddl *d, wr_err *err) {
    wr_route r = wr_routes_find(p->routes, d->db, d->name);
    target *t = find_target(p, r);
    if (t && !r.merged) return wr_fail(err, WR_E_SCHEMA, WR_RETRY_NO, "table %s.%s is created although it exists", d->db, d->name);
    member *m;
    WR_TRY(member_new(p, d, &m, err));
    bool fresh = !t;
    wr_code rc = wr_member_shape(p, m, err);
    if (rc == WR_OK && fresh) rc = target_new(p, r, r.merged ? merged_id(r) : d->table, &t, err);
    if (rc == WR_OK && fresh && r.merged && (t->table = wr_lake_table(p->lake, t->id))) fresh = false; /* all its members were gone when this run began */
    if (rc == WR_OK) rc = add_member(t, m, err);
    if (rc != WR_OK) return drop_member(p, m, rc);
    if (!fresh && (t->phase == PHASE_WAIT || (t->phase == PHASE_STREAM && wr_table_load_info(t->table)))) return reload(p, t, err);
    if (!fresh) return d->rows == WR_ROWS_RELOAD || t->phase == PHASE_LOAD ? reload(p, t, err) : evolve(p, t, false, NULL, err);
    wr_schema *s;
    WR_TRY(target_schema(t, NULL, NULL, &s, err));
    rc = wr_lake_create(p->lake, t->id, t->ns, t->name, s, &t->table, err);
    if (rc == WR_OK) rc = d->rows == WR_ROWS_RELOAD ? wr_load_begin(p, t, s, PHASE_LOAD, err) : wr_target_bind(p, t, err);
    wr_schema_unref(s);
    return rc;
}

static wr_code refuse_rowless(wr_pipeline *p, const wr_ddl *d, wr_err *err) {
    if (p->o.on_rowless != WR_ON_ROWLESS_STOP || p->gap) return WR_OK; /* behind a gap somebody has asked for it */
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "%s.%s changed without row events: %.400s", d->db, d->name, d->why ? d->why : "");
    return wr_err_cure(err, "set policy.rowless_change: resnapshot to read the table again");
}

/* A column whose name has another id and another type: -1 = there is none. */
static int retyped(const wr_schema *was, const wr_schema *now) {
    for (int i = 0; i < was->ncols; i++) {
        int j = wr_schema_find(now, was->cols[i].name);
        if (j >= 0 && now->cols[j].id != was->cols[i].id && !wr_type_eq(now->cols[j].type, was->cols[i].type)) return i;
    }
    return -1;
}

static wr_code refuse_type(const wr_ddl *d, const wr_schema *was, int col, wr_err *err) {
    char a[32], b[32];
    const wr_column *c = &was->cols[col];
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "%s.%s: column %s changes from %s to %s, which Iceberg cannot follow: %.300s", d->db, d->name, c->name, wr_type_name(c->type, a),
            wr_type_name(d->schema->cols[wr_schema_find(d->schema, c->name)].type, b), d->why ? d->why : "");
    return wr_err_cure(err, "set policy.type_change: evolve to read the table again under its new type, or lenient to keep the old column beside a new one");
}

/* Old values can stay only where rows are found by a key that the change does not touch. */
static bool can_keep(const target *t, const wr_schema *was, const wr_schema *now) {
    for (int i = 0; i < was->ncols; i++) {
        int j = wr_schema_find(now, was->cols[i].name);
        if (j >= 0 && now->cols[j].id != was->cols[i].id && (now->cols[j].key_ord || was->cols[i].key_ord)) return false;
    }
    return !t->merged && was->nkey && (t->phase == PHASE_STREAM || t->phase == PHASE_REPLAY);
}

static wr_code alter(wr_pipeline *p, member *m, const wr_ddl *d, const wr_schema *was, const wr_schema *shape, wr_err *err) {
    target *t = m->target;
    int col = retyped(was, d->schema);
    if (col >= 0 && p->o.on_type == WR_ON_TYPE_STOP) return refuse_type(d, was, col, err);
    WR_TRY(redefine(p, m, d, err));
    bool again = m->transform && !wr_transform_keeps(m->transform, was), lenient = d->rows == WR_ROWS_RETYPED && p->o.on_type == WR_ON_TYPE_LENIENT && !again && can_keep(t, was, m->schema);
    for (int i = 0; t->merged && i < shape->ncols; i++) { /* in a merged table, columns meet by name */
        int j = wr_schema_find(m->shape, shape->cols[i].name);
        again |= j < 0 || m->shape->cols[j].id != shape->cols[i].id;
    }
    if (col >= 0) WR_TRY(wr_decide(p, "type_change", lenient ? "lenient" : "evolve", d, err));
    if (d->rows == WR_ROWS_RELOAD) {
        WR_TRY(refuse_rowless(p, d, err));
        if (col < 0 && !p->gap) WR_TRY(wr_decide(p, "rowless_change", "resnapshot", d, err));
    }
    again |= d->rows == WR_ROWS_RELOAD || (d->rows == WR_ROWS_RETYPED && !lenient) || t->phase == PHASE_WAIT || t->phase == PHASE_LOAD;
    return again ? reload(p, t, err) : evolve(p, t, d->rows == WR_ROWS_FILL, lenient ? was : NULL, err);
}

static wr_code on_alter(wr_pipeline *p, member *m, const wr_ddl *d, wr_err *err) {
    wr_schema *was = wr_schema_ref(m->schema), *shape = wr_schema_ref(m->shape);
    wr_code rc = alter(p, m, d, was, shape, err);
    wr_schema_unref(was), wr_schema_unref(shape);
    return rc;
}

/* stays: the source still has the table, it is only not captured any more. */
static wr_code leave(wr_pipeline *p, member *m, bool stays, wr_err *err) {
    target *t = m->target;
    WR_TRY(wr_shape_forget_refused(p, m, err));
    wr_account_leave(p, m);
    bool mirror = p->o.on_drop == WR_ON_DROP_MIRROR && !stays;
    if (t->merged) {
        const char *shard[2] = {m->db, m->name};
        if (!stays) WR_TRY(wr_decide_drop(p, m->db, m->name, mirror, err));
        if (mirror && (t->phase == PHASE_STREAM || t->phase == PHASE_REPLAY)) WR_TRY(wr_table_delete_prefix(t->table, shard, 2, err));
        bool again = t->phase == PHASE_WAIT || t->phase == PHASE_LOAD;
        remove_member(p, m);
        return again && t->nmembers ? reload(p, t, err) : WR_OK;
    }
    if (!stays) WR_TRY(wr_decide_drop(p, m->db, m->name, mirror, err));
    WR_TRY(wr_table_drop(t->table, mirror ? WR_DROP_MIRROR : WR_DROP_KEEP, err));
    wr_u64map_del(p->members, m->id);
    target_remove(p, t);
    return WR_OK;
}

static wr_code on_rename(wr_pipeline *p, member *m, const wr_ddl *d, wr_err *err) {
    target *t = m->target;
    WR_TRY(wr_shape_forget_refused(p, m, err));
    char mark[17];
    wr_rules_mark(p->rules, d->db, d->name, mark);
    bool other_rules = strcmp(mark, m->mark) || (m->transform && wr_transform_has_dead_letters(m->transform)); /* what was refused is known by the old name */
    wr_route r = wr_routes_find(p->routes, d->db, d->name);
    if (t->merged || r.merged) { /* the shard's name is in its rows */
        bool same = t->merged && r.merged && !strcmp(t->ns, r.ns) && !strcmp(t->name, r.name);
        if (same) {
            WR_TRY(redefine(p, m, d, err));
            return reload(p, t, err);
        }
        WR_TRY(leave(p, m, false, err));
        wr_ddl create = *d;
        create.kind = WR_DDL_CREATE, create.rows = WR_ROWS_RELOAD;
        return on_create(p, &create, err);
    }
    char *ns = wr_strdup(d->db), *name = wr_strdup(d->name);
    if (!ns || !name) return wr_free(ns), wr_free(name), wr_nomem(err, "table name", 64);
    wr_free(t->ns), wr_free(t->name);
    t->ns = ns, t->name = name;
    WR_TRY(wr_table_rename(t->table, ns, name, err));
    if (other_rules) {
        WR_TRY(redefine(p, m, d, err));
        return reload(p, t, err);
    }
    bool changed = d->schema->version != m->schema->version;
    if (!changed && t->phase != PHASE_WAIT) return redefine(p, m, d, err);
    return on_alter(p, m, d, err);
}

static wr_code on_truncate(wr_pipeline *p, member *m, uint64_t offset, wr_err *err) {
    target *t = m->target;
    bool loaded;
    WR_TRY(already_loaded(p, m, offset, &loaded, err));
    if (loaded) return WR_OK;
    if (t->phase == PHASE_WAIT || t->phase == PHASE_LOAD) return reload(p, t, err);
    WR_TRY(wr_shape_forget_refused(p, m, err));
    const char *shard[2] = {m->db, m->name};
    return t->merged ? wr_table_delete_prefix(t->table, shard, 2, err) : wr_table_truncate(t->table, err);
}

static wr_code on_ddl(wr_pipeline *p, const wr_queue_record *rec, wr_err *err) {
    wr_ddl d = {0};
    wr_rd rd = wr_rd_of(rec->payload.p, rec->payload.n);
    WR_TRY(wr_ddl_decode(&rd, &d, err));
    wr_code rc = WR_OK;
    member *m = wr_u64map_get(p->members, d.table);
    bool hidden = d.kind == WR_DDL_HIDDEN || (d.kind == WR_DDL_DROP && !m); /* a remembered table that never had rows here, or its end */
    if (!hidden) rc = wr_shape_flush(p, err);
    /* A load starts from a lake in which everything before it is committed. */
    if (rc == WR_OK && !hidden && !p->in_tx && wr_lake_dirty(p->lake) && p->offset != p->committed_offset) rc = wr_apply_commit(p, err);
    if (rc == WR_OK && !hidden && d.kind != WR_DDL_CREATE && !m)
        rc = wr_fail(err, WR_E_SCHEMA, WR_RETRY_NO, "a schema event for table %u (%s.%s), which no earlier record defines", d.table, d.db, d.name);
    if (rc == WR_OK && !hidden) {
        switch (d.kind) {
        case WR_DDL_CREATE: rc = on_create(p, &d, err); break;
        case WR_DDL_ALTER: rc = on_alter(p, m, &d, err); break;
        case WR_DDL_RENAME: rc = on_rename(p, m, &d, err); break;
        case WR_DDL_DROP: rc = leave(p, m, d.rows == WR_ROWS_LEFT, err); break;
        case WR_DDL_TRUNCATE: rc = on_truncate(p, m, rec->offset, err); break;
        default: rc = wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "schema event of unknown kind %u", d.kind);
        }
    }
    if (!hidden) p->in_tx = p->tx_has_ddl = true;
    if (rc != WR_OK) wr_err_in(err, "applying to %s.%s: %.120s", d.db, d.name, d.why ? d.why : "schema change");
    else if (!hidden) wr_log(WR_LOG_INFO, "%s.%s: %.200s", d.db, d.name, d.why ? d.why : "new table");
    wr_ddl_clear(&d);
    return rc;
}

/* ------------------------------------------------------------------ transaction ends */
static bool replayed(const target *t, const wr_pos *pos) {
    for (int i = 0; i < t->nmembers; i++)
        if (wr_pos_cmp(pos, &t->members[i]->until) < 0) return false;
    return true;
}

/* Loads whose end the queue has passed become what main shows, with the next commit. */
static wr_code publish_replayed(wr_pipeline *p, bool *ret_any, wr_err *err) {
    for (int i = 0; i < p->ntargets; i++) {
        target *t = p->targets[i];
        if (t->phase != PHASE_REPLAY || !replayed(t, &p->pos)) continue;
        WR_TRY(wr_shape_flush(p, err));
        WR_TRY(wr_table_publish(t->table, err));
        t->phase = PHASE_STREAM;
        for (int k = 0; k < t->nmembers; k++) wr_member_reset_load(t->members[k]);
        *ret_any = true;
    }
    return WR_OK;
}

static wr_code publish(wr_pipeline *p, wr_err *err) {
    bool any = false;
    WR_TRY(publish_replayed(p, &any, err));
    return any ? wr_apply_commit(p, err) : WR_OK;
}

/* Whether a position of the source that was asked for now says anything about where the queue is: the server has gone on from its end, and no gap lies between. */
static bool comparable(wr_pipeline *p) {
    pthread_mutex_lock(&p->lock_mu);
    bool yes = p->verified && p->offset >= p->gap_offset;
    pthread_mutex_unlock(&p->lock_mu);
    return yes;
}

/* Tables that new patterns name have been met in the queue. */
static bool all_joined(wr_pipeline *p) {
    pthread_mutex_lock(&p->lock_mu);
    bool yes = !p->joining && p->offset >= p->join_offset;
    pthread_mutex_unlock(&p->lock_mu);
    return yes;
}

/* The stream has passed the place at which the source's table was not the one that the queue knows: no schema change will come. */
static wr_code check_waiting(wr_pipeline *p, wr_err *err) {
    for (int i = 0; i < p->ntargets && comparable(p) && all_joined(p); i++) { /* it may be just leaving */
        const target *t = p->targets[i];
        if (t->phase != PHASE_WAIT || !t->overdue.file[0] || wr_pos_cmp(&p->pos, &t->overdue) < 0) continue;
        wr_fail(err, WR_E_SCHEMA, WR_RETRY_NO, "lake table %s.%s cannot be read again: %s, and no schema change in the binlog says so", t->ns, t->name, t->awaited);
        return wr_err_cure(err, "a schema change was not in the binlog (sql_log_bin=0, or another server's): weir resume -c FILE --resnapshot TABLE takes the table as it is now; or take it out and in again");
    }
    return WR_OK;
}

/* Runs the loads that are wanted; on an idle server they end where the queue already is. */
static wr_code load(wr_pipeline *p, wr_err *err) {
    WR_TRY(wr_load_run(p, err));
    for (int i = 0; i < p->ntargets; i++) { /* a cause that comes again and again takes a tenth of the time */
        target *t = p->targets[i];
        int64_t took = 0;
        for (int k = 0; k < t->nmembers; k++) took += t->members[k]->load_us, t->members[k]->load_us = 0;
        if (t->phase == PHASE_REPLAY && took) t->next_load_us = wr_mono_us() + took * LOAD_REST;
    }
    return publish(p, err);
}

/* Begins what is due, from a lake that is committed. force: without waiting for its time. */
static wr_code load_due(wr_pipeline *p, bool force, wr_err *err) {
    bool any = false;
    for (int i = 0; i < p->ntargets; i++) {
        target *t = p->targets[i];
        if (!t->due || t->phase != PHASE_STREAM || (!force && wr_mono_us() < t->next_load_us)) continue;
        WR_TRY(reload(p, t, err));
        any = true;
    }
    if (!any) return WR_OK;
    WR_TRY(wr_apply_commit(p, err));
    return load(p, err);
}

/* Tables whose rows were made with other rules than those of weir.yaml now, and loads that cannot be taken up in their middle. */
static wr_code reread(wr_pipeline *p, wr_err *err) {
    bool any = false;
    for (int i = 0; i < p->ntargets; i++) {
        target *t = p->targets[i];
        if (!t->reread) continue;
        for (int k = 0; k < t->nmembers; k++)
            if (t->members[k]->rules_changed) wr_log(WR_LOG_INFO, "%s.%s: the rules of transform are not what they were; it will be read again", t->members[k]->db, t->members[k]->name);
        WR_TRY(reload(p, t, err));
        t->reread = false;
        any = true;
    }
    return any ? wr_apply_commit(p, err) : WR_OK;
}

/* Whether a load is due because of something at or before `until`. */
static bool due_until(const wr_pipeline *p, const wr_pos *until) {
    for (int i = 0; i < p->ntargets; i++) {
        const target *t = p->targets[i];
        if (t->due && (!t->due_pos.file[0] || wr_pos_cmp(&t->due_pos, until) < 0)) return true;
    }
    return false;
}

/* The first record of its transaction. */
static wr_code on_gap(wr_pipeline *p, const wr_queue_record *rec, wr_err *err) {
    WR_TRY(wr_shape_flush(p, err));
    wr_repair_gap(p);
    if (wr_lake_dirty(p->lake) && p->offset != p->committed_offset) WR_TRY(wr_apply_commit(p, err)); /* a load starts from a lake in which everything before it is committed */
    WR_TRY(wr_gap_enter(p, rec->payload, err));
    p->in_tx = p->tx_has_ddl = true;
    return WR_OK;
}

/* All that a table holds is from before the gap. */
static wr_code cross_gap(wr_pipeline *p, wr_err *err) {
    for (int i = 0; i < p->ntargets; i++) {
        target *t = p->targets[i];
        if (wr_gap_loads(p, t)) WR_TRY(reload(p, t, err));
        else {
            WR_TRY(mark_unproven(p, t, true, err));
            t->unproven = true;
        }
    }
    wr_prove_anew(p);
    wr_gap_forget(p);
    return WR_OK;
}

static wr_code on_end(wr_pipeline *p, const wr_queue_record *rec, const wr_pos *until, wr_err *err) {
    if (p->gap) WR_TRY(cross_gap(p, err));
    p->offset = rec->offset;
    p->event_us = rec->event_time_us;
    p->in_tx = false;
    wr_ledger_end(p->ledger, WR_CONSUMED, rec->offset, rec->event_time_us);
    WR_TRY(wr_pos_copy(&p->pos, rec->pos, err));
    bool now = p->load_wanted;
    WR_TRY(publish_replayed(p, &now, err));
    now |= wr_mono_us() >= p->next_commit_us || wr_lake_pending_bytes(p->lake) > p->o.commit_bytes;
    now |= until && wr_pos_cmp(&p->pos, until) >= 0;
    if (p->repair && !p->load_wanted) now = !wr_repair_holds(p);
    now |= rec->offset == p->gap_offset;
    now |= p->tx_has_ddl && p->o.rest; /* tables that move one by one can be met ahead of others by rows (wr_table_apply), not by schema changes */
    p->tx_has_ddl = false;
    if (now) WR_TRY(wr_apply_commit(p, err));
    if (p->load_wanted) WR_TRY(load(p, err));
    if (now) WR_TRY(check_waiting(p, err));
    return now ? load_due(p, false, err) : WR_OK;
}

/* ------------------------------------------------------------------ opening at the lake's offset */
static wr_code target_again(wr_pipeline *p, const wr_ddl *d, wr_route r, target **ret, wr_err *err) {
    WR_TRY(target_new(p, r, r.merged ? merged_id(r) : d->table, ret, err));
    target *t = *ret;
    t->table = wr_lake_table(p->lake, t->id);
    if (t->table) return WR_OK;
    wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "lake table %s.%s is missing from the catalog, although queue offset %" PRIu64 " was committed to it", t->ns, t->name, p->offset);
    return wr_err_cure(err, "restore the catalog from a backup; or remove %s and let every table be loaded again", p->home);
}

static wr_code restore_member(void *ctx, const wr_ddl *d, wr_err *err) {
    wr_pipeline *p = ctx;
    if (d->kind == WR_DDL_HIDDEN || d->kind == WR_DDL_DROP) return WR_OK;
    wr_route r = wr_routes_find(p->routes, d->db, d->name);
    target *t = find_target(p, r);
    member *m;
    WR_TRY(member_new(p, d, &m, err));
    wr_code rc = restore_shape(p, m, err);
    if (rc == WR_OK && !t) rc = target_again(p, d, r, &t, err);
    if (rc == WR_OK) rc = add_member(t, m, err);
    return rc == WR_OK ? WR_OK : drop_member(p, m, rc);
}

/* " (theirs is new, body is missing)", or "" when it is no column's name. */
static void name_columns(const wr_schema *ours, const wr_schema *lake, char *buf, size_t size) {
    size_t n = 0;
    for (int side = 0; side < 2; side++) {
        const wr_schema *in = side ? ours : lake, *other = side ? lake : ours;
        for (int i = 0; i < in->ncols && n < size; i++)
            if (wr_schema_find(other, in->cols[i].name) < 0)
                n += (size_t)snprintf(buf + n, size - n, "%s%s is %s", n ? ", " : " (", in->cols[i].name, side ? "missing" : "new");
    }
    if (n < size) snprintf(buf + n, size - n, "%s", n ? ")" : "");
}

static wr_code wrong_schema(const wr_pipeline *p, const target *t, wr_err *err) {
    uint32_t lake = wr_table_schema(t->table)->version;
    if (lake)
        return wr_fail(err, WR_E_SCHEMA, WR_RETRY_NO, "lake table %s.%s has schema version %u, the schema history says %u at queue offset %" PRIu64, t->ns, t->name, lake,
                       t->members[0]->schema->version, p->offset);
    char which[300];
    name_columns(t->members[0]->shape, wr_table_schema(t->table), which, sizeof which);
    wr_fail(err, WR_E_SCHEMA, WR_RETRY_NO, "somebody else changed the columns of lake table %s.%s%s", t->ns, t->name, which);
    return wr_err_cure(err, "undo it, for example with Spark's ALTER TABLE <catalog>.%s.%s DROP COLUMN <new column>, and add columns in the source or by a rule", t->ns, t->name);
}

static wr_code restore_target(wr_pipeline *p, target *t, wr_err *err) {
    const char *info = wr_table_load_info(t->table);
    t->phase = PHASE_STREAM;
    if (info) WR_TRY(wr_load_parse(t, info, err));
    /* Rows read from another server may be of transactions that this one never had, and the position up to which they are to be replayed is not one of this server. */
    if (info && t->epoch != wr_source_epoch(p->source)) t->reread = true;
    if (t->phase == PHASE_LOAD) p->load_wanted = true;
    t->reread |= t->phase == PHASE_WAIT; /* what it waits for may have come another way */
    for (int i = 0; i < t->nmembers; i++) t->reread |= t->members[i]->rules_changed || (t->phase == PHASE_LOAD && t->members[i]->load_refused);
    char key[32];
    WR_AUTO char *due = NULL;
    snprintf(key, sizeof key, "due.%u", t->id);
    WR_TRY(wr_state_get(p->state, key, &due, err));
    t->due = due && *due && (t->phase == PHASE_STREAM || t->phase == PHASE_REPLAY);
    t->due_begun = due && *due && !t->due;
    WR_AUTO char *unproven = NULL;
    snprintf(key, sizeof key, "unproven.%u", t->id);
    WR_TRY(wr_state_get(p->state, key, &unproven, err));
    t->unproven_noted = unproven && *unproven;
    t->unproven = t->unproven_noted && t->phase == PHASE_STREAM;
    if (!t->merged && wr_table_schema(t->table)->version != t->members[0]->schema->version && t->phase != PHASE_WAIT && !wr_table_is_ahead(t->table))
        return wrong_schema(p, t, err);
    return wr_target_bind(p, t, err);
}

wr_code wr_apply_open(wr_pipeline *p, wr_err *err) {
    WR_AUTO char *catalog = wr_path_join(p->home, "catalog.db"), *index = wr_path_join(p->home, "index");
    if (!catalog || !index || !(p->members = wr_u64map_new())) return wr_nomem(err, "pipeline", 256);
    wr_lake_options lo = {.pipeline = p->o.name, .catalog_path = catalog, .warehouse = p->warehouse, .index_dir = index, .store = p->store, .rest = p->o.rest, .format_version = p->o.format_version, .layout = p->o.layout, .nlayout = p->o.nlayout, .show_loads = p->o.visible_early, .witness = wr_account_witness(p), .lock = p->lock};
    wr_account_going_back(p);
    WR_TRY(wr_lake_open(&lo, p->state, p->engine, &p->lake, err));
    p->load_wanted = p->in_tx = p->tx_has_ddl = false;
    p->peek_offset = 0;
    WR_TRY(wr_lake_progress(p->lake, &p->offset, &p->pos, &p->event_us, err));
    WR_TRY(wr_state_schema_load(p->state, p->offset, restore_member, p, err));
    for (int i = 0; i < p->ntargets; i++) WR_TRY(restore_target(p, p->targets[i], err));
    wr_pos copy = {0};
    WR_TRY(wr_pos_copy(&copy, &p->pos, err));
    pthread_mutex_lock(&p->lock_mu);
    wr_pos_clear(&p->committed);
    p->committed = copy;
    p->committed_offset = p->offset;
    p->committed_event_us = p->event_us;
    pthread_mutex_unlock(&p->lock_mu);
    wr_status_tables(p);
    return wr_account_went_back(p, err);
}

void wr_apply_close(wr_pipeline *p) {
    wr_repair_forget(p);
    wr_gap_forget(p);
    for (int i = 0; i < p->ntargets; i++) target_free(p->targets[i]);
    wr_free(p->targets);
    p->targets = NULL, p->ntargets = 0;
    wr_u64map_free(p->members, NULL);
    p->members = NULL;
    p->dead_letters = NULL, p->gathered_bytes = 0;
    wr_lake_close(p->lake);
    p->lake = NULL;
    wr_pos_clear(&p->pos);
    wr_pos_clear(&p->peek_pos);
}

/* ------------------------------------------------------------------ the loop */
static bool busy(const wr_pipeline *p) {
    for (int i = 0; i < p->ntargets; i++)
        if (p->targets[i]->phase != PHASE_STREAM || p->targets[i]->unproven) return true;
    return false;
}

static wr_code loop(wr_pipeline *p, wr_queue_reader *r, const wr_pos *until, wr_err *err) {
    WR_TRY(reread(p, err));
    WR_TRY(p->load_wanted ? load(p, err) : publish(p, err)); /* a process may have died right before it published: an idle server would bring nothing to do it with */
    if (wr_lake_dirty(p->lake)) WR_TRY(wr_apply_commit(p, err)); /* what the configuration changed about tables */
    wr_prove_tell(p);
    WR_TRY(wr_gap_settle(p, err));
    p->next_commit_us = wr_mono_us() + p->o.commit_every_us;
    bool drained = false;
    for (;;) {
        wr_beat(p, BEAT_APPLY);
        if (!p->in_tx) WR_TRY(wr_prove_take(p, err));
        if (!p->in_tx && !p->stop && !p->repair) WR_TRY(wr_repair_look(p, until && wr_pos_cmp(&p->pos, until) >= 0, err));
        /* a transaction that was begun is finished: the commit in hand */
        if (p->stop && !p->in_tx) return wr_apply_commit(p, err);
        if (until && !p->in_tx && p->offset == p->committed_offset && !p->repair && !busy(p) && wr_pos_cmp(&p->pos, until) >= 0 && all_joined(p) && comparable(p)) {
            if (!due_until(p, until)) return govern(p, true, err);
            WR_TRY(load_due(p, true, err));
            continue;
        }
        int64_t left = p->in_tx ? INT64_MAX : p->next_commit_us - wr_mono_us();
        int wait = left <= 0 ? 0 : left > 200000 ? 200 : (int)(left / 1000) + 1;
        wr_queue_record rec;
        wr_code rc = wr_queue_read(r, wait, &rec, err);
        if (rc == WR_E_TIMEOUT || rc == WR_E_CANCELLED) {
            wr_err_clear(err);
            if (p->in_tx) continue; /* cannot be: only whole transactions are readable */
            if (wr_mono_us() >= p->next_commit_us && !wr_repair_holds(p)) {
                WR_TRY(wr_apply_commit(p, err));
                WR_TRY(check_waiting(p, err));
                WR_TRY(load_due(p, false, err));
            }
            pthread_mutex_lock(&p->lock_mu);
            bool ended = p->capture_ended;
            wr_err why = p->capture_err;
            pthread_mutex_unlock(&p->lock_mu);
            if (!ended) continue;
            if (!drained) { /* nobody produces any more, so this thread may make the rest durable and look once again */
                WR_TRY(wr_queue_sync(p->queue, err));
                drained = true;
                continue;
            }
            /* capture is over and the queue is empty: what it brought is kept, then its reason is told */
            WR_TRY(wr_apply_commit(p, err));
            if (why.code != WR_OK) return *err = why, why.code;
            if (p->stop) return WR_OK;
            continue;
        }
        WR_TRY(rc);
        if (rec.kind == WR_REC_CHANGE && WR_FAULT("consume.lose")) continue;
        if (rec.kind == WR_REC_CHANGE && WR_FAULT("consume.double")) WR_TRY(on_change(p, &rec, err));
        if (rec.kind == WR_REC_CHANGE) WR_TRY(on_change(p, &rec, err));
        else if (rec.kind == WR_REC_DDL) WR_TRY(on_ddl(p, &rec, err));
        else if (rec.kind == WR_REC_STALE) WR_TRY(on_stale(p, &rec, err));
        else if (rec.kind == WR_REC_GAP) WR_TRY(on_gap(p, &rec, err));
        else WR_TRY(on_end(p, &rec, until, err));
    }
}

wr_code wr_apply_run(wr_pipeline *p, const wr_pos *until, wr_err *err) {
    wr_queue_reader *r;
    wr_code rc = wr_queue_reader_new(p->queue, p->offset, &r, err);
    if (rc == WR_E_NOTFOUND)
        wr_err_cure(err, "the queue in %s/queue no longer holds what the lake needs (committed up to %" PRIu64 "): restore it, or remove %s to load everything again", p->home, p->offset, p->home);
    WR_TRY(rc);
    rc = loop(p, r, until, err);
    wr_queue_reader_free(r);
    return rc;
}
