/* Follows a source's stream into memory and compares what comes out with a snapshot read at the end, byte for byte.
 *   stream_verify HOST PORT USER PASSWORD CAPTURE-REGEX STOPFILE
 * Reads all captured tables, prints READY, follows the stream; once STOPFILE exists it goes on to the server's end of that moment and
 * compares. Tables that were altered on the way are compared by number of rows only. Ends with 0 when all is equal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "weir/base/clock.h"
#include "weir/base/map.h"
#include "weir/base/mem.h"
#include "weir/io.h"
#include "weir/source.h"

typedef struct tab { uint32_t id; char *def, name[512]; wr_schema *schema; wr_map *rows; int64_t n; bool altered, dropped, odd; } tab;
typedef struct tool {
    wr_source *s;
    tab t[2048];
    int n;
    const char *stopfile;
    wr_pos last, target;
    bool targeted;
    int64_t deadline;
    wr_buf pending; /* changes of the transaction at hand */
    uint64_t missing, retries;
} tool;

static tab *find(tool *t, uint32_t id) {
    for (int i = 0; i < t->n; i++)
        if (t->t[i].id == id) return &t->t[i];
    return NULL;
}

static void bump(tab *tb, wr_slice row, int by) {
    intptr_t c = (intptr_t)wr_map_get(tb->rows, row) + by;
    tb->n += by;
    if (c == 0) wr_map_del(tb->rows, row);
    else wr_map_put(tb->rows, row, (void *)c);
}

static void show(const tab *tb, const char *what, wr_slice row) {
    wr_value v[4096];
    wr_err err = WR_ERR_INIT;
    printf("  %s %s: ", what, tb->name);
    if (wr_row_read(tb->schema, row, v, &err) != WR_OK) printf("<%s>", err.msg);
    else
        for (int i = 0; i < tb->schema->ncols; i++) {
            WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
            if (v[i].null) wr_buf_printf(&b, "NULL");
            else wr_value_print(&b, tb->schema->cols[i].type, &v[i]);
            printf("%s=%.200s ", tb->schema->cols[i].name, wr_buf_cstr(&b));
        }
    printf("\n");
}

static tab *learn(tool *t, const wr_ddl *d) {
    tab *tb = find(t, d->table);
    if (!tb) {
        tb = &t->t[t->n++];
        tb->id = d->table;
        tb->rows = wr_map_new();
    }
    wr_free(tb->def);
    tb->def = wr_strdup(d->def);
    if (tb->schema) wr_schema_unref(tb->schema);
    tb->schema = wr_schema_ref(d->schema);
    snprintf(tb->name, sizeof tb->name, "%s.%s", d->db, d->name);
    return tb;
}

static wr_code on_table(void *ctx, const wr_ddl *d, wr_err *err) {
    if (d->kind == WR_DDL_CREATE) learn(ctx, d);
    return WR_OK;
}

static wr_code on_snap_row(void *ctx, wr_slice row, wr_err *err) { return bump(ctx, row, 1), WR_OK; }

static wr_code read_table(tool *t, tab *tb, tab *into, wr_err *err) {
    wr_snap *sn;
    WR_TRY(wr_snap_open(t->s, tb->def, &sn, err));
    wr_code rc = WR_OK;
    if (wr_snap_schema(sn)->nkey) {
        wr_key_range r = {0};
        for (;;) {
            char *after = NULL;
            rc = wr_snap_chunk(sn, &r, 10000, on_snap_row, into, &after, err);
            wr_free(r.after);
            r.after = after;
            if (rc != WR_OK || !after) break;
        }
        wr_key_range_clear(&r);
    } else {
        wr_pos pos = {0};
        rc = wr_snap_read_all(sn, on_snap_row, into, &pos, err);
        wr_pos_clear(&pos);
    }
    wr_snap_close(sn);
    return rc;
}

static wr_code apply(tool *t, const wr_change *c, wr_err *err) {
    tab *tb = find(t, c->table);
    if (!tb) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "change of unknown table %u", c->table);
    if (c->before.n) {
        if (!tb->altered && !wr_map_get(tb->rows, c->before)) t->missing++, show(tb, "before image not there", c->before);
        bump(tb, c->before, -1);
    }
    if (c->after.n) bump(tb, c->after, 1);
    return WR_OK;
}

static wr_code on_change(void *ctx, const wr_change *c, wr_err *err) {
    tool *t = ctx;
    size_t at = t->pending.n;
    wr_buf_u32(&t->pending, 0);
    wr_change_encode(&t->pending, c);
    WR_TRY(wr_buf_check(&t->pending, "transaction", err));
    uint32_t n = (uint32_t)(t->pending.n - at - 4);
    memcpy(t->pending.p + at, &n, 4);
    return WR_OK;
}

static wr_code apply_pending(tool *t, wr_err *err) {
    wr_rd r = wr_rd_of(t->pending.p, t->pending.n);
    while (wr_rd_left(&r)) {
        wr_slice one = wr_rd_bytes(&r, wr_rd_u32(&r));
        wr_rd cr = wr_rd_of(one.p, one.n);
        wr_change c;
        WR_TRY(wr_change_decode(&cr, &c, err));
        WR_TRY(apply(t, &c, err));
    }
    wr_buf_clear(&t->pending);
    return WR_OK;
}

