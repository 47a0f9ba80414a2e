#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "iceberg/catalog.h"
#include "iceberg/rest_call.h"
#include "lake/mini_catalog.h"
#include "weir/base/fault.h"
#include "weir/io.h"

/* Data files here are names only: a commit never opens them. */
static wr_ice_catalog *catalog;
static wr_state *journal;
static wr_schema *schema, *wider;
static wr_err err;
static int serial;
static char uri[64];

static int set_up(void **state) {
    wr_column cols[] = {{.name = "id", .id = 1, .type = {.kind = WR_LONG}, .key_ord = 1},
                        {.name = "s", .id = 2, .type = {.kind = WR_STRING}, .nullable = true},
                        {.name = "n", .id = 3, .type = {.kind = WR_INT}, .nullable = true}};
    if (make_folder(state) != 0) return -1;
    mini_start();
    snprintf(uri, sizeof uri, "http://127.0.0.1:%d", mini.srv.port);
    err = (wr_err)WR_ERR_INIT;
    wr_rest_options rest = {.uri = uri};
    OK(wr_ice_catalog_open(&(wr_ice_catalog_options){.path = in_folder("catalog.db"), .rest = &rest}, &catalog, &err));
    catalog->rest->patience_us = 20000000;
    OK(wr_state_open(in_folder("state.db"), &journal, &err));
    OK(wr_schema_new(cols, 2, 1, &schema, &err));
    OK(wr_schema_new(cols, 3, 2, &wider, &err));
    serial = 0;
    return 0;
}
static int tear_down(void **state) {
    wr_fault_set(NULL);
    wr_ice_catalog_close(catalog);
    wr_state_close(journal);
    wr_schema_unref(schema), wr_schema_unref(wider);
    mini_stop();
    return drop_folder(state);
}
#define REST_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static wr_ice_table *new_table(const char *name) {
    wr_ice_table *t;
    OK(wr_ice_new(NULL, "ns", name, in_folder(name), 3, schema, &t, &err));
    return t;
}
static wr_ice_file *data(wr_ice_table *t) {
    WR_AUTO char *path = wr_asprintf("%s/data/%05d.parquet", wr_ice_location(t), serial++);
    wr_ice_file *f = wr_ice_file_new(WR_ICE_DATA, path);
    f->format = wr_strdup("PARQUET"), f->records = 10, f->bytes = 100;
    return f;
}
static wr_code commit(wr_ice_edit *e, int n, uint64_t offset) {
    wr_ice_progress p = {.pipeline = "p", .offset = offset};
    return wr_err_clear(&err), wr_ice_commit(catalog, journal, e, n, offset ? &p : NULL, &err);
}
static wr_code append_as(wr_ice_table *t, wr_ice_edit e, uint64_t offset) {
    wr_ice_file *f = data(t);
    e.table = t, e.added = &f, e.nadded = 1;
    if (!e.ref) e.ref = WR_ICE_MAIN;
    wr_code rc = commit(&e, 1, offset);
    wr_ice_file_free(f);
    return rc;
}
static wr_code append(wr_ice_table *t, uint64_t offset) { return append_as(t, (wr_ice_edit){.create = !wr_ice_metadata_location(t)}, offset); }
static wr_ice_table *created(const char *name) {
    wr_ice_table *t = new_table(name);
    OK(append(t, 0));
    return t;
}
static uint64_t progress(void) {
    uint64_t offset = 0;
    wr_pos pos;
    int64_t us;
    OK(wr_ice_catalog_progress(catalog, "p", &offset, &pos, &us, &err));
    wr_pos_clear(&pos);
    return offset;
}
static int snapshots(const char *name) {
    mini_table *t = mini_find("ns", name);
    return t ? cJSON_GetArraySize(wr_json_get(t->meta, "snapshots")) : -1;
}
static wr_code count_file(void *ctx, const char *path, int64_t us, wr_err *e) { return ++*(int *)ctx, WR_OK; }
static int announced(void) {
    int n = 0;
    OK(wr_state_file_each(journal, count_file, &n, &err));
    return n;
}
static bool settled(void) {
    bool yes = false;
    OK(wr_ice_settle(catalog, journal, &yes, &err));
    return yes;
}
static int pending(void) {
    WR_AUTO char *text = NULL;
    OK(wr_state_get(journal, "rest.pending", &text, &err));
    cJSON *list = text ? cJSON_Parse(text) : NULL;
    int n = cJSON_GetArraySize(list);
    cJSON_Delete(list);
    return n;
}
#define POSTS(name) mini_count("POST /v1/namespaces/ns/tables/" name)

