/* Captured binlogs (data/, see the .sql beside each) fed through the applier; what comes out as text. */
#ifndef TEST_SOURCE_FIXTURE_H
#define TEST_SOURCE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "mysql/applier.h"
#include "mysql/value.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"
#include "weir/io.h"

typedef struct fx_schema { uint32_t table, version; wr_schema *schema; char name[128]; } fx_schema;

typedef struct fixture {
    wr_flavor flavor;
    wr_buf file;            /* with the magic number */
    wr_capture *capture;
    wr_catalogue *catalogue;
    wr_xa_spool *spool;
    wr_applier *applier;
    char dir[64];
    wr_buf out;             /* one line per call of the sink */
    fx_schema s[64];
    int n;
    int fail_change;        /* the n-th change fails */
    wr_stream_sink sink;
    wr_pos last;
    uint64_t again;         /* the applier wants to go back to this offset; 0 = no */
} fixture;

static inline void fx_data_path(const char *name, char *buf, size_t cap) {
    snprintf(buf, cap, "%s", __FILE__);
    char *slash = strrchr(buf, '/');
    snprintf(slash ? slash + 1 : buf, cap - (size_t)(slash ? slash + 1 - buf : 0), "data/%s", name);
}

static inline void fx_read(const char *name, wr_buf *b) {
    char path[512];
    wr_err err = WR_ERR_INIT;
    fx_data_path(name, path, sizeof path);
    assert_int_equal(wr_file_get(path, 64 << 20, b, &err), WR_OK);
}

static inline void fx_row(fixture *f, const fx_schema *s, wr_slice row) {
    wr_value v[128];
    wr_err err = WR_ERR_INIT;
    if (!s || wr_row_read(s->schema, row, v, &err) != WR_OK) {
        wr_buf_printf(&f->out, "<row of %zu bytes: %s>", row.n, s ? err.msg : "no schema");
        return;
    }
    wr_buf_u8(&f->out, '(');
    for (int i = 0; i < s->schema->ncols; i++) {
        if (i) wr_buf_printf(&f->out, " | ");
        if (v[i].null) wr_buf_printf(&f->out, "null");
        else wr_value_print(&f->out, s->schema->cols[i].type, &v[i]);
    }
    wr_buf_u8(&f->out, ')');
}

static inline wr_code fx_change(void *ctx, const wr_change *c, wr_err *err) {
    fixture *f = ctx;
    const fx_schema *s = NULL;
    if (f->fail_change && --f->fail_change == 0) return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "the sink is full");
    for (int i = f->n - 1; i >= 0 && !s; i--)
        if (f->s[i].table == c->table && f->s[i].version == c->schema_version) s = &f->s[i];
    wr_buf_printf(&f->out, "%s %s ", c->op == WR_OP_INSERT ? "insert" : c->op == WR_OP_UPDATE ? "update" : "delete", s ? s->name : "?");
    if (c->before.n) fx_row(f, s, c->before);
    if (c->before.n && c->after.n) wr_buf_printf(&f->out, " -> ");
    if (c->after.n) fx_row(f, s, c->after);
    wr_buf_u8(&f->out, '\n');
    return WR_OK;
}

static inline wr_code fx_ddl(void *ctx, const wr_ddl *d, wr_err *err) {
    static const char *const kind[] = {"?", "create", "alter", "rename", "drop", "truncate", "hidden"};
    fixture *f = ctx;
    wr_buf_printf(&f->out, "%s %s.%s\n", kind[d->kind], d->db, d->name);
    if (d->schema && f->n < 64) {
        fx_schema *s = &f->s[f->n++];
        s->table = d->table, s->version = d->schema->version, s->schema = wr_schema_ref(d->schema);
        snprintf(s->name, sizeof s->name, "%s", d->name);
    }
    return WR_OK;
}

static inline wr_code fx_commit(void *ctx, const wr_pos *pos, int64_t us, wr_err *err) {
    fixture *f = ctx;
    wr_buf_printf(&f->out, "commit %llu %s\n", (unsigned long long)pos->offset, pos->gtid_set ? pos->gtid_set : "-");
    return wr_pos_copy(&f->last, pos, err);
}

