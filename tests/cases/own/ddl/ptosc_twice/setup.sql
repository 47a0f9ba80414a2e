CREATE DATABASE w_ptosc_twice DEFAULT CHARACTER SET utf8mb4;
USE w_ptosc_twice;
CREATE TABLE orders(id INT PRIMARY KEY, v VARCHAR(20)); INSERT INTO orders VALUES(1,'a'),(2,'b'),(3,'c');