/* ------------------------------------------------------------------ what it is for */
static void a_table_is_made_with_its_namespace_and_filled(void **state) {
    wr_ice_table *t = new_table("t"), *again;
    OK(append(t, 7));
    assert_int_equal(progress(), 7);
    assert_string_equal(wr_ice_metadata_location(t), "file:///m/1.json");
    assert_int_equal(mini_count("POST /v1/namespaces "), 0);
    assert_int_equal(POSTS("t"), 2); /* the namespace was missing */
    OK(append(t, 8));
    OK(append(t, 9));
    assert_int_equal(snapshots("t"), 3), assert_int_equal(POSTS("t"), 4);
    assert_int_equal(wr_ice_snapshot_count(t), 3);
    OK(wr_ice_load(catalog, "ns", "t", &again, &err));
    assert_true(wr_ice_ref(again, WR_ICE_MAIN) == wr_ice_ref(t, WR_ICE_MAIN));
    assert_string_equal(wr_ice_location(again), in_folder("t"));
    assert_int_equal(announced(), 0), assert_int_equal(pending(), 0), assert_true(settled());
    wr_ice_table_free(t), wr_ice_table_free(again);
}

static void no_metadata_file_is_written(void **state) {
    wr_ice_table *t = created("t");
    WR_AUTO char *cmd = wr_asprintf("ls '%s/metadata' | grep -c json >/dev/null", wr_ice_location(t));
    assert_int_not_equal(system(cmd), 0);
    wr_ice_table_free(t);
}

static void a_load_on_its_branch_is_published(void **state) {
    wr_ice_table *t = created("t");
    OK(append_as(t, (wr_ice_edit){.ref = WR_ICE_LOAD, .restart_ref = true, .schema = wider}, 0));
    assert_true(wr_ice_ref(t, WR_ICE_LOAD) > 0 && wr_ice_ref(t, WR_ICE_LOAD) != wr_ice_ref(t, WR_ICE_MAIN));
    assert_int_equal(wr_meta_num(t->doc, "current-schema-id", -1), 0);
    int64_t head = wr_ice_ref(t, WR_ICE_LOAD);
    OK(commit(&(wr_ice_edit){.table = t, .ref = WR_ICE_LOAD, .publish = true, .no_snapshot = true}, 1, 5));
    assert_true(wr_ice_ref(t, WR_ICE_MAIN) == head && wr_ice_ref(t, WR_ICE_LOAD) == -1);
    assert_int_equal(wr_meta_num(mini_find("ns", "t")->meta, "current-schema-id", -1), 1);
    wr_schema *s;
    OK(wr_ice_schema(t, &s, &err));
    assert_int_equal(s->ncols, 3);
    wr_schema_unref(s), wr_ice_table_free(t);
}

static void a_schema_of_before_keeps_its_number(void **state) {
    wr_ice_table *t = created("t");
    OK(append_as(t, (wr_ice_edit){.schema = wider, .set_current_schema = true}, 0));
    OK(append_as(t, (wr_ice_edit){.schema = schema, .set_current_schema = true}, 0)); /* the catalog spells the first its own way */
    assert_int_equal(cJSON_GetArraySize(wr_json_get(t->doc, "schemas")), 2);
    assert_int_equal(wr_meta_num(t->doc, "current-schema-id", -1), 0);
    wr_ice_table_free(t);
}

static void a_catalog_that_numbers_schemas_otherwise_is_refused(void **state) {
    wr_ice_table *t = created("t");
    mini.misnumber = 10;
    assert_int_equal(append_as(t, (wr_ice_edit){.schema = wider, .set_current_schema = true}, 0), WR_E_UNSUPPORTED);
    assert_true(err.retry == WR_RETRY_NO && err.cure[0] && strstr(err.msg, "number 1"));
    wr_ice_table_free(t);
}

static void a_table_is_dropped(void **state) {
    wr_ice_table *t = created("t");
    OK(commit(&(wr_ice_edit){.table = t, .ref = WR_ICE_MAIN, .drop = true}, 1, 3));
    assert_int_equal(mini.nt, 0), assert_int_equal(mini_count("purgeRequested=false"), 1), assert_null(wr_ice_metadata_location(t));
    wr_ice_table_free(t);
}

