/* From what tables have gathered to one catalog transaction. */
#include <inttypes.h>
#include <stdio.h>
#include "partition.h"
#include "upkeep.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define MAX_KV 8

typedef struct table_edit {
    wr_table *t;
    wr_ice_file **added;
    int nadded;
    const char **removed, **removed_refs;
    int nremoved;
    wr_ice_file **deletes;
    int ndeletes; /* new delete files of dirty data files; owned until adopted */
    const char *sk[MAX_KV], *sv[MAX_KV];
    int ns;
    const char *pk[MAX_KV], *pv[MAX_KV];
    int np;
    char id[16];
    wr_upkeep *upkeep; /* as it is after this; NULL: no change */
    char *upkeep_text;
} table_edit;

static void edit_clear(table_edit *e) {
    for (int i = 0; i < e->ndeletes; i++) wr_ice_file_free(e->deletes[i]);
    wr_free(e->deletes), wr_free(e->added), wr_free(e->removed), wr_free(e->removed_refs);
    wr_free(e->upkeep), wr_free(e->upkeep_text);
}

/* ------------------------------------------------------------------ edits */
static wr_code drop_dead_files(wr_table *t, wr_err *err) {
    for (uint32_t i = 0; i < t->nfiles; i++)
        if (t->files[i].ice && t->files[i].ndead && t->files[i].ndead >= t->files[i].ice->records)
            WR_TRY(wr_table_remove_file(t, i, err));
    return WR_OK;
}

static wr_data_file *file_of(wr_table *t, const wr_ice_file *deletes) {
    uintptr_t no = (uintptr_t)wr_map_get(t->by_path, wr_slice_str(deletes->referenced));
    return &t->files[no - 1];
}

static wr_code write_deletes(wr_table *t, table_edit *e, wr_err *err) {
    WR_AUTO wr_ice_dv *dvs = wr_calloc((size_t)t->nfiles + 1, sizeof *dvs);
    int n = 0;
    if (!dvs) return wr_nomem(err, "deletion vectors", (size_t)t->nfiles * sizeof *dvs);
    for (uint32_t i = 0; i < t->nfiles; i++) {
        wr_data_file *f = &t->files[i];
        if (!f->ice || !f->dirty) continue;
        roaring_bitmap_run_optimize(f->dead);
        dvs[n++] = (wr_ice_dv){.referenced = f->ice->path, .bitmap = f->dead, .cardinality = f->ndead};
    }
    if (!n) return WR_OK;
    WR_TRY(wr_ice_write_deletes(t->lake->engine, t->lake->state, t->ice, dvs, n, &e->deletes, err));
    e->ndeletes = n;
    for (int i = 0; i < n; i++) {
        const wr_ice_file *f = file_of(t, e->deletes[i])->ice;
        WR_TRY(wr_ice_file_set_partition(e->deletes[i], f->spec_id, wr_ice_file_tuple(f), err));
    }
    return WR_OK;
}

static wr_code list_files(wr_table *t, table_edit *e, wr_err *err) {
    size_t n = (size_t)t->nfiles + 1, gone = (size_t)t->nfiles + t->ngone + 1;
    e->added = wr_calloc(2 * n, sizeof *e->added);
    e->removed = wr_calloc(gone, sizeof *e->removed);
    e->removed_refs = wr_calloc(gone, sizeof *e->removed_refs);
    if (!e->added || !e->removed || !e->removed_refs) return wr_nomem(err, "commit", n * sizeof(void *));
    for (uint32_t i = 0; i < t->nfiles; i++)
        if (t->files[i].ice && !t->files[i].committed) e->added[e->nadded++] = t->files[i].ice;
    for (int i = 0; i < e->ndeletes; i++) {
        const wr_data_file *f = file_of(t, e->deletes[i]);
        e->added[e->nadded++] = e->deletes[i];
        if (f->deletes) e->removed[e->nremoved] = f->deletes->path, e->removed_refs[e->nremoved++] = f->ice->path;
    }
    for (uint32_t i = 0; i < t->ngone; i++) {
        e->removed[e->nremoved] = t->gone[i]->path;
        e->removed_refs[e->nremoved++] = t->gone[i]->content == WR_ICE_DATA ? NULL : t->gone[i]->referenced;
    }
    return WR_OK;
}

static void put_property(table_edit *e, const char *key, const char *value) {
    e->pk[e->np] = key, e->pv[e->np++] = value;
}
static void put_both(table_edit *e, const char *key, const char *value) {
    e->sk[e->ns] = key, e->sv[e->ns++] = value;
    put_property(e, key, value);
}

