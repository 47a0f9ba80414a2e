#include "weir/base/spawn.h"

#include <signal.h>

int wr_spawn(const char *program, const char *const *argv, char *const *env, const posix_spawn_file_actions_t *files, bool own_group, pid_t *ret_pid) {
    posix_spawnattr_t attr;
    sigset_t none, usual;
    sigemptyset(&none), sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE), sigaddset(&usual, SIGTERM), sigaddset(&usual, SIGINT);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &usual);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (own_group ? POSIX_SPAWN_SETPGROUP : 0)));
    int no = posix_spawnp(ret_pid, program, files, &attr, (char *const *)argv, env);
    posix_spawnattr_destroy(&attr);
    return no;
}
