/* Old snapshots leave a table, and with them the files that no snapshot left behind needs. By reachability of paths,
 * never by DELETED entries: deletion vectors share files (README.md, "Shared Puffin files"). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "iceberg/manifest.h"
#include "iceberg/metadata.h"
#include "iceberg/snapshot.h"
#include "weir/base/map.h"
#include "weir/base/mem.h"

#define KEEP_DEFAULT 100
#define ANCESTORS_MAX 10000000 /* a parent chain that goes in a circle ends here */

typedef struct sweep {
    wr_plan *p;
    const wr_ice_expire *opts;
    wr_u64map *kept; /* snapshot id -> itself */
    wr_map *needed;  /* path -> itself: manifest lists, manifests, files of kept snapshots */
    wr_map *seen;    /* manifests of expired snapshots that were read */
    int cap;
} sweep;

static wr_code keep(sweep *s, int64_t id, wr_err *err) {
    return wr_u64map_put(s->kept, (uint64_t)id, s) ? WR_OK : wr_nomem(err, "kept snapshots", 16);
}
static bool is_kept(const sweep *s, int64_t id) { return wr_u64map_get(s->kept, (uint64_t)id) != NULL; }

/* The head, then its ancestors as long as they are young or among the newest `keep`. */
static wr_code keep_branch(sweep *s, int64_t head, wr_err *err) {
    int64_t limit_ms = s->opts->older_than_us / 1000;
    int least = s->opts->keep > 0 ? s->opts->keep : KEEP_DEFAULT;
    int64_t id = head;
    for (int i = 0; i < ANCESTORS_MAX; i++) {
        const cJSON *snap = wr_meta_snapshot(s->p->doc, id);
        if (!snap || (i >= least && wr_meta_num(snap, "timestamp-ms", 0) < limit_ms)) return WR_OK;
        WR_TRY(keep(s, id, err));
        if (!wr_json_i64(snap, "parent-snapshot-id", &id)) return WR_OK;
    }
    return WR_OK;
}

