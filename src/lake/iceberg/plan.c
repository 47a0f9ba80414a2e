/* One edit: the new metadata document, and the names of what becomes obsolete. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iceberg/metadata.h"
#include "iceberg/snapshot.h"
#include "iceberg/sort_order.h"
#include "iceberg/uuid.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"

#define PREVIOUS_VERSIONS_DEFAULT 100 /* Iceberg's, for tables that do not say */

void wr_plan_clear(wr_plan *p) {
    for (int i = 0; i < p->nfiles; i++) {
        wr_free(p->files[i].uri);
        wr_buf_free(&p->files[i].content);
    }
    wr_free(p->files);
    for (int i = 0; i < p->nobsolete; i++) wr_free(p->obsolete[i]);
    wr_free(p->obsolete);
    wr_free(p->metadata_uri);
    cJSON_Delete(p->doc);
    *p = (wr_plan){0};
}

wr_code wr_plan_add_file(wr_plan *p, char *uri, wr_buf *content, wr_err *err) {
    wr_code rc = WR_OK;
    if (p->nfiles == p->cap) {
        int cap = p->cap ? p->cap * 2 : 8;
        wr_plan_file *v = wr_realloc(p->files, (size_t)cap * sizeof *v);
        if (v)
            p->files = v, p->cap = cap;
        else
            rc = wr_nomem(err, "commit plan", (size_t)cap * sizeof *v);
    }
    if (rc != WR_OK) return wr_free(uri), rc;
    p->files[p->nfiles++] = (wr_plan_file){uri, *content};
    *content = (wr_buf)WR_BUF_INIT;
    return WR_OK;
}

/* ------------------------------------------------------------------ schema, properties */
static wr_code apply_schema(wr_plan *p, int64_t parent_id, int64_t *ret_schema_id, wr_err *err) {
    const wr_ice_edit *e = p->edit;
    bool main = strcmp(e->ref, WR_ICE_MAIN) == 0;
    int64_t current = wr_meta_num(p->doc, "current-schema-id", 0);
    const cJSON *parent = parent_id >= 0 && !main ? wr_meta_snapshot(p->doc, parent_id) : NULL;
    int64_t base = parent ? wr_meta_num(parent, "schema-id", current) : current;
    if (!e->schema) return *ret_schema_id = base, WR_OK;
    /* A table without rows takes any schema. */
    bool fresh = e->restart_ref || (parent_id < 0 && wr_meta_ref(p->doc, WR_ICE_MAIN) < 0);
    WR_TRY(wr_meta_add_schema(p->doc, e->schema, fresh ? WR_SCHEMA_RESTARTS : WR_SCHEMA_EVOLVES, base, ret_schema_id,
                              err));
    WR_TRY(
        wr_meta_remember_schema(p->doc, e->set_current_schema ? WR_ICE_MAIN : e->ref, e->schema, *ret_schema_id, err));
    if (e->set_current_schema && !wr_json_set_num(p->doc, "current-schema-id", *ret_schema_id))
        return wr_nomem(err, "schema", 1);
    return WR_OK;
}

/* The default spec must go with the current schema: a load's columns may not be there before it is published. */
static wr_code apply_spec(wr_plan *p, wr_err *err) {
    const wr_ice_edit *e = p->edit;
    if (e->spec) WR_TRY(wr_meta_add_spec(p->doc, e->spec, err));
    if (e->spec && (e->set_current_schema || e->publish || e->show) && !wr_json_set_num(p->doc, "default-spec-id", e->spec->id)) return wr_nomem(err, "partition spec", 1);
    return WR_OK;
}

static wr_code apply_properties(wr_plan *p, wr_err *err) {
    cJSON *props = wr_json_object(p->doc, "properties");
    bool ok = props != NULL;
    for (int i = 0; ok && i < p->edit->nprops; i++) {
        if (p->edit->prop_vals[i])
            ok = wr_json_set_str(props, p->edit->prop_keys[i], p->edit->prop_vals[i]);
        else
            cJSON_DeleteItemFromObjectCaseSensitive(props, p->edit->prop_keys[i]);
    }
    return ok ? WR_OK : wr_nomem(err, "properties", 1);
}

/* A branch's columns may be others than the table's: its files are sorted by what the table knows already, or by nothing. */
static wr_code apply_sort_order(wr_plan *p, wr_err *err) {
    const wr_ice_edit *e = p->edit;
    if (!e->sort) return WR_OK;
    int64_t id = wr_sort_order_find(p->doc, e->sort);
    if (strcmp(e->ref, WR_ICE_MAIN) == 0 || e->create) WR_TRY(wr_sort_order_set(p->doc, e->sort, &id, err));
    uint64_t by = wr_ice_sorted_by(e->sort);
    for (int i = 0; i < e->nadded; i++)
        if (e->added[i]->sorted_by) e->added[i]->sort_order_id = e->added[i]->sorted_by == by ? (int32_t)id : -1;
    return WR_OK;
}

