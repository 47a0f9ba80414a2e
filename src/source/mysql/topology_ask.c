/* The addresses of a source: those of the configuration, or those that a topology service names. docs/operate/failover.md has the service's answer. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "topology.h"
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"
#include "weir/base/spawn.h"
#include "weir/http.h"

enum { ANSWER_MS = 10000, ANSWER_BYTES = 1 << 20, USUAL_WEIGHT = 100 };

extern char **environ;

/* ------------------------------------------------------------------ addresses */
static wr_code add_server(wr_my_servers *all, const char *host, size_t n, int port, wr_err *err) {
    for (int i = 0; i < all->n; i++)
        if (strlen(all->at[i].host) == n && !memcmp(all->at[i].host, host, n) && all->at[i].port == port) return WR_OK;
    wr_my_server *at = wr_realloc(all->at, ((size_t)all->n + 1) * sizeof *at);
    if (!at) return wr_nomem(err, "servers", sizeof *at);
    all->at = at;
    at[all->n] = (wr_my_server){.host = wr_strndup(host, n), .port = port, .lag_s = -1, .weight = USUAL_WEIGHT};
    return at[all->n].host ? (all->n++, WR_OK) : wr_nomem(err, "servers", n);
}

/* "db1", "db1:3307", "[::1]:3307" */
static wr_code add_address(wr_my_servers *all, const char *text, int usual_port, wr_err *err) {
    const char *host = text, *end = text + strlen(text), *colon = *text == '[' ? strstr(text, "]:") : strrchr(text, ':');
    int port = usual_port;
    if (*text == '[') {
        host = text + 1, end = strchr(text, ']');
        if (colon) colon++;
    } else if (colon && strchr(text, ':') != colon) colon = NULL; /* a bare IPv6 address */
    else if (colon) end = colon;
    if (colon) {
        char *tail;
        long v = strtol(colon + 1, &tail, 10);
        port = *tail || tail == colon + 1 || v < 1 || v > 65535 ? 0 : (int)v;
    }
    if (end && end != host && port) return add_server(all, host, (size_t)(end - host), port, err);
    wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "source.hosts: '%.200s' is no address", text);
    return wr_err_cure(err, "host, host:port or [IPv6 address]:port");
}

static int usual_port(const wr_source_options *o) { return o->port ? o->port : 3306; }

static wr_code list_configured(const wr_source_options *o, wr_my_servers *all, wr_err *err) {
    const char *host = o->host ? o->host : "127.0.0.1";
    WR_TRY(add_server(all, host, strlen(host), usual_port(o), err));
    for (int i = 0; i < o->nhosts; i++) WR_TRY(add_address(all, o->hosts[i], usual_port(o), err));
    return WR_OK;
}

/* ------------------------------------------------------------------ the service */
/* Everything the command prints until it ends, or has been given up. */
static wr_code read_all(int fd, wr_buf *out, wr_err *err) {
    int64_t until = wr_mono_us() + ANSWER_MS * 1000ll;
    char buf[4096];
    for (;;) {
        int64_t left = until - wr_mono_us();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = left > 0 ? poll(&p, 1, (int)(left / 1000) + 1) : 0;
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return wr_fail(err, WR_E_TIMEOUT, WR_RETRY_SOON, "no answer within %d s", ANSWER_MS / 1000);
        ssize_t got = read(fd, buf, sizeof buf);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "reading its answer: %m");
        if (got == 0) return wr_buf_check(out, "the topology", err);
        if (out->n + (size_t)got > ANSWER_BYTES) return wr_fail(err, WR_E_LIMIT, WR_RETRY_SOON, "the answer is longer than %d bytes", ANSWER_BYTES);
        wr_buf_put(out, buf, (size_t)got);
    }
}

