#include "event.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "weir/base/sum.h"

static const struct { uint8_t type; const char *name; } type_names[] = {
    {EV_START_V3, "START_V3"}, {EV_QUERY, "QUERY"}, {EV_STOP, "STOP"}, {EV_ROTATE, "ROTATE"}, {EV_INTVAR, "INTVAR"},
    {EV_LOAD, "LOAD"}, {EV_SLAVE, "SLAVE"}, {EV_CREATE_FILE, "CREATE_FILE"}, {EV_APPEND_BLOCK, "APPEND_BLOCK"},
    {EV_EXEC_LOAD, "EXEC_LOAD"}, {EV_DELETE_FILE, "DELETE_FILE"}, {EV_NEW_LOAD, "NEW_LOAD"}, {EV_RAND, "RAND"},
    {EV_USER_VAR, "USER_VAR"}, {EV_FORMAT_DESCRIPTION, "FORMAT_DESCRIPTION"}, {EV_XID, "XID"},
    {EV_BEGIN_LOAD_QUERY, "BEGIN_LOAD_QUERY"}, {EV_EXECUTE_LOAD_QUERY, "EXECUTE_LOAD_QUERY"}, {EV_TABLE_MAP, "TABLE_MAP"},
    {EV_WRITE_ROWS_V0, "WRITE_ROWS_V0"}, {EV_UPDATE_ROWS_V0, "UPDATE_ROWS_V0"}, {EV_DELETE_ROWS_V0, "DELETE_ROWS_V0"},
    {EV_WRITE_ROWS_V1, "WRITE_ROWS_V1"}, {EV_UPDATE_ROWS_V1, "UPDATE_ROWS_V1"}, {EV_DELETE_ROWS_V1, "DELETE_ROWS_V1"},
    {EV_INCIDENT, "INCIDENT"}, {EV_HEARTBEAT, "HEARTBEAT"}, {EV_IGNORABLE, "IGNORABLE"}, {EV_ROWS_QUERY, "ROWS_QUERY"},
    {EV_WRITE_ROWS, "WRITE_ROWS"}, {EV_UPDATE_ROWS, "UPDATE_ROWS"}, {EV_DELETE_ROWS, "DELETE_ROWS"}, {EV_GTID, "GTID"},
    {EV_ANONYMOUS_GTID, "ANONYMOUS_GTID"}, {EV_PREVIOUS_GTIDS, "PREVIOUS_GTIDS"}, {EV_TRANSACTION_CONTEXT, "TRANSACTION_CONTEXT"},
    {EV_VIEW_CHANGE, "VIEW_CHANGE"}, {EV_XA_PREPARE, "XA_PREPARE"}, {EV_PARTIAL_UPDATE_ROWS, "PARTIAL_UPDATE_ROWS"},
    {EV_TRANSACTION_PAYLOAD, "TRANSACTION_PAYLOAD"}, {EV_HEARTBEAT_V2, "HEARTBEAT_V2"}, {EV_GTID_TAGGED, "GTID_TAGGED"},
    {EV_ANNOTATE_ROWS, "ANNOTATE_ROWS"}, {EV_BINLOG_CHECKPOINT, "BINLOG_CHECKPOINT"}, {EV_MARIA_GTID, "GTID"},
    {EV_MARIA_GTID_LIST, "GTID_LIST"}, {EV_START_ENCRYPTION, "START_ENCRYPTION"}, {EV_QUERY_COMPRESSED, "QUERY_COMPRESSED"},
    {EV_WRITE_ROWS_COMPRESSED_V1, "WRITE_ROWS_COMPRESSED_V1"}, {EV_UPDATE_ROWS_COMPRESSED_V1, "UPDATE_ROWS_COMPRESSED_V1"},
    {EV_DELETE_ROWS_COMPRESSED_V1, "DELETE_ROWS_COMPRESSED_V1"}, {EV_WRITE_ROWS_COMPRESSED, "WRITE_ROWS_COMPRESSED"},
    {EV_UPDATE_ROWS_COMPRESSED, "UPDATE_ROWS_COMPRESSED"}, {EV_DELETE_ROWS_COMPRESSED, "DELETE_ROWS_COMPRESSED"},
};

