#include "fixture.h"

static wr_slice nth(fixture *f, uint8_t type, int n) {
    for (size_t at = 4;;) {
        wr_slice ev = fx_event(f, at);
        assert_true(ev.n);
        if (ev.p[4] == type && n-- == 0) return ev;
        at += ev.n;
    }
}

static wr_event split(fixture *f, wr_slice bytes) {
    wr_event_format fmt = {.known = true, .checksum = true};
    wr_event ev = {0};
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_event_split(&fmt, bytes, false, &ev, &err), WR_OK);
    return ev;
}

static void the_format_description_of_both_servers_is_read(void **state) {
    fixture f;
    wr_err err = WR_ERR_INIT;
    for (int i = 0; i < 2; i++) {
        fx_open(&f, i ? WR_MYSQL : WR_MARIADB, i ? "mysql.binlog" : "maria.binlog");
        wr_event ev = split(&f, fx_event(&f, 4));
        wr_event_format fmt;
        assert_int_equal(wr_event_format_parse(&ev, &fmt, &err), WR_OK);
        assert_true(fmt.known && fmt.checksum);
        assert_int_equal(fmt.is_mariadb, !i);
        assert_int_equal(fmt.server_version_num, i ? 90704 : 101119);
        assert_int_equal(fmt.table_id_bytes, 6);
        assert_false(fmt.server_start);
        fx_close(&f);
    }
}

static void the_in_use_flag_does_not_break_the_checksum(void **state) {
    fixture f;
    fx_open(&f, WR_MYSQL, "mysql.binlog");
    wr_slice fde = fx_event(&f, 4);
    ((uint8_t *)(uintptr_t)fde.p)[17] ^= EV_FLAG_BINLOG_IN_USE;
    split(&f, fde);
    fx_close(&f);
}

static void an_artificial_rotate_before_the_format_may_have_a_checksum(void **state) {
    wr_event_format none = {0};
    wr_event ev;
    wr_ev_rotate r;
    wr_err err = WR_ERR_INIT;
    for (int sum = 0; sum < 2; sum++) {
        uint8_t p[64] = {[4] = EV_ROTATE, [17] = EV_FLAG_ARTIFICIAL, [19] = 0x10, [20] = 0x27};
        memcpy(p + 27, "binlog.000007", 13);
        size_t n = 40 + (sum ? 4 : 0);
        uint32_t size = (uint32_t)n;
        memcpy(p + 9, &size, 4);
        if (sum) fx_seal(p, n);
        assert_int_equal(wr_event_split(&none, wr_slice_of(p, n), false, &ev, &err), WR_OK);
        assert_int_equal(wr_event_rotate_parse(&ev, &r, &err), WR_OK);
        assert_int_equal(r.pos, 10000);
        assert_int_equal(r.file.n, 13);
    }
}

static void statements_come_with_their_session(void **state) {
    fixture f;
    wr_err err = WR_ERR_INIT;
    wr_buf scratch = WR_BUF_INIT;
    wr_ev_query q;
    fx_open(&f, WR_MARIADB, "maria.binlog");
    wr_event ev = split(&f, nth(&f, EV_QUERY, 1));
    assert_int_equal(wr_event_query_parse(&ev, &scratch, &q, &err), WR_OK);
    assert_string_equal(q.db, "fx");
    assert_memory_equal(q.sql.p, "CREATE TABLE n(", 15);
    assert_string_equal(wr_charset_of_collation(q.charset_client), "utf8mb4");
    assert_int_equal(q.collation_server, 45); /* utf8mb4_general_ci */
    assert_int_equal(q.sql_mode & 4, 0);
    assert_true(q.thread_id != 0);
    ev = split(&f, nth(&f, EV_QUERY_COMPRESSED, 0));
    assert_int_equal(wr_event_query_parse(&ev, &scratch, &q, &err), WR_OK);
    assert_non_null(memmem(q.sql.p, q.sql.n, "a statement long enough to be worth compressing", 47));
    fx_close(&f);
    wr_buf_free(&scratch);
}

static void gtids_of_all_kinds_are_read(void **state) {
    fixture f;
    wr_err err = WR_ERR_INIT;
    wr_ev_gtid g;
    fx_open(&f, WR_MYSQL, "mysql.binlog");
    wr_event ev = split(&f, nth(&f, EV_GTID, 0));
    assert_int_equal(wr_event_gtid_parse(&ev, &g, &err), WR_OK);
    assert_false(g.anonymous);
    assert_int_equal(g.gno, 14935);
    assert_true(g.commit_us / 1000000 == ev.timestamp);
    ev = split(&f, nth(&f, EV_GTID_TAGGED, 0));
    wr_ev_gtid tagged;
    assert_int_equal(wr_event_gtid_parse(&ev, &tagged, &err), WR_OK);
    assert_memory_equal(tagged.uuid, g.uuid, 16);
    assert_string_equal(tagged.tag, "some_tag");
    assert_int_equal(tagged.gno, 1);
    assert_true(tagged.commit_us / 1000000 == ev.timestamp);
    fx_close(&f);
    fx_open(&f, WR_MARIADB, "maria.binlog");
    wr_ev_maria_gtid m;
    bool seen_xa = false, seen_done = false, seen_start = false, seen_domain = false;
    for (size_t at = 4;;) {
        wr_slice b = fx_event(&f, at);
        if (!b.n) break;
        at += b.n;
        if (b.p[4] != EV_MARIA_GTID) continue;
        ev = split(&f, b);
        assert_int_equal(wr_event_maria_gtid_parse(&ev, &m, &err), WR_OK);
        if (m.prepared_xa && m.xid.gtrid_len == 3 && memcmp(m.xid.data, "one", 3) == 0) seen_xa = true;
        if (m.completed_xa) seen_done = true;
        if (m.start_alter) seen_start = true;
        if (m.domain == 7 && m.server_id == 99 && m.seq == 1) seen_domain = true;
    }
    assert_true(seen_xa && seen_done && seen_start && seen_domain);
    fx_close(&f);
}

