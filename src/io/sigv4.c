#include "sigv4.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <time.h>

enum { SHA256_BYTES = 32 };

char *wr_sigv4_time(int64_t now_us, char out[17]) {
    time_t t = (time_t)(now_us / 1000000);
    struct tm tm;
    if (!gmtime_r(&t, &tm) || strftime(out, 17, "%Y%m%dT%H%M%SZ", &tm) == 0) out[0] = 0;
    return out;
}

void wr_sigv4_encode(wr_buf *b, const char *s, bool keep_slash) {
    static const char hex[] = "0123456789ABCDEF";
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
                     c == '.' || c == '_' || c == '~' || (c == '/' && keep_slash);
        if (plain)
            wr_buf_put(b, s, 1);
        else
            wr_buf_put(b, (char[]){'%', hex[c >> 4], hex[c & 15]}, 3);
    }
}

char *wr_sigv4_hex(const uint8_t *p, size_t n, char *out) {
    for (size_t i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", p[i]);
    return out;
}

static void put_str(wr_buf *b, const char *s) { wr_buf_put(b, s, strlen(s)); }

static void put_signed_names(wr_buf *b, const wr_sigv4 *req) {
    for (int i = 0; i < req->nheaders; i++) {
        if (i) put_str(b, ";");
        wr_buf_put(b, req->headers[i], strcspn(req->headers[i], ":"));
    }
}

/* What is signed: method, path, query, headers and the hash of the body, one a line. */
static bool hash_request(const wr_sigv4 *req, uint8_t out[SHA256_BYTES]) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_buf_printf(&b, "%s\n%s\n%s\n", req->method, req->path, req->query);
    for (int i = 0; i < req->nheaders; i++) wr_buf_printf(&b, "%s\n", req->headers[i]);
    put_str(&b, "\n");
    put_signed_names(&b, req);
    wr_buf_printf(&b, "\n%s", req->payload_sha256);
    return !b.failed && EVP_Digest(b.p, b.n, out, NULL, EVP_sha256(), NULL) == 1;
}

static bool hmac(uint8_t key[SHA256_BYTES], const char *text) {
    return HMAC(EVP_sha256(), key, SHA256_BYTES, (const uint8_t *)text, strlen(text), key, NULL) != NULL;
}

/* The key of a day, region and service. */
static bool derive_key(const char *secret_key, const char *day, const char *region, uint8_t key[SHA256_BYTES]) {
    WR_AUTO_BUF wr_buf secret = WR_BUF_INIT;
    wr_buf_printf(&secret, "AWS4%s", secret_key);
    bool ok = !secret.failed && secret.n <= INT32_MAX &&
              HMAC(EVP_sha256(), secret.p, (int)secret.n, (const uint8_t *)day, strlen(day), key, NULL) != NULL;
    if (secret.p) OPENSSL_cleanse(secret.p, secret.n);
    return ok && hmac(key, region) && hmac(key, "s3") && hmac(key, "aws4_request");
}

wr_code wr_sigv4_authorize(const wr_sigv4 *req, const char *access_key, const char *secret_key, wr_buf *b,
                           wr_err *err) {
    uint8_t hash[SHA256_BYTES], key[SHA256_BYTES];
    char hex[2 * SHA256_BYTES + 1], when[17], day[9];
    WR_AUTO_BUF wr_buf text = WR_BUF_INIT;
    wr_sigv4_time(req->now_us, when);
    snprintf(day, sizeof day, "%.8s", when);
    bool ok = hash_request(req, hash);
    if (ok) {
        wr_buf_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s/%s/s3/aws4_request\n%s", when, day, req->region,
                      wr_sigv4_hex(hash, sizeof hash, hex));
        const char *to_sign = wr_buf_cstr(&text);
        ok = to_sign && derive_key(secret_key, day, req->region, key) && hmac(key, to_sign);
    }
    if (!ok) return wr_nomem(err, "signature of a request", text.n);
    wr_buf_printf(b, "AWS4-HMAC-SHA256 Credential=%s/%s/%s/s3/aws4_request,SignedHeaders=", access_key, day,
                  req->region);
    put_signed_names(b, req);
    wr_buf_printf(b, ",Signature=%s", wr_sigv4_hex(key, sizeof key, hex));
    return wr_buf_check(b, "signature of a request", err);
}
