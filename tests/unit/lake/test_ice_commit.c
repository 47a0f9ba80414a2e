#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <roaring/roaring.h>

#include "iceberg/manifest.h"
#include "iceberg/metadata.h"
#include "lake/ice_helper.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/io.h"

/* Data files here are names only: a commit never opens them. */
static wr_ice_catalog *catalog;
static wr_state *journal;
static wr_schema *schema;
static int serial;

static int set_up(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_column cols[] = {{.name = "id", .id = 1, .type = {.kind = WR_LONG}, .key_ord = 1},
                        {.name = "s", .id = 2, .type = {.kind = WR_STRING}, .nullable = true}};
    if (make_folder(state) != 0) return -1;
    OK(wr_ice_catalog_open(&(wr_ice_catalog_options){.path = in_folder("catalog.db")}, &catalog, &err));
    OK(wr_state_open(in_folder("state.db"), &journal, &err));
    OK(wr_schema_new(cols, 2, 1, &schema, &err));
    serial = 0;
    return 0;
}
static int tear_down(void **state) {
    wr_fault_set(NULL);
    wr_ice_catalog_close(catalog);
    wr_state_close(journal);
    wr_schema_unref(schema);
    return drop_folder(state);
}
#define COMMIT_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static wr_ice_table *new_table(const char *name, int version) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t;
    OK(wr_ice_new(NULL, "ns", name, in_folder(name), version, schema, &t, &err));
    return t;
}
static wr_ice_file *data(wr_ice_table *t, uint64_t records) {
    WR_AUTO char *path = wr_asprintf("%s/data/%05d.parquet", wr_ice_location(t), serial++);
    wr_ice_file *f = wr_ice_file_new(WR_ICE_DATA, path);
    f->format = wr_strdup("PARQUET"), f->records = records, f->bytes = 100;
    return f;
}
static wr_ice_file *vector(wr_ice_table *t, const char *referenced, uint64_t records) {
    WR_AUTO char *path = wr_asprintf("%s/data/%05d.puffin", wr_ice_location(t), serial++);
    wr_ice_file *f = wr_ice_file_new(WR_ICE_POS_DELETES, path);
    f->format = wr_strdup("PUFFIN"), f->referenced = wr_strdup(referenced), f->records = records, f->bytes = 500,
    f->content_offset = 4, f->content_size = 50;
    return f;
}
static wr_code commit(wr_ice_edit *e, wr_err *err) { return wr_ice_commit(catalog, journal, e, 1, NULL, err); }
static void add(wr_ice_table *t, wr_ice_file *f, bool create) {
    wr_err err = WR_ERR_INIT;
    wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN, .added = &f, .nadded = 1, .create = create};
    OK(commit(&e, &err));
}
static int live(wr_ice_table *t, const char *ref, int content) {
    wr_err err = WR_ERR_INIT;
    wr_ice_file **files;
    int n, got = 0;
    OK(wr_ice_live_files(t, wr_ice_ref(t, ref), &files, &n, &err));
    for (int i = 0; i < n; i++) got += files[i]->content == content, wr_ice_file_free(files[i]);
    wr_free(files);
    return got;
}
static int files_in(const char *folder) {
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}
static wr_code count_one(void *ctx, const char *path, int64_t created_us, wr_err *err) { return ++*(int *)ctx, WR_OK; }
static int announced(void) {
    wr_err err = WR_ERR_INIT;
    int n = 0;
    OK(wr_state_file_each(journal, count_one, &n, &err));
    return n;
}

