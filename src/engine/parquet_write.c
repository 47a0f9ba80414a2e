/* Parquet files from batches. Source: apache/parquet-format (README.md, Encodings.md, parquet.thrift).
 *
 * One column of one row group after the other goes straight from the batch through a page into the file: beside the
 * batch there are one page, its compressed form and a dictionary, and of each group that is written its part of the
 * footer. Pages are v1 with PLAIN or RLE_DICTIONARY values, which every reader takes
 * (docs/decisions/0001-parquet-writer.md).
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>
#include "bloom.h"
#include "encode.h"
#include "thrift.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

#define MAGIC "PAR1"
#define PAGE_BYTES (256u << 10)     /* of values; what a page grows to before it is closed */
#define OUT_BYTES (256u << 10)      /* written to the file at a time */
#define GROUP_ROWS UINT64_C(122880) /* default rows of a row group */
#define LONG_BYTES (1u << 20)       /* a value from here on has a page of its own, which goes from the batch to the file block by block */
#define BLOOM_ROWS UINT64_C(2048)   /* of a row group that gets Bloom filters: reading the column of a smaller one is as cheap */

/* parquet.thrift */
enum {
    TYPE_BOOLEAN = 0,
    TYPE_INT32 = 1,
    TYPE_INT64 = 2,
    TYPE_FLOAT = 4,
    TYPE_DOUBLE = 5,
    TYPE_BYTE_ARRAY = 6,
    TYPE_FIXED = 7
};
enum {
    CONVERTED_UTF8 = 0,
    CONVERTED_LIST = 3,
    CONVERTED_DECIMAL = 5,
    CONVERTED_DATE = 6,
    CONVERTED_TIMESTAMP_MICROS = 10
};
enum { LOGICAL_STRING = 1, LOGICAL_LIST = 3, LOGICAL_DECIMAL = 5, LOGICAL_DATE = 6, LOGICAL_TIMESTAMP = 8 };
enum { REPEAT_REQUIRED = 0, REPEAT_OPTIONAL = 1, REPEAT_REPEATED = 2 };
enum { ENC_PLAIN = 0, ENC_RLE = 3, ENC_RLE_DICTIONARY = 8 };
enum { PAGE_DATA = 0, PAGE_DICTIONARY = 2 };
enum { CODEC_ZSTD = 6 };

#define BOUND_BYTES 80 /* of a text's minimum and maximum: more than 16 characters, and the order stays */

/* One column of one row group, as the footer has it. */
typedef struct segment {
    uint64_t values, raw_bytes, bytes; /* sizes with page headers */
    uint64_t data_at, dict_at;         /* dict_at 0 = none */
    uint64_t bloom_at, bloom_bytes;    /* 0 = none; until its group is written, bloom_at counts from the group's first filter */
    uint32_t data_pages;
    wr_range range; /* texts: borrowed from the batch until segment_own, then from `text` */
    uint8_t *text;
} segment;

typedef struct group {
    uint32_t from, to; /* chunks */
    uint64_t rows;
} group;

typedef struct wr_parquet_writer {
    wr_schema *schema;
    const wr_batch *b; /* under way ... */
    int from_col;      /* ... and where it has the column */
    char *path, *metadata;
    int fd, level;
    bool created;
    uint64_t at, rows;    /* bytes given to the file or in `out`; rows of all groups */
    uint64_t group_rows;
    bool *required; /* per column: no null in the file and none allowed */
    bool *blooms;   /* per column: has Bloom filters */
    group *groups;
    uint32_t ngroups, groups_cap;
    segment *segs; /* ngroups * ncols, by group */
    ZSTD_CCtx *zstd;
    wr_dense *dense;
    wr_dict dict;
    wr_bloom bloom;
    wr_buf out, packed, header;
    wr_buf filters; /* of the group under way: they follow its columns */
    /* the page under way: `gap` free bytes for the levels, then the values */
    wr_buf page;
    size_t gap;
    uint32_t page_values, page_present; /* level entries; values */
    uint64_t *levels;                   /* scalars: one bit per row of the page, 1 = present */
    wr_buf defs, reps;                  /* lists: uint16_t per entry */
} writer;

/* ------------------------------------------------------------------ the file */

static wr_code file_fail(const writer *w, const char *what, int e, wr_err *err) {
    if (e == ENOSPC || e == EDQUOT) return wr_fail(err, WR_E_NOSPC, WR_RETRY_SOON, "%s: %s", what, strerror(e));
    if (e == EEXIST) return wr_fail(err, WR_E_EXISTS, WR_RETRY_NO, "%s: the file exists already", what);
    return wr_fail(err, WR_E_IO, e == ENOENT || e == EACCES ? WR_RETRY_NO : WR_RETRY_SOON, "%s: %s", what, strerror(e));
}

static wr_code out_flush(writer *w, wr_err *err) {
    WR_TRY(wr_buf_check(&w->out, "Parquet file", err));
    if (WR_FAULT("parquet_write")) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "write: fault point parquet_write");
    for (size_t done = 0; done < w->out.n;) {
        ssize_t n = write(w->fd, w->out.p + done, w->out.n - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return file_fail(w, "write", errno, err);
        done += (size_t)n;
    }
    wr_buf_clear(&w->out);
    return WR_OK;
}

static wr_code out_put(writer *w, wr_slice s, wr_err *err) {
    wr_buf_put(&w->out, s.p, s.n);
    w->at += s.n;
    return w->out.n >= OUT_BYTES ? out_flush(w, err) : WR_OK;
}

/* ------------------------------------------------------------------ pages */

static wr_code page_header(writer *w, int type, uint32_t values, int encoding, size_t raw, size_t packed, uint32_t crc, wr_err *err) {
    if (raw > INT32_MAX || packed > INT32_MAX)
        return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a page of %zu bytes is above what Parquet allows", raw);
    wr_buf_clear(&w->header);
    wr_th h = {&w->header, 0};
    wr_th_i32(&h, 1, type);
    wr_th_i32(&h, 2, (int32_t)raw);
    wr_th_i32(&h, 3, (int32_t)packed);
    wr_th_i32(&h, 4, (int32_t)crc);
    wr_th inner = wr_th_struct(&h, type == PAGE_DATA ? 5 : 7);
    wr_th_i32(&inner, 1, (int32_t)values);
    wr_th_i32(&inner, 2, encoding);
    if (type == PAGE_DATA) wr_th_i32(&inner, 3, ENC_RLE), wr_th_i32(&inner, 4, ENC_RLE);
    wr_th_end(&inner);
    wr_th_end(&h);
    return wr_buf_check(&w->header, "Parquet page header", err);
}

