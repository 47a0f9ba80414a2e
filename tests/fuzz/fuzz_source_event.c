/* Whole events through every parser, and as a stream through the applier with an empty catalogue. */
#include <stdlib.h>
#include <string.h>
#include "mysql/applier.h"
#include "mysql/event.h"
#include "mysql/gtid.h"
#include "weir/base/sum.h"

static wr_code on_change(void *ctx, const wr_change *c, wr_err *err) { return WR_OK; }
static wr_code on_ddl(void *ctx, const wr_ddl *d, wr_err *err) { return WR_OK; }
static wr_code on_commit(void *ctx, const wr_pos *p, int64_t us, wr_err *err) { return WR_OK; }
static wr_code on_abort(void *ctx, wr_err *err) { return WR_OK; }

/* The input is events one after another. Sizes and checksums are made right, so that the fuzzer need not guess them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const capture[] = {"fx\\..*"};
    wr_err err = WR_ERR_INIT;
    if (size < 1) return 0;
    wr_flavor flavor = data[0] & 1 ? WR_MYSQL : WR_MARIADB;
    static wr_capture *cap;
    wr_catalogue *cat = NULL;
    wr_applier *a = NULL;
    wr_pos from = {.file = "b.000001", .offset = 4, .gtid_set = (char *)""};
    const wr_stream_sink sink = {.ctx = NULL, .change = on_change, .ddl = on_ddl, .commit = on_commit, .abort = on_abort, .stopping = NULL};
    wr_applier_env env = {.sink = &sink, .flavor = flavor, .gtid = true};
    if (!cap && wr_capture_new(capture, 1, NULL, 0, &cap, &err) != WR_OK) return 0;
    if (wr_catalogue_new(cap, (wr_my_types){0}, flavor, &cat, &err) == WR_OK) {
        env.catalogue = cat;
        if (wr_applier_new(&env, &from, &a, &err) == WR_OK) {
            for (size_t at = 1; at < size;) {
                uint32_t n = 0;
                if (size - at >= EV_HEADER_BYTES) memcpy(&n, data + at + 9, 4);
                if (n < EV_HEADER_BYTES || n > size - at) n = (uint32_t)(size - at);
                uint8_t *p = malloc(n);
                memcpy(p, data + at, n);
                if (n >= EV_HEADER_BYTES + 4) {
                    memcpy(p + 9, &n, 4);
                    uint32_t crc = wr_crc32(0, p, n - 4);
                    memcpy(p + n - 4, &crc, 4);
                }
                wr_applier_feed(a, wr_slice_of(p, n), &err);
                free(p);
                at += n;
            }
            wr_applier_cut(a, &err);
        }
    }
    wr_applier_free(a);
    wr_catalogue_free(cat);
    return 0;
}
