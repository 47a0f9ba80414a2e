/* The server's character sets to UTF-8, byte for byte as the server itself converts them.
 *
 * Single-byte sets are tables read from the servers. Two-byte sets are tables of 65,536 entries, filled at first use from ICU's
 * nearest converter and a list of differences (charset_tables.c). The Unicode forms and UTF-8 are decoded here.
 * What the server shows as '?' because the set has no such character is an error here: '?' would be a silent loss.
 *
 * @thread any: a wr_charset is immutable once it is in the cache, which has a lock */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unicode/ucnv.h>
#include <unicode/ucnv_err.h>
#include "charset_private.h"
#include "value.h"
#include "weir/base/mem.h"

typedef enum charset_kind { CS_UTF8MB4, CS_UTF8MB3, CS_ASCII, CS_SINGLE, CS_MULTI, CS_GB18030, CS_UCS2, CS_UTF16, CS_UTF16LE, CS_UTF32 } charset_kind;

struct wr_charset {
    char name[24];
    charset_kind kind;
    const wr_charset_single *single;
    uint16_t *two;   /* [65536] by both bytes; CS_MULTI and CS_GB18030 */
    uint16_t *three; /* [65536] by the two bytes behind 0x8F, or NULL */
    bool kana;       /* 0xA1..0xDF are single-byte half-width katakana (sjis, cp932) */
};

/* ------------------------------------------------------------------ output */
static inline void put_char(wr_buf *out, uint32_t c) {
    uint8_t b[4];
    size_t n;
    if (c < 0x80) b[0] = (uint8_t)c, n = 1;
    else if (c < 0x800) b[0] = (uint8_t)(0xC0 | c >> 6), b[1] = (uint8_t)(0x80 | (c & 63)), n = 2;
    else if (c < 0x10000)
        b[0] = (uint8_t)(0xE0 | c >> 12), b[1] = (uint8_t)(0x80 | (c >> 6 & 63)), b[2] = (uint8_t)(0x80 | (c & 63)), n = 3;
    else
        b[0] = (uint8_t)(0xF0 | c >> 18), b[1] = (uint8_t)(0x80 | (c >> 12 & 63)), b[2] = (uint8_t)(0x80 | (c >> 6 & 63)),
        b[3] = (uint8_t)(0x80 | (c & 63)), n = 4;
    wr_buf_put(out, b, n);
}

__attribute__((cold, noinline)) static wr_code undefined_at(const wr_charset *cs, wr_slice in, size_t at, wr_err *err) {
    char hex[16 * 3 + 1] = "";
    size_t n = 0;
    for (size_t i = at; i < in.n && i < at + 8; i++) n += (size_t)snprintf(hex + n, sizeof hex - n, "%s%02x", i > at ? " " : "", in.p[i]);
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "byte %zu of %zu is no %s character: %s", at, in.n, cs->name, hex);
}

/* Length of the run of ASCII at p. */
static inline size_t ascii_run(const uint8_t *p, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t w;
        memcpy(&w, p + i, 8);
        if (w & 0x8080808080808080ull) return i + (size_t)__builtin_ctzll(w & 0x8080808080808080ull) / 8;
    }
    while (i < n && p[i] < 0x80) i++;
    return i;
}

/* Number of bytes of valid UTF-8 at the start (Unicode table 3-7: no surrogates, no overlong forms). */
static size_t utf8_valid(const uint8_t *p, size_t n, bool four) {
    size_t i = 0;
    while (i < n) {
        i += ascii_run(p + i, n - i);
        if (i >= n) break;
        uint8_t c = p[i];
        size_t len = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
        if (c < 0xC2 || c > 0xF4 || n - i < len || (len == 4 && !four)) return i;
        uint8_t lo = 0x80, hi = 0xBF;
        if (c == 0xE0) lo = 0xA0;
        if (c == 0xED) hi = 0x9F;
        if (c == 0xF0) lo = 0x90;
        if (c == 0xF4) hi = 0x8F;
        if (p[i + 1] < lo || p[i + 1] > hi) return i;
        for (size_t k = 2; k < len; k++)
            if ((p[i + k] & 0xC0) != 0x80) return i;
        i += len;
    }
    return n;
}

size_t wr_utf8_prefix(wr_slice in) { return utf8_valid(in.p, in.n, true); }

