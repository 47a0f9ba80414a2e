#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "iceberg/puffin.h"
#include "lake/ice_helper.h"
#include "weir/base/sum.h"

static void hex_of(wr_slice s, char *out) {
    for (size_t i = 0; i < s.n; i++) sprintf(out + 2 * i, "%02x", s.p[i]);
}

static wr_slice blob_of(const wr_buf *file, const wr_ice_dv *dv) {
    return wr_slice_of(file->p + dv->offset, (size_t)dv->size);
}

/* Expected bytes: pyroaring's portable serialisation, run-optimised, framed by Python's struct and zlib.crc32. */
static void blobs_are_byte_exact(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_buf out = WR_BUF_INIT;
    static const char *const want[] = {
        "00000026d1d339640100000000000000000000003a300000010000000000020010000000010005000900d3404de9",
        "0000001fd1d339640100000000000000000000003b300000010000bd0001000a00bd00ebadb9f2",
        "00000040d1d339640100000000000000000000003a30000004000000000000000100000006000000ffff0000280000002a0000002c0000"
        "002e000000000000000700ffff83e4e22f"};
    roaring_bitmap_t *b[3] = {roaring_bitmap_of(3, 1, 5, 9), roaring_bitmap_from_range(10, 200, 1),
                              roaring_bitmap_of(4, 0, 65536, 131072 * 3 + 7, UINT32_MAX)};
    wr_ice_dv dvs[3] = {{.referenced = "/a", .bitmap = b[0]},
                        {.referenced = "/b", .bitmap = b[1]},
                        {.referenced = "/c \"quoted\"", .bitmap = b[2]}};
    OK(wr_puffin_encode(dvs, 3, &out, &err));
    char hex[400];
    for (int i = 0; i < 3; i++) {
        hex_of(blob_of(&out, &dvs[i]), hex);
        assert_string_equal(hex, want[i]);
        assert_int_equal(dvs[i].cardinality, roaring_bitmap_get_cardinality(b[i]));
        roaring_bitmap_free(b[i]);
    }
    assert_int_equal(dvs[0].offset, 4);
    assert_memory_equal(out.p, "PFA1", 4);
    assert_memory_equal(out.p + out.n - 4, "PFA1", 4);
    const char *footer = (const char *)out.p + dvs[2].offset + dvs[2].size;
    assert_memory_equal(footer,
                        "PFA1{\"blobs\":[{\"type\":\"deletion-vector-v1\",\"fields\":[2147483645],\"snapshot-id\":-1,"
                        "\"sequence-number\":-1,\"offset\":4,",
                        113);
    wr_rd rd = wr_rd_of(out.p + out.n - 12, 12);
    assert_int_equal(wr_rd_u32(&rd), out.p + out.n - 12 - (const uint8_t *)footer - 4);
    assert_int_equal(wr_rd_u32(&rd), 0);
    wr_buf_free(&out);
}

static void round_trip(roaring_bitmap_t *b) {
    wr_err err = WR_ERR_INIT;
    wr_buf out = WR_BUF_INIT;
    wr_ice_dv dv = {.referenced = "/a", .bitmap = b};
    roaring_bitmap_t *got;
    OK(wr_puffin_encode(&dv, 1, &out, &err));
    OK(wr_puffin_decode_dv(blob_of(&out, &dv), "p", dv.cardinality, &got, &err));
    assert_true(roaring_bitmap_equals(b, got));
    roaring_bitmap_free(got);
    wr_buf_free(&out);
    roaring_bitmap_free(b);
}

static void every_kind_of_container_reads_back(void **state) {
    round_trip(roaring_bitmap_create());
    round_trip(roaring_bitmap_from_range(0, 1ull << 20, 1));                  /* runs over whole containers */
    round_trip(roaring_bitmap_from_range(0, 500000, 3));                      /* bitsets */
    round_trip(roaring_bitmap_from_range(0, 5000000, 1001));                  /* arrays */
    round_trip(roaring_bitmap_from_range(UINT32_MAX - 70000, 1ull << 32, 1)); /* the end of the range */
    roaring_bitmap_t *mixed = roaring_bitmap_from_range(100, 70000, 1);
    for (uint32_t i = 0; i < 20000; i++) roaring_bitmap_add(mixed, i * i % 1000003);
    for (uint32_t i = 0; i < 4096; i++) roaring_bitmap_add(mixed, 3000000 + i * 2); /* exactly the largest array */
    for (uint32_t i = 0; i < 4097; i++) roaring_bitmap_add(mixed, 4000000 + i * 2); /* the smallest bitset */
    round_trip(mixed);
}

