/* `weir check`: what is wrong with a server before a sync finds out. Each finding says what is, what will come of it,
 * and what to do. A finding stops only when a sync would really stop or lose rows. */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "position.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"

typedef struct check {
    wr_source *s;
    MYSQL *m;
    const wr_check_sink *sink;
    bool mariadb;
    char *grants;         /* SHOW GRANTS, roles included */
    wr_my_table **tables; /* captured */
    int ntables;
} check;

static void say(check *c, wr_severity sev, const char *id, const char *what, const char *consequence,
                const char *cure) {
    wr_finding f = {.severity = sev, .id = id};
    snprintf(f.what, sizeof f.what, "%s", what);
    snprintf(f.consequence, sizeof f.consequence, "%s", consequence);
    snprintf(f.cure, sizeof f.cure, "%s", cure);
    c->sink->finding(c->sink->ctx, &f);
}

#define TEXT(...)                                                                                                      \
    ({                                                                                                                 \
        snprintf(text_, sizeof text_, __VA_ARGS__);                                                                    \
        text_;                                                                                                         \
    })

/* ------------------------------------------------------------------ asking */
/* A global variable; NULL when this server has none of that name. */
static wr_code var(check *c, const char *name, char **ret, wr_err *err) {
    wr_err e = WR_ERR_INIT;
    *ret = NULL;
    wr_code rc = wr_my_scalar(c->m, ret, &e, "SELECT @@global.%s", name);
    if (rc != WR_OK && mysql_errno(c->m) == 1193) return WR_OK; /* unknown system variable */
    if (rc != WR_OK) *err = e;
    return rc;
}

static wr_code number_var(check *c, const char *name, double *ret, bool *ret_has, wr_err *err) {
    WR_AUTO char *t = NULL;
    WR_TRY(var(c, name, &t, err));
    *ret_has = t != NULL;
    *ret = t ? strtod(t, NULL) : 0;
    return WR_OK;
}

static bool is_on(const char *t) {
    return t && (strcasecmp(t, "ON") == 0 || strcmp(t, "1") == 0 || strcasecmp(t, "YES") == 0);
}

/* ------------------------------------------------------------------ binlog settings */
static wr_code check_binlog(check *c, wr_err *err) {
    char text_[400];
    WR_AUTO char *log_bin = NULL;
    WR_TRY(var(c, "log_bin", &log_bin, err));
    if (!is_on(log_bin)) {
        say(c, WR_FINDING_STOPS, "binlog-off", "the server writes no binlog (log_bin is OFF)",
            "there are no changes to follow; a sync cannot start",
            "set log_bin, server_id and binlog_format=ROW in the configuration and restart the server");
        return WR_OK;
    }
    WR_AUTO char *format = NULL;
    WR_TRY(var(c, "binlog_format", &format, err));
    if (format && strcasecmp(format, "ROW") != 0)
        say(c, WR_FINDING_STOPS, "binlog-format", TEXT("binlog_format is %s", format),
            "changes come as SQL text, which cannot be turned into rows; a sync stops at the first one on a captured "
            "table",
            c->mariadb ? "SET GLOBAL binlog_format = 'ROW' (and in the configuration), then reconnect the "
                         "applications: open sessions keep the old format"
                       : "SET PERSIST binlog_format = 'ROW', then reconnect the applications: open sessions keep the "
                         "old format");
    else if (format)
        say(c, WR_FINDING_NOTES, "binlog-format-session",
            "binlog_format is ROW; a session with the right to may still choose another for itself",
            "a change written as SQL text to a captured table stops the sync with an error that names it; nothing is "
            "skipped",
            "leave binlog_format alone in sessions");
    WR_AUTO char *image = NULL;
    WR_TRY(var(c, "binlog_row_image", &image, err));
    if (image && strcasecmp(image, "FULL") != 0)
        say(c, WR_FINDING_STOPS, "binlog-row-image", TEXT("binlog_row_image is %s", image),
            "row events lack columns, so rows cannot be rebuilt; a sync stops at the first one",
            c->mariadb
                ? "SET GLOBAL binlog_row_image = 'FULL' (and in the configuration), then reconnect the applications"
                : "SET PERSIST binlog_row_image = 'FULL', then reconnect the applications");
    WR_AUTO char *meta = NULL;
    WR_TRY(var(c, "binlog_row_metadata", &meta, err));
    if (!meta || strcasecmp(meta, "FULL") != 0)
        say(c, WR_FINDING_NOTES, "binlog-row-metadata",
            meta ? TEXT("binlog_row_metadata is %s", meta)
                 : "the server's binlog has no column names (binlog_row_metadata does not exist)",
            "works: names, labels and keys come from the schema history. With FULL each event would confirm it, so "
            "that a change made behind the binlog is noticed sooner",
            meta ? (c->mariadb ? "SET GLOBAL binlog_row_metadata = 'FULL' (and in the configuration)"
                               : "SET PERSIST binlog_row_metadata = 'FULL'")
                 : "MariaDB 10.5 and later have it");
    WR_AUTO char *options = NULL;
    WR_TRY(var(c, "binlog_row_value_options", &options, err));
    if (options && *options)
        say(c, WR_FINDING_NOTES, "partial-json", TEXT("binlog_row_value_options is %s", options),
            "works: partial JSON updates are applied to the row before them", "nothing to do");
    WR_AUTO char *compression = NULL;
    WR_TRY(var(c, c->mariadb ? "log_bin_compress" : "binlog_transaction_compression", &compression, err));
    if (is_on(compression))
        say(c, WR_FINDING_NOTES, "binlog-compression", "the binlog is compressed",
            "works; decompression costs the capturing side some CPU time", "nothing to do");
    WR_AUTO char *encryption = NULL;
    WR_TRY(var(c, c->mariadb ? "encrypt_binlog" : "binlog_encryption", &encryption, err));
    if (is_on(encryption))
        say(c, WR_FINDING_NOTES, "binlog-encryption", "the binlog files are encrypted",
            "works: the server sends events in clear to those it has let in; use TLS on the way", "nothing to do");
    WR_AUTO char *checksum = NULL;
    WR_TRY(var(c, "binlog_checksum", &checksum, err));
    if (checksum && strcasecmp(checksum, "NONE") == 0)
        say(c, WR_FINDING_WARNS, "binlog-checksum", "binlog_checksum is NONE",
            "a damaged event is found only when it makes no sense, not by its checksum",
            "SET GLOBAL binlog_checksum = 'CRC32'");
    WR_AUTO char *sync = NULL;
    WR_AUTO char *flush = NULL;
    WR_TRY(var(c, "sync_binlog", &sync, err));
    WR_TRY(var(c, "innodb_flush_log_at_trx_commit", &flush, err));
    if ((sync && strcmp(sync, "1") != 0) || (flush && strcmp(flush, "1") != 0))
        say(c, WR_FINDING_WARNS, "binlog-durability",
            TEXT("sync_binlog is %s and innodb_flush_log_at_trx_commit is %s", sync ? sync : "?", flush ? flush : "?"),
            "when the server's machine crashes it may lose transactions that were already sent; the lake then has rows "
            "the source has not",
            "set both to 1, or compare source and lake after a crash");
    return WR_OK;
}