/* ------------------------------------------------------------------ decoding */
static wr_code decode_single(const wr_charset *cs, wr_slice in, wr_buf *out, wr_err *err) {
    for (size_t i = 0; i < in.n;) {
        if (!cs->single->swe7) {
            size_t n = ascii_run(in.p + i, in.n - i);
            wr_buf_put(out, in.p + i, n);
            i += n;
            if (i >= in.n) break;
        }
        uint8_t b = in.p[i];
        uint16_t c = b < 0x80 ? wr_charset_swe7_low[b] : cs->single->high[b - 0x80];
        if (c == WR_CHARSET_NONE) return undefined_at(cs, in, i, err);
        put_char(out, c);
        i++;
    }
    return WR_OK;
}

static wr_code decode_multi(const wr_charset *cs, wr_slice in, wr_buf *out, wr_err *err) {
    for (size_t i = 0; i < in.n;) {
        size_t n = ascii_run(in.p + i, in.n - i);
        wr_buf_put(out, in.p + i, n);
        i += n;
        if (i >= in.n) break;
        uint8_t b = in.p[i];
        uint32_t c = WR_CHARSET_NONE;
        size_t len = 2;
        if (cs->kana && b >= 0xA1 && b <= 0xDF) c = 0xFF61u + (b - 0xA1u), len = 1;
        else if (cs->three && b == 0x8F) {
            len = 3;
            if (in.n - i >= 3) c = cs->three[in.p[i + 1] << 8 | in.p[i + 2]];
        } else if (in.n - i >= 2)
            c = cs->two[b << 8 | in.p[i + 1]];
        if (c == WR_CHARSET_NONE) return undefined_at(cs, in, i, err);
        put_char(out, c);
        i += len;
    }
    return WR_OK;
}

/* Four-byte codes of GB18030 go to ICU, one by one: they are rare. */
static uint32_t gb18030_four(UConverter *cnv, const uint8_t *p) {
    UChar o[4];
    UErrorCode e = U_ZERO_ERROR;
    ucnv_reset(cnv);
    int32_t n = ucnv_toUChars(cnv, o, 4, (const char *)p, 4, &e);
    if (U_FAILURE(e)) return WR_CHARSET_NONE;
    if (n == 1) return o[0];
    if (n == 2 && (o[0] & 0xFC00) == 0xD800) return 0x10000u + ((uint32_t)(o[0] - 0xD800) << 10) + (uint32_t)(o[1] - 0xDC00);
    return WR_CHARSET_NONE;
}

static UConverter *open_icu(const char *name) {
    UErrorCode e = U_ZERO_ERROR;
    UConverter *cnv = ucnv_open(name, &e);
    if (U_FAILURE(e)) return NULL;
    ucnv_setToUCallBack(cnv, UCNV_TO_U_CALLBACK_STOP, NULL, NULL, NULL, &e);
    if (U_FAILURE(e)) {
        ucnv_close(cnv);
        return NULL;
    }
    return cnv;
}

static wr_code decode_gb18030(const wr_charset *cs, wr_slice in, wr_buf *out, wr_err *err) {
    UConverter *cnv = NULL;
    wr_code rc = WR_OK;
    for (size_t i = 0; i < in.n;) {
        size_t n = ascii_run(in.p + i, in.n - i);
        wr_buf_put(out, in.p + i, n);
        i += n;
        if (i >= in.n) break;
        uint32_t c = WR_CHARSET_NONE;
        size_t len = 2;
        if (in.n - i >= 4 && in.p[i + 1] >= 0x30 && in.p[i + 1] <= 0x39) {
            len = 4;
            if (!cnv && !(cnv = open_icu("gb18030"))) {
                rc = wr_nomem(err, "ICU converter", 0);
                break;
            }
            c = gb18030_four(cnv, in.p + i);
        } else if (in.n - i >= 2)
            c = cs->two[in.p[i] << 8 | in.p[i + 1]];
        if (c == WR_CHARSET_NONE) {
            rc = undefined_at(cs, in, i, err);
            break;
        }
        put_char(out, c);
        i += len;
    }
    if (cnv) ucnv_close(cnv);
    return rc;
}

