/* The ledger against a model of it: changes that pass three points, commits, kills, and what a broken queue may do to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tally.h"
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"
#include "weir/ledger.h"
#include "weir/model.h"

#define TABLES 4
static int64_t MINUTE; /* of the first transaction: of today, since old ones become hours */
#define TX_MAX 600

typedef struct tx { int n; struct { uint8_t op; uint32_t table; uint64_t value; } c[6]; int64_t event_us; } tx;

typedef struct world {
    char dir[64], path[96];
    wr_ledger *l;
    tx tx[TX_MAX + 1];       /* by offset */
    uint64_t last, queued, consumed, committed; /* of the queue: ended, written, read, in the lake */
} world;

static uint64_t rng = 1;
static uint32_t roll(uint32_t n) {
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return (uint32_t)(rng >> 20) % n;
}

#define OK(x)                                                      \
    do {                                                           \
        if ((x) != WR_OK) fail_msg("%s: %s", #x, err.msg);          \
    } while (0)

static void silent(void *ctx, wr_log_level level, const char *line) { (void)ctx, (void)level, (void)line; }

static void open_ledger(world *w) {
    wr_err err = WR_ERR_INIT;
    OK(wr_ledger_open(w->path, w->committed, w->last, &w->l, &err));
    w->consumed = w->committed;
    for (uint32_t t = 1; t <= TABLES; t++) {
        char name[16];
        snprintf(name, sizeof name, "t%u", t);
        OK(wr_ledger_name(w->l, t, "db", name, &err));
    }
}

static world *begin(void) {
    world *w = calloc(1, sizeof *w);
    snprintf(w->dir, sizeof w->dir, "/dev/shm/weir-ledger-XXXXXX"); /* thousands of small commits */
    if (!mkdtemp(w->dir)) snprintf(w->dir, sizeof w->dir, "/tmp/weir-ledger-XXXXXX"), assert_non_null(mkdtemp(w->dir));
    snprintf(w->path, sizeof w->path, "%s/ledger.db", w->dir);
    wr_log_set(silent, NULL, WR_LOG_ERROR);
    open_ledger(w);
    return w;
}

static void end(world *w) {
    char cmd[128];
    wr_ledger_close(w->l);
    snprintf(cmd, sizeof cmd, "rm -rf %s", w->dir);
    assert_int_equal(system(cmd), 0);
    free(w);
}

static void note(world *w, wr_point at, const tx *t, int i) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_slice row = wr_slice_of(&t->c[i].value, sizeof t->c[i].value);
    wr_change c = {.op = t->c[i].op, .table = t->c[i].table, .schema_version = 1};
    if (c.op != WR_OP_INSERT) c.before = row;
    if (c.op != WR_OP_DELETE) c.after = row;
    if (at == WR_CONSUMED) return wr_change_encode(&b, &c), wr_ledger_note(w->l, at, wr_buf_view(&b));
    wr_change_parts p; /* in pieces, and as a whole at the point behind: the same */
    wr_change_split(&c, &p);
    for (int k = 0; k < p.n; k++) wr_ledger_note_piece(w->l, at, p.part[k], k + 1 < p.n);
}

static void pass_through(world *w, wr_point at, uint64_t offset) {
    for (int i = 0; i < w->tx[offset].n; i++) note(w, at, &w->tx[offset], i);
    wr_ledger_end(w->l, at, offset, w->tx[offset].event_us);
}

static void capture(world *w) {
    if (w->last == TX_MAX) return;
    tx *t = &w->tx[w->last + 1];
    t->n = (int)roll(7);
    t->event_us = (MINUTE + (int64_t)w->last / 50) * 60000000 + roll(60000000);
    for (int i = 0; i < t->n; i++) t->c[i].op = (uint8_t)(1 + roll(3)), t->c[i].table = 1 + roll(TABLES), t->c[i].value = rng;
    if (roll(10) == 0 && t->n) { /* the connection was lost in its middle */
        note(w, WR_CAPTURED, t, 0);
        if (roll(2)) wr_ledger_note_piece(w->l, WR_CAPTURED, wr_slice_of("\x01\x02\x03", 3), true);
        wr_ledger_abort(w->l, WR_CAPTURED);
    }
    w->last++;
    pass_through(w, WR_CAPTURED, w->last);
}

