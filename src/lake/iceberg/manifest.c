#include "iceberg/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "iceberg/avro.h"
#include "iceberg/manifest_schema.h"
#include "weir/base/mem.h"

/* ------------------------------------------------------------------ objects */
wr_ice_file *wr_ice_file_new(wr_ice_content content, const char *path) {
    wr_ice_file *f = wr_calloc(1, sizeof *f);
    if (!f) return NULL;
    *f = (wr_ice_file){.content = (uint8_t)content,
                       .sequence = -1,
                       .file_sequence = -1,
                       .first_row_id = -1,
                       .sort_order_id = -1,
                       .content_offset = -1,
                       .content_size = -1};
    f->path = wr_strdup(path);
    if (!f->path) return wr_free(f), NULL;
    return f;
}

static void extra_free(struct wr_ice_extra *x) {
    if (!x) return;
    wr_free(x->split_offsets);
    wr_free(x->equality_ids);
    wr_free(x->key_metadata);
    wr_free(x);
}

void wr_ice_file_free(wr_ice_file *f) {
    if (!f) return;
    wr_free(f->path);
    wr_free(f->format);
    wr_free(f->stats);
    wr_free(f->referenced);
    wr_free(f->tuple);
    extra_free(f->extra);
    wr_free(f);
}

wr_code wr_ice_file_set_partition(wr_ice_file *f, int32_t spec_id, wr_slice tuple, wr_err *err) {
    uint8_t *copy = tuple.n ? wr_malloc(tuple.n) : NULL;
    if (tuple.n && !copy) return wr_nomem(err, "partition", tuple.n);
    if (tuple.n) memcpy(copy, tuple.p, tuple.n);
    wr_free(f->tuple);
    f->tuple = copy, f->tuple_n = (uint32_t)tuple.n, f->spec_id = spec_id;
    return WR_OK;
}

bool wr_ice_file_same_partition(const wr_ice_file *a, const wr_ice_file *b) {
    return a->spec_id == b->spec_id && wr_slice_eq(wr_ice_file_tuple(a), wr_ice_file_tuple(b));
}

void wr_manifest_file_clear(wr_manifest_file *m) {
    for (int i = 0; i < m->npartitions; i++) {
        wr_free(m->partitions[i].lower);
        wr_free(m->partitions[i].upper);
    }
    wr_free(m->partitions);
    wr_free(m->key_metadata);
    wr_free(m->path);
    *m = (wr_manifest_file){.npartitions = -1};
}

void wr_manifest_list_clear(wr_manifest_list *l) {
    for (int i = 0; i < l->n; i++) wr_manifest_file_clear(&l->v[i]);
    wr_free(l->v);
    *l = (wr_manifest_list){0};
}

/* Room for one more in an array that doubles. */
static void *grow(void *v, int n, int *cap, size_t size, wr_err *err) {
    if (n < *cap) return v;
    int want = *cap ? *cap * 2 : 16;
    void *p = wr_realloc(v, (size_t)want * size);
    if (!p) return wr_nomem(err, "manifest entries", (size_t)want * size), NULL;
    *cap = want;
    return p;
}

wr_code wr_manifest_list_add(wr_manifest_list *l, wr_manifest_file *m, wr_err *err) {
    wr_manifest_file *v = grow(l->v, l->n, &l->cap, sizeof *v, err);
    if (!v) return err->code;
    l->v = v;
    l->v[l->n++] = *m;
    *m = (wr_manifest_file){.npartitions = -1};
    return WR_OK;
}

static bool copy_bytes(uint8_t **dst, uint32_t *dst_n, const uint8_t *src, size_t n) {
    *dst = NULL, *dst_n = (uint32_t)n;
    if (!src) return true;
    *dst = wr_malloc(n);
    if (*dst && n) memcpy(*dst, src, n);
    return *dst != NULL;
}

wr_code wr_manifest_file_copy(wr_manifest_file *dst, const wr_manifest_file *src, wr_err *err) {
    wr_manifest_file m = *src;
    m.path = wr_strdup(src->path), m.partitions = NULL, m.npartitions = src->npartitions < 0 ? -1 : 0,
    m.key_metadata = NULL;
    bool ok = m.path && copy_bytes(&m.key_metadata, &m.key_metadata_n, src->key_metadata, src->key_metadata_n);
    if (ok && src->npartitions > 0) {
        m.partitions = wr_calloc((size_t)src->npartitions, sizeof *m.partitions);
        ok = m.partitions != NULL;
        for (int i = 0; ok && i < src->npartitions; i++) {
            const wr_partition_summary *p = &src->partitions[i];
            wr_partition_summary *q = &m.partitions[m.npartitions++];
            q->contains_null = p->contains_null, q->contains_nan = p->contains_nan;
            ok = copy_bytes(&q->lower, &q->lower_n, p->lower, p->lower_n) &&
                 copy_bytes(&q->upper, &q->upper_n, p->upper, p->upper_n);
        }
    }
    if (!ok) return wr_manifest_file_clear(&m), wr_nomem(err, "manifest list", sizeof m);
    *dst = m;
    return WR_OK;
}

void wr_entries_clear(wr_entries *e) {
    for (int i = 0; i < e->n; i++)
        if (e->v[i].owned) wr_ice_file_free(e->v[i].file);
    wr_free(e->v);
    *e = (wr_entries){0};
}

