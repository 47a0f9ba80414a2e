#include "iceberg/rest_diff.h"

#include <inttypes.h>
#include <string.h>

#include "iceberg/metadata.h"
#include "weir/base/map.h"
#include "weir/base/mem.h"

void wr_rest_change_clear(wr_rest_change *c) {
    cJSON_Delete(c->updates);
    cJSON_Delete(c->requirements);
    *c = (wr_rest_change){0};
}

/* ok turns false when memory is out, and everything after that does nothing. */
typedef struct diff {
    const cJSON *before, *after;
    wr_rest_change *c;
    bool ok;
} diff;

static cJSON *push(diff *d, cJSON *list, const char *key, const char *kind) {
    cJSON *o = d->ok ? cJSON_CreateObject() : NULL;
    d->ok = d->ok && wr_json_push(list, o) && wr_json_set_str(o, key, kind);
    return d->ok ? o : NULL;
}
static cJSON *update(diff *d, const char *action) { return push(d, d->c->updates, "action", action); }
static cJSON *require(diff *d, const char *type) { return push(d, d->c->requirements, "type", type); }

static void put_num(diff *d, cJSON *o, const char *key, int64_t v) { d->ok = d->ok && o && wr_json_set_num(o, key, v); }
static void put_str(diff *d, cJSON *o, const char *key, const char *v) { d->ok = d->ok && o && wr_json_set_str(o, key, v); }
static void put_copy(diff *d, cJSON *o, const char *key, const cJSON *v) { d->ok = d->ok && o && wr_json_set(o, key, cJSON_Duplicate(v, 1)); }

static int64_t num(const cJSON *doc, const char *key) { return doc ? wr_meta_num(doc, key, -1) : -1; }

/* ------------------------------------------------------------------ schemas, specs, sort orders */
/* The three work alike: numbered items, of which one is in force. */
typedef struct numbered {
    const char *list, *id;           /* in the metadata */
    const char *in_force;            /* the same */
    const char *add, *item, *choose; /* updates */
} numbered;
static const numbered schemas = {"schemas", "schema-id", "current-schema-id", "add-schema", "schema", "set-current-schema"};
static const numbered specs = {"partition-specs", "spec-id", "default-spec-id", "add-spec", "spec", "set-default-spec"};
static const numbered orders = {"sort-orders", "order-id", "default-sort-order-id", "add-sort-order", "sort-order", "set-default-sort-order"};

static bool has_item(const cJSON *doc, const numbered *k, int64_t id) {
    const cJSON *item;
    if (!doc) return false;
    cJSON_ArrayForEach(item, wr_json_get(doc, k->list)) if (num(item, k->id) == id) return true;
    return false;
}

/* Numbers of new items are the catalog's to give; it gives those that we expect as long as the requirements hold. The last one added can be
 * chosen without its number (-1). */
static bool diff_numbered(diff *d, const numbered *k) {
    const cJSON *item;
    int64_t last_added = -1, in_force = num(d->after, k->in_force);
    bool added = false;
    cJSON_ArrayForEach(item, wr_json_get(d->after, k->list)) {
        if (has_item(d->before, k, num(item, k->id))) continue;
        cJSON *u = update(d, k->add);
        put_copy(d, u, k->item, item);
        if (k == &schemas) put_num(d, u, "last-column-id", num(d->after, "last-column-id"));
        last_added = num(item, k->id), added = true;
    }
    if (in_force == num(d->before, k->in_force)) return added;
    put_num(d, update(d, k->choose), k == &orders ? "sort-order-id" : k->id, added && in_force == last_added ? -1 : in_force);
    return true;
}

/* Also one update for each, for the same reason. */
static void remove_specs(diff *d) {
    const cJSON *item;
    int64_t in_force = num(d->before, "default-spec-id"), stays = -1;
    cJSON_ArrayForEach(item, wr_json_get(d->before, "partition-specs")) if (stays < 0 && has_item(d->after, &specs, num(item, "spec-id"))) stays = num(item, "spec-id");
    if (!has_item(d->after, &specs, in_force) && stays >= 0) put_num(d, update(d, "set-default-spec"), "spec-id", stays);
    cJSON_ArrayForEach(item, wr_json_get(d->before, "partition-specs")) {
        if (has_item(d->after, &specs, num(item, "spec-id"))) continue;
        cJSON *u = update(d, "remove-partition-specs"), *ids = d->ok ? wr_json_array(u, "spec-ids") : NULL;
        d->ok = d->ok && wr_json_push(ids, wr_json_num(num(item, "spec-id")));
    }
}

