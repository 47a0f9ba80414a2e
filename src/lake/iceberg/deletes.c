/* Delete files of both kinds, v3 deletion vectors and v2 position deletes, behind one pair of functions. */
#include <inttypes.h>
#include <string.h>

#include "iceberg/manifest.h"
#include "iceberg/metadata.h"
#include "iceberg/puffin.h"
#include "iceberg/uuid.h"
#include "weir/base/mem.h"
#include "weir/io.h"

/* A vector above this gets a Puffin file of its own: it will be rewritten or dropped alone, and then its old file is
 * wholly dead. Smaller ones of a commit share one file; that file lives until the last of them is gone. */
#define DV_BYTES_MAX (1u << 30)

static wr_code position_schema(wr_schema **ret_schema, wr_err *err) {
    const wr_column cols[] = {{.name = "file_path", .id = WR_FIELD_PATH, .type = {.kind = WR_STRING}},
                              {.name = "pos", .id = WR_FIELD_POS, .type = {.kind = WR_LONG}}};
    return wr_schema_new(cols, 2, 0, ret_schema, err);
}

static void schema_unref_p(wr_schema **s) { wr_schema_unref(*s); }
static void batch_free_p(wr_batch **b) { wr_batch_free(*b); }
static void file_close_p(wr_file **f) { wr_file_close(*f); }

/* ------------------------------------------------------------------ reading */
static wr_code read_blob(const wr_ice_file *del, wr_buf *out, wr_err *err) {
    WR_AUTO char *path = NULL;
    WR_TRY(wr_ice_local_path(del->path, &path, err));
    if (del->content_offset < 0 || del->content_size < 0 || del->content_size > DV_BYTES_MAX)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO,
                       "deletion vector in %s has no usable content_offset and content_size_in_bytes", del->path);
    WR_CLEANUP(file_close_p) wr_file *f = NULL;
    uint64_t length;
    WR_TRY(wr_file_open(path, WR_OPEN_READ, &f, err));
    WR_TRY(wr_file_length(f, &length, err));
    if ((uint64_t)del->content_offset > length || (uint64_t)del->content_size > length - (uint64_t)del->content_offset)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO,
                       "deletion vector at byte %" PRId64 " of %s ends behind the file's %" PRIu64 " bytes",
                       del->content_offset, del->path, length);
    uint8_t *dst = wr_buf_room(out, (size_t)del->content_size);
    size_t got = 0;
    if (!dst) return wr_nomem(err, "deletion vector", (unsigned long long)del->content_size);
    WR_TRY(wr_file_pread(f, (uint64_t)del->content_offset, dst, (size_t)del->content_size, &got, err));
    if (got != (size_t)del->content_size)
        return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "%s became shorter while it was read", del->path);
    out->n += got;
    return WR_OK;
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

wr_code wr_ice_read_deletes(wr_engine *e, const wr_ice_file *del, const char *data_path, void **ret_bitmap,
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
        WR_TRY(read_blob(del, &blob, err));
        WR_TRY(wr_puffin_decode_dv(wr_buf_view(&blob), del->path, del->records, &b, err));
        return *ret_bitmap = b, WR_OK;
    }
    WR_CLEANUP(schema_unref_p) wr_schema *schema = NULL;
    WR_AUTO char *path = NULL;
    WR_TRY(wr_ice_local_path(del->path, &path, err));
    WR_TRY(position_schema(&schema, err));
    positions p = {schema, del, data_path, roaring_bitmap_create()};
    if (!p.bitmap) return wr_nomem(err, "position deletes", 1);
    wr_parquet_read_options opts = {0};
    wr_code rc = wr_parquet_read(e, path, schema, &opts, take_position, &p, err);
    if (rc != WR_OK) return roaring_bitmap_free(p.bitmap), rc;
    *ret_bitmap = p.bitmap;
    return WR_OK;
}

/* ------------------------------------------------------------------ writing */
/* One file for each data file's deletes. Puffin files could hold several vectors, and two things speak against it: DuckDB 1.5.5 (file cache on, the
 * default) applies the wrong vector of a shared file, and Java's expiry deletes a shared file while a vector in it is still live
 * (docs/decisions/0002-one-vector-per-puffin.md). */
typedef struct target {
    char *uri, *local;
} target;

static void targets_clear(target *t, int n) {
    for (int i = 0; i < n; i++) wr_free(t[i].uri), wr_free(t[i].local);
    wr_free(t);
}

static wr_code name_target(const char *folder, const char *ext, target *t, wr_err *err) {
    char uuid[WR_UUID_TEXT];
    if (!wr_uuid_new(uuid)) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "getrandom gave no uuid");
    t->uri = wr_asprintf("%s/%s-deletes.%s", folder, uuid, ext);
    if (!t->uri) return wr_nomem(err, "path", strlen(folder));
    return wr_ice_local_path(t->uri, &t->local, err);
}

