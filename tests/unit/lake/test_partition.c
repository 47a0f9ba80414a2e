/* Tables with partitions: what is in which file, and that failures leave what there was. */
#include "compact.h"
#include "lab.h"

static wr_term by_name[] = {{WR_TERM_IDENTITY, 0, (char *)"name"}};
static wr_term by_both[] = {{WR_TERM_BUCKET, 4, (char *)"id"}, {WR_TERM_TRUNCATE, 1, (char *)"name"}};
static wr_term by_id[] = {{WR_TERM_TRUNCATE, 10, (char *)"id"}};
static wr_term by_more[] = {{WR_TERM_IDENTITY, 0, (char *)"name"}, {WR_TERM_IDENTITY, 0, (char *)"more"}};
static wr_layout_rule names = {(char *)"db\\.t", by_name, 1}, both = {(char *)"db\\.t", by_both, 2}, ids = {(char *)"db\\.t", by_id, 1}, more = {(char *)"db\\.t", by_more, 2}, none = {(char *)"db\\.t", by_name, 0};

/* "a:2 b:1": tuples and rows of the files, in order of the text; a ' behind those of another spec. Static. */
static const char *files_of(wr_table *t) {
    static char out[2048];
    char *list[256];
    int n = 0;
    WR_CLEANUP(wr_specs_clear) wr_specs specs = {0};
    assert_ok(wr_table_open_files(t, err));
    assert_ok(wr_ice_specs(t->ice, &specs, err));
    for (uint32_t i = 0; i < t->nfiles; i++) {
        const wr_data_file *f = &t->files[i];
        if (!f->ice) continue;
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        const wr_spec *s = wr_specs_find(&specs, f->ice->spec_id);
        assert_non_null(s);
        assert_ok(wr_spec_text(s, wr_ice_file_tuple(f->ice), &b, err));
        wr_buf_printf(&b, ":%d%s", (int)(f->ice->records - f->ndead), s->id == t->how.spec->id ? "" : "'");
        list[n++] = strdup(wr_buf_cstr(&b));
    }
    qsort(list, (size_t)n, sizeof *list, lab_by_text);
    out[0] = 0;
    for (int i = 0; i < n; i++) snprintf(out + strlen(out), sizeof out - strlen(out), "%s%s", i ? " " : "", list[i]), free(list[i]);
    return out;
}

static void optimize(lab *l) {
    assert_ok(wr_table_optimize(wr_lake_table(l->lake, 1), true, err));
}

static void rows_go_to_files_of_their_partition_and_move(void **st) {
    for (int version = 2; version <= 3; version++) {
        lab l = {.version = version, .layout = &names};
        dir_remove(st), dir_make(st);
        lab_open(&l);
        wr_table *t = lab_create(&l, 1, "t", 1);
        lab_put(t, 1, "a"), lab_put(t, 2, "b"), lab_put(t, 3, "a"), lab_put(t, 4, NULL), lab_put(t, 5, "gone"), lab_del(t, 5, "gone");
        lab_commit(&l);
        assert_string_equal(files_of(t), "name=a:2 name=b:1 name=null:1");
        lab_set(t, 3, "a", "b"), lab_set(t, 4, NULL, "c"), lab_set(t, 1, "a", "a");
        lab_commit(&l);
        assert_string_equal(files_of(t), "name=a:1 name=b:1 name=b:1 name=c:1");
        assert_content(&l, "t", "1:a 2:b 3:b 4:c");
        lab_reopen(&l);
        t = wr_lake_table(l.lake, 1);
        assert_string_equal(files_of(t), "name=a:1 name=b:1 name=b:1 name=c:1");
        lab_del(t, 2, "b");
        lab_commit(&l);
        optimize(&l);
        assert_string_equal(files_of(t), "name=a:1 name=b:1 name=c:1");
        assert_content(&l, "t", "1:a 3:b 4:c");
        lab_close(&l);
    }
}

static void another_layout_is_taken_in_step_by_step(void **st) {
    lab l = {.version = 3};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    for (int i = 1; i <= 4; i++) lab_put(t, i, i % 2 ? "x" : "y");
    lab_commit(&l);
    l.layout = &names;
    lab_reopen(&l);
    t = wr_lake_table(l.lake, 1);
    assert_true(wr_lake_dirty(l.lake));
    lab_commit(&l);
    assert_int_equal(wr_ice_default_spec(t->ice), 1);
    lab_put(t, 5, "z"), lab_set(t, 1, "x", "z");
    lab_commit(&l);
    assert_string_equal(files_of(t), ":3' name=z:2");
    optimize(&l);
    assert_string_equal(files_of(t), "name=x:1 name=y:2 name=z:2");
    l.layout = &ids;
    lab_reopen(&l);
    t = wr_lake_table(l.lake, 1);
    optimize(&l); /* tells it, too */
    assert_string_equal(files_of(t), "id_trunc=0:5");
    l.layout = NULL; /* not said: as it is */
    lab_reopen(&l);
    t = wr_lake_table(l.lake, 1);
    assert_false(wr_lake_dirty(l.lake));
    assert_int_equal(t->how.spec->id, 2);
    l.layout = &none;
    lab_reopen(&l);
    t = wr_lake_table(l.lake, 1);
    lab_commit(&l);
    optimize(&l);
    assert_int_equal(wr_ice_default_spec(t->ice), 0);
    assert_string_equal(files_of(t), ":5");
    assert_content(&l, "t", "1:z 2:y 3:x 4:y 5:z");
    lab_close(&l);
}

