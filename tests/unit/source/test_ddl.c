/* Statements and the events they must cause. That the definitions are what servers make of the same statements is test_ddl_server.c's matter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ddl_fixture.h"

/* sql, events; a NULL sql ends the list. Events "" = none. */
typedef struct step { const char *sql, *events; } step;

static void check(wr_flavor flavor, const char *pattern, const step *s) {
    ddl_fixture f;
    fixture_open(&f, pattern, flavor);
    for (; s->sql; s++) {
        wr_code rc = fixture_run(&f, s->sql);
        if (rc != WR_OK) fail_msg("%s\n  %s", s->sql, f.err.msg);
        /* databases' defaults are no matter here */
        wr_buf seen = WR_BUF_INIT;
        char *all = wr_strdup(fixture_events(&f));
        for (char *l = strtok(all, "\n"); l; l = strtok(NULL, "\n"))
            if (strncmp(l, "HIDDEN d. ", 10) != 0) wr_buf_printf(&seen, "%s\n", l);
        wr_free(all);
        const char *text = seen.n ? wr_buf_cstr(&seen) : "";
        if (strcmp(text, s->events) != 0) fail_msg("%s\nexpected:\n%sfound:\n%s", s->sql, s->events, text);
        wr_buf_free(&seen);
    }
    fixture_close(&f);
}
static void on_both(const step *s) {
    check(WR_MARIADB, "d\\..*", s);
    check(WR_MYSQL, "d\\..*", s);
}

static const char T[] = "CREATE TABLE t(id INT PRIMARY KEY, a VARCHAR(5))";
#define T_CREATED "CREATE d.t #1 v1: id int not null (1) key 1, a string (2)\n"

static void a_column_keeps_its_id_through_renames_and_moves(void **state) {
    on_both((step[]){
        {T, T_CREATED},
        {"ALTER TABLE t CHANGE a b VARCHAR(9) FIRST", "ALTER d.t #1 v2: b string (2), id int not null (1) key 1\n"},
        {"ALTER TABLE d.t RENAME COLUMN b TO c, RENAME COLUMN id TO b", "ALTER d.t #1 v3: c string (2), b int not null (1) key 1\n"},
        {"ALTER TABLE t RENAME COLUMN b TO c, RENAME COLUMN c TO b", "ALTER d.t #1 v4: b string (2), c int not null (1) key 1\n"},
        {"ALTER TABLE t MODIFY c BIGINT", "ALTER d.t #1 v5: b string (2), c long not null (1) key 1\n"},
        {"ALTER TABLE t MODIFY b INT", "ALTER d.t retyped #1 v6: b int (3), c long not null (1) key 1\n"},
        {0}});
}

static void added_columns_are_filled_kept_or_read_again(void **state) {
    on_both((step[]){
        {T, T_CREATED},
        {"ALTER TABLE t ADD b INT", "ALTER d.t #1 v2: id int not null (1) key 1, a string (2), b int (3)\n"},
        {"ALTER TABLE t ADD c INT DEFAULT 5 AFTER id", "ALTER d.t fill #1 v3: id int not null (1) key 1, c int (4) = 5, a string (2), b int (3)\n"},
        {"ALTER TABLE t DROP b, DROP c, ADD e ENUM('x','y') NOT NULL", "ALTER d.t fill #1 v4: id int not null (1) key 1, a string (2), e string not null (5) = x\n"},
        {"ALTER TABLE t DROP e, ADD f INT DEFAULT (1+1)", "ALTER d.t reload #1 v5: id int not null (1) key 1, a string (2), f int (6)\n"},
        {"ALTER TABLE t DROP f, ADD g INT AS (id+1)", "ALTER d.t reload #1 v6: id int not null (1) key 1, a string (2), g int (7)\n"},
        {"ALTER TABLE t DROP g, ADD n INT AUTO_INCREMENT UNIQUE", "ALTER d.t reload #1 v7: id int not null (1) key 1, a string (2), n int not null (8)\n"},
        {"ALTER TABLE t DROP n, ADD d DATE NOT NULL", "ALTER d.t #1 v8: id int not null (1) key 1, a string (2), d date (9)\n"},
        {"ALTER TABLE t DROP d, ADD p DECIMAL(5,2) DEFAULT '1.005', ADD q VARBINARY(3) DEFAULT x'00ff', ADD r TIMESTAMP NULL DEFAULT '2020-01-01 00:00:00'",
         "ALTER d.t fill #1 v9: id int not null (1) key 1, a string (2), p decimal(5,2) (10) = 1.01, q binary (11) = 0x00ff, r timestamptz (12) = 2020-01-01T00:00:00.000000Z\n"},
        {0}});
}

