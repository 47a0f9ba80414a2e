/* Random DDL and rows, checked after every statement. Included by test_ddl_server.c. */
static uint64_t rnd_state;
static unsigned rnd(unsigned n) {
    rnd_state ^= rnd_state << 13, rnd_state ^= rnd_state >> 7, rnd_state ^= rnd_state << 17;
    return (unsigned)(rnd_state >> 11) % n;
}
#define PICK(list) (list)[rnd(sizeof(list) / sizeof *(list))]

typedef struct rnd_type { const char *type, *defaults[8]; int only; /* 1 MariaDB, 2 MySQL */ } rnd_type;
static const rnd_type rnd_types[] = {
    {"INT", {"5", "'7'", "-3", "1.5", "0x10", "TRUE", "(1+1)"}},
    {"INT UNSIGNED", {"5", "4294967295", "'12'", "007"}},
    {"BIGINT", {"-9223372036854775808", "1e3", "+4"}},
    {"BIGINT UNSIGNED ZEROFILL", {"18446744073709551615", "1"}},
    {"TINYINT", {"127", "-128", "b'11'"}},
    {"TINYINT(1)", {"0", "1", "FALSE"}},
    {"SMALLINT(3) UNSIGNED", {"65535", "3"}},
    {"MEDIUMINT", {"-8388608", "9"}},
    {"DECIMAL(10,2)", {"1.5", "'1.005'", "-0.004", "12345678.99", ".5"}},
    {"DECIMAL(20)", {"7", "1.5"}},
    {"DECIMAL(10,4) UNSIGNED", {"1.00005", "3"}},
    {"DECIMAL(50,10)", {"1.23", "-5"}},
    {"FLOAT", {"1.1", "16777217", "1e10", "-0.1"}},
    {"FLOAT(7,3)", {"1.1", "1.2345"}},
    {"DOUBLE", {"1.1", "2.5e-3", "'0.3'"}},
    {"BIT", {"1", "b'0'"}},
    {"BIT(12)", {"b'101'", "0x0F", "5"}},
    {"BIT(64)", {"0xFFFFFFFFFFFFFFFF", "1"}},
    {"CHAR(5)", {"'ab '", "''", "'x'", "12"}},
    {"CHAR(5) CHARACTER SET latin1", {"'a'", "'é'"}},
    {"VARCHAR(10)", {"'a b'", "''", "'it''s'", "'中'", "N'n'", "1.50", "x'4142'"}},
    {"VARCHAR(20) COLLATE utf8mb4_bin", {"'q '", "\"d\\\"q\""}},
    {"VARCHAR(300) CHARACTER SET gbk", {"'中'", "'a'"}},
    {"VARCHAR(8) CHARACTER SET utf8mb3", {"'ü'", "'b'"}},
    {"TEXT", {0}}, {"TINYTEXT", {0}}, {"MEDIUMTEXT CHARACTER SET latin1", {0}}, {"TEXT(70)", {0}}, {"LONGTEXT", {0}},
    {"BINARY(4)", {"'a'", "0x4142", "x'00ff'"}},
    {"VARBINARY(6)", {"'ab'", "0x00", "''"}},
    {"BLOB", {0}}, {"BLOB(300)", {0}}, {"TINYBLOB", {0}},
    {"ENUM('a','b','c')", {"'b'", "'A'", "2"}},
    {"ENUM('a','b','c','d''e')", {"'d''e'", "'c'"}},
    {"ENUM('b','a') CHARACTER SET latin1", {"'a'"}},
    {"SET('x','y','z')", {"'z,x'", "''", "'y'"}},
    {"SET('x','y','z','w')", {"'w'"}},
    {"DATE", {"'2024-02-29'", "20240131", "'2024-1-2'"}},
    {"TIME", {"'8:0'", "'-100:00:01'", "'08:00:00'"}},
    {"TIME(3)", {"'1:2:3.456'", "'00:00:00'"}},
    {"DATETIME", {"'2024-01-02 03:04:05'", "'2024-01-01'", "CURRENT_TIMESTAMP", "20240102030405"}},
    {"DATETIME(6)", {"'2024-01-02 03:04:05.6'", "NOW(6)"}},
    {"TIMESTAMP NULL", {"'2020-01-01 00:00:00'", "CURRENT_TIMESTAMP"}},
    {"TIMESTAMP(3) NULL", {"'2020-01-01 00:00:00.5'"}},
    {"TIMESTAMP NOT NULL", {"'2020-01-01 00:00:00'", "CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"}},
    {"YEAR", {"70", "'1999'", "2024", "0"}},
    {"JSON", {0}}, {"POINT", {0}},
    {"UUID", {"'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"}, 1}, {"INET6", {"'::1'"}, 1}, {"INET4", {"'1.2.3.4'"}, 1},
    {"TEXT COMPRESSED", {0}, 1}, {"VARCHAR(9) COMPRESSED", {"'z'"}, 1}, {"VECTOR(2)", {0}, 2},
};
static const char *const rnd_names[] = {"a", "b", "c", "d", "e", "`f g`", "`h``i`", "`列`", "K", "`select`"};
static const char *const rnd_tables[] = {"w_rnd.t0", "w_rnd.t1", "w_rnd.t2", "w_rnd2.t0", "x_rnd.t0", "w_rnd._t0_gho", "w_rnd._t0_del"};
static const char *const rnd_values[] = {"NULL", "0", "1", "-1", "7", "'a'", "'b'", "'abc '", "'é'", "'中文'", "3.75", "1e3", "'2024-02-03'", "'2023-12-31 23:59:59.999'", "'12:34:56'",
                                         "x'00FF'", "'x,z'", "255", "2000000000", "''", "99.999"};

