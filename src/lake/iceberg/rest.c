/* Opening a REST catalog, asking it, and what it lists and loads. */
#include "iceberg/rest.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "iceberg/metadata.h"
#include "iceberg/rest_call.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"

#define ANSWER_BYTES_MAX ((size_t)256 << 20) /* as for a metadata file */
#define RENEW_EARLY_S 60
#define RENEW_EARLY_US 300000000 /* credentials for files: a large one is on its way for a while */
#define LEVELS_MAX 16
#define PAGES_MAX 100000

void wr_rest_answer_clear(wr_rest_answer *a) {
    wr_buf_free(&a->body);
    *a = (wr_rest_answer){0};
}

void wr_rest_wait(int64_t us) {
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&t, &t) != 0) continue;
}

/* ------------------------------------------------------------------ errors */
static wr_code code_of(int status) {
    switch (status) {
    case 401:
    case 403:
    case 419: return WR_E_AUTH;
    case 404: return WR_E_NOTFOUND;
    case 405:
    case 406:
    case 501: return WR_E_UNSUPPORTED;
    case 409: return WR_E_CONFLICT;
    default: return WR_E_SERVER;
    }
}

/* "It may have been carried out" is what the specification says of 500, 502, 503 and 504; others of that kind are taken for the same. */
static bool is_unknown(int status) { return status == 408 || (status >= 500 && status != 501); }

static wr_code answer_error(int status, const char *method, const char *url, wr_slice body, wr_rest_answer *a, wr_err *err) {
    wr_rest_error e;
    wr_rest_read_error(body, &e);
    snprintf(a->type, sizeof a->type, "%s", e.type);
    bool soon = is_unknown(status) || status == 429;
    wr_fail(err, code_of(status), soon ? WR_RETRY_SOON : WR_RETRY_NO, "catalog: %s %.*s: status %d%s%s%s%s", method, (int)strcspn(url, "?"), url, status,
            e.type[0] ? " " : "", e.type, e.message[0] ? ": " : "", e.message);
    if (status == 401 || status == 419) wr_err_cure(err, "check the catalog's token or credential in weir.yaml");
    if (status == 403) wr_err_cure(err, "the catalog must allow Weir's user to list, read, create, change, rename and drop tables there");
    return err->code;
}

/* ------------------------------------------------------------------ one request */
static wr_code send_once(wr_rest *r, const char *method, const char *url, const char *type, wr_slice body, int attempt, wr_rest_answer *a, wr_err *err) {
    WR_AUTO char *auth = r->token ? wr_asprintf("Authorization: Bearer %s", r->token) : NULL;
    WR_AUTO char *content = wr_asprintf("Content-Type: %s", type);
    const char *headers[4] = {"Accept: application/json", "X-Iceberg-Access-Delegation: vended-credentials", content, auth};
    if (!content || (r->token && !auth)) return wr_nomem(err, "request", 100);
    wr_http_request req = {.method = method, .url = url, .headers = headers, .nheaders = auth ? 4 : 3, .has_body = body.p, .body = body, .max_response = ANSWER_BYTES_MAX};
    wr_http_response resp = {0};
    wr_code rc = wr_http_send(r->http, &req, &resp, err);
    wr_rest_answer_clear(a);
    a->status = rc == WR_OK ? resp.status : 0;
    a->unknown = rc == WR_OK ? is_unknown(resp.status) : resp.maybe_done;
    a->backoff_us = wr_http_backoff_us(attempt + 1, rc == WR_OK ? &resp : NULL);
    if (rc == WR_OK && (resp.status < 200 || resp.status > 299)) rc = answer_error(resp.status, method, url, wr_buf_view(&resp.body), a, err);
    if (rc == WR_OK) a->body = resp.body, resp.body = (wr_buf)WR_BUF_INIT;
    wr_http_response_clear(&resp);
    return rc;
}

