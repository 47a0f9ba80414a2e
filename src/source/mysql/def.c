/* A table as the server defines it: life, JSON form, lake schema. The type policy is docs/types.md, the JSON form
 * docs/formats/mysql-def.md. */
#include "def.h"
#include "fk.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include "weir/base/mem.h"

#define DEF_JSON_VERSION 1
#define COLS_MAX 4096 /* MySQL's own limit is 4096, MariaDB's 4096 */
#define LABELS_MAX 65535

/* ------------------------------------------------------------------ life */
void wr_my_col_clear(wr_my_col *c) {
    if (!c) return;
    wr_free(c->name);
    wr_free(c->column_type);
    wr_free(c->charset);
    wr_free(c->collation);
    wr_free(c->default_text);
    if (c->labels)
        for (int i = 0; i < c->nlabels; i++) wr_free(c->labels[i]);
    wr_free(c->labels);
    *c = (wr_my_col){0};
}

static bool copy_str(char **dst, const char *src) {
    *dst = src ? wr_strdup(src) : NULL;
    return !src || *dst;
}

bool wr_my_col_copy(wr_my_col *dst, const wr_my_col *src) {
    *dst = *src;
    dst->name = dst->column_type = dst->charset = dst->collation = dst->default_text = NULL;
    dst->labels = NULL;
    dst->nlabels = 0;
    bool ok = copy_str(&dst->name, src->name) && copy_str(&dst->column_type, src->column_type) &&
              copy_str(&dst->charset, src->charset) && copy_str(&dst->collation, src->collation) &&
              copy_str(&dst->default_text, src->default_text);
    if (ok && src->nlabels) {
        dst->labels = wr_calloc((size_t)src->nlabels, sizeof *dst->labels);
        ok = dst->labels;
        for (int i = 0; ok && i < src->nlabels; i++) {
            ok = copy_str(&dst->labels[i], src->labels[i]);
            dst->nlabels = i + 1;
        }
    }
    if (!ok) wr_my_col_clear(dst);
    return ok;
}

void wr_my_table_free(wr_my_table *t) {
    if (!t) return;
    for (int i = 0; i < t->ncols; i++) wr_my_col_clear(&t->cols[i]);
    wr_free(t->cols);
    wr_my_fks_clear(t);
    wr_free(t->db);
    wr_free(t->name);
    wr_free(t->charset);
    wr_free(t->collation);
    wr_free(t->engine);
    wr_free(t->db_collation);
    wr_free(t->doubt_file);
    wr_schema_unref(t->schema);
    wr_free(t->lake_col);
    wr_free(t);
}

bool wr_my_table_ahead(const wr_my_table *t, uint32_t epoch, const char *file, uint64_t offset) {
    if (!t->captured || !(t->doubt & WR_MY_DOUBT_RESHAPED) || !t->doubt_file || !file) return false;
    wr_pos here = {.offset = offset, .epoch = epoch}, there = {.offset = t->doubt_offset, .epoch = t->doubt_epoch};
    snprintf(here.file, sizeof here.file, "%s", file);
    snprintf(there.file, sizeof there.file, "%s", t->doubt_file);
    return wr_pos_cmp(&here, &there) < 0;
}

wr_my_table *wr_my_table_clone(const wr_my_table *t) {
    wr_my_table *c = wr_malloc(sizeof *c);
    if (!c) return NULL;
    *c = *t;
    c->db = c->name = c->charset = c->collation = c->engine = c->db_collation = c->doubt_file = NULL;
    c->cols = NULL;
    c->ncols = 0;
    c->fks = NULL;
    c->nfks = 0;
    c->schema = t->schema ? wr_schema_ref(t->schema) : NULL;
    c->lake_col = NULL;
    bool ok = copy_str(&c->db, t->db) && copy_str(&c->name, t->name) && copy_str(&c->charset, t->charset) &&
              copy_str(&c->collation, t->collation) && copy_str(&c->engine, t->engine) &&
              copy_str(&c->db_collation, t->db_collation) && copy_str(&c->doubt_file, t->doubt_file);
    if (ok && t->ncols) {
        c->cols = wr_calloc((size_t)t->ncols, sizeof *c->cols);
        ok = c->cols;
        for (int i = 0; ok && i < t->ncols; i++)
            if ((ok = wr_my_col_copy(&c->cols[i], &t->cols[i]))) c->ncols = i + 1;
    }
    ok = ok && wr_my_fks_copy(c, t);
    if (ok && t->lake_col) {
        c->lake_col = wr_malloc((size_t)t->ncols * sizeof *c->lake_col + 1);
        ok = c->lake_col;
        if (ok && t->ncols) memcpy(c->lake_col, t->lake_col, (size_t)t->ncols * sizeof *c->lake_col);
    }
    if (!ok) {
        wr_my_table_free(c);
        return NULL;
    }
    return c;
}

