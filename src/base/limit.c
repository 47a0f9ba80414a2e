#include "weir/base/limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t less(uint64_t a, uint64_t b) { return !a || (b && b < a) ? b : a; }

/* "max" and what is not there: 0. */
static uint64_t number_in(const char *path) {
    char text[32] = "";
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    if (!fgets(text, sizeof text, f)) text[0] = 0;
    fclose(f);
    return strtoull(text, NULL, 10);
}

uint64_t wr_memory_limit_of(const char *root, const char *group, const char *file) {
    char dir[1024], path[2048];
    uint64_t least = 0;
    snprintf(dir, sizeof dir, "%s", group);
    for (size_t n = strlen(dir);; n = strlen(dir)) {
        snprintf(path, sizeof path, "%s%s/%s", root, dir, file);
        least = less(least, number_in(path));
        char *slash = n ? strrchr(dir, '/') : NULL;
        if (!slash) return least;
        *slash = 0;
    }
}

uint64_t wr_memory_limit(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t least = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    char line[1200];
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) { /* number:controllers:group */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        if (!strcmp(controllers, ":memory")) least = less(least, wr_memory_limit_of("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
        else if (!controllers[1]) least = less(least, wr_memory_limit_of("/sys/fs/cgroup", group, "memory.max"));
    }
    if (f) fclose(f);
    return least;
}
