#include "policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Deleted rows of a file that are worth a rewrite: few while rewriting has cost little, many once it has cost nearly as much as it may. */
#define DEAD_PERCENT 15
#define DEAD_PERCENT_DEAR 45
#define DEAD_PERCENT_FRESH 30 /* that do not wait even though they are fresh */
#define CHEAP 1.7 /* data written in all, per byte of new data */
#define DEAR 2.8
#define LITTLE 128           /* what is deleted is little below this part of the target */
#define SCAN_WEIGHT 2        /* of a part that scans pay, beside one that look-ups pay: with little time for jobs both then stay below a third */
#define LOOK_UP_FILES 50     /* what a look-up costs beside opening files, in files that it could have opened meanwhile */

/* Levels: files below a part of the target; merged when they make so much of it, or when they are so many times `files`. */
static const struct level { int below; double goal; int crowd; } levels[WR_POLICY_LEVELS - 1] = {{4096, 1.0 / 4096, 1}, {256, 1.0 / 64, 4}, {2, 1, 8}};
#define SETTLING_GOAL 2 /* of the last level meanwhile: a load's files of some megabytes do not start a job right behind it */

wr_policy wr_policy_of(uint64_t target_bytes, int files, const wr_upkeep *u) {
    return (wr_policy){.target_bytes = target_bytes,
                       .job_bytes = target_bytes * 2,
                       .files = files,
                       .amplification = u->new_bytes ? 1 + (double)u->rewritten_bytes / (double)u->new_bytes : 1};
}

int wr_policy_level(const wr_policy *p, const wr_policy_file *f) {
    if (f->records >= WR_POLICY_ROWS / 2) return WR_POLICY_LEVELS - 1;
    for (int i = 0; i < WR_POLICY_LEVELS - 1; i++)
        if (f->bytes < p->target_bytes / (uint64_t)levels[i].below) return i;
    return WR_POLICY_LEVELS - 1;
}

static uint64_t dead_bytes(const wr_policy_file *f) { return f->records ? (uint64_t)((double)f->bytes * (double)f->dead / (double)f->records) : 0; }

static void take(wr_choice *c, const wr_policy_file *files, uint32_t i) {
    const wr_policy_file *f = &files[i];
    c->no[c->n++] = i; /* until in_order */
    c->bytes += f->bytes, c->live_bytes += f->bytes - dead_bytes(f), c->dead_rows += f->dead, c->live_rows += f->records - f->dead;
}
static bool has_room(const wr_policy *p, const wr_choice *c, const wr_policy_file *f) {
    return c->n < WR_POLICY_INPUTS && (!c->n || (c->bytes + f->bytes <= p->job_bytes && c->live_rows + f->records - f->dead <= WR_POLICY_JOB_ROWS));
}

/* ------------------------------------------------------------------ many small ones */
/* The highest level whose files, with all below, make one of the next: so a byte is written once more a level, seldom twice. */
static int level_due(const wr_policy *p, const wr_policy_file *files, uint32_t n, int *ret_count) {
    uint64_t live = 0;
    int count = 0, due = -1;
    for (int level = 0; level < WR_POLICY_LEVELS - 1; level++) {
        int here = 0;
        for (uint32_t i = 0; i < n; i++)
            if (wr_policy_level(p, &files[i]) == level) live += files[i].bytes - dead_bytes(&files[i]), here++;
        count += here;
        double goal = p->settling && level == WR_POLICY_LEVELS - 2 ? SETTLING_GOAL : levels[level].goal;
        bool enough = here && count >= p->files && (double)live >= (double)p->target_bytes * goal;
        if (enough || here >= p->files * levels[level].crowd) due = level, *ret_count = count;
    }
    return due;
}

int wr_policy_by_group(const void *a, const void *b) {
    const wr_policy_file *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return x->no < y->no ? -1 : x->no > y->no;
}

static uint32_t group_end(const wr_policy_file *files, uint32_t n, uint32_t from) {
    uint32_t end = from;
    while (end < n && files[end].group == files[from].group) end++;
    return end;
}

