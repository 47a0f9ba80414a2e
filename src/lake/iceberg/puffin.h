/* Deletion vectors in Puffin files. Source: Puffin spec, "File structure" and "deletion-vector-v1 blob type";
 * RoaringFormatSpec for the portable 32-bit serialisation.
 * @thread any: no shared state */
#ifndef WEIR_LAKE_PUFFIN_H
#define WEIR_LAKE_PUFFIN_H

#include <roaring/roaring.h>
#include "iceberg/ice.h"

/* The whole file in memory; fills offset and size of each. */
wr_code wr_puffin_encode(wr_ice_dv *dvs, int n, wr_buf *out, wr_err *err);
/* One blob (what content_offset and content_size point at). Checks length, magic, CRC, and every container; positions
 * above 2^32 are WR_E_UNSUPPORTED. `cardinality` is what the manifest says, UINT64_MAX = not known. */
wr_code wr_puffin_decode_dv(wr_slice blob, const char *name, uint64_t cardinality, roaring_bitmap_t **ret_bitmap,
                            wr_err *err);

#endif
