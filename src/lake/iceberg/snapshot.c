/* The manifests of a new snapshot. Rules and limits: README.md, "Manifests". */
#include "iceberg/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iceberg/manifest.h"
#include "iceberg/metadata.h"
#include "iceberg/uuid.h"
#include "weir/base/map.h"
#include "weir/base/mem.h"
#include "weir/io.h"

#define MANIFEST_BYTES_MAX (256u << 20)
#define DATA_MANIFESTS_MAX 20       /* more are merged, small ones first ... */
#define DATA_MANIFESTS_GOAL 10      /* ... down to this many ... */
#define MERGED_BYTES_MAX (8u << 20) /* ... into one of at most about this size */
#define DELETE_MANIFESTS_MAX 8
#define DELETE_MANIFESTS_GOAL 4
#define FOLD_ENTRIES_MAX 1000 /* a touched delete manifest with more survivors stays apart from the fresh entries */

wr_code wr_snapshot_read_file(wr_store *store, const char *uri, wr_buf *out, wr_err *err) {
    return wr_store_get(store, uri, MANIFEST_BYTES_MAX, out, err);
}

/* ------------------------------------------------------------------ builder */
typedef struct tally { /* of the summary; data = 0, deletes = 1 */
    int64_t files[2], rows[2], bytes, dvs, eq_files, eq_rows;
} tally;

typedef struct loaded {       /* a manifest of the parent */
    wr_manifest_file *row;    /* borrowed from parent; moved to the new list when kept */
    wr_entries entries;       /* empty when it was not looked at */
    bool read, touched, gone; /* gone: its entries went into another manifest */
    int live;
} loaded;

typedef struct builder {
    wr_plan *p;
    const wr_ice_edit *edit;
    wr_manifest_head head;
    char *schema_text;
    int32_t *float_ids;
    char uuid[WR_UUID_TEXT];
    int nmanifests; /* named so far */
    wr_manifest_list parent, list;
    wr_specs specs;
    wr_map *partitions; /* that this commit changes: spec and tuple */
    loaded *data, *deletes;
    int ndata, ndeletes;
    wr_map *removed; /* path NUL referenced -> 1 + index into edit->removed */
    bool *found;
    tally added, gone;
    int kept, created, replaced, merged;
    int64_t entries_read;
} builder;

static void free_loaded(loaded *l, int n) {
    for (int i = 0; i < n; i++) wr_entries_clear(&l[i].entries);
    wr_free(l);
}

static void builder_clear(builder *b) {
    free_loaded(b->data, b->ndata);
    free_loaded(b->deletes, b->ndeletes);
    wr_manifest_list_clear(&b->parent);
    wr_manifest_list_clear(&b->list);
    wr_map_free(b->removed, NULL);
    wr_map_free(b->partitions, NULL);
    wr_specs_clear(&b->specs);
    wr_free(b->found);
    wr_free(b->float_ids);
    cJSON_free(b->schema_text);
}

static wr_code count_partition(builder *b, const wr_ice_file *f, wr_err *err) {
    WR_AUTO_BUF wr_buf key = WR_BUF_INIT;
    wr_buf_put(&key, &f->spec_id, sizeof f->spec_id);
    wr_buf_put(&key, f->tuple, f->tuple_n);
    WR_TRY(wr_buf_check(&key, "partition", err));
    return wr_map_put(b->partitions, wr_buf_view(&key), b) ? WR_OK : wr_nomem(err, "partitions", 64);
}

static void count(tally *t, const wr_ice_file *f) {
    int kind = f->content != WR_ICE_DATA;
    bool dv = f->content_size > 0 && kind;
    t->files[kind]++, t->rows[kind] += (int64_t)f->records;
    t->bytes += dv ? f->content_size : (int64_t)f->bytes;
    t->dvs += dv;
    if (f->content == WR_ICE_EQ_DELETES) t->eq_files++, t->eq_rows += (int64_t)f->records;
}

/* ------------------------------------------------------------------ the parent's manifests */
static wr_code load_parent(builder *b, int64_t parent_id, wr_err *err) {
    const cJSON *s = parent_id >= 0 ? wr_meta_snapshot(b->p->doc, parent_id) : NULL;
    if (!s || b->edit->restart_ref) return WR_OK;
    const char *uri = wr_json_str(s, "manifest-list");
    if (!uri)
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "snapshot %" PRId64 " has no manifest list", parent_id);
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    WR_TRY(wr_snapshot_read_file(b->p->table->store, uri, &text, err));
    WR_TRY(wr_manifest_list_decode(wr_buf_view(&text), uri, &b->parent, err));
    b->data = wr_calloc((size_t)b->parent.n, sizeof *b->data);
    b->deletes = wr_calloc((size_t)b->parent.n, sizeof *b->deletes);
    if (!b->data || !b->deletes) return wr_nomem(err, "manifest list", (size_t)b->parent.n * sizeof *b->data);
    for (int i = 0; i < b->parent.n; i++) {
        wr_manifest_file *m = &b->parent.v[i];
        if (m->added_files == 0 && m->existing_files == 0) {
            b->replaced++;
            continue;
        } /* only told what its own snapshot deleted */
        if (m->content)
            b->deletes[b->ndeletes++].row = m;
        else
            b->data[b->ndata++].row = m;
    }
    return WR_OK;
}

