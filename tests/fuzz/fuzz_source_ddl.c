/* Statements of the binlog: any bytes, with some tables in the catalogue. First byte: sql_mode, flavour and character set. What the catalogue holds must stay
 * whole: every definition makes a schema and survives its JSON form, a rollback leaves no trace. */
#include <stdlib.h>
#include <string.h>

#include "mysql/catalogue.h"
#include "weir/base/mem.h"

#define STATEMENTS 12 /* each is looked at with all tables, four times: an input of a thousand would take seconds */

static const char *const setup[] = {
    "CREATE DATABASE d CHARSET utf8mb4",
    "CREATE TABLE d.t(id INT PRIMARY KEY, a VARCHAR(10) DEFAULT 'x', b DECIMAL(10,2), c ENUM('a','b') NOT NULL, e TIMESTAMP NULL, f TEXT CHARACTER SET latin1)",
    "CREATE TABLE d._t_gho LIKE d.t",
    "CREATE TABLE d.u(a INT, b INT AS (a+1), c SET('x','y'), d BIT(3), e BINARY(4), f JSON, g POINT)",
};

static wr_code on_ddl(void *ctx, const wr_ddl *d, wr_err *err) {
    if (!d->db || !d->name || (d->kind == WR_DDL_DROP) != !d->def) abort();
    if (d->kind != WR_DDL_DROP && d->kind != WR_DDL_HIDDEN && !d->schema) abort();
    return WR_OK;
}

static wr_code on_table(void *ctx, const wr_my_table *t, wr_err *err) {
    wr_my_types types = {0};
    WR_AUTO_BUF wr_buf a = WR_BUF_INIT;
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    wr_my_table *again = NULL;
    if (wr_my_table_to_json(t, &a, err) != WR_OK || wr_my_table_from_json(wr_buf_view(&a), types, &again, err) != WR_OK) abort();
    if (wr_my_table_to_json(again, &b, err) != WR_OK || !wr_slice_eq(wr_buf_view(&a), wr_buf_view(&b))) abort();
    wr_my_table_free(again);
    if (ctx) wr_buf_put(ctx, a.p, a.n);
    return WR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    static const char *const pattern = "d\\..*", *const charsets[] = {"utf8mb4", "latin1", "gbk", NULL};
    wr_err err = WR_ERR_INIT;
    wr_capture *capture;
    wr_catalogue *c;
    wr_my_types types = {0};
    bool mariadb = data[0] & 1;
    if (wr_capture_new(&pattern, 1, NULL, 0, &capture, &err) != WR_OK) abort();
    if (wr_catalogue_new(capture, types, mariadb ? WR_MARIADB : WR_MYSQL, &c, &err) != WR_OK) abort();
    wr_statement st = {.default_db = "d", .charset = "utf8mb4", .is_mariadb = mariadb, .server_version = mariadb ? 101119 : 90704, .explicit_timestamp = -1, .session = 1};
    wr_statement_kind kind;
    for (size_t i = 0; i < sizeof setup / sizeof *setup; i++) {
        st.sql = wr_slice_str(setup[i]);
        if (wr_catalogue_statement(c, &st, NULL, on_ddl, NULL, &kind, &err) != WR_OK) abort();
    }
    wr_catalogue_commit(c);
    st.sql_mode = (data[0] & 2 ? 4u : 0) | (data[0] & 4 ? 0x100000u : 0) | (data[0] & 8 ? 1u << 21 : 0) | (data[0] & 16 ? 512u : 0);
    st.charset = charsets[data[0] >> 5 & 3];
    data++, size--;
    for (int statements = 0; size && statements < STATEMENTS;) { /* separated by NUL */
        const uint8_t *end = memchr(data, 0, size);
        size_t n = end ? (size_t)(end - data) : size;
        if (!n) {
            data++, size--;
            continue;
        }
        statements++;
        WR_AUTO_BUF wr_buf before = WR_BUF_INIT;
        WR_AUTO_BUF wr_buf after = WR_BUF_INIT;
        st.sql = wr_slice_of(data, n);
        wr_catalogue_each(c, on_table, &before, &err);
        wr_catalogue_statement(c, &st, NULL, on_ddl, NULL, &kind, &err);
        wr_catalogue_each(c, on_table, NULL, &err);
        wr_catalogue_rollback(c);
        wr_catalogue_each(c, on_table, &after, &err);
        if (!wr_slice_eq(wr_buf_view(&before), wr_buf_view(&after))) abort();
        wr_code rc = wr_catalogue_statement(c, &st, NULL, on_ddl, NULL, &kind, &err);
        if (rc == WR_OK) wr_catalogue_commit(c);
        else wr_catalogue_rollback(c);
        data += n + (end != NULL), size -= n + (end != NULL);
    }
    wr_catalogue_free(c);
    wr_capture_free(capture);
    return 0;
}
