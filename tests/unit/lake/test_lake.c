#include "lab.h"

#include <roaring/roaring.h>
#include <sys/wait.h>
#include "iceberg/metadata.h"

static void renam(wr_table *t, const char *name) { assert_ok(wr_table_rename(t, "db", name, err)); }

/* ------------------------------------------------------------------ names */
static void names_are_swapped_and_passed_on_within_one_commit(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *a = lab_create(&l, 1, "a", 1), *b = lab_create(&l, 2, "b", 1), *c = lab_create(&l, 3, "c", 1);
    lab_put(a, 1, "A"), lab_put(b, 2, "B"), lab_put(c, 3, "C");
    lab_commit(&l);
    renam(a, "b"), renam(b, "a");
    lab_put(a, 11, "AA");
    lab_commit(&l);
    assert_content(&l, "a", "2:B");
    assert_content(&l, "b", "11:AA 1:A");
    renam(a, "x"), renam(b, "b"), renam(c, "a"), renam(a, "c"); /* round and round, over a name in between */
    lab_commit(&l);
    assert_content(&l, "a", "3:C");
    assert_content(&l, "b", "2:B");
    assert_content(&l, "c", "11:AA 1:A");
    assert_string_equal(lab_tables(), "a b c");
    lab_reopen(&l);
    assert_string_equal(wr_table_name(wr_lake_table(l.lake, 1)), "c");
    lab_close(&l);
}

static void a_new_table_takes_a_name_that_is_left_in_the_same_commit(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *a = lab_create(&l, 1, "a", 1);
    lab_put(a, 1, "old");
    lab_commit(&l);
    renam(a, "b");
    wr_table *n = lab_create(&l, 2, "a", 1);
    lab_put(n, 2, "new");
    lab_commit(&l);
    assert_content(&l, "a", "2:new");
    assert_content(&l, "b", "1:old");
    assert_ok(wr_table_drop(n, WR_DROP_MIRROR, err)); /* and one that a dropped table leaves, which another takes */
    renam(a, "a");
    wr_table *m = lab_create(&l, 3, "b", 1);
    lab_put(m, 3, "third");
    lab_commit(&l);
    assert_content(&l, "a", "1:old");
    assert_content(&l, "b", "3:third");
    renam(m, "c"); /* renamed, then dropped: its old name is free too */
    assert_ok(wr_table_drop(m, WR_DROP_MIRROR, err));
    lab_create(&l, 4, "b", 1), lab_create(&l, 5, "c", 1);
    lab_commit(&l);
    assert_string_equal(lab_tables(), "a b c");
    assert_content(&l, "b", "");
    lab_close(&l);
}

static void a_table_that_comes_and_goes_between_commits_leaves_nothing(void **st) {
    lab l = {.version = 3, .file_bytes = 2000};
    lab_open(&l);
    wr_table *a = lab_create(&l, 1, "a", 1);
    lab_fill(a, 0, 200);
    assert_ok(wr_table_drop(a, WR_DROP_MIRROR, err));
    assert_int_equal(wr_lake_pending_bytes(l.lake), 0);
    lab_commit(&l);
    assert_string_equal(lab_tables(), "");
    assert_true(lab_journal(&l) > 0);
    lab_reopen(&l);
    assert_int_equal(lab_journal(&l), 0);
    lab_close(&l);
}

