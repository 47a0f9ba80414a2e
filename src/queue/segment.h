/* Segment files: making, reusing, opening, cutting. No locks in here; who calls makes sure of one thread per object. */
#ifndef WEIR_QUEUE_SEGMENT_H
#define WEIR_QUEUE_SEGMENT_H

#include "format.h"
#include "weir/io.h"

typedef struct segment {
    char *path; /* owned; constant while the segment is in the queue's list */
    seg_hdr hdr;
    int refs;            /* the list holds one, every reader on it one. lock: queue.lock */
    bool sealed;         /* nothing more is written to it. lock: queue.lock */
    uint64_t bytes;      /* header and blocks: where the next block goes. lock: queue.lock */
    uint64_t synced;     /* of them durable. lock: queue.lock */
    uint64_t file_bytes; /* of the file; more than `bytes` when it was a spare. lock: queue.lock */
    uint64_t last;       /* last transaction complete in it; hdr.first - 1 when none. lock: queue.lock */
} segment;

#define SEG_NAME_BYTES 24 /* 20 digits, ".wq", NUL */
void segment_name(uint64_t first, char buf[SEG_NAME_BYTES]);
/* first offset of a segment's file name, 0 when it is none */
uint64_t segment_name_parse(const char *name);

/* A durable segment under its name, without blocks. With spare_path that file is reused, and is gone from there on
 * success. hdr: id and hdr_bytes are filled in here. *ret_file is open for writing. */
wr_code segment_make(const char *dir, const seg_hdr *hdr, const wr_pos *pos, const char *spare_path, segment **ret_seg,
                     wr_file **ret_file, wr_err *err);
/* Reads the header of an existing segment. */
wr_code segment_load(const char *path, segment **ret_seg, wr_pos *ret_pos, wr_err *err);
void segment_free(segment *seg);

/* Verifies the last segment block by block and cuts what is behind its last complete transaction; afterwards bytes =
 * synced = file_bytes and everything is durable. *pos comes in as the position of its header and goes out as the last
 * one. */
wr_code segment_recover(segment *seg, wr_file *f, pos_state *pos, wr_err *err);
/* Cuts the file at `at`, durably. */
wr_code segment_cut(segment *seg, wr_file *f, uint64_t at, wr_err *err);

/* The message for damage at byte `at`: names file, byte, last good transaction and the way out. why may be "". */
wr_code segment_corrupt(const segment *seg, uint64_t at, uint64_t last_good, const wr_pos *pos, const char *why,
                        wr_err *err);

#endif
