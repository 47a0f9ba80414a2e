/* The parts of the snapshot reader among themselves. Private to snapshot*.c. */
#ifndef WEIR_SOURCE_MYSQL_SNAPSHOT_IMPL_H
#define WEIR_SOURCE_MYSQL_SNAPSHOT_IMPL_H

#include "snapshot.h"

/* From the binary protocol's rows to row encoding. */
typedef struct wr_snap_plan wr_snap_plan;
/* t and key are borrowed and must outlive it. padded: the session sends CHAR with its trailing blanks, which belong
 * into the cursor and not into the row. */
wr_code wr_snap_plan_new(const wr_my_table *t, wr_my_types types, const wr_my_key *key, bool padded, wr_snap_plan **ret,
                         wr_err *err);
void wr_snap_plan_free(wr_snap_plan *p);
/* Checks a result set's columns against the plan: the table's lake columns in order, then one number per ENUM and SET
 * key column. WR_E_SCHEMA when they differ. */
wr_code wr_snap_plan_wire(wr_snap_plan *p, const MYSQL_FIELD *fields, unsigned n, wr_err *err);
/* One packet to one row; out is cleared first. */
wr_code wr_snap_plan_row(const wr_snap_plan *p, const uint8_t *packet, size_t n, wr_buf *out, wr_err *err);
/* The packet's key as a cursor, owned. */
wr_code wr_snap_plan_cursor(const wr_snap_plan *p, const uint8_t *packet, size_t n, char **ret_cursor, wr_err *err);

struct wr_snap {
    wr_source *s;
    MYSQL *m; /* NULL = to be connected when needed */
    wr_my_table *t;
    wr_my_key k;
    wr_snap_plan *plan;
    char *table_sql;  /* `db`.`t` */
    char *from_sql;   /* the same with FORCE INDEX */
    char *select_sql; /* columns, then numbers of ENUM and SET key columns */
    char *key_sql;    /* key columns */
    char *create;     /* SHOW CREATE TABLE when the definition was last compared in full */
    bool prefix_key;  /* the server has to sort each chunk */
    bool padded;      /* see find_key */
    uint64_t estimate;
    wr_buf row;
    bool large; /* it or its packet is, and comes alone */
};

/* Rows the optimiser expects for a condition ("" = all) on the key. sn->m must be connected. */
wr_code wr_snap_rows_estimate(wr_snap *sn, const char *cond, uint64_t *ret, wr_err *err);
/* Reads one key in raw form: `SELECT ... {tail}`; *ret_cursor NULL when there is no row. */
wr_code wr_snap_one_key(wr_snap *sn, const char *tail, char **ret_cursor, wr_err *err);
wr_code wr_snap_connected(wr_snap *sn, wr_err *err);
void wr_snap_drop(wr_snap *sn, bool busy); /* the connection; busy: rows may be on their way */
/* A read view of all rows as of one position on the snapshot's connection, which drops it: "a table without a key" in snapshot.c. */
wr_code wr_snap_view(wr_snap *sn, wr_pos *ret_pos, wr_err *err);
/* The rows that meet a condition, of which there are at most `most`, in one transaction. */
wr_code wr_snap_read_where(wr_snap *sn, const char *cond, uint64_t most, wr_row_fn *fn, void *ctx, wr_err *err);

#endif
