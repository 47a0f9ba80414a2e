/* weir.yaml: one table of keys, from which parsing, unknown-key hints and the manual's list come (docs/config.md). */
#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yaml.h>

#include "cli.h"
#include "schedule.h"
#include "weir/base/mem.h"
#include "weir/io.h"

/* A text that must not stand in the file: where it comes from, and what it is once it was fetched. */
typedef struct secret {
    char *env, *file, *command;
    char *value;
} secret;

/* An entry of alarms.notify; the texts that `s` points to are owned. */
typedef struct sink { wr_alarm_sink s; secret url, sign, password; char **to, **argv; int nto, nargv; } sink;

struct wr_config {
    char *path, *dir;
    char *name, *home, *url, *tls_ca, *warehouse;
    char *user, *host;
    secret password, s3_access, s3_secret, s3_session, rest_token, rest_credential;
    char *s3_endpoint, *s3_region, *s3_ca, *rest_uri, *rest_warehouse, *rest_server, *rest_scope, *rest_ca;
    int port;
    uint64_t tls, zero_date, time_as, on_drop, type_change, rowless, visible, rows_per_second, parallel, catalog, format_version, commit_profile, commit_every, commit_bytes, server_id, max_threads_running, max_replica_lag, max_packet, queue_bytes, recovery, stalled, silent, lag_warning, lag_critical, disk_warning, disk_critical, restarts, restarts_within, path_style, cache_bytes, s3_timeout, rest_timeout;
    char **capture; int ncapture;
    char **exclude; int nexclude;
    char **hosts; int nhosts;
    char **topology; int ntopology;
    char *zone, *topology_url;
    uint64_t prefer, inspect;
    wr_merge_rule *merge; int nmerge;
    wr_rule *rules; int nrules;
    wr_layout_rule *layout; int nlayout;
    char *compare_schedule; uint64_t compare_level, compare_method, compare_hash;
    char *budget; uint64_t max_readers;
    char **compare_tables; int ncompare_tables;
    wr_config_compare compare;
    sink *sinks; wr_alarm_sink *told; int nsinks;
    char *functions, *mask_key_env, *functions_text, *mask_key;
    wr_s3_options s3;
    wr_rest_options rest;
    wr_pipeline_options o;
};

typedef enum key_type { T_TEXT, T_LIST, T_ENUM, T_UINT, T_DURATION, T_BYTES, T_MERGE, T_RULES, T_LAYOUT, T_NOTIFY } key_type;
typedef struct key {
    const char *path;         /* "source.url" */
    key_type type;
    size_t at;                /* offset in wr_config */
    const char *choices;      /* T_ENUM: "null|epoch|..." in enum order; T_UINT: "min-max" */
    const char *doc;
} key;
#define AT(f) offsetof(struct wr_config, f)

#define SECRET(name, f, what)                                                                                          \
    {name "_env", T_TEXT, AT(f.env), NULL, "environment variable that holds " what},                                   \
    {name "_file", T_TEXT, AT(f.file), NULL, "file whose first line is " what},                                        \
    {name "_command", T_TEXT, AT(f.command), NULL, "command whose first output line is " what}

static const key keys[] = {
    {"name", T_TEXT, AT(name), NULL, "the pipeline's name"},
    {"home", T_TEXT, AT(home), NULL, "folder of state.db, queue/, catalog.db, warehouse/"},
    {"source.url", T_TEXT, AT(url), NULL, "mysql://user@host:port, without a password"},
    {"source.hosts", T_LIST, AT(hosts), NULL, "more servers of the cluster, host or host:port"},
    {"source.topology.command", T_LIST, AT(topology), NULL, "command and arguments that print the servers as JSON"},
    {"source.topology.url", T_TEXT, AT(topology_url), NULL, "address where the same is read"},
    {"source.prefer", T_ENUM, AT(prefer), "replica|primary|any", "at which of several servers to capture"},
    {"source.zone", T_TEXT, AT(zone), NULL, "where this process runs: servers there come first"},
    {"source.inspect", T_DURATION, AT(inspect), NULL, "time between inspections of the servers"},
    SECRET("source.password", password, "the password"),
    {"source.tls", T_ENUM, AT(tls), "auto|disabled|preferred|required|verify", "transport security; auto verifies servers on other machines"},
    {"source.tls_ca", T_TEXT, AT(tls_ca), NULL, "PEM file of the authorities to trust"},
    {"source.capture", T_LIST, AT(capture), NULL, "anchored regular expressions on db.table"},
    {"source.exclude", T_LIST, AT(exclude), NULL, "the same, taken out again"},
    {"source.server_id", T_UINT, AT(server_id), "0-4294967295", "replica id; 0 = derived from the name"},
    {"source.max_threads_running", T_UINT, AT(max_threads_running), "0-100000", "reading of tables waits while the server has more statements under way; 0 = no limit"},
    {"source.max_replica_lag", T_DURATION, AT(max_replica_lag), NULL, "and while the server, itself a replica, is further behind; 0s = no limit"},
    {"source.max_readers", T_UINT, AT(max_readers), "0-64", "statements that read tables at once, of loads and comparisons together; 0 = no limit"},
    {"source.max_packet", T_BYTES, AT(max_packet), NULL, "largest row or binlog event that is taken from the server"},
    {"merge", T_MERGE, AT(merge), NULL, "sharded tables into one"},
    {"transform.rules", T_RULES, AT(rules), NULL, "what SQL makes of rows on their way"},
    {"transform.functions", T_TEXT, AT(functions), NULL, "file of CREATE FUNCTION statements for them"},
    {"transform.mask_key_env", T_TEXT, AT(mask_key_env), NULL, "environment variable that holds the key of hashes"},
    {"types.zero_date", T_ENUM, AT(zero_date), "null|epoch|string|error", "dates with a zero part"},
    {"types.time", T_ENUM, AT(time_as), "micros|string", "TIME columns"},
    {"policy.on_drop", T_ENUM, AT(on_drop), "keep|mirror", "a source table or shard was dropped"},
    {"policy.type_change", T_ENUM, AT(type_change), "evolve|lenient|stop", "a type change that Iceberg cannot follow"},
    {"policy.rowless_change", T_ENUM, AT(rowless), "resnapshot|stop", "rows changed without row events"},
    {"snapshot.visible", T_ENUM, AT(visible), "complete|early", "when a table that is being loaded becomes visible"},
    {"snapshot.rows_per_second", T_UINT, AT(rows_per_second), "0-1000000000", "0 = no limit"},
    {"snapshot.parallel", T_UINT, AT(parallel), "1-64", "connections that read at once"},
    {"queue.bytes", T_BYTES, AT(queue_bytes), NULL, "disk the queue may use before capture waits"},
    {"compare.schedule", T_TEXT, AT(compare_schedule), NULL, "when a sync compares by itself: daily at 03:00 (UTC), every 6h"},
    {"compare.level", T_ENUM, AT(compare_level), "content|keys|counts|structure", "what of it"},
    {"compare.method", T_ENUM, AT(compare_method), "rows|pushed", "how"},
    {"compare.hash", T_ENUM, AT(compare_hash), "fast|md5", "with which hash"},
    {"compare.tables", T_LIST, AT(compare_tables), NULL, "which lake tables; none: all"},
    {"lake.catalog", T_ENUM, AT(catalog), "sqlite|rest", "where tables are registered"},
    {"lake.warehouse", T_TEXT, AT(warehouse), NULL, "folder or s3://bucket/prefix of the tables' files"},
    {"lake.rest.uri", T_TEXT, AT(rest_uri), NULL, "address of the REST catalog, without /v1"},
    {"lake.rest.warehouse", T_TEXT, AT(rest_warehouse), NULL, "the catalog's own name of the warehouse"},
    SECRET("lake.rest.token", rest_token, "a bearer token"),
    SECRET("lake.rest.credential", rest_credential, "OAuth2 client credentials, id:secret"),
    {"lake.rest.oauth2_server_uri", T_TEXT, AT(rest_server), NULL, "where tokens are asked for"},
    {"lake.rest.scope", T_TEXT, AT(rest_scope), NULL, "OAuth2 scope"},
    {"lake.rest.ca", T_TEXT, AT(rest_ca), NULL, "PEM file of the authorities to trust"},
    {"lake.rest.timeout", T_DURATION, AT(rest_timeout), NULL, "a request in which nothing moves for so long is given up"},
    {"lake.s3.endpoint", T_TEXT, AT(s3_endpoint), NULL, "address of the S3 service"},
    {"lake.s3.region", T_TEXT, AT(s3_region), NULL, "region in signatures"},
    {"lake.s3.path_style", T_ENUM, AT(path_style), "false|true", "bucket in the path instead of the host's name"},
    SECRET("lake.s3.access_key", s3_access, "the access key"),
    SECRET("lake.s3.secret_key", s3_secret, "the secret key"),
    SECRET("lake.s3.session_token", s3_session, "the session token"),
    {"lake.s3.ca", T_TEXT, AT(s3_ca), NULL, "PEM file of the authorities to trust"},
    {"lake.s3.timeout", T_DURATION, AT(s3_timeout), NULL, "a request in which nothing moves for so long is given up"},
    {"lake.s3.cache", T_BYTES, AT(cache_bytes), NULL, "disk for copies of objects"},
    {"lake.format_version", T_UINT, AT(format_version), "2-3", "Iceberg format of new tables"},
    {"lake.layout", T_LAYOUT, AT(layout), NULL, "how the files of some tables are laid out; the first match wins"},
    {"lake.commit.profile", T_ENUM, AT(commit_profile), "standard|seconds|bulk", "how fresh the lake is: sets every and bytes"},
    {"lake.commit.every", T_DURATION, AT(commit_every), NULL, "time between commits; the profile's"},
    {"alarms.notify", T_NOTIFY, AT(sinks), NULL, "who is told of alarms, and how"},
    {"alarms.recovery", T_DURATION, AT(recovery), NULL, "so long a condition must be gone before its alarm has recovered"},
    {"alarms.stalled", T_DURATION, AT(stalled), NULL, "a thread that has not moved for so long"},
    {"alarms.silent", T_DURATION, AT(silent), NULL, "a source from which nothing came for so long, not even a heartbeat"},
    {"alarms.lag.warning", T_DURATION, AT(lag_warning), NULL, "the lake is so far behind"},
    {"alarms.lag.critical", T_DURATION, AT(lag_critical), NULL, "and now it is critical"},
    {"alarms.disk.warning", T_BYTES, AT(disk_warning), NULL, "less is free where home or a local warehouse is"},
    {"alarms.disk.critical", T_BYTES, AT(disk_critical), NULL, "and now it is critical"},
    {"alarms.restarts.times", T_UINT, AT(restarts), "1-32", "so many runs that ended by failure"},
    {"alarms.restarts.within", T_DURATION, AT(restarts_within), NULL, "within this time"},
    {"lake.commit.bytes", T_BYTES, AT(commit_bytes), NULL, "memory of waiting rows that forces a commit; the profile's"},
};
#define NKEYS ((int)(sizeof keys / sizeof *keys))

