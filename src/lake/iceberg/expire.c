/* Old snapshots leave a table, and with them the files that no snapshot left behind needs. By reachability of paths,
 * never by DELETED entries: vectors of other writers share files (docs/decisions/0002-one-vector-per-puffin.md). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "iceberg/manifest.h"
#include "iceberg/metadata.h"
#include "iceberg/snapshot.h"
#include "weir/base/fault.h"
#include "weir/base/map.h"
#include "weir/base/mem.h"

#define KEEP_DEFAULT 100
#define ANCESTORS_MAX 10000000 /* a parent chain that goes in a circle ends here */

typedef struct listed { /* a snapshot, as far as files go */
    int64_t id;
    char *list;
    bool kept;
} listed;

struct wr_ice_expiry {
    wr_store *store;
    char *home; /* the table's location */
    listed *snaps;
    int n, nkept;
    wr_u64map *kept; /* snapshot id -> itself */
    wr_map *needed;  /* path -> itself: manifest lists, manifests, files of kept snapshots */
    wr_map *seen;    /* manifests that were read */
    char **dead;     /* canonical URIs */
    int ndead, cap;
};

void wr_ice_expiry_free(wr_ice_expiry *x) {
    if (!x) return;
    for (int i = 0; i < x->n; i++) wr_free(x->snaps[i].list);
    for (int i = 0; i < x->ndead; i++) wr_free(x->dead[i]);
    wr_free(x->snaps), wr_free(x->dead), wr_free(x->home);
    wr_u64map_free(x->kept, NULL);
    wr_map_free(x->needed, NULL);
    wr_map_free(x->seen, NULL);
    wr_free(x);
}
static void expiry_free_p(wr_ice_expiry **x) { wr_ice_expiry_free(*x); }

int wr_ice_expiry_snapshots(const wr_ice_expiry *x) { return x->n - x->nkept; }
int wr_ice_expiry_files(const wr_ice_expiry *x) { return x->ndead; }

/* ------------------------------------------------------------------ which snapshots */
static wr_code keep(wr_ice_expiry *x, int64_t id, wr_err *err) {
    return wr_u64map_put(x->kept, (uint64_t)id, x) ? WR_OK : wr_nomem(err, "kept snapshots", 16);
}
static bool is_kept(const wr_ice_expiry *x, int64_t id) { return wr_u64map_get(x->kept, (uint64_t)id) != NULL; }

/* The head, then its ancestors as long as they are young or among the newest `keep`. */
static wr_code keep_branch(wr_ice_expiry *x, const cJSON *doc, const wr_ice_expire_options *o, int64_t head, wr_err *err) {
    int64_t limit_ms = o->older_than_us / 1000;
    int least = o->keep > 0 ? o->keep : KEEP_DEFAULT;
    int64_t id = head;
    for (int i = 0; i < ANCESTORS_MAX; i++) {
        const cJSON *snap = wr_meta_snapshot(doc, id);
        if (!snap || (i >= least && wr_meta_num(snap, "timestamp-ms", 0) < limit_ms)) return WR_OK;
        WR_TRY(keep(x, id, err));
        if (!wr_json_i64(snap, "parent-snapshot-id", &id)) return WR_OK;
    }
    return WR_OK;
}

static wr_code choose_kept(wr_ice_expiry *x, const cJSON *doc, const wr_ice_expire_options *o, wr_err *err) {
    const cJSON *ref, *snap;
    int64_t main = wr_meta_ref(doc, WR_ICE_MAIN);
    if (main >= 0) WR_TRY(keep_branch(x, doc, o, main, err));
    cJSON_ArrayForEach(ref, wr_json_get(doc, "refs")) {
        const char *type = wr_json_str(ref, "type");
        int64_t id = wr_meta_num(ref, "snapshot-id", -1);
        bool tag = type && strcmp(type, "tag") == 0;
        WR_TRY(tag ? keep(x, id, err) : keep_branch(x, doc, o, id, err));
    }
    cJSON_ArrayForEach(snap, wr_json_get(doc, "snapshots")) { /* on no branch, and young */
        if (wr_meta_num(snap, "timestamp-ms", 0) >= o->older_than_us / 1000)
            WR_TRY(keep(x, wr_meta_num(snap, "snapshot-id", -1), err));
    }
    return WR_OK;
}

