/* Delete files of both kinds, v3 deletion vectors and v2 position deletes, behind one pair of functions. */
#include <inttypes.h>
#include <string.h>

#include "iceberg/manifest.h"
#include "iceberg/metadata.h"
#include "iceberg/puffin.h"
#include "iceberg/uuid.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"

#define DV_BYTES_MAX (1u << 30)
#define PUFFINS_AT_ONCE 64
#define PUFFIN_BYTES_AT_ONCE (16u << 20)

static wr_code position_schema(wr_schema **ret_schema, wr_err *err) {
    const wr_column cols[] = {{.name = "file_path", .id = WR_FIELD_PATH, .type = {.kind = WR_STRING}},
                              {.name = "pos", .id = WR_FIELD_POS, .type = {.kind = WR_LONG}}};
    return wr_schema_new(cols, 2, 0, ret_schema, err);
}

static void schema_unref_p(wr_schema **s) { wr_schema_unref(*s); }
static void batch_free_p(wr_batch **b) { wr_batch_free(*b); }

/* ------------------------------------------------------------------ reading */
static wr_code read_blob(wr_store *store, const wr_ice_file *del, wr_buf *out, wr_err *err) {
    if (del->content_offset < 0 || del->content_size < 0 || del->content_size > DV_BYTES_MAX)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO,
                       "deletion vector in %s has no usable content_offset and content_size_in_bytes", del->path);
    wr_code rc = wr_store_get_range(store, del->path, (uint64_t)del->content_offset, (size_t)del->content_size, out, err);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "deletion vector");
}

typedef struct positions {
    const wr_schema *schema;
    const wr_ice_file *del;
    const char *data_path;
    roaring_bitmap_t *bitmap;
} positions;

static wr_code take_position(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    positions *p = ctx;
    wr_value v[2];
    WR_TRY(wr_row_read(p->schema, row, v, err));
    if (v[0].null || v[1].null)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: row %" PRIu64 " of the position deletes has a null",
                       p->del->path, pos);
    if (!wr_slice_eq(v[0].s, wr_slice_str(p->data_path))) return WR_OK;
    if (v[1].i64 < 0 || v[1].i64 > UINT32_MAX)
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "%s: row %" PRIu64 " deletes position %" PRId64,
                       p->del->path, pos, v[1].i64);
    roaring_bitmap_add(p->bitmap, (uint32_t)v[1].i64);
    return WR_OK;
}

static wr_code read_positions(wr_engine *e, wr_store *store, positions *p, wr_err *err) {
    WR_AUTO char *path = NULL;
    wr_parquet_read_options opts = {0};
    WR_TRY(wr_store_pin(store, p->del->path, &path, err));
    wr_code rc = wr_parquet_read(e, path, p->schema, &opts, take_position, p, err);
    wr_store_unpin(store, p->del->path);
    return rc;
}

wr_code wr_ice_read_deletes(wr_engine *e, wr_store *store, const wr_ice_file *del, const char *data_path, void **ret_bitmap,
                            wr_err *err) {
    if (del->content != WR_ICE_POS_DELETES)
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "%s is no position delete file or deletion vector",
                       del->path);
    if (strcmp(del->format ? del->format : "", "PUFFIN") == 0) {
        roaring_bitmap_t *b = NULL;
        if (!del->referenced || strcmp(del->referenced, data_path) != 0) {
            if (!(b = roaring_bitmap_create())) return wr_nomem(err, "deletion vector", 1);
            return *ret_bitmap = b, WR_OK;
        }
        WR_AUTO_BUF wr_buf blob = WR_BUF_INIT;
        WR_TRY(read_blob(store, del, &blob, err));
        WR_TRY(wr_puffin_decode_dv(wr_buf_view(&blob), del->path, del->records, &b, err));
        return *ret_bitmap = b, WR_OK;
    }
    WR_CLEANUP(schema_unref_p) wr_schema *schema = NULL;
    WR_TRY(position_schema(&schema, err));
    positions p = {schema, del, data_path, roaring_bitmap_create()};
    if (!p.bitmap) return wr_nomem(err, "position deletes", 1);
    wr_code rc = read_positions(e, store, &p, err);
    if (rc != WR_OK) return roaring_bitmap_free(p.bitmap), rc;
    *ret_bitmap = p.bitmap;
    return WR_OK;
}

