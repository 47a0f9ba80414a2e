/* What the lake costs beside Parquet: index, key look-ups, pending rows, deletion marks.
 *
 * lake_bench [base rows] [updates] [updates per commit]: loads a table with a bigint key, applies updates of random
 * keys and commits, then does the same to bare batches and Parquet files, and prints the difference in CPU time.
 * Compares and prints; asserts nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "bench.h"
#include "weir/base/mem.h"
#include "weir/lake.h"

static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static long rss_mb(const char *what) {
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, what, strlen(what))) kb = atol(line + strlen(what) + 1);
    if (f) fclose(f);
    return kb / 1024;
}

/* About 240 bytes, as an orders table has: key, numbers, times, texts. */
static wr_schema *wide_schema(void) {
    static wr_column c[9];
    static const char *const names[9] = {"id",      "user_id", "state", "amount", "created",
                                         "updated", "address", "note",  "token"};
    static const uint8_t kinds[9] = {WR_LONG,      WR_LONG,   WR_INT,    WR_DECIMAL, WR_TIMESTAMP,
                                     WR_TIMESTAMP, WR_STRING, WR_STRING, WR_STRING};
    wr_err e = WR_ERR_INIT;
    wr_schema *s = NULL;
    for (int i = 0; i < 9; i++)
        c[i] = (wr_column){.name = (char *)(uintptr_t)names[i],
                           .id = i + 1,
                           .type = {.kind = kinds[i]},
                           .nullable = i > 0,
                           .key_ord = i == 0};
    c[3].type.precision = 12, c[3].type.scale = 2;
    must(wr_schema_new(c, 9, 1, &s, &e), &e);
    return s;
}

static void make_row(const wr_schema *s, int64_t id, uint64_t *seed, wr_buf *b) {
    static const char words[] = "some street in some town, some country; a remark that is as long as remarks are, and "
                                "then a little more than that";
    char token[41];
    wr_buf_clear(b);
    size_t at = wr_row_begin(b, s->ncols);
    uint64_t r = rnd(seed), q = rnd(seed);
    wr_value v[9] = {{.i64 = id},
                     {.i64 = (int64_t)(r % 1000000)},
                     {.i32 = (int32_t)(r % 7)},
                     {.dec = (int64_t)(q % 100000000)},
                     {.i64 = 1700000000000000 + id * 1000000},
                     {.i64 = 1700000000000000 + (int64_t)(q % 1000000000000)},
                     {.s = wr_slice_of(words + r % 20, 60)},
                     {.s = wr_slice_of(words + q % 30, 30 + r % 50)},
                     {0}};
    snprintf(token, sizeof token, "%016llx%016llx%08x", (unsigned long long)r, (unsigned long long)q,
             (unsigned)(r >> 13));
    v[8].s = wr_slice_of(token, 40);
    for (int i = 0; i < 9; i++) wr_row_put(b, at, i, s->cols[i].type, &v[i]);
}

typedef struct place {
    char home[256], path[4][300];
} place;

static void print_line(const char *what, uint64_t rows, double cpu, double wall) {
    printf("%-46s %9.3f s CPU %9.3f s wall  %10.0f rows/s CPU  %6.3f us/row\n", what, cpu, wall, (double)rows / cpu,
           cpu * 1e6 / (double)rows);
    fflush(stdout);
}

