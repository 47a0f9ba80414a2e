/* Sums that the server makes over a table, and the same text of a row here.
 *
 * A row's text: the values in column order, joined by commas, nulls left out; behind them one digit for each column that may be null (1 = it is), and the lengths in bytes of
 * texts and binaries; so that no two rows have the same text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "snapshot_impl.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

#define ROWS_PER_QUERY 500000
#define QUERY_S 5 /* with a limit of rows a second: so many seconds' rows at once, as they are paid for afterwards */
#define QUERIES_MAX 4096

static bool is_text(const wr_my_col *c) { return c->kind == MY_CHAR || c->kind == MY_VARCHAR || c->kind == MY_TEXT || c->kind == MY_ENUM || c->kind == MY_SET || c->kind == MY_JSON; }
static bool is_bytes(const wr_my_col *c) { return is_text(c) || c->kind == MY_BINARY || c->kind == MY_VARBINARY || c->kind == MY_BLOB; }

bool wr_snap_can_sum(const wr_snap *sn, char why[200]) {
    for (int i = 0; i < sn->t->ncols; i++) {
        const wr_my_col *c = &sn->t->cols[i];
        if (sn->t->lake_col[i] < 0) continue;
        bool real = c->kind == MY_FLOAT || c->kind == MY_DOUBLE;
        if (!real && c->kind != MY_GEOMETRY && c->kind != MY_VECTOR) continue;
        snprintf(why, 200, "the server writes no exact text of column %.60s (%.60s)", c->name, c->column_type ? c->column_type : "?");
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ as SQL */
/* Columns of different collations cannot stand in one CONCAT but as bytes, which costs the server a quarter more. */
static bool is_utf8(const wr_my_col *c) {
    return c->kind != MY_JSON && c->charset && (!strcmp(c->charset, "utf8mb4") || !strcmp(c->charset, "utf8mb3") || !strcmp(c->charset, "utf8") || !strcmp(c->charset, "ascii"));
}

static bool one_collation(const wr_snap *sn) {
    const char *first = NULL;
    for (int i = 0; i < sn->t->ncols; i++) {
        const wr_my_col *c = &sn->t->cols[i];
        if (sn->t->lake_col[i] < 0 || !is_text(c)) continue;
        if (!is_utf8(c) || !c->collation || (first && strcmp(first, c->collation))) return false;
        first = c->collation;
    }
    return true;
}

static void put_expr(wr_buf *b, const wr_my_col *c, bool plain) {
    bool text = false;
    switch (c->kind) {
    case MY_TINYINT:
    case MY_SMALLINT:
    case MY_MEDIUMINT:
    case MY_INT:
    case MY_BIGINT:
    case MY_DECIMAL: /* zeros of ZEROFILL go with + 0 */
        wr_my_quote_name(b, c->name);
        if (c->column_type && strstr(c->column_type, "zerofill")) wr_buf_printf(b, "+0");
        return;
    case MY_YEAR:
    case MY_BIT:
        wr_my_quote_name(b, c->name);
        wr_buf_printf(b, "+0");
        return;
    case MY_CHAR:
    case MY_VARCHAR:
    case MY_TEXT:
    case MY_ENUM:
    case MY_SET:
    case MY_JSON: text = !plain; break;
    case MY_UUID:
    case MY_INET4:
    case MY_INET6: wr_buf_printf(b, "LOWER(CAST("); break;
    default: break;
    }
    bool convert = text && !is_utf8(c);
    if (text) wr_buf_printf(b, convert ? "CAST(CONVERT(" : "CAST(");
    wr_my_quote_name(b, c->name);
    if (text) wr_buf_printf(b, convert ? " USING utf8mb4) AS BINARY)" : " AS BINARY)");
    if (c->kind == MY_UUID || c->kind == MY_INET4 || c->kind == MY_INET6) wr_buf_printf(b, " AS CHAR))");
}

static void put_text_sql(wr_buf *b, const wr_snap *sn) {
    const wr_my_table *t = sn->t;
    bool plain = one_collation(sn);
    wr_buf_printf(b, "CONCAT_WS(','");
    for (int i = 0; i < t->ncols; i++) {
        if (t->lake_col[i] < 0) continue;
        wr_buf_printf(b, ",");
        put_expr(b, &t->cols[i], plain);
    }
    int n = 0;
    for (int i = 0; i < t->ncols; i++) {
        if (t->lake_col[i] < 0 || t->cols[i].not_null) continue;
        wr_buf_printf(b, n++ ? ",ISNULL(" : ",CONCAT(ISNULL(");
        wr_my_quote_name(b, t->cols[i].name);
        wr_buf_printf(b, ")");
    }
    if (n) wr_buf_printf(b, ")");
    for (int i = 0; i < t->ncols; i++) {
        if (t->lake_col[i] < 0 || !is_bytes(&t->cols[i])) continue;
        wr_buf_printf(b, ",LENGTH(");
        put_expr(b, &t->cols[i], plain);
        wr_buf_printf(b, ")");
    }
    wr_buf_printf(b, ")");
}

/* ------------------------------------------------------------------ as text */
/* Printing takes most of the time of reading a lake's rows: by hand, as quick as the rest. */
static void put_digits(wr_buf *b, uint64_t v, int least) {
    char t[20];
    int n = 0;
    do t[sizeof t - (size_t)++n] = (char)('0' + v % 10), v /= 10;
    while (v);
    while (n < least) t[sizeof t - (size_t)++n] = '0';
    wr_buf_put(b, t + sizeof t - n, (size_t)n);
}

static void put_signed(wr_buf *b, int64_t v) {
    if (v < 0) wr_buf_u8(b, '-');
    put_digits(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 1);
}

static void put_day(wr_buf *b, int32_t days) {
    int y, m, d;
    wr_civil_from_days(days, &y, &m, &d);
    put_digits(b, (uint64_t)y, 4), wr_buf_u8(b, '-'), put_digits(b, (uint64_t)m, 2), wr_buf_u8(b, '-'), put_digits(b, (uint64_t)d, 2);
}

static void put_clock(wr_buf *b, uint64_t us, int scale) {
    static const uint32_t unit[] = {1000000, 100000, 10000, 1000, 100, 10, 1};
    uint64_t s = us / 1000000;
    put_digits(b, s / 3600, 2), wr_buf_u8(b, ':'), put_digits(b, s / 60 % 60, 2), wr_buf_u8(b, ':'), put_digits(b, s % 60, 2);
    if (scale > 0 && scale <= 6) wr_buf_u8(b, '.'), put_digits(b, us % 1000000 / unit[scale], scale);
}

static void put_decimal(wr_buf *b, wr_type t, const wr_value *v) {
    static const uint64_t p10[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
    if (t.scale >= sizeof p10 / sizeof *p10 || v->dec > INT64_MAX || v->dec < -INT64_MAX) {
        wr_value_print(b, t, v);
        return;
    }
    uint64_t u = v->dec < 0 ? (uint64_t)-v->dec : (uint64_t)v->dec;
    if (v->dec < 0) wr_buf_u8(b, '-');
    put_digits(b, u / p10[t.scale], 1);
    if (t.scale) wr_buf_u8(b, '.'), put_digits(b, u % p10[t.scale], t.scale);
}

static void put_value(wr_buf *b, wr_type t, const wr_my_col *c, const wr_value *v) {
    switch ((wr_kind)t.kind) {
    case WR_BOOL: wr_buf_u8(b, v->b ? '1' : '0'); break;
    case WR_INT: put_signed(b, v->i32); break;
    case WR_LONG:
        if (c->kind != MY_TIME) {
            put_signed(b, v->i64);
            break;
        }
        if (v->i64 < 0) wr_buf_u8(b, '-');
        put_clock(b, v->i64 < 0 ? 0 - (uint64_t)v->i64 : (uint64_t)v->i64, c->scale);
        break;
    case WR_DECIMAL: put_decimal(b, t, v); break;
    case WR_DATE: put_day(b, v->i32); break;
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ: {
        int64_t day = INT64_C(86400000000), days = v->i64 / day, in = v->i64 % day;
        if (in < 0) in += day, days--;
        put_day(b, (int32_t)days), wr_buf_u8(b, ' '), put_clock(b, (uint64_t)in, c->scale);
        break;
    }
    case WR_STRING:
    case WR_BINARY: wr_buf_put(b, v->s.p, v->s.n); break;
    case WR_FLOAT:
    case WR_DOUBLE:
    case WR_FLOATS: break; /* wr_snap_can_sum */
    }
}

wr_code wr_snap_text(const wr_snap *sn, wr_slice row, wr_buf *out, wr_err *err) {
    const wr_my_table *t = sn->t;
    wr_value few[64];
    WR_AUTO wr_value *many = t->schema->ncols > 64 ? wr_malloc((size_t)t->schema->ncols * sizeof *many) : NULL;
    wr_value *v = t->schema->ncols > 64 ? many : few;
    int n = 0, nullable = 0;
    if (!v) return wr_nomem(err, "row", (size_t)t->schema->ncols * sizeof *v);
    WR_TRY(wr_row_read(t->schema, row, v, err));
    for (int i = 0; i < t->ncols; i++) {
        int at = t->lake_col[i];
        if (at < 0 || v[at].null) continue;
        if (n++) wr_buf_u8(out, ',');
        put_value(out, t->schema->cols[at].type, &t->cols[i], &v[at]);
    }
    for (int i = 0; i < t->ncols; i++) {
        if (t->lake_col[i] < 0 || t->cols[i].not_null) continue;
        if (!nullable++ && n++) wr_buf_u8(out, ',');
        wr_buf_u8(out, v[t->lake_col[i]].null ? '1' : '0');
    }
    for (int i = 0; i < t->ncols; i++) {
        int at = t->lake_col[i];
        if (at < 0 || v[at].null || !is_bytes(&t->cols[i])) continue;
        if (n++) wr_buf_u8(out, ',');
        put_digits(out, v[at].s.n, 1);
    }
    return wr_buf_check(out, "text of a row", err);
}

/* ------------------------------------------------------------------ summing up */
/* Modulo 2^64: with more than 2^32 rows the sum has more bits. */
static uint64_t sum_of(const char *digits) {
    uint64_t sum = 0;
    for (; digits && *digits >= '0' && *digits <= '9'; digits++) sum = sum * 10 + (uint64_t)(*digits - '0');
    return sum;
}

static wr_code take_total(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    wr_snap_total *t = ctx;
    if (ncols < 2 || !row[0]) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "the server sent no sum");
    t->rows += sum_of(row[0]), t->sum += sum_of(row[1]);
    return WR_OK;
}

static wr_code sum_range(wr_snap *sn, const char *what, const wr_key_range *range, wr_snap_total *t, wr_err *err) {
    char **conds = NULL;
    int n = 0;
    WR_TRY(wr_my_key_conditions(&sn->k, range->after, range->upto, &conds, &n, err));
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i < n; i++) rc = wr_my_query(sn->m, take_total, t, err, "SELECT COUNT(*), %s FROM %s%s%s", what, sn->from_sql, *conds[i] ? " WHERE " : "", conds[i]);
    wr_my_conditions_free(conds, n);
    return rc;
}

static wr_code sum_ranges(wr_snap *sn, const char *what, wr_key_range *ranges, int n, wr_snap_total *t, wr_err *err) {
    for (int i = 0; i < n; i++) {
        uint64_t before = t->rows;
        wr_budget_slot slot;
        WR_TRY(wr_source_wait_until_calm(sn->s, NULL, NULL, err));
        wr_budget_enter(sn->s->budget, &slot);
        wr_code rc = sum_range(sn, what, &ranges[i], t, err);
        wr_budget_leave(sn->s->budget, &slot);
        if (rc != WR_OK) return rc;
        wr_budget_rows(sn->s->budget, (double)(t->rows - before));
    }
    return WR_OK;
}

static wr_code take_text(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    if (ncols && row[0]) snprintf(ctx, 40, "%s", row[0]);
    return WR_OK;
}

/* MySQL has it in a component of its own since 9.6; with FIPS it gives NULL. */
wr_code wr_source_check_md5(wr_source *s, wr_err *err) {
    MYSQL *m;
    char md5[40] = "";
    wr_err why = WR_ERR_INIT;
    WR_TRY(wr_my_session(s, &m, err));
    wr_code rc = wr_my_query(m, take_text, md5, &why, "SELECT MD5('weir')");
    wr_my_session_end(s, m, rc);
    if (rc == WR_OK && !strcasecmp(md5, "57c6838eabf401f73f6dd50093408e33")) return WR_OK;
    if (rc != WR_OK && why.retry == WR_RETRY_SOON) return *err = why, rc;
    bool component = s->flavor == WR_MYSQL && s->version_num >= 90600;
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "the server gives no MD5: %s", rc != WR_OK && component ? "the component that has the function since MySQL 9.6 is not installed" : rc != WR_OK ? why.msg : md5[0] ? "MD5('weir') is not what it should be" : "MD5('weir') is NULL, as in FIPS mode");
    if (component) return wr_err_cure(err, "have an administrator run INSTALL COMPONENT 'file://component_classic_hashing'; or compare with --hash fast, or with --method rows");
    return wr_err_cure(err, "compare with --hash fast, or with --method rows");
}

