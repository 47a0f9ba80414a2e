#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/state.h"

static char dir[128], path[160];
static wr_state *s;

static int rm_one(const char *p, const struct stat *sb, int flag, struct FTW *f) { return remove(p); }

static void reopen(void) {
    wr_err e = WR_ERR_INIT;
    wr_state_close(s);
    s = NULL;
    if (wr_state_open(path, &s, &e) != WR_OK) fail_msg("%s", e.msg);
}

static int make(void **st) {
    const char *t = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.90s/weir-test-XXXXXX", t ? t : "/tmp");
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/state.db", dir);
    reopen();
    return 0;
}

static int destroy(void **st) {
    wr_fault_set(NULL);
    wr_state_close(s);
    s = NULL;
    return nftw(dir, rm_one, 16, FTW_DEPTH | FTW_PHYS);
}

#define OK(x)                                                                                                          \
    do {                                                                                                               \
        wr_err e_ = WR_ERR_INIT, *err = &e_;                                                                           \
        if ((x) != WR_OK) fail_msg(#x ": %s", err->msg);                                                               \
    } while (0)

/* A table's event: kind, table, version (0 = without schema). */
static void add(uint64_t offset, uint32_t seq, uint8_t kind, uint32_t table, uint32_t version) {
    wr_column c = {.name = (char[]){"id"}, .id = 1, .type = {WR_LONG}, .key_ord = 1};
    char name[32];
    snprintf(name, sizeof name, "t%u at %llu.%u", table, (unsigned long long)offset, seq);
    wr_ddl d = {.kind = kind,
                .table = table,
                .db = (char[]){"shop"},
                .name = name,
                .def = kind == WR_DDL_DROP ? NULL : (char[]){"{}"}};
    if (version) OK(wr_schema_new(&c, 1, version, &d.schema, err));
    OK(wr_state_schema_add(s, offset, seq, &d, err));
    wr_schema_unref(d.schema);
}

static wr_code gather(void *ctx, const wr_ddl *d, wr_err *err) {
    char *value; /* a callback may use the state: no lock is held */
    WR_TRY(wr_state_get(s, "none", &value, err));
    snprintf((char *)ctx + strlen(ctx), 512 - strlen(ctx), "%s:%u,", d->name, d->kind);
    return strcmp(d->name, "t9 at 1.0") == 0 ? wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "enough") : WR_OK;
}

static void loads(uint64_t at, const char *want) {
    char got[512] = "";
    OK(wr_state_schema_load(s, at, gather, got, err));
    assert_string_equal(got, want);
}

static void facts_survive_and_are_replaced(void **st) {
    char *v = (char *)dir;
    OK(wr_state_get(s, "a", &v, err));
    assert_null(v);
    OK(wr_state_set(s, "a", "1", err));
    OK(wr_state_set(s, "a", "größe", err));
    OK(wr_state_set(s, "b", "", err));
    reopen();
    OK(wr_state_get(s, "a", &v, err));
    assert_string_equal(v, "größe");
    wr_free(v);
    OK(wr_state_get(s, "b", &v, err));
    assert_string_equal(v, "");
    wr_free(v);
}

static void history_gives_the_newest_event_per_table_up_to_an_offset(void **st) {
    add(0, 0, WR_DDL_CREATE, 2, 1);
    add(5, 0, WR_DDL_ALTER, 2, 2);
    add(5, 1, WR_DDL_ALTER, 2, 3);
    add(7, 0, WR_DDL_CREATE, 1, 1);
    add(8, 0, WR_DDL_HIDDEN, 3, 0);
    add(9, 0, WR_DDL_DROP, 2, 0);
    add(11, 0, WR_DDL_CREATE, 2, 4);
    reopen();
    loads(0, "t2 at 0.0:1,");
    loads(4, "t2 at 0.0:1,");
    loads(5, "t2 at 5.1:2,");
    loads(8, "t1 at 7.0:1,t2 at 5.1:2,t3 at 8.0:6,");
    loads(9, "t1 at 7.0:1,t3 at 8.0:6,");
    loads(UINT64_MAX, "t1 at 7.0:1,t2 at 11.0:1,t3 at 8.0:6,");
}

static void a_callback_can_end_the_load(void **st) {
    wr_err e = WR_ERR_INIT;
    char got[512] = "";
    add(1, 0, WR_DDL_CREATE, 9, 1);
    add(1, 0, WR_DDL_CREATE, 10, 1);
    assert_int_equal(wr_state_schema_load(s, 1, gather, got, &e), WR_E_CANCELLED);
    assert_string_equal(got, "t9 at 1.0:1,");
}

