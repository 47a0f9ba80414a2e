/* The difference between two versions of a table's metadata in the words of a REST catalog: updates that lead from one to the other, and
 * requirements that hold only while the table is still what the first version says. Pure. Source: Iceberg REST catalog specification,
 * TableUpdate and TableRequirement.
 * @thread any: no shared state */
#ifndef WEIR_LAKE_REST_DIFF_H
#define WEIR_LAKE_REST_DIFF_H

#include "iceberg/json.h"

typedef struct wr_rest_change {
    cJSON *updates, *requirements; /* arrays */
} wr_rest_change;
void wr_rest_change_clear(wr_rest_change *c);

/* before NULL: the table is created. Covered is what a commit of ours changes: everything that is added, branches, tags and properties also when they
 * go, snapshots and statistics that go. Requirements: assert-create alone; else the uuid and the heads of main and weir-load, and of every
 * branch and tag when snapshots go; what new schemas, specs and sort orders were numbered after. WR_E_INVAL: another table, or an older format. */
wr_code wr_rest_diff(const cJSON *before, const cJSON *after, wr_rest_change *ret_change, wr_err *err);

#endif
