#include "rows.h"
#include <pthread.h>

#include <fcntl.h>

static wr_engine *eng;

static void put_file(const char *path, const void *p, size_t n) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    fclose(f);
}

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

static wr_code count(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    ++*(uint64_t *)ctx;
    return WR_OK;
}

static void assert_live_rows(const got *g, const wr_batch *b) {
    WR_AUTO_BUF wr_buf row = WR_BUF_INIT;
    for (uint32_t i = 0, k = 0; i < wr_batch_rows(b); i++) {
        if (wr_batch_dead(b, i)) continue;
        wr_buf_clear(&row);
        assert_ok(wr_batch_row(b, i, &row, err));
        assert_int_equal(row.n, g->at[k + 1] - g->at[k]);
        assert_memory_equal(row.p, g->bytes.p + g->at[k], row.n);
        k++;
    }
}

/* Writes the batch and reads it back; the rows must be the live ones. */
static wr_parquet_file round_trip(wr_batch *b, const wr_schema *s, const char *name, const wr_parquet_options *o) {
    char path[128];
    wr_parquet_file f = {0};
    static got g;
    assert_ok(wr_parquet_write(eng, b, tmp_path(path, name), o, &f, err));
    g = (got){0};
    assert_ok(wr_parquet_read(eng, path, s, NULL, take, &g, err));
    assert_int_equal(g.n, wr_batch_live_rows(b));
    assert_live_rows(&g, b);
    wr_buf_free(&g.bytes);
    unlink(path);
    return f;
}

