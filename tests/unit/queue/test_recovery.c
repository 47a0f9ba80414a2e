/* What opening makes of a folder that a crash or a bad disk left behind. */
#include "queue/helper.h"
#include "format.h"
#include <fcntl.h>
#include <sys/stat.h>

static const shape small = {.records_max = 4, .payload_max = 120};
static const wr_queue_options tiny = {.segment_bytes = 1 << 10, .block_bytes = 4 << 10, .sync_every_us = 200};
static const wr_queue_options one_segment = {
    .segment_bytes = 64 << 20, .block_bytes = 4 << 10, .sync_every_us = 1000000};

static wr_queue *open_queue(const char *dir, const wr_queue_options *opts) {
    wr_err err = WR_ERR_INIT;
    wr_queue *q;
    OK(wr_queue_open(dir, opts, &q, &err));
    return q;
}

/* ---- a folder's files in memory */
typedef struct image {
    int n;
    char *names[64];
    wr_buf bytes[64];
} image;
static wr_code take_one(void *ctx, const char *name, wr_err *err) {
    image *im = ctx;
    im->names[im->n++] = strdup(name);
    return WR_OK;
}
static image image_take(const char *dir) {
    image im = {0};
    wr_err err = WR_ERR_INIT;
    OK(wr_dir_list(dir, take_one, &im, &err));
    for (int i = 0; i < im.n; i++) {
        char *p = wr_path_join(dir, im.names[i]);
        OK(wr_file_get(p, 64 << 20, &im.bytes[i], &err));
        wr_free(p);
    }
    return im;
}
static void image_free(image *im) {
    for (int i = 0; i < im->n; i++) free(im->names[i]), wr_buf_free(&im->bytes[i]);
}
static void put_file(const char *dir, const char *name, wr_slice bytes) {
    char *p = wr_path_join(dir, name);
    int fd = open(p, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.p, bytes.n), bytes.n);
    close(fd);
    wr_free(p);
}
static void image_put(const image *im, char *dir) {
    empty_dir(dir);
    for (int i = 0; i < im->n; i++) put_file(dir, im->names[i], wr_buf_view(&im->bytes[i]));
}
static int image_last(const image *im) {
    for (int i = im->n - 1; i >= 0; i--)
        if (strlen(im->names[i]) == 23) return i;
    abort();
}

/* Opens, checks that 1..last is right and that the queue works on. */
static uint64_t check_opens(const char *dir, uint64_t at_least, uint64_t at_most) {
    wr_err err = WR_ERR_INIT;
    wr_queue *q = open_queue(dir, &one_segment);
    uint64_t last = last_of(q, small);
    assert_true(last >= at_least && last <= at_most);
    if (last) check_range(q, small, 1, last);
    check_no_more(q, last);
    OK(produce(q, small, &err));
    OK(produce(q, small, &err));
    wr_queue_close(q);
    q = open_queue(dir, &one_segment);
    assert_int_equal(last_of(q, small), last + 2);
    check_range(q, small, 1, last + 2);
    wr_queue_close(q);
    return last;
}

static void a_tail_torn_at_any_byte_is_cut_behind_the_last_whole_transaction(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir_fast();
    wr_queue *q = open_queue(dir, &one_segment);
    for (int i = 0; i < 10; i++) OK(produce(q, small, &err));
    OK(wr_queue_sync(q, &err));
    image before = image_take(dir);
    size_t from = before.bytes[image_last(&before)].n;
    for (int i = 0; i < 3; i++) { /* three synced blocks */
        OK(produce(q, small, &err));
        OK(produce(q, small, &err));
        OK(wr_queue_sync(q, &err));
    }
    wr_queue_close(q);
    image im = image_take(dir);
    int k = image_last(&im);
    size_t full = im.bytes[k].n;
    uint64_t was = 10;
    for (size_t n = from; n <= full; n++) {
        image_put(&im, dir);
        put_file(dir, im.names[k], wr_slice_of(im.bytes[k].p, n)); /* cut off */
        uint64_t last = check_opens(dir, was, 16);
        was = last;
        if (n % 5) continue;
        wr_buf torn = WR_BUF_INIT; /* the place is there, the bytes are not */
        wr_buf_put(&torn, im.bytes[k].p, n);
        for (size_t i = n; i < full + 200; i++) wr_buf_u8(&torn, n % 2 ? 0 : (uint8_t)mix(i));
        image_put(&im, dir);
        put_file(dir, im.names[k], wr_buf_view(&torn));
        /* A block may happen to be whole without its zero padding. */
        assert_true(check_opens(dir, 10, 16) <= was + 2);
        wr_buf_free(&torn);
    }
    assert_int_equal(was, 16);
    image_free(&im);
    image_free(&before);
    drop_dir(dir);
}

