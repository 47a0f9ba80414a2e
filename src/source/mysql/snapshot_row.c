/* Rows of the binary protocol (COM_STMT_EXECUTE response; MySQL internals manual, "Binary Protocol Resultset Row") to
 * row encoding. The hot path of the snapshot. */
#include "snapshot_impl.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include "weir/base/large.h"
#include "weir/base/mem.h"

typedef enum wire { W_NONE = 0, W_1, W_2, W_4, W_8, W_DATETIME, W_TIME, W_BYTES } wire;

typedef enum code {
    C_NONE = 0,
    C_I8,
    C_U8,
    C_I16,
    C_U16,
    C_I32, /* to int */
    C_U32,
    C_I64, /* to long */
    C_U64, /* to decimal(20,0) */
    C_4,
    C_8, /* float, double: as they are */
    C_DECIMAL,
    C_DIGITS, /* text to int128, text to text without leading zeros */
    C_BIT_BOOL,
    C_BIT_LONG,
    C_BIT_DECIMAL,
    C_DATE,
    C_DATETIME,
    C_TIME,
    C_TEXT,
    C_PADDED,
    C_BYTES,
    C_GEOMETRY,
    C_LOWER,
} code;

typedef struct op {
    uint8_t code, wire;
    bool ascii; /* bytes below 128 are ASCII in this charset and most texts are just that */
    wr_type type;
    const wr_my_col *col;
    const wr_charset *cs;
} op;

struct wr_snap_plan {
    wr_my_types types;
    const wr_my_key *key;
    int n, nextra;                /* lake columns; numbers behind them */
    size_t room;                  /* bytes a row's fixed part can take */
    int key_op[WR_KEY_PARTS_MAX]; /* index of the field to make the cursor of */
    op op[];
};

static bool is_ascii_based(const char *cs) {
    static const char *const names[] = {"utf8mb4", "utf8mb3", "utf8",   "ascii", "latin1", "gbk",
                                        "latin2",  "cp1251",  "cp1252", "koi8r", "greek",  "hebrew"};
    for (size_t i = 0; cs && i < sizeof names / sizeof *names; i++)
        if (strcmp(cs, names[i]) == 0) return true;
    return false;
}

