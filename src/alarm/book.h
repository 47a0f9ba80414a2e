/* Records and the notices that wait, in memory and as text. No clock, no file, no thread. Private to alarm. */
#ifndef WEIR_ALARM_BOOK_H
#define WEIR_ALARM_BOOK_H
#include "weir/alarm.h"

typedef enum wr_event { WR_EVENT_OPENED = 0, WR_EVENT_WORSENED, WR_EVENT_ESCALATED, WR_EVENT_RECOVERED, WR_EVENT_TEST } wr_event;
const char *wr_event_name(wr_event e);

typedef struct wr_notice {
    uint64_t id;             /* grows */
    uint64_t alarm;
    wr_event event;
    int level;
    int64_t at_us, next_us;  /* when it happened; not to be tried before: by the monotonic clock, not kept */
    int attempts;
    char sink[64], error[256]; /* of the last attempt */
} wr_notice;

#define WR_FAILURES_KEPT 32
typedef struct wr_book {
    const wr_alarm_sink *sinks; int nsinks;
    int64_t recovery_us;
    wr_alarm *alarms; int n;
    wr_notice *notices; int nnotices;
    uint64_t last_id, last_notice, dropped;
    bool running;            /* a run has begun and not said how it ended */
    int64_t failures[WR_FAILURES_KEPT]; int nfailures; /* when runs ended by failure; oldest first */
    bool dirty;              /* something happened that must be kept */
    bool counted;            /* a count or a time moved: kept by and by */
} wr_book;

void wr_book_free(wr_book *b);
/* holds: counted only when it begins. false when memory is out: as if it had not been raised. */
bool wr_book_raise(wr_book *b, bool holds, const char *kind, wr_alarm_severity severity, const char *subject, const char *text, const char *cure, int64_t now_us);
void wr_book_clear(wr_book *b, const char *kind, const char *subject, int64_t now_us);
bool wr_book_acknowledge(wr_book *b, uint64_t id, int64_t now_us); /* false: none open has this id */
void wr_book_tick(wr_book *b, int64_t now_us, int64_t mono_us); /* escalations, recoveries; old records leave */
void wr_book_failed_run(wr_book *b, int64_t now_us);
/* The next notice to deliver: of each sink the oldest first, none before its time and none beyond number `upto`. Copies. */
bool wr_book_due(const wr_book *b, uint64_t upto, int64_t mono_us, wr_notice *ret_notice, wr_alarm *ret_alarm);
void wr_book_delivered(wr_book *b, uint64_t notice);
void wr_book_refused(wr_book *b, uint64_t notice, const char *why, int64_t mono_us);
char *wr_book_text(const wr_book *b); /* owned; NULL when memory is out */
wr_code wr_book_parse(wr_book *b, const char *text, wr_err *err); /* into an empty one */

#endif