static void a_flipped_bit_anywhere_gives_an_error_or_a_clean_prefix(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir_fast();
    wr_queue *q = open_queue(dir, &tiny);
    for (int i = 0; i < 24; i++) {
        OK(produce(q, small, &err));
        if (i % 4 == 3) OK(wr_queue_sync(q, &err));
    }
    wr_queue_close(q);
    image im = image_take(dir);
    int corrupt = 0, prefix = 0, segs = 0;
    for (int f = 0; f < im.n; f++) {
        if (strlen(im.names[f]) != 23) continue;
        segs++;
        for (size_t i = 0; i < im.bytes[f].n; i++) {
            uint8_t bit = (uint8_t)(1u << mix(i) % 8);
            im.bytes[f].p[i] ^= bit;
            image_put(&im, dir);
            im.bytes[f].p[i] ^= bit;
            wr_code rc = wr_queue_open(dir, &tiny, &q, &err);
            if (rc != WR_OK) {
                assert_int_equal(rc, WR_E_CORRUPT);
                assert_non_null(strstr(err.msg, ".wq"));
                assert_true(err.cure[0] != 0);
                corrupt++;
                continue;
            }
            uint64_t last = last_of(q, small), n = 0;
            wr_queue_reader *r;
            rc = wr_queue_reader_new(q, 0, &r, &err);
            if (rc == WR_OK) {
                while (n < last && (rc = check_txn(r, small, n + 1, 0, &err)) == WR_OK) n++;
                wr_queue_reader_free(r);
            }
            if (rc != WR_OK)
                assert_int_equal(rc, WR_E_CORRUPT), corrupt++;
            else
                prefix++;
            if (last < 24) assert_true(f == image_last(&im)); /* only the very last sync can be taken for torn */
            wr_queue_close(q);
        }
    }
    assert_true(segs >= 3 && corrupt > 500 && prefix > 10);
    image_free(&im);
    drop_dir(dir);
}

static void damage_before_durable_blocks_names_file_byte_and_way_out(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir_fast();
    wr_queue *q = open_queue(dir, &one_segment);
    OK(produce(q, small, &err));
    OK(wr_queue_sync(q, &err));
    image first = image_take(dir);
    size_t at = first.bytes[image_last(&first)].n; /* where the second block begins */
    for (int i = 0; i < 3; i++) {
        OK(produce(q, small, &err));
        OK(wr_queue_sync(q, &err));
    }
    wr_queue_close(q);
    image im = image_take(dir);
    int k = image_last(&im);
    im.bytes[k].p[at + BLOCK_HDR] ^= 1;
    image_put(&im, dir);
    assert_int_equal(wr_queue_open(dir, &one_segment, &q, &err), WR_E_CORRUPT);
    char want[200];
    snprintf(want, sizeof want, "damaged at byte %zu", at);
    assert_non_null(strstr(err.msg, want));
    assert_non_null(strstr(err.msg, im.names[k]));
    assert_non_null(strstr(err.msg, "last good transaction before it is 1, at binlog.000001:1004"));
    snprintf(want, sizeof want, "truncate -s %zu", at);
    assert_non_null(strstr(err.cure, want));
    char *p = last_segment(dir);
    assert_int_equal(truncate(p, (off_t)at), 0); /* the way out works */
    wr_free(p);
    check_opens(dir, 1, 1);
    image_free(&im);
    image_free(&first);
    drop_dir(dir);
}

static void blocks_that_the_disk_wrote_out_of_order_before_the_sync_are_a_torn_tail(void **state) {
    static const shape parts = {.records_max = 400, .payload_max = 3000};
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir_fast();
    wr_queue *q = open_queue(dir, &one_segment);
    OK(produce(q, small, &err));
    OK(wr_queue_sync(q, &err));
    image first = image_take(dir);
    size_t at = first.bytes[image_last(&first)].n;
    wr_pos pos = {.file = "b.1"};
    uint64_t offset;
    OK(append_records(q, parts, 33, &err));
    OK(wr_queue_end(q, &pos, 0, &offset, &err));
    OK(wr_queue_sync(q, &err));
    wr_queue_close(q);
    image im = image_take(dir);
    int k = image_last(&im);
    assert_true(im.bytes[k].n > at + 20 * 4096);
    for (int way = 0; way < 3; way++) { /* one page, the header, everything but the last block */
        image_put(&im, dir);
        wr_buf b = WR_BUF_INIT;
        wr_buf_put(&b, im.bytes[k].p, im.bytes[k].n);
        if (way == 0) memset(b.p + (at / 4096 + 3) * 4096, 0, 4096);
        if (way == 1) memset(b.p + at, 0, 64);
        if (way == 2) memset(b.p + at, 0, b.n - at - 4096);
        put_file(dir, im.names[k], wr_buf_view(&b));
        check_opens(dir, 1, 1);
        wr_buf_free(&b);
    }
    image_free(&im);
    image_free(&first);
    drop_dir(dir);
}