static wr_code choose(op *o, wr_type type, const wr_my_col *c, wr_err *err) {
    bool u = c->is_unsigned, ok = true;
    o->col = c;
    o->type = type;
    switch (c->kind) {
    case MY_TINYINT:
        o->wire = W_1;
        o->code = u ? C_U8 : C_I8;
        ok = type.kind == WR_INT;
        break;
    case MY_SMALLINT:
        o->wire = W_2;
        o->code = u ? C_U16 : C_I16;
        ok = type.kind == WR_INT;
        break;
    case MY_YEAR:
        o->wire = W_2;
        o->code = C_U16;
        ok = type.kind == WR_INT;
        break;
    case MY_MEDIUMINT:
        o->wire = W_4;
        o->code = C_I32;
        ok = type.kind == WR_INT;
        break;
    case MY_INT:
        o->wire = W_4;
        o->code = u ? C_U32 : C_I32;
        ok = type.kind == (u ? WR_LONG : WR_INT);
        break;
    case MY_BIGINT:
        o->wire = W_8;
        o->code = u ? C_U64 : C_I64;
        ok = type.kind == (u ? WR_DECIMAL : WR_LONG);
        break;
    case MY_BIT:
        o->wire = W_BYTES;
        o->code = type.kind == WR_BOOL ? C_BIT_BOOL : type.kind == WR_LONG ? C_BIT_LONG : C_BIT_DECIMAL;
        ok = type.kind == WR_BOOL || type.kind == WR_LONG || type.kind == WR_DECIMAL;
        break;
    case MY_DECIMAL:
        o->wire = W_BYTES;
        o->code = type.kind == WR_DECIMAL ? C_DECIMAL : C_DIGITS;
        ok = type.kind == WR_DECIMAL || type.kind == WR_STRING;
        break;
    case MY_FLOAT:
        o->wire = W_4;
        o->code = C_4;
        ok = type.kind == WR_FLOAT;
        break;
    case MY_DOUBLE:
        o->wire = W_8;
        o->code = C_8;
        ok = type.kind == WR_DOUBLE;
        break;
    case MY_DATE:
        o->wire = W_DATETIME;
        o->code = C_DATE;
        ok = type.kind == WR_DATE || type.kind == WR_STRING;
        break;
    case MY_DATETIME:
        o->wire = W_DATETIME;
        o->code = C_DATETIME;
        ok = type.kind == WR_TIMESTAMP || type.kind == WR_STRING;
        break;
    case MY_TIMESTAMP:
        o->wire = W_DATETIME;
        o->code = C_DATETIME;
        ok = type.kind == WR_TIMESTAMPTZ || type.kind == WR_STRING;
        break;
    case MY_TIME:
        o->wire = W_TIME;
        o->code = C_TIME;
        ok = type.kind == WR_LONG || type.kind == WR_STRING;
        break;
    case MY_CHAR:
    case MY_VARCHAR:
    case MY_TEXT:
    case MY_ENUM:
    case MY_SET:
    case MY_JSON:
        o->wire = W_BYTES;
        o->code = C_TEXT;
        ok = type.kind == WR_STRING;
        o->ascii = is_ascii_based(c->kind == MY_JSON ? "utf8mb4" : c->charset);
        if (ok) WR_TRY(wr_charset_get(c->kind == MY_JSON || !c->charset ? "utf8mb4" : c->charset, &o->cs, err));
        break;
    case MY_UUID:
    case MY_INET4:
    case MY_INET6:
        o->wire = W_BYTES;
        o->code = C_LOWER;
        ok = type.kind == WR_STRING;
        break;
    case MY_BINARY:
    case MY_VARBINARY:
    case MY_BLOB:
        o->wire = W_BYTES;
        o->code = C_BYTES;
        ok = type.kind == WR_BINARY;
        break;
    case MY_GEOMETRY:
        o->wire = W_BYTES;
        o->code = C_GEOMETRY;
        ok = type.kind == WR_BINARY;
        break;
    case MY_VECTOR:
        o->wire = W_BYTES;
        o->code = C_BYTES;
        ok = type.kind == WR_FLOATS;
        break;
    default:
        ok = false;
        break;
    }
    char name[32];
    if (!ok)
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "column %s (%s) cannot be read as %s", c->name,
                       c->column_type ? c->column_type : "?", wr_type_name(type, name));
    return WR_OK;
}

wr_code wr_snap_plan_new(const wr_my_table *t, wr_my_types types, const wr_my_key *key, bool padded, wr_snap_plan **ret,
                         wr_err *err) {
    size_t bytes = sizeof(wr_snap_plan) + ((size_t)t->schema->ncols + WR_KEY_PARTS_MAX) * sizeof(op);
    wr_snap_plan *p = wr_calloc(1, bytes);
    if (!p) return wr_nomem(err, "a table's reading plan", bytes);
    p->types = types;
    p->key = key;
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i < t->ncols; i++) {
        if (t->lake_col[i] < 0) continue;
        if (t->lake_col[i] != p->n)
            rc = wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "the definition of %s.%s orders its lake columns differently",
                         t->db, t->name);
        else
            rc = choose(&p->op[p->n], t->schema->cols[p->n].type, &t->cols[i], err);
        if (padded && t->cols[i].kind == MY_CHAR) p->op[p->n].code = C_PADDED;
        for (int k = 0; k < key->n; k++)
            if (key->col[k] == &t->cols[i]) p->key_op[k] = p->n;
        p->n++;
    }
    for (int k = 0; k < key->n; k++)
        if (key->col[k]->kind == MY_ENUM || key->col[k]->kind == MY_SET) p->key_op[k] = p->n + p->nextra++;
    if (rc != WR_OK) {
        wr_free(p);
        return rc;
    }
    p->room = ((size_t)p->n + 7) / 8 + 16 * (size_t)p->n + 64;
    *ret = p;
    return WR_OK;
}

