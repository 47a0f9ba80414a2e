/* weir COMMAND [flags] */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "weir/base/mem.h"

typedef enum flag_bit { F_CONFIG = 1, F_JSON = 2, F_UNTIL = 4, F_TIMEOUT = 8, F_VERBOSE = 16, F_CSV = 32, F_ALL = 64, F_ORPHANS = 128, F_OLDER = 256, F_DELETE = 512,
               F_METHOD = 1 << 10, F_LEVEL = 1 << 11, F_HTML = 1 << 12, F_KEYS = 1 << 13, F_SAMPLE = 1 << 14, F_SEED = 1 << 15, F_LAST = 1 << 16, F_TIME = 1 << 17, F_RATE = 1 << 18, F_THREADS = 1 << 19, F_LAG = 1 << 20,
               F_FROM = 1 << 21, F_TO = 1 << 22, F_PROMETHEUS = 1 << 23, F_RESUME = 1 << 24, F_APPLY = 1 << 25, F_RELOAD = 1 << 26, F_WHY = 1 << 27, F_PARALLEL = 1 << 28, F_HASH = 1 << 29, F_COLUMNS = 1 << 30, F_ACKNOWLEDGE = 1ll << 31, F_ALARM = 1ll << 32, F_TRY = 1ll << 33, F_RESNAPSHOT = 1ll << 34, F_REPAIR = 1ll << 35 } flag_bit;

typedef struct command {
    const char *name, *args, *what, *example;
    int (*run)(const wr_args *a);
    uint64_t flags;
    int min_words, max_words;
} command;

static const command commands[] = {
    {"check", "-c FILE [--json]", "find out what would stop or hurt a sync, before it does", "weir check -c shop.yaml", wr_cmd_check, F_CONFIG | F_JSON | F_VERBOSE, 0, 0},
    {"sync", "-c FILE [--until current] [--verbose]", "copy what is new, then keep the lake current", "weir sync -c shop.yaml\n  weir sync -c shop.yaml --until current", wr_cmd_sync, F_CONFIG | F_UNTIL | F_VERBOSE, 0, 0},
    {"wait", "-c FILE [--timeout SECONDS]", "return once all that is committed in the source now is visible in the lake", "weir wait -c shop.yaml --timeout 60", wr_cmd_wait, F_CONFIG | F_TIMEOUT | F_VERBOSE, 0, 0},
    {"status", "-c FILE [--json]", "state, positions, lag and last error", "weir status -c shop.yaml", wr_cmd_status, F_CONFIG | F_JSON, 0, 0},
    {"tables", "-c FILE [TABLE] [--json]", "lake tables and their health", "weir tables -c shop.yaml shop.orders", wr_cmd_tables, F_CONFIG | F_JSON, 0, 1},
    {"sql", "-c FILE [--json | --csv] 'SELECT ...'", "read the lake tables through DuckDB", "weir sql -c shop.yaml 'select count(*) from shop.orders'", wr_cmd_sql, F_CONFIG | F_JSON | F_CSV, 1, 1},
    {"ledger", "-c FILE [TABLE] [--from TIME] [--to TIME] [--all] [--json | --prometheus]  or  -c FILE --acknowledge ALARM [--why TEXT]", "how many changes were captured, queued, consumed and read back from the lake, and what did not fit", "weir ledger -c shop.yaml\n  weir ledger -c shop.yaml shop.orders --from 2h\n  weir ledger -c shop.yaml --acknowledge 3f2a91c0 --why 'the disk was replaced, table read again'",
     wr_cmd_ledger, F_CONFIG | F_JSON | F_FROM | F_TO | F_PROMETHEUS | F_ALL | F_ACKNOWLEDGE | F_WHY, 0, 1},
    {"compare", "-c FILE [TABLE ...] [--level structure|counts|keys|content] [--method rows|pushed] [--hash fast|md5] [--json] [--html FILE]", "find out whether source and lake are equal, row by row, while both go on",
     "weir compare -c shop.yaml\n  weir compare -c shop.yaml 'shop\\.order.*' --html report.html", wr_cmd_compare, F_CONFIG | F_JSON | F_METHOD | F_LEVEL | F_HTML | F_KEYS | F_SAMPLE | F_SEED | F_LAST | F_TIME | F_RATE | F_THREADS | F_LAG | F_RESUME | F_PARALLEL | F_HASH | F_COLUMNS | F_FROM | F_TO | F_ALARM, 0, 8},
    {"repair", "-c FILE [REPORT] [--apply] [--why TEXT] [--json]  or  -c FILE --reload TABLE ... [--apply] [--why TEXT]", "put right in the lake what a comparison found, or read whole tables again, while the sync goes on", "weir repair -c shop.yaml\n  weir repair -c shop.yaml --apply --why 'ticket 4711'\n  weir repair -c shop.yaml --reload shop.orders --apply",
     wr_cmd_repair, F_CONFIG | F_JSON | F_APPLY | F_RELOAD | F_WHY | F_TIMEOUT, 0, 8},
    {"alarms", "-c FILE [--all] [--json]  or  -c FILE --acknowledge ID [--json]  or  -c FILE --test", "what is wrong now, since when, and the way out", "weir alarms -c shop.yaml\n  weir alarms -c shop.yaml --acknowledge 12",
     wr_cmd_alarms, F_CONFIG | F_JSON | F_ALL | F_ACKNOWLEDGE | F_TRY, 0, 0},
    {"resume", "-c FILE [--json]  or  -c FILE --resnapshot [TABLE ...] | --compare-and-repair [--why TEXT] [--json]", "say what is missing when the source's log has a gap, and go on behind it", "weir resume -c shop.yaml\n  weir resume -c shop.yaml --compare-and-repair --why 'ticket 4711'\n  weir resume -c shop.yaml --resnapshot shop.orders shop.items",
     wr_cmd_resume, F_CONFIG | F_JSON | F_RESNAPSHOT | F_REPAIR | F_WHY, 0, 64},
    {"optimize", "-c FILE [TABLE ...] [--all] [--json]  or  -c FILE --orphans [--older-than AGE] [--delete] [--json]", "do by hand what a sync does for its tables: few files, few old snapshots", "weir optimize -c shop.yaml shop.orders\n  weir optimize -c shop.yaml --orphans --older-than 7d",
     wr_cmd_optimize, F_CONFIG | F_JSON | F_ALL | F_ORPHANS | F_OLDER | F_DELETE, 0, 8},
};
#define NCOMMANDS ((int)(sizeof commands / sizeof *commands))

