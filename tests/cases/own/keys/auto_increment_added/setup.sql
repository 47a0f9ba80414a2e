CREATE DATABASE w_auto_increment_added DEFAULT CHARACTER SET utf8mb4;
USE w_auto_increment_added;
CREATE TABLE a(v VARCHAR(5)); INSERT INTO a VALUES('x'),('y'),('z'); CREATE TABLE b(k INT PRIMARY KEY, v VARCHAR(5)); INSERT INTO b VALUES(5,'x'),(3,'y'),(9,'z');
