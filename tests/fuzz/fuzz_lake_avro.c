/* Any bytes as an Avro file: reading ends, in an error or in values. */
#include "iceberg/avro.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t walk(const wr_avro_value *v) {
    switch (v->kind) {
    case WR_AVRO_RECORD:
    case WR_AVRO_ARRAY:
    case WR_AVRO_MAP: {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < v->n; i++) sum += walk(&v->items[i]);
        return sum;
    }
    case WR_AVRO_BYTES:
    case WR_AVRO_STRING:
    case WR_AVRO_FIXED:
        return v->s.n ? v->s.p[0] + (uint64_t)v->s.p[v->s.n - 1] : 0;
    default:
        return (uint64_t)v->i;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t sum = 0;
    wr_err err = WR_ERR_INIT;
    wr_avro_reader *r;
    const wr_avro_value *v;
    if (wr_avro_open(wr_slice_of(data, size), "fuzz.avro", &r, &err) != WR_OK) return 0;
    while (wr_avro_next(r, &v, &err) == WR_OK && v) sum += walk(v);
    wr_avro_free(r);
    __asm__ volatile("" : : "r"(sum)); /* the walk is not for nothing */
    return 0;
}