/* Compresses the body and writes header and page; `seg` gets their sizes. */
static wr_code page_put(writer *w, segment *seg, int type, uint32_t values, int encoding, wr_slice body, wr_err *err) {
    size_t bound = ZSTD_compressBound(body.n);
    wr_buf_clear(&w->packed);
    uint8_t *dst = wr_buf_room(&w->packed, bound);
    if (!dst) return wr_nomem(err, "Parquet page", bound);
    size_t n = ZSTD_compress2(w->zstd, dst, bound, body.p, body.n);
    if (ZSTD_isError(n)) return wr_fail(err, WR_E_NOMEM, WR_RETRY_SOON, "zstd: %s", ZSTD_getErrorName(n));
    WR_TRY(page_header(w, type, values, encoding, body.n, n, wr_crc32(0, dst, n), err));
    seg->raw_bytes += w->header.n + body.n;
    seg->bytes += w->header.n + n;
    WR_TRY(out_put(w, wr_buf_view(&w->header), err));
    return out_put(w, wr_slice_of(dst, n), err);
}

static void page_begin(writer *w) {
    wr_buf_clear(&w->page);
    if (wr_buf_room(&w->page, w->gap)) w->page.n = w->gap;
    w->page_values = w->page_present = 0;
    wr_buf_clear(&w->defs);
    wr_buf_clear(&w->reps);
}

/* Levels of a list column and the values behind them, put together in `out`. */
static void list_body(writer *w, int max_def, wr_buf *out) {
    wr_buf *levels[] = {&w->reps, &w->defs};
    for (int i = 0; i < 2; i++) {
        size_t at = out->n;
        wr_buf_u32(out, 0);
        wr_hybrid(out, (const uint16_t *)levels[i]->p, w->page_values, i == 0 ? 1 : wr_width_of((uint32_t)max_def));
        uint32_t n = (uint32_t)(out->n - at - 4);
        if (!out->failed) memcpy(out->p + at, &n, 4);
    }
    wr_buf_put(out, w->page.p + w->gap, w->page.n - w->gap);
}

static wr_code page_end(writer *w, int col, segment *seg, int encoding, wr_err *err) {
    wr_type t = w->schema->cols[col].type;
    WR_AUTO_BUF wr_buf levels = WR_BUF_INIT;
    if (w->page_values == 0) return WR_OK;
    if (t.kind == WR_BOOL) wr_bits_pack(&w->page, w->gap);
    WR_TRY(wr_buf_check(&w->page, "Parquet page", err));
    wr_slice body = {w->page.p + w->gap, w->page.n - w->gap};
    if (t.kind == WR_FLOATS) {
        list_body(w, w->required[col] ? 1 : 2, &levels);
        body = wr_buf_view(&levels);
    } else if (!w->required[col]) {
        wr_buf_u32(&levels, 0);
        wr_hybrid_bits(&levels, w->levels, w->page_values, w->page_present);
        uint32_t n = (uint32_t)levels.n - 4;
        assert(levels.n <= w->gap);
        if (!levels.failed) {
            memcpy(levels.p, &n, 4);
            body.p -= levels.n, body.n += levels.n;
            memcpy((uint8_t *)body.p, levels.p, levels.n);
        }
    }
    WR_TRY(wr_buf_check(&levels, "Parquet levels", err));
    if (!seg->data_pages++) seg->data_at = w->at;
    seg->values += w->page_values;
    WR_TRY(page_put(w, seg, PAGE_DATA, w->page_values, encoding, body, err));
    page_begin(w);
    return WR_OK;
}

/* ------------------------------------------------------------------ long values */
static wr_code write_at(const writer *w, uint64_t at, const uint8_t *p, size_t n, wr_err *err) {
    for (size_t done = 0; done < n;) {
        ssize_t k = pwrite(w->fd, p + done, n - done, (off_t)(at + done));
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return file_fail(w, "write", errno, err);
        done += (size_t)k;
    }
    return WR_OK;
}

/* Moves n bytes of the file to the front. */
static wr_code move_back(writer *w, uint64_t from, uint64_t to, uint64_t n, wr_err *err) {
    for (uint64_t done = 0; done < n && from != to;) {
        size_t most = n - done < OUT_BYTES ? (size_t)(n - done) : OUT_BYTES;
        ssize_t k = pread(w->fd, w->packed.p, most, (off_t)(from + done));
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return file_fail(w, "read", k ? errno : EIO, err);
        WR_TRY(write_at(w, to + done, w->packed.p, (size_t)k, err));
        done += (size_t)k;
    }
    return WR_OK;
}

typedef struct packing { /* of a page, from `at` of the file on */
    uint64_t at;
    size_t n;
    uint32_t crc;
} packing;

static wr_code pack(writer *w, packing *k, wr_slice s, ZSTD_EndDirective how, wr_err *err) {
    ZSTD_inBuffer in = {s.p, s.n, 0};
    for (size_t left = 1; left && (in.pos < in.size || how == ZSTD_e_end);) {
        ZSTD_outBuffer out = {w->packed.p, OUT_BYTES, 0};
        left = ZSTD_compressStream2(w->zstd, &out, &in, how);
        if (ZSTD_isError(left)) return wr_fail(err, WR_E_NOMEM, WR_RETRY_SOON, "zstd: %s", ZSTD_getErrorName(left));
        if (how == ZSTD_e_continue) left = 1;
        k->crc = wr_crc32(k->crc, w->packed.p, out.pos);
        WR_TRY(write_at(w, k->at + k->n, w->packed.p, out.pos, err));
        k->n += out.pos;
    }
    return WR_OK;
}