/* ------------------------------------------------------------------ answers that do not come */
static void a_commit_is_made_once_whatever_becomes_of_its_answer(void **state) {
    static const struct { mini_step step; int posts; } cases[] = {
        {{"POST", "/tables/t", MINI_REFUSE, 503, NULL}, 2}, {{"POST", "/tables/t", MINI_REFUSE, 429, NULL}, 2}, {{"POST", "/tables/t", MINI_DONE_BUT, 500, NULL}, 1},
        {{"POST", "/tables/t", MINI_DONE_BUT, 504, NULL}, 1}, {{"POST", "/tables/t", MINI_CUT, 0, NULL}, 2}, {{"POST", "/tables/t", MINI_DONE_CUT, 0, NULL}, 1},
        {{"POST", "/tables/t", MINI_DONE_BUT, 409, NULL}, 1}, {{"POST", "/tables/t", MINI_DONE_BUT, 400, NULL}, 1}, {{"POST", "/tables/t", MINI_SAY, 0, "{\"metadata"}, 1},
        {{"POST", "/tables/t", MINI_SAY, 0, "[7]"}, 1}, {{"POST", "/tables/t", MINI_SAY, 0, ""}, 1}, {{"POST", "/tables/t", MINI_SAY_ONLY, 0, "{}"}, 2},
    };
    wr_ice_table *t = created("t");
    int expected = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int before = POSTS("t");
        mini_script(&cases[i].step, 1);
        OK(append(t, i + 1));
        assert_int_equal(snapshots("t"), ++expected), assert_int_equal(POSTS("t"), before + cases[i].posts), assert_int_equal(progress(), i + 1);
        assert_int_equal(wr_ice_snapshot_count(t), expected), assert_int_equal(announced(), 0), assert_int_equal(pending(), 0);
    }
    wr_ice_table_free(t);
}

