/* Any bytes as weir.yaml: an error or a configuration, never a crash. */
#include "cli.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wr_err err = WR_ERR_INIT;
    wr_config *c = NULL;
    if (wr_config_parse((const char *)data, size, "/etc/weir/fuzz.yaml", &c, &err) == WR_OK) wr_config_free(c);
    else if (!err.msg[0]) __builtin_trap();
    return 0;
}