static wr_code check_retention(check *c, wr_err *err) {
    char text_[400];
    double seconds = 0, days = 0, size = 0;
    bool has_s, has_d, has_z;
    WR_TRY(number_var(c, "binlog_expire_logs_seconds", &seconds, &has_s, err));
    WR_TRY(number_var(c, "expire_logs_days", &days, &has_d, err));
    WR_TRY(number_var(c, "max_binlog_total_size", &size, &has_z, err));
    double keep = seconds > 0 ? seconds : days * 86400;
    const char *cure = has_s ? "SET GLOBAL binlog_expire_logs_seconds = 604800 (and in the configuration)"
                             : "SET GLOBAL expire_logs_days = 7 (and in the configuration)";
    if (keep > 0 && keep < 86400)
        say(c, WR_FINDING_WARNS, "binlog-retention", TEXT("binlog files are kept for %.1f hours only", keep / 3600),
            "a sync that is down, or a first snapshot that takes, longer than that finds its position purged and must "
            "start over",
            cure);
    else if (keep > 0 && keep < 3 * 86400)
        say(c, WR_FINDING_NOTES, "binlog-retention", TEXT("binlog files are kept for %.1f days", keep / 86400),
            "a sync that is down for longer finds its position purged and must start over; a weekend is longer", cure);
    if (has_z && size > 0)
        say(c, WR_FINDING_WARNS, "binlog-retention-size",
            TEXT("binlog files are kept up to %.0f MB in all (max_binlog_total_size)", size / 1e6),
            "a burst of changes may purge what has not been read yet",
            "leave room for the longest standstill you want to survive");
    return WR_OK;
}

/* ------------------------------------------------------------------ identity, replication, clock */
typedef struct replicas {
    uint32_t id;
    bool found;
} replicas;

static wr_code take_replica(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    replicas *r = ctx;
    if (ncols > 0 && row[0] && (uint32_t)strtoul(row[0], NULL, 10) == r->id) r->found = true;
    return WR_OK;
}

typedef struct replica_state {
    bool is_replica, lag_known;
    double lag;
    char io[16], sql[16];
} replica_state;

static void take_replica_state(void *ctx, const char *name, const char *value) {
    replica_state *ret = ctx;
    ret->is_replica = true;
    if (strncmp(name, "Seconds_Behind", 14) == 0 && value) {
        double lag = strtod(value, NULL);
        ret->lag_known = true;
        if (lag > ret->lag) ret->lag = lag;
    } else if (strcmp(name, "Replica_IO_Running") == 0 || strcmp(name, "Slave_IO_Running") == 0)
        snprintf(ret->io, sizeof ret->io, "%s", value ? value : "");
    else if (strcmp(name, "Replica_SQL_Running") == 0 || strcmp(name, "Slave_SQL_Running") == 0)
        snprintf(ret->sql, sizeof ret->sql, "%s", value ? value : "");
}

