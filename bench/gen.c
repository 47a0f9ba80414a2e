/* The workload of the benchmarks: a shop's orders table and changes of it.
 *
 *   gen ROWS CHANGES SEED FOLDER     writes FOLDER/orders.tsv and FOLDER/changes.sql, prints what they hold as JSON
 *
 * Rows are about 240 bytes as text. CHANGES row changes: 60 % updates, 25 % inserts, 15 % deletes, in transactions of
 * 10..1000 rows; half of the statements touch one row, the others 2..50. One statement is one line. The same arguments give
 * the same bytes. No update leaves its row as it was, so each change is one row of the binlog.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STATEMENT_ROWS_MAX = 50, TEXT_MAX = 256 };

static uint64_t state;

static uint64_t next(void) { /* splitmix64 */
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static uint64_t below(uint64_t n) { return next() % n; }
static int chance(unsigned percent) { return below(100) < percent; }

static const char *const words[] = {"river",  "gate",    "stone",  "lamp",   "winter", "orange", "harbour", "seven",
                                    "north",  "paper",   "engine", "silver", "market", "bridge", "cloud",   "forest",
                                    "garden", "fenêtre", "miroir", "straße", "wagon",  "письмо", "東京",    "注文"};
static const char *const currencies[] = {"EUR", "USD", "GBP", "JPY", "CHF"};
static const char *const streets[] = {"Mill Lane", "Station Road", "Rue de la Paix", "Hauptstraße", "Via Roma", "Kungsgatan"};
#define PICK(a) ((a)[below(sizeof(a) / sizeof *(a))])

static void instant(char *out, size_t cap, int digits) { /* somewhere in 2024 */
    time_t t = 1704067200 + (time_t)below(31536000);
    struct tm tm;
    gmtime_r(&t, &tm);
    size_t n = strftime(out, cap, "%Y-%m-%d %H:%M:%S", &tm);
    if (digits) snprintf(out + n, cap - n, ".%0*u", digits, (unsigned)below(digits == 3 ? 1000 : 1000000));
}

static void phrase(char *out, size_t cap, unsigned count) {
    size_t n = 0;
    for (unsigned i = 0; i < count; i++) n += (size_t)snprintf(out + n, cap - n, "%s%s", i ? " " : "", PICK(words));
}

struct order {
    uint64_t id, customer;
    unsigned shop, quantity, flags;
    int state;
    unsigned cents, discount; /* discount in hundredths of a percent, 0 = null */
    const char *currency;
    char created[32], updated[32], shipped[32]; /* shipped: empty = null */
    char email[TEXT_MAX], address[TEXT_MAX], note[TEXT_MAX];
    int has_note;
};

static void order_make(struct order *o, uint64_t id) {
    char who[TEXT_MAX];
    *o = (struct order){.id = id,
                        .customer = 1 + below(200000),
                        .shop = (unsigned)(1 + below(500)),
                        .quantity = (unsigned)(1 + below(40)),
                        .flags = (unsigned)next(),
                        .state = (int)below(10) - 2,
                        .cents = (unsigned)(100 + below(9000000)),
                        .discount = chance(30) ? (unsigned)(1 + below(5000)) : 0,
                        .currency = PICK(currencies)};
    instant(o->created, sizeof o->created, 6);
    instant(o->updated, sizeof o->updated, 3);
    if (chance(70)) instant(o->shipped, sizeof o->shipped, 0);
    snprintf(o->email, sizeof o->email, "%s.%" PRIu64 "@example.com", words[below(17)], o->customer);
    phrase(who, sizeof who, 2);
    snprintf(o->address, sizeof o->address, "%s, %s %u, %05u", who, PICK(streets), (unsigned)(1 + below(200)), (unsigned)below(100000));
    o->has_note = chance(80);
    if (o->has_note) phrase(o->note, sizeof o->note, (unsigned)(10 + below(17)));
}

/* One value and the separator before it; NULL is null. No text here holds a quote, a tab or a backslash. */
static void text_write(FILE *f, const char *text, int sql) {
    if (!text) fputs(sql ? ",NULL" : "\t\\N", f);
    else fprintf(f, sql ? ",'%s'" : "\t%s", text);
}
static void hundredths_write(FILE *f, unsigned v, int null, int sql) {
    if (null) text_write(f, NULL, sql);
    else fprintf(f, "%c%u.%02u", sql ? ',' : '\t', v / 100, v % 100);
}
static void order_write(FILE *f, const struct order *o, int sql) {
    char sep = sql ? ',' : '\t';
    fprintf(f, "%" PRIu64 "%c%" PRIu64 "%c%u%c%d%c%u%c%u", o->id, sep, o->customer, sep, o->shop, sep, o->state, sep, o->quantity, sep, o->flags);
    hundredths_write(f, o->cents, 0, sql);
    hundredths_write(f, o->discount, !o->discount, sql);
    text_write(f, o->currency, sql);
    text_write(f, o->created, sql);
    text_write(f, o->updated, sql);
    text_write(f, *o->shipped ? o->shipped : NULL, sql);
    text_write(f, o->email, sql);
    text_write(f, o->address, sql);
    text_write(f, o->has_note ? o->note : NULL, sql);
}

