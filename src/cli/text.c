/* Small things that the commands share: messages, colours, near words, sizes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "weir/base/clock.h"

int wr_cli_fail(const wr_err *err) {
    bool c = wr_cli_colour(2);
    fprintf(stderr, "%sweir:%s %s\n", c ? "\033[1;31m" : "", c ? "\033[0m" : "", err->msg);
    if (err->cure[0]) fprintf(stderr, "  way out: %s\n", err->cure);
    return err->code == WR_E_CONFIG || err->code == WR_E_INVAL ? EXIT_USAGE : EXIT_FAILED;
}

bool wr_cli_colour(int fd) {
    const char *no = getenv("NO_COLOR");
    return isatty(fd) && !(no && *no);
}

static int min3(int a, int b, int c) { return a < b ? (a < c ? a : c) : b < c ? b : c; }

const char *wr_cli_nearest(const char *word, const char *const *names, int n) {
    enum { MAX = 64 };
    size_t wl = strlen(word);
    int best = 4;
    const char *ret = NULL;
    if (wl >= MAX) return NULL;
    for (int k = 0; k < n; k++) {
        size_t nl = strlen(names[k]);
        if (nl >= MAX) continue;
        int d[MAX][MAX];
        for (size_t i = 0; i <= wl; i++) d[i][0] = (int)i;
        for (size_t j = 0; j <= nl; j++) d[0][j] = (int)j;
        for (size_t i = 1; i <= wl; i++)
            for (size_t j = 1; j <= nl; j++) {
                int cost = word[i - 1] != names[k][j - 1];
                d[i][j] = min3(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + cost);
                if (i > 1 && j > 1 && word[i - 1] == names[k][j - 2] && word[i - 2] == names[k][j - 1] && d[i - 2][j - 2] + 1 < d[i][j]) d[i][j] = d[i - 2][j - 2] + 1;
            }
        int dist = d[wl][nl];
        const char *leaf = strrchr(names[k], '.'); /* the right word in the wrong section */
        const char *wleaf = strrchr(word, '.');
        if (leaf && !strcmp(leaf + 1, wleaf ? wleaf + 1 : word)) dist = dist > 2 ? 2 : dist;
        if (dist < best && dist * 2 <= (int)wl + 1) best = dist, ret = names[k];
    }
    return ret;
}

int64_t wr_cli_age(const char *text) {
    static const struct { char unit; int64_t seconds; } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    char *end;
    if (text[0] < '0' || text[0] > '9') return -1;
    double n = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (*end == units[i].unit && !end[1] && n <= 36500) return (int64_t)(n * (double)units[i].seconds * 1e6);
    return -1;
}

wr_code wr_cli_minute(const char *flag, const char *text, int64_t *ret, wr_err *err) {
    int64_t ago = wr_cli_age(text);
    if (ago >= 0) return *ret = (wr_now_us() - ago) / 60000000, WR_OK;
    struct tm tm = {0};
    int n = 0, y, mo, d, h = 0, mi = 0;
    bool ok = (sscanf(text, "%4d-%2d-%2d%n", &y, &mo, &d, &n) == 3 && !text[n]) || (sscanf(text, "%4d-%2d-%2d%*1[T ]%2d:%2d%n", &y, &mo, &d, &h, &mi, &n) == 5 && (!text[n] || !strcmp(text + n, "Z")));
    if (!ok || mo < 1 || mo > 12 || d < 1 || d > 31 || h > 23 || mi > 59) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s takes a time like 2026-11-30T14:05 (UTC) or an age like 2h, not '%s'", flag, text);
    tm.tm_year = y - 1900, tm.tm_mon = mo - 1, tm.tm_mday = d, tm.tm_hour = h, tm.tm_min = mi;
    *ret = (int64_t)timegm(&tm) / 60;
    return WR_OK;
}

char *wr_cli_bytes(double b, char buf[32]) {
    const char *u[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    int i = 0;
    while (b >= 1000 && i < 5) b /= 1000, i++;
    snprintf(buf, 32, i && b < 100 ? "%.1f %s" : "%.0f %s", b, u[i]);
    return buf;
}
