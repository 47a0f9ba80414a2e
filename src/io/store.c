/* Objects by URI: which kind of store an URI means, and the cache of S3's objects. */
#include "weir/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "s3.h"
#include "sys.h"
#include "weir/base/map.h"
#include "weir/base/mem.h"
#include "weir/io.h"

#define CACHE_BYTES (UINT64_C(1) << 30)

typedef struct entry { /* an object in the cache */
    char *uri, *path;
    uint64_t bytes, used; /* used: time of the last use, in uses */
    int pins;
    bool loading;
} entry;

typedef struct loan {
    char *prefix, *access_key, *secret_key, *session_token;
} loan;

struct wr_store {
    wr_s3 *s3;
    char *dir; /* of the cache; NULL without S3 */
    wr_lock *lock;
    uint64_t limit;
    pthread_mutex_t mu; /* guards what follows */
    pthread_cond_t loaded;
    wr_map *by_uri;
    entry **entries;
    size_t nentries, cap;
    uint64_t bytes, uses, serial;
    loan *loans;
    int nloans;
};

/* ------------------------------------------------------------------ URIs */
static const char *after(const char *uri, const char *scheme) {
    size_t n = strlen(scheme);
    return strncmp(uri, scheme, n) == 0 ? uri + n : NULL;
}

static const char *local_part(const char *uri) {
    const char *p = uri[0] == '/' ? uri : after(uri, "file://localhost");
    if (!p) p = after(uri, "file://");
    if (!p) p = after(uri, "file:");
    return p && p[0] == '/' ? p : NULL;
}

static const char *s3_part(const char *uri) {
    const char *p = after(uri, "s3://");
    if (!p) p = after(uri, "s3a://");
    return p ? p : after(uri, "s3n://");
}

bool wr_uri_is_local(const char *uri) { return local_part(uri) != NULL; }

static wr_code unknown_scheme(const char *uri, wr_err *err) {
    return wr_fail(err, WR_E_UNSUPPORTED, WR_RETRY_NO, "%s is in a store that Weir cannot reach (it knows local files and s3://)", uri);
}

wr_code wr_uri_canonical(const char *uri, char **ret_uri, wr_err *err) {
    const char *local = local_part(uri), *s3 = s3_part(uri);
    if (!local && !s3) return unknown_scheme(uri, err);
    char *c = local ? wr_strdup(local) : wr_asprintf("s3://%s", s3);
    return c ? (*ret_uri = c, WR_OK) : wr_nomem(err, "path", strlen(uri));
}

/* ------------------------------------------------------------------ S3 places */
typedef struct place {
    char *bucket, *key, *access_key, *secret_key, *session_token;
    wr_s3_credentials credentials;
    wr_s3_object object;
} place;

static void place_clear(place *p) {
    wr_free(p->bucket), wr_free(p->key);
    wr_free(p->access_key), wr_free(p->secret_key), wr_free(p->session_token);
}

static const loan *loan_for(const wr_store *s, const char *uri) {
    const loan *best = NULL;
    for (int i = 0; i < s->nloans; i++) {
        size_t n = strlen(s->loans[i].prefix);
        if (strncmp(uri, s->loans[i].prefix, n) == 0 && (!best || n > strlen(best->prefix))) best = &s->loans[i];
    }
    return best;
}

/* Lent credentials are copied: the catalog may renew them while the request is under way. */
static bool borrow(wr_store *s, const char *uri, place *p) {
    pthread_mutex_lock(&s->mu);
    const loan *l = loan_for(s, uri);
    bool ok = true;
    if (l) {
        p->access_key = wr_strdup(l->access_key), p->secret_key = wr_strdup(l->secret_key);
        p->session_token = l->session_token ? wr_strdup(l->session_token) : NULL;
        ok = p->access_key && p->secret_key && (p->session_token || !l->session_token);
        p->credentials = (wr_s3_credentials){p->access_key, p->secret_key, p->session_token};
    }
    pthread_mutex_unlock(&s->mu);
    p->object = (wr_s3_object){p->bucket, p->key, l ? &p->credentials : NULL};
    return ok;
}

