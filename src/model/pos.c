#include "weir/base/mem.h"
#include "weir/model.h"

#include <stdio.h>
#include <stdlib.h>

#define HAS_GTID 0x01u
#define HAS_EPOCH 0x02u

void wr_pos_clear(wr_pos *p) {
    wr_free(p->gtid_set);
    *p = (wr_pos){0};
}

wr_code wr_pos_copy(wr_pos *dst, const wr_pos *src, wr_err *err) {
    if (dst == src) return WR_OK;
    char *set = NULL;
    if (src->gtid_set && !(set = wr_strdup(src->gtid_set))) return wr_nomem(err, "GTID set", strlen(src->gtid_set) + 1);
    wr_free(dst->gtid_set);
    *dst = *src;
    dst->gtid_set = set;
    return WR_OK;
}

/* Digits behind the last dot. Binlog numbers grow past six digits, so text order is not file order. */
static bool file_number(const char *file, uint64_t *ret_number) {
    const char *dot = strrchr(file, '.');
    if (!dot || dot[1] < '0' || dot[1] > '9') return false;
    char *end;
    *ret_number = strtoull(dot + 1, &end, 10);
    return *end == 0;
}

int wr_pos_cmp(const wr_pos *a, const wr_pos *b) {
    uint64_t x, y;
    int by_file;
    if (!a->file[0] || !b->file[0])
        by_file = (a->file[0] != 0) - (b->file[0] != 0); /* "none" is before everything */
    else if (a->epoch != b->epoch)
        by_file = a->epoch < b->epoch ? -1 : 1;
    else if (file_number(a->file, &x) && file_number(b->file, &y))
        by_file = (x > y) - (x < y);
    else
        by_file = strcmp(a->file, b->file);
    return by_file ? by_file : (a->offset > b->offset) - (a->offset < b->offset);
}

/* u8 flags, the file name, u64 offset, u32 epoch and the GTID set when flagged. Other flag bits are zero and left for later versions.
 */
void wr_pos_encode(wr_buf *b, const wr_pos *p) {
    wr_buf_u8(b, (uint8_t)((p->gtid_set ? HAS_GTID : 0) | (p->epoch ? HAS_EPOCH : 0)));
    wr_buf_str(b, p->file);
    wr_buf_u64(b, p->offset);
    if (p->epoch) wr_buf_u32(b, p->epoch);
    if (p->gtid_set) wr_buf_str(b, p->gtid_set);
}

wr_code wr_pos_decode(wr_rd *r, wr_pos *ret_pos, wr_err *err) {
    uint8_t flags = wr_rd_u8(r);
    wr_slice file = wr_rd_slice(r);
    uint64_t offset = wr_rd_u64(r);
    uint32_t epoch = flags & HAS_EPOCH ? wr_rd_u32(r) : 0;
    wr_slice set = flags & HAS_GTID ? wr_rd_slice(r) : (wr_slice){0};
    if (r->bad) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "source position is cut short");
    if (flags & ~(HAS_GTID | HAS_EPOCH))
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "source position has unknown flags 0x%02x", flags);
    if (file.n >= WR_POS_FILE_MAX || (file.n && memchr(file.p, 0, file.n)) || (set.n && memchr(set.p, 0, set.n)))
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "source position holds no valid text");
    wr_pos p = {.offset = offset, .epoch = epoch};
    if (file.n) memcpy(p.file, file.p, file.n);
    if (flags & HAS_GTID) {
        p.gtid_set = set.n ? wr_strndup((const char *)set.p, set.n) : wr_strdup("");
        if (!p.gtid_set) return wr_nomem(err, "GTID set", set.n + 1);
    }
    *ret_pos = p;
    return WR_OK;
}

char *wr_pos_print(const wr_pos *p, char buf[512]) {
    int n =
        p->file[0] ? snprintf(buf, 512, "%s:%llu", p->file, (unsigned long long)p->offset) : snprintf(buf, 512, "none");
    if (p->file[0] && p->epoch) n += snprintf(buf + n, 512 - (size_t)n, " epoch %u", p->epoch);
    const char *set = p->gtid_set;
    if (!set || !set[0]) return buf;
    size_t at = p->file[0] ? (size_t)n : 0, room = 512 - at - sizeof " gtid ";
    bool cut = strlen(set) > room;
    snprintf(buf + at, 512 - at, "%sgtid %.*s%s", at ? " " : "", (int)(cut ? room - 3 : room), set, cut ? "..." : "");
    return buf;
}
