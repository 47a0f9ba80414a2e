#include "session.h"

#include <string.h>
#include "source_impl.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"

/* A server's slots are for those who work; and an address that fails over is asked again some time. */
#define IDLE_MAX_US 60000000

wr_code wr_my_identity(MYSQL *m, char **ret, wr_err *err) {
    char *id = NULL;
    WR_TRY(wr_my_scalar(m, &id, err, "%s", mariadb_connection(m) ? "SELECT CONCAT('mariadb-', @@global.gtid_domain_id, '-', @@global.server_id)" : "SELECT @@server_uuid"));
    if (!id) return wr_fail(err, WR_E_SERVER, WR_RETRY_NO, "the server does not tell who it is");
    *ret = id;
    return WR_OK;
}

static wr_code is_followed(const wr_source *s, MYSQL *m, wr_err *err) {
    WR_AUTO char *id = NULL;
    WR_TRY(wr_my_identity(m, &id, err));
    if (!strcmp(id, s->identity)) return WR_OK;
    return wr_fail(err, WR_E_SERVER, WR_RETRY_SOON, "behind %s is now another server (%s), and %s is followed", s->address, id, s->identity);
}

wr_code wr_my_follow(const wr_source *s, MYSQL **ret, wr_err *err) {
    MYSQL *m;
    WR_TRY(wr_my_connect(&s->conn, &m, err));
    wr_code rc = is_followed(s, m, err);
    if (rc != WR_OK) return wr_my_disconnect(m), rc;
    *ret = m;
    return WR_OK;
}

/* ------------------------------------------------------------------ kept */
void wr_my_sessions_init(wr_my_sessions *k) { pthread_mutex_init(&k->lock, NULL); }

void wr_my_sessions_close(wr_my_sessions *k) {
    for (int i = 0; i < k->n; i++) wr_my_disconnect(k->at[i].m);
    k->n = 0;
    pthread_mutex_destroy(&k->lock);
}

/* The one that has been idle for too long, NULL = none has. */
static MYSQL *take_old(wr_my_sessions *k) {
    MYSQL *m = NULL;
    pthread_mutex_lock(&k->lock);
    if (k->n && wr_mono_us() - k->at[0].since_us > IDLE_MAX_US) {
        m = k->at[0].m;
        memmove(k->at, k->at + 1, (size_t)--k->n * sizeof *k->at);
    }
    pthread_mutex_unlock(&k->lock);
    return m;
}

static MYSQL *take_last(wr_my_sessions *k) {
    pthread_mutex_lock(&k->lock);
    MYSQL *m = k->n ? k->at[--k->n].m : NULL;
    pthread_mutex_unlock(&k->lock);
    return m;
}

static bool keep(wr_my_sessions *k, MYSQL *m) {
    pthread_mutex_lock(&k->lock);
    bool room = k->n < WR_MY_SESSIONS_KEPT;
    if (room) {
        k->at[k->n].m = m;
        k->at[k->n++].since_us = wr_mono_us();
    }
    pthread_mutex_unlock(&k->lock);
    return room;
}

wr_code wr_my_session(wr_source *s, MYSQL **ret, wr_err *err) {
    MYSQL *m;
    while ((m = take_old(&s->sessions))) wr_my_disconnect(m);
    if ((m = take_last(&s->sessions))) {
        wr_err gone = WR_ERR_INIT;
        int64_t began_us = wr_mono_us();
        if (wr_my_renew(&s->conn, m, &gone) == WR_OK) return *ret = m, WR_OK;
        do wr_my_disconnect(m); /* the others will hardly be better */
        while ((m = take_last(&s->sessions)));
        if (wr_mono_us() - began_us >= WR_MY_CONNECT_TIMEOUT_S * 1000000ll) return *err = gone, err->code; /* a new one would be waited for as long */
    }
    return wr_my_follow(s, ret, err);
}

void wr_my_session_end(wr_source *s, MYSQL *m, wr_code rc) {
    if (!m) return;
    wr_err ignored = WR_ERR_INIT;
    bool clean = rc == WR_OK && m->net.max_packet <= WR_BUF_KEPT && wr_my_rest(m, &ignored) == WR_OK;
    if (!clean || !keep(&s->sessions, m)) wr_my_disconnect(m);
}
