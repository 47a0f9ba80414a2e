/* Which files of a table are worth rewriting. Plain arithmetic over sizes; README.md, "Compaction", has the reasons and what was measured.
 * Private to lake. */
#ifndef WEIR_LAKE_POLICY_H
#define WEIR_LAKE_POLICY_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/lake.h"

#define WR_POLICY_INPUTS 128            /* files of one job */
#define WR_POLICY_ROWS (UINT32_C(1) << 21) /* rows of a file that is written: the memory of its index run */
#define WR_POLICY_JOB_ROWS (2 * WR_POLICY_ROWS) /* of a job, unless one file alone has more: the memory of sorting them */
#define WR_POLICY_LEVELS WR_FILE_LEVELS
#define WR_COMPACT_FILES 8              /* unless the options say otherwise */

typedef struct wr_policy {
    uint64_t target_bytes; /* of a full file */
    uint64_t job_bytes;    /* of a job's inputs, unless one file alone has more */
    int files;             /* of a level, before they are merged */
    double amplification;  /* data written so far per byte of new data */
    bool patient;          /* a little that is deleted may wait */
    bool settling;         /* the table was opened a moment ago: a load or a sync that catches up has more to come */
    bool all;              /* also what is not due: every file below full size or with a deleted row, once */
} wr_policy;
typedef struct wr_policy_file {
    uint32_t no;
    uint64_t bytes, records, dead;
    uint32_t group; /* its partition: only files of one are merged with each other. Files of a group stand together */
    bool old;       /* of another spec than the table's present one: to be spread over the present partitions */
    uint64_t fresh; /* of the dead: they came a moment ago, and more may come */
    bool done; /* of a job of this `all` */
} wr_policy_file;

typedef enum wr_policy_work { WR_WORK_NONE, WR_WORK_MERGE, WR_WORK_REWRITE, WR_WORK_SPREAD } wr_policy_work;
typedef struct wr_choice {
    wr_policy_work work;
    uint32_t no[WR_POLICY_INPUTS]; /* in the order of groups, then files */
    int n, level;                  /* MERGE: of the largest that were due, in the partition where those are smallest */
    uint64_t bytes, live_bytes, dead_rows, live_rows;
    char why[96];
} wr_choice;

/* Of a table with these counts; `patient`, `settling` and `all` are the caller's to set. */
wr_policy wr_policy_of(uint64_t target_bytes, int files, const wr_upkeep *upkeep);
/* 0..WR_POLICY_LEVELS - 1 */
int wr_policy_level(const wr_policy *p, const wr_policy_file *f);
void wr_policy_choose(const wr_policy *p, const wr_policy_file *files, uint32_t n, wr_choice *ret);
#define WR_SPREAD_PART 4 /* a job that spreads reads at most this part of job_bytes, unless one file alone has more: most of its rows wait for their place in a file */
int wr_policy_by_group(const void *a, const void *b); /* for qsort of wr_policy_file */
/* Bytes at which an output ends, so that outputs of one job are of one size. */
uint64_t wr_policy_output_bytes(const wr_policy *p, uint64_t live_bytes);

#endif
