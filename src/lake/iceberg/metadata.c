#include "iceberg/metadata.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zlib.h>

#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/io.h"
#include "iceberg/uuid.h"

#define METADATA_BYTES_MAX (256u << 20)
#define SCHEMA_PROP "weir.schema"
#define SCHEMA_ID_PROP "weir.schema-id"

/* ------------------------------------------------------------------ reading */
int64_t wr_meta_num(const cJSON *doc, const char *key, int64_t absent) {
    int64_t v;
    return wr_json_i64(doc, key, &v) ? v : absent;
}

static cJSON *find_by_num(const cJSON *array, const char *key, int64_t want) {
    cJSON *item;
    cJSON_ArrayForEach(item, array) {
        int64_t v;
        if (wr_json_i64(item, key, &v) && v == want) return item;
    }
    return NULL;
}

cJSON *wr_meta_snapshot(const cJSON *doc, int64_t id) {
    return find_by_num(wr_json_get(doc, "snapshots"), "snapshot-id", id);
}
cJSON *wr_meta_schema(const cJSON *doc, int64_t schema_id) {
    return find_by_num(wr_json_get(doc, "schemas"), "schema-id", schema_id);
}

int64_t wr_meta_ref(const cJSON *doc, const char *ref) {
    const cJSON *refs = wr_json_get(doc, "refs"), *r = refs ? wr_json_get(refs, ref) : NULL;
    if (r) return wr_meta_num(r, "snapshot-id", -1);
    return strcmp(ref, WR_ICE_MAIN) == 0 ? wr_meta_num(doc, "current-snapshot-id", -1) : -1;
}

bool wr_meta_same_heads(const cJSON *a, const cJSON *b) {
    return wr_meta_ref(a, WR_ICE_MAIN) == wr_meta_ref(b, WR_ICE_MAIN) && wr_meta_ref(a, WR_ICE_LOAD) == wr_meta_ref(b, WR_ICE_LOAD);
}

const char *wr_meta_property(const cJSON *doc, const char *key) {
    const cJSON *props = wr_json_get(doc, "properties");
    return props ? wr_json_str(props, key) : NULL;
}

/* ------------------------------------------------------------------ checking */
static wr_code bad(const char *name, const char *what, wr_err *err) {
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: %s", name, what);
}

/* What is reckoned with: times become microseconds, counts go up. */
static bool is_sane(int64_t n) { return n >= 0 && n <= INT64_MAX / 1000; }

static wr_code check_snapshots(const cJSON *doc, const char *name, int version, wr_err *err) {
    const cJSON *list = wr_json_get(doc, "snapshots"), *s;
    if (list && !cJSON_IsArray(list)) return bad(name, "snapshots is not a list", err);
    cJSON_ArrayForEach(s, list) {
        int64_t id, ms;
        if (!wr_json_i64(s, "snapshot-id", &id) || !wr_json_i64(s, "timestamp-ms", &ms) || !is_sane(ms))
            return bad(name, "a snapshot without snapshot-id or timestamp-ms, or with a time beyond reason", err);
        const cJSON *sum = wr_json_get(s, "summary");
        if (sum && !cJSON_IsObject(sum)) return bad(name, "a snapshot's summary is not an object", err);
        if (!wr_json_str(s, "manifest-list"))
            return wr_fail(err, version < 2 ? WR_E_UNSUPPORTED : WR_E_DECODE, WR_RETRY_NO,
                           "%s: snapshot %" PRId64 " has no manifest-list", name, id);
    }
    const cJSON *refs = wr_json_get(doc, "refs"), *r;
    if (refs && !cJSON_IsObject(refs)) return bad(name, "refs is not an object", err);
    cJSON_ArrayForEach(r, refs) {
        int64_t id;
        if (!wr_json_i64(r, "snapshot-id", &id) || !wr_meta_snapshot(doc, id))
            return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: branch or tag %s points at no snapshot", name,
                           r->string);
    }
    int64_t cur = wr_meta_num(doc, "current-snapshot-id", -1);
    if (cur != -1 && !wr_meta_snapshot(doc, cur))
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: current-snapshot-id %" PRId64 " is not among the snapshots",
                       name, cur);
    return WR_OK;
}

