#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "schedule.h"

#define S(x) (INT64_C(1000000) * (x))

static void what_is_due_when(void **state) {
    const int64_t day = S(86400), noon = 20000 * day + day / 2; /* 2024-10-04T12:00 UTC */
    const struct { const char *text; int64_t after, next; } due[] = {
        {"daily at 03:00", noon, 20001 * day + S(3 * 3600)},
        {"daily at 03:00 UTC", noon, 20001 * day + S(3 * 3600)},
        {"daily at 15:30", noon, 20000 * day + S(15 * 3600 + 1800)},
        {"daily at 12:00", noon, noon + day},               /* that one is over */
        {"daily at 12:00", noon - 1, noon},
        {"daily at 03:00 +02:00", noon, 20001 * day + S(3600)},
        {"daily at 01:00 +02:00", noon, 20000 * day + S(23 * 3600)},
        {"daily at 23:00 -03:30", noon, 20001 * day + S(2 * 3600 + 1800)},
        {"every 6h", noon, noon + S(6 * 3600)},
        {"every 10s", noon + 1, noon + S(10)},
        {"every 7d", noon, 20006 * day},
    };
    for (size_t i = 0; i < sizeof due / sizeof *due; i++) {
        wr_err err = WR_ERR_INIT;
        wr_schedule s;
        assert_int_equal(wr_schedule_parse(due[i].text, &s, &err), WR_OK);
        if (wr_schedule_next(&s, due[i].after) != due[i].next) fail_msg("%s: %lld", due[i].text, (long long)(wr_schedule_next(&s, due[i].after) - due[i].next));
    }
}

static void what_is_none_is_said_with_the_way_out(void **state) {
    static const char *const none[] = {"", "daily", "daily at", "daily at 24:00", "daily at 03:60", "daily at 03:00 CET", "daily at 03:00 +2", "daily at 03:00 +15:00", "daily at 03:00 +02:00 x", "every", "every 6", "every 0s", "every 1.5", "0 3 * * *", "Daily at 03:00"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        wr_err err = WR_ERR_INIT;
        wr_schedule s;
        if (wr_schedule_parse(none[i], &s, &err) != WR_E_CONFIG) fail_msg("%s", none[i]);
        assert_non_null(strstr(err.cure, "daily at 03:00"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_due_when), cmocka_unit_test(what_is_none_is_said_with_the_way_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
