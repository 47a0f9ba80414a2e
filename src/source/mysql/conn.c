/* Connections: options, authentication plugins, TLS, session state, classified errors. */
#include "conn.h"

#include <arpa/inet.h>
#include <errmsg.h>
#include <ma_pvio.h>
#include <mysqld_error.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "answer.h"
#include "weir/base/mem.h"

enum { IO_TIMEOUT_S = 900 };

/* Client errors that libmariadb raises for authentication (errmsg.h calls some of them differently between versions).
 */
enum { AUTH_PLUGIN_CANNOT_LOAD = 2059, AUTH_PLUGIN_ERR = 2061 };

/* The password goes to libmariadb and nowhere else; a message of the server or of a plugin is never a place for it, but
 * costs nothing to make sure. */
static void scrub(char *msg, const char *password) {
    size_t n = password ? strlen(password) : 0;
    if (n < 4) return; /* "a" would hit words; a server never echoes it anyway */
    for (char *at = msg; (at = strstr(at, password)) != NULL; at += n) memset(at, '*', n);
}

typedef struct class {
    wr_code code;
    wr_retry retry;
    const char *cure;
} class;

/* connecting: 2026 is then a certificate or protocol that does not suit; later it is a connection that was cut under
 * TLS. */
static class classify(unsigned no, bool connecting) {
    if (no == CR_SSL_CONNECTION_ERROR && !connecting) return (class){WR_E_NET, WR_RETRY_SOON, ""};
    switch (no) {
    case 1045:
    case 1698: /* access denied */
        return (class){WR_E_AUTH, WR_RETRY_NO,
                       "check user name and password, and that the account may log in from this host (SELECT user, "
                       "host, plugin FROM mysql.user)"};
    case 1044:
    case 1142:
    case 1143:
    case 1227:
    case 1370:
    case 1345:
    case 3619:
        return (class){WR_E_AUTH, WR_RETRY_NO, "grant the missing privilege; `weir check` lists what is needed"};
    case 1130:
    case 1129:
        return (class){WR_E_AUTH, WR_RETRY_NO,
                       "the server refuses this client's host: create the account for it ('user'@'host'), or FLUSH "
                       "HOSTS when it was blocked after failed attempts"};
    case 1820:
    case 1862:
        return (class){WR_E_AUTH, WR_RETRY_NO,
                       "the account's password has expired: set a new one (ALTER USER ... IDENTIFIED BY ...)"};
    case 3118:
    case 4151:
        return (class){WR_E_AUTH, WR_RETRY_NO, "the account is locked: ALTER USER ... ACCOUNT UNLOCK"};
    case 1524:
    case 1251:
    case 2049:
    case AUTH_PLUGIN_ERR:
        return (class){WR_E_AUTH, WR_RETRY_NO,
                       "server and client share no way to authenticate this account: use mysql_native_password, "
                       "caching_sha2_password or ed25519"};
    case AUTH_PLUGIN_CANNOT_LOAD:
        return (class){WR_E_AUTH, WR_RETRY_NO,
                       "install libmariadb's client plugins (Debian: libmariadb3), or set MARIADB_PLUGIN_DIR to the "
                       "folder that has them"};
    case 3159:
    case 3032:
        return (class){WR_E_AUTH, WR_RETRY_NO, "the server or the account demands TLS: set tls: required or verify"};
    case CR_CONNECTION_ERROR:
    case CR_CONN_HOST_ERROR:
        return (class){WR_E_NET, WR_RETRY_SOON,
                       "is the server running, is the port right, does a firewall let it through?"};
    case CR_UNKNOWN_HOST:
        return (class){WR_E_NET, WR_RETRY_SOON, "the host name does not resolve: check its spelling and the DNS"};
    case CR_SERVER_GONE_ERROR:
    case CR_SERVER_LOST:
    case 2055 /* CR_SERVER_LOST_EXTENDED */:
    case 1053:
    case 1152:
    case 1153 /* packet too big */:
    case 1154:
    case 1155:
    case 1156:
    case 1157:
    case 1158:
    case 1159:
    case 1160:
    case 1161:
    case 1184:
    case 4031 /* idle, thrown out */:
    case 1080:
    case 1927 /* killed */:
        return (class){WR_E_NET, WR_RETRY_SOON, no == 1153 ? "raise max_allowed_packet on the server" : ""};
    case CR_SSL_CONNECTION_ERROR:
        return (class){WR_E_NET, WR_RETRY_NO,
                       "name the authority that signed the server's certificate with source.tls_ca (MySQL and MariaDB keep "
                       "theirs as ca.pem); the certificate must also carry the host name used. Certificates that servers make "
                       "for themselves carry none: then tls: required, which encrypts and does not say who is at the other end, "
                       "or, in a network you trust, tls: preferred"};
    case 1040:
        return (class){WR_E_SERVER, WR_RETRY_SOON, "raise max_connections or close other clients"};
    case 1203:
    case 1226:
        return (class){WR_E_SERVER, WR_RETRY_SOON, "raise the account's limit (max_user_connections and the like)"};
    case CR_NET_PACKET_TOO_LARGE:
        return (class){WR_E_LIMIT, WR_RETRY_NO,
                       "the server sent a packet larger than source.max_packet, which is what the memory that Weir may have "
                       "leaves for one row unless weir.yaml says more (docs/operate/memory.md); give it more memory, or raise it, if the "
                       "server is to be trusted and a row or a transaction is really that large"};
    case 1205:
    case 1213:
    case 1317:
    case 1969:
    case 3024:
    case 1021:
    case 1041:
    case 1037:
    case 1038:
    case 3168 /* server not ready */:
    case 3572 /* nowait */:
        return (class){WR_E_SERVER, WR_RETRY_SOON, ""};
    case 1146:
    case 1049:
    case 1051:
        return (class){WR_E_NOTFOUND, WR_RETRY_NO, ""};
    case 1054:
    case 1412:
    case 1615:
    case 1176 /* key does not exist */:
        return (class){WR_E_SCHEMA, WR_RETRY_NO, ""};
    case CR_OUT_OF_MEMORY:
        return (class){WR_E_NOMEM, WR_RETRY_NO, ""};
    default:
        return (class){WR_E_SERVER, WR_RETRY_NO, ""};
    }
}