/* ------------------------------------------------------------------ writing */
/* One file for each data file's deletes. Puffin files could hold several vectors, and two things speak against it: DuckDB 1.5.5 (file cache on, the
 * default) applies the wrong vector of a shared file, and Java's expiry deletes a shared file while a vector in it is still live
 * (docs/decisions/0002-one-vector-per-puffin.md). */
static wr_code name_file(const char *folder, const char *ext, char **ret_uri, wr_err *err) {
    char uuid[WR_UUID_TEXT];
    if (!wr_uuid_new(uuid)) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "getrandom gave no uuid");
    char *uri = wr_asprintf("%s/%s-deletes.%s", folder, uuid, ext);
    return uri ? (*ret_uri = uri, WR_OK) : wr_nomem(err, "path", strlen(folder));
}

static wr_ice_file *delete_file(const char *uri, const wr_ice_dv *dv, const char *format) {
    wr_ice_file *f = wr_ice_file_new(WR_ICE_POS_DELETES, uri);
    if (f) f->format = wr_strdup(format), f->referenced = wr_strdup(dv->referenced);
    if (f && f->format && f->referenced) return f;
    wr_ice_file_free(f);
    return NULL;
}

static wr_code encode_puffin(const char *uri, wr_ice_dv *dv, wr_buf *out, wr_ice_file **ret, wr_err *err) {
    WR_TRY(wr_puffin_encode(dv, 1, out, err));
    if (WR_FAULT("ice.puffin")) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "cannot write %s: fault ice.puffin", uri);
    wr_ice_file *f = *ret = delete_file(uri, dv, "PUFFIN");
    if (!f) return wr_nomem(err, "delete file", sizeof *f);
    f->records = dv->cardinality, f->bytes = out->n;
    f->content_offset = dv->offset, f->content_size = dv->size;
    return WR_OK;
}

/* Some at a time: the store writes them together, and memory stays bounded. */
static wr_code write_puffins(wr_store *store, char *const *uris, int n, wr_ice_dv *dvs, wr_ice_file **files, wr_err *err) {
    wr_store_object objects[PUFFINS_AT_ONCE];
    wr_buf content[PUFFINS_AT_ONCE] = {0};
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i < n;) {
        int k = 0;
        size_t bytes = 0;
        for (; rc == WR_OK && i < n && k < PUFFINS_AT_ONCE && bytes < PUFFIN_BYTES_AT_ONCE; i++, k++) {
            wr_buf_clear(&content[k]);
            rc = encode_puffin(uris[i], &dvs[i], &content[k], &files[i], err);
            objects[k] = (wr_store_object){uris[i], wr_buf_view(&content[k])};
            bytes += content[k].n;
        }
        if (rc == WR_OK) rc = wr_store_put(store, objects, k, err);
    }
    for (int k = 0; k < PUFFINS_AT_ONCE; k++) wr_buf_free(&content[k]);
    return rc;
}

typedef struct batch_fill {
    wr_batch *batch;
    const char *path;
    wr_buf row;
    wr_err *err;
    wr_code rc;
} batch_fill;

static bool fill_row(uint32_t pos, void *ctx) {
    batch_fill *f = ctx;
    wr_value path = {.s = wr_slice_str(f->path)}, at = {.i64 = pos};
    wr_buf_clear(&f->row);
    size_t start = wr_row_begin(&f->row, 2);
    wr_row_put(&f->row, start, 0, (wr_type){.kind = WR_STRING}, &path);
    wr_row_put(&f->row, start, 1, (wr_type){.kind = WR_LONG}, &at);
    f->rc = wr_buf_check(&f->row, "position delete", f->err);
    if (f->rc == WR_OK) f->rc = wr_batch_append(f->batch, wr_buf_view(&f->row), f->err);
    return f->rc == WR_OK;
}

