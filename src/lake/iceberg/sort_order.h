/* Sort orders of a table's metadata. Source: Iceberg table spec, "Sorting". */
#ifndef WEIR_LAKE_SORT_ORDER_H
#define WEIR_LAKE_SORT_ORDER_H

#include "iceberg/ice.h"
#include "iceberg/json.h"

/* The id of an equal order, -1 when there is none. */
int64_t wr_sort_order_find(const cJSON *doc, const wr_ice_sort_order *o);
/* Adds it when it is new, and makes it the table's, unless a column of it is not in the current schema (*ret_id is then what find says): readers bind the table's order to that. */
wr_code wr_sort_order_set(cJSON *doc, const wr_ice_sort_order *o, int64_t *ret_id, wr_err *err);

#endif