static wr_code decode_unicode(const wr_charset *cs, wr_slice in, wr_buf *out, wr_err *err) {
    size_t unit = cs->kind == CS_UTF32 ? 4 : 2;
    for (size_t i = 0; i < in.n;) {
        if (in.n - i < unit) return undefined_at(cs, in, i, err);
        const uint8_t *p = in.p + i;
        uint32_t c;
        size_t len = unit;
        if (cs->kind == CS_UTF32) c = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
        else if (cs->kind == CS_UTF16LE) c = (uint32_t)(p[0] | p[1] << 8);
        else c = (uint32_t)(p[0] << 8 | p[1]);
        if (c >= 0xD800 && c <= 0xDBFF && unit == 2 && cs->kind != CS_UCS2) {
            if (in.n - i < 4) return undefined_at(cs, in, i, err);
            uint32_t low = cs->kind == CS_UTF16LE ? (uint32_t)(p[2] | p[3] << 8) : (uint32_t)(p[2] << 8 | p[3]);
            if (low < 0xDC00 || low > 0xDFFF) return undefined_at(cs, in, i, err);
            c = 0x10000u + ((c - 0xD800u) << 10) + (low - 0xDC00u);
            len = 4;
        }
        if ((c >= 0xD800 && c <= 0xDFFF) || c > 0x10FFFF) return undefined_at(cs, in, i, err);
        put_char(out, c);
        i += len;
    }
    return WR_OK;
}

wr_code wr_charset_decode(const wr_charset *cs, wr_slice in, wr_buf *out, wr_err *err) {
    switch (cs->kind) {
    case CS_UTF8MB4:
    case CS_UTF8MB3:
    case CS_ASCII: {
        size_t ok = cs->kind == CS_ASCII ? ascii_run(in.p, in.n) : utf8_valid(in.p, in.n, cs->kind == CS_UTF8MB4);
        if (__builtin_expect(ok != in.n, 0)) return undefined_at(cs, in, ok, err);
        wr_buf_put(out, in.p, in.n);
        break;
    }
    case CS_SINGLE: WR_TRY(decode_single(cs, in, out, err)); break;
    case CS_MULTI: WR_TRY(decode_multi(cs, in, out, err)); break;
    case CS_GB18030: WR_TRY(decode_gb18030(cs, in, out, err)); break;
    default: WR_TRY(decode_unicode(cs, in, out, err)); break;
    }
    return wr_buf_check(out, "text", err);
}

static bool table_has(const uint16_t *t, size_t n, uint32_t c) {
    for (size_t i = 0; t && i < n; i++)
        if (t[i] == c) return true;
    return false;
}

bool wr_charset_has(const wr_charset *cs, uint32_t c) {
    switch (cs->kind) {
    case CS_UTF8MB3:
    case CS_UCS2: return c < 0x10000;
    case CS_ASCII: return c < 0x80;
    case CS_SINGLE:
        if (cs->single->swe7 && table_has(wr_charset_swe7_low, 128, c)) return true;
        if (c < 0x80) return !cs->single->swe7;
        return c < WR_CHARSET_NONE && table_has(cs->single->high, 128, c);
    case CS_MULTI:
        if (c < 0x80 || (cs->kana && c >= 0xFF61 && c <= 0xFF9F)) return true;
        return c < WR_CHARSET_NONE && (table_has(cs->two, 65536, c) || table_has(cs->three, 65536, c));
    default: return true;
    }
}

/* ------------------------------------------------------------------ the cache */
static void fill_table(UConverter *cnv, uint16_t *t, bool three, const wr_charset_diff *d, int nd) {
    for (unsigned i = 0; i < 65536; i++) t[i] = WR_CHARSET_NONE;
    for (unsigned hi = 0x80; hi < 256; hi++)
        for (unsigned lo = 0x30; lo < 256; lo++) {
            char b[3] = {(char)0x8F, (char)hi, (char)lo};
            UChar o[4];
            UErrorCode e = U_ZERO_ERROR;
            ucnv_reset(cnv);
            int32_t n = ucnv_toUChars(cnv, o, 4, three ? b : b + 1, three ? 3 : 2, &e);
            if (U_SUCCESS(e) && n == 1) t[hi << 8 | lo] = o[0];
        }
    for (int i = 0; i < nd; i++)
        for (unsigned c = d[i].lo; c <= d[i].hi; c++)
            t[c] = d[i].unicode ? (uint16_t)(d[i].unicode + (c - d[i].lo)) : (uint16_t)WR_CHARSET_NONE;
}

static void charset_free(wr_charset *cs) {
    if (!cs) return;
    wr_free(cs->two);
    wr_free(cs->three);
    wr_free(cs);
}