static wr_code write_staged(wr_engine *e, wr_store *store, const wr_batch *batch, const char *uri, wr_parquet_file *pf, wr_err *err) {
    WR_AUTO char *path = NULL;
    wr_parquet_options opts = {0};
    WR_TRY(wr_store_stage(store, uri, &path, err));
    WR_TRY(wr_parquet_write(e, batch, path, &opts, pf, err));
    wr_code rc = wr_store_publish(store, &(wr_store_file){uri, path}, 1, err);
    if (rc != WR_OK) wr_store_discard(path);
    return rc;
}

static wr_code write_positions(wr_engine *e, wr_store *store, const char *uri, wr_ice_dv *dv, wr_ice_file **ret, wr_err *err) {
    WR_CLEANUP(schema_unref_p) wr_schema *schema = NULL;
    WR_CLEANUP(batch_free_p) wr_batch *batch = NULL;
    WR_CLEANUP(wr_parquet_file_clear) wr_parquet_file pf = {0};
    WR_TRY(position_schema(&schema, err));
    WR_TRY(wr_batch_new(schema, &batch, err));
    batch_fill fill = {.batch = batch, .path = dv->referenced, .err = err};
    roaring_iterate(dv->bitmap, fill_row, &fill);
    wr_buf_free(&fill.row);
    WR_TRY(fill.rc);
    WR_TRY(write_staged(e, store, batch, uri, &pf, err));
    dv->cardinality = pf.rows;
    wr_ice_file *f = *ret = delete_file(uri, dv, "PARQUET");
    if (!f || !(f->stats = wr_calloc(1, sizeof *f->stats))) return wr_nomem(err, "delete file", sizeof *f);
    f->records = pf.rows, f->bytes = pf.bytes;
    /* The engine cuts text bounds; readers bind the file by whole ones, which the manifest writer takes from
     * `referenced`. */
    for (int i = 0; i < pf.ncols; i++)
        if (pf.cols[i].field_id == WR_FIELD_POS) f->stats[f->nstats++] = pf.cols[i], f->stats[0].nans = WR_STAT_UNKNOWN;
    return WR_OK;
}

static wr_code write_files(wr_engine *e, wr_state *state, const wr_ice_table *t, char *const *uris, int n, wr_ice_dv *dvs, wr_ice_file **files, wr_err *err) {
    if (state) WR_TRY(wr_ice_announce(state, (const char *const *)uris, n, err));
    if (t->format_version >= 3) return write_puffins(t->store, uris, n, dvs, files, err);
    for (int i = 0; i < n; i++) WR_TRY(write_positions(e, t->store, uris[i], &dvs[i], &files[i], err));
    return WR_OK;
}

wr_code wr_ice_write_deletes(wr_engine *e, wr_state *state, const wr_ice_table *t, wr_ice_dv *dvs, int n,
                             wr_ice_file ***ret_files, wr_err *err) {
    WR_AUTO char *folder = wr_asprintf("%s/data", wr_ice_location(t));
    if (!folder) return wr_nomem(err, "path", 1);
    wr_ice_file **files = wr_calloc((size_t)n, sizeof *files);
    char **uris = wr_calloc((size_t)n, sizeof *uris);
    wr_code rc = files && uris ? WR_OK : wr_nomem(err, "delete files", (size_t)n * sizeof *uris);
    for (int i = 0; rc == WR_OK && i < n; i++) rc = name_file(folder, t->format_version >= 3 ? "puffin" : "parquet", &uris[i], err);
    if (rc == WR_OK) rc = write_files(e, state, t, uris, n, dvs, files, err);
    for (int i = 0; uris && i < n; i++) wr_free(uris[i]);
    wr_free(uris);
    if (rc != WR_OK) {
        for (int i = 0; files && i < n; i++) wr_ice_file_free(files[i]);
        wr_free(files);
        return wr_err_in(err, "deletes of table %s.%s", t->ns, t->name);
    }
    *ret_files = files;
    return WR_OK;
}
