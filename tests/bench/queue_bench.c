/* What the queue costs: queue_bench <folder> [changes] [bytes] [changes per transaction] [block KiB] [sync us] [segment
 * MiB]
 *
 * write      producer alone                          write+read  with a reader behind it (block cache)
 * recycled   again into released segments            read        from the files, page cache warm
 * latency    one small transaction at a time, end to readable
 * Prints changes/s, MB/s of payload, CPU seconds of the whole process and per million changes; asserts nothing about
 * time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "weir/base/clock.h"
#include "weir/queue.h"

#define MUST(expr)                                                                                                     \
    do {                                                                                                               \
        if ((expr) != WR_OK) {                                                                                         \
            fprintf(stderr, "%s: %s\n", #expr, err.msg);                                                               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static uint64_t changes = 3000000, per_txn = 10;
static size_t bytes = 400;
static wr_queue_options opts;
static uint8_t *rows; /* 64 MiB of plausible rows */
#define ROWS_BYTES ((size_t)64 << 20)

static double cpu(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Numbers that grow, words of a vocabulary, some noise: LZ4 makes about half of it, as of real rows. */
static void make_rows(void) {
    static const char *words[] = {
        "shipped", "pending", "Berlin",    "São Paulo", "customer", "invoice", "2026-11-29 14:00:00",
        "EUR",     "note: ",  "warehouse", "null",      "true"};
    rows = malloc(ROWS_BYTES + 64);
    uint64_t x = 88172645463325252u, id = 1000000;
    for (size_t i = 0; i < ROWS_BYTES;) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        switch (x % 4) {
        case 0:
            id += 1, memcpy(rows + i, &id, 8), i += 8;
            break;
        case 1:
            memcpy(rows + i, &x, 6), i += 6;
            break;
        default: {
            const char *w = words[(x >> 8) % 12];
            size_t n = strlen(w);
            memcpy(rows + i, w, n), i += n;
        }
        }
    }
}

static void put(wr_queue *q, uint64_t n) {
    wr_err err = WR_ERR_INIT;
    wr_pos pos = {.file = "binlog.000042"};
    char gtid[128];
    uint64_t offset;
    for (uint64_t i = 0; i < n; i++) {
        MUST(wr_queue_append(q, WR_REC_CHANGE, wr_slice_of(rows + i * 397 % (ROWS_BYTES - bytes), bytes), &err));
        if ((i + 1) % per_txn && i + 1 < n) continue;
        snprintf(gtid, sizeof gtid, "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-%llu",
                 (unsigned long long)wr_queue_next_offset(q));
        pos.gtid_set = gtid;
        pos.offset += bytes * per_txn;
        MUST(wr_queue_end(q, &pos, 1700000000000000 + (int64_t)i, &offset, &err));
    }
}

static uint64_t get(wr_queue_reader *r, uint64_t to) {
    wr_err err = WR_ERR_INIT;
    wr_queue_record rec = {0};
    uint64_t n = 0, sum = 0;
    while (!(rec.kind == 0 && rec.offset == to)) {
        MUST(wr_queue_read(r, -1, &rec, &err));
        if (rec.kind) n++, sum += rec.payload.p[rec.payload.n - 1];
    }
    if (sum == 42) puts(""); /* so that the bytes are looked at */
    return n;
}

typedef struct follower {
    wr_queue_reader *r;
    uint64_t to, n;
} follower;
static void *follow(void *arg) {
    follower *f = arg;
    f->n = get(f->r, f->to);
    return NULL;
}

