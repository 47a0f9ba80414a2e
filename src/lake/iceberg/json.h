/* JSON documents that survive a rewrite. cJSON keeps numbers as doubles, which damages int64 above 2^53 (Java's
 * snapshot ids); here every number keeps its own spelling: after parsing, number items are cJSON_Raw with the text of
 * the file. Unknown members stay.
 * @thread one at a time per document */
#ifndef WEIR_LAKE_JSON_H
#define WEIR_LAKE_JSON_H

#include <cjson/cJSON.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"

/* WR_E_DECODE names the byte. */
wr_code wr_json_parse(wr_slice text, const char *name, cJSON **ret_doc, wr_err *err);
wr_code wr_json_print(const cJSON *doc, wr_buf *out, wr_err *err); /* compact; appends */

cJSON *wr_json_get(const cJSON *obj, const char *key);      /* exact spelling; NULL when absent or null */
const char *wr_json_str(const cJSON *obj, const char *key); /* NULL when absent or not a string */
bool wr_json_i64_of(const cJSON *item, int64_t *ret);       /* false: not an integer of 64 bits */
bool wr_json_i64(const cJSON *obj, const char *key, int64_t *ret);

/* Building. NULL items (memory was out) make these false; an item is taken, also on failure. */
cJSON *wr_json_num(int64_t v);
bool wr_json_set(cJSON *obj, const char *key, cJSON *item); /* replaces or adds */
bool wr_json_set_num(cJSON *obj, const char *key, int64_t v);
bool wr_json_set_str(cJSON *obj, const char *key, const char *v);
bool wr_json_push(cJSON *array, cJSON *item);
cJSON *
wr_json_object(cJSON *obj,
               const char *key); /* the member, made when absent; NULL when memory is out or it is something else */
cJSON *wr_json_array(cJSON *obj, const char *key);

static inline void wr_json_free_p_(cJSON **j) { cJSON_Delete(*j); }
#define WR_AUTO_JSON __attribute__((cleanup(wr_json_free_p_)))

#endif
