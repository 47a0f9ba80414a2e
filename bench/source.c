/* What the source can give at most, and a fast writer of changes.
 *
 *   source select PORT TABLE CONNECTIONS text|binary    reads a whole table to nowhere, split by the key `id`
 *   source dump   PORT FILE POSITION                    the binlog from there to its end, to nowhere
 *   source apply  PORT FILE                             runs a file, one statement a line
 *
 * Database shop on 127.0.0.1, user weir, password weir, no TLS. Prints one JSON object.
 */
#include <mysql.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { CONNECTIONS_MAX = 16, EVENT_HEADER_BYTES = 19, DUMP_NON_BLOCK = 1, SERVER_ID = 4242 };
enum { EVENT_TYPE_AT = 5, WRITE_ROWS_V1 = 23, DELETE_ROWS_V1 = 25, WRITE_ROWS_V2 = 30, DELETE_ROWS_V2 = 32 };

static int port;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static double cpu(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}
static void die(MYSQL *m, const char *what) {
    fprintf(stderr, "source: %s: %s\n", what, mysql_error(m));
    exit(1);
}
static MYSQL *server(void) {
    unsigned long packet = 1ul << 30;
    my_bool off = 0;
    MYSQL *m = mysql_init(NULL);
    mysql_options(m, MYSQL_OPT_MAX_ALLOWED_PACKET, &packet);
    mysql_options(m, MYSQL_OPT_SSL_ENFORCE, &off);
    mysql_options(m, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (!mysql_real_connect(m, "127.0.0.1", "weir", "weir", "shop", (unsigned)port, NULL, 0)) die(m, "connecting");
    if (mysql_query(m, "SET SESSION time_zone = '+00:00', net_write_timeout = 3600")) die(m, "the session");
    return m;
}

/* ------------------------------------------------------------------ select */
struct part {
    pthread_t thread;
    char sql[512];
    int binary;
    uint64_t rows, bytes;
};

/* The packets are looked at as Weir does: a row packet is counted and forgotten. */
static void binary_read(MYSQL *m, struct part *p) {
    MYSQL_STMT *st = mysql_stmt_init(m);
    if (mysql_stmt_prepare(st, p->sql, strlen(p->sql)) || mysql_stmt_execute(st)) die(m, p->sql);
    for (;;) {
        unsigned long n = mysql_net_read_packet(m);
        if (n == packet_error) die(m, "reading rows");
        if (n < 9 && m->net.read_pos[0] == 0xfe) break;
        p->rows++;
        p->bytes += n;
    }
    st->state = MYSQL_STMT_FETCH_DONE;
    m->status = MYSQL_STATUS_READY;
    mysql_stmt_close(st);
}
static void text_read(MYSQL *m, struct part *p) {
    if (mysql_query(m, p->sql)) die(m, p->sql);
    MYSQL_RES *r = mysql_use_result(m);
    if (!r) die(m, p->sql);
    unsigned n = mysql_num_fields(r);
    for (MYSQL_ROW row; (row = mysql_fetch_row(r));) {
        unsigned long *len = mysql_fetch_lengths(r);
        for (unsigned i = 0; i < n; i++) p->bytes += len[i];
        p->rows++;
    }
    if (mysql_errno(m)) die(m, "reading rows");
    mysql_free_result(r);
}
static void *part_main(void *arg) {
    struct part *p = arg;
    MYSQL *m = server();
    if (p->binary) binary_read(m, p);
    else text_read(m, p);
    mysql_close(m);
    return NULL;
}

static int do_select(const char *table, int connections, int binary) {
    static struct part parts[CONNECTIONS_MAX];
    if (connections < 1 || connections > CONNECTIONS_MAX) return fprintf(stderr, "source: 1 to %d connections\n", CONNECTIONS_MAX), 2;
    char sql[256];
    MYSQL *m = server();
    snprintf(sql, sizeof sql, "SELECT COALESCE(MIN(id), 0), COALESCE(MAX(id), 0) FROM %s", table);
    if (mysql_query(m, sql)) die(m, sql);
    MYSQL_RES *r = mysql_store_result(m);
    MYSQL_ROW row = mysql_fetch_row(r);
    long long lo = atoll(row[0]), hi = atoll(row[1]) + 1;
    mysql_free_result(r);
    mysql_close(m);
    double start = now();
    for (int i = 0; i < connections; i++) {
        struct part *p = &parts[i];
        p->binary = binary;
        snprintf(p->sql, sizeof p->sql, "SELECT * FROM %s WHERE id >= %lld AND id < %lld", table, lo + (hi - lo) * i / connections,
                 lo + (hi - lo) * (i + 1) / connections);
        if (pthread_create(&p->thread, NULL, part_main, p)) return perror("source: thread"), 1;
    }
    uint64_t rows = 0, bytes = 0;
    for (int i = 0; i < connections; i++) {
        pthread_join(parts[i].thread, NULL);
        rows += parts[i].rows, bytes += parts[i].bytes;
    }
    printf("{\"rows\": %llu, \"bytes\": %llu, \"wall_s\": %.3f, \"cpu_s\": %.3f}\n", (unsigned long long)rows, (unsigned long long)bytes, now() - start, cpu());
    return 0;
}

/* ------------------------------------------------------------------ dump */
static void put(unsigned char *to, uint64_t v, int n) {
    for (int i = 0; i < n; i++) to[i] = (unsigned char)(v >> 8 * i);
}

static int do_dump(const char *file, const char *position) {
    unsigned char request[512];
    size_t n = strlen(file);
    if (n > sizeof request - 10) return fprintf(stderr, "source: the file's name is too long\n"), 2;
    MYSQL *m = server();
    if (mysql_query(m, "SET @master_binlog_checksum = @@global.binlog_checksum") || mysql_query(m, "SET @source_binlog_checksum = @@global.binlog_checksum")) die(m, "checksum");
    if (mariadb_connection(m) && mysql_query(m, "SET @mariadb_slave_capability = 4")) die(m, "capability");
    put(request, strtoull(position, NULL, 10), 4);
    put(request + 4, DUMP_NON_BLOCK, 2);
    put(request + 6, SERVER_ID, 4);
    memcpy(request + 10, file, n);
    uint64_t events = 0, row_events = 0, bytes = 0;
    double start = now();
    if (m->methods->db_command(m, COM_BINLOG_DUMP, (char *)request, 10 + n, 1, NULL)) die(m, "the dump");
    for (;;) {
        unsigned long len = mysql_net_read_packet(m);
        if (len == packet_error) die(m, "reading the binlog");
        const unsigned char *p = m->net.read_pos;
        if (len < 9 && p[0] == 0xfe) break;
        if (len < EVENT_HEADER_BYTES + 1) continue;
        unsigned type = p[EVENT_TYPE_AT];
        row_events += (type >= WRITE_ROWS_V1 && type <= DELETE_ROWS_V1) || (type >= WRITE_ROWS_V2 && type <= DELETE_ROWS_V2);
        events++;
        bytes += len - 1;
    }
    printf("{\"events\": %llu, \"row_events\": %llu, \"bytes\": %llu, \"wall_s\": %.3f, \"cpu_s\": %.3f}\n", (unsigned long long)events,
           (unsigned long long)row_events, (unsigned long long)bytes, now() - start, cpu());
    mysql_close(m);
    return 0;
}

/* ------------------------------------------------------------------ apply */
static int do_apply(const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) return perror(path), 1;
    MYSQL *m = server();
    char *line = NULL;
    size_t cap = 0;
    uint64_t affected = 0, statements = 0;
    double start = now();
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0;) {
        if (line[n - 1] == '\n') n--;
        if (mysql_real_query(m, line, (unsigned long)n)) die(m, "a change");
        uint64_t rows = mysql_affected_rows(m);
        if (rows != (uint64_t)-1) affected += rows;
        statements++;
    }
    printf("{\"statements\": %llu, \"changes\": %llu, \"wall_s\": %.3f}\n", (unsigned long long)statements, (unsigned long long)affected, now() - start);
    free(line);
    fclose(f);
    mysql_close(m);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 2) port = atoi(argv[2]);
    if (argc == 6 && !strcmp(argv[1], "select")) return do_select(argv[3], atoi(argv[4]), !strcmp(argv[5], "binary"));
    if (argc == 5 && !strcmp(argv[1], "dump")) return do_dump(argv[3], argv[4]);
    if (argc == 4 && !strcmp(argv[1], "apply")) return do_apply(argv[3]);
    fprintf(stderr, "usage: source select PORT TABLE CONNECTIONS text|binary | source dump PORT FILE POSITION | source apply PORT FILE\n");
    return 2;
}
