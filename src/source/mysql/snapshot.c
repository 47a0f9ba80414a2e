/* Reading tables: chunk by chunk along the primary key, or a table without one whole, at a known position.
 *
 * Transport. A prepared statement without cursor: its rows come in the binary protocol, exact (the text protocol
 * shortens FLOAT and DOUBLE) and unbuffered. The packets are read with mysql_net_read_packet and decoded here, straight
 * into row encoding; mysql_stmt_fetch would copy every value through a MYSQL_BIND first and halve the rate.
 *
 * Texts. The session has character_set_results = NULL: the server sends each column's bytes as they are stored, and
 * wr_charset_decode makes UTF-8 of them, the same function on the same bytes as in the binlog decoder. A conversion by
 * the server would turn what it cannot convert into '?'.
 *
 * A chunk and DDL. Each chunk is one read-only transaction: SELECT ... LIMIT 0, which takes the table's metadata lock
 * and keeps it until COMMIT; then the definition is verified; then the rows are read. No DDL can come between
 * verification and rows, and none can have been applied to the read view, which is younger than the lock. Verification
 * costs one SHOW CREATE TABLE: its text is compared with the one that was there when the definition was last compared
 * in full, and only a changed text leads to reading information_schema again. A DDL that wants the table waits for at
 * most one chunk. No row is locked: InnoDB reads are consistent reads.
 */
#include "snapshot.h"

#include <inttypes.h>
#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "position.h"
#include "answer.h"
#include "snapshot_impl.h"
#include "weir/base/clock.h"
#include "weir/base/large.h"
#include "weir/base/mem.h"

/* ------------------------------------------------------------------ connection and definition */
void wr_snap_drop(wr_snap *sn, bool busy) {
    if (!sn->m) return;
    if (busy)
        wr_my_abandon(sn->m);
    else
        wr_my_session_end(sn->s, sn->m, WR_OK);
    sn->m = NULL;
}

static wr_code session(wr_snap *sn, MYSQL **ret, wr_err *err) {
    MYSQL *m = NULL;
    WR_TRY(wr_my_session(sn->s, &m, err));
    wr_my_take_large(&sn->s->conn, m);
    /* ALLOW_INVALID_DATES: a key like 2023-02-31, once stored, must be a valid literal in the next chunk's condition.
     */
    wr_code rc = wr_my_exec(
        m, err, "SET SESSION character_set_results = NULL, sql_mode = 'ALLOW_INVALID_DATES%s', lock_wait_timeout = 30",
        sn->padded ? ",PAD_CHAR_TO_FULL_LENGTH" : "");
    if (rc != WR_OK) return wr_my_session_end(sn->s, m, rc), rc;
    *ret = m;
    return WR_OK;
}

wr_code wr_snap_connected(wr_snap *sn, wr_err *err) {
    if (sn->m) return WR_OK;
    return session(sn, &sn->m, err);
}

static wr_code where(const wr_snap *sn, wr_err *err) {
    return wr_err_in(err, "snapshot of %s.%s", sn->t->db, sn->t->name);
}

typedef struct create_row {
    char *text;
} create_row;

static wr_code take_create(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    create_row *r = ctx;
    if (r->text || ncols < 2 || !row[1]) return WR_OK;
    return (r->text = wr_strdup(row[1])) ? WR_OK : wr_nomem(err, "SHOW CREATE TABLE", lengths[1]);
}

static wr_code gone(const wr_snap *sn, wr_err *err) {
    return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_AFTER_RELOAD, "table %s.%s is not there any more", sn->t->db,
                   sn->t->name);
}

/* The table must be held by a metadata lock. */
static wr_code verify(wr_snap *sn, MYSQL *m, wr_err *err) {
    create_row now = {0};
    wr_code rc = wr_my_query(m, take_create, &now, err, "SHOW CREATE TABLE %s", sn->table_sql);
    if (rc != WR_OK) return wr_free(now.text), rc;
    if (!now.text) return gone(sn, err);
    wr_my_create_normalise(now.text);
    if (sn->create && strcmp(sn->create, now.text) == 0) return wr_free(now.text), WR_OK;
    wr_my_table **t = NULL;
    int n = 0;
    char why[300] = "";
    rc = wr_catalogue_read_server(m, sn->s->capture, sn->s->types, sn->s->flavor, sn->t->db, sn->t->name, &t, &n, err);
    if (rc == WR_OK && n == 0) rc = gone(sn, err);
    if (rc == WR_OK && !wr_my_table_same(sn->t, t[0], why, sizeof why))
        rc = wr_fail(err, WR_E_SCHEMA, WR_RETRY_AFTER_RELOAD, "table %s.%s has been altered: %s", sn->t->db,
                     sn->t->name, why);
    for (int i = 0; i < n; i++) wr_my_table_free(t[i]);
    wr_free(t);
    if (rc != WR_OK) return wr_free(now.text), rc;
    wr_free(sn->create);
    sn->create = now.text;
    return WR_OK;
}

