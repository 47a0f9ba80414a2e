/* weir repair: from a report of weir compare to a lake that is equal again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "weir/base/mem.h"
#include "weir/io.h"

typedef struct plan {
    char *path;              /* of the report; NULL: --reload */
    wr_repair_plan *report;
    wr_repair_table *tables; int n; /* borrowed from the report, or owned */
    char **owned; size_t nowned; /* names */
    uint64_t left_out;
} plan;

static void plan_clear(plan *p) {
    for (size_t i = 0; i < p->nowned; i++) wr_free(p->owned[i]);
    if (!p->report) wr_free(p->tables);
    wr_free(p->owned), wr_free(p->path);
    wr_repair_plan_free(p->report);
}

static double number_of(const cJSON *o, const char *key) {
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

/* ------------------------------------------------------------------ the report */
static wr_code take_newest(void *ctx, const char *name, wr_err *err) { /* names are dates, and come in order */
    char **newest = ctx;
    size_t n = strlen(name);
    if (n < 5 || strcmp(name + n - 5, ".json")) return WR_OK;
    wr_free(*newest);
    return (*newest = wr_strdup(name)) ? WR_OK : wr_nomem(err, "file name", n);
}

static wr_code newest_report(const char *home, char **ret, wr_err *err) {
    WR_AUTO char *dir = wr_path_join(home, "compare"), *name = NULL;
    if (!dir) return wr_nomem(err, "path", 64);
    if (wr_file_exists(dir)) WR_TRY(wr_dir_list(dir, take_newest, &name, err));
    if (!name) {
        wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "there is no report of a comparison in %s", dir);
        return wr_err_cure(err, "make one: weir compare -c FILE");
    }
    return (*ret = wr_path_join(dir, name)) ? WR_OK : wr_nomem(err, "path", 64);
}

static wr_code plan_report(plan *p, wr_err *err) {
    WR_TRY(wr_repair_plan_read(p->path, &p->report, err));
    p->tables = p->report->tables, p->n = p->report->n;
    for (int i = 0; i < p->n; i++) p->left_out += p->tables[i].reload ? 0 : p->tables[i].left_out;
    return WR_OK;
}

static wr_code plan_reload(plan *p, const wr_args *a, wr_err *err) {
    if (!a->nwords) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "--reload takes the names of lake tables, such as shop.orders");
    p->tables = wr_calloc((size_t)a->nwords, sizeof *p->tables);
    p->owned = wr_calloc((size_t)a->nwords, sizeof *p->owned);
    if (!p->tables || !p->owned) return wr_nomem(err, "tables", 4096);
    for (int i = 0; i < a->nwords; i++) {
        char *name = p->owned[p->nowned] = wr_strdup(a->words[i]), *dot = name ? strchr(name, '.') : NULL;
        if (!name) return wr_nomem(err, "name", 64);
        p->nowned++;
        if (!dot) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "'%s' is no namespace.table", a->words[i]);
        *dot = 0;
        p->tables[p->n++] = (wr_repair_table){.ns = name, .name = dot + 1, .reload = true};
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ telling */
static void tell_plan(const plan *p, bool json) {
    for (int i = 0; i < p->n && !json; i++) {
        const wr_repair_table *t = &p->tables[i];
        if (t->reload) printf("%s.%s: would be read again as a whole, beside what readers see\n", t->ns, t->name);
        else printf("%s.%s: %d rows would be read again by their keys\n", t->ns, t->name, t->nkeys);
    }
    if (json) {
        cJSON *list = cJSON_CreateArray();
        for (int i = 0; i < p->n; i++) {
            cJSON *o = cJSON_CreateObject();
            cJSON_AddStringToObject(o, "namespace", p->tables[i].ns), cJSON_AddStringToObject(o, "name", p->tables[i].name);
            cJSON_AddBoolToObject(o, "reload", p->tables[i].reload), cJSON_AddNumberToObject(o, "keys", p->tables[i].nkeys);
            cJSON_AddItemToArray(list, o);
        }
        wr_cli_json_print(list);
    } else printf(p->n ? "Nothing was changed: --apply does it.\n" : "Nothing to repair.\n");
}