int main(int argc, char **argv) {
    uint64_t base = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000,
             updates = argc > 2 ? strtoull(argv[2], NULL, 10) : 600000,
             each = argc > 3 ? strtoull(argv[3], NULL, 10) : 20000;
    wr_err e = WR_ERR_INIT;
    place p;
    snprintf(p.home, sizeof p.home, "%s/weir-lake-bench-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(p.home)) return perror(p.home), 1;
    const char *const parts[4] = {"state.db", "catalog.db", "warehouse", "index"};
    for (int i = 0; i < 4; i++) snprintf(p.path[i], sizeof p.path[i], "%s/%s", p.home, parts[i]);
    wr_state *state;
    wr_engine *engine;
    wr_lake *lake;
    wr_table *t;
    must(wr_state_open(p.path[0], &state, &e), &e);
    must(wr_engine_open(NULL, &engine, &e), &e);
    wr_lake_options o = {
        .pipeline = "bench", .catalog_path = p.path[1], .warehouse = p.path[2], .index_dir = p.path[3]};
    must(wr_lake_open(&o, state, engine, &lake, &e), &e);
    wr_schema *s = wide_schema();
    wr_buf row = WR_BUF_INIT;
    uint64_t seed = 88172645463325252ull;
    must(wr_lake_create(lake, 1, "db", "orders", s, &t, &e), &e);
    must(wr_table_load_begin(t, s, "{}", &e), &e);
    must(wr_lake_commit(lake, 1, NULL, 0, &e), &e);
    printf("base %llu rows, %llu updates, %llu each commit; %ld MB resident\n", (unsigned long long)base,
           (unsigned long long)updates, (unsigned long long)each, rss_mb("VmRSS:"));

    /* what making the rows costs */
    double c0 = cpu_s(), w0 = wall_s();
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < base; i++) make_row(s, (int64_t)i, &seed, &row), bytes += row.n;
    double make_s = (cpu_s() - c0) / (double)base;
    printf("rows of %.0f bytes, %.3f us to make\n", (double)bytes / (double)base, make_s * 1e6);

    /* batches and files alone */
    seed = 88172645463325252ull;
    c0 = cpu_s(), w0 = wall_s();
    wr_batch *b = NULL;
    int nfile = 0;
    for (uint64_t i = 0; i < base; i++) {
        make_row(s, (int64_t)i, &seed, &row);
        if (!b) must(wr_batch_new(s, &b, &e), &e);
        must(wr_batch_append(b, wr_buf_view(&row), &e), &e);
        if (wr_batch_bytes(b) < 32u << 20 && i + 1 < base) continue;
        char path[400];
        wr_parquet_file pf;
        snprintf(path, sizeof path, "%s/alone%d.parquet", p.home, nfile++);
        must(wr_parquet_write(engine, b, path, NULL, &pf, &e), &e);
        wr_parquet_file_clear(&pf);
        unlink(path);
        wr_batch_free(b);
        b = NULL;
    }
    double alone = cpu_s() - c0 - make_s * (double)base;
    print_line("batches and Parquet alone", base, alone, wall_s() - w0);

    seed = 88172645463325252ull;
    c0 = cpu_s(), w0 = wall_s();
    wr_load_writer *w;
    must(wr_load_writer_new(t, &w, &e), &e);
    for (uint64_t i = 0; i < base; i++) {
        make_row(s, (int64_t)i, &seed, &row);
        must(wr_load_writer_append(w, wr_buf_view(&row), &e), &e);
        if (wr_load_writer_bytes(w) > 32u << 20) must(wr_load_writer_seal(w, &e), &e);
    }
    must(wr_load_writer_hand_over(w, &e), &e);
    wr_load_writer_free(w);
    must(wr_table_load_commit(t, "{}", &e), &e);
    must(wr_table_publish(t, &e), &e);
    must(wr_lake_commit(lake, 2, NULL, 0, &e), &e);
    double load = cpu_s() - c0 - make_s * (double)base;
    print_line("bulk load", base, load, wall_s() - w0);
    printf("  of it keys, index and commit: %.3f us/row; %ld MB resident, peak %ld MB\n",
           (load - alone) * 1e6 / (double)base, rss_mb("VmRSS:"), rss_mb("VmHWM:"));

    /* updates: rows into bare batches first */
    c0 = cpu_s(), w0 = wall_s();
    uint64_t s0 = seed;
    for (uint64_t i = 0; i < updates; i++) {
        make_row(s, (int64_t)(rnd(&seed) % base), &seed, &row);
        if (!b) must(wr_batch_new(s, &b, &e), &e);
        must(wr_batch_append(b, wr_buf_view(&row), &e), &e);
        if ((i + 1) % each) continue;
        char path[400];
        wr_parquet_file pf;
        snprintf(path, sizeof path, "%s/alone%d.parquet", p.home, nfile++);
        must(wr_parquet_write(engine, b, path, NULL, &pf, &e), &e);
        wr_parquet_file_clear(&pf);
        unlink(path);
        wr_batch_free(b);
        b = NULL;
    }
    wr_batch_free(b);
    double alone_u = cpu_s() - c0 - make_s * (double)updates;
    print_line("updates: batches and Parquet alone", updates, alone_u, wall_s() - w0);

    seed = s0;
    double apply = 0, commit = 0;
    w0 = wall_s();
    c0 = cpu_s();
    for (uint64_t i = 0; i < updates; i++) {
        make_row(s, (int64_t)(rnd(&seed) % base), &seed, &row);
        must(wr_table_apply(t, 0, WR_APPLY_STRICT, WR_OP_UPDATE, wr_buf_view(&row), wr_buf_view(&row), &e), &e);
        if ((i + 1) % each) continue;
        double c1 = cpu_s();
        apply += c1 - c0;
        must(wr_lake_commit(lake, 3 + i, NULL, 0, &e), &e);
        c0 = cpu_s();
        commit += c0 - c1;
    }
    apply -= make_s * (double)updates;
    print_line("updates: apply", updates, apply, wall_s() - w0);
    print_line("updates: commits", updates, commit, wall_s() - w0);
    printf("  index, apply and deletes beside batches and Parquet: %.3f us per change; %ld MB resident, peak %ld MB\n",
           (apply + commit - alone_u) * 1e6 / (double)updates, rss_mb("VmRSS:"), rss_mb("VmHWM:"));

    c0 = cpu_s(), w0 = wall_s();
    wr_lake_close(lake);
    must(wr_lake_open(&o, state, engine, &lake, &e), &e);
    t = wr_lake_table(lake, 1);
    make_row(s, 5, &seed, &row);
    must(wr_table_apply(t, 0, WR_APPLY_STRICT, WR_OP_UPDATE, wr_buf_view(&row), wr_buf_view(&row), &e), &e);
    printf("open again and first update: %.3f s CPU, %.3f s wall\n", cpu_s() - c0, wall_s() - w0);
    wr_lake_close(lake);
    wr_engine_close(engine);
    wr_state_close(state);
    wr_schema_unref(s);
    wr_buf_free(&row);
    char cmd[300];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", p.home);
    return system(cmd) != 0;
}