static void a_new_table_is_made_once_whatever_becomes_of_the_answer(void **state) {
    static const mini_step cases[] = {
        {"POST", "/tables/", MINI_REFUSE, 503, NULL}, {"POST", "/tables/", MINI_DONE_BUT, 500, NULL}, {"POST", "/tables/", MINI_CUT, 0, NULL},
        {"POST", "/tables/", MINI_DONE_CUT, 0, NULL}, {"POST", "/tables/", MINI_DONE_BUT, 409, NULL},
    };
    wr_ice_table_free(created("first"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[20];
        snprintf(name, sizeof name, "t%zu", i);
        mini_script(&cases[i], 1);
        wr_ice_table_free(created(name));
        assert_int_equal(snapshots(name), 1);
    }
}

static void an_edit_without_a_snapshot_is_recognised_too(void **state) {
    wr_ice_table *t = created("t");
    const char *key = "k", *val = "v";
    SCRIPT({"POST", "/tables/t", MINI_DONE_CUT, 0, NULL});
    OK(commit(&(wr_ice_edit){.table = t, .ref = WR_ICE_MAIN, .no_snapshot = true, .prop_keys = &key, .prop_vals = &val, .nprops = 1}, 1, 0));
    assert_int_equal(POSTS("t"), 3);
    assert_string_equal(wr_ice_property(t, "k"), "v");
    wr_ice_table_free(t);
}

static void a_late_first_request_does_no_harm(void **state) {
    wr_ice_table *t = created("t");
    SCRIPT({"POST", "/tables/t", MINI_LATE_CUT, 0, NULL});
    OK(append(t, 4));
    assert_int_equal(mini_late(), 409), assert_int_equal(snapshots("t"), 2);
    wr_ice_table_free(t);
}

static void what_was_never_sent_leaves_everything_as_it_was(void **state) {
    wr_ice_table *t = created("t");
    WR_AUTO char *base = catalog->rest->base;
    catalog->rest->base = wr_strdup("http://127.0.0.1:1/v1");
    assert_int_equal(append(t, 4), WR_E_NET);
    assert_int_equal(err.retry, WR_RETRY_SOON), assert_int_equal(announced(), 0), assert_int_equal(pending(), 0), assert_int_equal(progress(), 0);
    wr_free(catalog->rest->base), catalog->rest->base = wr_strdup(base);
    OK(append(t, 4));
    assert_int_equal(snapshots("t"), 2);
    wr_ice_table_free(t);
}

static void an_outcome_that_stays_unknown_keeps_every_file(void **state) {
    wr_ice_table *t = created("t");
    catalog->rest->patience_us = 400000;
    mini_step dead[8];
    for (int i = 0; i < 8; i++) dead[i] = (mini_step){"POST", "/tables/t", MINI_REFUSE, 503, NULL};
    mini_script(dead, 8);
    assert_int_equal(append(t, 4), WR_E_SERVER);
    assert_int_equal(err.retry, WR_RETRY_AFTER_RELOAD);
    assert_non_null(strstr(err.msg, "unknown"));
    assert_int_equal(announced(), 2), assert_int_equal(pending(), 1), assert_int_equal(progress(), 0);
    mini.nsteps = 0;
    wr_ice_table_free(t);
    wr_ice_table *other = created("other"); /* another commit does not forget it */
    assert_int_equal(pending(), 1);
    assert_false(settled()); /* it may come yet */
    OK(append(other, 0));
    assert_int_equal(pending(), 1);
    mini_foreign("ns", "t"); /* now it cannot */
    assert_true(settled());
    assert_int_equal(pending(), 0);
    wr_ice_table_free(other);
}

static void a_request_that_came_through_after_all_is_found_at_the_next_start(void **state) {
    wr_ice_table *t = created("t");
    catalog->rest->patience_us = 1;
    SCRIPT({"POST", "/tables/t", MINI_LATE_CUT, 0, NULL});
    assert_int_not_equal(append(t, 4), WR_OK);
    assert_int_equal(err.retry, WR_RETRY_AFTER_RELOAD);
    assert_false(settled());
    assert_int_equal(mini_late(), 200);
    assert_true(settled());
    wr_ice_table_free(t);
}

static void a_table_that_may_still_be_made_keeps_its_files(void **state) {
    wr_ice_table_free(created("first"));
    wr_ice_table *t = new_table("t");
    catalog->rest->patience_us = 1;
    SCRIPT({"POST", "/tables/t", MINI_LATE_CUT, 0, NULL});
    assert_int_not_equal(append(t, 4), WR_OK);
    assert_false(settled());
    assert_int_equal(mini_late(), 200);
    assert_true(settled());
    wr_ice_table_free(t);
}

static void a_damaged_note_of_what_is_pending_is_an_error(void **state) {
    bool yes;
    static const char *const texts[] = {"{", "[7]", "[{\"ns\":\"a\"}]", "[{\"ns\":1,\"name\":\"b\",\"uuid\":\"c\",\"commit\":\"d\",\"main\":1,\"load\":1,\"snapshot\":1}]"};
    for (size_t i = 0; i < 4; i++) {
        OK(wr_state_set(journal, "rest.pending", texts[i], &err));
        assert_int_not_equal(wr_ice_settle(catalog, journal, &yes, &err), WR_OK);
        wr_err_clear(&err);
    }
}

/* ------------------------------------------------------------------ others */
static void a_foreign_commit_is_a_conflict_and_nothing_stays(void **state) {
    wr_ice_table *t = created("t");
    SCRIPT({"POST", "/tables/t", MINI_MEANWHILE, 0, NULL});
    assert_int_equal(append(t, 4), WR_E_CONFLICT);
    assert_int_equal(err.retry, WR_RETRY_AFTER_RELOAD);
    assert_non_null(strstr(err.msg, "ns.t"));
    assert_int_equal(announced(), 0), assert_int_equal(pending(), 0), assert_int_equal(progress(), 0);
    assert_int_equal(POSTS("t"), 3);
    wr_ice_table_free(t);
}

static void a_refusal_because_of_a_foreign_commit_is_a_conflict_whatever_it_is_called(void **state) {
    wr_ice_table *t = created("t");
    mini_foreign("ns", "t");
    SCRIPT({"POST", "/tables/t", MINI_REFUSE, 400, "ValidationException"});
    assert_int_equal(append(t, 4), WR_E_CONFLICT);
    assert_int_equal(err.retry, WR_RETRY_AFTER_RELOAD);
    wr_ice_table_free(t);
}

static void a_refusal_for_another_reason_is_told_as_it_is(void **state) {
    wr_ice_table *t = created("t");
    SCRIPT({"POST", "/tables/t", MINI_REFUSE, 400, "BadRequestException"});
    assert_int_equal(append(t, 4), WR_E_SERVER);
    assert_int_equal(err.retry, WR_RETRY_NO);
    assert_non_null(strstr(err.msg, "mini says 400"));
    SCRIPT({"POST", "/tables/t", MINI_REFUSE, 403, NULL});
    assert_int_equal(append(t, 4), WR_E_AUTH);
    assert_int_equal(err.retry, WR_RETRY_NO), assert_int_equal(announced(), 0), assert_int_equal(pending(), 0);
    wr_ice_table_free(t);
}

static void a_commit_on_top_of_a_lost_answer_is_met_by_the_next(void **state) {
    wr_ice_table *t = created("t");
    SCRIPT({"POST", "/tables/t", MINI_DONE_CUT, 0, NULL}, {"GET", "/tables/t", MINI_MEANWHILE, 0, NULL});
    OK(append(t, 4));
    assert_int_equal(progress(), 4), assert_int_equal(snapshots("t"), 3);
    assert_int_equal(append(t, 5), WR_E_CONFLICT);
    assert_int_equal(snapshots("t"), 3);
    wr_ice_table_free(t);
}

static void a_table_that_left_is_a_conflict(void **state) {
    wr_ice_table *t = created("t");
    cJSON_Delete(mini.t[0].meta), free(mini.t[0].ns), free(mini.t[0].name), mini.nt = 0;
    assert_int_equal(append(t, 4), WR_E_CONFLICT);
    assert_non_null(strstr(err.msg, "dropped"));
    wr_ice_table_free(t);
}

static void a_name_that_somebody_else_has_is_taken(void **state) {
    wr_ice_table *theirs = created("t"), *t = new_table("t");
    assert_int_equal(append(t, 4), WR_E_EXISTS);
    assert_int_equal(err.retry, WR_RETRY_AFTER_RELOAD) /* whose it is, opening tells */, assert_int_equal(snapshots("t"), 1), assert_int_equal(announced(), 0);
    SCRIPT({"POST", "/tables/v", MINI_REFUSE, 409, "AlreadyExistsException"}); /* a view */
    wr_ice_table *v = new_table("v");
    assert_int_equal(append(v, 4), WR_E_EXISTS);
    wr_ice_table_free(t), wr_ice_table_free(v), wr_ice_table_free(theirs);
}

static void a_token_that_ran_out_in_a_commit_is_renewed(void **state) {
    wr_ice_table *t = created("t");
    catalog->rest->client_secret = wr_strdup("s"), catalog->rest->oauth2_server_uri = wr_asprintf("%s/v1/oauth/tokens", uri);
    mini.want_auth = "Bearer fresh", mini.token = "{\"access_token\":\"fresh\"}";
    OK(append(t, 4));
    assert_int_equal(snapshots("t"), 2), assert_int_equal(mini_count("oauth"), 1);
    wr_ice_table_free(t);
}

/* ------------------------------------------------------------------ names */
static wr_ice_edit rename_of(wr_ice_table *t, const char *name) {
    return (wr_ice_edit){.table = t, .ref = WR_ICE_MAIN, .no_snapshot = true, .new_ns = "ns", .new_name = name};
}
static bool is_under(const char *name, const wr_ice_table *t) {
    mini_table *m = mini_find("ns", name);
    return m && strcmp(wr_json_str(m->meta, "table-uuid"), wr_ice_uuid(t)) == 0;
}

static void names_are_swapped(void **state) {
    wr_ice_table *a = created("a"), *b = created("b");
    wr_ice_edit e[2] = {rename_of(a, "b"), rename_of(b, "a")};
    OK(commit(e, 2, 4));
    assert_true(is_under("b", a) && is_under("a", b)), assert_string_equal(a->name, "b");
    OK(append(a, 5));
    assert_int_equal(snapshots("b"), 2);
    wr_ice_table_free(a), wr_ice_table_free(b);
}

static void names_go_round_with_rows_and_a_new_table_takes_the_first(void **state) {
    wr_ice_table *a = created("a"), *b = created("b"), *c = new_table("a"), *d = created("d"), *e2 = new_table("d");
    wr_ice_file *f = data(a), *g = data(c), *h = data(e2);
    wr_ice_edit e[] = {{.table = a, .ref = WR_ICE_MAIN, .added = &f, .nadded = 1, .new_ns = "ns", .new_name = "b"},
                       rename_of(b, "z"),
                       {.table = c, .ref = WR_ICE_MAIN, .added = &g, .nadded = 1, .create = true},
                       {.table = d, .ref = WR_ICE_MAIN, .drop = true},
                       {.table = e2, .ref = WR_ICE_MAIN, .added = &h, .nadded = 1, .create = true}};
    OK(commit(e, 5, 4));
    assert_true(is_under("b", a) && is_under("z", b) && is_under("a", c) && is_under("d", e2));
    assert_int_equal(mini.nt, 4), assert_int_equal(snapshots("b"), 2);
    wr_ice_file_free(f), wr_ice_file_free(g), wr_ice_file_free(h);
    wr_ice_table_free(a), wr_ice_table_free(b), wr_ice_table_free(c), wr_ice_table_free(d), wr_ice_table_free(e2);
}

static void a_table_is_renamed_once_whatever_becomes_of_the_answer(void **state) {
    static const mini_step cases[] = {{"POST", "rename", MINI_REFUSE, 503, NULL}, {"POST", "rename", MINI_DONE_BUT, 500, NULL}, {"POST", "rename", MINI_CUT, 0, NULL},
                                      {"POST", "rename", MINI_DONE_CUT, 0, NULL}, {"POST", "rename", MINI_DONE_BUT, 404, NULL}};
    wr_ice_table *t = created("t");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[20];
        snprintf(name, sizeof name, "t%zu", i);
        mini_script(&cases[i], 1);
        wr_ice_edit e = rename_of(t, name);
        OK(commit(&e, 1, i + 1));
        assert_true(is_under(name, t)), assert_int_equal(mini.nt, 1), assert_string_equal(t->name, name);
    }
    wr_ice_table_free(t);
}