/* A page of one value. Its header says how long it is when compressed, in as many bytes as that takes: the page is written behind the longest header, and moved if that was too long. */
static wr_code long_put(writer *w, int col, segment *seg, wr_slice value, wr_err *err) {
    WR_AUTO_BUF wr_buf head = WR_BUF_INIT; /* what is in front of the value: levels, length */
    packing k = {0};
    if (!w->required[col]) {
        wr_buf_u32(&head, 0);
        wr_hybrid_bits(&head, &(uint64_t){1}, 1, 1);
        uint32_t levels = (uint32_t)head.n - 4;
        if (!head.failed) memcpy(head.p, &levels, 4);
    }
    wr_buf_u32(&head, (uint32_t)value.n);
    WR_TRY(wr_buf_check(&head, "Parquet levels", err));
    wr_buf_clear(&w->packed);
    if (!wr_buf_room(&w->packed, OUT_BYTES)) return wr_nomem(err, "Parquet page", OUT_BYTES);
    size_t raw = head.n + value.n, longest;
    WR_TRY(out_flush(w, err));
    WR_TRY(page_header(w, PAGE_DATA, 1, ENC_PLAIN, raw, ZSTD_compressBound(raw), (uint32_t)INT32_MIN, err));
    longest = w->header.n;
    k.at = w->at + longest;
    ZSTD_CCtx_reset(w->zstd, ZSTD_reset_session_only);
    ZSTD_CCtx_setPledgedSrcSize(w->zstd, raw);
    WR_TRY(pack(w, &k, wr_buf_view(&head), ZSTD_e_continue, err));
    WR_TRY(pack(w, &k, value, ZSTD_e_end, err));
    WR_TRY(page_header(w, PAGE_DATA, 1, ENC_PLAIN, raw, k.n, k.crc, err));
    WR_TRY(move_back(w, k.at, w->at + w->header.n, k.n, err));
    WR_TRY(write_at(w, w->at, w->header.p, w->header.n, err));
    if (!seg->data_pages++) seg->data_at = w->at;
    seg->values++;
    seg->raw_bytes += w->header.n + raw, seg->bytes += w->header.n + k.n;
    w->at += w->header.n + k.n;
    if (ftruncate(w->fd, (off_t)w->at) || lseek(w->fd, (off_t)w->at, SEEK_SET) < 0) return file_fail(w, "write", errno, err);
    return WR_OK;
}

/* Whether some value among the dense ones is long. */
static bool has_long(const writer *w, const wr_dense *d) {
    if (w->b->widths[w->from_col] || !d->n || d->vec->offs[d->all ? d->n : d->sel[d->n - 1] + 1u] < LONG_BYTES) return false;
    for (uint32_t i = 0; i < d->n; i++)
        if (wr_dense_bytes(d, i).n >= LONG_BYTES) return true;
    return false;
}

/* ------------------------------------------------------------------ columns */

/* Puts n bits behind the `at` that are there. src NULL = ones. */
static void bits_append(uint64_t *dst, size_t at, const uint64_t *src, size_t n) {
    for (size_t i = 0; i < n; i += 64) {
        size_t part = n - i < 64 ? n - i : 64;
        uint64_t v = src ? src[i / 64] : ~UINT64_C(0);
        if (part < 64) v &= (UINT64_C(1) << part) - 1;
        size_t to = at + i, shift = to % 64;
        if (shift == 0)
            dst[to / 64] = v;
        else {
            dst[to / 64] |= v << shift;
            if (shift + part > 64) dst[to / 64 + 1] = v >> (64 - shift);
        }
    }
}

static uint32_t count_bits(const uint64_t *bits, uint32_t from, uint32_t to) {
    uint32_t n = 0;
    for (uint32_t i = from; i < to; i++) n += wr_bit(bits, i);
    return n;
}

/* Whether a dictionary pays for this column of the group; it is then in w->dict. */
static wr_code dict_build(writer *w, int col, const group *g, bool *ret_good, wr_err *err) {
    wr_type t = w->schema->cols[col].type;
    *ret_good = false;
    if (!wr_dict_suits(t)) return WR_OK;
    if (!wr_dict_reset(&w->dict, g->rows)) return wr_nomem(err, "Parquet dictionary", g->rows * 2);
    for (uint32_t i = g->from; i < g->to; i++) {
        wr_dense_of(w->b, w->b->chunks[i], w->from_col, w->dense);
        if (w->dense->n == 0) continue;
        wr_dict_verdict v = wr_dict_add(&w->dict, t, w->b->widths[w->from_col], w->dense);
        if (v == WR_DICT_NOMEM) return wr_nomem(err, "Parquet dictionary", w->dict.plain.n);
        if (v == WR_DICT_POOR) return WR_OK;
    }
    *ret_good = w->dict.entries > 0;
    return WR_OK;
}

/* Puts one chunk's column into the page, closing it as often as it gets large. */
static wr_code chunk_put(writer *w, int col, segment *seg, wr_err *err) {
    wr_type t = w->schema->cols[col].type;
    const wr_dense *d = w->dense;
    /* rows at a time so that long values do not make a huge page */
    uint32_t step = d->rows;
    bool longs = has_long(w, d);
    if (longs) step = 1;
    else if (!w->b->widths[w->from_col] && d->n) {
        uint64_t each = d->vec->offs[d->all ? d->n : d->sel[d->n - 1] + 1u] / d->rows + 1;
        if (each * step > PAGE_BYTES) step = PAGE_BYTES / each ? (uint32_t)(PAGE_BYTES / each) : 1;
    }
    for (uint32_t row = 0, k = 0; row < d->rows; row += step) {
        uint32_t end = row + step < d->rows ? row + step : d->rows;
        uint32_t present = d->n == d->rows              ? end - row
                           : row == 0 && end == d->rows ? d->n
                                                        : count_bits(d->valid, row, end);
        if (longs && present && wr_dense_bytes(d, k).n >= LONG_BYTES) {
            WR_TRY(page_end(w, col, seg, ENC_PLAIN, err));
            WR_TRY(long_put(w, col, seg, wr_dense_bytes(d, k++), err));
            continue;
        }
        if (d->n == d->rows)
            bits_append(w->levels, w->page_values, NULL, end - row);
        else if (row == 0)
            bits_append(w->levels, w->page_values, d->valid, end);
        else
            for (uint32_t i = row; i < end; i++) {
                uint64_t bit = wr_bit(d->valid, i);
                bits_append(w->levels, w->page_values + i - row, &bit, 1);
            }
        wr_plain(&w->page, t, d, k, k + present);
        k += present;
        w->page_values += end - row, w->page_present += present;
        if (w->page.n - w->gap >= PAGE_BYTES) WR_TRY(page_end(w, col, seg, ENC_PLAIN, err));
    }
    return WR_OK;
}

