#include "json_binary.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "decimal_bin.h"
#include "weir/base/arena.h"

/* The server's own limit is 100. */
#define DEPTH_MAX 110

enum { J_SMALL_OBJECT, J_LARGE_OBJECT, J_SMALL_ARRAY, J_LARGE_ARRAY, J_LITERAL, J_INT16, J_UINT16, J_INT32, J_UINT32, J_INT64, J_UINT64,
       J_DOUBLE, J_STRING, J_OPAQUE = 15 };

/* A value in the document: its type and the bytes from its start to the end of what contains it. */
typedef struct jval { uint8_t type; wr_slice data; } jval;

/* In an honest document no two values share bytes. A hostile one could point at the same bytes again and again; `budget` counts what
 * has been visited and ends that. */
typedef struct jdoc { wr_err *err; size_t budget; } jdoc;

__attribute__((cold, noinline)) static wr_code bad(const jdoc *d, const char *what) {
    return wr_fail(d->err, WR_E_DECODE, WR_RETRY_NO, "binary JSON: %s", what);
}

static wr_code spend(jdoc *d, size_t n) {
    if (d->budget < n) return bad(d, "its parts overlap");
    d->budget -= n;
    return WR_OK;
}

/* ------------------------------------------------------------------ reading */
typedef struct jbox { bool object, large; uint32_t n; wr_slice data; } jbox;

static uint32_t rd_off(const uint8_t *p, bool large) {
    uint32_t v32;
    uint16_t v16;
    if (large) return memcpy(&v32, p, 4), v32;
    return memcpy(&v16, p, 2), v16;
}

static wr_code box_open(jdoc *d, jval v, jbox *b) {
    b->object = v.type <= J_LARGE_OBJECT;
    b->large = v.type == J_LARGE_OBJECT || v.type == J_LARGE_ARRAY;
    size_t w = b->large ? 4 : 2;
    if (v.data.n < 2 * w) return bad(d, "object or array without a header");
    b->n = rd_off(v.data.p, b->large);
    uint32_t size = rd_off(v.data.p + w, b->large);
    if (size > v.data.n) return bad(d, "object or array longer than the document");
    size_t entries = 2 * w + (uint64_t)b->n * ((b->object ? w + 2 : 0) + 1 + w);
    if (entries > size) return bad(d, "object or array with more entries than bytes");
    b->data = wr_slice_of(v.data.p, size);
    return spend(d, entries);
}

static wr_code box_key(jdoc *d, const jbox *b, uint32_t i, wr_slice *ret) {
    size_t w = b->large ? 4 : 2;
    const uint8_t *e = b->data.p + 2 * w + (size_t)i * (w + 2);
    uint32_t off = rd_off(e, b->large), n = rd_off(e + w, false);
    if (off > b->data.n || n > b->data.n - off) return bad(d, "key outside its object");
    *ret = wr_slice_of(b->data.p + off, n);
    return spend(d, n);
}

static wr_code box_value(jdoc *d, const jbox *b, uint32_t i, jval *ret) {
    size_t w = b->large ? 4 : 2;
    const uint8_t *e = b->data.p + 2 * w + (b->object ? (size_t)b->n * (w + 2) : 0) + (size_t)i * (1 + w);
    uint8_t type = e[0];
    bool inlined = type == J_LITERAL || type == J_INT16 || type == J_UINT16 || (b->large && (type == J_INT32 || type == J_UINT32));
    if (inlined) {
        *ret = (jval){type, wr_slice_of(e + 1, w)};
        return WR_OK;
    }
    uint32_t off = rd_off(e + 1, b->large);
    if (off >= b->data.n) return bad(d, "value outside its object or array");
    *ret = (jval){type, wr_slice_of(b->data.p + off, b->data.n - off)};
    return WR_OK;
}

static wr_code read_varlen(jdoc *d, wr_slice *s, size_t *ret) {
    uint64_t v = 0;
    for (size_t i = 0; i < 5; i++) {
        if (i >= s->n) break;
        v |= (uint64_t)(s->p[i] & 0x7F) << (7 * i);
        if (!(s->p[i] & 0x80)) {
            s->p += i + 1, s->n -= i + 1;
            if (v > s->n) return bad(d, "text longer than the document");
            *ret = (size_t)v;
            return spend(d, (size_t)v);
        }
    }
    return bad(d, "no length");
}

