/* What a report of weir compare asks to be repaired. */
#include <cjson/cJSON.h>
#include <string.h>
#include "impl.h"
#include "weir/base/mem.h"

#define REPORT_MAX (UINT64_C(1) << 30)

static const char *text_of(const cJSON *o, const char *key) {
    const char *t = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    return t ? t : "";
}

static double number_of(const cJSON *o, const char *key) {
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

/* Rows are put right one by one where they can be found by a key and nothing else is wrong with the table. */
static bool by_rows(const cJSON *t) {
    const cJSON *f, *d;
    cJSON_ArrayForEach(f, cJSON_GetObjectItemCaseSensitive(t, "findings"))
        if (strcmp(text_of(f, "what"), "nullability")) return false;
    cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(t, "differences"))
        if (!cJSON_GetObjectItemCaseSensitive(d, "key")) return false;
    return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(t, "differences")) > 0;
}

/* Key columns in the order of the key. */
static wr_code take_keys(const cJSON *t, wr_repair_table *out, wr_err *err) {
    const char *names[64];
    const cJSON *c, *d, *list = cJSON_GetObjectItemCaseSensitive(t, "differences");
    memset(names, 0, sizeof names);
    cJSON_ArrayForEach(c, cJSON_GetObjectItemCaseSensitive(t, "columns")) {
        int ord = (int)number_of(c, "key");
        if (ord > 0 && ord <= 64) names[ord - 1] = text_of(c, "name"), out->ncolumns = ord > out->ncolumns ? ord : out->ncolumns;
    }
    const char **keys = wr_calloc((size_t)cJSON_GetArraySize(list) * (size_t)out->ncolumns + 1, sizeof *keys);
    if (!keys) return wr_nomem(err, "keys", (size_t)cJSON_GetArraySize(list) * 64);
    out->keys = keys;
    cJSON_ArrayForEach(d, list) {
        const cJSON *key = cJSON_GetObjectItemCaseSensitive(d, "key");
        for (int i = 0; i < out->ncolumns; i++) {
            const char *v = names[i] ? cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(key, names[i])) : NULL;
            if (!v) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "%s.%s: a difference without a value of key column %d", out->ns, out->name, i + 1);
            keys[out->nkeys * out->ncolumns + i] = v;
        }
        out->nkeys++;
    }
    return WR_OK;
}

static wr_code read_report(wr_repair_plan *p, const char *path, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    WR_TRY(wr_file_get(path, REPORT_MAX, &b, err));
    p->doc = wr_buf_cstr(&b) ? cJSON_Parse((char *)b.p) : NULL;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(p->doc, "tables"), *t;
    if (!cJSON_IsArray(list)) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "%s is no report of weir compare", path);
    if (!(p->tables = wr_calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *p->tables))) return wr_nomem(err, "tables", 4096);
    cJSON_ArrayForEach(t, list) {
        if (strcmp(text_of(t, "verdict"), "DIFFERENT")) continue;
        wr_repair_table *out = &p->tables[p->n++];
        *out = (wr_repair_table){.ns = text_of(t, "namespace"), .name = text_of(t, "name"), .reload = !by_rows(t), .left_out = (uint64_t)number_of(t, "differences_left_out")};
        if (!out->reload) WR_TRY(take_keys(t, out, err));
    }
    return WR_OK;
}

wr_code wr_repair_plan_read(const char *path, wr_repair_plan **ret, wr_err *err) {
    wr_repair_plan *p = wr_calloc(1, sizeof *p);
    if (!p) return wr_nomem(err, "plan of a repair", sizeof *p);
    wr_code rc = read_report(p, path, err);
    if (rc != WR_OK) return wr_repair_plan_free(p), rc;
    *ret = p;
    return WR_OK;
}

void wr_repair_plan_free(wr_repair_plan *p) {
    if (!p) return;
    for (int i = 0; i < p->n; i++) wr_free((void *)p->tables[i].keys);
    wr_free(p->tables);
    cJSON_Delete(p->doc);
    wr_free(p);
}
