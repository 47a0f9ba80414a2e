/* A segment of arbitrary bytes: opened as a queue's last (and only) one, read to its end, then written on. The
 * checksums are made right first, so that the fuzzer gets behind them. The first input byte chooses what is done.
 * Nothing may crash; what opens must read as whole transactions with rising offsets. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "format.h"
#include "weir/base/mem.h"
#include "weir/base/sum.h"
#include "weir/io.h"
#include "weir/queue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64], file[128];

static void leave(void) {
    char path[128];
    unlink(file);
    snprintf(path, sizeof path, "%s/lock", dir);
    unlink(path);
    rmdir(dir);
}

static void arrive(void) {
    if (*dir) return;
    snprintf(dir, sizeof dir, "%s/weir-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(dir)) abort();
    snprintf(file, sizeof file, "%s/00000000000000000001.wq", dir);
    atexit(leave);
}

static uint32_t crc_around(uint8_t *p, size_t n, size_t hole) {
    memset(p + hole, 0, 4);
    uint32_t c = wr_crc32c(0, p, n);
    memcpy(p + hole, &c, 4);
    return c;
}

/* Checksums as they would have to be, as far as the sizes go along. */
static void mend(uint8_t *p, size_t n) {
    uint32_t hdr, stored, crc;
    if (n < SEG_HDR_MIN) return;
    memcpy(&hdr, p + 48, 4);
    if (hdr < SEG_HDR_MIN || hdr > n) return;
    crc_around(p, hdr, 12);
    for (uint64_t at = hdr; at + BLOCK_HDR <= n;) {
        memcpy(&stored, p + at + 20, 4);
        if (stored > n - at - BLOCK_HDR) return;
        crc = wr_crc32c(0, p + at + BLOCK_HDR, stored);
        memcpy(p + at + 16, &crc, 4);
        crc_around(p + at, BLOCK_HDR, 4);
        at += ALIGN64(BLOCK_HDR + (uint64_t)stored);
    }
}

static void read_all(wr_queue *q) {
    wr_err err = WR_ERR_INIT;
    wr_queue_reader *r;
    wr_queue_stats st;
    wr_queue_get_stats(q, &st);
    if (wr_queue_reader_new(q, st.first_offset - 1, &r, &err) != WR_OK) return;
    uint64_t offset = st.first_offset - 1;
    wr_queue_record rec;
    wr_code rc;
    while ((rc = wr_queue_read(r, 0, &rec, &err)) == WR_OK) {
        assert(rec.offset == offset + 1 && rec.offset <= st.last_offset);
        if (rec.kind == 0) offset++;
    }
    assert(rc == WR_E_CORRUPT || (rc == WR_E_TIMEOUT && offset == st.last_offset));
    wr_queue_reader_free(r);
}

/* Records and ends alone: a block's raw bytes. */
static void records(wr_slice raw) {
    wr_err err = WR_ERR_INIT;
    wr_rd rd = wr_rd_of(raw.p, raw.n);
    pos_state st = {0};
    uint8_t tag;
    wr_slice body;
    while (wr_rd_left(&rd) && rec_next(&rd, &tag, &body)) {
        if ((tag & REC_KIND) != REC_END || end_decode(&st, body, &err) != WR_OK) continue;
        /* What was understood says the same when it is written and read again. */
        wr_buf b = WR_BUF_INIT;
        pos_state again = {0};
        if (!st.pos.gtid_set || strlen(st.pos.gtid_set) == st.set_n) {
            end_encode(&b, &again, &st.pos, st.time_us);
            assert(end_decode(&again, wr_buf_view(&b), &err) == WR_OK);
            assert(again.pos.offset == st.pos.offset && again.time_us == st.time_us);
        }
        wr_buf_free(&b);
        pos_state_free(&again);
    }
    pos_state_free(&st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > (1u << 20)) return 0;
    uint8_t way = data[0];
    if (way % 4 == 3) {
        records(wr_slice_of(data + 1, size - 1));
        return 0;
    }
    arrive();
    uint8_t *p = malloc(size);
    if (!p) return 0;
    memcpy(p, data + 1, size - 1);
    if (way % 4 != 2) mend(p, size - 1);
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, p, size - 1) != (ssize_t)(size - 1)) abort();
    close(fd);
    free(p);
    wr_err err = WR_ERR_INIT;
    wr_queue *q;
    wr_queue_options opts = {.block_bytes = 4096, .sync_every_us = 1};
    if (wr_queue_open(dir, &opts, &q, &err) == WR_OK) {
        read_all(q);
        uint64_t offset;
        wr_pos pos = {.file = "b.1"};
        if (wr_queue_append(q, WR_REC_CHANGE, wr_slice_of(data, size), &err) != WR_OK ||
            wr_queue_end(q, &pos, 1, &offset, &err) != WR_OK || wr_queue_sync(q, &err) != WR_OK)
            abort();
        wr_queue_close(q);
        if (wr_queue_open(dir, &opts, &q, &err) == WR_OK)
            wr_queue_close(q);
        else
            abort();
    } else {
        assert(err.code == WR_E_CORRUPT || err.code == WR_E_UNSUPPORTED);
    }
    unlink(file);
    return 0;
}