static wr_code list_put(writer *w, int col, segment *seg, wr_err *err) {
    const wr_dense *d = w->dense;
    int max_def = w->required[col] ? 1 : 2;
    for (uint32_t row = 0, k = 0; row < d->rows; row++) {
        bool there = d->n == d->rows || wr_bit(d->valid, row);
        wr_slice s = there ? wr_dense_bytes(d, k++) : (wr_slice){0};
        uint32_t n = (uint32_t)(s.n / 4), entries = n ? n : 1;
        uint16_t *def = (uint16_t *)wr_buf_room(&w->defs, entries * 2),
                 *rep = (uint16_t *)wr_buf_room(&w->reps, entries * 2);
        if (!def || !rep) return wr_nomem(err, "Parquet levels", entries * 2);
        for (uint32_t i = 0; i < entries; i++) {
            def[i] = (uint16_t)(n ? max_def : there ? max_def - 1 : 0);
            rep[i] = i > 0;
        }
        w->defs.n += entries * 2, w->reps.n += entries * 2;
        if (n) wr_buf_put(&w->page, s.p, s.n);
        w->page_values += entries, w->page_present += n;
        if (w->page.n - w->gap + w->defs.n >= PAGE_BYTES) WR_TRY(page_end(w, col, seg, ENC_PLAIN, err));
    }
    return WR_OK;
}

static wr_code filter_begin(writer *w, uint64_t rows, wr_err *err) {
    return wr_bloom_reset(&w->bloom, rows) ? WR_OK : wr_nomem(err, "Bloom filter", rows);
}

static void filter_end(writer *w, segment *seg) {
    wr_bloom_fold(&w->bloom);
    seg->bloom_at = w->filters.n;
    wr_bloom_put(&w->bloom, &w->filters);
    seg->bloom_bytes = w->filters.n - seg->bloom_at;
}

/* Behind the columns of their group, so that no more than one group's have to be kept. */
static wr_code filters_put(writer *w, segment *segs, wr_err *err) {
    WR_TRY(wr_buf_check(&w->filters, "Bloom filters", err));
    for (int i = 0; i < w->schema->ncols; i++)
        if (segs[i].bloom_bytes) segs[i].bloom_at += w->at;
    WR_TRY(out_put(w, wr_buf_view(&w->filters), err));
    wr_buf_clear(&w->filters);
    return WR_OK;
}

static wr_code column_write(writer *w, int col, const group *g, segment *seg, wr_err *err) {
    wr_type t = w->schema->cols[col].type;
    bool dict, bloom = w->blooms[col] && g->rows >= BLOOM_ROWS;
    if (bloom) WR_TRY(filter_begin(w, g->rows, err));
    WR_TRY(dict_build(w, col, g, &dict, err));
    unsigned width = dict ? wr_width_of(w->dict.entries - 1) : 0;
    if (dict) {
        seg->dict_at = w->at;
        WR_TRY(page_put(w, seg, PAGE_DICTIONARY, w->dict.entries, ENC_PLAIN, wr_buf_view(&w->dict.plain), err));
        if (bloom) wr_bloom_add_dict(&w->bloom, t, &w->dict);
    }
    page_begin(w);
    for (uint32_t i = g->from; i < g->to; i++) {
        wr_dense_of(w->b, w->b->chunks[i], w->from_col, w->dense);
        wr_range_add(&seg->range, t, w->dense);
        if (bloom && !dict) wr_bloom_add(&w->bloom, t, w->dense);
        if (t.kind == WR_FLOATS) {
            WR_TRY(list_put(w, col, seg, err));
        } else if (!dict) {
            WR_TRY(chunk_put(w, col, seg, err));
        } else { /* all indexes make one page */
            bits_append(w->levels, w->page_values, w->dense->n == w->dense->rows ? NULL : w->dense->valid,
                        w->dense->rows);
            w->page_values += w->dense->rows, w->page_present += w->dense->n;
        }
    }
    if (bloom) filter_end(w, seg);
    if (dict) {
        wr_buf_u8(&w->page, (uint8_t)width);
        wr_hybrid(&w->page, w->dict.indexes, w->dict.n, width);
    }
    return page_end(w, col, seg, dict ? ENC_RLE_DICTIONARY : ENC_PLAIN, err);
}

/* ------------------------------------------------------------------ footer */

static int physical(wr_type t) {
    switch ((wr_kind)t.kind) {
    case WR_BOOL:
        return TYPE_BOOLEAN;
    case WR_INT:
    case WR_DATE:
        return TYPE_INT32;
    case WR_LONG:
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ:
        return TYPE_INT64;
    case WR_FLOAT:
    case WR_FLOATS:
        return TYPE_FLOAT;
    case WR_DOUBLE:
        return TYPE_DOUBLE;
    case WR_DECIMAL:
        return t.precision <= 9 ? TYPE_INT32 : t.precision <= 18 ? TYPE_INT64 : TYPE_FIXED;
    case WR_STRING:
    case WR_BINARY:
        return TYPE_BYTE_ARRAY;
    }
    return TYPE_BYTE_ARRAY;
}

static void empty_struct(wr_th *t, int id) {
    wr_th s = wr_th_struct(t, id);
    wr_th_end(&s);
}

