#include "ddl_type.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include <unicode/utf8.h>
#include "value.h"
#include "weir/base/mem.h"

/* ------------------------------------------------------------------ parser */
void wr_parser_next(wr_parser *p) {
    p->last_end = p->t.end;
    if (p->bad) p->t = (wr_tok){.kind = WR_TOK_END, .text = "", .at = p->lx.n, .end = p->lx.n};
    else wr_lexer_next(&p->lx, &p->t);
}

void wr_parser_init(wr_parser *p, wr_slice sql, uint64_t sql_mode, bool is_mariadb, uint32_t version, wr_arena *arena) {
    *p = (wr_parser){.sql_mode = sql_mode, .is_mariadb = is_mariadb, .version = version};
    wr_lexer_init(&p->lx, sql, sql_mode, is_mariadb, version, arena);
    wr_parser_next(p);
}

wr_tok wr_parser_peek(const wr_parser *p) {
    wr_lexer ahead = p->lx;
    wr_tok t;
    wr_lexer_next(&ahead, &t);
    return t;
}

bool wr_parser_word(wr_parser *p, const char *upper) {
    if (!wr_tok_word(&p->t, upper)) return false;
    wr_parser_next(p);
    return true;
}

bool wr_parser_punct(wr_parser *p, char ch) {
    if (!wr_tok_is(&p->t, ch)) return false;
    wr_parser_next(p);
    return true;
}

void wr_parser_fail(wr_parser *p, const char *expected) {
    if (p->bad) return;
    p->bad = expected;
    p->bad_at = p->t.at;
    wr_parser_next(p);
}

void wr_parser_need_word(wr_parser *p, const char *upper) {
    if (!wr_parser_word(p, upper)) wr_parser_fail(p, upper);
}

void wr_parser_need_punct(wr_parser *p, char ch) {
    if (!wr_parser_punct(p, ch)) wr_parser_fail(p, ch == '(' ? "(" : ch == ')' ? ")" : "punctuation");
}

void wr_parser_skip_parens(wr_parser *p) {
    int depth = 0;
    do {
        if (wr_tok_is(&p->t, '(')) depth++;
        else if (wr_tok_is(&p->t, ')')) depth--;
        else if (p->t.kind == WR_TOK_END) {
            wr_parser_fail(p, ")");
            return;
        }
        wr_parser_next(p);
    } while (depth > 0);
}

/* ------------------------------------------------------------------ character sets */
typedef struct charset_info { const char *name; int maxlen; const char *collation; } charset_info;
/* Default collations: MySQL's manual, "Supported Character Sets and Collations"; the same on both but for utf8mb4. */
static const charset_info charsets[] = {
    {"armscii8", 1, "armscii8_general_ci"}, {"ascii", 1, "ascii_general_ci"}, {"big5", 2, "big5_chinese_ci"},
    {"binary", 1, "binary"}, {"cp1250", 1, "cp1250_general_ci"}, {"cp1251", 1, "cp1251_general_ci"},
    {"cp1256", 1, "cp1256_general_ci"}, {"cp1257", 1, "cp1257_general_ci"}, {"cp850", 1, "cp850_general_ci"},
    {"cp852", 1, "cp852_general_ci"}, {"cp866", 1, "cp866_general_ci"}, {"cp932", 2, "cp932_japanese_ci"},
    {"dec8", 1, "dec8_swedish_ci"}, {"eucjpms", 3, "eucjpms_japanese_ci"}, {"euckr", 2, "euckr_korean_ci"},
    {"gb18030", 4, "gb18030_chinese_ci"}, {"gb2312", 2, "gb2312_chinese_ci"}, {"gbk", 2, "gbk_chinese_ci"},
    {"geostd8", 1, "geostd8_general_ci"}, {"greek", 1, "greek_general_ci"}, {"hebrew", 1, "hebrew_general_ci"},
    {"hp8", 1, "hp8_english_ci"}, {"keybcs2", 1, "keybcs2_general_ci"}, {"koi8r", 1, "koi8r_general_ci"},
    {"koi8u", 1, "koi8u_general_ci"}, {"latin1", 1, "latin1_swedish_ci"}, {"latin2", 1, "latin2_general_ci"},
    {"latin5", 1, "latin5_turkish_ci"}, {"latin7", 1, "latin7_general_ci"}, {"macce", 1, "macce_general_ci"},
    {"macroman", 1, "macroman_general_ci"}, {"sjis", 2, "sjis_japanese_ci"}, {"swe7", 1, "swe7_swedish_ci"},
    {"tis620", 1, "tis620_thai_ci"}, {"ucs2", 2, "ucs2_general_ci"}, {"ujis", 3, "ujis_japanese_ci"},
    {"utf16", 4, "utf16_general_ci"}, {"utf16le", 4, "utf16le_general_ci"}, {"utf32", 4, "utf32_general_ci"},
    {"utf8mb3", 3, "utf8mb3_general_ci"}, {"utf8mb4", 4, NULL},
};

