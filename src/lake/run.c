/* Runs: docs/formats/index-run.md.
 *
 * In memory as on disk: a split-block Bloom filter, then entries sorted by key; 16 bytes each (key, file, row) under
 * WR_KEY_U64, else 24. A run that is worth a file is built in the file's own pages, so that merging a large index needs
 * no heap of its size. These files do not go through weir/io.h: they are a cache, mapped, never synced, and checked as
 * a whole before they are believed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run.h"
#include "weir/base/fault.h"
#include "weir/base/mem.h"

#define MAGIC "WIRRUN1"
#define FORMAT 1
#define SAMPLE 32         /* one key in memory for so many entries: a quarter of a byte a key */
#define KEYS_PER_BLOCK 24 /* about 10.7 bits a key: one look-up in a hundred goes further than it had to */

typedef struct header {
    char magic[8];
    uint32_t format, entry_bytes;
    uint64_t fingerprint, n, npaths, names_bytes, bloom_at, bloom_blocks, body_sum;
    uint32_t reserved, crc; /* crc32c of everything before it, then of the names */
} header;
_Static_assert(sizeof(header) == 80, "docs/formats/index-run.md");

static size_t entry_bytes(wr_key_form form) { return form == WR_KEY_U64 ? 16 : 24; }

static inline wr_key key_at(const wr_run *r, uint64_t i) {
    wr_key k = {0};
    const uint8_t *p = r->entries + i * r->es;
    if (r->es == 16)
        memcpy(&k.lo, p, 8);
    else
        memcpy(&k.hi, p, 8), memcpy(&k.lo, p + 8, 8);
    return k;
}

wr_run_entry wr_run_get(const wr_run *r, uint64_t i) {
    wr_run_entry e = {.key = key_at(r, i)};
    const uint8_t *p = r->entries + i * r->es + r->es - 8;
    memcpy(&e.file, p, 4), memcpy(&e.row, p + 4, 4);
    return e;
}

static inline int key_cmp(wr_key a, wr_key b) {
    if (a.hi != b.hi) return a.hi < b.hi ? -1 : 1;
    return a.lo < b.lo ? -1 : a.lo > b.lo;
}

/* ------------------------------------------------------------------ sorting */
static int cmp_entries(const void *a, const void *b) {
    const wr_run_entry *x = a, *y = b;
    return key_cmp(x->key, y->key);
}

/* LSD radix sort over the key bytes that differ: 5-10 times quicker than qsort from some thousand entries on. */
static bool radix_sort(wr_run_entry *e, uint64_t n) {
    uint64_t and_lo = ~0ull, or_lo = 0, and_hi = ~0ull, or_hi = 0;
    for (uint64_t i = 0; i < n; i++)
        and_lo &= e[i].key.lo, or_lo |= e[i].key.lo, and_hi &= e[i].key.hi, or_hi |= e[i].key.hi;
    WR_AUTO wr_run_entry *tmp = wr_malloc(n * sizeof *tmp);
    if (!tmp) return false;
    wr_run_entry *src = e, *dst = tmp;
    for (int byte = 0; byte < 16; byte++) {
        int shift = byte % 8 * 8;
        bool hi = byte >= 8;
        uint64_t varies = hi ? and_hi ^ or_hi : and_lo ^ or_lo;
        if (!(varies >> shift & 0xff)) continue;
        uint64_t at[256] = {0}, sum = 0;
        for (uint64_t i = 0; i < n; i++) at[(hi ? src[i].key.hi : src[i].key.lo) >> shift & 0xff]++;
        for (int d = 0; d < 256; d++) {
            uint64_t c = at[d];
            at[d] = sum;
            sum += c;
        }
        for (uint64_t i = 0; i < n; i++) dst[at[(hi ? src[i].key.hi : src[i].key.lo) >> shift & 0xff]++] = src[i];
        wr_run_entry *t = src;
        src = dst, dst = t;
    }
    if (src != e) memcpy(e, src, n * sizeof *e);
    return true;
}

static void sort_entries(wr_run_entry *e, uint64_t n) {
    uint64_t i = 1;
    while (i < n && key_cmp(e[i - 1].key, e[i].key) <= 0) i++;
    if (i >= n) return; /* a snapshot comes in key order */
    if (n < 512 || !radix_sort(e, n)) qsort(e, (size_t)n, sizeof *e, cmp_entries);
}

