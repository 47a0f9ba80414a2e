#include "iceberg/sort_order.h"

#include <string.h>

#include "iceberg/metadata.h"
#include "weir/base/sum.h"

uint64_t wr_ice_sorted_by(const wr_ice_sort_order *o) {
    uint64_t mark = 0;
    for (int i = 0; i < o->n; i++) {
        const wr_ice_sort_field *f = &o->fields[i];
        int32_t v[3] = {f->field_id, f->descending, f->nulls_last};
        mark = wr_hash64(v, sizeof v, mark + 1);
    }
    return mark;
}

static bool same_field(const cJSON *j, const wr_ice_sort_field *f) {
    const char *transform = wr_json_str(j, "transform"), *direction = wr_json_str(j, "direction"), *nulls = wr_json_str(j, "null-order");
    return wr_meta_num(j, "source-id", -1) == f->field_id && transform && !strcmp(transform, "identity") && direction && !strcmp(direction, f->descending ? "desc" : "asc") && nulls &&
           !strcmp(nulls, f->nulls_last ? "nulls-last" : "nulls-first");
}

int64_t wr_sort_order_find(const cJSON *doc, const wr_ice_sort_order *o) {
    const cJSON *order, *field;
    cJSON_ArrayForEach(order, wr_json_get(doc, "sort-orders")) {
        const cJSON *fields = wr_json_get(order, "fields");
        int i = 0;
        cJSON_ArrayForEach(field, fields) {
            if (i == o->n || !same_field(field, &o->fields[i])) break;
            i++;
        }
        if (i == o->n && cJSON_GetArraySize(fields) == o->n) return wr_meta_num(order, "order-id", -1);
    }
    return -1;
}

static bool has_columns(const cJSON *doc, const wr_ice_sort_order *o) {
    const cJSON *fields = wr_json_get(wr_meta_schema(doc, wr_meta_num(doc, "current-schema-id", -1)), "fields"), *c;
    for (int i = 0; i < o->n; i++) {
        bool there = false;
        cJSON_ArrayForEach(c, fields) there = there || wr_meta_num(c, "id", -1) == o->fields[i].field_id;
        if (!there) return false;
    }
    return true;
}

static cJSON *order_json(const wr_ice_sort_order *o, int64_t id) {
    cJSON *order = cJSON_CreateObject(), *fields = order ? wr_json_array(order, "fields") : NULL;
    bool ok = fields && wr_json_set_num(order, "order-id", id);
    for (int i = 0; ok && i < o->n; i++) {
        cJSON *f = cJSON_CreateObject();
        ok = wr_json_push(fields, f) && wr_json_set_str(f, "transform", "identity") && wr_json_set_num(f, "source-id", o->fields[i].field_id) &&
             wr_json_set_str(f, "direction", o->fields[i].descending ? "desc" : "asc") && wr_json_set_str(f, "null-order", o->fields[i].nulls_last ? "nulls-last" : "nulls-first");
    }
    if (!ok) cJSON_Delete(order), order = NULL;
    return order;
}

wr_code wr_sort_order_set(cJSON *doc, const wr_ice_sort_order *o, int64_t *ret_id, wr_err *err) {
    int64_t id = wr_sort_order_find(doc, o);
    if (!has_columns(doc, o)) return *ret_id = id, WR_OK;
    if (id < 0) {
        cJSON *orders = wr_json_array(doc, "sort-orders"), *old;
        cJSON_ArrayForEach(old, orders) if (wr_meta_num(old, "order-id", 0) > id) id = wr_meta_num(old, "order-id", 0);
        id = id < 0 ? (o->n ? 1 : 0) : id + 1; /* 0 is the order of what is not sorted */
        if (!orders || !wr_json_push(orders, order_json(o, id))) return wr_nomem(err, "sort order", 256);
    }
    if (wr_meta_num(doc, "default-sort-order-id", -1) != id && !wr_json_set_num(doc, "default-sort-order-id", id)) return wr_nomem(err, "sort order", 64);
    *ret_id = id;
    return WR_OK;
}