wr_code wr_entries_add(wr_entries *e, uint8_t status, wr_ice_file *file, bool owned, wr_err *err) {
    wr_entry *v = grow(e->v, e->n, &e->cap, sizeof *v, err);
    if (!v) return err->code;
    e->v = v;
    e->v[e->n++] = (wr_entry){status, file, owned};
    return WR_OK;
}

/* ------------------------------------------------------------------ reading values */
static int64_t get_int(const wr_avro_value *rec, int id, int64_t absent) {
    const wr_avro_value *v = wr_avro_field(rec, id);
    return v && (v->kind == WR_AVRO_INT || v->kind == WR_AVRO_LONG || v->kind == WR_AVRO_BOOL) ? v->i : absent;
}

static bool is_bytes(const wr_avro_value *v) {
    return v && (v->kind == WR_AVRO_STRING || v->kind == WR_AVRO_BYTES || v->kind == WR_AVRO_FIXED);
}

static wr_slice get_bytes(const wr_avro_value *rec, int id) { /* .p NULL = absent */
    const wr_avro_value *v = wr_avro_field(rec, id);
    if (!is_bytes(v)) return (wr_slice){0};
    return v->s.p ? v->s : wr_slice_of("", 0);
}

static char *dup_text(wr_slice s) { return wr_strndup((const char *)s.p, s.n); }

static wr_code bad_entry(const char *name, int64_t i, const char *what, wr_err *err) {
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s: entry %" PRId64 ": %s", name, i, what);
}

/* ------------------------------------------------------------------ manifest list: read */
static wr_code decode_summaries(const wr_avro_value *list, wr_manifest_file *m, wr_err *err) {
    m->partitions = wr_calloc(list->n, sizeof *m->partitions);
    if (!m->partitions) return wr_nomem(err, "partition summaries", list->n * sizeof *m->partitions);
    m->npartitions = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const wr_avro_value *v = &list->items[i];
        wr_partition_summary *p = &m->partitions[m->npartitions++];
        p->contains_null = get_int(v, 509, 1) != 0;
        p->contains_nan = (int8_t)get_int(v, 518, -1);
        wr_slice lo = get_bytes(v, 510), up = get_bytes(v, 511);
        if (!copy_bytes(&p->lower, &p->lower_n, lo.p, lo.n) || !copy_bytes(&p->upper, &p->upper_n, up.p, up.n))
            return wr_nomem(err, "partition summaries", lo.n + up.n);
    }
    return WR_OK;
}

static wr_code decode_row(const wr_avro_value *v, const char *name, int64_t i, wr_manifest_file *m, wr_err *err) {
    wr_slice path = get_bytes(v, 500);
    if (path.n == 0) return bad_entry(name, i, "no manifest_path (field 500)", err);
    m->length = get_int(v, 501, -1);
    m->spec_id = (int32_t)get_int(v, 502, 0);
    int64_t content = get_int(v, 517, 0);
    m->sequence = get_int(v, 515, 0), m->min_sequence = get_int(v, 516, 0);
    m->snapshot_id = get_int(v, 503, -1);
    m->added_files = get_int(v, 504, -1), m->existing_files = get_int(v, 505, -1),
    m->deleted_files = get_int(v, 506, -1);
    m->added_rows = get_int(v, 512, -1), m->existing_rows = get_int(v, 513, -1), m->deleted_rows = get_int(v, 514, -1);
    m->first_row_id = get_int(v, 520, -1);
    if (m->length < 0) return bad_entry(name, i, "no manifest_length (field 501)", err);
    if (content != 0 && content != 1) return bad_entry(name, i, "content is neither data nor deletes", err);
    if (m->sequence < 0 || m->min_sequence < 0) return bad_entry(name, i, "a negative sequence number", err);
    int64_t spec = get_int(v, 502, 0);
    if (spec < 0 || spec > INT32_MAX) return bad_entry(name, i, "a partition spec id that is no int", err);
    if (m->added_files > INT32_MAX || m->existing_files > INT32_MAX || m->deleted_files > INT32_MAX)
        return bad_entry(name, i, "a number of files that is no int", err);
    m->content = (uint8_t)content;
    m->path = dup_text(path);
    if (!m->path) return wr_nomem(err, "manifest list", path.n);
    wr_slice key = get_bytes(v, 519);
    if (!copy_bytes(&m->key_metadata, &m->key_metadata_n, key.p, key.n)) return wr_nomem(err, "manifest list", key.n);
    const wr_avro_value *parts = wr_avro_field(v, 507);
    return parts && parts->kind == WR_AVRO_ARRAY ? decode_summaries(parts, m, err) : WR_OK;
}

static void reader_free_p(wr_avro_reader **r) { wr_avro_free(*r); }

wr_code wr_manifest_list_decode(wr_slice file, const char *name, wr_manifest_list *ret_list, wr_err *err) {
    WR_CLEANUP(reader_free_p) wr_avro_reader *r = NULL;
    WR_CLEANUP(wr_manifest_list_clear) wr_manifest_list l = {0};
    WR_TRY(wr_avro_open(file, name, &r, err));
    for (int64_t i = 0;; i++) {
        const wr_avro_value *v;
        WR_TRY(wr_avro_next(r, &v, err));
        if (!v) break;
        wr_manifest_file m = {.npartitions = -1};
        wr_code rc = decode_row(v, name, i, &m, err);
        if (rc == WR_OK) rc = wr_manifest_list_add(&l, &m, err);
        if (rc != WR_OK) return wr_manifest_file_clear(&m), rc;
    }
    *ret_list = l;
    l = (wr_manifest_list){0};
    return WR_OK;
}

