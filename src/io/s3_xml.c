#include "s3_xml.h"

#include <stdio.h>

typedef struct reader {
    const char *begin, *p, *end;
    char path[WR_S3_XML_PATH_MAX];
    size_t path_n;
    size_t cut[WR_S3_XML_DEPTH_MAX]; /* length of the path before each open element */
    int depth;
    bool rooted; /* the root element was seen */
    wr_buf text;
    wr_s3_xml_fn *fn;
    void *ctx;
} reader;

static wr_code bad(const reader *r, wr_err *err, const char *what) {
    return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%s at byte %zu of an XML answer of %zu", what,
                   (size_t)(r->p - r->begin), (size_t)(r->end - r->begin));
}

static bool at(const reader *r, const char *s) {
    size_t n = strlen(s);
    return (size_t)(r->end - r->p) >= n && memcmp(r->p, s, n) == 0;
}

/* Moves behind the next `s`; false when there is none. */
static bool skip_past(reader *r, const char *s) {
    const char *q = memmem(r->p, (size_t)(r->end - r->p), s, strlen(s));
    if (q) r->p = q + strlen(s);
    return q != NULL;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.' || c == ':' || (unsigned char)c >= 0x80;
}

static void skip_spaces(reader *r) {
    while (r->p < r->end && is_space(*r->p)) r->p++;
}

/* A name without its prefix; empty when there is none. */
static wr_slice take_name(reader *r) {
    const char *from = r->p, *start = r->p;
    for (; r->p < r->end && is_name(*r->p); r->p++)
        if (*r->p == ':') start = r->p + 1;
    return r->p == from ? (wr_slice){0} : wr_slice_of(start, (size_t)(r->p - start));
}

static wr_code put_text(reader *r, const char *s, size_t n, wr_err *err) {
    if (n > WR_S3_XML_TEXT_MAX - r->text.n) return bad(r, err, "too long a text");
    if (memchr(s, 0, n)) return bad(r, err, "a NUL");
    wr_buf_put(&r->text, s, n);
    return wr_buf_check(&r->text, "text of an XML answer", err);
}

static wr_code put_char(reader *r, uint32_t c, wr_err *err) {
    char u[4];
    if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return bad(r, err, "a number of no character");
    if (c < 0x80) return u[0] = (char)c, put_text(r, u, 1, err);
    if (c < 0x800) {
        u[0] = (char)(0xc0 | c >> 6), u[1] = (char)(0x80 | (c & 0x3f));
        return put_text(r, u, 2, err);
    }
    if (c < 0x10000) {
        u[0] = (char)(0xe0 | c >> 12), u[1] = (char)(0x80 | (c >> 6 & 0x3f)), u[2] = (char)(0x80 | (c & 0x3f));
        return put_text(r, u, 3, err);
    }
    u[0] = (char)(0xf0 | c >> 18), u[1] = (char)(0x80 | (c >> 12 & 0x3f));
    u[2] = (char)(0x80 | (c >> 6 & 0x3f)), u[3] = (char)(0x80 | (c & 0x3f));
    return put_text(r, u, 4, err);
}

/* Behind "&#": digits and ";". */
static wr_code read_number(reader *r, wr_err *err) {
    uint32_t base = 10, c = 0;
    int digits = 0;
    if (at(r, "x")) base = 16, r->p++;
    for (; r->p < r->end && *r->p != ';'; r->p++, digits++) {
        char d = *r->p;
        uint32_t v = d >= '0' && d <= '9'                 ? (uint32_t)(d - '0')
                     : (d | 32) >= 'a' && (d | 32) <= 'f' ? (uint32_t)((d | 32) - 'a' + 10)
                                                          : 16;
        if (v >= base || digits > 7) return bad(r, err, "a number of no character");
        c = c * base + v;
    }
    if (r->p == r->end || !digits) return bad(r, err, "a number of no character");
    r->p++;
    return put_char(r, c, err);
}

static wr_code read_entity(reader *r, wr_err *err) {
    static const struct {
        const char *name, *text;
    } known[] = {{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}, {"&quot;", "\""}, {"&apos;", "'"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!at(r, known[i].name)) continue;
        r->p += strlen(known[i].name);
        return put_text(r, known[i].text, 1, err);
    }
    if (!at(r, "&#")) return bad(r, err, "an unknown entity");
    r->p += 2;
    return read_number(r, err);
}

static wr_code read_text(reader *r, wr_err *err) {
    const char *from = r->p;
    while (r->p < r->end && *r->p != '<' && *r->p != '&') r->p++;
    if (r->depth > 0) return put_text(r, from, (size_t)(r->p - from), err);
    for (; from < r->p; from++)
        if (!is_space(*from)) return bad(r, err, "text outside of the root element");
    return WR_OK;
}

