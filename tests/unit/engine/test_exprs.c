/* Expressions over rows: every type there and back, filters, faults, and what is no expression over one row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "weir/base/mem.h"
#include "weir/engine.h"

static wr_engine *engine;
static wr_sql_space *space;

static int open_all(void **state) {
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_engine_open(NULL, &engine, &err), WR_OK);
    assert_int_equal(wr_sql_space_open(engine, "CREATE FUNCTION twice(x) AS x * 2; CREATE MACRO deep(x) AS twice(twice(x));", &space, &err), WR_OK);
    return 0;
}

static int close_all(void **state) {
    wr_sql_space_close(space);
    wr_engine_close(engine);
    return 0;
}

static const wr_type all_types[] = {
    {.kind = WR_BOOL}, {.kind = WR_INT}, {.kind = WR_LONG}, {.kind = WR_FLOAT}, {.kind = WR_DOUBLE}, {WR_DECIMAL, 4, 1}, {WR_DECIMAL, 9, 0}, {WR_DECIMAL, 18, 18}, {WR_DECIMAL, 38, 4},
    {.kind = WR_DATE}, {.kind = WR_TIMESTAMP}, {.kind = WR_TIMESTAMPTZ}, {.kind = WR_STRING}, {.kind = WR_BINARY}, {.kind = WR_FLOATS}};
#define NTYPES ((int)(sizeof all_types / sizeof *all_types))

static wr_schema *schema_of(const wr_type *types, int n) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"};
    wr_column c[15] = {0};
    for (int i = 0; i < n; i++) c[i] = (wr_column){.name = (char *)names[i], .id = i + 1, .type = types[i], .nullable = true};
    wr_schema *s;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_schema_new(c, n, 1, &s, &err), WR_OK);
    return s;
}

static wr_exprs *compile(const wr_schema *s, const char *filter, const char *const *e, int n) {
    wr_exprs *x;
    wr_err err = WR_ERR_INIT;
    int bad;
    wr_code rc = wr_exprs_new(space, s, filter, e, n, &x, &bad, &err);
    if (rc != WR_OK) fail_msg("expression %d: %s", bad, err.msg);
    return x;
}

static const float list[3] = {1.5f, -2, INFINITY};

/* Row i of all types: every third value null, texts short and long, numbers at both ends. */
static void fill(wr_value *v, uint32_t i) {
    static const char *const texts[] = {"", "short", "a text that is longer than twelve bytes", "\xC3\xA4\xE2\x82\xAC", "with\0nul"};
    bool low = i & 1;
    __int128 most = 1;
    for (int d = 0; d < 38; d++) most *= 10;
    const char *t = texts[i % 5];
    size_t n = i % 5 == 4 ? 8 : strlen(t);
    wr_value row[NTYPES] = {{.b = low}, {.i32 = low ? INT32_MIN : INT32_MAX}, {.i64 = low ? INT64_MIN : INT64_MAX}, {.f32 = low ? -0.0f : NAN}, {.f64 = low ? -INFINITY : 1e308},
                            {.dec = low ? -9999 : 9999}, {.dec = low ? -999999999 : 1}, {.dec = low ? -999999999999999999 : 5}, {.dec = low ? -(most - 1) : most - 1},
                            {.i32 = low ? -719162 : 2932896}, {.i64 = low ? -1 : 1700000000123456}, {.i64 = low ? 0 : -62135596800000000}, {.s = wr_slice_of(t, n)}, {.s = wr_slice_of(t, n)},
                            {.s = wr_slice_of(list, (i % 4) * 4)}};
    for (int c = 0; c < NTYPES; c++) {
        v[c] = row[c];
        if ((i + (uint32_t)c) % 3 == 0) v[c] = (wr_value){.null = true};
    }
}

static bool same(wr_type t, const wr_value *a, const wr_value *b) {
    if (a->null || b->null) return a->null && b->null;
    switch ((wr_kind)t.kind) {
    case WR_BOOL: return a->b == b->b;
    case WR_INT:
    case WR_DATE: return a->i32 == b->i32;
    case WR_FLOAT: return !memcmp(&a->f32, &b->f32, 4);
    case WR_DOUBLE: return !memcmp(&a->f64, &b->f64, 8);
    case WR_DECIMAL: return a->dec == b->dec;
    case WR_STRING:
    case WR_BINARY:
    case WR_FLOATS: return wr_slice_eq(a->s, b->s);
    default: return a->i64 == b->i64;
    }
}

