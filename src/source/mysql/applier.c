#include "applier.h"
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>
#include "cascade.h"
#include "payload.h"
#include "rows.h"
#include "savepoint.h"
#include "value.h"
#include "weir/base/clock.h"
#include "weir/base/large.h"
#include "weir/base/map.h"
#include "weir/base/mem.h"

/* Positions of transactions that touched nothing captured are told this often. */
#define POSITION_EVERY_US 100000
/* TABLE_MAPs remembered, and their bytes; a server with more open tables than this makes them be looked up again. */
#define TABLES_MAX 65536
#define TABLES_BYTES_MAX ((size_t)64 << 20)

/* Whether ROLLBACK undoes changes of a table. */
typedef enum undoing { UNDONE_YES = 0, UNDONE_NO, UNDONE_UNKNOWN } undoing;

/* What a table id stands for at the moment. */
typedef struct table {
    wr_row_plan *plan;   /* NULL: not captured, passed over */
    bool older;          /* its rows are older than the definition, which the next map may be no more */
    wr_cascade_table *cause; /* not captured, and changes of its rows reach captured tables */
    undoing undoing;
    uint64_t group;      /* in which it last had rows */
    const wr_my_table *def; /* with a plan: borrowed as by that */
    size_t n;
    uint8_t identity[];  /* the map's bytes: an id whose map has changed is looked up again */
} table;

typedef enum group_kind { GROUP_NONE = 0, GROUP_OPEN /* its first event was a GTID */, GROUP_BEGUN /* ends with a commit event */ } group_kind;

struct wr_applier {
    wr_applier_env env;
    wr_event_format format;
    char file[WR_POS_FILE_MAX];
    uint64_t offset;        /* behind the last event */
    uint32_t epoch;
    bool unplaced;          /* begun by GTID: what of the file is passed over by the server is not known yet, so offset says nothing */
    uint64_t start;         /* of the event at hand */
    wr_event ev;            /* at hand */
    bool sink_failed;       /* the error is the sink's own */

    group_kind group;
    bool xa;                /* rows go to the spool */
    wr_xid xid;
    bool standalone, skip_statement; /* MariaDB */
    bool given;             /* something went to the sink since the last commit */
    bool rows_transactional, rows_other, rows_unknown;
    uint64_t group_no;
    uint64_t group_at;      /* where it begins */
    uint64_t again_at;      /* where the one begins that is read a second time */
    uint32_t nested;        /* events of a TRANSACTION_PAYLOAD so far */
    uint64_t changes;       /* events with rows that may be undone */
    wr_savepoints *savepoints;
    bool second;            /* reading it a second time: savepoints has what was undone */
    wr_u64map *doubted;     /* captured tables of which it was told that what was undone is not certain */
    int64_t commit_us;      /* MySQL's GTID event, else 0 */

    wr_gtid_set *set;       /* NULL: not known, so positions carry none */
    bool gtid_pending;
    wr_ev_gtid gtid;
    wr_ev_maria_gtid maria_gtid;
    wr_buf set_text;
    bool set_changed;       /* set_text is older than set */

    bool untold;            /* the position moved since the last commit to the sink */
    int64_t told_at_us, untold_event_us;

    wr_u64map *tables;
    size_t tables_bytes;
    bool statement_over;    /* its rows have come: the next TABLE_MAP is of another one */
    uint64_t last_id; table *last_table;
    uint64_t generation;    /* of the catalogue, to which these belong */
    wr_cascades *cascades;  /* NULL: to be made */
    wr_buf scratch;         /* uncompressed events */
    wr_payload *payload;

    struct { unsigned id; char name[72]; } collations[8]; /* looked up at the server; used in turn */
    unsigned ncollations;

    bool searching, found;
    wr_xid wanted;
};

static void table_free(void *p) {
    table *t = p;
    wr_row_plan_free(t->plan);
    wr_free(t);
}

static bool forget_tables(wr_applier *a) {
    wr_u64map_free(a->tables, table_free);
    a->last_table = NULL;
    a->tables_bytes = 0;
    wr_cascades_free(a->cascades);
    a->cascades = NULL;
    a->generation = wr_catalogue_generation(a->env.catalogue);
    return (a->tables = wr_u64map_new()) != NULL;
}

wr_code wr_applier_new(const wr_applier_env *env, const wr_pos *from, wr_applier **ret_applier, wr_err *err) {
    wr_applier *a = wr_calloc(1, sizeof *a);
    if (!a) return wr_nomem(err, "stream", sizeof *a);
    a->env = *env;
    memcpy(a->file, from->file, sizeof a->file);
    a->offset = from->offset;
    a->epoch = from->epoch;
    a->unplaced = !from->file[0] && from->gtid_set;
    a->savepoints = wr_savepoints_new();
    a->doubted = wr_u64map_new();
    wr_code rc = a->savepoints && a->doubted && forget_tables(a) ? WR_OK : wr_nomem(err, "stream", 0);
    if (rc == WR_OK && env->gtid && from->gtid_set) {
        rc = wr_gtid_set_parse(env->flavor, from->gtid_set, &a->set, err);
        a->set_changed = true;
    }
    if (rc != WR_OK) return wr_applier_free(a), rc;
    *ret_applier = a;
    return WR_OK;
}

void wr_applier_free(wr_applier *a) {
    if (!a) return;
    if (a->tables) wr_u64map_free(a->tables, table_free);
    wr_cascades_free(a->cascades);
    wr_savepoints_free(a->savepoints);
    if (a->doubted) wr_u64map_free(a->doubted, NULL);
    wr_gtid_set_free(a->set);
    wr_buf_free(&a->set_text);
    wr_buf_free(&a->scratch);
    wr_payload_free(a->payload);
    wr_free(a);
}

bool wr_applier_unplaced(const wr_applier *a) { return a->unplaced && a->group == GROUP_NONE; }
void wr_applier_place(wr_applier *a, const wr_pos *at) {
    memcpy(a->file, at->file, sizeof a->file);
    a->offset = at->offset;
    a->unplaced = false;
    a->untold = true;
}
bool wr_applier_in_transaction(const wr_applier *a) { return a->group != GROUP_NONE; }
const char *wr_applier_file(const wr_applier *a) { return a->file; }
uint64_t wr_applier_offset(const wr_applier *a) { return a->offset; }
void wr_applier_search(wr_applier *a, const wr_xid *xid) { a->searching = true, a->wanted = *xid; }
bool wr_applier_found(const wr_applier *a) { return a->found; }

