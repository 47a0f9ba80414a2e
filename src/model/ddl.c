#include "weir/base/mem.h"
#include "weir/model.h"

#define FORMAT_VERSION 1
#define HAS_OLD 0x01u
#define HAS_SCHEMA 0x02u
#define HAS_DEF 0x04u
#define HAS_WHY 0x08u
#define HAS_ALL 0x0fu

void wr_ddl_clear(wr_ddl *d) {
    if (!d) return;
    wr_free(d->db);
    wr_free(d->name);
    wr_free(d->old_db);
    wr_free(d->old_name);
    wr_schema_unref(d->schema);
    wr_free(d->def);
    wr_free(d->why);
    *d = (wr_ddl){0};
}

/* What every reader may count on. NULL when it holds. */
static const char *fault_of(const wr_ddl *d) {
    if (d->kind < WR_DDL_CREATE || d->kind > WR_DDL_HIDDEN) return "unknown kind";
    if (d->rows > WR_ROWS_RETYPED) return "unknown row treatment";
    if (d->rows == WR_ROWS_LEFT && d->kind != WR_DDL_DROP) return "only a dropped table can have left";
    if (!d->db || !d->name) return "no table name";
    if (!d->old_db != !d->old_name) return "half an old name";
    if ((d->kind == WR_DDL_RENAME) != (d->old_name != NULL)) return "an old name belongs to a rename, and only there";
    if ((d->kind == WR_DDL_DROP || d->kind == WR_DDL_HIDDEN) != (d->schema == NULL))
        return "a schema belongs to every kind but drop and hidden";
    return NULL;
}

/* u8 version, u8 kind, u8 rows, u8 flags, varint table, then texts; the schema as docs/formats/schema.md. */
wr_code wr_ddl_encode(wr_buf *b, const wr_ddl *d, wr_err *err) {
    const char *fault = fault_of(d);
    if (fault)
        return wr_fail(err, WR_E_INVAL, WR_RETRY_NO, "schema event of kind %u for table %u: %s", d->kind, d->table,
                       fault);
    wr_buf_u8(b, FORMAT_VERSION);
    wr_buf_u8(b, d->kind);
    wr_buf_u8(b, d->rows);
    wr_buf_u8(b, (uint8_t)((d->old_name ? HAS_OLD : 0) | (d->schema ? HAS_SCHEMA : 0) | (d->def ? HAS_DEF : 0) |
                           (d->why ? HAS_WHY : 0)));
    wr_buf_varint(b, d->table);
    wr_buf_str(b, d->db);
    wr_buf_str(b, d->name);
    if (d->old_name) wr_buf_str(b, d->old_db), wr_buf_str(b, d->old_name);
    if (d->schema) {
        WR_AUTO_BUF wr_buf json = WR_BUF_INIT;
        WR_TRY(wr_schema_to_json(d->schema, &json, err));
        wr_buf_slice(b, wr_buf_view(&json));
    }
    if (d->def) wr_buf_str(b, d->def);
    if (d->why) wr_buf_str(b, d->why);
    return wr_buf_check(b, "schema event", err);
}

/* NULL also when the text is cut short or holds a NUL; r->bad then. */
static char *take_text(wr_rd *r, bool *out_of_memory) {
    wr_slice s = wr_rd_slice(r);
    if (s.n && memchr(s.p, 0, s.n)) r->bad = true;
    if (r->bad) return NULL;
    char *t = s.n ? wr_strndup((const char *)s.p, s.n) : wr_strdup("");
    if (!t) *out_of_memory = true;
    return t;
}

static void ddl_clear_p(wr_ddl *d) { wr_ddl_clear(d); }

wr_code wr_ddl_decode(wr_rd *r, wr_ddl *ret_ddl, wr_err *err) {
    uint8_t version = wr_rd_u8(r);
    if (!r->bad && version != FORMAT_VERSION)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "schema event of format version %u, %u is known", version,
                       FORMAT_VERSION);
    WR_CLEANUP(ddl_clear_p) wr_ddl d = {0};
    d.kind = wr_rd_u8(r);
    d.rows = wr_rd_u8(r);
    uint8_t flags = wr_rd_u8(r);
    uint64_t table = wr_rd_varint(r);
    if (flags & ~HAS_ALL || table > UINT32_MAX)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "schema event has flags 0x%02x and table %llu", flags,
                       (unsigned long long)table);
    d.table = (uint32_t)table;
    bool oom = false;
    d.db = take_text(r, &oom);
    d.name = take_text(r, &oom);
    if (flags & HAS_OLD) {
        d.old_db = take_text(r, &oom);
        d.old_name = take_text(r, &oom);
    }
    wr_slice json = flags & HAS_SCHEMA ? wr_rd_slice(r) : (wr_slice){0};
    if (flags & HAS_DEF) d.def = take_text(r, &oom);
    if (flags & HAS_WHY) d.why = take_text(r, &oom);
    if (r->bad) return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "schema event is cut short");
    if (oom) return wr_nomem(err, "schema event", json.n);
    if (flags & HAS_SCHEMA) WR_TRY(wr_schema_from_json(json, &d.schema, err));
    const char *fault = fault_of(&d);
    if (fault)
        return wr_fail(err, WR_E_CORRUPT, WR_RETRY_NO, "schema event of kind %u for table %u: %s", d.kind, d.table,
                       fault);
    *ret_ddl = d;
    d = (wr_ddl){0};
    return WR_OK;
}
