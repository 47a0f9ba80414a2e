/* Foreign keys in a table's definition, named and renamed as the servers do it (measured on MariaDB 10.11 and MySQL 9.7): a constraint without a name
 * is <table>_ibfk_<n>, n one above the highest of the table, in the order of the text; a key follows its parent through
 * every rename, whatever foreign_key_checks is.
 * Where it is not certain which key a statement drops, all that it may be stay: a key too many makes a needless load, one too few would lose changes.
 * @thread any, one at a time for one table */
#ifndef WEIR_SOURCE_MYSQL_FK_H
#define WEIR_SOURCE_MYSQL_FK_H

#include "ddl_parse.h"

wr_my_fk *wr_my_fk_new(wr_my_table *t); /* a zeroed one at the end; NULL = no memory */
bool wr_my_fk_add_col(wr_my_fk *f, const char *name);
void wr_my_fks_clear(wr_my_table *t);
bool wr_my_fks_copy(wr_my_table *dst, const wr_my_table *src); /* dst has none; false = no memory */
static inline bool wr_my_fk_changes_rows(const wr_my_fk *f) { return f->on_delete || f->on_update; }
bool wr_my_fks_change_rows(const wr_my_table *t);
bool wr_my_fks_same(const wr_my_table *a, const wr_my_table *b);
/* What the actions of a CREATE or ALTER TABLE do to the keys of t, which has db, name and engine already. */
wr_code wr_my_fks_edit(wr_my_table *t, const wr_ddl_body *b, const wr_ddl_server *sv, wr_err *err);
/* Before t is called `name`: what the server called after the table it calls so again. False = no memory. */
bool wr_my_fks_follow_table(wr_my_table *t, const char *name);
/* The keys in the text of SHOW CREATE TABLE. */
wr_code wr_my_fks_from_create(wr_my_table *t, const char *text, const wr_ddl_server *sv, wr_err *err);
/* Columns of the parent `before` got other names in `after`. *ret_any: something changed. */
wr_code wr_my_fks_rename_cols(wr_my_table *t, const wr_my_table *before, const wr_my_table *after, bool *ret_any, wr_err *err);

#endif