/* Errors that only a DDL brings about. */
static wr_code as_ddl(wr_snap *sn, wr_err *err) {
    if (err->code == WR_E_SCHEMA || err->code == WR_E_NOTFOUND) err->retry = WR_RETRY_AFTER_RELOAD;
    return err->code;
}

static wr_code hold_table(wr_snap *sn, MYSQL *m, wr_err *err) {
    return wr_my_exec(m, err, "SELECT 1 FROM %s LIMIT 0", sn->table_sql);
}

/* ------------------------------------------------------------------ a result set, row by row */
typedef struct result {
    wr_source *s;
    uint32_t id; /* of the prepared statement */
    wr_my_fields fields;
} result;

/* sn->m is NULL when it went wrong. */
static void result_close(wr_snap *sn, result *r) {
    if (!r->s) return;
    if (sn->m) wr_my_forget(sn->m, r->id);
    wr_my_fields_clear(&r->fields);
    r->s = NULL;
}

static wr_code result_open(wr_snap *sn, const char *sql, result *ret, wr_err *err) {
    result r = {.s = sn->s};
    if (wr_my_ask_binary(sn->m, sql, &r.id, &r.fields, err) != WR_OK) return as_ddl(sn, err);
    *ret = r;
    return WR_OK;
}

/* *ret_n = 0: no more rows. The packet is valid until the next call. A large one comes alone (base/large.h), until row_done. */
static inline wr_code result_next(wr_snap *sn, const uint8_t **ret_p, size_t *ret_n, wr_err *err) {
    uint8_t *p = NULL;
    if (__builtin_expect(wr_my_large_ahead(sn->m), 0)) wr_large_hold(&sn->large);
    if (wr_my_next_row(sn->m, "reading rows", &p, ret_n, err) != WR_OK) return as_ddl(sn, err);
    *ret_p = p;
    return WR_OK;
}

/* The packet has become the row. */
static void packet_done(wr_snap *sn, size_t n) {
    if (n < WR_LARGE_BYTES) return;
    wr_large_hold(&sn->large);
    wr_my_give_back(sn->m);
}

/* The row has been handed over, or never will be. */
static void row_done(wr_snap *sn) {
    if (!sn->large) return;
    wr_buf_rest(&sn->row);
    wr_large_let_go(&sn->large);
}

/* ------------------------------------------------------------------ open, close */
static wr_code prefix_part(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    return *(bool *)ctx = true, WR_OK;
}

/* A key over the first characters of a column: the index is no order of the whole values, so the server must sort each
 * chunk. Right, but slow. */
static wr_code find_prefix_key(wr_snap *sn, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_buf_printf(&b, "SELECT 1 FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = ");
    wr_my_quote_text(&b, sn->t->db);
    wr_buf_printf(&b, " AND TABLE_NAME = ");
    wr_my_quote_text(&b, sn->t->name);
    wr_buf_printf(&b, " AND INDEX_NAME = 'PRIMARY' AND SUB_PART IS NOT NULL");
    WR_TRY(wr_buf_check(&b, "a query", err));
    return wr_my_query(sn->m, prefix_part, &sn->prefix_key, err, "%s", wr_buf_cstr(&b));
}

static wr_code take_estimate(void *ctx, MYSQL_ROW row, unsigned long *lengths, unsigned ncols, wr_err *err) {
    /* MariaDB has 10 columns, MySQL 12 */
    unsigned at = ncols >= 12 ? 9 : 8;
    if (ncols > at && row[at]) *(uint64_t *)ctx += strtoull(row[at], NULL, 10);
    return WR_OK;
}

