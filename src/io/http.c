/* Every call takes a multi handle out of the pool: its connections, names and certificates are kept for the next call.
 *
 * libcurl sends a request once more by itself when a kept connection turns out to be dead, even if the server may have
 * carried the first one out. A commit must know, so the callback that libcurl calls before it sends refuses the second
 * time. The same callback says whether anything was sent at all. */
#include "weir/http.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "sys.h"

#include <assert.h>
#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { IDLE_MAX = 8, CONNECTIONS_MAX = 16, HEADER_BYTES_MAX = 256 << 10, POLL_MS = 1000, WHERE_MAX = 300 };

struct wr_http {
    char *ca_file;
    int connect_timeout_ms, stall_timeout_ms, total_timeout_ms;
    pthread_mutex_t mu;
    CURLM *idle[IDLE_MAX]; /* under mu */
    int nidle;             /* under mu */
};

/* One request on its way. */
typedef struct xfer {
    CURL *easy; /* NULL: this place is free */
    const wr_http_request *req;
    wr_http_response *resp;
    wr_code *ret_code;
    wr_err *err;
    wr_code failed; /* a callback of ours ended it; err says why */
    struct curl_slist *headers;
    int fd;
    uint64_t sent;    /* bytes of the body */
    bool begun;       /* something may have been sent */
    bool interim;     /* headers of a 1xx come */
    bool head_whole;  /* the headers of the answer have ended */
    int64_t moved_us; /* when bytes last went either way */
    char why[CURL_ERROR_SIZE];
} xfer;

static int or_default(int v, int def) { return v ? v : def; }

static CURLcode global_rc;
static void global_init(void) { global_rc = curl_global_init(CURL_GLOBAL_DEFAULT); }

wr_code wr_http_open(const wr_http_options *opts, wr_http **ret_http, wr_err *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static const wr_http_options defaults;
    if (!opts) opts = &defaults;
    pthread_once(&once, global_init);
    if (global_rc != CURLE_OK)
        return wr_fail(err, WR_E_NET, WR_RETRY_NO, "libcurl cannot start: %s", curl_easy_strerror(global_rc));
    if (opts->ca_file && access(opts->ca_file, R_OK) != 0) {
        wr_sys_fail_(err, errno, "read certificates from", opts->ca_file);
        return err->code = WR_E_CONFIG;
    }
    wr_http *h = wr_calloc(1, sizeof *h);
    if (!h) return wr_nomem(err, "HTTP client", sizeof *h);
    if (opts->ca_file && !(h->ca_file = wr_strdup(opts->ca_file))) {
        wr_free(h);
        return wr_nomem(err, "HTTP client", strlen(opts->ca_file) + 1);
    }
    h->connect_timeout_ms = or_default(opts->connect_timeout_ms, 10000);
    h->stall_timeout_ms = or_default(opts->stall_timeout_ms, 30000);
    h->total_timeout_ms = opts->total_timeout_ms;
    pthread_mutex_init(&h->mu, NULL);
    *ret_http = h;
    return WR_OK;
}

void wr_http_close(wr_http *h) {
    if (!h) return;
    for (int i = 0; i < h->nidle; i++) curl_multi_cleanup(h->idle[i]);
    pthread_mutex_destroy(&h->mu);
    wr_free(h->ca_file);
    wr_free(h);
}

static CURLM *multi_take(wr_http *h) {
    pthread_mutex_lock(&h->mu);
    CURLM *m = h->nidle ? h->idle[--h->nidle] : NULL;
    pthread_mutex_unlock(&h->mu);
    if (m) return m;
    m = curl_multi_init();
    if (m) curl_multi_setopt(m, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_MAX);
    return m;
}

static void multi_give(wr_http *h, CURLM *m) {
    pthread_mutex_lock(&h->mu);
    bool kept = h->nidle < IDLE_MAX;
    if (kept) h->idle[h->nidle++] = m;
    pthread_mutex_unlock(&h->mu);
    if (!kept) curl_multi_cleanup(m);
}

void wr_http_response_clear(wr_http_response *r) {
    wr_buf_free(&r->body);
    wr_buf_free(&r->headers);
    r->status = 0;
    r->maybe_done = false;
}

char *wr_http_header(const wr_http_response *r, const char *name) {
    size_t len = strlen(name);
    const char *p = (const char *)r->headers.p, *end = p ? p + r->headers.n : p;
    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p)), *to = nl ? nl : end;
        if ((size_t)(to - p) > len && p[len] == ':' && strncasecmp(p, name, len) == 0) {
            const char *from = p + len + 1;
            while (from < to && isspace((unsigned char)*from)) from++;
            while (to > from && isspace((unsigned char)to[-1])) to--;
            return wr_strndup(from, (size_t)(to - from));
        }
        p = nl ? nl + 1 : end;
    }
    return NULL;
}

