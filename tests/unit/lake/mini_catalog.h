/* A REST catalog in this process, small but real: it keeps tables, checks requirements and applies updates. Beside that it does what a test's script says:
 * refuses, answers nonsense, cuts the connection before or after it did what it was asked, or does it later. Include after cmocka.h. */
#ifndef TEST_LAKE_MINI_CATALOG_H
#define TEST_LAKE_MINI_CATALOG_H

#include "iceberg/json.h"
#include "iceberg/metadata.h"
#include "io/http_server.h"
#include "lake/ice_helper.h"

typedef enum mini_how {
    MINI_REFUSE,     /* status, nothing done */
    MINI_DONE_BUT,   /* done, then status */
    MINI_CUT,        /* nothing done, no answer */
    MINI_DONE_CUT,   /* done, no answer */
    MINI_LATE_CUT,   /* no answer, done when mini_late() is called */
    MINI_SAY,        /* done, 200 with this body */
    MINI_SAY_ONLY,   /* nothing done, 200 with this body */
    MINI_MEANWHILE,  /* somebody else commits first */
    MINI_HALF_CUT,   /* the first table of a transaction only, no answer */
} mini_how;
typedef struct mini_step { /* for the next request that fits; in order */
    const char *method, *path; /* path: a part of it */
    mini_how how;
    int status;
    const char *text; /* body, or the error's type */
} mini_step;

typedef struct mini_table {
    char *ns, *name;
    cJSON *meta;
} mini_table;

static struct mini {
    http_server srv;
    pthread_mutex_t mu;
    mini_table t[40];
    int nt;
    char *spaces[20];
    int nspaces;
    mini_step steps[30];
    int nsteps, at;
    char *seen[500]; /* "POST /v1/..." */
    char *bodies[500];
    int nseen, serial;
    const char *config, *token, *want_auth; /* want_auth: else 401 */
    char *late_path, *late_body;
    const char *extra; /* members of every table answer */
    bool half;
    int64_t misnumber; /* added to the number of each new schema */
} mini;

static const char *mini_decode(const char *s, char *out) { /* %XX */
    char *o = out;
    for (; *s && *s != '?' && *s != ' '; s++) {
        unsigned v;
        if (*s == '%' && sscanf(s + 1, "%2x", &v) == 1)
            *o++ = v == 0x1f ? '.' : (char)v, s += 2;
        else
            *o++ = *s;
    }
    *o = 0;
    return out;
}

static mini_table *mini_find(const char *ns, const char *name) {
    for (int i = 0; i < mini.nt; i++)
        if (strcmp(mini.t[i].ns, ns) == 0 && strcmp(mini.t[i].name, name) == 0) return &mini.t[i];
    return NULL;
}

static bool mini_has_space(const char *ns) {
    for (int i = 0; i < mini.nspaces; i++)
        if (strcmp(mini.spaces[i], ns) == 0) return true;
    return false;
}

static const char *mini_join(const cJSON *levels) {
    static char out[200];
    const cJSON *l;
    out[0] = 0;
    cJSON_ArrayForEach(l, levels) sprintf(out + strlen(out), "%s%s", out[0] ? "." : "", l->valuestring);
    return out;
}

/* ------------------------------------------------------------------ requirements, updates */
static bool mini_meets(const cJSON *meta, const cJSON *requirements) {
    const cJSON *r;
    cJSON_ArrayForEach(r, requirements) {
        const char *type = wr_json_str(r, "type");
        if (strcmp(type, "assert-create") == 0) {
            if (meta) return false;
            continue;
        }
        if (!meta) return false;
        if (strcmp(type, "assert-table-uuid") == 0 && strcmp(wr_json_str(r, "uuid"), wr_json_str(meta, "table-uuid")) != 0) return false;
        if (strcmp(type, "assert-ref-snapshot-id") == 0 && wr_meta_num(r, "snapshot-id", -1) != wr_meta_ref(meta, wr_json_str(r, "ref"))) return false;
        if (strcmp(type, "assert-current-schema-id") == 0 && wr_meta_num(r, "current-schema-id", -1) != wr_meta_num(meta, "current-schema-id", -1)) return false;
    }
    return true;
}

