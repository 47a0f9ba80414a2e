/* Runs S3 operations, as JSON lines from standard input: the C half of tests/integration/test_s3.py.
 *
 *   s3_driver
 * '{"endpoint":..,"region":..,"path_style":true,"ca_file":..,"access_key":..,"secret_key":..,"session_token":..,"part_bytes":..,
 *               "parallel":..,"attempts":..,"stall_timeout_ms":..}' < commands
 *
 * One object per line, one answer per line ({"ok":true,...} or {"error":"auth","retry":0,"message":..,"cure":..}):
 *   {"op":"put","objects":[[bucket,key,file]...]}      put_many of the files' contents
 *   {"op":"put_file","bucket":..,"key":..,"file":..}
 *   {"op":"get","bucket":..,"key":..,"file":..,"max":..[,"at":..,"n":..]}
 *   {"op":"get_file","bucket":..,"key":..,"file":..}
 *   {"op":"remove","objects":[[bucket,key]...]}
 *   {"op":"list","bucket":..,"prefix":..[,"stop":n]}   {"ok":true,"keys":[[key,bytes,modified_us]...]}; fn fails at the
 * n-th
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s3.h"
#include "weir/base/mem.h"
#include "weir/io.h"

static const char *text(const cJSON *o, const char *name) { return cJSON_GetStringValue(cJSON_GetObjectItem(o, name)); }

static uint64_t number(const cJSON *o, const char *name, uint64_t def) {
    const cJSON *v = cJSON_GetObjectItem(o, name);
    return cJSON_IsNumber(v) ? (uint64_t)v->valuedouble : def;
}

static wr_s3_object object(const cJSON *q) {
    return (wr_s3_object){.bucket = text(q, "bucket"), .key = text(q, "key")};
}

static const char *nth_text(const cJSON *list, int i) { return cJSON_GetStringValue(cJSON_GetArrayItem(list, i)); }

static wr_code put(wr_s3 *s, const cJSON *q, wr_err *err) {
    const cJSON *objects = cJSON_GetObjectItem(q, "objects"), *o;
    int n = cJSON_GetArraySize(objects), i = 0;
    wr_s3_object *where = calloc((size_t)n, sizeof *where);
    wr_buf *bufs = calloc((size_t)n, sizeof *bufs);
    wr_slice *content = calloc((size_t)n, sizeof *content);
    wr_code rc = WR_OK;
    cJSON_ArrayForEach(o, objects) {
        where[i] = (wr_s3_object){.bucket = nth_text(o, 0), .key = nth_text(o, 1)};
        if (rc == WR_OK) rc = wr_file_get(nth_text(o, 2), SIZE_MAX / 4, &bufs[i], err);
        content[i] = wr_buf_view(&bufs[i]);
        i++;
    }
    if (rc == WR_OK) rc = wr_s3_put_many(s, where, content, n, err);
    for (i = 0; i < n; i++) wr_buf_free(&bufs[i]);
    free(where);
    free(bufs);
    free(content);
    return rc;
}

static wr_code get(wr_s3 *s, const cJSON *q, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_s3_object o = object(q);
    WR_TRY(
        wr_s3_get(s, &o, number(q, "at", 0), number(q, "n", UINT64_MAX), (size_t)number(q, "max", 1 << 30), &b, err));
    return wr_file_create(text(q, "file"), wr_buf_view(&b), err);
}

static wr_code remove_all(wr_s3 *s, const cJSON *q, wr_err *err) {
    const cJSON *objects = cJSON_GetObjectItem(q, "objects"), *o;
    int n = cJSON_GetArraySize(objects), i = 0;
    wr_s3_object *where = calloc((size_t)n, sizeof *where);
    cJSON_ArrayForEach(o, objects) where[i++] = (wr_s3_object){.bucket = nth_text(o, 0), .key = nth_text(o, 1)};
    wr_code rc = wr_s3_remove_many(s, where, n, err);
    free(where);
    return rc;
}

typedef struct listing {
    cJSON *keys;
    int stop;
} listing;

static wr_code list_one(void *ctx, const char *key, uint64_t bytes, int64_t modified_us, wr_err *err) {
    listing *l = ctx;
    cJSON *row = cJSON_CreateArray();
    cJSON_AddItemToArray(row, cJSON_CreateString(key));
    cJSON_AddItemToArray(row, cJSON_CreateNumber((double)bytes));
    cJSON_AddItemToArray(row, cJSON_CreateNumber((double)modified_us));
    cJSON_AddItemToArray(l->keys, row);
    return l->stop && cJSON_GetArraySize(l->keys) == l->stop ? wr_fail(err, WR_E_CANCELLED, WR_RETRY_NO, "stopped")
                                                             : WR_OK;
}

static wr_code run(wr_s3 *s, const cJSON *q, cJSON *answer, wr_err *err) {
    const char *op = text(q, "op");
    wr_s3_object o = object(q);
    if (strcmp(op, "put") == 0) return put(s, q, err);
    if (strcmp(op, "put_file") == 0) return wr_s3_put_files(s, &o, (const char *[]){text(q, "file")}, 1, err);
    if (strcmp(op, "get") == 0) return get(s, q, err);
    if (strcmp(op, "get_file") == 0) return wr_s3_get_file(s, &o, text(q, "file"), err);
    if (strcmp(op, "remove") == 0) return remove_all(s, q, err);
    if (strcmp(op, "list") == 0) {
        o.key = text(q, "prefix");
        listing l = {cJSON_AddArrayToObject(answer, "keys"), (int)number(q, "stop", 0)};
        return wr_s3_list(s, &o, list_one, &l, err);
    }
    return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "unknown op %s", op);
}

static void say(wr_code rc, const wr_err *err, cJSON *answer) {
    if (rc == WR_OK)
        cJSON_AddTrueToObject(answer, "ok");
    else {
        cJSON_AddStringToObject(answer, "error", wr_code_name(rc));
        cJSON_AddNumberToObject(answer, "retry", err->retry);
        cJSON_AddStringToObject(answer, "message", err->msg);
        cJSON_AddStringToObject(answer, "cure", err->cure);
    }
    char *line = cJSON_PrintUnformatted(answer);
    puts(line);
    fflush(stdout);
    free(line);
}

int main(int argc, char **argv) {
    wr_err err = WR_ERR_INIT;
    wr_s3 *s = NULL;
    cJSON *c = cJSON_Parse(argc > 1 ? argv[1] : "{}");
    wr_s3_options opts = {.endpoint = text(c, "endpoint"),
                          .region = text(c, "region"),
                          .path_style = cJSON_IsTrue(cJSON_GetObjectItem(c, "path_style")),
                          .ca_file = text(c, "ca_file"),
                          .part_bytes = number(c, "part_bytes", 0),
                          .parallel = (int)number(c, "parallel", 0),
                          .attempts = (int)number(c, "attempts", 0),
                          .stall_timeout_ms = (int)number(c, "stall_timeout_ms", 0)};
    opts.credentials = (wr_s3_credentials){text(c, "access_key"), text(c, "secret_key"), text(c, "session_token")};
    wr_code rc = wr_s3_open(&opts, &s, &err);
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, stdin) > 0) {
        cJSON *q = cJSON_Parse(line), *answer = cJSON_CreateObject();
        if (s) rc = run(s, q, answer, &err);
        say(rc, &err, answer);
        cJSON_Delete(q);
        cJSON_Delete(answer);
    }
    free(line);
    wr_s3_close(s);
    cJSON_Delete(c);
    return 0;
}
