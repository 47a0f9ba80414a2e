/* Any bytes as a deletion vector, with length and checksum made right so that what is behind them is reached too. What
 * decodes encodes to something that decodes to the same. */
#include <stdlib.h>
#include <string.h>

#include "iceberg/puffin.h"
#include "weir/base/sum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(wr_slice blob) {
    wr_err err = WR_ERR_INIT;
    roaring_bitmap_t *b, *again;
    if (wr_puffin_decode_dv(blob, "fuzz.puffin", UINT64_MAX, &b, &err) != WR_OK) return;
    wr_buf out = WR_BUF_INIT;
    wr_ice_dv dv = {.referenced = "/a", .bitmap = b};
    if (wr_puffin_encode(&dv, 1, &out, &err) != WR_OK ||
        wr_puffin_decode_dv(wr_slice_of(out.p + dv.offset, (size_t)dv.size), "again.puffin", dv.cardinality, &again,
                            &err) != WR_OK ||
        !roaring_bitmap_equals(b, again))
        abort();
    roaring_bitmap_free(b);
    roaring_bitmap_free(again);
    wr_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    decode(wr_slice_of(data, size));
    if (size < 12) return 0;
    uint8_t *p = malloc(size);
    memcpy(p, data, size);
    static const uint8_t magic[4] = {0xD1, 0xD3, 0x39, 0x64};
    memcpy(p + 4, magic, 4);
    uint32_t len = (uint32_t)size - 8, crc = wr_crc32(0, p + 4, len);
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(len >> (24 - 8 * i)), p[size - 4 + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
    decode(wr_slice_of(p, size));
    free(p);
    return 0;
}
