/* What the lake does with S3. */
#include "s3.h"
#include "s3_call.h"
#include "s3_xml.h"
#include "sigv4.h"
#include "sys.h"
#include "weir/base/mem.h"
#include "weir/io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    AT_ONCE = 64,          /* small requests prepared together */
    ANSWER_MIN = 64 << 10, /* room for an error where an answer is expected to be smaller */
    PARTS_MAX = 10000,     /* S3's limit */
    ETAG_MAX = 128,
};

static wr_code check_object(const wr_s3_object *o, wr_err *err) {
    if (o->bucket[0] && o->key[0]) return WR_OK;
    return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "s3://%.200s/%.400s names no object", o->bucket, o->key);
}

static wr_code run_one(wr_s3 *s, wr_s3_call *c, wr_err *err) {
    WR_TRY(wr_s3_run_(s, c, 1, err));
    if (c->code != WR_OK) *err = c->err;
    return c->code;
}

typedef struct calls {
    wr_s3_call *v;
    int n;
} calls;

static void calls_free(calls *l) {
    for (int i = 0; l->v && i < l->n; i++) wr_s3_call_clear_(&l->v[i]);
    wr_free(l->v);
}

static wr_code calls_new(calls *l, int n, wr_err *err) {
    l->v = wr_calloc((size_t)n, sizeof *l->v);
    l->n = n;
    return l->v ? WR_OK : wr_nomem(err, "S3 requests", (size_t)n * sizeof *l->v);
}

/* Digits and nothing else. */
static bool to_u64(const char *text, uint64_t *ret) {
    char *end;
    if (!text || text[0] < '0' || text[0] > '9') return false;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return errno == 0 && *end == 0;
}

static bool header_u64(const wr_http_response *r, const char *name, uint64_t *ret) {
    WR_AUTO char *text = wr_http_header(r, name);
    return to_u64(text, ret);
}

/* "bytes 0-99/200" */
static bool content_range(const wr_http_response *r, uint64_t *ret_first, uint64_t *ret_last, uint64_t *ret_total) {
    WR_AUTO char *text = wr_http_header(r, "Content-Range");
    if (!text || strncmp(text, "bytes ", 6) != 0) return false;
    char *dash = strchr(text + 6, '-'), *slash = strchr(text, '/');
    if (!dash || !slash || slash < dash) return false;
    *dash = *slash = 0;
    return to_u64(text + 6, ret_first) && to_u64(dash + 1, ret_last) && to_u64(slash + 1, ret_total);
}

static wr_code decode_fail(const wr_s3_object *o, wr_err *err, const char *what) {
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "s3://%.200s/%.400s: %s", o->bucket, o->key, what);
}

/* ---- reading */

/* Bytes `at` .. `at + n - 1` of the object as an answer holds them. */
static wr_code range_of(const wr_s3_call *c, uint64_t at, uint64_t n, wr_slice *ret, wr_err *err) {
    uint64_t first = 0, last, total;
    wr_slice body = wr_buf_view(&c->resp.body);
    if (c->resp.status == 206 &&
        (!content_range(&c->resp, &first, &last, &total) || first != at || last - first + 1 != body.n))
        return decode_fail(c->o, err, "the answer holds other bytes than those asked for");
    if (at - first > body.n || n > body.n - (at - first))
        return decode_fail(c->o, err, "the object ends before the range that is asked for");
    *ret = wr_slice_of(body.p ? body.p + (at - first) : NULL, (size_t)n);
    return WR_OK;
}

static void ask_range(wr_s3_call *c, char text[64], uint64_t at, uint64_t n) {
    snprintf(text, 64, "bytes=%llu-%llu", (unsigned long long)at, (unsigned long long)(at + n - 1));
    c->range = text;
    c->max_response = n > ANSWER_MIN ? (size_t)n : ANSWER_MIN;
}

static wr_code append(wr_buf *b, wr_slice s, wr_err *err) {
    wr_buf_put(b, s.p, s.n);
    return wr_buf_check(b, "an object", err);
}

