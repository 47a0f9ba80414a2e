#include "rows.h"
#include <stdio.h>
#include <zlib.h>
#include "decimal_bin.h"
#include "json_binary.h"
#include "value.h"
#include "weir/base/large.h"
#include "weir/base/mem.h"

/* Binlog type bytes (MySQL field_types.h and MariaDB's own). */
enum { T_TINY = 1, T_SHORT = 2, T_LONG = 3, T_FLOAT = 4, T_DOUBLE = 5, T_TIMESTAMP = 7, T_LONGLONG = 8, T_INT24 = 9, T_DATE = 10,
       T_TIME = 11, T_DATETIME = 12, T_YEAR = 13, T_NEWDATE = 14, T_VARCHAR = 15, T_BIT = 16, T_TIMESTAMP2 = 17, T_DATETIME2 = 18,
       T_TIME2 = 19, T_BLOB_COMPRESSED = 140, T_VARCHAR_COMPRESSED = 141, T_VECTOR = 242, T_JSON = 245, T_NEWDECIMAL = 246, T_ENUM = 247,
       T_SET = 248, T_TINY_BLOB = 249, T_MEDIUM_BLOB = 250, T_LONG_BLOB = 251, T_BLOB = 252, T_VAR_STRING = 253, T_STRING = 254,
       T_GEOMETRY = 255 };

/* What to do with a column. Fixed-width ones first: OP_U64 and below need no room beyond the plan's bound. */
typedef enum op {
    OP_I8, OP_U8, OP_I16, OP_U16, OP_I24, OP_U24, OP_I32, OP_U32, OP_I64, OP_U64, OP_YEAR, OP_FLOAT, OP_DOUBLE, OP_BIT, OP_DECIMAL,
    OP_DECIMAL_TEXT, OP_DATE, OP_TIME2, OP_DATETIME2, OP_TIMESTAMP2, OP_TIME_OLD, OP_DATETIME_OLD, OP_TIMESTAMP_OLD,
    OP_UTF8, OP_TEXT, OP_BYTES, OP_ENUM, OP_SET, OP_JSON, OP_GEOMETRY, OP_UUID, OP_INET4, OP_INET6, OP_VECTOR, OP_COMPRESSED,
} op;

typedef struct plan_col {
    uint8_t op;
    uint8_t len_bytes;     /* of the length in front of the value */
    uint8_t width;         /* bytes of fixed-width values */
    uint8_t scale;         /* fraction digits; DECIMAL: scale */
    uint8_t precision;     /* DECIMAL */
    bool is_char;          /* trailing blanks go */
    bool is_text;          /* compressed: text or bytes */
    bool is_json;          /* counts in the bits of partial updates */
    bool uuid_swapped;     /* MariaDB before 10.10.6: every UUID is stored swapped */
    bool is_binary;        /* BINARY(n): padded */
    bool is_hash;          /* MariaDB's DB_ROW_HASH_n: passed over */
    wr_type type;          /* in the lake */
    uint32_t pad;          /* BINARY(n): n */
    int lake;              /* index in the schema, -1 = hidden */
    const wr_charset *cs;
    const wr_my_col *col;
    wr_slice *labels;      /* ENUM, SET */
    int empty_label;       /* ENUM, SET in the key: number of the label '' from 1, 0 = none */
} plan_col;

/* A value of one image: where it is in the row buffer. */
typedef struct piece { bool present, null; size_t at, n; wr_slice raw; } piece;

struct wr_row_plan {
    const wr_my_table *t;
    wr_my_types types;
    int ncols, nlake, njson;
    bool hidden;           /* some column is not in the lake */
    size_t bound;          /* bytes of bitmap and all values but the variable parts */
    wr_buf before, after, tmp, whole;
    piece *pb, *pa;        /* [nlake] */
    wr_slice *labels;      /* all columns' */
    plan_col c[];          /* [ncols] */
};

__attribute__((cold, noinline)) static wr_code in_column(const wr_row_plan *p, const plan_col *c, wr_err *err) {
    return wr_err_in(err, "table %s.%s, column %s", p->t->db, p->t->name, c->col->name);
}

__attribute__((cold, noinline)) static wr_code bad_value(const wr_row_plan *p, const plan_col *c, const char *what, wr_err *err) {
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "table %s.%s, column %s (%s): %s", p->t->db, p->t->name, c->col->name,
                   c->col->column_type ? c->col->column_type : "?", what);
}

/* ------------------------------------------------------------------ one value */
static inline uint64_t be(const uint8_t *p, unsigned n) {
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++) v = v << 8 | p[i];
    return v;
}

static const int pow10_int[7] = {1, 10, 100, 1000, 10000, 100000, 1000000};

/* Fraction of the big-endian form of the 5.6 temporal types: (scale + 1) / 2 bytes in units of 1/100, 1/10000 or 1/1000000. */
static inline unsigned fraction_bytes(unsigned scale) { return (scale + 1) / 2; }
static inline int fraction_us(const uint8_t *p, unsigned scale) {
    unsigned n = fraction_bytes(scale);
    return (int)be(p, n) * pow10_int[6 - 2 * n];
}

/* Appends a value made by the policy functions. *null: the row's bit. */
static void put_made(wr_buf *out, wr_type t, const wr_value *v, bool *null) {
    *null = v->null;
    if (!v->null) {
        switch (t.kind) {
        case WR_DATE: wr_buf_put(out, &v->i32, 4); break;
        case WR_STRING:
        case WR_BINARY:
            wr_buf_u32(out, (uint32_t)v->s.n);
            wr_buf_put(out, v->s.p, v->s.n);
            break;
        default: wr_buf_put(out, &v->i64, 8); break;
        }
    }
}

/* MariaDB's hires forms, mysql56_temporal_format=OFF: bytes by fraction digits. */
static const uint8_t hires_time_bytes[7] = {3, 4, 4, 5, 5, 5, 6}, hires_datetime_bytes[7] = {8, 6, 6, 7, 7, 7, 8}, hires_ts_bytes[7] = {4, 5, 5, 6, 6, 7, 7};

static wr_code put_datetime(const wr_row_plan *p, const plan_col *c, int y, int mo, int d, int h, int mi, int s, int us, wr_buf *out, wr_buf *tmp,
                            bool *null, wr_err *err) {
    wr_value v = {0};
    wr_buf_clear(tmp);
    WR_TRY(wr_my_put_datetime(c->col, p->types, y, mo, d, h, mi, s, us, &v, tmp, err));
    put_made(out, c->type, &v, null);
    return WR_OK;
}

static wr_code put_instant(const wr_row_plan *p, const plan_col *c, uint32_t sec, int us, wr_buf *out, wr_buf *tmp, bool *null, wr_err *err) {
    bool zero = sec == 0 && us == 0; /* MariaDB keeps the first second's fractions */
    if (__builtin_expect(!zero && c->type.kind == WR_TIMESTAMPTZ, 1)) {
        int64_t v = (int64_t)sec * 1000000 + us;
        wr_buf_put(out, &v, 8);
        return WR_OK;
    }
    if (zero) return put_datetime(p, c, 0, 0, 0, 0, 0, 0, us, out, tmp, null, err);
    int y, m, d;
    wr_civil_from_days((int32_t)(sec / 86400), &y, &m, &d);
    int rest = (int)(sec % 86400);
    return put_datetime(p, c, y, m, d, rest / 3600, rest / 60 % 60, rest % 60, us, out, tmp, null, err);
}

