#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sigv4.h"
#include "weir/base/mem.h"

/* Amazon S3 API reference, "Signature Calculations for the Authorization Header: examples". */
static const char ACCESS_KEY[] = "AKIAIOSFODNN7EXAMPLE", SECRET_KEY[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
static const char NO_BODY[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static const int64_t MAY_24_2013 = 1369353600000000;
#define HOST "host:examplebucket.s3.amazonaws.com"
#define NO_BODY_HEADER "x-amz-content-sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define DATE "x-amz-date:20130524T000000Z"

static void gives(const char *method, const char *path, const char *query, const char *const *headers, int n,
                  const char *sha256, const char *names, const char *signature) {
    wr_err e = WR_ERR_INIT;
    char want[512];
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_sigv4 v = {method, path, query, headers, n, sha256, "us-east-1", MAY_24_2013};
    assert_int_equal(wr_sigv4_authorize(&v, ACCESS_KEY, SECRET_KEY, &b, &e), WR_OK);
    snprintf(want, sizeof want,
             "AWS4-HMAC-SHA256 "
             "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=%s,Signature=%s",
             names, signature);
    assert_string_equal(wr_buf_cstr(&b), want);
}

static void the_published_get_object(void **st) {
    const char *h[] = {HOST, "range:bytes=0-9", NO_BODY_HEADER, DATE};
    gives("GET", "/test.txt", "", h, 4, NO_BODY, "host;range;x-amz-content-sha256;x-amz-date",
          "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

static void the_published_put_object(void **st) {
    const char *sha256 =
        "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"; /* "Welcome to Amazon S3." */
    const char *h[] = {"date:Fri, 24 May 2013 00:00:00 GMT", HOST,
                       "x-amz-content-sha256:44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072", DATE,
                       "x-amz-storage-class:REDUCED_REDUNDANCY"};
    WR_AUTO_BUF wr_buf path = WR_BUF_INIT;
    wr_sigv4_encode(&path, "/test$file.text", true);
    gives("PUT", wr_buf_cstr(&path), "", h, 5, sha256, "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
          "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

static void the_published_get_bucket_lifecycle(void **st) {
    const char *h[] = {HOST, NO_BODY_HEADER, DATE};
    gives("GET", "/", "lifecycle=", h, 3, NO_BODY, "host;x-amz-content-sha256;x-amz-date",
          "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

static void the_published_list_objects(void **st) {
    const char *h[] = {HOST, NO_BODY_HEADER, DATE};
    gives("GET", "/", "max-keys=2&prefix=J", h, 3, NO_BODY, "host;x-amz-content-sha256;x-amz-date",
          "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void every_byte_but_the_plain_ones_is_encoded(void **st) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_sigv4_encode(&b, "aZ09-._~/ +%&=?#:@!$'()*,;[]\"<>\\^`{|}\x01\x7f\xc3\xa4", true);
    assert_string_equal(
        wr_buf_cstr(&b),
        "aZ09-._~/%20%2B%25%26%3D%3F%23%3A%40%21%24%27%28%29%2A%2C%3B%5B%5D%22%3C%3E%5C%5E%60%7B%7C%7D%01%7F%C3%A4");
    wr_buf_clear(&b);
    wr_sigv4_encode(&b, "a/b", false);
    assert_string_equal(wr_buf_cstr(&b), "a%2Fb");
}

static void each_allocation_may_fail(void **st) {
    wr_err e = WR_ERR_INIT;
    const char *h[] = {HOST, NO_BODY_HEADER, DATE};
    wr_sigv4 v = {"GET", "/", "", h, 3, NO_BODY, "us-east-1", MAY_24_2013};
    int failed = 0;
    for (uint64_t n = 1;; n++) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        wr_mem_fail_after(n);
        wr_code rc = wr_sigv4_authorize(&v, ACCESS_KEY, SECRET_KEY, &b, &e);
        if (wr_mem_fail_after(0) != 0) {
            assert_int_equal(rc, WR_OK);
            break;
        }
        assert_int_equal(rc, WR_E_NOMEM);
        assert_null(strstr(e.msg, SECRET_KEY));
        failed++;
    }
    assert_in_range(failed, 3, 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_get_object),
        cmocka_unit_test(the_published_put_object),
        cmocka_unit_test(the_published_get_bucket_lifecycle),
        cmocka_unit_test(the_published_list_objects),
        cmocka_unit_test(every_byte_but_the_plain_ones_is_encoded),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
