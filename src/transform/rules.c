/* Rules as weir.yaml gives them: copied, their patterns compiled, their functions loaded. */
#include "rules.h"

#include <stdio.h>
#include "weir/base/mem.h"
#include "weir/base/pattern.h"
#include "weir/base/sum.h"

static void free_pairs(const wr_pair *p, int n) {
    for (int i = 0; i < n; i++) wr_free((char *)p[i].name), wr_free((char *)p[i].value);
    wr_free((wr_pair *)p);
}

static bool copy_pairs(const wr_pair *from, int n, const wr_pair **ret, int *ret_n) {
    wr_pair *p = wr_calloc((size_t)n + 1, sizeof *p);
    if (!p) return false;
    *ret = p, *ret_n = n;
    bool ok = true;
    for (int i = 0; i < n; i++) {
        p[i].name = wr_strdup(from[i].name), p[i].value = wr_strdup(from[i].value);
        ok &= p[i].name && p[i].value;
    }
    return ok;
}

static bool copy_rule(const wr_rule *from, wr_rule *to) {
    char **drop = wr_calloc((size_t)from->ndrop + 1, sizeof *drop);
    bool ok = drop != NULL;
    to->drop = (const char *const *)drop;
    for (int i = 0; ok && i < from->ndrop; i++) to->ndrop = i + 1, ok = (drop[i] = wr_strdup(from->drop[i])) != NULL;
    to->on_fault = from->on_fault;
    ok = ok && (to->table = wr_strdup(from->table)) && (!from->filter || (to->filter = wr_strdup(from->filter)));
    return ok && copy_pairs(from->set, from->nset, &to->set, &to->nset) && copy_pairs(from->mask, from->nmask, &to->mask, &to->nmask) &&
           copy_pairs(from->convert, from->nconvert, &to->convert, &to->nconvert) && copy_pairs(from->rename, from->nrename, &to->rename, &to->nrename);
}

static void rule_clear(rule *u) {
    wr_rule *r = &u->r;
    if (u->compiled) regfree(&u->re);
    wr_free((char *)r->table), wr_free((char *)r->filter);
    free_pairs(r->set, r->nset), free_pairs(r->mask, r->nmask), free_pairs(r->convert, r->nconvert), free_pairs(r->rename, r->nrename);
    for (int i = 0; i < r->ndrop; i++) wr_free((char *)r->drop[i]);
    wr_free((char **)r->drop);
}

static void say_pairs(wr_buf *b, const wr_pair *p, int n) {
    wr_buf_u32(b, (uint32_t)n);
    for (int i = 0; i < n; i++) wr_buf_str(b, p[i].name), wr_buf_str(b, p[i].value);
}

/* Everything that decides what a row becomes, in one number; which tables are meant does not. */
static wr_code hash_rule(rule *u, const wr_rules_options *o, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    const wr_rule *r = &u->r;
    wr_buf_str(&b, r->filter);
    say_pairs(&b, r->set, r->nset), say_pairs(&b, r->mask, r->nmask), say_pairs(&b, r->convert, r->nconvert), say_pairs(&b, r->rename, r->nrename);
    for (int i = 0; i < r->ndrop; i++) wr_buf_str(&b, r->drop[i]);
    if (r->filter || r->nset) wr_buf_str(&b, o->functions);
    if (r->nmask) wr_buf_str(&b, o->mask_key);
    wr_buf_u8(&b, (uint8_t)r->on_fault);
    WR_TRY(wr_buf_check(&b, "rule", err));
    u->hash = wr_hash64(b.p, b.n, 0);
    return WR_OK;
}

wr_code wr_rules_new(const wr_engine *e, const wr_rules_options *o, wr_rules **ret_rules, wr_err *err) {
    wr_rules *r = wr_calloc(1, sizeof *r);
    if (!r || !(r->rules = wr_calloc((size_t)o->nrules + 1, sizeof *r->rules))) return wr_rules_free(r), wr_nomem(err, "transform rules", 4096);
    wr_code rc = WR_OK;
    for (int i = 0; rc == WR_OK && i < o->nrules; i++) {
        rule *u = &r->rules[r->n++];
        char why[128];
        u->number = i;
        if (!copy_rule(&o->rules[i], &u->r)) rc = wr_nomem(err, "transform rule", 1024);
        else if ((rc = wr_pattern_compile(&u->re, u->r.table, why, err)) == WR_E_CONFIG)
            wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "transform.rules[%d].table: '%s' is not a regular expression: %s", i, u->r.table, why);
        else if (rc == WR_OK) u->compiled = true, rc = hash_rule(u, o, err);
    }
    if (rc == WR_OK && o->mask_key && !(r->mask_key = wr_strdup(o->mask_key))) rc = wr_nomem(err, "mask key", 64);
    if (rc == WR_OK && r->mask_key) r->mask_seed = wr_hash64(r->mask_key, strlen(r->mask_key), 0);
    if (rc == WR_OK && r->n) {
        rc = wr_sql_space_open(e, o->functions, &r->space, err);
        if (rc == WR_E_INVAL) err->code = WR_E_CONFIG, rc = wr_err_in(err, "transform.functions");
    }
    if (rc != WR_OK) return wr_rules_free(r), rc;
    *ret_rules = r;
    return WR_OK;
}

void wr_rules_free(wr_rules *r) {
    if (!r) return;
    for (int i = 0; i < r->n; i++) rule_clear(&r->rules[i]);
    wr_free(r->rules);
    wr_sql_space_close(r->space);
    if (r->mask_key) explicit_bzero(r->mask_key, strlen(r->mask_key));
    wr_free(r->mask_key);
    wr_free(r);
}

void wr_rules_mark(const wr_rules *r, const char *db, const char *name, char ret_mark[17]) {
    WR_AUTO char *full = r && r->n ? wr_asprintf("%s.%s", db, name) : NULL;
    uint64_t h = 0;
    ret_mark[0] = 0;
    for (int i = 0; full && i < r->n; i++)
        if (!regexec(&r->rules[i].re, full, 0, NULL, 0)) {
            h = wr_hash64(&r->rules[i].hash, sizeof r->rules[i].hash, h);
            snprintf(ret_mark, 17, "%016llx", (unsigned long long)h);
        }
}
