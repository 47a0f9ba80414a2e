#include "iceberg/uuid.h"

#include <stdio.h>
#include <sys/random.h>

bool wr_uuid_new(char ret_text[WR_UUID_TEXT]) {
    uint8_t b[16];
    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b) return false;
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    int at = 0;
    for (int i = 0; i < 16; i++)
        at += snprintf(ret_text + at, (size_t)(WR_UUID_TEXT - at),
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", b[i]);
    return true;
}

bool wr_random_id(int64_t *ret_id) {
    do {
        uint64_t v;
        if (getrandom(&v, sizeof v, 0) != (ssize_t)sizeof v) return false;
        *ret_id = (int64_t)(v & ((1ull << 53) - 1));
    } while (*ret_id == 0);
    return true;
}