/* SchemaElement.logicalType (field 10), a union */
static void logical_put(wr_th *el, wr_type t) {
    wr_th u, s;
    switch ((wr_kind)t.kind) {
    case WR_STRING:
        u = wr_th_struct(el, 10), empty_struct(&u, LOGICAL_STRING), wr_th_end(&u);
        break;
    case WR_DATE:
        u = wr_th_struct(el, 10), empty_struct(&u, LOGICAL_DATE), wr_th_end(&u);
        break;
    case WR_FLOATS:
        u = wr_th_struct(el, 10), empty_struct(&u, LOGICAL_LIST), wr_th_end(&u);
        break;
    case WR_DECIMAL:
        u = wr_th_struct(el, 10);
        s = wr_th_struct(&u, LOGICAL_DECIMAL);
        wr_th_i32(&s, 1, t.scale), wr_th_i32(&s, 2, t.precision);
        wr_th_end(&s), wr_th_end(&u);
        break;
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ:
        u = wr_th_struct(el, 10);
        s = wr_th_struct(&u, LOGICAL_TIMESTAMP);
        wr_th_bool(&s, 1, t.kind == WR_TIMESTAMPTZ);
        wr_th unit = wr_th_struct(&s, 2);
        empty_struct(&unit, 2); /* microseconds */
        wr_th_end(&unit), wr_th_end(&s), wr_th_end(&u);
        break;
    default:
        break;
    }
}

static int converted(wr_type t) {
    switch ((wr_kind)t.kind) {
    case WR_STRING:
        return CONVERTED_UTF8;
    case WR_DATE:
        return CONVERTED_DATE;
    case WR_DECIMAL:
        return CONVERTED_DECIMAL;
    case WR_FLOATS:
        return CONVERTED_LIST;
    case WR_TIMESTAMPTZ:
        return CONVERTED_TIMESTAMP_MICROS; /* always meant an instant: none for wall clocks */
    default:
        return -1;
    }
}

static void element_put(wr_buf *b, wr_type t, int repetition, const char *name, int32_t id) {
    wr_th el = {b, 0};
    bool group_of = t.kind == WR_FLOATS;
    int conv = converted(t);
    if (!group_of) wr_th_i32(&el, 1, physical(t));
    if (physical(t) == TYPE_FIXED) wr_th_i32(&el, 2, wr_decimal_fixed(t.precision));
    wr_th_i32(&el, 3, repetition);
    wr_th_str(&el, 4, name);
    if (group_of) wr_th_i32(&el, 5, 1);
    if (conv >= 0) wr_th_i32(&el, 6, conv);
    if (t.kind == WR_DECIMAL) wr_th_i32(&el, 7, t.scale), wr_th_i32(&el, 8, t.precision);
    wr_th_i32(&el, 9, id);
    logical_put(&el, t);
    wr_th_end(&el);
}

static void schema_put(writer *w, wr_th *file) {
    const wr_schema *s = w->schema;
    size_t n = 1;
    for (int i = 0; i < s->ncols; i++) n += s->cols[i].type.kind == WR_FLOATS ? 3 : 1;
    wr_th_list(file, 2, WR_TH_STRUCT, n);
    wr_th root = {file->b, 0};
    wr_th_str(&root, 4, "table");
    wr_th_i32(&root, 5, s->ncols);
    wr_th_end(&root);
    for (int i = 0; i < s->ncols; i++) {
        const wr_column *c = &s->cols[i];
        element_put(file->b, c->type, w->required[i] ? REPEAT_REQUIRED : REPEAT_OPTIONAL, c->name, c->id);
        if (c->type.kind != WR_FLOATS) continue;
        wr_th list = {file->b, 0};
        wr_th_i32(&list, 3, REPEAT_REPEATED);
        wr_th_str(&list, 4, "list");
        wr_th_i32(&list, 5, 1);
        wr_th_end(&list);
        element_put(file->b, (wr_type){.kind = WR_FLOAT}, REPEAT_REQUIRED, "element", WR_ELEMENT_ID_BASE + c->id);
    }
}

/* A bound in Parquet's own form: as Iceberg's, but decimals in their physical type. */
static uint8_t parquet_bound(wr_type t, const wr_range *r, bool upper, const wr_column_stats *s, uint8_t out[80]) {
    uint8_t n = upper ? s->upper_n : s->lower_n;
    memcpy(out, upper ? s->upper : s->lower, n);
    if (t.kind != WR_DECIMAL) return n;
    if (t.precision <= 18) {
        int64_t v = upper ? r->imax : r->imin;
        memcpy(out, &v, 8);
        return t.precision <= 9 ? 4 : 8;
    }
    uint8_t fixed = wr_decimal_fixed(t.precision), be[16];
    memset(be, out[0] & 0x80 ? 0xff : 0, sizeof be); /* sign-extend the minimal form */
    memcpy(be + 16 - n, out, n);
    memcpy(out, be + 16 - fixed, fixed);
    return fixed;
}

static void statistics_put(wr_th *meta, wr_type t, const wr_range *r) {
    wr_column_stats s = {0};
    uint8_t bound[80];
    wr_range_stats(r, t, &s);
    wr_th st = wr_th_struct(meta, 12);
    wr_th_i64(&st, 3, (int64_t)r->nulls);
    /* readers that sort NaN above everything would prune it away by a maximum that leaves it out */
    bool usable = s.has_lower && s.nans == 0;
    bool bytes = t.kind == WR_STRING || t.kind == WR_BINARY;
    bool zero = t.kind == WR_FLOAT || t.kind == WR_DOUBLE;
    wr_range wide = *r;
    if (usable && zero) { /* parquet.thrift: a zero bound must cover both zeroes */
        if (wide.fmin == 0) wide.fmin = -0.0;
        if (wide.fmax == 0) wide.fmax = 0.0;
        wr_range_stats(&wide, t, &s);
    }
    if (usable && s.has_upper) wr_th_binary(&st, 5, wr_slice_of(bound, parquet_bound(t, r, true, &s, bound)));
    if (usable) wr_th_binary(&st, 6, wr_slice_of(bound, parquet_bound(t, r, false, &s, bound)));
    if (usable && s.has_upper)
        wr_th_bool(&st, 7, !bytes || (r->smax.n == s.upper_n && !memcmp(r->smax.p, s.upper, s.upper_n)));
    if (usable) wr_th_bool(&st, 8, !bytes || r->smin.n == s.lower_n);
    wr_th_end(&st);
}

