#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/http.h"
#include "weir/io.h"
#include "http_server.h"
#include "tmpdir.h"

static http_server srv;
static wr_http *http;
static wr_http_response resp;
static wr_err err;

static bool is(const http_seen *q, const char *path) { return strncmp(q->path, path, strlen(path)) == 0; }

static bool answer(http_server *s, int fd, const http_seen *q) {
    static char zeroes[1 << 20];
    char c[1];
    if (is(q, "/status/"))
        http_answer(fd, atoi(q->path + 8), "Retry-After: 3\r\nX-One:  a b \r\n", "hm",
                    strcmp(q->method, "HEAD") ? 2 : 0);
    else if (is(q, "/headers"))
        http_answer(fd, 200, "", q->headers, strlen(q->headers));
    else if (is(q, "/echo"))
        http_answer(fd, 200, "", q->body, q->body_n);
    else if (is(q, "/path"))
        http_answer(fd, 200, "", q->path, strlen(q->path));
    else if (is(q, "/bytes/"))
        http_answer(fd, 200, "", zeroes, strtoul(q->path + 7, NULL, 10));
    else if (is(q, "/redirect"))
        http_answer(fd, 302, "Location: /status/200\r\n", "", 0);
    else if (is(q, "/interim")) {
        const char *hints = "HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n";
        http_say(fd, hints, strlen(hints));
        http_answer(fd, 200, "X-Late: 2\r\n", "x", 1);
    } else if (is(q, "/cut"))
        return false;
    else if (is(q, "/half")) {
        const char *half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789";
        http_say(fd, half, strlen(half));
        return false;
    } else if (is(q, "/head-cut/")) {
        static const char *const heads[] = {"HTTP/1.1 200 O", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n",
                                            "HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No"};
        const char *head = heads[atoi(q->path + 10)];
        http_say(fd, head, strlen(head));
        return false;
    } else if (is(q, "/twice-here-cuts")) {
        if (q->nth_here > 1) return false;
        http_answer(fd, 200, "", "", 0);
    } else if (is(q, "/stall")) {
        http_hear(s, fd, c, 1);
        return false;
    } else if (is(q, "/wait")) {
        usleep(50000);
        http_answer(fd, 200, "", "", 0);
    } else if (is(q, "/early")) {
        http_answer(fd, 403, "Connection: close\r\n", "", 0);
        usleep(200000); /* a close with bytes unread would be a reset, and take the answer with it */
        return false;
    } else if (is(q, "/endless-header")) {
        http_say(fd, "HTTP/1.1 200 OK\r\n", 17);
        for (int i = 0; i < 40000; i++) http_say(fd, "A: 0123456789\r\n", 15);
        return false;
    } else
        http_answer(fd, 404, "", "", 0);
    return true;
}

static const char *url_of(const char *path) {
    static char urls[64][600];
    static int at;
    char *u = urls[at++ % 64];
    snprintf(u, 600, "http://127.0.0.1:%d%s", srv.port, path);
    return u;
}

static wr_http_request request(const char *method, const char *path) {
    return (wr_http_request){.method = method, .url = url_of(path)};
}

static wr_code send_it(const wr_http_request *req) {
    wr_err_clear(&err);
    return wr_http_send(http, req, &resp, &err);
}

static wr_code get(const char *path) {
    wr_http_request req = request("GET", path);
    return send_it(&req);
}

static int setup(void **st) {
    setenv("no_proxy", "*", 1);
    dir_make(st);
    http_server_start(&srv, answer);
    wr_http_options o = {.connect_timeout_ms = 2000, .stall_timeout_ms = 300};
    return wr_http_open(&o, &http, &err) == WR_OK ? 0 : -1;
}

static int teardown(void **st) {
    wr_http_response_clear(&resp);
    wr_http_close(http);
    http_server_stop(&srv);
    return dir_remove(st);
}

static void an_answer_has_status_headers_and_body(void **st) {
    assert_int_equal(get("/status/418"), WR_OK);
    assert_int_equal(resp.status, 418);
    assert_false(resp.maybe_done);
    assert_string_equal(wr_buf_cstr(&resp.body), "hm");
    WR_AUTO char *one = wr_http_header(&resp, "x-ONE");
    assert_string_equal(one, "a b");
    assert_null(wr_http_header(&resp, "x-on"));
    assert_null(wr_http_header(&resp, "x-one:"));
    wr_http_request head = request("HEAD", "/status/200");
    assert_int_equal(send_it(&head), WR_OK);
    assert_int_equal(resp.status, 200);
    assert_int_equal(resp.body.n, 0);
}

