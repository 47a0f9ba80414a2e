#include "weir/model.h"

#include <assert.h>

static size_t put_varint(uint8_t *d, uint64_t v) {
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) d[n++] = (uint8_t)(v | 0x80);
    d[n++] = (uint8_t)v;
    return n;
}

/* u8 operation, varint table, varint schema version, then the images the operation has: varint length, bytes. */
void wr_change_split(const wr_change *c, wr_change_parts *ret) {
    assert(c->op >= WR_OP_INSERT && c->op <= WR_OP_DELETE);
    // cppcheck-suppress uninitvar; an array's place, of which nothing is read
    uint8_t *head = ret->head[0];
    size_t n = 0;
    head[n++] = c->op;
    n += put_varint(head + n, c->table);
    n += put_varint(head + n, c->schema_version);
    ret->n = 0;
    for (int i = 0; i < 2; i++) {
        if (c->op == (i ? WR_OP_DELETE : WR_OP_INSERT)) continue;
        wr_slice image = i ? c->after : c->before;
        n += put_varint(head + n, image.n);
        ret->part[ret->n++] = wr_slice_of(head, n);
        ret->part[ret->n++] = image;
        head = ret->head[1], n = 0;
    }
}

void wr_change_encode(wr_buf *b, const wr_change *c) {
    wr_change_parts p;
    wr_change_split(c, &p);
    for (int i = 0; i < p.n; i++) wr_buf_put(b, p.part[i].p, p.part[i].n);
}

wr_code wr_change_decode(wr_rd *r, wr_change *ret_change, wr_err *err) {
    uint8_t op = wr_rd_u8(r);
    if (!r->bad && (op < WR_OP_INSERT || op > WR_OP_DELETE))
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "change has unknown operation %u", op);
    uint64_t table = wr_rd_varint(r), version = wr_rd_varint(r);
    wr_slice before = {0}, after = {0};
    if (op != WR_OP_INSERT) before = wr_rd_slice(r);
    if (op != WR_OP_DELETE) after = wr_rd_slice(r);
    if (r->bad) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "change is cut short");
    if (table > UINT32_MAX || version > UINT32_MAX)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "change has table %llu and schema version %llu",
                       (unsigned long long)table, (unsigned long long)version);
    /* A row has at least its null bitmap. */
    if ((op != WR_OP_INSERT && before.n == 0) || (op != WR_OP_DELETE && after.n == 0))
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "change of table %u has an empty row", (unsigned)table);
    *ret_change = (wr_change){
        .op = op, .table = (uint32_t)table, .schema_version = (uint32_t)version, .before = before, .after = after};
    return WR_OK;
}