static bool passed_over(const tx *t, int i) { return t->c[i].value % 5 == 0; }

static void consume(world *w) {
    if (w->consumed >= w->queued) return;
    tx *t = &w->tx[++w->consumed];
    for (int i = 0; i < t->n; i++) {
        note(w, WR_CONSUMED, t, i);
        if (passed_over(t, i) && i % 2) wr_ledger_pass(w->l, w->consumed, t->c[i].op, t->c[i].table);
    }
    wr_ledger_end(w->l, WR_CONSUMED, w->consumed, t->event_us);
    for (int i = 0; i < t->n; i += 2) /* as a transform finds out later */
        if (passed_over(t, i)) wr_ledger_pass(w->l, w->consumed, t->c[i].op, t->c[i].table);
}

static void commit(world *w, bool die) {
    wr_err err = WR_ERR_INIT;
    uint32_t sources[2][2] = {{1, 2}, {3, 4}};
    wr_receipt r[2] = {{.ns = "db", .name = "a", .schema = "{}", .sources = sources[0], .nsources = 2}, {.ns = "db", .name = "b", .schema = "{}", .sources = sources[1], .nsources = 2}};
    wr_receipt_file f = {.path = (char *)"file", .at = -1};
    for (uint64_t o = w->committed + 1; o <= w->consumed; o++)
        for (int i = 0; i < w->tx[o].n; i++)
            if (!passed_over(&w->tx[o], i)) r[w->tx[o].c[i].table > 2].applied++;
    for (int i = 0; i < 2; i++)
        if (r[i].applied) r[i].files = &f, r[i].nfiles = 1, r[i].rows = r[i].applied;
    OK(wr_ledger_prepare(w->l, w->consumed, r, 2, &err));
    if (die) return;
    w->committed = w->consumed;
    wr_ledger_committed(w->l, w->committed);
}

static void read_all(world *w) {
    wr_err err = WR_ERR_INIT;
    wr_reading r;
    wr_code rc;
    while ((rc = wr_ledger_next_reading(w->l, &r, &err)) == WR_OK) {
        assert_true(r.offset <= w->committed);
        assert_int_equal(r.nfiles, 1);
        OK(wr_ledger_read(w->l, &r, WR_READ_SAME, "", &err));
        wr_reading_clear(&r);
    }
    assert_int_equal(rc, WR_E_NOTFOUND);
}

static void restart(world *w) {
    wr_err err = WR_ERR_INIT;
    wr_ledger_close(w->l);
    w->queued = w->last; /* what was ended is in the file: queues of real life lose their tail, and with it `last` */
    open_ledger(w);
    uint64_t from = wr_ledger_missing(w->l);
    for (uint64_t o = from; from && o <= w->last; o++) pass_through(w, WR_CAPTURED, o), pass_through(w, WR_QUEUED, o);
    OK(wr_ledger_tick(w->l, false, &err));
}

typedef struct seen { uint64_t rows[TABLES + 1][TX_MAX / 50 + 1][WR_POINTS]; int alarms; char hop[32], table[64], text[512]; int64_t minute; } seen;

static wr_code on_line(void *ctx, const wr_ledger_line *l, wr_err *err) {
    (void)err;
    seen *s = ctx;
    assert_in_range(l->table, 1, TABLES);
    for (int i = 0; i < WR_POINTS; i++) s->rows[l->table][l->minute - MINUTE][i] += l->rows[i];
    return WR_OK;
}
static wr_code on_alarm(void *ctx, const wr_ledger_alarm *a, wr_err *err) {
    (void)err;
    seen *s = ctx;
    s->alarms++;
    snprintf(s->hop, sizeof s->hop, "%s", a->hop), snprintf(s->table, sizeof s->table, "%s", a->table), snprintf(s->text, sizeof s->text, "%s", a->text);
    s->minute = a->minute - MINUTE;
    return WR_OK;
}