static void rnd_column(wr_buf *b, const server *s, const char *name) {
    const rnd_type *t;
    do t = &PICK(rnd_types);
    while (t->only && (t->only == 1) != s->is_mariadb);
    wr_buf_printf(b, "%s%s%s", name ? name : "", name ? " " : "", t->type);
    bool null_said = strstr(t->type, "NULL");
    if (!null_said && rnd(5) == 0) wr_buf_printf(b, " NOT NULL");
    else if (!null_said && rnd(6) == 0) wr_buf_printf(b, " NULL");
    int n = 0;
    while (n < 8 && t->defaults[n]) n++;
    if (n && rnd(2)) wr_buf_printf(b, " DEFAULT %s", t->defaults[rnd((unsigned)n)]);
    else if (!null_said && rnd(8) == 0) wr_buf_printf(b, " DEFAULT NULL");
    if (rnd(10) == 0) wr_buf_printf(b, " COMMENT 'a, b) INT'");
    if (rnd(20) == 0) wr_buf_printf(b, " INVISIBLE");
    if (rnd(40) == 0) wr_buf_printf(b, " UNIQUE");
}

static const wr_my_table *rnd_known(const server *s, const char *table) {
    char db[64], name[64];
    sscanf(table, "%63[^.].%63s", db, name);
    return wr_catalogue_find(s->cat, db, name);
}

/* A column the table has, mostly. */
static void rnd_old(wr_buf *b, const server *s, const char *table) {
    const wr_my_table *t = rnd_known(s, table);
    if (!t || rnd(12) == 0) wr_buf_printf(b, "%s", PICK(rnd_names));
    else wr_my_quote_name(b, t->cols[rnd((unsigned)t->ncols)].name);
}

static void rnd_place(wr_buf *b, const server *s, const char *table) {
    unsigned k = rnd(5);
    if (k == 0) wr_buf_printf(b, " FIRST");
    if (k != 1) return;
    wr_buf_printf(b, " AFTER ");
    rnd_old(b, s, table);
}