/* Column names compare by the server's utf8 general rules: without case, code point by code point. */
bool wr_my_name_eq(const char *a, const char *b) {
    size_t na = strlen(a), nb = strlen(b), ia = 0, ib = 0;
    while (ia < na && ib < nb) {
        UChar32 ca, cb;
        U8_NEXT((const uint8_t *)a, ia, na, ca);
        U8_NEXT((const uint8_t *)b, ib, nb, cb);
        if (ca == cb) continue;
        if (ca < 0 || cb < 0 || u_tolower(ca) != u_tolower(cb)) return false;
    }
    return ia == na && ib == nb;
}

wr_my_col *wr_my_table_find_col(const wr_my_table *t, const char *name) {
    for (int i = 0; i < t->ncols; i++)
        if (wr_my_name_eq(t->cols[i].name, name)) return &t->cols[i];
    return NULL;
}

/* ------------------------------------------------------------------ type policy */
wr_type wr_my_lake_type(const wr_my_col *c, wr_my_types types) {
    switch (c->kind) {
    case MY_TINYINT:
    case MY_SMALLINT:
    case MY_MEDIUMINT:
    case MY_YEAR: return (wr_type){.kind = WR_INT};
    case MY_INT: return (wr_type){.kind = c->is_unsigned ? WR_LONG : WR_INT};
    case MY_BIGINT: return c->is_unsigned ? (wr_type){.kind = WR_DECIMAL, .precision = 20} : (wr_type){.kind = WR_LONG};
    case MY_BIT:
        if (c->length == 1) return (wr_type){.kind = WR_BOOL};
        return c->length < 64 ? (wr_type){.kind = WR_LONG} : (wr_type){.kind = WR_DECIMAL, .precision = 20};
    case MY_DECIMAL:
        if (c->length > 38) return (wr_type){.kind = WR_STRING};
        return (wr_type){.kind = WR_DECIMAL, .precision = (uint8_t)c->length, .scale = c->scale};
    case MY_FLOAT: return (wr_type){.kind = WR_FLOAT};
    case MY_DOUBLE: return (wr_type){.kind = WR_DOUBLE};
    case MY_DATE: return (wr_type){.kind = types.zero_date == WR_ZERO_STRING ? WR_STRING : WR_DATE};
    case MY_DATETIME: return (wr_type){.kind = types.zero_date == WR_ZERO_STRING ? WR_STRING : WR_TIMESTAMP};
    case MY_TIMESTAMP: return (wr_type){.kind = types.zero_date == WR_ZERO_STRING ? WR_STRING : WR_TIMESTAMPTZ};
    case MY_TIME: return (wr_type){.kind = types.time_as == WR_TIME_STRING ? WR_STRING : WR_LONG};
    case MY_BINARY:
    case MY_VARBINARY:
    case MY_BLOB:
    case MY_GEOMETRY: return (wr_type){.kind = WR_BINARY};
    case MY_VECTOR: return (wr_type){.kind = WR_FLOATS};
    case MY_CHAR:
    case MY_VARCHAR:
    case MY_TEXT:
    case MY_ENUM:
    case MY_SET:
    case MY_JSON:
    case MY_UUID:
    case MY_INET4:
    case MY_INET6: break;
    }
    return (wr_type){.kind = WR_STRING};
}

static bool nullable_in_lake(const wr_my_col *c, wr_my_types types) {
    if (!c->not_null) return true;
    bool dated = c->kind == MY_DATE || c->kind == MY_DATETIME || c->kind == MY_TIMESTAMP;
    return dated && types.zero_date == WR_ZERO_NULL; /* zero and partial dates become null even in NOT NULL columns */
}

