#include "lab.h"

static void changes_within_and_across_commits_read_back(void **st) {
    for (int version = 2; version <= 3; version++)
        for (int nkey = 0; nkey <= 2; nkey++) {
            lab l = {.version = version};
            dir_remove(st), dir_make(st);
            lab_open(&l);
            wr_table *t = lab_create(&l, 1, "t", nkey);
            lab_put(t, 1, "a"), lab_put(t, 2, "b"), lab_put(t, 3, "c");
            lab_set(t, 2, "b", "B"), lab_del(t, 3, "c");
            lab_commit(&l);
            assert_content(&l, "t", "1:a 2:B");
            lab_set(t, 1, "a", "x"), lab_set(t, 1, "x", "y"), lab_del(t, 2, "B"), lab_put(t, 2, "again"),
                lab_put(t, 4, "d");
            lab_commit(&l);
            assert_content(&l, "t", "1:y 2:again 4:d");
            lab_reopen(&l);
            t = wr_lake_table(l.lake, 1);
            lab_del(t, 1, "y"), lab_set(t, 4, "d", "D");
            lab_commit(&l);
            assert_content(&l, "t", "2:again 4:D");
            assert_int_equal(lab_health(t).anomalies, 0);
            assert_int_equal(lab_journal(&l), 0);
            lab_close(&l);
        }
}

static void of_equal_rows_without_a_key_one_is_deleted(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 0);
    for (int i = 0; i < 3; i++) lab_put(t, 1, "same");
    lab_commit(&l);
    for (int i = 0; i < 2; i++) lab_put(t, 1, "same");
    lab_del(t, 1, "same");
    lab_commit(&l);
    assert_content(&l, "t", "1:same 1:same 1:same 1:same");
    for (int i = 0; i < 5; i++) lab_del(t, 1, "same");
    lab_commit(&l);
    assert_content(&l, "t", "");
    assert_int_equal(lab_health(t).anomalies, 1);
    lab_close(&l);
}

static void an_update_of_a_row_that_is_not_there_counts_and_inserts(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    lab_set(t, 1, "a", "b");
    lab_put(t, 1, "c"); /* and an insert of one that is */
    lab_del(t, 2, "d");
    lab_commit(&l);
    assert_content(&l, "t", "1:c");
    assert_int_equal(lab_health(t).anomalies, 3);
    lab_close(&l);
}

static void a_file_without_live_rows_leaves_the_table(void **st) {
    for (int version = 2; version <= 3; version++) {
        lab l = {.version = version};
        dir_remove(st), dir_make(st);
        lab_open(&l);
        wr_table *t = lab_create(&l, 1, "t", 1);
        lab_fill(t, 0, 30);
        lab_commit(&l);
        for (int i = 0; i < 29; i++) lab_del(t, i, "");
        lab_commit(&l);
        assert_int_equal(lab_health(t).delete_files, 1);
        lab_set(t, 29, "", "last");
        lab_commit(&l);
        assert_content(&l, "t", "29:last");
        wr_table_health h = lab_health(t);
        assert_true(h.data_files == 1 && h.delete_files == 0 && h.deleted_rows == 0);
        lab_reopen(&l);
        t = wr_lake_table(l.lake, 1);
        lab_del(t, 29, "");
        lab_commit(&l);
        assert_content(&l, "t", "");
        assert_int_equal(lab_health(t).data_files, 0);
        lab_close(&l);
    }
}

static void a_row_that_does_not_fit_changes_nothing(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    lab_put(t, 1, "a");
    lab_commit(&l);
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_err e = WR_ERR_INIT;
    lab_row(wr_table_schema(t), 1, "b", &b);
    for (size_t n = 0; n < b.n; n++)
        assert_int_equal(wr_table_apply(t, 0, WR_APPLY_STRICT, WR_OP_UPDATE, wr_buf_view(&b), wr_slice_of(b.p, n), &e),
                         WR_E_CORRUPT);
    lab_put(t, 2, "c");
    lab_commit(&l);
    assert_content(&l, "t", "1:a 2:c");
    lab_close(&l);
}

