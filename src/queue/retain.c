/* Releasing: what the lake has may go, a whole segment at a time, oldest first. */
#include "queue_impl.h"

#include <errno.h>
#include <stdio.h>
#include "weir/base/fault.h"
#include "weir/base/mem.h"

/* Keeps the file to be written over, or removes it. Durable before the next one goes, so that what is left is always a
 * run without holes. */
static wr_code drop_file(wr_queue *q, const segment *seg, bool keep, char **ret_spare, wr_err *err) {
    *ret_spare = NULL;
    if (WR_FAULT("queue.release"))
        return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "%s: fault point queue.release", seg->path);
    if (keep) {
        char name[40];
        snprintf(name, sizeof name, "spare-%016llx.wq", (unsigned long long)seg->hdr.id);
        WR_AUTO char *spare = wr_path_join(q->dir, name);
        if (!spare) return wr_nomem(err, "path", sizeof name);
        if (rename(seg->path, spare) != 0)
            return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "%s: rename to %s: %s", seg->path, spare, strerror(errno));
        *ret_spare = WR_STEAL(spare);
    } else {
        WR_TRY(wr_file_remove(seg->path, err));
    }
    WR_TRY(wr_fsync_parent(seg->path, err));
    if (WR_FAULT("queue.release.done"))
        return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "%s: fault point queue.release.done", seg->path);
    return WR_OK;
}

wr_code wr_queue_release(wr_queue *q, uint64_t offset, wr_err *err) {
    wr_code rc = WR_OK;
    pthread_mutex_lock(&q->release_lock);
    pthread_mutex_lock(&q->lock);
    if (offset > q->durable_offset) {
        rc = wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "release of %llu, but the queue is durable up to %llu only",
                     (unsigned long long)offset, (unsigned long long)q->durable_offset);
    } else if (offset > q->released_offset) {
        q->released_offset = offset;
        queue_count_pending(q);
        pthread_cond_broadcast(&q->progress);
    }
    while (rc == WR_OK && q->nsegs > 1 && q->segs[0]->last <= q->released_offset) {
        segment *seg = q->segs[0];
        q->nsegs--;
        memmove(q->segs, q->segs + 1, q->nsegs * sizeof *q->segs);
        /* A file somebody still reads must not be written over; removed, it stays readable for him. */
        bool keep = seg->refs == 1 && q->nspares < SPARES_MAX && seg->file_bytes <= 2 * q->opts.segment_bytes;
        uint64_t bytes = seg->file_bytes;
        pthread_mutex_unlock(&q->lock);
        char *spare;
        rc = drop_file(q, seg, keep, &spare, err);
        pthread_mutex_lock(&q->lock);
        if (spare) {
            if (q->nspares < SPARES_MAX) {
                q->spares[q->nspares++] = spare;
                q->spare_bytes += bytes;
            } else {
                wr_free(spare); /* the writer gave one back meanwhile; removed at the next open */
            }
        }
        queue_segment_unref(seg);
        if (q->soft.code) { /* there may be room now */
            q->retry_now = true;
            pthread_cond_signal(&q->work);
        }
    }
    pthread_mutex_unlock(&q->lock);
    pthread_mutex_unlock(&q->release_lock);
    return rc;
}