typedef struct flag { const char *name; flag_bit bit; bool takes; const char *what; } flag;
static const flag flags[] = {
    {"-c", F_CONFIG, true, "configuration file (weir.yaml)"},
    {"--config", F_CONFIG, true, "the same"},
    {"--json", F_JSON, false, "print JSON"},
    {"--csv", F_CSV, false, "print CSV"},
    {"--until", F_UNTIL, true, "current: end once everything committed at the start is visible"},
    {"--timeout", F_TIMEOUT, true, "seconds to wait"},
    {"--verbose", F_VERBOSE, false, "say more"},
    {"--all", F_ALL, false, "also what is left out otherwise: alarms that were acknowledged or have recovered; files that are not due, all below full size or with a deleted row"},
    {"--orphans", F_ORPHANS, false, "list files in the tables' folders that nothing names"},
    {"--older-than", F_OLDER, true, "only those last changed so long ago (3d; h, m, s)"},
    {"--delete", F_DELETE, false, "remove them"},
    {"--from", F_FROM, true, "from this minute on: 2026-11-30T14:05 (UTC), or an age: 2h"},
    {"--to", F_TO, true, "before this minute"},
    {"--test", F_TRY, false, "send a notice to everybody who is to be told, and say what came of it"},
    {"--apply", F_APPLY, false, "do it; without this it is only told"},
    {"--reload", F_RELOAD, false, "read these tables again as a whole"},
    {"--why", F_WHY, true, "a reason for the record"},
    {"--acknowledge", F_ACKNOWLEDGE, true, "an alarm by its id (ledger: also all of a table or of a kind, or all): somebody has looked into it, or cares for it"},
    {"--prometheus", F_PROMETHEUS, false, "print metrics for Prometheus"},
    {"--level", F_LEVEL, true, "structure: definitions only; counts; keys; content: all (default)"},
    {"--method", F_METHOD, true, "rows: they are read (default); pushed: the server sums them up, and only where that differs they are read"},
    {"--hash", F_HASH, true, "fast: XXH3, or CRC32 by the server (default); md5: MD5 in both"},
    {"--html", F_HTML, true, "also a report for browsers, in this file"},
    {"--keys-only", F_KEYS, false, "show keys, not rows"},
    {"--columns", F_COLUMNS, true, "compare only these columns (a,b,c) and the key"},
    {"--sample", F_SAMPLE, true, "compare this share of the keys (5%)"},
    {"--seed", F_SEED, true, "the same sample again"},
    {"--last", F_LAST, true, "only rows not older than this (7d; h, m, s)"},
    {"--time-column", F_TIME, true, "the column that says how old a row is, for --last, or --from and --to"},
    {"--rows-per-second", F_RATE, true, "read the source no faster"},
    {"--max-threads-running", F_THREADS, true, "wait while the source is busier than this"},
    {"--resnapshot", F_RESNAPSHOT, false, "read these tables again (none named: all), beside what readers see"},
    {"--compare-and-repair", F_REPAIR, false, "compare every table with the source and put right what differs"},
    {"--parallel", F_PARALLEL, true, "so many tables side by side (1)"},
    {"--resume", F_RESUME, false, "go on with a comparison that was interrupted: not what it found equal"},
    {"--alarm", F_ALARM, false, "tables that differ become alarms of the ledger, and so does a failure: for who runs unattended"},
    {"--max-replica-lag", F_LAG, true, "wait while the source, itself a replica, is so many seconds behind"},
};
#define NFLAGS ((int)(sizeof flags / sizeof *flags))