static const charset_info *charset_find(const char *name) {
    if (strcasecmp(name, "utf8") == 0) name = "utf8mb3";
    for (size_t i = 0; i < sizeof charsets / sizeof *charsets; i++)
        if (strcasecmp(charsets[i].name, name) == 0) return &charsets[i];
    return NULL;
}

int wr_my_charset_maxlen(const char *charset) {
    const charset_info *ci = charset ? charset_find(charset) : NULL;
    return ci ? ci->maxlen : 1;
}

const char *wr_my_charset_alias(const char *charset) {
    const charset_info *ci = charset_find(charset);
    return ci ? ci->name : charset;
}

const char *wr_my_default_collation(const char *charset, const wr_ddl_server *sv) {
    const charset_info *ci = charset_find(charset);
    if (!ci) return NULL;
    bool uca = sv->is_mariadb && sv->version >= 110600 && ci->maxlen > 1 && (strncmp(ci->name, "utf", 3) == 0 || strcmp(ci->name, "ucs2") == 0);
    if (strcmp(ci->name, "utf8mb4") == 0)
        return !sv->is_mariadb ? "utf8mb4_0900_ai_ci" : uca ? "utf8mb4_uca1400_ai_ci" : "utf8mb4_general_ci";
    if (uca && strcmp(ci->name, "utf8mb3") == 0) return "utf8mb3_uca1400_ai_ci";
    return ci->collation;
}

const char *wr_my_charset_of(const char *collation, char buf[64]) {
    size_t n = strcspn(collation, "_");
    if (n > 63) n = 63;
    memcpy(buf, collation, n);
    buf[n] = 0;
    return wr_my_charset_alias(buf);
}

/* ------------------------------------------------------------------ types as written */
static bool number_in(wr_parser *p, uint32_t *ret) {
    if (p->t.kind != WR_TOK_NUMBER) return false;
    char *end;
    unsigned long long v = strtoull(p->t.text, &end, 10);
    if (*end || v > UINT32_MAX) return false;
    *ret = (uint32_t)v;
    wr_parser_next(p);
    return true;
}

/* "(n)" or "(n,m)"; also "(n CHAR)" and "(n BYTE)" of MariaDB's Oracle mode. */
static void size_in(wr_parser *p, wr_ddl_type *ty) {
    if (!wr_parser_punct(p, '(')) return;
    if (!number_in(p, &ty->length)) {
        wr_parser_fail(p, "a length");
        return;
    }
    ty->has_length = true;
    if (!wr_parser_word(p, "CHAR")) wr_parser_word(p, "BYTE");
    if (wr_parser_punct(p, ',')) {
        if (number_in(p, &ty->scale)) ty->has_scale = true;
        else wr_parser_fail(p, "a scale");
    }
    wr_parser_need_punct(p, ')');
}

static void labels_in(wr_parser *p, wr_ddl_type *ty) {
    wr_parser_need_punct(p, '(');
    size_t cap = 0;
    while (!p->bad) {
        if (p->t.kind == WR_TOK_WORD && p->t.text[0] == '_') wr_parser_next(p); /* character set introducer */
        if (p->t.kind != WR_TOK_STRING && p->t.kind != WR_TOK_HEX) {
            wr_parser_fail(p, "a label");
            return;
        }
        if (p->t.kind == WR_TOK_HEX) {
            wr_parser_fail(p, "a label in plain text");
            return;
        }
        if ((size_t)ty->nlabels == cap) {
            cap = cap ? cap * 2 : 16;
            const char **labels = wr_arena_alloc(p->lx.arena, cap * sizeof *labels);
            size_t *lens = wr_arena_alloc(p->lx.arena, cap * sizeof *lens);
            if (!labels || !lens) {
                p->lx.full = true;
                wr_parser_fail(p, "less text");
                return;
            }
            if (ty->nlabels) {
                memcpy(labels, ty->labels, (size_t)ty->nlabels * sizeof *labels);
                memcpy(lens, ty->label_lens, (size_t)ty->nlabels * sizeof *lens);
            }
            ty->labels = labels;
            ty->label_lens = lens;
        }
        ty->labels[ty->nlabels] = p->t.text;
        ty->label_lens[ty->nlabels++] = p->t.n;
        wr_parser_next(p);
        if (!wr_parser_punct(p, ',')) break;
    }
    wr_parser_need_punct(p, ')');
}

/* A character set's or collation's name: word, quoted name or string. */
static const char *charset_name(wr_parser *p) {
    if (p->t.kind != WR_TOK_WORD && p->t.kind != WR_TOK_NAME && p->t.kind != WR_TOK_STRING) {
        wr_parser_fail(p, "a character set");
        return "";
    }
    const char *s = p->t.text;
    wr_parser_next(p);
    return s;
}

