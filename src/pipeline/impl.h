/* What the parts of a pipeline share. Private. */
#ifndef WEIR_PIPELINE_IMPL_H
#define WEIR_PIPELINE_IMPL_H

#include <pthread.h>
#include "followed.h"
#include "weir/base/map.h"
#include "weir/io.h"
#include "weir/ledger.h"
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
    wr_schema *schema;        /* of the source's rows */
    wr_transform *transform;  /* NULL: no rule matches */
    wr_schema *shape;         /* of what rules make of them: schema itself without */
    char mark[17];            /* of the rules that shape was made with */
    bool mark_dirty;          /* not known to be in the state yet */
    bool rules_changed;       /* the lake's rows were made with others: to be read again */
    bool rules_wait;          /* they fit a schema further on in the queue only */
    uint64_t nulled;          /* atomic; values of loads that became null because an expression failed */
    struct gathered *gathered; uint32_t ngathered, gathered_cap; /* changes that wait for the transform */
    wr_buf gathered_rows;
    struct target *target;
    wr_convert *convert;      /* of shape to the merged table's schema; NULL = rows go as they are */
    range *ranges; int nranges;
    wr_pos until;             /* keyed: the load is complete for changes up to here; exact (no key): it is the load's position */
    bool hides_changes;       /* a foreign key may change its rows without row events */
    bool exact;               /* loaded as of exactly `until`: changes up to it are skipped */
    bool load_refused;        /* progress_lock; some of the load's rows are dead letters, which are committed only at its end: it cannot go on from its middle */
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
    uint32_t epoch;            /* with a load: of the server that its rows are read from */
    wr_pos from;               /* everything up to here was visible before the load read its first row; "" = not known */
    bool due;                  /* rows changed without row events behind all that was loaded: to be read again. Kept in the state as well, written before the
                                * commit that passes the cause */
    wr_pos due_pos;            /* the end of the transaction before the first cause; "" = an earlier run's */
    bool due_begun;            /* its load begins with the next commit: then the state forgets */
    int64_t next_load_us;      /* monotonic; no load because of `due` before this */
    bool repaired;             /* some of its rows are newer than the stream, until that has come to the repair's end */
    bool uneven;               /* some of what it has taken since the last commit is not in the ledger as its own */
    bool unproven;             /* there was a gap in front of some of what was applied to it; a comparison or a load has not shown yet that it is what the source has. Kept in the state, as `due` is */
    bool unproven_noted;       /* the state says so */
    wr_pos overdue;            /* in PHASE_WAIT: what it waits for is not behind this; "" = not known */
    char awaited[256];         /* why it waits */
    bool reread;               /* opened with rows that must be read again: before anything is applied */
} target;

/* Long-lived threads that must move. Each counts up while it does. */
typedef enum beat { BEAT_CAPTURE, BEAT_APPLY, BEAT_LEDGER, BEATS } beat;

struct wr_pipeline {
    wr_pipeline_options o;
    char *home, *warehouse;
    wr_lock *lock;
    wr_state *state;
    wr_queue *queue;
    wr_engine *engine;
    wr_store *store;
    wr_source *source;
    wr_routes *routes;
    wr_rules *rules;
    wr_ledger *ledger;         /* NULL until the lake is open */
    wr_alarms *alarms;         /* NULL: there is no memory for them */
    bool failed;               /* the alarms know */
    bool at_work;              /* lock_mu; between recovery and the end of what was in hand: a stop must wait */
    bool left;                 /* lock_mu; it was over before it was at work, and that has been told */
    bool loading;              /* lock_mu; the applying thread waits for load workers */
    pthread_mutex_t status_lock; /* one writes status.json */
    uint64_t beats[BEATS];     /* atomic */
    _Atomic bool stop;         /* everything winds down: asked to end, or */
    _Atomic bool asked, moving; /* to end; to go on at another server of the source */
    pthread_mutex_t open_lock; /* recursive; guards what `moving` closes and opens again (queue, source, ledger) against those who only look */

