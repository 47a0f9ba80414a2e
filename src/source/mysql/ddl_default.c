#include "ddl_default.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "value.h"
#include "weir/base/mem.h"

/* ------------------------------------------------------------------ numbers */
/* Digits of a decimal literal without sign, point and leading zeroes. */
typedef struct digits {
    bool negative;
    char d[128];   /* whole and fraction */
    int whole, frac;
} digits;

static bool digits_parse(const char *s, digits *ret) {
    digits g = {0};
    while (*s == ' ') s++;
    if (*s == '-' || *s == '+') g.negative = *s++ == '-';
    bool any = false;
    for (; isdigit((unsigned char)*s); s++, any = true)
        if (g.whole || *s != '0') {
            if (g.whole >= 70) return false;
            g.d[g.whole++] = *s;
        }
    if (*s == '.')
        for (s++; isdigit((unsigned char)*s); s++, any = true) {
            if (g.frac >= 24 + 1 && *s != '0') return false;
            if (g.frac < 25) g.d[g.whole + g.frac++] = *s;
        }
    while (*s == ' ') s++;
    if (*s || !any) return false; /* an exponent is left to the server */
    *ret = g;
    return true;
}

/* Rounds half away from zero to `scale` digits behind the point, as DECIMAL and integers do. Result: digits of whole and exactly `scale` of fraction. */
static void digits_round(digits *g, int scale) {
    while (g->frac < scale) g->d[g->whole + g->frac++] = '0';
    if (g->frac == scale) return;
    bool up = g->d[g->whole + scale] >= '5';
    g->frac = scale;
    for (int i = g->whole + scale - 1; up && i >= 0; i--) {
        if (g->d[i] != '9') {
            g->d[i]++;
            return;
        }
        g->d[i] = '0';
    }
    if (!up) return;
    memmove(g->d + 1, g->d, (size_t)g->whole + (size_t)g->frac);
    g->d[0] = '1';
    g->whole++;
}

static bool digits_zero(const digits *g) {
    for (int i = 0; i < g->whole + g->frac; i++)
        if (g->d[i] != '0') return false;
    return true;
}

static bool digits_int(const char *text, __int128 *ret) {
    digits g;
    if (!digits_parse(text, &g)) return false;
    digits_round(&g, 0);
    if (g.whole > 30) return false;
    __int128 v = 0;
    for (int i = 0; i < g.whole; i++) v = v * 10 + (g.d[i] - '0');
    *ret = g.negative ? -v : v;
    return true;
}

static wr_my_initial int_initial(const wr_my_col *c, const char *text, wr_type type, wr_value *ret) {
    static const struct { int64_t min, max; uint64_t umax; } ranges[] = {
        [MY_TINYINT] = {-128, 127, 255}, [MY_SMALLINT] = {-32768, 32767, 65535}, [MY_MEDIUMINT] = {-8388608, 8388607, 16777215},
        [MY_INT] = {INT32_MIN, INT32_MAX, UINT32_MAX}, [MY_BIGINT] = {INT64_MIN, INT64_MAX, UINT64_MAX}};
    __int128 v;
    if (!digits_int(text, &v)) return WR_MY_INITIAL_UNKNOWN;
    __int128 min = c->is_unsigned ? 0 : ranges[c->kind].min, max = c->is_unsigned ? (__int128)ranges[c->kind].umax : ranges[c->kind].max;
    if (v < min || v > max) return WR_MY_INITIAL_UNKNOWN;
    if (type.kind == WR_INT) ret->i32 = (int32_t)v;
    else if (type.kind == WR_LONG) ret->i64 = (int64_t)v;
    else ret->dec = v;
    return WR_MY_INITIAL_VALUE;
}

static wr_my_initial bit_initial(const wr_my_col *c, const char *text, wr_type type, wr_value *ret) {
    __int128 v;
    if (!digits_int(text, &v) || v < 0 || (c->length < 64 && v >= (__int128)1 << c->length) || v > (__int128)UINT64_MAX) return WR_MY_INITIAL_UNKNOWN;
    if (type.kind == WR_BOOL) ret->b = v != 0;
    else if (type.kind == WR_LONG) ret->i64 = (int64_t)v;
    else ret->dec = v;
    return WR_MY_INITIAL_VALUE;
}

