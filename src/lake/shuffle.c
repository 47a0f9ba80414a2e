/* Places are cut into parts of some thousand. A row waits in its part's buffer; when all buffers together are full they are appended to the file, each as one piece.
 * Then part after part is read back and given out, or, where the rows are so large that a part does not fit, row after row. */
#include "shuffle.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "weir/base/fault.h"
#include "weir/base/large.h"
#include "weir/base/mem.h"

#define PART_ROWS 8192

typedef struct piece {
    uint64_t at, bytes;
} piece;

typedef struct part {
    wr_buf rows; /* place within the part, length, bytes */
    piece *pieces;
    uint32_t n, cap;
    uint64_t bytes; /* of all */
} part;

struct wr_shuffle {
    const uint32_t *place;
    uint64_t n, put, held, bytes_max, at; /* rows; bytes in buffers; of the file */
    part *parts;
    uint64_t nparts;
    char *dir;
    int fd;
    wr_buf all, one;
};

wr_code wr_shuffle_new(const uint32_t *place, uint64_t n, uint64_t bytes, const char *dir, wr_shuffle **ret, wr_err *err) {
    wr_shuffle *s = wr_calloc(1, sizeof *s);
    if (!s) return wr_nomem(err, "sort", sizeof *s);
    *s = (wr_shuffle){.place = place, .n = n, .bytes_max = bytes, .nparts = (n + PART_ROWS - 1) / PART_ROWS, .fd = -1};
    s->parts = wr_calloc(s->nparts + 1, sizeof *s->parts), s->dir = wr_strdup(dir);
    if (!s->parts || !s->dir) return wr_shuffle_free(s), wr_nomem(err, "sort", n / PART_ROWS * sizeof(part));
    *ret = s;
    return WR_OK;
}

void wr_shuffle_free(wr_shuffle *s) {
    if (!s) return;
    for (uint64_t i = 0; s->parts && i < s->nparts; i++) wr_buf_free(&s->parts[i].rows), wr_free(s->parts[i].pieces);
    if (s->fd >= 0) close(s->fd);
    wr_buf_free(&s->all), wr_buf_free(&s->one);
    wr_free(s->parts), wr_free(s->dir);
    wr_free(s);
}

/* ------------------------------------------------------------------ the file */
static wr_code file_fail(const wr_shuffle *s, const char *what, int e, wr_err *err) {
    bool full = e == ENOSPC || e == EDQUOT;
    return wr_fail(err, full ? WR_E_NOSPC : WR_E_IO, WR_RETRY_SOON, "%s a file for sorting in %s: %s", what, s->dir, strerror(e));
}

static wr_code file_begin(wr_shuffle *s, wr_err *err) {
    WR_AUTO char *path = wr_asprintf("%s/sort-XXXXXX", s->dir);
    if (!path) return wr_nomem(err, "path", 256);
    if ((s->fd = mkostemp(path, O_CLOEXEC)) < 0) return file_fail(s, "making", errno, err);
    unlink(path); /* goes with the process */
    return WR_OK;
}

static wr_code file_put(wr_shuffle *s, wr_slice b, wr_err *err) {
    if (WR_FAULT("lake.sort")) return file_fail(s, "writing", ENOSPC, err);
    for (size_t done = 0; done < b.n;) {
        ssize_t n = pwrite(s->fd, b.p + done, b.n - done, (off_t)(s->at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return file_fail(s, "writing", errno, err);
        done += (size_t)n;
    }
    s->at += b.n;
    return WR_OK;
}

static wr_code file_get(const wr_shuffle *s, void *p, uint64_t bytes, uint64_t at, wr_err *err) {
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pread(s->fd, (uint8_t *)p + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return file_fail(s, "reading", n ? errno : EIO, err);
        done += (uint64_t)n;
    }
    return WR_OK;
}

static wr_code piece_room(part *p, wr_err *err) {
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? p->cap * 2 : 8;
        piece *v = wr_realloc(p->pieces, cap * sizeof *v);
        if (!v) return wr_nomem(err, "sort", cap * sizeof *v);
        p->pieces = v, p->cap = cap;
    }
    return WR_OK;
}

static wr_code spill_part(wr_shuffle *s, part *p, wr_err *err) {
    if (!p->rows.n) return WR_OK;
    WR_TRY(piece_room(p, err));
    p->pieces[p->n++] = (piece){s->at, p->rows.n};
    WR_TRY(file_put(s, wr_buf_view(&p->rows), err));
    wr_buf_free(&p->rows);
    p->rows = (wr_buf)WR_BUF_INIT;
    return WR_OK;
}

static wr_code spill(wr_shuffle *s, wr_err *err) {
    if (s->fd < 0) WR_TRY(file_begin(s, err));
    for (uint64_t i = 0; i < s->nparts; i++) WR_TRY(spill_part(s, &s->parts[i], err));
    s->held = 0;
    return WR_OK;
}

/* A large row, as a piece of its own and without a copy. */
static wr_code put_large(wr_shuffle *s, part *p, const uint32_t head[2], wr_slice row, wr_err *err) {
    if (s->fd < 0) WR_TRY(file_begin(s, err));
    WR_TRY(piece_room(p, err));
    p->pieces[p->n++] = (piece){s->at, 2 * sizeof *head + row.n};
    WR_TRY(file_put(s, wr_slice_of(head, 2 * sizeof *head), err));
    return file_put(s, row, err);
}

wr_code wr_shuffle_put(wr_shuffle *s, wr_slice row, wr_err *err) {
    if (s->put == s->n || row.n > UINT32_MAX) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "more rows to sort than the %" PRIu64 " that were announced", s->n);
    uint32_t to = s->place[s->put++], head[2] = {to % PART_ROWS, (uint32_t)row.n};
    part *p = &s->parts[to / PART_ROWS];
    uint64_t had = p->rows.cap;
    if (row.n >= WR_LARGE_BYTES) return p->bytes += sizeof head + row.n, put_large(s, p, head, row, err);
    wr_buf_put(&p->rows, head, sizeof head);
    wr_buf_put(&p->rows, row.p, row.n);
    WR_TRY(wr_buf_check(&p->rows, "rows to sort", err));
    p->bytes += sizeof head + row.n;
    s->held += p->rows.cap - had;
    return s->held >= s->bytes_max ? spill(s, err) : WR_OK;
}

