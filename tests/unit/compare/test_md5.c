/* MD5 against the digests of RFC 1321, appendix A.5. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "weir/base/mem.h"
#include "weir/compare.h"

static void digests_are_those_of_the_rfc(void **state) {
    static const struct { const char *text; uint64_t hi, lo; } known[] = {
        {"", 0xd41d8cd98f00b204, 0xe9800998ecf8427e},
        {"a", 0x0cc175b9c0f1b6a8, 0x31c399e269772661},
        {"message digest", 0xf96b697d7cb7938d, 0x525a2f31aaf161d0},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890", 0x57edf4a22be3c955, 0xac49da2e2107b67a},
    };
    wr_err err = WR_ERR_INIT;
    wr_md5 *m;
    wr_h128 h;
    assert_int_equal(wr_md5_new(&m, &err), WR_OK);
    for (size_t k = 0; k < 2 * sizeof known / sizeof *known; k++) { /* again with a context that was used */
        size_t i = k % (sizeof known / sizeof *known);
        assert_int_equal(wr_md5_of(m, wr_slice_str(known[i].text), &h, &err), WR_OK);
        assert_true(h.hi == known[i].hi && h.lo == known[i].lo);
    }
    wr_md5_free(m);
    wr_md5_free(NULL);
}

static void no_memory_is_an_error(void **state) {
    wr_err err = WR_ERR_INIT;
    wr_md5 *m;
    wr_mem_fail_after(1);
    assert_int_equal(wr_md5_new(&m, &err), WR_E_NOMEM);
    wr_mem_fail_after(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(digests_are_those_of_the_rfc), cmocka_unit_test(no_memory_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
