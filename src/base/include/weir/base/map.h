/* Hash maps from byte strings or 64-bit integers to pointers. Keys are copied; values are the caller's.
 * @thread one at a time */
#ifndef WEIR_BASE_MAP_H
#define WEIR_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "weir/base/buf.h"

typedef struct wr_map wr_map; /* keyed by bytes */
wr_map *wr_map_new(void);
void wr_map_free(wr_map *m, void (*free_value)(void *)); /* free_value may be NULL */
void *wr_map_get(const wr_map *m, wr_slice key);         /* NULL when absent */
bool wr_map_put(wr_map *m, wr_slice key, void *value);   /* replaces; false when memory is out */
void *wr_map_del(wr_map *m, wr_slice key);               /* the value that was there, or NULL */
size_t wr_map_len(const wr_map *m);
/* Calls fn for every entry in insertion order (entries deleted meanwhile are passed over). fn may delete and replace,
 * not add. */
void wr_map_each(const wr_map *m, void (*fn)(void *ctx, wr_slice key, void *value), void *ctx);

typedef struct wr_u64map wr_u64map;
wr_u64map *wr_u64map_new(void);
void wr_u64map_free(wr_u64map *m, void (*free_value)(void *));
void *wr_u64map_get(const wr_u64map *m, uint64_t key);
bool wr_u64map_put(wr_u64map *m, uint64_t key, void *value);
void *wr_u64map_del(wr_u64map *m, uint64_t key);
size_t wr_u64map_len(const wr_u64map *m);
void wr_u64map_each(const wr_u64map *m, void (*fn)(void *ctx, uint64_t key, void *value), void *ctx);

#endif
