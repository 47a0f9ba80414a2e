#include "iceberg/puffin.h"

#include <inttypes.h>
#include <string.h>

#include "iceberg/json.h"
#include "iceberg/manifest.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

#define FIELD_ROW_POSITION 2147483645 /* reserved: _pos, what a deletion vector is about */

static const uint8_t file_magic[4] = {'P', 'F', 'A', '1'};
static const uint8_t dv_magic[4] = {0xD1, 0xD3, 0x39, 0x64};

/* ------------------------------------------------------------------ writing */
static void put_be32(wr_buf *b, uint32_t v) {
    const uint8_t p[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
    wr_buf_put(b, p, 4);
}

/* length (BE) · magic · count of 32-bit bitmaps (u64 LE) · high word (u32 LE) · bitmap · CRC-32 (BE) of magic and
 * vector. */
static wr_code put_dv(wr_ice_dv *dv, wr_buf *out, wr_err *err) {
    roaring_bitmap_t *packed = roaring_bitmap_copy(dv->bitmap);
    if (!packed) return wr_nomem(err, "deletion vector", 1);
    roaring_bitmap_run_optimize(packed);
    dv->cardinality = roaring_bitmap_get_cardinality(packed);
    size_t bitmap_n = roaring_bitmap_portable_size_in_bytes(packed),
           vector_n = 8 + (dv->cardinality > 0 ? 4 + bitmap_n : 0);
    dv->offset = (int64_t)out->n;
    wr_code rc = WR_OK;
    if (vector_n > INT32_MAX - 8) {
        rc = wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "the deletion vector of %s has %zu bytes; 2 GiB are allowed",
                     dv->referenced, vector_n);
    } else {
        put_be32(out, (uint32_t)(4 + vector_n));
        size_t from = out->n;
        wr_buf_put(out, dv_magic, 4);
        wr_buf_u64(out, dv->cardinality > 0 ? 1 : 0);
        if (dv->cardinality > 0) {
            wr_buf_u32(out, 0);
            uint8_t *dst = wr_buf_room(out, bitmap_n);
            if (dst) out->n += roaring_bitmap_portable_serialize(packed, (char *)dst);
        }
        if (!out->failed) put_be32(out, wr_crc32(0, out->p + from, out->n - from));
        rc = wr_buf_check(out, "deletion vector", err);
    }
    roaring_bitmap_free(packed);
    dv->size = (int64_t)out->n - dv->offset;
    return rc;
}

static bool add_blob_meta(cJSON *blobs, const wr_ice_dv *dv) {
    cJSON *b = cJSON_CreateObject(), *fields, *props;
    char card[24];
    snprintf(card, sizeof card, "%" PRIu64, dv->cardinality);
    return wr_json_push(blobs, b) && wr_json_set_str(b, "type", "deletion-vector-v1") &&
           (fields = wr_json_array(b, "fields")) && wr_json_push(fields, wr_json_num(FIELD_ROW_POSITION)) &&
           wr_json_set_num(b, "snapshot-id", -1) && wr_json_set_num(b, "sequence-number", -1) &&
           wr_json_set_num(b, "offset", dv->offset) && wr_json_set_num(b, "length", dv->size) &&
           (props = wr_json_object(b, "properties")) &&
           wr_json_set_str(props, "referenced-data-file", dv->referenced) &&
           wr_json_set_str(props, "cardinality", card);
}

wr_code wr_puffin_encode(wr_ice_dv *dvs, int n, wr_buf *out, wr_err *err) {
    WR_AUTO_JSON cJSON *footer = cJSON_CreateObject();
    cJSON *blobs = footer ? wr_json_array(footer, "blobs") : NULL, *props;
    bool ok = blobs && (props = wr_json_object(footer, "properties")) &&
              wr_json_set_str(props, "created-by", "weir " WEIR_VERSION);
    wr_buf_put(out, file_magic, 4);
    for (int i = 0; ok && i < n; i++) {
        WR_TRY(put_dv(&dvs[i], out, err));
        ok = add_blob_meta(blobs, &dvs[i]);
    }
    if (!ok) return wr_nomem(err, "Puffin footer", (unsigned long long)n * 256);
    wr_buf_put(out, file_magic, 4);
    size_t from = out->n;
    WR_TRY(wr_json_print(footer, out, err));
    wr_buf_u32(out, (uint32_t)(out->n - from));
    wr_buf_u32(out, 0); /* flags: the footer is not compressed, PyIceberg reads no other */
    wr_buf_put(out, file_magic, 4);
    return wr_buf_check(out, "Puffin file", err);
}

/* ------------------------------------------------------------------ reading */
#define COOKIE_NO_RUNS 12346
#define COOKIE_RUNS 12347
#define NO_OFFSETS_BELOW 4 /* with runs, fewer containers have no offset table */
#define ARRAY_MAX 4096
#define BITSET_BYTES 8192

static wr_code bad_dv(const char *name, const char *what, wr_err *err) {
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "deletion vector in %s: %s", name, what);
}