static void memory_is_written_out_at_the_limits_and_counted_right(void **st) {
    lab l = {.version = 3, .file_bytes = 30000, .pending_bytes = 50000};
    lab_open(&l);
    wr_table *t[4];
    for (uint32_t i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%u", i);
        t[i] = lab_create(&l, i + 1, name, 1);
    }
    lab_commit(&l);
    assert_int_equal(wr_lake_pending_bytes(l.lake), 0);
    for (int64_t i = 0; i < 3000; i++) {
        lab_put(t[i % 3], i, "some text in each of the rows");
        assert_true(wr_lake_pending_bytes(l.lake) <= 80000);
    }
    assert_true(lab_health(t[0]).data_files > 0);
    assert_int_equal(lab_health(t[3]).data_files, 0);
    for (int64_t i = 0; i < 3000; i += 3) lab_del(t[0], i, "");
    lab_commit(&l);
    assert_int_equal(wr_lake_pending_bytes(l.lake), 0);
    assert_content(&l, "t0", "");
    assert_content(&l, "t1", "1000 rows");
    lab_fill(t[0], 0, 10);
    assert_true(wr_lake_pending_bytes(l.lake) > 0);
    assert_ok(wr_table_truncate(t[0], err));
    assert_int_equal(wr_lake_pending_bytes(l.lake), 0);
    lab_close(&l);
}

static void health_needs_no_open_table(void **st) {
    for (int version = 2; version <= 3; version++) {
        lab l = {.version = version, .file_bytes = 3000};
        dir_remove(st), dir_make(st);
        lab_open(&l);
        wr_table *t = lab_create(&l, 1, "t", 1);
        assert_int_equal(lab_health(t).rows, 0);
        lab_fill(t, 0, 500);
        lab_commit(&l);
        for (int i = 0; i < 300; i += 2) lab_set(t, i, "", "new");
        for (int i = 300; i < 350; i++) lab_del(t, i, "");
        lab_commit(&l);
        wr_table_health a = lab_health(t);
        lab_reopen(&l);
        wr_table_health b = lab_health(wr_lake_table(l.lake, 1)); /* nothing has been read yet */
        assert_int_equal(a.rows, 450);
        assert_int_equal(b.rows, a.rows);
        assert_int_equal(b.data_files, a.data_files);
        assert_true(b.data_bytes >= a.data_bytes); /* with deletes */
        assert_int_equal(b.delete_files, a.delete_files);
        assert_int_equal(b.deleted_rows, a.deleted_rows);
        lab_close(&l);
    }
}

/* ------------------------------------------------------------------ index at the next start */
static void missing_and_damaged_index_runs_are_made_anew(void **st) {
    for (int how = 0; how < 3; how++) {
        lab l = {.version = 3};
        dir_remove(st), dir_make(st);
        lab_open(&l);
        wr_table *t = lab_create(&l, 1, "t", 1);
        lab_fill(t, 0, 3000);
        lab_commit(&l);
        lab_close(&l);
        char cmd[400];
        snprintf(
            cmd, sizeof cmd,
            how == 0 ? "rm -r '%s/index'"
            : how == 1
                ? "for f in '%s'/index/*/*.run; do truncate -s -1 $f; done"
                : "for f in '%s'/index/*/*.run; do printf x | dd of=$f bs=1 seek=2000 conv=notrunc 2>/dev/null; done",
            dir);
        assert_int_equal(system(cmd), 0);
        lab_open(&l);
        t = wr_lake_table(l.lake, 1);
        for (int i = 0; i < 2995; i++) lab_del(t, i, "");
        lab_commit(&l);
        assert_int_equal(lab_health(t).anomalies, 0);
        assert_content(&l, "t", "2995:some row 2996:some row 2997:some row 2998:some row 2999:some row");
        lab_close(&l);
    }
}

/* ------------------------------------------------------------------ schema */
static void alter(wr_table *t, int ncols, int nkey, uint32_t version) {
    wr_schema *s = lab_schema(ncols, nkey, version);
    assert_ok(wr_table_alter(t, s, false, err));
    wr_schema_unref(s);
}

