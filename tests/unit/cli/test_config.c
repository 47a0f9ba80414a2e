/* weir.yaml: what is understood, and that each mistake is told with line, key and way out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

#include "cli.h"
#include "weir/base/mem.h"

static const char full[] = "name: shop\nhome: ./shop.weir\nsource:\n  url: mysql://we%69r@[::1]:23306\n  password_env: P\n  tls: verify\n"
                           "  capture: ['shop\\..*', 'a\\.b']\n  exclude: ['shop\\.tmp_.*']\nmerge:\n  - {from: 'a_\\d+\\.t', to: a.t}\n"
                           "types: {zero_date: epoch, time: string}\npolicy: {on_drop: mirror, rowless_change: stop}\n"
                           "transform:\n  functions: f.sql\n  rules:\n  - {table: 'a\\..*', filter: 'x > 1', set: {t: a + b}, mask: {m: hash, n: null}, convert: {c: date}, rename: {o: p}, drop: [d], on_error: dead-letter}\n  - {table: b\\.c}\n"
                           "compare: {schedule: daily at 03:00, level: keys, method: pushed, hash: md5, tables: [a, b]}\n"
                           "snapshot: {rows_per_second: 1000, parallel: 4}\nlake:\n  format_version: 2\n  commit: {every: 1.5s, bytes: 64MiB}\n"
                           "  layout:\n  - {match: 'shop\\.orders', partition: [month(created_at), bucket(16, id), region], sort: [created_at desc, id], bloom_filters: [id, email], target_file_bytes: 64MB}\n  - {match: 'shop\\..*'}\n"
                           "alarms:\n  recovery: 5s\n  stalled: 1m\n  silent: 20s\n  lag: {warning: 10s, critical: 20s}\n  disk: {warning: 2GB, critical: 1MB}\n  restarts: {times: 5, within: 2m}\n  notify:\n"
                           "  - {name: chat, min_severity: info, webhook: {url: 'http://x/y', form: feishu, secret_env: S}}\n"
                           "  - {after: 15m, email: {smtp: 'smtps://m:465', from: 'W <a@b>', to: [c@d, e@f], user: u, password_file: pw, tls: required, ca: ca.pem}}\n  - {min_severity: critical, timeout: 2s, command: [page, -x]}\n";

static wr_code parse(const char *text, wr_config **c, wr_err *err) {
    *err = (wr_err)WR_ERR_INIT;
    *c = NULL;
    return wr_config_parse(text, strlen(text), "/etc/weir/shop.yaml", c, err);
}

static void every_key_reaches_its_option(void **state) {
    wr_config *c;
    wr_err err;
    assert_int_equal(parse(full, &c, &err), WR_OK);
    const wr_pipeline_options *o = wr_config_options(c);
    assert_string_equal(o->name, "shop");
    assert_string_equal(o->home, "/etc/weir/shop.weir");
    assert_string_equal(o->source.user, "weir");
    assert_string_equal(o->source.host, "::1");
    assert_int_equal(o->source.port, 23306);
    assert_int_equal(o->source.tls, WR_TLS_VERIFY);
    assert_int_equal(o->source.ncapture, 2);
    assert_string_equal(o->source.capture[0], "shop\\..*");
    assert_int_equal(o->source.nexclude, 1);
    assert_int_equal(o->nmerge, 1);
    assert_string_equal(o->merge[0].to, "a.t");
    assert_int_equal(o->transform.nrules, 2);
    const wr_rule *r = &o->transform.rules[0];
    assert_string_equal(r->table, "a\\..*"), assert_string_equal(r->filter, "x > 1"), assert_string_equal(r->set[0].name, "t"), assert_string_equal(r->set[0].value, "a + b");
    assert_int_equal(r->nmask, 2), assert_string_equal(r->mask[1].value, "null"), assert_string_equal(r->convert[0].name, "c"), assert_string_equal(r->rename[0].value, "p");
    assert_int_equal(r->ndrop, 1), assert_string_equal(r->drop[0], "d"), assert_int_equal(r->on_fault, WR_ON_FAULT_DEAD_LETTER);
    assert_int_equal(o->transform.rules[1].on_fault, WR_ON_FAULT_STOP), assert_null(o->transform.rules[1].filter);
    assert_int_equal(o->source.zero_date, WR_ZERO_EPOCH);
    assert_int_equal(o->source.time_as, WR_TIME_STRING);
    assert_int_equal(o->on_drop, WR_ON_DROP_MIRROR);
    assert_int_equal(o->on_rowless, WR_ON_ROWLESS_STOP);
    assert_int_equal(o->source.snapshot_rows_per_second, 1000);
    assert_int_equal(o->snapshot_parallel, 4);
    assert_int_equal(o->format_version, 2);
    assert_int_equal(o->commit_every_us, 1500000);
    assert_int_equal(o->commit_bytes, 64u << 20);
    const wr_config_compare *k = wr_config_compare_of(c);
    assert_string_equal(k->schedule, "daily at 03:00"), assert_int_equal(k->level, 1), assert_int_equal(k->method, 1), assert_int_equal(k->hash, 1), assert_int_equal(k->ntables, 2), assert_string_equal(k->tables[1], "b");
    const wr_watch_options *w = &o->watch;
    assert_int_equal(w->recovery_us, 5000000), assert_int_equal(w->stalled_us, 60000000), assert_int_equal(w->silent_us, 20000000);
    assert_int_equal(w->lag_warning_us, 10000000), assert_int_equal(w->lag_critical_us, 20000000);
    assert_int_equal(w->disk_warning_bytes, 2000000000), assert_int_equal(w->disk_critical_bytes, 1000000);
    assert_int_equal(w->restarts, 5), assert_int_equal(w->restarts_within_us, 120000000);
    assert_int_equal(w->nsinks, 3);
    assert_string_equal(w->sinks[0].name, "chat"), assert_string_equal(w->sinks[0].url, "http://x/y");
    assert_int_equal(w->sinks[0].form, WR_WEBHOOK_FEISHU), assert_int_equal(w->sinks[0].min_severity, WR_ALARM_INFO);
    assert_string_equal(w->sinks[1].name, "email-2"), assert_string_equal(w->sinks[1].to[1], "e@f"), assert_string_equal(w->sinks[1].ca_file, "/etc/weir/ca.pem");
    assert_int_equal(w->sinks[1].after_us, 900000000), assert_int_equal(w->sinks[1].tls, WR_MAIL_TLS_REQUIRED), assert_int_equal(w->sinks[1].min_severity, WR_ALARM_WARNING);
    assert_string_equal(w->sinks[2].argv[1], "-x"), assert_null(w->sinks[2].argv[2]), assert_int_equal(w->sinks[2].timeout_us, 2000000);
    assert_int_equal(o->nlayout, 2);
    const wr_layout_rule *l = &o->layout[0];
    assert_string_equal(l->match, "shop\\.orders"), assert_int_equal(l->npartition, 3), assert_int_equal(o->layout[1].npartition, 0);
    assert_int_equal(l->partition[0].kind, WR_TERM_MONTH), assert_string_equal(l->partition[0].column, "created_at");
    assert_int_equal(l->partition[1].kind, WR_TERM_BUCKET), assert_int_equal(l->partition[1].width, 16), assert_string_equal(l->partition[1].column, "id");
    assert_int_equal(l->nsort, 2), assert_string_equal(l->sort[0].column, "created_at"), assert_string_equal(l->sort[1].column, "id");
    assert_true(l->sort[0].descending && l->sort[0].nulls_last && !l->sort[1].descending && !l->sort[1].nulls_last);
    assert_int_equal(l->nbloom, 2), assert_string_equal(l->bloom[1], "email"), assert_int_equal(l->target_file_bytes, 64000000);
    assert_null(o->layout[1].sort), assert_null(o->layout[1].bloom); /* not said */
    assert_int_equal(l->partition[2].kind, WR_TERM_IDENTITY), assert_string_equal(l->partition[2].column, "region");
    wr_config_free(c);
}

