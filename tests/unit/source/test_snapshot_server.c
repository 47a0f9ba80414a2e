/* Snapshot reading on real servers: WEIR_TEST_MARIADB and WEIR_TEST_MYSQL = "host:port:user:password"; skipped, with
 * the reason, without them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "mysql/position.h"
#include "mysql/snapshot_impl.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

static const char *where; /* which server the tests below talk to */

typedef struct fixture {
    wr_source *s;
    MYSQL *m;
    bool mariadb;
    char db[40];
} fixture;

static void must(wr_code rc, const wr_err *err) {
    if (rc != WR_OK) print_message("%s: %s\n", wr_code_name(rc), err->msg);
    assert_int_equal(rc, WR_OK);
}

static void sql(fixture *fx, const char *q) {
    wr_err err = WR_ERR_INIT;
    must(wr_my_exec(fx->m, &err, "%s", q), &err);
}

static wr_code open_source(fixture *fx, uint64_t rate, wr_source **ret, wr_err *err) {
    char buf[300], pattern[80], *save = NULL;
    snprintf(buf, sizeof buf, "%s", where);
    char *host = strtok_r(buf, ":", &save), *port = strtok_r(NULL, ":", &save), *user = strtok_r(NULL, ":", &save),
         *pw = strtok_r(NULL, ":", &save);
    snprintf(pattern, sizeof pattern, "%s\\..*", fx->db);
    const char *capture[] = {pattern};
    wr_source_options o = {.host = host,
                           .port = atoi(port),
                           .user = user,
                           .password = pw,
                           .capture = capture,
                           .ncapture = 1,
                           .pipeline_name = "test",
                           .snapshot_rows_per_second = rate};
    return wr_source_open(&o, ret, err);
}

static int setup(void **state) {
    if (!where) return 0;
    fixture *fx = calloc(1, sizeof *fx);
    wr_err err = WR_ERR_INIT;
    snprintf(fx->db, sizeof fx->db, "weir_ut_%d", (int)getpid());
    must(open_source(fx, 0, &fx->s, &err), &err);
    fx->mariadb = wr_source_flavor(fx->s) == WR_MARIADB;
    must(wr_my_connect(&fx->s->conn, &fx->m, &err), &err);
    must(wr_my_exec(fx->m, &err, "DROP DATABASE IF EXISTS %s", fx->db), &err);
    must(wr_my_exec(fx->m, &err, "CREATE DATABASE %s CHARACTER SET utf8mb4", fx->db), &err);
    must(wr_my_exec(fx->m, &err, "USE %s", fx->db), &err);
    must(wr_my_exec(fx->m, &err, "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'"), &err);
    *state = fx;
    return 0;
}

static int teardown(void **state) {
    fixture *fx = *state;
    if (!fx) return 0;
    wr_err err = WR_ERR_INIT;
    wr_my_exec(fx->m, &err, "DROP DATABASE %s", fx->db);
    wr_my_disconnect(fx->m);
    wr_source_close(fx->s);
    free(fx);
    return 0;
}

static fixture *on_server(void **state) {
    if (!*state) {
        print_message("skipped: the server's variable (WEIR_TEST_MARIADB or WEIR_TEST_MYSQL) is not set\n");
        skip();
    }
    return *state;
}

static char *def_of(fixture *fx, const char *table) {
    wr_err err = WR_ERR_INIT;
    wr_my_table **t = NULL;
    int n = 0;
    wr_buf b = WR_BUF_INIT;
    must(wr_catalogue_read_server(fx->m, fx->s->capture, fx->s->types, fx->s->flavor, fx->db, table, &t, &n, &err),
         &err);
    assert_int_equal(n, 1);
    t[0]->id = 1, t[0]->version = 1;
    t[0]->next_col_id = t[0]->ncols + 1;
    for (int i = 0; i < t[0]->ncols; i++) t[0]->cols[i].id = i + 1;
    must(wr_my_table_to_json(t[0], &b, &err), &err);
    char *def = strdup(wr_buf_cstr(&b));
    wr_buf_free(&b);
    wr_my_table_free(t[0]);
    wr_free(t);
    return def;
}

static wr_snap *open_snap(fixture *fx, wr_source *s, const char *table) {
    wr_err err = WR_ERR_INIT;
    wr_snap *sn = NULL;
    char *def = def_of(fx, table);
    must(wr_snap_open(s, def, &sn, &err), &err);
    free(def);
    return sn;
}

typedef struct counted {
    uint64_t rows, sum;
    uint64_t fail_at;
} counted;

static wr_code count(void *ctx, wr_slice row, wr_err *err) {
    counted *c = ctx;
    if (c->fail_at && c->rows + 1 == c->fail_at) return wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "enough");
    c->rows++;
    c->sum += wr_hash64(row.p, row.n, 0);
    return WR_OK;
}

