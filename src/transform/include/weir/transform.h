/* What happens to rows between queue and lake: what SQL makes of them (rules), where a source table's rows go (routes), and how a shard's rows
 * become rows of a merged table.
 * @thread objects are immutable after creation unless said otherwise */
#ifndef WEIR_TRANSFORM_H
#define WEIR_TRANSFORM_H

#include "weir/base/buf.h"
#include "weir/base/err.h"
#include "weir/engine.h"
#include "weir/model.h"

/* merge: [{from: 'shop_\d+\.orders_\d+', to: shop.orders}]: anchored expressions on db.table; \d, \w, \s and \. are understood. */
typedef struct wr_merge_rule { const char *from, *to; } wr_merge_rule;

typedef struct wr_routes wr_routes;
typedef struct wr_route { const char *ns, *name; bool merged; } wr_route; /* strings borrowed from routes or arguments */
wr_code wr_routes_new(const wr_merge_rule *rules, int n, wr_routes **ret_routes, wr_err *err);
void wr_routes_free(wr_routes *r);
/* The first rule that matches, else the table's own name. */
wr_route wr_routes_find(const wr_routes *r, const char *db, const char *name);

/* Schema of a merged table: db_name, tb_name (both in the key), then the union of its members' columns by name, widened where types
 * differ (to string where nothing else holds both). Column ids are kept from `previous` (may be NULL) where name and type allow. The key is (db_name, tb_name, member key) when
 * all members have the same key columns, else none. */
wr_code wr_merge_schema(const wr_schema *const *members, int n, const wr_schema *previous, wr_schema **ret_schema, wr_err *err);

/* Rows of one member as rows of the merged table. */
typedef struct wr_convert wr_convert;
/* db and name NULL: columns pair by id, those that `merged` has beyond are null. */
wr_code wr_convert_new(const wr_schema *member, const wr_schema *merged, const char *db, const char *name, wr_convert **ret_convert, wr_err *err);
void wr_convert_free(wr_convert *c);
wr_code wr_convert_row(const wr_convert *c, wr_slice row, wr_buf *out, wr_err *err); /* appends */

/* The schema of a lake table whose columns outlive type changes: `now`, and behind it what `lake` keeps: columns of `was` (NULL: none) whose name has another id in `now`, and those
 * kept before. A kept column has its name; the one that took its place is called name__type. */
wr_code wr_keep_schema(const wr_schema *lake, const wr_schema *was, const wr_schema *now, wr_schema **ret_schema, wr_err *err);
bool wr_schema_keeps(const wr_schema *lake); /* some column of it is kept */

/* ------------------------------------------------------------------ rules */
typedef enum wr_on_fault { WR_ON_FAULT_STOP = 0, WR_ON_FAULT_NULL, WR_ON_FAULT_DEAD_LETTER } wr_on_fault;
typedef struct wr_pair { const char *name, *value; } wr_pair;
/* transform.rules[i] of weir.yaml (docs/transforms.md). Expressions and filter see the columns of the source; drop and rename come behind them. A column name that ends
 * in "?" may be missing. */
typedef struct wr_rule {
    const char *table;                     /* anchored expression on db.table */
    const char *filter;                    /* rows for which it is not true stay out of the lake; NULL = none */
    const wr_pair *set; int nset;          /* column, new or not = expression */
    const wr_pair *mask; int nmask;        /* column = hash | partial | null */
    const wr_pair *convert; int nconvert;  /* column = "[UNIT to] TYPE [in ZONE]" */
    const wr_pair *rename; int nrename;
    const char *const *drop; int ndrop;
    wr_on_fault on_fault;                  /* what becomes of a row for which an expression fails */
} wr_rule;
typedef struct wr_rules_options {
    const wr_rule *rules; int nrules;      /* all that match a table apply, one after the other */
    const char *functions;                 /* text of CREATE FUNCTION statements; NULL = none */
    const char *mask_key;                  /* goes into hashes; NULL = none */
} wr_rules_options;

/* Takes copies. WR_E_CONFIG names the key. @thread any */
typedef struct wr_rules wr_rules;
wr_code wr_rules_new(const wr_engine *e, const wr_rules_options *o, wr_rules **ret_rules, wr_err *err);
void wr_rules_free(wr_rules *r); /* after its transforms */
/* What identifies the rules of a table, "" when there are none: rows written under another mark must be read again. */
void wr_rules_mark(const wr_rules *r, const char *db, const char *name, char ret_mark[17]);

/* The rules of one table against one schema. @thread one at a time */
typedef struct wr_transform wr_transform;
/* NULL when no rule matches the table. WR_E_CONFIG names rule, column, table and reason: a column that is not there, an expression that DuckDB refuses, a key that would
 * not stay one. */
wr_code wr_transform_new(wr_rules *r, const char *db, const char *name, const wr_schema *in, wr_transform **ret_transform, wr_err *err);
void wr_transform_free(wr_transform *t);
/* Schema of what comes out. Columns that pass keep their ids, computed ones have ids of their own from WR_COMPUTED_ID_BASE on; the version is the source's. */
const wr_schema *wr_transform_schema(const wr_transform *t);
#define WR_COMPUTED_ID_BASE 500000 /* up to WR_ELEMENT_ID_BASE */
/* Whether rows already written, and refused, stay right when the source's schema was `was` before: columns only came, or went. */
bool wr_transform_keeps(const wr_transform *t, const wr_schema *was);
bool wr_transform_hides_key(const wr_transform *t); /* a rule masks a key column: the source's keys are shown nowhere */
bool wr_transform_has_dead_letters(const wr_transform *t);

typedef enum wr_fate { WR_FATE_PASS = 1, WR_FATE_FILTERED, WR_FATE_REFUSED } wr_fate;
typedef struct wr_outcome {
    uint8_t fate;      /* wr_fate */
    wr_slice row;      /* WR_FATE_PASS */
    /* WR_FATE_REFUSED: which column (NULL = the filter), its expression, DuckDB's reason */
    const char *column, *expression, *message;
} wr_outcome;
#define WR_TRANSFORM_ROWS 2048 /* at most in one call; the best number */
/* Outcomes live until the next run. An expression that fails under WR_ON_FAULT_STOP: WR_E_INVAL, which names row, column and reason. */
wr_code wr_transform_run(wr_transform *t, const wr_slice *rows, uint32_t n, const wr_outcome **ret_outcomes, wr_err *err);
void wr_transform_rest(wr_transform *t); /* forgets the outcomes and gives their memory back */
uint64_t wr_transform_nulled(const wr_transform *t); /* values that became null because their expression failed, since creation */

/* Rows that were refused, as rows of a table of their own, keyed by where they come from: the present refusals. What a rule masks or drops is not shown in them. */
wr_code wr_dead_letter_schema(wr_schema **ret_schema, wr_err *err);
/* outcome NULL: the key alone, for taking a refusal back. Appends. */
wr_code wr_dead_letter_row(const wr_transform *t, wr_slice row, const wr_outcome *outcome, uint64_t offset, wr_buf *out, wr_err *err);

#endif
