#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "iceberg/rest_call.h"
#include "lake/mini_catalog.h"
#include "weir/base/clock.h"

static char uri[64];
static wr_err err;

static int set_up(void **state) {
    mini_start();
    snprintf(uri, sizeof uri, "http://127.0.0.1:%d/", mini.srv.port);
    err = (wr_err)WR_ERR_INIT;
    return 0;
}
static int tear_down(void **state) { return mini_stop(), 0; }
#define REST_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static wr_rest *open_rest(const wr_rest_options *extra) {
    wr_rest_options o = extra ? *extra : (wr_rest_options){0};
    wr_rest *r = NULL;
    o.uri = uri;
    OK(wr_rest_open(&o, NULL, &r, &err));
    return r;
}
static wr_code refuse(const wr_rest_options *extra) {
    wr_rest_options o = extra ? *extra : (wr_rest_options){0};
    wr_rest *r = NULL;
    o.uri = uri;
    wr_code rc = wr_rest_open(&o, NULL, &r, &err);
    assert_null(r);
    return rc;
}

static void add_table(const char *ns, const char *name) {
    wr_column col = {.name = "id", .id = 1, .type = {.kind = WR_LONG}, .key_ord = 1};
    wr_schema *s;
    wr_ice_table *t;
    OK(wr_schema_new(&col, 1, 1, &s, &err));
    OK(wr_ice_new(NULL, ns, name, "/w/t", 3, s, &t, &err));
    mini.t[mini.nt++] = (mini_table){strdup(ns), strdup(name), cJSON_Duplicate(t->doc, 1)};
    wr_ice_table_free(t), wr_schema_unref(s);
}

/* ------------------------------------------------------------------ opening */
static void the_warehouse_is_asked_for_and_the_prefix_is_used(void **state) {
    mini.config = "{\"defaults\":{\"prefix\":\"no\"},\"overrides\":{\"prefix\":\"c/1\"},\"endpoints\":[\"GET /v1/config\",\"POST /v1/{prefix}/transactions/commit\"]}";
    wr_rest *r = open_rest(&(wr_rest_options){.warehouse = "s3://a b/ü"});
    assert_int_equal(mini_count("GET /v1/config?warehouse=s3%3A%2F%2Fa%20b%2F%C3%BC"), 1);
    assert_int_equal(r->transactions, WR_REST_OFFERED);
    assert_non_null(strstr(r->base, "/v1/c/1"));
    wr_rest_close(r);
    mini.config = "{\"endpoints\":[\"GET /v1/transactions/commit\"]}";
    r = open_rest(NULL);
    assert_int_equal(r->transactions, WR_REST_NOT_OFFERED);
    wr_rest_close(r);
}

static void a_credential_buys_a_token_and_a_fresh_one_when_it_is_refused(void **state) {
    wr_ice_table *t;
    mini.token = "{\"access_token\":\"one\",\"token_type\":\"bearer\",\"expires_in\":3600}", mini.want_auth = "Bearer one";
    wr_rest *r = open_rest(&(wr_rest_options){.credential = "me&:se:cret/", .scope = "a b"});
    assert_string_equal(mini.seen[0], "POST /v1/oauth/tokens");
    assert_string_equal(mini.bodies[0], "grant_type=client_credentials&client_id=me%26&client_secret=se%3Acret%2F&scope=a%20b");
    add_table("ns", "t");
    mini.token = "{\"access_token\":\"two\"}", mini.want_auth = "Bearer two";
    OK(wr_rest_load(r, "ns", "t", &t, &err));
    assert_int_equal(mini_count("oauth"), 2);
    wr_ice_table_free(t);
    mini.want_auth = "Bearer three"; /* a new one does not help */
    assert_int_equal(wr_rest_load(r, "ns", "t", &t, &err), WR_E_AUTH);
    assert_non_null(strstr(err.cure, "credential"));
    assert_int_equal(mini_count("oauth"), 3);
    wr_rest_close(r);
}

