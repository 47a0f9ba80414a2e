/* Which tables are captured, and which names belong to online schema change tools. */
#include "catalogue.h"

#include <regex.h>
#include <stdlib.h>
#include <strings.h>

#include "weir/base/mem.h"
#include "weir/base/pattern.h"

typedef struct pattern {
    regex_t re;
    bool compiled;
    char *text;    /* as written */
    char *literal; /* the one name it stands for, NULL when it is a real pattern */
} pattern;

struct wr_capture {
    pattern *in, *out;
    int nin, nout;
    int lower_case;
};

/* "shop\.orders" -> "shop.orders"; NULL when anything in it is a metacharacter. */
static char *literal_of(const char *re) {
    char *s = wr_malloc(strlen(re) + 1);
    if (!s) return NULL;
    size_t n = 0;
    for (; *re; re++) {
        if (*re == '\\' && re[1] && !strchr("dws", re[1])) s[n++] = *++re;
        else if (strchr(".[]()*+?{}|^$\\", *re)) {
            wr_free(s);
            return NULL;
        } else s[n++] = *re;
    }
    s[n] = 0;
    return s;
}

static wr_code compile(const char *const *texts, int n, pattern **ret, int *ret_n, wr_err *err) {
    *ret = wr_calloc((size_t)n + 1, sizeof **ret);
    if (!*ret) return wr_nomem(err, "capture patterns", (size_t)n * sizeof **ret);
    *ret_n = n;
    for (int i = 0; i < n; i++) {
        char why[128];
        wr_code rc = wr_pattern_compile(&(*ret)[i].re, texts[i], why, err);
        if (rc == WR_E_CONFIG) {
            wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "capture pattern \"%s\" is no valid regular expression: %s", texts[i], why);
            return wr_err_cure(err, "patterns are POSIX extended regular expressions on \"database.table\", e.g. 'shop\\..*'");
        }
        WR_TRY(rc);
        (*ret)[i].compiled = true;
        if (!((*ret)[i].text = wr_strdup(texts[i]))) return wr_nomem(err, "capture patterns", strlen(texts[i]));
        (*ret)[i].literal = literal_of(texts[i]);
    }
    return WR_OK;
}

wr_code wr_capture_new(const char *const *capture, int ncapture, const char *const *exclude, int nexclude, wr_capture **ret, wr_err *err) {
    wr_capture *c = wr_calloc(1, sizeof *c);
    if (!c) return wr_nomem(err, "capture patterns", sizeof *c);
    wr_code rc = compile(capture, ncapture, &c->in, &c->nin, err);
    if (rc == WR_OK) rc = compile(exclude, nexclude, &c->out, &c->nout, err);
    if (rc != WR_OK) {
        wr_capture_free(c);
        return rc;
    }
    *ret = c;
    return WR_OK;
}

static void patterns_free(pattern *p, int n) {
    for (int i = 0; p && i < n; i++) {
        if (p[i].compiled) regfree(&p[i].re);
        wr_free(p[i].text);
        wr_free(p[i].literal);
    }
    wr_free(p);
}

void wr_capture_free(wr_capture *c) {
    if (!c) return;
    patterns_free(c->in, c->nin);
    patterns_free(c->out, c->nout);
    wr_free(c);
}

void wr_capture_set_lower_case(wr_capture *c, int lower_case_table_names) { c->lower_case = lower_case_table_names; }
int wr_capture_lower_case(const wr_capture *c) { return c->lower_case; }

static bool server_schema(const char *db) {
    return strcasecmp(db, "mysql") == 0 || strcasecmp(db, "information_schema") == 0 ||
           strcasecmp(db, "performance_schema") == 0 || strcasecmp(db, "sys") == 0;
}

