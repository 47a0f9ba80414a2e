#include "iceberg/rest_wire.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "iceberg/metadata.h"
#include "weir/base/mem.h"

/* ------------------------------------------------------------------ names */
void wr_rest_put_encoded(wr_buf *b, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-._~", c));
        if (plain)
            wr_buf_u8(b, c);
        else
            wr_buf_printf(b, "%%%02X", c);
    }
}

void wr_rest_put_namespace(wr_buf *b, const char *ns, const char *separator) {
    for (const char *p = ns;; p++) {
        size_t n = strcspn(p, ".");
        wr_rest_put_encoded(b, p, n);
        p += n;
        if (!*p) return;
        wr_buf_put(b, separator, strlen(separator));
    }
}

int wr_rest_level_count(const char *ns) {
    int n = 1;
    for (const char *p = ns; (p = strchr(p, '.')); p++) n++;
    return n;
}

cJSON *wr_rest_levels(const char *ns, int n) {
    cJSON *levels = cJSON_CreateArray();
    const char *p = ns;
    for (int i = 0; levels && i < n; i++) {
        size_t len = strcspn(p, ".");
        WR_AUTO char *level = wr_strndup(p, len);
        if (!level || !wr_json_push(levels, cJSON_CreateString(level))) return cJSON_Delete(levels), NULL;
        p += len;
        if (!*p++) break;
    }
    return levels;
}

cJSON *wr_rest_identifier(const char *ns, const char *name) {
    cJSON *id = cJSON_CreateObject();
    if (id && wr_json_set(id, "namespace", wr_rest_levels(ns, wr_rest_level_count(ns))) && wr_json_set_str(id, "name", name)) return id;
    return cJSON_Delete(id), NULL;
}

/* ------------------------------------------------------------------ answers: what all have in common */
static wr_code parse_object(wr_slice text, const char *what, cJSON **ret, wr_err *err) {
    WR_TRY(wr_json_parse(text, what, ret, err));
    if (cJSON_IsObject(*ret)) return WR_OK;
    cJSON_Delete(*ret);
    *ret = NULL;
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: not a JSON object", what);
}

static bool has_control(const char *s) {
    for (; *s; s++)
        if ((uint8_t)*s < 0x20 || *s == 0x7f) return true;
    return false;
}

static wr_code copy(const char *s, char **ret, wr_err *err) {
    *ret = s ? wr_strdup(s) : NULL;
    return s && !*ret ? wr_nomem(err, "answer of the catalog", strlen(s)) : WR_OK;
}

/* ------------------------------------------------------------------ configuration */
void wr_rest_config_clear(wr_rest_config *c) {
    wr_free(c->uri), wr_free(c->prefix), wr_free(c->token), wr_free(c->oauth2_server_uri), wr_free(c->separator);
    *c = (wr_rest_config){0};
}

static wr_code setting(const cJSON *doc, const char *key, bool own, char **ret, wr_err *err) {
    const cJSON *over = wr_json_get(doc, "overrides"), *defaults = wr_json_get(doc, "defaults");
    const char *v = over ? wr_json_str(over, key) : NULL;
    if (!v && !own && defaults) v = wr_json_str(defaults, key);
    if (v && (!*v || has_control(v)))
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "configuration of the catalog: %s is empty or has control characters", key);
    return copy(v, ret, err);
}

static wr_rest_offer offers_transactions(const cJSON *doc) {
    const cJSON *list = wr_json_get(doc, "endpoints"), *e;
    if (!cJSON_IsArray(list)) return WR_REST_UNTOLD;
    cJSON_ArrayForEach(e, list) {
        size_t n = cJSON_IsString(e) ? strlen(e->valuestring) : 0;
        static const char tail[] = "/transactions/commit";
        if (n > 5 + sizeof tail && strncmp(e->valuestring, "POST ", 5) == 0 && strcmp(e->valuestring + n - (sizeof tail - 1), tail) == 0)
            return WR_REST_OFFERED;
    }
    return WR_REST_NOT_OFFERED;
}

static wr_code read_config(const cJSON *doc, const wr_rest_own *own, wr_rest_config *c, wr_err *err) {
    WR_TRY(setting(doc, "uri", own->uri, &c->uri, err));
    WR_TRY(setting(doc, "prefix", false, &c->prefix, err));
    WR_TRY(setting(doc, "token", own->token, &c->token, err));
    WR_TRY(setting(doc, "oauth2-server-uri", own->oauth2_server_uri, &c->oauth2_server_uri, err));
    WR_TRY(setting(doc, "namespace-separator", false, &c->separator, err));
    c->transactions = offers_transactions(doc);
    return WR_OK;
}

