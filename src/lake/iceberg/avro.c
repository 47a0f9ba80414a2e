#include "iceberg/avro.h"

#include <cjson/cJSON.h>
#include <string.h>
#include <sys/random.h>
#include <zlib.h>
#include <zstd.h>

#include "weir/base/arena.h"
#include "weir/base/mem.h"

#define BLOCK_BYTES (64u << 10)      /* a block is written when its rows exceed this */
#define BLOCK_BYTES_MAX (64u << 20)  /* a block larger than this after decompression is refused */
#define RECORD_BYTES_MAX (64u << 20) /* memory of one decoded record */
#define SCHEMA_BYTES_MAX (16u << 20)
#define DEPTH_MAX 32 /* nesting of schema and values */
#define TYPES_MAX 4096

static const uint8_t magic[4] = {'O', 'b', 'j', 1};

/* ------------------------------------------------------------------ writing */
void wr_avro_put_long(wr_buf *b, int64_t v) { wr_buf_varint(b, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63)); }

void wr_avro_put_bytes(wr_buf *b, wr_slice s) {
    wr_avro_put_long(b, (int64_t)s.n);
    wr_buf_put(b, s.p, s.n);
}

wr_code wr_avro_begin(wr_avro_writer *w, const char *schema_json, const wr_avro_meta *meta, int nmeta, wr_buf *out,
                      wr_err *err) {
    *w = (wr_avro_writer){.out = out};
    if (getrandom(w->sync, sizeof w->sync, 0) != sizeof w->sync)
        return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "getrandom gave no sync marker");
    wr_buf_put(out, magic, 4);
    wr_avro_put_long(out, nmeta + 2);
    for (int i = 0; i < nmeta; i++) {
        wr_avro_put_str(out, meta[i].key);
        wr_avro_put_bytes(out, meta[i].value);
    }
    wr_avro_put_str(out, "avro.schema");
    wr_avro_put_str(out, schema_json);
    wr_avro_put_str(out, "avro.codec");
    wr_avro_put_str(out, "deflate");
    wr_avro_put_long(out, 0);
    wr_buf_put(out, w->sync, 16);
    return wr_buf_check(out, "avro header", err);
}

static wr_code flush_block(wr_avro_writer *w, wr_err *err) {
    if (w->rows == 0) return WR_OK;
    WR_TRY(wr_buf_check(&w->row, "avro block", err));
    z_stream z = {0};
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return wr_nomem(err, "deflate", 1u << 18);
    wr_code rc = WR_OK;
    WR_AUTO_BUF wr_buf packed = WR_BUF_INIT;
    uLong bound = deflateBound(&z, (uLong)w->row.n);
    uint8_t *dst = wr_buf_room(&packed, bound);
    if (!dst) {
        rc = wr_nomem(err, "avro block", bound);
    } else {
        z.next_in = w->row.p, z.avail_in = (uInt)w->row.n, z.next_out = dst, z.avail_out = (uInt)bound;
        if (deflate(&z, Z_FINISH) != Z_STREAM_END)
            rc = wr_fail(err, WR_E_IO, WR_RETRY_NO, "deflate of %zu bytes did not finish", w->row.n);
    }
    size_t n = z.total_out;
    deflateEnd(&z);
    WR_TRY(rc);
    wr_avro_put_long(w->out, (int64_t)w->rows);
    wr_avro_put_bytes(w->out, wr_slice_of(dst, n));
    wr_buf_put(w->out, w->sync, 16);
    w->rows = 0;
    wr_buf_clear(&w->row);
    return wr_buf_check(w->out, "avro file", err);
}

wr_code wr_avro_end_row(wr_avro_writer *w, wr_err *err) {
    w->rows++;
    return w->row.n >= BLOCK_BYTES || w->row.failed ? flush_block(w, err) : WR_OK;
}

wr_code wr_avro_end(wr_avro_writer *w, wr_err *err) { return flush_block(w, err); }

void wr_avro_writer_clear(wr_avro_writer *w) { wr_buf_free(&w->row); }

/* ------------------------------------------------------------------ schema */
typedef struct field {
    int32_t id; /* -1 = none */
    const wr_avro_type *type;
} field;