/* Both parts of a name have at most 64 characters, which are at most 256 bytes. */
#define FULL_NAME_MAX 640
static bool full_name(const char *db, const char *name, char buf[FULL_NAME_MAX]) {
    size_t nd = strlen(db), nn = strlen(name);
    if (nd + nn + 2 > FULL_NAME_MAX) return false;
    memcpy(buf, db, nd);
    buf[nd] = '.';
    memcpy(buf + nd + 1, name, nn + 1);
    return true;
}

bool wr_capture_matches(const wr_capture *c, const char *db, const char *name) {
    char full[FULL_NAME_MAX];
    if (server_schema(db) || !*db || !*name || !full_name(db, name, full)) return false;
    bool in = false;
    for (int i = 0; !in && i < c->nin; i++) in = regexec(&c->in[i].re, full, 0, NULL, 0) == 0;
    for (int i = 0; in && i < c->nout; i++) in = regexec(&c->out[i].re, full, 0, NULL, 0) != 0;
    return in;
}

int wr_capture_patterns(const wr_capture *c) { return c->nin; }
const char *wr_capture_pattern(const wr_capture *c, int i) { return c->in[i].text; }
bool wr_capture_pattern_matches(const wr_capture *c, int i, const char *db, const char *name) {
    char full[FULL_NAME_MAX];
    return !server_schema(db) && full_name(db, name, full) && regexec(&c->in[i].re, full, 0, NULL, 0) == 0;
}

bool wr_capture_names(const wr_capture *c, const char *db, const char *name) {
    char full[FULL_NAME_MAX];
    if (!wr_capture_matches(c, db, name) || !full_name(db, name, full)) return false;
    for (int i = 0; i < c->nin; i++)
        if (c->in[i].literal && strcmp(c->in[i].literal, full) == 0) return true;
    return false;
}

/* name = underscores + base + tail; the tail is "_gho" and so on, maybe with gh-ost's timestamp in front of it. */
static bool shadow_parts(const char *name, size_t *ret_underscores, size_t *ret_tail, size_t *ret_stamp) {
    static const char *const suffixes[] = {"_gho", "_ghc", "_del", "_new", "_old"};
    size_t n = strlen(name), under = 0, tail = n - 4;
    if (n < 6 || name[0] != '_') return false;
    bool found = false;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) found = found || strcmp(name + tail, suffixes[i]) == 0;
    while (name[under] == '_') under++;
    if (!found || under >= tail) return false;
    *ret_underscores = under;
    *ret_tail = *ret_stamp = tail;
    if (tail > under + 15 && name[tail - 15] == '_') { /* _t_20240131235959_del */
        bool digits = true;
        for (size_t i = tail - 14; i < tail; i++) digits = digits && name[i] >= '0' && name[i] <= '9';
        if (digits) *ret_stamp = tail - 15;
    }
    return true;
}

bool wr_is_shadow_name(const char *name, char *ret_base, size_t base_cap) {
    size_t under, tail, stamp;
    if (!shadow_parts(name, &under, &tail, &stamp)) return false;
    if (ret_base) {
        if (stamp - under >= base_cap) return false;
        memcpy(ret_base, name + under, stamp - under);
        ret_base[stamp - under] = 0;
    }
    return true;
}

static size_t characters(const char *s) {
    size_t n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

bool wr_is_shadow_of(const char *name, const char *base) {
    size_t under, tail, stamp, nb = strlen(base);
    if (!shadow_parts(name, &under, &tail, &stamp)) return false;
    /* pt-osc puts more underscores in front when the name is taken, and a base may begin with some itself */
    for (size_t from = 1; from <= under; from++)
        for (int k = 0; k < 2; k++) {
            size_t len = (k ? stamp : tail) - from;
            if (len == nb && memcmp(name + from, base, nb) == 0) return true;
            /* cut to the longest name a table may have; gh-ost counts bytes, the server characters */
            bool cut = strlen(name) == 64 || characters(name) == 64;
            if (cut && len < nb && memcmp(name + from, base, len) == 0) return true;
        }
    return false;
}