/* ------------------------------------------------------------------ manifest list: write */
static void put_opt_bytes(wr_buf *b, const uint8_t *p, size_t n) {
    wr_avro_put_long(b, p ? 1 : 0);
    if (p) wr_avro_put_bytes(b, wr_slice_of(p, n));
}

static void put_opt_long(wr_buf *b, int64_t v) { /* negative = null */
    wr_avro_put_long(b, v >= 0);
    if (v >= 0) wr_avro_put_long(b, v);
}

static void put_row(wr_buf *b, const wr_manifest_file *m, bool v3) {
    wr_avro_put_str(b, m->path);
    wr_avro_put_long(b, m->length);
    wr_avro_put_long(b, m->spec_id);
    wr_avro_put_long(b, m->content);
    wr_avro_put_long(b, m->sequence);
    wr_avro_put_long(b, m->min_sequence);
    wr_avro_put_long(b, m->snapshot_id);
    const int64_t counts[] = {m->added_files, m->existing_files, m->deleted_files,
                              m->added_rows,  m->existing_rows,  m->deleted_rows};
    for (int i = 0; i < 6; i++) wr_avro_put_long(b, counts[i] < 0 ? 0 : counts[i]);
    wr_avro_put_long(b, m->npartitions >= 0);
    if (m->npartitions >= 0) {
        if (m->npartitions > 0) wr_avro_put_long(b, m->npartitions);
        for (int i = 0; i < m->npartitions; i++) {
            const wr_partition_summary *p = &m->partitions[i];
            wr_avro_put_bool(b, p->contains_null);
            wr_avro_put_long(b, p->contains_nan >= 0);
            if (p->contains_nan >= 0) wr_avro_put_bool(b, p->contains_nan != 0);
            put_opt_bytes(b, p->lower, p->lower_n);
            put_opt_bytes(b, p->upper, p->upper_n);
        }
        wr_avro_put_long(b, 0);
    }
    put_opt_bytes(b, m->key_metadata, m->key_metadata_n);
    if (v3) put_opt_long(b, m->content == 0 ? m->first_row_id : -1);
}

static wr_avro_meta meta_num(const char *key, int64_t v, char text[24]) {
    snprintf(text, 24, "%" PRId64, v);
    return (wr_avro_meta){key, wr_slice_str(text)};
}

wr_code wr_manifest_list_encode(const wr_manifest_list_head *h, const wr_manifest_list *l, wr_buf *out, wr_err *err) {
    bool v3 = h->format_version >= 3;
    char t[5][24];
    wr_avro_meta meta[5] = {
        meta_num("snapshot-id", h->snapshot_id, t[0]), meta_num("sequence-number", h->sequence, t[1]),
        meta_num("format-version", h->format_version, t[2]), meta_num("parent-snapshot-id", h->parent_id, t[3]),
        meta_num("first-row-id", h->first_row_id, t[4])};
    if (h->parent_id < 0) meta[3].value = wr_slice_str("null");
    WR_CLEANUP(wr_avro_writer_clear) wr_avro_writer w = {0};
    WR_TRY(wr_avro_begin(&w, v3 ? list_v3 : list_v2, meta, v3 ? 5 : 4, out, err));
    for (int i = 0; i < l->n; i++) {
        put_row(&w.row, &l->v[i], v3);
        WR_TRY(wr_avro_end_row(&w, err));
    }
    return wr_avro_end(&w, err);
}

/* ------------------------------------------------------------------ manifest: read */
/* Statistics arrive as six maps by column id and leave as one array by column. */
typedef struct stats_builder {
    wr_column_stats *v;
    int n, cap, next;
    int64_t max_id;
} stats_builder;

static wr_column_stats *stats_of(stats_builder *b, int64_t id, wr_err *err) {
    /* All maps of one writer have one order, mostly rising: look behind the last match first, and nowhere for a new
     * highest id. */
    if (b->next < b->n && b->v[b->next].field_id == id) return &b->v[b->next++];
    for (int i = 0; id <= b->max_id && i < b->n; i++)
        if (b->v[i].field_id == id) return b->next = i + 1, &b->v[i];
    if (id > b->max_id) b->max_id = id;
    wr_column_stats *v = grow(b->v, b->n, &b->cap, sizeof *v, err);
    if (!v) return NULL;
    b->v = v;
    b->v[b->n] = (wr_column_stats){
        .field_id = (int32_t)id, .values = WR_STAT_UNKNOWN, .nulls = WR_STAT_UNKNOWN, .nans = WR_STAT_UNKNOWN};
    return &b->v[b->n++];
}

typedef enum stat_map { COLUMN_SIZES, VALUE_COUNTS, NULL_COUNTS, NAN_COUNTS, LOWER, UPPER, NSTAT_MAPS } stat_map;
static const int stat_ids[NSTAT_MAPS][3] = {{108, 117, 118}, {109, 119, 120}, {110, 121, 122},
                                            {137, 138, 139}, {125, 126, 127}, {128, 129, 130}};

static void set_bound(wr_column_stats *c, stat_map which, wr_slice s) {
    if (which ==
        LOWER) { /* a prefix of a lower bound is a lower bound of strings and binaries; nothing else is that long */
        c->has_lower = true, c->lower_n = (uint8_t)(s.n > sizeof c->lower ? sizeof c->lower : s.n);
        if (c->lower_n) memcpy(c->lower, s.p, c->lower_n);
        while (s.n > sizeof c->lower && c->lower_n > 0 && (s.p[c->lower_n] & 0xc0) == 0x80)
            c->lower_n--; /* not within a character */
    } else if (s.n <= sizeof c->upper) {
        c->has_upper = true, c->upper_n = (uint8_t)s.n;
        if (s.n) memcpy(c->upper, s.p, s.n);
    }
}

