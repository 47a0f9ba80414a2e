/* Shared by the queue's tests: a folder that cleans up after itself, and transactions made from their offset alone, so
 * that whatever a queue holds can be checked without remembering what was put in. */
#ifndef TESTS_QUEUE_HELPER_H
#define TESTS_QUEUE_HELPER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"
#include "weir/queue.h"
#include "weir/io.h"

#define OK(expr)                                                                                                       \
    do {                                                                                                               \
        wr_code ok_rc_ = (expr);                                                                                       \
        if (ok_rc_ != WR_OK) fail_msg("%s: %s: %s", #expr, wr_code_name(ok_rc_), err.msg);                             \
    } while (0)

static inline uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* ---- folders */
static inline char *temp_dir(void) {
    const char *base = getenv("TMPDIR");
    char *p = wr_asprintf("%s/weir-queue-XXXXXX", base && *base ? base : "/tmp");
    if (!p || !mkdtemp(p)) abort();
    return p;
}
/* in memory where there is such a place: for tests that open thousands of queues */
static inline char *temp_dir_fast(void) {
    char *p = wr_strdup("/dev/shm/weir-queue-XXXXXX");
    if (p && mkdtemp(p)) return p;
    wr_free(p);
    return temp_dir();
}
static inline wr_code rm_one(void *ctx, const char *name, wr_err *err) {
    char *p = wr_path_join(ctx, name);
    if (unlink(p) != 0) rmdir(p);
    wr_free(p);
    return WR_OK;
}
static inline void empty_dir(char *dir) {
    wr_err err = WR_ERR_INIT;
    wr_dir_list(dir, rm_one, dir, &err);
}
static inline void drop_dir(char *dir) {
    empty_dir(dir);
    rmdir(dir);
    wr_free(dir);
}

typedef struct file_list {
    int n;
    char *names[256];
} file_list;
static inline wr_code list_one(void *ctx, const char *name, wr_err *err) {
    file_list *l = ctx;
    size_t n = strlen(name);
    if (n == 23 && strcmp(name + 20, ".wq") == 0 && l->n < 256) l->names[l->n++] = strdup(name);
    return WR_OK;
}
/* the segments of a queue's folder, in order */
static inline file_list segments(const char *dir) {
    file_list l = {0};
    wr_err err = WR_ERR_INIT;
    OK(wr_dir_list(dir, list_one, &l, &err));
    return l;
}
static inline void free_list(file_list *l) {
    while (l->n > 0) free(l->names[--l->n]);
}
static inline char *last_segment(const char *dir) {
    file_list l = segments(dir);
    assert_true(l.n > 0);
    char *p = wr_path_join(dir, l.names[l.n - 1]);
    free_list(&l);
    return p;
}

/* ---- transactions by offset */
typedef struct shape { /* how large they are */
    uint32_t records_max;
    uint32_t payload_max;
    uint32_t gtid_bytes; /* 0 = every third transaction has none, else about this long */
} shape;

static inline uint32_t txn_records(shape s, uint64_t offset) { return (uint32_t)(mix(offset) % (s.records_max + 1)); }
static inline wr_record_kind record_kind(uint64_t offset, uint32_t i) {
    return mix(offset * 31 + i) % 7 == 0 ? WR_REC_DDL : WR_REC_CHANGE;
}
static inline size_t record_make(shape s, uint64_t offset, uint32_t i, uint8_t *dst) {
    uint64_t x = mix(offset * 1000003 + i);
    size_t n = (size_t)(x % (s.payload_max + 1));
    bool packs = x & 1u << 20;
    for (size_t k = 0; k < n; k += 8) {
        uint64_t v = packs ? x ^ (k & 64) : mix(x + k);
        memcpy(dst + k, &v, n - k < 8 ? n - k : 8);
    }
    return n;
}
static inline void pos_make(shape s, uint64_t offset, wr_pos *pos, char *gtid) {
    memset(pos, 0, sizeof *pos);
    snprintf(pos->file, sizeof pos->file, "binlog.%06llu", (unsigned long long)(offset / 10 + 1));
    pos->offset = offset * 1000 + 4;
    if (s.gtid_bytes == 0 && offset % 3 == 0) return;
    size_t n = 0;
    for (unsigned k = 0; n == 0 || n < s.gtid_bytes; k++)
        n += (size_t)sprintf(gtid + n, "%s3e11fa47-71ca-11e1-9e33-c80aa942%04x:1-%llu", k ? "," : "", k,
                             (unsigned long long)(k == 1 ? offset * 7 : 1000 + k));
    sprintf(gtid + n, ":%llu", (unsigned long long)(offset + 2000));
    pos->gtid_set = gtid;
}
static inline int64_t time_make(uint64_t offset) {
    return (int64_t)(1700000000000000 + offset * 1500 - (offset % 5 == 0 ? 1000000 : 0));
}

#define PAYLOAD_ROOM (4u << 20)
static _Thread_local uint8_t *payload_room_;
static inline uint8_t *payload_room(void) {
    if (!payload_room_) payload_room_ = malloc(PAYLOAD_ROOM);
    if (!payload_room_) abort();
    return payload_room_;
}
static inline void payload_room_free(void) { /* at the end of a thread */
    free(payload_room_);
    payload_room_ = NULL;
}
static inline char *gtid_room_(void) {
    static _Thread_local char p[256 << 10];
    return p;
}

static inline wr_code append_records(wr_queue *q, shape s, uint64_t offset, wr_err *err) {
    uint8_t *p = payload_room();
    for (uint32_t i = 0, n = txn_records(s, offset); i < n; i++) {
        size_t bytes = record_make(s, offset, i, p);
        wr_slice parts[3] = {wr_slice_of(p, bytes / 3), wr_slice_of(p + bytes / 3, 0), wr_slice_of(p + bytes / 3, bytes - bytes / 3)};
        if (i % 2) WR_TRY(wr_queue_append_parts(q, record_kind(offset, i), parts, 3, err));
        else WR_TRY(wr_queue_append(q, record_kind(offset, i), wr_slice_of(p, bytes), err));
    }
    return WR_OK;
}
static inline wr_code produce(wr_queue *q, shape s, wr_err *err) {
    uint64_t offset = wr_queue_next_offset(q), got;
    wr_pos pos;
    WR_TRY(append_records(q, s, offset, err));
    pos_make(s, offset, &pos, gtid_room_());
    WR_TRY(wr_queue_end(q, &pos, time_make(offset), &got, err));
    assert_int_equal(got, offset);
    return WR_OK;
}

static inline void check_pos(shape s, uint64_t offset, const wr_pos *got) {
    wr_pos want;
    pos_make(s, offset, &want, gtid_room_());
    assert_string_equal(got->file, want.file);
    assert_int_equal(got->offset, want.offset);
    assert_int_equal(got->gtid_set != NULL, want.gtid_set != NULL);
    if (want.gtid_set) assert_string_equal(got->gtid_set, want.gtid_set);
}
/* Reads transaction `offset` and checks every byte of it. The code of the read that failed otherwise. */
static inline wr_code check_txn(wr_queue_reader *r, shape s, uint64_t offset, int timeout_ms, wr_err *err) {
    uint8_t *want = payload_room();
    wr_queue_record rec;
    for (uint32_t i = 0, n = txn_records(s, offset); i < n; i++) {
        WR_TRY(wr_queue_read(r, timeout_ms, &rec, err));
        assert_int_equal(rec.offset, offset);
        assert_int_equal(rec.kind, record_kind(offset, i));
        size_t bytes = record_make(s, offset, i, want);
        assert_int_equal(rec.payload.n, bytes);
        assert_memory_equal(rec.payload.p, want, bytes);
    }
    WR_TRY(wr_queue_read(r, timeout_ms, &rec, err));
    assert_int_equal(rec.kind, 0);
    assert_int_equal(rec.offset, offset);
    assert_int_equal(rec.event_time_us, time_make(offset));
    check_pos(s, offset, rec.pos);
    return WR_OK;
}
static inline void check_range(wr_queue *q, shape s, uint64_t from, uint64_t to) {
    wr_err err = WR_ERR_INIT;
    wr_queue_reader *r;
    OK(wr_queue_reader_new(q, from - 1, &r, &err));
    for (uint64_t i = from; i <= to; i++) OK(check_txn(r, s, i, 20000, &err));
    wr_queue_reader_free(r);
}
static inline uint64_t last_of(wr_queue *q, shape s) { /* checks its position too */
    wr_err err = WR_ERR_INIT;
    wr_pos pos = {0};
    uint64_t offset;
    OK(wr_queue_last(q, &offset, &pos, &err));
    if (offset) check_pos(s, offset, &pos);
    wr_pos_clear(&pos);
    return offset;
}
static inline void check_no_more(wr_queue *q, uint64_t after) {
    wr_err err = WR_ERR_INIT;
    wr_queue_reader *r;
    wr_queue_record rec;
    OK(wr_queue_reader_new(q, after, &r, &err));
    assert_int_equal(wr_queue_read(r, 0, &rec, &err), WR_E_TIMEOUT);
    wr_queue_reader_free(r);
}

#endif