static wr_code check(const cJSON *doc, const char *name, int *ret_version, wr_err *err) {
    if (!cJSON_IsObject(doc)) return bad(name, "not a JSON object", err);
    int64_t version = wr_meta_num(doc, "format-version", -1), v;
    if (version < 1) return bad(name, "no format-version", err);
    if (version > 3)
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO,
                       "%s: format-version %" PRId64 " (1 to 3 are read, 2 and 3 written)", name, version);
    if (!wr_json_str(doc, "location")) return bad(name, "no location", err);
    if (version > 1 && !wr_json_str(doc, "table-uuid")) return bad(name, "no table-uuid", err);
    static const char *const needed[] = {"last-updated-ms", "last-column-id", "last-sequence-number",
                                         "current-schema-id", "default-spec-id"};
    for (int i = 0; i < (version > 1 ? 5 : 2); i++)
        if (!wr_json_i64(doc, needed[i], &v) || !is_sane(v))
            return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: %s is missing, no number, or beyond reason", name, needed[i]);
    if (version > 2 && (!wr_json_i64(doc, "next-row-id", &v) || v < 0))
        return bad(name, "next-row-id is missing or no number", err);
    if (version > 1 && !wr_meta_schema(doc, wr_meta_num(doc, "current-schema-id", -1)))
        return bad(name, "current-schema-id is not among the schemas", err);
    const cJSON *props = wr_json_get(doc, "properties");
    if (props && !cJSON_IsObject(props)) return bad(name, "properties is not an object", err);
    static const char *const lists[] = {"schemas", "partition-specs", "sort-orders", "snapshot-log", "metadata-log"};
    for (int i = 0; i < 5; i++) {
        const cJSON *l = wr_json_get(doc, lists[i]);
        if (l && !cJSON_IsArray(l))
            return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: %s is not a list", name, lists[i]);
    }
    *ret_version = (int)version;
    return check_snapshots(doc, name, (int)version, err);
}

static bool keep_identity(wr_ice_table *t) {
    const char *uuid = wr_json_str(t->doc, "table-uuid"), *location = wr_json_str(t->doc, "location");
    t->uuid = wr_strdup(uuid ? uuid : ""), t->location = location ? wr_strdup(location) : NULL;
    return t->uuid && (t->location || !location);
}

wr_code wr_meta_of(cJSON *doc, const char *name, wr_ice_table **ret_table, wr_err *err) {
    WR_AUTO_JSON cJSON *owned = doc;
    int version = 0;
    WR_TRY(check(doc, name, &version, err));
    wr_ice_table *t = wr_calloc(1, sizeof *t);
    if (!t) return wr_nomem(err, "table", sizeof *t);
    t->location_of_meta = wr_strdup(name);
    if (!t->location_of_meta) return wr_free(t), wr_nomem(err, "table", strlen(name));
    t->doc = doc, t->format_version = version;
    owned = NULL;
    if (!keep_identity(t)) return wr_ice_table_free(t), wr_nomem(err, "table", 256);
    *ret_table = t;
    return WR_OK;
}

wr_code wr_meta_parse(wr_slice text, const char *name, wr_ice_table **ret_table, wr_err *err) {
    cJSON *doc = NULL;
    WR_TRY(wr_json_parse(text, name, &doc, err));
    return wr_meta_of(doc, name, ret_table, err);
}

/* Metadata may be gzipped (write.metadata.compression-codec=gzip). */
static wr_code gunzip(wr_slice in, const char *name, wr_buf *out, wr_err *err) {
    z_stream z = {.next_in = (uint8_t *)(uintptr_t)in.p, .avail_in = (uInt)in.n};
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) return wr_nomem(err, "gunzip", 1u << 16);
    wr_code rc = WR_OK;
    for (int z_rc = Z_OK; rc == WR_OK && z_rc != Z_STREAM_END;) {
        size_t step = out->n + 65536;
        uint8_t *dst = wr_buf_room(out, step);
        if (!dst) {
            rc = wr_nomem(err, name, step);
            break;
        }
        z.next_out = dst, z.avail_out = (uInt)step;
        z_rc = inflate(&z, Z_NO_FLUSH);
        size_t got = step - z.avail_out;
        out->n += got;
        if (out->n > METADATA_BYTES_MAX)
            rc = wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "%s: larger than 256 MiB", name);
        else if ((z_rc != Z_OK && z_rc != Z_STREAM_END) || (z_rc == Z_OK && got == 0 && z.avail_in == 0))
            rc = bad(name, "damaged gzip data", err);
    }
    inflateEnd(&z);
    return rc;
}

