#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <time.h>
#include "s3.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/io.h"
#include "http_server.h"
#include "tmpdir.h"

/* A server that answers as the script says, in order, and notes what it was asked. */
typedef struct scripted {
    int status;
    const char *headers, *body;
} scripted;

static http_server srv;
static const scripted *script;
static struct { char method[16], path[512], headers[4096]; } seen[64];
static wr_s3 *s3;
static wr_err err;
static const wr_s3_object object = {.bucket = "bucket", .key = "a/b c"};

static bool answer(http_server *s, int fd, const http_seen *q) {
    int i = s->requests - 1;
    const scripted *a = &script[i];
    snprintf(seen[i].method, sizeof seen[i].method, "%s", q->method);
    snprintf(seen[i].path, sizeof seen[i].path, "%s", q->path);
    snprintf(seen[i].headers, sizeof seen[i].headers, "%s", q->headers);
    if (!a->status) return false;
    if (strcmp(q->method, "HEAD"))
        http_answer(fd, a->status, a->headers ? a->headers : "", a->body ? a->body : "", a->body ? strlen(a->body) : 0);
    else {
        char head[512];
        http_say(fd, head,
                 (size_t)snprintf(head, sizeof head, "HTTP/1.1 %d Status\r\n%s\r\n", a->status,
                                  a->headers ? a->headers : ""));
    }
    return true;
}

static void play(const scripted *s) {
    script = s;
    srv.requests = 0;
    wr_err_clear(&err);
}

static wr_s3 *client(wr_s3_options o) {
    static char endpoint[64];
    wr_s3 *s = NULL;
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", srv.port);
    o.endpoint = endpoint;
    o.path_style = true;
    assert_int_equal(wr_s3_open(&o, &s, &err), WR_OK);
    return s;
}

static int setup(void **st) {
    setenv("no_proxy", "*", 1);
    dir_make(st);
    http_server_start(&srv, answer);
    s3 = client((wr_s3_options){.attempts = 3, .credentials = {"AKID", "very-secret", "token"}, .part_bytes = 5 << 20});
    return 0;
}

static int teardown(void **st) {
    wr_s3_close(s3);
    http_server_stop(&srv);
    return dir_remove(st);
}

static wr_code get_all(wr_buf *b) { return wr_s3_get(s3, &object, 0, UINT64_MAX, 1 << 20, b, &err); }

static wr_code put(const char *content) {
    wr_slice data = wr_slice_str(content);
    return wr_s3_put_many(s3, &object, &data, 1, &err);
}

static bool sent(int i, const char *header) { return strstr(seen[i].headers, header) != NULL; }

static const char *error_xml(const char *code, const char *more) {
    static char b[8][2048];
    static int i;
    char *p = b[i++ % 8];
    snprintf(p, sizeof b[0], "<?xml version=\"1.0\"?>\n<Error><Code>%s</Code><Message>because</Message>%s</Error>",
             code, more);
    return p;
}

static void what_is_sent_is_signed_and_checked_by_the_server(void **st) {
    play((scripted[]){{200}});
    assert_int_equal(put("content"), WR_OK);
    assert_string_equal(seen[0].method, "PUT");
    assert_string_equal(seen[0].path, "/bucket/a/b%20c");
    assert_true(sent(0, "content-md5:mgNkuembtIDdJeHwKEyFVQ=="));
    assert_true(sent(0, "x-amz-content-sha256:ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"));
    assert_true(sent(0, "if-none-match:*"));
    assert_true(sent(0, "x-amz-security-token:token"));
    assert_true(
        sent(0, "SignedHeaders=content-md5;host;if-none-match;x-amz-content-sha256;x-amz-date;x-amz-security-token,"));

    wr_s3_credentials lent = {"OTHER", "other-secret", NULL};
    wr_s3_object o = {"bucket", "k", &lent};
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    play((scripted[]){{200, "", "x"}});
    assert_int_equal(wr_s3_get(s3, &o, 0, UINT64_MAX, 10, &b, &err), WR_OK);
    assert_true(sent(0, "Credential=OTHER/"));
    assert_false(sent(0, "security-token"));

    wr_s3 *nobody = client((wr_s3_options){0});
    play((scripted[]){{200, "", "y"}});
    assert_int_equal(wr_s3_get(nobody, &object, 0, UINT64_MAX, 10, &b, &err), WR_OK);
    assert_string_equal(wr_buf_cstr(&b), "xy");
    assert_false(sent(0, "authorization"));
    assert_false(sent(0, "x-amz-"));
    wr_s3_close(nobody);
}

