/* The replication connection: asking for the dump, waiting for packets, telling what its errors mean.
 * @thread stream */
#include <errno.h>
#include <mysql.h>
#include <ma_pvio.h> /* the read-ahead buffer: whether a read would block */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "applier.h"
#include "position.h"
#include "source_impl.h"
#include "topology.h"
#include "weir/base/clock.h"
#include "weir/base/large.h"
#include "weir/base/mem.h"

#define COM_BINLOG_DUMP_GTID_ 30
#define STOP_EVERY_US 200000
/* The server sends a heartbeat after this much silence. Over TLS one cannot see whether bytes are waiting inside the library, so reads
 * block, and the heartbeat is what brings us back to look at `stopping`. */
#define HEARTBEAT_MS 1000
#define HEARTBEAT_TLS_MS 200
#define SILENCE_MAX_S 60
/* A COM_BINLOG_DUMP position has 32 bits. */
#define DUMP_OFFSET_MAX 0xFFFFFFFFull

typedef struct stream {
    wr_source *s;
    const wr_stream_sink *sink;
    MYSQL *m;
    bool tls;
    int fd;
    MYSQL *aux;                /* for definitions; connected when first needed */
    int64_t aux_used_us;
    wr_applier *applier;
    wr_xa_spool *spool;
    int64_t stop_asked_us, idle_told_us;
    const char *by_gtid;       /* the set it began with, when it began by GTID; borrowed */
    wr_pos again;              /* the applier wants the events from here on once more; "" = no */
} stream;

/* ------------------------------------------------------------------ the second connection */
static wr_code aux_connection(void *ctx, MYSQL **ret_mysql, wr_err *err) {
    stream *st = ctx;
    int64_t now = wr_mono_us();
    if (st->aux && now - st->aux_used_us > 5000000 && mysql_ping(st->aux) != 0) {
        wr_my_disconnect(st->aux);
        st->aux = NULL;
    }
    if (!st->aux) WR_TRY(wr_my_session(st->s, &st->aux, err));
    st->aux_used_us = now;
    *ret_mysql = st->aux;
    return WR_OK;
}

/* ------------------------------------------------------------------ which files there are */
typedef struct logs { char **name; int n, cap; } logs;

static void logs_clear(logs *l) {
    for (int i = 0; i < l->n; i++) wr_free(l->name[i]);
    wr_free(l->name);
    *l = (logs){0};
}

static wr_code add_log(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    logs *l = ctx;
    if (ncols < 1 || !row[0]) return WR_OK;
    if (l->n == l->cap) {
        int cap = l->cap ? l->cap * 2 : 16;
        char **p = wr_realloc(l->name, (size_t)cap * sizeof *p);
        if (!p) return wr_nomem(err, "binlog names", 0);
        l->name = p, l->cap = cap;
    }
    l->name[l->n] = wr_strdup(row[0]);
    return l->name[l->n] ? (l->n++, WR_OK) : wr_nomem(err, "binlog names", 0);
}

static wr_code list_logs(stream *st, logs *ret, wr_err *err) {
    MYSQL *m;
    WR_TRY(aux_connection(st, &m, err));
    return wr_my_query(m, add_log, ret, err, "SHOW BINARY LOGS");
}

/* ------------------------------------------------------------------ errors of the dump */
__attribute__((cold, noinline)) static wr_code purged(stream *st, const wr_pos *from, const char *server_says, wr_err *err) {
    logs l = {0};
    wr_err ignored = WR_ERR_INIT;
    bool there = false;
    if (list_logs(st, &l, &ignored) == WR_OK)
        for (int i = 0; i < l.n; i++) there |= strcmp(l.name[i], from->file) == 0;
    logs_clear(&l);
    return wr_fail(err, WR_E_GAP, WR_RETRY_NO, "%s (the server says: %s)", there ? "what comes next is not a place in its file any more" : "what comes next was purged from the source's binlog", server_says);
}