static int64_t mini_last(const cJSON *meta, const char *list, const char *id) {
    const cJSON *l = wr_json_get(meta, list);
    return wr_meta_num(cJSON_GetArrayItem(l, cJSON_GetArraySize(l) - 1), id, -1);
}

static void mini_choose(cJSON *meta, const cJSON *u, const char *key, const char *member, const char *list, const char *id) {
    int64_t n = wr_meta_num(u, key, -2);
    wr_json_set_num(meta, member, n == -1 ? mini_last(meta, list, id) : n);
}

static void mini_remove_snapshot(cJSON *meta, int64_t id) {
    cJSON *s = wr_meta_snapshot(meta, id);
    if (s) cJSON_Delete(cJSON_DetachItemViaPointer(wr_json_get(meta, "snapshots"), s));
}

static void mini_apply_one(cJSON *meta, const cJSON *u) {
    const char *a = wr_json_str(u, "action");
    const cJSON *x;
    if (strcmp(a, "assign-uuid") == 0) wr_json_set_str(meta, "table-uuid", wr_json_str(u, "uuid"));
    if (strcmp(a, "upgrade-format-version") == 0) wr_json_set_num(meta, "format-version", wr_meta_num(u, "format-version", 0));
    if (strcmp(a, "set-location") == 0) wr_json_set_str(meta, "location", wr_json_str(u, "location"));
    if (strcmp(a, "add-schema") == 0) {
        cJSON *s = cJSON_Duplicate(wr_json_get(u, "schema"), 1);
        if (cJSON_GetArraySize(wr_json_get(s, "identifier-field-ids")) == 0) cJSON_DeleteItemFromObject(s, "identifier-field-ids"); /* as Java writes it */
        wr_json_set_num(s, "schema-id", wr_meta_num(s, "schema-id", 0) + mini.misnumber);
        wr_json_push(wr_json_array(meta, "schemas"), s);
        wr_json_set_num(meta, "last-column-id", wr_meta_num(u, "last-column-id", 0));
    }
    if (strcmp(a, "add-spec") == 0) wr_json_push(wr_json_array(meta, "partition-specs"), cJSON_Duplicate(wr_json_get(u, "spec"), 1));
    if (strcmp(a, "add-sort-order") == 0) wr_json_push(wr_json_array(meta, "sort-orders"), cJSON_Duplicate(wr_json_get(u, "sort-order"), 1));
    if (strcmp(a, "set-current-schema") == 0) mini_choose(meta, u, "schema-id", "current-schema-id", "schemas", "schema-id");
    if (strcmp(a, "set-default-spec") == 0) mini_choose(meta, u, "spec-id", "default-spec-id", "partition-specs", "spec-id");
    if (strcmp(a, "set-default-sort-order") == 0) mini_choose(meta, u, "sort-order-id", "default-sort-order-id", "sort-orders", "order-id");
    if (strcmp(a, "add-snapshot") == 0) {
        const cJSON *s = wr_json_get(u, "snapshot");
        wr_json_push(wr_json_array(meta, "snapshots"), cJSON_Duplicate(s, 1));
        wr_json_set_num(meta, "last-sequence-number", wr_meta_num(s, "sequence-number", 0));
        wr_json_set_num(meta, "next-row-id", wr_meta_num(meta, "next-row-id", 0) + wr_meta_num(s, "added-rows", 0));
    }
    if (strcmp(a, "set-snapshot-ref") == 0) {
        cJSON *ref = wr_json_object(wr_json_object(meta, "refs"), wr_json_str(u, "ref-name"));
        wr_json_set_num(ref, "snapshot-id", wr_meta_num(u, "snapshot-id", -1)), wr_json_set_str(ref, "type", wr_json_str(u, "type"));
        if (strcmp(ref->string, "main") == 0) wr_json_set_num(meta, "current-snapshot-id", wr_meta_num(u, "snapshot-id", -1));
    }
    if (strcmp(a, "remove-snapshot-ref") == 0) cJSON_DeleteItemFromObject(wr_json_object(meta, "refs"), wr_json_str(u, "ref-name"));
    if (strcmp(a, "remove-snapshots") == 0)
        cJSON_ArrayForEach(x, wr_json_get(u, "snapshot-ids")) {
            int64_t id = -1;
            wr_json_i64_of(x, &id);
            mini_remove_snapshot(meta, id);
        }
    if (strcmp(a, "set-properties") == 0)
        cJSON_ArrayForEach(x, wr_json_get(u, "updates")) wr_json_set_str(wr_json_object(meta, "properties"), x->string, x->valuestring);
    if (strcmp(a, "remove-properties") == 0)
        cJSON_ArrayForEach(x, wr_json_get(u, "removals")) cJSON_DeleteItemFromObjectCaseSensitive(wr_json_object(meta, "properties"), x->valuestring);
}

