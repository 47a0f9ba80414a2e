/* Rules, understood, and the stages they become for one table. Private. */
#ifndef WEIR_TRANSFORM_RULES_H
#define WEIR_TRANSFORM_RULES_H

#include <regex.h>
#include "weir/transform.h"

typedef struct rule {
    wr_rule r;             /* everything owned */
    regex_t re;
    bool compiled;
    int number;            /* in the file, from 0 */
    uint64_t hash;         /* of all it says */
} rule;

struct wr_rules {
    rule *rules; int n;
    wr_sql_space *space;
    char *mask_key;
    uint64_t mask_seed;    /* of hashes that stand for masked keys */
};

/* One rule over one schema. */
typedef struct stage {
    const rule *rule;
    wr_schema *in, *out;
    int *from;             /* out->ncols: column of in, or -1 - expression */
    int *to;               /* in->ncols: what stands in its place in out, passed or computed; -1 = dropped */
    bool *hidden;          /* in->ncols: masked or dropped: shown nowhere */
    int nexprs;
    char **expr_sql;       /* nexprs */
    char **expr_shown;     /* nexprs: as the rule says it; the SQL of a hash holds the key */
    char **expr_column;    /* nexprs: name in out */
    wr_exprs *exprs;       /* NULL: no filter and no expressions */
    /* scratch of a run */
    wr_value *vals; uint32_t vals_cap; /* rows */
    wr_buf rows;
} stage;

struct wr_transform {
    wr_rules *rules;
    char *db, *name;
    stage *stages; int nstages;
    bool hides;            /* some column is masked or dropped */
    uint64_t nulled;
    struct passing *rows; uint32_t cap;    /* scratch of a run; most tables only ever see few rows at a time */
    wr_outcome *outcomes;
};

typedef struct passing {
    uint32_t live;                     /* which row of the run; the rows that reach the stage under way are in front */
    wr_slice slice;                    /* what it is now */
    size_t end;                        /* in the stage's buffer */
} passing;

bool wr_transform_hides(const wr_transform *t, int col); /* a column of the source, by whichever rule */
/* stage.c: WR_E_CONFIG without the table's name in front */
wr_code wr_stage_new(const wr_rules *rules, const rule *u, const wr_schema *in, stage *ret, wr_err *err);
void wr_stage_clear(stage *s);
/* "id=4711, region=\"eu\"": the key of a row for people; columns that are hidden show as *** */
wr_code wr_transform_print_key(const wr_transform *t, wr_slice row, wr_buf *out, wr_err *err);

#endif
