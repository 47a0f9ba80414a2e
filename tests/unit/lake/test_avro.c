#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <zlib.h>
#include <zstd.h>

#include "iceberg/avro.h"
#include "lake/ice_helper.h"

static const char two_fields[] =
    "{\"type\":\"record\",\"name\":\"r\",\"fields\":[{\"name\":\"a\",\"type\":\"long\",\"field-id\":1},"
    "{\"name\":\"b\",\"type\":[\"null\",\"string\"],\"default\":null,\"field-id\":2}]}";

static void put_two(wr_buf *b, int64_t a, const char *s) {
    wr_avro_put_long(b, a);
    wr_avro_put_long(b, s != NULL);
    if (s) wr_avro_put_str(b, s);
}

static void written_rows_read_back_across_blocks(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_buf out = WR_BUF_INIT;
    wr_avro_writer w;
    wr_avro_meta meta = {"content", wr_slice_str("data")};
    OK(wr_avro_begin(&w, two_fields, &meta, 1, &out, &err));
    for (int i = 0; i < 20000; i++) { /* several blocks */
        put_two(&w.row, i % 2 ? -(int64_t)i * 1000000007 : i, i % 3 ? "some text" : NULL);
        OK(wr_avro_end_row(&w, &err));
    }
    OK(wr_avro_end(&w, &err));
    wr_avro_writer_clear(&w);
    wr_avro_reader *r;
    OK(wr_avro_open(wr_buf_view(&out), "f.avro", &r, &err));
    assert_true(wr_slice_eq(wr_avro_header(r, "content"), wr_slice_str("data")));
    assert_null(wr_avro_header(r, "missing").p);
    const wr_avro_value *v;
    for (int i = 0; i < 20000; i++) {
        OK(wr_avro_next(r, &v, &err));
        assert_non_null(v);
        assert_int_equal(wr_avro_field(v, 1)->i, i % 2 ? -(int64_t)i * 1000000007 : i);
        assert_int_equal(wr_avro_field(v, 2) != NULL, i % 3 != 0);
        assert_true(wr_avro_has_field(v, 2));
        assert_false(wr_avro_has_field(v, 3));
    }
    OK(wr_avro_next(r, &v, &err));
    assert_null(v);
    wr_avro_free(r);
    wr_buf_free(&out);
}

/* A file put together by hand: codec and block bytes as given. */
static void by_hand(wr_buf *out, const char *schema, const char *codec, wr_slice body, int64_t rows) {
    static const uint8_t sync[16] = "0123456789abcde";
    wr_buf_put(out, "Obj\x01", 4);
    wr_avro_put_long(out, -2); /* a block with its size in bytes: allowed, and what Java never writes */
    wr_buf b = WR_BUF_INIT;
    wr_avro_put_str(&b, "avro.schema");
    wr_avro_put_str(&b, schema);
    wr_avro_put_str(&b, "avro.codec");
    wr_avro_put_str(&b, codec);
    wr_avro_put_long(out, (int64_t)b.n);
    wr_buf_put(out, b.p, b.n);
    wr_buf_free(&b);
    wr_avro_put_long(out, 0);
    wr_buf_put(out, sync, 16);
    wr_avro_put_long(out, rows);
    wr_avro_put_bytes(out, body);
    wr_buf_put(out, sync, 16);
}

static void read_two(wr_slice file, int rows) {
    wr_err err = WR_ERR_INIT;
    wr_avro_reader *r;
    const wr_avro_value *v;
    OK(wr_avro_open(file, "f.avro", &r, &err));
    for (int i = 0; i < rows; i++) {
        OK(wr_avro_next(r, &v, &err));
        assert_int_equal(wr_avro_field(v, 1)->i, i);
        assert_true(wr_slice_eq(wr_avro_field(v, 2)->s, wr_slice_str("x")));
    }
    OK(wr_avro_next(r, &v, &err));
    assert_null(v);
    wr_avro_free(r);
}

static void null_and_zstandard_codecs_are_read(void **state) {
    wr_buf rows = WR_BUF_INIT, out = WR_BUF_INIT, packed = WR_BUF_INIT;
    for (int i = 0; i < 100; i++) put_two(&rows, i, "x");
    by_hand(&out, two_fields, "null", wr_buf_view(&rows), 100);
    read_two(wr_buf_view(&out), 100);
    wr_buf_clear(&out);
    uint8_t *dst = wr_buf_room(&packed, ZSTD_compressBound(rows.n));
    packed.n = ZSTD_compress(dst, ZSTD_compressBound(rows.n), rows.p, rows.n, 3);
    by_hand(&out, two_fields, "zstandard", wr_buf_view(&packed), 100);
    read_two(wr_buf_view(&out), 100);
    wr_buf_free(&rows), wr_buf_free(&out), wr_buf_free(&packed);
}

