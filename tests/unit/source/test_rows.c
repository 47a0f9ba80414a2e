/* Plans against definitions, and row images that are not whole. What whole rows decode to is in test_applier.c. */
#include "fixture.h"
#include "mysql/rows.h"

/* A definition of its own for each test: int key, varchar, int unsigned, year. */
static wr_my_table *make(void) {
    wr_err err = WR_ERR_INIT;
    wr_my_table *t = wr_calloc(1, sizeof *t);
    t->db = wr_strdup("d"), t->name = wr_strdup("t");
    t->id = 3, t->version = 1;
    t->ncols = 4;
    t->cols = wr_calloc(4, sizeof *t->cols);
    static const struct { const char *name, *type, *cs; wr_my_kind kind; uint32_t len; bool uns; } c[4] = {
        {"id", "int", NULL, MY_INT, 0, false}, {"v", "varchar(5)", "utf8mb4", MY_VARCHAR, 5, false}, {"u", "int unsigned", NULL, MY_INT, 0, true}, {"y", "year", NULL, MY_YEAR, 0, false}};
    for (int i = 0; i < 4; i++) {
        wr_my_col *k = &t->cols[i];
        k->name = wr_strdup(c[i].name), k->column_type = wr_strdup(c[i].type), k->kind = c[i].kind, k->length = c[i].len, k->is_unsigned = c[i].uns;
        k->id = i + 1;
        if (c[i].cs) k->charset = wr_strdup(c[i].cs), k->collation = wr_strdup("utf8mb4_bin");
    }
    t->cols[0].key_ord = 1, t->cols[0].not_null = true;
    assert_int_equal(wr_my_table_finish(t, (wr_my_types){0}, NULL, &err), WR_OK);
    return t;
}

/* types LONG, VARCHAR(20), LONG, YEAR; signs 0, 1, 1 (a year counts as unsigned); names */
static const uint8_t types[] = {3, 15, 3, 13}, meta[] = {20, 0}, optional[] = {1, 1, 0x60, 4, 9, 2, 'i', 'd', 1, 'v', 1, 'u', 1, 'y'};
static wr_ev_table_map map(void) {
    return (wr_ev_table_map){.table_id = 9, .db = wr_slice_str("d"), .name = wr_slice_str("t"), .ncols = 4, .types = types, .metadata = wr_slice_of(meta, 2),
                             .optional = wr_slice_of(optional, sizeof optional)};
}

typedef struct got { int n; wr_op op; char before[128], after[128]; const wr_schema *schema; } got;
static void text(const wr_schema *s, wr_slice row, char *buf) {
    wr_value v[8];
    wr_err err = WR_ERR_INIT;
    wr_buf b = WR_BUF_INIT;
    if (row.n) assert_int_equal(wr_row_read(s, row, v, &err), WR_OK);
    for (int i = 0; row.n && i < s->ncols; i++) {
        if (i) wr_buf_u8(&b, ' ');
        if (v[i].null) wr_buf_printf(&b, "null");
        else wr_value_print(&b, s->cols[i].type, &v[i]);
    }
    snprintf(buf, 128, "%s", wr_buf_cstr(&b));
    wr_buf_free(&b);
}
static wr_code on_change(void *ctx, const wr_change *c, wr_err *err) {
    got *g = ctx;
    g->n++, g->op = c->op;
    text(g->schema, c->before, g->before), text(g->schema, c->after, g->after);
    return WR_OK;
}

static wr_code decode(const wr_my_table *t, wr_op op, uint8_t present, uint8_t after, const char *bytes, size_t n, got *g, wr_err *err) {
    wr_row_plan *p = NULL;
    wr_ev_table_map m = map();
    wr_event_format f = {.known = true};
    uint64_t rows = 0;
    assert_int_equal(wr_row_plan_new(t, &m, &f, (wr_my_types){0}, &p, err), WR_OK);
    uint8_t *exact = wr_malloc(n);
    memcpy(exact, bytes, n);
    wr_ev_rows e = {.op = op, .table_id = 9, .ncols = 4, .present = &present, .present_after = op == WR_OP_UPDATE ? &after : NULL, .rows = wr_slice_of(exact, n)};
    memset(g, 0, sizeof *g);
    g->schema = t->schema;
    wr_code rc = wr_row_plan_decode(p, &e, on_change, g, &rows, err);
    if (rc == WR_OK) assert_int_equal(rows, g->n);
    wr_free(exact);
    wr_row_plan_free(p);
    return rc;
}
#define ROW(s) s, sizeof s - 1
#define R1 "\x00\x01\x00\x00\x00\x02hi\xff\xff\xff\xff\x7c"

