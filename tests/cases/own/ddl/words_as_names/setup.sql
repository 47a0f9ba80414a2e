CREATE DATABASE w_words_as_names DEFAULT CHARACTER SET utf8mb4;
USE w_words_as_names;
CREATE TABLE t(id INT PRIMARY KEY, first INT); INSERT INTO t VALUES(1,1); CREATE TABLE action(id INT PRIMARY KEY, date DATE, time TIME, timestamp TIMESTAMP NULL, year YEAR, text TEXT, bit BIT, enum ENUM('enum'), json JSON, data INT, type INT, status INT, value INT, no INT, begin INT, end INT, comment TEXT, bool BOOL, serial INT, boolean INT, datetime DATETIME); INSERT INTO action(id,enum,year) VALUES(1,'enum',2024);
