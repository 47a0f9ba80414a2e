/* Partition specs: which transforms of which columns a data file's rows have in common, and the tuple of their values. Source: Iceberg table spec, "Partitioning",
 * "Partition Transforms", appendix B (hashes), appendix D (single values).
 *
 * A tuple is held in row encoding (model.h) with the types of wr_spec.tuple, which are the widest that a column may be promoted to: so the bytes of a tuple stay the same
 * when a source column is promoted, and two files are of one partition exactly when spec and bytes are equal.
 * @thread a wr_spec is immutable; any */
#ifndef WEIR_LAKE_SPEC_H
#define WEIR_LAKE_SPEC_H

#include "iceberg/json.h"
#include "weir/base/buf.h"
#include "weir/base/err.h"
#include "weir/layout.h"
#include "weir/model.h"

#define WR_SPEC_FIRST_FIELD 1000
#define WR_PLAIN_SPEC 0 /* of every table that Weir made: unpartitioned */

typedef struct wr_spec_field {
    int32_t source_id, id;
    uint8_t kind; /* wr_term_kind */
    uint32_t width;
    wr_type source, result; /* types of the column and of the values */
    char *name;
} wr_spec_field;

typedef struct wr_spec {
    int32_t id;
    int n;                 /* fields; 0 = unpartitioned */
    wr_spec_field *fields;
    wr_schema *tuple;      /* types of a tuple's values as they are held; NULL with n = 0 */
    char *why_not;         /* what Weir does not know of it, so that its tuples can neither be read nor written; NULL = nothing */
    int refs;              /* atomic */
} wr_spec;
wr_spec *wr_spec_ref(const wr_spec *s);
void wr_spec_unref(wr_spec *s); /* NULL is fine */

typedef struct wr_specs {
    wr_spec **v;
    int n;
} wr_specs;
void wr_specs_clear(wr_specs *s);
const wr_spec *wr_specs_find(const wr_specs *s, int32_t id); /* NULL when absent */

/* ------------------------------------------------------------------ values */
/* The transform of one value, which may borrow from it. A null gives null. */
wr_value wr_spec_value(uint8_t kind, uint32_t width, wr_type source, const wr_value *v);
wr_type wr_spec_result(uint8_t kind, wr_type source);
/* Type of a value as a tuple holds it. */
wr_type wr_spec_held(wr_type result);
/* Appends the tuple of a row. vals: of the row; cols[n]: where the source columns are among them, -1 for a field that is void. */
wr_code wr_spec_tuple(const wr_spec *s, const int *cols, const wr_value *vals, wr_buf *out, wr_err *err);
/* Values of a tuple as the results' types have them. vals[n] borrow from it. */
wr_code wr_spec_read(const wr_spec *s, wr_slice tuple, wr_value *vals, wr_err *err);
/* Appends "name=value/name=value": for folders, any value made a safe name. */
wr_code wr_spec_folder(const wr_spec *s, wr_slice tuple, wr_buf *out, wr_err *err);
/* The same for people: "name=value, name=value". */
wr_code wr_spec_text(const wr_spec *s, wr_slice tuple, wr_buf *out, wr_err *err);
/* Iceberg's single-value bytes of a value of this type. */
void wr_spec_single(wr_buf *out, wr_type t, const wr_value *v);
uint32_t wr_spec_decimal_bytes(uint8_t precision); /* of Avro's fixed */
/* "month(created_at), bucket(16, id)"; columns by the schema's names. */
wr_code wr_spec_print(const wr_spec *s, const wr_schema *schema, wr_buf *out, wr_err *err);

/* ------------------------------------------------------------------ metadata */
/* All specs of a document. Types of source columns are those of `schema_id`, or of the newest schema that has the column. */
wr_code wr_specs_of(const cJSON *doc, int64_t schema_id, wr_specs *ret_specs, wr_err *err);
/* "partition-spec" of a manifest's header: the fields as JSON. */
wr_code wr_spec_header(const wr_spec *s, wr_buf *out, wr_err *err);
/* Avro type of the tuple: the "fields" of record r102, as JSON. */
wr_code wr_spec_avro(const wr_spec *s, wr_buf *out, wr_err *err);

/* The spec of these terms over a schema: one of the document's when there is an equal one, else the next one, with the field ids of equal fields of older specs and names
 * that no column of the schema or of the document's current one has. Terms must fit (wr_layouts_check). */
wr_code wr_spec_choose(const cJSON *doc, const wr_term *terms, int n, const wr_schema *schema, wr_spec **ret_spec, wr_err *err);
/* Adds it to the document unless it is there. WR_E_CONFLICT when its number is another's. */
wr_code wr_meta_add_spec(cJSON *doc, const wr_spec *s, wr_err *err);
/* Readers refuse a spec with a field that has the name of a column which is not its source. RENAME: such fields of all specs get other names. REMOVE, where a catalog owns
 * the document: such specs leave, but the default one. */
typedef enum wr_clash { WR_CLASH_RENAME, WR_CLASH_REMOVE } wr_clash;
wr_code wr_meta_settle_clashes(cJSON *doc, wr_clash how, wr_err *err);
/* Whether a spec of the document would clash with this schema as the current one. */
bool wr_meta_would_clash(const cJSON *doc, const wr_schema *schema);
/* Equal transforms of the same columns, in this order. */
bool wr_spec_same(const wr_spec *a, const wr_spec *b);
/* Whether files of this spec can be read beside the schema: its columns are all there. */
bool wr_spec_fits(const wr_spec *s, const wr_schema *schema);

#endif