const char *wr_event_type_name(uint8_t type) {
    for (size_t i = 0; i < sizeof type_names / sizeof type_names[0]; i++)
        if (type_names[i].type == type) return type_names[i].name;
    return "?";
}

__attribute__((cold, noinline)) static wr_code malformed(const wr_event *ev, const char *what, wr_err *err) {
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s event (type %u) of %zu bytes: %s", wr_event_type_name(ev->type), ev->type, ev->body.n, what);
}

static uint32_t le32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* ------------------------------------------------------------------ header, checksum, format */
/* The server writes a FORMAT_DESCRIPTION's checksum before it sets the "in use" flag in the file. */
static uint32_t crc_of(wr_slice in, uint8_t type) {
    if (type != EV_FORMAT_DESCRIPTION) return wr_crc32(0, in.p, in.n - 4);
    uint8_t head[EV_HEADER_BYTES];
    memcpy(head, in.p, sizeof head);
    head[17] &= (uint8_t)~EV_FLAG_BINLOG_IN_USE;
    return wr_crc32(wr_crc32(0, head, sizeof head), in.p + EV_HEADER_BYTES, in.n - EV_HEADER_BYTES - 4);
}

wr_code wr_event_split(const wr_event_format *f, wr_slice in, bool nested, wr_event *ret_ev, wr_err *err) {
    if (in.n < EV_HEADER_BYTES)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "event of %zu bytes is shorter than the header of %d", in.n, EV_HEADER_BYTES);
    wr_event ev = {.timestamp = le32(in.p), .type = in.p[4], .server_id = le32(in.p + 5), .log_pos = le32(in.p + 13)};
    memcpy(&ev.flags, in.p + 17, 2);
    uint32_t size = le32(in.p + 9);
    ev.body = wr_slice_of(in.p + EV_HEADER_BYTES, in.n - EV_HEADER_BYTES);
    if (size != in.n) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s event (type %u): header says %u bytes, there are %zu",
                                     wr_event_type_name(ev.type), ev.type, size, in.n);
    if (nested) return *ret_ev = ev, WR_OK;

    bool has = f->checksum;
    if (ev.type == EV_FORMAT_DESCRIPTION) {
        /* ... post-header lengths, algorithm byte, CRC: the last two always there (MySQL 5.6.1+, MariaDB 5.3+) */
        if (ev.body.n < 2 + 50 + 4 + 1 + 1 + 4) return malformed(&ev, "too short", err);
        has = ev.body.p[ev.body.n - 5] == 1;
    } else if (!f->known && (ev.type == EV_ROTATE || ev.type == EV_HEARTBEAT || ev.type == EV_HEARTBEAT_V2)) {
        has = ev.body.n >= 4 && le32(in.p + in.n - 4) == crc_of(in, ev.type);
    }
    if (has) {
        if (ev.body.n < 4) return malformed(&ev, "no room for its checksum", err);
        uint32_t want = le32(in.p + in.n - 4), is = crc_of(in, ev.type);
        if (__builtin_expect(want != is, 0))
            return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s event (type %u) of %zu bytes: its checksum is %08x, its bytes give %08x",
                           wr_event_type_name(ev.type), ev.type, in.n, want, is);
    }
    if (has || ev.type == EV_FORMAT_DESCRIPTION) ev.body.n -= 4;
    *ret_ev = ev;
    return WR_OK;
}

