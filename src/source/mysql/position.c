/* Where the binlog is, and where a pipeline may start in it.
 *
 * What wr_source_begin owes: every transaction at or before its position P is visible to any SELECT that starts after
 * it returns. A transaction that is before P and not yet visible would be in neither the snapshot nor the stream: lost.
 * (The other way round, visible and after P, is harmless: the stream brings it again and the pipeline applies it as an
 * upsert.) The danger is real because a server writes a transaction to the binlog first and commits it in the engine
 * afterwards; between the two lie an fsync and, with semi-synchronous replication, the wait for a replica.
 *
 * MariaDB. START TRANSACTION WITH CONSISTENT SNAPSHOT takes LOCK_commit_ordered, under which the engine's in-memory
 * commit and the binlog's "last committed position" move together (handler.cc, log.cc: commit_ordered). The status
 * variables binlog_snapshot_file/position therefore name exactly the position of the read view: all before it visible,
 * nothing after it. A later read view sees no less. Only XA COMMIT is committed in the engine later: see XA.
 *
 * MySQL with GTIDs. Three steps, in this order:
 *   1. P := SHOW BINARY LOG STATUS. The server reads it under LOCK_log, so no group of transactions is half written at
 * that moment.
 *   2. O := @@global.gtid_owned. A transaction gets its GTID into this set before it is written (under LOCK_log, in the
 * flush stage; a replica's applier even earlier) and leaves it after ha_commit_low, in one step with entering
 * gtid_executed (process_commit_stage_queue, finish_commit; with binlog_order_commits=OFF as well). So whatever is
 * before P is in O, or was already committed in the engine when O was read.
 *   3. Wait until none of O is owned any more. Then all of it is committed in the engine, or rolled back, and so
 * everything before P is visible. Nothing is locked. Executed_Gtid_Set of step 1 was computed before P and is thus a
 * subset of what P covers: a start by GTID repeats at most a few transactions.
 *
 * MySQL without GTIDs. Nothing tells which transactions are between binlog and engine, so their end has to be forced:
 * FLUSH TABLES WITH READ LOCK takes the commit lock, which a committing transaction holds from before its binlog write
 * until after its engine commit; P is read under it. Where RELOAD is not granted, LOCK TABLES ... READ on the captured
 * tables does the same for these: a writer holds its metadata lock until after the engine commit. Both for an instant
 * and with a short lock_wait_timeout, because others queue up behind a waiting lock.
 *
 * XA. XA PREPARE writes the rows, XA COMMIT only the name. Be T a transaction prepared before P, and L the list of XA
 * RECOVER, asked for after P was taken. What must not be is that T's XA COMMIT is before P and T not yet visible.
 *   - XA ROLLBACK: there is nothing to lose.
 *   - XA COMMIT behind P: the stream meets it, has not seen T being prepared, and looks back in the binlogs for T's last
 * XA PREPARE, whose rows it then hands over. Whether T was visible to the snapshot does not matter.
 *   - XA COMMIT before P: T counted as prepared when the server began that statement, so it is in L unless it is done;
 * both servers take it out of the list when the engine has committed it. Not in L: visible. In L: the binlog's last word
 * of T before P is XA COMMIT, and T is waited for until it has left the list.
 * So P counts when for each of L the last word before P is XA PREPARE, or the transaction has left the list since. A
 * statement that is between its XA PREPARE event and the list needs no care: its XA COMMIT can only come behind P. A
 * transaction of which the binlogs say nothing (purged) could not be found by the stream either: P does not count, and
 * begin waits for it a little and then fails.
 *   Tables that join a running stream (wr_source_repattern) are another matter: the stream has seen T being prepared and
 * has kept its rows, but not those of tables that were not captured then. For them P counts only when L is empty.
 */
#include "position.h"
#include "catalogue_impl.h"
#include "fk.h"
#include "topology.h"
#include "xa_spool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "weir/base/clock.h"
#include "weir/base/map.h"
#include "weir/base/mem.h"

enum { BEGIN_TRIES = 10, SETTLE_TIMEOUT_MS = 60000, LOCK_TIMEOUT_S = 5, LOCK_TRIES = 6 };

static const char *status_statement(const wr_source *s) {
    return s->flavor == WR_MYSQL && s->version_num >= 80200 ? "SHOW BINARY LOG STATUS" : "SHOW MASTER STATUS";
}

static void grant_for_position(const wr_source *s, wr_err *err) {
    if (err->code == WR_E_AUTH)
        wr_err_cure(err, "GRANT %s ON *.* TO '%s'@'%%'",
                    s->flavor == WR_MARIADB && s->version_num >= 100502 ? "BINLOG MONITOR, REPLICATION SLAVE"
                                                                        : "REPLICATION CLIENT, REPLICATION SLAVE",
                    s->conn.user);
}

typedef struct end_row {
    wr_pos pos;
    bool seen;
} end_row;

/* Executed_Gtid_Set comes with a newline behind every comma. */
static char *without_blanks(const char *t) {
    char *d = wr_malloc(strlen(t) + 1), *w = d;
    if (!d) return NULL;
    for (; *t; t++)
        if ((unsigned char)*t > ' ') *w++ = *t;
    *w = 0;
    return d;
}

static wr_code set_place(wr_pos *pos, const char *file, const char *offset, wr_err *err) {
    char *end = NULL;
    uint64_t at = offset ? strtoull(offset, &end, 10) : 0;
    if (!file || strlen(file) >= WR_POS_FILE_MAX || !end || *end || at < 4)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO,
                       "the server names its binlog position as '%.300s' '%.32s', which is none", file ? file : "",
                       offset ? offset : "");
    snprintf(pos->file, sizeof pos->file, "%s", file);
    pos->offset = at;
    return WR_OK;
}

static wr_code take_end(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    end_row *e = ctx;
    if (e->seen || ncols < 2) return WR_OK;
    e->seen = true;
    WR_TRY(set_place(&e->pos, row[0], row[1], err));
    if (ncols >= 5 && row[4] && !(e->pos.gtid_set = without_blanks(row[4])))
        return wr_nomem(err, "a GTID set", strlen(row[4]));
    return WR_OK;
}

