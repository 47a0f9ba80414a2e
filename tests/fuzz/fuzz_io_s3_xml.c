/* Any bytes as an answer of S3: an error that says what, or elements whose texts are strings within their limits. */
#include <stdlib.h>
#include <string.h>

#include "s3_call.h"
#include "s3_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(x)                                                                                                        \
    if (!(x)) abort()

static wr_code look(void *ctx, const char *path, const char *text, wr_err *err) {
    MUST(path[0] && strlen(path) < WR_S3_XML_PATH_MAX && strlen(text) <= WR_S3_XML_TEXT_MAX);
    *(int *)ctx += 1;
    return WR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wr_err err = WR_ERR_INIT;
    wr_s3_error e;
    int elements = 0;
    wr_code rc = wr_s3_xml_read(wr_slice_of(data, size), look, &elements, &err);
    MUST(rc == WR_OK ? elements > 0 : rc == WR_E_DECODE && err.msg[0]);
    wr_s3_error_read_(wr_slice_of(data, size), &e);
    MUST(rc == WR_OK || !e.is_error);
    MUST(strlen(e.code) < sizeof e.code && strlen(e.message) < sizeof e.message && strlen(e.region) < sizeof e.region);
    return 0;
}
