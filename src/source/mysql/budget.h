/* What may be read of a server's tables, shared by everything that reads them: loads, comparisons and repairs, in one process or several. Private to source.
 *
 * Rows: each reader that takes n rows moves the moment from which the next may read by n / rate, and waits until its own has come; so readers with different rates share the time. At most one
 * second of idleness is kept. Statements: a byte of the file is locked while one is under way. Both are in one small file, home/budget (docs/formats/budget.md), under locks that the kernel
 * takes back from a process that dies. Where the file cannot be used the readers of this process share among themselves. */
#ifndef WEIR_SOURCE_MYSQL_BUDGET_H
#define WEIR_SOURCE_MYSQL_BUDGET_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/base/err.h"

enum { WR_BUDGET_SLOTS = 64 };

typedef struct wr_budget wr_budget;
/* path: NULL = of this process only. rate: rows a second, 0 = no limit. readers: statements at once, 0 = no limit. */
wr_code wr_budget_new(const char *path, uint64_t rate, int readers, wr_budget **ret_budget, wr_err *err);
void wr_budget_free(wr_budget *b);
uint64_t wr_budget_rate(const wr_budget *b);
/* Takes n rows and sleeps until they may be read; negative n gives back. @thread any */
void wr_budget_rows(wr_budget *b, double n);
/* Before and after a statement that reads: waits until fewer than `readers` are under way. *ret_slot belongs to the statement. @thread any */
typedef struct wr_budget_slot { int fd; bool counted; } wr_budget_slot;
void wr_budget_enter(wr_budget *b, wr_budget_slot *ret_slot);
void wr_budget_leave(wr_budget *b, wr_budget_slot *slot);
int wr_budget_reading(wr_budget *b); /* statements under way, of all processes. @thread any */

#endif
