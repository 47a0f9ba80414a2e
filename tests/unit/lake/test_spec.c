/* Partition specs: transforms against the values that the Iceberg specification and its reference tests publish, tuples through manifests of every type, and specs that
 * follow each other in one document. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iceberg/avro.h"
#include "iceberg/manifest.h"
#include "iceberg/metadata.h"
#include "weir/base/mem.h"

#define OK(x) assert_int_equal(x, WR_OK)

static wr_type kind_of(int kind) { return (wr_type){.kind = (uint8_t)kind}; }
static wr_value text(const char *s) { return (wr_value){.s = wr_slice_str(s)}; }
static int32_t bucket(wr_type t, wr_value v, uint32_t n) { return wr_spec_value(WR_TERM_BUCKET, n, t, &v).i32; }

/* Appendix B gives 32-bit hashes; a bucket of 2^31-1 shows all but their sign, and of smaller ones what is left. */
static void hashes_are_those_of_the_specification(void **state) {
    static const struct { int kind; int64_t whole; const char *bytes; size_t n; int32_t hash; } h[] = {
        {WR_INT, 34, NULL, 0, 2017239379},
        {WR_LONG, 34, NULL, 0, 2017239379},
        {WR_DATE, 17486, NULL, 0, -653330422},                           /* 2017-11-16 */
        {WR_TIMESTAMP, 1510871468000000, NULL, 0, -2047944441},          /* 2017-11-16T22:31:08 */
        {WR_TIMESTAMP, 1510871468000001, NULL, 0, -1207196810},
        {WR_TIMESTAMPTZ, 1510871468000000, NULL, 0, -2047944441},
        {WR_STRING, 0, "iceberg", 7, 1210000089},
        {WR_BINARY, 0, "\0\1\2\3", 4, -188683207},
    };
    for (size_t i = 0; i < sizeof h / sizeof *h; i++) {
        wr_value v = {0};
        if (h[i].bytes) v.s = wr_slice_of(h[i].bytes, h[i].n);
        else if (h[i].kind == WR_INT || h[i].kind == WR_DATE) v.i32 = (int32_t)h[i].whole;
        else v.i64 = h[i].whole;
        for (uint32_t n = 1; n < 2000; n = n * 3 + 1) assert_int_equal(bucket(kind_of(h[i].kind), v, n), (h[i].hash & INT32_MAX) % (int32_t)n);
        assert_int_equal(bucket(kind_of(h[i].kind), v, INT32_MAX), (h[i].hash & INT32_MAX) % INT32_MAX);
    }
    wr_type dec = {WR_DECIMAL, 9, 2};
    assert_int_equal(bucket(dec, (wr_value){.dec = 1420}, INT32_MAX), -500754589 & INT32_MAX); /* 14.20 */
}

/* floor_w and friends; the examples of the specification's table "Truncate Transform Details". */
static void truncation_goes_down_and_keeps_characters_whole(void **state) {
    wr_value v;
    static const int32_t ints[][3] = {{10, 1, 0}, {10, -1, -10}, {10, 5, 0}, {10, -10, -10}, {10, -11, -20}, {1, -7, -7}};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        v = (wr_value){.i32 = ints[i][1]};
        assert_int_equal(wr_spec_value(WR_TERM_TRUNCATE, (uint32_t)ints[i][0], kind_of(WR_INT), &v).i32, ints[i][2]);
        v = (wr_value){.i64 = ints[i][1]};
        assert_int_equal(wr_spec_value(WR_TERM_TRUNCATE, (uint32_t)ints[i][0], kind_of(WR_LONG), &v).i64, ints[i][2]);
    }
    v = (wr_value){.dec = 1065};
    assert_int_equal((int64_t)wr_spec_value(WR_TERM_TRUNCATE, 50, (wr_type){WR_DECIMAL, 9, 2}, &v).dec, 1050);
    v = (wr_value){.dec = -5};
    assert_int_equal((int64_t)wr_spec_value(WR_TERM_TRUNCATE, 10, (wr_type){WR_DECIMAL, 9, 2}, &v).dec, -10);
    v = text("iceberg"), v = wr_spec_value(WR_TERM_TRUNCATE, 3, kind_of(WR_STRING), &v);
    assert_true(wr_slice_eq(v.s, wr_slice_str("ice")));
    v = text("\xe5\x8c\x97\xf0\x9f\xa7\x8a\xc3\xa9x"), v = wr_spec_value(WR_TERM_TRUNCATE, 2, kind_of(WR_STRING), &v);
    assert_true(wr_slice_eq(v.s, wr_slice_str("\xe5\x8c\x97\xf0\x9f\xa7\x8a")));
    v = text("ab"), v = wr_spec_value(WR_TERM_TRUNCATE, 3, kind_of(WR_STRING), &v);
    assert_true(wr_slice_eq(v.s, wr_slice_str("ab")));
    v = (wr_value){.s = wr_slice_of("\1\2\3\4\5", 5)}, v = wr_spec_value(WR_TERM_TRUNCATE, 3, kind_of(WR_BINARY), &v);
    assert_true(wr_slice_eq(v.s, wr_slice_of("\1\2\3", 3)));
}