static void require_num(diff *d, const char *type, const char *key, const char *member) {
    put_num(d, require(d, type), key, num(d->before, member));
}

/* ------------------------------------------------------------------ snapshots */
/* Snapshot ids of one version. */
static wr_u64map *ids_of(diff *d, const cJSON *doc) {
    const cJSON *s;
    wr_u64map *m = wr_u64map_new();
    d->ok = d->ok && m;
    if (doc && m)
        cJSON_ArrayForEach(s, wr_json_get(doc, "snapshots")) d->ok = d->ok && wr_u64map_put(m, (uint64_t)num(s, "snapshot-id"), m);
    return m;
}

static void add_snapshots(diff *d) {
    wr_u64map *had = ids_of(d, d->before);
    const cJSON *s;
    cJSON_ArrayForEach(s, wr_json_get(d->after, "snapshots"))
        if (d->ok && !wr_u64map_get(had, (uint64_t)num(s, "snapshot-id"))) put_copy(d, update(d, "add-snapshot"), "snapshot", s);
    wr_u64map_free(had, NULL);
}

/* One update for each: older catalogs take no more at a time. */
static bool remove_snapshots(diff *d) {
    wr_u64map *has = ids_of(d, d->after);
    const cJSON *s;
    bool any = false;
    cJSON_ArrayForEach(s, wr_json_get(d->before, "snapshots")) {
        if (!d->ok || wr_u64map_get(has, (uint64_t)num(s, "snapshot-id"))) continue;
        cJSON *u = update(d, "remove-snapshots"), *ids = d->ok ? wr_json_array(u, "snapshot-ids") : NULL;
        d->ok = d->ok && wr_json_push(ids, wr_json_num(num(s, "snapshot-id")));
        any = true;
    }
    wr_u64map_free(has, NULL);
    return any;
}

static void remove_statistics(diff *d, const char *list, const char *action) {
    const cJSON *a, *b;
    cJSON_ArrayForEach(b, wr_json_get(d->before, list)) {
        bool stays = false;
        cJSON_ArrayForEach(a, wr_json_get(d->after, list)) stays = stays || num(a, "snapshot-id") == num(b, "snapshot-id");
        if (!stays) put_num(d, update(d, action), "snapshot-id", num(b, "snapshot-id"));
    }
}

/* ------------------------------------------------------------------ branches, tags */
static void set_refs(diff *d) {
    const cJSON *old_refs = d->before ? wr_json_get(d->before, "refs") : NULL, *ref, *member;
    cJSON_ArrayForEach(ref, wr_json_get(d->after, "refs")) {
        const cJSON *old = old_refs ? wr_json_get(old_refs, ref->string) : NULL;
        if (old && cJSON_Compare(old, ref, 1)) continue;
        cJSON *u = update(d, "set-snapshot-ref");
        put_str(d, u, "ref-name", ref->string);
        cJSON_ArrayForEach(member, ref) put_copy(d, u, member->string, member);
    }
}

static void remove_refs(diff *d) {
    const cJSON *refs = wr_json_get(d->after, "refs"), *ref;
    cJSON_ArrayForEach(ref, wr_json_get(d->before, "refs"))
        if (!refs || !wr_json_get(refs, ref->string)) put_str(d, update(d, "remove-snapshot-ref"), "ref-name", ref->string);
}

static void require_ref(diff *d, const char *ref) {
    int64_t head = wr_meta_ref(d->before, ref);
    cJSON *r = require(d, "assert-ref-snapshot-id");
    put_str(d, r, "ref", ref);
    if (head >= 0)
        put_num(d, r, "snapshot-id", head);
    else
        d->ok = d->ok && wr_json_set(r, "snapshot-id", cJSON_CreateNull());
}