static void what_came_before_the_answer_is_not_the_answer(void **st) {
    assert_int_equal(get("/interim"), WR_OK);
    assert_int_equal(resp.status, 200);
    assert_null(wr_http_header(&resp, "X-Early"));
    WR_AUTO char *late = wr_http_header(&resp, "X-Late");
    assert_string_equal(late, "2");
}

static void redirects_are_the_callers(void **st) {
    assert_int_equal(get("/redirect"), WR_OK);
    assert_int_equal(resp.status, 302);
    assert_int_equal(srv.requests, 1);
}

static void headers_go_out_as_given_and_paths_as_they_are(void **st) {
    const char *h[] = {"X-Test: 1", "Content-Type: text/plain"};
    wr_http_request req = request("PUT", "/headers");
    req.headers = h, req.nheaders = 2, req.has_body = true, req.body = wr_slice_str("abc");
    assert_int_equal(send_it(&req), WR_OK);
    const char *got = wr_buf_cstr(&resp.body);
    assert_non_null(strstr(got, "\r\nX-Test: 1\r\n"));
    assert_non_null(strstr(got, "\r\nContent-Type: text/plain\r\n"));
    assert_non_null(strstr(got, "\r\nContent-Length: 3\r\n"));
    assert_null(strcasestr(got, "\r\nExpect:"));
    assert_int_equal(get("/path/../a//b/./c%20d?x=%2F"), WR_OK);
    assert_string_equal(wr_buf_cstr(&resp.body), "/path/../a//b/./c%20d?x=%2F");
}

static void a_line_break_in_a_header_is_refused(void **st) {
    const char *h[] = {"X-Test: 1\r\nX-Other: 2"};
    wr_http_request req = request("GET", "/headers");
    req.headers = h, req.nheaders = 1;
    assert_int_equal(send_it(&req), WR_E_INVAL);
    assert_int_equal(srv.requests, 0);
}

static void bodies_come_from_memory_or_a_part_of_a_file(void **st) {
    WR_AUTO_BUF wr_buf big = WR_BUF_INIT;
    for (uint32_t i = 0; i < 500000; i++) wr_buf_u32(&big, i * 2654435761u);
    wr_http_request req = request("POST", "/echo");
    req.has_body = true, req.body = wr_buf_view(&big);
    assert_int_equal(send_it(&req), WR_OK);
    assert_true(wr_slice_eq(wr_buf_view(&resp.body), wr_buf_view(&big)));
    req.body = wr_slice_of(NULL, 0);
    assert_int_equal(send_it(&req), WR_OK);
    assert_int_equal(resp.body.n, 0);

    assert_int_equal(wr_file_create(in_dir("f"), wr_buf_view(&big), &err), WR_OK);
    req.body_file = in_dir("f"), req.body_at = 1001, req.body_n = 777777;
    assert_int_equal(send_it(&req), WR_OK);
    assert_true(wr_slice_eq(wr_buf_view(&resp.body), wr_slice_of(big.p + 1001, 777777)));
}

static void a_file_that_is_missing_or_too_short_is_an_error(void **st) {
    wr_http_request req = request("PUT", "/echo");
    req.has_body = true, req.body_file = in_dir("f"), req.body_n = 10;
    assert_int_equal(send_it(&req), WR_E_NOTFOUND);
    assert_false(resp.maybe_done);
    assert_int_equal(wr_file_create(in_dir("f"), wr_slice_str("short"), &err), WR_OK);
    assert_int_equal(send_it(&req), WR_E_IO);
    assert_non_null(strstr(err.msg, "/f ends at 5"));
    req.body_at = UINT64_MAX;
    assert_int_equal(send_it(&req), WR_E_INVAL);
}

static void more_than_allowed_is_a_limit(void **st) {
    wr_http_request req = request("GET", "/bytes/1000");
    req.max_response = 1000;
    assert_int_equal(send_it(&req), WR_OK);
    assert_int_equal(resp.body.n, 1000);
    req.max_response = 999;
    assert_int_equal(send_it(&req), WR_E_LIMIT);
    assert_int_equal(resp.status, 200);
    assert_int_equal(get("/endless-header"), WR_E_LIMIT);
}