static void a_kept_table_stays_readable_and_makes_room_for_its_name(void **st) {
    for (int apart = 0; apart < 2; apart++) { /* in one commit, or one after the other */
        lab l = {.version = 3};
        dir_remove(st), dir_make(st);
        lab_open(&l);
        wr_table *a = lab_create(&l, 1, "a", 1);
        lab_put(a, 1, "first");
        lab_commit(&l);
        for (uint32_t id = 2; id < 5; id++) { /* quicker than the seconds in the names */
            lab_put(a, 10, "last words");
            assert_ok(wr_table_drop(a, WR_DROP_KEEP, err));
            if (apart) {
                lab_commit(&l);
                assert_content(&l, "a", id == 2 ? "10:last words 1:first" : "10:last words");
                lab_reopen(&l);
                assert_null(wr_lake_table(l.lake, id - 1));
            }
            a = lab_create(&l, id, "a", 1);
            lab_commit(&l);
            assert_content(&l, "a", "");
        }
        char names[1024];
        snprintf(names, sizeof names, "%s", lab_tables());
        int n = 0, kept = 0;
        for (char *t = strtok(names, " "); t; t = strtok(NULL, " "), n++)
            if (strncmp(t, "a__dropped_2", 12) == 0) {
                const char *c = lab_content(&l, t);
                kept += !strcmp(c, "10:last words") || !strcmp(c, "10:last words 1:first");
            }
        assert_int_equal(n, 4);
        assert_int_equal(kept, 3);
        wr_table *b = lab_create(&l, 9, "b", 1);
        assert_ok(wr_table_drop(a, WR_DROP_KEEP, err));
        renam(b, "a"); /* a rename gets the name as well */
        lab_commit(&l);
        assert_int_equal(strncmp(lab_tables(), "a a__dropped_2", 14), 0);
        lab_close(&l);
    }
}

static wr_code first_table(void *ctx, const char *ns, const char *name, const char *location, wr_err *err) {
    char **out = ctx;
    if (!*out) *out = wr_strdup(location);
    return WR_OK;
}

/* A second connection, as another program has it. */
static wr_ice_catalog *other_catalog(void) {
    char path[300];
    snprintf(path, sizeof path, "%s/catalog.db", dir);
    wr_ice_catalog *c;
    assert_ok(wr_ice_catalog_open(&(wr_ice_catalog_options){.path = path}, &c, err));
    return c;
}

static void tables_of_others_are_left_alone(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_ice_catalog *c = other_catalog();
    wr_ice_table *f;
    wr_schema *s = lab_schema(2, 1, 1);
    char location[300];
    snprintf(location, sizeof location, "%s/elsewhere", dir);
    assert_ok(wr_ice_new(NULL, "db", "theirs", location, 2, s, &f, err));
    wr_ice_edit edit = {.table = f, .ref = WR_ICE_MAIN, .create = true, .no_snapshot = true};
    assert_ok(wr_ice_commit(c, NULL, &edit, 1, NULL, err));
    wr_table *t = NULL, *mine = lab_create(&l, 2, "mine", 1);
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_lake_create(l.lake, 1, "db", "theirs", s, &t, &e), WR_E_EXISTS);
    assert_non_null(strstr(e.cure, "rename or drop"));
    assert_int_equal(wr_table_rename(mine, "db", "theirs", &e), WR_E_EXISTS);
    assert_int_equal(wr_lake_create(l.lake, 3, "db", "mine", s, &t, &e), WR_E_EXISTS);
    assert_int_equal(wr_lake_create(l.lake, 2, "db", "other", s, &t, &e), WR_E_EXISTS);
    lab_commit(&l);
    assert_string_equal(lab_tables(), "mine theirs");
    lab_reopen(&l);
    assert_null(wr_lake_table(l.lake, 1));
    wr_ice_table_free(f), wr_schema_unref(s), wr_ice_catalog_close(c);
    lab_close(&l);
}

/* ------------------------------------------------------------------ commits */
static void progress_alone_can_be_committed(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    lab_create(&l, 1, "t", 1);
    lab_commit(&l);
    assert_false(wr_lake_dirty(l.lake));
    wr_table_health before = lab_health(wr_lake_table(l.lake, 1));
    wr_pos pos = {.file = "binlog.000009", .offset = 44};
    assert_ok(wr_lake_commit(l.lake, 500, &pos, 123000000, err));
    assert_ok(wr_lake_commit(l.lake, 500, NULL, 123000000, err)); /* nothing to do */
    lab_reopen(&l);
    uint64_t offset;
    wr_pos got;
    int64_t us;
    assert_ok(wr_lake_progress(l.lake, &offset, &got, &us, err));
    assert_int_equal(offset, 500);
    assert_int_equal(us, 123000000);
    assert_int_equal(got.offset, 44);
    wr_pos_clear(&got);
    assert_int_equal(lab_health(wr_lake_table(l.lake, 1)).snapshots, before.snapshots);
    lab_close(&l);
}