static void a_token_is_renewed_before_it_runs_out(void **state) {
    wr_ice_table *t;
    mini.token = "{\"access_token\":\"one\",\"expires_in\":3600}";
    wr_rest *r = open_rest(&(wr_rest_options){.credential = "secret"});
    assert_string_equal(mini.bodies[0], "grant_type=client_credentials&client_secret=secret&scope=catalog");
    assert_true(r->renew_us > wr_mono_us() + 3000 * INT64_C(1000000));
    r->renew_us = 1;
    add_table("ns", "t");
    OK(wr_rest_load(r, "ns", "t", &t, &err));
    assert_int_equal(mini_count("oauth"), 2);
    wr_ice_table_free(t), wr_rest_close(r);
}

static void a_refused_token_or_credential_names_the_way_out_and_no_secret(void **state) {
    SCRIPT({"GET", "config", MINI_REFUSE, 401, NULL}, {"POST", "oauth", MINI_SAY, 0, "{\"error\":\"invalid_client\",\"error_description\":\"who\\nare you\"}"});
    assert_int_equal(refuse(&(wr_rest_options){.token = "s3cret"}), WR_E_AUTH);
    assert_true(err.cure[0] && !strstr(err.msg, "s3cret"));
    assert_int_equal(refuse(&(wr_rest_options){.credential = "a:s3cret"}), WR_E_DECODE);
    SCRIPT({"POST", "oauth", MINI_REFUSE, 400, "invalid_client"});
    assert_int_equal(refuse(&(wr_rest_options){.credential = "a:s3cret"}), WR_E_AUTH);
    assert_true(strstr(err.msg, "invalid_client") && err.cure[0] && !strstr(err.msg, "s3cret"));
}

static void a_catalog_that_is_not_there_yet_is_asked_again(void **state) {
    SCRIPT({"GET", "config", MINI_REFUSE, 503, NULL}, {"GET", "config", MINI_CUT, 0, NULL}, {"GET", "config", MINI_REFUSE, 429, NULL},
           {"GET", "config", MINI_REFUSE, 503, NULL}, {"GET", "config", MINI_CUT, 0, NULL}, {"GET", "config", MINI_REFUSE, 502, NULL});
    wr_rest_close(open_rest(NULL));
    assert_int_equal(mini_count("config"), 7);
}

static void nonsense_at_the_start_is_an_error(void **state) {
    static const char *const texts[] = {"", "[]", "{", "{\"overrides\":{\"prefix\":\"a\\nb\"}}", "{\"overrides\":{\"uri\":\"\"}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mini.config = texts[i];
        assert_int_equal(refuse(NULL), WR_E_DECODE);
    }
    SCRIPT({"GET", "config", MINI_REFUSE, 404, NULL});
    assert_int_equal(refuse(NULL), WR_E_NOTFOUND);
    assert_non_null(strstr(err.cure, "uri"));
    SCRIPT({"GET", "config", MINI_REFUSE, 302, NULL});
    assert_int_equal(refuse(NULL), WR_E_SERVER);
}

/* ------------------------------------------------------------------ names */
static char listed[2000];
static wr_code note(void *ctx, const char *ns, const char *name, wr_err *e) {
    sprintf(listed + strlen(listed), "%s|%s;", ns, name);
    return WR_OK;
}

static void tables_of_all_namespaces_are_listed(void **state) {
    static const char *const spaces[] = {"a", "a.b", "a.b.c", "empty", "z"};
    for (size_t i = 0; i < 5; i++) mini.spaces[mini.nspaces++] = strdup(spaces[i]);
    add_table("a", "t"), add_table("a.b.c", "x/y \"q\""), add_table("z", "ü");
    wr_rest *r = open_rest(NULL);
    listed[0] = 0;
    OK(wr_rest_each(r, note, NULL, &err));
    assert_string_equal(listed, "a|t;z|ü;a.b.c|x/y \"q\";");
    assert_int_equal(mini_count("parent=a%1Fb"), 2); /* of a.b and a.b.c */
    wr_rest_close(r);
}