/* "GET https://host/path" for errors: no query, no user. */
static void where(const wr_http_request *req, char out[WHERE_MAX]) {
    const char *url = req->url, *scheme_end = strstr(url, "://");
    const char *host = scheme_end ? scheme_end + 3 : url;
    size_t authority = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', authority);
    if (at) authority -= (size_t)(at + 1 - host);
    const char *from = at ? at + 1 : host;
    size_t n = authority + strcspn(from + authority, "?#");
    snprintf(out, WHERE_MAX, "%s %.*s%.*s", req->method, (int)(host - url), url, n > 256 ? 256 : (int)n, from);
}

static int on_begin(void *ctx, char *primary_ip, char *local_ip, int primary_port, int local_port) {
    xfer *x = ctx;
    if (x->begun) return CURL_PREREQFUNC_ABORT;
    x->begun = true;
    x->moved_us = wr_mono_us();
    return CURL_PREREQFUNC_OK;
}

static size_t on_header(char *p, size_t size, size_t n, void *ctx) {
    xfer *x = ctx;
    wr_buf *b = &x->resp->headers;
    n *= size;
    x->moved_us = wr_mono_us();
    if (n >= 5 && memcmp(p, "HTTP/", 5) == 0) { /* what came before was a 1xx */
        const char *status = memchr(p, ' ', n);
        wr_buf_clear(b);
        x->interim = status && status + 1 < p + n && status[1] == '1';
        x->head_whole = false;
    }
    if (n > 0 && (*p == '\r' || *p == '\n')) x->head_whole = !x->interim;
    if (n > HEADER_BYTES_MAX - b->n) {
        x->failed =
            wr_fail(x->err, WR_E_LIMIT, WR_RETRY_NO, "the answer has more than %d bytes of headers", HEADER_BYTES_MAX);
        return 0;
    }
    wr_buf_put(b, p, n);
    if (!b->failed) return n;
    x->failed = wr_nomem(x->err, "headers of the answer", n);
    return 0;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx) {
    xfer *x = ctx;
    wr_buf *b = &x->resp->body;
    size_t max = x->req->max_response ? x->req->max_response : 64 << 20;
    n *= size;
    x->moved_us = wr_mono_us();
    if (n > max - b->n) {
        x->failed = wr_fail(x->err, WR_E_LIMIT, WR_RETRY_NO, "the answer has more than the %zu bytes allowed", max);
        return 0;
    }
    wr_buf_put(b, p, n);
    if (!b->failed) return n;
    x->failed = wr_nomem(x->err, "the answer", b->n + n);
    return 0;
}

static uint64_t body_bytes(const wr_http_request *req) { return req->body_file ? req->body_n : req->body.n; }

static size_t on_read(char *p, size_t size, size_t n, void *ctx) {
    xfer *x = ctx;
    const wr_http_request *req = x->req;
    uint64_t left = body_bytes(req) - x->sent;
    n *= size;
    if (n > left) n = (size_t)left;
    x->moved_us = wr_mono_us();
    if (!req->body_file) {
        if (n) memcpy(p, req->body.p + x->sent, n);
    } else if (n) {
        ssize_t got;
        do got = pread(x->fd, p, n, (off_t)(req->body_at + x->sent));
        while (got < 0 && errno == EINTR);
        if (got < 0) x->failed = wr_sys_fail_(x->err, errno, "read", req->body_file);
        if (got == 0)
            x->failed =
                wr_fail(x->err, WR_E_IO, WR_RETRY_NO, "%s ends at %llu, before the %llu bytes to send", req->body_file,
                        (unsigned long long)req->body_at + x->sent, (unsigned long long)req->body_at + req->body_n);
        if (got <= 0) return CURL_READFUNC_ABORT;
        n = (size_t)got;
    }
    x->sent += n;
    return n;
}

/* A line break in a header would be another header. */
static wr_code check_request(const wr_http_request *req, wr_err *err) {
    for (int i = 0; i < req->nheaders; i++)
        for (const char *p = req->headers[i]; *p; p++)
            if ((unsigned char)*p < 0x20 && *p != '\t')
                return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "header %d of the request contains a control character",
                               i + 1);
    if (req->body_file && (req->body_n > INT64_MAX || req->body_at > (uint64_t)INT64_MAX - req->body_n))
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "bytes %llu from %llu on are none of a file",
                       (unsigned long long)req->body_n, (unsigned long long)req->body_at);
    return WR_OK;
}

static bool add_header(xfer *x, const char *text) {
    struct curl_slist *l = curl_slist_append(x->headers, text);
    if (l) x->headers = l;
    return l != NULL;
}

