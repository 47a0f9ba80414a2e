#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "weir/base/mem.h"
#include "samples.h"

static void changes_round_trip_and_no_truncation_does(void **st) {
    for (uint8_t op = WR_OP_INSERT; op <= WR_OP_DELETE; op++) {
        wr_err e = WR_ERR_INIT;
        wr_change c = {.op = op, .table = 4000000000u, .schema_version = 300}, d;
        if (op != WR_OP_INSERT) c.before = wr_slice_str("before");
        if (op != WR_OP_DELETE) c.after = wr_slice_str("after the change");
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        wr_change_encode(&b, &c);
        wr_rd r = wr_rd_of(b.p, b.n);
        assert_int_equal(wr_change_decode(&r, &d, &e), WR_OK);
        assert_int_equal(wr_rd_left(&r), 0);
        assert_true(d.op == op && d.table == c.table && d.schema_version == 300);
        assert_true(wr_slice_eq(c.before, d.before) && wr_slice_eq(c.after, d.after));
        for (size_t n = 0; n < b.n; n++) {
            r = wr_rd_of(b.p, n);
            assert_int_equal(wr_change_decode(&r, &d, &e), WR_E_CORRUPT);
        }
    }
}

static void changes_that_cannot_be_are_corrupt(void **st) {
    static const struct {
        const char *bytes;
        size_t n;
    } bad[] = {
        {"\x00\x01\x01\x01z", 5}, /* operation 0 */
        {"\x04\x01\x01\x01z", 5}, /* operation 4 */
        {"\x01\x01\x01\x00", 4},  /* empty row */
        {"\x03\x01\x01\x00", 4},
        {"\x02\x01\x01\x01z\x00", 6},
        {"\x01\x80\x80\x80\x80\x10\x01\x01z", 8}, /* table 2^32 */
        {"\x01\x01\x80\x80\x80\x80\x10\x01z", 9}, /* version 2^32 */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wr_err e = WR_ERR_INIT;
        wr_change c = {.op = 77};
        wr_rd r = wr_rd_of(bad[i].bytes, bad[i].n);
        assert_int_equal(wr_change_decode(&r, &c, &e), WR_E_CORRUPT);
        assert_int_equal(c.op, 77);
    }
}

static wr_ddl sample_ddl(uint8_t kind) {
    wr_ddl d = {
        .kind = kind, .rows = (uint8_t)(kind % 3), .table = 70000, .db = wr_strdup("shop"), .name = wr_strdup("größe")};
    if (kind == WR_DDL_RENAME) d.old_db = wr_strdup("old"), d.old_name = wr_strdup("");
    if (kind != WR_DDL_DROP && kind != WR_DDL_HIDDEN) d.schema = sample_schema();
    if (kind != WR_DDL_DROP) d.def = wr_strdup("{\"charset\":\"utf8mb4\"}");
    if (kind % 2) d.why = wr_strdup("alter table t add c int");
    return d;
}