/* What came new, what was only written again, and what was done. */
static wr_code keep_count(wr_table *t, table_edit *e, wr_err *err) {
    uint64_t fresh = 0, again = 0;
    for (uint32_t i = 0; i < t->nfiles; i++)
        if (t->files[i].ice && !t->files[i].committed) *(t->files[i].rewritten ? &again : &fresh) += t->files[i].ice->bytes;
    if (!fresh && !again && !t->has_action) return WR_OK;
    wr_upkeep *u = e->upkeep = wr_malloc(sizeof *u);
    if (!u) return wr_nomem(err, "upkeep", sizeof *u);
    *u = t->upkeep;
    u->new_bytes += fresh, u->rewritten_bytes += again;
    if (t->has_action) wr_upkeep_add(u, &t->action);
    if (!(e->upkeep_text = wr_upkeep_print(u))) return wr_nomem(err, "upkeep", 4096);
    return put_property(e, WR_UPKEEP_PROPERTY, e->upkeep_text), WR_OK;
}

/* later: see wr_table_flush. */
static wr_code gather(wr_table *t, wr_outbox *later, table_edit *e, wr_ice_edit *out, wr_err *err) {
    e->t = t;
    if (t->opened) { /* a table that is only renamed or dropped need not be */
        WR_TRY(wr_ice_borrow(t->lake->catalog, t->ice, err));
        WR_TRY(wr_table_flush(t, later, err));
        WR_TRY(drop_dead_files(t, err));
        WR_TRY(write_deletes(t, e, err));
        WR_TRY(list_files(t, e, err));
        WR_TRY(keep_count(t, e, err));
    }
    if (t->loading) e->sk[e->ns] = "weir.load", e->sv[e->ns++] = t->load_info;
    if (t->create) {
        snprintf(e->id, sizeof e->id, "%" PRIu32, t->id);
        put_property(e, "weir.pipeline", t->lake->pipeline);
        put_property(e, "weir.table-id", e->id);
        if (t->lake->writer) put_property(e, "weir.writer", t->lake->writer);
    }
    *out = (wr_ice_edit){
        .table = t->ice,
        .ref = t->loading ? WR_ICE_LOAD : WR_ICE_MAIN,
        .restart_ref = t->restart,
        .added = e->added,
        .nadded = e->nadded,
        .removed = e->removed,
        .nremoved = e->nremoved,
        .removed_refs = e->removed_refs,
        .schema = t->schema_dirty ? t->schema : NULL,
        .set_current_schema = !t->loading,
        .spec = t->spec_dirty || t->schema_dirty ? t->how.spec : NULL,
        .sort = t->order ? &t->order->sort : NULL,
        .publish = t->publish,
        .replace = t->replace,
        .show = t->loading && t->shown && t->lake->show_loads && !t->publish,
        .create = t->create,
        .new_ns = t->rename_dirty ? t->ns : NULL,
        .new_name = t->rename_dirty ? t->name : NULL,
    };
    /* A table without new rows needs no snapshot, but a branch keeps its info and its schema in its head. */
    bool branch = t->loading && (t->load_dirty || t->schema_dirty);
    out->no_snapshot = !e->nadded && !e->nremoved && !t->restart && !branch;
    return WR_OK;
}

static void attach_kv(table_edit *e, wr_ice_edit *out) {
    out->summary_keys = e->sk, out->summary_vals = e->sv, out->nsummary = e->ns;
    out->prop_keys = e->pk, out->prop_vals = e->pv, out->nprops = e->np;
}

static void adopt(table_edit *e) {
    wr_table *t = e->t;
    for (uint32_t i = 0; i < t->nfiles; i++)
        if (t->files[i].ice) t->files[i].committed = true, t->files[i].dirty = t->files[i].fresh = false;
    for (int i = 0; i < e->ndeletes; i++) {
        wr_data_file *f = file_of(t, e->deletes[i]);
        wr_ice_file_free(f->deletes);
        f->deletes = WR_STEAL(e->deletes[i]);
    }
    for (uint32_t i = 0; i < t->ngone; i++) wr_ice_file_free(t->gone[i]);
    t->ngone = t->nstray = 0;
    if (e->upkeep) t->upkeep = *e->upkeep, t->has_action = false;
    if (!t->loading || t->publish) t->spec_dirty = false;
    if (t->publish) {
        t->loading = false;
        wr_free(t->load_info);
        t->load_info = NULL;
    }
    t->settled = false;
    t->create = t->schema_dirty = t->rename_dirty = t->restart = t->publish = t->touched = t->load_dirty = t->replace = false;
}