static counted read_chunks(wr_snap *sn, const wr_key_range *range, uint64_t max) {
    counted c = {0};
    wr_err err = WR_ERR_INIT;
    char *after = range && range->after ? strdup(range->after) : NULL;
    for (int i = 0; i < 1000000; i++) {
        wr_key_range r = {after, range ? range->upto : NULL};
        char *next = NULL;
        must(wr_snap_chunk(sn, &r, max, count, &c, &next, &err), &err);
        free(after);
        after = next;
        if (!after) return c;
    }
    fail_msg("a chunk never ends");
    return c;
}

/* Whatever the key, small chunks give the rows that one read of everything gives. */
static void check_table(fixture *fx, const char *columns, const char *options, const char *values) {
    char q[2000];
    wr_err err = WR_ERR_INIT;
    snprintf(q, sizeof q, "DROP TABLE IF EXISTS k");
    sql(fx, q);
    snprintf(q, sizeof q, "CREATE TABLE k(%s) %s", columns, options);
    sql(fx, q);
    snprintf(q, sizeof q, "INSERT IGNORE INTO k VALUES %s", values);
    sql(fx, q);
    wr_snap *sn = open_snap(fx, fx->s, "k");
    counted all = {0};
    wr_pos pos = {0};
    must(wr_snap_read_all(sn, count, &all, &pos, &err), &err);
    assert_true(pos.offset > 0 && pos.file[0]);
    wr_pos_clear(&pos);
    char *n = NULL;
    must(wr_my_scalar(fx->m, &n, &err, "SELECT COUNT(*) FROM k"), &err);
    assert_int_equal(all.rows, strtoull(n, NULL, 10));
    free(n);
    for (uint64_t max = 1; max < 5; max++) {
        counted c = read_chunks(sn, NULL, max);
        if (c.rows != all.rows || c.sum != all.sum)
            print_message("key %s, chunks of %d: %d rows, %d expected\n", columns, (int)max, (int)c.rows,
                          (int)all.rows);
        assert_int_equal(c.rows, all.rows);
        assert_true(c.sum == all.sum);
    }
    wr_snap_close(sn);
}

static void check_key(fixture *fx, const char *columns, const char *values) { check_table(fx, columns, "", values); }

