/* The key index of one table: immutable sorted runs of (key -> data file, row), plus rows still pending in memory.
 *
 * Data files are immutable, so a run is true for as long as its files exist; whether a row is still alive is not the
 * index's business but the deletion vectors'. A run therefore never goes stale, only superfluous, and a missing one is
 * rebuilt from the files' key columns. Persisted form: docs/formats/index-run.md. Private to lake.
 * @thread the table's applying thread, except wr_run_build (any) */
#ifndef WEIR_LAKE_INDEX_H
#define WEIR_LAKE_INDEX_H

#include "key.h"

#define WR_NO_FILE UINT32_MAX

typedef struct wr_run wr_run;
typedef struct wr_run_entry {
    wr_key key;
    uint32_t file, row;
} wr_run_entry;

/* Sorts entries (in place) and makes a run; entry.file are indexes into paths. Written to `path` when it has at least
 * WR_RUN_PERSIST entries (path NULL: memory only). Not fsynced: its checksum decides at the next start. */
#define WR_RUN_PERSIST 1024
wr_code wr_run_build(const wr_key_plan *plan, wr_run_entry *entries, uint64_t n, const char *const *paths,
                     uint32_t npaths, const char *path, wr_run **ret_run, wr_err *err);
/* WR_E_CORRUPT / WR_E_NOTFOUND: make it anew. A run of another plan is WR_E_CORRUPT as well. */
wr_code wr_run_load(const wr_key_plan *plan, const char *path, wr_run **ret_run, wr_err *err);
void wr_run_free(wr_run *r, bool remove_file);
uint32_t wr_run_npaths(const wr_run *r);
const char *wr_run_path(const wr_run *r, uint32_t i); /* data file i */
uint64_t wr_run_count(const wr_run *r);
wr_run_entry wr_run_get(const wr_run *r, uint64_t i); /* file: of the run's own */
/* Tells which table file number data file i has now; WR_NO_FILE = not live any more. Must be called before look-ups. */
void wr_run_bind(wr_run *r, uint32_t i, uint32_t fileno);

typedef struct wr_index wr_index;
wr_code wr_index_new(const wr_key_plan *plan, const char *dir, wr_index **ret_index,
                     wr_err *err); /* dir: runs live here; created. plan is not kept */
void wr_index_free(wr_index *ix);  /* run files stay */
/* Makes room for one more run, so that the wr_index_add after it cannot fail. */
wr_code wr_index_reserve(wr_index *ix, wr_err *err);
/* Takes the run over; needs room. May merge runs of a size class into one: where that fails, look-ups go on with more
 * runs and the next add tries again. */
void wr_index_add(wr_index *ix, wr_run *run);
/* The file is gone: its entries are passed over from now on. A run without files is removed, from disk too. */
void wr_index_drop_file(wr_index *ix, uint32_t fileno);
/* Calls visit(file,row) for entries of the key, run by run, until it returns true; returns whether one did. An
 * entry for which visit has returned false once need not be shown again for as long as one key is asked for: dead rows
 * stay dead. */
bool wr_index_find(wr_index *ix, wr_key key, bool (*visit)(void *ctx, uint32_t file, uint32_t row), void *ctx);
uint64_t wr_index_entries(const wr_index *ix);
int wr_index_runs(const wr_index *ix);
char *wr_index_run_path(wr_index *ix); /* a fresh file name in dir; owned. @thread any */

/* ---- rows of the pending batch: key -> newest row, older rows of the same key behind it */
typedef struct wr_pending wr_pending;
wr_pending *wr_pending_new(void);
void wr_pending_free(wr_pending *p);
void wr_pending_clear(wr_pending *p);
bool wr_pending_add(wr_pending *p, wr_key key, uint32_t row); /* rows rise; false = no memory */
#define WR_NO_ROW UINT32_MAX
uint32_t wr_pending_find(const wr_pending *p, wr_key key); /* newest row of the key, or WR_NO_ROW */
uint32_t wr_pending_pop(wr_pending *p, wr_key key);        /* the same, and forgets that row */
const wr_key *wr_pending_keys(const wr_pending *p); /* by row; those of rows that were never added are undefined */
size_t wr_pending_bytes(const wr_pending *p);

#endif
