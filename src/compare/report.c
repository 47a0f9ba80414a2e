/* What a comparison found, for programs (JSON), terminals (text) and people who were sent a file (HTML). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "weir/base/clock.h"
#include "weir/base/mem.h"
#include "weir/compare.h"

static const char *const verdicts[] = {"", "EQUAL", "DIFFERENT", "UNDECIDED", "NOT COMPARED"};
static const char *const kinds[] = {"", "missing", "surplus", "different"};
const char *wr_verdict_name(wr_verdict v) { return verdicts[v]; }

wr_code wr_table_report_find(wr_table_report *r, const char *what, const char *subject, const char *source, const char *lake, wr_err *err) {
    wr_finding_of_table *f = wr_realloc(r->findings, ((size_t)r->nfindings + 1) * sizeof *f);
    if (!f) return wr_nomem(err, "report", sizeof *f);
    r->findings = f;
    f[r->nfindings] = (wr_finding_of_table){wr_strdup(what), subject ? wr_strdup(subject) : NULL, source ? wr_strdup(source) : NULL, lake ? wr_strdup(lake) : NULL};
    const wr_finding_of_table *n = &f[r->nfindings++];
    return n->what && (!subject || n->subject) && (!source || n->source) && (!lake || n->lake) ? WR_OK : wr_nomem(err, "report", 256);
}

void wr_table_report_forget(wr_table_report *r) {
    for (int i = 0; i < r->nfindings; i++) wr_free(r->findings[i].what), wr_free(r->findings[i].subject), wr_free(r->findings[i].source), wr_free(r->findings[i].lake);
    r->nfindings = 0;
}

void wr_table_report_clear(wr_table_report *r) {
    for (int i = 0; i < r->nsources; i++) wr_free(r->sources[i]);
    wr_table_report_forget(r);
    for (uint64_t i = 0; i < r->nshown; i++) wr_buf_free(&r->shown[i].source), wr_buf_free(&r->shown[i].lake);
    wr_schema_unref(r->schema);
    wr_free(r->ns), wr_free(r->name), wr_free(r->sources), wr_free(r->reason), wr_free(r->method_why), wr_free(r->findings), wr_free(r->shown);
    *r = (wr_table_report){0};
}

wr_verdict wr_compare_verdict(const wr_compare_report *r) {
    wr_verdict worst = WR_EQUAL;
    for (int i = 0; i < r->ntables; i++) {
        wr_verdict v = r->tables[i].verdict;
        if (v == WR_DIFFERENT) return v;
        if (v == WR_UNDECIDED) worst = v;
    }
    return worst;
}

/* ------------------------------------------------------------------ values */
static void value_text(wr_buf *b, wr_type t, const wr_value *v) {
    wr_buf_clear(b);
    if (v->null) wr_buf_put(b, "NULL", 4);
    else wr_value_print(b, t, v);
}

/* The same for people: a NUL shows as its symbol, for it would end the text. */
static void value_shown(wr_buf *b, wr_type t, const wr_value *v) {
    value_text(b, t, v);
    if (b->failed || !b->n || !memchr(b->p, 0, b->n)) return;
    WR_AUTO_BUF wr_buf plain = *b;
    *b = (wr_buf)WR_BUF_INIT;
    for (size_t i = 0; i < plain.n; i++) plain.p[i] ? wr_buf_u8(b, plain.p[i]) : wr_buf_put(b, "\xe2\x90\x80", 3);
}

typedef struct pair_of_rows { wr_value *source, *lake; bool has_source, has_lake; } pair_of_rows;

static bool read_rows(const wr_table_report *t, const wr_difference_shown *d, pair_of_rows *p) {
    wr_err err = WR_ERR_INIT;
    p->has_source = d->source.n && wr_row_read(t->schema, wr_buf_view(&d->source), p->source, &err) == WR_OK;
    p->has_lake = d->lake.n && wr_row_read(t->schema, wr_buf_view(&d->lake), p->lake, &err) == WR_OK;
    return p->has_source || p->has_lake;
}

