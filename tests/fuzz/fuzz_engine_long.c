/* A file of long values, with bytes of it changed. The bits of the first byte below 8: places are from the front, not the end; the second column; long values are taken, too, which takes time.
 * The rest is (place, byte) pairs. Above 7 it is the file. Whatever comes is values or an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "parquet_long.h"
#include "weir/engine.h"
#include "weir/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define LONG ((size_t)33 << 20)
#define VALUES 64

static uint8_t *base;
static size_t base_n;

static void must(bool ok) {
    if (!ok) abort();
}

static void add(wr_batch *b, const wr_schema *s, const wr_value v[2]) {
    wr_err err = WR_ERR_INIT;
    wr_buf row = WR_BUF_INIT;
    size_t at = wr_row_begin(&row, 2);
    for (int i = 0; i < 2; i++) v[i].null ? wr_row_put_null(&row, at, i) : wr_row_put(&row, at, i, s->cols[i].type, &v[i]);
    must(wr_batch_append(b, wr_buf_view(&row), &err) == WR_OK);
    wr_buf_free(&row);
}

/* One long value among short ones and nulls; short ones are in a dictionary. */
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    wr_err err = WR_ERR_INIT;
    wr_column cols[] = {{.name = (char *)"a", .id = 1, .type = {.kind = WR_BINARY}, .nullable = true}, {.name = (char *)"b", .id = 2, .type = {.kind = WR_STRING}}};
    wr_schema *s = NULL;
    wr_batch *b = NULL;
    wr_parquet_file f = {0};
    char path[64];
    uint8_t *big = calloc(1, LONG);
    must(big && wr_schema_new(cols, 2, 1, &s, &err) == WR_OK && wr_batch_new(s, &b, &err) == WR_OK);
    for (int i = 0; i < 40; i++) {
        wr_value v[2] = {{.null = i % 5 == 1, .s = wr_slice_of(big, i == 20 ? LONG : (size_t)i % 3)}, {.s = wr_slice_of(big, i == 30 ? LONG : 1)}};
        add(b, s, v);
    }
    snprintf(path, sizeof path, "/tmp/fuzz_engine_long.%d.parquet", (int)getpid());
    must(wr_parquet_write(NULL, b, path, NULL, &f, &err) == WR_OK);
    FILE *in = fopen(path, "rb");
    base_n = (size_t)f.bytes;
    must(in && (base = malloc(base_n)) && fread(base, 1, base_n, in) == base_n);
    fclose(in), unlink(path);
    wr_parquet_file_clear(&f), wr_batch_free(b), wr_schema_unref(s);
    free(big);
    return 0;
}

static void read_column(wr_long *l, bool whole) {
    wr_err err = WR_ERR_INIT;
    for (int i = 0; i < VALUES; i++) {
        bool null;
        uint32_t n;
        if (wr_long_next(l, &null, &n, &err) != WR_OK) return;
        if (null) continue;
        if (n > (whole ? LONG + 1000 : 100000)) return; /* memory for it is the caller's matter */
        uint8_t *to = malloc((size_t)n + 1);
        wr_code rc = wr_long_take(l, to, &err);
        free(to);
        if (rc != WR_OK) return;
    }
}

static void read_file(const uint8_t *p, size_t n, int32_t id, bool whole) {
    wr_err err = WR_ERR_INIT;
    wr_long *l;
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, p, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (wr_long_open(path, &id, 1, &l, &err) == WR_OK && l) {
        read_column(l, whole);
        wr_long_free(l);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    int32_t id = data[0] & 2 ? 2 : 1;
    if (data[0] > 7) return read_file(data + 1, size - 1, id, true), 0;
    uint8_t *p = malloc(base_n);
    memcpy(p, base, base_n);
    for (size_t i = 1; i + 3 <= size; i += 3) {
        size_t at = (data[i] | (size_t)data[i + 1] << 8) % base_n;
        p[data[0] & 1 ? at : base_n - 1 - at] = data[i + 2];
    }
    read_file(p, base_n, id, data[0] & 4);
    free(p);
    return 0;
}
