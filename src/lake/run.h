/* Inside of a run, for index.c. */
#ifndef WEIR_LAKE_RUN_H
#define WEIR_LAKE_RUN_H

#include "index.h"

struct wr_run {
    uint64_t fingerprint, n;
    size_t es;                /* bytes per entry */
    const uint8_t *entries;
    uint32_t *bloom;
    uint64_t bloom_blocks;
    wr_key *samples;          /* every 64th key */
    uint64_t nsamples;
    char **paths;
    uint32_t npaths;
    uint32_t *bind;           /* [npaths] table file number or WR_NO_FILE */
    char *path;               /* its own file, NULL = memory only */
    uint8_t *heap;
    void *map;
    size_t map_bytes;
};

wr_run_entry wr_run_get(const wr_run *r, uint64_t i);
/* First entry with that key or above; n when the filter says it is not there. */
uint64_t wr_run_seek(const wr_run *r, wr_key key);
wr_code wr_run_merge(const wr_key_plan *plan, wr_run **runs, int nruns, const char *path, wr_run **ret_run, wr_err *err);

#endif