static wr_code ask_replica(check *c, replica_state *ret, bool *ret_denied, wr_err *err) {
    const char *q = !c->mariadb && c->s->version_num >= 80022 ? "SHOW REPLICA STATUS" : "SHOW SLAVE STATUS";
    wr_err e = WR_ERR_INIT;
    *ret = (replica_state){0};
    *ret_denied = false;
    if (wr_my_query_named(c->m, take_replica_state, ret, q, &e) == WR_OK) return WR_OK;
    if (mysql_errno(c->m) == 1227 || mysql_errno(c->m) == 1142) return *ret_denied = true, WR_OK;
    *err = e;
    return e.code;
}

static wr_code check_topology(check *c, wr_err *err) {
    char text_[400];
    double id = 0;
    bool has;
    WR_TRY(number_var(c, "server_id", &id, &has, err));
    if (id == 0)
        say(c, WR_FINDING_STOPS, "server-id", "the server's server_id is 0", "it refuses every replica, and so a sync",
            "set server_id to a number of its own in the configuration");
    else if ((uint32_t)id == c->s->server_id)
        say(c, WR_FINDING_STOPS, "server-id-clash",
            TEXT("source.server_id is %u, which is the server's own", c->s->server_id),
            "the two cannot be told apart in the replication topology",
            "choose another source.server_id, or leave it out");
    replicas r = {.id = c->s->server_id};
    wr_err e = WR_ERR_INIT;
    const char *q = !c->mariadb && c->s->version_num >= 80022 ? "SHOW REPLICAS" : "SHOW SLAVE HOSTS";
    if (wr_my_query(c->m, take_replica, &r, &e, "%s", q) == WR_OK && r.found)
        say(c, WR_FINDING_NOTES, "replica-id-in-use",
            TEXT("a replica with our server_id %u is connected", c->s->server_id),
            "fine when it is this pipeline's running sync; another with the same id would throw each other off again "
            "and again",
            "else set source.server_id to a free number");
    replica_state st;
    bool denied;
    WR_TRY(ask_replica(c, &st, &denied, err));
    if (denied)
        say(c, WR_FINDING_NOTES, "replica-state-unknown", "whether this server is a replica could not be asked",
            "its lag and log_slave_updates could not be checked",
            c->mariadb ? "GRANT REPLICA MONITOR ON *.* for that" : "GRANT REPLICATION CLIENT ON *.* for that");
    if (st.is_replica) {
        WR_AUTO char *updates = NULL;
        WR_TRY(var(c, "log_slave_updates", &updates, err));
        if (!updates) WR_TRY(var(c, "log_replica_updates", &updates, err));
        if (updates && !is_on(updates))
            say(c, WR_FINDING_STOPS, "log-slave-updates", "this server is a replica and log_slave_updates is OFF",
                "changes that reach it by replication are not in its binlog: the lake would miss them all",
                "set log_slave_updates=ON and restart it, or capture from the primary");
        if (strcasecmp(st.sql, "Yes") != 0 || strcasecmp(st.io, "Yes") != 0)
            say(c, WR_FINDING_WARNS, "replica-stopped",
                TEXT("this server is a replica and its replication is not running (IO: %s, SQL: %s)", st.io, st.sql),
                "no changes arrive here, so none reach the lake",
                "START REPLICA (START SLAVE), or capture from the primary");
        else if (st.lag_known && st.lag > 60)
            say(c, WR_FINDING_WARNS, "replica-lag", TEXT("this server is a replica, %.0f s behind", st.lag),
                "the lake is behind by that much in addition", "let it catch up, or capture from the primary");
    }
    if (!c->mariadb && !c->s->gtid) {
        WR_AUTO char *mode = NULL;
        WR_TRY(var(c, "gtid_mode", &mode, err));
        say(c, WR_FINDING_WARNS, "gtid-off", TEXT("gtid_mode is %s", mode ? mode : "OFF"),
            "a position is good on this server only (no fail-over to another), and the start takes a read lock for an "
            "instant",
            "set gtid_mode=ON with enforce_gtid_consistency=ON (can be done online, step by step)");
    }
    WR_AUTO char *now = NULL;
    int64_t t0 = wr_now_us();
    WR_TRY(wr_my_scalar(c->m, &now, err, "SELECT UNIX_TIMESTAMP(NOW(6))"));
    double skew = now ? strtod(now, NULL) - (double)(t0 + wr_now_us()) / 2e6 : 0;
    if (skew > 5 || skew < -5)
        say(c, WR_FINDING_WARNS, "clock-skew",
            TEXT("the server's clock is %.0f s %s this machine's", skew < 0 ? -skew : skew,
                 skew < 0 ? "behind" : "ahead of"),
            "times of changes and the lag shown are off by that much; rows are not affected", "let both follow NTP");
    double packet = 0;
    WR_TRY(number_var(c, "max_allowed_packet", &packet, &has, err));
    if (has && packet < 16e6)
        say(c, WR_FINDING_NOTES, "max-allowed-packet", TEXT("max_allowed_packet is %.1f MB", packet / 1048576),
            "a row larger than that, written before it was lowered, can be neither read nor streamed: the sync would "
            "stop there",
            "SET GLOBAL max_allowed_packet = 67108864 or more when rows are that large");
    return WR_OK;
}

