/* What a policy decided: one entry for each policy and table, with how often, when first and last, and why last. Kept in the state, shown by the status. A decision that is made
 * again after a crash counts once more only if its transaction was committed before. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include "impl.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"

#define KEY "decisions"
#define MOST 1000 /* the oldest go */

wr_code wr_decisions_open(wr_pipeline *p, wr_err *err) {
    WR_AUTO char *text = NULL;
    WR_TRY(wr_state_get(p->state, KEY, &text, err));
    p->decisions = text && *text ? cJSON_Parse(text) : cJSON_CreateArray();
    if (!p->decisions) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "state key %s is not JSON", KEY);
    p->decisions_json = WR_STEAL(text);
    return WR_OK;
}

static const char *text_of(const cJSON *o, const char *key) {
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    return s ? s : "";
}

static wr_code decide(wr_pipeline *p, const char *policy, const char *choice, const char *db, const char *name, const char *why, wr_err *err) {
    WR_AUTO char *table = wr_asprintf("%s.%s", db, name);
    char now[32];
    wr_iso_time(wr_now_us(), now);
    if (!table) return wr_nomem(err, "decision", 64);
    cJSON *o, *hit = NULL;
    cJSON_ArrayForEach(o, p->decisions) {
        if (!strcmp(text_of(o, "policy"), policy) && !strcmp(text_of(o, "choice"), choice) && !strcmp(text_of(o, "table"), table)) hit = o;
    }
    double offset = (double)p->offset, times = 0;
    if (hit) {
        times = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(hit, "times"));
        if (cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(hit, "offset")) >= offset) times--; /* seen before a crash */
        cJSON_DetachItemViaPointer(p->decisions, hit);
    } else {
        hit = cJSON_CreateObject();
        cJSON_AddStringToObject(hit, "policy", policy), cJSON_AddStringToObject(hit, "choice", choice), cJSON_AddStringToObject(hit, "table", table), cJSON_AddStringToObject(hit, "first", now);
    }
    static const char *const anew[] = {"times", "last", "offset", "why"};
    for (size_t i = 0; i < sizeof anew / sizeof *anew; i++) cJSON_DeleteItemFromObjectCaseSensitive(hit, anew[i]);
    cJSON_AddNumberToObject(hit, "times", times + 1), cJSON_AddStringToObject(hit, "last", now), cJSON_AddNumberToObject(hit, "offset", offset), cJSON_AddStringToObject(hit, "why", why);
    cJSON_AddItemToArray(p->decisions, hit);
    if (cJSON_GetArraySize(p->decisions) > MOST) cJSON_DeleteItemFromArray(p->decisions, 0);
    char *text = cJSON_PrintUnformatted(p->decisions);
    char *copy = text ? wr_strdup(text) : NULL;
    cJSON_free(text);
    if (!copy) return wr_nomem(err, "decisions", 4096);
    wr_code rc = wr_state_set(p->state, KEY, copy, err);
    if (rc != WR_OK) return wr_free(copy), rc;
    pthread_mutex_lock(&p->lock_mu);
    wr_free(p->decisions_json);
    p->decisions_json = copy;
    pthread_mutex_unlock(&p->lock_mu);
    return WR_OK;
}

wr_code wr_decide(wr_pipeline *p, const char *policy, const char *choice, const wr_ddl *d, wr_err *err) {
    char why[400];
    snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, d->why ? d->why : "");
    return decide(p, policy, choice, d->db, d->name, why, err);
}

wr_code wr_decide_drop(wr_pipeline *p, const char *db, const char *name, bool mirror, wr_err *err) {
    return decide(p, "on_drop", mirror ? "mirror" : "keep", db, name, mirror ? "dropped in the source: its rows left the lake" : "dropped in the source: what the lake has of it stays", err);
}

wr_code wr_decide_stale(wr_pipeline *p, const char *db, const char *name, wr_slice why, wr_err *err) {
    char text[400];
    snprintf(text, sizeof text, "%.*s", (int)(why.n < sizeof text ? why.n : sizeof text - 1), (const char *)why.p);
    return decide(p, "rowless_change", "resnapshot", db, name, text, err);
}

void wr_decisions_close(wr_pipeline *p) {
    cJSON_Delete(p->decisions);
    wr_free(p->decisions_json);
}
