#include "xa_spool.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/map.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"
#include "weir/io.h"

#define CHUNK_BYTES ((size_t)1 << 20)
#define DONE_KEPT_US 600000000ll
#define CHUNK_MAX ((size_t)4000 << 20) /* one change may be as large as the server's largest row, twice */
static const char magic_head[] = "WEIRXA01", magic_tail[] = "WEIRXAND";

typedef struct entry { /* a prepared transaction */
    char id[33];
    wr_pos prepared;
} entry;

typedef struct done { char *path; int64_t at_us; /* monotonic */ } done;

struct wr_xa_spool {
    char *dir;
    wr_map *prepared;      /* id -> entry */
    done *dones; int ndones, capdones; /* oldest first */
    /* the one being read */
    bool open;
    wr_xid xid;
    char id[33];
    wr_file *file;         /* NULL until the first chunk is written */
    uint64_t at, rows;
    wr_buf chunk;
};

static void xid_id(const wr_xid *x, char id[33]) {
    uint8_t b[6 + 128];
    memcpy(b, &x->format, 4);
    b[4] = x->gtrid_len, b[5] = x->bqual_len;
    size_t n = (size_t)x->gtrid_len + x->bqual_len;
    memcpy(b + 6, x->data, n);
    wr_h128 h = wr_hash128(b, 6 + n);
    snprintf(id, 33, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
}

static wr_code path_of(const wr_xa_spool *s, const char *id, const char *suffix, char **ret, wr_err *err) {
    *ret = wr_asprintf("%s/%s%s", s->dir, id, suffix);
    return *ret ? WR_OK : wr_nomem(err, "path", 0);
}

static void entry_free(void *p) {
    entry *e = p;
    wr_pos_clear(&e->prepared);
    wr_free(e);
}

static wr_code entry_put(wr_xa_spool *s, const char *id, const wr_pos *prepared, wr_err *err) {
    entry *e = wr_calloc(1, sizeof *e);
    if (!e) return wr_nomem(err, "XA transaction", sizeof *e);
    memcpy(e->id, id, sizeof e->id);
    wr_code rc = wr_pos_copy(&e->prepared, prepared, err);
    entry *old = rc == WR_OK ? wr_map_del(s->prepared, wr_slice_str(id)) : NULL;
    if (old) entry_free(old);
    if (rc == WR_OK && !wr_map_put(s->prepared, wr_slice_str(id), e)) rc = wr_nomem(err, "XA transaction", sizeof *e);
    if (rc != WR_OK) entry_free(e);
    return rc;
}

/* ------------------------------------------------------------------ reading files */
typedef struct footer { uint64_t rows, end; wr_xid xid; wr_pos prepared; } footer;

__attribute__((cold, noinline)) static wr_code corrupt(const char *path, const char *what, wr_err *err) {
    wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "%s: %s", path, what);
    return wr_err_cure(err, "a prepared XA transaction cannot be completed from this file: move it away and read the tables it changed again");
}

static wr_code read_exactly(wr_file *f, const char *path, uint64_t at, void *dst, size_t n, wr_err *err) {
    size_t got;
    WR_TRY(wr_file_pread(f, at, dst, n, &got, err));
    return got == n ? WR_OK : corrupt(path, "cut", err);
}

static wr_code read_footer(wr_file *f, const char *path, footer *ret, wr_err *err) {
    uint64_t size;
    uint8_t tail[16], head[8];
    WR_TRY(wr_file_length(f, &size, err));
    if (size < 8 + 4 + 16) return corrupt(path, "too short", err);
    WR_TRY(read_exactly(f, path, 0, head, 8, err));
    WR_TRY(read_exactly(f, path, size - 16, tail, 16, err));
    uint32_t n, crc;
    memcpy(&n, tail, 4), memcpy(&crc, tail + 4, 4);
    if (memcmp(head, magic_head, 8) || memcmp(tail + 8, magic_tail, 8)) return corrupt(path, "no XA spool file", err);
    if (n > size - 8 - 4 - 16) return corrupt(path, "footer longer than the file", err);
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    uint8_t *to = wr_buf_room(&b, n + 1);
    if (!to) return wr_nomem(err, "footer", n);
    WR_TRY(read_exactly(f, path, size - 16 - n, to, n, err));
    if (wr_crc32c(0, to, n) != crc) return corrupt(path, "footer's checksum does not match", err);
    wr_rd r = wr_rd_of(to, n);
    footer ft = {.rows = wr_rd_u64(&r), .end = size - 16 - n};
    ft.xid.format = (int32_t)wr_rd_u32(&r);
    ft.xid.gtrid_len = wr_rd_u8(&r), ft.xid.bqual_len = wr_rd_u8(&r);
    size_t nx = (size_t)ft.xid.gtrid_len + ft.xid.bqual_len;
    const uint8_t *data = ft.xid.gtrid_len <= 64 && ft.xid.bqual_len <= 64 ? wr_rd_take(&r, nx) : NULL;
    if (!data) return corrupt(path, "malformed footer", err);
    memcpy(ft.xid.data, data, nx);
    if (wr_pos_decode(&r, &ft.prepared, err) != WR_OK) return wr_err_in(err, "%s", path);
    *ret = ft;
    return WR_OK;
}