static wr_code fail_with(wr_err *err, unsigned no, const char *state, const char *text, const char *host, unsigned port,
                         const char *user, const char *password, const char *doing, bool connecting) {
    char msg[640];
    snprintf(msg, sizeof msg, "%s", text && *text ? text : "no reason given");
    for (char *p = msg; *p; p++)
        if ((unsigned char)*p < ' ') *p = ' ';
    scrub(msg, password);
    class c = classify(no, connecting);
    wr_fail(err, c.code, c.retry, "%s at %s:%u as '%s': error %u (%s): %s", doing, host ? host : "?", port,
            user ? user : "?", no, state && *state ? state : "HY000", msg);
    return *c.cure ? wr_err_cure(err, "%s", c.cure) : c.code;
}

/* A packet above max_packet_size: libmariadb notices, and then says "lost connection", which would be worth another try. */
static _Thread_local const MYSQL *too_large;
static void (*say_error)(MYSQL *m, unsigned no, const char *state, const char *fmt, ...); /* atomic; libmariadb's own, the same for every connection */

/* The library's own text for this error, a format of what it passes. */
static const char *usual_text(unsigned no) {
    const char *const *texts = NULL;
    bool known = no > CR_MIN_ERROR && no <= CR_MYSQL_LAST_ERROR && mariadb_get_infov(NULL, MARIADB_CLIENT_ERRORS, (void *)&texts) == 0 && texts;
    return known ? texts[no - CR_MIN_ERROR] : "the client library has no text for it";
}

/* fmt NULL: the usual text, of which the values come all the same. Only here can they be put in: they cannot be passed on. */
static void on_error(MYSQL *m, unsigned no, const char *state, const char *fmt, ...) {
    char text[512];
    va_list ap;
    if (no == CR_NET_PACKET_TOO_LARGE) too_large = m;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt ? fmt : usual_text(no), ap);
    va_end(ap);
    __atomic_load_n(&say_error, __ATOMIC_RELAXED)(m, no, state, "%s", text);
}