static void a_foreign_commit_is_a_conflict_and_is_taken_in_by_opening_anew(void **st) {
    for (int version = 2; version <= 3; version++) {
        lab l = {.version = version};
        dir_remove(st), dir_make(st);
        lab_open(&l);
        wr_table *t = lab_create(&l, 1, "t", 1), *u = lab_create(&l, 2, "u", 1);
        lab_put(t, 1, "a"), lab_put(t, 2, "b"), lab_put(u, 1, "u");
        lab_commit(&l);
        char *at = NULL;
        wr_ice_catalog *c = other_catalog();
        assert_ok(wr_ice_catalog_each(c, first_table, &at, err));
        wr_ice_table *f;
        assert_ok(wr_ice_load(c, "db", "t", &f, err));
        wr_ice_file **files;
        int n;
        assert_ok(wr_ice_live_files(f, wr_ice_ref(f, WR_ICE_MAIN), &files, &n, err));
        assert_int_equal(n, 1);
        roaring_bitmap_t *bm = roaring_bitmap_create(); /* another writer deletes row 0 */
        roaring_bitmap_add(bm, 0);
        wr_ice_dv dv = {.referenced = files[0]->path, .bitmap = bm, .cardinality = 1};
        wr_ice_file **del;
        assert_ok(wr_ice_write_deletes(l.engine, NULL, f, &dv, 1, &del, err));
        wr_ice_edit edit = {.table = f, .ref = WR_ICE_MAIN, .added = del, .nadded = 1};
        assert_ok(wr_ice_commit(c, NULL, &edit, 1, NULL, err));
        lab_set(t, 2, "b", "B"), lab_set(u, 1, "u", "U");
        wr_err e = WR_ERR_INIT;
        assert_int_equal(lab_try_commit(&l, &e), WR_E_CONFLICT);
        assert_int_equal(e.retry, WR_RETRY_AFTER_RELOAD);
        assert_content(&l, "u", "1:u"); /* all or nothing */
        lab_reopen(&l);
        t = wr_lake_table(l.lake, 1);
        lab_set(t, 2, "b", "B");
        lab_commit(&l);
        assert_content(&l, "t", "2:B");
        wr_free(at);
        roaring_bitmap_free(bm);
        wr_ice_file_free(del[0]), wr_free(del), wr_ice_file_free(files[0]), wr_free(files);
        wr_ice_table_free(f), wr_ice_catalog_close(c);
        lab_close(&l);
    }
}

static void a_main_that_others_moved_back_is_refused(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    lab_put(t, 1, "a");
    lab_commit(&l);
    wr_ice_catalog *c = other_catalog();
    wr_ice_table *f;
    assert_ok(wr_ice_load(c, "db", "t", &f, err));
    int64_t old = wr_ice_ref(f, WR_ICE_MAIN);
    wr_ice_table_free(f);
    lab_put(t, 2, "b");
    lab_commit(&l);
    lab_close(&l);
    assert_ok(wr_ice_load(c, "db", "t", &f, err));
    int64_t newest = wr_ice_ref(f, WR_ICE_MAIN);
    for (int back = 1; back >= 0; back--) {
        assert_true(wr_json_set_num(wr_json_get(wr_json_get(f->doc, "refs"), WR_ICE_MAIN), "snapshot-id", back ? old : newest));
        const char *k = "moved", *v = back ? "back" : "forth";
        wr_ice_edit edit = {.table = f, .ref = WR_ICE_MAIN, .no_snapshot = true, .prop_keys = &k, .prop_vals = &v, .nprops = 1};
        assert_ok(wr_ice_commit(c, NULL, &edit, 1, NULL, err));
        wr_err e = WR_ERR_INIT;
        wr_code rc = lab_try_open(&l, &e);
        assert_int_equal(rc, back ? WR_E_CONFLICT : WR_OK);
        if (!back) break;
        assert_int_equal(e.retry, WR_RETRY_NO);
        assert_non_null(strstr(e.cure, "set_current_snapshot"));
        lab_close(&l);
    }
    lab_set(wr_lake_table(l.lake, 1), 2, "b", "B");
    lab_commit(&l);
    assert_content(&l, "t", "1:a 2:B");
    wr_ice_table_free(f), wr_ice_catalog_close(c);
    lab_close(&l);
}