/* ------------------------------------------------------------------ help and arguments */
static int usage(FILE *out) {
    fprintf(out, "Weir moves every change of MySQL and MariaDB databases into Apache Iceberg tables.\n\nUsage: weir COMMAND [flags]\n\n");
    for (int i = 0; i < NCOMMANDS; i++) fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].what);
    fprintf(out, "  %-8s %s\n  %-8s %s\n\nweir help COMMAND tells more. Exit codes: 0 fine, 1 failed or different, 2 wrong usage or configuration, 3 undecided, 4 time-out.\n", "version", "print versions", "help", "this text");
    return out == stdout ? EXIT_FINE : EXIT_USAGE;
}

static const command *find_command(const char *name) {
    for (int i = 0; i < NCOMMANDS; i++)
        if (!strcmp(commands[i].name, name)) return &commands[i];
    const char *names[NCOMMANDS + 2];
    for (int i = 0; i < NCOMMANDS; i++) names[i] = commands[i].name;
    names[NCOMMANDS] = "version", names[NCOMMANDS + 1] = "help";
    const char *near = wr_cli_nearest(name, names, NCOMMANDS + 2);
    fprintf(stderr, "weir: there is no command '%s'%s%s%s\n", name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "; weir help lists them");
    return NULL;
}

static int help(const char *name) {
    const command *c = find_command(name);
    if (!c) return EXIT_USAGE;
    printf("weir %s %s\n\n%c%s.\n\n", c->name, c->args, c->what[0] - 32, c->what + 1);
    for (int i = 0; i < NFLAGS; i++)
        if (c->flags & flags[i].bit) printf("  %-21s %s\n", flags[i].name, flags[i].what);
    printf("\nExample:\n  %s\n", c->example);
    return EXIT_FINE;
}