static void watch_errors(MYSQL *m) {
    MARIADB_PVIO *pvio = m->net.pvio;
    if (too_large == m) too_large = NULL; /* another one at the same address */
    if (!pvio || !pvio->set_error || pvio->set_error == on_error) return;
    __atomic_store_n(&say_error, pvio->set_error, __ATOMIC_RELAXED);
    pvio->set_error = on_error;
}

wr_code wr_my_fail(MYSQL *m, wr_err *err, const char *doing) {
    if (too_large == m) {
        char text[80];
        too_large = NULL;
        snprintf(text, sizeof text, "a packet of more than %lu MB", m->net.max_packet_size >> 20);
        return fail_with(err, CR_NET_PACKET_TOO_LARGE, NULL, text, m->host && *m->host ? m->host : m->unix_socket, m->port, m->user, m->passwd, doing, false);
    }
    return fail_with(err, mysql_errno(m), mysql_sqlstate(m), mysql_error(m),
                     m->host && *m->host ? m->host : m->unix_socket, m->port, m->user, m->passwd, doing, false);
}

/* ------------------------------------------------------------------ LOAD DATA LOCAL: a hostile server could ask for
 * any file of ours */
static int infile_init(void **ret, const char *name, void *ctx) { return *ret = NULL, 1; }
static int infile_read(void *p, char *buf, unsigned len) { return -1; }
static void infile_end(void *p) {}
static int infile_error(void *p, char *buf, unsigned len) {
    snprintf(buf, len, "LOAD DATA LOCAL is refused");
    return 2000; /* CR_UNKNOWN_ERROR */
}

/* ------------------------------------------------------------------ connecting */
/* Where distributions put libmariadb's client plugins, beside the folder compiled into it. */
static const char *const plugin_dirs[] = {
    "/usr/lib/x86_64-linux-gnu/libmariadb3/plugin",
    "/usr/lib/aarch64-linux-gnu/libmariadb3/plugin",
    "/usr/lib64/mariadb/plugin",
    "/usr/lib/mariadb/plugin",
    "/usr/lib/libmariadb3/plugin",
    "/usr/local/lib/mariadb/plugin",
    "/opt/homebrew/lib/mariadb/plugin",
};
static const char *const ca_bundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                         "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem"};

