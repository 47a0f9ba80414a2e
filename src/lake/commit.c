/* From what tables have gathered to one catalog transaction. */
#include <inttypes.h>
#include "table.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/io.h"

#define OWN_PUFFIN_BYTES (64 * 1024) /* larger vectors get a file of their own: a shared one lives as long as its longest-lived part */
#define POS_FIELD_PATH 2147483546
#define POS_FIELD_POS 2147483545
#define MAX_KV 8

typedef struct table_edit {
    wr_table *t;
    wr_ice_file **added; int nadded;
    const char **removed, **removed_refs; int nremoved;
    uint32_t *dirty; wr_ice_file **new_deletes; int ndirty; /* file numbers whose deletes are written anew */
    const char *sk[MAX_KV], *sv[MAX_KV]; int ns;
    const char *pk[MAX_KV], *pv[MAX_KV]; int np;
    char *schema_json;
    char id[16];
} table_edit;

static void edit_clear(table_edit *e, bool keep_deletes) {
    for (int i = 0; !keep_deletes && i < e->ndirty; i++) wr_ice_file_free(e->new_deletes[i]);
    wr_free(e->added), wr_free(e->removed), wr_free(e->removed_refs), wr_free(e->dirty), wr_free(e->new_deletes), wr_free(e->schema_json);
}

/* ------------------------------------------------------------------ delete files */
static wr_ice_file *new_delete_entry(const wr_data_file *f, const char *path, const char *format) {
    wr_ice_file *d = wr_calloc(1, sizeof *d);
    if (!d) return NULL;
    d->content = WR_ICE_POS_DELETES;
    d->path = wr_strdup(path), d->format = wr_strdup(format), d->referenced = wr_strdup(f->ice->path);
    d->records = f->ndead;
    d->sequence = d->file_sequence = d->first_row_id = d->content_offset = d->content_size = -1;
    if (!d->path || !d->format || !d->referenced) return wr_ice_file_free(d), NULL;
    return d;
}

static wr_code write_vectors(wr_table *t, table_edit *e, int from, int n, wr_err *err) {
    WR_AUTO char *path = wr_table_new_path(t, "-deletes.puffin");
    WR_AUTO wr_ice_dv *dvs = wr_calloc((size_t)n, sizeof *dvs);
    if (!path || !dvs) return wr_nomem(err, "deletion vectors", (size_t)n * sizeof *dvs);
    for (int i = 0; i < n; i++) {
        const wr_data_file *f = &t->files[e->dirty[from + i]];
        dvs[i] = (wr_ice_dv){.referenced = f->ice->path, .bitmap = f->dead, .cardinality = f->ndead};
    }
    uint64_t bytes;
    WR_TRY(wr_state_file_add(t->lake->state, path, err));
    WR_TRY(wr_puffin_write(path, dvs, n, &bytes, err));
    for (int i = 0; i < n; i++) {
        wr_ice_file *d = new_delete_entry(&t->files[e->dirty[from + i]], path, "PUFFIN");
        if (!d) return wr_nomem(err, "delete entry", 256);
        d->bytes = bytes, d->content_offset = dvs[i].offset, d->content_size = dvs[i].size;
        e->new_deletes[from + i] = d;
    }
    return WR_OK;
}

typedef struct pos_rows { wr_batch *batch; wr_buf row; wr_slice path; wr_err *err; wr_code rc; } pos_rows;

static bool add_pos(uint32_t pos, void *ctx) {
    pos_rows *p = ctx;
    wr_buf_clear(&p->row);
    size_t at = wr_row_begin(&p->row, 2);
    wr_value a = {.s = p->path}, b = {.i64 = pos};
    wr_row_put(&p->row, at, 0, (wr_type){.kind = WR_STRING}, &a);
    wr_row_put(&p->row, at, 1, (wr_type){.kind = WR_LONG}, &b);
    p->rc = wr_batch_append(p->batch, wr_buf_view(&p->row), p->err);
    return p->rc == WR_OK;
}

