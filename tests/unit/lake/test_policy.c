/* What the choice of files costs, by arithmetic: tables that grow and change, as numbers of rows and bytes only. */
#include "policy.h"
#include "world.h"

#define ROW 100 /* bytes of a row in a file */
#define MB (UINT64_C(1) << 20)

typedef struct sim {
    wr_policy p;
    wr_policy_file f[20000];
    uint32_t n;
    double new_bytes, written;
    int jobs, most_files, most_inputs;
    uint64_t most_bytes;
} sim;

static void sim_add(sim *s, uint64_t records) {
    assert_true(s->n < 20000);
    s->f[s->n] = (wr_policy_file){.no = s->n, .records = records, .bytes = records * ROW};
    s->n++;
}

/* One job, if there is one: its inputs leave, their live rows come back as files of one size. */
static bool sim_job(sim *s) {
    static wr_choice c;
    s->p.amplification = s->new_bytes > 0 ? s->written / s->new_bytes : 1;
    wr_policy_choose(&s->p, s->f, s->n, &c);
    if (c.work == WR_WORK_NONE) return false;
    uint64_t live = 0, each = wr_policy_output_bytes(&s->p, c.live_bytes) / ROW;
    uint32_t k = 0;
    for (int i = 0; i < c.n; i++) {
        assert_true(i == 0 || c.no[i] > c.no[i - 1]);
        live += s->f[c.no[i]].records - s->f[c.no[i]].dead;
        s->f[c.no[i]].records = 0;
    }
    assert_int_equal(live * ROW / MB, c.live_bytes / MB);
    for (uint32_t i = 0; i < s->n; i++)
        if (s->f[i].records) s->f[k] = s->f[i], s->f[k].no = k, k++;
    s->n = k;
    if (each > WR_POLICY_ROWS) each = WR_POLICY_ROWS;
    s->written += (double)live * ROW;
    s->jobs++;
    if (c.n > s->most_inputs) s->most_inputs = c.n;
    if (c.bytes > s->most_bytes) s->most_bytes = c.bytes;
    for (; live > 0; live -= live < each ? live : each) sim_add(s, live < each ? live : each);
    return true;
}

static double total(const sim *s, bool dead) {
    double sum = 0;
    for (uint32_t i = 0; i < s->n; i++) sum += (double)(dead ? s->f[i].dead : s->f[i].records);
    return sum;
}

/* So many rows that are deleted anywhere, evenly. */
static void sim_kill(sim *s, double rows) {
    double live = total(s, false) - total(s, true);
    static double rest; /* what rounding left over */
    for (uint32_t i = 0; i < s->n && live > 0; i++) {
        double x = rows * (double)(s->f[i].records - s->f[i].dead) / live + rest;
        uint64_t k = (uint64_t)x;
        if (k > s->f[i].records - s->f[i].dead) k = s->f[i].records - s->f[i].dead;
        rest = x - (double)k;
        s->f[i].dead += k;
    }
}

/* A look-up opens every file, and does beside that what costs it as much as fifty: what DuckDB 1.5 did on tables of 25 million rows. */
static double look_up(double files) { return 50 + files; }

typedef struct load {
    uint64_t bytes, commit_bytes, start_bytes; /* come in all, with each commit, and are there at the beginning */
    int updates;                               /* of a hundred new rows, those that replace an old one */
    int files;                                 /* of a commit */
    int commits;                               /* for each job: it begins behind one, and is taken before another */
} load;
typedef struct outcome { double amplification, read_cost, read_cost_most, look_up_most; } outcome;

