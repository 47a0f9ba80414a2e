/* What a lake does beside applying: jobs in turn, their record, old snapshots, and optimizing by hand. */
#include "compact.h"
#include "lab.h"
#include "weir/base/clock.h"

/* Whatever is due, at once: as time would do it. */
static int settle(lab *l) {
    int jobs = 0;
    for (int i = 0, idle = 0; i < 100; i++) {
        bool changed = false;
        l->lake->next_job_us = 0;
        assert_ok(wr_lake_govern(l->lake, true, &changed, err));
        if (changed) {
            jobs++;
            wr_pos pos = {.file = "binlog.000001", .offset = l->offset};
            assert_ok(wr_lake_commit(l->lake, l->offset, &pos, 0, err));
        }
        idle = changed || l->lake->job ? 0 : idle + 1;
        if (idle == 2) return jobs; /* the first may only have ended a job that changes nothing */
    }
    fail_msg("there is no end to what is due");
    return jobs;
}

static int commits_of(lab *l, wr_table *t, int from, int n) {
    for (int i = 0; i < n; i++) lab_fill(t, from, from + 20), from += 20, lab_commit(l);
    return from;
}

static const wr_table_health *view_health(wr_lake_view *v, const char *name) {
    const wr_sql_table *t;
    const wr_table_health *h;
    int n;
    assert_ok(wr_lake_view_tables(v, &t, &h, &n, err));
    for (int i = 0; i < n; i++)
        if (!strcmp(t[i].name, name)) return &h[i];
    fail_msg("there is no table %s", name);
    return NULL;
}

static void what_was_done_is_kept_in_the_table(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    commits_of(&l, t, 0, 24);
    char catalog[300];
    snprintf(catalog, sizeof catalog, "%s/catalog.db", dir);
    wr_lake_view *v;
    assert_ok(wr_lake_view_open(&(wr_lake_view_options){.catalog_path = catalog}, &v, err));
    const wr_table_health *h = view_health(v, "t");
    assert_int_equal(h->files_at[0], 24);
    assert_true(strstr(h->due, "24 files below") != NULL && h->upkeep->n == 0 && h->upkeep->new_bytes == h->data_bytes && h->metadata_bytes > 1000);
    uint64_t fresh = h->data_bytes;
    wr_lake_view_close(v);
    assert_int_equal(settle(&l), 1);
    for (int id = 0; id < 240; id++) lab_del(t, id, "some row");
    lab_commit(&l);
    t->patient_until_us = 0;
    assert_int_equal(settle(&l), 1);
    lab_reopen(&l);
    assert_int_equal(lab_health(wr_lake_table(l.lake, 1)).upkeep->n, 2);
    assert_ok(wr_lake_view_open(&(wr_lake_view_options){.catalog_path = catalog}, &v, err));
    h = view_health(v, "t");
    const wr_upkeep *u = h->upkeep;
    assert_true(u->n == 2 && u->merges == 1 && u->rewrites == 1 && u->expiries == 0 && !h->due[0]);
    assert_true(u->new_bytes == fresh && u->rewritten_bytes == u->last[0].bytes_out + u->last[1].bytes_out);
    assert_string_equal(u->last[0].what, "merge");
    assert_true(u->last[0].files_in == 24 && u->last[0].files_out == 1 && u->last[0].bytes_in == fresh && !u->last[0].rows_dropped);
    assert_string_equal(u->last[1].what, "rewrite");
    assert_true(u->last[1].files_in == 1 && u->last[1].rows_dropped == 240 && strstr(u->last[1].why, "50 %"));
    assert_true(u->last[1].at_us > wr_now_us() - 60000000 && h->manifest_merges > 0);
    wr_lake_view_close(v);
    assert_content(&l, "t", "240 rows");
    lab_close(&l);
}

