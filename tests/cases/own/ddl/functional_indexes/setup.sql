CREATE DATABASE w_functional_indexes DEFAULT CHARACTER SET utf8mb4;
USE w_functional_indexes;
CREATE TABLE t(id INT PRIMARY KEY, a INT, b VARCHAR(20), j JSON, UNIQUE KEY u((UPPER(b))), KEY m((CAST(j->'$.t' AS CHAR(20) ARRAY)))); INSERT INTO t VALUES(1,1,'a','{"t":["x","y"]}'),(2,2,'b',NULL);
CREATE TABLE k(a INT, b TEXT, KEY f((a*2),(LEFT(b,3)))); INSERT INTO k VALUES(1,'abc'),(1,'abc');
