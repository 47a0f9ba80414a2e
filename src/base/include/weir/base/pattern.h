/* Regular expressions as users write them. @thread any */
#ifndef WEIR_BASE_PATTERN_H
#define WEIR_BASE_PATTERN_H
#include <regex.h>
#include "weir/base/err.h"
/* Compiles `text`, anchored at both ends, in which \d, \w, \s and (?:...) are understood beside POSIX extended expressions. WR_E_CONFIG: why says what is wrong; nothing is to be freed
 * then. */
wr_code wr_pattern_compile(regex_t *re, const char *text, char why[128], wr_err *err);
#endif
