#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "iceberg/avro.h"
#include "iceberg/manifest.h"
#include "lake/ice_helper.h"

static const int32_t floats[] = {2};
static const wr_spec plain; /* unpartitioned */

static wr_manifest_head head_of(int version, uint8_t content) {
    return (wr_manifest_head){.format_version = version,
                              .spec = &plain,
                              .content = content,
                              .schema_json = "{}",
                              .snapshot_id = 77,
                              .sequence = 9,
                              .float_ids = floats,
                              .nfloat_ids = 1};
}

static wr_ice_file *data_file(const char *path, uint64_t records) {
    wr_ice_file *f = wr_ice_file_new(WR_ICE_DATA, path);
    f->format = wr_strdup("PARQUET");
    f->records = records, f->bytes = records * 10;
    f->nstats = 2, f->stats = wr_calloc(2, sizeof *f->stats);
    f->stats[0] = (wr_column_stats){.field_id = 1,
                                    .values = records,
                                    .bytes = 5,
                                    .has_lower = true,
                                    .lower = "\x01\0\0",
                                    .lower_n = 4,
                                    .has_upper = true,
                                    .upper = "zz",
                                    .upper_n = 2};
    f->stats[1] = (wr_column_stats){.field_id = 2, .values = records, .nulls = 1, .nans = 3};
    return f;
}

static wr_ice_file *vector(const char *referenced, uint64_t records) {
    wr_ice_file *f = wr_ice_file_new(WR_ICE_POS_DELETES, "/t/data/x.puffin");
    f->format = wr_strdup("PUFFIN"), f->referenced = wr_strdup(referenced);
    f->records = records, f->bytes = 1000, f->content_offset = 4, f->content_size = 40;
    return f;
}

static void new_entries_inherit_and_old_ones_keep_their_numbers(void **state) {
    wr_err err = WR_ERR_INIT;
    for (int version = 2; version <= 3; version++) {
        wr_entries e = {0}, got = {0};
        wr_buf out = WR_BUF_INIT;
        wr_manifest_file row;
        wr_manifest_head h = head_of(version, 0);
        OK(wr_entries_add(&e, WR_ENTRY_ADDED, data_file("/a", 10), true, &err));
        wr_ice_file *old = data_file("/b", 20), *gone = data_file("/c", 30), *moved = data_file("/d", 40);
        old->snapshot_id = 5, old->sequence = 3, old->file_sequence = 3, old->first_row_id = 100;
        gone->snapshot_id = 6, gone->sequence = 4, gone->file_sequence = 4, gone->first_row_id = 200;
        moved->sequence = 2; /* a compaction's file takes the sequence of what it replaces */
        OK(wr_entries_add(&e, WR_ENTRY_EXISTING, old, true, &err));
        OK(wr_entries_add(&e, WR_ENTRY_DELETED, gone, true, &err));
        OK(wr_entries_add(&e, WR_ENTRY_ADDED, moved, true, &err));
        OK(wr_manifest_encode(&h, &e, &out, &row, &err));
        assert_int_equal(row.added_files, 2), assert_int_equal(row.existing_files, 1),
            assert_int_equal(row.deleted_files, 1);
        assert_int_equal(row.added_rows, 50), assert_int_equal(row.existing_rows, 20),
            assert_int_equal(row.deleted_rows, 30);
        assert_int_equal(row.sequence, 9), assert_int_equal(row.min_sequence, 2), assert_int_equal(row.length, out.n);
        row.path = "m.avro", row.first_row_id = version == 3 ? 1000 : -1;
        OK(wr_manifest_decode(wr_buf_view(&out), &row, NULL, true, &got, &err));
        assert_int_equal(got.n, 4);
        static const int64_t seq[] = {9, 3, 4, 2}, file_seq[] = {9, 3, 4, 9}, snap[] = {77, 5, 77, 77},
                             row_id[] = {1000, 100, 200, 1010};
        for (int i = 0; i < 4; i++) {
            assert_int_equal(got.v[i].file->sequence, seq[i]);
            assert_int_equal(got.v[i].file->file_sequence, file_seq[i]);
            assert_int_equal(got.v[i].file->snapshot_id, snap[i]);
            assert_int_equal(got.v[i].file->first_row_id, version == 3 ? row_id[i] : -1);
        }
        wr_entries_clear(&got);
        OK(wr_manifest_decode(wr_buf_view(&out), &row, NULL, false, &got, &err));
        assert_int_equal(got.n, 3); /* deleted ones are left out */
        wr_entries_clear(&got), wr_entries_clear(&e), wr_buf_free(&out);
    }
}