static void only_the_last_twenty_actions_are_kept(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    int from = 0;
    for (int i = 0; i < 24; i++) from = commits_of(&l, t, from, 16), settle(&l);
    wr_upkeep u = *lab_health(t).upkeep;
    assert_true(u.n == WR_UPKEEP_ACTIONS && u.merges >= 24);
    for (int i = 1; i < u.n; i++) assert_true(u.last[i].at_us >= u.last[i - 1].at_us);
    lab_reopen(&l);
    assert_memory_equal(lab_health(wr_lake_table(l.lake, 1)).upkeep->last[3].why, u.last[3].why, sizeof u.last[3].why);
    lab_close(&l);
}

static void a_table_that_cannot_be_compacted_starves_no_other(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *bad = lab_create(&l, 1, "bad", 1), *good = lab_create(&l, 2, "good", 1);
    for (int i = 0; i < 16; i++) lab_fill(bad, i * 20, i * 20 + 20), lab_fill(good, i * 20, i * 20 + 20), lab_commit(&l);
    WR_AUTO char *local = NULL;
    assert_ok(wr_uri_canonical(bad->files[3].ice->path, &local, err));
    char away[400];
    snprintf(away, sizeof away, "%s.away", local);
    assert_int_equal(rename(local, away), 0);
    assert_int_equal(settle(&l), 1);
    assert_true(lab_health(good).data_files == 1 && lab_health(bad).data_files == 16);
    assert_true(bad->upkeep_after_us > wr_mono_us() + 500000000);
    assert_int_equal(lab_journal(&l), 0);
    assert_int_equal(rename(away, local), 0);
    bad->upkeep_after_us = 0;
    assert_int_equal(settle(&l), 1);
    assert_int_equal(lab_health(bad).data_files, 1);
    lab_reopen(&l);
    assert_int_equal(lab_journal(&l), 0);
    lab_close(&l);
}

static void jobs_have_a_share_of_the_time_and_little_of_it_is_saved(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    commits_of(&l, t, 0, 16);
    bool changed;
    int64_t began = wr_mono_us();
    l.lake->next_job_us = began - 3600000000; /* an hour without a job */
    assert_ok(wr_lake_govern(l.lake, false, &changed, err));
    assert_true(l.lake->job && l.lake->next_job_us >= began - 60000000);
    int64_t saved = l.lake->next_job_us;
    assert_ok(wr_lake_govern(l.lake, true, &changed, err));
    assert_true(changed && l.lake->next_job_us > saved);
    commits_of(&l, t, 400, 16);
    l.lake->next_job_us = wr_mono_us() + 3600000000;
    assert_ok(wr_lake_govern(l.lake, false, &changed, err));
    assert_null(l.lake->job);
    l.lake->next_job_us = wr_mono_us();
    assert_ok(wr_lake_govern(l.lake, false, &changed, err));
    assert_non_null(l.lake->job);
    lab_close(&l);
}

static int files_in(const char *folder) {
    int n = 0;
    assert_ok(wr_dir_list(folder, lab_count, &n, err));
    return n;
}

static void old_snapshots_leave_with_their_files_and_no_commit_waits_for_it(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    l.lake->snapshots_min = 5, l.lake->snapshots_max = 11, l.lake->snapshot_age_us = 1;
    wr_table *t = lab_create(&l, 1, "t", 1);
    int from = 0;
    for (int i = 0; i < 60; i++) {
        from = commits_of(&l, t, from, 1);
        for (int id = from - 20; id < from - 10; id++) lab_del(t, id, "some row");
        lab_commit(&l);
        settle(&l);
    }
    wr_table_health h = lab_health(t);
    assert_true(h.snapshots <= 14 && h.upkeep->expiries > 5);
    assert_int_equal(h.rows, 600);
    assert_int_equal(lab_journal(&l), 0);
    char folder[400];
    snprintf(folder, sizeof folder, "%s/data", wr_ice_location(t->ice));
    assert_true(files_in(folder) < 60);
    snprintf(folder, sizeof folder, "%s/metadata", wr_ice_location(t->ice));
    assert_true(files_in(folder) < 150);
    assert_content(&l, "t", "600 rows");
    lab_reopen(&l);
    assert_content(&l, "t", "600 rows");
    lab_close(&l);
}