wr_code wr_event_format_parse(const wr_event *ev, wr_event_format *ret_format, wr_err *err) {
    wr_rd r = wr_rd_of(ev->body.p, ev->body.n);
    unsigned version = wr_rd_u16(&r);
    const uint8_t *sv = wr_rd_take(&r, 50);
    uint32_t created = wr_rd_u32(&r); /* 0 in files that only continue another */
    unsigned header = wr_rd_u8(&r);
    if (r.bad || wr_rd_left(&r) < 1) return malformed(ev, "too short", err);
    if (version != 4 || header != EV_HEADER_BYTES) {
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "binlog format version %u with headers of %u bytes; version 4 and %d are read", version, header,
                EV_HEADER_BYTES);
        return wr_err_cure(err, "the source must be MySQL 5.6 or MariaDB 10 or newer");
    }
    wr_slice lens = wr_rd_bytes(&r, wr_rd_left(&r) - 1); /* by event type - 1 */
    uint8_t alg = wr_rd_u8(&r);
    if (alg > 1)
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "binlog checksum algorithm %u is not known (0 = none and 1 = CRC32 are)", alg);
    wr_event_format f = {.known = true, .checksum = alg == 1, .table_id_bytes = 6, .server_start = created != 0};
    memcpy(f.server_version, sv, 50);
    f.is_mariadb = strstr(f.server_version, "MariaDB") != NULL;
    const char *v = f.server_version;
    if (f.is_mariadb && strncmp(v, "5.5.5-", 6) == 0) v += 6;
    unsigned a = 0, b = 0, c = 0;
    if (sscanf(v, "%3u.%3u.%3u", &a, &b, &c) >= 2) f.server_version_num = a * 10000 + b * 100 + c;
    if (lens.n >= EV_TABLE_MAP && lens.p[EV_TABLE_MAP - 1] == 6) f.table_id_bytes = 4;
    *ret_format = f;
    return WR_OK;
}

wr_code wr_event_rotate_parse(const wr_event *ev, wr_ev_rotate *ret, wr_err *err) {
    wr_rd r = wr_rd_of(ev->body.p, ev->body.n);
    uint64_t pos = wr_rd_u64(&r);
    wr_slice file = wr_rd_bytes(&r, wr_rd_left(&r));
    while (file.n && file.p[file.n - 1] == 0) file.n--;
    if (r.bad || file.n == 0 || file.n > 255 || memchr(file.p, 0, file.n)) return malformed(ev, "no usable file name", err);
    *ret = (wr_ev_rotate){pos, file};
    return WR_OK;
}

/* ------------------------------------------------------------------ compression of MariaDB */
wr_code wr_maria_uncompress(wr_slice in, size_t limit, wr_buf *out, wr_err *err) {
    /* header: 0x80 | algorithm << 4 | number of length bytes; then the length, big-endian */
    if (in.n < 2) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "compressed data of %zu bytes", in.n);
    unsigned nlen = in.p[0] & 7, alg = (in.p[0] & 0x70) >> 4;
    if (!(in.p[0] & 0x80) || alg != 0 || nlen < 1 || nlen > 4)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "compressed data begin with %02x, which names no known algorithm", in.p[0]);
    wr_rd r = wr_rd_of(in.p + 1, in.n - 1);
    uint64_t want = wr_rd_uint_be(&r, nlen);
    if (r.bad || want > limit || want / 1200 > in.n) /* zlib's best ratio is 1032 */
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "compressed data of %zu bytes claim to hold %llu", in.n, (unsigned long long)want);
    uint8_t *to = wr_buf_room(out, want ? want : 1);
    if (!to) return wr_nomem(err, "uncompressed event", want);
    uLongf n = want;
    int z = uncompress(to, &n, r.p, wr_rd_left(&r));
    if (z != Z_OK || n != want)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "zlib says %d after %lu of %llu bytes", z, (unsigned long)n, (unsigned long long)want);
    out->n += want;
    return WR_OK;
}