/* p must stay where it is. */
static wr_code find_place(wr_store *s, const char *uri, place *p, wr_err *err) {
    const char *at = s3_part(uri), *slash = at ? strchr(at, '/') : NULL;
    if (!at) return unknown_scheme(uri, err);
    if (!s || !s->s3)
        return wr_fail(err, WR_E_CONFIG, WR_RETRY_NO, "%s is in S3, and lake.s3 is not configured", uri),
               wr_err_cure(err, "add lake.s3 with endpoint, region and credentials to the configuration");
    if (!slash || slash == at || !slash[1]) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s names no object: s3://bucket/key", uri);
    WR_AUTO char *canonical = wr_asprintf("s3://%s", at);
    p->bucket = wr_strndup(at, (size_t)(slash - at)), p->key = wr_strdup(slash + 1);
    return canonical && p->bucket && p->key && borrow(s, canonical, p) ? WR_OK : wr_nomem(err, "S3 object", strlen(uri));
}

static void loan_clear(loan *l) {
    wr_free(l->prefix), wr_free(l->access_key), wr_free(l->secret_key), wr_free(l->session_token);
}

wr_code wr_store_lend(wr_store *s, const char *prefix, const wr_s3_credentials *c, wr_err *err) {
    if (!s || !s->s3 || !c->access_key || !c->secret_key) return WR_OK;
    loan l = {wr_strdup(prefix), wr_strdup(c->access_key), wr_strdup(c->secret_key), c->session_token ? wr_strdup(c->session_token) : NULL};
    bool ok = l.prefix && l.access_key && l.secret_key && (l.session_token || !c->session_token);
    int i = 0;
    pthread_mutex_lock(&s->mu);
    while (i < s->nloans && strcmp(s->loans[i].prefix, prefix) != 0) i++;
    loan *v = ok && i == s->nloans ? wr_realloc(s->loans, ((size_t)i + 1) * sizeof *v) : s->loans;
    if ((ok = ok && v)) {
        s->loans = v;
        if (i == s->nloans)
            s->nloans++;
        else
            loan_clear(&v[i]);
        v[i] = l;
    }
    pthread_mutex_unlock(&s->mu);
    if (!ok) loan_clear(&l);
    return ok ? WR_OK : wr_nomem(err, "credentials", 256);
}

/* ------------------------------------------------------------------ opening */
static wr_code drop_file(void *dir, const char *name, wr_err *err) {
    WR_AUTO char *path = wr_path_join(dir, name);
    return path ? wr_file_remove(path, err) : wr_nomem(err, "path", 64);
}

static void drop_folder(char *dir) {
    wr_err err = WR_ERR_INIT; /* what cannot go now, goes with the next store */
    if (wr_dir_list(dir, drop_file, dir, &err) == WR_OK) rmdir(dir);
}

/* A folder whose lock nobody holds belongs to a process that has ended. */
static wr_code drop_left_over(void *dir, const char *name, wr_err *err) {
    WR_AUTO char *sub = wr_path_join(dir, name), *lock = sub ? wr_path_join(sub, "lock") : NULL;
    wr_lock *l;
    wr_err e = WR_ERR_INIT;
    if (!lock) return wr_nomem(err, "path", 64);
    if (!wr_file_exists(lock) || wr_lock_take(lock, &l, &e) != WR_OK) return WR_OK;
    drop_folder(sub);
    wr_lock_release(l);
    return WR_OK;
}

static wr_code open_cache(wr_store *s, const wr_store_options *o, wr_err *err) {
    uint64_t r;
    if (!o->cache_dir) return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "an object store needs a folder for its cache");
    if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "getrandom gave no folder name");
    WR_TRY(wr_mkdirs(o->cache_dir, err));
    WR_TRY(wr_dir_list(o->cache_dir, drop_left_over, (void *)o->cache_dir, err));
    s->dir = wr_asprintf("%s/%d-%08x", o->cache_dir, (int)getpid(), (unsigned)r);
    WR_AUTO char *lock = s->dir ? wr_path_join(s->dir, "lock") : NULL;
    if (!lock) return wr_nomem(err, "path", 64);
    WR_TRY(wr_mkdirs(s->dir, err));
    return wr_lock_take(lock, &s->lock, err);
}

