/* Random (version 4) UUIDs for table and file names, and random snapshot ids. @thread any */
#ifndef WEIR_LAKE_UUID_H
#define WEIR_LAKE_UUID_H
#include <stdbool.h>
#include <stdint.h>
#define WR_UUID_TEXT 37
bool wr_uuid_new(char ret_text[WR_UUID_TEXT]); /* false when the system gives no random bytes */
bool wr_random_id(int64_t *ret_id);            /* 1 .. 2^53-1: exact in every JSON reader */
#endif
