CREATE DATABASE w_key_order_and_positions DEFAULT CHARACTER SET utf8mb4;
USE w_key_order_and_positions;
CREATE TABLE t(z TEXT, k3 DATE NOT NULL, y JSON, k1 BIGINT NOT NULL, x INT, k2 CHAR(3) NOT NULL, PRIMARY KEY(k1,k2,k3));
INSERT INTO t VALUES('a','2024-01-01','{}',1,NULL,'x'),('b','2024-01-02','[]',1,1,'x'),(NULL,'2024-01-01',NULL,2,2,'x');
