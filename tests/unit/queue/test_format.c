#include "queue/helper.h"
#include "format.h"

static void a_segment_header_comes_back_as_written(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_buf b = WR_BUF_INIT;
    wr_pos pos = {.file = "binlog.000123", .offset = 4711, .gtid_set = (char *)"0-1-5,1-2-7"}, got = {0};
    seg_hdr h = {.id = 77, .prev_id = 76, .first = 12, .prev_bytes = 4096, .made_us = 5}, back;
    size_t need;
    OK(seg_hdr_encode(&h, &pos, &b, &err));
    assert_int_equal(b.n % 64, 0);
    OK(seg_hdr_decode(wr_buf_view(&b), &back, &got, &need, &err));
    assert_true(back.id == 77 && back.prev_id == 76 && back.first == 12 && back.prev_bytes == 4096 &&
                back.made_us == 5);
    assert_int_equal(back.hdr_bytes, b.n);
    assert_string_equal(got.gtid_set, pos.gtid_set);
    assert_int_equal(wr_pos_cmp(&got, &pos), 0);
    wr_pos_clear(&got);
    wr_buf_free(&b);
}

static void no_flipped_bit_or_missing_byte_of_a_segment_header_goes_unnoticed(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_buf b = WR_BUF_INIT;
    wr_pos pos = {.file = "binlog.000123", .offset = 4711, .gtid_set = (char *)"0-1-5"}, got = {0};
    seg_hdr h = {.id = 77, .first = 12}, back;
    size_t need;
    OK(seg_hdr_encode(&h, &pos, &b, &err));
    for (size_t i = 0; i < b.n * 8; i++) {
        b.p[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_int_not_equal(seg_hdr_decode(wr_buf_view(&b), &back, &got, &need, &err), WR_OK);
        b.p[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    for (size_t n = 0; n < b.n; n++)
        assert_int_equal(seg_hdr_decode(wr_slice_of(b.p, n), &back, &got, &need, &err), WR_E_LIMIT);
    wr_buf_free(&b);
}

static void no_flipped_bit_of_a_block_header_goes_unnoticed(void **state) {
    block_hdr h = {.seg_id = 9,
                   .crc = 1,
                   .stored = 100,
                   .raw = 200,
                   .codec = CODEC_LZ4,
                   .flags = 3,
                   .first = 5,
                   .ends = 2,
                   .records = 9,
                   .synced = 64},
              back;
    uint8_t p[BLOCK_HDR];
    block_hdr_encode(&h, p);
    assert_true(block_hdr_decode(p, 9, &back));
    assert_true(back.crc == 1 && back.stored == 100 && back.raw == 200 && back.codec == CODEC_LZ4 && back.flags == 3);
    assert_true(back.first == 5 && back.ends == 2 && back.records == 9 && back.synced == 64);
    assert_false(block_hdr_decode(p, 10, &back));
    for (size_t i = 0; i < BLOCK_HDR * 8; i++) {
        p[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_false(block_hdr_decode(p, 9, &back));
        p[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

static void end_after_end(pos_state *w, pos_state *r, const char *file, uint64_t offset, const char *gtid, int64_t t,
                          size_t *ret_n) {
    wr_err err = WR_ERR_INIT;
    wr_buf b = WR_BUF_INIT;
    wr_pos pos = {.offset = offset, .gtid_set = (char *)gtid};
    strcpy(pos.file, file);
    OK(pos_state_reserve(w, &pos, &err));
    end_encode(&b, w, &pos, t);
    pos_state_set(w, &pos, t);
    OK(end_decode(r, wr_buf_view(&b), &err));
    assert_string_equal(r->pos.file, file);
    assert_int_equal(r->pos.offset, offset);
    assert_int_equal(r->time_us, t);
    assert_int_equal(r->pos.gtid_set != NULL, gtid != NULL);
    if (gtid) assert_string_equal(r->pos.gtid_set, gtid);
    *ret_n = b.n;
    for (size_t n = 0; n < b.n; n++) { /* every truncation is refused */
        pos_state copy = {.base = true};
        assert_int_not_equal(end_decode(&copy, wr_slice_of(b.p, n), &err), WR_OK);
        pos_state_free(&copy);
    }
    wr_buf_free(&b);
}

static void a_long_gtid_set_of_which_one_number_moves_costs_a_few_bytes(void **state) {
    pos_state w = {0}, r = {0};
    char a[16000], b[16000];
    size_t n = 0, bytes;
    for (int i = 0; i < 200; i++) n += (size_t)sprintf(a + n, "%08x-0000-0000-0000-000000000000:1-%d,", i, i * 1000);
    strcpy(b, a);
    memcpy(strstr(b, ":1-77000"), ":1-77001", 8);
    end_after_end(&w, &r, "binlog.000001", 4, a, 100, &bytes);
    assert_true(bytes > n);
    end_after_end(&w, &r, "binlog.000001", 900, b, 90, &bytes);
    assert_true(bytes < 16);
    pos_state_free(&w);
    pos_state_free(&r);
}

static void gtid_sets_may_come_go_grow_shrink_and_stay(void **state) {
    static const char *sets[] = {"0-1-5", "0-1-5", NULL, "0-1-5,1-2-3", "0-1-5,7-7-7,1-2-3",
                                 "1-2-3", "",      "x",  NULL,          NULL,
                                 "aaaa",  "aaaaa", "aa", "aaa"};
    pos_state w = {0}, r = {0};
    size_t bytes;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (i == 6) w.base = r.base = false; /* a new block */
        end_after_end(&w, &r, i < 3 ? "" : "f.2", i * 77, sets[i], i % 2 ? INT64_MIN : INT64_MAX, &bytes);
    }
    pos_state_free(&w);
    pos_state_free(&r);
}

static void an_epoch_stays_until_another_comes_and_begins_every_block_anew(void **state) {
    static const struct { uint32_t epoch; bool block; } ends[] = {{0, true}, {1, false}, {1, false}, {7, false}, {7, true}, {0, false}, {UINT32_MAX, true}, {0, true}};
    pos_state w = {0}, r = {0};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        wr_err err = WR_ERR_INIT;
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        wr_pos pos = {.file = "f.1", .offset = 4 + i, .epoch = ends[i].epoch};
        if (ends[i].block) w.base = r.base = false;
        end_encode(&b, &w, &pos, 1);
        pos_state_set(&w, &pos, 1);
        OK(end_decode(&r, wr_buf_view(&b), &err));
        assert_int_equal(r.pos.epoch, ends[i].epoch);
    }
    pos_state_free(&w);
    pos_state_free(&r);
}

static void records_that_run_over_the_end_are_refused(void **state) {
    static const struct {
        uint8_t p[8];
        size_t n;
    } bad[] = {{{1}, 1},
               {{1, 2, 0}, 3},
               {{5, 0}, 2},
               {{0x80, 0}, 2},
               {{0x11, 0}, 2},
               {{1, 0xff, 0xff, 0xff, 0xff, 0x0f}, 6},
               {{1, 0x80, 0x80, 0x80, 0x80, 0x80, 0}, 7},
               {{1, 0x80}, 2}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wr_rd rd = wr_rd_of(bad[i].p, bad[i].n);
        uint8_t tag;
        wr_slice body;
        assert_false(rec_next(&rd, &tag, &body));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_header_comes_back_as_written),
        cmocka_unit_test(no_flipped_bit_or_missing_byte_of_a_segment_header_goes_unnoticed),
        cmocka_unit_test(no_flipped_bit_of_a_block_header_goes_unnoticed),
        cmocka_unit_test(a_long_gtid_set_of_which_one_number_moves_costs_a_few_bytes),
        cmocka_unit_test(gtid_sets_may_come_go_grow_shrink_and_stay),
        cmocka_unit_test(an_epoch_stays_until_another_comes_and_begins_every_block_anew),
        cmocka_unit_test(records_that_run_over_the_end_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
