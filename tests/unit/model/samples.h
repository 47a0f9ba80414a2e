/* A schema with every kind twice, the second with an initial value, and a row for it. */
#ifndef TESTS_MODEL_SAMPLES_H
#define TESTS_MODEL_SAMPLES_H
#include <float.h>
#include <math.h>
#include "weir/model.h"

#define SAMPLE_COLUMNS 24
static const char *const sample_names[SAMPLE_COLUMNS] = {
    "bool",     "int",       "long",   "float",  "double", "decimal", "date",    "ts",
    "tstz",     "string",    "binary", "floats", "bool i", "int\"i",  "long\\i", "float\ti",
    "double i", "decimal i", "date i", "ts i",   "tstz i", "größe",   "名前",    "🌊"};

static inline void sample_columns(wr_column c[SAMPLE_COLUMNS]) {
    static const float fs[] = {1.5f, -0.0f, INFINITY};
    memset(c, 0, sizeof(wr_column) * SAMPLE_COLUMNS);
    for (int i = 0; i < SAMPLE_COLUMNS; i++) {
        c[i].name = (char *)(uintptr_t)sample_names[i];
        c[i].id = 1000 - i * 3;
        c[i].type.kind = (uint8_t)(i % 12 + 1);
        c[i].nullable = i % 5 != 0;
        if (c[i].type.kind == WR_DECIMAL) c[i].type = (wr_type){WR_DECIMAL, 38, 12};
        c[i].has_initial = i >= 12;
        if (i % 2) c[i].doc = (char *)(uintptr_t) "enum('a','ö')";
    }
    c[2].key_ord = 2, c[9].key_ord = 1;
    c[12].initial.b = true;
    c[13].initial.i32 = INT32_MIN;
    c[14].initial.i64 = INT64_MIN;
    c[15].initial.f32 = 0.1f;
    c[16].initial.f64 = 0.1 + 0.2;
    c[17].initial.dec = -((__int128)1000000000000000000 * 1000000000000000000 + 7);
    c[18].initial.i32 = -719528;
    c[19].initial.i64 = INT64_MAX;
    c[20].initial.i64 = -1;
    c[21].initial.s = wr_slice_str("quote \" slash \\ tab \t ü 🌊");
    c[22].initial.s = wr_slice_of("\0\xff\x10", 3);
    c[23].initial.s = wr_slice_of(fs, sizeof fs);
}

static inline wr_schema *sample_schema(void) {
    wr_column c[SAMPLE_COLUMNS];
    wr_err e = WR_ERR_INIT;
    wr_schema *s = NULL;
    sample_columns(c);
    wr_schema_new(c, SAMPLE_COLUMNS, 4000000000u, &s, &e);
    return s;
}

/* Initial values where there are some, else `seed` bent to the kind; each third value null when `nulls`. */
static inline void sample_row(const wr_schema *s, int seed, bool nulls, wr_buf *b) {
    size_t at = wr_row_begin(b, s->ncols);
    for (int i = 0; i < s->ncols; i++) {
        wr_value v = s->cols[i].initial;
        if (!s->cols[i].has_initial) {
            if (s->cols[i].type.kind == WR_BOOL)
                v.b = seed & 1;
            else if (s->cols[i].type.kind < WR_STRING)
                v.dec = seed * 12345;
            else
                v.s = wr_slice_of("abcdefgh", (size_t)(seed % 3) * 4);
        }
        v.null = nulls && (i + seed) % 3 == 0;
        wr_row_put(b, at, i, s->cols[i].type, &v);
    }
}

static inline bool schema_eq(const wr_schema *a, const wr_schema *b) {
    if (a->ncols != b->ncols || a->nkey != b->nkey || a->version != b->version) return false;
    for (int k = 0; k < a->nkey; k++)
        if (a->key[k] != b->key[k]) return false;
    for (int i = 0; i < a->ncols; i++) {
        const wr_column *x = &a->cols[i], *y = &b->cols[i];
        if (strcmp(x->name, y->name) || x->id != y->id || !wr_type_eq(x->type, y->type) || x->nullable != y->nullable ||
            x->key_ord != y->key_ord || x->has_initial != y->has_initial || !x->doc != !y->doc ||
            (x->doc && strcmp(x->doc, y->doc)))
            return false;
        if (!x->has_initial) continue;
        /* as bytes of a row: exact for NaN and -0 too */
        WR_AUTO_BUF wr_buf p = WR_BUF_INIT, q = WR_BUF_INIT;
        wr_row_put(&p, wr_row_begin(&p, 1), 0, x->type, &x->initial);
        wr_row_put(&q, wr_row_begin(&q, 1), 0, y->type, &y->initial);
        if (!wr_slice_eq(wr_buf_view(&p), wr_buf_view(&q))) return false;
    }
    return true;
}
#endif