wr_code wr_rest_read_config(wr_slice text, const wr_rest_own *own, wr_rest_config *ret_config, wr_err *err) {
    WR_AUTO_JSON cJSON *doc = NULL;
    wr_rest_config c = {0};
    WR_TRY(parse_object(text, "configuration of the catalog", &doc, err));
    wr_code rc = read_config(doc, own, &c, err);
    if (rc != WR_OK) return wr_rest_config_clear(&c), rc;
    *ret_config = c;
    return WR_OK;
}

wr_code wr_rest_read_token(wr_slice text, char **ret_token, int64_t *ret_expires_s, wr_err *err) {
    WR_AUTO_JSON cJSON *doc = NULL;
    WR_TRY(parse_object(text, "token of the catalog", &doc, err));
    const char *token = wr_json_str(doc, "access_token"), *type = wr_json_str(doc, "token_type");
    if (!token || !*token || has_control(token)) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "token of the catalog: access_token is missing or damaged");
    if (type && strcasecmp(type, "bearer") != 0 && strcasecmp(type, "N_A") != 0)
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "token of the catalog: its type is %.40s, not bearer", type);
    int64_t expires = wr_meta_num(doc, "expires_in", -1);
    WR_TRY(copy(token, ret_token, err));
    *ret_expires_s = expires > 0 && expires < INT32_MAX ? expires : -1;
    return WR_OK;
}

/* ------------------------------------------------------------------ listings */
void wr_rest_names_clear(wr_rest_names *l) {
    for (int i = 0; i < l->n; i++) wr_free(l->v[i]);
    wr_free(l->v);
    *l = (wr_rest_names){0};
}

static wr_code add_name(wr_rest_names *l, const char *name, wr_err *err) {
    if (l->n == l->cap) {
        int cap = l->cap ? l->cap * 2 : 32;
        char **v = wr_realloc(l->v, (size_t)cap * sizeof *v);
        if (!v) return wr_nomem(err, "names of the catalog", (size_t)cap * sizeof *v);
        l->v = v, l->cap = cap;
    }
    WR_TRY(copy(name, &l->v[l->n], err));
    l->n++;
    return WR_OK;
}

/* False: not an array of names, or one that has a "." in it. */
static bool join_levels(const cJSON *levels, wr_buf *b) {
    const cJSON *l;
    if (!cJSON_IsArray(levels) || !levels->child) return false;
    cJSON_ArrayForEach(l, levels) {
        if (!cJSON_IsString(l) || !l->valuestring[0] || strchr(l->valuestring, '.')) return false;
        if (l != levels->child) wr_buf_u8(b, '.');
        wr_buf_put(b, l->valuestring, strlen(l->valuestring));
    }
    return true;
}

static bool right_below(const char *parent, const char *ns) {
    size_t n = strlen(parent);
    if (n == 0) return !strchr(ns, '.');
    return strncmp(ns, parent, n) == 0 && ns[n] == '.' && !strchr(ns + n + 1, '.');
}

static wr_code page_of(const cJSON *doc, const char *key, const char *what, const cJSON **ret_list, char **ret_next, wr_err *err) {
    const char *next = wr_json_str(doc, "next-page-token");
    const cJSON *list = wr_json_get(doc, key);
    if (!cJSON_IsArray(list)) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: %s is not a list", what, key);
    *ret_list = list;
    return copy(next && *next ? next : NULL, ret_next, err);
}

wr_code wr_rest_read_namespaces(wr_slice text, const char *parent, wr_rest_names *l, char **ret_next, wr_err *err) {
    WR_AUTO_JSON cJSON *doc = NULL;
    WR_AUTO char *next = NULL;
    const cJSON *list, *item;
    WR_TRY(parse_object(text, "namespaces of the catalog", &doc, err));
    WR_TRY(page_of(doc, "namespaces", "namespaces of the catalog", &list, &next, err));
    cJSON_ArrayForEach(item, list) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        if (!join_levels(item, &b)) continue;
        const char *ns = wr_buf_cstr(&b);
        if (!ns) return wr_nomem(err, "names of the catalog", b.n);
        if (right_below(parent, ns)) WR_TRY(add_name(l, ns, err));
    }
    *ret_next = WR_STEAL(next);
    return WR_OK;
}

