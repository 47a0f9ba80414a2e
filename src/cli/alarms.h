/* Alarms as status, ledger and alarms print them. Private to cli. */
#ifndef WEIR_CLI_ALARMS_H
#define WEIR_CLI_ALARMS_H
#include "weir/alarm.h"

void wr_cli_alarms_undelivered(const wr_alarm_list *l); /* a line when notices wait */

#endif