wr_code wr_ice_load_file(wr_store *store, const char *metadata_location, wr_ice_table **ret_table, wr_err *err) {
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT, plain = WR_BUF_INIT;
    WR_TRY(wr_store_get(store, metadata_location, METADATA_BYTES_MAX, &text, err));
    bool packed = text.n >= 2 && text.p[0] == 0x1f && text.p[1] == 0x8b;
    if (packed) WR_TRY(gunzip(wr_buf_view(&text), metadata_location, &plain, err));
    WR_TRY(wr_meta_parse(wr_buf_view(packed ? &plain : &text), metadata_location, ret_table, err));
    (*ret_table)->store = store;
    return WR_OK;
}

wr_code wr_meta_set_name(wr_ice_table *t, const char *ns, const char *name, wr_err *err) {
    char *a = wr_strdup(ns), *b = wr_strdup(name);
    if (!a || !b) return wr_free(a), wr_free(b), wr_nomem(err, "table name", strlen(name));
    wr_free(t->ns);
    wr_free(t->name);
    t->ns = a, t->name = b;
    return WR_OK;
}

void wr_ice_table_free(wr_ice_table *t) {
    if (!t) return;
    wr_free(t->ns);
    wr_free(t->name);
    wr_free(t->location_of_meta);
    wr_free(t->uuid);
    wr_free(t->location);
    cJSON_Delete(t->doc);
    wr_free(t);
}

/* ------------------------------------------------------------------ what others did to our branches */
static const cJSON *newest_own(const cJSON *doc) {
    const cJSON *s, *newest = NULL;
    cJSON_ArrayForEach(s, wr_json_get(doc, "snapshots")) {
        const cJSON *sum = wr_json_get(s, "summary");
        const char *engine = sum ? wr_json_str(sum, "engine-name") : NULL;
        if (!engine || strcmp(engine, "weir") != 0) continue;
        if (!newest || wr_meta_num(s, "sequence-number", 0) > wr_meta_num(newest, "sequence-number", 0)) newest = s;
    }
    return newest;
}

int64_t wr_ice_newest_own(const wr_ice_table *t) {
    const cJSON *s = newest_own(t->doc);
    return s ? wr_meta_num(s, "snapshot-id", -1) : -1;
}

/* Parents have smaller sequence numbers, so the way ends; at a parent that is not there any more nobody can tell. */
static bool is_surely_not_below(const cJSON *doc, const cJSON *own, int64_t head) {
    int64_t limit = wr_meta_num(own, "sequence-number", 0), last = INT64_MAX;
    const cJSON *s = wr_meta_snapshot(doc, head);
    while (s && s != own) {
        int64_t sequence = wr_meta_num(s, "sequence-number", 0), parent;
        if (sequence < limit || sequence >= last || !wr_json_i64(s, "parent-snapshot-id", &parent)) return true;
        last = sequence;
        s = wr_meta_snapshot(doc, parent);
    }
    return false;
}

int64_t wr_ice_lost_snapshot(const wr_ice_table *t) {
    const cJSON *own = newest_own(t->doc);
    int64_t main = wr_meta_ref(t->doc, WR_ICE_MAIN), load = wr_meta_ref(t->doc, WR_ICE_LOAD);
    if (!own || (main >= 0 && !is_surely_not_below(t->doc, own, main)) || (load >= 0 && !is_surely_not_below(t->doc, own, load))) return -1;
    return wr_meta_num(own, "snapshot-id", -1);
}

/* ------------------------------------------------------------------ questions */
const char *wr_ice_uuid(const wr_ice_table *t) { return t->uuid; }
const char *wr_ice_location(const wr_ice_table *t) { return t->location; }
const char *wr_ice_metadata_location(const wr_ice_table *t) { return t->location_of_meta; }
wr_code wr_ice_metadata_bytes(const wr_ice_table *t, uint64_t *ret_bytes, wr_err *err) {
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    WR_TRY(wr_json_print(t->doc, &text, err));
    return *ret_bytes = text.n, WR_OK;
}