/* ------------------------------------------------------------------ text of scalars */
static void put_quoted(wr_buf *out, wr_slice s) {
    static const char hex[] = "0123456789abcdef";
    wr_buf_u8(out, '"');
    size_t from = 0;
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = s.p[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        wr_buf_put(out, s.p + from, i - from);
        from = i + 1;
        char e[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        size_t n = 2;
        switch (c) {
        case '"': case '\\': e[1] = (char)c; break;
        case '\b': e[1] = 'b'; break;
        case '\f': e[1] = 'f'; break;
        case '\n': e[1] = 'n'; break;
        case '\r': e[1] = 'r'; break;
        case '\t': e[1] = 't'; break;
        default: n = 6;
        }
        wr_buf_put(out, e, n);
    }
    wr_buf_put(out, s.p + from, s.n - from);
    wr_buf_u8(out, '"');
}

/* The next larger magnitude with as many digits in "d.ddde+xx". False when it would be 10. */
static bool next_up(char *e) {
    char *end = strchr(e, 'e');
    for (char *p = end ? end - 1 : e; p >= e; p--) {
        if (*p == '.' || *p == '-') continue;
        if (*p != '9') return ++*p, true;
        *p = '0';
    }
    return false;
}

void wr_my_json_print_double(wr_buf *out, double x) {
    char e[40];
    uint64_t bits;
    memcpy(&bits, &x, 8);
    bool power = (bits & 0xFFFFFFFFFFFFFull) == 0;
    /* the fewest digits that read back to the same double */
    for (int prec = 0; prec < 17; prec++) {
        snprintf(e, sizeof e, "%.*e", prec, x);
        if (strtod(e, NULL) == x) break;
        /* Above a power of two doubles lie twice as far apart as below: the next decimal up may read back where the nearest does not. */
        if (power && next_up(e) && strtod(e, NULL) == x) break;
        if (prec == 16) snprintf(e, sizeof e, "%.16e", x);
    }
    char digits[20] = "0";
    int n = 0;
    const char *p = e;
    bool neg = *p == '-';
    if (neg) p++;
    for (; *p && *p != 'e' && n < 19; p++)
        if (*p != '.') digits[n++] = *p;
    if (*p != 'e') { /* infinity and NaN do not occur in JSON; the server shows 0 */
        wr_buf_put(out, "0", 1);
        return;
    }
    int point = atoi(p + 1) + 1; /* where the decimal point stands from the first digit */
    while (n > 1 && digits[n - 1] == '0') n--;
    if (n == 1 && digits[0] == '0') point = 1;
    char t[64];
    int k = 0;
    if (neg) t[k++] = '-';
    /* MySQL's my_gcvt with its widest field: no exponent for -14 <= point <= 15, nor where digits stand behind the point */
    if (point >= -14 && (point <= 15 || n > point)) {
        bool frac = false;
        if (point <= 0) {
            t[k++] = '0', t[k++] = '.';
            frac = true;
            for (int i = point; i < 0; i++) t[k++] = '0';
        }
        for (int i = 0; i < n; i++) {
            if (i == point && point > 0) t[k++] = '.', frac = true;
            t[k++] = digits[i];
        }
        for (int i = n; i < point; i++) t[k++] = '0';
        if (!frac) t[k++] = '.', t[k++] = '0';
    } else {
        t[k++] = digits[0];
        if (n > 1) {
            t[k++] = '.';
            memcpy(t + k, digits + 1, (size_t)n - 1);
            k += n - 1;
        }
        k += sprintf(t + k, "e%d", point - 1);
    }
    wr_buf_put(out, t, (size_t)k);
}

/* As the server's base64: a newline after every 76 characters. */
static void put_base64(wr_buf *out, wr_slice s) {
    static const char abc[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t line = 0;
    for (size_t i = 0; i < s.n; i += 3) {
        if (line == 76) wr_buf_put(out, "\\n", 2), line = 0;
        uint32_t v = (uint32_t)s.p[i] << 16 | (i + 1 < s.n ? (uint32_t)s.p[i + 1] << 8 : 0) | (i + 2 < s.n ? s.p[i + 2] : 0);
        char q[4] = {abc[v >> 18], abc[v >> 12 & 63], i + 1 < s.n ? abc[v >> 6 & 63] : '=', i + 2 < s.n ? abc[v & 63] : '='};
        wr_buf_put(out, q, 4);
        line += 4;
    }
}

static wr_code put_opaque(jdoc *d, wr_buf *out, uint8_t type, wr_slice s) {
    if (type == 253 /* VAR_STRING */) return put_quoted(out, s), WR_OK;
    if (type == 246 /* NEWDECIMAL */) {
        unsigned size = s.n >= 2 ? wr_decimal_bin_size(s.p[0], s.p[1]) : 0;
        if (!size || s.n - 2 != size || !wr_decimal_bin_print(s.p + 2, s.p[0], s.p[1], out)) return bad(d, "malformed decimal");
        return WR_OK;
    }
    if (type == 7 || type == 10 || type == 11 || type == 12) { /* TIMESTAMP, DATE, TIME, DATETIME */
        if (s.n != 8) return bad(d, "malformed date or time");
        int64_t v;
        memcpy(&v, s.p, 8);
        bool neg = v < 0;
        uint64_t u = neg ? 0 - (uint64_t)v : (uint64_t)v, us = u & 0xFFFFFF, hms = u >> 24 & 0x1FFFF, ym = u >> 46;
        char t[96];
        unsigned h = (unsigned)(hms >> 12), m = (unsigned)(hms >> 6 & 63), sec = (unsigned)(hms & 63);
        int n;
        if (type == 11)
            n = snprintf(t, sizeof t, "\"%s%02u:%02u:%02u.%06u\"", neg ? "-" : "", (unsigned)(u >> 36 & 1023), m, sec, (unsigned)us);
        else if (type == 10)
            n = snprintf(t, sizeof t, "\"%04u-%02u-%02u\"", (unsigned)(ym / 13), (unsigned)(ym % 13), (unsigned)(u >> 41 & 31));
        else
            n = snprintf(t, sizeof t, "\"%04u-%02u-%02u %02u:%02u:%02u.%06u\"", (unsigned)(ym / 13), (unsigned)(ym % 13),
                         (unsigned)(u >> 41 & 31), h, m, sec, (unsigned)us);
        wr_buf_put(out, t, (size_t)n);
        return WR_OK;
    }
    wr_buf_printf(out, "\"base64:type%u:", type);
    put_base64(out, s);
    wr_buf_u8(out, '"');
    return WR_OK;
}

static wr_code put_scalar(jdoc *d, jval v, wr_buf *out) {
    static const uint8_t width[] = {[J_LITERAL] = 1, [J_INT16] = 2, [J_UINT16] = 2, [J_INT32] = 4, [J_UINT32] = 4,
                                    [J_INT64] = 8, [J_UINT64] = 8, [J_DOUBLE] = 8};
    if (v.type >= J_LITERAL && v.type <= J_DOUBLE) {
        if (v.data.n < width[v.type]) return bad(d, "number cut");
        WR_TRY(spend(d, 1));
        uint64_t u = 0;
        memcpy(&u, v.data.p, width[v.type]);
        switch (v.type) {
        case J_LITERAL:
            if (u > 2) return bad(d, "unknown literal");
            wr_buf_printf(out, "%s", u == 0 ? "null" : u == 1 ? "true" : "false");
            break;
        case J_INT16: wr_buf_printf(out, "%d", (int16_t)u); break;
        case J_INT32: wr_buf_printf(out, "%d", (int32_t)u); break;
        case J_INT64: wr_buf_printf(out, "%lld", (long long)u); break;
        case J_DOUBLE: {
            double x;
            memcpy(&x, &u, 8);
            wr_my_json_print_double(out, x);
            break;
        }
        default: wr_buf_printf(out, "%llu", (unsigned long long)u); break;
        }
        return WR_OK;
    }
    if (v.type == J_STRING || v.type == J_OPAQUE) {
        uint8_t field = 0;
        size_t n = 0;
        if (v.type == J_OPAQUE) {
            if (v.data.n < 1) return bad(d, "opaque value cut");
            field = v.data.p[0];
            v.data.p++, v.data.n--;
        }
        WR_TRY(read_varlen(d, &v.data, &n));
        WR_TRY(spend(d, 1));
        wr_slice s = wr_slice_of(v.data.p, n);
        if (v.type == J_OPAQUE) return put_opaque(d, out, field, s);
        put_quoted(out, s);
        return WR_OK;
    }
    return bad(d, "unknown type");
}

/* ------------------------------------------------------------------ straight to text */
static wr_code put_value(jdoc *d, jval v, wr_buf *out, int depth) {
    if (v.type > J_LARGE_ARRAY) return put_scalar(d, v, out);
    if (depth == DEPTH_MAX) return bad(d, "nested too deeply");
    jbox b;
    WR_TRY(box_open(d, v, &b));
    wr_buf_u8(out, b.object ? '{' : '[');
    for (uint32_t i = 0; i < b.n; i++) {
        if (i) wr_buf_put(out, ", ", 2);
        if (b.object) {
            wr_slice key;
            WR_TRY(box_key(d, &b, i, &key));
            put_quoted(out, key);
            wr_buf_put(out, ": ", 2);
        }
        jval e;
        WR_TRY(box_value(d, &b, i, &e));
        WR_TRY(put_value(d, e, out, depth + 1));
    }
    wr_buf_u8(out, b.object ? '}' : ']');
    return WR_OK;
}

wr_code wr_my_json_print(wr_slice doc, wr_buf *out, wr_err *err) {
    if (doc.n == 0) {
        wr_buf_put(out, "null", 4);
        return wr_buf_check(out, "JSON text", err);
    }
    jdoc d = {err, 2 * doc.n + 16}; /* entries are counted once as entries and once as values */
    WR_TRY(put_value(&d, (jval){doc.p[0], wr_slice_of(doc.p + 1, doc.n - 1)}, out, 0));
    return wr_buf_check(out, "JSON text", err);
}

/* ------------------------------------------------------------------ a tree, for diffs */
typedef struct jnode jnode;
typedef struct jmember { wr_slice key; jnode *value; } jmember;
struct jnode {
    bool box, object;
    jval scalar;         /* not box */
    jmember *m;          /* box; members rising by (length, bytes) of the key, as the server keeps them */
    uint32_t n, cap;
};

static jnode *node_new(wr_arena *a) { return wr_arena_zalloc(a, sizeof(jnode)); }

static wr_code no_room(const jdoc *d) { return wr_nomem(d->err, "JSON document", sizeof(jnode)); }

static wr_code tree_build(jdoc *d, wr_arena *a, jval v, int depth, jnode **ret) {
    jnode *x = node_new(a);
    if (!x) return no_room(d);
    if (v.type > J_LARGE_ARRAY) {
        x->scalar = v;
        *ret = x;
        return spend(d, 1);
    }
    if (depth == DEPTH_MAX) return bad(d, "nested too deeply");
    jbox b;
    WR_TRY(box_open(d, v, &b));
    x->box = true, x->object = b.object;
    x->m = wr_arena_alloc(a, (size_t)b.n * sizeof *x->m + 1);
    if (!x->m) return no_room(d);
    x->n = x->cap = b.n;
    for (uint32_t i = 0; i < b.n; i++) {
        x->m[i].key = (wr_slice){0};
        if (b.object) WR_TRY(box_key(d, &b, i, &x->m[i].key));
        jval e;
        WR_TRY(box_value(d, &b, i, &e));
        WR_TRY(tree_build(d, a, e, depth + 1, &x->m[i].value));
    }
    *ret = x;
    return WR_OK;
}

static wr_code tree_print(jdoc *d, const jnode *x, wr_buf *out, int depth) {
    if (!x->box) return put_scalar(d, x->scalar, out);
    if (depth == DEPTH_MAX) return bad(d, "nested too deeply");
    wr_buf_u8(out, x->object ? '{' : '[');
    for (uint32_t i = 0; i < x->n; i++) {
        if (i) wr_buf_put(out, ", ", 2);
        if (x->object) {
            put_quoted(out, x->m[i].key);
            wr_buf_put(out, ": ", 2);
        }
        WR_TRY(tree_print(d, x->m[i].value, out, depth + 1));
    }
    wr_buf_u8(out, x->object ? '}' : ']');
    return WR_OK;
}

static int key_cmp(wr_slice a, wr_slice b) {
    if (a.n != b.n) return a.n < b.n ? -1 : 1;
    return a.n ? memcmp(a.p, b.p, a.n) : 0;
}

static uint32_t member_find(const jnode *x, wr_slice key, bool *found) {
    uint32_t lo = 0, hi = x->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int c = key_cmp(x->m[mid].key, key);
        if (c == 0) return *found = true, mid;
        if (c < 0) lo = mid + 1;
        else hi = mid;
    }
    *found = false;
    return lo;
}

static wr_code member_insert(jdoc *d, wr_arena *a, jnode *x, uint32_t at, jmember m) {
    if (x->n == x->cap) {
        uint32_t cap = x->cap < 4 ? 8 : x->cap * 2;
        jmember *n = wr_arena_alloc(a, (size_t)cap * sizeof *n);
        if (!n) return no_room(d);
        memcpy(n, x->m, (size_t)x->n * sizeof *n);
        x->m = n, x->cap = cap;
    }
    memmove(x->m + at + 1, x->m + at, (size_t)(x->n - at) * sizeof *x->m);
    x->m[at] = m;
    x->n++;
    return WR_OK;
}

/* One leg of a path: .name, ."name" (escaped as in JSON) or [n]. */
typedef struct jleg { bool member; wr_slice name; uint64_t index; } jleg;

static int hex_digit(uint8_t c) { return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; }

static bool read_u16_escape(wr_slice s, size_t at, uint32_t *ret) {
    if (s.n - at < 4) return false;
    uint32_t v = 0;
    for (size_t k = at; k < at + 4; k++) {
        int h = hex_digit(s.p[k]);
        if (h < 0) return false;
        v = v << 4 | (uint32_t)h;
    }
    return *ret = v, true;
}

static bool read_quoted_name(wr_arena *a, wr_slice s, size_t *at, wr_slice *ret) {
    uint8_t *to = wr_arena_alloc(a, s.n + 1);
    size_t n = 0, i = *at + 1;
    if (!to) return false;
    for (; i < s.n && s.p[i] != '"'; i++) {
        uint8_t c = s.p[i];
        if (c != '\\') {
            to[n++] = c;
            continue;
        }
        if (++i >= s.n) return false;
        switch (c = s.p[i]) {
        case 'b': to[n++] = '\b'; break;
        case 'f': to[n++] = '\f'; break;
        case 'n': to[n++] = '\n'; break;
        case 'r': to[n++] = '\r'; break;
        case 't': to[n++] = '\t'; break;
        case 'u': {
            uint32_t u, low;
            if (!read_u16_escape(s, i + 1, &u)) return false;
            i += 4;
            if (u >= 0xD800 && u < 0xDC00 && s.n - i > 6 && s.p[i + 1] == '\\' && s.p[i + 2] == 'u' && read_u16_escape(s, i + 3, &low)) {
                u = 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00);
                i += 6;
                to[n++] = (uint8_t)(0xF0 | (u >> 18 & 7)), to[n++] = (uint8_t)(0x80 | (u >> 12 & 63));
                to[n++] = (uint8_t)(0x80 | (u >> 6 & 63)), to[n++] = (uint8_t)(0x80 | (u & 63));
            } else if (u >= 0x800) {
                to[n++] = (uint8_t)(0xE0 | u >> 12), to[n++] = (uint8_t)(0x80 | (u >> 6 & 63)), to[n++] = (uint8_t)(0x80 | (u & 63));
            } else if (u >= 0x80) to[n++] = (uint8_t)(0xC0 | u >> 6), to[n++] = (uint8_t)(0x80 | (u & 63));
            else to[n++] = (uint8_t)u;
            break;
        }
        default: to[n++] = c; break;
        }
    }
    if (i >= s.n) return false;
    *at = i + 1;
    *ret = wr_slice_of(to, n);
    return true;
}