static void pages_are_followed_to_their_end(void **state) {
    wr_rest *r = open_rest(NULL);
    SCRIPT({"GET", "/namespaces?pageToken=", MINI_SAY, 0, "{\"namespaces\":[[\"a\"],[\"a\",\"deep\"],[\"dot.ted\"],[\"\"],7,[]],\"next-page-token\":\"p 2\"}"},
           {"GET", "/namespaces?pageToken=p%202", MINI_SAY, 0, "{\"namespaces\":[[\"b\"]],\"next-page-token\":null}"},
           {"GET", "parent=a", MINI_REFUSE, 404, NULL}, {"GET", "parent=b", MINI_REFUSE, 400, NULL},
           {"GET", "/a/tables?pageToken=", MINI_SAY, 0, "{\"identifiers\":[{\"name\":\"1\"},{\"name\":\"\"},{\"name\":2},3],\"next-page-token\":\"x\"}"},
           {"GET", "/a/tables?pageToken=x", MINI_SAY, 0, "{\"identifiers\":[{\"name\":\"2\"}],\"next-page-token\":\"\"}"},
           {"GET", "/b/tables", MINI_REFUSE, 404, NULL});
    listed[0] = 0;
    OK(wr_rest_each(r, note, NULL, &err));
    assert_string_equal(listed, "a|1;a|2;");
    SCRIPT({"GET", "pageToken=", MINI_SAY, 0, "{\"namespaces\":[],\"next-page-token\":\"p\"}"}, {"GET", "pageToken=p", MINI_SAY, 0, "{\"namespaces\":[],\"next-page-token\":\"p\"}"});
    assert_int_equal(wr_rest_each(r, note, NULL, &err), WR_E_DECODE); /* for ever the same page */
    SCRIPT({"GET", "pageToken=", MINI_SAY, 0, "{\"namespaces\":{}}"});
    assert_int_equal(wr_rest_each(r, note, NULL, &err), WR_E_DECODE);
    wr_rest_close(r);
}

static void any_name_goes_through_a_url(void **state) {
    static const char *const names[] = {"a/b", "ü x", "100%", "q?x=1&y#z", "..", "+", "\x01", "~-_."};
    wr_rest *r = open_rest(NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        wr_ice_table *t;
        add_table("n s.b/c", names[i]);
        OK(wr_rest_load(r, "n s.b/c", names[i], &t, &err));
        assert_string_equal(t->name, names[i]), assert_string_equal(t->ns, "n s.b/c");
        wr_ice_table_free(t);
    }
    assert_int_equal(mini_count("/namespaces/n%20s%1Fb%2Fc/tables/a%2Fb"), 1);
    wr_rest_close(r);
    mini.config = "{\"overrides\":{\"namespace-separator\":\"%2E\"}}";
    r = open_rest(NULL);
    wr_ice_table *t;
    assert_int_equal(wr_rest_load(r, "a.b", "t", &t, &err), WR_E_NOTFOUND);
    assert_int_equal(mini_count("/namespaces/a%2Eb/tables/t"), 1);
    wr_rest_close(r);
}

/* ------------------------------------------------------------------ loading */
static void a_table_that_is_not_there_or_not_a_table_is_told(void **state) {
    wr_ice_table *t;
    wr_rest *r = open_rest(NULL);
    assert_int_equal(wr_rest_load(r, "ns", "t", &t, &err), WR_E_NOTFOUND);
    assert_non_null(strstr(err.msg, "mini says 404"));
    add_table("ns", "t");
    static const char *const texts[] = {"",
                                        "7",
                                        "{}",
                                        "{\"metadata-location\":7,\"metadata\":{}}",
                                        "{\"metadata-location\":null,\"metadata\":{}}",
                                        "{\"metadata-location\":\"x\"}",
                                        "{\"metadata-location\":\"x\",\"metadata\":[]}",
                                        "{\"metadata-location\":\"x\",\"metadata\":{\"format-version\":3}}",
                                        "{\"metadata-location\":\"x\",\"metadata\":{\"format-version\":\"3\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        SCRIPT({"GET", "/t", MINI_SAY, 0, texts[i]});
        assert_int_equal(wr_rest_load(r, "ns", "t", &t, &err), WR_E_DECODE);
    }
    SCRIPT({"GET", "/t", MINI_REFUSE, 403, NULL});
    assert_int_equal(wr_rest_load(r, "ns", "t", &t, &err), WR_E_AUTH);
    assert_true(err.retry == WR_RETRY_NO && err.cure[0]);
    wr_rest_close(r);
}