static wr_code fill_multi(wr_charset *cs, const char *icu, const wr_charset_multi *m, wr_err *err) {
    UConverter *cnv = open_icu(icu);
    if (!cnv)
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "character set %s: this ICU library has no converter %s", cs->name, icu);
    cs->two = wr_malloc(65536 * sizeof *cs->two);
    if (cs->two) fill_table(cnv, cs->two, false, m ? m->two : NULL, m ? m->ntwo : 0);
    if (m && m->nthree) {
        cs->three = wr_malloc(65536 * sizeof *cs->three);
        if (cs->three) fill_table(cnv, cs->three, true, m->three, m->nthree);
    }
    ucnv_close(cnv);
    if (!cs->two || (m && m->nthree && !cs->three)) return wr_nomem(err, "character set table", 65536 * 2);
    return WR_OK;
}

static wr_code charset_make(const char *name, wr_charset **ret, wr_err *err) {
    static const struct { const char *name; charset_kind kind; } plain[] = {
        {"utf8mb4", CS_UTF8MB4}, {"utf8mb3", CS_UTF8MB3}, {"utf8", CS_UTF8MB3}, {"ascii", CS_ASCII}, {"ucs2", CS_UCS2},
        {"utf16", CS_UTF16}, {"utf16le", CS_UTF16LE}, {"utf32", CS_UTF32}, {"gb18030", CS_GB18030},
        /* text of these is decoded only where it is meant to be text (statements), so it must be UTF-8 */
        {"binary", CS_UTF8MB4},
    };
    wr_charset *cs = strlen(name) < sizeof cs->name ? wr_calloc(1, sizeof *cs) : NULL;
    if (!cs && strlen(name) < sizeof cs->name) return wr_nomem(err, "character set", sizeof *cs);
    if (cs) {
        memcpy(cs->name, name, strlen(name) + 1);
        for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
            if (strcmp(plain[i].name, name) == 0) {
                cs->kind = plain[i].kind;
                if (cs->kind == CS_GB18030) {
                    wr_code rc = fill_multi(cs, "gb18030", NULL, err);
                    if (rc != WR_OK) return charset_free(cs), rc;
                }
                return *ret = cs, WR_OK;
            }
        for (int i = 0; i < wr_charset_nsingles; i++)
            if (strcmp(wr_charset_singles[i].name, name) == 0) {
                cs->kind = CS_SINGLE;
                cs->single = &wr_charset_singles[i];
                return *ret = cs, WR_OK;
            }
        for (int i = 0; i < wr_charset_nmultis; i++)
            if (strcmp(wr_charset_multis[i].name, name) == 0) {
                cs->kind = CS_MULTI;
                cs->kana = strcmp(name, "sjis") == 0 || strcmp(name, "cp932") == 0;
                wr_code rc = fill_multi(cs, wr_charset_multis[i].icu, &wr_charset_multis[i], err);
                if (rc != WR_OK) return charset_free(cs), rc;
                return *ret = cs, WR_OK;
            }
        charset_free(cs);
    }
    return wr_err_cure((wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "character set %s is not known", name), err),
                       "convert the column to utf8mb4, or exclude the table");
}

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static const wr_charset *cache[64]; /* guarded by cache_lock; lives as long as the process */
static int ncache;

wr_code wr_charset_get(const char *name, const wr_charset **ret_charset, wr_err *err) {
    wr_code rc = WR_OK;
    pthread_mutex_lock(&cache_lock);
    const wr_charset *found = NULL;
    for (int i = 0; i < ncache && !found; i++)
        if (strcmp(cache[i]->name, name) == 0) found = cache[i];
    if (!found) {
        wr_charset *cs = NULL;
        rc = charset_make(name, &cs, err);
        if (rc == WR_OK && ncache == (int)(sizeof cache / sizeof cache[0])) {
            charset_free(cs);
            rc = wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "more than %d character sets", ncache);
        }
        if (rc == WR_OK) found = cache[ncache++] = cs;
    }
    pthread_mutex_unlock(&cache_lock);
    if (rc == WR_OK) *ret_charset = found;
    return rc;
}

const char *wr_charset_of_collation(unsigned id) {
    /* MariaDB's UCA 14.0.0 collations: 2048 + charset << 8 + tailoring and flags */
    static const char *const uca[] = {"utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32"};
    if (id >= 2048) return id - 2048 < 5 * 256 ? uca[(id - 2048) >> 8] : NULL;
    if (id >= 1024) id -= 1024; /* MariaDB's NOPAD twins */
    for (int i = 0; i < wr_charset_nranges; i++)
        if (id >= wr_charset_ranges[i].lo && id <= wr_charset_ranges[i].hi) return wr_charset_ranges[i].name;
    return NULL;
}
