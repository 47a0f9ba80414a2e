/* What changes add to a table is told before each commit, and can be read back after it. */
#include <inttypes.h>
#include <stdio.h>
#include "table.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

/* ------------------------------------------------------------------ since the last commit */
wr_code wr_fresh_room(wr_table *t, uint32_t row, wr_err *err) {
    wr_fresh *f = &t->fresh;
    if (!t->lake->witness.before || row < f->cap) return WR_OK;
    uint32_t cap = f->cap ? f->cap * 2 : 256;
    uint64_t *s = wr_realloc(f->row_sums, (size_t)cap * sizeof *s);
    if (!s) return wr_nomem(err, "sums of rows", (size_t)cap * sizeof *s);
    f->row_sums = s, f->cap = cap;
    return WR_OK;
}

void wr_fresh_flushed(wr_table *t) {
    wr_fresh *f = &t->fresh;
    if (!f->row_sums) return;
    for (uint32_t i = 0; i < wr_batch_rows(t->batch); i++)
        if (!wr_batch_dead(t->batch, i)) f->rows++, f->sum += f->row_sums[i];
    f->unread |= f->schema && f->schema != t->schema; /* one reading, one schema */
    if (!f->schema) f->schema = wr_schema_ref(t->schema);
    if (f->cap > 65536) { /* there may be thousands of tables */
        wr_free(f->row_sums);
        f->row_sums = NULL, f->cap = 0;
    }
}

void wr_fresh_forget(wr_table *t) {
    wr_schema_unref((wr_schema *)t->fresh.schema);
    t->fresh.schema = NULL;
    t->fresh.rows = t->fresh.sum = 0;
    t->fresh.unread = false;
}

void wr_fresh_clear(wr_table *t) {
    wr_fresh_forget(t);
    t->fresh.applied = 0;
}

/* ------------------------------------------------------------------ telling it */
static int list_files(const wr_written *w, wr_addition_file *out) {
    int n = 0;
    for (uint32_t i = 0; i < w->t->nfiles; i++)
        if (w->t->files[i].ice && w->t->files[i].fresh) out[n++] = (wr_addition_file){.path = w->t->files[i].ice->path};
    for (int i = 0; i < w->ndeletes; i++) {
        const wr_ice_file *d = w->deletes[i];
        out[n++] = (wr_addition_file){.path = d->path, .rows = d->records, .referenced = d->referenced, .at = d->content_offset, .bytes = d->content_size};
    }
    return n;
}

wr_code wr_lake_show(wr_lake *l, uint64_t offset, const wr_written *list, int n, wr_err *err) {
    size_t most = 1;
    for (int i = 0; i < n; i++) most += (size_t)list[i].t->nfiles + (size_t)list[i].ndeletes;
    WR_AUTO wr_addition *a = wr_calloc((size_t)n + 1, sizeof *a);
    WR_AUTO wr_addition_file *files = wr_calloc(most, sizeof *files);
    if (!a || !files) return wr_nomem(err, "commit", most * sizeof *files);
    int na = 0, nfiles = 0;
    for (int i = 0; i < n; i++) {
        const wr_table *t = list[i].t;
        int k = list_files(&list[i], files + nfiles);
        if (!k && !t->fresh.applied) continue;
        a[na++] = (wr_addition){.table = t->id, .ns = t->ns, .name = t->name, .schema = t->fresh.schema ? t->fresh.schema : t->schema, .applied = t->fresh.applied, .rows = t->fresh.rows, .sum = t->fresh.sum,
                                .unread = t->fresh.unread, .files = files + nfiles, .nfiles = k};
        nfiles += k;
    }
    return l->witness.before(l->witness.ctx, offset, a, na, err);
}

/* ------------------------------------------------------------------ reading it back */
typedef struct found { uint64_t rows, sum; } found;

static wr_code add_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    (void)pos, (void)err;
    found *f = ctx;
    f->rows++, f->sum += wr_hash64(row.p, row.n, 0);
    return WR_OK;
}

static wr_code read_rows(wr_engine *e, wr_store *store, const wr_addition *a, const char *uri, found *f, wr_err *err) {
    WR_AUTO char *path = NULL;
    WR_TRY(wr_store_pin(store, uri, &path, err));
    wr_code rc = wr_parquet_read(e, path, a->schema, NULL, add_row, f, err);
    wr_store_unpin(store, uri);
    return rc;
}

static wr_code read_deletes(wr_engine *e, wr_store *store, const wr_addition_file *af, uint64_t *ret_rows, wr_err *err) {
    wr_ice_file *d = wr_ice_file_new(WR_ICE_POS_DELETES, af->path);
    void *bitmap = NULL;
    wr_code rc = d && (d->format = wr_strdup(af->at >= 0 ? "PUFFIN" : "PARQUET")) && (d->referenced = wr_strdup(af->referenced)) ? WR_OK : wr_nomem(err, "file entry", 256);
    if (rc == WR_OK) d->content_offset = af->at, d->content_size = af->bytes, d->records = af->rows, rc = wr_ice_read_deletes(e, store, d, af->referenced, &bitmap, err);
    if (rc == WR_OK) *ret_rows = roaring_bitmap_get_cardinality(bitmap);
    if (bitmap) roaring_bitmap_free(bitmap);
    wr_ice_file_free(d);
    return rc;
}

wr_code wr_lake_read_back(wr_engine *e, wr_store *store, const wr_addition *a, bool *ret_same, char why[256], wr_err *err) {
    found f = {0};
    bool same = true;
    why[0] = 0;
    for (int i = 0; i < a->nfiles; i++) {
        const wr_addition_file *af = &a->files[i];
        wr_code rc = WR_OK;
        uint64_t rows = 0;
        if (!af->referenced) rc = a->unread ? WR_OK : read_rows(e, store, a, af->path, &f, err);
        else rc = read_deletes(e, store, af, &rows, err);
        if (rc == WR_E_DECODE || rc == WR_E_CORRUPT) { /* damage is an answer */
            snprintf(why, 256, "%.250s", err->msg);
            wr_err_clear(err);
            same = false;
        } else if (rc != WR_OK) return rc;
        else if (af->referenced && rows != af->rows) {
            snprintf(why, 256, "%" PRIu64 " rows were marked as deleted in a file, %" PRIu64 " are marked by %.150s", af->rows, rows, af->path);
            same = false;
        }
    }
    if (same && !a->unread && (f.rows != a->rows || f.sum != a->sum)) {
        if (f.rows != a->rows) snprintf(why, 256, "%" PRIu64 " rows were written in %d files, %" PRIu64 " are there", a->rows, a->nfiles, f.rows);
        else snprintf(why, 256, "%" PRIu64 " rows were written in %d files, and some of them are not what was written", a->rows, a->nfiles);
        same = false;
    }
    *ret_same = same;
    return WR_OK;
}
