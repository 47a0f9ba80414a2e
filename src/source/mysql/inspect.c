/* Looking at the servers while a pipeline runs: what it believes against what they say. Answers are those of one moment, and nothing here is certain enough to stop for. */
#include <stdio.h>
#include <stdlib.h>
#include "gtid.h"
#include "position.h"
#include "topology.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"

enum { LAG_S = 60 };

typedef struct look {
    const wr_source *s;
    const wr_source_options *o;
    const wr_inspection *in;
    wr_my_servers all;
    const wr_my_server *here; /* the one that is captured, NULL = does not answer */
} look;

static void say(const look *l, const char *id, const char *consequence, const char *cure, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static void say(const look *l, const char *id, const char *consequence, const char *cure, const char *fmt, ...) {
    wr_finding f = {.severity = WR_FINDING_WARNS, .id = id};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f.what, sizeof f.what, fmt, ap);
    va_end(ap);
    snprintf(f.consequence, sizeof f.consequence, "%s", consequence);
    snprintf(f.cure, sizeof f.cure, "%s", cure);
    l->in->finding(l->in->ctx, &f);
}

static void find_here(look *l) {
    for (int i = 0; i < l->all.n; i++)
        if (l->all.at[i].answers && !strcmp(l->all.at[i].identity, l->s->identity)) l->here = &l->all.at[i];
    for (int i = 0; i < l->all.n; i++) {
        const wr_my_server *sv = &l->all.at[i];
        if (sv == l->here || sv->port != l->s->conn.port || strcmp(sv->host, l->s->conn.host) != 0) continue;
        if (sv->answers)
            say(l, "other-server", "connections that are open go on with the old one; new ones are refused, so that tables cannot be read", "the sync goes on there by itself when that server has all that was captured; if it never will, point the address back",
                "behind %s is now %s, and %s is followed", l->s->address, sv->identity, l->s->identity);
        else say(l, "source-away", "nothing new arrives from it", "is it running? A sync with several addresses goes on elsewhere when its connection is lost", "%s (%s) does not answer", l->s->address, l->s->identity);
    }
}

static void look_at_replication(const look *l) {
    const wr_my_server *sv = l->here;
    if (!sv || sv->role != WR_ROLE_REPLICA) return;
    if (sv->threads_known && (!sv->io_running || !sv->sql_running))
        say(l, "replica-stopped", "no changes arrive there, so none reach the lake", "START REPLICA (START SLAVE), after looking at its last error", "%s is a replica, and its replication does not run (IO %s, SQL %s)", l->s->address,
            sv->io_running ? "yes" : "no", sv->sql_running ? "yes" : "no");
    else if (sv->lag_s > LAG_S)
        say(l, "replica-lag", "the lake is behind by that much in addition", "let it catch up, or capture from another server", "%s is a replica, %lld s behind", l->s->address, (long long)sv->lag_s);
}

static void look_at_others(const look *l) {
    for (int i = 0; i < l->all.n; i++) {
        const wr_my_server *sv = &l->all.at[i];
        WR_AUTO_BUF wr_buf names = WR_BUF_INIT;
        bool related = true;
        wr_err e = WR_ERR_INIT;
        if (!sv->answers) {
            if (sv->port != l->s->conn.port || strcmp(sv->host, l->s->conn.host) != 0)
                say(l, "server-away", "it cannot be gone on with", "start it, or take it out of source.hosts", "%s:%d does not answer: %.200s", sv->host, sv->port, sv->why.msg);
            continue;
        }
        if (sv != l->here && sv->gtid && l->in->captured->gtid_set && *l->in->captured->gtid_set &&
            (sv->flavor != l->s->flavor || (wr_gtid_missing(sv->flavor, sv->executed, l->in->captured->gtid_set, &names, &related, &e) == WR_OK && names.n && !related))) {
            say(l, "other-cluster", "it is never gone on with", "take it out of source.hosts, or point its name to the right server", "%s:%d (%s) shares no transaction with what is captured: it is of another cluster", sv->host, sv->port,
                sv->identity);
            continue;
        }
        if (wr_my_server_errant(&l->all, sv, &names, &e) == WR_OK && names.n)
            say(l, "errant-transactions", "rows differ between the servers; it is not gone on with", "remove them there, apply them at the primary, or set the server up anew", "%s:%d has transactions that the primary has not: %.300s", sv->host, sv->port,
                wr_buf_cstr(&names) ? (char *)names.p : "?");
        if (sv != l->here || sv->role != WR_ROLE_PRIMARY) continue;
        for (int k = 0; k < l->all.n; k++) {
            const wr_my_server *o = &l->all.at[k];
            if (!o->answers || o->role != WR_ROLE_PRIMARY || o->flavor != sv->flavor || !strcmp(o->identity, sv->identity)) continue;
            if (wr_gtid_missing(sv->flavor, o->executed, sv->executed, &names, &related, &e) == WR_OK && names.n && related)
                say(l, "two-primaries", "changes are made at both, and the lake gets those of one", "make one of them a replica again; what only the other has is lost to it", "%s and %s:%d both take changes; only the former has %.200s", l->s->address,
                    o->host, o->port, wr_buf_cstr(&names) ? (char *)names.p : "?");
        }
    }
}