static inline void count(uint64_t *c, uint64_t by) { __atomic_store_n(c, *c + by, __ATOMIC_RELAXED); }

/* ------------------------------------------------------------------ to the sink */
static wr_code of_sink(wr_applier *a, wr_code rc) {
    if (__builtin_expect(rc != WR_OK, 0)) a->sink_failed = true;
    return rc;
}

/* Tells the position behind the last event. */
static wr_code tell(wr_applier *a, int64_t event_us, wr_err *err) {
    if (a->set && a->set_changed) {
        WR_TRY(wr_gtid_set_print(a->set, &a->set_text, err));
        if (!wr_buf_cstr(&a->set_text)) return wr_nomem(err, "GTID set", a->set_text.n);
        a->set_changed = false;
    }
    wr_pos pos = {.offset = a->offset, .epoch = a->epoch, .gtid_set = a->set ? (char *)a->set_text.p : NULL};
    memcpy(pos.file, a->file, sizeof pos.file);
    WR_TRY(of_sink(a, a->env.sink->commit(a->env.sink->ctx, &pos, event_us, err)));
    wr_catalogue_commit(a->env.catalogue);
    a->given = a->untold = false;
    a->told_at_us = wr_mono_us();
    if (a->generation != wr_catalogue_generation(a->env.catalogue) && !forget_tables(a)) return wr_nomem(err, "stream", 0); /* the sink may add tables then */
    return WR_OK;
}

static bool must_tell(const wr_applier *a) {
    if (!a->env.join_at || !a->env.join_at->file[0]) return false;
    wr_pos here = {.offset = a->offset, .epoch = a->epoch};
    memcpy(here.file, a->file, sizeof here.file);
    return wr_pos_cmp(&here, a->env.join_at) >= 0;
}

/* A place between transactions that is worth telling, but not at once. */
static wr_code moved(wr_applier *a, int64_t event_us, wr_err *err) {
    if (a->searching || a->unplaced) return WR_OK;
    a->untold = true;
    if (event_us) a->untold_event_us = event_us;
    return wr_mono_us() - a->told_at_us >= POSITION_EVERY_US ? tell(a, a->untold_event_us, err) : WR_OK;
}

wr_code wr_applier_idle(wr_applier *a, wr_err *err) {
    return a->untold && a->group == GROUP_NONE ? tell(a, a->untold_event_us, err) : WR_OK;
}

static void group_clear(wr_applier *a) {
    a->group = GROUP_NONE;
    a->xa = a->standalone = a->skip_statement = a->rows_transactional = a->rows_other = a->rows_unknown = a->gtid_pending = a->second = false;
    a->changes = 0;
    a->group_no++;
    wr_savepoints_clear(a->savepoints);
    a->commit_us = 0;
    if (a->cascades) wr_cascades_next(a->cascades);
}

/* The transaction never came to its end: the connection or the server stopped in the middle, or it was rolled back. */
static wr_code give_up(wr_applier *a, wr_err *err) {
    bool given = a->given;
    if (a->xa && a->env.spool) wr_xa_spool_discard(a->env.spool);
    group_clear(a);
    a->given = false;
    if (a->searching) return WR_OK;
    wr_catalogue_rollback(a->env.catalogue);
    if (!forget_tables(a)) return wr_nomem(err, "stream", 0); /* plans borrow what the rollback may have undone */
    return given ? of_sink(a, a->env.sink->abort(a->env.sink->ctx, err)) : WR_OK;
}

wr_code wr_applier_cut(wr_applier *a, wr_err *err) {
    if (a->sink_failed) a->given = false; /* it knows */
    return give_up(a, err);
}

static wr_code take_gtid(wr_applier *a, wr_err *err) {
    if (!a->gtid_pending || !a->set) return WR_OK;
    a->set_changed = true;
    if (a->env.flavor == WR_MARIADB)
        return wr_gtid_set_add_maria(a->set, a->maria_gtid.domain, a->maria_gtid.server_id, a->maria_gtid.seq, err);
    if (a->gtid.anonymous) return WR_OK;
    if (wr_gtid_set_has(a->set, a->gtid.uuid, a->gtid.tag, a->gtid.gno))
        return wr_fail(err, WR_E_GAP, WR_RETRY_NO, "the source's history changed (RESET BINARY LOGS AND GTIDS, a restored backup): transaction number %llu comes a second time", (unsigned long long)a->gtid.gno);
    return wr_gtid_set_add_mysql(a->set, a->gtid.uuid, a->gtid.tag, a->gtid.gno, err);
}

static int64_t event_time(const wr_applier *a) { return a->commit_us ? a->commit_us : (int64_t)a->ev.timestamp * 1000000; }

typedef struct names { wr_buf text; uint64_t group; int n; } names;

static void name_table(void *ctx, uint64_t id, void *value) {
    names *l = ctx;
    const table *t = value;
    if (!t->plan || t->group != l->group || ++l->n > 8) return;
    if (l->n == 8) wr_buf_printf(&l->text, ", ...");
    else wr_buf_printf(&l->text, "%s%s.%s", l->n > 1 ? ", " : "", t->def->db, t->def->name);
}

/* To an error about what was undone: which tables are concerned, and the way out. */
__attribute__((cold, noinline)) static wr_code undoing_failed(wr_applier *a, wr_err *err) {
    names l = {.group = a->group_no};
    wr_u64map_each(a->tables, name_table, &l);
    wr_code rc = wr_err_in(err, "a transaction that was rolled back in part; it changes %s", l.n && wr_buf_cstr(&l.text) ? (char *)l.text.p : "no captured table");
    wr_err_cure(err, "these tables must be read again from a position behind this transaction: exclude them, start, wait until the stream is past it, and take them in again");
    wr_buf_free(&l.text);
    return rc;
}