/* v2: one position-delete file per data file, sorted by position because a bitmap is walked in order. */
static wr_code write_positions(wr_table *t, table_edit *e, int i, wr_err *err) {
    const wr_data_file *f = &t->files[e->dirty[i]];
    wr_column cols[2] = {{.name = "file_path", .id = POS_FIELD_PATH, .type = {.kind = WR_STRING}}, {.name = "pos", .id = POS_FIELD_POS, .type = {.kind = WR_LONG}}};
    WR_AUTO char *path = wr_table_new_path(t, "-deletes.parquet");
    if (!path) return wr_nomem(err, "delete file name", 256);
    wr_schema *s;
    WR_TRY(wr_schema_new(cols, 2, 1, &s, err));
    pos_rows p = {.path = wr_slice_str(f->ice->path), .err = err};
    wr_code rc = wr_batch_new(s, &p.batch, err);
    if (rc == WR_OK) roaring_iterate(f->dead, add_pos, &p), rc = p.rc;
    if (rc == WR_OK) rc = wr_state_file_add(t->lake->state, path, err);
    wr_parquet_file pf = {0};
    if (rc == WR_OK) rc = wr_parquet_write(t->lake->engine, p.batch, path, NULL, &pf, err);
    if (rc == WR_OK) rc = wr_fsync_parent(path, err);
    if (rc == WR_OK && !(e->new_deletes[i] = new_delete_entry(f, path, "PARQUET"))) rc = wr_nomem(err, "delete entry", 256);
    if (rc == WR_OK) e->new_deletes[i]->bytes = pf.bytes;
    wr_parquet_file_clear(&pf);
    wr_batch_free(p.batch);
    wr_buf_free(&p.row);
    wr_schema_unref(s);
    return rc;
}

static wr_code write_deletes(wr_table *t, table_edit *e, wr_err *err) {
    for (uint32_t i = 0; i < t->nfiles; i++)
        if (t->files[i].ice && t->files[i].dirty) e->dirty[e->ndirty++] = i, roaring_bitmap_run_optimize(t->files[i].dead);
    if (wr_ice_format_version(t->ice) < 3) {
        for (int i = 0; i < e->ndirty; i++) WR_TRY(write_positions(t, e, i, err));
        return WR_OK;
    }
    /* small vectors first, together; large ones behind, each alone */
    int small = 0;
    for (int i = 0; i < e->ndirty; i++)
        if (roaring_bitmap_portable_size_in_bytes(t->files[e->dirty[i]].dead) <= OWN_PUFFIN_BYTES) {
            uint32_t x = e->dirty[small];
            e->dirty[small++] = e->dirty[i], e->dirty[i] = x;
        }
    if (small) WR_TRY(write_vectors(t, e, 0, small, err));
    for (int i = small; i < e->ndirty; i++) WR_TRY(write_vectors(t, e, i, 1, err));
    return WR_OK;
}

