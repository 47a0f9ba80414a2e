/* How fast the stream goes, part by part, on a binlog file of a server that still runs (for the definitions). Compares, prints, asserts
 * no times.
 *   binlog_bench HOST PORT USER PASSWORD CAPTURE-REGEX PATH-OF-A-BINLOG-FILE
 * Steps: splitting events and checking checksums; everything of a table that is not captured; decoding captured rows to nowhere; the
 * same through the server's dump thread. Rows and bytes are per CPU second of this process, the dump also per second of wall time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "mysql/applier.h"
#include "mysql/source_impl.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/io.h"

typedef struct bench { uint64_t rows, bytes, commits; wr_pos target; bool at_end; } bench;

static double cpu(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static wr_code on_change(void *ctx, const wr_change *c, wr_err *err) {
    bench *b = ctx;
    b->rows++;
    b->bytes += c->before.n + c->after.n;
    return WR_OK;
}
static wr_code on_ddl(void *ctx, const wr_ddl *d, wr_err *err) { return WR_OK; }
static wr_code on_commit(void *ctx, const wr_pos *p, int64_t us, wr_err *err) {
    bench *b = ctx;
    b->commits++;
    if (b->target.file[0] && wr_pos_cmp(p, &b->target) >= 0) b->at_end = true;
    return WR_OK;
}
static wr_code on_abort(void *ctx, wr_err *err) { return WR_OK; }
static bool on_stopping(void *ctx) { return ((bench *)ctx)->at_end; }

static void line(const char *what, double secs, uint64_t events, uint64_t rows, uint64_t bytes) {
    printf("%-34s %7.3f s  %8.1f MB/s  %7.2f M events/s", what, secs, (double)bytes / secs / 1e6, (double)events / secs / 1e6);
    if (rows) printf("  %7.2f M rows/s", (double)rows / secs / 1e6);
    printf("\n");
}

static wr_code split_all(const wr_buf *file, uint64_t *events, wr_err *err) {
    wr_event_format f = {0};
    wr_event ev;
    for (size_t at = 4; file->n - at >= EV_HEADER_BYTES;) {
        uint32_t n;
        memcpy(&n, file->p + at + 9, 4);
        if (n < EV_HEADER_BYTES || n > file->n - at) break;
        WR_TRY(wr_event_split(&f, wr_slice_of(file->p + at, n), false, &ev, err));
        if (ev.type == EV_FORMAT_DESCRIPTION) WR_TRY(wr_event_format_parse(&ev, &f, err));
        at += n;
        ++*events;
    }
    return WR_OK;
}

static wr_code apply_all(const wr_buf *file, wr_source *s, bench *b, uint64_t *events, wr_err *err) {
    const wr_stream_sink sink = {.ctx = b, .change = on_change, .ddl = on_ddl, .commit = on_commit, .abort = on_abort, .stopping = on_stopping};
    wr_applier_env env = {.sink = &sink, .catalogue = s->catalogue, .types = s->types, .flavor = s->flavor, .gtid = true};
    wr_pos from = {.file = "bench.000001", .offset = 4, .gtid_set = (char *)""};
    wr_applier *a;
    WR_TRY(wr_applier_new(&env, &from, &a, err));
    wr_code rc = WR_OK;
    for (size_t at = 4; rc == WR_OK && file->n - at >= EV_HEADER_BYTES;) {
        uint32_t n;
        memcpy(&n, file->p + at + 9, 4);
        if (n < EV_HEADER_BYTES || n > file->n - at) break;
        rc = wr_applier_feed(a, wr_slice_of(file->p + at, n), err);
        at += n;
        ++*events;
    }
    wr_applier_free(a);
    return rc;
}

static wr_code run(char **argv, wr_err *err) {
    const char *capture[] = {argv[5]}, *none[] = {"no_such_database\\.x"};
    wr_source_options o = {.host = argv[1], .port = atoi(argv[2]), .user = argv[3], .password = argv[4], .capture = capture, .ncapture = 1, .pipeline_name = "bench"};
    wr_source *s, *foreign;
    wr_pos pos = {0}, other = {0};
    wr_buf file = WR_BUF_INIT;
    WR_TRY(wr_source_open(&o, &s, err));
    WR_TRY(wr_source_begin(s, 1, &pos, err));
    o.capture = none;
    WR_TRY(wr_source_open(&o, &foreign, err));
    WR_TRY(wr_source_begin(foreign, 1, &other, err));
    WR_TRY(wr_file_get(argv[6], (size_t)4 << 30, &file, err));
    printf("%s, %.1f MB\n", argv[6], (double)file.n / 1e6);

    uint64_t events = 0;
    double t = cpu();
    WR_TRY(split_all(&file, &events, err));
    line("split and checksum", cpu() - t, events, 0, file.n);
    bench b = {0};
    events = 0;
    t = cpu();
    WR_TRY(apply_all(&file, foreign, &b, &events, err));
    line("not captured: passed over", cpu() - t, events, 0, file.n);
    for (int i = 0; i < 3; i++) {
        b = (bench){0};
        events = 0;
        t = cpu();
        WR_TRY(apply_all(&file, s, &b, &events, err));
        line("captured: decoded to nowhere", cpu() - t, events, b.rows, file.n);
    }
    printf("  %.1f bytes a row out, %lu commits\n", b.rows ? (double)b.bytes / (double)b.rows : 0, (unsigned long)b.commits);

    for (int i = 0; i < 2; i++) { /* through the server */
        wr_source *which = i ? s : foreign;
        wr_pos from = {.offset = 4};
        const char *base = strrchr(argv[6], '/');
        snprintf(from.file, sizeof from.file, "%s", base ? base + 1 : argv[6]);
        b = (bench){0};
        WR_TRY(wr_source_now(which, &b.target, err));
        const wr_stream_sink sink = {.ctx = &b, .change = on_change, .ddl = on_ddl, .commit = on_commit, .abort = on_abort, .stopping = on_stopping};
        int64_t wall = wr_mono_us();
        t = cpu();
        wr_code rc = wr_source_stream(which, &from, &sink, err);
        double used = cpu() - t, real = (double)(wr_mono_us() - wall) / 1e6;
        wr_stream_stats st;
        wr_source_stream_stats(which, &st);
        if (rc != WR_OK) printf("  stream: %s\n", err->msg);
        line(i ? "dump, captured (wall)" : "dump, not captured (wall)", real, st.events, b.rows, st.bytes);
        line(i ? "dump, captured (our CPU)" : "dump, not captured (our CPU)", used, st.events, b.rows, st.bytes);
        wr_pos_clear(&b.target);
    }
    wr_buf_free(&file);
    wr_pos_clear(&pos), wr_pos_clear(&other);
    wr_source_close(s), wr_source_close(foreign);
    return WR_OK;
}

int main(int argc, char **argv) {
    if (argc < 7) return fprintf(stderr, "usage: see the source\n"), 2;
    wr_err err = WR_ERR_INIT;
    if (run(argv, &err) == WR_OK) return 0;
    fprintf(stderr, "%s\n", err.msg);
    return 1;
}
