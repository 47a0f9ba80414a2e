#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H
#include <stdint.h>
int64_t wr_now_us(void);  /* wall clock, microseconds since 1970 UTC */
int64_t wr_mono_us(void); /* monotonic, for durations and deadlines */
/* "2026-11-29T14:00:00.123Z" into buf; returns buf. */
char *wr_iso_time(int64_t us, char buf[32]);
#endif