static void every_kind_of_key_rolls(void **state) {
    fixture *fx = on_server(state);
    check_key(fx, "id bigint unsigned primary key", "(0),(1),(9223372036854775808),(18446744073709551615)");
    check_key(fx, "id bigint primary key", "(-9223372036854775808),(-1),(0),(9223372036854775807)");
    check_key(fx, "a int, b int, c int, primary key(a,b,c)",
              "(1,1,1),(1,1,2),(1,2,1),(2,1,1),(2,2,2),(2,2,3),(3,0,0),(-1,5,5)");
    check_key(fx, "id decimal(65,30) primary key",
              "(12345678901234567890123456789012345.123456789012345678901234567890),(-1),(0),(1e-30),(-1e-30)");
    check_key(fx, "id float primary key", "(0.1),(-0.1),(1e-40),(3.4e38),(0),(16777217)");
    check_key(fx, "id double primary key",
              "(0.1),(0.3),(0.30000000000000004),(4.9e-324),(1.7976931348623157e308),(-1e300)");
    check_key(fx, "id bit(64), b bit(1), primary key(b,id)",
              "(0,0),(18446744073709551615,0),(9223372036854775808,1),(256,0)");
    check_key(fx, "id year primary key", "(0),(1901),(2155),(2000)");
    check_key(fx, "id date primary key", "('0001-01-01'),('2023-02-28'),('2023-03-01'),('9999-12-31')");
    check_key(fx, "id datetime(6) primary key",
              "('0001-01-01'),('2023-02-28 23:59:59.999999'),('2024-01-01'),('2024-01-01 00:00:00.000001')");
    check_key(fx, "id timestamp(3) default current_timestamp(3) primary key",
              "('2023-02-28 00:00:00.123'),('1970-01-01 00:00:01'),('2038-01-19 03:14:07.999')");
    check_key(fx, "id time(6) primary key",
              "('-838:59:58.999999'),('838:59:59'),(0),('-00:00:00.000001'),('100:30:00.5')");
    check_key(fx, "e enum('z','a','m'), id int, primary key(e,id)",
              "('z',1),('z',2),('a',3),('m',1),('bad',1),('bad',2)");
    check_key(fx, "e enum('z','a',''), id int, primary key(e,id)",
              "('z',1),('z',2),('a',3),('',1),('bad',7),('bad',2)");
    check_key(fx, "e enum(' ','a','x') collate utf8mb4_bin, f enum('b','a',''), id int, primary key(e,f,id)",
              "(1,1,1),(1,1,2),(1,2,1),(1,3,1),('bad',1,1),('bad','bad',1),('bad','bad',2),(2,3,1),(3,3,1),(3,3,2)");
    check_key(fx, "e enum('z','a','m') character set binary, id int, primary key(id,e)",
              "('z',1),('a',1),('m',1),('bad',1),('z',2),('bad',2),('m',2)");
    check_key(fx, "s set('x','b','c'), id int, primary key(s,id)", "('x',1),('b,c',1),('',2),('x,c',1),('x,b,c',3)");
    check_key(fx, "id binary(4) primary key", "(x'00000000'),(x'20202020'),('a'),(x'ffffffff')");
    check_key(fx, "id varbinary(9), n tinyint unsigned, primary key(id,n)",
              "('',1),(x'00',1),(x'0000',2),('a',255),('a',254),(x'ff',0)");
    check_key(fx, "id varchar(9) collate utf8mb4_general_ci primary key",
              "('a'),('B'),('b2'),('_'),('Z'),('it''s\\\\')");
    check_key(fx, "id char(5) collate utf8mb4_bin, n int, primary key(id,n)",
              "('a',1),('a\t',2),('a!',3),('',4),('A',5),('a',0)");
    check_key(fx,
              fx->mariadb ? "id char(5) collate utf8mb4_unicode_520_nopad_ci primary key"
                          : "id char(5) collate utf8mb4_0900_ai_ci primary key",
              "('a'),('a\t'),('a!'),(''),('\t'),('b')");
    check_key(fx,
              fx->mariadb ? "id varchar(5) collate utf8mb4_unicode_520_nopad_ci primary key"
                          : "id varchar(5) collate utf8mb4_0900_ai_ci primary key",
              "('a'),('a '),('a\t'),(''),(' '),('b')");
    check_key(fx, "id varchar(9) character set gbk primary key", "('中'),('文'),('a'),('')");
    check_key(fx, "id varchar(9) character set sjis primary key", "('ソ'),('表'),('a'),('\\\\')");
    check_key(fx, "id varchar(9) character set utf16 primary key", "('中'),('😀'),('a'),('')");
    check_key(fx, "id text, n int, primary key(id(3),n)",
              "('abc',1),('abcd',2),('abce',3),('ab',1),('',1),('abc',9),('ABC',4)");
    check_key(fx, "id int primary key, `odd ``n` int as (id + 1) virtual", "(1,default),(2,default),(3,default)");
    check_table(fx, "a varchar(10), b int, primary key(b,a)", "engine=MyISAM", "('x',1),('X2',1),('y',2)");
    check_table(fx, "a int, b int, primary key(a,b)", "partition by hash(b) partitions 4",
                "(1,1),(1,2),(2,3),(2,4),(3,1),(0,9),(-5,4)");
    if (!fx->mariadb) return;
    check_table(fx, "id int primary key, v int", "with system versioning", "(1,1),(2,2),(3,3)");
    check_key(fx, "id uuid primary key",
              "('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'),('00000000-0000-0000-0000-000000000000'),('6ba7b810-9dad-11d1-"
              "80b4-00c04fd430c8'),('018f4d2e-7b1a-7c3d-8e4f-0123456789ab')");
    check_key(fx, "id inet6 primary key", "('::'),('::1'),('::ffff:1.2.3.4'),('fe80::1'),('2001:db8::1')");
}

static void ddl_between_chunks_is_told(void **state) {
    fixture *fx = on_server(state);
    wr_err err = WR_ERR_INIT;
    counted c = {0};
    char *after = NULL;
    sql(fx, "CREATE TABLE t(id int primary key, v int)");
    sql(fx, "INSERT INTO t VALUES(1,1),(2,2),(3,3)");
    wr_snap *sn = open_snap(fx, fx->s, "t");
    must(wr_snap_chunk(sn, NULL, 1, count, &c, &after, &err), &err);
    wr_key_range r = {after, NULL};
    char *next = NULL;
    sql(fx, "ALTER TABLE t ADD KEY (v), COMMENT 'nothing that matters'");
    sql(fx, "ALTER TABLE t AUTO_INCREMENT = 100");
    must(wr_snap_chunk(sn, &r, 1, count, &c, &next, &err), &err);
    assert_string_equal(next, "2");
    free(next);
    next = NULL;
    sql(fx, "ALTER TABLE t MODIFY v bigint");
    assert_int_equal(wr_snap_chunk(sn, &r, 1, count, &c, &next, &err), WR_E_SCHEMA);
    assert_non_null(strstr(err.msg, ".t"));
    sql(fx, "ALTER TABLE t MODIFY v int, ADD w int");
    assert_int_equal(wr_snap_chunk(sn, &r, 1, count, &c, &next, &err), WR_E_SCHEMA);
    sql(fx, "ALTER TABLE t DROP w");
    must(wr_snap_chunk(sn, &r, 5, count, &c, &next, &err), &err); /* as it was: goes on */
    assert_null(next);
    sql(fx, "DROP TABLE t");
    assert_int_equal(wr_snap_chunk(sn, &r, 1, count, &c, &next, &err), WR_E_NOTFOUND);
    wr_pos pos = {0};
    assert_int_equal(wr_snap_read_all(sn, count, &c, &pos, &err), WR_E_NOTFOUND);
    wr_snap_close(sn);
    free(after);
}

