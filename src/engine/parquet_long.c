/* See parquet_long.h. Source: apache/parquet-format (README.md, Encodings.md, parquet.thrift). */
#include "parquet_long.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include "thrift.h"
#include "weir/base/mem.h"

#define GROUP_BYTES (INT64_C(32) << 20) /* of a column, not compressed, in one row group: beyond this it is long */
#define FOOTER_MAX (UINT64_C(1) << 30)
#define HEADER_BYTES 256u /* of a page, ours are of some thirty */
#define IN_BYTES (128u << 10)
#define OUT_BYTES (128u << 10)

enum { TYPE_BYTE_ARRAY = 6, REPEAT_REQUIRED = 0, CODEC_ZSTD = 6, PAGE_DATA = 0, PAGE_DICTIONARY = 2, ENC_PLAIN = 0, ENC_RLE_DICTIONARY = 8 };

typedef struct segment { /* a column of a row group */
    int64_t codec, values, raw, bytes, data_at, dict_at;
} segment;

/* The RLE/bit-packed hybrid, value by value. */
typedef struct hybrid {
    wr_rd r;
    unsigned width;
    uint64_t run, packed; /* values left of the run under way */
    uint32_t value;
    const uint8_t *bits;
    uint64_t bit;
} hybrid;

struct wr_long {
    int fd;
    bool optional;
    segment *segs;
    int nsegs, seg; /* the next one */
    uint64_t at, end; /* of the file: the next page, and where the column of this group ends */
    /* the page under way */
    uint64_t values;          /* left */
    uint64_t in_at, in_left;  /* of the file: what is still compressed */
    uint64_t raw_left;        /* of its bytes, those that are not taken */
    bool unpacked;            /* the compressed form has come to its end */
    bool dict;
    hybrid levels, index;
    wr_buf levels_bytes, index_bytes, dict_bytes;
    wr_slice *entries;
    uint32_t nentries;
    wr_slice value;           /* of the dictionary, to be taken */
    uint32_t value_n;
    ZSTD_DStream *zstd;
    ZSTD_inBuffer in;
    size_t out_at, out_n;
    uint8_t *in_bytes, *out_bytes;
};

static wr_code damaged(const char *what, wr_err *err) { return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "the file is damaged: %s", what); }