static void a_rename_into_a_new_namespace_makes_it(void **state) {
    wr_ice_table *t = created("t");
    wr_ice_edit e = rename_of(t, "t");
    e.new_ns = "up.down";
    OK(commit(&e, 1, 4));
    assert_true(mini_has_space("up") && mini_has_space("up.down")), assert_non_null(mini_find("up.down", "t"));
    wr_ice_table_free(t);
}

static void a_rename_onto_a_foreign_table_is_refused(void **state) {
    wr_ice_table *t = created("t"), *theirs = created("u");
    wr_ice_edit e = rename_of(t, "u");
    assert_int_equal(commit(&e, 1, 4), WR_E_EXISTS);
    assert_int_equal(err.retry, WR_RETRY_NO), assert_true(is_under("t", t)), assert_int_equal(progress(), 0);
    wr_ice_table_free(t), wr_ice_table_free(theirs);
}

static void a_drop_takes_its_own_table_only(void **state) {
    static const mini_step cases[] = {{"DELETE", "", MINI_REFUSE, 503, NULL}, {"DELETE", "", MINI_DONE_BUT, 500, NULL}, {"DELETE", "", MINI_DONE_CUT, 0, NULL},
                                      {"DELETE", "", MINI_CUT, 0, NULL}, {"DELETE", "", MINI_DONE_BUT, 404, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wr_ice_table *t = created("t");
        mini_script(&cases[i], 1);
        OK(commit(&(wr_ice_edit){.table = t, .ref = WR_ICE_MAIN, .drop = true}, 1, i + 1));
        assert_int_equal(mini.nt, 0);
        wr_ice_table_free(t);
    }
    wr_ice_table *t = created("t");
    assert_true(wr_json_set_str(mini.t[0].meta, "table-uuid", "another"));
    OK(commit(&(wr_ice_edit){.table = t, .ref = WR_ICE_MAIN, .drop = true}, 1, 9));
    assert_int_equal(mini.nt, 1);
    wr_ice_table_free(t);
}

/* ------------------------------------------------------------------ several tables */
static wr_ice_table *pair[2];
static wr_code append_both(uint64_t offset) {
    wr_ice_file *f[2] = {data(pair[0]), data(pair[1])};
    wr_ice_edit e[2];
    for (int i = 0; i < 2; i++) e[i] = (wr_ice_edit){.table = pair[i], .ref = WR_ICE_MAIN, .added = &f[i], .nadded = 1};
    wr_code rc = commit(e, 2, offset);
    wr_ice_file_free(f[0]), wr_ice_file_free(f[1]);
    return rc;
}
static void make_pair(void) { pair[0] = created("s"), pair[1] = created("t"); }
static void drop_pair(void) { wr_ice_table_free(pair[0]), wr_ice_table_free(pair[1]); }

static void several_tables_move_together(void **state) {
    static const struct { mini_step step; int transactions, alone; } cases[] = {
        {{"POST", "nowhere", MINI_CUT, 0, NULL}, 1, 0},          {{"POST", "transactions", MINI_REFUSE, 503, NULL}, 2, 0},
        {{"POST", "transactions", MINI_DONE_BUT, 500, NULL}, 1, 0}, {{"POST", "transactions", MINI_DONE_CUT, 0, NULL}, 1, 0},
        {{"POST", "transactions", MINI_DONE_BUT, 409, NULL}, 1, 0}, {{"POST", "transactions", MINI_CUT, 0, NULL}, 2, 0},
        {{"POST", "transactions", MINI_SAY_ONLY, 0, ""}, 1, 2},     {{"POST", "transactions", MINI_REFUSE, 413, NULL}, 1, 2},
    };
    make_pair();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int transactions = mini_count("transactions"), alone = POSTS("");
        mini_script(&cases[i].step, 1);
        OK(append_both(i + 1));
        assert_int_equal(mini_count("transactions"), transactions + cases[i].transactions), assert_int_equal(POSTS(""), alone + cases[i].alone);
        assert_int_equal(snapshots("s"), i + 2), assert_int_equal(snapshots("t"), i + 2), assert_int_equal(progress(), i + 1), assert_int_equal(pending(), 0);
    }
    drop_pair();
}

