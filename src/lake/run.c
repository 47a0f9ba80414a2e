/* Runs: docs/formats/index-run.md.
 *
 * In memory as on disk: entries sorted by key; 16 bytes each (key, file, row) under WR_KEY_U64, else 24; then a split-block Bloom filter. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index.h"
#include "run.h"
#include "weir/base/mem.h"
#include "weir/io.h"

#define MAGIC "WIRRUN1"
#define FORMAT 1
#define SAMPLE 64 /* one key in memory for so many entries */

typedef struct header {
    char magic[8];
    uint32_t format, npaths;
    uint64_t fingerprint, n, names_bytes, body_at, bloom_blocks, body_sum;
    uint32_t reserved, crc; /* crc32c of everything before it, then of the names */
} header;

static size_t entry_bytes(wr_key_form form) { return form == WR_KEY_U64 ? 16 : 24; }

wr_run_entry wr_run_get(const wr_run *r, uint64_t i) {
    wr_run_entry e;
    const uint8_t *p = r->entries + i * r->es;
    if (r->es == 16) {
        e.key.hi = 0;
        memcpy(&e.key.lo, p, 8), p += 8;
    } else {
        memcpy(&e.key.hi, p, 8), memcpy(&e.key.lo, p + 8, 8), p += 16;
    }
    memcpy(&e.file, p, 4), memcpy(&e.row, p + 4, 4);
    return e;
}

static inline int key_cmp(wr_key a, wr_key b) {
    if (a.hi != b.hi) return a.hi < b.hi ? -1 : 1;
    return a.lo < b.lo ? -1 : a.lo > b.lo;
}

/* ------------------------------------------------------------------ Bloom filter: 32-byte blocks, one bit in each of 8 words */
static const uint32_t salts[8] = {0x47b6137bu, 0x44974d91u, 0x8824ad5bu, 0xa2b7289du, 0x705495c7u, 0x2df1424bu, 0x9efc4947u, 0x5c6bfb31u};
static inline uint64_t bloom_hash(wr_key k) {
    uint64_t h = (k.lo ^ k.hi * 0x9E3779B97F4A7C15ull);
    h ^= h >> 31, h *= 0x7fb5d329728ea185ull, h ^= h >> 27, h *= 0x81dadef4bc2dd44dull;
    return h ^ h >> 33;
}
static inline void bloom_add(uint32_t *bloom, uint64_t blocks, wr_key k) {
    uint64_t h = bloom_hash(k);
    uint32_t *b = bloom + (uint64_t)((__uint128_t)h * blocks >> 64) * 8;
    for (int i = 0; i < 8; i++) b[i] |= 1u << ((uint32_t)h * salts[i] >> 27);
}
static inline bool bloom_may(const uint32_t *bloom, uint64_t blocks, wr_key k) {
    uint64_t h = bloom_hash(k);
    const uint32_t *b = bloom + (uint64_t)((__uint128_t)h * blocks >> 64) * 8;
    for (int i = 0; i < 8; i++)
        if (!(b[i] >> ((uint32_t)h * salts[i] >> 27) & 1)) return false;
    return true;
}

/* ------------------------------------------------------------------ building */
static int cmp_entries(const void *a, const void *b) {
    const wr_run_entry *x = a, *y = b;
    return key_cmp(x->key, y->key);
}

/* LSD radix sort over the key bytes that differ: 5-10 times quicker than qsort from some thousand entries on. */
static bool radix_sort(wr_run_entry *e, uint64_t n) {
    uint64_t and_lo = ~0ull, or_lo = 0, and_hi = ~0ull, or_hi = 0;
    for (uint64_t i = 0; i < n; i++) and_lo &= e[i].key.lo, or_lo |= e[i].key.lo, and_hi &= e[i].key.hi, or_hi |= e[i].key.hi;
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
        for (int d = 0; d < 256; d++) { uint64_t c = at[d]; at[d] = sum; sum += c; }
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
    if (n < 512 || !radix_sort(e, n)) qsort(e, n, sizeof *e, cmp_entries);
}

static void sample(wr_run *r) {
    for (uint64_t i = 0, k = 0; i < r->n; i += SAMPLE, k++) r->samples[k] = wr_run_get(r, i).key;
}