static void a_changed_table_does_not_open(void **state) {
    fixture *fx = on_server(state);
    wr_err err = WR_ERR_INIT;
    wr_snap *sn = NULL;
    sql(fx, "CREATE TABLE t(id int primary key, v varchar(10))");
    char *def = def_of(fx, "t");
    sql(fx, "ALTER TABLE t MODIFY v varchar(20)");
    assert_int_equal(wr_snap_open(fx->s, def, &sn, &err), WR_E_SCHEMA);
    sql(fx, "RENAME TABLE t TO u");
    assert_int_equal(wr_snap_open(fx->s, def, &sn, &err), WR_E_NOTFOUND);
    free(def);
}

static void after_an_error_of_the_receiver_the_reader_goes_on(void **state) {
    fixture *fx = on_server(state);
    wr_err err = WR_ERR_INIT;
    sql(fx, "CREATE TABLE t(id int primary key)");
    sql(fx, "INSERT INTO t VALUES(1),(2),(3),(4),(5)");
    wr_snap *sn = open_snap(fx, fx->s, "t");
    counted c = {.fail_at = 3};
    char *after = NULL;
    assert_int_equal(wr_snap_chunk(sn, NULL, 10, count, &c, &after, &err), WR_E_CANCELLED);
    assert_int_equal(read_chunks(sn, NULL, 2).rows, 5);
    wr_snap_close(sn);
}

static void a_session_that_was_killed_is_worth_another_try(void **state) {
    fixture *fx = on_server(state);
    wr_err err = WR_ERR_INIT;
    sql(fx, "CREATE TABLE t(id int primary key)");
    sql(fx, "INSERT INTO t VALUES(1),(2),(3)");
    wr_snap *sn = open_snap(fx, fx->s, "t");
    must(wr_my_exec(fx->m, &err, "KILL %lu", mysql_thread_id(sn->m)), &err);
    counted c = {0};
    char *after = NULL;
    assert_int_equal(wr_snap_chunk(sn, NULL, 10, count, &c, &after, &err), WR_E_NET);
    assert_int_equal(err.retry, WR_RETRY_SOON);
    assert_int_equal(read_chunks(sn, NULL, 2).rows, 3);
    wr_snap_close(sn);
}

typedef struct storm {
    fixture *fx;
    const char *const *sql;
    int n, pause_us;
    int stop; /* atomic */
} storm;

static void *storm_run(void *arg) {
    storm *st = arg;
    wr_err err = WR_ERR_INIT;
    MYSQL *m = NULL;
    if (wr_my_connect(&st->fx->s->conn, &m, &err) != WR_OK || wr_my_exec(m, &err, "USE %s", st->fx->db) != WR_OK)
        abort();
    for (int i = 0; !__atomic_load_n(&st->stop, __ATOMIC_ACQUIRE); i = (i + 1) % st->n) {
        (void)wr_my_exec(m, &err, "%s", st->sql[i]);
        usleep((useconds_t)st->pause_us);
    }
    wr_my_disconnect(m);
    return NULL;
}

static wr_code same_v(void *ctx, wr_slice row, wr_err *err) { /* bitmap, id, v */
    int32_t *want = ctx, v;
    memcpy(&v, row.p + 5, 4);
    if (row.n != 9 || (want[0] && v != want[0]))
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "a wrong row: %zu bytes, %d beside %d", row.n, v, want[0]);
    want[0] = v;
    want[1]++;
    return WR_OK;
}