static void only_a_request_that_was_sent_may_have_been_carried_out(void **st) {
    assert_int_equal(get("/cut"), WR_E_NET);
    assert_int_equal(err.retry, WR_RETRY_SOON);
    assert_true(resp.maybe_done);
    assert_int_equal(resp.status, 0);
    assert_int_equal(get("/half"), WR_E_NET);
    assert_true(resp.maybe_done);
    assert_int_equal(resp.status, 200);
    assert_int_equal(resp.body.n, 10);
    for (int i = 0; i < 6; i++) { /* a head that does not end */
        char path[32];
        snprintf(path, sizeof path, "/head-cut/%d", i);
        assert_int_equal(get(path), WR_E_NET);
        assert_int_equal(err.retry, WR_RETRY_SOON);
        assert_true(resp.maybe_done);
    }

    int nobody = socket(AF_INET, SOCK_STREAM, 0); /* bound, but nobody listens */
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    assert_int_equal(bind(nobody, (struct sockaddr *)&a, n), 0);
    assert_int_equal(getsockname(nobody, (struct sockaddr *)&a, &n), 0);
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", ntohs(a.sin_port));
    wr_http_request req = {.method = "POST", .url = url};
    assert_int_equal(send_it(&req), WR_E_NET);
    assert_int_equal(err.retry, WR_RETRY_SOON);
    assert_false(resp.maybe_done);
    close(nobody);
    req.url = "http://nowhere.invalid/";
    assert_int_equal(send_it(&req), WR_E_NET);
    assert_false(resp.maybe_done);
}

/* libcurl alone would send it once more, and the answer would be that of the second. */
static void a_request_is_sent_once_even_when_a_kept_connection_dies(void **st) {
    for (int with_body = 0; with_body < 2; with_body++) {
        wr_http_request req = request("POST", "/twice-here-cuts");
        if (with_body) req.has_body = true, req.body = wr_slice_str("commit");
        srv.requests = 0;
        assert_int_equal(send_it(&req), WR_OK);
        assert_int_equal(send_it(&req), WR_E_NET);
        assert_true(resp.maybe_done);
        assert_int_equal(srv.requests, 2);
        assert_int_equal(get("/cut"), WR_E_NET); /* leaves no kept connection */
    }
}

static void connections_are_kept(void **st) {
    for (int i = 0; i < 5; i++) assert_int_equal(get("/status/200"), WR_OK);
    assert_int_equal(srv.connections, 1);
}

static void a_server_that_says_nothing_is_left(void **st) {
    int64_t from = wr_mono_us();
    assert_int_equal(get("/stall"), WR_E_NET);
    assert_true(resp.maybe_done);
    assert_non_null(strstr(err.msg, "nothing moved for 300 ms"));
    assert_true(wr_mono_us() - from >= 300000);
}

static void urls_that_are_none_are_refused_and_errors_keep_secrets(void **st) {
    const char *bad[] = {"ftp://127.0.0.1/x", "file:///etc/passwd", "http://", "nonsense nowhere",
                         "http://user:hidden@127.0.0.1/x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wr_http_request req = {.method = "GET", .url = bad[i]};
        assert_int_equal(send_it(&req), WR_E_CONFIG);
        assert_false(resp.maybe_done);
        assert_null(strstr(err.msg, "hidden"));
    }
    const char *h[] = {"Authorization: hidden"};
    wr_http_request req = request("POST", "/cut?token=hidden");
    req.headers = h, req.nheaders = 1, req.has_body = true, req.body = wr_slice_str("hidden");
    assert_int_equal(send_it(&req), WR_E_NET);
    assert_null(strstr(err.msg, "hidden"));
    assert_non_null(strstr(err.msg, "POST http://127.0.0.1:"));
    assert_non_null(strstr(err.msg, "/cut: "));
}

static void many_go_in_parallel_and_each_has_its_own_result(void **st) {
    enum { N = 40 };
    wr_http_request reqs[N];
    wr_http_response resps[N] = {0};
    wr_code codes[N];
    static wr_err errs[N];
    for (int i = 0; i < N; i++) reqs[i] = request("GET", i % 10 == 3 ? "/cut" : i % 10 == 4 ? "/status/500" : "/wait");
    reqs[7].url = "http://";
    wr_http_send_many(http, reqs, resps, codes, errs, N, 6);
    for (int i = 0; i < N; i++) {
        assert_int_equal(codes[i], i == 7 ? WR_E_CONFIG : i % 10 == 3 ? WR_E_NET : WR_OK);
        if (codes[i] == WR_OK) assert_int_equal(resps[i].status, i % 10 == 4 ? 500 : 200);
        wr_http_response_clear(&resps[i]);
    }
    assert_in_range(srv.peak, 3, 6);
    wr_http_send_many(http, reqs, resps, codes, errs, 0, 6);
}

