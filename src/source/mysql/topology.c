/* The servers of a source: asking each what it is, and choosing. */
#include "topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include "gtid.h"
#include "weir/base/mem.h"

enum { ASK_TIMEOUT_S = 5 };

void wr_my_server_forget(wr_my_server *sv) {
    wr_free(sv->identity), wr_free(sv->executed), wr_free(sv->purged), wr_free(sv->oldest), wr_free(sv->filters);
    sv->identity = sv->executed = sv->purged = sv->oldest = sv->filters = NULL;
    sv->answers = false;
}

void wr_my_servers_clear(wr_my_servers *all) {
    for (int i = 0; i < all->n; i++) {
        wr_my_server_forget(&all->at[i]);
        wr_free(all->at[i].host), wr_free(all->at[i].zone);
    }
    wr_free(all->at);
    *all = (wr_my_servers){0};
}

/* ------------------------------------------------------------------ asking */
static bool is_on(const char *v) { return v && (!strcmp(v, "1") || !strcasecmp(v, "ON")); }

static wr_code ask_flag(MYSQL *m, const char *name, bool *ret, wr_err *err) {
    WR_AUTO char *v = NULL;
    WR_TRY(wr_my_scalar(m, &v, err, "SELECT @@global.%s", name));
    *ret = is_on(v);
    return WR_OK;
}

/* A variable that was renamed. */
static wr_code ask_either(MYSQL *m, const char *name, const char *older, bool *ret, wr_err *err) {
    wr_err e = WR_ERR_INIT;
    return ask_flag(m, name, ret, &e) == WR_OK ? WR_OK : ask_flag(m, older, ret, err);
}

static wr_code add_filter(wr_my_server *sv, const char *name, const char *v, wr_err *err) {
    char *both = wr_asprintf("%s%s%s: %.100s", sv->filters ? sv->filters : "", sv->filters ? ", " : "", name, v);
    if (!both) return wr_nomem(err, "filters", 256);
    wr_free(sv->filters);
    sv->filters = both;
    return WR_OK;
}

typedef struct replication { wr_my_server *sv; bool channels; wr_code rc; wr_err *err; } replication;

/* Its columns are some sixty, and their names depend on the server. Several channels: all must run, the furthest behind counts. */
static void take_replication(void *ctx, const char *name, const char *value) {
    replication *x = ctx;
    wr_my_server *sv = x->sv;
    const char *v = value ? value : "";
    x->channels = true;
    if (!strncmp(name, "Seconds_Behind", 14) && *v && atoll(v) > sv->lag_s) sv->lag_s = atoll(v);
    else if (!strcmp(name, "Replica_IO_Running") || !strcmp(name, "Slave_IO_Running")) sv->io_running &= !strcasecmp(v, "Yes");
    else if (!strcmp(name, "Replica_SQL_Running") || !strcmp(name, "Slave_SQL_Running")) sv->sql_running &= !strcasecmp(v, "Yes");
    else if (*v && x->rc == WR_OK && !strncmp(name, "Replicate_", 10) && strcmp(name, "Replicate_Ignore_Server_Ids") != 0 && strncmp(name, "Replicate_Rewrite", 17) != 0) x->rc = add_filter(sv, name, v, x->err);
}

static wr_code ask_replication(MYSQL *m, wr_my_server *sv, bool *ret_channels, bool *ret_denied, wr_err *err) {
    replication x = {.sv = sv, .err = err};
    wr_err e = WR_ERR_INIT;
    *ret_channels = *ret_denied = false;
    sv->io_running = sv->sql_running = true;
    sv->lag_s = -1;
    wr_code rc = wr_my_query_named(m, take_replication, &x, sv->flavor == WR_MARIADB ? "SHOW ALL SLAVES STATUS" : "SHOW REPLICA STATUS", &e);
    if (rc != WR_OK && mysql_errno(m) == 1064) wr_err_clear(&e), rc = wr_my_query_named(m, take_replication, &x, "SHOW SLAVE STATUS", &e); /* MySQL before 8.0.22 */
    if (rc != WR_OK && (mysql_errno(m) == 1227 || mysql_errno(m) == 1142)) return sv->io_running = sv->sql_running = false, *ret_denied = true, WR_OK;
    if (rc != WR_OK) return *err = e, rc;
    WR_TRY(x.rc);
    *ret_channels = x.channels;
    if (!*ret_channels) sv->io_running = sv->sql_running = false;
    return WR_OK;
}

