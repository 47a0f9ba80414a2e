CREATE DATABASE w_key_moves_in_one_statement DEFAULT CHARACTER SET utf8mb4;
USE w_key_moves_in_one_statement;
CREATE TABLE t(id INT PRIMARY KEY, v VARCHAR(9)); INSERT INTO t VALUES(1,'a'),(2,'b'),(3,'c'),(4,'d'),(10,'j');
CREATE TABLE u(id INT PRIMARY KEY, c INT NOT NULL UNIQUE, v INT); INSERT INTO u VALUES(1,1,1),(2,2,2),(3,3,3);
CREATE TABLE s(k VARCHAR(5), n INT, v INT, PRIMARY KEY(k,n)); INSERT INTO s VALUES('a',1,1),('a',2,2),('b',1,3);