/* ------------------------------------------------------------------ in order */
typedef struct where {
    uint64_t at; /* of its bytes */
    uint32_t bytes;
} where;

static uint32_t rows_of(const wr_shuffle *s, uint64_t i) { return i + 1 < s->nparts ? PART_ROWS : (uint32_t)(s->n - i * PART_ROWS); }

static wr_code give_loaded(wr_shuffle *s, uint64_t i, wr_code (*fn)(void *ctx, wr_slice row, wr_err *err), void *ctx, wr_err *err) {
    part *p = &s->parts[i];
    WR_AUTO where *w = wr_calloc(PART_ROWS, sizeof *w);
    if (!w) return wr_nomem(err, "sort", PART_ROWS * sizeof *w);
    const wr_buf *from = &p->rows;
    if (p->n) {
        wr_buf_clear(&s->all);
        if (!wr_buf_room(&s->all, p->bytes)) return wr_nomem(err, "rows to sort", p->bytes);
        for (uint32_t k = 0; k < p->n; k++) {
            WR_TRY(file_get(s, s->all.p + s->all.n, p->pieces[k].bytes, p->pieces[k].at, err));
            s->all.n += p->pieces[k].bytes;
        }
        from = &s->all;
    }
    for (size_t at = 0; at < from->n;) {
        uint32_t head[2];
        memcpy(head, from->p + at, sizeof head);
        w[head[0]] = (where){at + sizeof head, head[1]};
        at += sizeof head + head[1];
    }
    for (uint32_t k = 0; k < rows_of(s, i); k++) WR_TRY(fn(ctx, wr_slice_of(from->p + w[k].at, w[k].bytes), err));
    wr_buf_free(&p->rows);
    p->rows = (wr_buf)WR_BUF_INIT;
    return WR_OK;
}

static wr_code give_one(wr_shuffle *s, const where *w, wr_code (*fn)(void *ctx, wr_slice row, wr_err *err), void *ctx, wr_err *err) {
    if (!wr_buf_room(&s->one, w->bytes + 1u)) return wr_nomem(err, "row to sort", w->bytes);
    WR_TRY(file_get(s, s->one.p, w->bytes, w->at, err));
    return fn(ctx, wr_slice_of(s->one.p, w->bytes), err);
}

static wr_code give_each(wr_shuffle *s, uint64_t i, wr_code (*fn)(void *ctx, wr_slice row, wr_err *err), void *ctx, wr_err *err) {
    part *p = &s->parts[i];
    WR_AUTO where *w = wr_calloc(PART_ROWS, sizeof *w);
    if (!w) return wr_nomem(err, "sort", PART_ROWS * sizeof *w);
    for (uint32_t k = 0; k < p->n; k++)
        for (uint64_t at = p->pieces[k].at, end = at + p->pieces[k].bytes; at < end;) {
            uint32_t head[2];
            WR_TRY(file_get(s, head, sizeof head, at, err));
            w[head[0]] = (where){at + sizeof head, head[1]};
            at += sizeof head + head[1];
        }
    for (uint32_t k = 0; k < rows_of(s, i); k++) {
        bool large = false;
        if (w[k].bytes >= WR_LARGE_BYTES) wr_large_hold(&large);
        wr_code rc = give_one(s, &w[k], fn, ctx, err);
        wr_buf_rest(&s->one);
        wr_large_let_go(&large);
        WR_TRY(rc);
    }
    return WR_OK;
}

wr_code wr_shuffle_each(wr_shuffle *s, wr_code (*fn)(void *ctx, wr_slice row, wr_err *err), void *ctx, wr_err *err) {
    if (s->put != s->n) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%" PRIu64 " rows to sort instead of %" PRIu64, s->put, s->n);
    if (s->fd >= 0) WR_TRY(spill(s, err));
    for (uint64_t i = 0; i < s->nparts; i++) {
        bool fits = !s->parts[i].n || s->parts[i].bytes <= s->bytes_max;
        WR_TRY((fits ? give_loaded : give_each)(s, i, fn, ctx, err));
    }
    return WR_OK;
}