/* ------------------------------------------------------------------ a run under construction */
typedef struct builder {
    wr_run *r;
    header h;
    wr_buf names;
    uint64_t *bloom;
    uint8_t *entries;
} builder;

static void builder_clear(builder *b) {
    wr_buf_free(&b->names);
    wr_run_free(b->r, true);
}

static wr_code file_error(wr_err *err, const char *verb, const char *path, int e) {
    return wr_fail(err, e == ENOSPC || e == EDQUOT ? WR_E_NOSPC : WR_E_IO, WR_RETRY_SOON, "index run %s: cannot %s: %s",
                   path, verb, strerror(e));
}

/* Room is reserved before it is mapped: a full disk is an error here, and would be a fatal signal at a write to a
 * mapped page. */
static wr_code map_new_file(wr_run *r, const char *path, size_t bytes, wr_err *err) {
    WR_AUTO char *name = wr_strdup(path);
    if (!name) return wr_nomem(err, "index run path", strlen(path));
    if (WR_FAULT("lake.run")) return file_error(err, "reserve", path, ENOSPC);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return file_error(err, "create", path, errno);
    r->path = WR_STEAL(name); /* from here on it is removed with the run */
    int e = posix_fallocate(fd, 0, (off_t)bytes);
    void *m = e ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!e && m == MAP_FAILED) e = errno;
    close(fd);
    if (e) return file_error(err, "reserve", path, e);
    r->map = m, r->map_bytes = bytes;
    return WR_OK;
}

/* Room for at most n entries. */
static wr_code begin(builder *b, const wr_key_plan *plan, uint64_t n, const char *const *paths, uint32_t npaths,
                     const char *path, wr_err *err) {
    wr_run *r = b->r = wr_calloc(1, sizeof *r);
    if (!r) return wr_nomem(err, "index run", sizeof *r);
    r->fingerprint = plan->fingerprint;
    r->es = entry_bytes(plan->form);
    r->paths = wr_calloc((size_t)npaths + 1, sizeof *r->paths);
    bool ok = r->paths != NULL;
    for (uint32_t i = 0; ok && i < npaths; i++) {
        ok = (r->paths[i] = wr_strdup(paths[i])) != NULL;
        r->npaths = i + 1;
        wr_buf_str(&b->names, paths[i]);
    }
    if (!ok) return wr_nomem(err, "index run", npaths * sizeof(char *));
    WR_TRY(wr_buf_check(&b->names, "index run names", err));
    b->h = (header){.magic = MAGIC,
                    .format = FORMAT,
                    .entry_bytes = (uint32_t)r->es,
                    .fingerprint = plan->fingerprint,
                    .npaths = npaths,
                    .names_bytes = b->names.n,
                    .bloom_at = (sizeof(header) + b->names.n + 63) & ~63ull,
                    .bloom_blocks = n / KEYS_PER_BLOCK + 1};
    size_t body = b->h.bloom_blocks * 32 + n * r->es;
    uint8_t *p;
    if (path && n >= WR_RUN_PERSIST) {
        WR_TRY(map_new_file(r, path, b->h.bloom_at + body, err));
        p = r->map + b->h.bloom_at;
    } else {
        p = r->heap = wr_malloc(body);
        if (!p) return wr_nomem(err, "index run", body);
        memset(p, 0, b->h.bloom_blocks * 32); /* a new file is zero already */
    }
    b->bloom = (uint64_t *)(void *)p;
    b->entries = p + b->h.bloom_blocks * 32;
    return WR_OK;
}

static inline void put(builder *b, const wr_run_entry *e) {
    uint8_t *p = b->entries + b->h.n++ * b->r->es;
    if (b->r->es == 16)
        memcpy(p, &e->key.lo, 8), p += 8;
    else
        memcpy(p, &e->key.hi, 8), memcpy(p + 8, &e->key.lo, 8), p += 16;
    memcpy(p, &e->file, 4), memcpy(p + 4, &e->row, 4);
    wr_probe at = wr_run_probe(e->key);
    uint64_t *block = b->bloom + (uint64_t)((__uint128_t)at.hash * b->h.bloom_blocks >> 64) * 4;
    for (int i = 0; i < 4; i++) block[i] |= at.bits[i];
}

