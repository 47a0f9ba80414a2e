/* weir resume: what is missing in the source's log, and the ways on. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "json.h"
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define TABLES_SHOWN 40

static void log_line(void *ctx, wr_log_level level, const char *line) { (void)ctx, (void)level, fprintf(stderr, "weir: %s\n", line); }

/* ------------------------------------------------------------------ telling */
static const char *state_of(const wr_gap_report *r) {
    return r->under_way ? "under way" : r->asked ? "asked for" : r->gap ? "gap" : r->failed ? "failed" : "none";
}

static void tell_ways(const wr_gap_report *r, const char *config) {
    uint64_t rows = 0;
    int changed = 0, keyless = 0;
    for (int i = 0; i < r->ntables; i++) rows += r->tables[i].rows, changed += r->tables[i].changed, keyless += !r->tables[i].keyed && !r->tables[i].changed && !r->tables[i].gone;
    printf("\nways on (nothing was changed yet; the lake stays readable as it is until each table is right):\n"
           "  weir resume -c %s --resnapshot\n"
           "      reads every table again, about %" PRIu64 " rows, and writes all of it anew; each table is swapped in when it is whole.\n"
           "  weir resume -c %s --resnapshot TABLE ...\n"
           "      the same for these lake tables; all others are compared as below, none is taken on trust.\n"
           "  weir resume -c %s --compare-and-repair\n"
           "      reads every table too, and the lake's, and writes only rows that differ: less to write, longer where much differs.\n",
           config, rows, config, config);
    if (changed || keyless) printf("      Read again all the same: %d tables whose definition changed, %d without a key.\n", changed, keyless);
}

static void tell(const wr_gap_report *r, const char *config) {
    char a[512], b[512], size[32];
    if (r->under_way) printf("a resume is under way: weir sync -c %s goes on with it, weir status tells which tables are not proven yet\n", config);
    else if (r->asked) printf("a resume is asked for: the next weir sync -c %s takes it up\n", config);
    if (!r->gap && !r->failed) printf("nothing is missing: the source can go on behind %s\n", wr_pos_print(&r->missing, a));
    else {
        printf("%-16s %s\n%-16s %s\n%-16s %s (to %s)\n", r->gap ? "gap" : "failed", r->why, "first missing", wr_pos_print(&r->missing, a), "first available", wr_pos_print(&r->logs.first, b), wr_pos_print(&r->logs.end, a));
        if (r->logs.bytes_behind) printf("%-16s %s of binlog behind that position are there\n", "", wr_cli_bytes((double)r->logs.bytes_behind, size));
    }
    printf("%-16s %d\n", "tables", r->ntables);
    for (int i = 0; i < r->ntables && i < TABLES_SHOWN; i++) {
        const wr_gap_table *t = &r->tables[i];
        printf("  %s -> %s: ", t->source, t->lake);
        if (t->gone) printf("not in the source any more\n");
        else if (t->changed) printf("its definition changed\n");
        else printf("about %" PRIu64 " rows%s\n", t->rows, t->keyed ? "" : ", no key");
    }
    if (r->ntables > TABLES_SHOWN) printf("  and %d more\n", r->ntables - TABLES_SHOWN);
    if (r->gap || r->failed) tell_ways(r, config);
}

static void tell_json(const wr_gap_report *r) {
    char place[512];
    cJSON *o = cJSON_CreateObject(), *list;
    cJSON_AddStringToObject(o, "state", state_of(r));
    cJSON_AddBoolToObject(o, "gap", r->gap);
    if (r->why[0]) cJSON_AddStringToObject(o, "why", r->why);
    cJSON_AddStringToObject(o, "first_missing", wr_pos_print(&r->missing, place));
    cJSON_AddStringToObject(o, "first_available", wr_pos_print(&r->logs.first, place));
    cJSON_AddStringToObject(o, "last_available", wr_pos_print(&r->logs.end, place));
    list = cJSON_AddArrayToObject(o, "tables");
    for (int i = 0; i < r->ntables; i++) {
        const wr_gap_table *t = &r->tables[i];
        cJSON *k = cJSON_CreateObject();
        cJSON_AddStringToObject(k, "source", t->source), cJSON_AddStringToObject(k, "table", t->lake);
        cJSON_AddNumberToObject(k, "rows_estimated", (double)t->rows);
        cJSON_AddBoolToObject(k, "key", t->keyed), cJSON_AddBoolToObject(k, "changed", t->changed), cJSON_AddBoolToObject(k, "gone", t->gone);
        cJSON_AddItemToArray(list, k);
    }
    wr_cli_json_print(o);
}

