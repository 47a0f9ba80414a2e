/* MySQL's TRANSACTION_PAYLOAD: a whole transaction's events in one zstd stream. Unpacked event by event, never as a whole.
 * @thread stream */
#ifndef WEIR_SOURCE_MYSQL_PAYLOAD_H
#define WEIR_SOURCE_MYSQL_PAYLOAD_H

#include "event.h"

typedef struct wr_payload wr_payload; /* buffers and the zstd context, to be used again */
wr_payload *wr_payload_new(void);     /* NULL when memory is out */
void wr_payload_free(wr_payload *p);

typedef wr_code wr_payload_fn(void *ctx, wr_slice event, wr_err *err);
/* Calls fn with the bytes of each inner event (header included, no checksum). WR_E_DECODE, WR_E_UNSUPPORTED for another compression. */
wr_code wr_payload_each(wr_payload *p, const wr_event *ev, wr_payload_fn *fn, void *ctx, wr_err *err);

#endif
