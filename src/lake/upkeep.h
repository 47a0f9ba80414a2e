/* The record of what was done to a table beside what changes asked for: kept in a property of the table, written by the commit that does it.
 * Private to lake; the struct is public. */
#ifndef WEIR_LAKE_UPKEEP_H
#define WEIR_LAKE_UPKEEP_H

#include "weir/base/buf.h"
#include "weir/lake.h"

#define WR_UPKEEP_PROPERTY "weir.upkeep"

/* What the property says; NULL or text of another version: nothing yet. */
void wr_upkeep_parse(const char *text, wr_upkeep *ret);
/* Owned JSON; NULL = no memory. docs/formats/iceberg.md */
char *wr_upkeep_print(const wr_upkeep *u);
/* Counts it and keeps it among the last ones. */
void wr_upkeep_add(wr_upkeep *u, const wr_upkeep_action *a);

#endif
