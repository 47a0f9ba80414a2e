#include "upkeep.h"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include "weir/base/mem.h"

static uint64_t number(const cJSON *o, const char *key) {
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(n) && n->valuedouble > 0 && n->valuedouble < 9e15 ? (uint64_t)n->valuedouble : 0;
}

static void copy_text(char *to, size_t room, const cJSON *o, const char *key) {
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    snprintf(to, room, "%s", s ? s : "");
}

static wr_upkeep_action action(const cJSON *o) {
    wr_upkeep_action a = {.at_us = (int64_t)number(o, "at") * 1000,
                          .files_in = number(o, "files_in"),
                          .files_out = number(o, "files_out"),
                          .bytes_in = number(o, "bytes_in"),
                          .bytes_out = number(o, "bytes_out"),
                          .rows_dropped = number(o, "rows_dropped"),
                          .snapshots = number(o, "snapshots"),
                          .ms = number(o, "ms")};
    copy_text(a.what, sizeof a.what, o, "what");
    copy_text(a.why, sizeof a.why, o, "why");
    return a;
}

void wr_upkeep_parse(const char *text, wr_upkeep *ret) {
    memset(ret, 0, sizeof *ret);
    cJSON *o = text ? cJSON_Parse(text) : NULL;
    const cJSON *a;
    ret->new_bytes = number(o, "new_bytes"), ret->rewritten_bytes = number(o, "rewritten_bytes");
    ret->merges = number(o, "merges"), ret->rewrites = number(o, "rewrites"), ret->expiries = number(o, "expiries");
    cJSON_ArrayForEach(a, cJSON_GetObjectItemCaseSensitive(o, "last"))
        if (ret->n < WR_UPKEEP_ACTIONS) ret->last[ret->n++] = action(a);
    cJSON_Delete(o);
}

static bool put(cJSON *o, const char *key, uint64_t v) { return !v || cJSON_AddNumberToObject(o, key, (double)v); }

static bool put_action(cJSON *o, const wr_upkeep_action *a) {
    return put(o, "at", (uint64_t)a->at_us / 1000) && cJSON_AddStringToObject(o, "what", a->what) && cJSON_AddStringToObject(o, "why", a->why) && put(o, "files_in", a->files_in) &&
           put(o, "files_out", a->files_out) && put(o, "bytes_in", a->bytes_in) && put(o, "bytes_out", a->bytes_out) && put(o, "rows_dropped", a->rows_dropped) &&
           put(o, "snapshots", a->snapshots) && put(o, "ms", a->ms);
}

char *wr_upkeep_print(const wr_upkeep *u) {
    cJSON *o = cJSON_CreateObject(), *list = NULL;
    bool ok = o && put(o, "new_bytes", u->new_bytes) && put(o, "rewritten_bytes", u->rewritten_bytes) && put(o, "merges", u->merges) && put(o, "rewrites", u->rewrites) &&
              put(o, "expiries", u->expiries) && (list = cJSON_AddArrayToObject(o, "last"));
    for (int i = 0; ok && i < u->n; i++) {
        cJSON *a = cJSON_CreateObject();
        ok = a && cJSON_AddItemToArray(list, a) && put_action(a, &u->last[i]);
    }
    char *text = ok ? cJSON_PrintUnformatted(o) : NULL, *copy = text ? wr_strdup(text) : NULL;
    cJSON_free(text);
    cJSON_Delete(o);
    return copy;
}

void wr_upkeep_add(wr_upkeep *u, const wr_upkeep_action *a) {
    if (!strcmp(a->what, "merge")) u->merges++;
    else if (!strcmp(a->what, "rewrite") || !strcmp(a->what, "spread")) u->rewrites++;
    else u->expiries++;
    if (u->n == WR_UPKEEP_ACTIONS) memmove(u->last, u->last + 1, (size_t)--u->n * sizeof *u->last);
    u->last[u->n++] = *a;
}
