/* How the rows of a table's files are sorted, which columns get Bloom filters, and how large files become: of one schema, by the table's rule of lake.layout or else by its key.
 * Private to lake.
 * @thread any; not changed once it is made */
#ifndef WEIR_LAKE_ORDER_H
#define WEIR_LAKE_ORDER_H

#include "iceberg/ice.h"
#include "weir/layout.h"

typedef struct wr_order {
    wr_sort_key *keys; /* nkeys 0: rows stay as they come */
    int nkeys;
    int *bloom; /* columns */
    int nbloom;
    uint64_t target_file_bytes; /* 0: the lake's */
    wr_ice_sort_order sort; /* the same as Iceberg has it; `fields` are this order's */
} wr_order;

/* rule NULL: none matches. Its columns are the schema's, by name. */
wr_code wr_order_new(const wr_layout_rule *rule, const wr_schema *s, wr_order **ret_order, wr_err *err);
wr_code wr_order_copy(const wr_order *o, wr_order **ret_order, wr_err *err);
void wr_order_free(wr_order *o);
wr_parquet_options wr_order_options(const wr_order *o); /* its Bloom filters */

#endif