static void a_profile_sets_what_is_not_said(void **state) {
    static const struct { const char *commit; int64_t every_us; uint64_t bytes; } p[] = {
        {"{}", 10000000, 128000000},
        {"{profile: standard}", 10000000, 128000000},
        {"{profile: seconds}", 1000000, 32000000},
        {"{profile: bulk}", 300000000, 1000000000},
        {"{profile: bulk, every: 2m}", 120000000, 1000000000},
        {"{bytes: 1MB, profile: seconds}", 1000000, 1000000},
    };
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        wr_config *c;
        wr_err err;
        char text[300];
        snprintf(text, sizeof text, "name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake: {commit: %s, layout: [{match: x, sort: [], bloom_filters: []}]}\n", p[i].commit);
        assert_int_equal(parse(text, &c, &err), WR_OK);
        const wr_pipeline_options *o = wr_config_options(c);
        assert_int_equal(o->commit_every_us, p[i].every_us), assert_int_equal(o->commit_bytes, p[i].bytes);
        assert_non_null(o->layout[0].sort), assert_int_equal(o->layout[0].nsort, 0); /* said: none */
        assert_non_null(o->layout[0].bloom), assert_int_equal(o->layout[0].nbloom, 0);
        wr_config_free(c);
    }
}

static void json_is_yaml(void **state) {
    wr_config *c;
    wr_err err;
    assert_int_equal(parse("{\"name\":\"j\",\"home\":\"/tmp/j\",\"source\":{\"url\":\"mysql://u@h\",\"capture\":[\"a\\\\..*\"]},\"merge\":[],\"lake\":{\"commit\":{\"every\":\"1s\"}}}", &c, &err), WR_OK);
    assert_string_equal(wr_config_options(c)->source.capture[0], "a\\..*");
    assert_int_equal(wr_config_options(c)->source.port, 3306);
    wr_config_free(c);
}

