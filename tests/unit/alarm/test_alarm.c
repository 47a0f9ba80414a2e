/* The whole of it with a real file, real threads, and a command that is told; the process dies at any moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cjson/cJSON.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "deliver.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"

static char home[128], heard[160];

static int setup(void **state) {
    snprintf(home, sizeof home, "%s/weir-alarm-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(home)) return -1;
    snprintf(heard, sizeof heard, "%s/heard", home);
    return 0;
}

static int teardown(void **state) {
    char cmd[200];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", home);
    return system(cmd);
}

static const char *command[] = {"sh", "-c", "cat >>\"$0\" && echo >>\"$0\"", heard, NULL};
static wr_alarm_sink told = {.name = "file", .type = WR_SINK_COMMAND, .argv = command};

static wr_alarms *open_alarms(void) {
    wr_alarms *a;
    wr_err err = WR_ERR_INIT;
    const wr_alarms_options o = {.home = home, .pipeline = "shop", .sinks = &told, .nsinks = 1, .recovery_us = 1};
    assert_int_equal(wr_alarms_open(&o, &a, &err), WR_OK);
    return a;
}

static void sleep_ms(int ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000l}, NULL); }

/* How many notices of this event the command was told for this subject. */
static int count(const char *event, const char *subject) {
    FILE *f = fopen(heard, "r");
    char line[8192];
    int n = 0;
    while (f && fgets(line, sizeof line, f)) {
        cJSON *o = cJSON_Parse(line);
        const char *e = cJSON_GetStringValue(cJSON_GetObjectItem(o, "event")), *s = cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetObjectItem(o, "alarm"), "subject"));
        n += e && s && !strcmp(e, event) && !strcmp(s, subject);
        cJSON_Delete(o);
    }
    if (f) fclose(f);
    return n;
}

/* Different notices among what the command was told. */
static int notices(void) {
    FILE *f = fopen(heard, "r");
    char line[8192];
    int n = 0, seen[64];
    while (f && fgets(line, sizeof line, f)) {
        cJSON *o = cJSON_Parse(line);
        const cJSON *id = cJSON_GetObjectItem(o, "notice");
        int k = 0;
        while (k < n && seen[k] != id->valueint) k++;
        if (k == n && n < 64) seen[n++] = id->valueint;
        cJSON_Delete(o);
    }
    if (f) fclose(f);
    return n;
}

static void until_heard(const char *event, const char *subject) {
    for (int i = 0; i < 1000 && !count(event, subject); i++) sleep_ms(10);
    assert_true(count(event, subject) > 0);
}

static void raising_and_clearing_are_told_and_listed(void **state) {
    wr_alarms *a = open_alarms();
    wr_err err = WR_ERR_INIT;
    wr_alarm_list l;
    wr_alarm_raise(a, WR_ALARM_SOURCE_RETENTION, "db:3306", "binlogs leave in 2 h", NULL);
    until_heard("opened", "db:3306");
    for (int i = 0; i < 500; i++) { /* it is told and kept side by side */
        assert_int_equal(wr_alarms_read(home, &l, &err), WR_OK);
        if (l.n) break;
        sleep_ms(10);
    }
    assert_int_equal(l.n, 1), assert_int_equal(l.open, 1);
    assert_string_equal(l.list[0].kind, "source.retention");
    assert_int_equal(l.list[0].severity, WR_ALARM_CRITICAL);
    assert_true(strlen(l.list[0].cure) > 0);
    wr_alarm_list_clear(&l);
    assert_int_equal(wr_alarms_acknowledge(home, 99, &err), WR_E_NOTFOUND);
    assert_int_equal(wr_alarms_acknowledge(home, 1, &err), WR_OK);
    assert_int_equal(wr_alarms_read(home, &l, &err), WR_OK); /* at once, although the other side has not seen it yet */
    assert_int_equal(l.list[0].state, WR_ALARM_ACKNOWLEDGED), assert_int_equal(l.open, 0);
    wr_alarm_list_clear(&l);
    char request[200];
    snprintf(request, sizeof request, "%s/acknowledge/1", home);
    for (int i = 0; i < 500 && access(request, F_OK) == 0; i++) sleep_ms(10);
    assert_int_not_equal(access(request, F_OK), 0);
    wr_alarm_clear(a, WR_ALARM_SOURCE_RETENTION, "db:3306");
    until_heard("recovered", "db:3306");
    wr_alarms_close(a);
    assert_int_equal(wr_alarms_read(home, &l, &err), WR_OK);
    assert_int_equal(l.list[0].state, WR_ALARM_RECOVERED), assert_int_equal(l.undelivered, 0);
    wr_alarm_list_clear(&l);
    assert_int_equal(count("opened", "db:3306"), 1), assert_int_equal(count("recovered", "db:3306"), 1);
}