typedef struct reader { wr_config *c; yaml_document_t doc; const char *path; wr_err *err; } reader;

static wr_code bad(reader *r, const yaml_node_t *n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static wr_code bad(reader *r, const yaml_node_t *n, const char *fmt, ...) {
    char what[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return wr_fail(r->err, WR_E_CONFIG, WR_RETRY_NO, "%s:%zu: %s", r->path, n ? n->start_mark.line + 1 : 1, what);
}

/* ------------------------------------------------------------------ scalars */
static wr_code text_of(reader *r, const yaml_node_t *n, const char *path, char **ret) {
    if (n->type != YAML_SCALAR_NODE) return bad(r, n, "%s must be a text", path);
    if (memchr(n->data.scalar.value, 0, n->data.scalar.length)) return bad(r, n, "%s has a zero byte", path);
    char *s = wr_strndup((const char *)n->data.scalar.value, n->data.scalar.length);
    if (!s) return wr_nomem(r->err, path, n->data.scalar.length);
    wr_free(*ret);
    *ret = s;
    return WR_OK;
}

static wr_code number_of(reader *r, const yaml_node_t *n, const char *path, const char *s, const char **ret_unit, double *ret) {
    char *end = NULL;
    double v = isdigit((unsigned char)*s) ? strtod(s, &end) : -1;
    if (!end || v > 1e15) return bad(r, n, "%s: '%s' is not a number", path, s);
    while (*end == ' ') end++;
    *ret_unit = end;
    *ret = v;
    return WR_OK;
}

typedef struct unit { const char *name; double factor; } unit;
static const unit durations[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"m", 60e6}, {"min", 60e6}, {"h", 3600e6}, {NULL, 0}};
static const unit sizes[] = {{"", 1}, {"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}, {NULL, 0}};

static wr_code quantity(reader *r, const yaml_node_t *n, const char *path, const char *s, const unit *units, uint64_t *ret) {
    const char *u = "";
    double v = 0;
    WR_TRY(number_of(r, n, path, s, &u, &v));
    for (; units->name; units++)
        if (!strcasecmp(units->name, u)) break;
    if (!units->name) return bad(r, n, units == durations + 6 ? "%s: '%s' needs a unit: ms, s, m or h" : "%s: '%s' needs a unit: KB, MB, GB, KiB, MiB or GiB", path, s);
    v *= units->factor;
    if (v < 1 || v > 1e18) return bad(r, n, "%s: '%s' is out of range", path, s);
    *ret = (uint64_t)v;
    return WR_OK;
}

static wr_code choice(reader *r, const yaml_node_t *n, const key *k, const char *s, uint64_t *ret) {
    const char *names[8];
    char copy[128];
    int count = 0;
    snprintf(copy, sizeof copy, "%s", k->choices);
    for (char *save, *p = strtok_r(copy, "|", &save); p && count < 8; p = strtok_r(NULL, "|", &save)) names[count++] = p;
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], s)) return *ret = (uint64_t)i, WR_OK;
    const char *near = wr_cli_nearest(s, names, count);
    bad(r, n, "%s: '%s' is none of %s", k->path, s, k->choices);
    return near ? wr_err_cure(r->err, "did you mean '%s'?", near) : r->err->code;
}

static wr_code whole(reader *r, const yaml_node_t *n, const key *k, const char *s, uint64_t *ret) {
    char *end;
    uint64_t lo = strtoull(k->choices, &end, 10), hi = strtoull(end + 1, NULL, 10), v = strtoull(s, &end, 10);
    if (!isdigit((unsigned char)*s) || *end || v < lo || v > hi) return bad(r, n, "%s: '%s' is not a whole number in %s", k->path, s, k->choices);
    *ret = v;
    return WR_OK;
}