static void a_catalog_without_transactions_is_asked_once(void **state) {
    static const mini_step cases[] = {{"POST", "transactions", MINI_REFUSE, 404, "NotFound"}, {"POST", "transactions", MINI_REFUSE, 405, NULL},
                                      {"POST", "transactions", MINI_REFUSE, 501, NULL}, {"POST", "transactions", MINI_REFUSE, 406, NULL}};
    make_pair();
    for (size_t i = 0; i < 4; i++) {
        int before = mini_count("transactions");
        catalog->rest->transactions = WR_REST_UNTOLD;
        mini_script(&cases[i], 1);
        OK(append_both(2 * i + 1));
        OK(append_both(2 * i + 2));
        assert_int_equal(mini_count("transactions"), before + 1), assert_int_equal(snapshots("t"), 2 * i + 3);
    }
    drop_pair();
}

static void a_late_transaction_does_no_harm(void **state) {
    make_pair();
    SCRIPT({"POST", "transactions", MINI_LATE_CUT, 0, NULL});
    OK(append_both(4));
    assert_int_equal(mini_late(), 409), assert_int_equal(snapshots("s"), 2), assert_int_equal(snapshots("t"), 2);
    drop_pair();
}

static void a_conflict_of_one_holds_up_all(void **state) {
    make_pair();
    mini_foreign("ns", "t");
    assert_int_equal(append_both(4), WR_E_CONFLICT);
    assert_non_null(strstr(err.msg, "ns.t"));
    assert_int_equal(err.retry, WR_RETRY_AFTER_RELOAD), assert_int_equal(snapshots("s"), 1), assert_int_equal(announced(), 0), assert_int_equal(progress(), 0);
    drop_pair();
}

