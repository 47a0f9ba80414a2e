/* Counts and sums that the server makes: no row goes over the wire. Each table is summed up as of exactly one position; what changes between that and the lake's position is
 * added or taken off, as sums allow. Sums that differ are no verdict: the rows are read then. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "compare_impl.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

/* Why the rows must be read; "" = they need not. */
static void why_not(const round *r, const side_table *t, char why[200]) {
    bool counts = r->what->level == WR_COMPARE_COUNTS;
    why[0] = 0;
    for (int i = 0; i < r->nread; i++)
        if (!strcmp(r->read[i].ns, t->ns) && !strcmp(r->read[i].name, t->name)) snprintf(why, 200, "%s", r->read[i].why);
    if (r->what->time_column) snprintf(why, 200, "--time-column");
    if (r->what->columns) snprintf(why, 200, "not all columns are compared");
    if (r->what->sample > 0) snprintf(why, 200, "--sample");
    for (int i = 0; i < t->nmembers; i++)
        if (t->members[i]->transform) snprintf(why, 200, "rules make the lake's rows");
    if (!counts && t->merged) snprintf(why, 200, "it is a merged table");
    else if (!counts && t->members[0]->convert) snprintf(why, 200, "its columns are not the source's in number, order and type");
}

wr_code wr_side_sums_open(round *r, side_table *t, wr_err *err) {
    char why[200];
    if (r->what->level == WR_COMPARE_CONTENT && r->what->method == WR_COMPARE_ROWS) return WR_OK;
    why_not(r, t, why);
    for (int i = 0; !why[0] && i < t->nmembers; i++) {
        side_member *m = t->members[i];
        wr_code rc = wr_snap_open(r->source, m->def, &m->snap, err);
        if (rc == WR_E_SCHEMA || rc == WR_E_NOTFOUND) {
            wr_err reason = *err;
            wr_err_clear(err);
            return wr_side_moved(t, err, "%s", reason.msg);
        }
        WR_TRY(rc);
        if (r->what->level == WR_COMPARE_CONTENT) wr_snap_can_sum(m->snap, why);
    }
    if (why[0]) return (t->report->method_why = wr_strdup(why)) ? WR_OK : wr_nomem(err, "report", 200);
    t->summed = true;
    t->report->method = r->what->level == WR_COMPARE_COUNTS ? "counts" : "pushed";
    if (r->what->level == WR_COMPARE_CONTENT) t->report->hash = t->md5 ? "md5" : "crc32";
    return WR_OK;
}

static wr_code sum_of(const side_member *m, wr_slice row, uint64_t *ret, wr_err *err) {
    wr_buf *b = &m->table->row;
    wr_h128 md5;
    wr_buf_rest(b);
    WR_TRY(wr_snap_text(m->snap, row, b, err));
    if (!m->table->md5) return *ret = wr_crc32(0, b->p, b->n), WR_OK;
    WR_TRY(wr_md5_of(m->table->md5, wr_buf_view(b), &md5, err));
    *ret = md5.hi;
    return WR_OK;
}

wr_code wr_side_sum_lake_row(side_table *t, wr_slice row, wr_err *err) {
    uint64_t sum;
    WR_TRY(sum_of(t->members[0], row, &sum, err));
    t->lake_rows++, t->lake_sum += sum;
    return WR_OK;
}

/* The server adds up while the lake is read. */
typedef struct adder { round *r; side_table *t; wr_code rc; wr_err err; } adder;

static void *add_up(void *arg) {
    adder *a = arg;
    for (int i = 0; a->rc == WR_OK && i < a->t->nmembers; i++) {
        side_member *m = a->t->members[i];
        wr_snap_total total = {0};
        a->rc = wr_snap_sum(m->snap, a->r->what->level == WR_COMPARE_COUNTS ? WR_SUM_NOTHING : a->t->md5 ? WR_SUM_MD5 : WR_SUM_CRC32, &total, &a->err);
        if (a->rc == WR_OK) m->rows = total.rows, m->sum = total.sum, m->read_at = total.pos;
    }
    return NULL;
}

