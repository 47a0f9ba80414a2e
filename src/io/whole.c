/* Whole files and folders. */
#include "weir/io.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

char *wr_path_join(const char *a, const char *b) {
    size_t n = strlen(a);
    if (n == 0) return wr_strdup(b);
    return wr_asprintf(a[n - 1] == '/' ? "%s%s" : "%s/%s", a, b);
}

wr_code wr_fsync_path(const char *path, wr_err *err) {
    WR_AUTO_FD int fd = wr_sys_open_(path, O_RDONLY, 0);
    if (fd < 0) return wr_sys_fail_(err, errno, "open", path);
    return wr_sys_sync_(fd, path, false, err);
}

wr_code wr_fsync_parent(const char *path, wr_err *err) {
    WR_AUTO char *dir = wr_path_parent_(path);
    if (!dir) return wr_nomem(err, "path", strlen(path) + 1);
    return wr_fsync_path(dir, err);
}

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* One level; what is there already is fine, and made durable too: who made it may not have got that far. */
static wr_code make_folder(const char *path, wr_err *err) {
    if (mkdir(path, 0700) != 0) {
        int e = errno;
        if (is_folder(path)) return e == EEXIST ? wr_fsync_parent(path, err) : WR_OK;
        return wr_sys_fail_(err, e == EEXIST ? ENOTDIR : e, "make folder", path);
    }
    return wr_fsync_parent(path, err);
}

wr_code wr_mkdirs(const char *path, wr_err *err) {
    if (!path[0]) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "cannot make a folder without a name");
    if (is_folder(path)) return WR_OK;
    WR_AUTO char *p = wr_strdup(path);
    if (!p) return wr_nomem(err, "path", strlen(path) + 1);
    for (size_t i = 1; p[i]; i++) {
        if (p[i] != '/' || p[i - 1] == '/') continue;
        p[i] = 0;
        if (!is_folder(p)) WR_TRY(make_folder(p, err));
        p[i] = '/';
    }
    return is_folder(p) ? WR_OK : make_folder(p, err);
}

/* A new file with its content on disk; its name is not yet. Removes what it made when it fails. */
static wr_code write_new(const char *path, int flags, wr_slice content, wr_err *err) {
    WR_AUTO_FD int fd = wr_sys_open_(path, O_WRONLY | O_CREAT | flags, 0600);
    if (fd < 0) return wr_sys_fail_(err, errno, "create", path);
    wr_code rc = wr_sys_pwrite_(fd, path, 0, content, err);
    if (rc == WR_OK) rc = wr_sys_sync_(fd, path, false, err);
    if (rc != WR_OK) unlink(path);
    return rc;
}

wr_code wr_file_put(const char *path, wr_slice content, wr_err *err) {
    WR_AUTO char *tmp = wr_asprintf("%s.tmp", path);
    if (!tmp) return wr_nomem(err, "path", strlen(path) + 5);
    WR_TRY(write_new(tmp, O_TRUNC, content, err));
    if (WR_FAULT("io.rename")) {
        unlink(tmp);
        return wr_sys_fail_(err, EIO, "rename onto", path);
    }
    if (rename(tmp, path) != 0) {
        int e = errno;
        unlink(tmp);
        return wr_sys_fail_(err, e, "rename onto", path);
    }
    return wr_fsync_parent(path, err);
}

wr_code wr_file_create(const char *path, wr_slice content, wr_err *err) {
    WR_TRY(write_new(path, O_EXCL, content, err));
    wr_code rc = wr_fsync_parent(path, err);
    if (rc != WR_OK) unlink(path);
    return rc;
}

wr_code wr_file_get(const char *path, size_t max_bytes, wr_buf *b, wr_err *err) {
    WR_AUTO_FD int fd = wr_sys_open_(path, O_RDONLY, 0);
    if (fd < 0) return wr_sys_fail_(err, errno, "open", path);
    struct stat st;
    if (fstat(fd, &st) != 0) return wr_sys_fail_(err, errno, "look at", path);
    size_t start = b->n, want = st.st_size > 0 ? (size_t)st.st_size : 0;
    if (want > max_bytes)
        return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "%s has %zu bytes, %zu are allowed", path, want, max_bytes);
    for (;;) {
        /* One more than is left, so that the read that meets the end needs no room of its own and growth is seen. */
        size_t have = b->n - start, room = want > have ? want - have + 1 : 4096;
        uint8_t *d = wr_buf_room(b, room);
        if (!d) return wr_nomem(err, path, room);
        ssize_t n = read(fd, d, room);
        if (n < 0 && errno == EINTR) continue;
        int e = errno;
        if (n < 0 || (size_t)n > max_bytes - have) b->n = start;
        if (n < 0) return wr_sys_fail_(err, e, "read", path);
        if ((size_t)n > max_bytes - have)
            return wr_fail(err, WR_E_LIMIT, WR_RETRY_NO, "%s has more than the %zu bytes allowed", path, max_bytes);
        if (n == 0) return WR_OK;
        b->n += (size_t)n;
    }
}

wr_code wr_file_size(const char *path, uint64_t *ret_size, wr_err *err) {
    struct stat st;
    if (stat(path, &st) != 0) return wr_sys_fail_(err, errno, "look at", path);
    *ret_size = (uint64_t)st.st_size;
    return WR_OK;
}

bool wr_file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

wr_code wr_file_remove(const char *path, wr_err *err) {
    if (WR_FAULT("io.remove")) return wr_sys_fail_(err, EIO, "remove", path);
    if (unlink(path) != 0 && errno != ENOENT) return wr_sys_fail_(err, errno, "remove", path);
    return WR_OK;
}

typedef struct names {
    char **v;
    size_t n, cap;
} names;

static void names_free(names *l) {
    for (size_t i = 0; i < l->n; i++) wr_free(l->v[i]);
    wr_free(l->v);
}

static bool names_add(names *l, const char *name) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 32;
        char **v = wr_realloc(l->v, cap * sizeof *v);
        if (!v) return false;
        l->v = v;
        l->cap = cap;
    }
    char *copy = wr_strdup(name);
    if (!copy) return false;
    l->v[l->n++] = copy;
    return true;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static wr_code read_folder(const char *path, names *l, wr_err *err) {
    DIR *dir = opendir(path);
    if (!dir) return wr_sys_fail_(err, errno, "list", path);
    wr_code rc = WR_OK;
    for (;;) {
        errno = 0;
        struct dirent *d = readdir(dir);
        if (!d) {
            if (errno) rc = wr_sys_fail_(err, errno, "list", path);
            break;
        }
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
        if (!names_add(l, d->d_name)) {
            rc = wr_nomem(err, "folder entry", strlen(d->d_name) + 1);
            break;
        }
    }
    closedir(dir);
    return rc;
}

wr_code wr_dir_list(const char *path, wr_code (*fn)(void *ctx, const char *name, wr_err *err), void *ctx, wr_err *err) {
    WR_CLEANUP(names_free) names l = {0};
    WR_TRY(read_folder(path, &l, err));
    if (l.n > 1) qsort(l.v, l.n, sizeof *l.v, by_text);
    for (size_t i = 0; i < l.n; i++) WR_TRY(fn(ctx, l.v[i], err));
    return WR_OK;
}