/* ------------------------------------------------------------------ edits */
static wr_code gather(wr_table *t, table_edit *e, wr_ice_edit *out, wr_err *err) {
    e->t = t;
    WR_TRY(wr_table_flush(t, err));
    for (uint32_t i = 0; i < t->nfiles; i++)
        if (t->files[i].ice && t->files[i].ndead && t->files[i].ndead >= t->files[i].ice->records) WR_TRY(wr_table_remove_file(t, i, err));
    size_t n = t->nfiles + 1;
    e->added = wr_calloc(2 * n, sizeof *e->added);
    e->dirty = wr_calloc(n, sizeof *e->dirty);
    e->new_deletes = wr_calloc(n, sizeof *e->new_deletes);
    e->removed = wr_calloc(n + t->ngone, sizeof *e->removed);
    e->removed_refs = wr_calloc(n + t->ngone, sizeof *e->removed_refs);
    if (!e->added || !e->dirty || !e->new_deletes || !e->removed || !e->removed_refs) return wr_nomem(err, "commit", n * sizeof(void *));
    WR_TRY(write_deletes(t, e, err));
    for (uint32_t i = 0; i < t->nfiles; i++)
        if (t->files[i].ice && !t->files[i].committed) e->added[e->nadded++] = t->files[i].ice;
    for (int i = 0; i < e->ndirty; i++) {
        const wr_data_file *f = &t->files[e->dirty[i]];
        e->added[e->nadded++] = e->new_deletes[i];
        if (f->deletes) e->removed[e->nremoved] = f->deletes->path, e->removed_refs[e->nremoved++] = f->ice->path;
    }
    for (uint32_t i = 0; i < t->ngone; i++) {
        e->removed[e->nremoved] = t->gone[i]->path;
        e->removed_refs[e->nremoved++] = t->gone[i]->content == WR_ICE_DATA ? NULL : t->gone[i]->referenced;
    }
    if (t->loading) e->sk[e->ns] = "weir.load", e->sv[e->ns++] = t->load_info;
    if (t->schema_dirty && t->loading) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        WR_TRY(wr_schema_to_json(t->schema, &b, err));
        if (!wr_buf_cstr(&b) || !(e->schema_json = wr_strdup((char *)b.p))) return wr_nomem(err, "schema", b.n);
        e->pk[e->np] = "weir.load-schema", e->pv[e->np++] = e->schema_json;
    }
    if (t->create) {
        snprintf(e->id, sizeof e->id, "%" PRIu32, t->id);
        e->pk[e->np] = "weir.pipeline", e->pv[e->np++] = t->lake->pipeline;
        e->pk[e->np] = "weir.table-id", e->pv[e->np++] = e->id;
    }
    *out = (wr_ice_edit){
        .table = t->ice, .ref = t->loading ? WR_ICE_LOAD : WR_ICE_MAIN, .restart_ref = t->restart,
        .added = e->added, .nadded = e->nadded, .removed = e->removed, .nremoved = e->nremoved, .removed_refs = e->removed_refs,
        .schema = t->schema_dirty || t->create || t->publish ? t->schema : NULL, .set_current_schema = !t->loading || t->publish,
        .publish = t->publish, .create = t->create,
        .new_ns = t->rename_dirty ? t->ns : NULL, .new_name = t->rename_dirty ? t->name : NULL,
    };
    /* a load always writes its info; a new or renamed or altered table without rows needs no snapshot */
    out->no_snapshot = !e->nadded && !e->nremoved && !t->restart && !(t->loading && t->load_dirty);
    return WR_OK;
}

static void attach_kv(table_edit *e, wr_ice_edit *out) {
    out->summary_keys = e->sk, out->summary_vals = e->sv, out->nsummary = e->ns;
    out->prop_keys = e->pk, out->prop_vals = e->pv, out->nprops = e->np;
}

static void adopt(table_edit *e) {
    wr_table *t = e->t;
    for (uint32_t i = 0; i < t->nfiles; i++)
        if (t->files[i].ice) t->files[i].committed = true, t->files[i].dirty = false;
    for (int i = 0; i < e->ndirty; i++) {
        wr_data_file *f = &t->files[e->dirty[i]];
        wr_ice_file_free(f->deletes);
        f->deletes = e->new_deletes[i];
    }
    for (uint32_t i = 0; i < t->ngone; i++) wr_ice_file_free(t->gone[i]);
    t->ngone = 0;
    if (t->publish) {
        t->loading = false;
        wr_free(t->load_info);
        t->load_info = NULL;
    }
    t->create = t->schema_dirty = t->rename_dirty = t->restart = t->publish = t->touched = t->load_dirty = false;
}

static bool needs_commit(const wr_table *t) { return t->touched || t->create; }

bool wr_lake_dirty(const wr_lake *l) {
    if (l->ndropped) return true;
    for (int i = 0; i < l->ntables; i++)
        if (needs_commit(l->tables[i])) return true;
    return false;
}

uint64_t wr_lake_pending_bytes(const wr_lake *l) { return l->pending_total; }