static bool same(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static void schema_events_round_trip_and_no_truncation_does(void **st) {
    for (uint8_t kind = WR_DDL_CREATE; kind <= WR_DDL_HIDDEN; kind++) {
        wr_err e = WR_ERR_INIT;
        WR_CLEANUP(wr_ddl_clear) wr_ddl a = sample_ddl(kind);
        WR_CLEANUP(wr_ddl_clear) wr_ddl b = {0};
        WR_AUTO_BUF wr_buf buf = WR_BUF_INIT;
        assert_int_equal(wr_ddl_encode(&buf, &a, &e), WR_OK);
        wr_rd r = wr_rd_of(buf.p, buf.n);
        assert_int_equal(wr_ddl_decode(&r, &b, &e), WR_OK);
        assert_int_equal(wr_rd_left(&r), 0);
        assert_true(a.kind == b.kind && a.rows == b.rows && a.table == b.table);
        assert_true(same(a.db, b.db) && same(a.name, b.name) && same(a.old_db, b.old_db) &&
                    same(a.old_name, b.old_name));
        assert_true(same(a.def, b.def) && same(a.why, b.why));
        assert_true(a.schema ? schema_eq(a.schema, b.schema) : b.schema == NULL);
        for (size_t n = 0; n < buf.n; n++) {
            wr_ddl c;
            WR_AUTO uint8_t *exact = wr_malloc(n);
            memcpy(exact, buf.p, n);
            r = wr_rd_of(exact, n);
            assert_int_equal(wr_ddl_decode(&r, &c, &e), WR_E_CORRUPT);
        }
    }
}

static void schema_events_without_what_readers_count_on_are_refused(void **st) {
#define WITH(k, change)                                                                                                \
    do {                                                                                                               \
        wr_ddl full = sample_ddl(k), d = full;                                                                         \
        wr_err e = WR_ERR_INIT;                                                                                        \
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;                                                                            \
        change;                                                                                                        \
        assert_int_equal(wr_ddl_encode(&b, &d, &e), WR_E_INVAL);                                                       \
        assert_int_equal(b.n, 0);                                                                                      \
        wr_ddl_clear(&full);                                                                                           \
    } while (0)
    WITH(WR_DDL_CREATE, d.kind = 0);
    WITH(WR_DDL_CREATE, d.kind = WR_DDL_HIDDEN + 1);
    WITH(WR_DDL_CREATE, d.rows = WR_ROWS_RETYPED + 1);
    WITH(WR_DDL_CREATE, d.schema = NULL);
    WITH(WR_DDL_CREATE, d.name = NULL);
    WITH(WR_DDL_CREATE, d.db = NULL);
    WITH(WR_DDL_CREATE, d.old_db = d.db; d.old_name = d.name);
    WITH(WR_DDL_RENAME, d.old_name = NULL);
    WITH(WR_DDL_RENAME, d.old_name = NULL; d.old_db = NULL);
    WITH(WR_DDL_TRUNCATE, d.kind = WR_DDL_DROP);
    WITH(WR_DDL_DROP, d.kind = WR_DDL_ALTER);
}

static void schema_events_with_foreign_bytes_are_corrupt(void **st) {
    WR_CLEANUP(wr_ddl_clear) wr_ddl d = sample_ddl(WR_DDL_ALTER);
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_ddl_encode(&b, &d, &e), WR_OK);
    for (size_t i = 0; i < b.n; i++)
        for (int bit = 0; bit < 8; bit++) {
            wr_ddl c;
            b.p[i] ^= (uint8_t)(1 << bit);
            wr_rd r = wr_rd_of(b.p, b.n);
            wr_code rc = wr_ddl_decode(&r, &c, &e); /* must not crash or leak; some flips are other valid events */
            if (rc == WR_OK)
                wr_ddl_clear(&c);
            else
                assert_int_equal(rc, WR_E_CORRUPT);
            if (i == 0 || (i == 3 && bit > 3)) assert_int_equal(rc, WR_E_CORRUPT);
            b.p[i] ^= (uint8_t)(1 << bit);
        }
    const char nul[] = "\x01\x04\x00\x00\x01\x03"
                       "a\0b"
                       "\x01"
                       "t";
    wr_ddl c;
    wr_rd r = wr_rd_of(nul, sizeof nul - 1);
    assert_int_equal(wr_ddl_decode(&r, &c, &e), WR_E_CORRUPT);
}

static void each_failed_allocation_is_reported_and_leaks_nothing(void **st) {
    WR_CLEANUP(wr_ddl_clear) wr_ddl d = sample_ddl(WR_DDL_RENAME);
    wr_err e = WR_ERR_INIT;
    for (uint64_t n = 1;; n++) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        wr_mem_fail_after(n);
        wr_code rc = wr_ddl_encode(&b, &d, &e);
        bool over = wr_mem_fail_after(0) > 0;
        assert_int_equal(rc, over ? WR_OK : WR_E_NOMEM);
        if (over) break;
    }
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    assert_int_equal(wr_ddl_encode(&b, &d, &e), WR_OK);
    for (uint64_t n = 1;; n++) {
        wr_ddl c;
        wr_rd r = wr_rd_of(b.p, b.n);
        wr_mem_fail_after(n);
        wr_code rc = wr_ddl_decode(&r, &c, &e);
        bool over = wr_mem_fail_after(0) > 0;
        assert_int_equal(rc, over ? WR_OK : WR_E_NOMEM);
        if (rc == WR_OK) wr_ddl_clear(&c);
        if (over) break;
    }
    wr_ddl_clear(NULL);
}

int main(void) {
    const struct CMUnitTest t[] = {
        cmocka_unit_test(changes_round_trip_and_no_truncation_does),
        cmocka_unit_test(changes_that_cannot_be_are_corrupt),
        cmocka_unit_test(schema_events_round_trip_and_no_truncation_does),
        cmocka_unit_test(schema_events_without_what_readers_count_on_are_refused),
        cmocka_unit_test(schema_events_with_foreign_bytes_are_corrupt),
        cmocka_unit_test(each_failed_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
