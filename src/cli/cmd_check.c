/* weir check */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/io.h"

#define LOW_SPACE 1e9

typedef struct report { bool json; int stops, warns, notes; wr_finding *all; int n; bool failed; } report;

static void keep(void *ctx, const wr_finding *f) {
    report *r = ctx;
    wr_finding *all = wr_realloc(r->all, ((size_t)r->n + 1) * sizeof *all);
    if (!all) {
        r->failed = true;
        return;
    }
    r->all = all;
    r->all[r->n++] = *f;
    r->stops += f->severity == WR_FINDING_STOPS, r->warns += f->severity == WR_FINDING_WARNS, r->notes += f->severity == WR_FINDING_NOTES;
}

static const char *severity(wr_severity s) { return s == WR_FINDING_STOPS ? "stops" : s == WR_FINDING_WARNS ? "warning" : "note"; }

/* What was an error while looking is itself a finding: the sync would meet it too. */
static void keep_error(report *r, const char *id, const wr_err *err) {
    wr_finding f = {.severity = WR_FINDING_STOPS, .id = id};
    snprintf(f.what, sizeof f.what, "%.*s", (int)sizeof f.what - 1, err->msg);
    snprintf(f.consequence, sizeof f.consequence, "weir sync cannot start");
    snprintf(f.cure, sizeof f.cure, "%s", err->cure);
    keep(r, &f);
}

/* A check writes nothing: the nearest folder that exists must take files, and have room. */
static void check_folder(report *r, const char *id, const char *path) {
    WR_AUTO char *at = wr_strdup(path);
    while (at && *at && access(at, F_OK) != 0) {
        char *slash = strrchr(at, '/');
        if (!slash) break;
        slash[slash == at] = 0;
    }
    struct statvfs fs;
    wr_finding f = {.severity = WR_FINDING_STOPS, .id = id};
    if (!at || access(at, W_OK | X_OK) != 0) {
        snprintf(f.what, sizeof f.what, "%s cannot be written: %s", at ? at : path, strerror(errno));
        snprintf(f.consequence, sizeof f.consequence, "weir sync cannot start");
        snprintf(f.cure, sizeof f.cure, "make it writable for this user, or choose another folder in weir.yaml");
        keep(r, &f);
    } else if (statvfs(at, &fs) == 0 && (double)fs.f_bavail * (double)fs.f_frsize < LOW_SPACE) {
        char b[32];
        f.severity = WR_FINDING_WARNS;
        snprintf(f.what, sizeof f.what, "%s has only %s left", at, wr_cli_bytes((double)fs.f_bavail * (double)fs.f_frsize, b));
        snprintf(f.consequence, sizeof f.consequence, "a full disk stops the sync until there is room again; nothing is lost");
        snprintf(f.cure, sizeof f.cure, "free some space or choose another folder");
        keep(r, &f);
    }
}

/* Writes, reads and removes an object where tables will be. */
static wr_code try_warehouse(wr_store *s, const char *warehouse, wr_err *err) {
    WR_AUTO char *uri = wr_asprintf("%s/weir-check-%d-%" PRId64, warehouse, (int)getpid(), wr_now_us());
    WR_AUTO_BUF wr_buf back = WR_BUF_INIT;
    wr_store_object o = {uri, wr_slice_str("weir check")};
    if (!uri) return wr_nomem(err, "object name", 256);
    WR_TRY(wr_store_put(s, &o, 1, err));
    wr_code rc = wr_store_get(s, uri, 64, &back, err);
    const char *uris[1] = {uri};
    return rc == WR_OK ? wr_store_remove(s, uris, 1, err) : rc;
}

static void check_catalog(report *r, const wr_pipeline_options *o, wr_store *store) {
    wr_err err = WR_ERR_INIT;
    WR_AUTO char *catalog = wr_path_join(o->home, "catalog.db");
    wr_lake_view *v = NULL;
    const wr_sql_table *t;
    const wr_table_health *h;
    int n;
    if (!catalog || (!o->rest && !wr_file_exists(catalog))) return;
    if (wr_lake_view_open(&(wr_lake_view_options){.catalog_path = catalog, .store = store, .rest = o->rest}, &v, &err) != WR_OK || wr_lake_view_tables(v, &t, &h, &n, &err) != WR_OK)
        keep_error(r, "catalog", &err);
    wr_lake_view_close(v);
}