static void time_never_goes_back(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    wr_ice_file *f = data(t, 1);
    add(t, f, true);
    int64_t future = wr_now_us() / 1000 + 3600000;
    assert_true(wr_json_set_num(t->doc, "last-updated-ms", future)); /* as if the clock had been an hour ahead */
    for (int i = 0; i < 3; i++) {
        wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN};
        OK(commit(&e, &err));
        assert_int_equal(wr_ice_snapshot_time_us(t, wr_ice_ref(t, WR_ICE_MAIN)), (future + i + 1) * 1000);
    }
    wr_ice_edit e = {.table = t,
                     .ref = WR_ICE_MAIN,
                     .no_snapshot = true,
                     .prop_keys = (const char *[]){"a"},
                     .prop_vals = (const char *[]){"b"},
                     .nprops = 1};
    OK(commit(&e, &err));
    assert_int_equal(wr_meta_num(t->doc, "last-updated-ms", 0), future + 3);
    assert_string_equal(wr_ice_property(t, "a"), "b");
    e.prop_vals = (const char *[]){NULL};
    OK(commit(&e, &err));
    assert_null(wr_ice_property(t, "a"));
    wr_ice_file_free(f), wr_ice_table_free(t);
}

static void a_data_file_leaves_with_its_deletes(void **state) {
    wr_err err = WR_ERR_INIT;
    for (int version = 2; version <= 3; version++) {
        wr_ice_table *t = new_table(version == 3 ? "t3" : "t2", version);
        wr_ice_file *a = data(t, 10), *b = data(t, 10);
        add(t, a, true), add(t, b, false);
        wr_ice_file *dels[] = {vector(t, a->path, 1), vector(t, b->path, 2)};
        wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN, .added = dels, .nadded = 2};
        OK(commit(&e, &err));
        assert_int_equal(live(t, WR_ICE_MAIN, 1), 2);
        const char *removed[] = {a->path};
        e = (wr_ice_edit){.table = t, .ref = WR_ICE_MAIN, .removed = removed, .nremoved = 1};
        OK(commit(&e, &err));
        assert_int_equal(live(t, WR_ICE_MAIN, 0), 1), assert_int_equal(live(t, WR_ICE_MAIN, 1), 1);
        int64_t head = wr_ice_ref(t, WR_ICE_MAIN);
        assert_string_equal(wr_ice_summary(t, head, "deleted-data-files"), "1");
        assert_string_equal(wr_ice_summary(t, head, "removed-delete-files"), "1");
        assert_string_equal(wr_ice_summary(t, head, "total-records"), "10");
        assert_string_equal(wr_ice_summary(t, head, "total-position-deletes"), "2");
        assert_string_equal(wr_ice_summary(t, head, "operation"), "delete");
        wr_ice_file_free(a), wr_ice_file_free(b), wr_ice_file_free(dels[0]), wr_ice_file_free(dels[1]),
            wr_ice_table_free(t);
    }
}

static void vectors_are_replaced_never_doubled(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    wr_ice_file *a = data(t, 10);
    add(t, a, true);
    wr_ice_file *one = vector(t, a->path, 1), *two = vector(t, a->path, 2);
    add(t, one, false);
    wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN, .added = &two, .nadded = 1};
    assert_int_equal(commit(&e, &err), WR_E_INVAL);
    assert_non_null(strstr(err.msg, a->path));
    assert_non_null(strstr(err.msg, "ns.t"));
    const char *removed[] = {one->path}, *refs[] = {a->path}, *wrong[] = {two->path};
    e.removed = removed, e.removed_refs = wrong, e.nremoved = 1;
    assert_int_equal(commit(&e, &err), WR_E_INVAL); /* that pair is not live */
    e.removed_refs = refs;
    OK(commit(&e, &err));
    assert_int_equal(live(t, WR_ICE_MAIN, 1), 1);
    wr_ice_file *both[] = {one, two};
    e = (wr_ice_edit){.table = t,
                      .ref = WR_ICE_MAIN,
                      .added = both,
                      .nadded = 2,
                      .removed = wrong,
                      .removed_refs = refs,
                      .nremoved = 1};
    assert_int_equal(commit(&e, &err), WR_E_INVAL);
    wr_ice_file_free(a), wr_ice_file_free(one), wr_ice_file_free(two), wr_ice_table_free(t);
}

