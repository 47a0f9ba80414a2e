#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "mysql/value.h"
#include "weir/base/mem.h"

/* Samples; tests/tools/charset_compare.py compares every code with real servers. */
static void characters_come_out_as_the_server_converts_them(void **state) {
    static const struct { const char *cs, *in; size_t n; const char *out; } t[] = {
        {"utf8mb4", "\xf0\x9f\x98\x80\xe4\xb8\xad\xc3\xa9" "a", 10, "😀中éa"},
        {"utf8mb3", "\xe4\xb8\xad", 3, "中"},
        {"utf8", "\xe4\xb8\xad", 3, "中"},
        {"ascii", "abc", 3, "abc"},
        {"latin1", "\xe9\x80\x81\xff", 4, "é€\xc2\x81ÿ"}, /* cp1252, its holes as controls */
        {"latin2", "\xb1", 1, "ą"},
        {"cp1251", "\xe0", 1, "а"},
        {"koi8r", "\xc1", 1, "а"},
        {"swe7", "@[\\]^`{|}~", 10, "ÉÄÖÅÜéäöåü"},
        {"gbk", "\xd6\xd0\xce\xc4", 4, "中文"},
        {"gb2312", "\xd6\xd0", 2, "中"},
        {"gb18030", "\xd6\xd0\x95\x32\x82\x36", 6, "中𠀀"},
        {"big5", "\xa4\xa4\xa1\x45", 4, "中•"}, /* the server's own choice for A145 */
        {"sjis", "\x93\xfa\xb6\x5c\x81\x5f", 6, "日ｶ\\\\"},
        {"cp932", "\x93\xfa\x87\x40", 4, "日①"},
        {"ujis", "\xc6\xfc\x8e\xb6\x8f\xb0\xa1", 7, "日ｶ丂"},
        {"eucjpms", "\xad\xa1", 2, "①"},
        {"euckr", "\xc7\xd1", 2, "한"},
        {"ucs2", "\x4e\x2d", 2, "中"},
        {"utf16", "\x4e\x2d\xd8\x3d\xde\x00", 6, "中😀"},
        {"utf16le", "\x2d\x4e\x3d\xd8\x00\xde", 6, "中😀"},
        {"utf32", "\x00\x01\xf6\x00", 4, "😀"},
        {"tis620", "\xa1", 1, "ก"},
    };
    wr_err err = WR_ERR_INIT;
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        const wr_charset *cs;
        wr_buf b = WR_BUF_INIT;
        assert_int_equal(wr_charset_get(t[i].cs, &cs, &err), WR_OK);
        assert_int_equal(wr_charset_decode(cs, wr_slice_of(t[i].in, t[i].n), &b, &err), WR_OK);
        assert_string_equal(wr_buf_cstr(&b), t[i].out);
        wr_buf_free(&b);
    }
}

static void what_is_no_character_is_an_error_that_says_where(void **state) {
    static const struct { const char *cs, *in; size_t n; } t[] = {
        {"utf8mb4", "ab\xff", 3}, {"utf8mb4", "ab\xc3", 3}, {"utf8mb4", "\xed\xa0\x80", 3}, {"utf8mb4", "\xc0\x80", 2}, {"utf8mb4", "\xf4\x90\x80\x80", 4},
        {"utf8mb3", "\xf0\x9f\x98\x80", 4}, {"ascii", "a\x80", 2}, {"cp1250", "\x81", 1}, {"gbk", "\x81", 1}, {"gbk", "\xa2\xa1\x7f\xff", 4}, {"sjis", "\x85\x40", 2},
        {"ujis", "\x8f\xb0", 2}, {"gb18030", "\x81\x30\x81", 3}, {"gb18030", "\xff\xff", 2}, {"utf16", "\xd8\x3d", 2}, {"utf16", "\xd8\x3d\x00\x41", 4},
        {"utf16", "\xde\x00", 2}, {"utf16", "\x41", 1}, {"ucs2", "\xd8\x00", 2}, {"utf32", "\x00\x11\x00\x00", 4}, {"utf32", "\x00\x00\x41", 3},
    };
    wr_err err = WR_ERR_INIT;
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        const wr_charset *cs;
        assert_int_equal(wr_charset_get(t[i].cs, &cs, &err), WR_OK);
        for (size_t pad = 0; pad < 20; pad += 5) { /* also behind the ASCII fast path */
            uint8_t *in = wr_malloc(pad * 4 + t[i].n);
            size_t unit = strcmp(t[i].cs, "utf32") == 0 ? 4 : strncmp(t[i].cs, "utf16", 5) == 0 || strcmp(t[i].cs, "ucs2") == 0 ? 2 : 1;
            memset(in, 0, pad * unit);
            for (size_t k = 0; k < pad; k++) in[k * unit + unit - 1] = 'x';
            memcpy(in + pad * unit, t[i].in, t[i].n);
            wr_buf b = WR_BUF_INIT;
            assert_int_equal(wr_charset_decode(cs, wr_slice_of(in, pad * unit + t[i].n), &b, &err), WR_E_DECODE);
            wr_buf_free(&b);
            wr_free(in);
        }
    }
    const wr_charset *cs;
    wr_buf b = WR_BUF_INIT;
    assert_int_equal(wr_charset_get("utf8mb4", &cs, &err), WR_OK);
    assert_int_equal(wr_charset_decode(cs, wr_slice_of("hello \xff", 7), &b, &err), WR_E_DECODE);
    assert_non_null(strstr(err.msg, "byte 6 of 7 is no utf8mb4 character: ff"));
    wr_buf_free(&b);
}

static void an_unknown_character_set_is_unsupported(void **state) {
    const wr_charset *cs;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_charset_get("klingon", &cs, &err), WR_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "klingon"));
    assert_int_equal(wr_charset_get("a_name_longer_than_any_character_set_has", &cs, &err), WR_E_UNSUPPORTED);
}

static void collations_lead_to_their_character_set(void **state) {
    static const struct { unsigned id; const char *cs; } t[] = {
        {8, "latin1"}, {28, "gbk"}, {33, "utf8mb3"}, {45, "utf8mb4"}, {46, "utf8mb4"}, {63, "binary"}, {83, "utf8mb3"}, {192, "utf8mb3"}, {224, "utf8mb4"}, {248, "gb18030"},
        {255, "utf8mb4"}, {309, "utf8mb4"}, {323, "utf8mb4"}, {576, "utf8mb3"}, {608, "utf8mb4"}, {1032, "latin1"}, {1069, "utf8mb4"}, {2048, "utf8mb3"}, {2304, "utf8mb4"},
        {2560, "ucs2"}, {2816, "utf16"}, {3271, "utf32"},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) assert_string_equal(wr_charset_of_collation(t[i].id), t[i].cs);
    assert_null(wr_charset_of_collation(0));
    assert_null(wr_charset_of_collation(500));
    assert_null(wr_charset_of_collation(99999));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_come_out_as_the_server_converts_them),
        cmocka_unit_test(what_is_no_character_is_an_error_that_says_where),
        cmocka_unit_test(an_unknown_character_set_is_unsupported),
        cmocka_unit_test(collations_lead_to_their_character_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
