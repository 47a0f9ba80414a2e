/* Requests to S3: where they go, their signature, what is tried again, and what the errors mean. @thread any */
#ifndef WEIR_IO_S3_CALL_H
#define WEIR_IO_S3_CALL_H

#include "s3.h"

struct wr_s3 {
    wr_http *http;
    char *scheme, *host; /* host[:port], without the scheme's own port */
    char *region;
    bool path_style;
    wr_s3_credentials credentials; /* own copies */
    uint64_t part_bytes;
    int parallel, attempts;
    int64_t skew_us;    /* atomic: the server's clock minus ours, once it refused ours */
    bool unconditional; /* atomic: the server has no If-None-Match */
};

typedef struct wr_s3_digest {
    char sha256[65]; /* hex */
    uint8_t md5[16];
} wr_s3_digest;
wr_code wr_s3_digest_mem_(wr_slice s, wr_s3_digest *ret_digest, wr_err *err);
wr_code wr_s3_digest_file_(const char *path, uint64_t at, uint64_t n, wr_s3_digest *ret_digest, wr_err *err);

typedef struct wr_s3_error {
    char code[64], message[400], region[64]; /* "" = not said */
    bool is_error;
} wr_s3_error;
/* What an answer's body says of an error. One that cannot be read (a page of a proxy, none at all) says nothing. */
void wr_s3_error_read_(wr_slice body, wr_s3_error *ret_error);

typedef struct wr_s3_call {
    const char *method;
    const wr_s3_object *o;
    bool on_bucket;    /* the bucket itself; o->key is not in the path */
    const char *query; /* encoded and sorted; NULL = none */
    const char *range; /* "bytes=0-99" or NULL */
    bool if_absent;    /* If-None-Match: * */
    bool has_body;
    wr_slice body; /* or: */
    const char *body_file;
    uint64_t body_at, body_n;
    wr_s3_digest digest; /* of the body */
    bool error_in_200;   /* the answer's body may be an error in spite of its status */
    size_t max_response;

    /* what came of it */
    wr_code code;
    wr_err err;
    wr_http_response resp; /* of the last attempt */
    char s3_code[64];      /* "NoSuchKey", or "" */
    bool maybe_done;       /* an attempt before the last may have been carried out */
    int attempts;          /* made */
    bool skewed, pending;  /* the clock was corrected; another attempt is due */
} wr_s3_call;
/* All of them, up to s->parallel at a time, each until it succeeds, cannot or was tried s->attempts times. */
wr_code wr_s3_run_(wr_s3 *s, wr_s3_call *calls, int n,
                   wr_err *err); /* only WR_E_NOMEM; else the results are in the calls */
void wr_s3_call_clear_(wr_s3_call *c);

#endif