static wr_my_initial decimal_initial(const wr_my_col *c, const char *text, wr_type type, wr_value *ret, wr_buf *scratch) {
    digits g;
    if (!digits_parse(text, &g)) return WR_MY_INITIAL_UNKNOWN;
    if (g.frac > 24) return WR_MY_INITIAL_UNKNOWN;
    digits_round(&g, c->scale);
    if (g.whole > (int)c->length - c->scale || (c->is_unsigned && g.negative && !digits_zero(&g))) return WR_MY_INITIAL_UNKNOWN;
    wr_buf_clear(scratch);
    if (g.negative && !digits_zero(&g)) wr_buf_u8(scratch, '-');
    if (g.whole == 0) wr_buf_u8(scratch, '0');
    wr_buf_put(scratch, g.d, (size_t)g.whole);
    if (c->scale) wr_buf_u8(scratch, '.');
    wr_buf_put(scratch, g.d + g.whole, c->scale);
    if (type.kind == WR_STRING) return ret->s = wr_buf_view(scratch), WR_MY_INITIAL_VALUE;
    wr_err ignored = WR_ERR_INIT;
    const char *s = wr_buf_cstr(scratch);
    if (!s || wr_decimal_parse(s, scratch->n, type, &ret->dec, &ignored) != WR_OK) return WR_MY_INITIAL_UNKNOWN;
    return WR_MY_INITIAL_VALUE;
}

static wr_my_initial float_initial(const wr_my_col *c, const char *text, wr_value *ret) {
    digits g;
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !isfinite(v) || (c->is_unsigned && v < 0)) return WR_MY_INITIAL_UNKNOWN;
    const char *paren = c->column_type ? strchr(c->column_type, ',') : NULL;
    if (paren) { /* FLOAT(M,D) rounds: the same value when the literal has no more digits than D, fits 15 digits and the server's arithmetic leaves it alone */
        int dec = atoi(paren + 1);
        if (!digits_parse(text, &g) || g.frac > dec || dec > 15 || g.whole + g.frac > 15) return WR_MY_INITIAL_UNKNOWN;
        if (g.whole > atoi(strchr(c->column_type, '(') + 1) - dec) return WR_MY_INITIAL_UNKNOWN;
        double ten = 1, floor = (double)(int64_t)v;
        for (int i = 0; i < dec; i++) ten *= 10;
        if (floor > v) floor--;
        if (floor + (double)(int64_t)((v - floor) * ten + 0.5) / ten != v) return WR_MY_INITIAL_UNKNOWN;
    }
    if (c->kind == MY_DOUBLE) return ret->f64 = v, WR_MY_INITIAL_VALUE;
    ret->f32 = (float)v;
    return isfinite(ret->f32) ? WR_MY_INITIAL_VALUE : WR_MY_INITIAL_UNKNOWN;
}

/* ------------------------------------------------------------------ dates and times */
static bool number_at(const char **s, int min, int max, int *ret) {
    int n = 0, v = 0;
    while (isdigit((unsigned char)(*s)[n]) && n < max) v = v * 10 + ((*s)[n++] - '0');
    if (n < min || isdigit((unsigned char)(*s)[n])) return false;
    *s += n;
    *ret = v;
    return true;
}

/* ".123" to microseconds; digits beyond the column's are rounded or cut, which depends on sql_mode: only zeroes may stand there. */
static bool fraction_at(const char **s, int scale, int *ret_us) {
    *ret_us = 0;
    if (**s != '.') return true;
    (*s)++;
    int us = 0, n = 0;
    for (; isdigit((unsigned char)**s); (*s)++, n++) {
        if (n >= scale && **s != '0') return false;
        if (n < 6) us = us * 10 + (**s - '0');
    }
    for (; n < 6; n++) us *= 10;
    *ret_us = us;
    return true;
}

typedef struct civil { int y, mo, d, h, mi, s, us; bool has_time; } civil;