/* ------------------------------------------------------------------ privileges */
/* One name of a GRANT's object, back-quoted or bare; LIKE wildcards count for databases. Returns what follows it. */
static const char *grant_name(const char *p, char *buf, size_t cap) {
    size_t n = 0;
    if (*p == '`') {
        for (p++; *p && !(*p == '`' && p[1] != '`'); p++) {
            if (*p == '`') p++;
            if (n + 1 < cap) buf[n++] = *p;
        }
        if (*p) p++;
    } else {
        for (; *p && *p != '.' && *p != ' '; p++)
            if (n + 1 < cap) buf[n++] = *p;
    }
    buf[n] = 0;
    return p;
}

static bool like(const char *pattern, const char *s) {
    for (; *pattern; pattern++, s++) {
        if (*pattern == '%') {
            while (*pattern == '%') pattern++;
            for (;; s++) {
                if (like(pattern, s)) return true;
                if (!*s) return false;
            }
        }
        if (*pattern == '\\' && pattern[1])
            pattern++;
        else if (*pattern == '_' && *s)
            continue;
        if (*pattern != *s) return false;
    }
    return !*s;
}

/* "GRANT SELECT, REPLICATION SLAVE ON *.* TO ..." has REPLICATION SLAVE. */
static bool line_has(const char *list, size_t n, const char *privilege) {
    size_t k = strlen(privilege);
    for (size_t i = 0; i < n;) {
        size_t e = i;
        while (e < n && list[e] != ',' && list[e] != '(') e++;
        size_t end = e;
        while (end > i && list[end - 1] == ' ') end--;
        bool columns = e < n && list[e] == '('; /* SELECT (a, b): on columns only */
        if (!columns && end - i == k && strncasecmp(list + i, privilege, k) == 0) return true;
        if (!columns && end - i >= 3 && strncasecmp(list + i, "ALL", 3) == 0 && (end - i == 3 || list[i + 3] == ' '))
            return true;
        if (columns) {
            while (e < n && list[e] != ')') e++;
            while (e < n && list[e] != ',') e++;
        }
        i = e + 1;
        while (i < n && list[i] == ' ') i++;
    }
    return false;
}

bool wr_check_granted(const char *grants, const char *privilege, const char *db, const char *name) {
    for (const char *line = grants; line && *line;) {
        const char *eol = strchrnul(line, '\n'), *on = strstr(line, " ON ");
        if (strncmp(line, "GRANT ", 6) == 0 && on && on < eol) {
            char gdb[300], gname[300];
            const char *p = grant_name(on + 4, gdb, sizeof gdb);
            if (*p == '.') {
                bool quoted = on[4] == '`';
                grant_name(p + 1, gname, sizeof gname);
                bool everywhere = !quoted && strcmp(gdb, "*") == 0, whole = strcmp(gname, "*") == 0;
                bool here = everywhere || (db && whole && like(gdb, db)) ||
                            (db && name && strcmp(gdb, db) == 0 && strcmp(gname, name) == 0);
                if (here && line_has(line + 6, (size_t)(on - line - 6), privilege)) return true;
            }
        }
        line = *eol ? eol + 1 : eol;
    }
    return false;
}

static wr_code take_grant(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    if (ncols > 0 && row[0]) wr_buf_printf(ctx, "%s\n", row[0]);
    return WR_OK;
}

static wr_code read_grants(check *c, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    WR_AUTO char *roles = NULL;
    wr_err e = WR_ERR_INIT;
    /* MariaDB's SHOW GRANTS has the active role's; MySQL's only with USING. */
    if (!c->mariadb && wr_my_scalar(c->m, &roles, &e, "SELECT CURRENT_ROLE()") == WR_OK && roles &&
        strcmp(roles, "NONE") != 0)
        WR_TRY(wr_my_query(c->m, take_grant, &b, err, "SHOW GRANTS FOR CURRENT_USER() USING %s", roles));
    else
        WR_TRY(wr_my_query(c->m, take_grant, &b, err, "SHOW GRANTS"));
    WR_TRY(wr_buf_check(&b, "SHOW GRANTS", err));
    const char *t = wr_buf_cstr(&b);
    if (!t || !(c->grants = wr_strdup(t))) return wr_nomem(err, "SHOW GRANTS", b.n);
    return WR_OK;
}