int wr_ice_format_version(const wr_ice_table *t) { return t->format_version; }
const char *wr_ice_property(const wr_ice_table *t, const char *key) { return wr_meta_property(t->doc, key); }
int64_t wr_ice_ref(const wr_ice_table *t, const char *ref) { return wr_meta_ref(t->doc, ref); }
int wr_ice_snapshot_count(const wr_ice_table *t) { return cJSON_GetArraySize(wr_json_get(t->doc, "snapshots")); }

const char *wr_ice_summary(const wr_ice_table *t, int64_t snapshot_id, const char *key) {
    const cJSON *s = wr_meta_snapshot(t->doc, snapshot_id), *sum = s ? wr_json_get(s, "summary") : NULL;
    return sum ? wr_json_str(sum, key) : NULL;
}

int wr_ice_summary_count(const wr_ice_table *t, const char *key) {
    const cJSON *s;
    int n = 0;
    cJSON_ArrayForEach(s, wr_json_get(t->doc, "snapshots")) n += wr_json_get(wr_json_get(s, "summary"), key) != NULL;
    return n;
}

int64_t wr_ice_snapshot_time_us(const wr_ice_table *t, int64_t snapshot_id) {
    const cJSON *s = wr_meta_snapshot(t->doc, snapshot_id);
    return s ? wr_meta_num(s, "timestamp-ms", 0) * 1000 : 0;
}

/* ------------------------------------------------------------------ schema: from Iceberg */
wr_code wr_meta_column_type(const cJSON *field, wr_type *ret, wr_err *err) {
    const cJSON *type = wr_json_get(field, "type");
    const char *name = wr_json_str(field, "name");
    if (cJSON_IsString(type) && strcmp(type->valuestring, "list<float>") != 0 &&
        wr_type_parse(type->valuestring, ret, err) == WR_OK)
        return WR_OK;
    if (cJSON_IsObject(type)) {
        const char *kind = wr_json_str(type, "type"), *element = wr_json_str(type, "element");
        if (kind && element && strcmp(kind, "list") == 0 && strcmp(element, "float") == 0)
            return *ret = (wr_type){.kind = WR_FLOATS}, WR_OK;
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "column %s has the nested type %.40s", name ? name : "?",
                       kind ? kind : "?");
    }
    return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "column %s has the type %.60s", name ? name : "?",
                   cJSON_IsString(type) ? type->valuestring : "?");
}

static int identifier_ord(const cJSON *ids, int64_t id) {
    int ord = 0;
    const cJSON *i;
    cJSON_ArrayForEach(i, ids) {
        int64_t v;
        ord++;
        if (wr_json_i64_of(i, &v) && v == id) return ord;
    }
    return 0;
}

static wr_code schema_from_iceberg(const cJSON *js, wr_schema **ret_schema, wr_err *err) {
    const cJSON *fields = wr_json_get(js, "fields"), *f, *ids = wr_json_get(js, "identifier-field-ids");
    if (!cJSON_IsArray(fields)) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "a schema without fields");
    int n = cJSON_GetArraySize(fields), i = 0;
    WR_AUTO wr_column *cols = wr_calloc((size_t)n, sizeof *cols);
    if (!cols) return wr_nomem(err, "schema", (size_t)n * sizeof *cols);
    int found = 0;
    cJSON_ArrayForEach(f, fields) {
        int64_t id;
        const char *name = wr_json_str(f, "name");
        if (!name || !wr_json_i64(f, "id", &id) || id <= 0 || id > INT32_MAX)
            return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "a schema field without name or id");
        wr_column *c = &cols[i++];
        WR_TRY(wr_meta_column_type(f, &c->type, err));
        c->name = (char *)(uintptr_t)name; /* borrowed: wr_schema_new copies */
        c->doc = (char *)(uintptr_t)wr_json_str(f, "doc");
        c->id = (int32_t)id;
        c->nullable = !cJSON_IsTrue(wr_json_get(f, "required"));
        c->key_ord = identifier_ord(ids, id);
        found += c->key_ord > 0;
    }
    if (found != cJSON_GetArraySize(ids)) /* an identifier within a nested column: no key that we could follow */
        for (i = 0; i < n; i++) cols[i].key_ord = 0;
    return wr_schema_new(cols, n, 0, ret_schema, err);
}

