#include "fixture.h"

static void feed_all(fixture *f) {
    wr_err err = WR_ERR_INIT;
    for (size_t at = 4;;) {
        wr_slice ev = fx_event(f, at);
        if (!ev.n) break;
        wr_code rc = wr_applier_feed(f->applier, ev, &err);
        if (rc != WR_OK) print_message("%s\n", err.msg);
        assert_int_equal(rc, WR_OK);
        at = f->again ? f->again : at + ev.n;
        f->again = 0;
    }
    assert_int_equal(wr_applier_idle(f->applier, &err), WR_OK);
}

/* Position commits of empty transactions depend on the clock: only what follows changes or DDL is compared. What the catalogue remembers
 * for itself (hidden) is its own matter. */
static void without_idle_commits(const wr_buf *in, wr_buf *out) {
    bool had = false;
    for (size_t i = 0; i < in->n;) {
        const uint8_t *nl = memchr(in->p + i, '\n', in->n - i);
        size_t n = nl ? (size_t)(nl - (in->p + i)) + 1 : in->n - i;
        bool commit = n > 7 && memcmp(in->p + i, "commit ", 7) == 0, hidden = n > 7 && memcmp(in->p + i, "hidden ", 7) == 0;
        if (commit ? had : !hidden) wr_buf_put(out, in->p + i, n);
        had = !commit && !hidden;
        i += n;
    }
}

static void check_golden(wr_flavor flavor, const char *binlog, const char *expect) {
    fixture f;
    fx_open(&f, flavor, binlog);
    feed_all(&f);
    wr_buf is = WR_BUF_INIT, want = WR_BUF_INIT;
    without_idle_commits(&f.out, &is);
    const char *write = getenv("WEIR_WRITE_EXPECT");
    if (write) {
        char path[512];
        wr_err err = WR_ERR_INIT;
        fx_data_path(expect, path, sizeof path);
        assert_int_equal(wr_file_put(path, wr_buf_view(&is), &err), WR_OK);
    }
    fx_read(expect, &want);
    wr_buf_u8(&is, 0), wr_buf_u8(&want, 0);
    assert_string_equal((char *)is.p, (char *)want.p);
    wr_buf_free(&is), wr_buf_free(&want);
    fx_close(&f);
}

static void a_captured_mariadb_binlog_gives_the_rows_the_server_shows(void **s) { check_golden(WR_MARIADB, "maria.binlog", "maria.expect"); }
static void a_captured_mysql_binlog_gives_the_rows_the_server_shows(void **s) { check_golden(WR_MYSQL, "mysql.binlog", "mysql.expect"); }

/* Hostile bytes: every event, cut at every length and with every byte changed in some bits, its checksum made right again. The applier
 * must say WR_OK or fail, and nothing else. */
static void torture(wr_flavor flavor, const char *binlog, int step) {
    fixture f;
    fx_open(&f, flavor, binlog);
    wr_buf b = WR_BUF_INIT;
    wr_err err = WR_ERR_INIT;
    for (size_t at = 4;;) {
        wr_slice ev = fx_event(&f, at);
        if (!ev.n) break;
        for (size_t n = 0; n < ev.n; n += (size_t)step) { /* cut */
            wr_buf_clear(&b);
            wr_buf_put(&b, ev.p, n);
            /* a buffer of exactly n bytes, so that a read past its end is seen */
            uint8_t *p = wr_malloc(n);
            if (n) memcpy(p, b.p, n);
            fx_seal(p, n);
            wr_applier_feed(f.applier, wr_slice_of(p, n), &err);
            wr_free(p);
        }
        for (size_t i = 4; i < ev.n - 4; i += (size_t)step) { /* flip */
            if (i >= 9 && i < 13) continue; /* the size: covered by cutting */
            for (int bit = 0; bit < 8; bit += 1 + (int)(i % 3)) {
                uint8_t *p = wr_malloc(ev.n);
                memcpy(p, ev.p, ev.n);
                p[i] ^= (uint8_t)(1u << bit);
                fx_seal(p, ev.n);
                wr_applier_feed(f.applier, wr_slice_of(p, ev.n), &err);
                wr_free(p);
                wr_buf_clear(&f.out);
            }
        }
        wr_applier_feed(f.applier, ev, &err);
        at += ev.n;
    }
    wr_applier_cut(f.applier, &err);
    wr_buf_free(&b);
    fx_close(&f);
}