static wr_code put_time(const wr_row_plan *p, const plan_col *c, int64_t us, wr_buf *out, wr_buf *tmp, bool *null, wr_err *err) {
    if (p->types.time_as == WR_TIME_MICROS) {
        wr_buf_put(out, &us, 8);
        return WR_OK;
    }
    wr_value v = {0};
    wr_buf_clear(tmp);
    WR_TRY(wr_my_put_time(c->col, p->types, us, &v, tmp, err));
    put_made(out, c->type, &v, null);
    return WR_OK;
}

/* TIME(n) since 5.6: big-endian, offset so that bytes sort; the fraction of a negative value counts up from the next lower second. */
static int64_t time2_us(const uint8_t *b, unsigned scale) {
    unsigned fb = fraction_bytes(scale);
    int64_t whole = (int64_t)be(b, 3 + fb) - (0x800000ll << (8 * fb)); /* hms in bits, fraction below */
    bool neg = whole < 0;
    if (neg) whole = -whole;
    int64_t hms = whole >> (8 * fb), frac = whole & ((1ll << (8 * fb)) - 1);
    int64_t us = ((hms >> 12 & 1023) * 3600 + (hms >> 6 & 63) * 60 + (hms & 63)) * 1000000 + frac * pow10_int[6 - 2 * fb];
    return neg ? -us : us;
}

static wr_code put_temporal(const wr_row_plan *p, const plan_col *c, const uint8_t *b, wr_buf *out, wr_buf *tmp, bool *null, wr_err *err) {
    switch (c->op) {
    case OP_DATE: { /* year 15 bits, month 4, day 5 */
        uint32_t v = (uint32_t)(b[0] | b[1] << 8 | b[2] << 16);
        wr_value w = {0};
        wr_buf_clear(tmp);
        WR_TRY(wr_my_put_date(c->col, p->types, (int)(v >> 9), (int)(v >> 5 & 15), (int)(v & 31), &w, tmp, err));
        put_made(out, c->type, &w, null);
        return WR_OK;
    }
    case OP_DATETIME2: { /* 1 bit sign, 17 year * 13 + month, 5 day, 5 hour, 6 minute, 6 second; then the fraction */
        uint64_t v = be(b, 5);
        int ym = (int)(v >> 22 & 0x1FFFF);
        return put_datetime(p, c, ym / 13, ym % 13, (int)(v >> 17 & 31), (int)(v >> 12 & 31), (int)(v >> 6 & 63), (int)(v & 63),
                            fraction_us(b + 5, c->scale), out, tmp, null, err);
    }
    case OP_TIMESTAMP2: return put_instant(p, c, (uint32_t)be(b, 4), fraction_us(b + 4, c->scale), out, tmp, null, err);
    case OP_TIME2: return put_time(p, c, time2_us(b, c->scale), out, tmp, null, err);
    case OP_TIMESTAMP_OLD:
        if (c->scale == 0) {
            uint32_t sec;
            memcpy(&sec, b, 4);
            return put_instant(p, c, sec, 0, out, tmp, null, err);
        }
        return put_instant(p, c, (uint32_t)be(b, 4), (int)be(b + 4, c->width - 4u) * pow10_int[6 - c->scale], out, tmp, null, err);
    case OP_DATETIME_OLD:
        if (c->scale == 0) { /* the number YYYYMMDDhhmmss */
            uint64_t v;
            memcpy(&v, b, 8);
            uint64_t d = v / 1000000, t = v % 1000000;
            if (d > 99999999) return bad_value(p, c, "no date and time", err);
            return put_datetime(p, c, (int)(d / 10000), (int)(d / 100 % 100), (int)(d % 100), (int)(t / 10000), (int)(t / 100 % 100), (int)(t % 100), 0,
                                out, tmp, null, err);
        } else {
            /* ((((year * 13 + month) * 32 + day) * 24 + h) * 60 + m) * 60 + s, then the fraction in `scale` decimal digits */
            uint64_t v = be(b, c->width), us = v % (uint64_t)pow10_int[c->scale] * (uint64_t)pow10_int[6 - c->scale];
            v /= (uint64_t)pow10_int[c->scale];
            int s = (int)(v % 60), mi = (int)(v / 60 % 60), h = (int)(v / 3600 % 24);
            v /= 86400;
            if (v / 32 / 13 > 9999) return bad_value(p, c, "no date and time", err);
            return put_datetime(p, c, (int)(v / 32 / 13), (int)(v / 32 % 13), (int)(v % 32), h, mi, s, (int)us, out, tmp, null, err);
        }
    default: /* OP_TIME_OLD */
        if (c->scale == 0) { /* the number hhmmss, 3 bytes signed */
            int32_t v = b[0] | b[1] << 8 | (int8_t)b[2] * 65536;
            int32_t a = v < 0 ? -v : v;
            int64_t us = ((int64_t)(a / 10000) * 3600 + a / 100 % 100 * 60 + a % 100) * 1000000;
            return put_time(p, c, v < 0 ? -us : us, out, tmp, null, err);
        } else {
            /* microseconds shifted by 839 hours, in `scale` decimal digits */
            int64_t unit = pow10_int[6 - c->scale], zero = 3020400ll * pow10_int[c->scale];
            return put_time(p, c, ((int64_t)be(b, c->width) - zero) * unit, out, tmp, null, err);
        }
    }
}

static void put_counted(wr_buf *out, const void *bytes, size_t n) {
    wr_buf_u32(out, (uint32_t)n);
    wr_buf_put(out, bytes, n);
}

/* Text in the column's charset to a counted string. */
static wr_code put_text(const wr_row_plan *p, const plan_col *c, wr_slice s, wr_buf *out, wr_err *err) {
    size_t at = out->n;
    wr_buf_u32(out, 0);
    if (wr_charset_decode(c->cs, s, out, err) != WR_OK) return in_column(p, c, err);
    if (out->failed) return wr_nomem(err, "row", s.n);
    if (c->is_char)
        while (out->n > at + 4 && out->p[out->n - 1] == ' ') out->n--;
    if (out->n - at - 4 > UINT32_MAX) return bad_value(p, c, "text of more than 4 GiB", err);
    uint32_t n = (uint32_t)(out->n - at - 4);
    memcpy(out->p + at, &n, 4);
    return WR_OK;
}