typedef struct mistake { const char *text, *msg, *cure; } mistake;

static void each_mistake_is_named_with_its_cure(void **state) {
    static const mistake m[] = {
        {"name: a\nhoem: b\n", ":2: unknown key 'hoem'", "did you mean 'home'?"},
        {"name: a\nsource: {captre: []}\n", "unknown key 'source.captre'", "source.capture"},
        {"name: a\nlake: {commit: {evry: 1s}}\n", "unknown key 'lake.commit.evry'", "lake.commit.every"},
        {"name: a\nname: b\n", "stands twice", ""},
        {"name: a\ntransform: {rules: [{filter: x}]}\n", "transform.rules[0] needs table", ""},
        {"name: a\ntransform: {rules: [{table: x, masks: {}}]}\n", "transform.rules[0].masks", "did you mean 'mask'?"},
        {"name: a\ntransform: {rules: [{table: x, mask: [a]}]}\n", "must be a mapping", ""},
        {"name: a\ntransform: {rules: [{table: x, mask: {a: hash, a: hash}}]}\n", "stands twice", ""},
        {"name: a\ntransform: {rules: [{table: x, on_error: skip}]}\n", "'skip' is none of stop|null|dead-letter", ""},
        {"name: a\ntransform: {rules: {table: x}}\n", "must be a list", ""},
        {"name: a\nsource: {url: 'mysql://u:pw-in-url@h', capture: [x]}\n", "holds a password", "password_env"},
        {"name: a\nsource: {url: 'mysql://h', capture: [x]}\n", "names no user", ""},
        {"name: a\nsource: {url: 'mysql://u@h:99999', capture: [x]}\n", "is no port", ""},
        {"name: a\nsource: {url: 'postgres://u@h', capture: [x]}\n", "must begin with mysql://", ""},
        {"name: a\nsource: {url: 'mysql://u@h'}\n", "source.capture is missing", "shop"},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x], tls: requird}\n", "'requird' is none of", "required"},
        {"name: a\nsource: {url: 'mysql://u@h', capture: x}\n", "must be a list", ""},
        {"name: a\nlake: {commit: {every: 10}}\n", "needs a unit", ""},
        {"name: a\nlake: {format_version: 4}\n", "is not a whole number in 2-3", ""},
        {"name: [a\n", "not YAML", ""},
        {"", "is empty", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x], password_env: A, password_file: B}\n", "only one of", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake: {catalog: rest}\n", "needs lake.rest.uri", "catalog: rest, rest:"},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake: {rest: {uri: 'http://h'}}\n", "lake.catalog is not rest", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake: {s3: {region: r}}\n", "lake.warehouse is no s3", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake: {warehouse: 'gs://b/x'}\n", "cannot reach", "s3://bucket/prefix"},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake: {warehouse: 's3://b', s3: {secret_key_env: A, secret_key_file: b}}\n", "only one of lake.s3.secret_key_env", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake: {catalog: rest, rest: {uri: u, token_env: A, credential_env: B}}\n", "only one of them", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake: {commit: {profile: second}}\n", "'second' is none of standard|seconds|bulk", "did you mean 'seconds'?"},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, sort: id}\n", "lake.layout[0].sort must be a list", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, sort: [id, id desc]}\n", "lake.layout[0].sort: column id stands twice", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, sort: ['']}\n", "lake.layout[0].sort[0]: '' names no column", "nulls first"},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, target_file_bytes: 1KB}\n", "lake.layout[0].target_file_bytes: '1KB' is not between", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, bloom: [id]}\n", "unknown key 'lake.layout[0].bloom'", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {partition: [a]}\n", "lake.layout[0] needs match", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, partitions: [a]}\n", "unknown key 'lake.layout[0].partitions'", "did you mean 'partition'?"},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, match: y}\n", "stands twice", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: 'x(', partition: [a]}\n", "lake.layout[0].match: 'x(' is not a regular expression", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, partition: a}\n", "lake.layout[0].partition must be a list", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - match: x\n    partition:\n    - a\n    - bucket(0, id)\n", ":8: lake.layout[0].partition[1]: 'bucket(0, id)': needs a whole number", "bucket(N, column)"},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, partition: [bucket(id)]}\n", "needs a whole number", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, partition: [bucket(3000000000, id)]}\n", "needs a whole number", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, partition: [bucket(3 id)]}\n", "needs a comma", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, partition: [weeks(a)]}\n", "'weeks(a)': no such transform", "identity(name)"},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, partition: [month(a]}\n", "no closing parenthesis", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, partition: ['month( )']}\n", "names no column", ""},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, partition: [a, b, identity(a)]}\n", "lake.layout[0].partition: a stands beside a: they are the same", "take one of them out"},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nlake:\n  layout:\n  - {match: x, partition: [day(a), month(a)]}\n", "month(a) stands beside day(a): one follows from the other", "the finer one"},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\ncompare: {schedule: nightly}\n", "compare.schedule: 'nightly' is no schedule", "every 6h"},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\ncompare: {tables: [x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x]}\n", "compare.tables has 65 expressions, 64 are possible", "several"},
        {"name: a\nsource: {url: 'mysql://u@h', capture: [x]}\nmerge: [{from: x}]\n", "needs both from and to", ""},
    };
    for (size_t i = 0; i < sizeof m / sizeof *m; i++) {
        wr_config *c;
        wr_err err;
        assert_int_equal(parse(m[i].text, &c, &err), WR_E_CONFIG);
        if (!strstr(err.msg, m[i].msg)) fail_msg("%s: %s", m[i].msg, err.msg);
        assert_non_null(strstr(err.cure, m[i].cure));
        assert_null(strstr(err.msg, "pw-in-url"));
    }
}