static void changed_bytes_of_mariadb_events_give_errors_and_nothing_worse(void **s) { torture(WR_MARIADB, "maria.binlog", 3); }
static void changed_bytes_of_mysql_events_give_errors_and_nothing_worse(void **s) { torture(WR_MYSQL, "mysql.binlog", 3); }

static void a_flipped_bit_does_not_pass_the_checksum(void **s) {
    fixture f;
    fx_open(&f, WR_MYSQL, "mysql.binlog");
    wr_err err = WR_ERR_INIT;
    wr_slice ev = fx_event(&f, 4);
    assert_int_equal(wr_applier_feed(f.applier, ev, &err), WR_OK);
    ev = fx_event(&f, 4 + ev.n);
    ((uint8_t *)(uintptr_t)ev.p)[ev.n - 6] ^= 1;
    assert_int_equal(wr_applier_feed(f.applier, ev, &err), WR_E_DECODE);
    assert_non_null(strstr(err.msg, "binlog binlog.000001, offset "));
    assert_non_null(strstr(err.msg, "PREVIOUS_GTIDS (type 35)"));
    fx_close(&f);
}

/* Feeds up to the first event of a type; returns it. */
static wr_slice feed_to(fixture *f, uint8_t type, size_t *at) {
    wr_err err = WR_ERR_INIT;
    for (;;) {
        wr_slice ev = fx_event(f, *at);
        assert_true(ev.n);
        if (ev.p[4] == type) return ev;
        assert_int_equal(wr_applier_feed(f->applier, ev, &err), WR_OK);
        *at += ev.n;
    }
}

static void a_server_that_stopped_in_a_transaction_aborts_it(void **s) {
    fixture f;
    fx_open(&f, WR_MARIADB, "maria.binlog");
    wr_err err = WR_ERR_INIT;
    size_t at = 4;
    feed_to(&f, EV_XID, &at); /* the rows are out, the commit is not */
    assert_true(wr_applier_in_transaction(f.applier));
    wr_slice fde = fx_event(&f, 4);
    assert_int_equal(wr_applier_feed(f.applier, fde, &err), WR_OK);
    assert_false(wr_applier_in_transaction(f.applier));
    wr_buf_u8(&f.out, 0);
    assert_non_null(strstr((char *)f.out.p, "insert n "));
    assert_non_null(strstr((char *)f.out.p, "abort\n"));
    fx_close(&f);
}

static void a_lost_connection_aborts_once(void **s) {
    fixture f;
    fx_open(&f, WR_MYSQL, "mysql.binlog");
    wr_err err = WR_ERR_INIT;
    size_t at = 4;
    feed_to(&f, EV_XID, &at);
    assert_int_equal(wr_applier_cut(f.applier, &err), WR_OK);
    assert_int_equal(wr_applier_cut(f.applier, &err), WR_OK);
    wr_buf_u8(&f.out, 0);
    char *a = strstr((char *)f.out.p, "abort\n");
    assert_non_null(a);
    assert_null(strstr(a + 1, "abort\n"));
    fx_close(&f);
}

static void an_error_of_the_sink_comes_back_as_it_is(void **s) {
    fixture f;
    fx_open(&f, WR_MYSQL, "mysql.binlog");
    wr_err err = WR_ERR_INIT;
    size_t at = 4;
    wr_slice ev = feed_to(&f, EV_WRITE_ROWS, &at);
    f.fail_change = 1;
    assert_int_equal(wr_applier_feed(f.applier, ev, &err), WR_E_LIMIT);
    assert_string_equal(err.msg, "the sink is full");
    fx_close(&f);
}