bool wr_ddl_charset_parse(wr_parser *p, wr_ddl_type *ty) {
    if (wr_tok_word(&p->t, "CHARACTER") || wr_tok_word(&p->t, "CHAR")) {
        wr_tok next = wr_parser_peek(p);
        if (!wr_tok_word(&next, "SET")) return false;
        wr_parser_next(p);
        wr_parser_next(p);
        wr_parser_punct(p, '=');
        ty->charset = charset_name(p);
        return true;
    }
    if (wr_parser_word(p, "CHARSET")) {
        wr_parser_punct(p, '=');
        ty->charset = charset_name(p);
        return true;
    }
    if (wr_parser_word(p, "COLLATE")) {
        wr_parser_punct(p, '=');
        ty->collation = charset_name(p);
        return true;
    }
    if (wr_parser_word(p, "ASCII")) return ty->charset = "latin1", true;
    if (wr_parser_word(p, "UNICODE")) return ty->charset = "ucs2", true;
    if (wr_parser_word(p, "BYTE")) return ty->charset = "binary", true;
    if (wr_parser_word(p, "BINARY")) return ty->binary = true, true;
    return false;
}

typedef struct type_word {
    const char *word;
    wr_my_kind kind;
    uint8_t blob_bytes;
    bool text; /* takes character set words */
} type_word;
static const type_word type_words[] = {
    {"INT", MY_INT}, {"INTEGER", MY_INT}, {"INT4", MY_INT}, {"TINYINT", MY_TINYINT}, {"INT1", MY_TINYINT},
    {"SMALLINT", MY_SMALLINT}, {"INT2", MY_SMALLINT}, {"MEDIUMINT", MY_MEDIUMINT}, {"MIDDLEINT", MY_MEDIUMINT},
    {"INT3", MY_MEDIUMINT}, {"BIGINT", MY_BIGINT}, {"INT8", MY_BIGINT}, {"BOOL", MY_TINYINT}, {"BOOLEAN", MY_TINYINT},
    {"REAL", MY_DOUBLE}, {"DOUBLE", MY_DOUBLE}, {"FLOAT8", MY_DOUBLE}, {"FLOAT", MY_FLOAT}, {"FLOAT4", MY_FLOAT},
    {"DEC", MY_DECIMAL}, {"DECIMAL", MY_DECIMAL}, {"NUMERIC", MY_DECIMAL}, {"FIXED", MY_DECIMAL},
    {"NUMBER", MY_DECIMAL}, {"BIT", MY_BIT}, {"CHAR", MY_CHAR, 0, true}, {"CHARACTER", MY_CHAR, 0, true},
    {"NCHAR", MY_CHAR, 0, true}, {"NATIONAL", MY_CHAR, 0, true}, {"VARCHAR", MY_VARCHAR, 0, true},
    {"VARCHARACTER", MY_VARCHAR, 0, true}, {"NVARCHAR", MY_VARCHAR, 0, true}, {"VARCHAR2", MY_VARCHAR, 0, true},
    {"BINARY", MY_BINARY}, {"VARBINARY", MY_VARBINARY}, {"RAW", MY_VARBINARY}, {"TINYTEXT", MY_TEXT, 1, true},
    {"TEXT", MY_TEXT, 2, true}, {"MEDIUMTEXT", MY_TEXT, 3, true}, {"LONGTEXT", MY_TEXT, 4, true},
    {"CLOB", MY_TEXT, 4, true}, {"TINYBLOB", MY_BLOB, 1}, {"BLOB", MY_BLOB, 2}, {"MEDIUMBLOB", MY_BLOB, 3},
    {"LONGBLOB", MY_BLOB, 4}, {"LONG", MY_TEXT, 3, true}, {"DATE", MY_DATE}, {"TIME", MY_TIME},
    {"DATETIME", MY_DATETIME}, {"TIMESTAMP", MY_TIMESTAMP}, {"YEAR", MY_YEAR}, {"ENUM", MY_ENUM, 0, true},
    {"SET", MY_SET, 0, true}, {"JSON", MY_JSON}, {"UUID", MY_UUID}, {"INET4", MY_INET4}, {"INET6", MY_INET6},
    {"VECTOR", MY_VECTOR}, {"SERIAL", MY_BIGINT}, {"GEOMETRY", MY_GEOMETRY}, {"POINT", MY_GEOMETRY},
    {"LINESTRING", MY_GEOMETRY}, {"POLYGON", MY_GEOMETRY}, {"MULTIPOINT", MY_GEOMETRY},
    {"MULTILINESTRING", MY_GEOMETRY}, {"MULTIPOLYGON", MY_GEOMETRY}, {"GEOMETRYCOLLECTION", MY_GEOMETRY},
    {"GEOMCOLLECTION", MY_GEOMETRY},
};