wr_code wr_store_open(const wr_store_options *o, wr_store **ret_store, wr_err *err) {
    wr_store *s = wr_calloc(1, sizeof *s);
    if (!s) return wr_nomem(err, "store", sizeof *s);
    pthread_mutex_init(&s->mu, NULL);
    pthread_cond_init(&s->loaded, NULL);
    s->limit = o->cache_bytes ? o->cache_bytes : CACHE_BYTES;
    s->by_uri = wr_map_new();
    wr_code rc = s->by_uri ? WR_OK : wr_nomem(err, "store", 64);
    if (rc == WR_OK && o->s3) rc = open_cache(s, o, err);
    if (rc == WR_OK && o->s3) rc = wr_s3_open(o->s3, &s->s3, err);
    if (rc != WR_OK) return wr_store_close(s), rc;
    *ret_store = s;
    return WR_OK;
}

static void entry_free(entry *e) {
    wr_free(e->uri), wr_free(e->path);
    wr_free(e);
}

void wr_store_close(wr_store *s) {
    if (!s) return;
    wr_s3_close(s->s3);
    if (s->lock) drop_folder(s->dir);
    wr_lock_release(s->lock);
    for (size_t i = 0; i < s->nentries; i++) entry_free(s->entries[i]);
    wr_free(s->entries);
    wr_map_free(s->by_uri, NULL);
    for (int i = 0; i < s->nloans; i++) loan_clear(&s->loans[i]);
    wr_free(s->loans), wr_free(s->dir);
    pthread_cond_destroy(&s->loaded);
    pthread_mutex_destroy(&s->mu);
    wr_free(s);
}

/* ------------------------------------------------------------------ the cache; mu is held unless said otherwise */
static void forget(wr_store *s, entry *e) {
    wr_map_del(s->by_uri, wr_slice_str(e->uri));
    for (size_t i = 0; i < s->nentries; i++)
        if (s->entries[i] == e) {
            s->entries[i] = s->entries[--s->nentries];
            break;
        }
    s->bytes -= e->bytes;
    unlink(e->path);
    entry_free(e);
}

static void make_room(wr_store *s) {
    while (s->bytes > s->limit) {
        entry *oldest = NULL;
        for (size_t i = 0; i < s->nentries; i++) {
            entry *e = s->entries[i];
            if (!e->pins && !e->loading && (!oldest || e->used < oldest->used)) oldest = e;
        }
        if (!oldest) return;
        forget(s, oldest);
    }
}

static char *new_path(wr_store *s) { return wr_asprintf("%s/%llu", s->dir, (unsigned long long)++s->serial); }

/* A new entry, pinned once. NULL when memory is out. Takes path. */
static entry *enter(wr_store *s, const char *uri, char *path, uint64_t bytes) {
    entry *e = path ? wr_calloc(1, sizeof *e) : NULL;
    if (!e) return wr_free(path), NULL;
    *e = (entry){.uri = wr_strdup(uri), .path = path, .bytes = bytes, .used = ++s->uses, .pins = 1};
    if (s->nentries == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        entry **v = wr_realloc(s->entries, cap * sizeof *v);
        if (!v) return entry_free(e), NULL;
        s->entries = v, s->cap = cap;
    }
    if (!e->uri || !wr_map_put(s->by_uri, wr_slice_str(uri), e)) return entry_free(e), NULL;
    s->entries[s->nentries++] = e;
    s->bytes += bytes;
    make_room(s);
    return e;
}