    /* applying thread */
    wr_lake *lake;
    wr_u64map *members;        /* by source table id */
    target **targets; int ntargets;
    uint64_t offset;           /* last transaction read whole */
    wr_pos pos;                /* its end */
    int64_t event_us;
    bool in_tx;                /* records of an unfinished transaction were applied */
    bool tx_has_ddl;           /* among them a schema event */
    bool load_wanted;          /* a target entered PHASE_LOAD in this transaction */
    int64_t next_commit_us;    /* monotonic */
    wr_buf row;                /* conversion scratch */
    wr_buf row2;
    size_t gathered_bytes;     /* of all members */
    wr_table *dead_letters;    /* NULL: not met yet */
    struct repair *repair;     /* under way; NULL = none */
    int64_t repair_look_us;    /* monotonic; when to look for one again */
    uint64_t peek_offset; wr_pos peek_pos; /* end of a transaction looked up ahead */

    struct cJSON *gap;         /* the gap in front of the transaction at hand; NULL = none */
    uint64_t gap_offset;       /* of the last transaction in the queue that has one in front, 0 = none: positions before and behind it cannot be compared */
    bool gap_open;             /* its record is not finished */

    /* loads: workers against the waiting applying thread */
    pthread_mutex_t progress_lock; /* guards the ranges of members: files handed over and cursor moved, or both committed */

    /* ledger thread */
    int64_t retention_at_us;   /* monotonic; when to ask again */
    int retention_level;       /* of the last warning */

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
    bool verified;             /* the server has gone on from where the queue ended */
    bool joining;              /* what other patterns bring may not be in the queue yet */
    uint64_t join_offset;      /* the last transaction that brought some of it */
    wr_err capture_err;        /* why capture ended, or what it retries */
    wr_err apply_err;
    uint64_t committed_offset;
    wr_pos committed;
    int64_t committed_event_us, committed_at_us;
    const char *run_state;
    uint64_t rows_applied;     /* atomic */
    uint64_t anomalies, dead_letter_rows;
    uint64_t load_rows, load_estimate; /* atomic: of the present or last loads */
    struct cJSON *decisions;   /* of policies: decisions.c; applying thread */
    char *decisions_json;      /* the same for the status; owned */
    char *tables_json;         /* of the last commit or phase change; owned */
    struct retention {         /* of the source's log, as last asked */
        int64_t keep_s, behind_s, captured_us;
        uint64_t keep_bytes, bytes, behind_bytes;
        char warning[300];     /* "" = none */
    } retention;
    char **unproven; int nunproven;   /* lake tables to be compared, "ns.name"; owned */
    char **proven; int nproven;       /* those that were found equal; owned */
    uint32_t gaps_crossed;            /* what was found before the last one does not count */
    pthread_t prove_thread;
    bool prove_started, prove_stop;
    wr_source *prove_source;          /* that its comparison reads from; NULL = none runs */
    pthread_t status_thread;
    bool status_started, status_stop;
    char *findings_json;       /* of the last inspection; owned */
    pthread_t inspect_thread;
    bool inspect_started, inspect_stop;
    pthread_t account_thread[2];
    int account_threads;       /* that run */
    bool account_stop;
    uint64_t account_from;     /* queue offset at which this run began, or went back to; atomic */
    pthread_t watch_thread;
    bool watch_started, watch_stop;
};

/* pipeline.c: the run goes on at another server of the source. @thread any */
void wr_pipeline_move(wr_pipeline *p);
void wr_pipeline_join(wr_pipeline *p, pthread_t thread, bool *started, bool *stop); /* sets *stop under lock_mu, wakes everybody and waits for the thread, if it was started; then both are false */

/* capture.c */
wr_code wr_capture_start(wr_pipeline *p, const wr_pos *from, wr_err *err);
void wr_capture_join(wr_pipeline *p);
wr_code wr_capture_rebase(wr_pipeline *p, const struct cJSON *request, wr_pos *ret_at, wr_err *err); /* before it starts: the queue goes on at *ret_at, behind a gap */
wr_code wr_capture_probe(wr_pipeline *p, const wr_pos *from, wr_err *err); /* WR_E_GAP: the server cannot go on from there. Without a capture thread */
wr_code wr_capture_restore(wr_pipeline *p, uint64_t last, wr_err *err); /* the source's catalogue as of this queue offset */

/* apply.c */
wr_code wr_apply_open(wr_pipeline *p, wr_err *err);   /* lake, members and targets as of the lake's offset */
void wr_apply_close(wr_pipeline *p);
wr_code wr_apply_run(wr_pipeline *p, const wr_pos *until, wr_err *err);
wr_code wr_apply_commit(wr_pipeline *p, wr_err *err);
wr_code wr_apply_due(wr_pipeline *p, target *t, wr_err *err); /* the table is read again, soon */
wr_code wr_apply_proven(wr_pipeline *p, wr_err *err); /* the state learns which tables are not unproven any more: by a load that a commit began, or by a comparison */
wr_code wr_target_bind(wr_pipeline *p, target *t, wr_err *err); /* row conversions of a merged target for its present schema */