static void statistics_say_only_what_means_something(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_entries e = {0}, got = {0};
    wr_buf out = WR_BUF_INIT;
    wr_manifest_file row;
    wr_manifest_head h = head_of(3, 0);
    wr_ice_file *f = data_file("/a", 10);
    f->stats = wr_realloc(f->stats, 3 * sizeof *f->stats);
    f->stats[f->nstats++] = (wr_column_stats){.field_id = WR_ELEMENT_ID_BASE + 3,
                                              .values = 4,
                                              .has_lower = true,
                                              .lower_n = 4,
                                              .nulls = WR_STAT_UNKNOWN,
                                              .nans = WR_STAT_UNKNOWN};
    OK(wr_entries_add(&e, WR_ENTRY_ADDED, f, true, &err));
    OK(wr_manifest_encode(&h, &e, &out, &row, &err));
    row.path = "m.avro";
    OK(wr_manifest_decode(wr_buf_view(&out), &row, NULL, true, &got, &err));
    const wr_column_stats *s = got.v[0].file->stats;
    assert_int_equal(got.v[0].file->nstats, 3);
    assert_int_equal(s[0].values, 10), assert_int_equal(s[0].nulls, 0), assert_int_equal(s[0].bytes, 5);
    assert_true(s[0].nans == WR_STAT_UNKNOWN); /* not a float */
    assert_true(s[0].has_lower && s[0].lower_n == 4 && s[0].has_upper && s[0].upper_n == 2);
    assert_int_equal(s[1].nans, 3), assert_int_equal(s[1].nulls, 1);
    assert_int_equal(s[2].values, 4);
    assert_true(s[2].nulls == WR_STAT_UNKNOWN && !s[2].has_lower); /* elements of lists have no bounds */
    wr_entries_clear(&got), wr_entries_clear(&e), wr_buf_free(&out);
}

static void a_vector_names_its_file_whole_however_long(void **state) {
    wr_err err = WR_ERR_INIT;
    char path[3000];
    memset(path, 'x', sizeof path);
    path[0] = '/', path[sizeof path - 1] = 0;
    for (int version = 2; version <= 3; version++) {
        wr_entries e = {0}, got = {0};
        wr_buf out = WR_BUF_INIT;
        wr_manifest_file row;
        wr_manifest_head h = head_of(version, 1);
        wr_ice_file *f = vector(path, 12);
        if (version == 2) f->content_offset = f->content_size = -1;
        OK(wr_entries_add(&e, WR_ENTRY_ADDED, f, true, &err));
        OK(wr_manifest_encode(&h, &e, &out, &row, &err));
        row.path = "m.avro";
        OK(wr_manifest_decode(wr_buf_view(&out), &row, NULL, true, &got, &err));
        const wr_ice_file *g = got.v[0].file;
        assert_string_equal(g->referenced, path);
        assert_int_equal(g->content_offset, version == 3 ? 4 : -1);
        assert_int_equal(g->content_size, version == 3 ? 40 : -1);
        assert_int_equal(g->stats[0].field_id, WR_FIELD_PATH);
        wr_entries_clear(&got), wr_entries_clear(&e), wr_buf_free(&out);
    }
}

/* A manifest as others write it: partitioned, fields in another order, no field 143. */
static void put_foreign(wr_buf *out) {
    wr_err err = WR_ERR_INIT;
    static const char schema[] =
        "{\"type\":\"record\",\"name\":\"manifest_entry\",\"fields\":["
        "{\"name\":\"data_file\",\"type\":{\"type\":\"record\",\"name\":\"r2\",\"fields\":["
        "{\"name\":\"new_in_v9\",\"type\":[{\"type\":\"array\",\"items\":\"string\"},\"null\"],\"field-id\":999},"
        "{\"name\":\"record_count\",\"type\":\"long\",\"field-id\":103},{\"name\":\"file_size_in_bytes\",\"type\":"
        "\"long\",\"field-id\":104},"
        "{\"name\":\"file_path\",\"type\":\"string\",\"field-id\":100},{\"name\":\"file_format\",\"type\":\"string\","
        "\"field-id\":101},"
        "{\"name\":\"partition\",\"type\":{\"type\":\"record\",\"name\":\"r102\",\"fields\":[{\"name\":\"day\","
        "\"type\":[\"null\",\"int\"],\"field-id\":1000}]},\"field-id\":102},"
        "{\"name\":\"split_offsets\",\"type\":[\"null\",{\"type\":\"array\",\"items\":\"long\",\"element-id\":133}],"
        "\"field-id\":132},"
        "{\"name\":\"sort_order_id\",\"type\":[\"null\",\"int\"],\"field-id\":140}]},\"field-id\":2},"
        "{\"name\":\"status\",\"type\":\"int\",\"field-id\":0},{\"name\":\"snapshot_id\",\"type\":[\"long\",\"null\"],"
        "\"field-id\":1}]}";
    wr_avro_writer w;
    OK(wr_avro_begin(&w, schema, NULL, 0, out, &err));
    wr_buf *b = &w.row;
    wr_avro_put_long(b, 0), wr_avro_put_long(b, 1), wr_avro_put_str(b, "?"), wr_avro_put_long(b, 0);
    wr_avro_put_long(b, 50), wr_avro_put_long(b, 5000);
    wr_avro_put_str(b, "file:/x/y.parquet"), wr_avro_put_str(b, "parquet");
    wr_avro_put_long(b, 1), wr_avro_put_long(b, 18000);
    wr_avro_put_long(b, 1), wr_avro_put_long(b, 2), wr_avro_put_long(b, 4), wr_avro_put_long(b, 400),
        wr_avro_put_long(b, 0);
    wr_avro_put_long(b, 1), wr_avro_put_long(b, 0);
    wr_avro_put_long(b, 1);
    wr_avro_put_long(b, 0), wr_avro_put_long(b, 6000000000000000001);
    OK(wr_avro_end_row(&w, &err));
    OK(wr_avro_end(&w, &err));
    wr_avro_writer_clear(&w);
}

