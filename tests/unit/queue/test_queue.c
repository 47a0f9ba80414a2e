/* What the public header promises, without crashes. */
#include "queue/helper.h"
#include <pthread.h>
#include <semaphore.h>
#include <time.h>
#include "weir/base/large.h"

static const shape small = {.records_max = 5, .payload_max = 300};
static const shape large = {
    .records_max = 60, .payload_max = 3000, .gtid_bytes = 3000}; /* several blocks of 4 KiB each */
static const wr_queue_options tiny = {.segment_bytes = 64 << 10, .block_bytes = 4 << 10, .sync_every_us = 200};

static wr_queue *open_queue(const char *dir, const wr_queue_options *opts) {
    wr_err err = WR_ERR_INIT;
    wr_queue *q;
    OK(wr_queue_open(dir, opts, &q, &err));
    return q;
}
static void produce_n(wr_queue *q, shape s, int n) {
    wr_err err = WR_ERR_INIT;
    for (int i = 0; i < n; i++) OK(produce(q, s, &err));
}

static void a_new_queue_is_empty_and_has_no_position(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir();
    wr_queue *q = open_queue(dir, NULL);
    wr_pos pos = {0};
    uint64_t offset = 9;
    OK(wr_queue_last(q, &offset, &pos, &err));
    assert_int_equal(offset, 0);
    assert_string_equal(pos.file, "");
    assert_null(pos.gtid_set);
    assert_int_equal(wr_queue_next_offset(q), 1);
    check_no_more(q, 0);
    wr_queue_close(q);
    q = open_queue(dir, NULL);
    OK(wr_queue_last(q, &offset, &pos, &err));
    assert_int_equal(offset, 0);
    wr_queue_close(q);
    drop_dir(dir);
}

static void what_went_in_comes_out_now_and_after_reopening(void **state) {
    const shape shapes[] = {small,
                            large,
                            {.records_max = 3, .payload_max = 40000},
                            {.records_max = 0},
                            {.records_max = 1, .payload_max = 8, .gtid_bytes = 20000}};
    const wr_queue_options wide = {.segment_bytes = 256 << 10, .block_bytes = 32 << 10, .sync_every_us = 2000},
                           plain = {.codec = WR_QUEUE_PLAIN};
    for (size_t k = 0; k < 3 * sizeof shapes / sizeof *shapes; k++) {
        shape s = shapes[k / 3];
        const wr_queue_options *o = k % 3 == 0 ? &tiny : k % 3 == 1 ? &wide : &plain;
        char *dir = temp_dir_fast();
        wr_queue *q = open_queue(dir, o);
        produce_n(q, s, 150);
        check_range(q, s, 1, 150);
        check_no_more(q, 150);
        for (int round = 1; round < 4; round++) {
            wr_queue_close(q);
            q = open_queue(dir, o);
            assert_int_equal(last_of(q, s), 150 * round);
            check_range(q, s, 1, 150 * (uint64_t)round);
            produce_n(q, s, 150);
        }
        check_range(q, s, 1, 600);
        wr_queue_close(q);
        drop_dir(dir);
    }
}

static void a_reader_may_start_behind_any_transaction(void **state) {
    char *dir = temp_dir();
    wr_queue *q = open_queue(dir, &tiny);
    produce_n(q, large, 40);
    for (uint64_t i = 1; i <= 40; i++) check_range(q, large, i, 40);
    check_no_more(q, 40);
    wr_queue_close(q);
    q = open_queue(dir, &tiny);
    for (uint64_t i = 1; i <= 40; i++) check_range(q, large, i, 40);
    check_no_more(q, 40);
    wr_queue_close(q);
    drop_dir(dir);
}

static void a_reader_ahead_of_the_queue_is_told_that_it_lost_its_end(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir();
    wr_queue *q = open_queue(dir, &tiny);
    produce_n(q, small, 3);
    wr_queue_reader *r;
    assert_int_equal(wr_queue_reader_new(q, 4, &r, &err), WR_E_CORRUPT);
    OK(wr_queue_reader_new(q, 3, &r, &err)); /* ended, maybe not durable yet */
    OK(produce(q, small, &err));
    OK(check_txn(r, small, 4, 10000, &err));
    wr_queue_reader_free(r);
    wr_queue_close(q);
    drop_dir(dir);
}

