#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include "weir/base/chan.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"

static void items_come_out_in_the_order_they_went_in(void **st) {
    wr_chan *c = wr_chan_new(3);
    int v[3];
    void *got;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 3; i++) assert_int_equal(wr_chan_send(c, &v[i]), WR_OK);
        assert_int_equal(wr_chan_len(c), 3);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(wr_chan_recv(c, 0, &got), WR_OK);
            assert_ptr_equal(got, &v[i]);
        }
    }
    wr_chan_free(c, NULL);
}

static void an_empty_channel_times_out(void **st) {
    wr_chan *c = wr_chan_new(1);
    void *got = &c;
    assert_int_equal(wr_chan_recv(c, 0, &got), WR_E_TIMEOUT);
    int64_t t = wr_mono_us();
    assert_int_equal(wr_chan_recv(c, 20, &got), WR_E_TIMEOUT);
    assert_true(wr_mono_us() - t >= 20000);
    assert_ptr_equal(got, &c);
    wr_chan_free(c, NULL);
}

static void a_closed_channel_gives_what_is_inside_and_takes_nothing(void **st) {
    wr_chan *c = wr_chan_new(2);
    int v;
    void *got;
    wr_chan_send(c, &v);
    wr_chan_close(c);
    assert_int_equal(wr_chan_send(c, &v), WR_E_CANCELLED);
    assert_int_equal(wr_chan_recv(c, -1, &got), WR_OK);
    assert_int_equal(wr_chan_recv(c, -1, &got), WR_E_CANCELLED);
    wr_chan_free(c, NULL);
}

enum { THREADS = 4, PER_THREAD = 20000 };
typedef struct work {
    wr_chan *c;
    uint64_t sum, count;
    int first, sent;
} work;

static void *sender(void *arg) {
    work *w = arg;
    for (int i = 0; i < PER_THREAD; i++) {
        uint64_t *item = wr_malloc(sizeof *item);
        *item = (uint64_t)(w->first + i);
        if (wr_chan_send(w->c, item) != WR_OK) {
            wr_free(item);
            break;
        }
        w->sent++;
    }
    return NULL;
}

static void *receiver(void *arg) {
    work *w = arg;
    void *got;
    wr_code rc;
    while ((rc = wr_chan_recv(w->c, w->first ? -1 : 1000, &got)) != WR_E_CANCELLED) {
        if (rc != WR_OK) continue;
        w->sum += *(uint64_t *)got;
        w->count++;
        wr_free(got);
    }
    return NULL;
}

static void every_item_arrives_once_between_several_threads(void **st) {
    wr_chan *c = wr_chan_new(7);
    pthread_t s[THREADS], r[THREADS];
    work sw[THREADS], rw[THREADS];
    uint64_t sum = 0, count = 0, n = (uint64_t)THREADS * PER_THREAD;
    for (int i = 0; i < THREADS; i++) {
        sw[i] = (work){.c = c, .first = i * PER_THREAD};
        rw[i] = (work){.c = c, .first = i};
        pthread_create(&r[i], NULL, receiver, &rw[i]);
        pthread_create(&s[i], NULL, sender, &sw[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(s[i], NULL);
    wr_chan_close(c);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(r[i], NULL);
        sum += rw[i].sum;
        count += rw[i].count;
    }
    assert_int_equal(count, n);
    assert_int_equal(sum, n * (n - 1) / 2);
    wr_chan_free(c, NULL);
}

static void closing_wakes_senders_that_wait_for_room(void **st) {
    wr_chan *c = wr_chan_new(2);
    pthread_t s[2];
    work w[2] = {{.c = c}, {.c = c}};
    void *got;
    for (int i = 0; i < 2; i++) pthread_create(&s[i], NULL, sender, &w[i]);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(wr_chan_recv(c, -1, &got), WR_OK);
        wr_free(got);
    }
    wr_chan_close(c);
    for (int i = 0; i < 2; i++) pthread_join(s[i], NULL);
    assert_int_equal(w[0].sent + w[1].sent - 100, wr_chan_len(c));
    wr_chan_free(c, wr_free);
    wr_chan_free(NULL, NULL);
}

int main(void) {
    const struct CMUnitTest t[] = {
        cmocka_unit_test(items_come_out_in_the_order_they_went_in),
        cmocka_unit_test(an_empty_channel_times_out),
        cmocka_unit_test(a_closed_channel_gives_what_is_inside_and_takes_nothing),
        cmocka_unit_test(every_item_arrives_once_between_several_threads),
        cmocka_unit_test(closing_wakes_senders_that_wait_for_room),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
