#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "weir/base/limit.h"

static void put(const char *root, const char *dir, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s%s", root, dir);
    mkdir(path, 0700);
    if (!text) return;
    snprintf(path, sizeof path, "%s%s/memory.max", root, dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void the_least_limit_above_a_group_counts(void **state) {
    char root[] = "/tmp/weir-limit-XXXXXX", cmd[64];
    assert_non_null(mkdtemp(root));
    put(root, "/a", "1000000\n");
    put(root, "/a/b", "max\n");
    put(root, "/a/b/c", "3000000\n");
    put(root, "/d", NULL);
    assert_int_equal(wr_memory_limit_of(root, "/a/b/c", "memory.max"), 1000000);
    assert_int_equal(wr_memory_limit_of(root, "/a/b", "memory.max"), 1000000);
    put(root, "/a/b/c", "20000\n");
    assert_int_equal(wr_memory_limit_of(root, "/a/b/c", "memory.max"), 20000);
    assert_int_equal(wr_memory_limit_of(root, "/d", "memory.max"), 0);
    assert_int_equal(wr_memory_limit_of(root, "/", "memory.max"), 0);
    assert_int_equal(wr_memory_limit_of(root, "/nobody", "memory.max"), 0);
    put(root, "", "500\n");
    assert_int_equal(wr_memory_limit_of(root, "/", "memory.max"), 500);
    assert_int_equal(wr_memory_limit_of(root, "/a/b/c", "memory.max"), 500);
    snprintf(cmd, sizeof cmd, "rm -rf %s", root);
    assert_int_equal(system(cmd), 0);
}

static void this_process_has_one(void **state) {
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), limit = wr_memory_limit();
    assert_true(limit > 0 && limit <= machine);
}

int main(void) {
    const struct CMUnitTest t[] = {cmocka_unit_test(the_least_limit_above_a_group_counts), cmocka_unit_test(this_process_has_one)};
    return cmocka_run_group_tests(t, NULL, NULL);
}
