#include "weir/base/pattern.h"

#include <string.h>
#include "weir/base/buf.h"

/* In words of POSIX, with a NUL behind. */
static wr_code to_posix(const char *re, wr_buf *out, wr_err *err) {
    bool in_set = false;
    wr_buf_put(out, "^(", 2);
    for (const char *p = re; *p; p++) {
        if (*p == '\\' && p[1]) {
            const char *cls = p[1] == 'd' ? "0-9" : p[1] == 'w' ? "A-Za-z0-9_" : p[1] == 's' ? " \t" : NULL;
            if (cls) wr_buf_printf(out, in_set ? "%s" : "[%s]", cls);
            else wr_buf_put(out, p, 2);
            p++;
            continue;
        }
        if (*p == '[' && !in_set) in_set = true;
        else if (*p == ']') in_set = false;
        wr_buf_put(out, p, 1);
        if (*p == '(' && !in_set && p[1] == '?' && p[2] == ':') p += 2;
    }
    wr_buf_put(out, ")$", 2);
    return wr_buf_cstr(out) ? WR_OK : wr_nomem(err, "pattern", out->n);
}

wr_code wr_pattern_compile(regex_t *re, const char *text, char why[128], wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    WR_TRY(to_posix(text, &b, err));
    int rc = regcomp(re, (char *)b.p, REG_EXTENDED | REG_NOSUB);
    if (rc == 0) return WR_OK;
    regerror(rc, re, why, 128);
    return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "'%s' is not a regular expression: %s", text, why);
}
