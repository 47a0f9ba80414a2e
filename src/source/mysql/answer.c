#include "answer.h"

#include <errmsg.h>
#include <stdio.h>
#include <sys/socket.h>
#include "conn.h"
#include "event.h"
#include "weir/base/mem.h"

/* Nothing that comes from here on can be trusted to be where it should. */
static void cut(MYSQL *m) {
    int fd = (int)mysql_get_socket(m);
    if (fd >= 0) (void)shutdown(fd, SHUT_RDWR);
}

static wr_code senseless(MYSQL *m, const char *doing, wr_err *err) {
    cut(m);
    wr_err_in(err, "%s at %s:%u", doing, m->host && *m->host ? m->host : m->unix_socket ? m->unix_socket : "?", m->port);
    return wr_err_cure(err, "is it a MySQL or MariaDB server, or a proxy that speaks their protocol in full?");
}

static wr_code read_packet(MYSQL *m, const char *doing, wr_slice *ret, wr_err *err) {
    unsigned long n = mysql_net_read_packet(m);
    if (n == packet_error) return wr_my_fail(m, err, doing);
    *ret = wr_slice_of(m->net.read_pos, n);
    return WR_OK;
}

static bool is_eof(wr_slice p) { return p.n > 0 && p.n < 9 && p.p[0] == 0xFE; }

/* ------------------------------------------------------------------ columns */
void wr_my_fields_clear(wr_my_fields *f) {
    wr_free(f->v), wr_free(f->names);
    *f = (wr_my_fields){0};
}

wr_code wr_my_column_parse(wr_slice packet, MYSQL_FIELD *ret, char name[64], wr_err *err) {
    wr_rd r = wr_rd_of(packet.p, packet.n);
    for (int i = 0; i < 4; i++) wr_rd_bytes(&r, wr_rd_lenenc(&r)); /* catalog, database, table's alias, table */
    wr_slice alias = wr_rd_bytes(&r, wr_rd_lenenc(&r));
    wr_rd_bytes(&r, wr_rd_lenenc(&r)); /* column */
    uint64_t fixed = wr_rd_lenenc(&r);
    if (fixed != 12 && !r.bad) { /* MariaDB's extended metadata stand before the fixed part */
        wr_rd_bytes(&r, fixed);
        fixed = wr_rd_lenenc(&r);
    }
    MYSQL_FIELD f = {.charsetnr = wr_rd_u16(&r)};
    f.length = wr_rd_u32(&r);
    f.type = (enum enum_field_types)wr_rd_u8(&r);
    f.flags = wr_rd_u16(&r);
    f.decimals = wr_rd_u8(&r);
    if (r.bad || fixed != 12) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "a column's definition of %zu bytes is cut", packet.n);
    size_t n = alias.n < 63 ? alias.n : 63;
    if (n) memcpy(name, alias.p, n);
    name[n] = 0;
    f.name = name;
    *ret = f;
    return WR_OK;
}

static wr_code take_eof(MYSQL *m, const char *doing, const char *behind, wr_err *err) {
    wr_slice p = {0};
    WR_TRY(read_packet(m, doing, &p, err));
    if (is_eof(p)) return WR_OK;
    wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "no end where %s should end", behind);
    return senseless(m, doing, err);
}

static wr_code take_columns(MYSQL *m, const char *doing, uint64_t n, wr_my_fields *ret, wr_err *err) {
    if (n == 0 || n > WR_MY_COLUMNS_MAX) {
        wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "an answer of %llu columns; at most %d are taken", (unsigned long long)n, WR_MY_COLUMNS_MAX);
        return senseless(m, doing, err);
    }
    wr_my_fields f = {.n = (unsigned)n, .v = wr_calloc(n, sizeof *f.v), .names = wr_calloc(n, sizeof *f.names)};
    wr_code rc = f.v && f.names ? WR_OK : wr_nomem(err, "columns", n * sizeof *f.v);
    for (unsigned i = 0; i < n && rc == WR_OK; i++) {
        wr_slice p = {0};
        rc = read_packet(m, doing, &p, err);
        if (rc == WR_OK && (rc = wr_my_column_parse(p, &f.v[i], f.names[i], err)) != WR_OK) rc = senseless(m, doing, err);
    }
    if (rc == WR_OK) rc = take_eof(m, doing, "columns", err);
    if (rc != WR_OK) return wr_my_fields_clear(&f), rc;
    *ret = f;
    return WR_OK;
}

/* The first packet of an answer, and what belongs to it. MariaDB does not send a prepared statement's columns again when they are what they were: *ret has those
 * then, and keeps them. */
static wr_code take_head(MYSQL *m, const char *doing, wr_my_fields *ret, wr_err *err) {
    wr_slice p = {0};
    WR_TRY(read_packet(m, doing, &p, err));
    if (p.p[0] == 0) return wr_my_fields_clear(ret), WR_OK; /* OK: no result set */
    if (p.p[0] == 0xFB) {
        wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "the server asks for the local file '%.*s', which nothing of ours wants read", (int)(p.n - 1 > 200 ? 200 : p.n - 1), (const char *)p.p + 1);
        senseless(m, doing, err);
        return wr_err_cure(err, "no file was opened. This server tries to read files of its clients: it is not what it should be");
    }
    wr_rd r = wr_rd_of(p.p, p.n);
    uint64_t n = wr_rd_lenenc(&r);
    bool here = wr_rd_left(&r) == 0 || wr_rd_u8(&r) != 0; /* MariaDB: whether definitions follow */
    if (r.bad) {
        wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "an answer that begins with byte %02x", p.p[0]);
        return senseless(m, doing, err);
    }
    if (here) {
        wr_my_fields_clear(ret);
        return take_columns(m, doing, n, ret, err);
    }
    if (n == ret->n && n > 0) return take_eof(m, doing, "columns", err);
    wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "an answer of %llu columns without their definitions", (unsigned long long)n);
    return senseless(m, doing, err);
}