wr_code wr_lake_commit(wr_lake *l, uint64_t offset, const wr_pos *pos, int64_t event_time_us, wr_err *err) {
    if (!wr_lake_dirty(l) && offset == l->offset) return WR_OK;
    size_t max = (size_t)l->ntables + (size_t)l->ndropped;
    WR_AUTO wr_ice_edit *out = wr_calloc(max + 1, sizeof *out);
    WR_AUTO table_edit *ed = wr_calloc(max + 1, sizeof *ed);
    if (!out || !ed) return wr_nomem(err, "commit", max * sizeof *out);
    char off[24], through[24], place[512];
    snprintf(off, sizeof off, "%" PRIu64, offset);
    snprintf(through, sizeof through, "%" PRId64, event_time_us / 1000);
    wr_pos_print(pos, place);
    int n = 0;
    wr_code rc = WR_OK;
    pthread_mutex_lock(&l->catalog_lock);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; rc == WR_OK && i < (pass ? l->ntables : l->ndropped); i++) {
            wr_table *t = pass ? l->tables[i] : l->dropped[i].table;
            bool mirror = !pass && l->dropped[i].mode == WR_DROP_MIRROR;
            if (pass && !needs_commit(t)) continue;
            if (mirror && t->create) continue; /* came and went between two commits */
            table_edit *e = &ed[n];
            if (mirror) {
                e->t = t;
                out[n] = (wr_ice_edit){.table = t->ice, .ref = WR_ICE_MAIN, .drop = true};
            } else {
                rc = wr_table_open_files(t, err);
                if (rc == WR_OK) rc = gather(t, e, &out[n], err);
                e->sk[e->ns] = e->pk[e->np] = "weir.offset", e->sv[e->ns++] = e->pv[e->np++] = off;
                e->sk[e->ns] = e->pk[e->np] = "weir.position", e->sv[e->ns++] = e->pv[e->np++] = place;
                e->sk[e->ns] = e->pk[e->np] = "weir.valid-through-ms", e->sv[e->ns++] = e->pv[e->np++] = through;
                if (!pass) e->pk[e->np] = "weir.dropped", e->pv[e->np++] = off;
                attach_kv(e, &out[n]);
            }
            n++;
        }
    if (rc == WR_OK && WR_FAULT("lake.before_commit")) rc = wr_fail(err, WR_E_IO, WR_RETRY_SOON, "injected: lake commit");
    wr_ice_progress progress = {l->pipeline, offset, pos, event_time_us};
    if (rc == WR_OK) rc = wr_ice_commit(l->catalog, l->state, out, n, &progress, err);
    pthread_mutex_unlock(&l->catalog_lock);
    for (int i = 0; i < n + (rc != WR_OK); i++) {
        if (rc == WR_OK && !out[i].drop) adopt(&ed[i]);
        edit_clear(&ed[i], rc == WR_OK);
    }
    if (rc != WR_OK) return wr_err_in(err, "lake commit at offset %" PRIu64, offset);
    for (int i = 0; i < l->ndropped; i++) wr_table_free(l->dropped[i].table);
    l->ndropped = 0;
    l->offset = offset;
    return WR_OK;
}

wr_code wr_table_load_commit(wr_table *t, const char *info, wr_err *err) {
    wr_lake *l = t->lake;
    pthread_mutex_lock(&l->catalog_lock);
    pthread_mutex_lock(&t->load_lock);
    table_edit e = {0};
    wr_ice_edit out;
    wr_code rc = wr_table_load_set_info(t, info, err);
    if (rc == WR_OK) rc = wr_table_take_sealed(t, err);
    if (rc == WR_OK) rc = gather(t, &e, &out, err);
    if (rc == WR_OK) {
        attach_kv(&e, &out);
        rc = wr_ice_commit(l->catalog, l->state, &out, 1, NULL, err);
    }
    if (rc == WR_OK) adopt(&e);
    edit_clear(&e, rc == WR_OK);
    pthread_mutex_unlock(&t->load_lock);
    pthread_mutex_unlock(&l->catalog_lock);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "committing loaded rows of %s.%s", t->ns, t->name);
}
