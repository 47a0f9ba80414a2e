/* Private to io: errno to errors, loops around the calls that may do a part. */
#ifndef WEIR_IO_SYS_H
#define WEIR_IO_SYS_H
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"

/* "cannot <verb> <path>: <reason>" with the code that fits errno `e`. */
wr_code wr_sys_fail_(wr_err *err, int e, const char *verb, const char *path);
/* Writes all of `data` at `at`. Fault points io.write (nothing is written), io.write.torn (half is) and io.write.nospc.
 */
wr_code wr_sys_pwrite_(int fd, const char *path, uint64_t at, wr_slice data, wr_err *err);
/* fsync, or fdatasync. Fault point io.sync. */
wr_code wr_sys_sync_(int fd, const char *path, bool data_only, wr_err *err);
int wr_sys_open_(const char *path, int flags, mode_t mode); /* O_CLOEXEC, repeats after EINTR */
static inline void wr_fd_close_p_(int *fd) {
    if (*fd >= 0) close(*fd);
}
#define WR_AUTO_FD __attribute__((cleanup(wr_fd_close_p_)))
/* Owned; "." when there is no slash. NULL when memory is out. */
char *wr_path_parent_(const char *path);

#endif