/* What is due in one group, all of it or, of a large one that is alone, what fits. */
static bool merge_group(const wr_policy *p, const wr_policy_file *files, uint32_t from, uint32_t end, wr_choice *c) {
    int count = 0, level = level_due(p, files + from, end - from, &count);
    wr_choice with = *c;
    if (level < 0) return false;
    for (uint32_t i = from; i < end; i++)
        if (wr_policy_level(p, &files[i]) <= level && has_room(p, &with, &files[i])) take(&with, files, i);
    if (with.n < c->n + 2) return false;
    with.level = c->n && c->level < level ? c->level : level;
    if (!c->n) snprintf(with.why, sizeof with.why, "%d files below %" PRIu64 " kB", count, p->target_bytes / (uint64_t)levels[level].below / 1000);
    *c = with;
    return true;
}

/* A job takes what is due of as many partitions as it has room for: each commit costs the same, however little it does. */
static bool merge(const wr_policy *p, const wr_policy_file *files, uint32_t n, wr_choice *c) {
    int groups = 0;
    char first[sizeof c->why];
    for (uint32_t from = 0, end; from < n; from = end) {
        end = group_end(files, n, from);
        if (!files[from].old && merge_group(p, files, from, end, c)) groups++;
    }
    if (!groups) return memset(c, 0, sizeof *c), false;
    c->work = WR_WORK_MERGE;
    memcpy(first, c->why, sizeof first);
    if (groups > 1) snprintf(c->why, sizeof c->why, "%.60s, and %d more partitions", first, groups - 1);
    return true;
}

/* ------------------------------------------------------------------ much that is deleted */
static int worthwhile_percent(double amplification) {
    double dear = (amplification - CHEAP) / (DEAR - CHEAP);
    return dear <= 0 ? DEAD_PERCENT : dear >= 1 ? DEAD_PERCENT_DEAR : (int)(DEAD_PERCENT + (DEAD_PERCENT_DEAR - DEAD_PERCENT) * dear);
}
static bool is_dead_enough(const wr_policy_file *f, int percent) {
    uint64_t at_once = (uint64_t)(percent > DEAD_PERCENT_FRESH ? percent : DEAD_PERCENT_FRESH);
    return !f->old && f->dead && ((f->dead - f->fresh) * 100 >= f->records * (uint64_t)percent || f->dead * 100 >= f->records * at_once);
}
static double dead_part(const wr_policy_file *f) { return (double)f->dead / (double)f->records; }

/* The one with most deleted for its size that comes behind `last` in that order. */
static const wr_policy_file *next_worst(const wr_policy_file *files, uint32_t n, int percent, const wr_policy_file *last) {
    const wr_policy_file *worst = NULL;
    for (const wr_policy_file *f = files; f < files + n; f++) {
        bool behind = !last || dead_part(f) < dead_part(last) || (dead_part(f) == dead_part(last) && f > last);
        if (behind && is_dead_enough(f, percent) && (!worst || dead_part(f) > dead_part(worst))) worst = f;
    }
    return worst;
}

static bool rewrite(const wr_policy *p, const wr_policy_file *files, uint32_t n, wr_choice *c) {
    int percent = worthwhile_percent(p->amplification), many = 0;
    uint64_t gain = 0;
    for (uint32_t i = 0; i < n; i++)
        if (is_dead_enough(&files[i], percent)) many++, gain += dead_bytes(&files[i]);
    const wr_policy_file *worst = next_worst(files, n, percent, NULL);
    if (!worst || (p->patient && gain < p->target_bytes / LITTLE)) return false;
    for (const wr_policy_file *f = worst; f && c->n < WR_POLICY_INPUTS; f = next_worst(files, n, percent, f))
        if (has_room(p, c, f)) take(c, files, (uint32_t)(f - files));
    c->work = WR_WORK_REWRITE;
    snprintf(c->why, sizeof c->why, "%d files with %d %% or more deleted, one of them %.0f %%", many, percent, 100 * dead_part(worst));
    return true;
}

