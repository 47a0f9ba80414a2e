/* Records and notices by a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "book.h"
#include "weir/base/mem.h"

#define S INT64_C(1000000)
#define KIND "source.lag"

static const wr_alarm_sink sinks[] = {{.name = "chat", .min_severity = WR_ALARM_WARNING}, {.name = "mail", .min_severity = WR_ALARM_CRITICAL}, {.name = "boss", .min_severity = WR_ALARM_WARNING, .after_us = 900 * S}, {.name = "night", .min_severity = WR_ALARM_WARNING, .after_us = 3600 * S}};
static wr_book book_of(int nsinks) { return (wr_book){.sinks = sinks, .nsinks = nsinks, .recovery_us = 30 * S}; }

static bool raise_at(wr_book *b, wr_alarm_severity sev, int64_t s) { return wr_book_raise(b, true, KIND, sev, "shop", "behind", "wait", s * S); }

static void tick(wr_book *b, int64_t us) { wr_book_tick(b, us, us); }

/* Takes what is due for everybody; "chat:opened mail:opened". */
static const char *told(wr_book *b, int64_t s) {
    static char text[2000];
    wr_notice n;
    wr_alarm a;
    text[0] = 0;
    while (wr_book_due(b, UINT64_MAX, s * S, &n, &a)) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s:%s", *text ? " " : "", n.sink, wr_event_name(n.event));
        wr_book_delivered(b, n.id);
    }
    return text;
}

static void one_that_is_open_is_told_once_and_counted(void **state) {
    wr_book b = book_of(1);
    raise_at(&b, WR_ALARM_WARNING, 100);
    for (int i = 101; i < 200; i++) raise_at(&b, WR_ALARM_WARNING, i), tick(&b, i * S);
    assert_string_equal(told(&b, 200), "chat:opened");
    assert_int_equal(b.n, 1);
    assert_int_equal(b.alarms[0].count, 1); /* it held all the time */
    assert_int_equal(b.alarms[0].first_us, 100 * S);
    assert_int_equal(b.alarms[0].last_us, 199 * S);
    wr_book_raise(&b, false, KIND, WR_ALARM_WARNING, "shop", "again", "wait", 200 * S); /* an event of its own */
    assert_int_equal(b.alarms[0].count, 2);
    assert_string_equal(b.alarms[0].text, "again");
    wr_book_raise(&b, true, KIND, WR_ALARM_WARNING, "other", "behind", "wait", 200 * S);
    assert_string_equal(told(&b, 200), "chat:opened");
    assert_int_equal(b.n, 2);
    wr_book_free(&b);
}

static void a_clock_that_is_set_back_keeps_no_alarm_open(void **state) {
    wr_book b = book_of(1);
    raise_at(&b, WR_ALARM_WARNING, 5000);
    told(&b, 5000);
    wr_book_clear(&b, KIND, "shop", 5001 * S);
    tick(&b, 1000 * S);
    tick(&b, 1029 * S);
    assert_string_equal(told(&b, 1029), "");
    tick(&b, 1030 * S);
    assert_string_equal(told(&b, 1030), "chat:recovered");
    wr_book_free(&b);
}

static void a_clock_that_steps_neither_holds_up_an_escalation_nor_hastens_it(void **state) {
    wr_book b = book_of(4);
    raise_at(&b, WR_ALARM_WARNING, 5000);
    wr_book_tick(&b, 5001 * S, 101 * S); /* it is a second old */
    assert_string_equal(told(&b, 5001), "chat:opened");
    wr_book_tick(&b, 4600 * S, 999 * S); /* back by 20 minutes, on the way */
    assert_string_equal(told(&b, 5001), "");
    wr_book_tick(&b, 4601 * S, 1000 * S);
    assert_string_equal(told(&b, 5001), "boss:escalated");
    wr_book_tick(&b, 90000 * S, 3699 * S); /* forth by a day */
    assert_string_equal(told(&b, 5001), "");
    wr_book_tick(&b, 90001 * S, 3700 * S);
    assert_string_equal(told(&b, 5001), "night:escalated");
    wr_book_free(&b);
}

