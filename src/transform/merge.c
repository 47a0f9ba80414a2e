#include "weir/base/mem.h"
#include "weir/transform.h"

static wr_type widen(wr_type a, wr_type b) {
    if (wr_type_eq(a, b) || wr_type_promotes(b, a)) return a;
    if (wr_type_promotes(a, b)) return b;
    const wr_type ints[] = {{.kind = WR_BOOL}, {.kind = WR_INT}, {.kind = WR_LONG}};
    int ia = -1, ib = -1;
    for (int i = 0; i < 3; i++) {
        if (a.kind == ints[i].kind) ia = i;
        if (b.kind == ints[i].kind) ib = i;
    }
    if (ia >= 0 && ib >= 0) return ints[ia > ib ? ia : ib];
    /* integers and decimals meet in a decimal that holds both whole parts and the larger scale */
    if ((ia >= 0 || a.kind == WR_DECIMAL) && (ib >= 0 || b.kind == WR_DECIMAL)) {
        int pa = ia >= 0 ? 20 : a.precision, sa = ia >= 0 ? 0 : a.scale, pb = ib >= 0 ? 20 : b.precision, sb = ib >= 0 ? 0 : b.scale;
        int scale = sa > sb ? sa : sb, whole = pa - sa > pb - sb ? pa - sa : pb - sb;
        if (whole + scale <= 38) return (wr_type){WR_DECIMAL, (uint8_t)(whole + scale), (uint8_t)scale};
    }
    return (wr_type){.kind = WR_STRING};
}

static bool same_keys(const wr_schema *const *m, int n) {
    for (int i = 0; i < n; i++) {
        if (!m[i]->nkey || m[i]->nkey != m[0]->nkey) return false;
        for (int k = 0; k < m[i]->nkey; k++)
            if (strcmp(m[i]->cols[m[i]->key[k]].name, m[0]->cols[m[0]->key[k]].name)) return false;
    }
    return n > 0;
}

static int find(const wr_column *c, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(c[i].name, name)) return i;
    return -1;
}

wr_code wr_merge_schema(const wr_schema *const *members, int n, const wr_schema *previous, wr_schema **ret_schema, wr_err *err) {
    int max = 2, cols = 2;
    for (int i = 0; i < n; i++) max += members[i]->ncols;
    WR_AUTO wr_column *c = wr_calloc((size_t)max, sizeof *c);
    if (!c) return wr_nomem(err, "merged schema", (size_t)max * sizeof *c);
    bool keyed = same_keys(members, n);
    c[0] = (wr_column){.name = (char *)"db_name", .type = {.kind = WR_STRING}, .key_ord = keyed ? 1 : 0};
    c[1] = (wr_column){.name = (char *)"tb_name", .type = {.kind = WR_STRING}, .key_ord = keyed ? 2 : 0};
    for (int i = 0; i < n; i++)
        for (int j = 0; j < members[i]->ncols; j++) {
            const wr_column *m = &members[i]->cols[j];
            int at = find(c, cols, m->name);
            if (at >= 0 && at < 2)
                return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "a merged table has a column %s of its own, which the source's tables have too", m->name);
            if (at < 0) {
                at = cols++;
                c[at] = *m;
                c[at].id = 0, c[at].has_initial = false, c[at].key_ord = keyed && m->key_ord ? m->key_ord + 2 : 0;
            } else {
                c[at].type = widen(c[at].type, m->type);
                c[at].nullable |= m->nullable;
            }
        }
    for (int a = 2; a < cols; a++) /* a column that some member lacks is null in that member's rows */
        for (int i = 0; i < n; i++)
            if (wr_schema_find(members[i], c[a].name) < 0) c[a].nullable = true;
    int32_t next = 0;
    for (int i = 0; previous && i < previous->ncols; i++)
        if (previous->cols[i].id > next) next = previous->cols[i].id;
    for (int a = 0; a < cols; a++) {
        int p = previous ? wr_schema_find(previous, c[a].name) : -1;
        bool keeps = p >= 0 && (wr_type_eq(previous->cols[p].type, c[a].type) || wr_type_promotes(previous->cols[p].type, c[a].type));
        c[a].id = keeps ? previous->cols[p].id : ++next;
    }
    return wr_schema_new(c, cols, previous ? previous->version + 1 : 1, ret_schema, err);
}