static wr_code read_manifest(builder *b, loaded *l, wr_err *err) {
    if (l->read) return WR_OK;
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    WR_TRY(wr_snapshot_read_file(b->p->table->store, l->row->path, &text, err));
    WR_TRY(wr_manifest_decode(wr_buf_view(&text), l->row, &b->specs, false, &l->entries, err));
    l->read = true, l->live = l->entries.n;
    b->entries_read += l->entries.n;
    return WR_OK;
}

/* ------------------------------------------------------------------ what is removed */
static wr_code removed_key(const char *path, const char *referenced, wr_buf *key, wr_err *err) {
    wr_buf_clear(key);
    wr_buf_put(key, path, strlen(path) + 1);
    if (referenced) wr_buf_put(key, referenced, strlen(referenced));
    return wr_buf_check(key, "path", err);
}

static wr_code index_removed(builder *b, wr_err *err) {
    const wr_ice_edit *e = b->edit;
    b->removed = wr_map_new();
    b->found = wr_calloc((size_t)e->nremoved, sizeof *b->found);
    if (!b->removed || !b->found) return wr_nomem(err, "removed files", (size_t)e->nremoved);
    WR_AUTO_BUF wr_buf key = WR_BUF_INIT;
    for (int i = 0; i < e->nremoved; i++) {
        WR_TRY(removed_key(e->removed[i], e->removed_refs ? e->removed_refs[i] : NULL, &key, err));
        if (wr_map_get(b->removed, wr_buf_view(&key)))
            return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s is removed twice in one edit", e->removed[i]);
        if (!wr_map_put(b->removed, wr_buf_view(&key), (void *)(uintptr_t)(i + 1)))
            return wr_nomem(err, "removed files", key.n);
    }
    return WR_OK;
}

/* Marks the request as met; false when nobody asked. */
static wr_code is_removed(builder *b, const char *path, const char *referenced, wr_buf *key, bool *ret, wr_err *err) {
    WR_TRY(removed_key(path, referenced, key, err));
    uintptr_t i = (uintptr_t)wr_map_get(b->removed, wr_buf_view(key));
    if (i) b->found[i - 1] = true;
    *ret = i != 0;
    return WR_OK;
}

static bool all_found(const builder *b) {
    for (int i = 0; i < b->edit->nremoved; i++)
        if (!b->found[i]) return false;
    return true;
}

static wr_code mark_delete_entry(builder *b, wr_entry *en, wr_buf *key, bool *ret_gone, wr_err *err) {
    const wr_ice_file *f = en->file;
    WR_TRY(is_removed(b, f->path, f->referenced, key, ret_gone, err));
    if (*ret_gone) return WR_OK;
    if (f->content_size <= 0) WR_TRY(is_removed(b, f->path, NULL, key, ret_gone, err));
    if (*ret_gone || !f->referenced) return WR_OK;
    /* Deletes of a data file go with it. (Its own request is met by the data manifest, so `found` must not be set
     * here.) */
    WR_TRY(removed_key(f->referenced, NULL, key, err));
    *ret_gone = wr_map_get(b->removed, wr_buf_view(key)) != NULL;
    return WR_OK;
}

static wr_code mark_entries(builder *b, loaded *l, wr_err *err) {
    WR_AUTO_BUF wr_buf key = WR_BUF_INIT;
    WR_TRY(read_manifest(b, l, err));
    for (int i = 0; i < l->entries.n; i++) {
        wr_entry *en = &l->entries.v[i];
        bool is_gone;
        if (l->row->content)
            WR_TRY(mark_delete_entry(b, en, &key, &is_gone, err));
        else
            WR_TRY(is_removed(b, en->file->path, NULL, &key, &is_gone, err));
        en->status = is_gone ? WR_ENTRY_DELETED : WR_ENTRY_EXISTING;
        if (!is_gone) continue;
        l->touched = true, l->live--;
        count(&b->gone, en->file);
        WR_TRY(count_partition(b, en->file, err));
    }
    return WR_OK;
}