/* What was undone of the transaction is known now: it is read once more, without that. */
static wr_code read_again(wr_applier *a, wr_err *err) {
    wr_pos at = {.offset = a->group_at, .epoch = a->epoch};
    memcpy(at.file, a->file, sizeof at.file);
    if (!a->env.again) {
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "it would have to be read a second time, and here that cannot be done");
        return undoing_failed(a, err);
    }
    wr_savepoints *undone = a->savepoints;
    if (!(a->savepoints = wr_savepoints_new())) return a->savepoints = undone, wr_nomem(err, "savepoints", 0);
    wr_code rc = give_up(a, err);
    wr_savepoints_free(a->savepoints);
    a->savepoints = undone;
    WR_TRY(rc);
    a->second = true;
    a->offset = a->again_at = at.offset;
    if (a->set && a->set_changed) {
        WR_TRY(wr_gtid_set_print(a->set, &a->set_text, err));
        if (!wr_buf_cstr(&a->set_text)) return wr_nomem(err, "GTID set", a->set_text.n);
        a->set_changed = false;
    }
    at.gtid_set = a->set ? (char *)a->set_text.p : NULL;
    return a->env.again(a->env.ctx, &at, err);
}

static bool must_read_again(const wr_applier *a) { return !a->second && wr_savepoints_any(a->savepoints); }

/* The transaction at hand is complete. */
static wr_code commit_group(wr_applier *a, wr_err *err) {
    if (must_read_again(a)) return read_again(a, err);
    int64_t us = event_time(a);
    if (!a->searching) {
        WR_TRY(take_gtid(a, err));
        if (a->env.stats) count(&a->env.stats->transactions, 1);
    }
    group_clear(a);
    return a->given ? tell(a, us, err) : moved(a, us, err);
}

/* ------------------------------------------------------------------ changes without row events */
static bool logs_cascades(const wr_applier *a) {
    return !a->format.is_mariadb && a->env.flavor != WR_MARIADB && a->format.server_version_num >= 90600 && !a->env.native_fk;
}

/* NULL: this server tells everything. */
static wr_code cascades(wr_applier *a, wr_cascades **ret, wr_err *err) {
    *ret = NULL;
    if (!a->env.sink->stale || a->searching || logs_cascades(a)) return WR_OK;
    if (!a->cascades) WR_TRY(wr_cascades_new(a->env.catalogue, &a->cascades, err));
    *ret = a->cascades;
    return WR_OK;
}

static wr_code give_stale(void *ctx, uint32_t id, const wr_cascade_table *cause, wr_op op, wr_err *err) {
    wr_applier *a = ctx;
    char why[1024];
    snprintf(why, sizeof why, "rows of %s.%s were %s at %s:%" PRIu64 ", and a foreign key took that to this table", wr_cascade_table_db(cause), wr_cascade_table_name(cause),
             op == WR_OP_DELETE ? "deleted" : "updated", a->file, a->offset);
    a->given = true;
    return of_sink(a, a->env.sink->stale(a->env.sink->ctx, id, why, err));
}

/* Rows of a table that is not captured, or of a transaction whose rows were not kept (t NULL). */
static wr_code unseen_rows(wr_applier *a, wr_cascade_table *t, wr_op op, wr_err *err) {
    wr_cascades *g;
    WR_TRY(cascades(a, &g, err));
    if (!g) return WR_OK;
    return t ? wr_cascades_rows(g, t, op, wr_slice_of(NULL, 0), wr_slice_of(NULL, 0), give_stale, a, err) : wr_cascades_unseen(g, give_stale, a, err);
}

static wr_code give_change(void *ctx, const wr_change *c, wr_err *err) {
    wr_applier *a = ctx;
    a->given = true;
    wr_cascades *g = NULL;
    if (c->op != WR_OP_INSERT) WR_TRY(cascades(a, &g, err));
    wr_cascade_table *t = g ? wr_cascades_of_id(g, c->table) : NULL;
    if (t) WR_TRY(wr_cascades_rows(g, t, (wr_op)c->op, c->before, c->after, give_stale, a, err));
    return of_sink(a, a->env.sink->change(a->env.sink->ctx, c, err));
}

static wr_code spool_change(void *ctx, const wr_change *c, wr_err *err) {
    wr_applier *a = ctx;
    return wr_xa_spool_add(a->env.spool, c, err);
}

static wr_code give_ddl(void *ctx, const wr_ddl *d, wr_err *err) {
    wr_applier *a = ctx;
    a->given = true;
    return of_sink(a, a->env.sink->ddl(a->env.sink->ctx, d, err));
}

/* ------------------------------------------------------------------ XA */
/* Other patterns may have come between the prepare and the commit: a table that is not captured any more has no changes. */
static wr_code give_spooled(void *ctx, const wr_change *c, wr_err *err) {
    wr_applier *a = ctx;
    return wr_catalogue_has(a->env.catalogue, c->table) ? give_change(ctx, c, err) : WR_OK;
}

static wr_code xa_begin(wr_applier *a, const wr_xid *xid, wr_err *err) {
    if (a->searching && !wr_xid_eq(xid, &a->wanted)) return WR_OK; /* its rows are passed over */
    if (!a->env.spool) return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "an XA transaction, and there is no spool folder for it");
    a->xa = true;
    a->xid = *xid;
    return wr_xa_spool_begin(a->env.spool, xid, err);
}

static wr_place place_now(const wr_applier *a) { return (wr_place){.offset = a->offset, .nested = a->nested}; }

static void position_now(const wr_applier *a, wr_pos *pos) {
    *pos = (wr_pos){.offset = a->offset, .epoch = a->epoch};
    memcpy(pos->file, a->file, sizeof pos->file);
}

static wr_code on_xa_prepare(wr_applier *a, wr_err *err) {
    wr_ev_xa_prepare x;
    WR_TRY(wr_event_xa_prepare_parse(&a->ev, &x, err));
    if (a->xa && !wr_xid_eq(&x.xid, &a->xid)) {
        char is[320], was[320];
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "XA PREPARE of %s inside the transaction %s", wr_xid_print(&x.xid, is), wr_xid_print(&a->xid, was));
    }
    if (!a->xa && !a->searching) { /* nothing said XA START */
        if (a->given) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "XA PREPARE at the end of a transaction that did not begin with XA START");
        WR_TRY(xa_begin(a, &x.xid, err));
    }
    if (must_read_again(a)) return read_again(a, err);
    if (a->searching && a->env.xa_word && !x.one_phase) a->env.xa_word(a->env.ctx, &x.xid, true);
    if (a->xa && x.one_phase) {
        uint64_t rows = 0;
        if (a->searching) wr_xa_spool_discard(a->env.spool);
        else {
            WR_TRY(wr_xa_spool_one_phase(a->env.spool, give_change, a, &rows, err));
            WR_TRY(unseen_rows(a, NULL, WR_OP_DELETE, err));
        }
    } else if (a->xa) {
        wr_pos pos;
        position_now(a, &pos);
        WR_TRY(wr_xa_spool_prepare(a->env.spool, &pos, err)); /* durable before the position moves past it */
        a->found |= a->searching;
    }
    a->xa = false;
    return commit_group(a, err);
}