static void the_key_can_change_and_go_and_come_back(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    lab_put(t, 1, "a"), lab_put(t, 2, "b");
    lab_commit(&l);
    lab_put(t, 3, "c"); /* not yet in a file */
    alter(t, 2, 0, 2);
    lab_del(t, 1, "a"), lab_put(t, 2, "b");
    lab_del(t, 2, "b");
    lab_commit(&l);
    assert_content(&l, "t", "2:b 3:c");
    alter(t, 3, 0, 3); /* a column more: the whole row is another one */
    lab_set(t, 2, "b", "B");
    lab_commit(&l);
    assert_content(&l, "t", "2:B: 3:c:");
    wr_schema *s = lab_schema(3, 1, 4); /* id was never null, but the lake cannot know before it has looked */
    assert_ok(wr_table_alter(t, s, false, err));
    wr_schema_unref(s);
    lab_set(t, 3, "whatever", "C");
    lab_commit(&l);
    assert_content(&l, "t", "2:B: 3:C:");
    assert_int_equal(lab_health(t).anomalies, 0);
    lab_reopen(&l);
    assert_int_equal(wr_table_schema(wr_lake_table(l.lake, 1))->version, 4);
    lab_close(&l);
}

static void what_an_alter_cannot_do_is_said_before_anything_changes(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    lab_put(t, 1, NULL), lab_put(t, 2, "b");
    lab_commit(&l);
    wr_err e = WR_ERR_INIT;
    wr_schema *s;
    wr_column c[3] = {{.name = (char *)(uintptr_t) "id", .id = 1, .type = {.kind = WR_LONG}, .key_ord = 1},
                      {.name = (char *)(uintptr_t) "name", .id = 2, .type = {.kind = WR_STRING}, .nullable = true},
                      {.name = (char *)(uintptr_t) "number", .id = 3, .type = {.kind = WR_INT}, .nullable = true}};
    assert_ok(wr_schema_new(c, 3, 2, &s, err));
    assert_ok(wr_table_alter(t, s, false, err));
    wr_schema_unref(s);
    lab_commit(&l);
    c[0].key_ord = 0, c[2].key_ord = 1, c[2].nullable = false;
    assert_ok(wr_schema_new(c, 3, 3, &s, err));
    assert_int_equal(wr_table_alter(t, s, false, &e), WR_E_UNSUPPORTED); /* old rows have null there */
    wr_schema_unref(s);
    c[0].key_ord = 1, c[2].key_ord = 0, c[0].type.kind = WR_INT;
    assert_ok(wr_schema_new(c, 3, 3, &s, err));
    assert_int_equal(wr_table_alter(t, s, false, &e), WR_E_UNSUPPORTED); /* long to int */
    wr_schema_unref(s);
    c[0].id = 9, c[0].type.kind = WR_LONG;
    assert_ok(wr_schema_new(c, 2, 2, &s, err));
    assert_int_equal(wr_table_alter(t, s, true, &e),
                     WR_E_UNSUPPORTED); /* a new key column without values for old rows */
    assert_false(wr_lake_dirty(l.lake));
    assert_ok(wr_table_load_begin(t, s, "{}", err)); /* so that the caller can do this instead */
    wr_schema_unref(s);
    lab_commit(&l);
    assert_content(&l, "t", "1:: 2:b:");
    lab_close(&l);
}

