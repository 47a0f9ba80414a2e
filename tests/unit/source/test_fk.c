/* Foreign keys of a definition, and which tables a change reaches through them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mysql/cascade.h"
#include "mysql/fk.h"
#include "weir/base/mem.h"

static const wr_ddl_server maria = {.is_mariadb = true, .version = 101119}, mysql = {.version = 90704};

static wr_my_table *table(const char *db, const char *name) {
    wr_my_table *t = wr_calloc(1, sizeof *t);
    t->db = wr_strdup(db), t->name = wr_strdup(name);
    return t;
}

/* "name>db.parent(cols)du" of each key, d and u the first letters of the rules */
static char *shown(const wr_my_table *t) {
    wr_buf b = WR_BUF_INIT;
    for (int i = 0; i < t->nfks; i++) {
        const wr_my_fk *f = &t->fks[i];
        wr_buf_printf(&b, "%s%s>%s.%s(", i ? " " : "", f->name ? f->name : "?", f->db, f->parent);
        for (int k = 0; k < f->ncols; k++) wr_buf_printf(&b, "%s%s", k ? "," : "", f->cols[k]);
        wr_buf_printf(&b, ")%c%c", "ncs"[f->on_delete], "ncs"[f->on_update]);
    }
    char *s = wr_strdup(b.n ? wr_buf_cstr(&b) : "");
    wr_buf_free(&b);
    return s;
}

static void expect(wr_my_table *t, const char *want) {
    WR_AUTO char *got = shown(t);
    assert_string_equal(got, want);
}

static void alter(wr_my_table *t, const wr_ddl_server *sv, const char *sql) {
    wr_arena *arena = wr_arena_new(1 << 20);
    wr_parser p;
    wr_sql s;
    wr_ddl_body b;
    wr_err err = WR_ERR_INIT;
    wr_parser_init(&p, wr_slice_str(sql), 0, sv->is_mariadb, sv->version, arena);
    wr_sql_head(&p, "d", &s);
    if (s.kind == WR_SQL_CREATE_TABLE) wr_ddl_parse_create(&p, "d", &b);
    else wr_ddl_parse_alter(&p, "d", &b);
    assert_null(p.bad);
    assert_int_equal(wr_my_fks_edit(t, &b, sv, &err), WR_OK);
    wr_arena_free(arena);
}

static void show_create_is_read(void **state) {
    wr_my_table *t = table("d", "t");
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_my_fks_from_create(t, "CREATE TABLE `t` (\n  `a` int(11) DEFAULT NULL COMMENT '\\n  CONSTRAINT `no` FOREIGN KEY',\n  KEY `x` (`a`),\n"
                                              "  CONSTRAINT `f``1` FOREIGN KEY (`a`, `b`) REFERENCES `p` (`c,d`, `e`) ON DELETE CASCADE,\n"
                                              "  CONSTRAINT `c` CHECK (`a` > 0),\n"
                                              "  CONSTRAINT `f2` FOREIGN KEY (`a`) REFERENCES `o`.`p` (`id`) ON DELETE NO ACTION ON UPDATE SET NULL\n) ENGINE=InnoDB", &maria, &err), WR_OK);
    expect(t, "f`1>d.p(c,d,e)cn f2>o.p(id)ns");
    assert_true(wr_my_fks_change_rows(t));
    assert_int_equal(wr_my_fks_from_create(t, "CREATE TABLE `t` (\n  `a` int\n)", &maria, &err), WR_OK);
    expect(t, "");
    wr_my_table_free(t);
}

static void names_are_made_as_the_servers_do(void **state) {
    wr_my_table *t = table("d", "t"), *u = table("d", "t");
    alter(t, &maria, "CREATE TABLE t (a INT REFERENCES p(id) ON DELETE CASCADE, b INT, FOREIGN KEY ix (b) REFERENCES x.p(id), CONSTRAINT FOREIGN KEY (b) REFERENCES q(k) ON UPDATE SET NULL)");
    expect(t, "t_ibfk_1>d.p(id)cn ix>x.p(id)nn t_ibfk_2>d.q(k)ns");
    alter(u, &mysql, "CREATE TABLE t (b INT, FOREIGN KEY ix (b) REFERENCES p(id), CONSTRAINT t_ibfk_7 FOREIGN KEY (b) REFERENCES q(k))");
    alter(u, &mysql, "ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES r(k)");
    expect(u, "t_ibfk_1>d.p(id)nn t_ibfk_7>d.q(k)nn t_ibfk_8>d.r(k)nn");
    assert_true(wr_my_fks_follow_table(t, "v"));
    expect(t, "v_ibfk_1>d.p(id)cn ix>x.p(id)nn v_ibfk_2>d.q(k)ns");
    alter(u, &mysql, "ALTER TABLE t DROP CONSTRAINT t_ibfk_8, DROP INDEX t_ibfk_1, DROP FOREIGN KEY t_ibfk_7");
    expect(u, "t_ibfk_1>d.p(id)nn");
    wr_my_table_free(t), wr_my_table_free(u);
}

