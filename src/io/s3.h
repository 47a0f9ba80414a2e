/* S3 requests: signature version 4, retries, uploads in parts. Private to io. Source: Amazon S3 API reference; AWS Signature Version 4.
 * @thread any */
#ifndef WEIR_IO_S3_H
#define WEIR_IO_S3_H

#include "weir/http.h"
#include "weir/store.h"

typedef struct wr_s3 wr_s3;
wr_code wr_s3_open(const wr_s3_options *opts, wr_s3 **ret_s3, wr_err *err);
void wr_s3_close(wr_s3 *s);

typedef struct wr_s3_object { /* where, and in whose name */
    const char *bucket, *key;
    const wr_s3_credentials *credentials; /* NULL: the client's own */
} wr_s3_object;

/* Requests repeat themselves with back-off (wr_http_backoff_us) after 500, 502, 503, 504, 429, SlowDown, RequestTimeout and lost connections.
 * put uses If-None-Match: * where the server has it (one that answers 501 or 400 NotImplemented to that is asked without from then on); a 412 is success
 * when the object there has our length and content (ETag = MD5, or for parts the MD5 of MD5s), else WR_E_EXISTS. */
wr_code wr_s3_put_many(wr_s3 *s, const wr_s3_object *o, const wr_slice *content, int n, wr_err *err); /* parallel */
/* Small files in parallel; those above part_bytes in parts, which go in parallel. Aborted uploads are taken back. */
wr_code wr_s3_put_files(wr_s3 *s, const wr_s3_object *o, const char *const *paths, int n, wr_err *err);
/* offset 0 and n UINT64_MAX: all of it, WR_E_LIMIT above max_bytes. Appends. WR_E_NOTFOUND; a range that ends early is WR_E_DECODE. */
wr_code wr_s3_get(wr_s3 *s, const wr_s3_object *o, uint64_t offset, uint64_t n, size_t max_bytes, wr_buf *b, wr_err *err);
wr_code wr_s3_get_file(wr_s3 *s, const wr_s3_object *o, const char *path, wr_err *err); /* path must not exist; ranges in parallel; length checked */
wr_code wr_s3_remove_many(wr_s3 *s, const wr_s3_object *o, int n, wr_err *err); /* parallel; missing is fine; goes on after an error */
wr_code wr_s3_list(wr_s3 *s, const wr_s3_object *prefix, wr_code (*fn)(void *ctx, const char *key, uint64_t bytes, int64_t modified_us, wr_err *err), void *ctx, wr_err *err);

#endif
