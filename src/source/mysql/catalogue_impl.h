/* The catalogue's inside, shared by catalogue.c (names and ids) and ddl_apply.c (statements).
 * @thread stream */
#ifndef WEIR_SOURCE_MYSQL_CATALOGUE_IMPL_H
#define WEIR_SOURCE_MYSQL_CATALOGUE_IMPL_H

#include "catalogue.h"
#include "weir/base/map.h"

/* A table of one moment. Entries are never changed once they are in the catalogue: a statement puts a new one in the old one's place, so that
 * a rollback is putting the old list back. Special tables: name "" = a database's default character set; no columns = a
 * table that exists and whose rows are to be passed over (a changelog of gh-ost, a name that the server no longer has). */
typedef struct wr_entry {
    wr_my_table *t;
    bool away;   /* captured, and under a helper's name right now: a remembered table has away_of == t->id */
    bool written; /* rows came for it while it was away */
    int refs;
} wr_entry;

typedef struct wr_entries { wr_entry **e; int n, cap; } wr_entries;

struct wr_catalogue {
    const wr_capture *capture;
    wr_my_types types;
    wr_flavor flavor;
    wr_entries now;
    wr_map *by_name;     /* "db\0name" -> wr_entry of `now` */
    bool stale;          /* by_name could not be built (memory): look through `now` */
    uint32_t next_id;
    uint64_t generation;
    bool touched;        /* `saved` is what the last commit left */
    wr_entries saved;
    uint32_t saved_next_id;
    wr_map *temporary;   /* "session db\0name": temporary tables that hide a real name */
};

/* Name as it is compared: lower case where the server compares without case. Owned. */
char *wr_catalogue_fold_(const wr_catalogue *c, const char *name);
wr_entry *wr_catalogue_entry_(const wr_catalogue *c, const char *db, const char *name);
wr_entry *wr_catalogue_by_id_(const wr_catalogue *c, uint32_t id);
/* Before the first change since the last commit. */
wr_code wr_catalogue_touch_(wr_catalogue *c, wr_err *err);
/* Puts t in: replaces the entry with its id, else adds. Takes t over, also on failure. */
wr_code wr_catalogue_put_(wr_catalogue *c, wr_my_table *t, bool away, wr_err *err);
void wr_catalogue_remove_(wr_catalogue *c, uint32_t id);
/* The captured table whose helper this name is, or NULL. */
wr_entry *wr_catalogue_base_(const wr_catalogue *c, const char *db, const char *name);
/* Whether a table that appears under this name now is captured: patterns, and no helper of a captured table. */
bool wr_catalogue_wants_(const wr_catalogue *c, const char *db, const char *name);
/* Column ids of `t` by name from `like`, where the lake can follow; else new ones above both. */
void wr_catalogue_ids_by_name_(wr_my_table *t, const wr_my_table *like, wr_my_types types);
/* Default character set of a database: remembered, else asked (m may be NULL). *ret NULL = not known. */
wr_code wr_catalogue_database_(wr_catalogue *c, MYSQL *m, const char *db, const wr_my_table **ret, wr_err *err);

#endif