static void one_of_an_earlier_process_is_as_old_as_the_clock_says(void **state) {
    wr_book before = book_of(4), b = book_of(4);
    wr_err err = WR_ERR_INIT;
    raise_at(&before, WR_ALARM_WARNING, 5000);
    wr_book_tick(&before, 5001 * S, 101 * S);
    told(&before, 5001);
    char *text = wr_book_text(&before);
    assert_int_equal(wr_book_parse(&b, text, &err), WR_OK);
    wr_book_tick(&b, 5890 * S, 7 * S); /* the machine has been started anew */
    assert_string_equal(told(&b, 5890), "");
    wr_book_tick(&b, 5900 * S, 17 * S);
    assert_string_equal(told(&b, 5900), "boss:escalated");
    wr_free(text);
    wr_book_free(&before), wr_book_free(&b);
}

static void it_recovers_when_it_stayed_away_and_opens_anew_after_that(void **state) {
    wr_book b = book_of(1);
    raise_at(&b, WR_ALARM_WARNING, 0);
    told(&b, 0);
    wr_book_clear(&b, KIND, "shop", 100 * S);
    tick(&b, 129 * S);
    assert_string_equal(told(&b, 129), "");
    raise_at(&b, WR_ALARM_WARNING, 129); /* back before that: nobody hears of it */
    tick(&b, 200 * S);
    assert_string_equal(told(&b, 200), "");
    assert_int_equal(b.alarms[0].count, 2);
    wr_book_clear(&b, KIND, "shop", 210 * S);
    wr_book_clear(&b, KIND, "shop", 239 * S); /* said again: since the first time */
    tick(&b, 240 * S);
    assert_string_equal(told(&b, 240), "chat:recovered");
    assert_int_equal(b.alarms[0].state, WR_ALARM_RECOVERED);
    assert_int_equal(b.alarms[0].recovered_us, 210 * S);
    wr_book_clear(&b, KIND, "shop", 250 * S);
    tick(&b, 300 * S);
    assert_string_equal(told(&b, 300), "");
    raise_at(&b, WR_ALARM_WARNING, 301);
    assert_string_equal(told(&b, 301), "chat:opened");
    assert_int_equal(b.n, 2);
    assert_true(b.alarms[1].id > b.alarms[0].id);
    wr_book_free(&b);
}

static void a_severity_decides_who_is_told_and_a_worse_one_is_told_again(void **state) {
    wr_book b = book_of(2);
    raise_at(&b, WR_ALARM_INFO, 0);
    assert_string_equal(told(&b, 0), "");
    raise_at(&b, WR_ALARM_WARNING, 1);
    assert_string_equal(told(&b, 1), "chat:worsened");
    assert_true(wr_book_acknowledge(&b, 1, 2 * S));
    raise_at(&b, WR_ALARM_CRITICAL, 3);
    assert_string_equal(told(&b, 3), "chat:worsened mail:worsened");
    assert_int_equal(b.alarms[0].state, WR_ALARM_OPEN); /* what was acknowledged was less */
    raise_at(&b, WR_ALARM_WARNING, 4);
    assert_int_equal(b.alarms[0].severity, WR_ALARM_CRITICAL);
    wr_book_clear(&b, KIND, "shop", 5 * S);
    tick(&b, 40 * S);
    assert_string_equal(told(&b, 40), "chat:recovered mail:recovered");
    wr_book_free(&b);
}

