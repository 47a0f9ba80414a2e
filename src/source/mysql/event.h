/* Binlog events: bytes to structs. Nothing here knows connections, tables or transactions; every length is checked, and hostile
 * bytes give WR_E_DECODE, never a read past the end. Slices borrow from the event.
 * Sources: MySQL 9.7 "libs/mysql/binlog/event" headers' format tables, MariaDB "Replication protocol" pages, and both servers' bytes.
 * @thread one at a time */
#ifndef WEIR_SOURCE_MYSQL_EVENT_H
#define WEIR_SOURCE_MYSQL_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"

typedef enum wr_event_type {
    EV_UNKNOWN = 0, EV_START_V3 = 1, EV_QUERY = 2, EV_STOP = 3, EV_ROTATE = 4, EV_INTVAR = 5, EV_LOAD = 6, EV_SLAVE = 7,
    EV_CREATE_FILE = 8, EV_APPEND_BLOCK = 9, EV_EXEC_LOAD = 10, EV_DELETE_FILE = 11, EV_NEW_LOAD = 12, EV_RAND = 13,
    EV_USER_VAR = 14, EV_FORMAT_DESCRIPTION = 15, EV_XID = 16, EV_BEGIN_LOAD_QUERY = 17, EV_EXECUTE_LOAD_QUERY = 18,
    EV_TABLE_MAP = 19, EV_WRITE_ROWS_V0 = 20, EV_UPDATE_ROWS_V0 = 21, EV_DELETE_ROWS_V0 = 22, EV_WRITE_ROWS_V1 = 23,
    EV_UPDATE_ROWS_V1 = 24, EV_DELETE_ROWS_V1 = 25, EV_INCIDENT = 26, EV_HEARTBEAT = 27, EV_IGNORABLE = 28, EV_ROWS_QUERY = 29,
    EV_WRITE_ROWS = 30, EV_UPDATE_ROWS = 31, EV_DELETE_ROWS = 32, EV_GTID = 33, EV_ANONYMOUS_GTID = 34, EV_PREVIOUS_GTIDS = 35,
    EV_TRANSACTION_CONTEXT = 36, EV_VIEW_CHANGE = 37, EV_XA_PREPARE = 38, EV_PARTIAL_UPDATE_ROWS = 39, EV_TRANSACTION_PAYLOAD = 40,
    EV_HEARTBEAT_V2 = 41, EV_GTID_TAGGED = 42,
    /* MariaDB */
    EV_ANNOTATE_ROWS = 160, EV_BINLOG_CHECKPOINT = 161, EV_MARIA_GTID = 162, EV_MARIA_GTID_LIST = 163, EV_START_ENCRYPTION = 164,
    EV_QUERY_COMPRESSED = 165, EV_WRITE_ROWS_COMPRESSED_V1 = 166, EV_UPDATE_ROWS_COMPRESSED_V1 = 167, EV_DELETE_ROWS_COMPRESSED_V1 = 168,
    EV_WRITE_ROWS_COMPRESSED = 169, EV_UPDATE_ROWS_COMPRESSED = 170, EV_DELETE_ROWS_COMPRESSED = 171,
} wr_event_type;
const char *wr_event_type_name(uint8_t type); /* "WRITE_ROWS"; "?" when unknown */

#define EV_HEADER_BYTES 19
#define EV_FLAG_BINLOG_IN_USE 0x1
#define EV_FLAG_ARTIFICIAL 0x20
#define EV_FLAG_IGNORABLE 0x80

/* What the latest FORMAT_DESCRIPTION says of the events after it. Zero = none seen yet. */
typedef struct wr_event_format {
    bool known;
    bool checksum;          /* events end with an IEEE CRC-32 */
    bool is_mariadb;
    char server_version[51];
    uint32_t server_version_num; /* 101119 */
    uint8_t table_id_bytes; /* 4 or 6 */
    bool server_start;      /* the first file since the server was started */
} wr_event_format;

typedef struct wr_event {
    uint32_t timestamp; /* seconds since 1970 UTC, when the statement began */
    uint8_t type;       /* wr_event_type or one we do not know */
    uint32_t server_id;
    uint32_t log_pos;   /* low 32 bits of the offset behind the event; 0 = artificial */
    uint16_t flags;
    wr_slice body;      /* without header and checksum */
    size_t unpacked_max; /* what its compressed part may become; 0 = WR_EVENT_MAX */
} wr_event;
/* What servers send at most: max_allowed_packet and the replica's own limit end at 1 GiB, a header is added. */
#define WR_EVENT_MAX (((size_t)1 << 30) + ((size_t)1 << 20))
static inline size_t wr_event_unpacked_max(const wr_event *ev) { return ev->unpacked_max ? ev->unpacked_max : WR_EVENT_MAX; }

/* Splits one event, `in` being exactly its bytes. Checks its CRC when the format has one; `nested` events (inside a TRANSACTION_PAYLOAD)
 * have none. An artificial ROTATE or a HEARTBEAT may come before the format is known: its checksum is recognised by fitting. */
wr_code wr_event_split(const wr_event_format *f, wr_slice in, bool nested, wr_event *ret_ev, wr_err *err);

