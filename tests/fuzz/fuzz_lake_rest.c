/* Any bytes as an answer of a REST catalog; the first one says which. A table that is accepted can be turned into the request that would make it. */
#include <stdlib.h>

#include "iceberg/metadata.h"
#include "iceberg/rest_diff.h"
#include "iceberg/rest_wire.h"
#include "weir/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static wr_code lend(void *ctx, const char *prefix, const wr_s3_credentials *c, wr_err *err) {
    if (!prefix[0] || !c->access_key || !c->secret_key) abort();
    return WR_OK;
}

static void table(wr_slice text) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t;
    wr_rest_change c;
    if (wr_rest_read_table(text, "fuzz", lend, NULL, &t, &err) != WR_OK) return;
    if (wr_rest_diff(NULL, t->doc, &c, &err) == WR_OK) {
        wr_buf out = WR_BUF_INIT;
        if (wr_json_print(c.updates, &out, &err) != WR_OK) abort();
        wr_buf_free(&out), wr_rest_change_clear(&c);
    }
    if (wr_rest_diff(t->doc, t->doc, &c, &err) == WR_OK) wr_rest_change_clear(&c);
    wr_ice_table_free(t);
}

static void names(wr_slice text, bool tables) {
    wr_err err = WR_ERR_INIT;
    wr_rest_names l = {0};
    char *next = NULL;
    if ((tables ? wr_rest_read_tables(text, &l, &next, &err) : wr_rest_read_namespaces(text, "a", &l, &next, &err)) == WR_OK) {
        for (int i = 0; i < l.n; i++) {
            wr_buf url = WR_BUF_INIT;
            wr_rest_put_namespace(&url, l.v[i], "%1F");
            cJSON *id = wr_rest_identifier(l.v[i], l.v[i]);
            if (!id || cJSON_GetArraySize(wr_json_get(id, "namespace")) != wr_rest_level_count(l.v[i])) abort();
            cJSON_Delete(id), wr_buf_free(&url);
        }
        wr_free(next);
    }
    wr_rest_names_clear(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    wr_err err = WR_ERR_INIT;
    wr_slice text = wr_slice_of(data + 1, size - 1);
    wr_rest_config config;
    wr_rest_error e;
    char *token;
    int64_t expires;
    switch (data[0] % 6) {
    case 0:
        if (wr_rest_read_config(text, &(wr_rest_own){.uri = true}, &config, &err) == WR_OK) wr_rest_config_clear(&config);
        break;
    case 1:
        if (wr_rest_read_token(text, &token, &expires, &err) == WR_OK) wr_free(token);
        break;
    case 2: names(text, false); break;
    case 3: names(text, true); break;
    case 4: table(text); break;
    default: wr_rest_read_error(text, &e);
    }
    return 0;
}