static void mistakes_are_refused(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    wr_ice_file *a = data(t, 10), *twice[] = {a, a}, *parquet = vector(t, a->path, 1);
    const char *paths[] = {"/nowhere", "/nowhere"};
    parquet->content_offset = parquet->content_size = -1;
    wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN};
    assert_int_equal(commit(&e, &err), WR_E_INVAL); /* not created */
    add(t, a, true);
    wr_ice_edit bad[] = {
        {.table = t, .ref = WR_ICE_MAIN, .create = true},
        {.table = t, .ref = WR_ICE_MAIN, .added = twice, .nadded = 2},
        {.table = t, .ref = WR_ICE_MAIN, .added = &parquet, .nadded = 1},
        {.table = t, .ref = WR_ICE_MAIN, .removed = paths, .nremoved = 1},
        {.table = t, .ref = WR_ICE_MAIN, .removed = paths, .nremoved = 2},
        {.table = t, .ref = WR_ICE_LOAD, .removed = paths, .nremoved = 1, .restart_ref = true},
        {.table = t, .ref = WR_ICE_MAIN, .added = twice, .nadded = 1, .no_snapshot = true},
        {.table = t, .ref = WR_ICE_LOAD, .no_snapshot = true, .publish = true},
    };
    int before = files_in(in_folder("t/metadata"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(commit(&bad[i], &err), WR_E_INVAL);
    wr_ice_edit two[] = {{.table = t, .ref = WR_ICE_MAIN}, {.table = t, .ref = WR_ICE_LOAD}};
    assert_int_equal(wr_ice_commit(catalog, journal, two, 2, NULL, &err), WR_E_INVAL);
    assert_int_equal(files_in(in_folder("t/metadata")), before);
    assert_int_equal(announced(), 0);
    wr_ice_file_free(a), wr_ice_file_free(parquet), wr_ice_table_free(t);
}

static void old_metadata_files_go_after_twenty(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    wr_ice_file *a = data(t, 10);
    add(t, a, true);
    for (int i = 0; i < 60; i++) {
        wr_ice_edit e = {.table = t,
                         .ref = WR_ICE_MAIN,
                         .no_snapshot = true,
                         .prop_keys = (const char *[]){"n"},
                         .prop_vals = (const char *[]){"x"},
                         .nprops = 1};
        OK(commit(&e, &err));
    }
    assert_int_equal(cJSON_GetArraySize(wr_json_get(t->doc, "metadata-log")), 20);
    assert_int_equal(files_in(in_folder("t/metadata")), 21 + 2); /* and a manifest and its list */
    assert_non_null(strstr(wr_ice_metadata_location(t), "/00060-"));
    wr_ice_file_free(a), wr_ice_table_free(t);
}

static int count_manifests(wr_ice_table *t, int content, int64_t *ret_entries) {
    wr_err err = WR_ERR_INIT;
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    wr_manifest_list l = {0};
    int n = 0;
    OK(wr_file_get(wr_json_str(wr_meta_snapshot(t->doc, wr_ice_ref(t, WR_ICE_MAIN)), "manifest-list"), 1 << 24, &text,
                   &err));
    OK(wr_manifest_list_decode(wr_buf_view(&text), "l", &l, &err));
    *ret_entries = 0;
    for (int i = 0; i < l.n; i++) {
        if (l.v[i].content != content) continue;
        n++, *ret_entries += l.v[i].added_files + l.v[i].existing_files;
    }
    wr_manifest_list_clear(&l);
    return n;
}

static void cold_vectors_are_left_alone(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    enum { COLD = 1500, HOT = 3 };
    wr_ice_file *files[COLD], *dels[COLD];
    for (int i = 0; i < COLD; i++) files[i] = data(t, 10);
    wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN, .added = files, .nadded = COLD, .create = true};
    OK(commit(&e, &err));
    for (int i = 0; i < COLD; i++) dels[i] = vector(t, files[i]->path, 1);
    e = (wr_ice_edit){.table = t, .ref = WR_ICE_MAIN, .added = dels, .nadded = COLD};
    OK(commit(&e, &err));
    int64_t entries;
    for (int round = 0; round < 10; round++) {
        wr_ice_file *fresh[HOT], *old[HOT];
        const char *removed[HOT], *refs[HOT];
        for (int i = 0; i < HOT; i++)
            removed[i] = dels[i]->path, refs[i] = files[i]->path,
            fresh[i] = vector(t, files[i]->path, (uint64_t)round + 2);
        e = (wr_ice_edit){.table = t,
                          .ref = WR_ICE_MAIN,
                          .added = fresh,
                          .nadded = HOT,
                          .removed = removed,
                          .removed_refs = refs,
                          .nremoved = HOT};
        OK(commit(&e, &err));
        for (int i = 0; i < HOT; i++) old[i] = dels[i], dels[i] = fresh[i], wr_ice_file_free(old[i]);
        assert_int_equal(count_manifests(t, 1, &entries), 2);
        assert_int_equal(entries, COLD);
    }
    assert_string_equal(wr_ice_summary(t, wr_ice_ref(t, WR_ICE_MAIN), "manifests-created"), "1"); /* the hot one only */
    for (int i = 0; i < COLD; i++) wr_ice_file_free(files[i]), wr_ice_file_free(dels[i]);
    wr_ice_table_free(t);
}