/* ------------------------------------------------------------------ properties */
static void diff_properties(diff *d) {
    const cJSON *olds = d->before ? wr_json_get(d->before, "properties") : NULL, *news = wr_json_get(d->after, "properties"), *p;
    cJSON *sets = NULL, *goes = NULL;
    cJSON_ArrayForEach(p, news) {
        const char *old = olds ? wr_json_str(olds, p->string) : NULL;
        if (!cJSON_IsString(p) || (old && strcmp(old, p->valuestring) == 0)) continue;
        if (!sets) sets = d->ok ? wr_json_object(update(d, "set-properties"), "updates") : NULL;
        put_str(d, sets, p->string, p->valuestring);
    }
    cJSON_ArrayForEach(p, olds) {
        if (news && wr_json_get(news, p->string)) continue;
        if (!goes) goes = d->ok ? wr_json_array(update(d, "remove-properties"), "removals") : NULL;
        d->ok = d->ok && wr_json_push(goes, cJSON_CreateString(p->string));
    }
}

/* ------------------------------------------------------------------ both */
static void create(diff *d) {
    require(d, "assert-create");
    put_str(d, update(d, "assign-uuid"), "uuid", wr_json_str(d->after, "table-uuid"));
    put_num(d, update(d, "upgrade-format-version"), "format-version", num(d->after, "format-version"));
    diff_numbered(d, &schemas);
    diff_numbered(d, &specs);
    diff_numbered(d, &orders);
    put_str(d, update(d, "set-location"), "location", wr_json_str(d->after, "location"));
    add_snapshots(d);
    set_refs(d);
    diff_properties(d);
}

static void change(diff *d) {
    const char *location = wr_json_str(d->after, "location");
    put_str(d, require(d, "assert-table-uuid"), "uuid", wr_json_str(d->before, "table-uuid"));
    require_ref(d, WR_ICE_MAIN);
    require_ref(d, WR_ICE_LOAD);
    require_num(d, "assert-current-schema-id", "current-schema-id", "current-schema-id"); /* columns that somebody else added would stay unseen otherwise */
    if (num(d->after, "format-version") > num(d->before, "format-version"))
        put_num(d, update(d, "upgrade-format-version"), "format-version", num(d->after, "format-version"));
    remove_specs(d); /* before a schema that they clash with */
    if (diff_numbered(d, &schemas)) require_num(d, "assert-last-assigned-field-id", "last-assigned-field-id", "last-column-id");
    if (diff_numbered(d, &specs)) {
        require_num(d, "assert-last-assigned-partition-id", "last-assigned-partition-id", "last-partition-id");
        require_num(d, "assert-default-spec-id", "default-spec-id", "default-spec-id");
    }
    if (diff_numbered(d, &orders)) require_num(d, "assert-default-sort-order-id", "default-sort-order-id", "default-sort-order-id");
    if (strcmp(location, wr_json_str(d->before, "location")) != 0) put_str(d, update(d, "set-location"), "location", location);
    add_snapshots(d);
    set_refs(d);
    remove_refs(d);
    remove_statistics(d, "statistics", "remove-statistics");
    remove_statistics(d, "partition-statistics", "remove-partition-statistics");
    if (remove_snapshots(d)) {
        const cJSON *ref;
        cJSON_ArrayForEach(ref, wr_json_get(d->before, "refs"))
            if (strcmp(ref->string, WR_ICE_MAIN) != 0 && strcmp(ref->string, WR_ICE_LOAD) != 0) require_ref(d, ref->string);
    }
    diff_properties(d);
}

static wr_code check(const cJSON *before, const cJSON *after, wr_err *err) {
    const char *a = before ? wr_json_str(before, "table-uuid") : NULL, *b = wr_json_str(after, "table-uuid");
    if (!b || !wr_json_str(after, "location") || (before && (!a || strcmp(a, b) != 0 || !wr_json_str(before, "location"))))
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "metadata of table %s cannot become that of table %s", a ? a : "?", b ? b : "?");
    if (before && num(after, "format-version") < num(before, "format-version"))
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "table %s cannot go back from format version %" PRId64 " to %" PRId64, b,
                       num(before, "format-version"), num(after, "format-version"));
    return WR_OK;
}

wr_code wr_rest_diff(const cJSON *before, const cJSON *after, wr_rest_change *ret_change, wr_err *err) {
    WR_TRY(check(before, after, err));
    wr_rest_change c = {cJSON_CreateArray(), cJSON_CreateArray()};
    diff d = {before, after, &c, c.updates && c.requirements};
    if (before)
        change(&d);
    else
        create(&d);
    if (!d.ok) return wr_rest_change_clear(&c), wr_nomem(err, "commit request", 4096);
    *ret_change = c;
    return WR_OK;
}