static wr_code make_side(wr_run *r, wr_err *err) {
    r->nsamples = (r->n + SAMPLE - 1) / SAMPLE;
    r->samples = wr_malloc((r->nsamples + 1) * sizeof *r->samples);
    r->bind = wr_malloc(((size_t)r->npaths + 1) * sizeof *r->bind);
    if (!r->samples || !r->bind) return wr_nomem(err, "index run", r->nsamples * sizeof *r->samples);
    for (uint32_t i = 0; i < r->npaths; i++) r->bind[i] = WR_NO_FILE;
    for (uint64_t i = 0; i < r->nsamples; i++) {
        wr_key k = key_at(r, i * SAMPLE);
        r->samples[i] = r->es == 16 ? k.lo : k.hi;
    }
    wr_key last = r->n ? key_at(r, r->n - 1) : (wr_key){0};
    r->first = r->n ? r->samples[0] : UINT64_MAX;
    r->last = r->es == 16 ? last.lo : last.hi;
    r->per_value = r->nsamples > 1 && r->last > r->first ? (double)(r->nsamples - 1) / (double)(r->last - r->first) : 0;
    return WR_OK;
}

static uint32_t header_crc(const header *h, const void *names, size_t n) {
    return wr_crc32c(wr_crc32c(0, h, offsetof(header, crc)), names, n);
}

static wr_code finish(builder *b, wr_run **ret_run, wr_err *err) {
    wr_run *r = b->r;
    r->n = b->h.n, r->bloom_blocks = b->h.bloom_blocks;
    r->bloom = b->bloom, r->entries = b->entries;
    WR_TRY(make_side(r, err));
    if (r->map) {
        size_t body = r->bloom_blocks * 32 + r->n * r->es, bytes = b->h.bloom_at + body;
        if (bytes < r->map_bytes && truncate(r->path, (off_t)bytes) != 0)
            return file_error(err, "shorten", r->path, errno);
        b->h.body_sum = wr_hash64(r->map + b->h.bloom_at, body, 0);
        b->h.crc = header_crc(&b->h, b->names.p, b->names.n);
        if (b->names.n) memcpy(r->map + sizeof b->h, b->names.p, b->names.n);
        if (WR_FAULT("lake.run.header")) return file_error(err, "finish", r->path, EIO);
        memcpy(r->map, &b->h, sizeof b->h);
    }
    *ret_run = r;
    b->r = NULL;
    return WR_OK;
}

wr_code wr_run_build(const wr_key_plan *plan, wr_run_entry *entries, uint64_t n, const char *const *paths,
                     uint32_t npaths, const char *path, wr_run **ret_run, wr_err *err) {
    WR_CLEANUP(builder_clear) builder b = {0};
    sort_entries(entries, n);
    WR_TRY(begin(&b, plan, n, paths, npaths, path, err));
    for (uint64_t i = 0; i < n; i++) put(&b, &entries[i]);
    return finish(&b, ret_run, err);
}

/* ------------------------------------------------------------------ reading */
static bool shape_fits(const header *h, const wr_run *r, const wr_key_plan *plan) {
    uint64_t size = r->map_bytes;
    if (memcmp(h->magic, MAGIC, 8) || h->format != FORMAT || h->fingerprint != plan->fingerprint ||
        h->entry_bytes != entry_bytes(plan->form))
        return false;
    if (h->names_bytes > size - sizeof *h || h->npaths > h->names_bytes || h->npaths >= WR_NO_FILE) return false;
    if (h->crc != header_crc(h, r->map + sizeof *h, h->names_bytes)) return false;
    if (h->bloom_at != ((sizeof *h + h->names_bytes + 63) & ~63ull) || h->bloom_at > size) return false;
    uint64_t body = size - h->bloom_at;
    return h->bloom_blocks > 0 && h->bloom_blocks <= body / 32 &&
           h->n <= (body - h->bloom_blocks * 32) / h->entry_bytes &&
           body == h->bloom_blocks * 32 + h->n * h->entry_bytes;
}