/* A file that holds an object's content joins the cache. @thread mu not held */
static void keep_file(wr_store *s, const char *uri, const char *path, uint64_t bytes) {
    pthread_mutex_lock(&s->mu);
    bool there = wr_map_get(s->by_uri, wr_slice_str(uri)) != NULL;
    entry *e = there ? NULL : enter(s, uri, wr_strdup(path), bytes);
    if (e) e->pins = 0;
    pthread_mutex_unlock(&s->mu);
    if (!e) unlink(path);
}

/* @thread mu not held. A copy that cannot be written is none: the object is fetched when it is needed. */
static void keep_content(wr_store *s, const char *uri, wr_slice content) {
    pthread_mutex_lock(&s->mu);
    WR_AUTO char *path = new_path(s);
    pthread_mutex_unlock(&s->mu);
    FILE *f = path ? fopen(path, "wxe") : NULL;
    if (!f) return;
    bool ok = fwrite(content.p, 1, content.n, f) == content.n;
    if (fclose(f) == 0 && ok)
        keep_file(s, uri, path, content.n);
    else
        unlink(path);
}

static wr_code fetch(wr_store *s, const wr_s3_object *o, const char *path, uint64_t *ret_bytes, wr_err *err) {
    WR_TRY(wr_s3_get_file(s->s3, o, path, err));
    wr_code rc = wr_file_size(path, ret_bytes, err);
    if (rc != WR_OK) unlink(path);
    return rc;
}

/* The object's entry, pinned; fetched by the first who asks. @thread mu not held */
static wr_code pin_entry(wr_store *s, const char *uri, entry **ret, wr_err *err) {
    WR_CLEANUP(place_clear) place p = {0};
    WR_TRY(find_place(s, uri, &p, err));
    pthread_mutex_lock(&s->mu);
    entry *e;
    while ((e = wr_map_get(s->by_uri, wr_slice_str(uri))) && e->loading) pthread_cond_wait(&s->loaded, &s->mu);
    if (e) {
        e->pins++, e->used = ++s->uses;
        pthread_mutex_unlock(&s->mu);
        return *ret = e, WR_OK;
    }
    e = enter(s, uri, new_path(s), 0);
    if (e) e->loading = true;
    pthread_mutex_unlock(&s->mu);
    if (!e) return wr_nomem(err, "object cache", sizeof *e);
    uint64_t bytes = 0;
    wr_code rc = fetch(s, &p.object, e->path, &bytes, err);
    pthread_mutex_lock(&s->mu);
    e->loading = false, e->bytes = bytes, s->bytes += bytes;
    if (rc != WR_OK) forget(s, e);
    pthread_cond_broadcast(&s->loaded);
    if (rc == WR_OK) make_room(s);
    pthread_mutex_unlock(&s->mu);
    if (rc == WR_OK) *ret = e;
    return rc;
}

/* ------------------------------------------------------------------ writing */
static wr_code same_content(const char *path, wr_slice content, wr_err *err) {
    WR_AUTO_BUF wr_buf there = WR_BUF_INIT;
    wr_err e = WR_ERR_INIT;
    if (wr_file_get(path, content.n, &there, &e) == WR_OK && wr_slice_eq(wr_buf_view(&there), content)) return wr_err_clear(err), WR_OK;
    return err->code;
}

static void file_close_p(wr_file **f) { wr_file_close(*f); }

static wr_code put_local(const char *path, wr_slice content, wr_err *err) {
    WR_CLEANUP(file_close_p) wr_file *f = NULL;
    wr_code rc = wr_file_open(path, WR_OPEN_CREATE, &f, err);
    if (rc == WR_E_EXISTS) return same_content(path, content, err);
    WR_TRY(rc);
    rc = wr_file_pwrite(f, 0, content, err);
    if (rc == WR_OK) rc = wr_file_sync(f, err);
    if (rc != WR_OK) unlink(path);
    return rc;
}