static wr_code take_filters(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    wr_my_server *sv = ctx;
    if (ncols >= 4 && row[2] && *row[2]) WR_TRY(add_filter(sv, "binlog_do_db", row[2], err));
    if (ncols >= 4 && row[3] && *row[3]) WR_TRY(add_filter(sv, "binlog_ignore_db", row[3], err));
    return WR_OK;
}

static wr_code ask_filters(MYSQL *m, wr_my_server *sv, wr_err *err) {
    wr_err e = WR_ERR_INIT;
    if (sv->flavor == WR_MYSQL && wr_my_query(m, take_filters, sv, &e, "SHOW BINARY LOG STATUS") == WR_OK) return WR_OK;
    return wr_my_query(m, take_filters, sv, err, "SHOW MASTER STATUS");
}

static wr_code ask_role(MYSQL *m, wr_my_server *sv, wr_err *err) {
    bool channels, denied;
    WR_TRY(ask_flag(m, "read_only", &sv->read_only, err));
    WR_TRY(ask_replication(m, sv, &channels, &denied, err));
    sv->threads_known = !denied;
    bool replica = denied ? sv->read_only : channels && (sv->io_running || sv->sql_running || sv->read_only);
    sv->role = replica ? WR_ROLE_REPLICA : WR_ROLE_PRIMARY;
    return WR_OK;
}

static wr_code ask_executed(MYSQL *m, wr_my_server *sv, wr_err *err) {
    char *now = NULL;
    if (sv->flavor == WR_MYSQL) WR_TRY(wr_my_scalar(m, &now, err, "SELECT @@global.gtid_executed"));
    else WR_TRY(wr_my_scalar(m, &now, err, "SELECT CONCAT(@@global.gtid_binlog_state, ',', @@global.gtid_slave_pos)"));
    if (!now && !(now = wr_strdup(""))) return wr_nomem(err, "GTID set", 1);
    wr_free(sv->executed);
    sv->executed = now;
    return WR_OK;
}

static wr_code take_first_log(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    char **name = ctx;
    if (*name || !ncols || !row[0]) return WR_OK;
    return (*name = wr_strdup(row[0])) ? WR_OK : wr_nomem(err, "a file's name", lengths[0]);
}

static wr_code ask_purged(MYSQL *m, wr_my_server *sv, wr_err *err) {
    wr_err e = WR_ERR_INIT;
    if (wr_my_query(m, take_first_log, &sv->oldest, &e, "SHOW BINARY LOGS") != WR_OK) return WR_OK; /* without the right to see it */
    if (sv->flavor == WR_MYSQL) return wr_my_scalar(m, &sv->purged, err, "SELECT @@global.gtid_purged");
    WR_AUTO_BUF wr_buf q = WR_BUF_INIT;
    wr_my_quote_text(&q, sv->oldest ? sv->oldest : "");
    WR_TRY(wr_buf_check(&q, "a query", err));
    return sv->oldest ? wr_my_scalar(m, &sv->purged, err, "SELECT BINLOG_GTID_POS(%s, 4)", wr_buf_cstr(&q)) : WR_OK;
}

