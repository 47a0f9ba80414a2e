#include "lab.h"

#include <pthread.h>

static wr_load_writer *writer(wr_table *t) {
    wr_load_writer *w = NULL;
    assert_ok(wr_load_writer_new(t, &w, err));
    return w;
}
static void put(wr_load_writer *w, wr_table *t, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        lab_row(wr_table_schema(t), i, "loaded", &b);
        assert_ok(wr_load_writer_append(w, wr_buf_view(&b), err));
    }
}
static void load(wr_table *t, int64_t from, int64_t to) {
    wr_load_writer *w = writer(t);
    put(w, t, from, to);
    assert_ok(wr_load_writer_hand_over(w, err));
    wr_load_writer_free(w);
}
static void begin(wr_table *t, const char *info) {
    wr_schema *s = wr_schema_ref(wr_table_schema(t));
    assert_ok(wr_table_load_begin(t, s, info, err));
    wr_schema_unref(s);
}

static void readers_see_the_old_rows_until_the_load_is_published(void **st) {
    for (int version = 2; version <= 3; version++) {
        lab l = {.version = version};
        dir_remove(st), dir_make(st);
        lab_open(&l);
        wr_table *t = lab_create(&l, 1, "t", 1);
        lab_put(t, 100, "old");
        lab_commit(&l);
        begin(t, "{\"n\":0}");
        lab_commit(&l);
        load(t, 1, 3);
        assert_ok(wr_table_load_commit(t, "{\"n\":2}", err));
        assert_content(&l, "t", "100:old");
        lab_set(t, 2, "", "changed meanwhile"), lab_del(t, 77, "");
        lab_commit(&l);
        assert_content(&l, "t", "100:old");
        assert_ok(wr_table_publish(t, err));
        assert_content(&l, "t", "100:old");
        lab_commit(&l);
        assert_content(&l, "t", "1:loaded 2:changed meanwhile");
        assert_null(wr_table_load_info(t));
        lab_reopen(&l);
        t = wr_lake_table(l.lake, 1);
        assert_null(wr_table_load_info(t));
        lab_del(t, 1, "");
        lab_commit(&l);
        assert_content(&l, "t", "2:changed meanwhile");
        lab_close(&l);
    }
}

static void a_load_goes_on_after_a_restart_where_its_info_says(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    begin(t, "{\"n\":0}");
    lab_commit(&l);
    load(t, 0, 5);
    assert_ok(wr_table_load_commit(t, "{\"n\":5}", err));
    load(t, 5, 9); /* handed over, not committed */
    wr_load_writer *w = writer(t);
    put(w, t, 9, 12);
    assert_ok(wr_load_writer_seal(w, err)); /* not even that */
    wr_load_writer_free(w);
    lab_reopen(&l);
    t = wr_lake_table(l.lake, 1);
    assert_string_equal(wr_table_load_info(t), "{\"n\":5}");
    w = writer(t); /* the first thing that happens to the table */
    put(w, t, 5, 7);
    assert_ok(wr_load_writer_hand_over(w, err));
    wr_load_writer_free(w);
    assert_ok(wr_table_load_commit(t, "{\"n\":7}", err));
    assert_int_equal(lab_health(t).rows, 7);
    assert_ok(wr_table_publish(t, err));
    lab_commit(&l);
    assert_content(&l, "t", "0:loaded 1:loaded 2:loaded 3:loaded 4:loaded 5:loaded 6:loaded");
    lab_reopen(&l);
    assert_int_equal(lab_journal(&l), 0);
    lab_close(&l);
}

static void a_load_commit_can_be_the_first_thing_after_a_restart(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    begin(t, "a");
    lab_commit(&l);
    load(t, 0, 2);
    assert_ok(wr_table_load_commit(t, "b", err));
    lab_reopen(&l);
    t = wr_lake_table(l.lake, 1);
    assert_ok(wr_table_load_commit(t, "c", err));
    lab_reopen(&l);
    t = wr_lake_table(l.lake, 1);
    assert_string_equal(wr_table_load_info(t), "c");
    assert_int_equal(lab_health(t).rows, 2);
    lab_close(&l);
}