/* By name and not by what it resolves to: an answer of the DNS must not switch verification off. */
static bool is_local(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    if (*host == '/' || strcasecmp(host, "localhost") == 0) return true;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

wr_tls wr_my_tls_for(const wr_my_conn_options *o, const char *host) { return o->tls_chosen ? o->tls : is_local(host) ? WR_TLS_PREFERRED : WR_TLS_VERIFY; }

static void set_options(MYSQL *m, const wr_my_conn_options *o, const char *plugin_dir) {
    unsigned connect_s = o->timeout_s ? (unsigned)o->timeout_s : WR_MY_CONNECT_TIMEOUT_S, io_s = o->timeout_s ? (unsigned)o->timeout_s : IO_TIMEOUT_S, tcp = MYSQL_PROTOCOL_TCP, no = 0;
    unsigned long packet = WR_MY_PACKET_MAX;
    my_bool on = 1, off = 0;
    mysql_options(m, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
    mysql_options(m, MYSQL_OPT_READ_TIMEOUT, &io_s);
    mysql_options(m, MYSQL_OPT_WRITE_TIMEOUT, &io_s);
    mysql_options(m, MYSQL_OPT_MAX_ALLOWED_PACKET, &packet);
    mysql_options(m, MYSQL_OPT_RECONNECT, &off); /* a silent new session would lose locks, snapshot and settings */
    mysql_options(m, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options(m, MYSQL_OPT_LOCAL_INFILE, &no);
    mysql_set_local_infile_handler(m, infile_init, infile_read, infile_end, infile_error, NULL);
    mysql_options4(m, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "weir");
    if (o->host && *o->host != '/')
        mysql_options(m, MYSQL_OPT_PROTOCOL, &tcp); /* "localhost" means TCP here, a path means a socket */
    if (plugin_dir) mysql_options(m, MYSQL_PLUGIN_DIR, plugin_dir);
    /* A server (or who poses as one) may ask for the password in clear text; that is for TLS connections one insisted
     * on (PAM, LDAP). */
    if (o->tls < WR_TLS_REQUIRED)
        mysql_options(
            m, MARIADB_OPT_RESTRICTED_AUTH,
            "mysql_native_password,caching_sha2_password,client_ed25519,sha256_password,parsec,auth_gssapi_client");
    switch (o->tls) {
    case WR_TLS_DISABLED:
        mysql_options(m, MYSQL_OPT_SSL_ENFORCE, &off);
        break;
    case WR_TLS_AUTO:
    case WR_TLS_PREFERRED:
    case WR_TLS_REQUIRED: /* both ask for TLS; the library goes on in clear only when the server does not offer it */
        mysql_options(m, MYSQL_OPT_SSL_ENFORCE, &on);
        mysql_options(m, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &off);
        if (o->tls_ca) mysql_options(m, MYSQL_OPT_SSL_CA, o->tls_ca);
        break;
    case WR_TLS_VERIFY:
        mysql_options(m, MYSQL_OPT_SSL_ENFORCE, &on);
        mysql_options(m, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &on);
        if (o->tls_ca) {
            mysql_options(m, MYSQL_OPT_SSL_CA, o->tls_ca);
        } else {
            for (size_t i = 0; i < sizeof ca_bundles / sizeof *ca_bundles; i++)
                if (access(ca_bundles[i], R_OK) == 0) {
                    mysql_options(m, MYSQL_OPT_SSL_CA, ca_bundles[i]);
                    break;
                }
        }
        break;
    }
}

static wr_code set_session(MYSQL *m, wr_err *err) {
    /* Server-wide defaults that would change results must not reach us: a READ UNCOMMITTED default would let a snapshot
     * see rows that are rolled back, a statement time limit would kill it, completion_type would end the session at
     * COMMIT. */
    static const char *const common[] = {
        "SET SESSION time_zone = '+00:00', sql_mode = '', character_set_results = utf8mb4, autocommit = 1, completion_type = 0, net_write_timeout = "
        "3600, net_read_timeout = 3600, "
        "wait_timeout = 86400, sql_select_limit = 18446744073709551615, lock_wait_timeout = 60",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET SESSION TRANSACTION READ WRITE",
    };
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) WR_TRY(wr_my_exec(m, err, "%s", common[i]));
    return wr_my_exec(m, err, "%s",
                      mariadb_connection(m) ? "SET SESSION max_statement_time = 0"
                                            : "SET SESSION max_execution_time = 0");
}

static void keep_alive(MYSQL *m) {
    int fd = (int)mysql_get_socket(m), on = 1, idle = 60, every = 20, tries = 6;
    if (fd < 0) return;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
}

static wr_code connect_once(const wr_my_conn_options *o, const char *plugin_dir, MYSQL **ret, unsigned *ret_no,
                            wr_err *err) {
    MYSQL *m = mysql_init(NULL);
    if (!m) return wr_nomem(err, "a connection", sizeof *m);
    set_options(m, o, plugin_dir);
    bool is_path = o->host && *o->host == '/';
    if (!mysql_real_connect(m, is_path ? NULL : o->host, o->user, o->password, NULL, is_path ? 0 : (unsigned)o->port,
                            is_path ? o->host : NULL, 0)) {
        *ret_no = mysql_errno(m);
        fail_with(err, mysql_errno(m), mysql_sqlstate(m), mysql_error(m), o->host, (unsigned)o->port, o->user,
                  o->password, "connecting", true);
        mysql_close(m);
        return err->code;
    }
    *ret = m;
    return WR_OK;
}

/* @thread any: the library's one-time set-up is its own business before the first mysql_init of several threads. */
__attribute__((constructor)) static void library_init(void) { (void)mysql_library_init(0, NULL, NULL); }

__attribute__((cold, noinline)) static wr_code no_tls(const wr_my_conn_options *o, wr_err *err) {
    wr_fail(err, WR_E_NET, WR_RETRY_NO, "connecting at %s:%d as '%s': the server offers no TLS, and tls is %s%s", o->host, o->port, o->user,
            o->tls == WR_TLS_VERIFY ? "verify" : "required", o->tls_chosen ? "" : ", as it is for servers on other machines when nothing is said");
    return wr_err_cure(err, "switch TLS on in the server (ssl_cert, ssl_key), or, in a network you trust, set source.tls: preferred");
}

wr_code wr_my_connect(const wr_my_conn_options *o, MYSQL **ret_mysql, wr_err *err) {
    if (o->tls_ca && access(o->tls_ca, R_OK) != 0 && o->tls != WR_TLS_DISABLED)
        return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "tls_ca: cannot read %s", o->tls_ca);
    MYSQL *m = NULL;
    unsigned no = 0;
    wr_code rc = connect_once(o, NULL, &m, &no, err);
    for (size_t i = 0; rc != WR_OK && no == AUTH_PLUGIN_CANNOT_LOAD && i < sizeof plugin_dirs / sizeof *plugin_dirs;
         i++)
        if (access(plugin_dirs[i], R_OK) == 0) rc = connect_once(o, plugin_dirs[i], &m, &no, err);
    if (rc != WR_OK) return rc;
    if (o->tls >= WR_TLS_REQUIRED && !mysql_get_ssl_cipher(m)) {
        mysql_close(m);
        return no_tls(o, err);
    }
    keep_alive(m);
    watch_errors(m);
    if (o->lines && (rc = wr_my_lines_add(o->lines, m, err)) != WR_OK) {
        mysql_close(m);
        return rc;
    }
    if (set_session(m, err) != WR_OK) {
        wr_my_disconnect(m);
        return wr_err_in(err, "setting up the session");
    }
    *ret_mysql = m;
    return WR_OK;
}

void wr_my_answer_within(MYSQL *m, int seconds) {
    MARIADB_PVIO *pvio = m->net.pvio;
    if (pvio && pvio->methods->set_timeout) pvio->methods->set_timeout(pvio, PVIO_READ_TIMEOUT, seconds);
}

/* Whoever makes a new connection to a server that has frozen finds that out as soon. */
wr_code wr_my_rest(MYSQL *m, wr_err *err) {
    wr_my_answer_within(m, WR_MY_CONNECT_TIMEOUT_S);
    WR_TRY(wr_my_exec(m, err, "ROLLBACK"));
    return wr_my_exec(m, err, "UNLOCK TABLES");
}

wr_code wr_my_renew(const wr_my_conn_options *o, MYSQL *m, wr_err *err) {
    m->net.max_packet_size = WR_MY_PACKET_MAX;
    WR_TRY(set_session(m, err));
    wr_my_answer_within(m, o->timeout_s ? o->timeout_s : IO_TIMEOUT_S);
    return WR_OK;
}

void wr_my_take_large(const wr_my_conn_options *o, MYSQL *m) { m->net.max_packet_size = o->packet_max; }

/* A packet of the longest length goes on in a second one. */
bool wr_my_large_ahead(MYSQL *m) {
    const MARIADB_PVIO *pvio = m->net.pvio;
    uint8_t head[3];
    size_t cached = pvio && pvio->cache && pvio->cache_pos && pvio->cache_pos < pvio->cache + pvio->cache_size ? (size_t)(pvio->cache + pvio->cache_size - pvio->cache_pos) : 0;
    if (cached >= sizeof head) memcpy(head, pvio->cache_pos, sizeof head);
    else if (cached || !pvio || pvio->ctls || recv((int)mysql_get_socket(m), head, sizeof head, MSG_PEEK | MSG_DONTWAIT) != sizeof head) return false;
    return head[0] == 0xff && head[1] == 0xff && head[2] == 0xff;
}

/* The library keeps its buffer as large as it ever was: its pages go back, it does not. */
void wr_my_give_back(MYSQL *m) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)m->net.buff + WR_BUF_KEPT, to = (uintptr_t)m->net.buff + m->net.max_packet;
    from = (from + page - 1) / page * page, to = to / page * page;
    if (to > from && m->net.max_packet > WR_BUF_KEPT) (void)madvise((void *)from, to - from, MADV_DONTNEED);
}