/* Asks for the binlog as a replica would and takes one packet: whatever the grants say, this is what a sync will meet.
 */
static wr_code try_dump(check *c, const wr_pos *end, wr_err *ret_why) {
    MYSQL *m = NULL;
    WR_TRY(wr_my_connect(&c->s->conn, &m, ret_why));
    wr_code rc = wr_my_exec(m, ret_why,
                            "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = "
                            "@@global.binlog_checksum, @mariadb_slave_capability = 4");
    if (rc == WR_OK) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        wr_buf_u32(&b, 4);
        wr_buf_u16(&b, 1); /* do not wait for more */
        wr_buf_u32(&b, 0x7ffffff0u -
                           (uint32_t)(wr_now_us() & 0xffff)); /* not our own id: that would throw a running sync off */
        wr_buf_put(&b, end->file, strlen(end->file));
        rc = wr_buf_check(&b, "COM_BINLOG_DUMP", ret_why);
        if (rc == WR_OK && m->methods->db_command(m, COM_BINLOG_DUMP, (const char *)b.p, b.n, 1, NULL) != 0)
            rc = wr_my_fail(m, ret_why, "asking for the binlog");
        if (rc == WR_OK && mysql_net_read_packet(m) == packet_error) rc = wr_my_fail(m, ret_why, "reading the binlog");
    }
    wr_my_abandon(m);
    return rc;
}

static wr_code check_privileges(check *c, wr_err *err) {
    char text_[500];
    const char *user = c->s->conn.user;
    WR_TRY(read_grants(c, err));
    wr_pos end = {0};
    wr_err why = WR_ERR_INIT;
    wr_code rc = wr_my_binlog_end(c->s, c->m, &end, &why);
    if (rc == WR_E_AUTH)
        say(c, WR_FINDING_STOPS, "privilege-position", TEXT("'%s' may not ask for the binlog's position", user),
            "a sync cannot start",
            c->mariadb && c->s->version_num >= 100502 ? "GRANT BINLOG MONITOR ON *.* to the account"
                                                      : "GRANT REPLICATION CLIENT ON *.* to the account");
    else if (rc != WR_OK && rc != WR_E_UNSUPPORTED)
        return *err = why, rc;
    /* Without the position any name serves: the privilege is asked for before the file is looked for. */
    wr_err denied = WR_ERR_INIT;
    if (rc != WR_E_UNSUPPORTED && try_dump(c, &end, &denied) != WR_OK) {
        bool privilege = denied.code == WR_E_AUTH;
        if (privilege)
            say(c, WR_FINDING_STOPS, "privilege-replication", TEXT("'%s' may not read the binlog", user),
                "a sync cannot start", "GRANT REPLICATION SLAVE ON *.* to the account");
        else if (end.file[0])
            say(c, WR_FINDING_STOPS, "binlog-unreadable", TEXT("the binlog cannot be read: %.380s", denied.msg),
                "a sync cannot start", *denied.cure ? denied.cure : "see the server's error log");
    }
    wr_pos_clear(&end);
    int no_select = 0, no_lock = 0, no_lock_for_start = 0;
    char first_select[200] = "", first_lock[200] = "";
    for (int i = 0; i < c->ntables; i++) {
        const wr_my_table *t = c->tables[i];
        WR_AUTO_BUF wr_buf q = WR_BUF_INIT;
        bool keyed = false;
        wr_buf_printf(&q, "SELECT ");
        for (int k = 0, n = 0; k < t->ncols; k++) {
            if (t->cols[k].key_ord > 0) keyed = true;
            if (t->cols[k].hidden) continue;
            wr_buf_printf(&q, n++ ? ", " : "");
            wr_my_quote_name(&q, t->cols[k].name);
        }
        wr_buf_printf(&q, " FROM ");
        wr_my_quote_name(&q, t->db);
        wr_buf_printf(&q, ".");
        wr_my_quote_name(&q, t->name);
        wr_buf_printf(&q, " LIMIT 0");
        WR_TRY(wr_buf_check(&q, "a query", err));
        wr_err e = WR_ERR_INIT;
        if (wr_my_exec(c->m, &e, "%s", wr_buf_cstr(&q)) == WR_E_AUTH && no_select++ == 0)
            snprintf(first_select, sizeof first_select, "%s.%s", t->db, t->name);
        bool may_lock = wr_check_granted(c->grants, "LOCK TABLES", t->db, NULL);
        bool needs_lock = !keyed && (!c->mariadb || (t->engine && strcasecmp(t->engine, "InnoDB") != 0));
        if (needs_lock && !may_lock && no_lock++ == 0) snprintf(first_lock, sizeof first_lock, "%s.%s", t->db, t->name);
        if (!may_lock) no_lock_for_start++;
    }
    if (no_select)
        say(c, WR_FINDING_STOPS, "privilege-select",
            TEXT("'%s' may not read %d of the captured tables, e.g. %s", user, no_select, first_select),
            "their snapshot cannot be taken", "GRANT SELECT on them (all columns) to the account");
    if (no_lock)
        say(c, WR_FINDING_STOPS, "privilege-lock-tables",
            TEXT("'%s' may not lock %d captured tables without a primary key, e.g. %s", user, no_lock, first_lock),
            "their snapshot needs an instant's lock to know its exact position",
            "GRANT LOCK TABLES on their databases to the account, or give the tables a primary key");
    bool reload =
        wr_check_granted(c->grants, "RELOAD", NULL, NULL) || wr_check_granted(c->grants, "FLUSH_TABLES", NULL, NULL);
    if (!c->mariadb && !c->s->gtid && !reload && no_lock_for_start)
        say(c, WR_FINDING_STOPS, "privilege-reload",
            TEXT("'%s' has neither RELOAD nor LOCK TABLES on all captured databases, and gtid_mode is not ON", user),
            "no safe start position can be taken", "set gtid_mode=ON, or GRANT RELOAD ON *.* to the account");
    wr_err e = WR_ERR_INIT;
    WR_AUTO char *ignored = NULL;
    if (!c->mariadb && wr_my_scalar(c->m, &ignored, &e, "XA RECOVER") != WR_OK && mysql_errno(c->m) == 1401)
        say(c, WR_FINDING_NOTES, "privilege-xa-recover", TEXT("'%s' may not list prepared XA transactions", user),
            "when XA is in use, one that is prepared just while a sync starts could be missed; without XA nothing",
            "GRANT XA_RECOVER_ADMIN ON *.* to the account when applications use XA");
    return WR_OK;
}

