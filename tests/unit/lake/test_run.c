#include "world.h"
#include "run.h"

static const wr_key_plan plans[2] = {{.form = WR_KEY_U64, .fingerprint = 1}, {.form = WR_KEY_HASH, .fingerprint = 2}};

typedef wr_key key_maker(world *w, uint64_t i);
static wr_key sequence(world *w, uint64_t i) { return (wr_key){0, i * 3 + 100}; }
static wr_key even(world *w, uint64_t i) { return (wr_key){0, w_rnd(w)}; }
static wr_key clusters(world *w, uint64_t i) { return (wr_key){0, (w_rnd(w) % 3 << 61) + w_rnd(w) % 900}; }
static wr_key outlier(world *w, uint64_t i) { return (wr_key){0, i ? i : UINT64_MAX}; }
static wr_key doubles(world *w, uint64_t i) { return (wr_key){0, w_rnd(w) % 40}; }
static wr_key hash(world *w, uint64_t i) { return (wr_key){w_rnd(w), w_rnd(w)}; }
static wr_key same_half(world *w, uint64_t i) { return (wr_key){w_rnd(w) % 3, w_rnd(w) % 5000}; }
static const struct maker {
    key_maker *make;
    int plan;
} makers[] = {{sequence, 0}, {even, 0}, {clusters, 0}, {outlier, 0}, {doubles, 0}, {hash, 1}, {same_half, 1}};
enum { NMAKERS = sizeof makers / sizeof *makers };

static int by_key(const void *a, const void *b) {
    const wr_run_entry *x = a, *y = b;
    if (x->key.hi != y->key.hi) return x->key.hi < y->key.hi ? -1 : 1;
    if (x->key.lo != y->key.lo) return x->key.lo < y->key.lo ? -1 : 1;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}
static wr_run_entry *make_entries(world *w, const struct maker *m, uint64_t n) {
    wr_run_entry *e = calloc(n + 1, sizeof *e);
    for (uint64_t i = 0; i < n; i++) e[i] = (wr_run_entry){m->make(w, i), (uint32_t)(i % 3), (uint32_t)i};
    return e;
}
static wr_run *build(const wr_key_plan *plan, const wr_run_entry *e, uint64_t n, const char *path) {
    static const char *const names[3] = {"file one", "", "/a/third-file.parquet"};
    wr_run_entry *copy = malloc((n + 1) * sizeof *copy);
    memcpy(copy, e, n * sizeof *copy);
    wr_run *r;
    assert_ok(wr_run_build(plan, copy, n, names, 3, path, &r, err));
    free(copy);
    return r;
}

/* Every key is found where it is, and keys that are not there are not. `e` sorted. */
static void check(const wr_run *r, const wr_run_entry *e, uint64_t n, world *w) {
    assert_int_equal(wr_run_count(r), n);
    wr_run_entry *got = calloc(n + 1, sizeof *got);
    for (uint64_t i = 0; i < n; i++) got[i] = wr_run_get(r, i);
    if (n) qsort(got, n, sizeof *got, by_key);
    for (uint64_t i = 0; i < n; i++) assert_int_equal(by_key(&got[i], &e[i]), 0);
    free(got);
    for (uint64_t i = 0; i < n; i++) {
        wr_probe p = wr_run_probe(e[i].key);
        assert_true(wr_run_may_have(r, &p));
        uint64_t at = wr_run_seek(r, e[i].key);
        assert_true(at < n && wr_key_eq(wr_run_get(r, at).key, e[i].key));
        assert_true(at == 0 || !wr_key_eq(wr_run_get(r, at - 1).key, e[i].key));
    }
    int false_yes = 0;
    for (int i = 0; i < 2000; i++) {
        wr_key k = {r->es == 16 ? 0 : w_rnd(w), w_rnd(w)};
        if (n && i % 2) k = e[w_rnd(w) % n].key, k.lo += 1 + (uint64_t)w_below(w, 2);
        wr_run_entry probe = {.key = k};
        uint64_t lo = 0, hi = n;
        while (lo < hi) {
            uint64_t mid = (lo + hi) / 2;
            if (by_key(&e[mid], &probe) < 0)
                lo = mid + 1;
            else
                hi = mid;
        }
        assert_int_equal(wr_run_seek(r, k), lo);
        wr_probe p = wr_run_probe(k);
        false_yes += wr_run_may_have(r, &p) && !(lo < n && wr_key_eq(e[lo].key, k));
    }
    if (n > 1000) assert_true(false_yes < 100);
}