/* A key (a scalar) that stands before `p` in the same mapping already is an error. */
static wr_code once(reader *r, const yaml_node_t *mapping, const yaml_node_pair_t *p, const char *path) {
    const yaml_node_t *k = yaml_document_get_node(&r->doc, p->key);
    for (yaml_node_pair_t *q = mapping->data.mapping.pairs.start; q < p; q++) {
        const yaml_node_t *other = yaml_document_get_node(&r->doc, q->key);
        if (other->type == YAML_SCALAR_NODE && other->data.scalar.length == k->data.scalar.length && !memcmp(other->data.scalar.value, k->data.scalar.value, k->data.scalar.length))
            return bad(r, k, "key '%s' stands twice", path);
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ lists */
static void free_list(char **l, int n) {
    for (int i = 0; i < n; i++) wr_free(l[i]);
    wr_free(l);
}

static wr_code list_of(reader *r, yaml_node_t *n, const char *path, char ***ret, int *ret_n) {
    if (n->type != YAML_SEQUENCE_NODE) return bad(r, n, "%s must be a list", path);
    int count = (int)(n->data.sequence.items.top - n->data.sequence.items.start);
    char **list = wr_calloc((size_t)count + 1, sizeof *list);
    if (!list) return wr_nomem(r->err, path, (size_t)count * sizeof *list);
    *ret = list;
    for (int i = 0; i < count; i++) {
        WR_TRY(text_of(r, yaml_document_get_node(&r->doc, n->data.sequence.items.start[i]), path, &list[i]));
        *ret_n = i + 1;
    }
    return WR_OK;
}

static wr_code merge_of(reader *r, yaml_node_t *n) {
    if (n->type != YAML_SEQUENCE_NODE) return bad(r, n, "merge must be a list of {from: ..., to: ...}");
    int count = (int)(n->data.sequence.items.top - n->data.sequence.items.start);
    wr_free(r->c->merge);
    r->c->merge = wr_calloc((size_t)count + 1, sizeof *r->c->merge);
    if (!r->c->merge) return wr_nomem(r->err, "merge", (size_t)count);
    for (int i = 0; i < count; i++) {
        yaml_node_t *e = yaml_document_get_node(&r->doc, n->data.sequence.items.start[i]);
        if (e->type != YAML_MAPPING_NODE) return bad(r, e, "merge[%d] must be {from: ..., to: ...}", i);
        wr_merge_rule *rule = &r->c->merge[i];
        r->c->nmerge = i + 1;
        for (yaml_node_pair_t *p = e->data.mapping.pairs.start; p < e->data.mapping.pairs.top; p++) {
            WR_AUTO char *k = NULL;
            WR_TRY(text_of(r, yaml_document_get_node(&r->doc, p->key), "merge", &k));
            const char **slot = !strcmp(k, "from") ? &rule->from : !strcmp(k, "to") ? &rule->to : NULL;
            if (!slot) return bad(r, e, "unknown key merge[%d].%s; from and to are known", i, k);
            WR_TRY(text_of(r, yaml_document_get_node(&r->doc, p->value), "merge", (char **)slot));
        }
        if (!rule->from || !rule->to) return bad(r, e, "merge[%d] needs both from and to", i);
    }
    return WR_OK;
}

/* {column: value, ...} */
static wr_code pairs_of(reader *r, yaml_node_t *n, const char *path, const wr_pair **ret, int *ret_n) {
    if (n->type != YAML_MAPPING_NODE) return bad(r, n, "%s must be a mapping: {column: ...}", path);
    wr_pair *list = wr_calloc((size_t)(n->data.mapping.pairs.top - n->data.mapping.pairs.start) + 1, sizeof *list);
    if (!list) return wr_nomem(r->err, path, 64);
    *ret = list;
    for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        wr_pair *at = &list[(*ret_n)++];
        WR_TRY(text_of(r, yaml_document_get_node(&r->doc, p->key), path, (char **)&at->name));
        WR_TRY(text_of(r, yaml_document_get_node(&r->doc, p->value), path, (char **)&at->value));
        for (wr_pair *q = list; q < at; q++)
            if (!strcmp(q->name, at->name)) return bad(r, n, "%s: column '%s' stands twice", path, at->name);
    }
    return WR_OK;
}

static wr_code rule_key(reader *r, yaml_node_t *n, const char *path, const char *name, wr_rule *u) {
    static const char *const known[] = {"table", "filter", "set", "mask", "convert", "rename", "drop", "on_error"};
    static const key on_error = {.choices = "stop|null|dead-letter"};
    if (!strcmp(name, "table")) return text_of(r, n, path, (char **)&u->table);
    if (!strcmp(name, "filter")) return text_of(r, n, path, (char **)&u->filter);
    if (!strcmp(name, "set")) return pairs_of(r, n, path, &u->set, &u->nset);
    if (!strcmp(name, "mask")) return pairs_of(r, n, path, &u->mask, &u->nmask);
    if (!strcmp(name, "convert")) return pairs_of(r, n, path, &u->convert, &u->nconvert);
    if (!strcmp(name, "rename")) return pairs_of(r, n, path, &u->rename, &u->nrename);
    if (!strcmp(name, "drop")) return list_of(r, n, path, (char ***)&u->drop, &u->ndrop);
    if (!strcmp(name, "on_error")) {
        WR_AUTO char *s = NULL;
        uint64_t v;
        key k = on_error;
        k.path = path;
        WR_TRY(text_of(r, n, path, &s));
        WR_TRY(choice(r, n, &k, s, &v));
        u->on_fault = (wr_on_fault)v;
        return WR_OK;
    }
    const char *near = wr_cli_nearest(name, known, sizeof known / sizeof *known);
    bad(r, n, "unknown key '%s'", path);
    return near ? wr_err_cure(r->err, "did you mean '%s'?", near) : wr_err_cure(r->err, "docs/transforms.md lists what a rule can say");
}

static wr_code rules_of(reader *r, yaml_node_t *n) {
    if (n->type != YAML_SEQUENCE_NODE) return bad(r, n, "transform.rules must be a list of {table: ..., ...}");
    int count = (int)(n->data.sequence.items.top - n->data.sequence.items.start);
    r->c->rules = wr_calloc((size_t)count + 1, sizeof *r->c->rules);
    if (!r->c->rules) return wr_nomem(r->err, "transform.rules", (size_t)count);
    for (int i = 0; i < count; i++) {
        yaml_node_t *e = yaml_document_get_node(&r->doc, n->data.sequence.items.start[i]);
        if (e->type != YAML_MAPPING_NODE) return bad(r, e, "transform.rules[%d] must be {table: ..., ...}", i);
        r->c->nrules = i + 1;
        for (yaml_node_pair_t *p = e->data.mapping.pairs.start; p < e->data.mapping.pairs.top; p++) {
            WR_AUTO char *k = NULL;
            WR_TRY(text_of(r, yaml_document_get_node(&r->doc, p->key), "transform.rules", &k));
            WR_AUTO char *path = wr_asprintf("transform.rules[%d].%s", i, k);
            if (!path) return wr_nomem(r->err, "transform.rules", 64);
            WR_TRY(once(r, e, p, path));
            WR_TRY(rule_key(r, yaml_document_get_node(&r->doc, p->value), path, k, &r->c->rules[i]));
        }
        if (!r->c->rules[i].table) return bad(r, e, "transform.rules[%d] needs table: an expression on db.table", i);
    }
    return WR_OK;
}

/* YAML sees two items in [bucket(16, id)]; here they are one again. */
static bool is_open(const char *text) { return strchr(text, '(') && !strchr(text, ')'); }
static wr_code join(reader *r, const yaml_node_t *n, const char *path, char **text) {
    WR_AUTO char *more = NULL;
    WR_TRY(text_of(r, n, path, &more));
    char *both = wr_asprintf("%s, %s", *text, more);
    if (!both) return wr_nomem(r->err, path, 64);
    wr_free(*text);
    *text = both;
    return WR_OK;
}

static wr_code terms_of(reader *r, yaml_node_t *n, const char *path, wr_term **ret, int *ret_n) {
    if (n->type != YAML_SEQUENCE_NODE) return bad(r, n, "%s must be a list: [month(created_at), bucket(16, id)]", path);
    int count = (int)(n->data.sequence.items.top - n->data.sequence.items.start);
    wr_term *list = *ret = wr_calloc((size_t)count + 1, sizeof *list);
    if (!list) return wr_nomem(r->err, path, (size_t)count * sizeof *list);
    for (int i = 0; i < count; i++) {
        yaml_node_t *e = yaml_document_get_node(&r->doc, n->data.sequence.items.start[i]);
        WR_AUTO char *text = NULL;
        wr_err why = WR_ERR_INIT;
        WR_TRY(text_of(r, e, path, &text));
        while (is_open(text) && i + 1 < count) WR_TRY(join(r, yaml_document_get_node(&r->doc, n->data.sequence.items.start[++i]), path, &text));
        wr_code rc = wr_term_parse(text, &list[*ret_n], &why);
        if (rc == WR_E_CONFIG) return bad(r, e, "%s[%d]: %s", path, *ret_n, why.msg), wr_err_cure(r->err, "%s", why.cure);
        if (rc != WR_OK) return *r->err = why, rc;
        (*ret_n)++;
    }
    return WR_OK;
}

static wr_code sort_of(reader *r, yaml_node_t *n, const char *path, wr_layout_rule *u) {
    char **texts = NULL;
    int count = 0;
    wr_code rc = list_of(r, n, path, &texts, &count);
    u->sort = rc == WR_OK ? wr_calloc((size_t)count + 1, sizeof *u->sort) : NULL;
    if (rc == WR_OK && !u->sort) rc = wr_nomem(r->err, path, (size_t)count * sizeof *u->sort);
    for (int i = 0; rc == WR_OK && i < count; i++) {
        wr_err why = WR_ERR_INIT;
        rc = wr_sort_term_parse(texts[i], &u->sort[i], &why);
        if (rc == WR_OK) u->nsort++;
        else if (rc == WR_E_CONFIG) bad(r, n, "%s[%d]: %s", path, i, why.msg), wr_err_cure(r->err, "%s", why.cure);
        else *r->err = why;
    }
    free_list(texts, count);
    return rc;
}

static wr_code file_bytes_of(reader *r, yaml_node_t *n, const char *path, uint64_t *ret) {
    WR_AUTO char *s = NULL;
    WR_TRY(text_of(r, n, path, &s));
    WR_TRY(quantity(r, n, path, s, sizes, ret));
    return *ret >= 1000000 && *ret <= 8000000000 ? WR_OK : bad(r, n, "%s: '%s' is not between 1MB and 8GB", path, s);
}

static wr_code layout_key(reader *r, yaml_node_t *n, const char *path, const char *name, wr_layout_rule *u) {
    static const char *const known[] = {"match", "partition", "sort", "bloom_filters", "target_file_bytes"};
    if (!strcmp(name, "match")) return text_of(r, n, path, &u->match);
    if (!strcmp(name, "partition")) return terms_of(r, n, path, &u->partition, &u->npartition);
    if (!strcmp(name, "sort")) return sort_of(r, n, path, u);
    if (!strcmp(name, "bloom_filters")) return list_of(r, n, path, &u->bloom, &u->nbloom);
    if (!strcmp(name, "target_file_bytes")) return file_bytes_of(r, n, path, &u->target_file_bytes);
    const char *near = wr_cli_nearest(name, known, sizeof known / sizeof *known);
    bad(r, n, "unknown key '%s'", path);
    return near ? wr_err_cure(r->err, "did you mean '%s'?", near) : wr_err_cure(r->err, "docs/config.md lists what a layout can say");
}

static wr_code layout_of(reader *r, yaml_node_t *n) {
    if (n->type != YAML_SEQUENCE_NODE) return bad(r, n, "lake.layout must be a list of {match: ..., partition: [...]}");
    int count = (int)(n->data.sequence.items.top - n->data.sequence.items.start);
    r->c->layout = wr_calloc((size_t)count + 1, sizeof *r->c->layout);
    if (!r->c->layout) return wr_nomem(r->err, "lake.layout", (size_t)count);
    for (int i = 0; i < count; i++) {
        yaml_node_t *e = yaml_document_get_node(&r->doc, n->data.sequence.items.start[i]);
        if (e->type != YAML_MAPPING_NODE) return bad(r, e, "lake.layout[%d] must be {match: ..., partition: [...]}", i);
        r->c->nlayout = i + 1;
        for (yaml_node_pair_t *p = e->data.mapping.pairs.start; p < e->data.mapping.pairs.top; p++) {
            WR_AUTO char *k = NULL;
            WR_TRY(text_of(r, yaml_document_get_node(&r->doc, p->key), "lake.layout", &k));
            WR_AUTO char *path = wr_asprintf("lake.layout[%d].%s", i, k);
            if (!path) return wr_nomem(r->err, "lake.layout", 64);
            WR_TRY(once(r, e, p, path));
            WR_TRY(layout_key(r, yaml_document_get_node(&r->doc, p->value), path, k, &r->c->layout[i]));
        }
        if (!r->c->layout[i].match) return bad(r, e, "lake.layout[%d] needs match: an expression on namespace.table of the lake", i);
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ who is told of alarms */
typedef struct field { const char *name; char **text; uint64_t *choice, *duration; const char *choices; char ***list; int *nlist; yaml_node_t **node; } field;

/* A mapping of these fields. */
static wr_code fields_of(reader *r, yaml_node_t *n, const char *path, const field *f, int nf) {
    if (n->type != YAML_MAPPING_NODE) return bad(r, n, "%s must be a mapping", path);
    for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        yaml_node_t *v = yaml_document_get_node(&r->doc, p->value);
        WR_AUTO char *name = NULL;
        WR_TRY(text_of(r, yaml_document_get_node(&r->doc, p->key), path, &name));
        WR_AUTO char *full = wr_asprintf("%s.%s", path, name);
        if (!full) return wr_nomem(r->err, path, 64);
        WR_TRY(once(r, n, p, full));
        const field *at = NULL;
        const char *names[24];
        for (int i = 0; i < nf && i < 24; i++) names[i] = f[i].name, at = strcmp(f[i].name, name) ? at : &f[i];
        if (!at) {
            const char *near = wr_cli_nearest(name, names, nf);
            bad(r, n, "unknown key '%s'", full);
            return near ? wr_err_cure(r->err, "did you mean '%s'?", near) : wr_err_cure(r->err, "docs/operate/alarms.md lists what an entry can say");
        }
        if (at->node) *at->node = v;
        else if (at->list) WR_TRY(list_of(r, v, full, at->list, at->nlist));
        else if (at->text) WR_TRY(text_of(r, v, full, at->text));
        else {
            WR_AUTO char *s = NULL;
            key k = {.path = full, .choices = at->choices};
            WR_TRY(text_of(r, v, full, &s));
            WR_TRY(at->choice ? choice(r, v, &k, s, at->choice) : quantity(r, v, full, s, durations, at->duration));
        }
    }
    return WR_OK;
}

#define SECRET_FIELDS(name_, x) {.name = name_ "_env", .text = &(x).env}, {.name = name_ "_file", .text = &(x).file}, {.name = name_ "_command", .text = &(x).command}
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

static wr_code webhook_of(reader *r, yaml_node_t *n, const char *path, sink *k) {
    uint64_t form = 0;
    const field f[] = {{.name = "url", .text = (char **)&k->s.url}, SECRET_FIELDS("url", k->url), SECRET_FIELDS("secret", k->sign), {.name = "form", .choice = &form, .choices = "generic|feishu|slack"}, {.name = "ca", .text = (char **)&k->s.ca_file}};
    WR_TRY(fields_of(r, n, path, f, COUNT(f)));
    k->s.type = WR_SINK_WEBHOOK, k->s.form = (wr_webhook_form)form;
    if ((k->s.url != NULL) + (k->url.env || k->url.file || k->url.command) != 1) return bad(r, n, "%s needs one of url, url_env, url_file and url_command", path);
    if (form == WR_WEBHOOK_SLACK && (k->sign.env || k->sign.file || k->sign.command)) return bad(r, n, "%s: Slack's webhooks take no signature", path);
    return WR_OK;
}

static wr_code email_of(reader *r, yaml_node_t *n, const char *path, sink *k) {
    uint64_t tls = 0;
    const field f[] = {{.name = "smtp", .text = (char **)&k->s.smtp}, {.name = "from", .text = (char **)&k->s.from}, {.name = "to", .list = &k->to, .nlist = &k->nto}, {.name = "user", .text = (char **)&k->s.user},
                       SECRET_FIELDS("password", k->password), {.name = "tls", .choice = &tls, .choices = "auto|preferred|required|disabled"}, {.name = "ca", .text = (char **)&k->s.ca_file}};
    WR_TRY(fields_of(r, n, path, f, COUNT(f)));
    k->s.type = WR_SINK_EMAIL, k->s.tls = (wr_mail_tls)tls, k->s.to = (const char *const *)k->to, k->s.nto = k->nto;
    if (!k->s.smtp || !k->s.from || !k->nto) return bad(r, n, "%s needs smtp, from and to", path);
    if (strncmp(k->s.smtp, "smtp://", 7) && strncmp(k->s.smtp, "smtps://", 8)) return bad(r, n, "%s.smtp must begin with smtp:// or smtps://", path);
    if (strchr(k->s.smtp, '@')) return bad(r, n, "%s.smtp names a user; that is %s.user", path, path);
    for (int i = -1; i < k->nto; i++) /* a line break would be another header */
        for (const char *c = i < 0 ? k->s.from : k->to[i]; *c; c++)
            if ((unsigned char)*c < 0x20) return bad(r, n, "%s: an address contains a control character", path);
    return WR_OK;
}

static wr_code command_of(reader *r, yaml_node_t *n, const char *path, sink *k) {
    WR_TRY(list_of(r, n, path, &k->argv, &k->nargv));
    k->s.type = WR_SINK_COMMAND, k->s.argv = (const char *const *)k->argv;
    return k->nargv ? WR_OK : bad(r, n, "%s is empty", path);
}

static wr_code sink_of(reader *r, yaml_node_t *n, int i, sink *k) {
    uint64_t severity = WR_ALARM_WARNING, after = 0, timeout = 0;
    char path[64];
    int kinds = 0;
    snprintf(path, sizeof path, "alarms.notify[%d]", i);
    yaml_node_t *of[3] = {NULL, NULL, NULL};
    const field f[] = {{.name = "webhook", .node = &of[0]}, {.name = "email", .node = &of[1]}, {.name = "command", .node = &of[2]}, {.name = "name", .text = (char **)&k->s.name},
                       {.name = "min_severity", .choice = &severity, .choices = "info|warning|critical"}, {.name = "after", .duration = &after}, {.name = "timeout", .duration = &timeout}};
    WR_TRY(fields_of(r, n, path, f, COUNT(f)));
    static const char *const types[3] = {"webhook", "email", "command"};
    static wr_code (*const parse[3])(reader *, yaml_node_t *, const char *, sink *) = {webhook_of, email_of, command_of};
    for (int t = 0; t < 3; t++) {
        char inner[80];
        if (!of[t]) continue;
        if (kinds++) return bad(r, n, "%s is both %s and %s", path, types[k->s.type], types[t]);
        snprintf(inner, sizeof inner, "%s.%s", path, types[t]);
        WR_TRY(parse[t](r, of[t], inner, k));
    }
    if (!kinds) return bad(r, n, "%s needs one of webhook, email and command", path);
    if (timeout > 30000000) return bad(r, n, "%s.timeout is above 30 s", path); /* the end of a sync waits for an attempt that is under way */
    if (!k->s.name && !(k->s.name = wr_asprintf("%s-%d", types[k->s.type], i + 1))) return wr_nomem(r->err, path, 64);
    if (!*k->s.name || strlen(k->s.name) > 63) return bad(r, n, "%s.name must have 1 to 63 bytes", path);
    for (sink *q = r->c->sinks; q < k; q++)
        if (!strcmp(q->s.name, k->s.name)) return bad(r, n, "%s.name: '%s' stands twice", path, k->s.name);
    k->s.min_severity = (wr_alarm_severity)severity, k->s.after_us = (int64_t)after, k->s.timeout_us = (int64_t)timeout;
    return WR_OK;
}

static wr_code notify_of(reader *r, yaml_node_t *n) {
    if (n->type != YAML_SEQUENCE_NODE) return bad(r, n, "alarms.notify must be a list of {webhook: ...}, {email: ...} or {command: [...]}");
    int count = (int)(n->data.sequence.items.top - n->data.sequence.items.start);
    r->c->sinks = wr_calloc((size_t)count + 1, sizeof *r->c->sinks);
    r->c->told = wr_calloc((size_t)count + 1, sizeof *r->c->told);
    if (!r->c->sinks || !r->c->told) return wr_nomem(r->err, "alarms.notify", (size_t)count * sizeof *r->c->sinks);
    for (int i = 0; i < count; i++) {
        r->c->nsinks = i + 1;
        WR_TRY(sink_of(r, yaml_document_get_node(&r->doc, n->data.sequence.items.start[i]), i, &r->c->sinks[i]));
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ keys */
static const char *const secret_names[WR_CONFIG_SECRETS] = {"source.password", "lake.s3.access_key", "lake.s3.secret_key", "lake.s3.session_token", "lake.rest.token", "lake.rest.credential"};

static wr_code unknown(reader *r, const yaml_node_t *n, const char *path) {
    for (size_t i = 0; i < sizeof secret_names / sizeof *secret_names; i++)
        if (!strcmp(path, secret_names[i])) {
            bad(r, n, "%s: secrets do not stand in this file, which is copied, committed and shown", path);
            return wr_err_cure(r->err, "%s_file: a file with mode 0600, %s_env: an environment variable, or %s_command: a command that prints it", path, path, path);
        }
    const char *names[NKEYS];
    for (int i = 0; i < NKEYS; i++) names[i] = keys[i].path;
    const char *near = wr_cli_nearest(path, names, NKEYS);
    bad(r, n, "unknown key '%s'", path);
    return near ? wr_err_cure(r->err, "did you mean '%s'?", near) : wr_err_cure(r->err, "docs/config.md lists every key");
}

static wr_code take(reader *r, yaml_node_t *n, const key *k) {
    void *at = (char *)r->c + k->at;
    if (k->type == T_LIST && k->at == AT(compare_tables)) return list_of(r, n, k->path, &r->c->compare_tables, &r->c->ncompare_tables);
    if (k->type == T_LIST && k->at == AT(hosts)) return list_of(r, n, k->path, &r->c->hosts, &r->c->nhosts);
    if (k->type == T_LIST && k->at == AT(topology)) return list_of(r, n, k->path, &r->c->topology, &r->c->ntopology);
    if (k->type == T_LIST) return k->at == AT(capture) ? list_of(r, n, k->path, &r->c->capture, &r->c->ncapture) : list_of(r, n, k->path, &r->c->exclude, &r->c->nexclude);
    if (k->type == T_MERGE) return merge_of(r, n);
    if (k->type == T_RULES) return rules_of(r, n);
    if (k->type == T_LAYOUT) return layout_of(r, n);
    if (k->type == T_NOTIFY) return notify_of(r, n);
    if (k->type == T_TEXT) return text_of(r, n, k->path, at);
    WR_AUTO char *s = NULL;
    WR_TRY(text_of(r, n, k->path, &s));
    switch (k->type) {
    case T_ENUM: return choice(r, n, k, s, at);
    case T_UINT: return whole(r, n, k, s, at);
    case T_DURATION: return quantity(r, n, k->path, s, durations, at);
    default: return quantity(r, n, k->path, s, sizes, at);
    }
}

static wr_code walk(reader *r, yaml_node_t *n, const char *prefix, int depth) {
    if (n->type != YAML_MAPPING_NODE) return bad(r, n, "%s must be a mapping", *prefix ? prefix : "the file");
    for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        yaml_node_t *kn = yaml_document_get_node(&r->doc, p->key), *vn = yaml_document_get_node(&r->doc, p->value);
        WR_AUTO char *name = NULL;
        WR_TRY(text_of(r, kn, "a key", &name));
        WR_AUTO char *path = *prefix ? wr_asprintf("%s.%s", prefix, name) : wr_strdup(name);
        if (!path) return wr_nomem(r->err, "key", 64);
        const key *exact = NULL;
        bool section = false;
        size_t len = strlen(path);
        for (int i = 0; i < NKEYS; i++) {
            if (!strcmp(keys[i].path, path)) exact = &keys[i];
            section |= !strncmp(keys[i].path, path, len) && keys[i].path[len] == '.';
        }
        WR_TRY(once(r, n, p, path));
        if (exact) WR_TRY(take(r, vn, exact));
        else if (section && depth < 4) WR_TRY(walk(r, vn, path, depth + 1));
        else return unknown(r, kn, path);
    }
    return WR_OK;
}

/* ------------------------------------------------------------------ url, paths, password */
static char *percent_decode(const char *s, size_t n) {
    char *out = wr_malloc(n + 1);
    size_t k = 0;
    for (size_t i = 0; out && i < n; i++) {
        unsigned v;
        if (s[i] == '%' && i + 2 < n + 0 && isxdigit((unsigned char)s[i + 1]) && isxdigit((unsigned char)s[i + 2]) && sscanf(s + i + 1, "%2x", &v) == 1) out[k++] = (char)v, i += 2;
        else out[k++] = s[i];
    }
    if (out) out[k] = 0;
    return out;
}

static wr_code parse_url(wr_config *c, wr_err *err) {
    const char *u = c->url;
    if (!u) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: source.url is missing", c->path), wr_err_cure(err, "source: {url: mysql://user@host:3306, ...}");
    const char *rest = !strncmp(u, "mysql://", 8) ? u + 8 : !strncmp(u, "mariadb://", 10) ? u + 10 : NULL;
    if (!rest) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: source.url must begin with mysql://", c->path);
    size_t n = strcspn(rest, "/");
    if (rest[n] && rest[n + 1]) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: source.url ends with a path; databases are chosen by source.capture", c->path);
    const char *at = memrchr(rest, '@', n);
    if (!at || at == rest) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: source.url names no user: mysql://user@host:port", c->path);
    if (memchr(rest, ':', (size_t)(at - rest))) {
        wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: source.url holds a password", c->path);
        return wr_err_cure(err, "take it out and use source.password_env, password_file or password_command");
    }
    const char *host = at + 1, *end = rest + n, *colon = memrchr(host, ':', (size_t)(end - host)), *close = memrchr(host, ']', (size_t)(end - host));
    if (colon && close && colon < close) colon = NULL;
    const char *hend = colon ? colon : end;
    c->port = 3306;
    if (colon) {
        char *e;
        long v = strtol(colon + 1, &e, 10);
        if (e != end || v < 1 || v > 65535) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: source.url: '%.*s' is no port", c->path, (int)(end - colon - 1), colon + 1);
        c->port = (int)v;
    }
    if (*host == '[' && hend > host + 1 && hend[-1] == ']') host++, hend--;
    if (hend <= host) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: source.url names no host", c->path);
    c->user = percent_decode(rest, (size_t)(at - rest));
    c->host = wr_strndup(host, (size_t)(hend - host));
    return c->user && c->host ? WR_OK : wr_nomem(err, "url", n);
}

static wr_code absolute(wr_config *c, char **path, wr_err *err) {
    if (!*path || **path == '/') return WR_OK;
    const char *p = *path;
    while (p[0] == '.' && p[1] == '/') p += 2;
    char *a = wr_path_join(c->dir, !strcmp(p, ".") ? "" : p);
    if (!a) return wr_nomem(err, "path", 256);
    wr_free(*path);
    *path = a;
    return WR_OK;
}

static wr_code first_line(wr_buf *b, char **ret, wr_err *err) {
    size_t n = 0;
    while (n < b->n && b->p[n] != '\n' && b->p[n] != '\r' && b->p[n]) n++;
    *ret = wr_strndup((const char *)b->p, n);
    explicit_bzero(b->p, b->n);
    return *ret ? WR_OK : wr_nomem(err, "password", n);
}

static wr_code run_command(const char *cmd, const char *name, wr_buf *out, wr_err *err) {
    FILE *f = popen(cmd, "re"); /* the user's own command, a shell included. NOLINT(cert-env33-c) */
    if (!f) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s_command cannot be started", name);
    char buf[4096];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, f)) > 0 && out->n < 65536) wr_buf_put(out, buf, n);
    explicit_bzero(buf, sizeof buf);
    int rc = pclose(f);
    if (rc != 0) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s_command ended with status %d", name, WIFEXITED(rc) ? WEXITSTATUS(rc) : 128);
    return wr_buf_check(out, name, err);
}

/* fallback: an environment variable that is looked at when nothing is said; NULL = none. The value stays NULL when there is none. */
static wr_code fetch(secret *x, const char *name, const char *fallback, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    if (x->env || (fallback && !x->file && !x->command)) {
        const char *v = getenv(x->env ? x->env : fallback);
        if (!v && x->env) {
            wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "environment variable %s, named by %s_env, is not set", x->env, name);
            return wr_err_cure(err, "export %s=... before starting weir", x->env);
        }
        return !v || (x->value = wr_strdup(v)) ? WR_OK : wr_nomem(err, name, 64);
    }
    if (x->file) {
        if (wr_file_get(x->file, 65536, &b, err) != WR_OK) return err->code = WR_E_CONFIG, wr_err_in(err, "%s_file", name);
        return first_line(&b, &x->value, err);
    }
    if (!x->command) return WR_OK;
    WR_TRY(run_command(x->command, name, &b, err));
    return first_line(&b, &x->value, err);
}