static wr_code read_stat_map(const wr_avro_value *df, stat_map which, stats_builder *b, wr_err *err) {
    const wr_avro_value *list = wr_avro_field(df, stat_ids[which][0]);
    if (!list || list->kind != WR_AVRO_ARRAY) return WR_OK;
    for (uint32_t i = 0; i < list->n; i++) {
        int64_t key = get_int(&list->items[i], stat_ids[which][1], -1);
        const wr_avro_value *v = wr_avro_field(&list->items[i], stat_ids[which][2]);
        if (key < 0 || key > INT32_MAX || !v) continue;
        if (b->n > 100000) return WR_OK;
        wr_column_stats *c = stats_of(b, key, err);
        if (!c) return err->code;
        if (which >= LOWER) {
            if (is_bytes(v)) set_bound(c, which, v->s);
        } else if ((v->kind == WR_AVRO_LONG || v->kind == WR_AVRO_INT) && v->i >= 0) {
            uint64_t *to = which == COLUMN_SIZES   ? &c->bytes
                           : which == VALUE_COUNTS ? &c->values
                           : which == NULL_COUNTS  ? &c->nulls
                                                   : &c->nans;
            *to = (uint64_t)v->i;
        }
    }
    return WR_OK;
}

/* The one path that a delete file is about: field 143, or equal path bounds. */
static wr_slice referenced_path(const wr_avro_value *df) {
    wr_slice s = get_bytes(df, 143), bound[2] = {{0}};
    if (s.p) return s;
    for (int side = 0; side < 2; side++) {
        const int *ids = stat_ids[side ? UPPER : LOWER];
        const wr_avro_value *list = wr_avro_field(df, ids[0]);
        for (uint32_t i = 0; list && list->kind == WR_AVRO_ARRAY && i < list->n; i++)
            if (get_int(&list->items[i], ids[1], -1) == WR_FIELD_PATH) bound[side] = get_bytes(&list->items[i], ids[2]);
    }
    return bound[0].p && bound[1].p && wr_slice_eq(bound[0], bound[1]) ? bound[0] : (wr_slice){0};
}

static void *read_numbers(const wr_avro_value *v, size_t size, int *ret_n, wr_err *err) {
    uint8_t *a = wr_calloc(v->n, size);
    if (!a) return wr_nomem(err, "manifest entry", v->n * size), NULL;
    *ret_n = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->items[i].kind != WR_AVRO_INT && v->items[i].kind != WR_AVRO_LONG) continue;
        int32_t small = (int32_t)v->items[i].i;
        memcpy(a + (size_t)(*ret_n)++ * size, size == 4 ? (const void *)&small : (const void *)&v->items[i].i, size);
    }
    return a;
}

/* Avro's value as one of the type; false: it is of another. */
static bool read_value(const wr_avro_value *v, wr_type t, wr_value *ret) {
    bool whole = v->kind == WR_AVRO_INT || v->kind == WR_AVRO_LONG, real = v->kind == WR_AVRO_FLOAT || v->kind == WR_AVRO_DOUBLE;
    *ret = (wr_value){0};
    switch ((wr_kind)t.kind) {
    case WR_BOOL: return ret->b = v->i != 0, v->kind == WR_AVRO_BOOL;
    case WR_DATE: return ret->i32 = (int32_t)v->i, whole;
    case WR_LONG:
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ: return ret->i64 = v->i, whole;
    case WR_DOUBLE: return ret->f64 = v->d, real;
    case WR_DECIMAL:
        if (!is_bytes(v) || v->s.n < 1 || v->s.n > 16) return false;
        ret->dec = (int8_t)v->s.p[0];
        for (size_t i = 1; i < v->s.n; i++) ret->dec = (__int128)((unsigned __int128)ret->dec << 8 | v->s.p[i]);
        return true;
    default: return ret->s = v->s, is_bytes(v);
    }
}

static wr_code read_tuple(const wr_avro_value *part, const wr_spec *spec, const char *name, int64_t i, wr_ice_file *f, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    size_t at = wr_row_begin(&b, spec->n);
    for (int k = 0; k < spec->n; k++) {
        const wr_avro_value *v = wr_avro_field(part, spec->fields[k].id);
        wr_type t = spec->tuple->cols[k].type;
        wr_value val = {.null = true};
        if (v && !read_value(v, t, &val)) return bad_entry(name, i, "a value of its partition is of another type than the spec's", err);
        wr_row_put(&b, at, k, t, &val);
    }
    WR_TRY(wr_buf_check(&b, "partition", err));
    return wr_ice_file_set_partition(f, spec->id, wr_buf_view(&b), err);
}

/* *ret_unread: it has values, and nobody said of what. */
static wr_code read_partition(const wr_avro_value *df, const wr_spec *spec, const char *name, int64_t i, wr_ice_file *f, bool *ret_unread, wr_err *err) {
    const wr_avro_value *part = wr_avro_field(df, 102);
    bool has = part && part->kind == WR_AVRO_RECORD && part->n > 0;
    *ret_unread = has && (!spec || spec->why_not || !spec->n);
    if (!spec || spec->why_not || !spec->n) return WR_OK;
    return has ? read_tuple(part, spec, name, i, f, err) : bad_entry(name, i, "no partition (field 102)", err);
}