/* ------------------------------------------------------------------ statements */
/* Status variables come in rising order of their codes; behind one we do not know nothing can be found, and nothing we need comes late. */
static void read_status(wr_rd *r, wr_ev_query *q) {
    while (!r->bad && wr_rd_left(r)) {
        switch (wr_rd_u8(r)) {
        case 0: case 10: wr_rd_take(r, 4); break;               /* flags2, master data written */
        case 1: q->sql_mode = wr_rd_u64(r); break;
        case 2: wr_rd_take(r, (size_t)wr_rd_u8(r) + 1); break;  /* catalog, NUL-terminated */
        case 3: wr_rd_take(r, 4); break;                        /* auto_increment */
        case 4:
            q->charset_client = wr_rd_u16(r);
            wr_rd_u16(r); /* collation_connection */
            q->collation_server = wr_rd_u16(r);
            break;
        case 5: {                                               /* time zone */
            wr_slice tz = wr_rd_bytes(r, wr_rd_u8(r));
            if (tz.n) memcpy(q->time_zone, tz.p, tz.n); /* at most 255 */
            q->time_zone[tz.n] = 0;
            break;
        }
        case 6: wr_rd_take(r, wr_rd_u8(r)); break;              /* catalog */
        case 7: case 8: wr_rd_take(r, 2); break;                /* lc_time_names, charset_database */
        case 9: wr_rd_take(r, 8); break;                        /* table map for update */
        case 17: wr_rd_take(r, 8), q->ddl_xid = true; break;    /* xid of a DDL */
        case 11: wr_rd_take(r, wr_rd_u8(r)); wr_rd_take(r, wr_rd_u8(r)); break; /* invoker */
        case 12: {                                              /* updated databases */
            unsigned n = wr_rd_u8(r);
            if (n == 254) break; /* too many to name */
            for (unsigned i = 0; i < n && !r->bad; i++) {
                size_t left = wr_rd_left(r);
                const uint8_t *z = left ? memchr(r->p, 0, left) : NULL;
                if (!z) r->bad = true;
                else wr_rd_take(r, (size_t)(z - r->p) + 1);
            }
            break;
        }
        case 13: case 128: wr_rd_take(r, 3); break;             /* microseconds */
        case 16: q->explicit_timestamp = wr_rd_u8(r) != 0; break;
        case 19: case 20: wr_rd_take(r, 1); break;
        case 18: wr_rd_take(r, 2); break;                       /* default_collation_for_utf8mb4 */
        case 129: wr_rd_take(r, 8); break;                      /* MariaDB xid */
        default: return;
        }
    }
}

wr_code wr_event_query_parse(const wr_event *ev, wr_buf *scratch, wr_ev_query *ret, wr_err *err) {
    wr_rd r = wr_rd_of(ev->body.p, ev->body.n);
    wr_ev_query q = {.thread_id = wr_rd_u32(&r), .explicit_timestamp = -1};
    wr_rd_u32(&r); /* exec time */
    unsigned dblen = wr_rd_u8(&r);
    q.error_code = wr_rd_u16(&r);
    unsigned nstatus = wr_rd_u16(&r);
    if (ev->type == EV_EXECUTE_LOAD_QUERY) wr_rd_take(&r, 13); /* file id, start and end of its name, what to do with duplicates */
    wr_slice status = wr_rd_bytes(&r, nstatus);
    wr_slice db = wr_rd_bytes(&r, dblen);
    wr_rd_u8(&r); /* NUL */
    if (r.bad) return malformed(ev, "too short", err);
    memcpy(q.db, db.p, db.n); /* at most 255 */
    q.db[db.n] = 0;
    wr_rd sr = wr_rd_of(status.p, status.n);
    read_status(&sr, &q);
    q.sql = wr_rd_bytes(&r, wr_rd_left(&r));
    if (ev->type == EV_QUERY_COMPRESSED) {
        wr_buf_clear(scratch);
        wr_code rc = wr_maria_uncompress(q.sql, wr_event_unpacked_max(ev), scratch, err);
        if (rc != WR_OK) return wr_err_in(err, "%s event", wr_event_type_name(ev->type));
        q.sql = wr_buf_view(scratch);
    }
    *ret = q;
    return WR_OK;
}