static void a_missing_segment_is_found_at_once_and_named(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir_fast();
    wr_queue *q = open_queue(dir, &tiny);
    for (int i = 0; i < 100; i++) {
        OK(produce(q, small, &err));
        OK(wr_queue_sync(q, &err));
    }
    wr_queue_close(q);
    image im = image_take(dir);
    file_list l = segments(dir);
    assert_true(l.n >= 4);
    for (int i = 0; i < l.n; i++) {
        image_put(&im, dir);
        char *p = wr_path_join(dir, l.names[i]);
        unlink(p);
        wr_free(p);
        wr_code rc = wr_queue_open(dir, &tiny, &q, &err);
        if (i > 0 && i < l.n - 1) {
            assert_int_equal(rc, WR_E_CORRUPT);
            assert_non_null(strstr(err.msg, l.names[i + 1]));
            assert_true(err.cure[0] != 0);
            continue;
        }
        assert_int_equal(rc,
                         WR_OK); /* the first may have been released; without the last the queue has lost its end, */
        wr_queue_reader *r;      /* which its reader notices */
        if (i == 0)
            assert_int_equal(wr_queue_reader_new(q, 0, &r, &err), WR_E_NOTFOUND);
        else
            assert_int_equal(wr_queue_reader_new(q, 100, &r, &err), WR_E_CORRUPT);
        wr_queue_close(q);
    }
    /* a shortened one, and two with exchanged names */
    image_put(&im, dir);
    char *a = wr_path_join(dir, l.names[1]), *b = wr_path_join(dir, l.names[2]), *t = wr_path_join(dir, "t");
    assert_int_equal(truncate(a, 1000), 0);
    assert_int_equal(wr_queue_open(dir, &tiny, &q, &err), WR_E_CORRUPT);
    image_put(&im, dir);
    rename(a, t), rename(b, a), rename(t, b);
    assert_int_equal(wr_queue_open(dir, &tiny, &q, &err), WR_E_CORRUPT);
    wr_free(a), wr_free(b), wr_free(t);
    free_list(&l);
    image_free(&im);
    drop_dir(dir);
}

static void a_segment_of_a_newer_version_is_refused_by_name(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir_fast();
    wr_queue *q = open_queue(dir, &tiny);
    wr_queue_close(q);
    image im = image_take(dir);
    wr_buf *b = &im.bytes[image_last(&im)];
    uint32_t version = 2, zero = 0, crc;
    memcpy(b->p + 8, &version, 4);
    memcpy(b->p + 12, &zero, 4);
    extern uint32_t wr_crc32c(uint32_t crc, const void *p, size_t n);
    crc = wr_crc32c(0, b->p, b->n);
    memcpy(b->p + 12, &crc, 4);
    image_put(&im, dir);
    assert_int_equal(wr_queue_open(dir, &tiny, &q, &err), WR_E_UNSUPPORTED);
    image_free(&im);
    drop_dir(dir);
}

static void spares_never_bring_old_transactions_back(void **state) {
    wr_err err = WR_ERR_INIT;
    char *dir = temp_dir_fast();
    wr_queue *q = open_queue(dir, &tiny);
    image im;
    for (int i = 0; i < 400; i++) {
        OK(produce(q, small, &err));
        OK(wr_queue_sync(q, &err));
        uint64_t last = last_of(q, small);
        if (i % 3 == 0) OK(wr_queue_release(q, last, &err));
        if (i < 100 || i % 7) continue;
        char *copy = temp_dir_fast(); /* what a crash here would leave */
        im = image_take(dir);
        image_put(&im, copy);
        wr_queue *c = open_queue(copy, &tiny);
        assert_int_equal(last_of(c, small), last);
        wr_queue_stats st;
        wr_queue_get_stats(c, &st);
        if (st.first_offset <= last) check_range(c, small, st.first_offset, last);
        for (int k = 0; k < 5; k++) OK(produce(c, small, &err));
        check_range(c, small, st.first_offset, last + 5);
        wr_queue_close(c);
        drop_dir(copy);
        image_free(&im);
    }
    wr_queue_close(q);
    drop_dir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tail_torn_at_any_byte_is_cut_behind_the_last_whole_transaction),
        cmocka_unit_test(a_flipped_bit_anywhere_gives_an_error_or_a_clean_prefix),
        cmocka_unit_test(damage_before_durable_blocks_names_file_byte_and_way_out),
        cmocka_unit_test(blocks_that_the_disk_wrote_out_of_order_before_the_sync_are_a_torn_tail),
        cmocka_unit_test(a_missing_segment_is_found_at_once_and_named),
        cmocka_unit_test(a_segment_of_a_newer_version_is_refused_by_name),
        cmocka_unit_test(spares_never_bring_old_transactions_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
