#include "s3_call.h"
#include "s3_xml.h"
#include "sigv4.h"
#include "sys.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { HEADERS_MAX = 12, READ_BYTES = 256 << 10, SMALL_BYTES = 1 << 20, SMALL_MORE = 4 };
static const char EMPTY_SHA256[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/* ---- digests */

static void md_free(EVP_MD_CTX **c) { EVP_MD_CTX_free(*c); }

static wr_code no_digest(wr_err *err) {
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "this OpenSSL gives no SHA-256 or no MD5");
    return wr_err_cure(err, "S3 needs both; OpenSSL's FIPS mode has no MD5");
}

/* Bytes in memory, or `left` of a file from `at` on. */
typedef struct feed {
    wr_slice mem;
    const char *path;
    int fd;
    uint64_t at, left;
    uint8_t *buf;
} feed;

static wr_code feed_next(feed *f, wr_slice *ret, wr_err *err) {
    if (!f->path) {
        *ret = f->mem;
        f->left = 0;
        return WR_OK;
    }
    ssize_t got;
    do got = pread(f->fd, f->buf, f->left < READ_BYTES ? (size_t)f->left : READ_BYTES, (off_t)f->at);
    while (got < 0 && errno == EINTR);
    if (got < 0) return wr_sys_fail_(err, errno, "read", f->path);
    if (got == 0)
        return wr_fail(err, WR_E_IO, WR_RETRY_NO, "%s ends at %llu, %llu bytes too early", f->path,
                       (unsigned long long)f->at, (unsigned long long)f->left);
    f->at += (uint64_t)got;
    f->left -= (uint64_t)got;
    *ret = wr_slice_of(f->buf, (size_t)got);
    return WR_OK;
}

static wr_code digest(feed *f, wr_s3_digest *ret_digest, wr_err *err) {
    WR_CLEANUP(md_free) EVP_MD_CTX *sha = EVP_MD_CTX_new();
    WR_CLEANUP(md_free) EVP_MD_CTX *md5 = EVP_MD_CTX_new();
    uint8_t hash[32];
    if (!sha || !md5 || EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1 || EVP_DigestInit_ex(md5, EVP_md5(), NULL) != 1)
        return no_digest(err);
    while (f->left) {
        wr_slice s = {0};
        WR_TRY(feed_next(f, &s, err));
        if (EVP_DigestUpdate(sha, s.p, s.n) != 1 || EVP_DigestUpdate(md5, s.p, s.n) != 1) return no_digest(err);
    }
    if (EVP_DigestFinal_ex(sha, hash, NULL) != 1 || EVP_DigestFinal_ex(md5, ret_digest->md5, NULL) != 1)
        return no_digest(err);
    wr_sigv4_hex(hash, sizeof hash, ret_digest->sha256);
    return WR_OK;
}

wr_code wr_s3_digest_mem_(wr_slice s, wr_s3_digest *ret_digest, wr_err *err) {
    feed f = {.mem = s, .left = s.n};
    return digest(&f, ret_digest, err);
}

wr_code wr_s3_digest_file_(const char *path, uint64_t at, uint64_t n, wr_s3_digest *ret_digest, wr_err *err) {
    WR_AUTO_FD int fd = wr_sys_open_(path, O_RDONLY, 0);
    if (fd < 0) return wr_sys_fail_(err, errno, "open", path);
    WR_AUTO uint8_t *buf = wr_malloc(READ_BYTES);
    if (!buf) return wr_nomem(err, path, READ_BYTES);
    feed f = {.path = path, .fd = fd, .at = at, .left = n, .buf = buf};
    return digest(&f, ret_digest, err);
}

/* ---- the client */

static bool copy(char **to, const char *from) { return !from || (*to = wr_strdup(from)); }

static void wipe(const char *secret) {
    if (secret) OPENSSL_cleanse((char *)secret, strlen(secret));
    wr_free((char *)secret);
}