static void an_open_transaction_is_not_seen_and_an_aborted_one_never_was(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir();
    wr_queue *q = open_queue(dir, &tiny);
    for (int i = 0; i < 60; i++) {
        /* something that must not come out, from nothing to many blocks */
        shape noise = {.records_max = 1u << (i % 7), .payload_max = i % 2 ? 100 : 5000};
        for (int k = 0; k <= i % 3; k++) {
            OK(append_records(q, noise, 1000 + (uint64_t)i, &err));
            if (i % 5 == 0) OK(wr_queue_sync(q, &err));
            if (i % 4 == 0) check_no_more(q, last_of(q, small));
            OK(wr_queue_abort(q, &err));
        }
        OK(produce(q, small, &err));
    }
    OK(wr_queue_abort(q, &err)); /* nothing open: fine */
    check_range(q, small, 1, 60);
    OK(append_records(q, large, 7, &err));
    wr_queue_close(q); /* drops the open one */
    q = open_queue(dir, &tiny);
    assert_int_equal(last_of(q, small), 60);
    check_range(q, small, 1, 60);
    wr_queue_close(q);
    drop_dir(dir);
}

static void a_large_transaction_that_was_written_and_aborted_leaves_nothing(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir();
    wr_queue *q = open_queue(dir, NULL);
    produce_n(q, small, 10);
    OK(wr_queue_sync(q, &err));
    wr_queue_stats before, st;
    wr_queue_get_stats(q, &before);
    uint8_t *p = payload_room();
    for (size_t i = 0; i < PAYLOAD_ROOM; i += 8) {
        uint64_t v = mix(i);
        memcpy(p + i, &v, 8);
    }
    for (int i = 0; i < 100 * 1024; i++)
        OK(wr_queue_append(q, WR_REC_CHANGE, wr_slice_of(p + (size_t)i * 1000 % (PAYLOAD_ROOM - 1000), 1000), &err));
    wr_queue_get_stats(q, &st);
    assert_true(st.bytes > before.bytes + (64u << 20)); /* it did go to disk */
    OK(wr_queue_abort(q, &err));
    wr_queue_get_stats(q, &st);
    assert_int_equal(st.bytes, before.bytes);
    produce_n(q, small, 10);
    check_range(q, small, 1, 20);
    wr_queue_close(q);
    q = open_queue(dir, NULL);
    check_range(q, small, 1, 20);
    assert_int_equal(last_of(q, small), 20);
    wr_queue_close(q);
    drop_dir(dir);
}

static void records_of_several_blocks_come_back_whole(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir();
    wr_queue *q = open_queue(dir, &tiny);
    static const size_t sizes[] = {0,    1,    4080, 4089, 4090, 4091, 4092,   4093,   4094,
                                   4095, 4096, 4097, 8180, 8192, 8200, 100000, 3000000};
    int n = sizeof sizes / sizeof *sizes;
    uint8_t *p = payload_room();
    uint64_t offset;
    wr_pos pos = {.file = "b.1"};
    for (size_t i = 0; i < PAYLOAD_ROOM; i++) p[i] = (uint8_t)mix(i);
    for (int lead = 0; lead < 3; lead++)
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < lead; k++) OK(wr_queue_append(q, WR_REC_DDL, wr_slice_of(p, 700), &err));
            OK(wr_queue_append(q, WR_REC_CHANGE, wr_slice_of(p + i, sizes[i]), &err));
            OK(wr_queue_end(q, &pos, 0, &offset, &err));
        }
    for (int again = 0; again < 2; again++) {
        wr_queue_reader *r;
        wr_queue_record rec;
        OK(wr_queue_reader_new(q, 0, &r, &err));
        for (int lead = 0; lead < 3; lead++)
            for (int i = 0; i < n; i++) {
                for (int k = 0; k < lead; k++) {
                    OK(wr_queue_read(r, 10000, &rec, &err));
                    assert_int_equal(rec.payload.n, 700);
                }
                OK(wr_queue_read(r, 10000, &rec, &err));
                assert_int_equal(rec.payload.n, sizes[i]);
                assert_memory_equal(rec.payload.p, p + i, sizes[i]);
                OK(wr_queue_read(r, 10000, &rec, &err));
                assert_int_equal(rec.kind, 0);
            }
        wr_queue_reader_free(r);
        wr_queue_close(q);
        q = open_queue(dir, &tiny);
    }
    wr_queue_close(q);
    drop_dir(dir);
}