wr_code wr_snap_rows_estimate(wr_snap *sn, const char *cond, uint64_t *ret, wr_err *err) {
    uint64_t n = 0;
    /* Not information_schema.TABLES, whose numbers MySQL caches for a day. USE, not FORCE: with FORCE INDEX MySQL saves
     * itself the dive and says 1. */
    WR_TRY(wr_my_query(sn->m, take_estimate, &n, err, "EXPLAIN FORMAT=TRADITIONAL SELECT %s FROM %s%s%s%s",
                       sn->k.n ? sn->key_sql : "1", sn->table_sql, sn->k.n ? " USE INDEX (PRIMARY)" : "",
                       *cond ? " WHERE " : "", cond));
    *ret = n;
    return WR_OK;
}

static wr_code build_sql(wr_snap *sn, wr_err *err) {
    WR_AUTO_BUF wr_buf sel = WR_BUF_INIT;
    WR_AUTO_BUF wr_buf tab = WR_BUF_INIT;
    WR_AUTO_BUF wr_buf key = WR_BUF_INIT;
    const wr_my_table *t = sn->t;
    for (int i = 0; i < t->ncols; i++) {
        if (t->lake_col[i] < 0) continue;
        if (sel.n) wr_buf_printf(&sel, ", ");
        wr_my_quote_name(&sel, t->cols[i].name); /* named one by one: * leaves invisible columns out */
    }
    for (int i = 0; i < sn->k.n; i++) {
        if (i) wr_buf_printf(&key, ", ");
        wr_my_quote_name(&key, sn->k.col[i]->name);
        if (sn->k.col[i]->kind != MY_ENUM && sn->k.col[i]->kind != MY_SET) continue;
        wr_buf_printf(&sel, ", "); /* the cursor needs the number, the row has the label */
        wr_my_quote_name(&sel, sn->k.col[i]->name);
        wr_buf_printf(&sel, " + 0");
    }
    wr_my_quote_name(&tab, t->db);
    wr_buf_printf(&tab, ".");
    wr_my_quote_name(&tab, t->name);
    WR_TRY(wr_buf_check(&sel, "the columns of a SELECT", err));
    WR_TRY(wr_buf_check(&tab, "a table's name", err));
    WR_TRY(wr_buf_check(&key, "a key's columns", err));
    sn->table_sql = wr_strdup(wr_buf_cstr(&tab));
    sn->select_sql = wr_strdup(wr_buf_cstr(&sel));
    sn->key_sql = wr_strdup(wr_buf_cstr(&key) ? (char *)key.p : "");
    sn->from_sql = wr_asprintf("%s%s", (char *)tab.p, sn->k.n ? " FORCE INDEX (PRIMARY)" : "");
    if (!sn->table_sql || !sn->select_sql || !sn->key_sql || !sn->from_sql) return wr_nomem(err, "a SELECT", sel.n);
    return WR_OK;
}

static wr_code find_key(wr_snap *sn, wr_err *err) {
    const wr_my_table *t = sn->t;
    int n = 0;
    for (int i = 0; i < t->ncols; i++)
        if (t->cols[i].key_ord > 0 && !t->cols[i].hidden && t->lake_col[i] >= 0) n++;
    if (n > WR_KEY_PARTS_MAX)
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "the primary key of %s.%s has %d columns", t->db, t->name,
                       n);
    for (int i = 0; i < t->ncols; i++) {
        int o = t->cols[i].key_ord;
        if (o <= 0 || t->cols[i].hidden || t->lake_col[i] < 0) continue;
        if (o > n || sn->k.col[o - 1])
            return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "the definition of %s.%s has a gap in its primary key",
                           t->db, t->name);
        sn->k.col[o - 1] = &t->cols[i];
    }
    sn->k.n = n;
    /* MariaDB compares a CHAR column of a NO PAD collation without its trailing blanks and sorts it in the index with
     * them: 'a<tab>' is before 'a' in the index and behind it for WHERE, so rolling would lose rows. With
     * PAD_CHAR_TO_FULL_LENGTH both have the blanks. (MySQL's index has none.) */
    for (int i = 0; i < n && sn->s->flavor == WR_MARIADB; i++)
        if (sn->k.col[i]->kind == MY_CHAR && sn->k.col[i]->collation && strstr(sn->k.col[i]->collation, "nopad"))
            sn->padded = true;
    for (int i = 0; i < t->ncols && sn->padded; i++)
        if (t->cols[i].generated && !t->cols[i].stored)
            return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO,
                           "%s.%s has a CHAR key column of a NO PAD collation and the computed column %s, whose value "
                           "depends on how the key is read",
                           t->db, t->name, t->cols[i].name);
    return WR_OK;
}