static wr_slice behind(wr_slice sql, int words) { /* what stands behind the first words */
    size_t i = 0;
    for (int w = 0; w < words; w++) {
        while (i < sql.n && (sql.p[i] == ' ' || sql.p[i] == '\t' || sql.p[i] == '\n')) i++;
        while (i < sql.n && sql.p[i] != ' ' && sql.p[i] != '\t' && sql.p[i] != '\n') i++;
    }
    return wr_slice_of(sql.p + i, sql.n - i);
}

static wr_code xid_of_statement(wr_slice sql, wr_xid *ret, wr_err *err) {
    if (wr_xid_parse_text(behind(sql, 2), ret)) return WR_OK;
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "no transaction id in: %.*s", (int)(sql.n > 200 ? 200 : sql.n), (const char *)sql.p);
}

static wr_code on_xa_commit(wr_applier *a, wr_slice sql, wr_err *err) {
    wr_xid xid;
    WR_TRY(xid_of_statement(sql, &xid, err));
    if (a->searching) return commit_group(a, err);
    char name[320];
    if (!a->env.spool) return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "an XA transaction, and there is no spool folder for it");
    /* "XA COMMIT ... ONE PHASE" as text: its rows are in this very group */
    if (a->xa && wr_xid_eq(&xid, &a->xid)) {
        if (must_read_again(a)) return read_again(a, err);
        uint64_t rows = 0;
        WR_TRY(wr_xa_spool_one_phase(a->env.spool, give_change, a, &rows, err));
        WR_TRY(unseen_rows(a, NULL, WR_OP_DELETE, err));
        a->xa = false;
        return commit_group(a, err);
    }
    if (!wr_xa_spool_has(a->env.spool, &xid) && a->env.hunt) WR_TRY(a->env.hunt(a->env.ctx, &xid, err));
    if (!wr_xa_spool_has(a->env.spool, &xid)) {
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO,
                "XA COMMIT of %s: it was prepared before the position this stream began at, and its rows are not in the binlogs the server still has",
                wr_xid_print(&xid, name));
        return wr_err_cure(err, "read the tables it may have changed again, from a position behind this one");
    }
    wr_pos pos;
    position_now(a, &pos);
    uint64_t rows = 0;
    WR_TRY(wr_xa_spool_commit(a->env.spool, &xid, &pos, give_spooled, a, &rows, err));
    WR_TRY(unseen_rows(a, NULL, WR_OP_DELETE, err));
    return commit_group(a, err);
}

/* ------------------------------------------------------------------ statements */
static wr_code on_rollback(wr_applier *a, wr_err *err) {
    /* A replica undoes the changes of transactional tables and keeps the others. The servers keep both kinds apart, in groups of
     * their own; only a function called by CREATE TABLE ... SELECT mixes them (MariaDB). */
    if (!a->second && (a->rows_other || a->rows_unknown) && (a->rows_transactional || a->rows_unknown)) {
        WR_TRY(wr_savepoints_rollback(a->savepoints, place_now(a), err));
        return read_again(a, err);
    }
    if (a->rows_other || a->rows_unknown) return commit_group(a, err);
    int64_t us = event_time(a);
    if (!a->searching) WR_TRY(take_gtid(a, err));
    a->gtid_pending = false;
    WR_TRY(give_up(a, err));
    return moved(a, us, err);
}

static bool is_word(wr_slice sql, const char *word) {
    size_t n = strlen(word);
    return sql.n == n && strncasecmp((const char *)sql.p, word, n) == 0;
}

/* A collation's name by its id, NULL when the server does not say. */
static const char *collation_name(wr_applier *a, MYSQL *m, unsigned id) {
    for (unsigned i = 0; i < a->ncollations && i < 8; i++)
        if (a->collations[i].id == id) return a->collations[i].name;
    if (!m || id == 0) return NULL;
    wr_err ignored = WR_ERR_INIT;
    WR_AUTO char *name = NULL;
    wr_my_scalar(m, &name, &ignored, "SELECT COLLATION_NAME FROM information_schema.COLLATIONS WHERE ID = %u", id);
    /* MariaDB since 10.10 keeps the ids of some here only */
    if (!name && a->env.flavor == WR_MARIADB)
        wr_my_scalar(m, &name, &ignored, "SELECT FULL_COLLATION_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE ID = %u", id);
    if (!name || strlen(name) >= sizeof a->collations[0].name) return NULL;
    unsigned at = a->ncollations++ % 8;
    a->collations[at].id = id;
    return memcpy(a->collations[at].name, name, strlen(name) + 1);
}