static bool civil_parse(const char *s, int scale, civil *ret) {
    civil c = {0};
    size_t n = strlen(s);
    if ((n == 8 || n == 14) && strspn(s, "0123456789") == n) { /* 20240131, 20240131235959 */
        sscanf(s, "%4d%2d%2d", &c.y, &c.mo, &c.d);
        if (n == 14) sscanf(s + 8, "%2d%2d%2d", &c.h, &c.mi, &c.s), c.has_time = true;
    } else if (strcmp(s, "0") != 0) {
        if (!number_at(&s, 4, 4, &c.y) || *s++ != '-' || !number_at(&s, 1, 2, &c.mo) || *s++ != '-' || !number_at(&s, 1, 2, &c.d)) return false;
        if (*s == ' ' || *s == 'T') {
            c.has_time = true;
            s++;
            if (!number_at(&s, 1, 2, &c.h) || *s++ != ':' || !number_at(&s, 1, 2, &c.mi)) return false;
            if (*s == ':' && (s++, !number_at(&s, 1, 2, &c.s))) return false;
            if (!fraction_at(&s, scale, &c.us)) return false;
        }
        if (*s) return false;
    }
    if (c.mo > 12 || c.d > 31 || c.h > 23 || c.mi > 59 || c.s > 59) return false;
    *ret = c;
    return true;
}

static int days_in_month(int y, int m) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return m < 1 ? 31 : m == 2 && ((y % 4 == 0 && y % 100 != 0) || y % 400 == 0) ? 29 : days[m - 1];
}

static wr_my_initial date_initial(const wr_my_col *c, const char *text, wr_my_types types, wr_value *ret, wr_buf *scratch) {
    civil v;
    wr_err ignored = WR_ERR_INIT;
    if (!civil_parse(text, c->scale, &v) || (v.mo && v.d > days_in_month(v.y, v.mo))) return WR_MY_INITIAL_UNKNOWN;
    bool midnight = !v.h && !v.mi && !v.s && !v.us;
    wr_code rc;
    if (c->kind == MY_DATE) rc = midnight ? wr_my_put_date(c, types, v.y, v.mo, v.d, ret, scratch, &ignored) : WR_E_INVAL;
    else {
        bool zero = !v.y && !v.mo && !v.d && midnight;
        if (c->kind == MY_TIMESTAMP && !zero && (v.y < 1970 || v.y > 2106 || !v.mo || !v.d)) return WR_MY_INITIAL_UNKNOWN;
        rc = wr_my_put_datetime(c, types, v.y, v.mo, v.d, v.h, v.mi, v.s, v.us, ret, scratch, &ignored);
    }
    if (rc != WR_OK) return WR_MY_INITIAL_UNKNOWN;
    return ret->null ? WR_MY_INITIAL_NONE : WR_MY_INITIAL_VALUE;
}

static bool time_parse(const char *s, int scale, int64_t *ret_us) {
    bool negative = *s == '-';
    if (negative) s++;
    int h, m = 0, sec = 0, us = 0;
    if (!number_at(&s, 1, 3, &h)) return false;
    if (*s == 0 && h == 0) return *ret_us = 0, true;
    if (*s++ != ':' || !number_at(&s, 1, 2, &m)) return false;
    if (*s == ':' && (s++, !number_at(&s, 1, 2, &sec))) return false;
    if (!fraction_at(&s, scale, &us) || *s || h > 838 || m > 59 || sec > 59) return false;
    *ret_us = (((int64_t)h * 60 + m) * 60 + sec) * 1000000 + us;
    if (*ret_us > 3020399000000ll) return false;
    if (negative) *ret_us = -*ret_us;
    return true;
}

static wr_my_initial time_initial(const wr_my_col *c, const char *text, wr_my_types types, wr_value *ret, wr_buf *scratch) {
    int64_t us;
    wr_err ignored = WR_ERR_INIT;
    if (!time_parse(text, c->scale, &us) || wr_my_put_time(c, types, us, ret, scratch, &ignored) != WR_OK) return WR_MY_INITIAL_UNKNOWN;
    return WR_MY_INITIAL_VALUE;
}