static wr_code open_on(wr_snap *sn, const char *def, wr_err *err) {
    WR_TRY(wr_my_table_from_json(wr_slice_str(def), sn->s->types, &sn->t, err));
    WR_TRY(find_key(sn, err));
    WR_TRY(build_sql(sn, err));
    WR_TRY(wr_snap_plan_new(sn->t, sn->s->types, &sn->k, sn->padded, &sn->plan, err));
    WR_TRY(wr_snap_connected(sn, err));
    WR_TRY(wr_my_exec(sn->m, err, "START TRANSACTION READ ONLY"));
    WR_TRY(hold_table(sn, sn->m, err));
    WR_TRY(verify(sn, sn->m, err));
    WR_TRY(find_prefix_key(sn, err));
    WR_TRY(wr_snap_rows_estimate(sn, "", &sn->estimate, err));
    return wr_my_exec(sn->m, err, "COMMIT");
}

wr_code wr_snap_open(wr_source *s, const char *def, wr_snap **ret_snap, wr_err *err) {
    wr_snap *sn = wr_calloc(1, sizeof *sn);
    if (!sn) return wr_nomem(err, "a snapshot reader", sizeof *sn);
    sn->s = s;
    wr_code rc = open_on(sn, def, err);
    if (rc != WR_OK) {
        if (sn->t) where(sn, err);
        rc = as_ddl(sn, err);
        wr_my_session_end(s, WR_STEAL(sn->m), rc);
        wr_snap_close(sn);
        return rc;
    }
    *ret_snap = sn;
    return WR_OK;
}

void wr_snap_close(wr_snap *sn) {
    if (!sn) return;
    wr_snap_drop(sn, false);
    wr_snap_plan_free(sn->plan);
    wr_my_table_free(sn->t);
    wr_free(sn->table_sql);
    wr_free(sn->from_sql);
    wr_free(sn->select_sql);
    wr_free(sn->key_sql);
    wr_free(sn->create);
    wr_buf_free(&sn->row);
    wr_free(sn);
}

const wr_schema *wr_snap_schema(const wr_snap *sn) { return sn->t->schema; }
uint64_t wr_snap_estimate(const wr_snap *sn) { return sn->estimate; }

/* ------------------------------------------------------------------ chunks */
typedef struct progress {
    uint64_t left; /* rows still wanted */
    uint64_t rows; /* rows handed over */
    char *after;   /* cursor of the last one wanted, once left is 0 */
} progress;

/* One condition's rows. */
static wr_code read_piece(wr_snap *sn, const char *cond, progress *pr, wr_row_fn *fn, void *ctx, wr_err *err) {
    WR_AUTO char *sql = wr_asprintf("SELECT %s FROM %s%s%s ORDER BY %s LIMIT %" PRIu64, sn->select_sql, sn->from_sql,
                                    *cond ? " WHERE " : "", cond, sn->key_sql, pr->left);
    if (!sql) return wr_nomem(err, "a SELECT", strlen(sn->select_sql));
    result r = {0};
    WR_TRY(result_open(sn, sql, &r, err));
    wr_code rc = wr_snap_plan_wire(sn->plan, r.fields.v, r.fields.n, err);
    while (rc == WR_OK) {
        const uint8_t *p = NULL;
        size_t n = 0;
        rc = result_next(sn, &p, &n, err);
        if (rc != WR_OK || n == 0) break;
        if (pr->left == 0) {
            rc = wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "the server sent more rows than asked for");
            break;
        }
        rc = wr_snap_plan_row(sn->plan, p, n, &sn->row, err);
        if (rc == WR_OK && pr->left == 1)
            rc = wr_snap_plan_cursor(sn->plan, p, n, &pr->after,
                                     err); /* before fn, which may use the time for whatever it likes */
        packet_done(sn, n);
        if (rc == WR_OK) rc = fn(ctx, wr_buf_view(&sn->row), err);
        row_done(sn);
        pr->left--;
        pr->rows++;
    }
    row_done(sn);
    if (rc != WR_OK) wr_snap_drop(sn, true); /* rows may be on their way */
    result_close(sn, &r);
    return rc;
}