void wr_snap_plan_free(wr_snap_plan *p) { wr_free(p); }

static wire wire_of(const MYSQL_FIELD *f) {
    switch ((int)f->type) {
    case MYSQL_TYPE_TINY:
        return W_1;
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_YEAR:
        return W_2;
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_FLOAT:
        return W_4;
    case MYSQL_TYPE_LONGLONG:
    case MYSQL_TYPE_DOUBLE:
        return W_8;
    case MYSQL_TYPE_DATE:
    case MYSQL_TYPE_NEWDATE:
    case MYSQL_TYPE_DATETIME:
    case MYSQL_TYPE_DATETIME2:
    case MYSQL_TYPE_TIMESTAMP:
    case MYSQL_TYPE_TIMESTAMP2:
        return W_DATETIME;
    case MYSQL_TYPE_TIME:
    case MYSQL_TYPE_TIME2:
        return W_TIME;
    case MYSQL_TYPE_NULL:
        return W_NONE;
    default:
        return W_BYTES; /* decimals, strings, blobs, BIT, ENUM, SET, JSON, GEOMETRY, VECTOR (242) */
    }
}

/* What is to come behind the columns for ENUM and SET: `c + 0` may be typed as integer or double by the server. */
static wire extra_wire(wire w) { return w == W_8 || w == W_4 || w == W_BYTES ? w : W_NONE; }

