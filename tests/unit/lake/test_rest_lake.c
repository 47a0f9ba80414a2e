/* What the lake makes of a catalog that moves tables one at a time and takes dropped ones out after the commit. */
#include "lab.h"
#include "lake/mini_catalog.h"

static char uri[64];
static wr_rest_options rest = {.uri = uri};

static int set_up(void **st) {
    mini_start();
    snprintf(uri, sizeof uri, "http://127.0.0.1:%d", mini.srv.port);
    lab_rest = &rest;
    return dir_make(st);
}
static int tear_down(void **st) {
    mini_stop();
    return dir_remove(st);
}
#define REST_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static void a_dropped_table_makes_room_for_one_of_its_name_in_the_same_commit(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *a = lab_create(&l, 1, "a", 1);
    lab_put(a, 1, "old");
    lab_commit(&l);
    assert_ok(wr_table_drop(a, WR_DROP_MIRROR, err));
    lab_put(lab_create(&l, 2, "a", 1), 2, "new");
    lab_commit(&l);
    assert_content(&l, "a", "2:new");
    assert_string_equal(lab_tables(), "a");
    lab_reopen(&l);
    assert_null(wr_lake_table(l.lake, 1));
    assert_content(&l, "a", "2:new");
    lab_close(&l);
}

static void one_that_was_renamed_before_it_is_dropped_leaves_both_names(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *b = lab_create(&l, 1, "b", 1);
    lab_commit(&l);
    assert_ok(wr_table_rename(b, "db", "c", err));
    assert_ok(wr_table_drop(b, WR_DROP_MIRROR, err));
    lab_create(&l, 2, "b", 1), lab_create(&l, 3, "c", 1);
    lab_commit(&l);
    assert_string_equal(lab_tables(), "b c");
    lab_close(&l);
}

static void one_that_came_and_went_between_two_commits_leaves_its_name(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    assert_ok(wr_table_drop(lab_create(&l, 1, "a", 1), WR_DROP_MIRROR, err));
    lab_create(&l, 2, "a", 1);
    lab_commit(&l);
    assert_string_equal(lab_tables(), "a");
    assert_int_equal(mini_count("DELETE"), 0);
    lab_close(&l);
}

static void one_that_the_catalog_keeps_leaves_at_the_next_start(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *a = lab_create(&l, 1, "a", 1);
    lab_commit(&l);
    SCRIPT({"DELETE", "/tables/a", MINI_REFUSE, 403, NULL});
    assert_ok(wr_table_drop(a, WR_DROP_MIRROR, err));
    lab_commit(&l);
    assert_string_equal(lab_tables(), "a");
    lab_reopen(&l);
    assert_string_equal(lab_tables(), "");
    lab_close(&l);
}

static void one_that_an_earlier_process_makes_late_is_taken_in_by_opening_anew(void **st) {
    lab l = {.version = 3}, late = {.version = 3};
    wr_table *t;
    wr_err e = WR_ERR_INIT;
    lab_open(&late), lab_open(&l);
    lab_put(lab_create(&late, 1, "a", 1), 1, "late");
    lab_commit(&late);
    wr_schema *s = lab_schema(2, 1, 1);
    assert_int_equal(wr_lake_create(l.lake, 1, "db", "a", s, &t, &e), WR_E_CONFLICT);
    assert_int_equal(e.retry, WR_RETRY_AFTER_RELOAD);
    lab_close(&late);
    lab_reopen(&l);
    assert_ok(wr_lake_create(l.lake, 1, "db", "a", s, &t, err) == WR_E_EXISTS ? WR_OK : WR_E_INVAL); /* known now */
    assert_content(&l, "a", "1:late");
    wr_schema_unref(s);
    lab_close(&l);
}

int main(void) {
    w_fast_folder();
    const struct CMUnitTest tests[] = {
        REST_TEST(a_dropped_table_makes_room_for_one_of_its_name_in_the_same_commit),
        REST_TEST(one_that_was_renamed_before_it_is_dropped_leaves_both_names),
        REST_TEST(one_that_came_and_went_between_two_commits_leaves_its_name),
        REST_TEST(one_that_the_catalog_keeps_leaves_at_the_next_start),
        REST_TEST(one_that_an_earlier_process_makes_late_is_taken_in_by_opening_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