static seen *view(world *w) {
    wr_err err = WR_ERR_INIT;
    seen *s = calloc(1, sizeof *s);
    wr_ledger_filter f = {0};
    wr_ledger_totals totals;
    OK(wr_ledger_view(w->path, &f, &(wr_ledger_look){s, on_line, on_alarm}, &totals, &err));
    return s;
}

static void drain(world *w) {
    wr_err err = WR_ERR_INIT;
    while (w->queued < w->last) pass_through(w, WR_QUEUED, ++w->queued);
    while (w->consumed < w->queued) consume(w);
    commit(w, false);
    OK(wr_ledger_tick(w->l, true, &err));
    OK(wr_ledger_tick(w->l, true, &err));
    read_all(w);
}

static void check_against_model(world *w) {
    seen *s = view(w);
    if (s->alarms) fail_msg("an alarm: %s %s %s", s->hop, s->table, s->text);
    static uint64_t want[TABLES + 1][TX_MAX / 50 + 1][2];
    memset(want, 0, sizeof want);
    for (uint64_t o = 1; o <= w->last; o++)
        for (int i = 0; i < w->tx[o].n; i++) want[w->tx[o].c[i].table][(o - 1) / 50][passed_over(&w->tx[o], i)]++;
    for (int t = 1; t <= TABLES; t++)
        for (int m = 0; m <= TX_MAX / 50; m++) {
            uint64_t all = want[t][m][0] + want[t][m][1], *have = s->rows[t][m];
            for (int at = WR_CAPTURED; at <= WR_CONSUMED; at++) assert_int_equal(have[at], all);
            assert_int_equal(have[WR_PASSED], want[t][m][1]);
            assert_int_equal(have[WR_WRITTEN], want[t][m][0]);
        }
    free(s);
}

static void counts_are_the_models_through_commits_kills_and_rewinds(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        rng = seed * UINT64_C(0x9e3779b97f4a7c15);
        wr_err err = WR_ERR_INIT;
        world *w = begin();
        for (int step = 0; step < 1500; step++) {
            uint32_t what = roll(100);
            if (what < 35) capture(w);
            else if (what < 60) { if (w->queued < w->last) pass_through(w, WR_QUEUED, ++w->queued); }
            else if (what < 85) consume(w);
            else if (what < 92) OK(wr_ledger_tick(w->l, roll(2), &err)); /* "last" cuts epochs anywhere */
            else if (what < 96) commit(w, false);
            else if (what < 97) read_all(w);
            else if (what < 98) restart(w);
            else if (what < 99) commit(w, true), restart(w); /* killed before the lake had it */
            else {
                commit(w, true), w->consumed = w->committed;
                OK(wr_ledger_rewind(w->l, w->committed, &err));
            }
        }
        drain(w);
        check_against_model(w);
        restart(w);
        check_against_model(w);
        end(w);
    }
}

typedef enum harm { LOSE, DOUBLE, SWAP, CHANGE, SWAP_TX, HARMS } harm;

/* What a queue does to one transaction, in front of `at`. */
static void pass_harmed(world *w, wr_point at, uint64_t offset, harm h) {
    tx t = w->tx[offset];
    if (h == LOSE) t.n--;
    if (h == DOUBLE) t.c[t.n] = t.c[t.n - 1], t.n++;
    if (h == SWAP) { uint64_t v = t.c[0].value; t.c[0].value = t.c[1].value, t.c[1].value = v; }
    if (h == CHANGE) t.c[1].value ^= 1;
    for (int i = 0; i < t.n; i++) note(w, at, &t, i);
    wr_ledger_end(w->l, at, offset, t.event_us);
}