/* A MariaDB COMPRESSED column: method and number of length bytes, original length, zlib with or without header. */
static wr_code uncompress_column(const wr_row_plan *p, const plan_col *c, wr_slice s, wr_buf *tmp, wr_slice *ret, wr_err *err) {
    if (s.n == 0) return *ret = s, WR_OK;
    unsigned method = s.p[0] >> 4;
    if (method == 0) return *ret = wr_slice_of(s.p + 1, s.n - 1), WR_OK;
    unsigned nlen = s.p[0] & 7;
    if (method != 8 || nlen < 1 || nlen > 4 || s.n < 1 + nlen) return bad_value(p, c, "unknown compression", err);
    uint64_t want = be(s.p + 1, nlen);
    if (want / 1200 > s.n) return bad_value(p, c, "compressed value claims an impossible length", err);
    wr_buf_clear(tmp);
    uint8_t *to = wr_buf_room(tmp, want ? want : 1);
    if (!to) return wr_nomem(err, "uncompressed column", want);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)(s.p + 1 + nlen), .avail_in = (uInt)(s.n - 1 - nlen), .next_out = to, .avail_out = (uInt)want};
    if (inflateInit2(&z, s.p[0] & 8 ? -MAX_WBITS : MAX_WBITS) != Z_OK) return wr_nomem(err, "zlib", 0);
    int rc = inflate(&z, Z_FINISH);
    bool whole = rc == Z_STREAM_END && z.total_out == want;
    inflateEnd(&z);
    if (!whole) return bad_value(p, c, "compressed value does not unpack", err);
    *ret = wr_slice_of(to, want);
    return WR_OK;
}

/* MariaDB stores UUIDs of versions 1 to 5 with the node first and the time parts from high to low, others as they are written. */
static void put_uuid(const plan_col *c, const uint8_t stored[16], wr_buf *out) {
    static const char hex[] = "0123456789abcdef";
    static const uint8_t from[16] = {12, 13, 14, 15, 10, 11, 8, 9, 6, 7, 0, 1, 2, 3, 4, 5};
    bool swapped = c->uuid_swapped || ((stored[6] & 0x80) && (int8_t)stored[8] > 0 && stored[8] < 0x60);
    char t[36];
    int n = 0;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) t[n++] = '-';
        uint8_t b = stored[swapped ? from[i] : i];
        t[n++] = hex[b >> 4];
        t[n++] = hex[b & 15];
    }
    put_counted(out, t, 36);
}

/* As the server writes them: the longest run of zero groups, the first of equals and even a single one, becomes "::"; addresses that
 * hold an IPv4 one end with it in dots. */
static void put_address(const plan_col *c, const uint8_t b[16], wr_buf *out) {
    char t[64];
    int n = 0, best = -1, best_n = 0;
    if (c->op == OP_INET4) {
        n = snprintf(t, sizeof t, "%u.%u.%u.%u", b[0], b[1], b[2], b[3]);
        put_counted(out, t, (size_t)n);
        return;
    }
    unsigned w[8];
    for (int i = 0; i < 8; i++) w[i] = (unsigned)(b[2 * i] << 8 | b[2 * i + 1]);
    for (int i = 0; i < 8;) {
        int k = i;
        while (k < 8 && w[k] == 0) k++;
        if (k - i > best_n) best = i, best_n = k - i;
        i = k + 1;
    }
    bool dotted = best == 0 && (best_n == 6 || (best_n == 5 && w[5] == 0xFFFF));
    int groups = dotted ? 6 : 8;
    for (int i = 0; i < groups;) {
        if (i == best) {
            n += sprintf(t + n, "::");
            i += best_n;
            continue;
        }
        n += sprintf(t + n, i && i != best + best_n ? ":%x" : "%x", w[i]);
        i++;
    }
    if (dotted) n += sprintf(t + n, "%s%u.%u.%u.%u", best_n == 6 ? "" : ":", b[12], b[13], b[14], b[15]);
    put_counted(out, t, (size_t)n);
}

/* ENUM's number 0 is shown as '', and so is the label ''; a SET's empty member adds nothing to what is shown. */
__attribute__((cold, noinline)) static wr_code empty_key(const wr_row_plan *p, const plan_col *c, wr_err *err) {
    wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "table %s.%s: column %s is in the table's key and holds an empty value of two kinds: such rows could not be told apart",
            p->t->db, p->t->name, c->col->name);
    return wr_err_cure(err, "correct the value in the source, or exclude the table");
}

static wr_code put_set(const wr_row_plan *p, const plan_col *c, uint64_t v, wr_buf *out, wr_err *err) {
    size_t at = out->n;
    wr_buf_u32(out, 0);
    if (__builtin_expect(c->empty_label && v >> (c->empty_label - 1) & 1, 0)) return empty_key(p, c, err);
    for (; v; v &= v - 1) {
        int i = __builtin_ctzll(v);
        if (i >= c->col->nlabels) return bad_value(p, c, "a member the definition does not have", err);
        if (out->n > at + 4) wr_buf_u8(out, ','); /* none after an empty member at the beginning: as the servers show it */
        wr_buf_put(out, c->labels[i].p, c->labels[i].n);
    }
    if (out->failed) return wr_nomem(err, "row", 0);
    uint32_t n = (uint32_t)(out->n - at - 4);
    memcpy(out->p + at, &n, 4);
    return WR_OK;
}

/* Everything with a length in front. */
static wr_code put_counted_value(const wr_row_plan *p, const plan_col *c, wr_slice s, wr_slice diffs_of, wr_buf *out, wr_buf *tmp, wr_err *err) {
    switch (c->op) {
    case OP_TEXT: return put_text(p, c, s, out, err);
    case OP_BYTES: {
        uint32_t n = (uint32_t)s.n;
        if (c->is_binary && n < c->pad) { /* the binlog leaves out trailing zero bytes */
            wr_buf_u32(out, c->pad);
            wr_buf_put(out, s.p, n);
            uint8_t *z = wr_buf_room(out, c->pad - n);
            if (z) memset(z, 0, c->pad - n), out->n += c->pad - n;
            return WR_OK;
        }
        uint8_t *to = wr_buf_room(out, 4 + s.n);
        if (!to) return wr_nomem(err, "row", s.n);
        memcpy(to, &n, 4);
        wr_large_move(to + 4, s.p, s.n);
        out->n += 4 + s.n;
        return WR_OK;
    }
    case OP_JSON: {
        size_t at = out->n;
        wr_buf_u32(out, 0);
        wr_code rc = diffs_of.p ? wr_my_json_print_patched(diffs_of, s, out, err) : wr_my_json_print(s, out, err);
        if (rc != WR_OK) return in_column(p, c, err);
        uint32_t n = (uint32_t)(out->n - at - 4);
        memcpy(out->p + at, &n, 4);
        if (wr_utf8_prefix(wr_slice_of(out->p + at + 4, n)) != n) return bad_value(p, c, "JSON text is not UTF-8", err);
        return WR_OK;
    }
    case OP_GEOMETRY: /* SRID, then WKB */
        if (s.n != 0 && s.n < 4) return bad_value(p, c, "shorter than its SRID", err);
        put_counted(out, s.n ? s.p + 4 : s.p, s.n ? s.n - 4 : 0);
        return WR_OK;
    case OP_VECTOR:
        if (s.n % 4) return bad_value(p, c, "not a whole number of floats", err);
        put_counted(out, s.p, s.n);
        return WR_OK;
    case OP_COMPRESSED: {
        wr_slice v;
        WR_TRY(uncompress_column(p, c, s, tmp, &v, err));
        if (c->is_text) return put_text(p, c, v, out, err);
        put_counted(out, v.p, v.n);
        return WR_OK;
    }
    default: { /* OP_UUID, OP_INET4, OP_INET6: trailing zero bytes may be missing */
        uint8_t b[16] = {0};
        size_t want = c->op == OP_INET4 ? 4 : 16;
        if (s.n > want) return bad_value(p, c, "too long", err);
        if (s.n) memcpy(b, s.p, s.n);
        if (c->op == OP_UUID) put_uuid(c, b, out);
        else put_address(c, b, out);
        return WR_OK;
    }
    }
}