static void what_nobody_acknowledges_escalates_level_by_level(void **state) {
    wr_book b = book_of(4);
    raise_at(&b, WR_ALARM_CRITICAL, 0);
    tick(&b, 899 * S);
    assert_string_equal(told(&b, 899), "chat:opened mail:opened");
    tick(&b, 900 * S);
    assert_string_equal(told(&b, 900), "boss:escalated");
    assert_int_equal(b.alarms[0].level, 1);
    tick(&b, 1000 * S);
    assert_string_equal(told(&b, 1000), "");
    assert_true(wr_book_acknowledge(&b, 1, 1001 * S));
    tick(&b, 9000 * S);
    assert_string_equal(told(&b, 9000), "");
    wr_book_clear(&b, KIND, "shop", 9001 * S);
    tick(&b, 9100 * S);
    assert_string_equal(told(&b, 9100), "chat:recovered mail:recovered boss:recovered"); /* who was told, and night was not */
    assert_false(wr_book_acknowledge(&b, 1, 9101 * S));
    raise_at(&b, WR_ALARM_WARNING, 10000); /* a process that was away for long comes to both levels at once */
    tick(&b, 20000 * S);
    assert_string_equal(told(&b, 20000), "chat:opened boss:escalated night:escalated");
    wr_book_free(&b);
}

static void what_a_sink_does_not_take_is_tried_again_in_order_and_holds_up_nobody_else(void **state) {
    wr_book b = book_of(2);
    wr_notice n;
    wr_alarm a;
    raise_at(&b, WR_ALARM_CRITICAL, 0);
    assert_true(wr_book_due(&b, UINT64_MAX, 0, &n, &a));
    assert_string_equal(n.sink, "chat");
    wr_book_refused(&b, n.id, "closed", 0);
    wr_book_clear(&b, KIND, "shop", S);
    tick(&b, 31 * S);
    assert_string_equal(told(&b, 0), "mail:opened mail:recovered");
    int64_t now = 0;
    int pauses[10];
    for (int i = 0; i < 10; i++) {
        int64_t before = now;
        while (!wr_book_due(&b, UINT64_MAX, now, &n, &a)) now += S;
        assert_int_equal(n.event, WR_EVENT_OPENED);
        pauses[i] = (int)((now - before) / S);
        wr_book_refused(&b, n.id, "closed", now);
    }
    assert_int_equal(pauses[0], 1), assert_int_equal(pauses[1], 2), assert_int_equal(pauses[2], 4), assert_int_equal(pauses[9], 300);
    assert_string_equal(told(&b, now / S + 300), "chat:opened chat:recovered");
    wr_book_free(&b);
}

static void notices_and_records_are_bounded(void **state) {
    wr_book b = book_of(1);
    for (int i = 0; i < 1300; i++) {
        char subject[20];
        snprintf(subject, sizeof subject, "t%d", i);
        wr_book_raise(&b, true, KIND, WR_ALARM_WARNING, subject, "x", "y", i * S);
    }
    assert_int_equal(b.nnotices, 1000);
    assert_int_equal(b.dropped, 300);
    told(&b, 5000);
    for (int i = 0; i < 1300; i++) {
        char subject[20];
        snprintf(subject, sizeof subject, "t%d", i);
        wr_book_clear(&b, KIND, subject, 2000 * S);
    }
    tick(&b, 3000 * S);
    told(&b, 5000);
    tick(&b, 3001 * S);
    assert_in_range(b.n, 200, 1300);
    assert_int_equal(b.nnotices, 0);
    assert_int_equal(b.n, 200);
    wr_book_free(&b);
}