wr_code wr_snap_plan_wire(wr_snap_plan *p, const MYSQL_FIELD *fields, unsigned n, wr_err *err) {
    if (n != (unsigned)(p->n + p->nextra))
        return wr_fail(err, WR_E_SCHEMA, WR_RETRY_AFTER_RELOAD, "the server sends %u columns where %d were asked for",
                       n, p->n + p->nextra);
    for (int i = 0; i < p->n; i++) {
        const op *o = &p->op[i];
        bool is_float = fields[i].type == MYSQL_TYPE_FLOAT || fields[i].type == MYSQL_TYPE_DOUBLE;
        bool want_float = o->code == C_4 || o->code == C_8;
        bool sign_fits = !(o->code >= C_I8 && o->code <= C_U64) || o->col->kind == MY_YEAR ||
                         !!(fields[i].flags & UNSIGNED_FLAG) == o->col->is_unsigned;
        if (wire_of(&fields[i]) != o->wire || is_float != want_float || !sign_fits)
            return wr_fail(err, WR_E_SCHEMA, WR_RETRY_AFTER_RELOAD,
                           "the server sends column %s with protocol type %d%s, which is no %s", o->col->name,
                           (int)fields[i].type, fields[i].flags & UNSIGNED_FLAG ? " unsigned" : "",
                           o->col->column_type ? o->col->column_type : "value of its type");
    }
    for (int i = p->n; i < (int)n; i++) {
        op *o = &p->op[i];
        o->wire = (uint8_t)extra_wire(wire_of(&fields[i]));
        o->code = fields[i].type == MYSQL_TYPE_DOUBLE ? C_8 : C_I64;
        if (o->wire == W_NONE || (o->code == C_8 && o->wire != W_8))
            return wr_fail(err, WR_E_DECODE, WR_RETRY_NO,
                           "the server sends the number of a key value with protocol type %d", (int)fields[i].type);
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ one row */
__attribute__((cold, noinline)) static wr_code misfit(const op *o, const char *what, wr_err *err) {
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "a row from the server does not have the shape announced: %s%s%s",
                   what, o && o->col ? " in column " : "", o && o->col ? o->col->name : "");
}

static inline bool lenenc(const uint8_t **pp, const uint8_t *end, uint64_t *ret) {
    const uint8_t *p = *pp;
    if (__builtin_expect(p >= end, 0)) return false;
    uint8_t b = *p++;
    unsigned w = 0;
    if (__builtin_expect(b < 0xfb, 1))
        *ret = b;
    else {
        w = b == 0xfc ? 2 : b == 0xfd ? 3 : b == 0xfe ? 8 : 0;
        if (!w || (size_t)(end - p) < w) return false;
        uint64_t v = 0;
        memcpy(&v, p, w);
        *ret = v;
    }
    *pp = p + w;
    return true;
}

/* The field's bytes, length bytes of the variable kinds taken off. */
static inline bool take(uint8_t w, const uint8_t **pp, const uint8_t *end, const uint8_t **ret, size_t *ret_n) {
    const uint8_t *p = *pp;
    uint64_t n;
    switch (w) {
    case W_1:
        n = 1;
        break;
    case W_2:
        n = 2;
        break;
    case W_4:
        n = 4;
        break;
    case W_8:
        n = 8;
        break;
    case W_DATETIME:
    case W_TIME:
        if (p >= end) return false;
        n = *p++;
        break;
    default:
        if (!lenenc(&p, end, &n)) return false;
        break;
    }
    if (__builtin_expect((uint64_t)(end - p) < n, 0)) return false;
    *ret = p;
    *ret_n = (size_t)n;
    *pp = p + n;
    return true;
}

typedef struct when {
    int year, month, day, h, m, s, us;
} when;

static inline bool read_datetime(const uint8_t *v, size_t n, when *w) {
    *w = (when){0};
    if (n == 0) return true;
    if (n != 4 && n != 7 && n != 11) return false;
    w->year = v[0] | v[1] << 8;
    w->month = v[2];
    w->day = v[3];
    if (n >= 7) w->h = v[4], w->m = v[5], w->s = v[6];
    if (n == 11) {
        uint32_t us;
        memcpy(&us, v + 7, 4);
        if (us > 999999) return false;
        w->us = (int)us;
    }
    return w->month <= 12 && w->day <= 31 && w->h <= 23 && w->m <= 59 && w->s <= 59;
}

static inline bool read_time(const uint8_t *v, size_t n, int64_t *ret) {
    *ret = 0;
    if (n == 0) return true;
    if (n != 8 && n != 12) return false;
    uint32_t days, us = 0;
    memcpy(&days, v + 1, 4);
    if (n == 12) memcpy(&us, v + 8, 4);
    if (days > 35 || v[5] > 23 || v[6] > 59 || v[7] > 59 || us > 999999) return false;
    int64_t t = ((((int64_t)days * 24 + v[5]) * 60 + v[6]) * 60 + v[7]) * 1000000 + us;
    *ret = v[0] ? -t : t;
    return true;
}

static inline bool all_ascii(const uint8_t *v, size_t n) {
    uint64_t acc = 0, x;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) memcpy(&x, v + i, 8), acc |= x;
    for (; i < n; i++) acc |= v[i];
    return (acc & 0x8080808080808080ull) == 0;
}

/* "-123.4500" with exactly `scale` digits behind the point, at most 38 in all. Anything else is for the general
 * function. */
static inline bool quick_decimal(const uint8_t *v, size_t n, unsigned scale, __int128 *ret) {
    bool neg = n && v[0] == '-';
    size_t i = neg, point = n;
    uint64_t hi = 0, lo = 0; /* hi * 10^18 + lo while more than 18 digits */
    unsigned digits = 0;
    for (; i < n; i++) {
        unsigned c = (unsigned)v[i] - '0';
        if (c > 9) {
            if (v[i] != '.' || point != n) return false;
            point = i;
            continue;
        }
        if (digits == 18)
            hi = lo, lo = 0;
        else if (digits >= 36)
            return false;
        lo = lo * 10 + c;
        digits++;
    }
    if (digits == 0 || (point == n ? 0 : n - point - 1) != scale) return false;
    static const uint64_t p10[19] = {1ull,
                                     10ull,
                                     100ull,
                                     1000ull,
                                     10000ull,
                                     100000ull,
                                     1000000ull,
                                     10000000ull,
                                     100000000ull,
                                     1000000000ull,
                                     10000000000ull,
                                     100000000000ull,
                                     1000000000000ull,
                                     10000000000000ull,
                                     100000000000000ull,
                                     1000000000000000ull,
                                     10000000000000000ull,
                                     100000000000000000ull,
                                     1000000000000000000ull};
    __int128 d = digits > 18 ? (__int128)hi * p10[digits - 18] + lo : (__int128)lo;
    *ret = neg ? -d : d;
    return true;
}