static int mini_commit(const char *ns, const char *name, const cJSON *body) {
    mini_table *t = mini_find(ns, name);
    const cJSON *requirements = wr_json_get(body, "requirements"), *u;
    bool create = strcmp(wr_json_str(requirements->child, "type"), "assert-create") == 0;
    if (!t && !create) return 404;
    if (create && !mini_has_space(ns)) return 404;
    if (!mini_meets(t ? t->meta : NULL, requirements)) return 409;
    if (!t) {
        t = &mini.t[mini.nt++];
        *t = (mini_table){strdup(ns), strdup(name), cJSON_CreateObject()};
        wr_json_set_num(t->meta, "last-partition-id", 999);
        wr_json_set_num(t->meta, "last-sequence-number", 0), wr_json_set_num(t->meta, "next-row-id", 0);
    }
    cJSON_ArrayForEach(u, wr_json_get(body, "updates")) mini_apply_one(t->meta, u);
    wr_json_set_num(t->meta, "last-updated-ms", 1000 + mini.serial++);
    return 200;
}

/* Somebody else's commit: a snapshot on top of main. */
static void mini_foreign(const char *ns, const char *name) {
    cJSON *meta = mini_find(ns, name)->meta, *s = cJSON_CreateObject();
    int64_t id = 4000000000000000000 + mini.serial++;
    wr_json_set_num(s, "snapshot-id", id), wr_json_set_num(s, "timestamp-ms", 5), wr_json_set_str(s, "manifest-list", "file:///foreign.avro");
    wr_json_push(wr_json_array(meta, "snapshots"), s);
    cJSON *ref = wr_json_object(wr_json_object(meta, "refs"), "main");
    wr_json_set_num(ref, "snapshot-id", id), wr_json_set_str(ref, "type", "branch");
    wr_json_set_num(meta, "current-snapshot-id", id);
}

/* ------------------------------------------------------------------ requests */
static int mini_rename(const cJSON *body) {
    const cJSON *from = wr_json_get(body, "source"), *to = wr_json_get(body, "destination");
    mini_table *t = mini_find(mini_join(wr_json_get(from, "namespace")), wr_json_str(from, "name"));
    const char *ns = mini_join(wr_json_get(to, "namespace"));
    if (!t || !mini_has_space(ns)) return 404;
    if (mini_find(ns, wr_json_str(to, "name"))) return 409;
    free(t->ns), free(t->name);
    t->ns = strdup(ns), t->name = strdup(wr_json_str(to, "name"));
    return 204;
}

static int mini_transaction(const cJSON *body) {
    const cJSON *change;
    cJSON_ArrayForEach(change, wr_json_get(body, "table-changes")) {
        const cJSON *id = wr_json_get(change, "identifier");
        mini_table *t = mini_find(mini_join(wr_json_get(id, "namespace")), wr_json_str(id, "name"));
        if (!t) return 404;
        if (!mini_meets(t->meta, wr_json_get(change, "requirements"))) return 409;
    }
    cJSON_ArrayForEach(change, wr_json_get(body, "table-changes")) {
        const cJSON *id = wr_json_get(change, "identifier");
        mini_commit(mini_join(wr_json_get(id, "namespace")), wr_json_str(id, "name"), change);
        if (mini.half) break;
    }
    return 204;
}