static void whatever_a_queue_does_is_named_with_hop_table_and_minute(void **state) {
    (void)state;
    for (int h = 0; h < HARMS; h++)
        for (int at = WR_QUEUED; at <= WR_CONSUMED; at++) {
            wr_err err = WR_ERR_INIT;
            world *w = begin();
            rng = 77;
            for (int i = 0; i < 120; i++) capture(w);
            uint64_t bad = 60, other = 61;
            for (uint64_t o = bad; o <= other; o++) { /* two changes of one kind to one table */
                w->tx[o].n = 2, w->tx[o].event_us = (MINUTE + 1) * INT64_C(60000000) + 5;
                for (int i = 0; i < 2; i++) w->tx[o].c[i].op = WR_OP_INSERT, w->tx[o].c[i].table = 3, w->tx[o].c[i].value = o * 10 + (uint64_t)i;
            }
            wr_ledger_close(w->l);
            unlink(w->path);
            w->last = 0;
            open_ledger(w);
            for (w->last = 1; w->last < 120; w->last++) pass_through(w, WR_CAPTURED, w->last);
            pass_through(w, WR_CAPTURED, w->last);
            for (int k = WR_QUEUED; k <= WR_CONSUMED; k++)
                for (uint64_t o = 1; o <= w->last; o++) {
                    if (k != at || (o != bad && !(h == SWAP_TX && o == other))) pass_through(w, (wr_point)k, o);
                    else if (h != SWAP_TX) pass_harmed(w, (wr_point)k, o, (harm)h);
                    else { /* one comes in the place of the other */
                        const tx *t = &w->tx[o == bad ? other : bad];
                        for (int i = 0; i < t->n; i++) note(w, (wr_point)k, t, i);
                        wr_ledger_end(w->l, (wr_point)k, o, t->event_us);
                    }
                }
            w->consumed = w->last;
            OK(wr_ledger_prepare(w->l, w->last, NULL, 0, &err));
            wr_ledger_committed(w->l, w->last);
            OK(wr_ledger_tick(w->l, true, &err));
            seen *s = view(w);
            bool both = at == WR_QUEUED; /* what was harmed in front of the queue's bytes is not what is consumed unharmed behind it */
            assert_int_equal(s->alarms, both ? 2 : 1);
            assert_string_equal(s->table, "db.t3");
            assert_int_equal(s->minute, 1);
            if (!both) assert_string_equal(s->hop, "queued-consumed");
            if (!both && h == LOSE) assert_non_null(strstr(s->text, "1 inserts are missing"));
            if (!both && h == DOUBLE) assert_non_null(strstr(s->text, "1 inserts are too many"));
            free(s);
            assert_int_equal(wr_ledger_alarms(w->l), both ? 2 : 1);
            end(w);
        }
}

static void a_table_that_takes_fewer_changes_than_were_consumed_is_named(void **state) {
    (void)state;
    wr_err err = WR_ERR_INIT;
    world *w = begin();
    rng = 5;
    for (int i = 0; i < 30; i++) capture(w), pass_through(w, WR_QUEUED, ++w->queued), consume(w);
    uint32_t source = 1;
    wr_receipt r = {.ns = "db", .name = "a", .schema = "{}", .sources = &source, .nsources = 1, .applied = 1};
    OK(wr_ledger_prepare(w->l, w->consumed, &r, 1, &err));
    wr_ledger_committed(w->l, w->consumed);
    seen *s = view(w);
    assert_int_equal(s->alarms, 1);
    assert_string_equal(s->hop, "consumed-written");
    assert_string_equal(s->table, "db.a");
    free(s);
    end(w);
}