static bool varying(wr_parser *p) { return wr_parser_word(p, "VARYING"); }

/* NATIONAL CHAR, NCHAR VARCHAR, CHARACTER VARYING, LONG VARBINARY, DOUBLE PRECISION, CHAR BYTE, ... behind the first word. */
static void second_words(wr_parser *p, const char *first, wr_ddl_type *ty) {
    if (strcasecmp(first, "NATIONAL") == 0) {
        ty->national = true;
        if (wr_parser_word(p, "VARCHAR") || wr_parser_word(p, "VARCHARACTER")) ty->kind = MY_VARCHAR;
        else if (wr_parser_word(p, "CHAR") || wr_parser_word(p, "CHARACTER")) {
            if (varying(p)) ty->kind = MY_VARCHAR;
        } else wr_parser_fail(p, "CHAR");
    } else if (strcasecmp(first, "NCHAR") == 0) {
        ty->national = true;
        if (varying(p) || wr_parser_word(p, "VARCHAR") || wr_parser_word(p, "VARCHARACTER")) ty->kind = MY_VARCHAR;
    } else if (strcasecmp(first, "NVARCHAR") == 0) ty->national = true;
    else if (strcasecmp(first, "CHAR") == 0 || strcasecmp(first, "CHARACTER") == 0) {
        if (varying(p)) ty->kind = MY_VARCHAR;
    } else if (strcasecmp(first, "DOUBLE") == 0) wr_parser_word(p, "PRECISION");
    else if (strcasecmp(first, "LONG") == 0) {
        if (wr_parser_word(p, "VARBINARY")) ty->kind = MY_BLOB;
        else if (wr_parser_word(p, "CHAR") || wr_parser_word(p, "CHARACTER")) varying(p);
        else if (!wr_parser_word(p, "VARCHAR")) wr_parser_word(p, "VARCHARACTER");
    }
}

/* MariaDB: the types that depend on sql_mode; oracle_schema.DATE and the like say which are meant whatever it is. */
static uint64_t type_modes(wr_parser *p) {
    static const struct { const char *schema; uint64_t mode; } schemas[] = {{"MARIADB_SCHEMA", 0}, {"ORACLE_SCHEMA", WR_MODE_ORACLE}, {"MAXDB_SCHEMA", WR_MODE_MAXDB}};
    if (!p->is_mariadb) return p->sql_mode & ~(WR_MODE_ORACLE | WR_MODE_MAXDB);
    wr_tok dot = wr_parser_peek(p);
    for (size_t i = 0; wr_tok_is(&dot, '.') && i < sizeof schemas / sizeof *schemas; i++)
        if (wr_tok_word(&p->t, schemas[i].schema)) {
            wr_parser_next(p), wr_parser_next(p);
            return (p->sql_mode & ~(WR_MODE_ORACLE | WR_MODE_MAXDB)) | schemas[i].mode;
        }
    return p->sql_mode;
}

bool wr_ddl_type_parse(wr_parser *p, wr_ddl_type *ty) {
    *ty = (wr_ddl_type){0};
    const type_word *w = NULL;
    uint64_t modes = type_modes(p);
    for (size_t i = 0; !w && i < sizeof type_words / sizeof *type_words; i++)
        if (wr_tok_word(&p->t, type_words[i].word)) w = &type_words[i];
    if (!w) return false;
    const char *first = w->word;
    wr_parser_next(p);
    ty->kind = w->kind;
    ty->blob_bytes = w->blob_bytes;
    bool oracle = modes & WR_MODE_ORACLE;
    if (w->kind == MY_GEOMETRY) ty->geometry = first;
    if (strcmp(first, "REAL") == 0 && (p->sql_mode & WR_MODE_REAL_AS_FLOAT)) ty->kind = MY_FLOAT;
    if (strcmp(first, "SERIAL") == 0) ty->serial = ty->is_unsigned = true;
    if (oracle && strcmp(first, "DATE") == 0) ty->kind = MY_DATETIME;
    if ((modes & WR_MODE_MAXDB) && strcmp(first, "TIMESTAMP") == 0) ty->kind = MY_DATETIME;
    if (oracle && strcmp(first, "BLOB") == 0) ty->blob_bytes = 4;
    second_words(p, first, ty);
    if (strncmp(first, "BOOL", 4) == 0) ty->is_bool = true;
    else if (ty->kind == MY_ENUM || ty->kind == MY_SET) labels_in(p, ty);
    else size_in(p, ty);
    if (strcmp(first, "NUMBER") == 0 && !ty->has_length) ty->kind = MY_DOUBLE; /* Oracle mode */
    if ((strcmp(first, "TEXT") == 0 || strcmp(first, "BLOB") == 0) && ty->has_length &&
        (ty->length || !p->is_mariadb)) /* TEXT(0): the smallest on MySQL, TEXT on MariaDB */
        ty->blob_bytes = 0;
    for (;;) {
        if (wr_parser_word(p, "UNSIGNED")) ty->is_unsigned = true;
        else if (wr_parser_word(p, "SIGNED")) continue;
        else if (wr_parser_word(p, "ZEROFILL")) ty->zerofill = ty->is_unsigned = true;
        else if (!w->text || !wr_ddl_charset_parse(p, ty)) break;
    }
    return true;
}

