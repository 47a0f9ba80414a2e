#include "iceberg/spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iceberg/metadata.h"
#include "weir/base/mem.h"

/* ------------------------------------------------------------------ objects */
wr_spec *wr_spec_ref(const wr_spec *s) {
    wr_spec *x = (wr_spec *)(uintptr_t)s;
    if (x) __atomic_add_fetch(&x->refs, 1, __ATOMIC_RELAXED);
    return x;
}

void wr_spec_unref(wr_spec *s) {
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    for (int i = 0; i < s->n; i++) wr_free(s->fields[i].name);
    wr_free(s->fields), wr_free(s->why_not);
    wr_schema_unref(s->tuple);
    wr_free(s);
}

static wr_spec *spec_new(int32_t id, int n) {
    wr_spec *s = wr_calloc(1, sizeof *s);
    if (!s || !(s->fields = wr_calloc((size_t)n + 1, sizeof *s->fields))) return wr_free(s), NULL;
    s->id = id, s->refs = 1;
    return s;
}

void wr_specs_clear(wr_specs *s) {
    for (int i = 0; i < s->n; i++) wr_spec_unref(s->v[i]);
    wr_free(s->v);
    *s = (wr_specs){0};
}

const wr_spec *wr_specs_find(const wr_specs *s, int32_t id) {
    for (int i = 0; i < s->n; i++)
        if (s->v[i]->id == id) return s->v[i];
    return NULL;
}

/* ------------------------------------------------------------------ transforms */
static inline uint32_t rotate(uint32_t v, int n) { return v << n | v >> (32 - n); }
static inline uint32_t mix(uint32_t k) { return rotate(k * 0xcc9e2d51u, 15) * 0x1b873593u; }