static void released_segments_go_and_what_is_left_can_be_read(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir();
    wr_queue *q = open_queue(dir, &tiny);
    produce_n(q, large, 100);
    OK(wr_queue_sync(q, &err));
    wr_queue_stats st;
    wr_queue_reader *r, *late;
    OK(wr_queue_reader_new(q, 0, &late, &err));
    OK(check_txn(late, large, 1, 1000, &err));
    OK(wr_queue_release(q, 50, &err));
    OK(wr_queue_release(q, 20, &err)); /* going back changes nothing */
    wr_queue_get_stats(q, &st);
    assert_true(st.first_offset > 1 && st.first_offset <= 51);
    assert_int_equal(st.released_offset, 50);
    assert_int_equal(wr_queue_reader_new(q, 0, &r, &err), WR_E_NOTFOUND);
    check_range(q, large, st.first_offset, 100);
    wr_code rc = WR_OK; /* the late reader still has the removed file, then is told */
    for (uint64_t i = 2; rc == WR_OK && i <= 100; i++) rc = check_txn(late, large, i, 1000, &err);
    assert_int_equal(rc, WR_E_NOTFOUND);
    wr_queue_reader_free(late);
    assert_int_equal(wr_queue_release(q, 101, &err), WR_E_INVAL);
    for (int i = 0; i < 30; i++) { /* spares are written over */
        uint64_t last = wr_queue_next_offset(q) - 1;
        produce_n(q, large, 20);
        OK(wr_queue_sync(q, &err));
        check_range(q, large, last + 1, last + 20);
        OK(wr_queue_release(q, last + 20, &err));
    }
    wr_queue_get_stats(q, &st);
    assert_true(st.bytes < 6 * tiny.segment_bytes);
    uint64_t last = last_of(q, large);
    wr_queue_close(q);
    q = open_queue(dir, &tiny);
    assert_int_equal(last_of(q, large), last); /* all consumed, and the position is still there */
    wr_queue_get_stats(q, &st);
    check_range(q, large, st.first_offset, last);
    produce_n(q, large, 20);
    check_range(q, large, last + 1, last + 20);
    wr_queue_close(q);
    drop_dir(dir);
}

static void a_second_process_is_kept_out(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir();
    wr_queue *q = open_queue(dir, NULL), *other;
    assert_int_equal(wr_queue_open(dir, NULL, &other, &err), WR_E_BUSY);
    wr_queue_close(q);
    drop_dir(dir);
}

static void stop_wakes_readers_and_lets_them_finish_what_is_durable(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir();
    wr_queue *q = open_queue(dir, &tiny);
    produce_n(q, small, 20);
    OK(wr_queue_sync(q, &err));
    wr_queue_stop(q);
    check_range(q, small, 1, 20);
    wr_queue_reader *r;
    wr_queue_record rec;
    OK(wr_queue_reader_new(q, 20, &r, &err));
    assert_int_equal(wr_queue_read(r, -1, &rec, &err), WR_E_CANCELLED);
    wr_queue_reader_free(r);
    wr_queue_close(q);
    drop_dir(dir);
}

static void wrong_arguments_are_refused_and_change_nothing(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir();
    wr_queue *q = open_queue(dir, NULL);
    wr_pos pos;
    uint64_t offset = 5;
    memset(&pos, 'x', sizeof pos);
    pos.gtid_set = NULL;
    assert_int_equal(wr_queue_append(q, (wr_record_kind)0, wr_slice_str("x"), &err), WR_E_INVAL);
    assert_int_equal(wr_queue_append(q, (wr_record_kind)5, wr_slice_str("x"), &err), WR_E_INVAL);
    assert_int_equal(wr_queue_append(q, WR_REC_CHANGE, (wr_slice){(const uint8_t *)"x", (size_t)1 << 33}, &err),
                     WR_E_LIMIT);
    assert_int_equal(wr_queue_end(q, &pos, 0, &offset, &err), WR_E_INVAL);
    assert_int_equal(offset, 5);
    assert_int_equal(wr_queue_next_offset(q), 1);
    wr_queue_close(q);
    drop_dir(dir);
}