static void closing_delivers_what_was_just_raised(void **state) {
    wr_alarms *a = open_alarms();
    wr_alarm_raise(a, WR_ALARM_SYNC_FAILED, "shop", "the source is another one", "look");
    wr_alarms_run_ended(a, true);
    wr_alarms_close(a);
    assert_int_equal(count("opened", "shop"), 1);
    a = open_alarms();
    assert_int_equal(wr_alarms_failures(a, 60000000), 1);
    wr_alarm_raise(a, WR_ALARM_SYNC_FAILED, "shop", "the source is another one", "look");
    wr_alarms_run_ended(a, false);
    wr_alarms_close(a);
    assert_int_equal(count("opened", "shop"), 1);
}

/* A child that dies by SIGKILL at this fault point, or after a while. */
static void die(const char *fault, const char *subject, int ms) {
    pid_t pid = fork();
    if (pid == 0) {
        wr_fault_set(fault);
        wr_alarms *a = open_alarms();
        wr_alarm_raise(a, WR_ALARM_DISK_LOW, subject, "full", NULL);
        sleep_ms(ms);
        kill(getpid(), SIGKILL);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status));
}

static void what_was_kept_is_told_after_a_kill_and_once_when_it_was_known_to_be_taken(void **state) {
    die("alarm.deliver:1:stall=5000", "kept", 1500); /* raised and kept, not told */
    assert_int_equal(count("opened", "kept"), 0);
    die(NULL, "told", 1500);                         /* tells both, knows it */
    assert_int_equal(count("opened", "kept"), 1), assert_int_equal(count("opened", "told"), 1);
    die("alarm.delivered:1:kill", "twice", 5000);    /* told, and died before it could be kept: the one case that comes twice */
    wr_alarms *a = open_alarms();
    assert_int_equal(wr_alarms_failures(a, 60000000), 3); /* each kill was a run that did not say how it ended */
    wr_alarms_close(a);
    assert_int_equal(count("opened", "kept"), 1), assert_int_equal(count("opened", "told"), 1);
    assert_in_range(count("opened", "twice"), 1, 2);
    wr_alarm_list l;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_alarms_read(home, &l, &err), WR_OK);
    assert_int_equal(l.undelivered, 0);
    wr_alarm_list_clear(&l);
}

static void killed_at_any_write_the_file_is_old_or_new(void **state) {
    static const char *const faults[] = {"io.write:%d:kill", "io.write.torn:%d:kill", "io.sync:%d:kill", "io.rename:%d:kill"};
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
        for (int nth = 1; nth <= 3; nth++) {
            char fault[64];
            snprintf(fault, sizeof fault, faults[f], nth);
            die(fault, "any", 300);
            wr_alarm_list l;
            wr_err err = WR_ERR_INIT;
            assert_int_equal(wr_alarms_read(home, &l, &err), WR_OK);
            assert_in_range(l.n, 0, 1);
            wr_alarm_list_clear(&l);
        }
    wr_alarms_close(open_alarms());
    assert_true(count("opened", "any") > 0); /* at least once, and it is the same notice each time */
    assert_int_equal(notices(), 1);
}

static void a_damaged_file_is_put_aside(void **state) {
    char path[200];
    snprintf(path, sizeof path, "%s/alarms.json", home);
    FILE *f = fopen(path, "w");
    fputs("{\"format\":", f);
    fclose(f);
    wr_alarm_list l;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_alarms_read(home, &l, &err), WR_E_CORRUPT);
    wr_alarms_close(open_alarms());
    err = (wr_err)WR_ERR_INIT;
    assert_int_equal(wr_alarms_read(home, &l, &err), WR_OK);
    strcat(path, ".damaged");
    assert_int_equal(access(path, F_OK), 0);
    wr_alarm_list_clear(&l);
}

