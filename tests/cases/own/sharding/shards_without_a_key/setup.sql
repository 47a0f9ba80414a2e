CREATE DATABASE w_shards_without_a_key DEFAULT CHARACTER SET utf8mb4;
USE w_shards_without_a_key;
CREATE TABLE s_1(a INT, b TEXT); CREATE TABLE s_2 LIKE s_1; INSERT INTO s_1 VALUES(1,'x'),(1,'x'); INSERT INTO s_2 VALUES(1,'x'),(NULL,NULL);