bool wr_my_table_by_transaction(const wr_my_table *t) {
    for (int i = 0; t->versioned && i < t->ncols; i++)
        if (t->cols[i].hidden && t->cols[i].kind == MY_BIGINT) return true;
    return false;
}

/* The key without hidden columns: system-versioned tables have the period's end in theirs, which tells current rows apart from nothing. */
static int lake_key(const wr_my_table *t, const int *lake_col, wr_column *cols) {
    int n = 0;
    for (int want = 1; want <= t->ncols; want++)
        for (int i = 0; i < t->ncols; i++)
            if (t->cols[i].key_ord == want && lake_col[i] >= 0) cols[lake_col[i]].key_ord = ++n;
    return n;
}

wr_code wr_my_table_finish(wr_my_table *t, wr_my_types types, const bool *add_initial, wr_err *err) {
    size_t n = (size_t)t->ncols;
    WR_AUTO wr_column *cols = wr_calloc(n ? n : 1, sizeof *cols);
    WR_AUTO int *lake_col = wr_malloc((n ? n : 1) * sizeof *lake_col);
    WR_AUTO_BUF wr_buf bytes = WR_BUF_INIT;
    WR_AUTO size_t *at = wr_calloc(n ? n : 1, sizeof *at); /* where in `bytes` an initial value lies: the buffer may move */
    if (!cols || !lake_col || !at) return wr_nomem(err, "table definition", n * sizeof *cols);
    int nlake = 0;
    for (int i = 0; i < t->ncols; i++) {
        const wr_my_col *c = &t->cols[i];
        lake_col[i] = c->hidden ? -1 : nlake;
        if (c->hidden) continue;
        wr_column *l = &cols[nlake];
        *l = (wr_column){.name = c->name, .id = c->id, .type = wr_my_lake_type(c, types),
                         .nullable = nullable_in_lake(c, types), .doc = c->column_type};
        if (add_initial && add_initial[i]) {
            WR_AUTO_BUF wr_buf one = WR_BUF_INIT;
            if (wr_my_col_initial(c, types, &l->initial, &one) == WR_MY_INITIAL_VALUE && !l->initial.null) {
                l->has_initial = true;
                if (l->type.kind == WR_STRING || l->type.kind == WR_BINARY || l->type.kind == WR_FLOATS) {
                    at[nlake] = bytes.n;
                    wr_buf_put(&bytes, l->initial.s.p, l->initial.s.n);
                }
            }
            WR_TRY(wr_buf_check(&one, "column default", err));
        }
        nlake++;
    }
    WR_TRY(wr_buf_check(&bytes, "column defaults", err));
    for (int i = 0; i < nlake; i++) {
        wr_column *l = &cols[i];
        if (l->has_initial && (l->type.kind == WR_STRING || l->type.kind == WR_BINARY || l->type.kind == WR_FLOATS))
            l->initial.s.p = bytes.p ? bytes.p + at[i] : (const uint8_t *)"";
    }
    lake_key(t, lake_col, cols);
    t->fk_cascade_child = wr_my_fks_change_rows(t);
    wr_schema *schema;
    wr_code rc = wr_schema_new(cols, nlake, t->version, &schema, err);
    if (rc != WR_OK) return wr_err_in(err, "table %s.%s", t->db ? t->db : "?", t->name ? t->name : "?");
    wr_schema_unref(t->schema);
    wr_free(t->lake_col);
    t->schema = schema;
    t->lake_col = WR_STEAL(lake_col);
    return WR_OK;
}