static wr_http_request some;

static void *send_some(void *failures) {
    wr_http_response r = {0};
    wr_err e = WR_ERR_INIT;
    for (int i = 0; i < 50; i++)
        if (wr_http_send(http, &some, &r, &e) != WR_OK || r.body.n != 5000) ++*(atomic_int *)failures;
    wr_http_response_clear(&r);
    return NULL;
}

static void one_client_serves_many_threads(void **st) {
    pthread_t t[6];
    atomic_int failures = 0;
    some = request("GET", "/bytes/5000");
    for (int i = 0; i < 6; i++) pthread_create(&t[i], NULL, send_some, &failures);
    for (int i = 0; i < 6; i++) pthread_join(t[i], NULL);
    assert_int_equal(failures, 0);
    assert_in_range(srv.connections, 1, 6);
}

static void a_refusal_that_comes_while_the_body_goes_is_the_answer(void **st) {
    WR_AUTO_BUF wr_buf big = WR_BUF_INIT;
    for (uint32_t i = 0; i < 4000000; i++) wr_buf_u32(&big, i);
    srv.unread_body = true;
    wr_http_request req = request("PUT", "/early");
    req.has_body = true, req.body = wr_buf_view(&big);
    assert_int_equal(send_it(&req), WR_OK);
    assert_int_equal(resp.status, 403);
    req.url = url_of("/cut");
    assert_int_equal(send_it(&req), WR_E_NET);
    assert_true(resp.maybe_done);
}

static void every_allocation_may_fail(void **st) {
    int failed = 0;
    for (uint64_t n = 1;; n++) {
        wr_mem_fail_after(n);
        wr_code rc = get("/status/200");
        bool happened = wr_mem_fail_after(0) == 0;
        if (!happened) {
            assert_int_equal(rc, WR_OK);
            break;
        }
        assert_int_equal(rc, WR_E_NOMEM);
        failed++;
    }
    assert_in_range(failed, 3, 20);
    wr_http *h = NULL;
    wr_http_options o = {.ca_file = "/dev/null"};
    for (uint64_t n = 1; n <= 2; n++) {
        wr_mem_fail_after(n);
        assert_int_equal(wr_http_open(&o, &h, &err), WR_E_NOMEM);
    }
    wr_mem_fail_after(0);
    o.ca_file = in_dir("none.pem");
    assert_int_equal(wr_http_open(&o, &h, &err), WR_E_CONFIG);
    assert_null(h);
}

static void waits_grow_and_obey_the_server(void **st) {
    for (int i = 0; i < 50; i++) {
        assert_in_range(wr_http_backoff_us(1, NULL), 50000, 100000);
        assert_in_range(wr_http_backoff_us(3, NULL), 200000, 400000);
        assert_in_range(wr_http_backoff_us(8, NULL), 5000000, 10000000);
        assert_in_range(wr_http_backoff_us(1000, NULL), 5000000, 10000000);
    }
    assert_int_equal(get("/status/503"), WR_OK);
    assert_int_equal(wr_http_backoff_us(1, &resp), 3000000);
    wr_buf_clear(&resp.headers);
    wr_buf_printf(&resp.headers, "HTTP/1.1 503 x\r\nretry-after: 99999999999999999999\r\n");
    assert_int_equal(wr_http_backoff_us(1, &resp), 60000000);
    wr_buf_clear(&resp.headers);
    wr_buf_printf(&resp.headers, "Retry-After: -5\r\nRetry-After");
    assert_in_range(wr_http_backoff_us(1, &resp), 50000, 100000);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(an_answer_has_status_headers_and_body),
        T(what_came_before_the_answer_is_not_the_answer),
        T(redirects_are_the_callers),
        T(headers_go_out_as_given_and_paths_as_they_are),
        T(a_line_break_in_a_header_is_refused),
        T(bodies_come_from_memory_or_a_part_of_a_file),
        T(a_file_that_is_missing_or_too_short_is_an_error),
        T(more_than_allowed_is_a_limit),
        T(only_a_request_that_was_sent_may_have_been_carried_out),
        T(a_request_is_sent_once_even_when_a_kept_connection_dies),
        T(connections_are_kept),
        T(a_server_that_says_nothing_is_left),
        T(urls_that_are_none_are_refused_and_errors_keep_secrets),
        T(many_go_in_parallel_and_each_has_its_own_result),
        T(one_client_serves_many_threads),
        T(a_refusal_that_comes_while_the_body_goes_is_the_answer),
        T(every_allocation_may_fail),
        T(waits_grow_and_obey_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