/* ------------------------------------------------------------------ resolving */
static wr_code cannot(const wr_my_col *c, wr_err *err, const char *why) {
    return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "column \"%s\": %s", c->name ? c->name : "?", why);
}

static uint8_t blob_bytes_for(uint64_t bytes) { return bytes < 256 ? 1 : bytes < 65536 ? 2 : bytes < (1u << 24) ? 3 : 4; }

static wr_code set_charset(wr_my_col *c, const char *charset, const char *collation, wr_err *err) {
    char *cs = wr_strdup(wr_my_charset_alias(charset)), *cl = collation ? wr_strdup(collation) : NULL;
    if (!cs || (collation && !cl)) {
        wr_free(cs);
        wr_free(cl);
        return wr_nomem(err, "column definition", 64);
    }
    for (char *s = cs; *s; s++) *s = (char)tolower((unsigned char)*s);
    for (char *s = cl; s && *s; s++) *s = (char)tolower((unsigned char)*s);
    /* utf8_bin is utf8mb3_bin */
    if (cl && strncmp(cl, "utf8_", 5) == 0) {
        char *longer = wr_asprintf("utf8mb3_%s", cl + 5);
        wr_free(cl);
        if (!(cl = longer)) {
            wr_free(cs);
            return wr_nomem(err, "column definition", 64);
        }
    }
    wr_free(c->charset);
    wr_free(c->collation);
    c->charset = cs;
    c->collation = cl;
    return WR_OK;
}

static wr_code pick_charset(const wr_ddl_type *ty, const wr_ddl_server *sv, const char *charset, const char *collation, wr_my_col *c, wr_err *err) {
    char buf[64];
    const char *cs = ty->charset, *cl = ty->collation;
    if (cs && strcasecmp(cs, "default") == 0) cs = NULL;
    if (cl && strcasecmp(cl, "default") == 0) cl = NULL;
    if (cl && strncasecmp(cl, "uca1400_", 8) == 0) { /* a collation of any Unicode character set */
        const char *base = cs ? wr_my_charset_alias(cs) : ty->national ? "utf8mb3" : charset;
        if (!base) return cannot(c, err, "its character set is not known");
        WR_AUTO char *full = wr_asprintf("%s_%s", base, cl);
        return full ? set_charset(c, base, full, err) : wr_nomem(err, "collation", 64);
    }
    if (cl && !cs) cs = wr_my_charset_of(cl, buf);
    if (!cs && ty->national) cs = "utf8mb3";
    bool own = cs != NULL;
    if (!cs) cs = charset;
    if (!cs) return cannot(c, err, "the table's default character set is not known");
    if (!charset_find(cs)) {
        wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "column \"%s\": unknown character set \"%s\"", c->name ? c->name : "?", cs);
        return err->code;
    }
    if (!cl && ty->binary) {
        WR_AUTO char *bin = wr_asprintf("%s_bin", wr_my_charset_alias(cs));
        return bin ? set_charset(c, cs, strcmp(wr_my_charset_alias(cs), "binary") == 0 ? "binary" : bin, err) : wr_nomem(err, "collation", 64);
    }
    if (!cl && !own) cl = collation;
    if (!cl) cl = wr_my_default_collation(cs, sv);
    return set_charset(c, cs, cl, err);
}

static void drop_charset(wr_my_col *c) {
    wr_free(c->charset);
    wr_free(c->collation);
    c->charset = c->collation = NULL;
}

/* What information_schema calls the type; the words behind it are added by the caller. */
static void put_label(wr_buf *b, const char *s) {
    wr_buf_u8(b, '\'');
    for (; *s; s++) {
        if (*s == '\'') wr_buf_put(b, "''", 2);
        else if (*s == '\\') wr_buf_put(b, "\\\\", 2);
        else if (*s == '\n') wr_buf_put(b, "\\n", 2);
        else if (*s == '\r') wr_buf_put(b, "\\r", 2);
        else wr_buf_u8(b, (uint8_t)*s);
    }
    wr_buf_u8(b, '\'');
}

