/* Inside of a run, for index.c. */
#ifndef WEIR_LAKE_RUN_H
#define WEIR_LAKE_RUN_H

#include "index.h"

struct wr_run {
    uint64_t fingerprint, n;
    size_t es;                /* bytes per entry */
    const uint8_t *entries;   /* sorted by key */
    const uint32_t *bloom;
    uint64_t bloom_blocks;
    uint64_t *samples;        /* first half of every 64th key: lo of 16-byte entries, else hi */
    uint64_t nsamples;
    char **paths;
    uint32_t npaths;
    uint32_t *bind;           /* [npaths] table file number or WR_NO_FILE */
    char *path;               /* its own file, NULL = memory only */
    uint8_t *heap;            /* filter and entries when there is no file */
    uint8_t *map;
    size_t map_bytes;
};

wr_run_entry wr_run_get(const wr_run *r, uint64_t i);
/* First entry with that key or above; n when the filter says it is not there. */
uint64_t wr_run_seek(const wr_run *r, wr_key key);
/* One run of the live entries of several. The sources stay as they are. */
wr_code wr_run_merge(const wr_key_plan *plan, wr_run **runs, int nruns, const char *path, wr_run **ret_run, wr_err *err);

#endif