/* At most one deletion vector per data file, or readers fail or lose deletes. */
static wr_code check_vectors(builder *b, wr_err *err) {
    if (b->head.format_version < 3) return WR_OK;
    wr_map *live = wr_map_new();
    wr_code rc = live ? WR_OK : wr_nomem(err, "deletion vectors", 1);
    const wr_ice_file *twice = NULL;
    for (int i = 0; rc == WR_OK && i < b->ndeletes; i++) {
        for (int j = 0; rc == WR_OK && j < b->deletes[i].entries.n; j++) {
            const wr_entry *en = &b->deletes[i].entries.v[j];
            if (en->status == WR_ENTRY_DELETED || en->file->content_size <= 0 || !en->file->referenced) continue;
            if (!wr_map_put(live, wr_slice_str(en->file->referenced), en->file))
                rc = wr_nomem(err, "deletion vectors", 1);
        }
    }
    for (int i = 0; rc == WR_OK && i < b->edit->nadded; i++) {
        wr_ice_file *f = b->edit->added[i];
        if (f->content == WR_ICE_DATA || !f->referenced) continue;
        if (wr_map_get(live, wr_slice_str(f->referenced))) twice = f;
        if (!wr_map_put(live, wr_slice_str(f->referenced), f)) rc = wr_nomem(err, "deletion vectors", 1);
    }
    wr_map_free(live, NULL);
    if (rc == WR_OK && twice)
        rc = wr_fail(err, WR_E_INVAL, WR_RETRY_NO,
                     "data file %s already has a deletion vector that this edit does not remove", twice->referenced);
    return rc;
}

static wr_code mark_removed(builder *b, wr_err *err) {
    bool adds_deletes = false, removes_data = false;
    WR_TRY(index_removed(b, err));
    for (int i = 0; i < b->edit->nadded; i++) adds_deletes |= b->edit->added[i]->content != WR_ICE_DATA;
    if (b->edit->nremoved > 0 || adds_deletes)
        for (int i = 0; i < b->ndeletes; i++) WR_TRY(mark_entries(b, &b->deletes[i], err));
    for (int i = 0; i < b->edit->nremoved; i++) removes_data |= !b->found[i];
    for (int i = b->ndata - 1; removes_data && i >= 0 && !all_found(b); i--) WR_TRY(mark_entries(b, &b->data[i], err));
    for (int i = 0; i < b->edit->nremoved; i++)
        if (!b->found[i])
            return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "file %s is to be removed and is not live",
                           b->edit->removed[i]);
    return check_vectors(b, err);
}

/* ------------------------------------------------------------------ writing manifests */
static wr_code write_one(builder *b, const wr_spec *spec, uint8_t content, const wr_entries *e, wr_err *err) {
    WR_AUTO_BUF wr_buf out = WR_BUF_INIT;
    wr_manifest_file row;
    b->head.content = content, b->head.spec = spec;
    WR_TRY(wr_manifest_encode(&b->head, e, &out, &row, err));
    row.path = wr_asprintf("%s/metadata/%s-m%d.avro", wr_ice_location(b->p->table), b->uuid, b->nmanifests++);
    char *uri = row.path ? wr_strdup(row.path) : NULL;
    if (!uri) return wr_free(row.path), wr_nomem(err, "path", 1);
    wr_code rc = wr_plan_add_file(b->p, uri, &out, err);
    if (rc == WR_OK) rc = wr_manifest_list_add(&b->list, &row, err);
    if (rc != WR_OK) return wr_manifest_file_clear(&row), rc;
    b->created++;
    return WR_OK;
}

/* A manifest is of one spec: as many as the entries have specs. */
static wr_code write_manifest(builder *b, uint8_t content, const wr_entries *e, wr_err *err) {
    int written = 0;
    for (int i = 0; i < b->specs.n && written < e->n; i++) {
        WR_CLEANUP(wr_entries_clear) wr_entries of = {0};
        for (int k = 0; k < e->n; k++)
            if (e->v[k].file->spec_id == b->specs.v[i]->id) WR_TRY(wr_entries_add(&of, e->v[k].status, e->v[k].file, false, err));
        written += of.n;
        if (of.n) WR_TRY(write_one(b, b->specs.v[i], content, &of, err));
    }
    if (written < e->n) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%d files are of partition specs that the table does not have", e->n - written);
    return WR_OK;
}

static wr_code keep_manifest(builder *b, loaded *l, wr_err *err) {
    b->kept++;
    return wr_manifest_list_add(&b->list, l->row, err); /* empties l->row */
}

static wr_code add_entries(wr_entries *to, const loaded *l, wr_err *err) {
    for (int i = 0; i < l->entries.n; i++)
        WR_TRY(wr_entries_add(to, l->entries.v[i].status, l->entries.v[i].file, false, err));
    return WR_OK;
}