static wr_code read_extra(const wr_avro_value *df, bool unread_tuple, wr_ice_file *f, wr_err *err) {
    const wr_avro_value *splits = wr_avro_field(df, 132), *eq = wr_avro_field(df, 135);
    wr_slice key = get_bytes(df, 131);
    if (splits && splits->kind != WR_AVRO_ARRAY) splits = NULL;
    if (eq && eq->kind != WR_AVRO_ARRAY) eq = NULL;
    if (!splits && !eq && !key.p && !unread_tuple) return WR_OK;
    struct wr_ice_extra *x = f->extra = wr_calloc(1, sizeof *x);
    if (!x) return wr_nomem(err, "manifest entry", sizeof *x);
    x->unread_tuple = unread_tuple;
    if (splits && !(x->split_offsets = read_numbers(splits, 8, &x->nsplit_offsets, err))) return err->code;
    if (eq && !(x->equality_ids = read_numbers(eq, 4, &x->nequality_ids, err))) return err->code;
    if (!copy_bytes(&x->key_metadata, &x->key_metadata_n, key.p, key.n)) return wr_nomem(err, "manifest entry", key.n);
    return WR_OK;
}

static wr_code read_file(const wr_avro_value *df, const wr_manifest_file *mf, const wr_spec *spec, int64_t i, wr_ice_file **ret, wr_err *err) {
    const char *name = mf->path;
    bool unread = false;
    wr_slice path = get_bytes(df, 100), format = get_bytes(df, 101);
    int64_t content = get_int(df, 134, 0), records = get_int(df, 103, -1), bytes = get_int(df, 104, -1);
    if (path.n == 0) return bad_entry(name, i, "no file_path (field 100)", err);
    if (memchr(path.p, 0, path.n)) return bad_entry(name, i, "file_path has a NUL byte", err);
    if (content < 0 || content > 2) return bad_entry(name, i, "content is not 0, 1 or 2", err);
    if (records < 0) return bad_entry(name, i, "no record_count (field 103)", err);
    if (bytes < 0) return bad_entry(name, i, "no file_size_in_bytes (field 104)", err);
    WR_AUTO char *p = dup_text(path);
    wr_ice_file *f = p ? wr_ice_file_new((wr_ice_content)content, p) : NULL;
    if (!f) return wr_nomem(err, "manifest entry", path.n);
    *ret = f; /* the caller frees it, also after an error */
    f->format = dup_text(format.p ? format : wr_slice_str("PARQUET"));
    if (!f->format) return wr_nomem(err, "manifest entry", format.n);
    for (char *c = f->format; *c; c++)
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    f->records = (uint64_t)records, f->bytes = (uint64_t)bytes;
    f->first_row_id = content == 0 ? get_int(df, 142, -1) : -1;
    f->sort_order_id = (int32_t)get_int(df, 140, -1);
    f->content_offset = get_int(df, 144, -1), f->content_size = get_int(df, 145, -1);
    if (content != 0) {
        wr_slice ref = referenced_path(df);
        if (ref.p && !(f->referenced = dup_text(ref))) return wr_nomem(err, "manifest entry", ref.n);
    }
    f->spec_id = mf->spec_id;
    WR_TRY(read_partition(df, spec, name, i, f, &unread, err));
    stats_builder b = {.max_id = -1};
    wr_code rc = WR_OK;
    for (int m = 0; rc == WR_OK && m < NSTAT_MAPS; m++) {
        b.next = 0;
        rc = read_stat_map(df, (stat_map)m, &b, err);
    }
    f->stats = b.v, f->nstats = b.n;
    return rc == WR_OK ? read_extra(df, unread, f, err) : rc;
}

static wr_code read_entry(const wr_avro_value *v, const wr_manifest_file *mf, const wr_spec *spec, int64_t i, int64_t *next_row_id,
                          uint8_t *ret_status, wr_ice_file **ret_file, wr_err *err) {
    const wr_avro_value *df = wr_avro_field(v, 2);
    int64_t status = get_int(v, 0, -1);
    if (status < 0 || status > 2) return bad_entry(mf->path, i, "status is not 0, 1 or 2", err);
    if (!df || df->kind != WR_AVRO_RECORD) return bad_entry(mf->path, i, "no data_file (field 2)", err);
    WR_TRY(read_file(df, mf, spec, i, ret_file, err));
    wr_ice_file *f = *ret_file;
    if ((f->content != 0) != (mf->content != 0)) return bad_entry(mf->path, i, "data and deletes in one manifest", err);
    f->snapshot_id = get_int(v, 1, mf->snapshot_id);
    int64_t seq = get_int(v, 3, -1), file_seq = get_int(v, 4, -1);
    /* "Sequence Number Inheritance": only of added entries, or of manifests from before sequence numbers. */
    bool inherits = status == WR_ENTRY_ADDED || mf->sequence == 0;
    if (seq < 0 && !inherits) return bad_entry(mf->path, i, "an existing or deleted entry has no sequence number", err);
    f->sequence = seq < 0 ? mf->sequence : seq;
    f->file_sequence = file_seq < 0 && inherits ? mf->sequence : file_seq;
    if (f->content == 0 && status != WR_ENTRY_DELETED && f->first_row_id < 0 && *next_row_id >= 0) {
        f->first_row_id = *next_row_id;
        if (f->records > (uint64_t)(INT64_MAX - *next_row_id)) return bad_entry(mf->path, i, "row ids overflow", err);
        *next_row_id += (int64_t)f->records;
    }
    *ret_status = (uint8_t)status;
    return WR_OK;
}