static wr_code added_up(const adder *a, wr_err *err) {
    if (a->rc == WR_OK) return WR_OK;
    if (a->rc == WR_E_SCHEMA || a->rc == WR_E_NOTFOUND) return wr_side_moved(a->t, err, "%s", a->err.msg);
    if (a->rc == WR_E_AUTH && a->r->what->level == WR_COMPARE_CONTENT) return wr_side_read_rows(a->r, a->t, "the position of the sums cannot be fixed, which takes LOCK TABLES for an instant", err);
    return *err = a->err, a->rc;
}

wr_code wr_side_sum_both(round *r, side_table *t, wr_err *err) {
    adder a = {.r = r, .t = t};
    pthread_t th;
    if (pthread_create(&th, NULL, add_up, &a) != 0) return wr_nomem(err, "a thread", 0);
    wr_code rc = r->what->level == WR_COMPARE_CONTENT ? wr_side_read_lake(r, t, err) : WR_OK;
    pthread_join(th, NULL);
    return rc == WR_OK ? added_up(&a, err) : rc;
}

wr_code wr_side_sum_change(round *r, side_member *m, const wr_change *c, wr_err *err) {
    uint64_t before = 0, after = 0;
    if (r->what->level == WR_COMPARE_CONTENT && c->before.n) WR_TRY(sum_of(m, c->before, &before, err));
    if (r->what->level == WR_COMPARE_CONTENT && c->after.n) WR_TRY(sum_of(m, c->after, &after, err));
    m->open_sum += after - before;
    m->open_rows += (uint64_t)(c->after.n > 0) - (uint64_t)(c->before.n > 0);
    if (!m->touched) m->touched = true, m->next_touched = r->touched, r->touched = m;
    return WR_OK;
}

void wr_side_sum_end(round *r, const wr_pos *pos) {
    for (side_member *m; (m = r->touched); r->touched = m->next_touched) {
        bool in_lake = pos && wr_pos_cmp(pos, &m->table->at.pos) <= 0, was_read = pos && wr_pos_cmp(pos, &m->read_at) <= 0;
        if (pos && in_lake && !was_read) m->rows += m->open_rows, m->sum += m->open_sum;
        if (pos && !in_lake && was_read) m->rows -= m->open_rows, m->sum -= m->open_sum;
        m->open_rows = m->open_sum = 0, m->touched = false;
    }
}

/* Once more, with the rows. */
static wr_code note_to_read(round *r, const side_table *t, const char *why, wr_err *err) {
    to_read *list = wr_realloc(r->read, ((size_t)r->nread + 1) * sizeof *list);
    if (!list) return wr_nomem(err, "tables", sizeof *list);
    r->read = list;
    list[r->nread] = (to_read){wr_strdup(t->ns), wr_strdup(t->name), why};
    const to_read *n = &list[r->nread++];
    r->at_once = true;
    return n->ns && n->name ? WR_OK : wr_nomem(err, "tables", 64);
}

wr_code wr_side_read_rows(round *r, side_table *t, const char *why, wr_err *err) {
    pthread_mutex_lock(&r->lock);
    wr_code rc = note_to_read(r, t, why, err);
    pthread_mutex_unlock(&r->lock);
    return rc == WR_OK ? wr_side_moved(t, err, "%s", why) : rc;
}

wr_code wr_side_sum_settle(round *r, side_table *t, wr_err *err) {
    wr_table_report *rep = t->report;
    uint64_t rows = 0, sum = 0;
    for (int i = 0; i < t->nmembers; i++) rows += t->members[i]->rows, sum += t->members[i]->sum;
    rep->rows = (wr_sieve_totals){.source_rows = rows, .lake_rows = t->lake_rows};
    rep->counted = true;
    if (r->what->level == WR_COMPARE_CONTENT) return rows == t->lake_rows && sum == t->lake_sum ? WR_OK : wr_side_read_rows(r, t, "the sums differ", err);
    if (rows == t->lake_rows) return WR_OK;
    return wr_side_reason(t, WR_DIFFERENT, err, "%" PRIu64 " rows in the source, %" PRIu64 " in the lake; which ones, says --level content", rows, t->lake_rows);
}
