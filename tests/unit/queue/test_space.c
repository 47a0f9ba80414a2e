/* A full disk is a pause, a failed sync is the end. */
#include "queue/helper.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

static const shape mixed = {.records_max = 20, .payload_max = 1500};
static const wr_queue_options tiny = {.segment_bytes = 128 << 10, .block_bytes = 4 << 10, .sync_every_us = 200};

/* The same call again until there is room; counts the refusals. */
static int refused;
static void ballast_give(void);
#define AGAIN(expr)                                                                                                    \
    for (;;) {                                                                                                         \
        wr_code again_rc_ = (expr);                                                                                    \
        if (again_rc_ == WR_OK) break;                                                                                 \
        if (again_rc_ != WR_E_NOSPC || err.retry != WR_RETRY_SOON)                                                     \
            fail_msg("%s: %s: %s", #expr, wr_code_name(again_rc_), err.msg);                                           \
        if (++refused % 5 == 0) ballast_give();                                                                        \
    }

static char ballast[64];
static void ballast_take(const char *dir) {
    snprintf(ballast, sizeof ballast, "%s/../ballast", dir);
    int fd = open(ballast, O_WRONLY | O_CREAT | O_APPEND, 0600);
    char page[4096] = {0};
    while (write(fd, page, sizeof page) > 0) {
    }
    close(fd);
}
static void ballast_give(void) {
    if (*ballast) unlink(ballast), *ballast = 0;
}

static void produce_with_patience(wr_queue *q, uint64_t offset) {
    wr_err err = WR_ERR_INIT;
    uint8_t *p = payload_room();
    for (uint32_t i = 0, n = txn_records(mixed, offset); i < n; i++) {
        size_t bytes = record_make(mixed, offset, i, p);
        AGAIN(wr_queue_append(q, record_kind(offset, i), wr_slice_of(p, bytes), &err));
    }
    wr_pos pos;
    uint64_t got;
    pos_make(mixed, offset, &pos, gtid_room_());
    AGAIN(wr_queue_end(q, &pos, time_make(offset), &got, &err));
    assert_int_equal(got, offset);
}

static void a_call_refused_for_space_may_simply_be_repeated(void **state) {
    wr_err err = WR_ERR_INIT;
    for (int k = 1; k < 6; k++) {
        char *dir = temp_dir_fast();
        wr_queue *q;
        refused = 0;
        OK(wr_queue_open(dir, &tiny, &q, &err));
        char spec[800];
        size_t n = 0;
        for (int i = 0; i < 30; i++)
            n += (size_t)snprintf(spec + n, sizeof spec - n, "%s%s:%d:fail", i ? "," : "",
                                  i % 5 == 4 ? "queue.segment.make" : "queue.write",
                                  i % 5 == 4 ? i / 5 + 1 : k * 10 + i);
        assert_true(wr_fault_set(spec));
        for (uint64_t i = 1; i <= 100; i++) {
            produce_with_patience(q, i);
            if (i % 10 == 0) AGAIN(wr_queue_sync(q, &err));
        }
        AGAIN(wr_queue_sync(q, &err));
        assert_true(wr_fault_set(NULL));
        check_range(q, mixed, 1, 100);
        wr_queue_close(q);
        OK(wr_queue_open(dir, &tiny, &q, &err));
        assert_int_equal(last_of(q, mixed), 100);
        check_range(q, mixed, 1, 100);
        wr_queue_close(q);
        drop_dir(dir);
    }
}

static void a_transaction_refused_for_space_may_be_aborted(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir_fast();
    wr_queue *q;
    OK(wr_queue_open(dir, &tiny, &q, &err));
    for (int i = 0; i < 10; i++) OK(produce(q, mixed, &err));
    OK(wr_queue_sync(q, &err));
    char spec[900];
    size_t n = 0;
    for (int i = 1; i <= 30; i++)
        n += (size_t)snprintf(spec + n, sizeof spec - n, "%squeue.write:%d:fail", i > 1 ? "," : "", i + 3);
    assert_true(wr_fault_set(spec));
    uint8_t *p = payload_room();
    memset(p, 7, 300000);
    wr_code rc = wr_queue_append(q, WR_REC_CHANGE, wr_slice_of(p, 300000),
                                 &err); /* fails somewhere in the middle of the record */
    assert_int_equal(rc, WR_E_NOSPC);
    wr_pos pos = {.file = "x.1"};
    uint64_t offset;
    assert_int_equal(wr_queue_end(q, &pos, 0, &offset, &err), WR_E_INVAL); /* half a record cannot be ended */
    OK(wr_queue_abort(q, &err));
    assert_true(wr_fault_set(NULL));
    for (int i = 0; i < 10; i++) OK(produce(q, mixed, &err));
    OK(wr_queue_sync(q, &err));
    check_range(q, mixed, 1, 20);
    wr_queue_close(q);
    drop_dir(dir);
}

static void a_failed_sync_is_final_and_says_so(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir_fast();
    wr_queue *q;
    wr_queue_reader *r;
    wr_queue_record rec;
    OK(wr_queue_open(dir, &tiny, &q, &err));
    for (int i = 0; i < 10; i++) OK(produce(q, mixed, &err));
    OK(wr_queue_sync(q, &err));
    assert_true(wr_fault_set("queue.sync:1:fail"));
    OK(produce(q, mixed, &err));
    assert_int_equal(wr_queue_sync(q, &err), WR_E_IO);
    assert_int_equal(err.retry, WR_RETRY_NO);
    assert_int_equal(wr_queue_sync(q, &err), WR_E_IO);
    assert_int_equal(produce(q, mixed, &err), WR_E_IO);
    check_range(q, mixed, 1, 10); /* what is durable can be read, */
    OK(wr_queue_reader_new(q, 10, &r, &err));
    assert_int_equal(wr_queue_read(r, -1, &rec, &err), WR_E_IO); /* and nobody waits for ever */
    wr_queue_reader_free(r);
    wr_queue_close(q);
    assert_true(wr_fault_set(NULL));
    OK(wr_queue_open(dir, &tiny, &q, &err));
    uint64_t last = last_of(q, mixed);
    assert_true(last == 10 || last == 11);
    check_range(q, mixed, 1, last);
    wr_queue_close(q);
    drop_dir(dir);
}

/* On a file system of 1 MiB of its own, where the kernel lets us have one. */
static int full_disk(char *root) {
    wr_err err = WR_ERR_INIT;
    char *dir = wr_path_join(root, "q");
    wr_queue *q;
    OK(wr_queue_open(dir, &tiny, &q, &err));
    uint64_t done = 0, released = 0;
    wr_queue_reader *r;
    OK(wr_queue_reader_new(q, 0, &r, &err));
    for (int round = 0; round < 6; round++) {
        ballast_take(dir);
        refused = 0;
        for (int i = 0; i < 40; i++) produce_with_patience(q, ++done);
        AGAIN(wr_queue_sync(q, &err));
        assert_true(refused > 0);
        while (released < done) OK(check_txn(r, mixed, ++released, 30000, &err));
        OK(wr_queue_release(q, released, &err));
        if (round % 2) {
            wr_queue_reader_free(r);
            wr_queue_close(q);
            OK(wr_queue_open(dir, &tiny, &q, &err));
            assert_int_equal(last_of(q, mixed), done);
            OK(wr_queue_reader_new(q, done, &r, &err));
        }
    }
    wr_queue_reader_free(r);
    wr_queue_close(q);
    wr_free(dir);
    return 0;
}

static void a_really_full_disk_is_survived(void **state) {
    char *root = temp_dir();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
            mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("tmpfs", root, "tmpfs", 0, "size=1m") != 0)
            _exit(77);
        _exit(full_disk(root));
    }
    int st;
    assert_int_equal(waitpid(pid, &st, 0), pid);
    rmdir(root);
    wr_free(root);
    if (WIFEXITED(st) && WEXITSTATUS(st) == 77) skip();
    assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_refused_for_space_may_simply_be_repeated),
        cmocka_unit_test(a_transaction_refused_for_space_may_be_aborted),
        cmocka_unit_test(a_failed_sync_is_final_and_says_so),
        cmocka_unit_test(a_really_full_disk_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