static wr_code apply_statement(wr_applier *a, const wr_ev_query *q, wr_err *err) {
    const char *charset = q->charset_client ? wr_charset_of_collation(q->charset_client) : NULL;
    MYSQL *m = NULL;
    if (a->env.connection) WR_TRY(a->env.connection(a->env.ctx, &m, err));
    wr_statement st = {
        .default_db = q->db, .sql = q->sql, .charset = charset, .time_zone = q->time_zone[0] ? q->time_zone : NULL,
        .collation_server = collation_name(a, m, q->collation_server), .session = q->thread_id, .explicit_timestamp = q->explicit_timestamp,
        .sql_mode = q->sql_mode, .is_mariadb = a->format.is_mariadb || a->env.flavor == WR_MARIADB,
        .server_version = a->format.server_version_num, .file = a->file, .offset = a->start, .epoch = a->epoch,
        .maybe_nothing = !a->format.is_mariadb && a->env.flavor == WR_MYSQL && !q->ddl_xid && a->group != GROUP_BEGUN, /* CREATE ... SELECT has its own */
    };
    wr_statement_kind kind = WR_STMT_IGNORED;
    WR_TRY(wr_catalogue_statement(a->env.catalogue, &st, m, give_ddl, a, &kind, err));
    wr_xid xid;
    switch (kind) {
    case WR_STMT_BEGIN:
        a->group = GROUP_BEGUN;
        return WR_OK;
    case WR_STMT_COMMIT: return commit_group(a, err);
    case WR_STMT_ROLLBACK: return on_rollback(a, err);
    case WR_STMT_SAVEPOINT:
    case WR_STMT_ROLLBACK_TO: /* those that wr_savepoint_parse knows never come here */
        wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "no savepoint's name in: %.*s", (int)(q->sql.n > 200 ? 200 : q->sql.n), (const char *)q->sql.p);
        return undoing_failed(a, err);
    case WR_STMT_XA_START:
        WR_TRY(xid_of_statement(q->sql, &xid, err));
        a->group = GROUP_BEGUN;
        return a->xa ? WR_OK : xa_begin(a, &xid, err); /* MariaDB's GTID has said so already */
    case WR_STMT_XA_END:
    case WR_STMT_XA_PREPARE: return WR_OK; /* the event of that name follows */
    case WR_STMT_XA_COMMIT: return on_xa_commit(a, q->sql, err);
    case WR_STMT_XA_ROLLBACK:
        WR_TRY(xid_of_statement(q->sql, &xid, err));
        if (a->xa) WR_TRY(give_up(a, err));
        if (a->env.spool) WR_TRY(wr_xa_spool_rollback(a->env.spool, &xid, err));
        return commit_group(a, err);
    case WR_STMT_DDL:
        a->given = true; /* the catalogue changed, even if no captured table did: it must not be undone with a later transaction */
        if (!forget_tables(a)) return wr_nomem(err, "stream", 0); /* their definitions may be others now */
        break;
    case WR_STMT_IGNORED: break;
    }
    /* Inside BEGIN ... COMMIT (CREATE TABLE ... SELECT, temporary tables) the transaction goes on; else the statement is one. */
    return a->group == GROUP_BEGUN ? WR_OK : commit_group(a, err);
}

/* ------------------------------------------------------------------ savepoints */
static wr_code same_savepoint(void *ctx, wr_slice x, wr_slice y, bool *ret, wr_err *err) {
    wr_applier *a = ctx;
    MYSQL *m = NULL;
    if (a->env.connection) WR_TRY(a->env.connection(a->env.ctx, &m, err));
    if (!m) return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "whether savepoint %.*s is %.*s for the server cannot be asked", (int)x.n, (const char *)x.p, (int)y.n, (const char *)y.p);
    WR_AUTO_BUF wr_buf q = WR_BUF_INIT;
    wr_buf_printf(&q, "SELECT _utf8mb4 x'");
    for (size_t i = 0; i < x.n; i++) wr_buf_printf(&q, "%02x", x.p[i]);
    wr_buf_printf(&q, "' = _utf8mb4 x'");
    for (size_t i = 0; i < y.n; i++) wr_buf_printf(&q, "%02x", y.p[i]);
    wr_buf_printf(&q, "' COLLATE utf8mb4_general_ci");
    if (!wr_buf_cstr(&q)) return wr_nomem(err, "a query", q.n);
    WR_AUTO char *is = NULL;
    WR_TRY(wr_my_scalar(m, &is, err, "%s", (char *)q.p));
    *ret = is && strcmp(is, "1") == 0;
    return WR_OK;
}

/* *ret_done: the statement was one. */
static wr_code on_savepoint(wr_applier *a, wr_slice sql, bool *ret_done, wr_err *err) {
    WR_AUTO_BUF wr_buf name = WR_BUF_INIT;
    wr_savepoint_word w = sql.n > 9 && (sql.p[0] == 'S' || sql.p[0] == 'R' || sql.p[0] == 's' || sql.p[0] == 'r') ? wr_savepoint_parse(sql, &name) : WR_SP_NONE;
    *ret_done = w != WR_SP_NONE;
    if (w == WR_SP_NONE || a->second || (a->searching && !a->xa)) return WR_OK;
    WR_TRY(wr_buf_check(&name, "savepoint", err));
    wr_code rc = w == WR_SP_SET ? wr_savepoints_set(a->savepoints, wr_buf_view(&name), place_now(a), a->changes, err)
                                : wr_savepoints_rollback_to(a->savepoints, wr_buf_view(&name), place_now(a), a->changes, same_savepoint, a, err);
    return rc == WR_E_UNSUPPORTED || rc == WR_E_LIMIT ? undoing_failed(a, err) : rc;
}

/* While searching only what begins and ends transactions matters. */
static wr_code search_statement(wr_applier *a, const wr_ev_query *q, wr_err *err) {
    wr_xid xid;
    bool ends = (q->sql.n > 10 && strncasecmp((const char *)q->sql.p, "XA COMMIT ", 10) == 0) || (q->sql.n > 12 && strncasecmp((const char *)q->sql.p, "XA ROLLBACK ", 12) == 0);
    if (ends && a->env.xa_word && wr_xid_parse_text(behind(q->sql, 2), &xid)) a->env.xa_word(a->env.ctx, &xid, false);
    if (q->sql.n > 9 && strncasecmp((const char *)q->sql.p, "XA START ", 9) == 0 && wr_xid_parse_text(behind(q->sql, 2), &xid)) {
        a->group = GROUP_BEGUN;
        return a->xa ? WR_OK : xa_begin(a, &xid, err);
    }
    return a->group == GROUP_BEGUN ? WR_OK : commit_group(a, err);
}

static wr_code on_query(wr_applier *a, wr_err *err) {
    wr_ev_query q;
    WR_TRY(wr_event_query_parse(&a->ev, &a->scratch, &q, err));
    if (a->group == GROUP_NONE) a->group = GROUP_OPEN;
    if (is_word(q.sql, "BEGIN")) return a->group = GROUP_BEGUN, WR_OK;
    if (is_word(q.sql, "COMMIT")) return commit_group(a, err);
    if (is_word(q.sql, "ROLLBACK")) return on_rollback(a, err);
    if (a->skip_statement) return commit_group(a, err); /* half of a two-phase ALTER */
    bool done;
    WR_TRY(on_savepoint(a, q.sql, &done, err));
    if (done) return WR_OK;
    return a->searching ? search_statement(a, &q, err) : apply_statement(a, &q, err);
}

/* ------------------------------------------------------------------ rows */
/* By the engine's name. A table made without one is taken for one of InnoDB: where an event can be undone at all, the servers log changes of other engines in groups
 * of their own. */