static void what_may_change_stored_values_is_read_again(void **state) {
    static const struct { const char *from, *to; bool reload; } cases[] = {
        {"INT", "BIGINT", false}, {"INT", "SMALLINT", true}, {"INT UNSIGNED", "BIGINT", false}, {"BIGINT", "BIGINT UNSIGNED", true}, {"TINYINT", "INT", false},
        {"VARCHAR(5)", "VARCHAR(6)", false}, {"VARCHAR(6)", "VARCHAR(5)", true}, {"VARCHAR(5)", "CHAR(5)", true}, {"CHAR(5)", "VARCHAR(5)", false},
        {"VARCHAR(5)", "TEXT", false}, {"TEXT", "VARCHAR(100)", true}, {"TEXT", "LONGTEXT", false}, {"VARCHAR(5) CHARACTER SET latin1", "VARCHAR(5)", false},
        {"VARCHAR(5)", "VARCHAR(5) CHARACTER SET latin1", true}, {"DECIMAL(5,2)", "DECIMAL(6,2)", false}, {"DECIMAL(5,2)", "DECIMAL(6,3)", true},
        {"FLOAT", "DOUBLE", false}, {"DOUBLE", "FLOAT", true}, {"FLOAT", "FLOAT(7,3)", true}, {"ENUM('a','b')", "ENUM('a','b','c')", false},
        {"ENUM('a','b')", "ENUM('b','a')", true}, {"SET('a')", "SET('a','b')", false}, {"DATETIME", "DATETIME(3)", false}, {"DATETIME(3)", "DATETIME", true},
        {"BINARY(4)", "BINARY(5)", true}, {"VARBINARY(4)", "BLOB", false}, {"INT NOT NULL", "INT", false}, {"TIMESTAMP NULL", "TIMESTAMP NOT NULL", true},
        {"BIT(3)", "BIT(4)", false}, {"DATE", "DATETIME", true}, {"YEAR", "INT", true}, {"POINT", "GEOMETRY", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ddl_fixture f;
        char sql[200];
        fixture_open(&f, "d\\..*", WR_MYSQL);
        snprintf(sql, sizeof sql, "CREATE TABLE t(id INT PRIMARY KEY, c %s)", cases[i].from);
        assert_int_equal(fixture_run(&f, sql), WR_OK);
        snprintf(sql, sizeof sql, "ALTER TABLE t MODIFY c %s", cases[i].to);
        assert_int_equal(fixture_run(&f, sql), WR_OK);
        const char *said = fixture_events(&f);
        bool again = !strncmp(said, "ALTER d.t reload #", 18) || !strncmp(said, "ALTER d.t retyped #", 19);
        if (again != cases[i].reload || (!again && strncmp(said, "ALTER d.t #", 11) != 0))
            fail_msg("%s to %s: %s", cases[i].from, cases[i].to, fixture_events(&f));
        fixture_close(&f);
    }
}

static void null_to_not_null_is_safe_in_strict_mode_only(void **state) {
    ddl_fixture f;
    for (int strict = 0; strict < 2; strict++) {
        fixture_open(&f, "d\\..*", WR_MYSQL);
        assert_int_equal(fixture_run(&f, T), WR_OK);
        f.st.sql_mode = strict ? 1u << 21 : 0;
        assert_int_equal(fixture_run(&f, "ALTER TABLE t MODIFY a VARCHAR(5) NOT NULL"), WR_OK);
        assert_string_equal(fixture_events(&f), strict ? "ALTER d.t #1 v2: id int not null (1) key 1, a string not null (2)\n" : "ALTER d.t reload #1 v2: id int not null (1) key 1, a string not null (2)\n");
        fixture_close(&f);
    }
}

static void primary_keys_come_and_go(void **state) {
    on_both((step[]){
        {"CREATE TABLE t(id INT, a INT, b VARCHAR(20) NOT NULL, CONSTRAINT x PRIMARY KEY USING BTREE (b(5) DESC, id))", "CREATE d.t #1 v1: id int not null (1) key 2, a int (2), b string not null (3) key 1\n"},
        {"ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY(id)", "ALTER d.t #1 v2: id int not null (1) key 1, a int (2), b string not null (3)\n"},
        {"DROP INDEX `PRIMARY` ON t", "ALTER d.t #1 v3: id int not null (1), a int (2), b string not null (3)\n"},
        {"ALTER TABLE t MODIFY id INT", "ALTER d.t #1 v4: id int (1), a int (2), b string not null (3)\n"},
        {"ALTER TABLE t ADD n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY FIRST", "ALTER d.t reload #1 v5: n long not null (4) key 1, id int (1), a int (2), b string not null (3)\n"},
        {"ALTER TABLE t ADD INDEX (a), ADD KEY k(b), COMMENT='x', ALGORITHM=INPLACE, LOCK=NONE", ""},
        {"CREATE UNIQUE INDEX u ON t(a)", ""},
        {"ALTER TABLE t ORDER BY a, b DESC", ""},
        {"ANALYZE TABLE t", ""},
        {0}});
}

static void tables_are_made_renamed_dropped(void **state) {
    on_both((step[]){
        {T, T_CREATED},
        {"CREATE TABLE IF NOT EXISTS t(other INT)", ""},
        {"CREATE TABLE u LIKE t", "CREATE d.u #2 v1: id int not null (1) key 1, a string (2)\n"},
        {"RENAME TABLE t TO x, u TO t, x TO u", "RENAME d.t -> d.u #1 v2: id int not null (1) key 1, a string (2)\nRENAME d.u -> d.t #2 v2: id int not null (1) key 1, a string (2)\n"},
        {"ALTER TABLE u RENAME AS v, ADD w INT DEFAULT 4", "RENAME d.u -> d.v fill #1 v3: id int not null (1) key 1, a string (2), w int (3) = 4\n"},
        {"TRUNCATE v", "TRUNCATE d.v #1 v3: id int not null (1) key 1, a string (2), w int (3)\n"},
        {"DROP TABLE IF EXISTS o.z, v, nope", "DROP d.v #1\n"},
        {"CREATE TABLE v(z INT)", "CREATE d.v #3 v1: z int (1)\n"},
        {"RENAME TABLE v TO o.v", "DROP d.v #3\nHIDDEN o.v #4\n"},
        {"ALTER TABLE o.v ADD y INT", "HIDDEN o.v #4\n"},
        {"RENAME TABLE o.v TO d.v", "DROP o.v #4\nCREATE d.v reload #5 v1: z int (1), y int (2)\n"},
        {"DROP DATABASE d", "DROP d.v #5\nDROP d.t #2\n"},
        {0}});
}

/* MySQL logs CREATE TABLE IF NOT EXISTS when there is a view; the event says that no engine committed anything. */
static void a_create_that_no_engine_committed_made_no_table(void **state) {
    ddl_fixture f;
    fixture_open(&f, "d\\..*", WR_MYSQL);
    f.st.maybe_nothing = true;
    assert_int_equal(fixture_run(&f, "CREATE TABLE IF NOT EXISTS v(a INT)"), WR_OK);
    assert_string_equal(fixture_events(&f), "");
    assert_int_equal(fixture_run(&f, "CREATE TABLE IF NOT EXISTS v(a INT) ENGINE=innodb"), WR_OK);
    assert_string_equal(fixture_events(&f), "");
    assert_int_equal(fixture_run(&f, "CREATE TABLE IF NOT EXISTS m(a INT) ENGINE=MyISAM"), WR_OK);
    assert_string_equal(fixture_events(&f), "CREATE d.m #1 v1: a int (1)\n");
    assert_int_equal(fixture_run(&f, "CREATE TABLE IF NOT EXISTS l LIKE m"), WR_OK);
    assert_string_equal(fixture_events(&f), "CREATE d.l #2 v1: a int (1)\n");
    assert_int_equal(fixture_run(&f, "CREATE TABLE x(a INT)"), WR_OK);
    assert_string_equal(fixture_events(&f), "CREATE d.x #3 v1: a int (1)\n");
    f.st.maybe_nothing = false;
    assert_int_equal(fixture_run(&f, "CREATE TABLE IF NOT EXISTS v(a INT)"), WR_OK);
    assert_string_equal(fixture_events(&f), "CREATE d.v #4 v1: a int (1)\n");
    fixture_close(&f);
}

static void rows_that_went_without_events_are_read_again(void **state) {
    on_both((step[]){
        {T, T_CREATED},
        {"CREATE TABLE u LIKE t", "CREATE d.u #2 v1: id int not null (1) key 1, a string (2)\n"},
        {"ALTER TABLE t DROP PARTITION p0, p1", "ALTER d.t reload #1 v2: id int not null (1) key 1, a string (2)\n"},
        {"ALTER TABLE t TRUNCATE PARTITION ALL", "ALTER d.t reload #1 v3: id int not null (1) key 1, a string (2)\n"},
        {"ALTER TABLE t EXCHANGE PARTITION p2 WITH TABLE u WITHOUT VALIDATION", "ALTER d.t reload #1 v4: id int not null (1) key 1, a string (2)\nALTER d.u reload #2 v2: id int not null (1) key 1, a string (2)\n"},
        {"ALTER TABLE o.x EXCHANGE PARTITION p2 WITH TABLE d.u", "ALTER d.u reload #2 v3: id int not null (1) key 1, a string (2)\n"},
        {"ALTER TABLE t IMPORT TABLESPACE", "ALTER d.t reload #1 v5: id int not null (1) key 1, a string (2)\n"},
        {"ALTER TABLE t REORGANIZE PARTITION a INTO (PARTITION b VALUES LESS THAN (4))", ""},
        {"ALTER TABLE t ADD PARTITION (PARTITION c VALUES LESS THAN (9))", ""},
        {"ALTER TABLE t REMOVE PARTITIONING", ""},
        {"ALTER IGNORE TABLE t ADD UNIQUE (a)", "ALTER d.t reload #1 v6: id int not null (1) key 1, a string (2)\n"},
        {0}});
}

/* ------------------------------------------------------------------ online schema changes */
static void gh_ost_swaps_its_table_in(void **state) {
    static const step run[] = {
        {"CREATE TABLE orders(id INT PRIMARY KEY, v VARCHAR(20))", "CREATE d.orders #1 v1: id int not null (1) key 1, v string (2)\n"},
        {"CREATE TABLE _orders_ghc(id BIGINT, hint VARCHAR(64) CHARACTER SET ascii NOT NULL, PRIMARY KEY(id))", "HIDDEN d._orders_ghc #2\n"},
        {"CREATE /* gh-ost */ TABLE d._orders_gho LIKE d.orders", "HIDDEN d._orders_gho #3\n"},
        {"ALTER /* gh-ost */ TABLE d._orders_gho ADD note VARCHAR(10) DEFAULT 'n' AFTER id, MODIFY v VARCHAR(200), ADD INDEX (note)", "HIDDEN d._orders_gho #3\n"},
        {"CREATE TABLE _orders_del(id INT PRIMARY KEY) COMMENT='ghost-cut-over-sentry'", "HIDDEN d._orders_del #4\n"},
        {"DROP TABLE _orders_del", "DROP d._orders_del #4\n"},
        {"RENAME /* gh-ost */ TABLE d.orders TO d._orders_del, d._orders_gho TO d.orders",
         "DROP d._orders_gho #3\nALTER d.orders fill #1 v2: id int not null (1) key 1, note string (3) = n, v string (2)\nHIDDEN d._orders_del #5\n"},
        {"DROP TABLE IF EXISTS d._orders_ghc", "DROP d._orders_ghc #2\n"},
        {"DROP TABLE d._orders_del", "DROP d._orders_del #5\n"},
        {"ALTER TABLE orders ADD z INT", "ALTER d.orders #1 v3: id int not null (1) key 1, note string (3), v string (2), z int (4)\n"},
        {0}};
    check(WR_MARIADB, "d\\..*", run);
    check(WR_MYSQL, "d\\.orders", run);
}

static void pt_osc_is_trusted_when_its_triggers_are_there(void **state) {
    on_both((step[]){
        {T, T_CREATED},
        {"CREATE TABLE `d`.`_t_new` (`id` int NOT NULL, `a` varchar(5) DEFAULT NULL, PRIMARY KEY (`id`))", "HIDDEN d._t_new #2\n"},
        {"ALTER TABLE d._t_new MODIFY id BIGINT", "HIDDEN d._t_new #2\n"},
        {"CREATE DEFINER=`x`@`%` TRIGGER `pt_osc_d_t_del` AFTER DELETE ON `d`.`t` FOR EACH ROW DELETE IGNORE FROM d._t_new WHERE id <=> OLD.id", "HIDDEN d._t_new #2\n"},
        {"RENAME TABLE d.t TO d._t_old, d._t_new TO d.t", "DROP d._t_new #2\nALTER d.t #1 v2: id long not null (1) key 1, a string (2)\nHIDDEN d._t_old #3\n"},
        {"DROP TABLE IF EXISTS d._t_old", "DROP d._t_old #3\n"},
        {"CREATE TABLE d._t_new LIKE d.t", "HIDDEN d._t_new #4\n"},
        {"RENAME TABLE d.t TO d._t_old, d._t_new TO d.t", "DROP d._t_new #4\nALTER d.t reload #1 v3: id long not null (1) key 1, a string (2)\nHIDDEN d._t_old #5\n"},
        {0}});
}

static void a_swap_whose_copy_cannot_be_judged_is_read_again(void **state) {
    static const char *const alters[] = {
        "ALTER TABLE _t_gho DROP a, ADD w VARCHAR(20)", /* a renamed by hand? */
        "ALTER TABLE _t_gho RENAME COLUMN a TO b", "ALTER TABLE _t_gho ADD UNIQUE (a)", "ALTER TABLE _t_gho DROP PRIMARY KEY, ADD PRIMARY KEY(a)",
        "ALTER TABLE _t_gho PARTITION BY RANGE(id)(PARTITION p VALUES LESS THAN (10))", "ALTER TABLE _t_gho MODIFY a INT", "ALTER TABLE _t_gho ADD c INT AS (id+1)",
        "ALTER TABLE _t_gho ADD n INT DEFAULT (1+1)", "TRUNCATE _t_gho", "ALTER TABLE _t_gho ADD CHECK (id > 5)", "ALTER TABLE t ADD late INT", "ALTER TABLE _t_gho MODIFY a VARCHAR(5) NOT NULL",
    };
    for (size_t i = 0; i < sizeof alters / sizeof *alters; i++) {
        ddl_fixture f;
        fixture_open(&f, "d\\..*", WR_MYSQL);
        assert_int_equal(fixture_run(&f, T), WR_OK);
        assert_int_equal(fixture_run(&f, "CREATE TABLE _t_gho LIKE t"), WR_OK);
        assert_int_equal(fixture_run(&f, alters[i]), WR_OK);
        assert_int_equal(fixture_run(&f, "RENAME TABLE t TO _t_del, _t_gho TO t"), WR_OK);
        if (!strstr(fixture_events(&f), "ALTER d.t reload #1")) fail_msg("%s: %s", alters[i], fixture_events(&f));
        fixture_close(&f);
    }
}

static void a_swap_in_two_steps_is_one(void **state) {
    on_both((step[]){
        {T, T_CREATED},
        {"CREATE TABLE _t_gho LIKE t", "HIDDEN d._t_gho #2\n"},
        {"ALTER TABLE _t_gho ADD b INT DEFAULT 1", "HIDDEN d._t_gho #2\n"},
        {"RENAME TABLE t TO _t_del", "HIDDEN d._t_del #3\n"},
        {"RENAME TABLE _t_gho TO t", "HIDDEN d._t_del #3\nDROP d._t_gho #2\nALTER d.t fill #1 v2: id int not null (1) key 1, a string (2), b int (3) = 1\n"},
        {"DROP TABLE _t_del", "DROP d._t_del #3\n"},
        /* and back again */
        {"RENAME TABLE t TO _t_old", "HIDDEN d._t_old #4\n"},
        {"RENAME TABLE _t_old TO t", "DROP d._t_old #4\n"},
        /* somewhere else */
        {"RENAME TABLE t TO _t_old", "HIDDEN d._t_old #5\n"},
        {"RENAME TABLE _t_old TO u", "DROP d._t_old #5\nRENAME d.t -> d.u #1 v3: id int not null (1) key 1, a string (2), b int (3)\n"},
        /* never again */
        {"RENAME TABLE u TO _u_old", "HIDDEN d._u_old #6\n"},
        {"DROP TABLE _u_old", "DROP d.u #1\nDROP d._u_old #6\n"},
        {0}});
    on_both((step[]){
        {T, T_CREATED},
        {"RENAME TABLE t TO _t_old", "HIDDEN d._t_old #2\n"},
        {"CREATE TABLE t(x INT)", "HIDDEN d._t_old #2\nDROP d.t #1\nCREATE d.t #3 v1: x int (1)\n"},
        {"DROP TABLE _t_old", "DROP d._t_old #2\n"},
        {0}});
}

static void an_aborted_run_is_forgotten(void **state) {
    on_both((step[]){
        {T, T_CREATED},
        {"CREATE TABLE _t_gho LIKE t", "HIDDEN d._t_gho #2\n"},
        {"ALTER TABLE _t_gho ADD never INT", "HIDDEN d._t_gho #2\n"},
        {"DROP TABLE IF EXISTS _t_gho", "DROP d._t_gho #2\n"},
        {"CREATE TABLE _t_gho LIKE t", "HIDDEN d._t_gho #3\n"},
        {"RENAME TABLE t TO _t_del, _t_gho TO t", "DROP d._t_gho #3\nALTER d.t #1 v2: id int not null (1) key 1, a string (2)\nHIDDEN d._t_del #4\n"},
        {0}});
}

static wr_code into_list(void *ctx, const wr_my_table *t, wr_err *err) {
    wr_buf *b = ctx;
    wr_ddl d;
    WR_TRY(wr_my_table_ddl(t, t->captured ? WR_DDL_ALTER : WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, &d, err));
    wr_code rc = wr_ddl_encode(b, &d, err);
    wr_ddl_clear(&d);
    return rc;
}

/* The catalogue is thrown away and restored from what was recorded, between any two statements. */
static void a_restart_in_the_middle_changes_nothing(void **state) {
    static const char *const run[] = {
        "CREATE TABLE t(id INT PRIMARY KEY, a VARCHAR(5))", "CREATE TABLE _t_gho LIKE t", "ALTER TABLE _t_gho ADD b INT NOT NULL DEFAULT 7", "RENAME TABLE t TO _t_del",
        "RENAME TABLE _t_gho TO t", "ALTER TABLE t ADD c CHAR(3)"};
    ddl_fixture f;
    fixture_open(&f, "d\\.t", WR_MARIADB);
    for (size_t i = 0; i < sizeof run / sizeof *run; i++) {
        assert_int_equal(fixture_run(&f, run[i]), WR_OK);
        wr_buf recorded = WR_BUF_INIT;
        assert_int_equal(wr_catalogue_each(f.c, into_list, &recorded, &f.err), WR_OK);
        wr_catalogue *fresh;
        wr_my_types types = {0};
        assert_int_equal(wr_catalogue_new(f.capture, types, WR_MARIADB, &fresh, &f.err), WR_OK);
        wr_rd r = wr_rd_of(recorded.p, recorded.n);
        while (wr_rd_left(&r)) {
            wr_ddl d;
            assert_int_equal(wr_ddl_decode(&r, &d, &f.err), WR_OK);
            assert_int_equal(wr_catalogue_restore(fresh, &d, &f.err), WR_OK);
            wr_ddl_clear(&d);
        }
        wr_catalogue_free(f.c);
        f.c = fresh;
        wr_buf_free(&recorded);
        if (i == 4) assert_non_null(strstr(fixture_events(&f), "ALTER d.t fill #1 v2: id int not null (1) key 1, a string (2), b int not null (3) = 7\n"));
    }
    assert_string_equal(fixture_events(&f), "ALTER d.t #1 v3: id int not null (1) key 1, a string (2), b int not null (3), c string (4)\n");
    fixture_close(&f);
}

static void rows_under_a_helpers_name_are_the_tables_own_while_it_is_away(void **state) {
    ddl_fixture f;
    fixture_open(&f, "d\\..*", WR_MYSQL);
    assert_int_equal(fixture_run(&f, T), WR_OK);
    assert_int_equal(fixture_run(&f, "RENAME TABLE t TO _t_old"), WR_OK);
    assert_null(wr_catalogue_find(f.c, "d", "t"));
    assert_true(wr_catalogue_captured(f.c, "d", "_t_old"));
    assert_int_equal(wr_catalogue_find(f.c, "d", "_t_old")->id, 1);
    assert_int_equal(fixture_run(&f, "ALTER TABLE _t_old ADD x INT"), WR_OK);
    assert_false(wr_catalogue_captured(f.c, "d", "_t_old"));
    assert_int_equal(fixture_run(&f, "RENAME TABLE _t_old TO t"), WR_OK);
    assert_non_null(strstr(fixture_events(&f), "ALTER d.t reload #1"));
    fixture_close(&f);
}

static void helpers_are_not_captured_and_real_tables_of_such_names_are(void **state) {
    ddl_fixture f;
    fixture_open(&f, "d\\..*", WR_MARIADB);
    assert_int_equal(fixture_run(&f, "CREATE TABLE _lonely_new(a INT)"), WR_OK);
    assert_true(wr_catalogue_captured(f.c, "d", "_lonely_new")); /* there is no table `lonely` */
    assert_int_equal(fixture_run(&f, T), WR_OK);
    assert_int_equal(fixture_run(&f, "CREATE TABLE _t_ghc(a INT)"), WR_OK);
    assert_false(wr_catalogue_captured(f.c, "d", "_t_ghc"));
    assert_false(wr_catalogue_captured(f.c, "d", "_t_20240131235959_del"));
    assert_true(wr_catalogue_captured(f.c, "d", "_other_del"));
    fixture_close(&f);
    fixture_open(&f, "d\\._t_new", WR_MARIADB);
    assert_int_equal(fixture_run(&f, "CREATE TABLE _t_new(a INT)"), WR_OK);
    assert_string_equal(fixture_events(&f), "CREATE d._t_new #1 v1: a int (1)\n");
    fixture_close(&f);
}

/* ------------------------------------------------------------------ everything else */
static void other_statements_are_passed_over(void **state) {
    static const char *const passed[] = {
        "CREATE PROCEDURE p1() COMMENT 'ALTER TABLE t DROP a;' BEGIN ALTER TABLE t DROP a; END", "CREATE FUNCTION f() RETURNS INT RETURN 1", "CREATE VIEW v AS SELECT * FROM t",
        "CREATE OR REPLACE ALGORITHM=MERGE DEFINER=`a`@`b` SQL SECURITY INVOKER VIEW t2 AS SELECT 1", "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO ALTER TABLE t DROP a",
        "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1", "DROP VIEW v", "DROP TRIGGER tr", "GRANT SELECT(a), UPDATE(a) ON t TO x", "CREATE USER x", "SET PASSWORD FOR x = 'y'",
        "FLUSH TABLES t", "ANALYZE TABLE t", "OPTIMIZE TABLE t", "ALTER VIEW t AS SELECT 2", "ALTER USER x ACCOUNT LOCK", "ALTER TABLE o.t DROP a", "DROP TABLE o.t, o.d", "RENAME TABLE o.t TO o.u",
        "TRUNCATE o.t", "UPDATE o.t SET a = 1", "INSERT INTO o.t SELECT * FROM d.t", "DELETE FROM o.t WHERE a IN (SELECT a FROM d.t)", "/*!99999 DROP TABLE t */", "", ";", "-- nothing", "/* DROP TABLE t */",
        "RELEASE SAVEPOINT a", "ALTER EVENT e DISABLE", "INSTALL PLUGIN x SONAME 'y'", "CREATE ROLE r", "DROP FUNCTION t", "ALTER TABLE o.t RENAME TO o.d", "WITH c AS (SELECT 1) SELECT * FROM c",
        "DELETE HISTORY FROM t", "LOAD DATA INFILE 'TABLE t' INTO TABLE o.t", "CREATE INDEX i ON o.t(a)", "CREATE TABLE o.t(a INT)", "DROP TEMPORARY TABLE t",
    };
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        ddl_fixture f;
        fixture_open(&f, "d\\..*", WR_MYSQL);
        assert_int_equal(fixture_run(&f, T), WR_OK);
        if (fixture_run(&f, passed[i]) != WR_OK) fail_msg("%s: %s", passed[i], f.err.msg);
        if (fixture_events(&f)[0]) fail_msg("%s: %s", passed[i], fixture_events(&f));
        assert_non_null(wr_catalogue_find(f.c, "d", "t"));
        fixture_close(&f);
    }
}