/* Folders are synced once each: neighbours in a list of files mostly share theirs. *folder becomes that of this file, and the one before it is synced. */
static wr_code next_folder(char **folder, const char *path, bool *ret_new, wr_err *err) {
    char *parent = wr_path_parent_(path);
    if (!parent) return wr_nomem(err, "path", strlen(path));
    *ret_new = !*folder || strcmp(*folder, parent) != 0;
    wr_code rc = *ret_new && *folder ? wr_fsync_path(*folder, err) : WR_OK;
    wr_free(*folder);
    *folder = parent;
    return rc;
}

static wr_code put_locals(const wr_store_object *o, int n, wr_err *err) {
    WR_AUTO char *folder = NULL;
    for (int i = 0; i < n; i++) {
        const char *path = local_part(o[i].uri);
        bool is_new;
        if (!path) continue;
        WR_TRY(next_folder(&folder, path, &is_new, err));
        if (is_new) WR_TRY(wr_mkdirs(folder, err));
        WR_TRY(put_local(path, o[i].content, err));
    }
    return folder ? wr_fsync_path(folder, err) : WR_OK;
}

typedef struct request {
    place *places;
    wr_s3_object *objects;
    wr_slice *content;
    int n;
} request;

static void request_clear(request *r) {
    for (int i = 0; i < r->n; i++) place_clear(&r->places[i]);
    wr_free(r->places), wr_free(r->objects), wr_free(r->content);
}

static wr_code request_new(int cap, request *r, wr_err *err) {
    r->places = wr_calloc((size_t)cap + 1, sizeof *r->places);
    r->objects = wr_calloc((size_t)cap + 1, sizeof *r->objects);
    r->content = wr_calloc((size_t)cap + 1, sizeof *r->content);
    return r->places && r->objects && r->content ? WR_OK : wr_nomem(err, "objects", (size_t)cap * sizeof *r->places);
}

static wr_code request_add(wr_store *s, request *r, const char *uri, wr_slice content, wr_err *err) {
    place *p = &r->places[r->n++];
    WR_TRY(find_place(s, uri, p, err));
    r->objects[r->n - 1] = p->object, r->content[r->n - 1] = content;
    return WR_OK;
}

wr_code wr_store_put(wr_store *s, const wr_store_object *o, int n, wr_err *err) {
    WR_CLEANUP(request_clear) request r = {0};
    WR_TRY(put_locals(o, n, err));
    WR_TRY(request_new(n, &r, err));
    for (int i = 0; i < n; i++)
        if (!local_part(o[i].uri)) WR_TRY(request_add(s, &r, o[i].uri, o[i].content, err));
    if (!r.n) return WR_OK;
    WR_TRY(wr_s3_put_many(s->s3, r.objects, r.content, r.n, err));
    for (int i = 0; i < n; i++)
        if (!local_part(o[i].uri)) keep_content(s, o[i].uri, o[i].content);
    return WR_OK;
}

wr_code wr_store_stage(wr_store *s, const char *uri, char **ret_path, wr_err *err) {
    const char *local = local_part(uri);
    WR_AUTO char *path = NULL;
    if (local) {
        path = wr_strdup(local);
    } else {
        WR_CLEANUP(place_clear) place p = {0};
        WR_TRY(find_place(s, uri, &p, err));
        pthread_mutex_lock(&s->mu);
        path = new_path(s);
        pthread_mutex_unlock(&s->mu);
    }
    WR_AUTO char *folder = path ? wr_path_parent_(path) : NULL;
    if (!folder) return wr_nomem(err, "path", strlen(uri));
    WR_TRY(wr_mkdirs(folder, err));
    *ret_path = WR_STEAL(path);
    return WR_OK;
}

static wr_code sync_folders(const wr_store_file *f, int n, wr_err *err) {
    WR_AUTO char *folder = NULL;
    bool is_new;
    for (int i = 0; i < n; i++)
        if (local_part(f[i].uri)) WR_TRY(next_folder(&folder, f[i].path, &is_new, err));
    return folder ? wr_fsync_path(folder, err) : WR_OK;
}