static wr_code read_at(int fd, uint64_t at, void *to, size_t n, wr_err *err) {
    for (size_t done = 0; done < n;) {
        ssize_t k = pread(fd, (uint8_t *)to + done, n - done, (off_t)(at + done));
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "read: %s", strerror(errno));
        if (k == 0) return damaged("it is shorter than it says", err);
        done += (size_t)k;
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ footer */
/* A value; depth 0. */
static void skip(wr_rd *r, uint8_t type, int depth) {
    uint8_t of = 0;
    if (depth > 16) r->bad = true;
    if (r->bad) return;
    switch (type) {
    case WR_TH_TRUE: case WR_TH_FALSE: return;
    case WR_TH_BYTE: wr_rd_take(r, 1); return;
    case WR_TH_I16: case WR_TH_I32: case WR_TH_I64: wr_rd_varint(r); return;
    case 7: wr_rd_take(r, 8); return; /* double */
    case WR_TH_BINARY: wr_rd_slice(r); return;
    case WR_TH_LIST: case 10: /* set */
        for (size_t n = wr_th_elements(r, &of); n && !r->bad; n--) of <= WR_TH_FALSE ? (void)wr_rd_take(r, 1) : skip(r, of, depth + 1);
        return;
    case WR_TH_STRUCT:
        for (int id = 0; (type = wr_th_next(r, &id)) != 0;) skip(r, type, depth + 1);
        return;
    default: r->bad = true;
    }
}

typedef struct leaf { int64_t id; bool bytes, optional; } leaf; /* bytes: a text or binary of the row itself */

typedef struct footer {
    wr_buf bytes;
    bool ours;
    leaf *leaves;
    int nleaves, leaves_cap;
    segment *segs; /* by group */
    size_t nsegs, segs_cap;
} footer;

static void footer_clear(footer *f) {
    wr_buf_free(&f->bytes);
    wr_free(f->leaves), wr_free(f->segs);
}

static wr_code read_schema(wr_rd *r, footer *f, wr_err *err) {
    uint8_t of;
    size_t n = wr_th_elements(r, &of);
    int64_t inside = 0; /* elements that are left of a group within a row */
    if (f->leaves) return damaged("two schemas", err);
    f->leaves = wr_calloc(n + 1, sizeof *f->leaves);
    if (!f->leaves) return wr_nomem(err, "Parquet schema", n * sizeof *f->leaves);
    for (size_t i = 0; i < n && !r->bad; i++) {
        int64_t type = -1, repeat = 0, children = 0, field = -1;
        uint8_t t;
        for (int id = 0; (t = wr_th_next(r, &id)) != 0;) {
            if (id == 1) type = wr_th_int(r);
            else if (id == 3) repeat = wr_th_int(r);
            else if (id == 5) children = wr_th_int(r);
            else if (id == 9) field = wr_th_int(r);
            else skip(r, t, 0);
        }
        bool root = i == 0, top = inside == 0;
        if (root) continue;
        if (!top) inside--;
        inside += children;
        if (!children) f->leaves[f->nleaves++] = (leaf){field, top && type == TYPE_BYTE_ARRAY, repeat != REPEAT_REQUIRED};
    }
    return WR_OK;
}

static void read_meta(wr_rd *r, segment *s) {
    uint8_t t;
    for (int id = 0; (t = wr_th_next(r, &id)) != 0;) {
        int64_t *to = id == 4 ? &s->codec : id == 5 ? &s->values : id == 6 ? &s->raw : id == 7 ? &s->bytes : id == 9 ? &s->data_at : id == 11 ? &s->dict_at : NULL;
        if (to) *to = wr_th_int(r);
        else skip(r, t, 0);
    }
}

static wr_code read_columns(wr_rd *r, footer *f, wr_err *err) {
    uint8_t of, t;
    size_t n = wr_th_elements(r, &of);
    if (n != (size_t)f->nleaves) return damaged("a row group of another number of columns", err);
    if (f->nsegs + n > f->segs_cap) {
        size_t cap = (f->nsegs + n) * 2;
        segment *s = wr_realloc(f->segs, cap * sizeof *s);
        if (!s) return wr_nomem(err, "Parquet row groups", cap * sizeof *s);
        f->segs = s, f->segs_cap = cap;
    }
    for (size_t i = 0; i < n && !r->bad; i++) {
        segment *s = &f->segs[f->nsegs++];
        *s = (segment){0};
        for (int id = 0; (t = wr_th_next(r, &id)) != 0;) {
            if (id == 3 && t == WR_TH_STRUCT) read_meta(r, s);
            else skip(r, t, 0);
        }
    }
    return WR_OK;
}

static wr_code read_groups(wr_rd *r, footer *f, wr_err *err) {
    uint8_t of, t;
    for (size_t n = wr_th_elements(r, &of); n && !r->bad; n--)
        for (int id = 0; (t = wr_th_next(r, &id)) != 0;) {
            if (id == 1) WR_TRY(read_columns(r, f, err));
            else skip(r, t, 0);
        }
    return WR_OK;
}

/* Nothing of it is known when it is not a file of ours: whoever reads it otherwise says what is wrong with it. */
static wr_code footer_read(int fd, footer *f, wr_err *err) {
    struct stat st;
    uint8_t tail[8];
    uint32_t n;
    if (fstat(fd, &st)) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "stat: %s", strerror(errno));
    if (st.st_size < 12) return WR_OK;
    WR_TRY(read_at(fd, (uint64_t)st.st_size - 8, tail, 8, err));
    memcpy(&n, tail, 4);
    if (memcmp(tail + 4, "PAR1", 4) || n > (uint64_t)st.st_size - 8 || n > FOOTER_MAX) return WR_OK;
    if (!wr_buf_room(&f->bytes, n)) return wr_nomem(err, "Parquet footer", n);
    WR_TRY(read_at(fd, (uint64_t)st.st_size - 8 - n, f->bytes.p, n, err));
    wr_rd r = wr_rd_of(f->bytes.p, n);
    uint8_t t;
    for (int id = 0; (t = wr_th_next(&r, &id)) != 0;) {
        if (id == 2) WR_TRY(read_schema(&r, f, err));
        else if (id == 4 && f->leaves) WR_TRY(read_groups(&r, f, err));
        else if (id == 6) {
            wr_slice by = wr_rd_slice(&r);
            f->ours = by.n > 5 && !memcmp(by.p, "weir ", 5);
        } else skip(&r, t, 0);
    }
    f->ours &= !r.bad;
    return WR_OK;
}