static wr_code read_in_transaction(wr_snap *sn, char *const *conds, int n, progress *pr, wr_row_fn *fn, void *ctx,
                                   wr_err *err) {
    WR_TRY(wr_snap_connected(sn, err));
    WR_TRY(wr_my_exec(sn->m, err, "START TRANSACTION READ ONLY"));
    WR_TRY(hold_table(sn, sn->m, err));
    WR_TRY(verify(sn, sn->m, err));
    for (int i = 0; i < n && pr->left > 0; i++) WR_TRY(read_piece(sn, conds[i], pr, fn, ctx, err));
    return wr_my_exec(sn->m, err, "COMMIT");
}

/* Waits for its turn before it holds the table. */
static wr_code read_pieces(wr_snap *sn, char *const *conds, int n, progress *pr, wr_row_fn *fn, void *ctx, wr_err *err) {
    wr_budget_slot slot;
    wr_budget_enter(sn->s->budget, &slot);
    wr_code rc = read_in_transaction(sn, conds, n, pr, fn, ctx, err);
    wr_budget_leave(sn->s->budget, &slot);
    return rc;
}

static wr_code read_range(wr_snap *sn, const char *after, const char *upto, progress *pr, wr_row_fn *fn, void *ctx,
                          wr_err *err) {
    char **conds = NULL;
    int n = 0;
    WR_TRY(wr_my_key_conditions(&sn->k, after, upto, &conds, &n, err));
    wr_code rc = read_pieces(sn, conds, n, pr, fn, ctx, err);
    wr_my_conditions_free(conds, n);
    return rc;
}

wr_code wr_snap_read_where(wr_snap *sn, const char *cond, uint64_t most, wr_row_fn *fn, void *ctx, wr_err *err) {
    progress pr = {.left = most};
    char *conds[1] = {(char *)cond};
    wr_code rc = read_pieces(sn, conds, 1, &pr, fn, ctx, err);
    wr_free(pr.after);
    if (rc == WR_OK) return WR_OK;
    wr_snap_drop(sn, true);
    return where(sn, err);
}

wr_code wr_snap_chunk(wr_snap *sn, const wr_key_range *range, uint64_t max_rows, wr_row_fn *fn, void *ctx,
                      char **ret_after, wr_err *err) {
    if (sn->k.n == 0)
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s.%s has no primary key and can only be read whole", sn->t->db,
                       sn->t->name);
    if (max_rows == 0) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "a chunk of no rows");
    const char *after = range && range->after ? range->after : "", *upto = range && range->upto ? range->upto : "";
    WR_AUTO char *at = wr_strdup(after);
    if (!at) return wr_nomem(err, "a snapshot cursor", strlen(after));
    /* With a rate limit a chunk is read in steps of a quarter second's rows, and the waiting is done between them,
     * where no metadata lock is held. */
    uint64_t rate = wr_budget_rate(sn->s->budget), step = rate == 0 ? max_rows : rate / 4 + 1, left = max_rows;
    for (;;) {
        progress pr = {.left = left < step ? left : step};
        uint64_t want = pr.left;
        wr_budget_rows(sn->s->budget, (double)want);
        wr_code rc = read_range(sn, at, upto, &pr, fn, ctx, err);
        wr_budget_rows(sn->s->budget, -(double)(want - pr.rows));
        if (rc != WR_OK) {
            wr_snap_drop(sn, true);
            wr_free(pr.after);
            return where(sn, err);
        }
        left -= pr.rows;
        if (pr.rows < want) { /* the range ends here */
            wr_free(pr.after);
            *ret_after = NULL;
            return WR_OK;
        }
        if (strcmp(at, pr.after) == 0) { /* never go round in circles, whatever the reason */
            wr_free(pr.after);
            wr_fail(err, WR_E_SERVER, WR_RETRY_NO,
                    "the server's order of the key does not agree with its comparison at %.100s", at);
            return where(sn, err);
        }
        wr_free(at);
        at = pr.after;
        if (left == 0) {
            *ret_after = WR_STEAL(at);
            return WR_OK;
        }
    }
}

