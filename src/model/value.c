#include "value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ calendar
 * H. Hinnant, "chrono-Compatible Low-Level Date Algorithms": years begin in March, so that the leap day is the last. */
int32_t wr_days_from_civil(int year, int month, int day) {
    int64_t y = (int64_t)year - (month <= 2);
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t yoe = y - era * 400;
    int64_t doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return (int32_t)(era * 146097 + doe - 719468);
}

static void civil(int64_t days, int *ret_year, int *ret_month, int *ret_day) {
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    *ret_day = (int)(doy - (153 * mp + 2) / 5 + 1);
    *ret_month = (int)(mp < 10 ? mp + 3 : mp - 9);
    *ret_year = (int)(yoe + era * 400 + (*ret_month <= 2));
}

void wr_civil_from_days(int32_t days, int *ret_year, int *ret_month, int *ret_day) {
    civil(days, ret_year, ret_month, ret_day);
}

/* ------------------------------------------------------------------ decimals */
unsigned __int128 wr_pow10_(unsigned n) {
    unsigned __int128 v = 1;
    while (n--) v *= 10;
    return v;
}

void wr_decimal_print_(wr_buf *b, unsigned scale, __int128 unscaled) {
    char text[64], *p = text + sizeof text;
    unsigned __int128 u = unscaled < 0 ? -(unsigned __int128)unscaled : (unsigned __int128)unscaled;
    unsigned digits = 0;
    for (; u > 0 || digits <= scale; digits++, u /= 10) {
        if (digits == scale && scale > 0) *--p = '.';
        *--p = (char)('0' + (int)(u % 10));
    }
    if (unscaled < 0) *--p = '-';
    wr_buf_put(b, p, (size_t)(text + sizeof text - p));
}

wr_code wr_decimal_parse(const char *s, size_t n, wr_type t, __int128 *ret_unscaled, wr_err *err) {
    size_t i = 0;
    bool minus = n > 0 && s[0] == '-', point = false;
    if (n > 0 && (s[0] == '-' || s[0] == '+')) i = 1;
    unsigned __int128 limit = wr_pow10_(t.precision), v = 0;
    unsigned frac = 0;
    bool digits = false;
    for (; i < n; i++) {
        if (s[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (s[i] < '0' || s[i] > '9') goto unfit;
        digits = true;
        if (point && frac == t.scale) {
            if (s[i] != '0') goto unfit; /* more digits than the scale holds */
            continue;
        }
        frac += point;
        v = v * 10 + (unsigned)(s[i] - '0'); /* below 10^39, so it cannot pass 2^128 */
        if (v >= limit) goto unfit;
    }
    if (!digits) goto unfit;
    for (; frac < t.scale; frac++) {
        v *= 10;
        if (v >= limit) goto unfit;
    }
    *ret_unscaled = minus ? -(__int128)v : (__int128)v;
    return WR_OK;
unfit:
    return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "\"%.*s\" does not fit decimal(%u,%u) exactly", (int)(n < 80 ? n : 80),
                   s, t.precision, t.scale);
}

/* ------------------------------------------------------------------ printing */
void wr_hex_print_(wr_buf *b, wr_slice s) {
    static const char digit[] = "0123456789abcdef";
    uint8_t *d = s.n > SIZE_MAX / 2 ? NULL : wr_buf_room(b, s.n * 2);
    if (!d) return;
    for (size_t i = 0; i < s.n; i++) {
        d[2 * i] = (uint8_t)digit[s.p[i] >> 4];
        d[2 * i + 1] = (uint8_t)digit[s.p[i] & 15];
    }
    b->n += s.n * 2;
}

/* The shortest decimal form that reads back as the same value. */
static void print_real(wr_buf *b, double v, bool single) {
    char text[40];
    if (isnan(v)) {
        snprintf(text, sizeof text, "NaN");
    } else if (isinf(v)) {
        snprintf(text, sizeof text, v < 0 ? "-Infinity" : "Infinity");
    } else {
        int most = single ? 9 : 17;
        for (int digits = single ? 6 : 15; digits <= most; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, v);
            if (single ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v) break;
        }
    }
    wr_buf_put(b, text, strlen(text));
}

static void print_timestamp(wr_buf *b, int64_t us, bool tz) {
    const int64_t day_us = 86400LL * 1000000;
    int64_t in_day = us % day_us, days = us / day_us;
    if (in_day < 0) in_day += day_us, days--;
    int y, m, d;
    civil(days, &y, &m, &d);
    int64_t sec = in_day / 1000000;
    wr_buf_printf(b, "%04d-%02d-%02dT%02d:%02d:%02d.%06d%s", y, m, d, (int)(sec / 3600), (int)(sec / 60 % 60),
                  (int)(sec % 60), (int)(in_day % 1000000), tz ? "Z" : "");
}