static void transactions_are_told_apart(void **state) {
    static const struct { const char *sql; wr_statement_kind kind; } cases[] = {
        {"BEGIN", WR_STMT_BEGIN}, {"begin work", WR_STMT_BEGIN}, {"START TRANSACTION READ WRITE", WR_STMT_BEGIN}, {"COMMIT", WR_STMT_COMMIT}, {"ROLLBACK", WR_STMT_ROLLBACK},
        {"SAVEPOINT `a b`", WR_STMT_SAVEPOINT}, {"ROLLBACK TO `a`", WR_STMT_ROLLBACK_TO}, {"ROLLBACK WORK TO SAVEPOINT a", WR_STMT_ROLLBACK_TO}, {"XA START X'61',X'',1", WR_STMT_XA_START},
        {"XA END X'61'", WR_STMT_XA_END}, {"XA PREPARE X'61'", WR_STMT_XA_PREPARE}, {"XA COMMIT X'61'", WR_STMT_XA_COMMIT}, {"XA ROLLBACK X'61'", WR_STMT_XA_ROLLBACK},
        {"RELEASE SAVEPOINT a", WR_STMT_IGNORED}, {"DROP TABLE d.t", WR_STMT_DDL}, {"DROP TABLE o.t", WR_STMT_IGNORED},
    };
    ddl_fixture f;
    fixture_open(&f, "d\\..*", WR_MARIADB);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(fixture_run(&f, cases[i].sql), WR_OK);
        if (f.kind != cases[i].kind) fail_msg("%s: kind %d", cases[i].sql, f.kind);
    }
    fixture_close(&f);
}

