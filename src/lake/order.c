#include "order.h"

#include <string.h>
#include "weir/base/mem.h"

static void describe(wr_order *o, const wr_schema *s) {
    for (int i = 0; i < o->nkeys; i++) {
        wr_ice_sort_field *f = &o->sort.fields[o->sort.n++];
        f->field_id = s->cols[o->keys[i].col].id;
        f->descending = o->keys[i].descending, f->nulls_last = o->keys[i].nulls_last;
    }
}

static void take_sort(wr_order *o, const wr_layout_rule *r, const wr_schema *s) {
    if (!r || !r->sort)
        for (int i = 0; i < s->nkey; i++) o->keys[o->nkeys++] = (wr_sort_key){.col = s->key[i]};
    else
        for (int i = 0; i < r->nsort; i++) o->keys[o->nkeys++] = (wr_sort_key){wr_schema_find(s, r->sort[i].column), r->sort[i].descending, r->sort[i].nulls_last};
}

static void take_bloom(wr_order *o, const wr_layout_rule *r, const wr_schema *s) {
    if (!r || !r->bloom)
        for (int i = 0; i < s->nkey; i++) o->bloom[o->nbloom++] = s->key[i];
    else
        for (int i = 0; i < r->nbloom; i++) o->bloom[o->nbloom++] = wr_schema_find(s, r->bloom[i]);
}

static bool room(wr_order *o, const wr_layout_rule *r, const wr_schema *s) {
    size_t nsort = (size_t)(r && r->sort ? r->nsort : s->nkey), nbloom = (size_t)(r && r->bloom ? r->nbloom : s->nkey);
    o->keys = wr_calloc(nsort + 1, sizeof *o->keys);
    o->bloom = wr_calloc(nbloom + 1, sizeof *o->bloom);
    o->sort.fields = wr_calloc(nsort + 1, sizeof *o->sort.fields);
    return o->keys && o->bloom && o->sort.fields;
}

wr_code wr_order_new(const wr_layout_rule *rule, const wr_schema *s, wr_order **ret_order, wr_err *err) {
    wr_order *o = wr_calloc(1, sizeof *o);
    if (!o || !room(o, rule, s)) return wr_order_free(o), wr_nomem(err, "order", sizeof *o);
    take_sort(o, rule, s), take_bloom(o, rule, s), describe(o, s);
    o->target_file_bytes = rule ? rule->target_file_bytes : 0;
    *ret_order = o;
    return WR_OK;
}

wr_code wr_order_copy(const wr_order *o, wr_order **ret_order, wr_err *err) {
    wr_order *c = wr_calloc(1, sizeof *c);
    if (c) {
        *c = (wr_order){.nkeys = o->nkeys, .nbloom = o->nbloom, .target_file_bytes = o->target_file_bytes, .sort.n = o->sort.n};
        c->keys = wr_calloc((size_t)o->nkeys + 1, sizeof *c->keys);
        c->bloom = wr_calloc((size_t)o->nbloom + 1, sizeof *c->bloom);
        c->sort.fields = wr_calloc((size_t)o->sort.n + 1, sizeof *c->sort.fields);
    }
    if (!c || !c->keys || !c->bloom || !c->sort.fields) return wr_order_free(c), wr_nomem(err, "order", sizeof *c);
    if (o->nkeys) memcpy(c->keys, o->keys, (size_t)o->nkeys * sizeof *c->keys);
    if (o->nbloom) memcpy(c->bloom, o->bloom, (size_t)o->nbloom * sizeof *c->bloom);
    if (o->sort.n) memcpy(c->sort.fields, o->sort.fields, (size_t)o->sort.n * sizeof *c->sort.fields);
    *ret_order = c;
    return WR_OK;
}

void wr_order_free(wr_order *o) {
    if (!o) return;
    wr_free(o->keys), wr_free(o->bloom), wr_free(o->sort.fields);
    wr_free(o);
}

wr_parquet_options wr_order_options(const wr_order *o) { return (wr_parquet_options){.bloom = o->bloom, .nbloom = o->nbloom}; }
