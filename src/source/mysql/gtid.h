/* Sets of transaction ids: MySQL's (source uuid, optional tag, intervals) and MariaDB's (the last sequence number of each domain).
 * @thread one at a time */
#ifndef WEIR_SOURCE_MYSQL_GTID_H
#define WEIR_SOURCE_MYSQL_GTID_H

#include "weir/base/buf.h"
#include "weir/source.h"

typedef struct wr_gtid_set wr_gtid_set;

wr_code wr_gtid_set_new(wr_flavor flavor, wr_gtid_set **ret_set, wr_err *err); /* empty */
void wr_gtid_set_free(wr_gtid_set *s);
/* Text as the server shows it; blanks and newlines between members are fine. WR_E_DECODE. */
wr_code wr_gtid_set_parse(wr_flavor flavor, const char *text, wr_gtid_set **ret_set, wr_err *err);
/* MySQL: one transaction. Gaps stay gaps. */
wr_code wr_gtid_set_add_mysql(wr_gtid_set *s, const uint8_t uuid[16], const char *tag, uint64_t gno, wr_err *err);
/* MariaDB: replaces what the domain had. */
wr_code wr_gtid_set_add_maria(wr_gtid_set *s, uint32_t domain, uint32_t server_id, uint64_t seq, wr_err *err);
/* Canonical text, in the server's own form, replaced in out. */
wr_code wr_gtid_set_print(const wr_gtid_set *s, wr_buf *out, wr_err *err);
/* MySQL: whether it holds this transaction. */
bool wr_gtid_set_has(const wr_gtid_set *s, const uint8_t uuid[16], const char *tag, uint64_t gno);
/* Everything of `part` is in `whole` too (MariaDB: each domain is there, as far or further). */
bool wr_gtid_set_covers(const wr_gtid_set *whole, const wr_gtid_set *part);
bool wr_gtid_set_empty(const wr_gtid_set *s);

/* What a server has executed, as text. MySQL: a set. MariaDB: @@gtid_binlog_state, the last number of each domain and server, which unlike a position tells that
 * 0-2-700 does not hold 0-1-501. *ret_missing (replaced): the transactions of `part` (a set; MariaDB: a position or a state) that are not in `whole`, for people: "uuid:501-503", "0-1-501 to
 * 0-1-503"; "" = none. *ret_related: they have any source in common. WR_E_DECODE. */
wr_code wr_gtid_missing(wr_flavor flavor, const char *whole, const char *part, wr_buf *ret_missing, bool *ret_related, wr_err *err);

/* MySQL's binary form (PREVIOUS_GTIDS, COM_BINLOG_DUMP_GTID), plain or, when a tag occurs, tagged. */
wr_code wr_gtid_set_encode(const wr_gtid_set *s, wr_buf *out, wr_err *err);
wr_code wr_gtid_set_decode(wr_slice bytes, wr_gtid_set **ret_set, wr_err *err);
/* The body of MariaDB's GTID_LIST: the state at the file's start. */
wr_code wr_gtid_set_decode_list(wr_slice body, wr_gtid_set **ret_set, wr_err *err);

#endif
