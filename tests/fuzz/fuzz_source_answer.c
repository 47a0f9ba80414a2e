/* Any bytes as a column's definition and as rows of the text protocol; the first one says how many columns. */
#include <stdlib.h>
#include <string.h>
#include "mysql/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(x)                                                                                                        \
    if (!(x)) abort()

static void column(wr_slice packet) {
    wr_err err = WR_ERR_INIT;
    MYSQL_FIELD f;
    char name[64];
    if (wr_my_column_parse(packet, &f, name, &err) != WR_OK) {
        MUST(err.code == WR_E_DECODE && err.msg[0]);
        return;
    }
    MUST(f.name == name && strlen(name) < sizeof name);
}

static void row(wr_slice bytes, unsigned ncols) {
    wr_err err = WR_ERR_INIT;
    char *value[300];
    unsigned long length[300];
    uint8_t *packet = malloc(bytes.n + 1); /* exactly: a step too far is found */
    if (bytes.n) memcpy(packet, bytes.p, bytes.n);
    if (wr_my_text_row(packet, bytes.n, ncols, value, length, &err) == WR_OK)
        for (unsigned i = 0; i < ncols; i++) {
            MUST(value[i] || length[i] == 0);
            MUST(!value[i] || (value[i][length[i]] == 0 && strlen(value[i]) <= length[i]));
        }
    else MUST(err.code == WR_E_DECODE && err.msg[0]);
    free(packet);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    column(wr_slice_of(data + 1, size - 1));
    row(wr_slice_of(data + 1, size - 1), data[0]);
    return 0;
}