static void whole_rows_are_decoded(void **state) {
    wr_my_table *t = make();
    wr_err err = WR_ERR_INIT;
    got g;
    assert_int_equal(decode(t, WR_OP_INSERT, 0x0F, 0, ROW(R1 "\x0e\x02\x00\x00\x00"), &g, &err), WR_OK);
    assert_int_equal(g.n, 2);
    assert_string_equal(g.after, "2 null null null");
    assert_int_equal(decode(t, WR_OP_UPDATE, 0x0F, 0x0F, ROW(R1 R1), &g, &err), WR_OK);
    assert_string_equal(g.before, "1 hi 4294967295 2024");
    assert_int_equal(decode(t, WR_OP_DELETE, 0x0F, 0, ROW(R1), &g, &err), WR_OK);
    assert_string_equal(g.before, "1 hi 4294967295 2024");
    assert_string_equal(g.after, "");
    wr_my_table_free(t);
}

static void every_cut_of_a_row_is_an_error(void **state) {
    wr_my_table *t = make();
    wr_err err = WR_ERR_INIT;
    got g;
    static const char two[] = R1 R1;
    for (size_t n = 1; n < sizeof two - 1; n++) {
        assert_int_equal(decode(t, WR_OP_UPDATE, 0x0F, 0x0F, two, n, &g, &err), WR_E_DECODE);
        if (n != sizeof R1 - 1) assert_int_equal(decode(t, WR_OP_INSERT, 0x0F, 0, two, n, &g, &err), WR_E_DECODE);
        assert_non_null(strstr(err.msg, "table d.t"));
    }
    wr_my_table_free(t);
}

static void an_after_image_is_completed_from_the_one_before(void **state) {
    wr_my_table *t = make();
    wr_err err = WR_ERR_INIT;
    got g;
    /* only v and y after */
    assert_int_equal(decode(t, WR_OP_UPDATE, 0x0F, 0x0A, ROW(R1 "\x02\x02yo"), &g, &err), WR_OK);
    assert_string_equal(g.before, "1 hi 4294967295 2024");
    assert_string_equal(g.after, "1 yo 4294967295 null");
    wr_my_table_free(t);
}

static void rows_that_cannot_be_completed_stop_with_the_cure(void **state) {
    wr_my_table *t = make();
    wr_err err = WR_ERR_INIT;
    got g;
    assert_int_equal(decode(t, WR_OP_UPDATE, 0x01, 0x02, ROW("\x00\x01\x00\x00\x00\x00\x02yo"), &g, &err), WR_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "lacks column u"));
    assert_non_null(strstr(err.msg, "binlog_row_image"));
    assert_non_null(strstr(err.cure, "binlog_row_image=FULL"));
    assert_int_equal(decode(t, WR_OP_UPDATE, 0x01, 0x0F, ROW("\x00\x01\x00\x00\x00" R1), &g, &err), WR_E_UNSUPPORTED); /* before: the key alone */
    assert_int_equal(decode(t, WR_OP_DELETE, 0x01, 0, ROW("\x00\x01\x00\x00\x00"), &g, &err), WR_E_UNSUPPORTED);
    assert_int_equal(decode(t, WR_OP_INSERT, 0x03, 0, ROW("\x00\x01\x00\x00\x00\x02yo"), &g, &err), WR_E_UNSUPPORTED);
    assert_int_equal(g.n, 0);
    wr_my_table_free(t);
}

static void bytes_that_are_no_utf8_name_the_column(void **state) {
    wr_my_table *t = make();
    wr_err err = WR_ERR_INIT;
    got g;
    assert_int_equal(decode(t, WR_OP_INSERT, 0x0F, 0, ROW("\x00\x01\x00\x00\x00\x02h\xff\xff\xff\xff\xff\x7c"), &g, &err), WR_E_DECODE);
    assert_non_null(strstr(err.msg, "table d.t, column v"));
    wr_my_table_free(t);
}

