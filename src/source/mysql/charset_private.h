/* Private to charset.c: the tables. */
#ifndef WEIR_SOURCE_MYSQL_CHARSET_PRIVATE_H
#define WEIR_SOURCE_MYSQL_CHARSET_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WR_CHARSET_NONE 0xFFFFu /* the byte has no character */

typedef struct wr_charset_single {
    const char *name;
    bool swe7; /* the lower half is wr_charset_swe7_low instead of ASCII */
    uint16_t high[128];
} wr_charset_single;
extern const wr_charset_single wr_charset_singles[];
extern const int wr_charset_nsingles;
extern const uint16_t wr_charset_swe7_low[128];

typedef struct wr_charset_diff { uint16_t lo, hi, unicode; } wr_charset_diff;
typedef struct wr_charset_multi {
    const char *name, *icu;          /* ICU's converter that comes nearest */
    const wr_charset_diff *two; int ntwo;
    const wr_charset_diff *three; int nthree; /* codes behind 0x8F */
} wr_charset_multi;
extern const wr_charset_multi wr_charset_multis[];
extern const int wr_charset_nmultis;

typedef struct wr_charset_range { uint16_t lo, hi; const char *name; } wr_charset_range;
extern const wr_charset_range wr_charset_ranges[];
extern const int wr_charset_nranges;

#endif