__attribute__((cold, noinline)) static wr_code dump_failed(stream *st, const wr_pos *from, wr_err *err) {
    unsigned no = mysql_errno(st->m);
    char says[512];
    snprintf(says, sizeof says, "%s", mysql_error(st->m));
    if (no != 1236) return wr_my_fail(st->m, err, "reading the binlog");
    if (strcasestr(says, "same server_uuid/server_id") || strcasestr(says, "same server_id")) {
        wr_fail(err, WR_E_CONFLICT, WR_RETRY_NO, "another replica with server id %u has taken over: %s", st->s->server_id, says);
        return wr_err_cure(err, "does a second Weir run this pipeline? Otherwise give one of them another name or server_id");
    }
    if (strcasestr(says, "max_allowed_packet")) {
        wr_fail(err, WR_E_SERVER, WR_RETRY_NO, "the server cannot send an event: %s", says);
        return wr_err_cure(err, "raise max_allowed_packet on the source (1G is fine); when it is high already, the position is not where an event begins: read the captured tables again");
    }
    if (strcasestr(says, "could not find first log") || strcasestr(says, "purged") || strcasestr(says, "> file size") || strcasestr(says, "impossible position") ||
        strcasestr(says, "could not open log file") || strcasestr(says, "could not find GTID state") || strcasestr(says, "not in the master's binlog") ||
        strcasestr(says, "no such file"))
        return purged(st, from, says, err);
    return wr_fail(err, WR_E_GAP, WR_RETRY_NO,
                   "the server cannot go on: its binlog is damaged there, or its history was replaced (RESET MASTER, RESET BINARY LOGS AND GTIDS, a restored backup) and no event begins at that position (it says: %s)", says);
}

/* ------------------------------------------------------------------ asking for the dump */
static wr_code set_session(stream *st, MYSQL *m, bool tls, uint32_t server_id, wr_err *err) {
    long long beat = (tls ? HEARTBEAT_TLS_MS : HEARTBEAT_MS) * 1000000ll; /* nanoseconds */
    if (st->s->flavor == WR_MARIADB)
        return wr_my_exec(m, err, "SET @master_binlog_checksum = @@global.binlog_checksum, @mariadb_slave_capability = 4, @master_heartbeat_period = %lld", beat);
    /* The older and the newer names: 8.0 reads the former, later ones both. */
    WR_TRY(wr_my_exec(m, err,
                      "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum, "
                      "@master_heartbeat_period = %lld, @source_heartbeat_period = %lld",
                      beat, beat));
    /* By this id a new connection replaces a dead one of ours. */
    return wr_my_exec(m, err, "SET @slave_uuid = '57656972-0000-0000-0000-0000%08x', @replica_uuid = '57656972-0000-0000-0000-0000%08x'", server_id, server_id);
}

static wr_code command(MYSQL *m, unsigned com, const wr_buf *b, wr_err *err) {
    WR_TRY(wr_buf_check(b, "command", err));
    if (m->methods->db_command(m, (enum enum_server_command)com, (const char *)b->p, b->n, 1, NULL) != 0) return wr_my_fail(m, err, "asking for the binlog");
    return WR_OK;
}

/* Makes us visible in SHOW REPLICAS / SHOW SLAVE HOSTS. A server that refuses is no obstacle. */
static wr_code register_replica(stream *st, MYSQL *m, uint32_t server_id, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    char host[60] = "";
    char name[60];
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "weir:%.40s", st->s->pipeline_name ? st->s->pipeline_name : host);
    wr_buf_u32(&b, server_id);
    wr_buf_u8(&b, (uint8_t)strlen(name));
    wr_buf_put(&b, name, strlen(name));
    wr_buf_u8(&b, 0); /* user and password to show: none */
    wr_buf_u8(&b, 0);
    wr_buf_u16(&b, 0); /* port */
    wr_buf_u32(&b, 0); /* rank */
    wr_buf_u32(&b, 0); /* source's id, filled in by it */
    WR_TRY(command(m, COM_REGISTER_SLAVE, &b, err));
    if (mysql_net_read_packet(m) == packet_error && mysql_errno(m) >= 2000 && mysql_errno(m) < 3000) return wr_my_fail(m, err, "registering as a replica");
    return WR_OK;
}

