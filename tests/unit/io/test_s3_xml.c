#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "s3_xml.h"
#include "weir/base/mem.h"

/* "path=text;" for each element */
static wr_code note(void *ctx, const char *path, const char *text, wr_err *err) {
    wr_buf_printf(ctx, "%s=%s;", path, text);
    return strcmp(text, "stop") == 0 ? wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "stopped") : WR_OK;
}

static wr_code reading(const char *doc, const char *want) {
    wr_err e = WR_ERR_INIT;
    WR_AUTO_BUF wr_buf got = WR_BUF_INIT;
    wr_code rc = wr_s3_xml_read(wr_slice_str(doc), note, &got, &e);
    if (want) assert_string_equal(wr_buf_cstr(&got), want);
    if (rc != WR_OK) assert_true(strlen(e.msg) > 5);
    return rc;
}

static void elements_come_with_their_path_and_text(void **st) {
    assert_int_equal(reading("<a/>", "a=;"), WR_OK);
    assert_int_equal(reading("\xef\xbb\xbf<?xml version=\"1.0\"?>\n<!-- <no> -->\n<r xmlns=\"http://x/\" b = 'a>b' "
                             ">\n<k>one</k><l><m>two</m> </l><k/></r>\n",
                             "r/k=one;r/l/m=two;r/l= ;r/k=;r=;"),
                     WR_OK);
    assert_int_equal(reading("<s:r><s:k>v</s:k></s:r>", "r/k=v;r=;"), WR_OK);
}

static void text_is_decoded(void **st) {
    assert_int_equal(reading("<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#xe4;&#8364;&#x1F600;</a>",
                             "a=<>&\"'AB\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80;"),
                     WR_OK);
    assert_int_equal(reading("<a>x<![CDATA[<b>&amp;]]>y</a>", "a=x<b>&amp;y;"), WR_OK);
    assert_int_equal(reading("<a>&amp;amp;</a>", "a=&amp;;"), WR_OK);
}

static void what_is_not_well_formed_is_refused(void **st) {
    const char *bad[] = {"",
                         " ",
                         "text",
                         "<a>",
                         "<a></b>",
                         "<a></a></a>",
                         "<a/><b/>",
                         "<a/>x",
                         "&amp;<a/>",
                         "<a",
                         "<a b>",
                         "<a b=c/>",
                         "<a b='c/>",
                         "<>",
                         "</a>",
                         "<a>&nope;</a>",
                         "<a>&#;</a>",
                         "<a>&#x;</a>",
                         "<a>&#0;</a>",
                         "<a>&#xD800;</a>",
                         "<a>&#x110000;</a>",
                         "<a>&#99999999999;</a>",
                         "<a>&#12",
                         "<a>&#1z;</a>",
                         "<a>&lt</a>",
                         "<!DOCTYPE a><a/>",
                         "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
                         "<a><!-- </a>",
                         "<?xml <a/>",
                         "<a><![CDATA[x</a>",
                         "<![CDATA[x]]>",
                         "<a:></a:>",
                         "<a>< b/></a>",
                         "<a><b></a></b>"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (reading(bad[i], NULL) != WR_E_DECODE) fail_msg("taken: %s", bad[i]);
    wr_err e = WR_ERR_INIT;
    WR_AUTO_BUF wr_buf got = WR_BUF_INIT;
    assert_int_equal(wr_s3_xml_read(wr_slice_of("<a>\0</a>", 8), note, &got, &e), WR_E_DECODE);
}

static void depth_names_and_texts_have_limits(void **st) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    for (int i = 0; i < WR_S3_XML_DEPTH_MAX; i++) wr_buf_printf(&b, "<a>");
    for (int i = 0; i < WR_S3_XML_DEPTH_MAX; i++) wr_buf_printf(&b, "</a>");
    assert_int_equal(reading(wr_buf_cstr(&b), NULL), WR_OK);
    wr_buf_clear(&b);
    for (int i = 0; i <= WR_S3_XML_DEPTH_MAX; i++) wr_buf_printf(&b, "<a>");
    assert_int_equal(reading(wr_buf_cstr(&b), NULL), WR_E_DECODE);
    for (size_t n = WR_S3_XML_PATH_MAX - 4; n < WR_S3_XML_PATH_MAX + 4; n++) {
        wr_buf_clear(&b);
        wr_buf_printf(&b, "<%0*d/>", (int)n, 0);
        assert_int_equal(reading(wr_buf_cstr(&b), NULL), n + 2 > WR_S3_XML_PATH_MAX ? WR_E_DECODE : WR_OK);
    }
    for (size_t n = WR_S3_XML_TEXT_MAX - 1; n < WR_S3_XML_TEXT_MAX + 2; n++) {
        wr_buf_clear(&b);
        wr_buf_printf(&b, "<a>%0*d</a>", (int)n, 0);
        assert_int_equal(reading(wr_buf_cstr(&b), NULL), n > WR_S3_XML_TEXT_MAX ? WR_E_DECODE : WR_OK);
    }
}

static void the_callbacks_error_ends_the_reading(void **st) {
    assert_int_equal(reading("<r><a>x</a><a>stop</a><a>y</a></r>", "r/a=x;r/a=stop;"), WR_E_CANCELLED);
}

static void every_beginning_of_an_answer_is_refused_and_memory_may_fail(void **st) {
    static const char doc[] =
        "<?xml version='1.0'?><Error><Code>No&amp;</Code><!-- c --><Message><![CDATA[m]]></Message></Error>";
    wr_err e = WR_ERR_INIT;
    for (size_t n = 0; n < sizeof doc - 1; n++) {
        WR_AUTO_BUF wr_buf got = WR_BUF_INIT;
        char *copy = malloc(n); /* so that the sanitizer sees its end */
        memcpy(copy, doc, n);
        assert_int_equal(wr_s3_xml_read(wr_slice_of(copy, n), note, &got, &e), WR_E_DECODE);
        free(copy);
    }
    WR_AUTO_BUF wr_buf got = WR_BUF_INIT;
    wr_buf_room(&got, 4096);
    wr_mem_fail_after(1);
    assert_int_equal(wr_s3_xml_read(wr_slice_str(doc), note, &got, &e), WR_E_NOMEM);
    wr_mem_fail_after(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_come_with_their_path_and_text),
        cmocka_unit_test(text_is_decoded),
        cmocka_unit_test(what_is_not_well_formed_is_refused),
        cmocka_unit_test(depth_names_and_texts_have_limits),
        cmocka_unit_test(the_callbacks_error_ends_the_reading),
        cmocka_unit_test(every_beginning_of_an_answer_is_refused_and_memory_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
