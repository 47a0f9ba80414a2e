/* What a statement does to one table's definition, and what that means for its rows.
 * @thread stream */
#ifndef WEIR_SOURCE_MYSQL_DDL_EDIT_H
#define WEIR_SOURCE_MYSQL_DDL_EDIT_H

#include "ddl_parse.h"

typedef struct wr_edit_context {
    wr_ddl_session se;
    wr_my_types types;
    const char *db_charset, *db_collation; /* the database's default; NULL = not known */
    int explicit_timestamp;                /* 0 or 1 */
} wr_edit_context;

/* What the actions of a statement said about rows, beside the new definition. */
typedef struct wr_edit_flags {
    bool rows_lost;     /* rows went or came without row events */
    bool retyped;       /* a column has a new id because the lake cannot follow its type: its values were converted */
    bool reshaped;      /* keys, partitions, checks: matters for helpers of online schema changes */
    bool touched;       /* a column was stated anew (MODIFY, CHANGE): values of generated columns may follow */
    bool strict;        /* the session was strict: a NULL in a column that became NOT NULL would have been an error */
    bool swapped;       /* the rows were copied by a tool, INSERT IGNORE: not strict, and columns pair by name */
    bool stored_again;  /* a generated column was stated anew */
} wr_edit_flags;

/* Applies the actions to a copy of `old` (a table without columns for CREATE). Column ids are kept where the lake can follow, else new.
 * WR_E_SCHEMA: they do not fit the definition (a column that is there already, or is not there). The result is not finished. */
wr_code wr_ddl_edit(const wr_my_table *old, const wr_ddl_body *b, const wr_edit_context *cx, wr_my_table **ret_table, wr_edit_flags *ret_flags, wr_err *err);

/* Whether the lake can follow a column from a to b under one id. */
bool wr_ddl_same_id(const wr_my_col *a, const wr_my_col *b, wr_my_types types);
/* The one judgement about rows. ret_initial[i] (room for after->ncols): old rows get column i's value. */
wr_ddl_rows wr_ddl_judge(const wr_my_table *before, const wr_my_table *after, const wr_edit_flags *flags, wr_my_types types, bool *ret_initial);

#endif
