/* Locks are open-file-description locks: unlike POSIX locks they survive another descriptor of the same file being
 * closed in this process, and unlike flock they can be asked about without taking them. The kernel drops them when the
 * process dies. The file holds the holder's pid as text; it stays behind, because removing it would race with the next
 * taker. */
#include "weir/io.h"
#include "weir/base/mem.h"
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct wr_lock {
    int fd;
    char *path;
};

static struct flock whole_file(short type) { return (struct flock){.l_type = type, .l_whence = SEEK_SET}; }

/* The pid in the file, -1 when it is not (yet) there. */
static int read_pid(int fd) {
    char text[24];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0) return -1;
    text[n] = 0;
    long pid = strtol(text, NULL, 10);
    return pid > 0 && pid <= INT32_MAX ? (int)pid : -1;
}

wr_code wr_lock_take(const char *path, wr_lock **ret_lock, wr_err *err) {
    WR_AUTO_FD int fd = wr_sys_open_(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0) return wr_sys_fail_(err, errno, "open lock", path);
    struct flock fl = whole_file(F_WRLCK);
    if (fcntl(fd, F_OFD_SETLK, &fl) != 0) {
        if (errno != EAGAIN && errno != EACCES) return wr_sys_fail_(err, errno, "lock", path);
        wr_fail(err, WR_E_BUSY, WR_RETRY_SOON, "%s is held by process %d", path, read_pid(fd));
        return wr_err_cure(err, "stop that process, or use another home");
    }
    WR_AUTO char *copy = wr_strdup(path);
    WR_AUTO wr_lock *l = wr_malloc(sizeof *l);
    if (!l || !copy) return wr_nomem(err, "lock", sizeof *l);
    char text[24];
    int n = snprintf(text, sizeof text, "%d\n", (int)getpid());
    /* Not through wr_sys_pwrite_: fault points count the writes of data. */
    if (pwrite(fd, text, (size_t)n, 0) != n || ftruncate(fd, n) != 0)
        return wr_sys_fail_(err, errno ? errno : EIO, "write", path);
    l->fd = fd;
    l->path = WR_STEAL(copy);
    fd = -1; /* so that the clean-up, which the analyzer does not know, leaves it open. NOLINT(clang-analyzer-deadcode.DeadStores) */
    *ret_lock = WR_STEAL(l);
    return WR_OK;
}

void wr_lock_release(wr_lock *l) {
    if (!l) return;
    close(l->fd);
    wr_free(l->path);
    wr_free(l);
}

wr_code wr_lock_check(const wr_lock *l, wr_err *err) {
    struct stat ours, there;
    if (fstat(l->fd, &ours) != 0) return wr_sys_fail_(err, errno, "look at lock", l->path);
    bool same = stat(l->path, &there) == 0 && ours.st_dev == there.st_dev && ours.st_ino == there.st_ino && read_pid(l->fd) == (int)getpid();
    if (same) return WR_OK;
    wr_fail(err, WR_E_BUSY, WR_RETRY_NO, "%s is not this process's any more: the file was removed or replaced, and another process may have taken over", l->path);
    return wr_err_cure(err, "nothing more was written. Leave lock files alone while anything runs, also what seems to hang; end one of the two");
}

wr_code wr_lock_holder(const char *path, int *ret_pid, wr_err *err) {
    WR_AUTO_FD int fd = wr_sys_open_(path, O_RDONLY, 0);
    if (fd < 0) {
        if (errno != ENOENT) return wr_sys_fail_(err, errno, "open lock", path);
        *ret_pid = 0;
        return WR_OK;
    }
    struct flock fl = whole_file(F_RDLCK); /* a read lock may be asked about on a descriptor for reading */
    if (fcntl(fd, F_OFD_GETLK, &fl) != 0) return wr_sys_fail_(err, errno, "look at lock", path);
    *ret_pid = fl.l_type == F_UNLCK ? 0 : read_pid(fd);
    return WR_OK;
}