/* ------------------------------------------------------------------ one image */
typedef struct image {
    bool current;          /* of a system-versioned table: not history */
    bool complete;         /* every lake column is there */
} image;

__attribute__((cold, noinline)) static wr_code cut(const wr_row_plan *p, const plan_col *c, wr_err *err) {
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "table %s.%s: a row image ends inside column %s (%s)", p->t->db, p->t->name, c->col->name,
                   c->col->column_type ? c->col->column_type : "?");
}

static inline unsigned bit(const uint8_t *map, int i) { return map[i >> 3] >> (i & 7) & 1; }

/* Whether a value of a period column says "for ever": that column is the row's end, and the row is a current one. */
static bool is_for_ever(const plan_col *c, const uint8_t *b, unsigned n) {
    if (c->op == OP_U64) return be(b, 8) == UINT64_MAX;
    uint32_t sec;
    if (c->op == OP_TIMESTAMP2 || (c->op == OP_TIMESTAMP_OLD && c->scale)) sec = (uint32_t)be(b, 4);
    else memcpy(&sec, b, 4);
    uint64_t frac = n > 4 ? be(b + 4, n - 4) : 0;
    return (sec == 0x7FFFFFFF || sec == 0xFFFFFFFF) && (n == 4 || frac == (uint64_t)pow10_int[c->op == OP_TIMESTAMP2 ? 2 * (n - 4) : c->scale] - 1);
}

/* Decodes one image into `out`, null bitmap first. `all` = every column is present. With `pieces` also notes where each lake
 * column's value is. `patch` (pieces of the before image) and `partial` (one bit per JSON column) come with partial updates. */
static wr_code decode_image(wr_row_plan *p, wr_rd *r, const uint8_t *present, bool all, wr_buf *out, piece *pieces, const piece *patch,
                            const uint8_t *partial, image *im, wr_err *err) {
    int ncols = p->ncols, npresent = ncols;
    if (!all) {
        npresent = 0;
        for (int i = 0; i < ncols; i++) npresent += (int)bit(present, i);
    }
    const uint8_t *nulls = wr_rd_take(r, ((size_t)npresent + 7) / 8);
    if (!nulls) return npresent == 0 ? (wr_buf_clear(out), im->complete = p->nlake == 0, WR_OK) : cut(p, &p->c[0], err);
    wr_buf_clear(out);
    uint8_t *bits = wr_buf_room(out, p->bound);
    if (!bits) return wr_nomem(err, "row", p->bound);
    size_t nb = ((size_t)p->nlake + 7) / 8;
    memset(bits, 0, nb);
    out->n = nb;
    im->current = !p->hidden || !p->t->versioned;
    im->complete = all;

    int k = 0, json = 0;
    for (int i = 0; i < ncols; i++) {
        const plan_col *c = &p->c[i];
        bool patched = false;
        if (partial && c->is_json) patched = bit(partial, json++);
        if (!all && !bit(present, i)) {
            if (pieces && c->lake >= 0) pieces[c->lake].present = false;
            continue;
        }
        bool null = bit(nulls, k);
        k++;
        size_t at = out->n;
        if (__builtin_expect(c->lake < 0, 0)) { /* a period column: only its meaning counts */
            if (null) continue;
            const uint8_t *b = wr_rd_take(r, c->width);
            if (!b) return cut(p, c, err);
            if (!c->is_hash && is_for_ever(c, b, c->width)) im->current = true;
            continue;
        }
        wr_slice raw = {0};
        if (!null) {
            if (c->op < OP_UTF8) {
                const uint8_t *b = wr_rd_take(r, c->width);
                if (__builtin_expect(!b, 0)) return cut(p, c, err);
                /* the bound leaves room for every fixed-width value */
                if (__builtin_expect(out->cap - out->n < p->bound, 0) && !wr_buf_room(out, p->bound)) return wr_nomem(err, "row", p->bound);
                uint8_t *w = out->p + out->n;
                int32_t i32;
                int64_t i64;
                switch (c->op) {
                case OP_I8: i32 = (int8_t)b[0]; goto put_i32;
                case OP_U8: i32 = b[0]; goto put_i32;
                case OP_YEAR: i32 = b[0] ? 1900 + b[0] : 0; goto put_i32;
                case OP_I16: i32 = (int16_t)(b[0] | b[1] << 8); goto put_i32;
                case OP_U16: i32 = b[0] | b[1] << 8; goto put_i32;
                case OP_I24: i32 = b[0] | b[1] << 8 | (int8_t)b[2] * 65536; goto put_i32;
                case OP_U24: i32 = b[0] | b[1] << 8 | b[2] << 16; goto put_i32;
                case OP_I32:
                case OP_FLOAT:
                    memcpy(w, b, 4);
                    out->n += 4;
                    break;
                case OP_U32: {
                    uint32_t u;
                    memcpy(&u, b, 4);
                    i64 = u;
                    goto put_i64;
                }
                case OP_I64:
                case OP_DOUBLE:
                    memcpy(w, b, 8);
                    out->n += 8;
                    break;
                case OP_U64:
                    memcpy(w, b, 8);
                    memset(w + 8, 0, 8);
                    out->n += 16;
                    break;
                case OP_BIT: {
                    uint64_t v = be(b, c->width);
                    if (c->type.kind == WR_BOOL) {
                        *w = v != 0;
                        out->n += 1;
                    } else if (c->type.kind == WR_DECIMAL) {
                        memcpy(w, &v, 8);
                        memset(w + 8, 0, 8);
                        out->n += 16;
                    } else {
                        i64 = (int64_t)v;
                        goto put_i64;
                    }
                    break;
                }
                case OP_DECIMAL: {
                    __int128 v;
                    if (!wr_decimal_bin_read(b, c->precision, c->scale, &v)) return bad_value(p, c, "no decimal", err);
                    memcpy(w, &v, 16);
                    out->n += 16;
                    break;
                }
                case OP_DECIMAL_TEXT: {
                    wr_buf_u32(out, 0);
                    if (!wr_decimal_bin_print(b, c->precision, c->scale, out)) return bad_value(p, c, "no decimal", err);
                    if (out->failed) return wr_nomem(err, "row", 0);
                    uint32_t n = (uint32_t)(out->n - at - 4);
                    memcpy(out->p + at, &n, 4);
                    break;
                }
                default: {
                    wr_code rc = put_temporal(p, c, b, out, &p->tmp, &null, err);
                    if (__builtin_expect(rc != WR_OK, 0)) return in_column(p, c, err);
                    break;
                }
                put_i32:
                    memcpy(w, &i32, 4);
                    out->n += 4;
                    break;
                put_i64:
                    memcpy(w, &i64, 8);
                    out->n += 8;
                    break;
                }
            } else if (c->op == OP_ENUM) {
                const uint8_t *b = wr_rd_take(r, c->width);
                if (!b) return cut(p, c, err);
                unsigned v = c->width == 1 ? b[0] : (unsigned)(b[0] | b[1] << 8);
                if (v > (unsigned)c->col->nlabels) return bad_value(p, c, "a member the definition does not have", err);
                if (__builtin_expect(v == 0 && c->empty_label, 0)) return empty_key(p, c, err);
                if (v == 0) put_counted(out, "", 0); /* what the server keeps for an invalid value */
                else put_counted(out, c->labels[v - 1].p, c->labels[v - 1].n);
            } else if (c->op == OP_SET) {
                const uint8_t *b = wr_rd_take(r, c->width);
                if (!b) return cut(p, c, err);
                uint64_t v = 0;
                memcpy(&v, b, c->width);
                WR_TRY(put_set(p, c, v, out, err));
            } else {
                const uint8_t *lb = wr_rd_take(r, c->len_bytes);
                if (__builtin_expect(!lb, 0)) return cut(p, c, err);
                size_t n = lb[0];
                switch (c->len_bytes) {
                case 2: n = (size_t)(lb[0] | lb[1] << 8); break;
                case 3: n = (size_t)(lb[0] | lb[1] << 8 | lb[2] << 16); break;
                case 4: {
                    uint32_t u;
                    memcpy(&u, lb, 4);
                    n = u;
                    break;
                }
                default: break;
                }
                const uint8_t *b = wr_rd_take(r, n);
                if (__builtin_expect(!b, 0)) return cut(p, c, err);
                raw = wr_slice_of(b, n);
                if (__builtin_expect(c->op == OP_UTF8, 1)) {
                    if (__builtin_expect(wr_utf8_prefix(raw) != n, 0)) {
                        wr_buf_clear(&p->tmp);
                        wr_charset_decode(c->cs, raw, &p->tmp, err); /* for its message */
                        return in_column(p, c, err);
                    }
                    if (c->is_char)
                        while (n && b[n - 1] == ' ') n--;
                    uint8_t *w = wr_buf_room(out, n + 4 + p->bound);
                    if (!w) return wr_nomem(err, "row", n);
                    uint32_t n32 = (uint32_t)n;
                    memcpy(w, &n32, 4);
                    wr_large_move(w + 4, b, n);
                    out->n += 4 + n;
                } else {
                    wr_slice diffs_of = {0};
                    if (patched) {
                        if (!patch || !patch[c->lake].present || patch[c->lake].null) {
                            wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO,
                                    "table %s.%s, column %s: a partial JSON update without the value before it", p->t->db, p->t->name, c->col->name);
                            return wr_err_cure(err, "set binlog_row_image=FULL on the source (or binlog_row_value_options=''), then read the table again");
                        }
                        diffs_of = patch[c->lake].raw;
                        if (!diffs_of.p) diffs_of = wr_slice_of("", 0);
                    }
                    WR_TRY(put_counted_value(p, c, raw, diffs_of, out, &p->tmp, err));
                }
            }
        }
        if (null) out->p[c->lake >> 3] |= (uint8_t)(1u << (c->lake & 7));
        if (pieces) pieces[c->lake] = (piece){true, null, at, out->n - at, raw};
    }
    if (!all) {
        im->complete = true;
        for (int i = 0; i < ncols; i++)
            if (p->c[i].lake >= 0 && !bit(present, i)) im->complete = false;
    }
    return wr_buf_check(out, "row", err);
}

