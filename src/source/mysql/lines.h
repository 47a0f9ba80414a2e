/* The open connections of one source, so that another thread can end them all: whoever waits for a server that has frozen gets an error instead of an answer.
 * @thread any */
#ifndef WEIR_SOURCE_MYSQL_LINES_H
#define WEIR_SOURCE_MYSQL_LINES_H

#include <mysql.h>
#include "weir/base/err.h"

typedef struct wr_my_lines wr_my_lines;

wr_code wr_my_lines_new(wr_my_lines **ret, wr_err *err);
void wr_my_lines_free(wr_my_lines *l); /* when none is open any more */
/* From now on m is among them. WR_E_CANCELLED: they have been cut; m is still the caller's to close. */
wr_code wr_my_lines_add(wr_my_lines *l, MYSQL *m, wr_err *err);
/* Before m is closed; of whichever list it is on, if any. */
void wr_my_lines_leave(MYSQL *m);
void wr_my_lines_cut(wr_my_lines *l);
void wr_my_lines_cut_one(wr_my_lines *l, const MYSQL *m); /* if it is among them; others may still be made */

#endif