static void a_text_of_it_is_all_of_it(void **state) {
    wr_book b = book_of(4), c = book_of(3);
    wr_err err = WR_ERR_INIT;
    char longest[3000];
    memset(longest, 'x', sizeof longest);
    strcpy(longest + sizeof longest - 9, "\xc3\xa9\xc3\xa9\xc3\xa9");
    raise_at(&b, WR_ALARM_CRITICAL, 1700000000);
    wr_book_raise(&b, true, "disk.low", WR_ALARM_WARNING, "/h\"\xc3\xb6", longest, longest, 1700000001 * S);
    assert_int_equal(strlen(b.alarms[1].text), sizeof b.alarms[1].text - 1);
    wr_book_acknowledge(&b, 2, 1700000002 * S);
    wr_book_failed_run(&b, 1700000003 * S);
    tick(&b, 1700009000 * S);
    b.running = true;
    char *text = wr_book_text(&b);
    assert_int_equal(wr_book_parse(&c, text, &err), WR_OK);
    assert_int_equal(c.n, 2), assert_int_equal(c.nfailures, 1), assert_true(c.running);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(c.alarms[i].text, b.alarms[i].text), assert_string_equal(c.alarms[i].subject, b.alarms[i].subject), assert_string_equal(c.alarms[i].kind, b.alarms[i].kind);
        assert_int_equal(c.alarms[i].state, b.alarms[i].state), assert_int_equal(c.alarms[i].first_us, b.alarms[i].first_us), assert_int_equal(c.alarms[i].level, b.alarms[i].level);
    }
    assert_int_equal(b.nnotices, c.nnotices + 1); /* night is not configured any more */
    raise_at(&c, WR_ALARM_CRITICAL, 1700009001);
    assert_int_equal(c.n, 2);
    /* whatever is left of it is refused or understood, and never more than that */
    for (size_t n = 0; n < strlen(text); n += 7) {
        wr_book d = book_of(4);
        char *part = wr_strndup(text, n);
        err = (wr_err)WR_ERR_INIT;
        assert_int_not_equal(wr_book_parse(&d, part, &err), WR_OK);
        wr_free(part), wr_book_free(&d);
    }
    static const char *const bad[] = {"[]", "{\"format\":2,\"alarms\":[],\"notices\":[]}", "{\"format\":1,\"alarms\":{},\"notices\":[]}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wr_book d = book_of(1);
        assert_int_equal(wr_book_parse(&d, bad[i], &err), WR_E_CORRUPT);
    }
    wr_book odd = book_of(4);
    assert_int_equal(wr_book_parse(&odd, "{\"format\":1,\"alarms\":[5,{\"id\":-1,\"severity\":99,\"state\":\"x\",\"kind\":7}],\"notices\":[{\"alarm\":0,\"sink\":\"chat\",\"event\":1e30},{\"alarm\":9}],\"failures_us\":[\"x\"]}", &err), WR_OK);
    assert_int_equal(odd.alarms[1].severity, WR_ALARM_CRITICAL);
    wr_free(text), wr_book_free(&b), wr_book_free(&c), wr_book_free(&odd);
}

static void without_memory_nothing_breaks(void **state) {
    for (uint64_t k = 1;; k++) {
        wr_book b = book_of(2);
        wr_mem_fail_after(k);
        bool done = raise_at(&b, WR_ALARM_CRITICAL, 0);
        uint64_t left = wr_mem_fail_after(0);
        assert_true(done || !b.n);
        assert_int_equal(b.nnotices + (int)b.dropped, done ? 2 : 0);
        wr_book_free(&b);
        if (left) break;
        assert_true(k < 10);
    }
}

static void every_kind_has_a_name_a_cure_and_is_found_by_it(void **state) {
    for (int i = 0; i < WR_ALARM_KINDS; i++) {
        wr_alarm_kind k;
        const wr_alarm_kind_info *info = wr_alarm_kind_of((wr_alarm_kind)i);
        assert_non_null(info->name), assert_true(strlen(info->cure) > 10);
        assert_true(wr_alarm_kind_named(info->name, &k));
        assert_int_equal(k, i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_open_is_told_once_and_counted),
        cmocka_unit_test(it_recovers_when_it_stayed_away_and_opens_anew_after_that),
        cmocka_unit_test(a_clock_that_is_set_back_keeps_no_alarm_open),
        cmocka_unit_test(a_clock_that_steps_neither_holds_up_an_escalation_nor_hastens_it),
        cmocka_unit_test(one_of_an_earlier_process_is_as_old_as_the_clock_says),
        cmocka_unit_test(a_severity_decides_who_is_told_and_a_worse_one_is_told_again),
        cmocka_unit_test(what_nobody_acknowledges_escalates_level_by_level),
        cmocka_unit_test(what_a_sink_does_not_take_is_tried_again_in_order_and_holds_up_nobody_else),
        cmocka_unit_test(notices_and_records_are_bounded),
        cmocka_unit_test(a_text_of_it_is_all_of_it),
        cmocka_unit_test(without_memory_nothing_breaks),
        cmocka_unit_test(every_kind_has_a_name_a_cure_and_is_found_by_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
