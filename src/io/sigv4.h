/* AWS Signature Version 4 for S3, from given values alone. Source: Amazon S3 API reference, "Authenticating Requests".
 * @thread any */
#ifndef WEIR_IO_SIGV4_H
#define WEIR_IO_SIGV4_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"

typedef struct wr_sigv4 {
    const char *method;
    const char *path;  /* as it is sent: encoded once, begins with "/" */
    const char *query; /* as it is sent: "name=value&...", encoded, sorted by name; "" = none */
    const char *const
        *headers; /* those to sign: "name:value", names in lower case and sorted, no spaces around values */
    int nheaders;
    const char *payload_sha256; /* hex in lower case */
    const char *region;
    int64_t now_us; /* since 1970 UTC; x-amz-date must be the same second */
} wr_sigv4;
/* Value of the Authorization header. Appends. */
wr_code wr_sigv4_authorize(const wr_sigv4 *req, const char *access_key, const char *secret_key, wr_buf *b, wr_err *err);
/* "20130524T000000Z" into out; returns out. */
char *wr_sigv4_time(int64_t now_us, char out[17]);
/* Everything but A-Z a-z 0-9 - . _ ~ (and "/" when it is kept) as %XX. Appends. */
void wr_sigv4_encode(wr_buf *b, const char *s, bool keep_slash);
/* Hex in lower case, 2 * n characters and a NUL. */
char *wr_sigv4_hex(const uint8_t *p, size_t n, char *out);

#endif
