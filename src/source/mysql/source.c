/* wr_source: one server, found out once. docs: README.md. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "event.h"
#include "gtid.h"
#include "position.h"
#include "topology.h"
#include "source_impl.h"
#include "weir/base/clock.h"
#include "weir/base/limit.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

enum { CATCH_UP_S = 60 };

static bool dup_into(char **dst, const char *src) {
    *dst = src ? wr_strdup(src) : NULL;
    return !src || *dst;
}

void wr_source_close(wr_source *s) {
    if (!s) return;
    wr_my_sessions_close(&s->sessions);
    wr_free(s->conn.host);
    wr_free(s->conn.user);
    if (s->conn.password) explicit_bzero(s->conn.password, strlen(s->conn.password));
    wr_free(s->conn.password);
    wr_free(s->conn.tls_ca);
    wr_free(s->version);
    wr_free(s->address);
    wr_free(s->identity);
    wr_free(s->pipeline_name);
    wr_free(s->spool_dir);
    wr_source_join_clear(s);
    wr_catalogue_free(s->catalogue);
    wr_capture_free(s->capture);
    wr_budget_free(s->budget);
    wr_my_lines_free(s->conn.lines);
    pthread_mutex_destroy(&s->calm_lock);
    pthread_mutex_destroy(&s->view_lock);
    wr_free(s);
}

/* "10.11.19-MariaDB-log" -> 101119 */
static uint32_t version_number(const char *v) {
    unsigned major = 0, minor = 0, patch = 0;
    if (sscanf(v, "%u.%u.%u", &major, &minor, &patch) < 2) return 0;
    return major * 10000 + minor * 100 + patch;
}

/* As a replica among others each pipeline needs an id of its own; stable, so that a restart replaces its old connection. Far above the ids
 * people give. */
static uint32_t derived_server_id(const char *pipeline) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    uint64_t h = wr_hash64(host, strlen(host), 0);
    if (pipeline) h = wr_hash64(pipeline, strlen(pipeline), h);
    return 0x40000000u | (uint32_t)(h & 0x3fffffffu);
}

static wr_code ask_flavor(wr_source *s, MYSQL *m, wr_err *err) {
    WR_AUTO char *comment = NULL;
    WR_TRY(wr_my_scalar(m, &s->version, err, "SELECT VERSION()"));
    WR_TRY(wr_my_scalar(m, &comment, err, "SELECT @@version_comment"));
    if (!s->version) return wr_fail(err, WR_E_SERVER, WR_RETRY_NO, "the server does not tell its version");
    bool mariadb = strcasestr(s->version, "mariadb") || (comment && strcasestr(comment, "mariadb"));
    s->flavor = mariadb ? WR_MARIADB : WR_MYSQL;
    s->version_num = version_number(s->version);
    uint32_t least = mariadb ? 100400 : 80000;
    if (s->version_num >= least) return WR_OK;
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "the server is %s %s", mariadb ? "MariaDB" : "MySQL", s->version);
    return wr_err_cure(err, "MariaDB 10.4 and MySQL 8.0 are the oldest that can be followed");
}

static wr_code ask_identity(wr_source *s, MYSQL *m, wr_err *err) {
    WR_AUTO char *mode = NULL;
    WR_TRY(wr_my_identity(m, &s->identity, err));
    if (s->flavor == WR_MYSQL) WR_TRY(wr_my_scalar(m, &mode, err, "SELECT @@gtid_mode"));
    s->gtid = s->flavor == WR_MARIADB || (mode && strcasecmp(mode, "ON") == 0);
    return WR_OK;
}

static wr_code ask_foreign_keys(wr_source *s, MYSQL *m, wr_err *err) {
    if (s->flavor != WR_MYSQL || s->version_num < 90600) return WR_OK;
    WR_AUTO char *on = NULL;
    WR_TRY(wr_my_scalar(m, &on, err, "SELECT @@global.innodb_native_foreign_keys"));
    s->native_fk = on && (strcmp(on, "1") == 0 || strcasecmp(on, "ON") == 0);
    return WR_OK;
}

