#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H
#include <pthread.h>
#include <stdint.h>
#include <time.h>
/* Wall clock, microseconds since 1970 UTC. It may step in either direction: nothing waits by it, and nothing is ordered by it.
 * For tests: WEIR_CLOCK names a file with a number of seconds by which this clock is shifted; looked at again every 50 ms. */
int64_t wr_now_us(void);
int64_t wr_mono_us(void); /* monotonic, for durations and deadlines */
/* "2026-11-29T14:00:00.123Z" into buf; returns buf. */
char *wr_iso_time(int64_t us, char buf[32]);
/* Conditions whose waits end by the monotonic clock: a stepped wall clock neither ends them nor makes them last for hours. wr_cond_until(ms) is the end of a wait that begins now. */
void wr_cond_init(pthread_cond_t *c);
struct timespec wr_cond_until(int64_t ms);
#endif