/* ------------------------------------------------------------------ token */
static void put_form(wr_buf *b, const char *key, const char *value) {
    if (!value) return;
    wr_buf_printf(b, "%s%s=", b->n ? "&" : "", key);
    wr_rest_put_encoded(b, value, strlen(value));
}

static wr_code new_token(wr_rest *r, wr_err *err) {
    WR_AUTO_BUF wr_buf form = WR_BUF_INIT;
    WR_AUTO_ANSWER wr_rest_answer a = {0};
    char *token = NULL;
    int64_t expires = -1;
    put_form(&form, "grant_type", "client_credentials");
    put_form(&form, "client_id", r->client_id);
    put_form(&form, "client_secret", r->client_secret);
    put_form(&form, "scope", r->scope);
    WR_TRY(wr_buf_check(&form, "token request", err));
    wr_free(r->token), r->token = NULL;
    wr_code rc = WR_OK;
    for (int i = 0; i < r->attempts; i++) {
        rc = send_once(r, "POST", r->oauth2_server_uri, "application/x-www-form-urlencoded", wr_buf_view(&form), i, &a, err);
        if (rc == WR_OK || err->retry != WR_RETRY_SOON) break;
        if (i + 1 < r->attempts) wr_rest_wait(a.backoff_us);
    }
    if (rc == WR_OK) rc = wr_rest_read_token(wr_buf_view(&a.body), &token, &expires, err);
    if (rc != WR_OK) {
        if (a.status == 400 || a.status == 401 || a.status == 403) {
            err->code = WR_E_AUTH;
            wr_err_cure(err, "check the catalog's credential and oauth2-server-uri in weir.yaml");
        }
        return wr_err_in(err, "asking for a token");
    }
    wr_free(r->token), r->token = token;
    int64_t early = expires > 4 * RENEW_EARLY_S ? RENEW_EARLY_S : expires / 4;
    r->renew_us = expires > 0 ? wr_mono_us() + (expires - early) * 1000000 : 0;
    return WR_OK;
}

wr_code wr_rest_call(wr_rest *r, const char *method, const char *path, wr_slice body, int attempt, wr_rest_answer *a, wr_err *err) {
    WR_AUTO char *url = wr_asprintf("%s%s", r->base, path);
    if (!url) return wr_nomem(err, "request", strlen(path));
    if (r->client_secret && r->renew_us && wr_mono_us() >= r->renew_us) WR_TRY(new_token(r, err));
    bool renewed = false;
    int64_t until = wr_mono_us() + r->patience_us;
    for (int again = 0;; again++) {
        wr_code rc = send_once(r, method, url, "application/json", body, attempt + again, a, err);
        if ((a->status == 401 || a->status == 419) && r->client_secret && !renewed) {
            renewed = true;
            WR_TRY(new_token(r, err));
        } else if (a->status == 429 && wr_mono_us() + a->backoff_us < until) {
            wr_rest_wait(a->backoff_us);
        } else {
            return rc;
        }
        wr_err_clear(err);
    }
}

wr_code wr_rest_get(wr_rest *r, const char *path, int64_t until_us, wr_rest_answer *a, wr_err *err) {
    for (int i = 0;; i++) {
        wr_code rc = wr_rest_call(r, "GET", path, (wr_slice){0}, i, a, err);
        if (rc == WR_OK || err->retry != WR_RETRY_SOON) return rc;
        if (until_us ? wr_mono_us() + a->backoff_us >= until_us : i + 1 >= r->attempts) return rc;
        wr_rest_wait(a->backoff_us);
        wr_err_clear(err);
    }
}