/* ------------------------------------------------------------------ refs */
static wr_code point_ref(wr_plan *p, const char *ref, int64_t snapshot_id, int64_t ts, wr_err *err) {
    cJSON *refs = wr_json_object(p->doc, "refs"), *r = refs ? wr_json_object(refs, ref) : NULL;
    bool ok = r && wr_json_set_num(r, "snapshot-id", snapshot_id) &&
              (wr_json_str(r, "type") || wr_json_set_str(r, "type", "branch"));
    if (ok && strcmp(ref, WR_ICE_MAIN) == 0) {
        cJSON *log = wr_json_array(p->doc, "snapshot-log"), *entry = cJSON_CreateObject();
        ok = wr_json_push(log, entry) && wr_json_set_num(entry, "timestamp-ms", ts) &&
             wr_json_set_num(entry, "snapshot-id", snapshot_id) &&
             wr_json_set_num(p->doc, "current-snapshot-id", snapshot_id);
    }
    return ok ? WR_OK : wr_nomem(err, "refs", 1);
}

/* The current schema becomes the edit's, or else that of the branch's head. */
static wr_code publish(wr_plan *p, int64_t edit_schema_id, int64_t ts, wr_err *err) {
    const char *ref = p->edit->ref;
    if (strcmp(ref, WR_ICE_MAIN) == 0) return WR_OK;
    int64_t head = wr_meta_ref(p->doc, ref);
    const cJSON *s = head >= 0 ? wr_meta_snapshot(p->doc, head) : NULL;
    if (!s) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "there is no branch %s to publish", ref);
    bool said = p->edit->schema && p->edit->set_current_schema;
    int64_t schema_id =
        said ? edit_schema_id : wr_meta_num(s, "schema-id", wr_meta_num(p->doc, "current-schema-id", 0));
    WR_TRY(wr_meta_publish_schema(p->doc, ref, schema_id, err));
    WR_TRY(point_ref(p, WR_ICE_MAIN, head, ts, err));
    cJSON_DeleteItemFromObjectCaseSensitive(wr_json_get(p->doc, "refs"), ref);
    return WR_OK;
}

/* A load that may be watched: main goes along with its branch. */
static wr_code show(wr_plan *p, int64_t schema_id, int64_t snapshot_id, int64_t ts, wr_err *err) {
    if (!wr_json_set_num(p->doc, "current-schema-id", schema_id)) return wr_nomem(err, "schema", 1);
    return point_ref(p, WR_ICE_MAIN, snapshot_id, ts, err);
}

/* ------------------------------------------------------------------ metadata file */
static int next_version(const char *uri) {
    const char *base = uri ? strrchr(uri, '/') : NULL;
    if (!base) return 0;
    char *end;
    long v = strtol(base + 1, &end, 10);
    return *end == '-' && end != base + 1 && v >= 0 && v < 99999999 ? (int)v + 1 : 0;
}

/* metadata-log gets the version before; what falls off its end is deleted after the commit. */
static wr_code roll_log(wr_plan *p, wr_err *err) {
    const char *old = p->table->location_of_meta;
    if (!old) return WR_OK;
    cJSON *log = wr_json_array(p->doc, "metadata-log"), *entry = cJSON_CreateObject();
    if (!wr_json_push(log, entry) ||
        !wr_json_set_num(entry, "timestamp-ms", wr_meta_num(p->table->doc, "last-updated-ms", 0)) ||
        !wr_json_set_str(entry, "metadata-file", old))
        return wr_nomem(err, "metadata log", 1);
    const char *max_text = wr_meta_property(p->doc, "write.metadata.previous-versions-max");
    const char *delete_text = wr_meta_property(p->doc, "write.metadata.delete-after-commit.enabled");
    long max = max_text ? strtol(max_text, NULL, 10) : PREVIOUS_VERSIONS_DEFAULT;
    int drop = cJSON_GetArraySize(log) - (int)(max < 1 ? 1 : max > 100000 ? 100000 : max);
    if (drop <= 0) return WR_OK;
    bool delete = delete_text && strcmp(delete_text, "true") == 0;
    p->obsolete = wr_calloc((size_t)drop, sizeof *p->obsolete);
    if (!p->obsolete) return wr_nomem(err, "metadata log", (size_t)drop);
    for (; drop > 0; drop--) {
        const char *uri = wr_json_str(log->child, "metadata-file");
        wr_err ignored = WR_ERR_INIT; /* a foreign place that we cannot reach stays */
        if (delete && uri && wr_uri_canonical(uri, &p->obsolete[p->nobsolete], &ignored) == WR_OK) p->nobsolete++;
        cJSON_DeleteItemFromArray(log, 0);
    }
    return WR_OK;
}