static void foreign_manifests_are_read_but_partitions_not_rewritten(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_buf file = WR_BUF_INIT, out = WR_BUF_INIT;
    put_foreign(&file);
    wr_manifest_file mf = {.path = "foreign.avro", .sequence = 4, .snapshot_id = 1, .first_row_id = -1}, row;
    wr_entries e = {0};
    OK(wr_manifest_decode(wr_buf_view(&file), &mf, NULL, true, &e, &err));
    const wr_ice_file *f = e.v[0].file;
    assert_string_equal(f->path, "file:/x/y.parquet");
    assert_string_equal(f->format, "PARQUET");
    assert_int_equal(f->records, 50), assert_int_equal(f->bytes, 5000), assert_int_equal(f->sequence, 4);
    assert_int_equal(f->snapshot_id, 6000000000000000001);
    assert_int_equal(f->extra->nsplit_offsets, 2), assert_int_equal(f->extra->split_offsets[1], 400);
    wr_manifest_head h = head_of(2, 0);
    assert_int_equal(wr_manifest_encode(&h, &e, &out, &row, &err), WR_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "file:/x/y.parquet"));
    wr_entries_clear(&e), wr_buf_free(&file), wr_buf_free(&out);
}

static wr_manifest_list sample_list(void) {
    wr_err err = WR_ERR_INIT;
    wr_manifest_list l = {0};
    for (int i = 0; i < 3; i++) {
        wr_manifest_file m = {.path = wr_asprintf("/t/metadata/m%d.avro", i),
                              .length = 100 + i,
                              .spec_id = i,
                              .content = i == 2,
                              .sequence = 7,
                              .min_sequence = 3,
                              .snapshot_id = 8000000000000000000 + i,
                              .added_files = 1,
                              .existing_files = 2,
                              .deleted_files = 3,
                              .added_rows = 10,
                              .existing_rows = 20,
                              .deleted_rows = 30,
                              .first_row_id = i == 2 ? -1 : i * 100,
                              .npartitions = i == 1 ? 1 : -1};
        if (i == 1) {
            m.partitions = wr_calloc(1, sizeof *m.partitions);
            m.partitions[0] = (wr_partition_summary){
                .contains_null = true, .contains_nan = -1, .lower = (uint8_t *)wr_strdup("abc"), .lower_n = 3};
        }
        OK(wr_manifest_list_add(&l, &m, &err));
    }
    return l;
}

static void manifest_lists_read_back_with_partition_summaries(void **state) {
    wr_err err = WR_ERR_INIT;
    for (int version = 2; version <= 3; version++) {
        wr_manifest_list l = sample_list(), got = {0};
        wr_manifest_list_head h = {version, 8000000000000000009, -1, 7, 0};
        wr_buf out = WR_BUF_INIT;
        OK(wr_manifest_list_encode(&h, &l, &out, &err));
        OK(wr_manifest_list_decode(wr_buf_view(&out), "snap.avro", &got, &err));
        assert_int_equal(got.n, 3);
        for (int i = 0; i < 3; i++) {
            const wr_manifest_file *a = &l.v[i], *b = &got.v[i];
            assert_string_equal(a->path, b->path);
            assert_int_equal(a->snapshot_id, b->snapshot_id), assert_int_equal(a->content, b->content),
                assert_int_equal(a->length, b->length);
            assert_int_equal(a->min_sequence, b->min_sequence), assert_int_equal(a->deleted_rows, b->deleted_rows),
                assert_int_equal(a->spec_id, b->spec_id);
            assert_int_equal(b->first_row_id, version == 3 ? a->first_row_id : -1),
                assert_int_equal(a->npartitions, b->npartitions);
        }
        assert_int_equal(got.v[1].partitions[0].lower_n, 3);
        assert_null(got.v[1].partitions[0].upper);
        assert_int_equal(got.v[1].partitions[0].contains_nan, -1);
        wr_manifest_file copy;
        OK(wr_manifest_file_copy(&copy, &got.v[1], &err));
        assert_memory_equal(copy.partitions[0].lower, "abc", 3);
        wr_manifest_file_clear(&copy);
        wr_manifest_list_clear(&l), wr_manifest_list_clear(&got), wr_buf_free(&out);
    }
}

