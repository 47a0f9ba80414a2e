/* weir wait, status, tables, sql: looking at a pipeline and its lake from outside. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "alarms.h"
#include "cli.h"
#include "schedule.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/io.h"

/* ------------------------------------------------------------------ wait */
#define POLL_MS 50
#define WAIT_MOVED (-1)
#define GRACE_US 3000000 /* a sync that is just being started may not hold the lock yet */

static int not_running(const wr_pipeline_options *o, const wr_status_file *s) {
    wr_err e = WR_ERR_INIT;
    if (s && !strcmp(s->state, "failed")) {
        wr_fail(&e, WR_E_SERVER, WR_RETRY_NO, "the sync of '%s' has failed: %s", o->name, s->error);
        if (s->cure[0]) wr_err_cure(&e, "%s", s->cure);
    } else {
        wr_fail(&e, WR_E_NOTFOUND, WR_RETRY_NO, "no sync of '%s' is running in %s", o->name, o->home);
        wr_err_cure(&e, "start one: weir sync -c FILE");
    }
    wr_cli_fail(&e);
    return EXIT_FAILED;
}

/* The sync is not, or not any more, at the server that `s` is: positions of one say nothing about the other. */
static bool follows_another(const wr_status_file *st, const wr_source *s) {
    WR_AUTO char *identity = NULL;
    uint32_t epoch;
    wr_err e = WR_ERR_INIT;
    return wr_status_followed(st, &identity, &epoch, &e) == WR_OK && (epoch != wr_source_epoch(s) || strcmp(identity, wr_source_identity(s)) != 0);
}

/* Which process wrote the status is what tells a restarted sync from a finished one, so "not running" must be seen for a while. */
static int wait_for(const wr_pipeline_options *o, const wr_source *src, const wr_pos *target, int64_t began, double timeout_s) {
    int64_t absent_since = 0;
    for (;;) {
        wr_status_file s = {0};
        wr_err e = WR_ERR_INIT;
        wr_code rc = wr_status_read(o->home, &s, &e);
        int64_t now = wr_mono_us();
        bool running = rc == WR_OK && s.running;
        if (running) absent_since = 0;
        else if (!absent_since) absent_since = now;
        bool visible = rc == WR_OK && s.committed.file[0] && !s.busy_tables && wr_pos_cmp(&s.committed, target) >= 0;
        bool failed = rc == WR_OK && !s.running && !strcmp(s.state, "failed");
        bool started = running && strcmp(s.state, "starting");
        if (started && follows_another(&s, src)) return wr_status_clear(&s), WAIT_MOVED;
        if (started && visible) return wr_status_clear(&s), EXIT_FINE;
        if (!running && (failed ? now - absent_since > 300000 : now - absent_since > GRACE_US)) {
            int ret = not_running(o, rc == WR_OK ? &s : NULL);
            return wr_status_clear(&s), ret;
        }
        if (timeout_s >= 0 && (double)(now - began) > timeout_s * 1e6) {
            char want[512], have[512];
            fprintf(stderr, "weir: not there after %.0f s: wanted %s, the lake is at %s%s\n", timeout_s, wr_pos_print(target, want), s.committed.file[0] ? wr_pos_print(&s.committed, have) : "nothing yet",
                    s.busy_tables ? " with tables still loading" : "");
            if (s.error[0]) fprintf(stderr, "  last error: %s\n", s.error);
            return wr_status_clear(&s), EXIT_TIMEOUT;
        }
        wr_status_clear(&s);
        struct timespec ts = {0, POLL_MS * 1000000l};
        nanosleep(&ts, NULL);
    }
}

/* What the lake had before the source was asked cannot be behind its end: then the source's numbers began anew, and where the lake is says nothing about now. */
static wr_code check_order(const wr_status_file *before, const wr_pos *now, wr_err *err) {
    char a[512], b[512];
    if (!before->running || !strcmp(before->state, "starting") || !before->committed.file[0] || before->committed.epoch != now->epoch || wr_pos_cmp(&before->committed, now) <= 0) return WR_OK;
    wr_fail(err, WR_E_GAP, WR_RETRY_NO, "the source's history changed: it is at %.300s now, and the lake has what was committed up to %.300s", wr_pos_print(now, a), wr_pos_print(&before->committed, b));
    return wr_err_cure(err, "weir resume -c FILE tells what is missing and the ways on");
}

