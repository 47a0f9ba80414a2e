/* What batches and Parquet cost: rows per CPU second, peak memory, bytes, small files, reading back.
 *
 *   engine_bench [rows] [folder]        default: 1000000 rows in /tmp
 *
 * Rows are about 240 bytes: a key, integers, a decimal, two times, texts of 10 to 120 characters and a nullable text.
 * Prints; asserts nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "weir/base/clock.h"
#include "weir/engine.h"

#define T(k) ((wr_type){.kind = (k)})

static wr_err err;
static void check(wr_code rc, const char *what) {
    if (rc == WR_OK) return;
    fprintf(stderr, "%s: %s\n", what, err.msg);
    exit(1);
}

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long status_kb(const char *key) {
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key))) kb = atol(line + strlen(key) + 1);
    if (f) fclose(f);
    return kb;
}
static void peak_reset(void) {
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) fputs("5", f), fclose(f);
}

static uint64_t seed = 88172645463325252;
static uint64_t rnd(void) { return seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17; }

static wr_schema *orders(void) {
    static const struct {
        const char *name;
        wr_type t;
    } c[] = {
        {"id", {WR_LONG}},
        {"customer_id", {WR_INT}},
        {"shop_id", {WR_INT}},
        {"quantity", {WR_INT}},
        {"state", {WR_INT}},
        {"price", {WR_DECIMAL, 12, 2}},
        {"created_at", {WR_TIMESTAMP}},
        {"updated_at", {WR_TIMESTAMPTZ}},
        {"status", {WR_STRING}},
        {"email", {WR_STRING}},
        {"address", {WR_STRING}},
        {"note", {WR_STRING}},
    };
    wr_column cols[12] = {0};
    for (int i = 0; i < 12; i++)
        cols[i] =
            (wr_column){.name = (char *)c[i].name, .id = i + 1, .type = c[i].t, .nullable = i > 0, .key_ord = i == 0};
    wr_schema *s;
    check(wr_schema_new(cols, 12, 1, &s, &err), "schema");
    return s;
}

static const char *const words[] = {"river",  "gate",   "stone",  "lamp",   "winter", "orange", "harbour", "seven",
                                    "north",  "paper",  "engine", "silver", "market", "bridge", "cloud",   "forest",
                                    "garden", "window", "mirror", "castle", "wagon",  "letter", "candle",  "island"};
static size_t text(char *out, size_t min, size_t max) {
    size_t want = min + rnd() % (max - min + 1), n = 0;
    while (n < want) {
        n += (size_t)sprintf(out + n, "%s ", words[rnd() % 24]);
        if (rnd() % 3 == 0) n += (size_t)sprintf(out + n, "%u ", (unsigned)(rnd() % 10000));
    }
    return want;
}

static void order(wr_buf *b, const wr_schema *s, int64_t id) {
    static const char *const status[] = {"new", "paid", "shipped", "delivered", "returned"};
    char email[64], address[200], note[200];
    wr_value v[12] = {0};
    v[0].i64 = 1000000 + id;
    v[1].i32 = (int32_t)(rnd() % 5000000);
    v[2].i32 = (int32_t)(rnd() % 2000);
    v[3].i32 = (int32_t)(rnd() % 20);
    v[4].i32 = (int32_t)(rnd() % 6);
    v[5].dec = (int64_t)(rnd() % 10000000);
    v[6].i64 = 1700000000000000 + id * 1000000 + (int64_t)(rnd() % 1000000);
    v[7].i64 = v[6].i64 + (int64_t)(rnd() % 86400000000);
    v[8].s = wr_slice_str(status[rnd() % 5]);
    v[9].s = wr_slice_of(
        email, (size_t)sprintf(email, "user%u@%s.example.com", (unsigned)(rnd() % 5000000), words[rnd() % 24]));
    v[10].s = wr_slice_of(address, text(address, 40, 120));
    v[11].s = wr_slice_of(note, text(note, 30, 120));
    v[11].null = rnd() % 4 == 0;
    size_t at = wr_row_begin(b, s->ncols);
    for (int i = 0; i < s->ncols; i++) wr_row_put(b, at, i, s->cols[i].type, &v[i]);
}

static wr_code count_row(void *ctx, uint64_t pos, wr_slice row, wr_err *e) {
    *(uint64_t *)ctx += row.n;
    return WR_OK;
}

int main(int argc, char **argv) {
    uint32_t rows = argc > 1 ? (uint32_t)atol(argv[1]) : 1000000;
    const char *dir = argc > 2 ? argv[2] : "/tmp";
    char path[512];
    wr_schema *s = orders();
    wr_batch *b;
    wr_engine *e;
    WR_AUTO_BUF wr_buf row = WR_BUF_INIT;
    double t0, t1;
    uint64_t bytes = 0;
    check(wr_engine_open(NULL, &e, &err), "engine");

    /* rows are made in blocks so that making them is not measured */
    double add = 0;
    check(wr_batch_new(s, &b, &err), "batch");
    for (uint32_t i = 0; i < rows;) {
        static size_t at[4097];
        uint32_t n = 0;
        wr_buf_clear(&row);
        for (; n < 4096 && i < rows; n++, i++) at[n] = row.n, order(&row, s, i);
        at[n] = row.n, bytes += row.n;
        t0 = cpu();
        for (uint32_t k = 0; k < n; k++)
            check(wr_batch_append(b, wr_slice_of(row.p + at[k], at[k + 1] - at[k]), &err), "append");
        add += cpu() - t0;
    }
    wr_buf_free(&row);
    printf("rows of %.0f bytes; batch: %.2f M rows per CPU second, %.0f bytes per row in memory\n",
           (double)bytes / rows, rows / add / 1e6, (double)wr_batch_bytes(b) / rows);

    snprintf(path, sizeof path, "%s/weir-bench-%d.parquet", dir, (int)getpid());
    for (int round = 0; round < 2; round++) {
        wr_parquet_file f;
        long before = status_kb("VmRSS:");
        peak_reset();
        unlink(path);
        t0 = cpu();
        check(wr_parquet_write(e, b, path, NULL, &f, &err), "write");
        t1 = cpu();
        printf("write: %.3f M rows per CPU second, %.1f bytes per row in the file, memory beside the batch at most "
               "%.1f MB, afterwards %.1f MB\n",
               rows / (t1 - t0) / 1e6, (double)f.bytes / rows, (double)(status_kb("VmHWM:") - before) / 1024,
               (double)(status_kb("VmRSS:") - before) / 1024);
        if (round)
            for (int i = 0; i < f.ncols; i++)
                printf("  %-12s %6.2f bytes per row\n", s->cols[i].name, (double)f.cols[i].bytes / rows);
        wr_parquet_file_clear(&f);
    }
    wr_batch_free(b);

    uint64_t read = 0;
    long before = status_kb("VmRSS:");
    peak_reset();
    t0 = cpu();
    check(wr_parquet_read(e, path, s, NULL, count_row, &read, &err), "read");
    t1 = cpu();
    printf("read: %.3f M rows per CPU second, memory at most %.1f MB%s\n", rows / (t1 - t0) / 1e6,
           (double)(status_kb("VmHWM:") - before) / 1024, read == bytes ? "" : " WRONG SIZE");
    int key = 0;
    t0 = cpu();
    check(
        wr_parquet_read(e, path, s, &(wr_parquet_read_options){.columns = &key, .ncolumns = 1}, count_row, &read, &err),
        "read");
    printf("read the key alone: %.2f M rows per CPU second\n", rows / (cpu() - t0) / 1e6);
    if (argc <= 3) unlink(path);

    enum { SMALL = 500 };
    check(wr_batch_new(s, &b, &err), "batch");
    for (int i = 0; i < 200; i++) {
        wr_buf_clear(&row);
        order(&row, s, i);
        check(wr_batch_append(b, wr_buf_view(&row), &err), "append");
    }
    double write_s = 0, read_s = 0;
    int64_t wall = 0;
    uint64_t size = 0;
    for (int i = 0; i < SMALL; i++) {
        wr_parquet_file f;
        int64_t w0 = wr_mono_us();
        t0 = cpu();
        check(wr_parquet_write(e, b, path, NULL, &f, &err), "small file");
        write_s += cpu() - t0, wall += wr_mono_us() - w0;
        size += f.bytes;
        wr_parquet_file_clear(&f);
        t0 = cpu();
        check(wr_parquet_read(e, path, s, NULL, count_row, &read, &err), "small file");
        read_s += cpu() - t0;
        unlink(path);
    }
    printf("files of 200 rows: write %.3f ms CPU (%.3f ms with fsync), %.0f bytes; read %.3f ms CPU; batch in memory "
           "%zu bytes\n",
           write_s / SMALL * 1e3, (double)wall / SMALL / 1e3, (double)size / SMALL, read_s / SMALL * 1e3,
           wr_batch_bytes(b));
    wr_batch_free(b);
    enum { TINY = 20000 };
    static wr_batch *tiny[TINY];
    wr_buf_clear(&row);
    order(&row, s, 1);
    before = status_kb("VmRSS:");
    t0 = cpu();
    for (int i = 0; i < TINY; i++)
        check(wr_batch_new(s, &tiny[i], &err), "batch"),
            check(wr_batch_append(tiny[i], wr_buf_view(&row), &err), "append");
    printf("%d batches of one row: %.1f us, %.0f bytes counted, %.0f bytes of RSS each\n", TINY,
           (cpu() - t0) / TINY * 1e6, (double)wr_batch_bytes(tiny[0]),
           (double)(status_kb("VmRSS:") - before) * 1024 / TINY);
    for (int i = 0; i < TINY; i++) wr_batch_free(tiny[i]);
    wr_engine_close(e);
    wr_schema_unref(s);
    return 0;
}
