/* What was read of a table's chunks, in home/compare until the table is decided, so that a comparison that was interrupted goes on within a large table (docs/formats/compare.md).
 *
 * A row that was read yesterday is as good as one that was read just now, as long as the stream tells what changed from before the reading on: it is then read from the position
 * that the lake had when the first of the rows were read. A table that fits into one chunk is not kept. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "compare_impl.h"
#include "weir/base/clock.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"

#define MAGIC "WEIRCMP1"
#define BLOCK_MAGIC 0x31424357u /* "WCB1" */
#define HEAD 16                 /* of a block: magic, length, run */
#define BLOCK_MAX (64u << 20)
#define PREFIX "chunks-"

struct kept_chunks {
    char *path;
    wr_file *file; /* NULL: nothing is written yet */
    uint64_t end, run;
    wr_buf rows;   /* of the chunk that is being read */
    uint32_t n;
};

void wr_kept_close(kept_chunks *k) {
    if (!k) return;
    if (k->file) wr_file_close(k->file);
    wr_buf_free(&k->rows);
    wr_free(k->path);
    wr_free(k);
}

wr_code wr_kept_remove(kept_chunks *k, wr_err *err) { return k ? wr_file_remove(k->path, err) : WR_OK; }

static wr_code remove_one(void *ctx, const char *name, wr_err *err) {
    if (strncmp(name, PREFIX, strlen(PREFIX))) return WR_OK;
    WR_AUTO char *path = wr_path_join(ctx, name);
    return path ? wr_file_remove(path, err) : wr_nomem(err, "path", 256);
}

wr_code wr_kept_remove_all(const char *dir, wr_err *err) { return wr_dir_list(dir, remove_one, (void *)dir, err); }

/* Everything that decides which rows there are and what their hashes are. */
static wr_code fingerprint(const round *r, const side_member *m, wr_h128 *ret, wr_err *err) {
    const side_table *t = m->table;
    const wr_compare *w = r->what;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    char mark[17] = "", type[32];
    if (r->rules) wr_rules_mark(r->rules, m->db, m->name, mark);
    wr_buf_printf(&b, "%s.%s>%s.%s|%s|%s|%d|%.9g|%llu|%lld|%lld|%d", m->db, m->name, t->ns, t->name, m->def, mark, t->md5 != NULL, w->sample, w->sample > 0 ? (unsigned long long)w->seed : 0,
                  w->time_column ? (long long)w->since_us : 0, w->time_column ? (long long)w->until_us : 0, t->time_column);
    for (int i = 0; i < t->common->ncols; i++) {
        const wr_column *c = &t->common->cols[i];
        wr_buf_printf(&b, "|%s %d %d %s", c->name, c->id, c->key_ord, wr_type_name(c->type, type));
    }
    WR_TRY(wr_buf_check(&b, "comparison", err));
    *ret = wr_hash128(b.p, b.n);
    return WR_OK;
}

/* ------------------------------------------------------------------ writing */
static void put_sum(wr_buf *b) { wr_buf_u32(b, wr_crc32c(0, b->p, b->n)); }

static wr_code begin_file(kept_chunks *k, const round *r, side_member *m, wr_err *err) {
    WR_AUTO_BUF wr_buf body = WR_BUF_INIT, b = WR_BUF_INIT;
    wr_h128 mark;
    uint64_t offset, seed[2] = {(uint64_t)wr_now_us(), (uint64_t)getpid()};
    const wr_pos *pos = wr_lake_view_progress(r->view, &offset);
    WR_TRY(fingerprint(r, m, &mark, err));
    k->run = wr_hash64(seed, sizeof seed, mark.lo);
    wr_buf_u64(&body, k->run), wr_buf_u64(&body, mark.hi), wr_buf_u64(&body, mark.lo), wr_buf_u64(&body, offset);
    wr_pos_encode(&body, pos);
    wr_buf_put(&b, MAGIC, 8), wr_buf_u32(&b, (uint32_t)body.n), wr_buf_put(&b, body.p, body.n), put_sum(&b);
    WR_TRY(wr_buf_check(&body, "comparison", err));
    WR_TRY(wr_buf_check(&b, "comparison", err));
    WR_TRY(wr_file_remove(k->path, err));
    WR_TRY(wr_file_open(k->path, WR_OPEN_CREATE, &k->file, err));
    WR_TRY(wr_file_pwrite(k->file, 0, wr_buf_view(&b), err));
    k->end = b.n;
    return WR_OK;
}

