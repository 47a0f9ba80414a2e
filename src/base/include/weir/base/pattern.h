/* Regular expressions as users write them. @thread any */
#ifndef WEIR_BASE_PATTERN_H
#define WEIR_BASE_PATTERN_H
#include "weir/base/buf.h"
#include "weir/base/err.h"
/* `re`, anchored at both ends, in words of POSIX extended expressions, which lack \d, \w, \s and (?:...). Appends to out, with a NUL behind. */
wr_code wr_pattern_posix(const char *re, wr_buf *out, wr_err *err);
#endif