/* ------------------------------------------------------------------ texts and bytes */
static size_t characters(const char *s) {
    size_t n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

static bool hex_bytes(const char *s, size_t n, wr_buf *b) {
    if (n % 2) { /* 0x5 is one byte */
        wr_buf_u8(b, (uint8_t)hex_digit(*s));
        s++, n--;
    }
    for (size_t i = 0; i < n; i += 2) {
        int hi = hex_digit(s[i]), lo = hex_digit(s[i + 1]);
        if (hi < 0 || lo < 0) return false;
        wr_buf_u8(b, (uint8_t)(hi << 4 | lo));
    }
    return true;
}

static wr_my_initial bytes_initial(const wr_my_col *c, const char *text, wr_value *ret, wr_buf *scratch) {
    wr_buf_clear(scratch);
    if (strncmp(text, "0x", 2) != 0 || !hex_bytes(text + 2, strlen(text + 2), scratch)) return WR_MY_INITIAL_UNKNOWN;
    if (c->kind != MY_BLOB && scratch->n > c->length) return WR_MY_INITIAL_UNKNOWN;
    if (c->kind == MY_BINARY)
        while (scratch->n < c->length && !scratch->failed) wr_buf_u8(scratch, 0);
    if (scratch->failed) return WR_MY_INITIAL_UNKNOWN;
    ret->s = wr_buf_view(scratch);
    return WR_MY_INITIAL_VALUE;
}

static wr_my_initial put_text(const char *s, size_t n, wr_value *ret, wr_buf *scratch) {
    wr_buf_clear(scratch);
    wr_buf_put(scratch, s, n);
    if (scratch->failed) return WR_MY_INITIAL_UNKNOWN;
    ret->s = wr_buf_view(scratch);
    return WR_MY_INITIAL_VALUE;
}

static wr_my_initial text_initial(const wr_my_col *c, const char *text, wr_value *ret, wr_buf *scratch) {
    size_t n = strlen(text);
    if (c->kind == MY_CHAR)
        while (n && text[n - 1] == ' ') n--;
    WR_AUTO char *cut = wr_strndup(text, n);
    if (!cut || ((c->kind == MY_CHAR || c->kind == MY_VARCHAR) && characters(cut) > c->length)) return WR_MY_INITIAL_UNKNOWN;
    return put_text(text, n, ret, scratch);
}

static bool is_label(const wr_my_col *c, const char *s, size_t n) {
    for (int i = 0; i < c->nlabels; i++)
        if (strlen(c->labels[i]) == n && memcmp(c->labels[i], s, n) == 0) return true;
    return false;
}

/* SET labels in the order of the definition. */
static wr_my_initial set_initial(const wr_my_col *c, const char *text, wr_value *ret, wr_buf *scratch) {
    uint64_t mask = 0;
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, ",");
        int found = -1;
        for (int i = 0; i < c->nlabels && found < 0; i++)
            if (strlen(c->labels[i]) == n && memcmp(c->labels[i], s, n) == 0) found = i;
        if (found < 0 || found > 63) return WR_MY_INITIAL_UNKNOWN;
        mask |= 1ull << found;
        s += n;
        if (*s == ',' && !*++s) return WR_MY_INITIAL_UNKNOWN;
    }
    wr_buf_clear(scratch);
    for (int i = 0; i < c->nlabels && i < 64; i++) {
        if (!(mask >> i & 1)) continue;
        if (scratch->n) wr_buf_u8(scratch, ',');
        wr_buf_put(scratch, c->labels[i], strlen(c->labels[i]));
    }
    if (scratch->failed) return WR_MY_INITIAL_UNKNOWN;
    ret->s = wr_buf_view(scratch);
    return WR_MY_INITIAL_VALUE;
}

/* ------------------------------------------------------------------ the value of old rows */
/* NOT NULL without a default: the type's own zero. */
static const char *implicit_text(const wr_my_col *c) {
    switch (c->kind) {
    case MY_TINYINT:
    case MY_SMALLINT:
    case MY_MEDIUMINT:
    case MY_INT:
    case MY_BIGINT:
    case MY_BIT:
    case MY_DECIMAL:
    case MY_FLOAT:
    case MY_DOUBLE: return "0";
    case MY_YEAR: return "0000";
    case MY_DATE:
    case MY_DATETIME:
    case MY_TIMESTAMP: return "0000-00-00";
    case MY_TIME: return "00:00:00";
    case MY_CHAR:
    case MY_VARCHAR:
    case MY_TEXT:
    case MY_SET: return "";
    case MY_ENUM: return c->nlabels ? c->labels[0] : NULL;
    case MY_BINARY:
    case MY_VARBINARY:
    case MY_BLOB: return "0x";
    case MY_JSON:
    case MY_GEOMETRY:
    case MY_UUID:
    case MY_INET4:
    case MY_INET6:
    case MY_VECTOR: break;
    }
    return NULL;
}