static wr_code add_new(builder *b, wr_entries *to, bool deletes, wr_err *err) {
    for (int i = 0; i < b->edit->nadded; i++) {
        wr_ice_file *f = b->edit->added[i];
        if ((f->content != WR_ICE_DATA) != deletes) continue;
        count(&b->added, f);
        WR_TRY(count_partition(b, f, err));
        WR_TRY(wr_entries_add(to, WR_ENTRY_ADDED, f, false, err));
    }
    return WR_OK;
}

static void entries_clear_p(wr_entries *e) { wr_entries_clear(e); }
#define AUTO_ENTRIES WR_CLEANUP(entries_clear_p) wr_entries

static int by_length(const void *a, const void *b) {
    const loaded *x = *(loaded *const *)a, *y = *(loaded *const *)b;
    return x->row->length < y->row->length ? -1 : x->row->length > y->row->length;
}

static wr_code write_alone(builder *b, loaded *l, wr_err *err) {
    AUTO_ENTRIES e = {0};
    WR_TRY(add_entries(&e, l, err));
    l->gone = true, b->replaced++;
    return write_manifest(b, l->row->content, &e, err);
}

/* The smallest untouched manifests, as many as bring the count to the goal and fit into one; sorted array of pointers.
 */
static int choose(loaded **pick, int n, int count_now, int max, int goal) {
    if (count_now <= max) return 0;
    qsort(pick, (size_t)n, sizeof *pick, by_length);
    int64_t bytes = 0;
    int k = 0;
    while (k < n && count_now - k >= goal && bytes + pick[k]->row->length <= MERGED_BYTES_MAX)
        bytes += pick[k++]->row->length;
    return k < 2 ? 0 : k;
}

static wr_code merge(builder *b, loaded **pick, int n, wr_entries *to, wr_err *err) {
    for (int i = 0; i < n; i++) {
        WR_TRY(read_manifest(b, pick[i], err));
        for (int j = 0; j < pick[i]->entries.n; j++) pick[i]->entries.v[j].status = WR_ENTRY_EXISTING;
        WR_TRY(add_entries(to, pick[i], err));
        pick[i]->gone = true, b->replaced++, b->merged++;
    }
    return WR_OK;
}

static int of_spec(loaded *l, int n, int32_t spec_id, loaded **pick) {
    int k = 0;
    for (int i = 0; i < n; i++)
        if (!l[i].touched && l[i].row->path && l[i].row->spec_id == spec_id) pick[k++] = &l[i];
    return k;
}

/* Those of the spec that has most of them: others cannot be merged with them. */
static int untouched(const builder *b, loaded *l, int n, loaded **pick) {
    int most = 0;
    int32_t id = 0;
    for (int i = 0; i < b->specs.n; i++) {
        int k = of_spec(l, n, b->specs.v[i]->id, pick);
        if (k > most) most = k, id = b->specs.v[i]->id;
    }
    return of_spec(l, n, id, pick);
}

static wr_code data_manifests(builder *b, wr_err *err) {
    WR_AUTO loaded **pick = wr_calloc((size_t)b->ndata + 1, sizeof *pick);
    if (!pick) return wr_nomem(err, "manifests", (size_t)b->ndata);
    AUTO_ENTRIES merged = {0};
    AUTO_ENTRIES fresh = {0};
    int n = untouched(b, b->data, b->ndata, pick);
    WR_TRY(merge(b, pick, choose(pick, n, b->ndata + 1, DATA_MANIFESTS_MAX, DATA_MANIFESTS_GOAL), &merged, err));
    for (int i = 0; i < b->ndata; i++)
        if (!b->data[i].touched && !b->data[i].gone) WR_TRY(keep_manifest(b, &b->data[i], err));
    WR_TRY(write_manifest(b, 0, &merged, err));
    for (int i = 0; i < b->ndata; i++)
        if (b->data[i].touched) WR_TRY(write_alone(b, &b->data[i], err));
    WR_TRY(add_new(b, &fresh, false, err));
    return write_manifest(b, 0, &fresh, err);
}

/* Fresh vectors, and the survivors of small touched manifests, go into one; hot data files thereby gather in a small
 * manifest that is rewritten each time, and the cold rest is left alone. */
