/* weir alarms: what is wrong now. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "alarms.h"
#include "cli.h"
#include "json.h"
#include "weir/base/clock.h"

static void print_alarm(const wr_alarm *a, bool colour) {
    char first[32], last[32];
    const char *paint = !colour ? "" : a->state == WR_ALARM_RECOVERED ? "\033[32m" : a->severity == WR_ALARM_CRITICAL ? "\033[1;31m" : "\033[33m";
    wr_iso_time(a->first_us, first)[19] = 0, wr_iso_time(a->state == WR_ALARM_RECOVERED ? a->recovered_us : a->last_us, last)[19] = 0;
    printf("%s%" PRIu64 "  %s  %s  %s%s%s\n", paint, a->id, wr_alarm_severity_name(a->severity), a->kind, a->subject, colour ? "\033[0m" : "", a->state == WR_ALARM_OPEN ? "" : a->state == WR_ALARM_RECOVERED ? "  (recovered)" : "  (acknowledged)");
    printf("    %s\n    since %s, %s %s UTC, %" PRIu64 " times%s\n    way out: %s\n", a->text, first, a->state == WR_ALARM_RECOVERED ? "over at" : "last", last, a->count, a->level ? ", escalated" : "", a->cure);
}

void wr_cli_alarms_undelivered(const wr_alarm_list *l) {
    if (l->undelivered) printf("%-12s %d notices of alarms could not be delivered yet%s%s\n", "undelivered", l->undelivered, l->error[0] ? ": " : "", l->error);
    if (l->dropped) printf("%-12s %" PRIu64 " notices of alarms were given up: too many waited\n", "dropped", l->dropped);
}

static int show(const wr_args *a, const char *home) {
    wr_err err = WR_ERR_INIT;
    wr_alarm_list l;
    if (wr_alarms_read(home, &l, &err) != WR_OK) return wr_cli_fail(&err);
    int shown = 0, open = l.open;
    for (int i = 0; i < l.n; i++) {
        if (l.list[i].state == WR_ALARM_RECOVERED && !a->all) continue;
        if (a->json) wr_cli_json_print(wr_alarm_json(&l.list[i]));
        else print_alarm(&l.list[i], wr_cli_colour(1));
        shown++;
    }
    if (!a->json && !shown) puts(a->all ? "there was no alarm yet" : "no alarm is open");
    if (!a->json) wr_cli_alarms_undelivered(&l);
    wr_alarm_list_clear(&l);
    return open ? EXIT_FAILED : EXIT_FINE;
}

static int try_all(const wr_pipeline_options *o) {
    int ret = EXIT_FINE;
    if (!o->watch.nsinks) return fprintf(stderr, "weir: alarms.notify names nobody\n"), EXIT_USAGE;
    for (int i = 0; i < o->watch.nsinks; i++) {
        wr_err err = WR_ERR_INIT;
        if (wr_alarm_try(&o->watch.sinks[i], o->name, &err) == WR_OK) printf("%s: delivered\n", o->watch.sinks[i].name);
        else ret = EXIT_FAILED, wr_cli_fail(&err);
    }
    return ret;
}

static int acknowledge(const wr_args *a, const char *home) {
    wr_err err = WR_ERR_INIT;
    char *end;
    uint64_t id = strtoull(a->acknowledge, &end, 10);
    if (*a->acknowledge < '1' || *a->acknowledge > '9' || *end) wr_fail(&err, WR_E_INVAL, WR_RETRY_NO, "--acknowledge takes the number of an alarm, not '%s'", a->acknowledge);
    else if (wr_alarms_acknowledge(home, id, &err) == WR_OK) return show(a, home);
    return wr_cli_fail(&err);
}

int wr_cmd_alarms(const wr_args *a) {
    wr_err err = WR_ERR_INIT;
    wr_config *c;
    if (wr_config_load(a->config, a->test ? WR_NEED_ALARMS : WR_NEED_NOTHING, &c, &err) != WR_OK) return wr_cli_fail(&err);
    const wr_pipeline_options *o = wr_config_options(c);
    int ret = a->test ? try_all(o) : a->acknowledge ? acknowledge(a, o->home) : show(a, o->home);
    wr_config_free(c);
    return ret;
}
