/* What check.c shows to its unit tests. Private to source. */
#ifndef WEIR_SOURCE_MYSQL_CHECK_H
#define WEIR_SOURCE_MYSQL_CHECK_H

#include "source_impl.h"

/* Whether lines of SHOW GRANTS (one per '\n') give `privilege` (upper case) on db.name: on *.*, on the database (its
 * name may be a LIKE pattern) or on the table; ALL PRIVILEGES counts. db = NULL asks for a global privilege, name =
 * NULL for one on the whole database. */
bool wr_check_granted(const char *grants, const char *privilege, const char *db, const char *name);
/* Edit distance, at most cap. */
int wr_check_distance(const char *a, const char *b, int cap);

#endif
