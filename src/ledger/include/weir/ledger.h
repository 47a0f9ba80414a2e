/* Every change is counted where it passes: captured, queued, consumed, and read back from what was committed.
 *
 * The unit of comparison is the epoch: transactions from one queue offset to another, about a second of them. At each point the rows of an epoch are counted by
 * table, operation and event-minute, with a sum of hashes that does not depend on the order of rows within a transaction's table and does depend on which
 * transaction they are in and which place they have there: what is lost, doubled, changed or exchanged on the way between two points makes a difference. An epoch
 * that all points have passed, and whose last transaction is committed, is settled: it becomes a part of the minutes that `weir ledger` shows.
 *
 * The fourth point is not counted on the way: the files of each commit are announced to the ledger with what they should hold before the commit, and read after it.
 *
 * Kept in home/ledger.db (docs/formats/ledger.md). It is evidence, nothing decides by it: it may be removed while nothing runs, and begins anew.
 * @thread wr_ledger_note, _pass, _end and _abort: one thread for each point; everything else any thread, wr_ledger_tick one at a time
 */
#ifndef WEIR_LEDGER_H
#define WEIR_LEDGER_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"

typedef struct wr_ledger wr_ledger;

typedef enum wr_point {
    WR_CAPTURED, /* handed over by the source */
    WR_QUEUED,   /* in the bytes that go to the queue's file */
    WR_CONSUMED, /* read from the queue */
    WR_PASSED,   /* consumed, and nothing of it goes to the lake: a load of the table brings it, or a rule keeps it out or refuses it */
    WR_WRITTEN,  /* its commit was read back */
} wr_point;
#define WR_POINTS 5
#define WR_COUNTED 3 /* the first ones are counted change by change */

/* Opens or creates the file. committed: the lake's offset, queue_last: the queue's. What the file says beyond them is dropped. */
wr_code wr_ledger_open(const char *path, uint64_t committed, uint64_t queue_last, wr_ledger **ret_ledger, wr_err *err);
void wr_ledger_close(wr_ledger *l); /* NULL is fine */
/* Transactions that are in the queue and were not yet kept as captured and queued when the last process ended: from here to queue_last, 0 = none. They are to be
 * noted once more at both points, from the queue, before anything new is. */
uint64_t wr_ledger_missing(const wr_ledger *l);
/* They cannot be read any more: what is said of them is that they were not counted. */
wr_code wr_ledger_give_up_missing(wr_ledger *l, wr_err *err);
/* Captured and queued are kept up to here: the queue must hold what is behind it. @thread any */
uint64_t wr_ledger_kept(wr_ledger *l);

/* ------------------------------------------------------------------ counting
 * Nothing here fails: when memory is out the epochs of that moment count as not counted, which is an alarm. NULL for l: nobody counts.
 * A note belongs to the transaction that is open at this point; `change` is a change as encoded by wr_change_encode. */
void wr_ledger_note(wr_ledger *l, wr_point at, wr_slice change);
/* A change in pieces; the operation and the table are in the first one. `more` with all but the last. */
void wr_ledger_note_piece(wr_ledger *l, wr_point at, wr_slice piece, bool more);
/* Ends the transaction of this offset. Captured: the offset is the queue's answer, so this comes right after wr_queue_end. */
void wr_ledger_end(wr_ledger *l, wr_point at, uint64_t offset, int64_t event_time_us);
void wr_ledger_abort(wr_ledger *l, wr_point at); /* forgets the notes since the last end */
/* A change of this transaction, consumed already, of which nothing goes to the lake. @thread of WR_CONSUMED */
void wr_ledger_pass(wr_ledger *l, uint64_t offset, uint8_t op, uint32_t table);
/* Everything of this table since the last commit counts as passed: it leaves. @thread of WR_CONSUMED */
void wr_ledger_pass_all(wr_ledger *l, uint32_t table);
void wr_ledger_doubt(wr_ledger *l); /* some of what passes now was not counted. @thread any */
wr_code wr_ledger_name(wr_ledger *l, uint32_t table, const char *db, const char *name, wr_err *err);

/* ------------------------------------------------------------------ commits */
typedef struct wr_receipt_file {
    char *path;
    uint64_t rows;       /* of a file of deletes: rows that it marks; else 0 */
    char *referenced;    /* the data file they are in; NULL = a data file */
    int64_t at, bytes;   /* a deletion vector's place in its file, -1 = a file of positions */
} wr_receipt_file;

/* What a commit says it adds to one lake table. */
typedef struct wr_receipt {
    const char *ns, *name;
    const char *schema;       /* of the rows, JSON */
    const uint32_t *sources; int nsources; /* source tables whose rows it takes */
    uint64_t applied;         /* changes that the table has taken since the last commit; UINT64_MAX: not to be compared */
    uint64_t rows, sum;       /* of the data files together: rows, and the sum of their hashes */
    bool unread;              /* not to be read back: what is in them is not known */
    const wr_receipt_file *files; int nfiles;
} wr_receipt;
/* Before the lake commits up to this offset: what was consumed since the last commit, and what must be found in the lake after it. */
wr_code wr_ledger_prepare(wr_ledger *l, uint64_t offset, const wr_receipt *list, int n, wr_err *err);
/* The lake has committed this offset. */
void wr_ledger_committed(wr_ledger *l, uint64_t offset);
/* Consuming begins again behind this offset: what was consumed and not committed is consumed once more. @thread of WR_CONSUMED */
wr_code wr_ledger_rewind(wr_ledger *l, uint64_t offset, wr_err *err);

