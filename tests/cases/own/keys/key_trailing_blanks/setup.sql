CREATE DATABASE w_key_trailing_blanks DEFAULT CHARACTER SET utf8mb4;
USE w_key_trailing_blanks;
CREATE TABLE p(k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT);
CREATE TABLE q(k VARBINARY(20) PRIMARY KEY, v INT);
CREATE TABLE c(k CHAR(10) COLLATE utf8mb4_bin PRIMARY KEY, v INT);
INSERT INTO p VALUES('a ',1),('b',2),('',3); INSERT INTO q VALUES('a',1),('a ',2),('a  ',3),('',4); INSERT INTO c VALUES('a  ',1),('b',2);