static int wrong_flag(const command *c, const char *arg) {
    const char *names[NFLAGS];
    int n = 0;
    for (int i = 0; i < NFLAGS; i++)
        if (c->flags & flags[i].bit) names[n++] = flags[i].name;
    const char *near = wr_cli_nearest(arg, names, n);
    fprintf(stderr, "weir %s: unknown flag '%s'%s%s%s\n  usage: weir %s %s\n", c->name, arg, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", c->name, c->args);
    return EXIT_USAGE;
}

static int parse(const command *c, int argc, char **argv, wr_args *a) {
    a->timeout_s = -1, a->older_than_us = a->last_us = -1;
    bool words_only = false;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (!words_only && !strcmp(arg, "--")) {
            words_only = true;
            continue;
        }
        if (words_only || arg[0] != '-' || !arg[1]) {
            if (a->nwords >= c->max_words) return fprintf(stderr, "weir %s: '%s' is one argument too many\n  usage: weir %s %s\n", c->name, arg, c->name, c->args), EXIT_USAGE;
            a->words[a->nwords++] = arg;
            continue;
        }
        const flag *f = NULL;
        const char *eq = strncmp(arg, "--", 2) ? NULL : strchr(arg, '=');
        size_t len = eq ? (size_t)(eq - arg) : strlen(arg);
        for (int k = 0; k < NFLAGS; k++)
            if (strlen(flags[k].name) == len && !strncmp(flags[k].name, arg, len)) f = &flags[k];
        if (!f || !(c->flags & f->bit)) return wrong_flag(c, arg);
        const char *v = eq ? eq + 1 : "";
        if (f->takes && !eq && ++i < argc) v = argv[i];
        if (f->takes && i >= argc) return fprintf(stderr, "weir %s: %s needs a value\n", c->name, f->name), EXIT_USAGE;
        if (!f->takes && eq) return fprintf(stderr, "weir %s: %s takes no value\n", c->name, f->name), EXIT_USAGE;
        char *end;
        switch (f->bit) {
        case F_CONFIG: a->config = v; break;
        case F_JSON: a->json = true; break;
        case F_CSV: a->csv = true; break;
        case F_VERBOSE: a->verbose = true; break;
        case F_ALL: a->all = true; break;
        case F_ORPHANS: a->orphans = true; break;
        case F_TRY: a->test = true; break;
        case F_APPLY: a->apply = true; break;
        case F_RELOAD: a->reload = true; break;
        case F_RESNAPSHOT: a->resnapshot = true; break;
        case F_REPAIR: a->compare_and_repair = true; break;
        case F_WHY: a->why = v; break;
        case F_ACKNOWLEDGE: a->acknowledge = v; break;
        case F_PROMETHEUS: a->prometheus = true; break;
        case F_FROM: a->from = v; break;
        case F_TO: a->to = v; break;
        case F_DELETE: a->remove = true; break;
        case F_METHOD: a->method = v; break;
        case F_HASH: a->hash = v; break;
        case F_LEVEL: a->level = v; break;
        case F_HTML: a->html = v; break;
        case F_COLUMNS: a->columns = v; break;
        case F_KEYS: a->keys_only = true; break;
        case F_ALARM: a->alarm = true; break;
        case F_RESUME: a->resume = true; break;
        case F_TIME: a->time_column = v; break;
        case F_SEED: a->has_seed = true; /* fall through */
        case F_RATE:
        case F_THREADS:
        case F_LAG:
        case F_PARALLEL: {
            unsigned long long n = strtoull(v, &end, 10);
            if (v[0] < '0' || v[0] > '9' || *end || (f->bit != F_SEED && (n == 0 || n > 1000000000))) return fprintf(stderr, "weir %s: %s takes a number, not '%s'\n", c->name, f->name, v), EXIT_USAGE;
            if (f->bit == F_SEED) a->seed = n;
            else if (f->bit == F_RATE) a->rows_per_second = n;
            else *(f->bit == F_THREADS ? &a->max_threads_running : f->bit == F_LAG ? &a->max_replica_lag_s : &a->parallel) = (int)n;
            break;
        }
        case F_SAMPLE:
            a->sample = strtod(v, &end) / 100;
            if (end == v || strcmp(end, "%") || !(a->sample > 0 && a->sample <= 1)) return fprintf(stderr, "weir %s: --sample takes a share such as 5%%, not '%s'\n", c->name, v), EXIT_USAGE;
            break;
        case F_LAST:
            a->last_us = wr_cli_age(v);
            if (a->last_us < 0) return fprintf(stderr, "weir %s: --last takes an age such as 7d, 12h, 30m or 10s, not '%s'\n", c->name, v), EXIT_USAGE;
            break;
        case F_OLDER:
            a->older_than_us = wr_cli_age(v);
            if (a->older_than_us < 0) return fprintf(stderr, "weir %s: --older-than takes an age such as 3d, 12h, 30m or 10s, not '%s'\n", c->name, v), EXIT_USAGE;
            break;
        case F_UNTIL:
            if (strcmp(v, "current")) return fprintf(stderr, "weir %s: --until takes 'current', not '%s'\n", c->name, v), EXIT_USAGE;
            a->until_current = true;
            break;
        case F_TIMEOUT:
            a->timeout_s = strtod(v, &end);
            if (end == v || *end || a->timeout_s < 0) return fprintf(stderr, "weir %s: --timeout takes seconds, not '%s'\n", c->name, v), EXIT_USAGE;
            break;
        }
    }
    if (!a->config) return fprintf(stderr, "weir %s: -c FILE is missing\n  usage: weir %s %s\n", c->name, c->name, c->args), EXIT_USAGE;
    if (a->nwords < c->min_words) return fprintf(stderr, "weir %s: an argument is missing\n  usage: weir %s %s\n", c->name, c->name, c->args), EXIT_USAGE;
    return EXIT_FINE;
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN);
    umask(077);                /* whatever is written here holds the source's data */
    if (!getenv("WEIR_CORE")) prctl(PR_SET_DUMPABLE, 0); /* a core dump would hold the source's password, and so would /proc/PID/environ */
    if (argc < 2) return usage(stderr);
    const char *name = argv[1];
    if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h")) return argc > 2 ? help(argv[2]) : usage(stdout);
    if (!strcmp(name, "version") || !strcmp(name, "--version")) {
        printf("weir %s (DuckDB %s)\n", WEIR_VERSION, wr_engine_version());
        return EXIT_FINE;
    }
    const command *c = find_command(name);
    if (!c) return EXIT_USAGE;
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return help(name);
    wr_args a = {0};
    int rc = parse(c, argc - 2, argv + 2, &a);
    return rc ? rc : c->run(&a);
}