/* ------------------------------------------------------------------ one key, for cutting ranges */
wr_code wr_snap_one_key(wr_snap *sn, const char *tail, char **ret_cursor, wr_err *err) {
    WR_AUTO char *sql = wr_asprintf("SELECT %s FROM %s %s", sn->select_sql, sn->from_sql, tail);
    if (!sql) return wr_nomem(err, "a SELECT", strlen(sn->select_sql));
    result r = {0};
    char *cursor = NULL;
    WR_TRY(result_open(sn, sql, &r, err));
    wr_code rc = wr_snap_plan_wire(sn->plan, r.fields.v, r.fields.n, err);
    while (rc == WR_OK) {
        const uint8_t *p = NULL;
        size_t n = 0;
        rc = result_next(sn, &p, &n, err);
        if (rc != WR_OK || n == 0) break;
        if (!cursor) rc = wr_snap_plan_cursor(sn->plan, p, n, &cursor, err);
        packet_done(sn, n);
        row_done(sn);
    }
    row_done(sn);
    if (rc != WR_OK) wr_snap_drop(sn, true);
    result_close(sn, &r);
    if (rc != WR_OK) {
        wr_free(cursor);
        return rc;
    }
    *ret_cursor = cursor;
    return WR_OK;
}

/* ------------------------------------------------------------------ a table without a key */
/* All rows as of one position P: every transaction at or before P is in them, none after it.
 *
 * MariaDB, InnoDB: a consistent snapshot and its binlog position are one (position.c). A second connection holds the
 * table's metadata lock meanwhile (an open transaction with SELECT ... LIMIT 0), so that the table cannot be renamed,
 * truncated or altered between the snapshot and the first row. MySQL: the second connection takes LOCK TABLES ... READ.
 * That waits for everyone who has written to the table until after their engine commit, so all of it that is in the
 * binlog is visible, and nothing of it can come in while the lock is held: any position read under it is the table's
 * position, and a read view opened under it has the same rows. The lock goes as soon as the reading transaction has its
 * view and its own metadata lock. Engines without transactions: there is no read view, so the lock is held until the
 * last row. */
static bool is_transactional(const char *engine) { return !engine || strcasecmp(engine, "InnoDB") == 0; }

static wr_code lock_denied(wr_snap *sn, wr_err *err) {
    if (err->code == WR_E_AUTH) {
        wr_fail(err, WR_E_AUTH, WR_RETRY_NO,
                "the table has no primary key, and reading it at a known position needs an instant's LOCK TABLES, "
                "which '%s' may not",
                sn->s->conn.user);
        wr_err_cure(err, "GRANT LOCK TABLES ON `%s`.* TO '%s'@'%%' (or give the table a primary key)", sn->t->db,
                    sn->s->conn.user);
    } else if (err->code == WR_E_SERVER && !*err->cure) {
        wr_err_cure(err, "a long transaction on the table holds it up (SHOW PROCESSLIST)");
    }
    return err->code;
}

typedef struct all_read {
    MYSQL *guard; /* holds the table while the view is opened */
    wr_pos pos;
} all_read;

static wr_code open_view(wr_snap *sn, all_read *ar, wr_err *err) {
    wr_source *s = sn->s;
    bool transactional = is_transactional(sn->t->engine), mariadb_view = s->flavor == WR_MARIADB && transactional;
    if (!transactional) { /* one connection: its own lock is the view */
        wr_code rc = wr_my_exec(sn->m, err, "LOCK TABLES %s READ", sn->table_sql);
        if (rc != WR_OK) return lock_denied(sn, err);
        WR_TRY(verify(sn, sn->m, err));
        return wr_my_binlog_end_gtid(s, sn->m, &ar->pos, err);
    }
    WR_TRY(session(sn, &ar->guard, err));
    /* Short, as others queue up behind a waiting lock; and the reader would wait for a DDL that waits for the guard. */
    WR_TRY(wr_my_exec(ar->guard, err, "SET SESSION lock_wait_timeout = 5"));
    WR_TRY(wr_my_exec(sn->m, err, "SET SESSION lock_wait_timeout = 1"));
    if (mariadb_view) {
        WR_TRY(wr_my_exec(ar->guard, err, "START TRANSACTION READ ONLY"));
        WR_TRY(hold_table(sn, ar->guard, err));
    } else if (wr_my_exec(ar->guard, err, "LOCK TABLES %s READ", sn->table_sql) != WR_OK)
        return lock_denied(sn, err);
    if (mariadb_view) {
        WR_TRY(wr_my_mariadb_snapshot(s, sn->m, WR_SNAPSHOT_EXACT, &ar->pos, err));
    } else {
        WR_TRY(wr_my_exec(sn->m, err, "START TRANSACTION WITH CONSISTENT SNAPSHOT"));
        WR_TRY(wr_my_binlog_end_gtid(s, ar->guard, &ar->pos, err));
    }
    WR_TRY(hold_table(sn, sn->m, err));
    WR_TRY(verify(sn, sn->m, err));
    wr_my_session_end(s, WR_STEAL(ar->guard), WR_OK); /* lets go of the table */
    return WR_OK;
}

