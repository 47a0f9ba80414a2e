/* The SQLite file of a wr_ice_catalog: Iceberg's JDBC catalog, schema version V1, catalog name "weir", and the
 * pipelines' progress beside it, so that both move in one transaction. docs/formats/catalog.md.
 * @thread one at a time per object */
#ifndef WEIR_LAKE_CATALOG_H
#define WEIR_LAKE_CATALOG_H

#include "iceberg/ice.h"
#include "iceberg/rest.h"

#define WR_CATALOG_NAME "weir"

struct wr_ice_catalog {
    sqlite3 *db;
    wr_rest *rest;     /* NULL: the tables are here; else only the progress is */
    char *path;
    wr_store *store; /* borrowed */
    const wr_lock *lock; /* borrowed; NULL */
    bool read_only;
    bool has_type;     /* column iceberg_type (V1) */
    bool has_progress; /* table weir_progress */
    char **untold;     /* files of the last commit that the journal still has; told before the next one begins */
    int nuntold;
};

/* What happens to one row of iceberg_tables. Names are borrowed. */
typedef struct wr_row_move {
    const char *ns, *name;         /* as it is */
    const char *new_ns, *new_name; /* as it becomes; equal pointers or text when it keeps its name */
    const char *old_location;      /* NULL: the row is created */
    const char *new_location;      /* NULL: the row is dropped; may equal old_location */
} wr_row_move;

void wr_catalog_forget_untold(wr_ice_catalog *c);
/* All moves and the progress in one transaction. WR_E_CONFLICT, WR_E_EXISTS: definitely nothing changed. *ret_unknown
 * is set when the commit itself failed and reading back did not settle it. */
wr_code wr_catalog_move(wr_ice_catalog *c, const wr_row_move *moves, int n, const wr_ice_progress *progress,
                        bool *ret_unknown, wr_err *err);

/* The table whose metadata is at this place. WR_E_CONFLICT when there is none: the row has moved on. */
wr_code wr_catalog_name_of(wr_ice_catalog *c, const char *location, char **ret_ns, char **ret_name, wr_err *err);

#endif