static void a_failed_seal_or_commit_loses_no_rows(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    begin(t, "{}");
    lab_commit(&l);
    wr_load_writer *w = writer(t);
    put(w, t, 0, 3);
    wr_err e = WR_ERR_INIT;
    const char *points[] = {"lake.before_data_file:1:fail", "parquet_write:1:fail", "io.sync:1:fail",
                            "state.commit:1:fail"};
    for (int i = 0; i < 4; i++) {
        wr_fault_set(points[i]);
        assert_int_not_equal(wr_load_writer_seal(w, &e), WR_OK);
    }
    wr_fault_set(NULL);
    for (uint64_t n = 1;; n++) {
        wr_mem_fail_after(n);
        wr_code rc = wr_load_writer_hand_over(w, &e);
        wr_mem_fail_after(0);
        if (rc == WR_OK) break;
    }
    wr_load_writer_free(w);
    const char *commits[] = {"ice.announced:1:fail", "ice.write:2:fail", "ice.synced:1:fail", "ice.sql:1:fail"};
    for (int i = 0; i < 4; i++) {
        wr_fault_set(commits[i]);
        assert_int_not_equal(wr_table_load_commit(t, "x", &e), WR_OK);
    }
    wr_fault_set(NULL);
    assert_ok(wr_table_load_commit(t, "y", err));
    assert_ok(wr_table_publish(t, err));
    lab_commit(&l);
    assert_content(&l, "t", "0:loaded 1:loaded 2:loaded");
    lab_close(&l);
}

static void handed_over_rows_survive_any_failed_allocation_of_the_commit(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    begin(t, "{}");
    lab_commit(&l);
    int64_t rows = 0;
    for (uint64_t n = 1; n < 3000; n += 1 + n / 8) {
        for (int i = 0; i < 3; i++) load(t, rows, rows + 1), rows++;
        wr_err e = WR_ERR_INIT;
        wr_mem_fail_after(n);
        wr_code rc = wr_table_load_commit(t, "{}", &e);
        bool over = wr_mem_fail_after(0) > 0;
        if (rc != WR_OK) assert_ok(wr_table_load_commit(t, "{}", err));
        assert_int_equal(lab_health(t).rows, rows);
        if (over) break;
    }
    lab_reopen(&l);
    t = wr_lake_table(l.lake, 1);
    assert_int_equal(lab_health(t).rows, rows);
    lab_close(&l);
}

static void a_load_can_begin_again_at_any_time(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    lab_put(t, 100, "main");
    lab_commit(&l);
    for (int at = 0; at < 5; at++) {
        begin(t, "first");
        if (at > 0) lab_commit(&l);
        if (at > 1) load(t, 0, 4);
        if (at > 2) assert_ok(wr_table_load_commit(t, "some", err));
        if (at > 3) {
            lab_set(t, 1, "", "replayed"), lab_put(t, 50, "new");
            assert_ok(wr_table_publish(t, err));
        }
        begin(t, "second");
        assert_string_equal(wr_table_load_info(t), "second");
        lab_commit(&l);
        assert_content(&l, "t", "100:main");
        assert_int_equal(lab_health(t).rows, 0);
    }
    load(t, 7, 8);
    assert_ok(wr_table_load_commit(t, "x", err));
    begin(t, "waiting"); /* without an offset in between: as a load that meets a schema of the future does */
    assert_ok(wr_table_load_commit(t, "waiting", err));
    lab_reopen(&l);
    t = wr_lake_table(l.lake, 1);
    assert_string_equal(wr_table_load_info(t), "waiting");
    assert_int_equal(lab_health(t).rows, 0);
    load(t, 8, 9);
    assert_ok(wr_table_load_commit(t, "x", err));
    assert_ok(wr_table_publish(t, err));
    lab_commit(&l);
    assert_content(&l, "t", "8:loaded");
    lab_close(&l);
}

