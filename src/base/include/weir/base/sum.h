/* Checksums and hashes. @thread any */
#ifndef WEIR_BASE_SUM_H
#define WEIR_BASE_SUM_H
#include <stddef.h>
#include <stdint.h>
uint32_t wr_crc32c(uint32_t crc, const void *p, size_t n);  /* Castagnoli, SSE4.2 where there; start with 0 */
uint32_t wr_crc32(uint32_t crc, const void *p, size_t n);   /* IEEE, carry-less multiply where there; start with 0 */
uint64_t wr_hash64(const void *p, size_t n, uint64_t seed); /* XXH3 */
/* The same of bytes that come in pieces, seed 0. */
typedef struct wr_hasher wr_hasher;
wr_hasher *wr_hasher_new(void); /* NULL: memory is out */
void wr_hasher_free(wr_hasher *h);
void wr_hasher_add(wr_hasher *h, const void *p, size_t n);
uint64_t wr_hasher_end(wr_hasher *h); /* and begins anew */
uint64_t wr_xxh64(const void *p, size_t n);                  /* XXH64, seed 0: what Parquet's Bloom filters hash with */
typedef struct wr_h128 {
    uint64_t hi, lo;
} wr_h128;
wr_h128 wr_hash128(const void *p, size_t n); /* XXH3-128 */
#endif