/* MurmurHash3, x86, 32 bit, seed 0: appendix B. */
static uint32_t murmur3(const uint8_t *p, size_t n) {
    uint32_t h = 0, k;
    size_t at = 0;
    for (; at + 4 <= n; at += 4) {
        memcpy(&k, p + at, 4);
        h = rotate(h ^ mix(k), 13) * 5 + 0xe6546b64u;
    }
    k = 0;
    for (size_t i = n; i > at; i--) k = k << 8 | p[i - 1];
    if (n > at) h ^= mix(k);
    h ^= (uint32_t)n;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

/* The fewest bytes of two's complement, high ones first; returns how many. */
static size_t shortest(__int128 v, uint8_t out[16]) {
    size_t n = 16;
    uint8_t all[16];
    for (int i = 0; i < 16; i++) all[i] = (uint8_t)((unsigned __int128)v >> (8 * (15 - i)));
    while (n > 1 && ((all[16 - n] == 0 && !(all[17 - n] & 0x80)) || (all[16 - n] == 0xff && all[17 - n] & 0x80))) n--;
    memcpy(out, all + 16 - n, n);
    return n;
}

static uint32_t hash(wr_type t, const wr_value *v) {
    uint8_t b[16];
    int64_t whole = 0;
    switch ((wr_kind)t.kind) {
    case WR_DECIMAL: return murmur3(b, shortest(v->dec, b));
    case WR_STRING:
    case WR_BINARY: return murmur3(v->s.p, v->s.n);
    case WR_INT:
    case WR_DATE: whole = v->i32; break;
    default: whole = v->i64; break;
    }
    memcpy(b, &whole, 8);
    return murmur3(b, 8);
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* The beginning of a text: so many code points. */
static wr_slice first_chars(wr_slice s, uint32_t n) {
    size_t at = 0;
    for (; at < s.n; at++)
        if ((s.p[at] & 0xc0) != 0x80 && n-- == 0) break;
    return (wr_slice){s.p, at};
}

static wr_value truncate_value(uint32_t w, wr_type t, const wr_value *v) {
    wr_value r = {0};
    switch ((wr_kind)t.kind) {
    case WR_INT: { /* of what lies below the smallest int only the low bits are left, as in Java */
        int64_t m = v->i32 % (int64_t)w;
        r.i32 = (int32_t)(uint32_t)(v->i32 - (m < 0 ? m + w : m));
        break;
    }
    case WR_LONG: {
        int64_t m = v->i64 % (int64_t)w;
        r.i64 = (int64_t)((uint64_t)v->i64 - (uint64_t)(m < 0 ? m + w : m));
        break;
    }
    case WR_DECIMAL: {
        __int128 m = v->dec % (__int128)w;
        r.dec = v->dec - (m < 0 ? m + w : m);
        break;
    }
    case WR_STRING: r.s = first_chars(v->s, w); break;
    default: r.s = (wr_slice){v->s.p, v->s.n < w ? v->s.n : w}; break;
    }
    return r;
}

#define DAY_US INT64_C(86400000000)
static wr_value time_value(uint8_t kind, wr_type t, const wr_value *v) {
    int64_t us = t.kind == WR_DATE ? 0 : v->i64;
    int year, month, day;
    int32_t days = t.kind == WR_DATE ? v->i32 : (int32_t)floor_div(us, DAY_US);
    if (kind == WR_TERM_HOUR) return (wr_value){.i32 = (int32_t)floor_div(us, DAY_US / 24)};
    if (kind == WR_TERM_DAY) return (wr_value){.i32 = days};
    wr_civil_from_days(days, &year, &month, &day);
    return (wr_value){.i32 = kind == WR_TERM_YEAR ? year - 1970 : (year - 1970) * 12 + month - 1};
}

wr_value wr_spec_value(uint8_t kind, uint32_t width, wr_type source, const wr_value *v) {
    if (v->null || kind == WR_TERM_VOID) return (wr_value){.null = true};
    switch ((wr_term_kind)kind) {
    case WR_TERM_IDENTITY: return *v;
    case WR_TERM_BUCKET: return (wr_value){.i32 = (int32_t)((hash(source, v) & INT32_MAX) % width)};
    case WR_TERM_TRUNCATE: return truncate_value(width, source, v);
    default: return time_value(kind, source, v);
    }
}

wr_type wr_spec_result(uint8_t kind, wr_type source) {
    switch ((wr_term_kind)kind) {
    case WR_TERM_BUCKET:
    case WR_TERM_YEAR:
    case WR_TERM_MONTH:
    case WR_TERM_HOUR: return (wr_type){.kind = WR_INT};
    case WR_TERM_DAY: return (wr_type){.kind = WR_DATE}; /* int in the text of the specification, date in every implementation */
    default: return source;
    }
}

wr_type wr_spec_held(wr_type t) {
    if (t.kind == WR_INT) return (wr_type){.kind = WR_LONG};
    if (t.kind == WR_FLOAT) return (wr_type){.kind = WR_DOUBLE};
    return t.kind == WR_DECIMAL ? (wr_type){WR_DECIMAL, 38, t.scale} : t;
}

static wr_value widen(wr_type t, wr_value v) {
    if (v.null) return v;
    if (t.kind == WR_INT) return (wr_value){.i64 = v.i32};
    if (t.kind == WR_FLOAT) return (wr_value){.f64 = (double)v.f32};
    return v;
}

static wr_value narrow(wr_type t, wr_value v) {
    if (v.null) return v;
    if (t.kind == WR_INT) return (wr_value){.i32 = (int32_t)v.i64};
    if (t.kind == WR_FLOAT) return (wr_value){.f32 = (float)v.f64};
    return v;
}

/* ------------------------------------------------------------------ tuples */

wr_code wr_spec_tuple(const wr_spec *s, const int *cols, const wr_value *vals, wr_buf *out, wr_err *err) {
    if (!s->n) return WR_OK;
    size_t at = wr_row_begin(out, s->n);
    for (int i = 0; i < s->n; i++) {
        const wr_spec_field *f = &s->fields[i];
        wr_value v = {.null = true};
        if (cols[i] >= 0) v = widen(f->result, wr_spec_value(f->kind, f->width, f->source, &vals[cols[i]]));
        wr_row_put(out, at, i, s->tuple->cols[i].type, &v);
    }
    return wr_buf_check(out, "partition", err);
}

wr_code wr_spec_read(const wr_spec *s, wr_slice tuple, wr_value *vals, wr_err *err) {
    if (!s->n && !tuple.n) return WR_OK;
    if (!s->n || s->why_not) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "a tuple of %zu bytes for partition spec %d", tuple.n, s->id);
    WR_TRY(wr_row_read(s->tuple, tuple, vals, err));
    for (int i = 0; i < s->n; i++) vals[i] = narrow(s->fields[i].result, vals[i]);
    return WR_OK;
}

static void print_value(const wr_spec_field *f, const wr_value *v, wr_buf *out) {
    int year, month, day;
    if (v->null) return wr_buf_printf(out, "null");
    switch ((wr_term_kind)f->kind) {
    case WR_TERM_YEAR: return wr_buf_printf(out, "%d", v->i32 + 1970);
    case WR_TERM_MONTH: return wr_buf_printf(out, "%04d-%02d", 1970 + (int)floor_div(v->i32, 12), (int)(v->i32 - floor_div(v->i32, 12) * 12) + 1);
    case WR_TERM_HOUR:
        wr_civil_from_days((int32_t)floor_div(v->i32, 24), &year, &month, &day);
        return wr_buf_printf(out, "%04d-%02d-%02d-%02d", year, month, day, (int)(v->i32 - floor_div(v->i32, 24) * 24));
    default: return wr_value_print(out, f->result, v);
    }
}

/* Bytes of any name or value that are safe in a path: as wr_ice_new_location makes them. */
static void put_safe(wr_buf *out, wr_slice s) {
    for (size_t i = 0; i < s.n && i < 60; i++) {
        uint8_t c = s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || (c == '.' && i > 0);
        if (plain) wr_buf_put(out, &c, 1);
        else wr_buf_printf(out, "~%02X", c);
    }
}

static wr_code print_tuple(const wr_spec *s, wr_slice tuple, bool folder, wr_buf *out, wr_err *err) {
    WR_AUTO wr_value *vals = wr_calloc((size_t)s->n + 1, sizeof *vals);
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    if (!vals) return wr_nomem(err, "partition", (size_t)s->n * sizeof *vals);
    WR_TRY(wr_spec_read(s, tuple, vals, err));
    for (int i = 0; i < s->n; i++) {
        const wr_spec_field *f = &s->fields[i];
        wr_buf_clear(&text);
        print_value(f, &vals[i], &text);
        WR_TRY(wr_buf_check(&text, "partition", err));
        if (i) wr_buf_put(out, folder ? "/" : ", ", folder ? 1 : 2);
        if (folder) put_safe(out, wr_slice_str(f->name));
        else wr_buf_put(out, f->name, strlen(f->name));
        wr_buf_put(out, "=", 1);
        if (folder) put_safe(out, wr_buf_view(&text));
        else wr_buf_put(out, text.p, text.n < 60 ? text.n : 60);
    }
    return wr_buf_check(out, "partition", err);
}

wr_code wr_spec_folder(const wr_spec *s, wr_slice tuple, wr_buf *out, wr_err *err) { return print_tuple(s, tuple, true, out, err); }
wr_code wr_spec_text(const wr_spec *s, wr_slice tuple, wr_buf *out, wr_err *err) { return print_tuple(s, tuple, false, out, err); }

void wr_spec_single(wr_buf *out, wr_type t, const wr_value *v) {
    uint8_t b[16];
    switch ((wr_kind)t.kind) {
    case WR_BOOL: b[0] = v->b; return wr_buf_put(out, b, 1);
    case WR_INT:
    case WR_DATE:
    case WR_FLOAT: return wr_buf_put(out, &v->i32, 4);
    case WR_LONG:
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ:
    case WR_DOUBLE: return wr_buf_put(out, &v->i64, 8);
    case WR_DECIMAL: return wr_buf_put(out, b, shortest(v->dec, b));
    default: return wr_buf_put(out, v->s.p, v->s.n);
    }
}

wr_code wr_spec_print(const wr_spec *s, const wr_schema *schema, wr_buf *out, wr_err *err) {
    char text[256], gone[32];
    for (int i = 0; i < s->n; i++) {
        const wr_spec_field *f = &s->fields[i];
        int c = wr_schema_find_id(schema, f->source_id);
        snprintf(gone, sizeof gone, "#%d", f->source_id);
        wr_term t = {.kind = f->kind, .width = f->width, .column = c < 0 ? gone : schema->cols[c].name};
        wr_buf_printf(out, "%s%s", i ? ", " : "", wr_term_print(&t, text));
    }
    return wr_buf_check(out, "partition", err);
}

/* ------------------------------------------------------------------ reading the metadata */
static const char *const words[] = {"identity", "bucket", "truncate", "year", "month", "day", "hour", "void"};

static bool parse_transform(const char *text, wr_spec_field *f) {
    for (int k = 0; k <= WR_TERM_VOID; k++) {
        size_t n = strlen(words[k]);
        if (strncmp(text, words[k], n) != 0) continue;
        f->kind = (uint8_t)k;
        bool wide = k == WR_TERM_BUCKET || k == WR_TERM_TRUNCATE;
        if (!wide) return text[n] == 0;
        char *end;
        unsigned long w = text[n] == '[' ? strtoul(text + n + 1, &end, 10) : 0;
        f->width = (uint32_t)w;
        return w > 0 && w <= INT32_MAX && strcmp(end, "]") == 0;
    }
    return false;
}

static void print_transform(const wr_spec_field *f, char buf[32]) {
    if (f->width) snprintf(buf, 32, "%s[%u]", words[f->kind], f->width);
    else snprintf(buf, 32, "%s", words[f->kind]);
}

static bool type_in(const cJSON *schema, int32_t id, wr_type *ret) {
    const cJSON *f;
    cJSON_ArrayForEach(f, wr_json_get(schema, "fields")) {
        wr_err ignored = WR_ERR_INIT;
        if (wr_meta_num(f, "id", -1) == id) return wr_meta_column_type(f, ret, &ignored) == WR_OK;
    }
    return false;
}

/* The column's type now, or when it was last there. */
static bool source_type(const cJSON *doc, int64_t schema_id, int32_t id, wr_type *ret) {
    const cJSON *schema;
    bool found = type_in(wr_meta_schema(doc, schema_id), id, ret);
    if (!found)
        cJSON_ArrayForEach(schema, wr_json_get(doc, "schemas")) found |= type_in(schema, id, ret);
    return found;
}

static wr_code not_known(wr_spec *s, const char *name, const char *what, wr_err *err) {
    if (s->why_not) return WR_OK;
    s->why_not = wr_asprintf("partition field %.80s: %.80s", name ? name : "?", what);
    return s->why_not ? WR_OK : wr_nomem(err, "partition spec", 128);
}

static wr_code read_field(const cJSON *doc, int64_t schema_id, const cJSON *js, wr_spec *s, wr_err *err) {
    const char *name = wr_json_str(js, "name"), *transform = wr_json_str(js, "transform");
    int64_t source = wr_meta_num(js, "source-id", -1), id = wr_meta_num(js, "field-id", WR_SPEC_FIRST_FIELD + s->n);
    const cJSON *several = wr_json_get(js, "source-ids");
    if (source < 0 && cJSON_GetArraySize(several) == 1 && !wr_json_i64_of(several->child, &source)) source = -1;
    wr_spec_field *f = &s->fields[s->n];
    if (!name || !transform || id <= 0 || id > INT32_MAX) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "partition spec %d has a field without name, id or transform", s->id);
    if (!(f->name = wr_strdup(name))) return wr_nomem(err, "partition spec", strlen(name));
    s->n++;
    f->id = (int32_t)id, f->source_id = source > INT32_MAX ? -1 : (int32_t)source;
    if (!parse_transform(transform, f)) return not_known(s, name, transform, err);
    if (source < 0) return not_known(s, name, "it has not exactly one source column", err);
    if (!source_type(doc, schema_id, f->source_id, &f->source)) {
        if (f->kind != WR_TERM_VOID) return not_known(s, name, "its column has a type that Weir has not", err);
        f->source = (wr_type){.kind = WR_INT};
    }
    f->result = wr_spec_result(f->kind, f->source);
    return WR_OK;
}