static wr_code map_file(wr_run *r, const char *path, const wr_key_plan *plan, header *ret_h, wr_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "index run %s cannot be opened", path);
    struct stat st;
    void *m = fstat(fd, &st) == 0 && (uint64_t)st.st_size >= sizeof *ret_h
                  ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0)
                  : MAP_FAILED;
    close(fd);
    if (m == MAP_FAILED)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "index run %s is too short or cannot be mapped", path);
    r->map = m, r->map_bytes = (size_t)st.st_size;
    memcpy(ret_h, m, sizeof *ret_h);
    bool ok = shape_fits(ret_h, r, plan) &&
              ret_h->body_sum == wr_hash64(r->map + ret_h->bloom_at, r->map_bytes - ret_h->bloom_at, 0);
    return ok ? WR_OK : wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "index run %s is damaged or of another key", path);
}

static wr_code read_names(wr_run *r, const header *h, const char *path, wr_err *err) {
    r->paths = wr_calloc((size_t)h->npaths + 1, sizeof *r->paths);
    if (!r->paths) return wr_nomem(err, "index run names", h->npaths * sizeof(char *));
    wr_rd rd = wr_rd_of(r->map + sizeof *h, h->names_bytes);
    for (uint32_t i = 0; i < h->npaths; i++) {
        wr_slice s = wr_rd_slice(&rd);
        if (rd.bad) break;
        r->paths[i] = wr_strndup(s.n ? (const char *)s.p : "", s.n);
        if (!r->paths[i]) return wr_nomem(err, "index run name", s.n);
        r->npaths = i + 1;
    }
    return rd.bad || wr_rd_left(&rd)
               ? wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "index run %s: its file names are damaged", path)
               : WR_OK;
}

static void run_free_p(wr_run **r) { wr_run_free(*r, false); }

wr_code wr_run_load(const wr_key_plan *plan, const char *path, wr_run **ret_run, wr_err *err) {
    WR_CLEANUP(run_free_p) wr_run *r = wr_calloc(1, sizeof *r);
    header h;
    if (!r) return wr_nomem(err, "index run", sizeof *r);
    r->fingerprint = plan->fingerprint;
    if (!(r->path = wr_strdup(path))) return wr_nomem(err, "index run path", strlen(path));
    WR_TRY(map_file(r, path, plan, &h, err));
    WR_TRY(read_names(r, &h, path, err));
    r->es = h.entry_bytes, r->n = h.n, r->bloom_blocks = h.bloom_blocks;
    r->bloom = (const uint64_t *)(const void *)(r->map + h.bloom_at);
    r->entries = r->map + h.bloom_at + h.bloom_blocks * 32;
    for (uint64_t i = 0; i < r->n; i++) {
        wr_run_entry e = wr_run_get(r, i);
        if (e.file < r->npaths && (i == 0 || key_cmp(key_at(r, i - 1), e.key) <= 0)) continue;
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO,
                       "index run %s: entry %" PRIu64 " is out of order or names data file %u of %u", path, i, e.file,
                       r->npaths);
    }
    WR_TRY(make_side(r, err));
    *ret_run = WR_STEAL(r);
    return WR_OK;
}

void wr_run_free(wr_run *r, bool remove_file) {
    if (!r) return;
    if (r->map) munmap(r->map, r->map_bytes);
    wr_free(r->heap);
    if (remove_file && r->path) unlink(r->path);
    for (uint32_t i = 0; i < r->npaths; i++) wr_free(r->paths[i]);
    wr_free(r->paths);
    wr_free(r->path);
    wr_free(r->samples);
    wr_free(r->bind);
    wr_free(r);
}

uint32_t wr_run_npaths(const wr_run *r) { return r->npaths; }
const char *wr_run_path(const wr_run *r, uint32_t i) { return r->paths[i]; }
uint64_t wr_run_count(const wr_run *r) { return r->n; }
void wr_run_bind(wr_run *r, uint32_t i, uint32_t fileno) { r->bind[i] = fileno; }

/* First sample >= v. Keys are mostly spread evenly (numbers in sequence, hashes), so the search begins where v would be
 * then, and widens by doubling: next to no cache misses if it is so, twice a binary search's steps if not. */