struct wr_avro_type {
    wr_avro_kind kind;
    const char *name; /* of records, enums and fixed */
    int n;            /* fields of a record, branches of a union */
    field *fields;    /* RECORD, UNION; ARRAY, MAP: one, the items */
    size_t size;      /* FIXED */
    struct wr_avro_type *next_named;
};

struct wr_avro_reader {
    char *name; /* of the file */
    wr_slice file;
    wr_rd rd;
    wr_arena *types, *values;
    wr_avro_type *named;
    const wr_avro_type *root;
    int ntypes;
    enum { CODEC_NULL, CODEC_DEFLATE, CODEC_ZSTD } codec;
    const uint8_t *sync;
    struct {
        wr_slice key, value;
    } meta[64];
    int nmeta;
    wr_buf unpacked;
    wr_rd block;
    uint64_t block_left; /* rows */
    size_t block_at;     /* its byte offset in the file */
};

static wr_code bad_schema(wr_avro_reader *r, const char *what, wr_err *err) {
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: avro.schema: %s", r->name, what);
}

static wr_code parse_type(wr_avro_reader *r, const cJSON *j, int depth, const wr_avro_type **ret, wr_err *err);

static const struct {
    const char *name;
    wr_avro_kind kind;
} primitives[] = {
    {"null", WR_AVRO_NULL},   {"boolean", WR_AVRO_BOOL},  {"int", WR_AVRO_INT},     {"long", WR_AVRO_LONG},
    {"float", WR_AVRO_FLOAT}, {"double", WR_AVRO_DOUBLE}, {"bytes", WR_AVRO_BYTES}, {"string", WR_AVRO_STRING},
};

static wr_code new_type(wr_avro_reader *r, wr_avro_kind kind, int nfields, wr_avro_type **ret, wr_err *err) {
    if (++r->ntypes > TYPES_MAX) return bad_schema(r, "more than 4096 types", err);
    wr_avro_type *t = wr_arena_zalloc(r->types, sizeof *t);
    field *f = nfields ? wr_arena_zalloc(r->types, (size_t)nfields * sizeof *f) : NULL;
    if (!t || (nfields && !f)) return wr_nomem(err, "avro schema", sizeof *t + (size_t)nfields * sizeof *f);
    t->kind = kind, t->fields = f, t->n = nfields;
    *ret = t;
    return WR_OK;
}

static wr_code named_type(wr_avro_reader *r, wr_avro_type *t, const cJSON *j, wr_err *err) {
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(j, "name");
    if (!cJSON_IsString(name)) return bad_schema(r, "a record, enum or fixed without a name", err);
    t->name = wr_arena_strndup(r->types, name->valuestring, strlen(name->valuestring));
    if (!t->name) return wr_nomem(err, "avro schema", strlen(name->valuestring));
    t->next_named = r->named;
    r->named = t;
    return WR_OK;
}

static wr_code parse_record(wr_avro_reader *r, const cJSON *j, int depth, const wr_avro_type **ret, wr_err *err) {
    const cJSON *fields = cJSON_GetObjectItemCaseSensitive(j, "fields"), *f;
    if (!cJSON_IsArray(fields)) return bad_schema(r, "a record without fields", err);
    wr_avro_type *t;
    WR_TRY(new_type(r, WR_AVRO_RECORD, cJSON_GetArraySize(fields), &t, err));
    WR_TRY(named_type(r, t, j, err));
    int i = 0;
    cJSON_ArrayForEach(f, fields) {
        const cJSON *type = cJSON_GetObjectItemCaseSensitive(f, "type"),
                    *id = cJSON_GetObjectItemCaseSensitive(f, "field-id");
        if (!type) return bad_schema(r, "a field without a type", err);
        t->fields[i].id = cJSON_IsNumber(id) ? id->valueint : -1;
        WR_TRY(parse_type(r, type, depth + 1, &t->fields[i++].type, err));
    }
    *ret = t;
    return WR_OK;
}