static wr_code each_change(wr_slice chunk, const char *path, wr_xa_change_fn *fn, void *ctx, uint64_t *rows, wr_err *err) {
    wr_rd r = wr_rd_of(chunk.p, chunk.n);
    while (wr_rd_left(&r)) {
        wr_slice one = wr_rd_bytes(&r, wr_rd_u32(&r));
        if (r.bad) return corrupt(path, "malformed chunk", err);
        wr_rd cr = wr_rd_of(one.p, one.n);
        wr_change c;
        if (wr_change_decode(&cr, &c, err) != WR_OK) return wr_err_in(err, "%s", path);
        WR_TRY(fn(ctx, &c, err));
        ++*rows;
    }
    return WR_OK;
}

/* Chunks from the start to their end mark. */
static wr_code replay(wr_file *f, const char *path, uint64_t end, wr_xa_change_fn *fn, void *ctx, uint64_t *rows, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    uint64_t at = 8;
    for (;;) {
        uint32_t h[2];
        if (end - at < 4) return corrupt(path, "no end of chunks", err);
        WR_TRY(read_exactly(f, path, at, h, 4, err));
        if (h[0] == 0) return at + 4 == end ? WR_OK : corrupt(path, "bytes behind the end of chunks", err);
        if (h[0] > end - at || end - at - h[0] < 8) return corrupt(path, "chunk longer than the file", err);
        WR_TRY(read_exactly(f, path, at + 4, &h[1], 4, err));
        wr_buf_clear(&b);
        uint8_t *to = wr_buf_room(&b, h[0]);
        if (!to) return wr_nomem(err, "chunk", h[0]);
        WR_TRY(read_exactly(f, path, at + 8, to, h[0], err));
        if (wr_crc32c(0, to, h[0]) != h[1]) return corrupt(path, "chunk's checksum does not match", err);
        WR_TRY(each_change(wr_slice_of(to, h[0]), path, fn, ctx, rows, err));
        at += 8 + (uint64_t)h[0];
    }
}

/* ------------------------------------------------------------------ opening */
static wr_code done_put(wr_xa_spool *s, char *path, wr_err *err) { /* takes path over */
    if (s->ndones == s->capdones) {
        int cap = s->capdones ? s->capdones * 2 : 8;
        done *d = wr_realloc(s->dones, (size_t)cap * sizeof *d);
        if (!d) return wr_free(path), wr_nomem(err, "XA transactions", (size_t)cap * sizeof *d);
        s->dones = d, s->capdones = cap;
    }
    s->dones[s->ndones++] = (done){.path = path, .at_us = wr_mono_us()};
    return WR_OK;
}

typedef struct scan { wr_xa_spool *s; const wr_pos *from; } scan;

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* A file that holds a transaction not yet committed at `from`: kept as <id>.xa when it was prepared by then. An id may occur several
 * times when the application uses it again; at most one of them is prepared at a given position. */
static wr_code scan_prepared(wr_xa_spool *s, const char *path, const wr_pos *from, wr_err *err) {
    wr_file *f;
    WR_TRY(wr_file_open(path, WR_OPEN_READ, &f, err));
    footer ft = {0};
    char id[33];
    wr_code rc = read_footer(f, path, &ft, err);
    wr_file_close(f);
    if (rc == WR_OK && wr_pos_cmp(&ft.prepared, from) > 0) rc = wr_file_remove(path, err);
    else if (rc == WR_OK) {
        xid_id(&ft.xid, id);
        WR_AUTO char *to = NULL;
        rc = path_of(s, id, ".xa", &to, err);
        if (rc == WR_OK && strcmp(path, to) != 0 && rename(path, to) != 0) rc = wr_fail(err, WR_E_IO, WR_RETRY_NO, "rename %s: %m", path);
        if (rc == WR_OK) rc = entry_put(s, id, &ft.prepared, err);
    }
    wr_pos_clear(&ft.prepared);
    return rc;
}