static void a_job_has_several_outputs_of_one_size(void **st) {
    for (int version = 3; version >= 2; version--) {
        char home[sizeof dir];
        memcpy(home, dir, sizeof dir);
        snprintf(dir + strlen(dir), 8, "/v%d", version);
        assert_int_equal(mkdir(dir, 0700), 0);
        lab l = {.version = version};
        lab_open(&l);
        wr_table *t = lab_create(&l, 1, "t", 1);
        l.lake->target_file_bytes = 10000, l.lake->compact_bytes = 15000;
        for (int i = 0; i < 24; i++) lab_fill(t, i * 1250, i * 1250 + 1250), lab_commit(&l);
        wr_table_health was = lab_health(t);
        assert_true(settle(&l) > 0);
        wr_table_health h = lab_health(t);
        assert_true(h.rows == 30000 && h.data_files > 1 && h.data_files <= was.data_files);
        bool several = false;
        for (int i = 0; i < h.upkeep->n; i++) several |= h.upkeep->last[i].files_out > 1;
        assert_true(several);
        for (int id = 0; id < 30000; id += 2) lab_del(t, id, "some row"); /* the index knows where they are now */
        assert_int_equal(lab_health(t).anomalies, 0);
        lab_commit(&l);
        lab_reopen(&l);
        t = wr_lake_table(l.lake, 1);
        for (int id = 1; id < 30000; id += 2) lab_set(t, id, "some row", "other");
        assert_int_equal(lab_health(t).anomalies, 0);
        lab_commit(&l);
        assert_content(&l, "t", "15000 rows");
        lab_close(&l);
        memcpy(dir, home, sizeof dir);
    }
}

static void optimizing_goes_on_until_nothing_is_due_and_all_of_it_when_asked(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    commits_of(&l, t, 0, 20);
    assert_ok(wr_table_optimize(t, false, err));
    assert_int_equal(lab_health(t).data_files, 1);
    commits_of(&l, t, 1000, 3);
    lab_del(t, 5, "some row"), lab_commit(&l);
    assert_ok(wr_table_optimize(t, false, err));
    wr_table_health h = lab_health(t);
    assert_true(h.data_files == 4 && h.deleted_rows == 1);
    lab_reopen(&l);
    t = wr_lake_table(l.lake, 1);
    assert_ok(wr_table_optimize(t, true, err));
    h = lab_health(t);
    assert_true(h.data_files == 1 && h.deleted_rows == 0 && h.rows == 459);
    int n = h.upkeep->n;
    assert_ok(wr_table_optimize(t, true, err));
    assert_int_equal(lab_health(t).upkeep->n, n);
    uint64_t offset;
    wr_pos pos = {0};
    int64_t us;
    assert_ok(wr_lake_progress(l.lake, &offset, &pos, &us, err));
    assert_int_equal(offset, l.offset); /* where the lake is in the queue has not moved */
    wr_pos_clear(&pos);
    assert_content(&l, "t", "459 rows");
    lab_close(&l);
}

static void a_worker_that_is_not_wanted_ends_at_once(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    for (int i = 0; i < 16; i++) lab_fill(t, i * 500, i * 500 + 500), lab_commit(&l);
    bool changed;
    assert_ok(wr_lake_govern(l.lake, false, &changed, err));
    assert_non_null(l.lake->job);
    lab_close(&l); /* waits for it */
    lab_open(&l);
    assert_int_equal(lab_journal(&l), 0);
    assert_content(&l, "t", "8000 rows");
    lab_close(&l);
}

static void a_failed_allocation_in_a_job_costs_the_job_only(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    commits_of(&l, t, 0, 5);
    for (int id = 0; id < 60; id += 3) lab_del(t, id, "some row");
    lab_commit(&l);
    int failed = 0;
    for (uint64_t nth = 1;; nth += 1 + nth / 9) {
        wr_err e = WR_ERR_INIT;
        t = wr_lake_table(l.lake, 1);
        assert_ok(wr_table_open_files(t, err));
        l.lake->compact_bytes = 2000;
        wr_mem_fail_after(nth);
        wr_code rc = wr_table_optimize(t, true, &e);
        wr_mem_fail_after(0);
        lab_reopen(&l);
        assert_content(&l, "t", "80 rows");
        if (rc == WR_OK && lab_health(wr_lake_table(l.lake, 1)).data_files == 1) break;
        failed++;
    }
    assert_true(failed > 20);
    t = wr_lake_table(l.lake, 1);
    for (int id = 1; id < 100; id += 3) lab_del(t, id, "some row");
    lab_commit(&l);
    assert_int_equal(lab_health(t).anomalies, 0);
    assert_int_equal(lab_journal(&l), 0);
    lab_close(&l);
}