/* A Date header, `ahead_s` from now. */
static const char *date_header(int ahead_s) {
    static char b[2][64];
    static int i;
    char *p = b[i++ % 2];
    time_t t = time(NULL) + ahead_s;
    strftime(p, 64, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", gmtime(&t));
    return p;
}

static void day_and_hour(int ahead_s, char out[32]) {
    time_t t = time(NULL) + ahead_s;
    strftime(out, 32, "x-amz-date:%Y%m%dT%H", gmtime(&t));
}

static void a_wrong_clock_is_corrected_once_by_the_servers(void **st) {
    const int ahead = 5 * 86400;
    char want[32];
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    day_and_hour(ahead, want);
    play(
        (scripted[]){{403, date_header(ahead), error_xml("RequestTimeTooSkewed", "")}, {200, "", "x"}, {200, "", "x"}});
    assert_int_equal(get_all(&b), WR_OK);
    assert_false(sent(0, want));
    assert_true(sent(1, want));
    assert_int_equal(get_all(&b), WR_OK); /* it is remembered */
    assert_true(sent(2, want));
    play((scripted[]){{403, date_header(0), error_xml("RequestTimeTooSkewed", "")},
                      {403, date_header(0), error_xml("RequestTimeTooSkewed", "")}});
    assert_int_equal(get_all(&b), WR_E_AUTH);
    assert_int_equal(srv.requests, 2);
    assert_non_null(strstr(err.cure, "clock"));
    play((scripted[]){{403, "Date: yesterday, or so\r\n", error_xml("RequestTimeTooSkewed", "")}});
    assert_int_equal(get_all(&b), WR_E_AUTH);
}

static void another_region_is_named(void **st) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    play((scripted[]){{301, "x-amz-bucket-region: eu-west-3\r\n", error_xml("PermanentRedirect", "")}});
    assert_int_equal(get_all(&b), WR_E_CONFIG);
    assert_string_equal(err.cure, "the bucket is in region eu-west-3, not us-east-1: correct the region");
    play((scripted[]){{400, "", error_xml("AuthorizationHeaderMalformed", "<Region>ap-south-1</Region>")}});
    assert_int_equal(put("x"), WR_E_CONFIG);
    assert_non_null(strstr(err.cure, "ap-south-1"));
    play((scripted[]){{307, "Location: http://elsewhere/\r\n", ""}});
    assert_int_equal(put("x"), WR_E_CONFIG);
    assert_non_null(strstr(err.cure, "endpoint"));
    assert_int_equal(srv.requests, 1);
}

static void what_passes_is_tried_again_and_what_does_not_is_not(void **st) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    play((scripted[]){{503, "", error_xml("SlowDown", "")}, {0}, {200, "", "x"}});
    assert_int_equal(get_all(&b), WR_OK);
    assert_int_equal(srv.requests, 3);
    play((scripted[]){{400, "", error_xml("RequestTimeout", "")}, {429}, {500}, {200}});
    assert_int_equal(get_all(&b), WR_E_NET);
    assert_int_equal(err.retry, WR_RETRY_SOON);
    assert_int_equal(srv.requests, 3);
    assert_non_null(strstr(err.msg, "tried 3 times"));
    play((scripted[]){{400, "", error_xml("InvalidArgument", "")}});
    assert_int_equal(get_all(&b), WR_E_IO);
    assert_int_equal(err.retry, WR_RETRY_NO);
    assert_int_equal(srv.requests, 1);
    play((scripted[]){{507, "", error_xml("XMinioStorageFull", "")}});
    assert_int_equal(put("x"), WR_E_NOSPC);
    play((scripted[]){{400, "", error_xml("ExpiredToken", "")}});
    assert_int_equal(put("x"), WR_E_AUTH);
    assert_non_null(strstr(err.cure, "session"));
}