/* ------------------------------------------------------------------ opening */
static wr_code take_options(wr_rest *r, const wr_rest_options *o, wr_err *err) {
    size_t n = strlen(o->uri);
    while (n > 0 && o->uri[n - 1] == '/') n--;
    r->uri = wr_strndup(o->uri, n);
    r->scope = wr_strdup(o->scope ? o->scope : "catalog");
    r->separator = wr_strdup("%1F");
    bool ok = r->uri && r->scope && r->separator;
    if (ok && o->token) ok = (r->token = wr_strdup(o->token));
    if (ok && o->credential && !o->token) {
        const char *colon = strchr(o->credential, ':');
        if (colon) ok = (r->client_id = wr_strndup(o->credential, (size_t)(colon - o->credential)));
        ok = ok && (r->client_secret = wr_strdup(colon ? colon + 1 : o->credential));
        ok = ok && (r->oauth2_server_uri = o->oauth2_server_uri ? wr_strdup(o->oauth2_server_uri) : wr_asprintf("%s/v1/oauth/tokens", r->uri));
    }
    if (ok) ok = (r->base = wr_asprintf("%s/v1", r->uri));
    if (!ok) return wr_nomem(err, "catalog", 256);
    wr_http_options h = {.ca_file = o->ca_file, .stall_timeout_ms = o->stall_timeout_ms};
    return wr_http_open(&h, &r->http, err);
}

static void take(char **dst, char **src) {
    if (!*src) return;
    wr_free(*dst);
    *dst = WR_STEAL(*src);
}

static wr_code ask_config(wr_rest *r, const wr_rest_options *o, wr_rest_config *c, wr_err *err) {
    WR_AUTO_ANSWER wr_rest_answer a = {0};
    WR_AUTO_BUF wr_buf path = WR_BUF_INIT;
    wr_rest_own own = {.uri = true, .token = o->token || o->credential, .oauth2_server_uri = o->oauth2_server_uri};
    wr_buf_printf(&path, "/config");
    if (o->warehouse) wr_buf_printf(&path, "?warehouse="), wr_rest_put_encoded(&path, o->warehouse, strlen(o->warehouse));
    const char *p = wr_buf_cstr(&path);
    if (!p) return wr_nomem(err, "request", 100);
    WR_TRY(wr_rest_get(r, p, 0, &a, err));
    return wr_rest_read_config(wr_buf_view(&a.body), &own, c, err);
}

static wr_code configure(wr_rest *r, const wr_rest_options *o, wr_err *err) {
    wr_rest_config c = {0};
    wr_code rc = ask_config(r, o, &c, err);
    if (rc != WR_OK && err->code == WR_E_NOTFOUND) wr_err_cure(err, "check the catalog's uri (without the v1) and its warehouse in weir.yaml");
    if (rc == WR_OK) {
        r->transactions = c.transactions;
        take(&r->uri, &c.uri), take(&r->token, &c.token), take(&r->separator, &c.separator);
        if (r->client_secret) take(&r->oauth2_server_uri, &c.oauth2_server_uri);
        size_t n = strlen(r->uri);
        while (n > 0 && r->uri[n - 1] == '/') r->uri[--n] = 0;
        wr_free(r->base);
        r->base = wr_asprintf("%s/v1%s%s", r->uri, c.prefix ? "/" : "", c.prefix ? c.prefix : "");
        if (!r->base) rc = wr_nomem(err, "catalog", 256);
    }
    wr_rest_config_clear(&c);
    return rc;
}

wr_code wr_rest_open(const wr_rest_options *opts, wr_store *store, wr_rest **ret_rest, wr_err *err) {
    wr_rest *r = wr_calloc(1, sizeof *r);
    if (!r) return wr_nomem(err, "catalog", sizeof *r);
    r->store = store, r->patience_us = WR_REST_PATIENCE_US, r->attempts = WR_REST_ATTEMPTS;
    wr_code rc = take_options(r, opts, err);
    if (rc == WR_OK && r->client_secret) rc = new_token(r, err);
    if (rc == WR_OK) rc = configure(r, opts, err);
    if (rc != WR_OK) return wr_rest_close(r), wr_err_in(err, "opening the catalog");
    *ret_rest = r;
    return WR_OK;
}