static void put_int_type(wr_buf *b, const wr_ddl_type *ty, const wr_ddl_server *sv, const wr_my_col *c) {
    static const struct { const char *name; int width, uwidth; } ints[] = {
        [MY_TINYINT] = {"tinyint", 4, 3}, [MY_SMALLINT] = {"smallint", 6, 5}, [MY_MEDIUMINT] = {"mediumint", 9, 8},
        [MY_INT] = {"int", 11, 10}, [MY_BIGINT] = {"bigint", 20, 20}};
    int width = ty->is_bool ? 1 : ty->has_length && ty->length ? (int)ty->length : c->is_unsigned ? ints[c->kind].uwidth : ints[c->kind].width;
    bool show = sv->is_mariadb || sv->version < 80019 || ty->zerofill ||
                (c->kind == MY_TINYINT && !c->is_unsigned && width == 1);
    wr_buf_printf(b, "%s", ints[c->kind].name);
    if (show) wr_buf_printf(b, "(%d)", width);
}

static void put_type(wr_buf *b, const wr_ddl_type *ty, const wr_ddl_server *sv, const wr_my_col *c) {
    static const char *const sizes[] = {"", "tiny", "", "medium", "long"};
    switch (c->kind) {
    case MY_TINYINT:
    case MY_SMALLINT:
    case MY_MEDIUMINT:
    case MY_INT:
    case MY_BIGINT: put_int_type(b, ty, sv, c); break;
    case MY_YEAR:
        wr_buf_printf(b, "year");
        if (sv->is_mariadb || sv->version < 80019) wr_buf_printf(b, "(%u)", ty->has_length && ty->length == 2 ? 2 : 4);
        break;
    case MY_BIT: wr_buf_printf(b, "bit(%u)", c->length); break;
    case MY_DECIMAL: wr_buf_printf(b, "decimal(%u,%u)", c->length, c->scale); break;
    case MY_FLOAT:
    case MY_DOUBLE:
        wr_buf_printf(b, "%s", c->kind == MY_FLOAT ? "float" : "double");
        if (ty->has_scale) wr_buf_printf(b, "(%u,%u)", ty->length, ty->scale);
        break;
    case MY_CHAR: wr_buf_printf(b, "char(%u)", c->length); break;
    case MY_VARCHAR: wr_buf_printf(b, "varchar(%u)", c->length); break;
    case MY_BINARY: wr_buf_printf(b, "binary(%u)", c->length); break;
    case MY_VARBINARY: wr_buf_printf(b, "varbinary(%u)", c->length); break;
    case MY_TEXT: wr_buf_printf(b, "%stext", sizes[c->length]); break;
    case MY_BLOB: wr_buf_printf(b, "%sblob", sizes[c->length]); break;
    case MY_ENUM:
    case MY_SET:
        wr_buf_printf(b, c->kind == MY_ENUM ? "enum(" : "set(");
        for (int i = 0; i < c->nlabels; i++) {
            if (i) wr_buf_u8(b, ',');
            put_label(b, c->labels[i]);
        }
        wr_buf_u8(b, ')');
        break;
    case MY_JSON: wr_buf_printf(b, "json"); break;
    case MY_DATE: wr_buf_printf(b, "date"); break;
    case MY_DATETIME:
    case MY_TIMESTAMP:
    case MY_TIME:
        wr_buf_printf(b, "%s", c->kind == MY_DATETIME ? "datetime" : c->kind == MY_TIMESTAMP ? "timestamp" : "time");
        if (c->scale) wr_buf_printf(b, "(%u)", c->scale);
        break;
    case MY_GEOMETRY: {
        const char *g = ty->geometry ? ty->geometry : "GEOMETRY";
        if (strncasecmp(g, "GEOM", 4) == 0 && strcasecmp(g, "GEOMETRY") != 0) g = sv->is_mariadb ? "geometrycollection" : "geomcollection";
        for (; *g; g++) wr_buf_u8(b, (uint8_t)tolower((unsigned char)*g));
        break;
    }
    case MY_UUID: wr_buf_printf(b, "uuid"); break;
    case MY_INET4: wr_buf_printf(b, "inet4"); break;
    case MY_INET6: wr_buf_printf(b, "inet6"); break;
    case MY_VECTOR: wr_buf_printf(b, "vector(%u)", c->length); break;
    }
    if (c->is_unsigned) wr_buf_printf(b, " unsigned");
    if (ty->zerofill) wr_buf_printf(b, " zerofill");
}

static void drop_labels(wr_my_col *c) {
    for (int i = 0; c->labels && i < c->nlabels; i++) wr_free(c->labels[i]);
    wr_free(c->labels);
    c->labels = NULL;
    c->nlabels = 0;
}