static void errors_are_short_one_line_and_without_secrets(void **st) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    WR_AUTO_BUF wr_buf xml = WR_BUF_INIT;
    wr_buf_printf(&xml, "<Error><Code>Odd\n\x1b[1mCode</Code><Message>");
    for (int i = 0; i < 10000; i++) wr_buf_printf(&xml, "long ");
    wr_buf_printf(&xml, "</Message></Error>");
    play((scripted[]){{400, "", wr_buf_cstr(&xml)}});
    assert_int_equal(get_all(&b), WR_E_IO);
    assert_true(strlen(err.msg) < 700);
    assert_non_null(strstr(err.msg, "GET s3://bucket/a/b c: the S3 server answered 400 Odd  [1mCode (long long"));
    assert_null(strstr(err.msg, "very-secret"));
    play((scripted[]){{404, "", "<html><body>not <b>xml</body></html>"}});
    assert_int_equal(get_all(&b), WR_E_NOTFOUND);
    assert_string_equal(err.msg, "GET s3://bucket/a/b c: the S3 server answered 404");
}

static void a_server_without_conditions_is_asked_without(void **st) {
    play((scripted[]){{501, "", error_xml("NotImplemented", "")}, {200}, {200}});
    assert_int_equal(put("x"), WR_OK);
    assert_true(sent(0, "if-none-match"));
    assert_false(sent(1, "if-none-match"));
    assert_int_equal(put("x"), WR_OK);
    assert_false(sent(2, "if-none-match"));
    assert_int_equal(srv.requests, 3);
    play((scripted[]){{501, "", error_xml("NotImplemented", "")}});
    assert_int_equal(put("x"), WR_E_IO); /* it was not the condition */
}

static void an_object_that_is_there_is_ours_or_an_error(void **st) {
    const char *md5 = "Content-Length: 7\r\nETag: \"9a0364b9e99bb480dd25e1f0284c8555\"\r\n";
    play((scripted[]){{412, "", error_xml("PreconditionFailed", "")}, {200, md5}});
    assert_int_equal(put("content"), WR_OK);
    assert_string_equal(seen[1].method, "HEAD");
    play((scripted[]){{412}, {200, "Content-Length: 8\r\nETag: \"9a0364b9e99bb480dd25e1f0284c8555\"\r\n"}});
    assert_int_equal(put("content"), WR_E_EXISTS);
    /* the ETag is none that we know: the content tells */
    play((scripted[]){
        {412}, {200, "Content-Length: 7\r\nETag: \"kms\"\r\n"}, {206, "Content-Range: bytes 0-6/7\r\n", "content"}});
    assert_int_equal(put("content"), WR_OK);
    play((scripted[]){
        {412}, {200, "Content-Length: 7\r\nETag: \"kms\"\r\n"}, {206, "Content-Range: bytes 0-6/7\r\n", "CONTENT"}});
    assert_int_equal(put("content"), WR_E_EXISTS);
    play((scripted[]){{412}, {200, "ETag: \"x\"\r\n"}});
    assert_int_equal(put("content"), WR_E_DECODE);
}

static void answers_with_other_bytes_than_asked_for_are_refused(void **st) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    const char *wrong[] = {"Content-Range: bytes 3-6/100\r\n",
                           "Content-Range: bytes 2-6/100\r\n",
                           "Content-Range: bytes 2-5\r\n",
                           "Content-Range: bytes */100\r\n",
                           "",
                           "Content-Range: bytes 2-18446744073709551615/100\r\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        play((scripted[]){{206, wrong[i], "abcd"}});
        assert_int_equal(wr_s3_get(s3, &object, 2, 4, 10, &b, &err), WR_E_DECODE);
        assert_int_equal(b.n, 0);
    }
    play((scripted[]){{206, "Content-Range: bytes 2-5/6\r\n", "abcd"}});
    assert_int_equal(wr_s3_get(s3, &object, 2, 4, 10, &b, &err), WR_OK);
    assert_true(sent(0, "range:bytes=2-5\r\n"));
    play((scripted[]){{200, "", "0123456789"}}); /* a server without ranges */
    assert_int_equal(wr_s3_get(s3, &object, 2, 4, 10, &b, &err), WR_OK);
    assert_string_equal(wr_buf_cstr(&b), "abcd2345");
    play((scripted[]){{206, "Content-Range: bytes 2-3/4\r\n", "ab"}});
    assert_int_equal(wr_s3_get(s3, &object, 2, 4, 10, &b, &err), WR_E_DECODE);
    play((scripted[]){{416}});
    assert_int_equal(wr_s3_get(s3, &object, 2, 4, 10, &b, &err), WR_E_DECODE);
    play((scripted[]){{206, "Content-Range: bytes 0-3/x\r\n", "abcd"}});
    assert_int_equal(wr_s3_get_file(s3, &object, in_dir("f"), &err), WR_E_DECODE);
    assert_false(wr_file_exists(in_dir("f")));
}