static wr_code set_headers(xfer *x) {
    bool ok = add_header(x, "Expect:"); /* no 100-continue: it costs a round trip and old proxies hang on it */
    for (int i = 0; i < x->req->nheaders && ok; i++) ok = add_header(x, x->req->headers[i]);
    return ok ? WR_OK : wr_nomem(x->err, "headers of a request", 64);
}

#define SET(option, value)                                                                                             \
    if (rc == CURLE_OK) rc = curl_easy_setopt(x->easy, option, value)

static CURLcode set_connection(const wr_http *h, xfer *x) {
    CURLcode rc = CURLE_OK;
    SET(CURLOPT_URL, x->req->url);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)h->connect_timeout_ms);
    SET(CURLOPT_TIMEOUT_MS, (long)h->total_timeout_ms);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (h->ca_file) {
        SET(CURLOPT_CAINFO, h->ca_file);
        SET(CURLOPT_CAPATH, NULL); /* else the system's are trusted as well */
    }
    return rc;
}

static CURLcode set_exchange(xfer *x) {
    CURLcode rc = CURLE_OK;
    SET(CURLOPT_PRIVATE, x);
    SET(CURLOPT_ERRORBUFFER, x->why);
    SET(CURLOPT_USERAGENT, "weir/" WEIR_VERSION);
    SET(CURLOPT_HTTPHEADER, x->headers);
    SET(CURLOPT_PREREQFUNCTION, on_begin);
    SET(CURLOPT_PREREQDATA, x);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, x);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, x);
    if (x->req->has_body) {
        SET(CURLOPT_UPLOAD, 1L);
        SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)body_bytes(x->req));
        SET(CURLOPT_READFUNCTION, on_read);
        SET(CURLOPT_READDATA, x);
    } else if (strcmp(x->req->method, "HEAD") == 0) {
        SET(CURLOPT_NOBODY, 1L);
    }
    SET(CURLOPT_CUSTOMREQUEST, x->req->method);
    return rc;
}
#undef SET

static void release(xfer *x) {
    if (x->easy) curl_easy_cleanup(x->easy);
    curl_slist_free_all(x->headers);
    if (x->fd >= 0) close(x->fd);
    *x = (xfer){.fd = -1};
}

static wr_code prepare(wr_http *h, xfer *x, CURLM *m) {
    WR_TRY(check_request(x->req, x->err));
    if (x->req->body_file) {
        x->fd = wr_sys_open_(x->req->body_file, O_RDONLY, 0);
        if (x->fd < 0) return wr_sys_fail_(x->err, errno, "open", x->req->body_file);
    }
    WR_TRY(set_headers(x));
    x->easy = curl_easy_init();
    if (!x->easy) return wr_nomem(x->err, "request", 1);
    CURLcode rc = set_connection(h, x);
    if (rc == CURLE_OK) rc = set_exchange(x);
    if (rc != CURLE_OK || curl_multi_add_handle(m, x->easy) != CURLM_OK) return wr_nomem(x->err, "request", 1);
    return WR_OK;
}

/* libcurl's result as ours. */
static wr_code explain(const wr_http *h, xfer *x, CURLcode rc) {
    const char *why = x->why[0] ? x->why : curl_easy_strerror(rc);
    switch (rc) {
    case CURLE_OK:
        return WR_OK;
    case CURLE_OUT_OF_MEMORY:
        return wr_nomem(x->err, "an HTTP request", 1);
    case CURLE_LOGIN_DENIED:
        wr_fail(x->err, WR_E_CONFIG, WR_RETRY_NO, "a URL must not name a user");
        return wr_err_cure(x->err, "put credentials where the configuration has a place for them");
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return wr_fail(x->err, WR_E_CONFIG, WR_RETRY_NO, "not a URL for HTTP: %s", why);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        wr_fail(x->err, WR_E_CONFIG, WR_RETRY_NO, "the server's certificate is not trusted: %s", why);
        if (h->ca_file)
            return wr_err_cure(x->err, "%s must hold the certificate of who signed the server's", h->ca_file);
        return wr_err_cure(x->err, "name a file with the certificate of who signed the server's (ca_file), or use a "
                                   "name that the certificate has");
    case CURLE_ABORTED_BY_CALLBACK:
    case CURLE_SEND_FAIL_REWIND:
        return wr_fail(x->err, WR_E_NET, WR_RETRY_SOON, "the connection was lost before an answer came");
    default:
        return wr_fail(x->err, WR_E_NET, WR_RETRY_SOON, "%s", why);
    }
}

