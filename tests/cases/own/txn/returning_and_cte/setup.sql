CREATE DATABASE w_returning_and_cte DEFAULT CHARACTER SET utf8mb4;
USE w_returning_and_cte;
CREATE TABLE t(id INT PRIMARY KEY, v INT); INSERT INTO t VALUES(1,1),(2,2),(3,3);
