/* Files, durably. All of Weir's own files go through here, so that faults can be injected in one place.
 * @thread any; one wr_file is used by one thread at a time unless said otherwise */
#ifndef WEIR_IO_H
#define WEIR_IO_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"

/* Errors carry WR_E_NOSPC (retry soon) for a full disk or quota, WR_E_NOTFOUND, WR_E_EXISTS, else WR_E_IO. The path is
 * in the message. New files are 0600, folders 0700. */
wr_code wr_mkdirs(const char *path, wr_err *err); /* every missing folder, each made durable */
/* write to path.tmp, fsync, rename over path, fsync the folder. */
wr_code wr_file_put(const char *path, wr_slice content, wr_err *err);
/* Same without the rename: path must not exist (O_EXCL), fsync file and folder. For immutable lake files. */
wr_code wr_file_create(const char *path, wr_slice content, wr_err *err);
/* Whole file; WR_E_LIMIT above max_bytes. Appends to b. */
wr_code wr_file_get(const char *path, size_t max_bytes, wr_buf *b, wr_err *err);
wr_code wr_file_size(const char *path, uint64_t *ret_size, wr_err *err);
bool wr_file_exists(const char *path);
wr_code wr_file_remove(const char *path, wr_err *err); /* a missing file is fine */
wr_code wr_fsync_path(const char *path, wr_err *err);  /* a file or a folder */
wr_code wr_fsync_parent(const char *path, wr_err *err);
/* Calls fn for each entry of a folder (not "." and ".."), sorted by name. */
wr_code wr_dir_list(const char *path, wr_code (*fn)(void *ctx, const char *name, wr_err *err), void *ctx, wr_err *err);
char *wr_path_join(const char *a, const char *b); /* owned; NULL when memory is out */

/* Random-access file for logs. */
typedef struct wr_file wr_file;
typedef enum wr_open_mode { WR_OPEN_READ, WR_OPEN_RDWR, WR_OPEN_CREATE /* must not exist */ } wr_open_mode;
wr_code wr_file_open(const char *path, wr_open_mode mode, wr_file **ret_file, wr_err *err);
void wr_file_close(wr_file *f);
wr_code wr_file_pwrite(wr_file *f, uint64_t at, wr_slice data, wr_err *err); /* all or error */
wr_code wr_file_pread(wr_file *f, uint64_t at, void *dst, size_t n, size_t *ret_n,
                      wr_err *err);            /* short only at the end */
wr_code wr_file_sync(wr_file *f, wr_err *err); /* fdatasync. A failure sticks: reopen and read what is there */
wr_code wr_file_truncate(wr_file *f, uint64_t size, wr_err *err);
wr_code wr_file_length(wr_file *f, uint64_t *ret_size, wr_err *err);

/* An exclusive lock on a file, held until released or the process dies. WR_E_BUSY names the holder's pid. */
typedef struct wr_lock wr_lock;
wr_code wr_lock_take(const char *path, wr_lock **ret_lock, wr_err *err);
void wr_lock_release(wr_lock *l);
/* Whether it still keeps others out: WR_E_BUSY (no retry) when the file was removed or replaced meanwhile, so that another process may have a lock of that name. Who writes what the lock protects asks right before; a
 * process that was stopped for a while, and taken for dead, so finds out before it does harm. @thread any */
wr_code wr_lock_check(const wr_lock *l, wr_err *err);
/* WR_OK with *ret_pid = 0 when nobody holds it, -1 when its holder has not written its pid yet. */
wr_code wr_lock_holder(const char *path, int *ret_pid, wr_err *err);

#endif