/* Dates that need the policy, texts for time and the like: through value.h. d is where the row ends so far. */
__attribute__((noinline)) static wr_code slow_value(const wr_snap_plan *p, const op *o, int i, const uint8_t *v,
                                                    size_t n, wr_buf *out, wr_err *err) {
    WR_AUTO_BUF wr_buf scratch = WR_BUF_INIT;
    wr_value val = {0};
    when w;
    int64_t t;
    switch (o->code) {
    case C_DATE:
        if (!read_datetime(v, n, &w)) return misfit(o, "no date", err);
        WR_TRY(wr_my_put_date(o->col, p->types, w.year, w.month, w.day, &val, &scratch, err));
        break;
    case C_DATETIME:
        if (!read_datetime(v, n, &w)) return misfit(o, "no date and time", err);
        WR_TRY(wr_my_put_datetime(o->col, p->types, w.year, w.month, w.day, w.h, w.m, w.s, w.us, &val, &scratch, err));
        break;
    case C_TIME:
        if (!read_time(v, n, &t)) return misfit(o, "no time", err);
        WR_TRY(wr_my_put_time(o->col, p->types, t, &val, &scratch, err));
        break;
    case C_DECIMAL:
        WR_TRY(wr_decimal_parse((const char *)v, n, o->type, &val.dec, err));
        break;
    case C_DIGITS: { /* the binlog has no leading zeros of ZEROFILL */
        size_t neg = n && v[0] == '-', at = neg;
        while (at + 1 < n && v[at] == '0' && v[at + 1] != '.') at++;
        if (neg) wr_buf_u8(&scratch, '-');
        wr_buf_put(&scratch, v + at, n - at);
        WR_TRY(wr_buf_check(&scratch, "a decimal", err));
        val.s = wr_buf_view(&scratch);
        break;
    }
    default:
        return misfit(o, "no value", err);
    }
    wr_row_put(out, 0, i, o->type, &val);
    return wr_buf_check(out, "a row", err);
}

/* The value without trailing blanks, as the server cuts it and as the binlog has it. */
static size_t unpadded(const char *charset, const uint8_t *v, size_t n) {
    static const uint8_t be[4] = {0, 0, 0, ' '}, le[2] = {' ', 0};
    bool two = charset && (strcmp(charset, "ucs2") == 0 || strcmp(charset, "utf16") == 0),
         four = charset && strcmp(charset, "utf32") == 0;
    const uint8_t *blank = two ? be + 2 : four ? be : charset && strcmp(charset, "utf16le") == 0 ? le : be + 3;
    size_t w = two || blank == le ? 2 : four ? 4 : 1;
    while (n >= w && memcmp(v + n - w, blank, w) == 0) n -= w;
    return n;
}

__attribute__((noinline)) static wr_code slow_text(const op *o, const uint8_t *v, size_t n, wr_buf *out, wr_err *err) {
    size_t at = out->n;
    wr_buf_u32(out, 0);
    wr_code rc = wr_charset_decode(o->cs, wr_slice_of(v, n), out, err);
    if (rc != WR_OK) return wr_err_in(err, "column %s", o->col->name);
    WR_TRY(wr_buf_check(out, "a row", err));
    if (out->n - at - 4 > UINT32_MAX)
        return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "column %s: a text of more than 4 GiB", o->col->name);
    uint32_t len = (uint32_t)(out->n - at - 4);
    memcpy(out->p + at, &len, 4);
    return WR_OK;
}