static void a_storm_of_ddl_never_gives_wrong_rows(void **state) {
    fixture *fx = on_server(state);
    wr_err err = WR_ERR_INIT;
    for (int keyed = 1; keyed >= 0; keyed--) {
        static const char *const alter[] = {"ALTER TABLE t ADD w int NOT NULL DEFAULT 5 FIRST", "ALTER TABLE t DROP w"};
        static const char *const swap[] = {"RENAME TABLE t TO x, u TO t, x TO u"};
        for (int k = 0; k < 2; k++) {
            sql(fx, "DROP TABLE IF EXISTS t");
            sql(fx, "DROP TABLE IF EXISTS u");
            sql(fx, keyed ? "CREATE TABLE t(id int primary key, v int not null)"
                          : "CREATE TABLE t(id int not null, v int not null)");
            sql(fx, "CREATE TABLE u LIKE t");
            for (int i = 1; i <= 40; i++) must(wr_my_exec(fx->m, &err, "INSERT INTO t VALUES(%d, 1)", i), &err);
            sql(fx, "INSERT INTO u SELECT id, 2 FROM t");
            wr_snap *sn = open_snap(fx, fx->s, "t");
            storm st = {.fx = fx, .sql = k ? swap : alter, .n = k ? 1 : 2, .pause_us = keyed ? 0 : 100000};
            pthread_t th;
            assert_int_equal(pthread_create(&th, NULL, storm_run, &st), 0);
            int good = 0, told = 0;
            int64_t until = wr_mono_us() + 1500000;
            while (wr_mono_us() < until || (good == 0 && wr_mono_us() < until + 10000000)) {
                int32_t seen[2] = {0};
                char *after = NULL;
                wr_pos pos = {0};
                wr_code rc = keyed ? wr_snap_chunk(sn, NULL, 1000, same_v, seen, &after, &err)
                                   : wr_snap_read_all(sn, same_v, seen, &pos, &err);
                if (rc == WR_OK) {
                    assert_int_equal(seen[1], 40);
                    good++;
                } else {
                    if (rc != WR_E_SCHEMA && rc != WR_E_NOTFOUND && rc != WR_E_SERVER) print_message("%s\n", err.msg);
                    assert_true(rc == WR_E_SCHEMA || rc == WR_E_NOTFOUND ||
                                (rc == WR_E_SERVER && err.retry == WR_RETRY_SOON));
                    told++;
                }
                wr_pos_clear(&pos);
                free(after);
            }
            __atomic_store_n(&st.stop, 1, __ATOMIC_RELEASE);
            pthread_join(th, NULL);
            wr_snap_close(sn);
            print_message("%s, %s: %d whole reads, %d refused\n", keyed ? "with key" : "without key",
                          k ? "swapped" : "altered", good, told);
            assert_true(good > 0);
        }
    }
}

static void many_rows(fixture *fx, const char *table, const char *key) {
    char q[900];
    snprintf(q, sizeof q,
             "INSERT INTO %s SELECT %s FROM (SELECT a.n + 10*b.n + 100*c.n + 1000*d.n + 10000*e.n x FROM d a, d b, d "
             "c, d d, d e) z",
             table, key);
    sql(fx, "DROP TABLE IF EXISTS d");
    sql(fx, "CREATE TABLE d(n int primary key)");
    sql(fx, "INSERT INTO d VALUES(0),(1),(2),(3),(4),(5),(6),(7),(8),(9)");
    sql(fx, q);
    snprintf(q, sizeof q, "ANALYZE TABLE %s", table);
    sql(fx, q);
}

static void check_split(fixture *fx, const char *table, int parts, unsigned percent) {
    wr_err err = WR_ERR_INIT;
    wr_snap *sn = open_snap(fx, fx->s, table);
    wr_key_range r[8];
    int n = 0;
    must(wr_snap_split(sn, parts, r, &n, &err), &err);
    uint64_t rows = 0, sum = 0;
    counted all = read_chunks(sn, NULL, 100000);
    if (n < 2 || n > parts)
        print_message("%s: %d ranges of at most %d, %d rows estimated\n", table, n, parts, (int)wr_snap_estimate(sn));
    assert_true(n >= 2 && n <= parts);
    assert_null(r[0].after);
    assert_null(r[n - 1].upto);
    for (int i = 0; i < n; i++) {
        counted c = read_chunks(sn, &r[i], 7000);
        rows += c.rows, sum += c.sum;
        if (percent && c.rows * 100 > all.rows * percent)
            print_message("%s: part %d of %d has %d of %d rows\n", table, i + 1, n, (int)c.rows, (int)all.rows);
        if (percent) assert_true(c.rows * 100 <= all.rows * percent);
        wr_key_range_clear(&r[i]);
    }
    assert_int_equal(rows, all.rows);
    assert_true(sum == all.sum);
    wr_snap_close(sn);
}

static void ranges_cover_the_table_once_and_evenly(void **state) {
    fixture *fx = on_server(state);
    sql(fx, "CREATE TABLE t(id bigint primary key)");
    many_rows(fx, "t", "x * 3 - 7");
    check_split(fx, "t", 2, 60);
    check_split(fx, "t", 4, 40);
    sql(fx, "CREATE TABLE sparse(id bigint primary key)");
    many_rows(fx, "sparse",
              "CASE WHEN x < 30000 THEN -9223372036854775808 + x ELSE 1765432109876543210 + (x - 30000) * 4194304 END");
    check_split(fx, "sparse", 3, 60);
    sql(fx, "CREATE TABLE comp(tenant int, id int, primary key(tenant, id))");
    many_rows(fx, "comp", "IF(x % 20 = 0, x % 7, 3), x");
    check_split(fx, "comp", 3, 60);
    sql(fx, "CREATE TABLE txt(id varchar(40) primary key)");
    many_rows(fx, "txt", "CONCAT('User_', LEFT(SHA2(x, 256), 24))");
    check_split(fx, "txt", 3, 60);
    sql(fx, "CREATE TABLE dec_(id decimal(20,3) primary key)");
    many_rows(fx, "dec_", "x / 8");
    check_split(fx, "dec_", 3, 40);
    sql(fx, "CREATE TABLE dt(id datetime primary key)");
    many_rows(fx, "dt", "'1969-12-01' + INTERVAL x MINUTE");
    check_split(fx, "dt", 3, 60);
}