static wr_code parse_named(wr_avro_reader *r, const char *name, const wr_avro_type **ret, wr_err *err) {
    for (size_t i = 0; i < sizeof primitives / sizeof *primitives; i++) {
        if (strcmp(name, primitives[i].name) != 0) continue;
        wr_avro_type *t;
        WR_TRY(new_type(r, primitives[i].kind, 0, &t, err));
        *ret = t;
        return WR_OK;
    }
    const char *dot = strrchr(name, '.');
    for (const wr_avro_type *t = r->named; t; t = t->next_named)
        if (strcmp(t->name, name) == 0 || (dot && strcmp(t->name, dot + 1) == 0)) return *ret = t, WR_OK;
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: avro.schema: unknown type \"%.100s\"", r->name, name);
}

static wr_code parse_type(wr_avro_reader *r, const cJSON *j, int depth, const wr_avro_type **ret, wr_err *err) {
    if (depth > DEPTH_MAX) return bad_schema(r, "nested deeper than 32", err);
    if (cJSON_IsString(j)) return parse_named(r, j->valuestring, ret, err);
    wr_avro_type *t;
    if (cJSON_IsArray(j)) {
        WR_TRY(new_type(r, WR_AVRO_UNION, cJSON_GetArraySize(j), &t, err));
        const cJSON *b;
        int i = 0;
        cJSON_ArrayForEach(b, j) {
            WR_TRY(parse_type(r, b, depth + 1, &t->fields[i].type, err));
            if (t->fields[i++].type->kind == WR_AVRO_UNION) return bad_schema(r, "a union in a union", err);
        }
        *ret = t;
        return WR_OK;
    }
    if (!cJSON_IsObject(j)) return bad_schema(r, "a type that is neither text, list nor object", err);
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(j, "type");
    if (!type) return bad_schema(r, "an object without a type", err);
    if (!cJSON_IsString(type)) return parse_type(r, type, depth + 1, ret, err);
    const char *name = type->valuestring;
    if (strcmp(name, "record") == 0) return parse_record(r, j, depth, ret, err);
    if (strcmp(name, "array") == 0 || strcmp(name, "map") == 0) {
        bool map = name[0] == 'm';
        const cJSON *items = cJSON_GetObjectItemCaseSensitive(j, map ? "values" : "items");
        if (!items) return bad_schema(r, "an array or map without items", err);
        WR_TRY(new_type(r, map ? WR_AVRO_MAP : WR_AVRO_ARRAY, 1, &t, err));
        WR_TRY(parse_type(r, items, depth + 1, &t->fields[0].type, err));
        *ret = t;
        return WR_OK;
    }
    if (strcmp(name, "fixed") == 0) {
        const cJSON *size = cJSON_GetObjectItemCaseSensitive(j, "size");
        if (!cJSON_IsNumber(size) || size->valueint < 0) return bad_schema(r, "a fixed without a size", err);
        WR_TRY(new_type(r, WR_AVRO_FIXED, 0, &t, err));
        t->size = (size_t)size->valueint;
        WR_TRY(named_type(r, t, j, err));
        *ret = t;
        return WR_OK;
    }
    if (strcmp(name, "enum") == 0) {
        WR_TRY(new_type(r, WR_AVRO_ENUM, 0, &t, err));
        WR_TRY(named_type(r, t, j, err));
        *ret = t;
        return WR_OK;
    }
    return parse_named(r, name, ret, err);
}

static wr_code parse_schema(wr_avro_reader *r, wr_err *err) {
    wr_slice text = wr_avro_header(r, "avro.schema");
    if (!text.p) return bad_schema(r, "missing", err);
    if (text.n > SCHEMA_BYTES_MAX) return bad_schema(r, "larger than 16 MiB", err);
    cJSON *j = cJSON_ParseWithLength((const char *)text.p, text.n);
    if (!j) return bad_schema(r, "not JSON", err);
    wr_code rc = parse_type(r, j, 0, &r->root, err);
    cJSON_Delete(j);
    WR_TRY(rc);
    return r->root->kind == WR_AVRO_RECORD ? WR_OK : bad_schema(r, "the top is not a record", err);
}