static bool add_array(roaring_bitmap_t *b, uint32_t base, wr_rd *rd, uint32_t card) {
    uint32_t vals[ARRAY_MAX];
    int64_t last = -1;
    for (uint32_t i = 0; i < card; i++) {
        uint16_t v = wr_rd_u16(rd);
        if (rd->bad || v <= last) return false;
        last = v;
        vals[i] = base | v;
    }
    roaring_bitmap_add_many(b, card, vals);
    return true;
}

static bool add_bitset(roaring_bitmap_t *b, uint32_t base, wr_rd *rd, uint32_t card) {
    uint32_t vals[64], seen = 0;
    for (uint32_t w = 0; w < BITSET_BYTES / 8; w++) {
        uint64_t word = wr_rd_u64(rd);
        size_t n = 0;
        for (; word; word &= word - 1) vals[n++] = base | (w * 64 + (uint32_t)__builtin_ctzll(word));
        seen += (uint32_t)n;
        if (n) roaring_bitmap_add_many(b, n, vals);
    }
    return !rd->bad && seen == card;
}

static bool add_runs(roaring_bitmap_t *b, uint32_t base, wr_rd *rd, uint32_t card) {
    uint32_t n = wr_rd_u16(rd), seen = 0;
    int64_t last = -1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t start = wr_rd_u16(rd), more = wr_rd_u16(rd);
        if (rd->bad || (int64_t)start <= last || start + more > 0xffff) return false;
        last = start + more;
        seen += more + 1;
        roaring_bitmap_add_range_closed(b, base | start, base | (start + more));
    }
    return seen == card;
}

/* Read by hand: the library trusts what is inside containers, and these bytes come from a disk. */
static const char *read_bitmap(wr_rd *rd, roaring_bitmap_t *b) {
    uint32_t cookie = wr_rd_u32(rd), n;
    bool runs = (cookie & 0xffff) == COOKIE_RUNS;
    const uint8_t *run_flags = NULL;
    if (runs) {
        n = (cookie >> 16) + 1;
        run_flags = wr_rd_take(rd, (n + 7) / 8);
    } else if (cookie == COOKIE_NO_RUNS) {
        n = wr_rd_u32(rd);
    } else {
        return "not a portable roaring bitmap";
    }
    if (n > 65536) return "more than 65536 containers";
    const uint8_t *heads = wr_rd_take(rd, (size_t)n * 4);
    if (!runs || n >= NO_OFFSETS_BELOW) wr_rd_take(rd, (size_t)n * 4); /* containers follow in order anyway */
    if (rd->bad) return "cut off";
    int64_t last_key = -1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t key = (uint32_t)heads[i * 4] | (uint32_t)heads[i * 4 + 1] << 8;
        uint32_t card = ((uint32_t)heads[i * 4 + 2] | (uint32_t)heads[i * 4 + 3] << 8) + 1;
        if ((int64_t)key <= last_key) return "containers are out of order";
        last_key = key;
        uint32_t base = key << 16;
        bool run = run_flags && (run_flags[i / 8] >> (i % 8) & 1);
        bool ok = run                 ? add_runs(b, base, rd, card)
                  : card <= ARRAY_MAX ? add_array(b, base, rd, card)
                                      : add_bitset(b, base, rd, card);
        if (!ok) return "a damaged container";
    }
    return NULL;
}

wr_code wr_puffin_decode_dv(wr_slice blob, const char *name, uint64_t cardinality, roaring_bitmap_t **ret_bitmap,
                            wr_err *err) {
    wr_rd rd = wr_rd_of(blob.p, blob.n);
    uint64_t len = wr_rd_uint_be(&rd, 4);
    const uint8_t *body = wr_rd_take(&rd, (size_t)len);
    uint32_t crc = (uint32_t)wr_rd_uint_be(&rd, 4);
    if (rd.bad || wr_rd_left(&rd) != 0 || len < 12) return bad_dv(name, "its length does not match", err);
    if (memcmp(body, dv_magic, 4) != 0) return bad_dv(name, "wrong magic number", err);
    if (crc != wr_crc32(0, body, (size_t)len)) return bad_dv(name, "wrong checksum", err);
    wr_rd v = wr_rd_of(body + 4, (size_t)len - 4);
    uint64_t n = wr_rd_u64(&v);
    if (n > 1) return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "deletion vector in %s: positions above 2^32", name);
    roaring_bitmap_t *b = roaring_bitmap_create();
    if (!b) return wr_nomem(err, "deletion vector", 1);
    const char *what = NULL;
    if (n == 1) {
        uint32_t high = wr_rd_u32(&v);
        if (high != 0) {
            roaring_bitmap_free(b);
            return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "deletion vector in %s: positions above 2^32", name);
        }
        what = read_bitmap(&v, b);
    }
    if (!what && (v.bad || wr_rd_left(&v) != 0)) what = "bytes are missing or left over";
    if (!what && cardinality != UINT64_MAX && roaring_bitmap_get_cardinality(b) != cardinality)
        what = "its cardinality is not the manifest's record_count";
    if (what) return roaring_bitmap_free(b), bad_dv(name, what, err);
    *ret_bitmap = b;
    return WR_OK;
}