static bool pair_new(const wr_table_report *t, pair_of_rows *p) {
    *p = (pair_of_rows){0};
    size_t n = t->schema ? (size_t)t->schema->ncols : 0;
    p->source = wr_calloc(n + 1, sizeof *p->source), p->lake = wr_calloc(n + 1, sizeof *p->lake);
    return p->source && p->lake;
}
static void pair_free(pair_of_rows *p) { wr_free(p->source), wr_free(p->lake); }

static bool value_differs(wr_type t, const wr_value *a, const wr_value *b) {
    if (a->null || b->null) return a->null != b->null;
    switch ((wr_kind)t.kind) {
    case WR_BOOL: return a->b != b->b;
    case WR_INT:
    case WR_DATE: return a->i32 != b->i32;
    case WR_FLOAT: return memcmp(&a->f32, &b->f32, sizeof a->f32) != 0; /* bit by bit: NaN is NaN, and -0 is not 0. NOLINT(bugprone-suspicious-memory-comparison,cert-*) */
    case WR_LONG:
    case WR_TIMESTAMP:
    case WR_TIMESTAMPTZ: return a->i64 != b->i64;
    case WR_DOUBLE: return memcmp(&a->f64, &b->f64, sizeof a->f64) != 0; /* NOLINT(bugprone-suspicious-memory-comparison,cert-*) */
    case WR_DECIMAL: return a->dec != b->dec;
    case WR_STRING:
    case WR_BINARY:
    case WR_FLOATS: return !wr_slice_eq(a->s, b->s);
    }
    return true;
}

static bool is_marked(const wr_table_report *t, const pair_of_rows *p, int col) {
    return p->has_source && p->has_lake && value_differs(t->schema->cols[col].type, &p->source[col], &p->lake[col]);
}

/* ------------------------------------------------------------------ JSON */
/* Bytes of the sequence that begins here, 0 = it is no UTF-8: a message may have been cut within a character. */
static size_t sequence(wr_slice s, size_t at) {
    uint8_t c = s.p[at];
    size_t n = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
    if (!n || s.n - at < n) return 0;
    for (size_t i = 1; i < n; i++)
        if ((s.p[at + i] & 0xC0) != 0x80) return 0;
    return n;
}

static void json_text(FILE *out, wr_slice s) {
    putc('"', out);
    for (size_t i = 0, n; i < s.n; i += n ? n : 1) {
        uint8_t c = s.p[i];
        if ((n = sequence(s, i)) != 1) {
            n ? (void)fwrite(s.p + i, 1, n, out) : (void)fputs("\xef\xbf\xbd", out);
            continue;
        }
        if (c == '"' || c == '\\') fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f) fprintf(out, "\\u%04x", c);
        else putc(c, out);
    }
    putc('"', out);
}

static void json_string(FILE *out, const char *s) { s ? json_text(out, wr_slice_str(s)) : (void)fputs("null", out); }
static void json_member(FILE *out, const char *key, const char *s) {
    fprintf(out, ",\"%s\":", key);
    json_string(out, s);
}

/* Every value as exact text (docs/formats/compare.md), null as null. */
static void json_value(FILE *out, wr_buf *scratch, wr_type t, const wr_value *v) {
    if (v->null) {
        fputs("null", out);
        return;
    }
    value_text(scratch, t, v);
    json_text(out, wr_buf_view(scratch));
}

static void json_row(FILE *out, const wr_table_report *t, wr_buf *scratch, const wr_value *vals, bool key_only) {
    int n = 0;
    putc('{', out);
    for (int i = 0; i < t->schema->ncols; i++) {
        if (key_only && t->schema->nkey && !t->schema->cols[i].key_ord) continue;
        if (n++) putc(',', out);
        json_string(out, t->schema->cols[i].name);
        putc(':', out);
        json_value(out, scratch, t->schema->cols[i].type, &vals[i]);
    }
    putc('}', out);
}