static void rows_without_a_table_map_are_an_error(void **s) {
    fixture f;
    fx_open(&f, WR_MYSQL, "mysql.binlog");
    wr_err err = WR_ERR_INIT;
    size_t at = 4;
    feed_to(&f, EV_TABLE_MAP, &at);
    wr_slice map = fx_event(&f, at), rows = fx_event(&f, at + map.n);
    assert_int_equal(wr_applier_feed(f.applier, rows, &err), WR_E_DECODE);
    fx_close(&f);
}

static wr_code feed_made(fixture *f, uint8_t type, uint16_t flags, uint32_t log_pos, const void *body, size_t n, wr_err *err) {
    uint8_t p[512] = {0};
    p[4] = type;
    memcpy(p + 13, &log_pos, 4);
    memcpy(p + 17, &flags, 2);
    if (n) memcpy(p + EV_HEADER_BYTES, body, n);
    fx_seal(p, EV_HEADER_BYTES + n + 4);
    return wr_applier_feed(f->applier, wr_slice_of(p, EV_HEADER_BYTES + n + 4), err);
}

static void an_unknown_event_stops_unless_it_may_be_ignored(void **s) {
    fixture f;
    fx_open(&f, WR_MYSQL, "mysql.binlog");
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_applier_feed(f.applier, fx_event(&f, 4), &err), WR_OK);
    assert_int_equal(feed_made(&f, 99, EV_FLAG_IGNORABLE, 1000, "x", 1, &err), WR_OK);
    assert_int_equal(feed_made(&f, 99, 0, 1100, "x", 1, &err), WR_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "type 99"));
    assert_int_equal(feed_made(&f, EV_WRITE_ROWS_V0, 0, 1200, "x", 1, &err), WR_E_UNSUPPORTED);
    fx_close(&f);
}

static void an_incident_stops(void **s) {
    fixture f;
    fx_open(&f, WR_MYSQL, "mysql.binlog");
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_applier_feed(f.applier, fx_event(&f, 4), &err), WR_OK);
    assert_int_equal(feed_made(&f, EV_INCIDENT, 0, 1000, "\1\0\4lost", 7, &err), WR_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "lost"));
    fx_close(&f);
}

static void offsets_go_beyond_four_gigabytes(void **s) {
    fixture f;
    fx_open(&f, WR_MYSQL, "mysql.binlog");
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_applier_feed(f.applier, fx_event(&f, 4), &err), WR_OK);
    uint32_t at = 1000;
    for (int i = 0; i < 9; i++, at += 0x40000000u) assert_int_equal(feed_made(&f, EV_IGNORABLE, EV_FLAG_IGNORABLE, at, NULL, 0, &err), WR_OK);
    assert_int_equal(wr_applier_offset(f.applier), 8ull * 0x40000000u + 1000);
    fx_close(&f);
}

static void a_repeated_gtid_means_another_history(void **s) {
    fixture f;
    fx_open(&f, WR_MYSQL, "mysql.binlog");
    wr_err err = WR_ERR_INIT;
    size_t at = 4;
    feed_to(&f, EV_GTID, &at);
    wr_slice gtid = fx_event(&f, at), ddl = fx_event(&f, at + gtid.n);
    assert_int_equal(wr_applier_feed(f.applier, gtid, &err), WR_OK);
    assert_int_equal(wr_applier_feed(f.applier, ddl, &err), WR_OK);
    assert_int_equal(wr_applier_feed(f.applier, gtid, &err), WR_OK);
    assert_int_equal(wr_applier_feed(f.applier, ddl, &err), WR_E_GAP);
    assert_non_null(strstr(err.msg, "history changed"));
    fx_close(&f);
}