static wr_code alloc_side(wr_run *r, wr_err *err) {
    r->nsamples = (r->n + SAMPLE - 1) / SAMPLE;
    r->samples = wr_malloc((r->nsamples + 1) * sizeof *r->samples);
    r->bind = wr_malloc(((size_t)r->npaths + 1) * sizeof *r->bind);
    if (!r->samples || !r->bind) return wr_nomem(err, "index run", r->nsamples * sizeof *r->samples);
    for (uint32_t i = 0; i < r->npaths; i++) r->bind[i] = WR_NO_FILE;
    return WR_OK;
}

static wr_code write_run(const wr_run *r, const char *path, wr_err *err) {
    WR_AUTO_BUF wr_buf head = WR_BUF_INIT;
    header h = {.magic = MAGIC, .format = FORMAT, .npaths = r->npaths, .fingerprint = r->fingerprint, .n = r->n, .bloom_blocks = r->bloom_blocks};
    WR_AUTO_BUF wr_buf names = WR_BUF_INIT;
    for (uint32_t i = 0; i < r->npaths; i++) wr_buf_str(&names, r->paths[i]);
    WR_TRY(wr_buf_check(&names, "index run names", err));
    h.names_bytes = names.n;
    h.body_at = (sizeof h + names.n + 63) & ~63ull;
    size_t body = r->n * r->es, bloom = r->bloom_blocks * 32;
    h.body_sum = wr_hash64(r->bloom, bloom, wr_hash64(r->entries, body, 0));
    h.crc = wr_crc32c(wr_crc32c(0, &h, offsetof(header, crc)), names.p, names.n);
    wr_buf_put(&head, &h, sizeof h);
    wr_buf_put(&head, names.p, names.n);
    static const uint8_t zero[64];
    wr_buf_put(&head, zero, h.body_at - head.n);
    WR_TRY(wr_buf_check(&head, "index run header", err));
    wr_file *f;
    WR_TRY(wr_file_open(path, WR_OPEN_CREATE, &f, err));
    wr_code rc = wr_file_pwrite(f, 0, wr_buf_view(&head), err);
    if (rc == WR_OK) rc = wr_file_pwrite(f, h.body_at, wr_slice_of(r->entries, body), err);
    if (rc == WR_OK) rc = wr_file_pwrite(f, h.body_at + body, wr_slice_of(r->bloom, bloom), err);
    wr_file_close(f);
    return rc;
}

static wr_code map_run(wr_run *r, const char *path, const wr_key_plan *plan, wr_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return wr_fail(err, WR_E_NOTFOUND, WR_RETRY_NO, "index run %s cannot be opened", path);
    struct stat st;
    void *m = fstat(fd, &st) == 0 && (uint64_t)st.st_size >= sizeof(header) ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (m == MAP_FAILED) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "index run %s is too short or cannot be mapped", path);
    r->map = m, r->map_bytes = (size_t)st.st_size;
    header h;
    memcpy(&h, m, sizeof h);
    uint64_t size = r->map_bytes;
    r->es = entry_bytes(plan->form);
    bool ok = !memcmp(h.magic, MAGIC, 8) && h.format == FORMAT && h.fingerprint == plan->fingerprint && h.names_bytes <= size - sizeof h &&
              h.body_at >= sizeof h + h.names_bytes && h.body_at <= size && h.n <= (size - h.body_at) / r->es && h.bloom_blocks > 0 &&
              h.bloom_blocks == (size - h.body_at - h.n * r->es) / 32 && (size - h.body_at - h.n * r->es) % 32 == 0 && h.npaths <= h.names_bytes &&
              h.crc == wr_crc32c(wr_crc32c(0, &h, offsetof(header, crc)), (uint8_t *)m + sizeof h, h.names_bytes);
    if (ok) {
        r->n = h.n, r->bloom_blocks = h.bloom_blocks;
        r->entries = (uint8_t *)m + h.body_at;
        r->bloom = (uint32_t *)(void *)((uint8_t *)m + h.body_at + h.n * r->es);
        ok = h.body_sum == wr_hash64(r->bloom, r->bloom_blocks * 32, wr_hash64(r->entries, r->n * r->es, 0));
    }
    if (!ok) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "index run %s is damaged or of another key", path);
    if (!r->paths) {
        r->npaths = h.npaths;
        r->paths = wr_calloc((size_t)h.npaths + 1, sizeof *r->paths);
        if (!r->paths) return wr_nomem(err, "index run names", h.npaths * sizeof(char *));
        wr_rd rd = wr_rd_of((uint8_t *)m + sizeof h, h.names_bytes);
        for (uint32_t i = 0; i < h.npaths; i++) {
            wr_slice s = wr_rd_slice(&rd);
            r->paths[i] = wr_strndup((const char *)s.p, s.n);
            if (!r->paths[i]) return wr_nomem(err, "index run name", s.n);
        }
        if (rd.bad) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "index run %s: its file names are damaged", path);
    }
    return WR_OK;
}