static wr_code scan_one(void *ctx, const char *name, wr_err *err) {
    scan *sc = ctx;
    WR_AUTO char *path = wr_path_join(sc->s->dir, name);
    if (!path) return wr_nomem(err, "path", 0);
    if (ends_with(name, ".tmp")) return wr_file_remove(path, err);
    if (ends_with(name, ".xa")) return scan_prepared(sc->s, path, sc->from, err);
    if (!ends_with(name, ".done") || strlen(name) < 33 + 5 || name[32] != '.') return WR_OK; /* none of ours */
    char *end;
    wr_pos pos = {.offset = strtoull(name + 33, &end, 10)};
    size_t n = strlen(end);
    if (*end != '.' || n < 6) return WR_OK;
    if (end[1] == 'e') pos.epoch = (uint32_t)strtoul(end + 2, NULL, 10);
    snprintf(pos.file, sizeof pos.file, "x%.*s", (int)(n - 5 > 64 ? 64 : n - 5), end); /* ".000012" decides the order */
    if (wr_pos_cmp(&pos, sc->from) <= 0) return wr_file_remove(path, err);
    return scan_prepared(sc->s, path, sc->from, err);
}

wr_code wr_xa_spool_open(const char *dir, const wr_pos *from, wr_xa_spool **ret_spool, wr_err *err) {
    wr_xa_spool *s = wr_calloc(1, sizeof *s);
    if (!s) return wr_nomem(err, "XA spool", sizeof *s);
    s->dir = wr_strdup(dir);
    s->prepared = wr_map_new();
    wr_code rc = s->dir && s->prepared ? WR_OK : wr_nomem(err, "XA spool", 0);
    if (rc == WR_OK && wr_file_exists(dir)) {
        scan sc = {s, from};
        rc = wr_dir_list(dir, scan_one, &sc, err);
    }
    if (rc != WR_OK) return wr_xa_spool_close(s), rc;
    *ret_spool = s;
    return WR_OK;
}

void wr_xa_spool_close(wr_xa_spool *s) {
    if (!s) return;
    wr_xa_spool_discard(s);
    wr_buf_free(&s->chunk);
    if (s->prepared) wr_map_free(s->prepared, entry_free);
    for (int i = 0; i < s->ndones; i++) wr_free(s->dones[i].path);
    wr_free(s->dones);
    wr_free(s->dir);
    wr_free(s);
}

static wr_code wipe_one(void *ctx, const char *name, wr_err *err) {
    bool ours = ends_with(name, ".xa.tmp") || ends_with(name, ".xa") || ends_with(name, ".done");
    if (!ours || strspn(name, "0123456789abcdef") != 32) return WR_OK;
    WR_AUTO char *path = wr_path_join(ctx, name);
    return path ? wr_file_remove(path, err) : wr_nomem(err, "path", 0);
}

wr_code wr_xa_spool_wipe(const char *dir, wr_err *err) { return wr_file_exists(dir) ? wr_dir_list(dir, wipe_one, (void *)(uintptr_t)dir, err) : WR_OK; }

/* ------------------------------------------------------------------ writing */
wr_code wr_xa_spool_begin(wr_xa_spool *s, const wr_xid *xid, wr_err *err) {
    wr_xa_spool_discard(s);
    s->open = true;
    s->xid = *xid;
    xid_id(xid, s->id);
    s->rows = 0;
    wr_buf_clear(&s->chunk);
    return WR_OK;
}

void wr_xa_spool_discard(wr_xa_spool *s) {
    if (!s->open) return;
    s->open = false;
    if (s->file) {
        wr_err err = WR_ERR_INIT;
        wr_file_close(s->file);
        s->file = NULL;
        char *path;
        if (path_of(s, s->id, ".xa.tmp", &path, &err) == WR_OK) {
            wr_file_remove(path, &err); /* what stays is removed at the next start */
            wr_free(path);
        }
    }
}