/* ------------------------------------------------------------------ JSON: writing */
static const char *const kind_names[] = {
    [MY_TINYINT] = "tinyint", [MY_SMALLINT] = "smallint", [MY_MEDIUMINT] = "mediumint", [MY_INT] = "int",
    [MY_BIGINT] = "bigint", [MY_YEAR] = "year", [MY_BIT] = "bit", [MY_DECIMAL] = "decimal", [MY_FLOAT] = "float",
    [MY_DOUBLE] = "double", [MY_CHAR] = "char", [MY_VARCHAR] = "varchar", [MY_TEXT] = "text", [MY_ENUM] = "enum",
    [MY_SET] = "set", [MY_BINARY] = "binary", [MY_VARBINARY] = "varbinary", [MY_BLOB] = "blob", [MY_JSON] = "json",
    [MY_DATE] = "date", [MY_DATETIME] = "datetime", [MY_TIMESTAMP] = "timestamp", [MY_TIME] = "time",
    [MY_GEOMETRY] = "geometry", [MY_UUID] = "uuid", [MY_INET4] = "inet4", [MY_INET6] = "inet6", [MY_VECTOR] = "vector",
};
#define KINDS ((int)(sizeof kind_names / sizeof *kind_names))

static void put_json_str(wr_buf *b, const char *s) {
    wr_buf_u8(b, '"');
    for (const uint8_t *p = (const uint8_t *)s; *p; p++) {
        if (*p == '"' || *p == '\\') wr_buf_u8(b, '\\'), wr_buf_u8(b, *p);
        else if (*p < 0x20) wr_buf_printf(b, "\\u%04x", *p);
        else wr_buf_u8(b, *p);
    }
    wr_buf_u8(b, '"');
}
static void put_text(wr_buf *b, const char *name, const char *s) {
    if (!s) return;
    wr_buf_printf(b, ",\"%s\":", name);
    put_json_str(b, s);
}
static void put_flag(wr_buf *b, const char *name, bool v) {
    if (v) wr_buf_printf(b, ",\"%s\":true", name);
}
static void put_num(wr_buf *b, const char *name, int64_t v) {
    if (v) wr_buf_printf(b, ",\"%s\":%lld", name, (long long)v);
}

static void put_col(wr_buf *b, const wr_my_col *c) {
    wr_buf_printf(b, "{\"name\":");
    put_json_str(b, c->name);
    put_num(b, "id", c->id);
    put_text(b, "kind", kind_names[c->kind]);
    put_text(b, "type", c->column_type);
    put_flag(b, "unsigned", c->is_unsigned);
    put_num(b, "length", c->length);
    put_num(b, "scale", c->scale);
    put_text(b, "charset", c->charset);
    put_text(b, "collation", c->collation);
    if (c->kind == MY_ENUM || c->kind == MY_SET) {
        wr_buf_printf(b, ",\"labels\":[");
        for (int i = 0; i < c->nlabels; i++) {
            if (i) wr_buf_u8(b, ',');
            put_json_str(b, c->labels[i]);
        }
        wr_buf_u8(b, ']');
    }
    put_flag(b, "not_null", c->not_null);
    put_flag(b, "auto_increment", c->auto_increment);
    put_flag(b, "generated", c->generated);
    put_flag(b, "stored", c->stored);
    put_flag(b, "invisible", c->invisible);
    put_flag(b, "compressed", c->compressed);
    put_flag(b, "hidden", c->hidden);
    if (c->has_default && !c->default_text) wr_buf_printf(b, ",\"default\":null");
    if (c->has_default) put_text(b, "default", c->default_text);
    put_flag(b, "default_expr", c->default_expr);
    put_num(b, "key", c->key_ord);
    wr_buf_u8(b, '}');
}

static const char *const rule_names[] = {[MY_RULE_NONE] = "none", [MY_RULE_CASCADE] = "cascade", [MY_RULE_SET] = "set"};
#define RULES ((int)(sizeof rule_names / sizeof *rule_names))

static void put_fk(wr_buf *b, const wr_my_fk *f, bool first) {
    wr_buf_printf(b, first ? "{\"db\":" : ",{\"db\":");
    put_json_str(b, f->db);
    put_text(b, "parent", f->parent);
    put_text(b, "name", f->name);
    put_text(b, "on_delete", rule_names[f->on_delete]);
    put_text(b, "on_update", rule_names[f->on_update]);
    wr_buf_printf(b, ",\"columns\":[");
    for (int i = 0; i < f->ncols; i++) {
        if (i) wr_buf_u8(b, ',');
        put_json_str(b, f->cols[i]);
    }
    wr_buf_printf(b, "]}");
}