static void a_catalog_that_stays_away_is_worth_another_try_later(void **state) {
    wr_ice_table *t;
    wr_rest *r = open_rest(NULL);
    r->attempts = 5;
    add_table("ns", "t");
    SCRIPT({"GET", "/t", MINI_REFUSE, 503, NULL}, {"GET", "/t", MINI_REFUSE, 502, NULL}, {"GET", "/t", MINI_CUT, 0, NULL}, {"GET", "/t", MINI_CUT, 0, NULL},
           {"GET", "/t", MINI_REFUSE, 500, NULL});
    assert_int_equal(wr_rest_load(r, "ns", "t", &t, &err), WR_E_SERVER);
    assert_int_equal(err.retry, WR_RETRY_SOON);
    assert_int_equal(mini_count("GET /v1/namespaces/ns/tables/t"), 5);
    wr_rest_close(r);
}

typedef struct loan { char prefix[100], key[40], secret[40], token[40]; } loan;
static loan loans[4];
static int nloans;
static wr_code borrow(void *ctx, const char *prefix, const wr_s3_credentials *c, wr_err *e) {
    loan *l = &loans[nloans++];
    snprintf(l->prefix, 100, "%s", prefix), snprintf(l->key, 40, "%s", c->access_key), snprintf(l->secret, 40, "%s", c->secret_key);
    snprintf(l->token, 40, "%s", c->session_token ? c->session_token : "-");
    return WR_OK;
}
static wr_code read_with(const char *extra) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_ice_table *t = NULL;
    wr_buf_printf(&b, "{\"metadata-location\":\"s3://m\",\"metadata\":");
    OK(wr_json_print(mini.t[0].meta, &b, &err));
    wr_buf_printf(&b, "%s}", extra);
    nloans = 0;
    wr_code rc = wr_rest_read_table(wr_buf_view(&b), "t", borrow, NULL, &t, &err);
    wr_ice_table_free(t);
    return rc;
}

static void credentials_of_an_answer_are_lent(void **state) {
    add_table("ns", "t");
    OK(read_with(""));
    assert_int_equal(nloans, 0);
    OK(read_with(",\"config\":{\"s3.access-key-id\":\"K\",\"s3.secret-access-key\":\"S\",\"s3.session-token\":\"T\"}"));
    assert_int_equal(nloans, 1);
    assert_string_equal(loans[0].prefix, "/w/t"), assert_string_equal(loans[0].key, "K"), assert_string_equal(loans[0].token, "T");
    OK(read_with(",\"config\":{\"s3.access-key-id\":\"K\",\"s3.secret-access-key\":\"S\"},\"storage-credentials\":[{\"prefix\":\"s3://b/\",\"config\":"
                 "{\"s3.access-key-id\":\"K1\",\"s3.secret-access-key\":\"S1\"}},{\"prefix\":\"gs://\",\"config\":{\"gcs.token\":\"x\"}},7,{\"prefix\":3,\"config\":[]}]"));
    assert_int_equal(nloans, 1);
    assert_string_equal(loans[0].prefix, "s3://b/"), assert_string_equal(loans[0].secret, "S1"), assert_string_equal(loans[0].token, "-");
    assert_int_equal(read_with(",\"config\":{\"s3.access-key-id\":\"K\\r\\nX: y\",\"s3.secret-access-key\":\"S\"}"), WR_E_DECODE);
    OK(read_with(",\"config\":{\"s3.access-key-id\":1,\"s3.secret-access-key\":null}"));
    assert_int_equal(nloans, 0);
}

#define LOAN(until) ",\"config\":{\"s3.access-key-id\":\"K\",\"s3.secret-access-key\":\"S\",\"s3.session-token-expires-at-ms\":\"" until "\"}"
static void credentials_that_run_out_are_asked_for_again(void **state) {
    wr_rest_options o = {.uri = uri};
    wr_store *store;
    wr_rest *r;
    wr_ice_table *t;
    OK(wr_store_open(&(wr_store_options){0}, &store, &err));
    OK(wr_rest_open(&o, store, &r, &err));
    add_table("ns", "t");
    mini.extra = LOAN("99999999999999");
    OK(wr_rest_load(r, "ns", "t", &t, &err));
    assert_true(t->lent_until_us == 99999999999999000);
    t->lent_until_us = wr_now_us() + 600000000;
    OK(wr_rest_borrow(r, t, &err));
    assert_int_equal(mini_count("/tables/t"), 1);
    t->lent_until_us = wr_now_us() + 200000000;
    OK(wr_rest_borrow(r, t, &err));
    assert_int_equal(mini_count("/tables/t"), 2);
    assert_true(t->lent_until_us == 99999999999999000);
    wr_ice_table_free(t);
    mini.extra = LOAN("soon");
    OK(wr_rest_load(r, "ns", "t", &t, &err));
    assert_true(t->lent_until_us == 0); /* it does not say */
    OK(wr_rest_borrow(r, t, &err));
    assert_int_equal(mini_count("/tables/t"), 3);
    wr_ice_table_free(t), wr_rest_close(r), wr_store_close(store);
}

