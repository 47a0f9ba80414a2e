/* Keys of rows as the index sees them: 64 exact bits for one integer-like column, 128 exact bits for fixed-width
 * columns that fit together, else XXH3-128 of the key's bytes. A table without a key uses XXH3-128 of the whole row.
 * Private to lake.
 * @thread any */
#ifndef WEIR_LAKE_KEY_H
#define WEIR_LAKE_KEY_H

#include "weir/base/sum.h"
#include "weir/model.h"

typedef struct wr_key {
    uint64_t hi, lo;
} wr_key;

typedef enum wr_key_form {
    WR_KEY_U64 = 1, /* hi is 0, lo the column's bits; exact */
    WR_KEY_FIXED,   /* up to 16 bytes of fixed-width columns; exact */
    WR_KEY_HASH,    /* hash of length-delimited key values */
    WR_KEY_ROW,     /* no key: hash of the whole row; several rows may have it */
} wr_key_form;

typedef struct wr_key_plan {
    wr_key_form form;
    int ncols, last; /* columns of a row; the last one that must be looked at */
    int nkey;
    uint8_t *kinds;       /* [ncols] wr_kind */
    int *ord;             /* [ncols] position in the key, -1 */
    uint64_t fingerprint; /* of form, key columns' ids and kinds: a run made under another plan does not fit */
    /* Shortcut of WR_KEY_U64: where the key is in a row whose columns up to it are not null; at 0 = there is none. */
    uint32_t at;
    uint8_t at_width, null_bytes;
    uint64_t null_mask;
} wr_key_plan;

wr_code wr_key_plan_new(const wr_schema *s, wr_key_plan **ret_plan, wr_err *err);
void wr_key_plan_free(wr_key_plan *p);
/* WR_E_CORRUPT when the row is shorter than its schema says or a key column is malformed. */
wr_code wr_key_of(const wr_key_plan *p, wr_slice row, wr_key *ret_key, wr_err *err);
/* Room for a key at `at` in a growing array. */
wr_code wr_keys_room(wr_key **keys, uint32_t *cap, uint32_t at, wr_err *err);
static inline bool wr_key_eq(wr_key a, wr_key b) { return a.hi == b.hi && a.lo == b.lo; }

#endif