/* The request has ended; the place is free. */
static void finish(const wr_http *h, xfer *x, CURLM *m, CURLcode rc) {
    char place[WHERE_MAX];
    long status = 0;
    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    x->resp->status = (int)status;
    if (rc == CURLE_OK && !x->head_whole) rc = CURLE_RECV_ERROR; /* libcurl takes headers that were cut for all there are */
    wr_code code = x->failed != WR_OK ? x->failed : explain(h, x, rc);
    x->resp->maybe_done = code != WR_OK && x->begun;
    if (code != WR_OK) {
        where(x->req, place);
        wr_err_in(x->err, "%s", place);
    }
    *x->ret_code = code;
    curl_multi_remove_handle(m, x->easy);
    release(x);
}

/* Returns whether it is on its way; if not, its result is there. */
static bool start(wr_http *h, xfer *x, CURLM *m, const wr_http_request *req, wr_http_response *resp, wr_code *ret_code,
                  wr_err *err) {
    *x = (xfer){.req = req, .resp = resp, .ret_code = ret_code, .err = err, .fd = -1};
    wr_http_response_clear(resp);
    *ret_code = prepare(h, x, m);
    if (*ret_code == WR_OK) return true;
    char place[WHERE_MAX];
    where(req, place);
    wr_err_in(err, "%s", place);
    release(x);
    return false;
}

/* Ends those in which nothing moves any more; returns how many. */
static int end_stalled(wr_http *h, xfer *xs, int places, CURLM *m) {
    int64_t now = wr_mono_us();
    int ended = 0;
    for (xfer *x = xs; x < xs + places; x++) {
        if (!x->easy || !x->begun || now - x->moved_us < (int64_t)h->stall_timeout_ms * 1000) continue;
        x->failed = wr_fail(x->err, WR_E_NET, WR_RETRY_SOON, "nothing moved for %d ms", h->stall_timeout_ms);
        finish(h, x, m, CURLE_OPERATION_TIMEDOUT);
        ended++;
    }
    return ended;
}

static int end_done(wr_http *h, CURLM *m) {
    int ended = 0, left;
    for (CURLMsg *msg; (msg = curl_multi_info_read(m, &left));) {
        if (msg->msg != CURLMSG_DONE) continue;
        xfer *x;
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &x);
        finish(h, x, m, msg->data.result);
        ended++;
    }
    return ended;
}

static xfer *free_place(xfer *xs) {
    while (xs->easy) xs++;
    return xs;
}

void wr_http_send_many(wr_http *h, const wr_http_request *reqs, wr_http_response *resps, wr_code *codes, wr_err *errs,
                       int n, int parallel) {
    int places = parallel < 1 ? 1 : parallel < n ? parallel : n, next = 0, active = 0, running;
    int poll_ms = h->stall_timeout_ms / 2 < POLL_MS ? h->stall_timeout_ms / 2 : POLL_MS;
    WR_AUTO xfer *xs = wr_calloc((size_t)places, sizeof *xs);
    CURLM *m = xs ? multi_take(h) : NULL;
    bool broken = !m;
    while (!broken && (active || next < n)) {
        for (; active < places && next < n; next++)
            active += start(h, free_place(xs), m, &reqs[next], &resps[next], &codes[next], &errs[next]);
        broken = curl_multi_perform(m, &running) != CURLM_OK;
        int ended = end_done(h, m) + end_stalled(h, xs, places, m);
        active -= ended;
        if (!broken && !ended && active) broken = curl_multi_poll(m, NULL, 0, poll_ms, NULL) != CURLM_OK;
    }
    for (xfer *x = xs; x && x < xs + places; x++)
        if (x->easy) finish(h, x, m, CURLE_OUT_OF_MEMORY);
    for (; next < n; next++) {
        wr_http_response_clear(&resps[next]);
        codes[next] = wr_nomem(&errs[next], "HTTP requests", (size_t)places * sizeof *xs);
    }
    if (m && broken)
        curl_multi_cleanup(m);
    else if (m)
        multi_give(h, m);
}

wr_code wr_http_send(wr_http *h, const wr_http_request *req, wr_http_response *resp, wr_err *err) {
    wr_code code;
    wr_http_send_many(h, req, resp, &code, err, 1, 1);
    return code;
}

int64_t wr_http_backoff_us(int n, const wr_http_response *last) {
    int64_t us = n > 7 ? 10000000 : 100000 << (n - 1);
    if (us > 10000000) us = 10000000;
    us = us / 2 + arc4random_uniform((uint32_t)(us / 2) + 1);
    WR_AUTO char *after = last ? wr_http_header(last, "Retry-After") : NULL;
    long seconds = after ? strtol(after, NULL, 10) : 0; /* its other form, a date, is 0 */
    if (seconds > 60) seconds = 60;
    return seconds > 0 && seconds * 1000000 > us ? seconds * 1000000 : us;
}
