#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "mysql/xa_spool.h"
#include "weir/base/mem.h"
#include "weir/io.h"

static char dir[64];
static wr_err err;

static wr_code remove_one(void *ctx, const char *name, wr_err *e) {
    char *p = wr_path_join(dir, name);
    wr_file_remove(p, e);
    wr_free(p);
    return WR_OK;
}
static int make_dir(void **state) {
    strcpy(dir, "/tmp/weir-xa-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}
static int clear_dir(void **state) {
    wr_dir_list(dir, remove_one, NULL, &err);
    return rmdir(dir);
}

static wr_pos at(int file, uint64_t offset) {
    wr_pos p = {.offset = offset};
    snprintf(p.file, sizeof p.file, "binlog.%06d", file);
    return p;
}
static wr_xid xid(const char *g) {
    wr_xid x = {.format = 1, .gtrid_len = (uint8_t)strlen(g)};
    memcpy(x.data, g, x.gtrid_len);
    return x;
}
static wr_xa_spool *open_at(int file, uint64_t offset) {
    wr_xa_spool *s = NULL;
    wr_pos p = at(file, offset);
    assert_int_equal(wr_xa_spool_open(dir, &p, &s, &err), WR_OK);
    return s;
}
static void add_rows(wr_xa_spool *s, int n, size_t bytes) {
    uint8_t *row = wr_calloc(1, bytes);
    for (int i = 0; i < n; i++) {
        memcpy(row + 1, &i, 4);
        wr_change c = {.op = WR_OP_INSERT, .table = 7, .schema_version = 2, .after = wr_slice_of(row, bytes)};
        assert_int_equal(wr_xa_spool_add(s, &c, &err), WR_OK);
    }
    wr_free(row);
}
static void prepare(wr_xa_spool *s, const char *id, int rows, size_t bytes, int file, uint64_t offset) {
    wr_xid x = xid(id);
    wr_pos p = at(file, offset);
    assert_int_equal(wr_xa_spool_begin(s, &x, &err), WR_OK);
    add_rows(s, rows, bytes);
    assert_int_equal(wr_xa_spool_prepare(s, &p, &err), WR_OK);
}
static int seen;
static wr_code see(void *ctx, const wr_change *c, wr_err *e) {
    int i;
    memcpy(&i, c->after.p + 1, 4);
    assert_int_equal(i, seen);
    assert_int_equal(c->table, 7);
    seen++;
    return WR_OK;
}
static wr_code commit(wr_xa_spool *s, const char *id, int file, uint64_t offset) {
    wr_xid x = xid(id);
    wr_pos p = at(file, offset);
    uint64_t rows = 0;
    seen = 0;
    wr_code rc = wr_xa_spool_commit(s, &x, &p, see, NULL, &rows, &err);
    if (rc == WR_OK) assert_int_equal(rows, seen);
    return rc;
}
static bool has(wr_xa_spool *s, const char *id) {
    wr_xid x = xid(id);
    return wr_xa_spool_has(s, &x);
}
static wr_code count_one(void *ctx, const char *name, wr_err *e) { return ++*(int *)ctx, WR_OK; }
static int files(void) {
    int n = 0;
    wr_dir_list(dir, count_one, &n, &err);
    return n;
}

static void a_prepared_transaction_survives_a_restart(void **state) {
    wr_xa_spool *s = open_at(1, 4);
    prepare(s, "a", 3000, 1500, 1, 1000); /* several chunks */
    prepare(s, "b", 0, 0, 1, 1100);       /* touched nothing captured */
    wr_xa_spool_close(s);
    s = open_at(1, 1100);
    assert_true(has(s, "a") && has(s, "b"));
    assert_int_equal(commit(s, "b", 1, 1200), WR_OK);
    assert_int_equal(commit(s, "a", 2, 50), WR_OK);
    assert_int_equal(seen, 3000);
    assert_int_equal(commit(s, "a", 2, 60), WR_E_NOTFOUND);
    wr_xa_spool_close(s);
}

static void a_prepare_behind_the_acknowledged_position_is_thrown_away(void **state) {
    wr_xa_spool *s = open_at(1, 4);
    prepare(s, "a", 1, 10, 1, 1000);
    prepare(s, "b", 1, 10, 2, 10);
    wr_xa_spool_close(s);
    s = open_at(1, 1000);
    assert_true(has(s, "a"));
    assert_false(has(s, "b"));
    assert_int_equal(files(), 1);
    wr_xa_spool_close(s);
}

static void a_commit_that_was_not_acknowledged_is_repeated(void **state) {
    wr_xa_spool *s = open_at(1, 4);
    prepare(s, "a", 5, 10, 1, 1000);
    assert_int_equal(commit(s, "a", 1, 2000), WR_OK);
    wr_xa_spool_close(s);
    s = open_at(1, 1500);
    assert_true(has(s, "a"));
    assert_int_equal(commit(s, "a", 1, 2000), WR_OK);
    assert_int_equal(seen, 5);
    wr_xa_spool_close(s);
    s = open_at(1, 2000); /* now it is */
    assert_false(has(s, "a"));
    assert_int_equal(files(), 0);
    wr_xa_spool_close(s);
}

static void an_id_used_again_keeps_its_lives_apart(void **state) {
    wr_xa_spool *s = open_at(1, 4);
    prepare(s, "a", 1, 10, 1, 1000);
    assert_int_equal(commit(s, "a", 1, 1100), WR_OK);
    prepare(s, "a", 2, 10, 1, 1200);
    assert_int_equal(commit(s, "a", 1, 10300), WR_OK);
    prepare(s, "a", 3, 10, 1, 20000);
    wr_xa_spool_close(s);
    s = open_at(1, 1050); /* the first is prepared, the others are not yet */
    assert_true(has(s, "a"));
    assert_int_equal(commit(s, "a", 1, 1100), WR_OK);
    assert_int_equal(seen, 1);
    prepare(s, "a", 2, 10, 1, 1200);
    wr_xa_spool_close(s);
    s = open_at(1, 1250);
    assert_int_equal(commit(s, "a", 1, 10300), WR_OK);
    assert_int_equal(seen, 2);
    wr_xa_spool_close(s);
}

static void a_rollback_forgets(void **state) {
    wr_xa_spool *s = open_at(1, 4);
    wr_xid x = xid("a"), unknown = xid("zz");
    prepare(s, "a", 5, 10, 1, 1000);
    assert_int_equal(wr_xa_spool_rollback(s, &x, &err), WR_OK);
    assert_int_equal(wr_xa_spool_rollback(s, &unknown, &err), WR_OK);
    assert_false(has(s, "a"));
    assert_int_equal(files(), 0);
    wr_xa_spool_close(s);
}

static void one_phase_gives_the_rows_at_once(void **state) {
    wr_xa_spool *s = open_at(1, 4);
    for (int big = 0; big < 2; big++) {
        wr_xid x = xid("a");
        uint64_t rows = 0;
        assert_int_equal(wr_xa_spool_begin(s, &x, &err), WR_OK);
        add_rows(s, big ? 2000 : 3, 1500);
        seen = 0;
        assert_int_equal(wr_xa_spool_one_phase(s, see, NULL, &rows, &err), WR_OK);
        assert_int_equal(seen, big ? 2000 : 3);
        assert_int_equal(files(), 0);
    }
    wr_xa_spool_close(s);
}

static void old_commits_are_deleted(void **state) {
    wr_xa_spool *s = open_at(1, 4);
    prepare(s, "a", 1, 10, 1, 100);
    prepare(s, "b", 1, 10, 1, 200);
    assert_int_equal(commit(s, "a", 1, 300), WR_OK);
    assert_int_equal(commit(s, "b", 2, 300), WR_OK);
    assert_int_equal(wr_xa_spool_expire(s, 60000000, &err), WR_OK);
    assert_int_equal(files(), 2);
    assert_int_equal(wr_xa_spool_expire(s, 0, &err), WR_OK);
    assert_int_equal(files(), 0);
    wr_xa_spool_close(s);
}

static void an_unfinished_file_goes_at_the_next_start(void **state) {
    wr_xa_spool *s = open_at(1, 4);
    char *p = wr_path_join(dir, "00000000000000000000000000000000.xa.tmp");
    assert_int_equal(wr_file_put(p, wr_slice_str("half"), &err), WR_OK);
    wr_free(p);
    wr_xa_spool_close(s);
    s = open_at(1, 4);
    assert_int_equal(files(), 0);
    wr_xa_spool_close(s);
}

static wr_code first_name(void *ctx, const char *name, wr_err *e) { return snprintf(ctx, 256, "%s", name), WR_OK; }

static void a_changed_byte_or_a_cut_is_seen(void **state) {
    wr_xa_spool *s = open_at(1, 4);
    prepare(s, "a", 20, 50, 1, 1000);
    wr_xa_spool_close(s);
    char name[256] = "";
    wr_dir_list(dir, first_name, name, &err);
    char *path = wr_path_join(dir, name);
    wr_buf good = WR_BUF_INIT;
    assert_int_equal(wr_file_get(path, 1 << 20, &good, &err), WR_OK);
    for (size_t i = 0; i < good.n; i += 3)
        for (int cutting = 0; cutting < 2; cutting++) {
            wr_buf b = WR_BUF_INIT;
            wr_buf_put(&b, good.p, cutting ? i : good.n);
            if (!cutting) b.p[i] ^= 1u << (i % 8);
            assert_int_equal(wr_file_put(path, wr_buf_view(&b), &err), WR_OK);
            wr_buf_free(&b);
            wr_pos p = at(1, 1000);
            s = NULL;
            wr_code rc = wr_xa_spool_open(dir, &p, &s, &err);
            if (rc == WR_OK) rc = commit(s, "a", 1, 1100);
            assert_int_equal(rc, WR_E_CORRUPT);
            wr_xa_spool_close(s);
        }
    wr_buf_free(&good);
    wr_free(path);
}

static wr_code prepare_all(wr_xa_spool *s, int rows, wr_err *e) {
    static uint8_t row[1500];
    wr_xid x = xid("a");
    wr_pos p = at(1, 1000);
    WR_TRY(wr_xa_spool_begin(s, &x, e));
    for (int i = 0; i < rows; i++) {
        memcpy(row + 1, &i, 4);
        wr_change c = {.op = WR_OP_INSERT, .table = 7, .schema_version = 2, .after = wr_slice_of(row, sizeof row)};
        WR_TRY(wr_xa_spool_add(s, &c, e));
    }
    return wr_xa_spool_prepare(s, &p, e);
}

/* Whichever allocation fails: it is told, and what the next start finds is the whole transaction or none of it. */
static void each_failing_allocation_is_told_and_leaves_nothing_half(void **state) {
    enum { ROWS = 2000 };
    for (uint64_t n = 1;; n++) {
        wr_xa_spool *s = open_at(1, 4);
        wr_mem_fail_after(n);
        wr_code rc = prepare_all(s, ROWS, &err);
        bool over = wr_mem_fail_after(0) > 0;
        assert_int_equal(rc, over ? WR_OK : WR_E_NOMEM);
        wr_xa_spool_close(s);
        s = open_at(1, 1000);
        bool there = has(s, "a");
        assert_true(there || !over);
        if (there) {
            wr_mem_fail_after(n);
            rc = commit(s, "a", 1, 1100);
            if (wr_mem_fail_after(0) == 0) {
                assert_int_equal(rc, WR_E_NOMEM);
                wr_xa_spool_close(s);
                s = open_at(1, 1000); /* as sync does: what was not acknowledged comes again */
                rc = commit(s, "a", 1, 1100);
            }
            assert_int_equal(rc, WR_OK);
            assert_int_equal(seen, ROWS);
        }
        wr_xa_spool_close(s);
        wr_dir_list(dir, remove_one, NULL, &err);
        if (over) break;
    }
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, clear_dir)
    const struct CMUnitTest tests[] = {
        T(a_prepared_transaction_survives_a_restart), T(a_prepare_behind_the_acknowledged_position_is_thrown_away),
        T(a_commit_that_was_not_acknowledged_is_repeated), T(an_id_used_again_keeps_its_lives_apart), T(a_rollback_forgets),
        T(one_phase_gives_the_rows_at_once), T(old_commits_are_deleted), T(an_unfinished_file_goes_at_the_next_start),
        T(a_changed_byte_or_a_cut_is_seen), T(each_failing_allocation_is_told_and_leaves_nothing_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