static wr_code run_command(const wr_source_options *o, wr_buf *out, wr_err *err) {
    WR_AUTO const char **argv = wr_calloc((size_t)o->ntopology_command + 1, sizeof *argv);
    int fd[2], status = 0;
    pid_t pid;
    if (!argv) return wr_nomem(err, "a command", 64);
    for (int i = 0; i < o->ntopology_command; i++) argv[i] = o->topology_command[i];
    if (pipe2(fd, O_CLOEXEC) != 0) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "pipe: %m");
    posix_spawn_file_actions_t fa;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&fa, fd[1], 1);
    int no = wr_spawn(argv[0], argv, environ, &fa, true, &pid);
    posix_spawn_file_actions_destroy(&fa);
    close(fd[1]);
    if (no != 0) {
        close(fd[0]);
        return wr_fail(err, WR_E_CONFIG, WR_RETRY_SOON, "cannot be started: %s", strerror(no));
    }
    wr_code rc = read_all(fd[0], out, err);
    close(fd[0]);
    if (rc != WR_OK) kill(-pid, SIGKILL); /* with whom it has started */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (rc != WR_OK || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return rc;
    return wr_fail(err, WR_E_SERVER, WR_RETRY_SOON, "ended with status %d", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static wr_code get_url(const wr_source_options *o, wr_buf *out, wr_err *err) {
    wr_http *h;
    wr_http_response resp = {0};
    WR_TRY(wr_http_open(&(wr_http_options){.total_timeout_ms = ANSWER_MS}, &h, err));
    wr_code rc = wr_http_send(h, &(wr_http_request){.method = "GET", .url = o->topology_url, .max_response = ANSWER_BYTES}, &resp, err);
    if (rc == WR_OK && resp.status != 200) rc = wr_fail(err, WR_E_SERVER, WR_RETRY_SOON, "answers with HTTP status %d", resp.status);
    if (rc == WR_OK) wr_buf_put(out, resp.body.p, resp.body.n);
    wr_http_response_clear(&resp);
    wr_http_close(h);
    return rc == WR_OK ? wr_buf_check(out, "the topology", err) : rc;
}

static wr_code no_server(int i, const char *why, wr_err *err) { return wr_fail(err, WR_E_DECODE, WR_RETRY_SOON, "servers[%d] of its answer: %s", i, why); }

static wr_code take_server(const wr_source_options *o, const cJSON *e, int i, wr_my_servers *all, wr_err *err) {
    const cJSON *host = cJSON_GetObjectItemCaseSensitive(e, "host"), *port = cJSON_GetObjectItemCaseSensitive(e, "port"), *role = cJSON_GetObjectItemCaseSensitive(e, "role"),
                *zone = cJSON_GetObjectItemCaseSensitive(e, "zone"), *weight = cJSON_GetObjectItemCaseSensitive(e, "weight");
    if (!cJSON_IsString(host) || !*host->valuestring) return no_server(i, "host is missing", err);
    if (port && !(cJSON_IsNumber(port) && port->valuedouble >= 1 && port->valuedouble <= 65535)) return no_server(i, "port is no number from 1 to 65535", err);
    if (role && !(cJSON_IsString(role) && (!strcmp(role->valuestring, "primary") || !strcmp(role->valuestring, "replica")))) return no_server(i, "role is neither primary nor replica", err);
    if (zone && !cJSON_IsString(zone)) return no_server(i, "zone is no text", err);
    if (weight && !(cJSON_IsNumber(weight) && weight->valuedouble >= 0 && weight->valuedouble <= 1000)) return no_server(i, "weight is no number from 0 to 1000", err);
    int before = all->n;
    WR_TRY(add_server(all, host->valuestring, strlen(host->valuestring), port ? (int)port->valuedouble : usual_port(o), err));
    if (all->n == before) return no_server(i, "this address is there already", err);
    wr_my_server *sv = &all->at[before];
    sv->told = !role ? WR_ROLE_UNKNOWN : !strcmp(role->valuestring, "primary") ? WR_ROLE_PRIMARY : WR_ROLE_REPLICA;
    if (weight) sv->weight = (int)weight->valuedouble;
    if (zone && !(sv->zone = wr_strdup(zone->valuestring))) return wr_nomem(err, "a zone", strlen(zone->valuestring));
    return WR_OK;
}

static wr_code parse(const wr_source_options *o, wr_buf *text, wr_my_servers *all, wr_err *err) {
    cJSON *doc = wr_buf_cstr(text) ? cJSON_Parse((char *)text->p) : NULL;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(doc, "servers"), *e;
    wr_code rc = WR_OK;
    int i = 0;
    if (!cJSON_IsArray(list) || !cJSON_GetArraySize(list)) rc = wr_fail(err, WR_E_DECODE, WR_RETRY_SOON, "its answer is not {\"servers\": [{\"host\": ...}, ...]} with at least one server");
    cJSON_ArrayForEach(e, list)
        if (rc == WR_OK) rc = take_server(o, e, i++, all, err);
    cJSON_Delete(doc);
    return rc;
}

static wr_code ask_service(const wr_source_options *o, wr_my_servers *all, wr_err *err) {
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    wr_code rc = o->topology_url ? get_url(o, &text, err) : run_command(o, &text, err);
    if (rc == WR_OK) rc = parse(o, &text, all, err);
    return rc == WR_OK ? rc : wr_err_in(err, "source.topology: %.200s", o->topology_url ? "url" : o->topology_command[0]);
}

/* Without an answer the configured addresses must do: a sync does not end because the service does, and whoever is chosen has to have what was captured. */
wr_code wr_my_servers_list(const wr_source_options *o, wr_my_servers *ret, wr_err *err) {
    wr_my_servers all = {0};
    wr_err e = WR_ERR_INIT;
    wr_code rc = WR_OK;
    bool asked = o->topology_url || o->ntopology_command;
    if (asked && ask_service(o, &all, &e) != WR_OK) {
        wr_my_servers_clear(&all);
        wr_log(WR_LOG_WARN, "%s; the addresses of source.url and source.hosts are used", e.msg);
    }
    if (!all.n) rc = list_configured(o, &all, err);
    if (rc != WR_OK) return wr_my_servers_clear(&all), rc;
    *ret = all;
    return WR_OK;
}
