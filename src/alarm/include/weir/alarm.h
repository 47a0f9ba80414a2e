/* Alarms: what somebody should know, told once, until it is over.
 *
 * An alarm is a kind and a subject (a thread, a folder, a table). Raising one that is open already counts it and changes nothing else; raising it as a worse one tells
 * that. Clearing it says that the condition is gone; when it has stayed away for `recovery_us` the alarm has recovered, and everybody who was told of it is told that.
 * One that nobody has acknowledged, and that has not recovered, reaches further sinks with time (wr_alarm_sink.after_us): it escalates.
 *
 * Records and notices that are not delivered yet are kept in home/alarms.json (docs/formats/alarms.md) by a thread of its own, and another one delivers. A notice is
 * kept until its sink has taken it and tried again with growing pauses: each comes at least once, and twice only when the process dies between the sink's answer and the
 * file, or when the answer is lost. The notice's id is the same then.
 * @thread wr_alarm_raise, _hold, _clear: any, and at once: they touch memory only. Nothing here fails in front of the caller */
#ifndef WEIR_ALARM_H
#define WEIR_ALARM_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/base/err.h"

typedef struct wr_alarms wr_alarms;

typedef enum wr_alarm_severity { WR_ALARM_INFO = 0, WR_ALARM_WARNING, WR_ALARM_CRITICAL } wr_alarm_severity;
const char *wr_alarm_severity_name(wr_alarm_severity s);

/* docs/operate/alarms.md has a section for each; names, severities and usual cures are in one table in kinds.c */
typedef enum wr_alarm_kind {
    WR_ALARM_THREAD_STALLED = 0,
    WR_ALARM_SOURCE_SILENT,
    WR_ALARM_SOURCE_LAG,
    WR_ALARM_SOURCE_RETENTION,
    WR_ALARM_SOURCE_IDENTITY,
    WR_ALARM_DISK_LOW,
    WR_ALARM_LAKE_FAILING,
    WR_ALARM_SYNC_FAILED,
    WR_ALARM_SYNC_RESTARTS,
    WR_ALARM_LEDGER_SOURCE_CAPTURED, /* the ledger's own alarms, by hop */
    WR_ALARM_LEDGER_CAPTURED_QUEUED,
    WR_ALARM_LEDGER_QUEUED_CONSUMED,
    WR_ALARM_LEDGER_CONSUMED_WRITTEN,
    WR_ALARM_LEDGER_COMPARED,
    WR_ALARM_LEDGER_QUEUED_WRITTEN,
    WR_ALARM_LEDGER_NOT_COUNTED,
} wr_alarm_kind;
#define WR_ALARM_KINDS (WR_ALARM_LEDGER_NOT_COUNTED + 1)
typedef struct wr_alarm_kind_info { const char *name; wr_alarm_severity severity; const char *cure; } wr_alarm_kind_info;
const wr_alarm_kind_info *wr_alarm_kind_of(wr_alarm_kind kind);
bool wr_alarm_kind_named(const char *name, wr_alarm_kind *ret_kind); /* "source.lag" */

/* ------------------------------------------------------------------ who is told */
typedef enum wr_sink_type { WR_SINK_WEBHOOK = 0, WR_SINK_EMAIL, WR_SINK_COMMAND } wr_sink_type;
typedef enum wr_webhook_form { WR_WEBHOOK_GENERIC = 0, WR_WEBHOOK_FEISHU, WR_WEBHOOK_SLACK } wr_webhook_form;
typedef enum wr_mail_tls { WR_MAIL_TLS_AUTO = 0 /* required when there is a user, else preferred */, WR_MAIL_TLS_PREFERRED, WR_MAIL_TLS_REQUIRED, WR_MAIL_TLS_DISABLED } wr_mail_tls;
typedef struct wr_alarm_sink {
    const char *name;            /* unique; notices that wait are kept by it */
    wr_sink_type type;
    wr_alarm_severity min_severity;
    int64_t after_us;            /* 0: at once; else when the alarm has been open, and not acknowledged, for so long */
    wr_webhook_form form;
    const char *url;             /* webhook; a secret */
    const char *secret;          /* generic, feishu: signs; NULL = unsigned */
    const char *ca_file;         /* webhook, email: PEM; NULL = the system's */
    const char *smtp;            /* smtp://host[:port] or smtps://host[:port] */
    wr_mail_tls tls;
    const char *from, *const *to; int nto;
    const char *user, *password; /* NULL: no login */
    const char *const *argv;     /* command; ends with NULL */
    int64_t timeout_us;          /* 0 = 10 s, for whatever it is */
} wr_alarm_sink;

