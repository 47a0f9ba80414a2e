/* weir optimize: what a running sync does for its tables by itself, by hand; and files that nothing names. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "weir/base/clock.h"

#define OLDER_THAN_US (INT64_C(3) * 86400 * 1000000)

typedef struct report {
    bool json, removed;
    uint64_t orphans, bytes;
} report;

static void on_table(void *ctx, const wr_table_health *before, const wr_table_health *after, int jobs, int expiries) {
    const report *r = ctx;
    char b[32], a[32];
    if (!r->json) {
        printf("%s.%s: ", after->ns, after->name);
        if (after->loading) printf("is being loaded: left alone\n");
        else if (!jobs && !expiries) printf("nothing to do, %" PRIu64 " files, %s\n", after->data_files, wr_cli_bytes((double)after->data_bytes, a));
        else printf("%d jobs%s: %" PRIu64 " files, %s, %" PRIu64 " deleted rows became %" PRIu64 " files, %s, %" PRIu64 " deleted rows\n", jobs, expiries ? ", old snapshots left" : "", before->data_files,
                    wr_cli_bytes((double)before->data_bytes, b), before->deleted_rows, after->data_files, wr_cli_bytes((double)after->data_bytes, a), after->deleted_rows);
        return;
    }
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "namespace", after->ns);
    cJSON_AddStringToObject(o, "name", after->name);
    cJSON_AddBoolToObject(o, "loading", after->loading);
    cJSON_AddNumberToObject(o, "jobs", jobs), cJSON_AddNumberToObject(o, "expiries", expiries);
    const wr_table_health *h[2] = {before, after};
    static const char *const names[2] = {"before", "after"};
    for (int i = 0; i < 2; i++) {
        cJSON *k = cJSON_AddObjectToObject(o, names[i]);
        cJSON_AddNumberToObject(k, "data_files", (double)h[i]->data_files), cJSON_AddNumberToObject(k, "data_bytes", (double)h[i]->data_bytes);
        cJSON_AddNumberToObject(k, "deleted_rows", (double)h[i]->deleted_rows), cJSON_AddNumberToObject(k, "snapshots", (double)h[i]->snapshots);
    }
    wr_cli_json_print(o);
}

static void on_orphan(void *ctx, const char *path, uint64_t bytes, int64_t modified_us) {
    report *r = ctx;
    char iso[32], b[32];
    wr_iso_time(modified_us, iso);
    r->orphans++, r->bytes += bytes;
    if (!r->json) {
        printf("%s %10s  %s\n", iso, wr_cli_bytes((double)bytes, b), path);
        return;
    }
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "path", path);
    cJSON_AddNumberToObject(o, "bytes", (double)bytes);
    cJSON_AddStringToObject(o, "modified_at", iso);
    cJSON_AddBoolToObject(o, "deleted", r->removed);
    wr_cli_json_print(o);
}

static wr_code check_flags(const wr_args *a, wr_err *err) {
    const char *odd = !a->orphans && a->remove ? "--delete" : !a->orphans && a->older_than_us >= 0 ? "--older-than" : NULL;
    if (odd) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s belongs to --orphans", odd);
    if (a->orphans && (a->all || a->nwords)) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--orphans takes no tables and no --all: it looks at all folders of the pipeline's tables");
    return WR_OK;
}

int wr_cmd_optimize(const wr_args *a) {
    wr_err err = WR_ERR_INIT;
    wr_config *c;
    if (check_flags(a, &err) != WR_OK || wr_config_load(a->config, WR_NEED_LAKE, &c, &err) != WR_OK) return wr_cli_fail(&err);
    report r = {.json = a->json, .removed = a->remove};
    wr_optimize what = {.tables = a->words, .ntables = a->nwords, .all = a->all, .orphans = a->orphans, .remove = a->remove, .older_than_us = a->older_than_us < 0 ? OLDER_THAN_US : a->older_than_us, .table = on_table, .orphan = on_orphan, .ctx = &r};
    wr_code rc = wr_pipeline_optimize(wr_config_options(c), &what, &err);
    char b[32];
    if (a->orphans && !a->json && (rc == WR_OK || r.orphans))
        printf("%" PRIu64 " files that nothing names, %s: %s\n", r.orphans, wr_cli_bytes((double)r.bytes, b), !r.orphans ? "nothing to do" : a->remove ? "deleted" : "add --delete to remove them");
    wr_config_free(c);
    return rc == WR_OK ? EXIT_FINE : wr_cli_fail(&err);
}
