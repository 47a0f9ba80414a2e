#include "weir/base/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Written once before threads start, read by all. */
static wr_log_sink *sink;
static void *sink_ctx;
static wr_log_level sink_max;

void wr_log_set(wr_log_sink *s, void *ctx, wr_log_level max_level) {
    sink = s;
    sink_ctx = ctx;
    sink_max = max_level;
}

void wr_log(wr_log_level level, const char *fmt, ...) {
    if (!sink || level > sink_max) return;
    char line[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = ' '; /* one call, one line */
    sink(sink_ctx, level, line);
}
