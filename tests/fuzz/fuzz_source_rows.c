/* A rows event of a table with every kind of column: the first byte chooses the operation, the next ones bitmaps, the rest is rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mysql/rows.h"
#include "mysql/value.h"
#include "weir/base/mem.h"

typedef struct column { const char *type; wr_my_kind kind; uint32_t length; uint8_t scale; bool uns; const char *cs; uint8_t bin; uint8_t nmeta, meta[2]; } column;
static const column columns[] = {
    {"tinyint", MY_TINYINT, 0, 0, false, NULL, 1, 0, {0}},          {"smallint unsigned", MY_SMALLINT, 0, 0, true, NULL, 2, 0, {0}},
    {"mediumint", MY_MEDIUMINT, 0, 0, false, NULL, 9, 0, {0}},      {"int unsigned", MY_INT, 0, 0, true, NULL, 3, 0, {0}},
    {"bigint unsigned", MY_BIGINT, 0, 0, true, NULL, 8, 0, {0}},    {"year", MY_YEAR, 0, 0, false, NULL, 13, 0, {0}},
    {"bit(9)", MY_BIT, 9, 0, false, NULL, 16, 2, {1, 1}},           {"decimal(30,10)", MY_DECIMAL, 30, 10, false, NULL, 246, 2, {30, 10}},
    {"decimal(65,30)", MY_DECIMAL, 65, 30, false, NULL, 246, 2, {65, 30}}, {"float", MY_FLOAT, 0, 0, false, NULL, 4, 1, {4}},
    {"double", MY_DOUBLE, 0, 0, false, NULL, 5, 1, {8}},            {"char(100)", MY_CHAR, 100, 0, false, "utf8mb4", 254, 2, {0xEE, 0x90}},
    {"varchar(300)", MY_VARCHAR, 300, 0, false, "gbk", 15, 2, {0x58, 2}}, {"text", MY_TEXT, 2, 0, false, "utf16", 252, 1, {2}},
    {"binary(4)", MY_BINARY, 4, 0, false, NULL, 254, 2, {254, 4}},  {"blob", MY_BLOB, 2, 0, false, NULL, 252, 1, {2}},
    {"date", MY_DATE, 0, 0, false, NULL, 10, 0, {0}},               {"time(3)", MY_TIME, 0, 3, false, NULL, 19, 1, {3}},
    {"datetime(5)", MY_DATETIME, 0, 5, false, NULL, 18, 1, {5}},    {"timestamp(6)", MY_TIMESTAMP, 0, 6, false, NULL, 17, 1, {6}},
    {"time(2)", MY_TIME, 0, 2, false, NULL, 11, 0, {0}},            {"datetime", MY_DATETIME, 0, 0, false, NULL, 12, 0, {0}},
    {"datetime(3)", MY_DATETIME, 0, 3, false, NULL, 12, 0, {0}},    {"timestamp", MY_TIMESTAMP, 0, 0, false, NULL, 7, 0, {0}},
    {"json", MY_JSON, 0, 0, false, NULL, 245, 1, {4}},              {"geometry", MY_GEOMETRY, 0, 0, false, NULL, 255, 1, {4}},
    {"uuid", MY_UUID, 0, 0, false, NULL, 254, 2, {254, 16}},        {"inet6", MY_INET6, 0, 0, false, NULL, 254, 2, {254, 16}},
    {"vector(3)", MY_VECTOR, 3, 0, false, NULL, 242, 1, {4}},       {"text compressed", MY_TEXT, 2, 0, false, "utf8mb4", 140, 1, {2}},
    {"enum('a','b')", MY_ENUM, 0, 0, false, "utf8mb4", 254, 2, {247, 1}}, {"set('a','b')", MY_SET, 0, 0, false, "utf8mb4", 254, 2, {248, 1}},
};
#define N ((int)(sizeof columns / sizeof columns[0]))
static wr_my_table table;
static uint8_t types[N], meta[2 * N];
static wr_ev_table_map map;

static void setup(void) {
    static wr_my_col cols[N];
    static char *labels[] = {(char *)"a", (char *)"b"};
    size_t nm = 0;
    for (int i = 0; i < N; i++) {
        const column *c = &columns[i];
        wr_my_col *d = &cols[i];
        d->name = malloc(8);
        snprintf(d->name, 8, "c%d", i);
        d->column_type = (char *)c->type, d->kind = c->kind, d->length = c->length, d->scale = c->scale, d->is_unsigned = c->uns, d->charset = (char *)c->cs;
        d->id = i + 1;
        if (c->kind == MY_ENUM || c->kind == MY_SET) d->labels = labels, d->nlabels = 2;
        d->compressed = c->bin == 140;
        types[i] = c->bin;
        memcpy(meta + nm, c->meta, c->nmeta);
        nm += c->nmeta;
    }
    wr_err err = WR_ERR_INIT;
    table = (wr_my_table){.id = 1, .version = 1, .db = (char *)"d", .name = (char *)"t", .cols = cols, .ncols = N};
    if (wr_my_table_finish(&table, (wr_my_types){0}, NULL, &err) != WR_OK) abort();
    map = (wr_ev_table_map){.table_id = 1, .ncols = N, .types = types, .metadata = wr_slice_of(meta, nm)};
}

static wr_code on_change(void *ctx, const wr_change *c, wr_err *err) {
    wr_value v[N];
    if (c->before.n && wr_row_read(table.schema, c->before, v, err) != WR_OK) abort();
    if (c->after.n && wr_row_read(table.schema, c->after, v, err) != WR_OK) abort();
    return WR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!table.schema) setup();
    size_t nb = (N + 7) / 8;
    if (size < 1 + 2 * nb) return 0;
    wr_err err = WR_ERR_INIT;
    wr_row_plan *p = NULL;
    wr_event_format f = {.known = true, .server_version_num = data[0] & 64 ? 100700 : 101119};
    if (wr_row_plan_new(&table, &map, &f, (wr_my_types){0}, &p, &err) != WR_OK) abort();
    uint8_t present[8], after[8];
    memset(present, 255, sizeof present), memset(after, 255, sizeof after);
    if (data[0] & 128) memcpy(present, data + 1, nb), memcpy(after, data + 1 + nb, nb);
    size_t n = size - 1 - 2 * nb;
    uint8_t *rows = malloc(n ? n : 1);
    memcpy(rows, data + 1 + 2 * nb, n);
    uint8_t op = (uint8_t)(data[0] & 3);
    wr_ev_rows e = {.op = op ? op : WR_OP_UPDATE, .partial = op == 0, .table_id = 1, .ncols = N, .present = present, .rows = wr_slice_of(rows, n)};
    if (e.op == WR_OP_UPDATE) e.present_after = after;
    uint64_t count = 0;
    wr_row_plan_decode(p, &e, on_change, NULL, &count, &err);
    wr_row_plan_free(p);
    free(rows);
    return 0;
}
