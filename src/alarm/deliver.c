#include "deliver.h"
#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/base/spawn.h"
#include "weir/http.h"

#define TIMEOUT_US INT64_C(10000000)

static int64_t limit_us(const wr_alarm_sink *s) { return s->timeout_us ? s->timeout_us : TIMEOUT_US; }

/* ------------------------------------------------------------------ webhooks */
static wr_code signature(const char *secret, const char *body, char out[96], wr_err *err) {
    uint8_t mac[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (!HMAC(EVP_sha256(), secret, (int)strlen(secret), (const uint8_t *)body, strlen(body), mac, &n)) return wr_nomem(err, "signature", 64);
    int at = snprintf(out, 96, "X-Weir-Signature: sha256=");
    for (unsigned i = 0; i < n; i++) at += snprintf(out + at, 96 - (size_t)at, "%02x", mac[i]);
    return WR_OK;
}

/* The few words that Feishu and Slack say about what they do not like. */
static void words(const char *text, char out[81]) {
    size_t n = 0;
    for (; *text && n < 80; text++) out[n++] = (char)((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f ? ' ' : *text);
    out[n] = 0;
}

/* Feishu refuses with status 200. */
static wr_code judge(const wr_alarm_sink *s, const wr_http_response *r, wr_err *err) {
    char said[81] = "";
    const char *body = r->body.n ? (const char *)r->body.p : "";
    bool taken = r->status >= 200 && r->status < 300;
    if (s->form == WR_WEBHOOK_SLACK && !taken) words(body, said);
    if (s->form == WR_WEBHOOK_FEISHU) {
        cJSON *o = cJSON_Parse(body);
        const cJSON *code = cJSON_GetObjectItemCaseSensitive(o, "code");
        const char *msg = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "msg"));
        if (cJSON_IsNumber(code) && code->valuedouble != 0) taken = false;
        if (!taken && msg) words(msg, said);
        cJSON_Delete(o);
    }
    if (taken) return WR_OK;
    return wr_fail(err, WR_E_NET, WR_RETRY_SOON, "answered with status %d%s%s", r->status, said[0] ? ": " : "", said);
}

static char *webhook_body(const wr_alarm_sink *s, const char *pipeline, const wr_notice *n, const wr_alarm *a) {
    switch (s->form) {
    case WR_WEBHOOK_FEISHU: return wr_notice_feishu(pipeline, n, a, s->secret, wr_now_us());
    case WR_WEBHOOK_SLACK: return wr_notice_slack(pipeline, n, a);
    default: return wr_notice_json(pipeline, n, a);
    }
}

static wr_code send_webhook(const wr_alarm_sink *s, const char *pipeline, const wr_notice *n, const wr_alarm *a, wr_err *err) {
    WR_AUTO char *body = webhook_body(s, pipeline, n, a);
    char signed_by[96];
    const char *headers[2] = {"Content-Type: application/json; charset=utf-8", signed_by};
    int nheaders = 1, ms = (int)(limit_us(s) / 1000);
    wr_http *h;
    wr_http_response r = {0};
    wr_err why = WR_ERR_INIT;
    if (!body) return wr_nomem(err, "notice", 4096);
    if (s->secret && s->form == WR_WEBHOOK_GENERIC) {
        WR_TRY(signature(s->secret, body, signed_by, err));
        nheaders = 2;
    }
    WR_TRY(wr_http_open(&(wr_http_options){.ca_file = s->ca_file, .connect_timeout_ms = ms, .stall_timeout_ms = ms, .total_timeout_ms = ms}, &h, err));
    wr_code rc = wr_http_send(h, &(wr_http_request){.method = "POST", .url = s->url, .headers = headers, .nheaders = nheaders, .has_body = true, .body = wr_slice_str(body), .max_response = 65536}, &r, &why);
    if (rc != WR_OK) { /* the path of an address is what lets one in: it is left out */
        const char *behind = strstr(why.msg, ": ");
        rc = wr_fail(err, rc, why.retry, "%s", behind ? behind + 2 : "no answer");
    } else if (!wr_buf_cstr(&r.body)) rc = wr_nomem(err, "answer", r.body.n);
    else rc = judge(s, &r, err);
    wr_http_response_clear(&r);
    wr_http_close(h);
    return rc;
}

/* ------------------------------------------------------------------ mail */
typedef struct outgoing { const char *p; size_t left; } outgoing;
static size_t give_mail(char *to, size_t size, size_t n, void *ctx) {
    outgoing *o = ctx;
    n *= size;
    if (n > o->left) n = o->left;
    memcpy(to, o->p, n);
    o->p += n, o->left -= n;
    return n;
}

/* "Weir <weir@x>" is weir@x on the envelope. */
static char *bare(const char *address) {
    const char *open = strrchr(address, '<');
    return open ? wr_strndup(open + 1, strcspn(open + 1, ">")) : wr_strdup(address);
}

static CURLcode set_mail(CURL *c, const wr_alarm_sink *s, const char *from, struct curl_slist *to, outgoing *text, char *why) {
    bool required = s->tls == WR_MAIL_TLS_REQUIRED || (s->tls == WR_MAIL_TLS_AUTO && s->user);
    CURLcode rc = CURLE_OK;
#define SET(option, value)                                                                                                                                                                                                                 \
    if (rc == CURLE_OK) rc = curl_easy_setopt(c, option, value)
    SET(CURLOPT_URL, s->smtp);
    SET(CURLOPT_PROTOCOLS_STR, "smtp,smtps");
    SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_TIMEOUT_MS, (long)(limit_us(s) / 1000));
    SET(CURLOPT_ERRORBUFFER, why);
    SET(CURLOPT_USE_SSL, (long)(required ? CURLUSESSL_ALL : s->tls == WR_MAIL_TLS_DISABLED ? CURLUSESSL_NONE : CURLUSESSL_TRY));
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (s->ca_file) SET(CURLOPT_CAINFO, s->ca_file);
    if (s->user) SET(CURLOPT_USERNAME, s->user);
    if (s->user) SET(CURLOPT_PASSWORD, s->password ? s->password : "");
    SET(CURLOPT_MAIL_FROM, from);
    SET(CURLOPT_MAIL_RCPT, to);
    SET(CURLOPT_UPLOAD, 1L);
    SET(CURLOPT_READFUNCTION, give_mail);
    SET(CURLOPT_READDATA, text);