static wr_code tuple_schema(wr_spec *s, wr_err *err) {
    WR_AUTO wr_column *cols = wr_calloc((size_t)s->n + 1, sizeof *cols);
    if (!cols) return wr_nomem(err, "partition spec", (size_t)s->n * sizeof *cols);
    for (int i = 0; i < s->n; i++) cols[i] = (wr_column){.name = s->fields[i].name, .id = s->fields[i].id, .type = wr_spec_held(s->fields[i].result), .nullable = true};
    return s->n ? wr_schema_new(cols, s->n, 0, &s->tuple, err) : WR_OK;
}

static wr_code read_spec(const cJSON *doc, int64_t schema_id, const cJSON *js, wr_spec **ret, wr_err *err) {
    const cJSON *fields = wr_json_get(js, "fields"), *f;
    int64_t id;
    if (!wr_json_i64(js, "spec-id", &id) || id < 0 || id > INT32_MAX || !cJSON_IsArray(fields)) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "a partition spec without spec-id or fields");
    wr_spec *s = spec_new((int32_t)id, cJSON_GetArraySize(fields));
    if (!s) return wr_nomem(err, "partition spec", sizeof *s);
    wr_code rc = WR_OK;
    cJSON_ArrayForEach(f, fields) if (rc == WR_OK) rc = read_field(doc, schema_id, f, s, err);
    if (rc == WR_OK && !s->why_not && (rc = tuple_schema(s, err)) == WR_E_INVAL) {
        rc = not_known(s, s->fields[0].name, err->msg, err);
        if (rc == WR_OK) wr_err_clear(err);
    }
    if (rc != WR_OK) return wr_spec_unref(s), rc;
    *ret = s;
    return WR_OK;
}

