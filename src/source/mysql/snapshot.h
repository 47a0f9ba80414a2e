/* What snapshot.c shows to its unit tests: cursors and the conditions made from them. Private to source. */
#ifndef WEIR_SOURCE_MYSQL_SNAPSHOT_H
#define WEIR_SOURCE_MYSQL_SNAPSHOT_H

#include "source_impl.h"

enum { WR_KEY_PARTS_MAX = 32 }; /* MariaDB's limit; MySQL's is 16 */

/* Cursors. A cursor is the key columns' values in key order, joined by commas; a shorter one is a prefix and stands for
 * all keys that begin with it
 * ("after" = after the last of them, "upto" = up to the last of them). The form of a value depends on the column:
 *   integers, YEAR, BIT    decimal digits with sign              DECIMAL        as the server prints it
 *   ENUM, SET              the number, not the label (they sort by it)
 *   FLOAT, DOUBLE          17 significant digits, exact          UUID, INET4/6  the server's text
 *   dates and times        the server's text, fraction included
 *   CHAR, VARCHAR, TEXT    'x' and hex digits of the bytes in the column's own character set
 *   BINARY, VARBINARY, BLOB  'x' and hex digits
 * No value contains a comma, a quote or a backslash; parsing accepts nothing else, so that a damaged cursor never
 * becomes SQL. */
typedef struct wr_my_key {
    int n;
    const wr_my_col *col[WR_KEY_PARTS_MAX];
} wr_my_key;

/* Cuts a range into conditions whose rows follow one another in key order, none twice, each a plain range of the index:
 * equal key prefix, then one bounded column. (Row constructors are no ranges for MariaDB, and optimisers do not always
 * see the range in a long OR.) One string per condition, "" = no condition; *ret_n = 0: the range is empty.
 * WR_E_CORRUPT for a cursor that does not fit the key. */
wr_code wr_my_key_conditions(const wr_my_key *k, const char *after, const char *upto, char ***ret_conds, int *ret_n,
                             wr_err *err);
void wr_my_conditions_free(char **conds, int n);
/* Checks a value's form and appends its SQL literal. */
wr_code wr_my_key_literal(const wr_my_col *c, wr_slice value, wr_buf *sql, wr_err *err);

/* SHOW CREATE TABLE's text without what moves while rows are inserted (AUTO_INCREMENT=n), in place. */
void wr_my_create_normalise(char *text);

#endif