static void failed_allocations_while_filling_leave_the_committed_table(void **st) {
    lab l = {.version = 3, .file_bytes = 4000};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    lab_fill(t, 0, 18);
    lab_commit(&l);
    wr_column c[3] = {{.name = (char *)(uintptr_t) "id", .id = 1, .type = {.kind = WR_LONG}, .key_ord = 1},
                      {.name = (char *)(uintptr_t) "name", .id = 2, .type = {.kind = WR_STRING}, .nullable = true},
                      {.name = (char *)(uintptr_t) "more",
                       .id = 3,
                       .type = {.kind = WR_STRING},
                       .nullable = true,
                       .has_initial = true,
                       .initial = {.s = wr_slice_str("new")}}};
    wr_schema *s;
    assert_ok(wr_schema_new(c, 3, 2, &s, err));
    for (uint64_t n = 1, over = 0; !over; n += 1 + n / 20) {
        wr_err e = WR_ERR_INIT;
        wr_mem_fail_after(n);
        wr_code rc = wr_table_alter(t, s, true, &e);
        over = wr_mem_fail_after(0) > 0;
        if (over) assert_int_equal(rc, WR_OK);
        if (rc == WR_OK) break;
        lab_reopen(&l);
        t = wr_lake_table(l.lake, 1);
        assert_content(&l, "t", lab_content(&l, "t"));
        assert_int_equal(lab_health(t).rows, 18);
    }
    lab_put(t, 18, "x");
    lab_commit(&l);
    assert_non_null(strstr(lab_content(&l, "t"), "17:some row:new"));
    assert_non_null(strstr(lab_content(&l, "t"), "18:x: "));
    wr_schema_unref(s);
    lab_close(&l);
}

/* ------------------------------------------------------------------ shards */
static void the_rows_of_one_shard_are_deleted_by_its_name(void **st) {
    lab l = {.version = 2};
    lab_open(&l);
    wr_column c[3] = {{.name = (char *)(uintptr_t) "db", .id = 1, .type = {.kind = WR_STRING}, .key_ord = 1},
                      {.name = (char *)(uintptr_t) "tbl", .id = 2, .type = {.kind = WR_STRING}, .key_ord = 2},
                      {.name = (char *)(uintptr_t) "id", .id = 3, .type = {.kind = WR_LONG}, .key_ord = 3}};
    wr_schema *s;
    wr_table *t;
    assert_ok(wr_schema_new(c, 3, 1, &s, err));
    assert_ok(wr_lake_create(l.lake, 1, "db", "merged", s, &t, err));
    for (int i = 0; i < 12; i++) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        wr_value v[3] = {{.s = wr_slice_str(i % 2 ? "d1" : "d2")}, {.s = wr_slice_str(i % 3 ? "t" : "u")}, {.i64 = i}};
        size_t at = wr_row_begin(&b, 3);
        for (int k = 0; k < 3; k++) wr_row_put(&b, at, k, s->cols[k].type, &v[k]);
        assert_ok(wr_table_apply(t, 0, WR_APPLY_STRICT, WR_OP_INSERT, (wr_slice){0}, wr_buf_view(&b), err));
        if (i == 5) lab_commit(&l);
    }
    const char *vals[2] = {"d1", "t"};
    wr_err e = WR_ERR_INIT;
    const char *three[3] = {"d1", "t", "1"};
    assert_int_equal(wr_table_delete_prefix(t, three, 3, &e), WR_E_INVAL); /* id is no text */
    assert_ok(wr_table_delete_prefix(t, vals, 2, err));
    lab_commit(&l);
    assert_content(&l, "merged", "d1:u:3 d1:u:9 d2:t:10 d2:t:2 d2:t:4 d2:t:8 d2:u:0 d2:u:6");
    wr_schema_unref(s);
    lab_close(&l);
}

int main(void) {
    w_fast_folder();
    const struct CMUnitTest tests[] = {
        IN_DIR(changes_within_and_across_commits_read_back),
        IN_DIR(of_equal_rows_without_a_key_one_is_deleted),
        IN_DIR(an_update_of_a_row_that_is_not_there_counts_and_inserts),
        IN_DIR(a_file_without_live_rows_leaves_the_table),
        IN_DIR(a_row_that_does_not_fit_changes_nothing),
        IN_DIR(memory_is_written_out_at_the_limits_and_counted_right),
        IN_DIR(health_needs_no_open_table),
        IN_DIR(missing_and_damaged_index_runs_are_made_anew),
        IN_DIR(the_key_can_change_and_go_and_come_back),
        IN_DIR(what_an_alter_cannot_do_is_said_before_anything_changes),
        IN_DIR(failed_allocations_while_filling_leave_the_committed_table),
        IN_DIR(the_rows_of_one_shard_are_deleted_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