/* Ours when we wrote that very schema, else what Iceberg's says. */
static wr_code schema_of(const wr_ice_table *t, const char *suffix, int64_t schema_id, wr_schema **ret_schema,
                         wr_err *err) {
    char key[128], id_key[128], want[24];
    snprintf(key, sizeof key, SCHEMA_PROP "%s", suffix);
    snprintf(id_key, sizeof id_key, SCHEMA_ID_PROP "%s", suffix);
    snprintf(want, sizeof want, "%" PRId64, schema_id);
    const char *text = wr_meta_property(t->doc, key), *id = wr_meta_property(t->doc, id_key);
    if (text && id && strcmp(id, want) == 0) return wr_schema_from_json(wr_slice_str(text), ret_schema, err);
    const cJSON *js = t->format_version > 1 || wr_json_get(t->doc, "schemas") ? wr_meta_schema(t->doc, schema_id)
                                                                              : wr_json_get(t->doc, "schema");
    if (!js) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "schema %" PRId64 " is not among the schemas", schema_id);
    return schema_from_iceberg(js, ret_schema, err);
}

wr_code wr_ice_schema(const wr_ice_table *t, wr_schema **ret_schema, wr_err *err) {
    wr_code rc = schema_of(t, "", wr_meta_num(t->doc, "current-schema-id", 0), ret_schema, err);
    return rc == WR_OK ? rc
                       : wr_err_in(err, "table %s.%s", t->ns ? t->ns : "", t->name ? t->name : t->location_of_meta);
}

wr_code wr_ice_ref_schema(const wr_ice_table *t, const char *ref, wr_schema **ret_schema, wr_err *err) {
    if (strcmp(ref, WR_ICE_MAIN) == 0) return wr_ice_schema(t, ret_schema, err);
    int64_t head = wr_meta_ref(t->doc, ref);
    const cJSON *s = head >= 0 ? wr_meta_snapshot(t->doc, head) : NULL;
    if (!s)
        return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "table %s.%s has no branch %s", t->ns ? t->ns : "",
                       t->name ? t->name : "", ref);
    char suffix[64];
    snprintf(suffix, sizeof suffix, ".%.60s", ref);
    return schema_of(t, suffix, wr_meta_num(s, "schema-id", wr_meta_num(t->doc, "current-schema-id", 0)), ret_schema,
                     err);
}

/* ------------------------------------------------------------------ schema: to Iceberg */
static cJSON *type_json(const wr_column *c) {
    if (c->type.kind == WR_FLOATS) {
        WR_AUTO_JSON cJSON *o = cJSON_CreateObject();
        if (!o || !wr_json_set_str(o, "type", "list") ||
            !wr_json_set_num(o, "element-id", WR_ELEMENT_ID_BASE + c->id) || !wr_json_set_str(o, "element", "float") ||
            !wr_json_set(o, "element-required", cJSON_CreateFalse()))
            return NULL;
        cJSON *ret = o;
        o = NULL;
        return ret;
    }
    char text[32];
    if (c->type.kind == WR_DECIMAL)
        snprintf(text, sizeof text, "decimal(%u, %u)", c->type.precision, c->type.scale);
    else
        wr_type_name(c->type, text);
    return cJSON_CreateString(text);
}

static bool may_be_required(const wr_column *c) {
    return c->key_ord > 0 && !c->nullable && c->type.kind != WR_FLOAT && c->type.kind != WR_DOUBLE &&
           c->type.kind != WR_FLOATS;
}

static cJSON *field_of(const cJSON *schema, int32_t id) {
    return schema ? find_by_num(wr_json_get(schema, "fields"), "id", id) : NULL;
}

/* Old files and old schemas may have nulls there: once optional, always optional; and a column that old files lack
 * reads as null. */
static bool was_optional(const cJSON *doc, int32_t id, bool rows_before) {
    const cJSON *s;
    bool known = false;
    cJSON_ArrayForEach(s, wr_json_get(doc, "schemas")) {
        const cJSON *f = field_of(s, id);
        if (!f) continue;
        known = true;
        if (!cJSON_IsTrue(wr_json_get(f, "required"))) return true;
    }
    return !known && rows_before;
}

static bool add_field(cJSON *fields, const wr_column *c, bool required) {
    cJSON *f = cJSON_CreateObject();
    if (!wr_json_push(fields, f)) return false;
    return wr_json_set_num(f, "id", c->id) && wr_json_set_str(f, "name", c->name) &&
           wr_json_set(f, "required", cJSON_CreateBool(required)) && wr_json_set(f, "type", type_json(c)) &&
           (!c->doc || wr_json_set_str(f, "doc", c->doc));
}