void wr_kept_row(kept_chunks *k, wr_h128 key, uint64_t row) {
    wr_buf_u64(&k->rows, key.hi), wr_buf_u64(&k->rows, key.lo), wr_buf_u64(&k->rows, row);
    k->n++;
}

wr_code wr_kept_chunk(kept_chunks *k, const round *r, side_member *m, const char *next, wr_err *err) {
    WR_AUTO_BUF wr_buf body = WR_BUF_INIT, b = WR_BUF_INIT;
    if (!k->file && !next) return WR_OK; /* one chunk */
    WR_TRY(wr_buf_check(&k->rows, "comparison", err));
    if (!k->file) WR_TRY(begin_file(k, r, m, err));
    wr_buf_str(&body, next), wr_buf_u32(&body, k->n), wr_buf_put(&body, k->rows.p, k->rows.n);
    wr_buf_u32(&b, BLOCK_MAGIC), wr_buf_u32(&b, (uint32_t)body.n), wr_buf_u64(&b, k->run), wr_buf_put(&b, body.p, body.n), put_sum(&b);
    WR_TRY(wr_buf_check(&body, "comparison", err));
    WR_TRY(wr_buf_check(&b, "comparison", err));
    WR_TRY(wr_file_pwrite(k->file, k->end, wr_buf_view(&b), err));
    k->end += b.n;
    wr_buf_clear(&k->rows);
    k->n = 0;
    return WR_FAULT("compare.chunk") ? wr_fail(err, WR_E_IO, WR_RETRY_NO, "injected: comparison") : WR_OK;
}

/* ------------------------------------------------------------------ reading. What is not whole or not of this comparison is as if it were not there */
static bool has_sum(const wr_buf *b) {
    wr_rd sum = wr_rd_of(b->p + b->n - 4, 4);
    return b->n > 4 && wr_rd_u32(&sum) == wr_crc32c(0, b->p, b->n - 4);
}

/* n bytes from `at` on; *ret_whole: they are there. */
static wr_code read_piece(kept_chunks *k, uint64_t at, size_t n, wr_buf *b, bool *ret_whole, wr_err *err) {
    size_t got;
    wr_buf_clear(b);
    uint8_t *room = wr_buf_room(b, n);
    if (!room) return wr_nomem(err, "comparison", n);
    WR_TRY(wr_file_pread(k->file, at, room, n, &got, err));
    b->n = got;
    *ret_whole = got == n;
    return WR_OK;
}

static wr_code read_head(kept_chunks *k, const round *r, side_member *m, bool *ret_ours, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_h128 mark;
    wr_pos pos = {0};
    bool whole;
    *ret_ours = false;
    WR_TRY(fingerprint(r, m, &mark, err));
    WR_TRY(read_piece(k, 0, 12, &b, &whole, err));
    if (!whole || memcmp(b.p, MAGIC, 8)) return WR_OK;
    wr_rd len = wr_rd_of(b.p + 8, 4);
    uint32_t n = wr_rd_u32(&len);
    if (n > 1u << 20) return WR_OK;
    WR_TRY(read_piece(k, 0, 12 + (size_t)n + 4, &b, &whole, err));
    if (!whole || !has_sum(&b)) return WR_OK;
    wr_rd rd = wr_rd_of(b.p + 12, n);
    uint64_t run = wr_rd_u64(&rd), hi = wr_rd_u64(&rd), lo = wr_rd_u64(&rd), offset = wr_rd_u64(&rd);
    if (hi != mark.hi || lo != mark.lo) return WR_OK;
    WR_TRY(wr_pos_decode(&rd, &pos, err));
    wr_pos_clear(&m->kept_from);
    m->kept_from = pos, m->kept_offset = offset;
    k->run = run, k->end = b.n, *ret_ours = true;
    return WR_OK;
}