static void put_sum(wr_buf *b, const wr_snap *sn, wr_sum_of what) {
    if (what == WR_SUM_NOTHING) wr_buf_printf(b, "0");
    if (what == WR_SUM_CRC32) wr_buf_printf(b, "SUM(CRC32("), put_text_sql(b, sn), wr_buf_printf(b, "))");
    if (what == WR_SUM_MD5) wr_buf_printf(b, "SUM(CAST(CONV(LEFT(MD5("), put_text_sql(b, sn), wr_buf_printf(b, "),16),16,10) AS UNSIGNED))");
}

wr_code wr_snap_sum(wr_snap *sn, wr_sum_of sum, wr_snap_total *ret, wr_err *err) {
    uint64_t rate = wr_budget_rate(sn->s->budget), each = rate && rate * QUERY_S < ROWS_PER_QUERY ? rate * QUERY_S : ROWS_PER_QUERY, most = sn->estimate / each + 1;
    int n = 1, parts = most > QUERIES_MAX ? QUERIES_MAX : (int)most;
    WR_AUTO wr_key_range *ranges = wr_calloc((size_t)parts, sizeof *ranges);
    WR_AUTO_BUF wr_buf what = WR_BUF_INIT;
    wr_snap_total t = {0};
    if (!ranges) return wr_nomem(err, "ranges", (size_t)parts * sizeof *ranges);
    if (sn->k.n) WR_TRY(wr_snap_split(sn, parts, ranges, &n, err));
    put_sum(&what, sn, sum);
    wr_code rc = wr_buf_cstr(&what) ? wr_snap_view(sn, &t.pos, err) : wr_nomem(err, "SQL", what.n);
    if (rc == WR_OK) rc = sum_ranges(sn, (char *)what.p, ranges, n, &t, err);
    wr_snap_drop(sn, rc != WR_OK);
    for (int i = 0; i < n; i++) wr_key_range_clear(&ranges[i]);
    if (rc == WR_OK) return *ret = t, WR_OK;
    wr_pos_clear(&t.pos);
    if (rc == WR_E_SCHEMA || rc == WR_E_NOTFOUND) err->retry = WR_RETRY_AFTER_RELOAD;
    return wr_err_in(err, "sums of %s.%s", sn->t->db, sn->t->name);
}
