#include "rows.h"
#include "bloom.h"

/* The filters that DuckDB 1.5.5 wrote for the same values, headers included. */
#define HEAD "\x15\x40\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x00"
static const struct {
    wr_type t;
    const char *bytes;
} duckdb[] = {
    {{WR_LONG}, HEAD "\x10\x00\x18\x08\x04\x00\x04\x02\x02\x04\x80\x02\x00\x00\x26\x08\x60\x00\x40\x04\x01\x00\x02\x88\x40\x40\x00\x20\x20\x09\x00\x00"},
    {{WR_INT}, HEAD "\x24\x00\x0c\x00\x00\x00\x20\x0c\x00\xc0\x80\x00\x05\x02\x00\x20\x80\x00\x80\x84\x00\x20\x42\x00\x00\x20\x50\x02\x00\x38\x00\x00"},
    {{WR_STRING}, HEAD "\x22\x00\x04\x20\x01\x00\x0a\x10\x02\x00\x00\x0e\x10\x10\x40\x10\x20\x40\x02\x02\x00\x02\x50\x01\x00\x40\x00\x2a\x00\x00\x02\xc1"},
    {{WR_DECIMAL, 12, 2}, HEAD "\x00\x12\x44\x00\x00\x00\x14\x05\x00\x20\x20\xa0\x82\x40\x00\x02\x30\x84\x00\x00\x05\x00\x00\x90\x00\x41\x20\x20\x00\x42\x10\x00"},
};

static const char *const texts[] = {"", "a", "gr\xc3\xbcn", "long text of more than thirty-two bytes"};

static wr_value value_of(wr_type t, int i) {
    if (t.kind == WR_LONG) return vlong(i + 1);
    if (t.kind == WR_INT) return vint(i + 1);
    if (t.kind == WR_STRING) return vstr(texts[i]);
    return vdec(i * 100);
}

static wr_batch *column_of(wr_schema *s, int n, int different) {
    wr_batch *b = NULL;
    assert_ok(wr_batch_new(s, &b, err));
    for (int i = 0; i < n; i++) add(b, s, (wr_value[]){value_of(s->cols[0].type, i % different)});
    return b;
}

static void filters_are_those_that_duckdb_writes(void **state) {
    static wr_dense d;
    for (size_t k = 0; k < sizeof duckdb / sizeof *duckdb; k++) {
        wr_schema *s = schema_of(&duckdb[k].t, 1);
        wr_batch *b = column_of(s, 40, 4);
        wr_bloom f = {0};
        wr_dict dict = {0};
        WR_AUTO_BUF wr_buf plain = WR_BUF_INIT, by_dict = WR_BUF_INIT;
        assert_true(wr_bloom_suits(duckdb[k].t));
        assert_true(wr_bloom_reset(&f, 4));
        wr_dense_of(b, b->chunks[0], 0, &d);
        wr_bloom_add(&f, duckdb[k].t, &d);
        wr_bloom_put(&f, &plain);
        assert_int_equal(plain.n, 47);
        assert_memory_equal(plain.p, duckdb[k].bytes, 47);
        assert_true(wr_bloom_reset(&f, 4));
        assert_true(wr_dict_reset(&dict, 40));
        assert_int_equal(wr_dict_add(&dict, duckdb[k].t, b->widths[0], &d), WR_DICT_GOOD);
        wr_bloom_add_dict(&f, duckdb[k].t, &dict);
        wr_bloom_put(&f, &by_dict);
        assert_memory_equal(by_dict.p, duckdb[k].bytes, 47);
        wr_dict_free(&dict);
        wr_bloom_free(&f);
        wr_batch_free(b);
        wr_schema_unref(s);
    }
}

static bool may_have(const wr_bloom *f, int64_t v) {
    static wr_dense d;
    wr_bloom one = {0};
    wr_schema *s = schema_of((wr_type[]){T(WR_LONG)}, 1);
    wr_batch *b = NULL;
    assert_ok(wr_batch_new(s, &b, err));
    add(b, s, (wr_value[]){vlong(v)});
    wr_dense_of(b, b->chunks[0], 0, &d);
    assert_true(wr_bloom_reset(&one, 1));
    one.blocks = f->blocks; /* where the value goes in a filter of that size */
    wr_free(one.words);
    one.words = wr_calloc(f->blocks, 32);
    one.cap = f->blocks;
    wr_bloom_add(&one, T(WR_LONG), &d);
    bool all = true;
    for (uint32_t i = 0; i < f->blocks * 8; i++) all = all && (one.words[i] & ~f->words[i]) == 0;
    wr_bloom_free(&one);
    wr_batch_free(b);
    wr_schema_unref(s);
    return all;
}

static void a_filter_is_as_large_as_its_different_values_need(void **state) {
    static wr_dense d;
    static const struct { int rows, different; uint32_t bytes_min, bytes_max; } c[] = {{100000, 100000, 65536, 131072}, {100000, 3000, 2048, 8192}, {100000, 1, 32, 32}, {2048, 2048, 2048, 4096}};
    for (size_t k = 0; k < sizeof c / sizeof *c; k++) {
        wr_schema *s = schema_of((wr_type[]){T(WR_LONG)}, 1);
        wr_batch *b = NULL;
        wr_bloom f = {0};
        assert_ok(wr_batch_new(s, &b, err));
        for (int i = 0; i < c[k].rows; i++) add(b, s, (wr_value[]){vlong(i % c[k].different)});
        assert_true(wr_bloom_reset(&f, (uint64_t)c[k].rows));
        for (uint32_t i = 0; i < b->nchunks; i++) {
            wr_dense_of(b, b->chunks[i], 0, &d);
            wr_bloom_add(&f, T(WR_LONG), &d);
        }
        wr_bloom_fold(&f);
        if (f.blocks * 32 < c[k].bytes_min || f.blocks * 32 > c[k].bytes_max) fail_msg("%d different values: %u bytes", c[k].different, f.blocks * 32);
        int wrong = 0;
        for (int i = 0; i < 300; i++) assert_true(may_have(&f, i % c[k].different));
        for (int i = 0; i < 1000; i++) wrong += may_have(&f, 1000000 + i);
        assert_true(wrong < 50);
        wr_bloom_free(&f);
        wr_batch_free(b);
        wr_schema_unref(s);
    }
}

static void types_that_readers_would_look_for_wrongly_have_none(void **state) {
    assert_false(wr_bloom_suits(T(WR_DOUBLE)));
    assert_false(wr_bloom_suits(T(WR_FLOAT)));
    assert_false(wr_bloom_suits(T(WR_FLOATS)));
    assert_false(wr_bloom_suits(T(WR_BINARY)));
    assert_true(wr_bloom_suits(DEC(38, 2)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_are_those_that_duckdb_writes),
        cmocka_unit_test(a_filter_is_as_large_as_its_different_values_need),
        cmocka_unit_test(types_that_readers_would_look_for_wrongly_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
