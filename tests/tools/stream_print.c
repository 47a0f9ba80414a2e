/* Prints what a source's stream hands over, one line each: for looking at a server's binlog the way Weir does.
 *   stream_print HOST PORT USER PASSWORD CAPTURE-REGEX [SECONDS [FILE OFFSET [GTID_SET]]]
 * Without a position it starts at the server's present end. The schema is the one the server has now. Runs SECONDS (5), -1 = until killed.
 * SPOOL names the folder for XA transactions; ZERO_DATE=string, TIME=string choose the types' options; QUIET=1 counts only. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/source.h"

typedef struct known { uint32_t table, version; wr_schema *schema; char name[256]; } known;
typedef struct tool {
    known k[4096];
    int n;
    int64_t until;
    bool quiet;
    uint64_t changes, commits;
} tool;

static known *find(tool *t, uint32_t table, uint32_t version) {
    for (int i = t->n - 1; i >= 0; i--)
        if (t->k[i].table == table && t->k[i].version == version) return &t->k[i];
    return NULL;
}

static void learn(tool *t, const wr_ddl *d) {
    if (!d->schema || t->n == 4096) return;
    known *k = &t->k[t->n++];
    k->table = d->table, k->version = d->schema->version, k->schema = wr_schema_ref(d->schema);
    snprintf(k->name, sizeof k->name, "%s.%s", d->db, d->name);
}

static wr_code on_table(void *ctx, const wr_ddl *d, wr_err *err) {
    learn(ctx, d);
    return WR_OK;
}

static void print_row(const known *k, wr_slice row) {
    wr_value v[4096];
    wr_err err = WR_ERR_INIT;
    if (wr_row_read(k->schema, row, v, &err) != WR_OK) {
        printf("<%s>", err.msg);
        return;
    }
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    for (int i = 0; i < k->schema->ncols; i++) {
        wr_buf_printf(&b, "%s%s=", i ? " " : "", k->schema->cols[i].name);
        if (v[i].null) wr_buf_printf(&b, "NULL");
        else wr_value_print(&b, k->schema->cols[i].type, &v[i]);
    }
    char *s = wr_buf_cstr(&b);
    size_t n = strlen(s);
    const char *full = getenv("FULL");
    printf("{%.*s%s}", (int)(n > 600 && !full ? 600 : n), s, n > 600 && !full ? "..." : "");
}

static wr_code on_change(void *ctx, const wr_change *c, wr_err *err) {
    tool *t = ctx;
    t->changes++;
    if (t->quiet) return WR_OK;
    const known *k = find(t, c->table, c->schema_version);
    printf("%s %s v%u ", c->op == WR_OP_INSERT ? "INSERT" : c->op == WR_OP_UPDATE ? "UPDATE" : "DELETE", k ? k->name : "?", c->schema_version);
    if (k && c->before.n) print_row(k, c->before);
    if (k && c->before.n && c->after.n) printf(" -> ");
    if (k && c->after.n) print_row(k, c->after);
    printf("\n");
    return WR_OK;
}

static wr_code on_ddl(void *ctx, const wr_ddl *d, wr_err *err) {
    static const char *const kind[] = {"?", "CREATE", "ALTER", "RENAME", "DROP", "TRUNCATE", "HIDDEN"};
    learn(ctx, d);
    printf("DDL %s %s.%s rows %d: %s\n", kind[d->kind], d->db, d->name, d->rows, d->why ? d->why : "");
    return WR_OK;
}

static wr_code on_commit(void *ctx, const wr_pos *pos, int64_t us, wr_err *err) {
    tool *t = ctx;
    char where[512], when[32];
    t->commits++;
    if (!t->quiet) printf("COMMIT %s at %s\n", wr_pos_print(pos, where), wr_iso_time(us, when));
    fflush(stdout);
    return WR_OK;
}

static wr_code on_abort(void *ctx, wr_err *err) {
    printf("ABORT\n");
    return WR_OK;
}

static bool on_stopping(void *ctx) { return wr_mono_us() > ((tool *)ctx)->until; }

int main(int argc, char **argv) {
    if (argc < 6) return fprintf(stderr, "usage: see the source\n"), 2;
    static tool t;
    const char *capture[] = {argv[5]};
    wr_source_options o = {.host = argv[1], .port = atoi(argv[2]), .user = argv[3], .password = argv[4], .capture = capture, .ncapture = 1,
                           .pipeline_name = "stream_print", .spool_dir = getenv("SPOOL")};
    const char *z = getenv("ZERO_DATE"), *ts = getenv("TIME");
    if (z && strcmp(z, "string") == 0) o.zero_date = WR_ZERO_STRING;
    if (z && strcmp(z, "epoch") == 0) o.zero_date = WR_ZERO_EPOCH;
    if (ts && strcmp(ts, "string") == 0) o.time_as = WR_TIME_STRING;
    double seconds = argc > 6 ? atof(argv[6]) : 5;
    t.quiet = getenv("QUIET") != NULL;
    wr_err err = WR_ERR_INIT;
    wr_source *s = NULL;
    wr_pos pos = {0};
    wr_code rc = wr_source_open(&o, &s, &err);
    if (rc == WR_OK) rc = wr_source_begin(s, 1, &pos, &err);
    if (rc == WR_OK) rc = wr_source_each_table(s, on_table, &t, &err);
    if (rc == WR_OK && argc > 8) {
        wr_pos_clear(&pos);
        snprintf(pos.file, sizeof pos.file, "%s", argv[7]);
        pos.offset = strtoull(argv[8], NULL, 10);
        if (argc > 9) pos.gtid_set = wr_strdup(argv[9]);
    }
    if (rc == WR_OK) {
        char where[512];
        fprintf(stderr, "%s, %d tables, from %s\n", wr_source_version(s), t.n, wr_pos_print(&pos, where));
        t.until = seconds < 0 ? INT64_MAX : wr_mono_us() + (int64_t)(seconds * 1e6);
        wr_stream_sink sink = {&t, on_change, on_ddl, on_commit, on_abort, NULL, on_stopping};
        rc = wr_source_stream(s, &pos, &sink, &err);
        wr_stream_stats st;
        wr_source_stream_stats(s, &st);
        fprintf(stderr, "%" PRIu64 " bytes, %" PRIu64 " events, %" PRIu64 " rows, %" PRIu64 " transactions; %" PRIu64 " changes, %" PRIu64 " commits\n",
                st.bytes, st.events, st.rows, st.transactions, t.changes, t.commits);
    }
    if (rc != WR_OK) printf("ERROR %s (retry %d): %s%s%s\n", wr_code_name(rc), err.retry, err.msg, err.cure[0] ? " | cure: " : "", err.cure);
    for (int i = 0; i < t.n; i++) wr_schema_unref(t.k[i].schema);
    wr_pos_clear(&pos);
    wr_source_close(s);
    return rc == WR_OK ? 0 : 1;
}