static wr_code schema_json(const cJSON *doc, const wr_schema *s, bool rows_before, cJSON **ret, wr_err *err) {
    WR_AUTO_JSON cJSON *js = cJSON_CreateObject();
    bool ok = js && wr_json_set_str(js, "type", "struct") && wr_json_set_num(js, "schema-id", 0);
    cJSON *ids = ok ? wr_json_array(js, "identifier-field-ids") : NULL,
          *fields = ids ? wr_json_array(js, "fields") : NULL;
    ok = fields != NULL;
    int nrequired = 0;
    for (int i = 0; ok && i < s->ncols; i++) {
        const wr_column *c = &s->cols[i];
        if (c->id <= 0 || c->id >= WR_ELEMENT_ID_BASE)
            return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "column %s has the id %d", c->name, c->id);
        bool required = may_be_required(c) && !was_optional(doc, c->id, rows_before);
        nrequired += required;
        ok = add_field(fields, c, required);
    }
    /* All of the key or nothing: identifier fields claim that their values are unique. */
    for (int i = 0; ok && nrequired == s->nkey && i < s->nkey; i++)
        ok = wr_json_push(ids, wr_json_num(s->cols[s->key[i]].id));
    if (!ok) return wr_nomem(err, "schema JSON", (unsigned long long)s->ncols * 200);
    *ret = js;
    js = NULL;
    return WR_OK;
}

static wr_code check_promotion(const cJSON *base, const wr_schema *s, wr_err *err) {
    for (int i = 0; i < s->ncols; i++) {
        const wr_column *c = &s->cols[i];
        const cJSON *f = field_of(base, c->id);
        wr_type old;
        char a[32], b[32];
        if (!f) continue;
        WR_TRY(wr_meta_column_type(f, &old, err));
        if (wr_type_promotes(old, c->type)) continue;
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "column %s cannot go from %s to %s while its files stay", c->name,
                wr_type_name(old, a), wr_type_name(c->type, b));
        return wr_err_cure(err, "the table must be loaded again, or the column needs a new id");
    }
    return WR_OK;
}

/* As sets: neither is long. */
static bool same_ids(const cJSON *a, const cJSON *b) {
    const cJSON *x;
    if (cJSON_GetArraySize(a) != cJSON_GetArraySize(b)) return false;
    cJSON_ArrayForEach(x, a) {
        int64_t id;
        if (!wr_json_i64_of(x, &id) || !identifier_ord(b, id)) return false;
    }
    return true;
}

bool wr_meta_same_schema(const cJSON *a, const cJSON *b) {
    return cJSON_Compare(wr_json_get(a, "fields"), wr_json_get(b, "fields"), 1) &&
           same_ids(wr_json_get(a, "identifier-field-ids"), wr_json_get(b, "identifier-field-ids"));
}

bool wr_meta_same_current_schema(const cJSON *a, const cJSON *b) {
    const cJSON *x = wr_meta_schema(a, wr_meta_num(a, "current-schema-id", -1)), *y = wr_meta_schema(b, wr_meta_num(b, "current-schema-id", -1));
    return x && y && wr_meta_same_schema(x, y);
}

wr_code wr_meta_add_schema(cJSON *doc, const wr_schema *s, wr_schema_step step, int64_t base_id, int64_t *ret_schema_id,
                           wr_err *err) {
    const cJSON *base = base_id >= 0 ? wr_meta_schema(doc, base_id) : NULL;
    if (step == WR_SCHEMA_EVOLVES) WR_TRY(check_promotion(base, s, err));
    bool rows_before = step == WR_SCHEMA_EVOLVES && cJSON_GetArraySize(wr_json_get(doc, "snapshots")) > 0;
    WR_AUTO_JSON cJSON *js = NULL;
    WR_TRY(schema_json(doc, s, rows_before, &js, err));
    cJSON *schemas = wr_json_array(doc, "schemas"), *old;
    if (!schemas) return wr_nomem(err, "schema JSON", 1);
    int64_t max_id = -1;
    cJSON_ArrayForEach(old, schemas) {
        int64_t id;
        if (!wr_json_i64(old, "schema-id", &id)) continue;
        if (id > max_id) max_id = id;
        if (wr_meta_same_schema(old, js)) return *ret_schema_id = id, WR_OK;
    }
    int64_t last_column = wr_meta_num(doc, "last-column-id", 0);
    for (int i = 0; i < s->ncols; i++) {
        int64_t id = s->cols[i].type.kind == WR_FLOATS ? WR_ELEMENT_ID_BASE + s->cols[i].id : s->cols[i].id;
        if (id > last_column) last_column = id;
    }
    cJSON *mine = js;
    js = NULL;
    if (!wr_json_push(schemas, mine) || !wr_json_set_num(mine, "schema-id", max_id + 1) ||
        !wr_json_set_num(doc, "last-column-id", last_column))
        return wr_nomem(err, "schema JSON", 1);
    *ret_schema_id = max_id + 1;
    return WR_OK;
}

