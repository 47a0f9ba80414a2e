#include "gtid.h"
#include <stdio.h>
#include <stdlib.h>
#include "weir/base/mem.h"

typedef struct gtid_interval { uint64_t first, last; } gtid_interval;
typedef struct gtid_member {
    uint8_t uuid[16]; /* MySQL */
    char tag[33];
    gtid_interval *iv; /* rising, apart by at least one */
    int niv, cap;
    uint32_t domain, server_id; /* MariaDB */
    uint64_t seq;
} gtid_member;

struct wr_gtid_set {
    wr_flavor flavor;
    gtid_member *m; /* rising by (uuid, tag) or by domain */
    int n, cap;
    int last; /* the member found last: transactions come in runs */
};

/* GTID sets of real clusters have some dozen members; what is beyond these limits is not one. */
#define MEMBERS_MAX 100000
#define INTERVALS_MAX 1000000

wr_code wr_gtid_set_new(wr_flavor flavor, wr_gtid_set **ret_set, wr_err *err) {
    wr_gtid_set *s = wr_calloc(1, sizeof *s);
    if (!s) return wr_nomem(err, "GTID set", sizeof *s);
    s->flavor = flavor;
    *ret_set = s;
    return WR_OK;
}

void wr_gtid_set_free(wr_gtid_set *s) {
    if (!s) return;
    for (int i = 0; i < s->n; i++) wr_free(s->m[i].iv);
    wr_free(s->m);
    wr_free(s);
}

bool wr_gtid_set_empty(const wr_gtid_set *s) { return s->n == 0; }

static int member_cmp(const wr_gtid_set *s, const gtid_member *m, const gtid_member *key) {
    if (s->flavor == WR_MARIADB) return m->domain < key->domain ? -1 : m->domain > key->domain;
    int c = memcmp(m->uuid, key->uuid, 16);
    return c ? c : strcmp(m->tag, key->tag);
}

static const gtid_member *member_find(const wr_gtid_set *s, const gtid_member *key) {
    if (s->last < s->n && member_cmp(s, &s->m[s->last], key) == 0) return &s->m[s->last];
    for (int lo = 0, hi = s->n; lo < hi;) {
        int mid = (lo + hi) / 2, c = member_cmp(s, &s->m[mid], key);
        if (c == 0) return &s->m[mid];
        if (c < 0) lo = mid + 1;
        else hi = mid;
    }
    return NULL;
}

/* One interval of m holds all of first..last. */
static bool holds(const gtid_member *m, uint64_t first, uint64_t last) {
    if (!m || !m->niv || m->iv[m->niv - 1].last < first) return false; /* the usual case */
    for (int lo = 0, hi = m->niv; lo < hi;) {
        int mid = (lo + hi) / 2;
        if (m->iv[mid].last < first) lo = mid + 1;
        else if (m->iv[mid].first > first) hi = mid;
        else return m->iv[mid].last >= last;
    }
    return false;
}

bool wr_gtid_set_has(const wr_gtid_set *s, const uint8_t uuid[16], const char *tag, uint64_t gno) {
    gtid_member key = {0};
    memcpy(key.uuid, uuid, 16);
    snprintf(key.tag, sizeof key.tag, "%s", tag);
    return holds(member_find(s, &key), gno, gno);
}

bool wr_gtid_set_covers(const wr_gtid_set *whole, const wr_gtid_set *part) {
    for (int i = 0; i < part->n; i++) {
        const gtid_member *p = &part->m[i], *w = member_find(whole, p);
        if (part->flavor == WR_MARIADB && (!w || w->seq < p->seq)) return false;
        for (int k = 0; k < p->niv; k++)
            if (!holds(w, p->iv[k].first, p->iv[k].last)) return false;
    }
    return true;
}

