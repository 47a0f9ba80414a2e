#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/io.h"
#include "tmpdir.h"

static void holds(const char *path, const char *want) {
    wr_err e = WR_ERR_INIT;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    if (wr_file_get(path, 1 << 20, &b, &e) != WR_OK) fail_msg("%s", e.msg);
    assert_string_equal(wr_buf_cstr(&b), want);
}

static void put_replaces_and_leaves_no_temporary_file(void **st) {
    wr_err e = WR_ERR_INIT;
    struct stat sb;
    assert_int_equal(wr_file_put(in_dir("f"), wr_slice_str("one"), &e), WR_OK);
    assert_int_equal(wr_file_put(in_dir("f"), wr_slice_str("two"), &e), WR_OK);
    holds(in_dir("f"), "two");
    assert_false(wr_file_exists(in_dir("f.tmp")));
    assert_int_equal(stat(in_dir("f"), &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
}

static void each_fault_of_put_leaves_the_old_file_whole(void **st) {
    const char *faults[] = {"io.write:1:fail", "io.write.nospc:1:fail", "io.write.torn:1:fail", "io.sync:1:fail",
                            "io.rename:1:fail"};
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_file_put(in_dir("f"), wr_slice_str("old"), &e), WR_OK);
    for (size_t i = 0; i < 5; i++) {
        assert_true(wr_fault_set(faults[i]));
        assert_int_equal(wr_file_put(in_dir("f"), wr_slice_str("new content"), &e), i == 1 ? WR_E_NOSPC : WR_E_IO);
        assert_int_equal(e.retry, i == 1 ? WR_RETRY_SOON : WR_RETRY_NO);
        assert_non_null(strstr(e.msg, "/f"));
        holds(in_dir("f"), "old");
        assert_false(wr_file_exists(in_dir("f.tmp")));
    }
    wr_fault_set("io.sync:2:fail"); /* of the folder: the new name is there, but nobody may count on it */
    assert_int_equal(wr_file_put(in_dir("f"), wr_slice_str("new"), &e), WR_E_IO);
    wr_fault_set(NULL);
    holds(in_dir("f"), "new");
}

static void killed_at_any_point_put_leaves_old_or_new(void **st) {
    const char *faults[] = {"io.write:1:kill", "io.write.torn:1:kill", "io.sync:1:kill", "io.rename:1:kill",
                            "io.sync:2:kill"};
    wr_err e = WR_ERR_INIT;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(wr_file_put(in_dir("f"), wr_slice_str("old"), &e), WR_OK);
        pid_t pid = fork();
        if (pid == 0) {
            wr_fault_set(faults[i]);
            wr_file_put(in_dir("f"), wr_slice_str("new"), &e);
            _exit(0);
        }
        int status;
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        holds(in_dir("f"), i == 4 ? "new" : "old");
        assert_int_equal(wr_file_put(in_dir("f"), wr_slice_str("next"), &e),
                         WR_OK); /* what the dead one left is no obstacle */
        holds(in_dir("f"), "next");
    }
}

static void create_refuses_a_file_that_is_there_and_removes_its_own_failure(void **st) {
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_file_create(in_dir("f"), wr_slice_str("one"), &e), WR_OK);
    assert_int_equal(wr_file_create(in_dir("f"), wr_slice_str("two"), &e), WR_E_EXISTS);
    holds(in_dir("f"), "one");
    const char *faults[] = {"io.write:1:fail", "io.write.torn:1:fail", "io.sync:1:fail", "io.sync:2:fail"};
    for (size_t i = 0; i < 4; i++) {
        wr_fault_set(faults[i]);
        assert_int_equal(wr_file_create(in_dir("g"), wr_slice_str("two"), &e), WR_E_IO);
        wr_fault_set(NULL);
        assert_false(wr_file_exists(in_dir("g")));
    }
}

static void get_appends_up_to_its_limit(void **st) {
    wr_err e = WR_ERR_INIT;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_buf_u8(&b, '>');
    assert_int_equal(wr_file_create(in_dir("f"), wr_slice_str("12345"), &e), WR_OK);
    assert_int_equal(wr_file_get(in_dir("f"), 4, &b, &e), WR_E_LIMIT);
    assert_int_equal(b.n, 1);
    assert_int_equal(wr_file_get(in_dir("f"), 5, &b, &e), WR_OK);
    assert_string_equal(wr_buf_cstr(&b), ">12345");
    assert_int_equal(wr_file_create(in_dir("empty"), wr_slice_of(NULL, 0), &e), WR_OK);
    assert_int_equal(wr_file_get(in_dir("empty"), 0, &b, &e), WR_OK);
    assert_int_equal(wr_file_get("/proc/self/status", 10, &b, &e), WR_E_LIMIT); /* says it has no bytes */
    assert_int_equal(wr_file_get("/proc/self/status", 1 << 20, &b, &e), WR_OK);
    assert_int_equal(wr_file_get(in_dir("nothing"), 5, &b, &e), WR_E_NOTFOUND);
    assert_int_equal(wr_file_get(dir, 5, &b, &e) == WR_OK, 0);
}