static wr_code ask_all(MYSQL *m, wr_my_server *sv, wr_err *err) {
    WR_AUTO char *mode = NULL;
    sv->flavor = mariadb_connection(m) ? WR_MARIADB : WR_MYSQL;
    WR_TRY(wr_my_identity(m, &sv->identity, err));
    if (sv->flavor == WR_MYSQL) {
        WR_TRY(wr_my_scalar(m, &mode, err, "SELECT @@gtid_mode"));
        sv->gtid = mode && !strcasecmp(mode, "ON");
        WR_TRY(ask_either(m, "log_replica_updates", "log_slave_updates", &sv->log_updates, err));
    } else {
        sv->gtid = true;
        WR_TRY(ask_flag(m, "log_slave_updates", &sv->log_updates, err));
    }
    WR_TRY(ask_flag(m, "log_bin", &sv->binlog, err));
    WR_TRY(ask_role(m, sv, err));
    WR_TRY(ask_executed(m, sv, err));
    if (!sv->binlog) return WR_OK;
    WR_TRY(ask_filters(m, sv, err));
    return ask_purged(m, sv, err);
}

wr_code wr_my_server_ask(MYSQL *m, wr_my_server *sv, wr_err *err) {
    wr_my_server_forget(sv);
    wr_code rc = ask_all(m, sv, err);
    if (rc != WR_OK) return wr_my_server_forget(sv), rc;
    sv->answers = true;
    return WR_OK;
}

static wr_code ask_one(const wr_my_conn_options *conn, wr_my_server *sv, bool again, wr_err *err) {
    wr_my_conn_options o = *conn;
    MYSQL *m;
    o.host = sv->host, o.port = sv->port, o.timeout_s = ASK_TIMEOUT_S, o.tls = wr_my_tls_for(conn, sv->host);
    WR_TRY(wr_my_connect(&o, &m, err));
    wr_code rc = again ? ask_executed(m, sv, err) : wr_my_server_ask(m, sv, err);
    wr_my_disconnect(m);
    return rc;
}

void wr_my_servers_ask(const wr_my_conn_options *conn, wr_my_servers *all) {
    for (int i = 0; i < all->n; i++) {
        wr_err_clear(&all->at[i].why);
        ask_one(conn, &all->at[i], false, &all->at[i].why);
    }
    /* What a replica has came from its primary before: so it is asked once more behind all others. */
    for (int i = 0; i < all->n; i++) {
        wr_my_server *sv = &all->at[i];
        if (sv->answers && sv->role == WR_ROLE_PRIMARY && all->n > 1 && ask_one(conn, sv, true, &sv->why) != WR_OK) wr_my_server_forget(sv);
    }
}

bool wr_my_servers_only(const wr_my_servers *all, const wr_source *s) { return all->n == 1 && all->at[0].port == s->conn.port && !strcmp(all->at[0].host, s->conn.host); }

/* ------------------------------------------------------------------ choosing */
bool wr_my_server_foreign(const wr_my_server *sv, const wr_my_server *to) {
    WR_AUTO_BUF wr_buf missing = WR_BUF_INIT;
    bool related = true;
    wr_err e = WR_ERR_INIT;
    if (sv->flavor != to->flavor) return true;
    return sv->gtid && to->gtid && wr_gtid_missing(sv->flavor, sv->executed, to->executed, &missing, &related, &e) == WR_OK && missing.n && !related;
}

wr_code wr_my_server_errant(const wr_my_servers *all, const wr_my_server *sv, wr_buf *ret_names, wr_err *err) {
    const wr_my_server *primary = NULL;
    bool related;
    wr_buf_clear(ret_names);
    for (int i = 0; i < all->n; i++) {
        const wr_my_server *o = &all->at[i];
        if (!o->answers || o->role != WR_ROLE_PRIMARY || !o->gtid || wr_my_server_foreign(o, sv)) continue;
        if (primary && strcmp(primary->identity, o->identity) != 0) return WR_OK; /* two: which of them is right cannot be told */
        primary = o;
    }
    if (!primary || !sv->gtid || !strcmp(primary->identity, sv->identity)) return WR_OK;
    return wr_gtid_missing(sv->flavor, primary->executed, sv->executed, ret_names, &related, err);
}