static void a_commit_that_stops_half_way_takes_nothing_back(void **state) {
    make_pair();
    catalog->rest->transactions = WR_REST_NOT_OFFERED;
    mini_foreign("ns", "t");
    assert_int_equal(append_both(4), WR_E_CONFLICT);
    assert_int_equal(err.retry, WR_RETRY_AFTER_RELOAD);
    assert_int_equal(snapshots("s"), 2), assert_int_equal(announced(), 4), assert_int_equal(progress(), 0), assert_true(settled());
    drop_pair();
}

static void a_transaction_that_moved_some_only_is_finished_one_by_one(void **state) {
    make_pair();
    SCRIPT({"POST", "transactions", MINI_HALF_CUT, 0, NULL});
    OK(append_both(4));
    assert_int_equal(snapshots("s"), 2), assert_int_equal(snapshots("t"), 2);
    assert_int_equal(mini_count("transactions"), 1), assert_int_equal(POSTS("t"), 2), assert_int_equal(POSTS("s"), 2);
    drop_pair();
}

static void progress_that_cannot_be_written_is_told_after_the_tables_moved(void **state) {
    wr_ice_table *t = created("t");
    wr_fault_set("ice.sql:1:fail");
    assert_int_equal(append(t, 4), WR_E_IO);
    assert_int_equal(err.retry, WR_RETRY_AFTER_RELOAD), assert_int_equal(snapshots("t"), 2), assert_int_equal(progress(), 0);
    assert_int_not_equal(announced(), 0);
    wr_ice_table_free(t);
}