static wr_code get_all(wr_s3 *s, const wr_s3_object *o, size_t max_bytes, wr_buf *b, wr_err *err) {
    WR_CLEANUP(wr_s3_call_clear_)
    wr_s3_call c = {.method = "GET", .o = o, .max_response = max_bytes > ANSWER_MIN ? max_bytes : ANSWER_MIN};
    WR_TRY(run_one(s, &c, err));
    if (c.resp.body.n > max_bytes)
        return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "s3://%.200s/%.400s has %zu bytes, %zu are allowed", o->bucket,
                       o->key, c.resp.body.n, max_bytes);
    return append(b, wr_buf_view(&c.resp.body), err);
}

wr_code wr_s3_get(wr_s3 *s, const wr_s3_object *o, uint64_t offset, uint64_t n, size_t max_bytes, wr_buf *b,
                  wr_err *err) {
    char range[64];
    wr_slice got;
    WR_TRY(check_object(o, err));
    if (offset == 0 && n == UINT64_MAX) return get_all(s, o, max_bytes, b, err);
    if (n == 0) return WR_OK;
    if (n > max_bytes || n > UINT64_MAX - offset)
        return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "s3://%.200s/%.400s: %llu bytes are asked for, %zu are allowed",
                       o->bucket, o->key, (unsigned long long)n, max_bytes);
    WR_CLEANUP(wr_s3_call_clear_) wr_s3_call c = {.method = "GET", .o = o};
    ask_range(&c, range, offset, n);
    wr_code rc = run_one(s, &c, err);
    if (c.resp.status == 416) return decode_fail(o, err, "the object ends before the range that is asked for");
    WR_TRY(rc);
    WR_TRY(range_of(&c, offset, n, &got, err));
    return append(b, got, err);
}

/* Pieces of part_bytes from `at` to `end` into the file, s->parallel at a time. */
static wr_code fetch_rest(wr_s3 *s, const wr_s3_object *o, uint64_t at, uint64_t end, wr_file *f, wr_err *err) {
    WR_AUTO char(*ranges)[64] = wr_calloc((size_t)s->parallel, sizeof *ranges);
    if (!ranges) return wr_nomem(err, "S3 requests", (size_t)s->parallel * sizeof *ranges);
    while (at < end) {
        WR_CLEANUP(calls_free) calls l = {0};
        uint64_t pieces = (end - at + s->part_bytes - 1) / s->part_bytes;
        WR_TRY(calls_new(&l, pieces < (uint64_t)s->parallel ? (int)pieces : s->parallel, err));
        for (int i = 0; i < l.n; i++) {
            uint64_t from = at + (uint64_t)i * s->part_bytes,
                     n = end - from < s->part_bytes ? end - from : s->part_bytes;
            l.v[i] = (wr_s3_call){.method = "GET", .o = o};
            ask_range(&l.v[i], ranges[i], from, n);
        }
        WR_TRY(wr_s3_run_(s, l.v, l.n, err));
        for (int i = 0; i < l.n; i++) {
            uint64_t n = end - at < s->part_bytes ? end - at : s->part_bytes;
            wr_slice got;
            if (l.v[i].code != WR_OK) return *err = l.v[i].err, err->code;
            WR_TRY(range_of(&l.v[i], at, n, &got, err));
            WR_TRY(wr_file_pwrite(f, at, got, err));
            at += n;
        }
    }
    return WR_OK;
}

/* The first piece says how large the object is. */
static wr_code fetch_file(wr_s3 *s, const wr_s3_object *o, wr_file *f, wr_err *err) {
    char range[64];
    uint64_t first, last, total;
    WR_CLEANUP(wr_s3_call_clear_) wr_s3_call c = {.method = "GET", .o = o};
    ask_range(&c, range, 0, s->part_bytes);
    wr_code rc = run_one(s, &c, err);
    if (c.resp.status == 416) return WR_OK; /* the object is empty */
    WR_TRY(rc);
    wr_slice got = wr_buf_view(&c.resp.body);
    if (c.resp.status != 206) return wr_file_pwrite(f, 0, got, err);
    if (!content_range(&c.resp, &first, &last, &total) || total > INT64_MAX)
        return decode_fail(o, err, "the answer does not say which bytes it holds");
    WR_TRY(range_of(&c, 0, total < s->part_bytes ? total : s->part_bytes, &got, err));
    WR_TRY(wr_file_pwrite(f, 0, got, err));
    return fetch_rest(s, o, got.n, total, f, err);
}