static void times_go_down_before_1970(void **state) {
    static const struct { int64_t us; int32_t year, month, day, hour; } t[] = {
        {1510871468000001, 47, 574, 17486, 419686}, {0, 0, 0, 0, 0}, {-1, -1, -1, -1, -1}, {-3600000000, -1, -1, -1, -1}, {-3600000001, -1, -1, -1, -2}, {-31536000000000, -1, -12, -365, -8760},
        {-31536000000001, -2, -13, -366, -8761},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        wr_value v = {.i64 = t[i].us}, d = {.i32 = t[i].day};
        const int32_t want[] = {t[i].year, t[i].month, t[i].day, t[i].hour};
        for (int k = 0; k < 4; k++) {
            uint8_t term = (uint8_t)(WR_TERM_YEAR + k);
            assert_int_equal(wr_spec_value(term, 0, kind_of(WR_TIMESTAMP), &v).i32, want[k]);
            assert_int_equal(wr_spec_value(term, 0, kind_of(WR_TIMESTAMPTZ), &v).i32, want[k]);
            if (k < 3) assert_int_equal(wr_spec_value(term, 0, kind_of(WR_DATE), &d).i32, want[k]);
        }
    }
    for (uint8_t k = 0; k <= WR_TERM_VOID; k++) assert_true(wr_spec_value(k, 4, kind_of(WR_LONG), &(wr_value){.null = true}).null);
    assert_true(wr_spec_value(WR_TERM_VOID, 0, kind_of(WR_LONG), &(wr_value){.i64 = 1}).null);
}

/* ------------------------------------------------------------------ tuples */
/* One column of each type, and one term for each. */
static const wr_column columns[] = {
    {.name = (char *)"b", .id = 1, .type = {.kind = WR_BOOL}, .nullable = true},      {.name = (char *)"i", .id = 2, .type = {.kind = WR_INT}, .nullable = true},
    {.name = (char *)"l", .id = 3, .type = {.kind = WR_LONG}, .nullable = true},      {.name = (char *)"f", .id = 4, .type = {.kind = WR_FLOAT}, .nullable = true},
    {.name = (char *)"d", .id = 5, .type = {.kind = WR_DOUBLE}, .nullable = true},    {.name = (char *)"n", .id = 6, .type = {WR_DECIMAL, 9, 2}, .nullable = true},
    {.name = (char *)"w", .id = 7, .type = {WR_DECIMAL, 38, 4}, .nullable = true},    {.name = (char *)"y", .id = 8, .type = {.kind = WR_DATE}, .nullable = true},
    {.name = (char *)"t", .id = 9, .type = {.kind = WR_TIMESTAMP}, .nullable = true}, {.name = (char *)"z", .id = 10, .type = {.kind = WR_TIMESTAMPTZ}, .nullable = true},
    {.name = (char *)"s p/=", .id = 11, .type = {.kind = WR_STRING}, .nullable = true}, {.name = (char *)"x", .id = 12, .type = {.kind = WR_BINARY}, .nullable = true},
};
#define NCOLS ((int)(sizeof columns / sizeof *columns))

typedef struct doc { wr_ice_table *t; wr_schema *s; } doc;

static doc doc_new(const wr_column *cols, int n) {
    wr_err err = WR_ERR_INIT;
    doc d;
    OK(wr_schema_new(cols, n, 1, &d.s, &err));
    OK(wr_ice_new(NULL, "db", "t", "/t", 3, d.s, &d.t, &err));
    return d;
}
static void doc_free(doc *d) { wr_ice_table_free(d->t), wr_schema_unref(d->s); }