static void encoding_stat(wr_buf *b, int page, int encoding, uint32_t n) {
    wr_th e = {b, 0};
    wr_th_i32(&e, 1, page), wr_th_i32(&e, 2, encoding), wr_th_i32(&e, 3, (int32_t)n);
    wr_th_end(&e);
}

static void segment_put(writer *w, int col, const segment *seg, wr_buf *b) {
    const wr_column *c = &w->schema->cols[col];
    bool dict = seg->dict_at != 0, list = c->type.kind == WR_FLOATS;
    wr_th chunk = {b, 0};
    wr_th_i64(&chunk, 2, (int64_t)(dict ? seg->dict_at : seg->data_at));
    wr_th meta = wr_th_struct(&chunk, 3);
    wr_th_i32(&meta, 1, physical(c->type));
    wr_th_list(&meta, 2, WR_TH_I32, dict ? 3 : 2);
    wr_buf_varint(b, wr_th_zigzag(ENC_PLAIN)), wr_buf_varint(b, wr_th_zigzag(ENC_RLE));
    if (dict) wr_buf_varint(b, wr_th_zigzag(ENC_RLE_DICTIONARY));
    wr_th_list(&meta, 3, WR_TH_BINARY, list ? 3 : 1);
    wr_buf_str(b, c->name);
    if (list) wr_buf_str(b, "list"), wr_buf_str(b, "element");
    wr_th_i32(&meta, 4, CODEC_ZSTD);
    wr_th_i64(&meta, 5, (int64_t)seg->values);
    wr_th_i64(&meta, 6, (int64_t)seg->raw_bytes);
    wr_th_i64(&meta, 7, (int64_t)seg->bytes);
    wr_th_i64(&meta, 9, (int64_t)seg->data_at);
    if (dict) wr_th_i64(&meta, 11, (int64_t)seg->dict_at);
    statistics_put(&meta, c->type, &seg->range);
    wr_th_list(&meta, 13, WR_TH_STRUCT, dict ? 2 : 1);
    if (dict) encoding_stat(b, PAGE_DICTIONARY, ENC_PLAIN, 1);
    encoding_stat(b, PAGE_DATA, dict ? ENC_RLE_DICTIONARY : ENC_PLAIN, seg->data_pages);
    if (seg->bloom_bytes) wr_th_i64(&meta, 14, (int64_t)seg->bloom_at), wr_th_i32(&meta, 15, (int32_t)seg->bloom_bytes);
    wr_th_end(&meta);
    wr_th_end(&chunk);
}

static void group_put(writer *w, uint32_t g, wr_buf *b) {
    int ncols = w->schema->ncols;
    const segment *segs = &w->segs[(size_t)g * (size_t)ncols];
    uint64_t raw = 0, bytes = 0;
    wr_th rg = {b, 0};
    wr_th_list(&rg, 1, WR_TH_STRUCT, (size_t)ncols);
    for (int i = 0; i < ncols; i++) {
        segment_put(w, i, &segs[i], b);
        raw += segs[i].raw_bytes, bytes += segs[i].bytes;
    }
    wr_th_i64(&rg, 2, (int64_t)raw);
    wr_th_i64(&rg, 3, (int64_t)w->groups[g].rows);
    wr_th_i64(&rg, 5, (int64_t)(segs[0].dict_at ? segs[0].dict_at : segs[0].data_at));
    wr_th_i64(&rg, 6, (int64_t)bytes);
    if (g <= INT16_MAX) wr_th_i16(&rg, 7, (int16_t)g);
    wr_th_end(&rg);
}

static wr_code footer_write(writer *w, wr_err *err) {
    const wr_schema *s = w->schema;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_th f = {&b, 0};
    wr_th_i32(&f, 1, 1);
    schema_put(w, &f);
    wr_th_i64(&f, 3, (int64_t)w->rows);
    wr_th_list(&f, 4, WR_TH_STRUCT, w->ngroups);
    for (uint32_t g = 0; g < w->ngroups; g++) group_put(w, g, &b);
    if (w->metadata) {
        wr_th_list(&f, 5, WR_TH_STRUCT, 1);
        wr_th kv = {&b, 0};
        wr_th_str(&kv, 1, "iceberg.schema");
        wr_th_str(&kv, 2, w->metadata);
        wr_th_end(&kv);
    }
    wr_th_str(&f, 6, "weir version " WEIR_VERSION);
    wr_th_list(&f, 7, WR_TH_STRUCT, (size_t)s->ncols); /* without it min_value and max_value are void */
    for (int i = 0; i < s->ncols; i++) {
        wr_th order = {&b, 0};
        empty_struct(&order, 1);
        wr_th_end(&order);
    }
    wr_th_end(&f);
    size_t n = b.n;
    if (n > INT32_MAX)
        return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a footer of %zu bytes is above what Parquet allows", n);
    wr_buf_u32(&b, (uint32_t)n);
    wr_buf_put(&b, MAGIC, 4);
    WR_TRY(wr_buf_check(&b, "Parquet footer", err));
    return out_put(w, wr_buf_view(&b), err);
}

/* ------------------------------------------------------------------ all of it */
static void writer_free(writer *w) {
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (w->zstd) ZSTD_freeCCtx(w->zstd);
    wr_dict_free(&w->dict);
    wr_bloom_free(&w->bloom);
    for (size_t i = 0; w->segs && i < (size_t)w->ngroups * (size_t)w->schema->ncols; i++) wr_free(w->segs[i].text);
    wr_schema_unref(w->schema);
    wr_free(w->path), wr_free(w->metadata);
    wr_free(w->required), wr_free(w->blooms);
    wr_free(w->groups);
    wr_free(w->segs);
    wr_free(w->levels);
    wr_free(w->dense);
    wr_buf *bufs[] = {&w->out, &w->packed, &w->header, &w->filters, &w->page, &w->defs, &w->reps};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) wr_buf_free(bufs[i]);
    wr_free(w);
}