static wr_code choose_kept(sweep *s, wr_err *err) {
    const cJSON *ref, *snap;
    int64_t main = wr_meta_ref(s->p->doc, WR_ICE_MAIN);
    if (main >= 0) WR_TRY(keep_branch(s, main, err));
    cJSON_ArrayForEach(ref, wr_json_get(s->p->doc, "refs")) {
        const char *type = wr_json_str(ref, "type");
        int64_t id = wr_meta_num(ref, "snapshot-id", -1);
        bool tag = type && strcmp(type, "tag") == 0;
        WR_TRY(tag ? keep(s, id, err) : keep_branch(s, id, err));
    }
    cJSON_ArrayForEach(snap, wr_json_get(s->p->doc, "snapshots")) { /* on no branch, and young */
        if (wr_meta_num(snap, "timestamp-ms", 0) >= s->opts->older_than_us / 1000)
            WR_TRY(keep(s, wr_meta_num(snap, "snapshot-id", -1), err));
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ files */
typedef wr_code visit(sweep *s, const char *path, wr_err *err);

static wr_code need(sweep *s, const char *path, wr_err *err) {
    return wr_map_put(s->needed, wr_slice_str(path), s) ? WR_OK : wr_nomem(err, "needed files", strlen(path));
}

/* Dead unless needed; each once; only what lies in the table's own folder. */
static wr_code maybe_dead(sweep *s, const char *path, wr_err *err) {
    const char *home = wr_ice_location(s->p->table);
    size_t n = strlen(home);
    if (wr_map_get(s->needed, wr_slice_str(path)) || strncmp(path, home, n) != 0 || path[n] != '/') return WR_OK;
    WR_TRY(need(s, path, err));
    if (s->p->ndead == s->cap) {
        int cap = s->cap ? s->cap * 2 : 64;
        char **v = wr_realloc(s->p->dead, (size_t)cap * sizeof *v);
        if (!v) return wr_nomem(err, "expired files", (size_t)cap * sizeof *v);
        s->p->dead = v, s->cap = cap;
    }
    WR_TRY(wr_uri_canonical(path, &s->p->dead[s->p->ndead], err));
    s->p->ndead++;
    return WR_OK;
}

static wr_code visit_manifest(sweep *s, const wr_manifest_file *mf, visit *fn, wr_err *err) {
    wr_entries e = {0};
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    WR_TRY(wr_snapshot_read_file(s->p->table, mf->path, &text, err));
    WR_TRY(wr_manifest_decode(wr_buf_view(&text), mf, false, &e, err));
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i < e.n; i++) rc = fn(s, e.v[i].file->path, err);
    wr_entries_clear(&e);
    return rc;
}

/* A manifest that was already visited, or that a kept snapshot needs, is passed over: its files are dealt with. */
static wr_code visit_snapshot(sweep *s, const cJSON *snap, visit *fn, wr_err *err) {
    WR_CLEANUP(wr_manifest_list_clear) wr_manifest_list l = {0};
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    const char *uri = wr_json_str(snap, "manifest-list");
    WR_TRY(wr_snapshot_read_file(s->p->table, uri, &text, err));
    WR_TRY(wr_manifest_list_decode(wr_buf_view(&text), uri, &l, err));
    for (int i = 0; i < l.n; i++) {
        if (wr_map_get(s->needed, wr_slice_str(l.v[i].path)) || wr_map_get(s->seen, wr_slice_str(l.v[i].path)))
            continue;
        if (!wr_map_put(s->seen, wr_slice_str(l.v[i].path), s)) return wr_nomem(err, "manifests", 1);
        WR_TRY(visit_manifest(s, &l.v[i], fn, err));
        WR_TRY(fn(s, l.v[i].path, err));
    }
    return fn(s, uri, err);
}

static wr_code find_dead(sweep *s, wr_err *err) {
    const cJSON *snap;
    cJSON_ArrayForEach(snap, wr_json_get(s->p->doc, "snapshots")) if (is_kept(s, wr_meta_num(snap, "snapshot-id", -1)))
        WR_TRY(visit_snapshot(s, snap, need, err));
    cJSON_ArrayForEach(snap, wr_json_get(s->p->doc, "snapshots")) if (!is_kept(s, wr_meta_num(snap, "snapshot-id", -1)))
        WR_TRY(visit_snapshot(s, snap, maybe_dead, err));
    return WR_OK;
}

/* ------------------------------------------------------------------ the document */
static void drop_from_list(sweep *s, const char *list, bool breaks_history) {
    cJSON *array = wr_json_get(s->p->doc, list), *item = array ? array->child : NULL;
    while (item) {
        cJSON *next = item->next;
        if (!is_kept(s, wr_meta_num(item, "snapshot-id", -1))) {
            /* The log must have no gaps: what is before a lost entry goes too. */
            while (breaks_history && array->child != item)
                cJSON_Delete(cJSON_DetachItemViaPointer(array, array->child));
            cJSON_Delete(cJSON_DetachItemViaPointer(array, item));
        }
        item = next;
    }
}

static wr_code expire(sweep *s, wr_err *err) {
    cJSON *snapshots = wr_json_array(s->p->doc, "snapshots");
    int before = cJSON_GetArraySize(snapshots);
    s->kept = wr_u64map_new(), s->needed = wr_map_new(), s->seen = wr_map_new();
    if (!s->kept || !s->needed || !s->seen) return wr_nomem(err, "expiry", 1);
    WR_TRY(choose_kept(s, err));
    s->p->nexpired = before - (int)wr_u64map_len(s->kept);
    if (s->p->nexpired <= 0 || s->p->nexpired < s->opts->at_least) return s->p->nexpired = 0, WR_OK;
    WR_TRY(find_dead(s, err));
    drop_from_list(s, "snapshots", false);
    drop_from_list(s, "snapshot-log", true);
    drop_from_list(s, "statistics", false);
    drop_from_list(s, "partition-statistics", false);
    return WR_OK;
}

wr_code wr_plan_expire(wr_plan *p, wr_err *err) {
    sweep s = {.p = p, .opts = p->edit->expire};
    wr_code rc = expire(&s, err);
    wr_u64map_free(s.kept, NULL);
    wr_map_free(s.needed, NULL);
    wr_map_free(s.seen, NULL);
    return rc == WR_OK ? WR_OK : wr_err_in(err, "expiring snapshots");
}
