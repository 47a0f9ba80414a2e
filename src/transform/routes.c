#include "rules.h"

#include "weir/base/mem.h"
#include "weir/base/pattern.h"

typedef struct route { regex_t re; bool compiled; char *ns, *name; } route;
struct wr_routes { route *rules; int n; };

wr_code wr_routes_new(const wr_merge_rule *rules, int n, wr_routes **ret_routes, wr_err *err) {
    wr_routes *r = wr_calloc(1, sizeof *r);
    if (!r || !(r->rules = wr_calloc((size_t)n + 1, sizeof *r->rules))) return wr_routes_free(r), wr_nomem(err, "merge rules", (size_t)n * sizeof(route));
    for (int i = 0; i < n; i++) {
        const char *dot = strchr(rules[i].to, '.');
        char why[128];
        wr_code rc = WR_OK;
        if (!dot || dot == rules[i].to || !dot[1])
            rc = wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "merge[%d].to: '%s' is not of the form namespace.table", i, rules[i].to);
        else if ((rc = wr_pattern_compile(&r->rules[r->n].re, rules[i].from, why, err)) == WR_E_CONFIG)
            wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "merge[%d].from: '%s' is not a regular expression: %s", i, rules[i].from, why);
        if (rc != WR_OK) return wr_routes_free(r), rc;
        route *u = &r->rules[r->n++];
        u->compiled = true;
        u->ns = wr_strndup(rules[i].to, (size_t)(dot - rules[i].to));
        u->name = wr_strdup(dot + 1);
        if (!u->ns || !u->name) return wr_routes_free(r), wr_nomem(err, "merge rule", 64);
    }
    *ret_routes = r;
    return WR_OK;
}

void wr_routes_free(wr_routes *r) {
    if (!r) return;
    for (int i = 0; i < r->n; i++) {
        if (r->rules[i].compiled) regfree(&r->rules[i].re);
        wr_free(r->rules[i].ns), wr_free(r->rules[i].name);
    }
    wr_free(r->rules);
    wr_free(r);
}

wr_route wr_routes_find(const wr_routes *r, const char *db, const char *name) {
    WR_AUTO char *full = r && r->n ? wr_asprintf("%s.%s", db, name) : NULL;
    for (int i = 0; full && i < r->n; i++)
        if (!regexec(&r->rules[i].re, full, 0, NULL, 0)) return (wr_route){r->rules[i].ns, r->rules[i].name, true};
    return (wr_route){db, name, false};
}