static bool tell_record(const char *record, const char *home, bool json) {
    cJSON *doc = cJSON_Parse(record);
    const cJSON *t;
    bool all = true;
    cJSON_ArrayForEach(t, cJSON_GetObjectItemCaseSensitive(doc, "tables")) {
        bool done = !strcmp(wr_cli_json_text(t, "state"), "done");
        all &= done;
        if (json) continue;
        printf("%s.%s: ", wr_cli_json_text(t, "namespace"), wr_cli_json_text(t, "name"));
        if (!done) printf("not repaired: %s\n", wr_cli_json_text(t, "reason"));
        else if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(t, "reload"))) printf("%s\n", wr_cli_json_text(t, "reason"));
        else printf("%.0f keys repaired, of which the source has %.0f rows\n", number_of(t, "keys_repaired"), number_of(t, "rows_in_source"));
        if (number_of(t, "keys_of_no_shard") > 0) printf("  %.0f keys are of no shard that the pipeline has: they are as they were\n", number_of(t, "keys_of_no_shard"));
    }
    if (json) puts(record);
    else printf("record: %s/repair/%s.json\n", home, wr_cli_json_text(doc, "id"));
    cJSON_Delete(doc);
    return all;
}

/* ------------------------------------------------------------------ afterwards: is it equal now? */
static wr_code compare_again(const wr_pipeline_options *o, const plan *p, wr_verdict *ret, wr_err *err) {
    WR_AUTO const char **names = wr_calloc((size_t)p->n, sizeof *names);
    if (!names) return wr_nomem(err, "tables", 4096);
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i < p->n; i++) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        for (const char *s = p->tables[i].ns; *s; s++) wr_buf_printf(&b, strchr("\\.^$|()[]{}*+?", *s) ? "\\%c" : "%c", *s);
        wr_buf_printf(&b, "\\.");
        for (const char *s = p->tables[i].name; *s; s++) wr_buf_printf(&b, strchr("\\.^$|()[]{}*+?", *s) ? "\\%c" : "%c", *s);
        if (!wr_buf_cstr(&b) || !(names[i] = wr_strdup((char *)b.p))) rc = wr_nomem(err, "pattern", 64);
    }
    wr_compare_report r = {0};
    if (rc == WR_OK) rc = wr_pipeline_compare(o, &(wr_compare){.tables = names, .ntables = p->n, .patience_s = 300}, &r, err);
    for (int i = 0; i < p->n; i++) wr_free((void *)names[i]);
    WR_TRY(rc);
    *ret = wr_compare_verdict(&r);
    for (int i = 0; i < r.ntables; i++) {
        const wr_table_report *t = &r.tables[i];
        fprintf(stderr, "compared again: %s.%s %s%s%s\n", t->ns, t->name, wr_verdict_name(t->verdict), t->reason ? ": " : "", t->reason ? t->reason : "");
        wr_table_report_clear(&r.tables[i]);
    }
    wr_free(r.tables);
    return WR_OK;
}

static wr_code apply(const wr_args *a, const wr_pipeline_options *o, const plan *p, int *ret_exit, wr_err *err) {
    WR_AUTO char *record = NULL;
    wr_verdict v = WR_UNDECIDED;
    wr_repair what = {.tables = p->tables, .ntables = p->n, .report = p->path, .why = a->why, .timeout_s = a->timeout_s > 0 ? a->timeout_s : 0};
    WR_TRY(wr_pipeline_repair(o, &what, &record, err));
    bool all = tell_record(record, o->home, a->json);
    WR_TRY(compare_again(o, p, &v, err));
    *ret_exit = v == WR_DIFFERENT || !all ? EXIT_FAILED : v == WR_EQUAL ? EXIT_FINE : EXIT_UNDECIDED;
    return WR_OK;
}

static wr_code repair(const wr_args *a, const wr_pipeline_options *o, int *ret_exit, wr_err *err) {
    WR_CLEANUP(plan_clear) plan p = {0};
    if (a->reload) WR_TRY(plan_reload(&p, a, err));
    else {
        if (a->nwords > 1) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "one report at a time; tables by name belong to --reload");
        if (a->nwords && !(p.path = wr_strdup(a->words[0]))) return wr_nomem(err, "path", 64);
        if (!a->nwords) WR_TRY(newest_report(o->home, &p.path, err));
        WR_TRY(plan_report(&p, err));
        if (!a->json) printf("report: %s\n", p.path);
    }
    if (p.left_out) fprintf(stderr, "weir: %" PRIu64 " differences are not in the report: compare again afterwards, or read these tables again with --reload\n", p.left_out);
    if (!a->apply || !p.n) return tell_plan(&p, a->json), WR_OK;
    return apply(a, o, &p, ret_exit, err);
}

int wr_cmd_repair(const wr_args *a) {
    wr_err err = WR_ERR_INIT;
    wr_config *c = NULL;
    int ret = EXIT_FINE;
    wr_code rc = wr_config_load(a->config, WR_NEED_ALL, &c, &err);
    if (rc == WR_OK) rc = repair(a, wr_config_options(c), &ret, &err);
    wr_config_free(c);
    if (rc == WR_E_TIMEOUT) return wr_cli_fail(&err), EXIT_TIMEOUT;
    return rc == WR_OK ? ret : wr_cli_fail(&err);
}
