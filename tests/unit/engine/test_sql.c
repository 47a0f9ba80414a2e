#include "rows.h"

static wr_engine *eng;

static int open_engine(void **state) {
    wr_err e = WR_ERR_INIT;
    return wr_engine_open(NULL, &eng, &e) == WR_OK ? 0 : -1;
}
static int close_engine(void **state) {
    wr_engine_close(eng);
    return 0;
}

/* The result as one text: "name:type|...\nvalue|...\n". */
static wr_code put_columns(void *ctx, int n, const char *const *names, const char *const *types, wr_err *err) {
    for (int i = 0; i < n; i++) wr_buf_printf(ctx, "%s%s:%s", i ? "|" : "", names[i], types[i]);
    wr_buf_u8(ctx, '\n');
    return WR_OK;
}
static wr_code put_row(void *ctx, int n, const char *const *values, wr_err *err) {
    for (int i = 0; i < n; i++) wr_buf_printf(ctx, "%s%s", i ? "|" : "", values[i] ? values[i] : "~");
    wr_buf_u8(ctx, '\n');
    return WR_OK;
}

static void assert_sql_on(const wr_sql_table *t, int n, const char *sql, const char *expected) {
    WR_AUTO_BUF wr_buf out = WR_BUF_INIT;
    assert_ok(wr_engine_sql(eng, t, n, (wr_sql_opener){0}, sql, put_columns, put_row, &out, err));
    assert_string_equal(wr_buf_cstr(&out), expected);
}

static void assert_refused(const wr_sql_table *t, int n, const char *sql, const char *says) {
    WR_AUTO_BUF wr_buf out = WR_BUF_INIT;
    wr_err e = WR_ERR_INIT;
    if (wr_engine_sql(eng, t, n, (wr_sql_opener){0}, sql, put_columns, put_row, &out, &e) == WR_OK) fail_msg("accepted: %s", sql);
    if (!strstr(e.msg, says)) fail_msg("%s: \"%s\" does not say \"%s\"", sql, e.msg, says);
}

/* A file of rows (id, "n<id>") for id in [from, to). */
static const char *file_of(char path[128], const char *name, wr_schema *s, int from, int to) {
    wr_batch *b = NULL;
    wr_parquet_file f = {0};
    assert_ok(wr_batch_new(s, &b, err));
    for (int i = from; i < to; i++) {
        char text[32];
        snprintf(text, sizeof text, "n%d", i);
        add(b, s, (wr_value[]){vlong(i), vstr(text)});
    }
    tmp_path(path, name);
    assert_ok(wr_parquet_write(eng, b, path, NULL, &f, err));
    wr_parquet_file_clear(&f);
    wr_batch_free(b);
    return path;
}

static void deleted_positions_are_left_out_file_by_file(void **state) {
    wr_schema *s = schema_of((wr_type[]){T(WR_LONG), T(WR_STRING)}, 2);
    char p1[128], p2[128];
    file_of(p1, "sql[1]*.parquet", s, 0, 10000);
    file_of(p2, "sql'2?.parquet", s, 10000, 10010);
    static uint32_t del1[5000];
    for (uint32_t i = 0; i < 5000; i++) del1[i] = 2 * i;
    uint32_t del2[] = {9, 0, 3}; /* in no order */
    wr_sql_file files[] = {{p1, del1, 5000}, {p2, del2, 3}};
    wr_sql_table t = {"shop", "Order \"lines\"", s, files, 2};
    assert_sql_on(&t, 1, "select count(*) n, sum(c0)::bigint s, min(c1) from shop.\"Order \"\"lines\"\"\"",
                  "n:BIGINT|s:BIGINT|min(c1):VARCHAR\n5007|25070033|n1\n");
    assert_sql_on(&t, 1, "select c0 from shop.\"order \"\"LINES\"\"\" where c0 > 9996 order by 1 -- a comment",
                  "c0:BIGINT\n9997\n9999\n10001\n10002\n10004\n10005\n10006\n10007\n10008\n");
    assert_sql_on(&t, 1, "show tables;", "name:VARCHAR\n");
    assert_sql_on(&t, 1,
                  "select a.c0 x, b.c0 x from shop.\"Order \"\"lines\"\"\" a join shop.\"Order \"\"lines\"\"\" b using "
                  "(c0) where a.c0 in (2, 9999)",
                  "x:BIGINT|x:BIGINT\n9999|9999\n");
    unlink(p1), unlink(p2);
    wr_schema_unref(s);
}