static void what_is_not_certain_stays(void **state) {
    static const wr_ddl_server old = {.is_mariadb = true, .version = 100400}, later = {.is_mariadb = true, .version = 120100};
    wr_my_table *t = table("d", "t");
    alter(t, &later, "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p(id) ON DELETE CASCADE, ADD FOREIGN KEY (a) REFERENCES q(id) ON DELETE CASCADE");
    alter(t, &later, "ALTER TABLE t DROP FOREIGN KEY `1`");
    expect(t, "?>d.p(id)cn ?>d.q(id)cn");
    wr_my_fks_clear(t);
    alter(t, &later, "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p(id) ON DELETE CASCADE");
    alter(t, &later, "ALTER TABLE t DROP FOREIGN KEY `1`");
    expect(t, "");
    alter(t, &old, "CREATE TABLE t (a INT REFERENCES p(id) ON DELETE CASCADE)"); /* read and forgotten */
    expect(t, "");
    wr_my_table_free(t);
}

static void columns_are_followed(void **state) {
    wr_my_table *t = table("d", "t"), *before = table("d", "p"), *after = table("d", "p");
    wr_err err = WR_ERR_INIT;
    bool any = false;
    alter(t, &mysql, "ALTER TABLE t ADD FOREIGN KEY (x, y) REFERENCES p(a, b) ON UPDATE CASCADE, ADD FOREIGN KEY (x) REFERENCES o.p(a)");
    wr_my_col now[2] = {{.name = (char *)"b", .id = 1}, {.name = (char *)"a", .id = 2}}, then[2] = {{.name = (char *)"a", .id = 1}, {.name = (char *)"b", .id = 2}};
    before->cols = then, before->ncols = 2, after->cols = now, after->ncols = 2;
    assert_int_equal(wr_my_fks_rename_cols(t, before, after, &any, &err), WR_OK);
    assert_true(any);
    expect(t, "t_ibfk_1>d.p(b,a)nc t_ibfk_2>o.p(a)nn");
    now[0].id = 9; /* gone: from here on every update counts */
    assert_int_equal(wr_my_fks_rename_cols(t, before, after, &any, &err), WR_OK);
    expect(t, "t_ibfk_1>d.p()nc t_ibfk_2>o.p(a)nn");
    before->cols = after->cols = NULL, before->ncols = after->ncols = 0;
    wr_my_table_free(t), wr_my_table_free(before), wr_my_table_free(after);
}

/* ------------------------------------------------------------------ reach */
typedef struct fixture {
    wr_capture *capture;
    wr_catalogue *c;
    char told[200];
} fixture;

static void add(fixture *fx, uint32_t id, const char *name, bool captured, const char *keys) {
    char json[1500];
    snprintf(json, sizeof json, "{\"format\":1,\"id\":%u,\"version\":1,\"next_col_id\":3,\"db\":\"d\",\"name\":\"%s\",\"captured\":%s,\"foreign_keys\":[%s],\"columns\":[%s]}", id, name,
             captured ? "true" : "false", keys,
             captured ? "{\"name\":\"id\",\"id\":1,\"kind\":\"int\",\"type\":\"int\",\"key\":1,\"not_null\":true},{\"name\":\"v\",\"id\":2,\"kind\":\"varchar\",\"type\":\"varchar(9)\",\"length\":9}" : "");
    wr_err err = WR_ERR_INIT;
    wr_ddl d = {.kind = captured ? WR_DDL_CREATE : WR_DDL_HIDDEN, .table = id, .def = json};
    if (wr_catalogue_restore(fx->c, &d, &err) != WR_OK) fail_msg("%s", err.msg);
}

#define KEY(parent, columns, del, up) "{\"db\":\"d\",\"parent\":\"" parent "\",\"on_delete\":\"" del "\",\"on_update\":\"" up "\",\"columns\":[" columns "]}"

static int setup(void **state) {
    fixture *fx = wr_calloc(1, sizeof *fx);
    wr_err err = WR_ERR_INIT;
    static const char *const all[] = {"d\\..*"};
    static const char *const out[] = {"d\\.out.*"};
    assert_int_equal(wr_capture_new(all, 1, out, 1, &fx->capture, &err), WR_OK);
    assert_int_equal(wr_catalogue_new(fx->capture, (wr_my_types){0}, WR_MARIADB, &fx->c, &err), WR_OK);
    add(fx, 1, "p", true, "");
    add(fx, 2, "c", true, KEY("p", "\"id\"", "cascade", "cascade"));
    add(fx, 3, "g", true, KEY("c", "\"id\"", "cascade", "none") "," KEY("c", "\"v\"", "none", "cascade"));
    add(fx, 4, "s", true, KEY("p", "\"v\"", "set", "none"));
    add(fx, 5, "far", true, KEY("out1", "", "cascade", "none"));
    add(fx, 6, "out1", false, KEY("out2", "", "set", "none") "," KEY("p", "\"id\"", "cascade", "none"));
    add(fx, 7, "tree", true, KEY("tree", "\"id\"", "cascade", "none") "," KEY("loop", "\"id\"", "cascade", "none"));
    add(fx, 8, "loop", true, KEY("tree", "\"id\"", "cascade", "none"));
    add(fx, 9, "none", true, KEY("p", "\"id\"", "none", "none"));
    *state = fx;
    return 0;
}