static wr_code file_start(wr_xa_spool *s, wr_err *err) {
    if (s->file) return WR_OK;
    WR_TRY(wr_mkdirs(s->dir, err));
    WR_AUTO char *path = NULL;
    WR_TRY(path_of(s, s->id, ".xa.tmp", &path, err));
    WR_TRY(wr_file_remove(path, err));
    WR_TRY(wr_file_open(path, WR_OPEN_CREATE, &s->file, err));
    WR_TRY(wr_file_pwrite(s->file, 0, wr_slice_of(magic_head, 8), err));
    s->at = 8;
    return WR_OK;
}

static wr_code flush_chunk(wr_xa_spool *s, wr_err *err) {
    WR_TRY(wr_buf_check(&s->chunk, "XA transaction", err));
    WR_TRY(file_start(s, err));
    if (s->chunk.n == 0) return WR_OK;
    uint32_t h[2] = {(uint32_t)s->chunk.n, wr_crc32c(0, s->chunk.p, s->chunk.n)};
    WR_TRY(wr_file_pwrite(s->file, s->at, wr_slice_of(h, 8), err));
    WR_TRY(wr_file_pwrite(s->file, s->at + 8, wr_buf_view(&s->chunk), err));
    s->at += 8 + s->chunk.n;
    wr_buf_clear(&s->chunk);
    return WR_OK;
}

wr_code wr_xa_spool_add(wr_xa_spool *s, const wr_change *c, wr_err *err) {
    if (c->before.n + c->after.n > CHUNK_MAX - 1024)
        return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a change of %zu bytes in an XA transaction", c->before.n + c->after.n);
    if (s->chunk.n && s->chunk.n + c->before.n + c->after.n > CHUNK_BYTES) WR_TRY(flush_chunk(s, err));
    size_t at = s->chunk.n;
    wr_buf_u32(&s->chunk, 0);
    wr_change_encode(&s->chunk, c);
    WR_TRY(wr_buf_check(&s->chunk, "XA transaction", err));
    uint32_t n = (uint32_t)(s->chunk.n - at - 4);
    memcpy(s->chunk.p + at, &n, 4);
    s->rows++;
    return WR_OK;
}

wr_code wr_xa_spool_prepare(wr_xa_spool *s, const wr_pos *pos, wr_err *err) {
    WR_TRY(flush_chunk(s, err));
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_buf_u32(&b, 0);
    size_t at = b.n;
    wr_buf_u64(&b, s->rows);
    wr_buf_u32(&b, (uint32_t)s->xid.format);
    wr_buf_u8(&b, s->xid.gtrid_len);
    wr_buf_u8(&b, s->xid.bqual_len);
    wr_buf_put(&b, s->xid.data, (size_t)s->xid.gtrid_len + s->xid.bqual_len);
    wr_pos_encode(&b, pos);
    size_t n = b.n - at;
    uint32_t crc = b.failed ? 0 : wr_crc32c(0, b.p + at, n);
    wr_buf_u32(&b, (uint32_t)n);
    wr_buf_u32(&b, crc);
    wr_buf_put(&b, magic_tail, 8);
    WR_TRY(wr_buf_check(&b, "XA transaction", err));
    WR_TRY(wr_file_pwrite(s->file, s->at, wr_buf_view(&b), err));
    WR_TRY(wr_file_sync(s->file, err));
    wr_file_close(s->file);
    s->file = NULL;
    s->open = false;
    if (WR_FAULT("xa.prepare")) return wr_fail(err, WR_E_IO, WR_RETRY_NO, "fault xa.prepare");
    WR_AUTO char *tmp = NULL, *path = NULL;
    WR_TRY(path_of(s, s->id, ".xa.tmp", &tmp, err));
    WR_TRY(path_of(s, s->id, ".xa", &path, err));
    if (rename(tmp, path) != 0) return wr_fail(err, WR_E_IO, WR_RETRY_NO, "rename %s: %m", tmp);
    WR_TRY(wr_fsync_parent(path, err));
    (void)WR_FAULT("xa.prepared"); /* for kill */
    return entry_put(s, s->id, pos, err);
}

