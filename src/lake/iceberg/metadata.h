/* Table metadata as a document: reading what is needed, changing what a commit changes, keeping the rest as it was.
 * Source: Iceberg table spec, "Table Metadata", "Schema Evolution", appendix C.
 * @thread one at a time per object */
#ifndef WEIR_LAKE_METADATA_H
#define WEIR_LAKE_METADATA_H

#include "iceberg/ice.h"
#include "iceberg/json.h"

#define WR_META_PREVIOUS_VERSIONS 20 /* write.metadata.previous-versions-max of our tables */

struct wr_ice_table {
    wr_store *store;        /* borrowed */
    char *ns, *name;        /* NULL when loaded by file */
    char *location_of_meta; /* metadata_location; NULL before the first commit */
    cJSON *doc;             /* replaced by every commit */
    char *uuid, *location;  /* of doc, and the same for ever: writers beside a commit may look at these */
    int format_version;
    int64_t lent_until_us; /* when credentials that a catalog lent for its files run out; 0 = there are none, or it does not say */
};

/* Parses and checks the members that the rest relies on. WR_E_DECODE, WR_E_UNSUPPORTED (format version). */
wr_code wr_meta_parse(wr_slice text, const char *name, wr_ice_table **ret_table, wr_err *err);
wr_code wr_meta_of(cJSON *doc, const char *name, wr_ice_table **ret_table, wr_err *err); /* the same for a document, which it takes */
wr_code wr_meta_set_name(wr_ice_table *t, const char *ns, const char *name, wr_err *err);

/* All below work on a document, so that a commit can prepare a copy. */
cJSON *wr_meta_snapshot(const cJSON *doc, int64_t id);      /* NULL when absent */
int64_t wr_meta_ref(const cJSON *doc, const char *ref);     /* -1 when absent; main falls back to current-snapshot-id */
cJSON *wr_meta_schema(const cJSON *doc, int64_t schema_id); /* NULL when absent */
bool wr_meta_same_heads(const cJSON *a, const cJSON *b);    /* of Weir's two branches */
int64_t wr_meta_num(const cJSON *doc, const char *key, int64_t absent);
const char *wr_meta_property(const cJSON *doc, const char *key);
wr_code wr_meta_column_type(const cJSON *field, wr_type *ret_type, wr_err *err); /* of a schema's field; WR_E_UNSUPPORTED */

/* How strictly a new schema must follow from the older ones. */
typedef enum wr_schema_step {
    WR_SCHEMA_EVOLVES, /* old files stay: types promote only, new columns are optional */
    WR_SCHEMA_RESTARTS /* no old file is read with it */
} wr_schema_step;
/* Equal but for the number; key columns in any order, none or an empty list: a catalog that writes the metadata itself spells it its way. */
bool wr_meta_same_schema(const cJSON *a, const cJSON *b);
bool wr_meta_same_current_schema(const cJSON *a, const cJSON *b);
/* Adds the schema when no equal one is there; base_id is what it evolves from (-1 = the first). last-column-id rises.
 */
wr_code wr_meta_add_schema(cJSON *doc, const wr_schema *s, wr_schema_step step, int64_t base_id, int64_t *ret_schema_id,
                           wr_err *err);
/* Remembers Weir's own schema text for a schema id: property weir.schema(-id), with suffix ".<ref>" for a branch. */
wr_code wr_meta_remember_schema(cJSON *doc, const char *ref, const wr_schema *s, int64_t schema_id, wr_err *err);
/* At publish: what was remembered for the branch becomes the table's; forgets the branch's. */
wr_code wr_meta_publish_schema(cJSON *doc, const char *ref, int64_t schema_id, wr_err *err);

#endif