/* ------------------------------------------------------------------ reading */
/* A zigzag varint of at most 10 bytes. */
static int64_t get_long(wr_rd *rd) {
    uint64_t v = wr_rd_varint(rd);
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

static wr_slice get_bytes(wr_rd *rd) {
    int64_t n = get_long(rd);
    if (n < 0 || (uint64_t)n > wr_rd_left(rd)) return rd->bad = true, (wr_slice){0};
    return wr_rd_bytes(rd, (size_t)n);
}

static wr_code parse_header(wr_avro_reader *r, wr_err *err) {
    const uint8_t *m = wr_rd_take(&r->rd, 4);
    if (!m || memcmp(m, magic, 4) != 0)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: not an Avro file: it does not begin with Obj\\x01", r->name);
    for (;;) {
        int64_t n = get_long(&r->rd);
        if (r->rd.bad || n == 0) break;
        if (n < 0) {
            n = n == INT64_MIN ? INT64_MAX : -n;
            get_long(&r->rd); /* bytes of the block */
        }
        for (; n > 0 && !r->rd.bad; n--) {
            if (r->nmeta == (int)(sizeof r->meta / sizeof *r->meta))
                return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: more than 64 Avro header keys", r->name);
            r->meta[r->nmeta].key = get_bytes(&r->rd);
            r->meta[r->nmeta].value = get_bytes(&r->rd);
            if (!r->rd.bad) r->nmeta++;
        }
    }
    r->sync = wr_rd_take(&r->rd, 16);
    if (!r->sync)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: Avro header is cut off at byte %zu", r->name, r->file.n);
    wr_slice codec = wr_avro_header(r, "avro.codec");
    if (!codec.p || wr_slice_eq(codec, wr_slice_str("null")))
        r->codec = CODEC_NULL;
    else if (wr_slice_eq(codec, wr_slice_str("deflate")))
        r->codec = CODEC_DEFLATE;
    else if (wr_slice_eq(codec, wr_slice_str("zstandard")))
        r->codec = CODEC_ZSTD;
    else
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO,
                       "%s: Avro codec \"%.*s\" (null, deflate and zstandard are read)", r->name,
                       (int)(codec.n > 40 ? 40 : codec.n), (const char *)codec.p);
    return parse_schema(r, err);
}

wr_code wr_avro_open(wr_slice file, const char *name, wr_avro_reader **ret_reader, wr_err *err) {
    wr_avro_reader *r = wr_calloc(1, sizeof *r);
    if (!r) return wr_nomem(err, "avro reader", sizeof *r);
    r->file = file, r->rd = wr_rd_of(file.p, file.n);
    r->name = wr_strdup(name), r->types = wr_arena_new(64u << 20), r->values = wr_arena_new(RECORD_BYTES_MAX);
    wr_code rc = r->name && r->types && r->values ? parse_header(r, err) : wr_nomem(err, "avro reader", sizeof *r);
    if (rc != WR_OK) return wr_avro_free(r), rc;
    *ret_reader = r;
    return WR_OK;
}

void wr_avro_free(wr_avro_reader *r) {
    if (!r) return;
    wr_arena_free(r->types);
    wr_arena_free(r->values);
    wr_buf_free(&r->unpacked);
    wr_free(r->name);
    wr_free(r);
}

wr_slice wr_avro_header(const wr_avro_reader *r, const char *key) {
    for (int i = 0; i < r->nmeta; i++)
        if (wr_slice_eq(r->meta[i].key, wr_slice_str(key)))
            return r->meta[i].value.p ? r->meta[i].value : wr_slice_of("", 0);
    return (wr_slice){0};
}

static wr_code bad_block(wr_avro_reader *r, const char *what, wr_err *err) {
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: Avro block at byte %zu: %s", r->name, r->block_at, what);
}

static wr_code unpack_deflate(wr_avro_reader *r, wr_slice in, wr_err *err) {
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)in.p, .avail_in = (uInt)in.n};
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return wr_nomem(err, "inflate", 1u << 16);
    wr_code rc = WR_OK;
    int z_rc = Z_OK;
    while (z_rc != Z_STREAM_END) {
        size_t step = r->unpacked.n + 16384;
        uint8_t *dst = wr_buf_room(&r->unpacked, step);
        if (!dst) {
            rc = wr_nomem(err, "avro block", step);
            break;
        }
        z.next_out = dst, z.avail_out = (uInt)step;
        z_rc = inflate(&z, Z_NO_FLUSH);
        size_t got = step - z.avail_out;
        r->unpacked.n += got;
        if (r->unpacked.n > BLOCK_BYTES_MAX) {
            rc = bad_block(r, "larger than 64 MiB when unpacked", err);
            break;
        }
        if (z_rc != Z_OK && z_rc != Z_STREAM_END) {
            rc = bad_block(r, "damaged deflate data", err);
            break;
        }
        if (z_rc == Z_OK && got == 0 && z.avail_in == 0) {
            rc = bad_block(r, "deflate data is cut off", err);
            break;
        }
    }
    inflateEnd(&z);
    return rc;
}