static wr_code member_get(wr_gtid_set *s, const gtid_member *key, gtid_member **ret, wr_err *err) {
    if (s->last < s->n && member_cmp(s, &s->m[s->last], key) == 0) return *ret = &s->m[s->last], WR_OK;
    int lo = 0, hi = s->n;
    while (lo < hi) {
        int mid = (lo + hi) / 2, c = member_cmp(s, &s->m[mid], key);
        if (c == 0) return s->last = mid, *ret = &s->m[mid], WR_OK;
        if (c < 0) lo = mid + 1;
        else hi = mid;
    }
    if (s->n == MEMBERS_MAX) return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "GTID set with more than %d members", MEMBERS_MAX);
    if (s->n == s->cap) {
        int cap = s->cap ? s->cap * 2 : 4;
        gtid_member *m = wr_realloc(s->m, (size_t)cap * sizeof *m);
        if (!m) return wr_nomem(err, "GTID set", (size_t)cap * sizeof *m);
        s->m = m, s->cap = cap;
    }
    memmove(s->m + lo + 1, s->m + lo, (size_t)(s->n - lo) * sizeof *s->m);
    s->m[lo] = *key;
    s->n++;
    s->last = lo;
    *ret = &s->m[lo];
    return WR_OK;
}

static wr_code add_interval(gtid_member *m, uint64_t first, uint64_t last, wr_err *err) {
    if (m->niv && m->iv[m->niv - 1].last + 1 == first) return m->iv[m->niv - 1].last = last, WR_OK; /* the usual case */
    int lo = 0, hi = m->niv; /* the first interval that ends at or behind first - 1 */
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (m->iv[mid].last + 1 < first) lo = mid + 1;
        else hi = mid;
    }
    int end = lo; /* behind the last interval that touches */
    while (end < m->niv && m->iv[end].first <= last + 1) {
        if (m->iv[end].first < first) first = m->iv[end].first;
        if (m->iv[end].last > last) last = m->iv[end].last;
        end++;
    }
    if (end == lo) {
        if (m->niv == INTERVALS_MAX) return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "GTID set with more than %d intervals", INTERVALS_MAX);
        if (m->niv == m->cap) {
            int cap = m->cap ? m->cap * 2 : 2;
            gtid_interval *iv = wr_realloc(m->iv, (size_t)cap * sizeof *iv);
            if (!iv) return wr_nomem(err, "GTID set", (size_t)cap * sizeof *iv);
            m->iv = iv, m->cap = cap;
        }
        memmove(m->iv + lo + 1, m->iv + lo, (size_t)(m->niv - lo) * sizeof *m->iv);
        m->niv++;
    } else {
        memmove(m->iv + lo + 1, m->iv + end, (size_t)(m->niv - end) * sizeof *m->iv);
        m->niv -= end - lo - 1;
    }
    m->iv[lo] = (gtid_interval){first, last};
    return WR_OK;
}

static wr_code add_mysql(wr_gtid_set *s, const uint8_t uuid[16], const char *tag, uint64_t first, uint64_t last, wr_err *err) {
    gtid_member key = {0}, *m;
    if (first == 0 || last < first || last >= (1ull << 63) - 1)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "no GTID interval: %llu-%llu", (unsigned long long)first, (unsigned long long)last);
    memcpy(key.uuid, uuid, 16);
    snprintf(key.tag, sizeof key.tag, "%s", tag);
    WR_TRY(member_get(s, &key, &m, err));
    return add_interval(m, first, last, err);
}

wr_code wr_gtid_set_add_mysql(wr_gtid_set *s, const uint8_t uuid[16], const char *tag, uint64_t gno, wr_err *err) {
    return add_mysql(s, uuid, tag, gno, gno, err);
}

wr_code wr_gtid_set_add_maria(wr_gtid_set *s, uint32_t domain, uint32_t server_id, uint64_t seq, wr_err *err) {
    gtid_member key = {.domain = domain}, *m;
    WR_TRY(member_get(s, &key, &m, err));
    m->server_id = server_id, m->seq = seq;
    return WR_OK;
}

/* ------------------------------------------------------------------ text */
static void put_u64(wr_buf *b, uint64_t v) {
    char t[20];
    int n = 20;
    do t[--n] = (char)('0' + v % 10);
    while (v /= 10);
    wr_buf_put(b, t + n, (size_t)(20 - n));
}

static void put_uuid(wr_buf *b, const uint8_t u[16]) {
    static const char hex[] = "0123456789abcdef";
    char t[36];
    int n = 0;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) t[n++] = '-';
        t[n++] = hex[u[i] >> 4];
        t[n++] = hex[u[i] & 15];
    }
    wr_buf_put(b, t, 36);
}