static void a_stale_table_is_told_so(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3), *other;
    wr_ice_file *a = data(t, 10), *b = data(t, 10);
    add(t, a, true);
    OK(wr_ice_load(catalog, "ns", "t", &other, &err));
    add(other, b, false);
    int files = files_in(in_folder("t/metadata"));
    wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN, .added = &b, .nadded = 1};
    wr_ice_progress p = {.pipeline = "p", .offset = 9};
    assert_int_equal(wr_ice_commit(catalog, journal, &e, 1, &p, &err), WR_E_CONFLICT);
    assert_int_equal(err.retry, WR_RETRY_AFTER_RELOAD);
    assert_non_null(strstr(err.msg, "ns.t"));
    assert_int_equal(files_in(in_folder("t/metadata")), files);
    assert_int_equal(announced(), 0);
    wr_pos pos;
    uint64_t offset;
    int64_t us;
    OK(wr_ice_catalog_progress(catalog, "p", &offset, &pos, &us, &err));
    assert_int_equal(offset, 0);
    wr_ice_table_free(t);
    wr_ice_table *by_file; /* a table loaded by its file finds its name by itself */
    OK(wr_ice_load_file(NULL, wr_ice_metadata_location(other), &by_file, &err));
    e = (wr_ice_edit){.table = by_file, .ref = WR_ICE_MAIN};
    OK(commit(&e, &err));
    e.table = other;
    assert_int_equal(commit(&e, &err), WR_E_CONFLICT);
    wr_ice_file_free(a), wr_ice_file_free(b), wr_ice_table_free(other), wr_ice_table_free(by_file);
}

static wr_code collect(void *ctx, const char *path, wr_err *err) { return ++*(int *)ctx, WR_OK; }

static void every_path_of_a_snapshot_is_named(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    wr_ice_file *a = data(t, 10), *v = vector(t, a->path, 1);
    add(t, a, true), add(t, v, false);
    int n = 0;
    OK(wr_ice_each_path(t, wr_ice_ref(t, WR_ICE_MAIN), collect, &n, &err));
    assert_int_equal(n, 1 + 1 + 2 + 2); /* metadata, list, manifests, files */
    assert_int_equal(wr_ice_each_path(t, 12345, collect, &n, &err), WR_E_NOTFOUND);
    wr_ice_file_free(a), wr_ice_file_free(v), wr_ice_table_free(t);
}