static void schemas_are_found_by_version(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_schema *sch;
    add(1, 0, WR_DDL_CREATE, 1, 1);
    add(2, 0, WR_DDL_ALTER, 1, 2);
    add(3, 0, WR_DDL_DROP, 1, 0);
    for (uint32_t v = 1; v <= 2; v++) {
        OK(wr_state_schema_version(s, 1, v, &sch, err));
        assert_int_equal(sch->version, v);
        wr_schema_unref(sch);
    }
    assert_int_equal(wr_state_schema_version(s, 1, 3, &sch, &e), WR_E_NOTFOUND);
    assert_int_equal(wr_state_schema_version(s, 2, 1, &sch, &e), WR_E_NOTFOUND);
    assert_int_equal(wr_state_schema_version(s, 1, 0, &sch, &e), WR_E_NOTFOUND);
}

static void truncation_forgets_events_ahead_of_the_queue_and_they_can_come_again(void **st) {
    wr_schema *sch;
    wr_err e = WR_ERR_INIT;
    add(1, 0, WR_DDL_CREATE, 1, 1);
    add(2, 0, WR_DDL_ALTER, 1, 2);
    add(3, 0, WR_DDL_CREATE, 7, 1);
    OK(wr_state_schema_truncate(s, 1, err));
    reopen();
    loads(UINT64_MAX, "t1 at 1.0:1,");
    assert_int_equal(wr_state_schema_version(s, 1, 2, &sch, &e), WR_E_NOTFOUND);
    add(2, 0, WR_DDL_ALTER, 1, 2);
    add(2, 0, WR_DDL_ALTER, 1, 2);
    loads(UINT64_MAX, "t1 at 2.0:2,");
    OK(wr_state_schema_truncate(s, UINT64_MAX, err));
    loads(UINT64_MAX, "t1 at 2.0:2,");
    OK(wr_state_schema_truncate(s, 0, err));
    loads(UINT64_MAX, "");
}

static void table_ids_are_never_used_again(void **st) {
    uint32_t highest = 9;
    OK(wr_state_schema_max_table(s, &highest, err));
    assert_int_equal(highest, 0);
    add(1, 0, WR_DDL_CREATE, 4, 1);
    add(2, 0, WR_DDL_CREATE, UINT32_MAX, 1);
    add(3, 0, WR_DDL_CREATE, 3, 1);
    OK(wr_state_schema_truncate(s, 0, err));
    reopen();
    OK(wr_state_schema_max_table(s, &highest, err));
    assert_int_equal(highest, UINT32_MAX);
}

static void an_offset_sqlite_cannot_hold_is_refused(void **st) {
    wr_err e = WR_ERR_INIT;
    wr_ddl d = {.kind = WR_DDL_DROP, .table = 1, .db = (char[]){"a"}, .name = (char[]){"b"}};
    assert_int_equal(wr_state_schema_add(s, (uint64_t)INT64_MAX + 1, 0, &d, &e), WR_E_INVAL);
    d.kind = 0;
    assert_int_equal(wr_state_schema_add(s, 1, 0, &d, &e), WR_E_INVAL);
    loads(UINT64_MAX, "");
}

static wr_code gather_file(void *ctx, const char *p, int64_t created_us, wr_err *err) {
    assert_true(created_us > 1700000000000000);
    const char *one[] = {p}; /* removing while going through is what recovery does */
    if (strcmp(p, "gone") == 0) WR_TRY(wr_state_file_done(s, one, 1, err));
    snprintf((char *)ctx + strlen(ctx), 512 - strlen(ctx), "%s,", p);
    return WR_OK;
}

static void journal(const char *want) {
    char got[512] = "";
    OK(wr_state_file_each(s, gather_file, got, err));
    assert_string_equal(got, want);
}

static void files_stay_in_the_journal_until_done(void **st) {
    const char *many[] = {"b", "c", "gone"}, *done[] = {"a", "c", "never"};
    OK(wr_state_file_add(s, "a", err));
    OK(wr_state_file_add(s, "a", err));
    OK(wr_state_file_add_many(s, many, 3, err));
    OK(wr_state_file_add_many(s, many, 0, err));
    OK(wr_state_file_done(s, done, 3, err));
    reopen();
    journal("b,gone,");
    journal("b,");
}

