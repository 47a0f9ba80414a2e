/* What a notice says, in the form of each receiver. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "deliver.h"
#include "weir/base/clock.h"
#include "weir/base/mem.h"

static char *print(cJSON *o) {
    char *text = cJSON_PrintUnformatted(o), *own = text ? wr_strdup(text) : NULL;
    cJSON_free(text);
    cJSON_Delete(o);
    return own;
}

static void add_time(cJSON *o, const char *key, int64_t us) {
    char iso[32];
    if (us) cJSON_AddStringToObject(o, key, wr_iso_time(us, iso));
}

cJSON *wr_alarm_json(const wr_alarm *a) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "id", (double)a->id);
    cJSON_AddStringToObject(o, "kind", a->kind), cJSON_AddStringToObject(o, "subject", a->subject);
    cJSON_AddStringToObject(o, "severity", wr_alarm_severity_name(a->severity)), cJSON_AddStringToObject(o, "state", wr_alarm_state_name(a->state));
    cJSON_AddNumberToObject(o, "level", a->level), cJSON_AddNumberToObject(o, "count", (double)a->count);
    add_time(o, "first", a->first_us), add_time(o, "last", a->last_us), add_time(o, "acknowledged", a->acknowledged_us), add_time(o, "recovered", a->recovered_us);
    cJSON_AddStringToObject(o, "text", a->text), cJSON_AddStringToObject(o, "cure", a->cure);
    return o;
}

char *wr_notice_json(const char *pipeline, const wr_notice *n, const wr_alarm *a) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "format", 1);
    cJSON_AddStringToObject(o, "pipeline", pipeline);
    cJSON_AddNumberToObject(o, "notice", (double)n->id);
    cJSON_AddStringToObject(o, "event", wr_event_name(n->event));
    add_time(o, "time", n->at_us);
    cJSON_AddItemToObject(o, "alarm", wr_alarm_json(a));
    return print(o);
}

/* "[critical] shop: source.silent 10.0.0.5:3306" */
char *wr_notice_title(const char *pipeline, const wr_notice *n, const wr_alarm *a) {
    const char *what = n->event == WR_EVENT_RECOVERED ? "recovered" : wr_alarm_severity_name(a->severity);
    return wr_asprintf("[%s] %s: %s %s%s", what, pipeline, a->kind, a->subject, n->event == WR_EVENT_ESCALATED ? " (escalated)" : n->event == WR_EVENT_WORSENED ? " (worse)" : "");
}

char *wr_notice_lines(const wr_notice *n, const wr_alarm *a) {
    char first[32], last[32];
    wr_iso_time(a->first_us, first), wr_iso_time(n->event == WR_EVENT_RECOVERED ? a->recovered_us : a->last_us, last);
    if (n->event == WR_EVENT_RECOVERED) return wr_asprintf("Over since %s. It was: %s\nAlarm %" PRIu64 ", since %s", last, a->text, a->id, first);
    return wr_asprintf("%s\nWay out: %s\nAlarm %" PRIu64 ", since %s, last %s", a->text, a->cure, a->id, first, last);
}