static void decode_manifest(wr_slice bytes) {
    wr_err err = WR_ERR_INIT;
    wr_manifest_file mf = {.path = "m.avro", .sequence = 9, .snapshot_id = 1, .content = 0};
    wr_entries e = {0};
    wr_manifest_decode(bytes, &mf, NULL, true, &e, &err);
    wr_entries_clear(&e);
}
static void decode_list(wr_slice bytes) {
    wr_err err = WR_ERR_INIT;
    wr_manifest_list l = {0};
    wr_manifest_list_decode(bytes, "snap.avro", &l, &err);
    wr_manifest_list_clear(&l);
}

static void damage_never_crashes(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_entries e = {0};
    wr_buf out = WR_BUF_INIT;
    wr_manifest_file row;
    wr_manifest_head h = head_of(3, 0);
    for (int i = 0; i < 3; i++) OK(wr_entries_add(&e, WR_ENTRY_ADDED, data_file("/a", 10), true, &err));
    OK(wr_manifest_encode(&h, &e, &out, &row, &err));
    /* the schema text is most of the file; flip in the rest only */
    uint8_t *copy = malloc(out.n);
    for (size_t n = 0; n < out.n; n += n + 600 < out.n ? 37 : 1) decode_manifest(wr_slice_of(out.p, n));
    for (size_t bit = 0; bit < out.n * 8; bit += bit / 8 + 600 < out.n ? 53 : 1) {
        memcpy(copy, out.p, out.n);
        copy[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        decode_manifest(wr_slice_of(copy, out.n));
    }
    free(copy);
    wr_entries_clear(&e), wr_buf_clear(&out);
    wr_manifest_list l = sample_list();
    wr_manifest_list_head lh = {3, 1, -1, 7, 0};
    OK(wr_manifest_list_encode(&lh, &l, &out, &err));
    damage(wr_buf_view(&out), decode_list);
    wr_manifest_list_clear(&l), wr_buf_free(&out);
}

static void each_failed_allocation_is_reported(void **state) {
    wr_err err = WR_ERR_INIT;
    for (uint64_t n = 1;; n++) {
        wr_entries e = {0}, got = {0};
        wr_manifest_list l = {0};
        wr_buf out = WR_BUF_INIT, list = WR_BUF_INIT;
        wr_manifest_file row;
        wr_manifest_head h = head_of(3, 0);
        wr_ice_file *f = data_file("/a", 10);
        wr_mem_fail_after(n);
        wr_code rc = wr_entries_add(&e, WR_ENTRY_ADDED, f, true, &err);
        if (rc != WR_OK) wr_ice_file_free(f);
        if (rc == WR_OK) rc = wr_manifest_encode(&h, &e, &out, &row, &err);
        if (rc == WR_OK) row.path = "m.avro", rc = wr_manifest_decode(wr_buf_view(&out), &row, NULL, true, &got, &err);
        if (rc == WR_OK) {
            row.path = wr_strdup("m.avro");
            rc = row.path ? wr_manifest_list_add(&l, &row, &err) : WR_E_NOMEM;
            if (rc != WR_OK && row.path) wr_manifest_file_clear(&row);
        }
        wr_manifest_list_head lh = {3, 1, -1, 7, 0};
        if (rc == WR_OK) rc = wr_manifest_list_encode(&lh, &l, &list, &err);
        wr_manifest_list_clear(&l);
        if (rc == WR_OK) rc = wr_manifest_list_decode(wr_buf_view(&list), "snap.avro", &l, &err);
        wr_mem_fail_after(0);
        wr_entries_clear(&e), wr_entries_clear(&got), wr_manifest_list_clear(&l), wr_buf_free(&out), wr_buf_free(&list);
        if (rc == WR_OK) break;
        assert_true(rc == WR_E_NOMEM || rc == WR_E_DECODE);
        assert_true(n < 5000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_entries_inherit_and_old_ones_keep_their_numbers),
        cmocka_unit_test(statistics_say_only_what_means_something),
        cmocka_unit_test(a_vector_names_its_file_whole_however_long),
        cmocka_unit_test(foreign_manifests_are_read_but_partitions_not_rewritten),
        cmocka_unit_test(manifest_lists_read_back_with_partition_summaries),
        cmocka_unit_test(damage_never_crashes),
        cmocka_unit_test(each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
