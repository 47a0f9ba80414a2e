/* What goes over the wire to and from a REST catalog, as text: names in URLs and bodies, and the answers. Pure: nothing here sends. All answers come
 * from outside; each member is checked before it is used. Source: Iceberg REST catalog specification.
 * @thread any: no shared state */
#ifndef WEIR_LAKE_REST_WIRE_H
#define WEIR_LAKE_REST_WIRE_H

#include "iceberg/ice.h"
#include "iceberg/json.h"
#include "weir/store.h"

/* ------------------------------------------------------------------ names */
/* Everything but letters, digits, '-', '.', '_' and '~' as %XX: a path segment, a query value or a form value. Appends. */
void wr_rest_put_encoded(wr_buf *b, const char *text, size_t n);
/* Levels of a namespace are joined by "." with us, in a URL by the separator that the catalog names (already encoded; %1F). Appends. */
void wr_rest_put_namespace(wr_buf *b, const char *ns, const char *separator);
cJSON *wr_rest_levels(const char *ns, int n); /* the first n levels as an array, all of them when there are fewer; NULL when memory is out */
int wr_rest_level_count(const char *ns);
cJSON *wr_rest_identifier(const char *ns, const char *name); /* {"namespace":[..],"name":..} */

/* ------------------------------------------------------------------ answers */
typedef enum wr_rest_offer { WR_REST_UNTOLD, WR_REST_OFFERED, WR_REST_NOT_OFFERED } wr_rest_offer;
typedef struct wr_rest_config { /* owned; NULL = not said */
    char *uri, *prefix, *token, *oauth2_server_uri, *separator;
    wr_rest_offer transactions; /* POST v1/{prefix}/transactions/commit */
} wr_rest_config;
void wr_rest_config_clear(wr_rest_config *c);
/* What overrides say, or else defaults; of uri, token and oauth2-server-uri only what overrides say when the user has one of his own. */
typedef struct wr_rest_own { bool uri, token, oauth2_server_uri; } wr_rest_own;
wr_code wr_rest_read_config(wr_slice text, const wr_rest_own *own, wr_rest_config *ret_config, wr_err *err);

/* expires_in in seconds; -1 = not said. */
wr_code wr_rest_read_token(wr_slice text, char **ret_token, int64_t *ret_expires_s, wr_err *err);

/* One page of names, joined as above, added to a list. Names that cannot be told apart (a level with a "." in it) are passed over, and so are
 * namespaces that do not lie right below `parent` ("" = the top). *ret_next: token of the next page; NULL = the last. Owned. */
typedef struct wr_rest_names {
    char **v;
    int n, cap;
} wr_rest_names;
void wr_rest_names_clear(wr_rest_names *l);
wr_code wr_rest_read_namespaces(wr_slice text, const char *parent, wr_rest_names *l, char **ret_next, wr_err *err);
wr_code wr_rest_read_tables(wr_slice text, wr_rest_names *l, char **ret_next, wr_err *err);

/* The answer to a load or a commit. Credentials in it (storage-credentials, or else config) are handed to lend, unless that is NULL; lent_until_us
 * of the table is when the first of them runs out. */
typedef wr_code wr_rest_lend_fn(void *ctx, const char *prefix, const wr_s3_credentials *credentials, wr_err *err);
wr_code wr_rest_read_table(wr_slice text, const char *name, wr_rest_lend_fn *lend, void *ctx, wr_ice_table **ret_table, wr_err *err);

/* Type and message of an error answer ("" where it does not say), cut, without control characters. Any body will do. */
typedef struct wr_rest_error { char type[64], message[400]; } wr_rest_error;
void wr_rest_read_error(wr_slice text, wr_rest_error *ret_error);

#endif