wr_code wr_gtid_set_print(const wr_gtid_set *s, wr_buf *out, wr_err *err) {
    wr_buf_clear(out);
    for (int i = 0; i < s->n; i++) {
        const gtid_member *m = &s->m[i];
        if (s->flavor == WR_MARIADB) {
            if (i) wr_buf_u8(out, ',');
            put_u64(out, m->domain);
            wr_buf_u8(out, '-');
            put_u64(out, m->server_id);
            wr_buf_u8(out, '-');
            put_u64(out, m->seq);
            continue;
        }
        if (i == 0 || memcmp(m->uuid, m[-1].uuid, 16) != 0) {
            if (i) wr_buf_u8(out, ',');
            put_uuid(out, m->uuid);
        }
        if (m->tag[0]) {
            wr_buf_u8(out, ':');
            wr_buf_put(out, m->tag, strlen(m->tag));
        }
        for (int k = 0; k < m->niv; k++) {
            wr_buf_u8(out, ':');
            put_u64(out, m->iv[k].first);
            if (m->iv[k].last == m->iv[k].first) continue;
            wr_buf_u8(out, '-');
            put_u64(out, m->iv[k].last);
        }
    }
    return wr_buf_check(out, "GTID set", err);
}

static void skip_space(const char **p) {
    while (**p == ' ' || **p == '\n' || **p == '\r' || **p == '\t') (*p)++;
}

static bool read_u64(const char **p, uint64_t *ret) {
    uint64_t v = 0;
    const char *q = *p;
    for (; *q >= '0' && *q <= '9'; q++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*q - '0'), &v)) return false;
    if (q == *p) return false;
    *p = q;
    *ret = v;
    return true;
}

static bool read_uuid(const char **p, uint8_t u[16]) {
    const char *q = *p;
    for (int i = 0; i < 16; i++) {
        if (*q == '-') q++;
        int v = 0;
        for (int k = 0; k < 2; k++, q++) {
            int c = *q | 32, d = c >= '0' && c <= '9' && *q == c ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
            if (d < 0) return false;
            v = v << 4 | d;
        }
        u[i] = (uint8_t)v;
    }
    *p = q;
    return true;
}

/* One "uuid:1-5:7:tag:1-2". */
static wr_code parse_mysql_member(wr_gtid_set *s, const char **p, bool *ok, wr_err *err) {
    uint8_t uuid[16];
    char tag[33] = "";
    *ok = false;
    if (!read_uuid(p, uuid)) return WR_OK;
    skip_space(p);
    if (**p != ':') return WR_OK;
    while (**p == ':') {
        (*p)++;
        skip_space(p);
        if ((**p >= 'a' && **p <= 'z') || (**p >= 'A' && **p <= 'Z') || **p == '_') {
            size_t n = 0;
            for (; (**p >= 'a' && **p <= 'z') || (**p >= 'A' && **p <= 'Z') || **p == '_' || (**p >= '0' && **p <= '9'); (*p)++) {
                if (n == 32) return WR_OK;
                tag[n++] = (char)(**p >= 'A' && **p <= 'Z' ? **p | 32 : **p);
            }
            tag[n] = 0;
            skip_space(p);
            continue;
        }
        uint64_t a, b;
        if (!read_u64(p, &a)) return WR_OK;
        b = a;
        skip_space(p);
        if (**p == '-') {
            (*p)++;
            skip_space(p);
            if (!read_u64(p, &b)) return WR_OK;
            skip_space(p);
        }
        WR_TRY(add_mysql(s, uuid, tag, a, b, err));
    }
    *ok = true;
    return WR_OK;
}

static bool skip_dash(const char **p) { return **p == '-' && (++*p, true); }

static wr_code parse_maria_member(wr_gtid_set *s, const char **p, bool *ok, wr_err *err) {
    uint64_t d, srv, seq;
    *ok = read_u64(p, &d) && d <= UINT32_MAX && skip_dash(p) && read_u64(p, &srv) && srv <= UINT32_MAX && skip_dash(p) && read_u64(p, &seq);
    return *ok ? wr_gtid_set_add_maria(s, (uint32_t)d, (uint32_t)srv, seq, err) : WR_OK;
}