/* A copy of a label as the server keeps it: '?' stands for what the column's character set lacks. */
static wr_code label_kept(const char *charset, const char *s, size_t n, char **ret, wr_err *err) {
    const wr_charset *cs = NULL;
    bool plain = true;
    for (size_t i = 0; i < n; i++) plain = plain && !(s[i] & 0x80);
    if (!charset || strcmp(charset, "binary") == 0 || (plain && strcmp(charset, "swe7") != 0)) {
        *ret = wr_strndup(s, n);
        return *ret ? WR_OK : wr_nomem(err, "label", n);
    }
    WR_TRY(wr_charset_get(charset, &cs, err));
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    for (int32_t i = 0; i < (int32_t)n;) {
        int32_t at = i;
        UChar32 c;
        U8_NEXT(s, i, (int32_t)n, c);
        if (c >= 0 && wr_charset_has(cs, (uint32_t)c)) wr_buf_put(&b, s + at, (size_t)(i - at));
        else wr_buf_u8(&b, '?');
    }
    WR_TRY(wr_buf_check(&b, "label", err));
    *ret = wr_strndup((const char *)b.p, b.n);
    return *ret ? WR_OK : wr_nomem(err, "label", b.n);
}

static wr_code copy_labels(const wr_ddl_type *ty, wr_my_col *c, wr_err *err) {
    char **labels = wr_calloc((size_t)ty->nlabels + 1, sizeof *labels);
    if (!labels) return wr_nomem(err, "labels", (size_t)ty->nlabels * sizeof *labels);
    c->labels = labels;
    for (int i = 0; i < ty->nlabels; i++) {
        const char *s = ty->labels[i];
        size_t n = ty->label_lens[i];
        if (strlen(s) != n) return cannot(c, err, "a label has a NUL byte in it");
        bool binary = c->charset && strcmp(c->charset, "binary") == 0;
        while (n && s[n - 1] == ' ' && !binary) n--; /* the server drops trailing blanks of labels */
        WR_TRY(label_kept(c->charset, s, n, &labels[i], err));
        c->nlabels = i + 1;
    }
    if (c->nlabels < 1 || (c->kind == MY_SET && c->nlabels > 64)) return cannot(c, err, "a wrong number of labels");
    return WR_OK;
}

static wr_code resolve_text(const wr_ddl_type *ty, const wr_ddl_server *sv, const char *charset, const char *collation, wr_my_col *c, wr_err *err) {
    WR_TRY(pick_charset(ty, sv, charset, collation, c, err));
    bool binary = strcmp(c->charset, "binary") == 0;
    uint64_t bytes = (uint64_t)ty->length * (uint64_t)wr_my_charset_maxlen(c->charset);
    if (c->kind == MY_VARCHAR && bytes > 65535) { /* as the server does without strict mode */
        c->kind = MY_TEXT;
        c->length = blob_bytes_for(bytes);
    } else if (c->kind == MY_CHAR || c->kind == MY_VARCHAR) c->length = ty->has_length ? ty->length : 1;
    else if (c->kind == MY_TEXT) c->length = ty->blob_bytes ? ty->blob_bytes : blob_bytes_for(bytes);
    if (binary) {
        if (c->kind == MY_CHAR) c->kind = MY_BINARY;
        else if (c->kind == MY_VARCHAR) c->kind = MY_VARBINARY;
        else if (c->kind == MY_TEXT) c->kind = MY_BLOB;
        if (c->kind != MY_ENUM && c->kind != MY_SET) drop_charset(c);
    }
    return WR_OK;
}

wr_code wr_ddl_type_resolve(const wr_ddl_type *ty, const wr_ddl_server *sv, const char *charset, const char *collation, wr_my_col *c, wr_err *err) {
    c->kind = ty->kind;
    c->is_unsigned = ty->is_unsigned;
    c->compressed = ty->compressed;
    c->length = 0;
    c->scale = 0;
    drop_charset(c);
    drop_labels(c);
    switch (ty->kind) {
    case MY_DECIMAL:
        c->length = ty->has_length && ty->length ? ty->length : 10;
        if (ty->scale > 38 || c->length > 65) return cannot(c, err, "a DECIMAL wider than 65 digits");
        c->scale = (uint8_t)ty->scale;
        break;
    case MY_FLOAT:
        if (ty->has_length && !ty->has_scale && ty->length > 24) c->kind = MY_DOUBLE;
        break;
    case MY_BIT: c->length = ty->has_length && ty->length ? ty->length : 1; break;
    case MY_BINARY: c->length = ty->has_length ? ty->length : 1; break;
    case MY_VARBINARY:
        c->length = ty->length;
        if (ty->length > 65535) {
            c->kind = MY_BLOB;
            c->length = blob_bytes_for(ty->length);
        }
        break;
    case MY_BLOB: c->length = ty->blob_bytes ? ty->blob_bytes : blob_bytes_for(ty->length); break;
    case MY_TIME:
    case MY_DATETIME:
    case MY_TIMESTAMP:
        if (ty->length > 6) return cannot(c, err, "more than six digits of a second");
        c->scale = (uint8_t)ty->length;
        break;
    case MY_VECTOR: c->length = ty->has_length ? ty->length : 2048; break;
    case MY_JSON:
        if (!sv->is_mariadb) break;
        c->kind = MY_TEXT; /* an alias of LONGTEXT there, utf8mb4 whatever the table's character set is */
        c->length = 4;
        WR_TRY(set_charset(c, "utf8mb4", "utf8mb4_bin", err));
        break;
    case MY_CHAR:
    case MY_VARCHAR:
    case MY_TEXT:
    case MY_ENUM:
    case MY_SET: WR_TRY(resolve_text(ty, sv, charset, collation, c, err)); break;
    default: break;
    }
    if (c->kind == MY_BIT && c->length > 64) return cannot(c, err, "a BIT wider than 64");
    if (ty->kind == MY_ENUM || ty->kind == MY_SET) WR_TRY(copy_labels(ty, c, err));
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    put_type(&b, ty, sv, c);
    const char *text = wr_buf_cstr(&b);
    char *type = text ? wr_strdup(text) : NULL;
    if (!type) return wr_nomem(err, "column type", b.n);
    wr_free(c->column_type);
    c->column_type = type;
    return WR_OK;
}

