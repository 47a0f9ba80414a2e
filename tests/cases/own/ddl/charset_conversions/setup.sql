CREATE DATABASE w_charset_conversions DEFAULT CHARACTER SET utf8mb4;
USE w_charset_conversions;
CREATE TABLE t(id INT PRIMARY KEY, a VARCHAR(20), b TEXT, c CHAR(9), e ENUM('ä','ö'), s SET('é','x'), bin VARBINARY(20)) CHARACTER SET latin1; CREATE TABLE k(k VARCHAR(9) PRIMARY KEY, v INT) CHARACTER SET latin1; INSERT INTO t VALUES(1,'äöü','ß','é','ä','é,x',X'C3A9'),(2,'','','','ö','',''); INSERT INTO k VALUES('ä',1),('z',2);