static wr_code no_binlog(wr_err *err) {
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO,
            "the server writes no binlog (log_bin is off), so there are no changes to follow");
    return wr_err_cure(err,
                       "set log_bin, server_id and binlog_format=ROW in the server's configuration and restart it");
}

wr_code wr_my_binlog_end(const wr_source *s, MYSQL *m, wr_pos *ret_pos, wr_err *err) {
    end_row e = {0};
    wr_code rc = wr_my_query(m, take_end, &e, err, "%s", status_statement(s));
    if (rc == WR_OK && !e.seen) rc = no_binlog(err);
    if (rc != WR_OK) {
        wr_pos_clear(&e.pos);
        grant_for_position(s, err);
        return wr_err_in(err, "reading the end of the binlog");
    }
    e.pos.epoch = s->epoch;
    *ret_pos = e.pos;
    return WR_OK;
}

typedef struct snap_vars {
    char *file, *offset;
} snap_vars;

static wr_code take_snap_var(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    snap_vars *v = ctx;
    if (ncols < 2 || !row[0] || !row[1]) return WR_OK;
    char **to = strcasecmp(row[0], "binlog_snapshot_file") == 0       ? &v->file
                : strcasecmp(row[0], "binlog_snapshot_position") == 0 ? &v->offset
                                                                      : NULL;
    if (!to || *to) return WR_OK;
    return (*to = wr_strdup(row[1])) ? WR_OK : wr_nomem(err, "a status value", strlen(row[1]));
}

/* MariaDB's GTID position of a place, NULL when the server cannot tell. It reads the file up to there (an index spares
 * it that from 11.4 on) and gives up at an event larger than its max_allowed_packet, so NULL is ordinary. */
static wr_code gtid_at(MYSQL *m, const wr_pos *pos, char **ret, wr_err *err) {
    char file[2 * WR_POS_FILE_MAX + 1];
    mysql_real_escape_string(m, file, pos->file, strlen(pos->file));
    return wr_my_scalar(m, ret, err, "SELECT BINLOG_GTID_POS('%s', %" PRIu64 ")", file, pos->offset);
}

/* MariaDB: the end of the binlog, a GTID set it covers, and whether that set is all it covers. gtid_binlog_pos moves
 * under LOCK_log together with the end, so it is exact when it did not move around the reading. */
static wr_code mariadb_end(const wr_source *s, MYSQL *m, wr_pos *ret_pos, bool *ret_exact, wr_err *err) {
    WR_AUTO char *before = NULL;
    WR_AUTO char *after = NULL;
    wr_pos pos = {0};
    WR_TRY(wr_my_scalar(m, &before, err, "SELECT @@global.gtid_binlog_pos"));
    WR_TRY(wr_my_binlog_end(s, m, &pos, err));
    wr_free(pos.gtid_set);
    pos.gtid_set = NULL;
    wr_code rc = wr_my_scalar(m, &after, err, "SELECT @@global.gtid_binlog_pos");
    if (rc != WR_OK) return wr_pos_clear(&pos), rc;
    *ret_exact = before && after && strcmp(before, after) == 0;
    pos.gtid_set = WR_STEAL(before);
    *ret_pos = pos;
    return WR_OK;
}

static wr_code place_mysql_gtid(wr_source *s, MYSQL *m, wr_pos *ret, bool *ret_exact, wr_err *err);
wr_code wr_my_binlog_end_exact(wr_source *s, MYSQL *m, wr_pos *ret_pos, bool *ret_exact, wr_err *err) {
    return s->flavor == WR_MARIADB ? mariadb_end(s, m, ret_pos, ret_exact, err) : place_mysql_gtid(s, m, ret_pos, ret_exact, err);
}

wr_code wr_my_binlog_end_gtid(const wr_source *s, MYSQL *m, wr_pos *ret_pos, wr_err *err) {
    if (s->flavor != WR_MARIADB) return wr_my_binlog_end(s, m, ret_pos, err);
    bool exact = false;
    wr_pos pos = {0};
    WR_TRY(mariadb_end(s, m, &pos, &exact, err));
    WR_AUTO char *looked_up = NULL;
    wr_code rc = exact ? WR_OK : gtid_at(m, &pos, &looked_up, err);
    if (rc != WR_OK) return wr_pos_clear(&pos), rc;
    if (looked_up) {
        wr_free(pos.gtid_set);
        pos.gtid_set = WR_STEAL(looked_up);
    }
    *ret_pos = pos;
    return WR_OK;
}

static wr_code snapshot_place(MYSQL *m, wr_pos *ret_pos, wr_err *err) {
    snap_vars v = {0};
    wr_pos pos = {0};
    wr_code rc = wr_my_query(m, take_snap_var, &v, err, "SHOW STATUS LIKE 'binlog_snapshot_%%'");
    if (rc == WR_OK && (!v.file || !*v.file)) rc = no_binlog(err);
    if (rc == WR_OK) rc = set_place(&pos, v.file, v.offset, err);
    wr_free(v.file);
    wr_free(v.offset);
    if (rc != WR_OK) return rc;
    *ret_pos = pos;
    return WR_OK;
}

/* ------------------------------------------------------------------ prepared XA transactions */
typedef struct xa_seen {
    wr_xa_last *xa; /* owned */
    int n, cap;
    bool strange;   /* one whose id could not be read */
    char first[160];
} xa_seen;

static void xa_clear(xa_seen *x) {
    wr_free(x->xa);
    *x = (xa_seen){0};
}

static wr_code take_xa(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    xa_seen *x = ctx;
    if (ncols < 4 || !row[0] || !row[1] || !row[2] || !row[3]) return WR_OK;
    if (x->n == 0) {
        size_t n = lengths[3] < 120 ? lengths[3] : 120;
        for (size_t i = 0; i < n; i++) x->first[i] = row[3][i] > ' ' && row[3][i] < 127 ? row[3][i] : '.';
        x->first[n] = 0;
    }
    if (x->n == x->cap) {
        int cap = x->cap ? x->cap * 2 : 8;
        wr_xa_last *v = wr_realloc(x->xa, (size_t)cap * sizeof *v);
        if (!v) return wr_nomem(err, "XA transactions", (size_t)cap * sizeof *v);
        x->xa = v;
        x->cap = cap;
    }
    unsigned long gtrid = strtoul(row[1], NULL, 10), bqual = strtoul(row[2], NULL, 10);
    wr_xa_last *xa = &x->xa[x->n++];
    *xa = (wr_xa_last){.xid = {.format = (int32_t)strtol(row[0], NULL, 10), .gtrid_len = (uint8_t)gtrid, .bqual_len = (uint8_t)bqual}};
    if (gtrid > 64 || bqual > 64 || gtrid + bqual != lengths[3]) x->strange = true;
    else memcpy(xa->xid.data, row[3], lengths[3]);
    return WR_OK;
}