wr_my_initial wr_my_col_initial(const wr_my_col *c, wr_my_types types, wr_value *ret, wr_buf *scratch) {
    if (c->hidden) return WR_MY_INITIAL_NONE;
    if (c->generated || c->auto_increment || c->default_expr) return WR_MY_INITIAL_UNKNOWN;
    const char *text = c->has_default ? c->default_text : NULL;
    if (!text && !c->not_null) return WR_MY_INITIAL_NONE;
    if (!text && !(text = implicit_text(c))) return WR_MY_INITIAL_UNKNOWN;
    *ret = (wr_value){0};
    wr_type type = wr_my_lake_type(c, types);
    switch (c->kind) {
    case MY_TINYINT:
    case MY_SMALLINT:
    case MY_MEDIUMINT:
    case MY_INT:
    case MY_BIGINT: return int_initial(c, text, type, ret);
    case MY_BIT: return bit_initial(c, text, type, ret);
    case MY_DECIMAL: return decimal_initial(c, text, type, ret, scratch);
    case MY_FLOAT:
    case MY_DOUBLE: return float_initial(c, text, ret);
    case MY_YEAR: {
        char *end;
        long y = strtol(text, &end, 10);
        if (strlen(text) != 4 || *end || (y && (y < 1901 || y > 2155))) return WR_MY_INITIAL_UNKNOWN;
        ret->i32 = (int32_t)y;
        return WR_MY_INITIAL_VALUE;
    }
    case MY_DATE:
    case MY_DATETIME:
    case MY_TIMESTAMP: return date_initial(c, text, types, ret, scratch);
    case MY_TIME: return time_initial(c, text, types, ret, scratch);
    case MY_CHAR:
    case MY_VARCHAR:
    case MY_TEXT: return text_initial(c, text, ret, scratch);
    case MY_ENUM: return is_label(c, text, strlen(text)) ? put_text(text, strlen(text), ret, scratch) : WR_MY_INITIAL_UNKNOWN;
    case MY_SET: return set_initial(c, text, ret, scratch);
    case MY_BINARY:
    case MY_VARBINARY:
    case MY_BLOB: return bytes_initial(c, text, ret, scratch);
    case MY_UUID:
    case MY_INET4:
    case MY_INET6: return put_text(text, strlen(text), ret, scratch); /* canonical already */
    case MY_JSON:
    case MY_GEOMETRY:
    case MY_VECTOR: break;
    }
    return WR_MY_INITIAL_UNKNOWN;
}

/* ------------------------------------------------------------------ from SQL */
static bool is_ascii(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] & 0x80) return false;
    return true;
}

static bool is_astral(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((uint8_t)s[i] >= 0xf0) return true;
    return false;
}

/* Digits as the server would print the number: only plain ones are certain. */
static bool plain_number(const char *s) {
    if (*s == '-') s++;
    if (*s == '0' && s[1] && s[1] != '.') return false;
    size_t whole = strspn(s, "0123456789");
    if (whole == 0) return false;
    s += whole;
    if (*s == '.') {
        size_t frac = strspn(++s, "0123456789");
        if (frac == 0) return false;
        s += frac;
    }
    return *s == 0;
}

static bool bits_value(const wr_ddl_lit *lit, unsigned long long *ret) {
    const char *s = lit->text;
    while (*s == '0' && s[1]) s++;
    if (strlen(s) > (lit->kind == WR_LIT_BIN ? 64 : 16)) return false;
    *ret = strtoull(*s ? s : "0", NULL, lit->kind == WR_LIT_BIN ? 2 : 16);
    return true;
}

/* Canonical text of the literal for the column, owned; NULL when it is not certain what the server stores. *nomem when memory is out. */
static char *number_text(const wr_my_col *c, const wr_ddl_lit *lit, const wr_ddl_session *se) {
    unsigned long long v;
    if (lit->kind == WR_LIT_NUMBER || lit->kind == WR_LIT_STRING) return lit->n == strlen(lit->text) ? wr_strdup(lit->text) : NULL;
    if (lit->kind == WR_LIT_XHEX && se->sv.is_mariadb) return NULL; /* a string there, also where a number is wanted */
    return bits_value(lit, &v) ? wr_asprintf("%llu", v) : NULL;
}

