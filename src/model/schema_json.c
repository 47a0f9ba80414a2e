/* docs/formats/schema.md */
#include "weir/base/mem.h"
#include "value.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* cJSON cannot tell "out of memory" from "not JSON"; this can. */
static _Thread_local bool out_of_memory;

static void *json_malloc(size_t n) {
    void *p = wr_malloc(n);
    if (!p) out_of_memory = true;
    return p;
}

/* cJSON's memory counts as ours in tests that fail each allocation. wr_malloc and malloc share one heap, so other users
 * of cJSON in the process may go on calling free(). */
__attribute__((constructor)) static void hook(void) {
    cJSON_Hooks h = {.malloc_fn = json_malloc, .free_fn = wr_free};
    cJSON_InitHooks(&h);
}

static void json_free_p(cJSON **j) { cJSON_Delete(*j); }
#define AUTO_JSON WR_CLEANUP(json_free_p)

/* ------------------------------------------------------------------ writing */
static cJSON *hex_json(const char *prefix, wr_slice s) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_buf_put(&b, prefix, strlen(prefix));
    wr_hex_print_(&b, s);
    const char *text = wr_buf_cstr(&b);
    return text ? cJSON_CreateString(text) : NULL;
}

static cJSON *string_json(wr_slice s) {
    if (s.n == 0) return cJSON_CreateString("");
    if (!memchr(s.p, 0, s.n) && wr_utf8_valid_(s)) {
        WR_AUTO char *text = wr_strndup((const char *)s.p, s.n);
        return text ? cJSON_CreateString(text) : NULL;
    }
    /* What a JSON string of ours cannot hold: NUL and bytes that are not UTF-8. */
    AUTO_JSON cJSON *o = cJSON_CreateObject();
    AUTO_JSON cJSON *hex = hex_json("", s);
    if (!o || !hex || !cJSON_AddItemToObject(o, "hex", hex)) return NULL;
    hex = NULL;
    return WR_STEAL(o);
}

static cJSON *bits_json(uint64_t bits, int digits) {
    char text[24];
    snprintf(text, sizeof text, "0x%0*llx", digits, (unsigned long long)bits);
    return cJSON_CreateString(text);
}

static cJSON *initial_json(wr_type t, const wr_value *v) {
    uint32_t b32;
    uint64_t b64;
    switch ((wr_kind)t.kind) {
    case WR_BOOL:
        return cJSON_CreateBool(v->b);
    case WR_FLOAT:
        memcpy(&b32, &v->f32, 4);
        return bits_json(b32, 8);
    case WR_DOUBLE:
        memcpy(&b64, &v->f64, 8);
        return bits_json(b64, 16);
    case WR_STRING:
        return string_json(v->s);
    case WR_BINARY:
    case WR_FLOATS:
        return hex_json("", v->s);
    default:
        break;
    }
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    if (t.kind == WR_DECIMAL)
        wr_decimal_print_(&b, t.scale, v->dec);
    else
        wr_buf_printf(&b, "%lld", t.kind == WR_INT || t.kind == WR_DATE ? (long long)v->i32 : (long long)v->i64);
    const char *text = wr_buf_cstr(&b);
    return text ? cJSON_CreateString(text) : NULL;
}

/* False when memory is out. */
static bool add_column(cJSON *list, const wr_column *c) {
    char type[32];
    cJSON *o = cJSON_CreateObject();
    if (!o) return false;
    if (!cJSON_AddItemToArray(list, o)) {
        cJSON_Delete(o);
        return false;
    }
    if (!cJSON_AddStringToObject(o, "name", c->name) || !cJSON_AddNumberToObject(o, "id", c->id) ||
        !cJSON_AddStringToObject(o, "type", wr_type_name(c->type, type)) ||
        !cJSON_AddBoolToObject(o, "nullable", c->nullable) || !cJSON_AddNumberToObject(o, "key", c->key_ord))
        return false;
    if (c->has_initial) {
        cJSON *v = initial_json(c->type, &c->initial);
        if (!v || !cJSON_AddItemToObject(o, "initial", v)) {
            cJSON_Delete(v);
            return false;
        }
    }
    return !c->doc || cJSON_AddStringToObject(o, "doc", c->doc);
}