static wr_code leave(reader *r, wr_err *err) {
    char *text = wr_buf_cstr(&r->text);
    if (!text) return wr_nomem(err, "text of an XML answer", r->text.n);
    WR_TRY(r->fn(r->ctx, r->path, text, err));
    r->path_n = r->cut[--r->depth];
    r->path[r->path_n] = 0;
    wr_buf_clear(&r->text);
    return WR_OK;
}

/* Behind the name of a start tag: attributes, then ">" or "/>". */
static wr_code end_of_start_tag(reader *r, bool *ret_empty, wr_err *err) {
    for (;;) {
        skip_spaces(r);
        if (at(r, ">") || at(r, "/>")) {
            *ret_empty = *r->p == '/';
            r->p += *ret_empty ? 2 : 1;
            return WR_OK;
        }
        if (take_name(r).n == 0) return bad(r, err, "a broken tag");
        skip_spaces(r);
        if (!at(r, "=")) return bad(r, err, "an attribute without a value");
        r->p++;
        skip_spaces(r);
        char quote[2] = {r->p < r->end ? *r->p : 0, 0};
        if (quote[0] != '"' && quote[0] != '\'') return bad(r, err, "an attribute without quotes");
        r->p++;
        if (!skip_past(r, quote)) return bad(r, err, "an attribute without an end");
    }
}

static wr_code enter(reader *r, wr_err *err) {
    r->p++;
    wr_slice name = take_name(r);
    bool empty = false;
    if (name.n == 0) return bad(r, err, "a tag without a name");
    if (r->depth == 0 && r->rooted) return bad(r, err, "a second root element");
    if (r->depth == WR_S3_XML_DEPTH_MAX || name.n + 2 > sizeof r->path - r->path_n)
        return bad(r, err, "too deep an element");
    r->rooted = true;
    r->cut[r->depth++] = r->path_n;
    if (r->path_n) r->path[r->path_n++] = '/';
    memcpy(r->path + r->path_n, name.p, name.n);
    r->path_n += name.n;
    r->path[r->path_n] = 0;
    wr_buf_clear(&r->text);
    WR_TRY(end_of_start_tag(r, &empty, err));
    return empty ? leave(r, err) : WR_OK;
}

static wr_code read_end_tag(reader *r, wr_err *err) {
    r->p += 2;
    wr_slice name = take_name(r);
    skip_spaces(r);
    size_t cut = r->depth ? r->cut[r->depth - 1] : 0, from = cut ? cut + 1 : 0;
    if (!r->depth || !wr_slice_eq(name, wr_slice_of(r->path + from, r->path_n - from)) || !at(r, ">"))
        return bad(r, err, "an end tag of another element");
    r->p++;
    return leave(r, err);
}

static wr_code read_cdata(reader *r, wr_err *err) {
    const char *from = r->p += 9;
    if (r->depth == 0 || !skip_past(r, "]]>")) return bad(r, err, "a broken CDATA section");
    return put_text(r, from, (size_t)(r->p - 3 - from), err);
}

static wr_code step(reader *r, wr_err *err) {
    if (*r->p == '&') return r->depth ? read_entity(r, err) : bad(r, err, "text outside of the root element");
    if (*r->p != '<') return read_text(r, err);
    if (at(r, "</")) return read_end_tag(r, err);
    if (at(r, "<![CDATA[")) return read_cdata(r, err);
    if (at(r, "<!--")) return skip_past(r, "-->") ? WR_OK : bad(r, err, "a comment without an end");
    if (at(r, "<?")) return skip_past(r, "?>") ? WR_OK : bad(r, err, "an instruction without an end");
    if (at(r, "<!")) return bad(r, err, "a document type");
    return enter(r, err);
}

wr_code wr_s3_xml_read(wr_slice doc, wr_s3_xml_fn *fn, void *ctx, wr_err *err) {
    const char *p = doc.n ? (const char *)doc.p : "";
    reader r = {.begin = p, .p = p, .end = p + doc.n, .fn = fn, .ctx = ctx};
    if (at(&r, "\xef\xbb\xbf")) r.p += 3;
    wr_code rc = WR_OK;
    while (rc == WR_OK && r.p < r.end) rc = step(&r, err);
    if (rc == WR_OK && (r.depth || !r.rooted)) rc = bad(&r, err, "the end comes too early");
    wr_buf_free(&r.text);
    return rc;
}