typedef struct found { int n; char last[400]; bool remove; } found;
static wr_code find(void *ctx, const char *path, uint64_t bytes, int64_t modified_us, wr_err *err) {
    found *f = ctx;
    f->n++;
    snprintf(f->last, sizeof f->last, "%s", path);
    assert_true(bytes == 5 && modified_us > 0);
    return f->remove ? wr_file_remove(path, err) : WR_OK;
}

static void files_that_nothing_names_are_found_and_no_others(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    l.lake->snapshots_min = 5, l.lake->snapshots_max = 11, l.lake->snapshot_age_us = 1;
    wr_table *t = lab_create(&l, 1, "t", 1), *gone = lab_create(&l, 2, "gone", 1);
    int from = commits_of(&l, t, 0, 30);
    lab_fill(gone, 0, 5), lab_commit(&l);
    assert_ok(wr_table_drop(gone, WR_DROP_KEEP, err));
    lab_commit(&l);
    for (int id = 0; id < 100; id++) lab_del(t, id, "some row");
    lab_commit(&l);
    settle(&l);
    commits_of(&l, t, from, 4);
    found f = {0};
    assert_ok(wr_lake_orphans(l.lake, 0, find, &f, err)); /* whatever expiry and compaction left is named */
    if (f.n) fail_msg("%d files, %s", f.n, f.last);
    char path[500], announced[500];
    snprintf(path, sizeof path, "%s/data/left.parquet", wr_ice_location(t->ice));
    snprintf(announced, sizeof announced, "%s/data/begun.parquet", wr_ice_location(t->ice));
    assert_ok(wr_file_create(path, wr_slice_str("rests"), err));
    assert_ok(wr_file_create(announced, wr_slice_str("rests"), err));
    assert_ok(wr_state_file_add(l.state, announced, err));
    assert_ok(wr_lake_orphans(l.lake, INT64_C(3600000000), find, &f, err)); /* too young */
    assert_int_equal(f.n, 0);
    assert_ok(wr_lake_orphans(l.lake, 0, find, &f, err));
    assert_int_equal(f.n, 1);
    assert_string_equal(f.last, path);
    f.remove = true;
    assert_ok(wr_lake_orphans(l.lake, 0, find, &f, err));
    assert_int_equal(f.n, 2);
    assert_ok(wr_lake_orphans(l.lake, 0, find, &f, err));
    assert_int_equal(f.n, 2);
    assert_false(wr_file_exists(path));
    assert_true(wr_file_exists(announced));
    lab_reopen(&l);
    assert_content(&l, "t", "580 rows");
    assert_content(&l, "gone", "0:some row 1:some row 2:some row 3:some row 4:some row");
    lab_close(&l);
}

int main(void) {
    w_fast_folder();
    const struct CMUnitTest tests[] = {
        IN_DIR(what_was_done_is_kept_in_the_table),
        IN_DIR(only_the_last_twenty_actions_are_kept),
        IN_DIR(a_table_that_cannot_be_compacted_starves_no_other),
        IN_DIR(jobs_have_a_share_of_the_time_and_little_of_it_is_saved),
        IN_DIR(old_snapshots_leave_with_their_files_and_no_commit_waits_for_it),
        IN_DIR(a_job_has_several_outputs_of_one_size),
        IN_DIR(optimizing_goes_on_until_nothing_is_due_and_all_of_it_when_asked),
        IN_DIR(a_failed_allocation_in_a_job_costs_the_job_only),
        IN_DIR(files_that_nothing_names_are_found_and_no_others),
        IN_DIR(a_worker_that_is_not_wanted_ends_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