/* Each allocation of the calling thread fails in turn. */
static void a_failed_allocation_is_reported_and_the_call_can_be_repeated(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir();
    wr_queue *q = NULL;
    wr_code rc;
    int failures = 0;
    for (uint64_t n = 1;; n++) { /* a new queue */
        wr_mem_fail_after(n);
        rc = wr_queue_open(dir, &tiny, &q, &err);
        wr_mem_fail_after(0);
        if (rc == WR_OK) break;
        assert_int_equal(rc, WR_E_NOMEM);
        failures++;
        empty_dir(dir);
    }
    assert_true(failures > 5);
    uint8_t *p = payload_room();
    char *gtid = gtid_room_();
    for (uint64_t i = 1; i <= 200;
         i++) { /* appends and ends: every call fails at its first, second, ... allocation, then is repeated */
        for (uint32_t k = 0, m = txn_records(large, i); k < m; k++) {
            size_t bytes = record_make(large, i, k, p);
            for (uint64_t n = 1;; n++) {
                wr_mem_fail_after(n);
                rc = wr_queue_append(q, record_kind(i, k), wr_slice_of(p, bytes), &err);
                wr_mem_fail_after(0);
                if (rc == WR_OK) break;
                assert_int_equal(rc, WR_E_NOMEM);
                failures++;
            }
        }
        wr_pos pos;
        uint64_t offset;
        pos_make(large, i, &pos, gtid);
        for (uint64_t n = 1;; n++) {
            wr_mem_fail_after(n);
            rc = wr_queue_end(q, &pos, time_make(i), &offset, &err);
            wr_mem_fail_after(0);
            if (rc == WR_OK) break;
            assert_int_equal(rc, WR_E_NOMEM);
            failures++;
        }
    }
    OK(wr_queue_sync(q, &err));
    check_range(q, large, 1, 200);
    wr_queue_close(q);
    for (uint64_t n = 1;; n++) { /* an existing one */
        wr_mem_fail_after(n);
        rc = wr_queue_open(dir, &tiny, &q, &err);
        wr_mem_fail_after(0);
        if (rc == WR_OK) break;
        assert_int_equal(rc, WR_E_NOMEM);
        failures++;
    }
    wr_queue_reader *r = NULL;
    for (uint64_t n = 1;; n++) {
        wr_mem_fail_after(n);
        rc = wr_queue_reader_new(q, 0, &r, &err);
        wr_mem_fail_after(0);
        if (rc == WR_OK) break;
        assert_int_equal(rc, WR_E_NOMEM);
    }
    for (uint64_t i = 1; i <= 200; i++) { /* every read fails first */
        uint32_t m = txn_records(large, i);
        for (uint32_t k = 0; k <= m; k++) {
            wr_queue_record rec;
            for (uint64_t n = 1;; n++) {
                wr_mem_fail_after(n);
                rc = wr_queue_read(r, 0, &rec, &err);
                wr_mem_fail_after(0);
                if (rc == WR_OK) break;
                assert_int_equal(rc, WR_E_NOMEM);
                failures++;
            }
            if (k == m) {
                assert_int_equal(rec.kind, 0);
                check_pos(large, i, rec.pos);
            } else {
                size_t bytes = record_make(large, i, k, p);
                assert_int_equal(rec.payload.n, bytes);
                assert_memory_equal(rec.payload.p, p, bytes);
            }
        }
    }
    assert_true(failures > 100);
    wr_queue_reader_free(r);
    wr_queue_close(q);
    drop_dir(dir);
}

typedef struct shown { uint64_t sum, open, record, ended; int aborts, failed, pieces; int64_t last_us; } shown; /* sum: of whole transactions, in order */
static void shown_change(void *ctx, wr_slice piece, bool more) {
    shown *s = ctx;
    for (size_t i = 0; i < piece.n; i++) s->record = s->record * 31 + piece.p[i] + 1;
    s->pieces += more;
    if (more) return;
    s->open = mix(s->open ^ s->record);
    s->record = 0;
}
static void shown_end(void *ctx, uint64_t offset, int64_t us) {
    shown *s = ctx;
    assert_int_equal(offset, s->ended + 1);
    s->ended = offset, s->last_us = us, s->sum = mix(s->sum ^ s->open), s->open = 0;
}
static void shown_abort(void *ctx) { ((shown *)ctx)->aborts++, ((shown *)ctx)->open = ((shown *)ctx)->record = 0; }
static void shown_failed(void *ctx, const wr_err *err) { (void)err, ((shown *)ctx)->failed++; }

