/* One pipeline: the only place where source, queue, transform and lake meet. Capture runs on a thread of its own and fills the queue; the
 * calling thread takes transactions out of it and applies them to the lake; loads run on worker threads while the calling thread waits.
 * ARCHITECTURE.md, "The life of one change".
 */
#ifndef WEIR_PIPELINE_H
#define WEIR_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/alarm.h"
#include "weir/base/err.h"
#include "weir/compare.h"
#include "weir/lake.h"
#include "weir/layout.h"
#include "weir/model.h"
#include "weir/queue.h"
#include "weir/source.h"
#include "weir/transform.h"

typedef enum wr_on_drop { WR_ON_DROP_KEEP = 0, WR_ON_DROP_MIRROR } wr_on_drop;
typedef enum wr_on_type { WR_ON_TYPE_EVOLVE = 0, WR_ON_TYPE_LENIENT, WR_ON_TYPE_STOP } wr_on_type;
typedef enum wr_on_rowless { WR_ON_ROWLESS_RESNAPSHOT = 0, WR_ON_ROWLESS_STOP } wr_on_rowless;

/* When something is an alarm, and who is told. Zero is the default of each. */
typedef struct wr_watch_options {
    int64_t stalled_us;             /* 5 min: a thread that has not moved */
    int64_t silent_us;              /* 1 min: nothing came from the source, not even a heartbeat; the lake has refused commits */
    int64_t lag_warning_us, lag_critical_us;           /* 5 min, 1 h */
    uint64_t disk_warning_bytes, disk_critical_bytes;  /* 5 GB, 1 GB: free, at home and at a local warehouse */
    int restarts;                   /* 3: runs that ended by failure */
    int64_t restarts_within_us;     /* 10 min */
    int64_t recovery_us;            /* wr_alarms_options */
    const wr_alarm_sink *sinks; int nsinks;
} wr_watch_options;

/* weir.yaml, understood. Everything is owned by whoever made it and must outlive the pipeline. */
typedef struct wr_pipeline_options {
    const char *name, *home;        /* home: absolute */
    wr_source_options source;
    const wr_merge_rule *merge; int nmerge;
    wr_rules_options transform;
    wr_on_drop on_drop;
    wr_on_type on_type;
    wr_on_rowless on_rowless;
    bool visible_early;             /* snapshot.visible: early */
    int snapshot_parallel;          /* 0 = 2 */
    wr_queue_options queue;
    const char *warehouse;          /* absolute, or s3://; NULL = home/warehouse */
    const wr_s3_options *s3;        /* NULL: files of this machine only */
    uint64_t cache_bytes;           /* wr_store_options */
    const wr_rest_options *rest;    /* NULL: home/catalog.db is the catalog */
    int format_version;             /* 0 = 3 */
    const wr_layout_rule *layout; int nlayout;
    int64_t commit_every_us;        /* 0 = 10 s */
    int64_t inspect_every_us;       /* 0 = 60 s */
    uint64_t commit_bytes;          /* 0 = 128 MB */
    wr_watch_options watch;
} wr_pipeline_options;

typedef struct wr_pipeline wr_pipeline;

/* In memory alone; nothing is touched yet. */
wr_code wr_pipeline_new(const wr_pipeline_options *opts, wr_pipeline **ret_pipeline, wr_err *err);
/* Opens everything below home and the source, and checks that they belong together. WR_E_BUSY when another process runs it. TO_RUN: status and alarms say why it failed. */
typedef enum wr_open_purpose { WR_OPEN_TO_RUN = 0, WR_OPEN_TO_LOOK } wr_open_purpose;
wr_code wr_pipeline_open(wr_pipeline *p, wr_open_purpose what_for, wr_err *err);
void wr_pipeline_close(wr_pipeline *p); /* opened or not */

/* The store that the pipeline's tables are in; its cache is below home. */
wr_code wr_pipeline_store(const wr_pipeline_options *opts, wr_store **ret_store, wr_err *err);

/* What wr_source_check finds, and whether the rules fit the tables: `weir check`. */
wr_code wr_pipeline_check(const wr_pipeline_options *opts, void (*fn)(void *ctx, const wr_finding *f), void *ctx, wr_err *err);

/* Looking after the lake while no sync runs (WR_E_BUSY when one does: it does that by itself): small and mostly deleted files of these tables (none named: of all),
 * and their old snapshots. Or, with orphans: files in the folders of tables that nothing names. `weir optimize`. */
typedef struct wr_optimize {
    const char *const *tables; int ntables; /* "name" or "namespace.name" */
    bool all;                               /* also what is not due: wr_table_optimize */
    bool orphans, remove;                   /* remove them, too */
    int64_t older_than_us;                  /* orphans */
    void (*table)(void *ctx, const wr_table_health *before, const wr_table_health *after, int jobs, int expiries);
    void (*orphan)(void *ctx, const char *path, uint64_t bytes, int64_t modified_us);
    void *ctx;
} wr_optimize;
wr_code wr_pipeline_optimize(const wr_pipeline_options *opts, const wr_optimize *what, wr_err *err);