static void plan_fails(const wr_my_table *t, const wr_ev_table_map *m, const char *part) {
    wr_row_plan *p = NULL;
    wr_event_format f = {.known = true};
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_row_plan_new(t, m, &f, (wr_my_types){0}, &p, &err), WR_E_SCHEMA);
    if (!strstr(err.msg, part)) print_message("%s\n", err.msg);
    assert_non_null(strstr(err.msg, part));
    assert_non_null(strstr(err.msg, "table d.t"));
    assert_true(err.cure[0]);
}

static void a_map_that_disagrees_with_the_definition_is_a_schema_error(void **state) {
    wr_my_table *t = make();
    wr_ev_table_map m = map();
    m.ncols = 3;
    plan_fails(t, &m, "3 columns in the binlog, but 4");
    m = map();
    static const uint8_t other[] = {8, 15, 3, 13};
    m.types = other;
    plan_fails(t, &m, "column 1 is BIGINT");
    m = map();
    static const uint8_t wrong_sign[] = {1, 1, 0xE0};
    m.optional = wr_slice_of(wrong_sign, 3);
    plan_fails(t, &m, "column 1 is unsigned");
    static const uint8_t wrong_name[] = {4, 9, 2, 'i', 'd', 1, 'w', 1, 'u', 1, 'y'};
    m.optional = wr_slice_of(wrong_name, sizeof wrong_name);
    plan_fails(t, &m, "column 2 is \"w\"");
    m.optional = (wr_slice){0}; /* nothing said: fine */
    wr_row_plan *p = NULL;
    wr_event_format f = {.known = true};
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_row_plan_new(t, &m, &f, (wr_my_types){0}, &p, &err), WR_OK);
    wr_row_plan_free(p);
    m.metadata = wr_slice_of(meta, 1);
    assert_int_equal(wr_row_plan_new(t, &m, &f, (wr_my_types){0}, &p, &err), WR_E_DECODE);
    m = map();
    for (size_t n = 1; n < sizeof optional; n++) { /* cut metadata */
        m.optional = wr_slice_of(optional, n);
        wr_code rc = wr_row_plan_new(t, &m, &f, (wr_my_types){0}, &p, &err);
        if (rc == WR_OK) wr_row_plan_free(p);
        else assert_int_equal(rc, WR_E_DECODE);
    }
    wr_my_table_free(t);
}

static void a_failed_allocation_leaves_nothing_behind(void **state) {
    wr_my_table *t = make();
    wr_err err = WR_ERR_INIT;
    got g;
    for (uint64_t n = 1; n < 40; n++) {
        wr_row_plan *p = NULL;
        wr_ev_table_map m = map();
        wr_event_format f = {.known = true};
        uint64_t rows = 0;
        uint8_t all = 0x0F, some = 0x0A;
        memset(&g, 0, sizeof g);
        g.schema = t->schema;
        wr_mem_fail_after(n);
        wr_code rc = wr_row_plan_new(t, &m, &f, (wr_my_types){0}, &p, &err);
        wr_ev_rows e = {.op = WR_OP_UPDATE, .table_id = 9, .ncols = 4, .present = &all, .present_after = &some, .rows = wr_slice_of(ROW(R1 "\x02\x02yo"))};
        bool failed = rc != WR_OK;
        if (rc == WR_OK) {
            rc = wr_row_plan_decode(p, &e, on_change, &g, &rows, &err);
            failed = rc != WR_OK;
        }
        wr_mem_fail_after(0);
        wr_row_plan_free(p);
        if (!failed) break;
        assert_int_equal(rc, WR_E_NOMEM);
    }
    wr_my_table_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_rows_are_decoded), cmocka_unit_test(every_cut_of_a_row_is_an_error), cmocka_unit_test(an_after_image_is_completed_from_the_one_before),
        cmocka_unit_test(rows_that_cannot_be_completed_stop_with_the_cure), cmocka_unit_test(bytes_that_are_no_utf8_name_the_column),
        cmocka_unit_test(a_map_that_disagrees_with_the_definition_is_a_schema_error), cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