static void alter(wr_table *t, const wr_column *cols, int n) {
    wr_schema *s;
    assert_ok(wr_schema_new(cols, n, wr_table_schema(t)->version + 1, &s, err));
    assert_ok(wr_table_alter(t, s, false, err));
    wr_schema_unref(s);
}

static void a_column_that_goes_takes_the_files_of_its_partitions_along(void **st) {
    lab l = {.version = 3, .layout = &more};
    lab_open(&l);
    wr_schema *s = lab_schema(3, 1, 1);
    wr_table *t;
    assert_ok(wr_lake_create(l.lake, 1, "db", "t", s, &t, err));
    for (int i = 1; i <= 3; i++) lab_put(t, i, i % 2 ? "x" : "y");
    lab_commit(&l);
    assert_string_equal(files_of(t), "name=x, more=null:2 name=y, more=null:1");
    const wr_column cols[] = {s->cols[0], s->cols[1]};
    alter(t, cols, 2);
    lab_put(t, 4, "z");
    lab_commit(&l);
    assert_string_equal(files_of(t), "name=x:2 name=y:1 name=z:1");
    assert_content(&l, "t", "1:x 2:y 3:x 4:z");
    lab_reopen(&l); /* the rule still names it */
    t = wr_lake_table(l.lake, 1);
    assert_false(wr_lake_dirty(l.lake));
    const wr_column renamed[] = {s->cols[0], {.name = (char *)"title", .id = 2, .type = {.kind = WR_STRING}, .nullable = true}, {.name = (char *)"name", .id = 9, .type = {.kind = WR_STRING}, .nullable = true}};
    const wr_column first[] = {renamed[0], renamed[1]};
    alter(t, first, 2);
    assert_string_equal(t->how.spec->fields[0].name, "name");
    assert_int_equal(t->how.spec->fields[0].source_id, 2);
    alter(t, renamed, 3); /* and the name is another column's now: the rule means that one */
    lab_commit(&l);
    assert_int_equal(t->how.spec->fields[0].source_id, 9);
    WR_CLEANUP(wr_specs_clear) wr_specs specs = {0};
    assert_ok(wr_ice_specs(t->ice, &specs, err));
    for (int i = 0; i < specs.n; i++)
        for (int k = 0; k < specs.v[i]->n; k++) assert_true(strcmp(specs.v[i]->fields[k].name, "name") != 0 || specs.v[i]->fields[k].source_id == 9);
    assert_content(&l, "t", "1:x: 2:y: 3:x: 4:z:");
    wr_schema_unref(s);
    lab_close(&l);
}

static void what_does_not_fit_stops_where_it_never_did(void **st) {
    static wr_term odd[] = {{WR_TERM_DAY, 0, (char *)"name"}}, missing[] = {{WR_TERM_IDENTITY, 0, (char *)"nope"}};
    static wr_layout_rule day = {(char *)"db\\.t", odd, 1}, nope = {(char *)"db\\.t", missing, 1};
    lab l = {.version = 3, .layout = &day};
    lab_open(&l);
    wr_schema *s = lab_schema(2, 1, 1);
    wr_table *t;
    wr_err e = WR_ERR_INIT;
    assert_int_equal(wr_lake_create(l.lake, 1, "db", "t", s, &t, &e), WR_E_CONFIG);
    assert_non_null(strstr(e.msg, "day(name): column name of lake table db.t is of type string"));
    assert_ok(wr_lake_create(l.lake, 2, "db", "other", s, &t, err));
    lab_commit(&l);
    l.layout = NULL;
    lab_reopen(&l);
    assert_ok(wr_lake_create(l.lake, 1, "db", "t", s, &t, err));
    lab_commit(&l), lab_close(&l);
    l.layout = &nope;
    wr_err e2 = WR_ERR_INIT;
    assert_int_equal(lab_try_open(&l, &e2), WR_E_CONFIG);
    assert_non_null(strstr(e2.msg, "lake table db.t has no column nope"));
    wr_schema_unref(s);
    wr_engine_close(l.engine), wr_state_close(l.state);
}