static wr_code dump_by_offset(MYSQL *m, const char *file, uint64_t offset, uint16_t flags, uint32_t server_id, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_buf_u32(&b, (uint32_t)(offset < 4 ? 4 : offset));
    wr_buf_u16(&b, flags);
    wr_buf_u32(&b, server_id);
    wr_buf_put(&b, file, strlen(file));
    return command(m, COM_BINLOG_DUMP, &b, err);
}

static wr_code dump_by_gtid(stream *st, const wr_pos *from, wr_err *err) {
    if (st->s->flavor == WR_MARIADB) {
        WR_AUTO_BUF wr_buf set = WR_BUF_INIT;
        wr_gtid_set *g;
        WR_TRY(wr_gtid_set_parse(WR_MARIADB, from->gtid_set, &g, err)); /* into a form without quotes */
        wr_code rc = wr_gtid_set_print(g, &set, err);
        wr_gtid_set_free(g);
        if (rc != WR_OK) return rc;
        if (!wr_buf_cstr(&set)) return wr_nomem(err, "GTID set", set.n);
        WR_TRY(wr_my_exec(st->m, err, "SET @slave_connect_state = '%s', @slave_gtid_strict_mode = 0, @slave_gtid_ignore_duplicates = 0", (char *)set.p));
        return dump_by_offset(st->m, "", 4, 0, st->s->server_id, err);
    }
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT, enc = WR_BUF_INIT;
    wr_gtid_set *g;
    WR_TRY(wr_gtid_set_parse(WR_MYSQL, from->gtid_set, &g, err));
    wr_code rc = wr_gtid_set_encode(g, &enc, err);
    wr_gtid_set_free(g);
    if (rc != WR_OK) return rc;
    wr_buf_u16(&b, 4); /* BINLOG_THROUGH_GTID */
    wr_buf_u32(&b, st->s->server_id);
    wr_buf_u32(&b, 0); /* no file name */
    wr_buf_u64(&b, 4);
    wr_buf_u32(&b, (uint32_t)enc.n);
    wr_buf_put(&b, enc.p, enc.n);
    return command(st->m, COM_BINLOG_DUMP_GTID_, &b, err);
}

/* A file and an offset say little when the server was reset in between: what was executed up to there must be the same. */
static wr_code check_history(stream *st, const wr_pos *from, wr_err *err) {
    if (!from->gtid_set || !from->gtid_set[0] || !from->file[0]) return WR_OK;
    WR_AUTO char *now = NULL;
    wr_gtid_set *ours = NULL, *theirs = NULL;
    WR_TRY(wr_gtid_set_parse(st->s->flavor, from->gtid_set, &ours, err));
    wr_code rc;
    if (st->s->flavor == WR_MARIADB) {
        char file[2 * WR_POS_FILE_MAX];
        mysql_real_escape_string(st->m, file, from->file, strlen(from->file));
        rc = wr_my_scalar(st->m, &now, err, "SELECT BINLOG_GTID_POS('%s', %llu)", file, (unsigned long long)from->offset);
        if (rc == WR_OK && (!now || !now[0])) { /* the file is not there, or the dump will say what is wrong */
            wr_gtid_set_free(ours);
            return WR_OK;
        }
    } else rc = wr_my_scalar(st->m, &now, err, "SELECT @@global.gtid_executed");
    if (rc == WR_OK) rc = wr_gtid_set_parse(st->s->flavor, now ? now : "", &theirs, err);
    bool same = rc == WR_OK && wr_gtid_set_covers(theirs, ours);
    wr_gtid_set_free(ours);
    wr_gtid_set_free(theirs);
    if (rc != WR_OK || same) return rc;
    return wr_fail(err, WR_E_GAP, WR_RETRY_NO, "the source's history changed (RESET MASTER, RESET BINARY LOGS AND GTIDS, a restored backup): at %s:%llu it has executed %.300s, and we have %.300s", from->file,
                   (unsigned long long)from->offset, now ? now : "", from->gtid_set);
}

