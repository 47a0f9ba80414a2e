/* Manifests and manifest lists, v1 to v3 read, v2 and v3 written. Source: Iceberg table spec, "Manifests", "Manifest
 * Lists", "Sequence Number Inheritance", "First Row ID Inheritance".
 * @thread any: no shared state */
#ifndef WEIR_LAKE_MANIFEST_H
#define WEIR_LAKE_MANIFEST_H

#include "iceberg/ice.h"

#define WR_FIELD_PATH                                                                                                  \
    2147483546 /* reserved: file_path of a position delete; also where a delete's path bounds are kept */
#define WR_FIELD_POS 2147483545

/* ------------------------------------------------------------------ manifest list */
typedef struct wr_partition_summary {
    bool contains_null;
    int8_t contains_nan;    /* -1 = unknown */
    uint8_t *lower, *upper; /* NULL = absent */
    uint32_t lower_n, upper_n;
} wr_partition_summary;

typedef struct wr_manifest_file {
    char *path;
    int64_t length;
    int32_t spec_id;
    uint8_t content; /* 0 data, 1 deletes */
    int64_t sequence, min_sequence;
    int64_t snapshot_id; /* that added it */
    int64_t added_files, existing_files, deleted_files, added_rows, existing_rows, deleted_rows;
    int64_t first_row_id; /* -1 = none */
    wr_partition_summary *partitions;
    int npartitions; /* -1 = the list is absent */
    uint8_t *key_metadata;
    uint32_t key_metadata_n; /* NULL = absent */
} wr_manifest_file;

typedef struct wr_manifest_list {
    wr_manifest_file *v;
    int n, cap;
} wr_manifest_list;
void wr_manifest_file_clear(wr_manifest_file *m);
void wr_manifest_list_clear(wr_manifest_list *l);
wr_code wr_manifest_file_copy(wr_manifest_file *dst, const wr_manifest_file *src, wr_err *err);
wr_code wr_manifest_list_add(wr_manifest_list *l, wr_manifest_file *m,
                             wr_err *err); /* takes what *m owns when it succeeds */

wr_code wr_manifest_list_decode(wr_slice file, const char *name, wr_manifest_list *ret_list, wr_err *err);
typedef struct wr_manifest_list_head {
    int format_version;
    int64_t snapshot_id, parent_id /* -1 */, sequence, first_row_id /* -1 */;
} wr_manifest_list_head;
wr_code wr_manifest_list_encode(const wr_manifest_list_head *h, const wr_manifest_list *l, wr_buf *out, wr_err *err);

/* ------------------------------------------------------------------ manifest */
typedef enum wr_entry_status { WR_ENTRY_EXISTING = 0, WR_ENTRY_ADDED = 1, WR_ENTRY_DELETED = 2 } wr_entry_status;
/* What inheritance has already been applied to when it was read; `file` says -1 where a new entry inherits. */
typedef struct wr_entry {
    uint8_t status;
    wr_ice_file *file;
    bool owned; /* cleared with the list */
} wr_entry;
typedef struct wr_entries {
    wr_entry *v;
    int n, cap;
} wr_entries;
void wr_entries_clear(wr_entries *e);
wr_code wr_entries_add(wr_entries *e, uint8_t status, wr_ice_file *file, bool owned,
                       wr_err *err); /* takes an owned file when it succeeds */

/* What a rewritten entry must keep although nobody here looks at it. */
struct wr_ice_extra {
    int64_t *split_offsets;
    int nsplit_offsets;
    int32_t *equality_ids;
    int nequality_ids;
    uint8_t *key_metadata;
    uint32_t key_metadata_n;
    bool unread_tuple; /* the entry's partition has fields that were not read: it cannot be written again */
};

/* Reads all entries, sequence numbers, snapshot ids and first row ids resolved from the manifest's row in the list. specs: the table's, for the partitions of the entries;
 * NULL: they are not read. */
wr_code wr_manifest_decode(wr_slice file, const wr_manifest_file *mf, const wr_specs *specs, bool deleted_too, wr_entries *ret_entries, wr_err *err);

typedef struct wr_manifest_head {
    int format_version;
    uint8_t content;         /* 0 data, 1 deletes */
    const char *schema_json; /* Iceberg schema text for the header */
    int32_t schema_id;
    const wr_spec *spec; /* of all its entries */
    int64_t snapshot_id; /* of the new snapshot: on ADDED and DELETED entries */
    int64_t sequence;    /* the new snapshot's */
    const int32_t *float_ids;
    int nfloat_ids; /* columns whose nan counts mean something */
} wr_manifest_head;
/* Writes entries of one spec and fills ret_row except path; appends to out. */
wr_code wr_manifest_encode(const wr_manifest_head *h, const wr_entries *e, wr_buf *out, wr_manifest_file *ret_row,
                           wr_err *err);

#endif