/* shape.c: everything @thread applying but wr_shaper */
wr_code wr_member_shape(wr_pipeline *p, member *m, wr_err *err); /* for its present name and schema; WR_E_CONFIG: the rules do not fit them, nothing has changed */
void wr_member_unshape(member *m);
/* A change of a member's rows on its way to the lake; it may wait until wr_shape_flush, in front of whatever is not a change. */
wr_code wr_shape_change(wr_pipeline *p, member *m, wr_apply_mode mode, const wr_change *c, uint64_t offset, wr_err *err);
wr_code wr_shape_flush(wr_pipeline *p, wr_err *err);
wr_code wr_shape_forget_refused(wr_pipeline *p, const member *m, wr_err *err); /* the rows they were are read again, or gone */
wr_table *wr_shape_dead_letters(wr_pipeline *p); /* NULL: no row was ever refused */
wr_code wr_shape_is_new(wr_pipeline *p, const member *m, bool *ret_new, wr_err *err); /* other rules than those of the state */
wr_code wr_shape_disown(wr_pipeline *p, wr_err *err); /* before that commit: whatever happens, the state does not name rules that are not the rows' any more */
wr_code wr_shape_remember(wr_pipeline *p, wr_err *err); /* marks into the state, after the commit that made them true */
/* The same for rows of a snapshot. @thread one each */
typedef struct wr_shaper {
    wr_pipeline *p;
    member *m;
    wr_load_writer *w;
    wr_transform *transform;
    wr_buf rows, conv;
    size_t *ends; uint32_t n;
} wr_shaper;
wr_code wr_shaper_init(wr_shaper *s, wr_pipeline *p, member *m, wr_load_writer *w, wr_err *err);
void wr_shaper_clear(wr_shaper *s);
wr_code wr_shaper_again(wr_shaper *s, wr_err *err); /* the member is read from its beginning: what an attempt before this one refused is forgotten */
wr_code wr_shaper_row(wr_shaper *s, wr_slice row, wr_err *err);
wr_code wr_shaper_flush(wr_shaper *s, wr_err *err); /* before the writer seals, and when its size must be known */

/* load.c */
wr_code wr_load_run(wr_pipeline *p, wr_err *err);     /* every target in PHASE_LOAD, to PHASE_REPLAY or PHASE_WAIT */
wr_code wr_load_info(const target *t, char **ret_json, wr_err *err);
wr_code wr_load_parse(target *t, const char *json, wr_err *err);
void wr_member_reset_load(member *m);
wr_code wr_load_begin(wr_pipeline *p, target *t, const wr_schema *schema, phase to, wr_err *err);

/* decisions.c: @thread applying. A policy has decided what becomes of a table */
wr_code wr_decide(wr_pipeline *p, const char *policy, const char *choice, const wr_ddl *d, wr_err *err);
wr_code wr_decide_drop(wr_pipeline *p, const char *db, const char *name, bool mirror, wr_err *err);
wr_code wr_decide_stale(wr_pipeline *p, const char *db, const char *name, wr_slice why, wr_err *err);
wr_code wr_decisions_open(wr_pipeline *p, wr_err *err);
void wr_decisions_close(wr_pipeline *p);

/* repair.c: applying thread */
wr_code wr_repair_look(wr_pipeline *p, bool at_once, wr_err *err); /* begins what is asked for, between two transactions and with everything committed that was applied */
bool wr_repair_holds(const wr_pipeline *p); /* rows of it must not be seen yet */
wr_code wr_repair_committed(wr_pipeline *p, wr_err *err); /* after each commit */
void wr_repair_forget(wr_pipeline *p);      /* what was done of it is lost with what was not committed; it is still asked for */

void wr_repair_gap(wr_pipeline *p);         /* positions from before mean nothing any more */
wr_code wr_repair_ask(const char *home, const wr_repair *what, char **ret_done, wr_err *err); /* *ret_done: the record's path, owned. @thread any */
struct cJSON *wr_request_head(const char *id, const char *why); /* who, when, why */
void wr_request_id(char id[64]);
wr_code wr_request_run(const wr_pipeline_options *o, wr_err *err); /* a sync until current, which carries out what was asked for. WR_E_BUSY: another one runs by now */