static wr_code unpack_zstd(wr_avro_reader *r, wr_slice in, wr_err *err) {
    ZSTD_DStream *z = ZSTD_createDStream();
    if (!z) return wr_nomem(err, "zstd", 1u << 17);
    wr_code rc = WR_OK;
    ZSTD_inBuffer src = {in.p, in.n, 0};
    size_t left = 1;
    ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, 26);
    while (left != 0) {
        size_t step = r->unpacked.n + 16384;
        uint8_t *dst = wr_buf_room(&r->unpacked, step);
        if (!dst) {
            rc = wr_nomem(err, "avro block", step);
            break;
        }
        ZSTD_outBuffer to = {dst, step, 0};
        left = ZSTD_decompressStream(z, &to, &src);
        if (ZSTD_isError(left)) {
            rc = bad_block(r, ZSTD_getErrorName(left), err);
            break;
        }
        r->unpacked.n += to.pos;
        if (r->unpacked.n > BLOCK_BYTES_MAX) {
            rc = bad_block(r, "larger than 64 MiB when unpacked", err);
            break;
        }
        if (left != 0 && to.pos == 0 && src.pos == src.size) {
            rc = bad_block(r, "zstd data is cut off", err);
            break;
        }
    }
    ZSTD_freeDStream(z);
    return rc;
}

static wr_code next_block(wr_avro_reader *r, wr_err *err) {
    r->block_at = (size_t)(r->rd.p - r->file.p);
    int64_t rows = get_long(&r->rd);
    wr_slice body = get_bytes(&r->rd);
    const uint8_t *sync = wr_rd_take(&r->rd, 16);
    if (r->rd.bad) return bad_block(r, "cut off", err);
    if (memcmp(sync, r->sync, 16) != 0) return bad_block(r, "sync marker does not match", err);
    wr_buf_clear(&r->unpacked);
    if (r->codec == CODEC_DEFLATE) WR_TRY(unpack_deflate(r, body, err));
    if (r->codec == CODEC_ZSTD) WR_TRY(unpack_zstd(r, body, err));
    if (r->codec != CODEC_NULL) body = wr_buf_view(&r->unpacked);
    /* Every record of ours has at least one byte; without this a count alone could keep us busy for ever. */
    if (rows < 0 || (uint64_t)rows > body.n) return bad_block(r, "more records than bytes", err);
    r->block = wr_rd_of(body.p, body.n);
    r->block_left = (uint64_t)rows;
    return WR_OK;
}

static wr_code decode(wr_avro_reader *r, const wr_avro_type *t, int depth, wr_avro_value *v, wr_err *err);

static wr_code decode_list(wr_avro_reader *r, const wr_avro_type *t, int depth, wr_avro_value *v, wr_err *err) {
    uint32_t cap = 0;
    uint32_t per = t->kind == WR_AVRO_MAP ? 2 : 1;
    v->n = 0, v->items = NULL;
    for (;;) {
        int64_t n = get_long(&r->block);
        if (r->block.bad) return bad_block(r, "cut off within a list", err);
        if (n == 0) return WR_OK;
        if (n < 0) {
            n = n == INT64_MIN ? INT64_MAX : -n;
            get_long(&r->block);
        }
        if ((uint64_t)n > RECORD_BYTES_MAX / sizeof *v / per) return bad_block(r, "a list is too long", err);
        uint64_t want = v->n + (uint64_t)n * per;
        if (want > RECORD_BYTES_MAX / sizeof *v) return bad_block(r, "a list is too long", err);
        if (!v->items || want > cap) { /* lists are nearly always one block, so growing by copying is fine */
            wr_avro_value *items = wr_arena_alloc(r->values, want * sizeof *items);
            if (!items) return bad_block(r, "a record needs more than 64 MiB", err);
            if (v->n) memcpy(items, v->items, v->n * sizeof *items);
            v->items = items, cap = (uint32_t)want;
        }
        for (; n > 0; n--) {
            if (per == 2) {
                v->items[v->n] = (wr_avro_value){.kind = WR_AVRO_STRING, .s = get_bytes(&r->block)};
                v->n++;
            }
            WR_TRY(decode(r, t->fields[0].type, depth + 1, &v->items[v->n], err));
            v->n++;
        }
    }
}