/* *ret_next: NULL at the end of what is whole; "" behind the table's last chunk. */
static wr_code read_block(kept_chunks *k, side_member *m, wr_buf *b, char **ret_next, wr_err *err) {
    side_table *t = m->table;
    bool whole;
    *ret_next = NULL;
    WR_TRY(read_piece(k, k->end, HEAD, b, &whole, err));
    wr_rd head = wr_rd_of(b->p, b->n);
    if (!whole || wr_rd_u32(&head) != BLOCK_MAGIC) return WR_OK;
    uint32_t n = wr_rd_u32(&head);
    if (n > BLOCK_MAX || wr_rd_u64(&head) != k->run) return WR_OK;
    WR_TRY(read_piece(k, k->end, HEAD + (size_t)n + 4, b, &whole, err));
    if (!whole || !has_sum(b)) return WR_OK;
    wr_rd rd = wr_rd_of(b->p + HEAD, n);
    wr_slice cursor = wr_rd_slice(&rd);
    uint32_t rows = wr_rd_u32(&rd);
    if (wr_rd_left(&rd) != (size_t)rows * 24) return WR_OK;
    char *next = wr_strndup((const char *)cursor.p, cursor.n);
    if (!next) return wr_nomem(err, "comparison", cursor.n);
    wr_code rc = WR_OK;
    for (uint32_t i = 0; rc == WR_OK && i < rows; i++) {
        wr_h128 key = {.hi = wr_rd_u64(&rd)};
        key.lo = wr_rd_u64(&rd);
        rc = wr_sieve_add(t->sieve, WR_SIDE_READ, false, key, wr_rd_u64(&rd), (uint64_t)m->no << 40 | (m->ncursors - 1), err);
    }
    if (rc != WR_OK) return wr_free(next), rc;
    k->end += b->n, t->report->rows_kept += rows;
    *ret_next = next;
    return WR_OK;
}

static wr_code go_on(kept_chunks *k, const round *r, side_member *m, bool *ret_done, wr_err *err) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    bool ours = false;
    char *next = NULL;
    if (!wr_file_exists(k->path)) return WR_OK;
    WR_TRY(wr_file_open(k->path, WR_OPEN_RDWR, &k->file, err));
    WR_TRY(read_head(k, r, m, &ours, err));
    while (ours && !*ret_done) {
        WR_TRY(read_block(k, m, &b, &next, err));
        if (!next) break;
        m->kept_any = true;
        if (!(*ret_done = !*next)) WR_TRY(wr_side_cursor(m, WR_STEAL(next), err));
        else wr_free(next);
    }
    if (m->kept_any) return wr_file_truncate(k->file, k->end, err);
    wr_file_close(k->file);
    k->file = NULL;
    return WR_OK;
}

wr_code wr_kept_open(const round *r, side_member *m, kept_chunks **ret, bool *ret_done, wr_err *err) {
    WR_AUTO char *full = wr_asprintf("%s.%s", m->db, m->name);
    kept_chunks *k = full ? wr_calloc(1, sizeof *k) : NULL;
    if (!k) return wr_nomem(err, "comparison", sizeof *k);
    *ret_done = false;
    k->path = wr_asprintf("%s/" PREFIX "%016llx", r->dir, (unsigned long long)wr_hash64(full, strlen(full), 0));
    wr_code rc = !k->path ? wr_nomem(err, "path", 256) : r->use_kept ? go_on(k, r, m, ret_done, err) : WR_OK;
    if (rc != WR_OK) return wr_kept_close(k), rc;
    *ret = k;
    return WR_OK;
}