static void prop_keys(const char *ref, char key[128], char id_key[128]) {
    bool main = strcmp(ref, WR_ICE_MAIN) == 0;
    snprintf(key, 128, SCHEMA_PROP "%s%.60s", main ? "" : ".", main ? "" : ref);
    snprintf(id_key, 128, SCHEMA_ID_PROP "%s%.60s", main ? "" : ".", main ? "" : ref);
}

wr_code wr_meta_remember_schema(cJSON *doc, const char *ref, const wr_schema *s, int64_t schema_id, wr_err *err) {
    char key[128], id_key[128], id[24];
    prop_keys(ref, key, id_key);
    snprintf(id, sizeof id, "%" PRId64, schema_id);
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    WR_TRY(wr_schema_to_json(s, &text, err));
    const char *c = wr_buf_cstr(&text);
    cJSON *props = wr_json_object(doc, "properties");
    if (!c || !props || !wr_json_set_str(props, key, c) || !wr_json_set_str(props, id_key, id))
        return wr_nomem(err, "schema property", text.n);
    return WR_OK;
}

wr_code wr_meta_publish_schema(cJSON *doc, const char *ref, int64_t schema_id, wr_err *err) {
    char key[128], id_key[128], want[24];
    prop_keys(ref, key, id_key);
    snprintf(want, sizeof want, "%" PRId64, schema_id);
    cJSON *props = wr_json_object(doc, "properties");
    const char *text = wr_meta_property(doc, key), *id = wr_meta_property(doc, id_key);
    bool ok = props != NULL;
    if (ok && text && id && strcmp(id, want) == 0)
        ok = wr_json_set_str(props, SCHEMA_PROP, text) && wr_json_set_str(props, SCHEMA_ID_PROP, id);
    if (ok) ok = wr_json_set_num(doc, "current-schema-id", schema_id);
    if (!ok) return wr_nomem(err, "schema property", 1);
    cJSON_DeleteItemFromObjectCaseSensitive(props, key);
    cJSON_DeleteItemFromObjectCaseSensitive(props, id_key);
    return WR_OK;
}

/* ------------------------------------------------------------------ a new table */
static bool set_fresh_members(cJSON *doc, const char *location, int version) {
    char uuid[WR_UUID_TEXT];
    if (!wr_uuid_new(uuid)) return false;
    cJSON *specs, *spec, *orders, *order, *props;
    bool ok = wr_json_set_num(doc, "format-version", version) && wr_json_set_str(doc, "table-uuid", uuid) &&
              wr_json_set_str(doc, "location", location) && wr_json_set_num(doc, "last-sequence-number", 0) &&
              wr_json_set_num(doc, "last-updated-ms", wr_now_us() / 1000) &&
              wr_json_set_num(doc, "last-column-id", 0) && wr_json_array(doc, "schemas") &&
              wr_json_set_num(doc, "current-schema-id", 0);
    ok = ok && (specs = wr_json_array(doc, "partition-specs")) && wr_json_push(specs, spec = cJSON_CreateObject()) &&
         wr_json_set_num(spec, "spec-id", 0) && wr_json_array(spec, "fields") &&
         wr_json_set_num(doc, "default-spec-id", 0) && wr_json_set_num(doc, "last-partition-id", 999);
    ok = ok && (orders = wr_json_array(doc, "sort-orders")) && wr_json_push(orders, order = cJSON_CreateObject()) &&
         wr_json_set_num(order, "order-id", 0) && wr_json_array(order, "fields") &&
         wr_json_set_num(doc, "default-sort-order-id", 0);
    ok = ok && (version < 3 || wr_json_set_num(doc, "next-row-id", 0));
    ok = ok && (props = wr_json_object(doc, "properties")) && wr_json_object(doc, "refs") &&
         wr_json_array(doc, "snapshots") && wr_json_array(doc, "snapshot-log") && wr_json_array(doc, "metadata-log") &&
         wr_json_array(doc, "statistics") && wr_json_array(doc, "partition-statistics");
    static const char *const defaults[][2] = {{"write.delete.mode", "merge-on-read"},
                                              {"write.update.mode", "merge-on-read"},
                                              {"write.merge.mode", "merge-on-read"},
                                              {"write.parquet.compression-codec", "zstd"},
                                              /* Others put several deletion vectors into one Puffin file, and expiry in
                                                 Iceberg Java deletes one that is still in use. */
                                              {"gc.enabled", "false"},
                                              {"write.metadata.previous-versions-max", "20"},
                                              {"write.metadata.delete-after-commit.enabled", "true"}};
    for (size_t i = 0; ok && i < sizeof defaults / sizeof *defaults; i++)
        ok = wr_json_set_str(props, defaults[i][0], defaults[i][1]);
    return ok;
}