#undef SET
    return rc;
}

static wr_code send_mail(const wr_alarm_sink *s, const char *pipeline, const wr_notice *n, const wr_alarm *a, wr_err *err) {
    WR_AUTO char *text = wr_notice_mail(s, pipeline, n, a, wr_now_us()), *from = bare(s->from);
    char why[CURL_ERROR_SIZE] = "";
    wr_http *h; /* for what libcurl must do once in a process */
    WR_TRY(wr_http_open(NULL, &h, err));
    wr_http_close(h);
    CURL *c = text && from ? curl_easy_init() : NULL;
    struct curl_slist *to = NULL;
    for (int i = 0; c && i < s->nto; i++) {
        WR_AUTO char *address = bare(s->to[i]);
        struct curl_slist *more = address ? curl_slist_append(to, address) : NULL;
        if (!more) curl_easy_cleanup(c), c = NULL;
        else to = more;
    }
    if (!c) return curl_slist_free_all(to), wr_nomem(err, "mail", 4096);
    outgoing o = {text, strlen(text)};
    CURLcode rc = set_mail(c, s, from, to, &o, why);
    if (rc == CURLE_OK) rc = curl_easy_perform(c);
    long status = 0;
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(c);
    curl_slist_free_all(to);
    if (rc == CURLE_OK) return WR_OK;
    return wr_fail(err, WR_E_NET, WR_RETRY_SOON, "%s%s%s (SMTP status %ld)", curl_easy_strerror(rc), why[0] ? ": " : "", why, status);
}

/* ------------------------------------------------------------------ commands */
/* Ends before `until_us`, or false. */
static bool write_all(int fd, const char *p, int64_t until_us) {
    for (size_t left = strlen(p); left;) {
        ssize_t n = write(fd, p, left);
        if (n > 0) p += n, left -= (size_t)n;
        else if (n < 0 && errno == EPIPE) return true; /* it does not want to know */
        else if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
        else {
            int64_t ms = (until_us - wr_mono_us()) / 1000;
            if (ms <= 0 || poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, (int)ms) == 0) return false;
        }
    }
    return true;
}

/* Its own group, so that whatever it starts ends with it; nothing of ours is open in it but stdin. */
static int start(const char *const *argv, int in, pid_t *ret_pid) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in, 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    int no = wr_spawn(argv[0], argv, environ, &files, true, ret_pid);
    posix_spawn_file_actions_destroy(&files);
    return no;
}

/* -1: the time was over, and it was ended. */
static int wait_for(pid_t pid, int64_t until_us) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0), status;
    int64_t ms = (until_us - wr_mono_us()) / 1000;
    bool over = fd < 0 || poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, ms > 0 ? (int)ms : 0) == 0;
    if (over) kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (fd >= 0) close(fd);
    return over ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static wr_code run_command(const wr_alarm_sink *s, const char *pipeline, const wr_notice *n, const wr_alarm *a, wr_err *err) {
    WR_AUTO char *input = wr_notice_json(pipeline, n, a);
    int ends[2];
    pid_t pid;
    if (!input) return wr_nomem(err, "notice", 4096);
    if (pipe2(ends, O_CLOEXEC) != 0) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "no pipe: %s", strerror(errno));
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    int rc = start(s->argv, ends[0], &pid);
    close(ends[0]);
    if (rc != 0) return close(ends[1]), wr_fail(err, WR_E_CONFIG, WR_RETRY_SOON, "%s cannot be started: %s", s->argv[0], strerror(rc));
    int64_t until = wr_mono_us() + limit_us(s);
    write_all(ends[1], input, until);
    close(ends[1]);
    int status = wait_for(pid, until);
    if (status < 0) return wr_fail(err, WR_E_TIMEOUT, WR_RETRY_SOON, "%s has not ended after %d s", s->argv[0], (int)(limit_us(s) / 1000000));
    if (status) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "%s ended with status %d", s->argv[0], status);
    return WR_OK;
}

wr_code wr_alarm_deliver(const wr_alarm_sink *s, const char *pipeline, const wr_notice *n, const wr_alarm *a, wr_err *err) {
    // cppcheck-suppress uninitvar; it does not see the initializer of an array of functions
    wr_code (*const how[])(const wr_alarm_sink *, const char *, const wr_notice *, const wr_alarm *, wr_err *) = {send_webhook, send_mail, run_command};
    wr_code rc = how[s->type](s, pipeline, n, a, err);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "alarms.notify '%s'", s->name);
}

wr_code wr_alarm_try(const wr_alarm_sink *sink, const char *pipeline, wr_err *err) {
    int64_t now = wr_now_us();
    wr_alarm a = {.severity = WR_ALARM_INFO, .first_us = now, .last_us = now, .count = 1, .kind = "test", .text = "a notice to try out whether notices arrive", .cure = "none is needed"};
    return wr_alarm_deliver(sink, pipeline, &(wr_notice){.event = WR_EVENT_TEST, .at_us = now}, &a, err);
}