static void print(const char *what, uint64_t n, int64_t us, double cpu_s, wr_queue *q, uint64_t syncs) {
    wr_queue_stats st;
    wr_queue_get_stats(q, &st);
    printf("%-11s %9.0f changes/s %7.1f MB/s  cpu %.2f s, %.3f s per million  syncs %llu\n", what,
           (double)n * 1e6 / (double)us, (double)n * (double)bytes / (double)us, cpu_s, cpu_s * 1e6 / (double)n,
           (unsigned long long)(st.syncs - syncs));
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return fprintf(stderr, "queue_bench <folder> [changes] [bytes] [changes per transaction] [block KiB] [sync us] "
                               "[segment MiB]\n"),
               2;
    if (argc > 2) changes = strtoull(argv[2], NULL, 10);
    if (argc > 3) bytes = strtoull(argv[3], NULL, 10);
    if (argc > 4) per_txn = strtoull(argv[4], NULL, 10);
    if (argc > 5) opts.block_bytes = (uint32_t)(strtoull(argv[5], NULL, 10) << 10);
    if (argc > 6) opts.sync_every_us = (uint32_t)strtoull(argv[6], NULL, 10);
    if (argc > 7) opts.segment_bytes = strtoull(argv[7], NULL, 10) << 20;
    wr_err err = WR_ERR_INIT;
    wr_queue *q;
    wr_queue_stats st;
    make_rows();
    MUST(wr_queue_open(argv[1], &opts, &q, &err));
    wr_queue_get_stats(q, &st);
    uint64_t disk = st.bytes, first = wr_queue_next_offset(q);

    int64_t t = wr_mono_us();
    double c = cpu();
    put(q, changes);
    MUST(wr_queue_sync(q, &err));
    print("write", changes, wr_mono_us() - t, cpu() - c, q, st.syncs);
    wr_queue_get_stats(q, &st);
    printf("            %.2f bytes on disk per byte\n", (double)(st.bytes - disk) / (double)(changes * bytes));

    wr_queue_reader *r;
    MUST(wr_queue_reader_new(q, first - 1, &r, &err));
    t = wr_mono_us(), c = cpu();
    uint64_t n = get(r, wr_queue_next_offset(q) - 1);
    print("read", n, wr_mono_us() - t, cpu() - c, q, st.syncs);
    wr_queue_reader_free(r);

    MUST(wr_queue_release(q, wr_queue_next_offset(q) - 1, &err)); /* leaves spares */
    MUST(wr_queue_reader_new(q, wr_queue_next_offset(q) - 1, &r, &err));
    follower f = {.r = r, .to = wr_queue_next_offset(q) - 1 + (changes + per_txn - 1) / per_txn};
    pthread_t thread;
    wr_queue_get_stats(q, &st);
    t = wr_mono_us(), c = cpu();
    pthread_create(&thread, NULL, follow, &f);
    put(q, changes);
    pthread_join(thread, NULL);
    print("write+read", f.n, wr_mono_us() - t, cpu() - c, q, st.syncs);

    uint64_t small = opts.segment_bytes ? opts.segment_bytes / bytes : 600000;
    for (int i = 0; i < 3; i++) { /* two segments' worth: into spares */
        MUST(wr_queue_release(q, wr_queue_next_offset(q) - 1, &err));
        wr_queue_get_stats(q, &st);
        t = wr_mono_us(), c = cpu();
        put(q, small);
        MUST(wr_queue_sync(q, &err));
        print("recycled", small, wr_mono_us() - t, cpu() - c, q, st.syncs);
    }
    wr_queue_reader_free(r);

    MUST(wr_queue_reader_new(q, wr_queue_next_offset(q) - 1, &r, &err));
    enum { ROUNDS = 1000 };
    static int64_t took[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        while (wr_mono_us() % 7000 > 100) {
        } /* the queue is idle when the transaction comes */
        t = wr_mono_us();
        put(q, 1);
        get(r, wr_queue_next_offset(q) - 1);
        took[i] = wr_mono_us() - t;
    }
    qsort(took, ROUNDS, sizeof *took, by_value);
    printf("latency     p50 %lld us, p99 %lld us, max %lld us\n", (long long)took[ROUNDS / 2],
           (long long)took[ROUNDS * 99 / 100], (long long)took[ROUNDS - 1]);
    wr_queue_reader_free(r);
    wr_queue_close(q);
    free(rows);
    return 0;
}