__attribute__((cold, noinline)) static wr_code lacks(const wr_row_plan *p, const plan_col *c, const char *which, wr_err *err) {
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO,
            "table %s.%s: the %s image of a row lacks column %s: the session that wrote it had binlog_row_image other than FULL", p->t->db, p->t->name,
            which, c->col->name);
    return wr_err_cure(err, "SET GLOBAL binlog_row_image=FULL on the source and in every session, then read the table again");
}

/* Builds a whole row of what `a` has, else `b`. */
static wr_code merge_images(wr_row_plan *p, const piece *a, const wr_buf *abuf, const piece *b, const wr_buf *bbuf, const char *which, wr_buf *out,
                            wr_err *err) {
    wr_buf_clear(out);
    size_t at = wr_row_begin(out, p->nlake);
    for (int i = 0; i < p->ncols; i++) {
        int l = p->c[i].lake;
        if (l < 0) continue;
        const piece *v = a[l].present ? &a[l] : b && b[l].present ? &b[l] : NULL;
        if (!v) return lacks(p, &p->c[i], which, err);
        if (v->null) wr_row_put_null(out, at, l);
        else wr_buf_put(out, (v == &a[l] ? abuf : bbuf)->p + v->at, v->n);
    }
    return wr_buf_check(out, "row", err);
}

static wr_code decode_rows(wr_row_plan *p, const wr_ev_rows *ev, wr_row_change_fn *fn, void *ctx, uint64_t *rows, wr_err *err) {
    if (ev->ncols != p->ncols)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "table %s.%s: a rows event has %d columns, its TABLE_MAP %d", p->t->db, p->t->name, ev->ncols,
                       p->ncols);
    bool all = true, all_after = true;
    for (int i = 0; i < p->ncols; i++) {
        all &= bit(ev->present, i);
        if (ev->present_after) all_after &= bit(ev->present_after, i);
    }
    bool pieces = ev->op == WR_OP_UPDATE && (!all || !all_after || ev->partial);
    if (!all && ev->op != WR_OP_UPDATE) pieces = true;
    wr_rd r = wr_rd_of(ev->rows.p, ev->rows.n);
    wr_change ch = {.table = p->t->id, .schema_version = p->t->schema->version};
    while (wr_rd_left(&r)) {
        const uint8_t *start = r.p;
        image ib = {.current = true}, ia = {.current = true};
        wr_buf *first = ev->op == WR_OP_INSERT ? &p->after : &p->before;
        wr_slice before = {0}, after = {0};
        WR_TRY(decode_image(p, &r, ev->present, all, first, pieces ? p->pb : NULL, NULL, NULL, &ib, err));
        if (ev->op == WR_OP_UPDATE) {
            const uint8_t *partial = NULL;
            if (ev->partial) {
                uint64_t options = wr_rd_lenenc(&r);
                if (options > 1)
                    return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "table %s.%s: row value options %llu are not known", p->t->db, p->t->name,
                                   (unsigned long long)options);
                if (options & 1) {
                    partial = wr_rd_take(&r, ((size_t)p->njson + 7) / 8);
                    if (!partial) return cut(p, &p->c[0], err);
                }
            }
            WR_TRY(decode_image(p, &r, ev->present_after, all_after, &p->after, pieces ? p->pa : NULL, p->pb, partial, &ia, err));
            after = wr_buf_view(&p->after);
            before = wr_buf_view(&p->before);
            if (__builtin_expect(!ib.complete || !ia.complete, 0)) {
                if (!ia.complete) {
                    WR_TRY(merge_images(p, p->pa, &p->after, p->pb, &p->before, "after", &p->whole, err));
                    after = wr_buf_view(&p->whole);
                }
                /* A column that is only in the after image was changed: what it held before is in neither. */
                if (!ib.complete) WR_TRY(merge_images(p, p->pb, &p->before, NULL, NULL, "before", &p->tmp, err));
            }
        } else {
            if (__builtin_expect(!ib.complete, 0))
                WR_TRY(merge_images(p, p->pb, first, NULL, NULL, ev->op == WR_OP_INSERT ? "after" : "before", &p->whole, err));
            if (ev->op == WR_OP_INSERT) after = wr_buf_view(&p->after), ia.current = ib.current;
            else before = wr_buf_view(&p->before);
        }
        if (__builtin_expect(r.p == start || r.bad, 0))
            return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "table %s.%s: a rows event holds a row of no bytes", p->t->db, p->t->name);

        ch.op = ev->op, ch.before = before, ch.after = after;
        if (__builtin_expect(p->t->versioned && p->hidden, 0)) {
            /* The lake holds what SELECT shows: current rows. Ending a row is an UPDATE of its period column: a DELETE. */
            if (ev->op == WR_OP_INSERT ? !ia.current : !ib.current && (ev->op == WR_OP_DELETE || !ia.current)) continue;
            if (ev->op == WR_OP_UPDATE && !ia.current) ch.op = WR_OP_DELETE, ch.after = (wr_slice){0};
            if (ev->op == WR_OP_UPDATE && !ib.current) ch.op = WR_OP_INSERT, ch.before = (wr_slice){0};
        }
        WR_TRY(fn(ctx, &ch, err));
        ++*rows;
    }
    return WR_OK;
}