/* At the server that the sync follows, when one runs. WAIT_MOVED: it goes on at another, or is about to. */
static int wait_once(const wr_pipeline_options *o, int64_t began, double timeout_s) {
    wr_status_file st = {0};
    wr_err err = WR_ERR_INIT, ignored = WR_ERR_INIT;
    WR_AUTO char *identity = NULL;
    wr_source_known known = {.only = true};
    wr_source_options so = o->source;
    wr_pos target = {0};
    wr_source *s;
    bool running = wr_status_read(o->home, &st, &ignored) == WR_OK && st.running && strcmp(st.state, "starting");
    if (running && wr_status_followed(&st, &identity, &known.epoch, &ignored) == WR_OK) known.identity = identity, so.known = &known;
    bool late = timeout_s >= 0 && (double)(wr_mono_us() - began) > timeout_s * 1e6;
    if (wr_source_open(&so, &s, &err) != WR_OK) {
        if (so.known && wr_source_is_several(&o->source) && err.retry == WR_RETRY_SOON && !late && wr_status_running(o->home)) return wr_status_clear(&st), WAIT_MOVED; /* the sync notices as well */
        return wr_status_clear(&st), wr_cli_fail(&err), late ? EXIT_TIMEOUT : EXIT_FAILED;
    }
    int rc = EXIT_FAILED;
    if (wr_source_current(s, &o->source, &target, &err) == WR_OK && check_order(&st, &target, &err) == WR_OK) rc = wait_for(o, s, &target, began, timeout_s);
    else if (so.known && wr_source_is_several(&o->source) && err.retry == WR_RETRY_SOON && !late) rc = WAIT_MOVED;
    else wr_cli_fail(&err);
    wr_status_clear(&st);
    wr_source_close(s);
    wr_pos_clear(&target);
    return rc;
}

int wr_cmd_wait(const wr_args *a) {
    wr_err err = WR_ERR_INIT;
    wr_config *c;
    if (wr_config_load(a->config, WR_NEED_SOURCE, &c, &err) != WR_OK) return wr_cli_fail(&err);
    const wr_pipeline_options *o = wr_config_options(c);
    int64_t began = wr_mono_us();
    int rc;
    while ((rc = wait_once(o, began, a->timeout_s)) == WAIT_MOVED) nanosleep(&(struct timespec){0, POLL_MS * 1000000l}, NULL);
    wr_config_free(c);
    return rc;
}

/* ------------------------------------------------------------------ status */
static const char *text(const cJSON *o, const char *k) {
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, k));
    return s ? s : "-";
}
static double number(const cJSON *o, const char *k) {
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, k);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

static void print_place(const char *label, const cJSON *o) {
    printf("%-12s %s:%.0f", label, text(o, "file"), number(o, "offset"));
    const char *g = text(o, "gtid");
    if (strcmp(g, "-") && *g) printf("  gtid %.120s%s", g, strlen(g) > 120 ? "..." : "");
    putchar('\n');
}

#define SHOWN_TABLES 5
/* A frozen or unreachable server is not one with nothing new. */
static void print_source(const cJSON *src, const wr_status_file *s) {
    double silent_ms = number(src, "silent_ms");
    if (!s->running) return;
    if (silent_ms > 0) printf("%-12s source not answering: nothing from it for %.0f s, not even a heartbeat\n", "stream", silent_ms / 1000);
    else if (!strcmp(s->state, "reconnecting")) printf("%-12s source not answering: reconnecting\n", "stream");
    else printf("%-12s source answers; its newest event is of %s\n", "stream", text(src, "last_event"));
}

static void print_retention(const cJSON *r, const wr_status_file *s) {
    double keep_s = number(r, "keep_s"), away_s = s->captured_us ? (double)(wr_now_us() - s->captured_us) / 1e6 : 0;
    if (!s->running && keep_s > 0 && away_s > keep_s / 2)
        printf("%-12s warning: the source keeps its binlog for %.1f h, and nothing has been captured for %.1f h: at most %.1f h are left before changes are lost\n", "retention", keep_s / 3600, away_s / 3600,
               away_s < keep_s ? (keep_s - away_s) / 3600 : 0);
    else if (s->running && strcmp(text(r, "warning"), "-")) printf("%-12s warning: %s\n", "retention", text(r, "warning"));
    else if (keep_s > 0) printf("%-12s the source keeps its binlog for %.1f h\n", "retention", keep_s / 3600);
}

