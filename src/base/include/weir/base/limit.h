/* What this process may take of memory: the least of its control groups' limits (version 1 or 2, as containers and services have them) and the machine's memory. 0: not known.
 * @thread any */
#ifndef WEIR_BASE_LIMIT_H
#define WEIR_BASE_LIMIT_H

#include <stdint.h>

uint64_t wr_memory_limit(void);
/* The least limit of a control group or one above it. root: "/sys/fs/cgroup" */
uint64_t wr_memory_limit_of(const char *root, const char *group, const char *file);

#endif