/* A start by GTID at another server than the one `from` was captured at: whoever answers here must have all of it. The server itself would not mind: MySQL sends what is
 * not in the set, MariaDB goes by numbers. */
static wr_code check_executed(stream *st, const wr_pos *from, wr_err *err) {
    wr_my_server sv = {0};
    WR_AUTO_BUF wr_buf missing = WR_BUF_INIT;
    bool related;
    WR_TRY(wr_my_server_ask(st->m, &sv, err));
    wr_code rc = wr_gtid_missing(st->s->flavor, sv.executed, from->gtid_set, &missing, &related, err);
    wr_my_server_forget(&sv);
    WR_TRY(rc);
    if (!missing.n) return WR_OK;
    return wr_fail(err, WR_E_SERVER, WR_RETRY_SOON, "%s does not have, of what was captured: %.300s", st->s->address, wr_buf_cstr(&missing) ? (char *)missing.p : "?");
}

static wr_code open_dump(stream *st, const wr_pos *from, wr_err *err) {
    WR_TRY(wr_my_follow(st->s, &st->m, err));
    st->s->stream = st->m;
    st->tls = mysql_get_ssl_cipher(st->m) != NULL;
    st->fd = (int)mysql_get_socket(st->m);
    wr_my_take_large(&st->s->conn, st->m);
    wr_my_answer_within(st->m, SILENCE_MAX_S);
    WR_TRY(from->file[0] ? check_history(st, from, err) : check_executed(st, from, err));
    WR_TRY(set_session(st, st->m, st->tls, st->s->server_id, err));
    WR_TRY(register_replica(st, st->m, st->s->server_id, err));
    if (from->file[0] && from->offset <= DUMP_OFFSET_MAX) return dump_by_offset(st->m, from->file, from->offset, 0, st->s->server_id, err);
    if (from->gtid_set && from->gtid_set[0]) return dump_by_gtid(st, from, err);
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "position %s:%llu cannot be asked for: offsets end at 4 GiB, and it has no GTID set", from->file,
            (unsigned long long)from->offset);
    return wr_err_cure(err, "switch gtid_mode on at the source");
}

static wr_code want_again(void *ctx, const wr_pos *at, wr_err *err) {
    stream *st = ctx;
    wr_pos_clear(&st->again);
    return wr_pos_copy(&st->again, at, err);
}

/* The server has only ever been asked for what is behind; going back takes another connection. */
static wr_code go_back(stream *st, wr_err *err) {
    wr_pos at = st->again;
    st->again = (wr_pos){0};
    if (at.offset <= DUMP_OFFSET_MAX) wr_free(at.gtid_set), at.gtid_set = NULL; /* the history has been looked at */
    st->s->stream = NULL;
    wr_my_abandon(st->m); /* more of the dump is on its way */
    st->m = NULL;
    wr_code rc = open_dump(st, &at, err);
    wr_pos_clear(&at);
    return rc == WR_OK ? rc : wr_err_in(err, "reading a transaction a second time, of which a part was undone");
}

/* Begun by GTID, and nothing has come yet: where the stream stands is the end of the binlog, if that covers nothing else. */
static wr_code find_place(stream *st, wr_err *err) {
    if (!wr_applier_unplaced(st->applier)) return WR_OK;
    MYSQL *m;
    wr_pos end = {0};
    wr_gtid_set *ours = NULL, *theirs = NULL;
    bool exact = false;
    WR_TRY(aux_connection(st, &m, err));
    WR_TRY(wr_my_binlog_end_exact(st->s, m, &end, &exact, err));
    wr_code rc = wr_gtid_set_parse(st->s->flavor, st->by_gtid, &ours, err);
    if (rc == WR_OK) rc = wr_gtid_set_parse(st->s->flavor, end.gtid_set ? end.gtid_set : "", &theirs, err);
    if (rc == WR_OK && exact && wr_gtid_set_covers(ours, theirs)) wr_applier_place(st->applier, &end);
    wr_gtid_set_free(ours), wr_gtid_set_free(theirs);
    wr_pos_clear(&end);
    return rc;
}