static wr_code list_snapshots(wr_ice_expiry *x, const cJSON *doc, wr_err *err) {
    const cJSON *array = wr_json_get(doc, "snapshots"), *snap;
    x->snaps = wr_calloc((size_t)cJSON_GetArraySize(array) + 1, sizeof *x->snaps);
    if (!x->snaps) return wr_nomem(err, "expiry", 4096);
    cJSON_ArrayForEach(snap, array) {
        const char *uri = wr_json_str(snap, "manifest-list");
        int64_t id = wr_meta_num(snap, "snapshot-id", -1);
        listed *s = &x->snaps[x->n++];
        *s = (listed){.id = id, .kept = is_kept(x, id)};
        x->nkept += s->kept;
        if (!uri) return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "snapshot %" PRId64 " has no manifest list", id);
        if (!(s->list = wr_strdup(uri))) return wr_nomem(err, "path", strlen(uri));
    }
    return WR_OK;
}

static wr_code expiry_begin(const wr_ice_table *t, wr_ice_expiry **ret, wr_err *err) {
    wr_ice_expiry *x = wr_calloc(1, sizeof *x);
    if (!x) return wr_nomem(err, "expiry", sizeof *x);
    x->store = t->store;
    x->home = wr_strdup(wr_ice_location(t));
    x->kept = wr_u64map_new(), x->needed = wr_map_new(), x->seen = wr_map_new();
    *ret = x;
    return x->home && x->kept && x->needed && x->seen ? WR_OK : wr_nomem(err, "expiry", 64);
}

wr_code wr_ice_expiry_new(const wr_ice_table *t, const wr_ice_expire_options *o, wr_ice_expiry **ret_expiry,
                          wr_err *err) {
    WR_CLEANUP(expiry_free_p) wr_ice_expiry *x = NULL;
    WR_TRY(expiry_begin(t, &x, err));
    WR_TRY(choose_kept(x, t->doc, o, err));
    WR_TRY(list_snapshots(x, t->doc, err));
    int gone = wr_ice_expiry_snapshots(x);
    *ret_expiry = gone < 1 || gone < o->at_least ? NULL : WR_STEAL(x);
    return WR_OK;
}

/* ------------------------------------------------------------------ which files */
typedef wr_code visit(void *x, const char *path, wr_err *err);

static wr_code need(void *ctx, const char *path, wr_err *err) {
    wr_ice_expiry *x = ctx;
    return wr_map_put(x->needed, wr_slice_str(path), x) ? WR_OK : wr_nomem(err, "needed files", strlen(path));
}

/* Dead unless needed; each once; only what lies in the table's own folder. */
static wr_code maybe_dead(void *ctx, const char *path, wr_err *err) {
    wr_ice_expiry *x = ctx;
    size_t n = strlen(x->home);
    if (wr_map_get(x->needed, wr_slice_str(path)) || strncmp(path, x->home, n) != 0 || path[n] != '/') return WR_OK;
    WR_TRY(need(x, path, err));
    if (x->ndead == x->cap) {
        int cap = x->cap ? x->cap * 2 : 64;
        char **v = wr_realloc(x->dead, (size_t)cap * sizeof *v);
        if (!v) return wr_nomem(err, "expired files", (size_t)cap * sizeof *v);
        x->dead = v, x->cap = cap;
    }
    WR_TRY(wr_uri_canonical(path, &x->dead[x->ndead], err));
    x->ndead++;
    return WR_OK;
}

static wr_code visit_manifest(wr_store *store, const wr_manifest_file *mf, visit *fn, void *ctx, wr_err *err) {
    wr_entries e = {0};
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    WR_TRY(wr_snapshot_read_file(store, mf->path, &text, err));
    WR_TRY(wr_manifest_decode(wr_buf_view(&text), mf, NULL, false, &e, err));
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i < e.n; i++) rc = fn(ctx, e.v[i].file->path, err);
    wr_entries_clear(&e);
    return rc;
}

/* A manifest that was already visited is passed over: its files are dealt with. */
static wr_code visit_snapshot(wr_store *store, wr_map *seen, const char *uri, visit *fn, void *ctx, wr_err *err) {
    WR_CLEANUP(wr_manifest_list_clear) wr_manifest_list l = {0};
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    WR_TRY(wr_snapshot_read_file(store, uri, &text, err));
    WR_TRY(wr_manifest_list_decode(wr_buf_view(&text), uri, &l, err));
    for (int i = 0; i < l.n; i++) {
        if (wr_map_get(seen, wr_slice_str(l.v[i].path))) continue;
        if (!wr_map_put(seen, wr_slice_str(l.v[i].path), seen)) return wr_nomem(err, "manifests", 1);
        WR_TRY(visit_manifest(store, &l.v[i], fn, ctx, err));
        WR_TRY(fn(ctx, l.v[i].path, err));
    }
    return fn(ctx, uri, err);
}

