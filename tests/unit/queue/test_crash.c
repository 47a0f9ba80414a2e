/* A producer that dies at every fault point and at random moments. It tells over a pipe which transaction wr_queue_sync
 * has promised; after each death the queue must hold all of these, whole, and nothing that was not put in. */
#include "queue/helper.h"
#include <signal.h>
#include <sys/wait.h>

static const shape mixed = {.records_max = 12, .payload_max = 900};
static const wr_queue_options tiny = {
    .segment_bytes = 32 << 10, .block_bytes = 4 << 10, .sync_every_us = 300, .max_bytes = 1 << 20};
#define PROMISE_FD 3

/* ---- the child */
#define MUST(expr)                                                                                                     \
    do {                                                                                                               \
        if ((expr) != WR_OK) {                                                                                         \
            fprintf(stderr, "child: %s: %s\n", #expr, err.msg);                                                        \
            _exit(9);                                                                                                  \
        }                                                                                                              \
    } while (0)
/* After an injected failure the queue says so and the process ends as if killed. */
#define MAY_FAIL(expr)                                                                                                 \
    do {                                                                                                               \
        wr_code rc_ = (expr);                                                                                          \
        if (rc_ == WR_E_IO || rc_ == WR_E_NOSPC) _exit(7);                                                             \
        if (rc_ != WR_OK) {                                                                                            \
            fprintf(stderr, "child: %s: %s\n", #expr, err.msg);                                                        \
            _exit(9);                                                                                                  \
        }                                                                                                              \
    } while (0)

static bool same_txn(wr_queue_reader *r, uint64_t offset, wr_code *ret_rc, wr_err *err) {
    uint8_t *want = payload_room();
    wr_queue_record rec;
    for (uint32_t i = 0, n = txn_records(mixed, offset); i <= n; i++) {
        if ((*ret_rc = wr_queue_read(r, 0, &rec, err)) != WR_OK) return i == 0;
        if (rec.offset != offset) return false;
        if (i == n) return rec.kind == 0 && rec.event_time_us == time_make(offset);
        size_t bytes = record_make(mixed, offset, i, want);
        if (rec.payload.n != bytes || memcmp(rec.payload.p, want, bytes) != 0) return false;
    }
    return false;
}

static int child(const char *dir, uint64_t seed, int txns) {
    wr_err err = WR_ERR_INIT;
    wr_queue *q;
    wr_queue_reader *r;
    MAY_FAIL(wr_queue_open(dir, &tiny, &q, &err));
    uint64_t read_to = wr_queue_next_offset(q) - 1, released = 0;
    MUST(wr_queue_reader_new(q, read_to, &r, &err));
    for (int i = 0; i < txns; i++) {
        uint64_t x = mix(seed + (uint64_t)i);
        if (x % 4 == 0) { /* something to give up, now and then larger than the memory for it */
            shape noise = {.records_max = x % 32 == 0 ? 600 : 10, .payload_max = 2000};
            MAY_FAIL(append_records(q, noise, x, &err));
            MAY_FAIL(wr_queue_abort(q, &err));
        }
        MAY_FAIL(produce(q, mixed, &err));
        if (x % 8 == 1) {
            MAY_FAIL(wr_queue_sync(q, &err));
            uint64_t promised = wr_queue_next_offset(q) - 1;
            if (write(PROMISE_FD, &promised, sizeof promised) != sizeof promised) _exit(8);
        }
        wr_code rc = WR_OK;
        while (rc == WR_OK) {
            if (!same_txn(r, read_to + 1, &rc, &err)) _exit(6);
            if (rc == WR_OK) read_to++;
        }
        if (rc == WR_E_IO) _exit(7);
        if (rc != WR_E_TIMEOUT) _exit(5);
        if (read_to > released && (x % 16 == 3 || read_to - released > 100))
            MAY_FAIL(wr_queue_release(q, released = read_to, &err));
    }
    wr_queue_reader_free(r);
    wr_queue_close(q);
    return 0;
}

/* ---- the parent */
static const char *self;

typedef struct run {
    bool killed;
    bool failed;
} run;
/* kill_after: so many promises and then some microseconds; NULL = let it run. */
typedef struct moment {
    int promises;
    useconds_t us;
} moment;
static run run_child(const char *dir, const char *fault, uint64_t seed, int txns, const moment *kill_after,
                     uint64_t *promised) {
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char seed_text[32], txns_text[32];
        snprintf(seed_text, sizeof seed_text, "%llu", (unsigned long long)seed);
        snprintf(txns_text, sizeof txns_text, "%d", txns);
        close(fd[0]);
        if (fd[1] != PROMISE_FD) dup2(fd[1], PROMISE_FD), close(fd[1]);
        setenv("TSAN_OPTIONS", "atexit_sleep_ms=0", 0); /* it sleeps a second at each exit otherwise */
        if (fault) setenv("WEIR_FAULT", fault, 1);
        execl(self, self, "child", dir, seed_text, txns_text, (char *)NULL);
        _exit(4);
    }
    close(fd[1]);
    uint64_t v;
    if (kill_after) {
        for (int i = 0; i < kill_after->promises && read(fd[0], &v, sizeof v) == sizeof v; i++) *promised = v;
        usleep(kill_after->us);
        kill(pid, SIGKILL);
    }
    while (read(fd[0], &v, sizeof v) == sizeof v) *promised = v;
    close(fd[0]);
    int st;
    assert_int_equal(waitpid(pid, &st, 0), pid);
    run out = {.killed = WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL, .failed = WIFEXITED(st) && WEXITSTATUS(st) == 7};
    if (!out.killed && !out.failed && !(WIFEXITED(st) && WEXITSTATUS(st) == 0))
        fail_msg("child ended with status 0x%x (fault %s)", st, fault ? fault : "none");
    return out;
}

static uint64_t check_after(const char *dir, uint64_t promised) {
    wr_err err = WR_ERR_INIT;
    wr_queue *q;
    OK(wr_queue_open(dir, &tiny, &q, &err));
    uint64_t last = last_of(q, mixed);
    if (last < promised)
        fail_msg("transaction %llu was promised, the queue ends at %llu", (unsigned long long)promised,
                 (unsigned long long)last);
    wr_queue_stats st;
    wr_queue_get_stats(q, &st);
    if (st.first_offset <= last) check_range(q, mixed, st.first_offset, last);
    check_no_more(q, last);
    wr_queue_close(q);
    return last;
}

static void nothing_promised_is_lost_whichever_step_dies(void **state) {
    static const char *points[] = {"queue.write",
                                   "queue.write.half",
                                   "queue.write.done",
                                   "queue.sync",
                                   "queue.sync.done",
                                   "queue.segment.make",
                                   "queue.segment.made",
                                   "queue.segment.rename",
                                   "queue.cut",
                                   "queue.cut.done",
                                   "queue.release",
                                   "queue.release.done",
                                   "io.write",
                                   "io.write.torn",
                                   "io.sync",
                                   "io.rename",
                                   "io.remove",
                                   "io.truncate",
                                   "io.write.nospc"};
    static const int nth[] = {1, 2, 3, 7, 20};
    for (size_t p = 0; p < sizeof points / sizeof *points; p++) {
        int hits = 0;
        char *dir = temp_dir();
        uint64_t promised = 0, last = 0;
        for (size_t n = 0; n < sizeof nth / sizeof *nth; n++)
            for (int way = 0; way < 2; way++) {
                char fault[64];
                snprintf(fault, sizeof fault, "%s:%d:%s", points[p], nth[n], way ? "fail" : "kill");
                run r = run_child(dir, fault, mix(p * 100 + n * 2 + (size_t)way), 120, NULL, &promised);
                hits += r.killed || r.failed;
                uint64_t now = check_after(dir, promised);
                assert_true(now >= last);
                last = now;
            }
        if (hits == 0) fail_msg("fault point %s was never reached", points[p]);
        drop_dir(dir);
    }
}

static void nothing_promised_is_lost_at_random_moments(void **state) {
    char *dir = temp_dir();
    uint64_t promised = 0, last = 0;
    int killed = 0;
    for (int i = 0; i < 60; i++) {
        uint64_t x = mix((uint64_t)i);
        moment m = {.promises = (int)(x % 6), .us = (useconds_t)(x >> 20) % (x % 6 ? 10000 : 60000)};
        killed += run_child(dir, NULL, mix(7777 + (uint64_t)i), 100000, &m, &promised).killed;
        uint64_t now = check_after(dir, promised);
        assert_true(now >= last);
        last = now;
    }
    assert_int_equal(killed, 60);
    assert_true(last > 100);
    drop_dir(dir);
}

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "child") == 0) return child(argv[2], strtoull(argv[3], NULL, 10), atoi(argv[4]));
    self = "/proc/self/exe";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_promised_is_lost_whichever_step_dies),
        cmocka_unit_test(nothing_promised_is_lost_at_random_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