static void rnd_action(wr_buf *b, const server *s, const char *table) {
    static const char *const charsets[] = {"utf8mb4", "latin1", "utf8mb3", "gbk", "utf8mb4 COLLATE utf8mb4_bin"};
    switch (rnd(19)) {
    case 0:
    case 1:
    case 2:
    case 3: wr_buf_printf(b, "ADD COLUMN "), rnd_column(b, s, PICK(rnd_names)), rnd_place(b, s, table); break;
    case 4: wr_buf_printf(b, "ADD ("), rnd_column(b, s, PICK(rnd_names)), wr_buf_printf(b, ", "), rnd_column(b, s, PICK(rnd_names)), wr_buf_printf(b, ")"); break;
    case 5:
    case 6: wr_buf_printf(b, "DROP "), rnd_old(b, s, table); break;
    case 7:
    case 8:
    case 9: wr_buf_printf(b, "MODIFY "), rnd_old(b, s, table), wr_buf_printf(b, " "), rnd_column(b, s, NULL), rnd_place(b, s, table); break;
    case 10: wr_buf_printf(b, "CHANGE "), rnd_old(b, s, table), wr_buf_printf(b, " "), rnd_column(b, s, PICK(rnd_names)), rnd_place(b, s, table); break;
    case 11: wr_buf_printf(b, "RENAME COLUMN "), rnd_old(b, s, table), wr_buf_printf(b, " TO %s", PICK(rnd_names)); break;
    case 12: wr_buf_printf(b, "DROP PRIMARY KEY"); break;
    case 13: wr_buf_printf(b, "ADD PRIMARY KEY ("), rnd_old(b, s, table), wr_buf_printf(b, rnd(2) ? ")" : "(3))"); break;
    case 14: wr_buf_printf(b, "ALTER "), rnd_old(b, s, table), wr_buf_printf(b, rnd(2) ? " SET DEFAULT 5" : " DROP DEFAULT"); break;
    case 15: wr_buf_printf(b, rnd(3) ? "DEFAULT CHARSET %s" : "CONVERT TO CHARACTER SET %s", PICK(charsets)); break;
    case 16: wr_buf_printf(b, "ADD INDEX ("), rnd_old(b, s, table), wr_buf_printf(b, ")"); break;
    case 17: wr_buf_printf(b, "ADD COLUMN %s INT AS (1+1) %s", PICK(rnd_names), rnd(2) ? "VIRTUAL" : "STORED"); break;
    case 18: wr_buf_printf(b, rnd(2) ? "COMMENT='x'" : rnd(2) ? "ENGINE=InnoDB" : "ROW_FORMAT=DYNAMIC"); break;
    }
}

static void rnd_create(wr_buf *b, const server *s, const char *table) {
    if (rnd(6) == 0) {
        wr_buf_printf(b, "CREATE TABLE %s LIKE %s", table, PICK(rnd_tables));
        return;
    }
    wr_buf_printf(b, "CREATE TABLE %s%s (", rnd(5) ? "" : "IF NOT EXISTS ", table);
    int n = 1 + (int)rnd(7);
    for (int i = 0; i < n; i++) {
        if (i) wr_buf_printf(b, ", ");
        rnd_column(b, s, rnd_names[i]);
    }
    if (rnd(3)) wr_buf_printf(b, rnd(2) ? ", PRIMARY KEY (a)" : ", id INT AUTO_INCREMENT PRIMARY KEY");
    wr_buf_printf(b, ")");
    if (rnd(4) == 0) wr_buf_printf(b, " DEFAULT CHARSET=%s", rnd(2) ? "latin1" : "utf8mb3 COLLATE utf8mb3_bin");
    if (s->is_mariadb && rnd(12) == 0) wr_buf_printf(b, " WITH SYSTEM VERSIONING");
}

static void rnd_rows(server *s, const char *table) {
    const wr_my_table *t = rnd_known(s, table);
    for (int k = 0; t && k < 3; k++) {
        wr_buf b = WR_BUF_INIT, v = WR_BUF_INIT;
        wr_buf_printf(&b, "INSERT IGNORE INTO %s (", table);
        int n = 0;
        for (int i = 0; i < t->ncols; i++) {
            if (t->cols[i].hidden || t->cols[i].generated || rnd(4) == 0) continue;
            wr_buf_printf(&b, n ? ", " : "");
            wr_buf_printf(&v, n++ ? ", " : "");
            wr_my_quote_name(&b, t->cols[i].name);
            if (t->cols[i].kind == MY_GEOMETRY) wr_buf_printf(&v, "POINT(1,2)");
            else if (t->cols[i].kind == MY_JSON) wr_buf_printf(&v, "'[1]'");
            else wr_buf_printf(&v, "%s", PICK(rnd_values));
        }
        wr_buf_printf(&b, ") VALUES (%s)", v.n ? wr_buf_cstr(&v) : "");
        server_run(s, wr_buf_cstr(&b));
        wr_buf_free(&b);
        wr_buf_free(&v);
    }
}