static bool read_leg(wr_arena *a, wr_slice s, size_t *at, jleg *leg) {
    while (*at < s.n && (s.p[*at] == ' ' || s.p[*at] == '\t')) ++*at;
    if (*at >= s.n) return false;
    *leg = (jleg){0};
    if (s.p[*at] == '.') {
        ++*at;
        leg->member = true;
        while (*at < s.n && (s.p[*at] == ' ' || s.p[*at] == '\t')) ++*at;
        if (*at < s.n && s.p[*at] == '"') return read_quoted_name(a, s, at, &leg->name);
        size_t from = *at;
        while (*at < s.n && s.p[*at] != '.' && s.p[*at] != '[' && s.p[*at] != ' ') ++*at;
        leg->name = wr_slice_of(s.p + from, *at - from);
        return leg->name.n > 0;
    }
    if (s.p[*at] != '[') return false;
    size_t digits = 0;
    for (++*at; *at < s.n && s.p[*at] >= '0' && s.p[*at] <= '9' && digits < 18; ++*at, digits++) leg->index = leg->index * 10 + (uint64_t)(s.p[*at] - '0');
    if (!digits || *at >= s.n || s.p[*at] != ']') return false;
    ++*at;
    return true;
}

enum { DIFF_REPLACE, DIFF_INSERT, DIFF_REMOVE };