wr_code wr_specs_of(const cJSON *doc, int64_t schema_id, wr_specs *ret, wr_err *err) {
    const cJSON *list = wr_json_get(doc, "partition-specs"), *js;
    wr_specs all = {.v = wr_calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *all.v)};
    if (!all.v) return wr_nomem(err, "partition specs", 64);
    cJSON_ArrayForEach(js, list) {
        wr_code rc = read_spec(doc, schema_id, js, &all.v[all.n], err);
        if (rc != WR_OK) return wr_specs_clear(&all), rc;
        all.n++;
    }
    *ret = all;
    return WR_OK;
}

/* ------------------------------------------------------------------ writing it */
static cJSON *field_json(const wr_spec_field *f) {
    char transform[32];
    print_transform(f, transform);
    WR_AUTO_JSON cJSON *o = cJSON_CreateObject();
    if (!o || !wr_json_set_num(o, "source-id", f->source_id) || !wr_json_set_num(o, "field-id", f->id) || !wr_json_set_str(o, "name", f->name) || !wr_json_set_str(o, "transform", transform)) return NULL;
    cJSON *ret = o;
    o = NULL;
    return ret;
}

static bool add_fields(cJSON *list, const wr_spec *s) {
    for (int i = 0; i < s->n; i++)
        if (!wr_json_push(list, field_json(&s->fields[i]))) return false;
    return true;
}