static wr_code fetch_password(wr_config *c, wr_err *err) {
    WR_TRY(fetch(&c->password, "source.password", NULL, err));
    if (!c->password.value && !(c->password.value = wr_strdup(""))) return wr_nomem(err, "password", 1);
    c->o.source.password = c->password.value;
    return WR_OK;
}

static wr_code fetch_lake(wr_config *c, wr_err *err) {
    if (c->o.s3) {
        WR_TRY(fetch(&c->s3_access, "lake.s3.access_key", "AWS_ACCESS_KEY_ID", err));
        WR_TRY(fetch(&c->s3_secret, "lake.s3.secret_key", "AWS_SECRET_ACCESS_KEY", err));
        WR_TRY(fetch(&c->s3_session, "lake.s3.session_token", "AWS_SESSION_TOKEN", err));
        if (!c->s3_access.value != !c->s3_secret.value) {
            wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: S3 has %s key and no %s key", c->path, c->s3_access.value ? "an access" : "a secret", c->s3_access.value ? "secret" : "access");
            return wr_err_cure(err, "give both with lake.s3.access_key_env and lake.s3.secret_key_env (or _file, _command), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
        }
        c->s3.credentials = (wr_s3_credentials){c->s3_access.value, c->s3_secret.value, c->s3_session.value};
    }
    if (c->o.rest) {
        WR_TRY(fetch(&c->rest_token, "lake.rest.token", NULL, err));
        WR_TRY(fetch(&c->rest_credential, "lake.rest.credential", NULL, err));
        c->rest.token = c->rest_token.value, c->rest.credential = c->rest_credential.value;
    }
    return WR_OK;
}

static wr_code fetch_alarms(wr_config *c, wr_err *err) {
    for (int i = 0; i < c->nsinks; i++) {
        sink *k = &c->sinks[i];
        char path[64];
        struct { secret *x; const char *name; const char **to; } all[] = {{&k->url, "webhook.url", &c->told[i].url}, {&k->sign, "webhook.secret", &c->told[i].secret}, {&k->password, "email.password", &c->told[i].password}};
        for (size_t s = 0; s < sizeof all / sizeof *all; s++) {
            snprintf(path, sizeof path, "alarms.notify[%d].%s", i, all[s].name);
            WR_TRY(fetch(all[s].x, path, NULL, err));
            if (all[s].x->value) *all[s].to = all[s].x->value;
        }
    }
    return WR_OK;
}

/* What lies outside the file and is no secret of the source's: functions and the key of masks. */
static wr_code fetch_transform(wr_config *c, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    if (c->functions) {
        if (wr_file_get(c->functions, 1 << 20, &b, err) != WR_OK) return err->code = WR_E_CONFIG, wr_err_in(err, "transform.functions");
        if (memchr(b.p, 0, b.n)) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "transform.functions: %s holds a zero byte", c->functions);
        c->functions_text = wr_strndup((const char *)b.p, b.n);
        if (!c->functions_text) return wr_nomem(err, "functions", b.n);
    }
    const char *mask_key = c->mask_key_env ? getenv(c->mask_key_env) : NULL;
    if (c->mask_key_env && (!mask_key || !*mask_key)) {
        wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "environment variable %s, named by transform.mask_key_env, is not set", c->mask_key_env);
        return wr_err_cure(err, "export %s=... before starting weir, always the same: another key means other hashes, and the masked tables are read again", c->mask_key_env);
    }
    if (mask_key && !(c->mask_key = wr_strdup(mask_key))) return wr_nomem(err, "mask key", 64);
    c->o.transform.functions = c->functions_text;
    c->o.transform.mask_key = c->mask_key;
    return WR_OK;
}