static void only_a_select_over_the_tables_is_run(void **state) {
    wr_schema *s = schema_of((wr_type[]){T(WR_LONG), T(WR_STRING)}, 2);
    char p[128], other[128];
    file_of(p, "sql-only.parquet", s, 0, 3);
    file_of(other, "sql-other.parquet", s, 0, 3);
    wr_sql_file f = {p, NULL, 0};
    wr_sql_table t = {"db", "t", s, &f, 1};
    assert_refused(&t, 1, "create table x(i int)", "only SELECT");
    assert_refused(&t, 1, "copy (select 1) to '/tmp/weir-engine-never'", "");
    assert_refused(&t, 1, "delete from db.t", "");
    assert_refused(&t, 1, "set threads = 8", "only SELECT");
    assert_refused(&t, 1, "attach '/tmp/weir-engine-never.db'", "");
    assert_refused(&t, 1, "install httpfs", "only SELECT");
    assert_refused(&t, 1, "explain analyze copy (select 1) to '/tmp/weir-engine-never'", "");
    assert_refused(&t, 1, "select 1; select 2", "one statement at a time, here are 2");
    assert_refused(&t, 1, "", "no statement");
    assert_refused(&t, 1, "  -- nothing\n", "no statement");
    assert_refused(&t, 1, "select $1", "parameters");
    assert_refused(&t, 1, "selec 1", "syntax error");
    assert_refused(&t, 1, "select nothing from db.t", "nothing");
    assert_refused(&t, 1, "select * from db.missing", "does not exist");
    assert_refused(&t, 1, "select * from read_text('/etc/passwd')", "disabled by configuration");
    assert_refused(&t, 1, "select * from glob('/etc/*')", "disabled by configuration");
    char sql[256];
    snprintf(sql, sizeof sql, "select * from '%s'", other);
    assert_refused(&t, 1, sql, "disabled by configuration");
    assert_refused(&t, 1, "select weir_live(0, 0::ubigint, 0)", "no such table");
    assert_refused(&t, 1, "select weir_live(7, 0::ubigint, 0)", "no such table");
    assert_refused(&t, 1, "select 'a'::int", "Could not convert");
    assert_int_equal(access("/tmp/weir-engine-never", F_OK), -1);
    assert_sql_on(&t, 1, "select * from db.t order by c0 desc limit 1", "c0:BIGINT|c1:VARCHAR\n2|n2\n");
    unlink(p), unlink(other);
    wr_schema_unref(s);
}