static wr_code prepared_xa(MYSQL *m, xa_seen *ret, wr_err *err) {
    xa_seen x = {0};
    wr_err e = WR_ERR_INIT;
    wr_code rc = wr_my_query(m, take_xa, &x, &e, "XA RECOVER");
    /* MySQL wants XA_RECOVER_ADMIN for it and answers 1401 without. Who has not granted it does not use XA, or `weir
     * check` has told them. */
    if (rc != WR_OK && mysql_errno(m) != 1401) {
        xa_clear(&x);
        *err = e;
        return rc;
    }
    xa_clear(ret);
    *ret = x;
    return WR_OK;
}

static wr_code take_count(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    if (ncols >= 2 && row[1]) *(double *)ctx += strtod(row[1], NULL);
    return WR_OK;
}

/* MariaDB writes XA PREPARE before the transaction counts as prepared, and nothing shows it in between (MySQL: its GTID
 * is owned). Where XA is in use at all, give such a statement the time to end. */
static wr_code until_listed(const wr_source *s, MYSQL *m, wr_err *err) {
    double used = 0;
    WR_AUTO char *ignored = NULL;
    if (s->flavor != WR_MARIADB) return WR_OK;
    WR_TRY(wr_my_query(m, take_count, &used, err, "SHOW GLOBAL STATUS LIKE 'Com_xa_prepare'"));
    return used > 0 ? wr_my_scalar(m, &ignored, err, "SELECT SLEEP(0.3)") : WR_OK;
}

static bool still_listed(const xa_seen *now, const wr_xid *xid) {
    for (int i = 0; i < now->n; i++)
        if (wr_xid_eq(&now->xa[i].xid, xid)) return true;
    return false;
}

/* *ret_ok: nothing of what was prepared can be lost by a start at pos, as above. Waits for what is on its way into the engine, at most until `until`. */
static wr_code xa_is_safe(wr_source *s, MYSQL *m, const wr_pos *pos, xa_seen *xa, int64_t until, bool *ret_ok, wr_err *err) {
    *ret_ok = false;
    if (xa->strange) return WR_OK;
    WR_TRY(wr_my_xa_last(s, pos, xa->xa, xa->n, err));
    for (;;) {
        xa_seen now = {0};
        WR_TRY(prepared_xa(m, &now, err));
        bool unknown = false, committing = false;
        for (int i = 0; i < xa->n; i++) {
            if (xa->xa[i].last == WR_XA_PREPARED || !still_listed(&now, &xa->xa[i].xid)) continue;
            if (xa->xa[i].last == WR_XA_ENDED) committing = true;
            else unknown = true;
        }
        xa_clear(&now);
        if (unknown || !committing) return *ret_ok = !unknown, WR_OK;
        if (wr_mono_us() > until) return WR_OK;
        WR_AUTO char *ignored = NULL;
        WR_TRY(wr_my_scalar(m, &ignored, err, "SELECT SLEEP(0.05)"));
    }
}

/* MariaDB's snapshot goes by what commits in order with the binlog, and the engine's part of an XA COMMIT comes after that (measured: missing in the view once in some
 * thousand snapshots under load). *ret_pending: such a transaction, with its XA COMMIT before pos, is still on its way into the engine; when not, all of them are in
 * views that begin from now on. A view is exact when the one before it had that answer and no XA COMMIT is between the two. */
static wr_code lacks_xa(wr_source *s, MYSQL *m, const wr_pos *pos, bool *ret_pending, wr_err *err) {
    xa_seen xa = {0};
    *ret_pending = false;
    WR_TRY(prepared_xa(m, &xa, err));
    wr_code rc = xa.n ? wr_my_xa_last(s, pos, xa.xa, xa.n, err) : WR_OK;
    for (int i = 0; i < xa.n; i++) *ret_pending |= xa.xa[i].last == WR_XA_ENDED;
    xa_clear(&xa);
    return rc;
}

