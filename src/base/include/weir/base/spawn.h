/* Another program, started as if from a shell: no signal is blocked or ignored in it, whatever is in this process. Without fork, which would copy the page tables of a large process and hold all locks
 * of its allocators meanwhile. @thread any */
#ifndef WEIR_BASE_SPAWN_H
#define WEIR_BASE_SPAWN_H

#include <spawn.h>
#include <stdbool.h>
#include <sys/types.h>

/* program is looked for in PATH unless it has a slash; argv and env end with NULL. own_group: it leads a process group. -> 0, or an errno. The caller waits for *ret_pid. */
int wr_spawn(const char *program, const char *const *argv, char *const *env, const posix_spawn_file_actions_t *files, bool own_group, pid_t *ret_pid);

#endif