static outcome sim_run(load l) {
    sim *s = calloc(1, sizeof *s);
    s->p = (wr_policy){.target_bytes = 128 * MB, .job_bytes = 256 * MB, .files = 8, .patient = true};
    outcome o = {0};
    int files = l.files ? l.files : 1, commits = l.commits ? l.commits : 1;
    for (uint64_t b = 0; b < l.start_bytes; b += 8 * MB) sim_add(s, 8 * MB / ROW), s->new_bytes += 8 * MB, s->written += 8 * MB;
    while (sim_job(s)) {
    }
    double began = s->new_bytes;
    for (int n = 1; s->new_bytes - began < (double)l.bytes; n++) {
        sim_kill(s, (double)l.commit_bytes / ROW * l.updates / 100);
        for (int i = 0; i < files; i++) sim_add(s, l.commit_bytes / ROW / (uint64_t)files);
        s->new_bytes += (double)l.commit_bytes, s->written += (double)l.commit_bytes;
        if (n % commits == 0) sim_job(s);
        if ((int)s->n > s->most_files) s->most_files = (int)s->n;
        double live = total(s, false) - total(s, true), cost = total(s, false) / live;
        double full = live * ROW / (double)s->p.target_bytes, open = look_up(s->n) / look_up(full > 1 ? full : 1);
        if (s->new_bytes - began > (double)l.bytes / 2 && cost > o.read_cost_most) o.read_cost_most = cost;
        if (s->new_bytes - began > (double)l.bytes / 2 && open > o.look_up_most) o.look_up_most = open;
        o.read_cost = cost;
    }
    o.amplification = s->written / s->new_bytes;
    print_message("%6.1f GB in commits of %6.2f MB, %3d %% updates, on %4.1f GB: written %.2f x, read %.2f x (at most %.2f), looked up %.2f x at most, %d files (at most %d), %d jobs of at most %d files and %llu MB\n",
                  (double)l.bytes / 1e9, (double)l.commit_bytes / 1e6, l.updates, (double)l.start_bytes / 1e9, o.amplification, o.read_cost, o.read_cost_most, o.look_up_most, (int)s->n, s->most_files, s->jobs,
                  s->most_inputs, (unsigned long long)(s->most_bytes / MB));
    assert_true(s->most_bytes <= s->p.job_bytes * 2);
    free(s);
    return o;
}

static void ten_gigabytes_with_random_updates_are_written_thrice_at_most(void **st) {
    static const uint64_t commits[] = {60000, 1 * MB, 8 * MB, 20 * MB};
    for (int i = 0; i < 4; i++) {
        load l = {.bytes = UINT64_C(10000000000) / (i ? 1 : 10), .commit_bytes = commits[i], .updates = 30};
        outcome o = sim_run(l);
        assert_true(o.amplification <= (i ? 3.0 : 4.0));
        assert_true(o.read_cost <= 1.3 && o.read_cost_most <= 1.3);
        l.start_bytes = UINT64_C(5000000000);
        o = sim_run(l);
        assert_true(o.amplification <= 3.0 && o.read_cost <= 1.3);
    }
    outcome o = sim_run((load){.bytes = UINT64_C(10000000000), .commit_bytes = 8 * MB, .updates = 100, .start_bytes = UINT64_C(5000000000)}); /* nothing but updates */
    assert_true(o.amplification <= 3.0);
    sim_run((load){.bytes = UINT64_C(3000000000), .commit_bytes = 8 * MB});
}

/* More comes than there is time to rewrite all that is due: neither scans nor look-ups are forgotten over the other. */
static void with_little_time_neither_scans_nor_look_ups_are_forgotten(void **st) {
    for (int commits = 1; commits <= 2; commits++) {
        outcome o = sim_run((load){.bytes = UINT64_C(2600000000), .commit_bytes = 76 * MB, .updates = 30, .files = 7, .commits = commits});
        assert_true(o.amplification <= 2.5);
        assert_true(o.read_cost_most <= 1.2 && o.look_up_most <= (commits == 1 ? 1.3 : 1.4));
    }
}

static wr_choice choose(wr_policy p, const wr_policy_file *f, uint32_t n) {
    wr_choice c;
    wr_policy_choose(&p, f, n, &c);
    return c;
}

static void a_file_with_many_dead_rows_is_worth_it_and_a_huge_one_with_few_is_not(void **st) {
    wr_policy p = {.target_bytes = 128 * MB, .job_bytes = 256 * MB, .files = 8, .amplification = 1};
    wr_policy_file f[2] = {{.no = 3, .bytes = 10 * MB, .records = 1000, .dead = 150}, {.no = 7, .bytes = 100 * MB, .records = 1000, .dead = 50}};
    wr_choice c = choose(p, f, 2);
    assert_true(c.work == WR_WORK_REWRITE && c.n == 1 && c.no[0] == 3 && c.dead_rows == 150);
    f[0].dead = 149;
    assert_int_equal(choose(p, f, 2).work, WR_WORK_NONE);
    f[0].dead = 299, f[0].fresh = 150; /* half of it just now */
    assert_int_equal(choose(p, f, 2).work, WR_WORK_NONE);
    f[0].dead = 300;
    assert_int_equal(choose(p, f, 2).work, WR_WORK_REWRITE);
    f[0].fresh = 0;
    f[0].dead = 299, p.amplification = 2.26; /* it has cost something already: 30 in a hundred */
    assert_int_equal(choose(p, f, 2).work, WR_WORK_NONE);
    f[0].dead = 300;
    assert_int_equal(choose(p, f, 2).work, WR_WORK_REWRITE);
    f[0].dead = 449, p.amplification = 3; /* much */
    assert_int_equal(choose(p, f, 2).work, WR_WORK_NONE);
    f[0].dead = 500;
    assert_int_equal(choose(p, f, 2).work, WR_WORK_REWRITE);
    f[0].bytes = MB / 2, p.patient = true; /* little to gain, and there was a job just now */
    assert_int_equal(choose(p, f, 2).work, WR_WORK_NONE);
    f[1].dead = 600; /* most is gained here */
    c = choose(p, f, 2);
    assert_true(c.work == WR_WORK_REWRITE && c.n == 2);
    f[0].bytes = f[1].bytes = 130 * MB, f[0].dead = 590; /* no room for both: the one of which more is deleted */
    c = choose(p, f, 2);
    assert_true(c.n == 1 && c.no[0] == 7);
    f[0].bytes = f[1].bytes = 10 * MB, f[0].records = f[1].records = WR_POLICY_JOB_ROWS, f[0].dead = f[1].dead = WR_POLICY_JOB_ROWS / 10 * 4, p.amplification = 2; /* more rows than are sorted at once */
    assert_int_equal(choose(p, f, 2).n, 1);
}

