/* The one place that decides what old rows need after a change of definition. The rule: KEEP and FILL only where it is certain that every stored value is what
 * it was; a reload is always right. */
#include <stdlib.h>

#include "ddl_edit.h"

bool wr_ddl_same_id(const wr_my_col *a, const wr_my_col *b, wr_my_types types) {
    if (a->hidden != b->hidden) return false;
    wr_type x = wr_my_lake_type(a, types), y = wr_my_lake_type(b, types);
    return wr_type_eq(x, y) || wr_type_promotes(x, y);
}

static int int_rank(wr_my_kind k) { return k >= MY_TINYINT && k <= MY_BIGINT ? (int)(k - MY_TINYINT) + 1 : 0; }

/* "float(7,3)" rounds what is stored; the display size of integers does not. */
static bool same_rounding(const wr_my_col *a, const wr_my_col *b) {
    const char *x = strchr(a->column_type, '('), *y = strchr(b->column_type, '(');
    if (!y) return true;
    return x && strcmp(x, y) == 0;
}

/* Every character of a's set is in b's, and both servers' tables and ours agree about them. */
static bool charset_widens(const char *a, const char *b) {
    if (!a || !b) return a == b;
    if (strcmp(a, b) == 0) return true;
    bool small = strcmp(a, "ascii") == 0 || strcmp(a, "latin1") == 0;
    if (strcmp(b, "utf8mb4") == 0) return small || strcmp(a, "utf8mb3") == 0;
    if (strcmp(b, "utf8mb3") == 0) return small;
    return strcmp(b, "latin1") == 0 && strcmp(a, "ascii") == 0;
}

static uint64_t max_bytes(const wr_my_col *c) {
    if (c->kind == MY_TEXT || c->kind == MY_BLOB) return (1ull << (8 * c->length)) - 1;
    return (uint64_t)c->length * (uint64_t)wr_my_charset_maxlen(c->charset);
}

/* CHAR -> VARCHAR -> TEXT that has room for everything. */
static bool text_widens(const wr_my_col *a, const wr_my_col *b) {
    if (!charset_widens(a->charset, b->charset)) return false;
    bool from_sized = a->kind != MY_TEXT, to_sized = b->kind != MY_TEXT;
    if (b->kind == MY_CHAR && a->kind != MY_CHAR) return false; /* cuts trailing blanks */
    if (from_sized && to_sized) return b->length >= a->length;
    if (to_sized) return false;
    if (!from_sized) {
        int x = wr_my_charset_maxlen(a->charset), y = wr_my_charset_maxlen(b->charset);
        return x == y ? b->length >= a->length : max_bytes(b) / (uint64_t)y >= max_bytes(a) / (uint64_t)x && b->length >= a->length;
    }
    return max_bytes(b) >= (uint64_t)a->length * (uint64_t)wr_my_charset_maxlen(b->charset);
}

static bool bytes_widen(const wr_my_col *a, const wr_my_col *b) {
    if (b->kind == MY_BINARY) return a->kind == MY_BINARY && a->length == b->length; /* pads with zero bytes */
    return max_bytes(b) >= max_bytes(a);
}

static bool labels_grow(const wr_my_col *a, const wr_my_col *b) {
    if (a->nlabels > b->nlabels) return false;
    for (int i = 0; i < a->nlabels; i++)
        if (strcmp(a->labels[i], b->labels[i]) != 0) return false;
    return true;
}

/* Whether every value that a may hold is the same value in b. */
static bool same_values(const wr_my_col *a, const wr_my_col *b, wr_my_types types) {
    if (a->auto_increment != b->auto_increment && b->auto_increment) return false; /* numbers rows that have 0 */
    if (int_rank(a->kind) && int_rank(b->kind)) {
        int x = int_rank(a->kind), y = int_rank(b->kind);
        if (a->is_unsigned == b->is_unsigned) return y >= x;
        return a->is_unsigned && y > x;
    }
    bool sized = a->kind == MY_CHAR || a->kind == MY_VARCHAR || a->kind == MY_TEXT;
    if (sized && (b->kind == MY_CHAR || b->kind == MY_VARCHAR || b->kind == MY_TEXT)) return text_widens(a, b);
    bool bytes = a->kind == MY_BINARY || a->kind == MY_VARBINARY || a->kind == MY_BLOB;
    if (bytes && (b->kind == MY_BINARY || b->kind == MY_VARBINARY || b->kind == MY_BLOB)) return bytes_widen(a, b);
    if (a->kind == MY_FLOAT && b->kind == MY_DOUBLE) return same_rounding(a, b) && a->is_unsigned >= b->is_unsigned;
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case MY_DECIMAL: {
        bool text = wr_my_lake_type(b, types).kind == WR_STRING; /* shows all digits of the scale */
        return b->scale >= a->scale && b->length - b->scale >= a->length - a->scale && a->is_unsigned >= b->is_unsigned &&
               (!text || a->scale == b->scale);
    }
    case MY_FLOAT:
    case MY_DOUBLE: return same_rounding(a, b) && a->is_unsigned >= b->is_unsigned;
    case MY_BIT: return b->length >= a->length;
    case MY_ENUM:
    case MY_SET: return labels_grow(a, b);
    case MY_TIME: return types.time_as == WR_TIME_STRING ? a->scale == b->scale : b->scale >= a->scale;
    case MY_DATETIME:
    case MY_TIMESTAMP: return types.zero_date == WR_ZERO_STRING ? a->scale == b->scale : b->scale >= a->scale;
    case MY_VECTOR: return a->length == b->length;
    case MY_GEOMETRY: return strcmp(a->column_type, b->column_type) == 0 || strcmp(b->column_type, "geometry") == 0;
    default: return true; /* YEAR, DATE, JSON, UUID, INET: one form only */
    }
}

