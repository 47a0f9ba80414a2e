CREATE DATABASE w_key_dropped_and_added DEFAULT CHARACTER SET utf8mb4;
USE w_key_dropped_and_added;
CREATE TABLE t(id INT NOT NULL PRIMARY KEY, v INT); INSERT INTO t VALUES(1,1),(2,2),(3,3);