static uint64_t lower_sample(const wr_run *r, uint64_t v) {
    const uint64_t *s = r->samples;
    uint64_t n = r->nsamples, lo = 0, hi = n, step = 4;
    if (v <= r->first) return 0;
    double guess = (double)(v - r->first) * r->per_value;
    uint64_t at = guess < (double)n ? (uint64_t)guess : n - 1;
    if (s[at] < v) {
        lo = at + 1;
        while (lo + step < n && s[lo + step] < v) lo += step + 1, step *= 2;
        if (lo + step < n) hi = lo + step;
    } else {
        hi = at;
        while (hi > step && s[hi - step] >= v) hi -= step, step *= 2;
        if (hi > step) lo = hi - step + 1;
    }
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (s[mid] < v)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

uint64_t wr_run_seek(const wr_run *r, wr_key key) {
    uint64_t v = r->es == 16 ? key.lo : key.hi;
    if (r->es == 16 && key.hi) return r->n; /* cannot be in it */
    uint64_t s = lower_sample(r, v), end = s;
    if (r->es != 16) /* samples tell the first half only: the key may be behind any of the equal ones */
        while (end < r->nsamples && r->samples[end] == v) end++;
    uint64_t a = s ? (s - 1) * SAMPLE : 0, b = end < r->nsamples ? end * SAMPLE : r->n;
    if (b - a <= SAMPLE) /* the whole block misses the cache at once, not step by step */
        for (const uint8_t *p = r->entries + a * r->es, *e = r->entries + b * r->es; p < e; p += 64)
            __builtin_prefetch(p);
    while (a < b) { /* first entry >= key, from a to b */
        uint64_t mid = (a + b) / 2;
        if (key_cmp(key_at(r, mid), key) < 0)
            a = mid + 1;
        else
            b = mid;
    }
    return a;
}

/* ------------------------------------------------------------------ merging */
typedef struct source {
    const wr_run *r;
    const uint32_t *to; /* its data files -> the result's */
    uint64_t at;
    wr_key key;
} source;

static bool advance(source *s) {
    if (s->at == s->r->n) return false;
    s->key = key_at(s->r, s->at);
    return true;
}

static void merge_entries(builder *b, source *src, int n) {
    int live = 0;
    for (int i = 0; i < n; i++)
        if (advance(&src[i])) src[live++] = src[i];
    while (live) {
        int best = 0;
        for (int i = 1; i < live; i++)
            if (key_cmp(src[i].key, src[best].key) < 0) best = i;
        source *s = &src[best];
        wr_run_entry e = wr_run_get(s->r, s->at++);
        e.file = s->to[e.file];
        if (e.file != WR_NO_FILE) put(b, &e);
        if (!advance(s)) *s = src[--live];
    }
}

/* Entries of files that are gone are left out, all others kept: a delete that is not committed yet must not cost the
 * entry. */
wr_code wr_run_merge(const wr_key_plan *plan, wr_run **runs, int nruns, const char *path, wr_run **ret_run,
                     wr_err *err) {
    WR_CLEANUP(builder_clear) builder b = {0};
    uint64_t total = 0;
    uint32_t npaths = 0;
    for (int i = 0; i < nruns; i++) total += runs[i]->n, npaths += runs[i]->npaths;
    WR_AUTO const char **paths = wr_malloc(((size_t)npaths + 1) * sizeof *paths);
    WR_AUTO uint32_t *bind = wr_malloc(((size_t)npaths + 1) * sizeof *bind);
    WR_AUTO uint32_t *numbers =
        wr_malloc(((size_t)npaths + 1) * sizeof *numbers); /* data file of a source -> of the result */
    WR_AUTO source *src = wr_calloc((size_t)nruns + 1, sizeof *src);
    if (!paths || !bind || !numbers || !src) return wr_nomem(err, "index merge", npaths * sizeof(char *));
    uint32_t k = 0, live = 0;
    for (int i = 0; i < nruns; i++) {
        src[i] = (source){.r = runs[i], .to = numbers + k};
        for (uint32_t f = 0; f < runs[i]->npaths; f++, k++) {
            numbers[k] = runs[i]->bind[f] == WR_NO_FILE ? WR_NO_FILE : live;
            if (numbers[k] != WR_NO_FILE) paths[live] = runs[i]->paths[f], bind[live] = runs[i]->bind[f], live++;
        }
    }
    WR_TRY(begin(&b, plan, total, paths, live, path, err));
    merge_entries(&b, src, nruns);
    WR_TRY(finish(&b, ret_run, err));
    for (uint32_t i = 0; i < live; i++) (*ret_run)->bind[i] = bind[i];
    return WR_OK;
}