static void what_differs_when_read_back_is_an_alarm_and_what_is_gone_is_counted(void **state) {
    (void)state;
    for (int result = WR_READ_SAME; result <= WR_READ_GONE; result++) {
        wr_err err = WR_ERR_INIT;
        world *w = begin();
        rng = 9;
        for (int i = 0; i < 30; i++) capture(w), pass_through(w, WR_QUEUED, ++w->queued), consume(w);
        commit(w, false);
        wr_reading r;
        OK(wr_ledger_next_reading(w->l, &r, &err));
        assert_string_equal(r.files[0].path, "file");
        OK(wr_ledger_read(w->l, &r, (wr_read_result)result, "12 rows were written, 11 are there", &err));
        wr_reading_clear(&r);
        seen s = {0};
        wr_ledger_totals totals;
        OK(wr_ledger_view(w->path, &(wr_ledger_filter){0}, &(wr_ledger_look){&s, on_line, on_alarm}, &totals, &err));
        assert_int_equal(s.alarms, result == WR_READ_DIFFERS);
        assert_int_equal(totals.unread > 0, result == WR_READ_GONE);
        assert_true(totals.pending > 0); /* the other table's */
        if (s.alarms) assert_non_null(strstr(s.text, "11 are there"));
        end(w);
    }
}

static void a_ledger_that_lost_its_end_says_so_and_goes_on(void **state) {
    (void)state;
    wr_err err = WR_ERR_INIT;
    world *w = begin();
    rng = 11;
    for (int i = 0; i < 40; i++) capture(w), pass_through(w, WR_QUEUED, ++w->queued), consume(w);
    commit(w, false);
    OK(wr_ledger_tick(w->l, true, &err));
    for (int i = 0; i < 40; i++) capture(w), pass_through(w, WR_QUEUED, ++w->queued), consume(w);
    w->committed = w->consumed; /* the lake has it, the ledger does not */
    restart(w);
    seen *s = view(w);
    assert_int_equal(s->alarms, 1);
    assert_string_equal(s->hop, "not-counted");
    free(s);
    for (int i = 0; i < 40; i++) capture(w), pass_through(w, WR_QUEUED, ++w->queued), consume(w);
    drain(w);
    s = view(w);
    assert_int_equal(s->alarms, 1);
    free(s);
    end(w);
}

static void a_ledger_begun_beside_a_lake_counts_from_there(void **state) {
    (void)state;
    world *w = begin();
    rng = 12;
    for (int i = 0; i < 20; i++) capture(w), pass_through(w, WR_QUEUED, ++w->queued), consume(w);
    w->committed = 10;
    wr_ledger_close(w->l);
    unlink(w->path);
    open_ledger(w);
    assert_int_equal(wr_ledger_missing(w->l), 11);
    for (uint64_t o = 11; o <= 20; o++) pass_through(w, WR_CAPTURED, o), pass_through(w, WR_QUEUED, o);
    drain(w);
    seen *s = view(w);
    assert_int_equal(s->alarms, 0);
    uint64_t rows = 0, want = 0;
    for (int t = 1; t <= TABLES; t++) rows += s->rows[t][0][WR_CONSUMED];
    for (int o = 11; o <= 20; o++) want += (uint64_t)w->tx[o].n;
    assert_int_equal(rows, want);
    free(s);
    end(w);
}

static void without_memory_nothing_fails_and_the_gap_is_told(void **state) {
    (void)state;
    wr_err err = WR_ERR_INIT;
    world *w = begin();
    rng = 13;
    wr_mem_fail_after(1);
    capture(w), capture(w);
    wr_mem_fail_after(0);
    for (int i = 0; i < 20; i++) capture(w);
    while (w->queued < w->last) pass_through(w, WR_QUEUED, ++w->queued), consume(w);
    drain(w);
    seen *s = view(w);
    assert_int_equal(s->alarms, 1);
    assert_string_equal(s->hop, "not-counted");
    free(s);
    for (int i = 0; i < 20; i++) capture(w);
    drain(w);
    s = view(w);
    assert_int_equal(s->alarms, 1);
    free(s);
    OK(wr_ledger_tick(w->l, false, &err));
    end(w);
}

