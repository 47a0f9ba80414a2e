/* A catalogue fed with statements, and its events as text. */
#ifndef TEST_SOURCE_DDL_FIXTURE_H
#define TEST_SOURCE_DDL_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include "mysql/catalogue.h"
#include "weir/base/mem.h"

typedef struct ddl_fixture {
    wr_capture *capture;
    wr_catalogue *c;
    wr_buf events;          /* one line per event */
    wr_statement st;        /* sql is set per statement */
    wr_statement_kind kind; /* of the last one */
    wr_err err;
} ddl_fixture;

/* "ALTER d.t fill v2 #1: id:int! k1, a:string=x #2" */
static inline wr_code fixture_event(void *ctx, const wr_ddl *d, wr_err *err) {
    static const char *const kinds[] = {"?", "CREATE", "ALTER", "RENAME", "DROP", "TRUNCATE", "HIDDEN"}, *const rows[] = {"", " fill", " reload", " left", " retyped"};
    wr_buf *b = ctx;
    wr_buf_printf(b, "%s ", kinds[d->kind]);
    if (d->old_name) wr_buf_printf(b, "%s.%s -> ", d->old_db, d->old_name);
    wr_buf_printf(b, "%s.%s%s #%u", d->db, d->name, rows[d->rows], d->table);
    if (d->schema) {
        wr_buf_printf(b, " v%u:", d->schema->version);
        for (int i = 0; i < d->schema->ncols; i++) {
            const wr_column *c = &d->schema->cols[i];
            char type[32];
            wr_buf_printf(b, "%s%s %s %s%s", i ? ", " : " ", c->name, wr_type_name(c->type, type), c->nullable ? "" : "not null ", "");
            wr_buf_printf(b, "(%d)", c->id);
            if (c->key_ord) wr_buf_printf(b, " key %d", c->key_ord);
            if (c->has_initial) wr_buf_printf(b, " = "), wr_value_print(b, c->type, &c->initial);
        }
    }
    wr_buf_printf(b, "\n");
    return WR_OK;
}

static inline void fixture_open(ddl_fixture *f, const char *pattern, wr_flavor flavor) {
    wr_my_types types = {0};
    *f = (ddl_fixture){.err = WR_ERR_INIT};
    assert_int_equal(wr_capture_new(&pattern, 1, NULL, 0, &f->capture, &f->err), WR_OK);
    assert_int_equal(wr_catalogue_new(f->capture, types, flavor, &f->c, &f->err), WR_OK);
    bool mariadb = flavor == WR_MARIADB;
    f->st = (wr_statement){.default_db = "d", .charset = "utf8mb4", .collation_server = "utf8mb4_general_ci", .time_zone = "+00:00", .session = 7,
                           .explicit_timestamp = 1, .sql_mode = 3u << 21, .is_mariadb = mariadb, .server_version = mariadb ? 101119 : 90704};
}

static inline void fixture_close(ddl_fixture *f) {
    wr_catalogue_free(f->c);
    wr_capture_free(f->capture);
    wr_buf_free(&f->events);
}

/* Events of this statement alone are in f->events behind it. */
static inline wr_code fixture_run(ddl_fixture *f, const char *sql) {
    wr_buf_clear(&f->events);
    f->st.sql = wr_slice_str(sql);
    wr_code rc = wr_catalogue_statement(f->c, &f->st, NULL, fixture_event, &f->events, &f->kind, &f->err);
    if (rc == WR_OK) wr_catalogue_commit(f->c);
    else wr_catalogue_rollback(f->c);
    return rc;
}

static inline const char *fixture_events(ddl_fixture *f) {
    const char *s = f->events.n ? wr_buf_cstr(&f->events) : "";
    return s;
}

#endif
