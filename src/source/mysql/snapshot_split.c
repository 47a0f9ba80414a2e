/* Cutting a table into ranges of about equal size without reading it.
 *
 * The optimiser's row estimate for a key range (EXPLAIN, a "dive" into the index) costs a fraction of a millisecond and
 * is good for small ranges; for large ones it may be off by a factor of two. So the key space is halved again and
 * again, always where most rows are, until every cell is small against a part; the sum of many small estimates is then
 * right to a few per cent. Halving is arithmetic on the key, but only cells with rows are halved: snowflake ids,
 * negative keys and gaps cost a few more dives and never make an empty range. A cell that is down to one value of the
 * first column (a composite key with a dominant value) is cut along the next column.
 *
 * Any literal is a valid cut, whatever the rows: ranges are compared by the server. Cuts on texts are checked for the
 * server's order before use. Keys that are no numbers, dates, texts or bytes are cut at the rows themselves (LIMIT 1
 * OFFSET n) when the table is small enough for that, else not at all. */
#include "snapshot_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "weir/base/mem.h"

typedef __int128 num;

enum {
    CELLS_PER_PART = 24,
    DIVES_MAX = 900,
    ROWS_WORTH_IT = 2000,      /* by the server's statistics, which may be old */
    ROWS_PER_PART_MIN = 10000, /* by the dives, which are not */
    OFFSET_ROWS_MAX = 4000000,
    TEXT_DIGITS = 8, /* base 36: 2.8 * 10^12 */
    BINARY_DIGITS = 7,
};

typedef enum space_kind { SP_NONE = 0, SP_INT, SP_DAY, SP_TIME, SP_TEXT, SP_BINARY } space_kind;

/* One key column as a line of numbers. */
typedef struct space {
    space_kind kind;
    const wr_my_col *col;
    num lo, hi;       /* all keys are in (lo, hi] as far as was known */
    char prefix[200]; /* SP_TEXT, SP_BINARY: hex digits all keys begin with */
} space;

typedef struct cell {
    int level;
    int space;  /* index into cutter.spaces */
    char *head; /* "25," in front of the values at level 1 and deeper, "" at 0 */
    num a, b;   /* (a, b] */
    uint64_t rows;
} cell;

typedef struct cutter {
    wr_snap *sn;
    cell *cells;
    int n, cap;
    space *spaces;
    int nspaces;
    int dives;
} cutter;

static space_kind kind_of(const wr_my_col *c) {
    static const char *const ascii[] = {"utf8mb4", "utf8mb3", "utf8", "ascii", "latin1", "latin2", "gbk"};
    switch (c->kind) {
    case MY_TINYINT:
    case MY_SMALLINT:
    case MY_MEDIUMINT:
    case MY_INT:
    case MY_BIGINT:
        return SP_INT;
    case MY_DATE:
        return SP_DAY;
    case MY_DATETIME:
    case MY_TIMESTAMP:
        return SP_TIME;
    case MY_BINARY:
    case MY_VARBINARY:
    case MY_BLOB:
        return SP_BINARY;
    case MY_CHAR:
    case MY_VARCHAR:
    case MY_TEXT:
        for (size_t i = 0; c->charset && i < sizeof ascii / sizeof *ascii; i++)
            if (strcmp(c->charset, ascii[i]) == 0) return SP_TEXT;
        return SP_NONE;
    default:
        return SP_NONE;
    }
}

static num power(int base, int n) {
    num v = 1;
    while (n-- > 0) v *= base;
    return v;
}

static num parse_int(const char *p) {
    bool neg = *p == '-';
    num v = 0;
    for (p += neg; *p >= '0' && *p <= '9'; p++) v = v * 10 + (*p - '0');
    return neg ? -v : v;
}

/* Zero and partial dates count as the beginning of time; they are on the open side anyway. */
static num parse_time(const char *p, bool day) {
    int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0;
    if (sscanf(p, "%d-%d-%d %d:%d:%d", &y, &mo, &d, &h, &mi, &s) < 3 || y < 1 || mo < 1 || d < 1)
        y = mo = d = 1, h = mi = s = 0;
    num days = wr_days_from_civil(y, mo, d);
    return day ? days : days * 86400 + h * 3600 + mi * 60 + s;
}