static void json_difference(FILE *out, const wr_compare_report *r, const wr_table_report *t, const wr_difference_shown *d, pair_of_rows *p, wr_buf *scratch) {
    fprintf(out, "{\"kind\":\"%s\",\"in_source\":%" PRIu64 ",\"in_lake\":%" PRIu64, kinds[d->kind], d->in_source, d->in_lake);
    bool any = read_rows(t, d, p);
    if (any && t->schema->nkey) fputs(",\"key\":", out), json_row(out, t, scratch, p->has_source ? p->source : p->lake, true);
    if (any && !(r->keys_only && t->schema->nkey)) {
        fputs(",\"source\":", out);
        p->has_source ? json_row(out, t, scratch, p->source, false) : (void)fputs("null", out);
        fputs(",\"lake\":", out);
        p->has_lake ? json_row(out, t, scratch, p->lake, false) : (void)fputs("null", out);
    }
    if (p->has_source && p->has_lake) {
        int n = 0;
        fputs(",\"columns\":[", out);
        for (int i = 0; i < t->schema->ncols; i++)
            if (is_marked(t, p, i)) {
                if (n++) putc(',', out);
                json_string(out, t->schema->cols[i].name);
            }
        putc(']', out);
    }
    if (d->source_gone) fputs(",\"source_gone\":true", out);
    putc('}', out);
}

static void json_columns(FILE *out, const wr_table_report *t) {
    char type[32];
    fputs(",\"columns\":[", out);
    for (int i = 0; i < t->schema->ncols; i++) {
        fprintf(out, "%s{\"name\":", i ? "," : "");
        json_string(out, t->schema->cols[i].name);
        fprintf(out, ",\"type\":\"%s\",\"key\":%d}", wr_type_name(t->schema->cols[i].type, type), t->schema->cols[i].key_ord);
    }
    putc(']', out);
}

static void json_table(FILE *out, const wr_compare_report *r, const wr_table_report *t) {
    WR_AUTO_BUF wr_buf scratch = WR_BUF_INIT;
    pair_of_rows p;
    fputs("{\"namespace\":", out);
    json_string(out, t->ns);
    json_member(out, "name", t->name);
    fputs(",\"sources\":[", out);
    for (int i = 0; i < t->nsources; i++) fputs(i ? "," : "", out), json_string(out, t->sources[i]);
    fprintf(out, "],\"verdict\":\"%s\"", wr_verdict_name(t->verdict));
    json_member(out, "reason", t->reason);
    json_member(out, "method", t->method);
    json_member(out, "method_why", t->method_why);
    json_member(out, "hash", t->hash);
    t->snapshot >= 0 ? fprintf(out, ",\"snapshot\":\"%" PRId64 "\"", t->snapshot) : fprintf(out, ",\"snapshot\":null");
    fprintf(out, ",\"offset\":%" PRIu64, t->offset);
    json_member(out, "position", t->position[0] ? t->position : NULL);
    if (t->rows_kept) fprintf(out, ",\"rows_kept\":%" PRIu64, t->rows_kept);
    fprintf(out, ",\"ms\":%" PRId64 ",\"findings\":[", t->ms);
    for (int i = 0; i < t->nfindings; i++) {
        const wr_finding_of_table *f = &t->findings[i];
        fprintf(out, "%s{\"what\":\"%s\"", i ? "," : "", f->what);
        json_member(out, "subject", f->subject), json_member(out, "source", f->source), json_member(out, "lake", f->lake);
        putc('}', out);
    }
    putc(']', out);
    if (t->counted)
        fprintf(out, ",\"rows\":{\"source\":%" PRIu64 ",\"lake\":%" PRIu64 ",\"missing\":%" PRIu64 ",\"surplus\":%" PRIu64 ",\"different\":%" PRIu64 "}", t->rows.source_rows, t->rows.lake_rows, t->rows.missing, t->rows.surplus, t->rows.different);
    if (t->schema) json_columns(out, t);
    if (t->nshown && pair_new(t, &p)) {
        fputs(",\"differences\":[", out);
        for (uint64_t i = 0; i < t->nshown; i++) fputs(i ? ",\n" : "\n", out), json_difference(out, r, t, &t->shown[i], &p, &scratch);
        fprintf(out, "],\"differences_left_out\":%" PRIu64, t->left_out);
        pair_free(&p);
    }
    putc('}', out);
}

