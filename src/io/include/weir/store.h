/* Immutable objects by URI, on this machine ("file:///a/b", "file:/a/b", "/a/b") or in S3 ("s3://bucket/key", also s3a and s3n).
 * An object appears whole or not at all and never changes; it is durable when the call that makes it returns.
 * @thread any */
#ifndef WEIR_STORE_H
#define WEIR_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include "weir/base/buf.h"
#include "weir/base/err.h"

typedef struct wr_s3_credentials { /* NULL key: requests are not signed */
    const char *access_key, *secret_key, *session_token;
} wr_s3_credentials;

typedef struct wr_s3_options { /* zero means default */
    const char *endpoint;      /* scheme://host[:port]; NULL = https://s3.<region>.amazonaws.com */
    const char *region;        /* us-east-1 */
    bool path_style;           /* <endpoint>/bucket/key instead of bucket.<endpoint host>/key */
    const char *ca_file;       /* PEM; NULL = the system's */
    wr_s3_credentials credentials;
    uint64_t part_bytes;       /* 16 MiB: larger objects are uploaded in parts of this size (S3: at least 5 MiB) */
    int parallel;              /* 4 requests at a time for one call; four times as many when none moves more than a MiB */
    int attempts;              /* 10 for each request */
    int stall_timeout_ms;      /* 30,000 */
} wr_s3_options;

typedef struct wr_store_options {
    const wr_s3_options *s3;   /* NULL: s3 URIs are refused with WR_E_CONFIG */
    const char *cache_dir;     /* copies of objects, for readers that need a file: each store has a folder of its own below, which goes with it (or, after a
                                  crash, with the next store that opens) */
    uint64_t cache_bytes;      /* 1 GiB; what is pinned may go beyond */
} wr_store_options;

/* Where one is asked for, NULL means: this machine's files, and nothing else. */
typedef struct wr_store wr_store;
wr_code wr_store_open(const wr_store_options *opts, wr_store **ret_store, wr_err *err);
void wr_store_close(wr_store *s);
/* Credentials for URIs that begin with `prefix` (the longest wins), e.g. those that a catalog hands out; they replace earlier ones of that prefix.
 * Ignored without S3. */
wr_code wr_store_lend(wr_store *s, const char *prefix, const wr_s3_credentials *credentials, wr_err *err);

bool wr_uri_is_local(const char *uri);
/* The one spelling of a place: "file:///a/b", "file:/a/b", "/a/b" -> "/a/b"; "s3a://b/k", "s3n://b/k" -> "s3://b/k". WR_E_UNSUPPORTED for other schemes. Owned. */
wr_code wr_uri_canonical(const char *uri, char **ret_uri, wr_err *err);

/* WR_E_NOTFOUND; WR_E_AUTH (no retry) for refused credentials; WR_E_NET, WR_E_NOSPC and WR_E_IO are worth another try when err says so. */
typedef struct wr_store_object { const char *uri; wr_slice content; } wr_store_object;
/* All of them, or an error (then any of them may be there). An object that is there already: WR_E_EXISTS unless it has this very content. */
wr_code wr_store_put(wr_store *s, const wr_store_object *objects, int n, wr_err *err);
wr_code wr_store_get(wr_store *s, const char *uri, size_t max_bytes, wr_buf *b, wr_err *err);
/* Exactly n bytes from `at` on. WR_E_DECODE when the object ends before. */
wr_code wr_store_get_range(wr_store *s, const char *uri, uint64_t at, size_t n, wr_buf *b, wr_err *err);
wr_code wr_store_remove(wr_store *s, const char *const *uris, int n, wr_err *err); /* those that are missing are fine; goes on after an error and returns the first */
/* Every object whose URI begins with the prefix, a folder ending in "/". fn gets URIs in the prefix's own spelling. */
wr_code wr_store_list(wr_store *s, const char *prefix, wr_code (*fn)(void *ctx, const char *uri, uint64_t bytes, int64_t modified_us, wr_err *err), void *ctx, wr_err *err);

/* A large object is first a file. stage: where to create it (its folder exists). publish: the files, written and synced, become the objects, all of them or an
 * error (then any of them may be there); for S3 they are uploaded, small ones several at a time, and stay in the cache. After an error, or instead of publish: discard. */
wr_code wr_store_stage(wr_store *s, const char *uri, char **ret_path, wr_err *err);
typedef struct wr_store_file { const char *uri, *path; } wr_store_file;
wr_code wr_store_publish(wr_store *s, const wr_store_file *files, int n, wr_err *err);
void wr_store_discard(const char *path);
/* A file with the object's content, which stays there until unpinned. Owned path. */
wr_code wr_store_pin(wr_store *s, const char *uri, char **ret_path, wr_err *err);
void wr_store_unpin(wr_store *s, const char *uri);

#endif