static void put_value(wr_buf *b, const space *sp, num v) {
    switch (sp->kind) {
    case SP_DAY:
    case SP_TIME: {
        num days = sp->kind == SP_DAY ? v : v >= 0 ? v / 86400 : -((-v + 86399) / 86400);
        int y, m, d;
        wr_civil_from_days((int32_t)days, &y, &m, &d);
        wr_buf_printf(b, "%04d-%02d-%02d", y, m, d);
        if (sp->kind == SP_TIME) {
            int s = (int)(v - days * 86400);
            wr_buf_printf(b, " %02d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
        }
        break;
    }
    case SP_TEXT:
    case SP_BINARY: {
        int base = sp->kind == SP_TEXT ? 36 : 256, digits = sp->kind == SP_TEXT ? TEXT_DIGITS : BINARY_DIGITS;
        wr_buf_printf(b, "x%s", sp->prefix);
        for (int i = digits - 1; i >= 0; i--) {
            int x = (int)(v / power(base, i) % base);
            wr_buf_printf(b, "%02x", base == 256 ? x : x < 10 ? '0' + x : 'a' + x - 10);
        }
        break;
    }
    default: {
        char t[48];
        int i = sizeof t - 1;
        num u = v < 0 ? -v : v;
        t[i] = 0;
        do t[--i] = (char)('0' + (int)(u % 10)), u /= 10;
        while (u);
        if (v < 0) t[--i] = '-';
        wr_buf_printf(b, "%s", t + i);
    }
    }
}

/* The value at `level` of a cursor, NULL when it has none. */
static const char *component(const char *cursor, int level) {
    for (; level > 0 && cursor; level--) {
        cursor = strchr(cursor, ',');
        if (cursor) cursor++;
    }
    return cursor;
}

/* The line that the keys beginning with head's values lie on; SP_NONE when there is none or there are no rows. */
static wr_code find_space(cutter *c, int level, const char *cond, space *ret, wr_err *err) {
    wr_snap *sn = c->sn;
    *ret = (space){.kind = SP_NONE, .col = sn->k.col[level]};
    space_kind kind = kind_of(ret->col);
    if (kind == SP_NONE || sn->prefix_key) return WR_OK;
    WR_AUTO_BUF wr_buf desc = WR_BUF_INIT;
    for (int i = 0; i < sn->k.n; i++) {
        wr_buf_printf(&desc, i ? ", " : "");
        wr_my_quote_name(&desc, sn->k.col[i]->name);
        wr_buf_printf(&desc, " DESC");
    }
    WR_TRY(wr_buf_check(&desc, "an ORDER BY", err));
    WR_AUTO char *up = wr_asprintf("%s%s ORDER BY %s LIMIT 1", *cond ? "WHERE " : "", cond, sn->key_sql);
    WR_AUTO char *down = wr_asprintf("%s%s ORDER BY %s LIMIT 1", *cond ? "WHERE " : "", cond, wr_buf_cstr(&desc));
    if (!up || !down) return wr_nomem(err, "a query", desc.n);
    WR_AUTO char *first = NULL;
    WR_AUTO char *last = NULL;
    WR_TRY(wr_snap_one_key(sn, up, &first, err));
    WR_TRY(wr_snap_one_key(sn, down, &last, err));
    const char *lo = component(first, level), *hi = component(last, level);
    if (!lo || !hi) return WR_OK;
    ret->kind = kind;
    switch (kind) {
    case SP_INT:
        ret->lo = parse_int(lo) - 1, ret->hi = parse_int(hi);
        break;
    case SP_DAY:
        ret->lo = parse_time(lo, true) - 1, ret->hi = parse_time(hi, true);
        break;
    case SP_TIME:
        ret->lo = parse_time(lo, false) - 1, ret->hi = parse_time(hi, false) + 1;
        break;
    default: {
        size_t n = 1; /* hex digits in common, whole bytes */
        while (lo[n] && lo[n] == hi[n] && lo[n] != ',') n++;
        n = (n - 1) / 2 * 2;
        if (n >= sizeof ret->prefix) n = sizeof ret->prefix - 2;
        if (kind == SP_TEXT)
            for (size_t i = 0; i < n; i += 2)
                if (lo[1 + i] > '7') n = i; /* no character is cut in two */
        memcpy(ret->prefix, lo + 1, n);
        ret->prefix[n] = 0;
        ret->lo = -1;
        ret->hi = power(kind == SP_TEXT ? 36 : 256, kind == SP_TEXT ? TEXT_DIGITS : BINARY_DIGITS) - 1;
    }
    }
    if (ret->hi <= ret->lo) ret->kind = SP_NONE;
    return WR_OK;
}

static wr_code cursor_at(const cutter *c, const cell *x, num v, char **ret, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_buf_printf(&b, "%s", x->head);
    put_value(&b, &c->spaces[x->space], v);
    const char *t = wr_buf_cstr(&b);
    return t && (*ret = wr_strdup(t)) ? WR_OK : wr_nomem(err, "a cut", b.n);
}

/* Level 0 is open at both ends: a row outside of what was known belongs to the first or last cell. */
static wr_code dive(cutter *c, cell *x, wr_err *err) {
    const space *sp = &c->spaces[x->space];
    WR_AUTO char *after = NULL;
    WR_AUTO char *upto = NULL;
    if (x->level > 0 || x->a > sp->lo) WR_TRY(cursor_at(c, x, x->a, &after, err));
    if (x->level > 0 || x->b < sp->hi) WR_TRY(cursor_at(c, x, x->b, &upto, err));
    char **conds = NULL;
    int n = 0;
    WR_TRY(wr_my_key_conditions(&c->sn->k, after, upto, &conds, &n, err));
    wr_code rc = WR_OK;
    x->rows = 0;
    for (int i = 0; rc == WR_OK && i < n; i++) {
        uint64_t rows = 0;
        rc = wr_snap_rows_estimate(c->sn, conds[i], &rows, err);
        x->rows += rows;
        c->dives++;
    }
    wr_my_conditions_free(conds, n);
    return rc;
}

static wr_code insert_cell(cutter *c, int at, cell x, wr_err *err) {
    if (c->n == c->cap) {
        int cap = c->cap ? c->cap * 2 : 64;
        cell *v = wr_realloc(c->cells, (size_t)cap * sizeof *v);
        if (!v) return wr_nomem(err, "key cells", (size_t)cap * sizeof *v);
        c->cells = v;
        c->cap = cap;
    }
    memmove(&c->cells[at + 1], &c->cells[at], (size_t)(c->n - at) * sizeof x);
    c->cells[at] = x;
    c->n++;
    return WR_OK;
}

static wr_code add_space(cutter *c, const space *sp, wr_err *err) {
    space *v = wr_realloc(c->spaces, (size_t)(c->nspaces + 1) * sizeof *v);
    if (!v) return wr_nomem(err, "key cells", sizeof *v);
    c->spaces = v;
    c->spaces[c->nspaces++] = *sp;
    return WR_OK;
}

/* One value with many rows: go on along the next key column. Leaves the cell alone when that is not possible. */
static wr_code descend(cutter *c, int at, bool *ret_done, wr_err *err) {
    *ret_done = false;
    cell *x = &c->cells[at];
    if (x->level + 1 >= c->sn->k.n) return WR_OK;
    space_kind k = c->spaces[x->space].kind;
    if (k != SP_INT && k != SP_DAY) return WR_OK;
    WR_AUTO char *value = NULL;
    WR_TRY(cursor_at(c, x, x->b, &value, err));
    WR_AUTO_BUF wr_buf cond = WR_BUF_INIT;
    const char *p = value;
    for (int i = 0; i <= x->level; i++) {
        size_t n = strcspn(p, ",");
        if (i) wr_buf_printf(&cond, " AND ");
        wr_my_quote_name(&cond, c->sn->k.col[i]->name);
        wr_buf_printf(&cond, " = ");
        WR_TRY(wr_my_key_literal(c->sn->k.col[i], wr_slice_of(p, n), &cond, err));
        p += n + (p[n] ? 1 : 0);
    }
    WR_TRY(wr_buf_check(&cond, "a condition", err));
    space sp;
    WR_TRY(find_space(c, x->level + 1, wr_buf_cstr(&cond), &sp, err));
    if (sp.kind == SP_NONE) return WR_OK;
    WR_TRY(add_space(c, &sp, err));
    char *head = wr_asprintf("%s,", value);
    if (!head) return wr_nomem(err, "key cells", strlen(value));
    x = &c->cells[at];
    wr_free(x->head);
    x->head = head;
    x->level++;
    x->space = c->nspaces - 1;
    x->a = sp.lo;
    x->b = sp.hi;
    *ret_done = true;
    return WR_OK;
}

static wr_code refine(cutter *c, int parts, wr_err *err) {
    for (;;) {
        uint64_t total = 0;
        int big = -1;
        for (int i = 0; i < c->n; i++) {
            total += c->cells[i].rows;
            bool can = c->cells[i].b - c->cells[i].a > 1 || c->cells[i].level + 1 < c->sn->k.n;
            if (can && c->cells[i].a < c->cells[i].b && (big < 0 || c->cells[i].rows > c->cells[big].rows)) big = i;
        }
        if (big < 0 || c->dives >= DIVES_MAX || c->cells[big].rows * (uint64_t)(parts * CELLS_PER_PART) <= total ||
            c->cells[big].rows < 100)
            return WR_OK;
        cell *x = &c->cells[big];
        if (x->b - x->a == 1) {
            bool done = false;
            WR_TRY(descend(c, big, &done, err));
            if (!done) c->cells[big].a = c->cells[big].b; /* as small as it gets: not looked at again */
            continue;
        }
        cell right = *x;
        num mid = x->a + (x->b - x->a) / 2;
        if (!(right.head = wr_strdup(x->head))) return wr_nomem(err, "key cells", strlen(x->head));
        right.a = mid;
        x->b = mid;
        wr_code rc = insert_cell(c, big + 1, right, err);
        if (rc != WR_OK) {
            wr_free(right.head);
            return rc;
        }
        WR_TRY(dive(c, &c->cells[big], err));
        WR_TRY(dive(c, &c->cells[big + 1], err));
    }
}

/* Whether the server puts a before b; they are prefix-free on their first level or equal up to it, so the first values
 * decide. */
static wr_code in_order(cutter *c, const char *a, const char *b, bool *ret, wr_err *err) {
    const wr_my_col *col = c->sn->k.col[0];
    *ret = true;
    if (kind_of(col) != SP_TEXT) return WR_OK;
    WR_AUTO_BUF wr_buf q = WR_BUF_INIT;
    wr_buf_printf(&q, "SELECT ");
    WR_TRY(wr_my_key_literal(col, wr_slice_of(a, strcspn(a, ",")), &q, err));
    wr_buf_printf(&q, " < ");
    WR_TRY(wr_my_key_literal(col, wr_slice_of(b, strcspn(b, ",")), &q, err));
    WR_TRY(wr_buf_check(&q, "a query", err));
    WR_AUTO char *yes = NULL;
    WR_TRY(wr_my_scalar(c->sn->m, &yes, err, "%s", wr_buf_cstr(&q)));
    *ret = yes && strcmp(yes, "1") == 0;
    return WR_OK;
}

/* cuts: owned cursors in order. */
static wr_code choose_cuts(cutter *c, int parts, char **cuts, int *ret_n, wr_err *err) {
    uint64_t total = 0, sum = 0;
    for (int i = 0; i < c->n; i++) total += c->cells[i].rows;
    if ((uint64_t)parts > total / ROWS_PER_PART_MIN + 1) parts = (int)(total / ROWS_PER_PART_MIN + 1);
    int n = 0;
    for (int i = 0; i + 1 < c->n && n < parts - 1; i++) {
        uint64_t before = sum, target = total * (uint64_t)(n + 1) / (uint64_t)parts;
        sum += c->cells[i].rows;
        uint64_t next = sum + c->cells[i + 1].rows;
        (void)before;
        if (sum == 0 || sum == total) continue;
        /* the end of this cell, when the next one's is not nearer to the target */
        if (sum < target && next <= target) continue;
        if (sum < target && next - target < target - sum) continue;
        char *cut = NULL;
        WR_TRY(cursor_at(c, &c->cells[i], c->cells[i].b, &cut, err));
        bool ok = true;
        wr_code rc = n > 0 ? in_order(c, cuts[n - 1], cut, &ok, err) : WR_OK;
        if (rc != WR_OK || !ok) {
            wr_free(cut);
            if (rc != WR_OK) return rc;
            continue;
        }
        cuts[n++] = cut;
        *ret_n = n;
    }
    return WR_OK;
}

static wr_code by_dives(wr_snap *sn, int parts, char **cuts, int *ret_n, bool *ret_done, wr_err *err) {
    cutter c = {.sn = sn};
    space sp;
    *ret_done = false;
    WR_TRY(find_space(&c, 0, "", &sp, err));
    if (sp.kind == SP_NONE) return WR_OK;
    wr_code rc = add_space(&c, &sp, err);
    cell first = {.head = wr_strdup(""), .a = sp.lo, .b = sp.hi, .rows = sn->estimate};
    if (rc == WR_OK && !first.head) rc = wr_nomem(err, "key cells", 1);
    if (rc == WR_OK) rc = insert_cell(&c, 0, first, err);
    if (rc == WR_OK) rc = refine(&c, parts, err);
    if (rc == WR_OK) rc = choose_cuts(&c, parts, cuts, ret_n, err);
    *ret_done = *ret_n > 0 || c.spaces[0].kind == SP_INT;
    for (int i = 0; i < c.n; i++) wr_free(c.cells[i].head);
    wr_free(c.cells);
    wr_free(c.spaces);
    return rc;
}

static wr_code by_offset(wr_snap *sn, int parts, char **cuts, int *ret_n, wr_err *err) {
    if (sn->estimate > OFFSET_ROWS_MAX || sn->prefix_key) return WR_OK;
    WR_AUTO char *count = NULL;
    WR_TRY(wr_my_scalar(sn->m, &count, err, "SELECT COUNT(*) FROM %s", sn->table_sql));
    uint64_t rows = count ? strtoull(count, NULL, 10) : 0;
    if ((uint64_t)parts > rows / ROWS_PER_PART_MIN + 1) parts = (int)(rows / ROWS_PER_PART_MIN + 1);
    for (int i = 1; i < parts && rows >= (uint64_t)parts; i++) {
        WR_AUTO char *tail =
            wr_asprintf("ORDER BY %s LIMIT 1 OFFSET %" PRIu64, sn->key_sql, rows * (uint64_t)i / (uint64_t)parts - 1);
        if (!tail) return wr_nomem(err, "a query", strlen(sn->key_sql));
        char *cut = NULL;
        WR_TRY(wr_snap_one_key(sn, tail, &cut, err));
        if (!cut) break;
        if (*ret_n > 0 && strcmp(cuts[*ret_n - 1], cut) == 0)
            wr_free(cut);
        else
            cuts[(*ret_n)++] = cut;
    }
    return WR_OK;
}

wr_code wr_snap_split(wr_snap *sn, int parts, wr_key_range *ret_ranges, int *ret_n, wr_err *err) {
    if (parts < 1) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "a split into %d ranges", parts);
    if (sn->estimate < ROWS_WORTH_IT) parts = 1;
    int n = 0;
    char **cuts = wr_calloc((size_t)parts, sizeof *cuts);
    if (!cuts) return wr_nomem(err, "cuts", (size_t)parts * sizeof *cuts);
    wr_code rc = WR_OK;
    if (parts > 1 && sn->k.n > 0) {
        bool done = false;
        rc = wr_snap_connected(sn, err);
        /* One read view: rows that go meanwhile would move the offsets. */
        if (rc == WR_OK) rc = wr_my_exec(sn->m, err, "START TRANSACTION READ ONLY");
        if (rc == WR_OK) rc = by_dives(sn, parts, cuts, &n, &done, err);
        if (rc == WR_OK && !done) rc = by_offset(sn, parts, cuts, &n, err);
        if (rc == WR_OK) rc = wr_my_exec(sn->m, err, "COMMIT");
    }
    int made = 0;
    for (int i = 0; rc == WR_OK && i <= n; i++) {
        wr_key_range r = {0};
        if (i > 0 && !(r.after = wr_strdup(cuts[i - 1]))) rc = wr_nomem(err, "a range", strlen(cuts[i - 1]));
        if (rc == WR_OK && i < n && !(r.upto = wr_strdup(cuts[i]))) rc = wr_nomem(err, "a range", strlen(cuts[i]));
        if (rc != WR_OK)
            wr_key_range_clear(&r);
        else
            ret_ranges[made++] = r;
    }
    for (int i = 0; i < n; i++) wr_free(cuts[i]);
    wr_free(cuts);
    if (rc != WR_OK) {
        while (made > 0) wr_key_range_clear(&ret_ranges[--made]);
        return wr_err_in(err, "cutting %s.%s into ranges", sn->t->db, sn->t->name);
    }
    *ret_n = made;
    return WR_OK;
}
