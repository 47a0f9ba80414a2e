/* Log lines. The sink is set once by the program before threads start; without one nothing is written.
 * Below `server` and `cli` nothing logs above WR_LOG_DEBUG except `pipeline`, which supervises.
 * @thread any */
#ifndef WEIR_BASE_LOG_H
#define WEIR_BASE_LOG_H
typedef enum wr_log_level { WR_LOG_ERROR, WR_LOG_WARN, WR_LOG_INFO, WR_LOG_DEBUG } wr_log_level;
typedef void wr_log_sink(void *ctx, wr_log_level level, const char *line);
void wr_log_set(wr_log_sink *sink, void *ctx, wr_log_level max_level);
void wr_log(wr_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#endif