/* ------------------------------------------------------------------ open */
void wr_long_free(wr_long *l) {
    if (!l) return;
    if (l->fd >= 0) close(l->fd);
    if (l->zstd) ZSTD_freeDStream(l->zstd);
    wr_buf_free(&l->levels_bytes), wr_buf_free(&l->index_bytes), wr_buf_free(&l->dict_bytes);
    wr_free(l->segs), wr_free(l->entries), wr_free(l->in_bytes), wr_free(l->out_bytes);
    wr_free(l);
}

static wr_code open_column(int fd, const footer *f, int at, wr_long **ret, wr_err *err) {
    wr_long *l = wr_calloc(1, sizeof *l);
    if (!l) return wr_nomem(err, "Parquet reader", sizeof *l);
    l->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    l->optional = f->leaves[at].optional;
    l->nsegs = (int)(f->nsegs / (size_t)f->nleaves);
    l->segs = wr_malloc((size_t)l->nsegs * sizeof *l->segs);
    l->in_bytes = wr_malloc(IN_BYTES), l->out_bytes = wr_malloc(OUT_BYTES);
    l->zstd = ZSTD_createDStream();
    if (l->fd < 0 || !l->segs || !l->in_bytes || !l->out_bytes || !l->zstd) return wr_long_free(l), wr_nomem(err, "Parquet reader", IN_BYTES + OUT_BYTES);
    for (int g = 0; g < l->nsegs; g++) l->segs[g] = f->segs[(size_t)g * (size_t)f->nleaves + (size_t)at];
    *ret = l;
    return WR_OK;
}

static bool is_long(const footer *f, int at) {
    bool some = false;
    for (size_t i = (size_t)at; i < f->nsegs; i += (size_t)f->nleaves) {
        if (f->segs[i].codec != CODEC_ZSTD) return false;
        some |= f->segs[i].raw > GROUP_BYTES;
    }
    return some && f->leaves[at].bytes;
}

static wr_code open_columns(int fd, const int32_t *ids, int n, wr_long **ret, wr_err *err) {
    WR_CLEANUP(footer_clear) footer f = {0};
    WR_TRY(footer_read(fd, &f, err));
    for (int i = 0; f.ours && i < n; i++)
        for (int k = 0; k < f.nleaves && !ret[i]; k++)
            if (f.leaves[k].id == ids[i] && is_long(&f, k)) WR_TRY(open_column(fd, &f, k, &ret[i], err));
    return WR_OK;
}

wr_code wr_long_open(const char *path, const int32_t *ids, int n, wr_long **ret, wr_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return wr_fail(err, errno == ENOENT ? WR_E_NOTFOUND : WR_E_IO, WR_RETRY_NO, "open: %s", strerror(errno));
    for (int i = 0; i < n; i++) ret[i] = NULL;
    wr_code rc = open_columns(fd, ids, n, ret, err);
    close(fd);
    for (int i = 0; rc != WR_OK && i < n; i++) wr_long_free(ret[i]), ret[i] = NULL;
    return rc;
}

/* ------------------------------------------------------------------ a page's bytes */
/* At least a byte, or what is at the end of the page when room is 0. */
static wr_code unpack(wr_long *l, uint8_t *to, size_t room, size_t *ret_n, wr_err *err) {
    ZSTD_outBuffer out = {to, room, 0};
    while (!l->unpacked) {
        if (l->in.pos == l->in.size && l->in_left) {
            size_t n = l->in_left < IN_BYTES ? (size_t)l->in_left : IN_BYTES;
            WR_TRY(read_at(l->fd, l->in_at, l->in_bytes, n, err));
            l->in = (ZSTD_inBuffer){l->in_bytes, n, 0};
            l->in_at += n, l->in_left -= n;
        }
        size_t before = l->in.pos, more = ZSTD_decompressStream(l->zstd, &out, &l->in);
        if (ZSTD_isError(more)) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "the file is damaged: zstd: %s", ZSTD_getErrorName(more));
        l->unpacked = !more;
        if (out.pos) return *ret_n = out.pos, WR_OK;
        if (more && before == l->in.pos && !l->in_left && l->in.pos == l->in.size) return damaged("a page ends early", err);
    }
    return room ? damaged("a page ends early", err) : WR_OK;
}