static void a_load_that_is_thin_is_spread_when_it_is_whole(void **st) {
    lab l = {.version = 3, .layout = &ids};
    lab_open(&l);
    wr_table *t = lab_create(&l, 1, "t", 1);
    wr_schema *s = wr_schema_ref(wr_table_schema(t));
    assert_ok(wr_table_load_begin(t, s, "{}", err));
    lab_commit(&l);
    for (int part = 0; part < 2; part++) {
        wr_load_writer *w;
        assert_ok(wr_load_writer_new(t, &w, err));
        for (int64_t i = 0; i < (part ? 100 : 400); i++) {
            WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
            lab_row(s, part * 1000 + i, "loaded", &b);
            assert_ok(wr_load_writer_append(w, wr_buf_view(&b), err));
        }
        assert_ok(wr_load_writer_hand_over(w, err));
        wr_load_writer_free(w);
        assert_ok(wr_table_load_commit(t, "{}", err));
    }
    assert_ok(wr_table_publish(t, err));
    lab_commit(&l);
    assert_string_equal(files_of(t), ":400' id_trunc=1000:10 id_trunc=1010:10 id_trunc=1020:10 id_trunc=1030:10 id_trunc=1040:10 id_trunc=1050:10 id_trunc=1060:10 id_trunc=1070:10 id_trunc=1080:10 id_trunc=1090:10");
    for (int64_t i = 5; i < 400; i += 10) lab_del(t, i, "loaded");
    lab_commit(&l);
    optimize(&l);
    int n = 0;
    for (uint32_t i = 0; i < t->nfiles; i++) n += t->files[i].ice != NULL;
    assert_int_equal(n, 50), assert_null(strchr(files_of(t), '\''));
    lab_del(t, 7, "loaded");
    lab_commit(&l);
    assert_content(&l, "t", "459 rows");
    wr_schema_unref(s);
    lab_close(&l);
}

/* A commit that fails, wherever, leaves catalog and table as they were and can be tried again. */
static void a_commit_that_fails_is_tried_again(void **st) {
    static const char *const points[] = {"lake.before_data_file:1", "lake.before_data_file:3", "parquet_write:2", "lake.run:1", "ice.announced:1", "ice.write:1", "ice.write:4", "ice.synced:1", "ice.sql:1", "ice.puffin:1"};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        lab l = {.version = 3, .layout = &both};
        char spec[64];
        dir_remove(st), dir_make(st);
        lab_open(&l);
        wr_table *t = lab_create(&l, 1, "t", 1);
        for (int k = 0; k < 12; k++) lab_put(t, k, k % 3 ? "ab" : "cd");
        lab_commit(&l);
        for (int k = 0; k < 12; k += 2) lab_set(t, k, k % 3 ? "ab" : "cd", "ef");
        snprintf(spec, sizeof spec, "%s:fail", points[i]);
        wr_fault_set(spec);
        wr_err e = WR_ERR_INIT;
        wr_code rc = lab_try_commit(&l, &e);
        wr_fault_set(NULL);
        if (rc == WR_OK) {
            assert_string_equal(points[i], "lake.run:1"); /* runs of a few rows are not kept */
        } else {
            assert_content(&l, "t", "0:cd 10:ab 11:ab 1:ab 2:ab 3:cd 4:ab 5:ab 6:cd 7:ab 8:ab 9:cd");
            lab_commit(&l);
        }
        assert_content(&l, "t", "0:ef 10:ef 11:ab 1:ab 2:ef 3:cd 4:ef 5:ab 6:ef 7:ab 8:ef 9:cd");
        lab_close(&l);
    }
}

static void each_failed_allocation_is_reported_and_tried_again(void **st) {
    bool over = false;
    for (uint64_t n = 1; !over; n += 1 + n / 40) {
        lab l = {.version = 3, .layout = &both};
        dir_remove(st), dir_make(st);
        lab_open(&l);
        wr_table *t = lab_create(&l, 1, "t", 1);
        for (int k = 0; k < 9; k++) lab_put(t, k, k % 3 ? "ab" : "cd");
        wr_err e = WR_ERR_INIT;
        wr_mem_fail_after(n);
        wr_code rc = lab_try_commit(&l, &e);
        over = wr_mem_fail_after(0) > 0;
        if (rc != WR_OK && e.retry != WR_RETRY_AFTER_RELOAD) lab_commit(&l);
        if (rc == WR_OK || e.retry != WR_RETRY_AFTER_RELOAD) assert_content(&l, "t", "0:cd 1:ab 2:ab 3:cd 4:ab 5:ab 6:cd 7:ab 8:ab");
        lab_close(&l);
    }
}

int main(void) {
    w_fast_folder();
    const struct CMUnitTest tests[] = {
        IN_DIR(rows_go_to_files_of_their_partition_and_move),
        IN_DIR(another_layout_is_taken_in_step_by_step),
        IN_DIR(a_column_that_goes_takes_the_files_of_its_partitions_along),
        IN_DIR(what_does_not_fit_stops_where_it_never_did),
        IN_DIR(a_load_that_is_thin_is_spread_when_it_is_whole),
        IN_DIR(a_commit_that_fails_is_tried_again),
        IN_DIR(each_failed_allocation_is_reported_and_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