#define SHOWN_DECISIONS 8 /* the newest; --json has all */

static void print_compared(const cJSON *o) {
    const cJSON *c = cJSON_GetObjectItemCaseSensitive(o, "compared"), *t;
    if (c) {
        printf("%-12s %s at %.19sZ", "compared", text(c, "verdict"), text(c, "at"));
        if (cJSON_HasObjectItem(c, "error")) printf(": %s", text(c, "error"));
        else printf(" (%s): %.0f equal, %.0f different, %.0f undecided, %.0f not compared", text(c, "level"), number(c, "equal"), number(c, "different"), number(c, "undecided"), number(c, "not_compared"));
        int n = 0;
        cJSON_ArrayForEach(t, cJSON_GetObjectItemCaseSensitive(c, "tables"))
            if (n < SHOWN_TABLES) printf("%s%s", n++ ? ", " : "; differs: ", cJSON_GetStringValue(t));
        putchar('\n');
    }
    if (cJSON_HasObjectItem(o, "compare_next")) printf("%-12s %.19sZ\n", "next compare", text(o, "compare_next"));
}

static void print_status(const cJSON *o, const wr_status_file *s) {
    const cJSON *q = cJSON_GetObjectItemCaseSensitive(o, "queue"), *e = cJSON_GetObjectItemCaseSensitive(o, "error"), *t;
    char b[32];
    printf("%-12s %s, %s%s\n", "pipeline", text(o, "pipeline"), s->state, s->running ? "" : " (not running)");
    const cJSON *from = cJSON_GetObjectItemCaseSensitive(o, "source");
    printf("%-12s %s at %s\n", "source", text(from, "version"), text(from, "address"));
    print_place("captured", cJSON_GetObjectItemCaseSensitive(o, "captured"));
    print_place("committed", cJSON_GetObjectItemCaseSensitive(o, "committed"));
    printf("%-12s %s, offsets %.0f to %.0f, %.0f committed\n", "queue", wr_cli_bytes(number(q, "bytes"), b), number(q, "first_offset"), number(q, "last_offset"), number(q, "committed_offset"));
    printf("%-12s %.1f s, %.0f transactions; %.0f anomalies\n", "lag", number(o, "lag_ms") / 1000, number(o, "lag_transactions"), number(o, "anomalies"));
    if (number(o, "ledger_alarms") > 0) printf("%-12s %.0f: changes do not add up; weir ledger tells which\n", "alarms", number(o, "ledger_alarms"));
    print_compared(o);
    if (number(o, "dead_letters") > 0) printf("%-12s %.0f rows refused by rules: see _weir.dead_letter\n", "dead letters", number(o, "dead_letters"));
    const cJSON *src = cJSON_GetObjectItemCaseSensitive(o, "source"), *list = cJSON_GetObjectItemCaseSensitive(o, "decisions");
    if (number(src, "replaced_dates") > 0) printf("%-12s %.0f zero or partial dates since the start, replaced as types.zero_date says\n", "dates", number(src, "replaced_dates"));
    cJSON_ArrayForEach(t, cJSON_GetObjectItemCaseSensitive(src, "findings")) printf("%-12s %s: %s\n%-12s   way out: %s\n", "warning", text(t, "what"), text(t, "consequence"), "", text(t, "cure"));
    int i = 0, n = cJSON_GetArraySize(list);
    cJSON_ArrayForEach(t, list) {
        if (i++ < n - SHOWN_DECISIONS) continue;
        printf("%-12s %s: %s for %s, %.0f times, last %s: %.200s\n", "decided", text(t, "policy"), text(t, "choice"), text(t, "table"), number(t, "times"), text(t, "last"), text(t, "why"));
    }
    print_source(src, s);
    print_retention(cJSON_GetObjectItemCaseSensitive(o, "retention"), s);
    if (e) {
        printf("%-12s %s\n", "error", text(e, "message"));
        if (text(e, "cure")[0]) printf("%-12s %s\n", "way out", text(e, "cure"));
    }
    printf("\n%-10s %12s %8s %10s  %s\n", "STATE", "ROWS", "FILES", "SIZE", "TABLE");
    cJSON_ArrayForEach(t, cJSON_GetObjectItemCaseSensitive(o, "tables"))
        printf("%-10s %12.0f %8.0f %10s  %s\n", text(t, "state"), number(t, "rows"), number(t, "files"), wr_cli_bytes(number(t, "bytes"), b), text(t, "table"));
}