/* ------------------------------------------------------------------ XA */
bool wr_xid_eq(const wr_xid *a, const wr_xid *b) {
    return a->format == b->format && a->gtrid_len == b->gtrid_len && a->bqual_len == b->bqual_len &&
           memcmp(a->data, b->data, (size_t)a->gtrid_len + b->bqual_len) == 0;
}

char *wr_xid_print(const wr_xid *x, char buf[320]) {
    char *p = buf;
    p += sprintf(p, "X'");
    for (int i = 0; i < x->gtrid_len; i++) p += sprintf(p, "%02x", x->data[i]);
    p += sprintf(p, "',X'");
    for (int i = 0; i < x->bqual_len; i++) p += sprintf(p, "%02x", x->data[x->gtrid_len + i]);
    sprintf(p, "',%d", (int)x->format);
    return buf;
}

static void skip_blanks(wr_rd *r) {
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r')) r->p++;
}

/* X'hex' or 0xhex or 'text'; false when it is none or longer than 64 bytes. */
static bool read_xid_part(wr_rd *r, uint8_t *to, uint8_t *ret_n) {
    skip_blanks(r);
    size_t n = 0;
    bool hex = false, quoted = true;
    if (wr_rd_left(r) >= 2 && (r->p[0] | 32) == 'x' && r->p[1] == '\'') hex = true, r->p += 2;
    else if (wr_rd_left(r) >= 2 && r->p[0] == '0' && (r->p[1] | 32) == 'x') hex = true, quoted = false, r->p += 2;
    else if (wr_rd_left(r) >= 1 && r->p[0] == '\'') r->p++;
    else return false;
    int half = -1;
    while (r->p < r->end) {
        uint8_t c = *r->p;
        if (quoted && c == '\'') {
            r->p++;
            if (!hex && r->p < r->end && *r->p == '\'') ; /* '' is one quote */
            else return half < 0 && (*ret_n = (uint8_t)n, true);
        } else if (!hex && c == '\\' && r->end - r->p >= 2)
            c = *++r->p;
        if (!hex) {
            if (n == 64) return false;
            to[n++] = c;
            r->p++;
            continue;
        }
        int d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (d < 0) return !quoted && half < 0 && (*ret_n = (uint8_t)n, true);
        if (half < 0) half = d;
        else {
            if (n == 64) return false;
            to[n++] = (uint8_t)(half << 4 | d);
            half = -1;
        }
        r->p++;
    }
    return !quoted && half < 0 && (*ret_n = (uint8_t)n, true);
}

bool wr_xid_parse_text(wr_slice text, wr_xid *ret) {
    wr_rd r = wr_rd_of(text.p, text.n);
    wr_xid x = {.format = 1};
    if (!read_xid_part(&r, x.data, &x.gtrid_len)) return false;
    skip_blanks(&r);
    if (wr_rd_left(&r) && *r.p == ',') {
        r.p++;
        if (!read_xid_part(&r, x.data + x.gtrid_len, &x.bqual_len)) return false;
        skip_blanks(&r);
        if (wr_rd_left(&r) && *r.p == ',') {
            r.p++;
            skip_blanks(&r);
            char num[16];
            size_t n = 0;
            while (r.p < r.end && n < sizeof num - 1 && ((*r.p >= '0' && *r.p <= '9') || *r.p == '-')) num[n++] = (char)*r.p++;
            num[n] = 0;
            if (n == 0) return false;
            x.format = (int32_t)strtol(num, NULL, 10);
        }
    }
    *ret = x;
    return true;
}

static bool read_xid(wr_rd *r, uint32_t gtrid_len, uint32_t bqual_len, wr_xid *x) {
    if (gtrid_len > 64 || bqual_len > 64) return false;
    x->gtrid_len = (uint8_t)gtrid_len, x->bqual_len = (uint8_t)bqual_len;
    const uint8_t *p = wr_rd_take(r, gtrid_len + bqual_len);
    if (!p) return false;
    memcpy(x->data, p, gtrid_len + bqual_len);
    return true;
}

