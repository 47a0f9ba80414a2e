/* Binary JSON to text, and diffs onto it. Input: u16 length of the document, the document, the diffs. */
#include <stdlib.h>
#include <string.h>
#include "mysql/json_binary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wr_err err = WR_ERR_INIT;
    if (size < 2) return 0;
    size_t n = (size_t)(data[0] | data[1] << 8);
    if (n > size - 2) n = size - 2;
    uint8_t *doc = malloc(n ? n : 1), *diffs = malloc(size - 2 - n ? size - 2 - n : 1);
    memcpy(doc, data + 2, n);
    memcpy(diffs, data + 2 + n, size - 2 - n);
    wr_buf a = WR_BUF_INIT, b = WR_BUF_INIT;
    wr_code ra = wr_my_json_print(wr_slice_of(doc, n), &a, &err);
    wr_code rb = wr_my_json_print_patched(wr_slice_of(doc, n), (wr_slice){0}, &b, &err);
    /* the two ways to text agree on what both accept */
    if (ra == WR_OK && rb == WR_OK && (a.n != b.n || memcmp(a.p, b.p, a.n))) abort();
    wr_buf_clear(&b);
    wr_my_json_print_patched(wr_slice_of(doc, n), wr_slice_of(diffs, size - 2 - n), &b, &err);
    wr_buf_free(&a), wr_buf_free(&b);
    free(doc), free(diffs);
    return 0;
}