wr_code wr_my_table_to_json(const wr_my_table *t, wr_buf *b, wr_err *err) {
    wr_buf_printf(b, "{\"format\":%d,\"id\":%u", DEF_JSON_VERSION, t->id);
    wr_buf_printf(b, ",\"version\":%u,\"next_col_id\":%d", t->version, t->next_col_id);
    put_text(b, "db", t->db ? t->db : "");
    put_text(b, "name", t->name ? t->name : "");
    put_text(b, "charset", t->charset);
    put_text(b, "collation", t->collation);
    put_text(b, "engine", t->engine);
    put_flag(b, "captured", t->captured);
    put_flag(b, "versioned", t->versioned);
    put_num(b, "like_of", t->like_of);
    put_num(b, "like_next", t->like_next);
    put_num(b, "away_of", t->away_of);
    put_num(b, "doubt", t->doubt);
    if (t->doubt & WR_MY_DOUBT_RESHAPED) {
        put_text(b, "doubt_file", t->doubt_file);
        if (t->doubt_file) wr_buf_printf(b, ",\"doubt_offset\":\"%" PRIu64 "\"", t->doubt_offset);
        if (t->doubt_file) put_num(b, "doubt_epoch", t->doubt_epoch);
    }
    if (t->nfks) wr_buf_printf(b, ",\"foreign_keys\":[");
    for (int i = 0; i < t->nfks; i++) put_fk(b, &t->fks[i], i == 0);
    if (t->nfks) wr_buf_u8(b, ']');
    wr_buf_printf(b, ",\"columns\":[");
    for (int i = 0; i < t->ncols; i++) {
        if (i) wr_buf_u8(b, ',');
        put_col(b, &t->cols[i]);
    }
    wr_buf_printf(b, "]}");
    return wr_buf_check(b, "table definition", err);
}

wr_code wr_my_table_ddl(const wr_my_table *t, wr_ddl_kind kind, wr_ddl_rows rows, const char *why, wr_ddl *ret_ddl, wr_err *err) {
    WR_AUTO_BUF wr_buf json = WR_BUF_INIT;
    WR_TRY(wr_my_table_to_json(t, &json, err));
    wr_ddl d = {.kind = (uint8_t)kind, .rows = (uint8_t)rows, .table = t->id};
    const char *text = wr_buf_cstr(&json);
    bool ok = text && copy_str(&d.db, t->db) && copy_str(&d.name, t->name) && copy_str(&d.why, why);
    if (ok && kind != WR_DDL_DROP) ok = copy_str(&d.def, text);
    if (!ok) {
        wr_ddl_clear(&d);
        return wr_nomem(err, "schema event", json.n);
    }
    if (kind != WR_DDL_DROP && kind != WR_DDL_HIDDEN && t->schema) d.schema = wr_schema_ref(t->schema);
    *ret_ddl = d;
    return WR_OK;
}

/* ------------------------------------------------------------------ JSON: reading */
static void json_free_p(cJSON **j) { cJSON_Delete(*j); }

/* One object being read: the first fault sticks. */
typedef struct reader {
    const cJSON *o;
    const char *bad;
    bool nomem;
} reader;

static const cJSON *field(const reader *r, const char *name) { return cJSON_GetObjectItemCaseSensitive(r->o, name); }

static bool rd_flag(reader *r, const char *name) {
    const cJSON *j = field(r, name);
    if (j && !cJSON_IsBool(j)) r->bad = name;
    return cJSON_IsTrue(j);
}
static int64_t rd_num(reader *r, const char *name, int64_t min, int64_t max) {
    const cJSON *j = field(r, name);
    if (!j) {
        if (min > 0) r->bad = name;
        return 0;
    }
    double v = cJSON_IsNumber(j) ? j->valuedouble : -1;
    if (!(v >= (double)min && v <= (double)max) || v != (double)(int64_t)v) return r->bad = name, 0;
    return (int64_t)v;
}
static char *rd_text(reader *r, const char *name, bool needed) {
    const cJSON *j = field(r, name);
    if (!j) {
        if (needed) r->bad = name;
        return NULL;
    }
    if (!cJSON_IsString(j)) return r->bad = name, NULL;
    char *s = wr_strdup(j->valuestring);
    if (!s) r->nomem = true;
    return s;
}

