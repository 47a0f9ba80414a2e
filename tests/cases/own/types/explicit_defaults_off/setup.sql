CREATE DATABASE w_explicit_defaults_off DEFAULT CHARACTER SET utf8mb4;
USE w_explicit_defaults_off;
SET explicit_defaults_for_timestamp=OFF, sql_mode='', timestamp=1700000000;
CREATE TABLE t(id INT PRIMARY KEY, a TIMESTAMP, b TIMESTAMP, c TIMESTAMP NULL);
INSERT INTO t(id) VALUES(1); INSERT INTO t VALUES(2,NULL,NULL,NULL);