static wr_spec *choose(const doc *d, const char *const *terms, int n) {
    wr_err err = WR_ERR_INIT;
    wr_term t[16] = {{0}};
    wr_spec *s;
    for (int i = 0; i < n; i++) OK(wr_term_parse(terms[i], &t[i], &err));
    OK(wr_spec_choose(d->t->doc, t, n, d->s, &s, &err));
    for (int i = 0; i < n; i++) wr_free(t[i].column);
    return s;
}

static void values_of(int which, wr_value v[NCOLS]) {
    memset(v, 0, NCOLS * sizeof *v);
    if (which == 0) {
        for (int i = 0; i < NCOLS; i++) v[i].null = true;
        return;
    }
    int sign = which % 2 ? 1 : -1;
    v[0].b = which % 2, v[1].i32 = sign * 34 * which, v[2].i64 = sign * INT64_C(4000000000) * which, v[3].f32 = 1.5f * (float)(sign * which), v[4].f64 = -0.1 * which;
    v[5].dec = sign * 999999900 - which, v[6].dec = sign * ((__int128)INT64_MAX * 1000000007 + which), v[7].i32 = sign * 17486, v[8].i64 = sign * INT64_C(1510871468000001), v[9].i64 = which;
    v[10] = text(which == 1 ? "" : "a/b=c \xe5\x8c\x97"), v[11].s = wr_slice_of("\0\xff\0z", (size_t)which % 5);
}

static void tuples_of_every_type_come_back_from_a_manifest(void **state) {
    wr_err err = WR_ERR_INIT;
    doc d = doc_new(columns, NCOLS);
    static const char *const terms[] = {"b", "i", "bucket(16, l)", "f", "n", "w", "y", "day(t)", "hour(z)", "s p/=", "truncate(2, x)", "bucket(5, s p/=)"};
    int n = (int)(sizeof terms / sizeof *terms), cols[16];
    wr_spec *spec = choose(&d, terms, n);
    assert_int_equal(spec->n, n), assert_int_equal(spec->id, 1), assert_int_equal(spec->fields[0].id, 1000), assert_int_equal(spec->fields[n - 1].id, 1000 + n - 1);
    OK(wr_meta_add_spec(d.t->doc, spec, &err));
    wr_specs specs = {0};
    OK(wr_specs_of(d.t->doc, 0, &specs, &err));
    assert_int_equal(specs.n, 2), assert_true(wr_spec_same(specs.v[1], spec));
    for (int i = 0; i < n; i++) cols[i] = wr_schema_find_id(d.s, spec->fields[i].source_id);
    wr_entries e = {0}, got = {0};
    wr_buf out = WR_BUF_INIT;
    wr_manifest_file row;
    for (int k = 0; k < 6; k++) {
        wr_value vals[NCOLS];
        wr_buf tuple = WR_BUF_INIT;
        char path[16];
        values_of(k, vals);
        OK(wr_spec_tuple(spec, cols, vals, &tuple, &err));
        snprintf(path, sizeof path, "/f%d", k);
        wr_ice_file *f = wr_ice_file_new(WR_ICE_DATA, path);
        f->records = 1;
        OK(wr_ice_file_set_partition(f, spec->id, wr_buf_view(&tuple), &err));
        OK(wr_entries_add(&e, WR_ENTRY_ADDED, f, true, &err));
        wr_buf_free(&tuple);
    }
    for (int version = 2; version <= 3; version++) {
        wr_manifest_head h = {.format_version = version, .schema_json = "{}", .spec = specs.v[1], .snapshot_id = 1, .sequence = 1};
        wr_buf_clear(&out);
        OK(wr_manifest_encode(&h, &e, &out, &row, &err));
        row.path = wr_strdup("m.avro");
        OK(wr_manifest_decode(wr_buf_view(&out), &row, &specs, true, &got, &err));
        assert_int_equal(got.n, e.n);
        for (int i = 0; i < got.n; i++) assert_true(wr_ice_file_same_partition(got.v[i].file, e.v[i].file));
        assert_int_equal(row.npartitions, n), assert_int_equal(row.spec_id, spec->id);
        int32_t low, high;
        memcpy(&low, row.partitions[1].lower, 4), memcpy(&high, row.partitions[1].upper, 4);
        assert_true(row.partitions[1].contains_null && row.partitions[1].contains_nan == 0 && low == -34 * 4 && high == 34 * 5);
        assert_true(row.partitions[9].lower_n == 0 && row.partitions[9].lower);
        wr_entries_clear(&got);
        OK(wr_manifest_decode(wr_buf_view(&out), &row, NULL, true, &got, &err)); /* without specs they are read and cannot be written */
        wr_buf again = WR_BUF_INIT;
        wr_manifest_file second;
        assert_int_equal(wr_manifest_encode(&h, &got, &again, &second, &err), WR_E_UNSUPPORTED);
        wr_entries_clear(&got), wr_manifest_file_clear(&row), wr_buf_free(&again);
    }
    wr_buf folder = WR_BUF_INIT;
    OK(wr_spec_folder(spec, wr_ice_file_tuple(e.v[2].file), &folder, &err));
    assert_string_equal(wr_buf_cstr(&folder), "b=false/i=-68/l_bucket=15/f=-3/n=-9999999.02/w=-922337210141838006498343.0651/y=1922-02-16/t_day=1922-02-15/z_hour=1970-01-01-00/"
                                              "s~20p~2F~3D=a~2Fb~3Dc~20~E5~8C~97/x_trunc=0x00ff/s~20p~2F~3D_bucket=2");
    wr_buf_free(&folder), wr_buf_free(&out), wr_entries_clear(&e), wr_specs_clear(&specs), wr_spec_unref(spec), doc_free(&d);
}

