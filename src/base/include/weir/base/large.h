/* Rows of many megabytes. Whoever handles one holds all of it. So that this does not add up over the threads of a process, one of
 * them has such a row at a time, and the others wait with theirs: from the moment somebody knows that one comes until it has been handed on.
 *
 * Between enter and leave nobody may wait for another thread that could want to enter; then nothing else that is waited for can make a deadlock. So
 * - it comes before every other lock: who could come to a large row with a lock in hand has entered before that one (wr_load_writer_new);
 * - a server, a store, a disk and the queue's writer may be waited for: none of them enters;
 * - room in the queue that others make by taking rows from it is not waited for: capture is in here with events of rows alone, which end no transaction (wr_queue_end);
 * - a worker's end (upkeep, load, capture, comparison) is not waited for: the applying thread is in here from a change's last piece until it reads the next record, and
 *   commits, loads and closing come after that;
 * - a turn to read the source is taken before the first row, not with one in hand.
 * @thread any; the one that entered leaves. It may enter again in between.
 */
#ifndef WEIR_BASE_LARGE_H
#define WEIR_BASE_LARGE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define WR_LARGE_BYTES ((size_t)0xffffff) /* from here on a row is large; MySQL's protocol says that much in front of it */

void wr_large_enter(void);
void wr_large_leave(void);

/* memcpy of what is not needed any more where it is: there it becomes zeroes, and its memory is free as the copy grows. from: of the heap. */
void wr_large_move_(void *to, const void *from, size_t n);
static inline void wr_large_move(void *to, const void *from, size_t n) {
    if (__builtin_expect(n < WR_LARGE_BYTES, 1)) memcpy(to, from, n);
    else wr_large_move_(to, from, n);
}

/* Enters unless *held. */
static inline void wr_large_hold(bool *held) {
    if (!*held) wr_large_enter();
    *held = true;
}
/* Leaves if *held. */
static inline void wr_large_let_go(bool *held) {
    if (*held) wr_large_leave();
    *held = false;
}

#endif
