/* MySQL's binary JSON to the text the server shows for it, and the diffs of partial updates.
 * Sources: MySQL 9.7 sql-common/json_binary.h (format), json_dom.cc (text form), sql/json_diff.h (diffs); measured against the server.
 * @thread one at a time */
#ifndef WEIR_SOURCE_MYSQL_JSON_BINARY_H
#define WEIR_SOURCE_MYSQL_JSON_BINARY_H

#include "weir/base/buf.h"
#include "weir/base/err.h"

/* Appends the text of a whole document ("" counts as null, as the server reads it). WR_E_DECODE. */
wr_code wr_my_json_print(wr_slice doc, wr_buf *out, wr_err *err);
/* Appends the text of `doc` after `diffs` (PARTIAL_UPDATE_ROWS): replacements, insertions and removals on paths, in order. A path that
 * does not exist in the document is WR_E_DECODE: binlog and row do not belong together. */
wr_code wr_my_json_print_patched(wr_slice doc, wr_slice diffs, wr_buf *out, wr_err *err);
/* The server's text of a double inside JSON: shortest digits that read back to it, ".0" behind whole numbers. */
void wr_my_json_print_double(wr_buf *out, double d);

#endif