static void every_bit_that_flips_and_every_end_is_answered(void **state) {
    wr_err err = WR_ERR_INIT;
    doc d = doc_new(columns, NCOLS);
    static const char *const terms[] = {"n", "s p/=", "day(t)"};
    wr_spec *spec = choose(&d, terms, 3);
    OK(wr_meta_add_spec(d.t->doc, spec, &err));
    wr_specs specs = {0};
    OK(wr_specs_of(d.t->doc, 0, &specs, &err));
    wr_value vals[NCOLS];
    int cols[3];
    wr_buf tuple = WR_BUF_INIT, out = WR_BUF_INIT;
    values_of(2, vals);
    for (int i = 0; i < 3; i++) cols[i] = wr_schema_find_id(d.s, spec->fields[i].source_id);
    OK(wr_spec_tuple(spec, cols, vals, &tuple, &err));
    wr_entries e = {0};
    wr_ice_file *f = wr_ice_file_new(WR_ICE_DATA, "/f");
    OK(wr_ice_file_set_partition(f, 1, wr_buf_view(&tuple), &err));
    OK(wr_entries_add(&e, WR_ENTRY_ADDED, f, true, &err));
    wr_manifest_head h = {.format_version = 3, .schema_json = "{}", .spec = specs.v[1], .snapshot_id = 1, .sequence = 1};
    wr_manifest_file row;
    OK(wr_manifest_encode(&h, &e, &out, &row, &err));
    row.path = wr_strdup("m");
    for (size_t i = 0; i < out.n * 9; i++) {
        wr_entries got = {0};
        size_t n = i < out.n ? i : out.n, at = (i - (i < out.n ? 0 : out.n)) / 8;
        if (i >= out.n) out.p[at] ^= (uint8_t)(1u << (i % 8));
        wr_err ignored = WR_ERR_INIT;
        if (wr_manifest_decode(wr_slice_of(out.p, n), &row, &specs, true, &got, &ignored) != WR_OK) assert_true(ignored.msg[0] != 0);
        if (i >= out.n) out.p[at] ^= (uint8_t)(1u << (i % 8));
        wr_entries_clear(&got);
    }
    wr_value read[3];
    for (size_t i = 0; i < tuple.n; i++) assert_int_equal(wr_spec_read(spec, wr_slice_of(tuple.p, i), read, &err), WR_E_CORRUPT);
    wr_manifest_file_clear(&row), wr_entries_clear(&e), wr_buf_free(&out), wr_buf_free(&tuple), wr_specs_clear(&specs), wr_spec_unref(spec), doc_free(&d);
}