void wr_run_free(wr_run *r, bool remove_file) {
    if (!r) return;
    if (r->map) munmap(r->map, r->map_bytes);
    wr_free(r->heap);
    if (remove_file && r->path) unlink(r->path);
    for (uint32_t i = 0; r->paths && i < r->npaths; i++) wr_free(r->paths[i]);
    wr_free(r->paths);
    wr_free(r->path);
    wr_free(r->samples);
    wr_free(r->bind);
    wr_free(r);
}

/* Entries already sorted. */
static wr_code finish(wr_run *r, const wr_key_plan *plan, const char *path, wr_err *err) {
    WR_TRY(alloc_side(r, err));
    if (path && r->n >= WR_RUN_PERSIST) {
        WR_TRY(write_run(r, path, err));
        r->path = wr_strdup(path);
        if (!r->path) return wr_nomem(err, "index run path", strlen(path));
        void *heap = r->heap;
        WR_TRY(map_run(r, path, plan, err));
        wr_free(heap);
        r->heap = NULL;
    }
    sample(r);
    return WR_OK;
}

static wr_code new_run(const wr_key_plan *plan, uint64_t n, const char *const *paths, uint32_t npaths, wr_run **ret, wr_err *err) {
    wr_run *r = wr_calloc(1, sizeof *r);
    if (!r) return wr_nomem(err, "index run", sizeof *r);
    r->fingerprint = plan->fingerprint;
    r->n = n;
    r->es = entry_bytes(plan->form);
    r->npaths = npaths;
    r->paths = wr_calloc((size_t)npaths + 1, sizeof *r->paths);
    bool ok = r->paths != NULL;
    for (uint32_t i = 0; ok && i < npaths; i++) ok = (r->paths[i] = wr_strdup(paths[i])) != NULL;
    r->bloom_blocks = n / 24 + 1; /* about 10.7 bits a key */
    size_t bytes = n * r->es + r->bloom_blocks * 32 + 32;
    r->heap = ok ? wr_malloc(bytes) : NULL;
    if (!r->heap) {
        wr_run_free(r, false);
        return wr_nomem(err, "index run", bytes);
    }
    r->entries = r->heap;
    r->bloom = (uint32_t *)(void *)(r->heap + n * r->es);
    memset(r->bloom, 0, r->bloom_blocks * 32);
    *ret = r;
    return WR_OK;
}

static inline void put(wr_run *r, uint64_t i, const wr_run_entry *e) {
    uint8_t *p = r->heap + i * r->es;
    if (r->es == 16) memcpy(p, &e->key.lo, 8), p += 8;
    else memcpy(p, &e->key.hi, 8), memcpy(p + 8, &e->key.lo, 8), p += 16;
    memcpy(p, &e->file, 4), memcpy(p + 4, &e->row, 4);
    bloom_add(r->bloom, r->bloom_blocks, e->key);
}

wr_code wr_run_build(const wr_key_plan *plan, wr_run_entry *entries, uint64_t n, const char *const *paths, uint32_t npaths, const char *path, wr_run **ret_run,
                     wr_err *err) {
    wr_run *r;
    sort_entries(entries, n);
    WR_TRY(new_run(plan, n, paths, npaths, &r, err));
    for (uint64_t i = 0; i < n; i++) put(r, i, &entries[i]);
    wr_code rc = finish(r, plan, path, err);
    if (rc != WR_OK) return wr_run_free(r, true), rc;
    *ret_run = r;
    return WR_OK;
}

wr_code wr_run_load(const wr_key_plan *plan, const char *path, wr_run **ret_run, wr_err *err) {
    wr_run *r = wr_calloc(1, sizeof *r);
    if (!r) return wr_nomem(err, "index run", sizeof *r);
    r->fingerprint = plan->fingerprint;
    wr_code rc = map_run(r, path, plan, err);
    if (rc == WR_OK) rc = alloc_side(r, err);
    if (rc == WR_OK && !(r->path = wr_strdup(path))) rc = wr_nomem(err, "index run path", strlen(path));
    if (rc != WR_OK) return wr_run_free(r, false), rc;
    for (uint64_t i = 0; i < r->n; i++)
        if (wr_run_get(r, i).file >= r->npaths) {
            wr_run_free(r, false);
            return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "index run %s: entry %llu names file %u of %u", path, (unsigned long long)i, 0u, 0u);
        }
    sample(r);
    *ret_run = r;
    return WR_OK;
}

