#include "budget.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "weir/base/clock.h"
#include "weir/base/log.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"

#define MAGIC "WEIRBDG1"
#define SLOTS_AT 64 /* bytes that are locked and never written */
#define BURST_US 1000000
#define FAR_US INT64_C(3600000000) /* a debt that nobody makes */
#define POLL_US 10000

/* The file. Times are those of CLOCK_MONOTONIC, which is the same for all processes until the machine starts again. */
typedef struct record { char magic[8]; uint64_t boot; int64_t due_us; } record;

struct wr_budget {
    char *path;
    uint64_t rate, boot;
    int readers;
    pthread_mutex_t lock; /* guards the next ones, and keeps this process's threads apart: locks are per file description */
    pthread_cond_t freed;
    int fd;               /* -1: not opened yet, or it cannot be */
    bool alone;           /* it cannot be */
    int64_t due_us;       /* alone, or before the first use */
    int reading;          /* statements of this process that have no slot in the file */
};

static void nap_us(int64_t us) {
    struct timespec ts = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&ts, &ts) != 0) {}
}

static uint64_t boot_id(void) {
    char text[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    if (f) fclose(f);
    return wr_hash64(text, n, 0);
}

wr_code wr_budget_new(const char *path, uint64_t rate, int readers, wr_budget **ret, wr_err *err) {
    wr_budget *b = wr_calloc(1, sizeof *b);
    if (!b) return wr_nomem(err, "budget", sizeof *b);
    *b = (wr_budget){.rate = rate, .readers = readers, .fd = -1, .alone = !path, .boot = boot_id(), .lock = PTHREAD_MUTEX_INITIALIZER, .freed = PTHREAD_COND_INITIALIZER};
    if (path && !(b->path = wr_strdup(path))) return wr_free(b), wr_nomem(err, "budget", strlen(path));
    *ret = b;
    return WR_OK;
}

void wr_budget_free(wr_budget *b) {
    if (!b) return;
    if (b->fd >= 0) close(b->fd);
    pthread_mutex_destroy(&b->lock), pthread_cond_destroy(&b->freed);
    wr_free(b->path);
    wr_free(b);
}

uint64_t wr_budget_rate(const wr_budget *b) { return b->rate; }

static int open_file(const wr_budget *b) { return open(b->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600); }

/* b->lock held. */
static void give_up(wr_budget *b, const char *what) {
    if (!b->alone) wr_log(WR_LOG_WARN, "%s: %s: %s; limits of reading hold for this process alone", b->path, what, strerror(errno));
    b->alone = true;
}

static bool lock_bytes(int fd, int command, short type, off_t at, off_t n) {
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = n};
    int rc;
    do rc = fcntl(fd, command, &l);
    while (rc != 0 && errno == EINTR);
    return rc == 0;
}

/* ------------------------------------------------------------------ rows */
static int64_t move(int64_t due, int64_t now, double us) {
    if (due < now - BURST_US) due = now - BURST_US;
    return due + (int64_t)us;
}

/* b->lock held. */
static bool move_in_file(wr_budget *b, double us, int64_t *ret_wait) {
    record r = {0};
    if (b->fd < 0 && (b->fd = open_file(b)) < 0) return give_up(b, "open"), false;
    if (!lock_bytes(b->fd, F_OFD_SETLKW, F_WRLCK, 0, sizeof r)) return give_up(b, "lock"), false;
    int64_t now = wr_mono_us();
    ssize_t got = pread(b->fd, &r, sizeof r, 0);
    bool known = got == sizeof r && !memcmp(r.magic, MAGIC, 8) && r.boot == b->boot && r.due_us < now + FAR_US;
    r = (record){.boot = b->boot, .due_us = move(known ? r.due_us : now, now, us)};
    memcpy(r.magic, MAGIC, 8);
    bool ok = pwrite(b->fd, &r, sizeof r, 0) == sizeof r;
    if (!ok) give_up(b, "write");
    lock_bytes(b->fd, F_OFD_SETLK, F_UNLCK, 0, sizeof r);
    *ret_wait = r.due_us - now;
    return ok;
}

void wr_budget_rows(wr_budget *b, double n) {
    if (!b->rate || n == 0) return;
    double us = n / (double)b->rate * 1e6;
    int64_t wait = 0;
    pthread_mutex_lock(&b->lock);
    if (b->alone || !move_in_file(b, us, &wait)) {
        int64_t now = wr_mono_us();
        b->due_us = move(b->due_us ? b->due_us : now, now, us);
        wait = b->due_us - now;
    }
    pthread_mutex_unlock(&b->lock);
    if (n > 0 && wait > 0) nap_us(wait);
}

/* ------------------------------------------------------------------ statements */
/* A file description of its own for each: so that threads of one process count as well. -1: all are taken. */
static bool take_slot(wr_budget *b, int *ret_fd) {
    int fd = open_file(b), n = b->readers ? b->readers : WR_BUDGET_SLOTS;
    if (fd < 0) return false;
    for (int i = 0; i < n; i++)
        if (lock_bytes(fd, F_OFD_SETLK, F_WRLCK, SLOTS_AT + i, 1)) return *ret_fd = fd, true;
    bool taken = errno == EAGAIN || errno == EACCES;
    close(fd);
    *ret_fd = -1;
    return taken;
}

static void enter_alone(wr_budget *b) { /* lock held */
    while (b->readers && b->reading >= b->readers) pthread_cond_wait(&b->freed, &b->lock);
    b->reading++;
}

void wr_budget_enter(wr_budget *b, wr_budget_slot *ret) {
    *ret = (wr_budget_slot){.fd = -1};
    for (;;) {
        pthread_mutex_lock(&b->lock);
        if (!b->alone && !take_slot(b, &ret->fd)) give_up(b, "slot");
        bool alone = b->alone || (ret->fd < 0 && !b->readers); /* more than slots, and no limit */
        if (alone) enter_alone(b), ret->counted = true;
        pthread_mutex_unlock(&b->lock);
        if (alone || ret->fd >= 0) return;
        nap_us(POLL_US); /* the kernel tells nobody when a byte becomes free */
    }
}

void wr_budget_leave(wr_budget *b, wr_budget_slot *slot) {
    if (slot->fd >= 0) close(slot->fd);
    if (slot->counted) {
        pthread_mutex_lock(&b->lock);
        b->reading--;
        pthread_cond_signal(&b->freed);
        pthread_mutex_unlock(&b->lock);
    }
    *slot = (wr_budget_slot){.fd = -1};
}

int wr_budget_reading(wr_budget *b) {
    pthread_mutex_lock(&b->lock);
    int n = b->reading, fd = b->alone ? -1 : open_file(b);
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; fd >= 0 && i < WR_BUDGET_SLOTS; i++) {
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = SLOTS_AT + i, .l_len = 1};
        n += fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
    }
    if (fd >= 0) close(fd);
    return n;
}
