CREATE DATABASE w_implicit_defaults DEFAULT CHARACTER SET utf8mb4;
USE w_implicit_defaults;
SET sql_mode='';
CREATE TABLE t(id INT PRIMARY KEY); INSERT INTO t VALUES(1),(2);