static wr_code delete_manifests(builder *b, wr_err *err) {
    WR_AUTO loaded **pick = wr_calloc((size_t)b->ndeletes + 1, sizeof *pick);
    if (!pick) return wr_nomem(err, "manifests", (size_t)b->ndeletes);
    AUTO_ENTRIES fresh = {0};
    int apart = 0;
    for (int i = 0; i < b->ndeletes; i++) {
        loaded *l = &b->deletes[i];
        if (!l->touched) continue;
        if (l->live > FOLD_ENTRIES_MAX) {
            WR_TRY(write_alone(b, l, err));
            apart++;
        } else {
            WR_TRY(merge(b, &l, 0, &fresh, err));
            WR_TRY(add_entries(&fresh, l, err));
            l->gone = true, b->replaced++;
        }
    }
    int n = untouched(b, b->deletes, b->ndeletes, pick);
    WR_TRY(merge(b, pick, choose(pick, n, n + apart + 1, DELETE_MANIFESTS_MAX, DELETE_MANIFESTS_GOAL), &fresh, err));
    for (int i = 0; i < b->ndeletes; i++)
        if (!b->deletes[i].touched && !b->deletes[i].gone) WR_TRY(keep_manifest(b, &b->deletes[i], err));
    WR_TRY(add_new(b, &fresh, true, err));
    return write_manifest(b, 1, &fresh, err);
}

/* ------------------------------------------------------------------ summary */
typedef struct totals {
    int64_t records, files, delete_files, delete_rows;
} totals;

static totals sum_list(const wr_manifest_list *l) {
    totals t = {0};
    for (int i = 0; i < l->n; i++) {
        const wr_manifest_file *m = &l->v[i];
        int64_t files = (m->added_files > 0 ? m->added_files : 0) + (m->existing_files > 0 ? m->existing_files : 0);
        int64_t rows = (m->added_rows > 0 ? m->added_rows : 0) + (m->existing_rows > 0 ? m->existing_rows : 0);
        if (m->content)
            t.delete_files += files, t.delete_rows += rows;
        else
            t.files += files, t.records += rows;
    }
    return t;
}

static bool put_num(cJSON *sum, const char *key, int64_t v) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, v);
    return wr_json_set_str(sum, key, text);
}
static bool put_some(cJSON *sum, const char *key, int64_t v) { return v == 0 || put_num(sum, key, v); }

/* A total of the parent's summary; -1 when a foreign parent does not say. */
static int64_t parent_total(const builder *b, int64_t parent_id, const char *key) {
    const cJSON *s = parent_id >= 0 && !b->edit->restart_ref ? wr_meta_snapshot(b->p->doc, parent_id) : NULL;
    if (!s) return 0;
    const cJSON *sum = wr_json_get(s, "summary");
    const char *text = sum ? wr_json_str(sum, key) : NULL;
    return text ? strtoll(text, NULL, 10) : -1;
}

static const char *operation(const builder *b) {
    const tally *a = &b->added, *g = &b->gone;
    if (b->edit->replace) return "replace";
    if (a->files[1] == 0 && g->files[0] == 0 && g->files[1] == 0 && !b->edit->restart_ref) return "append";
    if (a->files[0] == 0 && !b->edit->restart_ref) return "delete";
    return "overwrite";
}

static bool fill_summary(builder *b, cJSON *sum, int64_t parent_id) {
    const tally *a = &b->added, *g = &b->gone;
    totals t = sum_list(&b->list);
    bool first = parent_id < 0;
    int64_t bytes = parent_total(b, parent_id, "total-files-size"),
            eq = parent_total(b, parent_id, "total-equality-deletes");
    int64_t eq_now = (eq < 0 ? 0 : eq) + a->eq_rows - g->eq_rows;
    bool ok = wr_json_set_str(sum, "operation", first ? "append" : operation(b));
    ok = ok && put_some(sum, "added-data-files", a->files[0]) && put_some(sum, "deleted-data-files", g->files[0]) &&
         put_some(sum, "added-records", a->rows[0]) && put_some(sum, "deleted-records", g->rows[0]) &&
         put_some(sum, "added-files-size", a->bytes) && put_some(sum, "removed-files-size", g->bytes) &&
         put_some(sum, "added-delete-files", a->files[1]) && put_some(sum, "removed-delete-files", g->files[1]) &&
         put_some(sum, "added-dvs", a->dvs) && put_some(sum, "removed-dvs", g->dvs) &&
         put_some(sum, "added-position-delete-files", a->files[1] - a->dvs - a->eq_files) &&
         put_some(sum, "removed-position-delete-files", g->files[1] - g->dvs - g->eq_files) &&
         put_some(sum, "added-equality-delete-files", a->eq_files) &&
         put_some(sum, "removed-equality-delete-files", g->eq_files) &&
         put_some(sum, "added-position-deletes", a->rows[1] - a->eq_rows) &&
         put_some(sum, "removed-position-deletes", g->rows[1] - g->eq_rows) &&
         put_some(sum, "added-equality-deletes", a->eq_rows) && put_some(sum, "removed-equality-deletes", g->eq_rows) &&
         put_some(sum, "changed-partition-count", (int64_t)wr_map_len(b->partitions));
    ok = ok && put_num(sum, "total-records", t.records) && put_num(sum, "total-data-files", t.files) &&
         put_num(sum, "total-delete-files", t.delete_files) &&
         put_num(sum, "total-position-deletes", t.delete_rows - eq_now) &&
         put_num(sum, "total-equality-deletes", eq_now) &&
         (bytes < 0 || put_num(sum, "total-files-size", bytes + a->bytes - g->bytes));
    ok = ok && put_num(sum, "manifests-created", b->created) && put_num(sum, "manifests-kept", b->kept) &&
         put_num(sum, "manifests-replaced", b->replaced) && put_some(sum, WR_ICE_MERGED, b->merged) && put_num(sum, "entries-processed", b->entries_read) &&
         wr_json_set_str(sum, "engine-name", "weir") && wr_json_set_str(sum, "engine-version", WEIR_VERSION);
    for (int i = 0; ok && i < b->edit->nsummary; i++)
        ok = wr_json_set_str(sum, b->edit->summary_keys[i], b->edit->summary_vals[i]);
    return ok;
}

