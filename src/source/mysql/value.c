/* Dates and times on their way into the lake, by the type policy. */
#include <stdio.h>
#include "value.h"

/* A day the calendar has, in the years 1 to 9999 that Iceberg's readers know. Year 0, month 0, day 0 and days like 31 February
 * (ALLOW_INVALID_DATES) are what the policy calls zero and partial dates. */
static bool is_day(int y, int m, int d) {
    static const uint8_t len[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (y < 1 || y > 9999 || m < 1 || m > 12 || d < 1) return false;
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    return d <= len[m - 1] + (m == 2 && leap);
}

static void put_text(wr_value *ret, wr_buf *scratch, const char *text, int n) {
    size_t at = scratch->n;
    wr_buf_put(scratch, text, (size_t)n);
    *ret = (wr_value){.s = wr_slice_of(scratch->failed ? NULL : scratch->p + at, scratch->failed ? 0 : (size_t)n)};
}

static int add_fraction(char *text, int n, int us, unsigned scale) {
    if (scale == 0) return n;
    static const int pow10[7] = {1000000, 100000, 10000, 1000, 100, 10, 1};
    if (scale > 6) scale = 6;
    return n + sprintf(text + n, ".%0*d", (int)scale, us / pow10[scale]);
}

__attribute__((cold, noinline)) static wr_code no_date(const wr_my_col *c, const char *text, wr_err *err) {
    wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "column %s holds %s, which no calendar has", c->name, text);
    return wr_err_cure(err, "set types: {zero_date: \"null\"} (or epoch, or string), or correct the value in the source");
}

/* Rows that differ in nothing but a zero date would have one key: an update would meet the wrong one. */
__attribute__((cold, noinline)) static wr_code no_key(const wr_my_col *c, const char *text, wr_err *err) {
    wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "column %s is in the table's key and holds %s, which no calendar has: such rows could not be told apart", c->name, text);
    return wr_err_cure(err, "correct the value in the source, exclude the table, or start a new home with types: {zero_date: string}");
}

__attribute__((cold, noinline)) static void put_replacement(wr_my_types t, wr_value *ret) {
    if (t.replaced) __atomic_add_fetch(t.replaced, 1, __ATOMIC_RELAXED);
    *ret = (wr_value){.null = t.zero_date != WR_ZERO_EPOCH};
}

wr_code wr_my_put_date(const wr_my_col *c, wr_my_types t, int year, int month, int day, wr_value *ret, wr_buf *scratch, wr_err *err) {
    char text[128];
    if (t.zero_date == WR_ZERO_STRING) {
        put_text(ret, scratch, text, sprintf(text, "%04d-%02d-%02d", year, month, day));
        return wr_buf_check(scratch, "date", err);
    }
    if (__builtin_expect(is_day(year, month, day), 1)) {
        *ret = (wr_value){.i32 = wr_days_from_civil(year, month, day)};
        return WR_OK;
    }
    if (t.zero_date == WR_ZERO_ERROR || c->key_ord) {
        sprintf(text, "%04d-%02d-%02d", year, month, day);
        return c->key_ord ? no_key(c, text, err) : no_date(c, text, err);
    }
    put_replacement(t, ret);
    return WR_OK;
}

wr_code wr_my_put_datetime(const wr_my_col *c, wr_my_types t, int year, int month, int day, int h, int m, int s, int us, wr_value *ret,
                           wr_buf *scratch, wr_err *err) {
    char text[128];
    bool ok = is_day(year, month, day);
    if (t.zero_date == WR_ZERO_STRING || (!ok && (t.zero_date == WR_ZERO_ERROR || c->key_ord))) {
        int n = add_fraction(text, sprintf(text, "%04d-%02d-%02d %02d:%02d:%02d", year, month, day, h, m, s), us, c->scale);
        if (t.zero_date != WR_ZERO_STRING) return c->key_ord ? no_key(c, text, err) : no_date(c, text, err);
        put_text(ret, scratch, text, n);
        return wr_buf_check(scratch, "date", err);
    }
    if (__builtin_expect(ok, 1)) {
        *ret = (wr_value){.i64 = ((int64_t)wr_days_from_civil(year, month, day) * 86400 + h * 3600 + m * 60 + s) * 1000000 + us};
        return WR_OK;
    }
    put_replacement(t, ret);
    return WR_OK;
}

wr_code wr_my_put_time(const wr_my_col *c, wr_my_types t, int64_t us, wr_value *ret, wr_buf *scratch, wr_err *err) {
    if (t.time_as != WR_TIME_STRING) {
        *ret = (wr_value){.i64 = us};
        return WR_OK;
    }
    char text[128];
    int64_t a = us < 0 ? -us : us;
    int n = sprintf(text, "%s%02d:%02d:%02d", us < 0 ? "-" : "", (int)(a / 3600000000), (int)(a / 60000000 % 60), (int)(a / 1000000 % 60));
    put_text(ret, scratch, text, add_fraction(text, n, (int)(a % 1000000), c->scale));
    return wr_buf_check(scratch, "time", err);
}
