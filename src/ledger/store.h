/* home/ledger.db. Private to ledger. One connection; the caller has the lock. */
#ifndef WEIR_LEDGER_STORE_H
#define WEIR_LEDGER_STORE_H

#include "tally.h"
#include "weir/ledger.h"

typedef struct wr_ledger_store wr_ledger_store;

wr_code wr_ledger_store_open(const char *path, bool read_only, wr_ledger_store **ret_store, wr_err *err);
void wr_ledger_store_close(wr_ledger_store *s);
wr_code wr_ledger_store_begin_read(wr_ledger_store *s, wr_err *err);
wr_code wr_ledger_store_begin(wr_ledger_store *s, wr_err *err);
wr_code wr_ledger_store_end(wr_ledger_store *s, wr_code rc, wr_err *err); /* commits when rc is WR_OK, else takes all back; returns what failed first */

/* One statement with up to 12 integers, then texts. */
typedef enum wr_ledger_sql {
    LQ_META_SET, /* key, value */
    LQ_NAME,     /* id; db, name */
    LQ_EPOCH,    /* first, last */
    LQ_EPOCH_ROW,  /* first, point, cell... */
    LQ_COMMIT,     /* offset */
    LQ_COMMIT_ROW, /* offset, first, point, cell... */
    LQ_MINUTE,     /* point, cell... */
    LQ_SETTLE_EPOCH, LQ_SETTLE_EPOCH_ROWS, LQ_SETTLE_COMMIT_ROWS, /* first */
    LQ_SETTLE_PASSED, LQ_FORGET_PASSED, /* offset */
    LQ_FORGET_COMMITS, /* below this offset */
    LQ_BACK_ROWS, LQ_BACK_COMMITS, LQ_BACK_FILES, LQ_BACK_RECEIPT_ROWS, LQ_BACK_RECEIPTS, /* beyond this offset */
    LQ_RECEIPT,      /* offset, rows, sum, unread, time; ns, name, schema */
    LQ_RECEIPT_FILE, /* id, seq, rows, at, bytes; path, referenced */
    LQ_RECEIPT_ROW,  /* id, cell... */
    LQ_RECEIPT_MINUTES, LQ_RECEIPT_ROWS_GONE, LQ_RECEIPT_FILES_GONE, LQ_RECEIPT_GONE, /* id */
    LQ_ALARM,        /* minute, first, last; hop, subject, text */
    LQ_ACKNOWLEDGE,  /* now, minute; by, why, hop, subject */
    LQ_AGE, LQ_AGED, /* span, minute: older ones of shorter spans become lines of this span */
    LQ_RESET_1, LQ_RESET_2, LQ_RESET_3, LQ_RESET_4, LQ_RESET_5, LQ_RESET_6, LQ_RESET_7,
    LQ_COUNT,
} wr_ledger_sql;
wr_code wr_ledger_store_run(wr_ledger_store *s, wr_ledger_sql q, const int64_t *v, int nv, const char *const *t, int nt, wr_err *err);
/* Rows whose last integers are a cell's: table, op, minute, rows, sum, delay_ms, delay_ms_max. */
wr_code wr_ledger_store_cell(wr_ledger_store *s, wr_ledger_sql q, const int64_t *v, int nv, const wr_cell *c, wr_err *err);
int64_t wr_ledger_store_id(wr_ledger_store *s); /* of the row inserted last */
/* Every row of a query, its columns as integers (texts and NULL as 0) and texts (borrowed). p: parameters. */
typedef struct wr_ledger_row { const int64_t *v; const char *const *t; int n; } wr_ledger_row;
wr_code wr_ledger_store_each(wr_ledger_store *s, const char *sql, const int64_t *p, int np, wr_code (*fn)(void *ctx, const wr_ledger_row *r, wr_err *err), void *ctx, wr_err *err);
wr_code wr_ledger_store_number(wr_ledger_store *s, const char *sql, int64_t *ret_v, wr_err *err); /* the first column of the first row, 0 without one */

#endif
