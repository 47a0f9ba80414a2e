/* Every kind of alarm. docs/operate/alarms.md has a section for each. */
#include <string.h>
#include "weir/alarm.h"

static const wr_alarm_kind_info kinds[WR_ALARM_KINDS] = {
    [WR_ALARM_THREAD_STALLED] = {"thread.stalled", WR_ALARM_CRITICAL, "look at disk, lake and source; if nothing explains it, save a stack (gdb -p PID -batch -ex 'thread apply all bt') and restart the sync: nothing is lost"},
    [WR_ALARM_SOURCE_SILENT] = {"source.silent", WR_ALARM_CRITICAL, "see whether the server runs and can be reached from here as the pipeline's user; the sync goes on by itself as soon as it answers"},
    [WR_ALARM_SOURCE_LAG] = {"source.lag", WR_ALARM_WARNING, "see weir status: loads, a slow lake and one very large transaction are the usual reasons"},
    [WR_ALARM_SOURCE_RETENTION] = {"source.retention", WR_ALARM_CRITICAL, "keep binlogs longer on the server until the sync has caught up"},
    [WR_ALARM_SOURCE_IDENTITY] = {"source.identity", WR_ALARM_CRITICAL, "find out which server source.url reaches"},
    [WR_ALARM_DISK_LOW] = {"disk.low", WR_ALARM_WARNING, "make room or move the folder; with a full disk the sync waits, and nothing is lost as long as the source keeps its binlogs"},
    [WR_ALARM_LAKE_FAILING] = {"lake.failing", WR_ALARM_WARNING, "see whether the warehouse and the catalog can be reached: weir check -c FILE"},
    [WR_ALARM_SYNC_FAILED] = {"sync.failed", WR_ALARM_CRITICAL, "remove the reason and start the sync again"},
    [WR_ALARM_SYNC_RESTARTS] = {"sync.restarts", WR_ALARM_CRITICAL, "see alarm sync.failed and the log of the sync for what ends it"},
    [WR_ALARM_LEDGER_SOURCE_CAPTURED] = {"ledger.source-captured", WR_ALARM_CRITICAL, "weir ledger tells where; then weir compare and weir repair for the table"},
    [WR_ALARM_LEDGER_CAPTURED_QUEUED] = {"ledger.captured-queued", WR_ALARM_CRITICAL, "weir ledger tells where; then weir compare and weir repair for the table"},
    [WR_ALARM_LEDGER_QUEUED_CONSUMED] = {"ledger.queued-consumed", WR_ALARM_CRITICAL, "weir ledger tells where; then weir compare and weir repair for the table"},
    [WR_ALARM_LEDGER_CONSUMED_WRITTEN] = {"ledger.consumed-written", WR_ALARM_CRITICAL, "weir ledger tells where; then weir compare and weir repair for the table"},
    [WR_ALARM_LEDGER_COMPARED] = {"ledger.compared", WR_ALARM_CRITICAL, "see the report in home/compare; weir repair puts the table right, then weir ledger --acknowledge"},
    [WR_ALARM_LEDGER_QUEUED_WRITTEN] = {"ledger.queued-written", WR_ALARM_WARNING, "see weir status for what holds the lake up"},
    [WR_ALARM_LEDGER_NOT_COUNTED] = {"ledger.not-counted", WR_ALARM_WARNING, "nothing is known to be lost, and nothing is proven for these transactions: weir compare"},
};

const wr_alarm_kind_info *wr_alarm_kind_of(wr_alarm_kind kind) { return &kinds[kind]; }

bool wr_alarm_kind_named(const char *name, wr_alarm_kind *ret_kind) {
    for (int i = 0; i < WR_ALARM_KINDS; i++)
        if (!strcmp(kinds[i].name, name)) return *ret_kind = (wr_alarm_kind)i, true;
    return false;
}

const char *wr_alarm_severity_name(wr_alarm_severity s) { return (const char *const[]){"info", "warning", "critical"}[s]; }
const char *wr_alarm_state_name(wr_alarm_state s) { return (const char *const[]){"open", "acknowledged", "recovered"}[s]; }