wr_code wr_event_xa_prepare_parse(const wr_event *ev, wr_ev_xa_prepare *ret, wr_err *err) {
    wr_rd r = wr_rd_of(ev->body.p, ev->body.n);
    wr_ev_xa_prepare x = {.one_phase = wr_rd_u8(&r) != 0};
    x.xid.format = (int32_t)wr_rd_u32(&r);
    uint32_t g = wr_rd_u32(&r), b = wr_rd_u32(&r);
    if (r.bad || !read_xid(&r, g, b, &x.xid)) return malformed(ev, "no usable transaction id", err);
    *ret = x;
    return WR_OK;
}

/* ------------------------------------------------------------------ GTIDs */
/* An integer of MySQL's serialization library: trailing ones of the first byte + 1 is the number of bytes (libs/mysql/serialization/readme). */
static uint64_t rd_mysql_varint(wr_rd *r) {
    uint8_t c = wr_rd_u8(r);
    if (r->bad) return 0;
    unsigned extra = (unsigned)__builtin_ctz(~(unsigned)c & 0x1FF); /* 0..8 */
    uint64_t rest = extra ? wr_rd_uint(r, extra) : 0;
    if (extra == 8) return rest;
    unsigned low_bits = 7 - extra;
    return (uint64_t)(c >> (extra + 1)) | rest << low_bits;
}

static wr_code parse_tagged(const wr_event *ev, wr_ev_gtid *ret, wr_err *err) {
    wr_ev_gtid g = {0};
    wr_rd r = wr_rd_of(ev->body.p, ev->body.n);
    uint64_t version = rd_mysql_varint(&r), size = rd_mysql_varint(&r), last_needed = rd_mysql_varint(&r);
    if (r.bad || version != 1 || size > ev->body.n) return malformed(ev, "unknown serialization", err);
    if (last_needed > 11) return malformed(ev, "it needs a field that is not known here", err);
    bool uuid = false, gno = false;
    while (!r.bad && wr_rd_left(&r)) {
        uint64_t field = rd_mysql_varint(&r);
        switch (field) {
        case 1:
            for (int i = 0; i < 16; i++) g.uuid[i] = (uint8_t)rd_mysql_varint(&r);
            uuid = true;
            break;
        case 2: {
            uint64_t v = rd_mysql_varint(&r); /* signed: lowest bit is the sign */
            if (v & 1) r.bad = true;
            g.gno = v >> 1;
            gno = true;
            break;
        }
        case 3: {
            uint64_t n = rd_mysql_varint(&r);
            wr_slice t = n <= 32 ? wr_rd_bytes(&r, n) : (r.bad = true, (wr_slice){0});
            if (!r.bad && t.n) memcpy(g.tag, t.p, t.n);
            break;
        }
        case 6: g.commit_us = (int64_t)rd_mysql_varint(&r); break;
        case 4: case 5: rd_mysql_varint(&r); break; /* signed, not needed */
        case 0: case 7: case 8: case 9: case 10: case 11: rd_mysql_varint(&r); break;
        default: wr_rd_take(&r, wr_rd_left(&r)); break; /* newer, ignorable fields: the last ones */
        }
    }
    if (r.bad || !uuid || !gno || g.gno == 0) return malformed(ev, "no usable GTID", err);
    *ret = g;
    return WR_OK;
}

wr_code wr_event_gtid_parse(const wr_event *ev, wr_ev_gtid *ret, wr_err *err) {
    if (ev->type == EV_GTID_TAGGED) return parse_tagged(ev, ret, err);
    wr_ev_gtid g = {.anonymous = ev->type == EV_ANONYMOUS_GTID};
    wr_rd r = wr_rd_of(ev->body.p, ev->body.n);
    wr_rd_u8(&r); /* flags */
    const uint8_t *sid = wr_rd_take(&r, 16);
    g.gno = wr_rd_u64(&r);
    if (r.bad || (!g.anonymous && g.gno == 0)) return malformed(ev, "no usable GTID", err);
    memcpy(g.uuid, sid, 16);
    /* Logical timestamps since 5.7, commit times since 8.0.1 */
    if (wr_rd_left(&r) >= 17 + 7 && wr_rd_u8(&r) == 2) {
        wr_rd_take(&r, 16);
        g.commit_us = (int64_t)(wr_rd_uint(&r, 7) & ~(1ull << 55)); /* bit 55: the original time follows */
    }
    *ret = g;
    return WR_OK;
}