static wr_code group_room(writer *w, wr_err *err) {
    if (w->ngroups < w->groups_cap) return WR_OK;
    uint32_t cap = w->groups_cap ? w->groups_cap * 2 : 4;
    size_t bytes = (size_t)cap * (size_t)w->schema->ncols * sizeof(segment);
    group *g = wr_realloc(w->groups, cap * sizeof *g);
    if (g) w->groups = g;
    segment *s = g ? wr_realloc(w->segs, bytes ? bytes : 1) : NULL;
    if (!s) return wr_nomem(err, "Parquet row groups", bytes);
    w->segs = s, w->groups_cap = cap;
    return WR_OK;
}

/* Row groups are whole chunks; those without a live row fall away. */
static wr_code groups_cut(writer *w, uint64_t *ret_most, wr_err *err) {
    size_t ncols = (size_t)w->schema->ncols;
    group g = {0};
    *ret_most = 1;
    for (uint32_t i = 0; i < w->b->nchunks; i++) {
        g.to = i + 1;
        g.rows += w->b->chunks[i]->rows - w->b->chunks[i]->ndead;
        if (!g.rows || (g.rows < w->group_rows && i + 1 < w->b->nchunks)) continue;
        WR_TRY(group_room(w, err));
        memset(w->segs + w->ngroups * ncols, 0, ncols * sizeof *w->segs);
        if (g.rows > *ret_most) *ret_most = g.rows;
        w->groups[w->ngroups++] = g;
        g = (group){.from = i + 1};
    }
    return WR_OK;
}

static bool column_has_null(const wr_batch *b, int col) {
    for (uint32_t i = 0; i < b->nchunks; i++)
        if (b->chunks[i]->vecs[col].has_null) return true;
    return false;
}

/* What is in the batch decides whether a column can be required; without one (more may come), its part in the key. */
static wr_code columns_begin(writer *w, const wr_batch *whole, const wr_parquet_options *o, wr_err *err) {
    size_t ncols = (size_t)w->schema->ncols;
    w->required = wr_calloc(ncols + 1, sizeof *w->required);
    w->blooms = wr_calloc(ncols + 1, sizeof *w->blooms);
    if (!w->required || !w->blooms) return wr_nomem(err, "Parquet writer", ncols);
    for (int i = 0; o && i < o->nbloom; i++) w->blooms[o->bloom[i]] = wr_bloom_suits(w->schema->cols[o->bloom[i]].type);
    for (size_t i = 0; i < ncols; i++) {
        const wr_column *c = &w->schema->cols[i];
        w->required[i] = !c->nullable && (whole ? !column_has_null(whole, (int)i) : c->key_ord > 0);
    }
    return WR_OK;
}

static wr_code zstd_begin(writer *w, wr_err *err) {
    w->dense = wr_malloc(sizeof *w->dense);
    w->zstd = ZSTD_createCCtx();
    if (!w->dense || !w->zstd) return wr_nomem(err, "Parquet writer", sizeof *w->dense);
    size_t bad = ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, w->level);
    if (!ZSTD_isError(bad)) bad = ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_checksumFlag, 1);
    if (ZSTD_isError(bad))
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "zstd level %d: %s", w->level, ZSTD_getErrorName(bad));
    return WR_OK;
}

static wr_code begin(writer *w, const wr_schema *schema, const wr_batch *whole, const wr_parquet_options *o,
                     wr_err *err) {
    w->level = o && o->zstd_level ? o->zstd_level : 1;
    w->group_rows = o && o->row_group_rows ? o->row_group_rows : GROUP_ROWS;
    w->schema = wr_schema_ref(schema);
    if (o && o->metadata && !(w->metadata = wr_strdup(o->metadata))) return wr_nomem(err, "Parquet writer", 64);
    WR_TRY(columns_begin(w, whole, o, err));
    WR_TRY(zstd_begin(w, err));
    w->fd = open(w->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0) return file_fail(w, "open", errno, err);
    w->created = true;
    return out_put(w, wr_slice_of(MAGIC, 4), err);
}

static wr_code writer_open(const wr_schema *schema, const wr_batch *whole, const char *path,
                           const wr_parquet_options *opts, writer **ret, wr_err *err) {
    writer *w = wr_calloc(1, sizeof *w);
    if (!w) return wr_nomem(err, "Parquet writer", sizeof *w);
    w->fd = -1;
    wr_code rc = (w->path = wr_strdup(path)) ? begin(w, schema, whole, opts, err) : wr_nomem(err, "path", 256);
    if (rc != WR_OK) return wr_parquet_writer_abandon(w), wr_err_in(err, "write %s", path);
    *ret = w;
    return WR_OK;
}

/* The batch goes; what the footer needs of its texts stays. */
static wr_code segment_own(segment *seg, wr_type t, wr_err *err) {
    wr_range *r = &seg->range;
    if ((t.kind != WR_STRING && t.kind != WR_BINARY) || !r->any) return WR_OK;
    if (r->smin.n > BOUND_BYTES) r->smin.n = BOUND_BYTES;
    if (r->smax.n > BOUND_BYTES) r->smax.n = BOUND_BYTES;
    if (!(seg->text = wr_malloc(r->smin.n + r->smax.n + 1))) return wr_nomem(err, "statistics", 2 * BOUND_BYTES);
    if (r->smin.n) memcpy(seg->text, r->smin.p, r->smin.n);
    if (r->smax.n) memcpy(seg->text + r->smin.n, r->smax.p, r->smax.n);
    r->smin.p = seg->text, r->smax.p = seg->text + r->smin.n;
    return WR_OK;
}

/* Room for the levels of a page that has all rows of a group. */
static wr_code levels_begin(writer *w, uint64_t rows, wr_err *err) {
    wr_free(w->levels);
    w->levels = wr_calloc(rows / 64 + 2, sizeof *w->levels);
    if (!w->levels) return wr_nomem(err, "Parquet writer", rows / 8);
    w->gap = rows / 8 + 16; /* length, run header, a bit per row */
    return WR_OK;
}

static wr_code segment_write(writer *w, int col, const group *g, segment *seg, wr_err *err) {
    wr_code rc = column_write(w, col, g, seg, err);
    if (rc == WR_OK) rc = segment_own(seg, w->schema->cols[col].type, err);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "column %s", w->schema->cols[col].name);
}

