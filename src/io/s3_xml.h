/* The XML of S3's answers: elements and text. No document types, no entities but the five and characters by number.
 * Attributes, comments and namespaces are passed over. @thread any */
#ifndef WEIR_IO_S3_XML_H
#define WEIR_IO_S3_XML_H

#include "weir/base/buf.h"
#include "weir/base/err.h"

enum { WR_S3_XML_DEPTH_MAX = 8, WR_S3_XML_PATH_MAX = 256, WR_S3_XML_TEXT_MAX = 64 << 10 };

/* At the end of each element: its path ("ListBucketResult/Contents/Key", prefixes dropped) and its text after its last
 * child element, decoded. */
typedef wr_code wr_s3_xml_fn(void *ctx, const char *path, const char *text, wr_err *err);
/* WR_E_DECODE for what is not whole and well-formed, else the first error of fn. */
wr_code wr_s3_xml_read(wr_slice doc, wr_s3_xml_fn *fn, void *ctx, wr_err *err);

#endif