static int teardown(void **state) {
    fixture *fx = *state;
    wr_catalogue_free(fx->c);
    wr_capture_free(fx->capture);
    wr_free(fx);
    return 0;
}

static wr_code note(void *ctx, uint32_t table_id, const wr_cascade_table *cause, wr_op op, wr_err *err) {
    fixture *fx = ctx;
    size_t n = strlen(fx->told);
    snprintf(fx->told + n, sizeof fx->told - n, "%u ", table_id);
    return WR_OK;
}

static void row(wr_buf *b, int32_t id, const char *v) {
    wr_value x = {.i32 = id}, y = {.s = wr_slice_str(v)};
    wr_buf_clear(b);
    size_t at = wr_row_begin(b, 2);
    wr_row_put(b, at, 0, (wr_type){.kind = WR_INT}, &x);
    wr_row_put(b, at, 1, (wr_type){.kind = WR_STRING}, &y);
}

static void told(fixture *fx, wr_cascades *g, wr_cascade_table *t, wr_op op, int32_t id1, const char *v1, int32_t id2, const char *v2, const char *want) {
    WR_AUTO_BUF wr_buf a = WR_BUF_INIT;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_err err = WR_ERR_INIT;
    if (v1) row(&a, id1, v1), row(&b, id2, v2);
    fx->told[0] = 0;
    assert_int_equal(wr_cascades_rows(g, t, op, wr_buf_view(&a), wr_buf_view(&b), note, fx, &err), WR_OK);
    assert_string_equal(fx->told, want);
}

static void changes_reach_as_far_as_they_go(void **state) {
    fixture *fx = *state;
    wr_cascades *g;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_cascades_new(fx->c, &g, &err), WR_OK);
    wr_cascade_table *p = wr_cascades_of_id(g, 1), *tree = wr_cascades_of_id(g, 7), *out2 = wr_cascades_of_name(g, "d", "out2");
    assert_non_null(p), assert_non_null(tree), assert_non_null(out2);
    assert_null(wr_cascades_of_id(g, 3));
    assert_null(wr_cascades_of_name(g, "d", "far"));
    told(fx, g, p, WR_OP_INSERT, 0, NULL, 1, "x", "");
    told(fx, g, p, WR_OP_UPDATE, 1, "x", 1, "y", "");      /* no key of that column acts on updates */
    told(fx, g, p, WR_OP_UPDATE, 1, "x", 2, "x", "2 3 ");  /* any column of c may have changed, and g follows one of them */
    told(fx, g, p, WR_OP_UPDATE, 3, "x", 4, "x", "");      /* once a transaction */
    told(fx, g, p, WR_OP_DELETE, 1, "x", 1, "x", "4 5 ");  /* 5 through a table that is not captured */
    wr_cascades_next(g);
    told(fx, g, p, WR_OP_DELETE, 1, "x", 1, "x", "2 3 4 5 ");
    told(fx, g, tree, WR_OP_DELETE, 1, "x", 1, "x", "7 8 "); /* round and round */
    wr_cascades_next(g);
    told(fx, g, out2, WR_OP_DELETE, 0, NULL, 0, NULL, "");  /* out1 is only updated, and far follows deletes */
    wr_cascades_next(g);
    fx->told[0] = 0;
    assert_int_equal(wr_cascades_unseen(g, note, fx, &err), WR_OK);
    assert_string_equal(fx->told, "5 "); /* out1's rows may have been deleted */
    wr_cascades_free(g);
}

static void an_update_of_unknown_columns_counts(void **state) {
    fixture *fx = *state;
    wr_cascades *g;
    wr_err err = WR_ERR_INIT;
    add(fx, 10, "q", true, KEY("p", "\"renamed\"", "none", "cascade"));
    assert_int_equal(wr_cascades_new(fx->c, &g, &err), WR_OK);
    told(fx, g, wr_cascades_of_id(g, 1), WR_OP_UPDATE, 1, "x", 1, "y", "10 ");
    told(fx, g, wr_cascades_of_id(g, 1), WR_OP_UPDATE, 0, NULL, 0, NULL, "2 3 ");
    wr_cascades_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(show_create_is_read),
        cmocka_unit_test(names_are_made_as_the_servers_do),
        cmocka_unit_test(what_is_not_certain_stays),
        cmocka_unit_test(columns_are_followed),
        cmocka_unit_test_setup_teardown(changes_reach_as_far_as_they_go, setup, teardown),
        cmocka_unit_test_setup_teardown(an_update_of_unknown_columns_counts, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