/* ------------------------------------------------------------------ what is captured */
int wr_check_distance(const char *a, const char *b, int cap) {
    enum { MAX = 200 };
    size_t n = strlen(a), m = strlen(b);
    if (n > MAX || m > MAX) return cap;
    int row[MAX + 1];
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diag = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int up = row[j], best = diag + (a[i - 1] != b[j - 1]);
            if (up + 1 < best) best = up + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diag = up;
            row[j] = best;
        }
    }
    return row[m] < cap ? row[m] : cap;
}

enum { NEAR = 3 };
typedef struct nearest {
    check *c;
    bool *matched;     /* per pattern */
    const char *plain; /* the pattern looked at, without backslashes */
    char name[NEAR][200];
    int dist[NEAR];
    int looking_at; /* -1 = only marking matches */
} nearest;

static wr_code look_at_table(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    nearest *x = ctx;
    if (ncols < 2 || !row[0] || !row[1]) return WR_OK;
    if (x->looking_at < 0) {
        for (int i = 0; i < wr_capture_patterns(x->c->s->capture); i++)
            if (wr_capture_pattern_matches(x->c->s->capture, i, row[0], row[1])) x->matched[i] = true;
        return WR_OK;
    }
    char full[200];
    snprintf(full, sizeof full, "%s.%s", row[0], row[1]);
    int d = wr_check_distance(x->plain, full, 1000), at = NEAR;
    while (at > 0 && d < x->dist[at - 1]) at--;
    if (at == NEAR) return WR_OK;
    for (int k = NEAR - 1; k > at; k--)
        memcpy(x->name[k], x->name[k - 1], sizeof x->name[k]), x->dist[k] = x->dist[k - 1];
    memcpy(x->name[at], full, sizeof full);
    x->dist[at] = d;
    return WR_OK;
}

static const char all_tables[] = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE IN "
                                 "('BASE TABLE', 'SYSTEM VERSIONED') "
                                 "AND TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')";

static wr_code check_patterns(check *c, wr_err *err) {
    int n = wr_capture_patterns(c->s->capture);
    WR_AUTO bool *matched = wr_calloc((size_t)n + 1, sizeof *matched);
    if (!matched) return wr_nomem(err, "a list of patterns", (size_t)n);
    nearest x = {.c = c, .matched = matched, .looking_at = -1};
    WR_TRY(wr_my_query(c->m, look_at_table, &x, err, "%s", all_tables));
    for (int i = 0; i < n; i++) {
        if (matched[i]) continue;
        const char *pattern = wr_capture_pattern(c->s->capture, i);
        char plain[200];
        size_t k = 0;
        for (const char *p = pattern; *p && k + 1 < sizeof plain; p++)
            if (*p != '\\' && *p != '^' && *p != '$') plain[k++] = *p;
        plain[k] = 0;
        x.plain = plain;
        x.looking_at = i;
        for (int j = 0; j < NEAR; j++) x.name[j][0] = 0, x.dist[j] = 1000;
        WR_TRY(wr_my_query(c->m, look_at_table, &x, err, "%s", all_tables));
        char what[512], cure[512];
        snprintf(what, sizeof what, "capture pattern '%.200s' matches no table that '%.60s' can see", pattern,
                 c->s->conn.user);
        snprintf(cure, sizeof cure, "%s%.110s%s%.110s%s%.110s%s",
                 x.name[0][0] ? "check its spelling (nearest: "
                              : "create the tables, or GRANT SELECT on them to the account",
                 x.name[0], x.name[1][0] ? ", " : "", x.name[1], x.name[2][0] ? ", " : "", x.name[2],
                 x.name[0][0] ? "), or GRANT SELECT on what it means" : "");
        /* A name in full that is not there is a mistake; a pattern may wait for tables to come. */
        bool literal = !strpbrk(pattern, "[]()*+?{}|");
        say(c, literal || c->ntables == 0 ? WR_FINDING_STOPS : WR_FINDING_WARNS, "pattern-without-table", what,
            "nothing is captured for it; tables that match later will be", cure);
    }
    return WR_OK;
}

