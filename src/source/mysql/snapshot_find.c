/* Rows of a table by their keys, as they are now. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "snapshot_impl.h"
#include "weir/base/mem.h"

#define KEYS_AT_ONCE 100

static wr_code unfit(const wr_my_col *c, const char *text, wr_err *err) {
    return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "'%.60s' is no value of key column %s (%s)", text, c->name, c->column_type ? c->column_type : "?");
}

static void put_hex(wr_buf *b, const char *text) {
    for (; *text; text++) wr_buf_printf(b, "%02x", (unsigned char)*text);
}

static bool only(const char *text, const char *set) { return *text && strspn(text, set) == strlen(text); }

/* "2024-02-29T12:00:00.000001Z" as the server takes it. */
static wr_code put_moment(wr_buf *b, const wr_my_col *c, const char *text, wr_err *err) {
    char t[40];
    size_t n = strlen(text);
    if (n >= sizeof t || !only(text, "0123456789-:.TZ ")) return unfit(c, text, err);
    memcpy(t, text, n + 1);
    if (n && t[n - 1] == 'Z') t[n - 1] = 0;
    char *sep = strchr(t, 'T');
    if (sep) *sep = ' ';
    return wr_buf_printf(b, "'%s'", t), WR_OK;
}

/* TIME: microseconds, or the server's text where the policy keeps that. */
static wr_code put_time(wr_buf *b, const wr_my_col *c, const char *text, wr_err *err) {
    if (strchr(text, ':')) return only(text, "0123456789-:.") ? (wr_buf_printf(b, "'%s'", text), WR_OK) : unfit(c, text, err);
    if (!only(text, "0123456789-")) return unfit(c, text, err);
    long long us = strtoll(text, NULL, 10);
    unsigned long long a = us < 0 ? 0ull - (unsigned long long)us : (unsigned long long)us;
    wr_buf_printf(b, "'%s%llu:%02llu:%02llu.%06llu'", us < 0 ? "-" : "", a / 3600000000u, a / 60000000 % 60, a / 1000000 % 60, a % 1000000);
    return WR_OK;
}

/* column = value. The text goes in as hexadecimal digits, so that nothing in it can become SQL. */
static wr_code put_equals(wr_buf *b, const wr_my_col *c, const char *text, wr_err *err) {
    wr_my_quote_name(b, c->name);
    wr_buf_printf(b, " = ");
    switch (c->kind) {
    case MY_TINYINT:
    case MY_SMALLINT:
    case MY_MEDIUMINT:
    case MY_INT:
    case MY_BIGINT:
    case MY_YEAR:
    case MY_DECIMAL:
    case MY_BIT:
        if (!strcmp(text, "true") || !strcmp(text, "false")) text = *text == 't' ? "1" : "0";
        return only(text, "0123456789-.") ? (wr_buf_printf(b, "%s", text), WR_OK) : unfit(c, text, err);
    case MY_DATE:
    case MY_DATETIME:
    case MY_TIMESTAMP: return put_moment(b, c, text, err);
    case MY_TIME: return put_time(b, c, text, err);
    case MY_CHAR:
    case MY_VARCHAR:
    case MY_TEXT:
        wr_buf_printf(b, "CONVERT(_utf8mb4 x'");
        put_hex(b, text);
        wr_buf_printf(b, "' USING %s)", c->charset ? c->charset : "utf8mb4");
        if (c->collation) wr_buf_printf(b, " COLLATE %s", c->collation);
        return WR_OK;
    case MY_ENUM:
    case MY_SET:
    case MY_UUID:
    case MY_INET4:
    case MY_INET6:
        wr_buf_printf(b, "_utf8mb4 x'");
        put_hex(b, text);
        wr_buf_printf(b, "'");
        return WR_OK;
    case MY_BINARY:
    case MY_VARBINARY:
    case MY_BLOB:
        if (!strncmp(text, "0x", 2)) text += 2;
        if (*text && !only(text, "0123456789abcdefABCDEF")) return unfit(c, text, err);
        wr_buf_printf(b, "x'%s'", text);
        return WR_OK;
    default:
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "rows cannot be found by key column %s (%s): it has no text that is exact", c->name, c->column_type ? c->column_type : "?");
        return wr_err_cure(err, "read the whole table again");
    }
}

/* From `at` on; moves it. */
static wr_code condition(const wr_snap *sn, const char *const *keys, int nkeys, int *at, char **ret, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    for (int n = 0; *at < nkeys && n < KEYS_AT_ONCE; n++, (*at)++) {
        wr_buf_printf(&b, "%s(", n ? " OR " : "");
        for (int k = 0; k < sn->k.n; k++) {
            if (k) wr_buf_printf(&b, " AND ");
            WR_TRY(put_equals(&b, sn->k.col[k], keys[*at * sn->k.n + k], err));
        }
        wr_buf_printf(&b, ")");
    }
    const char *text = wr_buf_cstr(&b);
    *ret = text ? wr_strdup(text) : NULL;
    return *ret ? WR_OK : wr_nomem(err, "a condition", b.n);
}

int wr_snap_key_columns(const wr_snap *sn) { return sn->k.n; }

wr_code wr_snap_find(wr_snap *sn, const char *const *keys, int nkeys, wr_row_fn *fn, void *ctx, wr_err *err) {
    if (!sn->k.n) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s.%s has no primary key", sn->t->db, sn->t->name);
    for (int at = 0; at < nkeys;) {
        WR_AUTO char *cond = NULL;
        int from = at;
        WR_TRY(condition(sn, keys, nkeys, &at, &cond, err));
        wr_budget_rows(sn->s->budget, (double)(at - from));
        WR_TRY(wr_snap_read_where(sn, cond, (uint64_t)(at - from), fn, ctx, err));
    }
    return WR_OK;
}
