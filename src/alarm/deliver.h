/* One notice to one sink, and the texts it becomes. Private to alarm. */
#ifndef WEIR_ALARM_DELIVER_H
#define WEIR_ALARM_DELIVER_H
#include "book.h"
#include "weir/base/buf.h"

/* Waits for the sink, its time limit at most. Errors name the sink and never its address, secret or answer's text beyond a few words. @thread any */
wr_code wr_alarm_deliver(const wr_alarm_sink *sink, const char *pipeline, const wr_notice *n, const wr_alarm *a, wr_err *err);

/* The texts. Owned; NULL when memory is out. */
char *wr_notice_json(const char *pipeline, const wr_notice *n, const wr_alarm *a);
char *wr_notice_title(const char *pipeline, const wr_notice *n, const wr_alarm *a);
char *wr_notice_lines(const wr_notice *n, const wr_alarm *a);
char *wr_notice_feishu(const char *pipeline, const wr_notice *n, const wr_alarm *a, const char *secret, int64_t now_us);
char *wr_notice_slack(const char *pipeline, const wr_notice *n, const wr_alarm *a);
char *wr_notice_mail(const wr_alarm_sink *sink, const char *pipeline, const wr_notice *n, const wr_alarm *a, int64_t now_us);

#endif