static void values_of_every_type_come_back_as_they_went(void **state) {
    enum { N = 5000 };
    wr_schema *s = schema_of(all_types, NTYPES);
    const char *e[NTYPES];
    char texts[NTYPES][64];
    for (int c = 0; c < NTYPES; c++) snprintf(texts[c], sizeof texts[c], "CASE WHEN true THEN %s END", s->cols[c].name), e[c] = texts[c];
    wr_exprs *x = compile(s, NULL, e, NTYPES);
    wr_value *v = wr_malloc((size_t)N * NTYPES * sizeof *v);
    for (uint32_t i = 0; i < N; i++) fill(v + (size_t)i * NTYPES, i);
    wr_err err = WR_ERR_INIT;
    for (int c = 0; c < NTYPES; c++) assert_true(wr_type_eq(wr_exprs_type(x, c), all_types[c]));
    for (uint32_t n = 1; n <= N; n = n * 4 + 1) {
        assert_int_equal(wr_exprs_run(x, v, n, &err), WR_OK);
        for (uint32_t i = 0; i < n; i++)
            for (int c = 0; c < NTYPES; c++)
                if (!same(all_types[c], &v[(size_t)i * NTYPES + (size_t)c], &wr_exprs_row(x, i)[c])) fail_msg("row %u of %u, type %d", i, n, c);
    }
    assert_int_equal(wr_exprs_run(x, v, 0, &err), WR_OK);
    wr_free(v);
    wr_exprs_free(x);
    wr_schema_unref(s);
}

static void filters_keep_what_is_true_and_functions_are_known(void **state) {
    wr_schema *s = schema_of((wr_type[]){{.kind = WR_INT}}, 1);
    wr_exprs *x = compile(s, "a % 3 = 1", (const char *[]){"deep(a)", "7"}, 2);
    wr_value v[100];
    wr_err err = WR_ERR_INIT;
    for (int i = 0; i < 100; i++) v[i] = i == 50 ? (wr_value){.null = true} : (wr_value){.i32 = i};
    assert_int_equal(wr_exprs_run(x, v, 100, &err), WR_OK);
    for (uint32_t i = 0; i < 100; i++) {
        const wr_value *r = wr_exprs_row(x, i);
        assert_int_equal(r != NULL, i % 3 == 1 && i != 50);
        if (r) assert_int_equal(r[0].i32, 4 * (int)i), assert_int_equal(r[1].i32, 7);
    }
    wr_exprs_free(x);
    wr_schema_unref(s);
}

static void faults_name_row_and_expression_and_leave_the_others_alone(void **state) {
    wr_schema *s = schema_of((wr_type[]){{.kind = WR_STRING}, {.kind = WR_INT}}, 2);
    wr_exprs *x = compile(s, "CASE WHEN b > 0 THEN true ELSE error('b is ' || b) END", (const char *[]){"CAST(a AS INTEGER)", "a || '!'", "CAST(a AS DATE)"}, 3);
    enum { N = 1000 };
    wr_value v[2 * N];
    wr_err err = WR_ERR_INIT;
    for (int i = 0; i < N; i++) {
        v[2 * i] = (wr_value){.s = i == 0 || i == 500 || i == 501 || i == 999 ? wr_slice_str("oops") : wr_slice_str("2020-01-01")};
        v[2 * i + 1] = (wr_value){.i32 = i == 7 ? -1 : 1};
    }
    for (int i = 0; i < N; i++)
        if (i % 2 == 0 && v[2 * i].s.n == 10) v[2 * i] = (wr_value){.null = true};
    assert_int_equal(wr_exprs_run(x, v, N, &err), WR_OK);
    int n, at = 0;
    const wr_expr_fault *f = wr_exprs_faults(x, &n);
    for (uint32_t i = 0; i < N; i++) {
        const wr_value *r = wr_exprs_row(x, i);
        bool null = v[2 * i].null, oops = !null && v[2 * i].s.n == 4;
        if (i == 7) {
            assert_null(r);
            assert_int_equal(f[at].row, 7), assert_int_equal(f[at].expr, -1), assert_non_null(strstr(f[at].message, "b is -1"));
            at++;
            continue;
        }
        if (!r) fail_msg("row %u is kept out; %d faults, the first of row %u: %s", i, n, f[0].row, f[0].message);
        if (null) continue;
        assert_int_equal(f[at].row, i), assert_int_equal(f[at].expr, 0), at++; /* neither is a number */
        if (oops) assert_int_equal(f[at].row, i), assert_int_equal(f[at].expr, 2), at++;
        assert_true(r[0].null);
        assert_true(wr_slice_eq(r[1].s, wr_slice_str(oops ? "oops!" : "2020-01-01!")));
        assert_int_equal(r[2].null, oops);
        if (!oops) assert_int_equal(r[2].i32, 18262);
    }
    assert_int_equal(at, n);
    wr_exprs_free(x);
    wr_schema_unref(s);
}