/* ------------------------------------------------------------------ packets */
/* Whether a read would give something at once. Over TLS "no" can be wrong. */
static bool has_data(const stream *st, int wait_ms) {
    const MARIADB_PVIO *pvio = st->m->net.pvio;
    if (pvio && pvio->cache && pvio->cache_pos && pvio->cache_pos < pvio->cache + pvio->cache_size) return true;
    struct pollfd p = {.fd = st->fd, .events = POLLIN};
    int n;
    do n = poll(&p, 1, wait_ms);
    while (n < 0 && errno == EINTR);
    return n != 0;
}

static bool stopping(stream *st) {
    st->stop_asked_us = wr_mono_us();
    return st->sink->stopping && st->sink->stopping(st->sink->ctx);
}

static void set_waiting(stream *st, int64_t since_us) { __atomic_store_n(&st->s->stats.waiting_us, since_us, __ATOMIC_RELAXED); }

/* Waits until there is something to read. WR_E_CANCELLED: asked to stop. */
static wr_code wait_packet(stream *st, wr_err *err) {
    if (has_data(st, 0)) return WR_OK;
    set_waiting(st, wr_mono_us());
    if (!st->tls || wr_mono_us() - st->idle_told_us > 20000) {
        WR_TRY(wr_applier_idle(st->applier, err));
        st->idle_told_us = wr_mono_us();
    }
    if (st->tls) return stopping(st) ? WR_E_CANCELLED : WR_OK;
    int64_t since = wr_mono_us();
    for (;;) {
        if (stopping(st)) return WR_E_CANCELLED;
        if (has_data(st, STOP_EVERY_US / 1000)) return WR_OK;
        if (wr_mono_us() - since > SILENCE_MAX_S * 1000000ll)
            return wr_fail(err, WR_E_NET, WR_RETRY_SOON, "%s:%d has sent nothing for %d s, not even a heartbeat", st->s->conn.host, st->s->conn.port, SILENCE_MAX_S);
    }
}

static wr_code read_packet(stream *st, const wr_pos *from, wr_slice *ret, wr_err *err) {
    unsigned long n = mysql_net_read_packet(st->m);
    if (n == packet_error) return dump_failed(st, from, err);
    const uint8_t *p = st->m->net.read_pos;
    if (n < 1 || (p[0] == 0xFE && n < 9))
        return wr_fail(err, WR_E_NET, WR_RETRY_SOON, "%s:%d ended the stream (a shutdown, or the connection was killed)", st->s->conn.host, st->s->conn.port);
    if (p[0] != 0) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "a packet of the stream begins with byte %02x", p[0]);
    set_waiting(st, 0);
    __atomic_store_n(&st->s->stats.last_packet_us, wr_now_us(), __ATOMIC_RELAXED);
    *ret = wr_slice_of(p + 1, n - 1);
    return WR_OK;
}

/* A large event comes alone. It stays alone when it is one of rows: any other (a statement, a transaction in one piece) may end a transaction, and such an end waits until others have taken their
 * large rows from the queue. */
static wr_code next_event(stream *st, const wr_pos *from, bool *ret_beat, wr_err *err) {
    bool large = false;
    wr_slice event = {0};
    if (wr_my_large_ahead(st->m)) wr_large_hold(&large);
    wr_code rc = read_packet(st, from, &event, err);
    if (rc == WR_OK) {
        *ret_beat = event.n > 4 && (event.p[4] == EV_HEARTBEAT || event.p[4] == EV_HEARTBEAT_V2);
        if (event.n <= 4 || !wr_event_is_rows(event.p[4])) wr_large_let_go(&large);
        else if (event.n >= WR_LARGE_BYTES) wr_large_hold(&large);
        rc = wr_applier_feed(st->applier, event, err);
    }
    if (event.n >= WR_LARGE_BYTES) wr_my_give_back(st->m);
    wr_large_let_go(&large);
    return rc;
}

