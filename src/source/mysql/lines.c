#include "lines.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>
#include "weir/base/mem.h"

/* fd: a duplicate. The library closes its own, on whichever thread meets an error, and the number may be another's by then. */
typedef struct line { MYSQL *m; int fd; } line;

struct wr_my_lines {
    pthread_mutex_t lock; /* guards everything below */
    line *at; int n, cap;
    bool cut;
};

static char key[] = "weir.lines";

wr_code wr_my_lines_new(wr_my_lines **ret, wr_err *err) {
    wr_my_lines *l = wr_calloc(1, sizeof *l);
    if (!l) return wr_nomem(err, "connections", sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    *ret = l;
    return WR_OK;
}

void wr_my_lines_free(wr_my_lines *l) {
    if (!l) return;
    pthread_mutex_destroy(&l->lock);
    wr_free(l->at);
    wr_free(l);
}

static wr_code add(wr_my_lines *l, MYSQL *m, wr_err *err) {
    if (l->cut) return wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "the server is being left");
    if (l->n == l->cap) {
        int cap = l->cap ? 2 * l->cap : 8;
        line *more = wr_realloc(l->at, (size_t)cap * sizeof *more);
        if (!more) return wr_nomem(err, "connections", (size_t)cap * sizeof *more);
        l->at = more, l->cap = cap;
    }
    if (mysql_optionsv(m, MARIADB_OPT_USERDATA, key, l) != 0) return wr_nomem(err, "a connection", sizeof *l);
    l->at[l->n++] = (line){m, fcntl((int)mysql_get_socket(m), F_DUPFD_CLOEXEC, 0)};
    return WR_OK;
}

wr_code wr_my_lines_add(wr_my_lines *l, MYSQL *m, wr_err *err) {
    pthread_mutex_lock(&l->lock);
    wr_code rc = add(l, m, err);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

void wr_my_lines_leave(MYSQL *m) {
    wr_my_lines *l = NULL;
    if (mysql_get_optionv(m, MARIADB_OPT_USERDATA, key, (void *)&l) != 0 || !l) return;
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < l->n; i++) {
        if (l->at[i].m != m) continue;
        if (l->at[i].fd >= 0) close(l->at[i].fd);
        l->at[i] = l->at[--l->n];
        break;
    }
    pthread_mutex_unlock(&l->lock);
}

void wr_my_lines_cut_one(wr_my_lines *l, const MYSQL *m) {
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < l->n; i++)
        if (l->at[i].m == m && l->at[i].fd >= 0) (void)shutdown(l->at[i].fd, SHUT_RDWR);
    pthread_mutex_unlock(&l->lock);
}

void wr_my_lines_cut(wr_my_lines *l) {
    pthread_mutex_lock(&l->lock);
    l->cut = true;
    for (int i = 0; i < l->n; i++)
        if (l->at[i].fd >= 0) (void)shutdown(l->at[i].fd, SHUT_RDWR);
    pthread_mutex_unlock(&l->lock);
}