static wr_code all_of_it(const doc *d, cJSON *copy, const wr_term *terms, int n, wr_err *err) {
    WR_CLEANUP(wr_specs_clear) wr_specs specs = {0};
    WR_AUTO_BUF wr_buf tuple = WR_BUF_INIT, out = WR_BUF_INIT;
    wr_entries e = {0}, got = {0};
    wr_manifest_file row = {.npartitions = -1};
    wr_value vals[NCOLS];
    wr_spec *spec;
    int cols[16];
    values_of(2, vals);
    WR_TRY(wr_spec_choose(copy, terms, n, d->s, &spec, err));
    for (int i = 0; i < n; i++) cols[i] = wr_schema_find_id(d->s, spec->fields[i].source_id);
    wr_code rc = wr_meta_add_spec(copy, spec, err);
    if (rc == WR_OK) rc = wr_specs_of(copy, 0, &specs, err);
    if (rc == WR_OK) rc = wr_spec_tuple(spec, cols, vals, &tuple, err);
    if (rc == WR_OK) rc = wr_spec_folder(spec, wr_buf_view(&tuple), &out, err);
    wr_buf_clear(&out);
    wr_ice_file *f = rc == WR_OK ? wr_ice_file_new(WR_ICE_DATA, "/f") : NULL;
    if (rc == WR_OK) rc = f ? wr_ice_file_set_partition(f, spec->id, wr_buf_view(&tuple), err) : wr_nomem(err, "file", 1);
    if (rc == WR_OK) rc = wr_entries_add(&e, WR_ENTRY_ADDED, f, false, err);
    if (rc == WR_OK) rc = wr_manifest_encode(&(wr_manifest_head){.format_version = 3, .schema_json = "{}", .spec = specs.v[1], .snapshot_id = 1, .sequence = 1}, &e, &out, &row, err);
    if (rc == WR_OK) rc = (row.path = wr_strdup("m")) ? wr_manifest_decode(wr_buf_view(&out), &row, &specs, true, &got, err) : wr_nomem(err, "path", 1);
    if (rc == WR_OK) rc = wr_meta_settle_clashes(copy, WR_CLASH_RENAME, err);
    wr_manifest_file_clear(&row), wr_entries_clear(&e), wr_entries_clear(&got), wr_ice_file_free(f), wr_spec_unref(spec);
    return rc;
}

static void each_failed_allocation_is_reported(void **state) {
    static const wr_term terms[] = {{WR_TERM_IDENTITY, 0, (char *)"n"}, {WR_TERM_TRUNCATE, 4, (char *)"s p/="}, {WR_TERM_DAY, 0, (char *)"t"}, {WR_TERM_BUCKET, 4, (char *)"l"}};
    doc d = doc_new(columns, NCOLS);
    bool over = false;
    for (uint64_t n = 1; !over; n++) {
        wr_err err = WR_ERR_INIT;
        cJSON *copy = cJSON_Duplicate(d.t->doc, 1);
        wr_mem_fail_after(n);
        wr_code rc = all_of_it(&d, copy, terms, 4, &err);
        over = wr_mem_fail_after(0) > 0;
        assert_true(rc == (over ? WR_OK : WR_E_NOMEM) || (!over && rc == WR_E_DECODE));
        cJSON_Delete(copy);
        assert_true(n < 20000);
    }
    doc_free(&d);
}

/* ------------------------------------------------------------------ specs one after the other */
static void fields_keep_ids_and_equal_specs_their_number(void **state) {
    wr_err err = WR_ERR_INIT;
    doc d = doc_new(columns, NCOLS);
    wr_spec *plain = choose(&d, NULL, 0);
    assert_int_equal(plain->id, 0);
    wr_spec *a = choose(&d, (const char *const[]){"month(t)", "bucket(4, l)"}, 2);
    OK(wr_meta_add_spec(d.t->doc, a, &err));
    wr_spec *b = choose(&d, (const char *const[]){"bucket(8, l)", "bucket(4, l)", "month(t)"}, 3);
    OK(wr_meta_add_spec(d.t->doc, b, &err));
    assert_int_equal(a->id, 1), assert_int_equal(b->id, 2);
    assert_int_equal(b->fields[0].id, 1002), assert_int_equal(b->fields[1].id, 1001), assert_int_equal(b->fields[2].id, 1000);
    assert_string_equal(b->fields[0].name, "l_bucket"), assert_string_equal(b->fields[1].name, "l_bucket_2"), assert_string_equal(b->fields[2].name, "t_month");
    wr_spec *again = choose(&d, (const char *const[]){"month(t)", "bucket(4, l)"}, 2);
    assert_int_equal(again->id, 1);
    OK(wr_meta_add_spec(d.t->doc, again, &err));
    assert_int_equal(wr_meta_num(d.t->doc, "last-partition-id", 0), 1002);
    wr_buf said = WR_BUF_INIT;
    OK(wr_spec_print(b, d.s, &said, &err));
    assert_string_equal(wr_buf_cstr(&said), "bucket(8, l), bucket(4, l), month(t)");
    again->fields[0].kind = WR_TERM_YEAR; /* another one under the same number */
    assert_int_equal(wr_meta_add_spec(d.t->doc, again, &err), WR_E_CONFLICT);
    wr_buf_free(&said), wr_spec_unref(plain), wr_spec_unref(a), wr_spec_unref(b), wr_spec_unref(again), doc_free(&d);
}