static char *bit_text(const wr_ddl_lit *lit) {
    unsigned long long v;
    if (lit->kind == WR_LIT_STRING) return NULL; /* its bytes count, not its digits */
    if (lit->kind == WR_LIT_NUMBER) return strspn(lit->text, "0123456789") == lit->n ? wr_strdup(lit->text) : NULL;
    return bits_value(lit, &v) ? wr_asprintf("%llu", v) : NULL;
}

static char *bytes_text(const wr_ddl_lit *lit, const wr_ddl_session *se) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    if (lit->kind == WR_LIT_HEX || lit->kind == WR_LIT_XHEX) {
        if (!hex_bytes(lit->text, lit->n, &b)) return NULL;
    } else if (lit->kind == WR_LIT_STRING) {
        if (!is_ascii(lit->text, lit->n) && !se->utf8_client) return NULL;
        wr_buf_put(&b, lit->text, lit->n);
    } else if (lit->kind == WR_LIT_NUMBER && plain_number(lit->text)) wr_buf_put(&b, lit->text, lit->n);
    else return NULL;
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    wr_buf_printf(&text, "0x");
    for (size_t i = 0; i < b.n; i++) wr_buf_printf(&text, "%02x", b.p[i]);
    const char *s = wr_buf_cstr(&text);
    return s ? wr_strdup(s) : NULL;
}

/* Whether every character certainly exists in the column's character set. */
static bool representable(const wr_my_col *c, const char *s, size_t n) {
    if (!c->charset || is_ascii(s, n)) return true;
    if (strcmp(c->charset, "utf8mb4") == 0) return true;
    return (strcmp(c->charset, "utf8mb3") == 0 || strcmp(c->charset, "ucs2") == 0) && !is_astral(s, n);
}

static char *string_text(const wr_my_col *c, const wr_ddl_lit *lit) {
    if (lit->kind == WR_LIT_NUMBER) return plain_number(lit->text) && c->kind != MY_ENUM && c->kind != MY_SET ? wr_strdup(lit->text) : NULL;
    if (lit->kind != WR_LIT_STRING || strlen(lit->text) != lit->n || !representable(c, lit->text, lit->n)) return NULL;
    if (c->kind != MY_ENUM && c->kind != MY_SET) return wr_strdup(lit->text);
    size_t n = lit->n;
    while (n && lit->text[n - 1] == ' ') n--;
    /* labels compare by collation; only without case is done here */
    WR_AUTO char *s = wr_strndup(lit->text, n);
    if (!s) return NULL;
    if (c->kind == MY_SET || is_label(c, s, n)) return WR_STEAL(s);
    const char *found = NULL;
    int hits = 0;
    for (int i = 0; i < c->nlabels; i++)
        if (strcasecmp(c->labels[i], s) == 0) found = c->labels[i], hits++;
    bool without_case = c->collation && strlen(c->collation) > 3 && strcmp(c->collation + strlen(c->collation) - 3, "_ci") == 0;
    return hits == 1 && without_case ? wr_strdup(found) : NULL;
}

static char *year_text(const wr_ddl_lit *lit) {
    if (lit->kind != WR_LIT_NUMBER && lit->kind != WR_LIT_STRING) return NULL;
    char *end;
    long y = strtol(lit->text, &end, 10);
    if (*end || !lit->n || lit->n > 4 || y < 0) return NULL;
    if (lit->n == 4 || (lit->kind == WR_LIT_NUMBER && y == 0)) return wr_asprintf("%04ld", y);
    if (y == 0 || lit->n > 2) return NULL;
    return wr_asprintf("%ld", y < 70 ? 2000 + y : 1900 + y);
}