/* ------------------------------------------------------------------ files of another spec */
/* When nothing else is due: a few at a time, until there are none. */
static bool spread(const wr_policy *p, const wr_policy_file *files, uint32_t n, wr_choice *c) {
    wr_policy part = *p;
    uint64_t rows = 0;
    int old = 0;
    part.job_bytes /= WR_SPREAD_PART;
    for (uint32_t i = 0; i < n; i++) {
        const wr_policy_file *f = &files[i];
        old += f->old;
        if (!f->old || !has_room(&part, c, f) || (c->n && rows + f->records > WR_POLICY_ROWS)) continue;
        rows += f->records;
        take(c, files, i);
    }
    if (!c->n) return false;
    c->work = WR_WORK_SPREAD;
    snprintf(c->why, sizeof c->why, "%d files of another partition spec", old);
    return true;
}

/* ------------------------------------------------------------------ all of it */
static bool everything(const wr_policy *p, const wr_policy_file *files, uint32_t n, wr_choice *c) {
    for (uint32_t from = 0, end; from < n; from = end) {
        wr_choice with = *c;
        end = group_end(files, n, from);
        for (uint32_t i = from; i < end; i++) {
            const wr_policy_file *f = &files[i];
            if (f->old || (f->done && !f->dead)) continue;
            if ((f->dead || wr_policy_level(p, f) < WR_POLICY_LEVELS - 1) && has_room(p, &with, f)) take(&with, files, i);
        }
        if (with.n > c->n + 1 || with.dead_rows > c->dead_rows) *c = with;
    }
    if (!c->n) return spread(p, files, n, c);
    c->work = c->dead_rows ? WR_WORK_REWRITE : WR_WORK_MERGE;
    snprintf(c->why, sizeof c->why, "asked for");
    return true;
}

static double larger(double a, double b) { return a > b ? a : b; }

/* Readers of the table pay more than if it had just been rewritten: a look-up for each file, a scan for what is deleted. As a part of what they would pay: does the first weigh more? */
static bool look_ups_pay_more(const wr_policy *p, const wr_policy_file *files, uint32_t n) {
    double bytes = 0, live_bytes = 0, full = 0;
    for (uint32_t from = 0, end; from < n; from = end) {
        double group_bytes = 0, group_rows = 0;
        end = group_end(files, n, from);
        for (const wr_policy_file *f = files + from; f < files + end; f++) bytes += (double)f->bytes, group_bytes += (double)(f->bytes - dead_bytes(f)), group_rows += (double)(f->records - f->dead);
        live_bytes += group_bytes, full += larger(1, larger(group_bytes / (double)p->target_bytes, group_rows / WR_POLICY_ROWS));
    }
    return ((double)n - full) / (full + LOOK_UP_FILES) > SCAN_WEIGHT * (bytes - live_bytes) / (live_bytes + 1);
}

static void in_order(wr_choice *c, const wr_policy_file *files) {
    for (int i = 1; i < c->n; i++)
        for (int k = i; k > 0 && c->no[k - 1] > c->no[k]; k--) {
            uint32_t x = c->no[k];
            c->no[k] = c->no[k - 1], c->no[k - 1] = x;
        }
    for (int i = 0; i < c->n; i++) c->no[i] = files[c->no[i]].no;
}

void wr_policy_choose(const wr_policy *p, const wr_policy_file *files, uint32_t n, wr_choice *ret) {
    memset(ret, 0, sizeof *ret);
    if (p->all) {
        if (everything(p, files, n, ret)) in_order(ret, files);
        return;
    }
    wr_choice other = {0};
    bool merges = merge(p, files, n, ret), can_wait = merges && ret->level == WR_POLICY_LEVELS - 2; /* files of some megabytes */
    if (can_wait && rewrite(p, files, n, &other) && !look_ups_pay_more(p, files, n)) *ret = other;
    if (merges || rewrite(p, files, n, ret) || spread(p, files, n, ret)) in_order(ret, files);
}

uint64_t wr_policy_output_bytes(const wr_policy *p, uint64_t live_bytes) {
    uint64_t parts_of = (live_bytes + p->target_bytes / 2) / p->target_bytes;
    return parts_of < 2 ? p->target_bytes * 2 : live_bytes / parts_of;
}