static void the_rate_limit_holds_over_all_readers(void **state) {
    fixture *fx = on_server(state);
    wr_err err = WR_ERR_INIT;
    wr_source *slow = NULL;
    sql(fx, "CREATE TABLE t(id int primary key)");
    sql(fx, "CREATE TABLE d(n int primary key)");
    sql(fx, "INSERT INTO d VALUES(0),(1),(2),(3),(4),(5),(6),(7),(8),(9)");
    sql(fx, "INSERT INTO t SELECT a.n + 10*b.n + 100*c.n FROM d a, d b, d c");
    must(open_source(fx, 2000, &slow, &err), &err);
    wr_snap *a = open_snap(fx, slow, "t"), *b = open_snap(fx, slow, "t");
    int64_t t0 = wr_mono_us();
    assert_int_equal(read_chunks(a, NULL, 100000).rows, 1000);
    assert_int_equal(read_chunks(b, NULL, 100000).rows, 1000);
    int64_t took_ms = (wr_mono_us() - t0) / 1000;
    if (took_ms < 700 || took_ms > 3000) print_message("2000 rows at 2000 rows/s took %d ms\n", (int)took_ms);
    assert_true(took_ms >= 700);
    wr_snap_close(a);
    wr_snap_close(b);
    wr_source_close(slow);
}

static void positions_move_with_commits(void **state) {
    fixture *fx = on_server(state);
    wr_err err = WR_ERR_INIT;
    wr_pos a = {0}, b = {0}, c = {0};
    sql(fx, "CREATE TABLE t(id int primary key)");
    must(wr_source_now(fx->s, &a, &err), &err);
    sql(fx, "INSERT INTO t VALUES(1)");
    must(wr_source_now(fx->s, &b, &err), &err);
    assert_true(wr_pos_cmp(&a, &b) < 0);
    assert_string_not_equal(a.gtid_set, b.gtid_set);
    must(wr_source_begin(fx->s, 1, &c, &err), &err);
    assert_true(wr_pos_cmp(&b, &c) <= 0);
    assert_non_null(wr_catalogue_find(fx->s->catalogue, fx->db, "t"));
    wr_pos_clear(&a);
    wr_pos_clear(&b);
    wr_pos_clear(&c);
}

static uint64_t begun_ms(fixture *fx) {
    wr_pos p = {0};
    wr_err err = WR_ERR_INIT;
    int64_t t = wr_mono_us();
    must(wr_source_begin(fx->s, 1, &p, &err), &err);
    wr_pos_clear(&p);
    return (uint64_t)(wr_mono_us() - t) / 1000;
}

static void begin_does_not_wait_for_a_prepared_xa_transaction_that_the_binlog_has(void **state) {
    fixture *fx = on_server(state);
    wr_err err = WR_ERR_INIT;
    MYSQL *other = NULL;
    sql(fx, "CREATE TABLE t(id int primary key) engine=InnoDB");
    must(wr_my_connect(&fx->s->conn, &other, &err), &err);
    must(wr_my_exec(other, &err, "XA START 'weir-ut', 'b\\'q', 7"), &err);
    must(wr_my_exec(other, &err, "INSERT INTO %s.t VALUES(1)", fx->db), &err);
    must(wr_my_exec(other, &err, "XA END 'weir-ut', 'b\\'q', 7"), &err);
    must(wr_my_exec(other, &err, "XA PREPARE 'weir-ut', 'b\\'q', 7"), &err);
    assert_true(begun_ms(fx) < 20000);
    sql(fx, "FLUSH BINARY LOGS"); /* in a file before the last one */
    assert_true(begun_ms(fx) < 20000);
    must(wr_my_exec(other, &err, "XA COMMIT 'weir-ut', 'b\\'q', 7"), &err);
    assert_true(begun_ms(fx) < 900);
    wr_my_disconnect(other);
}

