#include "weir/base/chan.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

struct wr_chan {
    pthread_mutex_t lock;
    pthread_cond_t not_full;  /* lock */
    pthread_cond_t not_empty; /* lock; waits on the monotonic clock */
    size_t cap;
    size_t head, len; /* lock: oldest item and number of items */
    bool closed;      /* lock */
    void *item[];     /* lock: ring */
};

wr_chan *wr_chan_new(size_t capacity) {
    if (capacity == 0) capacity = 1;
    if (capacity > SIZE_MAX / 2 / sizeof(void *)) return NULL;
    wr_chan *c = wr_calloc(1, sizeof *c + capacity * sizeof(void *));
    if (!c) return NULL;
    c->cap = capacity;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->not_full, &attr);
    pthread_cond_init(&c->not_empty, &attr);
    pthread_condattr_destroy(&attr);
    return c;
}

void wr_chan_free(wr_chan *c, void (*free_item)(void *)) {
    if (!c) return;
    if (free_item)
        for (size_t i = 0; i < c->len; i++) free_item(c->item[(c->head + i) % c->cap]);
    pthread_cond_destroy(&c->not_full);
    pthread_cond_destroy(&c->not_empty);
    pthread_mutex_destroy(&c->lock);
    wr_free(c);
}

wr_code wr_chan_send(wr_chan *c, void *item) {
    wr_code rc = WR_E_CANCELLED;
    pthread_mutex_lock(&c->lock);
    while (c->len == c->cap && !c->closed) pthread_cond_wait(&c->not_full, &c->lock);
    if (!c->closed) {
        size_t at = c->head + c->len;
        c->item[at < c->cap ? at : at - c->cap] = item;
        c->len++;
        pthread_cond_signal(&c->not_empty);
        rc = WR_OK;
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

wr_code wr_chan_recv(wr_chan *c, int timeout_ms, void **ret_item) {
    struct timespec until = {0};
    if (timeout_ms > 0) {
        int64_t us = wr_mono_us() + (int64_t)timeout_ms * 1000;
        until = (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    }
    pthread_mutex_lock(&c->lock);
    int waited = 0;
    while (c->len == 0 && !c->closed && timeout_ms != 0 && waited == 0)
        waited = timeout_ms < 0 ? pthread_cond_wait(&c->not_empty, &c->lock)
                                : pthread_cond_timedwait(&c->not_empty, &c->lock, &until);
    wr_code rc = WR_OK;
    if (c->len > 0) {
        *ret_item = c->item[c->head];
        c->head = c->head + 1 == c->cap ? 0 : c->head + 1;
        c->len--;
        pthread_cond_signal(&c->not_full);
    } else {
        rc = c->closed ? WR_E_CANCELLED : WR_E_TIMEOUT;
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

void wr_chan_close(wr_chan *c) {
    pthread_mutex_lock(&c->lock);
    c->closed = true;
    pthread_cond_broadcast(&c->not_full);
    pthread_cond_broadcast(&c->not_empty);
    pthread_mutex_unlock(&c->lock);
}

size_t wr_chan_len(wr_chan *c) {
    pthread_mutex_lock(&c->lock);
    size_t n = c->len;
    pthread_mutex_unlock(&c->lock);
    return n;
}