void wr_rest_close(wr_rest *r) {
    if (!r) return;
    wr_http_close(r->http);
    wr_free(r->uri), wr_free(r->base), wr_free(r->separator), wr_free(r->token);
    wr_free(r->client_id), wr_free(r->client_secret), wr_free(r->scope), wr_free(r->oauth2_server_uri);
    cJSON_Delete(r->open);
    wr_free(r);
}

/* ------------------------------------------------------------------ listing */
static wr_code ask_page(wr_rest *r, const char *path, const char *parent, const char *page, wr_rest_answer *a, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_buf_printf(&b, "%s?pageToken=", path);
    wr_rest_put_encoded(&b, page, strlen(page));
    if (parent && *parent) wr_buf_printf(&b, "&parent="), wr_rest_put_namespace(&b, parent, r->separator);
    const char *p = wr_buf_cstr(&b);
    return p ? wr_rest_get(r, p, 0, a, err) : wr_nomem(err, "request", 100);
}

/* All pages of the namespaces right below parent, or (parent NULL) of one namespace's tables. */
static wr_code list(wr_rest *r, const char *path, const char *parent, wr_rest_names *l, wr_err *err) {
    WR_AUTO char *page = wr_strdup("");
    for (int i = 0; page && i < PAGES_MAX; i++) {
        WR_AUTO_ANSWER wr_rest_answer a = {0};
        char *next = NULL;
        WR_TRY(ask_page(r, path, parent, page, &a, err));
        WR_TRY(parent ? wr_rest_read_namespaces(wr_buf_view(&a.body), parent, l, &next, err) : wr_rest_read_tables(wr_buf_view(&a.body), l, &next, err));
        bool stuck = next && strcmp(next, page) == 0;
        wr_free(page), page = next;
        if (!page) return WR_OK;
        if (stuck) break;
    }
    return page ? wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "catalog: the pages of %s do not end", path) : wr_nomem(err, "request", 1);
}

/* A namespace that left meanwhile has nothing; a catalog without nested ones says so in many ways. */
static wr_code list_below(wr_rest *r, const char *parent, wr_rest_names *l, wr_err *err) {
    wr_code rc = list(r, "/namespaces", parent, l, err);
    bool none = *parent && (rc == WR_E_NOTFOUND || rc == WR_E_UNSUPPORTED || (rc == WR_E_SERVER && err->retry == WR_RETRY_NO));
    return none ? (wr_err_clear(err), WR_OK) : rc;
}

static wr_code list_tables(wr_rest *r, const char *ns, wr_rest_names *l, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_buf_printf(&b, "/namespaces/");
    wr_rest_put_namespace(&b, ns, r->separator);
    wr_buf_printf(&b, "/tables");
    const char *path = wr_buf_cstr(&b);
    if (!path) return wr_nomem(err, "request", b.n);
    wr_code rc = list(r, path, NULL, l, err);
    return rc == WR_E_NOTFOUND ? (wr_err_clear(err), WR_OK) : rc;
}

wr_code wr_rest_each(wr_rest *r, wr_code (*fn)(void *ctx, const char *ns, const char *name, wr_err *err), void *ctx, wr_err *err) {
    WR_CLEANUP(wr_rest_names_clear) wr_rest_names spaces = {0};
    WR_TRY(list_below(r, "", &spaces, err));
    for (int i = 0; i < spaces.n; i++) /* grows on the way */
        if (wr_rest_level_count(spaces.v[i]) < LEVELS_MAX) WR_TRY(list_below(r, spaces.v[i], &spaces, err));
    for (int i = 0; i < spaces.n; i++) {
        WR_CLEANUP(wr_rest_names_clear) wr_rest_names tables = {0};
        WR_TRY(list_tables(r, spaces.v[i], &tables, err));
        for (int k = 0; k < tables.n; k++) WR_TRY(fn(ctx, spaces.v[i], tables.v[k], err));
    }
    return WR_OK;
}

