CREATE DATABASE w_alter_ignore DEFAULT CHARACTER SET utf8mb4;
USE w_alter_ignore;
CREATE TABLE t(id INT PRIMARY KEY, v INT, w VARCHAR(9)); INSERT INTO t VALUES(1,1,'a'),(2,1,'b'),(3,2,'c'),(4,2,'d');