static wr_code run(stream *st, const wr_pos *from, wr_err *err) {
    for (;;) {
        wr_code rc = wait_packet(st, err);
        if (rc == WR_E_CANCELLED) return WR_OK;
        WR_TRY(rc);
        int64_t now = wr_mono_us();
        if (now - st->stop_asked_us > STOP_EVERY_US && stopping(st)) return WR_OK;
        if (!st->s->stats.waiting_us) set_waiting(st, now); /* a cut in the middle of a packet */
        bool beat = false;
        WR_TRY(next_event(st, from, &beat, err));
        if (st->again.file[0]) {
            WR_TRY(go_back(st, err));
            continue;
        }
        if (beat) {
            WR_TRY(find_place(st, err));
            if (st->tls) WR_TRY(wr_applier_idle(st->applier, err));
        }
    }
}

/* ------------------------------------------------------------------ looking back for an XA PREPARE */
static wr_code search_again(void *ctx, const wr_pos *at, wr_err *err) { return wr_pos_copy(ctx, at, err); }

/* Opens the dump of one file; *m is the connection before, or NULL. */
static wr_code search_from(stream *st, MYSQL **m, const char *file, uint64_t offset, wr_err *err) {
    uint32_t id = st->s->server_id ^ 0x20000000u; /* not ours: the server would end the main stream */
    if (*m) wr_my_abandon(*m);
    *m = NULL;
    if (offset > DUMP_OFFSET_MAX) return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "offset %llu of %s cannot be asked for: offsets end at 4 GiB", (unsigned long long)offset, file);
    WR_TRY(wr_my_follow(st->s, m, err));
    wr_my_take_large(&st->s->conn, *m);
    WR_TRY(set_session(st, *m, true, id, err));
    return dump_by_offset(*m, file, offset, 1 /* do not wait at the end */, id, err);
}

/* Reads one file, at most to `limit` when that is in it, with an applier that searches for xid (NULL = for no transaction). *again: what env.again was told. */
static wr_code search_file(stream *st, const wr_applier_env *env, wr_pos *again, const char *file, uint64_t offset, const wr_pos *limit, const wr_xid *xid, bool *ret_found, wr_err *err) {
    wr_pos from = {.offset = offset};
    snprintf(from.file, sizeof from.file, "%s", file);
    wr_applier *a;
    WR_TRY(wr_applier_new(env, &from, &a, err));
    wr_applier_search(a, xid ? xid : &(wr_xid){.format = -1});
    MYSQL *m = NULL;
    wr_code rc = search_from(st, &m, file, offset, err);
    while (rc == WR_OK && strcmp(wr_applier_file(a), file) == 0) {
        if (strcmp(file, limit->file) == 0 && wr_applier_offset(a) >= limit->offset) break;
        unsigned long n = mysql_net_read_packet(m);
        const uint8_t *p = m->net.read_pos;
        if (n == packet_error) rc = wr_my_fail(m, err, "looking back for an XA PREPARE");
        else if (n < 1 || (p[0] == 0xFE && n < 9)) break;
        else rc = wr_applier_feed(a, wr_slice_of(p + 1, n - 1), err);
        if (rc == WR_OK && again->file[0]) {
            rc = search_from(st, &m, file, again->offset, err);
            wr_pos_clear(again);
        }
        if (rc == WR_OK && wr_mono_us() - st->stop_asked_us > STOP_EVERY_US && stopping(st)) rc = wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "asked to stop");
    }
    if (rc == WR_OK) *ret_found = wr_applier_found(a);
    wr_pos_clear(again);
    if (m) wr_my_abandon(m);
    wr_applier_free(a);
    return rc;
}

static const wr_stream_sink nowhere;

/* Files at or before `limit`, newest first, until `enough` says so. */
typedef wr_code search_fn(stream *st, const char *file, const wr_pos *limit, void *ctx, bool *ret_enough, wr_err *err);
static wr_code search_back(stream *st, const wr_pos *limit, search_fn *fn, void *ctx, wr_err *err) {
    logs l = {0};
    wr_code rc = list_logs(st, &l, err);
    bool enough = false;
    for (int i = l.n - 1; i >= 0 && rc == WR_OK && !enough; i--) {
        wr_pos at = {.offset = 4, .epoch = limit->epoch};
        snprintf(at.file, sizeof at.file, "%s", l.name[i]);
        if (wr_pos_cmp(&at, limit) > 0) continue;
        rc = fn(st, l.name[i], limit, ctx, &enough, err);
    }
    logs_clear(&l);
    return rc;
}