/* Whatever allocation fails: either it is committed, or nothing has changed and the same edit works afterwards. */
static void each_failed_allocation_leaves_all_or_nothing(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    wr_ice_file *a = data(t, 10), *b = data(t, 5), *v = vector(t, a->path, 1);
    add(t, a, true);
    wr_ice_file *added[] = {b, v};
    const char *keys[] = {"weir.offset"}, *vals[] = {"7"};
    wr_ice_edit e = {.table = t,
                     .ref = WR_ICE_MAIN,
                     .added = added,
                     .nadded = 2,
                     .summary_keys = keys,
                     .summary_vals = vals,
                     .nsummary = 1,
                     .schema = schema,
                     .set_current_schema = true};
    int files = files_in(in_folder("t/metadata"));
    WR_AUTO char *location = wr_strdup(wr_ice_metadata_location(t));
    for (uint64_t n = 1;; n++) {
        wr_err_clear(&err);
        wr_mem_fail_after(n);
        wr_code rc = commit(&e, &err);
        wr_mem_fail_after(0);
        if (rc == WR_OK) break;
        assert_int_not_equal(err.code, WR_OK);
        assert_string_equal(wr_ice_metadata_location(t), location);
        if (announced() == 0) assert_int_equal(files_in(in_folder("t/metadata")), files);
        assert_int_equal(live(t, WR_ICE_MAIN, 0), 1);
        assert_true(n < 20000);
    }
    assert_int_equal(live(t, WR_ICE_MAIN, 0), 2), assert_int_equal(live(t, WR_ICE_MAIN, 1), 1);
    wr_ice_table *again;
    OK(wr_ice_load(catalog, "ns", "t", &again, &err));
    assert_string_equal(wr_ice_metadata_location(again), wr_ice_metadata_location(t));
    wr_ice_table_free(again);
    wr_ice_file_free(a), wr_ice_file_free(b), wr_ice_file_free(v), wr_ice_table_free(t);
}

static void the_journal_knows_every_file_before_it_exists(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    wr_ice_file *a = data(t, 10);
    OK(wr_state_file_add(journal, a->path, &err));
    assert_true(wr_fault_set("ice.synced:1:fail"));
    wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN, .added = &a, .nadded = 1, .create = true};
    assert_int_equal(commit(&e, &err), WR_E_IO);
    assert_int_equal(announced(), 1); /* the caller's data file; what the commit wrote is taken back */
    assert_int_equal(files_in(in_folder("t/metadata")), 0);
    wr_fault_set(NULL);
    OK(commit(&e, &err));
    assert_int_equal(announced(), 0);
    wr_ice_file_free(a), wr_ice_table_free(t);
}

static void a_load_begins_with_nothing_of_its_parent(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    wr_ice_file *a = data(t, 10), *b = data(t, 5), *c = data(t, 3);
    add(t, a, true);
    int64_t main = wr_ice_ref(t, WR_ICE_MAIN);
    wr_ice_edit e = {.table = t, .ref = WR_ICE_LOAD, .restart_ref = true, .added = &b, .nadded = 1};
    OK(commit(&e, &err));
    assert_int_equal(wr_ice_ref(t, WR_ICE_MAIN), main);
    assert_int_equal(live(t, WR_ICE_LOAD, 0), 1);
    OK(commit(&e, &err)); /* and again: the load starts over */
    assert_int_equal(live(t, WR_ICE_LOAD, 0), 1);
    e = (wr_ice_edit){.table = t, .ref = WR_ICE_LOAD, .added = &c, .nadded = 1};
    OK(commit(&e, &err));
    assert_int_equal(live(t, WR_ICE_LOAD, 0), 2), assert_int_equal(live(t, WR_ICE_MAIN, 0), 1);
    e = (wr_ice_edit){.table = t, .ref = WR_ICE_LOAD, .no_snapshot = true, .publish = true};
    OK(commit(&e, &err));
    assert_int_equal(live(t, WR_ICE_MAIN, 0), 2);
    assert_int_equal(wr_ice_ref(t, WR_ICE_LOAD), -1);
    assert_int_equal(wr_meta_num(t->doc, "next-row-id", 0), 10 + 5 + 5 + 3);
    wr_ice_file_free(a), wr_ice_file_free(b), wr_ice_file_free(c), wr_ice_table_free(t);
}