static inline wr_code fx_abort(void *ctx, wr_err *err) {
    wr_buf_printf(&((fixture *)ctx)->out, "abort\n");
    return WR_OK;
}

static inline wr_code fx_stale(void *ctx, uint32_t table, const char *why, wr_err *err) {
    fixture *f = ctx;
    const char *name = "?";
    for (int i = 0; i < f->n; i++)
        if (f->s[i].table == table) name = f->s[i].name;
    wr_buf_printf(&f->out, "stale %s\n", name);
    return WR_OK;
}

static inline wr_code fx_again(void *ctx, const wr_pos *at, wr_err *err) {
    fixture *f = ctx;
    wr_buf_printf(&f->out, "again\n");
    f->again = at->offset;
    return WR_OK;
}

/* Starts at the beginning of the file, with an empty catalogue that captures fx.*. */
static inline void fx_open_with(fixture *f, wr_flavor flavor, const char *file, bool stale, bool again) {
    static const char *const capture[] = {"fx\\..*"};
    wr_err err = WR_ERR_INIT;
    memset(f, 0, sizeof *f);
    f->flavor = flavor;
    fx_read(file, &f->file);
    assert_true(f->file.n > 4 && memcmp(f->file.p, "\xfe" "bin", 4) == 0);
    assert_int_equal(wr_capture_new(capture, 1, NULL, 0, &f->capture, &err), WR_OK);
    assert_int_equal(wr_catalogue_new(f->capture, (wr_my_types){0}, flavor, &f->catalogue, &err), WR_OK);
    strcpy(f->dir, "/tmp/weir-fixture-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    wr_pos from = {.file = "binlog.000001", .offset = 4, .gtid_set = (char *)""};
    assert_int_equal(wr_xa_spool_open(f->dir, &from, &f->spool, &err), WR_OK);
    f->sink = (wr_stream_sink){.ctx = f, .change = fx_change, .ddl = fx_ddl, .commit = fx_commit, .abort = fx_abort};
    if (stale) f->sink.stale = fx_stale;
    wr_applier_env env = {.sink = &f->sink, .catalogue = f->catalogue, .flavor = flavor, .gtid = true, .spool = f->spool, .ctx = f, .again = fx_again};
    if (!again) env.again = NULL;
    assert_int_equal(wr_applier_new(&env, &from, &f->applier, &err), WR_OK);
}

static inline void fx_open(fixture *f, wr_flavor flavor, const char *file) { fx_open_with(f, flavor, file, false, true); }

static inline wr_code fx_remove(void *ctx, const char *name, wr_err *err) {
    char *path = wr_path_join(ctx, name);
    wr_file_remove(path, err);
    wr_free(path);
    return WR_OK;
}

static inline void fx_close(fixture *f) {
    wr_err err = WR_ERR_INIT;
    wr_applier_free(f->applier);
    wr_xa_spool_close(f->spool);
    wr_dir_list(f->dir, fx_remove, f->dir, &err);
    rmdir(f->dir);
    for (int i = 0; i < f->n; i++) wr_schema_unref(f->s[i].schema);
    wr_catalogue_free(f->catalogue);
    wr_capture_free(f->capture);
    wr_buf_free(&f->file);
    wr_buf_free(&f->out);
    wr_pos_clear(&f->last);
}

/* The event at `at` of the file, empty behind the last. */
static inline wr_slice fx_event(const fixture *f, size_t at) {
    uint32_t size;
    if (f->file.n - at < EV_HEADER_BYTES) return (wr_slice){0};
    memcpy(&size, f->file.p + at + 9, 4);
    assert_true(size <= f->file.n - at);
    return wr_slice_of(f->file.p + at, size);
}

/* Makes a changed event pass its checksum again. */
static inline void fx_seal(uint8_t *p, size_t n) {
    if (n < EV_HEADER_BYTES + 4) return;
    uint32_t size = (uint32_t)n;
    memcpy(p + 9, &size, 4);
    uint32_t crc = wr_crc32(0, p, n - 4);
    memcpy(p + n - 4, &crc, 4);
}

#endif