static void equality_deletes_are_refused_as_long_as_they_delete(void **st) {
    lab l = {.version = 2};
    lab_open(&l);
    lab_put(lab_create(&l, 1, "t", 1), 1, "a");
    lab_commit(&l);
    wr_ice_catalog *c = other_catalog();
    wr_ice_table *f;
    assert_ok(wr_ice_load(c, "db", "t", &f, err));
    wr_ice_file **files, *del = wr_ice_file_new(WR_ICE_EQ_DELETES, "/elsewhere/never-read.parquet");
    int n;
    assert_ok(wr_ice_live_files(f, wr_ice_ref(f, WR_ICE_MAIN), &files, &n, err));
    assert_int_equal(n, 1);
    del->format = wr_strdup("PARQUET"), del->records = 1, del->bytes = 100;
    wr_ice_edit edit = {.table = f, .ref = WR_ICE_MAIN, .added = &del, .nadded = 1};
    assert_ok(wr_ice_commit(c, NULL, &edit, 1, NULL, err));
    lab_reopen(&l);
    wr_err e = WR_ERR_INIT;
    assert_int_equal(lab_apply(wr_lake_table(l.lake, 1), WR_OP_UPDATE, 1, "a", "A", &e), WR_E_UNSUPPORTED);
    assert_non_null(strstr(e.msg, "never-read"));
    assert_non_null(strstr(e.cure, "rewrite_data_files"));
    /* The other writer puts a new file in the place of the one before. */
    WR_AUTO char *path = wr_asprintf("%s.copy.parquet", files[0]->path), *cmd = wr_asprintf("cp '%s' '%s'", files[0]->path, path);
    assert_int_equal(system(cmd), 0);
    wr_ice_file *copy = wr_ice_file_new(WR_ICE_DATA, path);
    copy->format = wr_strdup("PARQUET"), copy->records = files[0]->records, copy->bytes = files[0]->bytes;
    const char *removed = files[0]->path;
    edit = (wr_ice_edit){.table = f, .ref = WR_ICE_MAIN, .added = &copy, .nadded = 1, .removed = &removed, .nremoved = 1};
    assert_ok(wr_ice_commit(c, NULL, &edit, 1, NULL, err));
    lab_reopen(&l);
    lab_set(wr_lake_table(l.lake, 1), 1, "a", "A");
    lab_commit(&l);
    wr_ice_file_free(files[0]), wr_free(files), wr_ice_file_free(del), wr_ice_file_free(copy);
    wr_ice_table_free(f), wr_ice_catalog_close(c);
    lab_close(&l);
}

/* The tables of a REST catalog move one by one: after a crash between them, some are ahead of the progress. */
static void what_a_table_holds_already_is_not_applied_again(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *a = lab_create(&l, 1, "a", 1), *b = lab_create(&l, 2, "b", 0);
    lab_commit(&l); /* offset 1 */
    wr_slice none = {0};
    WR_AUTO_BUF wr_buf row = WR_BUF_INIT;
    lab_row(wr_table_schema(a), 7, "seven", &row);
    assert_ok(wr_table_apply(a, 2, WR_APPLY_STRICT, WR_OP_INSERT, none, wr_buf_view(&row), err));
    lab_commit(&l); /* offset 2: b has nothing new and keeps 1 */
    wr_pos pos = {.file = "binlog.000001", .offset = 1};
    wr_ice_catalog *c = other_catalog();
    wr_ice_progress back = {"p", 1, &pos, 0};
    assert_ok(wr_ice_commit(c, NULL, NULL, 0, &back, err));
    wr_ice_catalog_close(c);
    lab_reopen(&l);
    l.offset = 1;
    a = wr_lake_table(l.lake, 1), b = wr_lake_table(l.lake, 2);
    for (uint64_t offset = 2; offset <= 3; offset++) {
        lab_row(wr_table_schema(b), (int64_t)offset, "of b", &row);
        assert_ok(wr_table_apply(b, offset, WR_APPLY_STRICT, WR_OP_INSERT, none, wr_buf_view(&row), err));
        lab_row(wr_table_schema(a), 5 + (int64_t)offset, offset == 2 ? "seven" : "eight", &row);
        assert_ok(wr_table_apply(a, offset, WR_APPLY_STRICT, WR_OP_INSERT, none, wr_buf_view(&row), err));
        lab_commit(&l);
    }
    assert_int_equal(lab_health(a).anomalies, 0);
    lab_put(a, 9, "of no transaction");
    lab_commit(&l);
    assert_content(&l, "a", "7:seven 8:eight 9:of no transaction");
    assert_content(&l, "b", "2:of b 3:of b");
    lab_close(&l);
}

