/* wr_source: one server, found out once. docs: README.md. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "event.h"
#include "position.h"
#include "source_impl.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

static bool dup_into(char **dst, const char *src) {
    *dst = src ? wr_strdup(src) : NULL;
    return !src || *dst;
}

void wr_source_close(wr_source *s) {
    if (!s) return;
    wr_free(s->conn.host);
    wr_free(s->conn.user);
    if (s->conn.password) explicit_bzero(s->conn.password, strlen(s->conn.password));
    wr_free(s->conn.password);
    wr_free(s->conn.tls_ca);
    wr_free(s->version);
    wr_free(s->identity);
    wr_free(s->pipeline_name);
    wr_free(s->spool_dir);
    wr_source_join_clear(s);
    wr_catalogue_free(s->catalogue);
    wr_capture_free(s->capture);
    wr_budget_free(s->budget);
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

/* MySQL: server_uuid, which lives in the data folder and goes with it. MariaDB has nothing of the kind (@@server_uid follows the machine's network
 * card): domain and server_id are what its GTIDs are made of, so they tell histories apart as far as GTIDs do. */
static wr_code ask_identity(wr_source *s, MYSQL *m, wr_err *err) {
    if (s->flavor == WR_MYSQL) {
        WR_AUTO char *mode = NULL;
        WR_TRY(wr_my_scalar(m, &s->identity, err, "SELECT @@server_uuid"));
        WR_TRY(wr_my_scalar(m, &mode, err, "SELECT @@gtid_mode"));
        s->gtid = mode && strcasecmp(mode, "ON") == 0;
    } else {
        WR_TRY(wr_my_scalar(m, &s->identity, err, "SELECT CONCAT('mariadb-', @@global.gtid_domain_id, '-', @@global.server_id)"));
        s->gtid = true;
    }
    return s->identity ? WR_OK : wr_fail(err, WR_E_SERVER, WR_RETRY_NO, "the server does not tell who it is");
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

/* By name and not by what it resolves to: an answer of the DNS must not switch verification off. */
static bool is_local(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    if (*host == '/' || strcasecmp(host, "localhost") == 0) return true;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static wr_code open_on(wr_source *s, const wr_source_options *o, wr_err *err) {
    bool ok = dup_into(&s->conn.host, o->host ? o->host : "127.0.0.1") && dup_into(&s->conn.user, o->user) &&
              dup_into(&s->conn.password, o->password) && dup_into(&s->conn.tls_ca, o->tls_ca) &&
              dup_into(&s->pipeline_name, o->pipeline_name) && dup_into(&s->spool_dir, o->spool_dir);
    if (!ok) return wr_nomem(err, "source", 1024);
    s->conn.port = o->port ? o->port : 3306;
    s->conn.tls = o->tls != WR_TLS_AUTO ? o->tls : is_local(s->conn.host) ? WR_TLS_PREFERRED : WR_TLS_VERIFY;
    s->conn.tls_chosen = o->tls != WR_TLS_AUTO;
    s->conn.packet_max = o->packet_max ? o->packet_max : WR_EVENT_MAX;
    s->types = (wr_my_types){.zero_date = o->zero_date, .time_as = o->time_as, .replaced = &s->stats.replaced_dates};
    s->max_threads_running = o->max_threads_running, s->max_replica_lag_s = o->max_replica_lag_s;
    s->server_id = o->server_id ? o->server_id : derived_server_id(o->pipeline_name);
    WR_TRY(wr_budget_new(o->budget_path, o->snapshot_rows_per_second, o->max_readers, &s->budget, err));
    WR_TRY(wr_capture_new(o->capture, o->ncapture, o->exclude, o->nexclude, &s->capture, err));
    MYSQL *m;
    WR_TRY(wr_my_connect(&s->conn, &m, err));
    wr_code rc = ask_flavor(s, m, err);
    if (rc == WR_OK) rc = ask_identity(s, m, err);
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
    wr_code rc = open_on(s, opts, err);
    if (rc != WR_OK) {
        wr_source_close(s);
        return rc;
    }
    *ret_source = s;
    return WR_OK;
}

wr_flavor wr_source_flavor(const wr_source *s) { return s->flavor; }
const char *wr_source_version(const wr_source *s) { return s->version; }
const char *wr_source_identity(const wr_source *s) { return s->identity; }
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
