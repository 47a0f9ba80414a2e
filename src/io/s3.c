#include "s3.h"
static wr_code no(wr_err *err) { return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "no S3 yet"); }
wr_code wr_s3_open(const wr_s3_options *opts, wr_s3 **ret_s3, wr_err *err) { return no(err); }
void wr_s3_close(wr_s3 *s) {}
wr_code wr_s3_put_many(wr_s3 *s, const wr_s3_object *o, const wr_slice *content, int n, wr_err *err) { return no(err); }
wr_code wr_s3_put_file(wr_s3 *s, const wr_s3_object *o, const char *path, wr_err *err) { return no(err); }
wr_code wr_s3_get(wr_s3 *s, const wr_s3_object *o, uint64_t offset, uint64_t n, size_t max_bytes, wr_buf *b, wr_err *err) { return no(err); }
wr_code wr_s3_get_file(wr_s3 *s, const wr_s3_object *o, const char *path, wr_err *err) { return no(err); }
wr_code wr_s3_remove_many(wr_s3 *s, const wr_s3_object *o, int n, wr_err *err) { return no(err); }
wr_code wr_s3_list(wr_s3 *s, const wr_s3_object *prefix, wr_code (*fn)(void *ctx, const char *key, uint64_t bytes, int64_t modified_us, wr_err *err), void *ctx, wr_err *err) { return no(err); }