static void a_failed_commit_can_be_tried_again(void **st) {
    static const char *const points[] = {"lake.before_commit",
                                         "lake.before_data_file",
                                         "parquet_write",
                                         "ice.puffin",
                                         "ice.announced",
                                         "ice.write",
                                         "ice.synced",
                                         "ice.sql",
                                         "io.sync",
                                         "io.write",
                                         "state.commit"};
    for (int version = 2; version <= 3; version++)
        for (size_t p = 0; p < sizeof points / sizeof *points; p++)
            for (int nth = 1; nth < 4; nth++) {
                lab l = {.version = version};
                dir_remove(st), dir_make(st);
                lab_open(&l);
                wr_table *t = lab_create(&l, 1, "t", 1), *u = lab_create(&l, 2, "u", 0);
                lab_put(t, 1, "a"), lab_put(t, 2, "b"), lab_put(u, 5, "u"), lab_put(u, 5, "u");
                lab_commit(&l);
                lab_set(t, 1, "a", "A"), lab_put(t, 3, "c"), lab_del(u, 5, "u");
                wr_table *n = lab_create(&l, 3, "n", 1);
                lab_put(n, 9, "n");
                renam(u, "v");
                char spec[64];
                snprintf(spec, sizeof spec, "%s:%d:fail", points[p], nth);
                wr_fault_set(spec);
                wr_err e = WR_ERR_INIT;
                wr_code rc = lab_try_commit(&l, &e);
                wr_fault_set(NULL);
                if (rc != WR_OK) {
                    assert_string_equal(lab_tables(), "t u");
                    assert_content(&l, "t", "1:a 2:b");
                    assert_content(&l, "u", "5:u 5:u");
                    lab_put(t, 4, "d"); /* life goes on in between */
                    lab_commit(&l);
                } else
                    lab_put(t, 4, "d"), lab_commit(&l);
                assert_content(&l, "t", "1:A 2:b 3:c 4:d");
                assert_content(&l, "v", "5:u");
                assert_content(&l, "n", "9:n");
                lab_reopen(&l);
                assert_content(&l, "t", "1:A 2:b 3:c 4:d");
                lab_close(&l);
            }
}

static void a_commit_that_runs_out_of_memory_anywhere_can_be_tried_again(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    lab_commit(&l);
    int64_t rows = 0;
    for (uint64_t n = 1; n < 4000; n += 1 + n / 10) {
        lab_put(t, rows, "x");
        if (rows) lab_set(t, rows / 2, "x", "y");
        rows++;
        wr_err e = WR_ERR_INIT;
        wr_mem_fail_after(n);
        wr_code rc = lab_try_commit(&l, &e);
        bool over = wr_mem_fail_after(0) > 0;
        if (rc != WR_OK) lab_commit(&l);
        assert_int_equal(lab_health(t).rows, rows);
        if (over) break;
    }
    lab_reopen(&l);
    t = wr_lake_table(l.lake, 1);
    lab_fill(t, rows, 30);
    lab_commit(&l);
    lab_close(&l);
}

