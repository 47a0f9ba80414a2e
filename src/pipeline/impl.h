/* What the parts of a pipeline share. Private. */
#ifndef WEIR_PIPELINE_IMPL_H
#define WEIR_PIPELINE_IMPL_H

#include <pthread.h>
#include "weir/base/map.h"
#include "weir/io.h"
#include "weir/pipeline.h"
#include "weir/state.h"

typedef enum phase {
    PHASE_STREAM, /* main is exact at every commit */
    PHASE_LOAD,   /* rows are being read from the source; the reader of the queue waits */
    PHASE_REPLAY, /* changes made during the load are applied as upserts until `until` */
    PHASE_WAIT,   /* the source's table differs from the definition at the queue's position: the next DDL in the queue starts a load */
} phase;

/* A part of a member's key space, read by one worker. */
typedef struct range {
    char *after;  /* everything up to here is in sealed files; NULL = from the beginning */
    char *upto;   /* NULL = to the end */
    bool done;
} range;

/* A source table. */
typedef struct member {
    uint32_t id;
    char *db, *name, *def;
    wr_schema *schema;
    struct target *target;
    wr_convert *convert;      /* NULL = rows go as they are */
    range *ranges; int nranges;
    wr_pos until;             /* keyed: the load is complete for changes up to here; exact (no key): it is the load's position */
    bool hides_changes;       /* a foreign key may change its rows without row events */
    bool exact;               /* loaded as of exactly `until`: changes up to it are skipped */
    uint64_t rows_loaded, rows_estimated; /* atomic */
    int64_t load_us;          /* atomic: what the workers of the present or last load spent on it, all together */
} member;

/* A lake table and the source tables whose rows it takes: one, or the shards of a merge rule. */
typedef struct target {
    uint32_t id;
    char *ns, *name;
    bool merged;
    wr_table *table;
    phase phase;
    member **members; int nmembers;
    int64_t load_committed_us; /* monotonic */
    wr_pos from;               /* everything up to here was visible before the load read its first row; "" = not known */
    bool due;                  /* rows changed without row events behind all that was loaded: to be read again. Kept in the state as well, written before the
                                * commit that passes the cause */
    wr_pos due_pos;            /* the end of the transaction before the first cause; "" = an earlier run's */
    bool due_begun;            /* its load begins with the next commit: then the state forgets */
    int64_t next_load_us;      /* monotonic; no load because of `due` before this */
} target;

struct wr_pipeline {
    wr_pipeline_options o;
    char *home, *warehouse;
    wr_lock *lock;
    wr_state *state;
    wr_queue *queue;
    wr_engine *engine;
    wr_source *source;
    wr_routes *routes;
    volatile bool stop;        /* asked to end */

    /* applying thread */
    wr_lake *lake;
    wr_u64map *members;        /* by source table id */
    target **targets; int ntargets;
    uint64_t offset;           /* last transaction read whole */
    wr_pos pos;                /* its end */
    int64_t event_us;
    bool in_tx;                /* records of an unfinished transaction were applied */
    bool load_wanted;          /* a target entered PHASE_LOAD in this transaction */
    int64_t next_commit_us;    /* monotonic */
    wr_buf row;                /* conversion scratch */
    wr_buf row2;
    uint64_t peek_offset; wr_pos peek_pos; /* end of a transaction looked up ahead */

    /* loads: workers against the waiting applying thread */
    pthread_mutex_t progress_lock; /* guards the ranges of members: files handed over and cursor moved, or both committed */

    /* capture thread */
    pthread_t capture_thread;
    bool capture_started;
    wr_buf enc;
    uint32_t ddl_seq;          /* DDL events in the open transaction */
    bool patterns_checked;
    wr_pos join_at;            /* tables that new patterns name join here; "" = nobody */

    /* shared */
    pthread_mutex_t lock_mu;   /* guards everything below */
    pthread_cond_t wake;
    bool capture_ended;
    bool reconnecting;
    bool joining;              /* what other patterns bring may not be in the queue yet */
    uint64_t join_offset;      /* the last transaction that brought some of it */
    wr_err capture_err;        /* why capture ended, or what it retries */
    wr_err apply_err;
    uint64_t committed_offset;
    wr_pos committed;
    int64_t committed_event_us, committed_at_us;
    const char *run_state;
    uint64_t rows_applied;     /* atomic */
    uint64_t anomalies;
    uint64_t load_rows, load_estimate; /* atomic: of the present or last loads */
    char *tables_json;         /* of the last commit or phase change; owned */
    pthread_t status_thread;
    bool status_started, status_stop;
};

/* capture.c */
wr_code wr_capture_start(wr_pipeline *p, const wr_pos *from, wr_err *err);
void wr_capture_join(wr_pipeline *p);
wr_code wr_capture_restore(wr_pipeline *p, uint64_t last, wr_err *err); /* the source's catalogue as of this queue offset */

/* apply.c */
wr_code wr_apply_open(wr_pipeline *p, wr_err *err);   /* lake, members and targets as of the lake's offset */
void wr_apply_close(wr_pipeline *p);
wr_code wr_apply_run(wr_pipeline *p, const wr_pos *until, wr_err *err);
wr_code wr_apply_commit(wr_pipeline *p, wr_err *err);
member *wr_member_new(wr_pipeline *p, const wr_ddl *d, wr_err *err);
wr_code wr_target_bind(wr_pipeline *p, target *t, wr_err *err); /* row conversions of a merged target for its present schema */

/* load.c */
wr_code wr_load_run(wr_pipeline *p, wr_err *err);     /* every target in PHASE_LOAD, to PHASE_REPLAY or PHASE_WAIT */
wr_code wr_load_info(const target *t, char **ret_json, wr_err *err);
wr_code wr_load_parse(target *t, const char *json, wr_err *err);
void wr_member_reset_load(member *m);
wr_code wr_load_begin(wr_pipeline *p, target *t, const wr_schema *schema, phase to, wr_err *err);

/* status.c */
wr_code wr_status_start(wr_pipeline *p, wr_err *err);
void wr_status_stop(wr_pipeline *p);
void wr_status_tables(wr_pipeline *p); /* applying thread: what the status shows of each table */
void wr_status_write(wr_pipeline *p);

#endif
