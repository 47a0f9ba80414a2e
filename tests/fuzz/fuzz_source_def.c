/* Recorded table definitions: what is taken must make a schema and come out again as the same JSON. */
#include <stdlib.h>

#include "mysql/def.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wr_err err = WR_ERR_INIT;
    wr_my_types types = {.zero_date = size & 1 ? WR_ZERO_STRING : WR_ZERO_NULL};
    wr_my_table *t = NULL, *again = NULL;
    if (wr_my_table_from_json(wr_slice_of(data, size), types, &t, &err) != WR_OK) return 0;
    WR_AUTO_BUF wr_buf a = WR_BUF_INIT;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    if (wr_my_table_to_json(t, &a, &err) != WR_OK || wr_my_table_from_json(wr_buf_view(&a), types, &again, &err) != WR_OK) abort();
    if (wr_my_table_to_json(again, &b, &err) != WR_OK || !wr_slice_eq(wr_buf_view(&a), wr_buf_view(&b))) abort();
    bool initial[4096];
    for (int i = 0; i < t->ncols; i++) initial[i] = true;
    if (t->ncols && wr_my_table_finish(t, types, initial, &err) != WR_OK) abort();
    wr_my_table *c = wr_my_table_clone(t);
    wr_my_table_free(c);
    wr_my_table_free(t);
    wr_my_table_free(again);
    return 0;
}