wr_code wr_store_publish(wr_store *s, const wr_store_file *f, int n, wr_err *err) {
    WR_CLEANUP(request_clear) request r = {0};
    WR_AUTO const char **paths = wr_calloc((size_t)n + 1, sizeof *paths);
    if (!paths) return wr_nomem(err, "objects", (size_t)n * sizeof *paths);
    WR_TRY(sync_folders(f, n, err));
    WR_TRY(request_new(n, &r, err));
    for (int i = 0; i < n; i++) {
        if (local_part(f[i].uri)) continue;
        paths[r.n] = f[i].path;
        WR_TRY(request_add(s, &r, f[i].uri, (wr_slice){0}, err));
    }
    if (!r.n) return WR_OK;
    WR_TRY(wr_s3_put_files(s->s3, r.objects, paths, r.n, err));
    for (int i = 0; i < n; i++) {
        uint64_t bytes;
        wr_err e = WR_ERR_INIT; /* a copy that cannot be kept is none */
        if (!local_part(f[i].uri) && wr_file_size(f[i].path, &bytes, &e) == WR_OK) keep_file(s, f[i].uri, f[i].path, bytes);
    }
    return WR_OK;
}

void wr_store_discard(const char *path) {
    wr_err err = WR_ERR_INIT;
    wr_file_remove(path, &err);
}

/* ------------------------------------------------------------------ reading */
wr_code wr_store_pin(wr_store *s, const char *uri, char **ret_path, wr_err *err) {
    const char *local = local_part(uri);
    entry *e = NULL;
    if (!local) WR_TRY(pin_entry(s, uri, &e, err));
    char *path = wr_strdup(local ? local : e->path);
    if (path) return *ret_path = path, WR_OK;
    wr_store_unpin(s, uri);
    return wr_nomem(err, "path", strlen(uri));
}

void wr_store_unpin(wr_store *s, const char *uri) {
    if (local_part(uri)) return;
    pthread_mutex_lock(&s->mu);
    entry *e = wr_map_get(s->by_uri, wr_slice_str(uri));
    if (e && e->pins > 0) e->pins--;
    make_room(s);
    pthread_mutex_unlock(&s->mu);
}

wr_code wr_store_get(wr_store *s, const char *uri, size_t max_bytes, wr_buf *b, wr_err *err) {
    WR_AUTO char *path = NULL;
    WR_TRY(wr_store_pin(s, uri, &path, err));
    wr_code rc = wr_file_get(path, max_bytes, b, err);
    wr_store_unpin(s, uri);
    return rc;
}

static wr_code read_range(const char *uri, const char *path, uint64_t at, size_t n, wr_buf *b, wr_err *err) {
    WR_CLEANUP(file_close_p) wr_file *f = NULL;
    uint64_t length;
    size_t got = 0;
    WR_TRY(wr_file_open(path, WR_OPEN_READ, &f, err));
    WR_TRY(wr_file_length(f, &length, err));
    if (at > length || n > length - at)
        return wr_fail(err, WR_E_DECODE, WR_RETRY_NO, "%zu bytes from byte %llu of %s, which has %llu", n, (unsigned long long)at, uri, (unsigned long long)length);
    uint8_t *dst = wr_buf_room(b, n);
    if (!dst) return wr_nomem(err, "part of an object", n);
    WR_TRY(wr_file_pread(f, at, dst, n, &got, err));
    if (got != n) return wr_fail(err, WR_E_IO, WR_RETRY_SOON, "%s became shorter while it was read", uri);
    b->n += n;
    return WR_OK;
}

wr_code wr_store_get_range(wr_store *s, const char *uri, uint64_t at, size_t n, wr_buf *b, wr_err *err) {
    WR_AUTO char *path = NULL;
    WR_TRY(wr_store_pin(s, uri, &path, err));
    wr_code rc = read_range(uri, path, at, n, b, err);
    wr_store_unpin(s, uri);
    return rc;
}

