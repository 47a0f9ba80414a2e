#include "value.h"

size_t wr_utf8_next_(const uint8_t *p, size_t n) {
    uint8_t c = p[0];
    if (c < 0x80) return 1;
    size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || n < len) return 0;
    uint8_t low = 0x80, high = 0xbf; /* of the second byte: no overlong forms, no surrogates, nothing above U+10FFFF */
    if (c == 0xe0) low = 0xa0;
    if (c == 0xed) high = 0x9f;
    if (c == 0xf0) low = 0x90;
    if (c == 0xf4) high = 0x8f;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    return len;
}

bool wr_utf8_valid_(wr_slice s) {
    for (size_t i = 0; i < s.n;) {
        size_t len = wr_utf8_next_(s.p + i, s.n - i);
        if (len == 0) return false;
        i += len;
    }
    return true;
}