wr_code wr_event_maria_gtid_parse(const wr_event *ev, wr_ev_maria_gtid *ret, wr_err *err) {
    wr_rd r = wr_rd_of(ev->body.p, ev->body.n);
    wr_ev_maria_gtid g = {.server_id = ev->server_id};
    g.seq = wr_rd_u64(&r);
    g.domain = wr_rd_u32(&r);
    uint8_t flags = wr_rd_u8(&r);
    if (r.bad) return malformed(ev, "too short", err);
    g.standalone = flags & 1;
    g.ddl = flags & 0x20;
    g.prepared_xa = flags & 0x40;
    g.completed_xa = flags & 0x80;
    if (flags & 2) wr_rd_u64(&r); /* group commit id */
    if (g.prepared_xa || g.completed_xa) {
        g.xid.format = (int32_t)wr_rd_u32(&r);
        unsigned gl = wr_rd_u8(&r), bl = wr_rd_u8(&r);
        if (r.bad || !read_xid(&r, gl, bl, &g.xid)) return malformed(ev, "no usable transaction id", err);
    }
    /* The rest up to 19 bytes is zeroes when nothing is said. */
    if (!r.bad && wr_rd_left(&r)) { /* since 10.8: 1 several engines, 2 start, 4 commit, 8 rollback of an ALTER */
        uint8_t extra = wr_rd_u8(&r);
        g.start_alter = extra & 2;
        g.rollback_alter = extra & 8;
    }
    if (r.bad) return malformed(ev, "too short", err);
    *ret = g;
    return WR_OK;
}

/* ------------------------------------------------------------------ tables and rows */
wr_code wr_event_table_map_parse(const wr_event *ev, const wr_event_format *f, wr_ev_table_map *ret, wr_err *err) {
    wr_rd r = wr_rd_of(ev->body.p, ev->body.n);
    wr_ev_table_map m = {.table_id = wr_rd_uint(&r, f->table_id_bytes ? f->table_id_bytes : 6)};
    wr_rd_u16(&r); /* flags */
    m.identity = wr_slice_of(r.p, wr_rd_left(&r));
    /* both names: length, bytes, NUL */
    uint64_t n = wr_rd_lenenc(&r);
    m.db = n <= 255 ? wr_rd_bytes(&r, n) : (r.bad = true, (wr_slice){0});
    wr_rd_u8(&r);
    n = wr_rd_lenenc(&r);
    m.name = n <= 255 ? wr_rd_bytes(&r, n) : (r.bad = true, (wr_slice){0});
    wr_rd_u8(&r);
    uint64_t ncols = wr_rd_lenenc(&r);
    if (r.bad || ncols > 65535 || ncols > wr_rd_left(&r)) return malformed(ev, "no usable table name or number of columns", err);
    m.ncols = (int)ncols;
    m.types = wr_rd_take(&r, ncols);
    uint64_t nmeta = wr_rd_lenenc(&r);
    if (r.bad || nmeta > wr_rd_left(&r)) return malformed(ev, "column metadata are cut", err);
    m.metadata = wr_rd_bytes(&r, nmeta);
    wr_rd_take(&r, (ncols + 7) / 8); /* which columns may be null */
    if (r.bad) return malformed(ev, "null bitmap is cut", err);
    m.optional = wr_rd_bytes(&r, wr_rd_left(&r));
    *ret = m;
    return WR_OK;
}