static const char BEGUN[] =
    "<InitiateMultipartUploadResult><UploadId>up&amp;1</UploadId></InitiateMultipartUploadResult>";
static const char COMPLETE[] =
    "\n <?xml version='1.0'?><CompleteMultipartUploadResult xmlns='x'><ETag>e</ETag></CompleteMultipartUploadResult>";

static wr_code put_two_parts(const scripted *s) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    memset(wr_buf_room(&b, 5 << 20), 'x', 5 << 20);
    b.n = 5 << 20;
    wr_buf_u8(&b, 'y');
    wr_err ignored = WR_ERR_INIT;
    if (!wr_file_exists(in_dir("f"))) assert_int_equal(wr_file_create(in_dir("f"), wr_buf_view(&b), &ignored), WR_OK);
    wr_s3 *one = client(
        (wr_s3_options){.attempts = 3, .parallel = 1, .part_bytes = 5 << 20, .credentials = {"AKID", "very-secret"}});
    play(s);
    wr_code rc = wr_s3_put_files(one, &object, (const char *[]){in_dir("f")}, 1, &err);
    wr_s3_close(one);
    return rc;
}

static void an_upload_in_parts_is_complete_when_the_body_says_so(void **st) {
    const char *part = "ETag: \"p\"\r\n";
    assert_int_equal(put_two_parts((scripted[]){{200, "", BEGUN}, {200, part}, {200, part}, {200, "", COMPLETE}}),
                     WR_OK);
    assert_string_equal(seen[0].path, "/bucket/a/b%20c?uploads=");
    assert_string_equal(seen[2].path, "/bucket/a/b%20c?partNumber=2&uploadId=up%261");
    assert_true(sent(3, "if-none-match:*"));
    const char *error = error_xml("InternalError", "");
    assert_int_equal(
        put_two_parts((scripted[]){{200, "", BEGUN}, {200, part}, {200, part}, {200, "", error}, {200, "", COMPLETE}}),
        WR_OK);
    /* each of these takes the upload back, last */
    assert_int_equal(put_two_parts((scripted[]){
                         {200, "", BEGUN}, {200, part}, {200, part}, {200, "", error_xml("InvalidPart", "")}, {204}}),
                     WR_E_IO);
    assert_string_equal(seen[4].method, "DELETE");
    assert_string_equal(seen[4].path, "/bucket/a/b%20c?uploadId=up%261");
    assert_int_equal(
        put_two_parts((scripted[]){{200, "", BEGUN}, {200, part}, {200, part}, {200, "", "<html/>"}, {204}}),
        WR_E_DECODE);
    assert_int_equal(srv.requests, 5);
    assert_int_equal(put_two_parts((scripted[]){{200, "", BEGUN}, {200, part}, {200, ""}, {204}}), WR_E_DECODE);
    assert_int_equal(srv.requests, 4);
    assert_int_equal(put_two_parts((scripted[]){{200, "", BEGUN}, {200, part}, {403}, {404}}), WR_E_AUTH);
    assert_int_equal(put_two_parts((scripted[]){{200, "", "<InitiateMultipartUploadResult/>"}}), WR_E_DECODE);
}