static void files_of_no_row_one_row_and_only_nulls_are_files(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    wr_batch *b = NULL;
    uint64_t seed = 9;
    uint8_t room[256];
    wr_value v[NKINDS];
    assert_ok(wr_batch_new(s, &b, err));
    wr_parquet_file f = round_trip(b, s, "none.parquet", NULL);
    assert_int_equal(f.nsplits, 0);
    assert_int_equal(f.ncols, NKINDS);
    wr_parquet_file_clear(&f);
    random_values(v, &seed, 0, room);
    add(b, s, v);
    f = round_trip(b, s, "one.parquet", NULL);
    assert_int_equal(f.nsplits, 1);
    wr_parquet_file_clear(&f);
    wr_batch_kill(b, 0);
    f = round_trip(b, s, "dead.parquet", NULL);
    assert_int_equal(f.rows, 0);
    assert_false(f.cols[1].has_lower);
    wr_parquet_file_clear(&f);
    for (int i = 0; i < NKINDS; i++) v[i] = vnull();
    for (int i = 0; i < 2500; i++) add(b, s, v);
    f = round_trip(b, s, "nulls.parquet", NULL);
    for (int i = 0; i < NKINDS; i++) {
        assert_int_equal(f.cols[i].values, 2500);
        assert_int_equal(f.cols[i].nulls, 2500);
        assert_false(f.cols[i].has_lower || f.cols[i].has_upper);
    }
    wr_parquet_file_clear(&f);
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void columns_of_few_values_come_back_through_a_dictionary(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    for (int card = 1; card < 3000; card = card * 3 + 2) {
        wr_batch *b = NULL;
        assert_ok(wr_batch_new(s, &b, err));
        uint64_t seed = (uint64_t)card;
        uint8_t room[256];
        wr_value v[NKINDS];
        for (int i = 0; i < 9001; i++) {
            uint64_t one = 77 + rnd(&seed) % (uint64_t)card * 7919;
            for (int k = 0; k < 5; k++) rnd(&one);
            random_values(v, &one, 0, room);
            if (card % 2)
                for (int k = 0; k < NKINDS; k++) v[k].null = rnd(&seed) % 5 == 0;
            add(b, s, v);
        }
        for (uint32_t i = 0; i < 9000; i += 7) wr_batch_kill(b, i);
        wr_parquet_options o = {.row_group_rows = 4096};
        wr_parquet_file f = round_trip(b, s, "low.parquet", &o);
        assert_int_equal(f.nsplits, 2);
        if (card < 10) assert_true(f.bytes < 9001 * 20); /* 180 bytes a row without */
        wr_parquet_file_clear(&f);
        wr_batch_free(b);
    }
    wr_schema_unref(s);
}

static void values_larger_than_a_page_come_back(void **state) {
    wr_schema *s = schema_of((wr_type[]){T(WR_STRING), T(WR_FLOATS), T(WR_INT)}, 3);
    wr_batch *b = NULL;
    assert_ok(wr_batch_new(s, &b, err));
    size_t n = 3u << 20;
    char *big = malloc(n);
    uint64_t seed = 4;
    for (size_t i = 0; i < n; i++) big[i] = (char)('a' + rnd(&seed) % 26);
    for (int i = 0; i < 3000; i++)
        add(b, s,
            (wr_value[]){i % 7 ? vbytes(big, i % 1000 == 3 ? n - (size_t)i : (size_t)(i % 500)) : vnull(),
                         i % 5 ? vbytes(big, i == 88 ? 1u << 20 : (size_t)(i % 9) * 4) : vnull(), vint(i)});
    for (uint32_t i = 0; i < 3000; i += 6) wr_batch_kill(b, i);
    wr_parquet_file f = round_trip(b, s, "large.parquet", NULL);
    wr_parquet_file_clear(&f);
    free(big);
    wr_batch_free(b);
    wr_schema_unref(s);
}

/* More in a row group than DuckDB is asked for: nulls, a dictionary in front of the long values, empty ones between them, columns that may not be null, and what is between two long columns. */
static wr_schema *long_schema(void) {
    wr_column cols[] = {{.name = (char *)"id", .id = 1, .type = T(WR_INT), .key_ord = 1},
                        {.name = (char *)"a", .id = 2, .type = T(WR_BINARY), .nullable = true},
                        {.name = (char *)"b", .id = 3, .type = T(WR_LONG), .nullable = true},
                        {.name = (char *)"c", .id = 4, .type = T(WR_STRING)}};
    wr_schema *s = NULL;
    assert_ok(wr_schema_new(cols, 4, 1, &s, err));
    return s;
}

static wr_batch *long_batch(const wr_schema *s, char *big, size_t n) {
    wr_batch *b = NULL;
    uint64_t seed = 4;
    for (size_t i = 0; i < n; i++) big[i] = (char)('a' + (i % (4u << 20) < 1u << 20 ? rnd(&seed) : i) % 26);
    assert_ok(wr_batch_new(s, &b, err));
    for (int i = 0; i < 5000; i++) {
        size_t a = i == 2100 ? n : i == 2101 || i == 4999 ? 1u << 20 : i == 4000 ? (1u << 20) - 1 : i > 3000 ? (size_t)(i % 5) : 3;
        size_t c = i == 7 || i == 2100 ? 17u << 20 : (size_t)(i % 3);
        add(b, s, (wr_value[]){vint(i), i % 11 == 3 && a < 9 ? vnull() : vbytes(big, a), i % 4 ? vlong(i) : vnull(), vbytes(big + 1, c)});
    }
    for (uint32_t i = 0; i < 5000; i += 6) wr_batch_kill(b, i);
    return b;
}

static void long_values_come_back_alone_and_beside_others(void **state) {
    wr_schema *s = long_schema();
    size_t n = 40u << 20;
    char *big = malloc(n);
    wr_batch *b = long_batch(s, big, n);
    for (uint64_t rows = 2048; rows <= 8192; rows *= 2) {
        wr_parquet_file f = round_trip(b, s, "long.parquet", &(wr_parquet_options){.row_group_rows = rows});
        assert_int_equal(f.cols[1].upper_n, 16);
        wr_parquet_file_clear(&f);
    }
    free(big);
    wr_batch_free(b);
    wr_schema_unref(s);
}

static wr_code sum_row(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    for (size_t i = 0; i < row.n; i++) *(uint64_t *)ctx = *(uint64_t *)ctx * 31 + row.p[i];
    return WR_OK;
}

/* Each byte of a page's header and of the footer, and of the pages now and then. What a flip makes of it is an error or the same rows: sums stand behind the pages. */
static void a_garbled_file_of_long_values_is_an_error(void **state) {
    wr_schema *s = long_schema();
    size_t n = 33u << 20;
    char *big = calloc(1, n), path[128];
    wr_batch *b = NULL;
    assert_ok(wr_batch_new(s, &b, err));
    for (int i = 0; i < 3; i++) add(b, s, (wr_value[]){vint(i), i == 1 ? vbytes(big, n) : vnull(), vlong(i), vstr("x")});
    wr_parquet_file f = {0};
    assert_ok(wr_parquet_write(eng, b, tmp_path(path, "garbled.parquet"), NULL, &f, err));
    int fd = open(path, O_RDONLY);
    size_t bytes = f.bytes;
    uint8_t *file = malloc(bytes);
    assert_int_equal(read(fd, file, bytes), bytes);
    close(fd);
    wr_parquet_read_options o = {.columns = (int[]){1}, .ncolumns = 1};
    uint64_t sum = 0, failed = 0;
    assert_ok(wr_parquet_read(eng, path, s, &o, sum_row, &sum, err));
    for (size_t at = 0; at < bytes; at += at < 150 || at + 900 > bytes ? 3 : 211) {
        wr_err e = WR_ERR_INIT;
        uint64_t seen = 0;
        uint8_t was = file[at];
        file[at] ^= (uint8_t)(1u << at % 8);
        put_file(path, file, bytes);
        file[at] = was;
        wr_code rc = wr_parquet_read(eng, path, s, &o, sum_row, &seen, &e);
        if (rc != WR_OK) assert_non_null(strstr(e.msg, path)), failed++;
    }
    assert_true(failed > 20);
    for (size_t cut = bytes - 1; cut > bytes - 20; cut--) {
        wr_err e = WR_ERR_INIT;
        put_file(path, file, cut);
        assert_int_not_equal(wr_parquet_read(eng, path, s, &o, sum_row, &sum, &e), WR_OK);
    }
    unlink(path);
    wr_parquet_file_clear(&f);
    free(big), free(file);
    wr_batch_free(b);
    wr_schema_unref(s);
}

#define assert_bounds(col, lo, lo_n, hi, hi_n)                                                                         \
    do {                                                                                                               \
        const wr_column_stats *c_ = (col);                                                                             \
        assert_true(c_->has_lower && c_->has_upper);                                                                   \
        assert_int_equal(c_->lower_n, lo_n);                                                                           \
        assert_memory_equal(c_->lower, lo, lo_n);                                                                      \
        assert_int_equal(c_->upper_n, hi_n);                                                                           \
        assert_memory_equal(c_->upper, hi, hi_n);                                                                      \
    } while (0)

static void bounds_are_over_live_rows_in_icebergs_form(void **state) {
    wr_schema *s = schema_of(
        (wr_type[]){T(WR_BOOL), T(WR_INT), T(WR_LONG), DEC(9, 2), DEC(30, 0), T(WR_DATE), T(WR_FLOAT), T(WR_DOUBLE)},
        8);
    wr_batch *b = NULL;
    assert_ok(wr_batch_new(s, &b, err));
    add(b, s,
        (wr_value[]){vbool(0), vint(INT32_MIN), vlong(INT64_MIN), vdec(-999999999), vdec(-((__int128)1 << 90)),
                     vint(-99999), vf32(-1e30f), vf64(-1e300)});
    add(b, s, (wr_value[]){vbool(1), vint(-2), vlong(-3), vdec(-129), vdec(127), vint(1), vf32(-0.0f), vf64(NAN)});
    add(b, s, (wr_value[]){vbool(1), vint(300), vlong(5), vdec(128), vdec(-128), vint(2), vf32(0.0f), vf64(-INFINITY)});
    add(b, s, (wr_value[]){vnull(), vnull(), vnull(), vnull(), vnull(), vnull(), vf32(NAN), vf64(2)});
    add(b, s,
        (wr_value[]){vbool(0), vint(INT32_MAX), vlong(INT64_MAX), vdec(999999999), vdec((__int128)1 << 90), vint(99999),
                     vf32(1e30f), vf64(1e300)});
    wr_batch_kill(b, 0);
    wr_batch_kill(b, 4);
    wr_parquet_file f = round_trip(b, s, "bounds.parquet", NULL);
    assert_bounds(&f.cols[0], "\x01", 1, "\x01", 1);
    assert_bounds(&f.cols[1], "\xfe\xff\xff\xff", 4, "\x2c\x01\0\0", 4);
    assert_bounds(&f.cols[2], "\xfd\xff\xff\xff\xff\xff\xff\xff", 8, "\x05\0\0\0\0\0\0\0", 8);
    assert_bounds(&f.cols[3], "\xff\x7f", 2, "\x00\x80", 2);
    assert_bounds(&f.cols[4], "\x80", 1, "\x7f", 1);
    assert_bounds(&f.cols[5], "\x01\0\0\0", 4, "\x02\0\0\0", 4);
    assert_bounds(&f.cols[6], "\0\0\0\x80", 4, "\0\0\0\0", 4); /* -0.0 below +0.0 */
    assert_bounds(&f.cols[7], "\0\0\0\0\0\0\xf0\xff", 8, "\0\0\0\0\0\0\0\x40", 8);
    assert_int_equal(f.cols[6].nans, 1);
    assert_int_equal(f.cols[7].nans, 1);
    assert_int_equal(f.cols[1].values, 3);
    assert_int_equal(f.cols[1].nulls, 1);
    assert_true(f.cols[1].bytes > 0);
    wr_parquet_file_clear(&f);
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void bounds_of_text_stop_at_16_characters(void **state) {
    static const struct {
        const char *value, *lower, *upper;
        wr_kind kind;
    } c[] = {
        {"", "", "", WR_STRING},
        {"0123456789abcdef", "0123456789abcdef", "0123456789abcdef", WR_STRING},
        {"0123456789abcdefg", "0123456789abcdef", "0123456789abcdeg", WR_STRING},
        {"ääääääääääääääää+", "ääääääääääääääää", "äääääääääääääääå", WR_STRING},
        {"aaaaaaaaaaaaaaa\x7f+", "aaaaaaaaaaaaaaa\x7f", "aaaaaaaaaaaaaaa\xc2\x80", WR_STRING}, /* grows by a byte */
        {"aaaaaaaaaaaaaaa\xed\x9f\xbf+", "aaaaaaaaaaaaaaa\xed\x9f\xbf", "aaaaaaaaaaaaaaa\xee\x80\x80",
         WR_STRING}, /* over the surrogates */
        {"aaaaaaaaaaaaaaa\xf4\x8f\xbf\xbf+", "aaaaaaaaaaaaaaa\xf4\x8f\xbf\xbf", "aaaaaaaaaaaaaab",
         WR_STRING}, /* the last character there is */
        {"0123456789abcdefg", "0123456789abcdef", "0123456789abcdeg", WR_BINARY},
        {"0123456789abcd\xff\xff\xff", "0123456789abcd\xff\xff", "0123456789abce", WR_BINARY},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
         "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", NULL, WR_BINARY},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        wr_schema *s = schema_of((wr_type[]){T(c[i].kind)}, 1);
        wr_batch *b = NULL;
        assert_ok(wr_batch_new(s, &b, err));
        add(b, s, (wr_value[]){vstr(c[i].value)});
        wr_parquet_file f = round_trip(b, s, "text.parquet", NULL);
        assert_true(f.cols[0].has_lower);
        assert_int_equal(f.cols[0].lower_n, strlen(c[i].lower));
        assert_memory_equal(f.cols[0].lower, c[i].lower, strlen(c[i].lower));
        assert_int_equal(f.cols[0].has_upper, c[i].upper != NULL);
        if (c[i].upper) {
            assert_int_equal(f.cols[0].upper_n, strlen(c[i].upper));
            assert_memory_equal(f.cols[0].upper, c[i].upper, strlen(c[i].upper));
        }
        wr_parquet_file_clear(&f);
        wr_batch_free(b);
        wr_schema_unref(s);
    }
}

static void a_lists_statistics_are_those_of_its_elements(void **state) {
    wr_schema *s = schema_of((wr_type[]){T(WR_FLOATS)}, 1);
    wr_batch *b = NULL;
    float nan_one[2] = {NAN, 1};
    assert_ok(wr_batch_new(s, &b, err));
    add(b, s, (wr_value[]){vbytes(nan_one, 8)});
    add(b, s, (wr_value[]){vnull()});
    add(b, s, (wr_value[]){vbytes("", 0)});
    wr_parquet_file f = round_trip(b, s, "list.parquet", NULL);
    assert_int_equal(f.cols[0].field_id, WR_ELEMENT_ID_BASE + 1);
    assert_int_equal(f.cols[0].values, 4); /* entries of the column: two floats, a null, an empty list */
    assert_int_equal(f.cols[0].nulls, 2);
    assert_int_equal(f.cols[0].nans, 1);
    assert_false(f.cols[0].has_lower);
    wr_parquet_file_clear(&f);
    wr_batch_free(b);
    wr_schema_unref(s);
}

/* One row as text, values separated by '|'. */
static const wr_schema *shown;
static wr_code show(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    wr_value v[64];
    WR_TRY(wr_row_read(shown, row, v, err));
    for (int i = 0; i < shown->ncols; i++) {
        if (i) wr_buf_u8(ctx, '|');
        wr_value_print(ctx, shown->cols[i].type, &v[i]);
    }
    wr_buf_u8(ctx, '\n');
    return WR_OK;
}

static void old_files_read_under_a_new_schema(void **state) {
    wr_schema *old = schema_of((wr_type[]){T(WR_INT), T(WR_FLOAT), DEC(9, 2), T(WR_STRING), DEC(18, 2)}, 5);
    wr_batch *b = NULL;
    wr_parquet_file f = {0};
    char path[128];
    assert_ok(wr_batch_new(old, &b, err));
    add(b, old, (wr_value[]){vint(-7), vf32(1.5f), vdec(-250), vstr("x"), vdec(1)});
    add(b, old, (wr_value[]){vnull(), vnull(), vnull(), vnull(), vnull()});
    assert_ok(wr_parquet_write(eng, b, tmp_path(path, "old.parquet"), NULL, &f, err));
    wr_column cols[] = {
        {.name = "text", .id = 4, .type = T(WR_STRING), .nullable = true}, /* moved and renamed */
        {.name = "i", .id = 1, .type = T(WR_LONG), .nullable = true},
        {.name = "f", .id = 2, .type = T(WR_DOUBLE), .nullable = true},
        {.name = "d", .id = 3, .type = DEC(20, 2), .nullable = true},
        {.name = "e", .id = 5, .type = DEC(38, 2), .nullable = true},
        {.name = "new", .id = 9, .type = T(WR_STRING), .nullable = true, .has_initial = true, .initial = vstr("init")},
        {.name = "newer", .id = 10, .type = T(WR_FLOATS), .nullable = true},
    };
    wr_schema *s = NULL;
    assert_ok(wr_schema_new(cols, 7, 2, &s, err));
    WR_AUTO_BUF wr_buf out = WR_BUF_INIT;
    shown = s;
    assert_ok(wr_parquet_read(eng, path, s, NULL, show, &out, err));
    assert_string_equal(wr_buf_cstr(&out), "x|-7|1.5|-2.50|0.01|null|null\nnull|null|null|null|null|null|null\n");
    wr_buf_clear(&out);
    assert_ok(wr_parquet_read(eng, path, s, &(wr_parquet_read_options){.fill_initial = true}, show, &out, err));
    assert_string_equal(wr_buf_cstr(&out), "x|-7|1.5|-2.50|0.01|init|null\nnull|null|null|null|null|init|null\n");
    /* some columns only: rows of a schema of those */
    wr_schema *some = NULL;
    assert_ok(wr_schema_new((wr_column[]){cols[5], cols[1]}, 2, 1, &some, err));
    shown = some;
    wr_buf_clear(&out);
    assert_ok(wr_parquet_read(eng, path, s,
                              &(wr_parquet_read_options){.columns = (int[]){5, 1}, .ncolumns = 2, .fill_initial = true},
                              show, &out, err));
    assert_string_equal(wr_buf_cstr(&out), "init|-7\ninit|null\n");
    /* none that the file has */
    shown = some;
    wr_schema *lacking = NULL;
    assert_ok(wr_schema_new((wr_column[]){cols[5]}, 1, 1, &lacking, err));
    shown = lacking;
    wr_buf_clear(&out);
    assert_ok(wr_parquet_read(eng, path, lacking, NULL, show, &out, err));
    assert_string_equal(wr_buf_cstr(&out), "null\nnull\n");
    unlink(path);
    wr_parquet_file_clear(&f);
    wr_batch_free(b);
    wr_schema_unref(old), wr_schema_unref(s), wr_schema_unref(some), wr_schema_unref(lacking);
}

static void a_change_of_type_that_iceberg_does_not_know_is_refused(void **state) {
    wr_schema *old = schema_of((wr_type[]){T(WR_LONG), T(WR_BINARY), DEC(9, 2)}, 3);
    wr_batch *b = NULL;
    wr_parquet_file f = {0};
    char path[128];
    wr_err e = WR_ERR_INIT;
    uint64_t n = 0;
    assert_ok(wr_batch_new(old, &b, err));
    add(b, old, (wr_value[]){vlong(1), vbytes("x", 1), vdec(1)});
    assert_ok(wr_parquet_write(eng, b, tmp_path(path, "type.parquet"), NULL, &f, err));
    const wr_type wrong[][3] = {{T(WR_INT), T(WR_BINARY), DEC(9, 2)},
                                {T(WR_LONG), T(WR_STRING), DEC(9, 2)},
                                {T(WR_LONG), T(WR_FLOATS), DEC(9, 2)},
                                {T(WR_LONG), T(WR_BINARY), DEC(9, 3)},
                                {T(WR_LONG), T(WR_BINARY), DEC(8, 2)}};
    for (int i = 0; i < 5; i++) {
        wr_schema *s = schema_of(wrong[i], 3);
        assert_int_equal(wr_parquet_read(eng, path, s, NULL, count, &n, &e), WR_E_DECODE);
        assert_non_null(strstr(e.msg, path));
        assert_non_null(strstr(e.msg, "does not read as"));
        wr_schema_unref(s);
    }
    assert_int_equal(n, 0);
    unlink(path);
    wr_parquet_file_clear(&f);
    wr_batch_free(b);
    wr_schema_unref(old);
}

static void a_file_without_field_ids_is_refused(void **state) {
    static const char plain[] = /* column "a" int32: 1, 2; by pyarrow */
        "\x50\x41\x52\x31\x15\x00\x15\x1c\x15\x1c\x2c\x15\x04\x15\x00\x15\x06\x15\x06\x1c\x00\x00\x00\x02\x00\x00\x00"
        "\x04"
        "\x01\x01\x00\x00\x00\x02\x00\x00\x00\x15\x04\x19\x2c\x35\x00\x18\x06\x73\x63\x68\x65\x6d\x61\x15\x02\x00\x15"
        "\x02"
        "\x25\x02\x18\x01\x61\x00\x16\x04\x19\x1c\x19\x1c\x26\x00\x1c\x15\x02\x19\x25\x06\x00\x19\x18\x01\x61\x15\x00"
        "\x16"
        "\x04\x16\x42\x16\x42\x26\x08\x49\x1c\x15\x00\x15\x00\x15\x02\x00\x3c\x29\x06\x19\x26\x00\x04\x00\x00\x00\x16"
        "\x42"
        "\x16\x04\x26\x08\x16\x42\x00\x28\x20\x70\x61\x72\x71\x75\x65\x74\x2d\x63\x70\x70\x2d\x61\x72\x72\x6f\x77\x20"
        "\x76"
        "\x65\x72\x73\x69\x6f\x6e\x20\x32\x36\x2e\x30\x2e\x31\x19\x1c\x1c\x00\x00\x00\x7a\x00\x00\x00\x50\x41\x52\x31";
    wr_schema *s = schema_of((wr_type[]){T(WR_INT)}, 1);
    char path[128];
    wr_err e = WR_ERR_INIT;
    uint64_t n = 0;
    put_file(tmp_path(path, "plain.parquet"), plain, sizeof plain - 1);
    assert_int_equal(wr_parquet_read(eng, path, s, NULL, count, &n, &e), WR_E_DECODE);
    assert_non_null(strstr(e.msg, "no field ids"));
    unlink(path);
    wr_schema_unref(s);
}

static size_t small_file(char path[128], uint8_t **ret_bytes, wr_schema **ret_schema) {
    wr_batch *b = NULL;
    wr_parquet_file f = {0};
    wr_schema *s = schema_of((wr_type[]){T(WR_LONG), T(WR_STRING), T(WR_FLOATS), T(WR_STRING)}, 4);
    assert_ok(wr_batch_new(s, &b, err));
    for (int i = 0; i < 30; i++) {
        char text[32];
        snprintf(text, sizeof text, "row %d", i);
        add(b, s,
            (wr_value[]){vlong(i), vstr(text), i % 3 ? vbytes("\0\0\x80?\0\0\0@", 8) : vnull(),
                         vstr(i % 2 ? "even" : "odd")});
    }
    assert_ok(wr_parquet_write(eng, b, tmp_path(path, "small.parquet"), NULL, &f, err));
    *ret_bytes = malloc(f.bytes);
    FILE *in = fopen(path, "r");
    assert_int_equal(fread(*ret_bytes, 1, f.bytes, in), f.bytes);
    fclose(in);
    size_t n = f.bytes;
    wr_parquet_file_clear(&f);
    wr_batch_free(b);
    *ret_schema = s;
    return n;
}

static void a_truncated_file_is_an_error(void **state) {
    char path[128];
    uint8_t *bytes;
    wr_schema *s;
    size_t n = small_file(path, &bytes, &s);
    uint64_t rows = 0;
    for (size_t cut = 0; cut < n; cut += cut < 16 || cut > n - 16 ? 1 : 13) {
        wr_err e = WR_ERR_INIT;
        put_file(path, bytes, cut);
        wr_code rc = wr_parquet_read(eng, path, s, NULL, count, &rows, &e);
        assert_int_not_equal(rc, WR_OK);
        assert_non_null(strstr(e.msg, path));
    }
    put_file(path, bytes, n);
    rows = 0;
    assert_ok(wr_parquet_read(eng, path, s, NULL, count, &rows, err));
    assert_int_equal(rows, 30);
    unlink(path);
    free(bytes);
    wr_schema_unref(s);
}

static void a_garbled_file_never_breaks_the_engine(void **state) {
    char path[128];
    uint8_t *bytes;
    wr_schema *s;
    size_t n = small_file(path, &bytes, &s);
    uint64_t rows = 0, seed = 17;
    for (size_t at = 0; at < n; at += 1 + rnd(&seed) % 3) {
        wr_err e = WR_ERR_INIT;
        uint8_t was = bytes[at];
        bytes[at] ^= (uint8_t)(1u << rnd(&seed) % 8);
        put_file(path, bytes, n);
        bytes[at] = was;
        wr_code rc = wr_parquet_read(eng, path, s, NULL, count, &rows, &e);
        if (rc != WR_OK) assert_non_null(strstr(e.msg, path));
    }
    put_file(path, bytes, n);
    rows = 0;
    assert_ok(wr_parquet_read(eng, path, s, NULL, count, &rows, err));
    assert_int_equal(rows, 30);
    unlink(path);
    free(bytes);
    wr_schema_unref(s);
}

static wr_code in_order(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    int32_t v;
    memcpy(&v, row.p + 1, 4);
    if (v != (int32_t)pos || pos != (*(uint64_t *)ctx)++)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "row %d came at %llu", v, (unsigned long long)pos);
    return WR_OK;
}