static void check_lake(report *r, const wr_pipeline_options *o) {
    wr_err err = WR_ERR_INIT;
    wr_store *store = NULL;
    WR_AUTO char *said = o->warehouse ? wr_strdup(o->warehouse) : wr_path_join(o->home, "warehouse"), *wh = NULL;
    check_folder(r, "home", o->home);
    if (!said || wr_uri_canonical(said, &wh, &err) != WR_OK) return keep_error(r, "warehouse", &err);
    if (!o->s3) check_folder(r, "warehouse", wh);
    wr_code rc = wr_pipeline_store(o, &store, &err);
    if (rc == WR_OK && o->s3) rc = try_warehouse(store, wh, &err);
    if (rc != WR_OK) keep_error(r, "warehouse", &err);
    if (rc == WR_OK) check_catalog(r, o, store);
    wr_store_close(store);
}

static void check_secrets(report *r, const wr_config *c) {
    for (int i = 0; i < WR_CONFIG_SECRETS; i++) {
        wr_finding f = {.severity = WR_FINDING_WARNS, .id = "secret-file"};
        if (!wr_config_exposed(c, i, f.what)) continue;
        snprintf(f.consequence, sizeof f.consequence, "whoever has an account here has the secret");
        snprintf(f.cure, sizeof f.cure, "chmod 600");
        keep(r, &f);
    }
}

static int by_severity(const void *a, const void *b) { return (int)((const wr_finding *)a)->severity - (int)((const wr_finding *)b)->severity; }

static void print_text(const report *r) {
    bool c = wr_cli_colour(1);
    static const char *const colours[] = {"", "\033[1;31m", "\033[1;33m", "\033[1;36m"};
    for (int i = 0; i < r->n; i++) {
        const wr_finding *f = &r->all[i];
        printf("%s%-8s%s %s: %s\n", c ? colours[f->severity] : "", severity(f->severity), c ? "\033[0m" : "", f->id, f->what);
        if (f->consequence[0]) printf("         consequence: %s\n", f->consequence);
        if (f->cure[0]) printf("         cure: %s\n", f->cure);
    }
    printf("%d that will stop a sync, %d warning%s, %d note%s\n", r->stops, r->warns, r->warns == 1 ? "" : "s", r->notes, r->notes == 1 ? "" : "s");
}

static void print_json(const report *r) {
    cJSON *o = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(o, "findings");
    for (int i = 0; i < r->n; i++) {
        cJSON *f = cJSON_CreateObject();
        cJSON_AddStringToObject(f, "severity", severity(r->all[i].severity));
        cJSON_AddStringToObject(f, "id", r->all[i].id);
        cJSON_AddStringToObject(f, "what", r->all[i].what);
        cJSON_AddStringToObject(f, "consequence", r->all[i].consequence);
        cJSON_AddStringToObject(f, "cure", r->all[i].cure);
        cJSON_AddItemToArray(list, f);
    }
    cJSON_AddNumberToObject(o, "stops", r->stops);
    cJSON_AddNumberToObject(o, "warnings", r->warns);
    cJSON_AddNumberToObject(o, "notes", r->notes);
    char *text = cJSON_PrintUnformatted(o);
    if (text) puts(text);
    cJSON_free(text);
    cJSON_Delete(o);
}

int wr_cmd_check(const wr_args *a) {
    wr_err err = WR_ERR_INIT;
    wr_config *c;
    if (wr_config_load(a->config, WR_NEED_ALL, &c, &err) != WR_OK) return wr_cli_fail(&err);
    report r = {.json = a->json};
    wr_code rc = wr_pipeline_check(wr_config_options(c), keep, &r, &err);
    if (rc != WR_OK) keep_error(&r, rc == WR_E_CONFIG ? "transform" : "source", &err);
    check_lake(&r, wr_config_options(c));
    check_secrets(&r, c);
    if (r.n) qsort(r.all, (size_t)r.n, sizeof *r.all, by_severity);
    if (r.json) print_json(&r);
    else print_text(&r);
    int status = r.stops || r.failed ? EXIT_FAILED : EXIT_FINE;
    wr_free(r.all);
    wr_config_free(c);
    return status;
}
