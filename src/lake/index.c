#include "index.h"

#include <inttypes.h>
#include "run.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/io.h"

#define FANOUT 8 /* runs of one size class before they are merged */

struct wr_index {
    const wr_key_plan *plan; /* the table's */
    char *dir;
    wr_run **runs;           /* oldest first */
    int n, cap;
    uint64_t stamp;          /* for file names; atomic */
};

wr_code wr_index_new(const wr_key_plan *plan, const char *dir, wr_index **ret_index, wr_err *err) {
    WR_TRY(wr_mkdirs(dir, err));
    wr_index *ix = wr_calloc(1, sizeof *ix);
    if (ix) ix->dir = wr_strdup(dir);
    if (!ix || !ix->dir) return wr_index_free(ix), wr_nomem(err, "index", sizeof *ix);
    ix->plan = plan;
    ix->stamp = (uint64_t)wr_now_us();
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

char *wr_index_run_path(wr_index *ix) {
    return wr_asprintf("%s/%016" PRIx64 ".run", ix->dir, __atomic_add_fetch(&ix->stamp, 1, __ATOMIC_RELAXED));
}

static int size_class(uint64_t n) {
    int c = 0;
    while (n >= 64) n /= FANOUT, c++;
    return c;
}

/* Merges the newest runs while FANOUT of them are of one class: as in any log-structured index, every entry is rewritten once per class. */
static wr_code settle(wr_index *ix, wr_err *err) {
    for (;;) {
        if (ix->n < FANOUT) return WR_OK;
        int cls = 0, from = ix->n;
        for (int i = ix->n - 1; i >= 0; i--) {
            int c = size_class(ix->runs[i]->n);
            if (i == ix->n - 1) cls = c;
            if (c > cls) break;
            from = i;
        }
        if (ix->n - from < FANOUT) return WR_OK;
        WR_AUTO char *path = wr_index_run_path(ix);
        if (!path) return wr_nomem(err, "index run path", 64);
        wr_run *merged;
        WR_TRY(wr_run_merge(ix->plan, ix->runs + from, ix->n - from, path, &merged, err));
        for (int i = from; i < ix->n; i++) wr_run_free(ix->runs[i], true);
        ix->n = from;
        ix->runs[ix->n++] = merged;
    }
}

wr_code wr_index_add(wr_index *ix, wr_run *run, wr_err *err) {
    if (run->n == 0) return wr_run_free(run, true), WR_OK;
    if (ix->n == ix->cap) {
        int cap = ix->cap ? ix->cap * 2 : 16;
        wr_run **r = wr_realloc(ix->runs, (size_t)cap * sizeof *r);
        if (!r) return wr_run_free(run, false), wr_nomem(err, "index", (unsigned)cap * sizeof *r);
        ix->runs = r, ix->cap = cap;
    }
    ix->runs[ix->n++] = run;
    return settle(ix, err);
}

void wr_index_drop_file(wr_index *ix, uint32_t fileno) {
    for (int i = 0; i < ix->n; i++) {
        wr_run *r = ix->runs[i];
        bool live = false;
        for (uint32_t f = 0; f < r->npaths; f++) {
            if (r->bind[f] == fileno) r->bind[f] = WR_NO_FILE;
            live |= r->bind[f] != WR_NO_FILE;
        }
        if (live) continue;
        /* the file may still be live in the last commit: the run stays on disk until the next open finds it useless */
        wr_run_free(r, false);
        memmove(ix->runs + i, ix->runs + i + 1, (size_t)(ix->n - i - 1) * sizeof *ix->runs);
        ix->n--, i--;
    }
}

bool wr_index_find(wr_index *ix, wr_key key, bool (*visit)(void *ctx, uint32_t file, uint32_t row), void *ctx) {
    for (int i = ix->n - 1; i >= 0; i--) {
        const wr_run *r = ix->runs[i];
        for (uint64_t k = wr_run_seek(r, key); k < r->n; k++) {
            wr_run_entry e = wr_run_get(r, k);
            if (!wr_key_eq(e.key, key)) break;
            uint32_t file = r->bind[e.file];
            if (file != WR_NO_FILE && visit(ctx, file, e.row)) return true;
        }
    }
    return false;
}

uint64_t wr_index_entries(const wr_index *ix) {
    uint64_t n = 0;
    for (int i = 0; i < ix->n; i++) n += ix->runs[i]->n;
    return n;
}
