#include "ddl_lexer.h"

#include <strings.h>

void wr_lexer_init(wr_lexer *lx, wr_slice sql, uint64_t sql_mode, bool is_mariadb, uint32_t version, wr_arena *arena) {
    *lx = (wr_lexer){.sql = sql.p, .n = sql.n, .arena = arena, .is_mariadb = is_mariadb, .version = version,
                     .ansi_quotes = sql_mode & WR_MODE_ANSI_QUOTES,
                     .no_backslash_escapes = sql_mode & WR_MODE_NO_BACKSLASH};
}

static int peek(const wr_lexer *lx, size_t k) { return lx->at + k < lx->n ? lx->sql[lx->at + k] : -1; }
static bool is_digit(int c) { return c >= '0' && c <= '9'; }
static bool is_xdigit(int c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static bool is_word(int c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c >= 0x80;
}
static bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void text_of(wr_lexer *lx, wr_tok *t, const void *p, size_t n) {
    char *s = wr_arena_strndup(lx->arena, p, n);
    if (!s) lx->full = true;
    t->text = s ? s : "";
    t->n = s ? n : 0;
}

/* Behind the end of the comment that begins at lx->at. A comment inside it is passed over when `nested`. */
static void skip_comment(wr_lexer *lx, bool nested) {
    lx->at += 2;
    while (lx->at < lx->n) {
        if (peek(lx, 0) == '*' && peek(lx, 1) == '/') {
            lx->at += 2;
            return;
        }
        if (nested && peek(lx, 0) == '/' && peek(lx, 1) == '*') skip_comment(lx, false);
        else lx->at++;
    }
}

/* At the mark: steps into the comment when this server executes it, else passes over it. */
static void executable_comment(wr_lexer *lx, size_t mark) {
    size_t digits = 0;
    uint32_t v = 0;
    while (digits < 6 && is_digit(peek(lx, mark + digits))) v = v * 10 + (uint32_t)(peek(lx, mark + digits++) - '0');
    bool run = true;
    if (digits < 5) digits = 0; /* no version: always executed */
    else {
        run = lx->version == 0 || v <= lx->version;
        /* MariaDB leaves comments for the MySQL versions it is not compatible with alone. */
        if (lx->is_mariadb && mark == 3 && v >= 50700 && v <= 99999) run = false;
    }
    if (!run) {
        skip_comment(lx, true);
        return;
    }
    lx->at += mark + digits;
    lx->in_executable = true;
}

static void skip_blank(wr_lexer *lx) {
    for (;;) {
        int c = peek(lx, 0);
        if (c < 0) return;
        if (is_space(c)) lx->at++;
        else if (c == '#' || (c == '-' && peek(lx, 1) == '-' && (peek(lx, 2) <= ' ' || peek(lx, 2) == 0x7f))) {
            while (lx->at < lx->n && lx->sql[lx->at] != '\n') lx->at++;
        } else if (c == '/' && peek(lx, 1) == '*') {
            if (peek(lx, 2) == '!') executable_comment(lx, 3);
            else if (lx->is_mariadb && peek(lx, 2) == 'M' && peek(lx, 3) == '!') executable_comment(lx, 4);
            else skip_comment(lx, false);
        } else if (lx->in_executable && c == '*' && peek(lx, 1) == '/') {
            lx->at += 2;
            lx->in_executable = false;
        } else return;
    }
}

/* The quoted run that begins at lx->at, without quotes. */
static void quoted(wr_lexer *lx, wr_tok *t, bool backslash) {
    uint8_t q = lx->sql[lx->at++];
    size_t from = lx->at, len = 0;
    /* length first, so that the arena gets one piece */
    size_t end = from;
    while (end < lx->n && (lx->sql[end] != q || (end + 1 < lx->n && lx->sql[end + 1] == q))) {
        if (lx->sql[end] == q) end += 2;
        else if (backslash && lx->sql[end] == '\\' && end + 1 < lx->n) end += 2;
        else end++;
    }
    char *s = wr_arena_alloc(lx->arena, end - from + 1);
    if (!s) {
        lx->full = true;
        t->text = "";
        t->n = 0;
    } else {
        for (size_t i = from; i < end; i++) {
            uint8_t c = lx->sql[i];
            if (c == q) i++;
            else if (backslash && c == '\\' && i + 1 < end) {
                c = lx->sql[++i];
                switch (c) {
                case '0': c = 0; break;
                case 'b': c = '\b'; break;
                case 'n': c = '\n'; break;
                case 'r': c = '\r'; break;
                case 't': c = '\t'; break;
                case 'Z': c = 26; break;
                case '%':
                case '_': s[len++] = '\\'; break;
                default: break;
                }
            }
            s[len++] = (char)c;
        }
        s[len] = 0;
        t->text = s;
        t->n = len;
    }
    lx->at = end < lx->n ? end + 1 : lx->n;
}

static size_t digits_from(const wr_lexer *lx, size_t k) {
    while (is_digit(peek(lx, k))) k++;
    return k;
}

/* Length of the number at lx->at, 0 when what stands there is a name that begins with digits. */
static size_t number(const wr_lexer *lx) {
    size_t k = digits_from(lx, 0);
    if (k == 0 && !(peek(lx, 0) == '.' && is_digit(peek(lx, 1)))) return 0;
    bool point = peek(lx, k) == '.';
    if (point) k = digits_from(lx, k + 1);
    if (peek(lx, k) == 'e' || peek(lx, k) == 'E') {
        size_t e = k + 1;
        if (peek(lx, e) == '+' || peek(lx, e) == '-') e++;
        if (is_digit(peek(lx, e))) return digits_from(lx, e);
    }
    return is_word(peek(lx, k)) && !point ? 0 : k;
}

/* x'41', X'41', b'1', 0x41, 0b1 at lx->at. */
static bool bits(wr_lexer *lx, wr_tok *t) {
    int c = peek(lx, 0), d = peek(lx, 1);
    bool hex = c == 'x' || c == 'X', bin = c == 'b' || c == 'B';
    if ((hex || bin) && d == '\'') {
        size_t k = 2;
        while (hex ? is_xdigit(peek(lx, k)) : (peek(lx, k) == '0' || peek(lx, k) == '1')) k++;
        if (peek(lx, k) != '\'') return false;
        t->kind = hex ? WR_TOK_HEX : WR_TOK_BIN;
        t->ch = 'x';
        text_of(lx, t, lx->sql + lx->at + 2, k - 2);
        lx->at += k + 1;
        return true;
    }
    if (c != '0' || (d != 'x' && d != 'b')) return false;
    size_t k = 2;
    while (d == 'x' ? is_xdigit(peek(lx, k)) : (peek(lx, k) == '0' || peek(lx, k) == '1')) k++;
    if (k == 2 || is_word(peek(lx, k))) return false;
    t->kind = d == 'x' ? WR_TOK_HEX : WR_TOK_BIN;
    t->ch = '0';
    text_of(lx, t, lx->sql + lx->at + 2, k - 2);
    lx->at += k;
    return true;
}

void wr_lexer_next(wr_lexer *lx, wr_tok *t) {
    bool name_follows = lx->after_dot;
    lx->after_dot = false;
    skip_blank(lx);
    *t = (wr_tok){.kind = WR_TOK_END, .text = "", .at = lx->at, .end = lx->at};
    int c = peek(lx, 0);
    if (c < 0) return;
    bool named = false;
    if (c == '`' || (c == '"' && lx->ansi_quotes)) {
        t->kind = WR_TOK_NAME;
        quoted(lx, t, false);
        named = true;
    } else if (c == '\'' || c == '"') {
        t->kind = WR_TOK_STRING;
        quoted(lx, t, !lx->no_backslash_escapes);
    } else if ((c == 'n' || c == 'N') && peek(lx, 1) == '\'') {
        lx->at++;
        t->kind = WR_TOK_STRING;
        t->ch = 'n';
        quoted(lx, t, !lx->no_backslash_escapes);
    } else if (!name_follows && bits(lx, t)) {
        /* filled */
    } else {
        size_t k = name_follows ? 0 : number(lx);
        t->kind = WR_TOK_NUMBER;
        if (k == 0) {
            while (is_word(peek(lx, k))) k++;
            t->kind = WR_TOK_WORD;
            named = k > 0;
        }
        if (k == 0) {
            t->kind = WR_TOK_PUNCT;
            t->ch = (char)c;
            k = 1;
        }
        text_of(lx, t, lx->sql + lx->at, k);
        lx->at += k;
    }
    lx->after_dot = false;
    /* "name.": the dot is handed out next, and what stands behind it is a name even when it begins with a digit */
    if (t->kind == WR_TOK_PUNCT && t->ch == '.' && name_follows) lx->after_dot = true;
    else if (named && peek(lx, 0) == '.') lx->after_dot = true;
    t->end = lx->at;
}

bool wr_tok_word(const wr_tok *t, const char *upper) { return t->kind == WR_TOK_WORD && strcasecmp(t->text, upper) == 0; }

int wr_tok_words(const wr_tok *t, const char *const *upper, int n) {
    if (t->kind != WR_TOK_WORD) return -1;
    for (int i = 0; i < n; i++)
        if (strcasecmp(t->text, upper[i]) == 0) return i;
    return -1;
}