static void old_snapshots_expire_with_the_files_only_they_need(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    wr_ice_file *files[32];
    for (int i = 0; i < 31; i++) {
        files[i] = data(t, 10);
        const char *removed[] = {i ? files[i - 1]->path : NULL};
        wr_ice_edit e = {.table = t,
                         .ref = WR_ICE_MAIN,
                         .added = &files[i],
                         .nadded = 1,
                         .removed = removed,
                         .nremoved = i > 0,
                         .create = i == 0};
        OK(commit(&e, &err));
    }
    wr_ice_edit load = {.table = t, .ref = WR_ICE_LOAD, .restart_ref = true, .added = &files[0], .nadded = 1};
    OK(commit(&load, &err)); /* another branch with an old file */
    wr_ice_expire_options o = {.older_than_us = 0, .keep = 3};
    wr_ice_expiry *x = (wr_ice_expiry *)t;
    OK(wr_ice_expiry_new(t, &o, &x, &err)); /* all are young */
    assert_null(x);
    o.older_than_us = INT64_MAX, o.at_least = 100;
    OK(wr_ice_expiry_new(t, &o, &x, &err)); /* too few to be worth it */
    assert_null(x);
    o.at_least = 20;
    OK(wr_ice_expiry_new(t, &o, &x, &err));
    assert_int_equal(wr_ice_expiry_snapshots(x),
                     32 - 4); /* three of main, and the load's head, two of whose ancestors are among those */
    /* what is committed while the files are looked for stays, and what it needs */
    files[31] = data(t, 10);
    const char *replaced[] = {files[30]->path};
    wr_ice_edit late = {.table = t, .ref = WR_ICE_MAIN, .added = &files[31], .nadded = 1, .removed = replaced, .nremoved = 1};
    OK(commit(&late, &err));
    OK(wr_ice_expiry_find(x, &err));
    int gone = wr_ice_expiry_files(x);
    wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN, .expire = x};
    assert_int_equal(commit(&e, &err), WR_E_INVAL);
    e.no_snapshot = true;
    OK(commit(&e, &err));
    OK(wr_ice_expiry_delete(x, journal, &err));
    assert_int_equal(wr_ice_expiry_files(x), gone);
    wr_ice_expiry_free(x);
    assert_int_equal(wr_ice_snapshot_count(t), 5);
    assert_int_equal(announced(), 0);
    assert_int_equal(live(t, WR_ICE_MAIN, 0), 1), assert_int_equal(live(t, WR_ICE_LOAD, 0), 1);
    assert_true(gone > 28 * 2);
    wr_ice_table *again;
    OK(wr_ice_load(catalog, "ns", "t", &again, &err));
    const cJSON *s;
    cJSON_ArrayForEach(s, wr_json_get(again->doc, "snapshots")) {
        int n = 0;
        OK(wr_ice_each_path(again, wr_meta_num(s, "snapshot-id", -1), collect, &n, &err));
    }
    assert_int_equal(cJSON_GetArraySize(wr_json_get(again->doc, "snapshot-log")), 4);
    for (int i = 0; i < 32; i++) wr_ice_file_free(files[i]);
    wr_ice_table_free(t), wr_ice_table_free(again);
}