static void memory_may_run_out_anywhere_before_the_request(void **state) {
    wr_ice_table *t = created("t");
    int failed = 0;
    for (uint64_t n = 1; n < 400; n += 7) {
        int before = snapshots("t");
        wr_ice_file *f = data(t);
        wr_ice_edit e = {.table = t, .ref = WR_ICE_MAIN, .added = &f, .nadded = 1};
        wr_mem_fail_after(n);
        wr_code rc = commit(&e, 1, n);
        wr_mem_fail_after(0);
        wr_ice_file_free(f);
        assert_true(rc == WR_OK ? snapshots("t") == before + 1 : snapshots("t") == before || err.retry == WR_RETRY_AFTER_RELOAD);
        failed += rc != WR_OK;
        if (rc == WR_OK || err.retry != WR_RETRY_AFTER_RELOAD) continue;
        wr_ice_table_free(t); /* as the lake does */
        OK(wr_ice_load(catalog, "ns", "t", &t, &err));
    }
    assert_true(failed > 20);
    OK(append(t, 1000));
    wr_ice_table_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        REST_TEST(a_table_is_made_with_its_namespace_and_filled),
        REST_TEST(no_metadata_file_is_written),
        REST_TEST(a_load_on_its_branch_is_published),
        REST_TEST(a_schema_of_before_keeps_its_number),
        REST_TEST(a_catalog_that_numbers_schemas_otherwise_is_refused),
        REST_TEST(a_table_is_dropped),
        REST_TEST(a_commit_is_made_once_whatever_becomes_of_its_answer),
        REST_TEST(a_new_table_is_made_once_whatever_becomes_of_the_answer),
        REST_TEST(an_edit_without_a_snapshot_is_recognised_too),
        REST_TEST(a_late_first_request_does_no_harm),
        REST_TEST(what_was_never_sent_leaves_everything_as_it_was),
        REST_TEST(an_outcome_that_stays_unknown_keeps_every_file),
        REST_TEST(a_request_that_came_through_after_all_is_found_at_the_next_start),
        REST_TEST(a_table_that_may_still_be_made_keeps_its_files),
        REST_TEST(a_damaged_note_of_what_is_pending_is_an_error),
        REST_TEST(a_foreign_commit_is_a_conflict_and_nothing_stays),
        REST_TEST(a_refusal_because_of_a_foreign_commit_is_a_conflict_whatever_it_is_called),
        REST_TEST(a_refusal_for_another_reason_is_told_as_it_is),
        REST_TEST(a_commit_on_top_of_a_lost_answer_is_met_by_the_next),
        REST_TEST(a_table_that_left_is_a_conflict),
        REST_TEST(a_name_that_somebody_else_has_is_taken),
        REST_TEST(a_token_that_ran_out_in_a_commit_is_renewed),
        REST_TEST(names_are_swapped),
        REST_TEST(names_go_round_with_rows_and_a_new_table_takes_the_first),
        REST_TEST(a_table_is_renamed_once_whatever_becomes_of_the_answer),
        REST_TEST(a_rename_into_a_new_namespace_makes_it),
        REST_TEST(a_rename_onto_a_foreign_table_is_refused),
        REST_TEST(a_drop_takes_its_own_table_only),
        REST_TEST(several_tables_move_together),
        REST_TEST(a_catalog_without_transactions_is_asked_once),
        REST_TEST(a_late_transaction_does_no_harm),
        REST_TEST(a_conflict_of_one_holds_up_all),
        REST_TEST(a_commit_that_stops_half_way_takes_nothing_back),
        REST_TEST(a_transaction_that_moved_some_only_is_finished_one_by_one),
        REST_TEST(progress_that_cannot_be_written_is_told_after_the_tables_moved),
        REST_TEST(memory_may_run_out_anywhere_before_the_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
