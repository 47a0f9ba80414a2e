/* A bounded channel of pointers: how threads hand over ownership. Several senders and receivers.
 * @thread any */
#ifndef WEIR_BASE_CHAN_H
#define WEIR_BASE_CHAN_H

#include <stddef.h>
#include <stdint.h>
#include "weir/base/err.h"

typedef struct wr_chan wr_chan;
wr_chan *wr_chan_new(size_t capacity); /* NULL when memory is out */
void wr_chan_free(wr_chan *c, void (*free_item)(void *));
/* Waits for room. WR_E_CANCELLED once closed: the item stays the caller's. */
wr_code wr_chan_send(wr_chan *c, void *item);
/* Waits at most timeout_ms (-1 = for ever). WR_E_TIMEOUT; WR_E_CANCELLED when closed and empty. */
wr_code wr_chan_recv(wr_chan *c, int timeout_ms, void **ret_item);
void wr_chan_close(wr_chan *c); /* wakes everybody; what is inside can still be received */
size_t wr_chan_len(wr_chan *c);

#endif