/* The last comparison's verdict, if there was one, and when the next one is due. */
static void add_compared(cJSON *o, const wr_config *c) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    WR_AUTO char *path = wr_path_join(wr_config_options(c)->home, "compared.json");
    wr_err ignored = WR_ERR_INIT;
    const char *schedule = wr_config_compare_of(c)->schedule;
    wr_schedule s;
    char iso[32];
    cJSON *v = path && wr_file_get(path, 1 << 20, &b, &ignored) == WR_OK && wr_buf_cstr(&b) ? cJSON_Parse((char *)b.p) : NULL;
    if (v) cJSON_AddItemToObject(o, "compared", v);
    if (schedule && wr_schedule_parse(schedule, &s, &ignored) == WR_OK) cJSON_AddStringToObject(o, "compare_next", wr_iso_time(wr_schedule_next(&s, wr_now_us()), iso));
}

#define SHOWN_ALARMS 8

static void print_alarms(const wr_alarm_list *l) {
    int shown = 0;
    for (int i = 0; i < l->n; i++) {
        const wr_alarm *x = &l->list[i];
        if (x->state == WR_ALARM_OPEN && shown++ < SHOWN_ALARMS) printf("%-12s %s %s %s: %.300s\n", "alarm", wr_alarm_severity_name(x->severity), x->kind, x->subject, x->text);
    }
    if (shown) printf("%-12s %d open: weir alarms tells since when, and the way out\n", "alarms", shown);
    wr_cli_alarms_undelivered(l);
}

static void add_alarms(cJSON *o, const wr_alarm_list *l) {
    cJSON *list = cJSON_AddArrayToObject(o, "alarms");
    for (int i = 0; i < l->n; i++)
        if (l->list[i].state != WR_ALARM_RECOVERED) cJSON_AddItemToArray(list, wr_alarm_json(&l->list[i]));
    cJSON *n = cJSON_AddObjectToObject(o, "notices");
    cJSON_AddNumberToObject(n, "undelivered", l->undelivered), cJSON_AddNumberToObject(n, "dropped", (double)l->dropped);
    if (l->error[0]) cJSON_AddStringToObject(n, "error", l->error);
}

static void add_stale(cJSON *o, const wr_status_file *s) {
    cJSON_DeleteItemFromObjectCaseSensitive(o, "error");
    cJSON *e = cJSON_AddObjectToObject(o, "error");
    cJSON_AddStringToObject(e, "code", s->cure[0] ? wr_code_name(WR_E_NOSPC) : wr_code_name(WR_E_TIMEOUT));
    cJSON_AddStringToObject(e, "message", s->error);
    cJSON_AddStringToObject(e, "cure", s->cure);
    cJSON_AddNumberToObject(o, "stale_ms", (double)s->stale_ms);
}

int wr_cmd_status(const wr_args *a) {
    wr_err err = WR_ERR_INIT;
    wr_config *c;
    if (wr_config_load(a->config, WR_NEED_NOTHING, &c, &err) != WR_OK) return wr_cli_fail(&err);
    wr_status_file s = {0};
    wr_code rc = wr_status_read(wr_config_options(c)->home, &s, &err);
    if (rc == WR_E_NOTFOUND) {
        wr_fail(&err, WR_E_NOTFOUND, WR_RETRY_NO, "'%s' has never run: there is no status in %s", wr_config_options(c)->name, wr_config_options(c)->home);
        wr_err_cure(&err, "start it: weir sync -c %s", a->config);
    }
    int ret = EXIT_FINE;
    if (rc != WR_OK) ret = (wr_cli_fail(&err), EXIT_FAILED);
    else {
        cJSON *o = cJSON_Parse(s.json);
        cJSON_AddBoolToObject(o, "running", s.running);
        add_compared(o, c);
        wr_alarm_list alarms = {0};
        wr_err unread = WR_ERR_INIT;
        if (wr_alarms_read(wr_config_options(c)->home, &alarms, &unread) != WR_OK) wr_cli_fail(&unread);
        if (a->json) add_alarms(o, &alarms);
        if (s.stale_ms) add_stale(o, &s);
        if (a->json) {
            char *t = cJSON_PrintUnformatted(o);
            if (t) puts(t);
            cJSON_free(t);
        } else print_status(o, &s), print_alarms(&alarms);
        wr_alarm_list_clear(&alarms);
        cJSON_Delete(o);
    }
    wr_status_clear(&s);
    wr_config_free(c);
    return ret;
}