/* One that leaves and that nobody can read any more leaves all the same: it must not keep the others. */
wr_code wr_ice_expiry_find(wr_ice_expiry *x, wr_err *err) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < x->n; i++) {
            if (x->snaps[i].kept != (pass == 0)) continue;
            wr_code rc = visit_snapshot(x->store, x->seen, x->snaps[i].list, pass ? maybe_dead : need, x, err);
            if (rc == WR_E_NOTFOUND && pass) wr_err_clear(err);
            else if (rc != WR_OK) return wr_err_in(err, "expiring snapshots");
        }
    return WR_OK;
}

/* A crash before the files are announced leaves them where they are, to be found by an audit; never the other way
 * round: what is announced may be deleted at the next start. */
wr_code wr_ice_expiry_delete(wr_ice_expiry *x, wr_state *state, wr_err *err) {
    const char *const *dead = (const char *const *)x->dead;
    if (!x->ndead) return WR_OK;
    if (state) WR_TRY(wr_state_file_add_many(state, dead, x->ndead, err));
    if (WR_FAULT("ice.expire")) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "fault ice.expire");
    WR_TRY(wr_store_remove(x->store, dead, x->ndead, err));
    return state ? wr_state_file_done(state, dead, x->ndead, err) : WR_OK;
}

wr_code wr_ice_each_metadata(const wr_ice_table *t, wr_code (*fn)(void *ctx, const char *path, wr_err *err), void *ctx, wr_err *err) {
    const cJSON *old;
    if (t->location_of_meta) WR_TRY(fn(ctx, t->location_of_meta, err));
    cJSON_ArrayForEach(old, wr_json_get(t->doc, "metadata-log"))
        if (wr_json_str(old, "metadata-file")) WR_TRY(fn(ctx, wr_json_str(old, "metadata-file"), err));
    return WR_OK;
}

wr_code wr_ice_each_reference(const wr_ice_table *t, wr_code (*fn)(void *ctx, const char *path, wr_err *err), void *ctx,
                              wr_err *err) {
    const cJSON *snap, *stat;
    wr_map *seen = wr_map_new();
    wr_code rc = seen ? WR_OK : wr_nomem(err, "manifests", 64);
    if (rc == WR_OK) rc = wr_ice_each_metadata(t, fn, ctx, err);
    static const char *const lists[2] = {"statistics", "partition-statistics"};
    for (int i = 0; i < 2; i++)
        cJSON_ArrayForEach(stat, wr_json_get(t->doc, lists[i]))
            if (rc == WR_OK && wr_json_str(stat, "statistics-path")) rc = fn(ctx, wr_json_str(stat, "statistics-path"), err);
    cJSON_ArrayForEach(snap, wr_json_get(t->doc, "snapshots"))
        if (rc == WR_OK && wr_json_str(snap, "manifest-list")) rc = visit_snapshot(t->store, seen, wr_json_str(snap, "manifest-list"), fn, ctx, err);
    wr_map_free(seen, NULL);
    return rc;
}

/* ------------------------------------------------------------------ the document */
static bool is_gone(const wr_ice_expiry *x, int64_t id) {
    for (int i = 0; i < x->n; i++)
        if (x->snaps[i].id == id) return !x->snaps[i].kept;
    return false; /* of a later commit */
}

static void drop_from_list(wr_plan *p, const char *list, bool breaks_history) {
    cJSON *array = wr_json_get(p->doc, list), *item = array ? array->child : NULL;
    while (item) {
        cJSON *next = item->next;
        if (is_gone(p->edit->expire, wr_meta_num(item, "snapshot-id", -1))) {
            /* The log must have no gaps: what is before a lost entry goes too. */
            while (breaks_history && array->child != item)
                cJSON_Delete(cJSON_DetachItemViaPointer(array, array->child));
            cJSON_Delete(cJSON_DetachItemViaPointer(array, item));
        }
        item = next;
    }
}

wr_code wr_plan_expire(wr_plan *p, wr_err *err) {
    const cJSON *ref;
    cJSON_ArrayForEach(ref, wr_json_get(p->doc, "refs"))
        if (is_gone(p->edit->expire, wr_meta_num(ref, "snapshot-id", -1)))
            return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "a snapshot that is to leave has become the head of %s", ref->string);
    drop_from_list(p, "snapshots", false);
    drop_from_list(p, "snapshot-log", true);
    drop_from_list(p, "statistics", false);
    drop_from_list(p, "partition-statistics", false);
    return WR_OK;
}
