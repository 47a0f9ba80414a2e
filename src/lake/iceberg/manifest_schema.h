/* Avro schemas of manifests and manifest lists: names, types and field ids of the Iceberg table spec, in the order in which manifest.c
 * writes the values. */
#ifndef WEIR_LAKE_MANIFEST_SCHEMA_H
#define WEIR_LAKE_MANIFEST_SCHEMA_H

/* clang-format off */
#define F(name, id, type) "{\"name\":\"" name "\",\"type\":\"" type "\",\"field-id\":" #id "}"
#define OPT(name, id, type) "{\"name\":\"" name "\",\"type\":[\"null\"," type "],\"default\":null,\"field-id\":" #id "}"
#define LIST_FIELDS \
    F("manifest_path", 500, "string") "," F("manifest_length", 501, "long") "," F("partition_spec_id", 502, "int") "," F("content", 517, "int") \
    "," F("sequence_number", 515, "long") "," F("min_sequence_number", 516, "long") "," F("added_snapshot_id", 503, "long") "," \
    F("added_files_count", 504, "int") "," F("existing_files_count", 505, "int") "," F("deleted_files_count", 506, "int") "," \
    F("added_rows_count", 512, "long") "," F("existing_rows_count", 513, "long") "," F("deleted_rows_count", 514, "long") "," \
    OPT("partitions", 507, "{\"type\":\"array\",\"items\":{\"type\":\"record\",\"name\":\"r508\",\"fields\":[" \
        F("contains_null", 509, "boolean") "," OPT("contains_nan", 518, "\"boolean\"") "," OPT("lower_bound", 510, "\"bytes\"") "," \
        OPT("upper_bound", 511, "\"bytes\"") "]},\"element-id\":508}") "," OPT("key_metadata", 519, "\"bytes\"")
static const char list_v2[] = "{\"type\":\"record\",\"name\":\"manifest_file\",\"fields\":[" LIST_FIELDS "]}";
static const char list_v3[] = "{\"type\":\"record\",\"name\":\"manifest_file\",\"fields\":[" LIST_FIELDS "," OPT("first_row_id", 520, "\"long\"") "]}";

#define MAP(name, id, k, kid, vid, v) \
    OPT(name, id, "{\"type\":\"array\",\"items\":{\"type\":\"record\",\"name\":\"k" #kid "_v" #vid "\",\"fields\":[" F("key", kid, k) "," \
        F("value", vid, v) "]},\"logicalType\":\"map\"}")
#define FILE_FIELDS \
    F("content", 134, "int") "," F("file_path", 100, "string") "," F("file_format", 101, "string") "," \
    "{\"name\":\"partition\",\"type\":{\"type\":\"record\",\"name\":\"r102\",\"fields\":[]},\"field-id\":102}," \
    F("record_count", 103, "long") "," F("file_size_in_bytes", 104, "long") "," \
    MAP("column_sizes", 108, "int", 117, 118, "long") "," MAP("value_counts", 109, "int", 119, 120, "long") "," \
    MAP("null_value_counts", 110, "int", 121, 122, "long") "," MAP("nan_value_counts", 137, "int", 138, 139, "long") "," \
    MAP("lower_bounds", 125, "int", 126, 127, "bytes") "," MAP("upper_bounds", 128, "int", 129, 130, "bytes") "," \
    OPT("key_metadata", 131, "\"bytes\"") "," OPT("split_offsets", 132, "{\"type\":\"array\",\"items\":\"long\",\"element-id\":133}") "," \
    OPT("equality_ids", 135, "{\"type\":\"array\",\"items\":\"int\",\"element-id\":136}") "," OPT("sort_order_id", 140, "\"int\"")
#define ENTRY(file_fields) \
    "{\"type\":\"record\",\"name\":\"manifest_entry\",\"fields\":[" F("status", 0, "int") "," OPT("snapshot_id", 1, "\"long\"") "," \
    OPT("sequence_number", 3, "\"long\"") "," OPT("file_sequence_number", 4, "\"long\"") "," \
    "{\"name\":\"data_file\",\"type\":{\"type\":\"record\",\"name\":\"r2\",\"fields\":[" file_fields "]},\"field-id\":2}]}"
static const char entry_v2[] = ENTRY(FILE_FIELDS "," OPT("referenced_data_file", 143, "\"string\""));
static const char entry_v3[] = ENTRY(FILE_FIELDS "," OPT("first_row_id", 142, "\"long\"") "," OPT("referenced_data_file", 143, "\"string\"") ","
                                     OPT("content_offset", 144, "\"long\"") "," OPT("content_size_in_bytes", 145, "\"long\""));
/* clang-format on */

#endif