/* Source and lake side by side, whether a sync runs meanwhile or not: `weir compare`. Reads only. What the lake holds at one position is compared with what the source had
 * at exactly that position, so that neither what has not arrived yet nor what changes meanwhile is a difference. */
typedef enum wr_compare_level { WR_COMPARE_CONTENT = 0, WR_COMPARE_COUNTS, WR_COMPARE_STRUCTURE } wr_compare_level;
typedef enum wr_compare_method { WR_COMPARE_ROWS = 0, WR_COMPARE_PUSHED } wr_compare_method;
typedef enum wr_compare_hash { WR_COMPARE_FAST = 0 /* XXH3 here, CRC32 by the server */, WR_COMPARE_MD5 } wr_compare_hash;
typedef struct wr_compare {
    const char *const *tables; int ntables; /* anchored patterns on "ns.name" of the lake; none: all */
    wr_compare_level level;
    wr_compare_method method;
    wr_compare_hash hash;
    double sample;                  /* share of the keys, 0 = all; which, says the seed */
    uint64_t seed;
    const char *const *columns; int ncolumns; /* of the lake, that are compared besides the keys; NULL: all, none: only keys */
    const char *time_column;        /* only rows with since_us <= time in this column < until_us; NULL = all rows */
    int64_t since_us, until_us;
    uint64_t rows_shown;            /* differing rows of each table that the report holds; 0 = 100,000 */
    int parallel;                   /* tables side by side; 0 = 1 */
    int patience_s;                 /* for a table that is being loaded or altered, before it is undecided; 0 = 30 */
    bool resume;                    /* what an interrupted run of the same options had read of tables is not read again */
    const struct wr_compared *done; int ndone; /* what an interrupted run found equal: not looked at again */
    bool (*gave_up)(void *ctx);     /* asked now and then; true: WR_E_CANCELLED. NULL = never */
    void (*source)(void *ctx, wr_source *s); /* the source as the comparison has opened it, which another thread may cut; NULL: not any more. NULL = not wanted */
    void (*progress)(void *ctx, const char *table, uint64_t rows, uint64_t estimated);
    void (*checkpoint)(void *ctx, const wr_compare_report *so_far); /* some tables are decided, others are not yet. NULL = not wanted */
    void *ctx;
} wr_compare;
typedef struct wr_compared { const char *ns, *name, *position, *method; uint64_t source_rows, lake_rows, offset; int64_t snapshot; } wr_compared;
/* WR_E_INVAL for what `what` says, WR_E_NOTFOUND when a pattern names no table. Otherwise an error is one of connections and disks; what cannot be decided of a table is in
 * its report. */
wr_code wr_pipeline_compare(const wr_pipeline_options *opts, const wr_compare *what, wr_compare_report *ret_report, wr_err *err);

/* What a comparison found is put right, by the lake's own writer: by the sync that runs in this home, at a moment when it has caught up, or by this call when none does. Rows: they are
 * read again from the source by their keys, so that what is written is what the source has now, and go into the lake in one commit, in order with the stream. Reload: the table is
 * read again beside what main shows, as after a change without row events. `weir repair`. */
typedef struct wr_repair_table {
    const char *ns, *name;     /* of the lake */
    bool reload;
    const char *const *keys;   /* [nkeys * ncolumns] texts as wr_value_print writes them, in the order of the lake table's key */
    int nkeys, ncolumns;
    uint64_t left_out;         /* differences that the report this came from counted and does not hold */
} wr_repair_table;
/* From a report of a comparison: every table that it found DIFFERENT, by rows where they can be found by a key and nothing else is wrong with the table. */
typedef struct wr_repair_plan { wr_repair_table *tables; int n; struct cJSON *doc; /* what the tables' texts point into */ } wr_repair_plan;
wr_code wr_repair_plan_read(const char *path, wr_repair_plan **ret_plan, wr_err *err);
void wr_repair_plan_free(wr_repair_plan *p); /* NULL is fine */
typedef struct wr_repair {
    const wr_repair_table *tables; int ntables;
    const char *report, *why;  /* for the record: which report, and the user's reason; may be NULL */
    double timeout_s;          /* for the sync that runs elsewhere to do it; 0 = 600 */
} wr_repair;
/* *ret_record: the record that is kept in home/repair, JSON (docs/formats/repair.md), owned. WR_E_TIMEOUT: it is still asked for, and will be done. A table that is refused is no error: the
 * record says so. */
wr_code wr_pipeline_repair(const wr_pipeline_options *opts, const wr_repair *what, char **ret_record, wr_err *err);

