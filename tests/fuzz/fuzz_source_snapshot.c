/* Any bytes as a row of the binary protocol: what a table is read by. One table with a column of every kind of transport. */
#include <stdlib.h>
#include "mysql/snapshot_impl.h"
#include "weir/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct spec { const char *type, *charset; wr_my_kind kind; int wire; bool is_unsigned; uint32_t length; uint8_t scale; int key_ord; } spec;
static const spec columns[] = {
    {"bigint", NULL, MY_BIGINT, MYSQL_TYPE_LONGLONG, false, 0, 0, 1},         {"bigint unsigned", NULL, MY_BIGINT, MYSQL_TYPE_LONGLONG, true, 0, 0, 0},
    {"tinyint", NULL, MY_TINYINT, MYSQL_TYPE_TINY, false, 0, 0, 0},           {"decimal(12,2)", NULL, MY_DECIMAL, MYSQL_TYPE_NEWDECIMAL, false, 12, 2, 0},
    {"varchar(40)", "utf8mb4", MY_VARCHAR, MYSQL_TYPE_VAR_STRING, false, 40, 0, 2}, {"datetime(6)", NULL, MY_DATETIME, MYSQL_TYPE_DATETIME, false, 0, 6, 0},
    {"time(6)", NULL, MY_TIME, MYSQL_TYPE_TIME, false, 0, 6, 0},              {"bit(9)", NULL, MY_BIT, MYSQL_TYPE_BIT, false, 9, 0, 0},
    {"double", NULL, MY_DOUBLE, MYSQL_TYPE_DOUBLE, false, 0, 0, 0},           {"point", NULL, MY_GEOMETRY, MYSQL_TYPE_GEOMETRY, false, 0, 0, 0},
    {"varchar(9)", "sjis", MY_VARCHAR, MYSQL_TYPE_VAR_STRING, false, 9, 0, 0},
};
enum { NCOLS = sizeof columns / sizeof *columns };

static wr_my_key key;
static wr_snap_plan *plan;
static wr_my_table *t; /* the plan borrows from it */

static void set_up(void) {
    static MYSQL_FIELD fields[NCOLS];
    wr_err err = WR_ERR_INIT;
    t = wr_calloc(1, sizeof *t);
    t->db = wr_strdup("d"), t->name = wr_strdup("t"), t->id = 1, t->version = 1;
    t->cols = wr_calloc(NCOLS, sizeof *t->cols), t->ncols = NCOLS;
    for (int i = 0; i < NCOLS; i++) {
        const spec *s = &columns[i];
        wr_my_col *c = &t->cols[i];
        c->name = wr_asprintf("c%d", i), c->column_type = wr_strdup(s->type), c->id = i + 1, c->kind = s->kind;
        c->is_unsigned = s->is_unsigned, c->length = s->length, c->scale = s->scale, c->key_ord = s->key_ord, c->not_null = s->key_ord > 0;
        if (s->charset) c->charset = wr_strdup(s->charset), c->collation = wr_asprintf("%s_bin", s->charset);
        fields[i] = (MYSQL_FIELD){.type = (enum enum_field_types)s->wire, .flags = s->is_unsigned ? UNSIGNED_FLAG : 0};
    }
    if (wr_my_table_finish(t, (wr_my_types){0}, NULL, &err) != WR_OK) abort();
    key = (wr_my_key){.n = 2, .col = {&t->cols[0], &t->cols[4]}};
    if (wr_snap_plan_new(t, (wr_my_types){0}, &key, false, &plan, &err) != WR_OK || wr_snap_plan_wire(plan, fields, NCOLS, &err) != WR_OK) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wr_err err = WR_ERR_INIT;
    wr_buf out = WR_BUF_INIT;
    if (!plan) set_up();
    if (wr_snap_plan_row(plan, data, size, &out, &err) != WR_OK && !err.msg[0]) abort();
    wr_err_clear(&err);
    char *cursor = NULL;
    if (wr_snap_plan_cursor(plan, data, size, &cursor, &err) == WR_OK) {
        char **conds;
        int n;
        if (wr_my_key_conditions(&key, cursor, "", &conds, &n, &err) != WR_OK) abort(); /* a cursor of ours is one that we take back */
        wr_my_conditions_free(conds, n);
        wr_free(cursor);
    }
    wr_buf_free(&out);
    return 0;
}