wr_code wr_rest_read_tables(wr_slice text, wr_rest_names *l, char **ret_next, wr_err *err) {
    WR_AUTO_JSON cJSON *doc = NULL;
    WR_AUTO char *next = NULL;
    const cJSON *list, *item;
    WR_TRY(parse_object(text, "tables of the catalog", &doc, err));
    WR_TRY(page_of(doc, "identifiers", "tables of the catalog", &list, &next, err));
    cJSON_ArrayForEach(item, list) {
        const char *name = cJSON_IsObject(item) ? wr_json_str(item, "name") : NULL;
        if (name && *name) WR_TRY(add_name(l, name, err));
    }
    *ret_next = WR_STEAL(next);
    return WR_OK;
}

/* ------------------------------------------------------------------ a table */
typedef struct lender {
    wr_rest_lend_fn *fn;
    void *ctx;
    bool any;
    int64_t until_us; /* of the first that runs out; 0 = none says */
} lender;

static wr_code lend_of(const cJSON *config, const char *prefix, lender *l, wr_err *err) {
    if (!cJSON_IsObject(config) || !prefix || !*prefix) return WR_OK;
    wr_s3_credentials c = {wr_json_str(config, "s3.access-key-id"), wr_json_str(config, "s3.secret-access-key"), wr_json_str(config, "s3.session-token")};
    const char *until = wr_json_str(config, "s3.session-token-expires-at-ms");
    if (!c.access_key || !c.secret_key) return WR_OK;
    if (has_control(c.access_key) || has_control(c.secret_key) || (c.session_token && has_control(c.session_token)))
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "credentials for %.200s have control characters", prefix);
    int64_t ms = until ? strtoll(until, NULL, 10) : 0, us = ms > 0 && ms < INT64_MAX / 1000 ? ms * 1000 : 0;
    if (us && (!l->until_us || us < l->until_us)) l->until_us = us;
    l->any = true;
    return l->fn(l->ctx, prefix, &c, err);
}

static wr_code lend_all(const cJSON *doc, const char *location, lender *l, wr_err *err) {
    const cJSON *item, *list = wr_json_get(doc, "storage-credentials");
    if (cJSON_IsArray(list))
        cJSON_ArrayForEach(item, list) if (cJSON_IsObject(item)) WR_TRY(lend_of(wr_json_get(item, "config"), wr_json_str(item, "prefix"), l, err));
    return l->any ? WR_OK : lend_of(wr_json_get(doc, "config"), location, l, err);
}

wr_code wr_rest_read_table(wr_slice text, const char *name, wr_rest_lend_fn *lend, void *ctx, wr_ice_table **ret_table, wr_err *err) {
    WR_AUTO_JSON cJSON *doc = NULL;
    wr_ice_table *t = NULL;
    WR_TRY(parse_object(text, name, &doc, err));
    const char *place = wr_json_str(doc, "metadata-location");
    if (!place || !*place) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: no metadata-location", name);
    cJSON *meta = cJSON_DetachItemFromObjectCaseSensitive(doc, "metadata");
    if (!meta) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: no metadata", name);
    WR_TRY(wr_meta_of(meta, place, &t, err));
    lender l = {.fn = lend, .ctx = ctx};
    wr_code rc = lend ? lend_all(doc, wr_ice_location(t), &l, err) : WR_OK;
    if (rc != WR_OK) return wr_ice_table_free(t), rc;
    t->lent_until_us = l.until_us;
    *ret_table = t;
    return WR_OK;
}

/* ------------------------------------------------------------------ errors */
static void put_clean(char *dst, size_t size, const char *src) {
    size_t n = 0;
    for (; src && *src && n + 1 < size; src++) dst[n++] = (uint8_t)*src < 0x20 || *src == 0x7f ? ' ' : *src;
    if (src && ((uint8_t)*src & 0xC0) == 0x80) { /* cut within a character */
        while (n > 0 && ((uint8_t)dst[n - 1] & 0xC0) == 0x80) n--;
        if (n > 0) n--;
    }
    dst[n] = 0;
}

void wr_rest_read_error(wr_slice text, wr_rest_error *ret_error) {
    wr_err err = WR_ERR_INIT;
    WR_AUTO_JSON cJSON *doc = NULL;
    *ret_error = (wr_rest_error){0};
    if (parse_object(text, "error", &doc, &err) != WR_OK) return;
    const cJSON *e = wr_json_get(doc, "error");
    if (cJSON_IsObject(e)) {
        put_clean(ret_error->type, sizeof ret_error->type, wr_json_str(e, "type"));
        put_clean(ret_error->message, sizeof ret_error->message, wr_json_str(e, "message"));
    } else if (cJSON_IsString(e)) { /* OAuth2 */
        put_clean(ret_error->type, sizeof ret_error->type, e->valuestring);
        put_clean(ret_error->message, sizeof ret_error->message, wr_json_str(doc, "error_description"));
    }
}