static void rnd_statement(server *s, wr_buf *b) {
    const char *table = PICK(rnd_tables);
    switch (rnd(24)) {
    case 0:
    case 1:
    case 2:
    case 3: rnd_create(b, s, table); break;
    case 4: wr_buf_printf(b, "DROP TABLE IF EXISTS %s, %s", table, PICK(rnd_tables)); break;
    case 5: wr_buf_printf(b, "RENAME TABLE %s TO %s", table, PICK(rnd_tables)); break;
    case 6: wr_buf_printf(b, "RENAME TABLE %s TO w_rnd.tmp, %s TO %s, w_rnd.tmp TO %s", table, rnd_tables[1], table, rnd_tables[1]); break;
    case 7: wr_buf_printf(b, "RENAME TABLE w_rnd.t0 TO w_rnd._t0_del, w_rnd._t0_gho TO w_rnd.t0"); break;
    case 8: wr_buf_printf(b, "CREATE TABLE w_rnd._t0_gho LIKE w_rnd.t0"); break;
    case 9: wr_buf_printf(b, "INSERT IGNORE INTO w_rnd._t0_gho SELECT * FROM w_rnd.t0"); break;
    case 10: wr_buf_printf(b, "TRUNCATE TABLE %s", table); break;
    case 11: wr_buf_printf(b, "ALTER TABLE %s RENAME TO %s, ", table, PICK(rnd_tables)), rnd_action(b, s, table); break;
    default: {
        wr_buf_printf(b, "ALTER TABLE %s ", table);
        for (unsigned i = 0, n = 1 + rnd(3); i < n; i++) {
            if (i) wr_buf_printf(b, ", ");
            rnd_action(b, s, table);
        }
    }
    }
}

static void run_random(const char *where) {
    server s;
    if (!where) skip();
    if (!server_open(&s, where, "w[_ ].*")) fail_msg("no server at %s", where);
    const char *seed = getenv("WEIR_TEST_SEED"), *rounds = getenv("WEIR_TEST_ROUNDS");
    rnd_state = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) * 2654435761u + 1;
    print_message("WEIR_TEST_SEED=%llu\n", (unsigned long long)rnd_state);
    s.may_ask = true;
    static const char *const dbs[] = {"w_rnd", "w_rnd2", "x_rnd"};
    for (int i = 0; i < 3; i++) {
        server_quiet(&s, "DROP DATABASE IF EXISTS %s", dbs[i]);
        server_quiet(&s, "CREATE DATABASE %s CHARSET %s", dbs[i], i == 1 ? "latin1" : "utf8mb4");
    }
    server_begin(&s);
    if (s.is_mariadb) server_run(&s, "SET system_versioning_alter_history = KEEP");
    int good = 0;
    for (int i = 0, n = rounds ? atoi(rounds) : 80; i < n; i++) {
        static const char *const modes[] = {"SET sql_mode = DEFAULT", "SET sql_mode = ''", "SET sql_mode = 'ALLOW_INVALID_DATES,STRICT_ALL_TABLES'"};
        static const char *const zones[] = {"SET time_zone = '+00:00'", "SET time_zone = '+05:30'", "SET time_zone = 'SYSTEM'"};
        if (rnd(8) == 0) server_run(&s, PICK(modes));
        if (rnd(12) == 0) server_run(&s, PICK(zones));
        rnd_rows(&s, PICK(rnd_tables));
        wr_buf b = WR_BUF_INIT;
        rnd_statement(&s, &b);
        char *sql = wr_buf_cstr(&b);
        size_t had = strlen(s.failure);
        unsigned error = server_run(&s, sql);
        if (error == 0) good++;
        if (getenv("WEIR_TEST_VERBOSE")) print_message("%s: %s\n", error ? "refused" : "accepted", sql);
        if (strlen(s.failure) > had) {
            disagree(&s, "  at: %s", sql);
            server_begin(&s);
        }
        wr_buf_free(&b);
    }
    for (int i = 0; i < 3; i++) server_quiet(&s, "DROP DATABASE IF EXISTS %s", dbs[i]);
    print_message("%d statements accepted: %d definitions compared, %d rows checked; verdicts: %d keep, %d fill, %d reload; %d had to ask the server\n", good, s.compared,
                  s.rows_checked, s.keeps, s.fills, s.reloads, s.asked);
    char failure[sizeof s.failure];
    memcpy(failure, s.failure, sizeof failure);
    server_close(&s);
    report(failure);
}
