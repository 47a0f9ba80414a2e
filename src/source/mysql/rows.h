/* Row images of the binlog to row encoding, by a plan made once per TABLE_MAP. Plan and catalogue must belong together: a plan borrows
 * the table's definition and dies before the next DDL is applied.
 * @thread stream */
#ifndef WEIR_SOURCE_MYSQL_ROWS_H
#define WEIR_SOURCE_MYSQL_ROWS_H

#include "def.h"
#include "event.h"

typedef struct wr_row_plan wr_row_plan;

/* Compares the map with the definition: number, types, sizes, and where the map has them signs, names and labels. On disagreement
 * WR_E_SCHEMA with both sides and the way out. `f` decides version-dependent storage. */
wr_code wr_row_plan_new(const wr_my_table *t, const wr_ev_table_map *map, const wr_event_format *f, wr_my_types types, wr_row_plan **ret_plan,
                        wr_err *err);
void wr_row_plan_free(wr_row_plan *p);

typedef wr_code wr_row_change_fn(void *ctx, const wr_change *c, wr_err *err);
/* Decodes all rows of an event and hands each change to fn; *rows counts them (those given, history rows of system-versioned tables
 * are not). Slices are valid during the call. WR_E_DECODE on bytes that do not fit; WR_E_UNSUPPORTED on images that lack columns. */
wr_code wr_row_plan_decode(wr_row_plan *p, const wr_ev_rows *ev, wr_row_change_fn *fn, void *ctx, uint64_t *rows, wr_err *err);

#endif