static undoing undoing_of(const wr_my_table *t) {
    static const char *const yes[] = {"InnoDB", "XtraDB", "RocksDB", "TokuDB", "ndbcluster", "NDB"};
    static const char *const no[] = {"MyISAM", "Aria", "MEMORY", "HEAP", "CSV", "ARCHIVE", "MRG_MyISAM", "MERGE", "S3", "BLACKHOLE"};
    if (!t->engine) return UNDONE_YES;
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        if (strcasecmp(t->engine, yes[i]) == 0) return UNDONE_YES;
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (strcasecmp(t->engine, no[i]) == 0) return UNDONE_NO;
    return UNDONE_UNKNOWN;
}

/* Whether these rows of t were undone is not certain: it must be read again. */
static wr_code doubt(wr_applier *a, const table *t, wr_err *err) {
    if (a->xa || !a->env.sink->stale) {
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "whether the server undid these rows of %s.%s cannot be told from the binlog (%s)", t->def->db, t->def->name,
                t->undoing == UNDONE_UNKNOWN ? "its engine is not known here" : "a savepoint's name was set twice, which means another thing in triggers and functions");
        return undoing_failed(a, err);
    }
    if (wr_u64map_get(a->doubted, t->def->id)) return WR_OK;
    if (!wr_u64map_put(a->doubted, t->def->id, a)) return wr_nomem(err, "tables", 0);
    char why[1024];
    snprintf(why, sizeof why, "a transaction that ends behind %s:%" PRIu64 " was rolled back in part, and whether that includes rows of this table cannot be told (%s)", a->file, a->offset,
             t->undoing == UNDONE_UNKNOWN ? "its engine is not known here" : "the savepoint's name was set twice");
    a->given = true;
    return of_sink(a, a->env.sink->stale(a->env.sink->ctx, t->def->id, why, err));
}

/* Whether these rows are to be passed over: they were undone, or are going to be read again. */
static wr_code passes_over(wr_applier *a, table *t, bool *ret, wr_err *err) {
    if (t->undoing != UNDONE_NO) a->changes++;
    if (t->undoing == UNDONE_YES) a->rows_transactional = true;
    else if (t->undoing == UNDONE_NO) a->rows_other = true;
    else a->rows_unknown = true;
    t->group = a->group_no;
    *ret = !a->second;
    if (!wr_savepoints_any(a->savepoints)) *ret = false;
    if (!a->second || t->undoing == UNDONE_NO) return WR_OK;
    *ret = wr_savepoints_undone(a->savepoints, place_now(a));
    bool unsure = *ret ? t->undoing == UNDONE_UNKNOWN : wr_savepoints_doubtful(a->savepoints, place_now(a));
    return unsure ? doubt(a, t, err) : WR_OK;
}

/* Maps are valid within their statement: between statements they may be forgotten. */
static wr_code bound_tables(wr_applier *a, wr_err *err) {
    bool full = wr_u64map_len(a->tables) >= TABLES_MAX || a->tables_bytes >= TABLES_BYTES_MAX, begins = a->statement_over;
    a->statement_over = false;
    if (!full) return WR_OK;
    if (begins) return forget_tables(a) ? WR_OK : wr_nomem(err, "stream", 0);
    return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "one statement names %zu tables with %zu MB of columns", wr_u64map_len(a->tables), a->tables_bytes >> 20);
}

static wr_code on_table_map(wr_applier *a, wr_err *err) {
    wr_ev_table_map m;
    if (a->group == GROUP_NONE) a->group = GROUP_BEGUN;
    if (a->searching && !a->xa) return WR_OK; /* what is known of tables now need not fit then */
    WR_TRY(wr_event_table_map_parse(&a->ev, &a->format, &m, err));
    WR_TRY(bound_tables(a, err));
    table *t = wr_u64map_get(a->tables, m.table_id);
    if (t && !t->older && t->n == m.identity.n && memcmp(t->identity, m.identity.p, t->n) == 0) {
        a->last_id = m.table_id, a->last_table = t;
        return WR_OK;
    }
    a->last_table = NULL;
    if (t) {
        a->tables_bytes -= t->n;
        table_free(wr_u64map_del(a->tables, m.table_id));
    }
    t = wr_calloc(1, sizeof *t + m.identity.n);
    if (!t) return wr_nomem(err, "table", sizeof *t + m.identity.n);
    t->n = m.identity.n;
    memcpy(t->identity, m.identity.p, t->n);

    char db[256], name[256];
    memcpy(db, m.db.p, m.db.n), db[m.db.n] = 0;
    memcpy(name, m.name.p, m.name.n), name[m.name.n] = 0;
    wr_code rc = WR_OK;
    if (wr_catalogue_captured(a->env.catalogue, db, name)) {
        const wr_my_table *def = wr_catalogue_find(a->env.catalogue, db, name);
        if (!def) {
            rc = wr_fail(err, WR_E_SCHEMA, WR_RETRY_NO, "table %s.%s is captured and has rows in the binlog, but the schema history does not know it", db, name);
            wr_err_cure(err, "its CREATE was not in the binlog (sql_log_bin=0?): take the table out and in again, so that it is read anew");
        } else {
            /* the load that came with the definition reads what these rows did: a table is only altered when those who wrote to it have ended. That they fit the
             * definition would not mean that it is theirs: a text's character set is nowhere in the event */
            t->older = wr_my_table_ahead(def, a->epoch, a->file, a->start);
            if (!t->older) rc = wr_row_plan_new(def, &m, &a->format, a->env.types, &t->plan, err);
            t->undoing = undoing_of(def);
            t->def = def;
        }
    } else {
        wr_cascades *g;
        rc = cascades(a, &g, err);
        if (rc == WR_OK && g) t->cause = wr_cascades_of_name(g, db, name);
    }
    if (rc == WR_OK && !wr_u64map_put(a->tables, m.table_id, t)) rc = wr_nomem(err, "table", 0);
    if (rc != WR_OK) return table_free(t), rc;
    a->tables_bytes += t->n;
    a->last_id = m.table_id, a->last_table = t;
    return WR_OK;
}