static wr_code ask_names(wr_source *s, MYSQL *m, wr_err *err) {
    WR_AUTO char *mode = NULL;
    WR_TRY(wr_my_scalar(m, &mode, err, "SELECT @@lower_case_table_names"));
    wr_capture_set_lower_case(s->capture, mode ? atoi(mode) : 0);
    return WR_OK;
}

/* ------------------------------------------------------------------ which server */
static wr_code use_server(wr_source *s, const char *host, int port, wr_err *err) {
    s->conn.port = port;
    s->conn.tls = wr_my_tls_for(&s->conn, host);
    s->address = wr_asprintf(strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    return dup_into(&s->conn.host, host) && s->address ? WR_OK : wr_nomem(err, "source", 256);
}

/* A gap is gone over only where nothing else is to be had. */
static wr_code choose_start(const wr_my_servers *all, const wr_source_options *o, int *ret_at, wr_err *err) {
    wr_my_choice c = {.known = o->known, .prefer = o->prefer, .zone = o->zone, .starting = true};
    wr_code rc = wr_my_servers_choose(all, &c, ret_at, err);
    if (rc != WR_E_GAP || !o->behind_gap) return rc;
    wr_err_clear(err);
    c.behind_gap = true;
    return wr_my_servers_choose(all, &c, ret_at, err);
}

/* One address needs no choice, and what is wrong with it is told best by the connection itself. */
static wr_code choose_server(wr_source *s, const wr_source_options *o, wr_err *err) {
    wr_my_servers all = {0};
    int at = 0;
    WR_TRY(wr_my_servers_list(o, &all, err));
    if (all.n > 1) wr_my_servers_ask(&s->conn, &all);
    wr_code rc = all.n > 1 ? choose_start(&all, o, &at, err) : WR_OK;
    if (rc == WR_OK) rc = use_server(s, all.at[at].host, all.at[at].port, err);
    wr_my_servers_clear(&all);
    return rc;
}

/* Who answers now decides, whoever it was that answered when the choice was made. */
static wr_code settle_epoch(wr_source *s, const wr_source_options *o, MYSQL *m, wr_err *err) {
    const wr_source_known *k = o->known;
    s->epoch = k ? k->epoch : 0;
    if (!k || !strcmp(k->identity, s->identity)) return WR_OK;
    wr_my_server sv = {.host = s->conn.host, .port = s->conn.port, .weight = 1};
    int at;
    wr_code rc = wr_my_server_ask(m, &sv, err);
    if (rc == WR_OK) rc = choose_start(&(wr_my_servers){&sv, 1}, o, &at, err);
    wr_my_server_forget(&sv);
    if (rc == WR_OK) s->epoch++;
    return rc;
}

wr_code wr_source_look_elsewhere(const wr_source *s, const wr_source_options *o, const char *gtid_set, bool leave, bool *ret_better, wr_err *err) {
    const wr_source_known known = {.identity = s->identity, .epoch = s->epoch, .gtid_set = gtid_set};
    wr_my_servers all = {0};
    int at = 0;
    WR_TRY(wr_my_servers_list(o, &all, err));
    wr_my_servers_ask(&s->conn, &all);
    wr_code rc = wr_my_servers_choose(&all, &(wr_my_choice){.known = &known, .prefer = o->prefer, .zone = o->zone, .leave = leave ? s->identity : NULL}, &at, err);
    if (rc == WR_OK) *ret_better = strcmp(all.at[at].identity, s->identity) != 0;
    wr_my_servers_clear(&all);
    return rc;
}

/* Waits until the server of m has what `primary` had when it was asked. */
static wr_code wait_for_primary(const wr_source *s, MYSQL *m, const wr_my_server *primary, wr_err *err) {
    int64_t until = wr_mono_us() + CATCH_UP_S * 1000000ll;
    WR_AUTO_BUF wr_buf missing = WR_BUF_INIT;
    for (;;) {
        wr_my_server sv = {0};
        bool related;
        WR_TRY(wr_my_server_ask(m, &sv, err));
        wr_code rc = wr_gtid_missing(s->flavor, sv.executed, primary->executed, &missing, &related, err);
        wr_my_server_forget(&sv);
        if (rc != WR_OK || !missing.n) return rc;
        if (wr_mono_us() > until)
            return wr_fail(err, WR_E_TIMEOUT, WR_RETRY_SOON, "%s is a replica and after %d s still has not, of what %s:%d had: %.300s", s->address, CATCH_UP_S, primary->host, primary->port,
                           wr_buf_cstr(&missing) ? (char *)missing.p : "?");
        WR_AUTO char *ignored = NULL;
        WR_TRY(wr_my_scalar(m, &ignored, err, "SELECT SLEEP(0.05)"));
    }
}

/* The one whose changes s gets. NULL: none answers, or s is (also) a primary itself: what is made at another one never comes here. */
static const wr_my_server *primary_of(const wr_source *s, const wr_my_servers *all) {
    const wr_my_server *here = NULL, *primary = NULL;
    for (int i = 0; i < all->n; i++)
        if (all->at[i].answers && !strcmp(all->at[i].identity, s->identity)) here = &all->at[i];
    if (here && here->role == WR_ROLE_PRIMARY) return NULL;
    for (int i = 0; i < all->n; i++) {
        const wr_my_server *sv = &all->at[i];
        if (sv->answers && sv->role == WR_ROLE_PRIMARY && (here ? !wr_my_server_foreign(sv, here) : sv->flavor == s->flavor)) primary = sv;
    }
    return primary;
}

wr_code wr_source_current(wr_source *s, const wr_source_options *o, wr_pos *ret_pos, wr_err *err) {
    wr_my_servers all = {0};
    const wr_my_server *primary = NULL;
    MYSQL *m = NULL;
    WR_TRY(wr_my_servers_list(o, &all, err));
    if (all.n > 1 && s->gtid) wr_my_servers_ask(&s->conn, &all);
    primary = primary_of(s, &all);
    wr_code rc = WR_OK;
    if (primary) {
        rc = wr_my_session(s, &m, err);
        if (rc == WR_OK) rc = wait_for_primary(s, m, primary, err);
        wr_my_session_end(s, m, rc);
    }
    wr_my_servers_clear(&all);
    return rc == WR_OK ? wr_source_now(s, ret_pos, err) : rc;
}

/* Beside what everything else takes; of a large packet there is one at a time, once (base/large.h). */
static size_t packet_that_fits(void) {
    const uint64_t rest = UINT64_C(128) << 20, least = UINT64_C(16) << 20;
    uint64_t limit = wr_memory_limit();
    if (!limit || limit > WR_EVENT_MAX + rest) return WR_EVENT_MAX;
    return limit > rest + least ? (size_t)(limit - rest) : least;
}

static wr_code open_on(wr_source *s, const wr_source_options *o, wr_err *err) {
    bool ok = dup_into(&s->conn.user, o->user) &&
              dup_into(&s->conn.password, o->password) && dup_into(&s->conn.tls_ca, o->tls_ca) &&
              dup_into(&s->pipeline_name, o->pipeline_name) && dup_into(&s->spool_dir, o->spool_dir);
    if (!ok) return wr_nomem(err, "source", 1024);
    WR_TRY(wr_my_lines_new(&s->conn.lines, err));
    s->conn.tls = o->tls; /* AUTO: until the server is chosen */
    s->conn.tls_chosen = o->tls != WR_TLS_AUTO;
    s->conn.packet_max = o->packet_max ? o->packet_max : packet_that_fits();
    s->types = (wr_my_types){.zero_date = o->zero_date, .time_as = o->time_as, .replaced = &s->stats.replaced_dates};
    s->max_threads_running = o->max_threads_running, s->max_replica_lag_s = o->max_replica_lag_s;
    s->server_id = o->server_id ? o->server_id : derived_server_id(o->pipeline_name);
    WR_TRY(wr_budget_new(o->budget_path, o->snapshot_rows_per_second, o->max_readers, &s->budget, err));
    WR_TRY(wr_capture_new(o->capture, o->ncapture, o->exclude, o->nexclude, &s->capture, err));
    WR_TRY(choose_server(s, o, err));
    MYSQL *m;
    WR_TRY(wr_my_connect(&s->conn, &m, err));
    wr_code rc = ask_flavor(s, m, err);
    if (rc == WR_OK) rc = ask_identity(s, m, err);
    if (rc == WR_OK) rc = settle_epoch(s, o, m, err);
    if (rc == WR_OK) rc = ask_names(s, m, err);
    if (rc == WR_OK) rc = ask_foreign_keys(s, m, err);
    wr_my_disconnect(m);
    if (rc != WR_OK) return rc;
    return wr_catalogue_new(s->capture, s->types, s->flavor, &s->catalogue, err);
}

wr_code wr_source_open(const wr_source_options *opts, wr_source **ret_source, wr_err *err) {
    wr_source *s = wr_calloc(1, sizeof *s);
    if (!s) return wr_nomem(err, "source", sizeof *s);
    pthread_mutex_init(&s->calm_lock, NULL);
    pthread_mutex_init(&s->view_lock, NULL);
    wr_my_sessions_init(&s->sessions);
    wr_code rc = open_on(s, opts, err);
    if (rc != WR_OK) {
        wr_source_close(s);
        return rc;
    }
    *ret_source = s;
    return WR_OK;
}

void wr_source_cut(wr_source *s) { wr_my_lines_cut(s->conn.lines); }
void wr_source_cut_stream(wr_source *s) {
    if (s->stream) wr_my_lines_cut_one(s->conn.lines, s->stream);
}

wr_flavor wr_source_flavor(const wr_source *s) { return s->flavor; }
const char *wr_source_version(const wr_source *s) { return s->version; }
const char *wr_source_identity(const wr_source *s) { return s->identity; }
uint32_t wr_source_epoch(const wr_source *s) { return s->epoch; }
const char *wr_source_address(const wr_source *s) { return s->address; }
bool wr_source_captures(const wr_source *s, const char *db, const char *name) { return wr_capture_matches(s->capture, db, name); }

wr_code wr_source_restore(wr_source *s, const wr_ddl *ddl, wr_err *err) { return wr_catalogue_restore(s->catalogue, ddl, err); }

wr_code wr_source_forget(wr_source *s, uint32_t next_table_id, wr_err *err) {
    wr_catalogue *c;
    WR_TRY(wr_catalogue_new(s->capture, s->types, s->flavor, &c, err));
    wr_catalogue_set_next_id(c, next_table_id);
    wr_catalogue_free(s->catalogue);
    s->catalogue = c;
    return WR_OK;
}

bool wr_source_hides_changes(const wr_source *s, const char *def) {
    wr_my_table *t;
    wr_err ignored = WR_ERR_INIT;
    if (s->flavor == WR_MYSQL && s->version_num >= 90600 && !s->native_fk) return false;
    if (!def || wr_my_table_from_json(wr_slice_str(def), s->types, &t, &ignored) != WR_OK) return false;
    bool yes = t->fk_cascade_child;
    wr_my_table_free(t);
    return yes;
}

typedef struct each_table {
    wr_code (*fn)(void *ctx, const wr_ddl *ddl, wr_err *err);
    void *ctx;
} each_table;

static wr_code on_each(void *ctx, const wr_my_table *t, wr_err *err) {
    each_table *e = ctx;
    wr_ddl d;
    WR_TRY(wr_my_table_ddl(t, t->captured ? WR_DDL_CREATE : WR_DDL_HIDDEN, t->captured ? WR_ROWS_RELOAD : WR_ROWS_KEEP, NULL, &d, err));
    wr_code rc = e->fn(e->ctx, &d, err);
    wr_ddl_clear(&d);
    return rc;
}

wr_code wr_source_each_table(wr_source *s, wr_code (*fn)(void *ctx, const wr_ddl *ddl, wr_err *err), void *ctx, wr_err *err) {
    each_table e = {.fn = fn, .ctx = ctx};
    return wr_catalogue_each(s->catalogue, on_each, &e, err);
}
