/* MD5 by OpenSSL, one context for many small texts: fetching the algorithm takes longer than hashing a row. */
#include <openssl/evp.h>
#include "weir/base/mem.h"
#include "weir/compare.h"

struct wr_md5 {
    EVP_MD *algorithm;
    EVP_MD_CTX *ctx;
};

static wr_code no_md5(wr_err *err) {
    wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "this OpenSSL gives no MD5");
    return wr_err_cure(err, "OpenSSL's FIPS mode has none: compare with --hash fast");
}

wr_code wr_md5_new(wr_md5 **ret, wr_err *err) {
    wr_md5 *m = wr_calloc(1, sizeof *m);
    if (!m) return wr_nomem(err, "MD5", sizeof *m);
    m->algorithm = EVP_MD_fetch(NULL, "MD5", NULL), m->ctx = EVP_MD_CTX_new();
    if (!m->algorithm || !m->ctx) return wr_md5_free(m), no_md5(err);
    *ret = m;
    return WR_OK;
}

void wr_md5_free(wr_md5 *m) {
    if (!m) return;
    EVP_MD_CTX_free(m->ctx);
    EVP_MD_free(m->algorithm);
    wr_free(m);
}

static uint64_t big_endian(const uint8_t *p) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v = v << 8 | p[i];
    return v;
}

wr_code wr_md5_of(wr_md5 *m, wr_slice s, wr_h128 *ret, wr_err *err) {
    uint8_t d[EVP_MAX_MD_SIZE];
    if (EVP_DigestInit_ex(m->ctx, m->algorithm, NULL) != 1 || EVP_DigestUpdate(m->ctx, s.p, s.n) != 1 || EVP_DigestFinal_ex(m->ctx, d, NULL) != 1) return no_md5(err);
    *ret = (wr_h128){big_endian(d), big_endian(d + 8)};
    return WR_OK;
}
