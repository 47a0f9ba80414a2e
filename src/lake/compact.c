/* Compaction: small files, and files of which much is deleted, become few, beside the applying thread.
 *
 * The applying thread picks files (policy.h), pins what is deleted in them, and the worker writes their live rows in order to
 * new files (rewrite.h). Meanwhile it goes on applying and committing. When the worker is done, what was deleted since is deleted in the
 * new files as well (remap.h). They take the place of the old ones in a commit of its own, whose content is that of the commit before.
 * What others commit meanwhile is a conflict there as at any commit; an ALTER, load or drop in between makes the result worthless,
 * and it is thrown away.
 */
#include "compact.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"

#define PATIENCE_US 60000000 /* between jobs of a table that gain little */
#define SETTLING_US 30000000 /* of a table since it was opened: what is deleted meanwhile is fresh, for a sync begins by catching up */

bool wr_compact_is_settling(const wr_table *t) { return wr_mono_us() - t->opened_us < SETTLING_US; }

static wr_policy policy_of(const wr_table *t, bool all) {
    wr_policy p = wr_policy_of(wr_table_target_bytes(t), t->lake->compact_files, &t->upkeep);
    p.patient = wr_mono_us() < t->patient_until_us, p.settling = wr_compact_is_settling(t), p.all = all;
    return p;
}

wr_code wr_compact_choose(const wr_table *t, bool all, wr_choice *ret, wr_err *err) {
    WR_AUTO wr_policy_file *files = wr_calloc((size_t)t->nfiles + 1, sizeof *files);
    WR_CLEANUP(wr_tuples_clear) wr_tuples groups = {0};
    uint32_t n = 0;
    wr_policy p = policy_of(t, all);
    if (!files) return wr_nomem(err, "file list", (size_t)t->nfiles * sizeof *files);
    for (uint32_t i = 0; i < t->nfiles; i++) {
        const wr_data_file *f = &t->files[i];
        if (!f->ice || !f->committed) continue;
        files[n] = (wr_policy_file){.no = i, .bytes = f->ice->bytes, .records = f->ice->records, .dead = f->ndead, .fresh = p.settling ? f->ndead - f->ndead_opened : 0, .old = f->ice->spec_id != t->how.spec->id, .done = f->rewritten};
        WR_TRY(wr_tuples_of_file(&groups, f->ice, &files[n++].group, err));
    }
    if (groups.n > 1) qsort(files, n, sizeof *files, wr_policy_by_group);
    wr_policy_choose(&p, files, n, ret);
    return WR_OK;
}

wr_code wr_compact_begin(wr_table *t, const wr_choice *choice, wr_rewrite **ret_rewrite, wr_err *err) {
    wr_policy p = policy_of(t, false);
    return wr_rewrite_new(t, choice->no, choice->n, wr_policy_output_bytes(&p, choice->live_bytes), ret_rewrite, err);
}

/* ------------------------------------------------------------------ taking the result */
static bool is_there(const wr_table *t, const wr_rewrite_input *in) {
    return in->no < t->nfiles && t->files[in->no].ice && !strcmp(t->files[in->no].ice->path, in->uri);
}

/* A file that left meanwhile had lost all its rows, unless the table's content was replaced as a whole. */
bool wr_compact_fits(const wr_table *t, const wr_rewrite *w) {
    if (!t->opened || t->loading || t->create || t->schema != w->schema || t->how.spec != w->how.spec) return false;
    for (int i = 0; i < w->nin; i++)
        if (is_there(t, &w->in[i])) return true;
    return false;
}

typedef struct killing {
    wr_table *t;
    const uint32_t *no; /* of the outputs */
} killing;

static wr_code kill_row(void *ctx, int output, uint32_t row, wr_err *err) {
    const killing *k = ctx;
    return wr_table_kill(k->t, k->no[output], row, err);
}

static wr_code add_outputs(wr_table *t, wr_rewrite *w, uint32_t *no, wr_err *err) {
    for (int i = 0; i < w->nout; i++) {
        wr_sealed *s = &w->out[i];
        WR_TRY(wr_index_reserve(t->index, err));
        WR_TRY(wr_table_add_file(t, s->file, false, &no[i], err));
        t->files[no[i]].rewritten = true;
        t->compacted_bytes += s->file->bytes;
        s->file = NULL;
        wr_run_bind(s->run, 0, no[i]);
        wr_index_add(t->index, WR_STEAL(s->run));
    }
    return WR_OK;
}

static void note(wr_table *t, const wr_rewrite *w, const wr_choice *c, int64_t took_us) {
    wr_upkeep_action *a = &t->action;
    *a = (wr_upkeep_action){.at_us = wr_now_us(),
                            .files_in = (uint64_t)w->nin,
                            .files_out = (uint64_t)w->nout,
                            .bytes_in = w->bytes_in,
                            .bytes_out = w->bytes_out,
                            .rows_dropped = c->dead_rows,
                            .ms = (uint64_t)took_us / 1000};
    static const char *const what[] = {"", "merge", "rewrite", "spread"};
    snprintf(a->what, sizeof a->what, "%s", what[c->work]);
    snprintf(a->why, sizeof a->why, "%s", c->why);
    t->has_action = true;
    t->compactions++;
    if (c->work == WR_WORK_REWRITE) t->patient_until_us = wr_mono_us() + PATIENCE_US;
    wr_log(WR_LOG_DEBUG, "%s.%s: %s, %s: %d files became %d in %" PRIu64 " ms", t->ns, t->name, a->what, a->why, w->nin, w->nout, a->ms);
}

wr_code wr_compact_take(wr_table *t, wr_rewrite *w, const wr_choice *c, int64_t took_us, wr_err *err) {
    WR_AUTO uint32_t *no = wr_calloc((size_t)w->nout + 1, sizeof *no);
    if (!no) return wr_nomem(err, "new files", (size_t)w->nout * sizeof *no);
    WR_TRY(wr_table_reserve_gone(t, (uint32_t)w->nin * 2, err));
    WR_TRY(add_outputs(t, w, no, err));
    killing k = {t, no};
    for (int i = 0; i < w->nin; i++) {
        const wr_rewrite_input *in = &w->in[i];
        bool there = is_there(t, in);
        WR_TRY(wr_remap_since(&w->map, i, there ? t->files[in->no].dead : NULL, !there, kill_row, &k, err));
    }
    for (int i = 0; i < w->nin; i++)
        if (is_there(t, &w->in[i])) WR_TRY(wr_table_remove_file(t, w->in[i].no, err));
    t->replace = t->touched = true;
    note(t, w, c, took_us);
    return WR_OK;
}