static void what_the_journal_was_not_told_is_told_before_the_next_commit(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    wr_ice_file *f[3];
    for (int i = 0; i < 3; i++) f[i] = data(t, 10);
    wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN, .added = &f[0], .nadded = 1, .create = true};
    OK(commit(&e, &err));
    assert_int_equal(announced(), 0);
    e.create = false, e.added = &f[1];
    wr_fault_set("state.commit:2:fail"); /* the first announces */
    OK(commit(&e, &err));
    wr_fault_set(NULL);
    assert_true(announced() > 0);
    e.added = &f[2];
    wr_fault_set("state.commit:1:fail");
    assert_int_not_equal(commit(&e, &err), WR_OK); /* not on top of what would look like leftovers */
    wr_fault_set("ice.announced:1:fail");
    err = (wr_err)WR_ERR_INIT;
    assert_int_not_equal(commit(&e, &err), WR_OK);
    wr_fault_set(NULL);
    assert_int_equal(announced(), 0);
    err = (wr_err)WR_ERR_INIT;
    OK(commit(&e, &err));
    assert_int_equal(announced(), 0);
    for (int i = 0; i < 3; i++) wr_ice_file_free(f[i]);
    wr_ice_table_free(t);
}

static void a_snapshot_that_nobody_can_read_leaves_all_the_same(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    wr_ice_file *f[12];
    char list[400] = "";
    for (int i = 0; i < 12; i++) {
        f[i] = data(t, 10);
        wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN, .added = &f[i], .nadded = 1, .create = i == 0};
        OK(commit(&e, &err));
        WR_AUTO char *uri = NULL;
        OK(wr_ice_manifest_list(t, wr_ice_ref(t, WR_ICE_MAIN), &uri, &err));
        if (i == 4) snprintf(list, sizeof list, "%s", uri);
    }
    WR_AUTO char *local = NULL;
    OK(wr_uri_canonical(list, &local, &err));
    assert_int_equal(unlink(local), 0);
    wr_ice_expire_options o = {.older_than_us = INT64_MAX, .keep = 10};
    wr_ice_expiry *x;
    OK(wr_ice_expiry_new(t, &o, &x, &err));
    assert_int_equal(wr_ice_expiry_find(x, &err), WR_E_NOTFOUND); /* it stays: what it needs is not known */
    wr_ice_expiry_free(x);
    err = (wr_err)WR_ERR_INIT;
    o.keep = 3;
    OK(wr_ice_expiry_new(t, &o, &x, &err));
    OK(wr_ice_expiry_find(x, &err));
    assert_int_equal(wr_ice_expiry_snapshots(x), 9);
    wr_ice_expiry_free(x);
    for (int i = 0; i < 12; i++) wr_ice_file_free(f[i]);
    wr_ice_table_free(t);
}

/* Others put several vectors into one file; ours never do. */
static void a_shared_puffin_file_stays_while_a_vector_in_it_is_live(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    wr_ice_file *f[2] = {data(t, 10), data(t, 10)}, *v[2] = {vector(t, f[0]->path, 3), vector(t, f[1]->path, 3)};
    wr_free(v[1]->path);
    v[1]->path = wr_strdup(v[0]->path), v[1]->content_offset = 54;
    wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN, .added = f, .nadded = 2, .create = true};
    OK(commit(&e, &err));
    e = (wr_ice_edit){.table = t, .ref = WR_ICE_MAIN, .added = v, .nadded = 2};
    OK(commit(&e, &err));
    assert_int_equal(live(t, WR_ICE_MAIN, 1), 2);
    WR_AUTO char *folder = wr_asprintf("%s/data", wr_ice_location(t));
    OK(wr_mkdirs(folder, &err));
    FILE *puffin = fopen(v[0]->path, "w");
    fclose(puffin);
    wr_ice_expire_options o = {.older_than_us = INT64_MAX, .keep = 1};
    for (int i = 0; i < 2; i++) {
        const char *removed[] = {f[i]->path};
        e = (wr_ice_edit){.table = t, .ref = WR_ICE_MAIN, .removed = removed, .nremoved = 1};
        OK(commit(&e, &err)); /* the file leaves with its vector */
        assert_int_equal(live(t, WR_ICE_MAIN, 1), 1 - i);
        wr_ice_expiry *x;
        OK(wr_ice_expiry_new(t, &o, &x, &err));
        OK(wr_ice_expiry_find(x, &err));
        e = (wr_ice_edit){.table = t, .ref = WR_ICE_MAIN, .no_snapshot = true, .expire = x};
        OK(commit(&e, &err));
        OK(wr_ice_expiry_delete(x, journal, &err));
        wr_ice_expiry_free(x);
        assert_int_equal(wr_ice_snapshot_count(t), 1);
        assert_int_equal(access(v[0]->path, F_OK), i ? -1 : 0);
    }
    for (int i = 0; i < 2; i++) wr_ice_file_free(f[i]), wr_ice_file_free(v[i]);
    wr_ice_table_free(t);
}

