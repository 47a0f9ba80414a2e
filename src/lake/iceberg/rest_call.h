/* Requests to a REST catalog: token, repetition, and whether one without a good answer may have been carried out.
 * @thread one at a time per object */
#ifndef WEIR_LAKE_REST_CALL_H
#define WEIR_LAKE_REST_CALL_H

#include "iceberg/rest.h"
#include "iceberg/rest_wire.h"
#include "weir/http.h"

#define WR_REST_PATIENCE_US 60000000 /* how long a commit asks for its outcome */
#define WR_REST_ATTEMPTS 10          /* of a question: as many as of a request to S3 */

struct wr_rest {
    wr_http *http;
    wr_store *store;
    char *uri;              /* without a "/" at the end */
    char *base;             /* <uri>/v1[/<prefix>] */
    char *separator;        /* of namespace levels, encoded */
    char *client_id, *client_secret, *scope, *oauth2_server_uri; /* client_secret NULL: the token is the user's, or there is none */
    char *token;
    int64_t renew_us;       /* when a token that runs out is renewed, monotonic; 0 = never */
    wr_rest_offer transactions;
    int64_t patience_us;
    int attempts;
    cJSON *open;            /* array: pending entries of earlier commits that may still come through; NULL = none */
};

typedef struct wr_rest_answer {
    int status;             /* 0: none */
    bool unknown;           /* it may have been carried out, now or later */
    char type[64];          /* of an error answer, "" = it does not say */
    wr_buf body;
    int64_t backoff_us;     /* before the next attempt */
} wr_rest_answer;
void wr_rest_answer_clear(wr_rest_answer *a);
#define WR_AUTO_ANSWER __attribute__((cleanup(wr_rest_answer_clear)))

/* One request below base; body .p NULL = none. attempt: 0 = the first, for backoff_us. WR_OK for 2xx. A token that ran out is renewed once; 429 waits and
 * is repeated. Errors: WR_E_NOTFOUND for 404, WR_E_CONFLICT for 409, WR_E_AUTH for 401, 403 and 419, WR_E_UNSUPPORTED for 405, 406 and 501, WR_E_SERVER
 * for what else the server says (retry soon from 500 on), and those of wr_http_send. */
wr_code wr_rest_call(wr_rest *r, const char *method, const char *path, wr_slice body, int attempt, wr_rest_answer *a, wr_err *err);
/* GET, repeated while that may help: a few times, or until the monotonic time `until_us` (0 = a few times). */
wr_code wr_rest_get(wr_rest *r, const char *path, int64_t until_us, wr_rest_answer *a, wr_err *err);
void wr_rest_wait(int64_t us);

/* With those above it; one that is there already is fine. */
wr_code wr_rest_make_namespace(wr_rest *r, const char *ns, int64_t until_us, wr_err *err);

/* wr_rest_load with wr_rest_get's patience. */
wr_code wr_rest_load_until(wr_rest *r, const char *ns, const char *name, int64_t until_us, wr_ice_table **ret_table, wr_err *err);
wr_code wr_rest_read_loaded(wr_rest *r, const wr_rest_answer *a, const char *ns, const char *name, wr_ice_table **ret_table, wr_err *err);
char *wr_rest_table_path(const wr_rest *r, const char *ns, const char *name); /* below base; NULL = memory is out */

#endif
