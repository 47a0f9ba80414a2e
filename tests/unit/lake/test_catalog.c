#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "iceberg/catalog.h"
#include "lake/ice_helper.h"

static wr_ice_catalog *open_it(void) {
    wr_err err = WR_ERR_INIT;
    wr_ice_catalog *c;
    OK(wr_ice_catalog_open(&(wr_ice_catalog_options){.path = in_folder("catalog.db")}, &c, &err));
    return c;
}

static void sql(wr_ice_catalog *c, const char *text) {
    assert_int_equal(sqlite3_exec(c->db, text, NULL, NULL, NULL), SQLITE_OK);
}

static wr_code collect(void *ctx, const char *ns, const char *name, const char *location, wr_err *err) {
    char *out = ctx;
    sprintf(out + strlen(out), "%s.%s@%s ", ns, name, location);
    return WR_OK;
}
static const char *listing(wr_ice_catalog *c) {
    static char out[2000];
    wr_err err = WR_ERR_INIT;
    out[0] = 0;
    OK(wr_ice_catalog_each(c, collect, out, &err));
    return out;
}

static wr_row_move create(const char *ns, const char *name, const char *at) {
    return (wr_row_move){ns, name, ns, name, NULL, at};
}

static void rows_are_created_moved_and_dropped_together(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_catalog *c = open_it();
    bool unknown;
    wr_row_move make[] = {create("a", "t", "/1"), create("a", "u", "/2"), create("b", "v", "/3")};
    OK(wr_catalog_move(c, make, 3, NULL, &unknown, &err));
    assert_string_equal(listing(c), "a.t@/1 a.u@/2 b.v@/3 ");
    wr_row_move swap[] = {{"a", "t", "a", "u", "/1", "/11"},
                          {"a", "u", "a", "t", "/2", "/2"},
                          {"b", "v", "b", "v", "/3", NULL},
                          create("b", "v", "/4")};
    OK(wr_catalog_move(c, swap, 4, NULL, &unknown, &err));
    assert_string_equal(listing(c), "a.t@/2 a.u@/11 b.v@/4 ");
    wr_row_move ring[] = {
        {"a", "t", "a", "u", "/2", "/2"}, {"a", "u", "b", "v", "/11", "/12"}, {"b", "v", "a", "t", "/4", "/4"}};
    OK(wr_catalog_move(c, ring, 3, NULL, &unknown, &err));
    assert_string_equal(listing(c), "a.t@/4 a.u@/2 b.v@/12 ");
    wr_ice_catalog_close(c);
}

static void one_conflict_undoes_all(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_catalog *c = open_it();
    bool unknown;
    wr_pos pos = {.file = "binlog.000003", .offset = 77}, got;
    wr_ice_progress p = {"pipe", 5, &pos, 6}, p2 = {"pipe", 6, &pos, 7};
    wr_row_move make[] = {create("a", "t", "/1"), create("a", "u", "/2")};
    OK(wr_catalog_move(c, make, 2, &p, &unknown, &err));
    wr_row_move stale[] = {{"a", "t", "a", "t", "/1", "/9"}, {"a", "u", "a", "u", "/0", "/9"}};
    assert_int_equal(wr_catalog_move(c, stale, 2, &p2, &unknown, &err), WR_E_CONFLICT);
    assert_non_null(strstr(err.msg, "a.u"));
    assert_false(unknown);
    wr_row_move taken[] = {{"a", "t", "a", "u", "/1", "/9"}};
    assert_int_equal(wr_catalog_move(c, taken, 1, &p2, &unknown, &err), WR_E_EXISTS);
    wr_row_move twice[] = {create("a", "n", "/5"), create("a", "t", "/5")};
    assert_int_equal(wr_catalog_move(c, twice, 2, &p2, &unknown, &err), WR_E_EXISTS);
    assert_string_equal(listing(c), "a.t@/1 a.u@/2 ");
    uint64_t offset;
    int64_t us;
    OK(wr_ice_catalog_progress(c, "pipe", &offset, &got, &us, &err));
    assert_int_equal(offset, 5), assert_int_equal(us, 6), assert_string_equal(got.file, "binlog.000003"),
        assert_int_equal(got.offset, 77);
    wr_pos_clear(&got);
    OK(wr_catalog_move(c, NULL, 0, &p2, &unknown, &err)); /* progress alone */
    OK(wr_ice_catalog_progress(c, "pipe", &offset, &got, &us, &err));
    assert_int_equal(offset, 6);
    wr_pos_clear(&got);
    OK(wr_ice_catalog_progress(c, "other", &offset, &got, &us, &err));
    assert_int_equal(offset, 0), assert_string_equal(got.file, "");
    wr_ice_catalog_close(c);
}