static void a_failed_commit_changes_nothing_and_the_next_one_works(void **st) {
    wr_err e = WR_ERR_INIT;
    char *v;
    const char *many[] = {"x", "y"};
    OK(wr_state_set(s, "a", "old", err));
    OK(wr_state_file_add(s, "x", err));
    add(1, 0, WR_DDL_CREATE, 1, 1);
    wr_ddl d = {.kind = WR_DDL_DROP, .table = 1, .db = (char[]){"a"}, .name = (char[]){"b"}};
    for (int i = 0; i < 5; i++) {
        wr_fault_set("state.commit:1:fail");
        wr_code rc = i == 0   ? wr_state_set(s, "a", "new", &e)
                     : i == 1 ? wr_state_file_done(s, many, 2, &e)
                     : i == 2 ? wr_state_file_add_many(s, many, 2, &e)
                     : i == 3 ? wr_state_schema_add(s, 2, 0, &d, &e)
                              : wr_state_schema_truncate(s, 0, &e);
        assert_int_equal(rc, WR_E_IO);
        wr_fault_set(NULL);
    }
    OK(wr_state_get(s, "a", &v, err));
    assert_string_equal(v, "old");
    wr_free(v);
    journal("x,");
    loads(UINT64_MAX, "t1 at 1.0:1,");
    OK(wr_state_set(s, "a", "new", err));
}

static void what_was_acknowledged_survives_a_kill(void **st) {
    for (int n = 1; n <= 4; n++) {
        char fault[64];
        wr_state_close(s);
        s = NULL;
        pid_t pid = fork();
        if (pid == 0) {
            snprintf(fault, sizeof fault, "state.commit:%d:kill", n);
            wr_fault_set(fault);
            wr_err e = WR_ERR_INIT;
            wr_state *mine;
            if (wr_state_open(path, &mine, &e) != WR_OK) _exit(1);
            for (int i = 0; i < 10; i++) {
                char name[32];
                snprintf(name, sizeof name, "%d.%d", n, i);
                if (wr_state_set(mine, "last", name, &e) != WR_OK) _exit(1);
            }
            _exit(0);
        }
        int status;
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        reopen();
        char *v, want[32];
        OK(wr_state_get(s, "last", &v, err));
        snprintf(want, sizeof want, "%d.%d", n, n - 2);
        if (n > 1)
            assert_string_equal(v, want);
        else
            assert_null(v);
        wr_free(v);
    }
}

