CREATE DATABASE w_defaults_by_expression DEFAULT CHARACTER SET utf8mb4;
USE w_defaults_by_expression;
SET timestamp=1700000000; CREATE TABLE t(id INT PRIMARY KEY, v INT); INSERT INTO t VALUES(1,1),(2,2),(3,3);