__attribute__((cold, noinline)) static wr_code no_path(const jdoc *d, wr_slice path) {
    return wr_fail(d->err, WR_E_DECODE, WR_RETRY_NO, "a JSON diff's path %.*s does not fit the row's document", (int)(path.n > 200 ? 200 : path.n),
                   (const char *)path.p);
}

static wr_code apply_diff(jdoc *d, wr_arena *a, jnode **root, int op, wr_slice path, jnode *value) {
    size_t at = 1;
    if (path.n < 1 || path.p[0] != '$') return no_path(d, path);
    jnode **slot = root, *parent = NULL;
    uint32_t pi = 0; /* slot's index in parent */
    bool exists = true;
    jleg leg = {0};
    while (at < path.n) {
        if (!exists || !read_leg(a, path, &at, &leg)) return no_path(d, path);
        jnode *x = *slot;
        if (leg.member) {
            if (!x->box || !x->object) return no_path(d, path);
            pi = member_find(x, leg.name, &exists);
        } else {
            if ((!x->box || x->object) && leg.index == 0 && op != DIFF_INSERT) continue; /* [0] of what is no array is the value itself */
            if (!x->box || x->object) return no_path(d, path);
            exists = leg.index < x->n;
            pi = exists ? (uint32_t)leg.index : x->n;
        }
        parent = x;
        if (exists) slot = &x->m[pi].value;
    }
    if (op == DIFF_REPLACE) {
        if (!exists) return no_path(d, path);
        *slot = value;
        return WR_OK;
    }
    if (!parent) return no_path(d, path);
    if (op == DIFF_REMOVE) {
        if (!exists) return no_path(d, path);
        memmove(parent->m + pi, parent->m + pi + 1, (size_t)(parent->n - pi - 1) * sizeof *parent->m);
        parent->n--;
        return WR_OK;
    }
    if (parent->object && exists) return no_path(d, path);
    return member_insert(d, a, parent, pi, (jmember){parent->object ? leg.name : (wr_slice){0}, value});
}