struct wr_convert {
    wr_schema *from, *to;
    int *src;           /* [to->ncols] column of from, -1 null, -2 db, -3 table */
    char *db, *name;
};

wr_code wr_convert_new(const wr_schema *member, const wr_schema *merged, const char *db, const char *name, wr_convert **ret_convert, wr_err *err) {
    wr_convert *c = wr_calloc(1, sizeof *c);
    if (!c) return wr_nomem(err, "row conversion", sizeof *c);
    c->from = wr_schema_ref(member), c->to = wr_schema_ref(merged);
    c->src = wr_calloc((size_t)merged->ncols, sizeof *c->src);
    if (db) c->db = wr_strdup(db), c->name = wr_strdup(name);
    if (!c->src || (db && (!c->db || !c->name))) return wr_convert_free(c), wr_nomem(err, "row conversion", 256);
    for (int i = 0; i < merged->ncols; i++)
        c->src[i] = !db ? wr_schema_find_id(member, merged->cols[i].id) : i == 0 ? -2 : i == 1 ? -3 : wr_schema_find(member, merged->cols[i].name);
    *ret_convert = c;
    return WR_OK;
}

void wr_convert_free(wr_convert *c) {
    if (!c) return;
    wr_schema_unref(c->from), wr_schema_unref(c->to);
    wr_free(c->src), wr_free(c->db), wr_free(c->name);
    wr_free(c);
}

static wr_code cast(wr_type from, wr_type to, wr_value *v, wr_buf *text, wr_err *err) {
    if (v->null || wr_type_eq(from, to)) return WR_OK;
    bool from_int = from.kind == WR_BOOL || from.kind == WR_INT || from.kind == WR_LONG;
    int64_t i = from.kind == WR_BOOL ? v->b : from.kind == WR_INT ? v->i32 : v->i64;
    if (from_int && to.kind == WR_INT) return v->i32 = (int32_t)i, WR_OK;
    if (from_int && to.kind == WR_LONG) return v->i64 = i, WR_OK;
    if (from.kind == WR_FLOAT && to.kind == WR_DOUBLE) return v->f64 = (double)v->f32, WR_OK;
    if ((from_int || from.kind == WR_DECIMAL) && to.kind == WR_DECIMAL) {
        __int128 d = from_int ? (__int128)i : v->dec;
        for (int s = from_int ? 0 : from.scale; s < to.scale; s++) d *= 10;
        return v->dec = d, WR_OK;
    }
    if (to.kind == WR_STRING) { /* text is addressed after the buffer has stopped growing: see wr_convert_row */
        size_t at = text->n;
        wr_value_print(text, from, v);
        v->s = (wr_slice){(const uint8_t *)at, text->n - at};
        return WR_OK;
    }
    char a[32], b[32];
    return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "no conversion from %s to %s in a merged table", wr_type_name(from, a), wr_type_name(to, b));
}

#define MAX_COLS 4096

wr_code wr_convert_row(const wr_convert *c, wr_slice row, wr_buf *out, wr_err *err) {
    if (c->from->ncols > MAX_COLS) return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "a table of %d columns (limit %d)", c->from->ncols, MAX_COLS);
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    WR_AUTO wr_value *v = wr_malloc(((size_t)c->from->ncols + 1) * sizeof *v);
    if (!v) return wr_nomem(err, "row", (size_t)c->from->ncols * sizeof *v);
    WR_TRY(wr_row_read(c->from, row, v, err));
    size_t at = wr_row_begin(out, c->to->ncols);
    for (int i = 0; i < c->to->ncols; i++) {
        wr_type t = c->to->cols[i].type;
        wr_value x = {.null = true};
        if (c->src[i] == -2) x = (wr_value){.s = wr_slice_str(c->db)};
        else if (c->src[i] == -3) x = (wr_value){.s = wr_slice_str(c->name)};
        else if (c->src[i] >= 0) {
            x = v[c->src[i]];
            size_t before = text.n;
            wr_type from = c->from->cols[c->src[i]].type;
            WR_TRY(cast(from, t, &x, &text, err));
            if (text.n != before) x.s.p = text.p + (size_t)x.s.p;
        }
        wr_row_put(out, at, i, t, &x);
    }
    WR_TRY(wr_buf_check(&text, "converted row", err));
    return wr_buf_check(out, "converted row", err);
}