wr_code wr_s3_get_file(wr_s3 *s, const wr_s3_object *o, const char *path, wr_err *err) {
    wr_file *f;
    WR_TRY(check_object(o, err));
    WR_TRY(wr_file_open(path, WR_OPEN_CREATE, &f, err));
    wr_code rc = fetch_file(s, o, f, err);
    wr_file_close(f);
    if (rc != WR_OK) unlink(path);
    return rc;
}

/* ---- writing */

typedef struct content { /* of a new object: memory, or a file */
    wr_slice mem;
    const char *path;
    uint64_t n;
} content;

static wr_code compare_piece(const content *c, uint64_t at, wr_slice there, bool *ret_same, wr_err *err) {
    if (!c->path) {
        *ret_same = wr_slice_eq(there, wr_slice_of(c->mem.p ? c->mem.p + at : NULL, there.n));
        return WR_OK;
    }
    wr_file *f;
    size_t n = 0;
    WR_AUTO uint8_t *ours = wr_malloc(there.n);
    if (!ours) return wr_nomem(err, c->path, there.n);
    WR_TRY(wr_file_open(c->path, WR_OPEN_READ, &f, err));
    wr_code rc = wr_file_pread(f, at, ours, there.n, &n, err);
    wr_file_close(f);
    *ret_same = rc == WR_OK && wr_slice_eq(there, wr_slice_of(ours, n));
    return rc;
}

/* Where the ETag is no MD5 (encryption with keys of a service) nothing but the content itself tells. */
static wr_code compare_content(wr_s3 *s, const wr_s3_object *o, const content *c, bool *ret_same, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    *ret_same = true;
    for (uint64_t at = 0; at < c->n && *ret_same;) {
        uint64_t n = c->n - at < s->part_bytes ? c->n - at : s->part_bytes;
        wr_buf_clear(&b);
        WR_TRY(wr_s3_get(s, o, at, n, (size_t)n, &b, err));
        WR_TRY(compare_piece(c, at, wr_buf_view(&b), ret_same, err));
        at += n;
    }
    return WR_OK;
}

/* The server says that the object is there. It may be ours: an attempt whose answer was lost, or one before a crash.
 * `exists` is that error. */
static wr_code accept_own(wr_s3 *s, const wr_s3_object *o, const content *c, const char *etag, const wr_err *exists,
                          wr_err *err) {
    WR_CLEANUP(wr_s3_call_clear_) wr_s3_call head = {.method = "HEAD", .o = o, .max_response = ANSWER_MIN};
    uint64_t n;
    bool same = false;
    WR_TRY(run_one(s, &head, err));
    if (!header_u64(&head.resp, "Content-Length", &n))
        return decode_fail(o, err, "the answer does not say how long the object is");
    if (n == c->n) {
        WR_AUTO char *there = wr_http_header(&head.resp, "ETag");
        if (there && strcmp(there, etag) == 0) return WR_OK;
        WR_TRY(compare_content(s, o, c, &same, err));
    }
    if (same) return WR_OK;
    *err = *exists;
    err->code = WR_E_EXISTS;
    return wr_err_cure(err, "an object with other content is there: two pipelines must not write to one table");
}

/* What S3 gives as the ETag of an object: the MD5 in quotes, with "-N" for N parts. */
static void etag_of(const uint8_t md5[16], int parts, char out[ETAG_MAX]) {
    char hex[33];
    snprintf(out, ETAG_MAX, parts ? "\"%s-%d\"" : "\"%s\"", wr_sigv4_hex(md5, 16, hex), parts);
}

static wr_code put_result(wr_s3 *s, const wr_s3_call *c, const content *data, wr_err *err) {
    char etag[ETAG_MAX];
    if (c->code == WR_OK) return WR_OK;
    if (c->resp.status != 412) return *err = c->err, c->code;
    etag_of(c->digest.md5, 0, etag);
    return accept_own(s, c->o, data, etag, &c->err, err);
}

