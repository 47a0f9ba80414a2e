CREATE DATABASE w_ghost_with_everything_captured DEFAULT CHARACTER SET utf8mb4;
USE w_ghost_with_everything_captured;
CREATE TABLE t(id INT PRIMARY KEY, v VARCHAR(20)); CREATE TABLE k(v INT); INSERT INTO t VALUES(1,'a'),(2,'b'); INSERT INTO k VALUES(1),(1);