wr_code wr_ice_new(wr_store *store, const char *ns, const char *name, const char *location, int format_version, const wr_schema *schema,
                   wr_ice_table **ret_table, wr_err *err) {
    if (!ns[0] || !name[0]) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "a table needs a namespace and a name");
    if (format_version != 2 && format_version != 3)
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "format version %d; 2 and 3 are written", format_version);
    size_t n = strlen(location);
    while (n > 1 && location[n - 1] == '/') n--;
    WR_AUTO char *loc = wr_strndup(location, n), *place = NULL;
    if (!loc) return wr_nomem(err, "location", n);
    WR_TRY(wr_uri_canonical(loc, &place, err));
    wr_ice_table *t = wr_calloc(1, sizeof *t);
    if (!t) return wr_nomem(err, "table", sizeof *t);
    t->store = store;
    t->format_version = format_version;
    t->doc = cJSON_CreateObject();
    int64_t schema_id = 0;
    wr_code rc =
        t->doc && set_fresh_members(t->doc, loc, format_version) ? WR_OK : wr_nomem(err, "table metadata", 4096);
    if (rc == WR_OK && !keep_identity(t)) rc = wr_nomem(err, "table", 256);
    if (rc == WR_OK) rc = wr_meta_set_name(t, ns, name, err);
    if (rc == WR_OK) rc = wr_meta_add_schema(t->doc, schema, WR_SCHEMA_RESTARTS, -1, &schema_id, err);
    if (rc == WR_OK) rc = wr_meta_remember_schema(t->doc, WR_ICE_MAIN, schema, schema_id, err);
    if (rc != WR_OK) return wr_ice_table_free(t), wr_err_in(err, "table %s.%s", ns, name);
    *ret_table = t;
    return WR_OK;
}

/* ------------------------------------------------------------------ places */
/* Letters, digits, '-', '_' and '.' (not at the start) stay; every other byte becomes ~XX. Not %XX: some readers decode
 * that once more. Cut at 120 bytes, for a folder name has at most 255. */
static void put_safe_name(wr_buf *b, const char *name) {
    size_t start = b->n;
    for (const char *c = name; *c && b->n - start < 120; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '-' ||
                     *c == '_' || (*c == '.' && c != name);
        if (plain)
            wr_buf_put(b, c, 1);
        else
            wr_buf_printf(b, "~%02X", (uint8_t)*c);
    }
}

wr_code wr_ice_new_location(const char *warehouse, const char *ns, const char *name, char **ret_location, wr_err *err) {
    char uuid[WR_UUID_TEXT];
    if (!wr_uuid_new(uuid)) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "getrandom gave no uuid");
    size_t n = strlen(warehouse);
    while (n > 1 && warehouse[n - 1] == '/') n--;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_buf_put(&b, warehouse, n);
    wr_buf_put(&b, "/", 1);
    put_safe_name(&b, ns);
    wr_buf_put(&b, "/", 1);
    put_safe_name(&b, name);
    wr_buf_printf(&b, "-%.8s", uuid);
    const char *s = wr_buf_cstr(&b);
    char *ret = s ? wr_strdup(s) : NULL;
    if (!ret) return wr_nomem(err, "location", b.n);
    *ret_location = ret;
    return WR_OK;
}