static wr_code decode(wr_avro_reader *r, const wr_avro_type *t, int depth, wr_avro_value *v, wr_err *err) {
    if (depth > DEPTH_MAX) return bad_block(r, "nested deeper than 32", err);
    if (t->kind == WR_AVRO_UNION) {
        int64_t i = get_long(&r->block);
        if (r->block.bad || i < 0 || i >= t->n) return bad_block(r, "a union index is out of range", err);
        t = t->fields[i].type;
    }
    *v = (wr_avro_value){.type = t, .kind = t->kind};
    switch (t->kind) {
    case WR_AVRO_NULL:
        break;
    case WR_AVRO_BOOL:
        v->i = wr_rd_u8(&r->block) != 0;
        break;
    case WR_AVRO_INT:
    case WR_AVRO_LONG:
    case WR_AVRO_ENUM:
        v->i = get_long(&r->block);
        if (t->kind != WR_AVRO_LONG && (v->i < INT32_MIN || v->i > INT32_MAX))
            return bad_block(r, "an int is out of range", err);
        break;
    case WR_AVRO_FLOAT: {
        uint32_t u = wr_rd_u32(&r->block);
        float f;
        memcpy(&f, &u, 4);
        v->d = (double)f;
        break;
    }
    case WR_AVRO_DOUBLE: {
        uint64_t u = wr_rd_u64(&r->block);
        memcpy(&v->d, &u, 8);
        break;
    }
    case WR_AVRO_BYTES:
    case WR_AVRO_STRING:
        v->s = get_bytes(&r->block);
        break;
    case WR_AVRO_FIXED:
        v->s = wr_rd_bytes(&r->block, t->size);
        break;
    case WR_AVRO_ARRAY:
    case WR_AVRO_MAP:
        return decode_list(r, t, depth, v, err);
    case WR_AVRO_RECORD:
        v->n = (uint32_t)t->n;
        v->items = t->n ? wr_arena_alloc(r->values, (size_t)t->n * sizeof *v) : NULL;
        if (t->n && !v->items) return bad_block(r, "a record needs more than 64 MiB", err);
        for (int i = 0; i < t->n; i++) WR_TRY(decode(r, t->fields[i].type, depth + 1, &v->items[i], err));
        break;
    case WR_AVRO_UNION:
        return bad_block(r, "a union in a union", err);
    }
    return r->block.bad ? bad_block(r, "cut off within a record", err) : WR_OK;
}

wr_code wr_avro_next(wr_avro_reader *r, const wr_avro_value **ret_value, wr_err *err) {
    while (r->block_left == 0) {
        if (wr_rd_left(&r->block) != 0) return bad_block(r, "bytes behind the last record", err);
        if (wr_rd_left(&r->rd) == 0) return *ret_value = NULL, WR_OK;
        WR_TRY(next_block(r, err));
    }
    wr_arena_reset(r->values);
    wr_avro_value *v = wr_arena_alloc(r->values, sizeof *v);
    if (!v) return wr_nomem(err, "avro record", sizeof *v);
    WR_TRY(decode(r, r->root, 0, v, err));
    r->block_left--;
    *ret_value = v;
    return WR_OK;
}

static const wr_avro_value *find(const wr_avro_value *rec, int field_id) {
    if (!rec || rec->kind != WR_AVRO_RECORD) return NULL;
    for (int i = 0; i < rec->type->n; i++)
        if (rec->type->fields[i].id == field_id) return &rec->items[i];
    return NULL;
}

const wr_avro_value *wr_avro_field(const wr_avro_value *rec, int field_id) {
    const wr_avro_value *v = find(rec, field_id);
    return v && v->kind != WR_AVRO_NULL ? v : NULL;
}

bool wr_avro_has_field(const wr_avro_value *rec, int field_id) { return find(rec, field_id) != NULL; }
