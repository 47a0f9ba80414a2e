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
#include "tmpdir.h"

static void bytes_written_anywhere_read_back(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_file *f;
    char got[16];
    size_t n;
    uint64_t size;
    assert_int_equal(wr_file_open(in_dir("f"), WR_OPEN_CREATE, &f, &e), WR_OK);
    assert_int_equal(wr_file_pwrite(f, 3, wr_slice_str("def"), &e), WR_OK);
    assert_int_equal(wr_file_pwrite(f, 0, wr_slice_str("abc"), &e), WR_OK);
    assert_int_equal(wr_file_pwrite(f, 0, wr_slice_of(NULL, 0), &e), WR_OK);
    assert_int_equal(wr_file_sync(f, &e), WR_OK);
    assert_int_equal(wr_file_length(f, &size, &e), WR_OK);
    assert_int_equal(size, 6);
    assert_int_equal(wr_file_pread(f, 1, got, 3, &n, &e), WR_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(got, "bcd", 3);
    assert_int_equal(wr_file_pread(f, 4, got, 10, &n, &e), WR_OK);
    assert_int_equal(n, 2);
    assert_int_equal(wr_file_pread(f, 100, got, 10, &n, &e), WR_OK);
    assert_int_equal(n, 0);
    assert_int_equal(wr_file_truncate(f, 2, &e), WR_OK);
    assert_int_equal(wr_file_length(f, &size, &e), WR_OK);
    assert_int_equal(size, 2);
    wr_file_close(f);
    wr_file_close(NULL);
}

static void modes_say_what_must_be_there(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_file *f = NULL;
    assert_int_equal(wr_file_open(in_dir("f"), WR_OPEN_READ, &f, &e), WR_E_NOTFOUND);
    assert_int_equal(wr_file_open(in_dir("f"), WR_OPEN_RDWR, &f, &e), WR_E_NOTFOUND);
    assert_null(f);
    assert_int_equal(wr_file_open(in_dir("f"), WR_OPEN_CREATE, &f, &e), WR_OK);
    wr_file_close(f);
    assert_int_equal(wr_file_open(in_dir("f"), WR_OPEN_CREATE, &f, &e), WR_E_EXISTS);
    assert_int_equal(wr_file_open(in_dir("f"), WR_OPEN_READ, &f, &e), WR_OK);
    assert_int_equal(wr_file_pwrite(f, 0, wr_slice_str("x"), &e), WR_E_IO);
    wr_file_close(f);
    wr_mem_fail_after(1);
    assert_int_equal(wr_file_open(in_dir("f"), WR_OPEN_READ, &f, &e), WR_E_NOMEM);
}

static void places_no_file_has_are_errors(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_file *f;
    char c;
    size_t n;
    assert_int_equal(wr_file_open(in_dir("f"), WR_OPEN_CREATE, &f, &e), WR_OK);
    assert_int_equal(wr_file_pwrite(f, UINT64_MAX, wr_slice_str("x"), &e), WR_E_IO);
    assert_int_equal(wr_file_pread(f, UINT64_MAX, &c, 1, &n, &e), WR_E_IO);
    assert_int_equal(wr_file_truncate(f, UINT64_MAX, &e), WR_E_IO);
    wr_file_close(f);
}

static void a_full_disk_says_so(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_file *f;
    if (wr_file_open("/dev/full", WR_OPEN_RDWR, &f, &e) != WR_OK) skip();
    assert_int_equal(wr_file_pwrite(f, 0, wr_slice_str("x"), &e), WR_E_NOSPC);
    assert_int_equal(e.retry, WR_RETRY_SOON);
    assert_true(strlen(e.cure) > 0);
    wr_file_close(f);
}

static void a_failed_sync_sticks_until_the_file_is_reopened(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_file *f;
    assert_int_equal(wr_file_open(in_dir("f"), WR_OPEN_CREATE, &f, &e), WR_OK);
    wr_fault_set("io.sync:1:fail");
    assert_int_equal(wr_file_pwrite(f, 0, wr_slice_str("x"), &e), WR_OK);
    assert_int_equal(wr_file_sync(f, &e), WR_E_IO);
    assert_int_equal(wr_file_sync(f, &e), WR_E_IO);
    assert_int_equal(e.retry, WR_RETRY_AFTER_RELOAD);
    assert_int_equal(wr_file_pwrite(f, 0, wr_slice_str("x"), &e), WR_E_IO);
    wr_file_close(f);
    assert_int_equal(wr_file_open(in_dir("f"), WR_OPEN_RDWR, &f, &e), WR_OK);
    assert_int_equal(wr_file_sync(f, &e), WR_OK);
    wr_file_close(f);
    wr_fault_set(NULL);
}

static void faults_of_writing_and_cutting_are_reported(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_file *f;
    uint64_t size;
    assert_int_equal(wr_file_open(in_dir("f"), WR_OPEN_CREATE, &f, &e), WR_OK);
    wr_fault_set("io.write.torn:1:fail,io.truncate:1:fail");
    assert_int_equal(wr_file_pwrite(f, 0, wr_slice_str("12345678"), &e), WR_E_IO);
    assert_int_equal(wr_file_length(f, &size, &e), WR_OK);
    assert_int_equal(size, 4);
    assert_int_equal(wr_file_truncate(f, 0, &e), WR_E_IO);
    wr_fault_set(NULL);
    wr_file_close(f);
}

int main(void) {
    const struct CMUnitTest t[] = {
        IN_DIR(bytes_written_anywhere_read_back),
        IN_DIR(modes_say_what_must_be_there),
        IN_DIR(places_no_file_has_are_errors),
        cmocka_unit_test(a_full_disk_says_so),
        IN_DIR(a_failed_sync_sticks_until_the_file_is_reopened),
        IN_DIR(faults_of_writing_and_cutting_are_reported),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
