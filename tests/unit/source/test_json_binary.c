#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "mysql/json_binary.h"
#include "weir/base/mem.h"

#define B(s) wr_slice_of(s, sizeof s - 1)

static void doubles_are_spelled_as_the_server_spells_them(void **state) {
    static const struct { double d; const char *text; } t[] = {
        {0.0, "0.0"}, {-0.0, "-0.0"}, {1.0, "1.0"}, {1.5, "1.5"}, {-2.25, "-2.25"}, {100, "100.0"}, {1e14, "100000000000000.0"}, {1e15, "1e15"}, {1e16, "1e16"},
        {123456789012345678.0, "1.2345678901234568e17"}, {1234567890123456.7, "1234567890123456.8"}, {1e100, "1e100"}, {1e-5, "0.00001"}, {1e-15, "0.000000000000001"},
        {1e-16, "1e-16"}, {5e-324, "5e-324"}, {1.7976931348623157e308, "1.7976931348623157e308"}, {0.1, "0.1"}, {5.684341886080802e-14, "0.00000000000005684341886080802"},
        {6.189700196426902e26, "6.189700196426902e26"}, {9007199254740993.0, "9.007199254740992e15"}, {2.2250738585072014e-308, "2.2250738585072014e-308"},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        wr_buf b = WR_BUF_INIT;
        wr_my_json_print_double(&b, t[i].d);
        assert_string_equal(wr_buf_cstr(&b), t[i].text);
        wr_buf_free(&b);
    }
}

static void doubles_read_back(void **state) {
    uint64_t x = 88172645463325252ull;
    for (int i = 0; i < 50000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        double d;
        uint64_t bits = i % 3 == 0 ? x & 0xFFF0000000000000ull : x; /* powers of two too */
        memcpy(&d, &bits, 8);
        if (!isfinite(d)) continue;
        wr_buf b = WR_BUF_INIT;
        wr_my_json_print_double(&b, d);
        double back = strtod(wr_buf_cstr(&b), NULL);
        assert_memory_equal(&back, &d, 8);
        wr_buf_free(&b);
    }
}

/* {"a": 1, "b": [true, "xy"]} */
static const char small_object[] = "\x00"
                                   "\x02\x00\x22\x00"
                                   "\x12\x00\x01\x00\x13\x00\x01\x00"
                                   "\x05\x01\x00\x02\x14\x00"
                                   "ab"
                                   "\x02\x00\x0d\x00\x04\x01\x00\x0c\x0a\x00\x02xy\x00";

static void documents_become_text(void **state) {
    const struct { wr_slice doc; const char *text; } t[] = {
        {B(""), "null"}, {B("\x04\x00"), "null"}, {B("\x04\x01"), "true"}, {B("\x04\x02"), "false"}, {B("\x05\xfe\xff"), "-2"}, {B("\x06\xfe\xff"), "65534"},
        {B("\x07\xfe\xff\xff\xff"), "-2"}, {B("\x08\xfe\xff\xff\xff"), "4294967294"}, {B("\x09\xfe\xff\xff\xff\xff\xff\xff\xff"), "-2"},
        {B("\x0a\xff\xff\xff\xff\xff\xff\xff\xff"), "18446744073709551615"}, {B("\x0b\x00\x00\x00\x00\x00\x00\xf0\x3f"), "1.0"},
        {B("\x0c\x05" "a\"\\\x01\n"), "\"a\\\"\\\\\\u0001\\n\""}, {B("\x02\x00\x00\x04\x00"), "[]"}, {B("\x00\x00\x00\x04\x00"), "{}"},
        {B("\x0f\xf6\x04\x04\x02\x80\x05"), "0.05"}, {B("\x0f\xfd\x02hi"), "\"hi\""}, {B("\x0f\xfe\x03\x00\xff\x10"), "\"base64:type254:AP8Q\""},
        {{(const uint8_t *)small_object, sizeof small_object - 1}, "{\"a\": 1, \"b\": [true, \"xy\"]}"},
    };
    wr_err err = WR_ERR_INIT;
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        wr_buf b = WR_BUF_INIT;
        assert_int_equal(wr_my_json_print(t[i].doc, &b, &err), WR_OK);
        assert_string_equal(wr_buf_cstr(&b), t[i].text);
        wr_buf_free(&b);
    }
}