static wr_code hunt_in(stream *st, const char *file, const wr_pos *limit, void *ctx, bool *ret_found, wr_err *err) {
    wr_pos again = {0};
    wr_applier_env env = {.sink = &nowhere, .catalogue = st->s->catalogue, .types = st->s->types, .flavor = st->s->flavor, .event_max = st->s->conn.packet_max, .spool = st->spool, .ctx = &again, .again = search_again};
    return search_file(st, &env, &again, file, 4, limit, ctx, ret_found, err);
}

static wr_code hunt(void *ctx, const wr_xid *xid, wr_err *err) {
    stream *st = ctx;
    wr_pos limit = {.offset = wr_applier_offset(st->applier)};
    snprintf(limit.file, sizeof limit.file, "%s", wr_applier_file(st->applier));
    return search_back(st, &limit, hunt_in, (void *)(uintptr_t)xid, err);
}

typedef struct words { wr_xa_last *xa; int n; } words;

static void take_word(void *ctx, const wr_xid *xid, bool prepared) {
    const words *w = ctx;
    for (int i = 0; i < w->n; i++)
        if (!w->xa[i].settled && wr_xid_eq(&w->xa[i].xid, xid)) w->xa[i].last = prepared ? WR_XA_PREPARED : WR_XA_ENDED;
}

static wr_code words_in(stream *st, const char *file, const wr_pos *limit, void *ctx, bool *ret_enough, wr_err *err) {
    words *w = ctx;
    bool found;
    wr_pos again = {0}; /* nothing is read twice: no rows are taken */
    wr_applier_env env = {.sink = &nowhere, .catalogue = st->s->catalogue, .types = st->s->types, .flavor = st->s->flavor, .event_max = st->s->conn.packet_max, .ctx = w, .xa_word = take_word};
    WR_TRY(search_file(st, &env, &again, file, 4, limit, NULL, &found, err));
    *ret_enough = true;
    for (int i = 0; i < w->n; i++) *ret_enough &= w->xa[i].settled = w->xa[i].last != WR_XA_UNKNOWN;
    return WR_OK;
}

wr_code wr_my_xa_last(wr_source *s, const wr_pos *before, wr_xa_last *xa, int n, wr_err *err) {
    stream st = {.s = s, .sink = &nowhere, .stop_asked_us = wr_mono_us()};
    words w = {xa, n};
    for (int i = 0; i < n; i++) xa[i].last = WR_XA_UNKNOWN, xa[i].settled = false;
    wr_code rc = search_back(&st, before, words_in, &w, err);
    wr_my_session_end(s, st.aux, rc);
    return rc;
}

static void take_end(void *ctx, const wr_xid *xid, bool prepared) { *(bool *)ctx |= !prepared; }

wr_code wr_my_xa_between(wr_source *s, const wr_pos *after, const wr_pos *upto, bool *ret_any, wr_err *err) {
    stream st = {.s = s, .sink = &nowhere, .stop_asked_us = wr_mono_us()};
    bool found;
    wr_pos again = {0};
    *ret_any = false;
    wr_applier_env env = {.sink = &nowhere, .catalogue = s->catalogue, .types = s->types, .flavor = s->flavor, .event_max = s->conn.packet_max, .ctx = ret_any, .xa_word = take_end};
    return after->offset > DUMP_OFFSET_MAX ? (*ret_any = true, WR_OK) : search_file(&st, &env, &again, after->file, after->offset, upto, NULL, &found, err);
}

/* ------------------------------------------------------------------ */
/* A definition that came from the server of an earlier epoch when it was ahead of `from`: which of this server's rows are older than it cannot be told. */
static wr_code no_table_ahead(void *ctx, const wr_my_table *t, wr_err *err) {
    const wr_pos *from = ctx;
    if (!wr_my_table_ahead(t, from->epoch, from->file, from->offset)) return WR_OK;
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "%s.%s: its definition was read from a server that is gone, behind the last transaction that was captured there (%s:%llu)", t->db, t->name, from->file,
            (unsigned long long)from->offset);
    return wr_err_cure(err, "the table must be read again: exclude it, start, wait until the stream is at the server's end, and take it in again");
}