bool wr_report_json(const wr_compare_report *r, FILE *out) {
    char a[32], b[32];
    fprintf(out, "{\"format\":1,\"verdict\":\"%s\"", wr_verdict_name(wr_compare_verdict(r)));
    json_member(out, "pipeline", r->pipeline);
    json_member(out, "began_at", wr_iso_time(r->began_us, a)), json_member(out, "ended_at", wr_iso_time(r->ended_us, b));
    json_member(out, "level", r->level), json_member(out, "filter", r->filter);
    if (r->sample > 0) fprintf(out, ",\"sample\":%.9g,\"seed\":%" PRIu64, r->sample, r->seed);
    fputs(",\"tables\":[", out);
    for (int i = 0; i < r->ntables; i++) fputs(i ? ",\n" : "\n", out), json_table(out, r, &r->tables[i]);
    fputs("]}\n", out);
    return !ferror(out);
}

/* ------------------------------------------------------------------ words that text and HTML share */
static void put_finding(wr_buf *b, const wr_finding_of_table *f) {
    static const struct { const char *what, *text; } words[] = {
        {"table-missing", "the table is missing in the lake"},
        {"table-surplus", "the table is not in the source"},
        {"column-missing", "the lake has no column %s (%s)"},
        {"column-surplus", "the source has no column %s (%s)"},
        {"type", "column %s: the source's type is %s, the lake's %s"},
        {"nullability", "column %s may be null in the source and not in the lake"},
        {"key", "the source's key is (%s), the lake's (%s)"},
        {"file-missing", "a data file is missing: %s"},
        {"file-unreadable", "a data file cannot be read: %s"},
    };
    const char *args[3], *t = f->what;
    int n = 0, at = 0;
    if (f->subject) args[n++] = f->subject;
    if (f->source) args[n++] = f->source;
    if (f->lake) args[n++] = f->lake;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].what, f->what)) t = words[i].text;
    for (; *t; t++) {
        if (t[0] != '%' || t[1] != 's') wr_buf_u8(b, (uint8_t)*t);
        else t++, wr_buf_printf(b, "%s", at < n ? args[at] : "?"), at++;
    }
}

static void put_kind(wr_buf *b, const wr_table_report *t, const wr_difference_shown *d) {
    wr_buf_printf(b, "%s", d->kind == WR_ROW_MISSING ? "missing in the lake" : d->kind == WR_ROW_SURPLUS ? (d->in_source ? "too often in the lake" : "only in the lake") : "different");
    if (!t->schema->nkey || d->in_lake > 1) wr_buf_printf(b, " (%" PRIu64 " in the source, %" PRIu64 " in the lake)", d->in_source, d->in_lake);
}

static const char *text_of(wr_buf *b) {
    const char *s = wr_buf_cstr(b);
    return s ? s : "(out of memory)";
}

/* ------------------------------------------------------------------ text */
#define CUT 60

/* A terminal obeys control characters. */
static void put_safely(FILE *out, const char *s, size_t most) {
    size_t n = 0;
    for (; *s && n < most; s++, n += ((unsigned char)*s & 0xC0) != 0x80) (unsigned char)*s < 0x20 || *s == 0x7f ? (void)fputs("\xc2\xb7", out) : (void)putc(*s, out);
    while (((unsigned char)*s & 0xC0) == 0x80) putc(*s++, out);
    if (*s) fputs("...", out);
}

static void text_row(FILE *out, const wr_compare_report *r, const wr_table_report *t, const pair_of_rows *p, const wr_value *vals, const char *side, bool colour) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    fprintf(out, "      %-7s", side);
    for (int i = 0; i < t->schema->ncols; i++) {
        const wr_column *c = &t->schema->cols[i];
        bool mark = is_marked(t, p, i);
        if (r->keys_only && t->schema->nkey && !c->key_ord) continue;
        value_shown(&b, c->type, &vals[i]);
        fprintf(out, " %s%s%s=", mark && colour ? "\033[1;31m" : "", mark && !colour ? "*" : "", c->name);
        put_safely(out, text_of(&b), CUT);
        if (mark && colour) fputs("\033[0m", out);
    }
    putc('\n', out);
}