/* "user@host, process 4711": who asks, for records. */
char *wr_pipeline_who(char buf[512]);
/* Gaps of the source's log: `weir resume`. Looking changes nothing; WR_E_BUSY when a sync runs, which would have ended at a gap. */
typedef struct wr_gap_table {
    char *source, *lake;       /* "db.table", "ns.name" */
    uint64_t rows;             /* as the server estimates */
    bool keyed, changed, gone; /* changed: the server has another definition; gone: no such table */
} wr_gap_table;
typedef struct wr_gap_report { /* owned: wr_gap_report_clear */
    bool gap;                  /* the server cannot go on from `missing` */
    bool failed;               /* no gap, but the last run ended with an error that waiting does not cure */
    bool asked, under_way;     /* a resume is asked for; one has begun and some tables are not proven yet */
    char why[1024];
    char id[64];               /* of the last resume, "" = there was none */
    wr_pos missing;            /* where capture would go on */
    wr_source_logs logs;
    wr_gap_table *tables; int ntables;
} wr_gap_report;
wr_code wr_pipeline_look_for_gap(const wr_pipeline_options *opts, wr_gap_report *ret_report, wr_err *err);
void wr_gap_report_clear(wr_gap_report *r);

/* Asks for it, and runs the pipeline until all of it is done and current. After a kill at any point the next run of the pipeline goes on. */
typedef enum wr_resume_way { WR_RESUME_RESNAPSHOT, WR_RESUME_COMPARE } wr_resume_way;
typedef struct wr_resume {
    wr_resume_way way;
    const char *const *tables; int ntables; /* resnapshot: lake tables "ns.name" that are read again; all others are compared. None: all are read again */
    const char *go_on;         /* nothing new: the resume of this id, which is under way; NULL = a new one */
    const char *reason, *why;  /* for the record: what the gap was, the user's reason; may be NULL */
} wr_resume;
/* *ret_record: docs/formats/repair.md, JSON, owned. */
wr_code wr_pipeline_resume(const wr_pipeline_options *opts, const wr_resume *what, char **ret_record, wr_err *err);

typedef enum wr_run_mode { WR_RUN_FOREVER = 0, WR_RUN_UNTIL_CURRENT } wr_run_mode;
/* Runs until wr_pipeline_stop (WR_OK, after finishing the commit in hand), until everything that was committed in the source when the run began
 * is visible (WR_RUN_UNTIL_CURRENT), or until an error that waiting does not cure. */
wr_code wr_pipeline_run(wr_pipeline *p, wr_run_mode mode, wr_err *err);
/* true: wr_pipeline_run ends soon, after the commit in hand, and waits for no server longer than connecting to it takes. false: there is no commit in hand, as p is still opening, recovering, or on its way to another
 * server; status and alarms know that this run is over, and the process may end at once, whatever its other threads wait for. @thread any other; p is not being closed */
bool wr_pipeline_stop(wr_pipeline *p);

/* ------------------------------------------------------------------ status */
typedef enum wr_table_state { WR_TABLE_LOADING = 1, WR_TABLE_REPLAYING, WR_TABLE_STREAMING, WR_TABLE_WAITING /* for a schema change further on in the stream */ } wr_table_state;
typedef struct wr_pipeline_status {
    const char *state;              /* "starting" | "loading" | "streaming" | "silent" | "reconnecting" | "stopped" | "failed" */
    int tables, tables_loading, tables_waiting;
    uint64_t rows_loaded, rows_estimated;   /* of the present loads */
    uint64_t rows_applied, bytes_captured;  /* since start */
    uint64_t queue_last, queue_committed;   /* offsets */
    int64_t lag_us;                 /* age of the newest committed change while there are newer ones, else 0 */
    int64_t committed_us;           /* time of the last commit */
    int64_t silent_us;              /* for how long the source has sent nothing at all, 0 = it answers, or is not being listened to */
    uint64_t anomalies;
} wr_pipeline_status;
void wr_pipeline_get_status(wr_pipeline *p, wr_pipeline_status *ret_status); /* @thread any */

/* home/status.json, kept current while the pipeline runs (docs/formats/status.md). `running` is found out by the lock, not believed. */
typedef struct wr_status_file {
    bool running;
    char state[24];
    char *json;                     /* the whole document, owned */
    wr_pos committed;               /* owned */
    wr_pos captured;                /* owned */
    int64_t captured_us;            /* the source's time of what was captured last, or our time if that was all there was; 0 = not known */
    int busy_tables;                /* not yet visible at their committed position: loading, replaying, waiting */
    int64_t stale_ms;               /* it runs, and has not written its status for so long; 0 = it has */
    char error[1024], cure[512];    /* also that, and why it cannot */
} wr_status_file;
wr_code wr_status_read(const char *home, wr_status_file *ret_status, wr_err *err); /* WR_E_NOTFOUND: never ran */
void wr_status_clear(wr_status_file *s);
/* The server that the sync follows. *ret_identity: owned. WR_E_NOTFOUND: it does not say. */
wr_code wr_status_followed(const wr_status_file *s, char **ret_identity, uint32_t *ret_epoch, wr_err *err);
bool wr_status_running(const char *home); /* a sync runs there */

#endif