static void values_that_no_column_holds_are_faults(void **state) {
    wr_schema *s = schema_of((wr_type[]){{.kind = WR_LONG}}, 1);
    wr_exprs *x = compile(s, NULL, (const char *[]){"CASE WHEN a = 1 THEN 'infinity'::DATE END", "CASE WHEN a = 2 THEN '-infinity'::TIMESTAMP END", "a::HUGEINT * 1000000000000000000 * 1000", "CASE WHEN a = 4 THEN [1::FLOAT, NULL] END"}, 4);
    wr_value v[5] = {{.i64 = 1}, {.i64 = 2}, {.i64 = 100000000000000000}, {.i64 = 4}, {.i64 = 5}};
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_exprs_run(x, v, 5, &err), WR_OK);
    int n;
    const wr_expr_fault *f = wr_exprs_faults(x, &n);
    assert_int_equal(n, 4);
    bool seen[4] = {0};
    for (int i = 0; i < n; i++) seen[f[i].row] = f[i].expr == (int)f[i].row;
    for (int i = 0; i < 4; i++) assert_true(seen[i]);
    wr_exprs_free(x);
    wr_schema_unref(s);
}

static void what_depends_on_more_than_the_row_is_refused(void **state) {
    static const char *const bad[] = {"now()", "current_timestamp", "random()", "uuid()", "sum(a)", "rank() OVER ()", "(SELECT 1)", "a IN (SELECT 1)", "*", "$1", "?", "a, a", "a) FROM weir_rows(0), (SELECT (1", "getvariable('x')",
                                      "unnest([a])", "nextval('s')", "age(TIMESTAMP '2020-01-01')", "today()", "a; DROP TABLE x", "", "a --", "nothing", "row(a)", "list_transform([a], lambda z: random())", "INTERVAL 1 DAY"};
    wr_schema *s = schema_of((wr_type[]){{.kind = WR_INT}}, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wr_exprs *x;
        wr_err err = WR_ERR_INIT;
        int which;
        wr_code rc = wr_exprs_new(space, s, NULL, (const char *[]){"a", bad[i]}, 2, &x, &which, &err);
        if (!strcmp(bad[i], "a --")) { /* a comment is none of our business */
            assert_int_equal(rc, WR_OK);
            wr_exprs_free(x);
            continue;
        }
        if (rc == WR_OK) fail_msg("%s was taken", bad[i]);
        assert_int_equal(rc, WR_E_INVAL);
        assert_int_equal(which, 1);
    }
    wr_schema_unref(s);
    static const char *const functions[] = {"CREATE TABLE t (a INT)", "CREATE MACRO f(x) AS TABLE SELECT x", "CREATE MACRO f() AS now()", "SELECT 1", "CREATE MACRO f(x) AS (SELECT max(y) FROM read_csv('/etc/passwd') t(y))", "CREATE MACRO",
                                            "COPY (SELECT 1) TO '/tmp/weir_should_not_exist'", "CREATE VIEW v AS SELECT 1", "SET threads = 4", "ATTACH '/tmp/weir_should_not_exist.db'"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        wr_sql_space *sp;
        wr_err err = WR_ERR_INIT;
        if (wr_sql_space_open(engine, functions[i], &sp, &err) == WR_OK) fail_msg("%s was taken", functions[i]);
    }
}

typedef struct job { int seed; bool ok; } job;

