/* What a comparison of a source table with its lake table is made of, without knowing either: rows as small records that are brought together in bounded memory, and
 * the report. The pipeline fetches the rows (pipeline/compare.c).
 * @thread an object is used by one thread at a time
 */
#ifndef WEIR_COMPARE_H
#define WEIR_COMPARE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"
#include "weir/base/sum.h"
#include "weir/model.h"

/* ------------------------------------------------------------------ the sieve */
/* Two sides of one table as records of 32 bytes, on disk as far as they are many. The lake's side is what it holds at one position L of the source. The source's side was
 * read while the source changed, so the changes of the time around it are added, each with the number (seq, rising) that it has in the stream; which of them are at
 * or before L is known later, when records are brought together:
 *
 *   a key's row at L = the row behind its last change up to L, if there is one since the reading began;
 *                      else the row in front of its first change behind L, if there is one before the reading ended;
 *                      else the row that was read.
 *
 * That is exact for every key, however often it changes. Tables without a key: the rows are counted, and every member was read as of exactly one place in the
 * stream, `read_at`; what lies between that and L is added or taken off. */
typedef struct wr_sieve wr_sieve;
typedef enum wr_side {
    WR_SIDE_READ = 0,   /* a row read from the source; where: anything that helps to find it again, below 2^60 */
    WR_SIDE_AFTER = 1,  /* a row behind a change (absent: it was deleted); where: seq */
    WR_SIDE_BEFORE = 2, /* a row in front of a change (absent: it was inserted); where: seq */
    WR_SIDE_LAKE = 3,   /* a row of the lake; where: as READ */
} wr_side;
typedef struct wr_sieve_options {
    const char *dir;        /* of the file, which has no name; must exist */
    uint64_t rows;          /* that are expected on both sides together */
    bool keyed;
    uint64_t memory_bytes;  /* 0 = 48 MiB */
} wr_sieve_options;
wr_code wr_sieve_new(const wr_sieve_options *o, wr_sieve **ret_sieve, wr_err *err);
void wr_sieve_free(wr_sieve *s);
uint64_t wr_sieve_memory(const wr_sieve *s); /* that it may take until records are brought together */
/* key: hash of the key, of the whole row where there is none. row: hash of the row; of a table without a key the number of the member (wr_sieve_bounds.read_at). */
wr_code wr_sieve_add(wr_sieve *s, wr_side side, bool absent, wr_h128 key, uint64_t row, uint64_t where, wr_err *err);

typedef struct wr_sieve_bounds {
    uint64_t lake_seq;               /* changes with seq <= this are in the lake */
    const uint64_t *read_at;         /* [members] tables without a key: changes with seq <= this were in what was read of the member */
    const uint64_t *void_from, *void_to; int nvoid; /* changes that came twice: those with these seqs do not count */
} wr_sieve_bounds;

typedef enum wr_differs { WR_ROW_MISSING = 1 /* in the lake */, WR_ROW_SURPLUS /* in the lake */, WR_ROW_DIFFERENT } wr_differs;
typedef struct wr_difference {
    uint8_t kind;               /* wr_differs */
    wr_h128 key;
    uint64_t in_source, in_lake; /* how many; a key twice in the lake is WR_ROW_SURPLUS with 1 and 2, or WR_ROW_DIFFERENT */
    uint8_t source_side;        /* wr_side of the record that says what the source has; in_source > 0 */
    uint64_t source_where, source_row;
    uint64_t lake_where;        /* in_lake > 0: the row that is wrong, or one of those */
} wr_difference;
typedef struct wr_sieve_totals { uint64_t source_rows, lake_rows, missing, surplus, different; } wr_sieve_totals;
/* Brings the sides together; fn gets each difference. Once. */
wr_code wr_sieve_join(wr_sieve *s, const wr_sieve_bounds *b, wr_code (*fn)(void *ctx, const wr_difference *d, wr_err *err), void *ctx, wr_sieve_totals *ret_totals, wr_err *err);

/* ------------------------------------------------------------------ MD5
 * For those who want a hash that others know, too. WR_E_UNSUPPORTED: OpenSSL has none (FIPS). */
typedef struct wr_md5 wr_md5;
wr_code wr_md5_new(wr_md5 **ret_md5, wr_err *err);
void wr_md5_free(wr_md5 *m); /* NULL is fine */
wr_code wr_md5_of(wr_md5 *m, wr_slice s, wr_h128 *ret_hash, wr_err *err); /* hi: the first eight bytes, big endian, as the first 16 hexadecimal digits have it */

/* ------------------------------------------------------------------ the report */
typedef enum wr_verdict { WR_EQUAL = 1, WR_DIFFERENT, WR_UNDECIDED, WR_NOT_COMPARED } wr_verdict;
const char *wr_verdict_name(wr_verdict v); /* "EQUAL" */

typedef struct wr_finding_of_table { char *what; /* "column-missing", ... : docs/formats/compare.md */ char *subject, *source, *lake; } wr_finding_of_table;

/* One differing key. Rows are rows of wr_table_report.schema, empty = that side has none, or `*_gone`. */
typedef struct wr_difference_shown {
    uint8_t kind;
    uint64_t in_source, in_lake;
    wr_buf source, lake;
    bool source_gone; /* it was there, and has changed since it was read */
} wr_difference_shown;

typedef struct wr_table_report { /* strings owned */
    char *ns, *name;        /* the lake table */
    char **sources; int nsources; /* "db.table" */
    wr_verdict verdict;
    char *reason;           /* why it is not EQUAL or not more; NULL */
    const char *method;     /* static: "rows", "pushed", "counts", "structure" */
    char *method_why;       /* not the one that was asked for; NULL */
    const char *hash;       /* static: "xxh3", "crc32", "md5": what decided; NULL: no contents were compared */
    int64_t snapshot; uint64_t offset;
    char position[320];     /* of the lake's content, and what was compared with it; "" = none */
    wr_schema *schema;      /* of the rows compared; NULL: none were */
    wr_sieve_totals rows; bool counted;
    wr_finding_of_table *findings; int nfindings;
    wr_difference_shown *shown; uint64_t nshown, cap;
    uint64_t left_out;      /* differences beyond those */
    int64_t ms;
    uint64_t rows_kept;     /* of the source that an interrupted run had read */
} wr_table_report;
wr_code wr_table_report_find(wr_table_report *r, const char *what, const char *subject, const char *source, const char *lake, wr_err *err); /* adds; NULLs are fine */
void wr_table_report_forget(wr_table_report *r); /* its findings: they turned out not to count */
void wr_table_report_clear(wr_table_report *r);

typedef struct wr_compare_report {
    const char *pipeline, *level, *server; /* borrowed */
    int64_t began_us, ended_us;
    wr_table_report *tables; int ntables;
    bool keys_only;
    double sample; uint64_t seed; /* 0 = all rows */
    const char *filter;     /* borrowed; NULL */
} wr_compare_report;
wr_verdict wr_compare_verdict(const wr_compare_report *r); /* the worst of the tables: DIFFERENT, then UNDECIDED, then EQUAL */

/* Writers. JSON: docs/formats/compare.md. Text: for a terminal, at most `rows` differing rows of each table. HTML: one file that needs nothing else. false: writing failed. */
bool wr_report_json(const wr_compare_report *r, FILE *out);
bool wr_report_text(const wr_compare_report *r, FILE *out, uint64_t rows, bool colour);
bool wr_report_html(const wr_compare_report *r, FILE *out, uint64_t rows);

#endif
