CREATE DATABASE w_procedures_and_prepared DEFAULT CHARACTER SET utf8mb4;
USE w_procedures_and_prepared;
CREATE TABLE t(id INT PRIMARY KEY, v VARCHAR(30)); CREATE TABLE u(n INT AUTO_INCREMENT PRIMARY KEY, v INT); INSERT INTO t VALUES(1,'a'),(2,'b'),(3,'c'); SET GLOBAL log_bin_trust_function_creators=ON;