static void every_truncation_is_answered(void **state) {
    for (size_t n = 0; n < sizeof full; n++) {
        wr_config *c = NULL;
        wr_err err = WR_ERR_INIT;
        if (wr_config_parse(full, n, "x.yaml", &c, &err) == WR_OK) wr_config_free(c);
        else assert_true(err.msg[0] != 0);
    }
}

static void each_failing_allocation_is_told(void **state) {
    for (uint64_t n = 1;; n++) {
        wr_config *c = NULL;
        wr_err err = WR_ERR_INIT;
        wr_mem_fail_after(n);
        wr_code rc = wr_config_parse(full, sizeof full - 1, "x.yaml", &c, &err);
        bool over = wr_mem_fail_after(0) > 0;
        if (rc == WR_OK) {
            wr_config_free(c);
            if (!over) fail_msg("allocation %llu failed and nobody noticed", (unsigned long long)n);
            break;
        }
        if (rc != WR_E_NOMEM) fail_msg("allocation %llu: %s: %s", (unsigned long long)n, wr_code_name(rc), err.msg);
        assert_null(c);
    }
}

static void near_words_are_found_and_far_ones_are_not(void **state) {
    const char *names[] = {"sync", "status", "tables"};
    assert_string_equal(wr_cli_nearest("snyc", names, 3), "sync");
    assert_string_equal(wr_cli_nearest("statsu", names, 3), "status");
    assert_null(wr_cli_nearest("elephant", names, 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_reaches_its_option), cmocka_unit_test(a_profile_sets_what_is_not_said), cmocka_unit_test(json_is_yaml), cmocka_unit_test(each_mistake_is_named_with_its_cure),
        cmocka_unit_test(every_truncation_is_answered), cmocka_unit_test(each_failing_allocation_is_told), cmocka_unit_test(near_words_are_found_and_far_ones_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
