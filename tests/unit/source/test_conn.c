/* Connecting: what fails without a server, and how it is worded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include <errmsg.h>
#include "mysql/conn.h"
#include <ma_pvio.h>

static wr_my_conn_options options(int port) {
    return (wr_my_conn_options){
        .host = (char *)"127.0.0.1", .user = (char *)"weir", .password = (char *)"hunter2hunter2", .port = port};
}

static int listener(int *ret_port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static void a_closed_port_is_worth_another_try(void **state) {
    int port, fd = listener(&port);
    close(fd);
    wr_my_conn_options o = options(port);
    wr_err err = WR_ERR_INIT;
    MYSQL *m = NULL;
    assert_int_equal(wr_my_connect(&o, &m, &err), WR_E_NET);
    assert_int_equal(err.retry, WR_RETRY_SOON);
    assert_non_null(strstr(err.msg, "127.0.0.1"));
    assert_non_null(strstr(err.msg, "weir"));
    assert_null(strstr(err.msg, "hunter2"));
    assert_true(err.cure[0] != 0);
}

static void an_unknown_host_is_named(void **state) {
    wr_my_conn_options o = options(3306);
    o.host = (char *)"no-such-host.invalid";
    wr_err err = WR_ERR_INIT;
    MYSQL *m = NULL;
    assert_int_equal(wr_my_connect(&o, &m, &err), WR_E_NET);
    assert_non_null(strstr(err.msg, "no-such-host.invalid"));
}

static void a_missing_ca_file_is_found_before_connecting(void **state) {
    wr_my_conn_options o = options(1);
    o.tls = WR_TLS_VERIFY, o.tls_ca = (char *)"/nonexistent/ca.pem";
    wr_err err = WR_ERR_INIT;
    MYSQL *m = NULL;
    assert_int_equal(wr_my_connect(&o, &m, &err), WR_E_CONFIG);
    assert_non_null(strstr(err.msg, "/nonexistent/ca.pem"));
}

/* A server that greets, and refuses the log-in with what it likes, or says yes to everything. */
typedef struct fake {
    int fd;
    pthread_t thread;
    const char *refusal; /* NULL: yes; error packet behind 0xff: number (2, little-endian), #state, text */
    size_t refusal_n;
} fake;

static void *fake_server(void *arg) {
    fake *f = arg;
    int c = accept(f->fd, NULL, NULL);
    static const char greeting[] = "\x0a"
                                   "8.0.99\0"
                                   "\x01\0\0\0"
                                   "abcdefgh\0"
                                   "\xff\xf7"
                                   "\x2d"
                                   "\x02\0"
                                   "\x08\x00"
                                   "\x15"
                                   "\0\0\0\0\0\0\0\0\0\0"
                                   "ijklmnopqrst\0"
                                   "mysql_native_password";
    unsigned char head[4] = {sizeof greeting, 0, 0, 0};
    char in[1024];
    if (write(c, head, 4) != 4 || write(c, greeting, sizeof greeting) != sizeof greeting || read(c, in, sizeof in) <= 0)
        return close(c), NULL;
    if (!f->refusal) { /* all is well, whatever it is asked */
        do in[3] = (char)(in[3] + 1);
        while (write(c, (char[]){7, 0, 0, in[3], 0, 0, 0, 2, 0, 0, 0}, 11) == 11 && read(c, in, sizeof in) > 0);
        close(c);
        return NULL;
    }
    unsigned char h2[4] = {(unsigned char)(f->refusal_n + 1), 0, 0, 2};
    if (write(c, h2, 4) != 4 || write(c, "\xff", 1) != 1 || write(c, f->refusal, f->refusal_n) != (ssize_t)f->refusal_n)
        return close(c), NULL;
    while (read(c, in, sizeof in) > 0) {
    }
    close(c);
    return NULL;
}

/* Listens, and connects to it. fake_end when the connection is closed. */
static wr_code connect_to_fake(fake *f, MYSQL **ret, wr_err *err) {
    int port;
    f->fd = listener(&port);
    assert_int_equal(pthread_create(&f->thread, NULL, fake_server, f), 0);
    wr_my_conn_options o = options(port);
    o.tls = WR_TLS_DISABLED;
    return wr_my_connect(&o, ret, err);
}

static void fake_end(fake *f) {
    pthread_join(f->thread, NULL);
    close(f->fd);
}

static void the_password_is_in_no_message(void **state) {
    static const char refusal[] = "\x15\x04#28000Access denied, password was hunter2hunter2 \n\x01";
    fake f = {.refusal = refusal, .refusal_n = sizeof refusal - 1};
    wr_err err = WR_ERR_INIT;
    MYSQL *m = NULL;
    assert_int_equal(connect_to_fake(&f, &m, &err), WR_E_AUTH);
    fake_end(&f);
    assert_int_equal(err.retry, WR_RETRY_NO);
    assert_non_null(strstr(err.msg, "1045"));
    assert_null(strstr(err.msg, "hunter2"));
    assert_null(strchr(err.msg, '\n'));
    assert_non_null(strstr(err.cure, "password"));
}

/* The library reports some errors by a number alone and the values for its own text. */
static void an_error_without_a_text_is_told_with_its_values(void **state) {
    fake f = {0};
    wr_err err = WR_ERR_INIT;
    MYSQL *m = NULL;
    assert_int_equal(connect_to_fake(&f, &m, &err), WR_OK);
    m->net.pvio->set_error(m, CR_SERVER_LOST_EXTENDED, "HY000", NULL, "reading the weather", 42);
    assert_non_null(strstr(mysql_error(m), "reading the weather"));
    assert_non_null(strstr(mysql_error(m), "42"));
    m->net.pvio->set_error(m, 5999, "HY000", NULL, "reading the weather", 42);
    assert_int_equal(mysql_errno(m), 5999);
    wr_my_disconnect(m);
    fake_end(&f);
}

static void names_and_texts_are_quoted(void **state) {
    wr_buf b = WR_BUF_INIT;
    wr_my_quote_name(&b, "a`b");
    wr_my_quote_text(&b, "it's \\ so");
    assert_string_equal(wr_buf_cstr(&b), "`a``b`'it\\'s \\\\ so'");
    wr_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_port_is_worth_another_try),
        cmocka_unit_test(an_unknown_host_is_named),
        cmocka_unit_test(a_missing_ca_file_is_found_before_connecting),
        cmocka_unit_test(the_password_is_in_no_message),
        cmocka_unit_test(an_error_without_a_text_is_told_with_its_values),
        cmocka_unit_test(names_and_texts_are_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