/* ------------------------------------------------------------------ doing */
/* Whether a table of the source, one whose definition changed, goes to this lake table; shards are several. */
static bool is_fed(const wr_gap_report *r, const char *lake, bool by_changed) {
    for (int i = 0; i < r->ntables; i++)
        if ((r->tables[i].changed || !by_changed) && !strcmp(lake, r->tables[i].lake)) return true;
    return false;
}

static wr_code check_names(const wr_args *a, const wr_gap_report *r, wr_err *err) {
    if (a->nwords && !a->resnapshot) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "tables by name belong to --resnapshot; --compare-and-repair looks at every table");
    for (int i = 0; i < a->nwords; i++)
        if (!is_fed(r, a->words[i], false)) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "no captured table goes to lake table '%s'; weir resume without flags lists them", a->words[i]);
    return WR_OK;
}

/* One of the tables named has another definition than the log tells of. */
static bool any_changed(const wr_args *a, const wr_gap_report *r) {
    for (int i = 0; i < a->nwords; i++)
        if (is_fed(r, a->words[i], true)) return true;
    return false;
}

static wr_code resume(const wr_args *a, const wr_pipeline_options *o, const wr_gap_report *r, wr_err *err) {
    WR_TRY(check_names(a, r, err));
    if (!r->gap && !r->failed && !r->asked && !r->under_way && !any_changed(a, r)) {
        wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "nothing is missing: there is nothing to resume");
        return wr_err_cure(err, "to read tables again all the same: weir repair -c FILE --reload TABLE --apply");
    }
    WR_AUTO char *record = NULL;
    wr_resume what = {.way = a->resnapshot ? WR_RESUME_RESNAPSHOT : WR_RESUME_COMPARE, .tables = a->words, .ntables = a->nwords, .go_on = r->under_way && !r->gap && !r->asked ? r->id : NULL, .reason = r->why[0] ? r->why : NULL, .why = a->why};
    if (what.go_on && !a->json) printf("going on with %s, which is under way\n", what.go_on);
    wr_log_set(log_line, NULL, WR_LOG_WARN);
    WR_TRY(wr_pipeline_resume(o, &what, &record, err));
    if (a->json) return puts(record), WR_OK;
    cJSON *doc = cJSON_Parse(record);
    printf("resumed: capture goes on from %s, and every table is what the source has\nrecord: %s/repair/%s.resume.json\n", wr_cli_json_text(doc, "position"), o->home, wr_cli_json_text(doc, "id"));
    cJSON_Delete(doc);
    return WR_OK;
}

int wr_cmd_resume(const wr_args *a) {
    wr_err err = WR_ERR_INIT;
    wr_config *c = NULL;
    wr_gap_report r = {0};
    bool acts = a->resnapshot || a->compare_and_repair;
    int ret = EXIT_FINE;
    wr_code rc = a->resnapshot && a->compare_and_repair ? wr_fail(&err, WR_E_INVAL, WR_RETRY_NO, "--resnapshot and --compare-and-repair are two ways; --resnapshot TABLE ... compares all other tables") : WR_OK;
    if (rc == WR_OK) rc = wr_config_load(a->config, WR_NEED_ALL, &c, &err);
    if (rc == WR_OK) rc = wr_pipeline_look_for_gap(wr_config_options(c), &r, &err);
    if (rc == WR_OK && acts) rc = resume(a, wr_config_options(c), &r, &err);
    else if (rc == WR_OK) {
        a->json ? tell_json(&r) : tell(&r, a->config);
        ret = r.gap || r.failed ? EXIT_FAILED : EXIT_FINE;
    }
    wr_gap_report_clear(&r);
    wr_config_free(c);
    return rc == WR_OK ? ret : wr_cli_fail(&err);
}