/* gap.c */
void wr_gap_describe(wr_pipeline *p, const wr_pos *missing, wr_err *err); /* *err is a WR_E_GAP. @thread capture */
wr_code wr_gap_asked(const char *home, bool *ret, wr_err *err); /* a resume has been asked for, and was not taken up yet */
wr_code wr_gap_open(wr_pipeline *p, uint64_t queue_last, wr_err *err);
wr_code wr_gap_resume(wr_pipeline *p, const wr_pos *last, wr_err *err); /* does what is asked for; before capture begins */
wr_code wr_gap_note(wr_pipeline *p, const struct cJSON *request, uint64_t offset, wr_err *err);
wr_code wr_gap_enter(wr_pipeline *p, wr_slice payload, wr_err *err);
void wr_gap_forget(wr_pipeline *p);
bool wr_gap_loads(const wr_pipeline *p, const target *t); /* the gap at hand: it is read again, instead of compared */
bool wr_gap_must_load(const target *t);
wr_code wr_gap_settle(wr_pipeline *p, wr_err *err); /* after commits */

/* prove.c: a thread that compares what is unproven with the source, and asks for repairs */
wr_code wr_prove_start(wr_pipeline *p, wr_err *err);
void wr_prove_stop(wr_pipeline *p);
void wr_prove_tell(wr_pipeline *p);               /* applying thread, after commits: what is unproven now */
void wr_prove_anew(wr_pipeline *p);               /* applying thread, behind a gap: what was found before it does not count */
wr_code wr_prove_take(wr_pipeline *p, wr_err *err); /* applying thread, between transactions: what has been proven */

/* retention.c: how long the source keeps its log, against how far behind capture is */
void wr_retention_look(wr_pipeline *p);           /* asks now and then. @thread ledger */
void wr_retention_forget(wr_pipeline *p);         /* it was another server's. No other thread runs */
void wr_retention_json(wr_pipeline *p, struct cJSON *status); /* @thread status */
void wr_retention_find(wr_source *s, const char *home, void (*fn)(void *ctx, const wr_finding *f), void *ctx, wr_err *err); /* for a sync of this home that runs or not */

/* account.c */
wr_queue_tap wr_account_tap(wr_pipeline *p);
wr_lake_witness wr_account_witness(wr_pipeline *p);
wr_code wr_account_open(wr_pipeline *p, uint64_t queue_last, wr_err *err);
void wr_account_going_back(wr_pipeline *p);              /* applying thread: the lake is opened, at the start or again */
wr_code wr_account_went_back(wr_pipeline *p, wr_err *err); /* to p->offset */
wr_code wr_account_start(wr_pipeline *p, wr_err *err);
void wr_account_stop(wr_pipeline *p, bool to_the_end);
void wr_account_close(wr_pipeline *p);
void wr_account_committed(wr_pipeline *p);       /* applying thread, as the next three */
void wr_account_leave(wr_pipeline *p, member *m); /* before its target forgets it */
uint64_t wr_account_released(wr_pipeline *p);     /* what may leave the queue */

/* watch.c */
static inline void wr_beat(wr_pipeline *p, beat b) { __atomic_add_fetch(&p->beats[b], 1, __ATOMIC_RELAXED); }
void wr_watch_open(wr_pipeline *p);                    /* right behind the lock; lock_mu held */
void wr_watch_start(wr_pipeline *p);
void wr_watch_stop(wr_pipeline *p);
void wr_watch_failed(wr_pipeline *p, const wr_err *why); /* the run, or its opening */
void wr_watch_close(wr_pipeline *p);

/* inspect.c */
wr_code wr_inspect_start(wr_pipeline *p, wr_err *err);
void wr_inspect_stop(wr_pipeline *p);
void wr_inspect_forget(wr_pipeline *p); /* what was found belongs to the server that was left; alarms are for the next inspection to end */

/* status.c */
wr_code wr_status_start(wr_pipeline *p, wr_err *err);
void wr_status_stop(wr_pipeline *p);
void wr_status_tables(wr_pipeline *p); /* applying thread: what the status shows of each table */
void wr_status_write(wr_pipeline *p);

#endif
