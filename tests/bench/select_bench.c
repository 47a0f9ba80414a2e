/* How fast snapshots are read: select_bench host:port:user:password 'db\.table' [readers 1] [rows per chunk 100000]
 *
 * Reads the table into nowhere, as the pipeline does: one reader and connection per range. Prints the ranges, rows,
 * bytes of row encoding, rows/s, and rows per CPU second of this process; asserts nothing about time. A table without a
 * key is read whole by one reader. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/source.h"

#define MUST(expr)                                                                                                     \
    do {                                                                                                               \
        if ((expr) != WR_OK) {                                                                                         \
            fprintf(stderr, "%s: %s %s\n", #expr, err.msg, err.cure);                                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { READERS_MAX = 64 };
static wr_source *source;
static char *def;
static uint64_t chunk = 100000;

typedef struct reader {
    pthread_t thread;
    wr_snap *snap;
    wr_key_range range;
    uint64_t rows, bytes;
} reader;

static double cpu(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static wr_code nowhere(void *ctx, wr_slice row, wr_err *err) {
    reader *r = ctx;
    (void)err;
    r->rows++;
    r->bytes += row.n;
    return WR_OK;
}

static void *read_range(void *arg) {
    reader *r = arg;
    wr_err err = WR_ERR_INIT;
    wr_key_range at = r->range;
    char *owned = NULL, *next = NULL;
    do {
        next = NULL;
        MUST(wr_snap_chunk(r->snap, &at, chunk, nowhere, r, &next, &err));
        wr_free(owned);
        at.after = owned = next;
    } while (next);
    return NULL;
}

static wr_code take_table(void *ctx, const wr_ddl *d, wr_err *err) {
    if (d->kind != WR_DDL_CREATE || def) return WR_OK;
    printf("%s.%s: %d columns, key of %d\n", d->db, d->name, d->schema->ncols, d->schema->nkey);
    return (def = wr_strdup(d->def)) ? WR_OK : wr_nomem(err, "a definition", strlen(d->def));
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: select_bench host:port:user:password 'db\\.table' [readers] [rows per chunk]\n");
        return 2;
    }
    wr_err err = WR_ERR_INIT;
    char *save = NULL, *host = strtok_r(argv[1], ":", &save), *port = strtok_r(NULL, ":", &save),
         *user = strtok_r(NULL, ":", &save), *password = strtok_r(NULL, ":", &save);
    const char *capture[] = {argv[2]};
    int n = argc > 3 ? atoi(argv[3]) : 1;
    if (argc > 4) chunk = strtoull(argv[4], NULL, 10);
    if (n < 1 || n > READERS_MAX || chunk == 0 || !port) return 2;
    wr_source_options o = {.host = host,
                           .port = atoi(port),
                           .user = user,
                           .password = password,
                           .capture = capture,
                           .ncapture = 1,
                           .pipeline_name = "select_bench"};
    wr_pos pos = {0};
    MUST(wr_source_open(&o, &source, &err));
    MUST(wr_source_begin(source, 1, &pos, &err));
    MUST(wr_source_each_table(source, take_table, NULL, &err));
    if (!def) {
        fprintf(stderr, "no table matches %s\n", argv[2]);
        return 1;
    }
    static reader readers[READERS_MAX];
    wr_key_range ranges[READERS_MAX];
    for (int i = 0; i < n; i++) MUST(wr_snap_open(source, def, &readers[i].snap, &err));
    int nr = 1;
    int64_t t0 = wr_mono_us();
    MUST(wr_snap_split(readers[0].snap, n, ranges, &nr, &err));
    printf("%llu rows estimated, %d ranges found in %.1f ms\n", (unsigned long long)wr_snap_estimate(readers[0].snap),
           nr, (double)(wr_mono_us() - t0) / 1e3);
    double c0 = cpu();
    t0 = wr_mono_us();
    if (wr_snap_schema(readers[0].snap)->nkey == 0) {
        wr_pos_clear(&pos);
        MUST(wr_snap_read_all(readers[0].snap, nowhere, &readers[0], &pos, &err));
    } else {
        for (int i = 0; i < nr; i++) {
            readers[i].range = ranges[i];
            if (pthread_create(&readers[i].thread, NULL, read_range, &readers[i]) != 0) abort();
        }
        for (int i = 0; i < nr; i++) pthread_join(readers[i].thread, NULL);
    }
    double wall = (double)(wr_mono_us() - t0) / 1e6, used = cpu() - c0;
    uint64_t rows = 0, bytes = 0;
    for (int i = 0; i < n; i++) {
        if (i < nr) printf("range %d: %llu rows\n", i + 1, (unsigned long long)readers[i].rows);
        rows += readers[i].rows;
        bytes += readers[i].bytes;
        wr_snap_close(readers[i].snap);
    }
    for (int i = 0; i < nr; i++) wr_key_range_clear(&ranges[i]);
    printf("%llu rows, %.1f MB in %.3f s: %.0f rows/s, %.0f MB/s; %.3f CPU s: %.0f rows per CPU second\n",
           (unsigned long long)rows, (double)bytes / 1e6, wall, (double)rows / wall, (double)bytes / 1e6 / wall, used,
           (double)rows / used);
    wr_pos_clear(&pos);
    wr_free(def);
    wr_source_close(source);
    return 0;
}
