#include "iceberg/json.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ parsing */
/* The next number outside strings, or an empty slice. */
static wr_slice next_number(wr_rd *rd) {
    while (rd->p < rd->end) {
        uint8_t c = *rd->p;
        if (c == '"') {
            for (rd->p++; rd->p < rd->end && *rd->p != '"'; rd->p++)
                if (*rd->p == '\\') rd->p++;
            rd->p++;
        } else if (c == '-' || isdigit(c)) {
            const uint8_t *start = rd->p;
            while (rd->p < rd->end && (isdigit(*rd->p) || strchr("+-.eE", *rd->p))) rd->p++;
            return wr_slice_of(start, (size_t)(rd->p - start));
        } else {
            rd->p++;
        }
    }
    return (wr_slice){0};
}

static size_t digits(const char *s) {
    size_t n = 0;
    while (isdigit((unsigned char)s[n])) n++;
    return n;
}

/* RFC 8259 number grammar: what we write back must be readable by stricter parsers than cJSON's. */
static bool is_number(const char *s) {
    if (*s == '-') s++;
    size_t n = digits(s);
    if (n == 0 || (n > 1 && *s == '0')) return false;
    s += n;
    if (*s == '.') {
        if ((n = digits(++s)) == 0) return false;
        s += n;
    }
    if (*s == 'e' || *s == 'E') {
        s++;
        if (*s == '+' || *s == '-') s++;
        if ((n = digits(s)) == 0) return false;
        s += n;
    }
    return *s == 0;
}

/* cJSON keeps the order of the text, so the k-th number item of the tree is the k-th number of the text. Depth is
 * bounded by cJSON (CJSON_NESTING_LIMIT, 1000). */
static bool keep_spelling(cJSON *item, wr_rd *rd, size_t *ret_at, const uint8_t *text) {
    for (; item; item = item->next) {
        if (item->child && !keep_spelling(item->child, rd, ret_at, text)) return false;
        if (!cJSON_IsNumber(item)) continue;
        wr_slice s = next_number(rd);
        *ret_at = s.p ? (size_t)(s.p - text) : 0;
        char *spelling = s.p && s.n ? cJSON_malloc(s.n + 1) : NULL;
        if (!spelling) return false;
        memcpy(spelling, s.p, s.n);
        spelling[s.n] = 0;
        if (!is_number(spelling)) return cJSON_free(spelling), false;
        item->valuestring = spelling;
        item->type = (item->type & ~0xFF) | cJSON_Raw;
    }
    return true;
}

wr_code wr_json_parse(wr_slice text, const char *name, cJSON **ret_doc, wr_err *err) {
    const char *end = NULL;
    if (text.n >= 3 && memcmp(text.p, "\xEF\xBB\xBF", 3) == 0) text.p += 3, text.n -= 3;
    WR_AUTO_JSON cJSON *doc = text.n ? cJSON_ParseWithLengthOpts((const char *)text.p, text.n, &end, 0) : NULL;
    if (!doc)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: not JSON (or memory is out) at byte %zu", name,
                       end ? (size_t)((const uint8_t *)end - text.p) : 0);
    for (const uint8_t *p = (const uint8_t *)end; p < text.p + text.n; p++)
        if (!isspace(*p) && *p != 0)
            return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: bytes behind the JSON at byte %zu", name,
                           (size_t)(p - text.p));
    wr_rd rd = wr_rd_of(text.p, text.n);
    size_t at = 0;
    if (!keep_spelling(doc, &rd, &at, text.p))
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: a damaged number at byte %zu", name, at);
    *ret_doc = doc;
    doc = NULL;
    return WR_OK;
}

wr_code wr_json_print(const cJSON *doc, wr_buf *out, wr_err *err) {
    char *text = cJSON_PrintBuffered(doc, 16384, 0);
    if (!text) return wr_nomem(err, "JSON text", 16384);
    wr_buf_put(out, text, strlen(text));
    cJSON_free(text);
    return wr_buf_check(out, "JSON text", err);
}

/* ------------------------------------------------------------------ reading */
cJSON *wr_json_get(const cJSON *obj, const char *key) {
    cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);
    return v && !cJSON_IsNull(v) ? v : NULL;
}

const char *wr_json_str(const cJSON *obj, const char *key) {
    cJSON *v = wr_json_get(obj, key);
    return v && cJSON_IsString(v) ? v->valuestring : NULL;
}

bool wr_json_i64_of(const cJSON *item, int64_t *ret) {
    if (!item || !cJSON_IsRaw(item) || !item->valuestring) return false;
    char *end;
    errno = 0;
    long long v = strtoll(item->valuestring, &end, 10);
    if (errno || *end || end == item->valuestring) return false;
    *ret = v;
    return true;
}

bool wr_json_i64(const cJSON *obj, const char *key, int64_t *ret) { return wr_json_i64_of(wr_json_get(obj, key), ret); }

/* ------------------------------------------------------------------ building */
cJSON *wr_json_num(int64_t v) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, v);
    return cJSON_CreateRaw(text);
}

bool wr_json_set(cJSON *obj, const char *key, cJSON *item) {
    if (!item) return false;
    bool there = cJSON_GetObjectItemCaseSensitive(obj, key) != NULL;
    if (there ? cJSON_ReplaceItemInObjectCaseSensitive(obj, key, item) : cJSON_AddItemToObject(obj, key, item))
        return item->string != NULL; /* a replaced member loses its name when memory is out */
    cJSON_Delete(item);
    return false;
}

bool wr_json_set_num(cJSON *obj, const char *key, int64_t v) { return wr_json_set(obj, key, wr_json_num(v)); }
bool wr_json_set_str(cJSON *obj, const char *key, const char *v) {
    return wr_json_set(obj, key, cJSON_CreateString(v));
}

bool wr_json_push(cJSON *array, cJSON *item) {
    if (!item) return false;
    if (array && cJSON_AddItemToArray(array, item)) return true;
    cJSON_Delete(item);
    return false;
}

static cJSON *member(cJSON *obj, const char *key, bool array) {
    cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);
    if (v && !cJSON_IsNull(v)) return (array ? cJSON_IsArray(v) : cJSON_IsObject(v)) ? v : NULL;
    v = array ? cJSON_CreateArray() : cJSON_CreateObject();
    return wr_json_set(obj, key, v) ? v : NULL;
}

cJSON *wr_json_object(cJSON *obj, const char *key) { return member(obj, key, false); }
cJSON *wr_json_array(cJSON *obj, const char *key) { return member(obj, key, true); }