/* ------------------------------------------------------------------ the snapshot */
/* "First Row ID Assignment": each data manifest without one gets the next range. */
static wr_code assign_row_ids(builder *b, int64_t *ret_first, int64_t *ret_added, wr_err *err) {
    int64_t first = wr_meta_num(b->p->doc, "next-row-id", 0), next = first;
    for (int i = 0; i < b->list.n; i++) {
        wr_manifest_file *m = &b->list.v[i];
        if (m->content || m->first_row_id >= 0) continue;
        m->first_row_id = next;
        int64_t rows = (m->added_rows > 0 ? m->added_rows : 0) + (m->existing_rows > 0 ? m->existing_rows : 0);
        if (__builtin_add_overflow(next, rows, &next))
            return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "row ids of the table are used up");
    }
    *ret_first = first, *ret_added = next - first;
    return WR_OK;
}

static wr_code prepare_head(builder *b, const wr_snapshot_place *place, wr_err *err) {
    cJSON *doc = b->p->doc;
    const cJSON *schema = wr_meta_schema(doc, place->schema_id), *f, *s;
    if (!schema)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "schema %" PRId64 " is not among the schemas", place->schema_id);
    b->schema_text = cJSON_PrintUnformatted(schema);
    b->float_ids = wr_calloc((size_t)cJSON_GetArraySize(wr_json_get(schema, "fields")), sizeof *b->float_ids);
    if (!b->schema_text || !b->float_ids || !wr_uuid_new(b->uuid)) return wr_nomem(err, "snapshot", 1);
    b->head = (wr_manifest_head){.format_version = b->p->table->format_version,
                                 .schema_json = b->schema_text,
                                 .schema_id = (int32_t)place->schema_id,
                                 .sequence = wr_meta_num(doc, "last-sequence-number", 0) + 1,
                                 .float_ids = b->float_ids};
    cJSON_ArrayForEach(f, wr_json_get(schema, "fields")) {
        const char *type = wr_json_str(f, "type");
        if (type && (strcmp(type, "float") == 0 || strcmp(type, "double") == 0))
            b->float_ids[b->head.nfloat_ids++] = (int32_t)wr_meta_num(f, "id", -1);
    }
    WR_TRY(wr_specs_of(doc, place->schema_id, &b->specs, err));
    if (!(b->partitions = wr_map_new())) return wr_nomem(err, "partitions", 64);
    do {
        if (!wr_random_id(&b->head.snapshot_id))
            return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "getrandom gave no snapshot id");
        s = wr_meta_snapshot(doc, b->head.snapshot_id);
    } while (s);
    return WR_OK;
}

static wr_code check_added(const builder *b, wr_err *err) {
    wr_map *seen = wr_map_new();
    wr_code rc = seen ? WR_OK : wr_nomem(err, "added files", 1);
    for (int i = 0; rc == WR_OK && i < b->edit->nadded; i++) {
        const wr_ice_file *f = b->edit->added[i];
        if (!wr_specs_find(&b->specs, f->spec_id)) rc = wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s is of partition spec %d, which the table does not have", f->path, f->spec_id);
        if (f->content != WR_ICE_DATA) {
            if (b->head.format_version >= 3 && f->content == WR_ICE_POS_DELETES &&
                (f->content_offset < 0 || f->content_size <= 0 || !f->referenced))
                rc = wr_fail(err, WR_E_INVAL, WR_RETRY_NO,
                             "%s: format version 3 takes deletion vectors, with their data file, offset and size",
                             f->path);
            continue;
        }
        if (wr_map_get(seen, wr_slice_str(f->path)))
            rc = wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "data file %s is added twice in one edit", f->path);
        else if (!wr_map_put(seen, wr_slice_str(f->path), (void *)1))
            rc = wr_nomem(err, "added files", 1);
    }
    wr_map_free(seen, NULL);
    return rc;
}

