/* What happens to rows between queue and lake: where a source table's rows go, and how a shard's rows become rows of a merged table.
 * @thread objects are immutable after creation unless said otherwise */
#ifndef WEIR_TRANSFORM_H
#define WEIR_TRANSFORM_H

#include "weir/base/buf.h"
#include "weir/base/err.h"
#include "weir/model.h"

/* merge: [{from: 'shop_\d+\.orders_\d+', to: shop.orders}]: anchored expressions on db.table; \d, \w, \s and \. are understood. */
typedef struct wr_merge_rule { const char *from, *to; } wr_merge_rule;

typedef struct wr_routes wr_routes;
typedef struct wr_route { const char *ns, *name; bool merged; } wr_route; /* strings borrowed from routes or arguments */
wr_code wr_routes_new(const wr_merge_rule *rules, int n, wr_routes **ret_routes, wr_err *err);
void wr_routes_free(wr_routes *r);
/* The first rule that matches, else the table's own name. */
wr_route wr_routes_find(const wr_routes *r, const char *db, const char *name);

/* Schema of a merged table: db_name, tb_name (both in the key), then the union of its members' columns by name, widened where types
 * differ (to string where nothing else holds both). Column ids are kept from `previous` (may be NULL) where name and type allow. The key is (db_name, tb_name, member key) when
 * all members have the same key columns, else none. */
wr_code wr_merge_schema(const wr_schema *const *members, int n, const wr_schema *previous, wr_schema **ret_schema, wr_err *err);

/* Rows of one member as rows of the merged table. */
typedef struct wr_convert wr_convert;
wr_code wr_convert_new(const wr_schema *member, const wr_schema *merged, const char *db, const char *name, wr_convert **ret_convert, wr_err *err);
void wr_convert_free(wr_convert *c);
wr_code wr_convert_row(const wr_convert *c, wr_slice row, wr_buf *out, wr_err *err); /* appends */

#endif