/* What a tap sees of the bytes is what a reader reads of them, whatever was aborted in between and however long the records are. */
static void a_tap_sees_what_a_reader_reads(void **state) {
    const shape shapes[] = {small, large, {.records_max = 3, .payload_max = 40000}, {.records_max = 4, .payload_max = 8, .gtid_bytes = 5000}};
    int aborts = 0, pieces = 0;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        wr_err err = WR_ERR_INIT;
        shown tap = {0}, read = {0};
        wr_queue_options o = tiny;
        o.tap = (wr_queue_tap){&tap, shown_change, shown_end, shown_abort, shown_failed};
        char *dir = temp_dir_fast();
        wr_queue *q = open_queue(dir, &o);
        for (int i = 0; i < 300; i++) {
            if (i % 3 == 0) {
                OK(append_records(q, shapes[k], (uint64_t)i + 9000, &err));
                if (i % 2) OK(append_records(q, large, (uint64_t)i + 9000, &err));
                OK(wr_queue_abort(q, &err));
            }
            OK(produce(q, shapes[k], &err));
        }
        wr_queue_reader *r;
        wr_queue_record rec;
        OK(wr_queue_reader_new(q, 0, &r, &err));
        do {
            OK(wr_queue_read(r, 20000, &rec, &err));
            if (rec.kind == WR_REC_CHANGE) shown_change(&read, rec.payload, false);
            else if (!rec.kind) shown_end(&read, rec.offset, rec.event_time_us);
        } while (rec.kind || rec.offset < 300);
        wr_queue_reader_free(r);
        wr_queue_close(q);
        assert_int_equal(tap.ended, 300);
        assert_int_equal(tap.sum, read.sum);
        assert_int_equal(tap.last_us, read.last_us);
        assert_int_equal(tap.failed, 0);
        aborts += tap.aborts, pieces += tap.pieces;
        drop_dir(dir);
    }
    assert_true(aborts > 0 && pieces > 0);
}

static void *enter_once(void *arg) {
    sem_t *entered = arg;
    wr_large_enter();
    wr_large_leave();
    sem_post(entered);
    return NULL;
}

/* Reads one record and the end behind it. Whether somebody else with a large row gets his turn in between, within so many seconds. */
static bool others_go_on(wr_queue_reader *r, wr_record_kind kind, int seconds) {
    wr_err err = WR_ERR_INIT;
    wr_queue_record rec;
    sem_t entered;
    pthread_t other;
    sem_init(&entered, 0, 0);
    OK(wr_queue_read(r, 20000, &rec, &err));
    assert_int_equal(rec.kind, kind);
    assert_int_equal(rec.payload.n, WR_LARGE_BYTES);
    assert_int_equal(pthread_create(&other, NULL, enter_once, &entered), 0);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    bool did = sem_timedwait(&entered, &until) == 0;
    OK(wr_queue_read(r, 20000, &rec, &err));
    assert_int_equal(rec.kind, 0);
    pthread_join(other, NULL);
    sem_destroy(&entered);
    return did;
}

static void a_large_change_comes_alone_and_other_records_keep_nobody_waiting(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir(), gtid[8192];
    wr_queue *q = open_queue(dir, NULL);
    uint8_t *bytes = calloc(1, WR_LARGE_BYTES);
    uint64_t offset = 0;
    for (int i = 0; i < 2; i++) {
        wr_pos pos;
        pos_make(small, (uint64_t)i + 1, &pos, gtid);
        OK(wr_queue_append(q, i ? WR_REC_DDL : WR_REC_CHANGE, wr_slice_of(bytes, WR_LARGE_BYTES), &err));
        OK(wr_queue_end(q, &pos, 1, &offset, &err));
    }
    wr_queue_reader *r;
    OK(wr_queue_reader_new(q, 0, &r, &err));
    assert_false(others_go_on(r, WR_REC_CHANGE, 1));
    assert_true(others_go_on(r, WR_REC_DDL, 20));
    wr_queue_reader_free(r);
    free(bytes);
    wr_queue_close(q);
    drop_dir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_queue_is_empty_and_has_no_position),
        cmocka_unit_test(what_went_in_comes_out_now_and_after_reopening),
        cmocka_unit_test(a_reader_may_start_behind_any_transaction),
        cmocka_unit_test(a_reader_ahead_of_the_queue_is_told_that_it_lost_its_end),
        cmocka_unit_test(an_open_transaction_is_not_seen_and_an_aborted_one_never_was),
        cmocka_unit_test(a_large_transaction_that_was_written_and_aborted_leaves_nothing),
        cmocka_unit_test(records_of_several_blocks_come_back_whole),
        cmocka_unit_test(released_segments_go_and_what_is_left_can_be_read),
        cmocka_unit_test(a_second_process_is_kept_out),
        cmocka_unit_test(stop_wakes_readers_and_lets_them_finish_what_is_durable),
        cmocka_unit_test(wrong_arguments_are_refused_and_change_nothing),
        cmocka_unit_test(a_failed_allocation_is_reported_and_the_call_can_be_repeated),
        cmocka_unit_test(a_tap_sees_what_a_reader_reads),
        cmocka_unit_test(a_large_change_comes_alone_and_other_records_keep_nobody_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