static void entries_are_found_by_key_whatever_keys_there_are(void **st) {
    world w = {.rng = 1};
    const uint64_t sizes[] = {0, 1, 2, 31, 32, 33, 64, 65, 511, 512, 1023, 1024, 5000, 70000};
    for (int m = 0; m < NMAKERS; m++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            char path[300];
            snprintf(path, sizeof path, "%s/%d-%zu.run", dir, m, s);
            const wr_key_plan *plan = &plans[makers[m].plan];
            wr_run_entry *e = make_entries(&w, &makers[m], sizes[s]);
            wr_run *r = build(plan, e, sizes[s], path);
            if (sizes[s]) qsort(e, sizes[s], sizeof *e, by_key);
            check(r, e, sizes[s], &w);
            assert_int_equal(wr_file_exists(path), sizes[s] >= WR_RUN_PERSIST);
            wr_run_free(r, false);
            if (sizes[s] >= WR_RUN_PERSIST) { /* what is read back is what was written */
                assert_ok(wr_run_load(plan, path, &r, err));
                assert_int_equal(wr_run_npaths(r), 3);
                assert_string_equal(wr_run_path(r, 1), "");
                assert_string_equal(wr_run_path(r, 2), "/a/third-file.parquet");
                check(r, e, sizes[s], &w);
                wr_run_free(r, true);
                assert_false(wr_file_exists(path));
            }
            free(e);
        }
}

static void a_merge_has_the_entries_of_live_files_only(void **st) {
    world w = {.rng = 2};
    for (int m = 0; m < NMAKERS; m++)
        for (int round = 0; round < 6; round++) {
            const wr_key_plan *plan = &plans[makers[m].plan];
            wr_run *runs[9];
            int n = 1 + w_below(&w, 9);
            wr_run_entry *want = calloc(60000, sizeof *want);
            uint64_t nwant = 0;
            uint32_t nlive = 0, bound[27];
            for (int i = 0; i < n; i++) {
                uint64_t size = w_rnd(&w) % 3 ? w_rnd(&w) % 5000 : w_rnd(&w) % 10;
                wr_run_entry *e = make_entries(&w, &makers[m], size);
                runs[i] = build(plan, e, size, NULL);
                for (uint32_t f = 0; f < 3; f++) {
                    bool live = w_below(&w, 4);
                    wr_run_bind(runs[i], f, live ? (uint32_t)i * 10 + f : WR_NO_FILE);
                    for (uint64_t k = 0; live && k < size; k++)
                        if (e[k].file == f) want[nwant] = e[k], want[nwant++].file = nlive;
                    if (live) bound[nlive++] = (uint32_t)i * 10 + f;
                }
                free(e);
            }
            wr_run *r;
            char path[300];
            snprintf(path, sizeof path, "%s/m.run", dir);
            assert_ok(wr_run_merge(plan, runs, n, path, &r, err));
            if (nwant) qsort(want, nwant, sizeof *want, by_key);
            check(r, want, nwant, &w);
            for (uint32_t f = 0; f < nlive; f++) assert_int_equal(r->bind[f], bound[f]);
            bool file = wr_file_exists(path);
            wr_run_free(r, false);
            if (file) {
                assert_ok(wr_run_load(plan, path, &r, err));
                check(r, want, nwant, &w);
                wr_run_free(r, true);
            }
            for (int i = 0; i < n; i++) wr_run_free(runs[i], true);
            free(want);
        }
}

static void a_run_of_another_plan_is_refused(void **st) {
    world w = {.rng = 3};
    char path[300];
    snprintf(path, sizeof path, "%s/x.run", dir);
    wr_run_entry *e = make_entries(&w, &makers[0], 2000);
    wr_run_free(build(&plans[0], e, 2000, path), false);
    wr_key_plan other = {.form = WR_KEY_U64, .fingerprint = 7};
    wr_run *r;
    wr_err er = WR_ERR_INIT;
    assert_int_equal(wr_run_load(&other, path, &r, &er), WR_E_CORRUPT);
    assert_int_equal(wr_run_load(&plans[1], path, &r, &er), WR_E_CORRUPT);
    assert_int_equal(wr_run_load(&plans[0], in_dir("none"), &r, &er), WR_E_NOTFOUND);
    free(e);
}

static wr_code load_bytes(const wr_key_plan *plan, const uint8_t *p, size_t n) {
    char path[300];
    snprintf(path, sizeof path, "%s/damaged.run", dir);
    FILE *f = fopen(path, "w");
    fwrite(p, 1, n, f);
    fclose(f);
    wr_run *r;
    wr_err e = WR_ERR_INIT;
    wr_code rc = wr_run_load(plan, path, &r, &e);
    if (rc == WR_OK) wr_run_free(r, false);
    return rc;
}