static void other_codecs_are_named(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_buf out = WR_BUF_INIT;
    wr_avro_reader *r = NULL;
    by_hand(&out, two_fields, "bzip2", wr_slice_str("x"), 1);
    assert_int_equal(wr_avro_open(wr_buf_view(&out), "f.avro", &r, &err), WR_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "f.avro"));
    assert_non_null(strstr(err.msg, "bzip2"));
    assert_null(r);
    wr_buf_free(&out);
}

static void fields_are_found_by_id_whatever_surrounds_them(void **state) {
    static const char schema[] =
        "{\"type\":\"record\",\"name\":\"r\",\"namespace\":\"n.s\",\"fields\":["
        "{\"name\":\"skip\",\"type\":{\"type\":\"map\",\"values\":{\"type\":\"array\",\"items\":\"double\"}}},"
        "{\"name\":\"e\",\"type\":{\"type\":\"enum\",\"name\":\"color\",\"symbols\":[\"R\",\"G\"]}},"
        "{\"name\":\"f\",\"type\":[{\"type\":\"fixed\",\"name\":\"two\",\"size\":2},\"null\"],\"field-id\":7},"
        "{\"name\":\"g\",\"type\":[\"n.s.two\",\"null\"],\"field-id\":8},"
        "{\"name\":\"b\",\"type\":[\"string\",\"null\"],\"field-id\":2},"
        "{\"name\":\"fl\",\"type\":\"float\"},{\"name\":\"bo\",\"type\":\"boolean\",\"field-id\":9},"
        "{\"name\":\"a\",\"type\":{\"type\":\"long\",\"logicalType\":\"x\"},\"field-id\":1}]}";
    wr_err err = WR_ERR_INIT;
    wr_buf rows = WR_BUF_INIT, out = WR_BUF_INIT;
    double d = 1.5;
    wr_avro_put_long(&rows, -1); /* map: one pair, with block size */
    wr_avro_put_long(&rows, 99);
    wr_avro_put_str(&rows, "key");
    wr_avro_put_long(&rows, 2);
    wr_buf_put(&rows, &d, 8), wr_buf_put(&rows, &d, 8);
    wr_avro_put_long(&rows, 0), wr_avro_put_long(&rows, 0);
    wr_avro_put_long(&rows, 1);
    wr_avro_put_long(&rows, 0), wr_buf_put(&rows, "hi", 2);
    wr_avro_put_long(&rows, 1);
    wr_avro_put_long(&rows, 0), wr_avro_put_str(&rows, "text");
    wr_buf_u32(&rows, 0);
    wr_avro_put_bool(&rows, true);
    wr_avro_put_long(&rows, 42);
    by_hand(&out, schema, "null", wr_buf_view(&rows), 1);
    wr_avro_reader *r;
    const wr_avro_value *v;
    OK(wr_avro_open(wr_buf_view(&out), "f.avro", &r, &err));
    OK(wr_avro_next(r, &v, &err));
    assert_int_equal(wr_avro_field(v, 1)->i, 42);
    assert_int_equal(wr_avro_field(v, 9)->i, 1);
    assert_true(wr_slice_eq(wr_avro_field(v, 2)->s, wr_slice_str("text")));
    assert_true(wr_slice_eq(wr_avro_field(v, 7)->s, wr_slice_str("hi")));
    assert_null(wr_avro_field(v, 8));
    OK(wr_avro_next(r, &v, &err));
    assert_null(v);
    wr_avro_free(r);
    wr_buf_free(&rows), wr_buf_free(&out);
}

static wr_code read_all(wr_slice file, wr_err *err) {
    wr_avro_reader *r;
    const wr_avro_value *v;
    wr_code rc = wr_avro_open(file, "f.avro", &r, err);
    if (rc != WR_OK) return rc;
    do rc = wr_avro_next(r, &v, err);
    while (rc == WR_OK && v);
    wr_avro_free(r);
    return rc;
}