static wr_code render(wr_plan *p, wr_err *err) {
    char uuid[WR_UUID_TEXT];
    if (!wr_uuid_new(uuid)) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "getrandom gave no uuid");
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    WR_TRY(wr_json_print(p->doc, &text, err));
    char *uri = wr_asprintf("%s/metadata/%05d-%s.metadata.json", wr_ice_location(p->table),
                            next_version(p->table->location_of_meta), uuid);
    p->metadata_uri = uri ? wr_strdup(uri) : NULL;
    if (!p->metadata_uri) return wr_free(uri), wr_nomem(err, "path", 1);
    return wr_plan_add_file(p, uri, &text, err);
}

/* ------------------------------------------------------------------ the edit */
static wr_code check_edit(const wr_ice_edit *e, wr_err *err) {
    const wr_ice_table *t = e->table;
    if (!t->ns) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "the table has no name");
    if (e->create && t->location_of_meta) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "the table exists already");
    if (!e->create && !t->location_of_meta)
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "the table has not been created");
    if (e->drop) return WR_OK;
    if (t->format_version < 2) return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "format version 1 is only read");
    if (!e->ref || !e->ref[0]) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "an edit needs a branch");
    if (e->no_snapshot && (e->nadded || e->nremoved || e->restart_ref))
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "files without a snapshot");
    if (e->expire && (!e->no_snapshot || e->schema || e->spec || e->publish || e->create))
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "snapshots expire in an edit of their own");
    return WR_OK;
}

static wr_code plan(wr_plan *p, wr_plan_metadata metadata, wr_err *err) {
    const wr_ice_edit *e = p->edit;
    WR_TRY(check_edit(e, err));
    if (e->drop) return WR_OK;
    if (e->no_snapshot && !e->schema && !e->spec && !e->nprops && !e->publish && !e->create && !e->expire)
        return WR_OK; /* a rename alone */
    p->doc = cJSON_Duplicate(p->table->doc, 1);
    if (!p->doc) return wr_nomem(err, "table metadata", 1);
    /* Never back, whatever the clock does; snapshots strictly forward, so that "as of" always means one. */
    int64_t now = wr_now_us() / 1000, last = wr_meta_num(p->doc, "last-updated-ms", 0);
    int64_t ts = now > last ? now : last + (p->table->location_of_meta && !e->no_snapshot);
    int64_t parent = wr_meta_ref(p->doc, e->ref), schema_id, snapshot_id;
    if (parent < 0) parent = wr_meta_ref(p->doc, WR_ICE_MAIN); /* a new branch starts at main */
    WR_TRY(apply_schema(p, parent, &schema_id, err));
    WR_TRY(apply_spec(p, err));
    WR_TRY(apply_properties(p, err));
    WR_TRY(apply_sort_order(p, err));
    if (!e->no_snapshot) {
        wr_snapshot_place place = {.parent_id = parent, .timestamp_ms = ts, .schema_id = schema_id};
        WR_TRY(wr_snapshot_build(p, &place, &snapshot_id, err));
        WR_TRY(point_ref(p, e->ref, snapshot_id, ts, err));
        if (e->show) WR_TRY(show(p, schema_id, snapshot_id, ts, err));
    }
    if (e->expire) WR_TRY(wr_plan_expire(p, err));
    if (e->publish) WR_TRY(publish(p, schema_id, ts, err));
    if (e->spec) WR_TRY(wr_meta_settle_clashes(p->doc, metadata == WR_PLAN_METADATA_SENT ? WR_CLASH_REMOVE : WR_CLASH_RENAME, err));
    if (e->publish && e->sort) WR_TRY(wr_sort_order_set(p->doc, e->sort, &(int64_t){0}, err));
    if (!wr_json_set_num(p->doc, "last-updated-ms", ts)) return wr_nomem(err, "table metadata", 1);
    if (metadata == WR_PLAN_METADATA_SENT) return WR_OK;
    WR_TRY(roll_log(p, err));
    return render(p, err);
}

wr_code wr_plan_edit(const wr_ice_edit *edit, wr_plan_metadata metadata, wr_plan *ret_plan, wr_err *err) {
    wr_plan p = {.edit = edit, .table = edit->table};
    wr_code rc = plan(&p, metadata, err);
    if (rc != WR_OK) {
        wr_plan_clear(&p);
        return wr_err_in(err, "table %s.%s", edit->table->ns ? edit->table->ns : "",
                         edit->table->name ? edit->table->name : "");
    }
    *ret_plan = p;
    return WR_OK;
}