static void a_load_takes_a_schema_of_its_own_and_main_gets_it_when_published(void **st) {
    for (int late = 0; late < 2; late++) { /* the last schema change in the very commit that publishes */
        lab l = {.version = 3};
        dir_remove(st), dir_make(st);
        lab_open(&l);
        wr_table *t = lab_create(&l, 1, "t", 1);
        lab_put(t, 1, "main");
        lab_commit(&l);
        wr_schema *s3 = lab_schema(3, 2, 7), *s4 = lab_schema(4, 2, 9);
        assert_ok(wr_table_load_begin(t, s3, "{}", err));
        lab_commit(&l);
        assert_content(&l, "t", "1:main");
        lab_reopen(&l);
        t = wr_lake_table(l.lake, 1);
        assert_int_equal(wr_table_schema(t)->version, 7);
        assert_int_equal(wr_table_schema(t)->nkey, 2);
        load(t, 5, 6);
        assert_ok(wr_table_load_commit(t, "{}", err));
        assert_ok(wr_table_alter(t, s4, false, err));
        if (!late) {
            lab_commit(&l);
            lab_reopen(&l);
            t = wr_lake_table(l.lake, 1);
            assert_int_equal(wr_table_schema(t)->version, 9);
            assert_content(&l, "t", "1:main");
        }
        assert_ok(wr_table_publish(t, err));
        lab_commit(&l);
        assert_content(&l, "t", "5:loaded::");
        lab_reopen(&l);
        assert_int_equal(wr_table_schema(wr_lake_table(l.lake, 1))->version, 9);
        wr_schema_unref(s3), wr_schema_unref(s4);
        lab_close(&l);
    }
}

static void what_makes_no_sense_is_refused(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    wr_err e = WR_ERR_INIT;
    wr_load_writer *w;
    assert_int_equal(wr_load_writer_new(t, &w, &e), WR_E_INVAL);
    assert_int_equal(wr_table_publish(t, &e), WR_E_INVAL);
    assert_int_equal(wr_table_load_commit(t, "{}", &e), WR_E_INVAL);
    assert_int_equal(wr_table_load_set_info(t, "{}", &e), WR_E_INVAL);
    begin(t, "{}");
    assert_int_equal(wr_table_load_commit(t, "{}", &e),
                     WR_E_INVAL); /* not in the catalog yet: its offset would be missing */
    lab_commit(&l);
    assert_ok(wr_table_publish(t, err));
    lab_commit(&l);
    lab_put(t, 1, "a");
    wr_schema *s = wr_schema_ref(wr_table_schema(t));
    assert_int_equal(wr_table_load_begin(t, s, "{}", &e), WR_E_UNSUPPORTED); /* the row would be lost to main */
    wr_schema_unref(s);
    lab_commit(&l);
    assert_content(&l, "t", "1:a");
    lab_close(&l);
}

typedef struct worker {
    wr_table *t;
    int64_t from;
    pthread_t th;
} worker;
static void *work(void *arg) {
    worker *w = arg;
    for (int i = 0; i < 6; i++) {
        load(w->t, w->from + i * 10, w->from + i * 10 + 10);
        if (i % 2) assert_ok(wr_table_load_commit(w->t, "{}", err));
    }
    return NULL;
}

static void writers_work_beside_each_other(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t[2] = {lab_create(&l, 1, "t", 1), lab_create(&l, 2, "u", 1)};
    for (int i = 0; i < 2; i++) begin(t[i], "{}");
    lab_commit(&l);
    lab_reopen(&l);
    worker w[6];
    for (int i = 0; i < 6; i++) {
        w[i] = (worker){.t = wr_lake_table(l.lake, (uint32_t)i % 2 + 1), .from = i * 1000};
        pthread_create(&w[i].th, NULL, work, &w[i]);
    }
    for (int i = 0; i < 6; i++) pthread_join(w[i].th, NULL);
    for (uint32_t i = 1; i <= 2; i++) assert_ok(wr_table_publish(wr_lake_table(l.lake, i), err));
    lab_commit(&l);
    assert_content(&l, "t", "180 rows");
    assert_content(&l, "u", "180 rows");
    wr_table *u = wr_lake_table(l.lake, 2);
    for (int i = 1000; i < 1060; i++) lab_del(u, i, "");
    lab_commit(&l);
    assert_content(&l, "u", "120 rows");
    lab_close(&l);
}

int main(void) {
    w_fast_folder();
    const struct CMUnitTest tests[] = {
        IN_DIR(readers_see_the_old_rows_until_the_load_is_published),
        IN_DIR(a_load_goes_on_after_a_restart_where_its_info_says),
        IN_DIR(a_load_commit_can_be_the_first_thing_after_a_restart),
        IN_DIR(a_failed_seal_or_commit_loses_no_rows),
        IN_DIR(handed_over_rows_survive_any_failed_allocation_of_the_commit),
        IN_DIR(a_load_can_begin_again_at_any_time),
        IN_DIR(a_load_takes_a_schema_of_its_own_and_main_gets_it_when_published),
        IN_DIR(what_makes_no_sense_is_refused),
        IN_DIR(writers_work_beside_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
