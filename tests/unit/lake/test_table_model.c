/* Random sequences of everything a table can go through, against the same in plain memory, read back after each commit
 * by our own reader and at the end by PyIceberg and DuckDB. WEIR_MODEL_OPS and WEIR_MODEL_SEED change how long and
 * which. */
#include "world.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

static uint64_t env_number(const char *name, uint64_t otherwise) {
    const char *s = getenv(name);
    return s && *s ? strtoull(s, NULL, 10) : otherwise;
}

static void begin(world *w, int version, uint64_t seed) {
    *w = (world){.rng = seed, .seed = seed, .version = version};
    snprintf(w->home, sizeof w->home, "%s", dir);
    for (int i = 0; i < W_TABLES; i++) w->t[i].form = i;
}

/* ------------------------------------------------------------------ readers that are not ours */
static void dump_value(FILE *f, const w_col *c, w_val v) {
    if (v.null)
        fprintf(f, "null");
    else if (c->type.kind == WR_STRING)
        fprintf(f, "\"s%lld\"", (long long)v.v);
    else if (c->type.kind == WR_FLOAT || c->type.kind == WR_DOUBLE)
        fprintf(f, "%.2f", (double)v.v / 4);
    else if (c->type.kind == WR_DECIMAL) {
        long long one = c->type.scale == 2 ? 100 : 10, x = v.v < 0 ? -(long long)v.v : (long long)v.v;
        fprintf(f, "\"%s%lld.%0*lld\"", v.v < 0 ? "-" : "", x / one, (int)c->type.scale, x % one);
    } else
        fprintf(f, "%lld", (long long)v.v);
}

/* <home>/expected/<table>.jsonl for tests/unit/lake/read_back.py */
static void judge(world *w) {
    char path[256], cmd[2048], root[512] = __FILE__, python[600];
    char *end = strstr(root, "/tests/unit/lake/");
    if (end) *end = 0;
    snprintf(python, sizeof python, "%s/.venv/bin/python", root);
    if (getenv("WEIR_PYTHON")) snprintf(python, sizeof python, "%s", getenv("WEIR_PYTHON"));
    if (access(python, X_OK) != 0) {
        print_message("no Python with PyIceberg and DuckDB at %s: not judged by them\n", python);
        return;
    }
    snprintf(path, sizeof path, "%s/expected", w->home);
    mkdir(path, 0700);
    for (int i = 0; i < W_TABLES; i++) {
        if (!w->t[i].committed.there) continue;
        const w_content *c = w_visible(&w->t[i]);
        snprintf(path, sizeof path, "%s/expected/%s.jsonl", w->home, w->t[i].committed.name);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        for (int r = 0; r < c->nrows; r++)
            for (int k = 0; k < c->ncols; k++) {
                fprintf(f, "%s", k ? ", " : "[");
                dump_value(f, &c->cols[k], c->rows[r].v[k]);
                if (k == c->ncols - 1) fprintf(f, "]\n");
            }
        fclose(f);
    }
    /* a sanitizer's preloading and options are for this process only */
    snprintf(cmd, sizeof cmd, "env -u LD_PRELOAD '%s' '%s/tests/unit/lake/read_back.py' '%s'", python, root, w->home);
    if (system(cmd) != 0) fail_msg("seed %llu: other readers see something else", (unsigned long long)w->seed);
}

/* ------------------------------------------------------------------ in one process */
static void run(int version, uint64_t seed, uint64_t ops, bool faults) {
    static const char *const points[] = {"lake.before_data_file",
                                         "lake.before_commit",
                                         "lake.run",
                                         "ice.announced",
                                         "ice.write",
                                         "ice.synced",
                                         "ice.sql",
                                         "ice.commit",
                                         "ice.puffin",
                                         "ice.expire",
                                         "io.write",
                                         "io.sync",
                                         "io.write.nospc",
                                         "state.commit",
                                         "lake.compact",
                                         "parquet_write"};
    world w;
    begin(&w, version, seed);
    w.faults = faults;
    print_message("format %d, seed %llu, %llu operations\n", version, (unsigned long long)seed,
                  (unsigned long long)ops);
    w_open(&w);
    int commits = 0, failures = 0;
    while (w.ops < ops) {
        char spec[64];
        if (faults && w_below(&w, 120) == 0) {
            snprintf(spec, sizeof spec, "%s:%d:fail", points[w_below(&w, (int)(sizeof points / sizeof *points))],
                     1 + w_below(&w, 12));
            wr_fault_set(spec);
        }
        if (w_below(&w, 150) == 0) {
            w_commit(&w);
            if (!w.failed) {
                wr_fault_set(NULL);
                w_compare(&w), w_check_health(&w);
                commits++;
            }
        } else
            w_step(&w);
        if (w.failed || w_below(&w, 1500) == 0) {
            wr_fault_set(NULL);
            failures += w.failed;
            w_reopen(&w);
            w_compare(&w), w_check_health(&w);
        }
    }
    wr_fault_set(NULL);
    w_commit(&w);
    w_reopen(&w);
    w_compare(&w), w_check_health(&w);
    w_close(&w);
    judge(&w);
    print_message("  %d commits, %d failures, %d compactions, offset %llu\n", commits, failures, w.compactions, (unsigned long long)w.offset);
    assert_true(commits < 10 || w.compactions > 0);
    w_free(&w);
}