static wr_ice_file *delete_file(const target *t, const wr_ice_dv *dv, const char *format) {
    wr_ice_file *f = wr_ice_file_new(WR_ICE_POS_DELETES, t->uri);
    if (f) f->format = wr_strdup(format), f->referenced = wr_strdup(dv->referenced);
    if (f && f->format && f->referenced) return f;
    wr_ice_file_free(f);
    return NULL;
}

static wr_code write_puffin(const target *t, wr_ice_dv *dv, wr_ice_file **ret, wr_err *err) {
    uint64_t bytes;
    WR_TRY(wr_puffin_write(t->local, dv, 1, &bytes, err));
    wr_ice_file *f = *ret = delete_file(t, dv, "PUFFIN");
    if (!f) return wr_nomem(err, "delete file", sizeof *f);
    f->records = dv->cardinality, f->bytes = bytes;
    f->content_offset = dv->offset, f->content_size = dv->size;
    return WR_OK;
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

static wr_code write_positions(wr_engine *e, const target *t, wr_ice_dv *dv, wr_ice_file **ret, wr_err *err) {
    WR_CLEANUP(schema_unref_p) wr_schema *schema = NULL;
    WR_CLEANUP(batch_free_p) wr_batch *batch = NULL;
    WR_TRY(position_schema(&schema, err));
    WR_TRY(wr_batch_new(schema, &batch, err));
    batch_fill fill = {.batch = batch, .path = dv->referenced, .err = err};
    roaring_iterate(dv->bitmap, fill_row, &fill);
    wr_buf_free(&fill.row);
    WR_TRY(fill.rc);
    wr_parquet_file pf = {0};
    wr_parquet_options opts = {0};
    WR_TRY(wr_parquet_write(e, batch, t->local, &opts, &pf, err));
    dv->cardinality = pf.rows;
    wr_ice_file *f = *ret = delete_file(t, dv, "PARQUET");
    if (f) f->records = pf.rows, f->bytes = pf.bytes;
    /* The engine cuts text bounds; readers bind the file by whole ones, which the manifest writer takes from
     * `referenced`. */
    f = f && (f->stats = wr_calloc(1, sizeof *f->stats)) ? f : NULL;
    for (int i = 0; f && i < pf.ncols; i++)
        if (pf.cols[i].field_id == WR_FIELD_POS) f->stats[f->nstats++] = pf.cols[i], f->stats[0].nans = WR_STAT_UNKNOWN;
    wr_parquet_file_clear(&pf);
    return f ? WR_OK : wr_nomem(err, "delete file", sizeof *f);
}

static wr_code write_targets(wr_engine *e, wr_state *state, bool v3, const target *t, int n, wr_ice_dv *dvs,
                             wr_ice_file **files, wr_err *err) {
    WR_AUTO const char **paths = wr_calloc((size_t)n, sizeof *paths);
    if (!paths) return wr_nomem(err, "paths", (size_t)n * sizeof *paths);
    for (int i = 0; i < n; i++) paths[i] = t[i].local;
    if (state) WR_TRY(wr_state_file_add_many(state, paths, n, err));
    for (int i = 0; i < n; i++)
        WR_TRY(v3 ? write_puffin(&t[i], &dvs[i], &files[i], err) : write_positions(e, &t[i], &dvs[i], &files[i], err));
    return WR_OK;
}

wr_code wr_ice_write_deletes(wr_engine *e, wr_state *state, const wr_ice_table *t, wr_ice_dv *dvs, int n,
                             wr_ice_file ***ret_files, wr_err *err) {
    WR_AUTO char *folder = wr_asprintf("%s/data", wr_ice_location(t)), *local = NULL;
    if (!folder) return wr_nomem(err, "path", 1);
    WR_TRY(wr_ice_local_path(folder, &local, err));
    WR_TRY(wr_mkdirs(local, err));
    wr_ice_file **files = wr_calloc((size_t)n, sizeof *files);
    target *targets = wr_calloc((size_t)n, sizeof *targets);
    wr_code rc = files && targets ? WR_OK : wr_nomem(err, "delete files", (size_t)n * sizeof *targets);
    bool v3 = t->format_version >= 3;
    for (int i = 0; rc == WR_OK && i < n; i++) rc = name_target(folder, v3 ? "puffin" : "parquet", &targets[i], err);
    if (rc == WR_OK) rc = write_targets(e, state, v3, targets, n, dvs, files, err);
    targets_clear(targets, targets ? n : 0);
    if (rc != WR_OK) {
        for (int i = 0; files && i < n; i++) wr_ice_file_free(files[i]);
        wr_free(files);
        return wr_err_in(err, "deletes of table %s.%s", t->ns, t->name);
    }
    *ret_files = files;
    return WR_OK;
}