static wr_op rows_op(uint8_t type) {
    switch (type) {
    case EV_DELETE_ROWS_V0: case EV_DELETE_ROWS_V1: case EV_DELETE_ROWS: case EV_DELETE_ROWS_COMPRESSED_V1: case EV_DELETE_ROWS_COMPRESSED: return WR_OP_DELETE;
    case EV_UPDATE_ROWS_V0: case EV_UPDATE_ROWS_V1: case EV_UPDATE_ROWS: case EV_PARTIAL_UPDATE_ROWS: case EV_UPDATE_ROWS_COMPRESSED_V1: case EV_UPDATE_ROWS_COMPRESSED:
        return WR_OP_UPDATE;
    default: return WR_OP_INSERT;
    }
}

static wr_code on_rows(wr_applier *a, wr_err *err) {
    uint64_t id, rows = 0;
    bool end;
    if (a->searching && !a->xa) return WR_OK;
    WR_TRY(wr_event_rows_table(&a->ev, &a->format, &id, &end, err));
    a->statement_over |= end;
    table *t = a->last_table && a->last_id == id ? a->last_table : wr_u64map_get(a->tables, id);
    if (!t) {
        if (id == 0xFFFFFF || id == 0xFFFFFFFF) return WR_OK; /* the dummy that only ends a statement */
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "rows of table id %llu, which no TABLE_MAP has named", (unsigned long long)id);
    }
    wr_op op = rows_op(a->ev.type);
    /* of an XA transaction at its commit */
    if (!t->plan) return t->cause && op != WR_OP_INSERT && !a->xa ? unseen_rows(a, t->cause, op, err) : WR_OK;
    bool over;
    WR_TRY(passes_over(a, t, &over, err));
    if (over) return WR_OK;
    wr_ev_rows e;
    WR_TRY(wr_event_rows_parse(&a->ev, &a->format, &a->scratch, &e, err));
    bool large = false; /* it came alone, unless it was compressed */
    if (e.rows.n >= WR_LARGE_BYTES) wr_large_hold(&large);
    wr_code rc = wr_row_plan_decode(t->plan, &e, a->xa ? spool_change : give_change, a, &rows, err);
    wr_buf_rest(&a->scratch);
    wr_large_let_go(&large);
    if (a->env.stats && !a->searching && !a->second) count(&a->env.stats->rows, rows);
    return rc;
}

/* ------------------------------------------------------------------ files and formats */
/* Headers have the low 32 bits of the offset, and files may be longer. What would be a step back is none: after a start by GTID the
 * server sends the head of the file before what we asked for. */
static bool is_gtid(uint8_t type) { return type == EV_GTID || type == EV_GTID_TAGGED || type == EV_ANONYMOUS_GTID || type == EV_MARIA_GTID; }

static void advance(wr_applier *a) {
    uint32_t step = a->ev.log_pos - (uint32_t)a->offset;
    if (a->unplaced) { /* what comes before the first transaction need not be where that begins */
        if (is_gtid(a->ev.type)) a->offset += step, a->unplaced = false;
        return;
    }
    bool head = a->ev.type == EV_FORMAT_DESCRIPTION || a->ev.type == EV_PREVIOUS_GTIDS || a->ev.type == EV_MARIA_GTID_LIST || a->ev.type == EV_START_ENCRYPTION;
    if (step >> 31 || (head && a->ev.log_pos < a->offset)) return;
    a->offset += step;
}

static wr_code on_rotate(wr_applier *a, wr_err *err) {
    wr_ev_rotate r;
    WR_TRY(wr_event_rotate_parse(&a->ev, &r, err));
    bool artificial = a->ev.log_pos == 0 || (a->ev.flags & EV_FLAG_ARTIFICIAL);
    bool same = strlen(a->file) == r.file.n && memcmp(a->file, r.file.p, r.file.n) == 0;
    if (a->group != GROUP_NONE) WR_TRY(give_up(a, err)); /* transactions do not cross files: this one was never finished */
    if (same && artificial && r.pos <= a->offset) return WR_OK; /* where we are */
    memcpy(a->file, r.file.p, r.file.n);
    a->file[r.file.n] = 0;
    a->offset = r.pos;
    return moved(a, 0, err);
}

static wr_code on_format(wr_applier *a, wr_err *err) {
    if (a->ev.log_pos && a->group != GROUP_NONE) WR_TRY(give_up(a, err)); /* a server that stopped in the middle */
    WR_TRY(wr_event_format_parse(&a->ev, &a->format, err));
    if (a->ev.timestamp && !a->searching && a->env.sink->binlog) WR_TRY(a->env.sink->binlog(a->env.sink->ctx, wr_applier_file(a), a->ev.timestamp, err));
    if (a->ev.log_pos && a->format.server_start && !a->searching) wr_catalogue_server_started(a->env.catalogue);
    return WR_OK;
}

/* The set before this file, where ours is not known. */
static wr_code adopt_set(wr_applier *a, wr_err *err) {
    if (a->set || !a->env.gtid || a->searching) return WR_OK;
    WR_TRY(a->ev.type == EV_PREVIOUS_GTIDS ? wr_gtid_set_decode(a->ev.body, &a->set, err) : wr_gtid_set_decode_list(a->ev.body, &a->set, err));
    a->set_changed = true;
    return WR_OK;
}

static wr_code on_gtid(wr_applier *a, wr_err *err) {
    if (a->group != GROUP_NONE) WR_TRY(give_up(a, err));
    a->statement_over = true;
    if (a->ev.type == EV_MARIA_GTID) {
        WR_TRY(wr_event_maria_gtid_parse(&a->ev, &a->maria_gtid, err));
        a->standalone = a->maria_gtid.standalone;
        a->skip_statement = a->maria_gtid.start_alter || a->maria_gtid.rollback_alter;
        a->group = a->standalone || a->maria_gtid.completed_xa ? GROUP_OPEN : GROUP_BEGUN;
        if (a->maria_gtid.prepared_xa) WR_TRY(xa_begin(a, &a->maria_gtid.xid, err));
    } else {
        WR_TRY(wr_event_gtid_parse(&a->ev, &a->gtid, err));
        a->commit_us = a->gtid.commit_us;
        if (a->commit_us && a->env.stats && !a->searching) __atomic_store_n(&a->env.stats->last_event_us, a->commit_us, __ATOMIC_RELAXED);
        a->group = GROUP_OPEN;
    }
    a->gtid_pending = true;
    return WR_OK;
}