/* ------------------------------------------------------------------ the whole */
static wr_code check_secret(const wr_config *c, const secret *x, const char *name, wr_err *err) {
    if ((x->env != NULL) + (x->file != NULL) + (x->command != NULL) <= 1) return WR_OK;
    return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: only one of %s_env, %s_file and %s_command may be given", c->path, name, name, name);
}

static bool is_uri(const char *place) { return strstr(place, "://") != NULL; }

/* Expressions and pairs of terms are settled by whoever uses them; mistakes are told before. */
static wr_code check_layout(const wr_config *c, wr_err *err) {
    wr_layouts *l;
    wr_err why = WR_ERR_INIT;
    wr_code rc = wr_layouts_new(c->layout, c->nlayout, &l, &why);
    if (rc == WR_OK) return wr_layouts_free(l), WR_OK;
    wr_fail(err, rc, WR_RETRY_NO, "%s: %s", c->path, why.msg);
    return why.cure[0] ? wr_err_cure(err, "%s", why.cure) : rc;
}

static wr_code assemble_lake(wr_config *c, wr_err *err) {
    bool s3 = c->warehouse && !strncmp(c->warehouse, "s3", 2) && is_uri(c->warehouse), rest = c->catalog == 1;
    if (c->warehouse && is_uri(c->warehouse) && !s3 && strncmp(c->warehouse, "file://", 7)) {
        wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: lake.warehouse: %s is in a store that Weir cannot reach", c->path, c->warehouse);
        return wr_err_cure(err, "a folder, or s3://bucket/prefix");
    }
    if (rest && !c->rest_uri) {
        wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: lake.catalog: rest needs lake.rest.uri", c->path);
        return wr_err_cure(err, "lake: {catalog: rest, rest: {uri: http://host:8181}, warehouse: s3://bucket/prefix}");
    }
    if (!rest && c->rest_uri) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: lake.rest is given, and lake.catalog is not rest", c->path);
    if (!s3 && (c->s3_endpoint || c->s3_region)) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: lake.s3 is given, and lake.warehouse is no s3:// address", c->path);
    if ((c->rest_token.env || c->rest_token.file || c->rest_token.command) && (c->rest_credential.env || c->rest_credential.file || c->rest_credential.command))
        return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: lake.rest.token and lake.rest.credential: only one of them may be given", c->path);
    if (c->s3_timeout > 3600000000 || c->rest_timeout > 3600000000) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: a time-out of lake.s3 or lake.rest is above one hour", c->path);
    WR_TRY(check_layout(c, err));
    WR_TRY(absolute(c, &c->s3_ca, err));
    WR_TRY(absolute(c, &c->rest_ca, err));
    c->s3 = (wr_s3_options){.endpoint = c->s3_endpoint, .region = c->s3_region, .path_style = c->path_style == 1, .ca_file = c->s3_ca, .stall_timeout_ms = (int)(c->s3_timeout / 1000)};
    c->rest = (wr_rest_options){.uri = c->rest_uri, .warehouse = c->rest_warehouse, .oauth2_server_uri = c->rest_server, .scope = c->rest_scope, .ca_file = c->rest_ca, .stall_timeout_ms = (int)(c->rest_timeout / 1000)};
    if (s3) c->o.s3 = &c->s3;
    if (rest) c->o.rest = &c->rest;
    return WR_OK;
}