static void a_tally_adds_up_like_a_list(void **state) {
    (void)state;
    rng = 21;
    for (int round = 0; round < 30; round++) {
        wr_tally t = {0};
        static uint64_t want[512];
        memset(want, 0, sizeof want);
        for (int i = 0; i < 3000; i++) {
            uint32_t k = roll(1 + (uint32_t)round * 16);
            wr_cell c = {.key = wr_cell_key(k, (uint8_t)(1 + k % 3), MINUTE + (int64_t)k % 7), .rows = 1, .sum = i};
            assert_true(wr_tally_add(&t, &c));
            want[k] += 1;
        }
        for (uint32_t k = 0; k < 512; k++) {
            const wr_cell *c = wr_tally_get(&t, wr_cell_key(k, (uint8_t)(1 + k % 3), MINUTE + (int64_t)k % 7));
            assert_int_equal(c ? c->rows : 0, want[k]);
            if (c) assert_int_equal(wr_cell_table(c->key), k), assert_int_equal(wr_cell_op(c->key), 1 + k % 3), assert_int_equal(wr_cell_minute(c->key), MINUTE + (int64_t)k % 7);
        }
        wr_tally_free(&t);
    }
}

typedef struct sums { uint64_t rows[3]; } sums; /* in minutes, hours, days */
static wr_code add_up(void *ctx, const wr_ledger_line *l, wr_err *err) {
    (void)err;
    ((sums *)ctx)->rows[l->span == 1 ? 0 : l->span == 60 ? 1 : 2] += l->rows[WR_WRITTEN] + l->rows[WR_PASSED];
    return WR_OK;
}

static void old_minutes_become_hours_and_days_and_nothing_is_lost(void **state) {
    (void)state;
    wr_err err = WR_ERR_INIT;
    world *w = begin();
    rng = 14;
    int64_t today = MINUTE;
    static const int ago_days[3] = {0, 20, 200};
    uint64_t want = 0;
    for (int k = 0; k < 3; k++) {
        MINUTE = today - ago_days[k] * 1440;
        for (int i = 0; i < 50; i++) capture(w), want += (uint64_t)w->tx[w->last].n;
    }
    MINUTE = today;
    drain(w);
    wr_ledger_close(w->l);
    open_ledger(w);
    OK(wr_ledger_tick(w->l, false, &err)); /* an hour later, or the next start */
    sums s = {0};
    wr_ledger_totals totals;
    OK(wr_ledger_view(w->path, &(wr_ledger_filter){0}, &(wr_ledger_look){&s, add_up, on_alarm}, &totals, &err));
    assert_int_equal(s.rows[0] + s.rows[1] + s.rows[2], want);
    for (int k = 0; k < 3; k++) assert_true(s.rows[k] > 0);
    end(w);
}

static void its_file_is_for_its_owner_alone(void **state) {
    (void)state;
    struct stat sb;
    mode_t before = umask(0);
    world *w = begin();
    umask(before);
    assert_int_equal(stat(w->path, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    end(w);
}

int main(void) {
    MINUTE = wr_now_us() / 60000000 - 60;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_the_models_through_commits_kills_and_rewinds),
        cmocka_unit_test(whatever_a_queue_does_is_named_with_hop_table_and_minute),
        cmocka_unit_test(a_table_that_takes_fewer_changes_than_were_consumed_is_named),
        cmocka_unit_test(what_differs_when_read_back_is_an_alarm_and_what_is_gone_is_counted),
        cmocka_unit_test(a_ledger_that_lost_its_end_says_so_and_goes_on),
        cmocka_unit_test(a_ledger_begun_beside_a_lake_counts_from_there),
        cmocka_unit_test(without_memory_nothing_fails_and_the_gap_is_told),
        cmocka_unit_test(old_minutes_become_hours_and_days_and_nothing_is_lost),
        cmocka_unit_test(a_tally_adds_up_like_a_list),
        cmocka_unit_test(its_file_is_for_its_owner_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