wr_code wr_spec_header(const wr_spec *s, wr_buf *out, wr_err *err) {
    WR_AUTO_JSON cJSON *list = cJSON_CreateArray();
    if (!list || !add_fields(list, s)) return wr_nomem(err, "partition spec", 256);
    return wr_json_print(list, out, err);
}

/* A name as Avro has them; Iceberg's readers go by the field's id. */
static char *avro_name(const char *name) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    for (const char *c = name; *c; c++) {
        bool digit = *c >= '0' && *c <= '9', plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' || digit;
        if (digit && c == name) wr_buf_put(&b, "_", 1);
        if (plain) wr_buf_put(&b, c, 1);
        else wr_buf_printf(&b, "_x%X", (uint8_t)*c);
    }
    const char *text = wr_buf_cstr(&b);
    return text ? wr_strdup(text) : NULL;
}

uint32_t wr_spec_decimal_bytes(uint8_t precision) {
    __int128 max = 1;
    uint32_t n = 1;
    for (int i = 0; i < precision; i++) max *= 10;
    while (n < 16 && ((__int128)1 << (8 * n - 1)) < max) n++;
    return n;
}

static void put_avro_type(wr_buf *out, const wr_spec_field *f) {
    switch ((wr_kind)f->result.kind) {
    case WR_BOOL: return wr_buf_printf(out, "\"boolean\"");
    case WR_INT: return wr_buf_printf(out, "\"int\"");
    case WR_LONG: return wr_buf_printf(out, "\"long\"");
    case WR_FLOAT: return wr_buf_printf(out, "\"float\"");
    case WR_DOUBLE: return wr_buf_printf(out, "\"double\"");
    case WR_DATE: return wr_buf_printf(out, "{\"type\":\"int\",\"logicalType\":\"date\"}");
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ: return wr_buf_printf(out, "{\"type\":\"long\",\"logicalType\":\"timestamp-micros\",\"adjust-to-utc\":%s}", f->result.kind == WR_TIMESTAMPTZ ? "true" : "false");
    case WR_DECIMAL:
        return wr_buf_printf(out, "{\"type\":\"fixed\",\"name\":\"decimal_%u_%u_f%d\",\"size\":%u,\"logicalType\":\"decimal\",\"precision\":%u,\"scale\":%u}", f->result.precision, f->result.scale, f->id,
                             wr_spec_decimal_bytes(f->result.precision), f->result.precision, f->result.scale);
    case WR_BINARY: return wr_buf_printf(out, "\"bytes\"");
    default: return wr_buf_printf(out, "\"string\"");
    }
}