static void any_bit_flip_and_any_truncation_is_noticed(void **st) {
    world w = {.rng = 4};
    for (int m = 0; m < 2; m++) {
        const struct maker *mk = &makers[m ? 5 : 0];
        char path[300];
        snprintf(path, sizeof path, "%s/good.run", dir);
        wr_run_entry *e = make_entries(&w, mk, WR_RUN_PERSIST);
        wr_run_free(build(&plans[mk->plan], e, WR_RUN_PERSIST, path), false);
        free(e);
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        assert_ok(wr_file_get(path, 1 << 20, &b, err));
        assert_int_equal(load_bytes(&plans[mk->plan], b.p, b.n), WR_OK);
        size_t pad_from = 80 + 1 + 8 + 1 + 1 + 21,
               pad_to = (pad_from + 63) & ~63u; /* header, names; the gap is not covered by a checksum */
        for (size_t bit = 0; bit < b.n * 8; bit += bit < 2000 ? 1 : 37) {
            if (bit / 8 >= pad_from && bit / 8 < pad_to) continue;
            b.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(load_bytes(&plans[mk->plan], b.p, b.n), WR_E_CORRUPT);
            b.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        for (size_t n = 0; n < b.n; n += n < 200 ? 1 : 101)
            assert_int_equal(load_bytes(&plans[mk->plan], b.p, n), WR_E_CORRUPT);
        unlink(path);
    }
}

/* Checksums that fit do not make a shape that does: what an attacker or a bug could write. */
static void wrong_shapes_with_right_checksums_are_refused(void **st) {
    world w = {.rng = 6};
    char path[300];
    snprintf(path, sizeof path, "%s/good.run", dir);
    wr_run_entry *e = make_entries(&w, &makers[0], WR_RUN_PERSIST);
    wr_run_free(build(&plans[0], e, WR_RUN_PERSIST, path), false);
    free(e);
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    assert_ok(wr_file_get(path, 1 << 20, &b, err));
    size_t names = 0;
    memcpy(&names, b.p + 40, 8);
    for (int i = 0; i < 30000; i++) {
        uint8_t *c = malloc(b.n);
        memcpy(c, b.p, b.n);
        int changes = 1 + w_below(&w, 3);
        for (int k = 0; k < changes; k++) {
            size_t at = w_below(&w, 4) ? (size_t)w_below(&w, 80) : (size_t)w_below(&w, (int)b.n);
            c[at] = w_below(&w, 3) ? (uint8_t)w_rnd(&w) : (uint8_t)(c[at] + 1);
        }
        uint64_t nn, body_at, sum;
        memcpy(&nn, c + 40, 8), memcpy(&body_at, c + 48, 8);
        if (body_at < b.n) sum = wr_hash64(c + body_at, b.n - body_at, 0), memcpy(c + 64, &sum, 8);
        if (nn <= b.n - 80) {
            uint32_t crc = wr_crc32c(wr_crc32c(0, c, 76), c + 80, nn);
            memcpy(c + 76, &crc, 4);
        }
        (void)load_bytes(&plans[0], c, b.n); /* must end, without touching what is not its own */
        free(c);
    }
}

static void failed_allocations_and_full_disks_leave_nothing_behind(void **st) {
    world w = {.rng = 8};
    char path[300];
    snprintf(path, sizeof path, "%s/f.run", dir);
    const char *names[1] = {"a"};
    wr_run_entry *e = calloc(2000, sizeof *e);
    for (int op = 0; op < 3; op++) {
        wr_run *src[2] = {0}, *r;
        wr_err er = WR_ERR_INIT;
        for (uint64_t n = 1;; n++) {
            for (uint64_t i = 0; i < 2000; i++) e[i] = (wr_run_entry){{0, w_rnd(&w)}, 0, (uint32_t)i};
            if (op)
                for (int i = 0; i < 2; i++) {
                    char p[330];
                    snprintf(p, sizeof p, "%s%d", path, i);
                    assert_ok(wr_run_build(&plans[0], e, 2000, names, 1, p, &src[i], err));
                    wr_run_bind(src[i], 0, (uint32_t)i);
                }
            wr_mem_fail_after(n);
            wr_code rc = op == 0   ? wr_run_build(&plans[0], e, 2000, names, 1, path, &r, &er)
                         : op == 1 ? wr_run_merge(&plans[0], src, 2, path, &r, &er)
                                   : wr_run_load(&plans[0], src[0]->path, &r, &er);
            bool over = wr_mem_fail_after(0) > 0;
            if (rc == WR_OK)
                wr_run_free(r, true);
            else
                assert_int_equal(rc, WR_E_NOMEM);
            for (int i = 0; op && i < 2; i++) wr_run_free(src[i], true);
            assert_false(wr_file_exists(path));
            if (over) break;
            assert_true(rc != WR_OK || op == 0); /* sorting does without */
        }
        if (op == 2) break;
        wr_fault_set("lake.run:1:fail");
        if (op == 0) assert_int_equal(wr_run_build(&plans[0], e, 2000, names, 1, path, &r, &er), WR_E_NOSPC);
        wr_fault_set(NULL);
        assert_false(wr_file_exists(path));
    }
    free(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIR(entries_are_found_by_key_whatever_keys_there_are),
        IN_DIR(a_merge_has_the_entries_of_live_files_only),
        IN_DIR(a_run_of_another_plan_is_refused),
        IN_DIR(any_bit_flip_and_any_truncation_is_noticed),
        IN_DIR(wrong_shapes_with_right_checksums_are_refused),
        IN_DIR(failed_allocations_and_full_disks_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