/* NULLs in a column that becomes NOT NULL are rewritten, or an error in strict mode; TIMESTAMP gets the present time. */
static bool nulls_rewritten(const wr_my_col *a, const wr_my_col *b, const wr_edit_flags *f) {
    return !a->not_null && b->not_null && (!f->strict || f->swapped || b->kind == MY_TIMESTAMP);
}

static const wr_my_col *by_id(const wr_my_table *t, int32_t id) {
    for (int i = 0; i < t->ncols; i++)
        if (t->cols[i].id == id) return &t->cols[i];
    return NULL;
}

static bool key_same(const wr_my_table *a, const wr_my_table *b) {
    for (int i = 0; i < a->ncols; i++) {
        const wr_my_col *x = &a->cols[i], *y = by_id(b, x->id);
        if (!x->hidden && x->key_ord != (y ? y->key_ord : 0)) return false;
    }
    for (int i = 0; i < b->ncols; i++)
        if (b->cols[i].key_ord && !b->cols[i].hidden && !by_id(a, b->cols[i].id)) return false;
    return true;
}

/* A tool copied the rows column by column, by name: what it cannot have known about must not have happened. */
static bool copy_uncertain(const wr_my_table *before, const wr_my_table *after) {
    bool gone = false, came = false;
    for (int i = 0; i < before->ncols; i++) {
        const wr_my_col *y = by_id(after, before->cols[i].id);
        if (!y) gone = true;
        else if (!wr_my_name_eq(before->cols[i].name, y->name)) return true;
    }
    for (int i = 0; i < after->ncols; i++) came = came || !by_id(before, after->cols[i].id);
    return (gone && came) || !key_same(before, after); /* one dropped and one added may be a rename done by hand */
}

static bool had_name(const wr_my_table *t, const char *name) {
    for (int i = 0; i < t->ncols; i++)
        if (wr_my_name_eq(t->cols[i].name, name)) return true;
    return false;
}

wr_ddl_rows wr_ddl_judge(const wr_my_table *before, const wr_my_table *after, const wr_edit_flags *f, wr_my_types types, bool *ret_initial) {
    wr_ddl_rows rows = WR_ROWS_KEEP;
    bool generated = false, reload = f->rows_lost || f->stored_again || (f->swapped && (f->retyped || copy_uncertain(before, after)));
    for (int i = 0; i < after->ncols; i++) {
        const wr_my_col *c = &after->cols[i], *old = by_id(before, c->id);
        ret_initial[i] = false;
        if (c->hidden) continue;
        generated = generated || c->generated;
        if (old) {
            reload = reload || !same_values(old, c, types) || nulls_rewritten(old, c, f) || old->generated != c->generated;
            continue;
        }
        if (f->retyped) { /* it, or one that came beside it */
            reload = reload || !had_name(before, c->name);
            continue;
        }
        wr_value v;
        wr_buf scratch = WR_BUF_INIT;
        wr_my_initial initial = wr_my_col_initial(c, types, &v, &scratch);
        wr_buf_free(&scratch);
        if (initial == WR_MY_INITIAL_UNKNOWN) reload = true;
        if (initial != WR_MY_INITIAL_VALUE) continue;
        ret_initial[i] = true;
        rows = WR_ROWS_FILL;
    }
    /* an expression sees types and character sets: what was kept above may still change what it gives */
    if (generated && f->touched) reload = true;
    return reload ? WR_ROWS_RELOAD : f->retyped ? WR_ROWS_RETYPED : rows;
}
