/* Results and error details.
 *
 * Every function that can fail returns a wr_code; the details go into a caller-owned wr_err, which is never NULL.
 * Who finds the fault describes it with numbers (wr_fail); callers add where they were (wr_err_in); who can act
 * decides by `retry`, never by text. Nobody prints and returns.
 */
#ifndef WEIR_BASE_ERR_H
#define WEIR_BASE_ERR_H

#include <stdarg.h>

typedef enum wr_code {
    WR_OK = 0,
    WR_E_INVAL,       /* the caller's or user's argument is wrong */
    WR_E_CONFIG,      /* weir.yaml is wrong */
    WR_E_NOMEM,       /* an allocation failed */
    WR_E_LIMIT,       /* a named limit in bytes or items was reached */
    WR_E_IO,          /* a file operation failed */
    WR_E_NOSPC,       /* the disk or quota is full */
    WR_E_CORRUPT,     /* bytes of ours do not match their checksum, magic, version or shape */
    WR_E_DECODE,      /* foreign bytes (binlog, Avro, metadata, ...) do not have the shape they must have */
    WR_E_UNSUPPORTED, /* understood, and cannot be followed yet */
    WR_E_NOTFOUND,
    WR_E_EXISTS,
    WR_E_AUTH,      /* credentials or privileges */
    WR_E_NET,       /* connection refused, cut, timed out */
    WR_E_SERVER,    /* the source server answered with an error */
    WR_E_SCHEMA,    /* schema history and binlog disagree */
    WR_E_CONFLICT,  /* somebody else changed what we were changing */
    WR_E_BUSY,      /* another process holds it */
    WR_E_CANCELLED, /* asked to stop */
    WR_E_TIMEOUT,
    WR_E_GAP, /* the source does not have what comes next: its log was purged, or its history is another one */
} wr_code;

/* What helps: nothing but a person, the same again after a pause, or the same after reloading shared state. */
typedef enum wr_retry { WR_RETRY_NO = 0, WR_RETRY_SOON, WR_RETRY_AFTER_RELOAD } wr_retry;

typedef struct wr_err {
    wr_code code;
    wr_retry retry;
    char msg[1024]; /* what, where, why; UTF-8, no newline */
    char cure[512]; /* the way out, or "" */
} wr_err;

/* Fills *err and returns `code`, so that `return wr_fail(err, ...)` reads well. */
wr_code wr_fail(wr_err *err, wr_code code, wr_retry retry, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The way out for the user. Returns err->code. */
wr_code wr_err_cure(wr_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts "where: " in front of the message. Returns err->code. */
wr_code wr_err_in(wr_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* WR_E_NOMEM for an allocation of `bytes` for `what`. */
wr_code wr_nomem(wr_err *err, const char *what, unsigned long long bytes);
void wr_err_clear(wr_err *err);
const char *wr_code_name(wr_code code); /* "corrupt", ... static */

/* Analyzers (tools/lint.sh) do not see into another file: what ends with one of these has failed, and wrote no outputs. No function: clang's looks into small ones only. */
#ifdef WEIR_ANALYZE
#define WR_FAILED_(fn, ...)                                                                                            \
    ({                                                                                                                 \
        wr_code fn##_code_ = fn(__VA_ARGS__);                                                                          \
        if (fn##_code_ == WR_OK) __builtin_unreachable();                                                              \
        fn##_code_;                                                                                                    \
    })
#define wr_fail(...) WR_FAILED_(wr_fail, __VA_ARGS__)
#define wr_err_cure(...) WR_FAILED_(wr_err_cure, __VA_ARGS__)
#define wr_err_in(...) WR_FAILED_(wr_err_in, __VA_ARGS__)
#define wr_nomem(...) WR_FAILED_(wr_nomem, __VA_ARGS__)
#endif

#define WR_ERR_INIT                                                                                                    \
    { .code = WR_OK }

/* Returns from the calling function when `expr` is not WR_OK. */
#define WR_TRY(expr)                                                                                                   \
    do {                                                                                                               \
        wr_code wr_try_rc_ = (expr);                                                                                   \
        if (wr_try_rc_ != WR_OK) return wr_try_rc_;                                                                    \
    } while (0)

#endif