static void small_files_are_merged_once_they_make_one_of_the_next_size(void **st) {
    wr_policy p = {.target_bytes = 128 * MB, .job_bytes = 256 * MB, .files = 8, .amplification = 1};
    wr_policy_file f[200];
    for (uint32_t i = 0; i < 200; i++) f[i] = (wr_policy_file){.no = i, .bytes = 300000, .records = 10};
    assert_int_equal(choose(p, f, 6).work, WR_WORK_NONE);
    assert_int_equal(choose(p, f, 7).work, WR_WORK_NONE); /* 2.1 MB, but seven */
    wr_choice c = choose(p, f, 8);
    assert_true(c.work == WR_WORK_MERGE && c.n == 8 && c.dead_rows == 0 && strstr(c.why, "8 files"));
    for (uint32_t i = 0; i < 200; i++) f[i].bytes = 100;
    assert_int_equal(choose(p, f, 7).work, WR_WORK_NONE);
    assert_int_equal(choose(p, f, 8).n, 8); /* a crowd of tiny ones */
    assert_int_equal(choose(p, f, 200).n, WR_POLICY_INPUTS);
    for (uint32_t i = 0; i < 200; i++) f[i].bytes = 64 * MB;
    assert_int_equal(choose(p, f, 200).work, WR_WORK_NONE); /* full */
    for (uint32_t i = 0; i < 200; i++) f[i].bytes = MB, f[i].records = WR_POLICY_ROWS;
    assert_int_equal(choose(p, f, 200).work, WR_WORK_NONE); /* as many rows as there may be */
    for (uint32_t i = 0; i < 200; i++) f[i].bytes = 60 * MB, f[i].records = 1000;
    c = choose(p, f, 200);
    assert_true(c.work == WR_WORK_MERGE && c.bytes <= p.job_bytes && c.n == 4);
    f[150] = (wr_policy_file){.no = 150, .bytes = 200 * MB, .records = 1000, .dead = 300};
    assert_int_equal(choose(p, f, 200).work, WR_WORK_MERGE); /* opening 200 files costs a look-up more than this costs a scan */
    f[8] = f[150], f[8].no = 8;
    c = choose(p, f, 9); /* of nine, less */
    assert_true(c.work == WR_WORK_REWRITE && c.n == 1 && c.no[0] == 8);
    p.settling = true;
    for (uint32_t i = 0; i < 20; i++) f[i] = (wr_policy_file){.no = i, .bytes = 7 * MB, .records = 1000};
    assert_int_equal(choose(p, f, 20).work, WR_WORK_NONE); /* a load has just left them */
    p.settling = false;
    c = choose(p, f, 20);
    assert_true(c.work == WR_WORK_MERGE && c.n == 20);
    for (uint32_t i = 0; i < 150; i++) f[i].bytes = 10000; /* but tiny files never wait */
    assert_int_equal(choose(p, f, 200).work, WR_WORK_MERGE);
}

static void all_of_it_is_rewritten_once(void **st) {
    wr_policy p = {.target_bytes = 128 * MB, .job_bytes = 256 * MB, .files = 8, .all = true};
    wr_policy_file f[3] = {{.no = 0, .bytes = MB, .records = 10}, {.no = 1, .bytes = 100 * MB, .records = 10}, {.no = 2, .bytes = 100 * MB, .records = 10, .dead = 1}};
    wr_choice c = choose(p, f, 3);
    assert_true(c.work == WR_WORK_REWRITE && c.n == 2 && c.no[0] == 0 && c.no[1] == 2);
    f[0].done = f[2].done = true, f[2].dead = 0;
    assert_int_equal(choose(p, f, 3).work, WR_WORK_NONE);
    assert_int_equal(choose(p, f, 0).work, WR_WORK_NONE);
    wr_policy_file one = {.no = 0, .bytes = MB, .records = 10};
    assert_int_equal(choose(p, &one, 1).work, WR_WORK_NONE); /* would only be copied */
}

