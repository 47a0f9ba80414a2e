CREATE DATABASE w_composite_with_nulls DEFAULT CHARACTER SET utf8mb4;
USE w_composite_with_nulls;
CREATE TABLE t(a INT, b VARCHAR(5), v INT, UNIQUE KEY(a,b));
INSERT INTO t VALUES(1,NULL,1),(1,NULL,1),(1,NULL,2),(NULL,'x',3),(NULL,NULL,4),(1,'x',5);