/* "/v1/namespaces/a%1Fb/tables/t": false when it is not of that form. */
static bool mini_split(const char *path, char *ns, char *name) {
    char raw_ns[600], raw_name[600] = "";
    if (sscanf(path, "/v1/namespaces/%599[^/?]/tables/%599[^/? ]", raw_ns, raw_name) < 1 || !strstr(path, "/tables")) return false;
    mini_decode(raw_ns, ns), mini_decode(raw_name, name);
    return true;
}

static int mini_do(const char *method, const char *path, const char *text, size_t n, char **ret_body) {
    wr_err err = WR_ERR_INIT;
    WR_AUTO_JSON cJSON *body = NULL;
    char ns[600], name[600];
    if (n && wr_json_parse(wr_slice_of(text, n), "request", &body, &err) != WR_OK) return 400;
    if (strcmp(path, "/v1/tables/rename") == 0) return mini_rename(body);
    if (strcmp(path, "/v1/transactions/commit") == 0) return mini_transaction(body);
    if (strcmp(method, "POST") == 0 && strcmp(path, "/v1/namespaces") == 0) {
        const char *space = mini_join(wr_json_get(body, "namespace"));
        if (mini_has_space(space)) return 409;
        mini.spaces[mini.nspaces++] = strdup(space);
        return 200;
    }
    if (!mini_split(path, ns, name) || !name[0]) return 400;
    mini_table *t = mini_find(ns, name);
    if (strcmp(method, "DELETE") == 0) {
        if (!t) return 404;
        free(t->ns), free(t->name), cJSON_Delete(t->meta);
        *t = mini.t[--mini.nt];
        return 204;
    }
    if (strcmp(method, "POST") == 0) {
        int status = mini_commit(ns, name, body);
        if (status != 200) return status;
    } else if (!t) {
        return 404;
    }
    WR_AUTO_BUF wr_buf out = WR_BUF_INIT;
    wr_json_print(mini_find(ns, name)->meta, &out, &err);
    *ret_body = wr_asprintf("{\"metadata-location\":\"file:///m/%d.json\",\"metadata\":%s%s}", mini.serial, wr_buf_cstr(&out), mini.extra ? mini.extra : "");
    return 200;
}

static char *mini_list(const char *path) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    char ns[600], name[600];
    const char *parent = strstr(path, "parent=");
    bool first = true, tables = mini_split(path, ns, name);
    if (!tables) mini_decode(parent ? parent + 7 : "", ns);
    wr_buf_printf(&b, "{\"%s\":[", tables ? "identifiers" : "namespaces");
    for (int i = 0; i < (tables ? mini.nt : mini.nspaces); i++) {
        const char *full = tables ? mini.t[i].ns : mini.spaces[i];
        size_t n = strlen(ns);
        bool below = tables ? strcmp(full, ns) == 0 : n == 0 ? !strchr(full, '.') : strncmp(full, ns, n) == 0 && full[n] == '.' && !strchr(full + n + 1, '.');
        if (!below) continue;
        WR_AUTO_JSON cJSON *text = cJSON_CreateString(tables ? mini.t[i].name : full);
        char *quoted = cJSON_PrintUnformatted(text);
        wr_buf_printf(&b, tables ? "%s{\"namespace\":[],\"name\":%s}" : "%s[%s]", first ? "" : ",", quoted);
        for (char *dot; !tables && (dot = memchr(b.p, '.', b.n));) { /* levels */
            size_t at = (size_t)(dot - (char *)b.p);
            WR_AUTO char *tail = wr_strndup(dot + 1, b.n - at - 1);
            b.n = at;
            wr_buf_printf(&b, "\",\"%s", tail);
        }
        cJSON_free(quoted);
        first = false;
    }
    wr_buf_printf(&b, "]}");
    return wr_strdup(wr_buf_cstr(&b));
}

static const mini_step *mini_next_step(const http_seen *q) {
    const mini_step *s = &mini.steps[mini.at];
    if (mini.at >= mini.nsteps || strcmp(s->method, q->method) != 0 || !strstr(q->path, s->path)) return NULL;
    mini.at++;
    return s;
}