static void rows_changed_by_statement_stop_the_stream(void **state) {
    static const char *const refused[] = {
        "INSERT INTO t VALUES(1,'a')", "insert low_priority ignore t select 1,2", "REPLACE INTO d.t(id) VALUES(1)", "UPDATE t SET a=1", "UPDATE o.x, t SET t.a=1", "UPDATE o.x JOIN (SELECT 1) s JOIN t USING(id) SET a=2",
        "DELETE FROM t WHERE id=1", "DELETE t, u FROM t JOIN o.u", "DELETE FROM a USING o.x AS a INNER JOIN t", "WITH c AS (SELECT 1 AS id) UPDATE t JOIN c USING(id) SET a=1",
        "LOAD DATA LOCAL INFILE 'x' REPLACE INTO TABLE `t` FIELDS TERMINATED BY ','", "LOAD XML INFILE 'x' INTO TABLE d.t", "CALL p(1)", "SELECT `d`.`f`(1)", "DO f(1)", "/* c */ UPDATE /* t2 */ `d` . `t` SET a=1",
        "INSERT INTO unknown_yet VALUES(1)", "SET STATEMENT max_statement_time=5 FOR UPDATE t SET a=1",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ddl_fixture f;
        fixture_open(&f, "d\\..*", WR_MARIADB);
        assert_int_equal(fixture_run(&f, T), WR_OK);
        if (fixture_run(&f, refused[i]) != WR_E_UNSUPPORTED) fail_msg("%s was not refused", refused[i]);
        assert_non_null(strstr(f.err.msg, "statement"));
        assert_non_null(strstr(f.err.msg, "binlog_format"));
        assert_true(f.err.cure[0]);
        fixture_close(&f);
    }
}