/* ------------------------------------------------------------------ tables, sql */
static wr_code open_view(const wr_config *c, wr_store **ret_store, wr_lake_view **ret, wr_err *err) {
    const wr_pipeline_options *o = wr_config_options(c);
    WR_AUTO char *catalog = wr_path_join(o->home, "catalog.db");
    if (!catalog) return wr_nomem(err, "path", 256);
    if (!o->rest && !wr_file_exists(catalog)) {
        wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "there is no lake yet: %s does not exist", catalog);
        return wr_err_cure(err, "start the pipeline: weir sync -c FILE");
    }
    WR_TRY(wr_pipeline_store(o, ret_store, err));
    return wr_lake_view_open(&(wr_lake_view_options){.catalog_path = catalog, .store = *ret_store, .rest = o->rest}, ret, err);
}

static bool table_matches(const wr_table_health *h, const char *want) {
    if (!want) return true;
    WR_AUTO char *full = wr_asprintf("%s.%s", h->ns, h->name);
    return full && (!strcmp(full, want) || !strcmp(h->name, want));
}

static double written_times(const wr_upkeep *u) { return u->new_bytes ? 1 + (double)u->rewritten_bytes / (double)u->new_bytes : 1; }
static double deleted_percent(const wr_table_health *h) { return h->rows + h->deleted_rows ? 100.0 * (double)h->deleted_rows / (double)(h->rows + h->deleted_rows) : 0; }

static void print_action(const wr_upkeep_action *a) {
    char iso[32], in[32], out[32];
    wr_iso_time(a->at_us, iso);
    if (!strcmp(a->what, "expire")) {
        printf("  %-24s %-8s %s: %" PRIu64 " left, and %" PRIu64 " files that only they needed, %" PRIu64 " ms\n", iso, a->what, a->why, a->snapshots, a->files_in, a->ms);
        return;
    }
    printf("  %-24s %-8s %s: %" PRIu64 " files of %s became %" PRIu64 " of %s, %" PRIu64 " deleted rows went, %" PRIu64 " ms\n", iso, a->what, a->why, a->files_in, wr_cli_bytes((double)a->bytes_in, in), a->files_out,
           wr_cli_bytes((double)a->bytes_out, out), a->rows_dropped, a->ms);
}

static void print_partitions(const wr_partition_health *p) {
    char b[32];
    if (!p->spec[0]) return;
    printf("partitions %s: %" PRIu64 " of them; at most %" PRIu64 " files (%s), at most %s (%s)", p->spec, p->partitions, p->files_most, p->most, wr_cli_bytes((double)p->bytes_most, b), p->largest);
    if (p->other_files) printf("; %" PRIu64 " files of another layout", p->other_files);
    putchar('\n');
}

static void print_upkeep(const wr_table_health *h) {
    static const int parts[WR_FILE_LEVELS - 1] = {4096, 256, 2};
    const wr_upkeep *u = h->upkeep;
    char b[32], c[32];
    printf("\nfiles      ");
    for (int i = 0; i < WR_FILE_LEVELS - 1; i++) printf("%" PRIu64 " below %s, ", h->files_at[i], wr_cli_bytes((double)(WR_TARGET_FILE_BYTES / (uint64_t)parts[i]), b));
    printf("%" PRIu64 " full; on average %s\n", h->files_at[WR_FILE_LEVELS - 1], wr_cli_bytes(h->data_files ? (double)h->data_bytes / (double)h->data_files : 0, b));
    print_partitions(&h->partition);
    printf("deleted    %.1f %% of the rows in them\n", deleted_percent(h));
    printf("written    %s of new data, %s again: %.2f times in all\n", wr_cli_bytes((double)u->new_bytes, b), wr_cli_bytes((double)u->rewritten_bytes, c), written_times(u));
    printf("metadata   %s, %" PRIu64 " snapshots; manifests were merged in %" PRIu64 " of them\n", wr_cli_bytes((double)h->metadata_bytes, b), h->snapshots, h->manifest_merges);
    printf("due        %s\n", h->due[0] ? h->due : "nothing");
    printf("upkeep     %" PRIu64 " merges, %" PRIu64 " rewrites, %" PRIu64 " times old snapshots; the last ones:\n", u->merges, u->rewrites, u->expiries);
    for (int i = u->n - 1; i >= 0; i--) print_action(&u->last[i]);
}