static void rd_labels(reader *r, wr_my_col *c) {
    const cJSON *list = field(r, "labels");
    if (!list) return;
    int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : -1;
    if (n < 0 || n > LABELS_MAX) {
        r->bad = "labels";
        return;
    }
    c->labels = wr_calloc((size_t)n + 1, sizeof *c->labels);
    if (!c->labels) {
        r->nomem = true;
        return;
    }
    const cJSON *l;
    cJSON_ArrayForEach(l, list) {
        if (!cJSON_IsString(l)) r->bad = "labels";
        else if (!(c->labels[c->nlabels] = wr_strdup(l->valuestring))) r->nomem = true;
        else c->nlabels++;
    }
}

static wr_my_kind rd_kind(reader *r) {
    const cJSON *j = field(r, "kind");
    for (int k = 1; cJSON_IsString(j) && k < KINDS; k++)
        if (strcmp(kind_names[k], j->valuestring) == 0) return (wr_my_kind)k;
    r->bad = "kind";
    return MY_INT;
}

/* Limits that the type policy and the decoders rely on. */
static bool fits_kind(const wr_my_col *c) {
    switch (c->kind) {
    case MY_BIT: return c->length >= 1 && c->length <= 64;
    case MY_DECIMAL: return c->length >= 1 && c->length <= 65 && c->scale <= 38 && c->scale <= c->length;
    case MY_TIME:
    case MY_DATETIME:
    case MY_TIMESTAMP: return c->scale <= 6;
    case MY_TEXT:
    case MY_BLOB: return c->length >= 1 && c->length <= 4;
    case MY_SET: return c->nlabels >= 1 && c->nlabels <= 64;
    case MY_ENUM: return c->nlabels >= 1;
    default: return true;
    }
}

static void rd_col(reader *r, wr_my_col *c) {
    c->name = rd_text(r, "name", true);
    c->id = (int32_t)rd_num(r, "id", 0, INT32_MAX);
    c->kind = rd_kind(r);
    c->column_type = rd_text(r, "type", true);
    c->is_unsigned = rd_flag(r, "unsigned");
    c->length = (uint32_t)rd_num(r, "length", 0, UINT32_MAX);
    c->scale = (uint8_t)rd_num(r, "scale", 0, UINT8_MAX);
    c->charset = rd_text(r, "charset", false);
    c->collation = rd_text(r, "collation", false);
    rd_labels(r, c);
    c->not_null = rd_flag(r, "not_null");
    c->auto_increment = rd_flag(r, "auto_increment");
    c->generated = rd_flag(r, "generated");
    c->stored = rd_flag(r, "stored");
    c->invisible = rd_flag(r, "invisible");
    c->compressed = rd_flag(r, "compressed");
    c->hidden = rd_flag(r, "hidden");
    c->has_default = field(r, "default") != NULL;
    if (c->has_default && !cJSON_IsNull(field(r, "default"))) c->default_text = rd_text(r, "default", true);
    c->default_expr = rd_flag(r, "default_expr");
    c->key_ord = (int)rd_num(r, "key", 0, COLS_MAX);
    if (!r->bad && !fits_kind(c)) r->bad = "length";
}

static uint8_t rd_rule(reader *r, const char *name) {
    const cJSON *j = field(r, name);
    for (int k = 0; cJSON_IsString(j) && k < RULES; k++)
        if (strcmp(rule_names[k], j->valuestring) == 0) return (uint8_t)k;
    r->bad = name;
    return MY_RULE_NONE;
}

static void rd_fks(reader *r, wr_my_table *t) {
    const cJSON *list = field(r, "foreign_keys"), *j, *c;
    if (list && !cJSON_IsArray(list)) r->bad = "foreign_keys";
    cJSON_ArrayForEach(j, list) {
        reader fr = {.o = j};
        wr_my_fk *f = wr_my_fk_new(t);
        if (!f) {
            r->nomem = true;
            return;
        }
        f->name = rd_text(&fr, "name", false);
        f->db = rd_text(&fr, "db", true);
        f->parent = rd_text(&fr, "parent", true);
        f->on_delete = rd_rule(&fr, "on_delete");
        f->on_update = rd_rule(&fr, "on_update");
        cJSON_ArrayForEach(c, field(&fr, "columns")) {
            if (!cJSON_IsString(c)) fr.bad = "columns";
            else if (!wr_my_fk_add_col(f, c->valuestring)) fr.nomem = true;
        }
        if (fr.bad) r->bad = "foreign_keys";
        if (fr.nomem) r->nomem = true;
        if (r->bad || r->nomem) return;
    }
}