void wr_s3_close(wr_s3 *s) {
    if (!s) return;
    wr_http_close(s->http);
    wr_free(s->scheme);
    wr_free(s->host);
    wr_free(s->region);
    wr_free((char *)s->credentials.access_key);
    wipe(s->credentials.secret_key);
    wipe(s->credentials.session_token);
    wr_free(s);
}

/* "https://host:port/" -> "https", "host:port"; the scheme's own port goes, as in the Host header that is signed. */
static wr_code set_endpoint(wr_s3 *s, const char *endpoint, wr_err *err) {
    const char *sep = strstr(endpoint, "://"), *host = sep ? sep + 3 : endpoint;
    size_t scheme_n = sep ? (size_t)(sep - endpoint) : 0, n = strcspn(host, "/?#@ ");
    bool https = scheme_n == 5 && strncmp(endpoint, "https", 5) == 0,
         http = scheme_n == 4 && strncmp(endpoint, "http", 4) == 0;
    if ((!https && !http) || n == 0 || strcmp(host + n, host[n] == '/' ? "/" : "") != 0) {
        wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "the S3 endpoint is not of the form https://host[:port]");
        return wr_err_cure(err, "give scheme, host and port; bucket and key are part of the table's location");
    }
    const char *own_port = https ? ":443" : ":80";
    size_t port_n = strlen(own_port);
    if (n > port_n && memcmp(host + n - port_n, own_port, port_n) == 0) n -= port_n;
    s->scheme = wr_strndup(endpoint, scheme_n);
    s->host = wr_strndup(host, n);
    return s->scheme && s->host ? WR_OK : wr_nomem(err, "S3 client", n);
}