static wr_code on_incident(wr_applier *a, wr_err *err) {
    wr_rd r = wr_rd_of(a->ev.body.p, a->ev.body.n);
    unsigned number = wr_rd_u16(&r);
    wr_slice text = wr_rd_bytes(&r, wr_rd_u8(&r));
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "the server says that events were lost here (incident %u: %.*s)", number, (int)text.n, (const char *)text.p);
    return wr_err_cure(err, "changes are missing from the binlog: read the captured tables again, from a position behind this one");
}

static wr_code dispatch(wr_applier *a, bool nested, wr_err *err);

static wr_code on_nested(void *ctx, wr_slice bytes, wr_err *err) {
    wr_applier *a = ctx;
    WR_TRY(wr_event_split(&a->format, bytes, true, &a->ev, err));
    a->ev.unpacked_max = a->env.event_max;
    a->nested++;
    switch (a->ev.type) {
    case EV_TRANSACTION_PAYLOAD: case EV_FORMAT_DESCRIPTION: case EV_ROTATE: case EV_STOP: case EV_GTID: case EV_GTID_TAGGED: case EV_ANONYMOUS_GTID:
    case EV_MARIA_GTID: case EV_HEARTBEAT: case EV_HEARTBEAT_V2:
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "a %s event inside a TRANSACTION_PAYLOAD", wr_event_type_name(a->ev.type));
    default: return dispatch(a, true, err);
    }
}

static wr_code on_payload(wr_applier *a, wr_err *err) {
    if (!a->payload && !(a->payload = wr_payload_new())) return wr_nomem(err, "TRANSACTION_PAYLOAD", 0);
    wr_event outer = a->ev;
    return wr_payload_each(a->payload, &outer, on_nested, a, err);
}

static wr_code unknown_event(const wr_applier *a, wr_err *err) {
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "event type %u (%s) of server %s is not known here, and may carry changes", a->ev.type,
            wr_event_type_name(a->ev.type), a->format.server_version);
    return wr_err_cure(err, "a newer Weir may know it; or switch off the server's option that writes such events, and read the captured tables again");
}

static wr_code dispatch(wr_applier *a, bool nested, wr_err *err) {
    switch (a->ev.type) {
    case EV_TABLE_MAP: return on_table_map(a, err);
    case EV_QUERY: case EV_QUERY_COMPRESSED: return on_query(a, err);
    case EV_XID: return commit_group(a, err);
    case EV_GTID: case EV_GTID_TAGGED: case EV_ANONYMOUS_GTID: case EV_MARIA_GTID: return on_gtid(a, err);
    case EV_TRANSACTION_PAYLOAD: return on_payload(a, err);
    case EV_XA_PREPARE: return on_xa_prepare(a, err);
    case EV_ROTATE: return on_rotate(a, err);
    case EV_FORMAT_DESCRIPTION: return on_format(a, err);
    case EV_STOP: return a->group != GROUP_NONE ? give_up(a, err) : WR_OK;
    case EV_PREVIOUS_GTIDS: case EV_MARIA_GTID_LIST: return adopt_set(a, err);
    case EV_INCIDENT: return a->searching ? WR_OK : on_incident(a, err);
    case EV_HEARTBEAT: case EV_HEARTBEAT_V2: case EV_INTVAR: case EV_RAND: case EV_USER_VAR: case EV_IGNORABLE: case EV_ROWS_QUERY:
    case EV_TRANSACTION_CONTEXT: case EV_VIEW_CHANGE: case EV_ANNOTATE_ROWS: case EV_BINLOG_CHECKPOINT: case EV_START_ENCRYPTION:
        return WR_OK;
    case EV_BEGIN_LOAD_QUERY: case EV_APPEND_BLOCK: case EV_DELETE_FILE: return WR_OK; /* the file of LOAD DATA; its statement decides */
    case EV_EXECUTE_LOAD_QUERY: {
        if (a->searching) return WR_OK;
        wr_ev_query q;
        WR_TRY(wr_event_query_parse(&a->ev, &a->scratch, &q, err));
        if (a->group == GROUP_NONE) a->group = GROUP_OPEN;
        return apply_statement(a, &q, err); /* an error when it touches a captured table */
    }
    default:
        if (wr_event_is_rows(a->ev.type)) return on_rows(a, err);
        if ((a->ev.flags & EV_FLAG_IGNORABLE) || a->searching) return WR_OK;
        return unknown_event(a, err);
    }
}

wr_code wr_applier_feed(wr_applier *a, wr_slice event, wr_err *err) {
    a->start = a->offset;
    wr_code rc = wr_event_split(&a->format, event, false, &a->ev, err);
    a->ev.unpacked_max = a->env.event_max;
    if (rc == WR_OK) {
        bool real = a->ev.log_pos != 0 && !(a->ev.flags & EV_FLAG_ARTIFICIAL) && a->ev.type != EV_HEARTBEAT && a->ev.type != EV_HEARTBEAT_V2;
        if (real) advance(a);
        if (a->env.stats && !a->searching) {
            count(&a->env.stats->bytes, event.n);
            count(&a->env.stats->events, 1);
            if (real && a->ev.timestamp && !a->commit_us) __atomic_store_n(&a->env.stats->last_event_us, (int64_t)a->ev.timestamp * 1000000, __ATOMIC_RELAXED);
        }
        bool was_out = a->group == GROUP_NONE, gtid = is_gtid(a->ev.type);
        if (real && (was_out || gtid)) a->group_at = a->offset - event.n;
        a->nested = 0;
        if (gtid && a->second && a->group_at != a->again_at)
            rc = wr_fail(err, WR_E_SERVER, WR_RETRY_SOON, "the server went on at %" PRIu64 " instead of reading the transaction at %" PRIu64 " again", a->group_at, a->again_at);
        else rc = dispatch(a, false, err);
        if (rc == WR_OK && real && was_out && a->group == GROUP_NONE && !a->untold) rc = moved(a, event_time(a), err);
        if (rc == WR_OK && real && a->group == GROUP_NONE && a->untold && must_tell(a)) rc = tell(a, a->untold_event_us, err);
    }
    if (__builtin_expect(rc != WR_OK, 0) && !a->sink_failed)
        wr_err_in(err, "binlog %s, offset %llu, event %s (type %u)", a->file[0] ? a->file : "?", (unsigned long long)a->start,
                  wr_event_type_name(event.n > 4 ? event.p[4] : 0), event.n > 4 ? event.p[4] : 0);
    return rc;
}
