/* Random-access files. */
#include "weir/io.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

struct wr_file {
    int fd;
    bool broken; /* a sync failed: the kernel may have dropped the pages, and a second sync that succeeds would be a lie
                  */
    char path[];
};

wr_code wr_file_open(const char *path, wr_open_mode mode, wr_file **ret_file, wr_err *err) {
    static const int flags[] = {
        [WR_OPEN_READ] = O_RDONLY, [WR_OPEN_RDWR] = O_RDWR, [WR_OPEN_CREATE] = O_RDWR | O_CREAT | O_EXCL};
    size_t n = strlen(path) + 1;
    WR_AUTO wr_file *f = wr_malloc(sizeof *f + n);
    if (!f) return wr_nomem(err, "file", sizeof *f + n);
    f->broken = false;
    memcpy(f->path, path, n);
    f->fd = wr_sys_open_(path, flags[mode], 0600);
    if (f->fd < 0) return wr_sys_fail_(err, errno, mode == WR_OPEN_CREATE ? "create" : "open", path);
    *ret_file = WR_STEAL(f);
    return WR_OK;
}

void wr_file_close(wr_file *f) {
    if (!f) return;
    close(f->fd);
    wr_free(f);
}

static wr_code check_usable(const wr_file *f, wr_err *err) {
    if (!f->broken) return WR_OK;
    return wr_fail(err, WR_E_IO, WR_RETRY_AFTER_RELOAD,
                   "cannot use %s: an earlier sync failed, what is on disk must be read again", f->path);
}

wr_code wr_file_pwrite(wr_file *f, uint64_t at, wr_slice data, wr_err *err) {
    WR_TRY(check_usable(f, err));
    return wr_sys_pwrite_(f->fd, f->path, at, data, err);
}

wr_code wr_file_pread(wr_file *f, uint64_t at, void *dst, size_t n, size_t *ret_n, wr_err *err) {
    size_t done = 0;
    if (n > INT64_MAX || at > (uint64_t)INT64_MAX - n) return wr_sys_fail_(err, EINVAL, "read", f->path);
    while (done < n) {
        ssize_t got = pread(f->fd, (uint8_t *)dst + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return wr_sys_fail_(err, errno, "read", f->path);
        if (got == 0) break;
        done += (size_t)got;
    }
    *ret_n = done;
    return WR_OK;
}

wr_code wr_file_sync(wr_file *f, wr_err *err) {
    WR_TRY(check_usable(f, err));
    wr_code rc = wr_sys_sync_(f->fd, f->path, true, err);
    if (rc != WR_OK) f->broken = true;
    return rc;
}

wr_code wr_file_truncate(wr_file *f, uint64_t size, wr_err *err) {
    WR_TRY(check_usable(f, err));
    if (WR_FAULT("io.truncate")) return wr_sys_fail_(err, EIO, "truncate", f->path);
    int rc;
    do rc = ftruncate(f->fd, (off_t)size);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? WR_OK : wr_sys_fail_(err, errno, "truncate", f->path);
}

wr_code wr_file_length(wr_file *f, uint64_t *ret_size, wr_err *err) {
    struct stat st;
    if (fstat(f->fd, &st) != 0) return wr_sys_fail_(err, errno, "look at", f->path);
    *ret_size = (uint64_t)st.st_size;
    return WR_OK;
}