wr_code wr_gtid_set_parse(wr_flavor flavor, const char *text, wr_gtid_set **ret_set, wr_err *err) {
    wr_gtid_set *s = NULL;
    WR_TRY(wr_gtid_set_new(flavor, &s, err));
    const char *p = text;
    wr_code rc = WR_OK;
    for (;;) {
        skip_space(&p);
        if (*p == ',') {
            p++;
            continue;
        }
        if (!*p) break;
        bool ok = false;
        rc = flavor == WR_MARIADB ? parse_maria_member(s, &p, &ok, err) : parse_mysql_member(s, &p, &ok, err);
        skip_space(&p);
        if (rc == WR_OK && (!ok || (*p && *p != ',')))
            rc = wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "no GTID set: \"%.200s\"", text);
        if (rc != WR_OK) break;
    }
    if (rc == WR_OK) *ret_set = s;
    else wr_gtid_set_free(s);
    return rc;
}

/* ------------------------------------------------------------------ what is missing */
static wr_code subtract(wr_gtid_set *left, const gtid_member *p, const gtid_member *w, wr_err *err) {
    for (int k = 0, j = 0; k < p->niv; k++) {
        uint64_t at = p->iv[k].first, last = p->iv[k].last;
        for (; w && j < w->niv && w->iv[j].last < at; j++) {}
        for (int i = j; at <= last; i++) {
            bool more = w && i < w->niv && w->iv[i].first <= last;
            uint64_t end = more ? w->iv[i].first : last + 1;
            if (end > at) WR_TRY(add_mysql(left, p->uuid, p->tag, at, end - 1, err));
            if (!more) break;
            at = w->iv[i].last + 1;
        }
    }
    return WR_OK;
}

static wr_code missing_mysql(const char *whole, const char *part, wr_buf *out, bool *ret_related, wr_err *err) {
    wr_gtid_set *w = NULL, *p = NULL, *left = NULL;
    wr_code rc = wr_gtid_set_parse(WR_MYSQL, whole, &w, err);
    if (rc == WR_OK) rc = wr_gtid_set_parse(WR_MYSQL, part, &p, err);
    if (rc == WR_OK) rc = wr_gtid_set_new(WR_MYSQL, &left, err);
    for (int i = 0; rc == WR_OK && i < p->n; i++) {
        const gtid_member *same = member_find(w, &p->m[i]);
        *ret_related |= same != NULL;
        rc = subtract(left, &p->m[i], same, err);
    }
    if (rc == WR_OK) rc = wr_gtid_set_print(left, out, err);
    wr_gtid_set_free(w), wr_gtid_set_free(p), wr_gtid_set_free(left);
    return rc;
}

static bool maria_next(const char **p, gtid_member *ret) {
    uint64_t d, srv;
    while (**p == ',' || **p == ' ' || **p == '\n') (*p)++;
    if (!**p || !read_u64(p, &d) || d > UINT32_MAX || !skip_dash(p) || !read_u64(p, &srv) || srv > UINT32_MAX || !skip_dash(p) || !read_u64(p, &ret->seq)) return false;
    ret->domain = (uint32_t)d, ret->server_id = (uint32_t)srv;
    return true;
}

/* Texts that wr_gtid_set_parse has passed. */
static void missing_maria(const char *whole, const char *part, wr_buf *out, bool *ret_related) {
    for (gtid_member p; maria_next(&part, &p);) {
        uint64_t has = 0;
        const char *at = whole;
        for (gtid_member w; maria_next(&at, &w);)
            if (w.domain == p.domain && w.server_id == p.server_id && w.seq > has) has = w.seq;
        *ret_related |= has > 0;
        if (has >= p.seq) continue;
        if (out->n) wr_buf_printf(out, ", ");
        if (has && has + 1 < p.seq) wr_buf_printf(out, "%u-%u-%llu to ", p.domain, p.server_id, (unsigned long long)has + 1);
        wr_buf_printf(out, "%u-%u-%llu", p.domain, p.server_id, (unsigned long long)p.seq);
        if (!has && p.seq > 1) wr_buf_printf(out, " and what server %u wrote before", p.server_id);
    }
}

