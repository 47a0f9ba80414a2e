/* home/state.db: what Weir remembers beside the queue and the lake. Nothing here decides exactly-once: the queue
 * carries the source position, the lake carries the queue offset, and every row here is tagged with the queue offset it
 * belongs to, so that rows ahead of the queue are dropped at recovery. docs/formats/state.md.
 * @thread any: one connection behind one mutex */
#ifndef WEIR_STATE_H
#define WEIR_STATE_H

#include <stdint.h>
#include "weir/base/err.h"
#include "weir/base/buf.h"
#include "weir/model.h"

typedef struct wr_state wr_state;
/* Opens or creates, migrates. WR_E_CORRUPT when it is not ours or of a newer version. synchronous=FULL, WAL. */
wr_code wr_state_open(const char *path, wr_state **ret_state, wr_err *err);
void wr_state_close(wr_state *s);

/* ---- small facts: source identity, pipeline name, ... */
wr_code wr_state_set(wr_state *s, const char *key, const char *value, wr_err *err);
typedef struct wr_fact { char key[32], value[32]; } wr_fact;
wr_code wr_state_set_all(wr_state *s, const wr_fact *facts, int n, wr_err *err); /* at once: all or none */
/* *ret_value NULL when absent; owned. */
wr_code wr_state_get(wr_state *s, const char *key, char **ret_value, wr_err *err);

/* ---- schema history: the last DDL event of each table up to an offset */
/* Records a DDL event of the transaction that will get (or has) this queue offset. Durable on return. Idempotent for
 * the same (table, offset, seq). seq orders events within a transaction. */
wr_code wr_state_schema_add(wr_state *s, uint64_t offset, uint32_t seq, const wr_ddl *ddl, wr_err *err);
/* Forgets events with offset > last (they belong to transactions the queue lost). */
wr_code wr_state_schema_truncate(wr_state *s, uint64_t last_offset, wr_err *err);
/* The newest event per table with offset <= at_offset, dropped tables left out; in table id order. */
wr_code wr_state_schema_load(wr_state *s, uint64_t at_offset, wr_code (*fn)(void *ctx, const wr_ddl *ddl, wr_err *err),
                             void *ctx, wr_err *err);
/* Schema of one table at one version. WR_E_NOTFOUND. */
wr_code wr_state_schema_version(wr_state *s, uint32_t table, uint32_t version, wr_schema **ret_schema, wr_err *err);
/* Highest table id ever used, 0 = none; truncation does not lower it. */
wr_code wr_state_schema_max_table(wr_state *s, uint32_t *ret_table, wr_err *err);

/* ---- file journal: every lake file is recorded before it is created */
/* Durable on return: batched durability is not allowed. */
wr_code wr_state_file_add(wr_state *s, const char *path, wr_err *err);
wr_code wr_state_file_add_many(wr_state *s, const char *const *paths, int n, wr_err *err);
/* Referenced by a commit: leaves the journal. */
wr_code wr_state_file_done(wr_state *s, const char *const *paths, int n, wr_err *err);
/* Files that were announced and never committed. */
wr_code wr_state_file_each(wr_state *s, wr_code (*fn)(void *ctx, const char *path, int64_t created_us, wr_err *err),
                           void *ctx, wr_err *err);

#endif