static wr_code add(writer *w, const wr_batch *b, wr_err *err) {
    size_t ncols = (size_t)w->schema->ncols;
    uint32_t from = w->ngroups;
    uint64_t most;
    for (int i = 0; i < w->schema->ncols; i++)
        if (w->required[i] && column_has_null(b, i))
            return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "column %s is required and null in a row", w->schema->cols[i].name);
    w->b = b;
    WR_TRY(groups_cut(w, &most, err));
    WR_TRY(levels_begin(w, most, err));
    for (uint32_t g = from; g < w->ngroups; g++) {
        for (w->from_col = 0; w->from_col < w->schema->ncols; w->from_col++)
            WR_TRY(segment_write(w, w->from_col, &w->groups[g], &w->segs[g * ncols + (size_t)w->from_col], err));
        WR_TRY(filters_put(w, &w->segs[g * ncols], err));
        w->rows += w->groups[g].rows;
    }
    w->b = NULL;
    return WR_OK;
}

static wr_code stats_collect(const writer *w, wr_parquet_file *f, wr_err *err) {
    const wr_schema *s = w->schema;
    f->ncols = s->ncols;
    f->rows = w->rows;
    f->bytes = w->at;
    f->nsplits = (int)w->ngroups;
    f->cols = wr_calloc((size_t)s->ncols, sizeof *f->cols);
    f->splits = wr_calloc(w->ngroups + 1u, sizeof *f->splits);
    if (!f->cols || !f->splits) return wr_nomem(err, "statistics", (size_t)s->ncols * sizeof *f->cols);
    for (uint32_t g = 0; g < w->ngroups; g++) {
        const segment *first = &w->segs[(size_t)g * (size_t)s->ncols];
        f->splits[g] = (int64_t)(first->dict_at ? first->dict_at : first->data_at);
    }
    for (int i = 0; i < s->ncols; i++) {
        wr_type t = s->cols[i].type;
        wr_range r = {0};
        f->cols[i].field_id = s->cols[i].id + (t.kind == WR_FLOATS ? WR_ELEMENT_ID_BASE : 0);
        for (uint32_t g = 0; g < w->ngroups; g++) {
            const segment *seg = &w->segs[(size_t)g * (size_t)s->ncols + (size_t)i];
            wr_range_merge(&r, t, &seg->range);
            f->cols[i].bytes += seg->bytes;
        }
        wr_range_stats(&r, t, &f->cols[i]);
    }
    return WR_OK;
}

void wr_parquet_file_clear(wr_parquet_file *f) {
    wr_free(f->cols);
    wr_free(f->splits);
    *f = (wr_parquet_file){0};
}

wr_code wr_parquet_writer_open(const wr_schema *schema, const char *path, const wr_parquet_options *opts,
                               wr_parquet_writer **ret_writer, wr_err *err) {
    return writer_open(schema, NULL, path, opts, ret_writer, err);
}

void wr_parquet_writer_abandon(wr_parquet_writer *w) {
    if (w && w->created) unlink(w->path);
    writer_free(w);
}

wr_code wr_parquet_writer_add(wr_parquet_writer *w, const wr_batch *b, wr_err *err) {
    return add(w, b, err) == WR_OK ? WR_OK : wr_err_in(err, "write %s", w->path);
}

uint64_t wr_parquet_writer_bytes(const wr_parquet_writer *w) { return w->at; }

wr_code wr_parquet_writer_close(wr_parquet_writer *w, wr_parquet_file *ret_file, wr_err *err) {
    wr_parquet_file f = {0};
    wr_code rc = footer_write(w, err);
    if (rc == WR_OK) rc = out_flush(w, err);
    if (rc == WR_OK && fsync(w->fd)) rc = file_fail(w, "fsync", errno, err);
    if (rc == WR_OK) rc = stats_collect(w, &f, err);
    if (rc != WR_OK) {
        wr_err_in(err, "write %s", w->path);
        wr_parquet_file_clear(&f);
        wr_parquet_writer_abandon(w);
        return rc;
    }
    writer_free(w);
    *ret_file = f;
    return WR_OK;
}

/* A row group whose rows are gathered column by column, so that never more than one column of it is there twice. */
static wr_code group_in_order(writer *w, const wr_batch *b, const uint32_t *rows, uint32_t n, wr_err *err) {
    WR_TRY(group_room(w, err));
    segment *segs = w->segs + (size_t)w->ngroups * (size_t)w->schema->ncols;
    memset(segs, 0, (size_t)w->schema->ncols * sizeof *segs);
    group *g = &w->groups[w->ngroups++];
    *g = (group){.rows = n};
    WR_TRY(levels_begin(w, n, err));
    w->from_col = 0;
    for (int i = 0; i < w->schema->ncols; i++) {
        wr_batch *one;
        WR_TRY(wr_batch_pick(b, i, rows, n, &one, err));
        w->b = one, g->to = one->nchunks;
        wr_code rc = segment_write(w, i, g, &segs[i], err);
        w->b = NULL;
        wr_batch_free(one);
        WR_TRY(rc);
    }
    w->rows += n;
    return filters_put(w, segs, err);
}

static wr_code add_in_order(writer *w, const wr_batch *b, const uint32_t *rows, wr_err *err) {
    uint32_t live = wr_batch_live_rows(b), n;
    for (uint32_t at = 0; at < live; at += n) {
        n = live - at < w->group_rows ? live - at : (uint32_t)w->group_rows;
        if (group_in_order(w, b, rows + at, n, err) != WR_OK) return wr_err_in(err, "write %s", w->path);
    }
    return WR_OK;
}

wr_code wr_parquet_write(wr_engine *e, const wr_batch *b, const char *path, const wr_parquet_options *opts,
                         wr_parquet_file *ret_file, wr_err *err) {
    wr_parquet_writer *w;
    WR_TRY(writer_open(b->schema, b, path, opts, &w, err));
    wr_code rc = opts && opts->rows ? add_in_order(w, b, opts->rows, err) : wr_parquet_writer_add(w, b, err);
    if (rc != WR_OK) return wr_parquet_writer_abandon(w), rc;
    return wr_parquet_writer_close(w, ret_file, err);
}