static wr_code wrong(wr_err *err, int col, const reader *r) {
    if (r->nomem) return wr_nomem(err, "table definition", 0);
    if (col >= 0) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "table definition JSON: column %d: field %s is wrong", col, r->bad);
    return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "table definition JSON: field %s is wrong", r->bad);
}

static void table_free_p(wr_my_table **t) { wr_my_table_free(*t); }

wr_code wr_my_table_from_json(wr_slice json, wr_my_types types, wr_my_table **ret_table, wr_err *err) {
    WR_CLEANUP(json_free_p) cJSON *root = json.n ? cJSON_ParseWithLength((const char *)json.p, json.n) : NULL;
    if (!cJSON_IsObject(root)) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "table definition JSON: %zu bytes that are no JSON object", json.n);
    WR_CLEANUP(table_free_p) wr_my_table *t = wr_calloc(1, sizeof *t);
    if (!t) return wr_nomem(err, "table definition", sizeof *t);
    reader r = {.o = root};
    if (rd_num(&r, "format", 1, INT32_MAX) != DEF_JSON_VERSION) {
        if (r.bad) return wrong(err, -1, &r);
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "table definition JSON: written by a newer version of weir");
    }
    t->id = (uint32_t)rd_num(&r, "id", 0, UINT32_MAX);
    t->version = (uint32_t)rd_num(&r, "version", 0, UINT32_MAX);
    t->next_col_id = (int32_t)rd_num(&r, "next_col_id", 0, INT32_MAX);
    t->db = rd_text(&r, "db", true);
    t->name = rd_text(&r, "name", true);
    t->charset = rd_text(&r, "charset", false);
    t->collation = rd_text(&r, "collation", false);
    t->engine = rd_text(&r, "engine", false);
    t->captured = rd_flag(&r, "captured");
    t->versioned = rd_flag(&r, "versioned");
    t->like_of = (uint32_t)rd_num(&r, "like_of", 0, UINT32_MAX);
    t->like_next = (int32_t)rd_num(&r, "like_next", 0, INT32_MAX);
    t->away_of = (uint32_t)rd_num(&r, "away_of", 0, UINT32_MAX);
    t->doubt = (uint8_t)rd_num(&r, "doubt", 0, 3);
    t->doubt_file = rd_text(&r, "doubt_file", false);
    WR_AUTO char *offset = rd_text(&r, "doubt_offset", false);
    t->doubt_offset = offset ? strtoull(offset, NULL, 10) : 0;
    t->doubt_epoch = (uint32_t)rd_num(&r, "doubt_epoch", 0, UINT32_MAX);
    rd_fks(&r, t);
    const cJSON *list = field(&r, "columns");
    int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : -1;
    if (n < 0 || n > COLS_MAX) r.bad = "columns";
    if (r.bad || r.nomem) return wrong(err, -1, &r);
    t->cols = wr_calloc((size_t)n + 1, sizeof *t->cols);
    if (!t->cols) return wr_nomem(err, "table definition", (size_t)n * sizeof *t->cols);
    const cJSON *j;
    cJSON_ArrayForEach(j, list) {
        reader cr = {.o = j};
        if (!cJSON_IsObject(j)) cr.bad = "columns";
        wr_my_col *c = &t->cols[t->ncols++];
        c->kind = MY_INT;
        if (!cr.bad) rd_col(&cr, c);
        if (cr.bad || cr.nomem) return wrong(err, t->ncols - 1, &cr);
    }
    if (t->ncols) WR_TRY(wr_my_table_finish(t, types, NULL, err));
    *ret_table = WR_STEAL(t);
    return WR_OK;
}