/* ------------------------------------------------------------------ removing, listing */
static void uncache(wr_store *s, const char *uri) {
    pthread_mutex_lock(&s->mu);
    entry *e = wr_map_get(s->by_uri, wr_slice_str(uri));
    if (e && !e->pins && !e->loading) forget(s, e);
    pthread_mutex_unlock(&s->mu);
}

wr_code wr_store_remove(wr_store *s, const char *const *uris, int n, wr_err *err) {
    WR_CLEANUP(request_clear) request r = {0};
    wr_code rc = request_new(n, &r, err);
    for (int i = 0; rc == WR_OK && i < n; i++)
        if (!local_part(uris[i]) && (rc = request_add(s, &r, uris[i], (wr_slice){0}, err)) == WR_OK) uncache(s, uris[i]);
    WR_TRY(rc);
    for (int i = 0; i < n; i++) {
        const char *path = local_part(uris[i]);
        wr_err e = WR_ERR_INIT;
        if (path && wr_file_remove(path, &e) != WR_OK && rc == WR_OK) rc = e.code, *err = e;
    }
    wr_err e = WR_ERR_INIT;
    if (r.n && wr_s3_remove_many(s->s3, r.objects, r.n, &e) != WR_OK && rc == WR_OK) rc = e.code, *err = e;
    return rc;
}

typedef struct walk {
    const char *prefix; /* as given */
    const char *bucket; /* S3 */
    wr_code (*fn)(void *ctx, const char *uri, uint64_t bytes, int64_t modified_us, wr_err *err);
    void *ctx;
    const char *root, *dir; /* local: folder of the prefix, and the one that is looked at */
} walk;

static wr_code walk_folder(const walk *w, const char *dir, wr_err *err);

static wr_code walk_entry(void *ctx, const char *name, wr_err *err) {
    const walk *w = ctx;
    struct stat st;
    WR_AUTO char *path = wr_path_join(w->dir, name);
    if (!path) return wr_nomem(err, "path", strlen(name));
    if (lstat(path, &st) != 0) return WR_OK; /* gone meanwhile */
    if (S_ISDIR(st.st_mode)) return walk_folder(w, path, err);
    if (!S_ISREG(st.st_mode)) return WR_OK;
    WR_AUTO char *uri = wr_asprintf("%s%s", w->prefix, path + strlen(w->root));
    if (!uri) return wr_nomem(err, "path", strlen(path));
    return w->fn(w->ctx, uri, (uint64_t)st.st_size, (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000, err);
}

static wr_code walk_folder(const walk *w, const char *dir, wr_err *err) {
    walk here = *w;
    here.dir = dir;
    wr_code rc = wr_dir_list(dir, walk_entry, &here, err);
    if (rc != WR_E_NOTFOUND) return rc;
    wr_err_clear(err);
    return WR_OK;
}

static wr_code found_key(void *ctx, const char *key, uint64_t bytes, int64_t modified_us, wr_err *err) {
    const walk *w = ctx;
    const char *at = s3_part(w->prefix);
    WR_AUTO char *uri = wr_asprintf("%.*s%s/%s", (int)(at - w->prefix), w->prefix, w->bucket, key);
    return uri ? w->fn(w->ctx, uri, bytes, modified_us, err) : wr_nomem(err, "path", strlen(key));
}

wr_code wr_store_list(wr_store *s, const char *prefix, wr_code (*fn)(void *ctx, const char *uri, uint64_t bytes, int64_t modified_us, wr_err *err), void *ctx,
                      wr_err *err) {
    const char *local = local_part(prefix);
    walk w = {.prefix = prefix, .fn = fn, .ctx = ctx, .root = local};
    size_t n = strlen(prefix);
    if (n == 0 || prefix[n - 1] != '/') return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "%s does not end in /", prefix);
    if (local) return walk_folder(&w, local, err);
    WR_CLEANUP(place_clear) place p = {0};
    WR_TRY(find_place(s, prefix, &p, err));
    w.bucket = p.bucket;
    return wr_s3_list(s->s3, &p.object, found_key, &w, err);
}