static wr_code read_view(wr_snap *sn, wr_row_fn *fn, void *ctx, wr_err *err) {
    WR_AUTO char *sql = wr_asprintf("SELECT %s FROM %s", sn->select_sql, sn->table_sql);
    if (!sql) return wr_nomem(err, "a SELECT", strlen(sn->select_sql));
    uint64_t rate = wr_budget_rate(sn->s->budget), step = rate / 20 + 1, since = 0;
    result r = {0};
    wr_budget_slot slot;
    wr_budget_enter(sn->s->budget, &slot);
    wr_code rc = result_open(sn, sql, &r, err);
    if (rc != WR_OK) return wr_budget_leave(sn->s->budget, &slot), rc;
    rc = wr_snap_plan_wire(sn->plan, r.fields.v, r.fields.n, err);
    while (rc == WR_OK) {
        const uint8_t *p = NULL;
        size_t n = 0;
        rc = result_next(sn, &p, &n, err);
        if (rc != WR_OK || n == 0) break;
        rc = wr_snap_plan_row(sn->plan, p, n, &sn->row, err);
        packet_done(sn, n);
        if (rc == WR_OK) rc = fn(ctx, wr_buf_view(&sn->row), err);
        row_done(sn);
        if (rate && ++since >= step) wr_budget_rows(sn->s->budget, (double)since), since = 0;
    }
    row_done(sn);
    if (rc != WR_OK) wr_snap_drop(sn, true);
    result_close(sn, &r);
    wr_budget_leave(sn->s->budget, &slot);
    return rc;
}

enum { VIEW_TRIES = 5 };

wr_code wr_snap_view(wr_snap *sn, wr_pos *ret_pos, wr_err *err) {
    all_read ar = {0};
    wr_code rc = WR_OK;
    for (int i = 0; i < VIEW_TRIES; i++) {
        rc = wr_snap_connected(sn, err);
        unsigned no = 0;
        pthread_mutex_lock(&sn->s->view_lock);
        if (rc == WR_OK && (rc = open_view(sn, &ar, err)) != WR_OK) no = sn->m ? mysql_errno(sn->m) : 0;
        pthread_mutex_unlock(&sn->s->view_lock);
        if (no == 0 && ar.guard) no = mysql_errno(ar.guard);
        wr_my_session_end(sn->s, WR_STEAL(ar.guard), rc);
        if (rc == WR_OK) break;
        wr_pos_clear(&ar.pos);
        wr_snap_drop(sn, true);
        if (no != ER_LOCK_WAIT_TIMEOUT) break; /* somebody's DDL or long transaction: let it through, then again */
    }
    if (rc == WR_OK) *ret_pos = ar.pos;
    return rc;
}

wr_code wr_snap_read_all(wr_snap *sn, wr_row_fn *fn, void *ctx, wr_pos *ret_pos, wr_err *err) {
    wr_pos pos = {0};
    wr_code rc = wr_snap_view(sn, &pos, err);
    if (rc == WR_OK) rc = read_view(sn, fn, ctx, err);
    /* Locks and read view end with giving the session back. */
    wr_snap_drop(sn, rc != WR_OK);
    if (rc != WR_OK) {
        wr_pos_clear(&pos);
        where(sn, err);
        return as_ddl(sn, err);
    }
    wr_pos_clear(ret_pos);
    *ret_pos = pos;
    return WR_OK;
}