static void tokens_of_other_kinds_are_refused(void **state) {
    char *token = NULL;
    int64_t expires;
    static const struct { const char *text; wr_code rc; int64_t expires; } cases[] = {
        {"{\"access_token\":\"a\",\"token_type\":\"Bearer\",\"expires_in\":60}", WR_OK, 60},
        {"{\"access_token\":\"a\",\"expires_in\":\"60\"}", WR_OK, -1},
        {"{\"access_token\":\"a\",\"expires_in\":99999999999999}", WR_OK, -1},
        {"{\"access_token\":\"a\",\"token_type\":\"mac\"}", WR_E_UNSUPPORTED, 0},
        {"{\"access_token\":\"a\\nb\"}", WR_E_DECODE, 0},
        {"{\"access_token\":\"\"}", WR_E_DECODE, 0},
        {"{\"access_token\":7}", WR_E_DECODE, 0},
        {"null", WR_E_DECODE, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(wr_rest_read_token(wr_slice_str(cases[i].text), &token, &expires, &err), cases[i].rc);
        if (cases[i].rc != WR_OK) continue;
        assert_string_equal(token, "a"), assert_int_equal(expires, cases[i].expires);
        wr_free(token);
    }
}

static void the_message_of_an_error_is_cut_at_a_character_and_has_no_controls(void **state) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_rest_error e;
    wr_buf_printf(&b, "{\"error\":{\"type\":\"T\\u0007\",\"message\":\"x");
    for (int i = 0; i < 300; i++) wr_buf_printf(&b, "\xc3\xbc");
    wr_buf_printf(&b, "\"}}");
    wr_rest_read_error(wr_buf_view(&b), &e);
    assert_string_equal(e.type, "T ");
    assert_int_equal(strlen(e.message), 399);
    assert_int_equal((uint8_t)e.message[398], 0xbc);
    wr_buf_clear(&b);
    wr_buf_printf(&b, "{\"error\":{\"message\":\"");
    for (int i = 0; i < 300; i++) wr_buf_printf(&b, "\xc3\xbc");
    wr_buf_printf(&b, "\"}}");
    wr_rest_read_error(wr_buf_view(&b), &e);
    assert_int_equal(strlen(e.message), 398);
    wr_rest_read_error(wr_slice_str("<html>"), &e);
    assert_string_equal(e.message, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        REST_TEST(the_warehouse_is_asked_for_and_the_prefix_is_used),
        REST_TEST(a_credential_buys_a_token_and_a_fresh_one_when_it_is_refused),
        REST_TEST(a_token_is_renewed_before_it_runs_out),
        REST_TEST(a_refused_token_or_credential_names_the_way_out_and_no_secret),
        REST_TEST(a_catalog_that_is_not_there_yet_is_asked_again),
        REST_TEST(nonsense_at_the_start_is_an_error),
        REST_TEST(tables_of_all_namespaces_are_listed),
        REST_TEST(pages_are_followed_to_their_end),
        REST_TEST(any_name_goes_through_a_url),
        REST_TEST(a_table_that_is_not_there_or_not_a_table_is_told),
        REST_TEST(a_catalog_that_stays_away_is_worth_another_try_later),
        REST_TEST(credentials_of_an_answer_are_lent),
        REST_TEST(credentials_that_run_out_are_asked_for_again),
        REST_TEST(tokens_of_other_kinds_are_refused),
        REST_TEST(the_message_of_an_error_is_cut_at_a_character_and_has_no_controls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
