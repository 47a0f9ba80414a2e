/* Avro object container files, as far as Iceberg's manifests need them. libavro cannot write them (it drops field ids
 * and has no header keys of its own), so the container is ours. Source: Avro 1.11 specification, "Binary Encoding" and
 * "Object Container Files".
 *
 * Writing is by hand (wr_avro_put_* in the order of the schema text); reading is led by the schema in the file: every
 * value comes with its type, and fields are found by Iceberg's field id, so unknown fields, other orders and other
 * union orders do not matter.
 * @thread one at a time per object */
#ifndef WEIR_LAKE_AVRO_H
#define WEIR_LAKE_AVRO_H

#include "weir/base/buf.h"
#include "weir/base/err.h"

/* ------------------------------------------------------------------ writing */
void wr_avro_put_long(wr_buf *b, int64_t v); /* zigzag varint: int, long, union index, block count */
void wr_avro_put_bytes(wr_buf *b, wr_slice s);
static inline void wr_avro_put_str(wr_buf *b, const char *s) { wr_avro_put_bytes(b, wr_slice_str(s)); }
static inline void wr_avro_put_bool(wr_buf *b, bool v) { wr_buf_u8(b, v); }

typedef struct wr_avro_meta {
    const char *key;
    wr_slice value;
} wr_avro_meta;
typedef struct wr_avro_writer {
    wr_buf *out; /* the file; borrowed */
    wr_buf row;  /* rows of the block under way: put values here */
    uint64_t rows;
    uint8_t sync[16];
} wr_avro_writer;
/* Header with avro.schema, avro.codec=deflate and `meta`; appends to out, which must be empty and outlive the writer.
 */
wr_code wr_avro_begin(wr_avro_writer *w, const char *schema_json, const wr_avro_meta *meta, int nmeta, wr_buf *out,
                      wr_err *err);
wr_code wr_avro_end_row(wr_avro_writer *w, wr_err *err); /* writes a block when it is large enough */
wr_code wr_avro_end(wr_avro_writer *w, wr_err *err);
void wr_avro_writer_clear(wr_avro_writer *w);

/* ------------------------------------------------------------------ reading */
typedef enum wr_avro_kind {
    WR_AVRO_NULL,
    WR_AVRO_BOOL,
    WR_AVRO_INT,
    WR_AVRO_LONG,
    WR_AVRO_FLOAT,
    WR_AVRO_DOUBLE,
    WR_AVRO_BYTES,
    WR_AVRO_STRING,
    WR_AVRO_FIXED,
    WR_AVRO_ENUM,
    WR_AVRO_RECORD,
    WR_AVRO_ARRAY,
    WR_AVRO_MAP,
    WR_AVRO_UNION
} wr_avro_kind;

typedef struct wr_avro_type wr_avro_type;
typedef struct wr_avro_value {
    const wr_avro_type *type; /* never a union: the branch taken */
    wr_avro_kind kind;
    uint32_t n; /* items of RECORD, ARRAY; MAP: 2 per pair (key, value) */
    union {
        int64_t i; /* BOOL, INT, LONG, ENUM */
        double d;
        wr_slice s; /* BYTES, STRING, FIXED: borrowed from the block */
        struct wr_avro_value *items;
    };
} wr_avro_value;

typedef struct wr_avro_reader wr_avro_reader;
/* `file` is borrowed until free; `name` is for messages. Codecs null, deflate, zstandard. WR_E_DECODE. */
wr_code wr_avro_open(wr_slice file, const char *name, wr_avro_reader **ret_reader, wr_err *err);
void wr_avro_free(wr_avro_reader *r);
/* Header value, .p NULL when absent. */
wr_slice wr_avro_header(const wr_avro_reader *r, const char *key);
/* The next record, valid until the next call; NULL at the end of the file. */
wr_code wr_avro_next(wr_avro_reader *r, const wr_avro_value **ret_value, wr_err *err);
/* Field of a record by Iceberg field id; NULL when the schema lacks it or the value is null. */
const wr_avro_value *wr_avro_field(const wr_avro_value *rec, int field_id);
bool wr_avro_has_field(const wr_avro_value *rec, int field_id); /* the schema has it, null or not */

#endif
