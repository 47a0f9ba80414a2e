#include "weir/base/err.h"

#include <stdio.h>
#include <string.h>

/* Messages are one line of UTF-8: control characters become spaces, and what a cut left of a character goes. */
static void tidy(char *s) {
    size_t to = 0;
    for (size_t i = 0; s[i];) {
        unsigned char c = (unsigned char)s[i];
        size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1, have = 1;
        while (have < n && ((unsigned char)s[i + have] & 0xc0) == 0x80) have++;
        if (c < 0x20 || c == 0x7f) s[to++] = ' ';
        else if (have == n && (c < 0x80 || n > 1)) memmove(s + to, s + i, n), to += n;
        i += have;
    }
    s[to] = 0;
}

wr_code (wr_fail)(wr_err *err, wr_code code, wr_retry retry, const char *fmt, ...) {
    /* Formatted aside, because an argument may be the old err->msg. */
    char msg[sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    tidy(msg);
    err->code = code;
    err->retry = retry;
    memcpy(err->msg, msg, sizeof msg);
    err->cure[0] = 0;
    return code;
}

wr_code (wr_err_cure)(wr_err *err, const char *fmt, ...) {
    char cure[sizeof err->cure];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(cure, sizeof cure, fmt, ap);
    va_end(ap);
    tidy(cure);
    memcpy(err->cure, cure, sizeof cure);
    return err->code;
}

wr_code (wr_err_in)(wr_err *err, const char *fmt, ...) {
    char msg[sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    if (n < 0) n = 0, msg[0] = 0;
    if ((size_t)n < sizeof msg - 1) {
        /* Cut on the right: the outer places are named first, and the fault itself is what is left of the room. */
        size_t at = (size_t)n, left = sizeof msg - 1 - at, len = strlen(err->msg);
        if (left >= 2) memcpy(msg + at, ": ", 2), at += 2, left -= 2;
        if (len > left) len = left;
        memcpy(msg + at, err->msg, len);
        msg[at + len] = 0;
    }
    tidy(msg);
    memcpy(err->msg, msg, sizeof msg);
    return err->code;
}

wr_code (wr_nomem)(wr_err *err, const char *what, unsigned long long bytes) {
    wr_fail(err, WR_E_NOMEM, WR_RETRY_SOON, "out of memory: %llu bytes for %s", bytes, what);
    return WR_E_NOMEM;
}

void wr_err_clear(wr_err *err) {
    err->code = WR_OK;
    err->retry = WR_RETRY_NO;
    err->msg[0] = err->cure[0] = 0;
}

const char *wr_code_name(wr_code code) {
    static const char *const names[] = {
        [WR_OK] = "ok",
        [WR_E_INVAL] = "invalid",
        [WR_E_CONFIG] = "config",
        [WR_E_NOMEM] = "nomem",
        [WR_E_LIMIT] = "limit",
        [WR_E_IO] = "io",
        [WR_E_NOSPC] = "nospc",
        [WR_E_CORRUPT] = "corrupt",
        [WR_E_DECODE] = "decode",
        [WR_E_UNSUPPORTED] = "unsupported",
        [WR_E_NOTFOUND] = "notfound",
        [WR_E_EXISTS] = "exists",
        [WR_E_AUTH] = "auth",
        [WR_E_NET] = "net",
        [WR_E_SERVER] = "server",
        [WR_E_SCHEMA] = "schema",
        [WR_E_CONFLICT] = "conflict",
        [WR_E_BUSY] = "busy",
        [WR_E_CANCELLED] = "cancelled",
        [WR_E_TIMEOUT] = "timeout",
        [WR_E_GAP] = "gap",
    };
    if ((unsigned)code >= sizeof names / sizeof *names) return "unknown";
    return names[code];
}