typedef enum verdict {
    FITS = 0,
    DOWN,       /* does not answer */
    UNFIT,      /* cannot be captured from */
    BEHIND,     /* a replica that does not have all that was captured yet */
    LACKS,      /* it never will */
    FOREIGN,    /* nothing of what was captured comes from the same servers as anything it has */
    PURGED,     /* has all of it, and not what comes behind any more */
    NO_PLACE,   /* without GTIDs a position means nothing on another server */
    NOT_HERE,
} verdict;

typedef struct judged { verdict v; char why[400]; } judged;

static void judge(judged *j, verdict v, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void judge(judged *j, verdict v, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(j->why, sizeof j->why, fmt, ap);
    va_end(ap);
    j->v = v;
}

static bool is_known(const wr_my_server *sv, const wr_source_known *known) { return known && sv->answers && !strcmp(sv->identity, known->identity); }

bool wr_my_server_reaches_back(const wr_my_server *sv, const char *captured) {
    wr_gtid_set *ours = NULL, *gone = NULL;
    wr_err e = WR_ERR_INIT;
    bool yes = !sv->purged || wr_gtid_set_parse(sv->flavor, captured, &ours, &e) != WR_OK || wr_gtid_set_parse(sv->flavor, sv->purged, &gone, &e) != WR_OK ||
               wr_gtid_set_covers(ours, gone);
    wr_gtid_set_free(ours), wr_gtid_set_free(gone);
    return yes;
}

/* Whether a pipeline that has captured `known` may go on here, by the servers' GTIDs. */
static wr_code judge_history(const wr_my_server *sv, const wr_source_known *known, bool alone, bool behind_gap, judged *j, wr_err *err) {
    WR_AUTO_BUF wr_buf missing = WR_BUF_INIT;
    bool same = is_known(sv, known), related = false;
    if (!sv->gtid || !known->gtid_set || !known->gtid_set[0]) {
        if (!same) judge(j, NO_PLACE, "is another server, and without GTIDs on both a place in one binlog says nothing about the other");
        return WR_OK;
    }
    if (same && alone) return WR_OK; /* there is no other choice, and the stream knows more exactly what is wrong */
    wr_err e = WR_ERR_INIT;
    wr_code rc = wr_gtid_missing(sv->flavor, sv->executed, known->gtid_set, &missing, &related, &e);
    if (rc == WR_E_DECODE) return judge(j, FOREIGN, "is another kind of server (%s)", sv->flavor == WR_MARIADB ? "MariaDB" : "MySQL"), WR_OK;
    if (rc != WR_OK) return *err = e, rc;
    const char *names = wr_buf_cstr(&missing);
    if (missing.n && !related && !same) judge(j, FOREIGN, "shares no transaction with what this pipeline has followed: it is of another cluster");
    else if (missing.n && sv->role == WR_ROLE_REPLICA)
        judge(j, BEHIND, "is a replica that does not have yet, of what was captured: %.200s", names ? names : "?");
    else if (missing.n) judge(j, LACKS, "does not have, of what was captured: %.200s", names ? names : "?");
    else if (!same && !behind_gap && !wr_my_server_reaches_back(sv, known->gtid_set)) judge(j, PURGED, "has purged transactions that come behind what was captured");
    return WR_OK;
}

static wr_code judge_server(const wr_my_servers *all, const wr_my_server *sv, const wr_my_choice *c, judged *j, wr_err *err) {
    WR_AUTO_BUF wr_buf errant = WR_BUF_INIT;
    const wr_source_known *known = c->known;
    *j = (judged){0};
    if (!sv->answers) return judge(j, DOWN, "%.300s", sv->why.msg), WR_OK;
    if (c->leave && !strcmp(c->leave, sv->identity)) return judge(j, NOT_HERE, "is the one that is being left"), WR_OK;
    if (known && known->only && !is_known(sv, known)) return judge(j, NOT_HERE, "is not the one that the sync follows"), WR_OK;
    if (!sv->binlog) return all->n > 1 ? judge(j, UNFIT, "writes no binlog") : (void)0, WR_OK; /* alone: the preflight words it better */
    if (all->n > 1 && sv->role == WR_ROLE_REPLICA && !sv->log_updates) return judge(j, UNFIT, "is a replica with log_slave_updates off"), WR_OK;
    if (sv->weight == 0 && !(known && known->only)) return judge(j, UNFIT, "has weight 0: the topology service wants nothing from it"), WR_OK;
    if (sv->filters && !is_known(sv, known) && (known || all->n > 1)) return judge(j, UNFIT, "has filters, and its binlog may lack changes: %.200s", sv->filters), WR_OK;
    if (known && !known->only) WR_TRY(judge_history(sv, known, all->n == 1, c->behind_gap, j, err));
    if (j->v != FITS || (known && known->only)) return WR_OK;
    WR_TRY(wr_my_server_errant(all, sv, &errant, err));
    if (errant.n) judge(j, UNFIT, "has transactions that the primary has not (errant): %.200s", wr_buf_cstr(&errant) ? (char *)errant.p : "?");
    return WR_OK;
}

static bool stands_still(const wr_my_server *sv) { return sv->role == WR_ROLE_REPLICA && sv->threads_known && !(sv->io_running && sv->sql_running); }

/* More is better. */
static int64_t score(const wr_my_server *sv, wr_prefer prefer, const char *zone) {
    wr_role role = sv->told ? sv->told : sv->role;
    int64_t s = 0;
    if (stands_still(sv)) s -= 1000000000000;
    if ((prefer == WR_PREFER_REPLICA && role == WR_ROLE_REPLICA) || (prefer == WR_PREFER_PRIMARY && role == WR_ROLE_PRIMARY)) s += 100000000000;
    if (zone && sv->zone && !strcmp(zone, sv->zone)) s += 10000000000;
    s += (int64_t)sv->weight * 1000000;
    if (sv->role == WR_ROLE_REPLICA && sv->lag_s > 30) s -= (sv->lag_s > 100000 ? 100000 : sv->lag_s) * 10;
    return s;
}

/* A primary that has been replaced, and answers (again): the other one, which has all it has, and more. NULL = none. */
static const wr_my_server *successor(const wr_my_servers *all, const judged *j, const wr_my_server *sv) {
    WR_AUTO_BUF wr_buf missing = WR_BUF_INIT;
    bool related;
    wr_err e = WR_ERR_INIT;
    if (!sv->answers || sv->role != WR_ROLE_PRIMARY || !sv->gtid) return NULL;
    for (int i = 0; i < all->n; i++) {
        const wr_my_server *o = &all->at[i];
        if (o == sv || j[i].v != FITS || o->role != WR_ROLE_PRIMARY || !o->gtid || o->flavor != sv->flavor || !strcmp(o->identity, sv->identity)) continue;
        if (wr_gtid_missing(sv->flavor, o->executed, sv->executed, &missing, &related, &e) != WR_OK || missing.n) continue;
        if (wr_gtid_missing(sv->flavor, sv->executed, o->executed, &missing, &related, &e) == WR_OK && missing.n) return o;
    }
    return NULL;
}

/* Moving costs: loads under way begin again. So it takes a reason. */
static bool may_stay(const wr_my_servers *all, const judged *j, int at, const wr_my_choice *c) {
    const wr_my_server *sv = &all->at[at];
    bool to_primary = c->prefer == WR_PREFER_PRIMARY && sv->role == WR_ROLE_REPLICA, to_replica = c->starting && c->prefer == WR_PREFER_REPLICA && sv->role == WR_ROLE_PRIMARY;
    for (int i = 0; i < all->n; i++) {
        const wr_my_server *o = &all->at[i];
        if (i == at || j[i].v != FITS || stands_still(o)) continue;
        if (stands_still(sv) || (to_primary && o->role == WR_ROLE_PRIMARY) || (to_replica && o->role == WR_ROLE_REPLICA)) return false;
    }
    return true;
}

static wr_code none_fits(const wr_my_servers *all, const judged *j, const wr_source_known *known, wr_err *err) {
    int count[NOT_HERE + 1] = {0};
    WR_AUTO_BUF wr_buf list = WR_BUF_INIT;
    for (int i = 0; i < all->n; i++) {
        count[j[i].v]++;
        wr_buf_printf(&list, "%s%s:%d %s", i ? "; " : "", all->at[i].host, all->at[i].port, j[i].why);
    }
    const char *why = wr_buf_cstr(&list) ? (char *)list.p : "";
    if (count[DOWN] == all->n && (all->n == 1 || all->at[0].why.code == WR_E_AUTH)) return *err = all->at[0].why, err->code;
    if (count[LACKS]) {
        wr_fail(err, WR_E_CONFLICT, WR_RETRY_NO, "no server has all that was captured: %.900s", why);
        return wr_err_cure(err, "these transactions are in the lake, or on their way there, and the cluster has lost them. Bring the server that has them back; or give the pipeline a new home to load every "
                                "table again (docs/operate/failover.md)");
    }
    if (count[BEHIND]) return wr_fail(err, WR_E_SERVER, WR_RETRY_SOON, "waiting for a server that has all that was captured: %.900s", why);
    if (count[PURGED]) {
        wr_fail(err, WR_E_GAP, count[DOWN] ? WR_RETRY_SOON : WR_RETRY_NO, "no server has what comes behind what was captured: %.900s", why);
        return wr_err_cure(err, "bring the server back that was followed: %s; or go on behind the gap: weir resume -c FILE says what each way on costs", known->identity);
    }
    if (all->n == 1 && (count[FOREIGN] || count[NO_PLACE])) {
        wr_fail(err, WR_E_CONFLICT, WR_RETRY_NO, "the server at %s:%d is not the one this pipeline has followed: it was %s, now it is %s, which %.300s; nothing was read", all->at[0].host, all->at[0].port,
                known->identity, all->at[0].identity, j[0].why);
        return wr_err_cure(err, "point source.url at the right server, or give the new server a pipeline with a home of its own");
    }
    if (count[FOREIGN] || count[NO_PLACE] || (count[UNFIT] && !count[DOWN])) {
        wr_retry retry = count[DOWN] ? WR_RETRY_SOON : WR_RETRY_NO; /* the right one may be among those that do not answer now */
        wr_fail(err, WR_E_CONFLICT, retry, "none of the servers can go on from what was captured; nothing was read: %.900s", why);
        return wr_err_cure(err, "bring the server back that was followed%s%s, or give the pipeline a new home to load every table again (docs/operate/failover.md)", known ? ": " : "", known ? known->identity : "");
    }
    wr_fail(err, WR_E_NET, WR_RETRY_SOON, "no server can be used: %.900s", why);
    return wr_err_cure(err, "is one of them running, are the ports right, does a firewall let them through?");
}

wr_code wr_my_servers_choose(const wr_my_servers *all, const wr_my_choice *c, int *ret_index, wr_err *err) {
    WR_AUTO judged *j = wr_calloc((size_t)all->n + 1, sizeof *j);
    if (!j) return wr_nomem(err, "servers", (size_t)all->n * sizeof *j);
    int best = -1;
    for (int i = 0; i < all->n; i++) {
        WR_TRY(judge_server(all, &all->at[i], c, &j[i], err));
    }
    for (int i = 0; i < all->n; i++) {
        const wr_my_server *now = j[i].v == FITS && !(c->known && c->known->only) ? successor(all, j, &all->at[i]) : NULL;
        if (now) judge(&j[i], UNFIT, "has been replaced by %s:%d", now->host, now->port);
        if (j[i].v == FITS && (best < 0 || score(&all->at[i], c->prefer, c->zone) > score(&all->at[best], c->prefer, c->zone))) best = i;
    }
    for (int i = 0; i < all->n; i++)
        if (j[i].v == FITS && is_known(&all->at[i], c->known) && may_stay(all, j, i, c)) best = i;
    if (best < 0) return none_fits(all, j, c->known, err);
    *ret_index = best;
    return WR_OK;
}
