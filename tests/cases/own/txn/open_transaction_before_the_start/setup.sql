CREATE DATABASE w_open_transaction_before_the_start DEFAULT CHARACTER SET utf8mb4;
USE w_open_transaction_before_the_start;
CREATE TABLE t(id INT PRIMARY KEY, v INT); CREATE TABLE u(id INT PRIMARY KEY, v INT); INSERT INTO t VALUES(1,1),(2,2); INSERT INTO u VALUES(1,1),(2,1);
-- @conn a
USE w_open_transaction_before_the_start; BEGIN; INSERT INTO t VALUES(10,10); UPDATE t SET v=11 WHERE id=1; INSERT INTO u VALUES(5,5),(6,1);