enum { ROWS_V1 = 1, ROWS_V2 = 2, ROWS_COMPRESSED = 4, ROWS_PARTIAL = 8 };
static const struct { uint8_t op, kind; } rows_kinds[256] = {
    [EV_WRITE_ROWS_V1] = {1, ROWS_V1}, [EV_UPDATE_ROWS_V1] = {2, ROWS_V1}, [EV_DELETE_ROWS_V1] = {3, ROWS_V1},
    [EV_WRITE_ROWS] = {1, ROWS_V2}, [EV_UPDATE_ROWS] = {2, ROWS_V2}, [EV_DELETE_ROWS] = {3, ROWS_V2},
    [EV_PARTIAL_UPDATE_ROWS] = {2, ROWS_V2 | ROWS_PARTIAL},
    [EV_WRITE_ROWS_COMPRESSED_V1] = {1, ROWS_V1 | ROWS_COMPRESSED}, [EV_UPDATE_ROWS_COMPRESSED_V1] = {2, ROWS_V1 | ROWS_COMPRESSED},
    [EV_DELETE_ROWS_COMPRESSED_V1] = {3, ROWS_V1 | ROWS_COMPRESSED}, [EV_WRITE_ROWS_COMPRESSED] = {1, ROWS_V2 | ROWS_COMPRESSED},
    [EV_UPDATE_ROWS_COMPRESSED] = {2, ROWS_V2 | ROWS_COMPRESSED}, [EV_DELETE_ROWS_COMPRESSED] = {3, ROWS_V2 | ROWS_COMPRESSED},
};

bool wr_event_is_rows(uint8_t type) { return rows_kinds[type].op != 0; }

wr_code wr_event_rows_table(const wr_event *ev, const wr_event_format *f, uint64_t *ret_table_id, bool *ret_statement_end, wr_err *err) {
    wr_rd r = wr_rd_of(ev->body.p, ev->body.n);
    uint64_t id = wr_rd_uint(&r, f->table_id_bytes ? f->table_id_bytes : 6);
    uint16_t flags = wr_rd_u16(&r);
    if (r.bad) return malformed(ev, "too short", err);
    *ret_table_id = id;
    *ret_statement_end = flags & 1;
    return WR_OK;
}

wr_code wr_event_rows_parse(const wr_event *ev, const wr_event_format *f, wr_buf *scratch, wr_ev_rows *ret, wr_err *err) {
    unsigned kind = rows_kinds[ev->type].kind;
    wr_ev_rows e = {.op = rows_kinds[ev->type].op, .partial = kind & ROWS_PARTIAL};
    WR_TRY(wr_event_rows_table(ev, f, &e.table_id, &e.statement_end, err));
    wr_rd r = wr_rd_of(ev->body.p, ev->body.n);
    wr_rd_take(&r, (size_t)(f->table_id_bytes ? f->table_id_bytes : 6) + 2);
    if (kind & ROWS_V2) {
        unsigned extra = wr_rd_u16(&r); /* counts itself */
        if (extra < 2) return malformed(ev, "extra data shorter than their own length", err);
        wr_rd_take(&r, extra - 2);
    }
    uint64_t ncols = wr_rd_lenenc(&r);
    if (r.bad || ncols > 65535) return malformed(ev, "no usable number of columns", err);
    e.ncols = (int)ncols;
    size_t nb = (ncols + 7) / 8;
    e.present = wr_rd_take(&r, nb);
    if (e.op == 2) e.present_after = wr_rd_take(&r, nb);
    if (r.bad) return malformed(ev, "column bitmaps are cut", err);
    e.rows = wr_rd_bytes(&r, wr_rd_left(&r));
    if (kind & ROWS_COMPRESSED) {
        wr_buf_clear(scratch);
        wr_code rc = wr_maria_uncompress(e.rows, wr_event_unpacked_max(ev), scratch, err);
        if (rc != WR_OK) return wr_err_in(err, "%s event", wr_event_type_name(ev->type));
        e.rows = wr_buf_view(scratch);
    }
    *ret = e;
    return WR_OK;
}