typedef struct wr_alarms_options { /* borrowed, must outlive the alarms */
    const char *home, *pipeline;
    const wr_alarm_sink *sinks; int nsinks;
    int64_t recovery_us;         /* 0 = 30 s */
} wr_alarms_options;

/* One process at a time, the one that holds the pipeline's lock. What the last one left is taken up again; a file that cannot be read is put aside, and what was in it is lost. */
wr_code wr_alarms_open(const wr_alarms_options *opts, wr_alarms **ret_alarms, wr_err *err);
/* Until all that has happened is in the file, or so long. NULL is fine. */
void wr_alarms_flush(wr_alarms *a, int64_t within_us);
/* Notices that are due get five seconds more; the rest waits for the next start. NULL is fine. */
void wr_alarms_close(wr_alarms *a);

/* cure NULL: the kind's. NULL for a: nobody is told. */
void wr_alarm_raise(wr_alarms *a, wr_alarm_kind kind, const char *subject, const char *text, const char *cure);
/* The same for who looks again and again whether a condition holds: it counts when it begins. */
void wr_alarm_hold(wr_alarms *a, wr_alarm_kind kind, wr_alarm_severity severity, const char *subject, const char *text, const char *cure);
void wr_alarm_clear(wr_alarms *a, wr_alarm_kind kind, const char *subject); /* fine when there is none */
/* Clears every open alarm of the kind whose subject `keep` does not want. keep NULL: all of them. */
void wr_alarm_clear_others(wr_alarms *a, wr_alarm_kind kind, bool (*keep)(void *ctx, const char *subject), void *ctx);

/* Runs that ended by failure: wr_alarms_open counts the last one among them when it has not said how it ended. */
void wr_alarms_run_ended(wr_alarms *a, bool failed);
int wr_alarms_failures(wr_alarms *a, int64_t within_us);

/* Sends one notice to a sink at once, to try it out. @thread any, no alarms needed */
wr_code wr_alarm_try(const wr_alarm_sink *sink, const char *pipeline, wr_err *err);

/* ------------------------------------------------------------------ looking at them, from any process */
typedef enum wr_alarm_state { WR_ALARM_OPEN = 0, WR_ALARM_ACKNOWLEDGED, WR_ALARM_RECOVERED } wr_alarm_state;
const char *wr_alarm_state_name(wr_alarm_state s);
typedef struct wr_alarm {
    uint64_t id;
    wr_alarm_severity severity;  /* the worst since it was opened */
    wr_alarm_state state;
    int level;                   /* how many times it has escalated */
    uint64_t count;              /* times it was raised, or its condition began */
    int64_t first_us, last_us;   /* raised */
    int64_t quiet_us;            /* the condition is gone since; 0 = it holds */
    int64_t acknowledged_us, recovered_us;
    bool dated;                  /* began_us is known; neither is kept */
    int64_t began_us;            /* as first_us, by the monotonic clock: what escalation counts from */
    char kind[48], subject[600], text[1024], cure[512];
} wr_alarm;

/* As notices and status have it (docs/formats/alarms.md). The caller's, with cJSON_Delete. */
struct cJSON *wr_alarm_json(const wr_alarm *a);
typedef struct wr_alarm_list {
    wr_alarm *list; int n;       /* oldest first */
    int open;                    /* of them in WR_ALARM_OPEN */
    int undelivered;             /* notices that wait for their sink */
    uint64_t dropped;            /* notices that were given up because too many waited */
    char error[320];             /* why the oldest of them waits; "" */
} wr_alarm_list;
/* An empty list when there is no file yet. */
wr_code wr_alarms_read(const char *home, wr_alarm_list *ret_list, wr_err *err);
void wr_alarm_list_clear(wr_alarm_list *l);
/* Somebody cares for it: it does not escalate. Whether a sync runs or not; one that runs takes note within seconds. WR_E_NOTFOUND: no open alarm has this id. */
wr_code wr_alarms_acknowledge(const char *home, uint64_t id, wr_err *err);

#endif
