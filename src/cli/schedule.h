/* When a comparison is due, and running it beside a sync. Private to cli. */
#ifndef WEIR_CLI_SCHEDULE_H
#define WEIR_CLI_SCHEDULE_H

#include "cli.h"

/* Due at every multiple of `every_us` since 1970 (UTC), moved by at_us. */
typedef struct wr_schedule { int64_t every_us, at_us; } wr_schedule;
/* "daily at 03:00", "daily at 03:00 +02:00" (else UTC), "every 6h". WR_E_CONFIG. */
wr_code wr_schedule_parse(const char *text, wr_schedule *ret_schedule, wr_err *err);
int64_t wr_schedule_next(const wr_schedule *s, int64_t after_us); /* the first time after this one */

/* A thread that runs `weir compare` as a process of its own, of low priority, whenever it is due and nothing is being loaded: whatever it costs and however it ends, the sync goes on. What was due
 * while no sync ran is made up for once. *ret_runner NULL: nothing is scheduled. config: path of weir.yaml. */
typedef struct wr_schedule_runner wr_schedule_runner;
wr_code wr_schedule_start(const wr_config *c, const char *config, wr_pipeline *p, wr_schedule_runner **ret_runner, wr_err *err);
void wr_schedule_child(void); /* in that process, before anything else: it ends with its sync, and is of low priority. Elsewhere nothing */
void wr_schedule_stop(wr_schedule_runner *r); /* ends a comparison that is under way. NULL is fine */

#endif
