#include "sys.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

wr_code wr_sys_fail_(wr_err *err, int e, const char *verb, const char *path) {
    char text[128];
    wr_code code = WR_E_IO;
    wr_retry retry = WR_RETRY_NO;
    switch (e) {
    case ENOSPC:
    case EDQUOT:
        code = WR_E_NOSPC, retry = WR_RETRY_SOON;
        break;
    case ENOENT:
    case ENOTDIR:
        code = WR_E_NOTFOUND;
        break;
    case EEXIST:
        code = WR_E_EXISTS;
        break;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
        retry = WR_RETRY_SOON;
        break; /* passes when others give back what they hold */
    }
    wr_fail(err, code, retry, "cannot %s %s: %s", verb, path, strerror_r(e, text, sizeof text));
    if (code == WR_E_NOSPC) wr_err_cure(err, "make room on the file system that holds %s", path);
    return code;
}

wr_code wr_sys_pwrite_(int fd, const char *path, uint64_t at, wr_slice data, wr_err *err) {
    if (WR_FAULT("io.write")) return wr_sys_fail_(err, EIO, "write", path);
    if (WR_FAULT("io.write.nospc")) return wr_sys_fail_(err, ENOSPC, "write", path);
    bool torn = WR_FAULT("io.write.torn");
    if (torn) data.n /= 2;
    if (data.n > INT64_MAX || at > (uint64_t)INT64_MAX - data.n) return wr_sys_fail_(err, EFBIG, "write", path);
    for (size_t done = 0; done < data.n;) {
        ssize_t n = pwrite(fd, data.p + done, data.n - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return wr_sys_fail_(err, n < 0 ? errno : EIO, "write", path);
        done += (size_t)n;
    }
    return torn ? wr_sys_fail_(err, EIO, "write all of", path) : WR_OK;
}

wr_code wr_sys_sync_(int fd, const char *path, bool data_only, wr_err *err) {
    if (WR_FAULT("io.sync")) return wr_sys_fail_(err, EIO, "sync", path);
    int rc;
    do rc = data_only ? fdatasync(fd) : fsync(fd);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? WR_OK : wr_sys_fail_(err, errno, "sync", path);
}

int wr_sys_open_(const char *path, int flags, mode_t mode) {
    int fd;
    do fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

char *wr_path_parent_(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--; /* "a/b/" is in "a" */
    while (n > 0 && path[n - 1] != '/') n--;
    if (n == 0) return wr_strdup(".");
    while (n > 1 && path[n - 1] == '/') n--;
    return wr_strndup(path, n);
}
