/* Shared by the tests of src/lake/iceberg. Include after cmocka.h. */
#ifndef TEST_LAKE_ICE_HELPER_H
#define TEST_LAKE_ICE_HELPER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weir/base/buf.h"
#include "weir/base/mem.h"

#define OK(expr)                                                                                                       \
    do {                                                                                                               \
        wr_code ok_rc_ = (expr);                                                                                       \
        if (ok_rc_ != WR_OK) fail_msg("%s: %s", #expr, err.msg);                                                       \
    } while (0)

/* decode(bytes) for every truncation and many bit flips: must end, with any result, and free what it made. */
static inline void damage(wr_slice good, void (*decode)(wr_slice bytes)) {
    uint8_t *copy = malloc(good.n);
    for (size_t n = 0; n < good.n; n++) {
        uint8_t *exact = malloc(n); /* so that a sanitizer sees a read past the end */
        memcpy(exact, good.p, n);
        decode(wr_slice_of(exact, n));
        free(exact);
    }
    for (size_t bit = 0; bit < good.n * 8; bit++) {
        memcpy(copy, good.p, good.n);
        copy[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        decode(wr_slice_of(copy, good.n));
    }
    free(copy);
}

/* A fresh folder below /tmp for each test. */
static char ice_folder[256];
static inline int make_folder(void **state) {
    snprintf(ice_folder, sizeof ice_folder, "%s/weir-ice-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(ice_folder) ? 0 : -1;
}
static inline int drop_folder(void **state) {
    char cmd[300];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", ice_folder);
    return system(cmd);
}
static inline const char *in_folder(const char *name) {
    static char path[4][400];
    static int i;
    i = (i + 1) % 4;
    snprintf(path[i], sizeof path[i], "%s/%s", ice_folder, name);
    return path[i];
}

#endif
