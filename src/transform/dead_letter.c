/* Rows that were refused, as rows of a table: where from, which, why. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "rules.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

wr_code wr_dead_letter_schema(wr_schema **ret_schema, wr_err *err) {
#define TEXT {.kind = WR_STRING}
    const wr_column cols[] = {
        {.name = "source_db", .id = 1, .type = TEXT, .key_ord = 1},
        {.name = "source_table", .id = 2, .type = TEXT, .key_ord = 2},
        {.name = "row_key", .id = 3, .type = TEXT, .key_ord = 3, .doc = "JSON of the key; # and a hash of it, or of the row, when there is none or a rule hides it"},
        {.name = "column_name", .id = 4, .type = TEXT, .nullable = true, .doc = "null = the filter"},
        {.name = "expression", .id = 5, .type = TEXT, .nullable = true},
        {.name = "error", .id = 6, .type = TEXT, .nullable = true},
        {.name = "row", .id = 7, .type = TEXT, .nullable = true, .doc = "JSON of the source's row, without what a rule masks or drops"},
        {.name = "refused_at", .id = 8, .type = {.kind = WR_TIMESTAMPTZ}, .nullable = true},
        {.name = "queue_offset", .id = 9, .type = {.kind = WR_LONG}, .nullable = true},
    };
#undef TEXT
    return wr_schema_new(cols, (int)(sizeof cols / sizeof *cols), 1, ret_schema, err);
}

static void json_text(wr_buf *b, wr_slice s) {
    wr_buf_u8(b, '"');
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = s.p[i];
        if (c == '"' || c == '\\') wr_buf_u8(b, '\\'), wr_buf_u8(b, c);
        else if (c < 0x20) wr_buf_printf(b, "\\u%04x", c);
        else wr_buf_u8(b, c);
    }
    wr_buf_u8(b, '"');
}

static void json_value(wr_buf *b, wr_type t, const wr_value *v) {
    bool bare = v->null || t.kind == WR_BOOL || t.kind == WR_INT || t.kind == WR_LONG || t.kind == WR_FLOATS || (t.kind == WR_FLOAT && isfinite(v->f32)) || (t.kind == WR_DOUBLE && isfinite(v->f64));
    if (bare) return wr_value_print(b, t, v);
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    wr_value_print(&text, t, v);
    b->failed |= text.failed;
    json_text(b, wr_buf_view(&text));
}

static void json_member(wr_buf *b, bool first, const wr_column *c, const wr_value *v) {
    wr_buf_printf(b, first ? "" : ", ");
    json_text(b, wr_slice_str(c->name));
    wr_buf_printf(b, ": ");
    json_value(b, c->type, v);
}

/* The key as JSON, or a hash when there is none or it must not be seen. */
static void print_identity(const wr_transform *t, const wr_schema *s, wr_slice row, const wr_value *v, wr_buf *b) {
    WR_AUTO_BUF wr_buf key = WR_BUF_INIT;
    bool hide = s->nkey == 0;
    wr_buf_u8(&key, '{');
    for (int i = 0; i < s->nkey; i++) {
        hide |= wr_transform_hides(t, s->key[i]);
        json_member(&key, i == 0, &s->cols[s->key[i]], &v[s->key[i]]);
    }
    wr_buf_u8(&key, '}');
    b->failed |= key.failed;
    wr_slice what = s->nkey ? wr_buf_view(&key) : row;
    uint64_t seed = t->rules->mask_seed;
    if (hide) wr_buf_printf(b, "#%016llx%016llx", (unsigned long long)wr_hash64(what.p, what.n, seed), (unsigned long long)wr_hash64(what.p, what.n, ~seed));
    else wr_buf_put(b, key.p, key.n);
}

wr_code wr_transform_print_key(const wr_transform *t, wr_slice row, wr_buf *out, wr_err *err) {
    const wr_schema *s = t->stages[0].in;
    WR_AUTO wr_value *v = wr_malloc(((size_t)s->ncols + 1) * sizeof *v);
    if (!v) return wr_nomem(err, "row", (size_t)s->ncols * sizeof *v);
    WR_TRY(wr_row_read(s, row, v, err));
    print_identity(t, s, row, v, out);
    return wr_buf_check(out, "key", err);
}

wr_code wr_dead_letter_row(const wr_transform *t, wr_slice row, const wr_outcome *outcome, uint64_t offset, wr_buf *out, wr_err *err) {
    const wr_schema *s = t->stages[0].in;
    WR_AUTO wr_value *v = wr_malloc(((size_t)s->ncols + 1) * sizeof *v);
    WR_AUTO_BUF wr_buf key = WR_BUF_INIT, json = WR_BUF_INIT;
    if (!v) return wr_nomem(err, "row", (size_t)s->ncols * sizeof *v);
    WR_TRY(wr_row_read(s, row, v, err));
    print_identity(t, s, row, v, &key);
    bool first = true;
    wr_buf_u8(&json, '{');
    for (int i = 0; outcome && i < s->ncols; i++)
        if (!wr_transform_hides(t, i)) json_member(&json, first, &s->cols[i], &v[i]), first = false;
    wr_buf_u8(&json, '}');
    WR_TRY(wr_buf_check(&key, "key", err));
    WR_TRY(wr_buf_check(&json, "refused row", err));
    wr_value f[9] = {{.s = wr_slice_str(t->db)}, {.s = wr_slice_str(t->name)}, {.s = wr_buf_view(&key)}};
    for (int i = 3; i < 9; i++) f[i].null = true;
    if (outcome) {
        if (outcome->column) f[3] = (wr_value){.s = wr_slice_str(outcome->column)};
        f[4] = (wr_value){.s = wr_slice_str(outcome->expression)};
        f[5] = (wr_value){.s = wr_slice_str(outcome->message)};
        f[6] = (wr_value){.s = wr_buf_view(&json)};
        f[7] = (wr_value){.i64 = wr_now_us()};
        f[8] = (wr_value){.i64 = (int64_t)offset};
    }
    static const uint8_t kinds[9] = {WR_STRING, WR_STRING, WR_STRING, WR_STRING, WR_STRING, WR_STRING, WR_STRING, WR_TIMESTAMPTZ, WR_LONG};
    size_t at = wr_row_begin(out, 9);
    for (int i = 0; i < 9; i++) wr_row_put(out, at, i, (wr_type){.kind = kinds[i]}, &f[i]);
    return wr_buf_check(out, "refused row", err);
}