static uint64_t seed_of(uint64_t n) { return env_number("WEIR_MODEL_SEED", 20261129) * 1000 + n; }
static uint64_t ops_of(void) { return env_number("WEIR_MODEL_OPS", 2500); }

static void random_changes_read_back_as_made_in_format_3(void **st) { run(3, seed_of(1), ops_of(), false); }
static void random_changes_read_back_as_made_in_format_2(void **st) { run(2, seed_of(2), ops_of(), false); }
static void failures_at_any_point_lose_and_double_nothing_in_format_3(void **st) { run(3, seed_of(3), ops_of(), true); }
static void failures_at_any_point_lose_and_double_nothing_in_format_2(void **st) { run(2, seed_of(4), ops_of(), true); }

/* ------------------------------------------------------------------ killed */
static void child_run(world *w, const char *spec) {
    w_open(w);
    w_back(w);
    wr_fault_set(spec);
    for (int i = 0; i < 1500; i++)
        if (w_below(w, 60) == 0)
            w_commit(w);
        else
            w_step(w);
    w_commit(w);
    _exit(0); /* without closing */
}

/* The same without a lake, up to the commit that the catalog has. */
static void follow(world *w, uint64_t offset) {
    w->stop_at = offset ? offset : UINT64_MAX;
    for (int i = 0; i < 1500 && w->offset < offset; i++)
        if (w_below(w, 60) == 0)
            w_commit(w);
        else
            w_step(w);
    if (w->offset < offset) w_commit(w);
    w->stop_at = 0;
    if (w->offset != offset)
        fail_msg("seed %llu: the lake is at offset %llu, which nobody committed", (unsigned long long)w->seed,
                 (unsigned long long)offset);
}

static uint64_t progress_of(world *w) {
    uint64_t offset;
    wr_pos pos;
    int64_t us;
    assert_ok(wr_lake_progress(w->lake, &offset, &pos, &us, err));
    wr_pos_clear(&pos);
    return offset;
}

static void kills(int version, uint64_t seed, int rounds) {
    static const char *const points[] = {"lake.before_data_file",
                                         "lake.before_commit",
                                         "lake.run",
                                         "ice.announced",
                                         "ice.write",
                                         "ice.synced",
                                         "ice.sql",
                                         "ice.commit",
                                         "ice.committed",
                                         "ice.told",
                                         "ice.expire",
                                         "ice.puffin",
                                         "io.write",
                                         "io.write.torn",
                                         "io.sync",
                                         "state.commit",
                                         "lake.compact",
                                         "parquet_write"};
    world w;
    begin(&w, version, seed);
    uint64_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    int killed = 0;
    for (int round = 0; round < rounds; round++) {
        char spec[64];
        w.rng = seed * 7919 + (uint64_t)round;
        snprintf(spec, sizeof spec, "%s:%d:kill", points[round % (int)(sizeof points / sizeof *points)],
                 1 + w_below(&w, 40));
        *shared = w.offset;
        w.shared = shared;
        pid_t pid = fork();
        if (pid == 0) child_run(&w, spec);
        w.shared = NULL;
        int status;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        if (WIFEXITED(status))
            assert_int_equal(WEXITSTATUS(status), 0);
        else if (WTERMSIG(status) != SIGKILL)
            fail_msg("round %d, %s: ended by signal %d", round, spec, WTERMSIG(status));
        killed += WIFSIGNALED(status);
        /* which commit it got to: the last it told of, or the next, which was under way */
        world at = w; /* for opening: the tables do not matter */
        for (int i = 0; i < W_TABLES; i++) at.t[i].now.there = false;
        w_open(&at);
        uint64_t offset = progress_of(&at);
        if (offset != *shared && offset != *shared + 1)
            fail_msg("round %d, %s: child committed %llu, the lake is at %llu", round, spec,
                     (unsigned long long)*shared, (unsigned long long)offset);
        follow(&w, offset);
        w.state = at.state, w.engine = at.engine, w.lake = at.lake;
        w_back(&w);
        w_compare(&w), w_check_health(&w);
        w_close(&w);
    }
    munmap(shared, 4096);
    judge(&w);
    print_message("format %d, seed %llu: %d of %d children were killed, offset %llu\n", version,
                  (unsigned long long)seed, killed, rounds, (unsigned long long)w.offset);
    w_free(&w);
}

static int rounds_of(void) { return (int)env_number("WEIR_MODEL_KILLS", 12); }
static void a_kill_at_any_point_leaves_all_tables_at_one_commit_in_format_3(void **st) {
    kills(3, seed_of(5), rounds_of());
}
static void a_kill_at_any_point_leaves_all_tables_at_one_commit_in_format_2(void **st) {
    kills(2, seed_of(6), rounds_of());
}

int main(void) {
    w_fast_folder();
    const struct CMUnitTest tests[] = {
        IN_DIR(random_changes_read_back_as_made_in_format_3),
        IN_DIR(random_changes_read_back_as_made_in_format_2),
        IN_DIR(failures_at_any_point_lose_and_double_nothing_in_format_3),
        IN_DIR(failures_at_any_point_lose_and_double_nothing_in_format_2),
        IN_DIR(a_kill_at_any_point_leaves_all_tables_at_one_commit_in_format_3),
        IN_DIR(a_kill_at_any_point_leaves_all_tables_at_one_commit_in_format_2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
