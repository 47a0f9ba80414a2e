/* Rows counted by (table, operation, event-minute). Private to ledger. */
#ifndef WEIR_LEDGER_TALLY_H
#define WEIR_LEDGER_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wr_cell {
    uint64_t key; /* 0 = empty */
    uint64_t rows, sum;
    uint64_t delay_ms; /* of all rows together: how long after their event they passed */
    uint64_t at_ms;    /* of all rows together: how far in the minute the event was */
    uint32_t delay_ms_max, at_ms_min;
} wr_cell;

/* 32 bits of table, 4 of operation, 28 of minutes since 1970. Never 0: operations begin at 1. */
static inline uint64_t wr_cell_key(uint32_t table, uint8_t op, int64_t minute) {
    return (uint64_t)table << 32 | (uint64_t)(op & 15) << 28 | ((uint64_t)minute & 0xfffffff);
}
static inline uint32_t wr_cell_table(uint64_t key) { return (uint32_t)(key >> 32); }
static inline uint8_t wr_cell_op(uint64_t key) { return key >> 28 & 15; }
static inline int64_t wr_cell_minute(uint64_t key) { return (int64_t)(key & 0xfffffff); }

typedef struct wr_tally {
    wr_cell *cells; /* a power of two, or none */
    size_t n, cap;
    size_t last[4]; /* where the last one of each operation was found */
} wr_tally;

wr_cell *wr_tally_at(wr_tally *t, uint64_t key);             /* made when it is not there; NULL = no memory. Valid until the next new one */
const wr_cell *wr_tally_get(const wr_tally *t, uint64_t key); /* NULL = not there */
bool wr_tally_reserve(wr_tally *t, size_t more);              /* so that as many new cells cannot fail */
bool wr_tally_add(wr_tally *t, const wr_cell *c);             /* to the cell of its key; false = no memory, and nothing has happened */
bool wr_tally_merge(wr_tally *t, const wr_tally *from);       /* all or nothing */
void wr_tally_clear(wr_tally *t); /* keeps a little memory */
void wr_tally_free(wr_tally *t);

#endif