wr_code wr_row_plan_decode(wr_row_plan *p, const wr_ev_rows *ev, wr_row_change_fn *fn, void *ctx, uint64_t *rows, wr_err *err) {
    wr_code rc = decode_rows(p, ev, fn, ctx, rows, err);
    wr_buf_rest(&p->before), wr_buf_rest(&p->after), wr_buf_rest(&p->tmp), wr_buf_rest(&p->whole); /* there may be thousands of tables */
    return rc;
}

/* ------------------------------------------------------------------ the plan */
typedef struct map_col { uint8_t type; uint16_t meta; } map_col; /* type as declared: ENUM, SET instead of STRING; meta as its parts below */

/* Metadata bytes by type; the two of STRING, VARCHAR and others are told apart where they are used. */
static bool read_map_cols(const wr_ev_table_map *m, map_col *out) {
    wr_rd r = wr_rd_of(m->metadata.p, m->metadata.n);
    for (int i = 0; i < m->ncols; i++) {
        uint8_t t = m->types[i];
        map_col c = {t, 0};
        switch (t) {
        case T_FLOAT: case T_DOUBLE: case T_BLOB: case T_TINY_BLOB: case T_MEDIUM_BLOB: case T_LONG_BLOB: case T_JSON: case T_GEOMETRY:
        case T_VECTOR: case T_BLOB_COMPRESSED: case T_TIME2: case T_DATETIME2: case T_TIMESTAMP2: c.meta = wr_rd_u8(&r); break;
        case T_VARCHAR: case T_VARCHAR_COMPRESSED: case T_BIT: case T_NEWDECIMAL: c.meta = wr_rd_u16(&r); break;
        case T_ENUM: case T_SET: case T_STRING: case T_VAR_STRING: {
            uint8_t a = wr_rd_u8(&r), b = wr_rd_u8(&r);
            c.meta = b;
            if (a == T_ENUM || a == T_SET) c.type = a;
            else if ((a & 0x30) != 0x30) c.type = a | 0x30, c.meta = (uint16_t)(b | (((a & 0x30) ^ 0x30) << 4)); /* lengths above 255 */
            else c.type = a ? a : t;
            break;
        }
        default: break;
        }
        out[i] = c;
    }
    return !r.bad && wr_rd_left(&r) == 0;
}

/* What the map says of a column, for messages. */
static void print_map_col(const map_col *m, char buf[64]) {
    static const struct { uint8_t t; const char *n; } names[] = {
        {T_TINY, "TINYINT"}, {T_SHORT, "SMALLINT"}, {T_LONG, "INT"}, {T_FLOAT, "FLOAT"}, {T_DOUBLE, "DOUBLE"}, {T_TIMESTAMP, "TIMESTAMP"},
        {T_LONGLONG, "BIGINT"}, {T_INT24, "MEDIUMINT"}, {T_DATE, "DATE"}, {T_TIME, "TIME"}, {T_DATETIME, "DATETIME"}, {T_YEAR, "YEAR"},
        {T_VARCHAR, "VARCHAR"}, {T_BIT, "BIT"}, {T_TIMESTAMP2, "TIMESTAMP"}, {T_DATETIME2, "DATETIME"}, {T_TIME2, "TIME"}, {T_JSON, "JSON"},
        {T_NEWDECIMAL, "DECIMAL"}, {T_ENUM, "ENUM"}, {T_SET, "SET"}, {T_BLOB, "BLOB/TEXT"}, {T_STRING, "CHAR/BINARY"}, {T_GEOMETRY, "GEOMETRY"},
        {T_VECTOR, "VECTOR"}, {T_BLOB_COMPRESSED, "compressed BLOB/TEXT"}, {T_VARCHAR_COMPRESSED, "compressed VARCHAR"},
    };
    const char *n = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !n; i++)
        if (names[i].t == m->type) n = names[i].n;
    if (n && m->type == T_NEWDECIMAL) snprintf(buf, 64, "%s(%u,%u)", n, m->meta & 255u, (unsigned)m->meta >> 8);
    else if (n) snprintf(buf, 64, "%s (type %u, metadata %u)", n, m->type, m->meta);
    else snprintf(buf, 64, "type %u, metadata %u", m->type, m->meta);
}

__attribute__((cold, noinline)) static wr_code disagree(const wr_my_table *t, int col, const char *binlog_says, const char *we_know, wr_err *err) {
    if (col >= 0)
        wr_fail(err, WR_E_SCHEMA, WR_RETRY_NO, "table %s.%s: column %d is %s in the binlog, but \"%s\" %s in the schema history (version %u)", t->db,
                t->name, col + 1, binlog_says, t->cols[col].name, we_know, t->version);
    else
        wr_fail(err, WR_E_SCHEMA, WR_RETRY_NO, "table %s.%s has %s in the binlog, but %s in the schema history (version %u)", t->db, t->name, binlog_says,
                we_know, t->version);
    return wr_err_cure(err, "a schema change of this table was not in the binlog (sql_log_bin=0, or another server's); take the table out and in again, so "
                            "that it is read anew");
}

static uint8_t blob_len(uint16_t meta) { return meta >= 1 && meta <= 4 ? (uint8_t)meta : 0; }