/* ------------------------------------------------------------------ the journal */
/* The child commits and dies before it can tell the journal. */
static void commit_and_die(lab *l) {
    fflush(NULL);
    lab_close(l);
    pid_t pid = fork();
    if (pid == 0) {
        lab_open(l);
        wr_table *t = wr_lake_table(l->lake, 1);
        lab_set(t, 1, "a", "A"), lab_put(t, 2, "b");
        assert_ok(wr_table_drop(t, WR_DROP_KEEP, err));
        wr_fault_set("ice.committed:1:kill");
        lab_commit(l);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    lab_open(l);
}

static void files_of_a_kept_table_survive_a_crash_right_after_the_commit(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    lab_put(t, 1, "a");
    lab_commit(&l);
    commit_and_die(&l);
    assert_null(wr_lake_table(l.lake, 1));
    assert_content(&l, "t", "1:A 2:b");
    assert_int_equal(lab_journal(&l), 0);
    lab_close(&l);
}

static int metadata_files(void) {
    char cmd[600];
    int n = -1;
    snprintf(cmd, sizeof cmd, "find '%s/warehouse' -name '*.metadata.json' | wc -l", dir);
    FILE *f = popen(cmd, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

/* Killed before its metadata file is in force, the log still has the oldest one; killed after that, nobody has. */
static void a_metadata_file_that_falls_off_the_log_is_removed_also_after_a_crash(void **st) {
    static const struct { const char *fault; int puts; } crashes[] = {{"ice.synced:1:kill", 0}, {"ice.committed:1:kill", 1}, {"ice.told:1:kill", 1}};
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    int rows = 0;
    for (; rows < 25; rows++) {
        lab_put(t, rows, "x");
        lab_commit(&l);
    }
    const int kept = metadata_files();
    assert_true(kept > 2 && kept < 25);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) {
        fflush(NULL);
        lab_close(&l);
        pid_t pid = fork();
        if (pid == 0) {
            lab_open(&l);
            lab_put(wr_lake_table(l.lake, 1), rows, "x");
            wr_fault_set(crashes[i].fault);
            lab_commit(&l);
            _exit(1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        rows += crashes[i].puts;
        lab_open(&l);
        assert_int_equal(metadata_files(), kept);
        assert_int_equal(lab_journal(&l), 0);
        assert_int_equal(lab_health(wr_lake_table(l.lake, 1)).rows, rows);
    }
    lab_close(&l);
}

static void only_announced_files_that_nobody_needs_are_removed(void **st) {
    lab l = {.version = 3, .file_bytes = 2000};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    lab_fill(t, 0, 100);
    lab_commit(&l);
    char cmd[600];
    snprintf(cmd, sizeof cmd, "find '%s/warehouse' -type f | sort > '%s/before'", dir, dir);
    assert_int_equal(system(cmd), 0);
    lab_fill(t, 100, 300);
    for (int i = 0; i < 50; i++) lab_del(t, i, "");
    wr_fault_set("ice.sql:1:fail");
    wr_err e = WR_ERR_INIT;
    assert_int_not_equal(lab_try_commit(&l, &e), WR_OK);
    wr_fault_set(NULL);
    lab_reopen(&l);
    assert_int_equal(lab_journal(&l), 0);
    snprintf(cmd, sizeof cmd, "find '%s/warehouse' -type f | sort | cmp - '%s/before'", dir, dir);
    assert_int_equal(system(cmd), 0);
    assert_content(&l, "t", "100 rows");
    lab_close(&l);
}

static void index_folders_of_tables_that_left_are_removed(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    lab_fill(t, 0, 3000);
    lab_create(&l, 2, "u", 1);
    lab_commit(&l);
    assert_ok(wr_table_drop(t, WR_DROP_MIRROR, err));
    lab_commit(&l);
    int n = 0;
    assert_ok(wr_dir_list(in_dir("index"), lab_count, &n, err));
    assert_int_equal(n, 2);
    lab_reopen(&l);
    n = 0;
    assert_ok(wr_dir_list(in_dir("index"), lab_count, &n, err));
    assert_int_equal(n, 1);
    lab_close(&l);
}

/* ------------------------------------------------------------------ opening */
static void our_table_without_its_metadata_is_an_error_with_a_way_out(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    lab_put(lab_create(&l, 1, "t", 1), 1, "a");
    lab_commit(&l);
    lab_close(&l);
    char cmd[300];
    snprintf(cmd, sizeof cmd, "rm '%s'/warehouse/*/*/metadata/*.json", dir);
    assert_int_equal(system(cmd), 0);
    wr_err e = WR_ERR_INIT;
    assert_int_equal(lab_try_open(&l, &e), WR_E_DECODE);
    assert_non_null(strstr(e.msg, "db.t"));
    assert_non_null(strstr(e.cure, "restore"));
    wr_engine_close(l.engine), wr_state_close(l.state);
}

static void opening_and_reading_run_out_of_memory_anywhere_without_harm(void **st) {
    lab l = {.version = 2};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    lab_fill(t, 0, 9);
    lab_commit(&l);
    lab_del(t, 3, "");
    lab_commit(&l);
    char catalog[300], warehouse[300], index[300];
    snprintf(catalog, sizeof catalog, "%s/catalog.db", dir);
    snprintf(warehouse, sizeof warehouse, "%s/warehouse", dir);
    snprintf(index, sizeof index, "%s/index", dir);
    wr_lake_close(l.lake);
    wr_lake_options o = {.pipeline = "p", .catalog_path = catalog, .warehouse = warehouse, .index_dir = index};
    for (uint64_t n = 1;; n += 1 + n / 12) {
        wr_err e = WR_ERR_INIT;
        wr_mem_fail_after(n);
        wr_code rc = wr_lake_open(&o, l.state, l.engine, &l.lake, &e);
        if (rc == WR_OK)
            rc = lab_apply(wr_lake_table(l.lake, 1), WR_OP_UPDATE, 4, "", "new", &e), wr_lake_close(l.lake);
        bool over = wr_mem_fail_after(0) > 0;
        if (over) {
            assert_int_equal(rc, WR_OK);
            break;
        }
    }
    for (uint64_t n = 1;; n += 1 + n / 12) {
        wr_err e = WR_ERR_INIT;
        wr_lake_view *v = NULL;
        const wr_sql_table *tables;
        const wr_table_health *h;
        int k = 0;
        wr_mem_fail_after(n);
        wr_code rc = wr_lake_view_open(&(wr_lake_view_options){.catalog_path = catalog}, &v, &e);
        if (rc == WR_OK) rc = wr_lake_view_tables(v, &tables, &h, &k, &e);
        bool over = wr_mem_fail_after(0) > 0;
        if (rc != WR_OK && v) rc = wr_lake_view_tables(v, &tables, &h, &k, &e); /* once more */
        if (v) assert_true(rc == WR_OK && k == 1 && h[0].rows == 8);
        wr_lake_view_close(v);
        if (over) break;
    }
    wr_engine_close(l.engine), wr_state_close(l.state);
}

int main(void) {
    w_fast_folder();
    const struct CMUnitTest tests[] = {
        IN_DIR(names_are_swapped_and_passed_on_within_one_commit),
        IN_DIR(a_new_table_takes_a_name_that_is_left_in_the_same_commit),
        IN_DIR(a_table_that_comes_and_goes_between_commits_leaves_nothing),
        IN_DIR(a_kept_table_stays_readable_and_makes_room_for_its_name),
        IN_DIR(tables_of_others_are_left_alone),
        IN_DIR(progress_alone_can_be_committed),
        IN_DIR(a_foreign_commit_is_a_conflict_and_is_taken_in_by_opening_anew),
        IN_DIR(a_main_that_others_moved_back_is_refused),
        IN_DIR(equality_deletes_are_refused_as_long_as_they_delete),
        IN_DIR(what_a_table_holds_already_is_not_applied_again),
        IN_DIR(a_failed_commit_can_be_tried_again),
        IN_DIR(a_commit_that_runs_out_of_memory_anywhere_can_be_tried_again),
        IN_DIR(files_of_a_kept_table_survive_a_crash_right_after_the_commit),
        IN_DIR(only_announced_files_that_nobody_needs_are_removed),
        IN_DIR(a_metadata_file_that_falls_off_the_log_is_removed_also_after_a_crash),
        IN_DIR(index_folders_of_tables_that_left_are_removed),
        IN_DIR(our_table_without_its_metadata_is_an_error_with_a_way_out),
        IN_DIR(opening_and_reading_run_out_of_memory_anywhere_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