static wr_code take(wr_long *l, uint8_t *to, size_t n, wr_err *err) {
    if (n > l->raw_left) return damaged("a value is longer than its page", err);
    l->raw_left -= n;
    while (n) {
        size_t k = l->out_n - l->out_at;
        if (!k && n >= OUT_BYTES) WR_TRY(unpack(l, to, n, &k, err));
        else {
            if (!k) {
                l->out_at = l->out_n = 0;
                WR_TRY(unpack(l, l->out_bytes, OUT_BYTES, &l->out_n, err));
                continue;
            }
            if (k > n) k = n;
            memcpy(to, l->out_bytes + l->out_at, k);
            l->out_at += k;
        }
        to += k, n -= k;
    }
    return WR_OK;
}

static wr_code take_all(wr_long *l, wr_buf *b, size_t n, wr_err *err) {
    wr_buf_clear(b);
    if (n > l->raw_left) return damaged("a page has less than it says", err);
    if (!wr_buf_room(b, n + 1)) return wr_nomem(err, "Parquet page", n);
    WR_TRY(take(l, b->p, n, err));
    b->n = n;
    return WR_OK;
}

/* Nothing may be left of it. The compressed form's own checksum is at its end. */
static wr_code page_end(wr_long *l, wr_err *err) {
    size_t n;
    if (l->raw_left || l->out_at != l->out_n) return damaged("a page has more than its values", err);
    WR_TRY(unpack(l, NULL, 0, &n, err));
    return l->in_left || l->in.pos != l->in.size ? damaged("a page is longer than it says", err) : WR_OK;
}

/* ------------------------------------------------------------------ pages */
static void hybrid_begin(hybrid *h, wr_slice bytes, unsigned width) { *h = (hybrid){.r = wr_rd_of(bytes.p, bytes.n), .width = width}; }

static uint32_t hybrid_next(hybrid *h) {
    if (!h->run && !h->packed) {
        uint64_t head = wr_rd_varint(&h->r);
        if (head & 1) {
            h->packed = (head >> 1) * 8, h->bit = 0;
            if (head >> 1 > wr_rd_left(&h->r)) return h->r.bad = true, 0;
            h->bits = wr_rd_take(&h->r, (size_t)(head >> 1) * h->width);
        } else {
            h->run = head >> 1;
            h->value = (uint32_t)wr_rd_uint(&h->r, (h->width + 7) / 8);
        }
        if (h->r.bad || (!h->run && !h->packed)) return h->r.bad = true, 0;
    }
    if (h->run) return h->run--, h->value;
    uint32_t v = 0;
    for (unsigned i = 0; i < h->width; i++, h->bit++) v |= (uint32_t)(h->bits[h->bit / 8] >> (h->bit % 8) & 1) << i;
    h->packed--;
    return v;
}

typedef struct page { int64_t type, raw, bytes, values, encoding; } page;

static void read_inner(wr_rd *r, page *p) {
    uint8_t t;
    for (int id = 0; (t = wr_th_next(r, &id)) != 0;) {
        if (id == 1) p->values = wr_th_int(r);
        else if (id == 2) p->encoding = wr_th_int(r);
        else skip(r, t, 0);
    }
}

static wr_code page_begin(wr_long *l, page *ret, wr_err *err) {
    uint8_t bytes[HEADER_BYTES], t;
    size_t n = l->end - l->at < sizeof bytes ? (size_t)(l->end - l->at) : sizeof bytes;
    WR_TRY(read_at(l->fd, l->at, bytes, n, err));
    wr_rd r = wr_rd_of(bytes, n);
    page p = {.type = -1};
    for (int id = 0; (t = wr_th_next(&r, &id)) != 0;) {
        if (id == 1) p.type = wr_th_int(&r);
        else if (id == 2) p.raw = wr_th_int(&r);
        else if (id == 3) p.bytes = wr_th_int(&r);
        else if (id == 5 || id == 7) read_inner(&r, &p);
        else skip(&r, t, 0);
    }
    uint64_t body = l->at + (n - wr_rd_left(&r));
    if (r.bad || p.raw < 0 || p.bytes < 0 || p.values < 0 || (uint64_t)p.bytes > l->end - body) return damaged("no sound page", err);
    l->in_at = body, l->in_left = (uint64_t)p.bytes, l->raw_left = (uint64_t)p.raw;
    l->in = (ZSTD_inBuffer){0};
    l->out_at = l->out_n = 0;
    l->unpacked = false;
    l->at = body + (uint64_t)p.bytes;
    ZSTD_initDStream(l->zstd);
    *ret = p;
    return WR_OK;
}