wr_code wr_manifest_decode(wr_slice file, const wr_manifest_file *mf, const wr_specs *specs, bool deleted_too, wr_entries *ret_entries, wr_err *err) {
    const wr_spec *spec = specs ? wr_specs_find(specs, mf->spec_id) : NULL;
    WR_CLEANUP(reader_free_p) wr_avro_reader *r = NULL;
    WR_CLEANUP(wr_entries_clear) wr_entries e = {0};
    WR_TRY(wr_avro_open(file, mf->path, &r, err));
    int64_t next_row_id = mf->content == 0 ? mf->first_row_id : -1;
    for (int64_t i = 0;; i++) {
        const wr_avro_value *v;
        WR_TRY(wr_avro_next(r, &v, err));
        if (!v) break;
        uint8_t status = 0;
        wr_ice_file *f = NULL;
        wr_code rc = read_entry(v, mf, spec, i, &next_row_id, &status, &f, err);
        if (rc == WR_OK && status == WR_ENTRY_DELETED && !deleted_too) {
            wr_ice_file_free(f);
            continue;
        }
        if (rc == WR_OK) rc = wr_entries_add(&e, status, f, true, err);
        if (rc != WR_OK) return wr_ice_file_free(f), rc;
    }
    *ret_entries = e;
    e = (wr_entries){0};
    return WR_OK;
}

/* ------------------------------------------------------------------ manifest: write */
static bool is_float(const wr_manifest_head *h, int32_t id) {
    for (int i = 0; i < h->nfloat_ids; i++)
        if (h->float_ids[i] == id) return true;
    return false;
}

/* WR_STAT_UNKNOWN: not written. Elements of lists have no bounds (their rows are not the table's). */
static uint64_t stat_count(const wr_manifest_head *h, const wr_column_stats *c, stat_map m) {
    bool element = c->field_id >= WR_ELEMENT_ID_BASE && c->field_id <= 2 * WR_ELEMENT_ID_BASE;
    switch (m) {
    case COLUMN_SIZES:
        return c->bytes ? c->bytes : WR_STAT_UNKNOWN;
    case VALUE_COUNTS:
        return c->values;
    case NULL_COUNTS:
        return c->nulls;
    case NAN_COUNTS:
        return is_float(h, c->field_id) ? c->nans : WR_STAT_UNKNOWN;
    case LOWER:
        return c->has_lower && !element ? 0 : WR_STAT_UNKNOWN;
    case UPPER:
        return c->has_upper && !element ? 0 : WR_STAT_UNKNOWN;
    default:
        return WR_STAT_UNKNOWN;
    }
}

static void put_stat_map(wr_buf *b, const wr_manifest_head *h, const wr_ice_file *f, stat_map m) {
    bool path_bound = m >= LOWER && f->content != WR_ICE_DATA && f->referenced;
    int n = path_bound;
    for (int i = 0; i < f->nstats; i++)
        n +=
            stat_count(h, &f->stats[i], m) != WR_STAT_UNKNOWN && !(path_bound && f->stats[i].field_id == WR_FIELD_PATH);
    wr_avro_put_long(b, n > 0);
    if (n == 0) return;
    wr_avro_put_long(b, n);
    if (path_bound) { /* not required of us, but what PyIceberg and Polars bind a delete to its file by; whole, never
                         truncated */
        wr_avro_put_long(b, WR_FIELD_PATH);
        wr_avro_put_str(b, f->referenced);
    }
    for (int i = 0; i < f->nstats; i++) {
        const wr_column_stats *c = &f->stats[i];
        if (stat_count(h, c, m) == WR_STAT_UNKNOWN || (path_bound && c->field_id == WR_FIELD_PATH)) continue;
        wr_avro_put_long(b, c->field_id);
        if (m == LOWER)
            wr_avro_put_bytes(b, wr_slice_of(c->lower, c->lower_n));
        else if (m == UPPER)
            wr_avro_put_bytes(b, wr_slice_of(c->upper, c->upper_n));
        else
            wr_avro_put_long(b, (int64_t)stat_count(h, c, m));
    }
    wr_avro_put_long(b, 0);
}

static void put_list32(wr_buf *b, const int32_t *v, int n) {
    wr_avro_put_long(b, n > 0);
    if (n == 0) return;
    wr_avro_put_long(b, n);
    for (int i = 0; i < n; i++) wr_avro_put_long(b, v[i]);
    wr_avro_put_long(b, 0);
}

static void put_list64(wr_buf *b, const int64_t *v, int n) {
    wr_avro_put_long(b, n > 0);
    if (n == 0) return;
    wr_avro_put_long(b, n);
    for (int i = 0; i < n; i++) wr_avro_put_long(b, v[i]);
    wr_avro_put_long(b, 0);
}

static void put_value(wr_buf *b, wr_type t, const wr_value *v) {
    uint8_t fixed[16];
    switch ((wr_kind)t.kind) {
    case WR_BOOL: return wr_avro_put_bool(b, v->b);
    case WR_INT:
    case WR_DATE: return wr_avro_put_long(b, v->i32);
    case WR_FLOAT: return wr_buf_put(b, &v->f32, 4);
    case WR_DOUBLE: return wr_buf_put(b, &v->f64, 8);
    case WR_DECIMAL: {
        uint32_t n = wr_spec_decimal_bytes(t.precision);
        for (uint32_t i = 0; i < n; i++) fixed[i] = (uint8_t)((unsigned __int128)v->dec >> (8 * (n - 1 - i)));
        return wr_buf_put(b, fixed, n);
    }
    case WR_STRING:
    case WR_BINARY: return wr_avro_put_bytes(b, v->s);
    default: return wr_avro_put_long(b, v->i64);
    }
}

