#include "weir/sqlite.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include "weir/base/mem.h"

static wr_code code_of(sqlite3 *db, int rc) {
    int e = db ? sqlite3_system_errno(db) : 0;
    switch (rc & 0xff) {
    case SQLITE_NOMEM: return WR_E_NOMEM;
    case SQLITE_FULL: return WR_E_NOSPC;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return WR_E_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return WR_E_CORRUPT;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN: return e == ENOSPC || e == EDQUOT ? WR_E_NOSPC : WR_E_IO;
    default: return WR_E_IO;
    }
}

wr_code wr_sqlite_fail(wr_err *err, sqlite3 *db, int rc, const char *what) {
    wr_code code = code_of(db, rc);
    bool passes = code == WR_E_NOSPC || code == WR_E_NOMEM || code == WR_E_BUSY;
    const char *says = code == WR_E_NOSPC ? "no space left" : db ? sqlite3_errmsg(db) : sqlite3_errstr(rc), *file = db ? sqlite3_db_filename(db, "main") : NULL;
    wr_fail(err, code, passes ? WR_RETRY_SOON : WR_RETRY_NO, "%.160s: %s (SQLite %d)", what, says, rc);
    if (code == WR_E_NOSPC) wr_err_cure(err, "make room on the file system that holds %s", file && *file ? file : "the database");
    return code;
}

wr_code wr_sqlite_create(const char *path, wr_err *err) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return wr_fail(err, errno == ENOSPC || errno == EDQUOT ? WR_E_NOSPC : WR_E_IO, WR_RETRY_NO,
                       "cannot open %s: %s", path, strerror(errno));
    close(fd);
    WR_AUTO char *dir = wr_strdup(path);
    if (!dir) return wr_nomem(err, "path", strlen(path) + 1);
    char *slash = strrchr(dir, '/');
    if (slash) slash[slash == dir] = 0;
    int dfd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dfd < 0) return wr_fail(err, WR_E_IO, WR_RETRY_NO, "cannot open the folder of %s: %s", path, strerror(errno));
    int rc = fsync(dfd);
    close(dfd);
    return rc == 0 ? WR_OK
                   : wr_fail(err, WR_E_IO, WR_RETRY_NO, "cannot sync the folder of %s: %s", path, strerror(errno));
}
