CREATE DATABASE w_columns_swap_and_shift DEFAULT CHARACTER SET utf8mb4;
USE w_columns_swap_and_shift;
CREATE TABLE t(id INT PRIMARY KEY, a INT, b VARCHAR(9), c DATE, d INT); INSERT INTO t VALUES(1,1,'b1','2024-01-01',10),(2,2,'b2','2024-02-02',20);