static wr_code on_ddl(void *ctx, const wr_ddl *d, wr_err *err) {
    tool *t = ctx;
    WR_TRY(apply_pending(t, err));
    printf("  ddl kind %d %s.%s rows %d\n", d->kind, d->db, d->name, d->rows);
    if (d->kind == WR_DDL_HIDDEN) return WR_OK;
    tab *tb = find(t, d->table);
    if (d->kind == WR_DDL_DROP) return tb ? (tb->dropped = true, WR_OK) : WR_OK;
    if (d->kind == WR_DDL_TRUNCATE && tb) {
        wr_map_free(tb->rows, NULL);
        tb->rows = wr_map_new(), tb->n = 0;
        return WR_OK;
    }
    bool known = tb != NULL;
    tb = learn(t, d);
    if (known && (d->kind != WR_DDL_RENAME || d->rows != WR_ROWS_KEEP)) tb->altered = true;
    if (d->rows == WR_ROWS_RELOAD && known) tb->odd = true;
    return WR_OK;
}

static wr_code on_commit(void *ctx, const wr_pos *pos, int64_t us, wr_err *err) {
    WR_TRY(apply_pending(ctx, err));
    return wr_pos_copy(&((tool *)ctx)->last, pos, err);
}

static wr_code on_abort(void *ctx, wr_err *err) { return wr_buf_clear(&((tool *)ctx)->pending), printf("  abort\n"), WR_OK; }

static bool on_stopping(void *ctx) {
    tool *t = ctx;
    wr_err err = WR_ERR_INIT;
    if (!t->targeted && wr_file_exists(t->stopfile)) {
        if (wr_source_now(t->s, &t->target, &err) != WR_OK) printf("  now: %s\n", err.msg);
        else t->targeted = true, t->deadline = wr_mono_us() + 60000000;
    }
    if (!t->targeted) return false;
    if (wr_mono_us() > t->deadline) return true;
    return wr_pos_cmp(&t->last, &t->target) >= 0;
}

typedef struct diff { tab *a; const tab *b; int shown; uint64_t n; const char *what; } diff;
static void on_diff(void *ctx, wr_slice key, void *value) {
    diff *d = ctx;
    if (wr_map_get(d->b->rows, key) == value) return;
    d->n++;
    if (d->shown++ < 5) show(d->a, d->what, key);
}

int main(int argc, char **argv) {
    if (argc < 7) return fprintf(stderr, "usage: see the source\n"), 2;
    static tool t;
    const char *capture[] = {argv[5]};
    wr_source_options o = {.host = argv[1], .port = atoi(argv[2]), .user = argv[3], .password = argv[4], .capture = capture, .ncapture = 1,
                           .pipeline_name = "stream_verify", .spool_dir = getenv("SPOOL")};
    t.stopfile = argv[6];
    wr_err err = WR_ERR_INIT;
    wr_pos pos = {0};
    wr_code rc = wr_source_open(&o, &t.s, &err);
    if (rc == WR_OK) rc = wr_source_begin(t.s, 1, &pos, &err);
    if (rc == WR_OK) rc = wr_source_each_table(t.s, on_table, &t, &err);
    for (int i = 0; i < t.n && rc == WR_OK; i++) rc = read_table(&t, &t.t[i], &t.t[i], &err);
    printf("READY %d tables%s%s\n", t.n, rc == WR_OK ? "" : ": ", rc == WR_OK ? "" : err.msg);
    fflush(stdout);
    wr_stream_sink sink = {&t, on_change, on_ddl, on_commit, on_abort, NULL, on_stopping};
    if (rc == WR_OK) rc = wr_pos_copy(&t.last, &pos, &err);
    while (rc == WR_OK) {
        wr_pos from = {0};
        rc = wr_pos_copy(&from, &t.last, &err);
        if (rc == WR_OK) rc = wr_source_stream(t.s, &from, &sink, &err);
        wr_pos_clear(&from);
        if (rc == WR_OK || err.retry != WR_RETRY_SOON) break;
        if (t.retries++ < 5) printf("  retry: %s\n", err.msg);
        usleep(300000);
        rc = WR_OK;
    }
    int bad = 0, compared = 0;
    if (rc == WR_OK && wr_pos_cmp(&t.last, &t.target) < 0) bad++, printf("  never came to the server's end\n");
    for (int i = 0; i < t.n && rc == WR_OK; i++) {
        tab *tb = &t.t[i];
        if (tb->dropped) continue;
        tab now = {.rows = wr_map_new(), .schema = tb->schema};
        rc = read_table(&t, tb, &now, &err);
        if (rc != WR_OK) break;
        compared++;
        if (tb->altered) {
            if (tb->n != now.n && !tb->odd) bad++, printf("  %s: %ld rows, the source has %ld\n", tb->name, (long)tb->n, (long)now.n);
        } else {
            diff d = {tb, &now, 0, 0, "stream only"}, e = {tb, tb, 0, 0, "snapshot only"};
            wr_map_each(tb->rows, on_diff, &d);
            e.b = tb;
            wr_map_each(now.rows, on_diff, &e);
            if (d.n || e.n) bad++, printf("  %s: %lu rows of the stream and %lu of the snapshot differ\n", tb->name, (unsigned long)d.n, (unsigned long)e.n);
        }
        wr_map_free(now.rows, NULL);
    }
    if (rc != WR_OK) printf("ERROR %s (retry %d): %s%s%s\n", wr_code_name(rc), err.retry, err.msg, err.cure[0] ? " | cure: " : "", err.cure);
    else printf("%s: %d tables compared, %d differ, %lu before images missing, %lu retries\n", bad || t.missing ? "DIFFERENT" : "EQUAL", compared, bad, (unsigned long)t.missing, (unsigned long)t.retries);
    wr_pos_clear(&pos), wr_pos_clear(&t.last), wr_pos_clear(&t.target);
    wr_buf_free(&t.pending);
    for (int i = 0; i < t.n; i++) wr_free(t.t[i].def), wr_schema_unref(t.t[i].schema), wr_map_free(t.t[i].rows, NULL);
    wr_source_close(t.s);
    return rc != WR_OK ? 3 : bad || t.missing ? 1 : 0;
}