static void print_table(const wr_table_health *h, const wr_schema *s, bool columns) {
    char b[32], iso[32] = "-", type[32];
    if (h->committed_us) wr_iso_time(h->committed_us, iso);
    printf("%12" PRIu64 " %8" PRIu64 " %10s %10" PRIu64 " %8" PRIu64 " %9" PRIu64 " %7.2fx %-4s %-24s %s.%s%s\n", h->rows, h->data_files, wr_cli_bytes((double)h->data_bytes, b), h->deleted_rows, h->delete_files, h->snapshots,
           written_times(h->upkeep), h->due[0] ? "yes" : "-", iso, h->ns, h->name, h->loading ? " (loading)" : "");
    if (!columns) return;
    for (int i = 0; i < s->ncols; i++)
        printf("             %-32s %-16s %s%s\n", s->cols[i].name, wr_type_name(s->cols[i].type, type), s->cols[i].key_ord ? "key " : "", s->cols[i].doc ? s->cols[i].doc : "");
    print_upkeep(h);
}

static void add_number(cJSON *o, const char *key, uint64_t v) { cJSON_AddNumberToObject(o, key, (double)v); }

static void add_action(cJSON *list, const wr_upkeep_action *a) {
    cJSON *o = cJSON_CreateObject();
    char iso[32];
    wr_iso_time(a->at_us, iso);
    cJSON_AddStringToObject(o, "at", iso);
    cJSON_AddStringToObject(o, "what", a->what);
    cJSON_AddStringToObject(o, "why", a->why);
    add_number(o, "files_in", a->files_in), add_number(o, "files_out", a->files_out);
    add_number(o, "bytes_in", a->bytes_in), add_number(o, "bytes_out", a->bytes_out);
    add_number(o, "rows_dropped", a->rows_dropped), add_number(o, "snapshots", a->snapshots), add_number(o, "ms", a->ms);
    cJSON_AddItemToArray(list, o);
}

static void add_upkeep(cJSON *o, const wr_table_health *h) {
    const wr_upkeep *u = h->upkeep;
    cJSON *levels = cJSON_AddArrayToObject(o, "files_by_level"), *k = cJSON_AddObjectToObject(o, "upkeep"), *list;
    for (int i = 0; i < WR_FILE_LEVELS; i++) cJSON_AddItemToArray(levels, cJSON_CreateNumber((double)h->files_at[i]));
    add_number(o, "file_bytes_average", h->data_files ? h->data_bytes / h->data_files : 0);
    cJSON_AddNumberToObject(o, "deleted_ratio", deleted_percent(h) / 100);
    cJSON_AddNumberToObject(o, "write_amplification", written_times(u));
    add_number(o, "metadata_bytes", h->metadata_bytes);
    cJSON_AddStringToObject(o, "due", h->due);
    add_number(k, "new_bytes", u->new_bytes), add_number(k, "rewritten_bytes", u->rewritten_bytes);
    add_number(k, "merges", u->merges), add_number(k, "rewrites", u->rewrites), add_number(k, "expiries", u->expiries), add_number(k, "manifest_merges", h->manifest_merges);
    list = cJSON_AddArrayToObject(k, "last");
    for (int i = 0; i < u->n; i++) add_action(list, &u->last[i]);
}

static void add_partitions(cJSON *o, const wr_partition_health *p) {
    cJSON *k = cJSON_AddObjectToObject(o, "partitioning");
    cJSON_AddStringToObject(k, "spec", p->spec);
    add_number(k, "partitions", p->partitions), add_number(k, "files_most", p->files_most), add_number(k, "bytes_most", p->bytes_most);
    cJSON_AddStringToObject(k, "most", p->most);
    cJSON_AddStringToObject(k, "largest", p->largest);
    add_number(k, "other_files", p->other_files);
}