wr_code wr_spec_avro(const wr_spec *s, wr_buf *out, wr_err *err) {
    for (int i = 0; i < s->n; i++) {
        WR_AUTO char *name = avro_name(s->fields[i].name);
        if (!name) return wr_nomem(err, "partition spec", 64);
        wr_buf_printf(out, "%s{\"name\":\"%s\",\"type\":[\"null\",", i ? "," : "", name);
        put_avro_type(out, &s->fields[i]);
        wr_buf_printf(out, "],\"default\":null,\"field-id\":%d}", s->fields[i].id);
    }
    return wr_buf_check(out, "partition spec", err);
}

/* ------------------------------------------------------------------ choosing */
static bool name_is_column(const cJSON *doc, const wr_schema *schema, const char *name, int32_t source_id) {
    int c = schema ? wr_schema_find(schema, name) : -1;
    const cJSON *f;
    if (c >= 0 && schema->cols[c].id != source_id) return true;
    const cJSON *now = wr_meta_schema(doc, wr_meta_num(doc, "current-schema-id", -1)), *fields = now ? wr_json_get(now, "fields") : NULL;
    cJSON_ArrayForEach(f, fields) {
        const char *other = wr_json_str(f, "name");
        if (other && strcmp(other, name) == 0 && wr_meta_num(f, "id", -1) != source_id) return true;
    }
    return false;
}

static bool is_used(const wr_spec *s, int before, const char *name) {
    for (int i = 0; i < before; i++)
        if (strcmp(s->fields[i].name, name) == 0) return true;
    return false;
}

/* As Iceberg Java makes them: the column, or column_bucket, column_trunc, column_month; a number behind when a column has that name. */
static char *field_name(const cJSON *doc, const wr_schema *schema, const wr_spec *s, int at, const wr_term *t) {
    static const char *const suffix[] = {"", "_bucket", "_trunc", "_year", "_month", "_day", "_hour", "_null"};
    for (int i = 1;; i++) {
        char *name = i == 1 ? wr_asprintf("%s%s", t->column, suffix[t->kind]) : wr_asprintf("%s%s_%d", t->column, suffix[t->kind], i);
        if (!name || (!is_used(s, at, name) && !name_is_column(doc, schema, name, s->fields[at].source_id))) return name;
        wr_free(name);
    }
}

static const wr_spec_field *equal_field(const wr_specs *all, const wr_spec_field *f) {
    for (int i = all->n - 1; i >= 0; i--)
        for (int k = 0; k < all->v[i]->n; k++) {
            const wr_spec_field *g = &all->v[i]->fields[k];
            if (!all->v[i]->why_not && g->source_id == f->source_id && g->kind == f->kind && g->width == f->width) return g;
        }
    return NULL;
}

bool wr_spec_same(const wr_spec *a, const wr_spec *b) {
    if (a->n != b->n || a->why_not) return false;
    for (int i = 0; i < a->n; i++) {
        const wr_spec_field *f = &a->fields[i], *g = &b->fields[i];
        if (f->source_id != g->source_id || f->kind != g->kind || f->width != g->width) return false;
    }
    return true;
}

static bool names_are_free(const cJSON *doc, const wr_schema *schema, const wr_spec *s) {
    for (int i = 0; i < s->n; i++)
        if (name_is_column(doc, schema, s->fields[i].name, s->fields[i].source_id)) return false;
    return true;
}