/* ------------------------------------------------------------------ MariaDB's snapshot */
wr_code wr_my_mariadb_snapshot(wr_source *s, MYSQL *m, wr_snapshot_kind kind, wr_pos *ret_pos, wr_err *err) {
    /* The GTID set must claim nothing that is behind P. The end E of the binlog, read before the snapshot, covers a
     * known set; what is in E and still on its way into the engine is not in the snapshot yet, hence the repetition
     * until P has reached E. */
    bool exact = false, settled = false;
    wr_pos end = {0}, pos = {0}, base = {0}; /* settled: whatever an XA COMMIT before base commits is in later views */
    WR_TRY(mariadb_end(s, m, &end, &exact, err));
    wr_code rc = WR_OK;
    int64_t until = wr_mono_us() + SETTLE_TIMEOUT_MS * 1000ll;
    for (;;) {
        rc = wr_my_exec(m, err, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
        if (rc == WR_OK) rc = snapshot_place(m, &pos, err);
        pos.epoch = s->epoch;
        bool there = wr_pos_cmp(&pos, &end) >= 0, fresh = false, any = false;
        if (rc == WR_OK && there && kind != WR_SNAPSHOT_BUT_XA) {
            if (settled && strcmp(base.file, pos.file) == 0 && base.offset == pos.offset) break;
            if (settled) rc = strcmp(base.file, pos.file) == 0 ? wr_my_xa_between(s, &base, &pos, &any, err) : (any = true, WR_OK);
            if (rc == WR_OK && settled && !any) break;
            bool pending = true;
            if (rc == WR_OK) rc = lacks_xa(s, m, &pos, &pending, err);
            settled = fresh = !pending;
            base = pos;
            there = settled && kind == WR_SNAPSHOT_SETTLED;
        }
        if (rc != WR_OK || there) break;
        if (wr_mono_us() > until) {
            wr_fail(err, WR_E_TIMEOUT, WR_RETRY_SOON,
                    "a transaction before %s:%" PRIu64 " has been between binlog and commit for %d s", end.file,
                    end.offset, SETTLE_TIMEOUT_MS / 1000);
            rc = wr_err_cure(err, "look for a semi-synchronous replica that does not answer");
            break;
        }
        WR_AUTO char *ignored = NULL;
        if ((rc = wr_my_exec(m, err, "COMMIT")) != WR_OK ||
            (!fresh && (rc = wr_my_scalar(m, &ignored, err, "SELECT SLEEP(0.002)")) != WR_OK))
            break;
    }
    char *looked_up = NULL;
    if (rc == WR_OK && !(exact && wr_pos_cmp(&pos, &end) == 0)) rc = gtid_at(m, &pos, &looked_up, err);
    if (rc == WR_OK) {
        pos.gtid_set = looked_up ? looked_up : WR_STEAL(end.gtid_set);
        *ret_pos = pos;
    } else
        wr_err_in(err, "opening a snapshot with its binlog position");
    wr_pos_clear(&end);
    return rc;
}

wr_code wr_source_now(wr_source *s, wr_pos *ret_pos, wr_err *err) {
    MYSQL *m = NULL;
    wr_pos pos = {0};
    WR_TRY(wr_my_session(s, &m, err));
    wr_code rc = wr_my_binlog_end_gtid(s, m, &pos, err);
    wr_my_session_end(s, m, rc);
    if (rc != WR_OK) return rc;
    wr_pos_clear(ret_pos);
    *ret_pos = pos;
    return WR_OK;
}

/* ------------------------------------------------------------------ until everything written is committed (MySQL,
 * GTID) */
wr_code wr_my_parse_owned(const char *owned, wr_buf *ret, wr_err *err) {
    /* "uuid:7#12:9#14,\nuuid:tag:3#15": per source identity a list of number#thread. Items without # are the identity
     * (and tag) of those that follow. */
    wr_buf_clear(ret);
    char head[256] = "";
    bool fresh = true; /* the next item without # starts a new identity */
    for (const char *p = owned; *p;) {
        size_t n = strcspn(p, ":,\n\r ");
        char sep = p[n];
        const char *hash = memchr(p, '#', n);
        if (n > 0 && !hash) {
            if (fresh || n >= 36)
                snprintf(head, sizeof head, "%.*s", (int)n, p); /* a UUID */
            else {
                head[36 < strlen(head) ? 36 : strlen(head)] = 0; /* a tag replaces the tag before */
                size_t at = strlen(head);
                snprintf(head + at, sizeof head - at, ":%.*s", (int)n, p);
            }
            fresh = false;
        } else if (n > 0) {
            wr_buf_printf(ret, "%s:%.*s\n", head, (int)(hash - p), p);
        }
        if (sep == ',' || sep == '\n') fresh = true;
        p += n + (sep ? 1 : 0);
    }
    return wr_buf_check(ret, "the owned GTIDs", err);
}

/* Keeps in `want` (lines) those that are also in `have`. */
static void intersect_lines(wr_buf *want, wr_buf *have) {
    wr_buf out = WR_BUF_INIT;
    const char *all = wr_buf_cstr(have), *w = wr_buf_cstr(want);
    if (!all || !w) return;
    while (*w) {
        size_t n = strcspn(w, "\n");
        for (const char *h = all; *h;) {
            size_t k = strcspn(h, "\n");
            if (k == n && memcmp(h, w, n) == 0) {
                wr_buf_put(&out, w, n + 1);
                break;
            }
            h += k + (h[k] ? 1 : 0);
        }
        w += n + (w[n] ? 1 : 0);
    }
    if (out.failed) { /* keep waiting for all of them */
        wr_buf_free(&out);
        return;
    }
    wr_buf_free(want);
    *want = out;
}

static wr_code owned_now(MYSQL *m, wr_buf *ret, wr_err *err) {
    WR_AUTO char *t = NULL;
    WR_TRY(wr_my_scalar(m, &t, err, "SELECT @@global.gtid_owned"));
    return wr_my_parse_owned(t ? t : "", ret, err);
}

static wr_code settle_gtids(MYSQL *m, wr_err *err) {
    WR_AUTO_BUF wr_buf want = WR_BUF_INIT;
    WR_AUTO_BUF wr_buf have = WR_BUF_INIT;
    WR_TRY(owned_now(m, &want, err));
    int64_t until = wr_mono_us() + SETTLE_TIMEOUT_MS * 1000ll;
    while (want.n > 0) {
        const char *first = wr_buf_cstr(&want);
        if (!first) return wr_nomem(err, "the owned GTIDs", want.n);
        int n = (int)strcspn(first, "\n");
        if (wr_mono_us() > until) {
            wr_fail(err, WR_E_TIMEOUT, WR_RETRY_SOON,
                    "transaction %.*s has been between binlog and commit for %d s, so no safe start position could be "
                    "taken",
                    n, first, SETTLE_TIMEOUT_MS / 1000);
            return wr_err_cure(err, "look for a session that holds it (SELECT @@global.gtid_owned; the number behind # "
                                    "is the thread), or for a semi-synchronous replica that does not answer");
        }
        /* Waits for the commit itself; the short limit is for one that is rolled back and so never arrives in
         * gtid_executed. */
        WR_AUTO char *ignored = NULL;
        WR_TRY(wr_my_scalar(m, &ignored, err, "SELECT WAIT_FOR_EXECUTED_GTID_SET('%.*s', 0.2)", n, first));
        WR_TRY(owned_now(m, &have, err));
        intersect_lines(&want, &have);
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ begin */
typedef struct defs {
    wr_my_table **t;
    int n;
} defs;

static void defs_clear(defs *d) {
    for (int i = 0; i < d->n; i++) wr_my_table_free(d->t[i]);
    wr_free(d->t);
    *d = (defs){0};
}

static wr_code read_defs(wr_source *s, MYSQL *m, defs *ret, wr_err *err) {
    defs d = {0};
    WR_TRY(wr_catalogue_read_server(m, s->capture, s->types, s->flavor, NULL, NULL, &d.t, &d.n, err));
    wr_code rc = wr_catalogue_read_parents(m, s->capture, s->flavor, &d.t, &d.n, err);
    if (rc != WR_OK) return defs_clear(&d), rc;
    defs_clear(ret);
    *ret = d;
    return WR_OK;
}

static bool defs_same(const defs *a, const defs *b, char *why, size_t why_cap) {
    if (a->n != b->n) return snprintf(why, why_cap, "%d tables, then %d", a->n, b->n), false;
    for (int i = 0; i < a->n; i++) {
        char detail[200] = "";
        if (strcmp(a->t[i]->db, b->t[i]->db) != 0 || strcmp(a->t[i]->name, b->t[i]->name) != 0)
            return snprintf(why, why_cap, "%s.%s, then %s.%s", a->t[i]->db, a->t[i]->name, b->t[i]->db, b->t[i]->name),
                   false;
        if (!wr_my_table_same(a->t[i], b->t[i], detail, sizeof detail))
            return snprintf(why, why_cap, "%s.%s: %s", a->t[i]->db, a->t[i]->name, detail), false;
        if (!wr_my_fks_same(a->t[i], b->t[i]))
            return snprintf(why, why_cap, "%s.%s: foreign keys", a->t[i]->db, a->t[i]->name), false;
    }
    return true;
}

static wr_code place_mariadb(wr_source *s, MYSQL *m, wr_snapshot_kind kind, wr_pos *ret, wr_err *err) {
    wr_pos pos = {0};
    WR_TRY(wr_my_mariadb_snapshot(s, m, kind, &pos, err));
    wr_code rc = wr_my_exec(m, err, "COMMIT");
    if (rc != WR_OK) return wr_pos_clear(&pos), rc;
    *ret = pos;
    return WR_OK;
}

/* *ret_exact: the set is all that the position covers. */
static wr_code place_mysql_gtid(wr_source *s, MYSQL *m, wr_pos *ret, bool *ret_exact, wr_err *err) {
    wr_pos pos = {0};
    bool exact = false;
    WR_TRY(wr_my_binlog_end(s, m, &pos, err));
    wr_code rc = settle_gtids(m, err);
    if (rc != WR_OK) {
        wr_pos_clear(&pos);
        return rc;
    }
    /* The set was computed just before the position. When nothing was written since, it can be had exactly. */
    wr_pos again = {0};
    if ((rc = wr_my_binlog_end(s, m, &again, err)) == WR_OK && strcmp(again.file, pos.file) == 0 &&
        again.offset == pos.offset) {
        wr_pos_clear(&pos);
        pos = again;
        again = (wr_pos){0};
        exact = true;
    }
    wr_pos_clear(&again);
    if (rc != WR_OK) {
        wr_pos_clear(&pos);
        return rc;
    }
    *ret = pos;
    *ret_exact = exact;
    return WR_OK;
}

static wr_code lock_tables(MYSQL *m, const defs *d, wr_err *err) {
    WR_AUTO_BUF wr_buf sql = WR_BUF_INIT;
    for (int i = 0; i < d->n; i++) {
        if (!d->t[i]->ncols) continue; /* not ours to lock */
        wr_buf_printf(&sql, sql.n ? ", " : "LOCK TABLES ");
        wr_my_quote_name(&sql, d->t[i]->db);
        wr_buf_printf(&sql, ".");
        wr_my_quote_name(&sql, d->t[i]->name);
        wr_buf_printf(&sql, " READ");
    }
    WR_TRY(wr_buf_check(&sql, "LOCK TABLES", err));
    return sql.n ? wr_my_exec(m, err, "%s", wr_buf_cstr(&sql)) : WR_OK;
}

static wr_code place_mysql_locked(wr_source *s, MYSQL *m, const defs *d, wr_pos *ret, wr_err *err) {
    WR_TRY(wr_my_exec(m, err, "SET SESSION lock_wait_timeout = %d", LOCK_TIMEOUT_S));
    wr_code rc = WR_OK;
    for (int i = 0; i < LOCK_TRIES; i++) {
        rc = wr_my_exec(m, err, "FLUSH TABLES WITH READ LOCK");
        if (rc == WR_E_AUTH) {
            rc = lock_tables(m, d, err);
            if (rc == WR_E_AUTH) {
                wr_fail(err, WR_E_AUTH, WR_RETRY_NO,
                        "without GTIDs a safe start position needs an instant's read lock, and '%s' may take none",
                        s->conn.user);
                return wr_err_cure(
                    err,
                    "set gtid_mode=ON, or GRANT RELOAD ON *.* TO '%s'@'%%' (or LOCK TABLES on the captured databases)",
                    s->conn.user);
            }
        }
        if (mysql_errno(m) != 1205) break; /* somebody's long statement: let the queue behind us pass, then try again */
    }
    if (rc != WR_OK) {
        wr_err_in(err, "taking a read lock for an instant");
        if (err->code == WR_E_SERVER && !*err->cure)
            wr_err_cure(err, "a long transaction or statement on a captured table holds it up (SHOW PROCESSLIST); or "
                             "set gtid_mode=ON, with which no lock is needed");
        return rc;
    }
    wr_pos pos = {0};
    rc = wr_my_binlog_end(s, m, &pos, err);
    wr_err e = WR_ERR_INIT;
    wr_code rc2 = wr_my_exec(m, &e, "UNLOCK TABLES");
    if (rc == WR_OK && rc2 != WR_OK) rc = rc2, *err = e, wr_pos_clear(&pos);
    if (rc == WR_OK) *ret = pos;
    return rc;
}

/* What wr_source_begin owes for transactions that are prepared is not what wr_source_repattern does. */
typedef enum xa_rule { XA_NONE_PREPARED, XA_FOUND_LATER } xa_rule;

/* Prepared ones are mostly committed at once: that is waited for before binlogs are read for them. */
enum { XA_PATIENCE_MS = 1000, XA_AGAIN_MS = 5000, XA_TIMEOUT_MS = 20000 };

static wr_code begin_on(wr_source *s, MYSQL *m, xa_rule rule, defs *ret_defs, wr_pos *ret_pos, wr_err *err) {
    char why[400] = "";
    bool exact;
    xa_seen xa = {0};
    defs before = {0}, after = {0};
    wr_pos pos = {0};
    wr_code rc = WR_OK;
    int64_t until = wr_mono_us() + (rule == XA_FOUND_LATER ? XA_TIMEOUT_MS : SETTLE_TIMEOUT_MS) * 1000ll, look_at = wr_mono_us() + XA_PATIENCE_MS * 1000ll;
    for (int i = 0;; i++) {
        rc = read_defs(s, m, &before, err);
        if (rc != WR_OK) break;
        wr_pos_clear(&pos);
        rc = s->flavor == WR_MARIADB ? place_mariadb(s, m, WR_SNAPSHOT_BUT_XA, &pos, err)
             : s->gtid               ? place_mysql_gtid(s, m, &pos, &exact, err)
                                     : place_mysql_locked(s, m, &before, &pos, err);
        /* DDL: a definition becomes visible together with, or after, its binlog event (metadata lock until both are
         * done; MySQL 8 in one commit). So a definition read before P is no newer than P, one read after P no older,
         * and where both agree it is P's. */
        if (rc == WR_OK) rc = read_defs(s, m, &after, err);
        if (rc == WR_OK && rule == XA_NONE_PREPARED) rc = until_listed(s, m, err);
        if (rc == WR_OK) rc = prepared_xa(m, &xa, err);
        if (rc != WR_OK) break;
        bool same = defs_same(&before, &after, why, sizeof why), safe = xa.n == 0;
        if (same && !safe && rule == XA_FOUND_LATER && wr_mono_us() > look_at) {
            if ((rc = xa_is_safe(s, m, &pos, &xa, until, &safe, err)) != WR_OK) break;
            look_at = wr_mono_us() + XA_AGAIN_MS * 1000ll;
        }
        if (same && safe) break;
        if (!same && i + 1 >= BEGIN_TRIES) {
            rc = wr_fail(err, WR_E_BUSY, WR_RETRY_SOON,
                         "table definitions kept changing while a start position was looked for (%s)", why);
            break;
        }
        if (same && wr_mono_us() > until) {
            wr_fail(err, WR_E_BUSY, WR_RETRY_SOON,
                    "%d prepared XA transaction%s (the first: '%s') already in the binlog and not committed%s: a start "
                    "now could lose %s rows",
                    xa.n, xa.n == 1 ? " is" : "s are", xa.first,
                    rule == XA_FOUND_LATER ? ", and what was prepared is not in the binlogs that the server still has" : "",
                    xa.n == 1 ? "its" : "their");
            rc = wr_err_cure(
                err, "commit them or roll them back (XA RECOVER CONVERT XID; XA COMMIT ... or XA ROLLBACK ...)");
            break;
        }
        if (same) { /* the server has nothing to wait on for them */
            WR_AUTO char *ignored = NULL;
            if ((rc = wr_my_scalar(m, &ignored, err, "SELECT SLEEP(0.2)")) != WR_OK) break;
        }
    }
    xa_clear(&xa);
    defs_clear(&before);
    if (rc != WR_OK) {
        defs_clear(&after);
        wr_pos_clear(&pos);
        return rc;
    }
    *ret_defs = after;
    *ret_pos = pos;
    return WR_OK;
}

wr_code wr_source_begin(wr_source *s, uint32_t first_table_id, wr_pos *ret_pos, wr_err *err) {
    MYSQL *m = NULL;
    WR_TRY(wr_my_session(s, &m, err));
    defs d = {0};
    wr_pos pos = {0};
    wr_code rc = begin_on(s, m, XA_FOUND_LATER, &d, &pos, err);
    wr_my_session_end(s, m, rc);
    /* Files of an earlier life of this folder: what was prepared then is looked for in the binlogs, with the tables that are captured now. */
    if (rc == WR_OK && s->spool_dir) rc = wr_xa_spool_wipe(s->spool_dir, err);
    if (rc != WR_OK) {
        defs_clear(&d);
        wr_pos_clear(&pos);
        return wr_err_in(err, "finding a start position");
    }
    wr_catalogue *c = NULL;
    rc = wr_catalogue_new(s->capture, s->types, s->flavor, &c, err);
    if (rc == WR_OK) wr_catalogue_set_next_id(c, first_table_id);
    for (int i = 0; rc == WR_OK && i < d.n; i++) {
        wr_my_table *t = d.t[i];
        d.t[i] = NULL; /* taken over, on failure too */
        rc = wr_catalogue_add(c, t, err);
    }
    defs_clear(&d);
    if (rc != WR_OK) {
        wr_catalogue_free(c);
        wr_pos_clear(&pos);
        return rc;
    }
    wr_catalogue_free(s->catalogue);
    s->catalogue = c;
    wr_pos_clear(ret_pos);
    *ret_pos = pos;
    return WR_OK;
}

wr_code wr_source_settled(wr_source *s, wr_pos *ret_pos, wr_err *err) {
    MYSQL *m = NULL;
    wr_pos pos = {0};
    defs d = {0};
    bool exact;
    WR_TRY(wr_my_session(s, &m, err));
    wr_code rc = WR_OK;
    if (s->flavor == WR_MARIADB)
        rc = place_mariadb(s, m, WR_SNAPSHOT_SETTLED, &pos, err);
    else if (s->gtid)
        rc = place_mysql_gtid(s, m, &pos, &exact, err);
    else if ((rc = read_defs(s, m, &d, err)) == WR_OK)
        rc = place_mysql_locked(s, m, &d, &pos, err);
    defs_clear(&d);
    wr_my_session_end(s, m, rc);
    if (rc != WR_OK) return wr_err_in(err, "finding a position up to which everything is visible");
    wr_pos_clear(ret_pos);
    *ret_pos = pos;
    return WR_OK;
}

/* ------------------------------------------------------------------ other patterns */
typedef wr_code ddl_fn(void *ctx, const wr_ddl *ddl, wr_err *err);

void wr_source_join_clear(wr_source *s) {
    for (int i = 0; i < s->njoin; i++) wr_my_table_free(s->join[i]);
    wr_free(s->join);
    s->join = NULL, s->njoin = 0;
    wr_pos_clear(&s->join_at);
}

static wr_code tell(const wr_my_table *t, wr_ddl_kind kind, wr_ddl_rows rows, const char *why, ddl_fn *fn, void *ctx, wr_err *err) {
    wr_ddl d;
    WR_TRY(wr_my_table_ddl(t, kind, rows, why, &d, err));
    wr_code rc = fn(ctx, &d, err);
    wr_ddl_clear(&d);
    return rc;
}

static wr_code those_who_leave(wr_source *s, ddl_fn *fn, void *ctx, wr_err *err) {
    wr_catalogue *c = s->catalogue;
    for (int i = c->now.n - 1; i >= 0; i--) {
        const wr_my_table *t = c->now.e[i]->t;
        if (!t->captured || wr_catalogue_wants_(c, t->db, t->name)) continue;
        WR_TRY(tell(t, WR_DDL_DROP, WR_ROWS_LEFT, "source.capture and source.exclude do not name it any more", fn, ctx, err));
        wr_catalogue_remove_(c, t->id);
    }
    return WR_OK;
}

/* A table whose rows are passed over. */
static wr_code add_hidden(wr_source *s, const wr_my_table *like, bool with_keys, ddl_fn *fn, void *ctx, wr_err *err) {
    wr_my_table *t = wr_calloc(1, sizeof *t);
    if (!t) return wr_nomem(err, "table definition", sizeof *t);
    bool ok = (t->db = wr_strdup(like->db)) && (t->name = wr_strdup(like->name)) && (!with_keys || wr_my_fks_copy(t, like));
    if (!ok) return wr_my_table_free(t), wr_nomem(err, "table definition", 64);
    WR_TRY(wr_catalogue_add(s->catalogue, t, err));
    return tell(t, WR_DDL_HIDDEN, WR_ROWS_KEEP, NULL, fn, ctx, err);
}

wr_code wr_source_repattern(wr_source *s, ddl_fn *fn, void *ctx, wr_pos *ret_at, wr_err *err) {
    MYSQL *m = NULL;
    defs d = {0};
    wr_pos at = {0};
    wr_pos_clear(ret_at);
    wr_source_join_clear(s);
    WR_TRY(wr_my_session(s, &m, err));
    wr_code rc = begin_on(s, m, XA_NONE_PREPARED, &d, &at, err);
    wr_my_session_end(s, m, rc);
    if (rc != WR_OK) return wr_err_in(err, "finding a position for other patterns");
    rc = those_who_leave(s, fn, ctx, err);
    bool any = false;
    for (int i = 0; rc == WR_OK && i < d.n; i++) {
        wr_my_table *t = d.t[i];
        const wr_entry *e = wr_catalogue_entry_(s->catalogue, t->db, t->name);
        bool joins = t->captured && !(e && e->t->captured);
        any |= joins;
        if (!e && (joins || !t->ncols)) rc = add_hidden(s, t, !joins, fn, ctx, err);
        if (!joins) wr_my_table_free(t), d.t[i] = NULL;
    }
    if (rc == WR_OK && any) {
        s->join = d.t, s->njoin = d.n;
        s->join_at = at;
        at = (wr_pos){0};
        d = (defs){0};
        rc = wr_pos_copy(ret_at, &s->join_at, err);
    }
    defs_clear(&d);
    wr_pos_clear(&at);
    return rc;
}

wr_code wr_source_join(wr_source *s, ddl_fn *fn, void *ctx, wr_err *err) {
    for (int i = 0; i < s->njoin; i++) {
        wr_my_table *t = s->join[i];
        const wr_entry *e = t ? wr_catalogue_entry_(s->catalogue, t->db, t->name) : NULL;
        if (!t || (e && e->t->captured)) continue; /* made or renamed in the stream meanwhile */
        if (e) {
            uint32_t id = e->t->id;
            WR_TRY(tell(e->t, WR_DDL_DROP, WR_ROWS_KEEP, NULL, fn, ctx, err));
            wr_catalogue_remove_(s->catalogue, id);
        }
        s->join[i] = NULL; /* taken over, on failure too */
        WR_TRY(wr_catalogue_add(s->catalogue, t, err));
        WR_TRY(tell(t, WR_DDL_CREATE, WR_ROWS_RELOAD, "source.capture and source.exclude name it now", fn, ctx, err));
    }
    wr_source_join_clear(s);
    return WR_OK;
}

/* ------------------------------------------------------------------ behind a gap */
/* t under the identity of the captured table `was`, with the next version if anything about it is another. */
static wr_code take_over(wr_source *s, wr_my_table *t, const wr_my_table *was, wr_err *err) {
    WR_AUTO_BUF wr_buf a = WR_BUF_INIT, b = WR_BUF_INIT;
    t->id = was->id, t->version = was->version;
    wr_catalogue_ids_by_name_(t, was, s->types);
    WR_TRY(wr_my_table_to_json(was, &a, err));
    WR_TRY(wr_my_table_to_json(t, &b, err));
    t->version += a.n != b.n || memcmp(a.p, b.p, a.n);
    return WR_OK;
}

static const wr_my_table *captured_as(const wr_source *s, const wr_my_table *t) {
    const wr_entry *e = t->captured ? wr_catalogue_entry_(s->catalogue, t->db, t->name) : NULL;
    return e && e->t->captured ? e->t : NULL;
}

static wr_code catalogue_behind_gap(wr_source *s, defs *d, wr_catalogue *c, wr_err *err) {
    wr_catalogue_set_next_id(c, s->catalogue->next_id);
    for (int i = 0; i < d->n; i++) {
        wr_my_table *t = d->t[i];
        const wr_my_table *was = captured_as(s, t);
        if (was) WR_TRY(take_over(s, t, was, err));
        d->t[i] = NULL; /* taken over, on failure too */
        WR_TRY(wr_catalogue_add(c, t, err));
    }
    return WR_OK;
}

static bool same_ids(const wr_my_table *a, const wr_my_table *b) {
    bool same = a->ncols == b->ncols;
    for (int i = 0; same && i < a->ncols; i++) same = a->cols[i].id == b->cols[i].id;
    return same;
}

static wr_code tell_difference(const wr_source *s, const wr_catalogue *c, ddl_fn *fn, void *ctx, wr_err *err) {
    static const char gap[] = "found different behind a gap of the source's log";
    for (int i = 0; i < s->catalogue->now.n; i++) {
        const wr_my_table *t = s->catalogue->now.e[i]->t;
        if (wr_catalogue_by_id_(c, t->id)) continue;
        bool named = wr_capture_matches(s->capture, t->db, t->name);
        WR_TRY(tell(t, WR_DDL_DROP, t->captured && !named ? WR_ROWS_LEFT : WR_ROWS_KEEP, t->captured ? "not found behind a gap of the source's log" : NULL, fn, ctx, err));
    }
    for (int i = 0; i < c->now.n; i++) {
        const wr_my_table *t = c->now.e[i]->t;
        const wr_my_table *was = captured_as(s, t);
        if (!was) WR_TRY(tell(t, t->captured ? WR_DDL_CREATE : WR_DDL_HIDDEN, t->captured ? WR_ROWS_RELOAD : WR_ROWS_KEEP, t->captured ? "found behind a gap of the source's log" : NULL, fn, ctx, err));
        else if (t->version != was->version) WR_TRY(tell(t, WR_DDL_ALTER, wr_my_table_same(was, t, NULL, 0) && same_ids(was, t) ? WR_ROWS_KEEP : WR_ROWS_RELOAD, gap, fn, ctx, err));
    }
    return WR_OK;
}

wr_code wr_source_rebase(wr_source *s, ddl_fn *fn, void *ctx, wr_pos *ret_pos, wr_err *err) {
    MYSQL *m = NULL;
    defs d = {0};
    wr_pos pos = {0};
    wr_catalogue *c = NULL;
    WR_TRY(wr_my_session(s, &m, err));
    wr_catalogue_rollback(s->catalogue);
    wr_code rc = begin_on(s, m, XA_FOUND_LATER, &d, &pos, err);
    wr_my_session_end(s, m, rc);
    if (rc != WR_OK) return wr_err_in(err, "finding a position behind the gap");
    if (s->spool_dir) rc = wr_xa_spool_wipe(s->spool_dir, err);
    if (rc == WR_OK) rc = wr_catalogue_new(s->capture, s->types, s->flavor, &c, err);
    if (rc == WR_OK) rc = catalogue_behind_gap(s, &d, c, err);
    if (rc == WR_OK) rc = tell_difference(s, c, fn, ctx, err);
    defs_clear(&d);
    if (rc != WR_OK) return wr_catalogue_free(c), wr_pos_clear(&pos), rc;
    wr_source_join_clear(s);
    wr_catalogue_free(s->catalogue);
    s->catalogue = c;
    wr_pos_clear(ret_pos);
    *ret_pos = pos;
    return WR_OK;
}

typedef struct log_list { const wr_pos *at; uint32_t epoch; wr_source_logs *l; } log_list;

static wr_code take_log(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    log_list *x = ctx;
    wr_source_logs *l = x->l;
    if (ncols < 2 || !row[0] || !row[1]) return WR_OK;
    wr_pos end = {0};
    WR_TRY(set_place(&end, row[0], row[1], err));
    end.epoch = x->epoch;
    if (!l->first.file[0]) l->first = end, l->first.offset = 4;
    l->end = end;
    l->bytes += end.offset;
    bool here = x->at->epoch == x->epoch && !strcmp(end.file, x->at->file);
    if (l->there) l->bytes_behind += end.offset;
    if (here && x->at->offset <= end.offset) l->there = true, l->bytes_behind = end.offset - x->at->offset;
    return WR_OK;
}

static wr_code take_limit(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    wr_source_logs *l = ctx;
    if (ncols < 2 || !row[0] || !row[1]) return WR_OK;
    double n = strtod(row[1], NULL);
    if (!strcasecmp(row[0], "binlog_expire_logs_auto_purge") && !strcasecmp(row[1], "OFF")) l->keep_s = -1;
    else if (!strcasecmp(row[0], "max_binlog_total_size")) l->keep_bytes = (uint64_t)n;
    else if (!strcasecmp(row[0], "binlog_expire_logs_seconds") && n > 0 && l->keep_s >= 0) l->keep_s = (int64_t)n;
    else if (!strcasecmp(row[0], "expire_logs_days") && n > 0 && !l->keep_s) l->keep_s = (int64_t)(n * 86400);
    return WR_OK;
}

/* A place in another server's log: its transactions say what is behind it here. */
static wr_code look_for_gtids(MYSQL *m, const wr_pos *at, wr_source_logs *l, wr_err *err) {
    wr_my_server sv = {0};
    if (!at->gtid_set || !at->gtid_set[0]) return WR_OK;
    WR_TRY(wr_my_server_ask(m, &sv, err));
    l->there = sv.gtid && wr_my_server_reaches_back(&sv, at->gtid_set);
    wr_my_server_forget(&sv);
    return WR_OK;
}

wr_code wr_source_get_logs(wr_source *s, const wr_pos *at, wr_source_logs *ret, wr_err *err) {
    MYSQL *m = NULL;
    wr_source_logs l = {0};
    log_list x = {at, s->epoch, &l};
    WR_TRY(wr_my_session(s, &m, err));
    wr_code rc = wr_my_query(m, take_log, &x, err, "SHOW BINARY LOGS");
    if (rc == WR_OK)
        rc = wr_my_query(m, take_limit, &l, err, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('binlog_expire_logs_auto_purge', 'binlog_expire_logs_seconds', 'expire_logs_days', 'max_binlog_total_size')");
    if (rc == WR_OK && at->epoch != s->epoch) rc = look_for_gtids(m, at, &l, err);
    wr_my_session_end(s, m, rc);
    if (rc != WR_OK) return wr_source_logs_clear(&l), wr_err_in(err, "asking which binlogs there are");
    if (l.keep_s < 0) l.keep_s = 0;
    *ret = l;
    return WR_OK;
}

void wr_source_logs_clear(wr_source_logs *l) { wr_pos_clear(&l->first), wr_pos_clear(&l->end); }
