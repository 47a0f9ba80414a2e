CREATE DATABASE w_invisible_primary_key DEFAULT CHARACTER SET utf8mb4;
USE w_invisible_primary_key;
SET sql_generate_invisible_primary_key=ON;
CREATE TABLE t(a INT, b VARCHAR(5)); INSERT INTO t VALUES(1,'x'),(1,'x'),(2,'y');