/* Custom bots of Feishu and Lark: the key is "timestamp\nsecret", the message is empty. */
static bool add_signature(cJSON *o, const char *secret, int64_t now_us) {
    char stamp[32], sign[2 * EVP_MAX_MD_SIZE];
    uint8_t mac[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    snprintf(stamp, sizeof stamp, "%" PRId64, now_us / 1000000);
    WR_AUTO char *key = wr_asprintf("%s\n%s", stamp, secret);
    if (!key || !HMAC(EVP_sha256(), key, (int)strlen(key), (const uint8_t *)"", 0, mac, &n)) return false;
    explicit_bzero(key, strlen(key));
    EVP_EncodeBlock((uint8_t *)sign, mac, (int)n);
    cJSON_AddStringToObject(o, "timestamp", stamp);
    cJSON_AddStringToObject(o, "sign", sign);
    return true;
}

char *wr_notice_feishu(const char *pipeline, const wr_notice *n, const wr_alarm *a, const char *secret, int64_t now_us) {
    WR_AUTO char *title = wr_notice_title(pipeline, n, a), *lines = wr_notice_lines(n, a);
    cJSON *o = cJSON_CreateObject();
    bool ok = title && lines && (!secret || add_signature(o, secret, now_us));
    cJSON_AddStringToObject(o, "msg_type", "post");
    cJSON *post = cJSON_AddObjectToObject(cJSON_AddObjectToObject(cJSON_AddObjectToObject(o, "content"), "post"), "en_us");
    cJSON_AddStringToObject(post, "title", title ? title : "");
    cJSON *paragraphs = cJSON_AddArrayToObject(post, "content");
    for (char *save, *line = ok ? strtok_r(lines, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        cJSON *p = cJSON_CreateArray(), *tag = cJSON_CreateObject();
        cJSON_AddStringToObject(tag, "tag", "text"), cJSON_AddStringToObject(tag, "text", line);
        cJSON_AddItemToArray(p, tag), cJSON_AddItemToArray(paragraphs, p);
    }
    char *text = print(o);
    if (!ok) wr_free(text);
    return ok ? text : NULL;
}

/* Slack wants these three written as entities, and nothing else. */
static void escape(wr_buf *b, const char *s) {
    for (; *s; s++)
        if (*s == '&') wr_buf_put(b, "&amp;", 5);
        else if (*s == '<') wr_buf_put(b, "&lt;", 4);
        else if (*s == '>') wr_buf_put(b, "&gt;", 4);
        else wr_buf_u8(b, (uint8_t)*s);
}

char *wr_notice_slack(const char *pipeline, const wr_notice *n, const wr_alarm *a) {
    WR_AUTO char *title = wr_notice_title(pipeline, n, a), *lines = wr_notice_lines(n, a);
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    if (!title || !lines) return NULL;
    wr_buf_u8(&b, '*'), escape(&b, title), wr_buf_put(&b, "*\n", 2), escape(&b, lines);
    if (!wr_buf_cstr(&b)) return NULL;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "text", (char *)b.p);
    return print(o);
}

/* Base64 in lines of 76 characters: nothing in it can be taken for a header, a dot or a line that is too long. */
static void put_base64(wr_buf *b, const char *text, const char *line_end) {
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i += 57) {
        uint8_t line[80];
        int len = EVP_EncodeBlock(line, (const uint8_t *)text + i, (int)(n - i < 57 ? n - i : 57));
        wr_buf_put(b, line, (size_t)len), wr_buf_put(b, line_end, strlen(line_end));
    }
}

/* RFC 2047: lines with encoded words have 76 characters at most, and each word whole ones. */
static void put_subject(wr_buf *b, const char *title) {
    wr_buf_printf(b, "Subject:");
    for (const char *p = title; *p;) {
        size_t n = strlen(p) < 39 ? strlen(p) : 39;
        while (n < strlen(p) && n > 1 && ((unsigned char)p[n] & 0xc0) == 0x80) n--;
        char piece[48];
        snprintf(piece, sizeof piece, "%.*s", (int)n, p);
        wr_buf_printf(b, " =?UTF-8?B?");
        put_base64(b, piece, "");
        wr_buf_printf(b, "?=\r\n");
        p += n;
    }
    if (!*title) wr_buf_printf(b, "\r\n");
}

char *wr_notice_mail(const wr_alarm_sink *sink, const char *pipeline, const wr_notice *n, const wr_alarm *a, int64_t now_us) {
    WR_AUTO char *title = wr_notice_title(pipeline, n, a), *lines = wr_notice_lines(n, a);
    WR_AUTO_BUF wr_buf b = WR_BUF_INIT;
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}, *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t t = (time_t)(now_us / 1000000);
    struct tm tm;
    if (!title || !lines || !gmtime_r(&t, &tm)) return NULL;
    const char *at = strrchr(sink->from, '@'); /* the same notice has the same id, whenever it is sent */
    wr_buf_printf(&b, "Date: %s, %02d %s %d %02d:%02d:%02d +0000\r\nFrom: %s\r\nMessage-ID: <weir.%" PRIu64 ".%" PRId64 "%.*s>\r\n", days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec,
                  sink->from, n->id, n->at_us, at ? (int)strcspn(at, ">") : 10, at ? at : "@localhost");
    for (int i = 0; i < sink->nto; i++) wr_buf_printf(&b, "%s%s%s", i ? ",\r\n " : "To: ", sink->to[i], i + 1 == sink->nto ? "\r\n" : "");
    put_subject(&b, title);
    wr_buf_printf(&b, "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n");
    put_base64(&b, lines, "\r\n");
    char *text = wr_buf_cstr(&b);
    return text ? wr_strdup(text) : NULL;
}