/* Where to begin at the server of now: `from` itself, or, captured at another one, its GTID set. *ret: borrows. */
static wr_code start_of(stream *st, const wr_pos *from, wr_pos *ret, wr_err *err) {
    *ret = *from;
    if (from->epoch == st->s->epoch) return WR_OK;
    if (!st->s->gtid || !from->gtid_set || !from->gtid_set[0]) {
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "position %s:%llu is one of another server, and without GTIDs nothing tells where %s has it", from->file, (unsigned long long)from->offset, st->s->address);
        return wr_err_cure(err, "bring the server back that was followed, or give the pipeline a new home to load every table again; with gtid_mode=ON on all servers this is not needed the next time");
    }
    WR_TRY(wr_catalogue_each(st->s->catalogue, no_table_ahead, (void *)(uintptr_t)from, err));
    *ret = (wr_pos){.epoch = st->s->epoch, .gtid_set = from->gtid_set};
    st->by_gtid = from->gtid_set;
    return WR_OK;
}

wr_code wr_source_stream(wr_source *s, const wr_pos *from, const wr_stream_sink *sink, wr_err *err) {
    stream st = {.s = s, .sink = sink, .stop_asked_us = wr_mono_us()};
    wr_pos start;
    wr_catalogue_rollback(s->catalogue);
    wr_code rc = start_of(&st, from, &start, err);
    if (rc != WR_OK) return rc;
    if (s->spool_dir) rc = wr_xa_spool_open(s->spool_dir, from, &st.spool, err);
    wr_applier_env env = {.sink = sink, .catalogue = s->catalogue, .types = s->types, .flavor = s->flavor, .event_max = s->conn.packet_max, .gtid = s->gtid, .spool = st.spool,
                          .native_fk = s->native_fk, .join_at = &s->join_at, .stats = &s->stats, .ctx = &st, .connection = aux_connection, .hunt = hunt, .again = want_again};
    if (rc == WR_OK) rc = wr_applier_new(&env, &start, &st.applier, err);
    if (rc == WR_OK) rc = open_dump(&st, &start, err);
    if (rc == WR_OK) rc = run(&st, &start, err);
    set_waiting(&st, 0);
    if (rc == WR_E_CANCELLED) rc = WR_OK; /* in a search, at the sink's wish */
    if (st.applier) {
        wr_err second = WR_ERR_INIT;
        wr_code cut = wr_applier_cut(st.applier, rc == WR_OK ? err : &second);
        if (rc == WR_OK) rc = cut;
    }
    wr_applier_free(st.applier);
    wr_pos_clear(&st.again);
    wr_xa_spool_close(st.spool);
    s->stream = NULL;
    if (st.m) wr_my_disconnect(st.m);
    wr_my_session_end(s, st.aux, rc);
    return rc;
}

void wr_source_stream_stats(const wr_source *s, wr_stream_stats *ret) {
    ret->bytes = __atomic_load_n(&s->stats.bytes, __ATOMIC_RELAXED);
    ret->events = __atomic_load_n(&s->stats.events, __ATOMIC_RELAXED);
    ret->rows = __atomic_load_n(&s->stats.rows, __ATOMIC_RELAXED);
    ret->transactions = __atomic_load_n(&s->stats.transactions, __ATOMIC_RELAXED);
    ret->replaced_dates = __atomic_load_n(&s->stats.replaced_dates, __ATOMIC_RELAXED);
    ret->last_event_us = __atomic_load_n(&s->stats.last_event_us, __ATOMIC_RELAXED);
    ret->waiting_us = __atomic_load_n(&s->stats.waiting_us, __ATOMIC_RELAXED);
    ret->last_packet_us = __atomic_load_n(&s->stats.last_packet_us, __ATOMIC_RELAXED);
}