static void print_table_json(const wr_table_health *h, const wr_schema *s) {
    char iso[32], type[32];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "namespace", h->ns);
    cJSON_AddStringToObject(o, "name", h->name);
    cJSON_AddNumberToObject(o, "format_version", h->format_version);
    add_number(o, "rows", h->rows), add_number(o, "data_files", h->data_files), add_number(o, "data_bytes", h->data_bytes);
    add_number(o, "deleted_rows", h->deleted_rows), add_number(o, "delete_files", h->delete_files), add_number(o, "snapshots", h->snapshots);
    cJSON_AddBoolToObject(o, "loading", h->loading);
    if (h->committed_us) wr_iso_time(h->committed_us, iso), cJSON_AddStringToObject(o, "committed_at", iso);
    add_upkeep(o, h);
    add_partitions(o, &h->partition);
    cJSON *cols = cJSON_AddArrayToObject(o, "columns");
    for (int i = 0; i < s->ncols; i++) {
        cJSON *k = cJSON_CreateObject();
        cJSON_AddStringToObject(k, "name", s->cols[i].name);
        cJSON_AddStringToObject(k, "type", wr_type_name(s->cols[i].type, type));
        cJSON_AddNumberToObject(k, "key", s->cols[i].key_ord);
        cJSON_AddItemToArray(cols, k);
    }
    char *t = cJSON_PrintUnformatted(o);
    if (t) puts(t);
    cJSON_free(t);
    cJSON_Delete(o);
}

int wr_cmd_tables(const wr_args *a) {
    wr_err err = WR_ERR_INIT;
    wr_config *c;
    if (wr_config_load(a->config, WR_NEED_LAKE, &c, &err) != WR_OK) return wr_cli_fail(&err);
    wr_store *store = NULL;
    wr_lake_view *v = NULL;
    const wr_sql_table *t;
    const wr_table_health *h;
    int n = 0, shown = 0;
    wr_code rc = open_view(c, &store, &v, &err);
    if (rc == WR_OK) rc = wr_lake_view_tables(v, &t, &h, &n, &err);
    if (rc == WR_OK && !a->json) printf("%12s %8s %10s %10s %8s %9s %8s %-4s %-24s %s\n", "ROWS", "FILES", "SIZE", "DELETED", "DELFILES", "SNAPSHOTS", "WRITTEN", "DUE", "COMMITTED", "TABLE");
    for (int i = 0; rc == WR_OK && i < n; i++)
        if (table_matches(&h[i], a->nwords ? a->words[0] : NULL)) {
            if (a->json) print_table_json(&h[i], t[i].schema);
            else print_table(&h[i], t[i].schema, a->nwords > 0);
            shown++;
        }
    if (rc == WR_OK && a->nwords && !shown) rc = wr_fail(&err, WR_E_NOTFOUND, WR_RETRY_NO, "the lake has no table %s", a->words[0]);
    wr_lake_view_close(v);
    wr_store_close(store);
    wr_config_free(c);
    return rc == WR_OK ? EXIT_FINE : (wr_cli_fail(&err), EXIT_FAILED);
}

/* Rows are printed as they come; the first ones decide the widths. */
#define WIDTH_ROWS 200
typedef struct sheet { bool json, csv; int n; char **names; char ***rows; int nrows; size_t *width; } sheet;

static size_t shown_width(const char *s) {
    size_t n = mbstowcs(NULL, s, 0);
    return n == (size_t)-1 ? strlen(s) : n;
}

static void print_line(const sheet *s, const char *const *v) {
    for (int i = 0; i < s->n; i++) {
        const char *x = v[i] ? v[i] : "NULL";
        size_t w = shown_width(x), pad = w < s->width[i] && i + 1 < s->n ? s->width[i] - w : 0;
        printf("%s%s%*s", i ? "  " : "", x, (int)pad, "");
    }
    putchar('\n');
}

static void print_csv(const sheet *s, const char *const *v) {
    for (int i = 0; i < s->n; i++) {
        if (i) putchar(',');
        if (!v[i]) continue;
        if (!v[i][strcspn(v[i], ",\"\r\n")] && *v[i]) fputs(v[i], stdout);
        else {
            putchar('"');
            for (const char *p = v[i]; *p; p++) *p == '"' ? fputs("\"\"", stdout) : putchar(*p);
            putchar('"');
        }
    }
    putchar('\n');
}