static double number(MYSQL *m, const char *name) {
    WR_AUTO char *v = NULL;
    wr_err e = WR_ERR_INIT;
    return wr_my_scalar(m, &v, &e, "SELECT @@global.%s", name) == WR_OK && v ? strtod(v, NULL) : 0;
}

/* How much is left until the server throws away what has not been captured. */
static void look_at_retention(const look *l, MYSQL *m) {
    double keep_s = number(m, "binlog_expire_logs_seconds");
    if (keep_s <= 0) keep_s = number(m, "expire_logs_days") * 86400;
    double behind_s = (double)l->in->behind_us / 1e6;
    if (keep_s > 0 && behind_s > keep_s / 2)
        say(l, "retention", "when it is used up, what was not captured is gone: the captured tables must be read again", "find out what holds capture up, and keep binlog files longer until then",
            "capture is %.0f s behind, and %s keeps binlog files for %.0f s", behind_s, l->s->address, keep_s);
    if (l->here && l->here->oldest && l->in->captured->epoch == l->s->epoch) {
        wr_pos oldest = {.offset = 4, .epoch = l->s->epoch};
        snprintf(oldest.file, sizeof oldest.file, "%s", l->here->oldest);
        if (wr_pos_cmp(l->in->captured, &oldest) < 0)
            say(l, "purged", "a new connection could not go on: the captured tables would have to be read again", "keep binlog files longer", "captured is what is before %s:%llu, and the oldest file of %s is %s", l->in->captured->file,
                (unsigned long long)l->in->captured->offset, l->s->address, oldest.file);
    }
}

static wr_code take_table(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    const look *l = ctx;
    char base[256];
    if (ncols < 2 || !row[0] || !row[1] || !wr_capture_matches(l->s->capture, row[0], row[1])) return WR_OK;
    if (wr_is_shadow_name(row[1], base, sizeof base) && !wr_capture_names(l->s->capture, row[0], row[1])) return WR_OK; /* may be a helper */
    return l->in->table(l->in->ctx, row[0], row[1], err);
}

static wr_code look_on(const look *l, MYSQL *m, wr_err *err) {
    look_at_retention(l, m);
    if (!l->in->table) return WR_OK;
    return wr_my_query(m, take_table, (void *)(uintptr_t)l, err, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')");
}

/* Whether another server is to be gone on with, though this one answers. */
static wr_code look_for_better(const look *l, bool *ret_better, wr_err *err) {
    const wr_source_known known = {.identity = l->s->identity, .epoch = l->s->epoch, .gtid_set = l->in->captured->gtid_set};
    int at;
    wr_err e = WR_ERR_INIT;
    wr_code rc = wr_my_servers_choose(&l->all, &(wr_my_choice){.known = &known, .prefer = l->o->prefer, .zone = l->o->zone}, &at, &e);
    if (rc == WR_E_NOMEM) return *err = e, rc;
    if (rc != WR_OK && l->here) say(l, "no-server-fits", "the sync would not begin there again", e.cure, "%.480s", e.msg);
    *ret_better = rc == WR_OK && strcmp(l->all.at[at].identity, l->s->identity) != 0;
    return WR_OK;
}

wr_code wr_source_inspect(const wr_source *s, const wr_source_options *o, const wr_inspection *in, bool *ret_better, wr_err *err) {
    look l = {.s = s, .o = o, .in = in};
    MYSQL *m;
    bool better = false;
    WR_TRY(wr_my_servers_list(o, &l.all, err));
    wr_my_servers_ask(&s->conn, &l.all);
    find_here(&l);
    look_at_replication(&l);
    wr_code rc = WR_OK;
    bool only = wr_my_servers_only(&l.all, s);
    if (!only) look_at_others(&l);
    if (!only || !l.here) rc = look_for_better(&l, &better, err);
    if (rc == WR_OK && l.here) {
        rc = wr_my_connect(&s->conn, &m, err);
        if (rc == WR_OK) {
            rc = look_on(&l, m, err);
            wr_my_disconnect(m);
        }
    }
    wr_my_servers_clear(&l.all);
    if (rc == WR_OK) *ret_better = better;
    return rc;
}
