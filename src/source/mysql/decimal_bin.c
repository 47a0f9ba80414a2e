#include "decimal_bin.h"

#define DIGITS_MAX 81 /* nine groups: inside JSON the first group counts whole */

static const uint8_t digits_bytes[10] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
static const uint32_t pow10_u32[10] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};

unsigned wr_decimal_bin_size(unsigned precision, unsigned scale) {
    if (precision < 1 || precision > DIGITS_MAX || scale > 30 || scale > precision) return 0;
    unsigned ints = precision - scale;
    return ints / 9 * 4 + digits_bytes[ints % 9] + scale / 9 * 4 + digits_bytes[scale % 9];
}

/* The groups of digits from the left: at most 1 + 8 + 3 + 1. */
typedef struct groups { int n; uint32_t v[14]; uint8_t digits[14]; bool negative; int nints; /* groups before the point */ } groups;

static bool read_groups(const uint8_t *p, unsigned precision, unsigned scale, groups *g) {
    unsigned ints = precision - scale;
    g->n = 0;
    g->negative = !(p[0] & 0x80);
    uint8_t mask = g->negative ? 0xFF : 0, first = 0x80;
    unsigned parts[4] = {ints % 9, ints / 9, scale / 9, scale % 9};
    bool ok = true;
    for (int k = 0; k < 4; k++) {
        unsigned times = k == 1 || k == 2 ? parts[k] : parts[k] != 0, digits = k == 1 || k == 2 ? 9 : parts[k];
        if (k == 2) g->nints = g->n;
        for (unsigned i = 0; i < times; i++) {
            uint32_t v = 0;
            for (unsigned b = 0; b < digits_bytes[digits]; b++) {
                v = v << 8 | (uint8_t)(*p++ ^ mask ^ first);
                first = 0;
            }
            ok &= v < pow10_u32[digits];
            g->v[g->n] = v;
            g->digits[g->n++] = (uint8_t)digits;
        }
    }
    return ok;
}

bool wr_decimal_bin_read(const uint8_t *p, unsigned precision, unsigned scale, __int128 *ret) {
    groups g;
    if (!read_groups(p, precision, scale, &g)) return false;
    if (precision <= 18) {
        int64_t v = 0;
        for (int i = 0; i < g.n; i++) v = v * (int64_t)pow10_u32[g.digits[i]] + g.v[i];
        *ret = g.negative ? -v : v;
        return true;
    }
    unsigned __int128 v = 0;
    for (int i = 0; i < g.n; i++) v = v * pow10_u32[g.digits[i]] + g.v[i];
    *ret = g.negative ? -(__int128)v : (__int128)v;
    return true;
}

bool wr_decimal_bin_print(const uint8_t *p, unsigned precision, unsigned scale, wr_buf *out) {
    groups g;
    if (!read_groups(p, precision, scale, &g)) return false;
    char text[DIGITS_MAX + 3 + 9], *t = text;
    bool zero = true;
    for (int i = 0; i < g.n; i++) zero &= g.v[i] == 0;
    if (g.negative && !zero) *t++ = '-';
    char *start = t;
    for (int i = 0; i < g.n; i++) {
        if (i == g.nints) {
            if (t == start) *t++ = '0';
            *t++ = '.';
        }
        for (int d = g.digits[i] - 1; d >= 0; d--) {
            char c = (char)('0' + g.v[i] / pow10_u32[d] % 10);
            if (i < g.nints && t == start && c == '0') continue; /* leading zeroes */
            *t++ = c;
        }
    }
    if (t == start) *t++ = '0';
    wr_buf_put(out, text, (size_t)(t - text));
    return true;
}