wr_code wr_snap_plan_row(const wr_snap_plan *pl, const uint8_t *packet, size_t n, wr_buf *out, wr_err *err) {
    const uint8_t *p = packet, *end = packet + n;
    int ncols = pl->n;
    size_t nulls_n = ((size_t)ncols + (size_t)pl->nextra + 9) / 8;
    if (n < 1 + nulls_n || p[0] != 0) return misfit(NULL, "short packet", err);
    const uint8_t *nulls = p + 1;
    p += 1 + nulls_n;
    wr_buf_clear(out);
    /* Room for everything that is no longer than on the wire; conversions ask for more themselves. */
    uint8_t *d = wr_buf_room(out, pl->room + n);
    if (!d) return wr_buf_check(out, "a row", err);
    size_t nb = ((size_t)ncols + 7) / 8;
    memset(d, 0, nb);
    d += nb;
    for (int i = 0; i < ncols; i++) {
        const op *o = &pl->op[i];
        if (nulls[(i + 2) / 8] & 1u << ((i + 2) % 8)) {
            out->p[i / 8] |= (uint8_t)(1u << (i % 8));
            continue;
        }
        const uint8_t *v;
        size_t vn;
        if (__builtin_expect(!take(o->wire, &p, end, &v, &vn), 0)) return misfit(o, "short value", err);
        switch (o->code) {
        case C_I8: {
            int32_t x = (int8_t)v[0];
            memcpy(d, &x, 4);
            d += 4;
            break;
        }
        case C_U8: {
            int32_t x = v[0];
            memcpy(d, &x, 4);
            d += 4;
            break;
        }
        case C_I16: {
            int16_t y;
            memcpy(&y, v, 2);
            int32_t x = y;
            memcpy(d, &x, 4);
            d += 4;
            break;
        }
        case C_U16: {
            uint16_t y;
            memcpy(&y, v, 2);
            int32_t x = y;
            memcpy(d, &x, 4);
            d += 4;
            break;
        }
        case C_I32:
        case C_4:
            memcpy(d, v, 4);
            d += 4;
            break;
        case C_U32: {
            uint32_t y;
            memcpy(&y, v, 4);
            int64_t x = y;
            memcpy(d, &x, 8);
            d += 8;
            break;
        }
        case C_I64:
        case C_8:
            memcpy(d, v, 8);
            d += 8;
            break;
        case C_U64:
            memcpy(d, v, 8);
            memset(d + 8, 0, 8);
            d += 16;
            break;
        case C_DECIMAL: {
            __int128 x;
            if (__builtin_expect(!quick_decimal(v, vn, o->type.scale, &x), 0)) goto slow;
            memcpy(d, &x, 16);
            d += 16;
            break;
        }
        case C_BIT_BOOL:
        case C_BIT_LONG:
        case C_BIT_DECIMAL: {
            if (vn < 1 || vn > 8) return misfit(o, "no bit field", err);
            uint64_t x = 0;
            for (size_t k = 0; k < vn; k++) x = x << 8 | v[k];
            if (o->code == C_BIT_BOOL)
                *d++ = x != 0;
            else {
                memcpy(d, &x, 8);
                d += 8;
                if (o->code == C_BIT_DECIMAL) memset(d, 0, 8), d += 8;
            }
            break;
        }
        case C_DATE: {
            /* days 1 to 28 are days of any calendar, and no policy asks about them */
            if (vn != 4 || o->type.kind != WR_DATE || v[3] - 1u > 27 || v[2] - 1u > 11 ||
                (v[0] | v[1] << 8) - 1u > 9998)
                goto slow;
            int32_t x = wr_days_from_civil(v[0] | v[1] << 8, v[2], v[3]);
            memcpy(d, &x, 4);
            d += 4;
            break;
        }
        case C_DATETIME: {
            when w;
            if (!read_datetime(v, vn, &w)) return misfit(o, "no date and time", err);
            if (o->type.kind == WR_STRING || w.day - 1u > 27 || w.month - 1u > 11 || w.year - 1u > 9998) goto slow;
            int64_t x =
                ((int64_t)wr_days_from_civil(w.year, w.month, w.day) * 86400 + w.h * 3600 + w.m * 60 + w.s) * 1000000 +
                w.us;
            memcpy(d, &x, 8);
            d += 8;
            break;
        }
        case C_TIME: {
            int64_t x;
            if (o->type.kind != WR_LONG) goto slow;
            if (!read_time(v, vn, &x)) return misfit(o, "no time", err);
            memcpy(d, &x, 8);
            d += 8;
            break;
        }
        case C_PADDED:
            vn = unpadded(o->col->charset, v, vn);
            /* fall through */
        case C_TEXT:
            if (!o->ascii || !all_ascii(v, vn)) {
                out->n = (size_t)(d - out->p);
                WR_TRY(slow_text(o, v, vn, out, err));
                goto more_room;
            }
            goto bytes;
        case C_GEOMETRY: /* 4 bytes SRID, then WKB; nothing where MariaDB put a NULL into a NOT NULL column (INSERT IGNORE) */
            if (vn > 0 && vn < 4) return misfit(o, "no geometry", err);
            v += vn ? 4 : 0;
            vn -= vn ? 4 : 0;
            goto bytes;
        case C_LOWER: {
            uint32_t len = (uint32_t)vn;
            memcpy(d, &len, 4);
            d += 4;
            for (size_t k = 0; k < vn; k++) *d++ = v[k] >= 'A' && v[k] <= 'Z' ? v[k] + 32 : v[k];
            break;
        }
        case C_BYTES:
        bytes : {
            if (__builtin_expect(vn > UINT32_MAX, 0))
                return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "column %s: a value of more than 4 GiB", o->col->name);
            uint32_t len = (uint32_t)vn;
            memcpy(d, &len, 4);
            wr_large_move(d + 4, v, vn);
            d += 4 + vn;
            break;
        }
        default:
        slow:
            out->n = (size_t)(d - out->p);
            WR_TRY(slow_value(pl, o, i, v, vn, out, err));
        more_room:
            if (!wr_buf_room(out, pl->room + (size_t)(end - p))) return wr_buf_check(out, "a row", err);
            d = out->p + out->n;
            break;
        }
    }
    /* The extra numbers are for the cursor only. */
    if (pl->nextra == 0 && p != end) return misfit(NULL, "long packet", err);
    out->n = (size_t)(d - out->p);
    return WR_OK;
}