static wr_code assemble_compare(wr_config *c, wr_err *err) {
    wr_schedule s;
    if (c->ncompare_tables > WR_WORDS_MAX) {
        wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: compare.tables has %d expressions, %d are possible", c->path, c->ncompare_tables, WR_WORDS_MAX);
        return wr_err_cure(err, "an expression may name several: 'shop\\.(orders|items)'");
    }
    if (c->compare_schedule && wr_schedule_parse(c->compare_schedule, &s, err) != WR_OK) return wr_err_in(err, "%s: compare.schedule", c->path);
    c->compare = (wr_config_compare){c->compare_schedule, (int)c->compare_level, (int)c->compare_method, (int)c->compare_hash, (const char *const *)c->compare_tables, c->ncompare_tables};
    return WR_OK;
}

const wr_config_compare *wr_config_compare_of(const wr_config *c) { return &c->compare; }

static wr_code assemble_alarms(wr_config *c, wr_err *err) {
    for (int i = 0; i < c->nsinks; i++) {
        sink *k = &c->sinks[i];
        char path[64];
        struct { secret *x; const char *name; } secrets[] = {{&k->url, "webhook.url"}, {&k->sign, "webhook.secret"}, {&k->password, "email.password"}};
        for (size_t s = 0; s < sizeof secrets / sizeof *secrets; s++) {
            snprintf(path, sizeof path, "alarms.notify[%d].%s", i, secrets[s].name);
            WR_TRY(check_secret(c, secrets[s].x, path, err));
            WR_TRY(absolute(c, &secrets[s].x->file, err));
        }
        WR_TRY(absolute(c, (char **)&k->s.ca_file, err));
        c->told[i] = k->s;
    }
    c->o.watch = (wr_watch_options){.stalled_us = (int64_t)c->stalled, .silent_us = (int64_t)c->silent, .lag_warning_us = (int64_t)c->lag_warning, .lag_critical_us = (int64_t)c->lag_critical, .disk_warning_bytes = c->disk_warning, .disk_critical_bytes = c->disk_critical,
                                    .restarts = (int)c->restarts, .restarts_within_us = (int64_t)c->restarts_within, .recovery_us = (int64_t)c->recovery, .sinks = c->told, .nsinks = c->nsinks};
    return WR_OK;
}