static void transaction_ids_are_read_from_text(void **state) {
    static const struct { const char *text; int32_t format; const char *g, *b; } t[] = {
        {" X'7731',X'',1", 1, "w1", ""},   {"'w2','b\\'q'", 1, "w2", "b'q"}, {"'w2','b''q', 7", 7, "w2", "b'q"}, {"0x7731 , x'71' , -3", -3, "w1", "q"},
        {"'' ONE PHASE", 1, "", ""},
    };
    wr_xid x;
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        assert_true(wr_xid_parse_text(wr_slice_str(t[i].text), &x));
        assert_int_equal(x.format, t[i].format);
        assert_int_equal(x.gtrid_len, strlen(t[i].g));
        assert_int_equal(x.bqual_len, strlen(t[i].b));
        assert_memory_equal(x.data, t[i].g, x.gtrid_len);
        assert_memory_equal(x.data + x.gtrid_len, t[i].b, x.bqual_len);
    }
    static const char *const bad[] = {"", "w1", "X'7'", "X'7g'", "'open", "X'77',", "'a','b',", "X'" "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
                                      "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff00'"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(wr_xid_parse_text(wr_slice_str(bad[i]), &x));
    char buf[320];
    assert_true(wr_xid_parse_text(wr_slice_str("'w1'"), &x));
    assert_string_equal(wr_xid_print(&x, buf), "X'7731',X'',1");
}

/* Every parser on every event's body, cut everywhere and with flipped bits: an answer, never a read past the end. */
static void parse_all(const wr_event *ev, const wr_event_format *fmt, wr_buf *scratch) {
    wr_err err = WR_ERR_INIT;
    union { wr_ev_rotate r; wr_ev_query q; wr_ev_gtid g; wr_ev_maria_gtid m; wr_ev_table_map t; wr_ev_rows w; wr_ev_xa_prepare x; wr_event_format f; } u;
    wr_gtid_set *set = NULL;
    switch (ev->type) {
    case EV_FORMAT_DESCRIPTION: wr_event_format_parse(ev, &u.f, &err); break;
    case EV_ROTATE: wr_event_rotate_parse(ev, &u.r, &err); break;
    case EV_QUERY: case EV_QUERY_COMPRESSED: wr_event_query_parse(ev, scratch, &u.q, &err); break;
    case EV_GTID: case EV_GTID_TAGGED: case EV_ANONYMOUS_GTID: wr_event_gtid_parse(ev, &u.g, &err); break;
    case EV_MARIA_GTID: wr_event_maria_gtid_parse(ev, &u.m, &err); break;
    case EV_TABLE_MAP: wr_event_table_map_parse(ev, fmt, &u.t, &err); break;
    case EV_XA_PREPARE: wr_event_xa_prepare_parse(ev, &u.x, &err); break;
    case EV_PREVIOUS_GTIDS: if (wr_gtid_set_decode(ev->body, &set, &err) == WR_OK) wr_gtid_set_free(set); break;
    case EV_MARIA_GTID_LIST: if (wr_gtid_set_decode_list(ev->body, &set, &err) == WR_OK) wr_gtid_set_free(set); break;
    default:
        if (wr_event_is_rows(ev->type)) wr_event_rows_parse(ev, fmt, scratch, &u.w, &err);
    }
}

static void cut_and_changed_bodies_are_survived(void **state) {
    wr_event_format fmt = {.known = true, .checksum = true, .table_id_bytes = 6};
    wr_buf scratch = WR_BUF_INIT;
    for (int i = 0; i < 2; i++) {
        fixture f;
        fx_open(&f, i ? WR_MYSQL : WR_MARIADB, i ? "mysql.binlog" : "maria.binlog");
        for (size_t at = 4;;) {
            wr_slice b = fx_event(&f, at);
            if (!b.n) break;
            at += b.n;
            wr_event ev = split(&f, b);
            size_t n = ev.body.n;
            for (size_t k = 0; k <= n; k++) {
                uint8_t *cut = wr_malloc(k), *flip = wr_malloc(n);
                wr_event x = ev;
                memcpy(cut, ev.body.p, k);
                x.body = wr_slice_of(cut, k);
                parse_all(&x, &fmt, &scratch);
                for (int bit = 0; bit < 8 && k < n; bit++) {
                    memcpy(flip, ev.body.p, n);
                    flip[k] ^= (uint8_t)(1 << bit);
                    x.body = wr_slice_of(flip, n);
                    parse_all(&x, &fmt, &scratch);
                }
                wr_free(cut), wr_free(flip);
            }
        }
        fx_close(&f);
    }
    wr_buf_free(&scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_format_description_of_both_servers_is_read), cmocka_unit_test(the_in_use_flag_does_not_break_the_checksum),
        cmocka_unit_test(an_artificial_rotate_before_the_format_may_have_a_checksum), cmocka_unit_test(statements_come_with_their_session),
        cmocka_unit_test(gtids_of_all_kinds_are_read), cmocka_unit_test(transaction_ids_are_read_from_text), cmocka_unit_test(cut_and_changed_bodies_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
