#include <stdio.h>
#include "json.h"

const char *wr_cli_json_text(const cJSON *o, const char *key) {
    const char *t = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    return t ? t : "";
}

void wr_cli_json_print(cJSON *o) {
    char *t = cJSON_PrintUnformatted(o);
    if (t) puts(t);
    cJSON_free(t);
    cJSON_Delete(o);
}