static wr_code put_some(wr_s3 *s, const wr_s3_object *o, const wr_slice *data, int n, wr_err *err) {
    WR_CLEANUP(calls_free) calls l = {0};
    WR_TRY(calls_new(&l, n, err));
    for (int i = 0; i < n; i++) {
        WR_TRY(check_object(&o[i], err));
        l.v[i] = (wr_s3_call){.method = "PUT", .o = &o[i], .if_absent = true, .has_body = true, .body = data[i]};
        WR_TRY(wr_s3_digest_mem_(data[i], &l.v[i].digest, err));
    }
    WR_TRY(wr_s3_run_(s, l.v, n, err));
    for (int i = 0; i < n; i++) {
        content c = {.mem = data[i], .n = data[i].n};
        WR_TRY(put_result(s, &l.v[i], &c, err));
    }
    return WR_OK;
}

wr_code wr_s3_put_many(wr_s3 *s, const wr_s3_object *o, const wr_slice *data, int n, wr_err *err) {
    for (int at = 0; at < n; at += AT_ONCE)
        WR_TRY(put_some(s, o + at, data + at, n - at < AT_ONCE ? n - at : AT_ONCE, err));
    return WR_OK;
}

/* An upload in parts. */
typedef struct upload {
    wr_s3 *s;
    const wr_s3_object *o;
    content data;
    uint64_t part_bytes;
    int parts;
    bool completed;          /* as the server says, in so many words */
    char *id;                /* encoded for a query */
    char (*etags)[ETAG_MAX]; /* of each part, as the server gave them */
    uint8_t (*md5s)[16];
} upload;

static void upload_free(upload *u) {
    wr_free(u->id);
    wr_free(u->etags);
    wr_free(u->md5s);
}

static wr_code take_upload_id(void *ctx, const char *path, const char *text, wr_err *err) {
    upload *u = ctx;
    if (strcmp(path, "InitiateMultipartUploadResult/UploadId") != 0 || !text[0] || u->id) return WR_OK;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_sigv4_encode(&b, text, false);
    const char *id = wr_buf_cstr(&b);
    u->id = id ? wr_strdup(id) : NULL;
    return u->id ? WR_OK : wr_nomem(err, "S3 upload", b.n);
}

static wr_code upload_begin(upload *u, wr_err *err) {
    WR_CLEANUP(wr_s3_call_clear_)
    wr_s3_call c = {.method = "POST", .o = u->o, .query = "uploads=", .has_body = true};
    WR_TRY(run_one(u->s, &c, err));
    WR_TRY(wr_s3_xml_read(wr_buf_view(&c.resp.body), take_upload_id, u, err));
    return u->id ? WR_OK : decode_fail(u->o, err, "the answer has no upload id");
}

static wr_code part_prepare(upload *u, int part, wr_s3_call *c, char **ret_query, wr_err *err) {
    uint64_t at = (uint64_t)part * u->part_bytes, n = u->data.n - at < u->part_bytes ? u->data.n - at : u->part_bytes;
    *c = (wr_s3_call){
        .method = "PUT", .o = u->o, .has_body = true, .body_file = u->data.path, .body_at = at, .body_n = n};
    WR_TRY(wr_s3_digest_file_(u->data.path, at, n, &c->digest, err));
    memcpy(u->md5s[part], c->digest.md5, 16);
    c->query = *ret_query = wr_asprintf("partNumber=%d&uploadId=%s", part + 1, u->id);
    return c->query ? WR_OK : wr_nomem(err, "S3 upload", 64);
}

static wr_code part_result(upload *u, int part, const wr_s3_call *c, wr_err *err) {
    if (c->code != WR_OK) return *err = c->err, wr_err_in(err, "part %d of %d", part + 1, u->parts);
    WR_AUTO char *etag = wr_http_header(&c->resp, "ETag");
    if (!etag || !etag[0] || strlen(etag) >= ETAG_MAX || strpbrk(etag, "<>&"))
        return decode_fail(u->o, err, "the answer for a part has no ETag");
    memcpy(u->etags[part], etag, strlen(etag) + 1);
    return WR_OK;
}

typedef struct queries {
    char **v;
    int n;
} queries;

static void queries_free(queries *q) {
    for (int i = 0; q->v && i < q->n; i++) wr_free(q->v[i]);
    wr_free(q->v);
}