static wr_code check_options(const wr_s3_options *o, wr_err *err) {
    if (o->part_bytes && o->part_bytes < 5 << 20)
        return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "parts of %llu bytes: S3 takes none below 5 MiB",
                       (unsigned long long)o->part_bytes);
    if (o->region && (!o->region[0] ||
                      o->region[strspn(o->region, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")]))
        return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "the S3 region is no name of one");
    if (o->credentials.access_key && !o->credentials.secret_key)
        return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "there is an S3 access key and no secret key");
    return WR_OK;
}

static wr_code fill(wr_s3 *s, const wr_s3_options *o, wr_err *err) {
    WR_AUTO char *amazon = NULL;
    s->path_style = o->path_style;
    s->part_bytes = o->part_bytes ? o->part_bytes : 16 << 20;
    s->parallel = o->parallel > 0 ? o->parallel : 4;
    s->attempts = o->attempts > 0 ? o->attempts : 10;
    if (!copy(&s->region, o->region ? o->region : "us-east-1") ||
        !copy((char **)&s->credentials.access_key, o->credentials.access_key) ||
        !copy((char **)&s->credentials.secret_key, o->credentials.secret_key) ||
        !copy((char **)&s->credentials.session_token, o->credentials.session_token))
        return wr_nomem(err, "S3 client", sizeof *s);
    if (!o->endpoint && !(amazon = wr_asprintf("https://s3.%s.amazonaws.com", s->region)))
        return wr_nomem(err, "S3 client", 64);
    WR_TRY(set_endpoint(s, amazon ? amazon : o->endpoint, err));
    wr_http_options h = {.ca_file = o->ca_file, .stall_timeout_ms = o->stall_timeout_ms};
    return wr_http_open(&h, &s->http, err);
}

wr_code wr_s3_open(const wr_s3_options *opts, wr_s3 **ret_s3, wr_err *err) {
    WR_TRY(check_options(opts, err));
    wr_s3 *s = wr_calloc(1, sizeof *s);
    if (!s) return wr_nomem(err, "S3 client", sizeof *s);
    wr_code rc = fill(s, opts, err);
    if (rc != WR_OK) {
        wr_s3_close(s);
        return rc;
    }
    *ret_s3 = s;
    return WR_OK;
}

/* ---- one attempt */

typedef struct attempt {
    char *url;
    char *headers[HEADERS_MAX];
    int nheaders;
    bool failed; /* an allocation did */
} attempt;

static void attempt_free(attempt *a) {
    wr_free(a->url);
    for (int i = 0; i < a->nheaders; i++) wr_free(a->headers[i]);
}

/* Names in lower case and in alphabetic order, as they are signed. */
static void add(attempt *a, const char *name, const char *value) {
    if (!value || a->failed) return;
    char *h = wr_asprintf("%s:%s", name, value);
    if (h) a->headers[a->nheaders++] = h;
    a->failed = !h;
}

/* A name that can stand in front of a host: certificates are for one more label. */
static bool is_host_label(const char *bucket) {
    size_t n = strlen(bucket);
    return n > 0 && n < 64 && strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static const wr_s3_credentials *who(const wr_s3 *s, const wr_s3_call *c) {
    return c->o->credentials ? c->o->credentials : &s->credentials;
}

static bool conditional(const wr_s3 *s, const wr_s3_call *c) {
    return c->if_absent && !__atomic_load_n(&s->unconditional, __ATOMIC_RELAXED);
}

static void add_headers(const wr_s3 *s, const wr_s3_call *c, const char *host, const char *when, attempt *a) {
    char md5[25];
    EVP_EncodeBlock((uint8_t *)md5, c->digest.md5, 16);
    bool has_content = c->has_body && (c->body_file ? c->body_n : c->body.n);
    const wr_s3_credentials *cred = who(s, c);
    if (has_content) add(a, "content-md5", md5);
    add(a, "host", host);
    if (conditional(s, c)) add(a, "if-none-match", "*");
    add(a, "range", c->range);
    if (!cred->access_key) return;
    add(a, "x-amz-content-sha256", has_content ? c->digest.sha256 : EMPTY_SHA256);
    add(a, "x-amz-date", when);
    add(a, "x-amz-security-token", cred->session_token);
}

static wr_code sign(const wr_s3 *s, const wr_s3_call *c, const char *path, int64_t now_us, attempt *a, wr_err *err) {
    const wr_s3_credentials *cred = who(s, c);
    WR_AUTO_BUF wr_buf auth = WR_BUF_INIT;
    wr_sigv4 v = {.method = c->method,
                  .path = path,
                  .query = c->query ? c->query : "",
                  .nheaders = a->nheaders,
                  .region = s->region,
                  .headers = (const char *const *)a->headers,
                  .now_us = now_us};
    v.payload_sha256 = c->has_body && (c->body_file ? c->body_n : c->body.n) ? c->digest.sha256 : EMPTY_SHA256;
    WR_TRY(wr_sigv4_authorize(&v, cred->access_key, cred->secret_key, &auth, err));
    add(a, "authorization", wr_buf_cstr(&auth));
    return a->failed ? wr_nomem(err, "S3 request", auth.n) : WR_OK;
}

static wr_code prepare(const wr_s3 *s, const wr_s3_call *c, attempt *a, wr_http_request *req, wr_err *err) {
    char when[17];
    WR_AUTO_BUF wr_buf path = WR_BUF_INIT;
    WR_AUTO_BUF wr_buf host = WR_BUF_INIT;
    int64_t now_us = wr_now_us() + __atomic_load_n(&s->skew_us, __ATOMIC_RELAXED);
    bool in_path = s->path_style || !is_host_label(c->o->bucket);
    wr_buf_printf(&host, in_path ? "%s%s" : "%s.%s", in_path ? "" : c->o->bucket, s->host);
    wr_buf_put(&path, "/", 1);
    if (in_path) wr_sigv4_encode(&path, c->o->bucket, false);
    if (in_path && !c->on_bucket) wr_buf_put(&path, "/", 1);
    if (!c->on_bucket) wr_sigv4_encode(&path, c->o->key, true);
    const char *h = wr_buf_cstr(&host), *p = wr_buf_cstr(&path);
    if (!h || !p) return wr_nomem(err, "S3 request", path.n);
    a->url = wr_asprintf("%s://%s%s%s%s", s->scheme, h, p, c->query ? "?" : "", c->query ? c->query : "");
    add_headers(s, c, h, wr_sigv4_time(now_us, when), a);
    if (!a->url || a->failed) return wr_nomem(err, "S3 request", path.n);
    if (who(s, c)->access_key) WR_TRY(sign(s, c, p, now_us, a, err));
    *req = (wr_http_request){.method = c->method,
                             .url = a->url,
                             .headers = (const char *const *)a->headers,
                             .nheaders = a->nheaders,
                             .has_body = c->has_body,
                             .body = c->body,
                             .body_file = c->body_file,
                             .body_at = c->body_at,
                             .body_n = c->body_n,
                             .max_response = c->max_response};
    return WR_OK;
}

/* ---- what an answer means */

static wr_code error_element(void *ctx, const char *path, const char *text, wr_err *err) {
    wr_s3_error *e = ctx;
    if (strcmp(path, "Error") == 0)
        e->is_error = true;
    else if (strcmp(path, "Error/Code") == 0)
        snprintf(e->code, sizeof e->code, "%s", text);
    else if (strcmp(path, "Error/Message") == 0)
        snprintf(e->message, sizeof e->message, "%s", text);
    else if (strcmp(path, "Error/Region") == 0)
        snprintf(e->region, sizeof e->region, "%s", text);
    return WR_OK;
}

void wr_s3_error_read_(wr_slice body, wr_s3_error *e) {
    wr_err ignored = WR_ERR_INIT;
    *e = (wr_s3_error){0};
    if (body.n && wr_s3_xml_read(body, error_element, e, &ignored) != WR_OK) *e = (wr_s3_error){0};
}

static bool one_of(const char *s, const char *const *list) {
    for (; *list; list++)
        if (strcmp(s, *list) == 0) return true;
    return false;
}

static bool passes(int status, const char *code) {
    static const char *const codes[] = {"SlowDown",
                                        "RequestTimeout",
                                        "InternalError",
                                        "ServiceUnavailable",
                                        "Throttling",
                                        "BadDigest",
                                        "XAmzContentSHA256Mismatch",
                                        "OperationAborted",
                                        "ConditionalRequestConflict",
                                        NULL};
    return status == 500 || status == 502 || status == 503 || status == 504 || status == 429 || one_of(code, codes);
}

static wr_code say(wr_s3_call *c, const wr_s3_error *e, wr_code code, wr_retry retry) {
    bool key = !c->on_bucket;
    return wr_fail(&c->err, code, retry, "%s s3://%.200s%s%.400s: the S3 server answered %d%s%s%s%s%s", c->method,
                   c->o->bucket, key ? "/" : "", key ? c->o->key : "", c->resp.status, e->code[0] ? " " : "", e->code,
                   e->message[0] ? " (" : "", e->message, e->message[0] ? ")" : "");
}

static wr_code refused(wr_s3_call *c, const wr_s3_error *e) {
    say(c, e, WR_E_AUTH, WR_RETRY_NO);
    if (strcmp(e->code, "SignatureDoesNotMatch") == 0)
        return wr_err_cure(&c->err, "the secret key does not belong to the access key: correct it");
    if (strcmp(e->code, "InvalidAccessKeyId") == 0)
        return wr_err_cure(&c->err, "the server does not know the access key: correct it");
    if (strcmp(e->code, "RequestTimeTooSkewed") == 0) return wr_err_cure(&c->err, "set this machine's clock");
    if (strcmp(e->code, "ExpiredToken") == 0 || strcmp(e->code, "InvalidToken") == 0)
        return wr_err_cure(&c->err, "get new session credentials");
    return wr_err_cure(&c->err, "give these credentials the rights s3:ListBucket, GetObject, PutObject, DeleteObject "
                                "and AbortMultipartUpload there");
}

/* The region that the server names, when it is not ours. */
static bool other_region(const wr_s3 *s, const wr_s3_call *c, wr_s3_error *e) {
    bool elsewhere = c->resp.status == 301 || c->resp.status == 307 ||
                     strcmp(e->code, "AuthorizationHeaderMalformed") == 0 || strcmp(e->code, "PermanentRedirect") == 0;
    if (!elsewhere) return false;
    WR_AUTO char *named = wr_http_header(&c->resp, "x-amz-bucket-region");
    if (named) snprintf(e->region, sizeof e->region, "%s", named);
    return e->region[0] && strcmp(e->region, s->region) != 0;
}

static wr_code explain(const wr_s3 *s, wr_s3_call *c, wr_s3_error *e) {
    static const char *const auth[] = {"ExpiredToken", "InvalidToken", "RequestTimeTooSkewed", NULL};
    static const char *const full[] = {"QuotaExceeded", "XMinioStorageFull", NULL};
    int status = c->resp.status;
    if (other_region(s, c, e)) {
        say(c, e, WR_E_CONFIG, WR_RETRY_NO);
        return wr_err_cure(&c->err, "the bucket is in region %s, not %s: correct the region", e->region, s->region);
    }
    if (status >= 300 && status < 400) {
        say(c, e, WR_E_CONFIG, WR_RETRY_NO);
        return wr_err_cure(&c->err,
                           "the server sends us elsewhere, which is not followed: correct endpoint and region");
    }
    if (strcmp(e->code, "NoSuchBucket") == 0) {
        say(c, e, WR_E_CONFIG, WR_RETRY_NO);
        return wr_err_cure(&c->err, "create the bucket %.200s, or correct its name or the endpoint (%s://%.200s)",
                           c->o->bucket, s->scheme, s->host);
    }
    if (status == 507 || one_of(e->code, full)) {
        say(c, e, WR_E_NOSPC, WR_RETRY_SOON);
        return wr_err_cure(&c->err, "make room in the object store, or raise its quota");
    }
    if (status == 401 || status == 403 || one_of(e->code, auth)) return refused(c, e);
    if (status == 404) return say(c, e, WR_E_NOTFOUND, WR_RETRY_NO);
    if (status == 412) return say(c, e, WR_E_EXISTS, WR_RETRY_NO);
    if (passes(status, e->code)) return say(c, e, WR_E_NET, WR_RETRY_SOON);
    return say(c, e, WR_E_IO, WR_RETRY_NO);
}

/* Takes over the server's clock; false when that was done before or it names no time. */
static bool correct_clock(wr_s3 *s, wr_s3_call *c) {
    WR_AUTO char *date = c->skewed ? NULL : wr_http_header(&c->resp, "Date");
    time_t t = date ? curl_getdate(date, NULL) : -1;
    if (t == -1) return false;
    __atomic_store_n(&s->skew_us, (int64_t)t * 1000000 - wr_now_us(), __ATOMIC_RELAXED);
    return c->skewed = true;
}

/* The result of an attempt: final, or pending for another one. */
static void settle(wr_s3 *s, wr_s3_call *c) {
    wr_s3_error e = {0};
    c->attempts++;
    c->pending = false;
    if (c->code == WR_OK) {
        bool fine = c->resp.status >= 200 && c->resp.status < 300;
        if (fine && !c->error_in_200) return;
        wr_s3_error_read_(wr_buf_view(&c->resp.body), &e);
        if (fine && !e.is_error) return;
        snprintf(c->s3_code, sizeof c->s3_code, "%s", e.code);
        c->code = explain(s, c, &e);
        if (strcmp(e.code, "RequestTimeTooSkewed") == 0 && correct_clock(s, c)) c->pending = true;
        if (conditional(s, c) && (c->resp.status == 501 || strcmp(e.code, "NotImplemented") == 0)) {
            __atomic_store_n(&s->unconditional, true, __ATOMIC_RELAXED);
            c->pending = true;
        }
        /* a 500 may come after the deed */
        if (c->resp.status >= 500) c->maybe_done = true;
    }
    if (c->resp.maybe_done) c->maybe_done = true;
    if (c->code == WR_E_NET && c->err.retry == WR_RETRY_SOON) c->pending = true;
    if (c->attempts >= s->attempts) c->pending = false;
    if (!c->pending && c->code == WR_E_NET && c->attempts > 1) wr_err_in(&c->err, "tried %d times", c->attempts);
}

static void pause_us(int64_t us) {
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) continue;
}

/* One attempt of each pending call. */
typedef struct round {
    attempt *attempts;
    wr_http_request *reqs;
    wr_http_response *resps;
    wr_code *codes;
    wr_err *errs;
    int *which;
    int n;
} round;

static void round_free(round *r) {
    for (int i = 0; r->attempts && i < r->n; i++) attempt_free(&r->attempts[i]);
    wr_free(r->attempts);
    wr_free(r->reqs);
    wr_free(r->resps);
    wr_free(r->codes);
    wr_free(r->errs);
    wr_free(r->which);
}

/* They cost the time of their way, not of their bytes. */
static bool are_small(const wr_s3_call *calls, int n) {
    for (int i = 0; i < n; i++)
        if (calls[i].range || calls[i].body.n > SMALL_BYTES || calls[i].body_n > SMALL_BYTES) return false;
    return true;
}

static void send_round(wr_s3 *s, wr_s3_call *calls, int n, round *r) {
    for (int i = 0; i < n; i++) {
        wr_s3_call *c = &calls[i];
        if (!c->pending) continue;
        wr_http_response_clear(&c->resp);
        c->code = prepare(s, c, &r->attempts[r->n], &r->reqs[r->n], &c->err);
        if (c->code == WR_OK) {
            r->which[r->n++] = i;
            continue;
        }
        c->pending = false;
        attempt_free(&r->attempts[r->n]);
        r->attempts[r->n] = (attempt){0};
    }
    wr_http_send_many(s->http, r->reqs, r->resps, r->codes, r->errs, r->n, s->parallel * (are_small(calls, n) ? SMALL_MORE : 1));
    for (int i = 0; i < r->n; i++) {
        wr_s3_call *c = &calls[r->which[i]];
        c->resp = r->resps[i];
        c->code = r->codes[i];
        if (c->code != WR_OK) c->err = r->errs[i];
        settle(s, c);
    }
}

/* Returns how long to wait before the next round; -1: there is none. */
static int64_t next_wait_us(const wr_s3_call *calls, int n) {
    int64_t wait = -1;
    for (int i = 0; i < n; i++) {
        if (!calls[i].pending) continue;
        int64_t us = wr_http_backoff_us(calls[i].attempts, &calls[i].resp);
        if (us > wait) wait = us;
    }
    return wait;
}

wr_code wr_s3_run_(wr_s3 *s, wr_s3_call *calls, int n, wr_err *err) {
    int pending = n;
    for (int i = 0; i < n; i++) calls[i].pending = true;
    for (;;) {
        size_t m = (size_t)pending;
        WR_CLEANUP(round_free)
        round r = {.attempts = wr_calloc(m, sizeof *r.attempts),
                   .reqs = wr_calloc(m, sizeof *r.reqs),
                   .resps = wr_calloc(m, sizeof *r.resps),
                   .codes = wr_calloc(m, sizeof *r.codes),
                   .errs = wr_calloc(m, sizeof *r.errs),
                   .which = wr_calloc(m, sizeof *r.which)};
        if (!r.attempts || !r.reqs || !r.resps || !r.codes || !r.errs || !r.which)
            return wr_nomem(err, "S3 requests", m * sizeof(wr_err));
        send_round(s, calls, n, &r);
        int64_t wait = next_wait_us(calls, n);
        if (wait < 0) return WR_OK;
        pause_us(wait);
        pending = 0;
        for (int i = 0; i < n; i++) pending += calls[i].pending;
    }
}

void wr_s3_call_clear_(wr_s3_call *c) {
    wr_http_response_clear(&c->resp);
    *c = (wr_s3_call){0};
}