static wr_code assemble(wr_config *c, wr_err *err) {
    if (!c->name || !*c->name) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: name is missing", c->path);
    if (!c->home && !(c->home = wr_asprintf("%s.weir", c->name))) return wr_nomem(err, "home", 64);
    if (!c->ncapture) {
        wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: source.capture is missing: it says which tables to copy", c->path);
        return wr_err_cure(err, "for all tables of database shop: capture: ['shop\\..*']");
    }
    struct { secret *x; const char *name; } secrets[] = {{&c->password, "source.password"}, {&c->s3_access, "lake.s3.access_key"}, {&c->s3_secret, "lake.s3.secret_key"}, {&c->s3_session, "lake.s3.session_token"}, {&c->rest_token, "lake.rest.token"}, {&c->rest_credential, "lake.rest.credential"}};
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
        WR_TRY(check_secret(c, secrets[i].x, secrets[i].name, err));
        WR_TRY(absolute(c, &secrets[i].x->file, err));
    }
    if (c->topology && c->topology_url) return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: source.topology: only one of command and url may be given", c->path);
    WR_TRY(parse_url(c, err));
    WR_TRY(absolute(c, &c->home, err));
    if (!(c->budget = wr_path_join(c->home, "budget"))) return wr_nomem(err, "path", 256);
    if (c->warehouse && !is_uri(c->warehouse)) WR_TRY(absolute(c, &c->warehouse, err));
    WR_TRY(absolute(c, &c->tls_ca, err));
    WR_TRY(absolute(c, &c->functions, err));
    /* seconds: fresh, in small files that are merged often; bulk: few large ones, an interval's rows at a time */
    static const struct { uint64_t every_us, bytes; } profiles[] = {{10000000, 128000000}, {1000000, 32000000}, {300000000, 1000000000}};
    if (!c->commit_every) c->commit_every = profiles[c->commit_profile].every_us;
    if (!c->commit_bytes) c->commit_bytes = profiles[c->commit_profile].bytes;
    c->o = (wr_pipeline_options){
        .name = c->name, .home = c->home, .merge = c->merge, .nmerge = c->nmerge, .transform = {.rules = c->rules, .nrules = c->nrules}, .on_drop = (wr_on_drop)c->on_drop, .visible_early = c->visible == 1, .on_type = (wr_on_type)c->type_change, .on_rowless = (wr_on_rowless)c->rowless,
        .snapshot_parallel = (int)c->parallel, .layout = c->layout, .nlayout = c->nlayout, .warehouse = c->warehouse, .format_version = (int)c->format_version, .commit_every_us = (int64_t)c->commit_every, .inspect_every_us = (int64_t)c->inspect,
        .commit_bytes = c->commit_bytes, .cache_bytes = c->cache_bytes, .queue = {.max_bytes = c->queue_bytes},
        .source = {.host = c->host, .user = c->user, .port = c->port, .hosts = (const char *const *)c->hosts, .nhosts = c->nhosts, .topology_command = (const char *const *)c->topology, .ntopology_command = c->ntopology, .topology_url = c->topology_url, .prefer = (wr_prefer)c->prefer, .zone = c->zone, .tls = (wr_tls)c->tls, .tls_ca = c->tls_ca, .capture = (const char *const *)c->capture, .ncapture = c->ncapture,
                   .exclude = (const char *const *)c->exclude, .nexclude = c->nexclude, .zero_date = (wr_zero_date)c->zero_date, .time_as = (wr_time_as)c->time_as,
                   .server_id = (uint32_t)c->server_id, .packet_max = (size_t)c->max_packet, .pipeline_name = c->name, .snapshot_rows_per_second = c->rows_per_second, .max_readers = (int)c->max_readers, .budget_path = c->budget, .max_threads_running = (int)c->max_threads_running, .max_replica_lag_s = (int)((c->max_replica_lag + 999999) / 1000000)},
    };
    if (c->max_packet && (c->max_packet < 1 << 24 || c->max_packet > 4000000000)) {
        wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s: source.max_packet is not between 16MiB and 4GB", c->path);
        return wr_err_cure(err, "as large as the server's max_allowed_packet, or 1GiB");
    }
    WR_TRY(assemble_compare(c, err));
    WR_TRY(assemble_alarms(c, err));
    return assemble_lake(c, err);
}

