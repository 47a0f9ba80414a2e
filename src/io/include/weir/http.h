/* HTTP requests through libcurl: kept connections, verified TLS, named limits, and one thing that most clients do not tell: whether a request
 * that got no answer may have reached the server.
 * @thread any: one client serves all threads, each request runs on a handle of its own */
#ifndef WEIR_HTTP_H
#define WEIR_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"

typedef struct wr_http wr_http;
typedef struct wr_http_options { /* zero means default */
    const char *ca_file;         /* PEM bundle instead of the system's; certificates are always verified */
    int connect_timeout_ms;      /* 10,000 */
    int stall_timeout_ms;        /* 30,000: nothing moved in either direction for so long */
    int total_timeout_ms;        /* 0 = none */
} wr_http_options;
wr_code wr_http_open(const wr_http_options *opts, wr_http **ret_http, wr_err *err);
void wr_http_close(wr_http *h);

typedef struct wr_http_request { /* all borrowed */
    const char *method;          /* GET, HEAD, PUT, POST, DELETE */
    const char *url;
    const char *const *headers;  /* "Name: value" */
    int nheaders;
    bool has_body;               /* false: no Content-Length is sent, not even 0 */
    wr_slice body;               /* or: */
    const char *body_file;       /* this file's bytes from body_at on, body_n of them */
    uint64_t body_at, body_n;
    size_t max_response;         /* bytes of the answer's body; 0 = 64 MiB. More is WR_E_LIMIT */
} wr_http_request;

typedef struct wr_http_response {
    int status;                  /* 0: no answer */
    wr_buf body, headers;        /* headers as they came, lines end with \r\n */
    bool maybe_done;             /* no whole answer came, and the request may have been carried out */
} wr_http_response;
void wr_http_response_clear(wr_http_response *r);
/* Value of a header, any case, of the last answer; NULL = absent. Owned. */
char *wr_http_header(const wr_http_response *r, const char *name);

/* One attempt, which sends the request once at most; redirects are not followed. WR_OK with any status when a whole answer came. WR_E_NET (retry soon) when none did, WR_E_CONFIG for a
 * certificate that does not verify and a URL that is none or names a user, WR_E_LIMIT, WR_E_INVAL for a header with a line break. resp is cleared first and filled as far as it went, in every case.
 * Never logs or puts into an error: headers, query strings, bodies. */
wr_code wr_http_send(wr_http *h, const wr_http_request *req, wr_http_response *resp, wr_err *err);
/* n requests, up to `parallel` at a time; codes[i] and errs[i] are those of wr_http_send. */
void wr_http_send_many(wr_http *h, const wr_http_request *reqs, wr_http_response *resps, wr_code *codes, wr_err *errs, int n, int parallel);

/* Time to wait before attempt `n` (1 = the first repetition): 100 ms doubled each time up to 10 s, with a random half; no less than a Retry-After of the
 * answer (seconds, at most 60). */
int64_t wr_http_backoff_us(int n, const wr_http_response *last);

#endif