typedef struct job {
    wr_engine *e;
    const wr_schema *s;
    const char *path;
    wr_code rc;
    uint64_t rows;
} job;
static void *read_job(void *arg) {
    job *j = arg;
    wr_err e = WR_ERR_INIT;
    for (int i = 0; i < 3; i++) j->rows = 0, j->rc = wr_parquet_read(j->e, j->path, j->s, NULL, in_order, &j->rows, &e);
    return NULL;
}

static void rows_come_in_file_order_whatever_the_threads(void **state) {
    wr_schema *s = schema_of((wr_type[]){T(WR_INT)}, 1);
    wr_batch *b = NULL;
    wr_engine *many = NULL;
    wr_parquet_file f = {0};
    char path[128];
    assert_ok(wr_batch_new(s, &b, err));
    for (int i = 0; i < 300000; i++) add(b, s, (wr_value[]){vint(i)});
    assert_ok(wr_parquet_write(NULL, b, tmp_path(path, "order.parquet"), &(wr_parquet_options){.row_group_rows = 10000},
                               &f, err));
    assert_ok(wr_engine_open(&(wr_engine_options){.threads = 4}, &many, err));
    job jobs[4];
    pthread_t t[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = (job){.e = i % 2 ? many : eng, .s = s, .path = path};
        assert_int_equal(pthread_create(&t[i], NULL, read_job, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(jobs[i].rc, WR_OK);
        assert_int_equal(jobs[i].rows, 300000);
    }
    unlink(path);
    wr_engine_close(many);
    wr_parquet_file_clear(&f);
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void a_missing_file_is_not_found(void **state) {
    wr_schema *s = schema_of((wr_type[]){T(WR_INT)}, 1);
    wr_err e = WR_ERR_INIT;
    uint64_t n = 0;
    assert_int_equal(wr_parquet_read(eng, "/tmp/weir-engine-no-such.parquet", s, NULL, count, &n, &e), WR_E_NOTFOUND);
    wr_schema_unref(s);
}

static wr_code enough(void *ctx, uint64_t pos, wr_slice row, wr_err *err) {
    return pos < 3 ? WR_OK : wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "enough");
}
static void the_callers_no_ends_reading(void **state) {
    char path[128];
    uint8_t *bytes;
    wr_schema *s;
    wr_err e = WR_ERR_INIT;
    small_file(path, &bytes, &s);
    assert_int_equal(wr_parquet_read(eng, path, s, NULL, enough, NULL, &e), WR_E_CANCELLED);
    unlink(path);
    free(bytes);
    wr_schema_unref(s);
}

static void a_file_that_is_there_is_not_written_over(void **state) {
    char path[128];
    wr_schema *s = schema_of((wr_type[]){T(WR_INT)}, 1);
    wr_batch *b = NULL;
    wr_err e = WR_ERR_INIT;
    wr_parquet_file f = {0};
    assert_ok(wr_batch_new(s, &b, err));
    put_file(tmp_path(path, "there.parquet"), "precious", 8);
    assert_int_equal(wr_parquet_write(eng, b, path, NULL, &f, &e), WR_E_EXISTS);
    char back[9] = "";
    FILE *in = fopen(path, "r");
    assert_int_equal(fread(back, 1, 8, in), 8);
    fclose(in);
    assert_string_equal(back, "precious");
    unlink(path);
    assert_int_equal(wr_parquet_write(eng, b, "/tmp/weir-engine-no-folder/x.parquet", NULL, &f, &e), WR_E_IO);
    assert_null(f.cols);
    wr_batch_free(b);
    wr_schema_unref(s);
}

static void each_failed_allocation_while_writing_leaves_no_file(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    wr_batch *b = NULL;
    uint64_t seed = 5, nth = 1;
    assert_ok(wr_batch_new(s, &b, err));
    for (int i = 0; i < 3000; i++) {
        wr_value v[NKINDS];
        uint8_t room[256];
        random_values(v, &seed, 5, room);
        if (i % 3) v[13] = vstr("often");
        add(b, s, v);
    }
    for (;; nth++) {
        char path[128];
        wr_err e = WR_ERR_INIT;
        wr_parquet_file f = {0};
        tmp_path(path, "nomem.parquet");
        wr_mem_fail_after(nth);
        wr_code rc = wr_parquet_write(eng, b, path, NULL, &f, &e);
        wr_mem_fail_after(0);
        if (rc == WR_OK) {
            wr_parquet_file_clear(&f);
            unlink(path);
            break;
        }
        assert_int_equal(rc, WR_E_NOMEM);
        assert_int_not_equal(access(path, F_OK), 0);
    }
    assert_true(nth > 20);
    wr_batch_free(b);
    wr_schema_unref(s);
}

static wr_code write_in_pieces(const wr_schema *s, wr_batch *const *pieces, int n, const char *path, wr_parquet_file *f, wr_err *err) {
    wr_parquet_writer *w;
    wr_parquet_options o = {.row_group_rows = 2048};
    WR_TRY(wr_parquet_writer_open(s, path, &o, &w, err));
    for (int i = 0; i < n; i++) {
        wr_code rc = wr_parquet_writer_add(w, pieces[i], err);
        if (rc != WR_OK) return wr_parquet_writer_abandon(w), rc;
    }
    assert_true(wr_parquet_writer_bytes(w) > 4);
    return wr_parquet_writer_close(w, f, err);
}

static void a_file_written_piece_by_piece_is_that_of_all_rows(void **state) {
    enum { PIECES = 5, ROWS = 3000 };
    wr_schema *s = schema_of(all_kinds, NKINDS);
    wr_batch *whole = NULL, *piece[PIECES] = {0};
    uint64_t seed = 77;
    char path[128];
    wr_parquet_file one = {0}, many = {0};
    assert_ok(wr_batch_new(s, &whole, err));
    for (int p = 0; p < PIECES; p++) {
        assert_ok(wr_batch_new(s, &piece[p], err));
        for (int i = 0; i < (p == 2 ? 0 : ROWS); i++) { /* one of them is empty */
            wr_value v[NKINDS];
            uint8_t room[256];
            random_values(v, &seed, p % 2 ? 3 : 0, room);
            if (p == 3) v[13] = vstr("\x7f the largest text of all, of more than sixteen characters");
            add(whole, s, v), add(piece[p], s, v);
            if (i % 7 == 0) wr_batch_kill(piece[p], (uint32_t)i), wr_batch_kill(whole, wr_batch_rows(whole) - 1);
        }
    }
    assert_ok(wr_parquet_write(eng, whole, tmp_path(path, "whole.parquet"), NULL, &one, err));
    unlink(path);
    assert_ok(write_in_pieces(s, piece, PIECES, tmp_path(path, "pieces.parquet"), &many, err));
    for (int p = 0; p < PIECES; p++) wr_batch_free(piece[p]); /* texts of the footer are the writer's own */
    assert_int_equal(many.rows, one.rows);
    assert_true(many.nsplits > one.nsplits);
    for (int i = 0; i < NKINDS; i++) {
        const wr_column_stats *a = &one.cols[i], *b = &many.cols[i];
        assert_true(a->values == b->values && a->nulls == b->nulls && a->nans == b->nans);
        assert_true(a->has_lower == b->has_lower && a->has_upper == b->has_upper && a->lower_n == b->lower_n && a->upper_n == b->upper_n);
        assert_memory_equal(a->lower, b->lower, a->lower_n);
        assert_memory_equal(a->upper, b->upper, a->upper_n);
    }
    static got g;
    g = (got){0};
    assert_ok(wr_parquet_read(eng, path, s, NULL, take, &g, err));
    assert_int_equal(g.n, one.rows);
    assert_live_rows(&g, whole);
    wr_buf_free(&g.bytes);
    unlink(path);
    wr_parquet_file_clear(&one), wr_parquet_file_clear(&many);
    wr_batch_free(whole);
    wr_schema_unref(s);
}

static void a_file_written_piece_by_piece_that_fails_is_not_there(void **state) {
    wr_schema *s = schema_of(all_kinds, NKINDS);
    wr_batch *b[2] = {0};
    uint64_t seed = 6, nth = 1;
    char path[128];
    tmp_path(path, "pieces-fail.parquet");
    for (int p = 0; p < 2; p++) {
        assert_ok(wr_batch_new(s, &b[p], err));
        for (int i = 0; i < 2500; i++) {
            wr_value v[NKINDS];
            uint8_t room[256];
            random_values(v, &seed, 5, room);
            add(b[p], s, v);
        }
    }
    for (;; nth++) {
        wr_err e = WR_ERR_INIT;
        wr_parquet_file f = {0};
        wr_mem_fail_after(nth);
        wr_code rc = write_in_pieces(s, b, 2, path, &f, &e);
        wr_mem_fail_after(0);
        if (rc == WR_OK) {
            wr_parquet_file_clear(&f);
            unlink(path);
            break;
        }
        assert_int_equal(rc, WR_E_NOMEM);
        assert_int_not_equal(access(path, F_OK), 0);
    }
    assert_true(nth > 20);
    for (int p = 0; p < 2; p++) wr_batch_free(b[p]);
    wr_schema_unref(s);
    wr_column key = {.name = (char *)"k", .id = 1, .type = T(WR_INT), .key_ord = 1};
    wr_value none = {.null = true};
    wr_err e = WR_ERR_INIT;
    wr_parquet_file f = {0};
    assert_ok(wr_schema_new(&key, 1, 1, &s, err));
    assert_ok(wr_batch_new(s, &b[0], err));
    add(b[0], s, &none);
    assert_int_equal(write_in_pieces(s, b, 1, path, &f, &e), WR_E_INVAL);
    assert_int_not_equal(access(path, F_OK), 0);
    wr_batch_free(b[0]);
    wr_schema_unref(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_all_kinds_survive_file_and_back),
        cmocka_unit_test(files_of_no_row_one_row_and_only_nulls_are_files),
        cmocka_unit_test(columns_of_few_values_come_back_through_a_dictionary),
        cmocka_unit_test(values_larger_than_a_page_come_back),
        cmocka_unit_test(long_values_come_back_alone_and_beside_others),
        cmocka_unit_test(a_garbled_file_of_long_values_is_an_error),
        cmocka_unit_test(bounds_are_over_live_rows_in_icebergs_form),
        cmocka_unit_test(bounds_of_text_stop_at_16_characters),
        cmocka_unit_test(a_lists_statistics_are_those_of_its_elements),
        cmocka_unit_test(old_files_read_under_a_new_schema),
        cmocka_unit_test(a_change_of_type_that_iceberg_does_not_know_is_refused),
        cmocka_unit_test(a_file_without_field_ids_is_refused),
        cmocka_unit_test(a_truncated_file_is_an_error),
        cmocka_unit_test(a_garbled_file_never_breaks_the_engine),
        cmocka_unit_test(rows_come_in_file_order_whatever_the_threads),
        cmocka_unit_test(a_missing_file_is_not_found),
        cmocka_unit_test(the_callers_no_ends_reading),
        cmocka_unit_test(a_file_that_is_there_is_not_written_over),
        cmocka_unit_test(each_failed_allocation_while_writing_leaves_no_file),
        cmocka_unit_test(a_file_written_piece_by_piece_is_that_of_all_rows),
        cmocka_unit_test(a_file_written_piece_by_piece_that_fails_is_not_there),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