/* ------------------------------------------------------------------ settling and reading back. @thread the ledger's own */
/* Keeps what is complete, compares, settles. Cheap when nothing has happened. last: nothing more comes, so the last second is complete too. */
wr_code wr_ledger_tick(wr_ledger *l, bool last, wr_err *err);
wr_code wr_ledger_raise(wr_ledger *l, const char *hop, const char *subject, int64_t minute, const char *text, wr_err *err);
uint64_t wr_ledger_alarms(wr_ledger *l); /* in the file and not acknowledged, as of the last tick. @thread any */

/* A committed receipt that was not read back yet. Owned copies. */
typedef struct wr_reading {
    int64_t id;
    uint64_t offset;
    int64_t prepared_us;
    char *ns, *name, *schema;
    uint64_t rows, sum;
    bool unread;
    wr_receipt_file *files; int nfiles;
} wr_reading;
/* The oldest one, or WR_E_NOTFOUND. */
wr_code wr_ledger_next_reading(wr_ledger *l, wr_reading *ret_reading, wr_err *err);
void wr_reading_clear(wr_reading *r);
typedef enum wr_read_result { WR_READ_SAME, WR_READ_DIFFERS, WR_READ_GONE } wr_read_result;
/* why: what was found instead, for people. GONE: nothing is said against it, and it is counted as not read back. */
wr_code wr_ledger_read(wr_ledger *l, const wr_reading *r, wr_read_result result, const char *why, wr_err *err);

/* ------------------------------------------------------------------ looking at it, from any process */
typedef struct wr_ledger_line { /* of one table and one event-minute */
    uint32_t table;
    const char *db, *name;
    int64_t minute;             /* since 1970 */
    int span;                   /* minutes it covers */
    uint64_t rows[WR_POINTS];   /* all operations together */
    uint64_t ops[3];            /* captured inserts, updates, deletes */
    int64_t delay_ms_max[WR_POINTS], delay_ms_mean[WR_POINTS]; /* behind the event; -1 = not known */
} wr_ledger_line;

typedef struct wr_ledger_alarm {
    int64_t first_us, last_us;
    const char *id;             /* short, for people who acknowledge it */
    const char *hop;            /* "captured-queued", "queued-consumed", "consumed-written", "source-captured", "queued-written", "not-counted", "compared": to who raises a new one, src/alarm/kinds.c must know it, too */
    const char *table;          /* "db.name" or a lake table */
    int64_t minute;
    const char *text;
    int64_t acknowledged_us;    /* 0 = it is open */
    const char *by, *why;       /* of the acknowledgement; NULL */
} wr_ledger_alarm;

typedef struct wr_ledger_look {
    void *ctx;
    wr_code (*line)(void *ctx, const wr_ledger_line *l, wr_err *err);    /* by table, then minute */
    wr_code (*alarm)(void *ctx, const wr_ledger_alarm *a, wr_err *err);  /* oldest first */
} wr_ledger_look;
typedef struct wr_ledger_filter { const char *table; /* "db.name" or NULL */ int64_t from_minute, to_minute; /* to: exclusive, 0 = no end */ bool acknowledged; /* alarms that are, too */ } wr_ledger_filter;
typedef struct wr_ledger_totals {
    uint64_t pending; /* changes in commits that are still to be read back */
    uint64_t unread;  /* changes counted as written although their files had left before they were read: by expiry, or with a process that died */
} wr_ledger_totals;
/* WR_E_NOTFOUND: there is no ledger yet. */
wr_code wr_ledger_view(const char *path, const wr_ledger_filter *f, const wr_ledger_look *look, wr_ledger_totals *ret_totals, wr_err *err);

/* ------------------------------------------------------------------ alarms, from any process, whether a sync runs or not */
enum { WR_ALARM_ID = 9 };
void wr_ledger_alarm_id(const char *hop, const char *subject, int64_t minute, char ret_id[WR_ALARM_ID]);
/* As wr_ledger_raise; but where an alarm of this hop and subject is open, that one is brought up to date. WR_E_NOTFOUND: there is no ledger. */
wr_code wr_ledger_raise_in(const char *path, const char *hop, const char *subject, int64_t minute, const char *text, wr_err *err);
/* which: an alarm's id, a hop, a table (all open alarms of it), or "all". They are kept, with who and why, and count as open again when the same happens in the same minute once more. *ret_n: how
 * many were open and are not now. WR_E_NOTFOUND: there is no ledger. */
wr_code wr_ledger_acknowledge(const char *path, const char *which, const char *by, const char *why, int *ret_n, wr_err *err);

#endif
