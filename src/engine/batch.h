/* The inside of a columnar batch, for the writer in this module.
 *
 * A batch is a list of chunks of at most WR_CHUNK_ROWS rows. A chunk holds each column as one dense array with a slot
 * for every row, dead and null ones included, so that the slot of a row is the same in all columns and the writer
 * copies runs of values with memcpy. Strings, binaries and lists are offsets into a heap of the chunk's column.
 *
 * The first chunk starts small and doubles: a batch of one row costs about a kilobyte. Full chunks give back what
 * their heaps did not use.
 * @thread one at a time while rows are added; any number of readers afterwards
 */
#ifndef WEIR_ENGINE_BATCH_H
#define WEIR_ENGINE_BATCH_H

#include "weir/engine.h"

#define WR_CHUNK_ROWS 2048
/* A chunk ends early when a heap has grown to this: offsets stay 32 bit and a heap's growth copies stay small. */
#define WR_CHUNK_HEAP_BYTES (64u << 20)
/* Parquet counts the bytes of a page in an int32, so one value must leave room for its neighbours. */
#define WR_VALUE_BYTES_MAX (1u << 30)

typedef struct wr_vec {
    uint8_t *data;   /* fixed kinds: cap values of `width` bytes; else NULL */
    uint32_t *offs;  /* other kinds: cap + 1 offsets into heap */
    uint64_t *valid; /* bit = 1: not null; bits from rows on are 1 */
    uint8_t *heap;
    uint32_t heap_cap;
    bool has_null;
    bool lent;       /* the heap is one value of a row of somebody else's */
} wr_vec;

typedef struct wr_chunk {
    uint32_t first; /* rows of the batch before this chunk */
    uint32_t rows, cap;
    uint32_t ndead;
    bool full;      /* a heap is large enough: the next row goes to a new chunk */
    uint64_t *dead; /* bit = 1: dead */
    uint8_t *block; /* one allocation behind dead and data, offs and valid of all columns */
    size_t block_bytes;
    wr_vec vecs[];
} wr_chunk;

struct wr_batch {
    wr_schema *schema;
    uint32_t rows, dead;
    uint32_t nchunks, chunks_cap;
    wr_chunk **chunks;
    size_t bytes;    /* all allocations of the batch, this struct included */
    uint8_t *widths; /* per column: bytes of a value in vec.data, 0 = offsets and heap */
};

/* Bytes of a value of the type in vec.data: decimals of at most 9 digits are int32, of at most 18 int64, else __int128.
 */
uint8_t wr_batch_width(wr_type t);
/* The chunk that holds a row of the batch. */
const wr_chunk *wr_batch_chunk(const wr_batch *b, uint32_t row);

/* A new batch of one column of n rows of this one, in that order. */
wr_code wr_batch_pick(const wr_batch *b, int col, const uint32_t *rows, uint32_t n, wr_batch **ret_batch, wr_err *err);

static inline bool wr_bit(const uint64_t *bits, uint32_t i) { return bits[i >> 6] >> (i & 63) & 1; }

#endif
