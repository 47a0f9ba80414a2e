#include "index.h"

#include <inttypes.h>
#include "run.h"
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"
#include "weir/io.h"

#define FANOUT 8               /* runs of one size class before they are merged */
#define LARGE (UINT64_C(1) << 18) /* entries of a run that is not merged any more */

struct wr_index {
    wr_key_plan plan; /* form and fingerprint only */
    char *dir;
    wr_run **runs; /* largest class first */
    int n, cap;
    uint64_t stamp; /* for file names; atomic */
    /* Where the last search ended: deleting many equal rows of a table without a key must not walk over all dead ones
     * each time. */
    wr_key last_key;
    int last_run; /* -1 = none; any change of runs resets it */
    uint64_t last_at;
};

wr_code wr_index_new(const wr_key_plan *plan, const char *dir, wr_index **ret_index, wr_err *err) {
    WR_TRY(wr_mkdirs(dir, err));
    wr_index *ix = wr_calloc(1, sizeof *ix);
    if (ix) ix->dir = wr_strdup(dir);
    if (!ix || !ix->dir) return wr_index_free(ix), wr_nomem(err, "index", sizeof *ix);
    ix->plan.form = plan->form, ix->plan.fingerprint = plan->fingerprint;
    ix->stamp = (uint64_t)wr_now_us();
    ix->last_run = -1;
    *ret_index = ix;
    return WR_OK;
}

void wr_index_free(wr_index *ix) {
    if (!ix) return;
    for (int i = 0; i < ix->n; i++) wr_run_free(ix->runs[i], false);
    wr_free(ix->runs);
    wr_free(ix->dir);
    wr_free(ix);
}

/* Names sort by age. After a step back of the clock a name may exist already: the next ones do not. */
char *wr_index_run_path(wr_index *ix) {
    for (;;) {
        char *path = wr_asprintf("%s/%016" PRIx64 ".run", ix->dir, __atomic_add_fetch(&ix->stamp, 1, __ATOMIC_RELAXED));
        if (!path || !wr_file_exists(path)) return path;
        wr_free(path);
    }
}

static int size_class(uint64_t n) {
    int c = 0;
    while (n >= 64) n /= FANOUT, c++;
    return c;
}

/* Puts a run behind those of its class and above: the order of runs means nothing for what a look-up finds, since a
 * key's dead rows are passed over wherever they are. */
static void place(wr_index *ix, wr_run *run) {
    int at = ix->n;
    while (at > 0 && size_class(ix->runs[at - 1]->n) < size_class(run->n)) at--;
    memmove(ix->runs + at + 1, ix->runs + at, (size_t)(ix->n - at) * sizeof *ix->runs);
    ix->runs[at] = run;
    ix->n++;
}

/* FANOUT runs of one class that are still worth merging. */
static bool mergeable(const wr_index *ix, int *ret_from, int *ret_to) {
    for (int to = ix->n; to > 0;) {
        int from = to - 1, class = size_class(ix->runs[from]->n);
        while (from > 0 && size_class(ix->runs[from - 1]->n) == class) from--;
        if (to - from >= FANOUT && ix->runs[from]->n < LARGE) return *ret_from = from, *ret_to = to, true;
        to = from;
    }
    return false;
}

/* Merges runs while FANOUT of them are of one class: as in any log-structured index, every entry is rewritten once per
 * class. Large runs stay as they are: the applying thread waits for a merge. */
static wr_code settle(wr_index *ix, wr_err *err) {
    int from, to;
    while (mergeable(ix, &from, &to)) {
        WR_AUTO char *path = wr_index_run_path(ix);
        if (!path) return wr_nomem(err, "index run path", 64);
        wr_run *merged;
        WR_TRY(wr_run_merge(&ix->plan, ix->runs + from, to - from, path, &merged, err));
        for (int i = from; i < to; i++) wr_run_free(ix->runs[i], true);
        memmove(ix->runs + from, ix->runs + to, (size_t)(ix->n - to) * sizeof *ix->runs);
        ix->n -= to - from;
        if (merged->n) place(ix, merged);
        else wr_run_free(merged, true);
    }
    return WR_OK;
}

wr_code wr_index_reserve(wr_index *ix, wr_err *err) {
    if (ix->n < ix->cap) return WR_OK;
    int cap = ix->cap ? ix->cap * 2 : 16;
    wr_run **r = wr_realloc(ix->runs, (size_t)cap * sizeof *r);
    if (!r) return wr_nomem(err, "index", (unsigned)cap * sizeof *r);
    ix->runs = r, ix->cap = cap;
    return WR_OK;
}

void wr_index_add(wr_index *ix, wr_run *run) {
    wr_err err = WR_ERR_INIT;
    ix->last_run = -1;
    if (run->n == 0) {
        wr_run_free(run, true);
        return;
    }
    place(ix, run);
    if (settle(ix, &err) != WR_OK) wr_log(WR_LOG_DEBUG, "index runs stay unmerged for now: %s", err.msg);
}

void wr_index_drop_file(wr_index *ix, uint32_t fileno) {
    ix->last_run = -1;
    for (int i = 0; i < ix->n; i++) {
        wr_run *r = ix->runs[i];
        bool live = false;
        for (uint32_t f = 0; f < r->npaths; f++) {
            if (r->bind[f] == fileno) r->bind[f] = WR_NO_FILE;
            live |= r->bind[f] != WR_NO_FILE;
        }
        if (live) continue;
        wr_run_free(r,
                    true); /* should the removal never be committed, the next open reads the keys from the file again */
        memmove(ix->runs + i, ix->runs + i + 1, (size_t)(ix->n - i - 1) * sizeof *ix->runs);
        ix->n--, i--;
    }
}

bool wr_index_find(wr_index *ix, wr_key key, bool (*visit)(void *ctx, uint32_t file, uint32_t row), void *ctx) {
    bool again = ix->last_run >= 0 && wr_key_eq(ix->last_key, key);
    wr_probe p = wr_run_probe(key);
    for (int i = ix->n - 1; i >= 0; i--) /* all filters miss the cache at the same time */
        if (wr_run_spans(ix->runs[i], key)) __builtin_prefetch(wr_run_block(ix->runs[i], p.hash));
    for (int i = again ? ix->last_run : ix->n - 1; i >= 0; i--) {
        const wr_run *r = ix->runs[i];
        if (!again && !wr_run_may_have(r, &p)) continue;
        for (uint64_t k = again ? ix->last_at : wr_run_seek(r, key); k < r->n; k++) {
            wr_run_entry e = wr_run_get(r, k);
            if (!wr_key_eq(e.key, key)) break;
            uint32_t file = r->bind[e.file];
            if (file == WR_NO_FILE || !visit(ctx, file, e.row)) continue;
            ix->last_key = key, ix->last_run = i, ix->last_at = k;
            return true;
        }
        again = false;
    }
    return false;
}

uint64_t wr_index_entries(const wr_index *ix) {
    uint64_t n = 0;
    for (int i = 0; i < ix->n; i++) n += ix->runs[i]->n;
    return n;
}

int wr_index_runs(const wr_index *ix) { return ix->n; }