/* vals[spec->n]: the entry's partition. */
static void put_tuple(wr_buf *b, const wr_spec *spec, const wr_value *vals) {
    for (int i = 0; i < spec->n; i++) {
        wr_avro_put_long(b, !vals[i].null);
        if (!vals[i].null) put_value(b, spec->fields[i].result, &vals[i]);
    }
}

static void put_file(wr_buf *b, const wr_manifest_head *h, const wr_ice_file *f, const wr_value *tuple) {
    bool v3 = h->format_version >= 3;
    static const struct wr_ice_extra none = {0};
    const struct wr_ice_extra *x = f->extra ? f->extra : &none;
    wr_avro_put_long(b, f->content);
    wr_avro_put_str(b, f->path);
    wr_avro_put_str(b, f->format ? f->format : "PARQUET");
    put_tuple(b, h->spec, tuple);
    wr_avro_put_long(b, (int64_t)f->records);
    wr_avro_put_long(b, (int64_t)f->bytes);
    for (int m = 0; m < NSTAT_MAPS; m++) put_stat_map(b, h, f, (stat_map)m);
    put_opt_bytes(b, x->key_metadata, x->key_metadata_n);
    put_list64(b, x->split_offsets, x->nsplit_offsets);
    put_list32(b, x->equality_ids, x->nequality_ids);
    put_opt_long(b, f->sort_order_id);
    if (v3) put_opt_long(b, f->content == WR_ICE_DATA ? f->first_row_id : -1);
    put_opt_bytes(b, (const uint8_t *)f->referenced, f->referenced ? strlen(f->referenced) : 0);
    if (v3) {
        put_opt_long(b, f->content_size > 0 ? f->content_offset : -1);
        put_opt_long(b, f->content_size > 0 ? f->content_size : -1);
    }
}

static void put_entry(wr_buf *b, const wr_entry *e, const wr_manifest_head *h, const wr_value *tuple) {
    const wr_ice_file *f = e->file;
    wr_avro_put_long(b, e->status);
    put_opt_long(b, e->status == WR_ENTRY_EXISTING ? f->snapshot_id : h->snapshot_id);
    put_opt_long(b, f->sequence);
    put_opt_long(b, e->status == WR_ENTRY_ADDED ? -1 : f->file_sequence);
    put_file(b, h, f, tuple);
}

static void count_entry(wr_manifest_file *row, const wr_entry *e, const wr_manifest_head *h) {
    int64_t *files = e->status == WR_ENTRY_ADDED      ? &row->added_files
                     : e->status == WR_ENTRY_EXISTING ? &row->existing_files
                                                      : &row->deleted_files;
    int64_t *rows = e->status == WR_ENTRY_ADDED      ? &row->added_rows
                    : e->status == WR_ENTRY_EXISTING ? &row->existing_rows
                                                     : &row->deleted_rows;
    *files += 1, *rows += (int64_t)e->file->records;
    int64_t seq = e->file->sequence < 0 ? h->sequence : e->file->sequence;
    if (e->status != WR_ENTRY_DELETED && seq < row->min_sequence) row->min_sequence = seq;
}

/* ------------------------------------------------------------------ partitions of a manifest */
/* What the list tells of them, so that readers pass over the whole manifest. */
typedef struct range {
    bool has_null, has_nan, any;
    wr_value low, high; /* borrowed from tuples */
} range;

static bool is_nan(wr_type t, const wr_value *v) { return (t.kind == WR_FLOAT && v->f32 != v->f32) || (t.kind == WR_DOUBLE && v->f64 != v->f64); }

#define ORDER(a, b) ((a) < (b) ? -1 : (a) > (b))
static int compare(wr_type t, const wr_value *a, const wr_value *b) {
    switch ((wr_kind)t.kind) {
    case WR_BOOL: return ORDER(a->b, b->b);
    case WR_INT:
    case WR_DATE: return ORDER(a->i32, b->i32);
    case WR_FLOAT: return ORDER(a->f32, b->f32);
    case WR_DOUBLE: return ORDER(a->f64, b->f64);
    case WR_DECIMAL: return ORDER(a->dec, b->dec);
    case WR_STRING:
    case WR_BINARY: {
        size_t n = a->s.n < b->s.n ? a->s.n : b->s.n;
        int c = n ? memcmp(a->s.p, b->s.p, n) : 0;
        return c ? c : ORDER(a->s.n, b->s.n);
    }
    default: return ORDER(a->i64, b->i64);
    }
}

static void widen(range *r, const wr_spec *spec, const wr_value *vals) {
    for (int i = 0; i < spec->n; i++, r++) {
        wr_type t = spec->fields[i].result;
        if (vals[i].null) r->has_null = true;
        else if (is_nan(t, &vals[i])) r->has_nan = true;
        else {
            if (!r->any || compare(t, &vals[i], &r->low) < 0) r->low = vals[i];
            if (!r->any || compare(t, &vals[i], &r->high) > 0) r->high = vals[i];
            r->any = true;
        }
    }
}

