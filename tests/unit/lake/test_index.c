#include "world.h"
#include "run.h"

static const wr_key_plan plan = {.form = WR_KEY_HASH, .fingerprint = 3};

typedef struct model {
    wr_key key;
    uint32_t file, row;
    bool dead;
} model;
typedef struct search {
    model *m;
    int n;
    bool *gone;
    uint32_t file, row;
    int shown;
} search;

static bool live(void *ctx, uint32_t file, uint32_t row) {
    search *s = ctx;
    s->shown++;
    assert_false(s->gone[file]);
    for (int i = 0; i < s->n; i++)
        if (s->m[i].file == file && s->m[i].row == row) {
            if (s->m[i].dead) return false;
            s->file = file, s->row = row;
            return true;
        }
    fail_msg("file %u row %u was never added", file, row);
    return false;
}

static int live_rows(const model *m, int n, const bool *gone, wr_key key) {
    int c = 0;
    for (int i = 0; i < n; i++) c += !m[i].dead && !gone[m[i].file] && wr_key_eq(m[i].key, key);
    return c;
}

/* Runs come, rows die, files go; after every step all keys are asked for. */
static void it_finds_live_rows_whatever_was_merged_and_dropped(void **st) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        world w = {.rng = seed};
        wr_index *ix;
        assert_ok(wr_index_new(&plan, in_dir("ix"), &ix, err));
        model *m = calloc(20000, sizeof *m);
        bool gone[200] = {0};
        int n = 0;
        uint32_t nfiles = 0;
        int nkeys = seed % 2 ? 60 : 4000;
        for (int step = 0; step < 120; step++) {
            uint64_t size = w_below(&w, 8) ? (uint64_t)w_below(&w, 60) : 100 + (uint64_t)w_below(&w, 700);
            if (n + (int)size > 20000) break;
            wr_run_entry *e = calloc(size + 1, sizeof *e);
            char name[32];
            snprintf(name, sizeof name, "file %u", nfiles);
            const char *names[1] = {name};
            for (uint64_t i = 0; i < size; i++) {
                uint64_t k = (uint64_t)w_below(&w, nkeys);
                e[i] = (wr_run_entry){{k * 7919 % 13, k}, 0, (uint32_t)i};
                m[n++] = (model){e[i].key, nfiles, (uint32_t)i, false};
            }
            wr_run *r;
            WR_AUTO char *path = wr_index_run_path(ix);
            assert_ok(wr_run_build(&plan, e, size, names, 1, path, &r, err));
            free(e);
            wr_run_bind(r, 0, nfiles++);
            assert_ok(wr_index_reserve(ix, err));
            if (w_below(&w, 10) == 0) wr_fault_set("lake.run:1:fail"); /* a merge that fails costs nothing but runs */
            wr_index_add(ix, r);
            wr_fault_set(NULL);
            if (w_below(&w, 6) == 0) {
                uint32_t f = (uint32_t)w_below(&w, (int)nfiles);
                gone[f] = true;
                wr_index_drop_file(ix, f);
            }
            for (int q = 0; q < 60; q++) {
                uint64_t k = (uint64_t)w_below(&w, nkeys + 5);
                wr_key key = {k * 7919 % 13, k};
                int have = live_rows(m, n, gone, key), kill = w_below(&w, 3);
                for (int i = 0; i <= kill; i++) { /* rows of one key one after the other */
                    search s = {m, n, gone, 0, 0, 0};
                    bool found = wr_index_find(ix, key, live, &s);
                    assert_int_equal(found, have > 0);
                    if (!found || i == kill) break;
                    for (int j = 0; j < n; j++)
                        if (m[j].file == s.file && m[j].row == s.row) m[j].dead = true;
                    have--;
                }
            }
        }
        wr_index_free(ix);
        free(m);
        char cmd[300];
        snprintf(cmd, sizeof cmd, "rm -rf '%s'", in_dir("ix"));
        assert_int_equal(system(cmd), 0);
    }
}

static bool *dead_rows;
static uint64_t shown;
static bool next_live(void *ctx, uint32_t file, uint32_t row) {
    shown++;
    if (dead_rows[row]) return false;
    return dead_rows[row] = true;
}

static void equal_rows_are_deleted_one_by_one_in_linear_time(void **st) {
    enum { N = 50000 };
    wr_index *ix;
    assert_ok(wr_index_new(&plan, in_dir("ix"), &ix, err));
    wr_run_entry *e = calloc(N, sizeof *e);
    for (uint32_t i = 0; i < N; i++) e[i] = (wr_run_entry){{1, 2}, 0, i};
    const char *names[1] = {"f"};
    wr_run *r;
    assert_ok(wr_run_build(&plan, e, N, names, 1, NULL, &r, err));
    wr_run_bind(r, 0, 0);
    assert_ok(wr_index_reserve(ix, err));
    wr_index_add(ix, r);
    dead_rows = calloc(N, sizeof *dead_rows);
    shown = 0;
    for (int i = 0; i < N; i++) assert_true(wr_index_find(ix, (wr_key){1, 2}, next_live, NULL));
    assert_false(wr_index_find(ix, (wr_key){1, 2}, next_live, NULL));
    assert_true(shown < 3 * N);
    free(e), free(dead_rows);
    wr_index_free(ix);
}

static wr_code count(void *ctx, const char *name, wr_err *err) { return ++*(int *)ctx, WR_OK; }

static void many_small_runs_become_few_and_leave_no_files(void **st) {
    wr_index *ix;
    assert_ok(wr_index_new(&plan, in_dir("ix"), &ix, err));
    world w = {.rng = 1};
    for (uint32_t i = 0; i < 3000; i++) {
        wr_run_entry e[20];
        for (uint32_t k = 0; k < 20; k++) e[k] = (wr_run_entry){{w_rnd(&w), 1}, 0, k};
        char name[32];
        snprintf(name, sizeof name, "f%u", i);
        const char *names[1] = {name};
        WR_AUTO char *path = wr_index_run_path(ix);
        wr_run *r;
        assert_ok(wr_run_build(&plan, e, 20, names, 1, path, &r, err));
        wr_run_bind(r, 0, i);
        assert_ok(wr_index_reserve(ix, err));
        wr_index_add(ix, r);
        assert_true(wr_index_runs(ix) <= 32);
    }
    assert_int_equal(wr_index_entries(ix), 60000);
    int files = 0;
    assert_ok(wr_dir_list(in_dir("ix"), count, &files, err));
    assert_true(files <= wr_index_runs(ix));
    for (uint32_t i = 0; i < 3000; i++) wr_index_drop_file(ix, i);
    assert_int_equal(wr_index_runs(ix), 0);
    files = 0;
    assert_ok(wr_dir_list(in_dir("ix"), count, &files, err));
    assert_int_equal(files, 0);
    wr_index_free(ix);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIR(it_finds_live_rows_whatever_was_merged_and_dropped),
        IN_DIR(equal_rows_are_deleted_one_by_one_in_linear_time),
        IN_DIR(many_small_runs_become_few_and_leave_no_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
