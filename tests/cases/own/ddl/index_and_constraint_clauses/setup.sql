CREATE DATABASE w_index_and_constraint_clauses DEFAULT CHARACTER SET utf8mb4;
USE w_index_and_constraint_clauses;
CREATE TABLE t(id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(20), c TEXT, d INT, g POINT NOT NULL, KEY ka(a)); INSERT INTO t VALUES(1,1,'a','x',1,ST_GeomFromText('POINT(1 1)')),(2,2,'b','y',2,ST_GeomFromText('POINT(1 1)')); CREATE TABLE p(id INT PRIMARY KEY); INSERT INTO p VALUES(1),(2),(5);
