/* A tiny HTTP server in this process for tests: one thread per connection, answers by the path of the request. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct http_server http_server;
typedef struct http_seen { /* a request, read whole unless the handler says otherwise */
    const char *method, *path, *headers;
    const char *body;
    size_t body_n;
    int nth_here; /* 1 = first of its connection */
} http_seen;
/* Sends the answer to fd; false closes the connection. */
typedef bool http_handler(http_server *s, int fd, const http_seen *seen);

struct http_server {
    int listener, port, stop[2];
    http_handler *handler;
    bool unread_body; /* the handler is called before the body is read */
    atomic_int connections, requests, now, peak;
    pthread_t acceptor, threads[256];
    int nthreads;
};

typedef struct http_conn_arg {
    http_server *s;
    int fd;
} http_conn_arg;

static void http_say(int fd, const char *text, size_t n) {
    while (n) {
        ssize_t done = send(fd, text, n, MSG_NOSIGNAL);
        if (done <= 0) return;
        text += done;
        n -= (size_t)done;
    }
}

static void http_answer(int fd, int status, const char *headers, const char *body, size_t n) {
    char head[1024];
    int h = snprintf(head, sizeof head, "HTTP/1.1 %d Status\r\nContent-Length: %zu\r\n%s\r\n", status, n, headers);
    http_say(fd, head, (size_t)h);
    http_say(fd, body, n);
}

/* Waits for bytes or the end of the test. */
static ssize_t http_hear(http_server *s, int fd, char *p, size_t n) {
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = s->stop[0], .events = POLLIN}};
    poll(fds, 2, -1);
    return fds[0].revents ? recv(fd, p, n, 0) : 0;
}

static void *http_connection(void *arg) {
    http_server *s = ((http_conn_arg *)arg)->s;
    int fd = ((http_conn_arg *)arg)->fd;
    free(arg);
    size_t cap = 8 << 20, n = 0;
    char *buf = malloc(cap + 1), method[16], path[512];
    for (int nth = 1;; nth++) {
        char *end;
        size_t head = 0, body = 0;
        bool gone = false;
        for (buf[n] = 0; !(end = strstr(buf, "\r\n\r\n")) && !gone;) {
            ssize_t got = http_hear(s, fd, buf + n, cap - n);
            gone = got <= 0;
            if (!gone) n += (size_t)got;
            buf[n] = 0;
        }
        if (gone || sscanf(buf, "%15s %511s", method, path) != 2) break;
        head = (size_t)(end - buf) + 4;
        char *length = strcasestr(buf, "\r\nContent-Length:");
        if (length && length < end) body = strtoul(length + 17, NULL, 10);
        while (!s->unread_body && n < head + body && !gone) {
            ssize_t got = http_hear(s, fd, buf + n, cap - n);
            gone = got <= 0;
            if (!gone) n += (size_t)got;
        }
        if (gone) break;
        s->requests++;
        end[2] = 0;
        http_seen seen = {method, path, buf, buf + head, s->unread_body ? 0 : body, nth};
        int now = ++s->now;
        for (int peak = s->peak; now > peak && !atomic_compare_exchange_weak(&s->peak, &peak, now);) continue;
        bool go_on = s->handler(s, fd, &seen);
        s->now--;
        if (!go_on) break;
        memmove(buf, buf + head + body, n - head - body);
        n -= head + body;
    }
    close(fd);
    free(buf);
    return NULL;
}

static void *http_accept(void *arg) {
    http_server *s = arg;
    struct pollfd fds[2] = {{.fd = s->listener, .events = POLLIN}, {.fd = s->stop[0], .events = POLLIN}};
    while (s->nthreads < 256 && poll(fds, 2, -1) > 0 && !fds[1].revents) {
        http_conn_arg *a = malloc(sizeof *a);
        *a = (http_conn_arg){s, accept(s->listener, NULL, NULL)};
        s->connections++;
        pthread_create(&s->threads[s->nthreads++], NULL, http_connection, a);
    }
    return NULL;
}

static void http_server_start(http_server *s, http_handler *handler) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    *s = (http_server){.handler = handler, .listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (pipe(s->stop) != 0 || bind(s->listener, (struct sockaddr *)&a, n) != 0 || listen(s->listener, 64) != 0 ||
        getsockname(s->listener, (struct sockaddr *)&a, &n) != 0)
        abort();
    s->port = ntohs(a.sin_port);
    pthread_create(&s->acceptor, NULL, http_accept, s);
}

static void http_server_stop(http_server *s) {
    close(s->stop[1]); /* wakes every thread */
    pthread_join(s->acceptor, NULL);
    for (int i = 0; i < s->nthreads; i++) pthread_join(s->threads[i], NULL);
    close(s->stop[0]);
    close(s->listener);
}

#endif