static void values_of_all_kinds_have_a_text(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    wr_batch *b = NULL;
    wr_parquet_file f = {0};
    char p[128];
    assert_ok(wr_batch_new(s, &b, err));
    add(b, s,
        (wr_value[]){vbool(true), vint(-1), vlong(INT64_MIN), vf32(1.5f), vf64(0.1), vdec(-5), vdec(7), vdec(1000001),
                     vdec(-12345678901), vdec(100), vint(19000), vlong(1700000000123456), vlong(-1), vbytes("a\0b", 3),
                     vbytes("\x00\xff", 2), vbytes("\0\0\x80?\0\0\0@", 8)});
    wr_value nulls[NKINDS];
    for (int i = 0; i < NKINDS; i++) nulls[i] = vnull();
    add(b, s, nulls);
    assert_ok(wr_parquet_write(eng, b, tmp_path(p, "sql-kinds.parquet"), NULL, &f, err));
    wr_sql_file file = {p, NULL, 0};
    wr_sql_table t = {"db", "t", s, &file, 1};
    assert_sql_on(&t, 1, "select * from db.t",
                  "c0:BOOLEAN|c1:INTEGER|c2:BIGINT|c3:FLOAT|c4:DOUBLE|c5:DECIMAL(4,2)|c6:DECIMAL(9,0)|c7:DECIMAL(18,6)|"
                  "c8:DECIMAL(38,10)|c9:DECIMAL(20,2)|"
                  "c10:DATE|c11:TIMESTAMP|c12:TIMESTAMP WITH TIME ZONE|c13:VARCHAR|c14:BLOB|c15:FLOAT[]\n"
                  "true|-1|-9223372036854775808|1.5|0.1|-0.05|7|1.000001|-1.2345678901|1.00|2022-01-08|2023-11-14T22:"
                  "13:20.123456|"
                  "1969-12-31T23:59:59.999999Z|a\xe2\x90\x80"
                  "b|\\x00ff|[1.0, 2.0]\n"
                  "~|~|~|~|~|~|~|~|~|~|~|~|~|~|~|~\n");
    assert_sql_on(&t, 1, "select 1::hugeint a, [timestamp '2020-01-01 00:00:00'] b, {'x': 1} c, null d",
                  "a:HUGEINT|b:TIMESTAMP[]|c:STRUCT(x INTEGER)|d:INTEGER\n1|['2020-01-01 00:00:00']|{'x': 1}|~\n");
    unlink(p);
    wr_parquet_file_clear(&f);
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void added_columns_are_null_or_their_initial_value(void **state) {
    wr_schema *old = schema_of((wr_type[]){T(WR_INT), T(WR_STRING)}, 2);
    wr_batch *b = NULL;
    wr_parquet_file f = {0};
    char p[128];
    assert_ok(wr_batch_new(old, &b, err));
    add(b, old, (wr_value[]){vint(1), vstr("a")});
    assert_ok(wr_parquet_write(eng, b, tmp_path(p, "sql-old.parquet"), NULL, &f, err));
    wr_column cols[] = {
        {.name = "name", .id = 2, .type = T(WR_STRING), .nullable = true},
        {.name = "filename", .id = 1, .type = T(WR_LONG), .nullable = true},
        {.name = "file_row_number",
         .id = 3,
         .type = DEC(30, 2),
         .nullable = true,
         .has_initial = true,
         .initial = vdec(-150)},
        {.name = "b",
         .id = 4,
         .type = T(WR_BINARY),
         .nullable = true,
         .has_initial = true,
         .initial = vbytes("\x00'a", 3)},
        {.name = "s", .id = 5, .type = T(WR_STRING), .nullable = true, .has_initial = true, .initial = vstr("it's")},
        {.name = "z", .id = 6, .type = T(WR_TIMESTAMPTZ), .nullable = true, .has_initial = true, .initial = vlong(0)},
        {.name = "l",
         .id = 7,
         .type = T(WR_FLOATS),
         .nullable = true,
         .has_initial = true,
         .initial = vbytes("\0\0\x80?", 4)},
        {.name = "d", .id = 8, .type = T(WR_DOUBLE), .nullable = true},
    };
    wr_schema *s = NULL;
    assert_ok(wr_schema_new(cols, 8, 2, &s, err));
    wr_sql_file file = {p, NULL, 0};
    wr_sql_table t[] = {{"db", "t", s, &file, 1}, {"db", "empty", s, NULL, 0}, {"db", "T", s, &file, 1}};
    assert_sql_on(t, 2, "from db.t",
                  "name:VARCHAR|filename:BIGINT|file_row_number:DECIMAL(30,2)|b:BLOB|s:VARCHAR|z:TIMESTAMP WITH TIME "
                  "ZONE|l:FLOAT[]|d:DOUBLE\n"
                  "a|1|-1.50|\\x002761|it's|1970-01-01T00:00:00.000000Z|[1.0]|~\n");
    assert_sql_on(t, 2, "select filename, d from db.empty", "filename:BIGINT|d:DOUBLE\n");
    assert_sql_on(t, 2, "select table_name from information_schema.tables order by 1",
                  "table_name:VARCHAR\nempty\nt\n");
    assert_refused(t, 3, "from db.t", "table db.T");
    assert_sql_on(t, 3, "select 1 as x", "x:INTEGER\n1\n");
    unlink(p);
    assert_refused(t, 2, "from db.t", "table db.t");
    wr_parquet_file_clear(&f);
    wr_batch_free(b);
    wr_schema_unref(old), wr_schema_unref(s);
}

static wr_code stop(void *ctx, int n, const char *const *values, wr_err *err) {
    return wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "enough");
}
static void the_callers_no_ends_the_query(void **state) {
    wr_err e = WR_ERR_INIT;
    WR_AUTO_BUF wr_buf out = WR_BUF_INIT;
    assert_int_equal(wr_engine_sql(eng, NULL, 0, (wr_sql_opener){0}, "select * from range(1000000000000)", put_columns, stop, &out, &e),
                     WR_E_CANCELLED);
    assert_string_equal(e.msg, "enough");
}

static void a_query_beyond_the_memory_limit_fails_with_a_limit(void **state) {
    wr_engine *small = NULL;
    assert_ok(wr_engine_open(&(wr_engine_options){.memory_bytes = 32u << 20}, &small, err));
    WR_AUTO_BUF wr_buf out = WR_BUF_INIT;
    wr_err e = WR_ERR_INIT;
    assert_int_equal(
        wr_engine_sql(
            small, NULL, 0, (wr_sql_opener){0},
            "select count(*) from (select distinct range::varchar || 'xxxxxxxxxxxxxxxx' from range(10000000))",
            put_columns, put_row, &out, &e),
        WR_E_LIMIT);
    wr_engine_close(small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deleted_positions_are_left_out_file_by_file),
        cmocka_unit_test(only_a_select_over_the_tables_is_run),
        cmocka_unit_test(values_of_all_kinds_have_a_text),
        cmocka_unit_test(added_columns_are_null_or_their_initial_value),
        cmocka_unit_test(the_callers_no_ends_the_query),
        cmocka_unit_test(a_query_beyond_the_memory_limit_fails_with_a_limit),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