static void a_full_disk_and_a_sink_that_hangs_hold_up_nobody_who_raises(void **state) {
    static const char *const hangs[] = {"sh", "-c", "sleep 60 & sleep 60", NULL};
    wr_alarm_sink usual = told;
    told = (wr_alarm_sink){.name = "hangs", .type = WR_SINK_COMMAND, .argv = hangs, .timeout_us = 1000000};
    wr_fault_set("io.write.nospc:1:fail,io.write.nospc:2:fail,io.write.nospc:3:fail");
    wr_alarms *a = open_alarms();
    int64_t began = wr_mono_us();
    for (int i = 0; i < 20000; i++) wr_alarm_raise(a, WR_ALARM_DISK_LOW, i % 2 ? "a" : "b", "full", NULL);
    assert_true(wr_mono_us() - began < 2000000);
    sleep_ms(5000);
    wr_alarm_list l;
    wr_err err = WR_ERR_INIT;
    assert_int_equal(wr_alarms_read(home, &l, &err), WR_OK); /* kept as soon as there was room */
    assert_int_equal(l.n, 2), assert_int_equal(l.undelivered, 2);
    wr_alarm_list_clear(&l);
    wr_alarms_close(a);
    assert_int_equal(wr_alarms_read(home, &l, &err), WR_OK);
    assert_non_null(strstr(l.error, "alarms.notify 'hangs': sh has not ended after 1 s"));
    wr_alarm_list_clear(&l);
    wr_fault_set(NULL);
    told = usual;
}

/* ------------------------------------------------------------------ texts */
static const wr_alarm sample = {.id = 7, .severity = WR_ALARM_CRITICAL, .count = 2, .first_us = INT64_C(1700000000000000), .last_us = INT64_C(1700000060000000), .kind = "disk.low", .subject = "/h\xc3\xb6me", .text = "a < b & c > d", .cure = "make \"room\""};
static const wr_notice opened = {.id = 3, .alarm = 7, .at_us = INT64_C(1700000000000000)};

static void feishu_gets_a_post_signed_as_its_manual_says(void **state) {
    char *text = wr_notice_feishu("shop", &opened, &sample, "s3cret", INT64_C(1700000000000000));
    cJSON *o = cJSON_Parse(text);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(o, "timestamp")), "1700000000");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(o, "sign")), "IX3eHI0/v/Td7jqJ0ynSEK3Dq5JY3HUZeoeMgVZeZGo=");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(o, "msg_type")), "post");
    cJSON *post = cJSON_GetObjectItem(cJSON_GetObjectItem(cJSON_GetObjectItem(o, "content"), "post"), "en_us");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(post, "title")), "[critical] shop: disk.low /h\xc3\xb6me");
    cJSON *first = cJSON_GetArrayItem(cJSON_GetArrayItem(cJSON_GetObjectItem(post, "content"), 0), 0);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(first, "tag")), "text");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(first, "text")), "a < b & c > d");
    cJSON_Delete(o), wr_free(text);
    text = wr_notice_feishu("shop", &opened, &sample, NULL, 0);
    assert_null(strstr(text, "sign"));
    wr_free(text);
}

static void slack_gets_entities(void **state) {
    char *text = wr_notice_slack("shop", &opened, &sample);
    assert_non_null(strstr(text, "a &lt; b &amp; c &gt; d"));
    assert_non_null(strstr(text, "{\"text\":\"*[critical] shop"));
    wr_free(text);
}

static void a_mail_holds_nothing_but_ascii_in_short_lines(void **state) {
    static const char *const to[] = {"a@x", "b@y"};
    const wr_alarm_sink s = {.name = "m", .type = WR_SINK_EMAIL, .from = "Weir <weir@x>", .to = to, .nto = 2};
    wr_alarm a = sample;
    memset(a.subject, 'o', 500);
    for (int i = 100; i < 300; i += 2) a.subject[i] = '\xc3', a.subject[i + 1] = '\xb6';
    char *text = wr_notice_mail(&s, "shop", &opened, &a, INT64_C(1700000000000000));
    size_t line = 0;
    for (const char *p = text; *p; p++) {
        assert_in_range((unsigned char)*p, 1, 126);
        line = *p == '\n' ? 0 : line + 1;
        assert_in_range(line, 0, 78);
    }
    assert_non_null(strstr(text, "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n"));
    assert_non_null(strstr(text, "From: Weir <weir@x>\r\n"));
    assert_non_null(strstr(text, "To: a@x,\r\n b@y\r\n"));
    assert_non_null(strstr(text, "Message-ID: <weir.3.1700000000000000@x>\r\n"));
    wr_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(raising_and_clearing_are_told_and_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_delivers_what_was_just_raised, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_kept_is_told_after_a_kill_and_once_when_it_was_known_to_be_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(killed_at_any_write_the_file_is_old_or_new, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_file_is_put_aside, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_and_a_sink_that_hangs_hold_up_nobody_who_raises, setup, teardown),
        cmocka_unit_test(feishu_gets_a_post_signed_as_its_manual_says),
        cmocka_unit_test(slack_gets_entities),
        cmocka_unit_test(a_mail_holds_nothing_but_ascii_in_short_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