static void an_upload_that_is_gone_is_ours_only_after_a_lost_answer(void **st) {
    const char *part = "ETag: \"p\"\r\n", *gone = error_xml("NoSuchUpload", "");
    /* MD5 of the MD5s of 5 MiB of x and of y */
    const char *etag = "Content-Length: 5242881\r\nETag: \"0c62823571cff39c8dddcc6a74e2569f-2\"\r\n";
    assert_int_equal(put_two_parts((scripted[]){
                         {200, "", BEGUN}, {200, part}, {200, part}, {0}, {404, "", gone}, {200, etag}, {204}}),
                     WR_OK);
    assert_string_equal(seen[5].method, "HEAD");
    assert_int_equal(put_two_parts((scripted[]){{200, "", BEGUN}, {200, part}, {200, part}, {404, "", gone}, {204}}),
                     WR_E_NOTFOUND);
    assert_int_equal(put_two_parts((scripted[]){
                         {200, "", BEGUN}, {200, part}, {200, part}, {412}, {200, "Content-Length: 5\r\n"}, {204}}),
                     WR_E_EXISTS);
    assert_string_equal(seen[5].method, "DELETE");
}

static wr_code count_one(void *ctx, const char *key, uint64_t bytes, int64_t modified_us, wr_err *e) {
    assert_int_equal(bytes, 5);
    assert_int_equal(modified_us, 1255369830250000);
    ++*(int *)ctx;
    return WR_OK;
}

static wr_code list(const scripted *s, int *count) {
    *count = 0;
    wr_s3_object prefix = {.bucket = "bucket", .key = "p/"};
    play(s);
    return wr_s3_list(s3, &prefix, count_one, count, &err);
}

#define ENTRY(key)                                                                                                     \
    "<Contents><Key>" key "</Key><LastModified>2009-10-12T17:50:30.25Z</LastModified><Size>5</Size></Contents>"
#define PAGE(inside) "<ListBucketResult xmlns=\"x\">" inside "</ListBucketResult>"

static void a_list_is_whole_or_an_error(void **st) {
    int n;
    scripted two[] = {
        {200, "",
         PAGE("<IsTruncated>true</IsTruncated><NextContinuationToken>a+b=</NextContinuationToken>" ENTRY("p/1"))},
        {200, "", PAGE("<IsTruncated>false</IsTruncated>" ENTRY("p/2") ENTRY("p/3"))}};
    assert_int_equal(list(two, &n), WR_OK);
    assert_int_equal(n, 3);
    assert_string_equal(seen[0].path, "/bucket?list-type=2&prefix=p%2F");
    assert_string_equal(seen[1].path, "/bucket?continuation-token=a%2Bb%3D&list-type=2&prefix=p%2F");
    const char *bad[] = {
        PAGE("<IsTruncated>true</IsTruncated>" ENTRY("p/1")),
        PAGE("<IsTruncated>false</IsTruncated>" ENTRY("q/1")),
        PAGE("<Contents><Key>p/1</Key><LastModified>2009-10-12T17:50:30Z</LastModified></Contents>"),
        PAGE("<Contents><Key>p/1</Key><LastModified>2009-10-12T17:50:30Z</LastModified><Size>-5</Size></Contents>"),
        PAGE("<Contents><Key>p/1</Key><LastModified>yesterday</LastModified><Size>5</Size></Contents>"),
        "<ListBucketResult><IsTruncated>false</IsTruncated>",
        "<Other/>",
        "",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(list((scripted[]){{200, "", bad[i]}}, &n), WR_E_DECODE);
        assert_int_equal(n, 0 + (i == 0));
    }
    two[1].body = two[0].body; /* the same token again */
    assert_int_equal(list(two, &n), WR_E_DECODE);
    assert_int_equal(list((scripted[]){{404, "", error_xml("NoSuchBucket", "")}}, &n), WR_E_CONFIG);
    assert_non_null(strstr(err.cure, "create the bucket"));
}

static void removing_goes_on_after_an_error(void **st) {
    wr_s3 *one = client((wr_s3_options){.parallel = 1, .attempts = 1});
    wr_s3_object o[4];
    for (int i = 0; i < 4; i++) o[i] = object;
    play((scripted[]){{204}, {403, "", error_xml("AccessDenied", "")}, {404}, {204}});
    assert_int_equal(wr_s3_remove_many(one, o, 4, &err), WR_E_AUTH);
    assert_int_equal(srv.requests, 4);
    play((scripted[]){{404, "", error_xml("NoSuchBucket", "")}});
    assert_int_equal(wr_s3_remove_many(one, o, 1, &err), WR_E_CONFIG);
    wr_s3_close(one);
}