static wr_code make_level(wr_rest *r, wr_slice body, int64_t until_us, wr_err *err) {
    for (int i = 0;; i++) {
        WR_AUTO_ANSWER wr_rest_answer a = {0};
        wr_code rc = wr_rest_call(r, "POST", "/namespaces", body, i, &a, err);
        if (rc == WR_E_CONFLICT) return wr_err_clear(err), WR_OK;
        if (rc == WR_OK || err->retry != WR_RETRY_SOON || wr_mono_us() + a.backoff_us >= until_us) return rc;
        wr_err_clear(err);
        wr_rest_wait(a.backoff_us);
    }
}

wr_code wr_rest_make_namespace(wr_rest *r, const char *ns, int64_t until_us, wr_err *err) {
    int levels = wr_rest_level_count(ns);
    for (int n = 1; n <= levels; n++) {
        WR_AUTO_BUF wr_buf body = WR_BUF_INIT;
        WR_AUTO_JSON cJSON *o = cJSON_CreateObject();
        if (!o || !wr_json_set(o, "namespace", wr_rest_levels(ns, n)) || !wr_json_object(o, "properties")) return wr_nomem(err, "namespace", 100);
        WR_TRY(wr_json_print(o, &body, err));
        if (make_level(r, wr_buf_view(&body), until_us, err) != WR_OK) return wr_err_in(err, "creating namespace %s", ns);
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ loading */
char *wr_rest_table_path(const wr_rest *r, const char *ns, const char *name) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_buf_printf(&b, "/namespaces/");
    wr_rest_put_namespace(&b, ns, r->separator);
    wr_buf_printf(&b, "/tables/");
    wr_rest_put_encoded(&b, name, strlen(name));
    const char *s = wr_buf_cstr(&b);
    return s ? wr_strdup(s) : NULL;
}

static wr_code lend(void *ctx, const char *prefix, const wr_s3_credentials *credentials, wr_err *err) { return wr_store_lend(ctx, prefix, credentials, err); }

wr_code wr_rest_read_loaded(wr_rest *r, const wr_rest_answer *a, const char *ns, const char *name, wr_ice_table **ret_table, wr_err *err) {
    WR_AUTO char *what = wr_asprintf("table %s.%s of the catalog", ns, name);
    wr_ice_table *t = NULL;
    if (!what) return wr_nomem(err, "table", 64);
    WR_TRY(wr_rest_read_table(wr_buf_view(&a->body), what, r->store ? lend : NULL, r->store, &t, err));
    t->store = r->store;
    wr_code rc = wr_meta_set_name(t, ns, name, err);
    if (rc != WR_OK) return wr_ice_table_free(t), rc;
    *ret_table = t;
    return WR_OK;
}

wr_code wr_rest_load_until(wr_rest *r, const char *ns, const char *name, int64_t until_us, wr_ice_table **ret_table, wr_err *err) {
    WR_AUTO_ANSWER wr_rest_answer a = {0};
    WR_AUTO char *path = wr_rest_table_path(r, ns, name);
    if (!path) return wr_nomem(err, "request", 64);
    WR_TRY(wr_rest_get(r, path, until_us, &a, err));
    return wr_rest_read_loaded(r, &a, ns, name, ret_table, err);
}

wr_code wr_rest_load(wr_rest *r, const char *ns, const char *name, wr_ice_table **ret_table, wr_err *err) {
    return wr_rest_load_until(r, ns, name, 0, ret_table, err);
}

/* ------------------------------------------------------------------ credentials */
wr_code wr_rest_borrow(wr_rest *r, wr_ice_table *t, wr_err *err) {
    wr_ice_table *now = NULL;
    if (!r->store || !t->location_of_meta || !t->lent_until_us || t->lent_until_us >= wr_now_us() + RENEW_EARLY_US) return WR_OK;
    WR_TRY(wr_rest_load(r, t->ns, t->name, &now, err));
    t->lent_until_us = now->lent_until_us;
    wr_ice_table_free(now);
    return WR_OK;
}