static void hostile_documents_are_errors(void **state) {
    const wr_slice t[] = {
        B("\x04\x03"), B("\x05\x01"), B("\x0b\x00"), B("\x0c\x05" "ab"), B("\x0c\xff\xff\xff\xff\xff"), B("\x0d"), B("\x0e\x00"), B("\x00"), B("\x00\x01\x00\x04\x00"),
        B("\x02\xff\xff\xff\xff"), B("\x0f\xf6\x01\x04"), B("\x0f\xf6\x04\x04\x02\xff\xff"), B("\x0f\x0c\x03" "abc"), B("\xff"),
        /* an array whose element is the array itself, again and again */
        B("\x02\x02\x00\x0a\x00\x02\x00\x00\x02\x00\x00"),
        B("\x02\x03\x00\x0d\x00\x02\x00\x00\x02\x00\x00\x02\x00\x00"),
    };
    wr_err err = WR_ERR_INIT;
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        uint8_t *p = wr_malloc(t[i].n);
        memcpy(p, t[i].p, t[i].n);
        wr_buf b = WR_BUF_INIT;
        assert_int_equal(wr_my_json_print(wr_slice_of(p, t[i].n), &b, &err), WR_E_DECODE);
        wr_buf_clear(&b);
        assert_int_equal(wr_my_json_print_patched(wr_slice_of(p, t[i].n), B(""), &b, &err), WR_E_DECODE);
        wr_buf_free(&b);
        wr_free(p);
    }
    for (size_t n = 1; n < sizeof small_object - 2; n++) /* every truncation; the last byte is not needed */
        for (int bit = -1; bit < 8; bit++) {             /* and every flipped bit */
            uint8_t *p = wr_malloc(sizeof small_object - 1);
            size_t len = bit < 0 ? n : sizeof small_object - 1;
            memcpy(p, small_object, len);
            if (bit >= 0) p[n] ^= (uint8_t)(1 << bit);
            uint8_t *exact = wr_malloc(len);
            memcpy(exact, p, len);
            wr_buf b = WR_BUF_INIT;
            wr_code rc = wr_my_json_print(wr_slice_of(exact, len), &b, &err);
            if (bit < 0) assert_int_equal(rc, WR_E_DECODE);
            wr_buf_free(&b);
            wr_free(exact), wr_free(p);
        }
}

static wr_code patch(wr_slice diffs, wr_buf *b) {
    wr_err err = WR_ERR_INIT;
    wr_buf_clear(b);
    return wr_my_json_print_patched(wr_slice_of(small_object, sizeof small_object - 1), diffs, b, &err);
}

static void diffs_are_applied_in_order(void **state) {
    wr_buf b = WR_BUF_INIT;
    assert_int_equal(patch(B(""), &b), WR_OK);
    assert_string_equal(wr_buf_cstr(&b), "{\"a\": 1, \"b\": [true, \"xy\"]}");
    assert_int_equal(patch(B("\x00\x03$.a\x03\x05\x07\x00"), &b), WR_OK); /* replace */
    assert_string_equal(wr_buf_cstr(&b), "{\"a\": 7, \"b\": [true, \"xy\"]}");
    assert_int_equal(patch(B("\x01\x06$.b[1]\x02\x04\x00"), &b), WR_OK); /* insert into the array */
    assert_string_equal(wr_buf_cstr(&b), "{\"a\": 1, \"b\": [true, null, \"xy\"]}");
    assert_int_equal(patch(B("\x01\x06$.b[9]\x02\x04\x00"), &b), WR_OK); /* behind its end */
    assert_string_equal(wr_buf_cstr(&b), "{\"a\": 1, \"b\": [true, \"xy\", null]}");
    assert_int_equal(patch(B("\x01\x07$.\"c d\"\x02\x04\x00\x01\x03$.c\x02\x04\x01"), &b), WR_OK); /* shorter keys come first */
    assert_string_equal(wr_buf_cstr(&b), "{\"a\": 1, \"b\": [true, \"xy\"], \"c\": true, \"c d\": null}");
    assert_int_equal(patch(B("\x02\x03$.a\x02\x06$.b[0]"), &b), WR_OK); /* remove */
    assert_string_equal(wr_buf_cstr(&b), "{\"b\": [\"xy\"]}");
    assert_int_equal(patch(B("\x00\x01$\x02\x04\x02"), &b), WR_OK); /* the whole */
    assert_string_equal(wr_buf_cstr(&b), "false");
    wr_buf_free(&b);
}

static void diffs_that_do_not_fit_are_errors(void **state) {
    const wr_slice t[] = {
        B("\x00\x03$.z\x02\x04\x00"), B("\x02\x03$.z"), B("\x02\x06$.b[2]"), B("\x01\x03$.a\x02\x04\x00"), B("\x01\x05$.a.b\x02\x04\x00"), B("\x00\x06$.b[x]\x02\x04\x00"),
        B("\x03\x01$"), B("\x00\x01$"), B("\x00\x09$.a\x02\x04\x00"), B("\x00\x02$.\x02\x04\x00"), B("\x00\x04$.\"a\x02\x04\x00"), B("\x02\x01$"), B("\x00\xff"),
    };
    wr_buf b = WR_BUF_INIT;
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) assert_int_equal(patch(t[i], &b), WR_E_DECODE);
    wr_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_are_spelled_as_the_server_spells_them), cmocka_unit_test(doubles_read_back), cmocka_unit_test(documents_become_text),
        cmocka_unit_test(hostile_documents_are_errors), cmocka_unit_test(diffs_are_applied_in_order), cmocka_unit_test(diffs_that_do_not_fit_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