static wr_code dictionary(wr_long *l, const page *p, wr_err *err) {
    WR_TRY(take_all(l, &l->dict_bytes, (size_t)p->raw, err));
    WR_TRY(page_end(l, err));
    wr_rd r = wr_rd_of(l->dict_bytes.p, l->dict_bytes.n);
    if ((uint64_t)p->values > l->dict_bytes.n / 4) return damaged("a dictionary without its values", err);
    wr_free(l->entries);
    l->entries = wr_calloc((size_t)p->values + 1, sizeof *l->entries);
    if (!l->entries) return wr_nomem(err, "Parquet dictionary", (size_t)p->values * sizeof *l->entries);
    l->nentries = (uint32_t)p->values;
    for (uint32_t i = 0; i < l->nentries; i++) {
        uint32_t n = wr_rd_u32(&r);
        l->entries[i] = wr_rd_bytes(&r, n);
    }
    return r.bad ? damaged("a dictionary without its values", err) : WR_OK;
}

static wr_code data(wr_long *l, const page *p, wr_err *err) {
    l->dict = p->encoding == ENC_RLE_DICTIONARY;
    if (p->encoding != ENC_PLAIN && !l->dict) return damaged("a page of another encoding", err);
    if (l->optional) {
        uint32_t n;
        WR_TRY(take(l, (uint8_t *)&n, 4, err));
        WR_TRY(take_all(l, &l->levels_bytes, n, err));
        hybrid_begin(&l->levels, wr_buf_view(&l->levels_bytes), 1);
    }
    if (l->dict) {
        WR_TRY(take_all(l, &l->index_bytes, (size_t)l->raw_left, err));
        wr_slice s = wr_buf_view(&l->index_bytes);
        if (s.n < 1 || s.p[0] > 32) return damaged("no sound page", err);
        hybrid_begin(&l->index, wr_slice_of(s.p + 1, s.n - 1), s.p[0]);
    }
    l->values = (uint64_t)p->values;
    return WR_OK;
}

static wr_code next_page(wr_long *l, wr_err *err) {
    page p = {0};
    while (l->at >= l->end) {
        if (l->seg == l->nsegs) return damaged("a column has fewer values than the file has rows", err);
        const segment *s = &l->segs[l->seg++];
        int64_t from = s->dict_at > 0 ? s->dict_at : s->data_at;
        if (from < 4 || s->bytes < 0) return damaged("no sound column", err);
        l->at = (uint64_t)from, l->end = l->at + (uint64_t)s->bytes;
    }
    WR_TRY(page_begin(l, &p, err));
    if (p.type == PAGE_DICTIONARY) return dictionary(l, &p, err);
    return p.type == PAGE_DATA ? data(l, &p, err) : damaged("a page of another kind", err);
}

/* ------------------------------------------------------------------ values */
static wr_code value_done(wr_long *l, wr_err *err) { return --l->values ? WR_OK : page_end(l, err); }

wr_code wr_long_next(wr_long *l, bool *ret_null, uint32_t *ret_n, wr_err *err) {
    while (!l->values) WR_TRY(next_page(l, err));
    bool null = l->optional && !hybrid_next(&l->levels);
    if (l->optional && l->levels.r.bad) return damaged("no sound levels", err);
    l->value_n = 0;
    if (!null && l->dict) {
        uint32_t i = hybrid_next(&l->index);
        if (l->index.r.bad || i >= l->nentries) return damaged("a value that is not in its dictionary", err);
        l->value = l->entries[i], l->value_n = (uint32_t)l->value.n;
    } else if (!null) {
        WR_TRY(take(l, (uint8_t *)&l->value_n, 4, err));
        if (l->value_n > l->raw_left) return damaged("a value is longer than its page", err);
    }
    *ret_null = null, *ret_n = l->value_n;
    return null ? value_done(l, err) : WR_OK;
}

wr_code wr_long_take(wr_long *l, uint8_t *to, wr_err *err) {
    if (!l->dict) WR_TRY(take(l, to, l->value_n, err));
    else if (l->value_n) memcpy(to, l->value.p, l->value_n);
    return value_done(l, err);
}