static void text_differences(FILE *out, const wr_compare_report *r, const wr_table_report *t, uint64_t rows, bool colour) {
    pair_of_rows p;
    if (!t->nshown || !pair_new(t, &p)) return;
    for (uint64_t i = 0; i < t->nshown && i < rows; i++) {
        const wr_difference_shown *d = &t->shown[i];
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        read_rows(t, d, &p);
        put_kind(&b, t, d);
        fprintf(out, "    %s%s\n", text_of(&b), d->source_gone ? "; the source's row has changed since and is not shown" : "");
        if (p.has_source) text_row(out, r, t, &p, p.source, "source", colour);
        if (p.has_lake) text_row(out, r, t, &p, p.lake, "lake", colour);
    }
    pair_free(&p);
    uint64_t all = t->rows.missing + t->rows.surplus + t->rows.different;
    if (all > rows) fprintf(out, "    ... and %" PRIu64 " more; --json has %s\n", all - rows, t->left_out ? "the first of them" : "all of them");
}

bool wr_report_text(const wr_compare_report *r, FILE *out, uint64_t rows, bool colour) {
    static const char *const colours[] = {"", "\033[1;32m", "\033[1;31m", "\033[1;33m", "\033[1;36m"};
    int count[5] = {0};
    for (int i = 0; i < r->ntables; i++) {
        const wr_table_report *t = &r->tables[i];
        count[t->verdict]++;
        fprintf(out, "%s%-12s%s %s.%s", colour ? colours[t->verdict] : "", wr_verdict_name(t->verdict), colour ? "\033[0m" : "", t->ns, t->name);
        if (t->counted) fprintf(out, "  %" PRIu64 " rows in the source, %" PRIu64 " in the lake (%s)", t->rows.source_rows, t->rows.lake_rows, t->method);
        if (t->position[0]) fprintf(out, "  at %s", t->position);
        putc('\n', out);
        if (t->reason) fprintf(out, "    %s\n", t->reason);
        if (t->method_why) fprintf(out, "    rows were read: %s\n", t->method_why);
        for (int k = 0; k < t->nfindings; k++) {
            WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
            put_finding(&b, &t->findings[k]);
            fprintf(out, "    %s\n", text_of(&b));
        }
        text_differences(out, r, t, rows, colour);
    }
    if (r->sample > 0) fprintf(out, "a sample of %g %% of the keys, seed %" PRIu64 "\n", r->sample * 100, r->seed);
    fprintf(out, "%d equal, %d different, %d undecided, %d not compared\n", count[WR_EQUAL], count[WR_DIFFERENT], count[WR_UNDECIDED], count[WR_NOT_COMPARED]);
    return !ferror(out);
}

/* ------------------------------------------------------------------ HTML */
static void html(FILE *out, const char *s) {
    for (; *s; s++) {
        switch (*s) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: (unsigned char)*s < 0x20 && *s != '\n' && *s != '\t' ? (void)fprintf(out, "&#x24%02x;", (unsigned char)*s) : (void)putc(*s, out);
        }
    }
}

static const char style[] = "body{font:15px system-ui,sans-serif;margin:2em;color:#222}table{border-collapse:collapse;margin:.5em 0 1.5em}td,th{border:1px solid #ccc;padding:.25em .6em;text-align:left;vertical-align:top}"
                            "th{background:#f4f4f4}td.v{font-family:monospace;max-width:30em;overflow-wrap:anywhere}td.m{background:#fdd}.EQUAL{color:#07692f}.DIFFERENT{color:#b00020}.UNDECIDED{color:#8a5a00}.NOT{color:#555}h2{margin-top:2em}"
                            "@media(prefers-color-scheme:dark){body{background:#1b1b1b;color:#ddd}th{background:#2a2a2a}td,th{border-color:#555}td.m{background:#612}.EQUAL{color:#5fd38a}.DIFFERENT{color:#ff7b8a}.UNDECIDED{color:#f0c060}}";

static void html_verdict(FILE *out, wr_verdict v) { fprintf(out, "<b class=\"%s\">%s</b>", wr_verdict_name(v), wr_verdict_name(v)); }