static wr_code write_list(builder *b, const wr_snapshot_place *place, int64_t first_row_id, char **ret_uri,
                          wr_err *err) {
    WR_AUTO_BUF wr_buf out = WR_BUF_INIT;
    wr_manifest_list_head h = {b->head.format_version, b->head.snapshot_id, place->parent_id, b->head.sequence,
                               first_row_id};
    WR_TRY(wr_manifest_list_encode(&h, &b->list, &out, err));
    char *uri = wr_asprintf("%s/metadata/snap-%" PRId64 "-1-%s.avro", wr_ice_location(b->p->table), b->head.snapshot_id,
                            b->uuid);
    *ret_uri = uri ? wr_strdup(uri) : NULL;
    if (!*ret_uri) return wr_free(uri), wr_nomem(err, "path", 1);
    return wr_plan_add_file(b->p, uri, &out, err);
}

static wr_code add_member(builder *b, const wr_snapshot_place *place, const char *list_uri, int64_t first_row_id,
                          int64_t added_rows, wr_err *err) {
    cJSON *doc = b->p->doc, *snapshots = wr_json_array(doc, "snapshots"), *s = cJSON_CreateObject(), *sum;
    bool v3 = b->head.format_version >= 3;
    bool ok = wr_json_push(snapshots, s) && wr_json_set_num(s, "sequence-number", b->head.sequence) &&
              wr_json_set_num(s, "snapshot-id", b->head.snapshot_id) &&
              (place->parent_id < 0 || wr_json_set_num(s, "parent-snapshot-id", place->parent_id)) &&
              wr_json_set_num(s, "timestamp-ms", place->timestamp_ms) && (sum = wr_json_object(s, "summary")) &&
              fill_summary(b, sum, place->parent_id) && wr_json_set_str(s, "manifest-list", list_uri) &&
              wr_json_set_num(s, "schema-id", place->schema_id);
    ok = ok &&
         (!v3 || (wr_json_set_num(s, "first-row-id", first_row_id) && wr_json_set_num(s, "added-rows", added_rows) &&
                  wr_json_set_num(doc, "next-row-id", first_row_id + added_rows)));
    ok = ok && wr_json_set_num(doc, "last-sequence-number", b->head.sequence);
    return ok ? WR_OK : wr_nomem(err, "snapshot", 1024);
}

static wr_code build(builder *b, const wr_snapshot_place *place, wr_err *err) {
    WR_AUTO char *list_uri = NULL;
    int64_t first_row_id = -1, added_rows = 0;
    WR_TRY(prepare_head(b, place, err));
    WR_TRY(check_added(b, err));
    WR_TRY(load_parent(b, place->parent_id, err));
    WR_TRY(mark_removed(b, err));
    WR_TRY(data_manifests(b, err));
    WR_TRY(delete_manifests(b, err));
    if (b->head.format_version >= 3) WR_TRY(assign_row_ids(b, &first_row_id, &added_rows, err));
    WR_TRY(write_list(b, place, first_row_id, &list_uri, err));
    return add_member(b, place, list_uri, first_row_id, added_rows, err);
}

wr_code wr_snapshot_build(wr_plan *p, const wr_snapshot_place *place, int64_t *ret_snapshot_id, wr_err *err) {
    builder b = {.p = p, .edit = p->edit};
    if (p->edit->restart_ref && p->edit->nremoved > 0)
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "a restarted branch has nothing to remove");
    wr_code rc = build(&b, place, err);
    if (rc == WR_OK) *ret_snapshot_id = b.head.snapshot_id;
    builder_clear(&b);
    return rc;
}

/* ------------------------------------------------------------------ live files */
typedef struct file_list {
    wr_ice_file **v;
    int n, cap;
} file_list;

static void file_list_clear(file_list *l) {
    for (int i = 0; i < l->n; i++) wr_ice_file_free(l->v[i]);
    wr_free(l->v);
}

static wr_code take_files(file_list *l, wr_entries *e, wr_err *err) {
    if (l->n + e->n > l->cap) {
        int cap = l->n + e->n > l->cap * 2 ? l->n + e->n : l->cap * 2;
        wr_ice_file **v = wr_realloc(l->v, (size_t)cap * sizeof *v);
        if (!v) return wr_nomem(err, "live files", (size_t)cap * sizeof *v);
        l->v = v, l->cap = cap;
    }
    for (int i = 0; i < e->n; i++) l->v[l->n++] = e->v[i].file, e->v[i].owned = false;
    return WR_OK;
}