wr_code wr_schema_to_json(const wr_schema *s, wr_buf *b, wr_err *err) {
    AUTO_JSON cJSON *root = cJSON_CreateObject();
    cJSON *list;
    bool ok = root && cJSON_AddNumberToObject(root, "version", s->version) &&
              (list = cJSON_AddArrayToObject(root, "columns"));
    for (int i = 0; ok && i < s->ncols; i++) ok = add_column(list, &s->cols[i]);
    WR_AUTO char *text = ok ? cJSON_PrintUnformatted(root) : NULL;
    if (!text) return wr_nomem(err, "schema JSON", (unsigned long long)s->ncols * 128);
    wr_buf_put(b, text, strlen(text));
    return wr_buf_check(b, "schema JSON", err);
}

/* ------------------------------------------------------------------ reading */
static wr_code wrong(wr_err *err, int col, const char *what) {
    return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "schema JSON: column %d: %s", col, what);
}

static bool get_int(const cJSON *o, const char *name, double min, double max, double *ret_v) {
    const cJSON *j = cJSON_GetObjectItemCaseSensitive(o, name);
    if (!cJSON_IsNumber(j)) return false;
    double v = j->valuedouble;
    if (!(v >= min && v <= max) || v != (double)(int64_t)v) return false;
    *ret_v = v;
    return true;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* Appends the bytes; false when it is not hex. */
static bool hex_parse(const char *s, wr_buf *b) {
    size_t n = strlen(s);
    if (n % 2) return false;
    for (size_t i = 0; i < n; i += 2) {
        int hi = hex_digit(s[i]), lo = hex_digit(s[i + 1]);
        if (hi < 0 || lo < 0) return false;
        wr_buf_u8(b, (uint8_t)(hi << 4 | lo));
    }
    return true;
}

static bool bits_parse(const char *s, size_t digits, uint64_t *ret_bits) {
    if (strlen(s) != digits + 2 || s[0] != '0' || s[1] != 'x') return false;
    uint64_t v = 0;
    for (size_t i = 0; i < digits; i++) {
        int d = hex_digit(s[2 + i]);
        if (d < 0) return false;
        v = v << 4 | (uint64_t)d;
    }
    *ret_bits = v;
    return true;
}

static bool int_parse(const char *s, int64_t min, int64_t max, int64_t *ret_v) {
    char *end;
    const char *digits = *s == '-' ? s + 1 : s;
    if (*digits < '0' || *digits > '9') return false;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (errno || *end || v < min || v > max) return false;
    *ret_v = v;
    return true;
}

/* Bytes go into `keep`, which lives until the schema has taken its copy. False when the JSON does not fit the type. */
static bool initial_parse(const cJSON *j, wr_type t, wr_value *v, wr_buf *keep) {
    wr_err ignored = WR_ERR_INIT;
    uint64_t bits;
    int64_t i;
    bool wide = t.kind == WR_LONG || t.kind == WR_TIMESTAMP || t.kind == WR_TIMESTAMPTZ;
    if (t.kind == WR_BOOL) {
        v->b = cJSON_IsTrue(j);
        return cJSON_IsBool(j);
    }
    if (t.kind == WR_STRING && cJSON_IsObject(j)) {
        j = cJSON_GetObjectItemCaseSensitive(j, "hex");
        if (!cJSON_IsString(j) || !hex_parse(j->valuestring, keep)) return false;
        v->s = wr_buf_view(keep);
        return true;
    }
    if (!cJSON_IsString(j)) return false;
    const char *text = j->valuestring;
    switch ((wr_kind)t.kind) {
    case WR_FLOAT: {
        if (!bits_parse(text, 8, &bits)) return false;
        uint32_t low = (uint32_t)bits;
        memcpy(&v->f32, &low, 4);
        return true;
    }
    case WR_DOUBLE:
        if (!bits_parse(text, 16, &bits)) return false;
        memcpy(&v->f64, &bits, 8);
        return true;
    case WR_DECIMAL:
        return wr_decimal_parse(text, strlen(text), t, &v->dec, &ignored) == WR_OK;
    case WR_STRING:
        wr_buf_put(keep, text, strlen(text));
        break;
    case WR_BINARY:
    case WR_FLOATS:
        if (!hex_parse(text, keep)) return false;
        break;
    default:
        if (!int_parse(text, wide ? INT64_MIN : INT32_MIN, wide ? INT64_MAX : INT32_MAX, &i)) return false;
        if (wide)
            v->i64 = i;
        else
            v->i32 = (int32_t)i;
        return true;
    }
    v->s = wr_buf_view(keep);
    return true;
}

/* c borrows from j and keep. */
static wr_code column_parse(const cJSON *j, int at, wr_column *c, wr_buf *keep, wr_err *err) {
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(j, "name");
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(j, "type");
    const cJSON *nullable = cJSON_GetObjectItemCaseSensitive(j, "nullable");
    const cJSON *initial = cJSON_GetObjectItemCaseSensitive(j, "initial");
    const cJSON *doc = cJSON_GetObjectItemCaseSensitive(j, "doc");
    double id, key;
    if (!cJSON_IsString(name)) return wrong(err, at, "no name");
    c->name = name->valuestring;
    if (!get_int(j, "id", 1, INT32_MAX, &id)) return wrong(err, at, "no id");
    c->id = (int32_t)id;
    if (!cJSON_IsString(type) || wr_type_parse(type->valuestring, &c->type, err) != WR_OK)
        return wrong(err, at, "no valid type");
    if (!cJSON_IsBool(nullable)) return wrong(err, at, "no nullable");
    c->nullable = cJSON_IsTrue(nullable);
    if (!get_int(j, "key", 0, INT32_MAX, &key)) return wrong(err, at, "no key");
    c->key_ord = (int)key;
    if (doc && !cJSON_IsString(doc)) return wrong(err, at, "doc is not a string");
    c->doc = doc ? doc->valuestring : NULL;
    c->has_initial = initial != NULL;
    if (initial && !initial_parse(initial, c->type, &c->initial, keep))
        return wrong(err, at, "initial value does not fit the type");
    return wr_buf_check(keep, "initial value", err);
}

static wr_code root_parse(const cJSON *root, wr_schema **ret_schema, wr_err *err) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "columns"), *j;
    double version;
    if (!cJSON_IsArray(list) || !get_int(root, "version", 0, UINT32_MAX, &version))
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "schema JSON: no version or no columns");
    size_t n = (size_t)cJSON_GetArraySize(list), i = 0;
    WR_AUTO wr_column *cols = wr_calloc(n, sizeof *cols);
    WR_AUTO wr_buf *keep = wr_calloc(n, sizeof *keep);
    if (!cols || !keep) return wr_nomem(err, "schema columns", n * (sizeof *cols + sizeof *keep));
    wr_code rc = WR_OK;
    cJSON_ArrayForEach(j, list) {
        rc = column_parse(j, (int)i, &cols[i], &keep[i], err);
        if (rc != WR_OK) break;
        i++;
    }
    if (rc == WR_OK) {
        rc = wr_schema_new(cols, (int)n, (uint32_t)version, ret_schema, err);
        if (rc == WR_E_INVAL) err->code = rc = WR_E_CORRUPT, wr_err_in(err, "schema JSON");
    }
    for (i = 0; i < n; i++) wr_buf_free(&keep[i]);
    return rc;
}

wr_code wr_schema_from_json(wr_slice json, wr_schema **ret_schema, wr_err *err) {
    const char *end = NULL;
    out_of_memory = false;
    AUTO_JSON cJSON *root = json.n ? cJSON_ParseWithLengthOpts((const char *)json.p, json.n, &end, 0) : NULL;
    if (!root && out_of_memory) return wr_nomem(err, "schema JSON", json.n);
    if (!root) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "schema JSON: %zu bytes are not JSON", json.n);
    for (const char *p = end; p < (const char *)json.p + json.n; p++)
        if (*p != ' ' && *p != '\n' && *p != '\r' && *p != '\t')
            return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "schema JSON: something follows at byte %zu",
                           (size_t)(p - (const char *)json.p));
    return root_parse(root, ret_schema, err);
}