static void decode(wr_slice bytes) {
    wr_err err = WR_ERR_INIT;
    roaring_bitmap_t *got = NULL;
    if (wr_puffin_decode_dv(bytes, "p", UINT64_MAX, &got, &err) == WR_OK) roaring_bitmap_free(got);
}

static void must_fail(wr_slice bytes) {
    wr_err err = WR_ERR_INIT;
    roaring_bitmap_t *got = NULL;
    assert_int_not_equal(wr_puffin_decode_dv(bytes, "p", UINT64_MAX, &got, &err), WR_OK);
    assert_null(got);
}

/* The same with a right checksum: what is behind it must hold by itself. */
static void resealed(wr_slice bytes) {
    if (bytes.n < 12) return;
    uint8_t *p = malloc(bytes.n);
    memcpy(p, bytes.p, bytes.n);
    uint32_t len = (uint32_t)bytes.n - 8, crc = wr_crc32(0, p + 4, len);
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(len >> (24 - 8 * i)), p[bytes.n - 4 + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
    decode(wr_slice_of(p, bytes.n));
    free(p);
}

static void damage_is_always_found(void **state) {
    wr_err err = WR_ERR_INIT;
    for (int kind = 0; kind < 3; kind++) {
        roaring_bitmap_t *b = kind == 0   ? roaring_bitmap_of(5, 1, 5, 9, 70000, 140000)
                              : kind == 1 ? roaring_bitmap_from_range(10, 200000, 1)
                                          : roaring_bitmap_from_range(0, 20000, 3);
        wr_buf out = WR_BUF_INIT;
        wr_ice_dv dv = {.referenced = "/a", .bitmap = b};
        OK(wr_puffin_encode(&dv, 1, &out, &err));
        wr_slice blob = blob_of(&out, &dv);
        if (blob.n < 1000) damage(blob, must_fail);
        if (blob.n < 1000) damage(blob, resealed);
        for (size_t bit = 0; bit < 1000; bit++) { /* heads of larger ones */
            uint8_t *p = malloc(blob.n);
            memcpy(p, blob.p, blob.n);
            p[bit / 8 % blob.n] ^= (uint8_t)(1u << (bit % 8));
            resealed(wr_slice_of(p, blob.n));
            free(p);
        }
        roaring_bitmap_t *got = NULL;
        assert_int_equal(wr_puffin_decode_dv(blob, "/x/y.puffin", dv.cardinality + 1, &got, &err), WR_E_DECODE);
        assert_non_null(strstr(err.msg, "/x/y.puffin"));
        roaring_bitmap_free(b);
        wr_buf_free(&out);
    }
}

static void vectors_are_read_back_from_a_file(void **state) {
    wr_err err = WR_ERR_INIT;
    roaring_bitmap_t *b[2] = {roaring_bitmap_of(3, 1, 5, 9), roaring_bitmap_of(1, 7)};
    wr_ice_dv dvs[2] = {{.referenced = "/a", .bitmap = b[0]}, {.referenced = "/b", .bitmap = b[1]}};
    WR_AUTO_BUF wr_buf out = WR_BUF_INIT;
    const char *path = in_folder("x.puffin");
    OK(wr_puffin_encode(dvs, 2, &out, &err));
    OK(wr_store_put(NULL, &(wr_store_object){path, wr_buf_view(&out)}, 1, &err));
    for (int i = 0; i < 2; i++) {
        wr_ice_file f = {.content = WR_ICE_POS_DELETES,
                         .path = (char *)path,
                         .format = "PUFFIN",
                         .referenced = (char *)dvs[i].referenced,
                         .records = dvs[i].cardinality,
                         .content_offset = dvs[i].offset,
                         .content_size = dvs[i].size};
        void *got;
        OK(wr_ice_read_deletes(NULL, NULL, &f, dvs[i].referenced, &got, &err));
        assert_true(roaring_bitmap_equals(got, b[i]));
        roaring_bitmap_free(got);
        OK(wr_ice_read_deletes(NULL, NULL, &f, "/other", &got, &err)); /* not about that file: nothing */
        assert_true(roaring_bitmap_is_empty(got));
        roaring_bitmap_free(got);
        f.content_size += 100000;
        assert_int_equal(wr_ice_read_deletes(NULL, NULL, &f, dvs[i].referenced, &got, &err), WR_E_DECODE);
        roaring_bitmap_free(b[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blobs_are_byte_exact),
        cmocka_unit_test(every_kind_of_container_reads_back),
        cmocka_unit_test(damage_is_always_found),
        cmocka_unit_test_setup_teardown(vectors_are_read_back_from_a_file, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
