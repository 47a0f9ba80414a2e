CREATE DATABASE w_nullable_to_not_null_and_back DEFAULT CHARACTER SET utf8mb4;
USE w_nullable_to_not_null_and_back;
SET sql_mode='';
CREATE TABLE t(id INT PRIMARY KEY, a INT, b VARCHAR(9), c DATE, d ENUM('x','y'), e TIMESTAMP NULL);
INSERT INTO t VALUES(1,NULL,NULL,NULL,NULL,NULL),(2,2,'b','2024-01-01','y','2024-01-01');