typedef struct path_visitor {
    wr_code (*fn)(void *ctx, const char *path, wr_err *err);
    void *ctx;
} path_visitor;

static wr_code live_files(wr_store *store, const char *list_uri, const wr_specs *specs, file_list *l, const path_visitor *manifests, wr_err *err) {
    WR_CLEANUP(wr_manifest_list_clear) wr_manifest_list list = {0};
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    WR_TRY(wr_snapshot_read_file(store, list_uri, &text, err));
    WR_TRY(wr_manifest_list_decode(wr_buf_view(&text), list_uri, &list, err));
    for (int i = 0; i < list.n; i++) {
        if (manifests) WR_TRY(manifests->fn(manifests->ctx, list.v[i].path, err));
        if (list.v[i].added_files == 0 && list.v[i].existing_files == 0) continue;
        AUTO_ENTRIES e = {0};
        wr_buf_clear(&text);
        WR_TRY(wr_snapshot_read_file(store, list.v[i].path, &text, err));
        WR_TRY(wr_manifest_decode(wr_buf_view(&text), &list.v[i], specs, false, &e, err));
        WR_TRY(take_files(l, &e, err));
    }
    return WR_OK;
}

static wr_code snapshot_list(const wr_ice_table *t, int64_t snapshot_id, const char **ret_uri, wr_err *err) {
    const cJSON *s = wr_meta_snapshot(t->doc, snapshot_id);
    if (s) return *ret_uri = wr_json_str(s, "manifest-list"), WR_OK;
    return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "table %s.%s has no snapshot %" PRId64, t->ns ? t->ns : "",
                   t->name ? t->name : "", snapshot_id);
}

static wr_code in_snapshot(const wr_ice_table *t, int64_t snapshot_id, wr_err *err) {
    return wr_err_in(err, "table %s.%s, snapshot %" PRId64, t->ns ? t->ns : "", t->name ? t->name : "", snapshot_id);
}

wr_code wr_ice_manifest_list(const wr_ice_table *t, int64_t snapshot_id, char **ret_uri, wr_err *err) {
    const char *uri = NULL;
    WR_TRY(snapshot_list(t, snapshot_id, &uri, err));
    if (!uri) return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "snapshot %" PRId64 " has no manifest list", snapshot_id);
    return (*ret_uri = wr_strdup(uri)) ? WR_OK : wr_nomem(err, "path", strlen(uri));
}

wr_code wr_ice_listed_files(wr_store *store, const char *list_uri, wr_ice_file ***ret_files, int *ret_n, wr_err *err) {
    WR_CLEANUP(file_list_clear) file_list l = {0};
    WR_TRY(live_files(store, list_uri, NULL, &l, NULL, err));
    *ret_files = l.v, *ret_n = l.n;
    l = (file_list){0};
    return WR_OK;
}

wr_code wr_ice_live_files(const wr_ice_table *t, int64_t snapshot_id, wr_ice_file ***ret_files, int *ret_n,
                          wr_err *err) {
    WR_AUTO char *uri = NULL;
    WR_CLEANUP(file_list_clear) file_list l = {0};
    WR_CLEANUP(wr_specs_clear) wr_specs specs = {0};
    WR_TRY(wr_ice_manifest_list(t, snapshot_id, &uri, err));
    WR_TRY(wr_specs_of(t->doc, wr_meta_num(t->doc, "current-schema-id", 0), &specs, err));
    if (live_files(t->store, uri, &specs, &l, NULL, err) != WR_OK) return in_snapshot(t, snapshot_id, err);
    *ret_files = l.v, *ret_n = l.n;
    l = (file_list){0};
    return WR_OK;
}

wr_code wr_ice_each_path(const wr_ice_table *t, int64_t snapshot_id,
                         wr_code (*fn)(void *ctx, const char *path, wr_err *err), void *ctx, wr_err *err) {
    WR_CLEANUP(file_list_clear) file_list l = {0};
    const char *uri = NULL;
    path_visitor manifests = {fn, ctx};
    WR_TRY(snapshot_list(t, snapshot_id, &uri, err));
    if (t->location_of_meta) WR_TRY(fn(ctx, t->location_of_meta, err));
    WR_TRY(fn(ctx, uri, err));
    if (live_files(t->store, uri, NULL, &l, &manifests, err) != WR_OK) return in_snapshot(t, snapshot_id, err);
    for (int i = 0; i < l.n; i++) WR_TRY(fn(ctx, l.v[i]->path, err));
    return WR_OK;
}
