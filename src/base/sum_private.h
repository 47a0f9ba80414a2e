/* The table versions of the checksums, which run where the instructions are missing; tests compare both. And XXH3 of more than 240 bytes. */
#ifndef WEIR_BASE_SUM_PRIVATE_H
#define WEIR_BASE_SUM_PRIVATE_H
#include <stddef.h>
#include <stdint.h>
uint32_t wr_crc32c_by_table_(uint32_t crc, const void *p, size_t n);
uint32_t wr_crc32_by_table_(uint32_t crc, const void *p, size_t n);
uint64_t wr_hash64_long_(const void *p, size_t n, uint64_t seed);
#endif