void wr_my_disconnect(MYSQL *m) {
    if (!m) return;
    wr_my_lines_leave(m);
    mysql_close(m);
}

void wr_my_abandon(MYSQL *m) {
    if (!m) return;
    /* mysql_close would first read the rest of an open result set, gigabytes perhaps: cut the socket under it. */
    int fd = (int)mysql_get_socket(m);
    if (fd >= 0) (void)shutdown(fd, SHUT_RDWR);
    wr_my_disconnect(m);
}

/* ------------------------------------------------------------------ simple statements */
static char *format(const char *fmt, va_list ap) {
    va_list ap2;
    va_copy(ap2, ap);
    int n = vsnprintf(NULL, 0, fmt, ap2);
    va_end(ap2);
    char *s = n < 0 ? NULL : wr_malloc((size_t)n + 1);
    if (s) vsnprintf(s, (size_t)n + 1, fmt, ap);
    return s;
}

/* The rest of it is on its way: the connection is of no use any more. */
static wr_code too_much(MYSQL *m, const char *sql, wr_err *err) {
    int fd = (int)mysql_get_socket(m);
    if (fd >= 0) (void)shutdown(fd, SHUT_RDWR);
    wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "the server's answer to \"%.72s%s\" is longer than %zu MB", sql, strlen(sql) > 72 ? "..." : "", WR_MY_ANSWER_MAX >> 20);
    return wr_err_cure(err, "a server of that many tables or logs is more than Weir takes in; is it a MySQL or MariaDB server?");
}

