/* Columns that stay in the lake when the source's column of that name gets a type that the lake cannot follow. What is kept says so in its doc, so that the table's own
 * schema is all there is to remember. */
#include <ctype.h>
#include <stdio.h>
#include <strings.h>
#include "weir/base/mem.h"
#include "weir/transform.h"

static const char kept_doc[] = "kept by policy.type_change: lenient";

static bool is_kept(const wr_column *c) { return c->doc && !strncmp(c->doc, kept_doc, sizeof kept_doc - 1); }

bool wr_schema_keeps(const wr_schema *lake) {
    for (int i = 0; i < lake->ncols; i++)
        if (is_kept(&lake->cols[i])) return true;
    return false;
}

/* The column of `was` with this id lost its name to another. */
static bool lost_its_name(const wr_schema *was, const wr_schema *now, int32_t id) {
    int i = was ? wr_schema_find_id(was, id) : -1;
    return i >= 0 && wr_schema_find_id(now, id) < 0 && wr_schema_find(now, was->cols[i].name) >= 0;
}

static bool taken(const wr_column *c, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (c[i].name && !strcasecmp(c[i].name, name)) return true;
    return false;
}

/* "price__decimal_10_2" */
static void alias(const wr_column *c, int n, const wr_column *col, char out[400]) {
    char type[32];
    wr_type_name(col->type, type);
    for (char *p = type; *p; p++)
        if (!isalnum((unsigned char)*p)) *p = '_';
    for (size_t len = strlen(type); len && type[len - 1] == '_'; len--) type[len - 1] = 0;
    snprintf(out, 400, "%.300s__%s", col->name, type);
    for (int k = 2; taken(c, n, out); k++) snprintf(out, 400, "%.300s__%s_%d", col->name, type, k);
}

wr_code wr_keep_schema(const wr_schema *lake, const wr_schema *was, const wr_schema *now, wr_schema **ret_schema, wr_err *err) {
    int max = now->ncols + lake->ncols, kept = 0;
    WR_AUTO wr_column *c = wr_calloc((size_t)max, sizeof *c);
    char(*names)[400] = wr_calloc((size_t)now->ncols, sizeof *names);
    if (!c || !names) return wr_free(names), wr_nomem(err, "schema", (size_t)max * sizeof *c);
    wr_column *keep = c + now->ncols;
    for (int i = 0; i < lake->ncols; i++) {
        const wr_column *l = &lake->cols[i];
        if (wr_schema_find_id(now, l->id) >= 0 || (!is_kept(l) && !lost_its_name(was, now, l->id))) continue;
        keep[kept] = *l;
        keep[kept].nullable = true, keep[kept].key_ord = 0, keep[kept].has_initial = false;
        keep[kept++].doc = (char *)kept_doc;
    }
    for (int i = 0; i < now->ncols; i++) {
        const wr_column *s = &now->cols[i];
        int old = wr_schema_find_id(lake, s->id);
        c[i] = *s;
        c[i].name = NULL;
        if (!taken(keep, kept, s->name)) c[i].name = s->name;
        else if (old >= 0 && !taken(c, max, lake->cols[old].name)) c[i].name = lake->cols[old].name;
        else alias(c, max, s, names[i]), c[i].name = names[i];
        if (c[i].name != s->name && old < 0) c[i].nullable = true, c[i].has_initial = false; /* old rows have none */
    }
    wr_code rc = wr_schema_new(c, now->ncols + kept, now->version, ret_schema, err);
    wr_free(names);
    return rc;
}