static wr_code single(wr_type t, const wr_value *v, uint8_t **ret, uint32_t *ret_n, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_spec_single(&b, t, v);
    WR_TRY(wr_buf_check(&b, "partition summaries", err));
    wr_slice s = wr_buf_view(&b);
    return copy_bytes(ret, ret_n, s.p ? s.p : (const uint8_t *)"", s.n) ? WR_OK : wr_nomem(err, "partition summaries", b.n);
}

static wr_code summarize(const range *r, const wr_spec *spec, wr_manifest_file *row, wr_err *err) {
    if (!spec->n) return WR_OK;
    row->partitions = wr_calloc((size_t)spec->n, sizeof *row->partitions);
    if (!row->partitions) return wr_nomem(err, "partition summaries", (size_t)spec->n * sizeof *row->partitions);
    row->npartitions = spec->n;
    for (int i = 0; i < spec->n; i++, r++) {
        wr_partition_summary *p = &row->partitions[i];
        wr_type t = spec->fields[i].result;
        p->contains_null = r->has_null;
        p->contains_nan = t.kind == WR_FLOAT || t.kind == WR_DOUBLE ? r->has_nan : 0;
        if (!r->any) continue;
        WR_TRY(single(t, &r->low, &p->lower, &p->lower_n, err));
        WR_TRY(single(t, &r->high, &p->upper, &p->upper_n, err));
    }
    return WR_OK;
}

/* The Avro schema of entries, with the spec's fields in record r102. */
static wr_code entry_schema(const wr_manifest_head *h, wr_buf *out, wr_err *err) {
    static const char mark[] = "\"name\":\"r102\",\"fields\":[";
    const char *text = h->format_version >= 3 ? entry_v3 : entry_v2, *at = strstr(text, mark) + strlen(mark);
    wr_buf_put(out, text, (size_t)(at - text));
    WR_TRY(wr_spec_avro(h->spec, out, err));
    wr_buf_put(out, at, strlen(at));
    return wr_buf_cstr(out) ? WR_OK : wr_nomem(err, "manifest schema", out->n);
}

static wr_code encode_entry(const wr_manifest_head *h, const wr_entry *e, wr_value *vals, range *ranges, wr_avro_writer *w, wr_err *err) {
    const wr_ice_file *f = e->file;
    if (f->extra && f->extra->unread_tuple) {
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "%s belongs to a partition that Weir cannot write: %s", f->path, h->spec->why_not ? h->spec->why_not : "its spec is not among the table's");
        return wr_err_cure(err, "rewrite that file under a spec of Weir's transforms, with Spark: CALL <catalog>.system.rewrite_data_files");
    }
    if (f->spec_id != h->spec->id) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s is of partition spec %d and not of %d", f->path, f->spec_id, h->spec->id);
    if (e->status != WR_ENTRY_ADDED && f->sequence < 0)
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s: an entry that is not new needs its sequence number", f->path);
    WR_TRY(wr_spec_read(h->spec, wr_ice_file_tuple(f), vals, err));
    widen(ranges, h->spec, vals);
    put_entry(&w->row, e, h, vals);
    return wr_avro_end_row(w, err);
}

static wr_code encode(const wr_manifest_head *h, const wr_entries *e, wr_buf *out, wr_manifest_file *row, wr_err *err) {
    char t[3][24];
    WR_AUTO_BUF wr_buf schema = WR_BUF_INIT, fields = WR_BUF_INIT;
    WR_AUTO wr_value *vals = wr_calloc((size_t)h->spec->n + 1, sizeof *vals);
    WR_AUTO range *ranges = wr_calloc((size_t)h->spec->n + 1, sizeof *ranges);
    if (!vals || !ranges) return wr_nomem(err, "manifest", 256);
    WR_TRY(entry_schema(h, &schema, err));
    WR_TRY(wr_spec_header(h->spec, &fields, err));
    wr_avro_meta meta[] = {{"schema", wr_slice_str(h->schema_json)},
                           meta_num("schema-id", h->schema_id, t[0]),
                           {"partition-spec", wr_buf_view(&fields)},
                           meta_num("partition-spec-id", h->spec->id, t[1]),
                           meta_num("format-version", h->format_version, t[2]),
                           {"content", wr_slice_str(h->content ? "deletes" : "data")}};
    size_t start = out->n;
    WR_CLEANUP(wr_avro_writer_clear) wr_avro_writer w = {0};
    WR_TRY(wr_avro_begin(&w, wr_buf_cstr(&schema), meta, (int)(sizeof meta / sizeof *meta), out, err));
    for (int i = 0; i < e->n; i++) {
        WR_TRY(encode_entry(h, &e->v[i], vals, ranges, &w, err));
        count_entry(row, &e->v[i], h);
    }
    WR_TRY(wr_avro_end(&w, err));
    row->length = (int64_t)(out->n - start);
    return summarize(ranges, h->spec, row, err);
}

wr_code wr_manifest_encode(const wr_manifest_head *h, const wr_entries *e, wr_buf *out, wr_manifest_file *ret_row, wr_err *err) {
    wr_manifest_file row = {.spec_id = h->spec->id,
                            .content = h->content,
                            .sequence = h->sequence,
                            .min_sequence = h->sequence,
                            .snapshot_id = h->snapshot_id,
                            .first_row_id = -1,
                            .npartitions = -1};
    wr_code rc = encode(h, e, out, &row, err);
    if (rc != WR_OK) return wr_manifest_file_clear(&row), rc;
    *ret_row = row;
    return WR_OK;
}