typedef struct filters {
    char *only, *ignored;
} filters;

static wr_code take_filters(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    filters *f = ctx;
    if (ncols < 4 || f->only) return WR_OK;
    f->only = wr_strdup(row[2] ? row[2] : "");
    f->ignored = wr_strdup(row[3] ? row[3] : "");
    return f->only && f->ignored ? WR_OK : wr_nomem(err, "binlog filters", lengths[2]);
}

static bool in_list(const char *list, const char *name) {
    size_t k = strlen(name);
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (n == k && strncasecmp(p, name, k) == 0) return true;
        p += n + (p[n] ? 1 : 0);
    }
    return false;
}

static wr_code check_filters(check *c, wr_err *err) {
    char text_[400];
    filters f = {0};
    wr_err e = WR_ERR_INIT;
    const char *q = !c->mariadb && c->s->version_num >= 80200 ? "SHOW BINARY LOG STATUS" : "SHOW MASTER STATUS";
    if (wr_my_query(c->m, take_filters, &f, &e, "%s", q) == WR_OK && f.only) {
        const char *last = "";
        for (int i = 0; i < c->ntables; i++) {
            const char *db = c->tables[i]->db;
            bool hidden = (*f.only && !in_list(f.only, db)) || in_list(f.ignored, db);
            if (hidden && strcmp(last, db) != 0)
                say(c, WR_FINDING_STOPS, "binlog-filter",
                    TEXT("the server's %s keeps database %s out of the binlog",
                         in_list(f.ignored, db) ? "binlog_ignore_db" : "binlog_do_db", db),
                    "its changes never arrive: the lake would stay at the snapshot",
                    "take the filter out of the server's configuration and restart it, or do not capture that "
                    "database");
            last = db;
        }
    }
    wr_free(f.only);
    wr_free(f.ignored);
    return WR_OK;
}

static wr_code has_prefix(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    return *(bool *)ctx = true, WR_OK;
}