static wr_code make_fields(const cJSON *doc, const wr_specs *all, const wr_term *terms, int n, const wr_schema *schema, wr_spec *s, wr_err *err) {
    int64_t last = wr_meta_num(doc, "last-partition-id", WR_SPEC_FIRST_FIELD - 1);
    for (int i = 0; i < n; i++) {
        const wr_column *c = &schema->cols[wr_schema_find(schema, terms[i].column)];
        wr_spec_field *f = &s->fields[i];
        *f = (wr_spec_field){.source_id = c->id, .kind = terms[i].kind, .width = terms[i].width, .source = c->type, .result = wr_spec_result(terms[i].kind, c->type)};
        const wr_spec_field *old = f->kind == WR_TERM_VOID ? NULL : equal_field(all, f);
        f->id = old ? old->id : (int32_t)++last;
        bool keep = old && !is_used(s, i, old->name) && !name_is_column(doc, schema, old->name, c->id);
        f->name = keep ? wr_strdup(old->name) : field_name(doc, schema, s, i, &terms[i]);
        if (!f->name) return wr_nomem(err, "partition spec", 64);
        s->n++;
    }
    return WR_OK;
}

/* The older spec, with the types of columns as they are now. */
static wr_code become(wr_spec *s, const wr_spec *old, wr_err *err) {
    s->id = old->id;
    for (int i = 0; i < s->n; i++) {
        char *name = wr_strdup(old->fields[i].name);
        if (!name) return wr_nomem(err, "partition spec", 64);
        wr_free(s->fields[i].name);
        s->fields[i].name = name, s->fields[i].id = old->fields[i].id;
    }
    return WR_OK;
}

wr_code wr_spec_choose(const cJSON *doc, const wr_term *terms, int n, const wr_schema *schema, wr_spec **ret, wr_err *err) {
    WR_CLEANUP(wr_specs_clear) wr_specs all = {0};
    int32_t id = -1;
    WR_TRY(wr_specs_of(doc, wr_meta_num(doc, "current-schema-id", 0), &all, err));
    for (int i = 0; i < all.n; i++)
        if (all.v[i]->id > id) id = all.v[i]->id;
    wr_spec *s = spec_new(id + 1, n);
    if (!s) return wr_nomem(err, "partition spec", sizeof *s);
    wr_code rc = make_fields(doc, &all, terms, n, schema, s, err);
    for (int i = 0; rc == WR_OK && i < all.n; i++)
        if (wr_spec_same(all.v[i], s) && names_are_free(doc, schema, all.v[i])) {
            rc = become(s, all.v[i], err);
            break;
        }
    if (rc == WR_OK) rc = tuple_schema(s, err);
    if (rc != WR_OK) return wr_spec_unref(s), rc;
    *ret = s;
    return WR_OK;
}

static cJSON *spec_json(const cJSON *doc, int32_t id) {
    cJSON *js;
    cJSON_ArrayForEach(js, wr_json_get(doc, "partition-specs")) if (wr_meta_num(js, "spec-id", -1) == id) return js;
    return NULL;
}

wr_code wr_meta_add_spec(cJSON *doc, const wr_spec *s, wr_err *err) {
    if (spec_json(doc, s->id)) {
        WR_CLEANUP(wr_specs_clear) wr_specs all = {0};
        WR_TRY(wr_specs_of(doc, wr_meta_num(doc, "current-schema-id", 0), &all, err));
        if (wr_spec_same(wr_specs_find(&all, s->id), s) || s->why_not) return WR_OK;
        return wr_fail(err, WR_E_CONFLICT, WR_RETRY_AFTER_RELOAD, "somebody else added partition spec %d", s->id);
    }
    cJSON *specs = wr_json_array(doc, "partition-specs"), *js = cJSON_CreateObject();
    cJSON *list = wr_json_push(specs, js) && wr_json_set_num(js, "spec-id", s->id) ? wr_json_array(js, "fields") : NULL;
    int64_t last = wr_meta_num(doc, "last-partition-id", WR_SPEC_FIRST_FIELD - 1);
    for (int i = 0; i < s->n; i++)
        if (s->fields[i].id > last) last = s->fields[i].id;
    return list && add_fields(list, s) && wr_json_set_num(doc, "last-partition-id", last) ? WR_OK : wr_nomem(err, "partition spec", 256);
}

/* The field's name is that of a column of the current schema which is not its source. */
static bool clashes(const cJSON *doc, const cJSON *f) {
    const char *name = wr_json_str(f, "name");
    return name && name_is_column(doc, NULL, name, (int32_t)wr_meta_num(f, "source-id", -1));
}