static void temporary_tables_hide_real_ones_from_their_session(void **state) {
    ddl_fixture f;
    fixture_open(&f, "d\\..*", WR_MARIADB);
    assert_int_equal(fixture_run(&f, T), WR_OK);
    assert_int_equal(fixture_run(&f, "CREATE TEMPORARY TABLE t(x INT)"), WR_OK);
    assert_int_equal(fixture_run(&f, "ALTER TABLE t ADD y INT"), WR_OK);
    assert_string_equal(fixture_events(&f), "");
    assert_int_equal(fixture_run(&f, "INSERT INTO t VALUES(1)"), WR_OK);
    f.st.session = 8; /* somebody else means the real one */
    assert_int_equal(fixture_run(&f, "ALTER TABLE t ADD y INT"), WR_OK);
    assert_string_equal(fixture_events(&f), "ALTER d.t #1 v2: id int not null (1) key 1, a string (2), y int (3)\n");
    f.st.session = 7;
    assert_int_equal(fixture_run(&f, "DROP TABLE t"), WR_OK);
    assert_string_equal(fixture_events(&f), "");
    assert_int_equal(fixture_run(&f, "CREATE TEMPORARY TABLE t(x INT)"), WR_OK);
    wr_catalogue_server_started(f.c);
    assert_int_equal(fixture_run(&f, "DROP TABLE t"), WR_OK);
    assert_string_equal(fixture_events(&f), "DROP d.t #1\n");
    fixture_close(&f);
}

