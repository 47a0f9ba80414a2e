#include "weir/base/fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POINTS_MAX 256
#define NAME_MAX_BYTES 64

typedef enum action { ACT_KILL, ACT_FAIL, ACT_STALL, ACT_COUNT } action;

typedef struct point {
    char name[NAME_MAX_BYTES];
    uint64_t nth;
    action act;
    uint32_t stall_ms;
    uint64_t passed;
} point;

bool wr_fault_armed_; /* atomic */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static point points[POINTS_MAX];
static int npoints;

/* One "name:n:action"; false when it is not that. */
static bool parse_point(const char *s, size_t n, point *p) {
    char text[192];
    if (n == 0 || n >= sizeof text) return false;
    memcpy(text, s, n);
    text[n] = 0;
    char *nth = strchr(text, ':'), *act = nth ? strchr(nth + 1, ':') : NULL, *end;
    if (!act || nth == text || (size_t)(nth - text) >= sizeof p->name) return false;
    *nth++ = 0;
    *act++ = 0;
    *p = (point){0};
    memcpy(p->name, text, strlen(text) + 1);
    p->nth = strtoull(nth, &end, 10);
    if (*nth < '0' || *nth > '9' || *end || p->nth == 0) return false;
    if (strcmp(act, "kill") == 0) {
        p->act = ACT_KILL;
    } else if (strcmp(act, "fail") == 0) {
        p->act = ACT_FAIL;
    } else if (strncmp(act, "stall=", 6) == 0) {
        p->act = ACT_STALL;
        unsigned long ms = strtoul(act + 6, &end, 10);
        if (act[6] < '0' || act[6] > '9' || *end || ms > UINT32_MAX) return false;
        p->stall_ms = (uint32_t)ms;
    } else {
        return false;
    }
    return true;
}

static bool set(const char *spec) {
    npoints = 0;
    while (spec && *spec) {
        size_t n = strcspn(spec, ",");
        if (npoints == POINTS_MAX || !parse_point(spec, n, &points[npoints])) return npoints = 0, false;
        npoints++;
        spec += n + (spec[n] == ',');
    }
    return true;
}

/* ------------------------------------------------------------------ all of them */
/* The linker gives a section these names. NOLINTNEXTLINE(bugprone-reserved-identifier,cert-*) */
extern const char __start_wr_fault_points[] __attribute__((weak)), __stop_wr_fault_points[] __attribute__((weak));

static int by_name(const void *a, const void *b) { return strcmp(((const point *)a)->name, ((const point *)b)->name); }

/* Every point of the program once, by name, to be counted. Empty texts are what aligns the section's pieces. */
static void set_all(void) {
    npoints = 0;
    // cppcheck-suppress comparePointers; both ends of one section
    for (const char *name = __start_wr_fault_points; name < __stop_wr_fault_points; name += strlen(name) + 1) {
        bool known = !*name;
        for (int i = 0; i < npoints && !known; i++) known = strcmp(points[i].name, name) == 0;
        if (known) continue;
        if (npoints == POINTS_MAX || strlen(name) >= NAME_MAX_BYTES) abort();
        points[npoints] = (point){.act = ACT_COUNT};
        memcpy(points[npoints++].name, name, strlen(name) + 1);
    }
    qsort(points, (size_t)npoints, sizeof *points, by_name);
}

__attribute__((destructor)) static void tell_counts(void) {
    for (int i = 0; i < npoints; i++)
        if (points[i].act == ACT_COUNT && points[i].passed)
            fprintf(stderr, "fault point %s: %llu\n", points[i].name, (unsigned long long)points[i].passed);
}

/* ------------------------------------------------------------------ some of them */
bool wr_fault_set(const char *spec) {
    pthread_mutex_lock(&lock);
    bool ok = set(spec);
    __atomic_store_n(&wr_fault_armed_, npoints > 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    return ok;
}

__attribute__((constructor)) static void parse_env(void) {
    const char *spec = getenv("WEIR_FAULT");
    if (spec && (strcmp(spec, "list") == 0 || strcmp(spec, "count") == 0)) {
        set_all();
        wr_fault_armed_ = true;
        if (spec[0] == 'c') return;
        for (int i = 0; i < npoints; i++) puts(points[i].name);
        fflush(stdout);
        _exit(0);
    }
    if (wr_fault_set(spec)) return;
    /* Against the rule that nothing here prints or exits: with a fault silently left out a test would pass for nothing.
     */
    fprintf(stderr, "WEIR_FAULT is not name:n:kill|fail|stall=MS[,...], list or count: %s\n", spec);
    _exit(2);
}

static void stall(uint32_t ms) {
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

bool wr_fault_hit_(const char *name) {
    bool fail = false;
    uint32_t stall_ms = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < npoints; i++) {
        point *p = &points[i];
        if (strcmp(p->name, name) != 0 || ++p->passed != p->nth) continue;
        if (p->act == ACT_KILL) {
            kill(getpid(), SIGKILL);
            for (;;) pause();
        }
        if (p->act == ACT_STALL) stall_ms += p->stall_ms;
        if (p->act == ACT_FAIL) fail = true;
    }
    pthread_mutex_unlock(&lock);
    if (stall_ms) stall(stall_ms);
    return fail;
}
