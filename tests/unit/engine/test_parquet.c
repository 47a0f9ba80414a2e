#include "rows.h"

static wr_engine *eng;

static int open_engine(void **state) {
    wr_err e = WR_ERR_INIT;
    return wr_engine_open(NULL, &eng, &e) == WR_OK ? 0 : -1;
}
static int close_engine(void **state) {
    wr_engine_close(eng);
    return 0;
}

/* Rows read back, one after the other, with their lengths. */
typedef struct got {
    wr_buf bytes;
    size_t at[20001];
    uint64_t n, expect_pos;
} got;
static wr_code take(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    got *g = ctx;
    assert_int_equal(pos, g->expect_pos++);
    assert_true(g->n < 20000);
    g->at[g->n++] = g->bytes.n;
    wr_buf_put(&g->bytes, row.p, row.n);
    g->at[g->n] = g->bytes.n;
    return WR_OK;
}

static void rows_of_all_kinds_survive_file_and_back(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    wr_batch *b = NULL;
    assert_ok(wr_batch_new(s, &b, err));
    uint64_t seed = 1;
    for (int i = 0; i < 7000; i++) {
        wr_value v[NKINDS];
        uint8_t room[256];
        random_values(v, &seed, i < 3000 ? 5 : 0, room);
        add(b, s, v);
    }
    for (uint32_t i = 0; i < 7000; i += 3) wr_batch_kill(b, i);
    for (uint32_t i = 4096; i < 6144; i++) wr_batch_kill(b, i);
    char path[128];
    wr_parquet_file f = {0};
    wr_parquet_options o = {.row_group_rows = 2048};
    assert_ok(wr_parquet_write(eng, b, tmp_path(path, "all.parquet"), &o, &f, err));
    assert_int_equal(f.rows, wr_batch_live_rows(b));
    static got g;
    g = (got){0};
    assert_ok(wr_parquet_read(eng, path, s, NULL, take, &g, err));
    assert_int_equal(g.n, f.rows);
    WR_AUTO_BUF wr_buf row = WR_BUF_INIT;
    for (uint32_t i = 0, k = 0; i < 7000; i++) {
        if (wr_batch_dead(b, i)) continue;
        wr_buf_clear(&row);
        assert_ok(wr_batch_row(b, i, &row, err));
        assert_int_equal(row.n, g.at[k + 1] - g.at[k]);
        assert_memory_equal(row.p, g.bytes.p + g.at[k], row.n);
        k++;
    }
    wr_buf_free(&g.bytes);
    wr_parquet_file_clear(&f);
    unlink(path);
    wr_batch_free(b);
    wr_schema_unref(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_all_kinds_survive_file_and_back),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