/* ------------------------------------------------------------------ cursor */
static void put_hex(wr_buf *b, const uint8_t *v, size_t n) {
    static const char digit[] = "0123456789abcdef";
    uint8_t *d = wr_buf_room(b, 1 + 2 * n);
    if (!d) return;
    *d++ = 'x';
    for (size_t i = 0; i < n; i++) *d++ = (uint8_t)digit[v[i] >> 4], *d++ = (uint8_t)digit[v[i] & 15];
    b->n += 1 + 2 * n;
}

static void put_fraction(wr_buf *b, int us, unsigned scale) {
    if (scale == 0 && us == 0) return;
    wr_buf_printf(b, ".%06d", us);
}

static wr_code put_key_value(const op *o, const wr_my_col *c, const uint8_t *v, size_t n, wr_buf *b, wr_err *err) {
    when w;
    int64_t t;
    switch (c->kind) {
    case MY_ENUM:
    case MY_SET: { /* the extra field */
        if (o->code == C_8) {
            double x;
            memcpy(&x, v, 8);
            wr_buf_printf(b, "%.0f", x);
        } else if (o->wire == W_BYTES)
            wr_buf_put(b, v, n);
        else {
            uint64_t x = 0;
            memcpy(&x, v, o->wire == W_4 ? 4 : 8);
            wr_buf_printf(b, "%llu", (unsigned long long)x);
        }
        break;
    }
    case MY_TINYINT:
    case MY_SMALLINT:
    case MY_MEDIUMINT:
    case MY_INT:
    case MY_BIGINT:
    case MY_YEAR: {
        uint64_t u = 0;
        memcpy(&u, v, n);
        if (c->is_unsigned || c->kind == MY_YEAR)
            wr_buf_printf(b, "%llu", (unsigned long long)u);
        else
            wr_buf_printf(b, "%lld", (long long)((int64_t)(u << (64 - 8 * n)) >> (64 - 8 * n)));
        break;
    }
    case MY_BIT: {
        if (n < 1 || n > 8) return misfit(o, "no bit field", err);
        uint64_t x = 0;
        for (size_t k = 0; k < n; k++) x = x << 8 | v[k];
        wr_buf_printf(b, "%llu", (unsigned long long)x);
        break;
    }
    case MY_DECIMAL:
    case MY_UUID:
    case MY_INET4:
    case MY_INET6:
        wr_buf_put(b, v, n);
        break;
    case MY_FLOAT: {
        float f;
        memcpy(&f, v, 4);
        wr_buf_printf(b, "%.16e", (double)f);
        break;
    }
    case MY_DOUBLE: {
        double f;
        memcpy(&f, v, 8);
        wr_buf_printf(b, "%.16e", f);
        break;
    }
    case MY_DATE:
        if (!read_datetime(v, n, &w)) return misfit(o, "no date", err);
        wr_buf_printf(b, "%04d-%02d-%02d", w.year, w.month, w.day);
        break;
    case MY_DATETIME:
    case MY_TIMESTAMP:
        if (!read_datetime(v, n, &w)) return misfit(o, "no date and time", err);
        wr_buf_printf(b, "%04d-%02d-%02d %02d:%02d:%02d", w.year, w.month, w.day, w.h, w.m, w.s);
        put_fraction(b, w.us, c->scale);
        break;
    case MY_TIME: {
        if (!read_time(v, n, &t)) return misfit(o, "no time", err);
        int64_t a = t < 0 ? -t : t;
        wr_buf_printf(b, "%s%02d:%02d:%02d", t < 0 ? "-" : "", (int)(a / 3600000000ll), (int)(a / 60000000 % 60),
                      (int)(a / 1000000 % 60));
        put_fraction(b, (int)(a % 1000000), c->scale);
        break;
    }
    default:
        put_hex(b, v, n);
        break;
    }
    return WR_OK;
}