static void *compute(void *arg) {
    job *j = arg;
    wr_schema *s = schema_of((wr_type[]){{.kind = WR_LONG}}, 1);
    wr_value v[2048];
    wr_err err = WR_ERR_INIT;
    j->ok = true;
    for (int round = 0; round < 20; round++) { /* made and freed beside others: the number of weir_rows must not mix them up */
        wr_exprs *x = compile(s, NULL, (const char *[]){"a * 3 + 1"}, 1);
        for (int k = 0; k < 5; k++) {
            for (int i = 0; i < 2048; i++) v[i] = (wr_value){.i64 = j->seed * 100000 + i};
            j->ok &= wr_exprs_run(x, v, 2048, &err) == WR_OK;
            for (uint32_t i = 0; i < 2048; i++) j->ok &= wr_exprs_row(x, i)[0].i64 == (j->seed * 100000 + (int)i) * 3ll + 1;
        }
        wr_exprs_free(x);
    }
    wr_schema_unref(s);
    return NULL;
}

static void threads_work_side_by_side(void **state) {
    pthread_t t[4];
    job j[4];
    for (int i = 0; i < 4; i++) j[i] = (job){.seed = i}, assert_int_equal(pthread_create(&t[i], NULL, compute, &j[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL), assert_true(j[i].ok);
}

/* Whatever a text says, it is no error of the engine's; and faults of several columns are told row by row. */
static void faults_come_by_row_and_values_are_no_errors(void **state) {
    wr_schema *s = schema_of((wr_type[]){{.kind = WR_STRING}, {.kind = WR_STRING}}, 2);
    wr_exprs *x = compile(s, NULL, (const char *[]){"CAST(a AS DATE)", "CAST(b AS DATE)", "CAST(a AS INTEGER)"}, 2);
    wr_value v[12];
    wr_err err = WR_ERR_INIT;
    int n;
    for (int i = 0; i < 6; i++) v[2 * i].s = wr_slice_str(i % 4 == 1 ? "infinity" : "2024-01-01"), v[2 * i].null = false, v[2 * i + 1] = (wr_value){.s = wr_slice_str(i % 2 ? "2024-01-01" : "infinity")};
    assert_int_equal(wr_exprs_run(x, v, 6, &err), WR_OK);
    const wr_expr_fault *f = wr_exprs_faults(x, &n);
    static const int want[][2] = {{0, 1}, {1, 0}, {2, 1}, {4, 1}, {5, 0}};
    assert_int_equal(n, 5);
    for (int i = 0; i < n; i++) assert_int_equal(f[i].row, want[i][0]), assert_int_equal(f[i].expr, want[i][1]);
    wr_exprs_forget(x);
    static const char *const texts[] = {"INTERRUPT", "Out of Memory Error", "INTERNAL Error", "FATAL Error", "IO Error: Cannot open file", "No space left on device"};
    for (int i = 0; i < 6; i++) v[2 * i].s = wr_slice_str(texts[i]);
    assert_int_equal(wr_exprs_run(x, v, 6, &err), WR_OK);
    f = wr_exprs_faults(x, &n);
    assert_true(n >= 6);
    for (int i = 0; i < n; i++) assert_false(f[i].limit);
    wr_exprs_free(x);
    wr_schema_unref(s);
}

static void an_expression_without_enough_memory_says_so(void **state) {
    wr_schema *s = schema_of((wr_type[]){{.kind = WR_LONG}}, 1);
    wr_exprs *x = compile(s, NULL, (const char *[]){"repeat('x', a)"}, 1);
    wr_value v[3] = {{.i64 = 1}, {.i64 = 1000000000}, {.i64 = 2}};
    wr_err err = WR_ERR_INIT;
    int n;
    assert_int_equal(wr_exprs_run(x, v, 3, &err), WR_OK);
    const wr_expr_fault *f = wr_exprs_faults(x, &n);
    assert_int_equal(n, 1);
    assert_true(f->limit && f->row == 1);
    assert_int_equal(wr_exprs_row(x, 2)->s.n, 2);
    wr_exprs_free(x);
    wr_schema_unref(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_come_by_row_and_values_are_no_errors),
        cmocka_unit_test(an_expression_without_enough_memory_says_so),
        cmocka_unit_test(values_of_every_type_come_back_as_they_went), cmocka_unit_test(filters_keep_what_is_true_and_functions_are_known),
        cmocka_unit_test(faults_name_row_and_expression_and_leave_the_others_alone), cmocka_unit_test(values_that_no_column_holds_are_faults),
        cmocka_unit_test(what_depends_on_more_than_the_row_is_refused), cmocka_unit_test(threads_work_side_by_side)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