static void foreign(wr_ice_table *t, int64_t id, int64_t sequence, int64_t parent) {
    cJSON *s = cJSON_CreateObject(), *main = wr_json_get(wr_json_get(t->doc, "refs"), WR_ICE_MAIN);
    assert_true(wr_json_push(wr_json_array(t->doc, "snapshots"), s) && wr_json_set_num(s, "snapshot-id", id) && wr_json_set_num(s, "sequence-number", sequence) &&
                wr_json_set_num(s, "parent-snapshot-id", parent) && wr_json_set_num(main, "snapshot-id", id));
}

static void a_branch_that_others_moved_back_is_noticed(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t = new_table("t", 3);
    assert_int_equal(wr_ice_lost_snapshot(t), -1);
    wr_ice_file *f = data(t, 1);
    int64_t own[3];
    add(t, f, true);
    own[0] = wr_ice_ref(t, WR_ICE_MAIN);
    for (int i = 1; i < 3; i++) {
        wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN};
        OK(commit(&e, &err));
        own[i] = wr_ice_ref(t, WR_ICE_MAIN);
    }
    assert_int_equal(wr_ice_newest_own(t), own[2]);
    assert_int_equal(wr_ice_lost_snapshot(t), -1);
    foreign(t, 100, 4, own[2]);
    assert_int_equal(wr_ice_newest_own(t), own[2]);
    assert_int_equal(wr_ice_lost_snapshot(t), -1); /* on top of ours */
    assert_true(wr_json_set_num(wr_json_get(wr_json_get(t->doc, "refs"), WR_ICE_MAIN), "snapshot-id", own[0]));
    assert_int_equal(wr_ice_lost_snapshot(t), own[2]); /* back */
    foreign(t, 101, 5, own[0]);
    assert_int_equal(wr_ice_lost_snapshot(t), own[2]); /* and on from there */
    foreign(t, 102, 6, 99);
    assert_int_equal(wr_ice_lost_snapshot(t), -1); /* its parent has expired, and may have been on top of ours */
    foreign(t, 103, 2, 98);
    assert_int_equal(wr_ice_lost_snapshot(t), own[2]); /* older than ours */
    wr_ice_file_free(f), wr_ice_table_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        COMMIT_TEST(time_never_goes_back),
        COMMIT_TEST(a_data_file_leaves_with_its_deletes),
        COMMIT_TEST(vectors_are_replaced_never_doubled),
        COMMIT_TEST(mistakes_are_refused),
        COMMIT_TEST(old_metadata_files_go_after_twenty),
        COMMIT_TEST(cold_vectors_are_left_alone),
        COMMIT_TEST(a_stale_table_is_told_so),
        COMMIT_TEST(every_path_of_a_snapshot_is_named),
        COMMIT_TEST(each_failed_allocation_leaves_all_or_nothing),
        COMMIT_TEST(the_journal_knows_every_file_before_it_exists),
        COMMIT_TEST(a_load_begins_with_nothing_of_its_parent),
        COMMIT_TEST(what_the_journal_was_not_told_is_told_before_the_next_commit),
        COMMIT_TEST(a_snapshot_that_nobody_can_read_leaves_all_the_same),
        COMMIT_TEST(old_snapshots_expire_with_the_files_only_they_need),
        COMMIT_TEST(a_shared_puffin_file_stays_while_a_vector_in_it_is_live),
        COMMIT_TEST(a_branch_that_others_moved_back_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