static void files_of_two_partitions_are_not_merged_and_due_ones_share_a_job(void **st) {
    wr_policy p = {.target_bytes = 128 * MB, .job_bytes = 256 * MB, .files = 8, .amplification = 1};
    wr_policy_file f[64];
    for (uint32_t i = 0; i < 64; i++) f[i] = (wr_policy_file){.no = 63 - i, .bytes = 100, .records = 10, .group = i / 7};
    assert_int_equal(choose(p, f, 63).work, WR_WORK_NONE); /* seven of each */
    for (uint32_t i = 0; i < 64; i++) f[i].group = i / 8;
    wr_choice c = choose(p, f, 64);
    assert_true(c.work == WR_WORK_MERGE && c.n == 64 && strstr(c.why, "7 more partitions"));
    for (int i = 0; i < c.n; i++) assert_int_equal(c.no[i], 63 - i); /* partition by partition */
    for (uint32_t i = 0; i < 64; i++) f[i].bytes = 60 * MB, f[i].group = i / 32;
    c = choose(p, f, 64);
    assert_true(c.work == WR_WORK_MERGE && c.n == 4 && c.no[3] == 60); /* the second one waits for room */
    p.all = true;
    f[0] = (wr_policy_file){.no = 0, .bytes = 1, .records = 1, .group = 1}, f[1] = (wr_policy_file){.no = 1, .bytes = 1, .records = 1, .group = 2};
    assert_int_equal(choose(p, f, 2).work, WR_WORK_NONE); /* each alone */
}

static void files_of_another_spec_are_spread_when_nothing_else_is_due(void **st) {
    wr_policy p = {.target_bytes = 128 * MB, .job_bytes = 256 * MB, .files = 8, .amplification = 1};
    wr_policy_file f[20];
    for (uint32_t i = 0; i < 20; i++) f[i] = (wr_policy_file){.no = i, .bytes = i < 10 ? 20 * MB : 100, .records = 1000, .dead = 900, .group = i >= 10, .old = i < 10};
    assert_int_equal(choose(p, f, 20).work, WR_WORK_MERGE);
    wr_choice c = choose(p, f, 10); /* neither merged nor rewritten into what is old */
    assert_true(c.work == WR_WORK_SPREAD && c.n == 3 && c.bytes <= p.job_bytes / WR_SPREAD_PART && strstr(c.why, "10 files"));
    f[0].bytes = 300 * MB;
    assert_int_equal(choose(p, f, 10).n, 1);
    for (uint32_t i = 0; i < 10; i++) f[i].bytes = 1000, f[i].records = WR_POLICY_ROWS / 3;
    assert_int_equal(choose(p, f, 10).n, 3);
    p.all = true;
    assert_int_equal(choose(p, f, 10).work, WR_WORK_SPREAD);
}

static void outputs_of_a_job_are_of_one_size(void **st) {
    wr_policy p = {.target_bytes = 128 * MB};
    assert_true(wr_policy_output_bytes(&p, 100 * MB) > 128 * MB); /* one file */
    assert_true(wr_policy_output_bytes(&p, 190 * MB) > 190 * MB);
    assert_int_equal(wr_policy_output_bytes(&p, 240 * MB), 120 * MB);
    assert_int_equal(wr_policy_output_bytes(&p, 256 * MB), 128 * MB);
}

int main(void) {
    w_not_all_use();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_gigabytes_with_random_updates_are_written_thrice_at_most),
        cmocka_unit_test(with_little_time_neither_scans_nor_look_ups_are_forgotten),
        cmocka_unit_test(a_file_with_many_dead_rows_is_worth_it_and_a_huge_one_with_few_is_not),
        cmocka_unit_test(small_files_are_merged_once_they_make_one_of_the_next_size),
        cmocka_unit_test(all_of_it_is_rewritten_once),
        cmocka_unit_test(files_of_two_partitions_are_not_merged_and_due_ones_share_a_job),
        cmocka_unit_test(files_of_another_spec_are_spread_when_nothing_else_is_due),
        cmocka_unit_test(outputs_of_a_job_are_of_one_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