static void other_databases_are_left_alone(void **st) {
    const char *sql[] = {"PRAGMA application_id = 5; CREATE TABLE t (a)", "CREATE TABLE t (a)",
                         "PRAGMA user_version = 1", "PRAGMA application_id = 0x57656972; PRAGMA user_version = 999",
                         "PRAGMA application_id = 0x57656972; CREATE TABLE t (a)"};
    char other[200];
    for (size_t i = 0; i < 5; i++) {
        sqlite3 *db;
        wr_err e = WR_ERR_INIT;
        wr_state *o = NULL;
        snprintf(other, sizeof other, "%s/other%zu.db", dir, i);
        assert_int_equal(sqlite3_open(other, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, sql[i], NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        struct stat before, after;
        assert_int_equal(stat(other, &before), 0);
        assert_int_equal(wr_state_open(other, &o, &e), WR_E_CORRUPT);
        assert_null(o);
        assert_non_null(strstr(e.msg, other));
        assert_int_equal(strlen(e.cure) > 0, i == 3);
        assert_int_equal(stat(other, &after), 0);
        assert_true(before.st_mtim.tv_sec == after.st_mtim.tv_sec && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    }
}

static void bytes_that_are_no_database_are_corrupt(void **st) {
    char other[200];
    wr_err e = WR_ERR_INIT;
    wr_state *o;
    snprintf(other, sizeof other, "%s/text", dir);
    FILE *f = fopen(other, "w");
    for (int i = 0; i < 2000; i++) fputs("not a database\n", f);
    fclose(f);
    assert_int_equal(wr_state_open(other, &o, &e), WR_E_CORRUPT);
    snprintf(other, sizeof other, "%s/no/state.db", dir);
    assert_int_equal(wr_state_open(other, &o, &e), WR_E_IO);
}

static void a_damaged_event_is_corrupt_and_not_skipped(void **st) {
    sqlite3 *db;
    wr_err e = WR_ERR_INIT;
    char got[512] = "";
    wr_schema *sch;
    add(1, 0, WR_DDL_CREATE, 1, 1);
    const char *sql[] = {"UPDATE schema_event SET ddl = substr(ddl, 1, length(ddl) - 1)",
                         "UPDATE schema_event SET ddl = x''", "UPDATE schema_event SET ddl = x'0101'"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, sql[i], NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        assert_int_equal(wr_state_schema_load(s, 1, gather, got, &e), WR_E_CORRUPT);
        assert_int_equal(wr_state_schema_version(s, 1, 1, &sch, &e), WR_E_CORRUPT);
    }
}

static void the_database_is_private_and_in_wal_mode(void **st) {
    struct stat sb;
    sqlite3 *db;
    sqlite3_stmt *q;
    char wal[200];
    OK(wr_state_set(s, "a", "b", err));
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    snprintf(wal, sizeof wal, "%s-wal", path);
    assert_int_equal(stat(wal, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA journal_mode", -1, &q, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(q, 0), "wal");
    sqlite3_finalize(q);
    sqlite3_close(db);
}

static void *hammer(void *arg) {
    int me = *(int *)arg;
    wr_err e = WR_ERR_INIT;
    for (int i = 0; i < 30; i++) {
        char name[32];
        char *v = NULL;
        const char *one = name;
        snprintf(name, sizeof name, "%d.%d", me, i);
        if (wr_state_set(s, name, name, &e) != WR_OK || wr_state_get(s, name, &v, &e) != WR_OK || !v ||
            strcmp(v, name) != 0)
            return &s;
        wr_free(v);
        if (wr_state_file_add(s, name, &e) != WR_OK || wr_state_file_done(s, &one, 1, &e) != WR_OK) return &s;
    }
    return NULL;
}

static void several_threads_may_use_it(void **st) {
    pthread_t t[4];
    int id[4];
    for (int i = 0; i < 4; i++) {
        id[i] = i;
        pthread_create(&t[i], NULL, hammer, &id[i]);
    }
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        assert_null(bad);
    }
    journal("");
}

static void each_failed_allocation_is_reported_and_leaks_nothing(void **st) {
    char *v = NULL;
    wr_schema *sch = NULL;
    wr_err e = WR_ERR_INIT;
    add(1, 0, WR_DDL_CREATE, 1, 1);
    OK(wr_state_file_add(s, "a", err));
    for (uint64_t n = 1;; n++) {
        char got[512] = "";
        wr_ddl d = {.kind = WR_DDL_DROP, .table = 2, .db = (char[]){"a"}, .name = (char[]){"b"}};
        wr_state *o = NULL;
        wr_mem_fail_after(n);
        wr_code rc = wr_state_set(s, "k", "v", &e);
        if (rc == WR_OK) rc = wr_state_get(s, "k", &v, &e);
        if (rc == WR_OK) rc = wr_state_schema_add(s, 1, 0, &d, &e);
        if (rc == WR_OK) rc = wr_state_schema_load(s, 1, gather, got, &e);
        if (rc == WR_OK) rc = wr_state_schema_version(s, 1, 1, &sch, &e);
        if (rc == WR_OK) rc = wr_state_file_each(s, gather_file, got, &e);
        if (rc == WR_OK) rc = wr_state_open(path, &o, &e);
        bool over = wr_mem_fail_after(0) > 0;
        assert_int_equal(rc, over ? WR_OK : WR_E_NOMEM);
        wr_state_close(o);
        wr_schema_unref(sch), sch = NULL;
        wr_free(v), v = NULL;
        if (over) break;
    }
}

#define IN_STATE(f) cmocka_unit_test_setup_teardown(f, make, destroy)

int main(void) {
    const struct CMUnitTest t[] = {
        IN_STATE(facts_survive_and_are_replaced),
        IN_STATE(history_gives_the_newest_event_per_table_up_to_an_offset),
        IN_STATE(a_callback_can_end_the_load),
        IN_STATE(schemas_are_found_by_version),
        IN_STATE(truncation_forgets_events_ahead_of_the_queue_and_they_can_come_again),
        IN_STATE(table_ids_are_never_used_again),
        IN_STATE(an_offset_sqlite_cannot_hold_is_refused),
        IN_STATE(files_stay_in_the_journal_until_done),
        IN_STATE(a_failed_commit_changes_nothing_and_the_next_one_works),
        IN_STATE(what_was_acknowledged_survives_a_kill),
        IN_STATE(other_databases_are_left_alone),
        IN_STATE(bytes_that_are_no_database_are_corrupt),
        IN_STATE(a_damaged_event_is_corrupt_and_not_skipped),
        IN_STATE(the_database_is_private_and_in_wal_mode),
        IN_STATE(several_threads_may_use_it),
        IN_STATE(each_failed_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
