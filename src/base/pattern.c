#include "weir/base/pattern.h"

#include <string.h>

wr_code wr_pattern_posix(const char *re, wr_buf *out, wr_err *err) {
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
