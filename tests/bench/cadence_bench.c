/* What a table becomes when it is committed all day: cadence_bench [commits] [changes per commit].
 *
 * The default is a day of a commit every 10 seconds, without the waiting: 60 % inserts, 30 % updates of random rows, 10 %
 * deletes, the lake looking after its table in between as a pipeline lets it. Prints commit times, files and metadata ten times on the way. Compares
 * and prints; asserts nothing. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "bench.h"
#include "table.h"
#include "weir/base/mem.h"
#include "weir/io.h"

typedef struct sizes { uint64_t metadata_json, files, bytes; } sizes;

/* The newest metadata.json, and what lies in the folder altogether. */
static void measure(const char *dir, sizes *s, char newest[300]) {
    DIR *d = opendir(dir);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        char path[1024];
        struct stat st;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (stat(path, &st) != 0) continue;
        if (S_ISDIR(st.st_mode)) {
            measure(path, s, newest);
            continue;
        }
        s->files++, s->bytes += (uint64_t)st.st_size;
        if (strstr(e->d_name, ".metadata.json") && strcmp(e->d_name, newest) > 0) snprintf(newest, 300, "%s", e->d_name), s->metadata_json = (uint64_t)st.st_size;
    }
    if (d) closedir(d);
}

static double cpu_s(void) {
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static uint64_t make_row(const wr_schema *s, int64_t id, uint64_t *seed, wr_buf *b) {
    char text[120];
    int n = snprintf(text, sizeof text, "%016llx some words that every row has %016llx", (unsigned long long)rnd(seed), (unsigned long long)rnd(seed));
    wr_buf_clear(b);
    size_t at = wr_row_begin(b, s->ncols);
    wr_value v[3] = {{.i64 = id}, {.i64 = (int64_t)(rnd(seed) % 100000)}, {.s = wr_slice_of(text, (size_t)n)}};
    for (int i = 0; i < 3; i++) wr_row_put(b, at, i, s->cols[i].type, &v[i]);
    return b->n;
}

/* The most memory that was not of mapped files, which the system takes back when it needs it. */
static volatile bool sampling = true;
static long peak_kb;
static void *sample(void *arg) {
    while (sampling) {
        FILE *f = fopen("/proc/self/status", "r");
        char line[128];
        long kb = 0;
        while (f && fgets(line, sizeof line, f))
            if (sscanf(line, "RssAnon: %ld", &kb) == 1 && kb > peak_kb) peak_kb = kb;
        if (f) fclose(f);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return NULL;
}

int main(int argc, char **argv) {
    long commits = argc > 1 ? atol(argv[1]) : 8640, each = argc > 2 ? atol(argv[2]) : 1000;
    char home[256], path[4][300];
    static const char *const parts[4] = {"state.db", "catalog.db", "warehouse", "index"};
    snprintf(home, sizeof home, "%s/weir-cadence-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(home)) return perror(home), 1;
    for (int i = 0; i < 4; i++) snprintf(path[i], sizeof path[i], "%s/%s", home, parts[i]);
    pthread_t sampler;
    if (pthread_create(&sampler, NULL, sample, NULL) != 0) return 1;
    wr_err e = WR_ERR_INIT;
    wr_state *state;
    wr_engine *engine;
    wr_lake *lake;
    wr_table *t;
    wr_schema *s;
    must(wr_state_open(path[0], &state, &e), &e);
    must(wr_engine_open(NULL, &engine, &e), &e);
    wr_lake_options o = {.pipeline = "bench", .catalog_path = path[1], .warehouse = path[2], .index_dir = path[3], .snapshot_age_us = 1};
    must(wr_lake_open(&o, state, engine, &lake, &e), &e);
    const wr_column cols[3] = {{.name = (char *)"id", .id = 1, .type = {.kind = WR_LONG}, .key_ord = 1}, {.name = (char *)"n", .id = 2, .type = {.kind = WR_LONG}, .nullable = true},
                               {.name = (char *)"text", .id = 3, .type = {.kind = WR_STRING}, .nullable = true}};
    must(wr_schema_new(cols, 3, 1, &s, &e), &e);
    must(wr_lake_create(lake, 1, "db", "events", s, &t, &e), &e);
    printf("%ld commits of %ld changes\n%8s %10s %10s %10s %8s %8s %8s %12s %12s %10s\n", commits, each, "commits", "median ms", "of CPU", "highest", "data", "deletes", "dead %", "metadata KB", "on disk MB", "written x");
    uint64_t seed = 88172645463325252ull, ingested = 0;
    int64_t top = 0;
    wr_buf row = WR_BUF_INIT, old = WR_BUF_INIT;
    double *ms = wr_calloc((size_t)commits / 10 + 2, sizeof *ms), *cpu = wr_calloc((size_t)commits / 10 + 2, sizeof *cpu);
    long nms = 0;
    for (long c = 0; c < commits; c++) {
        for (long i = 0; i < each; i++) {
            uint64_t what = rnd(&seed) % 10;
            int64_t id = what < 6 || !top ? top++ : (int64_t)(rnd(&seed) % (uint64_t)top);
            ingested += make_row(s, id, &seed, &row);
            make_row(s, id, &seed, &old); /* only its key matters */
            wr_op op = what < 6 ? WR_OP_INSERT : what < 9 ? WR_OP_UPDATE : WR_OP_DELETE;
            must(wr_table_apply(t, 0, WR_APPLY_REPLAY, op, op == WR_OP_INSERT ? (wr_slice){0} : wr_buf_view(&old), op == WR_OP_DELETE ? (wr_slice){0} : wr_buf_view(&row), &e), &e);
        }
        double began = wall_s(), began_cpu = cpu_s();
        must(wr_lake_commit(lake, (uint64_t)c + 1, NULL, 0, &e), &e);
        cpu[nms] = (cpu_s() - began_cpu) * 1e3;
        ms[nms++] = (wall_s() - began) * 1e3;
        bool changed = true;
        if (c % 6 == 0) t->patient_until_us = 0;
        for (int k = 0; k < 3 && (changed || lake->job); k++) { /* there are 10 seconds for it in truth */
            lake->next_job_us = 0;
            must(wr_lake_govern(lake, true, &changed, &e), &e);
            if (changed) must(wr_lake_commit(lake, (uint64_t)c + 1, NULL, 0, &e), &e);
        }
        if ((c + 1) % (commits / 10 ? commits / 10 : 1)) continue;
        sizes z = {0};
        char newest[300] = "";
        wr_table_health h;
        measure(path[2], &z, newest);
        must(wr_table_get_health(t, &h, &e), &e);
        qsort(ms, (size_t)nms, sizeof *ms, by_size), qsort(cpu, (size_t)nms, sizeof *cpu, by_size);
        printf("%8ld %10.1f %10.1f %10.1f %8llu %8llu %8.1f %12.1f %12.1f %10.2f\n", c + 1, ms[nms / 2], cpu[nms / 2], ms[nms - 1], (unsigned long long)h.data_files, (unsigned long long)h.delete_files,
               100.0 * (double)h.deleted_rows / (double)(h.rows + h.deleted_rows + 1), (double)z.metadata_json / 1e3, (double)z.bytes / 1e6, 1 + (double)h.upkeep->rewritten_bytes / (double)h.upkeep->new_bytes);
        fflush(stdout);
        nms = 0;
    }
    struct rusage use;
    wr_table_health h;
    must(wr_table_get_health(t, &h, &e), &e);
    printf("%.1f MB of rows ingested (as text and numbers, uncompressed) became %.1f MB of new data files, and %.1f MB were written again (written x: both per byte of the first)\n"
           "files by level: %llu %llu %llu %llu; %llu merges, %llu rewrites, %llu times old snapshots\n",
           (double)ingested / 1e6, (double)h.upkeep->new_bytes / 1e6, (double)h.upkeep->rewritten_bytes / 1e6, (unsigned long long)h.files_at[0], (unsigned long long)h.files_at[1], (unsigned long long)h.files_at[2],
           (unsigned long long)h.files_at[3], (unsigned long long)h.upkeep->merges, (unsigned long long)h.upkeep->rewrites, (unsigned long long)h.upkeep->expiries);
    double began = wall_s();
    must(wr_table_optimize(t, true, &e), &e);
    must(wr_table_get_health(t, &h, &e), &e);
    printf("all of it written anew: %.1f s, %llu files of %.1f MB\n", wall_s() - began, (unsigned long long)h.data_files, (double)h.data_bytes / 1e6);
    sampling = false;
    pthread_join(sampler, NULL);
    getrusage(RUSAGE_SELF, &use);
    printf("peak memory %.0f MB, %.0f MB of it not of mapped files\n", (double)use.ru_maxrss / 1024, (double)peak_kb / 1024);
    wr_lake_close(lake);
    wr_engine_close(engine);
    wr_state_close(state);
    wr_buf_free(&row), wr_buf_free(&old);
    wr_schema_unref(s);
    wr_free(ms), wr_free(cpu);
    return 0;
}