/* ------------------------------------------------------------------ undone in part */
static void a_transaction_undone_in_part_is_read_twice(void **s) {
    fixture f;
    fx_open_with(&f, WR_MARIADB, "savepoint.binlog", true, true);
    feed_all(&f);
    wr_buf is = WR_BUF_INIT;
    without_idle_commits(&f.out, &is);
    for (char *p = wr_buf_cstr(&is); (p = strstr(p, "commit "));) { /* positions are no matter here */
        char *nl = strchr(p, '\n');
        memmove(p + 6, nl, strlen(nl) + 1);
        p += 6;
    }
    static const char want[] = "create i\ncreate m\ncreate x\n"
                               "insert m (1)\ncommit\n"
                               "insert i (10)\ninsert i (11)\ninsert i (12)\nabort\nagain\ninsert i (10)\ninsert i (14)\ncommit\n"
                               "insert m (2)\ncommit\n"
                               "insert i (20)\ninsert i (21)\ninsert i (22)\nabort\nagain\ninsert i (20)\nstale i\ninsert i (21)\ncommit\n"
                               "insert m (3)\ncommit\nagain\ninsert i (30)\ninsert i (32)\ncommit\n"
                               "insert i (40)\ninsert i (41)\nabort\n"
                               "insert i (50)\ncommit\n";
    WR_AUTO_BUF wr_buf got = WR_BUF_INIT;
    for (char *line = strtok((char *)is.p, "\n"); line; line = strtok(NULL, "\n")) {
        bool create = strncmp(line, "create fx.", 10) == 0;
        wr_buf_printf(&got, "%s%s\n", create ? "create " : "", create ? line + 10 : line);
        if (create) line = strtok(NULL, "\n"); /* its commit */
    }
    assert_string_equal(wr_buf_cstr(&got), want);
    wr_buf_free(&is);
    fx_close(&f);
}

static void one_that_cannot_be_read_twice_stops(void **s) {
    fixture f;
    fx_open_with(&f, WR_MARIADB, "savepoint.binlog", true, false);
    wr_err err = WR_ERR_INIT;
    wr_code rc = WR_OK;
    for (size_t at = 4; rc == WR_OK;) {
        wr_slice ev = fx_event(&f, at);
        assert_true(ev.n);
        rc = wr_applier_feed(f.applier, ev, &err);
        at += ev.n;
    }
    assert_int_equal(rc, WR_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "binlog.000001, offset "));
    assert_non_null(strstr(err.msg, "fx.i"));
    assert_true(*err.cure);
    fx_close(&f);
}

static void one_in_doubt_stops_where_nothing_can_be_read_anew(void **s) {
    fixture f;
    fx_open_with(&f, WR_MARIADB, "savepoint.binlog", false, true);
    wr_err err = WR_ERR_INIT;
    wr_code rc = WR_OK;
    for (size_t at = 4; rc == WR_OK;) {
        wr_slice ev = fx_event(&f, at);
        assert_true(ev.n);
        rc = wr_applier_feed(f.applier, ev, &err);
        at = f.again ? f.again : at + ev.n;
        f.again = 0;
    }
    assert_int_equal(rc, WR_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "fx.i"));
    assert_non_null(strstr(err.msg, "set twice"));
    assert_true(*err.cure);
    fx_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_captured_mariadb_binlog_gives_the_rows_the_server_shows),
        cmocka_unit_test(a_captured_mysql_binlog_gives_the_rows_the_server_shows),
        cmocka_unit_test(a_flipped_bit_does_not_pass_the_checksum),
        cmocka_unit_test(a_server_that_stopped_in_a_transaction_aborts_it),
        cmocka_unit_test(a_lost_connection_aborts_once),
        cmocka_unit_test(an_error_of_the_sink_comes_back_as_it_is),
        cmocka_unit_test(rows_without_a_table_map_are_an_error),
        cmocka_unit_test(an_unknown_event_stops_unless_it_may_be_ignored),
        cmocka_unit_test(an_incident_stops),
        cmocka_unit_test(offsets_go_beyond_four_gigabytes),
        cmocka_unit_test(a_transaction_undone_in_part_is_read_twice),
        cmocka_unit_test(one_that_cannot_be_read_twice_stops),
        cmocka_unit_test(one_in_doubt_stops_where_nothing_can_be_read_anew),
        cmocka_unit_test(a_repeated_gtid_means_another_history),
        cmocka_unit_test(changed_bytes_of_mariadb_events_give_errors_and_nothing_worse),
        cmocka_unit_test(changed_bytes_of_mysql_events_give_errors_and_nothing_worse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