static void sizes_and_removal(void **st) {
    wr_err e = WR_ERR_INIT;
    uint64_t n = 77;
    assert_int_equal(wr_file_size(in_dir("f"), &n, &e), WR_E_NOTFOUND);
    assert_int_equal(n, 77);
    assert_int_equal(wr_file_put(in_dir("f"), wr_slice_str("12345"), &e), WR_OK);
    assert_int_equal(wr_file_size(in_dir("f"), &n, &e), WR_OK);
    assert_int_equal(n, 5);
    assert_int_equal(wr_file_remove(in_dir("f"), &e), WR_OK);
    assert_int_equal(wr_file_remove(in_dir("f"), &e), WR_OK);
    assert_false(wr_file_exists(in_dir("f")));
}

static void mkdirs_makes_every_missing_folder(void **st) {
    wr_err e = WR_ERR_INIT;
    struct stat sb;
    assert_int_equal(wr_mkdirs(in_dir("a/b//c/d/"), &e), WR_OK);
    assert_int_equal(wr_mkdirs(in_dir("a/b/c/d"), &e), WR_OK);
    assert_int_equal(stat(in_dir("a/b/c/d"), &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0700);
    assert_int_equal(wr_file_put(in_dir("a/file"), wr_slice_str(""), &e), WR_OK);
    assert_true(wr_mkdirs(in_dir("a/file"), &e) != WR_OK);
    assert_true(wr_mkdirs(in_dir("a/file/x"), &e) != WR_OK);
    assert_int_equal(wr_mkdirs("", &e), WR_E_INVAL);
    assert_int_equal(wr_mkdirs("/", &e), WR_OK);
}

static void relative_paths_have_a_parent_too(void **st) {
    wr_err e = WR_ERR_INIT;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(wr_mkdirs("x/y", &e), WR_OK);
    assert_int_equal(wr_file_put("f", wr_slice_str("1"), &e), WR_OK);
    assert_int_equal(wr_fsync_parent("f", &e), WR_OK);
    assert_int_equal(wr_fsync_parent("x/y/", &e), WR_OK);
    assert_int_equal(wr_fsync_parent("/x", &e), WR_OK);
    assert_int_equal(wr_fsync_path("x", &e), WR_OK);
    assert_int_equal(wr_fsync_parent("no/f", &e), WR_E_NOTFOUND);
    assert_int_equal(chdir(before), 0);
}

static wr_code gather(void *ctx, const char *name, wr_err *err) {
    strcat(ctx, name);
    strcat(ctx, ",");
    return strcmp(name, "stop") == 0 ? wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "enough") : WR_OK;
}

static void folders_list_sorted_until_the_caller_stops(void **st) {
    char got[256] = "";
    wr_err e = WR_ERR_INIT;
    const char *names[] = {"b", "a", "c10", "c9", ".hidden"};
    for (int i = 0; i < 5; i++) wr_file_put(in_dir(names[i]), wr_slice_str(""), &e);
    assert_int_equal(wr_dir_list(dir, gather, got, &e), WR_OK);
    assert_string_equal(got, ".hidden,a,b,c10,c9,");
    wr_file_put(in_dir("stop"), wr_slice_str(""), &e);
    wr_file_put(in_dir("z"), wr_slice_str(""), &e);
    got[0] = 0;
    assert_int_equal(wr_dir_list(dir, gather, got, &e), WR_E_CANCELLED);
    assert_string_equal(got, ".hidden,a,b,c10,c9,stop,");
    assert_int_equal(wr_dir_list(in_dir("nothing"), gather, got, &e), WR_E_NOTFOUND);
}

static void paths_join_with_one_slash(void **st) {
    WR_AUTO char *a = wr_path_join("a", "b"), *b = wr_path_join("a/", "b"), *c = wr_path_join("", "b"),
                 *d = wr_path_join("/", "b");
    assert_string_equal(a, "a/b");
    assert_string_equal(b, "a/b");
    assert_string_equal(c, "b");
    assert_string_equal(d, "/b");
}

static void each_failed_allocation_is_reported(void **st) {
    wr_err e = WR_ERR_INIT;
    for (uint64_t n = 1;; n++) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        char got[256] = "";
        wr_mem_fail_after(n);
        wr_code rc = wr_mkdirs(in_dir("a/b"), &e);
        if (rc == WR_OK) rc = wr_file_put(in_dir("a/b/f"), wr_slice_str("x"), &e);
        if (rc == WR_OK) rc = wr_file_create(in_dir("a/b/g"), wr_slice_str("x"), &e);
        if (rc == WR_OK) rc = wr_file_get(in_dir("a/b/f"), 10, &b, &e);
        if (rc == WR_OK) rc = wr_dir_list(in_dir("a/b"), gather, got, &e);
        bool over = wr_mem_fail_after(0) > 0;
        assert_int_equal(rc, over ? WR_OK : WR_E_NOMEM);
        wr_file_remove(in_dir("a/b/g"), &e);
        if (over) break;
    }
}

int main(void) {
    const struct CMUnitTest t[] = {
        IN_DIR(put_replaces_and_leaves_no_temporary_file),
        IN_DIR(each_fault_of_put_leaves_the_old_file_whole),
        IN_DIR(killed_at_any_point_put_leaves_old_or_new),
        IN_DIR(create_refuses_a_file_that_is_there_and_removes_its_own_failure),
        IN_DIR(get_appends_up_to_its_limit),
        IN_DIR(sizes_and_removal),
        IN_DIR(mkdirs_makes_every_missing_folder),
        IN_DIR(relative_paths_have_a_parent_too),
        IN_DIR(folders_list_sorted_until_the_caller_stops),
        cmocka_unit_test(paths_join_with_one_slash),
        IN_DIR(each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