wr_code wr_event_format_parse(const wr_event *ev, wr_event_format *ret_format, wr_err *err);

typedef struct wr_ev_rotate { uint64_t pos; wr_slice file; } wr_ev_rotate;
wr_code wr_event_rotate_parse(const wr_event *ev, wr_ev_rotate *ret, wr_err *err);

typedef struct wr_ev_query {
    uint32_t thread_id;
    uint16_t error_code;
    uint64_t sql_mode;
    uint16_t charset_client, collation_server; /* collation ids, 0 = not said */
    int explicit_timestamp;    /* MySQL's explicit_defaults_for_timestamp: 1 on, 0 off, -1 not said */
    bool ddl_xid;              /* MySQL 8: a DDL statement that an engine committed, so it changed something */
    char time_zone[256];       /* of the session, "" = not said */
    char db[512];
    wr_slice sql;
} wr_ev_query;
/* Also the statement of an EXECUTE_LOAD_QUERY. `scratch` holds the text of a QUERY_COMPRESSED. */
wr_code wr_event_query_parse(const wr_event *ev, wr_buf *scratch, wr_ev_query *ret, wr_err *err);

/* Branch of an XA transaction. */
typedef struct wr_xid {
    int32_t format;
    uint8_t gtrid_len, bqual_len; /* each at most 64 */
    uint8_t data[128];            /* gtrid, then bqual */
} wr_xid;
bool wr_xid_eq(const wr_xid *a, const wr_xid *b);
char *wr_xid_print(const wr_xid *x, char buf[320]); /* X'7731',X'',1 as the servers write it */
/* From the text behind XA COMMIT and the like: X'..' or '..', bqual and format optional. False when it is none. */
bool wr_xid_parse_text(wr_slice text, wr_xid *ret);
typedef struct wr_ev_xa_prepare { bool one_phase; wr_xid xid; } wr_ev_xa_prepare;
wr_code wr_event_xa_prepare_parse(const wr_event *ev, wr_ev_xa_prepare *ret, wr_err *err);

typedef struct wr_ev_gtid { /* MySQL: GTID, ANONYMOUS_GTID, GTID_TAGGED */
    bool anonymous;
    uint8_t uuid[16];
    char tag[33];              /* "" = none */
    uint64_t gno;
    int64_t commit_us;         /* on this server, microseconds since 1970 UTC; 0 = not said */
} wr_ev_gtid;
wr_code wr_event_gtid_parse(const wr_event *ev, wr_ev_gtid *ret, wr_err *err);

typedef struct wr_ev_maria_gtid {
    uint32_t domain, server_id;
    uint64_t seq;
    bool standalone, ddl, prepared_xa, completed_xa;
    bool start_alter, rollback_alter; /* the first half of a two-phase ALTER, and its withdrawal: nothing has changed */
    wr_xid xid;                /* of prepared_xa and completed_xa */
} wr_ev_maria_gtid;
wr_code wr_event_maria_gtid_parse(const wr_event *ev, wr_ev_maria_gtid *ret, wr_err *err);

typedef struct wr_ev_table_map {
    uint64_t table_id;
    wr_slice db, name;
    int ncols;
    const uint8_t *types;      /* [ncols] */
    wr_slice metadata;         /* per-type bytes of all columns */
    wr_slice optional;         /* type-length-value fields, may be empty */
    wr_slice identity;         /* everything behind the flags: equal bytes mean the same map */
} wr_ev_table_map;
wr_code wr_event_table_map_parse(const wr_event *ev, const wr_event_format *f, wr_ev_table_map *ret, wr_err *err);

typedef struct wr_ev_rows {
    uint8_t op;                /* wr_op: 1 insert, 2 update, 3 delete */
    bool partial;              /* PARTIAL_UPDATE_ROWS */
    uint64_t table_id;
    bool statement_end;
    int ncols;
    const uint8_t *present;    /* bitmaps of (ncols + 7) / 8 bytes */
    const uint8_t *present_after; /* updates, else NULL */
    wr_slice rows;
} wr_ev_rows;
bool wr_event_is_rows(uint8_t type);
/* Only the table id (and the flags): enough for passing over. */
wr_code wr_event_rows_table(const wr_event *ev, const wr_event_format *f, uint64_t *ret_table_id, bool *ret_statement_end, wr_err *err);
/* `scratch` holds the rows of a compressed event. */
wr_code wr_event_rows_parse(const wr_event *ev, const wr_event_format *f, wr_buf *scratch, wr_ev_rows *ret, wr_err *err);

/* MariaDB's compressed column, query and rows data: one header byte, length, zlib. Appends to out. */
wr_code wr_maria_uncompress(wr_slice in, size_t limit, wr_buf *out, wr_err *err);

/* A length-encoded integer of the client protocol; 0xFB (NULL) and 0xFF are bad. */
static inline uint64_t wr_rd_lenenc(wr_rd *r) {
    uint8_t c = wr_rd_u8(r);
    if (c < 0xFB) return c;
    if (c == 0xFC) return wr_rd_u16(r);
    if (c == 0xFD) return wr_rd_uint(r, 3);
    if (c == 0xFE) return wr_rd_u64(r);
    r->bad = true;
    return 0;
}

#endif