wr_code wr_ddl_type_from_server(const char *column_type, const char *charset, const char *collation, const wr_ddl_server *sv, wr_my_col *c, wr_err *err) {
    wr_arena *arena = wr_arena_new(0);
    if (!arena) return wr_nomem(err, "column type", 0);
    /* MariaDB puts COMPRESSED into an executable comment behind the type */
    const char *comment = strstr(column_type, " /*M!");
    size_t n = comment && (strstr(comment, "COMPRESSED") || strstr(comment, "compressed")) ? (size_t)(comment - column_type) : strlen(column_type);
    wr_parser p;
    wr_ddl_type ty;
    wr_parser_init(&p, wr_slice_of(column_type, n), 0, sv->is_mariadb, sv->version, arena);
    wr_code rc;
    if (!wr_ddl_type_parse(&p, &ty) || p.bad) {
        rc = wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "column \"%s\": a type that is not known: %s", c->name ? c->name : "?", column_type);
        goto out;
    }
    ty.compressed = n < strlen(column_type);
    if (charset && *charset) ty.charset = charset, ty.collation = collation;
    else if (ty.kind == MY_ENUM || ty.kind == MY_SET) ty.charset = "binary";
    rc = wr_ddl_type_resolve(&ty, sv, NULL, NULL, c, err);
    if (rc != WR_OK) goto out;
    char *text = wr_strndup(column_type, n);
    if (!text) {
        rc = wr_nomem(err, "column type", n);
        goto out;
    }
    wr_free(c->column_type);
    c->column_type = text;
out:
    wr_arena_free(arena);
    return rc;
}

wr_code wr_ddl_type_convert(wr_my_col *c, const wr_ddl_server *sv, const char *charset, const char *collation, wr_err *err) {
    if (!c->charset) return WR_OK;
    wr_ddl_type ty = {.kind = c->kind, .compressed = c->compressed, .charset = charset, .collation = collation, .has_length = true, .length = c->length};
    int old_max = wr_my_charset_maxlen(c->charset);
    if (c->kind == MY_TEXT) {
        uint64_t bytes = (1ull << (8 * c->length)) - 1;
        ty.has_length = false;
        ty.blob_bytes = (uint8_t)c->length;
        ty.length = 0;
        /* room for as many characters as before */
        uint64_t want = bytes / (uint64_t)old_max * (uint64_t)wr_my_charset_maxlen(charset);
        if (want > UINT32_MAX) want = UINT32_MAX;
        ty.blob_bytes = blob_bytes_for(want);
    }
    if (c->kind == MY_ENUM || c->kind == MY_SET) {
        /* the servers keep the labels' old bytes and read them in the new character set (measured, 10.11 and 9.7) */
        for (int i = 0; strcmp(c->charset, charset) != 0 && i < c->nlabels; i++)
            for (const char *s = c->labels[i]; *s; s++)
                if (*s & 0x80) return cannot(c, err, "labels that are not ASCII in CONVERT TO CHARACTER SET");
        wr_code rc = set_charset(c, charset, collation ? collation : wr_my_default_collation(charset, sv), err);
        return rc;
    }
    return wr_ddl_type_resolve(&ty, sv, NULL, NULL, c, err);
}

wr_code wr_my_period_column(wr_my_col *c, bool end, const wr_ddl_server *sv, wr_err *err) {
    c->name = wr_strdup(end ? "row_end" : "row_start");
    if (!c->name) return wr_nomem(err, "column definition", 16);
    WR_TRY(wr_ddl_type_from_server("timestamp(6)", NULL, NULL, sv, c, err));
    c->not_null = c->hidden = true;
    return WR_OK;
}