static void executable_comments_count_by_flavor_and_version(void **state) {
    static const struct { const char *sql; bool mariadb, mysql; } cases[] = {
        {"/*!40000 ALTER TABLE t ADD x INT */", true, true}, {"/*! ALTER TABLE t ADD x INT */", true, true}, {"/*!50701 ALTER TABLE t ADD x INT */", false, true},
        {"/*!80000 ALTER TABLE t ADD x INT */", false, true}, {"/*!100100 ALTER TABLE t ADD x INT */", true, false}, {"/*M!100100 ALTER TABLE t ADD x INT */", true, false},
        {"/*M!999999 ALTER TABLE t ADD x INT */", false, false}, {"/*!999999 ALTER TABLE t ADD x INT */", false, false}, {"ALTER TABLE t /*!99999 DROP a, */ ADD /* y INT, ADD */ x INT", true, true},
        {"ALTER/**/TABLE/**/t/**/ADD/**/x INT -- , ADD y INT\n # , ADD z INT\n", true, true}, {"alter table t add x int /*!50100 comment 'q' */", true, true},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        bool mariadb = i & 1;
        ddl_fixture f;
        fixture_open(&f, "d\\..*", mariadb ? WR_MARIADB : WR_MYSQL);
        assert_int_equal(fixture_run(&f, T), WR_OK);
        if (fixture_run(&f, cases[i / 2].sql) != WR_OK) fail_msg("%s: %s", cases[i / 2].sql, f.err.msg);
        bool run = mariadb ? cases[i / 2].mariadb : cases[i / 2].mysql;
        const char *expected = run ? "ALTER d.t #1 v2: id int not null (1) key 1, a string (2), x int (3)\n" : "";
        if (strcmp(fixture_events(&f), expected) != 0) fail_msg("%s on %s: %s", cases[i / 2].sql, mariadb ? "MariaDB" : "MySQL", fixture_events(&f));
        fixture_close(&f);
    }
}