static bool needs_commit(const wr_table *t) { return t->touched || t->create; }

bool wr_lake_dirty(const wr_lake *l) {
    if (l->ndropped) return true;
    for (int i = 0; i < l->ntables; i++)
        if (needs_commit(l->tables[i])) return true;
    return false;
}

uint64_t wr_lake_pending_bytes(const wr_lake *l) { return l->pending_total; }

/* Catalog and tables disagree from here on, and only the catalog knows. */
wr_code wr_lake_note_unknown(wr_lake *l, wr_code rc, const wr_err *err) {
    if (rc != WR_OK && rc != WR_E_CONFLICT && err->retry == WR_RETRY_AFTER_RELOAD) l->unknown = true;
    return rc;
}

/* ------------------------------------------------------------------ the lake's commit */
typedef struct batch_of_edits {
    wr_ice_edit *out;
    table_edit *ed;
    int n;
    char offset[24], through[24], place[512];
} batch_of_edits;

static void batch_clear(batch_of_edits *b) {
    for (int i = 0; b->ed && i < b->n; i++) edit_clear(&b->ed[i]);
    wr_free(b->out), wr_free(b->ed);
}

static wr_code add_edit(wr_lake *l, batch_of_edits *b, wr_table *t, const wr_dropped *d, wr_err *err) {
    table_edit *e = &b->ed[b->n];
    wr_ice_edit *out = &b->out[b->n++];
    e->t = t;
    if (d && d->how == WR_LEAVE_MIRROR && l->writer) { /* marked with the commit, taken out after it: a drop cannot be part of it */
        *out = (wr_ice_edit){.table = t->ice, .ref = WR_ICE_MAIN, .no_snapshot = true, .new_ns = t->rename_dirty ? t->ns : NULL, .new_name = t->rename_dirty ? t->name : NULL};
        put_property(e, "weir.dropped", b->offset);
        put_property(e, "weir.leaves", "true");
        return attach_kv(e, out), WR_OK;
    }
    if (d && d->how == WR_LEAVE_MIRROR)
        return *out = (wr_ice_edit){.table = t->ice, .ref = WR_ICE_MAIN, .drop = true}, WR_OK;
    WR_TRY(gather(t, &l->outbox, e, out, err));
    if (d && d->how == WR_LEAVE_ASIDE) return WR_OK;
    put_both(e, "weir.offset", b->offset);
    put_both(e, "weir.position", b->place);
    put_both(e, "weir.valid-through-ms", b->through);
    if (d) put_property(e, "weir.dropped", b->offset);
    attach_kv(e, out);
    return WR_OK;
}

static wr_code add_edits(wr_lake *l, batch_of_edits *b, wr_err *err) {
    for (int i = 0; i < l->ndropped; i++) {
        wr_dropped *d = &l->dropped[i];
        bool never_was = d->how == WR_LEAVE_MIRROR && d->table->create; /* came and went between two commits */
        if (!never_was) WR_TRY(add_edit(l, b, d->table, d, err));
    }
    for (int i = 0; i < l->ntables; i++)
        if (needs_commit(l->tables[i])) WR_TRY(add_edit(l, b, l->tables[i], NULL, err));
    return WR_OK;
}

static wr_code show(wr_lake *l, const batch_of_edits *b, uint64_t offset, wr_err *err) {
    if (!l->witness.before) return WR_OK;
    size_t most = (size_t)b->n + (size_t)l->ntables + 1;
    WR_AUTO wr_written *w = wr_calloc(most, sizeof *w);
    if (!w) return wr_nomem(err, "commit", most * sizeof *w);
    int n = 0;
    for (int i = 0; i < b->n; i++) w[n++] = (wr_written){b->ed[i].t, b->ed[i].deletes, b->ed[i].ndeletes};
    for (int i = 0; i < l->ntables; i++) /* what they took, a commit that was not completed has brought */
        if (!needs_commit(l->tables[i]) && l->tables[i]->fresh.applied) w[n++] = (wr_written){.t = l->tables[i]};
    return wr_lake_show(l, offset, w, n, err);
}