/* s->parallel of them: their hashes are made, then they go. */
static wr_code upload_parts(upload *u, int from, int n, wr_err *err) {
    WR_CLEANUP(calls_free) calls l = {0};
    WR_CLEANUP(queries_free) queries q = {.v = wr_calloc((size_t)n, sizeof *q.v), .n = n};
    if (!q.v) return wr_nomem(err, "S3 upload", (size_t)n * sizeof *q.v);
    WR_TRY(calls_new(&l, n, err));
    for (int i = 0; i < n; i++) WR_TRY(part_prepare(u, from + i, &l.v[i], &q.v[i], err));
    WR_TRY(wr_s3_run_(u->s, l.v, n, err));
    for (int i = 0; i < n; i++) WR_TRY(part_result(u, from + i, &l.v[i], err));
    return WR_OK;
}

static wr_code take_root(void *ctx, const char *path, const char *text, wr_err *err) {
    if (strcmp(path, "CompleteMultipartUploadResult") == 0) *(bool *)ctx = true;
    return WR_OK;
}

/* The answer that was lost may have been the good one: then the upload is gone and the object is there. */
static wr_code upload_result(upload *u, const wr_s3_call *c, wr_err *err) {
    wr_s3_digest all;
    char etag[ETAG_MAX];
    bool done = false;
    if (c->code == WR_OK) {
        WR_TRY(wr_s3_xml_read(wr_buf_view(&c->resp.body), take_root, &done, err));
        u->completed = done;
        return done ? WR_OK : decode_fail(u->o, err, "the answer does not say that the upload is complete");
    }
    if (c->resp.status != 412 && !(c->resp.status == 404 && c->maybe_done)) return *err = c->err, c->code;
    WR_TRY(wr_s3_digest_mem_(wr_slice_of(u->md5s, (size_t)u->parts * 16), &all, err));
    etag_of(all.md5, u->parts, etag);
    return accept_own(u->s, u->o, &u->data, etag, &c->err, err);
}