static void html_cells(FILE *out, const wr_compare_report *r, const wr_table_report *t, const pair_of_rows *p, const wr_value *vals) {
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    for (int i = 0; i < t->schema->ncols; i++) {
        if (r->keys_only && t->schema->nkey && !t->schema->cols[i].key_ord) continue;
        fprintf(out, "<td class=\"v%s\">", is_marked(t, p, i) ? " m" : "");
        value_shown(&b, t->schema->cols[i].type, &vals[i]);
        html(out, text_of(&b));
        fputs("</td>", out);
    }
    fputs("</tr>\n", out);
}

static void html_differences(FILE *out, const wr_compare_report *r, const wr_table_report *t, uint64_t rows) {
    pair_of_rows p;
    if (!t->nshown || !pair_new(t, &p)) return;
    fputs("<table><tr><th>row</th><th>side</th>", out);
    for (int i = 0; i < t->schema->ncols; i++) {
        if (r->keys_only && t->schema->nkey && !t->schema->cols[i].key_ord) continue;
        fputs("<th>", out);
        html(out, t->schema->cols[i].name);
        fputs("</th>", out);
    }
    fputs("</tr>\n", out);
    for (uint64_t i = 0; i < t->nshown && i < rows; i++) {
        WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
        if (!read_rows(t, &t->shown[i], &p)) continue;
        put_kind(&b, t, &t->shown[i]);
        fprintf(out, "<tr><td rowspan=\"%d\">%s%s</td>", p.has_source + p.has_lake, text_of(&b), t->shown[i].source_gone ? "; the source's row has changed since" : "");
        if (p.has_source) fputs("<td>source</td>", out), html_cells(out, r, t, &p, p.source);
        if (p.has_source && p.has_lake) fputs("<tr>", out);
        if (p.has_lake) fputs("<td>lake</td>", out), html_cells(out, r, t, &p, p.lake);
    }
    fputs("</table>\n", out);
    pair_free(&p);
    uint64_t all = t->rows.missing + t->rows.surplus + t->rows.different;
    if (all > rows) fprintf(out, "<p>... and %" PRIu64 " more</p>\n", all - rows);
}

bool wr_report_html(const wr_compare_report *r, FILE *out, uint64_t rows) {
    char a[32], z[32];
    fprintf(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>weir compare</title><style>%s</style></head><body>\n<h1>Source and lake: ", style);
    html_verdict(out, wr_compare_verdict(r));
    fputs("</h1>\n<p>Pipeline ", out);
    html(out, r->pipeline);
    fprintf(out, ", %s to %s, level %s", wr_iso_time(r->began_us, a), wr_iso_time(r->ended_us, z), r->level);
    if (r->filter) fputs(", ", out), html(out, r->filter);
    if (r->sample > 0) fprintf(out, ", a sample of %g %% of the keys, seed %" PRIu64, r->sample * 100, r->seed);
    fputs("</p>\n<table><tr><th>table</th><th>verdict</th><th>rows in the source</th><th>in the lake</th><th>missing</th><th>surplus</th><th>different</th><th>at</th><th></th></tr>\n", out);
    for (int i = 0; i < r->ntables; i++) {
        const wr_table_report *t = &r->tables[i];
        fputs("<tr><td>", out);
        html(out, t->ns), putc('.', out), html(out, t->name);
        fputs("</td><td>", out);
        html_verdict(out, t->verdict);
        if (t->counted) fprintf(out, "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>", t->rows.source_rows, t->rows.lake_rows, t->rows.missing, t->rows.surplus, t->rows.different);
        else fputs("</td><td></td><td></td><td></td><td></td><td></td><td>", out);
        html(out, t->position);
        fputs("</td><td>", out);
        html(out, t->reason ? t->reason : "");
        fputs("</td></tr>\n", out);
    }
    fputs("</table>\n", out);
    for (int i = 0; i < r->ntables; i++) {
        const wr_table_report *t = &r->tables[i];
        if (!t->nfindings && !t->nshown) continue;
        fputs("<h2>", out);
        html(out, t->ns), putc('.', out), html(out, t->name);
        fputs("</h2>\n", out);
        for (int k = 0; k < t->nfindings; k++) {
            WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
            put_finding(&b, &t->findings[k]);
            fputs("<p>", out);
            html(out, text_of(&b));
            fputs("</p>\n", out);
        }
        html_differences(out, r, t, rows);
    }
    fputs("</body></html>\n", out);
    return !ferror(out);
}
