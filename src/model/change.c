#include "weir/model.h"

#include <assert.h>

/* u8 operation, varint table, varint schema version, then the images the operation has. */
void wr_change_encode(wr_buf *b, const wr_change *c) {
    assert(c->op >= WR_OP_INSERT && c->op <= WR_OP_DELETE);
    wr_buf_u8(b, c->op);
    wr_buf_varint(b, c->table);
    wr_buf_varint(b, c->schema_version);
    if (c->op != WR_OP_INSERT) wr_buf_slice(b, c->before);
    if (c->op != WR_OP_DELETE) wr_buf_slice(b, c->after);
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