static void the_last_word_on_an_xa_transaction_is_found(void **state) {
    fixture *fx = on_server(state);
    wr_err err = WR_ERR_INIT;
    wr_xa_last xa[4] = {0};
    wr_pos now = {0};
    sql(fx, "CREATE TABLE t(id int primary key) engine=InnoDB");
    static const char *const last[] = {"XA COMMIT", "XA ROLLBACK", NULL};
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3; i++) {
            MYSQL *m = NULL;
            must(wr_my_connect(&fx->s->conn, &m, &err), &err);
            must(wr_my_exec(m, &err, "XA START 'lw%d'", i), &err);
            must(wr_my_exec(m, &err, "INSERT INTO %s.t VALUES(%d)", fx->db, round * 10 + i), &err);
            must(wr_my_exec(m, &err, "XA END 'lw%d'", i), &err);
            must(wr_my_exec(m, &err, "XA PREPARE 'lw%d'", i), &err);
            if (last[i] || round == 0) must(wr_my_exec(m, &err, "%s 'lw%d'", last[i] ? last[i] : "XA COMMIT", i), &err);
            wr_my_disconnect(m);
        }
    for (int i = 0; i < 4; i++) assert_true(wr_xid_parse_text(wr_slice_str(i == 0 ? "'lw0'" : i == 1 ? "'lw1'" : i == 2 ? "'lw2'" : "'never'"), &xa[i].xid));
    for (int k = 0; k < 2; k++) {
        must(wr_source_now(fx->s, &now, &err), &err);
        must(wr_my_xa_last(fx->s, &now, xa, 4, &err), &err);
        assert_int_equal(xa[0].last, WR_XA_ENDED);
        assert_int_equal(xa[1].last, WR_XA_ENDED);
        assert_int_equal(xa[2].last, WR_XA_PREPARED);
        assert_int_equal(xa[3].last, WR_XA_UNKNOWN);
        sql(fx, "FLUSH BINARY LOGS");
    }
    wr_pos_clear(&now);
    MYSQL *m = NULL;
    must(wr_my_connect(&fx->s->conn, &m, &err), &err);
    must(wr_my_exec(m, &err, "XA ROLLBACK 'lw2'"), &err);
    wr_my_disconnect(m);
}

typedef struct xa_writer { fixture *fx; int number; bool stop; } xa_writer;

static void *write_xa(void *arg) {
    xa_writer *w = arg;
    MYSQL *m = NULL;
    wr_err err = WR_ERR_INIT;
    must(wr_my_connect(&w->fx->s->conn, &m, &err), &err);
    for (int n = 0; !__atomic_load_n(&w->stop, __ATOMIC_RELAXED); n++) {
        must(wr_my_exec(m, &err, "XA START 'vx%d-%d'", w->number, n), &err);
        must(wr_my_exec(m, &err, "INSERT INTO %s.u VALUES(%d)", w->fx->db, n), &err);
        must(wr_my_exec(m, &err, "XA END 'vx%d-%d'", w->number, n), &err);
        must(wr_my_exec(m, &err, "XA PREPARE 'vx%d-%d'", w->number, n), &err);
        must(wr_my_exec(m, &err, "XA COMMIT 'vx%d-%d'", w->number, n), &err);
        usleep(2000);
    }
    wr_my_disconnect(m);
    return NULL;
}

typedef struct commits { uint64_t upto, n; } commits;

static wr_code count_commit(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    commits *c = ctx;
    if (ncols > 5 && row[5] && strncmp(row[5], "XA COMMIT X'7678", 16) == 0 && strtoull(row[4], NULL, 10) <= c->upto) c->n++;
    return WR_OK;
}

/* A server's XA COMMIT is in the binlog before it is in the engine; the position of a whole read must not be between the two. */
static void a_whole_read_has_every_xa_commit_before_its_position(void **state) {
    enum { SEEN = 4000 };
    fixture *fx = on_server(state);
    wr_err err = WR_ERR_INIT;
    static struct { wr_pos pos; uint64_t rows; } seen[SEEN];
    int nseen = 0;
    const char *seconds = getenv("WEIR_TEST_SECONDS");
    sql(fx, "CREATE TABLE u(x int) engine=InnoDB");
    sql(fx, "FLUSH BINARY LOGS");
    wr_snap *sn = open_snap(fx, fx->s, "u");
    xa_writer w[3];
    pthread_t t[3];
    for (int i = 0; i < 3; i++) {
        w[i] = (xa_writer){fx, i, false};
        pthread_create(&t[i], NULL, write_xa, &w[i]);
    }
    int64_t until = wr_mono_us() + (seconds ? atoll(seconds) : 2) * 1000000;
    while (wr_mono_us() < until && nseen < SEEN) {
        counted all = {0};
        wr_pos pos = {0};
        wr_code rc = wr_snap_read_all(sn, count, &all, &pos, &err);
        if (rc != WR_OK && err.retry == WR_RETRY_SOON) continue;
        must(rc, &err);
        seen[nseen].pos = pos;
        seen[nseen++].rows = all.rows;
    }
    for (int i = 0; i < 3; i++) __atomic_store_n(&w[i].stop, true, __ATOMIC_RELAXED), pthread_join(t[i], NULL);
    assert_true(nseen > 0);
    int wrong = 0;
    for (int i = 0; i < nseen; i += seconds ? 1 : 1 + nseen / 20) {
        commits c = {.upto = seen[i].pos.offset};
        if (strcmp(seen[i].pos.file, seen[0].pos.file) == 0) {
            must(wr_my_query(fx->m, count_commit, &c, &err, "SHOW BINLOG EVENTS IN '%s'", seen[i].pos.file), &err);
            wrong += c.n != seen[i].rows;
        }
    }
    for (int i = 0; i < nseen; i++) wr_pos_clear(&seen[i].pos);
    if (seconds) print_message("%d reads, %d wrong\n", nseen, wrong);
    assert_int_equal(wrong, 0);
    wr_snap_close(sn);
}