void wr_value_print(wr_buf *b, wr_type t, const wr_value *v) {
    int y, m, d;
    if (v->null) {
        wr_buf_put(b, "null", 4);
        return;
    }
    switch ((wr_kind)t.kind) {
    case WR_BOOL:
        wr_buf_printf(b, "%s", v->b ? "true" : "false");
        break;
    case WR_INT:
        wr_buf_printf(b, "%d", v->i32);
        break;
    case WR_LONG:
        wr_buf_printf(b, "%lld", (long long)v->i64);
        break;
    case WR_FLOAT:
        print_real(b, (double)v->f32, true);
        break;
    case WR_DOUBLE:
        print_real(b, v->f64, false);
        break;
    case WR_DECIMAL:
        wr_decimal_print_(b, t.scale, v->dec);
        break;
    case WR_DATE:
        civil(v->i32, &y, &m, &d);
        wr_buf_printf(b, "%04d-%02d-%02d", y, m, d);
        break;
    case WR_TIMESTAMP:
        print_timestamp(b, v->i64, false);
        break;
    case WR_TIMESTAMPTZ:
        print_timestamp(b, v->i64, true);
        break;
    case WR_STRING:
        wr_buf_put(b, v->s.p, v->s.n);
        break;
    case WR_BINARY:
        wr_buf_put(b, "0x", 2);
        wr_hex_print_(b, v->s);
        break;
    case WR_FLOATS:
        wr_buf_u8(b, '[');
        for (size_t i = 0; i + 4 <= v->s.n; i += 4) {
            float f;
            memcpy(&f, v->s.p + i, 4);
            if (i) wr_buf_u8(b, ',');
            print_real(b, (double)f, true);
        }
        wr_buf_u8(b, ']');
        break;
    }
}

/* ------------------------------------------------------------------ reading what was printed */
static bool parse_hex(wr_slice t, wr_buf *bytes) {
    if (t.n >= 2 && t.p[0] == '0' && t.p[1] == 'x') t.p += 2, t.n -= 2;
    if (t.n % 2) return false;
    for (size_t i = 0; i < t.n; i += 2) {
        int v = 0;
        for (int k = 0; k < 2; k++) {
            uint8_t c = t.p[i + (size_t)k] | 0x20;
            if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
            v = v * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
        }
        wr_buf_u8(bytes, (uint8_t)v);
    }
    return true;
}

static bool parse_integer(const char *s, int64_t min, int64_t max, int64_t *ret) {
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (!((*s >= '0' && *s <= '9') || *s == '-') || *end || errno || v < min || v > max) return false;
    *ret = v;
    return true;
}

static bool parse_real(const char *s, double *ret) {
    char *end;
    if (!strcmp(s, "NaN")) return *ret = NAN, true;
    if (!strcmp(s, "Infinity") || !strcmp(s, "-Infinity")) return *ret = *s == '-' ? -INFINITY : INFINITY, true;
    if (strspn(s, "0123456789+-.eE") != strlen(s) || !*s) return false;
    *ret = strtod(s, &end);
    return !*end;
}

static bool parse_time(const char *s, wr_type t, int64_t *ret) {
    int y, mo, d, h = 0, mi = 0, sec = 0, us = 0, n = 0;
    bool date = t.kind == WR_DATE;
    bool ok = date ? sscanf(s, "%d-%2d-%2d%n", &y, &mo, &d, &n) == 3 : sscanf(s, "%d-%2d-%2dT%2d:%2d:%2d.%6d%n", &y, &mo, &d, &h, &mi, &sec, &us, &n) == 7;
    if (!ok || strcmp(s + n, t.kind == WR_TIMESTAMPTZ ? "Z" : "") || mo < 1 || mo > 12 || d < 1 || d > 31) return false;
    __int128 days = wr_days_from_civil(y, mo, d); /* the first day that int64 holds begins before its smallest value */
    __int128 v = date ? days : days * 86400000000 + (h * 3600 + mi * 60 + sec) * INT64_C(1000000) + us;
    *ret = (int64_t)v;
    return v == *ret;
}

wr_code wr_value_parse(wr_slice text, wr_type t, wr_buf *bytes, wr_value *ret, wr_err *err) {
    char s[96];
    wr_value v = {0};
    int64_t i = 0;
    double real = 0;
    bool ok;
    wr_buf_clear(bytes);
    if (t.kind == WR_STRING) return v.s = text, *ret = v, WR_OK;
    if (t.kind == WR_BINARY) {
        ok = parse_hex(text, bytes);
        WR_TRY(wr_buf_check(bytes, "value", err));
        v.s = wr_buf_view(bytes);
    } else {
        ok = text.n < sizeof s && !memchr(text.p, 0, text.n);
        if (ok) memcpy(s, text.p, text.n), s[text.n] = 0;
        switch (ok ? t.kind : 0) {
        case WR_BOOL: v.b = !strcmp(s, "true"), ok = v.b || !strcmp(s, "false"); break;
        case WR_INT: ok = parse_integer(s, INT32_MIN, INT32_MAX, &i), v.i32 = (int32_t)i; break;
        case WR_LONG: ok = parse_integer(s, INT64_MIN, INT64_MAX, &i), v.i64 = i; break;
        case WR_FLOAT: ok = parse_real(s, &real), v.f32 = (float)real; break;
        case WR_DOUBLE: ok = parse_real(s, &real), v.f64 = real; break;
        case WR_DECIMAL: return wr_decimal_parse(s, text.n, t, &v.dec, err) == WR_OK ? (*ret = v, WR_OK) : err->code;
        case WR_DATE: ok = parse_time(s, t, &i), v.i32 = (int32_t)i; break;
        case WR_TIMESTAMP:
        case WR_TIMESTAMPTZ: ok = parse_time(s, t, &i), v.i64 = i; break;
        default: ok = false;
        }
    }
    char name[32];
    if (!ok) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "'%.*s' is no %s", text.n > 80 ? 80 : (int)text.n, (const char *)text.p, wr_type_name(t, name));
    *ret = v;
    return WR_OK;
}