wr_code wr_snap_plan_cursor(const wr_snap_plan *pl, const uint8_t *packet, size_t n, char **ret_cursor, wr_err *err) {
    const uint8_t *p = packet, *end = packet + n;
    int nf = pl->n + pl->nextra;
    size_t nulls_n = ((size_t)nf + 9) / 8;
    if (n < 1 + nulls_n) return misfit(NULL, "short packet", err);
    const uint8_t *nulls = p + 1;
    p += 1 + nulls_n;
    wr_slice val[WR_KEY_PARTS_MAX] = {{0}};
    for (int i = 0; i < nf; i++) {
        const op *o = &pl->op[i];
        const uint8_t *v = NULL;
        size_t vn = 0;
        if (!(nulls[(i + 2) / 8] & 1u << ((i + 2) % 8)) && !take(o->wire, &p, end, &v, &vn))
            return misfit(o, "short value", err);
        for (int k = 0; k < pl->key->n; k++)
            if (pl->key_op[k] == i) val[k] = wr_slice_of(v, vn);
    }
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    for (int k = 0; k < pl->key->n; k++) {
        if (!val[k].p) return misfit(&pl->op[pl->key_op[k]], "null in the primary key", err);
        if (k) wr_buf_u8(&b, ',');
        WR_TRY(put_key_value(&pl->op[pl->key_op[k]], pl->key->col[k], val[k].p, val[k].n, &b, err));
    }
    const char *text = wr_buf_cstr(&b);
    if (!text || !(*ret_cursor = wr_strdup(text))) return wr_nomem(err, "a snapshot cursor", b.n);
    return WR_OK;
}