static void take(void *ctx, const wr_finding *f) {
    char *all = ctx;
    assert_true(f->what[0] && f->consequence[0] && f->cure[0]);
    strncat(all, f->id, 4000 - strlen(all) - 1);
    strncat(all, " ", 4000 - strlen(all) - 1);
}

static void check_finds_what_is_there(void **state) {
    fixture *fx = on_server(state);
    wr_err err = WR_ERR_INIT;
    char ids[4096] = "";
    sql(fx, "CREATE TABLE nokey(a int)");
    sql(fx, "CREATE TABLE my(a int primary key) engine=MyISAM");
    sql(fx, "CREATE TABLE pre(a varchar(99), primary key(a(5)))");
    must(wr_source_check(fx->s, &(wr_check_sink){.ctx = ids, .finding = take}, &err), &err);
    assert_non_null(strstr(ids, "no-primary-key"));
    assert_non_null(strstr(ids, "engine"));
    assert_non_null(strstr(ids, "prefix-key"));
    assert_null(strstr(ids, "pattern-without-table"));
    assert_null(strstr(ids, "privilege-"));
}

/* n index reads for n rows, whatever the labels: an ENUM's order is no order of texts. */
static void enum_keys_are_read_once(void **state) {
    static const char *const columns[] = {
        "e enum('z','a','m'), id int, primary key(e,id)", "e enum('','a',' m'), id int, primary key(e,id)",
        "e enum('z','a','m') character set binary, id int, primary key(e,id)", "e enum('','a','m'), f enum('x',''), id int, primary key(e,f,id)",
    };
    fixture *fx = on_server(state);
    wr_err err = WR_ERR_INIT;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        char q[4096];
        sql(fx, "DROP TABLE IF EXISTS k");
        snprintf(q, sizeof q, "CREATE TABLE k(%s)", columns[i]);
        sql(fx, q);
        snprintf(q, sizeof q, "INSERT INTO k(e,%s id) WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 900) SELECT 1 + n %% 3,%s n FROM s",
                 i == 3 ? "f," : "", i == 3 ? "1 + n % 2," : "");
        sql(fx, q);
        for (int k = 0; k < 3; k++) {
            snprintf(q, sizeof q, "INSERT INTO k SELECT e,%s id + 1000 * %d FROM k", i == 3 ? "f," : "", 1 << k);
            sql(fx, q);
        }
        wr_snap *sn = open_snap(fx, fx->s, "k");
        const char *reads = "SELECT SUM(VARIABLE_VALUE) FROM %s.global_status WHERE VARIABLE_NAME IN ('Handler_read_next', 'Handler_read_rnd', 'Handler_read_rnd_next')";
        char *before = NULL, *after = NULL;
        snprintf(q, sizeof q, reads, fx->mariadb ? "information_schema" : "performance_schema");
        must(wr_my_scalar(fx->m, &before, &err, "%s", q), &err);
        counted c = read_chunks(sn, NULL, 100);
        must(wr_my_scalar(fx->m, &after, &err, "%s", q), &err);
        uint64_t n = (uint64_t)(strtod(after, NULL) - strtod(before, NULL));
        assert_int_equal(c.rows, 7200);
        if (n > 3 * c.rows) print_message("%s: %d reads for %d rows\n", columns[i], (int)n, (int)c.rows);
        assert_true(n <= 3 * c.rows);
        free(before), free(after);
        wr_snap_close(sn);
    }
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(every_kind_of_key_rolls),
        T(enum_keys_are_read_once),
        T(ddl_between_chunks_is_told),
        T(a_changed_table_does_not_open),
        T(after_an_error_of_the_receiver_the_reader_goes_on),
        T(a_session_that_was_killed_is_worth_another_try),
        T(a_storm_of_ddl_never_gives_wrong_rows),
        T(ranges_cover_the_table_once_and_evenly),
        T(the_rate_limit_holds_over_all_readers),
        T(positions_move_with_commits),
        T(begin_does_not_wait_for_a_prepared_xa_transaction_that_the_binlog_has),
        T(the_last_word_on_an_xa_transaction_is_found),
        T(a_whole_read_has_every_xa_commit_before_its_position),
        T(check_finds_what_is_there),
    };
    where = getenv("WEIR_TEST_MARIADB");
    int failed = cmocka_run_group_tests_name("MariaDB", tests, NULL, NULL);
    where = getenv("WEIR_TEST_MYSQL");
    return failed + cmocka_run_group_tests_name("MySQL", tests, NULL, NULL);
}
