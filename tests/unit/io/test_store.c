#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/io.h"
#include "weir/store.h"
#include "tmpdir.h"

#define OK(expr)                                                                                                       \
    do {                                                                                                               \
        wr_err e_ = WR_ERR_INIT, *err = &e_;                                                                           \
        if ((expr) != WR_OK) fail_msg("%s: %s", #expr, err->msg);                                                      \
    } while (0)

static wr_store_object object(const char *uri, const char *text) { return (wr_store_object){uri, wr_slice_str(text)}; }

static void places_have_one_spelling(void **st) {
    static const char *const good[][2] = {{"/a/b", "/a/b"},       {"file:///a/b", "/a/b"},  {"file:/a/b", "/a/b"}, {"file://localhost/a", "/a"},
                                          {"s3://b/k", "s3://b/k"}, {"s3a://b/k", "s3://b/k"}, {"s3n://b/k", "s3://b/k"}};
    static const char *const bad[] = {"gs://b/a", "a/b", "", "file:", "file://host/a", "hdfs:///a", "s3:/b/a"};
    wr_err e = WR_ERR_INIT;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        WR_AUTO char *p = NULL;
        OK(wr_uri_canonical(good[i][0], &p, err));
        assert_string_equal(p, good[i][1]);
    }
    char *p = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(wr_uri_canonical(bad[i], &p, &e), WR_E_UNSUPPORTED);
    assert_null(p);
}

static void local_objects_are_put_once_and_read_back(void **st) {
    wr_err e = WR_ERR_INIT;
    WR_AUTO char *uri = wr_asprintf("file://%s", in_dir("x/y/two"));
    wr_store_object o[2] = {object(in_dir("x/one"), "1"), object(uri, "twotwo")};
    OK(wr_store_put(NULL, o, 2, err));
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    OK(wr_store_get(NULL, uri, 6, &b, err));
    OK(wr_store_get_range(NULL, uri, 3, 2, &b, err));
    assert_string_equal(wr_buf_cstr(&b), "twotwotw");
    assert_int_equal(wr_store_get(NULL, uri, 5, &b, &e), WR_E_LIMIT);
    assert_int_equal(wr_store_get_range(NULL, uri, 5, 2, &b, &e), WR_E_DECODE);
    assert_int_equal(wr_store_get_range(NULL, uri, UINT64_MAX, 2, &b, &e), WR_E_DECODE);
    assert_int_equal(wr_store_get(NULL, in_dir("none"), 5, &b, &e), WR_E_NOTFOUND);
}

/* A request that is repeated because nobody knows whether the first one got through. */
static void the_same_content_again_is_fine_and_other_content_is_not(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_store_object first = object(in_dir("f"), "one"), other = object(in_dir("f"), "two"), shorter = object(in_dir("f"), "on");
    OK(wr_store_put(NULL, &first, 1, err));
    OK(wr_store_put(NULL, &first, 1, err));
    assert_int_equal(wr_store_put(NULL, &other, 1, &e), WR_E_EXISTS);
    assert_int_equal(wr_store_put(NULL, &shorter, 1, &e), WR_E_EXISTS);
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    OK(wr_store_get(NULL, in_dir("f"), 9, &b, err));
    assert_string_equal(wr_buf_cstr(&b), "one");
}

static void a_put_that_fails_leaves_no_half_object(void **st) {
    const char *faults[] = {"io.write:1:fail", "io.write.nospc:1:fail", "io.write.torn:1:fail", "io.sync:1:fail"};
    wr_err e = WR_ERR_INIT;
    wr_store_object o = object(in_dir("f"), "content");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        assert_true(wr_fault_set(faults[i]));
        assert_int_not_equal(wr_store_put(NULL, &o, 1, &e), WR_OK);
        wr_fault_set(NULL);
        assert_false(wr_file_exists(in_dir("f")));
    }
    OK(wr_store_put(NULL, &o, 1, err));
}