wr_code wr_config_parse(const char *text, size_t n, const char *path, wr_config **ret, wr_err *err) {
    wr_config *c = wr_calloc(1, sizeof *c);
    if (!c) return wr_nomem(err, "configuration", sizeof *c);
    const char *slash = strrchr(path, '/');
    c->path = wr_strdup(path);
    char cwd[4096];
    if (slash && *path == '/') c->dir = wr_strndup(path, slash == path ? 1 : (size_t)(slash - path));
    else if (getcwd(cwd, sizeof cwd)) c->dir = slash ? wr_asprintf("%s/%.*s", cwd, (int)(slash - path), path) : wr_strdup(cwd);
    yaml_parser_t parser;
    if (!c->path || !c->dir || !yaml_parser_initialize(&parser)) return wr_config_free(c), wr_nomem(err, "configuration", 4096);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
    reader r = {.c = c, .path = path, .err = err};
    wr_code rc;
    if (!yaml_parser_load(&parser, &r.doc)) {
        rc = wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s:%zu: not YAML: %s", path, parser.problem_mark.line + 1, parser.problem ? parser.problem : "unreadable");
    } else {
        yaml_node_t *root = yaml_document_get_root_node(&r.doc);
        rc = root ? walk(&r, root, "", 0) : wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s is empty", path);
        yaml_document_delete(&r.doc);
    }
    yaml_parser_delete(&parser);
    if (rc == WR_OK) rc = assemble(c, err);
    if (rc != WR_OK) return wr_config_free(c), rc;
    *ret = c;
    return WR_OK;
}

wr_code wr_config_load(const char *path, wr_need need, wr_config **ret, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    if (wr_file_get(path, 1 << 20, &b, err) != WR_OK) {
        err->code = WR_E_CONFIG;
        return wr_err_cure(err, "give the configuration with -c FILE; README.md has an example");
    }
    wr_config *c;
    WR_TRY(wr_config_parse((const char *)b.p, b.n, path, &c, err));
    wr_code rc = need & WR_NEED_SOURCE ? fetch_password(c, err) : WR_OK;
    if (rc == WR_OK && need & WR_NEED_SOURCE) rc = fetch_transform(c, err);
    if (rc == WR_OK && need & WR_NEED_LAKE) rc = fetch_lake(c, err);
    if (rc == WR_OK && need & WR_NEED_ALARMS) rc = fetch_alarms(c, err);
    if (rc != WR_OK) return wr_config_free(c), rc;
    *ret = c;
    return WR_OK;
}

static void free_pairs(const wr_pair *p, int n) {
    for (int i = 0; i < n; i++) wr_free((char *)p[i].name), wr_free((char *)p[i].value);
    wr_free((wr_pair *)p);
}

static void free_secret(secret *x) {
    wr_free(x->env), wr_free(x->file), wr_free(x->command);
    if (x->value) explicit_bzero(x->value, strlen(x->value));
    wr_free(x->value);
}

void wr_config_free(wr_config *c) {
    if (!c) return;
    secret *secrets[] = {&c->password, &c->s3_access, &c->s3_secret, &c->s3_session, &c->rest_token, &c->rest_credential};
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) free_secret(secrets[i]);
    for (int i = 0; i < c->nsinks; i++) {
        sink *k = &c->sinks[i];
        free_secret(&k->url), free_secret(&k->sign), free_secret(&k->password);
        free_list(k->to, k->nto), free_list(k->argv, k->nargv);
        wr_free((char *)k->s.name), wr_free((char *)k->s.url), wr_free((char *)k->s.ca_file), wr_free((char *)k->s.smtp), wr_free((char *)k->s.from), wr_free((char *)k->s.user);
    }
    wr_free(c->sinks), wr_free(c->told);
    char **texts[] = {&c->s3_endpoint, &c->s3_region, &c->s3_ca, &c->rest_uri, &c->rest_warehouse, &c->rest_server, &c->rest_scope, &c->rest_ca,
                      &c->path, &c->dir, &c->name, &c->home, &c->url, &c->tls_ca, &c->warehouse, &c->user, &c->host, &c->functions, &c->compare_schedule, &c->budget, &c->mask_key_env, &c->functions_text};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) wr_free(*texts[i]);
    free_list(c->capture, c->ncapture);
    free_list(c->exclude, c->nexclude);
    free_list(c->compare_tables, c->ncompare_tables);
    free_list(c->hosts, c->nhosts), free_list(c->topology, c->ntopology);
    wr_free(c->zone), wr_free(c->topology_url);
    for (int i = 0; i < c->nmerge; i++) wr_free((char *)c->merge[i].from), wr_free((char *)c->merge[i].to);
    wr_free(c->merge);
    for (int i = 0; i < c->nrules; i++) {
        wr_rule *u = &c->rules[i];
        wr_free((char *)u->table), wr_free((char *)u->filter);
        free_pairs(u->set, u->nset), free_pairs(u->mask, u->nmask), free_pairs(u->convert, u->nconvert), free_pairs(u->rename, u->nrename);
        free_list((char **)u->drop, u->ndrop);
    }
    wr_free(c->rules);
    for (int i = 0; i < c->nlayout; i++) {
        wr_layout_rule *u = &c->layout[i];
        for (int k = 0; k < u->npartition; k++) wr_free(u->partition[k].column);
        for (int k = 0; k < u->nsort; k++) wr_free(u->sort[k].column);
        free_list(u->bloom, u->nbloom);
        wr_free(u->match), wr_free(u->partition), wr_free(u->sort);
    }
    wr_free(c->layout);
    if (c->mask_key) explicit_bzero(c->mask_key, strlen(c->mask_key));
    wr_free(c->mask_key);
    wr_free(c);
}

/* No error: secrets that a container's platform puts into files are often readable by everyone in the container. */
bool wr_config_exposed(const wr_config *c, int i, char what[512]) {
    const secret *secrets[WR_CONFIG_SECRETS] = {&c->password, &c->s3_access, &c->s3_secret, &c->s3_session, &c->rest_token, &c->rest_credential};
    const char *path = secrets[i]->file;
    struct stat st;
    if (!path || stat(path, &st) != 0 || !(st.st_mode & (S_IROTH | S_IWOTH))) return false;
    snprintf(what, 512, "%s_file: every user of this machine may %s %s (mode %03o)", secret_names[i], st.st_mode & S_IWOTH ? "write" : "read", path, st.st_mode & 0777);
    return true;
}

const wr_pipeline_options *wr_config_options(const wr_config *c) { return &c->o; }
