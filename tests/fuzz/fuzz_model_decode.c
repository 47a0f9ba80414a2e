/* The first byte picks the decoder, the rest is its input. What decodes must encode to something that decodes to the
 * same. */
#include <stdlib.h>
#include "weir/base/mem.h"
#include "weir/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(x)                                                                                                        \
    if (!(x)) abort()

static wr_schema *row_schema(void) {
    static wr_schema *s;
    if (s) return s;
    wr_column c[14] = {0};
    char name[14][4];
    wr_err e = WR_ERR_INIT;
    for (int i = 0; i < 14; i++) {
        name[i][0] = (char)('a' + i), name[i][1] = 0;
        c[i] = (wr_column){.name = name[i], .id = i + 1, .type = {(uint8_t)(i % 12 + 1), 0, 0}, .nullable = true};
        if (c[i].type.kind == WR_DECIMAL) c[i].type = (wr_type){WR_DECIMAL, 38, 10};
    }
    MUST(wr_schema_new(c, 14, 1, &s, &e) == WR_OK);
    return s;
}

static void row(wr_slice in) {
    wr_schema *s = row_schema();
    wr_value v[14];
    wr_err e = WR_ERR_INIT;
    if (wr_row_read(s, in, v, &e) != WR_OK) return;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT, text = WR_BUF_INIT;
    size_t at = wr_row_begin(&b, 14);
    for (int i = 0; i < 14; i++) {
        wr_row_put(&b, at, i, s->cols[i].type, &v[i]);
        wr_value_print(&text, s->cols[i].type, &v[i]);
    }
    MUST(wr_slice_eq(in, wr_buf_view(&b)));
}

static void change(wr_slice in) {
    wr_rd r = wr_rd_of(in.p, in.n);
    wr_change c, d;
    wr_err e = WR_ERR_INIT;
    if (wr_change_decode(&r, &c, &e) != WR_OK) return;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_change_encode(&b, &c);
    r = wr_rd_of(b.p, b.n);
    MUST(wr_change_decode(&r, &d, &e) == WR_OK && wr_rd_left(&r) == 0);
    MUST(c.op == d.op && c.table == d.table && c.schema_version == d.schema_version);
    MUST(wr_slice_eq(c.before, d.before) && wr_slice_eq(c.after, d.after));
}

static void ddl(wr_slice in) {
    wr_rd r = wr_rd_of(in.p, in.n);
    WR_CLEANUP(wr_ddl_clear) wr_ddl c = {0};
    WR_CLEANUP(wr_ddl_clear) wr_ddl d = {0};
    wr_err e = WR_ERR_INIT;
    if (wr_ddl_decode(&r, &c, &e) != WR_OK) return;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT, again = WR_BUF_INIT;
    MUST(wr_ddl_encode(&b, &c, &e) == WR_OK);
    r = wr_rd_of(b.p, b.n);
    MUST(wr_ddl_decode(&r, &d, &e) == WR_OK && wr_rd_left(&r) == 0);
    MUST(wr_ddl_encode(&again, &d, &e) == WR_OK);
    MUST(wr_slice_eq(wr_buf_view(&b), wr_buf_view(&again)));
}

static void schema(wr_slice in) {
    wr_schema *s, *t;
    wr_err e = WR_ERR_INIT;
    if (wr_schema_from_json(in, &s, &e) != WR_OK) return;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT, again = WR_BUF_INIT;
    MUST(wr_schema_to_json(s, &b, &e) == WR_OK);
    MUST(wr_schema_from_json(wr_buf_view(&b), &t, &e) == WR_OK);
    MUST(wr_schema_to_json(t, &again, &e) == WR_OK);
    MUST(wr_slice_eq(wr_buf_view(&b), wr_buf_view(&again)));
    wr_schema_unref(s);
    wr_schema_unref(t);
}

static void pos(wr_slice in) {
    wr_rd r = wr_rd_of(in.p, in.n);
    wr_pos p, q;
    char text[512];
    wr_err e = WR_ERR_INIT;
    if (wr_pos_decode(&r, &p, &e) != WR_OK) return;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_pos_encode(&b, &p);
    r = wr_rd_of(b.p, b.n);
    MUST(wr_pos_decode(&r, &q, &e) == WR_OK && wr_rd_left(&r) == 0 && wr_pos_cmp(&p, &q) == 0);
    wr_pos_print(&p, text);
    wr_pos_clear(&p);
    wr_pos_clear(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    wr_slice in = wr_slice_of(data + 1, size - 1);
    static void (*const decoder[])(wr_slice) = {row, change, ddl, schema, pos};
    decoder[data[0] % 5](in);
    return 0;
}