static void print_object(const sheet *s, const char *const *v) {
    cJSON *o = cJSON_CreateObject();
    for (int i = 0; i < s->n; i++) v[i] ? cJSON_AddStringToObject(o, s->names[i], v[i]) : cJSON_AddNullToObject(o, s->names[i]);
    char *t = cJSON_PrintUnformatted(o);
    if (t) puts(t);
    cJSON_free(t);
    cJSON_Delete(o);
}

static void flush_rows(sheet *s) {
    if (!s->rows) return;
    print_line(s, (const char *const *)s->names);
    for (int r = 0; r < s->nrows; r++) {
        print_line(s, (const char *const *)s->rows[r]);
        for (int i = 0; i < s->n; i++) wr_free(s->rows[r][i]);
        wr_free(s->rows[r]);
    }
    wr_free(s->rows);
    s->rows = NULL;
}

static wr_code on_columns(void *ctx, int n, const char *const *names, const char *const *types, wr_err *err) {
    sheet *s = ctx;
    s->n = n;
    s->names = wr_calloc((size_t)n + 1, sizeof *s->names);
    s->width = wr_calloc((size_t)n + 1, sizeof *s->width);
    s->rows = s->json || s->csv ? NULL : wr_calloc(WIDTH_ROWS, sizeof *s->rows);
    if (!s->names || !s->width || (!s->rows && !s->json && !s->csv)) return wr_nomem(err, "result", 4096);
    for (int i = 0; i < n; i++) {
        if (!(s->names[i] = wr_strdup(names[i]))) return wr_nomem(err, "result", 64);
        s->width[i] = shown_width(names[i]);
    }
    if (s->csv) print_csv(s, names);
    return WR_OK;
}

static wr_code on_row(void *ctx, int n, const char *const *v, wr_err *err) {
    sheet *s = ctx;
    if (s->csv) return print_csv(s, v), WR_OK;
    if (s->json) return print_object(s, v), WR_OK;
    if (!s->rows) return print_line(s, v), WR_OK;
    char **row = wr_calloc((size_t)n + 1, sizeof *row);
    if (!row) return wr_nomem(err, "result", 64);
    for (int i = 0; i < n; i++) {
        size_t w = v[i] ? shown_width(v[i]) : 4;
        if (v[i] && !(row[i] = wr_strdup(v[i]))) return wr_nomem(err, "result", 64);
        if (w > s->width[i]) s->width[i] = w < 60 ? w : 60;
    }
    s->rows[s->nrows++] = row;
    if (s->nrows == WIDTH_ROWS) flush_rows(s);
    return WR_OK;
}

int wr_cmd_sql(const wr_args *a) {
    wr_err err = WR_ERR_INIT;
    wr_config *c;
    if (wr_config_load(a->config, WR_NEED_LAKE, &c, &err) != WR_OK) return wr_cli_fail(&err);
    wr_store *store = NULL;
    wr_lake_view *v = NULL;
    wr_engine *e = NULL;
    const wr_sql_table *t;
    const wr_table_health *h;
    int n = 0;
    sheet s = {.json = a->json, .csv = a->csv};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    wr_engine_options eo = {.memory_bytes = 1u << 30, .threads = cores > 1 ? (int)cores : 1};
    wr_code rc = open_view(c, &store, &v, &err);
    if (rc == WR_OK) rc = wr_lake_view_tables(v, &t, &h, &n, &err);
    if (rc == WR_OK) rc = wr_engine_open(&eo, &e, &err);
    if (rc == WR_OK) rc = wr_engine_sql(e, t, n, wr_lake_view_opener(v), a->words[0], on_columns, on_row, &s, &err);
    flush_rows(&s);
    for (int i = 0; s.names && i < s.n; i++) wr_free(s.names[i]);
    wr_free(s.names), wr_free(s.width);
    wr_engine_close(e);
    wr_lake_view_close(v);
    wr_store_close(store);
    wr_config_free(c);
    return rc == WR_OK ? EXIT_FINE : (wr_cli_fail(&err), EXIT_FAILED);
}