static wr_code upload_complete(upload *u, wr_err *err) {
    WR_AUTO_BUF wr_buf xml = WR_BUF_INIT;
    WR_AUTO char *query = wr_asprintf("uploadId=%s", u->id);
    wr_buf_printf(&xml, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (int i = 0; i < u->parts; i++)
        wr_buf_printf(&xml, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i + 1, u->etags[i]);
    wr_buf_printf(&xml, "</CompleteMultipartUpload>");
    if (!query || xml.failed) return wr_nomem(err, "S3 upload", xml.n);
    WR_CLEANUP(wr_s3_call_clear_)
    wr_s3_call c = {.method = "POST",
                    .o = u->o,
                    .query = query,
                    .if_absent = true,
                    .has_body = true,
                    .body = wr_buf_view(&xml),
                    .error_in_200 = true};
    WR_TRY(wr_s3_digest_mem_(c.body, &c.digest, err));
    WR_TRY(wr_s3_run_(u->s, &c, 1, err));
    return upload_result(u, &c, err);
}

/* Parts of an upload that is neither completed nor aborted are paid for, and seen by nobody. The first error stays the
 * error. */
static void upload_abort(upload *u, wr_err *err) {
    wr_err second = WR_ERR_INIT;
    WR_AUTO char *query = wr_asprintf("uploadId=%s", u->id);
    WR_CLEANUP(wr_s3_call_clear_)
    wr_s3_call c = {.method = "DELETE", .o = u->o, .query = query, .max_response = ANSWER_MIN};
    wr_code rc = query ? run_one(u->s, &c, &second) : wr_nomem(&second, "S3 upload", 64);
    if (rc != WR_OK && rc != WR_E_NOTFOUND && !err->cure[0])
        wr_err_cure(err, "the parts that were uploaded stay until a rule of the bucket removes them: %s", second.msg);
}

static wr_code upload_run(upload *u, wr_err *err) {
    WR_TRY(upload_begin(u, err));
    wr_code rc = WR_OK;
    for (int at = 0; at < u->parts && rc == WR_OK; at += u->s->parallel)
        rc = upload_parts(u, at, u->parts - at < u->s->parallel ? u->parts - at : u->s->parallel, err);
    if (rc == WR_OK) rc = upload_complete(u, err);
    if (!u->completed) upload_abort(u, err);
    return rc;
}

static wr_code put_in_parts(wr_s3 *s, const wr_s3_object *o, const char *path, uint64_t n, wr_err *err) {
    uint64_t least = (n + PARTS_MAX - 1) / PARTS_MAX;
    WR_CLEANUP(upload_free)
    upload u = {
        .s = s, .o = o, .data = {.path = path, .n = n}, .part_bytes = s->part_bytes > least ? s->part_bytes : least};
    u.parts = (int)((n + u.part_bytes - 1) / u.part_bytes);
    u.etags = wr_calloc((size_t)u.parts, sizeof *u.etags);
    u.md5s = wr_calloc((size_t)u.parts, sizeof *u.md5s);
    if (!u.etags || !u.md5s) return wr_nomem(err, "S3 upload", (size_t)u.parts * sizeof *u.etags);
    return upload_run(&u, err);
}

static wr_code put_some_files(wr_s3 *s, const wr_s3_object *o, const char *const *paths, int n, wr_err *err) {
    WR_CLEANUP(calls_free) calls l = {0};
    WR_AUTO int *which = wr_calloc((size_t)n, sizeof *which); /* of the calls */
    int m = 0;
    if (!which) return wr_nomem(err, "S3 requests", (size_t)n * sizeof *which);
    WR_TRY(calls_new(&l, n, err));
    for (int i = 0; i < n; i++) {
        uint64_t bytes;
        WR_TRY(check_object(&o[i], err));
        WR_TRY(wr_file_size(paths[i], &bytes, err));
        if (bytes > s->part_bytes) {
            WR_TRY(put_in_parts(s, &o[i], paths[i], bytes, err));
            continue;
        }
        l.v[m] = (wr_s3_call){
            .method = "PUT", .o = &o[i], .if_absent = true, .has_body = true, .body_file = paths[i], .body_n = bytes};
        WR_TRY(wr_s3_digest_file_(paths[i], 0, bytes, &l.v[m].digest, err));
        which[m++] = i;
    }
    WR_TRY(wr_s3_run_(s, l.v, m, err));
    for (int k = 0; k < m; k++) {
        content data = {.path = paths[which[k]], .n = l.v[k].body_n};
        WR_TRY(put_result(s, &l.v[k], &data, err));
    }
    return WR_OK;
}

wr_code wr_s3_put_files(wr_s3 *s, const wr_s3_object *o, const char *const *paths, int n, wr_err *err) {
    for (int at = 0; at < n; at += AT_ONCE)
        WR_TRY(put_some_files(s, o + at, paths + at, n - at < AT_ONCE ? n - at : AT_ONCE, err));
    return WR_OK;
}

/* ---- removing and listing */

static wr_code remove_some(wr_s3 *s, const wr_s3_object *o, int n, wr_err *err) {
    WR_CLEANUP(calls_free) calls l = {0};
    WR_TRY(calls_new(&l, n, err));
    for (int i = 0; i < n; i++) {
        WR_TRY(check_object(&o[i], err));
        l.v[i] = (wr_s3_call){.method = "DELETE", .o = &o[i], .max_response = ANSWER_MIN};
    }
    WR_TRY(wr_s3_run_(s, l.v, n, err));
    for (int i = 0; i < n; i++)
        if (l.v[i].code != WR_OK && l.v[i].code != WR_E_NOTFOUND) return *err = l.v[i].err, err->code;
    return WR_OK;
}

wr_code wr_s3_remove_many(wr_s3 *s, const wr_s3_object *o, int n, wr_err *err) {
    wr_code first = WR_OK;
    for (int at = 0; at < n; at += AT_ONCE) {
        wr_err e = WR_ERR_INIT;
        wr_code rc = remove_some(s, o + at, n - at < AT_ONCE ? n - at : AT_ONCE, &e);
        if (rc != WR_OK && first == WR_OK) first = rc, *err = e;
    }
    return first;
}

typedef struct page {
    const wr_s3_object *prefix;
    wr_code (*fn)(void *ctx, const char *key, uint64_t bytes, int64_t modified_us, wr_err *err);
    void *ctx;
    char *key, *token; /* of the entry that is read; for the next page */
    uint64_t bytes;
    int64_t modified_us;
    bool has_bytes, has_time, truncated, whole;
} page;

static void page_free(page *p) {
    wr_free(p->key);
    wr_free(p->token);
}

/* "2026-11-29T17:50:30.000Z" */
static bool to_time(const char *text, int64_t *ret_us) {
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int64_t us = 0, unit = 100000;
    if (!end) return false;
    if (*end == '.')
        for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10) us += (*end - '0') * unit;
    if (strcmp(end, "Z") != 0) return false;
    *ret_us = (int64_t)timegm(&tm) * 1000000 + us;
    return true;
}