wr_code wr_xa_spool_one_phase(wr_xa_spool *s, wr_xa_change_fn *fn, void *ctx, uint64_t *ret_rows, wr_err *err) {
    uint64_t rows = 0;
    wr_code rc = WR_OK;
    WR_AUTO char *path = NULL;
    WR_TRY(path_of(s, s->id, ".xa.tmp", &path, err));
    if (s->file) {
        uint32_t zero = 0;
        rc = flush_chunk(s, err);
        if (rc == WR_OK) rc = wr_file_pwrite(s->file, s->at, wr_slice_of(&zero, 4), err);
        if (rc == WR_OK) rc = replay(s->file, path, s->at + 4, fn, ctx, &rows, err);
    } else {
        rc = wr_buf_check(&s->chunk, "XA transaction", err);
        if (rc == WR_OK) rc = each_change(wr_buf_view(&s->chunk), path, fn, ctx, &rows, err);
    }
    wr_xa_spool_discard(s);
    if (rc == WR_OK) *ret_rows = rows;
    return rc;
}

/* ------------------------------------------------------------------ deciding */
bool wr_xa_spool_has(const wr_xa_spool *s, const wr_xid *xid) {
    char id[33];
    xid_id(xid, id);
    return wr_map_get(s->prepared, wr_slice_str(id)) != NULL;
}

wr_code wr_xa_spool_commit(wr_xa_spool *s, const wr_xid *xid, const wr_pos *pos, wr_xa_change_fn *fn, void *ctx, uint64_t *ret_rows, wr_err *err) {
    char id[33], name[320];
    xid_id(xid, id);
    if (!wr_map_get(s->prepared, wr_slice_str(id))) {
        return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "XA transaction %s was not seen being prepared", wr_xid_print(xid, name));
    }
    WR_AUTO char *path = NULL;
    WR_TRY(path_of(s, id, ".xa", &path, err));
    wr_file *f;
    WR_TRY(wr_file_open(path, WR_OPEN_READ, &f, err));
    footer ft = {0};
    uint64_t rows = 0;
    wr_code rc = read_footer(f, path, &ft, err);
    if (rc == WR_OK && !wr_xid_eq(&ft.xid, xid)) rc = corrupt(path, "it belongs to another transaction", err);
    if (rc == WR_OK) rc = replay(f, path, ft.end, fn, ctx, &rows, err);
    if (rc == WR_OK && rows != ft.rows) rc = corrupt(path, "not as many changes as its footer says", err);
    wr_file_close(f);
    wr_pos_clear(&ft.prepared);
    if (rc != WR_OK) return rc;

    const char *dot = strrchr(pos->file, '.');
    char suffix[128], epoch[16] = "";
    if (pos->epoch) snprintf(epoch, sizeof epoch, ".e%u", pos->epoch);
    snprintf(suffix, sizeof suffix, ".%llu%s%.40s.done", (unsigned long long)pos->offset, epoch, dot && dot[1] ? dot : ".0");
    char *to = NULL;
    WR_TRY(path_of(s, id, suffix, &to, err));
    if (WR_FAULT("xa.commit")) return wr_free(to), wr_fail(err, WR_E_IO, WR_RETRY_NO, "fault xa.commit");
    if (rename(path, to) != 0) return wr_free(to), wr_fail(err, WR_E_IO, WR_RETRY_NO, "rename %s: %m", path);
    rc = wr_fsync_parent(path, err);
    if (rc != WR_OK) return wr_free(to), rc;
    (void)WR_FAULT("xa.committed"); /* for kill */
    entry *e = wr_map_del(s->prepared, wr_slice_str(id));
    if (e) entry_free(e);
    WR_TRY(done_put(s, to, err));
    WR_TRY(wr_xa_spool_expire(s, DONE_KEPT_US, err));
    *ret_rows = rows;
    return WR_OK;
}

wr_code wr_xa_spool_rollback(wr_xa_spool *s, const wr_xid *xid, wr_err *err) {
    char id[33];
    xid_id(xid, id);
    entry *e = wr_map_del(s->prepared, wr_slice_str(id));
    if (!e) return WR_OK;
    entry_free(e);
    WR_AUTO char *path = NULL;
    WR_TRY(path_of(s, id, ".xa", &path, err));
    return wr_file_remove(path, err);
}

wr_code wr_xa_spool_expire(wr_xa_spool *s, int64_t age_us, wr_err *err) {
    int64_t before = wr_mono_us() - age_us;
    int gone = 0;
    wr_code rc = WR_OK;
    while (gone < s->ndones && s->dones[gone].at_us <= before && (rc = wr_file_remove(s->dones[gone].path, err)) == WR_OK) wr_free(s->dones[gone++].path);
    if (gone) memmove(s->dones, s->dones + gone, (size_t)(s->ndones - gone) * sizeof *s->dones);
    s->ndones -= gone;
    return rc;
}
