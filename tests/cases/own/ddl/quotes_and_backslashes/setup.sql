CREATE DATABASE w_quotes_and_backslashes DEFAULT CHARACTER SET utf8mb4;
USE w_quotes_and_backslashes;
CREATE TABLE t(id INT PRIMARY KEY); INSERT INTO t VALUES(1);
