/* GTID sets as text and as bytes: what is read prints to something that reads back to the same. */
#include <stdlib.h>
#include <string.h>
#include "mysql/gtid.h"

static void round_trip(wr_flavor f, wr_gtid_set *s) {
    wr_err err = WR_ERR_INIT;
    wr_buf a = WR_BUF_INIT, b = WR_BUF_INIT;
    wr_gtid_set *t = NULL;
    if (wr_gtid_set_print(s, &a, &err) != WR_OK || wr_gtid_set_parse(f, wr_buf_cstr(&a), &t, &err) != WR_OK || wr_gtid_set_print(t, &b, &err) != WR_OK) abort();
    if (a.n != b.n || (a.n && memcmp(a.p, b.p, a.n))) abort();
    if (!wr_gtid_set_covers(s, t) || !wr_gtid_set_covers(t, s)) abort();
    wr_gtid_set_free(t);
    wr_buf_free(&a), wr_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wr_err err = WR_ERR_INIT;
    wr_gtid_set *s = NULL;
    if (size < 1) return 0;
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    switch (data[0] & 3) {
    case 0: if (wr_gtid_set_parse(WR_MYSQL, text, &s, &err) == WR_OK) round_trip(WR_MYSQL, s); break;
    case 1: if (wr_gtid_set_parse(WR_MARIADB, text, &s, &err) == WR_OK) round_trip(WR_MARIADB, s); break;
    case 2:
        /* tags in bytes are whatever was written; text has letters only */
        wr_gtid_set_decode(wr_slice_of(text, size - 1), &s, &err);
        break;
    default: if (wr_gtid_set_decode_list(wr_slice_of(text, size - 1), &s, &err) == WR_OK) round_trip(WR_MARIADB, s); break;
    }
    wr_gtid_set_free(s);
    free(text);
    return 0;
}
