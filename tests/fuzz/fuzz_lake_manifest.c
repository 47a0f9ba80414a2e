/* Any bytes as a manifest and as a manifest list. What can be read and belongs to no partition can be written, and
 * reads back alike. */
#include <stdlib.h>
#include <string.h>

#include "iceberg/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(x)                                                                                                        \
    if (!(x)) abort()

static const wr_spec plain; /* unpartitioned */
static void again(const wr_entries *e, int version, uint8_t content) {
    wr_err err = WR_ERR_INIT;
    wr_buf out = WR_BUF_INIT;
    wr_entries got = {0};
    wr_manifest_file row;
    wr_manifest_head h = {
        .format_version = version, .content = content, .schema_json = "{}", .spec = &plain, .snapshot_id = 1, .sequence = 5};
    if (wr_manifest_encode(&h, e, &out, &row, &err) == WR_OK) {
        row.path = "again.avro";
        MUST(wr_manifest_decode(wr_buf_view(&out), &row, NULL, true, &got, &err) == WR_OK);
        MUST(got.n == e->n);
        for (int i = 0; i < got.n; i++) {
            const wr_ice_file *a = e->v[i].file, *b = got.v[i].file;
            MUST(strcmp(a->path, b->path) == 0 && a->records == b->records && a->content == b->content);
            MUST(a->sequence == b->sequence && e->v[i].status == got.v[i].status);
        }
    }
    wr_entries_clear(&got);
    wr_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wr_err err = WR_ERR_INIT;
    wr_slice s = wr_slice_of(data, size);
    wr_manifest_list l = {0};
    if (wr_manifest_list_decode(s, "fuzz.avro", &l, &err) == WR_OK) {
        wr_buf out = WR_BUF_INIT;
        wr_manifest_list got = {0};
        wr_manifest_list_head h = {3, 1, -1, 5, 0};
        MUST(wr_manifest_list_encode(&h, &l, &out, &err) == WR_OK);
        MUST(wr_manifest_list_decode(wr_buf_view(&out), "again.avro", &got, &err) == WR_OK && got.n == l.n);
        wr_manifest_list_clear(&got);
        wr_buf_free(&out);
    }
    wr_manifest_list_clear(&l);
    for (uint8_t content = 0; content < 2; content++) {
        wr_manifest_file mf = {.path = "fuzz.avro",
                               .content = content,
                               .sequence = 5,
                               .snapshot_id = 1,
                               .first_row_id = content ? -1 : 100};
        wr_entries e = {0};
        if (wr_manifest_decode(s, &mf, NULL, true, &e, &err) == WR_OK) again(&e, 3, content), again(&e, 2, content);
        wr_entries_clear(&e);
    }
    return 0;
}
