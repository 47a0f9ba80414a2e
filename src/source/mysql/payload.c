#include "payload.h"
#include <string.h>
#include <zstd.h>
#include "weir/base/mem.h"

/* How much is unpacked at a time; an event longer than that grows the buffer as its bytes arrive, not by what its header claims. */
#define STEP_BYTES ((size_t)256 << 10)

struct wr_payload {
    ZSTD_DStream *z;
    wr_buf buf;
};

wr_payload *wr_payload_new(void) {
    wr_payload *p = wr_calloc(1, sizeof *p);
    if (p && !(p->z = ZSTD_createDStream())) {
        wr_free(p);
        return NULL;
    }
    return p;
}

void wr_payload_free(wr_payload *p) {
    if (!p) return;
    ZSTD_freeDStream(p->z);
    wr_buf_free(&p->buf);
    wr_free(p);
}

/* Hands over the whole events at the start of `bytes`, each of at most `max`; *ret_used = how much that was. */
static wr_code drain(wr_slice bytes, size_t max, size_t *ret_used, wr_payload_fn *fn, void *ctx, wr_err *err) {
    size_t at = 0;
    while (bytes.n - at >= EV_HEADER_BYTES) {
        uint32_t size;
        memcpy(&size, bytes.p + at + 9, 4);
        if (size < EV_HEADER_BYTES || size > max)
            return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "TRANSACTION_PAYLOAD holds an event of %u bytes; %d to %zu are taken (source.max_packet)", size, EV_HEADER_BYTES, max);
        if (size > bytes.n - at) break;
        WR_TRY(fn(ctx, wr_slice_of(bytes.p + at, size), err));
        at += size;
    }
    *ret_used = at;
    return WR_OK;
}

static wr_code unpack(wr_payload *p, wr_slice in, size_t max, wr_payload_fn *fn, void *ctx, wr_err *err) {
    ZSTD_DCtx_reset(p->z, ZSTD_reset_session_only);
    wr_buf_clear(&p->buf);
    ZSTD_inBuffer zi = {in.p, in.n, 0};
    size_t more = 1;
    for (;;) {
        uint8_t *to = wr_buf_room(&p->buf, STEP_BYTES);
        if (!to) return wr_nomem(err, "TRANSACTION_PAYLOAD", p->buf.n + STEP_BYTES);
        ZSTD_outBuffer zo = {to, STEP_BYTES, 0};
        more = ZSTD_decompressStream(p->z, &zo, &zi);
        if (ZSTD_isError(more)) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "TRANSACTION_PAYLOAD: zstd says %s", ZSTD_getErrorName(more));
        p->buf.n += zo.pos;
        size_t used;
        WR_TRY(drain(wr_buf_view(&p->buf), max, &used, fn, ctx, err));
        memmove(p->buf.p, p->buf.p + used, p->buf.n - used);
        p->buf.n -= used;
        if (zo.pos == STEP_BYTES) continue; /* there may be more inside */
        if (zi.pos == zi.size) break;
        if (zo.pos == 0 && more != 0) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "TRANSACTION_PAYLOAD does not unpack");
    }
    if (more != 0 || p->buf.n) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "TRANSACTION_PAYLOAD ends inside %s", p->buf.n ? "an event" : "its compressed data");
    return WR_OK;
}

wr_code wr_payload_each(wr_payload *p, const wr_event *ev, wr_payload_fn *fn, void *ctx, wr_err *err) {
    /* type-length-value fields up to type 0: 1 payload size, 2 compression (0 zstd, 255 none), 3 uncompressed size */
    wr_rd r = wr_rd_of(ev->body.p, ev->body.n);
    uint64_t size = 0, compression = 255;
    bool sized = false;
    for (;;) {
        uint64_t type = wr_rd_lenenc(&r);
        if (r.bad) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "TRANSACTION_PAYLOAD's header is cut");
        if (type == 0) break;
        wr_slice v = wr_rd_bytes(&r, wr_rd_lenenc(&r));
        wr_rd f = wr_rd_of(v.p, v.n);
        if (type == 1) size = wr_rd_lenenc(&f), sized = !f.bad;
        else if (type == 2) compression = wr_rd_lenenc(&f);
        if (f.bad) r.bad = true;
    }
    if (!sized || size != wr_rd_left(&r)) return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "TRANSACTION_PAYLOAD claims %llu bytes and has %zu",
                                                         (unsigned long long)size, wr_rd_left(&r));
    wr_slice in = wr_rd_bytes(&r, size);
    if (compression == 0) {
        wr_code rc = unpack(p, in, wr_event_unpacked_max(ev), fn, ctx, err);
        wr_buf_rest(&p->buf);
        return rc;
    }
    if (compression != 255)
        return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "TRANSACTION_PAYLOAD with compression %llu; zstd (0) and none (255) are known",
                       (unsigned long long)compression);
    size_t used;
    WR_TRY(drain(in, wr_event_unpacked_max(ev), &used, fn, ctx, err));
    return used == in.n ? WR_OK : wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "TRANSACTION_PAYLOAD ends inside an event");
}