static void a_file_becomes_an_object(void **st) {
    WR_AUTO char *uri = wr_asprintf("file:%s", in_dir("data/big")), *path = NULL, *pinned = NULL;
    OK(wr_store_stage(NULL, uri, &path, err));
    OK(wr_file_create(path, wr_slice_str("big"), err));
    OK(wr_store_publish(NULL, &(wr_store_file){uri, path}, 1, err));
    OK(wr_store_pin(NULL, uri, &pinned, err));
    assert_string_equal(pinned, in_dir("data/big"));
    wr_store_unpin(NULL, uri);
    wr_store_discard(path);
    assert_false(wr_file_exists(path));
}

static wr_code note(void *ctx, const char *uri, uint64_t bytes, int64_t modified_us, wr_err *err) {
    wr_buf_printf(ctx, "%s=%d ", uri + strlen(dir), (int)bytes);
    assert_true(modified_us > INT64_C(1500000000000000));
    return WR_OK;
}

static void folders_are_listed_with_all_below_them(void **st) {
    wr_err e = WR_ERR_INIT;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_store_object o[3] = {object(in_dir("t/a"), "1"), object(in_dir("t/sub/b"), "22"), object(in_dir("u/c"), "333")};
    OK(wr_store_put(NULL, o, 3, err));
    OK(wr_store_list(NULL, in_dir("t/"), note, &b, err));
    assert_string_equal(wr_buf_cstr(&b), "/t/a=1 /t/sub/b=2 ");
    OK(wr_store_list(NULL, in_dir("nowhere/"), note, &b, err));
    assert_int_equal(wr_store_list(NULL, in_dir("t"), note, &b, &e), WR_E_INVAL);
}

static void all_are_removed_that_can_be(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_store_object o[2] = {object(in_dir("a"), "1"), object(in_dir("b"), "2")};
    const char *uris[3] = {in_dir("a"), in_dir("never"), in_dir("b")};
    OK(wr_store_put(NULL, o, 2, err));
    assert_true(wr_fault_set("io.remove:1:fail"));
    assert_int_equal(wr_store_remove(NULL, uris, 3, &e), WR_E_IO);
    wr_fault_set(NULL);
    assert_true(wr_file_exists(in_dir("a")));
    assert_false(wr_file_exists(in_dir("b")));
    OK(wr_store_remove(NULL, uris, 3, err));
    assert_false(wr_file_exists(in_dir("a")));
}

static void s3_without_a_configuration_says_what_is_missing(void **st) {
    wr_err e = WR_ERR_INIT;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    char *path = NULL;
    const char *uri = "s3://bucket/key";
    wr_store_object o = object(uri, "x");
    wr_store *s;
    OK(wr_store_open(&(wr_store_options){0}, &s, err));
    for (int i = 0; i < 2; i++) {
        wr_store *which = i ? s : NULL;
        assert_int_equal(wr_store_put(which, &o, 1, &e), WR_E_CONFIG);
        assert_non_null(strstr(e.cure, "lake.s3"));
        assert_int_equal(wr_store_get(which, uri, 9, &b, &e), WR_E_CONFIG);
        assert_int_equal(wr_store_stage(which, uri, &path, &e), WR_E_CONFIG);
        assert_int_equal(wr_store_pin(which, uri, &path, &e), WR_E_CONFIG);
        assert_int_equal(wr_store_remove(which, &uri, 1, &e), WR_E_CONFIG);
        assert_int_equal(wr_store_list(which, "s3://bucket/key/", note, &b, &e), WR_E_CONFIG);
    }
    wr_store_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIR(places_have_one_spelling),
        IN_DIR(local_objects_are_put_once_and_read_back),
        IN_DIR(the_same_content_again_is_fine_and_other_content_is_not),
        IN_DIR(a_put_that_fails_leaves_no_half_object),
        IN_DIR(a_file_becomes_an_object),
        IN_DIR(folders_are_listed_with_all_below_them),
        IN_DIR(all_are_removed_that_can_be),
        IN_DIR(s3_without_a_configuration_says_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