static void a_field_never_has_the_name_of_another_column(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_column cols[] = {{.name = (char *)"t", .id = 1, .type = {.kind = WR_DATE}, .nullable = true}, {.name = (char *)"t_day", .id = 2, .type = {.kind = WR_INT}, .nullable = true},
                        {.name = (char *)"c", .id = 3, .type = {.kind = WR_STRING}, .nullable = true}};
    doc d = doc_new(cols, 3);
    wr_spec *s = choose(&d, (const char *const[]){"day(t)", "c"}, 2);
    assert_string_equal(s->fields[0].name, "t_day_2"), assert_string_equal(s->fields[1].name, "c");
    OK(wr_meta_add_spec(d.t->doc, s, &err));
    cols[2].name = (char *)"gone", cols[1].name = (char *)"c"; /* c is the name of another column now */
    wr_schema *next;
    int64_t id;
    OK(wr_schema_new(cols, 3, 2, &next, &err));
    assert_true(wr_meta_would_clash(d.t->doc, next));
    OK(wr_meta_add_schema(d.t->doc, next, WR_SCHEMA_EVOLVES, 0, &id, &err));
    assert_true(wr_json_set_num(d.t->doc, "current-schema-id", id));
    cJSON *copy = cJSON_Duplicate(d.t->doc, 1);
    OK(wr_meta_settle_clashes(d.t->doc, WR_CLASH_RENAME, &err));
    wr_specs all = {0};
    OK(wr_specs_of(d.t->doc, id, &all, &err));
    assert_int_equal(all.n, 2), assert_string_equal(all.v[1]->fields[1].name, "c_2"), assert_int_equal(all.v[1]->fields[1].source_id, 3);
    assert_false(wr_meta_would_clash(d.t->doc, next));
    OK(wr_meta_settle_clashes(copy, WR_CLASH_REMOVE, &err));
    assert_int_equal(cJSON_GetArraySize(wr_json_get(copy, "partition-specs")), 1);
    assert_true(wr_spec_fits(s, next));
    wr_schema *fewer;
    OK(wr_schema_new(cols, 2, 3, &fewer, &err));
    assert_false(wr_spec_fits(s, fewer));
    cJSON_Delete(copy), wr_specs_clear(&all), wr_schema_unref(next), wr_schema_unref(fewer), wr_spec_unref(s), doc_free(&d);
}

static void what_is_not_known_of_a_spec_is_said(void **state) {
    wr_err err = WR_ERR_INIT;
    doc d = doc_new(columns, NCOLS);
    static const char *const odd[] = {
        "{\"spec-id\":7,\"fields\":[{\"source-id\":1,\"field-id\":1000,\"name\":\"p\",\"transform\":\"zorder\"}]}",
        "{\"spec-id\":7,\"fields\":[{\"source-id\":99,\"field-id\":1000,\"name\":\"p\",\"transform\":\"identity\"}]}",
        "{\"spec-id\":7,\"fields\":[{\"source-ids\":[1,2],\"field-id\":1000,\"name\":\"p\",\"transform\":\"bucket[4]\"}]}",
        "{\"spec-id\":7,\"fields\":[{\"source-id\":2,\"field-id\":1000,\"name\":\"p\",\"transform\":\"bucket[0]\"}]}",
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        cJSON *js, *copy = cJSON_Duplicate(d.t->doc, 1);
        wr_specs all = {0};
        OK(wr_json_parse(wr_slice_str(odd[i]), "spec", &js, &err));
        assert_true(wr_json_push(wr_json_array(copy, "partition-specs"), js));
        OK(wr_specs_of(copy, 0, &all, &err));
        assert_non_null(wr_specs_find(&all, 7)->why_not);
        wr_specs_clear(&all), cJSON_Delete(copy);
    }
    doc_free(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_those_of_the_specification),
        cmocka_unit_test(truncation_goes_down_and_keeps_characters_whole),
        cmocka_unit_test(times_go_down_before_1970),
        cmocka_unit_test(tuples_of_every_type_come_back_from_a_manifest),
        cmocka_unit_test(every_bit_that_flips_and_every_end_is_answered),
        cmocka_unit_test(each_failed_allocation_is_reported),
        cmocka_unit_test(fields_keep_ids_and_equal_specs_their_number),
        cmocka_unit_test(a_field_never_has_the_name_of_another_column),
        cmocka_unit_test(what_is_not_known_of_a_spec_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