/* A result set as it came, kept: who is handed the rows may use the connection, and an error of theirs leaves it usable. */
typedef struct kept_row {
    struct kept_row *next;
    size_t n;
    uint8_t packet[]; /* n + 1 */
} kept_row;

wr_code wr_my_exec(MYSQL *m, wr_err *err, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    WR_AUTO char *sql = format(fmt, ap);
    va_end(ap);
    if (!sql) return wr_nomem(err, "a statement", strlen(fmt));
    wr_my_fields f = {0};
    WR_TRY(wr_my_ask(m, sql, &f, err));
    bool rows = f.n > 0;
    wr_my_fields_clear(&f);
    uint8_t *p;
    for (size_t n = rows, all = 0; n > 0; all += n + sizeof(kept_row)) {
        if (all > WR_MY_ANSWER_MAX) return too_much(m, sql, err);
        WR_TRY(wr_my_next_row(m, "passing over rows", &p, &n, err));
    }
    return WR_OK;
}

static wr_code keep_rows(MYSQL *m, const char *sql, wr_arena *a, kept_row **ret, wr_err *err) {
    kept_row *first = NULL, **tail = &first;
    for (;;) {
        uint8_t *p;
        size_t n;
        WR_TRY(wr_my_next_row(m, "reading an answer", &p, &n, err));
        if (n == 0) break;
        kept_row *r = wr_arena_alloc(a, sizeof *r + n + 1);
        if (!r) return too_much(m, sql, err);
        r->next = NULL, r->n = n;
        memcpy(r->packet, p, n);
        *tail = r, tail = &r->next;
    }
    *ret = first;
    return WR_OK;
}

typedef wr_code row_fn(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err);