static void bombs_are_refused(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_buf rows = WR_BUF_INIT, out = WR_BUF_INIT;
    /* a list of 2^60 nulls takes no bytes */
    static const char nulls[] = "{\"type\":\"record\",\"name\":\"r\",\"fields\":[{\"name\":\"a\",\"type\":{\"type\":"
                                "\"array\",\"items\":\"null\"},\"field-id\":1}]}";
    wr_avro_put_long(&rows, 1ll << 60);
    by_hand(&out, nulls, "null", wr_buf_view(&rows), 1);
    assert_int_equal(read_all(wr_buf_view(&out), &err), WR_E_DECODE);
    /* records without bytes */
    wr_buf_clear(&out);
    by_hand(&out, "{\"type\":\"record\",\"name\":\"r\",\"fields\":[]}", "null", wr_slice_of("", 0), 1ll << 60);
    assert_int_equal(read_all(wr_buf_view(&out), &err), WR_E_DECODE);
    /* 1 GiB of zeroes in 1 MiB of deflate */
    wr_buf_clear(&out), wr_buf_clear(&rows);
    z_stream z = {0};
    deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    uint8_t *zero = calloc(1, 1 << 20), *dst = wr_buf_room(&rows, 2 << 20);
    z.next_out = dst, z.avail_out = 2 << 20;
    for (int i = 0; i < 1024; i++)
        z.next_in = zero, z.avail_in = 1 << 20, deflate(&z, i == 1023 ? Z_FINISH : Z_NO_FLUSH);
    rows.n = z.total_out;
    deflateEnd(&z);
    free(zero);
    by_hand(&out, two_fields, "deflate", wr_buf_view(&rows), 1);
    assert_int_equal(read_all(wr_buf_view(&out), &err), WR_E_DECODE);
    assert_non_null(strstr(err.msg, "64 MiB"));
    /* a type that contains itself, and a schema nested without end */
    wr_buf_clear(&out), wr_buf_clear(&rows);
    static const char self[] =
        "{\"type\":\"record\",\"name\":\"r\",\"fields\":[{\"name\":\"a\",\"type\":\"r\",\"field-id\":1}]}";
    by_hand(&out, self, "null", wr_slice_str("xxxx"), 1);
    assert_int_equal(read_all(wr_buf_view(&out), &err), WR_E_DECODE);
    wr_buf_clear(&out);
    for (int i = 0; i < 100; i++) wr_buf_printf(&rows, "{\"type\":\"array\",\"items\":");
    wr_buf_printf(&rows, "\"int\"");
    for (int i = 0; i < 100; i++) wr_buf_printf(&rows, "}");
    by_hand(&out, wr_buf_cstr(&rows), "null", wr_slice_str("x"), 1);
    assert_int_equal(read_all(wr_buf_view(&out), &err), WR_E_DECODE);
    wr_buf_free(&rows), wr_buf_free(&out);
}

static void decode(wr_slice bytes) {
    wr_err err = WR_ERR_INIT;
    read_all(bytes, &err);
}

static void damage_ends_in_an_error_or_in_other_values(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_buf out = WR_BUF_INIT;
    wr_avro_writer w;
    OK(wr_avro_begin(&w, two_fields, NULL, 0, &out, &err));
    for (int i = 0; i < 50; i++) {
        put_two(&w.row, i, "text");
        OK(wr_avro_end_row(&w, &err));
    }
    OK(wr_avro_end(&w, &err));
    wr_avro_writer_clear(&w);
    damage(wr_buf_view(&out), decode);
    for (size_t n = 0; n < out.n; n++) { /* a truncation is an error unless nothing but whole blocks is left */
        wr_code rc = read_all(wr_slice_of(out.p, n), &err);
        if (rc == WR_OK) assert_true(n < out.n - 20);
    }
    wr_buf_free(&out);
}

static void each_failed_allocation_is_reported(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_buf out = WR_BUF_INIT;
    for (uint64_t n = 1;; n++) {
        wr_avro_writer w = {0};
        wr_buf_free(&out);
        wr_mem_fail_after(n);
        wr_code rc = wr_avro_begin(&w, two_fields, NULL, 0, &out, &err);
        if (rc == WR_OK) {
            put_two(&w.row, 1, "text");
            rc = wr_avro_end_row(&w, &err);
        }
        if (rc == WR_OK) rc = wr_avro_end(&w, &err);
        if (rc == WR_OK) rc = read_all(wr_buf_view(&out), &err);
        wr_mem_fail_after(0);
        wr_avro_writer_clear(&w);
        if (rc == WR_OK) break;
        assert_true(rc == WR_E_NOMEM || rc == WR_E_DECODE);
        assert_true(n < 1000);
    }
    wr_buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_rows_read_back_across_blocks),
        cmocka_unit_test(null_and_zstandard_codecs_are_read),
        cmocka_unit_test(other_codecs_are_named),
        cmocka_unit_test(fields_are_found_by_id_whatever_surrounds_them),
        cmocka_unit_test(bombs_are_refused),
        cmocka_unit_test(damage_ends_in_an_error_or_in_other_values),
        cmocka_unit_test(each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
