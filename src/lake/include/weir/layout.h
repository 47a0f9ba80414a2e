/* How the files of lake tables are laid out: lake.layout of weir.yaml. Rules see the lake's tables, not the source's: their names behind `merge`, their columns
 * behind `transform.rules`. */
#ifndef WEIR_LAYOUT_H
#define WEIR_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/base/err.h"
#include "weir/model.h"

/* Iceberg table spec, "Partition Transforms". */
typedef enum wr_term_kind { WR_TERM_IDENTITY, WR_TERM_BUCKET, WR_TERM_TRUNCATE, WR_TERM_YEAR, WR_TERM_MONTH, WR_TERM_DAY, WR_TERM_HOUR, WR_TERM_VOID /* of others' tables */ } wr_term_kind;
typedef struct wr_term {
    uint8_t kind;    /* wr_term_kind */
    uint32_t width;  /* of BUCKET: how many; of TRUNCATE: to what */
    char *column;
} wr_term;

/* "created_at", "created_at desc", "created_at asc nulls last": nulls come first when rising and last when falling, unless it says otherwise. */
typedef struct wr_sort_term {
    char *column;
    bool descending, nulls_last;
} wr_sort_term;

typedef struct wr_layout_rule {
    char *match;          /* anchored expression on namespace.table */
    wr_term *partition;   /* NULL: not said, so tables stay as they are; npartition 0: they are not partitioned */
    int npartition;
    wr_sort_term *sort;   /* of the rows of a file. NULL: not said, so by the key; nsort 0: as they come */
    int nsort;
    char **bloom;         /* columns with Bloom filters. NULL: not said, so those of the key */
    int nbloom;
    uint64_t target_file_bytes; /* 0: the lake's */
} wr_layout_rule;

/* "month(created_at)", "bucket(16, id)", "truncate(4, name)", "country" or "identity(country)". The column is the caller's to free. WR_E_CONFIG says what is wrong. */
wr_code wr_term_parse(const char *text, wr_term *ret_term, wr_err *err);
wr_code wr_sort_term_parse(const char *text, wr_sort_term *ret_term, wr_err *err); /* likewise */
char *wr_term_print(const wr_term *t, char buf[256]); /* the same text, cut when long; returns buf */

bool wr_term_takes(const wr_term *t, wr_type type);

/* The rules, compiled. Rules are borrowed. WR_E_CONFIG names the key. @thread any */
typedef struct wr_layouts wr_layouts;
wr_code wr_layouts_new(const wr_layout_rule *rules, int n, wr_layouts **ret_layouts, wr_err *err);
void wr_layouts_free(wr_layouts *l);
/* The first rule that matches; NULL: none does, or it is one of Weir's own tables (namespace _weir). l may be NULL. */
const wr_layout_rule *wr_layouts_find(const wr_layouts *l, const char *ns, const char *name);
/* Whether rows of this schema can be laid out as the rule of the table says: WR_E_CONFIG names key, table, column and type, with the way out. */
wr_code wr_layouts_check(const wr_layouts *l, const char *ns, const char *name, const wr_schema *schema, wr_err *err);
/* The same of one term of a rule, one column of its order, one with a filter. */
wr_code wr_layouts_check_term(const wr_layouts *l, const wr_layout_rule *rule, int term, const char *ns, const char *name, const wr_schema *schema, wr_err *err);
wr_code wr_layouts_check_sort(const wr_layouts *l, const wr_layout_rule *rule, int term, const char *ns, const char *name, const wr_schema *schema, wr_err *err);
wr_code wr_layouts_check_bloom(const wr_layouts *l, const wr_layout_rule *rule, int column, const char *ns, const char *name, const wr_schema *schema, wr_err *err);

#endif