static bool mini_answer(http_server *s, int fd, const http_seen *q) {
    pthread_mutex_lock(&mini.mu);
    WR_AUTO char *body = NULL;
    int status = 200;
    if (mini.nseen < 500) {
        mini.bodies[mini.nseen] = wr_strndup(q->body ? q->body : "", q->body_n);
        mini.seen[mini.nseen++] = wr_asprintf("%s %s", q->method, q->path);
    }
    const mini_step *step = mini_next_step(q);
    bool keep = true, says = step && (step->how == MINI_SAY || step->how == MINI_SAY_ONLY), does = !step || (step->how != MINI_REFUSE && step->how != MINI_CUT && step->how != MINI_SAY_ONLY);
    mini.half = step && step->how == MINI_HALF_CUT;
    if (step && step->how == MINI_MEANWHILE) mini_foreign("ns", "t");
    if (mini.want_auth && !strstr(q->path, "oauth") && !strstr(q->headers, mini.want_auth)) {
        status = 401;
    } else if (step && step->how == MINI_LATE_CUT) {
        mini.late_path = wr_strdup(q->path), mini.late_body = wr_strndup(q->body, q->body_n);
    } else if (does && strstr(q->path, "oauth")) {
        body = wr_strdup(mini.token ? mini.token : "{}");
    } else if (does && strstr(q->path, "/v1/config")) {
        body = wr_strdup(mini.config);
    } else if (does && strcmp(q->method, "GET") == 0 && strstr(q->path, "pageToken")) {
        body = mini_list(q->path);
    } else if (does) {
        status = mini_do(q->method, q->path, q->body, q->body_n, &body);
    }
    if (says) wr_free(body), body = wr_strdup(step->text);
    if (step && (step->how == MINI_REFUSE || step->how == MINI_DONE_BUT)) wr_free(body), body = NULL, status = step->status;
    keep = !(step && (step->how == MINI_CUT || step->how == MINI_DONE_CUT || step->how == MINI_LATE_CUT || mini.half));
    if (!body && status >= 400)
        body = wr_asprintf("{\"error\":{\"message\":\"mini says %d\",\"type\":\"%s\",\"code\":%d}}", status, step && step->text ? step->text : status == 404 ? "NoSuchTableException" : "Mini", status);
    pthread_mutex_unlock(&mini.mu);
    if (keep) http_answer(fd, status, "", body ? body : "", body ? strlen(body) : 0);
    return keep;
}

/* ------------------------------------------------------------------ for tests */
static void mini_start(void) {
    mini = (struct mini){.config = "{\"defaults\":{},\"overrides\":{}}"};
    pthread_mutex_init(&mini.mu, NULL);
    http_server_start(&mini.srv, mini_answer);
}
static void mini_stop(void) {
    http_server_stop(&mini.srv);
    for (int i = 0; i < mini.nt; i++) free(mini.t[i].ns), free(mini.t[i].name), cJSON_Delete(mini.t[i].meta);
    for (int i = 0; i < mini.nspaces; i++) free(mini.spaces[i]);
    for (int i = 0; i < mini.nseen; i++) wr_free(mini.seen[i]), wr_free(mini.bodies[i]);
    wr_free(mini.late_path), wr_free(mini.late_body);
}
static void mini_script(const mini_step *steps, int n) {
    memcpy(mini.steps, steps, (size_t)n * sizeof *steps);
    mini.nsteps = n, mini.at = 0;
}
#define SCRIPT(...) mini_script((const mini_step[]){__VA_ARGS__}, (int)(sizeof((const mini_step[]){__VA_ARGS__}) / sizeof(mini_step)))
/* Requests seen whose line has this part. */
static int mini_count(const char *part) {
    int n = 0;
    for (int i = 0; i < mini.nseen; i++) n += strstr(mini.seen[i], part) != NULL;
    return n;
}
static inline int mini_late(void) {
    WR_AUTO char *body = NULL;
    return mini_do("POST", mini.late_path, mini.late_body, strlen(mini.late_body), &body);
}

#endif