static wr_code query_in(MYSQL *m, const char *sql, wr_arena *a, wr_my_fields *f, row_fn *fn, void *ctx, wr_err *err) {
    kept_row *r = NULL;
    WR_TRY(wr_my_ask(m, sql, f, err));
    if (f->n == 0) return WR_OK;
    WR_TRY(keep_rows(m, sql, a, &r, err));
    char **row = wr_arena_alloc(a, f->n * sizeof *row);
    unsigned long *lengths = wr_arena_alloc(a, f->n * sizeof *lengths);
    if (!row || !lengths) return wr_nomem(err, "a row", f->n * sizeof *row);
    for (; r; r = r->next) {
        wr_code rc = wr_my_text_row(r->packet, r->n, f->n, row, lengths, err);
        if (rc != WR_OK) return wr_err_in(err, "%.72s", sql);
        WR_TRY(fn(ctx, row, lengths, f->n, err));
    }
    return WR_OK;
}

static wr_code query_with(MYSQL *m, const char *sql, wr_my_fields *f, row_fn *fn, void *ctx, wr_err *err) {
    wr_arena *a = wr_arena_new(WR_MY_ANSWER_MAX);
    if (!a) return wr_nomem(err, "an answer", 0);
    wr_code rc = query_in(m, sql, a, f, fn, ctx, err);
    wr_arena_free(a);
    return rc;
}

static wr_code query(MYSQL *m, const char *sql, row_fn *fn, void *ctx, wr_err *err) {
    wr_my_fields f = {0};
    wr_code rc = query_with(m, sql, &f, fn, ctx, err);
    wr_my_fields_clear(&f);
    return rc;
}

typedef struct named {
    const wr_my_fields *f;
    void (*fn)(void *ctx, const char *name, const char *value);
    void *ctx;
} named;

static wr_code each_named(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    const named *d = ctx;
    for (unsigned i = 0; i < ncols; i++) d->fn(d->ctx, d->f->v[i].name, row[i]);
    return WR_OK;
}

wr_code wr_my_query_named(MYSQL *m, void (*fn)(void *ctx, const char *name, const char *value), void *ctx, const char *sql, wr_err *err) {
    wr_my_fields f = {0};
    named d = {&f, fn, ctx};
    wr_code rc = query_with(m, sql, &f, each_named, &d, err);
    wr_my_fields_clear(&f);
    return rc;
}

wr_code wr_my_query(MYSQL *m,
                    wr_code (*fn)(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err),
                    void *ctx, wr_err *err, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    WR_AUTO char *sql = format(fmt, ap);
    va_end(ap);
    if (!sql) return wr_nomem(err, "a query", strlen(fmt));
    return query(m, sql, fn, ctx, err);
}

typedef struct first_value {
    bool seen;
    char *text;
} first_value;

static wr_code take_first(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    first_value *f = ctx;
    if (f->seen || ncols == 0) return WR_OK;
    f->seen = true;
    if (!row[0]) return WR_OK;
    f->text = wr_malloc(lengths[0] + 1);
    if (!f->text) return wr_nomem(err, "a query's value", lengths[0] + 1);
    memcpy(f->text, row[0], lengths[0]);
    f->text[lengths[0]] = 0;
    return WR_OK;
}

wr_code wr_my_scalar(MYSQL *m, char **ret_text, wr_err *err, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    WR_AUTO char *sql = format(fmt, ap);
    va_end(ap);
    if (!sql) return wr_nomem(err, "a query", strlen(fmt));
    first_value f = {0};
    wr_code rc = query(m, sql, take_first, &f, err);
    if (rc != WR_OK) {
        wr_free(f.text);
        return rc;
    }
    *ret_text = f.text;
    return WR_OK;
}

void wr_my_quote_name(wr_buf *b, const char *name) {
    wr_buf_u8(b, '`');
    for (const char *p = name; *p; p++) {
        if (*p == '`') wr_buf_u8(b, '`');
        wr_buf_u8(b, (uint8_t)*p);
    }
    wr_buf_u8(b, '`');
}

void wr_my_quote_text(wr_buf *b, const char *s) {
    /* Backslash is an escape character unless sql_mode has NO_BACKSLASH_ESCAPES, which our sessions never set. */
    wr_buf_u8(b, '\'');
    for (const char *p = s; *p; p++) {
        if (*p == '\'' || *p == '\\') wr_buf_u8(b, '\\');
        wr_buf_u8(b, (uint8_t)*p);
    }
    wr_buf_u8(b, '\'');
}