static void options_that_cannot_work_are_refused(void **st) {
    const wr_s3_options bad[] = {
        {.endpoint = "127.0.0.1:9000"}, {.endpoint = "ftp://x"},
        {.endpoint = "http://"},        {.endpoint = "https://h/bucket"},
        {.endpoint = "http://u@h"},     {.endpoint = "https://h?x"},
        {.region = "eu west"},          {.region = ""},
        {.part_bytes = 1 << 20},        {.credentials = {"key", NULL}},
        {.ca_file = "/nowhere.pem"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wr_s3 *s = NULL;
        wr_err_clear(&err);
        assert_int_equal(wr_s3_open(&bad[i], &s, &err), WR_E_CONFIG);
        assert_null(s);
        assert_true(strlen(err.msg) > 10);
    }
    wr_s3_object nothing = {.bucket = "bucket", .key = ""};
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    assert_int_equal(wr_s3_get(s3, &nothing, 0, UINT64_MAX, 10, &b, &err), WR_E_INVAL);
}

typedef wr_code operation(void);

static wr_code op_put(void) {
    play((scripted[]){
        {412}, {200, "Content-Length: 7\r\nETag: \"kms\"\r\n"}, {206, "Content-Range: bytes 0-6/7\r\n", "content"}});
    return put("content");
}
static wr_code op_get(void) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    play((scripted[]){{206, "Content-Range: bytes 2-5/6\r\n", "abcd"}});
    return wr_s3_get(s3, &object, 2, 4, 10, &b, &err);
}
static wr_code op_list(void) {
    int n;
    return list(
        (scripted[]){
            {200, "",
             PAGE("<IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken>" ENTRY("p/1"))},
            {200, "", PAGE("<IsTruncated>false</IsTruncated>" ENTRY("p/2"))}},
        &n);
}
static wr_code op_upload(void) {
    const char *part = "ETag: \"p\"\r\n";
    play((scripted[]){{200, "", BEGUN}, {200, part}, {200, part}, {200, "", COMPLETE}, {204}});
    return wr_s3_put_files(s3, &object, (const char *[]){in_dir("f")}, 1, &err);
}
static wr_code op_open(void) {
    wr_s3 *s = NULL;
    wr_s3_options o = {.ca_file = "/dev/null", .credentials = {"a", "b", "c"}};
    wr_code rc = wr_s3_open(&o, &s, &err);
    wr_s3_close(s);
    return rc;
}

static void every_allocation_may_fail(void **st) {
    operation *ops[] = {op_put, op_get, op_list, op_upload, op_open};
    const char *part = "ETag: \"p\"\r\n";
    assert_int_equal(put_two_parts((scripted[]){{200, "", BEGUN}, {200, part}, {200, part}, {200, "", COMPLETE}}),
                     WR_OK); /* makes the file */
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        uint64_t n = 1;
        for (;; n++) {
            wr_mem_fail_after(n);
            wr_code rc = ops[i]();
            if (wr_mem_fail_after(0) != 0) {
                assert_int_equal(rc, WR_OK);
                break;
            }
            /* an answer that cannot be read for want of memory, or a clean-up without it, is no reason to fail */
            if (rc != WR_OK && rc != WR_E_NOMEM && rc != WR_E_EXISTS && rc != WR_E_DECODE)
                fail_msg("allocation %d of %zu: %s", (int)n, i, err.msg);
        }
        assert_in_range(n, 4, 400);
    }
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(what_is_sent_is_signed_and_checked_by_the_server),
        T(a_wrong_clock_is_corrected_once_by_the_servers),
        T(another_region_is_named),
        T(what_passes_is_tried_again_and_what_does_not_is_not),
        T(errors_are_short_one_line_and_without_secrets),
        T(a_server_without_conditions_is_asked_without),
        T(an_object_that_is_there_is_ours_or_an_error),
        T(answers_with_other_bytes_than_asked_for_are_refused),
        T(an_upload_in_parts_is_complete_when_the_body_says_so),
        T(an_upload_that_is_gone_is_ours_only_after_a_lost_answer),
        T(a_list_is_whole_or_an_error),
        T(removing_goes_on_after_an_error),
        T(options_that_cannot_work_are_refused),
        T(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