static bool has_name(const cJSON *spec, const char *name) {
    const cJSON *f;
    cJSON_ArrayForEach(f, wr_json_get(spec, "fields")) {
        const char *other = wr_json_str(f, "name");
        if (other && strcmp(other, name) == 0) return true;
    }
    return false;
}

static wr_code rename_fields(cJSON *doc, cJSON *spec, wr_err *err) {
    cJSON *f;
    cJSON_ArrayForEach(f, wr_json_get(spec, "fields")) {
        for (int i = 2; clashes(doc, f); i++) {
            WR_AUTO char *name = wr_asprintf("%s_%d", wr_json_str(f, "name"), i);
            if (!name) return wr_nomem(err, "partition spec", 64);
            if (!has_name(spec, name) && !wr_json_set_str(f, "name", name)) return wr_nomem(err, "partition spec", 64);
        }
    }
    return WR_OK;
}

wr_code wr_meta_settle_clashes(cJSON *doc, wr_clash how, wr_err *err) {
    cJSON *specs = wr_json_array(doc, "partition-specs"), *f;
    int64_t keep = wr_meta_num(doc, "default-spec-id", 0);
    if (!specs) return wr_nomem(err, "partition specs", 64);
    for (int i = cJSON_GetArraySize(specs) - 1; i >= 0; i--) {
        cJSON *js = cJSON_GetArrayItem(specs, i);
        bool any = false;
        if (how == WR_CLASH_RENAME) WR_TRY(rename_fields(doc, js, err));
        else cJSON_ArrayForEach(f, wr_json_get(js, "fields")) any |= clashes(doc, f);
        if (any && wr_meta_num(js, "spec-id", -1) != keep) cJSON_DeleteItemFromArray(specs, i);
    }
    return WR_OK;
}

bool wr_meta_would_clash(const cJSON *doc, const wr_schema *schema) {
    const cJSON *js, *f;
    cJSON_ArrayForEach(js, wr_json_get(doc, "partition-specs")) cJSON_ArrayForEach(f, wr_json_get(js, "fields")) {
        const char *name = wr_json_str(f, "name");
        int c = name ? wr_schema_find(schema, name) : -1;
        if (c >= 0 && schema->cols[c].id != wr_meta_num(f, "source-id", -1)) return true;
    }
    return false;
}

bool wr_spec_fits(const wr_spec *s, const wr_schema *schema) {
    for (int i = 0; i < s->n; i++)
        if (s->fields[i].kind != WR_TERM_VOID && wr_schema_find_id(schema, s->fields[i].source_id) < 0) return false;
    return true;
}

/* ------------------------------------------------------------------ of a table */
wr_code wr_ice_specs(const wr_ice_table *t, wr_specs *ret, wr_err *err) { return wr_specs_of(t->doc, wr_meta_num(t->doc, "current-schema-id", 0), ret, err); }
int32_t wr_ice_default_spec(const wr_ice_table *t) { return (int32_t)wr_meta_num(t->doc, "default-spec-id", 0); }
wr_code wr_ice_choose_spec(const wr_ice_table *t, const wr_term *terms, int n, const wr_schema *schema, wr_spec **ret, wr_err *err) { return wr_spec_choose(t->doc, terms, n, schema, ret, err); }

bool wr_ice_would_clash(const wr_ice_table *t, const wr_schema *schema) { return wr_meta_would_clash(t->doc, schema); }

bool wr_ice_had_column(const wr_ice_table *t, const char *name) {
    const cJSON *schema, *f;
    cJSON_ArrayForEach(schema, wr_json_get(t->doc, "schemas")) cJSON_ArrayForEach(f, wr_json_get(schema, "fields")) {
        const char *have = wr_json_str(f, "name");
        if (have && strcmp(have, name) == 0) return true;
    }
    return false;
}

int wr_ice_renamed_column(const wr_ice_table *t, const char *name, const wr_schema *now) {
    const cJSON *schema, *f;
    int at = -1;
    cJSON_ArrayForEach(schema, wr_json_get(t->doc, "schemas")) cJSON_ArrayForEach(f, wr_json_get(schema, "fields")) {
        const char *had = wr_json_str(f, "name");
        int c = had && strcmp(had, name) == 0 ? wr_schema_find_id(now, (int32_t)wr_meta_num(f, "id", -1)) : -1;
        if (c >= 0) at = c;
    }
    return at;
}
