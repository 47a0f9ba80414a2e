SET GLOBAL log_bin_trust_function_creators=OFF;