static wr_code refuse_unknown(const wr_lake *l, wr_err *err) {
    if (!l->unknown) return WR_OK;
    return wr_fail(err, WR_E_IO, WR_RETRY_AFTER_RELOAD,
                   "the outcome of an earlier lake commit is unknown; the lake must be opened anew");
}

wr_code wr_lake_commit(wr_lake *l, uint64_t offset, const wr_pos *pos, int64_t event_time_us, wr_err *err) {
    WR_TRY(refuse_unknown(l, err));
    if (!wr_lake_dirty(l) && offset == l->offset) return WR_OK;
    size_t max = (size_t)l->ntables + (size_t)l->ndropped + 1;
    WR_CLEANUP(batch_clear)
    batch_of_edits b = {.out = wr_calloc(max, sizeof *b.out), .ed = wr_calloc(max, sizeof *b.ed)};
    if (!b.out || !b.ed) return wr_nomem(err, "commit", max * sizeof *b.out);
    static const wr_pos nowhere;
    snprintf(b.offset, sizeof b.offset, "%" PRIu64, offset);
    snprintf(b.through, sizeof b.through, "%" PRId64, event_time_us / 1000);
    wr_pos_print(pos ? pos : &nowhere, b.place);
    pthread_mutex_lock(&l->catalog_lock);
    wr_code rc = add_edits(l, &b, err);
    if (rc == WR_OK && WR_FAULT("lake.before_commit"))
        rc = wr_fail(err, WR_E_IO, WR_RETRY_SOON, "injected: lake commit");
    if (rc == WR_OK) rc = wr_outbox_send(&l->outbox, l->store, err);
    if (rc == WR_OK) rc = show(l, &b, offset, err);
    wr_ice_progress progress = {l->pipeline, offset, pos, event_time_us};
    if (rc == WR_OK) rc = wr_lake_note_unknown(l, wr_ice_commit(l->catalog, l->state, b.out, b.n, &progress, err), err);
    for (int i = 0; rc == WR_OK && i < b.n; i++)
        if (!b.out[i].drop) adopt(&b.ed[i]);
    for (int i = 0; rc == WR_OK && i < l->ntables; i++) wr_fresh_clear(l->tables[i]);
    for (int i = 0; rc == WR_OK && l->writer && i < l->ndropped; i++)
        if (l->dropped[i].how == WR_LEAVE_MIRROR && !l->dropped[i].table->create) wr_lake_unlist(l, l->dropped[i].table->ice);
    pthread_mutex_unlock(&l->catalog_lock);
    if (rc != WR_OK) return wr_err_in(err, "lake commit at offset %" PRIu64, offset);
    for (int i = 0; i < l->ndropped; i++) wr_table_free(l->dropped[i].table);
    l->ndropped = 0;
    l->offset = offset;
    return WR_OK;
}

/* ------------------------------------------------------------------ a load's own commit */
static wr_code load_commit(wr_table *t, const char *info, table_edit *e, wr_err *err) {
    wr_lake *l = t->lake;
    wr_ice_edit out;
    WR_TRY(refuse_unknown(l, err));
    if (!t->loading || t->create)
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO,
                       t->loading ? "the load of a table that is not in the catalog yet" : "no load is under way");
    WR_TRY(wr_table_load_set_info(t, info, err));
    pthread_mutex_lock(&t->load_lock);
    wr_code rc = wr_table_open_files(t, err);
    if (rc == WR_OK) rc = wr_table_take_sealed(t, err);
    pthread_mutex_unlock(&t->load_lock);
    WR_TRY(rc);
    WR_TRY(gather(t, NULL, e, &out, err));
    attach_kv(e, &out);
    out.new_ns = out.new_name = NULL; /* that, and publishing, belongs to an offset */
    out.publish = false;
    WR_TRY(wr_lake_note_unknown(l, wr_ice_commit(l->catalog, l->state, &out, 1, NULL, err), err));
    bool rename_dirty = t->rename_dirty, publish = t->publish;
    t->publish = false;
    adopt(e);
    t->rename_dirty = rename_dirty, t->publish = publish, t->touched = rename_dirty || publish;
    return WR_OK;
}

wr_code wr_table_load_commit(wr_table *t, const char *info, wr_err *err) {
    WR_CLEANUP(edit_clear) table_edit e = {0};
    pthread_mutex_lock(&t->lake->catalog_lock);
    wr_code rc = load_commit(t, info, &e, err);
    pthread_mutex_unlock(&t->lake->catalog_lock);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "committing loaded rows of %s.%s", t->ns, t->name);
}