static void quotes_follow_sql_mode_and_character_set(void **state) {
    ddl_fixture f;
    fixture_open(&f, "d\\..*", WR_MARIADB);
    f.st.sql_mode = 4; /* ANSI_QUOTES */
    assert_int_equal(fixture_run(&f, "CREATE TABLE \"a \"\"b\"(\"c\" INT, `d``e` INT)"), WR_OK);
    assert_non_null(strstr(fixture_events(&f), "CREATE d.a \"b #1 v1: c int (1), d`e int (2)\n"));
    f.st.sql_mode = 0x100000; /* NO_BACKSLASH_ESCAPES */
    assert_int_equal(fixture_run(&f, "ALTER TABLE `a \"b` ADD f VARCHAR(9) DEFAULT 'x\\'"), WR_OK);
    assert_non_null(strstr(fixture_events(&f), "f string (3) = x\\\n"));
    f.st.sql_mode = 0;
    assert_int_equal(fixture_run(&f, "ALTER TABLE `a \"b` DROP f, ADD f VARCHAR(9) DEFAULT 'it''s\\'\\n\"\"'"), WR_OK);
    assert_non_null(strstr(fixture_events(&f), "f string (4) = it's'\n\"\"\n"));
    f.st.charset = "gbk"; /* the second byte of a character may be a backslash */
    assert_int_equal(fixture_run(&f, "ALTER TABLE `a \"b` DROP f, ADD `\xb5\x5c` VARCHAR(9) DEFAULT '\xd6\xd0\xb5\x5c'"), WR_OK);
    assert_non_null(strstr(fixture_events(&f), "\xe7\x84\xb6"[0] ? " string (5) = \xe4\xb8\xad" : ""));
    f.st.charset = "latin1";
    assert_int_equal(fixture_run(&f, "ALTER TABLE `a \"b` ADD `\xe9` INT"), WR_OK);
    assert_non_null(strstr(fixture_events(&f), "\xc3\xa9 int (6)"));
    fixture_close(&f);
}