/* Fills the column's decoder from the definition's kind and the map's type. False = they do not belong together. */
static bool compile(plan_col *c, const map_col *m, const wr_my_col *d, const wr_event_format *f) {
    uint8_t t = m->type;
    uint16_t meta = m->meta;
    bool uns = d->is_unsigned;
#define FIXED(o, w) (c->op = (o), c->width = (w), true)
    switch (d->kind) {
    case MY_TINYINT: return t == T_TINY && FIXED(uns ? OP_U8 : OP_I8, 1);
    case MY_SMALLINT: return t == T_SHORT && FIXED(uns ? OP_U16 : OP_I16, 2);
    case MY_MEDIUMINT: return t == T_INT24 && FIXED(uns ? OP_U24 : OP_I24, 3);
    case MY_INT: return t == T_LONG && FIXED(uns ? OP_U32 : OP_I32, 4);
    case MY_BIGINT: return t == T_LONGLONG && FIXED(uns ? OP_U64 : OP_I64, 8);
    case MY_YEAR: return t == T_YEAR && FIXED(OP_YEAR, 1);
    case MY_FLOAT: return t == T_FLOAT && FIXED(OP_FLOAT, 4);
    case MY_DOUBLE: return t == T_DOUBLE && FIXED(OP_DOUBLE, 8);
    case MY_BIT: {
        unsigned bits = (meta >> 8) * 8u + (meta & 255);
        return t == T_BIT && bits == d->length && bits >= 1 && bits <= 64 && FIXED(OP_BIT, (uint8_t)((bits + 7) / 8));
    }
    case MY_DECIMAL: {
        unsigned prec = meta & 255, scale = meta >> 8, size = wr_decimal_bin_size(prec, scale);
        if (t != T_NEWDECIMAL || prec != d->length || scale != d->scale || !size) return false;
        c->precision = (uint8_t)prec, c->scale = (uint8_t)scale;
        return FIXED(prec > 38 ? OP_DECIMAL_TEXT : OP_DECIMAL, (uint8_t)size);
    }
    case MY_DATE: return (t == T_DATE || t == T_NEWDATE) && FIXED(OP_DATE, 3);
    case MY_TIME:
        if (d->scale > 6) return false;
        c->scale = d->scale;
        if (t == T_TIME2) return meta == d->scale && FIXED(OP_TIME2, (uint8_t)(3 + fraction_bytes(meta)));
        return t == T_TIME && FIXED(OP_TIME_OLD, hires_time_bytes[d->scale]);
    case MY_DATETIME:
        if (d->scale > 6) return false;
        c->scale = d->scale;
        if (t == T_DATETIME2) return meta == d->scale && FIXED(OP_DATETIME2, (uint8_t)(5 + fraction_bytes(meta)));
        return t == T_DATETIME && FIXED(OP_DATETIME_OLD, hires_datetime_bytes[d->scale]);
    case MY_TIMESTAMP:
        if (d->scale > 6) return false;
        c->scale = d->scale;
        if (t == T_TIMESTAMP2) return meta == d->scale && FIXED(OP_TIMESTAMP2, (uint8_t)(4 + fraction_bytes(meta)));
        return t == T_TIMESTAMP && FIXED(OP_TIMESTAMP_OLD, hires_ts_bytes[d->scale]);
    case MY_CHAR:
        c->op = OP_TEXT, c->is_char = true, c->len_bytes = meta > 255 ? 2 : 1;
        return t == T_STRING;
    case MY_BINARY:
        c->op = OP_BYTES, c->is_binary = true, c->pad = d->length, c->len_bytes = meta > 255 ? 2 : 1;
        return t == T_STRING && meta == d->length;
    case MY_VARCHAR:
    case MY_VARBINARY:
        c->op = d->kind == MY_VARCHAR ? OP_TEXT : OP_BYTES;
        c->len_bytes = meta > 255 ? 2 : 1;
        c->is_text = d->kind == MY_VARCHAR;
        if (t == T_VARCHAR_COMPRESSED) return c->op = OP_COMPRESSED, true;
        return (t == T_VARCHAR || t == T_VAR_STRING) && !d->compressed;
    case MY_TEXT:
    case MY_BLOB:
        c->op = d->kind == MY_TEXT ? OP_TEXT : OP_BYTES;
        c->len_bytes = blob_len(meta);
        c->is_text = d->kind == MY_TEXT;
        if (!c->len_bytes) return false;
        if (t == T_BLOB_COMPRESSED) return c->op = OP_COMPRESSED, true;
        return t == T_BLOB && !d->compressed && (d->length < 1 || d->length > 4 || d->length == meta);
    case MY_ENUM: return t == T_ENUM && (meta == 1 || meta == 2) && FIXED(OP_ENUM, (uint8_t)meta);
    case MY_SET: return t == T_SET && meta >= 1 && meta <= 8 && FIXED(OP_SET, (uint8_t)meta);
    case MY_JSON:
        c->op = OP_JSON, c->is_json = true, c->len_bytes = blob_len(meta);
        return t == T_JSON && c->len_bytes;
    case MY_GEOMETRY:
        c->op = OP_GEOMETRY, c->len_bytes = blob_len(meta);
        return t == T_GEOMETRY && c->len_bytes;
    case MY_UUID: {
        unsigned v = f->server_version_num;
        /* 10.10.6, 10.11.5, 11.0.3 and 11.1.2 store versions 6 and above unswapped; tables made before keep "uuid" of old kind */
        c->uuid_swapped = (v && (v < 101006 || (v >= 101100 && v < 101105) || (v >= 110000 && v < 110003) || (v >= 110100 && v < 110102))) ||
                          (d->column_type && strstr(d->column_type, "old"));
        c->op = OP_UUID, c->len_bytes = 1;
        return t == T_STRING && meta == 16;
    }
    case MY_INET4: return c->op = OP_INET4, c->len_bytes = 1, t == T_STRING && meta == 4;
    case MY_INET6: return c->op = OP_INET6, c->len_bytes = 1, t == T_STRING && meta == 16;
    case MY_VECTOR:
        c->op = OP_VECTOR;
        if (t == T_VARCHAR) return c->len_bytes = meta > 255 ? 2 : 1, true; /* MariaDB */
        c->len_bytes = blob_len(meta);
        return (t == T_VECTOR || t == T_BLOB) && c->len_bytes;
    }
    return false;
}

static bool is_integer(wr_my_kind k) { return k >= MY_TINYINT && k <= MY_BIGINT; }
static bool is_signed_type(uint8_t t) { /* the types that have a bit in the signs */
    return t == T_TINY || t == T_SHORT || t == T_INT24 || t == T_LONG || t == T_LONGLONG || t == T_NEWDECIMAL || t == T_FLOAT || t == T_DOUBLE ||
           t == T_YEAR;
}

/* A UNIQUE key over what is too long for an index makes MariaDB keep a hash of it in a hidden column behind all others. Its keys come and go with types of columns, so that no
 * definition here follows them: the map shows that they are there, and with FULL metadata their names. */
static const wr_my_col hash_col = {.name = "DB_ROW_HASH_1", .kind = MY_BIGINT, .column_type = "bigint unsigned", .is_unsigned = true, .hidden = true};

static bool may_be_hashes(const wr_my_table *t, const wr_ev_table_map *m, const wr_event_format *f) {
    if (!f->is_mariadb || m->ncols <= t->ncols) return false;
    for (int i = t->ncols; i < m->ncols; i++)
        if (m->types[i] != T_LONGLONG) return false;
    return true;
}

static const wr_my_col *col_at(const wr_my_table *t, int i) { return i < t->ncols ? &t->cols[i] : &hash_col; }

static wr_code wrong_number(const wr_my_table *t, const wr_ev_table_map *m, wr_err *err) {
    char says[64], know[64];
    snprintf(says, sizeof says, "%d columns", m->ncols);
    snprintf(know, sizeof know, "%d", t->ncols);
    return disagree(t, -1, says, know, err);
}

