/* What our decoder makes of every byte sequence: for charset_compare.py.
 *   charset_dump NAME [PREFIX-HEX] < sequences in hex, one a line > "hex utf8-hex" lines, "-" when it is an error */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mysql/value.h"

int main(int argc, char **argv) {
    wr_err err = WR_ERR_INIT;
    const wr_charset *cs;
    if (argc < 2 || wr_charset_get(argv[1], &cs, &err) != WR_OK) return fprintf(stderr, "%s\n", err.msg), 1;
    char line[64];
    wr_buf out = WR_BUF_INIT;
    while (fgets(line, sizeof line, stdin)) {
        uint8_t b[16];
        size_t n = 0;
        line[strcspn(line, "\n")] = 0;
        for (char *p = line; p[0] && p[1] && n < sizeof b; p += 2) {
            char h[3] = {p[0], p[1], 0};
            b[n++] = (uint8_t)strtoul(h, NULL, 16);
        }
        wr_buf_clear(&out);
        printf("%s ", line);
        if (wr_charset_decode(cs, wr_slice_of(b, n), &out, &err) != WR_OK) printf("-");
        else
            for (size_t i = 0; i < out.n; i++) printf("%02X", out.p[i]);
        printf("\n");
    }
    wr_buf_free(&out);
    return 0;
}
