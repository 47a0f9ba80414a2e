/* Any bytes as table metadata: what is accepted can be asked everything, and printed, and read again. */
#include <stdlib.h>

#include "iceberg/metadata.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wr_err err = WR_ERR_INIT;
    wr_ice_table *t, *again;
    wr_schema *s;
    if (wr_meta_parse(wr_slice_of(data, size), "fuzz.json", &t, &err) != WR_OK) return 0;
    int64_t head = wr_ice_ref(t, WR_ICE_MAIN);
    wr_ice_summary(t, head, "operation");
    wr_ice_snapshot_time_us(t, head);
    wr_ice_uuid(t);
    wr_ice_property(t, "weir.schema");
    if (wr_ice_schema(t, &s, &err) == WR_OK) {
        int64_t id;
        wr_meta_add_schema(t->doc, s, WR_SCHEMA_EVOLVES, wr_meta_num(t->doc, "current-schema-id", 0), &id, &err);
        wr_schema_unref(s);
    }
    if (wr_ice_ref_schema(t, WR_ICE_LOAD, &s, &err) == WR_OK) wr_schema_unref(s);
    wr_buf out = WR_BUF_INIT;
    if (wr_json_print(t->doc, &out, &err) != WR_OK ||
        wr_meta_parse(wr_buf_view(&out), "again.json", &again, &err) != WR_OK)
        abort();
    wr_ice_table_free(again);
    wr_buf_free(&out);
    wr_ice_table_free(t);
    return 0;
}