/* Optional metadata: 1 signs, 4 names, 5 SET labels, 6 ENUM labels. */
static wr_code check_optional(const wr_my_table *t, const wr_ev_table_map *m, const map_col *mc, wr_err *err) {
    wr_rd r = wr_rd_of(m->optional.p, m->optional.n);
    while (wr_rd_left(&r)) {
        unsigned type = wr_rd_u8(&r);
        uint64_t n = wr_rd_lenenc(&r);
        wr_slice v = wr_rd_bytes(&r, n);
        if (r.bad) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "table %s.%s: TABLE_MAP's optional metadata are cut", t->db, t->name);
        wr_rd f = wr_rd_of(v.p, v.n);
        if (type == 1) { /* one bit per numeric column, the highest first */
            int k = 0;
            for (int i = 0; i < m->ncols; i++) {
                if (!is_signed_type(mc[i].type)) continue;
                if ((size_t)k / 8 >= v.n) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "table %s.%s: TABLE_MAP's signs are cut", t->db, t->name);
                bool uns = v.p[k / 8] >> (7 - k % 8) & 1;
                k++;
                if (i >= t->ncols && !uns) return wrong_number(t, m, err);
                if (is_integer(col_at(t, i)->kind) && uns != col_at(t, i)->is_unsigned)
                    return disagree(t, i, uns ? "unsigned" : "signed", t->cols[i].column_type, err);
            }
        } else if (type == 4) {
            for (int i = 0; i < m->ncols; i++) {
                wr_slice name = wr_rd_bytes(&f, wr_rd_lenenc(&f));
                if (f.bad) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "table %s.%s: TABLE_MAP's names are cut", t->db, t->name);
                if (i >= t->ncols) {
                    if (name.n < 12 || memcmp(name.p, "DB_ROW_HASH_", 12) != 0) return wrong_number(t, m, err);
                    continue;
                }
                if (!wr_slice_eq(name, wr_slice_str(t->cols[i].name))) {
                    char says[300];
                    snprintf(says, sizeof says, "\"%.*s\"", (int)(name.n > 256 ? 256 : name.n), (const char *)name.p);
                    return disagree(t, i, says, t->cols[i].column_type ? t->cols[i].column_type : "", err);
                }
            }
        } else if (type == 5 || type == 6) {
            uint8_t kind = type == 5 ? T_SET : T_ENUM;
            for (int i = 0; i < m->ncols; i++) {
                if (mc[i].type != kind || i >= t->ncols) continue;
                uint64_t labels = wr_rd_lenenc(&f);
                for (uint64_t k = 0; k < labels && !f.bad; k++) wr_rd_bytes(&f, wr_rd_lenenc(&f));
                if (f.bad) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "table %s.%s: TABLE_MAP's labels are cut", t->db, t->name);
                if (labels != (uint64_t)t->cols[i].nlabels) {
                    char says[64];
                    snprintf(says, sizeof says, "%s of %llu members", type == 5 ? "a SET" : "an ENUM", (unsigned long long)labels);
                    return disagree(t, i, says, t->cols[i].column_type, err);
                }
            }
        }
    }
    return WR_OK;
}

void wr_row_plan_free(wr_row_plan *p) {
    if (!p) return;
    wr_buf_free(&p->before), wr_buf_free(&p->after), wr_buf_free(&p->tmp), wr_buf_free(&p->whole);
    wr_free(p->pb), wr_free(p->pa), wr_free(p->labels);
    wr_free(p);
}

static wr_code plan_fill(wr_row_plan *p, const wr_ev_table_map *m, const map_col *mc, const wr_event_format *f, wr_err *err) {
    const wr_my_table *t = p->t;
    WR_TRY(check_optional(t, m, mc, err));
    int nlabels = 0;
    for (int i = 0; i < t->ncols; i++) nlabels += t->cols[i].nlabels;
    p->labels = wr_calloc((size_t)nlabels + 1, sizeof *p->labels);
    p->pb = wr_calloc((size_t)p->nlake + 1, sizeof *p->pb);
    p->pa = wr_calloc((size_t)p->nlake + 1, sizeof *p->pa);
    if (!p->labels || !p->pb || !p->pa) return wr_nomem(err, "row plan", 0);
    wr_slice *label = p->labels;
    p->bound = ((size_t)p->nlake + 7) / 8 + 128;
    for (int i = 0; i < p->ncols; i++) {
        plan_col *c = &p->c[i];
        const wr_my_col *d = col_at(t, i);
        c->col = d;
        c->is_hash = i >= t->ncols;
        c->lake = c->is_hash ? -1 : t->lake_col[i];
        if (!compile(c, &mc[i], d, f)) {
            char says[64];
            print_map_col(&mc[i], says);
            return disagree(t, i, says, d->column_type ? d->column_type : "", err);
        }
        if (c->lake >= 0) c->type = t->schema->cols[c->lake].type;
        else if (!c->is_hash) {
            p->hidden = true;
            if (c->op != OP_U64 && c->op != OP_TIMESTAMP2 && c->op != OP_TIMESTAMP_OLD)
                return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "table %s.%s: hidden column %s is no period column", t->db, t->name, d->name);
        }
        p->njson += c->is_json;
        p->bound += 16;
        if (c->op == OP_TEXT || (c->op == OP_COMPRESSED && c->is_text)) {
            WR_TRY(wr_charset_get(d->charset ? d->charset : "utf8mb4", &c->cs, err));
            /* utf8mb3 is a subset; its four-byte sequences cannot have been stored */
            if (c->op == OP_TEXT && (!d->charset || strcmp(d->charset, "utf8mb4") == 0 || strcmp(d->charset, "utf8mb3") == 0 || strcmp(d->charset, "utf8") == 0))
                c->op = OP_UTF8;
        }
        c->labels = label;
        for (int k = 0; k < d->nlabels; k++) {
            if (d->key_ord && !*d->labels[k]) c->empty_label = k + 1;
            *label++ = wr_slice_str(d->labels[k]);
        }
    }
    return WR_OK;
}

wr_code wr_row_plan_new(const wr_my_table *t, const wr_ev_table_map *m, const wr_event_format *f, wr_my_types types, wr_row_plan **ret_plan,
                        wr_err *err) {
    if (m->ncols != t->ncols && !may_be_hashes(t, m, f)) return wrong_number(t, m, err);
    WR_AUTO map_col *mc = wr_calloc((size_t)m->ncols + 1, sizeof *mc);
    wr_row_plan *p = wr_calloc(1, sizeof *p + (size_t)m->ncols * sizeof p->c[0]);
    if (!mc || !p) {
        wr_free(p);
        return wr_nomem(err, "row plan", sizeof *p + (size_t)m->ncols * sizeof p->c[0]);
    }
    p->t = t;
    p->types = types;
    p->ncols = m->ncols;
    p->nlake = t->schema->ncols;
    wr_code rc = WR_OK;
    if (!read_map_cols(m, mc)) rc = wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "table %s.%s: TABLE_MAP's column metadata do not fit its types", t->db, t->name);
    else rc = plan_fill(p, m, mc, f, err);
    if (rc != WR_OK) return wr_row_plan_free(p), rc;
    *ret_plan = p;
    return WR_OK;
}
