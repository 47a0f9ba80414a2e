#include "weir/model.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    [WR_BOOL] = "boolean",
    [WR_INT] = "int",
    [WR_LONG] = "long",
    [WR_FLOAT] = "float",
    [WR_DOUBLE] = "double",
    [WR_DECIMAL] = "decimal",
    [WR_DATE] = "date",
    [WR_TIMESTAMP] = "timestamp",
    [WR_TIMESTAMPTZ] = "timestamptz",
    [WR_STRING] = "string",
    [WR_BINARY] = "binary",
    [WR_FLOATS] = "list<float>",
};
#define NKINDS (sizeof names / sizeof *names)

char *wr_type_name(wr_type t, char buf[32]) {
    if (t.kind == WR_DECIMAL) {
        snprintf(buf, 32, "decimal(%u,%u)", t.precision, t.scale);
    } else if (t.kind == 0 || t.kind >= NKINDS) {
        snprintf(buf, 32, "unknown(%u)", t.kind);
    } else {
        snprintf(buf, 32, "%s", names[t.kind]);
    }
    return buf;
}

/* A number of at most two digits; -1 when there is none. */
static int small_number(const char **s) {
    int v = 0, digits = 0;
    for (; **s >= '0' && **s <= '9'; (*s)++, digits++) {
        if (digits == 2) return -1;
        v = v * 10 + (**s - '0');
    }
    return digits ? v : -1;
}

static void spaces(const char **s) {
    while (**s == ' ') (*s)++;
}

static bool parse_decimal_type(const char *s, wr_type *ret_type) {
    if (strncmp(s, "decimal(", 8) != 0) return false;
    s += 8;
    spaces(&s);
    int precision = small_number(&s);
    spaces(&s);
    if (*s++ != ',') return false;
    spaces(&s);
    int scale = small_number(&s);
    spaces(&s);
    if (s[0] != ')' || s[1] != 0) return false;
    if (precision < 1 || precision > 38 || scale < 0 || scale > precision) return false;
    *ret_type = (wr_type){WR_DECIMAL, (uint8_t)precision, (uint8_t)scale};
    return true;
}

wr_code wr_type_parse(const char *s, wr_type *ret_type, wr_err *err) {
    if (parse_decimal_type(s, ret_type)) return WR_OK;
    for (unsigned k = 1; k < NKINDS; k++) {
        if (k == WR_DECIMAL || strcmp(s, names[k]) != 0) continue;
        *ret_type = (wr_type){(uint8_t)k, 0, 0};
        return WR_OK;
    }
    return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "\"%.40s\" is not a type", s);
}

/* Iceberg specification, "Schema Evolution": int to long, float to double, a wider decimal of the same scale. */
bool wr_type_promotes(wr_type a, wr_type b) {
    if (wr_type_eq(a, b)) return true;
    if (a.kind == WR_INT) return b.kind == WR_LONG;
    if (a.kind == WR_FLOAT) return b.kind == WR_DOUBLE;
    return a.kind == WR_DECIMAL && b.kind == WR_DECIMAL && a.scale == b.scale && a.precision <= b.precision;
}