static void readers_work_beside_a_writer_and_cannot_write(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_catalog *c = NULL, *r = NULL;
    assert_int_equal(wr_ice_catalog_open(&(wr_ice_catalog_options){.path = in_folder("catalog.db"), .read_only = true}, &r, &err), WR_E_NOTFOUND);
    c = open_it();
    OK(wr_ice_catalog_open(&(wr_ice_catalog_options){.path = in_folder("catalog.db"), .read_only = true}, &r, &err));
    bool unknown;
    wr_row_move make[] = {create("a", "t", "/1")};
    OK(wr_catalog_move(c, make, 1, NULL, &unknown, &err));
    assert_string_equal(listing(r), "a.t@/1 ");
    assert_int_equal(wr_catalog_move(r, make, 1, NULL, &unknown, &err), WR_E_INVAL);
    wr_ice_catalog_close(r), wr_ice_catalog_close(c);
}

static void a_catalog_of_java_is_taken_to_v1_and_views_are_passed_over(void **state) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(in_folder("catalog.db"), &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db,
                     "CREATE TABLE iceberg_tables(catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT "
                     "NULL, table_name VARCHAR(255) NOT NULL,"
                     "metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), PRIMARY "
                     "KEY(catalog_name, table_namespace, table_name));"
                     "INSERT INTO iceberg_tables VALUES('weir','j','t','/j1',NULL),('another','j','x','/x',NULL)",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    wr_err err = WR_ERR_INIT;
    wr_ice_catalog *r, *c;
    OK(wr_ice_catalog_open(&(wr_ice_catalog_options){.path = in_folder("catalog.db"), .read_only = true}, &r, &err));
    assert_string_equal(listing(r), "j.t@/j1 ");
    wr_ice_catalog_close(r);
    c = open_it();
    sql(c, "INSERT INTO iceberg_tables VALUES('weir','j','v','/v',NULL,'VIEW')");
    assert_string_equal(listing(c), "j.t@/j1 ");
    wr_ice_table *t;
    assert_int_equal(wr_ice_load(c, "j", "v", &t, &err), WR_E_NOTFOUND);
    bool unknown;
    wr_row_move over[] = {create("j", "v", "/9")};
    assert_int_equal(wr_catalog_move(c, over, 1, NULL, &unknown, &err), WR_E_EXISTS);
    assert_int_equal(wr_ice_load(c, "j", "t", &t, &err), WR_E_DECODE); /* its metadata file is missing */
    assert_non_null(strstr(err.msg, "/j1"));
    wr_ice_catalog_close(c);
}

static void what_is_no_database_says_so(void **state) {
    FILE *f = fopen(in_folder("catalog.db"), "w");
    for (int i = 0; i < 1000; i++) fputs("not a database ", f);
    fclose(f);
    wr_err err = WR_ERR_INIT;
    wr_ice_catalog *c = NULL;
    assert_int_equal(wr_ice_catalog_open(&(wr_ice_catalog_options){.path = in_folder("catalog.db")}, &c, &err), WR_E_CORRUPT);
    assert_int_equal(wr_ice_catalog_open(&(wr_ice_catalog_options){.path = in_folder("catalog.db"), .read_only = true}, &c, &err), WR_E_CORRUPT);
    assert_non_null(strstr(err.msg, "catalog.db"));
    assert_null(c);
}

#define CATALOG_TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)
int main(void) {
    const struct CMUnitTest tests[] = {
        CATALOG_TEST(rows_are_created_moved_and_dropped_together),
        CATALOG_TEST(one_conflict_undoes_all),
        CATALOG_TEST(readers_work_beside_a_writer_and_cannot_write),
        CATALOG_TEST(a_catalog_of_java_is_taken_to_v1_and_views_are_passed_over),
        CATALOG_TEST(what_is_no_database_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
