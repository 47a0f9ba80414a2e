CREATE DATABASE w_row_alias_and_values DEFAULT CHARACTER SET utf8mb4;
USE w_row_alias_and_values;
CREATE TABLE t(id INT PRIMARY KEY, v INT); INSERT INTO t VALUES(1,1),(2,2),(3,3);
