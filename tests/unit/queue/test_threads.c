/* Producer, readers, writer and releases at once; back-pressure; group commit; bounded memory. */
#include "queue/helper.h"
#include <pthread.h>
#include <stdatomic.h>

static const shape small = {.records_max = 5, .payload_max = 300};
static const shape large = {.records_max = 60, .payload_max = 3000, .gtid_bytes = 500};

static wr_queue *open_queue(const char *dir, const wr_queue_options *opts) {
    wr_err err = WR_ERR_INIT;
    wr_queue *q;
    OK(wr_queue_open(dir, opts, &q, &err));
    return q;
}

typedef struct job {
    pthread_t thread;
    wr_queue *q;
    shape s;
    uint64_t from, to;
    bool releases, aborts;
    uint64_t slow_every; /* a reader that pauses: falls out of the cache */
    _Atomic uint64_t done;
    wr_code rc;
    wr_err err;
} job;

/* cmocka's assertions jump: threads must not use them, so they abort. */
#define MUST(expr)                                                                                                     \
    do {                                                                                                               \
        if ((expr) != WR_OK) {                                                                                         \
            fprintf(stderr, "%s: %s\n", #expr, err.msg);                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static void *produce_thread(void *arg) {
    job *j = arg;
    wr_err err = WR_ERR_INIT;
    for (uint64_t i = j->from; i <= j->to; i++) {
        if (j->aborts && mix(i) % 5 == 0) {
            MUST(append_records(j->q, large, i, &err));
            MUST(wr_queue_abort(j->q, &err));
        }
        wr_code rc = produce(j->q, j->s, &j->err);
        if (rc != WR_OK) {
            j->rc = rc;
            break;
        }
        j->done = i;
    }
    payload_room_free();
    return NULL;
}

static void *read_thread(void *arg) {
    job *j = arg;
    wr_err err = WR_ERR_INIT;
    wr_queue_reader *r;
    MUST(wr_queue_reader_new(j->q, j->from - 1, &r, &err));
    for (uint64_t i = j->from; i <= j->to; i++) {
        MUST(check_txn(r, j->s, i, -1, &err));
        j->done = i;
        if (j->slow_every && i % j->slow_every == 0) usleep(2000);
        if (j->releases) MUST(wr_queue_release(j->q, i, &err));
    }
    wr_queue_reader_free(r);
    payload_room_free();
    return NULL;
}

static void start(job *j, void *(*fn)(void *)) { assert_int_equal(pthread_create(&j->thread, NULL, fn, j), 0); }
static void finish(job *j) { assert_int_equal(pthread_join(j->thread, NULL), 0); }

static void readers_follow_a_producer_in_order_fast_and_slow(void **state) {
    static const wr_queue_options opts[] = {{.segment_bytes = 64 << 10, .block_bytes = 4 << 10, .sync_every_us = 200},
                                            {.segment_bytes = 1 << 20, .block_bytes = 64 << 10, .sync_every_us = 2000}};
    for (int k = 0; k < 4; k++) {
        char *dir = temp_dir_fast();
        wr_queue *q = open_queue(dir, &opts[k / 2]);
        uint64_t n = 1500;
        job p = {.q = q, .s = k % 2 ? large : small, .from = 1, .to = n, .aborts = true};
        job a = {.q = q, .s = p.s, .from = 1, .to = n}, b = a;
        b.slow_every = 20;
        start(&p, produce_thread);
        start(&a, read_thread);
        start(&b, read_thread);
        finish(&p), finish(&a), finish(&b);
        assert_int_equal(p.rc, WR_OK);
        wr_queue_close(q);
        q = open_queue(dir, &opts[k / 2]);
        check_range(q, p.s, 1, n);
        wr_queue_close(q);
        drop_dir(dir);
    }
}

static void a_queue_many_times_max_bytes_flows_through(void **state) {
    static const wr_queue_options opts = {
        .segment_bytes = 64 << 10, .block_bytes = 4 << 10, .sync_every_us = 200, .max_bytes = 256 << 10};
    char *dir = temp_dir_fast();
    wr_queue *q = open_queue(dir, &opts);
    job p = {.q = q, .s = large, .from = 1, .to = 2000, .aborts = true}, r = p;
    r.releases = true;
    start(&p, produce_thread);
    start(&r, read_thread);
    uint64_t most = 0;
    while (r.done < 2000) {
        wr_queue_stats st;
        wr_queue_get_stats(q, &st);
        if (st.bytes > most) most = st.bytes;
        usleep(500);
    }
    finish(&p), finish(&r);
    assert_int_equal(p.rc, WR_OK);
    assert_true(most < 4 * opts.max_bytes); /* + spares, what is in memory, the transaction under way */
    wr_queue_close(q);
    drop_dir(dir);
}

static void end_waits_over_max_bytes_until_release_or_stop(void **state) {
    static const wr_queue_options opts = {.block_bytes = 4 << 10, .sync_every_us = 200, .max_bytes = 128 << 10};
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir_fast();
    wr_queue *q = open_queue(dir, &opts);
    job p = {.q = q, .s = large, .from = 1, .to = 1000};
    start(&p, produce_thread);
    uint64_t at = 0;
    for (int same = 0; same < 400;) { /* until nothing moves for 400 ms */
        usleep(1000);
        same = p.done == at ? same + 1 : 0;
        at = p.done;
    }
    assert_true(at > 0 && at < 200);
    assert_int_equal(last_of(q, large), at);
    check_range(q, large, 1, at);      /* everything ended is there for the reader ... */
    OK(wr_queue_release(q, at, &err)); /* ... who can always make room */
    while (p.done <= at) usleep(100);
    wr_queue_stop(q);
    finish(&p);
    assert_int_equal(p.rc, WR_E_CANCELLED);
    wr_queue_close(q);
    drop_dir(dir);
}

static void one_transaction_may_be_larger_than_max_bytes(void **state) {
    static const wr_queue_options opts = {.block_bytes = 4 << 10, .sync_every_us = 200, .max_bytes = 64 << 10};
    static const shape huge = {.records_max = 4000, .payload_max = 600};
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir_fast();
    wr_queue *q = open_queue(dir, &opts);
    for (uint64_t i = 1; i <= 5; i++) {
        OK(produce(q, huge, &err));
        check_range(q, huge, i, i);
        OK(wr_queue_release(q, i, &err));
    }
    wr_queue_close(q);
    q = open_queue(dir, &opts);
    assert_int_equal(last_of(q, huge), 5);
    wr_queue_close(q);
    drop_dir(dir);
}

static void an_ended_transaction_becomes_visible_without_sync(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir();
    wr_queue *q = open_queue(dir, NULL);
    for (uint64_t i = 1; i <= 50; i++) {
        wr_queue_reader *r;
        OK(wr_queue_reader_new(q, i - 1, &r, &err));
        OK(produce(q, small, &err));
        OK(check_txn(r, small, i, 30000, &err));
        wr_queue_reader_free(r);
    }
    wr_queue_stats st;
    wr_queue_get_stats(q, &st);
    assert_true(st.syncs <= 51);
    for (int i = 0; i < 5000; i++) OK(produce(q, small, &err));
    OK(wr_queue_sync(q, &err));
    wr_queue_get_stats(q, &st);
    assert_true(st.syncs < 1000); /* group commit: far fewer than transactions */
    wr_queue_close(q);
    drop_dir(dir);
}

static long resident_kb(void) {
    long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &all, &resident) != 2) resident = 0;
    if (f) fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void a_huge_transaction_streams_with_bounded_memory(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir();
    wr_queue *q = open_queue(dir, NULL);
    OK(produce(q, small, &err));
    uint8_t row[500];
    uint64_t offset, n = 400000;
    wr_pos pos = {.file = "b.1"};
    long before = resident_kb(), most = 0;
    for (uint64_t i = 0; i < n; i++) {
        for (size_t k = 0; k < sizeof row; k += 4) memcpy(row + k, &(uint32_t){(uint32_t)mix(i + k / 8)}, 4);
        OK(wr_queue_append(q, WR_REC_CHANGE, wr_slice_of(row, sizeof row), &err));
        if (i % 10000 == 0 && resident_kb() > most) most = resident_kb();
    }
    OK(wr_queue_end(q, &pos, 0, &offset, &err));
    wr_queue_reader *r;
    wr_queue_record rec;
    OK(wr_queue_reader_new(q, 1, &r, &err));
    for (uint64_t i = 0; i < n; i++) {
        OK(wr_queue_read(r, -1, &rec, &err));
        assert_int_equal(rec.payload.n, sizeof row);
        for (size_t k = 0; k < sizeof row; k += 100)
            assert_memory_equal(rec.payload.p + k, &(uint32_t){(uint32_t)mix(i + k / 8)}, 4);
        if (i % 10000 == 0 && resident_kb() > most) most = resident_kb();
    }
    OK(wr_queue_read(r, -1, &rec, &err));
    assert_int_equal(rec.kind, 0);
    wr_queue_reader_free(r);
    wr_queue_close(q);
    bool sane = true;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    sane = false; /* they have memory of their own */
#endif
    if (sane && most - before > 16 * 1024) fail_msg("%ld KiB more resident", most - before);
    drop_dir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_follow_a_producer_in_order_fast_and_slow),
        cmocka_unit_test(a_queue_many_times_max_bytes_flows_through),
        cmocka_unit_test(end_waits_over_max_bytes_until_release_or_stop),
        cmocka_unit_test(one_transaction_may_be_larger_than_max_bytes),
        cmocka_unit_test(an_ended_transaction_becomes_visible_without_sync),
        cmocka_unit_test(a_huge_transaction_streams_with_bounded_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