/* ------------------------------------------------------------------ asking */
static void first_words(const char *sql, char out[100]) { snprintf(out, 100, "%.72s%s", sql, strlen(sql) > 72 ? "..." : ""); }

static wr_code command(MYSQL *m, enum enum_server_command com, const void *p, size_t n, const char *doing, wr_err *err) {
    return m->methods->db_command(m, com, p, n, 1, NULL) == 0 ? WR_OK : wr_my_fail(m, err, doing);
}

wr_code wr_my_ask(MYSQL *m, const char *sql, wr_my_fields *ret, wr_err *err) {
    char doing[100];
    first_words(sql, doing);
    wr_my_fields f = {0};
    WR_TRY(command(m, COM_QUERY, sql, strlen(sql), doing, err));
    WR_TRY(take_head(m, doing, &f, err));
    *ret = f;
    return WR_OK;
}

static wr_code prepare(MYSQL *m, const char *sql, const char *doing, uint32_t *ret_id, wr_my_fields *ret, wr_err *err) {
    WR_TRY(command(m, COM_STMT_PREPARE, sql, strlen(sql), doing, err));
    wr_slice p = {0};
    WR_TRY(read_packet(m, doing, &p, err));
    wr_rd r = wr_rd_of(p.p, p.n);
    unsigned ok = wr_rd_u8(&r);
    uint32_t id = wr_rd_u32(&r);
    unsigned ncols = wr_rd_u16(&r), nparams = wr_rd_u16(&r);
    if (r.bad || ok != 0 || nparams != 0 || ncols == 0 || ncols > WR_MY_COLUMNS_MAX) {
        wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "a prepared statement of %u columns and %u parameters (first byte %02x)", ncols, nparams, ok);
        return senseless(m, doing, err);
    }
    *ret_id = id;
    return take_columns(m, doing, ncols, ret, err);
}

static wr_code execute(MYSQL *m, const char *doing, uint32_t id, wr_my_fields *f, wr_err *err) {
    uint8_t args[9] = {0}; /* statement, no cursor, one iteration */
    memcpy(args, &id, 4);
    args[5] = 1;
    WR_TRY(command(m, COM_STMT_EXECUTE, args, sizeof args, doing, err));
    WR_TRY(take_head(m, doing, f, err));
    if (f->n > 0) return WR_OK;
    wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "no rows in answer to a SELECT");
    return senseless(m, doing, err);
}

wr_code wr_my_ask_binary(MYSQL *m, const char *sql, uint32_t *ret_id, wr_my_fields *ret, wr_err *err) {
    char doing[100];
    uint32_t id = 0;
    wr_my_fields f = {0};
    first_words(sql, doing);
    wr_code rc = prepare(m, sql, doing, &id, &f, err);
    if (rc == WR_OK) rc = execute(m, doing, id, &f, err);
    if (rc != WR_OK) return wr_my_fields_clear(&f), rc;
    *ret_id = id;
    *ret = f;
    return WR_OK;
}

void wr_my_forget(MYSQL *m, uint32_t id) { (void)m->methods->db_command(m, COM_STMT_CLOSE, (const char *)&id, sizeof id, 1, NULL); }

wr_code wr_my_next_row(MYSQL *m, const char *doing, uint8_t **ret_p, size_t *ret_n, wr_err *err) {
    unsigned long n = mysql_net_read_packet(m);
    if (__builtin_expect(n == packet_error, 0)) return wr_my_fail(m, err, doing);
    uint8_t *p = m->net.read_pos;
    *ret_n = __builtin_expect(n < 9 && p[0] == 0xFE, 0) ? 0 : n;
    *ret_p = p;
    return WR_OK;
}

wr_code wr_my_text_row(uint8_t *packet, size_t n, unsigned ncols, char **ret_row, unsigned long *ret_lengths, wr_err *err) {
    wr_rd r = wr_rd_of(packet, n);
    for (unsigned i = 0; i < ncols; i++) {
        ret_row[i] = NULL, ret_lengths[i] = 0;
        if (wr_rd_left(&r) && *r.p == 0xFB) {
            r.p++;
            continue;
        }
        wr_slice v = wr_rd_bytes(&r, wr_rd_lenenc(&r));
        if (r.bad) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "a row of %zu bytes ends within column %u of %u", n, i + 1, ncols);
        ret_row[i] = (char *)(uintptr_t)(v.p ? v.p : r.p), ret_lengths[i] = v.n;
    }
    if (wr_rd_left(&r)) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "a row of %zu bytes is %zu longer than its %u columns", n, wr_rd_left(&r), ncols);
    for (unsigned i = 0; i < ncols; i++)
        if (ret_row[i]) ret_row[i][ret_lengths[i]] = 0; /* the first byte of the next value's length, which is known by now */
    return WR_OK;
}
