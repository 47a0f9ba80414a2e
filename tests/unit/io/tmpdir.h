/* A folder of its own for each test, removed with everything in it. */
#ifndef TESTS_IO_TMPDIR_H
#define TESTS_IO_TMPDIR_H
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[128];

static int rm_one(const char *p, const struct stat *sb, int flag, struct FTW *f) {
    (void)sb, (void)flag, (void)f;
    return remove(p);
}
static int dir_make(void **st) {
    (void)st;
    const char *t = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.90s/weir-test-XXXXXX", t ? t : "/tmp");
    return mkdtemp(dir) ? 0 : -1;
}
static int dir_remove(void **st) {
    (void)st;
    return nftw(dir, rm_one, 16, FTW_DEPTH | FTW_PHYS);
}
/* One of eight static buffers, in turn. */
static const char *in_dir(const char *name) {
    static char b[8][512];
    static int i;
    i = (i + 1) % 8;
    snprintf(b[i], sizeof b[i], "%s/%s", dir, name);
    return b[i];
}
#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, dir_make, dir_remove)
#endif
