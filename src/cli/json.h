/* JSON as the commands read and print it. Private to cli. */
#ifndef WEIR_CLI_JSON_H
#define WEIR_CLI_JSON_H
#include <cjson/cJSON.h>

const char *wr_cli_json_text(const cJSON *o, const char *key); /* "" when it is missing or no text */
void wr_cli_json_print(cJSON *o);                              /* on a line of its own; takes o over */

#endif