static wr_code check_table(check *c, const wr_my_table *t, wr_err *err) {
    char text_[500];
    bool keyed = false;
    for (int i = 0; i < t->ncols; i++)
        if (t->cols[i].key_ord > 0 && !t->cols[i].hidden) keyed = true;
    for (int i = 0; i < t->ncols; i++) {
        const wr_charset *cs = NULL;
        wr_err e = WR_ERR_INIT;
        if (t->cols[i].hidden || !t->cols[i].charset || strcmp(t->cols[i].charset, "binary") == 0 ||
            wr_charset_get(t->cols[i].charset, &cs, &e) == WR_OK)
            continue;
        say(c, WR_FINDING_STOPS, "charset-unsupported",
            TEXT("%s.%s: column %s has character set %s, which cannot be converted", t->db, t->name, t->cols[i].name,
                 t->cols[i].charset),
            "a sync stops at this table", "exclude the table, or convert the column to utf8mb4");
    }
    if (!keyed)
        say(c, WR_FINDING_WARNS, "no-primary-key", TEXT("%s.%s has no primary key", t->db, t->name),
            "its rows are told apart by all their values: changes cost more, and its snapshot is one long read",
            "add a primary key (an invisible AUTO_INCREMENT column will do)");
    if (t->fk_cascade_child && (c->mariadb || c->s->version_num < 90600 || c->s->native_fk))
        say(c, WR_FINDING_WARNS, "fk-cascade",
            TEXT("a foreign key with CASCADE or SET NULL changes rows of %s.%s", t->db, t->name),
            "this server does not write such changes to the binlog: the lake table is read again as a whole after each "
            "of them, and is behind until then",
            "where the table is large and that happens often, delete and update its rows in SQL (or by trigger) instead "
            "of by cascade; with policy.rowless_change: stop the sync ends with an error instead");
    if (t->engine && strcasecmp(t->engine, "InnoDB") != 0 && strcasecmp(t->engine, "RocksDB") != 0)
        say(c, WR_FINDING_WARNS, "engine", TEXT("%s.%s is a %s table, without transactions", t->db, t->name, t->engine),
            "a statement that fails half-way leaves rows behind, and a crash of the server may leave the table "
            "different from the binlog",
            "ALTER TABLE ... ENGINE = InnoDB");
    if (wr_my_table_by_transaction(t))
        say(c, WR_FINDING_STOPS, "versioned-by-transaction",
            TEXT("%s.%s is system-versioned by transaction number (its ROW START and ROW END are BIGINT UNSIGNED)", t->db,
                 t->name),
            "the server writes its changes to the binlog as SQL text, whatever binlog_format says; a sync stops at the "
            "first one",
            "version it by time: SET system_versioning_alter_history = KEEP; ALTER TABLE ... DROP SYSTEM VERSIONING, DROP "
            "PERIOD FOR SYSTEM_TIME, DROP both columns; ALTER TABLE ... ADD SYSTEM VERSIONING (its history so far is "
            "lost); or exclude the table");
    else if (t->versioned)
        say(c, WR_FINDING_NOTES, "system-versioned", TEXT("%s.%s is system-versioned", t->db, t->name),
            "the lake table has the current rows; history is the lake's own", "nothing to do");
    if (!keyed) return WR_OK;
    bool prefix = false;
    WR_AUTO_BUF wr_buf q = WR_BUF_INIT;
    wr_buf_printf(&q, "SELECT 1 FROM information_schema.STATISTICS WHERE INDEX_NAME = 'PRIMARY' AND SUB_PART IS NOT "
                      "NULL AND TABLE_SCHEMA = ");
    wr_my_quote_text(&q, t->db);
    wr_buf_printf(&q, " AND TABLE_NAME = ");
    wr_my_quote_text(&q, t->name);
    WR_TRY(wr_buf_check(&q, "a query", err));
    bool could = false; /* only texts and bytes can have a prefix key: spare the others the question */
    for (int i = 0; i < t->ncols; i++)
        could = could || (t->cols[i].key_ord > 0 && t->cols[i].kind >= MY_CHAR && t->cols[i].kind <= MY_BLOB);
    if (could) WR_TRY(wr_my_query(c->m, has_prefix, &prefix, err, "%s", wr_buf_cstr(&q)));
    if (prefix)
        say(c, WR_FINDING_WARNS, "prefix-key",
            TEXT("the primary key of %s.%s is on the beginning of a column only", t->db, t->name),
            "its index gives no order of whole values, so each chunk of the snapshot sorts the rest of the table: slow "
            "when it is large",
            "make the key the whole column, if you can");
    return WR_OK;
}

static wr_code tell_table(check *c, const wr_my_table *t, wr_err *err) {
    wr_ddl d;
    if (!c->sink->table) return WR_OK;
    WR_TRY(wr_my_table_ddl(t, WR_DDL_CREATE, WR_ROWS_RELOAD, NULL, &d, err));
    wr_code rc = c->sink->table(c->sink->ctx, &d, err);
    wr_ddl_clear(&d);
    return rc;
}

static wr_code run(check *c, wr_err *err) {
    WR_TRY(check_binlog(c, err));
    WR_TRY(check_retention(c, err));
    WR_TRY(check_topology(c, err));
    WR_TRY(wr_catalogue_read_server(c->m, c->s->capture, c->s->types, c->s->flavor, NULL, NULL, &c->tables, &c->ntables,
                                    err));
    int n = 0; /* the captured ones to the front; remembered helpers are of no interest here */
    for (int i = 0; i < c->ntables; i++)
        if (c->tables[i]->captured) {
            wr_my_table *t = c->tables[n];
            c->tables[n++] = c->tables[i];
            c->tables[i] = t;
        }
    int all = c->ntables;
    c->ntables = n;
    wr_code rc = check_privileges(c, err);
    if (rc == WR_OK) rc = check_filters(c, err);
    if (rc == WR_OK) rc = check_patterns(c, err);
    for (int i = 0; rc == WR_OK && i < n; i++) rc = check_table(c, c->tables[i], err);
    for (int i = 0; rc == WR_OK && i < n; i++) rc = tell_table(c, c->tables[i], err);
    c->ntables = all;
    return rc;
}

wr_code wr_source_check(wr_source *s, const wr_check_sink *sink, wr_err *err) {
    check c = {.s = s, .sink = sink, .mariadb = s->flavor == WR_MARIADB};
    WR_TRY(wr_my_connect(&s->conn, &c.m, err));
    wr_code rc = run(&c, err);
    wr_my_disconnect(c.m);
    for (int i = 0; i < c.ntables; i++) wr_my_table_free(c.tables[i]);
    wr_free(c.tables);
    wr_free(c.grants);
    return rc == WR_OK ? rc : wr_err_in(err, "checking the source");
}