uint32_t wr_run_npaths(const wr_run *r) { return r->npaths; }
const char *wr_run_path(const wr_run *r, uint32_t i) { return r->paths[i]; }
uint64_t wr_run_count(const wr_run *r) { return r->n; }
void wr_run_bind(wr_run *r, uint32_t i, uint32_t fileno) { r->bind[i] = fileno; }

uint64_t wr_run_seek(const wr_run *r, wr_key key) {
    if (!r->n || !bloom_may(r->bloom, r->bloom_blocks, key)) return r->n;
    uint64_t lo = 0, hi = r->nsamples; /* last sample < key */
    while (lo < hi) {
        uint64_t mid = (lo + hi) / 2;
        if (key_cmp(r->samples[mid], key) < 0) lo = mid + 1;
        else hi = mid;
    }
    uint64_t a = lo ? (lo - 1) * SAMPLE : 0, b = lo * SAMPLE < r->n ? lo * SAMPLE + 1 : r->n;
    while (a < b) { /* first entry >= key */
        uint64_t mid = (a + b) / 2;
        if (key_cmp(wr_run_get(r, mid).key, key) < 0) a = mid + 1;
        else b = mid;
    }
    return a;
}

/* Merges sorted runs; entries of files that are gone are left out, all others kept: a delete that is not committed yet must not cost the entry. */
wr_code wr_run_merge(const wr_key_plan *plan, wr_run **runs, int nruns, const char *path, wr_run **ret_run, wr_err *err) {
    uint64_t total = 0;
    uint32_t npaths = 0;
    for (int i = 0; i < nruns; i++) total += runs[i]->n, npaths += runs[i]->npaths;
    WR_AUTO const char **paths = wr_malloc(((size_t)npaths + 1) * sizeof *paths);
    WR_AUTO uint32_t *bind = wr_malloc(((size_t)npaths + 1) * sizeof *bind);
    WR_AUTO uint32_t *to = wr_malloc(((size_t)npaths + 1) * sizeof *to); /* old file of run i -> new */
    WR_AUTO uint32_t *base = wr_malloc((size_t)nruns * sizeof *base);
    WR_AUTO uint64_t *at = wr_calloc((size_t)nruns, sizeof *at);
    if (!paths || !bind || !to || !base || !at) return wr_nomem(err, "index merge", npaths * sizeof(char *));
    uint32_t k = 0, live = 0;
    for (int i = 0; i < nruns; i++) {
        base[i] = k;
        for (uint32_t f = 0; f < runs[i]->npaths; f++, k++) {
            to[k] = runs[i]->bind[f] == WR_NO_FILE ? WR_NO_FILE : live;
            if (to[k] != WR_NO_FILE) paths[live] = runs[i]->paths[f], bind[live] = runs[i]->bind[f], live++;
        }
    }
    wr_run *r;
    WR_TRY(new_run(plan, total, paths, live, &r, err));
    uint64_t n = 0;
    for (;;) {
        int best = -1;
        wr_run_entry be = {0};
        for (int i = 0; i < nruns; i++) {
            if (at[i] >= runs[i]->n) continue;
            wr_run_entry e = wr_run_get(runs[i], at[i]);
            if (best < 0 || key_cmp(e.key, be.key) < 0) best = i, be = e;
        }
        if (best < 0) break;
        at[best]++;
        be.file = to[base[best] + be.file];
        if (be.file != WR_NO_FILE) put(r, n++, &be);
    }
    if (n < total) { /* the filter sits right behind the entries */
        memmove(r->heap + n * r->es, r->bloom, r->bloom_blocks * 32);
        r->bloom = (uint32_t *)(void *)(r->heap + n * r->es);
        r->n = n;
    }
    wr_code rc = finish(r, plan, path, err);
    if (rc != WR_OK) return wr_run_free(r, true), rc;
    for (uint32_t i = 0; i < live; i++) r->bind[i] = bind[i];
    *ret_run = r;
    return WR_OK;
}