static void names_compare_without_case_where_the_server_does(void **state) {
    ddl_fixture f;
    fixture_open(&f, "d\\..*", WR_MYSQL);
    wr_capture_set_lower_case(f.capture, 1);
    assert_int_equal(fixture_run(&f, "CREATE TABLE T(Id INT PRIMARY KEY)"), WR_OK);
    assert_non_null(strstr(fixture_events(&f), "CREATE d.t #1 v1: Id int not null (1) key 1\n"));
    assert_int_equal(fixture_run(&f, "ALTER TABLE D.t ADD b INT"), WR_OK);
    assert_string_equal(fixture_events(&f), "ALTER d.t #1 v2: Id int not null (1) key 1, b int (2)\n");
    assert_non_null(wr_catalogue_find(f.c, "D", "T"));
    fixture_close(&f);
}

static void what_cannot_be_followed_names_table_and_statement(void **state) {
    ddl_fixture f;
    fixture_open(&f, "d\\..*", WR_MYSQL);
    assert_int_equal(fixture_run(&f, T), WR_OK);
    static const char *const odd[] = {"ALTER TABLE t ADD x SOMETHING_NEW", "ALTER TABLE t FROBNICATE", "ALTER TABLE t DROP nope", "ALTER TABLE t ADD a INT", "CREATE TABLE n(a INT) AS SELECT 1", "CREATE TABLE n LIKE o.x"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        assert_int_equal(fixture_run(&f, odd[i]), WR_E_UNSUPPORTED);
        assert_non_null(strstr(f.err.msg, "d."));
        assert_string_equal(fixture_events(&f), "");
    }
    fixture_close(&f);
}

static void a_rollback_undoes_what_a_transaction_did(void **state) {
    ddl_fixture f;
    fixture_open(&f, "d\\..*", WR_MARIADB);
    assert_int_equal(fixture_run(&f, T), WR_OK);
    static const char *const undone[] = {"ALTER TABLE t ADD b INT", "DROP TABLE t", "RENAME TABLE t TO u", "CREATE TABLE u LIKE t", "RENAME TABLE t TO _t_old", "DROP DATABASE d"};
    for (size_t i = 0; i < sizeof undone / sizeof *undone; i++) {
        f.st.sql = wr_slice_str(undone[i]);
        assert_int_equal(wr_catalogue_statement(f.c, &f.st, NULL, fixture_event, &f.events, &f.kind, &f.err), WR_OK);
        wr_catalogue_rollback(f.c);
        assert_non_null(wr_catalogue_find(f.c, "d", "t"));
        assert_int_equal(wr_catalogue_find(f.c, "d", "t")->version, 1);
        assert_null(wr_catalogue_find(f.c, "d", "u"));
    }
    fixture_close(&f);
}

static void every_allocation_may_fail(void **state) {
    static const char *const run[] = {"CREATE TABLE t(id INT PRIMARY KEY, e ENUM('a','b') DEFAULT 'b', v VARCHAR(9))", "CREATE TABLE _t_gho LIKE t", "ALTER TABLE _t_gho ADD x INT DEFAULT 5, MODIFY v TEXT",
                                      "RENAME TABLE t TO _t_del, _t_gho TO t", "ALTER TABLE t RENAME TO u, ADD y CHAR(3)", "RENAME TABLE u TO _u_old", "DROP TABLE _u_old", "DROP DATABASE d"};
    ddl_fixture f;
    fixture_open(&f, "d\\..*", WR_MYSQL);
    for (size_t i = 0; i < sizeof run / sizeof *run; i++) {
        for (uint64_t n = 1; n < 100000; n++) {
            wr_mem_fail_after(n);
            wr_code rc = fixture_run(&f, run[i]);
            wr_mem_fail_after(0);
            if (rc == WR_OK) break;
            if (rc != WR_E_NOMEM && rc != WR_E_UNSUPPORTED && rc != WR_E_LIMIT) fail_msg("%s: %s", run[i], f.err.msg);
            assert_true(n < 99999);
        }
    }
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_keeps_its_id_through_renames_and_moves),
        cmocka_unit_test(added_columns_are_filled_kept_or_read_again),
        cmocka_unit_test(what_may_change_stored_values_is_read_again),
        cmocka_unit_test(null_to_not_null_is_safe_in_strict_mode_only),
        cmocka_unit_test(primary_keys_come_and_go),
        cmocka_unit_test(tables_are_made_renamed_dropped),
        cmocka_unit_test(a_create_that_no_engine_committed_made_no_table),
        cmocka_unit_test(rows_that_went_without_events_are_read_again),
        cmocka_unit_test(gh_ost_swaps_its_table_in),
        cmocka_unit_test(pt_osc_is_trusted_when_its_triggers_are_there),
        cmocka_unit_test(a_swap_whose_copy_cannot_be_judged_is_read_again),
        cmocka_unit_test(a_swap_in_two_steps_is_one),
        cmocka_unit_test(an_aborted_run_is_forgotten),
        cmocka_unit_test(a_restart_in_the_middle_changes_nothing),
        cmocka_unit_test(rows_under_a_helpers_name_are_the_tables_own_while_it_is_away),
        cmocka_unit_test(helpers_are_not_captured_and_real_tables_of_such_names_are),
        cmocka_unit_test(other_statements_are_passed_over),
        cmocka_unit_test(transactions_are_told_apart),
        cmocka_unit_test(rows_changed_by_statement_stop_the_stream),
        cmocka_unit_test(temporary_tables_hide_real_ones_from_their_session),
        cmocka_unit_test(executable_comments_count_by_flavor_and_version),
        cmocka_unit_test(quotes_follow_sql_mode_and_character_set),
        cmocka_unit_test(names_compare_without_case_where_the_server_does),
        cmocka_unit_test(what_cannot_be_followed_names_table_and_statement),
        cmocka_unit_test(a_rollback_undoes_what_a_transaction_did),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
