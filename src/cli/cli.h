/* The weir command. Private to cli. */
#ifndef WEIR_CLI_H
#define WEIR_CLI_H

#include <stdbool.h>
#include "weir/base/err.h"
#include "weir/pipeline.h"

/* Exit codes, the same for every command (docs/cli.md). */
enum { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_UNDECIDED = 3, EXIT_TIMEOUT = 4 };

typedef struct wr_config wr_config;
/* Reads and understands a weir.yaml. Relative paths are relative to the file's folder. Messages name file, line and key. Secrets that are needed are fetched from where
 * the file says. */
typedef enum wr_need { WR_NEED_NOTHING = 0, WR_NEED_SOURCE = 1, WR_NEED_LAKE = 2, WR_NEED_ALL = 3, WR_NEED_ALARMS = 4 } wr_need; /* whose secrets are fetched */
wr_code wr_config_load(const char *path, wr_need need, wr_config **ret_config, wr_err *err);
/* From memory, for the fuzzer; nothing outside is touched. */
wr_code wr_config_parse(const char *text, size_t n, const char *path, wr_config **ret_config, wr_err *err);
void wr_config_free(wr_config *c);
/* Whether the i-th secret's file may be read or written by everybody; then `what` says so. */
enum { WR_CONFIG_SECRETS = 6 };
bool wr_config_exposed(const wr_config *c, int i, char what[512]);
const wr_pipeline_options *wr_config_options(const wr_config *c);

/* Comparisons that a sync runs by itself, and what every command must know of them. */
enum { WR_WORDS_MAX = 64 };
typedef struct wr_config_compare {
    const char *schedule;     /* NULL = none */
    int level, method, hash;  /* as weir.yaml's choices: content, keys, counts, structure; rows, pushed; fast, md5 */
    const char *const *tables; int ntables; /* at most WR_WORDS_MAX */
} wr_config_compare;
const wr_config_compare *wr_config_compare_of(const wr_config *c);

typedef struct wr_args {
    const char *config;       /* -c */
    bool json, until_current, verbose, csv, all, orphans, remove, prometheus;
    const char *from, *to;    /* minutes; NULL: not given */
    int64_t older_than_us;    /* < 0: none given */
    double timeout_s;         /* < 0: none given */
    bool test;                /* alarms */
    const char *acknowledge;  /* ledger, alarms; NULL: not given */
    bool apply, reload;       /* repair */
    const char *why;
    bool resnapshot, compare_and_repair; /* resume */
    /* compare */
    const char *method, *hash, *level, *html, *columns, *time_column; /* NULL: none given */
    bool keys_only, has_seed, resume, alarm;
    double sample;            /* 0: none given */
    uint64_t seed, rows_per_second;
    int64_t last_us;          /* < 0: none given */
    int max_threads_running, max_replica_lag_s, parallel;
    const char *words[WR_WORDS_MAX]; int nwords;
} wr_args;

int wr_cmd_check(const wr_args *a);
int wr_cmd_sync(const wr_args *a);
int wr_cmd_wait(const wr_args *a);
int wr_cmd_status(const wr_args *a);
int wr_cmd_tables(const wr_args *a);
int wr_cmd_sql(const wr_args *a);
int wr_cmd_optimize(const wr_args *a);
int wr_cmd_ledger(const wr_args *a);
int wr_cmd_compare(const wr_args *a);
int wr_cmd_repair(const wr_args *a);
int wr_cmd_alarms(const wr_args *a);
int wr_cmd_resume(const wr_args *a);

/* "weir: message" and the way out to standard error; returns EXIT_FAILED, EXIT_USAGE for WR_E_CONFIG and WR_E_INVAL. */
int wr_cli_fail(const wr_err *err);
bool wr_cli_colour(int fd);   /* a terminal, and NO_COLOR is not set */
/* The one of `names` nearest to `word` (Damerau-Levenshtein), NULL when none is near. */
const char *wr_cli_nearest(const char *word, const char *const *names, int n);
/* "3d", "12h", "30m", "10s" in microseconds; -1: it is none. */
int64_t wr_cli_age(const char *text);
/* "2026-11-30T14:05" or "2026-11-30" (UTC), or how long ago: "2h". Minutes since 1970. WR_E_INVAL names the flag. */
wr_code wr_cli_minute(const char *flag, const char *text, int64_t *ret_minute, wr_err *err);
char *wr_cli_bytes(double bytes, char buf[32]); /* "1.2 GB" */

#endif