wr_code wr_gtid_missing(wr_flavor flavor, const char *whole, const char *part, wr_buf *ret_missing, bool *ret_related, wr_err *err) {
    bool related = false;
    wr_gtid_set *checked = NULL;
    wr_buf_clear(ret_missing);
    if (flavor == WR_MYSQL) WR_TRY(missing_mysql(whole, part, ret_missing, &related, err));
    else {
        WR_TRY(wr_gtid_set_parse(flavor, whole, &checked, err));
        wr_gtid_set_free(checked);
        WR_TRY(wr_gtid_set_parse(flavor, part, &checked, err));
        wr_gtid_set_free(checked);
        missing_maria(whole, part, ret_missing, &related);
    }
    WR_TRY(wr_buf_check(ret_missing, "GTID set", err));
    *ret_related = related;
    return WR_OK;
}

/* ------------------------------------------------------------------ bytes */
wr_code wr_gtid_set_encode(const wr_gtid_set *s, wr_buf *out, wr_err *err) {
    bool tagged = false;
    for (int i = 0; i < s->n; i++) tagged |= s->m[i].tag[0] != 0;
    wr_buf_u64(out, tagged ? 1ull << 56 | (uint64_t)s->n << 8 | 1 : (uint64_t)s->n);
    for (int i = 0; i < s->n; i++) {
        const gtid_member *m = &s->m[i];
        wr_buf_put(out, m->uuid, 16);
        if (tagged) {
            wr_buf_u8(out, (uint8_t)(strlen(m->tag) << 1));
            wr_buf_put(out, m->tag, strlen(m->tag));
        }
        wr_buf_u64(out, (uint64_t)m->niv);
        for (int k = 0; k < m->niv; k++) {
            wr_buf_u64(out, m->iv[k].first);
            wr_buf_u64(out, m->iv[k].last + 1);
        }
    }
    return wr_buf_check(out, "GTID set", err);
}

wr_code wr_gtid_set_decode(wr_slice bytes, wr_gtid_set **ret_set, wr_err *err) {
    wr_gtid_set *s = NULL;
    WR_TRY(wr_gtid_set_new(WR_MYSQL, &s, err));
    wr_rd r = wr_rd_of(bytes.p, bytes.n);
    uint64_t head = wr_rd_u64(&r);
    bool tagged = head >> 56 == 1;
    uint64_t n = tagged ? head << 8 >> 16 : head;
    if (head >> 56 > 1) r.bad = true;
    wr_code rc = WR_OK;
    for (uint64_t i = 0; i < n && !r.bad && rc == WR_OK; i++) {
        const uint8_t *uuid = wr_rd_take(&r, 16);
        char tag[33] = "";
        if (tagged) {
            unsigned tn = wr_rd_u8(&r);
            wr_slice t = wr_rd_bytes(&r, tn >> 1);
            if ((tn & 1) || t.n > 32) r.bad = true;
            else if (t.n) memcpy(tag, t.p, t.n);
        }
        uint64_t niv = wr_rd_u64(&r);
        for (uint64_t k = 0; k < niv && !r.bad && rc == WR_OK; k++) {
            uint64_t a = wr_rd_u64(&r), b = wr_rd_u64(&r);
            if (!r.bad) rc = add_mysql(s, uuid, tag, a, b - 1, err);
        }
    }
    if (rc == WR_OK && (r.bad || wr_rd_left(&r)))
        rc = wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%zu bytes are no GTID set", bytes.n);
    if (rc == WR_OK) *ret_set = s;
    else wr_gtid_set_free(s);
    return rc;
}

wr_code wr_gtid_set_decode_list(wr_slice body, wr_gtid_set **ret_set, wr_err *err) {
    wr_gtid_set *s = NULL;
    WR_TRY(wr_gtid_set_new(WR_MARIADB, &s, err));
    wr_rd r = wr_rd_of(body.p, body.n);
    uint32_t n = wr_rd_u32(&r) & 0x0FFFFFFF; /* flags above */
    wr_code rc = WR_OK;
    for (uint32_t i = 0; i < n && !r.bad && rc == WR_OK; i++) {
        uint32_t domain = wr_rd_u32(&r), server = wr_rd_u32(&r);
        uint64_t seq = wr_rd_u64(&r);
        /* several servers of one domain: the one executed last comes last */
        if (!r.bad) rc = wr_gtid_set_add_maria(s, domain, server, seq, err);
    }
    if (rc == WR_OK && r.bad) rc = wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%zu bytes are no GTID list", body.n);
    if (rc == WR_OK) *ret_set = s;
    else wr_gtid_set_free(s);
    return rc;
}