static bool keep(char **to, const char *text) {
    wr_free(*to);
    return (*to = wr_strdup(text)) != NULL;
}

static wr_code entry_end(page *p, wr_err *err) {
    size_t n = strlen(p->prefix->key);
    if (!p->key || !p->has_bytes || !p->has_time)
        return decode_fail(p->prefix, err, "an entry of the list lacks key, size or time");
    if (strncmp(p->key, p->prefix->key, n) != 0)
        return decode_fail(p->prefix, err, "the list has a key without the prefix asked for");
    WR_TRY(p->fn(p->ctx, p->key, p->bytes, p->modified_us, err));
    wr_free(p->key);
    p->key = NULL;
    p->has_bytes = p->has_time = false;
    return WR_OK;
}

static wr_code page_element(void *ctx, const char *path, const char *text, wr_err *err) {
    page *p = ctx;
    static const char root[] = "ListBucketResult";
    if (strncmp(path, root, sizeof root - 1) != 0) return WR_OK;
    path += sizeof root - 1;
    bool room = true;
    if (!*path)
        p->whole = true;
    else if (strcmp(path, "/IsTruncated") == 0)
        p->truncated = strcmp(text, "true") == 0;
    else if (strcmp(path, "/NextContinuationToken") == 0)
        room = keep(&p->token, text);
    else if (strcmp(path, "/Contents/Key") == 0)
        room = keep(&p->key, text);
    else if (strcmp(path, "/Contents/Size") == 0)
        p->has_bytes = to_u64(text, &p->bytes);
    else if (strcmp(path, "/Contents/LastModified") == 0)
        p->has_time = to_time(text, &p->modified_us);
    else if (strcmp(path, "/Contents") == 0)
        return entry_end(p, err);
    return room ? WR_OK : wr_nomem(err, "list of objects", strlen(text));
}

/* One page; p->token is the one of the page before, and then of this one. */
static wr_code list_page(wr_s3 *s, page *p, wr_err *err) {
    WR_AUTO_BUF wr_buf q = WR_BUF_INIT;
    if (p->token) {
        wr_buf_printf(&q, "continuation-token=");
        wr_sigv4_encode(&q, p->token, false);
        wr_buf_printf(&q, "&");
    }
    wr_buf_printf(&q, "list-type=2&prefix=");
    wr_sigv4_encode(&q, p->prefix->key, false);
    WR_CLEANUP(wr_s3_call_clear_)
    wr_s3_call c = {.method = "GET", .o = p->prefix, .on_bucket = true, .query = wr_buf_cstr(&q)};
    if (!c.query) return wr_nomem(err, "list of objects", q.n);
    WR_TRY(run_one(s, &c, err));
    WR_AUTO char *last = WR_STEAL(p->token);
    p->truncated = p->whole = false;
    WR_TRY(wr_s3_xml_read(wr_buf_view(&c.resp.body), page_element, p, err));
    if (!p->whole) return decode_fail(p->prefix, err, "the answer is no list of objects");
    if (p->truncated && (!p->token || (last && strcmp(last, p->token) == 0)))
        return decode_fail(p->prefix, err, "the list does not say where it goes on");
    return WR_OK;
}

wr_code wr_s3_list(wr_s3 *s, const wr_s3_object *prefix,
                   wr_code (*fn)(void *ctx, const char *key, uint64_t bytes, int64_t modified_us, wr_err *err),
                   void *ctx, wr_err *err) {
    WR_CLEANUP(page_free) page p = {.prefix = prefix, .fn = fn, .ctx = ctx};
    if (!prefix->bucket[0]) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "s3:/// names no bucket");
    do WR_TRY(list_page(s, &p, err));
    while (p.truncated);
    return WR_OK;
}