static void die(const char *what) {
    fprintf(stderr, "gen: %s: %s\n", what, strerror(errno));
    exit(1);
}
static FILE *out_open(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    if (!f) die(path);
    setvbuf(f, NULL, _IOFBF, 1 << 20);
    return f;
}
static long out_close(FILE *f) {
    long n = ftell(f);
    if (ferror(f) || fclose(f)) die("writing");
    return n;
}

static uint64_t *live; /* ids that exist, in no order */
static uint64_t live_count, id_next;

/* m different ids that exist; gone = 1 takes them out */
static unsigned ids_pick(uint64_t *out, unsigned m, int gone) {
    unsigned n = 0;
    if (m > live_count) m = (unsigned)live_count;
    while (n < m) {
        uint64_t at = below(live_count);
        unsigned i = 0;
        while (i < n && out[i] != live[at]) i++;
        if (i < n) continue;
        out[n++] = live[at];
        if (gone) live[at] = live[--live_count];
    }
    return n;
}
static void ids_write(FILE *f, const uint64_t *id, unsigned n) {
    for (unsigned i = 0; i < n; i++) fprintf(f, "%s%" PRIu64, i ? "," : "", id[i]);
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "usage: gen ROWS CHANGES SEED FOLDER\n"), 2;
    uint64_t rows = strtoull(argv[1], NULL, 10), changes = strtoull(argv[2], NULL, 10), seed = strtoull(argv[3], NULL, 10);
    if (!(live = malloc((rows + changes + 1) * sizeof *live))) die("memory");

    struct order o;
    state = seed;
    FILE *f = out_open(argv[4], "orders.tsv");
    for (uint64_t id = 1; id <= rows; id++) {
        order_make(&o, id);
        order_write(f, &o, 0);
        putc('\n', f);
        live[live_count++] = id;
    }
    long tsv_bytes = out_close(f);

    state = seed + 1;
    id_next = rows + 1;
    uint64_t updates = 0, inserts = 0, deletes = 0, statements = 0, transactions = 0, ids[STATEMENT_ROWS_MAX];
    f = out_open(argv[4], "changes.sql");
    for (uint64_t left = changes; left;) {
        uint64_t tx = 10 + below(991);
        if (tx > left) tx = left;
        left -= tx;
        transactions++;
        fputs("BEGIN\n", f);
        while (tx) {
            unsigned m = chance(50) ? 1 : (unsigned)(2 + below(49)), p = (unsigned)below(100);
            if (m > tx) m = (unsigned)tx;
            tx -= m;
            statements++;
            if (p < 60 && live_count) {
                m = ids_pick(ids, m, 0);
                char at[32];
                instant(at, sizeof at, 3);
                fprintf(f, "UPDATE orders SET state=%d, price=price+%u.%02u, flags=flags^%u, updated_at='%s' WHERE id IN (", (int)below(10) - 2,
                        (unsigned)below(9), (unsigned)below(100), (unsigned)(1 + below(65535)), at);
                ids_write(f, ids, m);
                fputs(")\n", f);
                updates += m;
            } else if (p < 85 || !live_count) {
                fputs("INSERT INTO orders VALUES ", f);
                for (unsigned i = 0; i < m; i++) {
                    order_make(&o, id_next);
                    live[live_count++] = id_next++;
                    fputs(i ? ",(" : "(", f);
                    order_write(f, &o, 1);
                    putc(')', f);
                }
                putc('\n', f);
                inserts += m;
            } else {
                m = ids_pick(ids, m, 1);
                fputs("DELETE FROM orders WHERE id IN (", f);
                ids_write(f, ids, m);
                fputs(")\n", f);
                deletes += m;
            }
        }
        fputs("COMMIT\n", f);
    }
    long sql_bytes = out_close(f);

    printf("{\"rows\": %" PRIu64 ", \"tsv_bytes\": %ld, \"updates\": %" PRIu64 ", \"inserts\": %" PRIu64 ", \"deletes\": %" PRIu64
           ", \"statements\": %" PRIu64 ", \"transactions\": %" PRIu64 ", \"rows_after\": %" PRIu64 ", \"sql_bytes\": %ld}\n",
           rows, tsv_bytes, updates, inserts, deletes, statements, transactions, live_count, sql_bytes);
    free(live);
    return 0;
}