/* A TIMESTAMP literal is in the session's zone; kept in UTC. Only a fixed offset can be turned. */
static char *timestamp_text(const wr_my_col *c, const wr_ddl_lit *lit, const wr_ddl_session *se) {
    civil v;
    int h, m;
    char sign;
    if (!civil_parse(lit->text, c->scale, &v)) return NULL;
    if (!v.y && !v.mo && !v.d) return wr_strdup("0000-00-00 00:00:00");
    if (!se->time_zone) return NULL;
    if (strcasecmp(se->time_zone, "UTC") == 0) h = m = 0, sign = '+';
    else if (sscanf(se->time_zone, "%c%2d:%2d", &sign, &h, &m) != 3 || (sign != '+' && sign != '-')) return NULL;
    if (!v.mo || !v.d || v.d > days_in_month(v.y, v.mo)) return NULL;
    int64_t minutes = ((int64_t)wr_days_from_civil(v.y, v.mo, v.d) * 24 + v.h) * 60 + v.mi - (sign == '-' ? -1 : 1) * (h * 60 + m);
    int64_t days = minutes / 1440, rest = minutes % 1440;
    if (rest < 0) days--, rest += 1440;
    int y, mo, d;
    wr_civil_from_days((int32_t)days, &y, &mo, &d);
    return wr_asprintf("%04d-%02d-%02d %02d:%02d:%02d.%06d", y, mo, d, (int)(rest / 60), (int)(rest % 60), v.s, v.us);
}

static char *inet_text(const wr_my_col *c, const wr_ddl_lit *lit) {
    unsigned char raw[16];
    char text[INET6_ADDRSTRLEN];
    int family = c->kind == MY_INET4 ? AF_INET : AF_INET6;
    if (lit->kind != WR_LIT_STRING || inet_pton(family, lit->text, raw) != 1 || !inet_ntop(family, raw, text, sizeof text)) return NULL;
    return strcasecmp(text, lit->text) == 0 ? wr_strdup(text) : NULL;
}

static char *uuid_text(const wr_ddl_lit *lit) {
    if (lit->kind != WR_LIT_STRING || lit->n != 36) return NULL;
    for (size_t i = 0; i < 36; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? lit->text[i] != '-' : hex_digit(lit->text[i]) < 0) return NULL;
    }
    char *s = wr_strdup(lit->text);
    for (char *p = s; p && *p; p++) *p = (char)tolower((unsigned char)*p);
    return s;
}

static char *canonical(const wr_my_col *c, const wr_ddl_lit *lit, const wr_ddl_session *se) {
    switch (c->kind) {
    case MY_TINYINT:
    case MY_SMALLINT:
    case MY_MEDIUMINT:
    case MY_INT:
    case MY_BIGINT:
    case MY_DECIMAL:
    case MY_FLOAT:
    case MY_DOUBLE: return number_text(c, lit, se);
    case MY_BIT: return bit_text(lit);
    case MY_YEAR: return year_text(lit);
    case MY_TIMESTAMP: return lit->kind == WR_LIT_STRING || lit->kind == WR_LIT_NUMBER ? timestamp_text(c, lit, se) : NULL;
    case MY_DATE:
    case MY_DATETIME:
    case MY_TIME:
        return (lit->kind == WR_LIT_STRING || lit->kind == WR_LIT_NUMBER) && strlen(lit->text) == lit->n ? wr_strdup(lit->text) : NULL;
    case MY_BINARY:
    case MY_VARBINARY:
    case MY_BLOB: return bytes_text(lit, se);
    case MY_CHAR:
    case MY_VARCHAR:
    case MY_TEXT:
    case MY_ENUM:
    case MY_SET: return string_text(c, lit);
    case MY_UUID: return uuid_text(lit);
    case MY_INET4:
    case MY_INET6: return inet_text(c, lit);
    case MY_JSON:
    case MY_GEOMETRY:
    case MY_VECTOR: break;
    }
    return NULL;
}

bool wr_ddl_default_set(wr_my_col *c, const wr_ddl_lit *lit, const wr_ddl_session *se) {
    wr_free(c->default_text);
    c->default_text = NULL;
    c->has_default = true;
    c->default_expr = false;
    if (lit->kind == WR_LIT_NULL) return true;
    if (!lit->odd) c->default_text = canonical(c, lit, se);
    if (!c->default_text) { /* also when memory is out: a reload is always right */
        c->has_default = false;
        c->default_expr = true;
    }
    return true;
}