static uint64_t rd_lenenc(wr_rd *r) {
    uint8_t c = wr_rd_u8(r);
    if (c < 0xFB) return c;
    if (c == 0xFC) return wr_rd_u16(r);
    if (c == 0xFD) return wr_rd_uint(r, 3);
    if (c == 0xFE) return wr_rd_u64(r);
    r->bad = true;
    return 0;
}

static wr_code patched(jdoc *d, wr_arena *a, wr_slice doc, wr_slice diffs, wr_buf *out) {
    static const uint8_t null_literal[2] = {J_LITERAL, 0};
    if (doc.n == 0) doc = wr_slice_of(null_literal, 2);
    jnode *root = NULL;
    WR_TRY(tree_build(d, a, (jval){doc.p[0], wr_slice_of(doc.p + 1, doc.n - 1)}, 0, &root));
    wr_rd r = wr_rd_of(diffs.p, diffs.n);
    while (wr_rd_left(&r)) {
        unsigned op = wr_rd_u8(&r);
        wr_slice path = wr_rd_bytes(&r, rd_lenenc(&r));
        if (r.bad || op > DIFF_REMOVE) return bad(d, "malformed diff");
        jnode *value = NULL;
        if (op != DIFF_REMOVE) {
            wr_slice v = wr_rd_bytes(&r, rd_lenenc(&r));
            if (r.bad || v.n == 0) return bad(d, "diff without a value");
            WR_TRY(tree_build(d, a, (jval){v.p[0], wr_slice_of(v.p + 1, v.n - 1)}, 0, &value));
        }
        WR_TRY(apply_diff(d, a, &root, (int)op, path, value));
    }
    d->budget = 2 * (doc.n + diffs.n) + 64;
    return tree_print(d, root, out, 0);
}

wr_code wr_my_json_print_patched(wr_slice doc, wr_slice diffs, wr_buf *out, wr_err *err) {
    wr_arena *a = wr_arena_new(0);
    if (!a) return wr_nomem(err, "JSON document", 0);
    jdoc d = {err, 2 * (doc.n + diffs.n) + 64};
    wr_code rc = patched(&d, a, doc, diffs, out);
    wr_arena_free(a);
    return rc != WR_OK ? rc : wr_buf_check(out, "JSON text", err);
}
